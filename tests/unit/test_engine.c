/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What session.h promises, on the engine itself, without a supervisor: sessions are being made, and never get ready. The
 * same is asked of the fake that the tests of the protocols use (-DFAKE_ENGINE): it must not be kinder.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "policy/policy.h"
#include "session/engine-config.h"
#include "unit_main.h"
#ifdef FAKE_ENGINE
#include "fake_engine.h"
#endif

#ifndef FAKE_ENGINE
#define MANIFEST                                                                                                      \
	"{\"format\":1,\"name\":\"python\",\"kind\":\"host\",\"created\":\"2026-01-02T03:04:05Z\",\"digest\":"        \
	"\"sha256:00\",\"files\":3,\"bytes\":4,\"architecture\":\"amd64\",\"layers\":[{\"source\":\"rootfs\","       \
	"\"target\":\"/\"}],\"interpreters\":{\"python\":{\"argv\":[\"/usr/bin/python3\"]}}}"

static char dir[] = "/tmp/cbxprincipalsXXXXXX";
#endif
static struct event_base *base;
static struct cbx_engine *engine;
static struct cbx_principal first = { .tenant = "first" }, second = { .tenant = "second" };
static struct cbx_caller a, b;

struct made {
	struct cbx_ready_op op;
	int answers;
	char kind[40];
};

static void ready(struct cbx_ready_op *op, struct cbx_session *session, const struct cbx_err *err)
{
	struct made *m = cbx_container_of(op, struct made, op);

	m->answers++;
	snprintf(m->kind, sizeof(m->kind), "%s", err ? err->kind : "");
}

#ifdef FAKE_ENGINE
static void begin(void)
{
	engine = fake_engine_new(base);
	fake_engine_fail_setup(engine, true);
}

static void stop(void)
{
	fake_engine_free(engine);
	engine = NULL;
}

static void finish(void)
{
	stop();
}
#else
static void begin(void)
{
	struct cbx_engine_config config = { .images_dir = dir, .libexec_dir = "/nonexistent",
					    .runtimes_dir = RUNTIMES, .syscalls_dir = "/nonexistent" };
	char command[200], path[100];
	struct cbx_err err;
	FILE *f;

	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(command, sizeof(command), "mkdir -p %s/python/rootfs", dir);
	ck_assert_int_eq(system(command), 0);
	snprintf(path, sizeof(path), "%s/python/manifest.json", dir);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_ge(fputs(MANIFEST, f), 0);
	ck_assert_int_eq(fclose(f), 0);
	ck_assert_int_eq(cbx_engine_new(base, &config, &engine, &err), 0);
}

static void stop(void)
{
	cbx_engine_free(engine);
	engine = NULL;
}

static void finish(void)
{
	char command[100];

	stop();
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
}
#endif

static void set_up(void)
{
	base = event_base_new();
	begin();
	a = (struct cbx_caller){ .engine = engine, .principal = &first };
	b = (struct cbx_caller){ .engine = engine, .principal = &second };
	first.sessions_max = 0;
	first.ceiling = NULL;
}

static void tear_down(void)
{
	finish();
	event_base_free(base);
	cbx_policy_free(first.ceiling);
}

/* NULL: refused, and *err says why. */
static struct cbx_session *create(struct cbx_caller *caller, const char *id, struct made *m, struct cbx_err *err)
{
	struct cbx_session *s = NULL;
	struct cbx_session_spec spec;

	cbx_session_spec_init(&spec);
	snprintf(spec.id, sizeof(spec.id), "%s", id);
	spec.timeout_ms = 1000;
	if (m)
		*m = (struct made){ .op = { .op.ops = &caller->ops, .done = ready } };
	return cbx_session_create(caller, &spec, m ? &m->op : NULL, &s, err) < 0 ? NULL : s;
}

static void check_missing(struct cbx_caller *caller, const char *id, const char *kind)
{
	struct cbx_session *s;
	struct cbx_err err;

	ck_assert_int_lt(cbx_session_find(caller, id, &s, &err), 0);
	ck_assert_str_eq(err.kind, kind);
}

static int listed(struct cbx_caller *caller)
{
	_cleanup_json_ cJSON *all = cbx_session_list(caller), *names = cbx_session_names(caller);

	ck_assert_int_eq(cJSON_GetArraySize(all), cJSON_GetArraySize(names));
	return cJSON_GetArraySize(all);
}

START_TEST(ids_are_each_ones_own)
{
	struct cbx_session *of_a, *of_b, *s;
	struct cbx_err err;

	ck_assert_ptr_nonnull(of_a = create(&a, "work", NULL, &err));
	check_missing(&b, "work", "session_not_found");
	ck_assert_int_eq(listed(&b), 0);
	ck_assert_ptr_nonnull(of_b = create(&b, "work", NULL, &err));
	ck_assert_ptr_ne(of_a, of_b);
	ck_assert_ptr_null(create(&a, "work", NULL, &err));
	ck_assert_str_eq(err.kind, "session_exists");
	ck_assert_int_eq(cbx_session_find(&b, "work", &s, &err), 0);
	ck_assert_ptr_eq(s, of_b);
	cbx_session_close(&a, of_a, "a test");
	check_missing(&a, "work", "session_expired");
	ck_assert_int_eq(cbx_session_find(&b, "work", &s, &err), 0);
	ck_assert_ptr_eq(s, of_b);
	ck_assert_int_eq(listed(&a), 0);
	ck_assert_int_eq(listed(&b), 1);
	ck_assert_ptr_nonnull(create(&a, "mine", NULL, &err));
	cbx_session_close(&a, create(&a, "gone", NULL, &err), "a test");
	check_missing(&b, "mine", "session_not_found");
	check_missing(&b, "gone", "session_not_found"); /* nor is it said that there was one */
}
END_TEST

static void on_session(void *arg, const char *id, bool one_shot, bool gone)
{
	cbx_buf_addf(arg, "%s%s ", gone ? "-" : "+", id);
}

static void on_files(void *arg, const char *id, bool one_shot, const uint64_t *files, size_t n)
{
	ck_assert_uint_eq(files[0], cbx_hash("codebox://sessions/two/files/a%20b"));
	cbx_buf_addf(arg, "%s/%zu ", id, n);
}

START_TEST(news_are_each_ones_own)
{
	_cleanup_buf_ struct cbx_buf of_a = { 0 }, of_b = { 0 };
	struct cbx_engine_listener la = { .on_session = on_session, .on_files = on_files, .arg = &of_a };
	struct cbx_engine_listener lb = { .on_session = on_session, .on_files = on_files, .arg = &of_b };
	_cleanup_json_ cJSON *files = cJSON_Parse("[{\"path\":\"a b\"}]");
	struct cbx_err err;

	cbx_engine_listen(&a, &la);
	cbx_engine_listen(&b, &lb);
	cbx_session_close(&a, create(&a, "one", NULL, &err), "a test");
	ck_assert_ptr_nonnull(create(&b, "two", NULL, &err));
	cbx_engine_files_changed(&a, "two", files);
	cbx_engine_files_changed(&b, "two", files);
	cbx_engine_unlisten(&a, &la);
	cbx_engine_unlisten(&b, &lb);
	ck_assert_str_eq(cbx_buf_str(&of_a), "+one -one ");
	ck_assert_str_eq(cbx_buf_str(&of_b), "+two two/1 ");
}
END_TEST

/* No session gets ready: each who waits learns of it once, and nobody else. */
START_TEST(answers)
{
	struct made ma, gone, mb;
	struct cbx_session *s;
	struct cbx_err err;

	ck_assert_ptr_nonnull(create(&a, "", &ma, &err));
	ck_assert_ptr_nonnull(s = create(&a, "", &gone, &err));
	ck_assert_ptr_eq(gone.op.session, s);
	ck_assert_ptr_nonnull(create(&b, "", &mb, &err));
	cbx_op_cancel(&gone.op.op);
	cbx_ops_cancel(&b.ops);
	ck_assert(cbx_op_pending(&ma.op.op));
	ck_assert(!cbx_op_pending(&mb.op.op));
	ck_assert_int_eq(ma.answers, 0);
	for (int i = 0; i < 1000 && cbx_op_pending(&ma.op.op); i++)
		event_base_loop(base, EVLOOP_ONCE);
	ck_assert_int_eq(ma.answers, 1);
	ck_assert_str_ne(ma.kind, "");
	ck_assert_int_eq(gone.answers + mb.answers, 0);
}
END_TEST

START_TEST(refusals)
{
	struct cbx_session *s = NULL;
	struct cbx_session_spec spec;
	struct made m = { .op = { .op.ops = &a.ops, .done = ready } };
	struct cbx_err err;

	cbx_session_spec_init(&spec);
	strcpy(spec.image, "nothing");
	ck_assert_int_lt(cbx_session_create(&a, &spec, &m.op, &s, &err), 0);
	ck_assert_str_eq(err.kind, "image_not_found");
	ck_assert(!cbx_op_pending(&m.op.op));
	ck_assert_ptr_null(s);
	check_missing(&a, "nothing", "session_not_found");
}
END_TEST

/* ---- cells ---- */

struct watched {
	struct cbx_watch_op op;
	int starts, ends;
	enum cbx_status status;
};

static void progressed(struct cbx_watch_op *op, struct cbx_execution *x, const struct cbx_progress *progress)
{
	struct watched *w = cbx_container_of(op, struct watched, op);

	w->starts += progress->what == CBX_STARTED;
	ck_assert_ptr_eq(op->x, x);
	if (progress->what != CBX_ENDED)
		return;
	ck_assert(!cbx_op_pending(&op->op));
	w->ends++;
	w->status = cbx_execution_status(x);
}

static struct watched watching(struct cbx_caller *caller)
{
	return (struct watched){ .op = { .op.ops = &caller->ops, .on_progress = progressed } };
}

static void settle(const struct watched *w)
{
	for (int i = 0; i < 1000 && cbx_op_pending(&w->op.op); i++)
		event_base_loop(base, EVLOOP_ONCE);
}

static int run_cell(struct cbx_session *s, const char *code, struct cbx_watch_op *watch, struct cbx_execution **ret,
		    struct cbx_err *err)
{
	return cbx_session_start(s, &(struct cbx_cell_spec){ .code = code }, watch, ret, err);
}

START_TEST(cells_end_with_their_session)
{
	struct watched run = watching(&a), more = watching(&b), cancelled = watching(&a);
	struct cbx_execution *x, *y;
	struct cbx_session *s;
	struct cbx_err err;

	ck_assert_ptr_nonnull(s = create(&a, "s", NULL, &err));
	ck_assert_int_eq(run_cell(s, "print a", &run.op, &x, &err), 0);
	ck_assert_int_eq(run_cell(s, "print b", NULL, &y, &err), 0);
	ck_assert_uint_eq(cbx_execution_id(x), 1);
	ck_assert_uint_eq(cbx_execution_id(y), 2);
	ck_assert_ptr_eq(cbx_execution_session(y), s);
	ck_assert_int_eq(cbx_execution_watch(y, &more.op, &err), 0);
	ck_assert_int_eq(cbx_execution_watch(y, &cancelled.op, &err), 0);
	ck_assert_ptr_eq(more.op.x, y);
	cbx_op_cancel(&cancelled.op.op);
	cbx_session_close(&a, s, "a test");
	ck_assert_int_eq(run.ends + more.ends, 0); /* never from inside the call */
	ck_assert_int_eq(cbx_execution_status(y), CBX_KILLED);
	cbx_execution_interrupt(&a, y); /* it has ended */
	ck_assert_int_eq(cbx_execution_status(y), CBX_KILLED);
	ck_assert_int_lt(run_cell(s, "print c", &cancelled.op, &x, &err), 0);
	ck_assert_str_eq(err.kind, "session_expired");
	ck_assert(!cbx_op_pending(&cancelled.op.op));
	settle(&run);
	settle(&more);
	ck_assert_int_eq(run.ends, 1);
	ck_assert_int_eq(more.ends, 1);
	ck_assert_int_eq(run.status, CBX_KILLED);
	ck_assert_int_eq(run.starts + more.starts + cancelled.starts + cancelled.ends, 0);
}
END_TEST

START_TEST(a_cell_that_waits_is_cancelled)
{
	struct watched w = watching(&a);
	struct cbx_execution *x, *found;
	struct cbx_session *s;
	struct cbx_err err;

	ck_assert_ptr_nonnull(s = create(&a, "", NULL, &err));
	ck_assert_int_eq(run_cell(s, "print a", &w.op, &x, &err), 0);
	cbx_execution_interrupt(&a, x);
	ck_assert_int_eq(cbx_execution_status(x), CBX_CANCELLED);
	ck_assert_int_eq(w.ends, 0);
	ck_assert_int_eq(cbx_execution_find(s, 1, &found, &err), 0);
	ck_assert_ptr_eq(found, x);
	ck_assert_int_lt(cbx_execution_find(s, 2, &found, &err), 0);
	ck_assert_str_eq(err.kind, "execution_not_found");
	settle(&w);
	ck_assert_int_eq(w.ends, 1);
	ck_assert_int_eq(w.starts, 0);
	ck_assert_int_eq(w.status, CBX_CANCELLED);
}
END_TEST

START_TEST(ceilings_of_cells)
{
	struct watched many[CBX_WATCHERS_MAX + 1];
	char *code = cbx_xcalloc(1, CBX_CODE_MAX + 2);
	struct cbx_execution *x, *y;
	struct cbx_session *s;
	struct cbx_err err;

	ck_assert_ptr_nonnull(s = create(&a, "", NULL, &err));
	memset(code, 'x', CBX_CODE_MAX + 1);
	ck_assert_int_lt(run_cell(s, code, NULL, &x, &err), 0);
	ck_assert_str_eq(err.kind, "code_too_long");
	free(code);
	for (int i = 0; i < CBX_QUEUE_MAX; i++)
		ck_assert_int_eq(run_cell(s, "wait", NULL, &x, &err), 0);
	ck_assert_int_lt(run_cell(s, "wait", NULL, &y, &err), 0);
	ck_assert_str_eq(err.kind, "queue_full");
	for (int i = 0; i <= CBX_WATCHERS_MAX; i++) {
		many[i] = watching(&a);
		ck_assert_int_eq(cbx_execution_watch(x, &many[i].op, &err) == 0, i < CBX_WATCHERS_MAX);
	}
	ck_assert_str_eq(err.kind, "too_many_watchers");
	cbx_op_cancel(&many[0].op.op);
	ck_assert_int_eq(cbx_execution_watch(x, &many[CBX_WATCHERS_MAX].op, &err), 0);
	cbx_ops_cancel(&a.ops);
}
END_TEST

/* ---- files ---- */

struct asked {
	struct cbx_file_op op;
	int answers;
	char kind[40];
};

static void answered(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct asked *q = cbx_container_of(op, struct asked, op);

	ck_assert_ptr_nonnull(err);
	ck_assert_ptr_null(reply);
	q->answers++;
	snprintf(q->kind, sizeof(q->kind), "%s", err->kind);
}

START_TEST(requests_for_files_end_with_their_session)
{
	struct asked q[3];
	struct cbx_session *s;
	struct cbx_err err;

	for (int i = 0; i < 3; i++)
		q[i] = (struct asked){ .op = { .op.ops = &a.ops, .done = answered } };
	ck_assert_ptr_nonnull(s = create(&a, "", NULL, &err));
	ck_assert_int_eq(cbx_session_file_read(s, "a", 0, 10, &q[0].op, &err), 0);
	ck_assert_int_eq(cbx_session_file_write(s, "a", 0, 0, "x", 1, &q[1].op, &err), 0);
	cbx_op_cancel(&q[1].op.op);
	cbx_session_close(&a, s, "a test");
	ck_assert_int_eq(q[0].answers, 0);
	ck_assert_int_lt(cbx_session_file_stat(s, "a", &q[2].op, &err), 0);
	ck_assert_str_eq(err.kind, "session_expired");
	for (int i = 0; i < 1000 && cbx_op_pending(&q[0].op.op); i++)
		event_base_loop(base, EVLOOP_ONCE);
	ck_assert_int_eq(q[0].answers, 1);
	ck_assert_str_eq(q[0].kind, "session_expired");
	ck_assert_int_eq(q[1].answers + q[2].answers, 0);
}
END_TEST

START_TEST(quota)
{
	struct cbx_session *s;
	struct cbx_err err;

	first.sessions_max = 2;
	ck_assert_ptr_nonnull(create(&b, "", NULL, &err));
	ck_assert_ptr_nonnull(create(&b, "", NULL, &err));
	ck_assert_ptr_nonnull(create(&a, "", NULL, &err));
	ck_assert_ptr_nonnull(s = create(&a, "", NULL, &err));
	ck_assert_ptr_null(create(&a, "", NULL, &err));
	ck_assert_str_eq(err.kind, "too_many_sessions");
	ck_assert_ptr_nonnull(strstr(err.msg, "you have 2 sessions"));
	ck_assert_ptr_nonnull(create(&b, "", NULL, &err));
	cbx_session_close(&a, s, "a test");
	ck_assert_ptr_nonnull(create(&a, "", NULL, &err));
	ck_assert_int_eq(listed(&a), 2);
	ck_assert_int_eq(listed(&b), 3);
}
END_TEST

static double limit(struct cbx_session *s, const char *name)
{
	_cleanup_json_ cJSON *o = cbx_session_to_json(s);
	const cJSON *v = cbx_json_member(cbx_json_member(o, "limits"), name);

	return v->valuestring ? strtod(v->valuestring, NULL) : v->valuedouble;
}

START_TEST(ceiling)
{
	static const char text[] = "{\"limits\": {\"memory\": \"128M\", \"processes\": 20}}";
	struct cbx_session *of_a, *of_b;
	struct cbx_err err;

	ck_assert_int_eq(cbx_policy_parse(text, strlen(text), "t", "t.json", NULL, NULL, &first.ceiling, &err), 0);
	ck_assert_ptr_nonnull(of_a = create(&a, "", NULL, &err));
	ck_assert_ptr_nonnull(of_b = create(&b, "", NULL, &err));
	ck_assert_double_eq(limit(of_a, "memory_bytes"), (double)MIB(128));
	ck_assert_double_eq(limit(of_a, "processes"), 20);
	ck_assert_double_gt(limit(of_b, "memory_bytes"), (double)MIB(128));
	ck_assert_double_gt(limit(of_b, "processes"), 20);
}
END_TEST

/* Who is still waiting when the engine ends learns of it, too. */
START_TEST(answers_at_the_end)
{
	struct cbx_err err;
	struct made m;

	ck_assert_ptr_nonnull(create(&a, "", &m, &err));
	stop();
	ck_assert_int_eq(m.answers, 1);
	ck_assert_str_eq(m.kind, "session_expired");
}
END_TEST

static void add(TCase *t)
{
	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_test(t, ids_are_each_ones_own);
	tcase_add_test(t, news_are_each_ones_own);
	tcase_add_test(t, answers);
	tcase_add_test(t, refusals);
	tcase_add_test(t, cells_end_with_their_session);
	tcase_add_test(t, a_cell_that_waits_is_cancelled);
	tcase_add_test(t, ceilings_of_cells);
	tcase_add_test(t, requests_for_files_end_with_their_session);
	tcase_add_test(t, quota);
	tcase_add_test(t, ceiling);
	tcase_add_test(t, answers_at_the_end);
}

TEST_MAIN("engine", add)
