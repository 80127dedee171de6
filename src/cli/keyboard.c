/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: SIGINT is blocked all the time (it belongs to the signalfd of the running cell) except inside the
 * ppoll() that waits for a key; its handler sets a flag, and the read fails with EINTR. So is SIGWINCH, from begin to end:
 * one that comes while the cell is drawn is not lost, but draws it again.
 */
#include "cli/keyboard.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ttydefaults.h>
#include <termios.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"

#define PASTE_END "\033[201~"

static volatile sig_atomic_t interrupted, resized;

static void on_signal(int sig)
{
	if (sig == SIGINT)
		interrupted = 1;
	else
		resized = 1;
}

void cbx_keyboard_begin(struct cbx_keyboard *k)
{
	const struct sigaction mine = { .sa_handler = on_signal };
	sigset_t winch;

	interrupted = 0;
	sigemptyset(&winch);
	sigaddset(&winch, SIGWINCH);
	sigprocmask(SIG_BLOCK, &winch, &k->old_mask);
	sigaction(SIGINT, &mine, &k->old_int);
	sigaction(SIGWINCH, &mine, &k->old_winch);
}

void cbx_keyboard_end(const struct cbx_keyboard *k)
{
	sigaction(SIGINT, &k->old_int, NULL);
	sigaction(SIGWINCH, &k->old_winch, NULL);
	sigprocmask(SIG_SETMASK, &k->old_mask, NULL);
}

void cbx_keyboard_typed(struct cbx_keyboard *k, const struct cbx_buf *typed)
{
	cbx_buf_drop(&k->typed, k->typed_at);
	k->typed_at = 0;
	cbx_buf_add(&k->typed, typed->data, typed->len);
}

void cbx_keyboard_drop(struct cbx_keyboard *k)
{
	k->typed_at = k->typed.len;
}

/* 1: a key can be read; -1 with errno EINTR: Ctrl-C. */
static int wait_key(struct cbx_keyboard *k)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	const struct timespec now = { 0 }, *wait = k->typed_at < k->typed.len ? &now : NULL;
	sigset_t mask;

	if (!wait && poll(&p, 1, 0) == 0)
		k->idle(k->arg, false);
	sigprocmask(SIG_BLOCK, NULL, &mask);
	sigdelset(&mask, SIGINT);
	sigdelset(&mask, SIGWINCH);
	/* With input there, ppoll lets a signal wait; a second one, for nothing, takes a Ctrl-C that was typed before
	 * it. */
	while (ppoll(&p, 1, wait, &mask) < 0 || ppoll(NULL, 0, &now, &mask) < 0) {
		if (errno != EINTR)
			return -1;
		if (resized) {
			resized = 0;
			k->idle(k->arg, true);
		}
		if (interrupted) {
			errno = EINTR;
			return -1;
		}
	}
	return 1;
}

/* 1, 0 at the end, or -1. */
static ssize_t read_byte(struct cbx_keyboard *k, char *ret)
{
	if (wait_key(k) < 0)
		return -1;
	if (k->typed_at == k->typed.len)
		return read(STDIN_FILENO, ret, 1);
	*ret = k->typed.data[k->typed_at++];
	return 1;
}

static int no_byte(ssize_t r)
{
	return r < 0 && interrupted ? KEY_INTERRUPT : KEY_CLOSED;
}

/* The rest of a control sequence, whose ESC [ or ESC O has been read. */
static int read_sequence(struct cbx_keyboard *k)
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
		r = read_byte(k, text + n);
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

static int read_escaped(struct cbx_keyboard *k)
{
	char c;
	ssize_t r = read_byte(k, &c);

	if (r <= 0)
		return no_byte(r);
	switch (c) {
	case '[':
	case 'O':
		return read_sequence(k);
	case 'b':
		return KEY_WORD_LEFT;
	case 'f':
		return KEY_WORD_RIGHT;
	case 'd':
		return KEY_REMOVE_WORD;
	case KEY_DELETE:
	case CTRL('H'):
		return KEY_REMOVE_WORD_LEFT;
	case '\r':
	case '\n':
		return KEY_RUN;
	default:
		return KEY_NONE;
	}
}

int cbx_keyboard_read(struct cbx_keyboard *k)
{
	size_t n = 0;
	ssize_t r = read_byte(k, k->seen);

	if (r <= 0)
		return no_byte(r);
	if (k->seen[0] == '\033')
		return read_escaped(k);
	if ((unsigned char)k->seen[0] < 0x20 || k->seen[0] == KEY_DELETE)
		return k->seen[0];
	for (n = 1; n < 4 && !cbx_utf8_len(k->seen, n); n++) {
		if ((unsigned char)k->seen[0] < 0xc2)
			break;
		r = read_byte(k, k->seen + n);
		if (r <= 0)
			return no_byte(r);
	}
	k->seen[n] = '\0';
	if (!cbx_utf8_len(k->seen, n))
		strcpy(k->seen, "\xef\xbf\xbd");
	return KEY_TEXT;
}

int cbx_keyboard_read_paste(struct cbx_keyboard *k, struct cbx_buf *out, bool *ret_cut)
{
	size_t matched = 0; /* bytes of the mark */
	bool cr = false;

	while (PASTE_END[matched]) {
		char c;
		ssize_t r = read_byte(k, &c);

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
			*ret_cut = true;
		}
	}
	return 0;
}
