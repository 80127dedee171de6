/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PROFILES_CODEBOXMCP_STEP_H
#define CBX_PROFILES_CODEBOXMCP_STEP_H

/* Of the profile codeboxmcp: its calls, between codeboxmcp.c, which has the tools, codeboxmcp-cells.c (exec_code),
 * codeboxmcp-sql.c (exec_sql) and codeboxmcp-files.c (sessions with their directories, artifacts, upload_file). */
#include "profiles/internal.h"

#define CBX_CBM_WORKDIR	  "/workspace"
#define CBX_CBM_INPUT	  CBX_CBM_WORKDIR "/input"
#define CBX_CBM_OUTPUT	  CBX_CBM_WORKDIR "/output"
#define CBX_CBM_TTL_S	  3600
#define CBX_CBM_IDLE_S	  1800
#define CBX_CBM_EXEC_S	  300
#define CBX_CBM_ARTIFACTS 500 /* of one answer */

/* What is in force for a call: the profile's own, or less by the headers of its request. */
struct cbx_cbm_limits {
	uint64_t ttl_s, idle_s; /* of a session that it makes */
	uint64_t exec_s;
	uint64_t download_s, download_bytes;
};

struct cbx_cbm_step {
	struct cbx_cbm_limits limits;
	char *code; /* or query */
	char *string, *password; /* of the database that the request names; NULL: none */
	uint64_t inline_rows;	 /* of an answer; 0: as the policy says */
	uint32_t link_s;	 /* of the links to what the cell makes; 0: as the policy says */
	char *store, *container; /* that these go to, as the request has them; NULL: as the policy says */
	const char *language;
	void (*then)(struct cbx_tool_call *call); /* once the session is there */
	unsigned made;				  /* directories */
	cJSON *texts, *images, *changed;	  /* of the cell: texts, blocks, paths below the workspace */
	cJSON *links;				  /* of those that are kept, by their paths */
	cJSON *found;				  /* at the top of the workspace, to be moved */
	uint64_t seen;				  /* entries of a list, or files of output */
	size_t bytes;				  /* of the list, printed, estimated from above */
	bool cut;				  /* there are more than are listed */
	unsigned tries;				  /* names for the file that is moved */
	char *target;				  /* the one that is tried */
	cJSON *artifacts;
	char *name;				  /* of the file that is fetched */
	struct cbx_download download;
	struct cbx_tool_call *call; /* of that */
};


struct cbx_cbm_step *cbx_cbm_step(struct cbx_tool_call *call); /* the state of a call, from its beginning */
void cbx_cbm_fail_as(struct cbx_tool_call *call, const char *id, const char *why);
void cbx_cbm_fail(struct cbx_tool_call *call, const struct cbx_err *err);
cJSON *cbx_cbm_success(const struct cbx_tool_call *call);
/* The session's id; -1: the call was answered. */
int cbx_cbm_take_id(struct cbx_tool_call *call, const cJSON *args);
/* Its session, which is made if it is not there, with its directories. */
void cbx_cbm_with_session(struct cbx_tool_call *call, void (*then)(struct cbx_tool_call *call));
void cbx_cbm_list_output(struct cbx_tool_call *call); /* into its step's artifacts; then step->then */
const char *cbx_cbm_extension(const char *name);      /* with its dot; "": it has none */

/* Into its step, from the headers of the request. -1: the call was answered. */
int cbx_cbm_take_limits(struct cbx_tool_call *call);
/* What the headers of the request say of links, in seconds. 0: nothing; < 0: the call was answered. */
int64_t cbx_cbm_link_seconds(struct cbx_tool_call *call);
void cbx_cbm_take_store(struct cbx_tool_call *call); /* into its step */

void cbx_cbm_exec_code(struct cbx_tool_call *call, const cJSON *args);
void cbx_cbm_exec_sql(struct cbx_tool_call *call, const cJSON *args);
void cbx_cbm_upload_file(struct cbx_tool_call *call, const cJSON *args);

#endif
