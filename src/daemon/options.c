/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "profiles/names.h"

static const char help[] =
	"Usage: codeboxd [OPTION...]\n"
	"\n"
	"The codebox daemon: keeps sessions and serves the codebox command and MCP clients. The first\n"
	"codebox command that needs it, or systemd, starts it; you seldom need to start it by hand.\n"
	"\n"
	"  --foreground             make the sockets, instead of taking them from LISTEN_FDS\n"
	"  --idle-timeout SECONDS   end after this time without sessions and clients; 0: never (default 300)\n"
	"  --freeze-after SECONDS   stop sessions that were idle for this time, where control groups allow it; 0: "
	"never\n"
	"                           (default 60)\n"
	"  --http ADDRESS:PORT      serve HTTP too, with MCP at http://ADDRESS:PORT/mcp; also unix:PATH; up to 8 "
	"times\n"
	"  --http-token-file FILE   ask HTTP clients for the bearer token in this file\n"
	"  --http-url URL           how others reach --http, for links to artifacts: https://box.example.org\n"
	"  --http-without-authentication\n"
	"                           serve everybody who reaches an address, though it is not this computer's own\n"
	"  --http-certificate FILE, --http-key FILE\n"
	"                           speak TLS on all addresses; SIGHUP reads both files again\n"
	"  --http-client-ca FILE    serve only clients with a certificate of one of these authorities\n"
	"  --http-profile NAME      serve the tools of another server at /mcp: see codebox-profiles(7)\n"
	"  --http-rate N            answer up to N requests a second of all clients together; 0: no limit (default "
	"50000)\n"
	"  --node NAME              what every session's id begins with, so that a proxy in front of several machines\n"
	"                           finds it: up to 16 of a-z, 0-9 and -\n"
	"  --agent PORT             tell HAProxy's agent-check how much is free; also ADDRESS:PORT or unix:PATH\n"
	"  --no-ui                  do not serve the page at /ui of --http\n"
	"  --tenants FILE           serve the tenants in this file, who have tokens: see codebox token --help\n"
	"  --policy POLICY          what sessions may have: a file, or default, strict, net or dev; see\n"
	"                           codebox policy --help; codebox policy reload, or SIGHUP, reads it again\n"
	"  --pool N                 keep up to N sessions ready for those who ask next; 0: none (default 4)\n"
	"  --pool-idle SECONDS      give them up after this time without a request (default 180)\n"
	"  --zygotes N              keep up to N interpreters warm that those of sessions are forked from; 0: none\n"
	"                           (default 4)\n"
	"  --audit FILE             keep an audit log: see codebox-audit(7)\n"
	"  --audit-code             it has cells and commands as they are, not only their SHA-256\n"
	"  --log-format FORMAT      text or json (default text)\n"
	"  --log-level LEVEL        error, warning, info or debug (default info)\n"
	"  --help, --version\n"
	"\n"
	"Environment: CODEBOX_NODE, CODEBOX_IDLE_TIMEOUT, CODEBOX_FREEZE_AFTER, CODEBOX_POLICY, CODEBOX_TENANTS, "
	"CODEBOX_POOL, "
	"CODEBOX_POOL_IDLE,\n"
	"CODEBOX_ZYGOTES, CODEBOX_HTTP_RATE, CODEBOX_RUNTIME_DIR, CODEBOX_DATA_DIR, CODEBOX_STATE_DIR, CODEBOX_CONFIG_DIR.\n"
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
			  "--log-level: \"%.40s\" is unknown; use error, warning, info or debug", s);
}

static int set_format(const char *s, struct cbx_err *err)
{
	if (strcmp(s, "text") != 0 && strcmp(s, "json") != 0)
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "--log-format: \"%.40s\" is unknown; use text or json", s);
	cbx_log_set_format(s[0] == 'j' ? CBX_LOG_JSON : CBX_LOG_TEXT);
	return 0;
}

#define DAY_MS (1000ull * 3600 * 24)

/* What an option of the command line says, or else a variable of the environment. */
static const struct setting {
	int option;
	const char *name, *variable;
	bool duration; /* in milliseconds; else a number */
	uint64_t max;
	size_t at; /* in struct cbx_daemon_options */
} settings[] = {
	{ 'i', "--idle-timeout", "CODEBOX_IDLE_TIMEOUT", true, DAY_MS * 365,
	  offsetof(struct cbx_daemon_options, idle_ms) },
	{ 'F', "--freeze-after", "CODEBOX_FREEZE_AFTER", true, DAY_MS * 365,
	  offsetof(struct cbx_daemon_options, freeze_ms) },
	{ 'p', "--pool", "CODEBOX_POOL", false, CBX_POOL_LIMIT, offsetof(struct cbx_daemon_options, pool) },
	{ 'P', "--pool-idle", "CODEBOX_POOL_IDLE", true, DAY_MS, offsetof(struct cbx_daemon_options, pool_idle_ms) },
	{ 'r', "--http-rate", "CODEBOX_HTTP_RATE", false, CBX_HTTP_RATE_MAX,
	  offsetof(struct cbx_daemon_options, http_rate) },
	{ 'z', "--zygotes", "CODEBOX_ZYGOTES", false, CBX_ZYGOTES_LIMIT, offsetof(struct cbx_daemon_options, zygotes) },
};

static int set(struct cbx_daemon_options *o, const struct setting *s, const char *text, const char *name,
	       struct cbx_err *err)
{
	uint64_t *value = (uint64_t *)(void *)((char *)o + s->at);

	o->idle_given |= s->option == 'i';
	return s->duration ? cbx_parse_duration_ms(text, name, 0, s->max, value, err)
			   : cbx_parse_u64(text, name, 0, s->max, value, err);
}

static int read_environment(struct cbx_daemon_options *o, struct cbx_err *err)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(settings) && r >= 0; i++) {
		const char *text = getenv(settings[i].variable);

		if (text && text[0])
			r = set(o, &settings[i], text, settings[i].variable, err);
	}
	return r;
}

/* What ids begin with, before the first dot of each. */
static int parse_node(const char *s, const char *what, struct cbx_daemon *d, struct cbx_err *err)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-");

	if (!n || s[n] || n > CBX_NODE_MAX || s[0] == '-')
		return cbx_refuse(
			err, "invalid_argument", EINVAL,
			"%s: \"%.40s\" is not a node's name; use 1 to %d characters of a-z, 0-9 and \"-\", the "
			"first of them not \"-\"",
			what, s, CBX_NODE_MAX);
	snprintf(d->node, sizeof(d->node), "%s.", s);
	return 0;
}

static int parse_profile(const char *s, struct cbx_daemon *d, struct cbx_err *err)
{
	static const char *const names[] = { CBX_PROFILE_NAMES };

	d->web.profile = s;
	return cbx_find_word(s, names, ARRAY_SIZE(names)) >= 0
		       ? 0
		       : cbx_refuse(err, "invalid_argument", EINVAL,
				    "--http-profile: \"%.40s\" is not a profile; use " CBX_PROFILE_KNOWN, s);
}

/* What links begin with. */
static int parse_url(const char *s, struct cbx_daemon *d, struct cbx_err *err)
{
	if ((!cbx_starts_with(s, "https://") && !cbx_starts_with(s, "http://")) || strpbrk(s, " ?#@\"<>") ||
	    !cbx_plain(s) || cbx_ends_with(s, "/") || strlen(s) > 500)
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "--http-url: \"%.80s\" is not an address; write one such as https://box.example.org",
				  s);
	d->web.url = s;
	return 0;
}

int cbx_daemon_options_parse(int argc, char **argv, struct cbx_daemon *d, struct cbx_daemon_options *o,
			     struct cbx_err *err)
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
		{ "audit", required_argument, NULL, 'A' },
		{ "audit-code", no_argument, NULL, 'C' },
		{ "log-format", required_argument, NULL, 'J' },
		{ "http-token-file", required_argument, NULL, 'T' },
		{ "http-without-authentication", no_argument, NULL, 'O' },
		{ "http-profile", required_argument, NULL, 'R' },
		{ "http-certificate", required_argument, NULL, 'c' },
		{ "http-key", required_argument, NULL, 'k' },
		{ "http-client-ca", required_argument, NULL, 'a' },
		{ "no-ui", no_argument, NULL, 'u' },
		{ "tenants", required_argument, NULL, 'N' },
		{ "node", required_argument, NULL, 'n' },
		{ "agent", required_argument, NULL, 'g' },
		{ "http-url", required_argument, NULL, 'U' },
		{ "pool", required_argument, NULL, 'p' },
		{ "pool-idle", required_argument, NULL, 'P' },
		{ "http-rate", required_argument, NULL, 'r' },
		{ "zygotes", required_argument, NULL, 'z' },
		{ NULL, 0, NULL, 0 },
	};
	const char *node = getenv("CODEBOX_NODE");
	int c, r = read_environment(o, err);
	size_t k;

	if (r >= 0 && node && node[0])
		r = parse_node(node, "CODEBOX_NODE", d, err);
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
		case 'H':
			if (d->web.n == CBX_HTTP_LISTENERS_MAX)
				return cbx_refuse(err, "invalid_argument", EINVAL,
						  "--http: too many addresses; give up to %d", CBX_HTTP_LISTENERS_MAX);
			d->web.addresses[d->web.n++] = optarg;
			break;
		case 'O':
			d->web.open = true;
			break;
		case 'R':
			r = parse_profile(optarg, d, err);
			break;
		case 'c':
			d->web.tls.certificate = optarg;
			break;
		case 'k':
			d->web.tls.key = optarg;
			break;
		case 'a':
			d->web.tls.clients = optarg;
			break;
		case 'u':
			d->web.no_ui = true;
			break;
		case 'n':
			r = parse_node(optarg, "--node", d, err);
			break;
		case 'g':
			d->agent.asked = optarg;
			break;
		case 'U':
			r = parse_url(optarg, d, err);
			break;
		case 'N':
			d->tenants_asked = optarg;
			break;
		case 'A':
			d->audit_path = optarg;
			break;
		case 'C':
			d->audit_code = true;
			break;
		case 'J':
			r = set_format(optarg, err);
			break;
		case 'Y':
			d->policy_asked = optarg;
			break;
		case 'T':
			d->web.token_file = optarg;
			break;
		case 'l':
			r = parse_level(optarg, &o->level, err);
			break;
		default:
			for (k = 0; k < ARRAY_SIZE(settings) && settings[k].option != c; k++)
				;
			if (k == ARRAY_SIZE(settings))
				return cbx_refuse(err, "invalid_argument", EINVAL, "see codeboxd --help");
			r = set(o, &settings[k], optarg, settings[k].name, err);
		}
	}
	d->web.rate = o->http_rate;
	/* Nobody starts it again when an HTTP client comes. */
	if (d->web.n && !o->idle_given)
		o->idle_ms = 0;
	if (r >= 0 && optind < argc)
		return cbx_refuse(err, "invalid_argument", EINVAL, "unexpected argument \"%.80s\"; see codeboxd --help",
				  argv[optind]);
	return r;
}
