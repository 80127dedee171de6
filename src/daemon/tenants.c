/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: tenants are read when HTTP is served: from --tenants, else CODEBOX_TENANTS, else tenants.json in
 * the directory of policies, where there is one. Unlike a policy, a file with a fault keeps codeboxd from starting:
 * without it there would be nobody to serve, or everybody. Read again it leaves what is in force alone. An issuer of
 * JWTs changes its keys when it likes, and whoever fetches them sends no signal: their file is looked at now and then.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/timer.h"
#include "daemon/daemon.h"
#include "http/http.h"

static char *which(const struct cbx_daemon *d)
{
	const char *asked = d->tenants_asked ? d->tenants_asked : getenv("CODEBOX_TENANTS");
	_cleanup_free_ char *own = cbx_xasprintf("%s/tenants.json", d->dirs.config);

	if (asked && asked[0])
		return cbx_xstrdup(asked);
	/* One that exists and cannot be read is not a reason to do without. */
	return access(own, F_OK) == 0 || errno != ENOENT ? take_ptr(&own) : NULL;
}

static void note(const struct cbx_daemon *d)
{
	const struct cbx_tenant *t;
	size_t n = 0;

	TAILQ_FOREACH(t, &d->tenants.list, entry)
		n += !t->gone;
	cbx_info("%zu tenants and %zu tokens (%s)", n, d->tenants.tokens.n, d->tenants_path);
	if (d->tenants.keys)
		cbx_info("JWTs of %s: %zu keys (%s)", d->tenants.jwt->issuer, cbx_jwks_count(d->tenants.keys),
			 d->tenants.jwt->path);
}

static void look_at_keys(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_daemon *d = arg;
	struct cbx_err err;
	int r = cbx_tenants_refresh_keys(&d->tenants, &err);

	if (r < 0)
		cbx_error("%s; the keys stay as they were", err.msg);
	if (r <= 0)
		return;
	note(d);
	cbx_http_tenants_changed(d->http);
}

static void watch_keys(struct cbx_daemon *d)
{
	struct timeval every = { .tv_sec = CBX_JWKS_LOOK_S };

	if (d->tenants.jwt && !d->keys_timer)
		d->keys_timer = event_new(d->base, -1, EV_PERSIST, look_at_keys, d);
	if (d->tenants.jwt && d->keys_timer)
		event_add(d->keys_timer, &every);
	else if (d->keys_timer)
		event_del(d->keys_timer);
}

void cbx_daemon_release_tenants(struct cbx_daemon *d)
{
	cbx_event_free_p(&d->keys_timer);
	cbx_tenants_release(&d->tenants);
}

int cbx_daemon_load_tenants(struct cbx_daemon *d, struct cbx_err *err)
{
	d->tenants_path = which(d);
	if (!d->tenants_path)
		return 0;
	if (cbx_tenants_load(&d->tenants, d->tenants_path, d->shipped, err) < 0)
		return -err->code;
	note(d);
	watch_keys(d);
	return 1;
}

/* Nobody could use their sessions any more. */
static void end_sessions_of(struct cbx_daemon *d, const struct cbx_tenant *t)
{
	struct cbx_caller caller = { .engine = d->engine, .principal = &t->principal };
	_cleanup_json_ cJSON *names = cbx_session_names(&caller);
	struct cbx_session *s;
	struct cbx_err ignored;
	const cJSON *v;

	cJSON_ArrayForEach(v, names)
		if (cbx_session_find(&caller, cbx_json_text(v, "session_id"), &s, &ignored) == 0)
			cbx_session_close(NULL, s, "its tenant was removed");
}

int cbx_daemon_reload_tenants(struct cbx_daemon *d, cJSON **ret, struct cbx_err *err)
{
	const struct cbx_tenant *t;
	cJSON *o;

	if (d->tenants_path && cbx_tenants_load(&d->tenants, d->tenants_path, d->shipped, err) < 0)
		return cbx_wrap(err, "tenants and tokens stay as they were");
	if (d->tenants_path)
		note(d);
	watch_keys(d);
	cbx_http_tenants_changed(d->http);
	TAILQ_FOREACH(t, &d->tenants.list, entry)
		if (t->gone)
			end_sessions_of(d, t);
	if (!ret)
		return 0;
	*ret = o = cbx_json_new_obj();
	cbx_json_set_str(o, "file", d->tenants_path);
	cbx_json_set_u64(o, "tokens", d->tenants.tokens.n);
	return 0;
}
