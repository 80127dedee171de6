/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SUPERVISOR_LANES_H
#define CBX_SUPERVISOR_LANES_H

/*
 * Lanes keep short cells short beside a session that computes. A cell is a chain of hand-overs between processes that
 * each run for parts of a millisecond, and beside one that wants a whole processor each of them may wait for the
 * scheduler's next tick; a fair share, which weights give, does not help with that. So while sessions that compute run
 * beside others that are in use, the machine's processors are divided: these get some, those get the rest. Affinity
 * (sched_setaffinity(2)) is a means that needs no privilege and can be undone; a session cannot undo it where its
 * profile refuses that call, as all but `dev` do. Sessions of that profile choose for themselves: they are in no lane.
 */
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "supervisor/watch.h"

/* How much of a processor a sandbox uses, as looks tell it. */
struct cbx_pace {
	uint64_t cpu_ns, at_ms;    /* at the last look; at_ms 0: there was none */
	uint64_t busy_ms;	   /* when it last used much */
	uint64_t used_ms;	   /* when a client last used it; 0: never */
	unsigned share;		   /* between the last two looks, in thousandths of one processor */
	bool slow;		   /* it computes: it belongs into the slow lane */
	unsigned undo;		   /* it has been put into a lane: how often it is to be taken out again */
};

struct cbx_lanes {
	cpu_set_t all;		/* that we may use */
	cpu_set_t quick, slow;	/* while `on`: these divided */
	unsigned much;		/* from this number of thousandths of a processor on a sandbox computes */
	bool on;
	bool able;		/* there are two processors, and few enough for a cpu_set_t */
};

void cbx_lanes_init(struct cbx_lanes *l);
/* Which processors we may use can change: a cpuset's are set anew, or one comes or goes. */
void cbx_lanes_refresh(struct cbx_lanes *l);
/* False: it is too soon after the last look. */
bool cbx_pace_take(struct cbx_pace *p, const struct cbx_lanes *l, uint64_t cpu_ns, uint64_t now_ms);

/* What all sandboxes together want; add each, then divide. */
struct cbx_demand {
	bool slow, quick; /* there is a sandbox that computes; one that does not, and is in use */
	unsigned share;   /* of those that do not, as above */
	unsigned busy;	  /* how many use a processor for more than moments */
};
void cbx_demand_add(struct cbx_demand *d, const struct cbx_pace *p, uint64_t now_ms);
/* The quick get twice what they use, at least one processor and at most half of them; where that would be too few for
 * them, nothing is divided. Who uses two fifths of a processor computes; less, where those that are busy are more than
 * can have that. */
void cbx_lanes_divide(struct cbx_lanes *l, const struct cbx_demand *d);

/* Put a sandbox's processes where they belong now: init, and those of the look. New ones inherit it. */
void cbx_lanes_place(const struct cbx_lanes *l, struct cbx_pace *p, pid_t init, const struct cbx_look *look);

#endif
