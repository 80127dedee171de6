/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a message is frames: where it comes from, a delimiter, a signature, and four JSON texts, which
 * the signature is of. What is not signed with the key of the connection file is dropped: on a loopback port any user
 * can send.
 */
#include "cli/kernel-wire.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/hmac.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"

#define DELIMITER  "<IDS|MSG>"
#define FRAMES_MAX 64
#define FILE_MAX   KIB(64)
#define PARTS	   4 /* header, parent header, metadata, content */
#define HEX	   (2 * SHA256_DIGEST_SIZE)

static void sign(const struct cbx_wire *w, const struct cbx_buf parts[PARTS], char hex[HEX + 1])
{
	uint8_t digest[SHA256_DIGEST_SIZE];
	struct hmac_sha256_ctx ctx;

	hex[0] = '\0';
	if (!w->key.len)
		return;
	hmac_sha256_set_key(&ctx, w->key.len, (const uint8_t *)w->key.data);
	for (size_t i = 0; i < PARTS; i++)
		hmac_sha256_update(&ctx, parts[i].len, (const uint8_t *)cbx_buf_str(&parts[i]));
	hmac_sha256_digest(&ctx, sizeof(digest), digest);
	cbx_hex(digest, sizeof(digest), hex);
}

/* Without a key there is nothing that another process could not have, too. */
static void make_name(struct cbx_wire *w)
{
	struct cbx_buf parts[PARTS] = { { .data = (char[]){ "session" }, .len = strlen("session") } };
	char hex[HEX + 1];

	sign(w, parts, hex);
	if (!hex[0])
		cbx_random_name(hex, 12);
	snprintf(w->name, sizeof(w->name), "jupyter-%.12s", hex);
}

static bool same(const struct cbx_buf *frame, const char *hex)
{
	unsigned char differ = 0;

	if (frame->len != strlen(hex))
		return false;
	for (size_t i = 0; i < frame->len; i++)
		differ |= (unsigned char)(frame->data[i] ^ hex[i]);
	return !differ;
}

/* ---- sockets ---- */

static void *bind_one(struct cbx_wire *w, int type, const cJSON *c, const char *port, struct cbx_err *err)
{
	const char *transport = cbx_json_text(c, "transport"), *ip = cbx_json_text(c, "ip");
	bool ipc = transport && strcmp(transport, "ipc") == 0;
	_cleanup_free_ char *address = cbx_xasprintf("%s://%s%c%u", ipc ? "ipc" : "tcp", ip ? ip : "127.0.0.1",
						     ipc ? '-' : ':', (unsigned)cbx_json_number(c, port, 0));
	int none = 0;
	int64_t most = (int64_t)CBX_NOTEBOOK_MAX;
	void *s = zmq_socket(w->zmq, type);

	if (s) {
		zmq_setsockopt(s, ZMQ_LINGER, &(int){ 1000 }, sizeof(int));
		zmq_setsockopt(s, ZMQ_MAXMSGSIZE, &most, sizeof(most));
		if (type == ZMQ_PUB)
			zmq_setsockopt(s, ZMQ_SNDHWM, &none, sizeof(none));
		if (zmq_bind(s, address) == 0)
			return s;
		cbx_refuse(err, "kernel_failed", errno, "%s: %s: %s", port, address, zmq_strerror(errno));
		zmq_close(s);
		return NULL;
	}
	cbx_refuse(err, "kernel_failed", errno, "%s: %s", port, zmq_strerror(errno));
	return NULL;
}

static int read_file(const char *file, struct cbx_json_doc *doc, struct cbx_err *err)
{
	_cleanup_fd_ int fd = open(file, O_RDONLY | O_CLOEXEC);
	_cleanup_buf_ struct cbx_buf text = { 0 };
	int r = fd < 0 ? -errno : cbx_read_whole(fd, FILE_MAX, &text);

	return r < 0 ? cbx_fail(err, -r, "read %s", file) : cbx_json_parse(cbx_buf_str(&text), text.len, doc, err);
}

int cbx_wire_open(const char *file, struct cbx_wire *w, struct cbx_err *err)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	const char *key, *scheme;

	if (read_file(file, &doc, err) < 0)
		return -err->code;
	key = cbx_json_text(doc.root, "key");
	scheme = cbx_json_text(doc.root, "signature_scheme");
	if (key && key[0] && scheme && strcmp(scheme, "hmac-sha256") != 0)
		return cbx_refuse(err, "kernel_failed", EINVAL,
				  "signature_scheme: \"%.40s\" is unknown; use hmac-sha256", scheme);
	if (key)
		cbx_buf_adds(&w->key, key);
	cbx_random_name(w->session, sizeof(w->session) - 1);
	make_name(w);
	w->zmq = zmq_ctx_new();
	if (!w->zmq || !(w->heartbeat = bind_one(w, ZMQ_REP, doc.root, "hb_port", err)) ||
	    !(w->iopub = bind_one(w, ZMQ_PUB, doc.root, "iopub_port", err)) ||
	    !(w->input = bind_one(w, ZMQ_ROUTER, doc.root, "stdin_port", err)) ||
	    !(w->control = bind_one(w, ZMQ_ROUTER, doc.root, "control_port", err)) ||
	    !(w->shell = bind_one(w, ZMQ_ROUTER, doc.root, "shell_port", err)))
		return w->zmq ? -err->code : cbx_fail(err, errno, "make a ZeroMQ context");
	return 0;
}

void cbx_wire_close(struct cbx_wire *w)
{
	void *const all[] = { w->shell, w->control, w->input, w->iopub, w->heartbeat };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i])
			zmq_close(all[i]);
	if (w->zmq)
		zmq_ctx_term(w->zmq);
	cbx_buf_release(&w->key);
}

/* ---- receiving ---- */

/* All frames of a message, as many as there is room for; how many there were. */
static size_t receive_frames(void *socket, struct cbx_buf frames[FRAMES_MAX])
{
	size_t n = 0;
	int more = 1;

	while (more) {
		size_t size = sizeof(more);
		zmq_msg_t m;

		zmq_msg_init(&m);
		if (zmq_msg_recv(&m, socket, ZMQ_DONTWAIT) < 0) {
			zmq_msg_close(&m);
			return n;
		}
		if (n < FRAMES_MAX)
			cbx_buf_add(&frames[n], zmq_msg_data(&m), zmq_msg_size(&m));
		n++;
		zmq_msg_close(&m);
		if (zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size) < 0)
			return n;
	}
	return n;
}

static bool understand(const struct cbx_wire *w, struct cbx_buf frames[FRAMES_MAX], size_t n,
		       struct cbx_wire_request *q)
{
	struct cbx_err err;
	char hex[HEX + 1];
	size_t at = 0;

	while (at < n && at <= CBX_KERNEL_IDS_MAX &&
	       !(frames[at].len == strlen(DELIMITER) && memcmp(frames[at].data, DELIMITER, frames[at].len) == 0))
		at++;
	if (at > CBX_KERNEL_IDS_MAX || at + 2 + PARTS > n)
		return false;
	sign(w, &frames[at + 2], hex);
	if (!same(&frames[at + 1], hex))
		return false;
	if (cbx_json_parse(cbx_buf_str(&frames[at + 2]), frames[at + 2].len, &q->header_doc, &err) < 0 ||
	    cbx_json_parse(cbx_buf_str(&frames[at + 5]), frames[at + 5].len, &q->content_doc, &err) < 0)
		return false;
	q->type = cbx_json_text(q->header_doc.root, "msg_type");
	q->content = q->content_doc.root;
	for (; q->nids < at; q->nids++)
		cbx_buf_add(&q->ids[q->nids], cbx_buf_str(&frames[q->nids]), frames[q->nids].len);
	cbx_buf_add(&q->header, frames[at + 2].data, frames[at + 2].len);
	return q->type && cJSON_IsObject(q->content);
}

int cbx_wire_receive(struct cbx_wire *w, void *socket, struct cbx_wire_request *ret)
{
	struct cbx_buf frames[FRAMES_MAX] = { 0 };
	size_t n = receive_frames(socket, frames);
	bool ok;

	memset(ret, 0, sizeof(*ret));
	ret->socket = socket;
	ok = n && n <= FRAMES_MAX && understand(w, frames, n, ret);
	for (size_t i = 0; i < FRAMES_MAX; i++)
		cbx_buf_release(&frames[i]);
	if (!ok)
		cbx_wire_release(ret);
	return ok;
}

void cbx_wire_release(struct cbx_wire_request *q)
{
	for (size_t i = 0; i < CBX_KERNEL_IDS_MAX; i++)
		cbx_buf_release(&q->ids[i]);
	cbx_buf_release(&q->header);
	cbx_json_doc_release(&q->header_doc);
	cbx_json_doc_release(&q->content_doc);
	memset(q, 0, sizeof(*q));
}

/* ---- sending ---- */

static void add_header(struct cbx_wire *w, struct cbx_buf *out, const char *type)
{
	_cleanup_json_ cJSON *o = cbx_json_new_obj();
	_cleanup_free_ char *id = cbx_xasprintf("%s_%llu", w->session, (unsigned long long)++w->serial);
	char date[32], whole[48];
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	cbx_format_time(now.tv_sec, date);
	snprintf(whole, sizeof(whole), "%.19s.%06ldZ", date, now.tv_nsec / 1000);
	cbx_json_set_str(o, "msg_id", id);
	cbx_json_set_str(o, "session", w->session);
	cbx_json_set_str(o, "username", "codebox");
	cbx_json_set_str(o, "date", whole);
	cbx_json_set_str(o, "msg_type", type);
	cbx_json_set_str(o, "version", "5.3");
	cbx_json_print(out, o);
}

static void send_one(struct cbx_wire *w, void *socket, const struct cbx_buf *ids, size_t nids,
		     const struct cbx_wire_request *q, const char *type, cJSON *content)
{
	struct cbx_buf parts[PARTS] = { 0 };
	char hex[HEX + 1];

	add_header(w, &parts[0], type);
	cbx_buf_add(&parts[1], cbx_buf_str(&q->header), q->header.len);
	cbx_buf_adds(&parts[2], "{}");
	cbx_json_print(&parts[3], content);
	cJSON_Delete(content);
	sign(w, parts, hex);
	for (size_t i = 0; i < nids; i++)
		zmq_send(socket, cbx_buf_str(&ids[i]), ids[i].len, ZMQ_SNDMORE);
	zmq_send(socket, DELIMITER, strlen(DELIMITER), ZMQ_SNDMORE);
	zmq_send(socket, hex, strlen(hex), ZMQ_SNDMORE);
	for (size_t i = 0; i < PARTS; i++) {
		zmq_send(socket, cbx_buf_str(&parts[i]), parts[i].len, i + 1 < PARTS ? ZMQ_SNDMORE : 0);
		cbx_buf_release(&parts[i]);
	}
}

void cbx_wire_reply(struct cbx_wire *w, const struct cbx_wire_request *q, const char *type, cJSON *content)
{
	send_one(w, q->socket, q->ids, q->nids, q, type, content);
}

void cbx_wire_ask(struct cbx_wire *w, const struct cbx_wire_request *q, const char *type, cJSON *content)
{
	send_one(w, w->input, q->ids, q->nids, q, type, content);
}

void cbx_wire_publish(struct cbx_wire *w, const struct cbx_wire_request *q, const char *type, cJSON *content)
{
	struct cbx_buf topic = { 0 };

	cbx_buf_adds(&topic, type);
	send_one(w, w->iopub, &topic, 1, q, type, content);
	cbx_buf_release(&topic);
}

void cbx_wire_echo(struct cbx_wire *w)
{
	zmq_msg_t m;

	zmq_msg_init(&m);
	if (zmq_msg_recv(&m, w->heartbeat, ZMQ_DONTWAIT) < 0 || zmq_msg_send(&m, w->heartbeat, ZMQ_DONTWAIT) < 0)
		zmq_msg_close(&m);
}
