/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_SAID_H
#define CBX_CLI_SAID_H

/*
 * What an MCP client has said on a connection, as far as another codeboxd must know of it, and what it has asked and
 * has no answer to yet. Lines are looked at, not judged: a line that is not a message is ignored.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/buf.h"

struct cbx_asked {
	TAILQ_ENTRY(cbx_asked) entry;
	uint64_t at;	/* where its line ends in all that the client has sent */
	bool is_stream; /* lasts until it is ended */
	char id[];	/* raw text */
};

struct cbx_subscribed {
	TAILQ_ENTRY(cbx_subscribed) entry;
	char *uri, *line;
};

struct cbx_said {
	TAILQ_HEAD(, cbx_asked) asked;
	TAILQ_HEAD(, cbx_subscribed) subscribed;
	size_t nasked, nsubscribed;
	char *initialize, *initialize_id, *level; /* lines, and the id; NULL: none */
	bool initialized;	 /* the client has said so */
	bool wants_no_warnings;	 /* by its log level */
	bool called;		 /* a tool: there may be a session */
	bool again;		 /* answers to what was said again are still to come */
};

void cbx_said_init(struct cbx_said *s);
void cbx_said_release(struct cbx_said *s);
/* A line of the client, without its newline, that ends at `at`. */
void cbx_said_up(struct cbx_said *s, const char *line, size_t n, uint64_t at);
/* A line for the client. False: it answers what was said again, so it is not for the client. */
bool cbx_said_down(struct cbx_said *s, const char *line, size_t n);
/* Append the lines that bring another codeboxd to where the last one was; lost: that a state was lost with that. */
void cbx_said_again(struct cbx_said *s, bool lost, struct cbx_buf *out);
/* Append an error to the client for each request up to `at` that has no answer, which then counts as answered. Streams
 * only where `streams` says so. How many. */
size_t cbx_said_fail(struct cbx_said *s, uint64_t at, bool streams, const char *why, struct cbx_buf *out);
/* Append a message for the client's log, if it may be sent. */
void cbx_said_tell(const struct cbx_said *s, const char *text, struct cbx_buf *out);

#endif
