/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a wheel, or an npm package, that the store lacks is fetched by a process that can do nothing
 * else, its sum is computed here and compared with what was judged, and it is unpacked by image/worker.c, which can do
 * nothing else either. Only then it comes into the store, by one rename, under that sum. A session's directory is made
 * of links to all wheels of the session, under a name that nobody can guess; it is handed out when it is complete, so
 * whatever fails on the way leaves the session as it was. What the store has already is compared with what was unpacked
 * (tree.c) before it is linked.
 *
 * Installations hold a lock together, from before they look what is there until they have linked it. One that has to
 * fetch something trims the store first, if it gets the lock for itself: else another one is under way, and a later one
 * trims.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <nettle/nettle-meta.h>
#include <nettle/sha2.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/remove.h"
#include "base/str.h"
#include "image/unpack.h"
#include "installer/installer.h"
#include "packages/job.h"
#include "packages/kind.h"

#define TOKEN	       26
#define FETCHES_MAX    6     /* at once */
#define ENTRIES_MAX    50000 /* of one wheel */
#define UNPACKED_RATIO 4     /* unpacked, they may be this many times what the policy allows for files of the index */
#define ENTRY_BYTES    4096  /* which each file and directory counts for, beside what it holds */
#define REMOVE_MAX     4000000ul
#define NAMED_MAX      5 /* packages that one message names */
#define PACKED	       "packed"
#define STORED_NAME    160
#define CHANGED	       "package_changed"

struct installation {
	const struct cbx_store_dirs *store;
	struct cbx_indexes indexes;
	struct cbx_lock lock;
	uint64_t bytes_max, kept_max;
	struct spent *spent;
	const char *python, *registry, *token;
	const cJSON *job; /* of which conda.c has the channels, and where the session sees what it gets */
	const char *at, *version;
	bool scripts; /* those of npm packages are to run */
};

/* In memory that all processes of an installation share. */
struct spent {
	_Atomic uint64_t fetched, unpacked; /* bytes; unpacked: with ENTRY_BYTES of each entry */
};

/* Where its tree is. One of conda has links, which what puts wheels in their places does not expect: a file that is
 * both has two trees. Behind "w/" it is the name of the note of what the tree holds, too. */
static void name_stored(const struct cbx_wheel *w, char stored[STORED_NAME])
{
	snprintf(stored, STORED_NAME, "w/%s%s", w->build ? "c-" : "", w->sum);
}

int cbx_apart(int (*fn)(void *arg, struct cbx_err *err), void *arg, struct cbx_err *err)
{
	struct cbx_err theirs = { 0 };
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return cbx_fail(err, errno, "make a pipe");
	pid = fork();
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (fn(arg, &theirs) >= 0)
			theirs.code = 0;
		(void)cbx_write_all(fds[1], &theirs, sizeof(theirs));
		_exit(0);
	}
	close(fds[1]);
	n = pid < 0 ? -1 : cbx_read_full(fds[0], &theirs, sizeof(theirs));
	close(fds[0]);
	if (pid < 0)
		return cbx_fail(err, errno, "fork");
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (n != (ssize_t)sizeof(theirs))
		return cbx_refuse(err, "install_failed", ECHILD, "a process that installs ended without an answer");
	if (!theirs.code)
		return 0;
	*err = theirs;
	cbx_err_sanitize(err);
	return -err->code;
}

/* ---- the store ---- */

/* Empty a directory, which stays: the supervisor has a mount of it. */
static int empty(int dir, const char *name, struct cbx_err *err)
{
	_cleanup_closedir_ DIR *d = NULL;
	const struct dirent *e;
	int fd;

	if (mkdirat(dir, name, 0700) < 0 && errno != EEXIST)
		return cbx_fail(err, errno, "make %s", name);
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d)
		return cbx_fail(err, errno, "clear %s", name);
	while ((e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			(void)cbx_remove_tree(fd, e->d_name, REMOVE_MAX);
	return 0;
}

/* Of daemons that were killed, with what cleans up after them. */
static void remove_left(const struct cbx_store_dirs *store)
{
	int fd = openat(store->all, "d", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_closedir_ DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	while (d && (e = readdir(d))) {
		_cleanup_fd_ int dir = -1;

		if (e->d_name[0] == '.')
			continue;
		dir = openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (dir >= 0 && flock(dir, LOCK_EX | LOCK_NB) == 0)
			(void)cbx_remove_tree(fd, e->d_name, REMOVE_MAX);
	}
}

int cbx_store_prepare(const struct cbx_store_dirs *store, struct cbx_err *err)
{
	static const char *const all[] = { "w", "m", "c" };
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (mkdirat(store->all, all[i], 0700) < 0 && errno != EEXIST)
			return cbx_fail(err, errno, "make the store of packages");
	remove_left(store);
	r = empty(store->own, "t", err);
	return r < 0 ? r : empty(store->own, CBX_SESSIONS, err);
}

static bool is_token(const cJSON *v)
{
	return cJSON_IsString(v) && strlen(v->valuestring) == TOKEN && cbx_name_valid(v->valuestring);
}

int cbx_drop(const cJSON *job, const struct cbx_store_dirs *store, struct cbx_err *err)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, cJSON_GetObjectItemCaseSensitive(job, "tokens")) {
		char path[100];

		if (!is_token(v))
			return cbx_refuse(err, "protocol", EINVAL, "a directory has an impossible name");
		snprintf(path, sizeof(path), CBX_SESSIONS "/%s", v->valuestring);
		(void)cbx_remove_tree(store->own, path, REMOVE_MAX);
	}
	return 0;
}

void cbx_install_undo(const cJSON *job, const struct cbx_store_dirs *store)
{
	const cJSON *token = cJSON_GetObjectItemCaseSensitive(job, "token");
	static const char *const places[] = { "t", CBX_SESSIONS };

	for (size_t i = 0; i < ARRAY_SIZE(places) && is_token(token); i++) {
		char path[60];

		snprintf(path, sizeof(path), "%s/%s", places[i], token->valuestring);
		(void)cbx_remove_tree(store->own, path, REMOVE_MAX);
	}
}

/* ---- one wheel ---- */

/* Which package failed, and what needs it. */
static int of_wheel(const struct cbx_wheel *w, struct cbx_err *err)
{
	struct cbx_err why = *err;

	return cbx_refuse(err, why.kind, why.code, "%s %s: %.400s%s%s", cbx_kind_bare(w->name), w->version, why.msg,
			  w->direct ? "" : "; it is needed by ", w->direct ? "" : w->path);
}

struct fetching {
	const struct installation *in;
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
		    : index ? cbx_confine_fetch(index, 1, f->in->store, err)
			    : cbx_confine_fetch(from->all, from->n, f->in->store, err);
	if (r >= 0 && !url) {
		r = cbx_find_wheel(from, f->in->store, f->wheel, &found, err);
		url = found;
		index = r < 0 ? NULL : cbx_index_of(from, url);
	}
	if (r >= 0 && cbx_kept_take(f->in->store, url, out))
		r = cbx_fetch_count(&f->in->spent->fetched, (uint64_t)ftello(out), f->in->bytes_max, "the index", err);
	else if (r >= 0 && built)
		r = cbx_refuse(err, "not_found", ENOENT,
			       "it was built from its sources, and is not kept any more; install it in a new session");
	else if (r >= 0)
		r = cbx_fetch(index, url, NULL, out, f->in->bytes_max, &f->in->spent->fetched, NULL, err);
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

static int check_package(int tree, const struct cbx_wheel *w, struct cbx_err *err)
{
	return w->place	  ? cbx_npm_check(tree, w, err)
	       : w->build ? cbx_conda_check(tree, w, err)
			  : cbx_wheel_check(tree, w->name, w->version, err);
}

static int check_tree(void *arg, struct cbx_err *err)
{
	const struct checking *c = arg;
	int r = cbx_confine_link(c->store, err);
	char stored[STORED_NAME];

	if (r >= 0)
		r = check_package(c->tree, c->wheel, err);
	if (r >= 0 && c->wheel->build)
		r = cbx_conda_split(c->tree, c->options, err);
	if (r < 0)
		return r;
	name_stored(c->wheel, stored);
	r = cbx_tree_keep(c->store, c->tree, stored + 2);
	return r < 0 ? cbx_fail(err, -r, "note what it holds") : 0;
}

static int unpacks_too_much(const struct installation *in, struct cbx_err *err)
{
	char size[32];

	cbx_format_size(in->bytes_max * UNPACKED_RATIO, size);
	return cbx_refuse(
		err, "too_large", EFBIG,
		"unpacked, the files of the installation are more than %s, with %d KiB for each of them: %d times "
		"what the policy allows for them packed (install_size); install fewer packages at once, or ask "
		"whoever runs codebox to change the policy",
		size, ENTRY_BYTES / 1024, UNPACKED_RATIO);
}

static int unpack(const struct installation *in, const struct cbx_wheel *w, int fd, const char *path,
		  struct cbx_err *err)
{
	struct stat st;
	/* What a package of npm brings along of others is judged, and installed, as what it needs. */
	static const char *const others[] = { "*/node_modules", "*/node_modules/*", NULL };
	struct cbx_unpack_options o = { .format = w->place ? CBX_ARCHIVE_PACKAGE : CBX_ARCHIVE_WHEEL,
					.exclude = w->place ? others : NULL,
					.max_entries = ENTRIES_MAX,
					.max_bytes = in->bytes_max * UNPACKED_RATIO,
					.together = &in->spent->unpacked,
					.entry_bytes = ENTRY_BYTES };
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
		r = unpacks_too_much(in, err);
	if (r < 0)
		return cbx_wrap(err, "%s", w->file);
	c.tree = tree;
	return cbx_apart(check_tree, &c, err);
}

/* Fetched already, into fd. */
static int take_wheel(const struct installation *in, const struct cbx_wheel *w, int fd, struct cbx_err *err)
{
	char random[13], temporary[60], stored[STORED_NAME];
	int r = check_sum(fd, w, err);

	if (r < 0)
		return r;
	cbx_random_name(random, 12);
	snprintf(temporary, sizeof(temporary), "t/%s/%s", in->token, random);
	name_stored(w, stored);
	r = unpack(in, w, fd, temporary, err);
	/* Another installation may have been quicker. */
	if (r >= 0 && renameat(in->store->own, temporary, in->store->all, stored) < 0 && errno != ENOTEMPTY &&
	    errno != EEXIST)
		r = cbx_fail(err, errno, "keep %s", w->file);
	(void)cbx_remove_tree(in->store->own, temporary, REMOVE_MAX);
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
	return r < 0 ? of_wheel(f->wheel, err) : r;
}

static bool have_wheel(const struct installation *in, const struct cbx_wheel *w)
{
	char stored[STORED_NAME];

	name_stored(w, stored);
	return faccessat(in->store->all, stored, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int trim(void *arg, struct cbx_err *err)
{
	const struct installation *in = arg;
	int r = cbx_confine_link(in->store, err);

	return r < 0 ? r : cbx_store_trim(in->store, in->kept_max, err);
}

static int lock_store(const struct installation *in, int *ret, struct cbx_err *err)
{
	bool all = true;
	int r = 0;

	*ret = openat(in->store->all, "w", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*ret < 0)
		return cbx_fail(err, errno, "open the store of packages");
	for (size_t i = 0; i < in->lock.n; i++)
		all &= have_wheel(in, &in->lock.wheels[i]);
	if (!all && flock(*ret, LOCK_EX | LOCK_NB) == 0)
		r = cbx_apart(trim, (void *)in, err);
	while (r >= 0 && flock(*ret, LOCK_SH) < 0)
		if (errno != EINTR)
			r = cbx_fail(err, errno, "lock the store of packages");
	return r;
}

/* ---- all of them ---- */

struct share {
	const struct installation *in;
	size_t first;
};

/* Each of FETCHES_MAX processes takes every so manieth wheel. */
static int get_share(void *arg, struct cbx_err *err)
{
	const struct share *s = arg;
	int r = 0;

	for (size_t i = s->first; r >= 0 && i < s->in->lock.n; i += FETCHES_MAX) {
		struct fetching f = { .in = s->in, .wheel = &s->in->lock.wheels[i] };

		if (!cbx_lock_again(&s->in->lock, i) && !have_wheel(s->in, f.wheel))
			r = get_wheel(&f, err);
	}
	return r;
}

struct running {
	pid_t pid;
	int fd;
};

static int start_share(const struct installation *in, size_t first, struct running *ret, struct cbx_err *err)
{
	struct share s = { .in = in, .first = first };
	struct cbx_err theirs = { 0 };
	int fds[2];

	*ret = (struct running){ .pid = -1, .fd = -1 };
	if (pipe2(fds, O_CLOEXEC) < 0)
		return cbx_fail(err, errno, "make a pipe");
	ret->fd = fds[0];
	ret->pid = fork();
	if (ret->pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (get_share(&s, &theirs) >= 0)
			theirs.code = 0;
		(void)cbx_write_all(fds[1], &theirs, sizeof(theirs));
		_exit(0);
	}
	close(fds[1]);
	return ret->pid < 0 ? cbx_fail(err, errno, "fork") : 0;
}

static int get_all(const struct installation *in, struct cbx_err *err)
{
	struct running all[FETCHES_MAX];
	size_t n = 0;
	char path[60];
	int r = 0;

	snprintf(path, sizeof(path), "t/%s", in->token);
	if (mkdirat(in->store->own, path, 0700) < 0)
		return cbx_fail(err, errno, "make a directory for what is fetched");
	for (; r >= 0 && n < FETCHES_MAX && n < in->lock.n; n++)
		r = start_share(in, n, &all[n], err);
	for (size_t i = 0; i < n; i++) {
		struct cbx_err theirs = { 0 };
		int status;

		if (cbx_read_full(all[i].fd, &theirs, sizeof(theirs)) != (ssize_t)sizeof(theirs))
			cbx_refuse(&theirs, "install_failed", ECHILD, "a process that fetches ended without an answer");
		cbx_close_p(&all[i].fd);
		if (all[i].pid > 0)
			while (waitpid(all[i].pid, &status, 0) < 0 && errno == EINTR)
				;
		if (!theirs.code || r < 0)
			continue;
		*err = theirs;
		cbx_err_sanitize(err);
		r = -err->code;
	}
	(void)cbx_remove_tree(in->store->own, path, REMOVE_MAX);
	return r;
}

/* *ret: the tree; -1: there is none, or it was changed, and there is none any more. */
static int open_wheel(const struct installation *in, const struct cbx_wheel *w, int *ret, uint64_t *ret_entries,
		      struct cbx_err *err)
{
	char stored[STORED_NAME];

	name_stored(w, stored);
	*ret = openat(in->store->all, stored, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*ret < 0 && errno != ENOENT)
		return cbx_fail(err, errno, "open %s", w->file);
	if (*ret < 0 || cbx_tree_unchanged(in->store, *ret, stored + 2, ret_entries))
		return 0;
	cbx_close_p(ret);
	return cbx_store_drop(in->store, stored) ? 0 : cbx_fail(err, errno, "remove what was changed: %s", w->file);
}

/* Each is looked at, so that all that have to be fetched again are fetched at once. A session's links take room, too:
 * of a package that is in several places the directories are made for each. */
static int check_all(const struct installation *in, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	uint64_t entries = 0, here = 0;
	size_t n = 0;

	for (size_t i = 0; i < in->lock.n; i++) {
		const struct cbx_wheel *w = &in->lock.wheels[i];
		_cleanup_fd_ int tree = -1;
		int r = open_wheel(in, w, &tree, &here, err);

		if (r < 0)
			return of_wheel(w, err);
		entries += tree < 0 ? 0 : here;
		if (entries > in->bytes_max * UNPACKED_RATIO / ENTRY_BYTES)
			return unpacks_too_much(in, err);
		if (tree < 0 && n++ < NAMED_MAX)
			cbx_buf_addf(&text, "%s%s %s", text.len ? ", " : "", w->name, w->version);
	}
	return n ? cbx_refuse(
			   err, CHANGED, EBADMSG,
			   "%s%s: what the store of packages had of that was changed or removed since it was unpacked",
			   cbx_buf_str(&text), n > NAMED_MAX ? " and others" : "")
		 : 0;
}

static int open_stored(const struct installation *in, const struct cbx_wheel *w)
{
	char stored[STORED_NAME];

	name_stored(w, stored);
	return openat(in->store->all, stored, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool have_scripts(const struct installation *in)
{
	for (size_t i = 0; in->scripts && i < in->lock.n; i++) {
		_cleanup_fd_ int tree = in->lock.wheels[i].place ? open_stored(in, &in->lock.wheels[i]) : -1;

		if (tree >= 0 && cbx_npm_scripts(tree))
			return true;
	}
	return false;
}

/* Scripts write into what they belong to, so the session makes a copy of its own (runtimes/javascript/scripts.js), to
 * which node_modules leads. */
static int put_apart(const struct installation *in, int *to, struct cbx_err *err)
{
	_cleanup_free_ char *copy = cbx_xasprintf(CBX_NPM_COPIES "/%s/node_modules", in->token);
	int packed = symlinkat(copy, *to, "node_modules") < 0 ? -errno : cbx_link_open(*to, PACKED);

	if (packed < 0)
		return cbx_fail(err, -packed, "put packages with scripts apart");
	close(*to);
	*to = packed;
	return 0;
}

static int link_all(void *arg, struct cbx_err *err)
{
	const struct installation *in = arg;
	char path[100];
	struct cbx_prefix prefix = {
		.at = in->at, .python = in->python, .version = in->version, .max = in->bytes_max * UNPACKED_RATIO
	};
	_cleanup_fd_ int to = -1;
	int r = cbx_confine_link(in->store, err);

	if (r >= 0)
		r = check_all(in, err);
	if (r < 0)
		return r;
	umask(022);
	snprintf(path, sizeof(path), CBX_SESSIONS "/%s", in->token);
	if (mkdirat(in->store->own, path, 0755) < 0)
		return cbx_fail(err, errno, "make the session's directory");
	to = openat(in->store->own, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (to < 0)
		return cbx_fail(err, errno, "open the session's directory");
	if (have_scripts(in))
		r = put_apart(in, &to, err);
	prefix.to = to;
	if (r >= 0 && in->lock.wheels[0].build)
		r = cbx_conda_begin(&prefix, err);
	for (size_t i = 0; r >= 0 && i < in->lock.n; i++) {
		const struct cbx_wheel *w = &in->lock.wheels[i];
		_cleanup_fd_ int tree = open_stored(in, w);

		r = tree < 0 ? cbx_fail(err, errno, "open %s", w->file) : check_package(tree, w, err);
		if (r >= 0)
			r = w->place   ? cbx_npm_link(tree, to, w, err)
			    : w->build ? cbx_conda_link(tree, &prefix, w, err)
				       : cbx_wheel_link(tree, to, in->python, err);
		if (r >= 0 && futimens(tree, NULL) < 0) /* it is used: see trim.c */
			r = cbx_fail(err, errno, "note that it is used");
		if (r < 0)
			of_wheel(w, err);
	}
	if (r < 0)
		(void)cbx_remove_tree(in->store->own, path, REMOVE_MAX);
	return r;
}

static void warn(cJSON *answer, const char *text)
{
	cJSON *warnings = cJSON_GetObjectItemCaseSensitive(answer, "warnings");

	if (!warnings)
		cbx_json_set(answer, "warnings", warnings = cbx_json_new_arr());
	cbx_json_push_str(warnings, text);
}

static void warn_changed(cJSON *answer, const char *what)
{
	_cleanup_free_ char *text = cbx_xasprintf("%s; it was fetched again", what);

	warn(answer, text);
}

/* Those of conda never run; a person may do what they say. */
static void warn_scripts(const struct installation *in, cJSON *answer)
{
	for (size_t i = 0, n = 0; i < in->lock.n && n < NAMED_MAX; i++) {
		const struct cbx_wheel *w = &in->lock.wheels[i];
		_cleanup_fd_ int tree = w->build ? open_stored(in, w) : -1;
		_cleanup_free_ char *text = NULL;

		if (tree < 0 || !cbx_conda_scripts(tree, w))
			continue;
		text = cbx_xasprintf("%s %s has a script for its installation, which was not run",
				     cbx_kind_bare(w->name), w->version);
		warn(answer, text);
		n++;
	}
}

/* Where the session sees it, and which Python that has. */
static bool has_prefix(const struct installation *in)
{
	return in->at && in->at[0] == '/' && cbx_plain(in->at) && strlen(in->at) < 200 && in->version &&
	       in->version[0] && strlen(in->version) < 10 && !in->version[strspn(in->version, "0123456789.")] &&
	       !strstr(in->version, "..");
}

/* What was changed in the store is fetched again, once. */
static int get_and_link(const struct installation *in, cJSON *answer, struct cbx_err *err)
{
	for (bool again = false;; again = true) {
		int r = get_all(in, err);

		if (r >= 0)
			r = cbx_apart(link_all, (void *)in, err);
		if (r >= 0 || again || strcmp(err->kind, CHANGED) != 0)
			return r;
		warn_changed(answer, err->msg);
	}
}

int cbx_install(const cJSON *job, const struct cbx_store_dirs *store, cJSON *answer, struct cbx_err *err)
{
	struct installation in = { .store = store,
				   .python = cbx_json_text(job, "python"),
				   .registry = cbx_json_text(job, "registry"),
				   .token = cbx_json_text(job, "token"),
				   .job = job,
				   .at = cbx_json_text(job, "at"),
				   .version = cbx_json_text(job, "version") };
	const cJSON *token = cJSON_GetObjectItemCaseSensitive(job, "token");
	_cleanup_fd_ int held = -1;
	int r = cbx_index_find(cbx_json_text(job, "index"), &in.indexes, err);

	in.scripts = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(job, "scripts"));
	in.bytes_max = cbx_json_u64(job, "bytes_max");
	in.kept_max = cbx_json_u64(job, "cache");
	in.spent = mmap(NULL, sizeof(*in.spent), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (r >= 0 && in.spent == MAP_FAILED)
		r = cbx_fail(err, errno, "share a page with the processes that fetch");
	if (r >= 0 && !is_token(token))
		r = cbx_refuse(err, "protocol", EINVAL, "the directory has an impossible name");
	if (r >= 0)
		r = cbx_lock_read(job, &in.lock, err);
	if (r >= 0 && in.lock.n && !in.lock.wheels[0].place &&
	    (!in.python || in.python[0] != '/' || !cbx_plain(in.python)))
		r = cbx_refuse(err, "install_failed", EINVAL, "the image's Python has no path");
	if (r >= 0 && in.lock.n && in.lock.wheels[0].build && !has_prefix(&in))
		r = cbx_refuse(err, "protocol", EINVAL, "it is not said where the packages of conda will be");
	if (r >= 0)
		r = cbx_check(job, &in.lock, store, answer, err);
	if (r >= 0)
		r = lock_store(&in, &held, err);
	if (r >= 0)
		r = get_and_link(&in, answer, err);
	if (r >= 0) {
		_cleanup_free_ char *packed = cbx_xasprintf(CBX_SESSIONS "/%s/" PACKED, in.token);

		warn_scripts(&in, answer);
		cbx_json_set_str(answer, "token", in.token);
		cbx_json_set_bool(answer, "scripts",
				  in.scripts && faccessat(store->own, packed, F_OK, AT_SYMLINK_NOFOLLOW) == 0);
	}
	if (in.spent != MAP_FAILED)
		munmap(in.spent, sizeof(*in.spent));
	cbx_lock_release(&in.lock);
	cbx_indexes_release(&in.indexes);
	return r;
}
