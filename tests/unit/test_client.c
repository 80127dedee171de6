/* SPDX-License-Identifier: Apache-2.0 */
/* The client of the control socket: lines, answers, errors and files, against answers written beforehand. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "client/client.h"
#include "client/remote.h"
#include "unit_main.h"

static struct cbx_client client;
static int peer;

static void setup(void)
{
	int fds[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	memset(&client, 0, sizeof(client));
	client.fd = fds[0];
	peer = fds[1];
}

static void teardown(void)
{
	cbx_client_close(&client);
	cbx_close_p(&peer);
}

static void say(const char *text)
{
	ck_assert_int_eq(cbx_write_all(peer, text, strlen(text)), 0);
}

/* What the client has sent, as one line. */
static const char *heard(void)
{
	static char line[200000];
	size_t n = 0;

	while (n < sizeof(line) - 1 && read(peer, line + n, 1) == 1 && line[n] != '\n')
		n++;
	line[n] = '\0';
	return line;
}

START_TEST(sends_lines_with_growing_ids)
{
	cJSON *params = cbx_json_new_obj();
	struct cbx_err err;
	uint64_t id = 0;

	cbx_json_set_str(params, "code", "a\nb");
	ck_assert_int_eq(cbx_client_send(&client, "run", params, &id, &err), 0);
	ck_assert_uint_eq(id, 1);
	ck_assert_str_eq(heard(), "{\"id\":1,\"method\":\"run\",\"params\":{\"code\":\"a\\nb\"}}");
	ck_assert_int_eq(cbx_client_send(&client, "hello", NULL, &id, &err), 0);
	ck_assert_uint_eq(id, 2);
	ck_assert_str_eq(heard(), "{\"id\":2,\"method\":\"hello\",\"params\":{}}");
}
END_TEST

START_TEST(receives_what_comes_in_pieces)
{
	_cleanup_json_ cJSON *first = NULL, *second = NULL, *none = NULL;
	struct cbx_err err;

	say("{\"a\":1}\n{\"b\"");
	ck_assert_int_eq(cbx_client_recv(&client, &first, &err), 1);
	ck_assert_ptr_nonnull(cbx_json_member(first, "a"));
	ck_assert(!cbx_client_pending(&client));
	say(":2}\n");
	ck_assert_int_eq(cbx_client_recv(&client, &second, &err), 1);
	ck_assert_ptr_nonnull(cbx_json_member(second, "b"));
	cbx_close_p(&peer);
	ck_assert_int_eq(cbx_client_recv(&client, &none, &err), 0);
}
END_TEST

START_TEST(pending_knows_of_whole_lines)
{
	_cleanup_json_ cJSON *first = NULL, *second = NULL;
	struct cbx_err err;

	say("{}\n{}\n");
	ck_assert(!cbx_client_pending(&client));
	ck_assert_int_eq(cbx_client_recv(&client, &first, &err), 1);
	ck_assert(cbx_client_pending(&client));
	ck_assert_int_eq(cbx_client_recv(&client, &second, &err), 1);
	ck_assert(!cbx_client_pending(&client));
}
END_TEST

START_TEST(refuses_what_is_no_object)
{
	static const char *const lines[] = { "nonsense\n", "[1]\n", "\n", "{\"a\":}\n", "1\n" };
	_cleanup_json_ cJSON *msg = NULL;
	struct cbx_err err;

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		say(lines[i]);
		ck_assert_int_lt(cbx_client_recv(&client, &msg, &err), 0);
		ck_assert_str_eq(err.kind, "invalid_json");
		ck_assert_ptr_null(msg);
	}
	say("{}\n"); /* a bad line is gone, and the next one is read */
	ck_assert_int_eq(cbx_client_recv(&client, &msg, &err), 1);
}
END_TEST

START_TEST(calls_skip_events_and_other_answers)
{
	_cleanup_json_ cJSON *result = NULL;
	struct cbx_err err;

	say("{\"event\":\"output\",\"request\":1}\n{\"id\":7,\"result\":{}}\n{\"id\":1,\"result\":{\"x\":5}}\n");
	ck_assert_int_eq(cbx_client_call(&client, "m", NULL, &result, &err), 0);
	ck_assert_int_eq(cbx_json_member(result, "x")->valueint, 5);
}
END_TEST

START_TEST(calls_report_errors)
{
	_cleanup_json_ cJSON *result = NULL;
	struct cbx_err err;

	say("{\"id\":1,\"error\":{\"kind\":\"session_not_found\",\"message\":\"no\\u001b[2J\"}}\n"
	    "{\"id\":2,\"error\":{\"kind\":\"Bad Kind!\"}}\n{\"id\":3}\n{\"id\":4,\"error\":{}}\n");
	ck_assert_int_lt(cbx_client_call(&client, "m", NULL, &result, &err), 0);
	ck_assert_str_eq(err.kind, "session_not_found");
	ck_assert_str_eq(err.msg, "no?[2J");
	ck_assert_int_lt(cbx_client_call(&client, "m", NULL, &result, &err), 0);
	ck_assert_str_eq(err.kind, "_ad__ind_");
	ck_assert_int_lt(cbx_client_call(&client, "m", NULL, &result, &err), 0);
	ck_assert_str_eq(err.kind, "invalid_json");
	ck_assert_int_lt(cbx_client_call(&client, "m", NULL, &result, &err), 0);
	ck_assert_str_eq(err.kind, "internal");
	ck_assert_ptr_null(result);
}
END_TEST

START_TEST(a_closed_connection_is_named)
{
	struct cbx_err err;

	cbx_close_p(&peer);
	ck_assert_int_lt(cbx_client_call(&client, "m", NULL, NULL, &err), 0);
	ck_assert_str_eq(err.kind, "daemon_gone");
}
END_TEST

START_TEST(long_lines_arrive)
{
	_cleanup_json_ cJSON *result = NULL;
	_cleanup_buf_ struct cbx_buf line = { 0 };
	struct cbx_err err;
	pid_t pid = fork();

	if (pid == 0) {
		cbx_buf_adds(&line, "{\"id\":1,\"result\":{\"x\":\"");
		for (int i = 0; i < 300000; i++)
			cbx_buf_adds(&line, "0123456789");
		cbx_buf_adds(&line, "\"}}\n");
		_exit(cbx_write_all(peer, line.data, line.len) < 0);
	}
	ck_assert_int_eq(cbx_client_call(&client, "m", NULL, &result, &err), 0);
	ck_assert_uint_eq(strlen(cbx_json_member(result, "x")->valuestring), 3000000);
}
END_TEST

START_TEST(reads_files)
{
	struct cbx_remote remote = { .client = &client, .session = "s" };
	_cleanup_buf_ struct cbx_buf buf = { 0 };
	struct cbx_err err;
	bool eof = true;

	say("{\"id\":1,\"result\":{\"data\":\"AAH/\",\"size\":6,\"eof\":false}}\n"
	    "{\"id\":2,\"result\":{\"data\":\"\",\"size\":6,\"eof\":false}}\n"
	    "{\"id\":3,\"result\":{\"data\":\"!\",\"eof\":true}}\n");
	ck_assert_int_eq(cbx_remote_read(&remote, "f", 0, &buf, &eof, &err), 0);
	ck_assert_uint_eq(buf.len, 3);
	ck_assert_int_eq(memcmp(buf.data, "\0\1\377", 3), 0);
	ck_assert(!eof);
	ck_assert_int_eq(cbx_remote_read(&remote, "f", 3, &buf, &eof, &err), 0);
	ck_assert(eof); /* nothing, and no end: it must not read for ever */
	ck_assert_int_lt(cbx_remote_read(&remote, "f", 3, &buf, &eof, &err), 0);
}
END_TEST

START_TEST(stats_are_read_with_care)
{
	struct cbx_remote remote = { .client = &client, .session = "s" };
	struct cbx_remote_stat st;
	struct cbx_err err;

	say("{\"id\":1,\"result\":{\"type\":\"directory\",\"size\":-5,\"mode\":1e300}}\n"
	    "{\"id\":2,\"result\":{\"type\":7,\"size\":\"x\"}}\n"
	    "{\"id\":3,\"result\":{\"type\":\"file\",\"size\":1e30,\"mode\":493}}\n");
	ck_assert_int_eq(cbx_remote_stat(&remote, "f", &st, &err), 0);
	ck_assert_int_eq(st.type, CBX_REMOTE_DIRECTORY);
	ck_assert_uint_eq(st.size, 0);
	ck_assert_uint_eq(st.mode, 0);
	ck_assert_int_eq(cbx_remote_stat(&remote, "f", &st, &err), 0);
	ck_assert_int_eq(st.type, CBX_REMOTE_OTHER);
	ck_assert_int_eq(cbx_remote_stat(&remote, "f", &st, &err), 0);
	ck_assert_uint_eq(st.size, 0);
	ck_assert_uint_eq(st.mode, 0755);
}
END_TEST

START_TEST(short_writes_are_a_full_disk)
{
	struct cbx_remote remote = { .client = &client, .session = "s" };
	struct cbx_err err;

	say("{\"id\":1,\"result\":{\"written\":2}}\n");
	ck_assert_int_lt(cbx_remote_write(&remote, "f", 0, "abc", 3, false, &err), 0);
	ck_assert_str_eq(err.kind, "disk_full");
	ck_assert_str_eq(heard(), "{\"id\":1,\"method\":\"file.write\",\"params\":{\"session_id\":\"s\",\"path\":\"f\","
				  "\"data\":\"YWJj\",\"offset\":0,\"truncate\":true,\"executable\":false}}");
}
END_TEST

static void add(TCase *t)
{
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, sends_lines_with_growing_ids);
	tcase_add_test(t, receives_what_comes_in_pieces);
	tcase_add_test(t, pending_knows_of_whole_lines);
	tcase_add_test(t, refuses_what_is_no_object);
	tcase_add_test(t, calls_skip_events_and_other_answers);
	tcase_add_test(t, calls_report_errors);
	tcase_add_test(t, a_closed_connection_is_named);
	tcase_add_test(t, long_lines_arrive);
	tcase_add_test(t, reads_files);
	tcase_add_test(t, stats_are_read_with_care);
	tcase_add_test(t, short_writes_are_a_full_disk);
}

TEST_MAIN("client", add)
