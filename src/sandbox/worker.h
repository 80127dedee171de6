/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_WORKER_H
#define CBX_SANDBOX_WORKER_H

/*
 * Programs that do one kind of job for codeboxd, or for a command, with bytes that come from elsewhere: a process for
 * each job, which gives up what the job does not need before it looks at them.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "sandbox/seccomp.h"

#define CBX_WORKER_ANY UINT64_MAX /* as it is */

/*
 * The start of such a program of codeboxd's: it leaves no core, knows its filter (seccomp.h), and as root becomes the
 * service's account. Nobody waits for its children.
 */
int cbx_worker_begin(const char *filter_name, struct cbx_filter *ret, struct cbx_err *err);

struct cbx_worker {
	/* What it can open, by Landlock; what is open already stays so. A kernel without Landlock goes without. */
	const char *const *readable; /* files, and directories with all beneath; NULL, or not there: skipped */
	size_t nreadable;
	bool network;		     /* TCP, and what TLS and names of hosts are read from */
	const char *certificates[2]; /* with `network`: further ones; NULL: none */
	int dir;		     /* that it reads and changes; -1: none */
	/* The rest is limits (setrlimit(2)); no core dump in any case. */
	uint64_t file_bytes, descriptors, memory_bytes, cpu_s;
};

/* For the calling process, which has one thread; there is no way back. */
int cbx_worker_confine(const struct cbx_worker *w, const struct cbx_filter *filter, struct cbx_err *err);

/*
 * Take jobs from a socket of codeboxd, each a socket of its own, and fork for each: serve() is that process, and does
 * not return. Returns when codeboxd has gone.
 */
void cbx_worker_take_jobs(int sock, void (*serve)(int sock, void *arg), void *arg);

#endif
