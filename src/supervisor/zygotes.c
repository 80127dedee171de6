/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a zygote is made like a sandbox, with other data (sandbox/enter.h), and is asked over a socket
 * of its own (zygote/zygote-protocol.h) to fork an interpreter into a sandbox in which nothing but init runs. The new
 * process reports itself, with a pid that the kernel vouches for; the zygote reports that its parent has ended. With
 * both, what it is is verified (verify.h), it is put into the sandbox's control group, and only then codeboxd learns of
 * it, which has sent it nothing to run so far.
 *
 * A zygote forks one interpreter after another, and its socket holds about ten requests. More of them wait here, the
 * oldest sandbox first, until there is room.
 *
 * Code of an image has run in a zygote. Whatever goes wrong with one, or that it says out of turn, kills it. When it is
 * reaped, processes that it may have left behind have become our children; we know all of ours, so what we do not know
 * is killed too. Then whoever waited for an interpreter starts it the slow way. An interpreter that does not
 * pass the verification ends its sandbox: something that we do not understand is in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/syscalls.h"
#include "sandbox/enter.h"
#include "sandbox/init-protocol.h"
#include "sandbox/lockdown.h"
#include "supervisor/supervisor.h"
#include "supervisor/verify.h"
#include "supervisor/watch.h"
#include "zygote/zygote-protocol.h"

#define BLOB_MAX  CBX_INIT_MESSAGE_MAX
#define MESSAGES_PER_TURN 64

static struct zygote *find(struct supervisor *s, uint64_t id)
{
	for (size_t i = 0; i < s->nzygotes; i++)
		if (s->zygotes[i].id == id)
			return &s->zygotes[i];
	return NULL;
}

/* The reason that is given first stays. */
static void give_up(struct zygote *z, const struct cbx_err *err)
{
	if (!z->why.code)
		z->why = *err;
	z->killed = true;
	cbx_pidfd_send_signal(z->pidfd, SIGKILL);
}

/* ---- start ---- */

struct words {
	char *argv[CBX_INIT_WORDS_MAX], *envp[CBX_INIT_WORDS_MAX];
};

/* The file's contents into `text`, as for CBX_INIT_SPAWN: arguments, an empty string, the environment. */
static int read_words(int fd, struct cbx_buf *text, struct words *ret, struct cbx_err *err)
{
	char *p = cbx_buf_reserve(text, BLOB_MAX);
	ssize_t n = pread(fd, p, BLOB_MAX, 0);
	const char *end;

	if (n < 0)
		return cbx_fail(err, errno, "read a zygote's arguments");
	end = p + n;
	if (cbx_init_split(&p, end, ret->argv) < 1 || cbx_init_split(&p, end, ret->envp) < 0 || p != end ||
	    ret->argv[0][0] != '/')
		return cbx_refuse(err, "protocol", EPROTO, "a zygote's arguments are not understood");
	return 0;
}

/* The list is compiled when the first zygote is wanted: most machines' first session is not to wait for it. */
static int make_filter(struct supervisor *s, struct cbx_err *err)
{
	char path[32];

	if (s->outer.zygote_filter.len)
		return 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", s->lists);
	return cbx_filter_compile(path, "zygote", &s->outer.zygote_filter, err);
}

static int start(struct supervisor *s, const struct cbx_request *q, int blob, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	_cleanup_fd_ int ours = -1, theirs = -1;
	struct words words;
	struct cbx_program program = { words.argv, words.envp };
	struct cbx_starting started;
	int pair[2], on = 1, r;

	if (find(s, q->sandbox) || s->nzygotes >= CBX_ZYGOTES_LIMIT)
		return cbx_refuse(err, "protocol", EPROTO, "there are too many zygotes");
	r = read_words(blob, &text, &words, err);
	if (r == 0)
		r = make_filter(s, err);
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cbx_fail(err, errno, "make a zygote's socket");
	ours = pair[0];
	theirs = pair[1];
	/* Before it exists: each message comes with the pid of who sent it. */
	if (setsockopt(ours, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 || cbx_set_nonblock(ours, 1) < 0)
		return cbx_fail(err, errno, "set up a zygote's socket");
	r = cbx_sandbox_start(&s->outer, &q->plan, 0, theirs, -1, -1, &program, &started, err);
	if (r < 0)
		return r;
	s->zygotes = cbx_xrealloc(s->zygotes, (s->nzygotes + 1) * sizeof(*s->zygotes));
	s->zygotes[s->nzygotes++] = (struct zygote){ .id = q->sandbox, .pid = started.pid, .pidfd = started.pidfd,
						     .report = started.report, .sock = take_fd(&ours),
						     .deadline_ms = cbx_now_ms() + CBX_ZYGOTE_START_MS };
	return 0;
}

void zygote_start(struct supervisor *s, const struct cbx_request *q, const int *fds, size_t nfds)
{
	struct cbx_err err = { 0 };
	int r = nfds == 1 ? start(s, q, fds[0], &err) :
			    cbx_refuse(&err, "protocol", EPROTO, "a zygote request needs one descriptor");

	if (r < 0)
		send_about(CBX_EVENT_ZYGOTE_GONE, q->sandbox, &err);
}

void zygote_end(struct supervisor *s, uint64_t id)
{
	struct zygote *z = find(s, id);

	if (z)
		give_up(z,
			&(struct cbx_err){ .code = ECANCELED, .kind = "zygote", .msg = "it is not needed any more" });
}

/* ---- interpreters ---- */

void zygote_forget(struct sandbox *b)
{
	if (b->placing.state == PLACE_WAITING)
		for (size_t i = 0; i < ARRAY_SIZE(b->placing.fds); i++)
			cbx_close_p(&b->placing.fds[i]);
}

static void entered(struct sandbox *b, const struct cbx_err *err)
{
	struct cbx_event e = { .type = CBX_EVENT_ENTERED, .sandbox = b->id, .pid = b->placing.inside };

	if (err)
		e.err = *err;
	send_event(&e);
	free(take_ptr(&b->plan));
	cbx_close_p(&b->handed.landlock);
}

/* The oldest sandbox that a zygote is still to be asked for; NULL: none. */
static struct sandbox *next_waiting(const struct supervisor *s, uint64_t zygote)
{
	struct sandbox *next = NULL;

	for (size_t i = 0; i < s->n; i++) {
		struct sandbox *b = &s->all[i];

		if (b->placing.state == PLACE_WAITING && b->placing.zygote == zygote && (!next || b->id < next->id))
			next = b;
	}
	return next;
}

/* 1: its socket has no room. */
static int ask(struct supervisor *s, struct sandbox *b, uint64_t zygote, const int fds[CBX_INTERPRETER_FDS],
	       struct cbx_err *err)
{
	static struct cbx_zygote_enter enter; /* 16 KiB */
	struct zygote *z = find(s, zygote);
	int all[CBX_ZYGOTE_DESCRIPTORS], r;

	if (b->plan->landlock != CBX_LANDLOCK_OFF && s->outer.landlock_abi && b->handed.landlock < 0)
		return cbx_refuse(err, "zygote", ENOENT, "the sandbox's Landlock ruleset is not there");
	if (!z || !z->ready || z->killed)
		return cbx_refuse(err, "zygote", ENOENT, "the zygote has gone");
	enter = (struct cbx_zygote_enter){ .type = CBX_ZYGOTE_ENTER, .uid = CBX_INSIDE_UID, .gid = CBX_INSIDE_GID,
					   .sandbox = b->id, .workspace = CBX_INSIDE_WORKSPACE };
	r = cbx_lockdown_prepare(&s->outer, b->plan, &enter.lockdown, err);
	if (r < 0)
		return r;
	all[0] = b->pidfd;
	memcpy(all + 1, fds, CBX_INTERPRETER_FDS * sizeof(*fds));
	all[CBX_ZYGOTE_DESCRIPTORS - 1] = b->handed.landlock;
	r = cbx_send_fds(z->sock, &enter, sizeof(enter), all,
			 b->handed.landlock < 0 ? CBX_ZYGOTE_DESCRIPTORS - 1 : CBX_ZYGOTE_DESCRIPTORS);
	if (r == -EAGAIN)
		return 1;
	if (r < 0)
		return cbx_fail(err, -r, "ask the zygote");
	b->placing = (struct placing){ .state = PLACE_ASKED, .zygote = z->id,
				       .deadline_ms = cbx_now_ms() + CBX_ZYGOTE_ENTER_MS };
	return 0;
}

void zygote_enter(struct supervisor *s, const struct cbx_request *q, int *fds, size_t nfds)
{
	struct sandbox *b = find_sandbox(s, q->sandbox);
	struct cbx_err err = { 0 };
	int r;

	if (!b)
		return;
	/* Its init may have told codeboxd that it runs before we have seen the end of its set-up. */
	while (b->report >= 0 && set_up_goes_on(b))
		;
	if (nfds != CBX_INTERPRETER_FDS || b->failed || b->placing.state != PLACE_NONE || !b->plan)
		r = cbx_refuse(&err, "protocol", EPROTO, "an enter request that makes no sense");
	else if (next_waiting(s, q->zygote))
		r = 1;
	else
		r = ask(s, b, q->zygote, fds, &err);
	if (r < 0)
		entered(b, &err);
	if (r <= 0)
		return;
	b->placing = (struct placing){ .state = PLACE_WAITING, .zygote = q->zygote };
	for (size_t i = 0; i < nfds; i++)
		b->placing.fds[i] = take_fd(&fds[i]);
}

static void ask_waiting(struct supervisor *s, const struct zygote *z)
{
	struct sandbox *b;

	while ((b = next_waiting(s, z->id))) {
		struct placing waiting = b->placing;
		struct cbx_err err = { 0 };
		int r = ask(s, b, z->id, waiting.fds, &err);

		if (r > 0)
			return;
		for (size_t i = 0; i < ARRAY_SIZE(waiting.fds); i++)
			cbx_close_p(&waiting.fds[i]);
		if (r < 0) {
			b->placing = (struct placing){ .state = PLACE_DONE };
			entered(b, &err);
		}
	}
}

/* Both have reported. */
static void finish(struct supervisor *s, struct zygote *z, struct sandbox *b)
{
	static struct cbx_lockdown want; /* 16 KiB */
	struct cbx_err err = { 0 };
	int r = cbx_lockdown_prepare(&s->outer, b->plan, &want, &err);

	b->placing.state = PLACE_DONE;
	b->held.inherited = z->written;
	if (r == 0)
		r = b->placing.placed == b->placing.forked ?
			    cbx_verify_interpreter(b->placing.placed, b->pid, z->pid, &want, &b->placing.inside, &err) :
			    cbx_refuse(&err, "zygote", EPERM, "the zygote and its interpreter disagree");
	if (r == 0)
		r = cbx_groups_add(&b->groups, b->placing.placed, &err);
	if (r < 0) {
		give_up(z, &err);
		b->placing.inside = 0;
		cbx_pidfd_send_signal(b->pidfd, SIGKILL);
	}
	entered(b, r < 0 ? &err : NULL);
}

/* ---- what a zygote says ---- */

static int receive(int sock, struct cbx_zygote_message *m, pid_t *ret_pid)
{
	union {
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { m, sizeof(*m) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
			      .msg_controllen = sizeof(control.bytes) };
	ssize_t n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	struct cmsghdr *c;

	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -EPIPE;
	c = CMSG_FIRSTHDR(&msg);
	/* Room is offered for the credentials alone: descriptors sent beside them are not let in. */
	if (n != (ssize_t)sizeof(*m) || (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || !c ||
	    c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS)
		return -EBADMSG;
	*ret_pid = ((struct ucred *)CMSG_DATA(c))->pid;
	m->text[sizeof(m->text) - 1] = '\0';
	return 1;
}

static int on_ready(struct zygote *z, const struct cbx_zygote_message *m, pid_t pid, struct cbx_err *err)
{
	struct cbx_event e = { .type = CBX_EVENT_ZYGOTE_READY, .sandbox = z->id };

	if (pid != z->pid || z->ready)
		return cbx_refuse(err, "zygote", EPROTO, "it said that it is ready out of turn");
	if (cbx_watch_threads(z->pid) != 1)
		return cbx_refuse(err, "zygote", EPROTO, "what it loads starts threads, which cannot be forked");
	if (m->value) {
		cbx_refuse(err, "zygote", ENOEXEC, "%s", m->text);
		cbx_err_sanitize(err);
		return -ENOEXEC;
	}
	z->ready = true;
	z->deadline_ms = 0;
	e.memory_peak = z->written = cbx_watch_written(z->pid);
	snprintf(e.err.msg, sizeof(e.err.msg), "%s", m->text);
	send_event(&e);
	return 0;
}

/* Its init has ended, or is about to: whatever fails there is not a fault. */
static bool over(const struct sandbox *b)
{
	struct pollfd p = { b->pidfd, POLLIN, 0 };

	return poll(&p, 1, 0) > 0;
}

static int on_report(struct supervisor *s, struct zygote *z, const struct cbx_zygote_message *m, pid_t pid,
		     struct cbx_err *err)
{
	struct sandbox *b = find_sandbox(s, m->sandbox);
	struct placing *p = b ? &b->placing : NULL;
	pid_t *place;

	if (!b || over(b))
		return 0;
	if (m->value < 0 && m->value > -4096)
		return cbx_fail(err, -m->value, "%s",
				m->step < CBX_ZYGOTE_STEP_SETNS ? cbx_lockdown_step_name((int)m->step) :
								       "place an interpreter");
	if (p->state != PLACE_ASKED || p->zygote != z->id)
		return cbx_refuse(err, "zygote", EPROTO, "it reported an interpreter that was not asked for");
	place = m->type == CBX_ZYGOTE_PLACED ? &p->placed : &p->forked;
	if (*place || (m->type == CBX_ZYGOTE_FORKED && pid != z->pid))
		return cbx_refuse(err, "zygote", EPROTO, "it reported an interpreter out of turn");
	*place = m->type == CBX_ZYGOTE_PLACED ? pid : m->value;
	if (p->placed > 0 && p->forked > 0)
		finish(s, z, b);
	return 0;
}

static void listen_to(struct supervisor *s, struct zygote *z)
{
	struct cbx_zygote_message m;
	struct cbx_err err = { 0 };
	pid_t pid;
	int r = 0;

	for (int i = 0; i < MESSAGES_PER_TURN && !z->killed && (r = receive(z->sock, &m, &pid)) != 0; i++) {
		if (r < 0)
			break;
		if (m.type == CBX_ZYGOTE_READY)
			r = on_ready(z, &m, pid, &err);
		else if (m.type == CBX_ZYGOTE_PLACED || m.type == CBX_ZYGOTE_FORKED)
			r = on_report(s, z, &m, pid, &err);
		else
			r = cbx_refuse(&err, "zygote", EPROTO, "it sent an unknown message");
		if (r < 0)
			break;
	}
	if (r >= 0)
		return;
	if (!err.code)
		cbx_refuse(&err, "zygote", EPIPE, r == -EPIPE ? "it ended" : "it sent a message that cannot be read");
	cbx_close_p(&z->sock);
	give_up(z, &err);
}

static void set_up_done(struct zygote *z)
{
	struct cbx_err err;
	struct cbx_handed none = CBX_HANDED_NONE;
	int r = cbx_sandbox_report(z->report, &none, &err);

	cbx_handed_release(&none);
	cbx_close_p(&z->report);
	if (r < 0)
		give_up(z, &err);
}

size_t zygotes_poll(const struct supervisor *s, struct pollfd *p)
{
	size_t n = 0;

	for (size_t i = 0; i < s->nzygotes; i++) {
		if (s->zygotes[i].report >= 0)
			p[n++] = (struct pollfd){ s->zygotes[i].report, POLLIN, 0 };
		if (s->zygotes[i].sock >= 0)
			p[n++] = (struct pollfd){ s->zygotes[i].sock,
						  next_waiting(s, s->zygotes[i].id) ? POLLIN | POLLOUT : POLLIN, 0 };
	}
	return n;
}

void zygotes_readable(struct supervisor *s, const struct pollfd *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; p[i].revents && k < s->nzygotes; k++) {
			struct zygote *z = &s->zygotes[k];

			if (z->report == p[i].fd)
				set_up_done(z);
			else if (z->sock == p[i].fd && (p[i].revents & ~POLLOUT))
				listen_to(s, z);
			if (z->sock == p[i].fd && (p[i].revents & POLLOUT))
				ask_waiting(s, z);
		}
}

/* ---- ends ---- */

static void zygote_reaped(struct supervisor *s, struct zygote *z, int status)
{
	struct cbx_event e = { .type = CBX_EVENT_ZYGOTE_GONE, .sandbox = z->id, .status = status };
	uint64_t id = z->id;

	if (z->report >= 0)
		set_up_done(z);
	if (z->sock >= 0)
		listen_to(s, z); /* interpreters that are complete */
	if (!z->why.code)
		cbx_refuse(&z->why, "zygote", ECHILD, "it ended with wait status 0x%x", status);
	e.err = z->why;
	cbx_close_p(&z->report);
	cbx_close_p(&z->sock);
	cbx_close_p(&z->pidfd);
	*z = s->zygotes[--s->nzygotes];
	s->strangers = true;
	zygotes_check(s, 0);
	for (size_t i = 0; i < s->n; i++) {
		struct sandbox *b = &s->all[i];

		if ((b->placing.state == PLACE_ASKED || b->placing.state == PLACE_WAITING) && b->placing.zygote == id) {
			zygote_forget(b);
			b->placing.state = PLACE_DONE;
			b->placing.placed = 0;
			entered(b, &e.err);
		}
	}
	send_event(&e);
}

bool zygotes_reaped(struct supervisor *s, pid_t pid, int status)
{
	for (size_t i = 0; i < s->nzygotes; i++)
		if (s->zygotes[i].pid == pid) {
			zygote_reaped(s, &s->zygotes[i], status);
			return true;
		}
	for (size_t i = 0; i < s->n; i++) {
		struct placing *p = &s->all[i].placing;

		if (p->state == PLACE_DONE && p->placed == pid) {
			struct cbx_event e = { .type = CBX_EVENT_EXITED, .sandbox = s->all[i].id, .pid = p->inside,
					       .status = status };

			p->placed = 0;
			if (p->inside)
				send_event(&e);
			return true;
		}
	}
	return false;
}

static bool known(const struct supervisor *s, pid_t pid)
{
	for (size_t i = 0; i < s->nzygotes; i++)
		if (s->zygotes[i].pid == pid)
			return true;
	if (s->counter.pid == pid)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(s->naming); i++)
		if (s->naming[i] == pid)
			return true;
	for (size_t i = 0; i < s->n; i++)
		if (s->all[i].pid == pid || s->all[i].opener == pid || s->all[i].attaching == pid ||
		    (s->all[i].placing.placed == pid && s->all[i].placing.inside))
			return true;
	return false;
}

/* False: there was one, and it may have children that become ours. */
static bool kill_strangers(const struct supervisor *s)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/task/1/children", "re");
	bool none = f;
	int pid;

	while (f && fscanf(f, "%d", &pid) == 1)
		if (!known(s, (pid_t)pid)) {
			none = false;
			kill((pid_t)pid, SIGKILL);
		}
	return none;
}

bool zygotes_waited_for(const struct supervisor *s)
{
	bool any = s->strangers;

	for (size_t i = 0; i < s->nzygotes; i++)
		any = any || s->zygotes[i].deadline_ms || s->zygotes[i].killed;
	for (size_t i = 0; i < s->n; i++)
		any = any || s->all[i].placing.state == PLACE_WAITING || s->all[i].placing.state == PLACE_ASKED;
	return any;
}

void zygotes_check(struct supervisor *s, uint64_t heard_ms)
{
	static const struct cbx_err late = { .code = ETIMEDOUT, .kind = "zygote", .msg = "it took too long" };
	bool asked = false;

	for (size_t i = 0; i < s->nzygotes; i++)
		if (s->zygotes[i].deadline_ms && heard_ms >= s->zygotes[i].deadline_ms)
			give_up(&s->zygotes[i], &late);
	for (size_t i = 0; i < s->n; i++) {
		const struct placing *p = &s->all[i].placing;
		struct zygote *z = p->state == PLACE_ASKED ? find(s, p->zygote) : NULL;

		if (z && heard_ms >= p->deadline_ms && !over(&s->all[i]))
			give_up(z, &late);
		asked = asked || (z && !z->killed);
	}
	/* An interpreter that another zygote is just handing over is not known yet. */
	if (s->strangers && !asked)
		s->strangers = !kill_strangers(s);
}
