/* SPDX-License-Identifier: Apache-2.0 */
#include "packages/osv.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/jsonscan.h"
#include "base/str.h"
#include "packages/kind.h"
#include "packages/npm.h"

#define VALUES_MAX 500000 /* of one advisory */

struct search {
	const struct cbx_lock *lock;
	cbx_osv_found_fn found;
	void *arg;
	struct cbx_osv_hit hit; /* id and summary of the advisory at hand */
};

static bool has_name(const struct cbx_wheel *w, const char *name, size_t n)
{
	char normal[CBX_PROJECT_MAX];

	if (cbx_kind_of(w->name) == CBX_KIND_NPM)
		return strlen(w->name) == n + strlen(CBX_NPM) && memcmp(w->name + strlen(CBX_NPM), name, n) == 0;
	return cbx_project_name(name, n, normal) && strcmp(w->name, normal) == 0;
}

static bool is_there(const struct cbx_lock *lock, const char *name, size_t n)
{
	for (size_t i = 0; i < lock->n; i++)
		if (has_name(&lock->wheels[i], name, n))
			return true;
	return false;
}

/* Whether a text may name a package: most do not, and are not parsed. A string with escapes may be anything. */
static bool mentions(const char *p, const char *end, const struct cbx_lock *lock)
{
	bool is_name = false;

	while (p < end && (p = memchr(p, '"', (size_t)(end - p)))) {
		const char *after = cbx_jsonscan_string(p, end);
		size_t n = (size_t)(after - p) > 2 ? (size_t)(after - p) - 2 : 0;

		if ((n <= 6 * CBX_PROJECT_MAX && memchr(p, '\\', n + 1) && (is_name || n <= 6 * strlen("name"))) ||
		    (is_name && is_there(lock, p + 1, n)))
			return true;
		is_name = n == 4 && memcmp(p + 1, "name", 4) == 0;
		p = after;
	}
	return false;
}

static int invalid(struct cbx_err *err, const char *what)
{
	return cbx_refuse(err, "invalid_advisory", EBADMSG, "it is not an advisory in the OSV format: %s", what);
}

/* ---- versions ---- */

/* By the rules that its package has. */
struct version {
	bool npm;
	struct cbx_version python;
	struct cbx_semver semver;
};

static bool parse(const char *text, bool npm, struct version *ret)
{
	*ret = (struct version){ .npm = npm };
	return npm ? cbx_semver_parse(text, strlen(text), &ret->semver)
		   : cbx_version_parse(text, strlen(text), &ret->python);
}

static int compare(const struct version *a, const struct version *b)
{
	return a->npm ? cbx_semver_compare(&a->semver, &b->semver) : cbx_version_compare(&a->python, &b->python);
}

enum kind { FIXED, LAST, LIMIT, INTRODUCED };

struct change {
	enum kind kind;
	bool always; /* introduced in "0": before all versions */
	const char *text;
	struct version version;
};

static int by_version(const void *a, const void *b)
{
	const struct change *x = a, *y = b;
	int r = x->always != y->always ? (x->always ? -1 : 1) : compare(&x->version, &y->version);

	return r ? r : (int)x->kind - (int)y->kind;
}

static void add_change(const cJSON *event, bool npm, struct change *list, size_t *n)
{
	static const char *const names[] = { "fixed", "last_affected", "limit", "introduced" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *text = cbx_json_text(event, names[i]);
		struct change *c = &list[*n];
		bool readable;

		if (!text || strcmp(text, "*") == 0)
			continue;
		*c = (struct change){ .kind = (enum kind)i, .text = text };
		readable = parse(text, npm, &c->version);
		c->always = i == INTRODUCED && (!readable || strcmp(text, "0") == 0);
		*n += readable || c->always;
		return;
	}
}

static bool reached(const struct change *c, const struct version *v)
{
	int r = c->always ? 1 : compare(v, &c->version);

	return c->kind == LAST ? r > 0 : r >= 0;
}

static void describe(const struct change *from, const struct change *to, char *out, size_t size)
{
	size_t n = 0;

	if (!from->always)
		n = (size_t)snprintf(out, size, ">=%s%s", from->text, to ? "," : "");
	if (to && n < size) /* else it is cut off, and nothing has room behind it */
		snprintf(out + n, size - n, "%s%s", to->kind == LAST ? "<=" : "<", to->text);
	else if (from->always)
		snprintf(out, size, "all versions");
}

static bool in_changes(struct change *list, size_t n, const struct version *v, char *out, size_t size)
{
	const struct change *from = NULL, *to = NULL;
	bool limited = false, below = false;

	qsort(list, n, sizeof(*list), by_version);
	for (size_t i = 0; i < n; i++) {
		const struct change *c = &list[i];

		if (c->kind == LIMIT) {
			limited = true;
			below |= !reached(c, v);
		} else if (reached(c, v)) {
			from = c->kind == INTRODUCED ? c : NULL;
			to = NULL;
		} else if (from && !to && c->kind != INTRODUCED) {
			to = c;
		}
	}
	if (!from || (limited && !below))
		return false;
	describe(from, to, out, size);
	return true;
}

static int in_range(const cJSON *range, const struct version *v, char *out, size_t size, struct cbx_err *err)
{
	const char *type = cbx_json_text(range, "type");
	const cJSON *events = cbx_json_member(range, "events"), *e;
	struct change *list;
	size_t n = 0;
	bool in;

	if (!type || !cJSON_IsArray(events))
		return invalid(err, "a range has no type, or no events");
	if (strcmp(type, "ECOSYSTEM") != 0 && strcmp(type, "SEMVER") != 0)
		return 0;
	list = cbx_xcalloc((size_t)cJSON_GetArraySize(events) + 1, sizeof(*list));
	cJSON_ArrayForEach(e, events)
		add_change(e, v->npm, list, &n);
	in = in_changes(list, n, v, out, size);
	free(list);
	return in;
}

static bool in_list(const cJSON *versions, const struct cbx_wheel *w, const struct version *v)
{
	struct version one;
	const cJSON *e;

	cJSON_ArrayForEach(e, versions)
		if (cJSON_IsString(e) && (strcmp(e->valuestring, w->version) == 0 ||
					  (parse(e->valuestring, v->npm, &one) && compare(&one, v) == 0)))
			return true;
	return false;
}

/* 1: the version of the package is affected; how, is in s->hit. */
static int is_affected(struct search *s, const cJSON *affected, const struct cbx_wheel *w, struct cbx_err *err)
{
	const cJSON *ranges = cbx_json_member(affected, "ranges"),
		    *versions = cbx_json_member(affected, "versions"), *e;
	struct version v;
	int r;

	if ((ranges && !cJSON_IsArray(ranges)) || (versions && !cJSON_IsArray(versions)))
		return invalid(err, "ranges and versions are lists");
	if (!parse(w->version, cbx_kind_of(w->name) == CBX_KIND_NPM, &v))
		return 0; /* a lock has none such */
	v.python.local[0] = '\0';
	cJSON_ArrayForEach(e, ranges) {
		r = in_range(e, &v, s->hit.range, sizeof(s->hit.range), err);
		if (r)
			return r;
	}
	if (!in_list(versions, w, &v))
		return 0;
	snprintf(s->hit.range, sizeof(s->hit.range), "==%s", w->version);
	return 1;
}

/* ---- one advisory ---- */

static bool is_id(const char *id)
{
	size_t n = id ? strlen(id) : 0;

	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)id[i]) && !strchr("-_.:", id[i]))
			return false;
	return n && n < CBX_OSV_ID_MAX;
}

static void take_summary(struct cbx_osv_hit *hit, const char *text)
{
	size_t n = text ? strlen(text) : 0;

	for (; n && (n >= sizeof(hit->summary) || ((unsigned char)text[n] & 0xc0) == 0x80); n--)
		; /* whole characters */
	snprintf(hit->summary, sizeof(hit->summary), "%.*s", (int)n, text ? text : "");
	if (!cbx_plain(hit->summary))
		hit->summary[0] = '\0';
}

/* One package of npm may be in several places, and versions. */
static int compare_all(struct search *s, const cJSON *affected, const char *ecosystem, const char *name,
		       struct cbx_err *err)
{
	bool npm = strcmp(ecosystem, "npm") == 0, python = strcmp(ecosystem, "PyPI") == 0;

	for (size_t i = 0; (npm || python) && i < s->lock->n; i++) {
		const struct cbx_wheel *w = &s->lock->wheels[i];
		int r;

		if ((cbx_kind_of(w->name) == CBX_KIND_NPM) != npm || !has_name(w, name, strlen(name)))
			continue;
		r = is_affected(s, affected, w, err);
		if (r < 0)
			return r;
		s->hit.wheel = w;
		if (r)
			s->found(s->arg, &s->hit);
	}
	return 0;
}

static int advisory(struct search *s, const cJSON *o, struct cbx_err *err)
{
	const cJSON *list = cbx_json_member(o, "affected"), *a,
		    *withdrawn = cbx_json_member(o, "withdrawn");
	const char *id = cbx_json_text(o, "id");

	if (!is_id(id))
		return invalid(err, "it has no id of letters, digits and -_.:");
	if (list && !cJSON_IsArray(list))
		return invalid(err, "affected is a list");
	if (withdrawn && !cJSON_IsNull(withdrawn))
		return cJSON_IsString(withdrawn) ? 0 : invalid(err, "withdrawn is a time");
	snprintf(s->hit.id, sizeof(s->hit.id), "%s", id);
	take_summary(&s->hit, cbx_json_text(o, "summary"));
	cJSON_ArrayForEach(a, list) {
		const cJSON *package = cbx_json_member(a, "package");
		const char *ecosystem = cbx_json_text(package, "ecosystem"), *name = cbx_json_text(package, "name");
		int r;

		if (!package)
			continue; /* of a repository */
		if (!ecosystem || !name)
			return invalid(err, "a package has no ecosystem, or no name");
		r = compare_all(s, a, ecosystem, name, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int element(struct search *s, const char *p, const char *end, struct cbx_err *err)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };

	if (!mentions(p, end, s->lock))
		return 0;
	if (cbx_json_parse_most(p, (size_t)(end - p), VALUES_MAX, &doc, err) < 0 || doc.problem.code) {
		struct cbx_err why = err->code ? *err : doc.problem;

		return cbx_refuse(err, "invalid_advisory", EBADMSG, "it cannot be read: %.200s", why.msg);
	}
	return cJSON_IsObject(doc.root) ? advisory(s, doc.root, err) : invalid(err, "it is not an object");
}

int cbx_osv_search(const char *text, size_t n, const struct cbx_lock *lock, cbx_osv_found_fn found, void *arg,
		   struct cbx_err *err)
{
	struct search s = { .lock = lock, .found = found, .arg = arg };
	const char *end = text + n, *p = cbx_jsonscan_space(text, end), *after;
	bool list = p < end && *p == '[';
	int r = 0;

	*err = (struct cbx_err){ 0 };
	if (list)
		p = cbx_jsonscan_space(p + 1, end);
	else if (p == end || *p != '{')
		return invalid(err, "it is neither an object nor a list");
	if (list && p < end && *p == ']')
		return cbx_jsonscan_space(p + 1, end) == end ? 0 : invalid(err, "something follows the list");
	do {
		if (p == end || *p != '{')
			return invalid(err, "what is in the list is not an object");
		after = cbx_jsonscan_value(p, end);
		r = after > p && after[-1] == '}' ? element(&s, p, after, err) : invalid(err, "it is cut off");
		p = cbx_jsonscan_space(after, end);
	} while (r >= 0 && list && p < end && *p == ',' && (p = cbx_jsonscan_space(p + 1, end)));
	if (r >= 0 && list && (p == end || *p++ != ']'))
		return invalid(err, "the list does not end");
	return r < 0 ? r : cbx_jsonscan_space(p, end) == end ? 0 : invalid(err, "something follows it");
}
