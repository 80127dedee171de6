/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_UNPACK_H
#define CBX_IMAGE_UNPACK_H

/*
 * Unpack a hostile archive beneath a directory descriptor. cbx_unpack() is run in a worker process (worker.h) that can
 * reach nothing but the archive and the directory; cbx_unpack_in_worker() does both.
 *
 * Refused, and with it the whole archive: absolute names and "..", control characters in names or link targets, paths
 * through symbolic links or files, hard links to anything but a regular file or link unpacked before, and whatever
 * exceeds a limit of image-limits.h.
 * Neutralised and counted: devices, FIFOs and sockets (omitted), setuid, setgid and sticky bits (dropped), extended
 * attributes and ACLs (dropped). Owners are never taken from the archive. Directories become 0755, files 0644 or 0755.
 *
 * An archive that is a layer of several is unpacked alone: what it hides of those below is kept as empty files of the
 * names that the archive has for it, and the directories that it names, which take the place of what is below, differ
 * in mode from those that are merely on the way (compose.h).
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum cbx_archive_format {
	CBX_ARCHIVE_TAR,     /* tar of any dialect; plain, gzip, bzip2, xz, lzma or zstd */
	CBX_ARCHIVE_DEB,     /* ar with a data.tar in it */
	CBX_ARCHIVE_WHEEL,   /* zip, of directories and regular files alone */
	CBX_ARCHIVE_PACKAGE, /* tar, likewise */
};

enum cbx_whiteouts {
	CBX_WHITEOUTS_ARE_FILES, /* ".wh." names are names like any other */
	CBX_WHITEOUTS_OMITTED,	 /* there is nothing below that could be hidden */
	CBX_WHITEOUTS_KEPT,	 /* a layer: see above */
};
#define CBX_WHITEOUT	     ".wh."
#define CBX_WHITEOUT_ALL     ".wh..wh..opq" /* hides all that is below in its directory */
#define CBX_UNPACK_NAMED_DIR 0700	    /* mode of a directory that a layer names */

/* An archive that is still coming, in memory that is shared with the process that writes it. */
struct cbx_arriving {
	_Atomic uint64_t begun; /* bytes of its start that are there */
	_Atomic uint64_t end;	/* from where on all of it is there, and its size is known; 0: not yet */
	_Atomic bool over;	/* nothing else comes */
};

struct cbx_unpack_options {
	enum cbx_archive_format format;
	bool merge_usr;	 /* top-level bin, sbin, lib… are unpacked beneath usr */
	enum cbx_whiteouts whiteouts;
	bool add_only;	 /* what is there already is never replaced: such an entry is refused */
	const char *const
		*exclude; /* patterns (fnmatch, "*" also matches "/") of paths to omit; NULL-terminated or NULL */
	const char *const *include;	   /* patterns of paths that are taken although excluded */
	const char *const *only;	   /* with this, any other path is refused */
	uint64_t used_entries, used_bytes; /* by earlier archives of the same image */
	uint64_t max_entries, max_bytes;   /* of all archives of the image */
	_Atomic uint64_t *together; /* bytes that several processes unpack, bounded by max_bytes likewise; NULL: none */
	uint64_t entry_bytes;	    /* which each entry counts for there, beside what it holds */
	uint64_t packed_bytes; /* size of a zip, whose files are packed one by one */
	const struct cbx_arriving *arriving; /* NULL: all of the archive is there */
};

struct cbx_unpack_stats {
	uint64_t entries;    /* seen, of all kinds; and directories made on the way to them */
	uint64_t bytes;	     /* apparent size of the files unpacked */
	uint64_t excluded;   /* omitted by patterns */
	uint64_t special;    /* devices, FIFOs, sockets omitted */
	uint64_t modes;	     /* setuid, setgid, sticky bits dropped */
	uint64_t attributes; /* entries whose extended attributes or ACLs were dropped */
	uint64_t whiteouts;  /* kept */
};

int cbx_unpack(int archive, int root, const struct cbx_unpack_options *o, struct cbx_unpack_stats *stats,
	       struct cbx_err *err);

/* Add one archive's numbers to those of an image. */
void cbx_unpack_add(struct cbx_unpack_stats *sum, const struct cbx_unpack_stats *s);

/* progress may be NULL; it is called a few times a second with the numbers so far. */
int cbx_unpack_in_worker(int archive, int root, const struct cbx_unpack_options *o, struct cbx_unpack_stats *stats,
			 void (*progress)(void *arg, const struct cbx_unpack_stats *so_far), void *arg,
			 struct cbx_err *err);

/* Whether one of the patterns, NULL-terminated or NULL, has this path. */
bool cbx_unpack_matches(const char *const *patterns, const char *path);

/*
 * The clean form of a name in an archive: 0; 1 when it is the root itself; or -errno. out has room for
 * CBX_UNPACK_PATH_MAX bytes.
 */
int cbx_unpack_path(const char *name, bool merge_usr, char *out, struct cbx_err *err);

#endif
