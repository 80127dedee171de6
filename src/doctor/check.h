/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_DOCTOR_CHECK_H
#define CBX_DOCTOR_CHECK_H

/*
 * One check: what it found, what that means and, unless all is well, how to put it right. A check fills its result and
 * never fails itself.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/dirs.h"
#include "doctor/probe.h"

enum cbx_check_state { CBX_CHECK_OK, CBX_CHECK_DEGRADED, CBX_CHECK_FAILED };

struct cbx_result {
	enum cbx_check_state state;
	char found[256];
	char means[320];
	char remedy[560]; /* empty when state is OK */
};

struct cbx_doctor {
	const struct cbx_dirs *dirs;
	struct cbx_service service;
	struct cbx_probe_report ns; /* of the namespace probe, run once */
	bool ns_done;
};

void cbx_result_set(struct cbx_result *r, enum cbx_check_state state, const char *found, const char *means,
		    const char *remedy);

void cbx_check_kernel(struct cbx_doctor *d, struct cbx_result *r);
void cbx_check_syscalls(struct cbx_doctor *d, struct cbx_result *r);
void cbx_check_namespaces(struct cbx_doctor *d, struct cbx_result *r);
void cbx_check_overlay(struct cbx_doctor *d, struct cbx_result *r);
void cbx_check_seccomp(struct cbx_doctor *d, struct cbx_result *r);
void cbx_check_landlock(struct cbx_doctor *d, struct cbx_result *r);

void cbx_check_cgroup(struct cbx_doctor *d, struct cbx_result *r);
void cbx_check_subids(struct cbx_doctor *d, struct cbx_result *r);
void cbx_check_runtime(struct cbx_doctor *d, struct cbx_result *r);
void cbx_check_helpers(struct cbx_doctor *d, struct cbx_result *r);
void cbx_check_images(struct cbx_doctor *d, struct cbx_result *r);
void cbx_check_disk(struct cbx_doctor *d, struct cbx_result *r);
void cbx_check_memory(struct cbx_doctor *d, struct cbx_result *r);
void cbx_check_open_network(struct cbx_doctor *d, struct cbx_result *r);
void cbx_check_apt(struct cbx_doctor *d, struct cbx_result *r);
void cbx_check_service(struct cbx_doctor *d, struct cbx_result *r);

/* The whole number that a small file of /proc or /sys holds; false when there is none. */
bool cbx_read_number(const char *path, long long *ret);

#endif
