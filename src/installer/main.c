/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codeboxd starts this program when the first package is wanted, before which it is a process that
 * waits (session/packages.c). It takes jobs from its one socket, each a socket of its own, and forks for each. It reads
 * nothing but what codeboxd says, ends when codeboxd does, and as root becomes the service's account first.
 *
 * What installs is one process more, and its job's waits for it and for codeboxd to hang up: then the installation was
 * given up, so it is killed with all its children, and what it has made is removed.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <curl/curl.h>

#include "base/cleanup.h"
#include "base/dirs.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/remove.h"
#include "installer/installer.h"
#include "packages/job.h"
#include "sandbox/worker.h"

#define PIECE 4096

static void say(int out, cJSON *answer, const struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf line = { 0 };

	if (err) {
		cbx_json_set_str(answer, "kind", err->kind);
		cbx_json_set_str(answer, "message", err->msg);
	}
	cbx_json_print(&line, answer);
	cbx_buf_addc(&line, '\n');
	(void)cbx_write_all(out, line.data, line.len);
}

/* False: codeboxd has hung up. */
static bool await(int sock, int answers, struct cbx_buf *ret)
{
	for (;;) {
		struct pollfd p[] = { { .fd = sock }, { .fd = answers, .events = POLLIN } };
		ssize_t n;

		if (poll(p, ARRAY_SIZE(p), -1) < 0 && errno == EINTR)
			continue;
		if (p[0].revents)
			return false;
		n = read(answers, cbx_buf_reserve(ret, PIECE), PIECE);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return true;
		ret->len += (size_t)n;
	}
}

static int install(int sock, const cJSON *job, const struct cbx_store_dirs *store, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	bool wanted;
	int fds[2];
	pid_t pid;

	/* Those whose parents are killed become ours, so that none makes anything when it is removed. */
	if (pipe2(fds, O_CLOEXEC) < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return cbx_fail(err, errno, "prepare for an installation");
	pid = fork();
	if (pid < 0)
		return cbx_fail(err, errno, "fork");
	if (pid == 0) {
		_cleanup_json_ cJSON *answer = cbx_json_new_obj();

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(sock);
		say(fds[1], answer, cbx_install(job, store, answer, err) < 0 ? err : NULL);
		_exit(0);
	}
	close(fds[1]);
	wanted = await(sock, fds[0], &text);
	if (!wanted)
		kill(pid, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	if (!wanted || !text.len || cbx_write_all(sock, text.data, text.len) < 0)
		cbx_install_undo(job, store);
	return 0;
}

/* Answers go out by themselves. An index that takes its time is not waited for when nobody wants to know any more. */
static int answers(int sock, const cJSON *job, const struct cbx_store_dirs *store, struct cbx_buf *got,
		   struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf nothing = { 0 };
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return cbx_fail(err, errno, "prepare for a question");
	pid = fork();
	if (pid < 0)
		return cbx_fail(err, errno, "fork");
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		cbx_answer_questions(job, store, sock, got);
		_exit(0);
	}
	close(fds[1]);
	if (!await(sock, fds[0], &nothing))
		kill(pid, SIGKILL);
	return 0;
}

static int read_job(int sock, struct cbx_buf *got, struct cbx_json_doc *ret, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	int r = cbx_job_line(sock, got, &text);

	return r <= 0 ? cbx_fail(err, r ? -r : EPIPE, "read a job")
		      : cbx_json_parse(cbx_buf_str(&text), text.len, ret, err);
}

/* The process of one job. */
static void serve(int sock, void *arg)
{
	const struct cbx_store_dirs *store = arg;
	_cleanup_json_ cJSON *answer = cbx_json_new_obj();
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	_cleanup_buf_ struct cbx_buf got = { 0 };
	struct cbx_err err = { 0 };
	const char *what;
	int r;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	r = read_job(sock, &got, &doc, &err);

	what = r < 0 ? "" : cbx_json_text(doc.root, "job");
	if (r >= 0 && what && strcmp(what, "answer") == 0) {
		r = answers(sock, doc.root, store, &got, &err);
		if (r >= 0)
			_exit(0);
	} else if (r >= 0 && what && strcmp(what, "install") == 0) {
		r = install(sock, doc.root, store, &err);
		if (r >= 0)
			_exit(0);
	} else if (r >= 0 && what && strcmp(what, "drop") == 0) {
		r = cbx_drop(doc.root, store, &err);
	} else if (r >= 0) {
		r = cbx_refuse(&err, "protocol", EINVAL, "there is no such job");
	}
	say(sock, answer, r < 0 ? &err : NULL);
	_exit(0);
}

static int open_store(const char *all, const char *own, struct cbx_store_dirs *ret, struct cbx_err *err)
{
	ret->all = open(all, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ret->own = ret->all < 0 ? -1 : openat(ret->all, own, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return ret->own < 0 ? cbx_fail(err, errno, "open %s/%s", all, own) : 0;
}

int main(int argc, char **argv)
{
	struct cbx_service service;
	struct cbx_dirs dirs;
	struct cbx_err err;
	struct cbx_store_dirs store = { .all = -1, .own = -1 };
	int r;

	if (argc != 3) {
		fprintf(stderr, "codebox-packages is started by codeboxd; see codeboxd(8).\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	umask(077);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	r = cbx_dirs_init(&dirs, &err);
	if (r >= 0)
		r = cbx_confine_prepare(dirs.share, &store, &err);
	if (r >= 0)
		r = cbx_service_init(&service, &err);
	if (r >= 0)
		r = cbx_service_become(&service, &err);
	/* A change of ids makes a process undumpable, and its /proc files root's: what unpacks must write its id maps.
	 */
	if (r >= 0 && prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		r = cbx_fail(&err, errno, "prepare for namespaces");
	if (r >= 0)
		r = open_store(argv[1], argv[2], &store, &err);
	if (r >= 0)
		r = cbx_store_prepare(&store, &err);
	if (r < 0) {
		fprintf(stderr, "codebox-packages: %s\n", err.msg);
		return 1;
	}
	curl_global_init(CURL_GLOBAL_DEFAULT);
	cbx_worker_take_jobs(CBX_JOB_SOCKET, serve, &store);
	/* codeboxd has gone, and with it all sessions. */
	(void)cbx_remove_tree(store.all, argv[2], CBX_REMOVE_MAX);
	return 0;
}
