/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: first the names by which this computer was addressed, then who it is, then how often. On a
 * loopback address a page in a browser could ask under a name of its own (address.c), so names are judged there in any
 * case. Elsewhere a proxy, or the network, gives this computer names that nobody knows here; what keeps pages out is
 * that they have no token: a browser adds none by itself. Their origin must be the host that they ask, all the same.
 * Where no token is asked for, the host must be an address, which no page has for a name, or a name that is known.
 * The name by which others reach a proxy before a loopback address is known: the operator has said it.
 */
#include "http/gate.h"

#include <stdio.h>
#include <strings.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "base/log.h"
#include "http/address.h"
#include "http/resource.h"
#include "session/happened.h"
#include "wire/rpc.h"

#define REFUSALS_LOGGED 20 /* a second */

bool cbx_http_gate_asks(const struct cbx_http_gate *gate)
{
	return gate->token.len || gate->tenants;
}

void cbx_http_via(const struct cbx_http_conn *c, const char *door, struct cbx_via *ret)
{
	const char *trace = cbx_http_header(c, "traceparent");

	*ret = (struct cbx_via){ .door = door };
	memcpy(ret->token, c->who.token, sizeof(c->who.token));
	if (trace && cbx_http_trace_valid(trace))
		memcpy(ret->trace, trace, sizeof(ret->trace) - 1);
}

static void tell_denied(const struct cbx_http_conn *c, const char *kind, const char *why)
{
	struct cbx_happened h = { .what = CBX_HAPPENED_DENIED, .outcome = kind, .why = why };
	struct cbx_via from;

	if (!c->all->observer)
		return;
	cbx_http_via(c, "http", &from);
	h.via = &from;
	h.tenant = c->who.principal ? c->who.principal->tenant : NULL;
	c->all->observer->happened(c->all->observer->arg, &h);
}

void cbx_http_gate_refuse(struct cbx_http_conn *c, int status, const char *kind, const char *why)
{
	if (status == 401 || status == 403 || status == 429)
		tell_denied(c, kind, why);
	/* A body that was not read is not to be taken for the next request. */
	if (c->state == CBX_HTTP_READS_HEAD)
		c->head.close |= c->head.length || c->head.chunked;
	cbx_http_deny(c, status, kind, why);
}

/* ---- names ---- */

static bool same_host(const char *origin, const char *host)
{
	const char *p = strstr(origin, "://");

	return p && strcasecmp(p + 3, host) == 0;
}

static bool names_are_right(const struct cbx_http_gate *gate, struct cbx_http_conn *c)
{
	const char *host = cbx_http_header(c, "Host"), *origin = cbx_http_header(c, "Origin");
	bool known = host && ((gate->name && strcasecmp(host, gate->name) == 0) ||
			      (!c->door->local && (cbx_http_gate_asks(gate) || cbx_http_host_numeric(host))));

	if (!host || (!known && !cbx_http_host_allowed(host))) {
		c->head.close = true;
		cbx_http_gate_refuse(c, host ? 403 : 400, "wrong_host",
				     c->door->local
					     ? "the Host header must name localhost, 127.0.0.1 or [::1], or what "
					       "--http-url names"
					     : "the Host header must be an address or localhost, or what "
					       "--http-url names");
		return false;
	}
	if (origin && !cbx_http_origin_allowed(origin) && !(known && same_host(origin, host))) {
		c->head.close = true;
		cbx_http_gate_refuse(c, 403, "wrong_origin", "requests of web pages from elsewhere are refused");
		return false;
	}
	return true;
}

/* ---- who it is ---- */

/* The client learns nothing of why not: that would help who tries. */
static void log_refusal(struct cbx_http_conn *c, const char *why)
{
	c->all->refusals.per_second = REFUSALS_LOGGED;
	if (!cbx_rate_take(&c->all->refusals, cbx_now_ms()))
		cbx_info("a JWT was not accepted: %s", why);
}

static bool recognize_jwt(const struct cbx_tenants *tenants, struct cbx_http_conn *c, const char *text)
{
	struct cbx_jwt jwt;
	const char *why = cbx_jwt_check(tenants->jwt, tenants->keys, text, time(NULL), &jwt);
	struct cbx_tenant *tenant = why ? NULL : cbx_tenants_find(tenants, jwt.tenant);

	if (!tenant) {
		log_refusal(c, why ? why : "the claim that names its tenant names one that does not exist");
		return false;
	}
	c->who = (struct cbx_http_who){ .principal = &tenant->principal,
					.tenant = tenant,
					.scopes = jwt.scopes,
					.expires = jwt.expires,
					.jwt = true };
	snprintf(c->who.token, sizeof(c->who.token), "jwt:%s", jwt.subject);
	memcpy(c->who.voucher, jwt.voucher, sizeof(c->who.voucher));
	tenant->at_once++;
	return true;
}

/* By the user who made the connection, where a tenant has this one. */
static bool recognize_user(const struct cbx_tenants *tenants, struct cbx_http_conn *c)
{
	struct cbx_tenant *t = c->uid == CBX_HTTP_NO_USER ? NULL : cbx_tenants_by_user(tenants, c->uid);

	if (!t)
		return false;
	c->who = (struct cbx_http_who){
		.principal = &t->principal, .tenant = t, .scopes = CBX_SCOPES_USUAL, .user = true, .uid = c->uid
	};
	snprintf(c->who.token, sizeof(c->who.token), "uid:%u", (unsigned)c->uid);
	t->at_once++;
	return true;
}

static bool recognize(const struct cbx_http_gate *gate, struct cbx_http_conn *c)
{
	const char *authorization = cbx_http_header(c, "Authorization");
	const char *shown = authorization && strncasecmp(authorization, "Bearer ", 7) == 0 ? authorization + 7 : NULL;
	const struct cbx_token *t = NULL;

	if (!cbx_http_gate_asks(gate) || (gate->token.len && cbx_http_token_ok(&gate->token, authorization))) {
		c->who = (struct cbx_http_who){ .principal = gate->local, .scopes = CBX_SCOPES_ALL };
		return true;
	}
	if (gate->tenants && !authorization)
		return recognize_user(gate->tenants, c);
	if (!gate->tenants || !shown)
		return false;
	if (gate->tenants->keys && !cbx_tokens_look_like(shown))
		return recognize_jwt(gate->tenants, c, shown);
	t = cbx_tokens_check(&gate->tenants->tokens, shown, time(NULL));
	if (!t || !t->of)
		return false;
	c->who = (struct cbx_http_who){
		.principal = &t->of->principal, .tenant = t->of, .scopes = t->scopes, .expires = t->expires
	};
	memcpy(c->who.token, t->id, sizeof(t->id));
	t->of->at_once++;
	return true;
}

static void refuse_rate(struct cbx_http_conn *c, uint64_t wait_ms, const char *what, uint64_t most)
{
	char text[200], seconds[24];

	snprintf(seconds, sizeof(seconds), "%llu", (unsigned long long)(wait_ms + 999) / 1000);
	snprintf(text, sizeof(text), "too many requests: %llu %s are allowed; try again later",
		 (unsigned long long)most, what);
	cbx_http_add_header(c, "Retry-After", seconds);
	cbx_http_gate_refuse(c, 429, "too_many_requests", text);
}

static bool within_rates(struct cbx_http_conn *c)
{
	struct cbx_rate *all = &c->all->pace.requests;
	struct cbx_tenant *t = c->who.tenant;
	uint64_t wait;

	/* First its own: what a tenant is refused takes nothing from the others. */
	if (t && t->at_once > t->at_once_max) {
		refuse_rate(c, 1000, "at once", t->at_once_max);
		return false;
	}
	wait = t ? cbx_rate_take(&t->requests, cbx_now_ms()) : 0;
	if (wait) {
		refuse_rate(c, wait, "a second", t->requests.per_second);
		return false;
	}
	wait = cbx_rate_take(all, cbx_now_ms());
	if (wait)
		refuse_rate(c, wait, "a second of all clients together", all->per_second);
	return !wait;
}

static bool judges(const struct cbx_http_gate *gate, struct cbx_http_conn *c)
{
	uint64_t wait = 0;

	if (cbx_http_gate_asks(gate) && cbx_http_header(c, "Authorization"))
		wait = cbx_http_pace_looks(c);
	if (!wait)
		return true;
	c->head.close = true;
	refuse_rate(c, wait, "a second with tokens that are not valid, of one address", CBX_HTTP_FAILED_PER_S);
	return false;
}

bool cbx_http_gate_pass(const struct cbx_http_gate *gate, struct cbx_http_conn *c, bool open_to_all)
{
	cbx_http_who_release(&c->who);
	if (!names_are_right(gate, c))
		return false;
	if (open_to_all)
		return true;
	if (!judges(gate, c))
		return false;
	if (!recognize(gate, c)) {
		bool shown = cbx_http_header(c, "Authorization");

		if (shown)
			cbx_http_pace_failed(c);
		c->head.close = true;
		/* What MCP needs is known; other requests differ. */
		cbx_http_challenge(c, shown && gate->tenants ? "invalid_token" : NULL,
				   gate->tenants && gate->tenants->jwt && cbx_http_is_mcp(c)
					   ? cbx_scopes_name(CBX_SCOPE_RUN)
					   : NULL);
		cbx_http_gate_refuse(
			c, 401, "unauthorized",
			!shown ? "missing bearer token: send one in the Authorization header"
			       : "this bearer token is not valid: it is wrong, was revoked, or has expired");
		return false;
	}
	return within_rates(c);
}

bool cbx_http_gate_still(const struct cbx_http_gate *gate, const struct cbx_http_who *who)
{
	const struct cbx_token *t;

	if (!who->tenant)
		return true;
	if (who->user)
		return gate->tenants && cbx_tenants_by_user(gate->tenants, who->uid) == who->tenant;
	if (who->jwt)
		return gate->tenants && gate->tenants->keys && !who->tenant->gone &&
		       cbx_jwks_vouch(gate->tenants->keys, who->voucher);
	t = gate->tenants ? cbx_tokens_by_id(&gate->tenants->tokens, who->token) : NULL;
	return t && t->of == who->tenant && t->scopes == who->scopes;
}

bool cbx_http_gate_scope(struct cbx_http_conn *c, enum cbx_scope scope)
{
	char text[120];

	if (c->who.scopes & scope)
		return true;
	cbx_http_challenge(c, "insufficient_scope", cbx_scopes_name(scope));
	snprintf(text, sizeof(text), "this token has the scope %s, and the request needs %s",
		 c->who.scopes ? cbx_scopes_name(c->who.scopes) : "(none)", cbx_scopes_name(scope));
	cbx_http_gate_refuse(c, 403, "insufficient_scope", text);
	return false;
}
