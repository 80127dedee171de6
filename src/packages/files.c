/* SPDX-License-Identifier: Apache-2.0 */
#include "packages/files.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "packages/rules.h"
#include "packages/sums.h"
#include "packages/toml.h"

struct reader {
	const char *name;
	const char *p;
	unsigned line;
	cJSON *ret;
	struct cbx_err *err;
};

static int refuse(const struct reader *r, const char *what)
{
	cbx_refuse(r->err, "invalid_argument", EINVAL, "%.100s:%u: %s", r->name, r->line, what);
	cbx_err_sanitize(r->err);
	return -EINVAL;
}

static int add(cJSON *ret, const char *text, struct cbx_err *err)
{
	_cleanup_(cbx_sums_release) struct cbx_sums sums = { 0 };
	_cleanup_free_ char *bare = NULL;
	struct cbx_requirement q;
	int n;

	if (!cbx_utf8_valid(text, strlen(text)))
		return cbx_refuse(err, "invalid_argument", EINVAL, "this is not valid UTF-8; save the file in that encoding");
	n = cbx_sums_take(&sums, text, &bare, err);
	if (n >= 0)
		n = cbx_requirement_parse(bare ? bare : "", &q, err);
	if (n < 0)
		return n;
	if (cJSON_GetArraySize(ret) >= CBX_INSTALL_NAMES_MAX)
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "there are more requirements than can be installed at once; install up to %d", CBX_INSTALL_NAMES_MAX);
	cbx_json_push_str(ret, text);
	return 0;
}

/* ---- requirements.txt ---- */

/* A line without its comment and the blanks around it. */
static char *bare(const char *p, size_t n)
{
	char *line = cbx_xasprintf("%.*s", (int)n, p), *end;

	for (char *c = line; *c; c++)
		if (*c == '#' && (c == line || isblank((unsigned char)c[-1]))) {
			*c = '\0';
			break;
		}
	end = line + strlen(line);
	while (end > line && strchr(" \t\r", end[-1]))
		*--end = '\0';
	memmove(line, line + strspn(line, " \t"), strlen(line + strspn(line, " \t")) + 1);
	return line;
}

static int one_line(const struct reader *r, const char *line)
{
	int n;

	if (!line[0])
		return 0;
	if (strcmp(line, "--require-hashes") == 0)
		return 0; /* so it is, where one has any */
	if (line[0] == '-')
		return refuse(
			r, "options of pip are not taken: which index there is, is said by the policy, and other files "
			   "are given by another -r");
	n = add(r->ret, line, r->err);
	if (n < 0) {
		cbx_wrap(r->err, "%.100s:%u", r->name, r->line);
		cbx_err_sanitize(r->err);
	}
	return n;
}

static int read_lines(struct reader *r)
{
	int n = 0;

	while (n == 0 && *r->p) {
		_cleanup_buf_ struct cbx_buf whole = { 0 };
		_cleanup_free_ char *line = NULL;
		unsigned lines = 0;

		for (bool more = true; more; lines++) {
			size_t len = strcspn(r->p, "\n"), end = len - (len && r->p[len - 1] == '\r');

			more = end && r->p[end - 1] == '\\' && r->p[strspn(r->p, " \t")] != '#' && r->p[len];
			cbx_buf_add(&whole, r->p, more ? end - 1 : len);
			r->p += len + (r->p[len] == '\n');
		}
		line = bare(cbx_buf_str(&whole), whole.len);
		r->line++;
		n = one_line(r, line);
		r->line += lines - 1;
	}
	return n;
}

/* ---- TOML ---- */

struct project {
	bool script; /* a script's: keys are at the top */
	cJSON *ret;
};

static bool begins(const char *name, const char *with)
{
	size_t n = strlen(with);

	return strncmp(name, with, n) == 0 && (!name[n] || name[n] == '.');
}

static int refuse_line(struct cbx_err *err, const char *what)
{
	return cbx_refuse(err, "invalid_argument", EINVAL, "%s", what);
}

/* What would have packages come from elsewhere must not be passed over: others own these names in the index. */
static int judge_place(const char *key, struct cbx_err *err)
{
	static const char *const elsewhere[] = { "tool.uv.sources",	    "tool.uv.index",	  "tool.uv.index-url",
						 "tool.uv.extra-index-url", "tool.uv.find-links", "tool.uv.pip" };

	for (size_t i = 0; i < ARRAY_SIZE(elsewhere); i++)
		if (begins(key, elsewhere[i]))
			return refuse_line(err,
					   "tool.uv: packages come from the index of the policy alone; remove this");
	return 0;
}

static int take(void *arg, const struct cbx_toml_event *e, struct cbx_err *err)
{
	const struct project *p = arg;
	bool wanted = strcmp(e->key, p->script ? "dependencies" : "project.dependencies") == 0;

	if (e->what == CBX_TOML_TABLE)
		return judge_place(e->key, err);
	if (e->what == CBX_TOML_MEMBER && (strcmp(e->key, "tool") == 0 || strcmp(e->key, "tool.uv") == 0))
		return refuse_line(err, "write tool.uv as a table: [tool.uv]");
	if (e->what == CBX_TOML_MEMBER)
		return judge_place(e->key, err);
	if (!p->script && e->what == CBX_TOML_STRING && strcmp(e->key, "project.dynamic") == 0 &&
	    strcmp(e->text, "dependencies") == 0)
		return refuse_line(
			err, "the dependencies are dynamic: only building the project tells them; write them here");
	if (wanted && (e->what == CBX_TOML_LIST ? e->depth != 0 : e->what != CBX_TOML_STRING || e->depth != 1))
		return refuse_line(err, "dependencies: give a list of strings");
	return wanted && e->what == CBX_TOML_STRING ? add(p->ret, e->text, err) : 0;
}

int cbx_requirements_read(const char *name, const char *text, cJSON *ret, struct cbx_err *err)
{
	struct project project = { .ret = ret };
	struct reader r = { .name = name, .p = text, .ret = ret, .err = err };

	return cbx_ends_with(name, ".toml") ? cbx_toml_read(name, 1, text, take, &project, err) : read_lines(&r);
}

/* ---- scripts ---- */

static bool is_line(const char *p, size_t n, const char *text)
{
	n -= n && p[n - 1] == '\r';
	return n == strlen(text) && memcmp(p, text, n) == 0;
}

/* The lines behind the one that begins it, without their "# ", up to the last that could end it. False: none does. */
static bool script_block(const char *p, struct cbx_buf *ret)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	bool ended = false;

	while (*p == '#') {
		size_t n = strcspn(p, "\n");

		if (is_line(p, n, "# ///")) {
			ended = true;
			ret->len = 0;
			cbx_buf_add(ret, cbx_buf_str(&text), text.len);
		}
		if (n > 1 && p[1] != ' ' && p[1] != '\r')
			break;
		if (n > 2)
			cbx_buf_add(&text, p + 2, n - 2);
		cbx_buf_addc(&text, '\n');
		p += n + (p[n] == '\n');
	}
	return ended;
}

int cbx_requirements_of_script(const char *name, const char *text, cJSON *ret, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf block = { 0 }, other = { 0 };
	struct project project = { .script = true, .ret = ret };
	unsigned line = 0, first = 0;
	bool found = false;
	int r;

	for (const char *p = text; *p; p += *p == '\n') {
		size_t n = strcspn(p, "\n");

		line++;
		if (is_line(p, n, "# /// script") && p[n] && script_block(p + n + 1, found ? &other : &block)) {
			if (found)
				return refuse(&(struct reader){ .name = name, .line = line, .err = err },
					      "there is a second block \"/// script\"");
			found = true;
			first = line + 1;
		}
		p += n;
	}
	r = found ? cbx_toml_read(name, first, cbx_buf_str(&block), take, &project, err) : 0;
	return r < 0 ? r : found;
}
