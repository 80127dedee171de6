/* SPDX-License-Identifier: Apache-2.0 */
#include "sql/rights.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

/* EXECUTE is not among them: a procedure may do what its owner may. */
static bool only_reads(const char *name, size_t n)
{
	static const char *const names[] = { "SELECT",
					     "SELECT ALL USER SECURABLES",
					     "CONNECT",
					     "CONNECT SQL",
					     "CONNECT ANY DATABASE",
					     "CONNECT REPLICATION",
					     "REFERENCES",
					     "SHOWPLAN",
					     "UNMASK" };

	if (n > 5 && strncasecmp(name, "VIEW ", 5) == 0) /* what there is */
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strlen(names[i]) == n && strncasecmp(names[i], name, n) == 0)
			return true;
	return false;
}

bool cbx_sql_rights_write(const char *permissions, char *which, size_t size)
{
	for (const char *p = permissions; *p;) {
		size_t n = strcspn(p, "\r\n"), end = n;

		while (end && p[end - 1] == ' ')
			end--;
		if (end && !only_reads(p, end)) {
			snprintf(which, size, "%.*s", (int)(end < size ? end : size), p);
			return true;
		}
		p += n;
		p += strspn(p, "\r\n");
	}
	return false;
}
