/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the supervisor is started once, with the other end of a SOCK_SEQPACKET pair as its descriptor 3.
 * The process that we fork only makes the outer namespaces and exits; the supervisor proper is another child of ours.
 * So a child's end says nothing, and the end of the socket says everything.
 *
 * Requests go out in order. What the socket has no room for waits in a queue, which the number of sessions bounds: each
 * has at most one CREATE, one DESTROY and a MOVE for each interpreter in it. Events are fixed-size; one of another size
 * means that the two programs are not of the same build, and ends the link.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/syscalls.h"
#include "session/internal.h"

#define EVENTS_PER_TURN 64
#define END_WAIT_MS	3000 /* how long an engine that is freed waits for the sandboxes to disappear */

static void link_event(struct cbx_engine *e, struct cbx_event *ev)
{
	struct cbx_session *s = cbx_engine_by_sandbox(e, ev->sandbox);

	if (ev->err.code || ev->err.msg[0]) /* what is clean stays "no error" */
		cbx_err_sanitize(&ev->err);
	switch (ev->type) {
	case CBX_EVENT_UP:
		e->link.state = CBX_LINK_UP;
		e->link.facts = ev->facts;
		break;
	case CBX_EVENT_DOWN:
		if (!e->link.why.code)
			e->link.why = ev->err;
		break;
	case CBX_EVENT_FAILED:
		if (!s)
			break;
		s->gone = true;
		cbx_session_fail(s, &ev->err);
		cbx_session_work(s);
		break;
	case CBX_EVENT_GONE:
		if (s)
			cbx_session_sandbox_gone(s, ev);
		break;
	case CBX_EVENT_MOVED:
		if (s)
			cbx_group_gathered(s, ev->status ? &ev->err : NULL);
		break;
	case CBX_EVENT_MEASURED:
		if (s)
			cbx_group_measured(s, ev->memory_peak);
		break;
	case CBX_EVENT_OOM:
		if (s && s->state != CBX_CLOSING)
			cbx_interp_oom(s, ev->pid);
		break;
	case CBX_EVENT_ENTERED:
		if (s && s->state != CBX_CLOSING)
			cbx_interp_placed(s, ev->pid, ev->err.code ? &ev->err : NULL);
		break;
	case CBX_EVENT_EXITED:
		if (s && s->state != CBX_CLOSING)
			cbx_interp_ended(s, ev->pid, ev->status);
		break;
	case CBX_EVENT_ZYGOTE_READY:
	case CBX_EVENT_ZYGOTE_GONE:
		cbx_zygotes_event(e, ev);
		break;
	default: /* CREATED, and what a later supervisor may tell */
		break;
	}
}

static void link_down(struct cbx_engine *e, const char *what)
{
	struct cbx_link *l = &e->link;
	bool up = l->state == CBX_LINK_UP;

	cbx_engine_child_ended(e);
	if (!l->why.code && !up && l->stage_status > 0 && WIFEXITED(l->stage_status))
		cbx_refuse(&l->why, "no_sandbox", ECHILD, "%s/codebox-supervisor exited with status %d; see the log",
			   e->config.libexec_dir, WEXITSTATUS(l->stage_status));
	if (!l->why.code)
		cbx_refuse(&l->why, "no_sandbox", ECHILD, "%s", what);
	l->state = CBX_LINK_DOWN;
	if (l->in)
		event_del(l->in);
	if (l->out)
		event_del(l->out);
	cbx_close_p(&l->sock);
	cbx_engine_supervisor_down(e, up);
}

void cbx_link_poll(struct cbx_engine *e)
{
	struct cbx_event ev;

	for (int i = 0; i < EVENTS_PER_TURN && e->link.sock >= 0; i++) {
		ssize_t n = cbx_recv_plain(e->link.sock, &ev, sizeof(ev));

		if (n == -EAGAIN)
			return;
		if (n == (ssize_t)sizeof(ev)) {
			link_event(e, &ev);
			continue;
		}
		if (n == 0 || n == -ECONNRESET)
			link_down(e, "it ended without saying why; see the log");
		else
			link_down(e, "its messages could not be read; it is not of the same version as codeboxd");
	}
}

static void link_in(evutil_socket_t fd, short what, void *arg)
{
	cbx_link_poll(arg);
}

static void item_free(struct cbx_link *l, struct cbx_link_item *item)
{
	TAILQ_REMOVE(&l->queue, item, entry);
	for (size_t i = 0; i < item->nfds; i++)
		cbx_close_p(&item->fds[i]);
	free(item);
}

static void link_out(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_engine *e = arg;
	struct cbx_link_item *item;

	while (e->link.sock >= 0 && (item = TAILQ_FIRST(&e->link.queue))) {
		int r = cbx_send_fds(e->link.sock, &item->request, sizeof(item->request), item->fds, item->nfds);

		if (r == -EAGAIN || r == -ENOBUFS) {
			event_add(e->link.out, NULL);
			return;
		}
		/* Any other failure is the peer's end; the reading side will say why. */
		item_free(&e->link, item);
	}
}

static void enqueue(struct cbx_engine *e, uint32_t type, uint64_t sandbox, uint64_t zygote,
		    const struct cbx_plan *plan, int *fds, size_t nfds)
{
	struct cbx_link_item *item = cbx_xcalloc(1, sizeof(*item));

	item->request.type = type;
	item->request.sandbox = sandbox;
	item->request.zygote = zygote;
	if (plan)
		item->request.plan = *plan;
	for (; item->nfds < nfds; item->nfds++)
		item->fds[item->nfds] = take_fd(&fds[item->nfds]);
	TAILQ_INSERT_TAIL(&e->link.queue, item, entry);
	link_out(-1, 0, e);
}

void cbx_link_create(struct cbx_engine *e, uint64_t sandbox, const struct cbx_plan *plan, int fds[3])
{
	enqueue(e, CBX_REQUEST_CREATE, sandbox, 0, plan, fds, fds[1] < 0 ? 1 : 3);
}

void cbx_link_used(struct cbx_engine *e, uint64_t sandbox)
{
	if (e->link.sock >= 0)
		enqueue(e, CBX_REQUEST_USED, sandbox, 0, NULL, NULL, 0);
}

void cbx_link_measure(struct cbx_engine *e, uint64_t sandbox)
{
	if (e->link.sock >= 0)
		enqueue(e, CBX_REQUEST_MEASURE, sandbox, 0, NULL, NULL, 0);
}

void cbx_link_move(struct cbx_engine *e, uint64_t sandbox)
{
	if (e->link.sock >= 0)
		enqueue(e, CBX_REQUEST_MOVE, sandbox, 0, NULL, NULL, 0);
}

void cbx_link_zygote(struct cbx_engine *e, uint64_t number, const struct cbx_plan *plan, int *fd)
{
	enqueue(e, CBX_REQUEST_ZYGOTE, number, 0, plan, fd, 1);
}

void cbx_link_zygote_end(struct cbx_engine *e, uint64_t number)
{
	enqueue(e, CBX_REQUEST_ZYGOTE_END, number, 0, NULL, NULL, 0);
}

void cbx_link_enter(struct cbx_engine *e, uint64_t sandbox, uint64_t zygote, int fds[4])
{
	enqueue(e, CBX_REQUEST_ENTER, sandbox, zygote, NULL, fds, 4);
}

bool cbx_link_destroy(struct cbx_engine *e, uint64_t sandbox)
{
	struct cbx_link_item *item;

	if (e->link.sock < 0)
		return false;
	TAILQ_FOREACH(item, &e->link.queue, entry)
	{
		if (item->request.sandbox == sandbox && item->request.type == CBX_REQUEST_CREATE) {
			item_free(&e->link, item);
			return false;
		}
	}
	enqueue(e, CBX_REQUEST_DESTROY, sandbox, 0, NULL, NULL, 0);
	return true;
}

/* In the child: only what is safe between fork and exec. */
_Noreturn static void exec_supervisor(int sock, char *const argv[])
{
	sigset_t none;

	signal(SIGPIPE, SIG_DFL);
	signal(SIGCHLD, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	umask(022); /* ours is for our own files; the modes inside a sandbox are its own business */
	if (sock == 3)
		fcntl(3, F_SETFD, 0);
	else if (dup2(sock, 3) < 0)
		_exit(126);
	cbx_close_range(4, ~0u, 0);
	execv(argv[0], argv);
	_exit(127);
}

int cbx_link_start(struct cbx_engine *e, struct cbx_err *err)
{
	struct cbx_link *l = &e->link;
	_cleanup_free_ char *program = cbx_xasprintf("%s/codebox-supervisor", e->config.libexec_dir);
	_cleanup_fd_ int theirs = -1;
	char uid[16], gid[16];
	char *argv[] = { program,
			 (char *)e->config.images_dir,
			 (char *)e->config.libexec_dir,
			 (char *)e->config.runtimes_dir,
			 (char *)e->config.syscalls_dir,
			 uid,
			 gid,
			 (char *)(e->policy->nmounts ? "mounts" : "-"),
			 NULL };
	int pair[2];

	snprintf(uid, sizeof(uid), "%u", (unsigned)e->config.service_uid);
	snprintf(gid, sizeof(gid), "%u", (unsigned)e->config.service_gid);
	l->stage_status = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cbx_fail(err, errno, "make a socket pair");
	l->sock = pair[0];
	theirs = pair[1];
	cbx_set_nonblock(l->sock, 1);
	l->in = event_new(e->base, l->sock, EV_READ | EV_PERSIST, link_in, e);
	l->out = event_new(e->base, l->sock, EV_WRITE, link_out, e);
	if (!l->in || !l->out || event_add(l->in, NULL) < 0)
		return cbx_fail(err, ENOMEM, "watch the supervisor's socket");
	if (access(program, X_OK) < 0) {
		cbx_fail(&l->why, errno, "execute %s", program);
		return 0; /* our end of the pair now reads end of file, and the rest follows from that */
	}
	l->stage = fork();
	if (l->stage < 0)
		return cbx_fail(err, errno, "fork the supervisor");
	if (l->stage == 0)
		exec_supervisor(theirs, argv);
	return 0;
}

/* Closing the socket ends the supervisor, and the kernel ends all below it. Wait for that, within bounds, so that
 * nothing of a daemon is left when it has gone. */
void cbx_link_stop(struct cbx_engine *e)
{
	struct cbx_link *l = &e->link;
	struct timespec pause = { .tv_nsec = 5000000 };
	uint64_t until = cbx_now_ms() + END_WAIT_MS;
	struct cbx_link_item *item, *next;

	TAILQ_FOREACH_SAFE(item, &l->queue, entry, next)
	item_free(l, item);
	if (l->in)
		event_free(l->in);
	if (l->out)
		event_free(l->out);
	l->in = l->out = NULL;
	if (l->sock < 0)
		return;
	cbx_close_p(&l->sock);
	while (waitpid(-1, NULL, WNOHANG) >= 0 && cbx_now_ms() < until)
		nanosleep(&pause, NULL);
}
