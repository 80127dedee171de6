/* SPDX-License-Identifier: Apache-2.0 */
#include "box/entries.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "sandbox/init-protocol.h"

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

/* The one at *at; *at is then behind it. */
static bool parse_one(const char *p, size_t len, bool paths, size_t *at, struct cbx_file_entry *ret)
{
	struct cbx_init_entry e;
	const char *name = p + *at + sizeof(e);

	if (len - *at < sizeof(e))
		return false;
	memcpy(&e, p + *at, sizeof(e));
	if (e.entry_len > len - *at || e.entry_len % 8 || e.entry_len < sizeof(e) ||
	    e.name_len >= e.entry_len - sizeof(e) || e.name_len == 0)
		return false;
	if (memchr(name, '\0', e.name_len) || name[e.name_len])
		return false;
	if (paths ? !path_valid(name) : memchr(name, '/', e.name_len) != NULL)
		return false;
	*ret = (struct cbx_file_entry){ name, e.st.mode, e.st.size, e.st.mtime_ns };
	*at += e.entry_len;
	return true;
}

bool cbx_entries_parse(const char *p, size_t len, int64_t count, bool paths, struct cbx_file_entry **ret)
{
	_cleanup_free_ struct cbx_file_entry *all = NULL;
	size_t at = 0;

	*ret = NULL;
	if (count < 0 || (uint64_t)count > len / sizeof(struct cbx_init_entry))
		return false;
	if (count)
		all = cbx_xcalloc((size_t)count, sizeof(*all));
	for (int64_t i = 0; i < count; i++)
		if (!parse_one(p, len, paths, &at, &all[i]))
			return false;
	if (at != len)
		return false;
	*ret = take_ptr(&all);
	return true;
}
