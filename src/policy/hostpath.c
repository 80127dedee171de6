/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/hostpath.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Below a home. project: programs keep other things under this name in a directory of work, which is not refused for
 * that. */
static const struct {
	const char *path; /* with "~/" before it */
	bool project;
} credentials[] = {
	{ "~/.ssh" },
	{ "~/.gnupg" },
	{ "~/.aws" },
	{ "~/.azure", true },
	{ "~/.config/gcloud" },
	{ "~/.config/gh" },
	{ "~/.config/rclone" },
	{ "~/.kube" },
	{ "~/.docker", true },
	{ "~/.netrc" },
	{ "~/.git-credentials" },
	{ "~/.npmrc", true },
	{ "~/.pypirc", true },
	{ "~/.password-store" },
	{ "~/.local/share/keyrings" },
	{ "~/.local/share/kwalletd" },
	{ "~/.mozilla" },
	{ "~/.thunderbird" },
	{ "~/.config/google-chrome" },
	{ "~/.config/chromium" },
	{ "~/.config/microsoft-edge" },
	{ "~/.config/BraveSoftware" },
	{ "~/.config/vivaldi" },
	{ "~/.config/opera" },
	{ "~/snap/firefox" },
	{ "~/snap/chromium" },
	{ "~/.var/app/org.mozilla.firefox" },
	{ "~/.var/app/com.google.Chrome" },
};

/* "/.ssh" as whole parts somewhere in the path. */
static bool has_parts(const char *path, const char *parts)
{
	size_t n = strlen(parts);

	for (const char *p = strstr(path, parts); p; p = strstr(p + 1, parts))
		if (!p[n] || p[n] == '/')
			return true;
	return false;
}

/* Where `parts` ("/.config/gcloud") would be if the directory were a home, or a directory of one on the way to it. */
static bool holds(const char *path, const char *parts, bool (*there)(void *arg, const char *path), void *arg)
{
	for (const char *rest = parts; rest; rest = strchr(rest + 1, '/')) {
		_cleanup_free_ char *begin = strndup(parts, (size_t)(rest - parts));
		_cleanup_free_ char *whole = cbx_xasprintf("%s%s", path, rest);

		if (begin && cbx_ends_with(path, begin) && there(arg, whole))
			return true;
	}
	return false;
}

const char *cbx_hostpath_credentials(const char *path, bool (*there)(void *arg, const char *path), void *arg)
{
	static const char *const homes[] = { "/home", "/root" };

	for (size_t i = 0; i < ARRAY_SIZE(homes); i++)
		if (cbx_path_within(homes[i], path))
			return homes[i];
	for (size_t i = 0; i < ARRAY_SIZE(credentials); i++)
		if (has_parts(path, credentials[i].path + 1) ||
		    (!credentials[i].project && holds(path, credentials[i].path + 1, there, arg)))
			return credentials[i].path;
	return NULL;
}
