/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a wheel, or an npm package, that the store lacks is fetched by a process that can do nothing
 * else, and unpacked by image/worker.c, which can do nothing else either; a large wheel while it comes (parts.c). Its
 * sum is computed here and compared with what was judged. Only then it comes into the store, by one rename, under that
 * sum.
 */
#include <errno.h>
#include <fcntl.h>
#include <nettle/nettle-meta.h>
#include <nettle/sha2.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/remove.h"
#include "base/str.h"
#include "image/unpack.h"
#include "installer/install.h"
#include "packages/job.h"
#include "packages/kind.h"

#define FETCHES_MAX 6	   /* at once */
#define ENTRIES_MAX 50000  /* of one wheel */
#define LARGE	    MIB(4) /* unpacked while it comes */
#define TEMPORARY   60	   /* bytes of a name */
#define LESS_URGENT 5	   /* as nice(2) counts */
#define PIPE_BYTES  (1 << 20)

/* Where its tree is. One of conda has links, which what puts wheels in their places does not expect: a file that is
 * both has two trees. Behind "w/" it is the name of the note of what the tree holds, too. */
void cbx_stored_name(const struct cbx_wheel *w, char ret[CBX_STORED_NAME])
{
	snprintf(ret, CBX_STORED_NAME, "w/%s%s", w->build ? "c-" : "", w->sum);
}

/* ---- one wheel ---- */

int cbx_error_of(const struct cbx_wheel *w, struct cbx_err *err)
{
	struct cbx_err why = *err;

	return cbx_refuse(err, why.kind, why.code, "%s %s: %.400s%s%s", cbx_kind_bare(w->name), w->version, why.msg,
			  w->direct ? "" : "; it is needed by ", w->direct ? "" : w->path);
}

struct fetching {
	const struct cbx_installation *in;
	const struct cbx_wheel *wheel;
	int fd;
	int from, to; /* of a pipe, if it is to be unpacked while it comes; else -1 */
};

static void name_temporary(const struct cbx_installation *in, char ret[TEMPORARY])
{
	char random[13];

	cbx_random_name(random, 12);
	snprintf(ret, TEMPORARY, "t/%s/%s", in->token, random);
}

/* Without a name. *ret_read, if wanted, cannot be written to. */
static int temporary_file(const struct cbx_installation *in, int *ret, int *ret_read, struct cbx_err *err)
{
	char path[TEMPORARY];

	name_temporary(in, path);
	*ret = openat(in->store->own, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (*ret < 0)
		return cbx_fail(err, errno, "keep a wheel");
	if (ret_read)
		*ret_read = openat(in->store->own, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (unlinkat(in->store->own, path, 0) < 0 || (ret_read && *ret_read < 0))
		return cbx_fail(err, errno, "keep a wheel");
	return 0;
}

static int fetch_from(const struct fetching *f, const struct cbx_index *index, struct cbx_fetcher *fetcher,
		      const char *url, FILE *out, struct cbx_err *err)
{
	struct cbx_fetch what = { .url = url, .max = f->in->bytes_max, .together = &f->in->spent->fetched };
	_cleanup_fclose_ FILE *pipe = f->to < 0 ? NULL : fdopen(fcntl(f->to, F_DUPFD_CLOEXEC, 0), "w");
	int r = 0;

	if (pipe && !index->dir) {
		what.size = f->wheel->size;
		r = cbx_fetch_in_parts(fetcher, index, f->in->store, &what, out, pipe, err);
	}
	return r != 0 || ftello(out) > 0 ? r : cbx_fetch(fetcher, index, &what, out, err);
}

static int fetch(const struct fetching *f, struct cbx_err *err)
{
	const char *url = f->wheel->url;
	const struct cbx_indexes *from = &f->in->indexes;
	const struct cbx_index *index = NULL;
	bool built;
	_cleanup_free_ char *found = NULL;
	_cleanup_(cbx_index_release) struct cbx_index registry = { 0 };
	_cleanup_(cbx_indexes_release) struct cbx_indexes channel = { 0 };
	_cleanup_(cbx_fetcher_release) struct cbx_fetcher fetcher = { 0 };
	const char *path = NULL;
	_cleanup_fclose_ FILE *out = fdopen(fcntl(f->fd, F_DUPFD_CLOEXEC, 0), "w+");
	int r = out ? 0 : cbx_fail(err, errno, "keep a wheel");

	if (r >= 0 && f->wheel->build) {
		r = cbx_channel_find(f->in->job, url, &channel, &path, err);
		index = &channel.all[0];
	} else if (r >= 0 && f->wheel->place) {
		r = cbx_registry_find(f->in->registry, cbx_kind_bare(f->wheel->name), &registry, err);
		index = &registry;
	} else if (r >= 0 && url) {
		index = cbx_index_of(from, url);
	}
	built = url && cbx_starts_with(url, CBX_BUILT);
	if (r >= 0 && url && !built)
		r = cbx_index_allows(index, url, err);
	if (r >= 0)
		r = built   ? cbx_confine_link(f->in->store, err)
		    : index ? cbx_confine_fetch(index, 1, NULL, f->in->store, err)
			    : cbx_confine_fetch(from->all, from->n, NULL, f->in->store, err);
	if (r >= 0 && !url) {
		r = cbx_find_wheel(&fetcher, from, f->in->store, f->wheel, &found, err);
		url = found;
		index = r < 0 ? NULL : cbx_index_of(from, url);
	}
	if (r >= 0 && cbx_kept_take(f->in->store, url, out))
		r = cbx_fetch_count(&f->in->spent->fetched, (uint64_t)ftello(out), f->in->bytes_max, "the index", err);
	else if (r >= 0 && built)
		r = cbx_refuse(err, "not_found", ENOENT,
			       "it was built from its sources, and is not kept any more; install it in a new session");
	else if (r >= 0)
		r = fetch_from(f, index, &fetcher, url, out, err);
	if (r >= 0 && fflush(out) != 0)
		r = cbx_fail(err, errno, "keep a wheel");
	return r;
}

static int fetch_wheel(void *arg, struct cbx_err *err)
{
	const struct fetching *f = arg;

	if (f->from >= 0)
		close(f->from); /* who reads it may end first */
	return fetch(f, err);
}

int cbx_check_digest(const struct cbx_wheel *w, const uint8_t *digest, struct cbx_err *err)
{
	char sum[sizeof(w->sum)];

	cbx_hex(digest, w->place ? SHA512_DIGEST_SIZE : SHA256_DIGEST_SIZE, sum);
	if (strcmp(sum, w->sum) == 0)
		return 0;
	return cbx_refuse(err, "wrong_hash", EBADMSG,
			  "%s is not the file that the %s promised: its %s is %.64s, not %.64s; it was not installed",
			  w->file,
			  w->place   ? "registry"
			  : w->build ? "channel"
				     : "index",
			  w->place ? "SHA-512" : "SHA-256", sum, w->sum);
}

static int check_sum(int fd, const struct cbx_wheel *w, struct cbx_err *err)
{
	const struct nettle_hash *hash = w->place ? &nettle_sha512 : &nettle_sha256;
	uint8_t chunk[65536], digest[SHA512_DIGEST_SIZE];
	union {
		struct sha256_ctx wheel;
		struct sha512_ctx package;
	} c;
	ssize_t n;

	hash->init(&c);
	if (lseek(fd, 0, SEEK_SET) < 0)
		return cbx_fail(err, errno, "read %s", w->file);
	while ((n = cbx_read_full(fd, chunk, sizeof(chunk))) > 0)
		hash->update(&c, (size_t)n, chunk);
	if (n < 0)
		return cbx_fail(err, (int)-n, "read %s", w->file);
	hash->digest(&c, hash->digest_size, digest);
	return cbx_check_digest(w, digest, err);
}

struct checking {
	const struct cbx_store_dirs *store;
	int tree; /* owned by who begins */
	const struct cbx_wheel *wheel;
	struct cbx_unpack_options options;
};

int cbx_package_check(int tree, const struct cbx_wheel *w, struct cbx_err *err)
{
	return w->place	  ? cbx_npm_check(tree, w, err)
	       : w->build ? cbx_conda_check(tree, w, err)
			  : cbx_wheel_check(tree, w->name, w->version, err);
}

static int check_tree(void *arg, struct cbx_err *err)
{
	const struct checking *c = arg;
	int r = cbx_confine_link(c->store, err);
	char stored[CBX_STORED_NAME];

	if (r >= 0)
		r = cbx_package_check(c->tree, c->wheel, err);
	if (r >= 0 && c->wheel->build)
		r = cbx_conda_split(c->tree, &c->options, err);
	if (r < 0)
		return r;
	cbx_stored_name(c->wheel, stored);
	r = cbx_tree_keep(c->store, c->tree, stored + 2);
	return r < 0 ? cbx_fail(err, -r, "note what it holds") : 0;
}

int cbx_unpacks_too_much(const struct cbx_installation *in, struct cbx_err *err)
{
	char size[32];

	cbx_format_size(in->bytes_max * CBX_UNPACKED_RATIO, size);
	return cbx_refuse(
		err, "too_large", EFBIG,
		"unpacked, the files of the installation are more than %s, with %d KiB for each of them: %d times "
		"what the policy allows for them packed (install_size); install fewer packages at once, or ask "
		"whoever runs codebox to change the policy",
		size, CBX_ENTRY_BYTES / 1024, CBX_UNPACKED_RATIO);
}

static int make_tree(const struct cbx_installation *in, const struct cbx_wheel *w, const char *path, int *ret,
		     struct cbx_err *err)
{
	if (mkdirat(in->store->own, path, 0755) < 0 || fchmodat(in->store->own, path, 0755, 0) < 0 ||
	    (*ret = openat(in->store->own, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
		return cbx_fail(err, errno, "unpack %s", w->file);
	return 0;
}

/* arriving: NULL: all has come. */
static int unpack(const struct fetching *f, int fd, const struct cbx_arriving *arriving, const char *path,
		  struct checking *c, struct cbx_err *err)
{
	const struct cbx_installation *in = f->in;
	const struct cbx_wheel *w = f->wheel;
	/* What a package of npm brings along of others is judged, and installed, as what it needs. */
	static const char *const others[] = { "*/node_modules", "*/node_modules/*", NULL };
	struct cbx_unpack_options *o = &c->options;
	struct cbx_unpack_stats stats;
	struct stat st;
	int r = make_tree(in, w, path, &c->tree, err);

	if (r >= 0 && fstat(fd, &st) < 0)
		r = cbx_fail(err, errno, "unpack %s", w->file);
	if (r < 0)
		return r;
	*o = (struct cbx_unpack_options){ .format = w->place ? CBX_ARCHIVE_PACKAGE : CBX_ARCHIVE_WHEEL,
					  .exclude = w->place ? others : NULL,
					  .max_entries = ENTRIES_MAX,
					  .max_bytes = in->bytes_max * CBX_UNPACKED_RATIO,
					  .together = &in->spent->unpacked,
					  .entry_bytes = CBX_ENTRY_BYTES,
					  .packed_bytes = w->place || w->build ? 0 : (uint64_t)st.st_size,
					  .arriving = arriving };
	if (w->build) {
		_cleanup_free_ char *beside = cbx_xasprintf("%s.zip", path);

		r = cbx_conda_unpack(fd, in->store, beside, w, c->tree, o, err);
	} else {
		r = cbx_unpack_in_worker(fd, c->tree, o, &stats, NULL, NULL, err);
	}
	if (r < 0 && in->spent->unpacked > o->max_bytes)
		r = cbx_unpacks_too_much(in, err);
	return r < 0 ? cbx_wrap(err, "%s", w->file) : 0;
}

static int take_whole(const struct fetching *f, const char *path, struct checking *c, struct cbx_err *err)
{
	int r = check_sum(f->fd, f->wheel, err);

	return r < 0 ? r : unpack(f, f->fd, NULL, path, c, err);
}

/*
 * While it comes, if it does in parts. What did not come was not copied, and what is not what was promised may well
 * fail to be unpacked: the first of these counts. *ret_archive is closed by the caller: to give back what a large file
 * has takes a while.
 */
static int take_coming(struct fetching *f, struct cbx_apart *fetch, const char *path, struct checking *c,
		       int *ret_archive, struct cbx_err *err)
{
	_cleanup_fd_ int to = -1;
	struct cbx_copying copying = { .wheel = f->wheel, .from = f->from };
	void *page = mmap(NULL, sizeof(*copying.arriving), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct cbx_err not_copied, not_unpacked;
	struct cbx_apart copier;
	int copied = page == MAP_FAILED ? cbx_fail(&not_copied, errno, "share a page with the process that copies")
					: temporary_file(f->in, &to, ret_archive, &not_copied);
	int unpacked = 0, fetched;
	bool coming = false;

	copying.to = to;
	copying.arriving = page;
	if (copied >= 0)
		copied = cbx_apart_begin(cbx_arrive, &copying, &copier, &not_copied);
	cbx_close_p(&f->from);
	if (copied >= 0) {
		coming = cbx_arrives(page, &copier);
		if (coming)
			unpacked = unpack(f, *ret_archive, page, path, c, &not_unpacked);
		copied = cbx_apart_end(&copier, &not_copied);
	}
	if (page != MAP_FAILED)
		munmap(page, sizeof(*copying.arriving));
	fetched = cbx_apart_end(fetch, err);
	if (fetched >= 0 && copied >= 0 && !coming)
		return take_whole(f, path, c, err);
	if (fetched >= 0 && (copied < 0 || unpacked < 0))
		*err = copied < 0 ? not_copied : not_unpacked;
	return fetched < 0 ? fetched : copied < 0 ? copied : unpacked;
}

/* It has been unpacked, and is what was judged. */
static int keep(const struct fetching *f, const char *path, struct checking *c, int *archive, struct cbx_err *err)
{
	char stored[CBX_STORED_NAME];
	struct cbx_apart p;
	int r = cbx_apart_begin(check_tree, c, &p, err);

	cbx_close_p(archive);
	if (r >= 0)
		r = cbx_apart_end(&p, err);
	cbx_stored_name(f->wheel, stored);
	/* Another installation may have been quicker. */
	if (r >= 0 && renameat(f->in->store->own, path, f->in->store->all, stored) < 0 && errno != ENOTEMPTY &&
	    errno != EEXIST)
		r = cbx_fail(err, errno, "keep %s", f->wheel->file);
	return r;
}

static int fetch_and_take(struct fetching *f, struct cbx_err *err)
{
	struct checking c = { .store = f->in->store, .wheel = f->wheel, .tree = -1 };
	_cleanup_fd_ int archive = -1;
	char path[TEMPORARY];
	struct cbx_apart p;
	int r = cbx_apart_begin(fetch_wheel, f, &p, err);

	cbx_close_p(&f->to);
	if (r < 0)
		return r;
	name_temporary(f->in, path);
	if (f->from >= 0) {
		r = take_coming(f, &p, path, &c, &archive, err);
	} else {
		r = cbx_apart_end(&p, err);
		if (r >= 0)
			r = take_whole(f, path, &c, err);
	}
	if (r >= 0)
		r = keep(f, path, &c, &archive, err);
	cbx_close_p(&c.tree);
	(void)cbx_remove_tree(f->in->store->own, path, CBX_REMOVE_MAX);
	return r;
}

static bool is_large(const struct cbx_wheel *w)
{
	return !w->place && !w->build && w->size >= LARGE && !(w->url && cbx_starts_with(w->url, CBX_BUILT));
}

static int get_wheel(struct fetching *f, struct cbx_err *err)
{
	_cleanup_fd_ int tmp = -1;
	int fds[2], r = temporary_file(f->in, &tmp, NULL, err);

	f->fd = tmp;
	f->from = f->to = -1;
	if (r >= 0 && is_large(f->wheel)) {
		if (pipe2(fds, O_CLOEXEC) < 0)
			return cbx_fail(err, errno, "make a pipe");
		f->from = fds[0];
		f->to = fds[1];
		(void)fcntl(fds[0], F_SETPIPE_SZ, PIPE_BYTES); /* a smaller one will do */
	}
	if (r >= 0)
		r = fetch_and_take(f, err);
	cbx_close_p(&f->from);
	cbx_close_p(&f->to);
	return r < 0 ? cbx_error_of(f->wheel, err) : r;
}

bool cbx_stored(const struct cbx_installation *in, const struct cbx_wheel *w)
{
	char stored[CBX_STORED_NAME];

	cbx_stored_name(w, stored);
	return faccessat(in->store->all, stored, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* ---- all of them ---- */

struct turns {
	const struct cbx_installation *in;
	uint64_t number;		/* of the process, from 1 */
	uint16_t order[CBX_WHEELS_MAX]; /* indexes of wheels */
};

/* The largest takes longest to come and to be unpacked, and by then all others are there. */
static int larger_first(const void *a, const void *b, void *arg)
{
	const struct cbx_wheel *wheels = arg, *x = &wheels[*(const uint16_t *)a], *y = &wheels[*(const uint16_t *)b];

	return x->size > y->size ? -1 : x->size < y->size ? 1 : x < y ? -1 : x > y;
}

/* Each of FETCHES_MAX processes takes the next one, until none is left or another has failed: what comes to pass then
 * may be of the first one's making. */
static int get_some(void *arg, struct cbx_err *err)
{
	const struct turns *t = arg;
	const struct cbx_installation *in = t->in;
	uint64_t turn, none = 0;
	int r = 0;

	if (t->number > 1) /* the first has the largest, for which the others may have to wait */
		(void)setpriority(PRIO_PROCESS, 0, LESS_URGENT);
	while (r >= 0 && !in->spent->failed && (turn = atomic_fetch_add(&in->spent->turns, 1)) < in->lock.n) {
		size_t i = t->order[turn];
		struct fetching f = { .in = in, .wheel = &in->lock.wheels[i] };

		if (!cbx_lock_again(&in->lock, i) && !cbx_stored(in, f.wheel))
			r = get_wheel(&f, err);
	}
	if (r < 0)
		(void)atomic_compare_exchange_strong(&in->spent->failed, &none, t->number);
	return r;
}

int cbx_get_all(const struct cbx_installation *in, struct cbx_err *err)
{
	struct cbx_apart all[FETCHES_MAX];
	struct turns t = { .in = in };
	size_t n = 0;
	char path[60];
	int r = 0;

	snprintf(path, sizeof(path), "t/%s", in->token);
	if (mkdirat(in->store->own, path, 0700) < 0)
		return cbx_fail(err, errno, "make a directory for what is fetched");
	for (size_t i = 0; i < in->lock.n; i++)
		t.order[i] = (uint16_t)i;
	qsort_r(t.order, in->lock.n, sizeof(t.order[0]), larger_first, in->lock.wheels);
	in->spent->turns = in->spent->failed = 0;
	while (r >= 0 && n < FETCHES_MAX && n < in->lock.n) {
		t.number = n + 1;
		r = cbx_apart_begin(get_some, &t, &all[n], err);
		n += r >= 0;
	}
	for (size_t i = 0; i < n; i++) {
		struct cbx_err theirs;
		int ended = cbx_apart_end(&all[i], &theirs);

		if (ended < 0 && (r >= 0 || in->spent->failed == i + 1)) {
			*err = theirs;
			r = ended;
		}
	}
	(void)cbx_remove_tree(in->store->own, path, CBX_REMOVE_MAX);
	return r;
}
