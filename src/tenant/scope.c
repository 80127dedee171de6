/* SPDX-License-Identifier: Apache-2.0 */
/* The names of scopes. */
#include "tenant/scope.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

/* By the bits of enum cbx_scope. */
static const char *const scope_names[] = { "",	      "read",	      "run",	     "read,run",
					   "metrics", "read,metrics", "run,metrics", "read,run,metrics" };

static unsigned scope_of(const char *p, size_t n)
{
	for (unsigned bit = 1; bit < ARRAY_SIZE(scope_names); bit <<= 1)
		if (strlen(scope_names[bit]) == n && memcmp(p, scope_names[bit], n) == 0)
			return bit;
	return 0;
}

int cbx_scopes_parse(const char *text, unsigned *ret, struct cbx_err *err)
{
	const char *p = text;

	*ret = 0;
	for (;;) {
		size_t n = strcspn(p, ",");
		unsigned bit = scope_of(p, n);

		if (!bit || *ret & bit)
			return cbx_refuse(
				err, "invalid_argument", EINVAL,
				"scopes: \"%.40s\" is not read, run, metrics, or several of these, each once, "
				"such as read,run",
				text);
		*ret |= bit;
		if (!p[n])
			return 0;
		p += n + 1;
	}
}

const char *cbx_scopes_name(unsigned scopes)
{
	return scope_names[scopes & CBX_SCOPES_ALL];
}
