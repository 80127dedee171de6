/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_DAEMON_LIFECYCLE_H
#define CBX_DAEMON_LIFECYCLE_H

/* When the daemon ends: when nobody has used it for some time, by signals, and because somebody asks for it. */
#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct cbx_lifecycle_ops {
	bool (*in_use)(void *arg);   /* there is a client or a session */
	size_t (*accept)(void *arg); /* clients that have come meanwhile */
	bool (*hide)(void *arg);     /* so that nobody new finds the daemon; false: they do */
	void (*reload)(void *arg);   /* SIGHUP, unless it means that the terminal has gone */
	void (*drain)(void *arg);    /* nobody new is to come; those that there are stay */
};

struct cbx_lifecycle {
	struct event_base *base;
	const struct cbx_lifecycle_ops *ops;
	void *arg;
	const char *state_dir;	/* of the log */
	int lock_fd;		/* <runtime>/lock; -1: none. The caller's */
	unsigned idle_s;	/* 0: it never ends by itself */
	bool hidden;		/* nobody new comes: it ends with the last client */
	bool draining;		/* likewise, once there is neither client nor session */
	bool stopping;
	int exit_status;
	struct event *idle, *term, *intr, *hup, *usr1, *rotate;
	bool on_terminal; /* standard error is one */
};

/* The members up to idle_s are set before. */
int cbx_lifecycle_start(struct cbx_lifecycle *lc, struct cbx_err *err);
void cbx_lifecycle_check(struct cbx_lifecycle *lc); /* a client or session has gone */
void cbx_lifecycle_stop(struct cbx_lifecycle *lc, int status, const char *why);
void cbx_lifecycle_drain(struct cbx_lifecycle *lc); /* it ends as soon as nobody uses it */
void cbx_lifecycle_release(struct cbx_lifecycle *lc);

#endif
