/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the store is beside the images, since sessions have its files by hard links. Daemons that share it
 * (a user may run several, each with a run-time directory of its own) have a directory each for what is theirs alone,
 * which is locked for as long as they are there. What the supervisor has a mount of is made before that starts, and
 * stays: see src/installer/installer.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "daemon/daemon.h"

static char *own_name(void)
{
	char name[13];

	cbx_random_name(name, 12);
	return cbx_xasprintf("d/%s", name);
}

/* One that sandboxes see, whose ids may be others. */
static int make_shown(const struct cbx_service *s, const char *path, mode_t mode, struct cbx_err *err)
{
	struct stat st;

	if (mkdir(path, mode) == 0 && s->from_root && lchown(path, s->uid, s->gid) < 0)
		return cbx_fail(err, errno, "give %s to user %u", path, (unsigned)s->uid);
	if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != s->uid)
		return cbx_refuse(err, "unsafe_directory", EINVAL, "%s is not a directory of user %u; remove it", path,
				  (unsigned)s->uid);
	if (chmod(path, mode) < 0)
		return cbx_fail(err, errno, "make %s", path);
	return 0;
}

static int lock(const char *path, int *ret, struct cbx_err *err)
{
	*ret = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return *ret < 0 || flock(*ret, LOCK_EX | LOCK_NB) < 0 ? cbx_fail(err, errno, "lock %s", path) : 0;
}

void cbx_daemon_make_store(struct cbx_daemon *d)
{
	_cleanup_free_ char *store = cbx_xasprintf("%s/packages", d->dirs.data), *own = own_name();
	_cleanup_free_ char *all = cbx_xasprintf("%s/d", store), *mine = cbx_xasprintf("%s/%s", store, own);
	_cleanup_free_ char *sessions = cbx_xasprintf("%s/s", mine);
	struct cbx_err err;

	/* As root, root's group gets in as it does to the images: the supervisor opens what it mounts with that alone. */
	if (cbx_service_make_dir(&d->service, store, 0700, &err) < 0 || cbx_service_make_dir(&d->service, all, 0700, &err) < 0 ||
	    cbx_service_make_dir(&d->service, mine, 0700, &err) < 0 || make_shown(&d->service, sessions, 0755, &err) < 0 ||
	    lock(mine, &d->packages.lock, &err) < 0) {
		cbx_warn("no packages can be installed: %s", err.msg);
		return;
	}
	d->packages.store = take_ptr(&store);
	d->packages.own = take_ptr(&own);
	d->packages.sessions = take_ptr(&sessions);
}

void cbx_daemon_release_store(struct cbx_daemon *d)
{
	free(take_ptr(&d->packages.store));
	free(take_ptr(&d->packages.own));
	free(take_ptr(&d->packages.sessions));
	cbx_close_p(&d->packages.lock);
}
