/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SESSION_INTERNAL_H
#define CBX_SESSION_INTERNAL_H

/*
 * What the files of the session engine share. Its interpreters are in src/interp, its executions in src/execution.
 *
 * Each of these files calls those below it only:
 *
 *   engine.c    the engine as a whole; events.c: what boxes and the supervisor say goes to those whom it concerns
 *   asking.c    what programs in a session ask for
 *   create.c    a session that somebody asks for
 *   pool.c      sessions that are made before they are asked for
 *   life.c      one session from its making to its end, and its timers
 *   packages.c  packages that a session installs; jobs.c: what another program does for that
 *   sql.c       databases that are asked, and files of a session that results are written to
 *   keep.c      files of an execution that live on; artifacts.c: what is asked of codebox-store
 *   cells.c     a session's cells: what protocols ask of them, and what they say
 *   commands.c  likewise its commands
 *   languages.c which interpreter is to run a cell, and how it is started
 *   zygotes.c   interpreters that are warm before their session is there
 *   observed.c  what the log says, and what sessions use
 *   registry.c  sessions by id, tombstones, who learns of them, and what has happened in each
 *   spec.c      what a client may ask for; terms.c: what policies make of it; plan.c: and what that means for a sandbox
 *   live.c      what it uses now; report.c: a session as JSON
 *
 * Ownership and re-entrancy. A session is freed in one place, at the end of its `work` event, and only when the
 * supervisor has said that the sandbox is gone; until then its memory stays, in state CBX_CLOSING. Everything that
 * calls back to a protocol about an ending (operations of any kind) does so from `work`, so a protocol may call
 * anything of session.h from its callbacks, and nothing it holds is freed under it. Where an execution ends while no
 * call of a protocol is under way (its interpreter said so), its end is reported at once for speed (go_on()).
 */
#include <event2/event.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/queue.h"
#include "base/rate.h"
#include "base/timer.h"
#include "box/box.h"
#include "cgroup/group.h"
#include "cgroup/parse.h"
#include "command/commands.h"
#include "execution/cells.h"
#include "image/store.h"
#include "policy/policy.h"
#include "runtimes/runtime.h"
#include "session/engine-config.h"
#include "session/happened.h"
#include "session/looks.h"
#include "session/registry.h"
#include "supervisor/requests.h"

/* ---- engine ---- */

struct cbx_install;
struct cbx_resolved;
struct cbx_sql_query;
TAILQ_HEAD(cbx_sql_queries, cbx_sql_query);
TAILQ_HEAD(cbx_installs, cbx_install);

struct cbx_engine {
	struct event_base *base;
	struct cbx_engine_config config; /* strings are our own copies */
	struct cbx_policy *policy; /* of new sessions */
	char **mounts; /* its directories, as they were really called when it came into force */
	bool mountable; /* the supervisor was started with mounts */
	struct cbx_boxes boxes;
	struct cbx_runtimes runtimes;
	struct cbx_image image; /* that a session was made of last: its manifest is seldom read anew */
	cJSON *stored; /* what the store had at stored_ms; NULL: nobody has asked */
	uint64_t stored_ms;
	struct cbx_session_registry registry;
	struct cbx_keeping keeping; /* ended executions of all sessions */
	size_t commands;	  /* that run in all sessions */
	size_t starting, running; /* sessions that are being made, and those that run a cell; without ready ones */
	uint64_t changed_ms;	  /* when one of these was ready or ended: the pool waits for quiet */
	struct cbx_pool *pool;
	const struct cbx_pool_events *pool_events; /* NULL: there is no pool */
	struct cbx_zygotes *zygotes; /* NULL: they are off */
	struct cbx_jobs *jobs; /* what installs packages; NULL: nothing does */
	struct cbx_artifacts *artifacts; /* NULL: none are kept */
	struct cbx_jobs *upload_jobs;	 /* what uploads them; NULL: the policy had no store at the start */
	struct cbx_installs installs; /* under way */
	struct cbx_resolved *resolved; /* answers that are kept for others; NULL: none yet */
	const struct cbx_packages_events *packages_events;
	struct cbx_jobs *sql_jobs;	  /* what asks databases; NULL: the policy had none at the start */
	struct cbx_sql_queries queries;	  /* under way */
	struct cbx_err *trouble; /* code 0: none; behind a pointer since a const engine may complete it */
	bool *diagnosed;
	bool freeing;
};

/* What the pool is to know of sessions, which stand below it. */
struct cbx_pool_events {
	void (*ready)(struct cbx_session *s);			       /* one with a shape */
	void (*lost)(struct cbx_session *s, const struct cbx_err *why); /* it ends; why: it failed. It has no shape then */
};

/* What packages are to know of sessions, which stand below them. */
struct cbx_packages_events {
	/* Install packages before it does anything else; it fails if they cannot be had. */
	int (*outfit)(const struct cbx_caller *by, struct cbx_session *s, const cJSON *packages, struct cbx_err *err);
	void (*ready)(struct cbx_session *s); /* its sandbox is there */
	void (*attached)(struct cbx_session *s, const struct cbx_err *err); /* err NULL: its sandbox has the directory */
	void (*leave)(struct cbx_session *s);	/* it ends: what is under way is given up */
	void (*release)(struct cbx_session *s); /* its sandbox is gone, and so may its directories be */
};

/* ---- session ---- */

/* Somebody who waits for a description. */
struct cbx_asker {
	TAILQ_ENTRY(cbx_asker) entry;
	struct cbx_op *op;
};

/* A program in the session (asking.c). */
struct cbx_asking {
	uint64_t number; /* of its question; 0: there is none */
	cJSON *question; /* until its turn has come */
	bool queries;	 /* it is one for a database, else for packages */
	struct event *timer;
	struct cbx_rate rate;
	struct cbx_ops ops;
	struct cbx_answer_op op;
};

enum cbx_session_state { CBX_STARTING, CBX_LIVE, CBX_CLOSING };

struct cbx_session {
	TAILQ_ENTRY(cbx_session) entry; /* in engine.sessions, or in the pool while it has a shape */
	LIST_ENTRY(cbx_session) by_id;
	bool named;
	struct cbx_engine *engine;
	struct cbx_pool_shape *shape; /* it is nobody's yet: made ahead of time */
	struct cbx_image_mark image_mark;
	struct cbx_session_spec spec;
	uint64_t serial;		   /* no other has it, be it of the same name; 0: it is nobody's yet */
	char tenant[CBX_NAME_MAX + 1];     /* whose it is */
	struct cbx_rate *executions;	   /* its owner's; NULL: no limit */
	uint64_t cpus_max;		   /* likewise, in thousandths; 0: none */
	struct cbx_policy *policy;         /* in force: the engine's of then, or that as its request narrowed it */
	bool narrowed;
	struct cbx_environment environment; /* of the policy and the request */
	cJSON *lowered;                    /* names of what the policy lowered */
	char *asked;                       /* environment and mounts of the request, as text; NULL: none */
	struct cbx_naming *naming;	   /* what its mounts are really called is being found */
	cJSON *wanted;			   /* these mounts; NULL: none are, or all is known */
	struct cbx_plan *plan;		   /* that waits for them; else NULL */
	struct cbx_mounts mounts;
	enum cbx_session_state state;
	struct cbx_box box;
	bool was_live;
	bool nobodys; /* it was given up in the pool */
	bool in_work;
	struct cbx_op *ready; /* of whoever made it; NULL: nobody waits */
	struct cbx_err end; /* CLOSING: why */
	TAILQ_HEAD(, cbx_asker) askers;
	struct cbx_buf spawn; /* payload of the SPAWN request */
	char *directory;      /* of its image, for commands; NULL: they start in the workspace */
	cJSON *program;	      /* that its image is made to run; NULL: none */
	cJSON *interpreters;  /* of its image: those of other languages are started when they are needed */
	struct cbx_buf base;  /* the same without this session's own variables: a zygote was started with it */
	char *preload;	      /* modules, from the image: "numpy,pandas"; NULL: its interpreters come from no zygote */
	bool used;	      /* an interpreter was started: the next one will not come from a zygote */
	bool warm;	      /* its interpreter comes from one */
	struct cbx_cells cells; /* and their interpreters */
	struct cbx_commands commands;
	struct cbx_install *install; /* of packages, under way; NULL: none is */
	struct cbx_packages *packages; /* that were installed; NULL: none */
	struct cbx_asking asking;
	unsigned queries;	     /* of databases that are under way, and end in a file of it or ask one */
	struct cbx_keep *keep;	     /* files of a cell that are being kept; NULL: none are */
	LIST_HEAD(, cbx_keep) keeps; /* those, and others */
	bool has_packages; /* it was made so that it can have some */
	bool outfitting; /* those that it was asked for with are being installed: it is not ready */
	struct event *work, *start_timer, *ttl_timer, *idle_timer;
	struct timespec created;
	uint64_t created_ms, used_ms;
	uint64_t cells_cpu_us; /* as its interpreters say, where there is no control group */
	struct cbx_live live;
	uint64_t told_ms; /* when the supervisor learned last that it is used; 0: it waits in the pool */
};

/* Described, not begun. owner: whom it is for; NULL: nobody yet, and the engine's policy is enough. */
int cbx_session_make(struct cbx_engine *engine, const struct cbx_principal *owner, const struct cbx_session_spec *spec,
		     struct cbx_plan *ret_plan, struct cbx_session **ret, struct cbx_err *err);
int cbx_session_begin(struct cbx_session *s, const struct cbx_plan *plan, struct cbx_err *err);
void cbx_session_serve_network(struct cbx_session *s); /* its sandbox is begun, and it is somebody's */
void cbx_session_free(struct cbx_session *s); /* it is in no list */
/* What a caller asked for was refused; err: why. session_id and what it was may be set. Returns -err->code. */
int cbx_engine_denied(struct cbx_engine *engine, const char *tenant, struct cbx_happened *h, const struct cbx_err *err);
bool cbx_session_busy(const struct cbx_session *s); /* somebody waits for something that it does */
void cbx_session_tell_ready(struct cbx_session *s); /* those who look */
/* One more cell or command of its owner; "too_many_executions": not now. */
int cbx_session_rate(struct cbx_session *s, struct cbx_err *err);
/* for the log */
void cbx_session_note(struct cbx_session *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Its policy lets it reach something by its proxy, and it has sockets to do so: the strict profile has none. */
static inline bool cbx_session_goes_out(const struct cbx_session *s)
{
	return s->policy->network.allow && s->spec.profile != CBX_PROFILE_STRICT;
}

/* Likewise, and what it reaches it reaches by a route of its own: there is no proxy. */
static inline bool cbx_session_is_open(const struct cbx_session *s)
{
	return s->policy->network.open && s->spec.profile != CBX_PROFILE_STRICT;
}

void cbx_session_work(struct cbx_session *s);				 /* have `work` run soon */
void cbx_session_fail(struct cbx_session *s, const struct cbx_err *err); /* close, with an error for on_ready */
void cbx_session_run_work(struct cbx_session *s);			 /* it may be freed by that */
void cbx_session_start_interpreter(struct cbx_session *s);
void cbx_session_live(struct cbx_session *s); /* what it is to run can run */
extern const struct cbx_cells_events cbx_session_cells_events;
/* commands.c */
extern const struct cbx_commands_events cbx_session_commands_events;
/* events.c */
extern const struct cbx_box_events cbx_session_box_events; /* arg: the engine */
/* report.c */
void cbx_session_tell_askers(struct cbx_session *s, const struct cbx_err *err); /* err NULL: it was measured */

/* ---- artifacts.c ---- */

int cbx_artifacts_new(struct cbx_engine *engine, struct cbx_err *err); /* before codeboxd confines itself */
void cbx_artifacts_free(struct cbx_engine *engine);

/* ---- packages.c ---- */

extern const struct cbx_packages_events cbx_packages_events;
void cbx_packages_end(struct cbx_engine *engine); /* of the engine: what is under way is given up */

#endif
