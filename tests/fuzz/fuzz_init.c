/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what the first process of a sandbox may send to codeboxd. The client of its protocol
 * (box/init.c) and that of its files (box/files.c) are the real ones, over a real socket; requests of several kinds are
 * waiting for an answer. What a session would do on a lie is replaced by taking note of it; nothing may be handed on
 * after that.
 *
 * The input is a row of datagrams: a length in two bytes, then the bytes. A length with its top bit set asks for a
 * header that matches a waiting request, with the bytes as its payload.
 */
#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fuzz.h"
#include "box/box.h"
#include "session/asking.h"

static bool failed;
static unsigned answers, errors, readies;

static void on_failed(struct cbx_box *box, const struct cbx_err *err)
{
	must(err->code && err->msg[0] && !failed);
	failed = true;
	cbx_box_close(box);
}

static void on_ready(struct cbx_box *box)
{
	must(!failed && !readies++);
}

static void on_ended(struct cbx_box *box, int64_t pid, int status)
{
	must(!failed);
}

static void on_asked(struct cbx_box *box, uint64_t number, const char *p, size_t n)
{
	uint64_t sum = number;
	cJSON *packages = NULL;
	struct cbx_err err;

	must(!failed && !p == !n && n <= CBX_ASK_MAX);
	for (size_t i = 0; i < n; i++)
		sum += (uint8_t)p[i];
	__asm__ volatile("" : : "r"(sum));
	if (p)
		must((cbx_asked_parse(p, n, &packages, &err) >= 0) >= (packages != NULL));
	cJSON_Delete(packages);
}

static const struct cbx_box_events events = { .failed = on_failed, .ready = on_ready, .ended = on_ended, .asked = on_asked };

static void answered(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	uint64_t sum = 0;

	must(!reply != !err);
	if (err) {
		must(err->code && err->msg[0]);
		errors++;
		return;
	}
	must(!failed);
	answers++;
	for (size_t i = 0; i < reply->nentries; i++) {
		const char *name = reply->entries[i].name;

		must(!strstr(name, "//") && strcmp(name, "..") != 0 && strncmp(name, "../", 3) != 0);
		sum += strlen(name) + reply->entries[i].size;
	}
	for (size_t i = 0; reply->data && i < reply->len; i++)
		sum += ((const uint8_t *)reply->data)[i];
	__asm__ volatile("" : : "r"(sum)); /* all of it is there to be read */
}

static const uint32_t types[] = { CBX_INIT_READ, CBX_INIT_LIST, CBX_INIT_STAT, CBX_INIT_SCAN };

static void ask_all(struct cbx_box *box, struct cbx_ops *ops, struct cbx_file_op *op)
{
	struct cbx_err err = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		op[i] = (struct cbx_file_op){ .op.ops = ops, .done = answered };
	must(cbx_file_read(box, "x", 0, 100, &op[0], &err) >= 0);
	must(cbx_file_list(box, "x", 0, &op[1], &err) >= 0);
	must(cbx_file_stat(box, "x", &op[2], &err) >= 0);
	must(cbx_file_scan(box, "x", 0, &op[3], &err) >= 0);
}

static void send_all(int sock, const uint8_t *p, size_t n)
{
	uint32_t next = 0;

	while (n >= 2) {
		size_t want = p[0] | (size_t)(p[1] & 0x7f) << 8, k = want < n - 2 ? want : n - 2;
		bool matching = p[1] & 0x80;
		_cleanup_buf_ struct cbx_buf b = { 0 };

		p += 2;
		n -= 2;
		if (matching && k >= 1 && next < ARRAY_SIZE(types)) {
			struct cbx_init_header h = { .type = types[next], .id = next + 1, .value = p[0], .len = (uint32_t)k - 1 };

			cbx_buf_add(&b, &h, sizeof(h));
			cbx_buf_add(&b, p + 1, k - 1);
			next++;
		} else {
			cbx_buf_add(&b, p, k);
		}
		if (b.len)
			(void)!send(sock, b.data, b.len, MSG_DONTWAIT | MSG_NOSIGNAL);
		p += k;
		n -= k;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct event_base *loop;
	struct cbx_boxes boxes = { 0 };
	struct cbx_boxes_config config = { 0 };
	struct cbx_box box = { 0 };
	struct cbx_ops ops = { 0 };
	struct cbx_file_op op[ARRAY_SIZE(types)];
	struct cbx_err gone = { .code = EPIPE, .msg = "gone" };
	int pair[2];

	if (!loop)
		loop = event_base_new();
	failed = false;
	answers = errors = readies = 0;
	cbx_boxes_init(&boxes, loop, &config, &events, NULL);
	cbx_box_init(&box, &boxes);
	must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	must(cbx_init_open(&box, pair[0]) == 0);
	ask_all(&box, &ops, op);
	send_all(pair[1], data, size);
	for (int i = 0; i < 8 && !failed; i++)
		event_base_loop(loop, EVLOOP_NONBLOCK | EVLOOP_ONCE);
	cbx_box_close(&box);
	cbx_init_fail_all(&box, &gone);
	must(answers + errors == ARRAY_SIZE(types)); /* every request got one answer */
	must(box.init.count == 0 && LIST_EMPTY(&ops.pending));
	cbx_box_release(&box);
	close(pair[1]);
	return 0;
}
