/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codeboxd starts this program when the first artifact is kept or asked for, before which it is a
 * process that waits (session/jobs.c). It takes jobs from its one socket, each a socket of its own, and forks for each.
 * It reaches the directory of artifacts and nothing else, ends when codeboxd does, and as root becomes the service's
 * account first.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "artifacts/job.h"
#include "artifacts/store.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "sandbox/worker.h"

static void say(int out, cJSON *answer, const struct cbx_buf *bytes, const struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf line = { 0 };

	if (err) {
		cbx_json_set_str(answer, "kind", err->kind);
		cbx_json_set_str(answer, "message", err->msg);
	}
	cbx_json_print(&line, answer);
	cbx_buf_addc(&line, '\n');
	if (cbx_write_all(out, line.data, line.len) == 0 && !err && bytes->len)
		(void)cbx_write_all(out, bytes->data, bytes->len);
}

static int carry_out(int store, const cJSON *job, const char *p, size_t n, cJSON **answer, struct cbx_buf *bytes,
		     struct cbx_err *err)
{
	const char *what = cbx_json_text(job, "job");
	cJSON *about = NULL;
	int r;

	if (!what)
		what = "";
	if (strcmp(what, "put") == 0)
		return cbx_artifact_file_put(store, job, p, n, err);
	if (strcmp(what, "list") == 0)
		return cbx_artifact_file_list(store, job, *answer, err);
	if (strcmp(what, "stored") == 0)
		return cbx_artifact_file_stored(store, job, err);
	if (strcmp(what, "remove") == 0)
		return cbx_artifact_file_remove(store, job, *answer, err);
	if (strcmp(what, "sweep") == 0)
		return cbx_artifact_file_sweep(store, err);
	if (strcmp(what, "read") != 0)
		return cbx_refuse(err, "protocol", EINVAL, "there is no such job");
	r = cbx_artifact_file_read(store, job, &about, bytes, err);
	if (r >= 0) {
		cJSON_Delete(*answer);
		*answer = about;
	}
	return r;
}

/* The process of one job. */
static void serve(int sock, void *arg)
{
	int store = *(const int *)arg;
	_cleanup_buf_ struct cbx_buf text = { 0 }, bytes = { 0 };
	_cleanup_json_ cJSON *answer = cbx_json_new_obj();
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	struct cbx_err err = { 0 };
	const char *end;
	size_t n;
	int r;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	r = cbx_read_whole(sock, CBX_STORE_JOB_MAX, &text);
	end = r < 0 ? NULL : memchr(cbx_buf_str(&text), '\n', text.len);
	n = end ? (size_t)(end - text.data) : 0;
	if (!end)
		r = cbx_refuse(&err, "protocol", EBADMSG, "a job is a line of JSON");
	if (r >= 0)
		r = cbx_json_parse(text.data, n, &doc, &err);
	if (r >= 0)
		r = carry_out(store, doc.root, end + 1, text.len - n - 1, &answer, &bytes, &err);
	say(sock, answer, &bytes, r < 0 ? &err : NULL);
	_exit(0);
}

static int confine(const struct cbx_filter *filter, int store, struct cbx_err *err)
{
	const struct cbx_worker w = { .dir = store,
				      .file_bytes = CBX_WORKER_ANY,
				      .descriptors = 64,
				      .memory_bytes = CBX_WORKER_ANY,
				      .cpu_s = CBX_WORKER_ANY };

	return cbx_worker_confine(&w, filter, err) < 0 ? cbx_wrap(err, "confine the process that keeps artifacts") : 0;
}

int main(int argc, char **argv)
{
	struct cbx_filter filter = { 0 };
	struct cbx_err err;
	int r, store = -1;

	if (argc != 2) {
		fprintf(stderr, "codebox-store is started by codeboxd; see codeboxd(8).\n");
		return 2;
	}
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	r = cbx_worker_begin("artifacts", &filter, &err);
	if (r >= 0 && (store = open(argv[1], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
		r = cbx_fail(&err, errno, "open %s", argv[1]);
	if (r >= 0)
		r = confine(&filter, store, &err);
	if (r < 0) {
		fprintf(stderr, "codebox-store: %s\n", err.msg);
		return 1;
	}
	cbx_worker_take_jobs(CBX_STORE_SOCKET, serve, &store);
	return 0;
}
