/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_COMMAND_COMMAND_H
#define CBX_COMMAND_COMMAND_H

/*
 * Commands, as the protocols see them: programs of a session, beside its interpreter and under the same limits. They
 * share their numbers with its executions. The pointers are borrowed, and valid while an operation on one is pending,
 * or until the event loop runs again.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/op.h"
#include "execution/execution.h"
#include "interp/input.h"

struct cbx_command;

/* What is to become of output that nobody takes. */
enum cbx_unread {
	CBX_UNREAD_CUT,	   /* its beginning and its end are kept */
	CBX_UNREAD_WAITS,  /* it is kept until it was confirmed; once it is much, the program waits */
	CBX_UNREAD_OLDEST, /* the same, but the program never waits: the oldest is forgotten */
};

/* A zeroed struct with `argv` is a program without input or terminal. Pointers are borrowed for the call. */
struct cbx_command_spec {
	const cJSON *argv;	  /* strings, one at least */
	const cJSON *environment; /* name and value, beside those of the session; NULL: none */
	const struct cbx_via *via; /* who asked; NULL: not known */
	const char *directory;	   /* as seen from the workspace; NULL: its image's, or else the workspace */
	uint64_t timeout_ms;	  /* then it is ended; 0: never */
	bool input;		  /* its standard input is what cbx_command_input() gives it; else it is at its end */
	bool terminal;		  /* it has one, of its own */
	bool files;		  /* its end comes with a list of those that it has changed */
	bool ours;		  /* it is codebox's own program: in the workspace, and no rules for code concern it */
	uint16_t rows, columns;	  /* of that; 0: not known */
	enum cbx_unread unread;
};

/*
 * A watch of a command. With on_output it is attached: it takes what the command prints, first of all what was kept
 * since nobody did; stream is "stdout" or "stderr", that of a terminal "stdout"; bytes are as they came. Another that
 * is attached takes its place. With on_news it is attached, too, and takes nothing: it hears that there is more to be
 * read (cbx_command_since()). Without either it waits for the end, which is `done`. err: it could not be started, its
 * session has gone, or ("taken_over") another is attached; NULL: it has ended.
 */
struct cbx_command_op {
	struct cbx_op op;
	/* Its program runs, or did. May be NULL. omitted: the number of bytes that were not kept before these. */
	void (*on_start)(struct cbx_command_op *op, struct cbx_command *c, uint64_t omitted);
	void (*on_output)(struct cbx_command_op *op, struct cbx_command *c, const char *stream, const char *p,
			  size_t n);
	void (*on_news)(struct cbx_command_op *op, struct cbx_command *c);
	void (*done)(struct cbx_command_op *op, struct cbx_command *c, const struct cbx_err *err);
	struct cbx_command *command; /* set by the engine; while it is pending, the command is there */
};

/* Attach, or wait for its end. Errors: "too_many_watchers"; "not_kept": on_news of a command with CBX_UNREAD_CUT. */
int cbx_command_watch(struct cbx_command *c, struct cbx_command_op *op, struct cbx_err *err);
/* Do not read what it prints, until told otherwise, while somebody is attached: it waits, as for any slow reader. */
void cbx_command_stall(struct cbx_command *c, bool on);
/* As cbx_execution_input(). */
int cbx_command_input(struct cbx_command *c, const char *p, size_t n, struct cbx_input_op *op, struct cbx_err *err);
uint64_t cbx_command_given(const struct cbx_command *c); /* bytes of input, so far */
bool cbx_command_terminal(const struct cbx_command *c);
void cbx_command_resize(struct cbx_command *c, uint16_t rows, uint16_t columns);
/* To it, its descendants and the members of its session; one that has not begun ends. */
void cbx_command_signal(struct cbx_command *c, int sig);
/* Who was attached has gone without a word, as when a terminal is closed: no input, SIGHUP. What survives that runs on.
 */
void cbx_command_hang_up(struct cbx_command *c);
/* SIGINT, as Ctrl-C; SIGKILL after the grace period. It ends as cancelled. */
void cbx_command_interrupt(struct cbx_command *c);
uint64_t cbx_command_id(const struct cbx_command *c);
enum cbx_status
cbx_command_status(const struct cbx_command *c); /* never CBX_OK while anything is still to come of it */
/* The members of cbx_execution_to_json() that a command has, and "argv", "terminal", "attached", "directory"?. */
cJSON *cbx_command_to_json(const struct cbx_command *c);
/* Those that it has changed, and for who adds to what is known of them; NULL: none. */
const cJSON *cbx_command_files(const struct cbx_command *c);
cJSON *cbx_command_files_open(struct cbx_command *c);
/* That has been done: cbx_commands_events.keep. */
void cbx_command_files_kept(struct cbx_command *c);
/* The same without what it printed. */
cJSON *cbx_command_describe(const struct cbx_command *c);
/* Of one that is read by places in all that it printed: from where to where that is kept. False: it is not read so. */
bool cbx_command_kept(const struct cbx_command *c, uint64_t *ret_from, uint64_t *ret_end);
/* As much is kept as is to be: the program waits until some of it is confirmed. */
bool cbx_command_waits(const struct cbx_command *c);
/* What is kept from a place on, in order; fn changes nothing of the command. */
void cbx_command_since(const struct cbx_command *c, uint64_t from,
		       void (*fn)(void *arg, const char *stream, const char *p, size_t n), void *arg);
/* Somebody has all before this place: it is forgotten. */
void cbx_command_confirm(struct cbx_command *c, uint64_t before);
/* Nobody wants what it prints, or has printed. */
void cbx_command_discard(struct cbx_command *c);
/* As cbx_execution_output(), without a file. */
bool cbx_command_output(const struct cbx_command *c, uint64_t from, size_t max, struct cbx_buf *out,
			struct cbx_output_extent *ret);

#endif
