/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CGROUP_PARSE_H
#define CBX_CGROUP_PARSE_H

/*
 * What the kernel says about control groups, as text in and values out: no file is opened here. The texts are of
 * cgroups(7), proc(5) and the kernel's cgroup-v2.rst. They need not be terminated.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define CBX_CGROUP_PATH_MAX 4096

struct cbx_cgroup_self {
	bool v1;			/* a version 1 hierarchy holds controllers: version 2 has none, or not all */
	char path[CBX_CGROUP_PATH_MAX]; /* of our group in the version 2 tree, from "/"; "": there is no such tree */
};

/* /proc/self/cgroup: lines "NUMBER:CONTROLLERS:PATH"; version 2 is "0::PATH". -EINVAL: it is not of that form. */
int cbx_cgroup_parse_self(const char *text, size_t len, struct cbx_cgroup_self *ret, struct cbx_err *err);

/* /proc/self/mountinfo: the directory at which a mount of cgroup2 shows the group `path`. -ENOENT: none does. */
int cbx_cgroup_parse_mounts(const char *text, size_t len, const char *path, char ret[CBX_CGROUP_PATH_MAX],
			    struct cbx_err *err);

/* cgroup.controllers, cgroup.subtree_control: words apart by spaces; those that we know, as bits. */
enum cbx_controller {
	CBX_CONTROLLER_MEMORY = 1,
	CBX_CONTROLLER_PIDS = 2,
	CBX_CONTROLLER_CPU = 4,
	CBX_CONTROLLER_IO = 8,
};
unsigned cbx_cgroup_parse_controllers(const char *text, size_t len);

/* "KEY NUMBER" on a line of its own, as in cpu.stat and memory.events. False: it is not there. */
bool cbx_cgroup_parse_value(const char *text, size_t len, const char *key, uint64_t *ret);
/* A file of one number, as memory.current. "max" is not a number. */
bool cbx_cgroup_parse_number(const char *text, size_t len, uint64_t *ret);
/* io.stat: bytes of all devices. */
void cbx_cgroup_parse_io(const char *text, size_t len, uint64_t *ret_read, uint64_t *ret_written);

#endif
