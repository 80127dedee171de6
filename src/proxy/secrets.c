/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codeboxd reads secrets when it reads the policy, and sends this process those that its own rules
 * name, no others. One is then in requests that go out, and not in the log, in what is reported, or in another process.
 *
 * An answer that shows one is overwritten there. What is held back meanwhile, because it may be the beginning of one,
 * must not depend on the secret: whoever has a server repeat a guess would see by the delay how much of it is right. So
 * it is whatever could be part of a token, up to the length of the longest.
 */
#include "proxy/secrets.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "proxy/protocol.h"

/* Of one line, without spaces: by that it differs from what answers show. */
static const char *unfit(const char *value)
{
	size_t n = strlen(value);

	for (size_t i = 0; i < n; i++)
		if (value[i] <= ' ' || value[i] > '~')
			return "it has spaces or what is not printable ASCII, which a token has not";
	return n < CBX_TOKEN_MIN ? "it is shorter than 8 characters" : NULL;
}

static void add_one(struct secrets *all, const struct cbx_net_rule *rule, const struct cbx_net_secret *from, char kind,
		    const char *text)
{
	const char *why = kind == CBX_PROXY_SECRET_WHY ? text : unfit(text), *at = strstr(from->value, "{}");
	struct secret *s;

	all->all = cbx_xrealloc(all->all, (all->n + 1) * sizeof(*all->all));
	s = &all->all[all->n++];
	*s = (struct secret){ .rule = rule, .added.name = from->header };
	if (why) {
		s->why = cbx_xasprintf("%s: %s", from->place.name, why);
		return;
	}
	s->value = cbx_xstrdup(text);
	s->added.line = cbx_xasprintf("%s: %.*s%s%s", from->header, (int)(at - from->value), from->value, text, at + 2);
	if (strlen(text) > all->longest)
		all->longest = strlen(text);
}

bool secrets_take(const struct cbx_network *net, const char *p, size_t n, struct secrets *ret)
{
	const char *end = p + n;

	for (size_t i = 0; i < net->n; i++)
		for (size_t k = 0; k < net->rules[i].nsecrets; k++) {
			const char *stop = p < end ? memchr(p, '\0', (size_t)(end - p)) : NULL;

			if (!stop || (*p != CBX_PROXY_SECRET_VALUE && *p != CBX_PROXY_SECRET_WHY))
				return false;
			add_one(ret, &net->rules[i], &net->rules[i].secrets[k], *p, p + 1);
			p = stop + 1;
		}
	return p == end;
}

size_t secrets_added(const struct secrets *all, const struct cbx_net_rule *rule, struct cbx_added *ret,
		     const char **ret_why)
{
	size_t n = 0;

	*ret_why = NULL;
	for (size_t i = 0; i < all->n && n < CBX_NETWORK_SECRETS_MAX; i++) {
		if (all->all[i].rule != rule)
			continue;
		ret[n++] = all->all[i].added;
		if (!*ret_why)
			*ret_why = all->all[i].why;
	}
	return n;
}

static void hide_one(const char *value, char *p, size_t n)
{
	size_t len = strlen(value);
	char *at;

	while (n >= len && (at = memmem(p, n, value, len))) {
		memset(at, '*', len);
		n -= (size_t)(at + len - p);
		p = at + len;
	}
}

size_t secrets_hide(const struct secrets *all, char *p, size_t n, bool end)
{
	size_t keep = 0;

	for (size_t i = 0; i < all->n; i++)
		if (all->all[i].value)
			hide_one(all->all[i].value, p, n);
	while (!end && keep < n && keep + 1 < all->longest && p[n - keep - 1] > ' ' && p[n - keep - 1] <= '~')
		keep++;
	return n - keep;
}
