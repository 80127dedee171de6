/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of the store: what daemons that were killed have left, and what sessions and installations have no use
 * for any more. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/remove.h"
#include "base/str.h"
#include "installer/installer.h"
#include "packages/job.h"

#define TOKEN 26

/* Empty a directory, which stays: the supervisor has a mount of it. */
static int empty(int dir, const char *name, struct cbx_err *err)
{
	_cleanup_closedir_ DIR *d = NULL;
	const struct dirent *e;
	int fd;

	if (mkdirat(dir, name, 0700) < 0 && errno != EEXIST)
		return cbx_fail(err, errno, "make %s", name);
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d)
		return cbx_fail(err, errno, "clear %s", name);
	while ((e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			(void)cbx_remove_tree(fd, e->d_name, CBX_REMOVE_MAX);
	return 0;
}

/* Of daemons that were killed, with what cleans up after them. */
static void remove_left(const struct cbx_store_dirs *store)
{
	int fd = openat(store->all, "d", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_closedir_ DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	while (d && (e = readdir(d))) {
		_cleanup_fd_ int dir = -1;

		if (e->d_name[0] == '.')
			continue;
		dir = openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (dir >= 0 && flock(dir, LOCK_EX | LOCK_NB) == 0)
			(void)cbx_remove_tree(fd, e->d_name, CBX_REMOVE_MAX);
	}
}

int cbx_store_prepare(const struct cbx_store_dirs *store, struct cbx_err *err)
{
	static const char *const all[] = { "w", "m", "c" };
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (mkdirat(store->all, all[i], 0700) < 0 && errno != EEXIST)
			return cbx_fail(err, errno, "make the store of packages");
	remove_left(store);
	r = empty(store->own, "t", err);
	return r < 0 ? r : empty(store->own, CBX_SESSIONS, err);
}

bool cbx_token_valid(const cJSON *v)
{
	return cJSON_IsString(v) && strlen(v->valuestring) == TOKEN && cbx_name_valid(v->valuestring);
}

int cbx_drop(const cJSON *job, const struct cbx_store_dirs *store, struct cbx_err *err)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, cbx_json_member(job, "tokens")) {
		char path[100];

		if (!cbx_token_valid(v))
			return cbx_refuse(err, "protocol", EINVAL, "a directory has an impossible name");
		snprintf(path, sizeof(path), CBX_SESSIONS "/%s", v->valuestring);
		(void)cbx_remove_tree(store->own, path, CBX_REMOVE_MAX);
	}
	return 0;
}

void cbx_install_undo(const cJSON *job, const struct cbx_store_dirs *store)
{
	const cJSON *token = cbx_json_member(job, "token");
	static const char *const places[] = { "t", CBX_SESSIONS };

	for (size_t i = 0; i < ARRAY_SIZE(places) && cbx_token_valid(token); i++) {
		char path[60];

		snprintf(path, sizeof(path), "%s/%s", places[i], token->valuestring);
		(void)cbx_remove_tree(store->own, path, CBX_REMOVE_MAX);
	}
}

int cbx_apart_begin(int (*fn)(void *arg, struct cbx_err *err), void *arg, struct cbx_apart *ret, struct cbx_err *err)
{
	struct cbx_err theirs = { 0 };
	int fds[2];

	*ret = (struct cbx_apart){ .pid = -1, .fd = -1 };
	if (pipe2(fds, O_CLOEXEC) < 0)
		return cbx_fail(err, errno, "make a pipe");
	ret->pid = fork();
	if (ret->pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (fn(arg, &theirs) >= 0)
			theirs.code = 0;
		(void)cbx_write_all(fds[1], &theirs, sizeof(theirs));
		_exit(0);
	}
	close(fds[1]);
	ret->fd = fds[0];
	if (ret->pid > 0)
		return 0;
	cbx_fail(err, errno, "fork");
	cbx_close_p(&ret->fd);
	return -err->code;
}

int cbx_apart_end(struct cbx_apart *p, struct cbx_err *err)
{
	struct cbx_err theirs;
	ssize_t n = cbx_read_full(p->fd, &theirs, sizeof(theirs));
	int status;

	cbx_close_p(&p->fd);
	while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (n != (ssize_t)sizeof(theirs))
		return cbx_refuse(err, "install_failed", ECHILD, "a process that installs ended without an answer");
	if (!theirs.code)
		return 0;
	*err = theirs;
	cbx_err_sanitize(err);
	return -err->code;
}

int cbx_apart(int (*fn)(void *arg, struct cbx_err *err), void *arg, struct cbx_err *err)
{
	struct cbx_apart p;
	int r = cbx_apart_begin(fn, arg, &p, err);

	return r < 0 ? r : cbx_apart_end(&p, err);
}
