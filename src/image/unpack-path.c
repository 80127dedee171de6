/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a name of an archive is taken apart into components and put together again from those that are
 * allowed. What comes out is relative and clean, so the kernel is never asked about anything else.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "image/image-limits.h"
#include "image/unpack.h"

static bool merged_component(const char *p, size_t n)
{
	static const char *const names[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32", "libo32" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strlen(names[i]) == n && memcmp(names[i], p, n) == 0)
			return true;
	return false;
}

static int bad(struct cbx_err *err, const char *name, const char *why)
{
	cbx_refuse(err, "unsafe_archive", EINVAL, "the archive's entry \"%.200s\" %s", name, why);
	cbx_err_sanitize(err);
	return -EINVAL;
}

int cbx_unpack_path(const char *name, bool merge_usr, char *out, struct cbx_err *err)
{
	size_t len = 0;
	int depth = 0;

	if (!cbx_plain(name))
		return bad(err, name, "has a control character in its name");
	if (name[0] == '/')
		return bad(err, name, "has an absolute name");
	for (const char *p = name; *p;) {
		size_t n = strcspn(p, "/");
		bool merge = merge_usr && depth == 0 && merged_component(p, n);

		if (n == 2 && p[0] == '.' && p[1] == '.')
			return bad(err, name, "leads upwards (\"..\")");
		if (n > CBX_UNPACK_NAME_MAX)
			return bad(err, name, "has a name that is too long");
		if (n && !(n == 1 && p[0] == '.')) {
			if (len + n + 6 > CBX_UNPACK_PATH_MAX)
				return bad(err, name, "has a path that is too long");
			if (++depth > CBX_UNPACK_DEPTH_MAX)
				return bad(err, name, "is nested too deeply");
			if (merge) {
				memcpy(out, "usr/", 4);
				len = 4;
				depth++;
			} else if (len) {
				out[len++] = '/';
			}
			memcpy(out + len, p, n);
			len += n;
		}
		p += n;
		while (*p == '/')
			p++;
	}
	out[len] = '\0';
	return len ? 0 : 1;
}
