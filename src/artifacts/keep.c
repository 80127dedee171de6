/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the file of an artifact has its whole size from the start, so that a full disk and a full quota
 * are known before the first byte is copied, and what several sessions keep at once is counted. It becomes an artifact by
 * two renames, the second of which is of what is known of it: whatever ends in between leaves nothing that is listed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "artifacts/store.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"

#define ABOUT_MAX KIB(16)

struct names {
	char data[80], about[80], part[80], new_about[80];
};

static int wrong(const char *what, struct cbx_err *err)
{
	return cbx_refuse(err, "invalid_argument", EINVAL, "%s: wrong or missing; give another", what);
}

static int gone(struct cbx_err *err)
{
	return cbx_refuse(err, "artifact_not_found", ENOENT,
			  "there is no such artifact: it has expired, or was removed; codebox artifact list shows those "
			  "that there are");
}

static int get_names(const cJSON *job, struct names *ret, struct cbx_err *err)
{
	const char *id = cbx_json_text(job, "id");

	if (!id || !cbx_name_valid(id))
		return wrong("id", err);
	snprintf(ret->data, sizeof(ret->data), "%s", id);
	snprintf(ret->about, sizeof(ret->about), "%s.json", id);
	snprintf(ret->part, sizeof(ret->part), ".%s", id);
	snprintf(ret->new_about, sizeof(ret->new_about), ".%s.json", id);
	return 0;
}

static int open_dir(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int open_tenant(int store, const cJSON *job, bool make, struct cbx_err *err)
{
	const char *tenant = cbx_json_text(job, "tenant");
	int fd;

	if (!tenant || !cbx_name_valid(tenant))
		return wrong("tenant", err);
	if (make && mkdirat(store, tenant, 0700) < 0 && errno != EEXIST)
		return cbx_fail(err, errno, "make a directory for artifacts");
	fd = open_dir(store, tenant);
	return fd == -ENOENT ? gone(err) : fd < 0 ? cbx_fail(err, -fd, "open a directory of artifacts") : fd;
}

/* ---- directories ---- */

/* Calls fn for each name; it stops with the first that is not 0. */
static int each(int dir, int (*fn)(int dir, const char *name, void *arg), void *arg)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return -errno;
	}
	while (r == 0 && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = fn(dir, e->d_name, arg);
	closedir(d);
	return r;
}

struct use {
	uint64_t bytes, n;
};

static int add_use(int dir, const char *name, void *arg)
{
	struct use *use = arg;
	struct stat st;

	if (cbx_ends_with(name, ".json") || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return 0;
	use->bytes += (uint64_t)st.st_size;
	use->n++;
	return 0;
}

static int read_about(int dir, const char *name, struct cbx_json_doc *ret)
{
	_cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_buf_ struct cbx_buf text = { 0 };
	struct cbx_err ignored;

	if (fd < 0)
		return -errno;
	if (cbx_read_whole(fd, ABOUT_MAX, &text) < 0 ||
	    cbx_json_parse(cbx_buf_str(&text), text.len, ret, &ignored) < 0 || !cJSON_IsObject(ret->root))
		return -EBADMSG;
	return 0;
}

static bool expired(const cJSON *about)
{
	return cbx_json_u64(about, "expires") <= (uint64_t)time(NULL);
}

/* ---- put ---- */

static int check_room(int dir, const cJSON *job, struct cbx_err *err)
{
	uint64_t size = cbx_json_u64(job, "size"), quota = cbx_json_u64(job, "quota");
	struct use use = { 0 };
	char used[32], most[32];

	(void)each(dir, add_use, &use);
	if (use.n >= CBX_ARTIFACTS_MAX)
		return cbx_refuse(err, "quota_exceeded", EDQUOT, "there are %d artifacts, and no more are kept; remove some",
				  CBX_ARTIFACTS_MAX);
	if (use.bytes <= quota && size <= quota - use.bytes)
		return 0;
	cbx_format_size(use.bytes, used);
	cbx_format_size(quota, most);
	return cbx_refuse(err, "quota_exceeded", EDQUOT,
			  "artifacts have %s, and the policy allows %s (artifacts.quota); remove some", used, most);
}

static int make_part(int dir, const struct names *names, const cJSON *job, struct cbx_err *err)
{
	off_t size = (off_t)cbx_json_u64(job, "size");
	_cleanup_fd_ int fd = -1;
	int r;

	if (flock(dir, LOCK_EX) < 0)
		return cbx_fail(err, errno, "lock a directory of artifacts");
	r = check_room(dir, job, err);
	if (r < 0)
		return r;
	fd = openat(dir, names->part, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return cbx_fail(err, errno, "make a file for an artifact");
	if (size && fallocate(fd, 0, 0, size) < 0 && ((errno != EOPNOTSUPP && errno != ENOSYS) || ftruncate(fd, size) < 0))
		return cbx_fail(err, errno, "make room for an artifact of %lld bytes", (long long)size);
	return take_fd(&fd);
}

static int write_at(int fd, const char *p, size_t n, uint64_t at, struct cbx_err *err)
{
	while (n) {
		ssize_t w = pwrite(fd, p, n, (off_t)at);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return cbx_fail(err, errno, "write an artifact");
		p += w;
		n -= (size_t)w;
		at += (uint64_t)w;
	}
	return 0;
}

static int write_about(int dir, const struct names *names, const cJSON *about, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	_cleanup_fd_ int to = openat(dir, names->new_about, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	cbx_json_print(&text, about);
	if (to < 0 || cbx_write_all(to, text.data, text.len) < 0 || fsync(to) < 0)
		return cbx_fail(err, errno ? errno : EIO, "describe an artifact");
	return 0;
}

static int complete(int dir, int fd, const struct names *names, const cJSON *about, struct cbx_err *err)
{
	int r = write_about(dir, names, about, err);

	if (r >= 0 && (fsync(fd) < 0 || renameat(dir, names->part, dir, names->data) < 0 ||
		       renameat(dir, names->new_about, dir, names->about) < 0 || fsync(dir) < 0))
		r = cbx_fail(err, errno ? errno : EIO, "complete an artifact");
	return r;
}

static void forget(int dir, const struct names *names)
{
	(void)unlinkat(dir, names->about, 0);
	(void)unlinkat(dir, names->new_about, 0);
	(void)unlinkat(dir, names->part, 0);
	(void)unlinkat(dir, names->data, 0);
}

int cbx_artifact_file_put(int store, const cJSON *job, const char *p, size_t n, struct cbx_err *err)
{
	uint64_t offset = cbx_json_u64(job, "offset"), size = cbx_json_u64(job, "size");
	const cJSON *about = cbx_json_member(job, "about");
	_cleanup_fd_ int dir = open_tenant(store, job, offset == 0, err), fd = -1;
	struct names names;
	int r = dir < 0 ? dir : get_names(job, &names, err);

	if (r < 0)
		return r;
	if (size > CBX_ARTIFACT_SIZE_MAX || offset > size || n > size - offset)
		return wrong("offset", err);
	fd = offset ? openat(dir, names.part, O_RDWR | O_NOFOLLOW | O_CLOEXEC) : make_part(dir, &names, job, err);
	if (fd < 0)
		r = offset ? cbx_fail(err, errno, "open what is there of an artifact") : fd;
	if (r >= 0)
		r = write_at(fd, p, n, offset, err);
	if (r >= 0 && about)
		r = complete(dir, fd, &names, about, err);
	if (r < 0)
		forget(dir, &names);
	return r;
}

/* ---- read ---- */

/* The directory of a tenant that has it. */
static int holder(int store, const char *about)
{
	_cleanup_fd_ int copy = openat(store, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *e;
	struct stat st;
	int dir = -1;

	if (!d)
		return -ENOENT;
	copy = -1; /* of the stream */
	while (dir < 0 && (e = readdir(d))) {
		dir = e->d_name[0] == '.' ? -1 : open_dir(store, e->d_name);
		if (dir >= 0 && fstatat(dir, about, &st, AT_SYMLINK_NOFOLLOW) < 0) {
			close(dir);
			dir = -1;
		}
	}
	closedir(d);
	return dir;
}

int cbx_artifact_file_read(int store, const cJSON *job, cJSON **ret, struct cbx_buf *ret_bytes, struct cbx_err *err)
{
	uint64_t offset = cbx_json_u64(job, "offset"), length = cbx_json_u64(job, "length");
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	_cleanup_fd_ int dir = -1, fd = -1;
	struct names names;
	ssize_t n;
	int r = get_names(job, &names, err);

	if (r < 0)
		return r;
	dir = cbx_json_text(job, "tenant") ? open_tenant(store, job, false, err) : holder(store, names.about);
	if (dir < 0 || read_about(dir, names.about, &doc) < 0 || expired(doc.root))
		return gone(err);
	fd = openat(dir, names.data, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return gone(err);
	if (length > CBX_ARTIFACT_PIECE || offset > INT64_MAX)
		return wrong("length", err);
	n = pread(fd, cbx_buf_reserve(ret_bytes, (size_t)length), (size_t)length, (off_t)offset);
	if (n < 0)
		return cbx_fail(err, errno, "read an artifact");
	ret_bytes->len += (size_t)n;
	*ret = take_ptr(&doc.root);
	return 0;
}

/* ---- list, remove, sweep ---- */

static int add_about(int dir, const char *name, void *arg)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	cJSON *list = arg;

	if (name[0] != '.' && cbx_ends_with(name, ".json") && read_about(dir, name, &doc) >= 0 && !expired(doc.root))
		cbx_json_push(list, take_ptr(&doc.root));
	return 0;
}

static int by_age(const void *a, const void *b)
{
	const cJSON *x = *(const cJSON *const *)a, *y = *(const cJSON *const *)b;
	uint64_t i = cbx_json_u64(x, "created"), k = cbx_json_u64(y, "created");
	const char *m = cbx_json_text(x, "artifact_id"), *n = cbx_json_text(y, "artifact_id");

	return i != k ? (i > k) - (i < k) : strcmp(m ? m : "", n ? n : "");
}

int cbx_artifact_file_list(int store, const cJSON *job, cJSON *answer, struct cbx_err *err)
{
	_cleanup_fd_ int dir = open_tenant(store, job, false, err);
	cJSON *list = cbx_json_new_arr(), **all;
	struct use use = { 0 };
	size_t n = 0;

	cbx_json_set(answer, "artifacts", list);
	if (dir < 0) {
		cbx_json_set_u64(answer, "bytes", 0);
		return strcmp(err->kind, "artifact_not_found") == 0 ? 0 : dir;
	}
	(void)each(dir, add_about, list);
	(void)each(dir, add_use, &use);
	all = cbx_xcalloc((size_t)cJSON_GetArraySize(list) + 1, sizeof(*all));
	while (list->child)
		all[n++] = cJSON_DetachItemViaPointer(list, list->child);
	qsort(all, n, sizeof(*all), by_age);
	for (size_t i = 0; i < n; i++)
		cbx_json_push(list, all[i]);
	free(all);
	cbx_json_set_u64(answer, "bytes", use.bytes);
	return 0;
}

int cbx_artifact_file_stored(int store, const cJSON *job, struct cbx_err *err)
{
	const cJSON *about = cbx_json_member(job, "about");
	_cleanup_fd_ int dir = open_tenant(store, job, false, err);
	struct names names;
	struct stat st;
	int r = dir < 0 ? dir : get_names(job, &names, err);

	if (r < 0)
		return r;
	if (!cJSON_IsObject(about) || fstatat(dir, names.about, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return gone(err);
	r = write_about(dir, &names, about, err);
	if (r >= 0 && (renameat(dir, names.new_about, dir, names.about) < 0 || fsync(dir) < 0))
		r = cbx_fail(err, errno, "describe an artifact");
	if (r < 0)
		(void)unlinkat(dir, names.new_about, 0);
	return r;
}

int cbx_artifact_file_remove(int store, const cJSON *job, cJSON *answer, struct cbx_err *err)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	_cleanup_fd_ int dir = open_tenant(store, job, false, err);
	struct names names;
	struct stat st;
	int r = dir < 0 ? dir : get_names(job, &names, err);

	if (r < 0)
		return r;
	if (fstatat(dir, names.about, &st, AT_SYMLINK_NOFOLLOW) < 0 && fstatat(dir, names.part, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return gone(err);
	if (read_about(dir, names.about, &doc) >= 0 && cJSON_HasObjectItem(doc.root, "object"))
		cbx_json_set(answer, "object", cJSON_DetachItemFromObjectCaseSensitive(doc.root, "object"));
	forget(dir, &names);
	return 0;
}

/* What was never completed, and what has lost its other half, is old before it goes. */
static int sweep_one(int dir, const char *name, void *arg)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	_cleanup_free_ char *about = cbx_xasprintf("%s.json", name), *data = cbx_xstrdup(name);
	struct stat st;

	if (name[0] != '.' && cbx_ends_with(name, ".json")) {
		if (read_about(dir, name, &doc) >= 0 && !expired(doc.root))
			return 0;
		data[strlen(data) - strlen(".json")] = '\0';
		(void)unlinkat(dir, name, 0);
		(void)unlinkat(dir, data, 0);
	} else if (name[0] == '.' || fstatat(dir, about, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    st.st_ctim.tv_sec + CBX_ARTIFACT_ABANDONED_S < time(NULL))
			(void)unlinkat(dir, name, 0);
	}
	return 0;
}

static int sweep_tenant(int store, const char *name, void *arg)
{
	_cleanup_fd_ int dir = open_dir(store, name);

	if (dir >= 0 && flock(dir, LOCK_EX) == 0)
		(void)each(dir, sweep_one, NULL);
	return 0;
}

int cbx_artifact_file_sweep(int store, struct cbx_err *err)
{
	int r = each(store, sweep_tenant, NULL);

	return r < 0 ? cbx_fail(err, -r, "look at the artifacts") : 0;
}
