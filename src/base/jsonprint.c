/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "base/json.h"

#define WHOLE_MAX 1e15 /* below, whole numbers are printed without an exponent */

struct printer {
	struct cbx_buf *out;
	bool clean; /* strings are made fit for a model */
};

static void escaped(struct cbx_buf *out, char c)
{
	static const char named[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
	const char *at = strchr(named, c);

	if (at)
		cbx_buf_add(out, (char[]){ '\\', names[at - named] }, 2);
	else
		cbx_buf_addf(out, "\\u%04x", (unsigned char)c);
}

static bool stands_for_itself(unsigned char c)
{
	return c >= 0x20 && c != '"' && c != '\\';
}

static void quoted(struct cbx_buf *out, const char *s)
{
	cbx_buf_addc(out, '"');
	for (;;) {
		const char *from = s;

		while (stands_for_itself((unsigned char)*s))
			s++;
		cbx_buf_add(out, from, (size_t)(s - from));
		if (!*s)
			break;
		escaped(out, *s++);
	}
	cbx_buf_addc(out, '"');
}

/* Most strings are words: those are as they should be. */
static bool is_word(const char *s, size_t *ret)
{
	const char *p = s;

	while (*p >= ' ' && *p < 0x7f && *p != '"' && *p != '\\')
		p++;
	*ret = (size_t)(p - s);
	return !*p;
}

static void print_string(const struct printer *to, const char *s)
{
	_cleanup_buf_ struct cbx_buf clean = { 0 };
	size_t n;

	if (is_word(s, &n)) {
		char *p = cbx_buf_reserve(to->out, n + 2);

		p[0] = '"';
		memcpy(p + 1, s, n);
		p[n + 1] = '"';
		p[n + 2] = '\0';
		to->out->len += n + 2;
		return;
	}
	if (to->clean && !cbx_is_clean(s)) {
		cbx_clean(&clean, s);
		s = cbx_buf_str(&clean);
	}
	quoted(to->out, s);
}

/* With as few digits as say which double it is; JSON has no name for those that are not finite. */
static void print_number(struct cbx_buf *out, double v)
{
	char text[32];

	if (!isfinite(v)) {
		cbx_buf_adds(out, "null");
		return;
	}
	if (cbx_json_whole(v) && fabs(v) < WHOLE_MAX) {
		if (v < 0)
			cbx_buf_addc(out, '-');
		cbx_buf_addu(out, (uint64_t)fabs(v));
		return;
	}
	snprintf(text, sizeof(text), "%.15g", v);
	if (strtod(text, NULL) != v)
		snprintf(text, sizeof(text), "%.17g", v);
	cbx_buf_adds(out, text);
}

static void print_value(const struct printer *to, const cJSON *v);

static void print_list(const struct printer *to, const cJSON *v, const char *brackets)
{
	const cJSON *child;

	cbx_buf_addc(to->out, brackets[0]);
	cJSON_ArrayForEach (child, v) {
		if (child != v->child)
			cbx_buf_addc(to->out, ',');
		if (brackets[0] == '{') {
			print_string(to, child->string);
			cbx_buf_addc(to->out, ':');
		}
		print_value(to, child);
	}
	cbx_buf_addc(to->out, brackets[1]);
}

static void print_value(const struct printer *to, const cJSON *v)
{
	switch (v->type & 0xff) { /* without the flags of who owns what */
	case cJSON_False:
		cbx_buf_adds(to->out, "false");
		break;
	case cJSON_True:
		cbx_buf_adds(to->out, "true");
		break;
	case cJSON_NULL:
		cbx_buf_adds(to->out, "null");
		break;
	case cJSON_Number:
		print_number(to->out, v->valuedouble);
		break;
	case cJSON_String:
		print_string(to, v->valuestring);
		break;
	case cJSON_Raw:
		cbx_buf_adds(to->out, v->valuestring);
		break;
	case cJSON_Array:
		print_list(to, v, "[]");
		break;
	case cJSON_Object:
		print_list(to, v, "{}");
		break;
	default:
		abort(); /* nobody makes it */
	}
}

void cbx_json_print(struct cbx_buf *out, const cJSON *v)
{
	print_value(&(const struct printer){ out, false }, v);
}

void cbx_json_print_clean(struct cbx_buf *out, const cJSON *v)
{
	print_value(&(const struct printer){ out, true }, v);
}

void cbx_json_write_key(struct cbx_buf *out, const char *key)
{
	if (out->data[out->len - 1] != '{')
		cbx_buf_addc(out, ',');
	print_string(&(const struct printer){ out, true }, key);
	cbx_buf_addc(out, ':');
}

void cbx_json_write(struct cbx_buf *out, const char *key, const cJSON *v)
{
	if (!v)
		return;
	cbx_json_write_key(out, key);
	cbx_json_print_clean(out, v);
}

void cbx_json_write_str(struct cbx_buf *out, const char *key, const char *v)
{
	if (!v)
		return;
	cbx_json_write_key(out, key);
	print_string(&(const struct printer){ out, true }, v);
}

void cbx_json_write_u64(struct cbx_buf *out, const char *key, uint64_t v)
{
	cbx_json_write_key(out, key);
	cbx_buf_addu(out, v);
}

static void new_line(struct cbx_buf *out, unsigned spaces)
{
	cbx_buf_addf(out, "\n%*s", (int)spaces, "");
}

void cbx_json_print_indented(struct cbx_buf *out, const cJSON *v, unsigned spaces)
{
	_cleanup_buf_ struct cbx_buf compact = { 0 };
	bool quoted = false;
	unsigned depth = 0;

	cbx_json_print(&compact, v);
	for (const char *p = compact.data, *end = p + compact.len; p < end; p++) {
		bool opens = !quoted && (*p == '{' || *p == '['), closes = !quoted && (*p == '}' || *p == ']');

		if (closes && p[-1] != '{' && p[-1] != '[')
			new_line(out, --depth * spaces);
		else if (closes)
			depth--;
		cbx_buf_addc(out, *p);
		if (quoted && *p == '\\')
			cbx_buf_addc(out, *++p);
		else if (*p == '"')
			quoted = !quoted;
		else if (!quoted && *p == ':')
			cbx_buf_addc(out, ' ');
		depth += opens;
		if ((opens && p[1] != '}' && p[1] != ']') || (!quoted && *p == ','))
			new_line(out, depth * spaces);
	}
}
