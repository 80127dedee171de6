/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: any text as a statement, in the dialect that the first byte names. One that passes begins with
 * SELECT or WITH and is no longer than what came in, but for a space behind that word; judging what was handed on once
 * more gives the same verdict and the same text. One that is refused names its rule.
 *
 * The same text as a request's connection string: what passes goes to a server that the policy names, and has no
 * character that a driver's connection string would be split at.
 */
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "fuzz.h"
#include "policy/sql.h"
#include "sql/judge.h"

static void again(enum cbx_dialect dialect, const struct cbx_buf *text, size_t parameters)
{
	_cleanup_buf_ struct cbx_buf once_more = { 0 };
	struct cbx_err err = { 0 };
	size_t same = 0;

	if (dialect == CBX_SQL_POSTGRESQL && parameters) /* they have become $1 and so on, which nobody may write */
		return;
	must(cbx_sql_judge(dialect, text->data, text->len, &once_more, &same, &err) == 0);
	must(same == parameters && once_more.len == text->len && memcmp(once_more.data, text->data, text->len) == 0);
}

static bool below(const char *name)
{
	return strcmp(name, "a") == 0 || (strlen(name) > 2 && strcmp(name + strlen(name) - 2, ".b") == 0);
}

/* As a request's connection string, or as one of the policy, which may have a password and name any server. */
static void as_string(const char *text, bool own)
{
	char *names[] = { "a", "*.b" };
	const struct cbx_sql_rules rules = { .servers = { .names = names, .n = 2 } };
	struct cbx_sql_connection c = { 0 };
	_cleanup_free_ char *password = NULL;
	struct cbx_err err = { 0 };
	const char *server;

	if (cbx_sql_connection_of_string(own ? NULL : &rules, text, &c, own ? &password : NULL, &err) < 0) {
		must(!c.json && err.msg[0]);
		return;
	}
	server = cbx_json_text(c.json, "server");
	must(server && (own || below(server)));
	must(!password || (strstr(text, "=") && strlen(password) <= strlen(text)));
	must(!strpbrk(cbx_json_text(c.json, "database"), ";{}") && !strpbrk(cbx_json_text(c.json, "user"), ";{}"));
	cJSON_Delete(c.json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	enum cbx_dialect dialect;
	struct cbx_err err = { 0 };
	size_t parameters = 0;
	char *copy;
	int r;

	if (!size)
		return 0;
	dialect = data[0] % 5;
	copy = malloc(size);
	must(copy);
	memcpy(copy, data + 1, size - 1);
	copy[size - 1] = '\0';
	as_string(copy, false);
	as_string(copy, true);
	r = cbx_sql_judge(dialect, copy, size - 1, &text, &parameters, &err);
	free(copy);
	if (r < 0) {
		must(strcmp(err.kind, "query_refused") == 0 && strstr(err.msg, "(rule "));
		return 0;
	}
	must(text.len <= size + (dialect == CBX_SQL_POSTGRESQL ? 6 * parameters : 0) && parameters < size); /* $65535 */
	must(strncasecmp(text.data, "select", 6) == 0 || strncasecmp(text.data, "with", 4) == 0);
	again(dialect, &text, parameters);
	return 0;
}
