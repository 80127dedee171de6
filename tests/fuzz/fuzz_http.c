/* SPDX-License-Identifier: Apache-2.0 */
/* What decides whether a web page may speak with codeboxd: names, origins, tokens, and the address to listen on. The line
 * is the value of a header. And what a whole head says, or a body in chunks. */
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "fuzz.h"
#include "http/address.h"
#include "http/head.h"

/* Said in another way than the program says it. */
static bool names_this_computer(const char *host)
{
	static const char *const names[] = { "localhost", "127.0.0.1", "[::1]" };

	for (size_t i = 0; i < 3; i++) {
		size_t n = strlen(names[i]);

		if (strncasecmp(host, names[i], n) == 0 && (host[n] == '\0' || host[n] == ':'))
			return strspn(host + n, ":0123456789") == strlen(host + n);
	}
	return false;
}

/* Whatever is taken for a head has one meaning. */
static void judge_head(const char *data, size_t size)
{
	struct cbx_http_head head;
	const char *why = NULL;
	size_t scanned = 0, again = 0;
	int r = cbx_http_head_end(data, size, &scanned), half;

	half = cbx_http_head_end(data, size / 2, &again);
	must(half == 0 || half == r);
	if (half == 0)
		must(cbx_http_head_end(data, size, &again) == r && (r < 0 || again == scanned));
	if (r != 1)
		return;
	must(scanned <= size && scanned >= 4 && memcmp(data + scanned - 4, "\r\n\r\n", 4) == 0);
	r = cbx_http_head_parse(data, scanned, &head, &why);
	must(r == 0 || (why && r >= 400));
	if (r == 0) {
		must(head.path && head.path[0] == '/' && head.length <= CBX_HTTP_PIECES_MAX);
		must(!head.chunked || !cbx_http_head_field(&head, "Content-Length"));
		for (size_t i = 0; i < head.nfields; i++) {
			must(head.fields[i].name[0] && !strpbrk(head.fields[i].name, " \t\r\n:"));
			must(!strpbrk(head.fields[i].value, "\r\n\033"));
			for (size_t k = 0; k < i; k++)
				must(strcasecmp(head.fields[i].name, "Host") != 0 ||
				     strcasecmp(head.fields[k].name, "Host") != 0);
		}
	}
	cbx_http_head_release(&head);
}

/* In one piece and in two, chunks mean the same. */
static void judge_chunks(const char *data, size_t size)
{
	struct cbx_http_chunks one = { 0 }, two = { 0 };
	struct cbx_buf a = { 0 }, b = { 0 };
	size_t used = 0, first = 0, second = 0;
	int r = cbx_http_chunks_feed(&one, data, size, &a, &used);
	int q = cbx_http_chunks_feed(&two, data, size / 2, &b, &first);

	if (!q)
		q = cbx_http_chunks_feed(&two, data + first, size - first, &b, &second);
	must(r == q && a.len <= size);
	if (!r)
		must(used == first + second && one.state == two.state && a.len == b.len);
	cbx_buf_release(&a);
	cbx_buf_release(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cbx_address address = { 0 };
	char text[128];
	struct cbx_buf token = { 0 };
	struct cbx_err err = { 0 };
	char *line = malloc(size + 1);
	int r;

	must(line);
	memcpy(line, data, size);
	line[size] = '\0';
	judge_head(line, size);
	judge_chunks(line, size);
	if (cbx_http_host_allowed(line))
		must(names_this_computer(line));
	if (cbx_http_origin_allowed(line)) {
		const char *host = strstr(line, "://");

		must(host && names_this_computer(host + 3));
	}
	r = cbx_http_address_parse(line, &address, &err);
	must(r >= 0 || err.code);
	if (r >= 0) {
		cbx_address_print(&address, text);
		if (cbx_address_is_local(&address))
			must(strncmp(text, "127.", 4) == 0 || strncmp(text, "[::1]:", 6) == 0 || text[0] == '/');
		else
			must(strchr("123456789[0", text[0]) && strncmp(text, "[::1]:", 6) != 0);
	}
	cbx_buf_adds(&token, "0123456789abcdef");
	if (cbx_http_token_ok(&token, line))
		must(strncasecmp(line, "Bearer ", 7) == 0 && strcmp(line + 7, "0123456789abcdef") == 0);
	cbx_buf_release(&token);
	free(line);
	return 0;
}
