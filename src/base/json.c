/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: one pass over the text checks the grammar and, where a string holds something that cJSON would
 * swallow or choke on, writes a repaired copy. The copy is made only from the first repair on; a clean text is given to
 * cJSON as it came. Duplicate keys are found on the tree afterwards, since comparing unescaped names needs no second
 * unescaper there.
 */
#include "base/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"

#define FEW_MEMBERS 8 /* of an object: compared each with each */

struct scan {
	const char *start, *p, *end;
	struct cbx_buf fixed; /* repaired copy up to `copied`; used once `repaired` is set */
	const char *copied;
	bool repaired;
	const char *id, *id_end;
	size_t values_left;
	struct cbx_err *problem;
	size_t problem_at;
	const char *fault; /* syntax fault */
};

static bool fault(struct scan *s, const char *what)
{
	if (!s->fault)
		s->fault = what;
	return false;
}

static void space(struct scan *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
		s->p++;
}

/* Replace the bytes from `from` to s->p by U+FFFD in the repaired copy. */
static void repair(struct scan *s, const char *from, const char *what)
{
	if (!s->problem->code) {
		s->problem_at = (size_t)(from - s->start);
		cbx_refuse(s->problem, "invalid_string", EINVAL, "a string holds %s at byte %zu; remove it", what,
			   s->problem_at);
	}
	s->repaired = true;
	cbx_buf_add(&s->fixed, s->copied, (size_t)(from - s->copied));
	cbx_buf_adds(&s->fixed, "\xef\xbf\xbd");
	s->copied = s->p;
}

static int hex4(const char *p, const char *end)
{
	int v = 0;

	if (end - p < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		char c = p[i];
		int d = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;

		if (d < 0)
			return -1;
		v = v << 4 | d;
	}
	return v;
}

static bool escape(struct scan *s)
{
	const char *from = s->p++; /* the backslash */
	int u, low;

	if (s->p >= s->end)
		return fault(s, "a string is not closed");
	if (*s->p != 'u') {
		if (!strchr("\"\\/bfnrt", *s->p) || !*s->p)
			return fault(s, "unknown escape in a string");
		s->p++;
		return true;
	}
	u = hex4(++s->p, s->end);
	if (u < 0)
		return fault(s, "\\u needs four hexadecimal digits");
	s->p += 4;
	if (u == 0) {
		repair(s, from, "U+0000");
	} else if (u >= 0xd800 && u <= 0xdbff) {
		low = s->end - s->p >= 6 && s->p[0] == '\\' && s->p[1] == 'u' ? hex4(s->p + 2, s->end) : -1;
		if (low >= 0xdc00 && low <= 0xdfff)
			s->p += 6;
		else
			repair(s, from, "a lone surrogate");
	} else if (u >= 0xdc00 && u <= 0xdfff) {
		repair(s, from, "a lone surrogate");
	}
	return true;
}

static bool string(struct scan *s)
{
	s->p++;
	for (;;) {
		unsigned char c;
		size_t k;

		if (s->p >= s->end)
			return fault(s, "a string is not closed");
		c = (unsigned char)*s->p;
		if (c == '"') {
			s->p++;
			return true;
		}
		if (c < 0x20)
			return fault(s, "a control character stands unescaped in a string");
		if (c == '\\') {
			if (!escape(s))
				return false;
			continue;
		}
		k = cbx_utf8_len(s->p, (size_t)(s->end - s->p));
		if (!k) {
			const char *from = s->p++;

			repair(s, from, "bytes that are not UTF-8");
			continue;
		}
		s->p += k;
	}
}

static bool run_of_digits(struct scan *s)
{
	const char *from = s->p;

	while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
		s->p++;
	return s->p > from;
}

static bool number(struct scan *s)
{
	if (*s->p == '-')
		s->p++;
	if (s->p < s->end && *s->p == '0')
		s->p++;
	else if (!run_of_digits(s))
		return fault(s, "a number needs digits");
	if (s->p < s->end && *s->p == '.') {
		s->p++;
		if (!run_of_digits(s))
			return fault(s, "a number needs digits behind its point");
	}
	if (s->p < s->end && (*s->p | 32) == 'e') {
		s->p++;
		if (s->p < s->end && (*s->p == '+' || *s->p == '-'))
			s->p++;
		if (!run_of_digits(s))
			return fault(s, "a number needs digits in its exponent");
	}
	return true;
}

static bool word(struct scan *s, const char *w)
{
	size_t n = strlen(w);

	if ((size_t)(s->end - s->p) < n || memcmp(s->p, w, n) != 0)
		return fault(s, "a value is expected");
	s->p += n;
	return true;
}

static bool value(struct scan *s, int depth);

static bool member(struct scan *s, int depth)
{
	const char *name = s->p, *from;
	bool is_id;

	if (s->p >= s->end || *s->p != '"')
		return fault(s, "a member's name is expected");
	if (!string(s))
		return false;
	is_id = depth == 1 && s->p - name == 4 && memcmp(name, "\"id\"", 4) == 0;
	space(s);
	if (s->p >= s->end || *s->p != ':')
		return fault(s, "':' is expected");
	s->p++;
	space(s);
	from = s->p;
	if (!value(s, depth))
		return false;
	if (is_id) {
		s->id = from;
		s->id_end = s->p;
	}
	return true;
}

/* Members or values, up to the closing bracket. */
static bool list(struct scan *s, int depth, bool object)
{
	const char close = object ? '}' : ']';

	if (depth > CBX_JSON_DEPTH_MAX)
		return fault(s, "too many levels");
	s->p++;
	space(s);
	if (s->p < s->end && *s->p == close) {
		s->p++;
		return true;
	}
	for (;;) {
		space(s);
		if (!(object ? member(s, depth) : value(s, depth)))
			return false;
		space(s);
		if (s->p >= s->end || (*s->p != ',' && *s->p != close))
			return fault(s, object ? "',' or '}' is expected" : "',' or ']' is expected");
		if (*s->p++ == close)
			return true;
	}
}

static bool value(struct scan *s, int depth)
{
	if (s->p >= s->end)
		return fault(s, "a value is expected");
	if (!s->values_left--)
		return fault(s, "too many values");
	switch (*s->p) {
	case '{':
		return list(s, depth + 1, true);
	case '[':
		return list(s, depth + 1, false);
	case '"':
		return string(s);
	case 't':
		return word(s, "true");
	case 'f':
		return word(s, "false");
	case 'n':
		return word(s, "null");
	default:
		if (*s->p == '-' || (*s->p >= '0' && *s->p <= '9'))
			return number(s);
		return fault(s, "a value is expected");
	}
}

/* Bytes of s to show in a message: at most 80, and never a part of a character. */
static int shown_bytes(const char *s)
{
	size_t n = strlen(s);

	if (n <= 80)
		return (int)n;
	for (n = 80; n && ((unsigned char)s[n] & 0xc0) == 0x80; n--)
		;
	return (int)n;
}

static bool twice_among_few(const cJSON *first, const char **ret)
{
	for (const cJSON *a = first; a; a = a->next)
		for (const cJSON *b = a->next; b; b = b->next)
			if (strcmp(a->string, b->string) == 0) {
				*ret = b->string;
				return true;
			}
	return false;
}

/* By sorting, so that a hostile object costs n log n. */
static bool twice_among_many(const cJSON *first, size_t n, const char **ret)
{
	_cleanup_free_ const char **names = cbx_xcalloc(n, sizeof(*names));
	size_t i = 0;

	for (; first; first = first->next)
		names[i++] = first->string;
	qsort(names, n, sizeof(*names), cbx_by_name);
	for (i = 1; i < n; i++)
		if (strcmp(names[i - 1], names[i]) == 0) {
			*ret = names[i];
			return true;
		}
	return false;
}

static void find_duplicates(const cJSON *node, struct cbx_err *problem)
{
	const char *name;
	const cJSON *child;
	size_t n = 0;

	for (child = node->child; child; child = child->next)
		n++;
	if (cJSON_IsObject(node) &&
	    (n <= FEW_MEMBERS ? twice_among_few(node->child, &name) : twice_among_many(node->child, n, &name)))
		cbx_refuse(problem, "duplicate_key", EINVAL, "member \"%.*s\" stands twice in one object; remove one",
			   shown_bytes(name), name);
	for (child = node->child; child && !problem->code; child = child->next)
		if (child->child)
			find_duplicates(child, problem);
}

int cbx_json_parse_most(const char *text, size_t len, size_t values_max, struct cbx_json_doc *ret, struct cbx_err *err)
{
	struct scan s = { .start = text, .p = text, .end = text + len, .copied = text, .values_left = values_max };
	struct cbx_json_doc doc = { 0 };
	const char *end = NULL;
	bool ok;

	s.problem = &doc.problem;
	space(&s);
	ok = value(&s, 0);
	if (ok) {
		space(&s);
		ok = s.p == s.end || fault(&s, "bytes follow the value");
	}
	if (!ok) {
		cbx_buf_release(&s.fixed);
		ret->at = (size_t)(s.p - s.start);
		return cbx_refuse(err, "invalid_json", EBADMSG, "not JSON: %s (at byte %zu)", s.fault,
				  (size_t)(s.p - s.start));
	}
	if (s.id) {
		doc.id = cbx_xcalloc(1, (size_t)(s.id_end - s.id) + 1);
		memcpy(doc.id, s.id, (size_t)(s.id_end - s.id));
	}
	if (s.repaired) {
		cbx_buf_add(&s.fixed, s.copied, (size_t)(s.end - s.copied));
		doc.root = cJSON_ParseWithLengthOpts(s.fixed.data, s.fixed.len, &end, 0);
	} else {
		doc.root = cJSON_ParseWithLengthOpts(text, len, &end, 0);
	}
	cbx_buf_release(&s.fixed);
	if (!doc.root) {
		free(doc.id);
		return cbx_refuse(err, "invalid_json", EBADMSG, "not JSON that can be read");
	}
	if (!doc.problem.code)
		find_duplicates(doc.root, &doc.problem);
	doc.at = s.problem_at;
	*ret = doc;
	return 0;
}

int cbx_json_parse(const char *text, size_t len, struct cbx_json_doc *ret, struct cbx_err *err)
{
	return cbx_json_parse_most(text, len, CBX_JSON_VALUES_MAX, ret, err);
}

int cbx_json_parse_sound(const char *text, size_t len, struct cbx_json_doc *ret, struct cbx_err *err)
{
	int r = cbx_json_parse(text, len, ret, err);

	if (r < 0 || !ret->problem.code)
		return r;
	*err = ret->problem;
	return -err->code;
}

void cbx_json_doc_release(struct cbx_json_doc *doc)
{
	cJSON_Delete(doc->root);
	free(doc->id);
	memset(doc, 0, sizeof(*doc));
}

/* ---- typed members ---- */

static const cJSON *given(const cJSON *obj, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(obj, key);

	return v && !cJSON_IsNull(v) ? v : NULL;
}

static int wrong_type(const cJSON *v, const char *key, const char *want, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf shown = { 0 };

	cbx_json_print(&shown, v);
	return cbx_refuse(err, "invalid_argument", EINVAL, "%s: %s is expected, not %.*s%s", key, want,
			  shown_bytes(cbx_buf_str(&shown)), cbx_buf_str(&shown), shown.len > 80 ? "…" : "");
}

int cbx_json_get_str(const cJSON *obj, const char *key, const char **ret, struct cbx_err *err)
{
	const cJSON *v = given(obj, key);

	if (!v)
		return 0;
	if (!cJSON_IsString(v))
		return wrong_type(v, key, "a string", err);
	*ret = v->valuestring;
	return 1;
}

int cbx_json_get_bool(const cJSON *obj, const char *key, bool *ret, struct cbx_err *err)
{
	const cJSON *v = given(obj, key);

	if (!v)
		return 0;
	if (!cJSON_IsBool(v))
		return wrong_type(v, key, "true or false", err);
	*ret = cJSON_IsTrue(v);
	return 1;
}

int cbx_json_get_u64(const cJSON *obj, const char *key, uint64_t min, uint64_t max, uint64_t *ret,
		     struct cbx_err *err)
{
	const cJSON *v = given(obj, key);
	double d;

	if (!v)
		return 0;
	if (!cJSON_IsNumber(v))
		return wrong_type(v, key, "a whole number", err);
	d = v->valuedouble;
	if (!(d >= 0 && d <= 9007199254740992.0) || floor(d) != d)
		return wrong_type(v, key, "a whole number of at least 0", err);
	if ((uint64_t)d < min && max >= 1u << 30) /* the upper bound is not the point */
		return cbx_refuse(err, "invalid_argument", ERANGE, "%s: %.0f is too small; give at least %llu", key, d,
				  (unsigned long long)min);
	if ((uint64_t)d < min || (uint64_t)d > max)
		return cbx_refuse(err, "invalid_argument", ERANGE, "%s: %.0f is not between %llu and %llu", key, d,
				  (unsigned long long)min, (unsigned long long)max);
	*ret = (uint64_t)d;
	return 1;
}

int cbx_json_get_double(const cJSON *obj, const char *key, double min, double max, double *ret, struct cbx_err *err)
{
	const cJSON *v = given(obj, key);

	if (!v)
		return 0;
	if (!cJSON_IsNumber(v) || !isfinite(v->valuedouble))
		return wrong_type(v, key, "a number", err);
	if (v->valuedouble < min && max >= 1u << 30)
		return cbx_refuse(err, "invalid_argument", ERANGE, "%s: %g is too small; give at least %g", key,
				  v->valuedouble, min);
	if (v->valuedouble < min || v->valuedouble > max)
		return cbx_refuse(err, "invalid_argument", ERANGE, "%s: %g is not between %g and %g", key,
				  v->valuedouble, min, max);
	*ret = v->valuedouble;
	return 1;
}

int cbx_json_get_obj(const cJSON *obj, const char *key, const cJSON **ret, struct cbx_err *err)
{
	const cJSON *v = given(obj, key);

	if (!v)
		return 0;
	if (!cJSON_IsObject(v))
		return wrong_type(v, key, "an object", err);
	*ret = v;
	return 1;
}

int cbx_json_get_arr(const cJSON *obj, const char *key, const cJSON **ret, struct cbx_err *err)
{
	const cJSON *v = given(obj, key);

	if (!v)
		return 0;
	if (!cJSON_IsArray(v))
		return wrong_type(v, key, "an array", err);
	*ret = v;
	return 1;
}

const char *cbx_json_text(const cJSON *obj, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(obj, key);

	return cJSON_IsString(v) ? v->valuestring : NULL;
}

const char *cbx_json_str(const cJSON *obj, const char *key)
{
	const char *text = cbx_json_text(obj, key);

	return text ? text : "";
}

bool cbx_json_lists(const cJSON *list, const char *text)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, list)
		if (cJSON_IsString(v) && strcmp(v->valuestring, text) == 0)
			return true;
	return false;
}

int cbx_json_error(const cJSON *obj, const char *kind, int code, struct cbx_err *err)
{
	const char *own = cbx_json_text(obj, "kind"), *message = cbx_json_text(obj, "message");

	cbx_refuse(err, own ? own : kind, code, "%s", message ? message : "no reason was given");
	cbx_err_sanitize(err);
	return -err->code;
}

cJSON *cbx_json_of_error(const struct cbx_err *err)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "kind", err->kind);
	cbx_json_set_str(o, "message", err->msg);
	return o;
}

double cbx_json_number(const cJSON *obj, const char *key, double otherwise)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(obj, key);

	return cJSON_IsNumber(v) ? v->valuedouble : otherwise;
}

int cbx_json_only(const cJSON *obj, const char *const *keys, struct cbx_err *err)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, obj) {
		_cleanup_buf_ struct cbx_buf list = { 0 };
		const char *const *k;

		for (k = keys; *k; k++)
			if (strcmp(*k, v->string) == 0)
				break;
		if (*k)
			continue;
		for (k = keys; *k; k++)
			cbx_buf_addf(&list, "%s%s", k == keys ? "" : ", ", *k);
		return cbx_refuse(err, "invalid_argument", EINVAL, "unknown member \"%.*s\"; accepted are: %s",
				  shown_bytes(v->string), v->string, cbx_buf_str(&list));
	}
	return 0;
}

uint64_t cbx_json_u64(const cJSON *obj, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(obj, key);

	if (cJSON_IsRaw(v))
		return strtoull(v->valuestring, NULL, 10);
	return cJSON_IsNumber(v) && v->valuedouble >= 0 ? (uint64_t)v->valuedouble : 0;
}
