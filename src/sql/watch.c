/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a driver does not come back from a statement before the database answers, so a thread looks at
 * the clock and at the socket, and cancels: drivers pass SQLCancel() on to the server, over a connection of its own
 * where they need one. A server that does not answer that either, or a network that carries nothing any more, is left
 * some seconds later by the end of the process: drivers wait for that answer without an end, so it is another thread
 * that cancels. A setting that is made when the connection begins (connect.c) makes the server end the statement by
 * itself.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "sql/worker.h"

enum { RUNS, LATE, LEFT };

struct cbx_sql_watch {
	pthread_mutex_t lock;
	void (*cancel)(void *arg);
	void *arg;
	atomic_int why;
	int sock;
	uint64_t until, timeout_ms;
	struct cbx_sql *sql;
};

static void end_process(struct cbx_sql_watch *w)
{
	static const char text[] =
		"{\"kind\":\"timeout\",\"message\":\"the database answers neither the query nor that it is "
		"cancelled; the connection was closed\"}";
	struct cbx_err ignored;

	if (w->why == LATE)
		(void)cbx_sql_send(w->sql, CBX_SQL_END, text, strlen(text), &ignored);
	_exit(0);
}

/* Again and again: the statement may not have been on its way yet. */
static void *cancel_again(void *arg)
{
	struct cbx_sql_watch *w = arg;

	for (;;) {
		pthread_mutex_lock(&w->lock);
		if (w->cancel)
			w->cancel(w->arg);
		pthread_mutex_unlock(&w->lock);
		usleep(200000);
	}
	return NULL;
}

static int start(void *(*run)(void *arg), struct cbx_sql_watch *w)
{
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&thread, &attr, run, w);
	pthread_attr_destroy(&attr);
	return r;
}

static void *watch(void *arg)
{
	struct cbx_sql_watch *w = arg;
	struct pollfd p = { .fd = w->sock, .events = 0 };

	for (;;) {
		uint64_t now = cbx_now_ms();
		int r = now >= w->until ? 0 : poll(&p, 1, (int)(w->until - now));

		if (r < 0 && errno == EINTR)
			continue;
		if (r == 0 && cbx_now_ms() < w->until)
			continue;
		w->why = r > 0 ? LEFT : LATE;
		break;
	}
	if (start(cancel_again, w) == 0)
		usleep(CBX_SQL_CANCEL_MS * 1000);
	end_process(w);
	return NULL;
}

int cbx_sql_watch(struct cbx_sql *s, struct cbx_err *err)
{
	struct cbx_sql_watch *w = cbx_xcalloc(1, sizeof(*w));
	int r;

	*w = (struct cbx_sql_watch){
		.sock = s->sock, .sql = s, .timeout_ms = s->job->timeout_ms, .until = cbx_now_ms() + s->job->timeout_ms
	};
	pthread_mutex_init(&w->lock, NULL);
	s->watch = w;
	r = start(watch, w);
	return r ? cbx_fail(err, r, "start the thread that cancels") : 0;
}

void cbx_sql_watch_statement(struct cbx_sql *s, void (*cancel)(void *arg), void *arg)
{
	pthread_mutex_lock(&s->watch->lock);
	s->watch->cancel = cancel;
	s->watch->arg = arg;
	pthread_mutex_unlock(&s->watch->lock);
}

bool cbx_sql_cancelled(struct cbx_sql *s, struct cbx_err *err)
{
	if (!s->watch || s->watch->why == RUNS)
		return false;
	if (s->watch->why == LATE)
		cbx_refuse(err, "timeout", ETIMEDOUT,
			   "the query took more than %.10g s, the limit of the policy (sql.query_timeout), and was "
			   "cancelled; ask for "
			   "less",
			   (double)s->watch->timeout_ms / 1000);
	else
		cbx_refuse(err, "cancelled", ECANCELED, "the query was cancelled");
	return true;
}
