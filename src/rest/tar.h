/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_REST_TAR_H
#define CBX_REST_TAR_H

/*
 * Archives of tar (POSIX.1-2001, pax and ustar; of GNU's what its tar writes by itself): bytes in, entries out, and the
 * other way. Nothing here knows a session. What is read leads nowhere but down from where it is put: that goes for
 * names, for links, and for what links lead to.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "rest/route.h"

#define CBX_TAR_BLOCK 512

enum cbx_tar_type { CBX_TAR_FILE, CBX_TAR_DIRECTORY, CBX_TAR_SYMLINK, CBX_TAR_NAME /* another one of a file */ };

struct cbx_tar_entry {
	enum cbx_tar_type type;
	char path[CBX_REST_PATH_MAX + 1];   /* cbx_rest_path_valid(); "": the directory itself */
	char target[CBX_REST_PATH_MAX + 1]; /* SYMLINK, NAME: where it leads; a name is a path as the other */
	uint64_t size;			    /* FILE */
	uint32_t mode;			    /* 01777 of it */
	int64_t mtime_ns;		    /* since 1970; what is before that is 1970 */
};

/* Whether a link with this path leads, from wherever all of it is put, to a place in there: "..", as many as there are
 * directories, and then down. */
bool cbx_tar_link_inside(const char *path, const char *target);

/* ---- writing ---- */

/* The header of an entry. Behind it come size bytes, and zeros up to the next block. */
void cbx_tar_print(struct cbx_buf *out, const struct cbx_tar_entry *e);
/* How many zeros. */
size_t cbx_tar_padding(uint64_t size);
void cbx_tar_print_end(struct cbx_buf *out);

/* ---- reading ---- */

enum cbx_tar_found {
	CBX_TAR_MORE,	  /* nothing yet: more bytes are needed */
	CBX_TAR_ENTRY,	  /* `entry` is one, all of it but a file's bytes */
	CBX_TAR_DATA,	  /* of a file, `data` and `len` are the next bytes; once, and none, of an empty one */
	CBX_TAR_FILE_END, /* they were the last */
	CBX_TAR_END,	  /* of the archive; found again and again, as long as zeros follow */
};

struct cbx_tar {
	/* What was found. */
	struct cbx_tar_entry entry;
	const char *data; /* in the bytes that were given */
	size_t len;
	uint64_t entries, bytes; /* of files; that there were */
	/* The reader's own. */
	enum { CBX_TAR_HEADER, CBX_TAR_EXTENDED, CBX_TAR_BYTES, CBX_TAR_SKIPS, CBX_TAR_OVER } state;
	char block[CBX_TAR_BLOCK];
	size_t filled;				       /* of it */
	uint64_t left;				       /* of what follows a header */
	size_t padding;				       /* behind that */
	char kind;				       /* of the extended header that is read: 'x', 'g', 'L', 'K' */
	struct cbx_buf more;			       /* its text */
	unsigned extended;			       /* such headers before an entry */
	bool told;				       /* of an empty file's bytes */
	bool has_path, has_target, has_size, has_time; /* they said that of the next entry */
	struct cbx_tar_entry said;
	size_t behind; /* bytes after the end */
};

/* Zeroed is a reader at the start of an archive. *used of the n bytes were looked at, and what is found is in the
 * struct. Errors name the entry; no more can be read then. */
int cbx_tar_read(struct cbx_tar *t, const char *p, size_t n, size_t *used, enum cbx_tar_found *ret,
		 struct cbx_err *err);
void cbx_tar_release(struct cbx_tar *t);

#endif
