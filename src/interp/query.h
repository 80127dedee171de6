/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_INTERP_QUERY_H
#define CBX_INTERP_QUERY_H

/*
 * Questions that an interpreter answers between cells: about code (is it complete, what could follow, what is the name in it), and which of the
 * packages that it has imported are not those that the session has now. Each ends with an answer, or with an error after
 * CBX_QUERY_WAIT_MS.
 */
#include <cjson/cJSON.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/err.h"
#include "base/op.h"

struct cbx_query;

enum cbx_question { CBX_ASK_IS_COMPLETE, CBX_ASK_COMPLETE, CBX_ASK_STALE, CBX_ASK_INSPECT };

/* Those of one interpreter. */
struct cbx_queries {
	TAILQ_HEAD(, cbx_query) list;
	size_t n;
	uint64_t last; /* id that was sent */
	struct event *late; /* NULL until it is needed */
};

void cbx_queries_init(struct cbx_queries *qs);
void cbx_queries_free(struct cbx_queries *qs); /* there is none */
int cbx_query_add(struct cbx_queries *qs, struct event_base *base, enum cbx_question question, const char *code,
		  uint64_t cursor, struct cbx_answer_op *op, struct cbx_err *err);
/* The frame for the next that has not been sent; NULL: all have. */
cJSON *cbx_query_next(struct cbx_queries *qs);
/* < 0: the frame does not answer what was asked. One that comes too late is ignored. */
int cbx_query_answered(struct cbx_queries *qs, uint64_t id, enum cbx_question question, const cJSON *frame);
void cbx_queries_fail(struct cbx_queries *qs, const struct cbx_err *err); /* all of them */

#define CBX_QUERY_WAIT_MS 10000

#endif
