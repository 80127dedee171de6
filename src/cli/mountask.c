/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codeboxd has judged the request, and reads the file anew when it is asked again. The question is
 * about the directory as the command line resolved it, without links; that is what the file has to say. The answer is
 * read byte by byte: what was typed ahead belongs to the prompt that may come.
 */
#include "cli/mountask.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "base/dirs.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/cli.h"
#include "policy/hostpath.h"
#include "policy/policy.h"

/* The mount that the refusal names. */
static const cJSON *refused(const cJSON *mounts, const struct cbx_err *err)
{
	const cJSON *m;

	cJSON_ArrayForEach(m, mounts) {
		_cleanup_free_ char *begin = cbx_xasprintf("mounts: %s is not in ", cbx_json_str(m, "source"));

		if (strncmp(err->msg, begin, strlen(begin)) == 0)
			return m;
	}
	return NULL;
}

static bool is_there(void *arg, const char *path)
{
	return access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR && errno != EACCES);
}

/* codebox's own directories are never shown, whatever the file says; so no question is needed. */
static bool never_shown(const struct cbx_dirs *dirs, const char *path)
{
	const char *const own[] = { dirs->runtime, dirs->data,	  dirs->images, dirs->state,
				    dirs->config,  dirs->libexec, dirs->share };
	const char *never = cbx_hostpath_refused(path);

	for (size_t i = 0; !never && i < ARRAY_SIZE(own); i++) {
		_cleanup_free_ char *real = realpath(own[i], NULL);

		if (cbx_path_within(path, real ? real : own[i]) || cbx_path_within(real ? real : own[i], path))
			never = own[i];
	}
	if (!never)
		never = cbx_hostpath_credentials(path, is_there, NULL);
	if (never)
		cbx_cli_say("%s is, holds or is in %s, which is never shown in a sandbox; choose a directory beside it",
			    path, never);
	return never;
}

/* False without an answer, too. */
static bool says_yes(int sigfd)
{
	struct pollfd p[2] = { { STDIN_FILENO, POLLIN, 0 }, { sigfd, POLLIN, 0 } };
	bool yes = false, first = true;
	char c = '\0';

	while (poll(p, 2, -1) > 0 || errno == EINTR) {
		if (p[1].revents || (p[0].revents && read(STDIN_FILENO, &c, 1) != 1)) {
			(void)!write(STDERR_FILENO, "\n", 1);
			return false;
		}
		if (!p[0].revents)
			continue;
		if (c == '\n')
			return yes;
		if (first)
			yes = c == 'y' || c == 'Y';
		first = first && (c == ' ' || c == '\t');
	}
	return false;
}

static int replace_file(const char *path, const struct cbx_buf *text, struct cbx_err *err)
{
	_cleanup_free_ char *new = cbx_xasprintf("%s.%d", path, (int)getpid());
	_cleanup_fd_ int fd = open(new, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r;

	if (fd < 0)
		return cbx_fail(err, errno, "make %s", new);
	r = cbx_write_all(fd, text->data, text->len);
	if (r >= 0)
		r = fsync(fd) < 0 || rename(new, path) < 0 ? -errno : 0;
	if (r >= 0)
		return 0;
	unlink(new);
	return cbx_fail(err, -r, "write %s", path);
}

static bool ask(const char *dir, bool writable, const char *path, const struct cbx_buf *text, int sigfd)
{
	_cleanup_buf_ struct cbx_buf shown = { 0 };
	struct cbx_err err;

	if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
		cbx_cli_say("to let sessions %s %s, write this into %s:", writable ? "read and change" : "read", dir, path);
		fputs(text->data, stderr);
		return false;
	}
	cbx_escape(&shown, dir);
	fprintf(stderr, "Let sessions %s %s? [y/N] ", writable ? "read and change" : "read", shown.data);
	fflush(stderr);
	if (!says_yes(sigfd))
		return false;
	if (replace_file(path, text, &err) < 0) {
		cbx_cli_say("%s", err.msg);
		return false;
	}
	cbx_cli_say("remembered in %s", path);
	return true;
}

bool cbx_mount_ask(const cJSON *mounts, int sigfd, const struct cbx_err *err)
{
	const cJSON *m = strcmp(err->kind, "mount_not_allowed") == 0 ? refused(mounts, err) : NULL;
	_cleanup_buf_ struct cbx_buf text = { 0 };
	_cleanup_free_ char *path = NULL;
	struct cbx_policy *have = NULL;
	struct cbx_dirs dirs;
	struct cbx_err own;
	bool yes = false, writable;

	if (!m || cbx_dirs_init(&dirs, &own) < 0)
		return false;
	writable = cJSON_IsTrue(cbx_json_member(m, "writable"));
	path = cbx_granted_path(dirs.config, "");
	if (never_shown(&dirs, cbx_json_str(m, "source"))) {
		yes = false;
	} else if (cbx_granted_load(path, &have, &own) < 0 || cbx_dirs_make_private(dirs.config, 0700, &own) < 0) {
		cbx_cli_say("%s", own.msg);
	} else {
		cbx_granted_text(have, cbx_json_str(m, "source"), writable, &text);
		yes = ask(cbx_json_str(m, "source"), writable, path, &text, sigfd);
	}
	cbx_policy_free(have);
	cbx_dirs_release(&dirs);
	return yes;
}

/* Whether sessions may change it already. */
static bool allows(const struct cbx_policy *p, const char *dir)
{
	for (size_t i = 0; p && i < p->nmounts; i++)
		if (p->mounts[i].writable && cbx_path_within(dir, p->mounts[i].path))
			return true;
	return false;
}

static int remember(const struct cbx_dirs *dirs, const char *path, const char *dir, bool dry, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	struct cbx_policy *have = NULL;
	int r = cbx_granted_load(path, &have, err);

	if (r >= 0 && !allows(have, dir)) {
		cbx_granted_text(have, dir, true, &text);
		if (!dry)
			r = cbx_dirs_make_private(dirs->config, 0700, err);
		if (r >= 0 && !dry)
			r = replace_file(path, &text, err);
		if (r >= 0)
			cbx_cli_say("sessions %s read and change %s, by %s", dry ? "would be allowed to" : "may now", dir,
				    path);
	}
	cbx_policy_free(have);
	return r;
}

/* As codeboxd does it (daemon/policy.c): another's policy is not the user's to widen, nor is that of root. */
int cbx_mount_allow(const char *dir, bool dry)
{
	const char *asked = getenv("CODEBOX_POLICY");
	_cleanup_free_ char *which = NULL, *path = NULL;
	struct cbx_policy *p = NULL;
	struct cbx_dirs dirs;
	struct cbx_err err = { 0 };
	int status = CBX_EXIT_OK;

	if (cbx_dirs_init(&dirs, &err) < 0)
		return cbx_cli_fail(&err);
	asked = asked && asked[0] ? asked : NULL;
	which = asked ? cbx_xstrdup(asked) : cbx_policy_standard(dirs.config);
	path = asked || geteuid() == 0 ? NULL : cbx_granted_path(dirs.config, which);
	if (never_shown(&dirs, dir)) {
		status = CBX_EXIT_FAILURE;
	} else if (cbx_policy_load(dirs.share, which, &p, &err) < 0) {
		status = cbx_cli_fail(&err);
	} else if (!allows(p, dir) && !path) {
		cbx_cli_say("sessions may not change %s, and the policy %s is not a user's to widen: nothing was "
			    "registered. Ask whoever keeps the policy to add {\"path\": \"%s\", \"writable\": true} to "
			    "the list \"allow\" of "
			    "\"mounts\" (codebox-policy(5)) and to run codebox policy reload",
			    dir, which, dir);
		status = CBX_EXIT_FAILURE;
	} else if (!allows(p, dir) && remember(&dirs, path, dir, dry, &err) < 0) {
		status = cbx_cli_fail(&err);
	}
	cbx_policy_free(p);
	cbx_dirs_release(&dirs);
	return status;
}
