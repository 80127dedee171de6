/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: one request, events until its answer, and SIGINT through a signalfd, so that a Ctrl-C is one
 * more thing to wait for and never falls between looking and sleeping. The daemon ends what a client was running when
 * the connection closes, so giving up needs no message.
 *
 * Output comes as bytes, and nothing more is received before they are written: so a slow reader slows codeboxd, and
 * that the program. Standard input goes the other way a piece at a time, each when the one before it has been taken.
 * One poll() waits for all of these, and no write waits for a pipe's reader, so that Ctrl-C is heard at any time.
 */
#include "cli/cell.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/says.h"
#include "cli/cli.h"
#include "client/protocol.h"

#define RAW_MAX	      KIB(256)
#define TYPED_MAX     KIB(64) /* what a pipe holds */
#define LOOK_AGAIN_MS 1000    /* whether we are in the foreground by now: no event reports it */

int cbx_cell_signals(struct cbx_err *err)
{
	struct sigaction old;
	sigset_t set;
	int fd;

	sigemptyset(&set);
	/* A shell starts its background jobs with SIGINT ignored, and they are to stay so. */
	if (sigaction(SIGINT, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
		sigaddset(&set, SIGINT);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return cbx_fail(err, errno, "block SIGINT");
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? cbx_fail(err, errno, "make a signalfd") : fd;
}

static int on_interrupt(struct cbx_cell *cell, struct cbx_err *err)
{
	struct signalfd_siginfo info;
	cJSON *params;

	if (read(cell->sigfd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return 0;
	if (++cell->interrupts > cell->patience || !cell->session[0])
		return cbx_refuse(err, "interrupted", EINTR, "interrupted");
	cbx_buf_drop(&cell->unread, cell->unread.len); /* a terminal drops what was typed ahead, too */
	params = cbx_json_new_obj();
	cbx_json_set_str(params, "session_id", cell->session);
	if (cell->execution)
		cbx_json_set_u64(params, "execution_id", cell->execution);
	return cbx_client_send(cell->client, "interrupt", params, NULL, err);
}

static void on_display(struct cbx_cell *cell, const cJSON *msg, cJSON *displays)
{
	const cJSON *data = cbx_json_member(msg, "data");
	const cJSON *metadata = cbx_json_member(msg, "metadata");
	bool is_result = cJSON_IsTrue(cbx_json_member(msg, "is_result"));
	struct cbx_err err;

	if (cell->collect) {
		cJSON *one;

		if (cJSON_GetArraySize(displays) >= CBX_DISPLAYS_MAX)
			return;
		one = cbx_json_new_obj();
		cbx_json_set(one, "data", data ? cJSON_Duplicate(data, 1) : cbx_json_new_obj());
		cbx_json_set(one, "metadata", metadata ? cJSON_Duplicate(metadata, 1) : cbx_json_new_obj());
		cbx_json_set_bool(one, "is_result", is_result);
		cbx_json_push(displays, one);
	} else if (cbx_figures_show(cell->figures, data, is_result, cell->out, cell->notes, &err) < 0) {
		cbx_cli_say("%s", err.msg);
	}
}

/* What was written to a terminal is taken back; what went elsewhere stays there. */
static void on_clear(struct cbx_cell *cell, cJSON *displays)
{
	while (displays->child)
		cJSON_DeleteItemFromArray(displays, 0);
	if (!cell->collect)
		cbx_term_erase(cell->out);
}

static void on_event(struct cbx_cell *cell, const cJSON *msg, uint64_t id, cJSON *displays)
{
	const char *event = cbx_json_str(msg, "event");

	if (cbx_json_number(msg, "request", 0) != (double)id)
		return;
	if (strcmp(event, "cell") == 0) {
		cell->execution = (uint64_t)cbx_json_number(msg, "execution_id", 0);
		cell->on_found(cell->arg, msg);
	} else if (strcmp(event, "start") == 0) {
		const char *session = cbx_json_str(msg, "session_id");

		if (cbx_name_valid(session))
			memcpy(cell->session, session, strlen(session) + 1);
		cell->execution = (uint64_t)cbx_json_number(msg, "execution_id", 0);
	} else if (cell->on_event) {
		cell->on_event(cell->arg, msg);
	} else if (strcmp(event, "output") == 0 && !cell->collect) {
		double bytes = cbx_json_number(msg, "bytes", 0);

		cell->raw_to = strcmp(cbx_json_str(msg, "stream"), "stderr") == 0 ? cell->errs : cell->out;
		cell->raw_left = bytes > 0 && bytes < (double)CBX_CLIENT_QUEUE_MAX ? (size_t)bytes : 0;
	} else if (strcmp(event, "display") == 0) {
		on_display(cell, msg, displays);
	} else if (strcmp(event, "clear") == 0) {
		on_clear(cell, displays);
	}
}

/* ---- what comes and goes ---- */

/* A program in the background that reads from its terminal is stopped; what is typed there is for another. */
static bool may_read(int fd)
{
	return !isatty(fd) || tcgetpgrp(fd) == getpgrp();
}

/* A person may type ahead: for the cell, if it reads, and else for whoever reads next. */
static void remember_typed(struct cbx_cell *cell, const char *data, size_t n)
{
	cbx_buf_add(&cell->unread, data, n);
	if (cell->unread.len > TYPED_MAX)
		cbx_buf_drop(&cell->unread, cell->unread.len - TYPED_MAX);
	cell->piece = n;
	if (data[n - 1] == '\n')
		cell->out->last = '\n'; /* the terminal has shown it */
	if (cell->out->rows)
		cbx_rows_write(cell->out->rows, data, n);
}

static void drop_read(struct cbx_cell *cell, const cJSON *result)
{
	double unread = cbx_json_number(result, "input_unread", 0) + (double)cell->piece;

	if (unread < (double)cell->unread.len)
		cbx_buf_drop(&cell->unread, cell->unread.len - (unread > 0 ? (size_t)unread : 0));
}

/* What was typed while the terminal was asked something (images.h). */
static struct cbx_buf *ahead(const struct cbx_cell *cell)
{
	return cell->figures && isatty(cell->input) ? &cell->figures->images.typed : NULL;
}

static ssize_t read_typed(struct cbx_cell *cell, char *data, size_t size)
{
	struct cbx_buf *b = ahead(cell);
	size_t n;

	if (!b || !b->len)
		return read(cell->input, data, size);
	n = b->len < size ? b->len : size;
	memcpy(data, b->data, n);
	cbx_buf_drop(b, n);
	return (ssize_t)n;
}

static int read_input(struct cbx_cell *cell, struct cbx_err *err)
{
	char data[CBX_CONTROL_INPUT];
	_cleanup_buf_ struct cbx_buf text = { 0 };
	ssize_t n = read_typed(cell, data, sizeof(data));
	cJSON *params;

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n < 0)
		cbx_cli_say("standard input: %s", strerror(errno)); /* and then it is at its end */
	if (n <= 0)
		cell->input = -1;
	else if (cell->typed)
		remember_typed(cell, data, (size_t)n);
	cbx_base64_encode(&text, data, n > 0 ? (size_t)n : 0);
	params = cbx_json_new_obj();
	cbx_json_set_u64(params, "request", cell->request);
	cbx_json_set_str(params, "data", cbx_buf_str(&text));
	return cbx_client_send(cell->client, "input", params, &cell->input_request, err);
}

/* Whether it was the answer to a piece of input. One that is no longer taken is not a failure: the program has ended.
 */
static bool input_answered(struct cbx_cell *cell, cJSON *msg)
{
	_cleanup_json_ cJSON *result = NULL;
	struct cbx_err err;
	int r = cell->input_request ? cbx_client_answer(msg, cell->input_request, &result, &err) : 0;

	if (r == 0)
		return false;
	cell->input_request = 0;
	if (r > 0)
		cell->piece = 0;
	if (r < 0) {
		cell->input = -1;
		if (strcmp(err.kind, "no_input") != 0)
			cbx_cli_say("standard input: %s", err.msg);
	}
	return true;
}

/* Of the output that is there, what can be written without waiting. */
static int write_raw(struct cbx_cell *cell, struct cbx_err *err)
{
	struct cbx_term *t = cell->raw_to;

	cell->raw_at += cbx_term_some(t, cell->raw.data + cell->raw_at, cell->raw.len - cell->raw_at);
	if (!t->failed)
		return 0;
	return cbx_refuse(err, "output_failed", t->error, "the output cannot be written: %s", strerror(t->error));
}

static int read_raw(struct cbx_cell *cell, struct cbx_err *err)
{
	size_t max = cell->raw_left < RAW_MAX ? cell->raw_left : RAW_MAX;

	cell->raw.len = cell->raw_at = 0;
	do {
		ssize_t n = cbx_client_bytes(cell->client, cbx_buf_reserve(&cell->raw, max), max, err);

		if (n < 0)
			return (int)n;
		if (n == 0)
			return cbx_refuse(err, "daemon_gone", ECONNRESET,
					  "codeboxd ended while the code ran; its log says why");
		cell->raw.len += (size_t)n;
		cell->raw_left -= (size_t)n;
		max -= (size_t)n;
	} while (max &&
		 cell->raw_to->filter); /* a message holds whole characters, and a terminal is to get whole ones */
	return 0;
}

enum { WAKE_SIGNAL, WAKE_CLIENT, WAKE_OUTPUT, WAKE_INPUT, WAKES };

/* Wait for whatever comes first, and carry out all but messages. 1: there is a message to receive. */
static int step(struct cbx_cell *cell, struct cbx_err *err)
{
	bool full = cell->raw_at < cell->raw.len, there = cell->raw_left ? cell->client->in.len : 0;
	bool wants = cell->input >= 0 && !cell->input_request && cell->execution, may = wants && may_read(cell->input);
	struct pollfd p[WAKES] = { { .fd = cell->sigfd, .events = POLLIN },
				   { .fd = full ? -1 : cell->client->fd, .events = POLLIN },
				   { .fd = full ? cell->raw_to->fd : -1, .events = POLLOUT },
				   { .fd = may ? cell->input : -1, .events = POLLIN } };
	bool typed = may && ahead(cell) && ahead(cell)->len;
	int r = 0;

	there = there || (!cell->raw_left && cbx_client_pending(cell->client));
	if (poll(p, WAKES, (!full && there) || typed ? 0 : wants && !may ? LOOK_AGAIN_MS : -1) < 0)
		return errno == EINTR ? 0 : cbx_fail(err, errno, "wait for codeboxd");
	if (p[WAKE_SIGNAL].revents)
		r = on_interrupt(cell, err);
	if (r >= 0 && (typed || p[WAKE_INPUT].revents))
		r = read_input(cell, err);
	if (r >= 0 && full && p[WAKE_OUTPUT].revents)
		r = write_raw(cell, err);
	if (r < 0 || full || !(there || p[WAKE_CLIENT].revents))
		return r < 0 ? r : 0;
	return cell->raw_left ? read_raw(cell, err) : 1;
}

/* 1: it has ended, with *ret. */
static int receive(struct cbx_cell *cell, cJSON *displays, cJSON **ret, struct cbx_err *err)
{
	_cleanup_json_ cJSON *msg = NULL;
	int r = cbx_client_recv(cell->client, &msg, err);

	if (r == 0)
		return cbx_refuse(err, "daemon_gone", ECONNRESET,
				  "codeboxd ended while the code ran; its log says why");
	if (r < 0 || input_answered(cell, msg))
		return r < 0 ? r : 0;
	r = cbx_client_answer(msg, cell->request, ret, err);
	if (r == 0)
		on_event(cell, msg, cell->request, displays);
	return r;
}

static int perform(struct cbx_cell *cell, const char *method, cJSON *params, cJSON **ret, struct cbx_err *err)
{
	_cleanup_json_ cJSON *displays = cbx_json_new_arr(), *result = NULL;
	int r;

	cell->execution = cell->input_request = 0;
	cell->interrupts = 0;
	if (cell->out && cell->out->rows)
		cbx_rows_begin(cell->out->rows);
	cell->raw_left = cell->raw_at = cell->raw.len = 0;
	cell->unread.len = cell->piece = 0;
	if (!cell->collect && !cell->on_event)
		cbx_json_set_bool(params, "raw", true);
	if (cell->input >= 0)
		cbx_json_set_bool(params, "input", true);
	r = cbx_client_send(cell->client, method, params, &cell->request, err);
	while (r >= 0) {
		r = step(cell, err);
		if (r > 0)
			r = receive(cell, displays, &result, err);
		if (r > 0)
			break;
	}
	if (r < 0)
		return r;
	drop_read(cell, result);
	if (cell->collect) {
		cJSON_DeleteItemFromObjectCaseSensitive(result, "displays");
		cbx_json_set(result, "displays", take_ptr(&displays));
	}
	*ret = take_ptr(&result);
	return 0;
}

int cbx_cell_run(struct cbx_cell *cell, const char *code, cJSON *params, cJSON **ret, struct cbx_err *err)
{
	cbx_json_set_str(params, "code", code);
	return perform(cell, "run", params, ret, err);
}

int cbx_cell_follow(struct cbx_cell *cell, const char *session, uint64_t execution, cJSON **ret, struct cbx_err *err)
{
	cJSON *params = cbx_json_new_obj();

	cbx_json_set_str(params, "session_id", session);
	cbx_json_set_u64(params, "execution_id", execution);
	return perform(cell, "watch", params, ret, err);
}

void cbx_cell_release(struct cbx_cell *cell)
{
	cbx_buf_release(&cell->raw);
	cbx_buf_release(&cell->unread);
	cbx_close_p(&cell->sigfd);
}

static bool asked_to_exit(const cJSON *execution)
{
	const cJSON *code = cbx_json_member(execution, "exit_code");

	/* Of a program that was killed it is what a shell says: above 128 it is a signal, which is to be explained. */
	return cJSON_IsNumber(code) &&
	       (strcmp(cbx_json_str(execution, "status"), "killed") != 0 || code->valueint < 128);
}

/* Bytes of the message that are to be seen. Where the exit status says the rest, what is noted before it. */
static size_t to_be_said(const struct cbx_cell *cell, const cJSON *execution, const char *message)
{
	const char *at;

	if (!cell->silent_exit || !asked_to_exit(execution))
		return strlen(message);
	at = strstr(message, CBX_SAYS_ENDED);
	at = at ? at : strstr(message, CBX_SAYS_ASKED);
	while (at && at > message && at[-1] == ' ')
		at--;
	return at ? (size_t)(at - message) : 0;
}

void cbx_cell_explain(struct cbx_cell *cell, const cJSON *execution)
{
	const cJSON *error = cbx_json_member(execution, "error");
	const char *message = cbx_json_str(execution, "message"), *traceback = cbx_json_str(error, "traceback");
	size_t says = to_be_said(cell, execution, message);

	cbx_term_flush(cell->out);
	if (says || cJSON_IsObject(error))
		cbx_term_fresh_line(cell->errs);
	if (cJSON_IsObject(error)) {
		if (traceback[0]) {
			cbx_term_puts(cell->errs, traceback);
		} else {
			cbx_term_puts(cell->errs, cbx_json_str(error, "name"));
			cbx_term_puts(cell->errs, ": ");
			cbx_term_puts(cell->errs, cbx_json_str(error, "value"));
		}
		cbx_term_fresh_line(cell->errs);
	}
	if (says)
		cbx_cli_say("%.*s", (int)says, message);
}

int cbx_cell_exit_status(const cJSON *execution)
{
	const char *status = cbx_json_str(execution, "status");
	const cJSON *code = cbx_json_member(execution, "exit_code");
	const char *error = cbx_json_str(cbx_json_member(execution, "error"), "name");

	if (strcmp(status, "timeout") == 0)
		return CBX_EXIT_TIMEOUT;
	if (strcmp(status, "killed") == 0 && cJSON_IsNumber(code))
		return code->valueint & 255;
	if (strcmp(status, "killed") == 0)
		return CBX_EXIT_KILLED;
	if (strcmp(status, "cancelled") == 0 || strcmp(error, "KeyboardInterrupt") == 0)
		return CBX_EXIT_INTERRUPTED;
	if (cJSON_IsNumber(code)) /* as valueint it is within an int's range, whatever the sandbox said */
		return code->valueint & 255;
	return strcmp(status, "ok") == 0 ? CBX_EXIT_OK : CBX_EXIT_FAILURE;
}
