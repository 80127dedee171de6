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
#include <getopt.h>
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
#include "doctor/doctor.h"
#include "policy/policy.h"

#define EVENTS_PER_TURN 16

struct options {
	bool foreground;
	enum cbx_log_level level;
	uint64_t idle_ms;
	bool idle_given;
	uint64_t freeze_ms;
	const char *http, *token_file;
	uint64_t pool, pool_idle_ms;
	uint64_t zygotes;
	const char *policy; /* NULL: the standard one */
};

static const char help[] =
	"Usage: codeboxd [OPTION...]\n"
	"\n"
	"The codebox daemon: keeps sessions and serves the codebox command and MCP clients. It is started by the\n"
	"first codebox command that needs it, or by systemd; there is seldom a reason to start it by hand.\n"
	"\n"
	"  --foreground             make the sockets, instead of taking them from LISTEN_FDS\n"
	"  --idle-timeout SECONDS   end after so long without sessions and clients; 0: never (default 300)\n"
	"  --freeze-after SECONDS   stop sessions that were idle for so long, where control groups allow it; 0: never\n"
	"                           (default 60)\n"
	"  --http ADDRESS:PORT      serve MCP over HTTP too, at http://ADDRESS:PORT/mcp; loopback addresses only\n"
	"  --http-token-file FILE   ask HTTP clients for the bearer token in this file\n"
	"  --policy POLICY          what sessions may have: a file, or default, strict, net or dev; see\n"
	"                           codebox policy --help\n"
	"  --pool N                 keep up to N sessions ready for those who ask next; 0: none (default 4)\n"
	"  --pool-idle SECONDS      ... for so long when nobody asks (default 180)\n"
	"  --zygotes N              keep up to N interpreters warm that those of sessions are forked from; 0: none\n"
	"                           (default 4)\n"
	"  --log-level LEVEL        error, warning, info or debug (default info)\n"
	"  --help, --version\n"
	"\n"
	"Environment: CODEBOX_IDLE_TIMEOUT, CODEBOX_FREEZE_AFTER, CODEBOX_POLICY, CODEBOX_POOL, CODEBOX_POOL_IDLE,\n"
	"CODEBOX_ZYGOTES, CODEBOX_RUNTIME_DIR, CODEBOX_DATA_DIR, CODEBOX_STATE_DIR, CODEBOX_CONFIG_DIR.\n"
	"See codeboxd(8).\n";

static int parse_level(const char *s, enum cbx_log_level *ret, struct cbx_err *err)
{
	static const struct {
		const char *name;
		enum cbx_log_level level;
	} levels[] = { { "error", CBX_LOG_ERROR },
		       { "warning", CBX_LOG_WARNING },
		       { "info", CBX_LOG_INFO },
		       { "debug", CBX_LOG_DEBUG } };

	for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
		if (strcmp(s, levels[i].name) == 0) {
			*ret = levels[i].level;
			return 0;
		}
	}
	return cbx_refuse(err, "invalid_argument", EINVAL,
			  "--log-level: \"%.40s\" is not error, warning, info or debug", s);
}

/* 0: go on; 1: done (help, version); -errno. */
static int parse_options(int argc, char **argv, struct options *o, struct cbx_err *err)
{
	static const struct option longs[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ "foreground", no_argument, NULL, 'f' },
		{ "idle-timeout", required_argument, NULL, 'i' },
		{ "freeze-after", required_argument, NULL, 'F' },
		{ "log-level", required_argument, NULL, 'l' },
		{ "http", required_argument, NULL, 'H' },
		{ "policy", required_argument, NULL, 'Y' },
		{ "http-token-file", required_argument, NULL, 'T' },
		{ "pool", required_argument, NULL, 'p' },
		{ "pool-idle", required_argument, NULL, 'P' },
		{ "zygotes", required_argument, NULL, 'z' },
		{ NULL, 0, NULL, 0 },
	};
	const char *idle = getenv("CODEBOX_IDLE_TIMEOUT"), *pool = getenv("CODEBOX_POOL");
	const char *zygotes = getenv("CODEBOX_ZYGOTES");
	const char *pool_idle = getenv("CODEBOX_POOL_IDLE"), *freeze = getenv("CODEBOX_FREEZE_AFTER");
	int c, r = 0;

	if (idle && idle[0])
		r = cbx_parse_duration_ms(idle, "CODEBOX_IDLE_TIMEOUT", 0, 1000ull * 3600 * 24 * 365, &o->idle_ms, err);
	if (r >= 0 && freeze && freeze[0])
		r = cbx_parse_duration_ms(freeze, "CODEBOX_FREEZE_AFTER", 0, 1000ull * 3600 * 24 * 365, &o->freeze_ms,
					  err);
	if (r >= 0 && pool && pool[0])
		r = cbx_parse_u64(pool, "CODEBOX_POOL", 0, CBX_POOL_LIMIT, &o->pool, err);
	if (r >= 0 && zygotes && zygotes[0])
		r = cbx_parse_u64(zygotes, "CODEBOX_ZYGOTES", 0, CBX_ZYGOTES_LIMIT, &o->zygotes, err);
	if (r >= 0 && pool_idle && pool_idle[0])
		r = cbx_parse_duration_ms(pool_idle, "CODEBOX_POOL_IDLE", 0, 1000ull * 3600 * 24, &o->pool_idle_ms,
					  err);
	while (r >= 0 && (c = getopt_long(argc, argv, "hV", longs, NULL)) != -1) {
		switch (c) {
		case 'h':
			fputs(help, stdout);
			return 1;
		case 'V':
			printf("codeboxd %s\n", PACKAGE_VERSION);
			return 1;
		case 'f':
			o->foreground = true;
			break;
		case 'i':
			o->idle_given = true;
			r = cbx_parse_duration_ms(optarg, "--idle-timeout", 0, 1000ull * 3600 * 24 * 365, &o->idle_ms,
						  err);
			break;
		case 'F':
			r = cbx_parse_duration_ms(optarg, "--freeze-after", 0, 1000ull * 3600 * 24 * 365, &o->freeze_ms,
						  err);
			break;
		case 'H':
			o->http = optarg;
			break;
		case 'Y':
			o->policy = optarg;
			break;
		case 'T':
			o->token_file = optarg;
			break;
		case 'p':
			r = cbx_parse_u64(optarg, "--pool", 0, CBX_POOL_LIMIT, &o->pool, err);
			break;
		case 'z':
			r = cbx_parse_u64(optarg, "--zygotes", 0, CBX_ZYGOTES_LIMIT, &o->zygotes, err);
			break;
		case 'P':
			r = cbx_parse_duration_ms(optarg, "--pool-idle", 0, 1000ull * 3600 * 24, &o->pool_idle_ms, err);
			break;
		case 'l':
			r = parse_level(optarg, &o->level, err);
			break;
		default:
			return cbx_refuse(err, "invalid_argument", EINVAL, "see codeboxd --help");
		}
	}
	if (r >= 0 && o->token_file && !o->http)
		return cbx_refuse(err, "invalid_argument", EINVAL, "--http-token-file is of use with --http only");
	/* Nobody starts it again when an HTTP client comes. */
	if (o->http && !o->idle_given && !(idle && idle[0]))
		o->idle_ms = 0;
	if (r >= 0 && optind < argc)
		return cbx_refuse(err, "invalid_argument", EINVAL, "unexpected argument \"%.80s\"", argv[optind]);
	return r;
}

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
	cbx_error("%s", why->msg);
	cbx_lifecycle_stop(arg, 1, "the supervisor has ended");
}

static void engine_idle(void *arg)
{
	cbx_lifecycle_check(arg);
}

static void engine_note(void *arg, const char *session, const char *text)
{
	cbx_info("session %s: %s", session, text);
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

/* A policy that cannot be read is no reason to end: clients are to learn of it. But it is one to make no session. */
static void load_policy(struct cbx_daemon *d, const char *which, struct cbx_err *refusal)
{
	_cleanup_free_ char *standard = NULL;
	const char *asked = getenv("CODEBOX_POLICY");
	struct cbx_err err;

	if (!which && asked && asked[0])
		which = asked;
	if (!which)
		which = standard = cbx_policy_standard(d->dirs.config);
	if (cbx_policy_load(d->dirs.share, which, &d->policy, &err) >= 0) {
		cbx_info("policy %s (%s), digest %s", d->policy->name, which, d->policy->digest);
		return;
	}
	cbx_refuse(refusal, "invalid_policy", err.code,
		   "no session is made, because the policy cannot be used: %.400s; correct it (codebox policy check), "
		   "and restart codeboxd (codebox stop)",
		   err.msg);
	cbx_error("%s", refusal->msg);
}

static int start_engine(struct cbx_daemon *d, const struct options *o, struct cbx_err *err)
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
		.runtime_dir = d->dirs.runtime,
		.state_dir = d->dirs.state,
		.config_dir = d->dirs.config,
		.refusal = &refusal,
		.service_uid = d->service.uid,
		.service_gid = d->service.gid,
		.cgroup = &d->cgroup,
		.freeze_idle_s = d->freeze_idle_s,
		.on_down = engine_down,
		.on_idle = engine_idle,
		.on_note = engine_note,
		.diagnose = engine_diagnose,
		.arg = d,
		.zygotes_max = (unsigned)o->zygotes,
		.pool_max = (unsigned)o->pool,
		.pool_idle_ms = o->pool_idle_ms,
	};

	load_policy(d, o->policy, &refusal);
	config.policy = d->policy;
	return cbx_engine_new(d->base, &config, &d->engine, err);
}

static void http_idle(void *arg)
{
	cbx_lifecycle_check(arg);
}

static int start_http(struct cbx_daemon *d, const struct options *o, struct cbx_err *err)
{
	struct cbx_http_config config = {
		.engine = d->engine,
		.address = o->http,
		.token_file = o->token_file,
		.on_idle = http_idle,
		.arg = d,
	};

	return o->http ? cbx_http_new(d->base, &config, &d->http, err) : 0;
}

/* ---- start and end ---- */

static int prepare_directories(struct cbx_daemon *d, struct cbx_err *err)
{
	int r = cbx_service_make_dir(&d->service, d->dirs.runtime, 0700, err);

	if (r < 0)
		return r;
	/* A store that cannot be made is no reason not to start: every session will say that it has no image. */
	if (cbx_service_make_dir(&d->service, d->dirs.data, 0750, err) < 0 ||
	    cbx_service_make_dir(&d->service, d->dirs.images, 0750, err) < 0)
		cbx_warn("%s", err->msg);
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

static int start(struct cbx_daemon *d, const struct options *o, struct cbx_err *err)
{
	struct event_config *config;
	int r = cbx_listeners_from_environment(d, err);

	if (r == 0 && !o->foreground)
		return cbx_refuse(err, "invalid_start", EINVAL,
				  "no sockets were passed in LISTEN_FDS; use a codebox command, or --foreground");
	if (r >= 0 && cbx_service_init(&d->service, err) < 0)
		return -err->code;
	if (r >= 0 && prepare_directories(d, err) < 0)
		return -err->code;
	if (r == 0)
		r = cbx_listeners_make(d, err);
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
	r = start_engine(d, o, err);
	if (r >= 0)
		r = start_http(d, o, err);
	cbx_daemon_read_filter(d);
	if (r >= 0)
		r = harden(d, err);
	if (r >= 0)
		r = cbx_lifecycle_start(d, err);
	if (r >= 0)
		r = cbx_daemon_confine(d, err);
	if (r >= 0)
		r = cbx_listeners_start(d, err);
	return r;
}

static void finish(struct cbx_daemon *d)
{
	struct cbx_client_entry *client;

	d->stopping = true;
	cbx_listeners_unlink(d);
	cbx_listeners_close(d);
	while ((client = TAILQ_FIRST(&d->clients))) {
		cbx_conn_stop(client->conn);
		cbx_conn_free(client->conn);
	}
	cbx_http_stop(d->http);
	cbx_http_free(d->http);
	cbx_engine_free(d->engine);
	cbx_cgroup_tree_release(&d->cgroup);
	cbx_lifecycle_release(d);
	if (d->base)
		event_base_free(d->base);
	cbx_policy_free(d->policy);
	cbx_dirs_release(&d->dirs);
	cbx_close_p(&d->lock_fd);
	cbx_info("ended");
	cbx_close_p(&d->last_words);
}

int main(int argc, char **argv)
{
	struct options options = { .level = CBX_LOG_INFO, .idle_ms = CBX_DAEMON_IDLE_S * 1000ull, .pool = CBX_POOL_MAX,
				   .pool_idle_ms = CBX_POOL_IDLE_S * 1000ull,
				   .zygotes = CBX_ZYGOTES_MAX,
				   .freeze_ms = CBX_FREEZE_IDLE_S * 1000ull };
	struct cbx_daemon d = { .lock_fd = -1, .last_words = -1, .cgroup = { .dir = -1, .lock = -1 } };
	struct cbx_err err = { 0 };
	int r;

	fill_standard_descriptors();
	cbx_log_open("codeboxd", CBX_LOG_INFO, getenv("JOURNAL_STREAM") != NULL);
	r = parse_options(argc, argv, &options, &err);
	if (r != 0) {
		if (r < 0)
			fprintf(stderr, "codeboxd: %s\n", err.msg);
		return r < 0 ? 2 : 0;
	}
	cbx_log_open("codeboxd", options.level, getenv("JOURNAL_STREAM") != NULL);
	signal(SIGPIPE, SIG_IGN);
	umask(077);
	raise_open_files();
	/* Fixed, so that the memory of a large message goes back when it is freed; by itself the threshold grows. */
	mallopt(M_MMAP_THRESHOLD, (int)KIB(256));
	TAILQ_INIT(&d.clients);
	for (size_t i = 0; i < CBX_LISTENERS; i++)
		d.listeners[i].fd = -1;
	d.idle_s = (unsigned)((options.idle_ms + 999) / 1000);
	d.freeze_idle_s = (unsigned)((options.freeze_ms + 999) / 1000);
	r = cbx_dirs_init(&d.dirs, &err);
	if (r >= 0)
		r = start(&d, &options, &err);
	if (r >= 0) {
		cbx_info("version %s serves %s", PACKAGE_VERSION, d.dirs.runtime);
		cbx_info("control groups: %s: %s", cbx_cgroup_backend_name(d.cgroup.backend), d.cgroup.reason);
		if (d.http)
			cbx_info("serves MCP at %s%s", cbx_http_url(d.http),
				 options.token_file ? "" : ", to everybody on this computer: no token is asked for");
		cbx_lifecycle_check(&d);
		if (!d.stopping)
			event_base_dispatch(d.base);
	} else {
		cbx_error("cannot start: %s", err.msg);
		d.exit_status = 1;
	}
	finish(&d);
	return d.exit_status;
}
