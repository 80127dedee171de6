/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codeboxd cannot start a program once it serves clients, so a process that is to become
 * codebox-packages, or codebox-sql, is forked before that. It waits at its socket, in which it costs next to nothing,
 * until the first job comes (packages/job.h, sql/job.h), or the end. Each job has a socket of its own: what was asked
 * goes in, what comes out until its end is the answer.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/remove.h"
#include "base/syscalls.h"
#include "base/timer.h"
#include "packages/job.h"
#include "session/jobs.h"

#define PIECE KIB(64)

struct cbx_jobs {
	struct event_base *base;
	const struct cbx_jobs_program *program;
	int sock;
};

/* In the child: only what is safe between fork and exec. */
_Noreturn static void wait_and_exec(int sock, const char *name, char *const argv[])
{
	struct pollfd p = { .fd = CBX_JOB_SOCKET, .events = POLLIN };
	sigset_t none;

	(void)prctl(PR_SET_NAME, name);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGCHLD, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_IGN); /* of a terminal: codeboxd's end is ours */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (sock == CBX_JOB_SOCKET)
		fcntl(CBX_JOB_SOCKET, F_SETFD, 0);
	else if (dup2(sock, CBX_JOB_SOCKET) < 0)
		_exit(126);
	cbx_close_range(CBX_JOB_SOCKET + 1, ~0u, 0);
	while (poll(&p, 1, -1) <= 0) /* until there is something: nothing else is a reason to clean up */
		;
	if (!(p.revents & POLLIN)) {
		int store = argv[2] ? open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

		_exit(argv[2] && (store < 0 || cbx_remove_tree(store, argv[2], 100) < 0));
	}
	execv(argv[0], argv);
	_exit(127);
}

int cbx_jobs_new(struct event_base *base, const struct cbx_jobs_program *program, const char *libexec_dir,
		 const char *store, const char *own, struct cbx_jobs **ret, struct cbx_err *err)
{
	_cleanup_free_ char *path = cbx_xasprintf("%s/%s", libexec_dir, program->name);
	char *argv[] = { path, (char *)store, (char *)own, NULL };
	struct cbx_jobs *jobs;
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cbx_fail(err, errno, "make a socket pair");
	cbx_set_nonblock(pair[0], 1);
	pid = fork();
	if (pid == 0)
		wait_and_exec(pair[1], program->name, argv);
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return cbx_fail(err, errno, "fork the process that %s", program->does);
	}
	jobs = cbx_xcalloc(1, sizeof(*jobs));
	jobs->base = base;
	jobs->program = program;
	jobs->sock = pair[0];
	*ret = jobs;
	return 0;
}

void cbx_jobs_free(struct cbx_jobs *jobs)
{
	if (!jobs)
		return;
	close(jobs->sock);
	free(jobs);
}

void cbx_job_end(struct cbx_job *j)
{
	cbx_event_free_p(&j->in);
	cbx_event_free_p(&j->out);
	cbx_close_p(&j->fd);
	if (j->send.data)
		explicit_bzero(j->send.data, j->send.cap); /* a job may have a password */
	cbx_buf_release(&j->send);
	cbx_buf_release(&j->got);
}

static void job_out(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_job *j = arg;

	while (j->send.len) {
		ssize_t n = send(j->fd, j->send.data, j->send.len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			event_add(j->out, NULL);
			return;
		}
		if (n < 0)
			break; /* the reading side says why */
		cbx_buf_drop(&j->send, (size_t)n);
	}
	if (!j->talks)
		shutdown(j->fd, SHUT_WR);
}

static void job_in(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_job *j = arg;
	ssize_t n;

	for (int i = 0; i < (j->some ? 1 : 16); i++) {
		n = read(j->fd, cbx_buf_reserve(&j->got, PIECE), PIECE);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			return;
		if (n <= 0)
			break;
		j->got.len += (size_t)n;
		j->got.data[j->got.len] = '\0';
		if (j->got.len > j->max)
			break;
	}
	if (n > 0 && j->got.len <= j->max && !j->some)
		return;
	if (n <= 0 || j->got.len > j->max)
		event_del(j->in);
	if (j->some && j->got.len <= j->max && n > 0)
		j->some(j);
	else
		j->done(j);
}

void cbx_job_pause(struct cbx_job *j, bool on)
{
	if (on)
		event_del(j->in);
	else
		event_add(j->in, NULL);
}

void cbx_job_say(struct cbx_job *j, const cJSON *what)
{
	cbx_json_print(&j->send, what);
	cbx_buf_addc(&j->send, '\n');
	job_out(j->fd, 0, j);
}

int cbx_job_begin(struct cbx_jobs *jobs, struct cbx_job *j, const cJSON *what, struct cbx_err *err)
{
	return cbx_job_begin_bytes(jobs, j, what, "", 0, err);
}

int cbx_job_begin_bytes(struct cbx_jobs *jobs, struct cbx_job *j, const cJSON *what, const void *p, size_t n,
			struct cbx_err *err)
{
	_cleanup_fd_ int theirs = -1;
	int pair[2], r;

	j->fd = -1;
	if (!jobs)
		return cbx_refuse(err, "no_worker", ENOSYS,
				  "this codeboxd was started without the process for this; restart it "
				  "(codebox stop)");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return cbx_fail(err, errno, "make a socket pair");
	j->fd = pair[0];
	theirs = pair[1];
	cbx_set_nonblock(j->fd, 1);
	j->program = jobs->program;
	r = cbx_send_fds(jobs->sock, "j", 1, &theirs, 1);
	j->in = event_new(jobs->base, j->fd, EV_READ | EV_PERSIST, job_in, j);
	j->out = event_new(jobs->base, j->fd, EV_WRITE, job_out, j);
	if (r < 0 || !j->in || !j->out || event_add(j->in, NULL) < 0) {
		cbx_job_end(j);
		return r == -EAGAIN ? cbx_refuse(err, "busy", EAGAIN, "too much is asked for at once; try again later")
				    : cbx_refuse(err, jobs->program->kind, EPIPE,
						 "the process that %s has ended; see the log, and restart codeboxd",
						 jobs->program->does);
	}
	cbx_json_print(&j->send, what);
	cbx_buf_addc(&j->send, '\n');
	cbx_buf_add(&j->send, p, n);
	job_out(j->fd, 0, j);
	return 0;
}

int cbx_job_read(const struct cbx_job *j, cJSON **ret, size_t *ret_rest, struct cbx_err *err)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	const char *end = j->got.data ? memchr(j->got.data, '\n', j->got.len) : NULL;
	size_t n = end ? (size_t)(end - j->got.data) : 0;

	if (!end || j->got.len > j->max || cbx_json_parse(j->got.data, n, &doc, err) < 0 || !cJSON_IsObject(doc.root))
		return cbx_refuse(err, "install_failed", EBADMSG, "the process that %s gave no answer; see the log",
				  j->program ? j->program->does : "was asked");
	if (cbx_json_text(doc.root, "kind"))
		return cbx_json_error(doc.root, "install_failed", EIO, err);
	*ret = take_ptr(&doc.root);
	*ret_rest = n + 1;
	return 0;
}
