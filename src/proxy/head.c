/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/head.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

#define TOKEN "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

static int refuse(struct cbx_head *h, int status, const char *why)
{
	cbx_head_release(h);
	h->why = why;
	return -status;
}

void cbx_head_release(struct cbx_head *h)
{
	free(h->path);
	h->path = NULL;
}

static bool is(const struct cbx_text *t, const char *s)
{
	return t->n == strlen(s) && strncasecmp(t->p, s, t->n) == 0;
}

/* The length of a head, its empty line included; 0: it has not ended yet; -1: a line ends in another way. */
static ptrdiff_t whole(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i] == '\n' && (i == 0 || p[i - 1] != '\r'))
			return -1;
		if (p[i] == '\r' && i + 1 < n && p[i + 1] != '\n')
			return -1;
		if (p[i] == '\n' && i >= 3 && p[i - 2] == '\n')
			return (ptrdiff_t)i + 1;
	}
	return 0;
}

/* ---- the request line ---- */

static int set_authority(struct cbx_head *h, struct cbx_host *host, uint16_t *port, const char *p, size_t n)
{
	const char *why;

	if (memchr(p, '@', n))
		return refuse(h, 400, "a user name or password stands before the host's name; send it in a header");
	why = cbx_host_parse_port(p, n, host, port);
	return why ? refuse(h, 400, why) : 0;
}

static int set_path(struct cbx_head *h, const char *p, size_t n)
{
	if (memchr(p, '#', n))
		return refuse(h, 400, "a request's target has no fragment (\"#\")");
	h->path = cbx_xcalloc(1, n + 2);
	if (!n || p[0] == '?')
		h->path[0] = '/';
	memcpy(h->path + strlen(h->path), p, n);
	return 0;
}

static int parse_target(struct cbx_head *h, const char *p, size_t n)
{
	const char *slash;
	size_t host;
	int r;

	if (h->connect) {
		h->port = 0;
		r = set_authority(h, &h->host, &h->port, p, n);
		return r < 0 || h->port ? r : refuse(h, 400, "CONNECT needs a port, as in example.org:443");
	}
	if (n && p[0] == '/')
		return set_path(h, p, n);
	if (n == 1 && p[0] == '*')
		return refuse(h, 400, "the target \"*\" is for a server, not for a proxy");
	if (n > 8 && strncasecmp(p, "https://", 8) == 0)
		return refuse(h, 400, "https:// goes through a proxy by CONNECT; set https_proxy, too");
	if (n <= 7 || strncasecmp(p, "http://", 7) != 0)
		return refuse(h, 400, "a proxy takes http://host/path, or a path and a Host header");
	if (h->standard != 80)
		return refuse(h, 400, "within TLS a request's target is a path, not http://");
	p += 7;
	n -= 7;
	slash = p;
	while (slash < p + n && *slash != '/' && *slash != '?' && *slash != '#')
		slash++;
	host = (size_t)(slash - p);
	h->absolute = true;
	h->port = 80;
	r = set_authority(h, &h->host, &h->port, p, host);
	return r < 0 ? r : set_path(h, slash, n - host);
}

static int parse_line(struct cbx_head *h, const char *p, size_t n)
{
	const char *space = memchr(p, ' ', n), *target = space ? space + 1 : NULL;
	size_t method = space ? (size_t)(space - p) : 0, left = space ? n - method - 1 : 0;
	const char *end = space ? memchr(target, ' ', left) : NULL;
	size_t len = end ? (size_t)(end - target) : 0, version = end ? left - len - 1 : 0;

	for (size_t i = 0; i < n; i++)
		if ((unsigned char)p[i] < ' ' || (unsigned char)p[i] > '~')
			return refuse(h, 400, "the request line has characters that are not printable ASCII");
	if (!end || !len || !method)
		return refuse(h, 400, "the first line is not a method, a target and HTTP/1.1, each after one space");
	if (version == 8 && strncmp(end + 1, "HTTP/2.0", 8) == 0)
		return refuse(h, 505, "the proxy speaks HTTP/1.1; HTTP/2 goes through CONNECT");
	if (version != 8 || (strncmp(end + 1, "HTTP/1.1", 8) != 0 && strncmp(end + 1, "HTTP/1.0", 8) != 0))
		return refuse(h, 505, "the version is neither HTTP/1.1 nor HTTP/1.0");
	h->old = end[8] == '0';
	if (method >= sizeof(h->method))
		return refuse(h, 501, "the method is longer than any that there is");
	memcpy(h->method, p, method);
	if (strspn(h->method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != method)
		return refuse(h, 501, "a method consists of capital letters");
	h->connect = strcmp(h->method, "CONNECT") == 0;
	if (strcmp(h->method, "TRACE") == 0)
		return refuse(h, 501, "TRACE shows headers that are not for the code that asks");
	return parse_target(h, target, len);
}

/* ---- headers ---- */

struct reading {
	bool host, length, chunked;
	struct cbx_text connection; /* of the last such header */
};

static int parse_host(struct cbx_head *h, struct reading *rd, const struct cbx_text *value)
{
	struct cbx_host host;
	uint16_t port = h->absolute ? 80 : h->standard;
	int r;

	if (rd->host)
		return refuse(h, 400, "there are two Host headers");
	rd->host = true;
	if (h->connect)
		return 0;
	r = set_authority(h, &host, &port, value->p, value->n);
	if (r < 0)
		return r;
	if (h->absolute && (strcmp(host.name, h->host.name) != 0 || port != h->port))
		return refuse(h, 400, "the Host header names another host than the target does");
	h->host = host;
	h->port = port;
	return 0;
}

static int parse_length(struct cbx_head *h, struct reading *rd, const struct cbx_text *value)
{
	if (rd->length)
		return refuse(h, 400, "there are two Content-Length headers");
	rd->length = true;
	if (!value->n || value->n > 15)
		return refuse(h, 400, "Content-Length is not a number that is possible");
	h->length = 0;
	for (size_t i = 0; i < value->n; i++) {
		if (value->p[i] < '0' || value->p[i] > '9')
			return refuse(h, 400, "Content-Length is not a number");
		h->length = h->length * 10 + (uint64_t)(value->p[i] - '0');
	}
	h->body = CBX_BODY_LENGTH;
	return 0;
}

static int parse_coding(struct cbx_head *h, struct reading *rd, const struct cbx_text *value)
{
	if (rd->chunked || h->old || !is(value, "chunked"))
		return refuse(h, 501, "Transfer-Encoding is not a single \"chunked\" of HTTP/1.1");
	rd->chunked = true;
	return 0;
}

/* "_" and "-" are one to programs behind some servers. */
static bool has_name(const struct cbx_text *header, const char *name)
{
	size_t n = strlen(name);

	if (header->n <= n || header->p[n] != ':')
		return false;
	for (size_t i = 0; i < n; i++)
		if ((header->p[i] == '_' ? '-' : tolower((unsigned char)header->p[i])) !=
		    (name[i] == '_' ? '-' : tolower((unsigned char)name[i])))
			return false;
	return true;
}

/* What some servers take for the method or the path instead of those that the request begins with. */
static bool overrides(const struct cbx_text *header)
{
	static const char *const names[] = { "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override",
					     "X-Original-URL", "X-Rewrite-URL" };
	bool found = false;

	for (size_t i = 0; i < ARRAY_SIZE(names) && !found; i++)
		found = has_name(header, names[i]);
	return found;
}

static bool for_one_hop(const struct cbx_text *name)
{
	static const char *const names[] = { "Connection",	  "Proxy-Connection",	 "Keep-Alive",	   "TE",
					     "Upgrade",		  "Proxy-Authorization", "HTTP2-Settings", "Trailer",
					     "Proxy-Authenticate" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (is(name, names[i]))
			return true;
	return false;
}

static int parse_header(struct cbx_head *h, struct reading *rd, const char *p, size_t n)
{
	struct cbx_text line = { p, n }, name = { p, strspn(p, TOKEN) }, value;

	if (!name.n || name.n >= n || p[name.n] != ':')
		return refuse(h, 400, "a header is a name, a colon at once, and a value on one line");
	value = (struct cbx_text){ p + name.n + 1, n - name.n - 1 };
	while (value.n && (value.p[0] == ' ' || value.p[0] == '\t'))
		value = (struct cbx_text){ value.p + 1, value.n - 1 };
	while (value.n && (value.p[value.n - 1] == ' ' || value.p[value.n - 1] == '\t'))
		value.n--;
	for (size_t i = 0; i < value.n; i++)
		if (((unsigned char)value.p[i] < ' ' && value.p[i] != '\t') || value.p[i] == 0x7f)
			return refuse(h, 400, "a header has a control character");
	if (is(&name, "Host"))
		return parse_host(h, rd, &value);
	if (is(&name, "Content-Length"))
		return parse_length(h, rd, &value);
	if (is(&name, "Transfer-Encoding"))
		return parse_coding(h, rd, &value);
	if (has_name(&line, "Content-Length") || has_name(&line, "Transfer-Encoding"))
		return refuse(h, 400,
			      "a header says with \"_\" in its name where the body ends; some servers believe it");
	if (is(&name, "Connection")) {
		if (rd->connection.p)
			return refuse(h, 400, "there are two Connection headers");
		rd->connection = value;
	}
	if (for_one_hop(&name))
		return 0;
	if (h->nheaders == CBX_HEADERS_MAX)
		return refuse(h, 431, "there are more than 128 headers");
	h->overrides = h->overrides || overrides(&line);
	h->headers[h->nheaders++] = line;
	return 0;
}

/* Headers that Connection names are for one hop, too. */
static void drop_named(struct cbx_head *h, const struct cbx_text *connection)
{
	const char *p = connection->p, *end = p ? p + connection->n : NULL;

	while (p && p < end) {
		size_t n = 0, kept = 0;

		while (p < end && (*p == ' ' || *p == '\t' || *p == ','))
			p++;
		while (p + n < end && p[n] != ',' && p[n] != ' ' && p[n] != '\t')
			n++;
		for (size_t i = 0; n && i < h->nheaders; i++) {
			const struct cbx_text *t = &h->headers[i];

			if (t->n <= n || t->p[n] != ':' || strncasecmp(t->p, p, n) != 0)
				h->headers[kept++] = *t;
		}
		if (n)
			h->nheaders = kept;
		p += n;
	}
}

int cbx_head_parse(const char *p, size_t n, uint16_t standard, struct cbx_head *ret)
{
	ptrdiff_t len = whole(p, n < CBX_HEAD_MAX ? n : CBX_HEAD_MAX);
	struct reading rd = { 0 };
	const char *line = p, *end;
	int r;

	memset(ret, 0, sizeof(*ret));
	ret->standard = standard;
	if (n && (p[0] == '\r' || p[0] == '\n'))
		return refuse(ret, 400, "the request begins with an empty line");
	if (len < 0)
		return refuse(ret, 400, "a line does not end with CR and LF");
	if (!len)
		return n >= CBX_HEAD_MAX ? refuse(ret, 431, "the head of the request has more than 64 KiB") : 0;
	end = memchr(line, '\r', (size_t)len);
	r = parse_line(ret, line, (size_t)(end - line));
	for (line = end + 2; r == 0 && line < p + len - 2; line = end + 2) {
		end = memchr(line, '\r', (size_t)(p + len - line));
		r = parse_header(ret, &rd, line, (size_t)(end - line));
	}
	if (r < 0)
		return r;
	if (rd.chunked && rd.length)
		return refuse(ret, 400, "there are both Content-Length and Transfer-Encoding");
	if (!ret->connect && !ret->absolute && !rd.host)
		return refuse(ret, 400, "neither the target nor a Host header names a host");
	if (rd.chunked)
		ret->body = CBX_BODY_CHUNKED;
	drop_named(ret, &rd.connection);
	return (int)len;
}

static bool replaced(const struct cbx_text *header, const struct cbx_added *added, size_t nadded)
{
	bool is_replaced = nadded && has_name(header, "Accept-Encoding");

	for (size_t i = 0; i < nadded && !is_replaced; i++)
		is_replaced = has_name(header, added[i].name);
	return is_replaced;
}

void cbx_head_write(const struct cbx_head *h, const struct cbx_added *added, size_t nadded, struct cbx_buf *out)
{
	cbx_buf_addf(out, "%s %s HTTP/1.%c\r\nHost: ", h->method, h->path, h->old ? '0' : '1');
	if (h->host.literal && h->host.ip.v6)
		cbx_buf_addf(out, "[%s]", h->host.name);
	else
		cbx_buf_adds(out, h->host.name);
	if (h->port != h->standard)
		cbx_buf_addf(out, ":%u", h->port);
	cbx_buf_adds(out, "\r\n");
	for (size_t i = 0; i < h->nheaders; i++) {
		if (replaced(&h->headers[i], added, nadded))
			continue;
		cbx_buf_add(out, h->headers[i].p, h->headers[i].n);
		cbx_buf_adds(out, "\r\n");
	}
	for (size_t i = 0; i < nadded; i++)
		cbx_buf_addf(out, "%s\r\n", added[i].line);
	if (nadded)
		cbx_buf_adds(out, "Accept-Encoding: identity\r\n");
	if (h->body == CBX_BODY_LENGTH)
		cbx_buf_addf(out, "Content-Length: %llu\r\n", (unsigned long long)h->length);
	if (h->body == CBX_BODY_CHUNKED)
		cbx_buf_adds(out, "Transfer-Encoding: chunked\r\n");
	cbx_buf_adds(out, "Connection: close\r\n\r\n");
}

/* ---- bodies ---- */

enum { SIZE, SIZE_LF, DATA, DATA_CR, DATA_LF, LAST_CR, LAST_LF };

static int hex(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

static int next_state(struct cbx_chunks *c, char byte)
{
	switch (c->state) {
	case SIZE:
		if (byte == '\r')
			return c->digits ? SIZE_LF : -1;
		if (hex(byte) < 0 || ++c->digits > 12)
			return -1;
		c->left = c->left * 16 + (uint64_t)hex(byte);
		return SIZE;
	case SIZE_LF:
		c->digits = 0;
		return byte != '\n' ? -1 : c->left ? DATA : LAST_CR;
	case DATA_CR:
		return byte == '\r' ? DATA_LF : -1;
	case DATA_LF:
		return byte == '\n' ? SIZE : -1;
	case LAST_CR:
		return byte == '\r' ? LAST_LF : -1;
	default:
		return byte == '\n' ? CBX_CHUNKS_END : -1;
	}
}

ptrdiff_t cbx_chunks_take(struct cbx_chunks *c, const char *p, size_t n)
{
	size_t i = 0;

	while (i < n && c->state != CBX_CHUNKS_END) {
		if (c->state == DATA) {
			size_t some = c->left < n - i ? (size_t)c->left : n - i;

			i += some;
			c->left -= some;
			if (!c->left)
				c->state = DATA_CR;
			continue;
		}
		c->state = next_state(c, p[i++]);
		if (c->state < 0)
			return -1;
	}
	return (ptrdiff_t)i;
}

int cbx_response_parse(const char *p, size_t n, unsigned *ret_status)
{
	const char *end = memmem(p, n, "\r\n\r\n", 4), *bare = memmem(p, n, "\n\n", 2);

	if (n >= 5 && strncmp(p, "HTTP/", 5) != 0)
		return -1;
	if (bare && (!end || bare < end))
		end = bare - 2;
	if (!end)
		return n >= CBX_HEAD_MAX ? -1 : 0;
	if (n < 12 || strncmp(p, "HTTP/1.", 7) != 0 || p[8] != ' ')
		return -1;
	*ret_status = 0;
	for (int i = 9; i < 12; i++) {
		if (p[i] < '0' || p[i] > '9')
			return -1;
		*ret_status = *ret_status * 10 + (unsigned)(p[i] - '0');
	}
	return (int)(end - p) + 4;
}
