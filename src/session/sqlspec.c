/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what a query asks for, and of which database: the connection is one that the policy names, one
 * of the request's own, or a file of the session. Passwords are read when a query is made, and go into the job alone.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "session/query.h"

static int no_connection(const struct cbx_sql_rules *rules, const struct cbx_policy *p, const char *name,
			 struct cbx_err *err)
{
	static const char files[] =
		"a file of SQLite or DuckDB in a session is one by its path (name the session, too)";
	_cleanup_buf_ struct cbx_buf names = { 0 };
	const struct cbx_sql_connection *c;

	for (size_t i = 0; (c = cbx_sql_rules_nth(rules, i)); i++)
		cbx_buf_addf(&names, "%s%s", i ? ", " : "", c->name);
	if (!names.len)
		return cbx_refuse(err, "no_connection", ENOENT,
				  "database not configured: the policy %s has no connection (sql.connections, "
				  "codebox-policy(5)); %s",
				  p->name, files);
	return cbx_refuse(err, "no_connection", name ? ENOENT : EINVAL, "connection: %s%s%s; there are: %.300s; %s",
			  name ? "there is no \"" : "", name ? name : "name one", name ? "\"" : "", cbx_buf_str(&names),
			  files);
}

/* *ret NULL: a file of the session. */
static int find_connection(const struct cbx_sql_rules *rules, const struct cbx_policy *p,
			   const struct cbx_query_spec *spec, const struct cbx_sql_connection **ret,
			   struct cbx_err *err)
{
	const char *name = spec->connection;

	*ret = name ? cbx_sql_rules_find(rules, name) : cbx_sql_rules_nth(rules, 0);
	if (*ret && (name || !cbx_sql_rules_nth(rules, 1)))
		return 0;
	return !*ret && name && name[0] && spec->session ? 0 : no_connection(rules, p, name, err);
}

static int secret_of(const struct cbx_engine *e, const struct cbx_secret_ref *ref, const char **ret,
		     struct cbx_err *err)
{
	*ret = NULL;
	return ref->kind && e->config.secret ? e->config.secret(e->config.arg, ref, ret, err) : 0;
}

/* One of the policy: what codebox-sql learns of it, and its password, malloc'd, or NULL. */
static int read_connection(const struct cbx_engine *e, const struct cbx_sql_connection *c, cJSON **ret,
			   char **ret_password, struct cbx_err *err)
{
	struct cbx_sql_connection said = { 0 };
	const char *string = NULL, *password = NULL;
	int r = secret_of(e, &c->string, &string, err);

	*ret = NULL;
	*ret_password = NULL;
	if (r >= 0)
		r = secret_of(e, &c->secret, &password, err);
	if (r >= 0 && string) {
		r = cbx_sql_connection_of_string(NULL, string, &said, ret_password, err);
		*ret = said.json;
		if (r >= 0 && password && *ret_password)
			r = cbx_refuse(err, "invalid_argument", EINVAL,
				       "its string has a password, and the policy names another one; omit either");
	} else if (r >= 0) {
		*ret = cJSON_Duplicate(c->json, 1);
	}
	if (r >= 0 && password)
		*ret_password = cbx_xstrdup(password);
	if (r >= 0)
		return 0;
	cJSON_Delete(take_ptr(ret));
	cbx_str_wipe(ret_password);
	return cbx_wrap(err, "connection %s", c->name);
}

/* Where it goes, and with which password. */
static int set_connection(struct cbx_sql_query *q, const struct cbx_query_spec *spec, const struct cbx_policy *p,
			  struct cbx_err *err)
{
	struct cbx_sql_connection own = { 0 };
	const struct cbx_sql_connection *c;
	char *password = NULL;
	cJSON *json = NULL;
	int r;

	if (spec->string) {
		r = cbx_sql_connection_of_string(&p->sql, spec->string, &own, NULL, err);
		if (r < 0)
			return cbx_wrap(err, CBX_QUERY_STRING);
		q->asked_of = cbx_xstrdup(cbx_json_text(own.json, "server"));
		cbx_json_set(q->request, "connection", own.json);
		cbx_json_set_str(q->request, "password", spec->password);
		return 0;
	}
	r = find_connection(&p->sql, p, spec, &c, err);
	if (r < 0)
		return r;
	q->asked_of = cbx_xstrdup(c ? c->name : spec->connection);
	if (c)
		r = read_connection(q->engine, c, &json, &password, err);
	if (r < 0)
		return r;
	if (c)
		cbx_json_set(q->request, "connection", json);
	else
		q->database = cbx_xstrdup(spec->connection);
	cbx_json_set_str(q->request, "password", password);
	cbx_str_wipe(&password);
	return 0;
}

int cbx_query_request(struct cbx_sql_query *q, const struct cbx_query_spec *spec, const struct cbx_policy *p,
		      struct cbx_err *err)
{
	uint64_t inline_rows = p->values[CBX_KEY_SQL_INLINE_ROWS].ceiling;
	int r;

	q->request = cbx_json_new_obj();
	r = set_connection(q, spec, p, err);
	if (r < 0)
		return r;
	if (spec->inline_rows && spec->inline_rows < inline_rows)
		inline_rows = spec->inline_rows;
	q->schema = spec->schema;
	cbx_json_set_bool(q->request, "schema", spec->schema);
	q->query = spec->query ? cbx_xstrdup(spec->query) : NULL;
	cbx_json_set_str(q->request, "query", spec->query);
	cbx_json_set(q->request, "parameters",
		     spec->parameters ? cJSON_Duplicate(spec->parameters, 1) : cbx_json_new_arr());
	cbx_json_set_u64(q->request, "inline_rows", inline_rows);
	cbx_json_set_u64(q->request, "inline_bytes", CBX_SQL_INLINE_BYTES);
	cbx_json_set_u64(q->request, "rows", p->values[CBX_KEY_SQL_ROWS].ceiling);
	cbx_json_set_u64(q->request, "bytes", p->values[CBX_KEY_SQL_RESULT_SIZE].ceiling);
	cbx_json_set_u64(q->request, "timeout_ms", p->values[CBX_KEY_SQL_TIMEOUT].ceiling);
	q->timeout_ms = cbx_json_u64(q->request, "timeout_ms");
	if (q->format) {
		cbx_json_set_bool(q->request, "kinds", true);
		cbx_json_set_str(q->request, "format", q->format);
	}
	cbx_json_set_str(q->request, "null", spec->null);
	cbx_json_set_str(q->request, "delivery", spec->path ? "file" : spec->session ? "auto" : "inline");
	return 0;
}

int cbx_query_format(const struct cbx_query_spec *spec, const char **ret, struct cbx_err *err)
{
	static const char *const formats[] = { "arrow", "parquet" };
	int i = cbx_find_word(spec->format, formats, ARRAY_SIZE(formats));

	*ret = i < 0 ? NULL : formats[i];
	if (!spec->format || strcmp(spec->format, "csv") == 0)
		return 0;
	if (!*ret)
		return cbx_refuse(err, "invalid_argument", EINVAL, "format: give one of csv, arrow, parquet");
	if (!spec->session)
		return cbx_refuse(err, "invalid_argument", EINVAL, "format: name the session whose file it is to be");
	return 0;
}

struct cbx_policy *cbx_query_policy(const struct cbx_caller *caller, const struct cbx_session *s)
{
	if (s)
		return cbx_policy_ref(s->policy);
	if (!caller->principal->ceiling)
		return cbx_policy_ref(caller->engine->policy);
	return cbx_policy_narrow(caller->engine->policy, caller->principal->ceiling);
}

int cbx_query_spec_headers(struct cbx_query_spec *spec, const char *(*header)(void *arg, const char *name), void *arg,
			   struct cbx_err *err)
{
	const char *string = header(arg, CBX_QUERY_STRING), *password = header(arg, CBX_QUERY_PASSWORD),
		   *rows = header(arg, CBX_QUERY_INLINE);

	if (!string != !password)
		return cbx_refuse(err, "invalid_argument", EINVAL, "missing header: %s; give it with %s",
				  string ? CBX_QUERY_PASSWORD : CBX_QUERY_STRING,
				  string ? CBX_QUERY_STRING : CBX_QUERY_PASSWORD);
	if (password &&
	    (!cbx_plain(password) || !cbx_utf8_valid(password, strlen(password)) || strlen(password) > CBX_SECRET_MAX))
		return cbx_refuse(err, "invalid_argument", EINVAL, "%s: give up to %zu bytes of text",
				  CBX_QUERY_PASSWORD, (size_t)CBX_SECRET_MAX);
	spec->string = string;
	spec->password = password;
	return rows ? cbx_parse_u64(rows, CBX_QUERY_INLINE, 1, UINT32_MAX, &spec->inline_rows, err) : 0;
}

cJSON *cbx_engine_databases(const struct cbx_caller *caller)
{
	struct cbx_policy *p = cbx_query_policy(caller, NULL);
	const struct cbx_sql_connection *c;
	cJSON *list = cbx_json_new_arr();

	for (size_t i = 0; (c = cbx_sql_rules_nth(&p->sql, i)); i++) {
		_cleanup_json_ cJSON *said = NULL;
		cJSON *o = cbx_json_new_obj();
		struct cbx_err ignored;
		char *password;

		/* What cannot be read is listed all the same, and says why when it is asked. */
		(void)read_connection(caller->engine, c, &said, &password, &ignored);
		cbx_str_wipe(&password);
		cbx_json_set_str(o, "name", c->name);
		cbx_json_set_str(o, "type", said ? cbx_json_text(said, "type") : "unknown");
		cbx_json_push(list, o);
	}
	cbx_policy_free(p);
	return list;
}
