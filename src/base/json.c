/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: one pass checks the grammar and makes the tree, of which cJSON has the form, the allocator and
 * the rest. A string is collected from pieces of the text: what a C string cannot hold, or what is not text, becomes
 * U+FFFD and a content fault. Duplicate keys are found on the tree afterwards.
 */
#include "base/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/jsonscan.h"
#include "base/limits.h"
#include "base/str.h"

#define FEW_MEMBERS  8	/* of an object: compared each with each */
#define EXACT_DIGITS 15 /* of a whole number: it is exact as a double */
#define REPLACEMENT  0xfffd

struct reader {
	const char *start, *p, *end;
	struct cbx_buf piece; /* of the string or number that is being read */
	const char *id, *id_end;
	struct cbx_err *problem;
	size_t problem_at;
	const char *fault; /* syntax fault */
};

static void *fault(struct reader *s, const char *what)
{
	if (!s->fault)
		s->fault = what;
	return NULL;
}

static cJSON *node(int type)
{
	cJSON *v = cbx_xcalloc(1, sizeof(*v));

	v->type = type;
	return v;
}

static void space(struct reader *s)
{
	s->p = cbx_jsonscan_space(s->p, s->end);
}

/* ---- strings ---- */

static void add_code(struct reader *s, uint32_t code)
{
	char bytes[4];

	cbx_buf_add(&s->piece, bytes, cbx_utf8_put(bytes, code));
}

/* What is at `from` cannot be in a string. */
static void repair(struct reader *s, const char *from, const char *what)
{
	if (!s->problem->code) {
		s->problem_at = (size_t)(from - s->start);
		cbx_refuse(s->problem, "invalid_string", EINVAL, "a string holds %s at byte %zu; remove it", what,
			   s->problem_at);
	}
	add_code(s, REPLACEMENT);
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

/* Behind \u. */
static bool escaped_code(struct reader *s, const char *from)
{
	int u = hex4(s->p, s->end), low = -1;

	if (u < 0)
		return fault(s, "\\u needs four hexadecimal digits");
	s->p += 4;
	if (u >= 0xd800 && u <= 0xdbff && s->end - s->p >= 6 && s->p[0] == '\\' && s->p[1] == 'u')
		low = hex4(s->p + 2, s->end);
	if (u == 0) {
		repair(s, from, "U+0000");
	} else if (low >= 0xdc00 && low <= 0xdfff) {
		s->p += 6;
		add_code(s, 0x10000 + (((uint32_t)u & 0x3ff) << 10 | ((uint32_t)low & 0x3ff)));
	} else if (u >= 0xd800 && u <= 0xdfff) {
		repair(s, from, "a lone surrogate");
	} else {
		add_code(s, (uint32_t)u);
	}
	return true;
}

static bool escape(struct reader *s)
{
	static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
	const char *from = s->p++, *at; /* the backslash */

	if (s->p >= s->end)
		return fault(s, "a string is not closed");
	if (*s->p == 'u') {
		s->p++;
		return escaped_code(s, from);
	}
	at = *s->p ? strchr(names, *s->p) : NULL;
	if (!at)
		return fault(s, "unknown escape in a string");
	cbx_buf_addc(&s->piece, meant[at - names]);
	s->p++;
	return true;
}

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* Up to the first byte that does not stand for itself. */
static void plain(struct reader *s)
{
	for (;;) {
		size_t k;

		while (s->p < s->end && is_plain((unsigned char)*s->p))
			s->p++;
		if (s->p >= s->end || (unsigned char)*s->p < 0x80)
			return;
		k = cbx_utf8_len(s->p, (size_t)(s->end - s->p));
		if (!k)
			return;
		s->p += k;
	}
}

/* One that a node can own; NULL: a fault. */
static char *string(struct reader *s)
{
	const char *from = ++s->p;
	char *text;
	size_t n;

	s->piece.len = 0;
	for (;;) {
		plain(s);
		if (s->p >= s->end)
			return fault(s, "a string is not closed");
		if (*s->p == '"')
			break;
		if ((unsigned char)*s->p < 0x20)
			return fault(s, "a control character stands unescaped in a string");
		cbx_buf_add(&s->piece, from, (size_t)(s->p - from));
		if (*s->p == '\\') {
			if (!escape(s))
				return NULL;
		} else {
			repair(s, s->p, "bytes that are not UTF-8");
			s->p++;
		}
		from = s->p;
	}
	n = (size_t)(s->p - from);
	text = cbx_xrealloc(NULL, s->piece.len + n + 1);
	if (s->piece.len)
		memcpy(text, s->piece.data, s->piece.len);
	memcpy(text + s->piece.len, from, n);
	text[s->piece.len + n] = '\0';
	s->p++;
	return text;
}

static cJSON *string_node(struct reader *s)
{
	char *text = string(s);
	cJSON *v;

	if (!text)
		return NULL;
	v = node(cJSON_String);
	v->valuestring = text;
	return v;
}

/* ---- numbers and words ---- */

static bool run_of_digits(struct reader *s)
{
	const char *from = s->p;

	while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
		s->p++;
	return s->p > from;
}

/* strtod() has the C locale's point: no program sets LC_NUMERIC to another's. */
static double converted(struct reader *s, const char *from, bool whole)
{
	size_t n = (size_t)(s->p - from);
	int64_t v = 0;

	if (!whole || n > EXACT_DIGITS) {
		s->piece.len = 0;
		cbx_buf_add(&s->piece, from, n);
		return strtod(s->piece.data, NULL);
	}
	for (const char *p = from + (*from == '-'); p < s->p; p++)
		v = v * 10 + (*p - '0');
	return (double)(*from == '-' ? -v : v);
}

static cJSON *number(struct reader *s)
{
	const char *from = s->p;
	bool whole = true;
	cJSON *v;

	if (*s->p == '-')
		s->p++;
	if (s->p < s->end && *s->p == '0')
		s->p++;
	else if (!run_of_digits(s))
		return fault(s, "a number needs digits");
	if (s->p < s->end && *s->p == '.') {
		s->p++;
		whole = false;
		if (!run_of_digits(s))
			return fault(s, "a number needs digits behind its point");
	}
	if (s->p < s->end && (*s->p | 32) == 'e') {
		s->p++;
		whole = false;
		if (s->p < s->end && (*s->p == '+' || *s->p == '-'))
			s->p++;
		if (!run_of_digits(s))
			return fault(s, "a number needs digits in its exponent");
	}
	v = node(cJSON_Number);
	cJSON_SetNumberHelper(v, converted(s, from, whole)); /* valueint, too */
	return v;
}

static cJSON *word(struct reader *s, const char *w, int type)
{
	size_t n = strlen(w);

	if ((size_t)(s->end - s->p) < n || memcmp(s->p, w, n) != 0)
		return fault(s, "a value is expected");
	s->p += n;
	return node(type);
}

/* ---- lists ---- */

static cJSON *value(struct reader *s, int depth);

static cJSON *member(struct reader *s, int depth)
{
	const char *from = s->p;
	char *name;
	bool is_id;
	cJSON *v;

	if (s->p >= s->end || *s->p != '"')
		return fault(s, "a member's name is expected");
	name = string(s);
	if (!name)
		return NULL;
	is_id = depth == 1 && s->p - from == 4 && memcmp(from, "\"id\"", 4) == 0;
	space(s);
	if (s->p >= s->end || *s->p != ':') {
		free(name);
		return fault(s, "':' is expected");
	}
	s->p++;
	space(s);
	from = s->p;
	v = value(s, depth);
	if (!v) {
		free(name);
		return NULL;
	}
	v->string = name;
	if (is_id) {
		s->id = from;
		s->id_end = s->p;
	}
	return v;
}

/* Members or values, up to the closing bracket. */
static cJSON *list(struct reader *s, int depth, bool object)
{
	const char close = object ? '}' : ']';
	_cleanup_json_ cJSON *all = NULL;
	cJSON *one;

	if (depth > CBX_JSON_DEPTH_MAX)
		return fault(s, "too many levels");
	all = node(object ? cJSON_Object : cJSON_Array);
	s->p++;
	space(s);
	if (s->p < s->end && *s->p == close) {
		s->p++;
	} else {
		do {
			space(s);
			one = object ? member(s, depth) : value(s, depth);
			if (!one)
				return NULL;
			cbx_json_push(all, one);
			space(s);
			if (s->p >= s->end || (*s->p != ',' && *s->p != close))
				return fault(s, object ? "',' or '}' is expected" : "',' or ']' is expected");
		} while (*s->p++ != close);
	}
	return take_ptr(&all);
}

static cJSON *value(struct reader *s, int depth)
{
	if (s->p >= s->end)
		return fault(s, "a value is expected");
	switch (*s->p) {
	case '{':
		return list(s, depth + 1, true);
	case '[':
		return list(s, depth + 1, false);
	case '"':
		return string_node(s);
	case 't':
		return word(s, "true", cJSON_True);
	case 'f':
		return word(s, "false", cJSON_False);
	case 'n':
		return word(s, "null", cJSON_NULL);
	default:
		if (*s->p == '-' || (*s->p >= '0' && *s->p <= '9'))
			return number(s);
		return fault(s, "a value is expected");
	}
}

/* A tree takes many times the memory of its text: it is not begun when it would have too many values. Each but the
 * first takes two bytes at least, and has a comma or a bracket before it. */
static bool has_room(struct reader *s, size_t values_max)
{
	const char *p = s->p;
	size_t n = 1;

	if ((size_t)(s->end - p) / 2 < values_max)
		return true;
	while (p < s->end && n <= values_max) {
		if (*p == '"') {
			p = cbx_jsonscan_string(p, s->end);
			continue;
		}
		if (*p == '[' || *p == '{') {
			const char *first = cbx_jsonscan_space(p + 1, s->end);

			n += first == s->end || (*first != ']' && *first != '}');
		}
		n += *p++ == ',';
	}
	if (n <= values_max)
		return true;
	s->p = p;
	return fault(s, "too many values");
}

/* ---- duplicate keys ---- */

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
			   (int)cbx_utf8_head(name, CBX_JSON_SHOWN), name);
	for (child = node->child; child && !problem->code; child = child->next)
		if (child->child)
			find_duplicates(child, problem);
}

int cbx_json_parse_most(const char *text, size_t len, size_t values_max, struct cbx_json_doc *ret, struct cbx_err *err)
{
	struct reader s = { .start = text, .p = text, .end = text + len };
	struct cbx_json_doc doc = { 0 };

	s.problem = &doc.problem;
	space(&s);
	doc.root = has_room(&s, values_max) ? value(&s, 0) : NULL;
	space(&s);
	if (doc.root && s.p != s.end)
		fault(&s, "bytes follow the value");
	cbx_buf_release(&s.piece);
	if (s.fault) {
		cJSON_Delete(doc.root);
		ret->at = (size_t)(s.p - s.start);
		return cbx_refuse(err, "invalid_json", EBADMSG, "not JSON: %s (at byte %zu)", s.fault,
				  (size_t)(s.p - s.start));
	}
	if (s.id) {
		doc.id = cbx_xcalloc(1, (size_t)(s.id_end - s.id) + 1);
		memcpy(doc.id, s.id, (size_t)(s.id_end - s.id));
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
