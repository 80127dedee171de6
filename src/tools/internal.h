/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_TOOLS_INTERNAL_H
#define CBX_TOOLS_INTERNAL_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/str.h"
#include "session/commands.h"
#include "tools/tools.h"

/* ---- call ---- */

void cbx_tool_end(struct cbx_tool_call *call, const char *text, cJSON *structured); /* takes structured */
void cbx_tool_fetch_free(struct cbx_tool_fetch *fetch);				    /* outcome.c; NULL is accepted */

/* ---- arguments ---- */

/* "session_id", or the client's own session where it has one. Sets call->session_id. */
int cbx_tool_arg_session(struct cbx_tool_call *call, const cJSON *args, struct cbx_session **ret, struct cbx_err *err);
/* The same for a tool whose argument `key` is a path: an address there names the session, too. */
int cbx_tool_arg_file_session(struct cbx_tool_call *call, const cJSON *args, const char *key, struct cbx_session **ret,
			      struct cbx_err *err);
/* The client's own session, made where it is not there yet; likewise. */
int cbx_tool_own_session(struct cbx_tool_call *call, struct cbx_session **ret, struct cbx_err *err);
/* A path, or the address of a file of call->session_id; *ret is malloc'd. Missing: an error. */
int cbx_tool_arg_path(struct cbx_tool_call *call, const cJSON *args, const char *key, char **ret, struct cbx_err *err);

/* "session_id" of a tool that makes a session when there is none: its form alone; *ret NULL: not given. */
int cbx_tool_arg_new_session(const cJSON *args, const char **ret, struct cbx_err *err);
/* That session; id NULL: the client's own, or one for this call. */
int cbx_tool_session(struct cbx_tool_call *call, const char *id, struct cbx_session **ret, struct cbx_err *err);

/* ---- wait ---- */

/* Have call->answer called when x has ended, or when ms are over: at once when one of that is so already. < 0: too many
 * wait for it, and nothing is called. */
int cbx_tool_wait(struct cbx_tool_call *call, struct cbx_execution *x, uint64_t ms, struct cbx_err *err);
/* Wait no longer. The execution, or NULL when there is none to stop waiting for. */
struct cbx_execution *cbx_tool_wait_stop(struct cbx_tool_call *call);
void cbx_tool_started(struct cbx_tool_call *call); /* its session is used from now on */

/* The same for a command, with call->command_answer. */
int cbx_tool_command_wait(struct cbx_tool_call *call, struct cbx_command *c, uint64_t ms, struct cbx_err *err);
/* End the call with it, ended or not. */
void cbx_tool_command_outcome(struct cbx_tool_call *call, struct cbx_command *c);

/* ---- download ---- */

/* A file that is fetched for a call. Zero before, and after cbx_tool_download_end(). */
struct cbx_download {
	struct cbx_command_op op;
	void (*done)(struct cbx_download *d, size_t bytes, const struct cbx_err *err);
	uint64_t most_bytes, most_s; /* if less than codebox takes; 0: they are not */
};
/* Fetch a URL into a file of the session, which is there when it is complete. `done` has been set. instead: what to do
 * where the policy allows no hosts. */
int cbx_tool_download(struct cbx_tool_call *call, struct cbx_session *session, const char *url, const char *path,
		      const char *instead, struct cbx_download *d, struct cbx_err *err);
void cbx_tool_download_end(struct cbx_download *d); /* it is given up, if it is under way */

/* ---- the tools ---- */

void cbx_tool_run_code(struct cbx_tool_call *call, const cJSON *args);
void cbx_tool_cancel_run(struct cbx_tool_call *call);
void cbx_tool_run_command(struct cbx_tool_call *call, const cJSON *args);
void cbx_tool_cancel_command(struct cbx_tool_call *call);
void cbx_tool_get_execution(struct cbx_tool_call *call, const cJSON *args);
void cbx_tool_interrupt(struct cbx_tool_call *call, const cJSON *args);
void cbx_tool_create_session(struct cbx_tool_call *call, const cJSON *args);
void cbx_tool_cancel_create(struct cbx_tool_call *call);
void cbx_tool_list_sessions(struct cbx_tool_call *call, const cJSON *args);
void cbx_tool_session_info(struct cbx_tool_call *call, const cJSON *args);
void cbx_tool_close_session(struct cbx_tool_call *call, const cJSON *args);
void cbx_tool_restart(struct cbx_tool_call *call, const cJSON *args);
void cbx_tool_install_packages(struct cbx_tool_call *call, const cJSON *args);
void cbx_tool_run_sql(struct cbx_tool_call *call, const cJSON *args);
void cbx_tool_list_files(struct cbx_tool_call *call, const cJSON *args);
void cbx_tool_read_file(struct cbx_tool_call *call, const cJSON *args);
void cbx_tool_write_file(struct cbx_tool_call *call, const cJSON *args);
void cbx_tool_upload_file(struct cbx_tool_call *call, const cJSON *args);

#endif
