/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: prompts are for people: a client shows them as commands, asks for the arguments, and gives the
 * text to its model. Each is a row of a table, and its text is made of the parts for the arguments that were given.
 */
#include <string.h>

#include "base/cleanup.h"
#include "mcp/serve.h"
#include "mcp/request.h"

#define ARGUMENTS 3

struct argument {
	const char *name, *description;
	bool required;
};

struct prompt {
	const char *name, *title, *description;
	struct argument arguments[ARGUMENTS];
	/* values: in the order of the arguments; NULL: not given */
	void (*write)(struct cbx_buf *out, const char *const *values);
};

static void say_session(struct cbx_buf *out, const char *session)
{
	if (session)
		cbx_buf_addf(out, " Pass session_id \"%s\" in every call.", session);
	else
		cbx_buf_adds(out, " Use one session for all calls.");
}

static void write_analyze(struct cbx_buf *out, const char *const *values)
{
	cbx_buf_addf(out, "Analyse the data in the file %s with the run_code tool of codebox.", values[0]);
	say_session(out, values[2]);
	cbx_buf_addf(out,
		     "\n\n"
		     "1. Load it with pandas. Look at the shape, the columns with their types, the first rows, missing "
		     "values and duplicates before anything else. If the file is not there, list /workspace and ask "
		     "which one is meant.\n"
		     "2. Say in a few sentences what one row stands for, and what is odd about the data.\n"
		     "3. %s%s\n"
		     "4. Draw the one or two figures that show it best, with a title and labelled axes.\n"
		     "5. End with the findings, each with the number that supports it, and what the data cannot tell."
		     "\n\n"
		     "Work in small cells; variables stay from one to the next.",
		     values[1] ? "Answer this question, and check the answer a second way: "
			       : "Find the strongest relations and differences in it, and check that they are not made "
				 "by a few rows.",
		     values[1] ? values[1] : "");
}

static void write_plot(struct cbx_buf *out, const char *const *values)
{
	cbx_buf_addf(out, "Draw a figure of the data in the file %s with the run_code tool of codebox.", values[0]);
	say_session(out, values[2]);
	cbx_buf_addf(out,
		     " Load the file with pandas and look at its columns first. What the figure should show: %s. "
		     "Choose the kind of plot that fits, with matplotlib or seaborn; give it a title, label the axes "
		     "with units where they are known, and keep it readable. The figure is sent by itself when the "
		     "cell ends. Save it to /workspace as a PNG file too, name the file, and say in two sentences what "
		     "can be seen.",
		     values[1] ? values[1] : "whatever is most telling in it");
}

static const struct prompt prompts[] = {
	{ "analyze_data",
	  "Analyse a data file",
	  "Look at a table, answer a question about it, and draw what supports the answer.",
	  { { "file", "Path of the file in the session, such as data.csv", true },
	    { "question", "What you want to know", false },
	    { "session_id", "Session that has the file", false } },
	  write_analyze },
	{ "plot_data",
	  "Plot a data file",
	  "Draw a figure of a table, and save it.",
	  { { "file", "Path of the file in the session, such as data.csv", true },
	    { "show", "What the figure should show", false },
	    { "session_id", "Session that has the file", false } },
	  write_plot },
};

static const struct prompt *find(const char *name)
{
	for (size_t i = 0; name && i < ARRAY_SIZE(prompts); i++)
		if (strcmp(prompts[i].name, name) == 0)
			return &prompts[i];
	return NULL;
}

bool cbx_mcp_prompt_argument(const char *prompt, const char *argument, bool *ret_prompt)
{
	const struct prompt *p = find(prompt);

	*ret_prompt = p != NULL;
	for (size_t i = 0; p && i < ARGUMENTS; i++)
		if (strcmp(p->arguments[i].name, argument) == 0)
			return true;
	return false;
}

static cJSON *describe(const struct prompt *p, const struct cbx_mcp_revision *rev)
{
	cJSON *o = cbx_json_new_obj(), *list = cbx_json_new_arr();

	cbx_json_set_str(o, "name", p->name);
	if (rev->titles)
		cbx_json_set_str(o, "title", p->title);
	cbx_json_set_str(o, "description", p->description);
	for (size_t i = 0; i < ARGUMENTS; i++) {
		cJSON *a = cbx_json_new_obj();

		cbx_json_set_str(a, "name", p->arguments[i].name);
		cbx_json_set_str(a, "description", p->arguments[i].description);
		cbx_json_set_bool(a, "required", p->arguments[i].required);
		cbx_json_push(list, a);
	}
	cbx_json_set(o, "arguments", list);
	return o;
}

void cbx_mcp_prompts_list(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	cJSON *result, *list;

	if (!cbx_mcp_check_no_cursor(m, slot))
		return;
	result = cbx_json_new_obj();
	list = cbx_json_new_arr();
	for (size_t i = 0; i < ARRAY_SIZE(prompts); i++)
		cbx_json_push(list, describe(&prompts[i], m->rev));
	cbx_json_set(result, "prompts", list);
	cbx_mcp_set_caching(result, m->rev, CBX_TTL_LIST_MS, true);
	cbx_rpc_answer(slot, result);
}

static cJSON *message(const char *text)
{
	cJSON *msg = cbx_json_new_obj(), *content = cbx_json_new_obj();

	cbx_json_set_str(msg, "role", "user");
	cbx_json_set_str(content, "type", "text");
	cbx_json_set_str(content, "text", text);
	cbx_json_set(msg, "content", content);
	return msg;
}

void cbx_mcp_prompts_get(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	const char *name = NULL, *values[ARGUMENTS] = { NULL };
	const cJSON *args = NULL;
	const struct prompt *p;
	cJSON *result, *messages;
	struct cbx_err err;

	if (cbx_json_get_str(m->params, "name", &name, &err) < 0 ||
	    cbx_json_get_obj(m->params, "arguments", &args, &err) < 0) {
		cbx_rpc_error(slot, CBX_RPC_INVALID_PARAMS, "Invalid params: %s", err.msg);
		return;
	}
	p = find(name);
	if (!p) {
		cbx_rpc_error(slot, CBX_RPC_INVALID_PARAMS, "Unknown prompt: %.100s", name ? name : "(no name)");
		return;
	}
	for (size_t i = 0; i < ARGUMENTS; i++) {
		const struct argument *a = &p->arguments[i];

		if (cbx_json_get_str(args, a->name, &values[i], &err) < 0 ||
		    (a->required && (!values[i] || !values[i][0]))) {
			cbx_rpc_error(slot, CBX_RPC_INVALID_PARAMS, "Invalid params: %s: a string is expected",
				      a->name);
			return;
		}
		if (values[i] && !values[i][0])
			values[i] = NULL;
	}
	p->write(&text, values);
	result = cbx_json_new_obj();
	messages = cbx_json_new_arr();
	cbx_json_push(messages, message(cbx_buf_str(&text)));
	cbx_json_set_str(result, "description", p->description);
	cbx_json_set(result, "messages", messages);
	cbx_rpc_answer(slot, result);
}
