/* SPDX-License-Identifier: Apache-2.0 */
#include "packages/rules.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "packages/conda.h"
#include "packages/kind.h"
#include "packages/npm.h"

/* ---- requirements ---- */

static bool hex64(const char *s)
{
	return s && strlen(s) == 64 && !s[strspn(s, "0123456789abcdef")];
}

static int refused_source(const char *text, const char *what, struct cbx_err *err)
{
	cbx_refuse(err, "package_refused", EPERM,
		   "%.200s: %s cannot be installed from; name a package of the index, as in \"httpx>=0.27\", or, if "
		   "the policy allows it, a wheel as \"NAME @ https://…whl#sha256=…\"",
		   text, what);
	cbx_err_sanitize(err);
	return -EPERM;
}

static int not_one(const char *text, struct cbx_err *err)
{
	cbx_refuse(err, "invalid_argument", EINVAL,
		   "\"%.200s\" is not a requirement; write a name and, if needed, versions, as in \"httpx>=0.27\"",
		   text);
	cbx_err_sanitize(err);
	return -EINVAL;
}

/* "[a,b]": *p behind it. */
static bool skip_extras(const char **p)
{
	char name[CBX_PROJECT_MAX];

	for (++*p;;) {
		size_t n;

		*p += strspn(*p, " \t");
		n = strcspn(*p, "], \t,");
		if (n && !cbx_project_name(*p, n, name))
			return false;
		*p += n;
		*p += strspn(*p, " \t");
		if (**p == ']')
			return ++*p, true;
		if (!n || *(*p)++ != ',')
			return false;
	}
}

/* "name [extras] @ https://host/path/file.whl#sha256=…": nobody logs in there, and what comes is known before. */
static bool is_address(const char *text)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._~%+,-/:[]";
	const char *p = text + strspn(text, " \t"), *sum;
	size_t n;

	if (!cbx_starts_with(p, "https://"))
		return false;
	p += strlen("https://");
	n = strspn(p, allowed);
	sum = p + n;
	return n > 4 && strchr("/", p[0]) == NULL && memchr(p, '/', n) && strncmp(sum - 4, ".whl", 4) == 0 &&
	       cbx_starts_with(sum, "#sha256=") && hex64(sum + strlen("#sha256="));
}

static bool with_address(const char *p, struct cbx_requirement *ret)
{
	size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	if (!cbx_project_name(p, n, ret->name))
		return false;
	p += n + strspn(p + n, " \t");
	if (*p == '[' && !skip_extras(&p))
		return false;
	p += strspn(p, " \t");
	ret->address = *p == '@' && is_address(p + 1);
	return ret->address;
}

static int parse(const char *text, bool rule, struct cbx_requirement *ret, struct cbx_err *err)
{
	const char *p = text + strspn(text, " \t");
	size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"), len;
	bool parenthesis;

	*ret = (struct cbx_requirement){ 0 };
	if (cbx_kind_of(p) == CBX_KIND_NPM)
		return cbx_npm_requirement(p, rule, ret, err);
	if (cbx_kind_of(p) == CBX_KIND_CONDA)
		return cbx_conda_requirement(p, rule, ret, err);
	if (strlen(text) > CBX_REQUIREMENT_MAX || !cbx_plain(text))
		return not_one(text, err);
	if (!rule && with_address(p, ret))
		return 0;
	if (*p == '-')
		return refused_source(text, "an option", err);
	if (strstr(p, "://") || cbx_starts_with(p, "git+"))
		return refused_source(text, "an address", err);
	if (strcspn(p, ";/\\") < strcspn(p, ";") || *p == '.' || cbx_ends_with(p, ".whl") ||
	    cbx_ends_with(p, ".tar.gz"))
		return refused_source(text, "a path", err);
	if (!cbx_project_name(p, n, ret->name))
		return not_one(text, err);
	p += n + strspn(p + n, " \t");
	if (*p == '@')
		return refused_source(text, "an address", err);
	if (*p == '[' && (rule || !skip_extras(&p)))
		return not_one(text, err);
	p += strspn(p, " \t");
	parenthesis = *p == '(';
	p += parenthesis;
	len = strcspn(p, parenthesis ? ")" : ";");
	if (len >= sizeof(ret->specifiers) || (parenthesis && p[len] != ')'))
		return not_one(text, err);
	memcpy(ret->specifiers, p, len);
	ret->specifiers[len] = '\0';
	p += len + parenthesis;
	p += strspn(p, " \t");
	if (!cbx_specifiers_valid(ret->specifiers) || (*p && (rule || *p != ';')))
		return not_one(text, err);
	return 0;
}

int cbx_requirement_parse(const char *text, struct cbx_requirement *ret, struct cbx_err *err)
{
	return parse(text, false, ret, err);
}

int cbx_requirement_rule(const char *text, struct cbx_requirement *ret, struct cbx_err *err)
{
	return parse(text, true, ret, err);
}

void cbx_requirements_add(struct cbx_requirements *list, const char *name, const char *specifiers)
{
	struct cbx_requirement *q;

	list->all = cbx_xrealloc(list->all, (list->n + 1) * sizeof(*list->all));
	q = &list->all[list->n++];
	memset(q, 0, sizeof(*q));
	snprintf(q->name, sizeof(q->name), "%s", name);
	snprintf(q->specifiers, sizeof(q->specifiers), "%s", specifiers + strspn(specifiers, " \t"));
}

void cbx_requirements_copy(struct cbx_requirements *to, const struct cbx_requirements *from)
{
	for (size_t i = 0; i < from->n; i++)
		cbx_requirements_add(to, from->all[i].name, from->all[i].specifiers);
}

void cbx_requirements_release(struct cbx_requirements *list)
{
	free(list->all);
	*list = (struct cbx_requirements){ 0 };
}

cJSON *cbx_requirements_json(const struct cbx_requirements *list)
{
	cJSON *o = cbx_json_new_arr();

	for (size_t i = 0; i < list->n; i++) {
		_cleanup_free_ char *text = cbx_xasprintf("%s%s", list->all[i].name, list->all[i].specifiers);

		cbx_json_push_str(o, text);
	}
	return o;
}

void cbx_requirements_both(struct cbx_requirements *ret, const struct cbx_requirements *a,
			   const struct cbx_requirements *b)
{
	for (size_t i = 0; i < a->n; i++) {
		for (size_t k = 0; k < b->n; k++) {
			const char *s = a->all[i].specifiers, *t = b->all[k].specifiers;
			_cleanup_free_ char *both = cbx_xasprintf("%s%s%s", s, *s && *t ? "," : "", t);

			/* Two that are too long together are omitted, and then allow nothing. */
			if (strcmp(a->all[i].name, b->all[k].name) == 0 && strlen(both) < CBX_SPECIFIERS_MAX)
				cbx_requirements_add(ret, a->all[i].name, both);
		}
	}
}

/* ---- what a resolver found ---- */

static int bad_lock(struct cbx_err *err, const char *what)
{
	return cbx_refuse(err, "invalid_lock", EBADMSG, "the resolver's answer cannot be used: %s", what);
}

/* "name-version-…-tag-tag-tag.whl", of this name and version, and nothing that could be a path. */
static bool wheel_file(const char *file, const struct cbx_wheel *w)
{
	const char *version = file ? strchr(file, '-') : NULL, *end = version ? strchr(version + 1, '-') : NULL;
	char name[CBX_PROJECT_MAX];
	struct cbx_version a, b;
	size_t dashes = 0;

	if (!end || strlen(file) > 250 || file[0] == '.' || !cbx_ends_with(file, ".whl") || !cbx_plain(file) ||
	    strpbrk(file, "/\\"))
		return false;
	for (const char *p = file; *p; p++)
		dashes += *p == '-';
	return (dashes == 4 || dashes == 5) && cbx_project_name(file, (size_t)(version - file), name) &&
	       strcmp(name, w->name) == 0 && cbx_version_parse(version + 1, (size_t)(end - version - 1), &a) &&
	       cbx_version_parse(w->version, strlen(w->version), &b) && cbx_version_compare(&a, &b) == 0;
}

static bool usable_url(const char *url)
{
	return url && strlen(url) < 2000 && cbx_plain(url) && !strchr(url, ' ') &&
	       (cbx_starts_with(url, "https://") || cbx_starts_with(url, "http://") ||
		cbx_starts_with(url, "file:///") || cbx_starts_with(url, CBX_BUILT));
}

/* In normal; NULL: it is not a name of this kind. */
static const char *name_of(enum cbx_kind kind, const char *name, char normal[CBX_PROJECT_MAX])
{
	size_t n = strlen(name);

	if (kind == CBX_KIND_PYTHON)
		return cbx_project_name(name, n, normal) ? normal : NULL;
	return (kind == CBX_KIND_NPM ? cbx_npm_name(name, n) : cbx_conda_name(name, n)) ? name : NULL;
}

static int read_path(const cJSON *via, struct cbx_wheel *w, struct cbx_err *err)
{
	enum cbx_kind kind = cbx_kind_of(w->name);
	_cleanup_buf_ struct cbx_buf text = { 0 };
	char normal[CBX_PROJECT_MAX];
	const cJSON *v;
	int n = 0;

	if (via && !cJSON_IsArray(via))
		return bad_lock(err, "a way is not a list");
	cJSON_ArrayForEach(v, via) {
		const char *name = name_of(kind, cJSON_IsString(v) ? v->valuestring : "", normal);

		if (n++ == 100 || !name)
			return bad_lock(err, "a way is not one of names");
		cbx_buf_addf(&text, "%s → ", name);
	}
	cbx_buf_adds(&text, cbx_kind_bare(w->name));
	w->path = cbx_buf_steal(&text);
	w->direct = !n;
	return 0;
}

static int read_wheel(const cJSON *o, const char *name, struct cbx_wheel *w, struct cbx_err *err)
{
	const char *version = cbx_json_text(o, "version"), *sum = cbx_json_text(o, "sha256"),
		   *file = cbx_json_text(o, "file");

	if (!cbx_project_name(name, strlen(name), w->name))
		return bad_lock(err, "a package has no name");
	if (!version || strlen(version) >= sizeof(w->version))
		return bad_lock(err, "a package has no version");
	strcpy(w->version, version);
	if (!wheel_file(file, w))
		return bad_lock(err, "a file is not a wheel of its package");
	if (!hex64(sum))
		return bad_lock(err, "a package has no SHA-256 sum");
	strcpy(w->sum, sum);
	w->file = cbx_xstrdup(file);
	return 0;
}

static int read_package(const cJSON *o, struct cbx_wheel *w, struct cbx_err *err)
{
	const char *name = cbx_json_text(o, "name"), *url = cbx_json_text(o, "url");
	int r;

	if (!cJSON_IsObject(o) || !name)
		return bad_lock(err, "a package has no name");
	switch (cbx_kind_of(name)) {
	case CBX_KIND_NPM:
		r = cbx_npm_read(o, w, err);
		break;
	case CBX_KIND_CONDA:
		r = cbx_conda_read(o, w, err);
		break;
	default:
		r = read_wheel(o, name, w, err);
	}
	if (r < 0)
		return r;
	if (url ? !usable_url(url) : w->place != NULL)
		return bad_lock(err, "a package has no address");
	w->url = url ? cbx_xstrdup(url) : NULL;
	if (cbx_json_get_u64(o, "size", 0, 1ull << 40, &w->size, err) < 0)
		return bad_lock(err, "a size is not one");
	return read_path(cbx_json_member(o, "via"), w, err);
}

/* A wheel is there once, a package of npm once in each place. */
static int check_with(const struct cbx_wheel *a, const struct cbx_wheel *b, struct cbx_err *err)
{
	if (cbx_kind_of(a->name) != cbx_kind_of(b->name))
		return bad_lock(err, "packages of several kinds are mixed");
	return strcmp(a->place ? a->place : a->name, b->place ? b->place : b->name)
		       ? 0
		       : bad_lock(err, "a package is in it twice");
}

int cbx_lock_read(const cJSON *answer, struct cbx_lock *ret, struct cbx_err *err)
{
	const cJSON *list = cbx_json_member(answer, "packages"), *v;
	int r = 0;

	*ret = (struct cbx_lock){ 0 };
	if (!cJSON_IsArray(list))
		return bad_lock(err, "there is no list of packages");
	if (cJSON_GetArraySize(list) > CBX_WHEELS_MAX)
		return cbx_refuse(err, "package_refused", E2BIG,
				  "%d packages are needed; up to %d can be installed at once", cJSON_GetArraySize(list),
				  CBX_WHEELS_MAX);
	ret->wheels = cbx_xcalloc(CBX_WHEELS_MAX, sizeof(*ret->wheels));
	cJSON_ArrayForEach(v, list) {
		struct cbx_wheel *w = &ret->wheels[ret->n++];

		r = read_package(v, w, err);
		for (size_t i = 0; r >= 0 && i + 1 < ret->n; i++)
			r = check_with(&ret->wheels[i], w, err);
		if (r < 0)
			break;
	}
	if (r < 0)
		cbx_lock_release(ret);
	return r;
}

void cbx_lock_release(struct cbx_lock *lock)
{
	for (size_t i = 0; i < lock->n; i++) {
		free(lock->wheels[i].file);
		free(lock->wheels[i].url);
		free(lock->wheels[i].place);
		free(lock->wheels[i].build);
		free(lock->wheels[i].path);
	}
	free(lock->wheels);
	*lock = (struct cbx_lock){ 0 };
}

/* ---- judging ---- */

/* any_pre: what is blocked up to a version is blocked in its pre-releases. */
static bool holds(const struct cbx_requirement *q, const struct cbx_wheel *w, bool any_pre)
{
	switch (cbx_kind_of(w->name)) {
	case CBX_KIND_NPM:
		return cbx_npm_holds(q->specifiers, w->version, any_pre);
	case CBX_KIND_CONDA:
		return cbx_conda_spec_holds(q->specifiers, w->version);
	default:
		return cbx_specifiers_hold(q->specifiers, w->version);
	}
}

static int refuse(struct cbx_err *err, const struct cbx_wheel *w, const char *why)
{
	return cbx_refuse(err, "package_refused", EPERM, "%s %s %s%s%s; ask whoever runs codebox to change the policy",
			  w->name, w->version, why, w->direct ? "" : "; it is needed by ", w->direct ? "" : w->path);
}

static int judge(const struct cbx_wheel *w, const struct cbx_package_rules *rules, struct cbx_err *err)
{
	bool named = false, allowed = !rules->only;
	_cleanup_buf_ struct cbx_buf list = { 0 };

	for (size_t i = 0; i < rules->block.n; i++) {
		const struct cbx_requirement *q = &rules->block.all[i];
		_cleanup_free_ char *why =
			cbx_xasprintf("is blocked by the policy (block: \"%s%s\")", q->name, q->specifiers);

		if (strcmp(q->name, w->name) == 0 && holds(q, w, true))
			return refuse(err, w, why);
	}
	for (size_t i = 0; i < rules->allow.n; i++) {
		const struct cbx_requirement *q = &rules->allow.all[i];

		if (strcmp(q->name, w->name) != 0)
			continue;
		named = true;
		allowed |= holds(q, w, false);
		cbx_buf_addf(&list, "%s\"%s%s\"", list.len ? ", " : "", q->name, q->specifiers);
	}
	if (!allowed) {
		_cleanup_free_ char *why =
			named ? cbx_xasprintf("is not a version that the policy allows (allow: %s)", cbx_buf_str(&list))
			      : cbx_xstrdup("is not among the packages that the policy allows (allow)");

		return refuse(err, w, why);
	}
	for (size_t i = 0; i < rules->versions.n; i++) {
		const struct cbx_requirement *q = &rules->versions.all[i];
		_cleanup_free_ char *why = cbx_xasprintf("is not a version that the policy allows (versions: \"%s%s\")",
							 q->name, q->specifiers);

		if (strcmp(q->name, w->name) == 0 && !holds(q, w, false))
			return refuse(err, w, why);
	}
	return 0;
}

bool cbx_lock_again(const struct cbx_lock *lock, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (strcmp(lock->wheels[k].sum, lock->wheels[i].sum) == 0)
			return true;
	return false;
}

int cbx_lock_judge(const struct cbx_lock *lock, const struct cbx_package_rules *rules, uint64_t bytes_max,
		   struct cbx_err *err)
{
	const struct cbx_wheel *largest = lock->wheels;
	char most[32], all[32], one[32];
	uint64_t bytes = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < lock->n; i++) {
		const struct cbx_wheel *w = &lock->wheels[i];

		r = judge(w, rules, err);
		bytes += w->size;
		largest = w->size > largest->size ? w : largest;
	}
	if (r < 0 || !bytes_max || bytes <= bytes_max)
		return r;
	cbx_format_size(bytes_max, most);
	cbx_format_size(bytes, all);
	cbx_format_size(largest->size, one);
	return cbx_refuse(err, "package_refused", EFBIG,
			  "%zu packages of %s together are more than the %s that the policy allows (install_size); the "
			  "largest is %s %s with %s%s%s",
			  lock->n, all, most, largest->name, largest->version, one,
			  largest->direct ? "" : "; it is needed by ", largest->direct ? "" : largest->path);
}

int cbx_rules_judge_name(const struct cbx_package_rules *rules, const char *name, struct cbx_err *err)
{
	bool allowed = !rules->only;

	for (size_t i = 0; i < rules->block.n; i++)
		if (strcmp(rules->block.all[i].name, name) == 0 && !rules->block.all[i].specifiers[0])
			return cbx_refuse(
				err, "package_refused", EPERM,
				"%s is blocked by the policy (block: \"%s\"); ask whoever runs codebox to change "
				"the policy",
				name, name);
	for (size_t i = 0; i < rules->allow.n; i++)
		allowed |= strcmp(rules->allow.all[i].name, name) == 0;
	return allowed ? 0
		       : cbx_refuse(err, "package_refused", EPERM,
				    "%s is not among the packages that the policy allows (allow); ask whoever runs "
				    "codebox to change the policy",
				    name);
}
