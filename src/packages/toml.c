/* SPDX-License-Identifier: Apache-2.0 */
#include "packages/toml.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"

#define DEPTH_MAX 32
#define KEY_MAX	  256

struct reader {
	const char *name;
	const char *p;
	unsigned line, tables;
	char table[KEY_MAX]; /* "project" */
	char key[2 * KEY_MAX];
	cbx_toml_fn fn;
	void *arg;
	struct cbx_err *err;
};

static int refuse(const struct reader *r, const char *what)
{
	cbx_refuse(r->err, "invalid_argument", EINVAL, "%.100s:%u: %s", r->name, r->line, what);
	cbx_err_sanitize(r->err);
	return -EINVAL;
}

static int tell(const struct reader *r, enum cbx_toml_what what, const char *key, unsigned depth, const char *text)
{
	struct cbx_toml_event e = { .what = what, .key = key, .tables = r->tables, .depth = depth, .text = text };
	int n = r->fn(r->arg, &e, r->err);

	if (n >= 0)
		return 0;
	cbx_wrap(r->err, "%.100s:%u", r->name, r->line);
	cbx_err_sanitize(r->err);
	return n;
}

static void skip(struct reader *r)
{
	for (;; r->p++) {
		if (*r->p == '#')
			r->p += strcspn(r->p, "\n");
		if (*r->p == '\n')
			r->line++;
		if (!*r->p || !strchr(" \t\r\n", *r->p))
			return;
	}
}

/* A string of several lines is gone through, and never one that is wanted. */
static int long_string(struct reader *r, char quote, struct cbx_buf *text)
{
	char end[] = { quote, quote, quote, '\0' };

	for (r->p += 3; *r->p && strncmp(r->p, end, 3) != 0; r->p++) {
		r->line += *r->p == '\n';
		if (quote == '"' && *r->p == '\\' && r->p[1])
			r->p++;
	}
	if (!*r->p)
		return refuse(r, "a string does not end");
	for (r->p += 3; *r->p == quote; r->p++)
		;		  /* up to two of them belong to the string */
	cbx_buf_addc(text, '\n'); /* no requirement has one */
	return 0;
}

static int string(struct reader *r, struct cbx_buf *text)
{
	char quote = *r->p;

	if (r->p[1] == quote && r->p[2] == quote)
		return long_string(r, quote, text);
	for (r->p++; *r->p && *r->p != quote && *r->p != '\n'; r->p++) {
		if (quote == '"' && *r->p == '\\') {
			r->p++;
			if (*r->p != '"' && *r->p != '\\') {
				cbx_buf_addc(text, '\n'); /* nothing that a requirement has */
				if (!*r->p || *r->p == '\n')
					break;
			}
		}
		cbx_buf_addc(text, *r->p);
	}
	if (*r->p != quote)
		return refuse(r, "a string does not end");
	r->p++;
	return 0;
}

/* "a . 'b'" as "a.b" */
static int key(struct reader *r, char end, char *out, size_t size)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	int n = 0;

	while (n == 0 && *r->p != end) {
		if (*r->p == '"' || *r->p == '\'')
			n = string(r, &text);
		else if (isalnum((unsigned char)*r->p) || strchr("_-.", *r->p ? *r->p : ' '))
			cbx_buf_addc(&text, *r->p++);
		else if (*r->p == ' ' || *r->p == '\t')
			r->p++;
		else
			return refuse(r, "this is not TOML");
	}
	if (n == 0 && (!text.len || text.len >= size))
		return refuse(r, "this is not TOML");
	if (n == 0)
		memcpy(out, cbx_buf_str(&text), text.len + 1);
	return n;
}

static int value(struct reader *r, unsigned depth);

static int list(struct reader *r, unsigned depth)
{
	bool table = *r->p++ == '{';
	char end = table ? '}' : ']', name[KEY_MAX];
	int n = tell(r, table ? CBX_TOML_INLINE : CBX_TOML_LIST, r->key, depth, NULL);

	for (skip(r); n == 0 && *r->p != end; skip(r)) {
		if (table) {
			n = key(r, '=', name, sizeof(name));
			r->p += n == 0;
			skip(r);
		}
		if (n == 0)
			n = value(r, depth + 1);
		skip(r);
		if (n == 0 && *r->p == ',')
			r->p++;
		else if (n == 0 && *r->p != end)
			n = refuse(r, "a list does not end");
	}
	r->p += n == 0;
	return n;
}

static int value(struct reader *r, unsigned depth)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	size_t len;
	int n;

	if (depth > DEPTH_MAX)
		return refuse(r, "lists are too deep");
	if (*r->p == '[' || *r->p == '{')
		return list(r, depth);
	if (*r->p == '"' || *r->p == '\'') {
		n = string(r, &text);
		return n < 0 ? n : tell(r, CBX_TOML_STRING, r->key, depth, cbx_buf_str(&text));
	}
	len = strcspn(r->p, ",]}#\n");
	if (!len)
		return refuse(r, "this is not TOML");
	cbx_buf_add(&text, r->p, len);
	while (text.len && strchr(" \t\r", text.data[text.len - 1]))
		text.len--;
	r->p += len;
	return tell(r, CBX_TOML_WORD, r->key, depth, cbx_buf_str(&text));
}

static int header(struct reader *r)
{
	bool many = r->p[1] == '[';
	int n;

	r->p += 1 + many;
	n = key(r, ']', r->table, sizeof(r->table));
	if (n == 0 && many && r->p[1] != ']')
		return refuse(r, "this is not TOML");
	r->p += n == 0 ? 1 + many : 0;
	r->tables++;
	return n < 0 ? n : tell(r, CBX_TOML_TABLE, r->table, 0, NULL);
}

static int member(struct reader *r)
{
	char name[KEY_MAX];
	int n = key(r, '=', name, sizeof(name));

	if (n < 0)
		return n;
	r->p++;
	r->p += strspn(r->p, " \t");
	snprintf(r->key, sizeof(r->key), "%s%s%s", r->table, r->table[0] ? "." : "", name);
	n = tell(r, CBX_TOML_MEMBER, r->key, 0, NULL);
	return n < 0 ? n : value(r, 0);
}

int cbx_toml_read(const char *name, unsigned first, const char *text, cbx_toml_fn fn, void *arg, struct cbx_err *err)
{
	struct reader r = { .name = name, .p = text, .line = first, .fn = fn, .arg = arg, .err = err };
	int n = 0;

	for (skip(&r); n == 0 && *r.p; skip(&r)) {
		n = *r.p == '[' ? header(&r) : member(&r);
		r.p += n == 0 ? strspn(r.p, " \t\r") : 0;
		if (n == 0 && *r.p && *r.p != '\n' && *r.p != '#')
			n = refuse(&r, "this is not TOML");
	}
	return n;
}
