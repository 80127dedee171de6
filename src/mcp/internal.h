/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_MCP_INTERNAL_H
#define CBX_MCP_INTERNAL_H

/*
 * What the files of this directory share. From the wire inwards:
 *
 *   raw      finds the bytes of a member in a message that was already found to be JSON: ids go back as they came
 *   rpc      JSON-RPC 2.0: one message in, checked and handed to an era; answers out, alone or as a batch
 *   legacy   the era of the initialize handshake (2024-11-05 to 2025-11-25): its methods and notifications
 *   modern   the era in which every request stands for itself (2026-07-28)
 *   methods, server  what both eras serve, and say of the server
 *   resources, read, uri, walk  sessions and their files as resources
 *   prompts, complete  for people who fill in forms
 *   news     notifications of changes, to those who asked for them
 *   jobs     requests of these files that wait for the engine
 *   tools    the table of tools and the life of a call: listed, called, answered, cancelled
 *   run, execution, manage, files, files_read, files_write  the tools themselves
 *   tasks    a call that was let go of, for clients that come back for its result
 *   wait     a call that waits for an execution, for a limited time
 *   artifacts  an execution's answer, with the image files that it wrote
 *   progress  notifications/progress of one call
 *   result   an execution as the content of an answer, within a size
 *   screen   text as a terminal would show it, and cut to a size
 *
 * An era knows methods and nothing of sessions; a tool knows sessions and nothing of eras: what an answer may hold is
 * in the revision that its request was made under.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/str.h"
#include "mcp/mcp.h"
#include "session/session.h"

/* ---- raw ---- */

struct cbx_raw {
	const char *p; /* NULL: not there */
	size_t n;
};

/* The value of a member of an object, or the next element of an array; `in` is text that cbx_json_parse() accepted.
 * *pos starts at 0. */
struct cbx_raw cbx_mcp_raw_member(struct cbx_raw in, const char *key);
struct cbx_raw cbx_mcp_raw_element(struct cbx_raw in, size_t *pos);
/* A string or a whole number, short enough to be sent back: what may be an id or a progress token. */
bool cbx_mcp_raw_is_token(struct cbx_raw v);
char *cbx_mcp_raw_copy(struct cbx_raw v); /* malloc'd C string; NULL when not there */

/* Members of the engine's descriptions, in whose trees whole numbers are raw text. NULL or 0 when not there. */
const char *cbx_mcp_str_of(const cJSON *obj, const char *key);
uint64_t cbx_mcp_num_of(const cJSON *obj, const char *key);

/* ---- rpc ---- */

enum {
	CBX_RPC_PARSE = -32700,
	CBX_RPC_INVALID_REQUEST = -32600,
	CBX_RPC_NO_METHOD = -32601,
	CBX_RPC_INVALID_PARAMS = -32602,
	CBX_RPC_INTERNAL = -32603,
	CBX_RPC_RESOURCE_NOT_FOUND = -32002, /* legacy revisions */
	CBX_RPC_HEADER_MISMATCH = -32020,    /* this one and the next two: from 2026-07-28 on */
	CBX_RPC_MISSING_CAPABILITY = -32021, /* data: {"requiredCapabilities":{...}} */
	CBX_RPC_UNSUPPORTED_VERSION = -32022,
};

/* What a protocol revision knows; answers leave out the rest. */
struct cbx_mcp_revision {
	const char *name;
	bool batches;
	bool annotations;      /* of tools */
	bool progress_message; /* in notifications/progress */
	bool titles;           /* of tools and of the server */
	bool structured;       /* outputSchema and structuredContent */
	bool completions;      /* as a capability */
	bool modern;           /* no handshake: resultType, caching, no session that belongs to the connection */
};

struct cbx_mcp_batch;

/* Where one answer goes. Every slot is ended by exactly one of answer, error and drop. */
struct cbx_mcp_slot {
	char *id; /* raw text, owned; NULL: "null" */
	struct cbx_mcp_batch *batch; /* NULL: a message of its own */
	struct cbx_mcp_origin *origin; /* NULL: the connection itself */
	bool modern; /* the result gets resultType and the server's name, where it has none */
};

/* A stream of the carrier, as long as slots of its message are open. */
struct cbx_mcp_origin {
	LIST_ENTRY(cbx_mcp_origin) entry;
	void *stream; /* NULL: it has gone */
	size_t slots;
};
LIST_HEAD(cbx_mcp_origins, cbx_mcp_origin);

/* A message that passed the checks of JSON-RPC. All borrowed for the call. */
struct cbx_mcp_message {
	struct cbx_mcp *mcp;
	const struct cbx_mcp_revision *rev; /* that it was made under */
	struct cbx_raw text;
	const char *method;
	const cJSON *params; /* an object, or NULL */
};

void cbx_mcp_answer(struct cbx_mcp *mcp, struct cbx_mcp_slot *slot, cJSON *result); /* takes result */
void cbx_mcp_answer_text(struct cbx_mcp *mcp, struct cbx_mcp_slot *slot, const struct cbx_buf *result);
void cbx_mcp_error(struct cbx_mcp *mcp, struct cbx_mcp_slot *slot, int code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* The same with the error's data, which is taken. */
void cbx_mcp_error_data(struct cbx_mcp *mcp, struct cbx_mcp_slot *slot, int code, cJSON *data, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
void cbx_mcp_errorv(struct cbx_mcp *mcp, struct cbx_mcp_slot *slot, int code, cJSON *data, const char *fmt,
		    va_list ap) __attribute__((format(printf, 5, 0)));
void cbx_mcp_drop(struct cbx_mcp *mcp, struct cbx_mcp_slot *slot);
/* Bytes that an answer's result may have at most. */
size_t cbx_mcp_room(const struct cbx_mcp_slot *slot);
/* A notification that belongs to the request of this slot. */
void cbx_mcp_notify_slot(struct cbx_mcp *mcp, const struct cbx_mcp_slot *slot, const char *method,
			 const struct cbx_buf *params);
/* A request to the client, in the course of the request of this slot. What it answers is for registry->answered. */
void cbx_mcp_request_slot(struct cbx_mcp *mcp, const struct cbx_mcp_slot *slot, const char *id, const char *method,
			  const struct cbx_buf *params);

/* ---- legacy ---- */

const struct cbx_mcp_revision *cbx_mcp_legacy_newest(void);
/* Takes over the slot. */
void cbx_mcp_legacy_request(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot);
void cbx_mcp_legacy_notification(const struct cbx_mcp_message *m);

/* ---- modern ---- */

#define CBX_META "io.modelcontextprotocol/" /* before the names of what the protocol itself has in _meta */

/* Whether it belongs to the era without a handshake: because the carrier says so, or by its _meta, or by a method that
 * only that era has. */
bool cbx_mcp_is_modern(const struct cbx_mcp_message *m);
const struct cbx_mcp_revision *cbx_mcp_modern_newest(void);
/* Takes over the slot. */
void cbx_mcp_modern_request(struct cbx_mcp_message *m, struct cbx_mcp_slot *slot);
#define CBX_TTL_LIST_MS 3600000 /* of lists that are part of the program */
/* Puts into a result how long, and for whom, it may be kept; nothing where the revision does not know that. */
void cbx_mcp_set_caching(cJSON *result, const struct cbx_mcp_revision *rev, uint64_t ttl_ms, bool is_public);

/* ---- server: what it says of itself ---- */

void cbx_mcp_server_info(cJSON *obj, const char *key, const struct cbx_mcp_revision *rev);
cJSON *cbx_mcp_server_capabilities(const struct cbx_mcp *mcp, const struct cbx_mcp_revision *rev);
char *cbx_mcp_server_instructions(const struct cbx_mcp_revision *rev); /* malloc'd */

/* ---- methods of both eras: each takes over the slot ---- */

struct cbx_mcp_method {
	const char *name;
	void (*fn)(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot);
};

/* False: there is none of that name, and the slot is as it was. A table ends with one without a name; NULL: none. */
bool cbx_mcp_call_method(const struct cbx_mcp_method *table, const struct cbx_mcp_message *m,
			 struct cbx_mcp_slot *slot);
bool cbx_mcp_common_request(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot);
void cbx_mcp_no_method(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot);
/* A list of one page: false, and the slot was answered, when there is a cursor. */
bool cbx_mcp_check_no_cursor(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot);

/* ---- what is served: codebox's own tables, or a test's ---- */

struct cbx_mcp_tool;

struct cbx_mcp_registry {
	const struct cbx_mcp_tool *const *tools; /* in the order in which clients see them; NULL-terminated */
	/* Optional. Methods in place of, or beside, those of both eras; ended by one without a name. */
	const struct cbx_mcp_method *methods;
	/* Optional. The capabilities that are declared for them. */
	cJSON *(*capabilities)(const struct cbx_mcp_revision *rev);
	/* Optional. What a client answers to a request that one of the tools or methods has sent: the whole message. */
	void (*answered)(struct cbx_mcp *mcp, const cJSON *answer);
};
extern const struct cbx_mcp_registry cbx_mcp_codebox; /* tools.c */

/* ---- tools ---- */

struct cbx_mcp_call;
struct cbx_mcp_progress;

enum {
	CBX_TOOL_READ_ONLY = 1,
	CBX_TOOL_DESTRUCTIVE = 2,
	CBX_TOOL_IDEMPOTENT = 4,
	CBX_TOOL_OPEN_WORLD = 8,
};

struct cbx_mcp_tool {
	const char *name;
	const char *title;
	const char *description; /* below 2 KB: clients cut there */
	/* Optional. For revisions in which a connection has no session of its own: the description, and that of the
	 * argument session_id. */
	const char *modern_description, *modern_session;
	unsigned hints;
	cJSON *(*input)(void);
	cJSON *(*output)(void);
	void (*call)(struct cbx_mcp_call *call, const cJSON *args); /* ends the call, now or later */
	/* Stop what the call waits for: it has left its connection already. May be NULL. */
	void (*cancel)(struct cbx_mcp_call *call, struct cbx_engine *engine);
};

/*
 * One tools/call that has not been answered. The connection holds one reference, and every callback that the engine
 * may still make holds another: a callback that finds `mcp` NULL has nothing to do but give its reference back.
 */
struct cbx_mcp_call {
	TAILQ_ENTRY(cbx_mcp_call) entry;
	struct cbx_mcp *mcp; /* NULL once it was answered or dropped */
	const struct cbx_mcp_tool *tool;
	const struct cbx_mcp_revision *rev;
	struct cbx_mcp_slot slot;
	struct cbx_mcp_progress *progress; /* NULL: not asked for */
	const cJSON *params; /* of the request; only while the tool's call() runs */
	cJSON *held;         /* the request's parameters, while it waits for the client's roots; NULL: it does not */
	unsigned refs;
	char session_id[CBX_NAME_MAX + 1];
	uint64_t execution_id; /* 0: none */
	bool default_session;
	char *notice; /* told in the answer */
	struct event *timer; /* ends its wait for an execution; NULL: it does not wait */
	bool watching;       /* an execution's watch holds a reference */
	void (*answer)(struct cbx_mcp_call *call, struct cbx_execution *x); /* once the wait is over, ended or not */
	void (*finish)(struct cbx_mcp_call *call, const struct cbx_buf *result); /* NULL: the result is the answer */
	void *state; /* the tool's own */
	void (*release)(void *state); /* NULL: nothing to do */
};
TAILQ_HEAD(cbx_mcp_calls, cbx_mcp_call);

/* ---- roots: directories of the client's user ---- */

struct cbx_mcp_roots {
	bool declared; /* the client has some */
	bool known;    /* there is nothing to ask: it has answered, or is not waited for any more */
	bool asked;    /* roots/list was not answered yet ... */
	bool stale;    /* ... and its answer may be out of date */
	char id[20];   /* of that request */
	unsigned count;
	cJSON *mounts; /* as of cbx_session_spec; NULL: none */
	struct event *late;
};
void cbx_mcp_roots_initialize(struct cbx_mcp *mcp, const cJSON *params);
void cbx_mcp_roots_changed(struct cbx_mcp *mcp);
void cbx_mcp_roots_answered(struct cbx_mcp *mcp, const cJSON *answer);
void cbx_mcp_roots_drop(struct cbx_mcp *mcp);
/* True: the call has to wait until the client's roots are known; cbx_mcp_tools_resume() lets it go on. */
bool cbx_mcp_roots_wait(struct cbx_mcp_call *call, const cJSON *args);
void cbx_mcp_tools_resume(struct cbx_mcp_call *call); /* tools.c */
/* Where the request names no mounts: those that the client's roots make. */
void cbx_mcp_roots_apply(const struct cbx_mcp_call *call, struct cbx_session_spec *spec);

/* ---- jobs: requests of the protocol that wait for an answer of the engine ---- */

/*
 * At any time a job waits for exactly one callback, and that one ends it or asks for the next. When it was cancelled,
 * or its connection has gone, what is left of it is freed by cbx_mcp_job_wanted() in that callback.
 */
struct cbx_mcp_job {
	TAILQ_ENTRY(cbx_mcp_job) entry;
	struct cbx_mcp *mcp; /* NULL: the connection has gone */
	bool cancelled;
	const struct cbx_mcp_revision *rev;
	struct cbx_mcp_slot slot;
	void (*release)(void *state);
	void *state; /* freed by release */
};
TAILQ_HEAD(cbx_mcp_jobs, cbx_mcp_job);

/* Takes over the slot. NULL: there are too many, and the slot was answered; the state was released. */
struct cbx_mcp_job *cbx_mcp_job_new(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot, void *state,
				    void (*release)(void *state));
void cbx_mcp_job_end(struct cbx_mcp_job *job, cJSON *result); /* answers and frees; takes the result */
void cbx_mcp_job_fail(struct cbx_mcp_job *job, int code, cJSON *data, const char *fmt, ...)
	__attribute__((format(printf, 4, 5))); /* likewise; takes data */
/* To be called first in every callback: false when nobody waits, and the job was freed. */
bool cbx_mcp_job_wanted(struct cbx_mcp_job *job);
bool cbx_mcp_jobs_cancel(struct cbx_mcp *mcp, const char *id);
void cbx_mcp_jobs_drop(struct cbx_mcp *mcp); /* the connection has gone */

/* ---- walk: the files of a session ---- */

struct cbx_mcp_walk_file {
	const char *path; /* relative to /workspace; any bytes */
	uint64_t size;
};

/*
 * Look at all regular files below /workspace, on behalf of a job. `see` is called for each, and returns false when it
 * has seen enough; then `done` is called once, unless nobody waits for the job any more: err is NULL, or why the walk
 * has ended early. Neither is called from inside cbx_mcp_walk().
 */
struct cbx_mcp_walk {
	char session_id[CBX_NAME_MAX + 1];
	bool (*see)(struct cbx_mcp_job *job, const struct cbx_mcp_walk_file *file);
	void (*done)(struct cbx_mcp_job *job, const struct cbx_err *err);
	struct cbx_mcp_job *job; /* these two are the walk's own */
	uint64_t seen;
};
/* The struct must live as long as the job. < 0: it did not begin, and nothing is called. */
int cbx_mcp_walk(struct cbx_mcp_walk *w, struct cbx_mcp_job *job, struct cbx_err *err);

/* ---- resources ---- */

#define CBX_URI_SESSIONS "codebox://sessions"
#define CBX_URI_FILE_TEMPLATE "codebox://sessions/{session_id}/files/{+path}"
#define CBX_URI_MAX 16384

enum cbx_mcp_uri_kind { CBX_URI_NONE, CBX_URI_LIST, CBX_URI_SESSION, CBX_URI_FILE };

/* codebox://sessions[/ID[/files/PATH]]; the path is as in session.h, malloc'd. CBX_URI_NONE: nothing of ours. */
struct cbx_mcp_uri {
	enum cbx_mcp_uri_kind kind;
	char session_id[CBX_NAME_MAX + 1];
	char *path;
};
/* The bytes that %XX stand for; malloc'd, NULL: nothing is there, it is not well-formed, or it has a NUL. */
char *cbx_mcp_percent_decode(const char *p, size_t n);
struct cbx_mcp_uri cbx_mcp_uri_parse(const char *uri);
void cbx_mcp_uri_release(struct cbx_mcp_uri *uri);
/* Whether its owner is this connection, or everybody: what lists show. `info` is cbx_session_to_json(). */
bool cbx_mcp_session_visible(const struct cbx_mcp *mcp, const struct cbx_mcp_revision *rev, const cJSON *info);

void cbx_mcp_resources_list(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot);
void cbx_mcp_resources_templates(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot);
void cbx_mcp_resources_read(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot);

/* ---- prompts, completion ---- */

void cbx_mcp_prompts_list(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot);
void cbx_mcp_prompts_get(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot);
void cbx_mcp_complete(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot);
/* Whether a prompt has an argument of that name; false with *ret_prompt false: there is no such prompt. */
bool cbx_mcp_prompt_argument(const char *prompt, const char *argument, bool *ret_prompt);

/* ---- news: notifications of changes ---- */

enum { CBX_NEWS_TOOLS = 1, CBX_NEWS_PROMPTS = 2, CBX_NEWS_RESOURCES = 4 };

struct cbx_mcp_task_watch;

struct cbx_mcp_watched {
	char *uri; /* as the client wrote it */
	struct cbx_mcp_uri parsed;
	bool due;
};

/* One that wants to hear: a subscriptions/listen request, or a legacy client as a whole (slot without an id). */
struct cbx_mcp_stream {
	TAILQ_ENTRY(cbx_mcp_stream) entry;
	struct cbx_mcp_slot slot;
	unsigned wanted, due; /* CBX_NEWS_*: asked for; not told yet */
	struct cbx_mcp_watched *uris;
	size_t nuris;
	struct cbx_mcp_task_watch *tasks[CBX_STREAM_TASKS_MAX]; /* NULL: free */
};
TAILQ_HEAD(cbx_mcp_streams, cbx_mcp_stream);

void cbx_mcp_listen(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot);           /* subscriptions/listen */
void cbx_mcp_resources_subscribe(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot);   /* legacy */
void cbx_mcp_resources_unsubscribe(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot); /* legacy */
void cbx_mcp_news_legacy(struct cbx_mcp *mcp); /* the handshake is over: list_changed may be sent */
struct cbx_mcp_stream *cbx_mcp_stream_find(struct cbx_mcp *mcp, const char *id); /* by its raw id; or NULL */
bool cbx_mcp_streams_cancel(struct cbx_mcp *mcp, const char *id);
void cbx_mcp_news_drop(struct cbx_mcp *mcp); /* the connection has gone */
/* Tell now what would be told a moment later: before an answer, since there are clients (a connection for each call,
 * with series 1 of the Python SDK) that fail on a message that comes while they are leaving. */
void cbx_mcp_news_flush(struct cbx_mcp *mcp);
/* What subscribe and unsubscribe do once the uri was checked; false: there are too many. */
bool cbx_mcp_news_subscribe(struct cbx_mcp *mcp, const char *uri);
void cbx_mcp_news_unsubscribe(struct cbx_mcp *mcp, const char *uri);
/* A list (CBX_NEWS_*) has changed: tell those who asked, soon. */
void cbx_mcp_list_changed(struct cbx_mcp *mcp, unsigned kind);
/* A cell has changed files: its "files", as in session.h. All connections that see the session hear of it. */
void cbx_mcp_files_changed(struct cbx_mcp *mcp, const char *session_id, const cJSON *files);

struct cbx_mcp {
	struct cbx_engine *engine;
	struct event_base *base;
	struct cbx_mcp_io io;
	const struct cbx_mcp_registry *registry;
	struct cbx_mcp_origins origins;
	struct cbx_mcp_origin *origin; /* of the message that is being received */
	bool asked; /* it holds a request */
	const struct cbx_mcp_revision *rev; /* of the legacy era */
	bool modern_only;
	struct cbx_mcp_calls calls;
	size_t ncalls;
	struct cbx_mcp_jobs jobs;       /* requests that wait for files */
	size_t njobs;
	struct cbx_mcp_streams streams; /* who wants to hear of changes */
	size_t nstreams;
	struct cbx_mcp_news *news;      /* NULL: nobody was there yet */
	struct cbx_mcp_roots roots;
	char default_session[CBX_NAME_MAX + 1]; /* "": none yet */
	bool default_used; /* a cell has run in it, so there is something to lose */
};

extern const struct cbx_mcp_tool cbx_mcp_run_code;
extern const struct cbx_mcp_tool cbx_mcp_get_execution;
extern const struct cbx_mcp_tool cbx_mcp_interrupt;
extern const struct cbx_mcp_tool cbx_mcp_create_session;
extern const struct cbx_mcp_tool cbx_mcp_list_sessions;
extern const struct cbx_mcp_tool cbx_mcp_session_info;
extern const struct cbx_mcp_tool cbx_mcp_close_session;
extern const struct cbx_mcp_tool cbx_mcp_list_files;
extern const struct cbx_mcp_tool cbx_mcp_read_file;
extern const struct cbx_mcp_tool cbx_mcp_write_file;
extern const struct cbx_mcp_tool cbx_mcp_upload_file;

cJSON *cbx_mcp_tools_list(const struct cbx_mcp *mcp, const struct cbx_mcp_revision *rev);
void cbx_mcp_tools_call(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot); /* takes over the slot */
void cbx_mcp_tools_cancel(struct cbx_mcp *mcp, const char *id); /* an id that is not known is ignored */

void cbx_mcp_call_end(struct cbx_mcp_call *call, const char *text, cJSON *structured); /* takes structured */
void cbx_mcp_call_end_text(struct cbx_mcp_call *call, const struct cbx_buf *result);   /* a printed CallToolResult */
void cbx_mcp_call_refuse(struct cbx_mcp_call *call, const struct cbx_err *err); /* isError, with what to do next */
/* A JSON-RPC error in place of a result; takes data, which may be NULL. */
void cbx_mcp_call_fail(struct cbx_mcp_call *call, int code, cJSON *data, const char *msg);
/* Bytes that the result may have at most. */
size_t cbx_mcp_call_room(const struct cbx_mcp_call *call);
/* Takes over the slot; an empty one is for a call that is not answered (it has a `finish`). */
struct cbx_mcp_call *cbx_mcp_call_new(struct cbx_mcp *mcp, const struct cbx_mcp_tool *tool,
				      const struct cbx_mcp_revision *rev, struct cbx_mcp_slot *slot);
void cbx_mcp_call_drop(struct cbx_mcp_call *call); /* cancelled, or nobody is there: no answer */
void cbx_mcp_call_unref(struct cbx_mcp_call *call);

/* One more block of content, which is returned; an image. */
cJSON *cbx_mcp_add_block(cJSON *content, const char *type);
void cbx_mcp_add_image(cJSON *content, const char *mime, const char *base64);

/* What cbx_mcp_schema_session() says of its argument; where there is no default session, it is required. */
#define CBX_SESSION_ARGUMENT "The session, as an earlier answer told it; left out: this connection's own."
#define CBX_SESSION_ARGUMENT_REQUIRED "The session, as an earlier answer told it."
/* JSON Schema: an object type; a property of it, returned for more keywords. */
cJSON *cbx_mcp_schema_object(cJSON *properties, const char *const *required, bool closed);
cJSON *cbx_mcp_schema_property(cJSON *properties, const char *name, const char *type, const char *description);

/* ---- wait: a call and an execution ---- */

/* Have call->answer called when x has ended, or when ms are over: at once when one of that is so already. < 0: too many
 * wait for it, and nothing is called. */
int cbx_mcp_wait(struct cbx_mcp_call *call, struct cbx_execution *x, uint64_t ms, struct cbx_err *err);
/* Wait no longer. The execution, or NULL when there is none to stop waiting for. */
struct cbx_execution *cbx_mcp_wait_stop(struct cbx_mcp_call *call, struct cbx_engine *engine);
void cbx_mcp_wait_cancel(struct cbx_mcp_call *call, struct cbx_engine *engine); /* for tools whose end stops nothing */
/* "session_id", or the connection's own session where it has one. Sets call->session_id. */
int cbx_mcp_arg_session(struct cbx_mcp_call *call, const cJSON *args, struct cbx_session **ret, struct cbx_err *err);
void cbx_mcp_schema_session(cJSON *properties);
/* The connection's own session, made when there is none; sets call->notice when an earlier one has ended. */
int cbx_mcp_default_session(struct cbx_mcp_call *call, struct cbx_session **ret, struct cbx_err *err);

/* ---- tasks: the extension io.modelcontextprotocol/tasks ---- */

#define CBX_MCP_TASKS CBX_META "tasks"
extern const struct cbx_mcp_method cbx_mcp_task_methods[];
/* Whether a request (its params) comes from a client that takes tasks. */
bool cbx_mcp_takes_tasks(const cJSON *params);
/* An error which says that the client must; takes the slot. */
void cbx_mcp_tasks_needed(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot);
/* Answer with an execution: as a task, if it has not ended and there can be one more. */
void cbx_mcp_task_outcome(struct cbx_mcp_call *call, struct cbx_execution *x);
/* The execution of a task, which may be of any client; NULL: there is none of that id. */
struct cbx_execution *cbx_mcp_task_find(struct cbx_mcp *mcp, const char *task_id);
/* Tell a stream of a task: now if it has ended, or else at its end. NULL: too many wait for it, or it has ended. */
struct cbx_mcp_task_watch *cbx_mcp_task_watch(struct cbx_mcp *mcp, struct cbx_mcp_stream *stream,
					      struct cbx_execution *x);
void cbx_mcp_task_unwatch(struct cbx_mcp_task_watch *w);

/* ---- files: of a session, as tools and answers name them ---- */

/* cbx_mcp_arg_session() of a tool whose argument `key` is a path: an address there names the session, too. */
int cbx_mcp_arg_file_session(struct cbx_mcp_call *call, const cJSON *args, const char *key, struct cbx_session **ret,
			     struct cbx_err *err);
/* A path, or the address of a file of call->session_id; *ret is malloc'd. Missing: an error. */
int cbx_mcp_arg_path(struct cbx_mcp_call *call, const cJSON *args, const char *key, char **ret, struct cbx_err *err);
const char *cbx_mcp_workspace_path(const char *path); /* relative to /workspace; NULL: it is not below it */
void cbx_mcp_clean_name(struct cbx_buf *out, const char *name); /* append, on one line, whatever is in it */

/* ---- progress ---- */

/* Starts when the message holds a progress token; -EINVAL when the token is no string or whole number. */
int cbx_mcp_progress_start(struct cbx_mcp_call *call, const struct cbx_mcp_message *m, struct cbx_err *err);
void cbx_mcp_progress_output(struct cbx_mcp_call *call, const char *stream, const char *p, size_t n);
void cbx_mcp_progress_stop(struct cbx_mcp_call *call);

/* ---- result, screen ---- */

/* An image file that a cell wrote; path and mime are borrowed. */
struct cbx_mcp_image {
	const char *path, *mime;
	size_t size;
	struct cbx_buf bytes;
};
bool cbx_mcp_image_sendable(const char *mime); /* one of the types that clients take */
bool cbx_mcp_image_sound(const char *mime, const struct cbx_buf *bytes); /* its first bytes are of that type */

/* Answer with an execution, ended or not. */
void cbx_mcp_outcome(struct cbx_mcp_call *call, struct cbx_execution *x);
/* An execution (cbx_execution_to_json() without displays, and those beside it) as a printed CallToolResult of less than
 * `room` bytes. */
void cbx_mcp_result_print(struct cbx_buf *out, const struct cbx_mcp_call *call, const cJSON *x, const cJSON *displays,
			  const struct cbx_mcp_image *images, size_t nimages, size_t room);
cJSON *cbx_mcp_result_schema(void);

/* Append text as a terminal would leave it: escape sequences gone, carriage returns and backspaces carried out. */
void cbx_mcp_screen(struct cbx_buf *out, const char *text);
/* Append at most max characters of valid UTF-8: head and tail, and between them a note with the number of bytes left
 * out, `before` of which were missing already, and a clause that says where they are (may be NULL). Returns bytes cut
 * here. */
size_t cbx_mcp_cut(struct cbx_buf *out, const char *text, size_t max, uint64_t before, const char *where);

#endif
