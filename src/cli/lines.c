/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a cell is one text with newlines in it, and a cursor; keys change it, and it is drawn (draw.h)
 * when no more keys wait. Without a terminal there is no prompt and no history.
 *
 * The terminal is asked to put marks around what is pasted (bracketed paste). A pasted text is put into the cell as it
 * is, with its blank lines and its own indentation, and nothing of it runs before Enter is pressed.
 *
 * Candidates of a completion come from the sandbox: they are typed into the text only when they are plain.
 */
#include "cli/lines.h"

#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ttydefaults.h>
#include <termios.h>
#include <unistd.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/draw.h"
#include "cli/edit.h"
#include "cli/keyboard.h"
#include "cli/recall.h"

#define PASTE_ON  "\033[?2004h"
#define PASTE_OFF "\033[?2004l"
#define PROMPT	  ">>> "
#define SHOWN_MAX 200 /* candidates listed at once */
#define QUERY_MAX 60  /* bytes of what is searched for */

enum next { GOES_ON, READY, DROPPED, ENDED };

struct cbx_lines {
	const struct cbx_lines_asks *asks;
	bool terminal, brackets; /* brackets: the terminal is asked to mark what is pasted */
	struct termios saved;
	struct cbx_draw draw;
	struct cbx_recall history;
	char prompt[QUERY_MAX + 32];
	struct cbx_keyboard keys;
	struct cbx_edit edit;
	struct cbx_buf killed; /* for Ctrl-Y */
	struct cbx_buf draft;  /* the text, while one of the history is shown */
	size_t recalled;       /* which one that is; history.n: none */
	bool paste_ended;      /* the pasted text ended with a newline */
};

static void show(struct cbx_lines *l)
{
	cbx_draw(&l->draw, l->prompt, &l->edit.text, l->edit.at);
}

static void on_idle(void *arg, bool resized)
{
	struct cbx_lines *l = arg;

	if (resized)
		cbx_draw_resized(&l->draw);
	show(l);
}

/* ---- what keys do ---- */

static void kill_part(struct cbx_lines *l, size_t from, size_t to)
{
	if (from >= to)
		return;
	cbx_buf_drop(&l->killed, l->killed.len);
	cbx_buf_add(&l->killed, l->edit.text.data + from, to - from);
	cbx_edit_cut(&l->edit, from, to);
}

static void candidates_release(struct cbx_candidates *c)
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

/* Below the text, which is drawn again below them. */
static void list_candidates(struct cbx_lines *l, char *const *texts)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };
	size_t n = 0, at = l->edit.at;

	l->edit.at = l->edit.text.len;
	show(l);
	cbx_draw_end(&l->draw);
	l->edit.at = at;
	for (; texts[n] && n < SHOWN_MAX; n++) {
		cbx_escape(&out, texts[n]);
		cbx_buf_adds(&out, "  ");
	}
	if (texts[n])
		cbx_buf_adds(&out, "…");
	cbx_buf_addc(&out, '\n');
	(void)cbx_cli_out(out.data, out.len);
}

static void complete(struct cbx_lines *l)
{
	_cleanup_(candidates_release) struct cbx_candidates found = { 0 };
	_cleanup_free_ char *text = strndup(l->edit.text.len ? l->edit.text.data : "", l->edit.at), *add = NULL;
	size_t common, from = l->edit.at;

	if (cbx_edit_blank(&l->edit, cbx_edit_line_begin(&l->edit, l->edit.at), l->edit.at)) { /* nothing is written yet: an indentation */
		cbx_edit_insert(&l->edit, "    ", CBX_EDIT_INDENT);
		return;
	}
	if (!text || !l->asks->complete(l->asks->arg, text, &found) || !found.texts || !found.texts[0])
		return;
	common = common_prefix(found.texts);
	add = strndup(found.texts[0], common);
	if (!add || !cbx_plain(add) || !cbx_is_clean(add) || found.replaced > cbx_utf8_count(text, l->edit.at))
		return;
	if (found.texts[1] && cbx_utf8_count(add, common) <= found.replaced) {
		list_candidates(l, found.texts);
		return;
	}
	while (found.replaced--)
		from = cbx_edit_before(&l->edit, from);
	cbx_edit_cut(&l->edit, from, l->edit.at);
	cbx_edit_insert(&l->edit, add, common);
}

static int paste(struct cbx_lines *l)
{
	_cleanup_buf_ struct cbx_buf raw = { 0 }, text = { 0 };
	size_t begin;
	int key = cbx_keyboard_read_paste(&l->keys, &raw, &l->edit.too_long);

	if (key || !raw.len)
		return key;
	cbx_utf8_append(&text, raw.data, raw.len);
	l->paste_ended = text.data[text.len - 1] == '\n';
	while (text.len && text.data[text.len - 1] == '\n')
		text.len--;
	begin = cbx_edit_line_begin(&l->edit, l->edit.at);
	/* An indentation that was typed ahead, before lines that have their own, would be one too many. */
	if (text.len && strchr(" \t", text.data[0]) && memchr(text.data, '\n', text.len) && cbx_edit_blank(&l->edit, begin, l->edit.at))
		cbx_edit_cut(&l->edit, begin, l->edit.at);
	cbx_edit_insert(&l->edit, text.data, text.len);
	return 0;
}

static void recall(struct cbx_lines *l, size_t which)
{
	if (which > l->history.n)
		return;
	if (l->recalled == l->history.n) {
		cbx_buf_drop(&l->draft, l->draft.len);
		cbx_buf_add(&l->draft, l->edit.text.data, l->edit.text.len);
	}
	l->recalled = which;
	if (which == l->history.n)
		cbx_edit_replace(&l->edit, cbx_buf_str(&l->draft), l->draft.len);
	else
		cbx_edit_replace(&l->edit, l->history.cells[which], strlen(l->history.cells[which]));
}

/* To the line above, or else to the cell before. */
static void up(struct cbx_lines *l)
{
	if (cbx_edit_line_begin(&l->edit, l->edit.at))
		cbx_edit_vertically(&l->edit, true);
	else if (l->recalled)
		recall(l, l->recalled - 1);
}

static void down(struct cbx_lines *l)
{
	if (cbx_edit_line_end(&l->edit, l->edit.at) < l->edit.text.len)
		cbx_edit_vertically(&l->edit, false);
	else
		recall(l, l->recalled + 1);
}

/* Ctrl-R: the last cell that has what is typed; again: the one before. The key that ended it. */
static int search(struct cbx_lines *l)
{
	char query[QUERY_MAX + 1] = "";
	size_t n = 0, from = l->history.n, found = l->history.n;
	int key;

	for (;;) {
		size_t i = from;

		while (n && i && !strstr(l->history.cells[i - 1], query))
			i--;
		if (n && i) {
			const char *cell;

			recall(l, found = i - 1);
			cell = l->history.cells[found];
			l->edit.at = (size_t)(strstr(cell, query) - cell);
		}
		snprintf(l->prompt, sizeof(l->prompt), n && !i ? "(no %s) " : "(search: %s) ", query);
		key = cbx_keyboard_read(&l->keys);
		if (key == KEY_TEXT && n + strlen(l->keys.seen) <= QUERY_MAX) {
			strcpy(query + n, l->keys.seen);
			n += strlen(l->keys.seen);
		} else if ((key == KEY_DELETE || key == CTRL('H')) && n) {
			do
				n--;
			while (n && ((unsigned char)query[n] & 0xc0) == 0x80);
			query[n] = '\0';
			from = l->history.n;
		} else if (key == CTRL('R')) {
			from = found;
		} else if (key != KEY_TEXT && key != KEY_NONE) {
			break;
		}
	}
	strcpy(l->prompt, PROMPT);
	if (key == CTRL('G'))
		recall(l, l->history.n);
	return key == CTRL('G') ? KEY_NONE : key;
}

static enum next enter(struct cbx_lines *l)
{
	size_t begin = cbx_edit_line_begin(&l->edit, l->edit.at), n = 0;
	char indent[128] = "";

	if (cbx_edit_line_end(&l->edit, l->edit.at) < l->edit.text.len) { /* a line is split: the new one is indented as it is */
		while (begin + n < l->edit.at && n < sizeof(indent) - 1 && strchr(" \t", l->edit.text.data[begin + n])) {
			indent[n] = l->edit.text.data[begin + n];
			n++;
		}
	} else {
		l->edit.at = l->edit.text.len;
		if (l->paste_ended)
			cbx_buf_addc(&l->edit.text, '\n');
		if (cbx_edit_blank(&l->edit, 0, l->edit.text.len) || l->edit.too_long ||
		    !l->asks->incomplete(l->asks->arg, cbx_buf_str(&l->edit.text), indent, sizeof(indent)))
			return READY;
		if (l->paste_ended)
			l->edit.text.data[--l->edit.text.len] = '\0';
		l->paste_ended = false;
		if (!cbx_plain(indent))
			indent[0] = '\0';
	}
	cbx_edit_insert(&l->edit, "\n", 1);
	cbx_edit_insert(&l->edit, indent, strlen(indent));
	return GOES_ON;
}

static void prepare(struct cbx_lines *l)
{
	struct termios raw;

	if (tcgetattr(STDIN_FILENO, &l->saved) < 0)
		return;
	raw = l->saved;
	raw.c_iflag &= ~(tcflag_t)(ICRNL | INLCR | IGNCR | IXON);
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | IEXTEN);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	raw.c_cc[VQUIT] = raw.c_cc[VSUSP] = _POSIX_VDISABLE;
	(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
	if (l->brackets)
		(void)cbx_cli_out(PASTE_ON, strlen(PASTE_ON));
}

static void restore(const struct cbx_lines *l)
{
	if (l->brackets)
		(void)cbx_cli_out(PASTE_OFF, strlen(PASTE_OFF));
	(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &l->saved);
}

static void to_end(struct cbx_lines *l)
{
	l->edit.at = l->edit.text.len;
	show(l);
}

static void suspend(struct cbx_lines *l)
{
	to_end(l);
	cbx_draw_end(&l->draw);
	restore(l);
	raise(SIGTSTP);
	prepare(l);
}

static enum next end_of_input(struct cbx_lines *l)
{
	size_t begin = cbx_edit_line_begin(&l->edit, l->edit.at), end = cbx_edit_line_end(&l->edit, l->edit.at);

	if (cbx_edit_blank(&l->edit, 0, l->edit.text.len))
		return ENDED;
	if (end == l->edit.text.len && cbx_edit_blank(&l->edit, begin, end)) /* what is there is run */
		return READY;
	cbx_edit_cut(&l->edit, l->edit.at, cbx_edit_behind(&l->edit, l->edit.at));
	return GOES_ON;
}

static void change(struct cbx_lines *l, int key)
{
	switch (key) {
	case KEY_TEXT:
		cbx_edit_insert(&l->edit, l->keys.seen, strlen(l->keys.seen));
		break;
	case '\t':
		complete(l);
		break;
	case KEY_DELETE:
	case CTRL('H'):
		cbx_edit_backspace(&l->edit);
		break;
	case KEY_REMOVE:
		cbx_edit_cut(&l->edit, l->edit.at, cbx_edit_behind(&l->edit, l->edit.at));
		break;
	case CTRL('K'): /* the newline, at the end of a line */
		kill_part(l, l->edit.at, cbx_edit_line_end(&l->edit, l->edit.at) == l->edit.at ? cbx_edit_behind(&l->edit, l->edit.at) : cbx_edit_line_end(&l->edit, l->edit.at));
		break;
	case CTRL('U'):
		kill_part(l, cbx_edit_line_begin(&l->edit, l->edit.at), l->edit.at);
		break;
	case CTRL('W'):
	case KEY_REMOVE_WORD_LEFT:
		kill_part(l, cbx_edit_word_left(&l->edit, l->edit.at), l->edit.at);
		break;
	case KEY_REMOVE_WORD:
		kill_part(l, l->edit.at, cbx_edit_word_right(&l->edit, l->edit.at));
		break;
	case CTRL('Y'):
		cbx_edit_insert(&l->edit, cbx_buf_str(&l->killed), l->killed.len);
		break;
	case CTRL('T'):
		cbx_edit_swap(&l->edit);
		break;
	default:
		break;
	}
}

static void move(struct cbx_lines *l, int key)
{
	switch (key) {
	case KEY_UP:
	case CTRL('P'):
		up(l);
		break;
	case KEY_DOWN:
	case CTRL('N'):
		down(l);
		break;
	case KEY_LEFT:
	case CTRL('B'):
		l->edit.at = cbx_edit_before(&l->edit, l->edit.at);
		break;
	case KEY_RIGHT:
	case CTRL('F'):
		l->edit.at = cbx_edit_behind(&l->edit, l->edit.at);
		break;
	case KEY_HOME:
	case CTRL('A'):
		l->edit.at = cbx_edit_line_begin(&l->edit, l->edit.at);
		break;
	case KEY_END:
	case CTRL('E'):
		l->edit.at = cbx_edit_line_end(&l->edit, l->edit.at);
		break;
	case KEY_WORD_LEFT:
		l->edit.at = cbx_edit_word_left(&l->edit, l->edit.at);
		break;
	case KEY_WORD_RIGHT:
		l->edit.at = cbx_edit_word_right(&l->edit, l->edit.at);
		break;
	case CTRL('L'):
		(void)cbx_cli_out("\033[H\033[2J", 7);
		l->draw.any = false;
		break;
	default:
		change(l, key);
	}
}

static enum next on_key(struct cbx_lines *l, int key)
{
	switch (key) {
	case KEY_INTERRUPT:
		return DROPPED;
	case KEY_CLOSED:
		return ENDED;
	case '\r':
	case '\n':
		return enter(l);
	case KEY_RUN:
		return READY;
	case CTRL('D'):
		return end_of_input(l);
	case CTRL('R'):
		return on_key(l, search(l));
	case KEY_PASTE:
		key = paste(l);
		return key ? on_key(l, key) : GOES_ON;
	case CTRL('Z'):
		suspend(l);
		return GOES_ON;
	default:
		move(l, key);
		return GOES_ON;
	}
}

/* ---- a cell ---- */

static enum next edit(struct cbx_lines *l)
{
	enum next next;

	strcpy(l->prompt, PROMPT);
	cbx_edit_replace(&l->edit, "", 0);
	l->paste_ended = l->edit.too_long = false;
	l->recalled = l->history.n;
	cbx_keyboard_begin(&l->keys);
	/* Before the prompt is shown: what is typed at sight of it is then read as keys, Ctrl-D above all. */
	prepare(l);
	show(l);
	do
		next = on_key(l, cbx_keyboard_read(&l->keys));
	while (next == GOES_ON);
	if (l->paste_ended && next == READY && l->edit.text.len && l->edit.text.data[l->edit.text.len - 1] == '\n')
		l->edit.text.data[--l->edit.text.len] = '\0';
	to_end(l);
	if (next == DROPPED)
		(void)cbx_cli_out("^C", 2);
	cbx_draw_end(&l->draw);
	restore(l);
	cbx_keyboard_end(&l->keys);
	return next;
}

static enum cbx_line read_edited(struct cbx_lines *l, struct cbx_buf *ret)
{
	enum next next = edit(l);

	if (next == DROPPED) {
		cbx_keyboard_drop(&l->keys); /* a terminal drops its own, too */
		return CBX_LINE_INTERRUPTED;
	}
	if (next == ENDED)
		return CBX_LINE_END;
	if (l->edit.too_long)
		return CBX_LINE_BAD;
	cbx_buf_add(ret, l->edit.text.data, l->edit.text.len);
	if (l->paste_ended)
		cbx_buf_addc(ret, '\n');
	return CBX_LINE_TEXT;
}

/* One line. Here Ctrl-C does what it does to any program that reads. False: the end. */
static bool read_line(struct cbx_buf *ret)
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
		return false;
	if (n && line[n - 1] == '\n')
		n--;
	cbx_buf_add(ret, line, (size_t)n);
	return true;
}

static enum cbx_line read_plain(const struct cbx_lines *l, struct cbx_buf *ret)
{
	_cleanup_buf_ struct cbx_buf line = { 0 };
	char indent[128];

	for (bool first = true;; first = false) {
		cbx_buf_drop(&line, line.len);
		if (!read_line(&line))
			return first ? CBX_LINE_END : CBX_LINE_TEXT;
		if (!cbx_utf8_valid(cbx_buf_str(&line), line.len) || (line.len && memchr(line.data, '\0', line.len)) ||
		    ret->len + line.len > CBX_CODE_MAX)
			return CBX_LINE_BAD;
		if (!first)
			cbx_buf_addc(ret, '\n');
		cbx_buf_add(ret, line.data, line.len);
		if (first && strspn(cbx_buf_str(ret), " \t") == ret->len)
			return CBX_LINE_TEXT;
		if (!l->asks->incomplete(l->asks->arg, cbx_buf_str(ret), indent, sizeof(indent)))
			return CBX_LINE_TEXT;
	}
}

enum cbx_line cbx_lines_read(struct cbx_lines *l, struct cbx_buf *ret)
{
	cbx_buf_drop(ret, ret->len);
	return l->terminal ? read_edited(l, ret) : read_plain(l, ret);
}

static void set_locale(void)
{
	/* Widths are those of the locale's characters; what we say and send is UTF-8 always. */
	setlocale(LC_CTYPE, "");
	if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
		setlocale(LC_CTYPE, "C.UTF-8");
}

struct cbx_lines *cbx_lines_new(const char *history_file, const struct cbx_lines_asks *asks)
{
	struct cbx_lines *l = cbx_xcalloc(1, sizeof(*l));
	const char *term = getenv("TERM");

	l->asks = asks;
	l->keys.idle = on_idle;
	l->keys.arg = l;
	l->terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	if (!l->terminal)
		return l;
	set_locale();
	l->brackets = term && *term && strcmp(term, "dumb") != 0;
	cbx_recall_open(&l->history, history_file);
	return l;
}

void cbx_lines_free(struct cbx_lines *l)
{
	if (!l)
		return;
	cbx_recall_release(&l->history);
	cbx_draw_release(&l->draw);
	cbx_buf_release(&l->edit.text);
	cbx_buf_release(&l->killed);
	cbx_buf_release(&l->draft);
	cbx_buf_release(&l->keys.typed);
	free(l);
}

void cbx_lines_typed(struct cbx_lines *l, const struct cbx_buf *typed)
{
	cbx_keyboard_typed(&l->keys, typed);
}

bool cbx_lines_terminal(const struct cbx_lines *l)
{
	return l->terminal;
}

void cbx_lines_remember(struct cbx_lines *l, const char *cell)
{
	size_t n = strlen(cell);
	_cleanup_free_ char *text = NULL;

	if (!l->terminal)
		return;
	while (n && strchr(" \t\n", cell[n - 1]))
		n--;
	text = cbx_xasprintf("%.*s%s", (int)n, cell, strchr(cell + n, '\n') ? "\n" : "");
	cbx_recall_add(&l->history, text);
}
