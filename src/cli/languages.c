/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/languages.h"

#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"

static const struct cbx_language all[] = {
	{ "python", "Python", "text/x-python", ".py", "ipython3", "{\"name\":\"ipython\",\"version\":3}" },
	{ "javascript", "JavaScript", "text/javascript", ".js", "javascript", "\"javascript\"" },
	{ "bash", "Bash", "text/x-sh", ".sh", "bash", "\"shell\"" },
	{ "typescript", "TypeScript", "text/typescript", ".ts", "typescript",
	  "{\"name\":\"javascript\",\"typescript\":true}" },
};

const struct cbx_language *cbx_language_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (strcmp(all[i].name, name) == 0)
			return &all[i];
	return NULL;
}

const char *cbx_language_own(unsigned n)
{
	return n < 3 ? all[n].name : NULL;
}
