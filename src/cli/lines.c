/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: libedit edits, but reading a character is ours: libedit tries again after EINTR, so a Ctrl-C
 * would pass unnoticed. SIGINT is blocked all the time (it belongs to the signalfd of the running cell) except inside
 * the ppoll() that waits for a key; its handler sets a flag, and the read fails with EINTR. Without a terminal there is
 * no prompt, no history and no libedit.
 *
 * The terminal is asked to put marks around what is pasted (bracketed paste). Of several pasted lines all but the last
 * are shown and set aside as they are; the last one is edited, and Enter hands out all of them together. So a pasted
 * text is one cell, with its blank lines and its own indentation, and nothing of it runs before Enter is pressed.
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

#include "base/clean.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/cli.h"

#define HISTORY_LINES 2000
#define PASTE_ON      "\033[?2004h"
#define PASTE_OFF     "\033[?2004l"
#define PASTE_BEGIN   "\033[200~"
#define PASTE_END     "\033[201~"
#define CONTINUED     "... "
#define INDENT	      4
#define SHOWN_MAX     200 /* candidates listed at once */

struct cbx_lines {
	EditLine *el; /* NULL: no terminal */
	History *history;
	char *file;
	const char *prompt;
	cbx_complete_fn complete;
	void *arg;
	struct cbx_buf before; /* earlier lines of the input that is being typed */
	struct cbx_buf pasted; /* lines before the one that is edited, each with its newline */
	bool paste_ended;      /* the pasted text ended with a newline */
	struct cbx_buf typed;  /* before the prompt was shown; from typed_at on */
	size_t typed_at;
	bool brackets;	       /* the terminal is asked to mark what is pasted */
};

static volatile sig_atomic_t interrupted, resized;

static void on_signal(int sig)
{
	if (sig == SIGINT)
		interrupted = 1;
	else
		resized = 1;
}

static struct cbx_lines *lines_of(EditLine *el)
{
	void *data = NULL;

	el_get(el, EL_CLIENTDATA, &data);
	return data;
}

/* 1: a key can be read; -1 with errno EINTR: Ctrl-C. */
static int wait_key(EditLine *el)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	const struct cbx_lines *l = lines_of(el);
	const struct timespec now = { 0 }, *wait = l->typed_at < l->typed.len ? &now : NULL;
	sigset_t mask;

	sigprocmask(SIG_BLOCK, NULL, &mask);
	sigdelset(&mask, SIGINT);
	/* With input there, ppoll lets a signal wait; a second one, for nothing, takes a Ctrl-C that was typed before
	 * it. */
	while (ppoll(&p, 1, wait, &mask) < 0 || ppoll(NULL, 0, &now, &mask) < 0) {
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

static ssize_t read_byte(EditLine *el, char *ret)
{
	struct cbx_lines *l = lines_of(el);

	if (wait_key(el) < 0)
		return -1;
	if (l->typed_at == l->typed.len)
		return read(STDIN_FILENO, ret, 1);
	*ret = l->typed.data[l->typed_at++];
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
		ssize_t r = read_byte(el, bytes + n);

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

	snprintf(copy, sizeof(copy), "%s", lines_of(el)->prompt);
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
	struct cbx_lines *l = lines_of(el);

	if (strspn(li->buffer, " \t") >= len) /* nothing is written yet: an indentation */
		return el_insertstr(el, "    ") < 0 ? CC_ERROR : CC_REFRESH;
	cbx_buf_add(&text, l->before.data, l->before.len);
	cbx_buf_add(&text, li->buffer, len);
	if (!l->complete || !l->complete(l->arg, cbx_buf_str(&text), &found) || !found.texts || !found.texts[0])
		return CC_ERROR;
	common = common_prefix(found.texts);
	insert = strndup(found.texts[0], common);
	if (!insert || !cbx_plain(insert) || !cbx_is_clean(insert) || found.replaced > cbx_utf8_count(li->buffer, len))
		return CC_ERROR;
	if (found.texts[1] && cbx_utf8_count(insert, common) <= found.replaced) {
		list_candidates(found.texts);
		return CC_REDISPLAY;
	}
	if (found.replaced)
		el_deletestr(el, (int)found.replaced);
	return el_insertstr(el, insert) < 0 ? CC_ERROR : CC_REFRESH;
}

/* Up to the mark of its end, as text: one kind of newline, no other control characters. False: an end, or Ctrl-C. */
static bool read_paste(EditLine *el, struct cbx_buf *out)
{
	size_t matched = 0; /* bytes of the mark */
	bool cr = false;

	while (PASTE_END[matched]) {
		char c;

		if (read_byte(el, &c) <= 0)
			return false;
		if (c == PASTE_END[matched]) {
			matched++;
			continue;
		}
		if (matched)
			cbx_buf_add(out, &PASTE_END[1], matched - 1); /* what began like the mark; without its ESC */
		matched = c == PASTE_END[0];
		if (c == '\r' || (c == '\n' && !cr))
			cbx_buf_addc(out, '\n');
		else if (c == '\t' || ((unsigned char)c >= 0x20 && c != 0x7f))
			cbx_buf_addc(out, c);
		cr = c == '\r';
		if (out->len > CBX_CODE_MAX)
			cbx_buf_drop(out, out->len - CBX_CODE_MAX); /* too long; the prompt will say so */
	}
	return true;
}

static void show_pasted(struct cbx_lines *l, const char *text)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };
	const char *prompt = l->prompt;

	while (*text) {
		size_t n = strcspn(text, "\n");
		_cleanup_free_ char *line = strndup(text, n);

		cbx_buf_addf(&out, "\r%s", prompt);
		cbx_escape(&out, line ? line : "");
		cbx_buf_adds(&out, "\033[K\n");
		text += n + (text[n] == '\n');
		prompt = CONTINUED;
	}
	(void)cbx_cli_out(out.data, out.len);
}

static size_t before_cursor(EditLine *el, const char **ret)
{
	const LineInfo *li = el_line(el);

	*ret = li->buffer;
	return (size_t)(li->cursor - li->buffer);
}

static unsigned char on_paste(EditLine *el, int ch)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	struct cbx_lines *l = lines_of(el);
	const char *typed, *last;
	size_t n, first;

	if (!read_paste(el, &text) || !text.len)
		return CC_ERROR;
	l->paste_ended = text.data[text.len - 1] == '\n';
	while (text.len && text.data[text.len - 1] == '\n')
		text.data[--text.len] = '\0';
	last = text.len ? strrchr(text.data, '\n') : NULL;
	if (!last)
		return el_insertstr(el, cbx_buf_str(&text)) < 0 ? CC_ERROR : CC_REFRESH;
	n = before_cursor(el, &typed);
	first = l->pasted.len;
	/* An indentation that was typed ahead, before lines that have their own, would be one too many. */
	if ((text.data[0] != ' ' && text.data[0] != '\t') || strspn(typed, " \t") < n)
		cbx_buf_add(&l->pasted, typed, n);
	cbx_buf_add(&l->pasted, text.data, (size_t)(last + 1 - text.data));
	show_pasted(l, l->pasted.data + first);
	if (n)
		el_deletestr(el, (int)cbx_utf8_count(typed, n));
	l->prompt = CONTINUED;
	if (last[1])
		(void)el_insertstr(el, last + 1);
	return CC_REDISPLAY;
}

/* Within the indentation: back to the level before. */
static unsigned char on_backspace(EditLine *el, int ch)
{
	const char *typed;
	size_t n = before_cursor(el, &typed);

	if (!n)
		return CC_ERROR;
	el_deletestr(el, strspn(typed, " ") >= n ? (int)((n - 1) % INDENT) + 1 : 1);
	return CC_REFRESH;
}

/* The end on a line in which nothing was typed, but for an indentation; else a character goes. */
static unsigned char on_eof(EditLine *el, int ch)
{
	const LineInfo *li = el_line(el);

	if (strspn(li->buffer, " \t") >= (size_t)(li->lastchar - li->buffer))
		return CC_EOF;
	if (li->cursor == li->lastchar)
		return CC_ERROR;
	el_cursor(el, 1);
	el_deletestr(el, 1);
	return CC_REFRESH;
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
	const char *term = getenv("TERM");
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
	el_set(l->el, EL_ADDFN, "codebox-backspace", "backspace", on_backspace);
	el_set(l->el, EL_BIND, "^?", "codebox-backspace", NULL);
	el_set(l->el, EL_BIND, "^H", "codebox-backspace", NULL);
	el_set(l->el, EL_ADDFN, "codebox-eof", "end of input", on_eof);
	el_set(l->el, EL_BIND, "^D", "codebox-eof", NULL);
	el_set(l->el, EL_ADDFN, "codebox-paste", "paste", on_paste);
	el_set(l->el, EL_BIND, PASTE_BEGIN, "codebox-paste", NULL);
	l->brackets = term && *term && strcmp(term, "dumb") != 0;
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
	cbx_buf_release(&l->pasted);
	cbx_buf_release(&l->typed);
	free(l->file);
	free(l);
}

void cbx_lines_typed(struct cbx_lines *l, const struct cbx_buf *typed)
{
	cbx_buf_drop(&l->typed, l->typed_at);
	l->typed_at = 0;
	cbx_buf_add(&l->typed, typed->data, typed->len);
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

static const char *edit(struct cbx_lines *l, int *n)
{
	struct sigaction mine = { .sa_handler = on_signal }, old_int, old_winch;
	const char *line;

	/* Before the prompt is shown: what is typed at sight of it is then read as keys, Ctrl-D above all. */
	el_set(l->el, EL_PREP_TERM, 1);
	if (l->brackets)
		(void)cbx_write_all(STDOUT_FILENO, PASTE_ON, strlen(PASTE_ON));
	interrupted = 0;
	sigaction(SIGINT, &mine, &old_int);
	sigaction(SIGWINCH, &mine, &old_winch);
	line = el_gets(l->el, n);
	sigaction(SIGINT, &old_int, NULL);
	sigaction(SIGWINCH, &old_winch, NULL);
	if (l->brackets)
		(void)cbx_write_all(STDOUT_FILENO, PASTE_OFF, strlen(PASTE_OFF));
	return line;
}

enum cbx_line cbx_lines_read(struct cbx_lines *l, bool first, const char *indent, struct cbx_buf *ret)
{
	const char *line;
	int n = 0;

	cbx_buf_drop(ret, ret->len);
	if (!l->el)
		return read_plain(ret);
	l->prompt = first ? ">>> " : CONTINUED;
	cbx_buf_drop(&l->pasted, l->pasted.len);
	l->paste_ended = false;
	if (indent && indent[0] && cbx_plain(indent) && strlen(indent) < 200)
		el_push(l->el, indent);
	line = edit(l, &n);
	if (!line || n <= 0) {
		if (interrupted) {
			el_reset(l->el);
			l->typed_at = l->typed.len; /* a terminal drops its own, too */
			(void)cbx_cli_out("^C\n", 3);
			return CBX_LINE_INTERRUPTED;
		}
		(void)cbx_cli_out("\n", 1);
		return CBX_LINE_END;
	}
	if (line[n - 1] == '\n')
		n--;
	cbx_buf_add(ret, l->pasted.data, l->pasted.len);
	cbx_buf_add(ret, line, (size_t)n);
	if (l->paste_ended && l->pasted.len)
		cbx_buf_addc(ret, '\n');
	cbx_buf_add(&l->before, ret->data, ret->len);
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
