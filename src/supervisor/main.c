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
#include <limits.h>
#include <linux/keyctl.h>
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
#include <sys/syscall.h>
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
#include "sandbox/hostnames.h"
#include "sandbox/ids.h"
#include "sandbox/packages.h"
#include "sandbox/self.h"
#include "supervisor/supervisor.h"
#include "supervisor/watch.h"

static void send_down(const struct cbx_err *err)
{
	struct cbx_event e = { .type = CBX_EVENT_DOWN, .err = *err };

	send_event(&e);
}

/* ---- sandboxes ---- */

/* An id that no live sandbox has, the one after the last that was given before any other; 0 when there is none. */
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

/* Outer id 0, the user's own, where there is no range, and for a sandbox with directories of that user: with another id
 * it could neither read what is the user's alone nor write, and what it made would belong to nobody. Not for root, whose
 * service id owns nothing of the machine's. */
static int choose_outer_id(struct supervisor *s, const struct cbx_plan *plan, uint32_t *ret, struct cbx_err *err)
{
	*ret = 0;
	if (!s->ids.count || (plan->nmounts && !s->ids.from_root))
		return 0;
	*ret = free_outer_id(s);
	return *ret ? 0
		    : cbx_refuse(err, "too_many_sessions", EAGAIN,
				 "all %u subordinate ids are in use; close a session, or give more in /etc/subuid and "
				 "/etc/subgid",
				 s->ids.count);
}

/* It may wait for a file system that does not answer: its answer is not waited for. It is reaped as a stranger. */
static void end_helper(pid_t helper)
{
	if (helper > 0)
		kill(helper, SIGKILL);
}

static int create(struct supervisor *s, const struct cbx_request *q, int *fds, size_t nfds, struct cbx_err *err)
{
	struct sandbox *b;
	struct cbx_starting started = { 0 };
	bool proxy = q->plan.flags & CBX_PLAN_PROXY;
	size_t own = nfds - proxy; /* the door is the last one */
	uint32_t outer_id;
	int r;

	if (!nfds || (own != 1 && own != 3))
		return cbx_refuse(err, "protocol", EPROTO, "a create request has another number of descriptors");
	if (find_sandbox(s, q->sandbox))
		return cbx_refuse(err, "sandbox_exists", EEXIST, "sandbox %llu exists already",
				  (unsigned long long)q->sandbox);
	r = choose_outer_id(s, &q->plan, &outer_id, err);
	if (r < 0)
		return r;
	r = cbx_sandbox_start(&s->outer, &q->plan, outer_id, fds[0], proxy ? fds[own] : -1, own == 3 ? fds[1] : -1, NULL, &started, err);
	if (r < 0) {
		end_helper(started.opener);
		end_helper(started.route);
		return r;
	}
	s->all = cbx_xrealloc(s->all, (s->n + 1) * sizeof(*s->all));
	b = &s->all[s->n++];
	*b = (struct sandbox){ .id = q->sandbox, .pid = started.pid, .pidfd = started.pidfd, .report = started.report,
			       .handed = CBX_HANDED_NONE, .outer_id = outer_id,
			       .held.limit = q->plan.memory_bytes,
			       .groups = { -1, -1 }, .opener = started.opener, .route = started.route,
			       .free = q->plan.profile == CBX_PROFILE_DEV };
	if (own == 3)
		b->groups = (struct cbx_groups){ take_fd(&fds[1]), take_fd(&fds[2]) };
	s->together = q->together;
	b->plan = cbx_xcalloc(1, sizeof(*b->plan));
	*b->plan = q->plan;
	return 0;
}

static void forget(struct supervisor *s, struct sandbox *b)
{
	cbx_close_p(&b->pidfd);
	cbx_close_p(&b->report);
	cbx_handed_release(&b->handed);
	cbx_groups_release(&b->groups);
	end_helper(b->opener);
	end_helper(b->route);
	end_helper(b->attaching);
	hold_forget(b);
	zygote_forget(b);
	free(b->plan);
	*b = s->all[--s->n];
	if (!s->n)
		cbx_counter_end(&s->counter);
}

/* What went well, or failed, the process has said itself. */
static void attached(struct sandbox *b, int status)
{
	struct cbx_err err;

	b->attaching = 0;
	if (status == 0)
		return;
	cbx_refuse(&err, "install_failed", ECHILD, "the process that shows packages to a sandbox ended (status %d)", status);
	send_about(CBX_EVENT_PACKAGES, b->id, &err);
}

/* Before its sandbox is there, that fails, and says why. */
static void route_ended(struct sandbox *b, int status)
{
	struct cbx_event e = { .type = CBX_EVENT_CUT, .sandbox = b->id, .status = status };

	b->route = 0;
	if (b->report < 0 && !b->failed)
		send_event(&e);
}

static void reap(struct supervisor *s)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (cbx_counter_reaped(&s->counter, pid) || zygotes_reaped(s, pid, status))
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(s->naming); i++)
			if (s->naming[i] == pid)
				s->naming[i] = 0;
		for (size_t i = 0; i < s->n; i++) {
			struct sandbox *b = &s->all[i];

			if (b->opener == pid)
				b->opener = 0;
			if (b->route == pid)
				route_ended(b, status);
			if (b->attaching == pid)
				attached(b, status);
			if (b->pid != pid)
				continue;
			while (b->report >= 0 && set_up_goes_on(b))
				;
			if (!b->failed) {
				struct cbx_event e = { .type = CBX_EVENT_GONE, .sandbox = b->id, .status = status,
						         .memory_peak = b->held.peak };

				send_event(&e);
			}
			forget(s, b);
			break;
		}
	}
}

/* ---- requests ---- */

/* Of a sandbox that has gone nothing is said: GONE was. */
static void gather(struct supervisor *s, const struct cbx_request *q)
{
	struct sandbox *b = find_sandbox(s, q->sandbox);
	struct cbx_event e = { .type = CBX_EVENT_MOVED, .sandbox = q->sandbox };

	if (!b)
		return;
	if (b->groups.work < 0)
		e.status = cbx_refuse(&e.err, "protocol", EPROTO, "the sandbox has no control groups");
	else
		e.status = cbx_groups_gather(&b->groups, b->pid, &e.err);
	send_event(&e);
}

/* A disk may take its time over it, so nobody else is to wait. */
static void attach_packages(struct supervisor *s, const struct cbx_request *q)
{
	struct sandbox *b = find_sandbox(s, q->sandbox);
	struct cbx_err err = { 0 };

	pid_t pid;

	if (!b)
		return;
	while (b->report >= 0 && set_up_goes_on(b)) /* its mounts are not those that it has in the end */
		;
	errno = EBUSY;
	pid = b->attaching || b->failed ? -1 : fork();
	if (pid < 0) {
		cbx_fail(&err, errno, "fork for packages");
		send_about(CBX_EVENT_PACKAGES, q->sandbox, &err);
	}
	if (pid > 0)
		b->attaching = pid;
	if (pid)
		return;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		_exit(1);
	(void)cbx_packages_attach(b->pidfd, q->packages, &err);
	send_about(CBX_EVENT_PACKAGES, q->sandbox, err.code ? &err : NULL);
	_exit(0);
}

/* Those that a file system does not let go of are not many. */
static void find_names(struct supervisor *s, const int *fds, size_t nfds)
{
	struct cbx_err err;

	for (size_t i = 0; nfds == 1 && s->outer.host_ns >= 0 && i < ARRAY_SIZE(s->naming); i++) {
		if (s->naming[i])
			continue;
		(void)cbx_host_names_serve(s->outer.host_ns, fds[0], &s->naming[i], &err);
		return;
	}
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
		if (b) {
			b->pace.used_ms = cbx_now_ms();
			hold_wake(b);
		}
		break;
	case CBX_REQUEST_MOVE:
		gather(s, q);
		break;
	case CBX_REQUEST_MEASURE:
		b = find_sandbox(s, q->sandbox);
		if (b)
			hold_measure(s, b);
		break;
	case CBX_REQUEST_NAMES:
		find_names(s, fds, nfds);
		break;
	case CBX_REQUEST_PACKAGES:
		attach_packages(s, q);
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

/* Deadlines, of zygotes and of what counts memory, are looked at every CBX_WATCH_MS while there are some. */
static int wait_ms(const struct supervisor *s, uint64_t now)
{
	uint64_t next = hold_next_ms(s), most = s->counter.of || zygotes_waited_for(s) ? CBX_WATCH_MS : INT_MAX;

	if (next <= now)
		return 0;
	if (next - now < most)
		return (int)(next - now);
	return most == INT_MAX ? -1 : (int)most;
}

static void serve(struct supervisor *s)
{
	struct pollfd *p = NULL;

	for (;;) {
		size_t n = 3, before = s->n, sandboxes;
		uint64_t now = cbx_now_ms();

		p = cbx_xrealloc(p, (3 + before + 2 * s->nzygotes) * sizeof(*p));
		p[0] = (struct pollfd){ SOCK, POLLIN, 0 };
		p[1] = (struct pollfd){ s->sigfd, POLLIN, 0 };
		p[2] = (struct pollfd){ s->counter.sock, POLLIN, 0 };
		for (size_t i = 0; i < before; i++)
			if (s->all[i].report >= 0)
				p[n++] = (struct pollfd){ s->all[i].report, POLLIN, 0 };
		sandboxes = n;
		n += zygotes_poll(s, p + n);
		if (poll(p, n, wait_ms(s, now)) < 0 && errno != EINTR)
			_exit(1);
		for (size_t i = 3; i < sandboxes; i++)
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
		if (s->counter.of)
			hold_counted(s);
		hold_watch(s);
		/* What took long here is not a zygote's fault: it has been heard since. */
		zygotes_check(s, now);
	}
}

/* ---- start ---- */

static int become_supervisor(struct supervisor *s, const struct cbx_outer_paths *paths, struct cbx_err *err)
{
	sigset_t mask;
	int r;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return cbx_fail(err, errno, "ask to die with codeboxd");
	/* The keyring of the user who started the daemon (Kerberos tickets, disk keys) is inherited otherwise. One new
	 * and empty one for all sandboxes: the kernel lets a user have some 200, and by no call of a sandbox can
	 * anything be put there. A kernel without keyrings has none to inherit. */
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL, 0, 0, 0) < 0 && errno != ENOSYS)
		return cbx_fail(err, errno, "leave the session keyring");
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

	/* The first stage reports how the maps were written in the end. */
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
	s->meminfo = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
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
					 .keep_host = strcmp(argv[7], "mounts") == 0,
					 .packages = argv[8][0] ? argv[8] : NULL };
	/* CLONE_PARENT: no exit signal of its own, it takes ours. */
	struct clone_args args = { .flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_PARENT };
	struct supervisor s = { .sigfd = -1,
				.meminfo = -1,
				.counter.sock = -1,
				.lists = open(argv[4], O_PATH | O_DIRECTORY | O_CLOEXEC) };
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

	if (argc != 9 || cbx_set_cloexec(SOCK, 1) < 0) {
		fprintf(stderr, "codebox-supervisor is started by codeboxd; see codeboxd(8).\n");
		return 2;
	}
	if (first_stage(argv, &err) < 0) {
		send_down(&err);
		return 1;
	}
	return 0;
}
