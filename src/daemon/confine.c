/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codeboxd parses what everybody says, so it gives up what it will not need: before the first
 * client is served it confines itself by Landlock and by a system call filter. Both would keep the supervisor from
 * being started and the machine from being examined, so the loop runs until the supervisor has answered, which it does
 * within milliseconds; clients wait in the sockets' backlog meanwhile. A supervisor that cannot work is diagnosed
 * first.
 *
 * A protection that the kernel has but that cannot be put into force is a reason not to start, unless no sandbox can be
 * made anyway: then codeboxd is there to say why.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/dirs.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "base/timer.h"
#include "daemon/daemon.h"
#include "http/http.h"
#include "policy/policy.h"
#include "sandbox/self.h"

static void waited(evutil_socket_t fd, short what, void *arg)
{
	bool *over = arg;

	*over = true;
}

static int wait_for_supervisor(struct cbx_daemon *d, struct cbx_err *err)
{
	struct timeval tv = { .tv_sec = CBX_SUPERVISOR_WAIT_S };
	bool over = false;
	struct event *timer = event_new(d->base, -1, 0, waited, &over);

	if (!timer || event_add(timer, &tv) < 0) {
		cbx_event_free_p(&timer);
		return cbx_fail(err, ENOMEM, "wait for the supervisor");
	}
	while (!over && !d->lifecycle.stopping && !cbx_engine_settled(d->engine))
		event_base_loop(d->base, EVLOOP_ONCE);
	event_free(timer);
	if (over)
		cbx_warn("the supervisor has not answered within %d seconds", CBX_SUPERVISOR_WAIT_S);
	return 0;
}

static int confine(struct cbx_daemon *d, const struct cbx_filter *filter, struct cbx_err *err)
{
	char *pem[CBX_WEB_PLACES] = { NULL };
	struct cbx_self_path paths[21 + CBX_WEB_PLACES + CBX_POLICY_INCLUDES_MAX] = {
		{ d->dirs.data, false },    { d->dirs.images, false },
		{ d->shipped, false },	    { d->dirs.runtime, true },
		{ d->dirs.state, true },    { "/proc/self", false },
		{ "/dev/null", false },	    { "/etc/localtime", false },
		{ "/sys/fs/cgroup", true }, /* as far as it was delegated to us */
		{ d->dirs.config, false },  /* the policy may be read again, and what it includes */
		{ "/etc/codebox", false },  { "/etc/resolv.conf", false },
		{ CBX_SYSTEMD_RESOLVE, false },
	};
	_cleanup_free_ char *beside = NULL, *audit = NULL;
	const size_t most = ARRAY_SIZE(paths) - 3 - CBX_WEB_PLACES;
	size_t n = 0;
	int r;

	while (paths[n].path)
		n++;
	for (size_t i = 1; d->policy && i < d->policy->nfiles && n < most; i++) /* [0] is built in */
		paths[n++] = (struct cbx_self_path){ .path = d->policy->files[i], .file = true };
	if (!d->policy && cbx_policy_is_path(d->policy_path))
		paths[n++] = (struct cbx_self_path){ .path = d->policy_path, .file = true };
	/* The directory of the tenants: codebox token puts a new file in the place of the old one. */
	if (d->tenants_path && strrchr(d->tenants_path, '/')) {
		beside = cbx_xstrdup(d->tenants_path);
		strrchr(beside, '/')[1] = '\0';
		paths[n++] = (struct cbx_self_path){ .path = beside };
		/* "users" of tenants are looked up in /etc/passwd, which is another file after each change. */
		if (cbx_http_has_users(d->http))
			paths[n++] = (struct cbx_self_path){ .path = "/etc" };
	}
	/* That of the audit log, for a new file when the old one was renamed. */
	if (d->audit_path) {
		const char *slash = strrchr(d->audit_path, '/');

		audit = cbx_xasprintf("%.*s", slash ? (int)(slash + 1 - d->audit_path) : 1,
				      slash ? d->audit_path : ".");
		paths[n++] = (struct cbx_self_path){ .path = audit, .write = true };
	}
	cbx_daemon_web_places(d, pem);
	for (size_t i = 0; i < CBX_WEB_PLACES; i++)
		if (pem[i])
			paths[n++] = (struct cbx_self_path){ .path = pem[i] };
	tzset();
	r = cbx_self_landlock(paths, n, err);
	for (size_t i = 0; i < CBX_WEB_PLACES; i++)
		free(pem[i]);
	if (r < 0)
		return r;
	d->landlock_abi = (unsigned)r;
	if (!r)
		cbx_warn("the kernel has no Landlock: codeboxd itself can open whatever its user can");
	r = cbx_self_filter(filter, err);
	if (r < 0)
		return r;
	d->filter_rules = filter->rules;
	return 0;
}

void cbx_daemon_read_filter(struct cbx_daemon *d)
{
	_cleanup_free_ char *lists = cbx_xasprintf("%s/syscalls", d->dirs.share);

	if (cbx_filter_compile(lists, "codeboxd", &d->filter, &d->filter_trouble) >= 0)
		d->filter_trouble.code = 0;
}

int cbx_daemon_confine(struct cbx_daemon *d, struct cbx_err *err)
{
	const struct cbx_err *trouble;
	struct cbx_err ignored;
	int r = -d->filter_trouble.code;

	if (r < 0)
		*err = d->filter_trouble;
	if (wait_for_supervisor(d, r < 0 ? &ignored : err) < 0 && r >= 0)
		r = -err->code;
	trouble = cbx_engine_trouble(d->engine); /* this diagnoses it */
	if (r >= 0)
		r = confine(d, &d->filter, err);
	cbx_filter_release(&d->filter);
	if (r >= 0)
		return 0;
	cbx_wrap(err, "confine codeboxd itself");
	if (!trouble)
		return r;
	cbx_warn("%s", err->msg);
	return 0;
}
