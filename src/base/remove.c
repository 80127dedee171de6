/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a tree may be deeper than descriptors or the stack reach. So nothing recurses: a directory that
 * is not empty is moved up into the top one under a number, and the top one is gone through until nothing is left in
 * it.
 *
 * Where the kernel lets no directory change its parent (EXDEV: the first version of Landlock, and some file systems),
 * directories are emptied where they are, and only so deep.
 */
#include "base/remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/limits.h"

struct removal {
	int top;
	bool in_place;
	unsigned long left, number;
};

/* Returns 1 for a directory with something in it. */
static int remove_one(int dir, const char *name)
{
	if (unlinkat(dir, name, 0) == 0)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
		return 0;
	return errno == ENOTEMPTY || errno == EEXIST ? 1 : -errno;
}

/* Returns 1 for a directory that is to be emptied where it is. */
static int remove_entry(struct removal *r, int dir, const char *name)
{
	char moved[40];
	int code;

	if (!r->left--)
		return -EBUSY;
	code = remove_one(dir, name);
	if (code <= 0)
		return code == -ENOENT ? 0 : code;
	/* It must be writable to be emptied, and to be moved, which changes its "..". One of another owner stays as it
	 * is: where that is not enough, what needs it says so. */
	(void)!fchmodat(dir, name, 0700, 0);
	if (dir == r->top || r->in_place)
		return 1;
	do {
		snprintf(moved, sizeof(moved), ".codebox-remove-%lu", r->number++);
		code = syscall(SYS_renameat2, dir, name, r->top, moved, 1 /* RENAME_NOREPLACE */) < 0 ? errno : 0;
	} while (code == EEXIST);
	r->in_place = code == EXDEV;
	return r->in_place ? 1 : -code;
}

static int empty_dir(struct removal *r, int dir, unsigned depth, unsigned long *ret_left);

static int empty_below(struct removal *r, int dir, const char *name, unsigned depth)
{
	unsigned long ignored;
	int sub, result;

	if (depth > CBX_REMOVE_DEPTH)
		return -EXDEV;
	sub = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (sub < 0)
		return -errno;
	result = empty_dir(r, sub, depth, &ignored);
	close(sub);
	if (result == 0)
		unlinkat(dir, name, AT_REMOVEDIR); /* if something is in it again, the top one is gone through again */
	return result;
}

/* Remove what is in a directory; *ret_left counts what had to be emptied first. */
static int empty_dir(struct removal *r, int dir, unsigned depth, unsigned long *ret_left)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), result = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	*ret_left = 0;
	if (!d) {
		if (fd >= 0)
			close(fd);
		return -errno;
	}
	while (result >= 0 && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		result = remove_entry(r, dir, e->d_name);
		if (result == 1) {
			result = empty_below(r, dir, e->d_name, depth + 1);
			(*ret_left)++;
		}
	}
	closedir(d);
	return result < 0 ? result : 0;
}

int cbx_remove_tree(int dir, const char *name, unsigned long most)
{
	struct removal r = { .left = most };
	unsigned long left;
	int result = remove_one(dir, name);

	if (result <= 0)
		return result;
	r.top = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (r.top < 0 && errno == EACCES && fchmodat(dir, name, 0700, 0) == 0)
		r.top = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (r.top < 0)
		return -errno;
	(void)!fchmod(r.top, 0700);
	for (result = 0; result == 0;) {
		result = empty_dir(&r, r.top, 0, &left);
		if (!left)
			break;
	}
	close(r.top);
	if (result < 0)
		return result;
	return unlinkat(dir, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}
