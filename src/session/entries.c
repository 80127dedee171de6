/* SPDX-License-Identifier: Apache-2.0 */
/* The list of files that init answers with comes from inside the sandbox: nobody looks into it before it has passed
 * here. */
#include <string.h>

#include "session/internal.h"

/* Down from where it starts: no "..", no empty part, no '/' at an end. */
static bool path_valid(const char *p)
{
	for (;;) {
		size_t n = strcspn(p, "/");

		if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		if (!p[n])
			return true;
		p += n + 1;
	}
}

bool cbx_entries_valid(const char *p, size_t len, int64_t count, bool paths)
{
	size_t at = 0;

	for (int64_t i = 0; i < count; i++) {
		struct cbx_init_entry e;
		const char *name;

		if (len - at < sizeof(e))
			return false;
		memcpy(&e, p + at, sizeof(e));
		if (e.entry_len > len - at || e.entry_len % 8 || e.entry_len < sizeof(e) ||
		    e.name_len >= e.entry_len - sizeof(e) || e.name_len == 0)
			return false;
		name = p + at + sizeof(e);
		if (memchr(name, '\0', e.name_len) || name[e.name_len])
			return false;
		if (paths ? !path_valid(name) : memchr(name, '/', e.name_len) != NULL)
			return false;
		at += e.entry_len;
	}
	return at == len;
}
