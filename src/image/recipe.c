/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a recipe is checked completely when it is read, so that a build cannot fail at its end for a
 * mistake that was there at its beginning. Package names are checked most strictly, since they become arguments.
 */
#include "image/recipe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "image/image-limits.h"
#include "image/scan.h"
#include "image/store.h"
#include "image/unpack.h"
#include "packages/kind.h"
#include "packages/rules.h"

#define invalid(err, ...) cbx_refuse(err, "invalid_recipe", EINVAL, __VA_ARGS__)

/* Debian's rule for names: lower case letters, digits, "+", "-" and "."; at least two; an alphanumeric first. To apt, a
 * "-" at the end would mean a removal. */
static bool package_name(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789+-.");

	return n >= 2 && n < 100 && !s[n] && s[0] != '+' && s[0] != '-' && s[0] != '.' && s[n - 1] != '-';
}

/* A clean relative path, once "$MULTIARCH" is taken for a name. */
static bool relative_path(const char *s)
{
	char out[CBX_UNPACK_PATH_MAX];
	struct cbx_err ignored;

	return cbx_unpack_path(s, false, out, &ignored) == 0 && strcmp(s, out) == 0;
}

/* As `codebox pip install` takes it: no address, no option. */
static bool requirement(const char *s)
{
	struct cbx_requirement q;
	struct cbx_err ignored;

	return cbx_requirement_parse(s, &q, &ignored) >= 0 && cbx_kind_of(q.name) == CBX_KIND_PYTHON && !q.address;
}

static bool pattern(const char *s)
{
	return *s && strlen(s) < CBX_UNPACK_PATH_MAX;
}

static int get_list(const cJSON *root, const char *key, bool (*valid)(const char *), const char ***ret,
		    struct cbx_err *err)
{
	const cJSON *arr = NULL, *v;
	int r = cbx_json_get_arr(root, key, &arr, err), n = arr ? cJSON_GetArraySize(arr) : 0;
	size_t i = 0;

	if (r < 0)
		return r;
	if (n > CBX_RECIPE_ITEMS_MAX)
		return invalid(err, "\"%s\" has %d elements; the limit is %d", key, n, CBX_RECIPE_ITEMS_MAX);
	*ret = cbx_xcalloc((size_t)n + 1, sizeof(**ret));
	if (arr)
		cJSON_ArrayForEach(v, arr) {
			if (!cJSON_IsString(v) || !valid(v->valuestring))
				return invalid(err, "\"%s\" has an element that is not allowed: \"%.60s\"", key,
					       cJSON_IsString(v) ? v->valuestring : "(not a string)");
			(*ret)[i++] = v->valuestring;
		}
	return 0;
}

static int get_map(const cJSON *root, const char *key, bool paths, const cJSON **ret, struct cbx_err *err)
{
	const cJSON *v;
	int r = cbx_json_get_obj(root, key, ret, err);

	if (r <= 0)
		return r;
	cJSON_ArrayForEach(v, *ret) {
		if (!cJSON_IsString(v))
			return invalid(err, "\"%s\": the value of \"%.60s\" is not a string", key, v->string);
		if (paths && !relative_path(v->string))
			return invalid(err, "\"%s\": \"%.60s\" is not a relative path like \"etc/hosts\"", key,
				       v->string);
	}
	return 0;
}

static int check_interpreters(const cJSON *all, bool host, struct cbx_err *err)
{
	static const char *const keys[] = { "argv", "find", NULL };
	const cJSON *one, *v;

	cJSON_ArrayForEach(one, all) {
		const cJSON *argv = NULL, *find = NULL, *list;

		if (!cJSON_IsObject(one))
			return invalid(err, "\"interpreters\": \"%.40s\" is not an object", one->string);
		if (cbx_json_only(one, keys, err) < 0 || cbx_json_get_arr(one, "argv", &argv, err) < 0 ||
		    cbx_json_get_arr(one, "find", &find, err) < 0)
			return cbx_wrap(err, "\"interpreters\"");
		if (!argv == !find || (find && !host))
			return invalid(err, "\"interpreters\": \"%.40s\" needs \"argv\"%s", one->string,
				       host ? ", or else \"find\"" : "");
		list = argv ? argv : find;
		if (!list->child)
			return invalid(err, "\"interpreters\": \"%.40s\" has an empty list", one->string);
		cJSON_ArrayForEach(v, list)
			if (!cJSON_IsString(v) || ((v == list->child || find) && v->valuestring[0] != '/'))
				return invalid(err,
					       "\"interpreters\": \"%.40s\" needs strings, the first an absolute path",
					       one->string);
	}
	return 0;
}

static int check_warm(const cJSON *warm, struct cbx_err *err)
{
	static const char *const keys[] = { "module", "variable", "into", NULL };
	const cJSON *one;

	cJSON_ArrayForEach(one, warm) {
		const char *module = NULL, *variable = NULL, *into = NULL;

		if (!cJSON_IsObject(one))
			return invalid(err, "\"warm\" has an element that is not an object");
		if (cbx_json_only(one, keys, err) < 0 || cbx_json_get_str(one, "module", &module, err) < 0 ||
		    cbx_json_get_str(one, "variable", &variable, err) < 0 ||
		    cbx_json_get_str(one, "into", &into, err) < 0)
			return cbx_wrap(err, "\"warm\"");
		if (!module || !variable || !into || !relative_path(into) ||
		    !cbx_starts_with(into, "usr/share/codebox/"))
			return invalid(err,
				       "\"warm\" needs \"module\", \"variable\" and \"into\", which is a path beneath "
				       "usr/share/codebox");
	}
	return 0;
}

static int check(struct cbx_recipe *r, struct cbx_err *err)
{
	static const char *const keys[] = { "name",    "description",  "kind",	      "packages", "omit",
					    "exclude", "include",      "links",	      "files",	  "bundles",
					    "copy",    "interpreters", "environment", "compile",  "warm",
					    "note",    "preload",      "zygote",      "wheels",	  NULL };
	const cJSON *root = r->doc.root, *v;
	const char *name = NULL, *kind = NULL;
	bool zygote = true;
	int e;

	if (!cJSON_IsObject(root))
		return invalid(err, "not a JSON object");
	e = cbx_json_only(root, keys, err);
	if (e < 0 || (e = cbx_json_get_str(root, "name", &name, err)) < 0 ||
	    (e = cbx_json_get_str(root, "kind", &kind, err)) < 0 ||
	    (e = cbx_json_get_str(root, "description", &r->description, err)) < 0 ||
	    (e = cbx_json_get_str(root, "note", &r->note, err)) < 0 ||
	    (e = get_list(root, "packages", package_name, &r->packages, err)) < 0 ||
	    (e = get_list(root, "omit", package_name, &r->omit, err)) < 0 ||
	    (e = get_list(root, "wheels", requirement, &r->wheels, err)) < 0 ||
	    (e = get_list(root, "exclude", pattern, &r->exclude, err)) < 0 ||
	    (e = get_list(root, "include", pattern, &r->include, err)) < 0 ||
	    (e = get_list(root, "copy", relative_path, &r->copy, err)) < 0 ||
	    (e = get_map(root, "links", true, &r->links, err)) < 0 ||
	    (e = get_map(root, "files", true, &r->files, err)) < 0 ||
	    (e = get_map(root, "bundles", true, &r->bundles, err)) < 0 ||
	    (e = get_map(root, "environment", false, &r->environment, err)) < 0 ||
	    (e = cbx_json_get_obj(root, "interpreters", &r->interpreters, err)) < 0 ||
	    (e = cbx_json_get_arr(root, "compile", &r->compile, err)) < 0 ||
	    (e = cbx_json_get_arr(root, "warm", &r->warm, err)) < 0 ||
	    (e = cbx_json_get_arr(root, "preload", &r->preload, err)) < 0 ||
	    (e = cbx_json_get_bool(root, "zygote", &zygote, err)) < 0)
		return e;
	r->no_zygote = !zygote;
	if (!name || !cbx_name_valid(name))
		return invalid(err, "\"name\" is missing or is not a name");
	if (!kind || (strcmp(kind, "debian") != 0 && strcmp(kind, "host") != 0))
		return invalid(err, "\"kind\" must be \"debian\" or \"host\"");
	r->host = strcmp(kind, "host") == 0;
	if (!r->host && !r->packages[0])
		return invalid(err, "\"packages\" must name at least one package");
	if (r->host && (r->packages[0] || r->omit[0] || r->wheels[0] || r->compile || r->warm || r->bundles))
		return invalid(err, "\"packages\", \"omit\", \"wheels\", \"bundles\", \"compile\" and \"warm\" are not "
				    "for kind \"host\"");
	if (r->wheels[0] && !cbx_json_member(r->interpreters, "python"))
		return invalid(err, "\"wheels\" needs \"python\" among \"interpreters\"");
	if (!r->host && r->copy[0])
		return invalid(err, "\"copy\" is for kind \"host\"");
	if (r->compile)
		cJSON_ArrayForEach(v, r->compile)
			if (!cJSON_IsString(v) || !relative_path(v->valuestring))
				return invalid(err, "\"compile\" has an element that is not a relative path");
	if (r->preload)
		cJSON_ArrayForEach(v, r->preload)
			if (!cJSON_IsString(v) || !cbx_module_name_valid(v->valuestring))
				return invalid(err, "\"preload\" has an element that is not the name of a module");
	strcpy(r->name, name);
	if (r->interpreters && (e = check_interpreters(r->interpreters, r->host, err)) < 0)
		return e;
	return r->warm ? check_warm(r->warm, err) : 0;
}

int cbx_recipe_read(int fd, const char *where, struct cbx_recipe *ret, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	int r = cbx_read_whole(fd, CBX_RECIPE_MAX, &text);

	memset(ret, 0, sizeof(*ret));
	if (r < 0 && r != -EFBIG)
		return cbx_fail(err, -r, "read the recipe %s", where);
	if (r < 0)
		r = invalid(err, "longer than %zu bytes", CBX_RECIPE_MAX);
	else
		r = cbx_json_parse_sound(cbx_buf_str(&text), text.len, &ret->doc, err);
	if (r == 0)
		r = check(ret, err);
	if (r == 0)
		cbx_scan_digest(text.data, text.len, ret->digest);
	if (r < 0) {
		cbx_wrap(err, "the recipe %s", where);
		cbx_err_sanitize(err);
		cbx_recipe_release(ret);
	}
	return r;
}

void cbx_recipe_release(struct cbx_recipe *recipe)
{
	cbx_json_doc_release(&recipe->doc);
	free(recipe->packages);
	free(recipe->omit);
	free(recipe->wheels);
	free(recipe->exclude);
	free(recipe->include);
	free(recipe->copy);
	memset(recipe, 0, sizeof(*recipe));
}
