/* SPDX-License-Identifier: Apache-2.0 */
/* A protocol may do anything from its callbacks, close the very session that calls it too: whatever ends, ends once. */
#include <string.h>

#include "session/internal.h"
#include "unit_main.h"

static struct event_base *base;
static struct cbx_engine *engine;
static struct cbx_session *session;
static struct cbx_execution *cell;
static int heard, ended;
static enum cbx_status how;

static void close_it(void *arg, struct cbx_execution *x, const char *stream, const char *p, size_t n)
{
	heard++;
	cbx_session_close(cbx_execution_session(x), "out of a callback");
}

static void on_end(void *arg, struct cbx_execution *x)
{
	ended++;
	how = cbx_execution_status(x);
}

static void nothing(evutil_socket_t fd, short what, void *arg)
{
}

static void work(evutil_socket_t fd, short what, void *arg)
{
	cbx_session_run_work(arg);
}

/* A session that runs a cell, without a sandbox: what its interpreter and its init would do is left out. */
static void begin(void)
{
	struct cbx_watch watch = { .on_output = close_it, .on_end = on_end };
	struct cbx_engine_config config = { .images_dir = "/nonexistent", .libexec_dir = "/nonexistent",
					    .runtimes_dir = "/nonexistent", .syscalls_dir = "/nonexistent" };
	struct cbx_session *s = session = cbx_xcalloc(1, sizeof(*s));
	struct cbx_execution *x = cell = cbx_xcalloc(1, sizeof(*x));
	struct cbx_err err;

	heard = ended = 0;
	base = event_base_new();
	ck_assert_int_eq(cbx_engine_new(base, &config, &engine, &err), 0);
	s->engine = engine;
	s->state = CBX_LIVE;
	s->gone = true;
	s->init.sock = s->interp.sock = s->interp.pipe[0] = s->interp.pipe[1] = -1;
	s->interp.state = CBX_INTERP_READY;
	cbx_cgroup_init(&s->group);
	TAILQ_INIT(&s->askers);
	TAILQ_INIT(&s->init.unsent);
	TAILQ_INIT(&s->init.unanswered);
	TAILQ_INIT(&s->queries);
	TAILQ_INIT(&s->queue);
	TAILQ_INIT(&s->ended);
	s->work = event_new(base, -1, 0, work, s);
	s->cell_timer = event_new(base, -1, 0, nothing, s);
	TAILQ_INSERT_TAIL(&engine->sessions, s, entry);
	engine->live = engine->running = 1;
	x->session = s;
	x->id = 1;
	x->status = CBX_RUNNING;
	x->displays = cbx_json_new_arr();
	x->output.head_max = x->output.tail_max = KIB(1);
	TAILQ_INIT(&x->watchers);
	s->running = x;
	ck_assert_int_eq(cbx_execution_watch(x, &watch, &err), 0);
}

static void finish(void)
{
	ck_assert_int_eq(heard, 1);
	ck_assert_uint_eq(session->nended, 1);
	ck_assert_ptr_eq(TAILQ_FIRST(&session->ended), cell);
	ck_assert_ptr_null(TAILQ_NEXT(cell, entry));
	ck_assert_uint_eq(engine->running, 0);
	event_base_loop(base, EVLOOP_NONBLOCK);
	ck_assert_int_eq(ended, 1);
	ck_assert_int_eq(how, CBX_KILLED);
	ck_assert(TAILQ_EMPTY(&engine->sessions));
	cbx_engine_free(engine);
	event_base_free(base);
}

/* The start of a character is held back until the cell ends; then it is output. */
START_TEST(closed_by_its_last_words)
{
	begin();
	cbx_execution_print(session, CBX_STDOUT, "\xe2", 1);
	ck_assert_int_eq(heard, 0);
	cbx_execution_done(cell, "ok");
	finish();
}
END_TEST

START_TEST(closed_by_what_it_prints)
{
	begin();
	cbx_execution_print(session, CBX_STDERR, "x", 1);
	finish();
}
END_TEST

static void add(TCase *t)
{
	tcase_add_test(t, closed_by_its_last_words);
	tcase_add_test(t, closed_by_what_it_prints);
}

TEST_MAIN("endings", add)
