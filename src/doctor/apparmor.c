/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/apparmor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"

#define IN_FORCE CBX_LABEL_IN_FORCE

static bool restricts(const char *root)
{
	char path[300], enabled[8];
	long long v;

	snprintf(path, sizeof(path), "%.200s/proc/sys/kernel/apparmor_restrict_unprivileged_userns", root);
	if (!cbx_read_number(path, &v) || v != 1)
		return false;
	/* Built into the kernel but switched off at boot, it has the sysctl all the same. */
	snprintf(path, sizeof(path), "%.200s/sys/module/apparmor/parameters/enabled", root);
	return cbx_read_line(AT_FDCWD, path, enabled, sizeof(enabled)) < 0 || enabled[0] != 'N';
}

/* The commands that load what packaging/apparmor/codebox.in became. */
static void load_profile(char *out, size_t size)
{
	const char *copy = "sudo cp " CBX_APPARMOR_PROFILE " /etc/apparmor.d/codebox && ";

	if (strcmp(CBX_APPARMOR_PROFILE, "/etc/apparmor.d/codebox") == 0)
		copy = "";
	snprintf(out, size, "%ssudo apparmor_parser -r /etc/apparmor.d/codebox", copy);
}

bool cbx_apparmor_explains(const char *root, const char *label, const char *what, int code, struct cbx_result *r)
{
	bool confined = cbx_ends_with(label, IN_FORCE);
	int len = (int)(strlen(label) - (confined ? strlen(IN_FORCE) : 0));
	char found[256], load[400], fix[560];

	if (code != EPERM && code != EACCES)
		return false;
	load_profile(load, sizeof(load));
	if (confined && !cbx_starts_with(label, CBX_LABEL_RESTRICTED IN_FORCE)) {
		snprintf(found, sizeof(found), "the AppArmor profile %.*s, under which codebox runs, refuses %.60s: %s",
			 len > 60 ? 60 : len, label, what, strerror(code));
		snprintf(fix, sizeof(fix), "Allow capability, userns and mount in that profile, or load codebox's own: %s",
			 load);
		cbx_result_set(r, CBX_CHECK_FAILED, found, "Sandboxes cannot be made by programs under this profile.",
			       fix);
		return true;
	}
	if (!confined && !restricts(root))
		return false;
	snprintf(found, sizeof(found),
		 "AppArmor keeps user namespaces for programs with a profile, and refuses %.60s: %s", what, strerror(code));
	snprintf(fix, sizeof(fix), "Load codebox's AppArmor profile: %s", load);
	cbx_result_set(r, CBX_CHECK_FAILED, found,
		       "kernel.apparmor_restrict_unprivileged_userns is 1, as on Ubuntu 24.04: without a profile they "
		       "can be made but not used.",
		       fix);
	return true;
}
