/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SUPERVISOR_COUNT_H
#define CBX_SUPERVISOR_COUNT_H

/*
 * A child of the supervisor that counts what processes share, and does nothing else. To count, the kernel walks a
 * process's page tables under a lock that this process can keep busy: whoever asks can hang. So that is a process which
 * nobody waits for. It is made when it is first needed; one that gives no answer in time is killed, and another is made.
 * It counts a few processes at once, for a while at most, and says how far it came.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/limits.h"
#include "supervisor/watch.h"

#define CBX_COUNT_AT_ONCE 64

struct cbx_counter {
	pid_t pid; /* 0: none */
	int sock;
	uint64_t of;	     /* what is being counted, as its caller names it; 0: nothing */
	uint64_t asked_ms;
};

struct cbx_counted {
	uint64_t of;
	uint32_t n;	  /* of those who were asked for, the first */
	uint32_t cost_ms; /* of a processor */
	struct cbx_set sets[CBX_COUNT_AT_ONCE];
};

/* Have n > 0 processes counted; no other count is under way. False: it cannot be asked now. */
bool cbx_counter_ask(struct cbx_counter *c, uint64_t of, const struct cbx_process *p, size_t n);
/* 1: an answer. 0: none yet. -1: it has ended, or was killed because it took longer than CBX_WATCH_HANG_MS. */
int cbx_counter_answer(struct cbx_counter *c, struct cbx_counted *ret);

void cbx_counter_end(struct cbx_counter *c);
/* Was it this? Then it is forgotten, and what was asked of it is answered with -1. */
bool cbx_counter_reaped(struct cbx_counter *c, pid_t pid);

#endif
