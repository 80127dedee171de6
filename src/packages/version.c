/* SPDX-License-Identifier: Apache-2.0 */
#include "packages/version.h"

#include <ctype.h>
#include <string.h>

bool cbx_project_name(const char *name, size_t n, char out[CBX_PROJECT_MAX])
{
	size_t len = 0;

	if (!n || !isalnum((unsigned char)name[0]) || !isalnum((unsigned char)name[n - 1]))
		return false;
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)name[i];
		bool joint = c == '-' || c == '_' || c == '.';

		if (c > 127 || (!joint && !isalnum(c)))
			return false;
		if (joint && out[len - 1] == '-')
			continue;
		if (len + 1 >= CBX_PROJECT_MAX)
			return false;
		out[len++] = joint ? '-' : (char)tolower(c);
	}
	out[len] = '\0';
	return true;
}

/* ---- versions ---- */

struct scan {
	const char *p, *end;
};

static char peek(const struct scan *s)
{
	return s->p < s->end ? (char)tolower((unsigned char)*s->p) : '\0';
}

static bool number(struct scan *s, uint64_t *ret)
{
	const char *from = s->p;

	*ret = 0;
	for (; isdigit((unsigned char)peek(s)); s->p++) {
		if (*ret > (UINT64_MAX - 9) / 10)
			return false;
		*ret = *ret * 10 + (uint64_t)(*s->p - '0');
	}
	return s->p > from;
}

static bool word(struct scan *s, const char *w)
{
	size_t n = strlen(w);

	if ((size_t)(s->end - s->p) < n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (tolower((unsigned char)s->p[i]) != w[i])
			return false;
	s->p += n;
	return true;
}

static bool separator(struct scan *s)
{
	char c = peek(s);

	if (c != '.' && c != '-' && c != '_')
		return false;
	s->p++;
	return true;
}

/* The number behind a word: "", "1", ".1", "-1"; nothing counts as 0. */
static bool suffix_number(struct scan *s, uint64_t *ret)
{
	const char *from = s->p;

	separator(s);
	if (isdigit((unsigned char)peek(s)))
		return number(s, ret);
	s->p = from;
	*ret = 0;
	return true;
}

static bool pre_release(struct scan *s, struct cbx_version *v)
{
	static const struct {
		const char *word;
		char kind;
	} words[] = { { "alpha", 'a' }, { "beta", 'b' }, { "preview", 'c' }, { "pre", 'c' },
		      { "rc", 'c' },	{ "a", 'a' },	 { "b", 'b' },	     { "c", 'c' } };
	const char *from = s->p;

	separator(s);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!word(s, words[i].word))
			continue;
		v->pre = words[i].kind;
		return suffix_number(s, &v->pre_number);
	}
	s->p = from;
	return true;
}

static bool post_release(struct scan *s, struct cbx_version *v)
{
	const char *from = s->p;

	if (peek(s) == '-' && s->end - s->p > 1 && isdigit((unsigned char)s->p[1])) {
		s->p++;
		v->post = true;
		return number(s, &v->post_number);
	}
	separator(s);
	if (word(s, "post") || word(s, "rev") || word(s, "r")) {
		v->post = true;
		return suffix_number(s, &v->post_number);
	}
	s->p = from;
	return true;
}

static bool dev_release(struct scan *s, struct cbx_version *v)
{
	const char *from = s->p;

	separator(s);
	if (word(s, "dev")) {
		v->dev = true;
		return suffix_number(s, &v->dev_number);
	}
	s->p = from;
	return true;
}

static bool local_label(struct scan *s, struct cbx_version *v)
{
	size_t n = 0;

	if (peek(s) != '+')
		return true;
	for (s->p++; s->p < s->end; s->p++) {
		char c = peek(s);
		bool joint = c == '.' || c == '-' || c == '_';

		if ((!joint && (!isalnum((unsigned char)c) || (unsigned char)c > 127)) || n + 1 >= sizeof(v->local) ||
		    (joint && (!n || v->local[n - 1] == '.')))
			return false;
		v->local[n++] = joint ? '.' : c;
	}
	return n && v->local[n - 1] != '.';
}

bool cbx_version_parse(const char *text, size_t n, struct cbx_version *v)
{
	struct scan s = { .p = text, .end = text + n };

	memset(v, 0, sizeof(*v));
	if (n >= CBX_VERSION_MAX)
		return false;
	word(&s, "v");
	do {
		if (v->nrelease == CBX_RELEASE_MAX || !number(&s, &v->release[v->nrelease]))
			return false;
		if (!v->nrelease++ && peek(&s) == '!') {
			s.p++;
			v->epoch = v->release[0];
			v->nrelease = 0;
			if (!isdigit((unsigned char)peek(&s)) || !number(&s, &v->release[v->nrelease++]))
				return false;
		}
	} while (peek(&s) == '.' && s.end - s.p > 1 && isdigit((unsigned char)s.p[1]) && s.p++);
	return pre_release(&s, v) && post_release(&s, v) && dev_release(&s, v) && local_label(&s, v) && s.p == s.end;
}

static int order(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int compare_release(const struct cbx_version *a, const struct cbx_version *b)
{
	int r = order(a->epoch, b->epoch);

	for (unsigned i = 0; !r && i < CBX_RELEASE_MAX; i++) /* what is not given is 0 */
		r = order(a->release[i], b->release[i]);
	return r;
}

/* dev of nothing else < a < b < rc < none of them. */
static uint64_t pre_rank(const struct cbx_version *v)
{
	return v->pre ? (uint64_t)(v->pre - 'a') + 1 : v->dev && !v->post ? 0 : 9;
}

/* Part by part; numbers are above words, and more parts above fewer. */
static int compare_local(const char *a, const char *b)
{
	while (*a && *b) {
		size_t n = strcspn(a, "."), m = strcspn(b, ".");
		bool an = strspn(a, "0123456789") >= n, bn = strspn(b, "0123456789") >= m;
		int r;

		for (; an && bn && n > 1 && *a == '0'; a++)
			n--;
		for (; an && bn && m > 1 && *b == '0'; b++)
			m--;
		if (an != bn)
			return an ? 1 : -1;
		r = an ? order(n, m) : 0;
		if (!r)
			r = memcmp(a, b, n < m ? n : m);
		if (!r)
			r = order(n, m);
		if (r)
			return r < 0 ? -1 : 1;
		a += n + (a[n] == '.');
		b += m + (b[m] == '.');
	}
	return *a ? 1 : *b ? -1 : 0;
}

static int compare_public(const struct cbx_version *a, const struct cbx_version *b)
{
	int r = compare_release(a, b);

	if (!r)
		r = order(pre_rank(a), pre_rank(b));
	if (!r)
		r = order(a->pre_number, b->pre_number);
	if (!r)
		r = order(a->post ? a->post_number + 1 : 0, b->post ? b->post_number + 1 : 0);
	if (!r)
		r = order(a->dev ? a->dev_number : UINT64_MAX, b->dev ? b->dev_number : UINT64_MAX);
	return r;
}

int cbx_version_compare(const struct cbx_version *a, const struct cbx_version *b)
{
	int r = compare_public(a, b);

	return r ? r : compare_local(a->local, b->local);
}

/* ---- specifiers ---- */

enum operator{ OP_EQUAL, OP_NOT, OP_LESS, OP_MORE, OP_BELOW, OP_ABOVE, OP_COMPATIBLE, OP_SAME, OP_NONE };

struct specifier {
	enum operator op;
	bool wildcard;
	const char *text; /* of the version, without ".*" */
	size_t n;
	struct cbx_version version;
};

static const char *blanks(const char *p)
{
	return p + strspn(p, " \t");
}

/* The next of a list; *p behind it. False: it is not one. */
static bool next_specifier(const char **p, struct specifier *ret)
{
	static const struct {
		const char *text;
		enum operator op;
	} operators[] = { { "===", OP_SAME },  { "==", OP_EQUAL }, { "!=", OP_NOT },  { "<=", OP_LESS },
			  { ">=", OP_MORE },   { "~=", OP_COMPATIBLE }, { "<", OP_BELOW }, { ">", OP_ABOVE } };
	const char *s = blanks(*p);

	memset(ret, 0, sizeof(*ret));
	ret->op = OP_NONE;
	for (size_t i = 0; ret->op == OP_NONE && i < sizeof(operators) / sizeof(operators[0]); i++) {
		if (strncmp(s, operators[i].text, strlen(operators[i].text)) != 0)
			continue;
		ret->op = operators[i].op;
		s = blanks(s + strlen(operators[i].text));
	}
	ret->text = s;
	ret->n = strcspn(s, ", \t");
	*p = blanks(s + ret->n);
	if (ret->op == OP_NONE || !ret->n || ret->n >= CBX_VERSION_MAX || (**p && **p != ','))
		return false;
	if (**p == ',')
		++*p;
	if (ret->op == OP_SAME)
		return true;
	if ((ret->op == OP_EQUAL || ret->op == OP_NOT) && ret->n > 2 && memcmp(s + ret->n - 2, ".*", 2) == 0) {
		ret->wildcard = true;
		ret->n -= 2;
	}
	return cbx_version_parse(ret->text, ret->n, &ret->version) && (!ret->wildcard || !ret->version.local[0]) &&
	       (ret->op != OP_COMPATIBLE || ret->version.nrelease > 1) &&
	       (!ret->version.local[0] || ret->op == OP_EQUAL || ret->op == OP_NOT);
}

/* Whether v is of the series that w's first `n` numbers begin. */
static bool of_series(const struct cbx_version *v, const struct cbx_version *w, unsigned n)
{
	if (v->epoch != w->epoch)
		return false;
	for (unsigned i = 0; i < n; i++)
		if (v->release[i] != w->release[i])
			return false;
	return true;
}

static bool of_wildcard(const struct cbx_version *v, const struct cbx_version *w)
{
	if (!of_series(v, w, w->nrelease))
		return false;
	return !w->pre || (v->pre == w->pre && v->pre_number == w->pre_number);
}

static bool equals(const struct cbx_version *v, const struct specifier *s)
{
	if (s->wildcard)
		return of_wildcard(v, &s->version);
	return s->version.local[0] ? cbx_version_compare(v, &s->version) == 0 : compare_public(v, &s->version) == 0;
}

static bool holds(const struct specifier *s, const char *text, const struct cbx_version *v)
{
	const struct cbx_version *w = &s->version;
	bool same_release = compare_release(v, w) == 0;

	switch (s->op) {
	case OP_EQUAL:
		return equals(v, s);
	case OP_NOT:
		return !equals(v, s);
	case OP_LESS:
		return compare_public(v, w) <= 0;
	case OP_MORE:
		return compare_public(v, w) >= 0;
	case OP_BELOW: /* of a release itself: not its pre-releases */
		return compare_public(v, w) < 0 && !(same_release && (v->pre || v->dev) && !w->pre && !w->dev);
	case OP_ABOVE: /* nor its post-releases and local versions */
		return compare_public(v, w) > 0 && !(same_release && v->post && !w->post && v->pre == w->pre);
	case OP_COMPATIBLE:
		return compare_public(v, w) >= 0 && of_series(v, w, w->nrelease - 1);
	default:
		return s->n == strlen(text) && memcmp(s->text, text, s->n) == 0;
	}
}

bool cbx_specifiers_valid(const char *text)
{
	struct specifier s;

	if (strlen(text) >= CBX_SPECIFIERS_MAX)
		return false;
	for (text = blanks(text); *text;)
		if (!next_specifier(&text, &s))
			return false;
	return true;
}

bool cbx_specifiers_hold(const char *specifiers, const char *version)
{
	struct cbx_version v;
	struct specifier s;
	bool readable = cbx_version_parse(version, strlen(version), &v);

	for (specifiers = blanks(specifiers); *specifiers;)
		if (!next_specifier(&specifiers, &s) || (!readable && s.op != OP_SAME) || !holds(&s, version, &v))
			return false;
	return true;
}
