/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: every change is made twice, in the text (jsonedit.h), which keeps everybody else's bytes, and in
 * the tree. The new text is read again and must be that tree; otherwise nothing is handed out.
 */
#include "cli/registry.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/jsonedit.h"

struct edit {
	struct cbx_json_doc doc;
	struct cbx_buf text;
	bool changed;
};

static void edit_release(struct edit *e)
{
	cbx_json_doc_release(&e->doc);
	cbx_buf_release(&e->text);
}
#define _cleanup_edit_ __attribute__((cleanup(edit_release)))

cJSON *cbx_registry_entry(const struct cbx_registry *r)
{
	cJSON *entry = cbx_json_new_obj(), *args = cbx_json_new_arr();

	if (r->typed)
		cbx_json_set_str(entry, "type", "stdio");
	cbx_json_set_str(entry, "command", r->command);
	cbx_json_push_str(args, "mcp");
	cbx_json_set(entry, "args", args);
	return entry;
}

static bool blank(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!strchr(" \t\r\n", text[i]) || !text[i])
			return false;
	return true;
}

static int edit_open(struct edit *e, const char *text, size_t len, struct cbx_err *err)
{
	memset(e, 0, sizeof(*e));
	if (blank(text, len)) {
		text = "{}\n";
		len = 3;
	}
	if (cbx_json_parse(text, len, &e->doc, err) < 0)
		return -err->code;
	if (e->doc.problem.code) {
		*err = e->doc.problem;
		return -err->code;
	}
	if (!cJSON_IsObject(e->doc.root))
		return cbx_refuse(err, "wrong_type", EINVAL, "it is JSON, but no object");
	cbx_buf_add(&e->text, text, len);
	return 0;
}

static int edit_set(struct edit *e, const char *const *path, size_t depth, const cJSON *value, struct cbx_err *err)
{
	struct cbx_buf out = { 0 };
	cJSON *at = e->doc.root;

	if (cbx_jsonedit_set(e->text.data, e->text.len, path, depth, value, &out, err) < 0)
		return -err->code;
	cbx_buf_release(&e->text);
	e->text = out;
	for (size_t i = 0; i + 1 < depth; i++) {
		cJSON *next = cJSON_GetObjectItemCaseSensitive(at, path[i]);

		if (!next) {
			next = cbx_json_new_obj();
			cbx_json_set(at, path[i], next);
		}
		at = next;
	}
	if (cJSON_GetObjectItemCaseSensitive(at, path[depth - 1]))
		cJSON_ReplaceItemInObjectCaseSensitive(at, path[depth - 1], cJSON_Duplicate(value, 1));
	else
		cbx_json_set(at, path[depth - 1], cJSON_Duplicate(value, 1));
	e->changed = true;
	return 0;
}

/* 1 and the text in out, when there was a change. */
static int edit_close(struct edit *e, struct cbx_buf *out, struct cbx_err *err)
{
	_cleanup_json_doc_ struct cbx_json_doc again = { 0 };
	_cleanup_buf_ struct cbx_buf want = { 0 }, got = { 0 };

	if (!e->changed)
		return 0;
	if (cbx_json_parse(e->text.data, e->text.len, &again, err) < 0)
		return cbx_refuse(err, "internal", EPROTO, "the changed text would not be JSON");
	cbx_json_print(&want, e->doc.root);
	cbx_json_print(&got, again.root);
	if (again.problem.code || want.len != got.len || memcmp(want.data, got.data, want.len) != 0)
		return cbx_refuse(err, "internal", EPROTO, "the changed text would not say what it should");
	cbx_buf_add(out, e->text.data, e->text.len);
	return 1;
}

/* An entry is ours when it runs a program called codebox. */
static bool ours(const cJSON *entry)
{
	const cJSON *command = cJSON_GetObjectItemCaseSensitive(entry, "command");
	const char *slash;

	if (!cJSON_IsString(command))
		return false;
	slash = strrchr(command->valuestring, '/');
	return strcmp(slash ? slash + 1 : command->valuestring, "codebox") == 0;
}

/* The entry of that name: NULL with 0 when there is none. */
static int find(const struct cbx_registry *r, const struct edit *e, const cJSON **ret, struct cbx_err *err)
{
	const cJSON *section = cJSON_GetObjectItemCaseSensitive(e->doc.root, r->section);

	*ret = NULL;
	if (!section)
		return 0;
	if (!cJSON_IsObject(section))
		return cbx_refuse(err, "wrong_type", EINVAL, "its \"%s\" is no object", r->section);
	*ret = cJSON_GetObjectItemCaseSensitive(section, r->name);
	if (*ret && !ours(*ret) && !r->force)
		return cbx_refuse(err, "other_server", EEXIST,
				  "its \"%s\" is another server; choose another name with --name, or say --force",
				  r->name);
	return 0;
}

int cbx_registry_add(const struct cbx_registry *r, const char *text, size_t len, struct cbx_buf *out,
		     struct cbx_err *err)
{
	const char *path[3] = { r->section, r->name, NULL };
	_cleanup_json_ cJSON *want = cbx_registry_entry(r);
	_cleanup_edit_ struct edit e;
	const cJSON *have, *v, *first;

	if (edit_open(&e, text, len, err) < 0 || find(r, &e, &have, err) < 0)
		return -err->code;
	if (!have || !ours(have)) {
		if (edit_set(&e, path, 2, want, err) < 0)
			return -err->code;
		return edit_close(&e, out, err);
	}
	cJSON_ArrayForEach (v, want) {
		const cJSON *old = cJSON_GetObjectItemCaseSensitive(have, v->string);

		/* Arguments behind "mcp" are the user's. */
		first = cJSON_IsArray(old) ? cJSON_GetArrayItem(old, 0) : NULL;
		if (cJSON_IsArray(v) && cJSON_IsString(first) && strcmp(first->valuestring, "mcp") == 0)
			continue;
		if (cJSON_Compare(old, v, true))
			continue;
		path[2] = v->string;
		if (edit_set(&e, path, 3, v, err) < 0)
			return -err->code;
	}
	return edit_close(&e, out, err);
}

int cbx_registry_remove(const struct cbx_registry *r, const char *text, size_t len, struct cbx_buf *out,
			struct cbx_err *err)
{
	const char *path[2] = { r->section, r->name };
	_cleanup_edit_ struct edit e;
	struct cbx_buf shorter = { 0 };
	const cJSON *have;

	if (edit_open(&e, text, len, err) < 0 || find(r, &e, &have, err) < 0)
		return -err->code;
	if (!have)
		return 0;
	if (cbx_jsonedit_remove(e.text.data, e.text.len, path, 2, &shorter)) {
		cbx_buf_release(&e.text);
		e.text = shorter;
		e.changed = true;
	}
	cJSON_DeleteItemFromObjectCaseSensitive(cJSON_GetObjectItemCaseSensitive(e.doc.root, r->section), r->name);
	return edit_close(&e, out, err);
}
