/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: answers are kept by the SHA-256 of their address. A page is asked for again when it is some
 * minutes old, and used all the same when the index does not answer; what belongs to one file of the index never
 * changes. A file is made under another name first, so what is there is complete. The end of a wheel, where its list of
 * files and most often its metadata are, is kept by the address and its length; a wheel that came whole, as itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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
	struct cbx_fetcher *fetcher;
	bool page, npm;
	bool others;	   /* that are asked when this one does not have it */
	uint64_t kept_max; /* bytes, of the whole store */
	uint64_t max;	   /* of an answer; 0: CBX_INSTALL_PAGE_MAX */
	uint64_t last;	   /* bytes of the file's end that will do; 0: it is wanted whole */
	bool part;	   /* not all of it is there */
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

static bool copy_kept(const struct cbx_store_dirs *store, const char *kept, FILE *out)
{
	_cleanup_fd_ int fd = openat(store->all, kept, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char chunk[65536];
	ssize_t n;

	if (fd < 0 || lseek(fd, 1, SEEK_SET) < 0)
		return false;
	while ((n = cbx_read_full(fd, chunk, sizeof(chunk))) > 0 && fwrite(chunk, 1, (size_t)n, out) == (size_t)n)
		;
	if (n == 0)
		return true;
	rewind(out);
	return ftruncate(fileno(out), 0) < 0; /* never both */
}

bool cbx_kept_take(const struct cbx_store_dirs *store, const char *url, FILE *out)
{
	char kept[KEPT_NAME];
	bool there;

	name_kept(false, url, kept);
	there = copy_kept(store, kept, out);
	(void)unlinkat(store->all, kept, 0);
	return there;
}

/* No address has a space. */
static void name_end(const char *url, uint64_t last, char kept[KEPT_NAME])
{
	_cleanup_free_ char *end = cbx_xasprintf("%s %" PRIu64, url, last);

	name_kept(false, end, kept);
}

bool cbx_kept_end(const struct cbx_store_dirs *store, const char *url, FILE *out)
{
	char kept[KEPT_NAME];

	name_end(url, CBX_END_BYTES, kept);
	return copy_kept(store, kept, out);
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
static int ask(struct question *q, struct cbx_buf *ret, struct cbx_err *err)
{
	struct cbx_fetch what = { .url = q->url, .max = most(q), .last = q->last };
	char random[13], path[40];
	_cleanup_fclose_ FILE *out = NULL;
	int fd, r;

	what.accept = q->npm ? ACCEPT_NPM : q->page ? ACCEPT : NULL;
	cbx_random_name(random, 12);
	snprintf(path, sizeof(path), "t/%s", random);
	fd = openat(q->store->own, path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	out = fd < 0 ? NULL : fdopen(fd, "w+");
	if (!out)
		return cbx_fail(err, errno, "keep an answer of the index");
	(void)unlinkat(q->store->own, path, 0); /* also when this process is killed */
	r = cbx_fetch(q->fetcher, q->index, &what, out, err);
	if (r >= 0 && fflush(out) != 0)
		r = cbx_fail(err, errno, "keep an answer of the index");
	if (r >= 0) {
		rewind(out);
		q->part = what.part;
		cbx_buf_addc(ret, what.html ? 'h' : 'j');
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

/* Named for its end, if only that is wanted. */
static bool open_kept_end(struct question *q, struct cbx_buf *ret)
{
	if (!q->last || q->index->dir)
		return false;
	name_end(q->url, q->last, q->kept);
	q->part = open_kept(q, false, ret);
	return q->part;
}

static int answer(struct question *q, const char *project, struct cbx_buf *ret, struct cbx_err *err)
{
	int r;

	if (q->index->dir && project) {
		cbx_buf_addc(ret, 'j');
		return cbx_index_list(q->index, project, ret, err);
	}
	name_kept(q->page, q->url, q->kept);
	if (!q->index->dir && (open_kept(q, false, ret) || open_kept_end(q, ret)))
		return 0;
	r = ask(q, ret, err);
	if (r >= 0 && q->last && !q->part)
		name_kept(false, q->url, q->kept);
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

int cbx_answer_page(struct cbx_fetcher *fetcher, const struct cbx_indexes *from, const struct cbx_store_dirs *store,
		    const char *project, char **ret_url, const struct cbx_index **ret_index, struct cbx_buf *ret,
		    struct cbx_err *err)
{
	struct question q = { .store = store, .fetcher = fetcher, .page = true, .kept_max = CBX_INDEX_KEPT_MAX };
	int r = answer_in_turn(&q, from, project, ret, err);

	*ret_url = q.url;
	*ret_index = q.index;
	return r;
}

/* ---- questions of a resolver ---- */

/* What all that one process is asked has in common. */
struct asked {
	const struct cbx_store_dirs *store;
	const cJSON *job;
	struct cbx_indexes from; /* of conda: the channels, in their order */
	struct cbx_fetcher fetcher;
};

static const cJSON *channels_of(const struct asked *a)
{
	return cbx_json_member(a->job, "channels");
}

static int find_channels(struct asked *a, struct cbx_err *err)
{
	const cJSON *v;
	int r = 0;

	_Static_assert(CBX_CHANNELS_MAX <= ARRAY_SIZE(a->from.all), "a place for each channel");
	cJSON_ArrayForEach(v, channels_of(a)) {
		_cleanup_(cbx_indexes_release) struct cbx_indexes one = { 0 };

		if (a->from.n == CBX_CHANNELS_MAX || !cJSON_IsString(v))
			return cbx_refuse(err, "protocol", EINVAL, "there is no such job");
		r = cbx_index_find(v->valuestring, &one, err);
		if (r < 0)
			return r;
		a->from.all[a->from.n++] = one.all[0];
		one.all[0] = (struct cbx_index){ 0 };
	}
	return r;
}

/* All that any question may need is found, and then nothing else is left to reach. */
static int prepare(struct asked *a, struct cbx_err *err)
{
	bool npm = cJSON_IsTrue(cbx_json_member(a->job, "npm"));
	_cleanup_free_ char *config = npm ? cbx_registry_file() : NULL;
	int r;

	if (npm) { /* each scope has its registry, but certificates are those of all */
		a->from.n = 1;
		r = cbx_registry_find(cbx_json_text(a->job, "registry"), "", &a->from.all[0], err);
	} else if (channels_of(a)) {
		r = find_channels(a, err);
	} else {
		r = cbx_index_find(cbx_json_text(a->job, "index"), &a->from, err);
	}
	return r < 0 ? r : cbx_confine_fetch(a->from.all, a->from.n, config, a->store, err);
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
	return answer(q, project, ret, err);
}

/* The list of a directory of a channel, and nothing else of it: packages are fetched when they have been judged. */
static int answer_channel(struct question *q, const struct asked *a, const char *url, struct cbx_buf *ret,
			  struct cbx_err *err)
{
	const char *path = NULL;
	const cJSON *v;
	size_t i = 0;

	cJSON_ArrayForEach(v, channels_of(a)) {
		path = cbx_conda_within(v->valuestring, url ? url : "");
		if (path)
			break;
		i++;
	}
	if (!path)
		return cbx_refuse(err, "index_refused", EPERM,
				  "%.200s is not in a channel of the policy (packages.channels)", url ? url : "");
	if (!cbx_conda_is_list(path))
		return cbx_refuse(err, "index_refused", EINVAL, "a list of packages has an impossible name");
	q->index = &a->from.all[i];
	q->page = true;
	q->max = CBX_CHANNEL_PAGE_MAX;
	q->url = cbx_xstrdup(url);
	return answer(q, NULL, ret, err);
}

/* Of a wheel that the resolver has built: its pieces come one after the other, and are kept until it is installed. */
static int take_piece(struct question *q, const cJSON *job, struct cbx_err *err)
{
	const char *name = cbx_json_text(job, "built"), *data = cbx_json_text(job, "data");
	_cleanup_buf_ struct cbx_buf piece = { 0 };
	uint64_t at = cbx_json_u64(job, "at");
	_cleanup_fd_ int fd = -1;
	struct stat st;
	int r;

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

static int answer_index(struct question *q, const struct cbx_indexes *from, const char *project, const char *url,
			struct cbx_buf *ret, struct cbx_err *err)
{
	char name[CBX_PROJECT_MAX];
	int r;

	q->page = project;
	if (project && (!cbx_project_name(project, strlen(project), name) || strcmp(name, project) != 0))
		return cbx_refuse(err, "index_refused", EINVAL, "a project has an impossible name");
	if (project)
		return answer_in_turn(q, from, project, ret, err);
	q->url = cbx_xstrdup(url ? url : "");
	q->index = cbx_index_of(from, q->url);
	r = cbx_index_allows(q->index, q->url, err);
	return r < 0 ? r : answer(q, NULL, ret, err);
}

/* An answer: the number of its bytes, a line of JSON, and what was asked for. */
static int answer_one(struct asked *a, const cJSON *asked, int sock, const struct cbx_err *failure)
{
	struct question q = { .store = a->store,
			      .fetcher = &a->fetcher,
			      .kept_max = cbx_json_u64(a->job, "cache"),
			      .last = cbx_json_u64(asked, "last") };
	_cleanup_buf_ struct cbx_buf text = { 0 }, line = { 0 }, all = { 0 };
	_cleanup_json_ cJSON *o = cbx_json_new_obj();
	const char *project = cbx_json_text(asked, "project"), *url = cbx_json_text(asked, "url");
	_cleanup_(cbx_index_release) struct cbx_index registry = { 0 };
	struct cbx_err err = *failure;
	int r;

	if (err.code)
		r = -err.code;
	else if (cbx_json_text(asked, "built"))
		r = take_piece(&q, asked, &err);
	else if (channels_of(a))
		r = answer_channel(&q, a, url, &text, &err);
	else if (project && cbx_kind_of(project) == CBX_KIND_NPM)
		r = answer_npm(&q, cbx_json_text(a->job, "registry"), cbx_kind_bare(project), &registry, &text, &err);
	else
		r = answer_index(&q, &a->from, project, url, &text, &err);
	if (r < 0) {
		cbx_err_sanitize(&err);
		cbx_json_set_str(o, "kind", err.kind);
		cbx_json_set_str(o, "message", err.msg);
		text.len = 0;
	} else {
		cbx_json_set_str(o, "type", text.len && text.data[0] == 'h' ? "html" : "json");
		cbx_json_set_str(o, "url", q.url);
		cbx_json_set_bool(o, "part", q.part);
	}
	free(q.url);
	cbx_json_print(&line, o);
	cbx_buf_addc(&line, '\n');
	if (text.len)
		cbx_buf_add(&line, text.data + 1, text.len - 1);
	cbx_buf_addf(&all, "%zu\n", line.len);
	r = cbx_write_all(sock, all.data, all.len);
	return r < 0 ? r : cbx_write_all(sock, line.data, line.len);
}

void cbx_answer_questions(const cJSON *job, const struct cbx_store_dirs *store, int sock, struct cbx_buf *got)
{
	struct asked a = { .store = store, .job = job };
	_cleanup_buf_ struct cbx_buf line = { 0 };
	struct cbx_err failure = { 0 };

	if (prepare(&a, &failure) >= 0)
		failure.code = 0;
	while (cbx_job_line(sock, got, &line) > 0) {
		_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
		struct cbx_err ignored;

		if (cbx_json_parse(cbx_buf_str(&line), line.len, &doc, &ignored) < 0 ||
		    answer_one(&a, doc.root, sock, &failure) < 0)
			break;
	}
	cbx_fetcher_release(&a.fetcher);
	cbx_indexes_release(&a.from);
}
