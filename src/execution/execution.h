/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_EXECUTION_EXECUTION_H
#define CBX_EXECUTION_EXECUTION_H

/*
 * Executions, as the protocols see them: each is one cell of a session, in its queue, running or ended. The pointers
 * are borrowed, and valid until the execution is forgotten: while a watch of it is pending, or until the event loop
 * runs again.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/op.h"
#include "base/says.h"
#include "base/str.h"
#include "interp/input.h"

struct cbx_execution;
struct cbx_via;
struct cbx_session;

enum cbx_status {
	CBX_QUEUED,
	CBX_RUNNING,
	CBX_OK,
	CBX_ERROR,     /* an exception in the code */
	CBX_TIMEOUT,   /* time was up; state_kept says whether variables survived */
	CBX_KILLED,    /* the interpreter died or was killed: memory, a signal, exit */
	CBX_CANCELLED, /* interrupted on request */
};
const char *cbx_status_name(enum cbx_status status); /* "queued", "running", "ok", … */

/* What to run. A zeroed struct with `code` is a plain cell. Pointers are borrowed for the call. */
struct cbx_cell_spec {
	const char *code;
	const char *language; /* a name of it; NULL: what the code's first line says ("%%bash"), else the session's own */
	const char *dialect;  /* set by the engine: the name of the language for the runtime's driver */
	uint64_t timeout_ms; /* 0: the session's default */
	bool unlimited;	     /* no time limit but the policy's ceiling; timeout_ms is 0 */
	bool streamed;	     /* the watch takes all that is printed, and slows the cell: no file of its output is made */
	bool input;	     /* its standard input is what cbx_execution_input() gives it; else /dev/null */
	bool asks;	     /* instead: it asks for each line of it, where its language can */
	const cJSON *argv;   /* strings, for the program's arguments; NULL: as they are */
	const char *file;    /* run as a program, from a file of this name; code is then in base64. NULL: a cell */
	const struct cbx_via *via; /* who asked; NULL: not known */
	bool last;	     /* the session ends with it: a program's threads and exit handlers are waited for */
	uint32_t link_s;     /* links to its files are good for no longer than this; 0: as long as the policy allows */
	/* Of an object store that a request names, and which its files go to: as the request has it, both may be NULL;
	 * and what the engine makes of that, {"store","secret"}. */
	const char *store_string, *container;
	const cJSON *store;
	bool ours;	     /* it is codebox's own: no rules for code concern it */
	const cJSON *without; /* names of such rules that it does without, if the policy lets it; NULL: none */
	const cJSON *rules;  /* set by the engine: those in force; NULL: none */
};

/* What an execution does, the last of which is that it ends. */
struct cbx_progress {
	/* judged: rules for code let it run, or not; cleared: all that came before is void */
	enum { CBX_STARTED, CBX_JUDGED, CBX_PRINTED, CBX_SHOWN, CBX_CLEARED, CBX_ASKED, CBX_ENDED } what;
	const char *stream; /* printed: "stdout" or "stderr", and the bytes as they came */
	const char *p;
	size_t n;
	const char *prompt;  /* asked: what for; a line of input is the answer */
	bool password;	     /* asked: it is not to be seen */
	bool refused;	     /* judged: it is not run */
	bool at_once;	     /* cleared: else something comes in its place, now */
	const cJSON *bundle; /* shown: {"data":{…},"metadata":{…},"is_result"?} */
};

/* A watch: an operation that is called back for what the execution does. It is pending until it hears of the end. */
struct cbx_watch_op {
	struct cbx_op op;
	void (*on_progress)(struct cbx_watch_op *op, struct cbx_execution *x, const struct cbx_progress *progress);
	struct cbx_execution *x; /* set by the engine; while it is pending, the execution is there */
};

/* Do not read what a cell prints, until told otherwise; it waits, as for any slow reader. The end of the cell ends it. */
void cbx_execution_stall(struct cbx_execution *x, bool on);
/*
 * Standard input for a running cell; n 0: its end. 1: the cell's pipe took all of it. 0: it takes time, and the
 * operation is pending. Errors: "no_input" (it has none, or has ended), "busy" (the input before this one has not been
 * taken).
 */
int cbx_execution_input(struct cbx_execution *x, const char *p, size_t n, struct cbx_input_op *op,
			struct cbx_err *err);
/* One watch more, up to CBX_WATCHERS_MAX. Errors: "ended" (nothing would be called any more), "too_many_watchers". */
int cbx_execution_watch(struct cbx_execution *x, struct cbx_watch_op *op, struct cbx_err *err);
uint64_t cbx_execution_id(const struct cbx_execution *x); /* counts from 1 in its session */
/* Milliseconds since 1970: when it was asked for; when it ended, 0 until then. */
void cbx_execution_times(const struct cbx_execution *x, uint64_t *ret_asked, uint64_t *ret_ended);
/* How long it waited and ran, and what it used; 0: it did not run, or that is not known. */
struct cbx_execution_use {
	uint64_t wait_ms, run_ms, cpu_us, memory_peak;
};
void cbx_execution_use(const struct cbx_execution *x, struct cbx_execution_use *ret);
struct cbx_session *cbx_execution_session(const struct cbx_execution *x);
/* How its code begins, as bytes that may end amid a character; of a program, its file. */
#define CBX_CODE_HEAD 200
const char *cbx_execution_head(const struct cbx_execution *x);
enum cbx_status cbx_execution_status(const struct cbx_execution *x);
/* Rules for code refuse it, and nothing of it ran: why, once it has ended. NULL: not so. */
const char *cbx_execution_refusal(const struct cbx_execution *x);
/* It is remembered, but what it printed and showed is not: error "execution_forgotten". 0: not so. */
int cbx_execution_lost(const struct cbx_execution *x, struct cbx_err *err);
/*
 * Keep an execution for CBX_HOLD_MS after its end, or as long as the policy keeps any if that is less, while its
 * session lives and memory suffices, however many come after it; and give it a key that cannot be guessed. Error:
 * "too_many_holds".
 */
int cbx_execution_hold(struct cbx_execution *x, struct cbx_err *err);
#define CBX_HOLD_KEY 26 /* characters, of 32 */
struct cbx_hold {
	const char *key; /* borrowed */
	uint64_t created_ms, updated_ms; /* when the hold was made; when it changed last, that is then or at the end: ms
					  * since 1970 */
	uint64_t kept_ms; /* from created_ms on it is kept so long, if memory suffices; grows until the end */
};
bool cbx_execution_held(const struct cbx_execution *x, struct cbx_hold *ret); /* false: it is not */
/*
 * {"session_id","execution_id","status","state_kept","execution_count","exit_code"?,"stdout","stderr","output" (both,
 *  in order),"result"? (text/plain),"error"?{name,value,traceback},"message"? (what happened and what to do, for
 *  timeout, killed and cancelled),"displays":[{"data","metadata","is_result"}],"omitted"?{"bytes","file",
 *  "where" (how much of the output is in the file, as a clause)},
 *  "duration_ms","usage"?,"files":[{"path","size","mime_type","uri"}],"files_omitted"?}
 * usage: {"source","cpu_ms","memory_bytes"?,"memory_peak_bytes"?,"memory_peak_of"?,"io_read_bytes"?,"io_write_bytes"?},
 * of what ran during the cell. source "cgroup": the kernel counted all processes; "interpreter": it says so of itself
 * and its children, and code can make it say anything. memory_peak_of: cgroup/group.h.
 * files: what changed below /workspace while it ran; paths relative to that; the uri keeps bytes that are not UTF-8.
 * Those that are kept have "artifact_id", "kept_until" and perhaps "link" and "link_expires", else "not_kept": why;
 * "not_uploaded" says why there is no copy in the policy's object store.
 * Text is valid UTF-8. with_displays: false leaves binary data out and lists only {"mime","bytes"}.
 */
cJSON *cbx_execution_to_json(const struct cbx_execution *x, bool with_displays);
/*
 * A cell with what it has printed and shown so far: as cbx_execution_to_json() but for that, and with "code" (if it is
 * kept), "language", "file" (then the code is in base64), "asked_ms", and "outputs", in order: {"stream","text"} or
 * {"data","metadata","is_result","display_id"?}.
 */
cJSON *cbx_execution_entry(const struct cbx_execution *x);
/* Where the output of an execution is, as offsets in what was printed (both streams, in order, as they came). */
struct cbx_output_extent {
	uint64_t total;	  /* bytes so far */
	const char *file; /* NULL: none is needed so far */
	uint64_t in_file; /* what lies before this is in the file, at the same offset; what follows in it is not */
	uint64_t will_be; /* what lies before this will be, soon */
	uint64_t kept;	  /* memory has all from here on */
};
/* Up to max bytes from an offset on, when memory still holds them. */
bool cbx_execution_output(const struct cbx_execution *x, uint64_t from, size_t max, struct cbx_buf *out,
			  struct cbx_output_extent *ret);
/* The bundles as they came, borrowed: array of {"data","metadata","is_result"}. */
const cJSON *cbx_execution_displays(const struct cbx_execution *x);

/* The MIME type that a file's name promises; "application/octet-stream" when it promises none. */
const char *cbx_mime_by_name(const char *path);
/* Append codebox://sessions/<id>/files/<path>: bytes other than unreserved characters and '/' as %XX. */
void cbx_file_uri(struct cbx_buf *out, const char *session_id, const char *path);
/* Likewise …/databases/<path>, the tables of a file whose name promises a database; false: it does not. */
bool cbx_file_database_uri(struct cbx_buf *out, const char *session_id, const char *path);

#endif
