/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: one request, events until its answer, and SIGINT through a signalfd, so that a Ctrl-C is one
 * more thing to wait for and never falls between looking and sleeping. The daemon ends what a client was running when
 * the connection closes, so giving up needs no message.
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
#include "cli/cli.h"

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
	params = cbx_json_new_obj();
	cbx_json_set_str(params, "session_id", cell->session);
	if (cell->execution)
		cbx_json_set_u64(params, "execution_id", cell->execution);
	return cbx_client_send(cell->client, "interrupt", params, NULL, err);
}

static void on_display(struct cbx_cell *cell, const cJSON *msg, cJSON *displays)
{
	const cJSON *data = cJSON_GetObjectItemCaseSensitive(msg, "data");
	const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(msg, "metadata");
	bool is_result = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(msg, "is_result"));
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

static void on_event(struct cbx_cell *cell, const cJSON *msg, uint64_t id, cJSON *displays)
{
	const char *event = cbx_cli_str(msg, "event");

	if (cbx_cli_num(msg, "request", 0) != (double)id)
		return;
	if (strcmp(event, "start") == 0) {
		const char *session = cbx_cli_str(msg, "session_id");

		if (cbx_name_valid(session))
			memcpy(cell->session, session, strlen(session) + 1);
		cell->execution = (uint64_t)cbx_cli_num(msg, "execution_id", 0);
	} else if (strcmp(event, "output") == 0 && !cell->collect) {
		bool to_err = strcmp(cbx_cli_str(msg, "stream"), "stderr") == 0;

		cbx_term_puts(to_err ? cell->errs : cell->out, cbx_cli_str(msg, "text"));
	} else if (strcmp(event, "display") == 0) {
		on_display(cell, msg, displays);
	}
}

/* Wait for a message or a Ctrl-C. 1: there is a message to receive. */
static int wait_message(struct cbx_cell *cell, struct cbx_err *err)
{
	struct pollfd p[2] = { { .fd = cell->client->fd, .events = POLLIN }, { .fd = cell->sigfd, .events = POLLIN } };

	if (cbx_client_pending(cell->client))
		return 1;
	if (poll(p, 2, -1) < 0)
		return errno == EINTR ? 0 : cbx_fail(err, errno, "wait for codeboxd");
	if (p[1].revents) {
		int r = on_interrupt(cell, err);

		if (r < 0)
			return r;
	}
	return p[0].revents != 0;
}

int cbx_cell_run(struct cbx_cell *cell, const char *code, cJSON *params, cJSON **ret, struct cbx_err *err)
{
	_cleanup_json_ cJSON *displays = cbx_json_new_arr();
	uint64_t id;
	int r;

	cell->execution = 0;
	cell->interrupts = 0;
	cbx_json_set_str(params, "code", code);
	r = cbx_client_send(cell->client, "run", params, &id, err);
	while (r >= 0) {
		_cleanup_json_ cJSON *msg = NULL, *result = NULL;

		r = wait_message(cell, err);
		if (r <= 0)
			continue;
		r = cbx_client_recv(cell->client, &msg, err);
		if (r == 0)
			return cbx_refuse(err, "daemon_gone", ECONNRESET,
					  "codeboxd ended while the code ran; its log says why");
		if (r < 0)
			break;
		r = cbx_client_answer(msg, id, &result, err);
		if (r == 1) {
			if (cell->collect) {
				cJSON_DeleteItemFromObjectCaseSensitive(result, "displays");
				cbx_json_set(result, "displays", take_ptr(&displays));
			}
			*ret = take_ptr(&result);
			return 0;
		}
		if (r == 0)
			on_event(cell, msg, id, displays);
	}
	return r;
}

static bool asked_to_exit(const cJSON *execution)
{
	return cJSON_GetObjectItemCaseSensitive(execution, "exit_code") &&
	       strcmp(cbx_cli_str(execution, "status"), "killed") != 0;
}

void cbx_cell_explain(struct cbx_cell *cell, const cJSON *execution)
{
	const cJSON *error = cJSON_GetObjectItemCaseSensitive(execution, "error");
	const char *message = cbx_cli_str(execution, "message"), *traceback = cbx_cli_str(error, "traceback");

	cbx_term_flush(cell->out);
	cbx_term_fresh_line(cell->errs);
	if (cJSON_IsObject(error)) {
		if (traceback[0]) {
			cbx_term_puts(cell->errs, traceback);
		} else {
			cbx_term_puts(cell->errs, cbx_cli_str(error, "name"));
			cbx_term_puts(cell->errs, ": ");
			cbx_term_puts(cell->errs, cbx_cli_str(error, "value"));
		}
		cbx_term_fresh_line(cell->errs);
	}
	if (message[0] && !(cell->silent_exit && asked_to_exit(execution)))
		cbx_cli_say("%s", message);
}

int cbx_cell_exit_status(const cJSON *execution)
{
	const char *status = cbx_cli_str(execution, "status");
	const cJSON *code = cJSON_GetObjectItemCaseSensitive(execution, "exit_code");

	if (strcmp(status, "timeout") == 0)
		return CBX_EXIT_TIMEOUT;
	if (strcmp(status, "killed") == 0)
		return CBX_EXIT_KILLED;
	if (strcmp(status, "cancelled") == 0)
		return CBX_EXIT_INTERRUPTED;
	if (cJSON_IsNumber(code)) /* as valueint it is within an int's range, whatever the sandbox said */
		return code->valueint & 255;
	return strcmp(status, "ok") == 0 ? CBX_EXIT_OK : CBX_EXIT_FAILURE;
}
