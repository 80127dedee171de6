/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CGROUP_DISKS_H
#define CBX_CGROUP_DISKS_H

/*
 * io.max takes whole disks, and a file system says on which partition it is. The kernel's list of both is read once, by
 * codeboxd at its start, since it cannot open it any more when it has confined itself. A disk that comes later is not
 * known then; nor are file systems that hide their disk (btrfs, zfs, an overlay) or have none (of the network).
 */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct cbx_disks {
	struct cbx_disk {
		dev_t dev, whole;
	} *all; /* owned */
	size_t n;
};

/* dir: /sys/dev/block, or for tests a directory like it. Without one there are no disks. */
void cbx_disks_read(struct cbx_disks *disks, const char *dir);
void cbx_disks_release(struct cbx_disks *disks);
/* The disk of a file on device `dev`. False: it is not known. */
bool cbx_disks_find(const struct cbx_disks *disks, dev_t dev, dev_t *ret);

#endif
