/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_INTERP_FRAMES_H
#define CBX_INTERP_FRAMES_H

/*
 * One frame of an interpreter (interpreter-protocol.h), checked: what it is, and whether it has what that needs. Whether
 * it comes when it may, channel.c knows.
 */
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum cbx_frame_kind {
	CBX_FRAME_READY,
	CBX_FRAME_DISPLAY,
	CBX_FRAME_RESULT,
	CBX_FRAME_ERROR,
	CBX_FRAME_CLEAR,
	CBX_FRAME_DONE,
	CBX_FRAME_JUDGED,
	CBX_FRAME_ASK,
	CBX_FRAME_SYNC,
	CBX_FRAME_IS_COMPLETE, /* an answer, and all that follow, in the order of enum cbx_question */
	CBX_FRAME_COMPLETE,    /* likewise */
	CBX_FRAME_STALE,       /* likewise */
	CBX_FRAME_INSPECT,     /* likewise */
};

enum cbx_frame_status { CBX_DONE_OK, CBX_DONE_ERROR, CBX_DONE_INTERRUPTED, CBX_DONE_EXIT };

/* What it says of its own use. */
struct cbx_frame_usage {
	bool known;
	uint64_t cpu_us, peak, io_read, io_written;
};

/* Texts are borrowed from the frame's JSON, and of any length. */
struct cbx_frame {
	enum cbx_frame_kind kind;
	const char *ev;	   /* its name in the protocol */
	uint64_t id;	   /* of the cell or question it is about; READY: 0; SYNC: its own */
	const cJSON *json; /* DISPLAY, RESULT: for bundle.h; answers: for query.h */
	bool has_count;	   /* RESULT, DONE */
	uint64_t count;
	const char *language, *version, *type; /* READY */
	const char *name, *value, *traceback;  /* ERROR */
	bool wait;			       /* CLEAR: when something is shown next */
	bool refused;			       /* JUDGED: it is not run */
	const char *prompt;		       /* ASK */
	bool password;			       /* ASK: what is typed is not to be seen */
	enum cbx_frame_status status;	       /* DONE, and the rest too */
	bool has_exit_code;
	int64_t exit_code;
	struct cbx_frame_usage usage;
	bool no_files; /* the workspace is empty */
};

/* < 0: it is not one that a driver sends; err->msg is a clause, "it sent …". */
int cbx_frame_decode(const cJSON *json, struct cbx_frame *ret, struct cbx_err *err);

#endif
