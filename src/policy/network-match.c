/* SPDX-License-Identifier: Apache-2.0 */
/* What rules say to a destination, and what two lists of rules both allow. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "policy/network.h"

/* ---- judging ---- */

static bool below(const char *name, const char *suffix)
{
	return strlen(name) > strlen(suffix) && cbx_ends_with(name, suffix);
}

static bool host_matches(const struct cbx_net_rule *r, const struct cbx_host *h)
{
	switch (r->kind) {
	case CBX_NET_ANY:
		return true;
	case CBX_NET_ADDRESS:
		return h->literal && cbx_ip_range_has(&r->range, &h->ip);
	case CBX_NET_SUFFIX:
		return !h->literal && below(h->name, r->host + 1);
	default:
		return !h->literal && strcmp(h->name, r->host) == 0;
	}
}

static bool has_port(const struct cbx_net_rule *r, uint16_t port)
{
	for (size_t i = 0; i < r->nports; i++)
		if (r->ports[i] == port)
			return true;
	return false;
}

/* What stands behind a "%" is a byte, but none of these: what separates parts, "%" again, and the first of a character
 * in more bytes than it needs (%c0%ae is a "." to some) or of the wide form of one (U+FF0E). */
static bool code_plain(const char *p, size_t n)
{
	static const char *const codes[] = { "2e", "2f",   "5c",   "25",   "00",       "3b",	   "c0",
					     "c1", "e0%8", "e0%9", "f0%8", "f8",	 "fc",	   "ef%bc%8e",
					     "ef%bc%8f", "ef%bc%bc" };

	if (n < 2 || !isxdigit((unsigned char)p[0]) || !isxdigit((unsigned char)p[1]))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (strlen(codes[i]) <= n && strncasecmp(p, codes[i], strlen(codes[i])) == 0)
			return false;
	return true;
}

/* What some servers take for "." or "/", or remove, before they look: a path that has it is compared with none. */
static bool path_plain(const char *path)
{
	size_t n = strcspn(path, "?");

	for (size_t i = 0; i < n; i++) {
		const char *p = path + i;
		char prev = i ? p[-1] : '\0';

		if (*p == '\\' || *p == '#' || *p == ';' || (*p == '/' && prev == '/'))
			return false;
		if (*p == '%' && !code_plain(p + 1, n - i - 1))
			return false;
		if (*p == '.' && prev == '/') {
			size_t dots = i + 1 < n && p[1] == '.' ? 2 : 1;

			if (i + dots == n || p[dots] == '/')
				return false;
		}
	}
	return true;
}

static bool path_begins(const char *path, const char *prefix)
{
	size_t n = strlen(prefix);

	if (strncmp(path, prefix, n) != 0)
		return false;
	return prefix[n - 1] == '/' || !path[n] || path[n] == '/' || path[n] == '?';
}

static bool request_matches(const struct cbx_net_rule *r, const struct cbx_net_target *t)
{
	bool method = !r->nmethods, path = !r->npaths;

	/* A secret goes into a request, and where all can read it only if the rule says so. */
	if (r->nsecrets && (!t->method || !t->path || (!t->tls && !r->plain)))
		return false;
	if (method && path)
		return true;
	if (!t->method || !t->path || t->overrides)
		return false;
	for (size_t i = 0; i < r->nmethods && !method; i++)
		method = strcmp(r->methods[i], t->method) == 0;
	for (size_t i = 0; i < r->npaths && !path; i++)
		path = path_plain(t->path) && path_begins(t->path, r->paths[i]);
	return method && path;
}

static bool address_allowed(const struct cbx_net_rule *r, const struct cbx_ip *ip)
{
	if (r->kind == CBX_NET_ADDRESS)
		return cbx_ip_range_has(&r->range, ip);
	for (size_t i = 0; i < r->naddresses; i++)
		if (cbx_ip_range_has(&r->addresses[i], ip))
			return true;
	return !cbx_ip_special(ip);
}

bool cbx_network_knows(const struct cbx_network *net, const struct cbx_net_target *t)
{
	for (size_t i = 0; net->allow && i < net->n; i++)
		if (host_matches(&net->rules[i], t->host) && has_port(&net->rules[i], t->port))
			return true;
	return false;
}

bool cbx_network_adds(const struct cbx_network *net)
{
	for (size_t i = 0; net->allow && i < net->n; i++)
		if (net->rules[i].nsecrets)
			return true;
	return false;
}

bool cbx_network_opens(const struct cbx_network *net, const struct cbx_net_target *t)
{
	for (size_t i = 0; net->allow && i < net->n; i++)
		if (net->rules[i].nsecrets && host_matches(&net->rules[i], t->host) &&
		    has_port(&net->rules[i], t->port))
			return true;
	return false;
}

const struct cbx_net_rule *cbx_network_allows(const struct cbx_network *net, const struct cbx_net_target *t,
					      const struct cbx_ip *ip)
{
	const struct cbx_net_rule *found = NULL;

	/* One that adds something comes before those that add nothing: it does so to each request that it is for. */
	for (size_t i = 0; net->allow && i < net->n; i++) {
		const struct cbx_net_rule *r = &net->rules[i];

		if ((found && !r->nsecrets) || !host_matches(r, t->host) || !has_port(r, t->port) ||
		    !request_matches(r, t) || (ip && !address_allowed(r, ip)))
			continue;
		if (r->nsecrets)
			return r;
		found = r;
	}
	return found;
}

/* ---- narrowing ---- */

static char **texts_copy(char *const *all, size_t n)
{
	char **out = n ? cbx_xcalloc(n, sizeof(*out)) : NULL;

	for (size_t i = 0; i < n; i++)
		out[i] = cbx_xstrdup(all[i]);
	return out;
}

static void *array_copy(const void *p, size_t n, size_t size)
{
	void *out = n ? cbx_xcalloc(n, size) : NULL;

	return out ? memcpy(out, p, n * size) : NULL;
}

static struct cbx_net_rule rule_copy(const struct cbx_net_rule *r)
{
	struct cbx_net_rule c = *r;

	c.host = cbx_xstrdup(r->host);
	c.ports = array_copy(r->ports, r->nports, sizeof(*r->ports));
	c.methods = texts_copy(r->methods, r->nmethods);
	c.paths = texts_copy(r->paths, r->npaths);
	c.addresses = array_copy(r->addresses, r->naddresses, sizeof(*r->addresses));
	cbx_net_secrets_copy(&c, r);
	return c;
}

void cbx_network_copy(struct cbx_network *to, const struct cbx_network *from)
{
	*to = *from;
	to->rules = from->n ? cbx_xcalloc(from->n, sizeof(*to->rules)) : NULL;
	for (size_t i = 0; i < from->n; i++)
		to->rules[i] = rule_copy(&from->rules[i]);
}

/* The rule whose hosts are those that both are about; NULL: there are none. */
static const struct cbx_net_rule *narrower(const struct cbx_net_rule *a, const struct cbx_net_rule *b)
{
	if (a->kind == CBX_NET_ANY || b->kind == CBX_NET_ANY)
		return a->kind == CBX_NET_ANY ? b : a;
	if ((a->kind == CBX_NET_ADDRESS) != (b->kind == CBX_NET_ADDRESS))
		return NULL;
	if (a->kind == CBX_NET_ADDRESS) {
		const struct cbx_ip_range *r = cbx_ip_range_both(&a->range, &b->range);

		return !r ? NULL : r == &a->range ? a : b;
	}
	if (strcmp(a->host, b->host) == 0)
		return a;
	/* "*.b.c" is below "*.c", and "a.c" too; the star is a character that no name has. */
	if (b->kind == CBX_NET_SUFFIX && below(a->host, b->host + 1))
		return a;
	return a->kind == CBX_NET_SUFFIX && below(b->host, a->host + 1) ? b : NULL;
}

/* "*" is about public addresses only: it does not name those that are not, nor a range that may have some. */
static bool within_any(const struct cbx_net_rule *r)
{
	return r->kind != CBX_NET_ADDRESS ||
	       (r->range.bits == (r->range.ip.v6 ? 128 : 32) && !cbx_ip_special(&r->range.ip));
}

static void push_address(struct cbx_net_rule *r, const struct cbx_ip_range *range)
{
	r->addresses = cbx_xrealloc(r->addresses, (r->naddresses + 1) * sizeof(*r->addresses));
	r->addresses[r->naddresses++] = *range;
}

static void push_text(char ***all, size_t *n, const char *s)
{
	*all = cbx_xrealloc(*all, (*n + 1) * sizeof(**all));
	(*all)[(*n)++] = cbx_xstrdup(s);
}

static const char *longer_path(const char *a, const char *b)
{
	return path_begins(a, b) ? a : path_begins(b, a) ? b : NULL;
}

static const char *same_text(const char *a, const char *b)
{
	return strcmp(a, b) == 0 ? a : NULL;
}

/* No text is all texts; two lists with nothing in common are a rule that allows nothing. */
static bool narrow_texts(char *const *a, size_t na, char *const *b, size_t nb,
			 const char *(*both)(const char *, const char *), char ***all, size_t *n)
{
	if (!na || !nb) {
		*all = na ? texts_copy(a, na) : texts_copy(b, nb);
		*n = na ? na : nb;
		return true;
	}
	for (size_t i = 0; i < na; i++)
		for (size_t k = 0; k < nb && *n < CBX_NETWORK_LIST_MAX; k++) {
			const char *s = both(a[i], b[k]);

			if (s)
				push_text(all, n, s);
		}
	return *n;
}

static void narrow_addresses(struct cbx_net_rule *r, const struct cbx_net_rule *a, const struct cbx_net_rule *b)
{
	for (size_t i = 0; i < a->naddresses; i++)
		for (size_t k = 0; k < b->naddresses && r->naddresses < CBX_NETWORK_LIST_MAX; k++) {
			const struct cbx_ip_range *both = cbx_ip_range_both(&a->addresses[i], &b->addresses[k]);

			if (both)
				push_address(r, both);
		}
}

static bool narrow_rule(struct cbx_net_rule *ret, const struct cbx_net_rule *a, const struct cbx_net_rule *b)
{
	const struct cbx_net_rule *hosts = narrower(a, b);
	bool some;

	if (!hosts || ((a->kind == CBX_NET_ANY || b->kind == CBX_NET_ANY) && !within_any(hosts)))
		return false;
	/* One lets requests out with a secret and the other without: there is none that both let out. */
	if (!cbx_net_secrets_equal(a, b))
		return false;
	*ret = (struct cbx_net_rule){ .kind = hosts->kind, .host = cbx_xstrdup(hosts->host), .range = hosts->range };
	for (size_t i = 0; i < a->nports; i++)
		if (has_port(b, a->ports[i])) {
			ret->ports = cbx_xrealloc(ret->ports, (ret->nports + 1) * sizeof(*ret->ports));
			ret->ports[ret->nports++] = a->ports[i];
		}
	some = narrow_texts(a->methods, a->nmethods, b->methods, b->nmethods, same_text, &ret->methods, &ret->nmethods);
	some = narrow_texts(a->paths, a->npaths, b->paths, b->npaths, longer_path, &ret->paths, &ret->npaths) && some;
	narrow_addresses(ret, a, b);
	cbx_net_secrets_copy(ret, a);
	ret->plain = a->plain && b->plain;
	return some && ret->nports;
}

/* What is open is public, to requests without secrets. */
static void narrow_open(struct cbx_network *ret, const struct cbx_network *rules)
{
	size_t kept = 0;

	cbx_network_copy(ret, rules);
	for (size_t i = 0; i < ret->n; i++) {
		struct cbx_network one = { .rules = cbx_xcalloc(1, sizeof(*one.rules)), .n = 1 };

		one.rules[0] = ret->rules[i];
		if (within_any(&one.rules[0]) && !one.rules[0].nsecrets) {
			free(take_ptr(&one.rules[0].addresses));
			one.rules[0].naddresses = 0;
			ret->rules[kept++] = one.rules[0];
			memset(&one.rules[0], 0, sizeof(one.rules[0]));
		}
		cbx_network_release(&one);
	}
	ret->n = kept;
}

void cbx_network_narrow(struct cbx_network *ret, const struct cbx_network *a, const struct cbx_network *b)
{
	memset(ret, 0, sizeof(*ret));
	ret->open = a->open && b->open;
	if (a->open != b->open)
		narrow_open(ret, a->open ? b : a);
	if (!a->allow || !b->allow)
		return;
	ret->allow = true;
	ret->connections = a->connections < b->connections ? a->connections : b->connections;
	ret->bytes = !a->bytes || (b->bytes && b->bytes < a->bytes) ? b->bytes : a->bytes;
	ret->time_ms = a->time_ms < b->time_ms ? a->time_ms : b->time_ms;
	for (size_t i = 0; i < a->n; i++)
		for (size_t k = 0; k < b->n && ret->n < CBX_NETWORK_RULES_MAX; k++) {
			struct cbx_network one = { .rules = cbx_xcalloc(1, sizeof(*one.rules)), .n = 1 };

			if (narrow_rule(&one.rules[0], &a->rules[i], &b->rules[k])) {
				ret->rules = cbx_xrealloc(ret->rules, (ret->n + 1) * sizeof(*ret->rules));
				ret->rules[ret->n++] = one.rules[0];
				memset(&one.rules[0], 0, sizeof(one.rules[0]));
			}
			cbx_network_release(&one);
		}
}
