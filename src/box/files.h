/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BOX_FILES_H
#define CBX_BOX_FILES_H

/*
 * The files of a box: what is asked of them, and answered. Paths are relative to the workspace unless absolute; init
 * resolves them, inside. What it answers has been checked.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/op.h"
#include "box/entries.h"

struct cbx_box;

#define CBX_FILE_CHUNK 61440 /* bytes read or written at once, at most */

enum cbx_file_write_flag {
	CBX_FILE_TRUNCATE = 1,
	CBX_FILE_EXECUTABLE = 2,
};

/* Borrowed for the call. */
struct cbx_file_reply {
	const void *data;		      /* READ, READLINK: bytes */
	size_t len;			      /* READ, READLINK, WRITE: how many */
	const struct cbx_file_entry *entries; /* STAT: one; LIST, SCAN */
	size_t nentries;
	uint64_t size; /* READ: the file's size; SCAN: how many files there are */
	bool more;     /* LIST, SCAN: more entries are there */
	bool cut;      /* SCAN: the tree was too large to look at all of it */
};

struct cbx_file_op {
	struct cbx_op op;
	/* Of reply and err one is NULL. It is called, too, when the session goes. */
	void (*done)(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err);
};

int cbx_file_read(struct cbx_box *box, const char *path, uint64_t offset, size_t max, struct cbx_file_op *op,
		  struct cbx_err *err);
/* offset UINT64_MAX: at its end. flags: enum cbx_file_write_flag. */
int cbx_file_write(struct cbx_box *box, const char *path, uint64_t offset, unsigned flags, const void *p, size_t n,
		   struct cbx_file_op *op, struct cbx_err *err);
int cbx_file_stat(struct cbx_box *box, const char *path, struct cbx_file_op *op, struct cbx_err *err);
int cbx_file_list(struct cbx_box *box, const char *path, uint64_t skip, struct cbx_file_op *op, struct cbx_err *err);
/* Regular files of all directories below one. */
int cbx_file_scan(struct cbx_box *box, const char *path, uint64_t skip, struct cbx_file_op *op, struct cbx_err *err);
/* Of those of the workspace, what has changed since then (CLOCK_REALTIME). Comes before what is queued. */
int cbx_file_changed(struct cbx_box *box, int64_t since_ns, struct cbx_file_op *op, struct cbx_err *err);
/*
 * Files are stamped with CLOCK_REALTIME_COARSE, which is some milliseconds late, or (Linux 6.13, those that are looked
 * at) with CLOCK_REALTIME. Some have changed, by now: see cbx_files_settled().
 */
void cbx_files_changed(struct cbx_box *box);
int cbx_file_mkdir(struct cbx_box *box, const char *path, struct cbx_file_op *op, struct cbx_err *err);
int cbx_file_remove(struct cbx_box *box, const char *path, struct cbx_file_op *op, struct cbx_err *err);
/* Nothing is replaced: "file_exists". */
int cbx_file_rename(struct cbx_box *box, const char *path, const char *to, struct cbx_file_op *op, struct cbx_err *err);
/* Where a symbolic link leads. */
int cbx_file_readlink(struct cbx_box *box, const char *path, struct cbx_file_op *op, struct cbx_err *err);

/* An entry of an archive, to be put into a directory: sandbox/init-protocol.h, CBX_INIT_PLACE. */
struct cbx_file_place {
	const char *into;
	const char *path; /* from there */
	const char *text; /* where a link leads, which file it becomes; "" */
	uint32_t mode;	  /* as in stat(2), with the file type; 0: only the directories above it are made */
	bool same;	  /* `text` is the path of a file that gets another name */
	int64_t mtime_ns;
};
int cbx_file_place(struct cbx_box *box, const struct cbx_file_place *place, struct cbx_file_op *op,
		   struct cbx_err *err);

#endif
