/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what the profiles share. Their clients wait for a cell however long it takes, up to its time
 * limit: an answer comes when it has ended. A call that needs a session of its own alone makes it, and closes it with
 * its answer; a call that is cancelled does so, too (cbx_tool_cancel_run()).
 */
#include "profiles/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "render/render.h"

#define PATIENCE_MS                                                                                                    \
	120000	 /* beyond a cell's time limit: until its session is ready, and cells before it have ended             \
		  */
#define PARTS 16 /* of an answer's room, one for a text: JSON in JSON writes a character with up to seven */

int cbx_profile_arg(const cJSON *args, const char *key, const char **ret, struct cbx_err *err)
{
	int r = cbx_json_get_str(args, key, ret, err);

	return r < 0 ? r : r == 0 ? cbx_refuse(err, "invalid_argument", EINVAL, "missing argument: %s", key) : 0;
}

int cbx_profile_arg_id(struct cbx_tool_call *call, const cJSON *args, struct cbx_err *err)
{
	const char *id = NULL;
	int r = cbx_profile_arg(args, "session_id", &id, err);

	if (r < 0)
		return r;
	if (!cbx_name_valid(id))
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "session_id: \"%.80s\" is not a session's id; use up to %d letters, digits, '_', '.' "
				  "and '-', the first a letter or a digit",
				  id, CBX_NAME_MAX);
	snprintf(call->session_id, sizeof(call->session_id), "%s", id);
	return 0;
}

int cbx_profile_find(struct cbx_tool_call *call, struct cbx_session **ret, struct cbx_err *err)
{
	return cbx_session_find(&call->client->caller, call->session_id, ret, err);
}

/* Settings that the client was not started with. */
static int add_settings(const struct cbx_tool_client *client, const char *settings, struct cbx_session_spec *spec,
			struct cbx_err *err)
{
	const cJSON *environment = spec->environment, *mounts = spec->mounts, *v;
	_cleanup_json_ cJSON *o = cJSON_Parse(settings);
	int r;

	for (v = client->own ? client->own->params->child : NULL; v; v = v->next)
		cJSON_DeleteItemFromObjectCaseSensitive(o, v->string);
	r = cbx_session_spec_parse(o, spec, err);
	spec->environment = environment;
	spec->mounts = mounts;
	return r;
}

int cbx_profile_make(struct cbx_tool_call *call, const char *settings, struct cbx_ready_op *op,
		     struct cbx_session **ret, struct cbx_err *err)
{
	struct cbx_session_spec spec;
	int r = 0;

	cbx_own_spec(call->client, &spec);
	if (settings)
		r = add_settings(call->client, settings, &spec, err);
	snprintf(spec.id, sizeof(spec.id), "%s", call->session_id);
	spec.disposable = !call->session_id[0];
	if (r >= 0)
		r = cbx_session_create(&call->client->caller, &spec, op, ret, err);
	if (r < 0)
		return r;
	call->made_session = spec.disposable;
	snprintf(call->session_id, sizeof(call->session_id), "%s", cbx_session_id(*ret));
	return 0;
}

int cbx_profile_run(struct cbx_tool_call *call, struct cbx_cell_spec *cell,
		    void (*answer)(struct cbx_tool_call *call, struct cbx_execution *x), struct cbx_err *err)
{
	uint64_t wanted = cbx_own_timeout(call->client);
	struct cbx_session *session;
	struct cbx_execution *x;
	int r = cbx_profile_find(call, &session, err);

	if (wanted)
		cell->timeout_ms = wanted;
	cell->via = call->client->caller.via;
	if (r >= 0)
		r = cbx_session_start(session, cell, NULL, &x, err);
	if (r < 0)
		return r;
	call->answer = answer;
	call->interrupts = true;
	return cbx_tool_wait(call, x, cell->timeout_ms + PATIENCE_MS, err);
}

const char *cbx_profile_fate(const cJSON *x)
{
	const char *status = cbx_json_text(x, "status"), *message = cbx_json_text(x, "message");

	if (!status || strcmp(status, "ok") == 0 || strcmp(status, "error") == 0)
		return NULL;
	if (strcmp(status, "timeout") == 0 || strcmp(status, "running") == 0 || strcmp(status, "queued") == 0)
		return "Execution timed out";
	return message ? message : "The code was killed";
}

static bool shows_image(const cJSON *data)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, data)
		if (cbx_render_image_sendable(v->string))
			return true;
	return false;
}

static void push_text(const struct cbx_tool_call *call, cJSON *texts, const char *p, size_t n)
{
	_cleanup_free_ char *part = cbx_xasprintf("%.*s", (int)n, p);
	_cleanup_buf_ struct cbx_buf text = { 0 };

	cbx_profile_screen(call, &text, part);
	if (text.len)
		cbx_json_push_str(texts, cbx_buf_str(&text));
}

cJSON *cbx_profile_texts(const struct cbx_tool_call *call, struct cbx_execution *x, bool figures)
{
	_cleanup_json_ cJSON *j = cbx_execution_to_json(x, false);
	const cJSON *place = cbx_json_member(j, "display_places"), *d;
	const char *output = cbx_json_text(j, "output");
	size_t at = 0, end = output ? strlen(output) : 0;
	cJSON *texts = cbx_json_new_arr();

	place = place ? place->child : NULL;
	cJSON_ArrayForEach(d, cbx_execution_displays(x)) {
		const cJSON *data = cbx_json_member(d, "data");
		const char *plain = cbx_json_text(data, "text/plain");
		size_t to = cJSON_IsNumber(place) ? (size_t)place->valuedouble : end;

		to = to < at ? at : to > end ? end : to;
		push_text(call, texts, output + at, to - at);
		if (plain && (figures || !shows_image(data)))
			push_text(call, texts, plain, strlen(plain));
		at = to;
		place = place ? place->next : NULL;
	}
	if (end)
		push_text(call, texts, output + at, end - at);
	return texts;
}

void cbx_profile_add_images(const struct cbx_tool_call *call, cJSON *content, struct cbx_execution *x)
{
	size_t left = call->room / 4 * 3;
	const cJSON *d;

	cJSON_ArrayForEach(d, cbx_execution_displays(x)) {
		const char *png = cbx_json_text(cbx_json_member(d, "data"), "image/png");
		size_t n = png ? strlen(png) : 0;

		if (n && n <= left) {
			cbx_render_add_image(content, "image/png", png);
			left -= n;
		} else if (n) {
			cbx_profile_add_text(content, "[a figure is too large for an answer; save it to a file]");
		}
	}
}

void cbx_profile_print(const struct cbx_tool_call *call, struct cbx_buf *out, const char *text)
{
	cbx_render_cut(out, text, call->room / PARTS, 0, NULL);
}

void cbx_profile_screen(const struct cbx_tool_call *call, struct cbx_buf *out, const char *text)
{
	_cleanup_buf_ struct cbx_buf screen = { 0 };

	cbx_render_screen(&screen, text);
	cbx_profile_print(call, out, cbx_buf_str(&screen));
}

/* ---- the end ---- */

static size_t length_of(const cJSON *block)
{
	const char *text = cbx_json_text(block, "text"), *data = cbx_json_text(block, "data");

	return text ? strlen(text) : data ? strlen(data) : 0;
}

/* What is too large for an answer would be lost whole: the largest parts give way to a note, until the rest fits. */
static void fit(const struct cbx_tool_call *call, const cJSON *content, size_t size)
{
	static const char note[] = "[too large for this answer; save it to a file]";

	while (size > call->room) {
		cJSON *block, *largest = NULL;
		size_t most = sizeof(note);

		cJSON_ArrayForEach(block, content) {
			if (length_of(block) <= most)
				continue;
			most = length_of(block);
			largest = block;
		}
		if (!largest)
			return;
		cJSON_DeleteItemFromObjectCaseSensitive(largest, "data");
		cJSON_DeleteItemFromObjectCaseSensitive(largest, "mimeType");
		cJSON_DeleteItemFromObjectCaseSensitive(largest, "text");
		cJSON_DeleteItemFromObjectCaseSensitive(largest, "type");
		cbx_json_set_str(largest, "type", "text");
		cbx_json_set_str(largest, "text", note);
		size -= most - sizeof(note);
	}
}

void cbx_profile_end(struct cbx_tool_call *call, cJSON *content)
{
	_cleanup_json_ cJSON *result = cbx_json_new_obj();
	_cleanup_buf_ struct cbx_buf printed = { 0 };
	struct cbx_session *session;
	struct cbx_err err;

	cbx_json_set(result, "content", content);
	cbx_json_set_bool(result, "isError", false);
	cbx_json_print_clean(&printed, result);
	if (printed.len > call->room) {
		fit(call, content, printed.len);
		printed.len = 0;
		cbx_json_print_clean(&printed, result);
	}
	if (call->made_session && cbx_profile_find(call, &session, &err) >= 0)
		cbx_session_close(&call->client->caller, session, "the call that made it was answered");
	cbx_tool_end_text(call, &printed);
}

void cbx_profile_add_text(cJSON *content, const char *text)
{
	if (text[0])
		cbx_json_set_str(cbx_render_add_block(content, "text"), "text", text);
}

void cbx_profile_end_text(struct cbx_tool_call *call, const char *text)
{
	cJSON *content = cbx_json_new_arr();

	cbx_json_set_str(cbx_render_add_block(content, "text"), "text", text);
	cbx_profile_end(call, content);
}

bool cbx_profile_fits(const struct cbx_tool_call *call, const cJSON *value)
{
	_cleanup_buf_ struct cbx_buf text = { 0 }, printed = { 0 };
	_cleanup_json_ cJSON *string = NULL;

	cbx_json_print_indented(&text, value, 2);
	string = cJSON_CreateString(cbx_buf_str(&text));
	cbx_json_print(&printed, string);
	return printed.len + 256 <= call->room;
}

void cbx_profile_end_json(struct cbx_tool_call *call, cJSON *value)
{
	_cleanup_json_ cJSON *v = value;
	_cleanup_buf_ struct cbx_buf text = { 0 };

	cbx_json_print_indented(&text, v, 2);
	cbx_profile_end_text(call, cbx_buf_str(&text));
}
