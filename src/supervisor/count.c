/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/count.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/syscalls.h"

struct question {
	uint64_t of;
	uint32_t n;
	int32_t pids[CBX_COUNT_AT_ONCE];
};

static void answer(int sock, const struct question *q)
{
	struct cbx_counted a = { .of = q->of };
	uint64_t began = cbx_now_ms(), used = cbx_used_ms();

	while (a.n < q->n && (a.n == 0 || cbx_now_ms() - began < CBX_WATCH_COUNT_MS)) {
		a.sets[a.n] = cbx_watch_proportional((pid_t)q->pids[a.n]);
		a.n++;
	}
	a.cost_ms = (uint32_t)(cbx_used_ms() - used);
	if (send(sock, &a, sizeof(a), MSG_NOSIGNAL) != (ssize_t)sizeof(a))
		_exit(0);
}

/* It keeps the supervisor's capabilities, by which it may look, and its system call filter. */
static void serve(int sock)
{
	struct question q;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "cbx-count");
	if (dup2(sock, 0) != 0 || cbx_close_range(1, ~0u, 0) < 0)
		_exit(1);
	while (recv(0, &q, sizeof(q), 0) == (ssize_t)sizeof(q))
		answer(0, &q);
	_exit(0);
}

static bool start(struct cbx_counter *c)
{
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return false;
	pid = fork();
	if (pid == 0)
		serve(pair[1]);
	close(pair[1]);
	if (pid < 0 || cbx_set_nonblock(pair[0], 1) < 0) {
		close(pair[0]);
		return false;
	}
	c->pid = pid;
	c->sock = pair[0];
	return true;
}

/* It is our child, and reaped by nobody but us. */
void cbx_counter_end(struct cbx_counter *c)
{
	if (c->pid)
		kill(c->pid, SIGKILL);
	cbx_close_p(&c->sock);
	c->of = 0;
}

bool cbx_counter_reaped(struct cbx_counter *c, pid_t pid)
{
	if (!c->pid || pid != c->pid)
		return false;
	c->pid = 0;
	cbx_close_p(&c->sock);
	return true;
}

bool cbx_counter_ask(struct cbx_counter *c, uint64_t of, const struct cbx_process *p, size_t n)
{
	struct question q = { .of = of, .n = (uint32_t)n };

	/* The one before has to be reaped first. */
	if (c->of || (c->pid && c->sock < 0) || (!c->pid && !start(c)))
		return false;
	for (size_t i = 0; i < n; i++)
		q.pids[i] = p[i].as;
	if (send(c->sock, &q, sizeof(q), MSG_NOSIGNAL) != (ssize_t)sizeof(q)) {
		cbx_counter_end(c);
		return false;
	}
	c->of = of;
	c->asked_ms = cbx_now_ms();
	return true;
}

int cbx_counter_answer(struct cbx_counter *c, struct cbx_counted *ret)
{
	ssize_t n;

	if (!c->of)
		return 0;
	n = c->sock < 0 ? 0 : recv(c->sock, ret, sizeof(*ret), 0);
	if (n == (ssize_t)sizeof(*ret) && ret->of == c->of && ret->n <= CBX_COUNT_AT_ONCE) {
		c->of = 0;
		return 1;
	}
	if (n < 0 && errno == EAGAIN && cbx_now_ms() - c->asked_ms < CBX_WATCH_HANG_MS)
		return 0;
	cbx_counter_end(c);
	return -1;
}
