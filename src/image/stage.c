/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: everything is relative to a descriptor of the store. One lock (flock on <images>/.lock) is held
 * for as long as something is written, so whatever has a name of the making (".…", "…-unfinished") while the lock is
 * ours was left by a process that was killed, and is removed. So are layers that no image names.
 *
 * Publishing syncs the file system first: after a power failure there is either no image or a whole one.
 */
#include "image/stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "image/layers.h"
#include "image/tree.h"

#define LOCK ".lock"
#define ASIDE "layers" /* beside "rootfs" */
#define RENAME_NOREPLACE_ 1u
#define RENAME_EXCHANGE_ 2u

static int held_lock = -1;

int cbx_stage_lock_fd(void)
{
	return held_lock;
}

static int rename_entry(int dir, const char *from, const char *to, unsigned flags)
{
	return syscall(SYS_renameat2, dir, from, dir, to, flags) < 0 ? -errno : 0;
}

static int remove_leftovers(const struct cbx_store *store, struct cbx_err *err)
{
	char **names;
	size_t n;
	int r = cbx_tree_names(store->dir, &names, &n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n && r == 0; i++) {
		if (strcmp(names[i], LOCK) == 0 || strcmp(names[i], CBX_LAYERS_STORE) == 0)
			continue;
		if (names[i][0] == '.' || cbx_ends_with(names[i], CBX_UNFINISHED))
			r = cbx_tree_remove(store->dir, names[i], err);
	}
	cbx_tree_names_free(names, n);
	return r < 0 ? cbx_wrap(err, "an earlier build was interrupted, and what it left cannot be removed") : 0;
}

int cbx_store_open(const char *images_dir, void (*wait)(void), struct cbx_store *ret, struct cbx_err *err)
{
	struct cbx_store s = { .dir = -1, .lock = -1 };
	int r;

	s.dir = open(images_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s.dir < 0)
		return cbx_fail(err, errno, "open the image store %s", images_dir);
	s.lock = openat(s.dir, LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (s.lock < 0) {
		r = cbx_fail(err, errno, "the image store %s cannot be written to", images_dir);
		goto fail;
	}
	if (flock(s.lock, LOCK_EX | LOCK_NB) < 0) {
		if (errno == EWOULDBLOCK && wait)
			wait();
		while (flock(s.lock, LOCK_EX) < 0)
			if (errno != EINTR) {
				r = cbx_fail(err, errno, "lock the image store %s", images_dir);
				goto fail;
			}
	}
	held_lock = s.lock;
	r = remove_leftovers(&s, err);
	if (r < 0)
		goto fail;
	cbx_layers_sweep(s.dir, images_dir);
	s.path = cbx_xstrdup(images_dir);
	*ret = s;
	return 0;
fail:
	cbx_store_release(&s);
	return r;
}

void cbx_store_release(struct cbx_store *store)
{
	cbx_close_p(&store->dir);
	cbx_close_p(&store->lock);
	held_lock = -1;
	free(store->path);
	store->path = NULL;
}

int cbx_stage_check_name(const char *name, struct cbx_err *err)
{
	if (!cbx_name_valid(name))
		return cbx_refuse(
			err, "invalid_argument", EINVAL,
			"\"%.80s\" is not a name for an image; use up to %d letters, digits, \"_\", \".\" and \"-\"",
			name, CBX_NAME_MAX);
	if (strlen(name) + strlen(CBX_UNFINISHED) > CBX_NAME_MAX)
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "the name \"%s\" is too long; use up to %zu characters", name,
				  CBX_NAME_MAX - strlen(CBX_UNFINISHED));
	if (cbx_ends_with(name, CBX_UNFINISHED))
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "names that end in \"" CBX_UNFINISHED
				  "\" are for images in the making; choose another");
	return 0;
}

int cbx_store_has(const struct cbx_store *store, const char *name)
{
	struct stat st;

	return fstatat(store->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* An image's directory is renamed first: there is no moment at which half of it could be used. */
int cbx_store_remove(const struct cbx_store *store, const char *name, struct cbx_err *err)
{
	char doomed[CBX_NAME_MAX + 16], random[7];
	int r;

	cbx_random_name(random, 6);
	snprintf(doomed, sizeof(doomed), ".%s.%s", name, random);
	r = rename_entry(store->dir, name, doomed, RENAME_NOREPLACE_);
	if (r == -ENOENT)
		return cbx_refuse(err, "image_not_found", ENOENT,
				  "there is no image \"%s\"; \"codebox image ls\" lists them", name);
	if (r < 0)
		return cbx_fail(err, -r, "remove the image %s", name);
	r = cbx_tree_remove(store->dir, doomed, err);
	cbx_layers_sweep(store->dir, store->path);
	return r;
}

int cbx_stage_new(const struct cbx_store *store, const char *name, struct cbx_stage *ret, struct cbx_err *err)
{
	struct cbx_stage s = { .store = store, .dir = -1, .rootfs = -1 };
	char random[7];

	cbx_random_name(random, 6);
	snprintf(s.name, sizeof(s.name), "%s", name);
	snprintf(s.entry, sizeof(s.entry), ".%s.%s", name, random);
	if (mkdirat(store->dir, s.entry, 0755) < 0)
		return cbx_fail(err, errno, "make a directory in the image store %s", store->path);
	s.dir = cbx_tree_openat(store->dir, s.entry, O_RDONLY | O_DIRECTORY, 0);
	if (s.dir >= 0 && mkdirat(s.dir, "rootfs", 0755) == 0)
		s.rootfs = cbx_tree_openat(s.dir, "rootfs", O_RDONLY | O_DIRECTORY, 0);
	if (s.dir < 0 || s.rootfs < 0) {
		int code = s.dir < 0 ? -s.dir : errno;

		s.dir = s.dir < 0 ? -1 : s.dir;
		cbx_stage_release(&s);
		return cbx_fail(err, code, "make a directory in the image store %s", store->path);
	}
	*ret = s;
	return 0;
}

void cbx_stage_release(struct cbx_stage *stage)
{
	struct cbx_err ignored;

	cbx_close_p(&stage->rootfs);
	cbx_close_p(&stage->dir);
	if (stage->entry[0])
		(void)cbx_tree_remove(stage->store->dir, stage->entry, &ignored);
	stage->entry[0] = '\0';
	cbx_layers_sweep(stage->store->dir, stage->store->path);
}

int cbx_stage_set_aside(struct cbx_stage *stage, int *ret, struct cbx_err *err)
{
	if (renameat(stage->dir, "rootfs", stage->dir, ASIDE) < 0 || mkdirat(stage->dir, "rootfs", 0755) < 0)
		return cbx_fail(err, errno, "make a directory in the image store %s", stage->store->path);
	*ret = take_fd(&stage->rootfs);
	stage->rootfs = cbx_tree_openat(stage->dir, "rootfs", O_RDONLY | O_DIRECTORY, 0);
	if (stage->rootfs >= 0)
		return 0;
	cbx_close_p(ret);
	return cbx_fail(err, -stage->rootfs, "make a directory in the image store %s", stage->store->path);
}

int cbx_stage_drop_aside(struct cbx_stage *stage, struct cbx_err *err)
{
	return cbx_tree_remove(stage->dir, ASIDE, err);
}

int cbx_stage_write_manifest(const struct cbx_stage *stage, const cJSON *manifest, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };

	cbx_json_print(&text, manifest);
	cbx_buf_addc(&text, '\n');
	return cbx_tree_write(stage->dir, "manifest.json", text.data, text.len, 0644, err);
}

int cbx_stage_expose(struct cbx_stage *stage, char *ret_name, size_t size, struct cbx_err *err)
{
	char name[CBX_NAME_MAX + 16];
	int r;

	snprintf(name, sizeof(name), "%s" CBX_UNFINISHED, stage->name);
	r = rename_entry(stage->store->dir, stage->entry, name, RENAME_NOREPLACE_);
	if (r < 0)
		return cbx_fail(err, -r, "name the unfinished image %s", name);
	snprintf(stage->entry, sizeof(stage->entry), "%s", name);
	snprintf(ret_name, size, "%s", name);
	return 0;
}

int cbx_stage_publish(struct cbx_stage *stage, bool force, struct cbx_err *err)
{
	int dir = stage->store->dir;
	int r;

	if (syncfs(stage->dir) < 0)
		return cbx_fail(err, errno, "write the image to disk");
	r = cbx_layers_keep(stage->dir, dir, err);
	if (r < 0)
		return r;
	r = rename_entry(dir, stage->entry, stage->name, RENAME_NOREPLACE_);
	if (r == -EEXIST && !force)
		return cbx_refuse(err, "image_exists", EEXIST,
				  "there is an image \"%s\" already; use --force to replace it", stage->name);
	if (r == -EEXIST) { /* afterwards the staging name belongs to the old image, which release removes */
		r = rename_entry(dir, stage->entry, stage->name, RENAME_EXCHANGE_);
		if (r < 0)
			return cbx_fail(err, -r, "put the image %s in the place of the old one", stage->name);
	} else if (r < 0) {
		return cbx_fail(err, -r, "name the image %s", stage->name);
	} else {
		stage->entry[0] = '\0';
	}
	return fsync(dir) < 0 ? cbx_fail(err, errno, "write the image store to disk") : 0;
}
