/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a script is the code of the cells of the session's own language, one after another, each below a
 * comment with its number, which editors take for the start of a cell. Run in a fresh session it prints what the cells
 * printed. A cell that failed, or was stopped, is there as a comment, since it would end the script.
 *
 * Python says what a script of it lacks beside a cell: the value of a last expression is handed to sys.displayhook(),
 * which prints it, where the cell showed one; a cell with magics, or with await outside of a function, is handed to
 * IPython as a text; one of Bash to bash. To know where the last expression begins, the code is read as far as strings,
 * brackets and comments go; where that does not come out, the cell is handed over as a text, too.
 */
#include <ctype.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/export.h"

static bool is_python(const char *language)
{
	return strcmp(language, "python") == 0;
}

static const char *comment_of(const char *language)
{
	return strcmp(language, "javascript") == 0 || strcmp(language, "typescript") == 0 ? "//" : "#";
}

static void add_lines(struct cbx_buf *out, const char *text)
{
	cbx_buf_adds(out, text);
	if (*text && text[strlen(text) - 1] != '\n')
		cbx_buf_addc(out, '\n');
}

/* Length of what ends a line in some language: a comment must not end sooner than what it hides. */
static size_t line_end(const char *p)
{
	if (cbx_starts_with(p, "\r\n"))
		return 2;
	if (*p == '\n' || *p == '\r')
		return 1;
	return cbx_starts_with(p, "\xe2\x80\xa8") || cbx_starts_with(p, "\xe2\x80\xa9") ? 3 : 0;
}

/* Each line of a text as a comment. */
static void add_comment(struct cbx_buf *out, const char *comment, const char *text)
{
	while (*text) {
		cbx_buf_addf(out, "%s ", comment);
		while (*text && !line_end(text))
			cbx_buf_addc(out, *text++);
		cbx_buf_addc(out, '\n');
		text += line_end(text);
	}
}

/* ---- Python ---- */

/* Where a string literal ends, behind its last quote; NULL: it does not. */
static const char *skip_string(const char *p)
{
	char quote = *p;
	bool triple = p[1] == quote && p[2] == quote;

	for (p += triple ? 3 : 1; *p; p++) {
		if (*p == '\\' && p[1])
			p++;
		else if (*p == '\n' && !triple)
			return NULL;
		else if (*p == quote && (!triple || (p[1] == quote && p[2] == quote)))
			return p + (triple ? 3 : 1);
	}
	return NULL;
}

/* The last statement of the code that is not in a block: from *ret to *ret_end. False: that is not known. */
static bool last_statement(const char *code, const char **ret, const char **ret_end)
{
	const char *p = code;
	bool begins = true;
	int depth = 0;

	*ret = *ret_end = NULL;
	while (*p) {
		if (*p == '\n' || *p == ';') {
			begins = begins || depth == 0;
			p++;
		} else if (isspace((unsigned char)*p)) {
			p++;
		} else if (*p == '#') {
			p += strcspn(p, "\n");
		} else if (*p == '\\' && p[1] == '\n') {
			p += 2;
		} else {
			if (begins)
				*ret = p;
			begins = false;
			depth += (strchr("([{", *p) != NULL) - (strchr(")]}", *p) != NULL);
			p = *p == '"' || *p == '\'' ? skip_string(p) : p + 1;
			if (!p || depth < 0)
				return false;
			*ret_end = p;
		}
	}
	p = *ret; /* not in a block: at the start of a line, or behind a semicolon */
	while (p && p > code && (p[-1] == ' ' || p[-1] == '\t'))
		p--;
	return depth == 0 && p && (p == *ret || p[-1] == ';') && (p == code || p[-1] == '\n' || p[-1] == ';');
}

/* What only IPython understands may be in it. A string of several lines that looks so is taken for that, too: handed
 * over as a text the cell does the same. */
static bool needs_shell(const char *source)
{
	for (const char *p = source; *p; p += strcspn(p, "\n"), p += *p == '\n') {
		_cleanup_free_ char *line = cbx_xasprintf("%.*s", (int)strcspn(p, "\n"), p);
		const char *first = line + strspn(line, " \t");
		size_t n = strlen(line);

		while (n && isspace((unsigned char)line[n - 1]))
			line[--n] = '\0';
		if (strchr("%!?", *first) && *first)
			return true;
		if (cbx_ends_with(line, "?") || strstr(line, "= !") || strstr(line, "= %") || strstr(line, "=!") ||
		    strstr(line, "=%") || cbx_starts_with(first, "from __future__"))
			return true;
		if (first == line && (strstr(line, "await ") || cbx_starts_with(line, "async with") ||
				      cbx_starts_with(line, "async for")))
			return true;
	}
	return isspace((unsigned char)source[0]);
}

/* A text as a literal of Python, which JSON is: a line of it on a line. */
static void add_literal(struct cbx_buf *out, const char *text)
{
	while (*text) {
		size_t n = strcspn(text, "\n");
		_cleanup_free_ char *line = cbx_xasprintf("%.*s", (int)(n + (text[n] == '\n')), text);
		_cleanup_json_ cJSON *v = cJSON_CreateString(line);

		cbx_buf_adds(out, "    ");
		cbx_json_print(out, v);
		cbx_buf_addc(out, '\n');
		text += n + (text[n] == '\n');
	}
}

static bool had_result(const cJSON *cell)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, cbx_json_member(cell, "outputs"))
		if (cJSON_IsTrue(cbx_json_member(v, "is_result")))
			return true;
	return false;
}

static void add_python(struct cbx_buf *out, const cJSON *cell, const char *source)
{
	bool shows = had_result(cell) && !cbx_json_text(cell, "file");
	const char *at, *end;

	if (needs_shell(source) || (shows && !last_statement(source, &at, &end))) {
		cbx_buf_adds(out, "get_ipython().run_cell(\n");
		add_literal(out, source);
		cbx_buf_adds(out, ")\n");
		return;
	}
	if (!shows) {
		add_lines(out, source);
		return;
	}
	cbx_buf_add(out, source, (size_t)(at - source));
	cbx_buf_adds(out, "sys.displayhook(");
	cbx_buf_add(out, at, (size_t)(end - at));
	cbx_buf_addc(out, ')');
	add_lines(out, end);
	if (!*end)
		cbx_buf_addc(out, '\n');
}

/* ---- any language ---- */

void cbx_export_script_head(struct cbx_buf *out, const char *session, const char *language)
{
	cbx_buf_addf(out, "%s The cells of the codebox session %s.\n", comment_of(language), session);
	if (is_python(language))
		cbx_buf_adds(out, "import sys\n");
}

void cbx_export_script_cell(struct cbx_buf *out, const cJSON *cell, const char *source, const char *language)
{
	const char *status = cbx_json_str(cell, "status"), *own = cbx_json_str(cell, "language");
	const char *comment = comment_of(language);
	bool same = !own[0] || strcmp(own, language) == 0, ok = strcmp(status, "ok") == 0;

	cbx_buf_addf(out, "\n%s %%%% [%.0f]", comment, cbx_json_number(cell, "execution_id", 0));
	if (!ok)
		cbx_buf_addf(out, " ended with status %s, and is not run", status);
	else if (!same)
		cbx_buf_addf(out, " in %s%s", own,
			     is_python(language) && strcmp(own, "bash") == 0 ? "" : ", and is not run");
	cbx_buf_addc(out, '\n');
	if (ok && same && is_python(language)) {
		add_python(out, cell, source);
	} else if (ok && same) {
		add_lines(out, source);
	} else if (ok && is_python(language) && strcmp(own, "bash") == 0) {
		cbx_buf_adds(out, "sys.stdout.flush()\n__import__(\"subprocess\").run([\"bash\", \"-c\",\n");
		add_literal(out, source);
		cbx_buf_adds(out, "])\n");
	} else {
		add_comment(out, comment, source);
	}
}
