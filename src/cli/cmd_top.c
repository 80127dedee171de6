/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codeboxd is asked for all sessions again and again; it looks at each at most once a second. On a
 * terminal the table is drawn on its other screen, as far as there is room, and keys and signals are waited for beside
 * the time of the next one. Names are made fit for a terminal, and each takes one column for a byte.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/cli.h"

enum order { BY_CPU, BY_MEMORY, BY_AGE, BY_RUNS, BY_TENANT, BY_NAME };
static const char *const orders[] = { "cpu", "memory", "age", "runs", "tenant", "name" }; /* their first letters are keys */

struct top {
	struct cbx_client client;
	uint64_t delay_ms, times; /* 0: without end */
	enum order order;
	bool batch, json, reverse;
	struct termios before;
	struct cbx_err err;
};

/* ---- the table ---- */

static const cJSON *usage_of(const cJSON *s)
{
	return cbx_json_member(s, "usage");
}

static double value_of(const cJSON *s, enum order order)
{
	switch (order) {
	case BY_CPU:
		return cbx_json_number(usage_of(s), "cpus", -1);
	case BY_MEMORY:
		return cbx_json_number(usage_of(s), "memory_bytes", -1);
	case BY_AGE:
		return cbx_json_number(s, "age_s", -1);
	default:
		return cbx_json_number(s, "executions", -1);
	}
}

static int compare(const void *a, const void *b, void *arg)
{
	const cJSON *x = *(const cJSON *const *)a, *y = *(const cJSON *const *)b;
	const struct top *t = arg;
	double p = value_of(x, t->order), q = value_of(y, t->order);
	int r = 0;

	if (t->order == BY_TENANT)
		r = strcmp(cbx_json_str(x, "tenant"), cbx_json_str(y, "tenant"));
	else if (t->order != BY_NAME)
		r = (p < q) - (p > q);
	if (!r)
		r = strcmp(cbx_json_str(x, "session_id"), cbx_json_str(y, "session_id"));
	return t->reverse ? -r : r;
}

static void add_name(struct cbx_buf *out, const char *name, int width)
{
	_cleanup_buf_ struct cbx_buf clean = { 0 };

	cbx_escape(&clean, name);
	for (size_t i = 0; i < clean.len; i++)
		if ((unsigned char)clean.data[i] >= 0x80)
			clean.data[i] = '?';
	cbx_buf_addf(out, "%-*.*s ", width, width, cbx_buf_str(&clean));
}

static void add_session(struct cbx_buf *out, const cJSON *s, size_t columns)
{
	double cpus = value_of(s, BY_CPU), memory = value_of(s, BY_MEMORY), limit, age = value_of(s, BY_AGE);
	_cleanup_buf_ struct cbx_buf line = { 0 };
	char cpu[24] = "-", size[32] = "-", most[32] = "-";

	limit = cbx_json_number(cbx_json_member(s, "limits"), "memory_bytes", -1);
	if (cpus >= 0)
		snprintf(cpu, sizeof(cpu), "%.1f", cpus * 100);
	if (memory >= 0)
		cbx_format_size((uint64_t)memory, size);
	if (limit >= 0)
		cbx_format_size((uint64_t)limit, most);
	add_name(&line, cbx_json_str(s, "session_id"), 24);
	add_name(&line, cbx_json_str(s, "tenant"), 12);
	add_name(&line, cbx_json_str(s, "state"), 8);
	cbx_buf_addf(&line, "%6.6s %10.10s %10.10s %6.0f %7.0fs ", cpu, size, most, value_of(s, BY_RUNS), age < 0 ? 0 : age);
	add_name(&line, cbx_json_str(s, "image"), 16);
	while (line.len && line.data[line.len - 1] == ' ')
		line.len--;
	cbx_buf_add(out, line.data, line.len < columns ? line.len : columns);
}

static void add_head(struct cbx_buf *out, const struct top *t, const cJSON *sessions, const char *end, size_t columns)
{
	double cpus = 0, memory = 0;
	_cleanup_free_ char *line = NULL;
	char size[32];
	const cJSON *s;

	cJSON_ArrayForEach(s, sessions) {
		cpus += value_of(s, BY_CPU) > 0 ? value_of(s, BY_CPU) : 0;
		memory += value_of(s, BY_MEMORY) > 0 ? value_of(s, BY_MEMORY) : 0;
	}
	cbx_format_size((uint64_t)memory, size);
	line = cbx_xasprintf("%d sessions, CPU %.1f %%, memory %s, by %s%s", cJSON_GetArraySize(sessions), cpus * 100, size,
			     orders[t->order], t->batch ? "" : "; keys: c m a r t n, i inverts, q quits");
	cbx_buf_addf(out, "%.*s%s", (int)columns, line, end);
	free(line);
	line = cbx_xasprintf("%-24s %-12s %-8s %6s %10s %10s %6s %8s %s", "SESSION", "TENANT", "STATE", "CPU%", "MEMORY", "LIMIT",
			     "RUNS", "AGE", "IMAGE");
	cbx_buf_addf(out, "%.*s%s", (int)columns, line, end);
}

static void add_table(struct cbx_buf *out, const struct top *t, const cJSON *sessions, size_t rows, size_t columns)
{
	const char *end = t->batch ? "\n" : "\x1b[K\r\n";
	size_t n = (size_t)cJSON_GetArraySize(sessions), i = 0;
	_cleanup_free_ const cJSON **all = cbx_xcalloc(n + 1, sizeof(cJSON *));
	const cJSON *s;

	cJSON_ArrayForEach(s, sessions)
		all[i++] = s;
	qsort_r((void *)all, n, sizeof(*all), compare, (void *)t);
	add_head(out, t, sessions, end, columns);
	for (i = 0; i < n && i + 3 < rows; i++) {
		add_session(out, all[i], columns);
		cbx_buf_adds(out, end);
	}
}

/* ---- asking ---- */

/* Below 0, t->err says why: it is not printed before the terminal is as it was. */
static int ask(struct top *t, cJSON **ret)
{
	return cbx_client_call(&t->client, "session.top", NULL, ret, &t->err) < 0 ? -1 : 0;
}

/* Nothing is known before the first look, and processors not before the second. */
static int in_batch(struct top *t)
{
	for (uint64_t i = 0; i <= t->times || !t->times; i++) {
		_cleanup_json_ cJSON *answer = NULL;
		_cleanup_buf_ struct cbx_buf out = { 0 };
		int r = ask(t, &answer);

		if (!r && i && t->json) {
			r = cbx_cli_print_json(answer);
		} else if (!r && i) {
			add_table(&out, t, cbx_json_member(answer, "sessions"), SIZE_MAX, 1000);
			r = cbx_cli_out(out.data, out.len);
		}
		if (r)
			return r;
		if (!i || i < t->times || !t->times)
			(void)poll(NULL, 0, (int)t->delay_ms);
	}
	return CBX_EXIT_OK;
}

static int draw(struct top *t)
{
	_cleanup_json_ cJSON *answer = NULL;
	_cleanup_buf_ struct cbx_buf out = { 0 };
	struct winsize w = { .ws_row = 24, .ws_col = 80 };
	int r = ask(t, &answer);

	if (r)
		return r;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) < 0 || !w.ws_row || !w.ws_col)
		w = (struct winsize){ .ws_row = 24, .ws_col = 80 };
	cbx_buf_adds(&out, "\x1b[H");
	add_table(&out, t, cbx_json_member(answer, "sessions"), w.ws_row, w.ws_col);
	cbx_buf_adds(&out, "\x1b[J");
	return cbx_cli_out(out.data, out.len);
}

/* False: it is to end. */
static bool key(struct top *t, char c)
{
	if (c == 'q' || c == 3 || c == 4)
		return false;
	t->reverse ^= c == 'i';
	for (size_t i = 0; i < ARRAY_SIZE(orders); i++)
		if (c == orders[i][0])
			t->order = (enum order)i;
	return true;
}

static int watch(struct top *t, int signals)
{
	struct pollfd fds[] = { { .fd = STDIN_FILENO, .events = POLLIN }, { .fd = signals, .events = POLLIN } };
	struct signalfd_siginfo info;
	char typed[64];
	ssize_t n;
	int r = 0;

	while (!(r = draw(t))) {
		fds[0].revents = fds[1].revents = 0;
		if (poll(fds, ARRAY_SIZE(fds), (int)t->delay_ms) < 0 && errno != EINTR)
			return CBX_EXIT_OWN;
		if (fds[1].revents && read(signals, &info, sizeof(info)) == sizeof(info) && info.ssi_signo != SIGWINCH)
			return CBX_EXIT_OK;
		if (!fds[0].revents)
			continue;
		n = read(STDIN_FILENO, typed, sizeof(typed));
		if (n <= 0)
			return CBX_EXIT_OK;
		for (ssize_t i = 0; i < n; i++)
			if (!key(t, typed[i]))
				return CBX_EXIT_OK;
	}
	return r;
}

static int on_terminal(struct top *t)
{
	static const char enter[] = "\x1b[?1049h\x1b[?25l\x1b[2J", leave[] = "\x1b[?25h\x1b[?1049l";
	_cleanup_fd_ int signals = -1;
	struct termios raw;
	sigset_t set;
	int r;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &t->before) < 0)
		return cbx_cli_usage("top", "there is no terminal; --batch prints to files and pipes");
	sigemptyset(&set);
	for (size_t i = 0; i < 4; i++)
		sigaddset(&set, (const int[]){ SIGWINCH, SIGINT, SIGTERM, SIGHUP }[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signals = signalfd(-1, &set, SFD_CLOEXEC);
	raw = t->before;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
	(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
	r = cbx_cli_out(enter, sizeof(enter) - 1);
	if (!r)
		r = watch(t, signals);
	(void)cbx_cli_out(leave, sizeof(leave) - 1);
	(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &t->before);
	return r;
}

/* ---- the command line ---- */

static int set_order(void *arg, const char *text)
{
	struct top *t = arg;
	int order = cbx_find_word(text, orders, ARRAY_SIZE(orders));

	t->order = (enum order)order;
	return order >= 0 ? 0
			  : cbx_cli_usage("top", "--sort: \"%s\" is not cpu, memory, age, runs, tenant or name", text);
}

static int parse(struct top *t, int argc, char **argv)
{
	const char *times = NULL, *delay = NULL;
	const struct cbx_cli_option options[] = {
		{ "batch", 'b', .flag = &t->batch },	      { "json", .flag = &t->json },
		{ "iterations", 'n', .value = &times },	      { "delay", 'd', .value = &delay },
		{ "sort", 's', .take = set_order, .arg = t }, { 0 }
	};
	struct cbx_err err;
	int r = cbx_cli_options("top", argc, argv, options);

	if (r)
		return r;
	t->batch = t->batch || t->json || times;
	if ((times && cbx_parse_u64(times, "--iterations", 1, 1000000, &t->times, &err) < 0) ||
	    (delay && cbx_parse_duration_ms(delay, "--delay", 1000, 3600000, &t->delay_ms, &err) < 0))
		return cbx_cli_usage("top", "%s", err.msg);
	if (optind < argc)
		return cbx_cli_usage("top", "unexpected argument: %s", argv[optind]);
	return r;
}

static int run_top(int argc, char **argv)
{
	struct top t = { .delay_ms = 2000 };
	struct cbx_err err;
	int r = parse(&t, argc, argv);

	if (r)
		return r;
	if (t.batch && !t.times)
		t.times = 1;
	r = cbx_cli_client(true, &t.client, &err);
	if (r < 0)
		return cbx_cli_fail(&err);
	r = t.batch ? in_batch(&t) : on_terminal(&t);
	if (r < 0)
		r = cbx_cli_fail(&t.err);
	cbx_client_close(&t.client);
	return r;
}

static const char help[] =
	"Usage: codebox top [OPTION...]\n"
	"\n"
	"Shows what the sessions of all tenants use now, and again every two seconds. Keys: c, m, a, r, t and n sort by CPU,\n"
	"memory, age, runs, tenant and name; i inverts the order; q quits.\n"
	"\n"
	"Options:\n"
	"  -b, --batch             print the table once, for scripts, after one delay\n"
	"  -n, --iterations N      print it this number of times\n"
	"  -d, --delay SECONDS     time between two looks: 1s or more (default 2)\n"
	"  -s, --sort KEY          cpu, memory, age, runs, tenant or name (default cpu)\n"
	"  --json                  as --batch, each as one line of JSON\n"
	"\n"
	"Examples:\n"
	"  codebox top --batch --sort memory\n"
	"  codebox top --json -n 2 -d 1\n";

const struct cbx_command cbx_cmd_top = {
	.name = "top",
	.summary = "what sessions use now, as a live table",
	.help = help,
	.run = run_top,
};
