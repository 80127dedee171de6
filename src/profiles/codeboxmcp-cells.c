/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: exec_code goes from one step to the next by the operations of its session: its directories, the
 * cell, the files at the top of the workspace to move to output, and the files of output to list.
 */
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "profiles/codeboxmcp-step.h"
#include "render/render.h"

/* ---- exec_code: the end ---- */

static bool was_changed(const struct cbx_cbm_step *s, const cJSON *a)
{
	const char *path = cbx_json_text(a, "path") + strlen(CBX_CBM_WORKDIR "/");
	const cJSON *c;

	cJSON_ArrayForEach(c, s->changed)
		if (strcmp(c->valuestring, path) == 0)
			return true;
	return false;
}

/* Links are as long as a store makes them. */
static cJSON *new_artifacts(struct cbx_tool_call *call)
{
	struct cbx_cbm_step *s = call->state;
	cJSON *new = cbx_json_new_arr(), *v;
	size_t bytes = 0;

	cJSON_ArrayForEach(v, s->artifacts) {
		const char *path = cbx_json_text(v, "path"), *link;

		if (!was_changed(s, v))
			continue;
		link = cbx_json_text(s->links, path + strlen(CBX_CBM_WORKDIR "/"));
		bytes += 200 + 14 * strlen(path) + 2 * strlen(link ? link : "");
		s->cut |= bytes > call->room / 4;
		if (s->cut)
			break;
		cbx_json_set_str(v, "sas_url", link);
		cbx_json_push(new, cJSON_Duplicate(v, 1));
	}
	return new;
}

static void executed(struct cbx_tool_call *call)
{
	struct cbx_cbm_step *s = call->state;
	_cleanup_json_ cJSON *o = cbx_cbm_success(call);
	_cleanup_buf_ struct cbx_buf text = { 0 }, cut = { 0 }, printed = { 0 };
	cJSON *content = cbx_json_new_arr(), *v;

	cJSON_ArrayForEach(v, s->texts)
		cbx_buf_addf(&text, "%s[output]\n%s", text.len ? "\n\n" : "", v->valuestring);
	cbx_profile_print(call, &cut, text.len ? cbx_buf_str(&text) : "(no text output)");
	cbx_json_set_str(o, "output", cbx_buf_str(&cut));
	cbx_json_set(o, "new_artifacts", new_artifacts(call));
	cbx_json_set(o, "all_artifacts", take_ptr(&s->artifacts));
	if (s->cut)
		cbx_json_set_bool(o, "truncated", true);
	cbx_json_print_indented(&printed, o, 2);
	cbx_profile_add_text(content, cbx_buf_str(&printed));
	while ((v = cJSON_DetachItemFromArray(s->images, 0)))
		cbx_json_push(content, v);
	cbx_profile_end(call, content);
}

/* ---- exec_code: what it made goes to output ---- */

static void move_next(struct cbx_tool_call *call);

static void moved(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_tool_call *call = cbx_container_of(op, struct cbx_tool_call, file);
	struct cbx_cbm_step *s = call->state;

	if (err && strcmp(err->kind, "file_exists") == 0 && s->tries++ < 3) {
		move_next(call);
		return;
	}
	if (!err) {
		cbx_json_push_str(s->changed, s->target);
		cbx_json_set_str(s->links, s->target, cbx_json_text(s->links, s->found->child->valuestring));
	}
	cJSON_DeleteItemFromArray(s->found, 0);
	s->tries = 0;
	move_next(call);
}

static void move_next(struct cbx_tool_call *call)
{
	struct cbx_cbm_step *s = call->state;
	const char *name = s->found->child ? s->found->child->valuestring : NULL, *dot;
	struct cbx_session *session;
	struct cbx_err err;
	char suffix[8];
	int r;

	if (!name) {
		s->then = executed;
		cbx_cbm_list_output(call);
		return;
	}
	free(s->target);
	dot = cbx_cbm_extension(name);
	cbx_random_name(suffix, 6);
	suffix[6] = '\0';
	s->target = !s->tries ? cbx_xasprintf("output/%s", name)
			      : cbx_xasprintf("output/%.*s_%s%s", (int)(dot - name), name, suffix, dot);
	call->file = (struct cbx_file_op){ .op.ops = &call->client->caller.ops, .done = moved };
	r = cbx_profile_find(call, &session, &err);
	if (r >= 0)
		r = cbx_session_file_rename(session, name, s->target, &call->file, &err);
	if (r < 0)
		cbx_cbm_fail(call, &err);
}

static bool is_result(const struct cbx_file_entry *e)
{
	static const char *const ends[] = {
		".png", ".jpg", ".jpeg", ".html", ".csv", ".xlsx", ".json", ".svg", ".pdf"
	};

	for (size_t i = 0; S_ISREG(e->mode) && i < ARRAY_SIZE(ends); i++)
		if (strcasecmp(cbx_cbm_extension(e->name), ends[i]) == 0)
			return true;
	return false;
}

static void look_at_top(struct cbx_tool_call *call);

static void looked(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_tool_call *call = cbx_container_of(op, struct cbx_tool_call, file);
	struct cbx_cbm_step *s = call->state;

	if (err) {
		cbx_cbm_fail(call, err);
		return;
	}
	for (size_t i = 0; i < reply->nentries; i++, s->seen++)
		if (is_result(&reply->entries[i]) && cJSON_GetArraySize(s->found) < CBX_CBM_ARTIFACTS)
			cbx_json_push_str(s->found, reply->entries[i].name);
	if (reply->more && reply->nentries && s->seen < CBX_LIST_MAX * 20) {
		look_at_top(call);
	} else {
		s->seen = 0;
		move_next(call);
	}
}

static void look_at_top(struct cbx_tool_call *call)
{
	struct cbx_cbm_step *s = call->state;
	struct cbx_session *session;
	struct cbx_err err;
	int r = cbx_profile_find(call, &session, &err);

	call->file = (struct cbx_file_op){ .op.ops = &call->client->caller.ops, .done = looked };
	if (r >= 0)
		r = cbx_session_file_list(session, ".", s->seen, &call->file, &err);
	if (r < 0)
		cbx_cbm_fail(call, &err);
}

/* ---- exec_code: the cell ---- */

static void add_text(struct cbx_tool_call *call, const char *text)
{
	_cleanup_buf_ struct cbx_buf shown = { 0 };
	struct cbx_cbm_step *s = call->state;

	if (!text)
		return;
	cbx_profile_screen(call, &shown, text);
	cbx_json_push_str(s->texts, cbx_buf_str(&shown));
}

static void take_result(struct cbx_tool_call *call, struct cbx_execution *x)
{
	_cleanup_json_ cJSON *j = cbx_execution_to_json(x, false);
	const cJSON *error = cbx_json_member(j, "error"), *f;
	const char *traceback = cbx_json_text(error, "traceback"), *fate = cbx_profile_fate(j);
	struct cbx_cbm_step *s = call->state;

	s->texts = cbx_profile_texts(call, x, false);
	s->images = cbx_json_new_arr();
	s->changed = cbx_json_new_arr();
	s->links = cbx_json_new_obj();
	s->found = cbx_json_new_arr();
	cbx_profile_add_images(call, s->images, x);
	add_text(call, traceback);
	add_text(call, fate);
	cJSON_ArrayForEach(f, cbx_json_member(j, "files"))
		if (cbx_json_text(f, "path")) {
			cbx_json_push_str(s->changed, cbx_json_text(f, "path"));
			cbx_json_set_str(s->links, cbx_json_text(f, "path"), cbx_json_text(f, "link"));
		}
	look_at_top(call);
}

static void run(struct cbx_tool_call *call)
{
	struct cbx_cbm_step *s = call->state;
	struct cbx_cell_spec cell = { .code = s->code,
				      .language = s->language,
				      .timeout_ms = s->limits.exec_s * 1000,
				      .link_s = s->link_s,
				      .store_string = s->store,
				      .container = s->container };
	struct cbx_err err;

	if (cbx_profile_run(call, &cell, take_result, &err) < 0)
		cbx_cbm_fail(call, &err);
}

/* By the names that CodeBoxMCP takes; NULL: none of those that there are. */
static const char *language_of(const char *name)
{
	static const struct {
		const char *name, *language;
	} names[] = { { "python", "python" }, { "py", "python" },  { "shell", "bash" }, { "bash", "bash" },
		      { "sh", "bash" },	      { "zsh", "bash" }, { "batch", "bash" }, { "bat", "bash" },
		      { "javascript", "javascript" }, { "js", "javascript" } };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcasecmp(names[i].name, name) == 0)
			return names[i].language;
	return NULL;
}

void cbx_cbm_exec_code(struct cbx_tool_call *call, const cJSON *args)
{
	const char *language, *code;
	struct cbx_err err;
	struct cbx_cbm_step *s;
	char text[120];
	int64_t link_s;

	if (cbx_cbm_take_id(call, args) < 0)
		return;
	link_s = cbx_cbm_link_seconds(call);
	if (link_s < 0)
		return;
	if (cbx_profile_arg(args, "language", &language, &err) < 0 || cbx_profile_arg(args, "code", &code, &err) < 0) {
		cbx_cbm_fail(call, &err);
	} else if (!code[strspn(code, " \t\r\n\v\f")]) {
		cbx_cbm_fail_as(call, call->session_id, "Code is empty");
	} else if (!language_of(language)) {
		snprintf(text, sizeof(text), "Language '%.60s' is not enabled or supported", language);
		cbx_cbm_fail_as(call, call->session_id, text);
	} else {
		s = cbx_cbm_step(call);
		s->code = cbx_xstrdup(code);
		s->language = language_of(language);
		s->link_s = (uint32_t)link_s;
		cbx_cbm_take_store(call);
		if (cbx_cbm_take_limits(call) == 0)
			cbx_cbm_with_session(call, run);
	}
}

