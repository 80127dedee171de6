/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: one pass over the text. Comments become a space in what is handed on (the end of a
 * line between two strings that PostgreSQL joins), so that neither the driver nor the database has to find them again;
 * strings and names in quotes are handed on as they are. What a database or a driver may read in another way than this
 * file does is refused by a rule of its own: comments that are executed, characters that some take for white space,
 * numbers with words right behind them, braces (escapes of ODBC).
 *
 * The statement is read with what connect.c sets: PostgreSQL has standard strings, MySQL has backslashes and quotes as
 * by default. DuckDB reads as PostgreSQL does, and has braces.
 */
#include "sql/judge.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "sql/words.h"

#define NAME_MAX_BYTES 200

struct judge {
	enum cbx_dialect dialect;
	const char *p, *end;
	struct cbx_buf *out;
	size_t parameters;
	bool began;			 /* a word was seen */
	bool over;			 /* a semicolon was */
	bool period, period_before;	 /* this token is a period, the one before was */
	bool string_before;		 /* the token before was a string in single quotes */
	bool escapes_before;		 /* and has backslashes (PostgreSQL) */
	bool joins;  /* what was skipped last joins strings: it has a line's end, and no block comment */
	bool joined; /* this token continues the string before */
	char before[NAME_MAX_BYTES + 1]; /* the word before, or "" */
	struct cbx_err *err;
};

static __attribute__((format(printf, 3, 4))) int refuse(struct judge *j, const char *rule, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return cbx_refuse(j->err, "query_refused", EINVAL, "%s (rule %s)", text, rule);
}

static bool like_postgresql(const struct judge *j)
{
	return j->dialect == CBX_SQL_POSTGRESQL || j->dialect == CBX_SQL_DUCKDB;
}

static bool space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

static bool starts_word(char c)
{
	return isalpha((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static bool in_word(const struct judge *j, char c)
{
	return starts_word(c) || isdigit((unsigned char)c) || c == '$' || (j->dialect == CBX_SQL_SQLSERVER && c == '#');
}

static char at(const struct judge *j, size_t i)
{
	return (size_t)(j->end - j->p) > i ? j->p[i] : '\0';
}

/* ---- comments ---- */

static bool line_comment(const struct judge *j)
{
	if (at(j, 0) == '#')
		return j->dialect == CBX_SQL_MYSQL;
	if (at(j, 0) != '-' || at(j, 1) != '-')
		return false;
	/* "1--1" is a difference for MySQL. */
	return j->dialect != CBX_SQL_MYSQL || j->end - j->p == 2 || space(at(j, 2));
}

static int block_comment(struct judge *j)
{
	bool nests = like_postgresql(j) || j->dialect == CBX_SQL_SQLSERVER;
	size_t depth = 0;

	if (j->dialect == CBX_SQL_MYSQL &&
	    (at(j, 2) == '!' || ((at(j, 2) == 'M' || at(j, 2) == 'm') && at(j, 3) == '!')))
		return refuse(j, "executed_comment", "a comment that begins with /*! is executed; omit it");
	do {
		if (at(j, 0) == '/' && at(j, 1) == '*' && (nests || !depth)) {
			depth++;
			j->p += 2;
		} else if (at(j, 0) == '*' && at(j, 1) == '/') {
			depth--;
			j->p += 2;
		} else if (j->p < j->end) {
			j->p++;
		} else {
			return refuse(j, "unfinished", "a comment has no end");
		}
	} while (depth);
	return 0;
}

/* Go behind white space and comments. 1: there were some. */
static int skip(struct judge *j)
{
	const char *from = j->p;
	bool line = false, block = false;
	int r;

	for (;;) {
		if (j->p < j->end && space(*j->p)) {
			line |= *j->p == '\n' || *j->p == '\r';
			j->p++;
		} else if (j->p < j->end && line_comment(j)) {
			while (j->p < j->end && *j->p != '\n' && *j->p != '\r')
				j->p++;
		} else if (at(j, 0) == '/' && at(j, 1) == '*') {
			r = block_comment(j);
			if (r < 0)
				return r;
			block = true;
		} else {
			j->joins = line && !block;
			return j->p > from;
		}
	}
}

/* ---- strings and names in quotes ---- */

/* From an opening quote to behind the closing one. */
static int quoted(struct judge *j, char close, bool doubles, bool backslashes)
{
	for (j->p++; j->p < j->end; j->p++) {
		if (backslashes && *j->p == '\\' && j->p + 1 < j->end) {
			j->p++;
		} else if (*j->p == close) {
			if (!doubles || at(j, 1) != close) {
				j->p++;
				return 0;
			}
			j->p++;
		}
	}
	return refuse(j, "unfinished", "a string or a name in quotes has no end");
}

/* $tag$ … $tag$ of PostgreSQL. 1: it was one. */
static int dollar_quoted(struct judge *j)
{
	size_t n = 1, left = (size_t)(j->end - j->p);
	const char *close;

	while (n < left && (starts_word(j->p[n]) || (n > 1 && isdigit((unsigned char)j->p[n]))))
		n++;
	if (n >= left || j->p[n] != '$')
		return 0;
	n++;
	close = memmem(j->p + n, left - n, j->p, n);
	if (!close)
		return refuse(j, "unfinished", "a string that begins with %.*s has no end", (int)(n > 40 ? 40 : n),
			      j->p);
	j->p = close + n;
	return 1;
}

/* ---- words ---- */

/* What follows, without moving there. */
static int peek(struct judge *j, char *ret)
{
	const char *here = j->p;
	bool joins = j->joins;
	int r = skip(j);

	*ret = r < 0 || j->p == j->end ? '\0' : *j->p;
	j->p = here;
	j->joins = joins;
	return r;
}

static int check_word(struct judge *j, const char *from, size_t n, bool in_quotes)
{
	char text[NAME_MAX_BYTES + 1];
	struct cbx_sql_word w = { .text = text, .quoted = in_quotes, .member = j->period_before,
				  .before = j->before };
	const char *rule;
	int r = peek(j, &w.next);

	if (r < 0)
		return r;
	if (n > NAME_MAX_BYTES)
		return refuse(j, "name", "a name has more than %d bytes", NAME_MAX_BYTES);
	for (size_t i = 0; i < n; i++)
		text[i] = (char)tolower((unsigned char)from[i]);
	text[n] = '\0';
	if (!j->began && (in_quotes || (strcmp(text, "select") != 0 && strcmp(text, "with") != 0)))
		return refuse(
			j, "not_a_query",
			"the query must start with SELECT or WITH; found: \"%.60s\"; only read queries are allowed",
			text);
	rule = cbx_sql_word_refused(j->dialect, &w);
	if (rule)
		return refuse(j, rule, "blocked %s \"%.60s\" found in the query; only queries that read are allowed%s",
			      strcmp(rule, "function") == 0 || strcmp(rule, "procedure") == 0 ? rule : "keyword", text,
			      strcmp(rule, "keyword") == 0 ? "; put the name of a column in quotes" : "");
	snprintf(j->before, sizeof(j->before), "%s", in_quotes ? "" : text);
	j->began = true;
	return 0;
}

static int word(struct judge *j)
{
	const char *from = j->p;

	while (j->p < j->end && in_word(j, *j->p))
		j->p++;
	return check_word(j, from, (size_t)(j->p - from), false);
}

/* A name in quotes: inside, a doubled quote is one. */
static int name(struct judge *j, char close, bool doubles)
{
	const char *from = j->p + 1;
	int r = quoted(j, close, doubles, false);

	return r < 0 ? r : check_word(j, from, (size_t)(j->p - 1 - from), true);
}

static int number(struct judge *j)
{
	const char *from;

	if (at(j, 0) == '0' && (at(j, 1) == 'x' || at(j, 1) == 'X')) {
		j->p += 2;
		while (isxdigit((unsigned char)at(j, 0)))
			j->p++;
	} else {
		while (isdigit((unsigned char)at(j, 0)) || at(j, 0) == '.')
			j->p++;
		from = j->p;
		if (at(j, 0) == 'e' || at(j, 0) == 'E') {
			j->p += 1 + (at(j, 1) == '+' || at(j, 1) == '-');
			if (!isdigit((unsigned char)at(j, 0)))
				j->p = from;
			while (j->p > from && isdigit((unsigned char)at(j, 0)))
				j->p++;
		}
	}
	if (j->p < j->end && in_word(j, *j->p))
		return refuse(j, "number", "a number has a word right behind it; put a space between");
	return 0;
}

/* ---- tokens ---- */

/* A sign of a currency that begins at p: for SQL Server an amount of money, which a word may follow at once. */
static bool currency(const char *p, size_t left)
{
	/* From the first to the last of a range, as UTF-8. */
	static const char *const signs[][2] = {
		{ "\xc2\xa2", "\xc2\xa5" }, { "\xe0\xa7\xb2", "\xe0\xa7\xb3" },
		{ "\xe0\xb8\xbf", "\xe0\xb8\xbf" }, { "\xe1\x9f\x9b", "\xe1\x9f\x9b" },
		{ "\xe2\x82\xa0", "\xe2\x83\x8f" }, { "\xef\xb7\xbc", "\xef\xb7\xbc" },
		{ "\xef\xb9\xa9", "\xef\xb9\xa9" }, { "\xef\xbc\x84", "\xef\xbc\x84" },
		{ "\xef\xbf\xa0", "\xef\xbf\xa1" }, { "\xef\xbf\xa5", "\xef\xbf\xa6" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(signs); i++) {
		size_t n = strlen(signs[i][0]);

		if (left >= n && memcmp(p, signs[i][0], n) >= 0 && memcmp(p, signs[i][1], n) <= 0)
			return true;
	}
	return false;
}

static int check_character(struct judge *j)
{
	/* Characters beyond ASCII that some databases take for white space, or show as nothing. */
	static const char *const odd[] = { "\xc2\x85",	   "\xc2\xa0",	   "\xe1\x9a\x80", "\xe1\xa0\x8e",
					   "\xe3\x80\x80", "\xef\xbb\xbf", "\xe2\x80\xa8", "\xe2\x80\xa9",
					   "\xe2\x80\xaf", "\xe2\x81\x9f" };
	size_t left = (size_t)(j->end - j->p);

	for (size_t i = 0; i < ARRAY_SIZE(odd); i++)
		if (left >= strlen(odd[i]) && memcmp(j->p, odd[i], strlen(odd[i])) == 0)
			return refuse(j, "character",
				      "a space that is not of ASCII is outside of quotes; use an ordinary one");
	if (left >= 3 && memcmp(j->p, "\xe2\x80", 2) == 0 && (unsigned char)j->p[2] < 0x90)
		return refuse(j, "character", "a space that is not of ASCII is outside of quotes; use an ordinary one");
	if ((unsigned char)*j->p < 0x20 || *j->p == 0x7f)
		return refuse(j, "character", "a control character is outside of quotes");
	if (j->dialect == CBX_SQL_SQLSERVER && currency(j->p, left))
		return refuse(j, "character", "a sign of a currency is outside of quotes; write a number");
	return 0;
}

static int all_characters(struct judge *j)
{
	const char *p = j->p;
	int r = 0;

	/* Inside of words, too, which the loop over tokens takes whole. */
	while (r >= 0 && j->p < j->end && in_word(j, *j->p)) {
		r = check_character(j);
		j->p++;
	}
	j->p = p;
	return r;
}

/* A string that begins here, behind its prefix if it has one. 1: it was one. PostgreSQL joins strings on several lines,
 * and the first one's rule is then that of all. */
static int string(struct judge *j, bool escapes, bool prefix)
{
	bool mysql = j->dialect == CBX_SQL_MYSQL;
	char c = at(j, 0);
	int r;

	if (c != '\'' && !(mysql && c == '"'))
		return 0;
	j->joined = like_postgresql(j) && j->string_before && j->joins && !prefix;
	if (j->joined)
		escapes = j->escapes_before;
	r = quoted(j, c, true, escapes || mysql);
	j->string_before = true;
	j->escapes_before = escapes;
	return r < 0 ? r : 1;
}

/* PostgreSQL's E'…' and U&"…". 1: it was a string. */
static int prefixed(struct judge *j)
{
	char c = at(j, 0);

	if (!like_postgresql(j))
		return 0;
	if ((c == 'e' || c == 'E') && at(j, 1) == '\'') {
		j->p++;
		return string(j, true, true);
	}
	if ((c == 'u' || c == 'U') && at(j, 1) == '&' && at(j, 2) == '"')
		return refuse(j, "name",
			      "a name with escapes (U&\"…\") cannot be judged; write the characters themselves");
	return 0;
}

static int mark(struct judge *j)
{
	char c = *j->p;

	if (c == '?')
		j->parameters++;
	if ((c == '{' || c == '}') && j->dialect != CBX_SQL_DUCKDB)
		return refuse(j, "brace", "braces outside of quotes are escapes of ODBC; omit them");
	if (c == ':' && at(j, 1) == '=')
		return refuse(j, "assignment", "variables cannot be assigned");
	if (c == '$' && isdigit((unsigned char)at(j, 1)))
		return refuse(j, "parameter", "write parameters as ?");
	/* A variable of SQLite, as @a(...), would take what follows up to a parenthesis. */
	if (j->dialect == CBX_SQL_SQLITE && strchr("$@:#", c))
		return refuse(j, "parameter", "write parameters as ?");
	if (!j->began)
		return refuse(j, "not_a_query",
			      "the query must start with SELECT or WITH; found: \"%c\"; only read queries are allowed",
			      c);
	j->period = c == '.';
	j->p++;
	j->before[0] = '\0';
	return 0;
}

static int token(struct judge *j)
{
	int r = check_character(j);

	j->period_before = j->period;
	j->period = false;
	if (r >= 0)
		r = all_characters(j);
	if (r >= 0)
		r = prefixed(j);
	if (r == 0)
		r = string(j, false, false);
	if (r == 0)
		j->string_before = j->escapes_before = false;
	if (r == 0 && *j->p == '$' && like_postgresql(j))
		r = dollar_quoted(j);
	if (r != 0) {
		j->before[0] = '\0';
		if (r > 0 && !j->began)
			return refuse(j, "not_a_query", "the query must start with SELECT or WITH; found: a string");
		return r < 0 ? r : 0;
	}
	if (starts_word(*j->p))
		return word(j);
	if (isdigit((unsigned char)*j->p) && !j->began)
		return refuse(j, "not_a_query", "the query must start with SELECT or WITH; found: a number");
	if (isdigit((unsigned char)*j->p)) {
		j->before[0] = '\0';
		return number(j);
	}
	if (*j->p == '"')
		return name(j, '"', true);
	if (*j->p == '`' && !like_postgresql(j))
		return name(j, '`', true);
	if (*j->p == '[' && (j->dialect == CBX_SQL_SQLSERVER || j->dialect == CBX_SQL_SQLITE))
		return name(j, ']', j->dialect == CBX_SQL_SQLSERVER);
	return mark(j);
}

/* For MySQL two dashes before a blank begin a comment, and a comment becomes a blank here. That would hide what was judged,
 * such as the beginning of a string, and have the rest of the string read as code. */
static bool hides(const struct judge *j)
{
	const struct cbx_buf *out = j->out;

	return j->dialect == CBX_SQL_MYSQL && out->len > 1 && memcmp(out->data + out->len - 2, "--", 2) == 0;
}

static int judge(struct judge *j)
{
	bool gap = false;
	int r;

	for (;;) {
		const char *from;

		r = skip(j);
		if (r < 0)
			return r;
		gap |= r && j->out->len;
		if ((gap || j->p == j->end) && hides(j))
			return refuse(j, "comment", "two dashes would begin a comment here; write a space between them");
		if (j->p == j->end)
			return 0;
		if (*j->p == ';') {
			j->over = j->began;
			j->p++;
			continue;
		}
		if (j->over)
			return refuse(
				j, "one_statement",
				"multiple statements detected (semicolons); only single SELECT queries are allowed");
		from = j->p;
		j->joined = false;
		r = token(j);
		if (r < 0)
			return r;
		if (gap)
			cbx_buf_addc(j->out, j->joined ? '\n' : ' ');
		gap = !j->out->len; /* drivers look for "SELECT " */
		if (*from == '?' && j->dialect == CBX_SQL_POSTGRESQL) /* a digit behind it is not of its number */
			cbx_buf_addf(j->out, "$%zu ", j->parameters);
		else
			cbx_buf_add(j->out, from, (size_t)(j->p - from));
	}
}

int cbx_sql_judge(enum cbx_dialect dialect, const char *sql, size_t n, struct cbx_buf *ret_text, size_t *ret_parameters,
		  struct cbx_err *err)
{
	struct judge j = { .dialect = dialect, .p = sql, .end = sql + n, .out = ret_text, .err = err };
	int r;

	ret_text->len = 0;
	if (n > CBX_SQL_TEXT_MAX)
		return refuse(&j, "length", "the query has more than %zu bytes", (size_t)CBX_SQL_TEXT_MAX);
	if (memchr(sql, '\0', n) || !cbx_utf8_valid(sql, n))
		return refuse(&j, "character", "the query is not text");
	if (!n || strspn(sql, " \t\r\n") >= n)
		return refuse(&j, "empty", "the query is empty");
	r = judge(&j);
	if (r < 0)
		return r;
	if (!j.began)
		return refuse(&j, "empty", "the query is empty after removing comments");
	*ret_parameters = j.parameters;
	return 0;
}
