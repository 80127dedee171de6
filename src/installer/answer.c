/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: answers are kept by the SHA-256 of their address. A page is asked for again when it is some
 * minutes old, and used all the same when the index does not answer; what belongs to one file of the index never
 * changes. A file is made under another name first, so what is there is complete.
 */
#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "installer/installer.h"
#include "packages/conda.h"
#include "packages/kind.h"
#include "packages/npm.h"

#define ACCEPT "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"

#define ACCEPT_NPM "application/vnd.npm.install-v1+json, application/json;q=0.8"

#define NOT_THERE 'n' /* what is kept where an index did not have a project, for when it does not answer */

#define KEPT_NAME  72	  /* "c/p-<sum>" */
#define KEPT_LEAST KIB(4) /* what a file takes on the disk */

struct question {
	const struct cbx_index *index;
	const struct cbx_store_dirs *store;
	bool page, npm;
	bool others;	   /* that are asked when this one does not have it */
	uint64_t kept_max; /* bytes, of the whole store */
	uint64_t max;	   /* of an answer; 0: CBX_INSTALL_PAGE_MAX */
	char *url;
	char kept[KEPT_NAME];
};

static void name_kept(bool page, const char *url, char kept[KEPT_NAME])
{
	uint8_t digest[SHA256_DIGEST_SIZE];
	struct sha256_ctx c;
	int n = snprintf(kept, KEPT_NAME, "c/%c-", page ? 'p' : 'f');

	sha256_init(&c);
	sha256_update(&c, strlen(url), (const uint8_t *)url);
	sha256_digest(&c, sizeof(digest), digest);
	for (size_t i = 0; i < sizeof(digest); i++)
		n += snprintf(kept + n, 3, "%02x", digest[i]);
}

bool cbx_kept_take(const struct cbx_store_dirs *store, const char *url, FILE *out)
{
	char kept[KEPT_NAME], chunk[65536];
	_cleanup_fd_ int fd = -1;
	ssize_t n;

	name_kept(false, url, kept);
	fd = openat(store->all, kept, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || lseek(fd, 1, SEEK_SET) < 0)
		return false;
	while ((n = cbx_read_full(fd, chunk, sizeof(chunk))) > 0 && fwrite(chunk, 1, (size_t)n, out) == (size_t)n)
		;
	(void)unlinkat(store->all, kept, 0);
	if (n == 0)
		return true;
	rewind(out);
	return ftruncate(fileno(out), 0) < 0; /* never both */
}

static uint64_t most(const struct question *q)
{
	return q->max ? q->max : CBX_INSTALL_PAGE_MAX;
}

/* One that need not be asked for, or cannot be. */
static bool open_kept(const struct question *q, bool any_age, struct cbx_buf *ret)
{
	_cleanup_fd_ int fd = openat(q->store->all, q->kept, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !st.st_size ||
	    (q->page && !any_age && time(NULL) - st.st_mtime > CBX_CACHE_FRESH_S))
		return false;
	ret->len = 0;
	if (cbx_read_whole(fd, most(q) + 1, ret) == 0 && ret->len && (any_age || ret->data[0] != NOT_THERE))
		return true;
	ret->len = 0;
	return false;
}

/* The first byte says what it is: "h" HTML, "j" anything else. */
static int ask(const struct question *q, struct cbx_buf *ret, struct cbx_err *err)
{
	char random[13], path[40];
	_cleanup_fclose_ FILE *out = NULL;
	bool html = false;
	int fd, r;

	cbx_random_name(random, 12);
	snprintf(path, sizeof(path), "t/%s", random);
	fd = openat(q->store->own, path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	out = fd < 0 ? NULL : fdopen(fd, "w+");
	if (!out)
		return cbx_fail(err, errno, "keep an answer of the index");
	(void)unlinkat(q->store->own, path, 0); /* also when this process is killed */
	r = cbx_fetch(q->index, q->url, q->npm ? ACCEPT_NPM : q->page ? ACCEPT : NULL, out, most(q), NULL, &html, err);
	if (r >= 0 && fflush(out) != 0)
		r = cbx_fail(err, errno, "keep an answer of the index");
	if (r >= 0) {
		rewind(out);
		cbx_buf_addc(ret, html ? 'h' : 'j');
		r = cbx_read_whole(fileno(out), most(q), ret);
		if (r < 0)
			cbx_fail(err, -r, "read an answer of the index");
	}
	return r;
}

/*
 * Resolvers may ask without end, and nothing is installed then. To look at all that is kept takes longer than many an
 * answer, so chance decides: the larger one is, the likelier it is looked at.
 */
static void bound_kept(const struct question *q, size_t n)
{
	uint32_t chance;
	struct cbx_err ignored;

	n = n < KEPT_LEAST ? KEPT_LEAST : n;
	if (getrandom(&chance, sizeof(chance), 0) != sizeof(chance) || chance % CBX_INDEX_KEPT_LOOK < n)
		(void)cbx_cache_trim(q->store, q->kept_max < CBX_INDEX_KEPT_MAX ? q->kept_max : CBX_INDEX_KEPT_MAX,
				     &ignored);
}

static void keep(const struct question *q, const char *p, size_t n)
{
	char random[13], path[40];
	_cleanup_fd_ int fd = -1;

	cbx_random_name(random, 12);
	snprintf(path, sizeof(path), "t/%s", random);
	fd = openat(q->store->own, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return; /* it is asked for again then */
	if (cbx_write_all(fd, p, n) < 0 || renameat(q->store->own, path, q->store->all, q->kept) < 0)
		(void)unlinkat(q->store->own, path, 0);
	bound_kept(q, n);
}

static int answer(struct question *q, const char *project, struct cbx_buf *ret, struct cbx_err *err)
{
	int r;

	if (q->index->dir && project) {
		cbx_buf_addc(ret, 'j');
		return cbx_index_list(q->index, project, ret, err);
	}
	name_kept(q->page, q->url, q->kept);
	if (!q->index->dir && open_kept(q, false, ret))
		return 0;
	r = ask(q, ret, err);
	if (r < 0 && strcmp(err->kind, "index_down") == 0 && open_kept(q, true, ret))
		return ret->data[0] == NOT_THERE
			       ? cbx_refuse(err, "not_found", ENOENT, "%s did not have it", q->index->host)
			       : 0;
	if (r < 0 && strcmp(err->kind, "not_found") == 0 && q->others && project) {
		const char nothing = NOT_THERE;

		ret->len = 0;
		keep(q, &nothing, 1);
	}
	if (r >= 0 && !q->index->dir)
		keep(q, ret->data, ret->len);
	return r;
}

/* Of the first index that has it. */
static int answer_in_turn(struct question *q, const struct cbx_indexes *from, const char *project, struct cbx_buf *ret,
			  struct cbx_err *err)
{
	int r = -ENOENT;

	for (size_t i = 0; i < from->n; i++) {
		q->index = &from->all[i];
		q->others = i + 1 < from->n;
		free(q->url);
		q->url = q->index->dir ? cbx_xstrdup("") : cbx_xasprintf("%s%s/", q->index->url, project);
		ret->len = 0;
		r = answer(q, project, ret, err);
		if (r >= 0 || strcmp(err->kind, "not_found") != 0)
			return r;
	}
	return r;
}

int cbx_answer_page(const struct cbx_indexes *from, const struct cbx_store_dirs *store, const char *project,
		    char **ret_url, const struct cbx_index **ret_index, struct cbx_buf *ret, struct cbx_err *err)
{
	struct question q = { .store = store, .page = true, .kept_max = CBX_INDEX_KEPT_MAX };
	int r = answer_in_turn(&q, from, project, ret, err);

	*ret_url = q.url;
	*ret_index = q.index;
	return r;
}

/* A page of npm's registry. */
static int answer_npm(struct question *q, const char *registry, const char *project, struct cbx_index *index,
		      struct cbx_buf *ret, struct cbx_err *err)
{
	int r = cbx_npm_name(project, strlen(project))
			? cbx_registry_find(registry, project, index, err)
			: cbx_refuse(err, "index_refused", EINVAL, "a package has an impossible name");

	if (r < 0)
		return r;
	q->index = index;
	q->page = q->npm = true;
	q->url = cbx_registry_page(index, project);
	r = cbx_confine_fetch(index, 1, q->store, err);
	return r < 0 ? r : answer(q, project, ret, err);
}

/* The list of a directory of a channel, and nothing else of it: packages are fetched when they have been judged. */
static int answer_channel(struct question *q, const cJSON *job, struct cbx_indexes *from, struct cbx_buf *ret,
			  struct cbx_err *err)
{
	const char *url = cbx_json_text(job, "url"), *path = NULL;
	int r = cbx_channel_find(job, url ? url : "", from, &path, err);

	if (r >= 0 && !cbx_conda_is_list(path))
		r = cbx_refuse(err, "index_refused", EINVAL, "a list of packages has an impossible name");
	if (r < 0)
		return r;
	q->index = &from->all[0];
	q->page = true;
	q->max = CBX_CHANNEL_PAGE_MAX;
	q->url = cbx_xstrdup(url);
	r = cbx_confine_fetch(q->index, 1, q->store, err);
	return r < 0 ? r : answer(q, NULL, ret, err);
}

/* Of a wheel that the resolver has built: its pieces come one after the other, and are kept until it is installed. */
static int take_piece(struct question *q, const cJSON *job, struct cbx_err *err)
{
	const char *name = cbx_json_text(job, "built"), *data = cbx_json_text(job, "data");
	_cleanup_buf_ struct cbx_buf piece = { 0 };
	uint64_t at = cbx_json_u64(job, "at");
	_cleanup_fd_ int fd = -1;
	struct stat st;
	int r = cbx_confine_link(q->store, err);

	if (r < 0)
		return r;
	if (!cbx_starts_with(name, CBX_BUILT) || !data || cbx_base64_decode(&piece, data, strlen(data)) < 0)
		return cbx_refuse(err, "invalid_lock", EBADMSG, "a piece of a wheel that was built cannot be read");
	if (at + piece.len > CBX_BUILT_MAX)
		return cbx_refuse(
			err, "too_large", EFBIG,
			"the wheel that was built is larger than %zu MiB; install a wheel of it, or another version",
			CBX_BUILT_MAX >> 20);
	name_kept(false, name, q->kept);
	fd = openat(q->store->all, q->kept, O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC | (at ? 0 : O_CREAT | O_TRUNC),
		    0600);
	if (fd < 0 || (!at && cbx_write_all(fd, "j", 1) < 0) || fstat(fd, &st) < 0)
		return cbx_fail(err, errno, "keep a wheel that was built");
	if ((uint64_t)st.st_size != at + 1)
		return cbx_refuse(err, "invalid_lock", EBADMSG, "pieces of a wheel that was built are missing");
	r = cbx_write_all(fd, piece.data, piece.len);
	if (r < 0)
		return cbx_fail(err, -r, "keep a wheel that was built");
	bound_kept(q, piece.len);
	return 0;
}

static int answer_index(struct question *q, const cJSON *job, struct cbx_indexes *from, struct cbx_buf *ret,
			struct cbx_err *err)
{
	const char *project = cbx_json_text(job, "project"), *url = cbx_json_text(job, "url");
	char name[CBX_PROJECT_MAX];
	int r = cbx_index_find(cbx_json_text(job, "index"), from, err);

	if (r < 0)
		return r;
	q->page = project;
	if (project && (!cbx_project_name(project, strlen(project), name) || strcmp(name, project) != 0))
		return cbx_refuse(err, "index_refused", EINVAL, "a project has an impossible name");
	if (!project) {
		q->url = cbx_xstrdup(url ? url : "");
		q->index = cbx_index_of(from, q->url);
		r = cbx_index_allows(q->index, q->url, err);
	}
	if (r >= 0)
		r = project ? cbx_confine_fetch(from->all, from->n, q->store, err)
			    : cbx_confine_fetch(q->index, 1, q->store, err);
	if (r < 0)
		return r;
	return project ? answer_in_turn(q, from, project, ret, err) : answer(q, NULL, ret, err);
}

void cbx_answer_question(const cJSON *job, const struct cbx_store_dirs *store, int out)
{
	struct question q = { .store = store, .kept_max = cbx_json_u64(job, "cache") };
	_cleanup_buf_ struct cbx_buf text = { 0 }, line = { 0 };
	_cleanup_json_ cJSON *o = cbx_json_new_obj();
	const char *project = cbx_json_text(job, "project");
	_cleanup_(cbx_indexes_release) struct cbx_indexes from = { 0 };
	_cleanup_(cbx_index_release) struct cbx_index registry = { 0 };
	struct cbx_err err;
	int r;

	if (cbx_json_text(job, "built"))
		r = take_piece(&q, job, &err);
	else if (cJSON_GetObjectItemCaseSensitive(job, "channels"))
		r = answer_channel(&q, job, &from, &text, &err);
	else if (project && cbx_kind_of(project) == CBX_KIND_NPM)
		r = answer_npm(&q, cbx_json_text(job, "registry"), cbx_kind_bare(project), &registry, &text, &err);
	else
		r = answer_index(&q, job, &from, &text, &err);
	if (r < 0) {
		cbx_err_sanitize(&err);
		cbx_json_set_str(o, "kind", err.kind);
		cbx_json_set_str(o, "message", err.msg);
		text.len = 0;
	} else {
		cbx_json_set_str(o, "type", text.len && text.data[0] == 'h' ? "html" : "json");
		cbx_json_set_str(o, "url", q.url);
	}
	cbx_json_print(&line, o);
	cbx_buf_addc(&line, '\n');
	if (text.len)
		cbx_buf_add(&line, text.data + 1, text.len - 1);
	(void)cbx_write_all(out, line.data, line.len);
	free(q.url);
}
