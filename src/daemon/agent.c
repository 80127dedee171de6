/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a load balancer connects every few seconds and reads one line, in the words of HAProxy's
 * agent-check: "up ready 57%" is the share of this machine that is free, by which new sessions are dealt out; "drain"
 * asks for none. Whoever connects is answered at once and let go, so that there is nothing to bound. The kernel's
 * figures are opened before codeboxd confines itself.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/socket.h"
#include "base/str.h"
#include "daemon/daemon.h"
#include "http/address.h"
#include "policy/policy.h"
#include "session/session.h"

static void read_figures(int fd, char *out, size_t size)
{
	ssize_t n = fd < 0 ? 0 : pread(fd, out, size - 1, 0);

	out[n > 0 ? n : 0] = '\0';
}

/* What processors would give to one more: half when each has one to run already. */
static double free_processors(const struct cbx_daemon_agent *a)
{
	char text[128];
	double load;

	read_figures(a->loadavg, text, sizeof(text));
	load = strtod(text, NULL) / (double)a->processors;
	return load > 0 ? 1 / (1 + load) : 1;
}

static double figure(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtod(at + strlen(name), NULL) : 0;
}

static double free_memory(const struct cbx_daemon_agent *a)
{
	char text[512];
	double total;

	read_figures(a->meminfo, text, sizeof(text));
	total = figure(text, "MemTotal:");
	return total > 0 ? figure(text, "MemAvailable:") / total : 1;
}

static unsigned free_percent(const struct cbx_daemon *d)
{
	uint64_t most = d->policy ? d->policy->values[CBX_KEY_SESSIONS].ceiling : 0;
	size_t n = cbx_engine_sessions(d->engine);
	double sessions, memory = free_memory(&d->agent), all;

	if (n >= most)
		return 0;
	sessions = (double)(most - n) / (double)most;
	all = 100 * (sessions < memory ? sessions : memory) * free_processors(&d->agent);
	return all < 1 ? 1 : all > 100 ? 100 : (unsigned)all;
}

static void asked(void *arg, int fd)
{
	const struct cbx_daemon *d = arg;
	char line[32] = "drain\n", sent[256];

	if (!d->lifecycle.draining && cbx_engine_settled(d->engine) && !cbx_engine_trouble(d->engine))
		snprintf(line, sizeof(line), "up ready %u%%\n", free_percent(d));
	/* What it has said is taken, or the answer could be lost when the connection ends. */
	while (recv(fd, sent, sizeof(sent), MSG_DONTWAIT) == (ssize_t)sizeof(sent))
		;
	if (send(fd, line, strlen(line), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		cbx_debug("--agent: the answer was not taken");
	close(fd);
}

int cbx_daemon_start_agent(struct cbx_daemon *d, struct cbx_err *err)
{
	struct cbx_daemon_agent *a = &d->agent;
	_cleanup_free_ char *local = NULL;
	struct cbx_address address;
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	int fd;

	if (!a->asked)
		return 0;
	/* A port alone is one of the loopback address. */
	if (a->asked[0] && strspn(a->asked, "0123456789") == strlen(a->asked))
		local = cbx_xasprintf("127.0.0.1:%.8s", a->asked);
	if (cbx_http_address_parse(local ? local : a->asked, &address, err) < 0)
		return cbx_wrap(err, "--agent");
	a->processors = n > 0 ? (unsigned)n : 1;
	a->loadavg = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
	a->meminfo = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
	fd = cbx_listen(&address, &d->service, err);
	if (fd < 0)
		return cbx_wrap(err, "--agent");
	(void)cbx_address_of(fd, &address); /* which port it is, when any was asked for */
	cbx_address_print(&address, a->at);
	if (address.at.any.sa_family == AF_UNIX)
		a->path = cbx_xstrdup(a->at);
	return cbx_listener_new(d->base, fd, asked, d, &a->listener, err);
}

void cbx_daemon_release_agent(struct cbx_daemon *d)
{
	cbx_listener_free(take_ptr(&d->agent.listener));
	if (d->agent.path)
		(void)unlink(d->agent.path); /* as far as the user that we have become may */
	free(take_ptr(&d->agent.path));
	cbx_close_p(&d->agent.loadavg);
	cbx_close_p(&d->agent.meminfo);
}
