/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a manifest is checked completely when it is read, at the start of codeboxd, so that no session
 * finds a fault in it. Its lists stay as they were parsed.
 */
#include "runtimes/runtime.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

static int invalid(struct cbx_err *err, const char *key, const char *why)
{
	return cbx_refuse(err, "invalid_runtime", EINVAL, "\"%s\": %s", key, why);
}

/* ---- one manifest ---- */

static bool valid_name(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_+-");

	return n > 0 && n <= CBX_RUNTIME_NAME_MAX && !s[n] && s[0] != '-';
}

static bool valid_extension(const char *s)
{
	size_t n = s[0] == '.' ? strspn(s + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") : 0;

	return n > 0 && n <= CBX_RUNTIME_NAME_MAX && !s[1 + n];
}

static bool valid_path(const char *s)
{
	return s[0] == '/' && s[1] && strlen(s) < CBX_RUNTIME_TEXT_MAX;
}

static bool valid_text(const char *s)
{
	return s[0] && strlen(s) < CBX_RUNTIME_TEXT_MAX;
}

/* A list of texts, or nothing. */
static int get_list(const cJSON *o, const char *key, bool (*valid)(const char *), const cJSON **ret,
		    struct cbx_err *err)
{
	const cJSON *v;
	int r = cbx_json_get_arr(o, key, ret, err);

	if (r <= 0)
		return r;
	if (cJSON_GetArraySize(*ret) > CBX_RUNTIME_LIST_MAX)
		return invalid(err, key, "it is too long");
	cJSON_ArrayForEach(v, *ret)
		if (!cJSON_IsString(v) || !valid(v->valuestring))
			return invalid(err, key, "it has a member that is not of its kind");
	return 0;
}

static int get_name(const cJSON *o, const char *key, bool (*valid)(const char *), const char **ret, struct cbx_err *err)
{
	int r = cbx_json_get_str(o, key, ret, err);

	if (r == 0)
		return invalid(err, key, "it is missing");
	return r > 0 && !valid(*ret) ? invalid(err, key, "it is not valid") : r;
}

static bool valid_driver(const char *s)
{
	return valid_text(s) && !strchr(s, '/') && s[0] != '.';
}

static int get_dialects(struct cbx_runtime *rt, struct cbx_err *err)
{
	static const char *const keys[] = { "aliases", "extensions", NULL };
	const cJSON *one, *list = NULL;
	int r = cbx_json_get_obj(rt->manifest, "dialects", &rt->dialects, err);

	cJSON_ArrayForEach(one, rt->dialects) {
		if (r >= 0 && (!cJSON_IsObject(one) || !valid_name(one->string)))
			r = invalid(err, "dialects", "it has a member that is not of its kind");
		if (r >= 0)
			r = cbx_json_only(one, keys, err);
		if (r >= 0)
			r = get_list(one, "aliases", valid_name, &list, err);
		if (r >= 0)
			r = get_list(one, "extensions", valid_extension, &list, err);
	}
	return r;
}

static int get_environment(struct cbx_runtime *rt, struct cbx_err *err)
{
	const cJSON *v;
	int r = cbx_json_get_obj(rt->manifest, "environment", &rt->environment, err);

	cJSON_ArrayForEach(v, rt->environment)
		if (!cJSON_IsString(v) || strlen(v->valuestring) >= CBX_RUNTIME_TEXT_MAX || !v->string[0] ||
		    v->string[strspn(v->string, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")])
			return invalid(err, "environment", "it has a member that is not of its kind");
	return r;
}

static int get_interrupt(struct cbx_runtime *rt, struct cbx_err *err)
{
	static const struct {
		const char *name;
		int sig;
	} known[] = { { "INT", SIGINT }, { "USR1", SIGUSR1 }, { "USR2", SIGUSR2 }, { "QUIT", SIGQUIT } };
	const char *name = "INT";

	if (cbx_json_get_str(rt->manifest, "interrupt", &name, err) < 0)
		return -err->code;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(known[i].name, name) == 0)
			rt->interrupt = known[i].sig;
	return rt->interrupt ? 0 : invalid(err, "interrupt", "it is not INT, USR1, USR2 or QUIT");
}

static int read_members(struct cbx_runtime *rt, struct cbx_err *err)
{
	static const char *const keys[] = { "language",	 "rank",      "aliases", "extensions",	"dialects",
					    "programs",	 "arguments", "driver",	 "environment", "preload",
					    "interrupt", "fork",      NULL };
	const cJSON *m = rt->manifest;
	uint64_t rank = 100;
	int r = cbx_json_only(m, keys, err);

	if (r < 0 || (r = get_name(m, "language", valid_name, &rt->language, err)) < 0 ||
	    (r = get_name(m, "driver", valid_driver, &rt->driver, err)) < 0 ||
	    (r = cbx_json_get_u64(m, "rank", 0, 1000, &rank, err)) < 0 ||
	    (r = get_list(m, "aliases", valid_name, &rt->aliases, err)) < 0 ||
	    (r = get_list(m, "extensions", valid_extension, &rt->extensions, err)) < 0 ||
	    (r = get_list(m, "programs", valid_path, &rt->programs, err)) < 0 ||
	    (r = get_list(m, "arguments", valid_text, &rt->arguments, err)) < 0 ||
	    (r = get_list(m, "preload", valid_text, &rt->preload, err)) < 0 ||
	    (r = cbx_json_get_bool(m, "fork", &rt->fork, err)) < 0 || (r = get_dialects(rt, err)) < 0 ||
	    (r = get_environment(rt, err)) < 0)
		return r;
	rt->rank = (unsigned)rank;
	return get_interrupt(rt, err);
}

int cbx_runtime_parse(const char *text, size_t n, const char *language, struct cbx_runtime *ret, struct cbx_err *err)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	int r = cbx_json_parse_sound(text, n, &doc, err);

	memset(ret, 0, sizeof(*ret));
	if (r < 0)
		return r;
	if (!cJSON_IsObject(doc.root))
		return cbx_refuse(err, "invalid_runtime", EINVAL, "it is not an object; write one");
	ret->manifest = take_ptr(&doc.root);
	r = read_members(ret, err);
	if (r >= 0 && strcmp(ret->language, language) != 0)
		r = invalid(err, "language", "it is not the name of its directory");
	if (r < 0)
		cbx_runtime_release(ret);
	return r < 0 ? r : 0;
}

void cbx_runtime_release(struct cbx_runtime *rt)
{
	cJSON_Delete(rt->manifest);
	memset(rt, 0, sizeof(*rt));
}

/* ---- all of a directory ---- */

static int load_one(int dir, const char *name, struct cbx_runtimes *all, struct cbx_err *err)
{
	_cleanup_free_ char *path = cbx_xasprintf("%s/runtime.json", name);
	_cleanup_fd_ int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	_cleanup_buf_ struct cbx_buf text = { 0 };
	struct cbx_runtime rt;
	size_t at = all->n;
	int r;

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : cbx_fail(err, errno, "open %s", path);
	if (all->n == CBX_RUNTIMES_MAX)
		return cbx_refuse(err, "invalid_runtime", E2BIG, "there are too many; give up to %d", CBX_RUNTIMES_MAX);
	r = cbx_read_whole(fd, CBX_RUNTIME_FILE_MAX, &text);
	if (r < 0)
		return cbx_fail(err, -r, "read %s", path);
	r = cbx_runtime_parse(cbx_buf_str(&text), text.len, name, &rt, err);
	if (r < 0)
		return cbx_wrap(err, "runtime %s", path);
	for (; at > 0 && (all->all[at - 1].rank > rt.rank ||
			  (all->all[at - 1].rank == rt.rank && strcmp(all->all[at - 1].language, rt.language) > 0));
	     at--)
		all->all[at] = all->all[at - 1];
	all->all[at] = rt;
	all->n++;
	return 0;
}

int cbx_runtimes_load(const char *path, struct cbx_runtimes *ret, struct cbx_err *err)
{
	_cleanup_closedir_ DIR *dir = opendir(path);
	struct dirent *e;
	int r = 0;

	ret->n = 0;
	if (!dir)
		return cbx_fail(err, errno, "open the runtimes' directory %s", path);
	while (r >= 0 && (e = readdir(dir)))
		if (valid_name(e->d_name))
			r = load_one(dirfd(dir), e->d_name, ret, err);
	if (r < 0)
		cbx_runtimes_release(ret);
	return r;
}

void cbx_runtimes_release(struct cbx_runtimes *all)
{
	while (all->n)
		cbx_runtime_release(&all->all[--all->n]);
}

/* ---- looking ---- */

static bool same(const char *a, const char *name, size_t n)
{
	return strncmp(a, name, n) == 0 && !a[n];
}

static bool lists(const cJSON *list, const char *name, size_t n)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, list)
		if (same(v->valuestring, name, n))
			return true;
	return false;
}

const struct cbx_runtime *cbx_runtime_named(const struct cbx_runtimes *all, const char *name, size_t n,
					    const char **ret_dialect)
{
	const cJSON *d;

	*ret_dialect = NULL;
	for (size_t i = 0; i < all->n; i++) {
		const struct cbx_runtime *rt = &all->all[i];

		if (same(rt->language, name, n) || lists(rt->aliases, name, n))
			return rt;
		cJSON_ArrayForEach(d, rt->dialects) {
			if (same(d->string, name, n) ||
			    lists(cbx_json_member(d, "aliases"), name, n)) {
				*ret_dialect = d->string;
				return rt;
			}
		}
	}
	return NULL;
}

const char *cbx_runtime_of_file(const struct cbx_runtimes *all, const char *file)
{
	const char *dot = strrchr(file, '.');
	const cJSON *d;

	for (size_t i = 0; dot && i < all->n; i++) {
		const struct cbx_runtime *rt = &all->all[i];

		if (lists(rt->extensions, dot, strlen(dot)))
			return rt->language;
		cJSON_ArrayForEach(d, rt->dialects)
			if (lists(cbx_json_member(d, "extensions"), dot, strlen(dot)))
				return d->string;
	}
	return NULL;
}

const struct cbx_runtime *cbx_runtime_of_image(const struct cbx_runtimes *all, const cJSON *interpreters)
{
	for (size_t i = 0; i < all->n; i++)
		if (cbx_json_member(interpreters, all->all[i].language))
			return &all->all[i];
	return NULL;
}
