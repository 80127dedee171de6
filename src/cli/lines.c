/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a cell is one text with newlines in it, and a cursor; keys change it, and it is drawn (draw.h)
 * when no more keys wait. SIGINT is blocked all the time (it belongs to the signalfd of the running cell) except inside
 * the ppoll() that waits for a key; its handler sets a flag, and the read fails with EINTR. Without a terminal there is
 * no prompt and no history.
 *
 * The terminal is asked to put marks around what is pasted (bracketed paste). A pasted text is put into the cell as it
 * is, with its blank lines and its own indentation, and nothing of it runs before Enter is pressed.
 *
 * Candidates of a completion come from the sandbox: they are typed into the text only when they are plain.
 */
#include "cli/lines.h"

#include <ctype.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/draw.h"
#include "cli/recall.h"

#define PASTE_ON  "\033[?2004h"
#define PASTE_OFF "\033[?2004l"
#define PASTE_END "\033[201~"
#define PROMPT	  ">>> "
#define INDENT	  4
#define SHOWN_MAX 200 /* candidates listed at once */
#define QUERY_MAX 60  /* bytes of what is searched for */

#define DELETE 0x7f

/* What a key asks for; those of one byte stand for themselves, others follow here. */
enum key {
	KEY_TEXT = 256, /* a character, in l->seen */
	KEY_UP,
	KEY_DOWN,
	KEY_LEFT,
	KEY_RIGHT,
	KEY_HOME,
	KEY_END,
	KEY_WORD_LEFT,
	KEY_WORD_RIGHT,
	KEY_REMOVE, /* at the cursor */
	KEY_REMOVE_WORD,
	KEY_REMOVE_WORD_LEFT,
	KEY_PASTE,
	KEY_RUN,
	KEY_NONE,
	KEY_CLOSED,
	KEY_INTERRUPT,
};

enum next { GOES_ON, READY, DROPPED, ENDED };

struct cbx_lines {
	const struct cbx_lines_asks *asks;
	bool terminal, brackets; /* brackets: the terminal is asked to mark what is pasted */
	struct termios saved;
	struct cbx_draw draw;
	struct cbx_recall history;
	char prompt[QUERY_MAX + 32];
	struct cbx_buf text;   /* what is edited: UTF-8, of characters that are seen, tabs and newlines */
	size_t at;	       /* the cursor, in bytes */
	struct cbx_buf killed; /* for Ctrl-Y */
	struct cbx_buf draft;  /* the text, while one of the history is shown */
	size_t recalled;       /* which one that is; history.n: none */
	bool paste_ended;      /* the pasted text ended with a newline */
	bool too_long;
	char seen[5];	      /* the character that was typed */
	struct cbx_buf typed; /* before the prompt was shown; from typed_at on */
	size_t typed_at;
};

static volatile sig_atomic_t interrupted, resized;

static void on_signal(int sig)
{
	if (sig == SIGINT)
		interrupted = 1;
	else
		resized = 1;
}

/* ---- the text ---- */

static size_t before(const struct cbx_lines *l, size_t at)
{
	if (at)
		at--;
	while (at && ((unsigned char)l->text.data[at] & 0xc0) == 0x80)
		at--;
	return at;
}

static size_t behind(const struct cbx_lines *l, size_t at)
{
	if (at < l->text.len)
		at++;
	while (at < l->text.len && ((unsigned char)l->text.data[at] & 0xc0) == 0x80)
		at++;
	return at;
}

static size_t line_begin(const struct cbx_lines *l, size_t at)
{
	while (at && l->text.data[at - 1] != '\n')
		at--;
	return at;
}

static size_t line_end(const struct cbx_lines *l, size_t at)
{
	while (at < l->text.len && l->text.data[at] != '\n')
		at++;
	return at;
}

static bool in_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static size_t word_left(const struct cbx_lines *l, size_t at)
{
	while (at && !in_word(l->text.data[at - 1]))
		at--;
	while (at && in_word(l->text.data[at - 1]))
		at--;
	return at;
}

static size_t word_right(const struct cbx_lines *l, size_t at)
{
	while (at < l->text.len && !in_word(l->text.data[at]))
		at++;
	while (at < l->text.len && in_word(l->text.data[at]))
		at++;
	return at;
}

/* Whether there is nothing but white space in a part. */
static bool blank(const struct cbx_lines *l, size_t from, size_t to)
{
	while (from < to && strchr(" \t\n", l->text.data[from]))
		from++;
	return from == to;
}

static void insert(struct cbx_lines *l, const char *p, size_t n)
{
	if (n > CBX_CODE_MAX || l->text.len > CBX_CODE_MAX - n) {
		l->too_long = true;
		return;
	}
	cbx_buf_reserve(&l->text, n + 1);
	memmove(l->text.data + l->at + n, l->text.data + l->at, l->text.len - l->at);
	memcpy(l->text.data + l->at, p, n);
	l->text.len += n;
	l->text.data[l->text.len] = '\0';
	l->at += n;
}

static void cut(struct cbx_lines *l, size_t from, size_t to)
{
	if (from >= to)
		return;
	memmove(l->text.data + from, l->text.data + to, l->text.len - to + 1);
	l->text.len -= to - from;
	if (l->at > from)
		l->at = l->at < to ? from : l->at - (to - from);
}

static void kill_part(struct cbx_lines *l, size_t from, size_t to)
{
	if (from >= to)
		return;
	cbx_buf_drop(&l->killed, l->killed.len);
	cbx_buf_add(&l->killed, l->text.data + from, to - from);
	cut(l, from, to);
}

static void replace(struct cbx_lines *l, const char *text, size_t n)
{
	l->text.len = l->at = 0;
	insert(l, text, n);
}

/* ---- keys ---- */

static void show(struct cbx_lines *l)
{
	cbx_draw(&l->draw, l->prompt, &l->text, l->at);
}

/* 1: a key can be read; -1 with errno EINTR: Ctrl-C. */
static int wait_key(struct cbx_lines *l)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	const struct timespec now = { 0 }, *wait = l->typed_at < l->typed.len ? &now : NULL;
	sigset_t mask;

	if (!wait && poll(&p, 1, 0) == 0)
		show(l);
	sigprocmask(SIG_BLOCK, NULL, &mask);
	sigdelset(&mask, SIGINT);
	/* With input there, ppoll lets a signal wait; a second one, for nothing, takes a Ctrl-C that was typed before
	 * it. */
	while (ppoll(&p, 1, wait, &mask) < 0 || ppoll(NULL, 0, &now, &mask) < 0) {
		if (errno != EINTR)
			return -1;
		if (resized) {
			cbx_draw_resized(&l->draw);
			show(l);
		}
		resized = 0;
		if (interrupted) {
			errno = EINTR;
			return -1;
		}
	}
	return 1;
}

/* 1, 0 at the end, or -1. */
static ssize_t read_byte(struct cbx_lines *l, char *ret)
{
	if (wait_key(l) < 0)
		return -1;
	if (l->typed_at == l->typed.len)
		return read(STDIN_FILENO, ret, 1);
	*ret = l->typed.data[l->typed_at++];
	return 1;
}

static int no_byte(ssize_t r)
{
	return r < 0 && interrupted ? KEY_INTERRUPT : KEY_CLOSED;
}

/* The rest of a control sequence, whose ESC [ or ESC O has been read. */
static int read_sequence(struct cbx_lines *l)
{
	static const struct {
		const char *text;
		int key;
	} known[] = {
		{ "A", KEY_UP },
		{ "B", KEY_DOWN },
		{ "C", KEY_RIGHT },
		{ "D", KEY_LEFT },
		{ "H", KEY_HOME },
		{ "F", KEY_END },
		{ "1~", KEY_HOME },
		{ "7~", KEY_HOME },
		{ "4~", KEY_END },
		{ "8~", KEY_END },
		{ "3~", KEY_REMOVE },
		{ "200~", KEY_PASTE },
		{ "1;5C", KEY_WORD_RIGHT },
		{ "1;5D", KEY_WORD_LEFT },
		{ "1;3C", KEY_WORD_RIGHT },
		{ "1;3D", KEY_WORD_LEFT },
	};
	char text[32];
	ssize_t r;

	for (size_t n = 0; n + 1 < sizeof(text);) {
		r = read_byte(l, text + n);
		if (r <= 0)
			return no_byte(r);
		if (text[n] < 0x20 || text[n] > 0x7e)
			return KEY_NONE;
		if (text[n++] < 0x40)
			continue;
		text[n] = '\0';
		for (size_t i = 0; i < ARRAY_SIZE(known); i++)
			if (strcmp(known[i].text, text) == 0)
				return known[i].key;
		return KEY_NONE;
	}
	return KEY_NONE;
}

static int read_escaped(struct cbx_lines *l)
{
	char c;
	ssize_t r = read_byte(l, &c);

	if (r <= 0)
		return no_byte(r);
	switch (c) {
	case '[':
	case 'O':
		return read_sequence(l);
	case 'b':
		return KEY_WORD_LEFT;
	case 'f':
		return KEY_WORD_RIGHT;
	case 'd':
		return KEY_REMOVE_WORD;
	case DELETE:
	case CTRL('H'):
		return KEY_REMOVE_WORD_LEFT;
	case '\r':
	case '\n':
		return KEY_RUN;
	default:
		return KEY_NONE;
	}
}

/* A key, or one character of UTF-8, byte by byte; what is none becomes U+FFFD. */
static int read_key(struct cbx_lines *l)
{
	size_t n = 0;
	ssize_t r = read_byte(l, l->seen);

	if (r <= 0)
		return no_byte(r);
	if (l->seen[0] == '\033')
		return read_escaped(l);
	if ((unsigned char)l->seen[0] < 0x20 || l->seen[0] == DELETE)
		return l->seen[0];
	for (n = 1; n < 4 && !cbx_utf8_len(l->seen, n); n++) {
		if ((unsigned char)l->seen[0] < 0xc2)
			break;
		r = read_byte(l, l->seen + n);
		if (r <= 0)
			return no_byte(r);
	}
	l->seen[n] = '\0';
	if (!cbx_utf8_len(l->seen, n))
		strcpy(l->seen, "\xef\xbf\xbd");
	return KEY_TEXT;
}

/* ---- what keys do ---- */

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

/* Below the text, which is drawn again below them. */
static void list_candidates(struct cbx_lines *l, char *const *texts)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };
	size_t n = 0, at = l->at;

	l->at = l->text.len;
	show(l);
	cbx_draw_end(&l->draw);
	l->at = at;
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
	_cleanup_(cbx_candidates_release) struct cbx_candidates found = { 0 };
	_cleanup_free_ char *text = strndup(l->text.len ? l->text.data : "", l->at), *add = NULL;
	size_t common, from = l->at;

	if (blank(l, line_begin(l, l->at), l->at)) { /* nothing is written yet: an indentation */
		insert(l, "    ", INDENT);
		return;
	}
	if (!text || !l->asks->complete(l->asks->arg, text, &found) || !found.texts || !found.texts[0])
		return;
	common = common_prefix(found.texts);
	add = strndup(found.texts[0], common);
	if (!add || !cbx_plain(add) || !cbx_is_clean(add) || found.replaced > cbx_utf8_count(text, l->at))
		return;
	if (found.texts[1] && cbx_utf8_count(add, common) <= found.replaced) {
		list_candidates(l, found.texts);
		return;
	}
	while (found.replaced--)
		from = before(l, from);
	cut(l, from, l->at);
	insert(l, add, common);
}

/* Up to the mark of its end, as text: one kind of newline, no other control characters. 0, or the key that it ended
 * with. */
static int read_paste(struct cbx_lines *l, struct cbx_buf *out)
{
	size_t matched = 0; /* bytes of the mark */
	bool cr = false;

	while (PASTE_END[matched]) {
		char c;
		ssize_t r = read_byte(l, &c);

		if (r <= 0)
			return no_byte(r);
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
		if (out->len > CBX_CODE_MAX) {
			cbx_buf_drop(out, out->len - CBX_CODE_MAX);
			l->too_long = true;
		}
	}
	return 0;
}

static int paste(struct cbx_lines *l)
{
	_cleanup_buf_ struct cbx_buf raw = { 0 }, text = { 0 };
	size_t begin;
	int key = read_paste(l, &raw);

	if (key || !raw.len)
		return key;
	cbx_utf8_append(&text, raw.data, raw.len);
	l->paste_ended = text.data[text.len - 1] == '\n';
	while (text.len && text.data[text.len - 1] == '\n')
		text.len--;
	begin = line_begin(l, l->at);
	/* An indentation that was typed ahead, before lines that have their own, would be one too many. */
	if (text.len && strchr(" \t", text.data[0]) && memchr(text.data, '\n', text.len) && blank(l, begin, l->at))
		cut(l, begin, l->at);
	insert(l, text.data, text.len);
	return 0;
}

/* Within the indentation: back to the level before. */
static void backspace(struct cbx_lines *l)
{
	size_t begin = line_begin(l, l->at), n = l->at - begin, spaces = 0;

	while (spaces < n && l->text.data[begin + spaces] == ' ')
		spaces++;
	cut(l, n && spaces == n ? l->at - (n - 1) % INDENT - 1 : before(l, l->at), l->at);
}

static void swap(struct cbx_lines *l)
{
	size_t end = l->at == line_end(l, l->at) ? l->at : behind(l, l->at), mid = before(l, end),
	       from = before(l, mid);
	char c[8];

	if (from >= mid || from < line_begin(l, l->at) || l->text.data[from] == '\n')
		return;
	memcpy(c, l->text.data + from, mid - from);
	memmove(l->text.data + from, l->text.data + mid, end - mid);
	memcpy(l->text.data + from + (end - mid), c, mid - from);
	l->at = end;
}

static void vertically(struct cbx_lines *l, bool up)
{
	size_t begin = line_begin(l, l->at), column = cbx_utf8_count(l->text.data + begin, l->at - begin), end;

	l->at = up ? line_begin(l, begin - 1) : line_end(l, l->at) + 1;
	for (end = line_end(l, l->at); column && l->at < end; column--)
		l->at = behind(l, l->at);
}

static void recall(struct cbx_lines *l, size_t which)
{
	if (which > l->history.n)
		return;
	if (l->recalled == l->history.n) {
		cbx_buf_drop(&l->draft, l->draft.len);
		cbx_buf_add(&l->draft, l->text.data, l->text.len);
	}
	l->recalled = which;
	if (which == l->history.n)
		replace(l, cbx_buf_str(&l->draft), l->draft.len);
	else
		replace(l, l->history.cells[which], strlen(l->history.cells[which]));
}

/* To the line above, or else to the cell before. */
static void up(struct cbx_lines *l)
{
	if (line_begin(l, l->at))
		vertically(l, true);
	else if (l->recalled)
		recall(l, l->recalled - 1);
}

static void down(struct cbx_lines *l)
{
	if (line_end(l, l->at) < l->text.len)
		vertically(l, false);
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
			l->at = (size_t)(strstr(cell, query) - cell);
		}
		snprintf(l->prompt, sizeof(l->prompt), n && !i ? "(no %s) " : "(search: %s) ", query);
		key = read_key(l);
		if (key == KEY_TEXT && n + strlen(l->seen) <= QUERY_MAX) {
			strcpy(query + n, l->seen);
			n += strlen(l->seen);
		} else if ((key == DELETE || key == CTRL('H')) && n) {
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
	size_t begin = line_begin(l, l->at), n = 0;
	char indent[128] = "";

	if (line_end(l, l->at) < l->text.len) { /* a line is split: the new one is indented as it is */
		while (begin + n < l->at && n < sizeof(indent) - 1 && strchr(" \t", l->text.data[begin + n])) {
			indent[n] = l->text.data[begin + n];
			n++;
		}
	} else {
		l->at = l->text.len;
		if (l->paste_ended)
			cbx_buf_addc(&l->text, '\n');
		if (blank(l, 0, l->text.len) || l->too_long ||
		    !l->asks->incomplete(l->asks->arg, cbx_buf_str(&l->text), indent, sizeof(indent)))
			return READY;
		if (l->paste_ended)
			l->text.data[--l->text.len] = '\0';
		l->paste_ended = false;
		if (!cbx_plain(indent))
			indent[0] = '\0';
	}
	insert(l, "\n", 1);
	insert(l, indent, strlen(indent));
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
	l->at = l->text.len;
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
	size_t begin = line_begin(l, l->at), end = line_end(l, l->at);

	if (blank(l, 0, l->text.len))
		return ENDED;
	if (end == l->text.len && blank(l, begin, end)) /* what is there is run */
		return READY;
	cut(l, l->at, behind(l, l->at));
	return GOES_ON;
}

static void change(struct cbx_lines *l, int key)
{
	switch (key) {
	case KEY_TEXT:
		insert(l, l->seen, strlen(l->seen));
		break;
	case '\t':
		complete(l);
		break;
	case DELETE:
	case CTRL('H'):
		backspace(l);
		break;
	case KEY_REMOVE:
		cut(l, l->at, behind(l, l->at));
		break;
	case CTRL('K'): /* the newline, at the end of a line */
		kill_part(l, l->at, line_end(l, l->at) == l->at ? behind(l, l->at) : line_end(l, l->at));
		break;
	case CTRL('U'):
		kill_part(l, line_begin(l, l->at), l->at);
		break;
	case CTRL('W'):
	case KEY_REMOVE_WORD_LEFT:
		kill_part(l, word_left(l, l->at), l->at);
		break;
	case KEY_REMOVE_WORD:
		kill_part(l, l->at, word_right(l, l->at));
		break;
	case CTRL('Y'):
		insert(l, cbx_buf_str(&l->killed), l->killed.len);
		break;
	case CTRL('T'):
		swap(l);
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
		l->at = before(l, l->at);
		break;
	case KEY_RIGHT:
	case CTRL('F'):
		l->at = behind(l, l->at);
		break;
	case KEY_HOME:
	case CTRL('A'):
		l->at = line_begin(l, l->at);
		break;
	case KEY_END:
	case CTRL('E'):
		l->at = line_end(l, l->at);
		break;
	case KEY_WORD_LEFT:
		l->at = word_left(l, l->at);
		break;
	case KEY_WORD_RIGHT:
		l->at = word_right(l, l->at);
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
	struct sigaction mine = { .sa_handler = on_signal }, old_int, old_winch;
	enum next next;

	strcpy(l->prompt, PROMPT);
	replace(l, "", 0);
	l->paste_ended = l->too_long = false;
	l->recalled = l->history.n;
	interrupted = 0;
	sigaction(SIGINT, &mine, &old_int);
	sigaction(SIGWINCH, &mine, &old_winch);
	/* Before the prompt is shown: what is typed at sight of it is then read as keys, Ctrl-D above all. */
	prepare(l);
	show(l);
	do
		next = on_key(l, read_key(l));
	while (next == GOES_ON);
	if (l->paste_ended && next == READY && l->text.len && l->text.data[l->text.len - 1] == '\n')
		l->text.data[--l->text.len] = '\0';
	to_end(l);
	if (next == DROPPED)
		(void)cbx_cli_out("^C", 2);
	cbx_draw_end(&l->draw);
	restore(l);
	sigaction(SIGINT, &old_int, NULL);
	sigaction(SIGWINCH, &old_winch, NULL);
	return next;
}

static enum cbx_line read_edited(struct cbx_lines *l, struct cbx_buf *ret)
{
	enum next next = edit(l);

	if (next == DROPPED) {
		l->typed_at = l->typed.len; /* a terminal drops its own, too */
		return CBX_LINE_INTERRUPTED;
	}
	if (next == ENDED)
		return CBX_LINE_END;
	if (l->too_long)
		return CBX_LINE_BAD;
	cbx_buf_add(ret, l->text.data, l->text.len);
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
	cbx_buf_release(&l->text);
	cbx_buf_release(&l->killed);
	cbx_buf_release(&l->draft);
	cbx_buf_release(&l->typed);
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
