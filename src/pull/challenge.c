/* SPDX-License-Identifier: Apache-2.0 */
/* What a registry says in www-authenticate. Hostile: nothing is taken that is longer than the room for it. */
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "pull/registry.h"

bool cbx_challenge_has(const char *challenge, const char *scheme)
{
	size_t n = strlen(scheme);

	challenge += strspn(challenge, " \t");
	return strncasecmp(challenge, scheme, n) == 0 && (!challenge[n] || strchr(" \t", challenge[n]));
}

/* One parameter at p; *ret_name points at its name, and what is returned is behind it. NULL: there is none. */
static const char *parameter(const char *p, const char **ret_name, size_t *ret_n, char *out, size_t size)
{
	size_t len = 0;
	bool quoted;

	p += strspn(p, " \t,");
	*ret_name = p;
	*ret_n = strcspn(p, "=, \t\"");
	p += *ret_n;
	if (*p++ != '=' || !*ret_n)
		return NULL;
	quoted = *p == '"';
	for (p += quoted; *p && (quoted ? *p != '"' : !strchr(", \t", *p)); p++) {
		if (quoted && *p == '\\' && p[1])
			p++;
		if (len + 1 >= size)
			return NULL;
		out[len++] = *p;
	}
	out[len] = '\0';
	return quoted && *p++ != '"' ? NULL : p;
}

bool cbx_challenge_value(const char *challenge, const char *name, char *out, size_t size)
{
	const char *p = challenge + strspn(challenge, " \t"), *found;
	size_t n;

	p += strcspn(p, " \t");
	while (*p && (p = parameter(p, &found, &n, out, size)))
		if (n == strlen(name) && strncasecmp(found, name, n) == 0)
			return cbx_plain(out);
	return false;
}
