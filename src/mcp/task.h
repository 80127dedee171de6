/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_MCP_TASK_H
#define CBX_MCP_TASK_H

/* The extension io.modelcontextprotocol/tasks. */
#include "mcp/state.h"

#define CBX_MCP_TASKS	      CBX_META "tasks"
#define CBX_MCP_TASK_HEAD_MAX 4096 /* bytes of a task without its result */

/* ---- task ---- */

/* Whether a request (its params) comes from a client that takes tasks. */
bool cbx_mcp_takes_tasks(const cJSON *params);
/* An error which says that the client must; takes the slot. */
void cbx_mcp_tasks_needed(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot);
const char *cbx_mcp_task_status(const struct cbx_execution *x);
/* A task without result; x is held. */
cJSON *cbx_mcp_task_describe(const struct cbx_execution *x, const char *result_type);
/* The execution of a task, which may be of any client; NULL: there is none of that id. */
struct cbx_execution *cbx_mcp_task_find(struct cbx_mcp *mcp, const char *task_id);

/* ---- tasks ---- */

void cbx_mcp_task_get(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot);
void cbx_mcp_task_update(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot);
void cbx_mcp_task_cancel(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot);
/* Tell a stream of a task: now if it has ended, or else at its end. NULL: too many wait for it, or it has ended. */
struct cbx_mcp_task_watch *cbx_mcp_task_watch(struct cbx_mcp *mcp, struct cbx_mcp_stream *stream,
					      struct cbx_execution *x);
void cbx_mcp_task_unwatch(struct cbx_mcp_task_watch *w);
/* The stream has gone: nothing of it is fetched any more. */
void cbx_mcp_tasks_forget(struct cbx_mcp *mcp, const struct cbx_mcp_stream *stream);

#endif
