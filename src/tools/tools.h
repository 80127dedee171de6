/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_TOOLS_TOOLS_H
#define CBX_TOOLS_TOOLS_H

/*
 * The tools of a model: a table, and calls of them. They know sessions and nothing of the protocol by which they are
 * called: how an answer goes out is in a table of callbacks.
 */
#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "session/commands.h"
#include "session/session.h"
#include "tools/own.h"

struct cbx_tool_call;

enum {
	CBX_TOOL_READ_ONLY = 1,
	CBX_TOOL_DESTRUCTIVE = 2,
	CBX_TOOL_IDEMPOTENT = 4,
	CBX_TOOL_OPEN_WORLD = 8,
	CBX_TOOL_MAKES_SESSION = 16, /* always; others do where a call names none */
	CBX_TOOL_UNLISTED = 32,	     /* another name of a tool, which is accepted */
};

struct cbx_tool {
	const char *name;
	const char *title;	 /* NULL: clients get neither it nor hints */
	const char *description; /* below 2 KB: clients cut there; %s: what a call without session_id uses */
	unsigned hints;
	const char *input, *output; /* JSON Schema; output may be NULL */
	const char *strict_input;   /* where a client has no session of its own; NULL: the same */
	void (*call)(struct cbx_tool_call *call, const cJSON *args); /* ends the call, now or later */
	/* Stop in the engine what the call waits for: its operations are cancelled then. May be NULL. */
	void (*cancel)(struct cbx_tool_call *call);
};
extern const struct cbx_tool *const cbx_tools[]; /* in the order in which clients see them; NULL-terminated */

struct cbx_tool_events {
	/* It has ended; `result` is a printed CallToolResult. The tool does not touch the call after that. */
	void (*ended)(struct cbx_tool_call *call, const struct cbx_buf *result);
	/* Code that it runs has printed. NULL: nobody listens. */
	void (*printed)(struct cbx_tool_call *call, const char *stream, const char *p, size_t n);
	/* run_code stops waiting for x, which has not ended. True: it was answered otherwise, as `ended`. */
	bool (*left)(struct cbx_tool_call *call, struct cbx_execution *x);
};

/* One call. What it waits for are operations of its own, which end with it. */
struct cbx_tool_call {
	/* Of whoever calls. */
	const struct cbx_tool *tool;
	const struct cbx_tool_events *events;
	struct cbx_tool_client *client;
	bool own;	  /* without session_id it uses the client's own session */
	bool takes_roots; /* a session that it makes may have the client's roots */
	bool structured;  /* results have structuredContent */
	size_t room;	  /* bytes that the result may have */
	/* Of the tool. */
	char session_id[CBX_NAME_MAX + 1];
	uint64_t execution_id; /* 0: none */
	bool default_session;  /* it was not named: the answer has its id */
	bool made_session;     /* with all defaults, for this call */
	bool interrupts;       /* a cell that it does not wait for any longer: nobody could ask for it later */
	char *notice;	       /* told in the answer */
	struct cbx_file_op file;
	struct cbx_answer_op answer_op;
	struct cbx_ready_op ready;
	struct cbx_watch_op watch;
	struct cbx_command_op command;
	struct event *timer; /* ends its wait for an execution or a command; NULL: it does not wait */
	void (*answer)(struct cbx_tool_call *call, struct cbx_execution *x); /* once the wait is over, ended or not */
	void (*command_answer)(struct cbx_tool_call *call, struct cbx_command *c); /* likewise */
	struct cbx_tool_fetch *fetch; /* of the answer's images; NULL: there is none */
	void *state;
	void (*release)(void *state); /* NULL: nothing to do */
};

/* "invalid_argument" where there is one that the tool does not have, unless its schema lets others pass: it would be
 * without effect, silently. */
int cbx_tool_check_arguments(const struct cbx_tool *tool, const cJSON *args, struct cbx_err *err);
/* End it with an error that a model can read, and with what to do next. */
void cbx_tool_refuse(struct cbx_tool_call *call, const struct cbx_err *err);
void cbx_tool_end_text(struct cbx_tool_call *call, const struct cbx_buf *result); /* a printed CallToolResult */
/* End it with an execution, ended or not: fetches what the answer shows first. */
void cbx_tool_outcome(struct cbx_tool_call *call, struct cbx_execution *x);
/* The call has ended, or is not wanted any more: nothing of it is called. The struct is the caller's. */
void cbx_tool_release(struct cbx_tool_call *call);

#endif
