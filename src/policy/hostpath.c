/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/hostpath.h"

#include "base/cleanup.h"
#include "base/str.h"

const char *cbx_hostpath_refused(const char *path)
{
	/* The kernel's own file systems; sockets of the machine's services; accounts, keys and the machine's
	 * configuration. */
	static const char *const never[] = { "/proc", "/sys", "/dev", "/run", "/var/run", "/etc" };

	for (size_t i = 0; i < ARRAY_SIZE(never); i++)
		if (cbx_path_within(path, never[i]) || cbx_path_within(never[i], path))
			return never[i];
	return NULL;
}
