/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codeboxd serves two unix sockets from one event loop. The order of the start matters when it is
 * started by root: directories are made and given to the service id; the engine starts the supervisor's first stage,
 * which needs root to write id maps; then root is given up for good; when the supervisor has answered, codeboxd
 * confines itself (confine.c), and only then is a client listened to. Whoever starts it, it ends up with no capability,
 * no_new_privs, and not dumpable.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/daemon.h"
#include "daemon/options.h"
#include "doctor/doctor.h"
#include "http/http.h"
#include "mcp/mcp.h"
#include "profiles/profiles.h"
#include "policy/policy.h"
#include "tools/tools.h"

#define EVENTS_PER_TURN 16

/* Descriptors 0 to 2 must be something, or a socket of ours could become the log. */
static void fill_standard_descriptors(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd > STDERR_FILENO)
		close(fd);
}

static void raise_open_files(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
		return;
	if (lim.rlim_cur < CBX_DAEMON_OPEN_FILES) {
		lim.rlim_cur = lim.rlim_max < CBX_DAEMON_OPEN_FILES ? lim.rlim_max : CBX_DAEMON_OPEN_FILES;
		if (setrlimit(RLIMIT_NOFILE, &lim) < 0)
			cbx_warn("cannot raise the limit on open files: %s", strerror(errno));
	}
}

/* ---- what the engine tells ---- */

static void engine_down(void *arg, const struct cbx_err *why)
{
	struct cbx_daemon *d = arg;

	cbx_error("%s", why->msg);
	cbx_lifecycle_stop(&d->lifecycle, 1, "the supervisor has ended");
}

void cbx_daemon_check_idle(void *arg)
{
	struct cbx_daemon *d = arg;

	cbx_lifecycle_check(&d->lifecycle);
}

static void engine_note(void *arg, const char *session, const char *text)
{
	struct cbx_log_subject subject = { .session = session };

	cbx_log_about(CBX_LOG_INFO, &subject, "session %s: %s", session, text);
}

static int engine_diagnose(void *arg, struct cbx_err *ret)
{
	struct cbx_daemon *d = arg;
	int r;

	if (d->filter_rules) /* too late to make processes that try things out */
		return 0;
	r = cbx_doctor_diagnosis(&d->dirs, ret);

	if (r < 0)
		cbx_error("%s", ret->msg);
	return r;
}

static int open_share(struct cbx_daemon *d, struct cbx_err *err)
{
	if (d->service.from_root) {
		d->share_fd = open(d->dirs.share, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (d->share_fd < 0)
			return cbx_fail(err, errno, "open %s", d->dirs.share);
	}
	d->shipped = d->share_fd < 0 ? cbx_xstrdup(d->dirs.share) : cbx_xasprintf("/proc/self/fd/%d", d->share_fd);
	return 0;
}

static int start_engine(struct cbx_daemon *d, const struct cbx_daemon_options *o, struct cbx_err *err)
{
	struct cbx_err refusal = { 0 };
	_cleanup_free_ char *runtimes = cbx_xasprintf("%s/runtimes", d->dirs.share);
	_cleanup_free_ char *syscalls = cbx_xasprintf("%s/syscalls", d->dirs.share);
	struct cbx_engine_config config = {
		.images_dir = d->dirs.images,
		.libexec_dir = d->dirs.libexec,
		.runtimes_dir = runtimes,
		.syscalls_dir = syscalls,
		.share_dir = d->dirs.share,
		.shipped_dir = d->shipped,
		.runtime_dir = d->dirs.runtime,
		.state_dir = d->dirs.state,
		.config_dir = d->dirs.config,
		.refusal = &refusal,
		.service_uid = d->service.uid,
		.service_gid = d->service.gid,
		.cgroup = &d->cgroup,
		.packages_dir = d->packages.store,
		.packages_own = d->packages.own,
		.packages_sessions = d->packages.sessions,
		.artifacts_dir = d->artifacts.store,
		.link_key = d->artifacts.key,
		.artifacts_left = d->artifacts.left,
		.freeze_idle_s = d->freeze_idle_s,
		.on_down = engine_down,
		.on_idle = cbx_daemon_check_idle,
		.on_note = engine_note,
		.node = d->node,
		.observer = &d->observer,
		.secret = cbx_daemon_secret,
		.diagnose = engine_diagnose,
		.arg = d,
		.zygotes_max = (unsigned)o->zygotes,
		.pool_max = (unsigned)o->pool,
		.pool_idle_ms = o->pool_idle_ms,
	};

	cbx_daemon_load_policy(d, &refusal);
	config.policy = d->policy;
	config.granted = d->granted;
	return cbx_engine_new(d->base, &config, &d->engine, err);
}

/* ---- what decides when it ends ---- */

static bool in_use(void *arg)
{
	struct cbx_daemon *d = arg;

	return cbx_daemon_clients(d) || cbx_engine_sessions(d->engine) || cbx_http_busy(d->http);
}

static size_t accept_waiting(void *arg)
{
	struct cbx_daemon *d = arg;

	return cbx_listeners_accept(&d->listeners);
}

static bool hide(void *arg)
{
	struct cbx_daemon *d = arg;

	cbx_listeners_unlink(&d->listeners);
	return d->listeners.own;
}

static void reload(void *arg)
{
	struct cbx_daemon *d = arg;
	struct cbx_err errs[3] = { 0 };
	size_t failed = 0;

	cbx_info("SIGHUP: the policy, the tenants and the certificate are read again");
	cbx_notify_reloading(&d->notify);
	cbx_daemon_reopen_audit(d);
	failed += cbx_daemon_reload_policy(d, NULL, &errs[failed]) < 0;
	failed += cbx_daemon_reload_tenants(d, NULL, &errs[failed]) < 0;
	failed += cbx_http_reload_tls(d->http, &errs[failed]) < 0;
	for (size_t i = 0; i < failed; i++)
		cbx_error("%s", errs[i].msg);
	cbx_info("SIGHUP: done%s", failed ? ", except for the above" : "");
	cbx_notify_ready(d);
}

static void drain(void *arg)
{
	struct cbx_daemon *d = arg;

	cbx_http_drain(d->http);
}

static int start_lifecycle(struct cbx_daemon *d, struct cbx_err *err)
{
	static const struct cbx_lifecycle_ops ops = {
		.in_use = in_use, .accept = accept_waiting, .hide = hide, .reload = reload, .drain = drain
	};

	d->lifecycle.base = d->base;
	d->lifecycle.ops = &ops;
	d->lifecycle.arg = d;
	d->lifecycle.state_dir = d->dirs.state;
	d->lifecycle.lock_fd = d->lock_fd;
	return cbx_lifecycle_start(&d->lifecycle, err);
}

/* ---- start and end ---- */

static int prepare_directories(struct cbx_daemon *d, struct cbx_err *err)
{
	int r = cbx_service_make_dir(&d->service, d->dirs.runtime, 0700, err);

	if (r < 0)
		return r;
	/* Start also without a store: every session will say that it has no image. */
	if (cbx_service_make_dir(&d->service, d->dirs.data, 0750, err) < 0 ||
	    cbx_service_make_dir(&d->service, d->dirs.images, 0750, err) < 0)
		cbx_warn("%s", err->msg);
	else {
		cbx_daemon_make_store(d);
		cbx_daemon_make_artifacts(d);
	}
	d->lock_fd = cbx_service_open_lock(&d->service, d->dirs.runtime, err);
	return d->lock_fd < 0 ? d->lock_fd : 0;
}

static int harden(struct cbx_daemon *d, struct cbx_err *err)
{
	int r = cbx_service_become(&d->service, err);

	if (r < 0)
		return r;
	/* Not before the supervisor's stage was forked: it runs newuidmap, which is setuid. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return cbx_fail(err, errno, "set no_new_privs");
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return cbx_fail(err, errno, "become undumpable");
	return 0;
}

static int start(struct cbx_daemon *d, const struct cbx_daemon_options *o, struct cbx_err *err)
{
	struct event_config *config;
	int r = cbx_listeners_from_environment(&d->listeners, err);

	cbx_notify_open(&d->notify, !d->listeners.own);
	if (r == 0 && !o->foreground)
		return cbx_refuse(err, "invalid_start", EINVAL,
				  "no sockets were passed in LISTEN_FDS; use a codebox command, or --foreground");
	if (r >= 0 && cbx_service_init(&d->service, err) < 0)
		return -err->code;
	if (r >= 0 && prepare_directories(d, err) < 0)
		return -err->code;
	if (r == 0)
		r = cbx_listeners_make(&d->listeners, &d->dirs, &d->service, d->lock_fd, err);
	if (r < 0)
		return r;
	config = event_config_new();
	if (config) {
		event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
		/* Else what puts off the rest of its work comes again before anybody new is looked for. */
		event_config_set_max_dispatch_interval(config, NULL, EVENTS_PER_TURN, 0);
	}
	d->base = config ? event_base_new_with_config(config) : NULL;
	if (config)
		event_config_free(config);
	if (!d->base)
		return cbx_fail(err, ENOMEM, "make the event loop");
	cbx_cgroup_tree_open(&d->cgroup, &d->service);
	r = open_share(d, err);
	if (r >= 0)
		r = start_engine(d, o, err);
	if (r >= 0)
		r = cbx_daemon_start_web(d, err);
	if (r >= 0)
		r = cbx_daemon_start_agent(d, err);
	cbx_daemon_read_filter(d);
	if (r >= 0)
		r = cbx_daemon_undo_unless(d, err);
	if (r >= 0)
		r = harden(d, err);
	if (r >= 0)
		r = cbx_daemon_open_audit(d, err);
	if (r >= 0)
		r = start_lifecycle(d, err);
	if (r >= 0)
		r = cbx_daemon_confine(d, err);
	if (r >= 0)
		r = cbx_notify_watch(d, err);
	if (r >= 0)
		r = cbx_clients_listen(d, err);
	if (r >= 0) {
		cbx_daemon_started(d);
		cbx_http_serve(d->http);
	}
	return r;
}

static void finish(struct cbx_daemon *d)
{
	d->lifecycle.stopping = true;
	cbx_notify(&d->notify, "STOPPING=1");
	cbx_listeners_unlink(&d->listeners);
	cbx_listeners_close(&d->listeners);
	cbx_clients_end(d);
	cbx_daemon_release_agent(d);
	cbx_http_stop(d->http);
	cbx_http_free(d->http);
	cbx_engine_free(d->engine);
	cbx_cgroup_tree_release(&d->cgroup);
	cbx_daemon_release_tenants(d);
	cbx_lifecycle_release(&d->lifecycle);
	cbx_notify_release(&d->notify);
	if (d->base)
		event_base_free(d->base);
	cbx_policy_free(d->policy);
	cbx_daemon_forget_secrets(d);
	cbx_daemon_unobserve(d);
	free(d->tenants_path);
	free(d->granted);
	free(d->policy_path);
	free(d->shipped);
	cbx_close_p(&d->share_fd);
	cbx_daemon_release_store(d);
	cbx_daemon_release_artifacts(d);
	cbx_dirs_release(&d->dirs);
	cbx_close_p(&d->lock_fd);
	cbx_close_p(&d->undo);
	cbx_info("ended");
	for (size_t i = 0; i < d->nlast_words; i++)
		cbx_close_p(&d->last_words[i]);
}

static const struct cbx_mcp_registry mcp = { .tools = cbx_tools, .others = cbx_profiles };

int main(int argc, char **argv)
{
	struct cbx_daemon_options options = { .level = CBX_LOG_INFO,
					      .idle_ms = CBX_DAEMON_IDLE_S * 1000ull,
					      .pool = CBX_POOL_MAX,
					      .pool_idle_ms = CBX_POOL_IDLE_S * 1000ull,
					      .zygotes = CBX_ZYGOTES_MAX,
					      .http_rate = CBX_HTTP_RATE_DEFAULT,
					      .freeze_ms = CBX_FREEZE_IDLE_S * 1000ull };
	struct cbx_daemon d = { .listeners = CBX_LISTENERS_NONE,
				.lock_fd = -1,
				.undo = -1,
				.notify = { .fd = -1 },
				.agent = { .loadavg = -1, .meminfo = -1 },
				.share_fd = -1,
				.packages = { .lock = -1 },
				.cgroup = CBX_CGROUP_TREE_NONE,
				.principal = CBX_PRINCIPAL_LOCAL,
				.mcp = &mcp };
	struct cbx_err err = { 0 };
	int r;

	fill_standard_descriptors();
	cbx_log_open("codeboxd", CBX_LOG_INFO, getenv("JOURNAL_STREAM") != NULL);
	r = cbx_daemon_options_parse(argc, argv, &d, &options, &err);
	if (r != 0) {
		if (r < 0)
			fprintf(stderr, "codeboxd: %s\n", err.msg);
		return r < 0 ? 2 : 0;
	}
	cbx_log_open("codeboxd", options.level, getenv("JOURNAL_STREAM") != NULL);
	signal(SIGPIPE, SIG_IGN);
	umask(077);
	raise_open_files();
#ifdef M_MMAP_THRESHOLD /* musl's is fixed */
	/* So that the memory of a large message goes back when it is freed; by itself glibc's threshold grows. */
	mallopt(M_MMAP_THRESHOLD, (int)KIB(256));
#endif
	TAILQ_INIT(&d.clients);
	cbx_tenants_init(&d.tenants);
	d.tenants.jwks = &cbx_jwks;
	cbx_daemon_observe(&d);
	d.lifecycle.idle_s = (unsigned)((options.idle_ms + 999) / 1000);
	d.freeze_idle_s = (unsigned)((options.freeze_ms + 999) / 1000);
	r = cbx_dirs_init(&d.dirs, &err);
	if (r >= 0)
		r = start(&d, &options, &err);
	if (r >= 0) {
		cbx_info("version %s serves %s", PACKAGE_VERSION, d.dirs.runtime);
		cbx_info("control groups: %s: %s", cbx_cgroup_backend_name(d.cgroup.backend), d.cgroup.reason);
		cbx_daemon_note_web(&d);
		cbx_notify_ready(&d);
		cbx_lifecycle_check(&d.lifecycle);
		if (!d.lifecycle.stopping)
			event_base_dispatch(d.base);
	} else {
		cbx_error("cannot start: %s", err.msg);
		cbx_notify(&d.notify, "STATUS=cannot start: %.*s", (int)strcspn(err.msg, "\n"), err.msg);
		d.lifecycle.exit_status = 1;
	}
	finish(&d);
	return d.lifecycle.exit_status;
}
