/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what could be read in two ways is refused, because a proxy before us, or a token's check, may
 * have read it in the other. A request has one meaning or none: lines end in CR LF, names end at their colon, no line
 * is continued, what says who asks and where the body ends is said once, and a length is digits.
 */
#include "http/head.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"

#define LENGTH_DIGITS 18 /* fits 64 bits */
#define CHUNK_DIGITS  8

static bool is_token(const char *s, size_t n)
{
	static const char marks[] = "!#$%&'*+-.^_`|~";

	for (size_t i = 0; i < n; i++) {
		char c = s[i];

		if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) &&
		    !(c && strchr(marks, c)))
			return false;
	}
	return n > 0;
}

int cbx_http_head_end(const char *p, size_t len, size_t *scanned)
{
	for (size_t i = *scanned; i < len; i++) {
		bool after_cr = i && p[i - 1] == '\r';

		if ((p[i] == '\n') != after_cr)
			return -400;
		if (((unsigned char)p[i] < ' ' && !strchr("\t\r\n", p[i])) || !p[i] || p[i] == 0x7f)
			return -400;
		if (p[i] == '\n' && i >= 3 && p[i - 2] == '\n') {
			*scanned = i + 1;
			return 1;
		}
	}
	*scanned = len;
	return len > CBX_HTTP_HEADERS_MAX ? -400 : 0;
}

/* The next line, cut off and without its end; NULL: the empty line that ends the head. */
static char *next_line(char **at)
{
	char *line = *at, *end = strstr(line, "\r\n");

	if (!end || end == line)
		return NULL;
	*end = '\0';
	*at = end + 2;
	return line;
}

static int request_line(struct cbx_http_head *h, char *line, const char **why)
{
	static const char *const methods[] = { [CBX_HTTP_GET] = "GET",
					       [CBX_HTTP_HEAD] = "HEAD",
					       [CBX_HTTP_POST] = "POST",
					       [CBX_HTTP_PUT] = "PUT",
					       [CBX_HTTP_DELETE] = "DELETE" };
	char *target = strchr(line, ' '), *version = target ? strchr(target + 1, ' ') : NULL;

	*why = "the request line is not METHOD /PATH HTTP/1.1";
	if (!version || !is_token(line, (size_t)(target - line)))
		return 400;
	*target++ = *version++ = '\0';
	if (target[0] != '/')
		return 400;
	for (const char *p = target; *p; p++)
		if (*p <= ' ' || *p > '~' || *p == '#')
			return 400;
	if (strcmp(version, "HTTP/1.1") != 0 && strcmp(version, "HTTP/1.0") != 0)
		return strlen(version) == 8 && cbx_starts_with(version, "HTTP/") ? 505 : 400;
	h->http10 = version[7] == '0';
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
		if (methods[i] && strcmp(line, methods[i]) == 0)
			h->method = (enum cbx_http_method)i;
	h->path = target;
	target += strcspn(target, "?");
	h->query = *target ? target + 1 : target;
	*target = '\0';
	return 0;
}

bool cbx_http_trace_valid(const char *value)
{
	static const char form[] = "xx-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";
	const size_t n = sizeof(form) - 1;

	for (size_t i = 0; i < n; i++)
		if (form[i] == '-' ? value[i] != '-' : !value[i] || !strchr("0123456789abcdef", value[i]))
			return false;
	if (strncmp(value, "ff", 2) == 0 || strspn(value + 3, "0") >= 32 || strspn(value + 36, "0") >= 16)
		return false;
	return !value[n] || (value[n] == '-' && strncmp(value, "00", 2) != 0);
}

const char *cbx_http_head_field(const struct cbx_http_head *h, const char *name)
{
	for (size_t i = 0; i < h->nfields; i++)
		if (strcasecmp(h->fields[i].name, name) == 0)
			return h->fields[i].value;
	return NULL;
}

bool cbx_http_head_accepts(const struct cbx_http_head *h, const char *type)
{
	for (size_t i = 0; i < h->nfields; i++)
		if (strcasecmp(h->fields[i].name, "Accept") == 0 && strcasestr(h->fields[i].value, type))
			return true;
	return false;
}

/* What decides who asks, for what, and where the body ends. */
static bool is_said_once(const char *name)
{
	static const char *const names[] = {
		"Host",		"Origin", "Authorization",  "Content-Length",	    "Transfer-Encoding",
		"Content-Type", "Expect", "Mcp-Session-Id", "MCP-Protocol-Version", "Mcp-Method",
		"Mcp-Name"
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcasecmp(name, names[i]) == 0)
			return true;
	return false;
}

static int field_line(struct cbx_http_head *h, char *line, const char **why)
{
	char *colon = strchr(line, ':'), *value, *end;

	*why = "a header is not NAME: VALUE on one line";
	if (!colon || !is_token(line, (size_t)(colon - line)))
		return 400;
	*colon = '\0';
	value = colon + 1 + strspn(colon + 1, " \t");
	end = value + strlen(value);
	while (end > value && strchr(" \t", end[-1]))
		end--;
	*end = '\0';
	*why = "a header is given twice that can have one value only";
	if (is_said_once(line) && cbx_http_head_field(h, line))
		return 400;
	*why = "there are too many headers";
	if (h->nfields >= CBX_HTTP_FIELDS_MAX)
		return 400;
	h->fields[h->nfields++] = (struct cbx_http_field){ line, value };
	return 0;
}

/* Where the body ends. */
static int framing(struct cbx_http_head *h, const char **why)
{
	const char *length = cbx_http_head_field(h, "Content-Length");
	const char *coding = cbx_http_head_field(h, "Transfer-Encoding");
	const char *expect = cbx_http_head_field(h, "Expect");
	size_t digits = length ? strspn(length, "0123456789") : 0;

	*why = "both Transfer-Encoding and Content-Length are given";
	if (length && coding)
		return 400;
	*why = "the only Transfer-Encoding is chunked, of HTTP/1.1";
	if (coding && (h->http10 || strcasecmp(coding, "chunked") != 0))
		return 400;
	*why = "Content-Length is not a number";
	if (length && (!digits || length[digits]))
		return 400;
	*why = "the body is too large";
	if (digits > LENGTH_DIGITS)
		return 413;
	*why = "Expect: only 100-continue is known";
	if (expect && strcasecmp(expect, "100-continue") != 0)
		return 417;
	h->length = length ? strtoull(length, NULL, 10) : 0;
	*why = "the body is too large";
	if (h->length > CBX_HTTP_PIECES_MAX)
		return 413;
	h->chunked = coding;
	h->expects = expect && !h->http10 && (h->chunked || h->length);
	return 0;
}

static bool says_close(const struct cbx_http_head *h)
{
	for (size_t i = 0; i < h->nfields; i++)
		if (strcasecmp(h->fields[i].name, "Connection") == 0 && strcasestr(h->fields[i].value, "close"))
			return true;
	return false;
}

int cbx_http_head_parse(const char *text, size_t len, struct cbx_http_head *ret, const char **ret_why)
{
	char *at, *line;
	int status;

	memset(ret, 0, sizeof(*ret));
	ret->text = at = strndup(text, len);
	*ret_why = "the request line is missing";
	if (!at || strlen(at) != len)
		return 400;
	line = next_line(&at);
	status = line ? request_line(ret, line, ret_why) : 400;
	while (!status && (line = next_line(&at)))
		status = field_line(ret, line, ret_why);
	if (!status && strcmp(at, "\r\n") != 0)
		status = 400;
	if (!status)
		status = framing(ret, ret_why);
	/* A client of HTTP/1.0 finds an answer's end by the connection's. */
	ret->close = status || ret->http10 || says_close(ret);
	return status;
}

void cbx_http_head_release(struct cbx_http_head *h)
{
	free(h->text);
	memset(h, 0, sizeof(*h));
}

/* ---- chunks ---- */

/* One byte outside of the data of a chunk. 0, or a status. */
static int between(struct cbx_http_chunks *c, char b)
{
	const char *hex = "0123456789abcdef", *digit;

	switch (c->state) {
	case CBX_HTTP_CHUNK_SIZE:
		if (b == '\r' && c->digits) {
			c->state = CBX_HTTP_CHUNK_SIZE_LF;
			return 0;
		}
		digit = b ? strchr(hex, b >= 'A' && b <= 'F' ? b + ('a' - 'A') : b) : NULL;
		if (!digit || ++c->digits > CHUNK_DIGITS)
			return 400; /* extensions of a chunk, too */
		c->left = c->left * 16 + (uint64_t)(digit - hex);
		return 0;
	case CBX_HTTP_CHUNK_SIZE_LF:
		c->state = c->left ? CBX_HTTP_CHUNK_DATA : CBX_HTTP_CHUNK_LAST_CR;
		c->digits = 0;
		return b == '\n' ? 0 : 400;
	case CBX_HTTP_CHUNK_DATA_CR:
		c->state = CBX_HTTP_CHUNK_DATA_LF;
		return b == '\r' ? 0 : 400;
	case CBX_HTTP_CHUNK_DATA_LF:
		c->state = CBX_HTTP_CHUNK_SIZE;
		return b == '\n' ? 0 : 400;
	case CBX_HTTP_CHUNK_LAST_CR: /* trailers are refused */
		c->state = CBX_HTTP_CHUNK_LAST_LF;
		return b == '\r' ? 0 : 400;
	case CBX_HTTP_CHUNK_LAST_LF:
		c->state = CBX_HTTP_CHUNK_END;
		return b == '\n' ? 0 : 400;
	default:
		return 400;
	}
}

int cbx_http_chunks_feed(struct cbx_http_chunks *c, const char *p, size_t len, struct cbx_buf *out, size_t *ret_used)
{
	size_t at = 0;

	while (at < len && c->state != CBX_HTTP_CHUNK_END) {
		size_t n = len - at < c->left ? len - at : (size_t)c->left;
		int status;

		if (c->state != CBX_HTTP_CHUNK_DATA) {
			status = between(c, p[at++]);
			if (status)
				return status;
			continue;
		}
		if (out->len + n > CBX_HTTP_BODY_MAX)
			return 413;
		cbx_buf_add(out, p + at, n);
		at += n;
		c->left -= n;
		if (!c->left)
			c->state = CBX_HTTP_CHUNK_DATA_CR;
	}
	*ret_used = at;
	return 0;
}

const char *cbx_http_reason(int status)
{
	static const struct {
		int status;
		const char *reason;
	} reasons[] = {
		{ 200, "OK" },
		{ 201, "Created" },
		{ 202, "Accepted" },
		{ 206, "Partial Content" },
		{ 304, "Not Modified" },
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 408, "Request Timeout" },
		{ 409, "Conflict" },
		{ 410, "Gone" },
		{ 412, "Precondition Failed" },
		{ 413, "Content Too Large" },
		{ 415, "Unsupported Media Type" },
		{ 416, "Range Not Satisfiable" },
		{ 417, "Expectation Failed" },
		{ 422, "Unprocessable Content" },
		{ 429, "Too Many Requests" },
		{ 500, "Internal Server Error" },
		{ 503, "Service Unavailable" },
		{ 505, "HTTP Version Not Supported" },
		{ 507, "Insufficient Storage" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return "Error";
}
