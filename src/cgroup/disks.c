/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup/disks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "cgroup/files.h"

static bool parse(const char *text, dev_t *ret)
{
	unsigned major, minor;
	char end = '\n';

	if (sscanf(text, "%u:%u%c", &major, &minor, &end) < 2 || end != '\n')
		return false;
	*ret = makedev(major, minor);
	return true;
}

/* "8:1" is a link to the partition's directory, which lies in that of its disk. */
static bool whole_of(int dir, const char *name, dev_t dev, dev_t *ret)
{
	char path[64], text[32];

	*ret = dev;
	snprintf(path, sizeof(path), "%.30s/partition", name);
	if (faccessat(dir, path, F_OK, 0) < 0)
		return true;
	snprintf(path, sizeof(path), "%.30s/../dev", name);
	return cbx_read_small(dir, path, text, sizeof(text)) > 0 && parse(text, ret);
}

void cbx_disks_read(struct cbx_disks *disks, const char *dir)
{
	_cleanup_closedir_ DIR *d = opendir(dir);
	struct dirent *e;

	*disks = (struct cbx_disks){ 0 };
	while (d && disks->n < CBX_IO_DISKS_KNOWN && (e = readdir(d))) {
		struct cbx_disk disk;

		if (!parse(e->d_name, &disk.dev) || !whole_of(dirfd(d), e->d_name, disk.dev, &disk.whole))
			continue;
		disks->all = cbx_xrealloc(disks->all, (disks->n + 1) * sizeof(*disks->all));
		disks->all[disks->n++] = disk;
	}
}

void cbx_disks_release(struct cbx_disks *disks)
{
	free(take_ptr(&disks->all));
	disks->n = 0;
}

bool cbx_disks_find(const struct cbx_disks *disks, dev_t dev, dev_t *ret)
{
	for (size_t i = 0; i < disks->n; i++) {
		if (disks->all[i].dev == dev) {
			*ret = disks->all[i].whole;
			return true;
		}
	}
	return false;
}
