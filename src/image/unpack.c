/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: libarchive reads, and does nothing else; every object is made here, by calls relative to a
 * directory descriptor (tree.h), from a name that unpack-path.c has taken apart. Regular files are made with O_EXCL and
 * are never opened if they exist, so writing through a link is impossible twice over.
 *
 * Bytes are counted twice: what files say that they hold (so a sparse file of an exabyte is refused before its first
 * byte), and what the decompressor puts out (so a bomb is refused wherever in the archive it hides). With each
 * entry count the directories that have to be made on the way to it: one name can ask for dozens.
 *
 * A layer is unpacked into a directory that has nothing else: files of other layers are shared with other images, and
 * this process can have been taken over by what it reads.
 */
#include "image/unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "image/image-limits.h"
#include "image/tree.h"

#define ARRIVAL_MS 60000 /* without a byte of an archive that is still coming, before it is given up */

struct unpack {
	struct archive *a;
	int root;
	const struct cbx_unpack_options *o;
	struct cbx_unpack_stats *stats;
	struct cbx_err *err;
	uint64_t counted; /* entries that are in o->together */
	char path[CBX_UNPACK_PATH_MAX];
};

static int read_error(struct cbx_err *err, struct archive *a)
{
	const char *why = archive_error_string(a);

	cbx_refuse(err, "damaged_archive", EBADMSG, "the archive cannot be read: %.200s", why ? why : "unknown format");
	cbx_err_sanitize(err);
	return -EBADMSG;
}

bool cbx_unpack_matches(const char *const *patterns, const char *path)
{
	for (; patterns && *patterns; patterns++)
		if (fnmatch(*patterns, path, 0) == 0)
			return true;
	return false;
}

static int looks_like_a_bomb(struct unpack *u)
{
	return cbx_refuse(u->err, "archive_bomb", EFBIG,
			  "the archive grows more than %d times when it is unpacked; it looks like a bomb",
			  CBX_UNPACK_RATIO_MAX);
}

static int check_ratio(struct unpack *u)
{
	int64_t in = archive_filter_bytes(u->a, -1), out = archive_filter_bytes(u->a, 0);

	if (out > (int64_t)CBX_UNPACK_RATIO_FLOOR && out / CBX_UNPACK_RATIO_MAX > (in > 0 ? in : 1))
		return looks_like_a_bomb(u);
	return 0;
}

static int check_together(struct unpack *u, uint64_t bytes)
{
	if (u->o->together && atomic_fetch_add(u->o->together, bytes) + bytes > u->o->max_bytes)
		return cbx_refuse(u->err, "archive_too_large", EFBIG, "the archives hold more than %llu bytes",
				  (unsigned long long)u->o->max_bytes);
	return 0;
}

static int check_entries(struct unpack *u)
{
	uint64_t more = u->stats->entries - u->counted;

	u->counted += more;
	if (u->stats->entries + u->o->used_entries > u->o->max_entries)
		return cbx_refuse(u->err, "archive_too_large", EFBIG,
				  "the archive has more than %llu entries, with the directories on the way to them",
				  (unsigned long long)u->o->max_entries);
	return check_together(u, more * u->o->entry_bytes);
}

static int check_size(struct unpack *u, int64_t size)
{
	if (size < 0 || (uint64_t)size > CBX_UNPACK_FILE_MAX)
		return cbx_refuse(u->err, "archive_too_large", EFBIG,
				  "%s says that it holds %lld bytes; the limit is %llu", u->path, (long long)size,
				  (unsigned long long)CBX_UNPACK_FILE_MAX);
	u->stats->bytes += (uint64_t)size;
	if (u->o->packed_bytes && u->stats->bytes > CBX_UNPACK_RATIO_FLOOR &&
	    u->stats->bytes / CBX_UNPACK_RATIO_MAX > u->o->packed_bytes)
		return looks_like_a_bomb(u);
	if (u->stats->bytes + u->o->used_bytes > u->o->max_bytes)
		return cbx_refuse(u->err, "archive_too_large", EFBIG, "the archive holds more than %llu bytes",
				  (unsigned long long)u->o->max_bytes);
	return check_together(u, (uint64_t)size);
}

/* Make room for a new object that is not a directory. */
static int displace(struct unpack *u, int parent, const char *name)
{
	struct stat st;

	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : cbx_fail(u->err, errno, "look at %s", u->path);
	if (u->o->add_only)
		return cbx_refuse(u->err, "unsafe_archive", EEXIST, "%s would replace a file of the image", u->path);
	if (S_ISDIR(st.st_mode))
		return cbx_refuse(u->err, "unsafe_archive", EISDIR, "%s is in the archive as a directory and as a file",
				  u->path);
	return cbx_tree_remove(parent, name, u->err);
}

static int write_data(struct unpack *u, int fd, int64_t size)
{
	const void *p;
	size_t n;
	int64_t off;

	for (;;) {
		int r = archive_read_data_block(u->a, &p, &n, &off);

		if (r == ARCHIVE_EOF)
			break;
		if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
			return read_error(u->err, u->a);
		r = check_ratio(u);
		if (r < 0)
			return r;
		if (off < 0 || off > size || (int64_t)n > size - off)
			return cbx_refuse(u->err, "damaged_archive", EBADMSG, "%s holds more than it says", u->path);
		while (n) {
			ssize_t w = pwrite(fd, p, n, off);

			if (w < 0 && errno == EINTR)
				continue;
			if (w < 0)
				return cbx_fail(u->err, errno, "write %s", u->path);
			p = (const char *)p + w;
			n -= (size_t)w;
			off += w;
		}
	}
	return ftruncate(fd, size) < 0 ? cbx_fail(u->err, errno, "write %s", u->path) : 0;
}

static int make_file(struct unpack *u, int parent, const char *name, struct archive_entry *e)
{
	mode_t mode = archive_entry_perm(e) & 0111 ? 0755 : 0644;
	int64_t size = archive_entry_size_is_set(e) ? archive_entry_size(e) : 0;
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = archive_entry_mtime(e) } };
	_cleanup_fd_ int fd = -1;
	int r = check_size(u, size);

	if (r == 0)
		r = displace(u, parent, name);
	if (r < 0)
		return r;
	fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return cbx_fail(u->err, errno, "make %s", u->path);
	r = write_data(u, fd, size);
	if (r < 0)
		return r;
	if (fchmod(fd, mode) < 0)
		return cbx_fail(u->err, errno, "set the mode of %s", u->path);
	if (times[1].tv_sec > 0 && times[1].tv_sec < INT32_MAX)
		(void)futimens(fd, times);
	return 0;
}

static int make_dir(struct unpack *u, int parent, const char *name)
{
	mode_t mode = u->o->whiteouts == CBX_WHITEOUTS_KEPT ? CBX_UNPACK_NAMED_DIR : 0755;
	struct stat st;

	if (mkdirat(parent, name, mode) == 0)
		return 0;
	if (errno != EEXIST)
		return cbx_fail(u->err, errno, "make the directory %s", u->path);
	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return cbx_fail(u->err, errno, "look at %s", u->path);
	if (S_ISDIR(st.st_mode)) /* perhaps made on the way to something */
		return u->o->whiteouts != CBX_WHITEOUTS_KEPT || fchmodat(parent, name, mode, 0) == 0
			       ? 0
			       : cbx_fail(u->err, errno, "set the mode of %s", u->path);
	if (u->o->add_only)
		return cbx_refuse(u->err, "unsafe_archive", EEXIST, "%s would replace a file of the image", u->path);
	if (unlinkat(parent, name, 0) < 0 || mkdirat(parent, name, mode) < 0)
		return cbx_fail(u->err, errno, "make the directory %s", u->path);
	return 0;
}

static int make_symlink(struct unpack *u, int parent, const char *name, const char *target)
{
	int r;

	if (!target || !*target || strlen(target) >= CBX_UNPACK_PATH_MAX)
		return cbx_refuse(u->err, "unsafe_archive", EINVAL,
				  "the link %s has no target, or one that is too long", u->path);
	if (!cbx_plain(target))
		return cbx_refuse(u->err, "unsafe_archive", EINVAL,
				  "the link %s has a control character in its target", u->path);
	r = displace(u, parent, name);
	if (r < 0)
		return r;
	return symlinkat(target, parent, name) < 0 ? cbx_fail(u->err, errno, "make the link %s", u->path) : 0;
}

static int make_hardlink(struct unpack *u, int parent, const char *name, const char *to)
{
	_cleanup_fd_ int dir = -1;
	char path[CBX_UNPACK_PATH_MAX];
	const char *from;
	struct stat st;
	int r = cbx_unpack_path(to, u->o->merge_usr, path, u->err);

	if (r == 0)
		r = cbx_tree_parent(u->root, path, NULL, &dir, &from, u->err);
	else if (r > 0)
		r = cbx_refuse(u->err, "unsafe_archive", EINVAL, "it is a directory");
	if (r == 0 && fstatat(dir, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = cbx_fail(u->err, errno, "%s", path);
	if (r == 0 && u->o->whiteouts && cbx_starts_with(from, CBX_WHITEOUT))
		r = cbx_fail(u->err, ENOENT, "%s", path);
	if (r == 0 && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		r = cbx_refuse(u->err, "unsafe_archive", EINVAL, "%s is not a file", path);
	if (r < 0)
		return cbx_wrap(u->err, "the hard link %s has a target that cannot be used", u->path);
	if (strcmp(path, u->path) == 0)
		return 0;
	r = displace(u, parent, name);
	if (r < 0)
		return r;
	/* Without AT_SYMLINK_FOLLOW: a link to a link is the link itself. */
	return linkat(dir, from, parent, name, 0) < 0 ? cbx_fail(u->err, errno, "make the hard link %s", u->path) : 0;
}

/* An empty file says what is hidden, whatever the archive has of that name. */
static int keep_whiteout(struct unpack *u, const char *name)
{
	const char *hidden = name + strlen(CBX_WHITEOUT);
	_cleanup_fd_ int parent = -1, fd = -1;
	int r;

	u->stats->whiteouts++;
	if (strcmp(name, CBX_WHITEOUT_ALL) != 0) {
		if (cbx_starts_with(hidden, CBX_WHITEOUT)) /* other marks of layered file systems */
			return 0;
		if (!*hidden || strcmp(hidden, ".") == 0 || strcmp(hidden, "..") == 0)
			return cbx_refuse(u->err, "unsafe_archive", EINVAL, "%s hides nothing that could be hidden",
					  u->path);
	}
	r = cbx_tree_parent(u->root, u->path, &u->stats->entries, &parent, &name, u->err);
	if (r == 0)
		r = check_entries(u);
	if (r == 0)
		r = displace(u, parent, name);
	if (r < 0)
		return r;
	fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	return fd < 0 ? cbx_fail(u->err, errno, "make %s", u->path) : 0;
}

static int make_object(struct unpack *u, struct archive_entry *e)
{
	_cleanup_fd_ int parent = -1;
	const char *name;
	int r = cbx_tree_parent(u->root, u->path, &u->stats->entries, &parent, &name, u->err);

	if (r == 0)
		r = check_entries(u);
	if (r < 0)
		return r;
	if (archive_entry_hardlink(e))
		return make_hardlink(u, parent, name, archive_entry_hardlink(e));
	switch (archive_entry_filetype(e)) {
	case AE_IFREG:
		return make_file(u, parent, name, e);
	case AE_IFDIR:
		return make_dir(u, parent, name);
	case AE_IFLNK:
		return make_symlink(u, parent, name, archive_entry_symlink(e));
	default:
		return cbx_refuse(u->err, "unsafe_archive", EINVAL, "%s is of an unknown kind", u->path);
	}
}

static void count_oddities(struct unpack *u, struct archive_entry *e)
{
	if (archive_entry_perm(e) & 07000)
		u->stats->modes++;
	if (archive_entry_xattr_count(e) > 0 || archive_entry_acl_types(e))
		u->stats->attributes++;
}

static bool special(struct archive_entry *e)
{
	mode_t type = archive_entry_filetype(e);

	return !archive_entry_hardlink(e) &&
	       (type == AE_IFCHR || type == AE_IFBLK || type == AE_IFIFO || type == AE_IFSOCK);
}

/* The distribution's own link bin -> usr/bin, whose place is taken by ours. */
static bool merge_link(struct unpack *u, struct archive_entry *e, const char *raw)
{
	char plain[CBX_UNPACK_PATH_MAX];
	struct cbx_err ignored;

	return u->o->merge_usr && archive_entry_filetype(e) == AE_IFLNK &&
	       cbx_unpack_path(raw, false, plain, &ignored) == 0 && !strchr(plain, '/') && strcmp(plain, u->path) != 0;
}

static int one_entry(struct unpack *u, struct archive_entry *e)
{
	const char *raw = archive_entry_pathname(e), *name;
	int r;

	if (!raw || !*raw)
		return cbx_refuse(u->err, "unsafe_archive", EINVAL, "the archive has an entry without a usable name");
	r = cbx_unpack_path(raw, u->o->merge_usr, u->path, u->err);
	if (r != 0)
		return r > 0 ? 0 : r;
	name = strrchr(u->path, '/');
	name = name ? name + 1 : u->path;
	if (u->o->whiteouts && cbx_starts_with(name, CBX_WHITEOUT))
		return u->o->whiteouts == CBX_WHITEOUTS_KEPT ? keep_whiteout(u, name) : 0;
	if (u->o->only && archive_entry_filetype(e) != AE_IFDIR && !cbx_unpack_matches(u->o->only, u->path))
		return cbx_refuse(u->err, "unsafe_archive", EINVAL, "%s has no place in this archive", u->path);
	if (cbx_unpack_matches(u->o->exclude, u->path) && !cbx_unpack_matches(u->o->include, u->path)) {
		u->stats->excluded++;
		return 0;
	}
	if (special(e)) {
		u->stats->special++;
		return 0;
	}
	if ((u->o->format == CBX_ARCHIVE_WHEEL || u->o->format == CBX_ARCHIVE_PACKAGE) &&
	    (archive_entry_hardlink(e) ||
	     (archive_entry_filetype(e) != AE_IFREG && archive_entry_filetype(e) != AE_IFDIR)))
		return cbx_refuse(u->err, "unsafe_archive", EINVAL, "%s is not a regular file", u->path);
	count_oddities(u, e);
	return merge_link(u, e, raw) ? 0 : make_object(u, e);
}

static int all_entries(struct unpack *u)
{
	for (;;) {
		struct archive_entry *e;
		int r = archive_read_next_header(u->a, &e);

		if (r == ARCHIVE_EOF)
			return check_ratio(u);
		if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
			return read_error(u->err, u->a);
		u->stats->entries++;
		r = check_entries(u);
		if (r == 0)
			r = check_ratio(u);
		if (r == 0)
			r = one_entry(u, e);
		if (r < 0)
			return r;
	}
}

static void free_archive(struct archive **a)
{
	if (*a)
		archive_read_free(*a);
}

static void accept_tar(struct archive *a)
{
	archive_read_support_filter_gzip(a);
	archive_read_support_filter_bzip2(a);
	archive_read_support_filter_xz(a);
	archive_read_support_filter_lzma(a);
	archive_read_support_filter_zstd(a);
	archive_read_support_format_tar(a);
}

/* ---- bytes, perhaps of an archive that is still coming ---- */

struct source {
	int fd;
	int64_t at, size;
	const struct cbx_arriving *arriving;
	uint8_t chunk[65536];
};

/* How many bytes can be read now; it waits for the first. What does not come is read as zeros, and fails for that. */
static size_t have(const struct source *s)
{
	const struct cbx_arriving *a = s->arriving;
	const struct timespec moment = { .tv_nsec = 1000000 };
	uint64_t n = sizeof(s->chunk), at = (uint64_t)s->at, before = 0;

	for (int waited = 0; a && at < a->end; waited++) {
		uint64_t begun = a->begun;

		if (a->over)
			break;
		if (begun > at)
			return begun - at < n ? begun - at : n;
		if (begun != before)
			waited = 0;
		before = begun;
		if (waited == ARRIVAL_MS)
			return 0;
		nanosleep(&moment, NULL);
	}
	return n;
}

static ssize_t read_source(struct archive *a, void *arg, const void **ret)
{
	struct source *s = arg;
	ssize_t n = pread(s->fd, s->chunk, have(s), s->at);

	if (n < 0)
		archive_set_error(a, errno, "it cannot be read");
	s->at += n > 0 ? n : 0;
	*ret = s->chunk;
	return n;
}

static int64_t skip_source(struct archive *a, void *arg, int64_t n)
{
	struct source *s = arg;

	n = n < s->size - s->at ? n : s->size - s->at;
	n = n < 0 ? 0 : n;
	s->at += n;
	return n;
}

static int64_t seek_source(struct archive *a, void *arg, int64_t n, int whence)
{
	struct source *s = arg;
	int64_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? s->at : s->size, to;

	if (__builtin_add_overflow(from, n, &to) || to < 0) {
		archive_set_error(a, EINVAL, "it has an impossible place");
		return ARCHIVE_FATAL;
	}
	return s->at = to;
}

static int unpack_tar(int fd, struct unpack *u)
{
	struct source s = { .fd = fd, .arriving = u->o->arriving };
	_cleanup_(free_archive) struct archive *a = archive_read_new();
	struct stat st;

	if (!a)
		return cbx_fail(u->err, ENOMEM, "read the archive");
	if (u->o->format == CBX_ARCHIVE_WHEEL)
		archive_read_support_format_zip_seekable(a);
	else
		accept_tar(a);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return cbx_fail(u->err, ESPIPE, "read the archive (only a regular file will do)");
	s.size = st.st_size;
	archive_read_set_read_callback(a, read_source);
	archive_read_set_skip_callback(a, skip_source);
	archive_read_set_seek_callback(a, seek_source);
	archive_read_set_callback_data(a, &s);
	if (archive_read_open1(a) != ARCHIVE_OK)
		return read_error(u->err, a);
	u->a = a;
	return all_entries(u);
}

static ssize_t read_member(struct archive *inner, void *arg, const void **ret)
{
	struct archive *outer = arg;
	size_t n = 0;
	int64_t off;
	int r = archive_read_data_block(outer, ret, &n, &off);

	if (r == ARCHIVE_EOF)
		return 0;
	if (r != ARCHIVE_OK && r != ARCHIVE_WARN) {
		archive_set_error(inner, EIO, "%s", archive_error_string(outer));
		return -1;
	}
	return (ssize_t)n;
}

static int unpack_deb(int fd, struct unpack *u)
{
	_cleanup_(free_archive) struct archive *outer = archive_read_new(), *inner = archive_read_new();
	struct archive_entry *e;
	int r;

	if (!outer || !inner)
		return cbx_fail(u->err, ENOMEM, "read the package");
	archive_read_support_format_ar(outer);
	accept_tar(inner);
	if (lseek(fd, 0, SEEK_SET) < 0)
		return cbx_fail(u->err, errno, "read the package");
	if (archive_read_open_fd(outer, fd, 65536) != ARCHIVE_OK)
		return read_error(u->err, outer);
	while ((r = archive_read_next_header(outer, &e)) == ARCHIVE_OK || r == ARCHIVE_WARN) {
		const char *name = archive_entry_pathname(e);

		if (!name || !cbx_starts_with(name, "data.tar"))
			continue;
		if (archive_read_open2(inner, outer, NULL, read_member, NULL, NULL) != ARCHIVE_OK)
			return read_error(u->err, inner);
		u->a = inner;
		return all_entries(u);
	}
	if (r != ARCHIVE_EOF)
		return read_error(u->err, outer);
	return cbx_refuse(u->err, "damaged_archive", EBADMSG, "the package has no data.tar in it");
}

void cbx_unpack_add(struct cbx_unpack_stats *sum, const struct cbx_unpack_stats *s)
{
	sum->entries += s->entries;
	sum->bytes += s->bytes;
	sum->excluded += s->excluded;
	sum->special += s->special;
	sum->modes += s->modes;
	sum->attributes += s->attributes;
	sum->whiteouts += s->whiteouts;
}

int cbx_unpack(int archive, int root, const struct cbx_unpack_options *o, struct cbx_unpack_stats *stats,
	       struct cbx_err *err)
{
	struct unpack u = { .root = root, .o = o, .stats = stats, .err = err };

	memset(stats, 0, sizeof(*stats));
	return o->format == CBX_ARCHIVE_DEB ? unpack_deb(archive, &u) : unpack_tar(archive, &u);
}
