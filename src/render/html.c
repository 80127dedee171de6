/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: one pass over bytes that a sandbox made, without a tree: a tag changes what the next text is put
 * into, and how. White space is owed rather than written, so a run of it is one space, and none begins a line. A row of
 * a table is written when it ends; its width, and the cells that span rows, are numbers within bounds. What is not
 * closed ends with the input. A tag whose quote is never closed ends at its first '>'; there is no other second look, so
 * the time is linear.
 */
#include "render/render.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/str.h"

#define COLUMNS_MAX 64	 /* of a table; cells beyond are omitted */
#define CELL_MAX    1000 /* bytes of a cell */
#define SPAN_MAX    1000
#define NAME_LEN    10 /* of the longest tag that means something here */

enum kind {
	INLINE, /* as if it were not there */
	BLOCK,	/* begins and ends a line */
	SKIP,	/* with all that is in it */
	HEADING, ITEM, BREAK, RULE, PRE, IMAGE, TABLE, ROW, CELL, CAPTION,
};

static const struct {
	char name[NAME_LEN + 1];
	enum kind kind;
} tags[] = {
	{ "address", BLOCK }, { "article", BLOCK }, { "aside", BLOCK }, { "blockquote", BLOCK }, { "body", BLOCK },
	{ "center", BLOCK }, { "dd", BLOCK }, { "desc", BLOCK }, { "details", BLOCK }, { "div", BLOCK }, { "dl", BLOCK },
	{ "dt", BLOCK }, { "figcaption", BLOCK }, { "figure", BLOCK }, { "footer", BLOCK }, { "form", BLOCK },
	{ "header", BLOCK }, { "main", BLOCK }, { "nav", BLOCK }, { "ol", BLOCK }, { "option", BLOCK }, { "p", BLOCK },
	{ "section", BLOCK }, { "summary", BLOCK }, { "text", BLOCK }, { "title", BLOCK }, { "ul", BLOCK },
	{ "script", SKIP }, { "style", SKIP }, { "template", SKIP }, { "metadata", SKIP },
	{ "h1", HEADING }, { "h2", HEADING }, { "h3", HEADING }, { "h4", HEADING }, { "h5", HEADING }, { "h6", HEADING },
	{ "li", ITEM }, { "br", BREAK }, { "hr", RULE }, { "pre", PRE }, { "img", IMAGE },
	{ "table", TABLE }, { "tr", ROW }, { "td", CELL }, { "th", CELL }, { "caption", CAPTION },
};

static const struct {
	const char *name, *text;
} entities[] = {
	{ "amp", "&" }, { "lt", "<" }, { "gt", ">" }, { "quot", "\"" }, { "apos", "'" }, { "nbsp", " " },
	{ "ndash", "\xe2\x80\x93" }, { "mdash", "\xe2\x80\x94" }, { "hellip", "\xe2\x80\xa6" },
	{ "lsquo", "\xe2\x80\x98" }, { "rsquo", "\xe2\x80\x99" }, { "ldquo", "\xe2\x80\x9c" },
	{ "rdquo", "\xe2\x80\x9d" }, { "bull", "\xe2\x80\xa2" }, { "middot", "\xc2\xb7" }, { "times", "\xc3\x97" },
	{ "deg", "\xc2\xb0" }, { "plusmn", "\xc2\xb1" }, { "micro", "\xc2\xb5" }, { "copy", "\xc2\xa9" },
	{ "reg", "\xc2\xae" }, { "euro", "\xe2\x82\xac" }, { "larr", "\xe2\x86\x90" }, { "rarr", "\xe2\x86\x92" },
	{ "le", "\xe2\x89\xa4" }, { "ge", "\xe2\x89\xa5" }, { "ne", "\xe2\x89\xa0" }, { "minus", "\xe2\x88\x92" },
	{ "sum", "\xe2\x88\x91" }, { "infin", "\xe2\x88\x9e" }, { "alpha", "\xce\xb1" }, { "beta", "\xce\xb2" },
	{ "mu", "\xce\xbc" }, { "sigma", "\xcf\x83" }, { "pi", "\xcf\x80" }, { "auml", "\xc3\xa4" },
	{ "ouml", "\xc3\xb6" }, { "uuml", "\xc3\xbc" }, { "szlig", "\xc3\x9f" }, { "eacute", "\xc3\xa9" },
};

struct span {
	const char *p, *end;
};

struct page {
	struct cbx_buf *out;
	size_t from, max; /* out began there, and may grow so far */
	bool owed;	  /* a space, before the next word */
	bool loose;	  /* a quote without an end was met */
	unsigned pre, tables;
	bool in_cell, in_row, in_caption, ruled; /* ruled: the line below the table's first row is there */
	size_t columns;				 /* of this row so far */
	unsigned spans[COLUMNS_MAX];		 /* rows that the cell above still fills */
	struct cbx_buf cell;
	size_t width; /* columns that the cell fills */
	unsigned height;
};

/* ---- text ---- */

static struct cbx_buf *target(struct page *g)
{
	return g->in_cell ? &g->cell : g->out;
}

static bool line_begins(const struct page *g, const struct cbx_buf *b)
{
	return b->len == (b == g->out ? g->from : 0) || b->data[b->len - 1] == '\n';
}

static void new_line(struct page *g)
{
	struct cbx_buf *b = target(g);

	if (g->in_cell) {
		g->owed = true; /* a cell is one line */
		return;
	}
	if (!g->in_row && !line_begins(g, b))
		cbx_buf_addc(b, '\n');
	g->owed = false;
}

static void put(struct page *g, const char *p, size_t n)
{
	struct cbx_buf *b = target(g);

	if (g->tables && !g->in_cell && !g->in_caption)
		return; /* between cells */
	if (g->in_cell && b->len + n > CELL_MAX)
		return;
	if (g->owed && !line_begins(g, b) && b->data[b->len - 1] != ' ')
		cbx_buf_addc(b, ' ');
	g->owed = false;
	if (g->in_cell && *p == '|')
		cbx_buf_addc(b, '\\');
	cbx_buf_add(b, p, n);
}

/* One character, which may be white space. */
static void put_char(struct page *g, const char *p, size_t n)
{
	unsigned char c = (unsigned char)*p;

	if (g->pre && !g->tables && (c == '\n' || c == ' '))
		cbx_buf_addc(g->out, *p);
	else if (c <= ' ')
		g->owed = true;
	else if (c == 0x7f || (c == 0xc2 && n == 2 && (unsigned char)p[1] < 0xa0))
		put(g, "\xef\xbf\xbd", 3);
	else
		put(g, p, n);
}

static void put_code(struct page *g, uint32_t c)
{
	char u[4];

	if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) || (c < 0x20 && c != '\t' && c != '\n'))
		c = 0xfffd;
	put_char(g, u, cbx_utf8_put(u, c));
}

/* &#123; &#x7b; at p, behind "&#". Returns what follows, or NULL: it is not one. */
static const char *numeric(struct page *g, const char *p, const char *end)
{
	bool hex = p < end && (*p == 'x' || *p == 'X');
	uint32_t c = 0;
	const char *digits;

	p += hex;
	for (digits = p; p < end && p - digits < 8; p++) {
		unsigned d = (unsigned char)*p;

		d = d >= '0' && d <= '9' ? d - '0' : hex && (d | 32) >= 'a' && (d | 32) <= 'f' ? (d | 32) - 'a' + 10 : 99;
		if (d == 99)
			break;
		c = c > 0x10ffff ? c : c * (hex ? 16 : 10) + d;
	}
	if (p == digits || p == end || *p != ';')
		return NULL;
	put_code(g, c);
	return p + 1;
}

/* p is at '&'; returns what follows the entity, or the '&' that is none. */
static const char *entity(struct page *g, const char *p, const char *end)
{
	const char *q = p + 1;

	if (q < end && *q == '#') {
		q = numeric(g, q + 1, end);
		if (q)
			return q;
	} else {
		for (size_t i = 0; i < ARRAY_SIZE(entities); i++) {
			size_t n = strlen(entities[i].name);

			if ((size_t)(end - q) > n && q[n] == ';' && memcmp(q, entities[i].name, n) == 0) {
				put_char(g, entities[i].text, strlen(entities[i].text));
				return q + n + 1;
			}
		}
	}
	put(g, "&", 1);
	return p + 1;
}

/* Returns where it has stopped: at the end, or where there is enough. */
static const char *text(struct page *g, const char *p, const char *end)
{
	while (p < end && g->out->len - g->from <= g->max) {
		size_t n = cbx_utf8_len(p, (size_t)(end - p));

		if (*p == '&') {
			p = entity(g, p, end);
		} else if (!n) {
			put(g, "\xef\xbf\xbd", 3);
			p++;
		} else {
			put_char(g, p, n);
			p += n;
		}
	}
	return p;
}

/* ---- tables ---- */

static void empty_cell(struct page *g)
{
	cbx_buf_adds(g->out, g->columns++ ? "  |" : "|  |");
}

/* Those of the rows above that reach down into this column. */
static void fill_spans(struct page *g)
{
	while (g->columns < COLUMNS_MAX && g->spans[g->columns]) {
		g->spans[g->columns]--;
		empty_cell(g);
	}
}

static void end_cell(struct page *g)
{
	if (!g->in_cell)
		return;
	g->in_cell = g->owed = false;
	fill_spans(g);
	for (size_t i = 0; i < g->width && g->columns < COLUMNS_MAX; i++) {
		g->spans[g->columns] = g->height - 1;
		if (i > 0) {
			empty_cell(g);
			continue;
		}
		cbx_buf_adds(g->out, g->columns++ ? " " : "| ");
		cbx_buf_add(g->out, cbx_buf_str(&g->cell), g->cell.len);
		cbx_buf_adds(g->out, " |");
	}
	g->cell.len = 0;
}

static void end_row(struct page *g)
{
	end_cell(g);
	if (!g->in_row)
		return;
	g->in_row = false;
	if (g->columns)
		fill_spans(g);
	if (g->columns)
		cbx_buf_addc(g->out, '\n');
	if (g->columns && !g->ruled) {
		for (size_t i = 0; i < g->columns; i++)
			cbx_buf_adds(g->out, i ? "---|" : "|---|");
		cbx_buf_addc(g->out, '\n');
		g->ruled = true;
	}
}

static void begin_row(struct page *g)
{
	end_row(g);
	g->in_caption = false;
	new_line(g);
	g->in_row = true;
	g->columns = 0;
}

/* What a table within a cell says is part of the cell. */
static void table(struct page *g, bool close)
{
	if (!close) {
		if (g->tables++ == 0) {
			new_line(g);
			g->ruled = false;
			memset(g->spans, 0, sizeof(g->spans));
		}
	} else if (g->tables && --g->tables == 0) {
		end_row(g);
		g->in_caption = false;
		new_line(g);
	}
}

/* ---- tags ---- */

/* The value of an attribute in what is between a tag's name and its '>'. */
static struct span attribute(struct span in, const char *name)
{
	const char *p = in.p;

	while (p < in.end) {
		struct span key, value = { 0 };

		p += strspn(p, " \t\r\n\f/");
		for (key.p = p; p < in.end && !strchr("= \t\r\n\f/", *p); p++)
			;
		key.end = p;
		if (p < in.end && *p == '=') {
			char quote = p + 1 < in.end && (p[1] == '"' || p[1] == '\'') ? p[1] : 0;

			p += quote ? 2 : 1;
			for (value.p = p; p < in.end && (quote ? *p != quote : !strchr(" \t\r\n\f", *p)); p++)
				;
			value.end = p;
			p += quote && p < in.end;
		}
		if ((size_t)(key.end - key.p) == strlen(name) && strncasecmp(key.p, name, strlen(name)) == 0)
			return value;
		if (p == key.p)
			p++;
	}
	return (struct span){ 0 };
}

static unsigned span_of(struct span attributes, const char *name, unsigned max)
{
	struct span v = attribute(attributes, name);
	unsigned n = 0;

	for (; v.p && v.p < v.end && *v.p >= '0' && *v.p <= '9' && n < SPAN_MAX; v.p++)
		n = n * 10 + (unsigned)(*v.p - '0');
	return n < 1 ? 1 : n > max ? max : n;
}

static void cell(struct page *g, bool close, struct span attributes)
{
	if (g->tables != 1) {
		g->owed = true;
		return;
	}
	end_cell(g);
	if (close)
		return;
	if (!g->in_row)
		begin_row(g);
	g->in_cell = true;
	g->owed = false;
	g->width = span_of(attributes, "colspan", COLUMNS_MAX);
	g->height = span_of(attributes, "rowspan", SPAN_MAX);
}

static void image(struct page *g, struct span attributes)
{
	struct span alt = attribute(attributes, "alt");

	if (!alt.p || alt.p == alt.end)
		return;
	put(g, "[image: ", 8);
	text(g, alt.p, alt.end);
	put(g, "]", 1);
}

static void apply(struct page *g, enum kind kind, char digit, bool close, struct span attributes)
{
	switch (kind) {
	case BLOCK:
	case BREAK:
		new_line(g);
		break;
	case HEADING:
		new_line(g);
		if (!close && !g->tables) {
			cbx_buf_add(g->out, "######", (size_t)(digit - '0'));
			g->owed = true;
		}
		break;
	case ITEM:
		new_line(g);
		if (!close && !g->tables)
			cbx_buf_adds(g->out, "- ");
		break;
	case RULE:
		new_line(g);
		if (!g->tables)
			cbx_buf_adds(g->out, "---\n");
		break;
	case PRE:
		new_line(g);
		g->pre = close ? g->pre - (g->pre > 0) : g->pre + 1;
		break;
	case IMAGE:
		image(g, attributes);
		break;
	case TABLE:
		table(g, close);
		break;
	case ROW:
		if (g->tables == 1)
			close ? end_row(g) : begin_row(g);
		break;
	case CELL:
		cell(g, close, attributes);
		break;
	case CAPTION:
		g->in_caption = !close && g->tables == 1 && !g->in_row;
		if (!g->in_cell)
			new_line(g);
		break;
	case INLINE:
	case SKIP:
		break;
	}
}

/* The '>' that ends a tag, which is not one within quotes; NULL: there is none. Where a quote has no end, those before it
 * may have been none either: from then on they do not count, and are not looked for again. */
static const char *tag_end(struct page *g, const char *p, const char *end)
{
	const char *q = p;

	while (q < end && *q != '>') {
		if (!g->loose && (*q == '"' || *q == '\'')) {
			q = memchr(q + 1, *q, (size_t)(end - q - 1));
			if (!q) {
				g->loose = true;
				return memchr(p, '>', (size_t)(end - p));
			}
		}
		q++;
	}
	return q < end ? q : NULL;
}

/* What follows "</name", or the end. */
static const char *skip_element(const char *p, const char *end, const char *name)
{
	size_t n = strlen(name);

	while ((p = memchr(p, '<', (size_t)(end - p)))) {
		if ((size_t)(end - p) > n + 1 && p[1] == '/' && strncasecmp(p + 2, name, n) == 0)
			return p;
		p++;
	}
	return end;
}

/* p is at '<' and a tag begins there; returns what follows it. */
static const char *tag(struct page *g, const char *p, const char *end)
{
	bool close = p[1] == '/';
	char name[NAME_LEN + 1] = "";
	const char *gt, *q = p + 1 + close;
	size_t n = 0;

	if (end - p >= 4 && memcmp(p, "<!--", 4) == 0) {
		q = memmem(p + 4, (size_t)(end - p - 4), "-->", 3);
		return q ? q + 3 : end;
	}
	gt = tag_end(g, p + 1, end);
	if (!gt)
		return end;
	while (q + n < gt && n < NAME_LEN && !strchr(" \t\r\n\f/", q[n])) {
		name[n] = (char)(q[n] >= 'A' && q[n] <= 'Z' ? q[n] | 32 : q[n]);
		n++;
	}
	if (q + n < gt && !strchr(" \t\r\n\f/", q[n]))
		return gt + 1; /* longer than any that means something */
	for (size_t i = 0; i < ARRAY_SIZE(tags); i++) {
		if (strcmp(tags[i].name, name) != 0)
			continue;
		if (tags[i].kind == SKIP)
			return close ? gt + 1 : skip_element(gt + 1, end, name);
		apply(g, tags[i].kind, name[n - 1], close, (struct span){ q + n, gt });
	}
	return gt + 1;
}

void cbx_render_html(struct cbx_buf *out, const char *html, size_t n, size_t max)
{
	_cleanup_free_ char *copy = memcpy(cbx_xcalloc(1, n + 1), html, n);
	struct page g = { .out = out, .from = out->len, .max = max };
	const char *p = copy, *end = copy + n;

	while (p < end && out->len - g.from <= max) {
		const char *lt = memchr(p, '<', (size_t)(end - p));

		if (lt != p) {
			p = text(&g, p, lt ? lt : end);
		} else if (end - p > 1 && (((p[1] | 32) >= 'a' && (p[1] | 32) <= 'z') || strchr("/!?", p[1]))) {
			p = tag(&g, p, end);
		} else {
			put(&g, "<", 1);
			p++;
		}
	}
	g.tables = g.tables > 0;
	table(&g, true);
	cbx_buf_release(&g.cell);
	while (out->len > g.from && (out->data[out->len - 1] == '\n' || out->data[out->len - 1] == ' '))
		out->data[--out->len] = '\0';
	if (p < end)
		cbx_buf_adds(out, "\n[... the rest is omitted ...]");
}
