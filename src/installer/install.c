/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what the store lacks is brought there (get.c). A session's directory is made of links to all
 * wheels of the session, under a name that nobody can guess; it is handed out when it is complete, so whatever fails on
 * the way leaves the session as it was. What the store has already is compared with what was unpacked (tree.c) before
 * it is linked.
 *
 * Installations hold a lock together, from before they look what is there until they have linked it. One that has to
 * fetch something trims the store first, if it gets the lock for itself: else another one is under way, and a later one
 * trims.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/remove.h"
#include "base/str.h"
#include "installer/install.h"
#include "packages/job.h"
#include "packages/kind.h"

#define NAMED_MAX 5 /* packages that one message names */
#define PACKED	  "packed"
#define CHANGED	  "package_changed"

static int trim(void *arg, struct cbx_err *err)
{
	const struct cbx_installation *in = arg;
	int r = cbx_confine_link(in->store, err);

	return r < 0 ? r : cbx_store_trim(in->store, in->kept_max, err);
}

static int lock_store(const struct cbx_installation *in, int *ret, struct cbx_err *err)
{
	bool all = true;
	int r = 0;

	*ret = openat(in->store->all, "w", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*ret < 0)
		return cbx_fail(err, errno, "open the store of packages");
	for (size_t i = 0; i < in->lock.n; i++)
		all &= cbx_stored(in, &in->lock.wheels[i]);
	if (!all && flock(*ret, LOCK_EX | LOCK_NB) == 0)
		r = cbx_apart(trim, (void *)in, err);
	while (r >= 0 && flock(*ret, LOCK_SH) < 0)
		if (errno != EINTR)
			r = cbx_fail(err, errno, "lock the store of packages");
	return r;
}

/* *ret: the tree; -1: there is none, or it was changed, and there is none any more. */
static int open_wheel(const struct cbx_installation *in, const struct cbx_wheel *w, int *ret, uint64_t *ret_entries,
		      struct cbx_err *err)
{
	char stored[CBX_STORED_NAME];

	cbx_stored_name(w, stored);
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
static int check_all(const struct cbx_installation *in, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	uint64_t entries = 0, here = 0;
	size_t n = 0;

	for (size_t i = 0; i < in->lock.n; i++) {
		const struct cbx_wheel *w = &in->lock.wheels[i];
		_cleanup_fd_ int tree = -1;
		int r = open_wheel(in, w, &tree, &here, err);

		if (r < 0)
			return cbx_error_of(w, err);
		entries += tree < 0 ? 0 : here;
		if (entries > in->bytes_max * CBX_UNPACKED_RATIO / CBX_ENTRY_BYTES)
			return cbx_unpacks_too_much(in, err);
		if (tree < 0 && n++ < NAMED_MAX)
			cbx_buf_addf(&text, "%s%s %s", text.len ? ", " : "", w->name, w->version);
	}
	return n ? cbx_refuse(
			   err, CHANGED, EBADMSG,
			   "%s%s: what the store of packages had of that was changed or removed since it was unpacked",
			   cbx_buf_str(&text), n > NAMED_MAX ? " and others" : "")
		 : 0;
}

static int open_stored(const struct cbx_installation *in, const struct cbx_wheel *w)
{
	char stored[CBX_STORED_NAME];

	cbx_stored_name(w, stored);
	return openat(in->store->all, stored, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool have_scripts(const struct cbx_installation *in)
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
static int put_apart(const struct cbx_installation *in, int *to, struct cbx_err *err)
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
	const struct cbx_installation *in = arg;
	char path[100];
	struct cbx_prefix prefix = {
		.at = in->at, .python = in->python, .version = in->version, .max = in->bytes_max * CBX_UNPACKED_RATIO
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

		r = tree < 0 ? cbx_fail(err, errno, "open %s", w->file) : cbx_package_check(tree, w, err);
		if (r >= 0)
			r = w->place   ? cbx_npm_link(tree, to, w, err)
			    : w->build ? cbx_conda_link(tree, &prefix, w, err)
				       : cbx_wheel_link(tree, to, in->python, err);
		if (r >= 0 && futimens(tree, NULL) < 0) /* it is used: see trim.c */
			r = cbx_fail(err, errno, "note that it is used");
		if (r < 0)
			cbx_error_of(w, err);
	}
	if (r < 0)
		(void)cbx_remove_tree(in->store->own, path, CBX_REMOVE_MAX);
	return r;
}

static void warn(cJSON *answer, const char *text)
{
	cJSON *warnings = cbx_json_member(answer, "warnings");

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
static void warn_scripts(const struct cbx_installation *in, cJSON *answer)
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
static bool has_prefix(const struct cbx_installation *in)
{
	return in->at && in->at[0] == '/' && cbx_plain(in->at) && strlen(in->at) < 200 && in->version &&
	       in->version[0] && strlen(in->version) < 10 && !in->version[strspn(in->version, "0123456789.")] &&
	       !strstr(in->version, "..");
}

/* What was changed in the store is fetched again, once. */
static int get_and_link(const struct cbx_installation *in, cJSON *answer, struct cbx_err *err)
{
	for (bool again = false;; again = true) {
		int r = cbx_get_all(in, err);

		if (r >= 0)
			r = cbx_apart(link_all, (void *)in, err);
		if (r >= 0 || again || strcmp(err->kind, CHANGED) != 0)
			return r;
		warn_changed(answer, err->msg);
	}
}

int cbx_install(const cJSON *job, const struct cbx_store_dirs *store, cJSON *answer, struct cbx_err *err)
{
	struct cbx_installation in = { .store = store,
				       .python = cbx_json_text(job, "python"),
				       .registry = cbx_json_text(job, "registry"),
				       .token = cbx_json_text(job, "token"),
				       .job = job,
				       .at = cbx_json_text(job, "at"),
				       .version = cbx_json_text(job, "version") };
	const cJSON *token = cbx_json_member(job, "token");
	_cleanup_fd_ int held = -1;
	int r = cbx_index_find(cbx_json_text(job, "index"), &in.indexes, err);

	in.scripts = cJSON_IsTrue(cbx_json_member(job, "scripts"));
	in.bytes_max = cbx_json_u64(job, "bytes_max");
	in.kept_max = cbx_json_u64(job, "cache");
	in.spent = mmap(NULL, sizeof(*in.spent), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (r >= 0 && in.spent == MAP_FAILED)
		r = cbx_fail(err, errno, "share a page with the processes that fetch");
	if (r >= 0 && !cbx_token_valid(token))
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
