/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_MCP_INTERNAL_H
#define CBX_MCP_INTERNAL_H

/*
 * What the files of this directory share. From the wire inwards:
 *
 *   raw      finds the bytes of a member in a message that was already found to be JSON: ids go back as they came
 *   rpc      JSON-RPC 2.0: one message in, checked and handed to an era; answers out, alone or as a batch
 *   legacy   the era of the initialize handshake (2024-11-05 to 2025-11-25): its methods and notifications
 *   tools    the table of tools and the life of a call: listed, called, answered, cancelled
 *   run, manage  the tools themselves
 *   progress  notifications/progress of one call
 *   result   an execution as the content of an answer, within a size
 *   screen   text as a terminal would show it, and cut to a size
 *
 * An era knows methods and nothing of sessions; a tool knows sessions and nothing of eras: what an answer may hold is
 * in the revision that its request was made under.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
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
};

/* What a protocol revision knows; answers leave out the rest. */
struct cbx_mcp_revision {
	const char *name;
	bool batches;
	bool annotations;      /* of tools */
	bool progress_message; /* in notifications/progress */
	bool titles;           /* of tools and of the server */
	bool structured;       /* outputSchema and structuredContent */
};

struct cbx_mcp_batch;

/* Where one answer goes. Every slot is ended by exactly one of answer, error and drop. */
struct cbx_mcp_slot {
	char *id; /* raw text, owned; NULL: "null" */
	struct cbx_mcp_batch *batch; /* NULL: a message of its own */
};

/* A message that passed the checks of JSON-RPC. All borrowed for the call. */
struct cbx_mcp_message {
	struct cbx_mcp *mcp;
	struct cbx_raw text;
	const char *method;
	const cJSON *params; /* an object, or NULL */
};

void cbx_mcp_answer(struct cbx_mcp *mcp, struct cbx_mcp_slot *slot, cJSON *result); /* takes result */
void cbx_mcp_answer_text(struct cbx_mcp *mcp, struct cbx_mcp_slot *slot, const struct cbx_buf *result);
void cbx_mcp_error(struct cbx_mcp *mcp, struct cbx_mcp_slot *slot, int code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void cbx_mcp_drop(struct cbx_mcp *mcp, struct cbx_mcp_slot *slot);
/* Bytes that an answer's result may have at most. */
size_t cbx_mcp_room(const struct cbx_mcp_slot *slot);
void cbx_mcp_notify(struct cbx_mcp *mcp, const char *method, const struct cbx_buf *params);

/* ---- legacy ---- */

const struct cbx_mcp_revision *cbx_mcp_legacy_newest(void);
/* Takes over the slot. */
void cbx_mcp_legacy_request(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot);
void cbx_mcp_legacy_notification(const struct cbx_mcp_message *m);

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
	unsigned refs;
	char session_id[CBX_NAME_MAX + 1];
	uint64_t execution_id; /* 0: none */
	bool default_session;
	char *notice; /* told in the answer */
};
TAILQ_HEAD(cbx_mcp_calls, cbx_mcp_call);

struct cbx_mcp {
	struct cbx_engine *engine;
	struct event_base *base;
	struct cbx_mcp_io io;
	const struct cbx_mcp_revision *rev;
	struct cbx_mcp_calls calls;
	size_t ncalls;
	char default_session[CBX_NAME_MAX + 1]; /* "": none yet */
	bool default_used; /* a cell has run in it, so there is something to lose */
};

extern const struct cbx_mcp_tool cbx_mcp_run_code;
extern const struct cbx_mcp_tool cbx_mcp_create_session;
extern const struct cbx_mcp_tool cbx_mcp_list_sessions;
extern const struct cbx_mcp_tool cbx_mcp_close_session;

cJSON *cbx_mcp_tools_list(const struct cbx_mcp_revision *rev);
/* tools/call; takes over the slot. */
void cbx_mcp_tools_call(const struct cbx_mcp_message *m, const struct cbx_mcp_revision *rev,
			struct cbx_mcp_slot *slot);
void cbx_mcp_tools_cancel(struct cbx_mcp *mcp, const char *id); /* an id that is not known is ignored */

void cbx_mcp_call_end(struct cbx_mcp_call *call, const char *text, cJSON *structured); /* takes structured */
void cbx_mcp_call_end_text(struct cbx_mcp_call *call, const struct cbx_buf *result);   /* a printed CallToolResult */
void cbx_mcp_call_refuse(struct cbx_mcp_call *call, const struct cbx_err *err); /* isError, with what to do next */
void cbx_mcp_call_drop(struct cbx_mcp_call *call); /* cancelled, or nobody is there: no answer */
void cbx_mcp_call_unref(struct cbx_mcp_call *call);

/* JSON Schema: an object type; a property of it, returned for more keywords. */
cJSON *cbx_mcp_schema_object(cJSON *properties, const char *const *required, bool closed);
cJSON *cbx_mcp_schema_property(cJSON *properties, const char *name, const char *type, const char *description);

/* ---- progress ---- */

/* Starts when the message holds a progress token; -EINVAL when the token is no string or whole number. */
int cbx_mcp_progress_start(struct cbx_mcp_call *call, const struct cbx_mcp_message *m, struct cbx_err *err);
void cbx_mcp_progress_output(struct cbx_mcp_call *call, const char *stream, const char *p, size_t n);
void cbx_mcp_progress_stop(struct cbx_mcp_call *call);

/* ---- result, screen ---- */

/* The ended execution as a printed CallToolResult of less than `room` bytes. */
void cbx_mcp_result_print(struct cbx_buf *out, const struct cbx_mcp_call *call, const struct cbx_execution *x,
			  size_t room);
cJSON *cbx_mcp_result_schema(void);

/* Append text as a terminal would leave it: escape sequences gone, carriage returns and backspaces carried out. */
void cbx_mcp_screen(struct cbx_buf *out, const char *text);
/* Append at most max characters of valid UTF-8: head and tail, and between them a note with the number of bytes left
 * out, `before` of which were missing already, and the file that has them all (may be NULL). Returns bytes cut here. */
size_t cbx_mcp_cut(struct cbx_buf *out, const char *text, size_t max, uint64_t before, const char *file);

#endif
