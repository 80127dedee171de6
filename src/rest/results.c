/* SPDX-License-Identifier: Apache-2.0 */
/* An execution as JSON: as a status, as results in the form that clients of these paths know, and as a whole. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "rest/internal.h"

const char *cbx_rest_status(const struct cbx_execution *x)
{
	switch (cbx_execution_status(x)) {
	case CBX_QUEUED:
		return "initializing";
	case CBX_RUNNING:
		return "running";
	case CBX_OK:
		return "completed";
	default:
		return "error";
	}
}

void cbx_rest_set_request(cJSON *o, const struct cbx_execution *x)
{
	char id[CBX_NAME_MAX + 24];

	snprintf(id, sizeof(id), "%s.%llu", cbx_session_id(cbx_execution_session(x)),
		 (unsigned long long)cbx_execution_id(x));
	cbx_json_set_str(o, "request_id", id);
}

static void set_times(cJSON *o, const struct cbx_execution *x, bool created)
{
	uint64_t asked, ended;
	char when[32];

	cbx_execution_times(x, &asked, &ended);
	cbx_rest_time(asked, when);
	if (created)
		cbx_json_set_str(o, "created_at", when);
	cbx_rest_time(ended, when);
	if (ended)
		cbx_json_set_str(o, "completed_at", when);
	else
		cbx_json_set_null(o, "completed_at");
}

cJSON *cbx_rest_status_json(const struct cbx_execution *x)
{
	cJSON *o = cbx_json_new_obj();

	cbx_rest_set_request(o, x);
	cbx_json_set_str(o, "status", cbx_rest_status(x));
	set_times(o, x, true);
	return o;
}

cJSON *cbx_rest_execution_json(const struct cbx_execution *x)
{
	cJSON *o = cbx_rest_status_json(x);

	cbx_json_set(o, "execution", cbx_execution_to_json(x, true));
	return o;
}

cJSON *cbx_rest_summary_json(const struct cbx_execution *x)
{
	cJSON *o = cbx_rest_status_json(x);
	struct cbx_execution_use use;

	cbx_execution_use(x, &use);
	cbx_json_set_str(o, "outcome", cbx_status_name(cbx_execution_status(x)));
	cbx_json_set_str(o, "code", cbx_execution_head(x));
	cbx_json_set_u64(o, "waited_ms", use.wait_ms);
	cbx_json_set_u64(o, "ran_ms", use.run_ms);
	cbx_json_set_u64(o, "cpu_ms", use.cpu_us / 1000);
	return o;
}

/* ---- results ---- */

static void push_output(cJSON *list, const char *type, const char *content)
{
	cJSON *o;

	if (!content || !content[0])
		return;
	o = cbx_json_new_obj();
	cbx_json_set_str(o, "type", type);
	cbx_json_set_str(o, "content", content);
	cbx_json_push(list, o);
}

/* Texts of what was shown go to the output, figures to the files. */
static void push_displays(cJSON *output, cJSON *files, const cJSON *displays)
{
	const cJSON *d;

	cJSON_ArrayForEach(d, displays) {
		const cJSON *data = cbx_json_member(d, "data");
		const char *png = cbx_json_text(data, "image/png");

		if (png)
			cbx_json_push_str(files, png);
		else
			push_output(output, "result", cbx_json_text(data, "text/plain"));
	}
}

static void push_lines(cJSON *list, const char *text)
{
	while (text && *text) {
		size_t n = strcspn(text, "\n");
		_cleanup_free_ char *line = cbx_xasprintf("%.*s", (int)n, text);

		cbx_json_push_str(list, line);
		text += n + (text[n] == '\n');
	}
}

static void set_error(cJSON *o, const cJSON *whole, enum cbx_status status)
{
	const cJSON *error = cbx_json_member(whole, "error");
	const char *message = cbx_json_text(whole, "message");
	cJSON *e, *lines;

	if (status == CBX_OK) {
		cbx_json_set_null(o, "error");
	} else if (status == CBX_ERROR && error) {
		e = cbx_json_new_obj();
		lines = cbx_json_new_arr();
		cbx_json_set_str(e, "ename", cbx_json_text(error, "name"));
		cbx_json_set_str(e, "evalue", cbx_json_text(error, "value"));
		push_lines(lines, cbx_json_text(error, "traceback"));
		cbx_json_set(e, "traceback", lines);
		cbx_json_set(o, "error", e);
	} else {
		cbx_json_set_str(o, "error", message ? message : cbx_status_name(status));
	}
}

cJSON *cbx_rest_results_json(const struct cbx_execution *x)
{
	_cleanup_json_ cJSON *whole = cbx_execution_to_json(x, true);
	cJSON *o = cbx_json_new_obj(), *output = cbx_json_new_arr(), *files = cbx_json_new_arr();

	push_output(output, "stream", cbx_json_text(whole, "output"));
	push_displays(output, files, cbx_json_member(whole, "displays"));
	cbx_json_set_str(o, "status", cbx_rest_status(x));
	cbx_json_set(o, "output", output);
	set_error(o, whole, cbx_execution_status(x));
	cbx_json_set(o, "files", files);
	set_times(o, x, false);
	return o;
}
