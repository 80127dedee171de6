/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_STAGE_H
#define CBX_IMAGE_STAGE_H

/*
 * The image store, write side. An image is made in a staging directory and comes into being by one rename; until then
 * the store is as it was, and after it the image is complete.
 *
 *   cbx_store_open(&dirs, &store)      makes the store, takes its lock, removes what interrupted builds have left
 *   cbx_stage_new(&store, "python")    <images>/.python.XXXXXX/rootfs
 *   ... fill stage.rootfs ...
 *   cbx_stage_publish(&stage, force)   <images>/python; with force an image of that name is exchanged and removed
 *   cbx_stage_release(&stage)          removes the staging directory unless it was published, and what was replaced
 *
 * Layers that images share are beside them (layers.h): publishing keeps those of the image, and what removes images
 * removes the layers that no other image has.
 *
 * For a step that runs in the image before it is finished, cbx_stage_expose() gives the staging directory the name
 * "<name>-unfinished", under which sandboxes can use it; lists hide it, and publishing and cleaning know it.
 */
#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "image/store.h"

struct cbx_scan_known;

struct cbx_store {
	int dir; /* <images> */
	int lock;
	char *path;
};

struct cbx_stage {
	const struct cbx_store *store;
	char name[CBX_NAME_MAX + 1];   /* what it is to be */
	char entry[CBX_NAME_MAX + 16]; /* where it is now, in the store */
	int dir;		       /* the staging directory */
	int rootfs;		       /* rootfs in it */
	struct cbx_scan_known *known;  /* borrowed: digests of its files that are known (scan.h), or NULL */
};

/* wait: called once when another process has the lock; may be NULL. */
int cbx_store_open(const char *images_dir, void (*wait)(void), struct cbx_store *ret, struct cbx_err *err);
void cbx_store_release(struct cbx_store *store);
/* The lock that this process holds, or -1. */
int cbx_stage_lock_fd(void);

/* A name that an image may be given. Error: "invalid_argument". */
int cbx_stage_check_name(const char *name, struct cbx_err *err);
/* 1: there is an image of that name; 0: there is none. */
int cbx_store_has(const struct cbx_store *store, const char *name);
/* Remove an image. Error: "image_not_found". */
int cbx_store_remove(const struct cbx_store *store, const char *name, struct cbx_err *err);

int cbx_stage_new(const struct cbx_store *store, const char *name, struct cbx_stage *ret, struct cbx_err *err);
void cbx_stage_release(struct cbx_stage *stage);
/* Write manifest.json; publishing flushes it to the disk. */
int cbx_stage_write_manifest(const struct cbx_stage *stage, const cJSON *manifest, struct cbx_err *err);
/*
 * What was unpacked is not the root file system but holds its layers: move it out of the way, and begin with an empty
 * root. *ret is a descriptor of it, owned by the caller. The second function removes it.
 */
int cbx_stage_set_aside(struct cbx_stage *stage, int *ret, struct cbx_err *err);
int cbx_stage_drop_aside(struct cbx_stage *stage, struct cbx_err *err);
int cbx_stage_expose(struct cbx_stage *stage, char *ret_name, size_t size, struct cbx_err *err);
int cbx_stage_publish(struct cbx_stage *stage, bool force, struct cbx_err *err);

#endif
