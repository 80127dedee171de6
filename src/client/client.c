/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: one line out, one line in. The first exchange is a "hello": a daemon that was just about to end
 * when the connection was made closes it without an answer, and then a new connection (which starts a new daemon) puts
 * that right. A daemon that was started by this very call and says nothing is broken, and its log says why. One that
 * neither answers nor closes is stopped or stuck: only that first answer has a time limit, since a cell may take any.
 */
#include "client/client.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "client/protocol.h"
#include "client/reach.h"

#define OPEN_ATTEMPTS	3
#define HELLO_TIMEOUT_S 30 /* a daemon that was just started on a busy machine may need some of it */
#define READ_SIZE	KIB(64)

static int lost(struct cbx_err *err, int code)
{
	if (code == EPIPE || code == ECONNRESET || code == 0)
		return cbx_refuse(err, "daemon_gone", ECONNRESET, "codeboxd has closed the connection");
	return cbx_fail(err, code, "talk to codeboxd");
}

void cbx_client_close(struct cbx_client *c)
{
	cbx_close_p(&c->fd);
	cbx_buf_release(&c->in);
}

static int open_once(const struct cbx_dirs *dirs, bool may_start, struct cbx_client *c, struct cbx_reach *reach,
		     struct cbx_err *err)
{
	struct timeval limit = { .tv_sec = HELLO_TIMEOUT_S }, none = { 0 };
	_cleanup_json_ cJSON *hello = NULL;
	int r;

	memset(c, 0, sizeof(*c));
	c->fd = cbx_daemon_reach(dirs, CBX_CONTROL_SOCKET, may_start, reach, err);
	if (c->fd < 0)
		return c->fd;
	(void)setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	r = cbx_client_call(c, "hello", NULL, &hello, err);
	(void)setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
	if (r == -EAGAIN)
		r = cbx_refuse(err, "daemon_stuck", ETIMEDOUT,
			       "codeboxd has not answered on %s/" CBX_CONTROL_SOCKET
			       " for %d s; continue that process (SIGCONT) or end it (SIGKILL), and try again",
			       dirs->runtime, HELLO_TIMEOUT_S);
	if (r < 0)
		cbx_client_close(c);
	return r;
}

int cbx_client_open(const struct cbx_dirs *dirs, bool may_start, void (*warn)(const char *msg), struct cbx_client *c,
		    struct cbx_err *err)
{
	struct cbx_reach reach = { .warn = warn };
	int r = -ECONNRESET;

	for (int i = 0; i < OPEN_ATTEMPTS; i++) {
		r = open_once(dirs, may_start, c, &reach, err);
		if (r >= 0 || strcmp(err->kind, "daemon_gone") != 0)
			return r;
		if (reach.started)
			break;
	}
	return cbx_daemon_gone(dirs, &reach, err);
}

int cbx_client_send(struct cbx_client *c, const char *method, cJSON *params, uint64_t *ret_id, struct cbx_err *err)
{
	_cleanup_json_ cJSON *request = cbx_json_new_obj();
	_cleanup_buf_ struct cbx_buf line = { 0 };
	uint64_t id = ++c->next_id;
	size_t at = 0;

	cbx_json_set_u64(request, "id", id);
	cbx_json_set_str(request, "method", method);
	cbx_json_set(request, "params", params ? params : cbx_json_new_obj());
	cbx_json_print(&line, request);
	cbx_buf_addc(&line, '\n');
	while (at < line.len) {
		ssize_t n = send(c->fd, line.data + at, line.len - at, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return lost(err, errno);
		at += (size_t)n;
	}
	if (ret_id)
		*ret_id = id;
	return 0;
}

bool cbx_client_pending(const struct cbx_client *c)
{
	return c->in.len && memchr(c->in.data, '\n', c->in.len);
}

static int parse_line(struct cbx_client *c, size_t len, cJSON **ret, struct cbx_err *err)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	int r = cbx_json_parse(c->in.data, len, &doc, err);

	cbx_buf_drop(&c->in, len + 1);
	if (r < 0)
		return cbx_wrap(err, "codeboxd sent an answer that cannot be read");
	if (!cJSON_IsObject(doc.root))
		return cbx_refuse(err, "invalid_json", EBADMSG, "codeboxd sent an answer that is not an object");
	*ret = take_ptr(&doc.root);
	return 1;
}

int cbx_client_recv(struct cbx_client *c, cJSON **ret, struct cbx_err *err)
{
	size_t seen = 0; /* bytes known to hold no newline */

	for (;;) {
		const char *end = c->in.len > seen ? memchr(c->in.data + seen, '\n', c->in.len - seen) : NULL;
		ssize_t n;

		if (end)
			return parse_line(c, (size_t)(end - c->in.data), ret, err);
		seen = c->in.len;
		if (seen > CBX_CLIENT_QUEUE_MAX)
			return cbx_refuse(err, "invalid_json", EMSGSIZE, "codeboxd sent a line without an end");
		do {
			n = recv(c->fd, cbx_buf_reserve(&c->in, READ_SIZE), READ_SIZE, 0);
		} while (n < 0 && errno == EINTR);
		if (n < 0 && errno != ECONNRESET)
			return lost(err, errno);
		if (n <= 0)
			return 0;
		c->in.len += (size_t)n;
		c->in.data[c->in.len] = '\0';
	}
}

ssize_t cbx_client_bytes(struct cbx_client *c, char *p, size_t max, struct cbx_err *err)
{
	size_t there = c->in.len < max ? c->in.len : max;
	ssize_t n;

	if (there) {
		memcpy(p, c->in.data, there);
		cbx_buf_drop(&c->in, there);
		return (ssize_t)there;
	}
	do {
		n = recv(c->fd, p, max, 0);
	} while (n < 0 && errno == EINTR);
	return n < 0 && errno != ECONNRESET ? lost(err, errno) : n < 0 ? 0 : n;
}

int cbx_client_answer(cJSON *msg, uint64_t id, cJSON **ret, struct cbx_err *err)
{
	const cJSON *e = cbx_json_member(msg, "error");
	struct cbx_err ignored;
	uint64_t got = 0;

	if (cbx_json_get_u64(msg, "id", 1, (uint64_t)1 << 53, &got, &ignored) != 1 || got != id)
		return 0;
	if (cJSON_IsObject(e))
		return cbx_json_error(e, "internal", EIO, err);
	*ret = cJSON_DetachItemFromObjectCaseSensitive(msg, "result");
	if (!*ret)
		return cbx_refuse(err, "invalid_json", EBADMSG, "codeboxd answered without a result");
	return 1;
}

int cbx_client_call(struct cbx_client *c, const char *method, cJSON *params, cJSON **ret, struct cbx_err *err)
{
	uint64_t id;
	int r = cbx_client_send(c, method, params, &id, err);

	while (r >= 0) {
		_cleanup_json_ cJSON *msg = NULL, *result = NULL;

		r = cbx_client_recv(c, &msg, err);
		if (r == 0)
			return lost(err, 0);
		if (r < 0)
			break;
		r = cbx_client_answer(msg, id, &result, err);
		if (r == 1) {
			if (ret)
				*ret = take_ptr(&result);
			return 0;
		}
	}
	return r;
}
