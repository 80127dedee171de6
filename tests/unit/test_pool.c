/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions that are made ahead of time: when there is one, who gets it, when it goes. The supervisor is one that takes
 * every request and says nothing, so entries are on their way and stay so, unless the test says otherwise.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/internal.h"
#include "session/pool.h"
#include "unit_main.h"

#define MANIFEST(name)                                                                                                      \
	"{\"format\":1,\"name\":\"" name "\",\"kind\":\"host\",\"created\":\"2026-01-02T03:04:05Z\",\"digest\":"            \
	"\"sha256:00\",\"files\":3,\"bytes\":4,\"architecture\":\"amd64\",\"layers\":[{\"source\":\"rootfs\","       \
	"\"target\":\"/\"}],\"interpreters\":{\"python\":{\"argv\":[\"/usr/bin/python3\"]}}}"

static char dir[] = "/tmp/cbxpoolXXXXXX";
static struct event_base *base;
static struct cbx_engine *engine;
static struct cbx_principal principal = CBX_PRINCIPAL_LOCAL;
static struct cbx_caller caller;

static void run(const char *command)
{
	char text[300];

	snprintf(text, sizeof(text), "cd %s && %s", dir, command);
	ck_assert_int_eq(system(text), 0);
}

static void write_file(const char *name, const char *text)
{
	char path[100];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_ge(fputs(text, f), 0);
	ck_assert_int_eq(fclose(f), 0);
}

static void set_up_with(unsigned max)
{
	struct cbx_engine_config config = { .images_dir = dir, .libexec_dir = dir, .runtimes_dir = RUNTIMES,
					    .syscalls_dir = dir, .pool_max = max, .pool_idle_ms = 600000 };
	struct cbx_err err;

	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	run("mkdir -p python/rootfs other/rootfs");
	write_file("python/manifest.json", MANIFEST("python"));
	write_file("other/manifest.json", MANIFEST("other"));
	write_file("codebox-supervisor", "#!/bin/sh\nexec cat <&3 >/dev/null\n");
	run("chmod +x codebox-supervisor");
	base = event_base_new();
	ck_assert_int_eq(cbx_engine_new(base, &config, &engine, &err), 0);
	caller = (struct cbx_caller){ .engine = engine, .principal = &principal };
}

static void set_up(void)
{
	set_up_with(2);
}

static void tear_down(void)
{
	cbx_engine_free(engine);
	event_base_free(base);
	run("rm -rf ../$(basename $PWD)");
}

static uint64_t says(const char *key)
{
	cJSON *o = cbx_pool_to_json(engine);
	const cJSON *v = cbx_json_member(o, key);
	uint64_t n = strtoull(v->valuestring, NULL, 10);

	cJSON_Delete(o);
	return n;
}

/* Until this number is on its way. */
static void wait_for(uint64_t n)
{
	for (int i = 0; i < 10000 && says("starting") != n; i++)
		event_base_loop(base, EVLOOP_ONCE);
	ck_assert_uint_eq(says("starting"), n);
}

static struct cbx_session *create(const char *image, uint64_t memory)
{
	struct cbx_session *s = NULL;
	struct cbx_session_spec spec;
	struct cbx_err err;

	cbx_session_spec_init(&spec);
	snprintf(spec.image, sizeof(spec.image), "%s", image);
	if (memory) {
		spec.memory_bytes = memory;
		spec.given = 1ull << CBX_KEY_MEMORY;
	}
	ck_assert_msg(cbx_session_create(&caller, &spec, NULL, &s, &err) == 0, "%s", err.msg);
	return s;
}

/* The sandbox of an entry; NULL: there is none. */
static struct cbx_session *an_entry(void)
{
	for (size_t i = 0; i < CBX_BOX_BUCKETS; i++) {
		struct cbx_box *box;

		LIST_FOREACH (box, &engine->boxes.by_number[i], by_number) {
			struct cbx_session *s = cbx_container_of(box, struct cbx_session, box);

			if (s->shape)
				return s;
		}
	}
	return NULL;
}

START_TEST(who_asks_for_the_same_gets_it)
{
	struct cbx_session *entry, *s;

	cbx_engine_expect(engine);
	ck_assert_uint_eq(says("starting"), 0); /* not from inside the call */
	wait_for(1);
	entry = an_entry();
	ck_assert_ptr_nonnull(entry);
	ck_assert_uint_eq(cbx_engine_sessions(engine), 0); /* it is nobody's */
	s = create("", 0);
	ck_assert_ptr_eq(s, entry);
	ck_assert_ptr_null(s->shape);
	ck_assert_str_eq(s->tenant, "local");
	ck_assert_uint_ne(strlen(cbx_session_id(s)), 0);
	ck_assert_uint_eq(cbx_engine_sessions(engine), 1);
	ck_assert_uint_eq(says("taken"), 1);
	ck_assert_uint_eq(says("starting"), 0);
}
END_TEST

START_TEST(who_asks_for_another_does_not)
{
	struct cbx_session *entry;

	cbx_engine_expect(engine);
	wait_for(1);
	entry = an_entry();
	ck_assert_ptr_ne(create("", MIB(300)), entry);
	ck_assert_ptr_ne(create("other", 0), entry);
	ck_assert_uint_eq(says("taken"), 0);
	ck_assert_uint_eq(says("missed"), 2);
	ck_assert_ptr_eq(create("", 0), entry);
}
END_TEST

/* An image that was made anew is another one. */
START_TEST(an_old_image_serves_nobody)
{
	struct cbx_session *entry;

	cbx_engine_expect(engine);
	wait_for(1);
	entry = an_entry();
	run("cp -r python new && mv python old && mv new python");
	ck_assert_ptr_ne(create("", 0), entry);
	ck_assert_uint_eq(says("taken"), 0);
}
END_TEST

START_TEST(a_failure_costs_nobody_anything)
{
	struct cbx_session *entry;
	struct cbx_err err;

	cbx_engine_expect(engine);
	wait_for(1);
	entry = an_entry();
	cbx_refuse(&err, "sandbox_failed", EIO, "a test");
	cbx_session_fail(entry, &err);
	ck_assert_uint_eq(says("failed"), 1);
	ck_assert_uint_eq(says("starting"), 0);
	ck_assert_uint_eq(cbx_engine_sessions(engine), 0);
	ck_assert_ptr_ne(create("", 0), entry);
	ck_assert_uint_eq(says("missed"), 1);
}
END_TEST

START_TEST(another_policy_has_entries_of_its_own)
{
	static const char text[] = "{\"limits\": {\"memory\": \"256M\"}}";
	struct cbx_session *old, *entry;
	struct cbx_policy *p;
	struct cbx_err err;

	cbx_engine_expect(engine);
	wait_for(1);
	old = an_entry();
	ck_assert_int_eq(cbx_policy_parse(text, strlen(text), "t", "t.json", NULL, NULL, &p, &err), 0);
	ck_assert(!cbx_engine_set_policy(engine, p, NULL));
	cbx_policy_free(p);
	ck_assert_uint_eq(says("starting"), 0);
	wait_for(1);
	entry = an_entry();
	ck_assert_ptr_ne(entry, old);
	ck_assert_uint_eq(entry->spec.memory_bytes, MIB(256));
	ck_assert_ptr_eq(create("", 0), entry);
}
END_TEST

START_TEST(without_a_pool)
{
	tear_down();
	set_up_with(0);
	cbx_engine_expect(engine);
	event_base_loop(base, EVLOOP_NONBLOCK);
	ck_assert_ptr_null(an_entry());
	ck_assert_ptr_nonnull(create("", 0));
	cbx_session_close(&caller, create("", 0), "a test");
	ck_assert_uint_eq(says("max"), 0);
}
END_TEST

static void add(TCase *t)
{
	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_test(t, who_asks_for_the_same_gets_it);
	tcase_add_test(t, who_asks_for_another_does_not);
	tcase_add_test(t, an_old_image_serves_nobody);
	tcase_add_test(t, a_failure_costs_nobody_anything);
	tcase_add_test(t, another_policy_has_entries_of_its_own);
	tcase_add_test(t, without_a_pool);
}

TEST_MAIN("pool", add)
