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
#include <time.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/daemon.h"
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
		if (timer)
			event_free(timer);
		return cbx_fail(err, ENOMEM, "wait for the supervisor");
	}
	while (!over && !d->stopping && !cbx_engine_settled(d->engine))
		event_base_loop(d->base, EVLOOP_ONCE);
	event_free(timer);
	if (over)
		cbx_warn("the supervisor has not answered within %d seconds", CBX_SUPERVISOR_WAIT_S);
	return 0;
}

static int confine(struct cbx_daemon *d, const struct cbx_filter *filter, struct cbx_err *err)
{
	const struct cbx_self_path paths[] = {
		{ d->dirs.data, false },   { d->dirs.images, false }, { d->dirs.share, false },
		{ d->dirs.runtime, true }, { d->dirs.state, true },   { "/proc/self", false },
		{ "/dev/null", false },	   { "/etc/localtime", false },
		{ "/sys/fs/cgroup", true }, /* as far as it was delegated to us */
	};
	int r;

	tzset();
	r = cbx_self_landlock(paths, ARRAY_SIZE(paths), err);
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
