/* SPDX-License-Identifier: Apache-2.0 */
/* What the front end keeps of an MCP connection: lines from the client and, behind the first empty line, from codeboxd.
 * Whatever they are, each request is answered once, and what is said again are whole lines. */
#include <string.h>

#include "cli/said.h"
#include "fuzz.h"

static size_t lines_of(const struct cbx_buf *b)
{
	size_t n = 0;

	must(!b->len || b->data[b->len - 1] == '\n');
	for (size_t i = 0; i < b->len; i++) {
		must(b->data[i]);
		n += b->data[i] == '\n';
	}
	return n;
}

/* In memory of its own, so that a read behind it is seen. */
static void one_line(struct cbx_said *s, const uint8_t *p, size_t n, uint64_t at, bool down)
{
	char *line = malloc(n ? n : 1);

	must(line);
	memcpy(line, p, n);
	if (down)
		cbx_said_down(s, line, n);
	else
		cbx_said_up(s, line, n, at);
	free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cbx_buf again = { 0 }, failed = { 0 };
	struct cbx_said s;
	bool down = false;
	size_t asked;

	cbx_said_init(&s);
	for (size_t at = 0; at < size;) {
		const uint8_t *nl = memchr(data + at, '\n', size - at);
		size_t end = nl ? (size_t)(nl - data) : size;

		if (end == at)
			down = true;
		one_line(&s, data + at, end - at, end, down);
		at = end + 1;
	}
	cbx_said_again(&s, true, &again);
	lines_of(&again);
	asked = s.nasked;
	must(cbx_said_fail(&s, UINT64_MAX, true, "gone", &failed) == asked);
	must(lines_of(&failed) == asked && s.nasked == 0);
	cbx_buf_release(&again);
	cbx_buf_release(&failed);
	cbx_said_release(&s);
	return 0;
}
