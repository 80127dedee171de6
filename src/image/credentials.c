/* SPDX-License-Identifier: Apache-2.0 */
#include "image/credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json.h"
#include "image/image-limits.h"

void cbx_credentials_release(struct cbx_credentials *c)
{
	cbx_str_wipe(&c->password);
	free(take_ptr(&c->user));
}

/* "https://index.docker.io/v1/" is Docker Hub's key; in others the scheme and a path of the protocol may stand, too. */
static char *plain_key(const char *key)
{
	char *k = cbx_xstrdup(cbx_starts_with(key, "https://")	? key + 8
			      : cbx_starts_with(key, "http://") ? key + 7
								: key);
	size_t n = strlen(k);

	while (n && k[n - 1] == '/')
		k[--n] = '\0';
	if (cbx_ends_with(k, "/v1") || cbx_ends_with(k, "/v2"))
		k[n - 3] = '\0';
	if (strcmp(k, "index.docker.io") == 0 || strcmp(k, "registry-1.docker.io") == 0)
		strcpy(k, "docker.io");
	return k;
}

/* How much of the name a key covers: 0: nothing. The longest is taken, as podman does. */
static size_t covers(const char *key, const char *name)
{
	_cleanup_free_ char *k = plain_key(key);
	size_t n = strlen(k);

	return n && strncmp(k, name, n) == 0 && (name[n] == '/' || name[n] == '\0') ? n : 0;
}

static int take_entry(const cJSON *entry, const char *file, struct cbx_credentials *ret, struct cbx_err *err)
{
	const char *auth = cbx_json_text(entry, "auth");
	_cleanup_buf_ struct cbx_buf plain = { 0 };
	char *colon;

	if (cbx_json_text(entry, "username") && cbx_json_text(entry, "password")) {
		ret->user = cbx_xstrdup(cbx_json_text(entry, "username"));
		ret->password = cbx_xstrdup(cbx_json_text(entry, "password"));
		return 1;
	}
	if (!auth || !*auth)
		return 0; /* a helper has them */
	if (cbx_base64_decode(&plain, auth, strlen(auth)) < 0 || !plain.len || memchr(plain.data, '\0', plain.len) ||
	    !(colon = strchr(plain.data, ':')))
		return cbx_refuse(
			err, "invalid_credentials", EINVAL,
			"%s: an \"auth\" in it is not base64 of user:password; log in again, with podman or docker",
			file);
	ret->user = strndup(plain.data, (size_t)(colon - plain.data));
	ret->password = cbx_xstrdup(colon + 1);
	cbx_buf_wipe(&plain);
	return 1;
}

int cbx_credentials_in(const char *text, size_t len, const char *file, const struct cbx_reference *ref,
		       struct cbx_credentials *ret, struct cbx_err *err)
{
	_cleanup_free_ char *name = cbx_xasprintf("%s/%s", ref->named, ref->repository);
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	const cJSON *entry, *best = NULL;
	size_t longest = 0;
	struct cbx_err e;

	if (cbx_json_parse(text, len, &doc, &e) < 0 || doc.problem.code)
		return cbx_refuse(err, "invalid_credentials", EINVAL, "%s is not JSON; correct it, or move it away",
				  file);
	cJSON_ArrayForEach(entry, cbx_json_member(doc.root, "auths")) {
		size_t n = entry->string && cJSON_IsObject(entry) ? covers(entry->string, name) : 0;

		if (n > longest) {
			longest = n;
			best = entry;
		}
	}
	return best ? take_entry(best, file, ret, err) : 0;
}

static int in_file(const char *path, const struct cbx_reference *ref, struct cbx_credentials *ret, struct cbx_err *err)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	_cleanup_buf_ struct cbx_buf text = { 0 };
	int r;

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : cbx_fail(err, errno, "open the credentials %s", path);
	r = cbx_read_whole(fd, CBX_CREDENTIALS_MAX, &text);
	if (r < 0)
		return cbx_fail(err, -r, "read the credentials %s", path);
	r = cbx_credentials_in(cbx_buf_str(&text), text.len, path, ref, ret, err);
	cbx_buf_wipe(&text);
	return r;
}

int cbx_credentials_find(const struct cbx_reference *ref, struct cbx_credentials *ret, struct cbx_err *err)
{
	const char *home = getenv("HOME"), *runtime = getenv("XDG_RUNTIME_DIR"), *config = getenv("XDG_CONFIG_HOME");
	const char *docker = getenv("DOCKER_CONFIG"), *named = getenv("REGISTRY_AUTH_FILE");
	char *paths[5] = { 0 };
	int r = 0;

	*ret = (struct cbx_credentials){ 0 };
	if (named && *named) {
		r = in_file(named, ref, ret, err);
		return r < 0 ? r : 0;
	}
	if (runtime && *runtime)
		paths[0] = cbx_xasprintf("%s/containers/auth.json", runtime);
	if (config && *config)
		paths[1] = cbx_xasprintf("%s/containers/auth.json", config);
	else if (home && *home)
		paths[1] = cbx_xasprintf("%s/.config/containers/auth.json", home);
	if (docker && *docker)
		paths[2] = cbx_xasprintf("%s/config.json", docker);
	else if (home && *home)
		paths[2] = cbx_xasprintf("%s/.docker/config.json", home);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		if (paths[i] && r == 0)
			r = in_file(paths[i], ref, ret, err);
		free(paths[i]);
	}
	return r < 0 ? r : 0;
}
