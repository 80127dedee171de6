/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SESSION_SESSION_H
#define CBX_SESSION_SESSION_H

/*
 * Sessions: what the protocols (MCP, over stdio and HTTP, and the control socket) see of the engine. All of it runs on
 * one libevent base, in one thread; nothing here blocks. Callbacks are called from the event loop, never from inside
 * the function that registered them.
 *
 * A session is a sandbox, its files, its limits and an interpreter. An execution is one cell. Both are owned by the
 * engine; the pointers that callers get are borrowed and valid until the session is gone (see the on_gone callbacks) or
 * the execution is forgotten. Protocols keep ids, not pointers, across events, and look them up again.
 */
#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

struct cbx_cgroup_tree;
struct cbx_engine;
struct cbx_policy;
struct cbx_session;
struct cbx_execution;

/* ---- engine ---------------------------------------------------------------------------------------------------- */

struct cbx_engine_config {
	const char *images_dir;    /* the image store (readable by this process) */
	const char *libexec_dir;   /* codebox-supervisor, codebox-init */
	const char *runtimes_dir;  /* the drivers */
	const char *syscalls_dir;  /* system call lists */
	const char *share_dir;     /* policies/, for requests that name one */
	const char *runtime_dir, *state_dir, *config_dir; /* never shown in a sandbox, like those above; may be NULL */
	const struct cbx_policy *policy; /* borrowed; NULL: the built-in values */
	const struct cbx_err *refusal;   /* code not 0: no session is made, for this reason. May be NULL; copied */
	uid_t service_uid;         /* who runs the sandboxes: the supervisor's last two arguments */
	gid_t service_gid;
	const struct cbx_cgroup_tree *cgroup; /* NULL: none; borrowed for the engine's life */
	unsigned freeze_idle_s; /* sessions that were idle for so long are stopped; 0: never */
	void (*on_down)(void *arg, const struct cbx_err *why); /* the supervisor ended after it had been up */
	void (*on_idle)(void *arg); /* the last session has gone */
	/* Optional. Asked at most once, when the supervisor could not start: what this machine lacks, < 0 with *ret. */
	int (*diagnose)(void *arg, struct cbx_err *ret);
	/* Optional. Something worth a line in a log: a session was made, is ready, was closed and why. */
	void (*on_note)(void *arg, const char *session_id, const char *text);
	void *arg;
	unsigned zygotes_max;  /* interpreters that are warm, for others to be forked from; 0: none */
	unsigned pool_max;     /* sessions kept ready at most; 0: none */
	uint64_t pool_idle_ms; /* and for so long, when nobody asks for their kind */
};

/* Starts the supervisor. A machine that cannot make sandboxes is no failure here: see cbx_engine_trouble(). */
int cbx_engine_new(struct event_base *base, const struct cbx_engine_config *config, struct cbx_engine **ret,
		   struct cbx_err *err);
/* Kills every session and the supervisor. */
void cbx_engine_free(struct cbx_engine *engine);
/* NULL when sandboxes can be made (or the supervisor is still starting), else why not, and what to do about it. */
const struct cbx_err *cbx_engine_trouble(const struct cbx_engine *engine);
/* {"version","pid","descriptors","sessions","pool":{…},"facts":{…},"trouble":…} */
cJSON *cbx_engine_to_json(const struct cbx_engine *engine);
/* The supervisor has said whether it can work. */
bool cbx_engine_settled(const struct cbx_engine *engine);
size_t cbx_engine_sessions(const struct cbx_engine *engine);
/* Whether the policy takes directories that a client offers (MCP's roots) for mounts. */
bool cbx_engine_takes_roots(const struct cbx_engine *engine);
/* Somebody has come who is likely to want a session with all defaults: one may be made ahead of time. */
void cbx_engine_expect(struct cbx_engine *engine);

/* ---- sessions -------------------------------------------------------------------------------------------------- */

struct cbx_session_spec {
	char id[CBX_NAME_MAX + 1];    /* "": one is made up */
	char image[CBX_NAME_MAX + 1]; /* "": the default image, "python" */
	uint64_t memory_bytes, disk_bytes;
	uint32_t processes;
	uint64_t timeout_ms;          /* default for its executions; 0: as if it had not been given */
	uint32_t ttl_s, idle_s;
	uint32_t profile;             /* enum cbx_profile */
	uint32_t cpus_milli;          /* thousandths of a processor; 0: no limit */
	uint32_t cpu_weight;          /* share of processors that others want too; all have 100 */
	uint64_t io_bytes, io_operations; /* a second, of each disk, read and written each; 0: no limit */
	uint8_t cgroup;               /* CBX_CGROUP_AUTO, or CBX_CGROUP_REQUIRED: no session without control groups */
	uint32_t landlock;            /* enum cbx_landlock_mode */
	uint8_t noexec_workspace;     /* 1: programs in the workspace, home and writable mounts cannot be executed */
	uint8_t write_xor_execute, own_cores, no_speculation; /* 0 or 1: enum cbx_plan_flag */
	uint8_t zygote;               /* CBX_ZYGOTE_OFF or CBX_ZYGOTE_AUTO */
	uint64_t given;               /* bit k: the request had key k (enum cbx_key) */
	char policy[CBX_NAME_MAX + 1]; /* a shipped policy that narrows the server's; "": none */
	const cJSON *mounts;          /* of the machine, checked as to form; as environment */
	bool roots;                   /* the mounts are offered, not asked for: those not allowed are left out */
	const cJSON *environment;     /* variables, checked; borrowed until cbx_session_create() returns. NULL: none */
	bool settled;                 /* the values are in force: the policy was applied */
	bool one_shot;                /* belongs to a connection: not listed as re-attachable */
};

/* Nothing asked for; fields are as without a policy. */
void cbx_session_spec_init(struct cbx_session_spec *spec);
/* Read "session_id" (or "id"), "image", "policy", "environment", "mounts" and the keys of policy/keys.h from an object,
 * which must outlive the spec; errors name field, value and remedy. Other members are not looked at. */
int cbx_session_spec_parse(const cJSON *obj, struct cbx_session_spec *spec, struct cbx_err *err);
/* The names of these members but for "id"; returns how many. */
#define CBX_SPEC_KEYS_MAX 40
size_t cbx_session_spec_keys(const char *ret[CBX_SPEC_KEYS_MAX]);
/* The JSON Schema "properties" for the same, for tool descriptions. */
cJSON *cbx_session_spec_schema(void);

/*
 * Make a session; returns at once, with the session in state "starting". Executions may be queued right away.
 * The policy is applied here. Errors: "session_exists", "image_not_found", "image_damaged", "image_not_allowed",
 * "too_many_sessions", "no_sandbox" (with the diagnosis), "invalid_policy".
 * When set-up fails later, on_ready is called with the error and the session is gone. on_ready may be NULL; err is NULL
 * when all went well.
 */
typedef void (*cbx_ready_fn)(void *arg, struct cbx_session *session, const struct cbx_err *err);
int cbx_session_create(struct cbx_engine *engine, const struct cbx_session_spec *spec, cbx_ready_fn on_ready, void *arg,
		       struct cbx_session **ret, struct cbx_err *err);
/* Errors: "session_not_found" or "session_expired", with what to do next. */
int cbx_session_find(struct cbx_engine *engine, const char *id, struct cbx_session **ret, struct cbx_err *err);
const char *cbx_session_id(const struct cbx_session *session);
/* It was made as a connection's own. Such ids are made up: one that another session has got since is no such. */
bool cbx_session_one_shot(const struct cbx_session *session);
/* Whether on_ready is still to be called, with this arg: it is the session that was made with it, and not a later one
 * of the same id. */
bool cbx_session_awaited(const struct cbx_session *session, const void *arg);
/* Why it ended before it was ready; NULL when it was ready once, or may still be. For the on_end of cells that were
 * queued in a session that could not be made. */
const struct cbx_err *cbx_session_failure(const struct cbx_session *session);
/* Whether a request for it would give this session; "session_differs", naming the first member that is not so. */
int cbx_session_same(const struct cbx_session *session, const struct cbx_session_spec *spec, struct cbx_err *err);
/* Kills its processes and removes its files. Executions end with status "killed". `why` is told to later askers. */
void cbx_session_close(struct cbx_session *session, const char *why);
cJSON *cbx_session_to_json(const struct cbx_session *session); /* the public description */
/* The same with what has to be measured first: its memory, with what it shares with others counted in part. False: there
 * is nothing to measure, and fn is not called. Errors: of a session that is closed meanwhile. */
bool cbx_session_describe(struct cbx_session *session,
			  void (*fn)(void *arg, const cJSON *info, const struct cbx_err *err), void *arg);
cJSON *cbx_session_list(const struct cbx_engine *engine);      /* array of those */
void cbx_session_touch(struct cbx_session *session);           /* counts as a use */

/* ---- news ----------------------------------------------------------------------------------------------------- */

/*
 * Who wants to know what happens in the engine. The callbacks may come from inside any function of this header: they
 * only take notice, and do not call back into the engine. The struct is the caller's, and stays until it is taken off.
 */
struct cbx_engine_listener {
	TAILQ_ENTRY(cbx_engine_listener) entry;
	/* A session was made, or has gone. */
	void (*on_session)(void *arg, const char *session_id, bool one_shot, bool gone);
	/* See cbx_engine_files_changed(). */
	void (*on_files)(void *arg, const char *session_id, bool one_shot, const cJSON *files);
	void *arg;
};
void cbx_engine_listen(struct cbx_engine *engine, struct cbx_engine_listener *listener);
void cbx_engine_unlisten(struct cbx_engine *engine, struct cbx_engine_listener *listener);
/* Tell all listeners that files of a session have changed: an array as in cbx_execution_to_json(). */
void cbx_engine_files_changed(struct cbx_engine *engine, const char *session_id, const cJSON *files);

/* ---- executions ------------------------------------------------------------------------------------------------ */

enum cbx_status {
	CBX_QUEUED,
	CBX_RUNNING,
	CBX_OK,
	CBX_ERROR,     /* an exception in the code */
	CBX_TIMEOUT,   /* time was up; state_kept says whether variables survived */
	CBX_KILLED,    /* the interpreter died or was killed: memory, a signal, exit */
	CBX_CANCELLED, /* interrupted on request */
};
const char *cbx_status_name(enum cbx_status status); /* "queued", "running", "ok", … */

/* Watchers' callbacks; any may be NULL. `stream` is "stdout" or "stderr"; bytes are as they came. A bundle is
 * {"data":{…},"metadata":{…}}. on_end is the last one, after which the watcher is detached. */
struct cbx_watch {
	void (*on_start)(void *arg, struct cbx_execution *x);
	void (*on_output)(void *arg, struct cbx_execution *x, const char *stream, const char *p, size_t n);
	void (*on_display)(void *arg, struct cbx_execution *x, const cJSON *bundle, bool is_result);
	void (*on_end)(void *arg, struct cbx_execution *x);
	void *arg;
};

/*
 * Queue a cell. timeout_ms 0: the session's default. Errors: "code_too_long", "queue_full", "invalid_argument".
 * The watch (may be NULL) is copied.
 */
int cbx_session_run(struct cbx_session *session, const char *code, uint64_t timeout_ms, const struct cbx_watch *watch,
		    struct cbx_execution **ret, struct cbx_err *err);
/* One watcher more, up to CBX_WATCHERS_MAX. Errors: "ended" (nothing would be called any more), "too_many_watchers". */
int cbx_execution_watch(struct cbx_execution *x, const struct cbx_watch *watch, struct cbx_err *err);
/* Stop calling the watcher with this arg; the execution goes on. False: there is no such watcher. Whoever has found x
 * by its ids learns by that whether it is the one that he watches: a closed session's id may be another's at once,
 * while on_end of its cells is still to come. */
bool cbx_execution_unwatch(struct cbx_execution *x, const void *arg);
/* Queued: ends as cancelled at once. Running: SIGINT, SIGKILL after the grace period; ends as cancelled. */
void cbx_execution_interrupt(struct cbx_execution *x);
uint64_t cbx_execution_id(const struct cbx_execution *x); /* counts from 1 in its session */
struct cbx_session *cbx_execution_session(const struct cbx_execution *x);
enum cbx_status cbx_execution_status(const struct cbx_execution *x);
/*
 * Keep an execution for CBX_HOLD_MS after its end, as long as its session lives and memory suffices, however many come
 * after it; and give it a key that cannot be guessed. Error: "too_many_holds".
 */
int cbx_execution_hold(struct cbx_execution *x, struct cbx_err *err);
#define CBX_HOLD_KEY 26 /* characters, of 32 */
struct cbx_hold {
	const char *key; /* borrowed */
	uint64_t created_ms, updated_ms; /* when the hold was made; when it changed last, that is then or at the end: ms
					  * since 1970 */
	uint64_t kept_ms; /* from created_ms on it is kept so long, if memory suffices; grows until the end */
};
bool cbx_execution_held(const struct cbx_execution *x, struct cbx_hold *ret); /* false: it is not */
/* The one that runs, or NULL. */
struct cbx_execution *cbx_session_running(const struct cbx_session *session);
int cbx_execution_find(struct cbx_session *session, uint64_t id, struct cbx_execution **ret, struct cbx_err *err);
/*
 * {"session_id","execution_id","status","state_kept","execution_count","exit_code"?,"stdout","stderr","output" (both,
 *  in order),"result"? (text/plain),"error"?{name,value,traceback},"message"? (what happened and what to do, for
 *  timeout, killed and cancelled),"displays":[{"data","metadata","is_result"}],"omitted"?{"bytes","file",
 *  "where" (how much of the output is in the file, as a clause)},
 *  "duration_ms","usage"?,"files":[{"path","size","mime_type","uri"}],"files_omitted"?}
 * usage: {"source","cpu_ms","memory_bytes"?,"memory_peak_bytes"?,"memory_peak_of"?,"io_read_bytes"?,"io_write_bytes"?},
 * of what ran during the cell. source "cgroup": the kernel counted all processes; "interpreter": it says so of itself
 * and its children, and code can make it say anything. memory_peak_of: cgroup/group.h.
 * files: what changed below /workspace while it ran; paths relative to that; the uri keeps bytes that are not UTF-8.
 * Text is valid UTF-8. with_displays: false leaves binary data out and lists only {"mime","bytes"}.
 */
cJSON *cbx_execution_to_json(const struct cbx_execution *x, bool with_displays);
/* Where the output of an execution is, as offsets in what was printed (both streams, in order, as they came). */
struct cbx_output_extent {
	uint64_t total;	  /* bytes so far */
	const char *file; /* NULL: none is needed so far */
	uint64_t in_file; /* what lies before this is in the file, at the same offset; what follows in it is not */
	uint64_t will_be; /* what lies before this will be, soon */
	uint64_t kept;	  /* memory has all from here on */
};
/* Up to max bytes from an offset on, when memory still holds them. */
bool cbx_execution_output(const struct cbx_execution *x, uint64_t from, size_t max, struct cbx_buf *out,
			  struct cbx_output_extent *ret);
/* The bundles as they came, borrowed: array of {"data","metadata","is_result"}. */
const cJSON *cbx_execution_displays(const struct cbx_execution *x);

/* Ask the interpreter whether code is a complete cell ("complete", "incomplete", "invalid"); answer
 * {"status","indent"}. Also completions: {"matches","start","end"}. Errors: "busy" while a cell runs. */
typedef void (*cbx_answer_fn)(void *arg, const cJSON *answer, const struct cbx_err *err);
int cbx_session_is_complete(struct cbx_session *session, const char *code, cbx_answer_fn fn, void *arg,
			    struct cbx_err *err);
int cbx_session_complete(struct cbx_session *session, const char *code, uint64_t cursor, cbx_answer_fn fn, void *arg,
			 struct cbx_err *err);

/* ---- files ------------------------------------------------------------------------------------------------------
 * Paths are relative to /workspace unless absolute; they are resolved inside the sandbox. Chunks of at most
 * CBX_FILE_CHUNK bytes. The callback is always called once, also when the session goes away.
 */
#define CBX_FILE_CHUNK 61440

struct cbx_file_reply {
	int64_t value;       /* bytes read or written */
	uint64_t size;       /* READ: the file's size */
	bool more;           /* LIST, SCAN: more entries are there */
	bool cut;            /* SCAN: the tree was too large to look at all of it */
	const void *data;    /* READ: bytes; STAT: struct cbx_init_stat; LIST, SCAN: entries; borrowed for the call */
	size_t len;
};
typedef void (*cbx_file_fn)(void *arg, const struct cbx_file_reply *reply, const struct cbx_err *err);
int cbx_session_file_read(struct cbx_session *s, const char *path, uint64_t offset, size_t max, cbx_file_fn fn,
			  void *arg, struct cbx_err *err);
int cbx_session_file_write(struct cbx_session *s, const char *path, uint64_t offset, unsigned flags, const void *p,
			   size_t n, cbx_file_fn fn, void *arg, struct cbx_err *err);
int cbx_session_file_stat(struct cbx_session *s, const char *path, cbx_file_fn fn, void *arg, struct cbx_err *err);
int cbx_session_file_list(struct cbx_session *s, const char *path, uint64_t skip, cbx_file_fn fn, void *arg,
			  struct cbx_err *err);
/* Regular files of all directories below one; `size` of the reply is how many there are. */
int cbx_session_file_scan(struct cbx_session *s, const char *path, uint64_t skip, cbx_file_fn fn, void *arg,
			  struct cbx_err *err);
int cbx_session_file_mkdir(struct cbx_session *s, const char *path, cbx_file_fn fn, void *arg, struct cbx_err *err);
int cbx_session_file_remove(struct cbx_session *s, const char *path, cbx_file_fn fn, void *arg, struct cbx_err *err);

/* The MIME type that a file's name promises; "application/octet-stream" when it promises none. */
const char *cbx_mime_by_name(const char *path);
/* Append codebox://sessions/<id>/files/<path>: bytes other than unreserved characters and '/' as %XX. */
void cbx_file_uri(struct cbx_buf *out, const char *session_id, const char *path);

#endif
