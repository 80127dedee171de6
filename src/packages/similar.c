/* SPDX-License-Identifier: Apache-2.0 */
#include "packages/similar.h"

#include <stdio.h>
#include <string.h>

#include "packages/version.h"

#define SHORT 3

/* Optimal string alignment: at most one edit. */
static bool one_edit(const char *a, const char *b)
{
	size_t i = 0;

	while (a[i] && a[i] == b[i])
		i++;
	if (!a[i] && !b[i])
		return false; /* they are the same */
	a += i;
	b += i;
	return (a[0] && b[0] && strcmp(a + 1, b + 1) == 0) || (a[0] && strcmp(a + 1, b) == 0) ||
	       (b[0] && strcmp(a, b + 1) == 0) ||
	       (a[0] && b[0] && a[0] == b[1] && a[1] == b[0] && strcmp(a + 2, b + 2) == 0);
}

static bool same_joined(const char *a, const char *b)
{
	for (;; a++, b++) {
		a += *a == '-';
		b += *b == '-';
		if (*a != *b || !*a)
			return *a == *b;
	}
}

static bool swapped_words(const char *a, const char *b)
{
	size_t n = strcspn(a, "-"), len = strlen(a);

	return a[n] && strlen(b) == len && strncmp(b, a + n + 1, len - n - 1) == 0 && b[len - n - 1] == '-' &&
	       strcmp(b + len - n, "") != 0 && strncmp(b + len - n, a, n) == 0;
}

bool cbx_names_similar(const char *name, const char *popular)
{
	return strlen(popular) > SHORT && strcmp(name, popular) != 0 &&
	       (one_edit(name, popular) || same_joined(name, popular) || swapped_words(name, popular));
}

const char *cbx_similar_find(const char *list, const char *name, size_t *ret_n)
{
	const char *found = NULL;

	for (const char *p = list; *p; p += *p == '\n') {
		char one[CBX_PROJECT_MAX];
		size_t n = strcspn(p, "\n"), len = strcspn(p, "#\n \t\r");

		if (len && len < sizeof(one)) {
			snprintf(one, sizeof(one), "%.*s", (int)len, p);
			if (strcmp(one, name) == 0)
				return NULL;
			if (!found && cbx_names_similar(name, one)) {
				found = p;
				*ret_n = len;
			}
		}
		p += n;
	}
	return found;
}
