/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PROFILES_INTERNAL_H
#define CBX_PROFILES_INTERNAL_H

#include "mcp/state.h"
#include "tools/internal.h"

/* A resource that is text; an address that ends in "{session_id}" is a template. */
struct cbx_profile_resource {
	const char *uri, *name, *description;
	char *(*text)(struct cbx_mcp *mcp, const char *session_id); /* malloc'd; session_id NULL: not a template */
};

struct cbx_profile {
	struct cbx_mcp_registry registry;
	const struct cbx_profile_resource *resources; /* ended by one without an address */
};
extern const struct cbx_profile cbx_profile_codebox_ai, cbx_profile_codeboxmcp, cbx_profile_code_sandbox,
	cbx_profile_mcp_code_sandbox;

/* ---- schemas, as the Python SDK makes them of a function's signature ---- */

#define CBX_PROFILE_JSON(...) #__VA_ARGS__
#define CBX_PROFILE_INPUT(name, required, properties)                                                                  \
	"{\"properties\":" properties ",\"required\":" required ",\"title\":\"" name "Arguments\",\"type\":"           \
	"\"object\"}"
#define CBX_PROFILE_INPUT_NONE(name, properties)                                                                       \
	"{\"properties\":" properties ",\"title\":\"" name "Arguments\",\"type\":\"object\"}"

/* ---- resources.c ---- */

extern const struct cbx_mcp_method cbx_profile_methods[];
cJSON *cbx_profile_capabilities(const struct cbx_mcp_revision *rev);

/* ---- common.c: arguments, sessions, cells, ends ---- */

/* A string that must be there. */
int cbx_profile_arg(const cJSON *args, const char *key, const char **ret, struct cbx_err *err);
/* "session_id" of the arguments, which names a session. Sets call->session_id. */
int cbx_profile_arg_id(struct cbx_tool_call *call, const cJSON *args, struct cbx_err *err);
/* call->session_id; "": one for this call alone, with a name of its own. settings: JSON of a request, for what the
 * client was not started with; it and the operation may be NULL. */
int cbx_profile_make(struct cbx_tool_call *call, const char *settings, struct cbx_ready_op *op,
		     struct cbx_session **ret, struct cbx_err *err);
int cbx_profile_find(struct cbx_tool_call *call, struct cbx_session **ret, struct cbx_err *err);
/* Run a cell of call->session_id, for as long as the client was started for, else cell->timeout_ms; `answer` is called
 * when it has ended, or cannot be waited for any longer. */
int cbx_profile_run(struct cbx_tool_call *call, struct cbx_cell_spec *cell,
		    void (*answer)(struct cbx_tool_call *call, struct cbx_execution *x), struct cbx_err *err);
/* What the cell printed and the values that it showed, as text, in the order in which they came: an array of strings.
 * figures: also the words that stand for a figure. */
cJSON *cbx_profile_texts(const struct cbx_tool_call *call, struct cbx_execution *x, bool figures);
/* Its figures, as blocks at the end of content, as many as have room. */
void cbx_profile_add_images(const struct cbx_tool_call *call, cJSON *content, struct cbx_execution *x);
/* What happened to a cell that an exception did not end: a sentence, borrowed; NULL: nothing to tell. */
const char *cbx_profile_fate(const cJSON *x);
/* Text of a cell, cut to what has room beside others. */
void cbx_profile_print(const struct cbx_tool_call *call, struct cbx_buf *out, const char *text);
/* Likewise, as a terminal would show it. */
void cbx_profile_screen(const struct cbx_tool_call *call, struct cbx_buf *out, const char *text);

/* They end the call, and its session where that was made for it alone. */
void cbx_profile_end(struct cbx_tool_call *call, cJSON *content);	 /* takes the array of blocks */
void cbx_profile_end_text(struct cbx_tool_call *call, const char *text); /* one block */
bool cbx_profile_fits(const struct cbx_tool_call *call, const cJSON *value); /* as the text of cbx_profile_end_json() */
void cbx_profile_end_json(struct cbx_tool_call *call, cJSON *value);	 /* takes it; one block, on many lines */
/* A block of text at the end of content, unless the text is empty. */
void cbx_profile_add_text(cJSON *content, const char *text);

/* ---- packages.c ---- */

/* See to it that the session has what is required, in the form of pip's arguments: what is missing is installed.
 * `then` is called with NULL, or why that is not so. The list is an array of strings; < 0: it was not asked. */
int cbx_profile_require(struct cbx_tool_call *call, const cJSON *list,
			void (*then)(struct cbx_tool_call *call, const char *fault), struct cbx_err *err);

#endif
