/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SESSION_HAPPENED_H
#define CBX_SESSION_HAPPENED_H

/*
 * What is worth counting and keeping of what the engine does, for whom. An observer is called at once, and only takes
 * notice: it does not call the engine. All pointers are borrowed for the call.
 */
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

struct cbx_engine;
struct cbx_via;

enum cbx_happening {
	CBX_HAPPENED_MADE,     /* a session was asked for, and is being made */
	CBX_HAPPENED_READY,    /* it is: duration_ms since then */
	CBX_HAPPENED_CLOSED,   /* it has ended: outcome is "closed" or "failed", and why; its use */
	CBX_HAPPENED_CELL,     /* a cell was queued */
	CBX_HAPPENED_RAN,      /* it has ended: outcome, wait_ms in the queue, duration_ms, its use */
	CBX_HAPPENED_COMMAND,  /* a command was begun */
	CBX_HAPPENED_EXITED,   /* it has ended: outcome, duration_ms */
	CBX_HAPPENED_PACKAGES, /* packages were installed, or not: outcome is "ok" or "failed", and why */
	CBX_HAPPENED_QUERY,    /* a database was asked: outcome is "ok" or the kind of the error, and why; duration_ms */
	CBX_HAPPENED_NETWORK,  /* the proxy of a session decided something for the first time: why */
	CBX_HAPPENED_DENIED,   /* what was asked for was refused: outcome is the kind of the error, and why */
	CBX_HAPPENED_INTERRUPTED, /* somebody wants a cell to end */
	CBX_HAPPENED_RESTARTED,   /* and likewise interpreters: that of a language, or all */
	CBX_HAPPENINGS,
};

struct cbx_happened {
	enum cbx_happening what;
	const char *tenant;	/* NULL: nobody who is known */
	const struct cbx_via *via; /* principal.h; NULL: not known, or nobody asked */
	const char *session_id; /* NULL: of none */
	uint64_t id;		/* of the cell or command in its session; 0: none */
	const char *outcome, *why;
	const char *language, *code; /* a cell was queued, or refused; a language was restarted */
	const cJSON *argv;	     /* likewise a command */
	const char *image;	     /* a session was made */
	const char *database;	     /* by its name in the policy, or the path of a file of the session; with code, the query */
	const char *policy;	     /* likewise: the digest of what is in force */
	uint64_t wait_ms, duration_ms;
	uint64_t cpu_us, memory_peak; /* 0: not known */
};

struct cbx_observer {
	void (*happened)(void *arg, const struct cbx_happened *h);
	void *arg;
};

/* One session as it is: what it uses is as of the last time that somebody looked. */
struct cbx_session_load {
	const char *tenant, *session_id;
	enum { CBX_LOAD_STARTING, CBX_LOAD_IDLE, CBX_LOAD_BUSY } state;
	uint64_t memory_bytes, cpu_us;
};
void cbx_engine_loads(const struct cbx_engine *engine, void (*one)(void *arg, const struct cbx_session_load *load),
		      void *arg);

#endif
