/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: of TOML only what is needed is understood, but all of it is gone through as it is written, so that
 * nothing within a string or a comment is taken for a key. What this reader is not sure of, it refuses.
 */
#include "packages/files.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "packages/rules.h"
#include "packages/sums.h"

#define DEPTH_MAX 32

struct reader {
	const char *name;
	const char *p;
	unsigned line;
	cJSON *ret;
	struct cbx_err *err;
};

static int refuse(const struct reader *r, const char *what)
{
	cbx_refuse(r->err, "invalid_argument", EINVAL, "%.100s:%u: %s", r->name, r->line, what);
	cbx_err_sanitize(r->err);
	return -EINVAL;
}

static int add(const struct reader *r, const char *text)
{
	_cleanup_(cbx_sums_release) struct cbx_sums sums = { 0 };
	_cleanup_free_ char *bare = NULL;
	struct cbx_requirement q;
	int n;

	if (!cbx_utf8_valid(text, strlen(text)))
		return refuse(r, "this is not valid UTF-8");
	n = cbx_sums_take(&sums, text, &bare, r->err);
	if (n >= 0)
		n = cbx_requirement_parse(bare ? bare : "", &q, r->err);
	if (n < 0) {
		cbx_wrap(r->err, "%.100s:%u", r->name, r->line);
		cbx_err_sanitize(r->err);
		return n;
	}
	if (cJSON_GetArraySize(r->ret) >= CBX_INSTALL_NAMES_MAX)
		return refuse(r, "there are more requirements than can be installed at once");
	cbx_json_push_str(r->ret, text);
	return 0;
}

/* ---- requirements.txt ---- */

/* A line without its comment and the blanks around it. */
static char *bare(const char *p, size_t n)
{
	char *line = cbx_xasprintf("%.*s", (int)n, p), *end;

	for (char *c = line; *c; c++)
		if (*c == '#' && (c == line || isblank((unsigned char)c[-1]))) {
			*c = '\0';
			break;
		}
	end = line + strlen(line);
	while (end > line && strchr(" \t\r", end[-1]))
		*--end = '\0';
	memmove(line, line + strspn(line, " \t"), strlen(line + strspn(line, " \t")) + 1);
	return line;
}

static int one_line(const struct reader *r, const char *line)
{
	if (!line[0])
		return 0;
	if (strcmp(line, "--require-hashes") == 0)
		return 0; /* so it is, where one has any */
	if (line[0] == '-')
		return refuse(
			r, "options of pip are not taken: which index there is, is said by the policy, and other files "
			   "are given by another -r");
	return add(r, line);
}

static int read_lines(struct reader *r)
{
	int n = 0;

	while (n == 0 && *r->p) {
		_cleanup_buf_ struct cbx_buf whole = { 0 };
		_cleanup_free_ char *line = NULL;
		unsigned lines = 0;

		for (bool more = true; more; lines++) {
			size_t len = strcspn(r->p, "\n"), end = len - (len && r->p[len - 1] == '\r');

			more = end && r->p[end - 1] == '\\' && r->p[strspn(r->p, " \t")] != '#' && r->p[len];
			cbx_buf_add(&whole, r->p, more ? end - 1 : len);
			r->p += len + (r->p[len] == '\n');
		}
		line = bare(cbx_buf_str(&whole), whole.len);
		r->line++;
		n = one_line(r, line);
		r->line += lines - 1;
	}
	return n;
}

/* ---- TOML ---- */

struct toml {
	struct reader r;
	char table[256]; /* "project" */
	bool script;	 /* of a script: keys are at the top */
};

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
		; /* up to two of them belong to the string */
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

static int value(struct reader *r, bool wanted, unsigned depth);

static int list(struct reader *r, bool wanted, unsigned depth)
{
	char end = *r->p++ == '[' ? ']' : '}', name[256];
	int n = 0;

	for (skip(r); n == 0 && *r->p != end; skip(r)) {
		if (end == '}') {
			n = key(r, '=', name, sizeof(name));
			r->p += n == 0;
			skip(r);
		}
		if (n == 0)
			n = value(r, wanted, depth + 1);
		skip(r);
		if (n == 0 && *r->p == ',')
			r->p++;
		else if (n == 0 && *r->p != end)
			n = refuse(r, "a list does not end");
	}
	r->p += n == 0;
	return n;
}

/* wanted: it is one list of requirements. */
static int value(struct reader *r, bool wanted, unsigned depth)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	size_t len;
	int n;

	if (depth > DEPTH_MAX)
		return refuse(r, "lists are too deep");
	if (wanted && (*r->p == '[') != (depth == 0))
		return refuse(r, "dependencies: give a list of strings");
	if (*r->p == '[' || *r->p == '{')
		return wanted && depth ? refuse(r, "dependencies: give a list of strings") : list(r, wanted, depth);
	if (*r->p == '"' || *r->p == '\'') {
		n = string(r, &text);
		return n == 0 && wanted ? add(r, cbx_buf_str(&text)) : n;
	}
	len = strcspn(r->p, ",]}#\n");
	if (wanted || !len)
		return refuse(r, wanted ? "dependencies: give a list of strings" : "this is not TOML");
	r->p += len;
	return 0;
}

static int header(struct toml *t)
{
	bool many = t->r.p[1] == '[';
	int n;

	t->r.p += 1 + many;
	n = key(&t->r, ']', t->table, sizeof(t->table));
	if (n == 0 && many && t->r.p[1] != ']')
		return refuse(&t->r, "this is not TOML");
	t->r.p += n == 0 ? 1 + many : 0;
	return n;
}

static bool begins(const char *name, const char *with)
{
	size_t n = strlen(with);

	return strncmp(name, with, n) == 0 && (!name[n] || name[n] == '.');
}

/* What would have packages come from elsewhere must not be passed over: others own these names in the index. */
static int judge_place(const struct toml *t, const char *whole)
{
	static const char *const elsewhere[] = { "tool.uv.sources", "tool.uv.index", "tool.uv.index-url",
						 "tool.uv.extra-index-url", "tool.uv.find-links", "tool.uv.pip" };

	for (size_t i = 0; i < ARRAY_SIZE(elsewhere); i++)
		if (begins(whole, elsewhere[i]))
			return refuse(&t->r, "tool.uv: packages come from the index of the policy alone; remove this");
	return 0;
}

static int member(struct toml *t)
{
	char name[256], whole[520];
	bool wanted;
	int n = key(&t->r, '=', name, sizeof(name));

	if (n < 0)
		return n;
	t->r.p++;
	t->r.p += strspn(t->r.p, " \t");
	snprintf(whole, sizeof(whole), "%s%s%s", t->table, t->table[0] ? "." : "", name);
	wanted = strcmp(whole, t->script ? "dependencies" : "project.dependencies") == 0;
	if (!t->script && strcmp(whole, "project.dynamic") == 0 &&
	    memmem(t->r.p, strcspn(t->r.p, "]"), "\"dependencies\"", 14))
		return refuse(&t->r, "the dependencies are dynamic: only building the project tells them; write them here");
	n = judge_place(t, whole);
	if (n == 0 && (strcmp(whole, "tool") == 0 || strcmp(whole, "tool.uv") == 0))
		n = refuse(&t->r, "write tool.uv as a table: [tool.uv]");
	return n < 0 ? n : value(&t->r, wanted, 0);
}

static int read_toml(struct toml *t)
{
	int n = 0;

	for (skip(&t->r); n == 0 && *t->r.p; skip(&t->r)) {
		if (*t->r.p != '[')
			n = member(t);
		else if ((n = header(t)) == 0)
			n = judge_place(t, t->table);
		t->r.p += n == 0 ? strspn(t->r.p, " \t\r") : 0;
		if (n == 0 && *t->r.p && *t->r.p != '\n' && *t->r.p != '#')
			n = refuse(&t->r, "this is not TOML");
	}
	return n;
}

int cbx_requirements_read(const char *name, const char *text, cJSON *ret, struct cbx_err *err)
{
	struct toml t = { .r = { .name = name, .p = text, .line = 1, .ret = ret, .err = err } };

	if (cbx_ends_with(name, ".toml"))
		return read_toml(&t);
	t.r.line = 0;
	return read_lines(&t.r);
}

/* ---- scripts ---- */

static bool is_line(const char *p, size_t n, const char *text)
{
	n -= n && p[n - 1] == '\r';
	return n == strlen(text) && memcmp(p, text, n) == 0;
}

/* The lines behind the one that begins it, without their "# ", up to the last that could end it. False: none does. */
static bool script_block(const char *p, struct cbx_buf *ret)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	bool ended = false;

	while (*p == '#') {
		size_t n = strcspn(p, "\n");

		if (is_line(p, n, "# ///")) {
			ended = true;
			ret->len = 0;
			cbx_buf_add(ret, cbx_buf_str(&text), text.len);
		}
		if (n > 1 && p[1] != ' ' && p[1] != '\r')
			break;
		if (n > 2)
			cbx_buf_add(&text, p + 2, n - 2);
		cbx_buf_addc(&text, '\n');
		p += n + (p[n] == '\n');
	}
	return ended;
}

int cbx_requirements_of_script(const char *name, const char *text, cJSON *ret, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf block = { 0 }, other = { 0 };
	struct toml t = { .r = { .name = name, .ret = ret, .err = err }, .script = true };
	unsigned line = 0;
	bool found = false;
	int r;

	for (const char *p = text; *p; p += *p == '\n') {
		size_t n = strcspn(p, "\n");

		line++;
		if (is_line(p, n, "# /// script") && p[n] && script_block(p + n + 1, found ? &other : &block)) {
			t.r.line = found ? line : line + 1;
			if (found)
				return refuse(&t.r, "there is a second block \"/// script\"");
			found = true;
		}
		p += n;
	}
	t.r.p = cbx_buf_str(&block);
	r = found ? read_toml(&t) : 0;
	return r < 0 ? r : found;
}
