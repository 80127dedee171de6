/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: which proxy a request goes by is decided here, by what the user has configured and the variables
 * that libcurl would read, and libcurl is given the answer: whoever judges the address that it connects to has to know
 * whose that is. A proxy is the user's choice, so it may be anywhere. What it connects to is nothing that can be seen
 * from here: names that mean a host of a private network, and addresses of one, are refused before the proxy hears of
 * them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "installer/index.h"
#include "policy/host.h"

/* Names that no public host has: RFC 6761, RFC 6762 (appendix G), RFC 8375, and ICANN's for private use. */
static const char *const private_names[] = { "localhost", "local", "internal", "home.arpa", "intranet",
					     "private",	  "corp",  "home",     "lan" };

static bool within(const char *name, const char *zone)
{
	size_t n = strlen(name), z = strlen(zone);

	return n >= z && strcmp(name + n - z, zone) == 0 && (n == z || name[n - z - 1] == '.');
}

static const char *variable(const char *lower, const char *upper)
{
	const char *v = getenv(lower);

	return v && v[0] ? v : upper && (v = getenv(upper)) && v[0] ? v : NULL;
}

/* One entry of no_proxy: a name and what is below it, an address, or a range of them; perhaps with a port. */
static bool entry_has(const char *p, size_t n, const struct cbx_host *host, uint16_t port)
{
	_cleanup_free_ char *text = NULL;
	struct cbx_ip_range range;
	struct cbx_host named;
	uint16_t only = 0;

	while (n && *p == '.') {
		p++;
		n--;
	}
	text = strndup(p, n);
	if (host->literal && text && !cbx_ip_range_parse(text, &range))
		return cbx_ip_range_has(&range, &host->ip);
	if (cbx_host_parse_port(p, n, &named, &only) || (only && only != port))
		return false;
	return host->literal || named.literal ? strcmp(named.name, host->name) == 0 : within(host->name, named.name);
}

static bool goes_directly(const char *list, const struct cbx_host *host, uint16_t port)
{
	if (!list)
		return false;
	for (const char *p = list; *p;) {
		size_t n = strcspn(p, ", \t");

		if ((n == 1 && *p == '*') || (n && host->name[0] && entry_has(p, n, host, port)))
			return true;
		p += n;
		p += strspn(p, ", \t");
	}
	return false;
}

/* HTTP_PROXY in capitals is what a server makes of a request's header "Proxy", so nobody reads it. */
static const char *chosen(const struct cbx_index *index, bool https)
{
	const char *v = index->proxy;

	if (!v)
		v = https ? variable("https_proxy", "HTTPS_PROXY") : variable("http_proxy", NULL);
	if (!v)
		v = variable("all_proxy", "ALL_PROXY");
	return v ? v : https ? index->https_proxy : index->http_proxy;
}

bool cbx_proxy_plain(const char *proxy)
{
	return !proxy || (cbx_plain(proxy) && !strchr(proxy, ' '));
}

int cbx_via_find(const struct cbx_index *index, const char *url, bool trusted, const char **ret, struct cbx_err *err)
{
	const char *p = strstr(url, "://"), *end = p ? p + 3 + strcspn(p + 3, "/?#") : NULL, *at, *why;
	bool https = cbx_starts_with(url, "https:");
	struct cbx_host host = { 0 };
	uint16_t port = https ? 443 : 80;

	*ret = chosen(index, https);
	if (!p || !*ret)
		return 0;
	at = memrchr(p + 3, '@', (size_t)(end - p - 3));
	p = at ? at + 1 : p + 3;
	why = cbx_host_parse_port(p, (size_t)(end - p), &host, &port);
	if (why)
		host = (struct cbx_host){ 0 };
	if (goes_directly(variable("no_proxy", "NO_PROXY"), &host, port) ||
	    goes_directly(index->no_proxy, &host, port)) {
		*ret = NULL;
		return 0;
	}
	if (trusted)
		return 0;
	if (!why && host.literal)
		why = cbx_ip_special(&host.ip);
	else if (!why && !strchr(host.name, '.'))
		why = "a name without a dot is one of a private network";
	for (size_t i = 0; i < ARRAY_SIZE(private_names) && !why; i++)
		if (within(host.name, private_names[i]))
			why = "such names are those of private networks";
	return why ? cbx_refuse(err, "index_refused", EPERM, "the index leads to %.*s, which is not a public host: %s",
				(int)(end - p < 253 ? end - p : 253), p, why)
		   : 0;
}
