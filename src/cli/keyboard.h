/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_KEYBOARD_H
#define CBX_CLI_KEYBOARD_H

/* Bytes of a terminal in raw mode, as keys. */
#include <signal.h>
#include <stdbool.h>

#include "base/buf.h"

/* What a key asks for; those of one byte stand for themselves, others follow here. */
enum key {
	KEY_DELETE = 0x7f, /* what Backspace sends */
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

struct cbx_keyboard {
	/* No key waits: what there is to show is shown. resized: the terminal has another size. */
	void (*idle)(void *arg, bool resized);
	void *arg;
	char seen[5];	      /* the character of KEY_TEXT, UTF-8 */
	struct cbx_buf typed; /* what was typed before, and is read first; from typed_at on */
	size_t typed_at;
	struct sigaction old_int, old_winch;
	sigset_t old_mask;
};

/* SIGINT and SIGWINCH are noticed between these. SIGINT is blocked. */
void cbx_keyboard_begin(struct cbx_keyboard *k);
void cbx_keyboard_end(const struct cbx_keyboard *k);
/* A byte below 0x20 or 0x7f as it is, or one of `enum key`. What is not UTF-8 becomes U+FFFD. */
int cbx_keyboard_read(struct cbx_keyboard *k);
/* After KEY_PASTE: up to the mark of its end, as text with one kind of newline and no other control characters. *ret_cut
 * becomes true where it has more than CBX_CODE_MAX bytes. 0, or the key that it ended with. */
int cbx_keyboard_read_paste(struct cbx_keyboard *k, struct cbx_buf *out, bool *ret_cut);
/* These bytes were typed before; or: forget those that were. */
void cbx_keyboard_typed(struct cbx_keyboard *k, const struct cbx_buf *typed);
void cbx_keyboard_drop(struct cbx_keyboard *k);

#endif
