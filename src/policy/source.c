/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: comments are overwritten with spaces, byte for byte, so that offsets into the text stay true,
 * and the rest is given to the strict parser that everything else uses. Its tree has no positions; but it is in the
 * order of the document. So a place is found, when there is a fault to tell, by walking text and tree side by side.
 */
#include "policy/source.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/jsonscan.h"

static void place_of(const struct cbx_source *s, size_t at, uint32_t *ret_line, uint32_t *ret_column)
{
	*ret_line = *ret_column = 1;
	for (size_t i = 0; i < at && i < s->len; i++) {
		if (s->original[i] == '\n') {
			++*ret_line;
			*ret_column = 1;
		} else if (((unsigned char)s->original[i] & 0xc0) != 0x80) {
			++*ret_column;
		}
	}
}

static int wrap_at(const struct cbx_source *s, size_t at, struct cbx_err *err)
{
	uint32_t line, column;

	place_of(s, at, &line, &column);
	snprintf(err->kind, sizeof(err->kind), "invalid_policy");
	return cbx_wrap(err, "%.200s:%u:%u", s->name, line, column);
}

/* Overwrite what is between two places with spaces, but for ends of lines. */
static void blank(char *from, const char *to)
{
	for (; from < to; from++)
		if (*from != '\n')
			*from = ' ';
}

/* False: a comment that begins at *ret_at is not closed. */
static bool strip_comments(char *text, size_t len, size_t *ret_at)
{
	char *end = text + len;

	for (char *p = text; p < end; p++) {
		char *from = p;

		if (*p == '"') {
			for (p++; p < end && *p != '"'; p++)
				p += *p == '\\' && p + 1 < end;
		} else if (end - p >= 2 && p[0] == '/' && p[1] == '/') {
			p = memchr(p, '\n', (size_t)(end - p));
			p = p ? p : end;
			blank(from, p);
		} else if (end - p >= 2 && p[0] == '/' && p[1] == '*') {
			p = memmem(p + 2, (size_t)(end - p) - 2, "*/", 2);
			if (!p) {
				*ret_at = (size_t)(from - text);
				return false;
			}
			blank(from, p + 2);
			p++;
		}
	}
	return true;
}

/* ---- places ---- */

/* The text at p is the value of `node`, and was parsed: it is well-formed. Returns what follows; sets *found. */
static const char *walk(const char *p, const char *end, const cJSON *node, const cJSON *want, const char **found)
{
	const cJSON *child;

	p = cbx_jsonscan_space(p, end);
	if (node == want && !*found)
		*found = p;
	if (!node->child)
		return cbx_jsonscan_value(p, end);
	p = cbx_jsonscan_space(p + 1, end);
	cJSON_ArrayForEach(child, node) {
		if (cJSON_IsObject(node)) {
			if (child == want)
				*found = p;
			p = cbx_jsonscan_space(cbx_jsonscan_string(p, end), end) + 1; /* behind the colon */
		}
		p = cbx_jsonscan_space(walk(p, end, child, want, found), end);
		if (*found)
			return p;
		p += *p == ',';
		p = cbx_jsonscan_space(p, end);
	}
	return p + 1;
}

static size_t offset_of(const struct cbx_source *s, const cJSON *node)
{
	const char *found = NULL;

	walk(s->text, s->text + s->len, s->doc.root, node, &found);
	return found ? (size_t)(found - s->text) : 0;
}

/* The second of two members of one name. */
static const cJSON *find_duplicate(const cJSON *node)
{
	const cJSON *child, *other, *found = NULL;

	cJSON_ArrayForEach(child, node) {
		for (other = node->child; cJSON_IsObject(node) && other != child; other = other->next)
			if (strcmp(other->string, child->string) == 0)
				return child;
		if (child->child && (found = find_duplicate(child)))
			return found;
	}
	return NULL;
}

void cbx_source_place(const struct cbx_source *s, const cJSON *node, uint32_t *ret_line, uint32_t *ret_column)
{
	place_of(s, offset_of(s, node), ret_line, ret_column);
}

int cbx_source_wrap(const struct cbx_source *s, const cJSON *node, struct cbx_err *err)
{
	return wrap_at(s, offset_of(s, node), err);
}

int cbx_source_refuse(const struct cbx_source *s, const cJSON *node, struct cbx_err *err, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	cbx_refuse(err, "invalid_policy", EINVAL, "%s", text);
	return cbx_source_wrap(s, node, err);
}

/* ---- opening ---- */

static int parse(struct cbx_source *s, struct cbx_err *err)
{
	size_t at = 0;
	int r;

	if (!strip_comments(s->text, s->len, &at)) {
		cbx_refuse(err, "invalid_policy", EINVAL, "a comment is not closed; end it with */");
		return wrap_at(s, at, err);
	}
	r = cbx_json_parse(s->text, s->len, &s->doc, err);
	if (r < 0 || s->doc.problem.code) {
		char *tail;

		if (r >= 0)
			*err = s->doc.problem;
		if (r >= 0 && strcmp(err->kind, "duplicate_key") == 0) {
			r = cbx_source_wrap(s, find_duplicate(s->doc.root), err);
		} else {
			/* The place is reported as line and column. */
			tail = strstr(err->msg, r < 0 ? " (at byte " : " at byte ");
			if (tail)
				*tail = '\0';
			r = wrap_at(s, s->doc.at, err);
		}
		return r;
	}
	return 0;
}

int cbx_source_open(struct cbx_source *s, const char *name, const char *text, size_t len, struct cbx_err *err)
{
	int r;

	memset(s, 0, sizeof(*s));
	s->name = name;
	s->text = cbx_xcalloc(1, len + 1);
	s->original = cbx_xcalloc(1, len + 1);
	if (len) {
		memcpy(s->text, text, len);
		memcpy(s->original, text, len);
	}
	s->len = len;
	r = parse(s, err);
	if (r < 0)
		cbx_source_release(s);
	return r;
}

void cbx_source_release(struct cbx_source *s)
{
	cbx_json_doc_release(&s->doc);
	free(s->text);
	free(s->original);
	memset(s, 0, sizeof(*s));
}
