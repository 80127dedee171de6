/* SPDX-License-Identifier: Apache-2.0 */
/* A protocol may do anything from its callbacks, close the very session that calls it too: whatever ends, ends once. */
#include <string.h>

#include "session/internal.h"
#include "unit_main.h"

static struct event_base *base;
static struct cbx_engine *engine;
static struct cbx_session *session;
static struct cbx_interp *interp;
static struct cbx_execution *cell;
static struct cbx_watch_op watch;
static struct cbx_ops mine;
static int heard, ended;
static enum cbx_status how;

static void close_it(struct cbx_watch_op *op, struct cbx_execution *x, const struct cbx_progress *progress)
{
	if (progress->what == CBX_ENDED) {
		ended++;
		how = cbx_execution_status(x);
	} else if (progress->what == CBX_PRINTED) {
		heard++;
		cbx_session_close(NULL, cbx_execution_session(x), "out of a callback");
	}
}

static void work(evutil_socket_t fd, short what, void *arg)
{
	cbx_session_run_work(arg);
}

/* A session that runs a cell, without a sandbox: without what its interpreter and its init would do. */
static void begin(void)
{
	struct cbx_engine_config config = { .images_dir = "/nonexistent", .libexec_dir = "/nonexistent",
					    .runtimes_dir = RUNTIMES, .syscalls_dir = "/nonexistent" };
	struct cbx_cell_spec spec = { .code = "x" };
	struct cbx_session *s = session = cbx_xcalloc(1, sizeof(*s));
	struct cbx_err err;

	heard = ended = 0;
	watch = (struct cbx_watch_op){ .op.ops = &mine, .on_progress = close_it };
	base = event_base_new();
	ck_assert_int_eq(cbx_engine_new(base, &config, &engine, &err), 0);
	s->engine = engine;
	s->state = CBX_LIVE;
	s->policy = cbx_policy_ref(engine->policy);
	cbx_box_init(&s->box, &engine->boxes);
	s->box.gone = true;
	TAILQ_INIT(&s->askers);
	ck_assert_int_eq(cbx_cells_init(&s->cells, base, &s->box, &engine->keeping, s->spec.id, s->tenant,
					&cbx_session_cells_events), 0);
	cbx_cells_settle(&s->cells, s->policy, 0);
	interp = &s->cells.first.interp;
	interp->state = CBX_INTERP_READY;
	s->work = event_new(base, -1, 0, work, s);
	TAILQ_INSERT_TAIL(&engine->registry.sessions, s, entry);
	engine->registry.live = 1;
	ck_assert_int_eq(cbx_cells_add(&s->cells.first, &spec, &watch, &cell, &err), 0);
	cbx_session_run_work(s);
	ck_assert_ptr_eq(s->cells.running, cell);
	ck_assert_uint_eq(engine->running, 1);
}

static void finish(void)
{
	ck_assert_int_eq(heard, 1);
	ck_assert_uint_eq(session->cells.nended, 1);
	ck_assert_ptr_eq(TAILQ_FIRST(&session->cells.ended), cell);
	ck_assert_uint_eq(engine->running, 0);
	event_base_loop(base, EVLOOP_NONBLOCK);
	ck_assert_int_eq(ended, 1);
	ck_assert_int_eq(how, CBX_KILLED);
	ck_assert(TAILQ_EMPTY(&engine->registry.sessions));
	cbx_engine_free(engine);
	event_base_free(base);
}

/* The start of a character is held back until the cell ends; then it is output. */
START_TEST(closed_by_its_last_words)
{
	struct cbx_frame done = { .kind = CBX_FRAME_DONE, .id = 1 };

	begin();
	interp->up->printed(interp, CBX_STDOUT, "\xe2", 1);
	ck_assert_int_eq(heard, 0);
	interp->up->frame(interp, &done);
	finish();
}
END_TEST

START_TEST(closed_by_what_it_prints)
{
	begin();
	interp->up->printed(interp, CBX_STDERR, "x", 1);
	finish();
}
END_TEST

/* ---- watches that come and go while watches are called ---- */

static struct watched {
	struct cbx_watch_op op;
	int printed, ends;
	void (*then)(struct watched *w);
} all[4];

static void heard_it(struct cbx_watch_op *op, struct cbx_execution *x, const struct cbx_progress *progress)
{
	struct watched *w = cbx_container_of(op, struct watched, op);

	w->printed += progress->what == CBX_PRINTED;
	w->ends += progress->what == CBX_ENDED;
	if (w->then)
		w->then(w);
}

static void add_watch(struct watched *w)
{
	struct cbx_err err;

	w->op = (struct cbx_watch_op){ .op.ops = &mine, .on_progress = heard_it };
	ck_assert_int_eq(cbx_execution_watch(cell, &w->op, &err), 0);
}

/* The first takes off the next and itself, and adds one. */
static void change(struct watched *w)
{
	w->then = NULL;
	cbx_op_cancel(&all[1].op.op);
	cbx_op_cancel(&all[0].op.op);
	add_watch(&all[3]);
}

static void again(struct watched *w)
{
	w->then = NULL;
	add_watch(&all[0]); /* where it was before */
}

START_TEST(watches_change_while_they_are_called)
{
	struct cbx_frame done = { .kind = CBX_FRAME_DONE, .id = 1, .no_files = true };

	begin();
	cbx_op_cancel(&watch.op); /* it would close the session */
	memset(all, 0, sizeof(all));
	for (int i = 0; i < 3; i++)
		add_watch(&all[i]);
	all[0].then = change;
	interp->up->printed(interp, CBX_STDOUT, "x", 1);
	ck_assert_int_eq(all[0].printed, 1);
	ck_assert_int_eq(all[1].printed, 0); /* it was taken off before its turn */
	ck_assert_int_eq(all[2].printed, 1);
	ck_assert_int_eq(all[3].printed, 0); /* it hears of what comes next */
	all[2].then = again;
	interp->up->printed(interp, CBX_STDOUT, "y", 1);
	ck_assert_int_eq(all[0].printed, 1);
	ck_assert_int_eq(all[2].printed, 2);
	ck_assert_int_eq(all[3].printed, 1);
	cbx_op_cancel(&all[3].op.op);
	interp->up->frame(interp, &done);
	ck_assert_int_eq(all[0].ends, 1);
	ck_assert_int_eq(all[1].ends, 0);
	ck_assert_int_eq(all[2].ends, 1);
	ck_assert_int_eq(all[3].ends, 0);
	ck_assert_int_eq(all[0].printed, 1);
	ck_assert(LIST_EMPTY(&mine.pending));
	cbx_session_close(NULL, session, "a test");
	event_base_loop(base, EVLOOP_NONBLOCK);
	cbx_engine_free(engine);
	event_base_free(base);
}
END_TEST

static void add(TCase *t)
{
	tcase_add_test(t, watches_change_while_they_are_called);
	tcase_add_test(t, closed_by_its_last_words);
	tcase_add_test(t, closed_by_what_it_prints);
}

TEST_MAIN("endings", add)
