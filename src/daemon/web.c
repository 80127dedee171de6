/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: HTTP as the options of the command line ask for it. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/daemon.h"
#include "http/http.h"

int cbx_daemon_start_web(struct cbx_daemon *d, struct cbx_err *err)
{
	const struct cbx_daemon_web *o = &d->web;
	struct cbx_http_config config = {
		.engine = d->engine,
		.principal = &d->principal,
		.registry = d->mcp,
		.profile = o->profile,
		.addresses = o->addresses,
		.naddresses = o->n,
		.fds = d->listeners.http,
		.nfds = d->listeners.nhttp,
		.rate = o->rate,
		.token_file = o->token_file,
		.url = o->url,
		.node = d->node,
		.tls = o->tls,
		.open = o->open,
		.ui = !o->no_ui,
		.metrics = d->metrics,
		.observer = &d->observer,
		.service = &d->service,
		.on_idle = cbx_daemon_check_idle,
		.arg = d,
	};
	int r;

	if (!o->tls.certificate != !o->tls.key || (o->tls.clients && !o->tls.key))
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "%s: TLS needs a certificate and its key; give --http-certificate and --http-key",
				  o->tls.certificate ? "--http-certificate"
				  : o->tls.key	     ? "--http-key"
						     : "--http-client-ca");
	if (!o->n && !d->listeners.nhttp) {
		if (o->token_file || o->open || o->tls.certificate || d->tenants_asked)
			return cbx_refuse(err, "invalid_argument", EINVAL,
					  "%s is given without --http; give --http too",
					  o->token_file	       ? "--http-token-file"
					  : o->open	       ? "--http-without-authentication"
					  : o->tls.certificate ? "--http-certificate"
							       : "--tenants");
		return 0;
	}
	r = cbx_daemon_load_tenants(d, err);
	if (r < 0)
		return r;
	config.tenants = r ? &d->tenants : NULL;
	if (o->open && (r || o->token_file))
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "--http-without-authentication: there are tenants or a token; omit one of both");
	d->listeners.nhttp = 0; /* they are its own from here on */
	r = cbx_http_new(d->base, &config, &d->http, err);
	if (r >= 0)
		cbx_daemon_link_artifacts(d, o->url);
	return r;
}

/* Root's codeboxd read them as root, and is another user now. */
static void check_again(const char *option, const char *path)
{
	_cleanup_fd_ int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;

	if (path && fd < 0)
		cbx_warn("%s: a new %s will not be read at SIGHUP: %s; let codeboxd's user or group read it, or start "
			 "codeboxd again for it",
			 option, path, strerror(errno));
}

void cbx_daemon_note_web(const struct cbx_daemon *d)
{
	const struct cbx_daemon_web *o = &d->web;
	const char *url;

	for (size_t i = 0; d->http && (url = cbx_http_url(d->http, i)); i++)
		cbx_info("serves HTTP and MCP at %s%s", url,
			 o->token_file || d->tenants_path ? ""
			 : cbx_starts_with(url, "unix:")  ? ", to the user who runs it"
			 : o->open			  ? ", to everybody who can reach it: no token is required"
							  : ", to everybody on this computer: no token is required");
	if (d->agent.asked)
		cbx_info("tells load balancers at %s how much is free", d->agent.at);
	check_again("--http-certificate", o->tls.certificate);
	check_again("--http-key", o->tls.key);
	check_again("--http-client-ca", o->tls.clients);
	check_again("jwt.keys", d->tenants.jwt ? d->tenants.jwt->path : NULL);
}

static char *directory_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? strndup(path, (size_t)(slash - path) + 1) : cbx_xstrdup(".");
}

/* Who renews certificates or keys puts new files, or new links, in the place of the old ones. */
void cbx_daemon_web_places(const struct cbx_daemon *d, char *ret[CBX_WEB_PLACES])
{
	const char *const files[] = { d->web.tls.certificate, d->web.tls.key, d->web.tls.clients,
				      d->tenants.jwt ? d->tenants.jwt->path : NULL };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_free_ char *real = files[i] ? realpath(files[i], NULL) : NULL;

		ret[2 * i] = files[i] ? directory_of(files[i]) : NULL;
		ret[2 * i + 1] = real ? directory_of(real) : NULL;
	}
}
