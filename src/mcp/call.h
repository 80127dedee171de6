/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_MCP_CALL_H
#define CBX_MCP_CALL_H

/* tools/call: a tool's call as a request of the protocol. */
#include "mcp/state.h"

struct cbx_mcp_call {
	struct cbx_tool_call tool; /* first */
	TAILQ_ENTRY(cbx_mcp_call) entry;
	struct cbx_mcp *mcp;
	const struct cbx_mcp_revision *rev;
	struct cbx_rpc_slot slot;
	struct cbx_mcp_progress *progress; /* NULL: not asked for */
	const cJSON *params;		   /* of the request; only while the tool's call() runs */
	cJSON *held;	  /* the request's parameters, while it waits for the client's roots; NULL: it does not */
	size_t bytes;	  /* of the request */
	bool takes_tasks; /* run_code may leave a task behind */
	bool starting, ended;
	/* For a task with its result. */
	cJSON *task;
	struct cbx_mcp_stream *stream; /* that gets it as news; NULL: it is an answer */
	void (*finish)(struct cbx_mcp_call *call, const struct cbx_buf *result); /* NULL: the result is the answer */
};

cJSON *cbx_mcp_tools_list(const struct cbx_mcp *mcp, const struct cbx_mcp_revision *rev);
void cbx_mcp_tools_call(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot); /* takes over the slot */
void cbx_mcp_tools_cancel(struct cbx_mcp *mcp, const char *id); /* an id that is not known is ignored */

/* A call that is not of tools/call: its result goes to `finish`. Takes over the slot; an empty one: it has no answer.
 */
struct cbx_mcp_call *cbx_mcp_call_new(struct cbx_mcp *mcp, const struct cbx_tool *tool,
				      const struct cbx_mcp_revision *rev, struct cbx_rpc_slot *slot);
void cbx_mcp_call_drop(struct cbx_mcp_call *call); /* cancelled, or nobody is there: no answer */
/* A JSON-RPC error in place of a result; takes data, which may be NULL. */
void cbx_mcp_call_fail(struct cbx_mcp_call *call, int code, cJSON *data, const char *msg);

void cbx_mcp_calls_resume(struct cbx_mcp *mcp); /* those that waited for roots */

/* ---- progress ---- */

/* Starts when the message holds a progress token; -EINVAL when the token is neither a string nor a whole number. */
int cbx_mcp_progress_start(struct cbx_mcp_call *call, const struct cbx_mcp_message *m, struct cbx_err *err);
void cbx_mcp_progress_output(struct cbx_mcp_call *call, const char *stream, const char *p, size_t n);
void cbx_mcp_progress_stop(struct cbx_mcp_call *call);

/* ---- roots ---- */

void cbx_mcp_roots_initialize(struct cbx_mcp *mcp, const cJSON *params);
void cbx_mcp_roots_changed(struct cbx_mcp *mcp);
void cbx_mcp_roots_answered(struct cbx_mcp *mcp, const cJSON *answer);
void cbx_mcp_roots_drop(struct cbx_mcp *mcp);
void cbx_mcp_roots_give_up(struct cbx_mcp *mcp); /* nobody is there to answer: nobody waits */
/* True: the call has to wait until the client's roots are known, when mcp->roots.settled is called. */
bool cbx_mcp_roots_wait(struct cbx_mcp_call *call, const cJSON *args);

#endif
