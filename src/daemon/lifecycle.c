/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a daemon without sessions and clients for idle_s ends. A client may be connecting at that very
 * moment, so the end is taken in steps under the run-time directory's lock, which starters take too: accept what is
 * waiting; remove the sockets' names, so that nobody new can connect; accept once more. Whoever got in last is still
 * served, without new ones coming, and the daemon ends after them; everybody else finds no socket and starts a new one.
 */
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
#include "daemon/daemon.h"

#define ROTATE_EVERY_S 60

void cbx_lifecycle_stop(struct cbx_daemon *d, int status, const char *why)
{
	if (d->stopping)
		return;
	d->stopping = true;
	d->exit_status = status;
	cbx_info("stops: %s", why);
	event_base_loopexit(d->base, NULL);
}

void cbx_lifecycle_busy(struct cbx_daemon *d)
{
	event_del(d->idle);
}

void cbx_lifecycle_check(struct cbx_daemon *d)
{
	struct timeval tv = { .tv_sec = d->idle_s };

	if (d->stopping || d->idle_s == 0 || d->nclients || cbx_engine_sessions(d->engine) || cbx_http_busy(d->http))
		return;
	event_add(d->idle, &tv);
}

static void idle_over(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_daemon *d = arg;
	struct timeval soon = { .tv_sec = 1 };

	if (d->nclients || cbx_engine_sessions(d->engine) || cbx_http_busy(d->http))
		return;
	if (d->lock_fd >= 0 && flock(d->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		event_add(d->idle, &soon); /* somebody is starting a daemon, or finds this one */
		return;
	}
	if (cbx_listeners_accept(d) == 0) {
		cbx_listeners_unlink(d);
		if (cbx_listeners_accept(d) == 0) {
			cbx_lifecycle_stop(d, 0, "nobody used it");
			return; /* the lock is held until the process ends */
		}
		if (d->own_sockets)
			d->idle_s = 1; /* out of sight: end with the last client */
	}
	if (d->lock_fd >= 0)
		flock(d->lock_fd, LOCK_UN);
	cbx_lifecycle_check(d); /* a client over the limit, or of another user, leaves nothing behind */
}

static void signalled(evutil_socket_t sig, short what, void *arg)
{
	cbx_lifecycle_stop(arg, 0, sig == SIGTERM ? "SIGTERM" : "SIGINT");
}

/* The terminal has gone, or somebody expects that files are read again. That would cost all sessions here. */
static void hung_up(evutil_socket_t sig, short what, void *arg)
{
	struct cbx_daemon *d = arg;

	if (d->on_terminal)
		cbx_lifecycle_stop(d, 0, "SIGHUP: the terminal is gone");
	else
		cbx_warn("SIGHUP: goes on, and reads nothing anew; to read the policy again, end it (codebox stop, or "
			 "SIGTERM) and start it afresh");
}

/* Standard error is the log when the starter made it a regular file; see cbx_daemon_log_path() in cli/. */
static void rotate(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_daemon *d = arg;
	_cleanup_free_ char *path = cbx_xasprintf("%s/codeboxd.log", d->dirs.state);
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

int cbx_lifecycle_start(struct cbx_daemon *d, struct cbx_err *err)
{
	struct timeval every = { .tv_sec = ROTATE_EVERY_S };

	d->idle = event_new(d->base, -1, 0, idle_over, d);
	d->term = evsignal_new(d->base, SIGTERM, signalled, d);
	d->intr = evsignal_new(d->base, SIGINT, signalled, d);
	d->hup = evsignal_new(d->base, SIGHUP, hung_up, d);
	d->on_terminal = isatty(STDERR_FILENO);
	d->rotate = event_new(d->base, -1, EV_PERSIST, rotate, d);
	if (!d->idle || !d->term || !d->intr || !d->hup || !d->rotate || event_add(d->term, NULL) < 0 ||
	    event_add(d->intr, NULL) < 0 || event_add(d->hup, NULL) < 0 || event_add(d->rotate, &every) < 0)
		return cbx_fail(err, ENOMEM, "watch signals and timers");
	return 0;
}

void cbx_lifecycle_release(struct cbx_daemon *d)
{
	struct event *events[] = { d->idle, d->term, d->intr, d->hup, d->rotate };

	for (size_t i = 0; i < ARRAY_SIZE(events); i++)
		if (events[i])
			event_free(events[i]);
	d->idle = d->term = d->intr = d->hup = d->rotate = NULL;
}
