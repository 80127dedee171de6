/* SPDX-License-Identifier: Apache-2.0 */
#include "rest/route.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

/* plus: what "+" stands for. False: it is malformed, has a NUL, or is too long. */
static bool decode(const char *p, size_t len, char plus, char *out, size_t size)
{
	_cleanup_free_ char *raw = strndup(p, len), *text = NULL;

	for (char *c = raw; (c = strchr(c, '+')); c++)
		*c = plus;
	text = cbx_percent_decode(raw, len);
	return (text || !len) && snprintf(out, size, "%s", text ? text : "") < (int)size;
}

bool cbx_rest_path_valid(const char *path)
{
	const char *part = path;

	if (!*path)
		return true;
	for (;;) {
		size_t n = strcspn(part, "/");

		if (!n || (n == 1 && part[0] == '.') || (n == 2 && part[0] == '.' && part[1] == '.'))
			return false;
		if (!part[n])
			return true;
		part += n + 1;
	}
}

static bool number(const char *text, struct cbx_rest_target *ret)
{
	struct cbx_err ignored;

	return text[0] != '0' && cbx_parse_u64(text, "", 1, 1ull << 53, &ret->execution_id, &ignored) >= 0;
}

/* "SESSION.NUMBER" */
static bool request_id(const char *text, struct cbx_rest_target *ret)
{
	const char *dot = strrchr(text, '.');
	size_t n = dot ? (size_t)(dot - text) : 0;

	if (!dot || n > CBX_NAME_MAX || !number(dot + 1, ret))
		return false;
	snprintf(ret->session_id, sizeof(ret->session_id), "%.*s", (int)n, text);
	return cbx_name_valid(ret->session_id);
}

/* A part of a path in braces. */
static bool take_name(const char *name, size_t name_len, const char *p, size_t len, struct cbx_rest_target *ret)
{
	char text[CBX_NAME_MAX + 24], *out = ret->session_id;

	if (name_len == 6 && memcmp(name, "{path}", 6) == 0)
		return decode(p, len, '+', ret->path, sizeof(ret->path));
	if (!decode(p, len, '+', text, sizeof(text)))
		return false;
	if (name_len == 12 && memcmp(name, "{request_id}", 12) == 0)
		return request_id(text, ret);
	if (name_len == 12 && memcmp(name, "{command_id}", 12) == 0)
		return number(text, ret);
	if (!cbx_name_valid(text))
		return false;
	if (name_len == 12 && memcmp(name, "{connection}", 12) == 0)
		out = ret->connection;
	snprintf(out, CBX_NAME_MAX + 1, "%s", text);
	return true;
}

static bool matches(const char *pattern, const char *path, struct cbx_rest_target *ret)
{
	memset(ret, 0, sizeof(*ret));
	while (*pattern == '/' && *path == '/') {
		size_t n = strcspn(++pattern, "/"), m = strcspn(++path, "/");

		if (strcmp(pattern, "{path}") == 0)
			m = strlen(path);
		if (pattern[0] == '{' ? !take_name(pattern, n, path, m, ret) : n != m || memcmp(pattern, path, n) != 0)
			return false;
		pattern += n;
		path += m;
	}
	return !*pattern && !*path;
}

const struct cbx_rest_route *cbx_rest_route_find(const struct cbx_rest_route *routes, enum cbx_http_method method,
						 const char *path, struct cbx_rest_target *ret, char ret_allowed[64])
{
	static const char *const names[] = { [CBX_HTTP_GET] = "GET, HEAD",
					     [CBX_HTTP_POST] = "POST",
					     [CBX_HTTP_PUT] = "PUT",
					     [CBX_HTTP_DELETE] = "DELETE" };
	const struct cbx_rest_route *r;

	ret_allowed[0] = '\0';
	if (method == CBX_HTTP_HEAD)
		method = CBX_HTTP_GET;
	for (r = routes; r->path; r++) {
		size_t n = strlen(ret_allowed);

		if (!matches(r->path, path, ret))
			continue;
		if (r->method == method)
			return r;
		snprintf(ret_allowed + n, 64 - n, "%s%s", n ? ", " : "", names[r->method]);
	}
	return NULL;
}

/* ---- queries ---- */

/* The next name=value of a query; false: there are no more. */
static bool next_pair(const char **at, size_t *ret_name, const char **ret_value, size_t *ret_len)
{
	size_t n = strcspn(*at, "&");

	if (!n && !**at)
		return false;
	*ret_name = 0;
	while (*ret_name < n && (*at)[*ret_name] != '=')
		(*ret_name)++;
	*ret_value = *at + *ret_name + (*ret_name < n);
	*ret_len = (size_t)(*at + n - *ret_value);
	return true;
}

static const char *after_pair(const char *at)
{
	at += strcspn(at, "&");
	return *at ? at + 1 : at;
}

int cbx_rest_query(const char *query, const char *name, char *out, size_t size, struct cbx_err *err)
{
	const char *value;
	size_t n, len;

	for (const char *at = query; next_pair(&at, &n, &value, &len); at = after_pair(at)) {
		if (n != strlen(name) || memcmp(at, name, n) != 0)
			continue;
		if (!decode(value, len, ' ', out, size))
			return cbx_refuse(err, "invalid_argument", EINVAL,
					  "%s: malformed or too long in the query; encode it, and shorten it", name);
		return 1;
	}
	return 0;
}

static bool is_known(const char *known, const char *name, size_t n)
{
	while (known && *known) {
		size_t m = strcspn(known, " ");

		if (n == m && memcmp(known, name, n) == 0)
			return true;
		known += m + (known[m] == ' ');
	}
	return false;
}

int cbx_rest_query_check(const char *query, const char *known, struct cbx_err *err)
{
	const char *value, *other;
	size_t n, len, m;

	for (const char *at = query; next_pair(&at, &n, &value, &len); at = after_pair(at)) {
		if (!is_known(known, at, n))
			return cbx_refuse(err, "invalid_argument", EINVAL,
					  "%.*s: unknown in the query; accepted are: %s", (int)(n > 60 ? 60 : n), at,
					  known ? known : "none");
		for (const char *next = after_pair(at); next_pair(&next, &m, &other, &len); next = after_pair(next))
			if (n == m && memcmp(at, next, n) == 0)
				return cbx_refuse(err, "invalid_argument", EINVAL,
						  "%.*s: twice in the query; give it once", (int)n, at);
	}
	return 0;
}

/* ---- ranges ---- */

static bool digits(const char **p, uint64_t *ret)
{
	size_t n = strspn(*p, "0123456789");

	if (!n || n > 18)
		return false;
	*ret = strtoull(*p, NULL, 10);
	*p += n;
	return true;
}

int cbx_rest_range(const char *header, uint64_t size, uint64_t *from, uint64_t *n)
{
	const char *p = header;
	uint64_t first, last;

	if (!p || !cbx_starts_with(p, "bytes="))
		return 0;
	p += strlen("bytes=");
	if (*p == '-') { /* the last ones */
		p++;
		if (!digits(&p, &last) || *p)
			return 0;
		*n = last < size ? last : size;
		*from = size - *n;
		return *n ? 1 : -1;
	}
	if (!digits(&p, &first) || *p++ != '-')
		return 0; /* several ranges, too: all of it is as good an answer */
	last = UINT64_MAX;
	if ((*p && !digits(&p, &last)) || *p || last < first)
		return 0;
	if (first >= size)
		return -1;
	*from = first;
	*n = (last < size ? last + 1 : size) - first;
	return 1;
}
