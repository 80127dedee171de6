/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the text was checked against the grammar before, so that strings and brackets are all that must
 * be minded. Each step lists the members of one object by where they stand; the wanted one is found by its name as JSON
 * means it (escapes undone), and the text is put together again from what is before the place, the new piece and what
 * is behind it.
 */
#include "cli/jsonedit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/jsonscan.h"

struct object {
	const char *open, *close; /* its braces */
	struct cbx_jsonscan_member *v;
	size_t n;
};

static void object_release(struct object *o)
{
	free(o->v);
	memset(o, 0, sizeof(*o));
}
#define _cleanup_object_ __attribute__((cleanup(object_release)))

/* False when p is not at an object. */
static bool object_read(const char *p, const char *end, struct object *o)
{
	struct cbx_jsonscan_member m;
	struct object got = { .open = cbx_jsonscan_space(p, end) };
	size_t cap = 0;

	p = cbx_jsonscan_object(p, end);
	if (!p)
		return false;
	while (cbx_jsonscan_member(&p, end, &m)) {
		if (got.n == cap) {
			cap = cap ? 2 * cap : 16;
			got.v = cbx_xrealloc(got.v, cap * sizeof(*got.v));
		}
		got.v[got.n++] = m;
	}
	got.close = p;
	*o = got;
	return true;
}

static size_t object_find(const struct object *o, const char *name)
{
	for (size_t i = 0; i < o->n; i++) {
		_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
		struct cbx_err err;

		if (cbx_json_parse(o->v[i].name, (size_t)(o->v[i].name_end - o->v[i].name), &doc, &err) >= 0 &&
		    cJSON_IsString(doc.root) && strcmp(doc.root->valuestring, name) == 0)
			return i;
	}
	return o->n;
}

/* ---- writing ---- */

struct style {
	bool lines;	  /* members stand on lines of their own */
	const char *nl;	  /* "\n" or "\r\n" */
	char unit[16];	  /* one level of indentation */
};

static void print(struct cbx_buf *out, const cJSON *v, const struct style *st, const char *base)
{
	_cleanup_free_ char *deeper = cbx_xasprintf("%s%s", base, st->unit);
	const cJSON *child;

	if (!(cJSON_IsObject(v) && v->child) && !cJSON_IsArray(v)) {
		cbx_json_print(out, v);
		return;
	}
	cbx_buf_addc(out, cJSON_IsObject(v) ? '{' : '[');
	cJSON_ArrayForEach (child, v) {
		if (child != v->child)
			cbx_buf_adds(out, cJSON_IsObject(v) && st->lines ? "," : ", ");
		if (cJSON_IsObject(v)) {
			_cleanup_json_ cJSON *name = cJSON_CreateString(child->string);

			if (st->lines)
				cbx_buf_addf(out, "%s%s", st->nl, deeper);
			cbx_json_print(out, name);
			cbx_buf_adds(out, ": ");
		}
		print(out, child, st, deeper);
	}
	if (cJSON_IsObject(v) && st->lines)
		cbx_buf_addf(out, "%s%s", st->nl, base);
	cbx_buf_addc(out, cJSON_IsObject(v) ? '}' : ']');
}

/* The white space before p, back to what is not; `start` is where the text begins. */
static const char *space_before(const char *p, const char *start)
{
	while (p > start && strchr(" \t\r\n", p[-1]))
		p--;
	return p;
}

static const char *after_newline(const char *from, const char *to)
{
	const char *nl = memrchr(from, '\n', (size_t)(to - from));

	return nl ? nl + 1 : NULL;
}

static struct style style_of(const char *text, size_t len)
{
	struct style st = { .lines = true, .nl = memmem(text, len, "\r\n", 2) ? "\r\n" : "\n", .unit = "  " };
	_cleanup_object_ struct object root = { 0 };
	const char *from;

	if (!object_read(text, text + len, &root) || root.n == 0)
		return st;
	from = after_newline(root.open, root.v[0].name);
	if (from && root.v[0].name > from && (size_t)(root.v[0].name - from) < sizeof(st.unit)) {
		memcpy(st.unit, from, (size_t)(root.v[0].name - from));
		st.unit[root.v[0].name - from] = '\0';
	}
	return st;
}

/* The indentation of the line that p is on. */
static char *indentation(const char *text, const char *p)
{
	const char *line = after_newline(text, p), *e;
	struct cbx_buf b = { 0 };

	for (e = line = line ? line : text; e < p && (*e == ' ' || *e == '\t'); e++)
		;
	cbx_buf_add(&b, line, (size_t)(e - line));
	return cbx_buf_steal(&b);
}

static void add_named(struct cbx_buf *out, const char *name, const cJSON *v, const struct style *st, const char *base)
{
	_cleanup_json_ cJSON *key = cJSON_CreateString(name);

	cbx_json_print(out, key);
	cbx_buf_adds(out, ": ");
	print(out, v, st, base);
}

static void insert(const char *text, size_t len, const struct object *o, const char *name, const cJSON *v,
		   struct cbx_buf *out)
{
	struct style st = style_of(text, len);
	_cleanup_free_ char *base = indentation(text, o->open), *inner = NULL;

	if (o->n > 0) {
		const struct cbx_jsonscan_member *last = &o->v[o->n - 1];
		const char *lead = space_before(last->name, text);

		st.lines = after_newline(lead, last->name) != NULL;
		inner = indentation(text, last->name);
		cbx_buf_add(out, text, (size_t)(last->end - text));
		cbx_buf_addc(out, ',');
		cbx_buf_add(out, lead, (size_t)(last->name - lead));
		if (lead == last->name)
			cbx_buf_addc(out, ' ');
		add_named(out, name, v, &st, inner);
		cbx_buf_add(out, last->end, (size_t)(text + len - last->end));
		return;
	}
	inner = cbx_xasprintf("%s%s", base, st.unit);
	cbx_buf_add(out, text, (size_t)(o->open + 1 - text));
	cbx_buf_addf(out, "%s%s", st.nl, inner);
	add_named(out, name, v, &st, inner);
	cbx_buf_addf(out, "%s%s", st.nl, base);
	cbx_buf_add(out, o->close, (size_t)(text + len - o->close));
}

int cbx_jsonedit_set(const char *text, size_t len, const char *const *path, size_t depth, const cJSON *value,
		     struct cbx_buf *out, struct cbx_err *err)
{
	const char *at = text, *end = text + len;

	for (size_t i = 0; i < depth; i++) {
		_cleanup_object_ struct object o = { 0 };
		_cleanup_json_ cJSON *whole = NULL;
		size_t k;

		if (!object_read(at, end, &o))
			return cbx_refuse(err, "wrong_type", EINVAL, "%s is no object",
					  i ? path[i - 1] : "the whole of it");
		k = object_find(&o, path[i]);
		if (k < o.n && i + 1 < depth) {
			at = o.v[k].value;
			continue;
		}
		if (k < o.n) {
			struct style st = style_of(text, len);
			_cleanup_free_ char *base = indentation(text, o.v[k].name);

			cbx_buf_add(out, text, (size_t)(o.v[k].value - text));
			print(out, value, &st, base);
			cbx_buf_add(out, o.v[k].end, (size_t)(end - o.v[k].end));
			return 0;
		}
		whole = cJSON_Duplicate(value, 1);
		for (size_t j = depth - 1; j > i; j--) {
			cJSON *outer = cbx_json_new_obj();

			cbx_json_set(outer, path[j], whole);
			whole = outer;
		}
		insert(text, len, &o, path[i], whole, out);
		return 0;
	}
	return cbx_refuse(err, "wrong_type", EINVAL, "there is no member to set");
}

int cbx_jsonedit_remove(const char *text, size_t len, const char *const *path, size_t depth, struct cbx_buf *out)
{
	const char *at = text, *end = text + len;

	for (size_t i = 0; i < depth; i++) {
		_cleanup_object_ struct object o = { 0 };
		const char *from, *to;
		size_t k;

		if (!object_read(at, end, &o))
			return 0;
		k = object_find(&o, path[i]);
		if (k == o.n)
			return 0;
		at = o.v[k].value;
		if (i + 1 < depth)
			continue;
		if (o.n == 1) {
			from = o.open + 1;
			to = o.close;
		} else if (k == 0) {
			from = o.v[0].name;
			to = o.v[1].name;
		} else {
			from = o.v[k - 1].end;
			to = o.v[k].end;
		}
		cbx_buf_add(out, text, (size_t)(from - text));
		cbx_buf_add(out, to, (size_t)(end - to));
		return 1;
	}
	return 0;
}
