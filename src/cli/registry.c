/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the text is parsed, changed as a tree, and printed again as JSON.stringify(…, null, 2) prints
 * it, with the file's own indentation: nearly all of these files were written by that, and then everything else stays
 * as it was, to the byte. Numbers do in any case: cJSON keeps doubles, and not all that others store fits into one.
 */
#include "cli/registry.h"

#include <errno.h>
#include <string.h>

#include "base/clean.h"
#include "base/cleanup.h"

struct edit {
	struct cbx_json_doc doc;
	char unit[16]; /* one level of indentation */
	bool newline;  /* the text ends with one */
};

static void edit_release(struct edit *e)
{
	cbx_json_doc_release(&e->doc);
}
#define _cleanup_edit_ __attribute__((cleanup(edit_release)))

void cbx_changed_release(struct cbx_changed *c)
{
	cbx_buf_release(&c->text);
	cbx_buf_release(&c->difference);
}

cJSON *cbx_registry_entry(const struct cbx_registry *r)
{
	cJSON *entry = cbx_json_new_obj();

	if (r->typed)
		cbx_json_set_str(entry, "type", "stdio");
	cbx_json_set_str(entry, "command", r->command);
	cbx_json_set(entry, "args", cJSON_Duplicate(r->args, 1));
	return entry;
}

/* Turn the numbers of v, its siblings and all below them into the digits that they were read from, the next of which
 * are behind p. The text has passed the grammar check. */
static const char *keep_numbers(cJSON *v, const char *p)
{
	for (; v; v = v->next) {
		size_t n;

		p = keep_numbers(v->child, p);
		if (!cJSON_IsNumber(v))
			continue;
		for (; *p != '-' && (*p < '0' || *p > '9'); p++)
			if (*p == '"')
				while (*++p != '"')
					p += *p == '\\';
		n = strspn(p, "+-.0123456789eE");
		v->type = cJSON_Raw;
		v->valuestring = memcpy(cbx_xcalloc(n + 1, 1), p, n);
		p += n;
	}
	return p;
}

static int edit_open(struct edit *e, const char *text, size_t len, struct cbx_err *err)
{
	const char *line = memchr(text, '\n', len);
	size_t n = line ? strspn(line + 1, " \t") : 0;

	*e = (struct edit){ .unit = "  ", .newline = true };
	if (strspn(text, " \t\r\n") == len) {
		text = "{}\n";
		len = 3;
	}
	if (cbx_json_parse_sound(text, len, &e->doc, err) < 0)
		return -err->code;
	if (!cJSON_IsObject(e->doc.root))
		return cbx_refuse(err, "wrong_type", EINVAL,
				  "it is JSON, but not an object; correct it, or move it away");
	if (n > 0 && n < sizeof(e->unit)) {
		memcpy(e->unit, line + 1, n);
		e->unit[n] = '\0';
	}
	e->newline = text[len - 1] == '\n';
	keep_numbers(e->doc.root, text);
	return 0;
}

static void new_line(struct cbx_buf *out, const char *unit, int depth)
{
	cbx_buf_addc(out, '\n');
	while (depth--)
		cbx_buf_adds(out, unit);
}

static void print(struct cbx_buf *out, const cJSON *v, const char *unit, int depth)
{
	const cJSON *child;

	if (!v->child) {
		cbx_json_print(out, v);
		return;
	}
	cbx_buf_addc(out, cJSON_IsObject(v) ? '{' : '[');
	cJSON_ArrayForEach(child, v) {
		if (child != v->child)
			cbx_buf_addc(out, ',');
		new_line(out, unit, depth + 1);
		if (cJSON_IsObject(v)) {
			_cleanup_json_ cJSON *name = cJSON_CreateString(child->string);

			cbx_json_print(out, name);
			cbx_buf_adds(out, ": ");
		}
		print(out, child, unit, depth + 1);
	}
	new_line(out, unit, depth);
	cbx_buf_addc(out, cJSON_IsObject(v) ? '}' : ']');
}

static void show(struct cbx_buf *out, const char *sign, const char *name, const cJSON *entry)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };

	if (!entry)
		return;
	cbx_json_print(&text, entry);
	cbx_buf_addf(out, "%s %s: ", sign, name);
	cbx_escape(out, cbx_buf_str(&text));
	cbx_buf_addc(out, '\n');
}

static int edit_close(const struct cbx_registry *r, struct edit *e, struct cbx_changed *ret)
{
	const cJSON *section = cbx_json_member(e->doc.root, r->section);

	show(&ret->difference, "+", r->name, cbx_json_member(section, r->name));
	print(&ret->text, e->doc.root, e->unit, 0);
	if (e->newline)
		cbx_buf_addc(&ret->text, '\n');
	return 1;
}

/* An entry is ours when it runs a program called codebox. */
static bool ours(const cJSON *entry)
{
	const char *command = cbx_json_text(entry, "command"), *slash = command ? strrchr(command, '/') : NULL;

	return command && strcmp(slash ? slash + 1 : command, "codebox") == 0;
}

/* The entry of that name: NULL with 0 when there is none. */
static int find(const struct cbx_registry *r, const struct edit *e, cJSON **ret, struct cbx_err *err)
{
	const cJSON *section = cbx_json_member(e->doc.root, r->section);

	*ret = NULL;
	if (!section)
		return 0;
	if (!cJSON_IsObject(section))
		return cbx_refuse(err, "wrong_type", EINVAL, "its \"%s\" is not an object; correct it", r->section);
	*ret = cbx_json_member(section, r->name);
	if (*ret && !ours(*ret) && !r->force)
		return cbx_refuse(err, "other_server", EEXIST,
				  "its \"%s\" is another server; choose another name with --name, or use --force",
				  r->name);
	return 0;
}

static void put(cJSON *obj, const char *name, cJSON *value)
{
	if (!cJSON_ReplaceItemInObjectCaseSensitive(obj, name, value))
		cbx_json_set(obj, name, value);
}

/* Bring an entry of ours up to date. False: it is. */
static bool correct(cJSON *have, const cJSON *want)
{
	bool changed = false;
	const cJSON *v;

	cJSON_ArrayForEach(v, want) {
		const cJSON *old = cbx_json_member(have, v->string);
		const cJSON *first = cJSON_IsArray(old) ? cJSON_GetArrayItem(old, 0) : NULL;

		/* Arguments behind "mcp" are the user's, who may give others. */
		if (cJSON_GetArraySize(v) == 1 && cJSON_IsString(first) && strcmp(first->valuestring, "mcp") == 0)
			continue;
		if (cJSON_Compare(old, v, true))
			continue;
		put(have, v->string, cJSON_Duplicate(v, 1));
		changed = true;
	}
	return changed;
}

int cbx_registry_add(const struct cbx_registry *r, const char *text, size_t len, struct cbx_changed *ret,
		     struct cbx_err *err)
{
	_cleanup_json_ cJSON *want = cbx_registry_entry(r);
	_cleanup_edit_ struct edit e;
	cJSON *have, *section;

	if (edit_open(&e, text, len, err) < 0 || find(r, &e, &have, err) < 0)
		return -err->code;
	show(&ret->difference, "-", r->name, have);
	if (have && ours(have))
		return correct(have, want) ? edit_close(r, &e, ret) : 0;
	section = cbx_json_member(e.doc.root, r->section);
	if (!section) {
		section = cbx_json_new_obj();
		cbx_json_set(e.doc.root, r->section, section);
	}
	put(section, r->name, take_ptr(&want));
	return edit_close(r, &e, ret);
}

int cbx_registry_remove(const struct cbx_registry *r, const char *text, size_t len, struct cbx_changed *ret,
			struct cbx_err *err)
{
	_cleanup_edit_ struct edit e;
	cJSON *have;

	if (edit_open(&e, text, len, err) < 0 || find(r, &e, &have, err) < 0)
		return -err->code;
	if (!have)
		return 0;
	show(&ret->difference, "-", r->name, have);
	cJSON_DeleteItemFromObjectCaseSensitive(cbx_json_member(e.doc.root, r->section), r->name);
	return edit_close(r, &e, ret);
}
