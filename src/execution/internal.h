/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_EXECUTION_INTERNAL_H
#define CBX_EXECUTION_INTERNAL_H

/*
 * One execution, from its place in the queue to what is remembered of it. What the files of src/execution share:
 *
 *   cells.c      the cells of one session: which is next, time limits, what its interpreters say
 *   seats.c      its interpreters, one for each language
 *   ends.c       the ways to an end, and what is said of each; errors that a limit explains
 *   record.c     one execution: its end, which all of these come to
 *   apply.c      what it shows and prints
 *   keep.c       ended executions of all tenants: how much memory they may use; who comes back for one
 *   forget.c     for how long those of a session are remembered
 *   history.c    what a session has run, for an export of it
 *   report.c     an execution as JSON
 *   watch.c      who learns what it does
 *   output.c     bounded record of what was printed; spill.c: the whole of it, in a file of the session
 *   changes.c    the files that it changed; mime.c: their types and names
 */
#include <sys/queue.h>

#include "base/buf.h"
#include "box/files.h"
#include "cgroup/group.h"
#include "execution/execution.h"
#include "execution/output.h"
#include "execution/state.h"
#include "interp/frames.h"

struct cbx_feed;
struct cbx_spill;
struct cbx_watcher;
TAILQ_HEAD(cbx_watchers, cbx_watcher);

/* What ran during one cell has used. */
struct cbx_cell_usage {
	const char *source; /* "cgroup": the kernel counted; "interpreter": it says so itself; NULL: not known */
	uint64_t cpu_us;
	bool has_memory, has_io;
	uint64_t memory;     /* bytes in use at the end */
	uint64_t peak;	     /* 0: not known */
	const char *peak_of; /* cbx_cgroup_peak_of(); "process" when the interpreter says it */
	uint64_t io_read, io_written;
};

enum cbx_phase { CBX_PHASE_RUN, CBX_PHASE_INTERRUPTED_EARLY, CBX_PHASE_INTERRUPTED, CBX_PHASE_KILLED };

struct cbx_held {
	char key[CBX_HOLD_KEY + 1];
	uint64_t wall_ms, clock_ms; /* when it was made: by the calendar, and as cbx_now_ms() */
};

struct cbx_execution {
	TAILQ_ENTRY(cbx_execution) entry; /* cells.queue, then none while it runs, then cells.ended */
	TAILQ_ENTRY(cbx_execution) kept_entry;
	struct cbx_cells *cells;
	struct cbx_seat *seat; /* whose interpreter runs it */
	uint64_t id;
	enum cbx_status status;	  /* final once it has left cells.running */
	enum cbx_status stopping; /* CBX_TIMEOUT or CBX_CANCELLED once it is being stopped */
	enum cbx_phase phase;
	bool finishing; /* status is known; only its output's file and the list of its files are waited for */
	bool keeping;	/* its files are being kept, and are waited for, too */
	bool overdue;	/* they are waited for no longer */
	bool delivered; /* the ends of its watches have been called */
	bool stripped;	/* its output and displays were dropped for newer ones */
	bool lost;	/* and there were some */
	bool past;	/* it is in cells.past */
	bool later;	/* it is in kept.held */
	size_t kept;	/* bytes of it that keep.c counts; 0: it is not in that list */
	char *code;	/* until it is sent, or as long as it is there: see history.c */
	char *dialect;	/* of its language; NULL: the language itself */
	char head[CBX_CODE_HEAD + 1]; /* how it begins */
	cJSON *program; /* likewise: what its frame has beside the code; NULL: nothing */
	char *file;	/* of the program, in the workspace; NULL: a cell */
	uint32_t link_s; /* of its files; 0: as the policy says */
	cJSON *store;	 /* that they go to, {"store","secret"}; NULL: as the policy says */
	bool streamed, wants_input, asks;
	bool asking; /* it waits for an answer: what else it asks is ignored */
	bool ruled, judged, refused; /* it has rules for code; their word has come; and it is no */
	struct cbx_feed *feed; /* its standard input; NULL: it has none, or that has ended */
	uint64_t unread;       /* bytes of it that were left in the pipe */
	uint64_t timeout_ms;
	uint64_t asked_wall_ms, asked_ms; /* when it came: since 1970, and as cbx_now_ms() */
	uint64_t start_ms, end_ms;
	struct cbx_watchers watchers;
	unsigned calling;
	struct cbx_output output;
	struct cbx_spill *spill;
	struct cbx_file_op changes; /* the files that it changed */
	struct cbx_ops ops;
	int64_t since_ns;	     /* CLOCK_REALTIME_COARSE, what files are stamped with, at its start */
	cJSON *files;		     /* NULL: none */
	uint64_t files_omitted;
	size_t files_bytes;
	bool files_unknown, no_files; /* no_files: there is none that could have changed */
	cJSON *displays;
	size_t ndisplays, display_bytes, code_bytes;
	uint64_t displays_dropped, displays_invalid;
	bool clear_pending;
	char *result; /* text/plain of the last result */
	char *error_name, *error_value, *error_traceback;
	bool has_count, has_exit_code, state_kept;
	bool as_program; /* the status with which the interpreter dies is its own */
	uint64_t count;
	int64_t exit_code;
	struct cbx_buf message, note; /* what happened; what is worth knowing beside it */
	struct cbx_cgroup_usage before; /* at its start */
	struct cbx_cell_usage usage;
	struct cbx_held *hold; /* NULL: not held */
};

/* ---- record.c ---- */

struct cbx_execution *cbx_execution_new(struct cbx_seat *seat, const struct cbx_cell_spec *cell);
void cbx_execution_free(struct cbx_execution *x); /* it is in no list */
/*
 * The end: x is cells.running, or queued. It may take a moment, in which its status is final already and the file of its
 * output is written; then it is in cells.ended, and `ended` is called. Once is enough: what ends twice ended the first
 * time; but after cells.closed nothing is waited for.
 */
void cbx_execution_end(struct cbx_execution *x, enum cbx_status status);
#define CBX_SPILL_WAIT_MS 2000 /* an execution's end waits so long for its file, and for the list of its files */

/* ---- ends.c ---- */

void cbx_end_done(struct cbx_execution *x, const struct cbx_frame *f);
void cbx_end_died(struct cbx_execution *x, const char *how);
void cbx_end_closed(struct cbx_execution *x, const char *why);
/* It is queued: why it did not run, as a sentence. */
void cbx_end_unrun(struct cbx_execution *x, enum cbx_status status, const char *why);

/* ---- apply.c ---- */

void cbx_apply_frame(struct cbx_execution *x, const struct cbx_frame *f); /* all but DONE */
void cbx_apply_print(struct cbx_execution *x, enum cbx_stream stream, const char *p, size_t n);
void cbx_apply_flush(struct cbx_execution *x); /* no more is printed: what was held back is passed on */

#define CBX_SAYS_LESS_MEMORY "Delete what is not needed, work in parts, or use a session with more memory. "

/* ---- keep.c ---- */

void cbx_keep(struct cbx_execution *x); /* it was delivered: count it, and strip the oldest of who has most */
void cbx_keep_forget(struct cbx_execution *x);
void cbx_keep_end(struct cbx_cells *c); /* all of its executions are freed */
size_t cbx_execution_memory(const struct cbx_execution *x);
/* It is held, and its time is not over. Who counts such ones says what time it is, once. */
bool cbx_hold_counts(const struct cbx_execution *x, uint64_t now);

/* It has left cells.ended for cells.past: nobody finds it any more, so it goes before those that somebody can. */
void cbx_keep_past(struct cbx_execution *x);
void cbx_keep_drop(struct cbx_execution *x); /* it is in cells.past */

/* ---- forget.c ---- */

void cbx_watch_age(struct cbx_cells *c); /* one has ended, and the policy says for how long it is kept */
int cbx_forgotten(const struct cbx_cells *c, uint64_t id, struct cbx_err *err); /* it was there; why it is not */

/* ---- history.c ---- */

/* One that has left cells.ended: it is kept for an export, or freed. */
void cbx_history_add(struct cbx_execution *x);

/* ---- watch.c ---- */

void cbx_watch_tell(struct cbx_execution *x, const struct cbx_progress *progress);
void cbx_watch_end(struct cbx_execution *x); /* takes all off */
void cbx_watch_free(struct cbx_execution *x);

/* ---- changes.c ---- */

/* What init says of them, or that it does not. */
void cbx_changes_read(struct cbx_execution *x, const struct cbx_file_reply *reply, const struct cbx_err *err);

#endif
