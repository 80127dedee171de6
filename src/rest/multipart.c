/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what could be read in two ways is refused. A body begins with its first boundary and ends with
 * its last one, each part says once that it is a file and what it is called, and a name is one that needs no rules for
 * escapes: browsers and curl write a quotation mark as %22, and that alone is undone.
 */
#include "rest/multipart.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/str.h"

struct span {
	const char *p;
	size_t n;
};

static int refuse(struct cbx_err *err, const char *why)
{
	return cbx_refuse(err, "invalid_argument", EINVAL, "the body is not multipart/form-data: %s", why);
}

static bool span_is(struct span s, const char *text)
{
	return s.n == strlen(text) && strncasecmp(s.p, text, s.n) == 0;
}

static void drop(struct span *s, size_t n)
{
	s->p += n;
	s->n -= n;
}

static void skip_blanks(struct span *s)
{
	while (s->n && (s->p[0] == ' ' || s->p[0] == '\t'))
		drop(s, 1);
}

static struct span take_token(struct span *s)
{
	struct span ret = { s->p, 0 };

	while (s->n && s->p[0] > ' ' && s->p[0] <= '~' && !strchr("()<>@,;:\\\"/[]?={}", s->p[0]))
		drop(s, 1);
	ret.n = (size_t)(s->p - ret.p);
	return ret;
}

/* "; name=value" or "; name="value"". 1; 0: there are no more; negative: it is not so. */
static int take_parameter(struct span *s, struct span *name, struct span *value)
{
	const char *end;

	skip_blanks(s);
	if (!s->n)
		return 0;
	if (s->p[0] != ';')
		return -EINVAL;
	drop(s, 1);
	skip_blanks(s);
	*name = take_token(s);
	if (!name->n || !s->n || s->p[0] != '=')
		return -EINVAL;
	drop(s, 1);
	if (!s->n || s->p[0] != '"') {
		*value = take_token(s);
		return value->n ? 1 : -EINVAL;
	}
	drop(s, 1);
	end = memchr(s->p, '"', s->n);
	if (!end)
		return -EINVAL;
	*value = (struct span){ s->p, (size_t)(end - s->p) };
	drop(s, value->n + 1);
	return 1;
}

int cbx_rest_multipart_boundary(const char *type, char ret[CBX_REST_BOUNDARY_MAX + 1], struct cbx_err *err)
{
	static const char form[] = "multipart/form-data";
	struct span s = { type, type ? strlen(type) : 0 }, name, value;
	size_t marks;
	int r;

	ret[0] = '\0';
	if (s.n < strlen(form) || strncasecmp(type, form, strlen(form)) != 0)
		return cbx_refuse(err, "invalid_argument", EINVAL, "Content-Type: must be multipart/form-data");
	drop(&s, strlen(form));
	while ((r = take_parameter(&s, &name, &value)) > 0) {
		if (!span_is(name, "boundary"))
			continue;
		if (ret[0] || !value.n || value.n > CBX_REST_BOUNDARY_MAX)
			r = -EINVAL;
		if (r < 0)
			break;
		snprintf(ret, CBX_REST_BOUNDARY_MAX + 1, "%.*s", (int)value.n, value.p);
	}
	marks = strspn(ret, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'()+_,-./:=? ");
	if (r < 0 || !ret[0] || ret[marks] || cbx_ends_with(ret, " "))
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "Content-Type: a boundary of 1 to %d characters must be in it, once",
				  CBX_REST_BOUNDARY_MAX);
	return 0;
}

/* ---- names ---- */

static int take_name(struct span value, struct cbx_rest_part *part, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf name = { 0 };
	const char *text;

	for (size_t i = 0; i < value.n; i++) {
		bool quote = value.n - i >= 3 && memcmp(value.p + i, "%22", 3) == 0;

		cbx_buf_add(&name, quote ? "\"" : value.p + i, 1);
		i += quote ? 2 : 0;
	}
	text = cbx_buf_str(&name);
	if (!name.len || name.len > CBX_REST_FILE_NAME_MAX || strlen(text) != name.len || strcmp(text, ".") == 0 ||
	    strcmp(text, "..") == 0 || strpbrk(text, "/\\") || strcasestr(text, "%0a") || strcasestr(text, "%0d") ||
	    !cbx_plain(text) || !cbx_utf8_valid(text, name.len))
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "filename: \"%.60s\" is not the name of a file: 1 to %d bytes of UTF-8 without \"/\", "
				  "\"\\\" and control characters; name a directory by ?path=",
				  cbx_utf8_valid(text, name.len) && cbx_plain(text) ? text : "...",
				  CBX_REST_FILE_NAME_MAX);
	memcpy(part->name, text, name.len + 1);
	return 0;
}

/* Content-Disposition: form-data; name="file"; filename="data.csv" */
static int take_disposition(struct span s, struct cbx_rest_part *part, struct cbx_err *err)
{
	struct span name, value, field = { 0 }, file = { 0 };
	int r;

	skip_blanks(&s);
	name = take_token(&s);
	if (!span_is(name, "form-data"))
		return refuse(err, "a part is not form-data");
	while ((r = take_parameter(&s, &name, &value)) > 0) {
		struct span *to = span_is(name, "name") ? &field : span_is(name, "filename") ? &file : NULL;

		if (!to && name.n && name.p[name.n - 1] == '*')
			return refuse(err, "filename* is not for forms (RFC 7578); send filename in UTF-8");
		if (!to)
			continue;
		if (to->p)
			return refuse(err, "name or filename is there twice");
		*to = value;
	}
	if (r < 0)
		return refuse(err, "a Content-Disposition is malformed");
	if (!field.p)
		return refuse(err, "a part has no name");
	if (!file.p)
		return refuse(err, "a part is not a file; send files alone, each with a filename (curl -F file=@FILE)");
	return take_name(file, part, err);
}

/* ---- parts ---- */

/* The next line of a part's headers, without its end; false: there is none, or it is too long or no line. */
static bool take_line(struct span *s, struct span *ret)
{
	size_t most = s->n < CBX_REST_PART_LINE_MAX + 2 ? s->n : CBX_REST_PART_LINE_MAX + 2;
	const char *end = memmem(s->p, most, "\r\n", 2);

	if (!end)
		return false;
	*ret = (struct span){ s->p, (size_t)(end - s->p) };
	drop(s, ret->n + 2);
	for (size_t i = 0; i < ret->n; i++)
		if (((unsigned char)ret->p[i] < ' ' && ret->p[i] != '\t') || ret->p[i] == 0x7f)
			return false;
	return true;
}

static int take_headers(struct span *s, struct cbx_rest_part *part, struct cbx_err *err)
{
	bool named = false;
	struct span line;
	size_t n = 0;

	while (take_line(s, &line)) {
		struct span name;

		if (!line.n)
			return named ? 0 : refuse(err, "a part has no Content-Disposition");
		name = take_token(&line);
		if (n++ >= CBX_REST_PART_LINES_MAX || !name.n || !line.n || line.p[0] != ':')
			break;
		drop(&line, 1);
		skip_blanks(&line);
		if (span_is(name, "Content-Transfer-Encoding") && !span_is(line, "binary") && !span_is(line, "8bit") &&
		    !span_is(line, "7bit"))
			return refuse(err, "a Content-Transfer-Encoding is not binary");
		if (!span_is(name, "Content-Disposition"))
			continue;
		if (named)
			return refuse(err, "a part has two Content-Dispositions");
		named = true;
		if (take_disposition(line, part, err) < 0)
			return -err->code;
	}
	return refuse(err, "the headers of a part are malformed, too long or too many");
}

/* Behind a boundary: 1: a part follows; 0: it was the last one; negative: it is neither. */
static int after_boundary(struct span *s)
{
	if (s->n >= 2 && memcmp(s->p, "\r\n", 2) == 0) {
		drop(s, 2);
		return 1;
	}
	if (s->n < 2 || memcmp(s->p, "--", 2) != 0)
		return -EINVAL;
	drop(s, 2);
	return !s->n || (s->n == 2 && memcmp(s->p, "\r\n", 2) == 0) ? 0 : -EINVAL;
}

static bool is_there(const struct cbx_rest_part *parts, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(parts[i].name, name) == 0)
			return true;
	return false;
}

int cbx_rest_multipart_read(const char *boundary, const char *body, size_t len, struct cbx_rest_part *parts, size_t max,
			    size_t *ret, struct cbx_err *err)
{
	char mark[CBX_REST_BOUNDARY_MAX + 8];
	int n = snprintf(mark, sizeof(mark), "\r\n--%s", boundary), r;
	struct span s = { body, len };
	const char *end;

	*ret = 0;
	if (len < (size_t)n - 2 || memcmp(body, mark + 2, (size_t)n - 2) != 0)
		return refuse(err, "it does not begin with its boundary");
	drop(&s, (size_t)n - 2);
	while ((r = after_boundary(&s)) > 0) {
		struct cbx_rest_part *part = &parts[*ret];

		if (*ret == max)
			return cbx_refuse(err, "invalid_argument", E2BIG,
					  "the body has too many files; send up to %zu at once", max);
		if (take_headers(&s, part, err) < 0)
			return -err->code;
		if (is_there(parts, *ret, part->name))
			return cbx_refuse(err, "invalid_argument", EINVAL,
					  "filename: \"%.60s\" is there twice; name each file once", part->name);
		end = memmem(s.p, s.n, mark, (size_t)n);
		if (!end)
			return refuse(err, "the last boundary is missing");
		part->data = s.p;
		part->len = (size_t)(end - s.p);
		drop(&s, part->len + (size_t)n);
		(*ret)++;
	}
	if (r < 0)
		return refuse(err, "a boundary is malformed");
	return *ret ? 0 : refuse(err, "there are no files in it");
}
