/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_MCP_REQUEST_H
#define CBX_MCP_REQUEST_H

/* Requests of the protocol that wait for an answer of the engine, and what all requests have in common. */
#include "mcp/state.h"

void cbx_mcp_no_method(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot);
/* A list of one page: false, and the slot was answered, when there is a cursor. */
bool cbx_mcp_check_no_cursor(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot);

/*
 * At any time a job waits for its operation, whose end ends it or asks for the next. When it is cancelled, or its
 * connection goes, the operation is cancelled with it.
 */
struct cbx_mcp_request {
	TAILQ_ENTRY(cbx_mcp_request) entry;
	struct cbx_mcp *mcp;
	struct cbx_file_op file;
	struct cbx_answer_op answer;
	struct cbx_mcp_walk *walk; /* in the state; NULL: it does not walk */
	const struct cbx_mcp_revision *rev;
	struct cbx_rpc_slot slot;
	void (*release)(void *state);
	void *state; /* freed by release */
};

/* Takes over the slot. NULL: there are too many, and the slot was answered; the state was released. */
struct cbx_mcp_request *cbx_mcp_request_new(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot, void *state,
				    void (*release)(void *state));
void cbx_mcp_request_end(struct cbx_mcp_request *job, cJSON *result); /* answers and frees; takes the result */
void cbx_mcp_request_fail(struct cbx_mcp_request *job, int code, cJSON *data, const char *fmt, ...)
	__attribute__((format(printf, 4, 5))); /* likewise; takes data */
bool cbx_mcp_requests_cancel(struct cbx_mcp *mcp, const char *id);
void cbx_mcp_requests_drop(struct cbx_mcp *mcp); /* the connection has gone */

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
	bool (*see)(struct cbx_mcp_request *job, const struct cbx_mcp_walk_file *file);
	void (*done)(struct cbx_mcp_request *job, const struct cbx_err *err);
	struct cbx_mcp_request *job; /* these two are the walk's own */
	uint64_t seen, pages;
	bool cut; /* when it is done: there are files that it has not seen */
};
/* The struct must live as long as the job. < 0: it did not begin, and nothing is called. */
int cbx_mcp_walk(struct cbx_mcp_walk *w, struct cbx_mcp_request *job, struct cbx_err *err);

#endif
