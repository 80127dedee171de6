/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_COMMAND_STATE_H
#define CBX_COMMAND_STATE_H

/*
 * What the files of commands share. Each calls those below it:
 *
 *   commands.c  the commands of a session: made, found, told of, forgotten
 *   process.c   one from its start to its end
 *   streams.c   what goes in and comes out
 *   words.c     what init is asked for; report.c: a command as JSON
 */
#include <event2/event.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "base/limits.h"
#include "box/box.h"
#include "command/command.h"
#include "execution/changes.h"
#include "execution/output.h"

struct cbx_commands;

enum cbx_command_state {
	CBX_COMMAND_WAITING, /* for its session to be ready */
	CBX_COMMAND_ASKED,   /* init was asked for a process */
	CBX_COMMAND_HELD,    /* there is one, which waits until it is under its limits */
	CBX_COMMAND_GOING,   /* init has been asked to let it execute its program */
	CBX_COMMAND_RUNNING,
	CBX_COMMAND_LEAVING, /* it has ended; what it printed has not all been read */
	CBX_COMMAND_LOOKING, /* for what it has changed */
	CBX_COMMAND_KEEPING, /* and that is kept */
	CBX_COMMAND_ENDED,
};

struct cbx_command_watcher {
	LIST_ENTRY(cbx_command_watcher) entry;
	struct cbx_op *op; /* NULL: it waits no longer */
	bool started;	   /* the operation has been called for the command's start */
};

struct cbx_command {
	TAILQ_ENTRY(cbx_command) entry;
	struct cbx_commands *all;
	uint64_t id;
	enum cbx_command_state state;
	cJSON *argv;
	char *directory;	/* NULL: the workspace */
	struct cbx_buf request; /* to init, until that was asked */
	bool anywhere;		/* the directory is the image's, not asked for */
	bool terminal, input;
	uint64_t size; /* of the terminal */
	int64_t pid;
	unsigned asked; /* answers of init that are on their way: it is not freed before */

	/* streams.c */
	struct cbx_feed *feed; /* NULL: no input, or no more */
	int pipe[CBX_STREAMS];
	struct event *pipes[CBX_STREAMS], *pace;
	bool narrow[CBX_STREAMS];
	bool last[CBX_STREAMS]; /* of this pipe only what is owed is read yet */
	size_t owed[CBX_STREAMS];
	bool held; /* until cbx_commands_deliver() has told who is attached of it */
	bool stalled;
	uint64_t printed;
	struct cbx_output kept; /* since nobody is attached, or since it was confirmed */
	enum cbx_unread unread;
	bool unconfirmed; /* it may keep output, or does, that nobody has confirmed */
	bool discarded;	  /* and is not to, once it has ended */
	bool fresh;	  /* who is attached is to hear that there is more */
	uint64_t given;	  /* bytes of input */

	/* who looks */
	struct cbx_op *attached; /* NULL: nobody */
	bool replayed;		 /* and has what was kept */
	struct cbx_op *replaced; /* who was before, and is to hear of it; NULL: nobody */
	LIST_HEAD(, cbx_command_watcher) watchers;
	size_t nwatchers;
	bool delivered;

	/* what it changed */
	bool tells_files, files_unknown;
	int64_t since_ns; /* CLOCK_REALTIME_COARSE, at its start */
	struct cbx_ops ops;
	struct cbx_file_op look;
	struct cbx_changes changes;
	void *keep; /* of up->keep() */

	/* its end */
	struct event *timer;
	uint64_t timeout_ms, began_ms, ended_ms;
	int early; /* a signal for it, as soon as there is a process */
	int sent;  /* the last signal of ours that is to end it */
	bool timed_out, interrupted, oom;
	enum cbx_oom oom_why;
	bool status_known;
	int status;
	struct cbx_err failure; /* code 0: none */
	bool refused;		/* it could not be executed */
};

TAILQ_HEAD(cbx_command_list, cbx_command);

/* What goes up. */
struct cbx_commands_events {
	/* cbx_commands_deliver() has something to tell. */
	void (*news)(struct cbx_commands *all);
	void (*began)(
		struct cbx_commands *all); /* the first process but init's and the interpreter's may be there now */
	/* The files that it has changed are known. What it returns goes to leave(), after cbx_command_files_kept() or
	 * instead of it; NULL: there is nothing to be done. */
	void *(*keep)(struct cbx_commands *all, struct cbx_command *c);
	void (*leave)(void *keep);
	/* One has ended, after this time. */
	void (*ended)(struct cbx_commands *all, const struct cbx_command *c, uint64_t ms);
};

struct cbx_commands {
	const struct cbx_commands_events *up;
	struct event_base *base;
	struct cbx_box *box;
	const char *id;		      /* of the session; borrowed */
	const char *directory; /* where commands start that name none, if it is there; borrowed; NULL: workspace */
	const struct cbx_buf *spawn;  /* that of its interpreter, whose environment they have; borrowed */
	uint64_t *next_id;	      /* shared with its executions */
	size_t *together;	      /* those that run in all sessions */
	struct cbx_command_list list; /* oldest first */
	size_t running, ended, undelivered;
	bool ready, closed;
};

/* words.c: the request to init. */
int cbx_command_words(const struct cbx_commands *all, const struct cbx_command_spec *spec, struct cbx_buf *ret,
		      struct cbx_err *err);

/* streams.c */
int cbx_command_streams_open(struct cbx_command *c, int theirs[3], size_t *ret_n, struct cbx_err *err);
void cbx_command_streams_end(struct cbx_command *c);   /* read what is there, and call cbx_command_drained() */
void cbx_command_streams_close(struct cbx_command *c); /* at once */
void cbx_command_streams_resume(struct cbx_command *c);
void cbx_command_streams_look(struct cbx_command *c); /* it may have to be read again */
void cbx_command_replay(struct cbx_command *c); /* to who is attached */

/* process.c */
void cbx_command_begin(struct cbx_command *c);
void cbx_command_drained(struct cbx_command *c); /* nothing more comes of its streams */
void cbx_command_limited(struct cbx_command *c, const struct cbx_err *err);
void cbx_command_exited(struct cbx_command *c, int status);
void cbx_command_fail(struct cbx_command *c, const struct cbx_err *err); /* it ends, without an exit status */
void cbx_command_timer(evutil_socket_t fd, short what, void *arg);

#endif
