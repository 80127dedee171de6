/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a session has one queue of cells, and an interpreter for each language that was used, in one
 * sandbox. The first, of its own language, is always there. Each of the others is started when its first cell is next,
 * and, when it has died, with its next cell; what happens to one of them does not concern the others.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/queue.h"
#include "execution/cells.h"
#include "execution/internal.h"

struct cbx_seat *cbx_cells_find_seat(struct cbx_cells *c, const struct cbx_runtime *rt)
{
	struct cbx_seat *seat;

	for (size_t i = 0; (seat = cbx_cells_seat(c, i)); i++)
		if (seat->runtime == rt)
			return seat;
	return NULL;
}

int cbx_cells_add_seat(struct cbx_cells *c, const struct cbx_runtime *rt, struct cbx_seat **ret, struct cbx_err *err)
{
	struct cbx_seat *seat;

	if (c->nothers == CBX_RUNTIMES_MAX)
		return cbx_fail(err, ENOMEM, "keep one interpreter more");
	seat = cbx_xcalloc(1, sizeof(*seat));
	seat->cells = c;
	seat->runtime = rt;
	if (cbx_interp_init(&seat->interp, c->first.interp.base, c->box, &cbx_cells_interp_events) < 0) {
		free(seat);
		return cbx_fail(err, ENOMEM, "watch an interpreter");
	}
	c->others[c->nothers++] = seat;
	*ret = seat;
	return 0;
}

size_t cbx_seat_unrun(struct cbx_seat *seat, enum cbx_status status, const char *why)
{
	struct cbx_execution *x, *next;
	size_t n = 0;

	TAILQ_FOREACH_SAFE(x, &seat->cells->queue, entry, next) {
		if (x->seat != seat)
			continue;
		cbx_end_unrun(x, status, why);
		n++;
	}
	return n;
}

struct cbx_seat *cbx_cells_by_pid(struct cbx_cells *c, int64_t pid)
{
	struct cbx_seat *seat;

	for (size_t i = 0; (seat = cbx_cells_seat(c, i)); i++)
		if (seat->interp.state != CBX_INTERP_NONE && seat->interp.pid == pid)
			return seat;
	return NULL;
}

void cbx_cells_process_ended(struct cbx_cells *c, int64_t pid, int status)
{
	struct cbx_seat *seat = cbx_cells_by_pid(c, pid);

	if (seat) {
		cbx_interp_ended(&seat->interp, pid, status);
		return;
	}
	/* That of an interpreter that is being started may come before its pid is known. */
	for (size_t i = 0; (seat = cbx_cells_seat(c, i)); i++)
		cbx_interp_ended(&seat->interp, pid, status);
}

void cbx_cells_limited(struct cbx_cells *c, const struct cbx_err *err)
{
	struct cbx_seat *seat;

	for (size_t i = 0; (seat = cbx_cells_seat(c, i)); i++) {
		struct cbx_interp *in = &seat->interp;

		if (in->state == CBX_INTERP_NONE || !in->pid || in->limited)
			continue;
		if (err)
			cbx_interp_fault(in, "it could not be put under its limits: %.200s", err->msg);
		else
			cbx_interp_limited(in);
	}
}

size_t cbx_cells_asked(struct cbx_cells *c)
{
	struct cbx_seat *seat;
	size_t n = 0;

	for (size_t i = 0; (seat = cbx_cells_seat(c, i)); i++)
		n += seat->interp.queries.n;
	return n;
}

void cbx_cells_fail_asked(struct cbx_cells *c, const struct cbx_err *err)
{
	struct cbx_seat *seat;

	for (size_t i = 0; (seat = cbx_cells_seat(c, i)); i++)
		cbx_queries_fail(&seat->interp.queries, err);
}

void cbx_cells_discard(struct cbx_cells *c)
{
	struct cbx_seat *seat;

	for (size_t i = 0; (seat = cbx_cells_seat(c, i)); i++)
		cbx_interp_discard(&seat->interp);
}

void cbx_seats_free(struct cbx_cells *c)
{
	cbx_interp_free(&c->first.interp);
	cbx_buf_release(&c->first.lost);
	while (c->nothers) {
		struct cbx_seat *seat = c->others[--c->nothers];

		cbx_interp_free(&seat->interp);
		cbx_buf_release(&seat->spawn);
		cbx_buf_release(&seat->lost);
		free(seat);
	}
}
