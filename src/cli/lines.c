/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: libedit edits, but reading a character is ours: libedit tries again after EINTR, so a Ctrl-C
 * would pass unnoticed. SIGINT is blocked all the time (it belongs to the signalfd of the running cell) except inside
 * the ppoll() that waits for a key; its handler sets a flag, and the read fails with EINTR. Without a terminal there is
 * no prompt, no history and no libedit.
 *
 * Candidates of a completion come from the sandbox: they are typed into the line only when they are plain text.
 */
#include "cli/lines.h"

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/cli.h"

#define HISTORY_LINES 2000
#define SHOWN_MAX     200 /* candidates listed at once */

struct cbx_lines {
	EditLine *el; /* NULL: no terminal */
	History *history;
	char *file;
	const char *prompt;
	cbx_complete_fn complete;
	void *arg;
	struct cbx_buf before; /* earlier lines of the input that is being typed */
};

static volatile sig_atomic_t interrupted, resized;

static void on_signal(int sig)
{
	if (sig == SIGINT)
		interrupted = 1;
	else
		resized = 1;
}

/* 1: a key can be read; -1 with errno EINTR: Ctrl-C. */
static int wait_key(EditLine *el)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	struct timespec now = { 0 };
	sigset_t mask;

	sigprocmask(SIG_BLOCK, NULL, &mask);
	sigdelset(&mask, SIGINT);
	/* With input there, ppoll lets a signal wait; a second one, for nothing, takes a Ctrl-C that was typed before
	 * it. */
	while (ppoll(&p, 1, NULL, &mask) < 0 || ppoll(NULL, 0, &now, &mask) < 0) {
		if (errno != EINTR)
			return -1;
		if (resized)
			el_resize(el);
		resized = 0;
		if (interrupted) {
			errno = EINTR;
			return -1;
		}
	}
	return 1;
}

/* One character of UTF-8, byte by byte; what is none becomes U+FFFD. */
static int read_key(EditLine *el, wchar_t *ret)
{
	char bytes[4];
	size_t n = 0;

	do {
		mbstate_t state = { 0 };
		size_t k;
		ssize_t r;

		if (wait_key(el) < 0)
			return -1;
		r = read(STDIN_FILENO, bytes + n, 1);
		if (r <= 0)
			return (int)r;
		n++;
		k = mbrtowc(ret, bytes, n, &state);
		if (k <= 1 || k == n)
			return 1;
		if (k != (size_t)-2)
			break;
	} while (n < sizeof(bytes));
	*ret = 0xfffd;
	return 1;
}

static char *get_prompt(EditLine *el)
{
	static char copy[64];
	void *data = NULL;

	el_get(el, EL_CLIENTDATA, &data);
	snprintf(copy, sizeof(copy), "%s", ((struct cbx_lines *)data)->prompt);
	return copy;
}

void cbx_candidates_release(struct cbx_candidates *c)
{
	for (char **t = c->texts; t && *t; t++)
		free(*t);
	free(c->texts);
	memset(c, 0, sizeof(*c));
}

/* Bytes that all candidates begin with, never part of a character. */
static size_t common_prefix(char *const *texts)
{
	size_t n = strlen(texts[0]);

	for (char *const *t = texts + 1; *t; t++) {
		size_t i = 0;

		while (i < n && (*t)[i] == texts[0][i])
			i++;
		n = i;
	}
	while (n && ((unsigned char)texts[0][n] & 0xc0) == 0x80)
		n--;
	return n;
}

static void list_candidates(char *const *texts)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };
	size_t n = 0;

	cbx_buf_addc(&out, '\n');
	for (; texts[n] && n < SHOWN_MAX; n++) {
		cbx_escape(&out, texts[n]);
		cbx_buf_adds(&out, "  ");
	}
	if (texts[n])
		cbx_buf_adds(&out, "…");
	cbx_buf_addc(&out, '\n');
	(void)cbx_cli_out(out.data, out.len);
}

static unsigned char on_tab(EditLine *el, int ch)
{
	_cleanup_(cbx_candidates_release) struct cbx_candidates found = { 0 };
	_cleanup_buf_ struct cbx_buf text = { 0 };
	_cleanup_free_ char *insert = NULL;
	const LineInfo *li = el_line(el);
	size_t len = (size_t)(li->cursor - li->buffer), common;
	struct cbx_lines *l;
	void *data = NULL;

	el_get(el, EL_CLIENTDATA, &data);
	l = data;
	if (strspn(li->buffer, " \t") >= len) /* nothing is written yet: an indentation */
		return el_insertstr(el, "    ") < 0 ? CC_ERROR : CC_REFRESH;
	cbx_buf_add(&text, l->before.data, l->before.len);
	cbx_buf_add(&text, li->buffer, len);
	if (!l->complete || !l->complete(l->arg, cbx_buf_str(&text), &found) || !found.texts || !found.texts[0])
		return CC_ERROR;
	common = common_prefix(found.texts);
	insert = strndup(found.texts[0], common);
	if (!insert || !cbx_plain(insert) || found.replaced > cbx_utf8_count(li->buffer, len))
		return CC_ERROR;
	if (found.texts[1] && cbx_utf8_count(insert, common) <= found.replaced) {
		list_candidates(found.texts);
		return CC_REDISPLAY;
	}
	if (found.replaced)
		el_deletestr(el, (int)found.replaced);
	return el_insertstr(el, insert) < 0 ? CC_ERROR : CC_REFRESH;
}

static void set_locale(void)
{
	/* libedit counts in the locale's characters; what we say and send is UTF-8 always. */
	setlocale(LC_CTYPE, "");
	if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
		setlocale(LC_CTYPE, "C.UTF-8");
}

static void open_editor(struct cbx_lines *l)
{
	HistEvent ev;

	set_locale();
	l->el = el_init("codebox", stdin, stdout, stderr);
	if (!l->el)
		return;
	el_set(l->el, EL_CLIENTDATA, l);
	el_set(l->el, EL_PROMPT, get_prompt);
	el_set(l->el, EL_EDITOR, "emacs");
	el_set(l->el, EL_SIGNAL, 0);
	el_set(l->el, EL_GETCFN, read_key);
	el_set(l->el, EL_ADDFN, "codebox-complete", "complete", on_tab);
	el_set(l->el, EL_BIND, "^I", "codebox-complete", NULL);
	el_set(l->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
	l->history = history_init();
	if (!l->history)
		return;
	history(l->history, &ev, H_SETSIZE, HISTORY_LINES);
	history(l->history, &ev, H_SETUNIQUE, 1);
	el_set(l->el, EL_HIST, history, l->history);
	if (l->file)
		history(l->history, &ev, H_LOAD, l->file);
}

struct cbx_lines *cbx_lines_new(const char *history_file, cbx_complete_fn complete, void *arg)
{
	struct cbx_lines *l = cbx_xcalloc(1, sizeof(*l));

	l->file = history_file ? cbx_xstrdup(history_file) : NULL;
	l->complete = complete;
	l->arg = arg;
	l->prompt = "";
	if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
		open_editor(l);
	return l;
}

void cbx_lines_free(struct cbx_lines *l)
{
	HistEvent ev;
	mode_t mask;

	if (!l)
		return;
	if (l->history && l->file) {
		mask = umask(077);
		history(l->history, &ev, H_SAVE, l->file);
		umask(mask);
	}
	if (l->el)
		el_end(l->el);
	if (l->history)
		history_end(l->history);
	cbx_buf_release(&l->before);
	free(l->file);
	free(l);
}

bool cbx_lines_terminal(const struct cbx_lines *l)
{
	return l->el;
}

/* Here Ctrl-C does what it does to any program that reads. */
static enum cbx_line read_plain(struct cbx_buf *ret)
{
	_cleanup_free_ char *line = NULL;
	sigset_t set, old;
	size_t cap = 0;
	ssize_t n;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_UNBLOCK, &set, &old);
	n = getline(&line, &cap, stdin);
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (n < 0)
		return CBX_LINE_END;
	if (n && line[n - 1] == '\n')
		n--;
	cbx_buf_add(ret, line, (size_t)n);
	return CBX_LINE_TEXT;
}

enum cbx_line cbx_lines_read(struct cbx_lines *l, const char *prompt, const char *indent, struct cbx_buf *ret)
{
	struct sigaction mine = { .sa_handler = on_signal }, old_int, old_winch;
	const char *line;
	int n = 0;

	cbx_buf_drop(ret, ret->len);
	if (!l->el)
		return read_plain(ret);
	l->prompt = prompt;
	if (indent && indent[0] && cbx_plain(indent) && strlen(indent) < 200)
		el_push(l->el, indent);
	/* Before the prompt is shown: what is typed at sight of it is then read as keys, Ctrl-D above all. */
	el_set(l->el, EL_PREP_TERM, 1);
	interrupted = 0;
	sigaction(SIGINT, &mine, &old_int);
	sigaction(SIGWINCH, &mine, &old_winch);
	line = el_gets(l->el, &n);
	sigaction(SIGINT, &old_int, NULL);
	sigaction(SIGWINCH, &old_winch, NULL);
	if (!line || n <= 0) {
		if (interrupted) {
			el_reset(l->el);
			(void)cbx_cli_out("^C\n", 3);
			return CBX_LINE_INTERRUPTED;
		}
		(void)cbx_cli_out("\n", 1);
		return CBX_LINE_END;
	}
	if (line[n - 1] == '\n')
		n--;
	cbx_buf_add(ret, line, (size_t)n);
	cbx_buf_add(&l->before, line, (size_t)n);
	cbx_buf_addc(&l->before, '\n');
	return CBX_LINE_TEXT;
}

void cbx_lines_remember(struct cbx_lines *l, const char *text)
{
	HistEvent ev;

	cbx_buf_drop(&l->before, l->before.len);
	if (!l->history)
		return;
	while (*text) {
		size_t n = strcspn(text, "\n");
		_cleanup_free_ char *line = strndup(text, n);

		if (line && n)
			history(l->history, &ev, H_ENTER, line);
		text += n + (text[n] == '\n');
	}
}
