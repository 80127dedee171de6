/* SPDX-License-Identifier: Apache-2.0 */
/* What code in a sandbox says to its proxy: heads of requests, bodies in chunks, SOCKS, TLS's ClientHello, hosts. */
#include <string.h>

#include "fuzz.h"
#include "proxy/first.h"
#include "proxy/head.h"

/* What is added is in what is sent once, whatever the client says. */
static void judge_added(const char *data, size_t size)
{
	const struct cbx_added added = { "X-Key", "X-Key: its-value" };
	struct cbx_head h, again;
	struct cbx_buf out = { 0 };
	size_t seen = 0;

	if (cbx_head_parse(data, size, 443, &h) <= 0)
		return;
	if (!h.connect) {
		must(!h.absolute);
		cbx_head_write(&h, &added, 1, &out);
		must(cbx_head_parse(out.data, out.len, 443, &again) == (int)out.len);
		for (size_t i = 0; i < again.nheaders; i++)
			seen += again.headers[i].n > 5 && strncasecmp(again.headers[i].p, "X-Key:", 6) == 0;
		must(seen == 1);
		cbx_head_release(&again);
	}
	cbx_buf_release(&out);
	cbx_head_release(&h);
}

/* What is sent on is read as what was judged, whoever reads it. */
static void judge_head(const char *data, size_t size)
{
	struct cbx_head h, again;
	struct cbx_buf out = { 0 };
	int n = cbx_head_parse(data, size, 80, &h), half = cbx_head_parse(data, size / 2, 80, &again);

	must(half == 0 || half == n || (half < 0 && n < 0));
	if (half > 0)
		cbx_head_release(&again);
	must(n <= (int)size);
	if (n > 0 && !h.connect) {
		cbx_head_write(&h, NULL, 0, &out);
		must(cbx_head_parse(out.data, out.len, 80, &again) == (int)out.len);
		must(!again.absolute && !again.connect && again.port == h.port && again.body == h.body);
		must(again.length == h.length && strcmp(again.host.name, h.host.name) == 0);
		must(strcmp(again.path, h.path) == 0 && strcmp(again.method, h.method) == 0);
		must(memmem(out.data, out.len, "\r\n\r\n", 4) == out.data + out.len - 4);
		cbx_head_release(&again);
	}
	if (n > 0)
		cbx_head_release(&h);
	cbx_buf_release(&out);
}

/* In two parts as at once. */
static void judge_chunks(const char *data, size_t size)
{
	struct cbx_chunks one = { 0 }, two = { 0 };
	ptrdiff_t all = cbx_chunks_take(&one, data, size), first, second = 0;

	first = cbx_chunks_take(&two, data, size / 3);
	if (first == (ptrdiff_t)(size / 3))
		second = cbx_chunks_take(&two, data + first, size - (size_t)first);
	must(all <= (ptrdiff_t)size);
	must(all < 0 ? first < 0 || second < 0 : first + second == all && one.state == two.state);
}

static void judge_host(const char *data, size_t size)
{
	struct cbx_host h, again;
	char text[CBX_HOST_MAX + 3];

	if (cbx_host_parse(data, size, &h))
		return;
	snprintf(text, sizeof(text), h.literal && h.ip.v6 ? "[%s]" : "%s", h.name);
	must(!cbx_host_parse(text, strlen(text), &again));
	must(strcmp(h.name, again.name) == 0 && h.literal == again.literal && memcmp(&h.ip, &again.ip, sizeof(h.ip)) == 0);
	must(!h.name[strspn(h.name, "abcdefghijklmnopqrstuvwxyz0123456789-_.:")]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = malloc(size ? size : 1), name[CBX_HOST_MAX + 1];
	struct cbx_socks_request q;
	unsigned status;
	bool hidden;

	must(copy);
	memcpy(copy, data, size); /* no byte behind it */
	judge_head(copy, size);
	judge_added(copy, size);
	judge_chunks(copy, size);
	judge_host(copy, size);
	must(cbx_socks_greeting((unsigned char *)copy, size) <= (int)size);
	must(cbx_socks_request((unsigned char *)copy, size, &q) <= (int)size);
	if (cbx_tls_hello((unsigned char *)copy, size, name, &hidden) > 0)
		must(memchr(name, 0, sizeof(name)));
	must(cbx_response_parse(copy, size, &status) <= (int)size);
	free(copy);
	return 0;
}
