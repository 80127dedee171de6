/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what a client asks for besides running cells is asked of the session, which is made for it if it
 * is not there yet. Where there is none, or a cell runs, the answer is that nothing is known.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "cli/kernel.h"
#include "cli/languages.h"

cJSON *cbx_kernel_ok(void)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "status", "ok");
	return o;
}

/* ---- which kernel ---- */

static cJSON *language_info(const char *name, const char *version)
{
	const struct cbx_language *l = cbx_language_of(name);
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "name", name);
	cbx_json_set_str(o, "version", version);
	cbx_json_set_str(o, "mimetype", l ? l->mime : "text/plain");
	cbx_json_set_str(o, "file_extension", l ? l->extension : ".txt");
	cbx_json_set_str(o, "pygments_lexer", l ? l->lexer : name);
	cbx_json_set_str(o, "nbconvert_exporter", strcmp(name, "python") == 0 ? "python" : "script");
	cbx_json_set(o, "codemirror_mode", l ? cJSON_Parse(l->mode) : cJSON_CreateString(name));
	return o;
}

void cbx_kernel_info(struct kernel *k, const struct cbx_wire_request *q)
{
	_cleanup_free_ char *banner = NULL;
	cJSON *o = cbx_kernel_ok();
	struct cbx_err err;
	const char *name;

	if (!k->run && cbx_kernel_begin(k, &err) < 0)
		cbx_cli_say("%s", err.msg); /* in the client's log; a cell will say so in the notebook */
	name = k->language ? k->language : k->own[0] ? k->own : cbx_language_own(0);
	banner = cbx_xasprintf("%s in a sandbox of codebox " PACKAGE_VERSION,
			       cbx_language_of(name) ? cbx_language_of(name)->title : name);
	cbx_json_set_str(o, "protocol_version", "5.3");
	cbx_json_set_str(o, "implementation", "codebox");
	cbx_json_set_str(o, "implementation_version", PACKAGE_VERSION);
	cbx_json_set_str(o, "banner", banner);
	cbx_json_set(o, "help_links", cbx_json_new_arr());
	cbx_json_set(o, "language_info", language_info(name, strcmp(name, k->own) == 0 ? k->version : ""));
	cbx_wire_reply(&k->wire, q, "kernel_info_reply", o);
}

/* ---- questions about code ---- */

/* The answer of codeboxd; NULL: it cannot say. */
static cJSON *ask(struct kernel *k, const struct cbx_wire_request *q, const char *method, bool at_cursor)
{
	const char *code = cbx_json_str(q->content, "code");
	double cursor = cbx_json_number(q->content, "cursor_pos", 0);
	cJSON *params, *result = NULL;
	struct cbx_err err;

	if (k->run || cbx_kernel_begin(k, &err) < 0)
		return NULL;
	params = cbx_json_new_obj();
	cbx_json_set_str(params, "session_id", k->session);
	cbx_json_set_str(params, "code", code);
	cbx_json_set_str(params, "language", cbx_cli_cell_language(k->language, code));
	if (at_cursor)
		cbx_json_set_u64(params, "cursor", cursor > 0 ? (uint64_t)cursor : 0);
	return cbx_client_call(&k->client, method, params, &result, &err) < 0 ? NULL : result;
}

void cbx_kernel_complete(struct kernel *k, const struct cbx_wire_request *q)
{
	_cleanup_json_ cJSON *found = ask(k, q, "complete", true);
	const cJSON *matches = cbx_json_member(found, "matches");
	double cursor = cbx_json_number(q->content, "cursor_pos", 0);
	cJSON *o = cbx_kernel_ok();

	cbx_json_set(o, "matches", matches ? cJSON_Duplicate(matches, 1) : cbx_json_new_arr());
	cbx_json_set_u64(o, "cursor_start", (uint64_t)cbx_json_number(found, "start", cursor));
	cbx_json_set_u64(o, "cursor_end", (uint64_t)cbx_json_number(found, "end", cursor));
	cbx_json_set(o, "metadata", cbx_json_new_obj());
	cbx_wire_reply(&k->wire, q, "complete_reply", o);
}

void cbx_kernel_is_complete(struct kernel *k, const struct cbx_wire_request *q)
{
	_cleanup_json_ cJSON *said = ask(k, q, "is_complete", false);
	const char *state = cbx_json_text(said, "status");
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "status", state ? state : "unknown");
	if (state && strcmp(state, "incomplete") == 0)
		cbx_json_set_str(o, "indent", cbx_json_str(said, "indent"));
	cbx_wire_reply(&k->wire, q, "is_complete_reply", o);
}

void cbx_kernel_inspect(struct kernel *k, const struct cbx_wire_request *q)
{
	_cleanup_json_ cJSON *said = ask(k, q, "inspect", true);
	bool found = cJSON_IsTrue(cbx_json_member(said, "found"));
	cJSON *o = cbx_kernel_ok(), *data = cbx_json_new_obj();

	if (found)
		cbx_json_set_str(data, "text/plain", cbx_json_str(said, "text"));
	cbx_json_set_bool(o, "found", found);
	cbx_json_set(o, "data", data);
	cbx_json_set(o, "metadata", cbx_json_new_obj());
	cbx_wire_reply(&k->wire, q, "inspect_reply", o);
}

/* ---- history ---- */

void cbx_kernel_remember(struct kernel *k, const char *code)
{
	if (!k->history)
		k->history = cbx_json_new_arr();
	if (!k->history->child)
		k->first = k->count;
	cbx_json_push_str(k->history, code);
	while (cJSON_GetArraySize(k->history) > CBX_KERNEL_HISTORY_MAX) {
		cJSON_DeleteItemFromArray(k->history, 0);
		k->first++;
	}
}

static bool repeated(const cJSON *v)
{
	const cJSON *later = v->next;

	while (later && strcmp(later->valuestring, v->valuestring) != 0)
		later = later->next;
	return later;
}

/* This run of the kernel is session 1, and the one that 0 means. */
static bool wanted(const cJSON *content, const cJSON *v, uint64_t line)
{
	const char *type = cbx_json_str(content, "hist_access_type");

	if (strcmp(type, "range") == 0)
		return cbx_json_number(content, "session", 0) >= 0 && cbx_json_number(content, "session", 0) <= 1 &&
		       (double)line >= cbx_json_number(content, "start", 0) &&
		       (double)line < cbx_json_number(content, "stop", 1e15);
	if (strcmp(type, "search") == 0)
		return fnmatch(cbx_json_str(content, "pattern"), v->valuestring, 0) == 0 &&
		       !(cJSON_IsTrue(cbx_json_member(content, "unique")) && repeated(v));
	return true;
}

static cJSON *entry(const cJSON *v, uint64_t line, bool output)
{
	cJSON *o = cbx_json_new_arr(), *pair = output ? cbx_json_new_arr() : NULL;

	cbx_json_push(o, cJSON_CreateNumber(1));
	cbx_json_push(o, cJSON_CreateNumber((double)line));
	cbx_json_push_str(pair ? pair : o, v->valuestring);
	if (pair) {
		cbx_json_push(pair, cJSON_CreateNull());
		cbx_json_push(o, pair);
	}
	return o;
}

void cbx_kernel_history(struct kernel *k, const struct cbx_wire_request *q)
{
	bool output = cJSON_IsTrue(cbx_json_member(q->content, "output"));
	double most = strcmp(cbx_json_str(q->content, "hist_access_type"), "range") == 0
			      ? CBX_KERNEL_HISTORY_MAX
			      : cbx_json_number(q->content, "n", CBX_KERNEL_HISTORY_MAX);
	cJSON *o = cbx_kernel_ok(), *list = cbx_json_new_arr();
	uint64_t line = k->first;
	const cJSON *v;

	cJSON_ArrayForEach(v, k->history) {
		if (wanted(q->content, v, line))
			cbx_json_push(list, entry(v, line, output));
		line++;
	}
	while (list->child && cJSON_GetArraySize(list) > most)
		cJSON_DeleteItemFromArray(list, 0);
	cbx_json_set(o, "history", list);
	cbx_wire_reply(&k->wire, q, "history_reply", o);
}
