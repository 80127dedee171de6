/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the supervisor is started once, with the other end of a SOCK_SEQPACKET pair as its descriptor 3.
 * The process that we fork only makes the outer namespaces and exits; the supervisor proper is another child of ours.
 * So a child's end says nothing, and the end of the socket says everything.
 *
 * Requests go out in order. What the socket has no room for waits in a queue, which the number of sessions bounds: each
 * has at most one CREATE, one DESTROY, one PACKAGES, one MEASURE and a MOVE for each interpreter in it. Events are
 * fixed-size; one of another size means that the two programs are not of the same build, and ends the link.
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
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "base/timer.h"
#include "box/egress.h"
#include "box/link.h"

#define EVENTS_PER_TURN 64
#define END_WAIT_MS	3000 /* how long an engine that is freed waits for the sandboxes to disappear */

struct cbx_link_item {
	TAILQ_ENTRY(cbx_link_item) entry;
	struct cbx_request request;
	int fds[CBX_INTERPRETER_FDS]; /* closed when sent */
	size_t nfds;
};

static struct cbx_box *by_number(struct cbx_boxes *all, uint64_t number)
{
	struct cbx_box *box;

	LIST_FOREACH (box, &all->by_number[number % CBX_BOX_BUCKETS], by_number)
		if (box->number == number)
			return box;
	return NULL;
}

static void box_gone(struct cbx_box *box, const struct cbx_err *why)
{
	const struct cbx_box_events *events = box->all->events;

	box->gone = true;
	if (!box->closed)
		events->failed(box, why);
	events->gone(box);
}

/* An answer to an earlier request says nothing of what was started since. */
static void moved(struct cbx_box *box, const struct cbx_err *err)
{
	if (box->moves == 0 || --box->moves || box->closed)
		return;
	box->all->events->limited(box, err);
}

static void box_event(struct cbx_box *box, const struct cbx_event *ev)
{
	const struct cbx_box_events *events = box->all->events;
	struct cbx_err err;

	switch (ev->type) {
	case CBX_EVENT_FAILED:
		box_gone(box, &ev->err);
		break;
	case CBX_EVENT_GONE:
		cbx_refuse(&err, "sandbox_failed", ECHILD, "the sandbox ended unexpectedly%s%s",
			   ev->err.msg[0] ? ": " : "", ev->err.msg);
		box_gone(box, &err);
		break;
	case CBX_EVENT_MOVED:
		moved(box, ev->status ? &ev->err : NULL);
		break;
	case CBX_EVENT_MEASURED:
		box->measured = true;
		box->measuring = false;
		box->pss = ev->memory_peak;
		box->cpu_us = ev->cpu_us;
		box->measured_ms = cbx_now_ms();
		if (!box->closed)
			events->measured(box);
		break;
	case CBX_EVENT_PACKAGES:
		if (!box->closed)
			events->attached(box, ev->err.code ? &ev->err : NULL);
		break;
	case CBX_EVENT_CUT:
		box->cut = true;
		if (!box->closed && events->decided)
			events->decided(box, "network: " CBX_EGRESS_CUT);
		break;
	case CBX_EVENT_OOM:
		if (!box->closed)
			events->oom(box, ev->pid, (enum cbx_oom)ev->status);
		break;
	case CBX_EVENT_ENTERED:
		if (!box->closed)
			events->placed(box, ev->pid, ev->err.code ? &ev->err : NULL);
		break;
	case CBX_EVENT_EXITED:
		if (!box->closed)
			events->ended(box, ev->pid, ev->status);
		break;
	default: /* what a later supervisor may tell */
		break;
	}
}

static void link_event(struct cbx_boxes *all, struct cbx_event *ev)
{
	struct cbx_box *box;

	if (ev->err.code || ev->err.msg[0]) /* what is clean stays "no error" */
		cbx_err_sanitize(&ev->err);
	switch (ev->type) {
	case CBX_EVENT_UP:
		all->link.state = CBX_LINK_UP;
		all->link.facts = ev->facts;
		break;
	case CBX_EVENT_DOWN:
		if (!all->link.why.code)
			all->link.why = ev->err;
		break;
	case CBX_EVENT_ZYGOTE_READY:
	case CBX_EVENT_ZYGOTE_GONE:
		all->events->zygote(all->arg, ev);
		break;
	default:
		box = by_number(all, ev->sandbox);
		if (box)
			box_event(box, ev);
		break;
	}
}

static void reap(struct cbx_boxes *all)
{
	pid_t pid;
	int status;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == all->link.stage)
			all->link.stage_status = status;
}

/* Children are the supervisor's stage and the supervisor itself. Their ends are seen on the socket; this only reaps. */
static void child_event(evutil_socket_t fd, short what, void *arg)
{
	reap(arg);
}

static void link_down(struct cbx_boxes *all, const char *what)
{
	struct cbx_link *l = &all->link;
	bool up = l->state == CBX_LINK_UP;

	reap(all);
	if (!l->why.code && !up && l->stage_status > 0 && WIFEXITED(l->stage_status))
		cbx_refuse(&l->why, "no_sandbox", ECHILD, "%s/codebox-supervisor exited with status %d; see the log",
			   all->config.libexec_dir, WEXITSTATUS(l->stage_status));
	if (!l->why.code)
		cbx_refuse(&l->why, "no_sandbox", ECHILD, "%s", what);
	l->state = CBX_LINK_DOWN;
	if (l->in)
		event_del(l->in);
	if (l->out)
		event_del(l->out);
	cbx_close_p(&l->sock);
	all->events->down(all->arg, up);
}

void cbx_link_poll(struct cbx_boxes *all)
{
	struct cbx_event ev;

	for (int i = 0; i < EVENTS_PER_TURN && all->link.sock >= 0; i++) {
		ssize_t n = cbx_recv_plain(all->link.sock, &ev, sizeof(ev));

		if (n == -EAGAIN)
			return;
		if (n == (ssize_t)sizeof(ev)) {
			link_event(all, &ev);
			continue;
		}
		if (n == 0 || n == -ECONNRESET)
			link_down(all, "it ended without saying why; see the log");
		else
			link_down(all, "its messages could not be read; it is not of the same version as codeboxd");
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
	struct cbx_boxes *all = arg;
	struct cbx_link_item *item;

	while (all->link.sock >= 0 && (item = TAILQ_FIRST(&all->link.queue))) {
		int r = cbx_send_fds(all->link.sock, &item->request, sizeof(item->request), item->fds, item->nfds);

		if (r == -EAGAIN || r == -ENOBUFS) {
			event_add(all->link.out, NULL);
			return;
		}
		/* Any other failure is the peer's end; the reading side will say why. */
		item_free(&all->link, item);
	}
}

static struct cbx_link_item *item_new(uint32_t type, uint64_t number, int *fds, size_t nfds)
{
	struct cbx_link_item *item = cbx_xcalloc(1, sizeof(*item));

	item->request.type = type;
	item->request.sandbox = number;
	for (; item->nfds < nfds; item->nfds++)
		item->fds[item->nfds] = take_fd(&fds[item->nfds]);
	return item;
}

static void send_item(struct cbx_boxes *all, struct cbx_link_item *item)
{
	TAILQ_INSERT_TAIL(&all->link.queue, item, entry);
	link_out(-1, 0, all);
}

/* A request without more. */
static void tell(struct cbx_box *box, uint32_t type)
{
	if (box->all->link.sock >= 0)
		send_item(box->all, item_new(type, box->number, NULL, 0));
}

void cbx_link_create(struct cbx_box *box, const struct cbx_plan *plan, uint64_t together, int fds[4])
{
	size_t n = fds[1] < 0 ? 1 : 3;
	struct cbx_link_item *item = item_new(CBX_REQUEST_CREATE, box->number, fds, n);

	if (fds[3] >= 0)
		item->fds[item->nfds++] = take_fd(&fds[3]);

	item->request.plan = *plan;
	item->request.together = together;
	send_item(box->all, item);
}

void cbx_link_used(struct cbx_box *box)
{
	tell(box, CBX_REQUEST_USED);
}

void cbx_link_measure(struct cbx_box *box)
{
	if (box->measuring)
		return;
	box->measuring = box->all->link.sock >= 0;
	tell(box, CBX_REQUEST_MEASURE);
}

void cbx_link_packages(struct cbx_box *box, const char *name)
{
	struct cbx_link_item *item;

	if (box->all->link.sock < 0)
		return;
	item = item_new(CBX_REQUEST_PACKAGES, box->number, NULL, 0);
	snprintf(item->request.packages, sizeof(item->request.packages), "%s", name);
	send_item(box->all, item);
}

void cbx_link_move(struct cbx_box *box)
{
	box->moves++;
	tell(box, CBX_REQUEST_MOVE);
}

void cbx_link_enter(struct cbx_box *box, uint64_t zygote, int fds[CBX_INTERPRETER_FDS])
{
	struct cbx_link_item *item = item_new(CBX_REQUEST_ENTER, box->number, fds, CBX_INTERPRETER_FDS);

	item->request.zygote = zygote;
	send_item(box->all, item);
}

bool cbx_link_destroy(struct cbx_box *box)
{
	struct cbx_link *l = &box->all->link;
	struct cbx_link_item *item;

	if (l->sock < 0)
		return false;
	TAILQ_FOREACH (item, &l->queue, entry) {
		if (item->request.sandbox == box->number && item->request.type == CBX_REQUEST_CREATE) {
			item_free(l, item);
			return false;
		}
	}
	tell(box, CBX_REQUEST_DESTROY);
	return true;
}

void cbx_link_zygote(struct cbx_boxes *all, uint64_t number, const struct cbx_plan *plan, int *fd)
{
	struct cbx_link_item *item = item_new(CBX_REQUEST_ZYGOTE, number, fd, 1);

	item->request.plan = *plan;
	send_item(all, item);
}

bool cbx_link_names(struct cbx_boxes *all, int *fd)
{
	if (all->link.sock < 0)
		return false;
	send_item(all, item_new(CBX_REQUEST_NAMES, 0, fd, 1));
	return true;
}

void cbx_link_zygote_end(struct cbx_boxes *all, uint64_t number)
{
	send_item(all, item_new(CBX_REQUEST_ZYGOTE_END, number, NULL, 0));
}

/* In the child: only what is safe between fork and exec. */
_Noreturn void cbx_link_exec(int sock, char *const argv[])
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

int cbx_link_start(struct cbx_boxes *all, struct cbx_err *err)
{
	struct cbx_link *l = &all->link;
	_cleanup_free_ char *program = cbx_xasprintf("%s/codebox-supervisor", all->config.libexec_dir);
	_cleanup_fd_ int theirs = -1;
	char uid[16], gid[16];
	char *argv[] = { program,
			 (char *)all->config.images_dir,
			 (char *)all->config.libexec_dir,
			 (char *)all->config.runtimes_dir,
			 (char *)all->config.syscalls_dir,
			 uid,
			 gid,
			 (char *)(all->config.mountable ? "mounts" : "-"),
			 (char *)(all->config.packages_dir ? all->config.packages_dir : ""),
			 NULL };
	int pair[2];

	snprintf(uid, sizeof(uid), "%u", (unsigned)all->config.service_uid);
	snprintf(gid, sizeof(gid), "%u", (unsigned)all->config.service_gid);
	l->stage_status = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cbx_fail(err, errno, "make a socket pair");
	l->sock = pair[0];
	theirs = pair[1];
	cbx_set_nonblock(l->sock, 1);
	l->in = event_new(all->base, l->sock, EV_READ | EV_PERSIST, link_in, all);
	l->out = event_new(all->base, l->sock, EV_WRITE, link_out, all);
	l->child = evsignal_new(all->base, SIGCHLD, child_event, all);
	if (!l->in || !l->out || !l->child || event_add(l->in, NULL) < 0 || event_add(l->child, NULL) < 0)
		return cbx_fail(err, ENOMEM, "watch the supervisor");
	if (access(program, X_OK) < 0) {
		cbx_fail(&l->why, errno, "execute %s", program);
		return 0; /* our end of the pair now reads end of file, and the rest follows from that */
	}
	l->stage = fork();
	if (l->stage < 0)
		return cbx_fail(err, errno, "fork the supervisor");
	if (l->stage == 0)
		cbx_link_exec(theirs, argv);
	return 0;
}

/* Closing the socket ends the supervisor, and the kernel ends all below it. Wait for that, within bounds, so that
 * nothing of a daemon is left when it has gone. */
void cbx_link_stop(struct cbx_boxes *all)
{
	struct cbx_link *l = &all->link;
	struct timespec pause = { .tv_nsec = 5000000 };
	uint64_t until = cbx_now_ms() + END_WAIT_MS;

	while (!TAILQ_EMPTY(&l->queue))
		item_free(l, TAILQ_FIRST(&l->queue));
	cbx_event_free_p(&l->in);
	cbx_event_free_p(&l->out);
	cbx_event_free_p(&l->child);
	if (l->sock < 0)
		return;
	cbx_close_p(&l->sock);
	while (waitpid(-1, NULL, WNOHANG) >= 0 && cbx_now_ms() < until)
		nanosleep(&pause, NULL);
}
