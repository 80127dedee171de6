/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: one request, and until its answer one poll() for all that can happen: signals, which come
 * through a signalfd; output, of which nothing more is received before it is written; and input, of which a piece is
 * sent when the one before it has been taken.
 *
 * With a terminal, ours is raw: Ctrl-C is a byte like any other, and means what the terminal inside makes of it. So our
 * own signals are those of others (kill, a closed window), and each way out of here goes by the restoring of the
 * terminal. Without one, signals are passed on to the command, and a second Ctrl-C leaves.
 *
 * The daemon hangs the command up when our connection ends without a word.
 */
#include "cli/attach.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/term.h"
#include "client/protocol.h"

#define RAW_MAX KIB(256)

struct attached {
	struct cbx_attach *a;
	struct cbx_term out, errs;
	struct termios before; /* of our terminal, while it is raw */
	bool raw;
	int sigfd;
	uint64_t request, input_request; /* 0: no piece of input is on its way */
	char session[CBX_NAME_MAX + 1];
	uint64_t id; /* 0: it has not begun */
	int input;   /* -1: no more of it */
	bool at_end, detaching;
	struct cbx_buf typed; /* what was read and not sent */
	size_t matched;	      /* of the keys that detach */
	unsigned interrupts;
	struct cbx_term *to; /* of the bytes that come */
	size_t left;
	struct cbx_buf bytes; /* received; written up to `at` */
	size_t at;
};

/* ---- our terminal ---- */

static void make_raw(struct attached *t)
{
	struct termios raw;

	if (!t->a->terminal || t->raw || tcgetattr(STDIN_FILENO, &t->before) < 0)
		return;
	raw = t->before;
	cfmakeraw(&raw);
	t->raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

static void make_cooked(struct attached *t)
{
	if (t->raw)
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &t->before);
	t->raw = false;
}

void cbx_attach_size(cJSON *params)
{
	struct winsize w;

	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &w) < 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) < 0)
		return;
	cbx_json_set_u64(params, "rows", w.ws_row);
	cbx_json_set_u64(params, "columns", w.ws_col);
}

static cJSON *command_params(const struct attached *t)
{
	cJSON *params = cbx_json_new_obj();

	cbx_json_set_str(params, "session_id", t->session);
	cbx_json_set_u64(params, "execution_id", t->id);
	return params;
}

static int send_size(struct attached *t, struct cbx_err *err)
{
	cJSON *params;

	if (!t->a->terminal || !t->id)
		return 0;
	params = command_params(t);
	cbx_attach_size(params);
	if (!cbx_json_member(params, "rows"))
		cbx_json_set_u64(params, "rows", 0);
	if (!cbx_json_member(params, "columns"))
		cbx_json_set_u64(params, "columns", 0);
	return cbx_client_send(t->a->client, "command.resize", params, NULL, err);
}

/* ---- signals ---- */

static int open_signals(struct attached *t, struct cbx_err *err)
{
	static const int passed[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT }, drawn[] = { SIGWINCH, SIGTSTP, SIGCONT };
	struct sigaction old;
	sigset_t set;

	sigemptyset(&set);
	/* A shell starts its background jobs with some ignored, and they are to stay so. */
	for (size_t i = 0; i < ARRAY_SIZE(passed); i++)
		if (sigaction(passed[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaddset(&set, passed[i]);
	for (size_t i = 0; i < ARRAY_SIZE(drawn) && t->a->terminal; i++)
		sigaddset(&set, drawn[i]);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return cbx_fail(err, errno, "block signals");
	t->sigfd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return t->sigfd < 0 ? cbx_fail(err, errno, "make a signalfd") : 0;
}

static int pass_on(struct attached *t, int sig, struct cbx_err *err)
{
	cJSON *params;

	if (t->a->terminal || !t->id || (sig == SIGINT && t->interrupts++)) {
		t->a->signal = sig;
		return cbx_refuse(err, "interrupted", EINTR, "ended by signal %d", sig);
	}
	params = command_params(t);
	cbx_json_set_u64(params, "signal", (uint64_t)sig);
	return cbx_client_send(t->a->client, "command.kill", params, NULL, err);
}

static int on_signal(struct attached *t, struct cbx_err *err)
{
	struct signalfd_siginfo info;

	if (read(t->sigfd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return 0;
	switch (info.ssi_signo) {
	case SIGTSTP:
		make_cooked(t);
		raise(SIGSTOP);
		/* fall through */
	case SIGCONT:
		t->raw = false; /* whatever a shell has made of it meanwhile */
		make_raw(t);
		return send_size(t, err);
	case SIGWINCH:
		return send_size(t, err);
	default:
		return pass_on(t, (int)info.ssi_signo, err);
	}
}

/* ---- input ---- */

bool cbx_attach_keys(struct cbx_attach *a, const char *text)
{
	a->nkeys = 0;
	if (strcmp(text, "none") == 0)
		return true;
	for (;;) {
		bool ctrl = strncmp(text, "ctrl-", 5) == 0;

		text += ctrl ? 5 : 0;
		if ((unsigned char)*text <= ' ' || (unsigned char)*text >= 127 || a->nkeys == sizeof(a->keys) ||
		    (ctrl && !isalpha((unsigned char)*text) && !strchr("@[\\]^_", *text)))
			return false;
		a->keys[a->nkeys++] = ctrl ? (char)(toupper((unsigned char)*text) & 31) : *text;
		if (!text[1])
			return true;
		if (text[1] != ',')
			return false;
		text += 2;
	}
}

/* Of n bytes that were typed, those that are for the command; the beginning of the keys waits for the rest of them. */
static bool add_typed(struct attached *t, const char *p, size_t n)
{
	const struct cbx_attach *a = t->a;

	if (!a->terminal || !a->nkeys) {
		cbx_buf_add(&t->typed, p, n);
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		if (p[i] != a->keys[t->matched] && t->matched) {
			cbx_buf_add(&t->typed, a->keys, t->matched);
			t->matched = 0;
		}
		if (p[i] != a->keys[t->matched])
			cbx_buf_addc(&t->typed, p[i]);
		else if (++t->matched == a->nkeys)
			return true;
	}
	return false;
}

static int detach(struct attached *t, struct cbx_err *err)
{
	cJSON *params = cbx_json_new_obj();

	t->detaching = true;
	t->input = -1;
	t->typed.len = 0;
	cbx_json_set_u64(params, "request", t->request);
	return cbx_client_send(t->a->client, "command.detach", params, NULL, err);
}

static int send_typed(struct attached *t, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	cJSON *params;

	if (t->input_request || (!t->typed.len && !t->at_end))
		return 0;
	if (!t->typed.len)
		t->at_end = false; /* an empty piece says so */
	cbx_base64_encode(&text, cbx_buf_str(&t->typed), t->typed.len);
	t->typed.len = 0;
	params = cbx_json_new_obj();
	cbx_json_set_u64(params, "request", t->request);
	cbx_json_set_str(params, "data", cbx_buf_str(&text));
	return cbx_client_send(t->a->client, "input", params, &t->input_request, err);
}

static int read_input(struct attached *t, struct cbx_err *err)
{
	char data[CBX_CONTROL_INPUT - CBX_DETACH_KEYS_MAX];
	ssize_t n = read(t->input, data, sizeof(data));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n < 0 && !t->a->terminal)
		cbx_cli_say("standard input: %s", strerror(errno));
	if (n <= 0) {
		t->input = -1;
		t->at_end = true;
		if (t->a->terminal) { /* it has gone */
			t->a->signal = SIGHUP;
			return cbx_refuse(err, "interrupted", EINTR, "the terminal was closed");
		}
	} else if (add_typed(t, data, (size_t)n)) {
		return detach(t, err);
	}
	return send_typed(t, err);
}

/* Whether it was the answer to a piece of input. One that is no longer taken is not a failure: the command has ended.
 */
static bool input_answered(struct attached *t, cJSON *msg)
{
	_cleanup_json_ cJSON *result = NULL;
	struct cbx_err err;
	int r = t->input_request ? cbx_client_answer(msg, t->input_request, &result, &err) : 0;

	if (r == 0)
		return false;
	t->input_request = 0;
	if (r < 0)
		t->input = -1;
	return true;
}

/* ---- output ---- */

static int gone(struct cbx_err *err)
{
	return cbx_refuse(err, "daemon_gone", ECONNRESET, "codeboxd ended while the command ran; its log says why");
}

static int write_bytes(struct attached *t, struct cbx_err *err)
{
	t->at += cbx_term_some(t->to, t->bytes.data + t->at, t->bytes.len - t->at);
	if (!t->to->failed)
		return 0;
	return cbx_refuse(err, "output_failed", t->to->error, "the output cannot be written: %s",
			  strerror(t->to->error));
}

static int read_bytes(struct attached *t, struct cbx_err *err)
{
	size_t max = t->left < RAW_MAX ? t->left : RAW_MAX;
	ssize_t n;

	t->bytes.len = t->at = 0;
	n = cbx_client_bytes(t->a->client, cbx_buf_reserve(&t->bytes, max), max, err);
	if (n <= 0)
		return n < 0 ? (int)n : gone(err);
	t->bytes.len = (size_t)n;
	t->left -= (size_t)n;
	return 0;
}

static int on_start(struct attached *t, const cJSON *msg, struct cbx_err *err)
{
	const char *session = cbx_json_str(msg, "session_id");
	double omitted = cbx_json_number(msg, "omitted", 0);

	if (cbx_name_valid(session))
		memcpy(t->session, session, strlen(session) + 1);
	t->id = (uint64_t)cbx_json_number(msg, "execution_id", 0);
	if (omitted > 0)
		cbx_cli_say("%.0f bytes of its output were not kept%s", omitted, t->raw ? "\r" : "");
	return send_size(t, err); /* it may have changed since */
}

static int on_event(struct attached *t, const cJSON *msg, struct cbx_err *err)
{
	const char *event = cbx_json_str(msg, "event");
	double bytes = cbx_json_number(msg, "bytes", 0);

	if (cbx_json_number(msg, "request", 0) != (double)t->request)
		return 0;
	if (strcmp(event, "start") == 0)
		return on_start(t, msg, err);
	if (strcmp(event, "output") == 0) {
		t->to = strcmp(cbx_json_str(msg, "stream"), "stderr") == 0 ? &t->errs : &t->out;
		t->left = bytes > 0 && bytes < (double)CBX_CLIENT_QUEUE_MAX ? (size_t)bytes : 0;
	}
	return 0;
}

/* 1: it has ended, with *ret. */
static int receive(struct attached *t, cJSON **ret, struct cbx_err *err)
{
	_cleanup_json_ cJSON *msg = NULL;
	int r = cbx_client_recv(t->a->client, &msg, err);

	if (r == 0)
		return gone(err);
	if (r < 0)
		return r;
	if (input_answered(t, msg))
		return send_typed(t, err);
	r = cbx_client_answer(msg, t->request, ret, err);
	return r ? r : on_event(t, msg, err);
}

/* ---- all of it ---- */

enum { WAKE_SIGNAL, WAKE_CLIENT, WAKE_OUTPUT, WAKE_INPUT, WAKES };

/* Wait for whatever comes first, and carry out all but messages. 1: there is a message to receive. */
static int step(struct attached *t, struct cbx_err *err)
{
	struct cbx_client *client = t->a->client;
	bool full = t->at < t->bytes.len, there = t->left ? client->in.len : cbx_client_pending(client);
	struct pollfd p[WAKES] = { { .fd = t->sigfd, .events = POLLIN },
				   { .fd = full ? -1 : client->fd, .events = POLLIN },
				   { .fd = full ? t->to->fd : -1, .events = POLLOUT },
				   { .fd = t->id && !t->input_request && !t->typed.len ? t->input : -1,
				     .events = POLLIN } };
	int r = 0;

	if (poll(p, WAKES, !full && there ? 0 : -1) < 0)
		return errno == EINTR ? 0 : cbx_fail(err, errno, "wait for codeboxd");
	if (p[WAKE_SIGNAL].revents)
		r = on_signal(t, err);
	if (r >= 0 && p[WAKE_INPUT].revents)
		r = read_input(t, err);
	if (r >= 0 && full && p[WAKE_OUTPUT].revents)
		r = write_bytes(t, err);
	if (r < 0 || full || !(there || p[WAKE_CLIENT].revents))
		return r < 0 ? r : 0;
	return t->left ? read_bytes(t, err) : 1;
}

static int stay(struct attached *t, cJSON **ret, struct cbx_err *err)
{
	for (;;) {
		int r = step(t, err);

		if (r > 0)
			r = receive(t, ret, err);
		if (r != 0)
			return r < 0 ? r : 0;
	}
}

int cbx_attach_run(struct cbx_attach *a, const char *method, cJSON *params, cJSON **ret, struct cbx_err *err)
{
	struct attached t = { .a = a, .sigfd = -1, .input = a->input ? STDIN_FILENO : -1 };
	int r;

	cbx_term_init(&t.out, STDOUT_FILENO);
	cbx_term_init(&t.errs, STDERR_FILENO);
	if (a->terminal)
		t.out.filter = false;
	r = open_signals(&t, err);
	if (r >= 0)
		r = cbx_client_send(a->client, method, params, &t.request, err);
	else
		cJSON_Delete(params);
	make_raw(&t);
	if (r >= 0)
		r = stay(&t, ret, err);
	make_cooked(&t);
	cbx_term_flush(&t.out);
	cbx_term_flush(&t.errs);
	cbx_buf_release(&t.typed);
	cbx_buf_release(&t.bytes);
	cbx_close_p(&t.sigfd);
	return r;
}
