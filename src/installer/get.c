/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a wheel, or an npm package, that the store lacks is fetched by a process that can do nothing
 * else, its sum is computed here and compared with what was judged, and it is unpacked by image/worker.c, which can do
 * nothing else either. Only then it comes into the store, by one rename, under that sum.
 */
#include <errno.h>
#include <fcntl.h>
#include <nettle/nettle-meta.h>
#include <nettle/sha2.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/remove.h"
#include "base/str.h"
#include "image/unpack.h"
#include "installer/install.h"
#include "packages/job.h"
#include "packages/kind.h"

#define FETCHES_MAX 6	  /* at once */
#define ENTRIES_MAX 50000 /* of one wheel */

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
};

static int fetch_wheel(void *arg, struct cbx_err *err)
{
	const struct fetching *f = arg;
	const char *url = f->wheel->url;
	const struct cbx_indexes *from = &f->in->indexes;
	const struct cbx_index *index = NULL;
	bool built;
	_cleanup_free_ char *found = NULL;
	_cleanup_(cbx_index_release) struct cbx_index registry = { 0 };
	_cleanup_(cbx_indexes_release) struct cbx_indexes channel = { 0 };
	_cleanup_(cbx_fetcher_release) struct cbx_fetcher fetcher = { 0 };
	struct cbx_fetch what = { .max = f->in->bytes_max, .together = &f->in->spent->fetched };
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
	what.url = url;
	if (r >= 0 && cbx_kept_take(f->in->store, url, out))
		r = cbx_fetch_count(&f->in->spent->fetched, (uint64_t)ftello(out), f->in->bytes_max, "the index", err);
	else if (r >= 0 && built)
		r = cbx_refuse(err, "not_found", ENOENT,
			       "it was built from its sources, and is not kept any more; install it in a new session");
	else if (r >= 0)
		r = cbx_fetch(&fetcher, index, &what, out, err);
	if (r >= 0 && fflush(out) != 0)
		r = cbx_fail(err, errno, "keep a wheel");
	return r;
}

static int check_sum(int fd, const struct cbx_wheel *w, struct cbx_err *err)
{
	const struct nettle_hash *hash = w->place ? &nettle_sha512 : &nettle_sha256;
	uint8_t chunk[65536], digest[SHA512_DIGEST_SIZE];
	union {
		struct sha256_ctx wheel;
		struct sha512_ctx package;
	} c;
	char sum[sizeof(w->sum)];
	ssize_t n;

	hash->init(&c);
	if (lseek(fd, 0, SEEK_SET) < 0)
		return cbx_fail(err, errno, "read %s", w->file);
	while ((n = cbx_read_full(fd, chunk, sizeof(chunk))) > 0)
		hash->update(&c, (size_t)n, chunk);
	if (n < 0)
		return cbx_fail(err, (int)-n, "read %s", w->file);
	hash->digest(&c, hash->digest_size, digest);
	cbx_hex(digest, hash->digest_size, sum);
	if (strcmp(sum, w->sum) != 0)
		return cbx_refuse(
			err, "wrong_hash", EBADMSG,
			"%s is not the file that the %s promised: its %s is %.64s, not %.64s; it was not installed",
			w->file,
			w->place   ? "registry"
			: w->build ? "channel"
				   : "index",
			w->place ? "SHA-512" : "SHA-256", sum, w->sum);
	return 0;
}

struct checking {
	const struct cbx_store_dirs *store;
	int tree;
	const struct cbx_wheel *wheel;
	const struct cbx_unpack_options *options;
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
		r = cbx_conda_split(c->tree, c->options, err);
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

static int unpack(const struct cbx_installation *in, const struct cbx_wheel *w, int fd, const char *path,
		  struct cbx_err *err)
{
	struct stat st;
	/* What a package of npm brings along of others is judged, and installed, as what it needs. */
	static const char *const others[] = { "*/node_modules", "*/node_modules/*", NULL };
	struct cbx_unpack_options o = { .format = w->place ? CBX_ARCHIVE_PACKAGE : CBX_ARCHIVE_WHEEL,
					.exclude = w->place ? others : NULL,
					.max_entries = ENTRIES_MAX,
					.max_bytes = in->bytes_max * CBX_UNPACKED_RATIO,
					.together = &in->spent->unpacked,
					.entry_bytes = CBX_ENTRY_BYTES };
	struct cbx_unpack_stats stats;
	_cleanup_fd_ int tree = -1;
	struct checking c = { .store = in->store, .wheel = w, .options = &o };
	int r;

	if (fstat(fd, &st) < 0 || mkdirat(in->store->own, path, 0755) < 0 ||
	    fchmodat(in->store->own, path, 0755, 0) < 0)
		return cbx_fail(err, errno, "unpack %s", w->file);
	o.packed_bytes = w->place ? 0 : (uint64_t)st.st_size;
	tree = openat(in->store->own, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (tree < 0)
		return cbx_fail(err, errno, "unpack %s", w->file);
	if (w->build) {
		_cleanup_free_ char *beside = cbx_xasprintf("%s.zip", path);

		o.packed_bytes = 0;
		r = cbx_conda_unpack(fd, in->store, beside, w, tree, &o, err);
	} else {
		r = cbx_unpack_in_worker(fd, tree, &o, &stats, NULL, NULL, err);
	}
	if (r < 0 && in->spent->unpacked > o.max_bytes)
		r = cbx_unpacks_too_much(in, err);
	if (r < 0)
		return cbx_wrap(err, "%s", w->file);
	c.tree = tree;
	return cbx_apart(check_tree, &c, err);
}

/* Fetched already, into fd. */
static int take_wheel(const struct cbx_installation *in, const struct cbx_wheel *w, int fd, struct cbx_err *err)
{
	char random[13], temporary[60], stored[CBX_STORED_NAME];
	int r = check_sum(fd, w, err);

	if (r < 0)
		return r;
	cbx_random_name(random, 12);
	snprintf(temporary, sizeof(temporary), "t/%s/%s", in->token, random);
	cbx_stored_name(w, stored);
	r = unpack(in, w, fd, temporary, err);
	/* Another installation may have been quicker. */
	if (r >= 0 && renameat(in->store->own, temporary, in->store->all, stored) < 0 && errno != ENOTEMPTY &&
	    errno != EEXIST)
		r = cbx_fail(err, errno, "keep %s", w->file);
	(void)cbx_remove_tree(in->store->own, temporary, CBX_REMOVE_MAX);
	return r;
}

static int get_wheel(void *arg, struct cbx_err *err)
{
	struct fetching *f = arg;
	_cleanup_fd_ int tmp = -1;
	char random[13], path[60];
	int r;

	cbx_random_name(random, 12);
	snprintf(path, sizeof(path), "t/%s/%s", f->in->token, random);
	tmp = openat(f->in->store->own, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (tmp < 0) {
		r = cbx_fail(err, errno, "keep a wheel");
	} else {
		(void)unlinkat(f->in->store->own, path, 0);
		f->fd = tmp;
		r = cbx_apart(fetch_wheel, f, err);
	}
	if (r >= 0)
		r = take_wheel(f->in, f->wheel, tmp, err);
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
	uint16_t order[CBX_WHEELS_MAX]; /* indexes of wheels */
};

/* The largest takes longest to come and to be unpacked, and by then all others are there. */
static int larger_first(const void *a, const void *b, void *arg)
{
	const struct cbx_wheel *wheels = arg, *x = &wheels[*(const uint16_t *)a], *y = &wheels[*(const uint16_t *)b];

	return x->size > y->size ? -1 : x->size < y->size ? 1 : x < y ? -1 : x > y;
}

/* Each of FETCHES_MAX processes takes the next one, until none is left or another has failed. */
static int get_some(const struct turns *t, struct cbx_err *err)
{
	const struct cbx_installation *in = t->in;
	uint64_t turn;
	int r = 0;

	while (r >= 0 && !in->spent->failures && (turn = atomic_fetch_add(&in->spent->turns, 1)) < in->lock.n) {
		size_t i = t->order[turn];
		struct fetching f = { .in = in, .wheel = &in->lock.wheels[i] };

		if (!cbx_lock_again(&in->lock, i) && !cbx_stored(in, f.wheel))
			r = get_wheel(&f, err);
	}
	return r;
}

struct running {
	pid_t pid;
	int fd;
};

struct ending {
	struct cbx_err err;
	uint64_t before; /* failures: what came to pass in others may be of the first one's making */
};

static int start(const struct turns *t, struct running *ret, struct cbx_err *err)
{
	struct ending theirs = { 0 };
	int fds[2];

	*ret = (struct running){ .pid = -1, .fd = -1 };
	if (pipe2(fds, O_CLOEXEC) < 0)
		return cbx_fail(err, errno, "make a pipe");
	ret->fd = fds[0];
	ret->pid = fork();
	if (ret->pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (get_some(t, &theirs.err) < 0)
			theirs.before = atomic_fetch_add(&t->in->spent->failures, 1);
		else
			theirs.err.code = 0;
		(void)cbx_write_all(fds[1], &theirs, sizeof(theirs));
		_exit(0);
	}
	close(fds[1]);
	return ret->pid < 0 ? cbx_fail(err, errno, "fork") : 0;
}

/* How it ended, which it says before it does. */
static void reap(struct running *p, struct ending *ret)
{
	int status;

	if (cbx_read_full(p->fd, ret, sizeof(*ret)) != (ssize_t)sizeof(*ret)) {
		*ret = (struct ending){ .before = UINT64_MAX };
		cbx_refuse(&ret->err, "install_failed", ECHILD, "a process that fetches ended without an answer");
	}
	cbx_close_p(&p->fd);
	while (p->pid > 0 && waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
		;
}

int cbx_get_all(const struct cbx_installation *in, struct cbx_err *err)
{
	struct running all[FETCHES_MAX];
	struct turns t = { .in = in };
	struct ending first = { 0 };
	size_t n = 0;
	char path[60];
	int r = 0;

	snprintf(path, sizeof(path), "t/%s", in->token);
	if (mkdirat(in->store->own, path, 0700) < 0)
		return cbx_fail(err, errno, "make a directory for what is fetched");
	for (size_t i = 0; i < in->lock.n; i++)
		t.order[i] = (uint16_t)i;
	qsort_r(t.order, in->lock.n, sizeof(t.order[0]), larger_first, in->lock.wheels);
	in->spent->turns = in->spent->failures = 0;
	for (; r >= 0 && n < FETCHES_MAX && n < in->lock.n; n++)
		r = start(&t, &all[n], err);
	for (size_t i = 0; i < n; i++) {
		struct ending theirs;

		reap(&all[i], &theirs);
		if (theirs.err.code && (!first.err.code || theirs.before < first.before))
			first = theirs;
	}
	if (r >= 0 && first.err.code) {
		*err = first.err;
		cbx_err_sanitize(err);
		r = -err->code;
	}
	(void)cbx_remove_tree(in->store->own, path, CBX_REMOVE_MAX);
	return r;
}
