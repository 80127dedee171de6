/* SPDX-License-Identifier: Apache-2.0 */
#include "packages/condaversion.h"

#include <ctype.h>
#include <string.h>

#include "base/cleanup.h"

#define DIGITS_MAX 18 /* of one number; longer: not a version */

/* ---- versions ---- */

static bool add(struct cbx_conda_version *v, struct cbx_conda_atom a)
{
	if (v->n == CBX_CONDA_PARTS_MAX)
		return false;
	v->atoms[v->n++] = a;
	return true;
}

/* What stands between two dots: runs of digits and of others, the first a number. */
static bool add_part(struct cbx_conda_version *v, const char *p, size_t n)
{
	bool first = true;

	if (!n)
		return false;
	if (!isdigit((unsigned char)*p)) {
		if (!add(v, (struct cbx_conda_atom){ .first = true }))
			return false;
		first = false;
	}
	for (size_t i = 0; i < n; first = false) {
		struct cbx_conda_atom a = { .first = first };
		size_t from = i;

		if (isdigit((unsigned char)p[i])) {
			for (; i < n && isdigit((unsigned char)p[i]); i++)
				a.number = 10 * a.number + (uint64_t)(p[i] - '0');
			if (i - from > DIGITS_MAX)
				return false;
		} else {
			while (i < n && !isdigit((unsigned char)p[i]))
				i++;
			a.word = p + from;
			a.n = (uint8_t)(i - from);
		}
		if (!add(v, a))
			return false;
	}
	return true;
}

/* Parts are separated by dots, and by "_" but for one at the end, which belongs to the last. */
static bool add_parts(struct cbx_conda_version *v, const char *p, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t from = i;

		while (i < n && p[i] != '.' && (p[i] != '_' || i + 1 == n))
			i++;
		if (!add_part(v, p + from, i - from) || (i < n && ++i == n))
			return false;
	}
	return n > 0;
}

bool cbx_conda_version_parse(const char *s, size_t n, struct cbx_conda_version *ret)
{
	const char *epoch, *local;
	size_t at = 0;

	*ret = (struct cbx_conda_version){ 0 };
	if (!n || n >= sizeof(ret->text))
		return false;
	for (size_t i = 0; i < n; i++) {
		char c = (char)tolower((unsigned char)s[i]);

		if (!isalnum((unsigned char)c) && !strchr("._-+!", c))
			return false;
		ret->text[i] = c == '-' ? '_' : c;
		if (c == '-' && memchr(s, '_', n)) /* conda has them stand for each other, and so never both */
			return false;
	}
	epoch = memchr(ret->text, '!', n);
	if (epoch && strchr(epoch + 1, '!'))
		return false;
	if (epoch) {
		at = (size_t)(epoch - ret->text) + 1;
		if (at == 1 || strspn(ret->text, "0123456789") != at - 1 || !add_part(ret, ret->text, at - 1))
			return false;
	} else if (!add(ret, (struct cbx_conda_atom){ .first = true })) {
		return false;
	}
	local = memchr(ret->text + at, '+', n - at);
	if (!add_parts(ret, ret->text + at, local ? (size_t)(local - ret->text) - at : n - at))
		return false;
	ret->main = ret->n;
	if (!local)
		return true;
	local++;
	return !strpbrk(local, "+!") && add_parts(ret, local, strlen(local));
}

/* "dev" comes before other words, these before numbers, and "post" behind all of them. */
static int rank(const struct cbx_conda_atom *a)
{
	if (!a->word)
		return 2;
	if (a->n == 4 && memcmp(a->word, "post", 4) == 0)
		return 3;
	return a->n == 3 && memcmp(a->word, "dev", 3) == 0 ? 0 : 1;
}

static int compare_atoms(const struct cbx_conda_atom *a, const struct cbx_conda_atom *b)
{
	size_t least = a->n < b->n ? a->n : b->n;
	int r = rank(a) - rank(b);

	if (r || rank(a) == 0 || rank(a) == 3)
		return r;
	if (!a->word)
		return a->number < b->number ? -1 : a->number > b->number;
	r = memcmp(a->word, b->word, least);
	return r ? r : (int)a->n - (int)b->n;
}

/* How many atoms the part that begins here has. */
static size_t part(const struct cbx_conda_atom *a, size_t n)
{
	size_t len = n > 0;

	while (len < n && !a[len].first)
		len++;
	return len;
}

/* What is missing is 0. */
static int compare_lists(const struct cbx_conda_atom *a, size_t an, const struct cbx_conda_atom *b, size_t bn)
{
	static const struct cbx_conda_atom none;

	while (an || bn) {
		size_t ap = part(a, an), bp = part(b, bn);

		for (size_t i = 0; i < ap || i < bp; i++) {
			int r = compare_atoms(i < ap ? &a[i] : &none, i < bp ? &b[i] : &none);

			if (r)
				return r;
		}
		a += ap;
		b += bp;
		an -= ap;
		bn -= bp;
	}
	return 0;
}

int cbx_conda_version_compare(const struct cbx_conda_version *a, const struct cbx_conda_version *b)
{
	int r = compare_lists(a->atoms, a->main, b->atoms, b->main);

	return r ? r : compare_lists(a->atoms + a->main, a->n - a->main, b->atoms + b->main, b->n - b->main);
}

/* ---- what is said of them ---- */

/* Whether they are the same as far as b goes; its last word may be longer in a. */
static bool begins_with(const struct cbx_conda_version *a, const struct cbx_conda_version *b)
{
	static const struct cbx_conda_atom none;
	bool local = b->n > b->main;
	const struct cbx_conda_atom *x = a->atoms, *y = b->atoms;
	size_t xn = a->main, yn = b->main;

	if (local) {
		if (compare_lists(x, xn, y, yn) != 0)
			return false;
		x += a->main;
		y += b->main;
		xn = a->n - a->main;
		yn = b->n - b->main;
	}
	for (;;) {
		size_t xp = part(x, xn), yp = part(y, yn);
		bool last = yp == yn;

		for (size_t i = 0; i < yp || (i < xp && !last); i++) {
			const struct cbx_conda_atom *p = i < xp ? &x[i] : &none, *q = i < yp ? &y[i] : &none;

			if (last && i + 1 == yp && q->word)
				return p->word && p->n >= q->n && memcmp(p->word, q->word, q->n) == 0;
			if (compare_atoms(p, q) != 0)
				return false;
		}
		if (last)
			return true;
		x += xp;
		xn -= xp;
		y += yp;
		yn -= yp;
	}
}

enum op { ANY, IS, IS_NOT, BEGINS, BEGINS_NOT, LEAST, MOST, LESS, MORE, COMPATIBLE };

struct clause {
	enum op op;
	struct cbx_conda_version version;
};

/* ">=1.2" and the like, without what is around it. */
static bool read_clause(const char *p, size_t n, struct clause *c)
{
	static const struct {
		const char *text;
		enum op op;
	} ops[] = { { ">=", LEAST },	  { "<=", MOST }, { "==", IS },	 { "!=", IS_NOT },
		    { "~=", COMPATIBLE }, { ">", MORE },  { "<", LESS }, { "=", BEGINS } };
	enum op op = IS;
	bool star = false;

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		size_t len = strlen(ops[i].text);

		if (n < len || memcmp(p, ops[i].text, len) != 0)
			continue;
		op = ops[i].op;
		p += len;
		n -= len;
		break;
	}
	while (n && *p == ' ') {
		p++;
		n--;
	}
	if (n == 1 && *p == '*') {
		c->op = ANY;
		return op == IS || op == BEGINS;
	}
	if (n && p[n - 1] == '*') {
		star = true;
		n--;
		n -= n && p[n - 1] == '.';
	}
	if (star && op == COMPATIBLE)
		return false;
	if (star && (op == IS || op == IS_NOT))
		op = op == IS ? BEGINS : BEGINS_NOT;
	c->op = op;
	return cbx_conda_version_parse(p, n, &c->version);
}

/* "~=1.2.3": at least that, and it begins with 1.2. */
static bool compatible(const struct cbx_conda_version *v, const struct cbx_conda_version *least)
{
	struct cbx_conda_version shorter = *least;
	size_t n = shorter.main;

	while (n && !shorter.atoms[n - 1].first)
		n--;
	shorter.main = shorter.n = n ? n - 1 : 0;
	return shorter.n && cbx_conda_version_compare(v, least) >= 0 && begins_with(v, &shorter);
}

static bool holds(const struct clause *c, const struct cbx_conda_version *v)
{
	switch (c->op) {
	case ANY:
		return true;
	case IS:
		return cbx_conda_version_compare(v, &c->version) == 0;
	case IS_NOT:
		return cbx_conda_version_compare(v, &c->version) != 0;
	case BEGINS:
		return begins_with(v, &c->version);
	case BEGINS_NOT:
		return !begins_with(v, &c->version);
	case LEAST:
		return cbx_conda_version_compare(v, &c->version) >= 0;
	case MOST:
		return cbx_conda_version_compare(v, &c->version) <= 0;
	case LESS:
		return cbx_conda_version_compare(v, &c->version) < 0;
	case MORE:
		return cbx_conda_version_compare(v, &c->version) > 0;
	case COMPATIBLE:
		return compatible(v, &c->version);
	}
	return false;
}

/* version NULL: only whether it can be read. -1: it cannot; else whether it holds. */
static int judge(const char *spec, const struct cbx_conda_version *version)
{
	bool any = false, all = true;

	for (const char *p = spec;; p++) {
		struct clause c;
		size_t n;

		p += strspn(p, " ");
		n = strcspn(p, ",|");
		for (size_t end = n; end && p[end - 1] == ' ';)
			n = --end;
		if (!read_clause(p, n, &c))
			return -1;
		all &= !version || holds(&c, version);
		p += n + strspn(p + n, " ");
		if (*p == ',')
			continue;
		any |= all;
		all = true;
		if (!*p)
			return any;
		if (*p != '|')
			return -1;
	}
}

bool cbx_conda_spec_valid(const char *spec)
{
	return !spec[strspn(spec, " ")] || judge(spec, NULL) >= 0;
}

bool cbx_conda_spec_holds(const char *spec, const char *version)
{
	struct cbx_conda_version v;

	return cbx_conda_version_parse(version, strlen(version), &v) &&
	       (!spec[strspn(spec, " ")] || judge(spec, &v) > 0);
}
