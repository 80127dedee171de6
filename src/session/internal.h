/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SESSION_INTERNAL_H
#define CBX_SESSION_INTERNAL_H

/*
 * What the files of the session engine share. Nothing outside src/session/ includes this.
 *
 *   engine.c           sessions by id, tombstones, limits on their number
 *   supervisor_link.c  the socket to the supervisor: requests out, events in
 *   session.c          one session from creation to its end, and its timers
 *   pool.c             sessions that are made before they are asked for
 *   zygotes.c          interpreters that are warm before their session is there
 *   spec.c             what a client may ask for; terms.c: what the policy makes of it
 *   mounts.c           directories of the machine: which of them a session may be shown
 *   init_client.c      the socket to a sandbox's init: requests out, answers in
 *   interpreter.c      one interpreter process: spawn, frames, signals, death
 *   pipes.c            what it prints
 *   frames.c           one frame: checked, then turned into what happened; bundle.c: what it shows
 *   execution.c        one cell: start, interrupt, end
 *   query.c            questions about code, between cells
 *   report.c           sessions and executions as JSON
 *   output.c           bounded record of what was printed; spill.c: the whole of it, in a file of the session
 *   entries.c          a list of files from init: well-formed?
 *   files.c            file access through init
 *   hints.c            errors that a limit explains
 *   hold.c             executions that a client comes back for
 *   watch.c            who is told what an execution does; news.c: who is told what sessions do
 *   changes.c          the files that an execution changed; mime.c: their types and names
 *   group.c            a session's control group: limits, use, rest
 *
 * Ownership and re-entrancy. A session is freed in one place, at the end of its `work` event, and only when the
 * supervisor has said that the sandbox is gone; until then its memory stays, in state CBX_CLOSING. Everything that
 * calls back to a protocol about an ending (on_ready, on_end, failed requests) does so from `work`, so a protocol may
 * call anything of session.h from its callbacks, and nothing it holds is freed under it.
 */
#include <event2/event.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "cgroup/group.h"
#include "cgroup/parse.h"
#include "image/store.h"
#include "policy/policy.h"
#include "sandbox/init-protocol.h"
#include "session/output.h"
#include "session/session.h"
#include "supervisor/requests.h"

#ifndef TAILQ_FOREACH_SAFE
#define TAILQ_FOREACH_SAFE(var, head, field, tvar)                                                                     \
	for ((var) = TAILQ_FIRST((head)); (var) && ((tvar) = TAILQ_NEXT((var), field), 1); (var) = (tvar))
#endif

/* ---- the supervisor's socket ---- */

struct cbx_link_item {
	TAILQ_ENTRY(cbx_link_item) entry;
	struct cbx_request request;
	int fds[4]; /* closed when sent */
	size_t nfds;
};
TAILQ_HEAD(cbx_link_items, cbx_link_item);

enum cbx_link_state { CBX_LINK_STARTING, CBX_LINK_UP, CBX_LINK_DOWN };

struct cbx_link {
	enum cbx_link_state state;
	int sock;
	pid_t stage;	  /* the process that we forked; the supervisor proper is another child */
	int stage_status; /* its wait status, -1 before it ended */
	struct event *in, *out;
	struct cbx_link_items queue; /* requests that the socket had no room for */
	struct cbx_facts facts;
	struct cbx_err why; /* DOWN */
};

int cbx_link_start(struct cbx_engine *engine, struct cbx_err *err);
void cbx_link_stop(struct cbx_engine *engine);
/* fds are taken; those of the control groups may be -1. */
void cbx_link_create(struct cbx_engine *engine, uint64_t sandbox, const struct cbx_plan *plan, int fds[3]);
void cbx_link_move(struct cbx_engine *engine, uint64_t sandbox);    /* cbx_group_gathered() follows */
void cbx_link_used(struct cbx_engine *engine, uint64_t sandbox);
void cbx_link_measure(struct cbx_engine *engine, uint64_t sandbox); /* cbx_group_measured() follows */
/* false: the supervisor never heard of it, no CBX_EVENT_GONE will come */
bool cbx_link_destroy(struct cbx_engine *engine, uint64_t sandbox);
/* Start a zygote; takes *fd, the file with its arguments and environment. */
void cbx_link_zygote(struct cbx_engine *engine, uint64_t number, const struct cbx_plan *plan, int *fd);
void cbx_link_zygote_end(struct cbx_engine *engine, uint64_t number);
void cbx_link_enter(struct cbx_engine *engine, uint64_t sandbox, uint64_t zygote, int fds[4]); /* takes fds */
/* Take in what has arrived already: an event that explains a death may be waiting beside the news of it. */
void cbx_link_poll(struct cbx_engine *engine);

/* ---- engine ---- */

struct cbx_tombstone {
	char id[CBX_NAME_MAX + 1];
	char *why;
};

TAILQ_HEAD(cbx_sessions, cbx_session);
TAILQ_HEAD(cbx_executions, cbx_execution);
#define CBX_TABLE_SIZE 512 /* buckets */

struct cbx_group_ending {
	uint64_t number;
	int tries;
};

struct cbx_engine {
	struct event_base *base;
	struct cbx_engine_config config; /* strings are our own copies */
	const struct cbx_policy *policy; /* config's, or builtin */
	struct cbx_policy *builtin;
	char **mounts; /* its directories, as they were really called at the start */
	struct cbx_link link;
	struct cbx_image image; /* that a session was made of last: its manifest is seldom read anew */
	struct cbx_sessions sessions; /* closing ones too */
	size_t live, closing;
	size_t kept; /* bytes of ended executions, CBX_OUTPUT_TOTAL_MAX */
	LIST_HEAD(, cbx_session) by_sandbox[CBX_TABLE_SIZE], by_id[CBX_TABLE_SIZE];
	size_t starting, running; /* sessions that are being made, and those that run a cell; without ready ones */
	struct cbx_pool *pool;
	struct cbx_zygotes *zygotes; /* NULL: they are off */
	struct cbx_tombstone *tombstones; /* a ring of CBX_TOMBSTONES_MAX, made when the first is needed */
	size_t ntombstones, next_tombstone;
	uint64_t next_sandbox;
	struct event *child;	 /* SIGCHLD */
	struct cbx_group_ending *ending; /* control groups that are being removed */
	size_t nending;
	struct event *remove_timer;
	struct cbx_err *trouble; /* code 0: none; behind a pointer since a const engine may complete it */
	bool *diagnosed;
	bool freeing;
	TAILQ_HEAD(, cbx_engine_listener) listeners;
};

/* Tables for looking sessions up; their lists stay what they are. */
void cbx_engine_add(struct cbx_session *s);    /* by the number of its sandbox */
void cbx_engine_name(struct cbx_session *s);   /* and by its id, from now on */
void cbx_engine_unname(struct cbx_session *s); /* its id is free again */
void cbx_engine_drop(struct cbx_session *s);   /* out of both */
struct cbx_session *cbx_engine_by_id(struct cbx_engine *engine, const char *id); /* not closing; NULL: none */

/* A session was made or has gone: tell the listeners. */
void cbx_engine_session_news(struct cbx_session *s, bool gone);

struct cbx_session *cbx_engine_by_sandbox(struct cbx_engine *engine, uint64_t sandbox);
void cbx_engine_bury(struct cbx_engine *engine, const char *id, const char *why);
void cbx_engine_forget(struct cbx_session *s); /* remove from the list; on_idle when it was the last */
void cbx_engine_supervisor_down(struct cbx_engine *engine, bool had_been_up);
void cbx_engine_child_ended(struct cbx_engine *engine); /* reap */

/* ---- init's socket ---- */

typedef void (*cbx_init_fn)(void *arg, const struct cbx_init_header *h, const char *payload, size_t len,
			    const struct cbx_err *err); /* err: no answer will come, h is NULL */

struct cbx_init_message {
	TAILQ_ENTRY(cbx_init_message) entry;
	struct cbx_init_header header;
	char *payload; /* freed when sent */
	int fds[4];    /* closed when sent */
	size_t nfds;
	cbx_init_fn fn;
	void *arg;
};
TAILQ_HEAD(cbx_init_messages, cbx_init_message);

struct cbx_init_client {
	int sock;
	struct event *in, *out, *late; /* late: no answer for too long */
	struct cbx_init_messages unsent, unanswered;
	size_t count; /* in both */
	size_t bytes; /* in unsent */
	uint32_t next_id;
	bool ended; /* init closed it: it is dead, or never was */
};

int cbx_init_open(struct cbx_session *s, int sock); /* takes sock */
void cbx_init_shut(struct cbx_session *s);	    /* nothing is sent or heard any more; requests stay */
void cbx_init_fail_all(struct cbx_session *s, const struct cbx_err *err); /* call every fn with err */
/* Payload is the two parts, one behind the other. fds are taken, also on failure. urgent: before what is queued. */
int cbx_init_ask(struct cbx_session *s, const struct cbx_init_header *h, const void *p1, size_t n1, const void *p2,
		 size_t n2, const int *fds, size_t nfds, bool urgent, cbx_init_fn fn, void *arg, struct cbx_err *err);
#define CBX_INIT_LATE_S 60 /* no answer for so long: the sandbox is given up */

/* ---- interpreter ---- */

enum cbx_interp_state {
	CBX_INTERP_NONE,     /* there is no process */
	CBX_INTERP_SPAWNING, /* init was asked */
	CBX_INTERP_STARTING, /* runs, has not said "ready" */
	CBX_INTERP_READY,    /* waits for a cell, or runs one (session.running) */
	CBX_INTERP_DYING,    /* ended, or is being killed */
};

struct cbx_query {
	TAILQ_ENTRY(cbx_query) entry;
	uint64_t id; /* 0: not sent yet */
	bool completion;
	char *code;
	uint64_t cursor;
	uint64_t deadline_ms;
	cbx_answer_fn fn;
	void *arg;
};
TAILQ_HEAD(cbx_queries, cbx_query);

struct cbx_interp {
	enum cbx_interp_state state;
	int64_t pid; /* inside; 0 unknown */
	int sock, pipe[CBX_STREAMS];
	struct event *in, *out, *pipes[CBX_STREAMS];
	struct event *pace;  /* read what it prints again */
	struct event *pump;  /* handle frames that wait */
	struct event *timer; /* until ready; until dead */
	struct cbx_buf rx, tx;
	bool at_frame;		  /* a whole frame is at the front of rx, waiting for the pipes */
	size_t looked;		  /* so many bytes of rx were read after `owed` had been measured */
	bool narrow[CBX_STREAMS]; /* the pipe has its capacity between cells */
	size_t owed[CBX_STREAMS]; /* bytes that were in a pipe when that frame was seen */
	unsigned signals;	  /* unanswered SIGNAL requests */
	bool killed;		  /* by us */
	bool oom;		  /* for memory: by the supervisor's watcher, or by the kernel */
	bool oom_outside;	  /* not for its own limit */
	uint64_t oom_files;	  /* bytes of the session's files then; 0: not known */
	bool limited;		  /* in its control group, with all that it started */
	bool reported;		  /* it said that it is ready before it was limited */
	bool exited;		  /* init or the kernel said so */
	bool was_ready;
	bool told; /* what is this session's own */
	bool again; /* another one is to be started */
	bool status_known;
	int status;	      /* wait status */
	char fault[300];      /* what it did against the protocol */
	uint64_t frame_bytes; /* from it during this execution */
	uint64_t printed;     /* likewise, through the pipes */
	struct {
		int64_t pid;
		int status;
	} early[4]; /* ended before we knew its pid */
	unsigned nearly;
	struct cbx_buf noise; /* printed before "ready" */
	unsigned failures;    /* starts that failed, one after another */
};

int cbx_interp_start(struct cbx_session *s, struct cbx_err *err);
/* The supervisor's answer to cbx_link_enter(). err NULL: it runs, and its pid inside is this. */
void cbx_interp_placed(struct cbx_session *s, int64_t pid, const struct cbx_err *err);
/* Close and forget everything, after what is in the pipes was read; no process is signalled. */
void cbx_interp_discard(struct cbx_session *s);
void cbx_interp_send(struct cbx_session *s, cJSON *frame); /* takes frame */
void cbx_interp_signal(struct cbx_session *s, int sig);
void cbx_interp_kill(struct cbx_session *s); /* it alone; the session lives on */
void cbx_interp_fault(struct cbx_session *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void cbx_interp_ended(struct cbx_session *s, int64_t pid, int status); /* from init */
void cbx_interp_oom(struct cbx_session *s, int64_t pid);	       /* from the supervisor */
void cbx_interp_is_ready(struct cbx_session *s);
void cbx_interp_how(const struct cbx_session *s, char *out, size_t n); /* how it died, as a clause */
/* pipes.c */
void cbx_pipe_stdout(evutil_socket_t fd, short what, void *session);
void cbx_pipe_stderr(evutil_socket_t fd, short what, void *session);
void cbx_pipes_go_on(evutil_socket_t fd, short what, void *session);
void cbx_pipes_narrow(struct cbx_interp *in); /* no cell runs */
#define CBX_PIPE_WIDE KIB(256)
void cbx_pipes_owe(struct cbx_interp *in); /* remember how much is in the pipes now */
/* Take what is owed, stdout first, but no more than *budget bytes. True when nothing is owed any more. */
bool cbx_pipes_pay(struct cbx_session *s, size_t *budget);
/* frames.c: one frame, parsed. */
void cbx_frame_handle(struct cbx_session *s, const cJSON *frame);
#define CBX_KILL_WAIT_S 10 /* a killed interpreter must have ended by then; else the session is closed */

/* ---- execution ---- */

struct cbx_spill;
struct cbx_changes;

struct cbx_watcher {
	TAILQ_ENTRY(cbx_watcher) entry;
	struct cbx_watch watch;
	bool off; /* taken off while watchers are being called */
};
TAILQ_HEAD(cbx_watchers, cbx_watcher);

/* What ran during one cell has used. */
struct cbx_cell_usage {
	const char *source; /* "cgroup": the kernel counted; "interpreter": it says so itself; NULL: not known */
	uint64_t cpu_us;
	bool has_memory, has_io;
	uint64_t memory;     /* bytes in use at the end */
	uint64_t peak;	     /* 0: not known */
	const char *peak_of; /* cbx_cgroup_peak_of(); "process" when the interpreter says it */
	uint64_t io_read, io_written;
};

enum cbx_phase { CBX_PHASE_RUN, CBX_PHASE_INTERRUPTED_EARLY, CBX_PHASE_INTERRUPTED, CBX_PHASE_KILLED };

struct cbx_execution {
	TAILQ_ENTRY(cbx_execution) entry;
	struct cbx_session *session;
	uint64_t id;
	enum cbx_status status;	  /* final once it has left session.running */
	enum cbx_status stopping; /* CBX_TIMEOUT or CBX_CANCELLED once it is being stopped */
	enum cbx_phase phase;
	bool finishing; /* status is known; only its output's file and the list of its files are waited for */
	bool delivered; /* on_end has been called */
	bool stripped;	/* its output and displays were dropped for newer ones */
	size_t kept;	/* bytes of it in engine.kept */
	char *code;	/* until it is sent */
	size_t code_len;
	uint64_t timeout_ms;
	uint64_t start_ms, end_ms;
	struct cbx_watchers watchers;
	unsigned nwatchers, calling;
	struct cbx_output output;
	struct cbx_spill *spill;
	struct cbx_changes *changes; /* asked for, not answered yet */
	int64_t since_ns;	     /* CLOCK_REALTIME_COARSE, what files are stamped with, at its start */
	cJSON *files;		     /* NULL: none */
	uint64_t files_omitted;
	size_t files_bytes;
	bool files_unknown, no_files; /* no_files: there is none that could have changed */
	cJSON *displays;
	size_t ndisplays, display_bytes;
	uint64_t displays_dropped, displays_invalid;
	bool clear_pending;
	char *result; /* text/plain of the last result */
	char *error_name, *error_value, *error_traceback;
	bool has_count, has_exit_code, state_kept;
	uint64_t count;
	int64_t exit_code;
	struct cbx_buf message, note; /* what happened; what is worth knowing beside it */
	struct cbx_cgroup_usage before; /* at its start */
	struct cbx_cell_usage usage;
	struct cbx_held *hold; /* NULL: not held */
};

struct cbx_held {
	char key[CBX_HOLD_KEY + 1];
	uint64_t wall_ms, clock_ms; /* when it was made: by the calendar, and as cbx_now_ms() */
};
/* hold.c: whether it is held, and its time is not over */
bool cbx_hold_counts(const struct cbx_execution *x);

void cbx_execution_next(struct cbx_session *s); /* start what waits, when it can be started */
void cbx_execution_print(struct cbx_session *s, enum cbx_stream stream, const char *p, size_t n);
void cbx_execution_done(struct cbx_execution *x, const char *status);
void cbx_execution_end(struct cbx_execution *x, enum cbx_status status); /* x is session.running, or queued */
void cbx_execution_finish(struct cbx_execution *x);
void cbx_execution_settle(struct cbx_execution *x); /* finish, when it waits for nothing any more */
void cbx_execution_interpreter_died(struct cbx_session *s);
void cbx_execution_free(struct cbx_execution *x);
void cbx_execution_timer(evutil_socket_t fd, short what, void *arg); /* the session's cell timer */
void cbx_execution_clear(struct cbx_execution *x);
size_t cbx_execution_memory(const struct cbx_execution *x);
void cbx_execution_keep(struct cbx_execution *x); /* it was delivered: count it, and strip the oldest of all sessions */

/* spill.c. It outlives its execution while a write is unanswered. */
struct cbx_spill *cbx_spill_new(struct cbx_execution *x);
void cbx_spill_add(struct cbx_spill *spill, const char *p, size_t n);
bool cbx_spill_idle(const struct cbx_spill *spill); /* nothing waits to be written */
void cbx_spill_restart(struct cbx_spill *spill);    /* what was printed so far is forgotten: the file begins anew */
void cbx_spill_extent(const struct cbx_spill *spill, struct cbx_output_extent *ret); /* of the file */
const char *cbx_spill_path(const struct cbx_spill *spill);
const char *cbx_spill_where(const struct cbx_spill *spill); /* "the whole output is in …" */
void cbx_spill_free(struct cbx_spill *spill);
#define CBX_SPILL_WAIT_MS 2000 /* an execution's end waits so long for its file, and for the list of its files */

/* watch.c */
void cbx_watch_start(struct cbx_execution *x);
void cbx_watch_output(struct cbx_execution *x, enum cbx_stream stream, const char *p, size_t n);
void cbx_watch_display(struct cbx_execution *x, const cJSON *bundle, bool is_result);
void cbx_watch_end(struct cbx_execution *x); /* takes all off */
void cbx_watch_free(struct cbx_execution *x);

/* hints.c: an error that a limit of the session explains gets a note that names the limit. */
void cbx_hints_add(struct cbx_execution *x);
uint64_t cbx_hints_inodes(const struct cbx_session_spec *spec); /* files and directories that a session may have */

/* changes.c. The request outlives its execution when that does not wait any longer. */
void cbx_changes_ask(struct cbx_execution *x);
void cbx_changes_leave(struct cbx_execution *x);
/* entries.c: the answer's entries; paths: names may hold slashes, but lead nowhere but down. */
bool cbx_entries_valid(const char *p, size_t len, int64_t count, bool paths);

/* ---- session ---- */

/* Somebody who waits for a description. */
struct cbx_asker {
	TAILQ_ENTRY(cbx_asker) entry;
	cbx_answer_fn fn;
	void *arg;
};

enum cbx_session_state { CBX_STARTING, CBX_LIVE, CBX_CLOSING };

struct cbx_session {
	TAILQ_ENTRY(cbx_session) entry; /* in engine.sessions, or in the pool while it has a shape */
	LIST_ENTRY(cbx_session) by_sandbox, by_id;
	bool in_tables, named;
	struct cbx_engine *engine;
	struct cbx_pool_shape *shape; /* it is nobody's yet: made ahead of time */
	struct cbx_image_mark image_mark;
	struct cbx_session_spec spec;
	const struct cbx_policy *policy;   /* in force: the engine's, or own_policy */
	struct cbx_policy *own_policy;     /* NULL: none */
	struct cbx_environment environment; /* of the policy and the request */
	cJSON *lowered;                    /* names of what the policy lowered */
	char *asked;                       /* environment and mounts of the request, as text; NULL: none */
	struct cbx_plan_mount mounts[CBX_PLAN_MOUNTS_MAX];
	uint32_t nmounts;
	enum cbx_session_state state;
	uint64_t sandbox;
	bool gone; /* nothing of the sandbox is left */
	bool was_live;
	bool nobodys; /* it was given up in the pool */
	bool in_work;
	cbx_ready_fn on_ready; /* until it was called */
	void *on_ready_arg;
	struct cbx_err end; /* CLOSING: why */
	dev_t disks[CBX_IO_DISKS];   /* of its image and mounts, when its use of them is limited */
	size_t ndisks;
	bool io_loose;               /* it is to be, but some are not known, or there is no controller */
	struct cbx_cgroup group;
	unsigned moves; /* unanswered requests to move its processes */
	bool frozen;
	uint64_t reclaimed; /* asked for when it was frozen the last time */
	uint64_t rest_looked_ms, rest_cpu_us;
	struct event *rest_timer; /* NULL until it is needed */
	struct event *settle_timer; /* likewise */
	uint64_t settle_until_ms; /* what was killed for memory may still hold it; 0: no */
	TAILQ_HEAD(, cbx_asker) askers;
	bool measured;
	uint64_t pss; /* when it was measured the last time */
	struct cbx_init_client init;
	struct cbx_buf spawn; /* payload of the SPAWN request */
	struct cbx_buf base;  /* the same without this session's own variables: a zygote was started with it */
	char *preload;	      /* modules, from the image: "numpy,pandas"; NULL: its interpreters come from no zygote */
	bool used;	      /* an interpreter was started: the next one will not come from a zygote */
	bool warm;	      /* its interpreter comes from one */
	struct cbx_interp interp;
	struct cbx_queries queries;
	size_t nqueries;
	uint64_t next_query;
	struct event *query_timer;
	char *language, *version, *kind;
	struct cbx_executions queue, ended; /* ended: the kept ones, oldest first */
	struct cbx_execution *running;
	size_t nqueued, nended;
	uint64_t next_execution;
	struct cbx_output aside; /* printed while no cell ran; given to the next one */
	struct cbx_buf lost;	 /* said with the next execution: state was lost in between */
	struct event *work, *start_timer, *ttl_timer, *idle_timer, *cell_timer;
	struct timespec created;
	uint64_t created_ms, used_ms;
	uint64_t told_ms; /* when the supervisor was told last that it is used; 0: it waits in the pool */
};

int cbx_session_make(struct cbx_engine *engine, const struct cbx_session_spec *spec, struct cbx_plan *ret_plan,
		     struct cbx_session **ret, struct cbx_err *err); /* described, not begun */
int cbx_session_begin(struct cbx_session *s, const struct cbx_plan *plan, struct cbx_err *err);
void cbx_session_free(struct cbx_session *s); /* it is in no list */
/* for the log */
void cbx_session_note(struct cbx_session *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* plan.c. For a session that is settled: its plan, its `spawn`, `base` and `preload` */
int cbx_session_plan(struct cbx_session *s, struct cbx_plan *plan, struct cbx_err *err);
/* spec.c. Lower to the policy what was given, take the rest from it; push the names of what was lowered. */
void cbx_session_spec_settle(struct cbx_session_spec *spec, const struct cbx_policy *policy, cJSON *lowered);
/* The first key that `want` was given and `have` has otherwise; NULL: none. */
const char *cbx_session_spec_differs(const struct cbx_session_spec *want, const struct cbx_session_spec *have);
/* malloc'd text of its environment and mounts, or NULL */
char *cbx_session_spec_asked(const struct cbx_session_spec *spec);
/* mounts.c */
char **cbx_mounts_real_names(const struct cbx_policy *p); /* of its directories; up to a NULL */
void cbx_mounts_free_names(char ***names);
int cbx_session_mounts_check(const cJSON *list, struct cbx_err *err); /* its form alone */
int cbx_session_mounts_settle(struct cbx_session *s, struct cbx_err *err);
cJSON *cbx_session_mounts_json(const struct cbx_session *s);
/* terms.c */
int cbx_session_settle(struct cbx_session *s, struct cbx_err *err); /* before anything is made */
void cbx_session_terms_move(struct cbx_session *to, struct cbx_session *from); /* `to` was made ahead of time */
void cbx_session_terms_release(struct cbx_session *s);
cJSON *cbx_session_terms_json(const struct cbx_session *s);

void cbx_session_work(struct cbx_session *s);				 /* have `work` run soon */
void cbx_session_ready(struct cbx_session *s);				 /* its interpreter is */
void cbx_session_fail(struct cbx_session *s, const struct cbx_err *err); /* close, with an error for on_ready */
void cbx_session_init_ready(struct cbx_session *s);
void cbx_session_sandbox_gone(struct cbx_session *s, const struct cbx_event *ev);
void cbx_session_run_work(struct cbx_session *s);
void cbx_session_drop_queries(struct cbx_session *s, const struct cbx_err *err);
void cbx_query_answered(struct cbx_session *s, uint64_t id, bool completion, const cJSON *answer);
void cbx_query_send_all(struct cbx_session *s);
void cbx_timer_set(struct event *ev, uint64_t ms);

/* ---- zygotes.c ---- */

struct cbx_zygotes;
int cbx_zygotes_new(struct cbx_engine *engine, struct cbx_err *err);
void cbx_zygotes_free(struct cbx_engine *engine); /* NULL-safe; the supervisor's end is theirs */
/* A session like this one is in use: one of its kind should be there, some time soon. */
void cbx_zygote_want(struct cbx_session *s);
bool cbx_zygote_ready_for(const struct cbx_session *s); /* it could have its interpreter from one */
/* Ask for the session's interpreter; cbx_interp_placed() follows. False, and fds are left: none is ready. */
bool cbx_zygote_enter(struct cbx_session *s, int fds[4]);
void cbx_zygote_served(struct cbx_session *s); /* and it was placed */
void cbx_zygotes_event(struct cbx_engine *engine, const struct cbx_event *ev); /* ZYGOTE_READY, ZYGOTE_GONE */
cJSON *cbx_zygotes_to_json(const struct cbx_engine *engine);

/* ---- pool.c: sessions made ahead of time ---- */

int cbx_pool_new(struct cbx_engine *engine, struct cbx_err *err);
void cbx_pool_free(struct cbx_engine *engine); /* NULL-safe; closes its entries */
/* A session is wanted as `s` and `plan` describe it. One that is equal and nobody's, taken out of the pool, or NULL. */
struct cbx_session *cbx_pool_take(struct cbx_session *s, const struct cbx_plan *plan);
void cbx_pool_ready(struct cbx_session *s); /* an entry's interpreter is */
/* An entry is closed: out of the pool. why: it failed; NULL: it was given up. */
void cbx_pool_lost(struct cbx_session *s, const struct cbx_err *why);
void cbx_pool_news(struct cbx_engine *engine); /* something began or ended: it may be time to make an entry */
void cbx_pool_warm(struct cbx_engine *engine); /* interpreters can be had that have more loaded than those of entries */
void cbx_pool_make_room(struct cbx_engine *engine); /* a session is about to be made: entries give way */
void cbx_pool_close_all(struct cbx_engine *engine, const char *why);
cJSON *cbx_pool_to_json(const struct cbx_engine *engine);

/* ---- group.c: a session's control group ---- */

const char *cbx_group_backend(const struct cbx_engine *engine); /* "none", "inherit", "scope" */
const char *cbx_group_reason(const struct cbx_engine *engine);
bool cbx_group_limits_cpus(const struct cbx_engine *engine);
bool cbx_group_limits_io(const struct cbx_engine *engine);
/* Can this session be limited as it asks to be? Finds out of which disks its use of them is limited. */
int cbx_group_check(struct cbx_session *s, const struct cbx_plan *plan, struct cbx_err *err);
/* RLIMIT_NPROC of its processes. */
uint32_t cbx_group_process_rlimit(const struct cbx_engine *engine, const struct cbx_session_spec *spec);
/* Make it, as the session's spec says; ret_dirs are for the supervisor, -1 where there are no groups. */
int cbx_group_open(struct cbx_session *s, int ret_dirs[2], struct cbx_err *err);
void cbx_group_close(struct cbx_session *s); /* kill what is there; it is removed as soon as it is empty */
void cbx_group_finish(struct cbx_engine *engine); /* wait for that, within bounds */
bool cbx_group_on(const struct cbx_session *s);
/* An interpreter was started by init: have it moved. It is not ready before cbx_group_limited(), which whoever starts
 * one in its group right away calls by himself. */
void cbx_group_gather(struct cbx_session *s);
/* The supervisor's answer; NULL: all is well. */
void cbx_group_gathered(struct cbx_session *s, const struct cbx_err *err);
void cbx_group_limited(struct cbx_session *s);
void cbx_group_cell_begins(struct cbx_execution *x);
void cbx_group_cell_ends(struct cbx_execution *x);
void cbx_group_interpreter_killed(struct cbx_session *s); /* by SIGKILL, and not by us: for memory? */
/* False: not yet, after a death for memory; `work` runs when it is time to ask again. */
bool cbx_group_settled(struct cbx_session *s);
void cbx_group_measured(struct cbx_session *s, uint64_t pss);
void cbx_group_drop_askers(struct cbx_session *s, const struct cbx_err *err);
void cbx_group_rest_later(struct cbx_session *s);	  /* it was used; stop it when it has been idle for long */
void cbx_group_thaw(struct cbx_session *s);		  /* something is about to be said to its interpreter */

#endif
