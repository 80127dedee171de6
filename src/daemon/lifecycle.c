/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a daemon without sessions and clients for idle_s ends. A client may be connecting at that very
 * moment, so the end is taken in steps under the run-time directory's lock, which starters take too: accept what is
 * waiting; remove the sockets' names, so that nobody new can connect; accept once more. Whoever got in last is still
 * served, without new ones coming, and the daemon ends after them; everybody else finds no socket and starts a new one.
 */
#include "daemon/lifecycle.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/timer.h"

#define ROTATE_EVERY_S 60

void cbx_lifecycle_stop(struct cbx_lifecycle *lc, int status, const char *why)
{
	if (lc->stopping)
		return;
	lc->stopping = true;
	lc->exit_status = status;
	cbx_info("stops: %s", why);
	event_base_loopexit(lc->base, NULL);
}

void cbx_lifecycle_check(struct cbx_lifecycle *lc)
{
	struct timeval tv = { .tv_sec = lc->hidden || lc->draining ? 1 : lc->idle_s };

	if (!lc->stopping && (lc->idle_s || lc->draining) && !lc->ops->in_use(lc->arg))
		event_add(lc->idle, &tv);
}

void cbx_lifecycle_drain(struct cbx_lifecycle *lc)
{
	if (!lc->draining)
		cbx_info("drains: it ends after the last session and client");
	lc->draining = true;
	lc->ops->drain(lc->arg);
	cbx_lifecycle_check(lc);
}

static void idle_over(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_lifecycle *lc = arg;
	struct timeval soon = { .tv_sec = 1 };

	if (lc->ops->in_use(lc->arg))
		return;
	if (lc->lock_fd >= 0 && flock(lc->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		event_add(lc->idle, &soon); /* somebody is starting a daemon, or finds this one */
		return;
	}
	if (lc->ops->accept(lc->arg) == 0) {
		lc->hidden = lc->ops->hide(lc->arg);
		if (lc->ops->accept(lc->arg) == 0) {
			cbx_lifecycle_stop(lc, 0, lc->draining ? "drained" : "nobody used it");
			return; /* the lock is held until the process ends */
		}
	}
	if (lc->lock_fd >= 0)
		flock(lc->lock_fd, LOCK_UN);
	cbx_lifecycle_check(lc); /* a client over the limit, or of another user, leaves nothing behind */
}

static void signalled(evutil_socket_t sig, short what, void *arg)
{
	cbx_lifecycle_stop(arg, 0, sig == SIGTERM ? "SIGTERM" : "SIGINT");
}

/* The terminal has gone, or somebody expects that files are read again. */
static void hung_up(evutil_socket_t sig, short what, void *arg)
{
	struct cbx_lifecycle *lc = arg;

	if (lc->on_terminal)
		cbx_lifecycle_stop(lc, 0, "SIGHUP: the terminal is gone");
	else
		lc->ops->reload(lc->arg);
}

static void drains(evutil_socket_t sig, short what, void *arg)
{
	cbx_lifecycle_drain(arg);
}

/* Standard error is the log when the starter made it a regular file; see cbx_daemon_log_path() of client/launch.h. */
static void rotate(evutil_socket_t fd, short what, void *arg)
{
	const struct cbx_lifecycle *lc = arg;
	_cleanup_free_ char *path = cbx_xasprintf("%s/codeboxd.log", lc->state_dir);
	_cleanup_free_ char *old = cbx_xasprintf("%s.1", path);
	_cleanup_fd_ int log = -1;
	struct stat st, named;

	if (fstat(STDERR_FILENO, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size <= CBX_LOG_FILE_MAX)
		return;
	if (lstat(path, &named) == 0 && named.st_dev == st.st_dev && named.st_ino == st.st_ino &&
	    rename(path, old) == 0) {
		log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (log >= 0) {
			(void)dup2(log, STDOUT_FILENO);
			(void)dup2(log, STDERR_FILENO);
			return;
		}
	}
	/* A directory that the service id may not write to, or a file of another name: begin it anew. */
	if (fcntl(STDERR_FILENO, F_GETFL) & O_APPEND)
		(void)!ftruncate(STDERR_FILENO, 0);
}

int cbx_lifecycle_start(struct cbx_lifecycle *lc, struct cbx_err *err)
{
	struct timeval every = { .tv_sec = ROTATE_EVERY_S };

	lc->idle = event_new(lc->base, -1, 0, idle_over, lc);
	lc->term = evsignal_new(lc->base, SIGTERM, signalled, lc);
	lc->intr = evsignal_new(lc->base, SIGINT, signalled, lc);
	lc->hup = evsignal_new(lc->base, SIGHUP, hung_up, lc);
	lc->usr1 = evsignal_new(lc->base, SIGUSR1, drains, lc);
	lc->on_terminal = isatty(STDERR_FILENO);
	lc->rotate = event_new(lc->base, -1, EV_PERSIST, rotate, lc);
	if (!lc->idle || !lc->term || !lc->intr || !lc->hup || !lc->usr1 || !lc->rotate ||
	    event_add(lc->term, NULL) < 0 || event_add(lc->intr, NULL) < 0 || event_add(lc->hup, NULL) < 0 ||
	    event_add(lc->usr1, NULL) < 0 || event_add(lc->rotate, &every) < 0)
		return cbx_fail(err, ENOMEM, "watch signals and timers");
	return 0;
}

void cbx_lifecycle_release(struct cbx_lifecycle *lc)
{
	struct event **events[] = { &lc->idle, &lc->term, &lc->intr, &lc->hup, &lc->usr1, &lc->rotate };

	for (size_t i = 0; i < ARRAY_SIZE(events); i++)
		cbx_event_free_p(events[i]);
}
