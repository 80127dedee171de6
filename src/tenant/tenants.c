/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a file is parsed whole into new tenants before anything changes. Then each takes the place of
 * the old one of its name by its values: the old struct stays, with what is counted in it. Those that are in the file
 * no more stay too, marked. Keys of JWTs are of the same parse; their file alone is read again when it is another.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/queue.h"
#include "policy/policy.h"
#include "policy/source.h"
#include "tenant/tenant.h"
#include "tenant/users.h"

#define AT_ONCE_DEFAULT 256

struct reading {
	const struct cbx_source *source;
	const char *share_dir;
	char *dir; /* of the file, with its slash; "": the current one */
};

/* ---- one tenant ---- */

static int parse_size(const struct reading *rd, const cJSON *v, uint64_t *ret, struct cbx_err *err)
{
	if (cJSON_IsString(v) && cbx_parse_size(v->valuestring, v->string, 1, 1ull << 50, ret, err) < 0)
		return cbx_source_wrap(rd->source, v, err);
	if (!cJSON_IsString(v) && (!cJSON_IsNumber(v) || v->valuedouble < 1 || v->valuedouble > (double)(1ull << 50) ||
				   v->valuedouble != (double)(uint64_t)v->valuedouble))
		return cbx_source_refuse(rd->source, v, err,
					 "%s: give bytes, or a text with K, M, G or T such as \"4G\"", v->string);
	if (!cJSON_IsString(v))
		*ret = (uint64_t)v->valuedouble;
	return 0;
}

static int parse_count(const struct reading *rd, const cJSON *v, uint64_t *ret, struct cbx_err *err)
{
	if (!cJSON_IsNumber(v) || v->valuedouble < 1 || v->valuedouble > 1000000 ||
	    v->valuedouble != (double)(uint64_t)v->valuedouble)
		return cbx_source_refuse(rd->source, v, err, "%s: give a whole number from 1 to 1000000", v->string);
	*ret = (uint64_t)v->valuedouble;
	return 0;
}

static int parse_cpus(const struct reading *rd, const cJSON *v, uint64_t *ret, struct cbx_err *err)
{
	if (cbx_key_parse(CBX_KEY_CPUS, v, ret, err) < 0)
		return cbx_source_wrap(rd->source, v, err);
	return *ret ? 0 : cbx_source_refuse(rd->source, v, err, "cpus: give a number such as 1.5, or omit it");
}

static int parse_weight(const struct reading *rd, const cJSON *v, uint32_t *ret, struct cbx_err *err)
{
	uint64_t weight;

	if (cbx_key_parse(CBX_KEY_CPU_WEIGHT, v, &weight, err) < 0)
		return cbx_source_wrap(rd->source, v, err);
	*ret = (uint32_t)weight;
	return 0;
}

static int parse_policy(const struct reading *rd, const cJSON *v, const char *tenant, struct cbx_policy **ret,
			struct cbx_err *err)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_buf_ struct cbx_buf text = { 0 };
	int r;

	if (cJSON_IsObject(v)) {
		cbx_json_print(&text, v);
		r = cbx_policy_parse(cbx_buf_str(&text), text.len, tenant, "policy", NULL, NULL, ret, err);
	} else if (!cJSON_IsString(v) || !v->valuestring[0]) {
		return cbx_source_refuse(rd->source, v, err,
					 "policy: give the name of a shipped policy, a file or a policy itself");
	} else {
		bool relative = cbx_policy_is_path(v->valuestring) && v->valuestring[0] != '/';

		path = cbx_xasprintf("%s%s", relative ? rd->dir : "", v->valuestring);
		r = cbx_policy_load(rd->share_dir, path, ret, err);
	}
	return r < 0 ? cbx_source_wrap(rd->source, v, err) : 0;
}

static int by_name_and_tenant(const void *a, const void *b)
{
	const struct cbx_owned_image *x = a, *y = b;
	int r = strcmp(x->name, y->name);

	return r ? r : strcmp(x->tenant, y->tenant);
}

static int parse_images(const struct reading *rd, const cJSON *list, const char *tenant, struct cbx_owned_images *to,
			struct cbx_err *err)
{
	const cJSON *v;

	if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) > CBX_TENANT_IMAGES_MAX)
		return cbx_source_refuse(rd->source, list, err, "images: give a list of up to %d names",
					 CBX_TENANT_IMAGES_MAX);
	cJSON_ArrayForEach(v, list) {
		struct cbx_owned_image *image;

		if (!cJSON_IsString(v) || !cbx_name_valid(v->valuestring))
			return cbx_source_refuse(rd->source, v, err, "images: give names of images");
		to->all = cbx_xrealloc(to->all, (to->n + 1) * sizeof(*to->all));
		image = &to->all[to->n++];
		memset(image, 0, sizeof(*image));
		snprintf(image->name, sizeof(image->name), "%s", v->valuestring);
		snprintf(image->tenant, sizeof(image->tenant), "%s", tenant);
	}
	return 0;
}

static int parse_member(const struct reading *rd, struct cbx_tenants *all, struct cbx_tenant *t, const cJSON *v,
			struct cbx_err *err)
{
	struct cbx_principal *p = &t->principal;

	if (strcmp(v->string, "policy") == 0)
		return parse_policy(rd, v, p->tenant, &p->ceiling, err);
	if (strcmp(v->string, "images") == 0)
		return parse_images(rd, v, p->tenant, &all->owned, err);
	if (strcmp(v->string, "users") == 0)
		return cbx_users_parse(rd->source, v, all, t, err);
	if (strcmp(v->string, "sessions") == 0)
		return parse_count(rd, v, &p->sessions_max, err);
	if (strcmp(v->string, "memory") == 0)
		return parse_size(rd, v, &p->memory_max, err);
	if (strcmp(v->string, "disk") == 0)
		return parse_size(rd, v, &p->disk_max, err);
	if (strcmp(v->string, "cpus") == 0)
		return parse_cpus(rd, v, &p->cpus_max, err);
	if (strcmp(v->string, "cpu_weight") == 0)
		return parse_weight(rd, v, &p->cpu_weight, err);
	if (strcmp(v->string, "requests_per_second") == 0)
		return parse_count(rd, v, &t->requests.per_second, err);
	if (strcmp(v->string, "executions_per_second") == 0)
		return parse_count(rd, v, &t->executions.per_second, err);
	if (strcmp(v->string, "requests_at_once") == 0)
		return parse_count(rd, v, &t->at_once_max, err);
	return cbx_source_refuse(rd->source, v, err,
				 "unknown key \"%.80s\"; accepted are: policy, images, users, sessions, memory, disk, cpus, "
				 "cpu_weight, requests_per_second, executions_per_second, requests_at_once",
				 v->string);
}

static void tenant_free(struct cbx_tenant *t)
{
	cbx_policy_free(t->principal.ceiling);
	free(t->users);
	free(t);
}

static int parse_tenant(const struct reading *rd, const cJSON *obj, struct cbx_tenants *to, struct cbx_err *err)
{
	struct cbx_tenant *t;
	const cJSON *v;
	int r = 0;

	if (!cbx_name_valid(obj->string) || strcmp(obj->string, "local") == 0)
		return cbx_source_refuse(
			rd->source, obj, err,
			"\"%.80s\" is not a name for a tenant: use 1 to %d letters, digits, \"_\", \".\" and "
			"\"-\"; \"local\" is the user who runs codeboxd",
			obj->string, CBX_NAME_MAX);
	if (!cJSON_IsObject(obj))
		return cbx_source_refuse(rd->source, obj, err, "%s: wrong type; give an object", obj->string);
	t = cbx_xcalloc(1, sizeof(*t));
	snprintf(t->principal.tenant, sizeof(t->principal.tenant), "%s", obj->string);
	t->at_once_max = AT_ONCE_DEFAULT;
	TAILQ_INSERT_TAIL(&to->list, t, entry);
	cJSON_ArrayForEach(v, obj)
		if ((r = parse_member(rd, to, t, v, err)) < 0)
			return r;
	return 0;
}

/* After the tenants, since it names some. */
static int parse_jwt(const struct reading *rd, const cJSON *jwt, const cJSON *list, struct cbx_tenants *to,
		     struct cbx_err *err)
{
	const cJSON *v;
	int r = cbx_jwt_rules_parse(rd->source, jwt, rd->dir, &to->jwt, err);

	if (r < 0)
		return r;
	cJSON_ArrayForEach(v, to->jwt->tenants)
		if (!cbx_json_member(list, v->valuestring))
			return cbx_source_refuse(rd->source, jwt, err,
						 "jwt.tenants: there is no tenant %s; name one of \"tenants\"",
						 v->valuestring);
	return 0;
}

static int parse_file(const struct reading *rd, struct cbx_tenants *to, struct cbx_err *err)
{
	static const char *const keys[] = { "$schema", "jwt", "tenants", NULL };
	const cJSON *root = rd->source->doc.root, *list = cbx_json_member(root, "tenants"), *v;
	const cJSON *jwt = cbx_json_member(root, "jwt");
	int r;

	if (!cJSON_IsObject(root) || !cJSON_IsObject(list))
		return cbx_source_refuse(rd->source, root, err, "give an object with an object \"tenants\"");
	if (cbx_json_only(root, keys, err) < 0)
		return cbx_source_wrap(rd->source, root, err);
	if (cJSON_GetArraySize(list) > CBX_TENANTS_MAX)
		return cbx_source_refuse(rd->source, list, err, "tenants: more than %d", CBX_TENANTS_MAX);
	cJSON_ArrayForEach(v, list)
		if ((r = parse_tenant(rd, v, to, err)) < 0)
			return r;
	if (to->owned.n)
		qsort(to->owned.all, to->owned.n, sizeof(*to->owned.all), by_name_and_tenant);
	return jwt ? parse_jwt(rd, jwt, list, to, err) : 0;
}

/* ---- keys ---- */

static int read_text(const char *path, const char *kind, size_t max, struct cbx_buf *text, struct stat *ret_st,
		     struct cbx_err *err)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	int r = fd < 0 || fstat(fd, ret_st) < 0 ? -errno : 0;

	if (r >= 0 && (!S_ISREG(ret_st->st_mode) || ret_st->st_mode & S_IWOTH))
		return cbx_refuse(err, kind, EPERM, "%s must be a regular file that not every user can change", path);
	if (r >= 0)
		r = cbx_read_whole(fd, max, text);
	if (r < 0) {
		cbx_fail(err, -r, "read %s", path);
		snprintf(err->kind, sizeof(err->kind), "%s", kind);
	}
	return r;
}

/* `rules` of tenants that are read, or are in force. */
static int read_keys(const struct cbx_jwks_ops *ops, const struct cbx_jwt_rules *rules, struct cbx_jwks **ret,
		     struct stat *ret_st, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	int r = read_text(rules->path, "invalid_tenants", CBX_JWKS_FILE_MAX, &text, ret_st, err);

	if (r < 0)
		return cbx_wrap(err, "jwt.keys");
	return ops->parse(cbx_buf_str(&text), text.len, rules->path, rules, ret, err);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

int cbx_tenants_refresh_keys(struct cbx_tenants *t, struct cbx_err *err)
{
	struct cbx_jwks *keys = NULL;
	struct stat st = { 0 };
	int r;

	if (!t->jwt || !t->jwks)
		return 0;
	if (stat(t->jwt->path, &st) < 0)
		memset(&st, 0, sizeof(st));
	if (same_file(&st, &t->keys_at))
		return 0;
	t->keys_at = st;
	r = read_keys(t->jwks, t->jwt, &keys, &st, err);
	if (r < 0)
		return r;
	t->keys_at = st;
	t->jwks->free(t->keys);
	t->keys = keys;
	return 1;
}

static void release_jwt(struct cbx_tenants *t)
{
	if (t->jwks)
		t->jwks->free(t->keys);
	cbx_jwt_rules_free(t->jwt);
	t->keys = NULL;
	t->jwt = NULL;
}

/* ---- what is in force ---- */

void cbx_tenants_init(struct cbx_tenants *t)
{
	memset(t, 0, sizeof(*t));
	TAILQ_INIT(&t->list);
}

void cbx_tenants_release(struct cbx_tenants *t)
{
	struct cbx_tenant *one;

	while ((one = TAILQ_FIRST(&t->list))) {
		TAILQ_REMOVE(&t->list, one, entry);
		tenant_free(one);
	}
	free(t->owned.all);
	cbx_tokens_release(&t->tokens);
	release_jwt(t);
}

static struct cbx_tenant *any_by_name(const struct cbx_tenants *t, const char *name)
{
	struct cbx_tenant *one;

	TAILQ_FOREACH(one, &t->list, entry)
		if (strcmp(one->principal.tenant, name) == 0)
			return one;
	return NULL;
}

struct cbx_tenant *cbx_tenants_find(const struct cbx_tenants *t, const char *name)
{
	struct cbx_tenant *one = any_by_name(t, name);

	return one && !one->gone ? one : NULL;
}

/* The values of one that was read, for one that is there. */
static void renew(struct cbx_tenant *old, struct cbx_tenant *from)
{
	struct cbx_policy *ceiling = old->principal.ceiling;

	old->principal = from->principal;
	from->principal.ceiling = ceiling;
	old->principal.executions = &old->executions;
	old->requests.per_second = from->requests.per_second;
	old->executions.per_second = from->executions.per_second;
	old->at_once_max = from->at_once_max;
	free(old->users);
	old->users = take_ptr(&from->users);
	old->nusers = from->nusers;
	old->gone = false;
}

static void adopt(struct cbx_tenants *t, struct cbx_tenants *from)
{
	struct cbx_tenant *one, *old;

	release_jwt(t);
	t->jwt = take_ptr(&from->jwt);
	t->keys = take_ptr(&from->keys);
	t->keys_at = from->keys_at;
	free(t->owned.all);
	t->owned = from->owned;
	memset(&from->owned, 0, sizeof(from->owned));
	TAILQ_FOREACH(old, &t->list, entry)
		old->gone = true;
	while ((one = TAILQ_FIRST(&from->list))) {
		TAILQ_REMOVE(&from->list, one, entry);
		old = any_by_name(t, one->principal.tenant);
		if (old) {
			renew(old, one);
			tenant_free(one);
		} else {
			one->principal.executions = &one->executions;
			TAILQ_INSERT_TAIL(&t->list, one, entry);
		}
	}
	TAILQ_FOREACH(one, &t->list, entry)
		one->principal.owned = &t->owned;
}

int cbx_tenants_parse(struct cbx_tenants *t, const char *text, size_t len, const char *label, const char *share_dir,
		      struct cbx_err *err)
{
	const char *slash = strrchr(label, '/');
	_cleanup_free_ char *dir = cbx_xasprintf("%.*s", slash ? (int)(slash + 1 - label) : 0, label);
	struct cbx_tenants fresh;
	struct cbx_source source;
	struct reading rd = { &source, share_dir, dir };
	int r = cbx_source_open(&source, label, text, len, err);

	cbx_tenants_init(&fresh);
	fresh.jwks = t->jwks;
	if (r >= 0) {
		r = parse_file(&rd, &fresh, err);
		cbx_source_release(&source);
	}
	if (r >= 0 && fresh.jwt && fresh.jwks)
		r = read_keys(fresh.jwks, fresh.jwt, &fresh.keys, &fresh.keys_at, err);
	if (r >= 0)
		adopt(t, &fresh);
	else
		snprintf(err->kind, sizeof(err->kind), "invalid_tenants");
	cbx_tenants_release(&fresh);
	return r;
}

/* ---- files ---- */

char *cbx_tokens_path(const char *tenants_path)
{
	const char *slash = strrchr(tenants_path, '/');

	return cbx_xasprintf("%.*stokens.json", slash ? (int)(slash + 1 - tenants_path) : 0, tenants_path);
}

int cbx_tenants_load(struct cbx_tenants *t, const char *path, const char *share_dir, struct cbx_err *err)
{
	_cleanup_free_ char *tokens_path = cbx_tokens_path(path);
	_cleanup_buf_ struct cbx_buf text = { 0 }, tokens_text = { 0 };
	struct cbx_tokens tokens = { 0 };
	struct stat st;
	int r = read_text(path, "invalid_tenants", CBX_TENANTS_FILE_MAX, &text, &st, err);

	if (r < 0)
		return r;
	r = read_text(tokens_path, "invalid_tokens", CBX_TENANTS_FILE_MAX, &tokens_text, &st, err);
	if (r == 0)
		r = cbx_tokens_parse(cbx_buf_str(&tokens_text), tokens_text.len, tokens_path, &tokens, err);
	else if (r == -ENOENT)
		r = 0; /* none was made yet */
	if (r >= 0)
		r = cbx_tenants_parse(t, cbx_buf_str(&text), text.len, path, share_dir, err);
	if (r < 0) {
		cbx_tokens_release(&tokens);
		return r;
	}
	cbx_tokens_release(&t->tokens);
	t->tokens = tokens;
	for (size_t i = 0; i < tokens.n; i++)
		tokens.all[i].of = cbx_tenants_find(t, tokens.all[i].tenant);
	return 0;
}
