/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: before anything is fetched, what was judged is compared with advisories (packages/osv.h), and
 * names that were asked for with popular ones. That is done by a process which can read the files of the policy and
 * nothing else. Its words come back through a memory file. Where the policy names advisories, and they cannot be read,
 * nothing is installed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "installer/installer.h"
#include "packages/osv.h"
#include "packages/similar.h"

#define WARNINGS_MAX KIB(60) /* bytes of all; what is beyond is not said */
#define REFUSALS_MAX 4	     /* advisories that a refusal names */

struct check {
	const cJSON *job;
	const struct cbx_lock *lock;
	const struct cbx_store_dirs *store;
	int out; /* a memory file: a list of what there is to say */
	cJSON *said;
	bool refuse;
	size_t hits;
	struct cbx_buf text; /* of a refusal */
};

/* ---- advisories ---- */

static void found(void *arg, const struct cbx_osv_hit *h)
{
	struct check *c = arg;
	const struct cbx_wheel *w = h->wheel;
	bool direct = w->direct;
	_cleanup_free_ char *one = cbx_xasprintf("%s %s is affected by %s (%s)%s%s%s%s", w->name, w->version, h->id,
						 h->range, h->summary[0] ? ": " : "", h->summary,
						 direct ? "" : "; it is needed by ", direct ? "" : w->path);

	if (!c->refuse)
		cbx_json_push_str(c->said, one);
	else if (c->hits < REFUSALS_MAX)
		cbx_buf_addf(&c->text, "%s%s", c->hits ? "; " : "", one);
	c->hits++;
}

static int search(struct check *c, int fd, const char *name, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	struct stat st;
	int r = fd < 0 || fstat(fd, &st) < 0 ? -errno : !S_ISREG(st.st_mode) ? -EINVAL : 0;

	if (r == 0)
		r = st.st_size > (off_t)CBX_ADVISORY_FILE_MAX ? -EFBIG
							      : cbx_read_whole(fd, CBX_ADVISORY_FILE_MAX, &text);
	if (r < 0)
		cbx_fail(err, -r, "read advisories");
	else
		r = cbx_osv_search(cbx_buf_str(&text), text.len, c->lock, found, c, err);
	return r < 0 ? cbx_wrap(err, "%s", name) : 0;
}

static int search_dir(struct check *c, int dir, const char *path, struct cbx_err *err)
{
	_cleanup_closedir_ DIR *d = fdopendir(dir);
	const struct dirent *e;
	size_t n = 0;
	int r = 0;

	if (!d)
		return cbx_fail(err, errno, "read advisories: %s", path);
	while (r >= 0 && (e = readdir(d))) {
		_cleanup_fd_ int fd = -1;

		if (e->d_name[0] == '.' || !cbx_ends_with(e->d_name, ".json"))
			continue;
		if (n++ == CBX_ADVISORY_FILES_MAX)
			return cbx_refuse(err, "invalid_advisory", E2BIG, "%s: there are more than %d advisories", path,
					  CBX_ADVISORY_FILES_MAX);
		fd = openat(dirfd(d), e->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		r = search(c, fd, e->d_name, err);
	}
	if (r >= 0 && !n)
		return cbx_refuse(err, "invalid_advisory", ENOENT, "%s: there is no advisory (*.json)", path);
	return r < 0 ? cbx_wrap(err, "%s", path) : 0;
}

static int search_path(struct check *c, const char *path, struct cbx_err *err)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
		return search_dir(c, take_fd(&fd), path, err);
	return search(c, fd, path, err);
}

static int check_advisories(struct check *c, struct cbx_err *err)
{
	const cJSON *v;
	struct cbx_err why;

	cJSON_ArrayForEach(v, cbx_json_member(c->job, "advisories"))
		if (search_path(c, v->valuestring, &why) < 0)
			return cbx_refuse(err, "advisories_unreadable", EBADMSG,
					  "nothing is installed, because the advisories of the policy cannot be used: "
					  "%.400s; ask "
					  "whoever runs codebox",
					  why.msg);
	if (c->refuse && c->hits)
		return cbx_refuse(err, "package_refused", EPERM,
				  "%.450s%s; ask for other versions, or whoever runs codebox to change the policy "
				  "(on_advisory)",
				  cbx_buf_str(&c->text), c->hits > REFUSALS_MAX ? "; and by others" : "");
	return 0;
}

/* ---- popular names ---- */

static bool listed(const cJSON *list, const char *name)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, list)
		if (cJSON_IsString(v) && strcmp(v->valuestring, name) == 0)
			return true;
	return false;
}

static void check_names(struct check *c)
{
	const cJSON *asked = cbx_json_member(c->job, "asked"),
		    *known = cbx_json_member(c->job, "known");

	if (!c->store->popular.len) {
		cbx_json_push_str(c->said, "names are not compared with popular ones: their list cannot be read");
		return;
	}
	for (size_t i = 0; i < c->lock->n; i++) {
		const char *name = c->lock->wheels[i].name, *like;
		_cleanup_free_ char *one = NULL;
		size_t n;

		if (!listed(asked, name) || listed(known, name) ||
		    !(like = cbx_similar_find(cbx_buf_str(&c->store->popular), name, &n)))
			continue;
		one = cbx_xasprintf(
			"%s is not %.*s, which many use and whose name is much like it; make sure that it is what you "
			"mean",
			name, (int)n, like);
		cbx_json_push_str(c->said, one);
	}
}

/* ---- all of it ---- */

static int run(void *arg, struct cbx_err *err)
{
	struct check *c = arg;
	_cleanup_buf_ struct cbx_buf text = { 0 };
	const char *paths[4 * CBX_ADVISORIES_MAX];
	size_t n = 0;
	const cJSON *v;
	int r;

	cJSON_ArrayForEach(v, cbx_json_member(c->job, "advisories")) {
		if (n == ARRAY_SIZE(paths) || !cJSON_IsString(v) || v->valuestring[0] != '/')
			return cbx_refuse(err, "protocol", EINVAL, "advisories: too many, or not a path");
		paths[n++] = v->valuestring;
	}
	r = cbx_confine_check(paths, n, c->store, err);
	if (r < 0)
		return r;
	c->said = cbx_json_new_arr();
	check_names(c);
	r = check_advisories(c, err);
	while (cbx_json_print(&text, c->said), text.len > WARNINGS_MAX) {
		cJSON_DeleteItemFromArray(c->said, cJSON_GetArraySize(c->said) - 1);
		text.len = 0;
	}
	return r < 0						? r
	       : cbx_write_all(c->out, text.data, text.len) < 0 ? cbx_fail(err, EIO, "say what was found")
								: 0;
}

int cbx_check(const cJSON *job, const struct cbx_lock *lock, const struct cbx_store_dirs *store, cJSON *answer,
	      struct cbx_err *err)
{
	const char *on = cbx_json_text(job, "on_advisory");
	struct check c = { .job = job, .lock = lock, .store = store, .refuse = !on || strcmp(on, "warn") != 0 };
	_cleanup_fd_ int out = memfd_create("said", MFD_CLOEXEC);
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	_cleanup_buf_ struct cbx_buf text = { 0 };
	int r;

	c.out = out;
	r = out < 0 ? cbx_fail(err, errno, "make a memory file") : cbx_apart(run, &c, err);
	if (r < 0)
		return r;
	if (lseek(out, 0, SEEK_SET) < 0 || cbx_read_whole(out, 2 * WARNINGS_MAX, &text) < 0 ||
	    cbx_json_parse(cbx_buf_str(&text), text.len, &doc, err) < 0 || doc.problem.code || !cJSON_IsArray(doc.root))
		return cbx_refuse(err, "install_failed", EBADMSG, "the process that compares packages gave no answer");
	if (doc.root->child)
		cbx_json_set(answer, "warnings", take_ptr(&doc.root));
	return 0;
}
