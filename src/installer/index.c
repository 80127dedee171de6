/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: an index is a host that whoever wrote the policy, or the user's own pip configuration, chose, so
 * it may be anywhere. What its pages lead to may not: files come from it, or by HTTPS from a public address.
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
#include "installer/installer.h"
#include "packages/version.h"

#define PYPI "https://pypi.org/simple/"
#define CONFIG_MAX KIB(64)

/* ---- pip's configuration ---- */

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

/* The lines of [global] and [install]; what comes later counts. */
static void read_config(const char *path, struct cbx_index *index)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	char line[4096];
	bool ours = false;

	while (f && fgets(line, sizeof(line), f)) {
		size_t n = strcspn(line, "\n"), eq = strcspn(line, "=:\n");
		_cleanup_free_ char *key = NULL, *value = NULL;

		if (line[0] == '[') {
			ours = cbx_starts_with(line, "[global]") || cbx_starts_with(line, "[install]");
			continue;
		}
		if (!ours || line[0] == '#' || line[0] == ';' || line[0] == ' ' || eq >= n)
			continue;
		key = cbx_index_trimmed(line, eq);
		value = cbx_index_trimmed(line + eq + 1, n - eq - 1);
		if (key && value && (strcmp(key, "index-url") == 0 || strcmp(key, "index_url") == 0)) {
			free(index->url);
			index->url = take_ptr(&value);
		} else if (key && value && strcmp(key, "cert") == 0) {
			free(index->ca);
			index->ca = take_ptr(&value);
		}
	}
}

static void read_environment(struct cbx_index *index)
{
	static const char *const urls[] = { "UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL" };
	static const char *const certificates[] = { "PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE" };

	for (size_t i = 0; i < ARRAY_SIZE(urls); i++) {
		const char *v = getenv(urls[i]);

		if (!v || !v[0])
			continue;
		free(index->url);
		index->url = cbx_xstrdup(v);
	}
	for (size_t i = ARRAY_SIZE(certificates); i-- > 0;) {
		const char *v = getenv(certificates[i]);

		if (!v || v[0] != '/')
			continue;
		free(index->ca);
		index->ca = cbx_xstrdup(v);
	}
}

static void read_configs(struct cbx_index *index)
{
	const char *home = getenv("HOME"), *config = getenv("XDG_CONFIG_HOME"), *file = getenv("PIP_CONFIG_FILE");
	_cleanup_free_ char *legacy = cbx_xasprintf("%s/.pip/pip.conf", home ? home : ""),
			    *user = config && config[0] ? cbx_xasprintf("%s/pip/pip.conf", config) :
							  cbx_xasprintf("%s/.config/pip/pip.conf", home ? home : "");
	const char *const all[] = { "/etc/pip.conf", legacy, user, file ? file : "" };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i][0] == '/')
			read_config(all[i], index);
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
	char *p = strstr(index->url, "://"), *at = p ? memchr(p + 3, '@', strcspn(p + 3, "/?#")) : NULL;

	if (!at)
		return;
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

int cbx_index_find(const char *wanted, struct cbx_index *ret, struct cbx_err *err)
{
	*ret = (struct cbx_index){ .config = "pip's configuration and ~/.netrc" };
	read_configs(ret);
	read_environment(ret);
	if (wanted) {
		free(take_ptr(&ret->url));
		*(wanted[0] == '/' ? &ret->dir : &ret->url) = cbx_xstrdup(wanted);
	}
	if (ret->dir)
		return 0;
	if (!ret->url)
		ret->url = cbx_xstrdup(PYPI);
	return cbx_index_complete(
		ret,
		"the index is not an address of http or https; correct packages.index of the policy, or "
		"pip's configuration",
		err);
}

void cbx_index_release(struct cbx_index *index)
{
	free(index->url);
	free(index->dir);
	free(index->host);
	if (index->authorization)
		explicit_bzero(index->authorization, strlen(index->authorization));
	free(index->authorization);
	free(index->user);
	free(index->ca);
	free(index->proxy);
	*index = (struct cbx_index){ 0 };
}

const char *cbx_index_file(const struct cbx_index *index, const char *url)
{
	const char *p = cbx_starts_with(url, "file://") ? url + 7 : "";
	size_t n = index->dir ? strlen(index->dir) : 0;

	if (!n || strncmp(p, index->dir, n) != 0 || p[n] != '/' || !p[n + 1] || p[n + 1] == '.' || strchr(p + n + 1, '/'))
		return NULL;
	return p + n + 1;
}

int cbx_index_allows(const struct cbx_index *index, const char *url, struct cbx_err *err)
{
	_cleanup_free_ char *host = host_of(url);

	if (index->dir ? cbx_index_file(index, url) != NULL :
			 cbx_starts_with(url, "https://") ||
				 (cbx_starts_with(url, "http://") && cbx_starts_with(index->url, "http://") && host &&
				  strcmp(host, index->host) == 0))
		return 0;
	return cbx_refuse(err, "index_refused", EPERM,
			  "the index leads to %.200s, which is neither on its own host nor reached by HTTPS", host ? host : "?");
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
	for (size_t i = 0; i < sizeof(digest); i++)
		snprintf(sum + 2 * i, 3, "%02x", digest[i]);
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

		if (!cbx_ends_with(e->d_name, ".whl") || !cbx_project_name(e->d_name, n, name) || strcmp(name, project) != 0)
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
