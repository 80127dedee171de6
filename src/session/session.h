/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SESSION_SESSION_H
#define CBX_SESSION_SESSION_H

/*
 * Sessions: what the protocols (MCP, over stdio and HTTP, and the control socket) see of the engine. All of it runs on
 * one libevent base, in one thread; nothing here blocks. Callbacks are called from the event loop, never from inside
 * the function that registered them.
 *
 * A session is a sandbox, its files, its limits and its interpreters, one for each language that is used. An execution
 * is one cell. Both are owned by the engine; the pointers that callers get are borrowed. Protocols keep ids, not
 * pointers, across events, and look them up again; while an operation on a session is pending, the session is there.
 *
 * Whoever asks is a struct cbx_caller (principal.h); what is answered later is an operation of his (base/op.h).
 *
 * The way of a cell through the engine, when its interpreter is ready, in 19 files. Asked: of src/session spec.c,
 * registry.c and terms.c (which session), cells.c with languages.c (which interpreter); of src/execution cells.c, record.c
 * and watch.c (queued, and watched). From the event loop, in the one deferral: of src/session life.c (its turn); of
 * src/execution cells.c again; of src/box group.c (what is in use before it); of src/interp channel.c (sent). For each
 * frame that comes: of src/interp channel.c, pipes.c (what was printed before it) and frames.c; of src/execution apply.c
 * and output.c, and watch.c again; for what is shown, of src/interp bundle.c. At the end: of
 * src/execution ends.c and record.c; of src/box group.c; of src/session life.c and registry.c (who hears of it); of
 * src/execution keep.c (what is remembered), watch.c and report.c (the answer). What goes up passes four function
 * pointers: `frame` (interp/interp.h), `ended` (execution/state.h), `happened` (happened.h) and `on_progress` of the watch;
 * what is printed, `printed` (interp/interp.h) too. Once a second box/link.c tells the supervisor that the session is in
 * use. tests/integration/path.py traces it.
 */
#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"
#include "base/op.h"
#include "base/str.h"
#include "box/files.h"
#include "execution/execution.h"
#include "session/principal.h"

struct cbx_engine;
struct cbx_session;

/* ---- engine ---------------------------------------------------------------------------------------------------- */

/* NULL when sandboxes can be made (or the supervisor is still starting), else why not, and what to do about it. */
const struct cbx_err *cbx_engine_trouble(const struct cbx_engine *engine);
/* {"version","pid","descriptors","sessions","pool":{…},"facts":{…},"trouble":…} */
cJSON *cbx_engine_to_json(const struct cbx_engine *engine);
/* The supervisor has said whether it can work. */
bool cbx_engine_settled(const struct cbx_engine *engine);
size_t cbx_engine_sessions(const struct cbx_engine *engine);
/* Whether the policy lets directories that he offers (MCP's roots) be mounts. */
bool cbx_engine_takes_roots(const struct cbx_caller *caller);
/* What sessions of his may reach: hosts, as "pypi.org, *.example.org:443", or "none"; and whether packages can be
 * installed. */
void cbx_engine_reach(const struct cbx_caller *caller, struct cbx_buf *ret_hosts, bool *ret_packages);
/* Somebody has come who is likely to want a session with all defaults: one may be made ahead of time. */
void cbx_engine_expect(struct cbx_engine *engine);

/* ---- sessions -------------------------------------------------------------------------------------------------- */

struct cbx_session_spec {
	char id[CBX_NAME_MAX + 1];    /* "": one is made up */
	char image[CBX_NAME_MAX + 1]; /* "": the default image, or one that has the language */
	const char *language, *file;  /* what an image that is not named is for; borrowed as environment is; NULL: any */
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
	uint8_t noexec_workspace;     /* 1: nothing that the session can write can be executed */
	uint8_t write_xor_execute, own_cores, no_speculation; /* 0 or 1: enum cbx_plan_flag */
	uint8_t zygote;               /* CBX_ZYGOTE_OFF or CBX_ZYGOTE_AUTO */
	uint8_t code_rules;           /* 1: Python cells are judged before they run, and nothing else runs */
	uint64_t given;               /* bit k: the request had key k (enum cbx_key) */
	char policy[CBX_NAME_MAX + 1]; /* a shipped policy that narrows the server's; "": none */
	const cJSON *mounts;          /* of the machine, checked as to form; as environment */
	const cJSON *packages;        /* to be installed before it is ready; likewise */
	bool roots;		      /* the mounts are offered, not asked for: those not allowed are omitted */
	const cJSON *environment;     /* variables, checked; borrowed until cbx_session_create() returns. NULL: none */
	bool settled;                 /* the values are in force: the policy was applied */
	bool one_shot;                /* belongs to a connection: not listed as re-attachable */
	bool disposable, helper; /* of a call that named no session, so the first to go; codebox's own, of any image */
};

/* Nothing asked for; fields are as without a policy. */
void cbx_session_spec_init(struct cbx_session_spec *spec);
/* Read "session_id" (or "id"), "image", "policy", "environment", "mounts", "packages" and the keys of policy/keys.h
 * from an object, which must outlive the spec; errors name field, value and remedy. Other members are not looked at. */
int cbx_session_spec_parse(const cJSON *obj, struct cbx_session_spec *spec, struct cbx_err *err);
/* The names of these members but for "id"; returns how many. */
#define CBX_SPEC_KEYS_MAX 56
size_t cbx_session_spec_keys(const char *ret[CBX_SPEC_KEYS_MAX]);

/*
 * Make a session; returns at once, with the session in state "starting". Executions may be queued right away.
 * The policy is applied here. Errors: "session_exists", "image_not_found", "image_damaged", "image_not_allowed",
 * "too_many_sessions", "no_sandbox" (with the diagnosis), "invalid_policy".
 * The operation, which may be NULL, is pending until the session is ready, with its packages, or set-up has failed and
 * it is gone.
 */
struct cbx_ready_op {
	struct cbx_op op;
	void (*done)(struct cbx_ready_op *op, struct cbx_session *session, const struct cbx_err *err); /* NULL: ready */
	struct cbx_session *session; /* set by the engine */
};
int cbx_session_create(struct cbx_caller *caller, const struct cbx_session_spec *spec, struct cbx_ready_op *op,
		       struct cbx_session **ret, struct cbx_err *err);
/* Errors: "session_not_found" or "session_expired", with what to do next. */
int cbx_session_find(const struct cbx_caller *caller, const char *id, struct cbx_session **ret, struct cbx_err *err);
const char *cbx_session_id(const struct cbx_session *session);
/* Its policy lets it reach some hosts, through its proxy. */
bool cbx_session_reaches_hosts(const struct cbx_session *session);
/* Its Python cells are judged by rules before they run, and nothing else is run. */
bool cbx_session_judges(const struct cbx_session *session);
/* It was made as a connection's own. Such ids are made up: one that another session has got since does not count. */
bool cbx_session_one_shot(const struct cbx_session *session);
/* From now on it is a connection's own, or not any more. */
void cbx_session_bind(struct cbx_session *session, bool on);
/* Why it ended before it was ready; NULL when it was ready once, or may still be. For the end of cells that were
 * queued in a session that could not be made. */
const struct cbx_err *cbx_session_failure(const struct cbx_session *session);
/* Whether a request for it would give this session; "session_differs", naming the first member that is not so. */
int cbx_session_same(const struct cbx_session *session, const struct cbx_session_spec *spec, struct cbx_err *err);
/* Kills its processes and removes its files. Executions end with status "killed". Later askers get `why`. by: who wants
 * that, for those who observe; NULL, here and below: nobody asked, the program does it of itself. */
void cbx_session_close(const struct cbx_caller *by, struct cbx_session *session, const char *why);
/*
 * Give it new interpreters, or only that of a language: variables go, files, mounts and limits stay. Cells that wait for
 * one end as cancelled, the one that it runs ends as killed, as does an interpreter that hangs; the next cell waits for
 * the new one. *ret: how many cells ended.
 */
int cbx_session_restart(const struct cbx_caller *by, struct cbx_session *session, const char *language, size_t *ret,
			struct cbx_err *err);
/* The public description. Its control group is asked for "usage", which is five files of the kernel. */
cJSON *cbx_session_to_json(struct cbx_session *session);
/* The same for lists, with "usage" as it was "age_s" seconds ago: after the last cell, or when it was described last. */
cJSON *cbx_session_list_entry(const struct cbx_session *session);
/* The same with what has to be measured first: its memory, with what it shares with others counted in part. False: there
 * is nothing to measure, and nothing will be called. Errors: of a session that is closed meanwhile. */
bool cbx_session_describe(struct cbx_session *session, struct cbx_answer_op *op);
cJSON *cbx_session_list(const struct cbx_caller *caller); /* array of those */
/* The same with "usage" of about now, and in it "cpus", the processors in use since it was looked at before; of many
 * sessions some are looked at now, the others in turn. all: of all tenants, with "tenant". */
cJSON *cbx_session_list_now(const struct cbx_caller *caller, bool all);
/* Only {"session_id","one_shot"} of each: nothing is measured for it. */
cJSON *cbx_session_names(const struct cbx_caller *caller);
void cbx_session_touch(struct cbx_session *session);           /* counts as a use */

/* ---- packages ---------------------------------------------------------------------------------------------------- */

/*
 * Install packages, an array of requirements ("httpx>=0.27"), with all that they need, as far as the policy allows each
 * of them. "-U" in it: those that are there already, in the session or in the image, are taken to the newest version
 * that fits; what they need stays where it fits. Answer: {"session_id","installed":[{"name","version"}],"already":[…],
 * "imported"?:[{"name","version","installed"}],"warnings"?:[texts]}; imported: in this version, by an interpreter that
 * keeps it until it is restarted.
 * What fails leaves the session as it was. Errors: "package_refused" (by the policy, with the way to it),
 * "no_packages", "busy", "not_found", "conflict", "index_down", "wrong_hash", "unsafe_wheel", "invalid_argument" and
 * others.
 */
int cbx_session_install(const struct cbx_caller *by, struct cbx_session *session, const cJSON *requirements,
			struct cbx_answer_op *op, struct cbx_err *err);

/* ---- news ----------------------------------------------------------------------------------------------------- */

/*
 * Who wants to know what happens in the engine. The callbacks may come from inside any function of this header: they
 * only take notice, and do not call back into the engine. The struct is the caller's, and stays until it is taken off.
 */
struct cbx_engine_listener {
	TAILQ_ENTRY(cbx_engine_listener) entry;
	/* A session was made, or has gone. */
	void (*on_session)(void *arg, const char *session_id, bool one_shot, bool gone);
	/* See cbx_engine_files_changed(): of each file cbx_hash() of its address. */
	void (*on_files)(void *arg, const char *session_id, bool one_shot, const uint64_t *files, size_t n);
	void *arg;
	size_t watched; /* resources that it looks for, by its own count */
	const struct cbx_principal *principal; /* set by the engine: of whose sessions it hears */
};
void cbx_engine_listen(struct cbx_caller *caller, struct cbx_engine_listener *listener);
void cbx_engine_unlisten(struct cbx_caller *caller, struct cbx_engine_listener *listener);
/* Resources that all listeners of the caller's tenant look for. */
size_t cbx_engine_watched(const struct cbx_caller *caller);
/* Tell all that hear of a session that files of it have changed: an array as in cbx_execution_to_json(). */
void cbx_engine_files_changed(struct cbx_caller *caller, const char *session_id, const cJSON *files);

/* ---- cells ------------------------------------------------------------------------------------------------------- */

/* Queue a cell. The watch may be NULL. Errors: "code_too_long", "queue_full", "invalid_argument". */
int cbx_session_start(struct cbx_session *session, const struct cbx_cell_spec *cell, struct cbx_watch_op *watch,
		      struct cbx_execution **ret, struct cbx_err *err);
/*
 * What it has run, for an export: the cells after an id (0: from the first), in order, as many as a page holds:
 * {"session_id","image","language","cells":[…],"more","forgotten" (how many are not there any more),"next"? (the id of
 * the cell that runs, or else of the first that waits)}; see cbx_execution_entry(). Error: "history_off".
 */
int cbx_session_history(struct cbx_session *session, uint64_t after, cJSON **ret, struct cbx_err *err);
/* Queued: ends as cancelled at once. Running: SIGINT, SIGKILL after the grace period; ends as cancelled. */
void cbx_execution_interrupt(const struct cbx_caller *by, struct cbx_execution *x);
/* The one that runs, or NULL. */
struct cbx_execution *cbx_session_running(const struct cbx_session *session);
/* Each that is known, the newest first but for those that a client was promised. */
void cbx_session_executions(const struct cbx_session *session, void (*one)(void *arg, const struct cbx_execution *x),
			    void *arg);
/* What has happened in it, the oldest first: [{"at_ms" (since 1970),"event","id"?,"outcome"?,"duration_ms"?,"why"?}] */
cJSON *cbx_session_log(const struct cbx_session *session);
int cbx_execution_find(struct cbx_session *session, uint64_t id, struct cbx_execution **ret, struct cbx_err *err);
/* Ask the interpreter of a language (NULL: the session's own) whether code is a complete cell ("complete",
 * "incomplete", "invalid"); answer {"status","indent"}. Also completions: {"matches","start","end"}. Errors: "busy"
 * while a cell runs. */
int cbx_session_is_complete(struct cbx_session *session, const char *language, const char *code,
			    struct cbx_answer_op *op, struct cbx_err *err);
int cbx_session_complete(struct cbx_session *session, const char *language, const char *code, uint64_t cursor,
			 struct cbx_answer_op *op, struct cbx_err *err);

/* Likewise, what is known of the name at the cursor: {"found","text"}. */
int cbx_session_inspect(struct cbx_session *session, const char *language, const char *code, uint64_t cursor,
			struct cbx_answer_op *op, struct cbx_err *err);

/* ---- files ------------------------------------------------------------------------------------------------------
 * Paths are relative to /workspace unless absolute; they are resolved inside the sandbox.
 */
int cbx_session_file_read(struct cbx_session *s, const char *path, uint64_t offset, size_t max,
			  struct cbx_file_op *op, struct cbx_err *err);
int cbx_session_file_write(struct cbx_session *s, const char *path, uint64_t offset, unsigned flags, const void *p,
			   size_t n, struct cbx_file_op *op, struct cbx_err *err);
int cbx_session_file_stat(struct cbx_session *s, const char *path, struct cbx_file_op *op, struct cbx_err *err);
int cbx_session_file_list(struct cbx_session *s, const char *path, uint64_t skip, struct cbx_file_op *op,
			  struct cbx_err *err);
/* Regular files of all directories below one; `size` of the reply is how many there are. */
int cbx_session_file_scan(struct cbx_session *s, const char *path, uint64_t skip, struct cbx_file_op *op,
			  struct cbx_err *err);
int cbx_session_file_mkdir(struct cbx_session *s, const char *path, struct cbx_file_op *op, struct cbx_err *err);
int cbx_session_file_remove(struct cbx_session *s, const char *path, struct cbx_file_op *op, struct cbx_err *err);
int cbx_session_file_rename(struct cbx_session *s, const char *path, const char *to, struct cbx_file_op *op,
			    struct cbx_err *err); /* "file_exists": nothing is replaced */
int cbx_session_file_readlink(struct cbx_session *s, const char *path, struct cbx_file_op *op, struct cbx_err *err);
int cbx_session_file_place(struct cbx_session *s, const struct cbx_file_place *place, struct cbx_file_op *op,
			   struct cbx_err *err);

#endif
