/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a depth-first walk by descriptors, names sorted within each directory, so that the same tree
 * gives the same text on every machine. Sizes, modes, contents and link targets count; times, owners and link counts do
 * not, since they say nothing about what a program sees.
 *
 * Comparing is one merge over the two texts: both are in walk order, which is the order of paths compared component by
 * component.
 */
#include "image/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "image/image-limits.h"
#include "image/tree.h"

struct cbx_scan_sum {
	uint64_t dev, ino, size;
	int64_t mtime_ns;
	char sum[65]; /* "": free */
};

struct walk {
	struct cbx_scan *scan;
	struct cbx_scan_known *known;
	struct cbx_err *err;
	char path[CBX_UNPACK_PATH_MAX];
	size_t len;
	int depth;
};

void cbx_scan_digest(const void *p, size_t n, char out[72])
{
	uint8_t sum[SHA256_DIGEST_SIZE];
	struct sha256_ctx c;

	sha256_init(&c);
	sha256_update(&c, n, p);
	sha256_digest(&c, sizeof(sum), sum);
	memcpy(out, "sha256:", 7);
	cbx_hex(sum, sizeof(sum), out + 7);
}

int cbx_scan_hash_fd(int fd, char out[65], struct cbx_err *err)
{
	_cleanup_free_ uint8_t *chunk = cbx_xcalloc(1, KIB(256));
	uint8_t sum[SHA256_DIGEST_SIZE];
	struct sha256_ctx c;

	sha256_init(&c);
	for (;;) {
		ssize_t n = read(fd, chunk, KIB(256));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return cbx_fail(err, errno, "read");
		if (n == 0)
			break;
		sha256_update(&c, (size_t)n, chunk);
	}
	sha256_digest(&c, sizeof(sum), sum);
	cbx_hex(sum, sizeof(sum), out);
	return 0;
}

static struct cbx_scan_sum sum_of(const struct stat *st)
{
	return (struct cbx_scan_sum){ .dev = st->st_dev,
				      .ino = st->st_ino,
				      .size = (uint64_t)st->st_size,
				      .mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec };
}

/* Where it is, or where it belongs. */
static struct cbx_scan_sum *place_of(const struct cbx_scan_known *known, const struct cbx_scan_sum *s)
{
	size_t i = (size_t)(s->ino * 0x9e3779b97f4a7c15u) % known->size;

	while (known->all[i].sum[0] && (known->all[i].ino != s->ino || known->all[i].dev != s->dev ||
					known->all[i].size != s->size || known->all[i].mtime_ns != s->mtime_ns))
		i = (i + 1) % known->size;
	return &known->all[i];
}

static void learn(struct cbx_scan_known *known, const struct stat *st, const char *sum)
{
	struct cbx_scan_sum s = sum_of(st);

	if (known->n * 2 >= known->size) {
		struct cbx_scan_known more = { .size = known->size ? known->size * 2 : 1024, .n = known->n };

		more.all = cbx_xcalloc(more.size, sizeof(*more.all));
		for (size_t i = 0; i < known->size; i++)
			if (known->all[i].sum[0])
				*place_of(&more, &known->all[i]) = known->all[i];
		free(known->all);
		*known = more;
	}
	strcpy(s.sum, sum);
	known->n += !place_of(known, &s)->sum[0];
	*place_of(known, &s) = s;
}

void cbx_scan_known_release(struct cbx_scan_known *known)
{
	free(known->all);
	*known = (struct cbx_scan_known){ 0 };
}

static void add_plain(struct cbx_buf *out, const char *s)
{
	for (; *s; s++)
		cbx_buf_addc(out, (unsigned char)*s < 0x20 || *s == 0x7f ? '?' : *s);
}

static void add_line(struct walk *w, char type, unsigned mode, uint64_t size, const char *sum, const char *target)
{
	struct cbx_buf *out = &w->scan->text;

	cbx_buf_addc(out, type);
	cbx_buf_addf(out, type == 'f' || type == 'd' ? "\t%04o" : "\t-", mode);
	if (type == 'f')
		cbx_buf_addf(out, "\t%llu\t%s\t", (unsigned long long)size, sum);
	else
		cbx_buf_adds(out, "\t-\t-\t");
	add_plain(out, w->path);
	cbx_buf_addc(out, '\t');
	add_plain(out, target);
	cbx_buf_addc(out, '\n');
}

static int scan_dir(struct walk *w, int dir);

static int hash_file(struct walk *w, int dir, const char *name, const struct stat *st, char sum[65])
{
	_cleanup_fd_ int fd = cbx_tree_openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	int r;

	if (fd < 0)
		return fd == -EACCES ? 0 : cbx_fail(w->err, -fd, "open %s", w->path);
	r = cbx_scan_hash_fd(fd, sum, w->err);
	if (r < 0)
		return cbx_wrap(w->err, "%s", w->path);
	if (w->known)
		learn(w->known, st, sum);
	return 0;
}

static int scan_file(struct walk *w, int dir, const char *name, const struct stat *st)
{
	struct cbx_scan_sum s = sum_of(st);
	char sum[65] = "unreadable";

	if (w->known && w->known->n)
		strcpy(s.sum, place_of(w->known, &s)->sum);
	if (s.sum[0])
		strcpy(sum, s.sum);
	else if (hash_file(w, dir, name, st, sum) < 0)
		return -w->err->code;
	w->scan->files++;
	w->scan->bytes += (uint64_t)st->st_size;
	add_line(w, 'f', st->st_mode & 07777, (uint64_t)st->st_size, sum, "");
	return 0;
}

static int scan_entry(struct walk *w, int dir, const char *name)
{
	char target[CBX_UNPACK_PATH_MAX];
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return cbx_fail(w->err, errno, "look at %s", w->path);
	if (!cbx_plain(name)) {
		add_line(w, '?', 0, 0, "", "");
		return 0;
	}
	if (S_ISREG(st.st_mode))
		return scan_file(w, dir, name, &st);
	if (S_ISLNK(st.st_mode)) {
		ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

		if (n < 0)
			return cbx_fail(w->err, errno, "read the link %s", w->path);
		target[n] = '\0';
		add_line(w, 'l', 0, 0, "", target);
		return 0;
	}
	if (S_ISDIR(st.st_mode)) {
		_cleanup_fd_ int sub = cbx_tree_openat(dir, name, O_RDONLY | O_DIRECTORY, 0);

		add_line(w, 'd', st.st_mode & 07777, 0, "", "");
		if (sub == -EACCES)
			return 0; /* its contents will be reported as missing */
		if (sub < 0)
			return cbx_fail(w->err, -sub, "open %s", w->path);
		return scan_dir(w, sub);
	}
	add_line(w, '?', 0, 0, "", "");
	return 0;
}

static int scan_dir(struct walk *w, int dir)
{
	size_t len = w->len, n;
	char **names;
	int r = cbx_tree_names(dir, &names, &n, w->err);

	if (r < 0)
		return cbx_wrap(w->err, "%s", w->path);
	if (++w->depth > CBX_UNPACK_DEPTH_MAX)
		r = cbx_refuse(w->err, "image_damaged", ELOOP, "%s: directories nested too deeply", w->path);
	for (size_t i = 0; i < n && r == 0; i++) {
		int add = snprintf(w->path + len, sizeof(w->path) - len, "%s%s", len ? "/" : "", names[i]);

		if (add < 0 || (size_t)add >= sizeof(w->path) - len) {
			r = cbx_fail(w->err, ENAMETOOLONG, "a path in the image");
			break;
		}
		w->len = len + (size_t)add;
		r = scan_entry(w, dir, names[i]);
		if (r == 0 && w->scan->text.len > CBX_LISTING_MAX)
			r = cbx_refuse(w->err, "image_damaged", EFBIG, "the image has too many files");
	}
	w->depth--;
	w->len = len;
	w->path[len] = '\0';
	cbx_tree_names_free(names, n);
	return r;
}

int cbx_scan_tree(int root, struct cbx_scan *ret, struct cbx_err *err)
{
	return cbx_scan_tree_known(root, NULL, ret, err);
}

int cbx_scan_tree_known(int root, struct cbx_scan_known *known, struct cbx_scan *ret, struct cbx_err *err)
{
	struct walk w = { .scan = ret, .known = known, .err = err };
	int r;

	memset(ret, 0, sizeof(*ret));
	r = scan_dir(&w, root);
	if (r < 0)
		cbx_scan_release(ret);
	return r;
}

void cbx_scan_release(struct cbx_scan *scan)
{
	cbx_buf_release(&scan->text);
}

struct line {
	const char *start, *path;
	size_t len, path_len;
};

static bool next_line(const char **at, struct line *ret)
{
	const char *end = *at, *p;
	int tabs = 0;

	if (!**at)
		return false;
	end += strcspn(end, "\n");
	ret->start = *at;
	ret->len = (size_t)(end - *at);
	for (p = *at; p < end && tabs < 4; p++)
		tabs += *p == '\t';
	ret->path = p;
	ret->path_len = 0;
	while (p + ret->path_len < end && p[ret->path_len] != '\t')
		ret->path_len++;
	*at = *end ? end + 1 : end;
	return true;
}

/* "a/b" comes before "a-b" in a walk: compare as if "/" were the smallest byte. */
static int compare_paths(const struct line *a, const struct line *b)
{
	for (size_t i = 0;; i++) {
		int ca = i < a->path_len ? (a->path[i] == '/' ? 1 : (unsigned char)a->path[i] + 1) : 0;
		int cb = i < b->path_len ? (b->path[i] == '/' ? 1 : (unsigned char)b->path[i] + 1) : 0;

		if (ca != cb)
			return ca - cb;
		if (!ca)
			return 0;
	}
}

uint64_t cbx_scan_compare(const char *then, const char *now,
			  void (*tell)(void *arg, const char *what, const char *path), void *arg)
{
	struct line a, b;
	bool have_a = next_line(&then, &a), have_b = next_line(&now, &b);
	uint64_t differences = 0;

	while (have_a || have_b) {
		int c = !have_a ? 1 : !have_b ? -1 : compare_paths(&a, &b);
		const char *what = c < 0 ? "missing" : c > 0 ? "added" : "changed";
		const struct line *which = c > 0 ? &b : &a;

		if (c != 0 || a.len != b.len || memcmp(a.start, b.start, a.len) != 0) {
			char path[CBX_UNPACK_PATH_MAX];

			snprintf(path, sizeof(path), "%.*s", (int)which->path_len, which->path);
			tell(arg, what, path);
			differences++;
		}
		if (c <= 0)
			have_a = next_line(&then, &a);
		if (c >= 0)
			have_b = next_line(&now, &b);
	}
	return differences;
}
