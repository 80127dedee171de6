/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codebox-supervisor makes, watches and destroys sandboxes for codeboxd, and does nothing else.
 *
 * It runs in two stages. The first, with the ids of whoever started codeboxd, compiles the system call filters, clones
 * the second into new user, pid and mount namespaces, writes its id maps, and ends. The second is pid 1 of that outer
 * namespace; it is made with CLONE_PARENT, so codeboxd is its parent and learns of its end. It builds a small root of
 * its own (sandbox/outer.h), takes ids 0 of its user namespace, and serves requests (requests.h) from descriptor 3
 * until that is closed. Its capabilities count within the outer user namespace only.
 *
 * Being pid 1, it cannot leave anything behind: when it ends, however it ends, the kernel kills every sandbox.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "sandbox/enter.h"
#include "sandbox/ids.h"
#include "sandbox/self.h"
#include "supervisor/supervisor.h"
#include "supervisor/watch.h"

#define SOCK 3

void send_event(const struct cbx_event *e)
{
	if (cbx_send_fds(SOCK, e, sizeof(*e), NULL, 0) < 0)
		_exit(0); /* codeboxd has gone */
}

static void send_down(const struct cbx_err *err)
{
	struct cbx_event e = { .type = CBX_EVENT_DOWN, .err = *err };

	send_event(&e);
}

static void send_about(enum cbx_event_type type, uint64_t sandbox, const struct cbx_err *err)
{
	struct cbx_event e = { .type = type, .sandbox = sandbox };

	if (err)
		e.err = *err;
	send_event(&e);
}

/* ---- sandboxes ---- */

struct sandbox *find_sandbox(struct supervisor *s, uint64_t id)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->all[i].id == id)
			return &s->all[i];
	return NULL;
}

/* An id that no live sandbox has, the one after the last that was given before any other; 0, shared by all, where there
 * is no range. */
static uint32_t free_outer_id(struct supervisor *s)
{
	for (uint32_t tried = 0; tried < s->ids.count; tried++) {
		bool taken = false;

		s->last_id = s->last_id % s->ids.count + 1;
		for (size_t i = 0; i < s->n && !taken; i++)
			taken = s->all[i].outer_id == s->last_id;
		if (!taken)
			return s->last_id;
	}
	return 0;
}

static int create(struct supervisor *s, const struct cbx_request *q, int *fds, size_t nfds, struct cbx_err *err)
{
	struct sandbox *b;
	struct cbx_starting started = { 0 };
	uint32_t outer_id = free_outer_id(s);
	int r;

	if (nfds != 1 && nfds != 3)
		return cbx_refuse(err, "protocol", EPROTO, "a create request needs one or three descriptors");
	if (find_sandbox(s, q->sandbox))
		return cbx_refuse(err, "sandbox_exists", EEXIST, "sandbox %llu exists already",
				  (unsigned long long)q->sandbox);
	if (s->ids.count && !outer_id)
		return cbx_refuse(err, "too_many_sessions", EAGAIN, "all %u subordinate ids are in use", s->ids.count);
	r = cbx_sandbox_start(&s->outer, &q->plan, outer_id, fds[0], nfds == 3 ? fds[1] : -1, NULL, &started, err);
	if (r < 0)
		return r;
	s->all = cbx_xrealloc(s->all, (s->n + 1) * sizeof(*s->all));
	b = &s->all[s->n++];
	*b = (struct sandbox){ .id = q->sandbox, .pid = started.pid, .pidfd = started.pidfd, .report = started.report,
			       .landlock = -1, .outer_id = outer_id, .limit = q->plan.memory_bytes,
			       .group = { -1, -1 }, .opener = started.opener,
			       .free = q->plan.profile == CBX_PROFILE_DEV };
	if (nfds == 3)
		b->group = (struct cbx_group){ take_fd(&fds[1]), take_fd(&fds[2]) };
	b->plan = cbx_xcalloc(1, sizeof(*b->plan));
	*b->plan = q->plan;
	return 0;
}

int set_up_goes_on(struct sandbox *b)
{
	struct cbx_err err;
	int r = cbx_sandbox_report(b->report, &b->landlock, &err);

	if (r > 0)
		return 1;
	cbx_close_p(&b->report);
	if (r < 0) {
		b->failed = 1;
		cbx_pidfd_send_signal(b->pidfd, SIGKILL);
		send_about(CBX_EVENT_FAILED, b->id, &err);
	} else {
		send_about(CBX_EVENT_CREATED, b->id, NULL);
	}
	return 0;
}

static void forget(struct supervisor *s, struct sandbox *b)
{
	cbx_close_p(&b->pidfd);
	cbx_close_p(&b->report);
	cbx_close_p(&b->landlock);
	cbx_group_release(&b->group);
	cbx_watch_forget(&b->known);
	zygote_forget(b);
	free(b->plan);
	*b = s->all[--s->n];
}

static void reap(struct supervisor *s)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (zygotes_reaped(s, pid, status))
			continue;
		for (size_t i = 0; i < s->n; i++) {
			struct sandbox *b = &s->all[i];

			if (b->opener == pid)
				b->opener = 0;
			if (b->pid != pid)
				continue;
			while (b->report >= 0 && set_up_goes_on(b))
				;
			if (!b->failed) {
				struct cbx_event e = { .type = CBX_EVENT_GONE, .sandbox = b->id, .status = status,
						       .memory_peak = b->peak };

				send_event(&e);
			}
			forget(s, b);
			break;
		}
	}
}

static void hold_to_limit(struct sandbox *b, struct cbx_look *look)
{
	struct cbx_event e = { .type = CBX_EVENT_OOM, .sandbox = b->id };
	_cleanup_fd_ int pidfd = -1;
	struct cbx_usage use;

	cbx_watch_measure(look, b->limit, &b->known, &use);
	if (use.bytes > b->peak)
		b->peak = use.bytes;
	if (use.bytes <= b->limit || !use.largest.pid)
		return;
	/* A look takes its time where there are many processes, and code that forks uses up numbers meanwhile. */
	pidfd = cbx_watch_hold(&use.largest);
	if (pidfd < 0)
		return;
	e.memory_peak = use.bytes;
	e.pid = cbx_watch_inside_pid(use.largest.pid);
	/* Told first, so that codeboxd knows the reason when it hears of the death. */
	send_event(&e);
	cbx_pidfd_send_signal(pidfd, SIGKILL);
}

static struct cbx_look *look_at(struct supervisor *s, struct sandbox *b)
{
	static struct cbx_look look;

	if (b->report >= 0)
		return NULL;
	cbx_watch_look(b->pid, b->placing.inside ? b->placing.placed : 0, &look);
	if (b->free)
		return &look;
	cbx_group_used(&b->group, &look.cpu_ns);
	cbx_pace_take(&b->pace, &s->lanes, look.cpu_ns, cbx_now_ms());
	cbx_lanes_place(&s->lanes, &b->pace, b->pid, &look);
	return &look;
}

/* When lanes come up, nobody waits for his next look. */
static void divide(struct supervisor *s)
{
	struct cbx_demand demand = { 0 };
	bool divided = s->lanes.on;
	uint64_t now = cbx_now_ms();

	cbx_lanes_refresh(&s->lanes);
	for (size_t i = 0; i < s->n; i++)
		if (!s->all[i].free)
			cbx_demand_add(&demand, &s->all[i].pace, now);
	cbx_lanes_divide(&s->lanes, &demand);
	for (size_t k = 0; s->lanes.on && !divided && k < s->n && k < CBX_WATCH_AT_ONCE; k++)
		look_at(s, &s->all[k]);
}

/* A look at its time, and not whenever there is something else to do: it reads files of every process. One that takes
 * long, which code in a sandbox can bring about, is the last of its turn, and makes this sandbox wait longer for its next
 * than others: no sandbox gets more than a sixth of a processor for its looks, and all together no more than a third. */
static void watch(struct supervisor *s)
{
	uint64_t began = cbx_used_ms(), used = 0;

	if (!s->n || cbx_now_ms() < s->watch_ms)
		return;
	for (size_t k = 0; k < s->n && k < CBX_WATCH_AT_ONCE && used * 5 <= CBX_WATCH_MS; k++) {
		struct sandbox *b = &s->all[s->watched++ % s->n];
		struct cbx_look *look;
		uint64_t before = cbx_used_ms();

		if (cbx_now_ms() < b->look_ms)
			continue;
		look = look_at(s, b);
		if (look && b->group.work < 0)
			hold_to_limit(b, look);
		used = cbx_used_ms() - before;
		b->look_ms = cbx_now_ms() + used * 5;
	}
	divide(s);
	used = cbx_used_ms() - began;
	s->watch_ms = cbx_now_ms() + (used * 2 > CBX_WATCH_MS ? used * 2 : CBX_WATCH_MS);
}

/* ---- requests ---- */

/* Of a sandbox that has gone nothing is said: GONE was. */
static void gather(struct supervisor *s, const struct cbx_request *q)
{
	struct sandbox *b = find_sandbox(s, q->sandbox);
	struct cbx_event e = { .type = CBX_EVENT_MOVED, .sandbox = q->sandbox };

	if (!b)
		return;
	if (b->group.work < 0)
		e.status = cbx_refuse(&e.err, "protocol", EPROTO, "the sandbox has no control groups");
	else
		e.status = cbx_group_gather(&b->group, b->pid, &e.err);
	send_event(&e);
}

static void measure(struct supervisor *s, const struct cbx_request *q)
{
	struct cbx_event e = { .type = CBX_EVENT_MEASURED, .sandbox = q->sandbox };
	struct sandbox *b = find_sandbox(s, q->sandbox);
	static struct cbx_look look;
	struct cbx_usage use;

	if (!b)
		return;
	cbx_watch_look(b->pid, b->placing.inside ? b->placing.placed : 0, &look);
	cbx_watch_measure(&look, 0, NULL, &use);
	e.memory_peak = use.bytes;
	send_event(&e);
}

/* Descriptors that are kept are taken from fds. */
static void handle(struct supervisor *s, const struct cbx_request *q, int *fds, size_t nfds)
{
	struct cbx_err err = { 0 };
	struct sandbox *b;
	int r;

	switch (q->type) {
	case CBX_REQUEST_CREATE:
		r = create(s, q, fds, nfds, &err);
		if (r < 0)
			send_about(CBX_EVENT_FAILED, q->sandbox, &err);
		break;
	case CBX_REQUEST_DESTROY:
		b = find_sandbox(s, q->sandbox);
		if (b)
			cbx_pidfd_send_signal(b->pidfd, SIGKILL);
		break;
	case CBX_REQUEST_USED:
		b = find_sandbox(s, q->sandbox);
		if (b)
			b->pace.used_ms = cbx_now_ms();
		break;
	case CBX_REQUEST_MOVE:
		gather(s, q);
		break;
	case CBX_REQUEST_MEASURE:
		measure(s, q);
		break;
	case CBX_REQUEST_ZYGOTE:
		zygote_start(s, q, fds, nfds);
		break;
	case CBX_REQUEST_ZYGOTE_END:
		zygote_end(s, q->sandbox);
		break;
	case CBX_REQUEST_ENTER:
		zygote_enter(s, q, fds, nfds);
		break;
	default:
		break;
	}
}

/* 0 at the end of codeboxd. */
static int receive(struct supervisor *s)
{
	struct cbx_request q;
	int fds[CBX_FDS_MAX];
	size_t nfds;
	ssize_t n = cbx_recv_fds(SOCK, &q, sizeof(q), fds, &nfds);

	if (n == 0 || (n < 0 && n != -EBADMSG))
		return 0;
	if (n == (ssize_t)sizeof(q))
		handle(s, &q, fds, nfds);
	for (size_t i = 0; i < nfds; i++)
		cbx_close_p(&fds[i]);
	return 1;
}

static void serve(struct supervisor *s)
{
	struct pollfd *p = NULL;

	for (;;) {
		size_t n = 2, before = s->n, sandboxes;

		p = cbx_xrealloc(p, (2 + before + 2 * s->nzygotes) * sizeof(*p));
		p[0] = (struct pollfd){ SOCK, POLLIN, 0 };
		p[1] = (struct pollfd){ s->sigfd, POLLIN, 0 };
		for (size_t i = 0; i < before; i++)
			if (s->all[i].report >= 0)
				p[n++] = (struct pollfd){ s->all[i].report, POLLIN, 0 };
		sandboxes = n;
		n += zygotes_poll(s, p + n);
		if (poll(p, n, before || s->nzygotes ? CBX_WATCH_MS : -1) < 0 && errno != EINTR)
			_exit(1);
		for (size_t i = 2; i < sandboxes; i++)
			for (size_t k = 0; p[i].revents && k < s->n; k++)
				if (s->all[k].report == p[i].fd)
					set_up_goes_on(&s->all[k]);
		zygotes_readable(s, p + sandboxes, n - sandboxes);
		if (p[1].revents) {
			struct signalfd_siginfo info;

			if (read(s->sigfd, &info, sizeof(info)) > 0)
				reap(s);
		}
		if (p[0].revents && !receive(s))
			return;
		watch(s);
		zygotes_check(s);
	}
}

/* ---- start ---- */

static int become_supervisor(struct supervisor *s, const struct cbx_outer_paths *paths, struct cbx_err *err)
{
	sigset_t mask;
	int r;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return cbx_fail(err, errno, "ask to die with codeboxd");
	umask(022); /* sandboxes go through the outer root's directories with ids of their own */
	r = cbx_outer_enter(paths, &s->outer, err);
	if (r < 0)
		return r;
	/* Becoming user 0 of the namespace cleared it, and made us undumpable: then the /proc files of a process that
	 * we clone belong to the machine's root, and its id maps could not be written. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0)
		return cbx_fail(err, errno, "ask to die with codeboxd");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return cbx_fail(err, errno, "set no_new_privs");
	/* By it a sandbox's memory is watched, and what a zygote leaves behind is found. */
	if (access("/proc/thread-self/children", R_OK) < 0)
		return cbx_fail(err, errno, "list children in /proc (is the kernel built with CONFIG_PROC_CHILDREN?)");
	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0)
		return cbx_fail(err, errno, "block SIGCHLD");
	s->sigfd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->sigfd < 0)
		return cbx_fail(err, errno, "make a signalfd");
	/* Sandboxes inherit it, beside the filters of their profiles. Landlock would forbid us to mount anything. */
	r = cbx_self_filter(&s->own, err);
	cbx_filter_release(&s->own);
	return r;
}

/* The second stage. Does not return. */
static void second_stage(struct supervisor *s, const struct cbx_outer_paths *paths, int go)
{
	struct cbx_event up = { .type = CBX_EVENT_UP };
	struct cbx_err err = { 0 };
	struct cbx_ids ids;

	/* The first stage tells how the maps were written in the end. */
	if (cbx_read_full(go, &ids, sizeof(ids)) != (ssize_t)sizeof(ids))
		_exit(1);
	close(go);
	s->ids = ids;
	if (become_supervisor(s, paths, &err) < 0) {
		cbx_wrap(&err, "start the supervisor");
		send_down(&err);
		_exit(1);
	}
	cbx_lanes_init(&s->lanes);
	up.facts = (struct cbx_facts){ .ids = 1 + s->ids.count, .overlay = (uint32_t)s->outer.overlay,
				       .landlock_abi = s->outer.landlock_abi };
	for (unsigned i = 0; i < CBX_PROFILES; i++)
		up.facts.seccomp_rules[i] = s->outer.filters[i].rules;
	send_event(&up);
	serve(s);
	_exit(0);
}

static int first_stage(char **argv, struct cbx_err *err)
{
	struct cbx_outer_paths paths = { .images = argv[1], .libexec = argv[2], .runtimes = argv[3],
					 .keep_host = strcmp(argv[7], "mounts") == 0 };
	/* CLONE_PARENT: no exit signal of its own, it takes ours. */
	struct clone_args args = { .flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_PARENT };
	struct supervisor s = { .sigfd = -1, .lists = open(argv[4], O_PATH | O_DIRECTORY | O_CLOEXEC) };
	uint64_t uid, gid;
	int pair[2], r;
	pid_t pid;

	if ((r = cbx_parse_u64(argv[5], "SERVICE_UID", 1, UINT32_MAX - 1, &uid, err)) < 0 ||
	    (r = cbx_parse_u64(argv[6], "SERVICE_GID", 1, UINT32_MAX - 1, &gid, err)) < 0)
		return r;
	if (s.lists < 0)
		return cbx_fail(err, errno, "open the system call lists in %s", argv[4]);
	for (unsigned i = 0; i < CBX_PROFILES; i++)
		if ((r = cbx_filter_compile(argv[4], cbx_profile_name(i), &s.outer.filters[i], err)) < 0)
			return r;
	r = cbx_filter_compile(argv[4], "supervisor", &s.own, err);
	if (r < 0)
		return r;
	cbx_ids_find((uid_t)uid, (gid_t)gid, &s.ids);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return cbx_fail(err, errno, "make a socket pair");
	pid = cbx_clone3(&args);
	if (pid < 0)
		return cbx_fail(err, errno, "make the outer user, pid and mount namespaces");
	if (pid == 0) {
		close(pair[0]);
		second_stage(&s, &paths, pair[1]);
	}
	r = cbx_ids_write_outer(&s.ids, pid, err);
	if (r < 0) {
		kill(pid, SIGKILL);
		return cbx_wrap(err, "map user ids");
	}
	if (cbx_write_all(pair[0], &s.ids, sizeof(s.ids)) < 0)
		return cbx_refuse(err, "supervisor", EPIPE, "the supervisor's second stage died");
	return 0;
}

int main(int argc, char **argv)
{
	struct cbx_err err = { 0 };

	if (argc != 8 || cbx_set_cloexec(SOCK, 1) < 0) {
		fprintf(stderr, "codebox-supervisor is started by codeboxd; see codeboxd(8).\n");
		return 2;
	}
	if (first_stage(argv, &err) < 0) {
		send_down(&err);
		return 1;
	}
	return 0;
}
