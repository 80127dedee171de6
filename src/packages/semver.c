/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a range is alternatives, of which one must hold; an alternative is comparisons, which all must.
 * "^1.2", "~1.2", "1.x" and "1.2 - 2" become two comparisons each, from a version (with what is omitted as 0) up to,
 * and without, the first pre-release of another ("-0").
 */
#include "packages/semver.h"

#include <ctype.h>
#include <string.h>

#include "base/cleanup.h"

#define COMPARISONS_MAX 32 /* of one alternative */
#define DIGITS_MAX	15
#define RANGE_MAX	1000
#define NONE_BELOW	"0" /* the least pre-release */

bool cbx_npm_name(const char *name, size_t n)
{
	bool scoped = n && name[0] == '@', slash = false, first = true;

	for (size_t i = scoped; i < n; i++) {
		if (scoped && !slash && name[i] == '/') {
			if (first)
				return false;
			slash = first = true;
			continue;
		}
		if (!isalnum((unsigned char)name[i]) && (first || !strchr("._-", name[i]) || !name[i]))
			return false;
		first = false;
	}
	return n && n < 120 && !first && slash == scoped && !(n == 12 && memcmp(name, "node_modules", 12) == 0) &&
	       !(n == 11 && memcmp(name, "favicon.ico", 11) == 0);
}

/* ---- versions ---- */

static bool number(const char **p, const char *end, uint64_t *ret)
{
	const char *from = *p;

	for (*ret = 0; *p < end && isdigit((unsigned char)**p); ++*p) {
		if (*p - from == DIGITS_MAX)
			return false;
		*ret = 10 * *ret + (uint64_t)(**p - '0');
	}
	return *p > from && (*from != '0' || *p == from + 1);
}

/* "a.1-b", of parts that are not empty; those that are numbers have no zero in front. */
static bool parts(const char **p, const char *end)
{
	const char *from = *p, *part = *p;
	bool digits = true;

	for (;; ++*p) {
		bool more = *p < end && (isalnum((unsigned char)**p) || **p == '-');

		if (more) {
			digits = digits && isdigit((unsigned char)**p);
			continue;
		}
		if (*p == part || (digits && *part == '0' && *p > part + 1) || *p - from >= CBX_SEMVER_PRE_MAX)
			return false;
		if (*p == end || **p != '.')
			return true;
		part = *p + 1;
		digits = true;
	}
}

/* Of `have` numbers, what may follow the third one. */
static bool qualifiers(const char **p, const char *end, struct cbx_semver *ret)
{
	const char *from;

	ret->pre[0] = '\0';
	if (*p < end && **p == '-') {
		from = ++*p;
		if (!parts(p, end))
			return false;
		memcpy(ret->pre, from, (size_t)(*p - from));
		ret->pre[*p - from] = '\0';
	}
	if (*p < end && **p == '+')
		for (++*p; *p < end && (isalnum((unsigned char)**p) || **p == '-' || **p == '.'); ++*p)
			;
	return true;
}

bool cbx_semver_parse(const char *s, size_t n, struct cbx_semver *ret)
{
	const char *p = s, *end = s + n;

	if (n >= CBX_SEMVER_MAX)
		return false;
	for (size_t i = 0; i < 3; i++)
		if ((i && (p == end || *p++ != '.')) || !number(&p, end, &ret->n[i]))
			return false;
	return qualifiers(&p, end, ret) && p == end;
}

static int compare_parts(const char *a, const char *b)
{
	for (;;) {
		size_t n = strcspn(a, "."), m = strcspn(b, ".");
		bool x = strspn(a, "0123456789") == n, y = strspn(b, "0123456789") == m;
		int r = x != y ? (x ? -1 : 1) : x && n != m ? (n < m ? -1 : 1) : strncmp(a, b, n < m ? n : m);

		if (!r && n != m)
			r = n < m ? -1 : 1;
		if (r || !a[n] || !b[m])
			return r ? r : (a[n] != '\0') - (b[m] != '\0');
		a += n + 1;
		b += m + 1;
	}
}

int cbx_semver_compare(const struct cbx_semver *a, const struct cbx_semver *b)
{
	for (size_t i = 0; i < 3; i++)
		if (a->n[i] != b->n[i])
			return a->n[i] < b->n[i] ? -1 : 1;
	if (!a->pre[0] || !b->pre[0])
		return !a->pre[0] - !b->pre[0];
	return compare_parts(a->pre, b->pre);
}

/* ---- ranges ---- */

enum op { EQ, LT, LE, GT, GE };

struct comparison {
	enum op op;
	struct cbx_semver v;
};

struct alternative {
	struct comparison all[COMPARISONS_MAX];
	size_t n;
	bool full; /* there were more */
};

struct partial {
	struct cbx_semver v; /* 0 where nothing is said */
	size_t have;	     /* numbers that are said */
};

static void add(struct alternative *a, enum op op, uint64_t major, uint64_t minor, uint64_t patch, const char *pre)
{
	struct comparison *c;

	if (a->n == COMPARISONS_MAX) {
		a->full = true;
		return;
	}
	c = &a->all[a->n++];
	*c = (struct comparison){ .op = op, .v.n = { major, minor, patch } };
	memcpy(c->v.pre, pre, strlen(pre) + 1);
}

static void skip_space(const char **p, const char *end)
{
	while (*p < end && strchr(" \t", **p))
		++*p;
}

/* "1", "1.x", "v1.2.3-beta" */
static bool partial(const char **p, const char *end, struct partial *ret)
{
	bool any = false;

	*ret = (struct partial){ 0 };
	*p += *p < end && **p == 'v';
	for (size_t i = 0; i < 3; i++) {
		if (i && (*p == end || **p != '.'))
			return true;
		*p += i > 0;
		if (*p < end && strchr("xX*", **p)) {
			any = true;
			++*p;
		} else if (!number(p, end, &ret->v.n[i])) {
			return false;
		} else if (any) {
			ret->v.n[i] = 0;
		} else {
			ret->have++;
		}
	}
	if (!qualifiers(p, end, &ret->v))
		return false;
	if (ret->have < 3)
		ret->v.pre[0] = '\0';
	return true;
}

/* Below the next version that differs in number `at`. */
static void below_next(struct alternative *a, const struct cbx_semver *v, size_t at)
{
	add(a, LT, v->n[0] + (at == 0), at == 0 ? 0 : v->n[1] + (at == 1), at <= 1 ? 0 : v->n[2] + 1, NONE_BELOW);
}

static void from(struct alternative *a, const struct partial *q)
{
	add(a, GE, q->v.n[0], q->v.n[1], q->v.n[2], q->v.pre);
}

static void caret_or_tilde(struct alternative *a, const struct partial *q, bool caret)
{
	size_t at = caret ? 0 : q->have > 1;

	if (!q->have)
		return;
	while (caret && at + 1 < q->have && !q->v.n[at])
		at++;
	from(a, q);
	below_next(a, &q->v, at);
}

static void compared(struct alternative *a, enum op op, const struct partial *q)
{
	const uint64_t *n = q->v.n;

	if (q->have == 3) {
		add(a, op, n[0], n[1], n[2], q->v.pre);
	} else if (!q->have) {
		if (op == LT || op == GT)
			add(a, LT, 0, 0, 0, NONE_BELOW); /* nothing is */
	} else if (op == EQ || op == GE) {
		from(a, q);
		if (op == EQ)
			below_next(a, &q->v, q->have - 1);
	} else if (op == LT) {
		add(a, LT, n[0], n[1], n[2], NONE_BELOW);
	} else if (op == LE) {
		below_next(a, &q->v, q->have - 1);
	} else {
		add(a, GE, n[0] + (q->have == 1), q->have == 1 ? 0 : n[1] + 1, 0, "");
	}
}

static enum op read_op(const char **p, const char *end)
{
	enum op op = EQ;

	if (*p < end && (**p == '<' || **p == '>')) {
		op = **p == '<' ? LT : GT;
		++*p;
	}
	if (*p < end && **p == '=') {
		op = op == LT ? LE : op == GT ? GE : EQ;
		++*p;
	}
	return op;
}

/* One of them, or both ends of "1.2 - 2". */
static bool one(const char **p, const char *end, struct alternative *a)
{
	struct partial q, to;
	const char *at;
	char sign = **p;
	enum op op = EQ;

	if (sign == '^' || sign == '~') {
		++*p;
		*p += sign == '~' && *p < end && **p == '>';
	} else {
		at = *p;
		op = read_op(p, end);
		if (*p > at)
			sign = '=';
	}
	skip_space(p, end);
	if (!partial(p, end, &q))
		return false;
	at = *p;
	skip_space(&at, end);
	if (!strchr("^~=", sign) && at > *p && end - at > 1 && at[0] == '-' && strchr(" \t", at[1])) {
		*p = at + 1;
		skip_space(p, end);
		if (!partial(p, end, &to))
			return false;
		if (q.have)
			from(a, &q);
		if (to.have)
			compared(a, LE, &to);
	} else if (sign == '^' || sign == '~') {
		caret_or_tilde(a, &q, sign == '^');
	} else {
		compared(a, op, &q);
	}
	return *p == end || strchr(" \t", **p);
}

static bool alternative(const char *p, const char *end, struct alternative *a)
{
	*a = (struct alternative){ 0 };
	for (skip_space(&p, end); p < end; skip_space(&p, end))
		if (!one(&p, end, a))
			return false;
	return !a->full;
}

static bool in(const struct alternative *a, const struct cbx_semver *v, bool any_pre)
{
	bool named = any_pre || !v->pre[0];

	for (size_t i = 0; i < a->n; i++) {
		const struct comparison *c = &a->all[i];
		int r = cbx_semver_compare(v, &c->v);

		if (c->op == EQ ? r : c->op == LT ? r >= 0 : c->op == LE ? r > 0 : c->op == GT ? r <= 0 : r < 0)
			return false;
		named |= c->v.pre[0] && memcmp(c->v.n, v->n, sizeof(v->n)) == 0;
	}
	return named;
}

/* v NULL: whether it can be read. */
static bool range(const char *text, const struct cbx_semver *v, bool any_pre)
{
	bool held = !v;

	if (strlen(text) > RANGE_MAX)
		return false;
	for (;;) {
		const char *bar = strstr(text, "||"), *end = bar ? bar : text + strlen(text);
		struct alternative a;

		if (!alternative(text, end, &a))
			return false;
		held |= v && in(&a, v, any_pre);
		if (!bar)
			return held;
		text = bar + 2;
	}
}

bool cbx_semver_range_valid(const char *text)
{
	return range(text, NULL, false);
}

bool cbx_semver_holds(const char *text, const char *version, bool any_pre)
{
	struct cbx_semver v;

	return cbx_semver_parse(version, strlen(version), &v) && range(text, &v, any_pre);
}
