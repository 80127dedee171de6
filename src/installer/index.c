/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: an index is a host that whoever wrote the policy, or the user's own configuration of pip or uv,
 * chose, so it may be anywhere. What its pages lead to may not: files come from it, or by HTTPS from a public address.
 *
 * Where there are several, directories come first, then those that are named besides the main one, and that last. The
 * first that has a project is the one it comes from, as with uv: else whoever takes the name of a private package in
 * the public index is installed in its stead.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "installer/config.h"
#include "installer/index.h"
#include "packages/conda.h"
#include "packages/version.h"

#define PYPI "https://pypi.org/simple/"

char *cbx_index_trimmed(const char *p, size_t n)
{
	while (n && strchr(" \t\r", p[n - 1]))
		n--;
	while (n && strchr(" \t", *p)) {
		p++;
		n--;
	}
	return n ? strndup(p, n) : NULL;
}

/* ---- addresses ---- */

/* "host:port" of an address; NULL: it has none. A user and password are not part of it. */
static char *host_of(const char *url)
{
	const char *p = strstr(url, "://"), *at;
	size_t n = p ? strcspn(p + 3, "/?#") : 0;
	char *host = n ? strndup(p + 3, n) : NULL;

	at = host ? strrchr(host, '@') : NULL;
	if (at)
		memmove(host, at + 1, strlen(at + 1) + 1);
	for (char *c = host; c && *c; c++)
		*c |= *c >= 'A' && *c <= 'Z' ? 32 : 0;
	return host;
}

/* Keep what logs in apart: nobody else is to see it. */
static void split_user(struct cbx_index *index)
{
	char *p = strstr(index->url, "://"), *at = p ? memrchr(p + 3, '@', strcspn(p + 3, "/?#")) : NULL;

	if (!at)
		return;
	if (!index->user) /* "%40" is "@"; what is not such a code is taken as it is */
		index->user = cbx_percent_decode(p + 3, (size_t)(at - p - 3));
	if (!index->user)
		index->user = strndup(p + 3, (size_t)(at - p - 3));
	memmove(p + 3, at + 1, strlen(at + 1) + 1);
}

int cbx_index_complete(struct cbx_index *index, const char *wrong, struct cbx_err *err)
{
	if (!cbx_ends_with(index->url, "/")) {
		char *with = cbx_xasprintf("%s/", index->url);

		free(index->url);
		index->url = with;
	}
	split_user(index);
	index->host = host_of(index->url);
	if (!index->host || (!cbx_starts_with(index->url, "https://") && !cbx_starts_with(index->url, "http://")))
		return cbx_refuse(err, "index_refused", EINVAL, "%s", wrong);
	return 0;
}

/* With what is the same for all of them. */
static struct cbx_index *add(struct cbx_indexes *to, const struct cbx_index_config *c)
{
	struct cbx_index *index = &to->all[to->n++];

	*index = (struct cbx_index){ .config = "the configuration of pip and uv, and ~/.netrc (no keyring is asked)",
				     .ca = c->ca ? cbx_xstrdup(c->ca) : NULL,
				     .client = c->client ? cbx_xstrdup(c->client) : NULL,
				     .proxy = c->proxy ? cbx_xstrdup(c->proxy) : NULL,
				     .http_proxy = c->http_proxy ? cbx_xstrdup(c->http_proxy) : NULL,
				     .https_proxy = c->https_proxy ? cbx_xstrdup(c->https_proxy) : NULL,
				     .no_proxy = c->no_proxy ? cbx_xstrdup(c->no_proxy) : NULL,
				     .offline = c->offline == CBX_SET_YES };
	return index;
}

static int add_place(struct cbx_indexes *to, const struct cbx_index_config *c, const struct cbx_place *place,
		     struct cbx_err *err)
{
	struct cbx_index *index = add(to, c);

	index->url = cbx_xstrdup(place->at ? place->at : PYPI);
	index->user = place->user ? cbx_xstrdup(place->user) : NULL;
	return cbx_index_complete(
		index,
		"an index is not an address of http or https; correct packages.index of the policy, or the "
		"configuration of pip or uv",
		err);
}

static int add_configured(struct cbx_indexes *to, struct cbx_index_config *c, struct cbx_err *err)
{
	int r = cbx_index_config_links(c, err);

	if (r >= 0 && c->no_index == CBX_SET_YES && !c->links.n)
		r = cbx_refuse(err, "index_refused", EINVAL,
			       "the configuration of pip or uv says that there is no index (no-index), and names no "
			       "directory of wheels (find-links); correct it, or set packages.index of the policy");
	for (size_t i = 0; r >= 0 && i < c->links.n; i++)
		add(to, c)->dir = cbx_xstrdup(c->links.all[i].at);
	if (c->no_index == CBX_SET_YES)
		return r;
	for (size_t i = 0; r >= 0 && i < c->extra.n; i++)
		r = add_place(to, c, &c->extra.all[i], err);
	return r < 0 ? r : add_place(to, c, &c->index, err);
}

int cbx_index_find(const char *wanted, struct cbx_indexes *ret, struct cbx_err *err)
{
	_cleanup_(cbx_index_config_release) struct cbx_index_config c = { 0 };
	int r;

	*ret = (struct cbx_indexes){ 0 };
	r = cbx_index_config_read(&c, err);
	if (r >= 0 && !wanted)
		r = add_configured(ret, &c, err);
	else if (r >= 0 && wanted[0] == '/')
		add(ret, &c)->dir = cbx_xstrdup(wanted);
	else if (r >= 0)
		r = add_place(ret, &c, &(struct cbx_place){ .at = (char *)wanted }, err);
	if (r < 0)
		cbx_indexes_release(ret);
	return r;
}

int cbx_channel_find(const cJSON *job, const char *url, struct cbx_indexes *ret, const char **ret_path,
		     struct cbx_err *err)
{
	const cJSON *v;

	*ret = (struct cbx_indexes){ 0 };
	cJSON_ArrayForEach(v, cbx_json_member(job, "channels")) {
		*ret_path = cJSON_IsString(v) ? cbx_conda_within(v->valuestring, url) : NULL;
		if (*ret_path)
			return cbx_index_find(v->valuestring, ret, err);
	}
	return cbx_refuse(err, "index_refused", EPERM, "%.200s is not in a channel of the policy (packages.channels)",
			  url);
}

const struct cbx_index *cbx_index_of(const struct cbx_indexes *from, const char *url)
{
	_cleanup_free_ char *host = host_of(url);
	const struct cbx_index *best = &from->all[from->n - 1];
	size_t longest = 0;

	for (size_t i = 0; i < from->n; i++) {
		const struct cbx_index *index = &from->all[i];
		size_t n = 0;

		if (index->dir ? cbx_index_file(index, url) != NULL : host && strcmp(host, index->host) == 0)
			n = 1;
		/* Of two on one host, the one that has more of the address knows who logs in. */
		while (n && index->url && index->url[n - 1] && index->url[n - 1] == url[n - 1])
			n++;
		if (n > longest) {
			longest = n;
			best = index;
		}
	}
	return best;
}

void cbx_indexes_release(struct cbx_indexes *indexes)
{
	for (size_t i = 0; i < indexes->n; i++)
		cbx_index_release(&indexes->all[i]);
	indexes->n = 0;
}

void cbx_index_release(struct cbx_index *index)
{
	free(index->url);
	free(index->dir);
	free(index->host);
	cbx_str_wipe(&index->authorization);
	cbx_str_wipe(&index->user);
	free(index->ca);
	free(index->client);
	free(index->proxy);
	free(index->http_proxy);
	free(index->https_proxy);
	free(index->no_proxy);
	*index = (struct cbx_index){ 0 };
}

const char *cbx_index_file(const struct cbx_index *index, const char *url)
{
	const char *p = cbx_starts_with(url, "file://") ? url + 7 : "";
	size_t n = index->dir ? strlen(index->dir) : 0;

	if (!n || strncmp(p, index->dir, n) != 0 || p[n] != '/' || !p[n + 1] || p[n + 1] == '.' ||
	    strchr(p + n + 1, '/'))
		return NULL;
	return p + n + 1;
}

int cbx_index_allows(const struct cbx_index *index, const char *url, struct cbx_err *err)
{
	_cleanup_free_ char *host = host_of(url);

	if (index->dir ? cbx_index_file(index, url) != NULL
		       : cbx_starts_with(url, "https://") ||
				 (cbx_starts_with(url, "http://") && cbx_starts_with(index->url, "http://") && host &&
				  strcmp(host, index->host) == 0))
		return 0;
	return cbx_refuse(err, "index_refused", EPERM,
			  "the index leads to %.200s, which is neither on its own host nor reached by HTTPS",
			  host ? host : "?");
}

/* ---- a directory of wheels ---- */

static int hash(int dir, const char *name, char sum[65], uint64_t *size, struct cbx_err *err)
{
	_cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	uint8_t chunk[65536], digest[SHA256_DIGEST_SIZE];
	struct sha256_ctx c;
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	sha256_init(&c);
	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		sha256_update(&c, (size_t)n, chunk);
	if (n < 0)
		return cbx_fail(err, errno, "read %s", name);
	sha256_digest(&c, sizeof(digest), digest);
	cbx_hex(digest, sizeof(digest), sum);
	*size = (uint64_t)st.st_size;
	return 1;
}

int cbx_index_list(const struct cbx_index *index, const char *project, struct cbx_buf *ret, struct cbx_err *err)
{
	_cleanup_closedir_ DIR *d = opendir(index->dir);
	_cleanup_json_ cJSON *page = cbx_json_new_obj();
	cJSON *files = cbx_json_new_arr();
	const struct dirent *e;

	cbx_json_set(page, "files", files);
	if (!d)
		return cbx_fail(err, errno, "open the directory of wheels %s", index->dir);
	while ((e = readdir(d))) {
		size_t n = strcspn(e->d_name, "-");
		char name[CBX_PROJECT_MAX], sum[65];
		_cleanup_free_ char *url = NULL;
		uint64_t size;
		cJSON *file, *hashes;
		int r;

		if (!cbx_ends_with(e->d_name, ".whl") || !cbx_project_name(e->d_name, n, name) ||
		    strcmp(name, project) != 0)
			continue;
		r = hash(dirfd(d), e->d_name, sum, &size, err);
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		url = cbx_xasprintf("file://%s/%s", index->dir, e->d_name);
		file = cbx_json_new_obj();
		hashes = cbx_json_new_obj();
		cbx_json_set_str(file, "filename", e->d_name);
		cbx_json_set_str(file, "url", url);
		cbx_json_set_str(hashes, "sha256", sum);
		cbx_json_set(file, "hashes", hashes);
		cbx_json_set_u64(file, "size", size);
		cbx_json_push(files, file);
	}
	if (!files->child)
		return cbx_refuse(err, "not_found", ENOENT, "%s: there is no wheel of it in %s", project, index->dir);
	cbx_json_print(ret, page);
	return 0;
}
