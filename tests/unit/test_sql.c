/* SPDX-License-Identifier: Apache-2.0 */
/* Which statements only read, as the judge of queries sees it, and connections of policies. */
#include "policy/policy.h"
#include "sql/judge.h"
#include "sql/rights.h"

#include "base/cleanup.h"
#include "base/limits.h"
#include "unit_main.h"

static const char *const dialects[] = { [CBX_SQL_POSTGRESQL] = "postgresql",
					[CBX_SQL_MYSQL] = "mysql",
					[CBX_SQL_SQLSERVER] = "sqlserver",
					[CBX_SQL_SQLITE] = "sqlite",
					[CBX_SQL_DUCKDB] = "duckdb" };

#define P   1
#define M   2
#define T   4
#define L   8
#define D   16
#define ALL 31

struct verdict {
	unsigned dialects;
	const char *sql;
	const char *rule; /* NULL: it only reads; else what is refused */
	const char *text; /* what is handed on; NULL: not looked at */
	size_t parameters;
};

static const struct verdict verdicts[] = {
	{ ALL, "SELECT 1", NULL, "SELECT 1" },
	{ ALL, "select 1 ; ", NULL, "select 1" },
	{ ALL, "SELECT 1;;;", NULL, "SELECT 1" },
	{ ALL, "; SELECT 1", NULL, "SELECT 1" },
	{ ALL, "SELECT(1)", NULL, "SELECT (1)" },
	{ ALL, "WITH a AS (SELECT 1) SELECT * FROM a", NULL },
	{ ALL, "SELECT ';' , 'drop table x', 'it''s -- not /* a comment'", NULL },
	{ ALL, "SELECT '--' ; DROP TABLE x", "one_statement" },
	{ ALL, "SELECT 1 -- ; DROP TABLE x", NULL, "SELECT 1" },
	{ ALL, "SELECT /* ; DROP TABLE x */ 1", NULL, "SELECT 1" },
	{ ALL, "SELECT 1 /* ' */ , 2 /* ' */", NULL },
	{ ALL, "SELECT ?, '?', ? -- ?", NULL, NULL, 2 },
	{ P, "SELECT ?, '?', ?1 -- ?", NULL, "SELECT $1 , '?', $2 1", 2 },
	{ ALL & ~P, "SELECT ?, ?", NULL, "SELECT ?, ?", 2 },
	{ ALL, "SELECT updated_at, created, inserted, dropped, setting, \"update\" FROM t", NULL },
	{ ALL, "SELECT 1e5, 1.5, .5, 0x1F", NULL },
	{ ALL, "SELECT REPLACE('a', 'a', 'b')", NULL },
	{ ALL, "SELECT größe FROM straße", NULL },
	{ ALL, "", "empty" },
	{ ALL, " \n\t", "empty" },
	{ ALL, "-- only this", "empty" },
	{ ALL, "/* only this */ ;", "empty" },
	{ ALL, "(SELECT 1)", "not_a_query" },
	{ ALL, "'SELECT'", "not_a_query" },
	{ ALL, "3 SELECT 1", "not_a_query" },
	{ ALL, "\"SELECT\" 1", "not_a_query" },
	{ ALL, "EXPLAIN SELECT 1", "not_a_query" },
	{ ALL, "INSERT INTO t VALUES (1)", "not_a_query" },
	{ ALL, "SELECTED", "not_a_query" },
	{ ALL, "SELECT 1; SELECT 2", "one_statement" },
	{ ALL, "SELECT 1;/**/DROP/**/TABLE t", "one_statement" },
	{ ALL, "WITH d AS (DELETE FROM t RETURNING *) SELECT * FROM d", "keyword" },
	{ ALL, "WITH d AS (dElEtE/**/FROM t) SELECT 1", "keyword" },
	{ ALL, "SELECT * INTO newt FROM t", "into" },
	{ ALL, "SELECT * FROM t FOR UPDATE", "lock" },
	{ ALL, "SELECT * FROM t FOR /* x */ SHARE", "lock" },
	{ ALL, "SELECT 1EXEC", "number" },
	{ ALL, "SELECT 1e5DROP", "number" },
	{ ALL, "SELECT 0x1FDROPx", "number" },
	{ ALL & ~D, "SELECT {fn now()}", "brace" },
	{ D, "SELECT {'a': 1}", NULL },
	{ ALL & ~L, "SELECT @a := 1", "assignment" },
	{ ALL, "SELECT 'unfinished", "unfinished" },
	{ ALL, "SELECT 1 /* unfinished", "unfinished" },
	{ ALL,
	  "SELECT\xc2\xa0"
	  "1",
	  "character" },
	{ ALL,
	  "SELECT 1\xe3\x80\x80"
	  "DROP TABLE t",
	  "character" },
	{ ALL, "SELECT \x01", "character" },
	{ ALL, "SELECT '\xff'", "character" },
	{ ALL, "SELECT NEXT VALUE FOR s", "sequence" },
	/* Comments within comments. */
	{ P | T, "SELECT 1 /* /* */ ; DROP TABLE x */", NULL },
	{ M | L, "SELECT 1 /* /* */ ; DROP TABLE x */", "one_statement" },
	/* PostgreSQL */
	{ P, "SELECT $$ ; DROP TABLE x $$, $a$ $$ ; $b$ $a$", NULL },
	{ P, "SELECT $a$ ; ", "unfinished" },
	{ P, "SELECT a$b$ ; DROP TABLE x; $b$", "one_statement" },
	{ P, "SELECT E'\\'; DROP TABLE x; --'", NULL },
	{ P, "SELECT '\\'; DROP TABLE x; --'", "one_statement" },
	{ P, "SELECT E'a'\n'\\'; DROP TABLE x; --'", NULL },
	{ P, "SELECT E'a' -- \n'\\'; DROP TABLE x; --'", NULL },
	{ P, "SELECT E'a' /* \n */ '\\'; DROP TABLE x; --'", "one_statement" },
	{ P, "SELECT E'a'\n\"b\" '\\'; DROP TABLE x; --'", "one_statement" },
	{ P, "SELECT $$a$$\n'\\'; DROP TABLE x; --'", "one_statement" },
	{ P, "SELECT 'a'\n'\\'; DROP TABLE x; --'", "one_statement" },
	{ P, "SELECT 'a'\nE'\\'; DROP TABLE x; --'", NULL },
	{ P, "SELECT U&\"pg_read\\005ffile\"('/etc/passwd')", "name" },
	{ P, "SELECT pg_read_file('/etc/passwd')", "function" },
	{ P, "SELECT \"pg_read_file\" ('/etc/passwd')", "function" },
	{ P, "SELECT pg_catalog . pg_read_file /**/ ('/etc/passwd')", "function" },
	{ P, "SELECT lo_import('/etc/passwd'), lo_price FROM t", "function" },
	{ P, "SELECT lo_price, pg_read_files FROM t", NULL },
	{ P, "SELECT * FROM dblink('dbname=x', 'delete from t') AS t(a int)", "function" },
	{ P, "SELECT query_to_xml('delete from t', true, true, '')", "function" },
	{ P, "SELECT (pg_backend_pid()).pg_terminate_backend", "function" },
	{ P, "SELECT ('1'::text) . /**/ \"pg_read_file\"", "function" },
	{ P, "SELECT ('x'::text).lo_import, a[1].ts_stat", "function" },
	{ P, "SELECT a.name, a.\"lo\", .5, a.pg_reading, pg_catalog.pg_replication_slots FROM t AS a", NULL },
	{ ALL & ~P, "SELECT a.pg_read_file, a.dblink, a.nextval FROM t AS a", NULL },
	{ P, "SELECT set_config('transaction_read_only', 'off', true)", "function" },
	{ P, "SELECT $1", "parameter" },
	{ P, "SELECT a #> '{b}' FROM t", NULL },
	{ P, "SELECT 1 # ; DROP TABLE x", "one_statement" },
	{ P, "SELECT * FROM t FOR NO KEY UPDATE", "lock" },
	/* MySQL */
	{ M, "SELECT 1--1", NULL, "SELECT 1--1" },
	{ M, "SELECT 1--/**/'\n, get_lock(1, 2) -- '", "comment" },
	{ M, "SELECT 1---- x", "comment" },
	{ M, "SELECT 1--;", "comment" },
	{ M, "SELECT 1- -/**/2", NULL, "SELECT 1- - 2" },
	{ ALL & ~M, "SELECT 1--/**/'\n, f(1, 2) -- '", NULL, "SELECT 1 , f(1, 2)" },
	{ M, "SELECT 1 # ; DROP TABLE x", NULL, "SELECT 1" },
	{ M, "SELECT '\\'; DROP TABLE x; --'", NULL },
	{ M, "SELECT \"; DROP TABLE x\"", NULL },
	{ M, "SELECT `;` FROM `drop`", NULL },
	{ M, "SELECT 1 /*! INTO OUTFILE '/tmp/x' */", "executed_comment" },
	{ M, "SELECT 1 /*M!100000 INTO OUTFILE '/tmp/x' */", "executed_comment" },
	{ M, "SELECT 1 /*!50000 ; DROP TABLE x */", "executed_comment" },
	{ M, "SELECT 1 INTO OUTFILE '/tmp/x'", "into" },
	{ M, "SELECT LOAD_FILE('/etc/passwd')", "function" },
	{ M | T, "SELECT sys_\xc3\xa9xec('x')", "function" },
	{ M | T,
	  "SELECT \"gr\xc3\xb6\xc3\x9f"
	  "e\", gr\xc3\xb6\xc3\x9f"
	  "e FROM t",
	  NULL },
	{ M, "SELECT `sys_\xc3\xa9xec` /**/ ('x')", "function" },
	{ T, "SELECT [sys_\xc3\xa9xec] ('x')", "function" },
	{ M, "SELECT * FROM t LOCK IN SHARE MODE", "lock" },
	{ M, "SELECT INSERT('abc', 1, 1, 'x'), TRUNCATE(1.5, 0)", NULL },
	{ M, "SELECT CAST('a' AS CHAR CHARACTER SET utf8mb4)", NULL },
	/* SQL Server */
	{ T, "SELECT [;], [drop], [a]]; DROP TABLE x] FROM t", NULL },
	{ T, "SELECT 1 DROP TABLE x", "keyword" },
	{ T, "SELECT 1 WAITFOR DELAY '1:0:0'", "keyword" },
	{ T, "SELECT * FROM OPENROWSET('a', 'b', 'c')", "keyword" },
	{ T, "SELECT xp_cmdshell('dir')", "procedure" },
	{ T, "SELECT 1 [xp_cmdshell] 'dir'", "procedure" },
	{ T, "SELECT * FROM t WITH (TABLOCKX)", "lock" },
	{ T,
	  "SELECT \xe2\x82\xac"
	  "1DELETE FROM t",
	  "character" },
	{ T,
	  "SELECT a\xe2\x82\xac"
	  "1DELETE FROM t",
	  "character" },
	{ T, "SELECT \xc2\xa2 1", "character" },
	{ T, "SELECT \xc2\xa5 1", "character" },
	{ T, "SELECT \xe2\x83\x8f", "character" },
	{ T, "SELECT \xef\xbc\x84", "character" },
	{ T, "SELECT \xef\xbf\xa6", "character" },
	{ T,
	  "SELECT '\xe2\x82\xac"
	  "1', [\xc2\xa3], \xc2\xa6, \xe2\x83\x90 FROM t",
	  NULL },
	{ T, "SELECT $1DELETE FROM t", "parameter" },
	{ T, "SELECT $DELETE FROM t", "keyword" },
	{ T, "SELECT $.5DELETE FROM t", "number" },
	{ ALL & ~T, "SELECT \xe2\x82\xac FROM t", NULL },
	/* SQLite */
	{ L, "SELECT @a('),hex(blob_import(char(47)))--')?", "parameter" },
	{ L, "SELECT $a(')", "parameter" },
	{ L, "SELECT :a", "parameter" },
	{ L, "SELECT #a", "parameter" },
	{ L, "SELECT a@b", "parameter" },
	{ L, "SELECT @a := 1", "parameter" },
	{ L, "SELECT '@a', \"$a\", [:a], a$b FROM t", NULL },
	{ L, "SELECT blob_import('x')", "function" },
	{ L, "SELECT BLOB_EXPORT('x', 'y')", "function" },
	{ L, "SELECT [;], `drop`, \"a\" FROM t", NULL },
	{ L, "SELECT [a]] ; DROP TABLE x]", "one_statement" },
	{ L, "SELECT load_extension('x')", "function" },
	{ L, "SELECT writefile('x', 'y')", "function" },
	{ L, "SELECT 1 ATTACH 'x' AS y", "keyword" },
};

static void check_one(const struct verdict *v, enum cbx_dialect d)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	_cleanup_free_ char *rule = cbx_xasprintf("(rule %s)", v->rule ? v->rule : "");
	struct cbx_err err = { 0 };
	size_t parameters = 99;
	int r = cbx_sql_judge(d, v->sql, strlen(v->sql), &text, &parameters, &err);

	if (!v->rule) {
		ck_assert_msg(r == 0, "%s: %s: %s", dialects[d], v->sql, err.msg);
		ck_assert_uint_eq(parameters, v->parameters);
		if (v->text)
			ck_assert_str_eq(cbx_buf_str(&text), v->text);
		return;
	}
	ck_assert_msg(r < 0, "%s: %s: passes", dialects[d], v->sql);
	ck_assert_str_eq(err.kind, "query_refused");
	ck_assert_msg(strstr(err.msg, rule), "%s: %s: %s: %s", dialects[d], v->sql, rule, err.msg);
}

START_TEST(statements)
{
	for (size_t i = 0; i < ARRAY_SIZE(verdicts); i++)
		for (enum cbx_dialect d = 0; d < ARRAY_SIZE(dialects); d++)
			if (verdicts[i].dialects & 1u << d)
				check_one(&verdicts[i], d);
}
END_TEST

/* What was refused by words of a list before, in capitals and not: each keyword in the place of a column. */
START_TEST(seeds_list)
{
	static const char *const words[] = { "INSERT",	 "UPDATE", "DELETE",	 "DROP",     "ALTER", "CREATE",
					     "TRUNCATE", "EXEC",   "EXECUTE",	 "MERGE",    "GRANT", "REVOKE",
					     "CALL",	 "SET",	   "BACKUP",	 "RESTORE",  "KILL",  "SHUTDOWN",
					     "DBCC",	 "BULK",   "OPENROWSET", "OPENQUERY" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		_cleanup_free_ char *bare = cbx_xasprintf("SELECT %s FROM t", words[i]),
				    *in_string = cbx_xasprintf("SELECT '%s' FROM t", words[i]);
		struct verdict refused = { ALL, bare, "keyword" }, passes = { ALL, in_string };

		for (enum cbx_dialect d = 0; d < ARRAY_SIZE(dialects); d++) {
			check_one(&refused, d);
			check_one(&passes, d);
		}
	}
}
END_TEST

/* What SQL Server says that a user may do. */
START_TEST(rights)
{
	static const char *const writes[] = { "INSERT",
					      "UPDATE",
					      "DELETE",
					      "ALTER",
					      "CONTROL",
					      "EXECUTE",
					      "CREATE TABLE",
					      "CONTROL SERVER",
					      "TAKE OWNERSHIP",
					      "IMPERSONATE",
					      "ADMINISTER BULK OPERATIONS",
					      "ALTER ANY SCHEMA",
					      "ADMINISTER DATABASE BULK OPERATIONS",
					      "BACKUP DATABASE",
					      "EXECUTE ANY EXTERNAL SCRIPT",
					      "insert",
					      "SELECT INTO",
					      "VIEWS",
					      "VIEW",
					      "CONNECTED",
					      "something new" };
	char which[80] = "", text[200];

	ck_assert(!cbx_sql_rights_write("", which, sizeof(which)));
	/* Of a member of db_datareader alone. */
	ck_assert(!cbx_sql_rights_write(
		"CONNECT SQL\nVIEW ANY DATABASE\nCONNECT\nSELECT\nVIEW ANY COLUMN ENCRYPTION KEY DEFINITION\n"
		"VIEW ANY COLUMN MASTER KEY DEFINITION\nSHOWPLAN\nREFERENCES\nselect  \r\n",
		which, sizeof(which)));
	for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
		snprintf(text, sizeof(text), "CONNECT SQL\nSELECT\n%s\nVIEW DEFINITION\n", writes[i]);
		ck_assert_msg(cbx_sql_rights_write(text, which, sizeof(which)), "%s", writes[i]);
		ck_assert_str_eq(which, writes[i]);
		ck_assert_msg(cbx_sql_rights_write(writes[i], which, sizeof(which)), "%s", writes[i]);
	}
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	ck_assert(cbx_sql_rights_write(text, which, sizeof(which)));
	ck_assert_uint_eq(strlen(which), sizeof(which) - 1);
}
END_TEST

START_TEST(limits)
{
	_cleanup_buf_ struct cbx_buf sql = { 0 }, text = { 0 };
	struct cbx_err err;
	size_t parameters;

	cbx_buf_adds(&sql, "SELECT '");
	while (sql.len < CBX_SQL_TEXT_MAX - 1)
		cbx_buf_addc(&sql, 'x');
	cbx_buf_addc(&sql, '\'');
	ck_assert_int_eq(cbx_sql_judge(CBX_SQL_SQLITE, sql.data, sql.len, &text, &parameters, &err), 0);
	cbx_buf_addc(&sql, ' ');
	ck_assert_int_lt(cbx_sql_judge(CBX_SQL_SQLITE, sql.data, sql.len, &text, &parameters, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.msg, "(rule length)"));
}
END_TEST

/* ---- policies ---- */

static int parse(const char *sql, struct cbx_policy **ret, struct cbx_err *err)
{
	_cleanup_free_ char *text = cbx_xasprintf("{\"sql\":%s}", sql);

	return cbx_policy_parse(text, strlen(text), "p", "p", NULL, NULL, ret, err);
}

static void refused(const char *sql, const char *why)
{
	struct cbx_policy *p;
	struct cbx_err err;

	ck_assert_msg(parse(sql, &p, &err) < 0, "%s: passes", sql);
	ck_assert_msg(strstr(err.msg, why), "%s: %s", sql, err.msg);
}

START_TEST(policies)
{
	_cleanup_buf_ struct cbx_buf many = { 0 };

	refused("{\"connections\":[]}", "give an object");
	refused("{\"connections\":{\"a b\":{}}}", "a connection has a name");
	refused("{\"connections\":{\"a\":{\"type\":\"oracle\"}}}", "give one of \"postgresql\"");
	refused("{\"connections\":{\"a\":{\"type\":\"sqlite\",\"database\":\"a.db\"}}}", "absolute path");
	refused("{\"connections\":{\"a\":{\"type\":\"sqlite\",\"database\":\"/a;b\"}}}", "absolute path");
	refused("{\"connections\":{\"a\":{\"type\":\"sqlite\",\"database\":\"/a\",\"user\":\"u\"}}}", "only");
	refused("{\"connections\":{\"a\":{\"type\":\"mysql\",\"server\":\"h;x\",\"database\":\"d\",\"user\":\"u\"}}}",
		"server: ");
	refused("{\"connections\":{\"a\":{\"type\":\"mysql\",\"server\":\"h\",\"database\":\"d}\",\"user\":\"u\"}}}",
		"database: ");
	refused("{\"connections\":{\"a\":{\"type\":\"mysql\",\"server\":\"h\",\"database\":\"d\"}}}", "user: ");
	refused("{\"connections\":{\"a\":{\"type\":\"mysql\",\"server\":\"h\",\"database\":\"d\",\"user\":\"u\","
		"\"password\":"
		"\"hunter2\"}}}",
		"a policy has no password itself");
	refused("{\"connections\":{\"a\":{\"type\":\"mysql\",\"server\":\"h\",\"database\":\"d\",\"user\":\"u\","
		"\"port\":0}}}",
		"port: ");
	refused("{\"connections\":{\"a\":{\"type\":\"mysql\",\"server\":\"h\",\"database\":\"d\",\"user\":\"u\","
		"\"tls\":\"maybe\"}}}",
		"tls: ");
	refused("{\"allow\":\"a\"}", "allow: ");
	refused("{\"rows\":0}", "rows");
	refused("{\"rows\":1000000001}", "rows");
	refused("{\"inline_rows\":10001}", "inline_rows");
	refused("{\"result_size\":1}", "result_size");
	refused("{\"result_size\":\"65G\"}", "result_size");
	refused("{\"query_timeout\":\"2h\"}", "query_timeout");
	refused("{\"database\":\"x\"}", "connections, allow, servers");
	cbx_buf_adds(&many, "{\"connections\":{");
	for (int i = 0; i <= CBX_SQL_CONNECTIONS_MAX; i++)
		cbx_buf_addf(&many, "%s\"c%d\":{\"type\":\"sqlite\",\"database\":\"/a\"}", i ? "," : "", i);
	cbx_buf_adds(&many, "}}");
	refused(many.data, "too many");
}
END_TEST

START_TEST(narrowed)
{
	static const char three[] =
		"{\"connections\":{\"a\":{\"type\":\"sqlite\",\"database\":\"/a\"},"
		"\"b\":{\"type\":\"postgresql\",\"server\":\"db.example.org\",\"database\":\"d\",\"user\":\"u\","
		"\"password\":{\"environment\":\"PW\"}},\"c\":{\"type\":\"sqlite\",\"database\":\"/c\"}},"
		"\"allow\":[\"a\",\"b\"]}";
	struct cbx_policy *wide, *none, *some, *both, *again;
	_cleanup_json_ cJSON *json = NULL;
	_cleanup_buf_ struct cbx_buf text = { 0 };
	struct cbx_err err;

	ck_assert_msg(parse(three, &wide, &err) == 0, "%s", err.msg);
	ck_assert_int_eq(parse("{}", &none, &err), 0);
	ck_assert_int_eq(parse("{\"allow\":[\"b\",\"c\"]}", &some, &err), 0);
	ck_assert_ptr_null(cbx_sql_rules_find(&wide->sql, "c"));
	ck_assert_ptr_null(cbx_sql_rules_nth(&wide->sql, 2));
	ck_assert_str_eq(cbx_json_text(cbx_sql_rules_find(&wide->sql, "b")->json, "tls"), "verify");
	both = cbx_policy_narrow(wide, none);
	ck_assert_ptr_null(cbx_sql_rules_nth(&both->sql, 0));
	cbx_policy_free(both);
	both = cbx_policy_narrow(wide, some);
	ck_assert_str_eq(cbx_sql_rules_nth(&both->sql, 0)->name, "b");
	ck_assert_str_eq(cbx_sql_rules_nth(&both->sql, 0)->secret.name, "PW");
	ck_assert_ptr_null(cbx_sql_rules_nth(&both->sql, 1));
	/* The canonical form says the same again. */
	json = cbx_policy_to_json(wide);
	cbx_json_print(&text, json);
	ck_assert_msg(cbx_policy_parse(text.data, text.len, "p", "p", NULL, NULL, &again, &err) == 0, "%s", err.msg);
	ck_assert_str_eq(again->digest, wide->digest);
	cbx_policy_free(again);
	cbx_policy_free(both);
	cbx_policy_free(some);
	cbx_policy_free(none);
	cbx_policy_free(wide);
}
END_TEST

/* ---- connection strings of requests ---- */

static const char *string_error(const struct cbx_policy *p, const char *text, struct cbx_err *err)
{
	struct cbx_sql_connection c = { 0 };

	ck_assert_msg(cbx_sql_connection_of_string(&p->sql, text, &c, NULL, err) < 0, "%s: passes", text);
	ck_assert_ptr_null(c.json);
	return err->msg;
}

static void string_is(const struct cbx_policy *p, const char *text, const char *wanted)
{
	struct cbx_sql_connection c = { 0 };
	_cleanup_buf_ struct cbx_buf json = { 0 };
	struct cbx_err err = { 0 };

	ck_assert_msg(cbx_sql_connection_of_string(&p->sql, text, &c, NULL, &err) == 0, "%s: %s", text, err.msg);
	cbx_json_print(&json, c.json);
	ck_assert_str_eq(cbx_buf_str(&json), wanted);
	cJSON_Delete(c.json);
}

/* The policy's own, which may name any server, and have its password. */
START_TEST(whole_strings)
{
	static const struct {
		const char *text, *json, *password;
	} good[] = {
		{ "Driver={PostgreSQL};Server=/run/postgresql;Database=d;Uid=u;Pwd={a;b}}c}",
		  "{\"type\":\"postgresql\",\"server\":\"/run/postgresql\",\"database\":\"d\",\"user\":\"u\",\"tls\":\"off\"}",
		  "a;b}c" },
		{ "Driver=MySQL;Server=anywhere.example;Password=x;Database=d;User=u",
		  "{\"type\":\"mysql\",\"server\":\"anywhere.example\",\"port\":3306,\"database\":\"d\",\"user\":\"u\","
		  "\"tls\":\"verify\"}",
		  "x" },
		{ "Driver=FreeTDS;Server=h;Database=d;Uid=u;Pwd={your_password_here}",
		  "{\"type\":\"sqlserver\",\"server\":\"h\",\"port\":1433,\"database\":\"d\",\"user\":\"u\",\"tls\":\"verify\"}",
		  NULL },
	};
	static const char *const bad[] = {
		"Driver=PostgreSQL;Server=h;Database=d;Uid=u;Pwd=hun;hunter2=x", /* the end of a password, not a key */
		"Driver=PostgreSQL;Server=h;Database=d;Uid=u;Pwd=hun;hunter2",
		"Driver=PostgreSQL;Server=h;Database=d;Uid=u;Pwd={hunter2",
		"Driver=PostgreSQL;Server=h;Database=d;Uid=u;Pwd=hunter2;Pwd=hunter2",
		"Driver=PostgreSQL;Server=h;Database=;Uid=u;Pwd=hunter2",
	};
	struct cbx_err err = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		struct cbx_sql_connection c = { 0 };
		_cleanup_buf_ struct cbx_buf json = { 0 };
		_cleanup_free_ char *password = NULL;

		ck_assert_msg(cbx_sql_connection_of_string(NULL, good[i].text, &c, &password, &err) == 0, "%s", err.msg);
		cbx_json_print(&json, c.json);
		ck_assert_str_eq(cbx_buf_str(&json), good[i].json);
		ck_assert_pstr_eq(password, good[i].password);
		cJSON_Delete(c.json);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct cbx_sql_connection c = { 0 };
		_cleanup_free_ char *password = NULL;

		ck_assert_msg(cbx_sql_connection_of_string(NULL, bad[i], &c, &password, &err) < 0, "%s: passes", bad[i]);
		ck_assert_msg(!strstr(err.msg, "hun"), "%s", err.msg);
	}
}
END_TEST

START_TEST(strings)
{
	static const char *const wrong[][2] = {
		{ "", "Driver: " },
		{ "Driver", "KEY=VALUE" },
		{ "=x", "KEY=VALUE" },
		{ "Driver={PostgreSQL;Server=pg.example.org", "KEY=VALUE" },
		{ "Driver={PostgreSQL}x;Server=pg.example.org", "KEY=VALUE" },
		{ "Driver=a}b", "KEY=VALUE" },
		{ "Driver=/tmp/evil.so;Server=pg.example.org", "Driver: " },
		{ "Driver=SQLite3;Database=/etc/passwd", "Driver: " },
		{ "Driver=PostgreSQL;Server=pg.example.org;Database=d;Uid=u;Setup=/x", "\"Setup\" is not accepted" },
		{ "Driver=PostgreSQL;Server=pg.example.org;PQOPT={sslrootcert=/x}", "\"PQOPT\" is not accepted" },
		{ "Driver=PostgreSQL;Server=/run/postgresql;Database=d;Uid=u", "Server: give the name" },
		{ "Driver=PostgreSQL;Database=d;Uid=u", "Server: give the name" },
		{ "Driver=PostgreSQL;Server=pg.example.org;Server=pg.example.org", "server twice" },
		{ "Driver=PostgreSQL;Server=pg.example.org;Port=70000;Database=d;Uid=u", "Port: " },
		{ "Driver=PostgreSQL;Server=pg.example.org;Uid=u", "database: " },
		{ "Driver=PostgreSQL;Server=pg.example.org;Database=d", "user: " },
		{ "Driver=PostgreSQL;Server=pg.example.org;Database={d};x=1};Uid=u", "KEY=VALUE" },
		{ "Driver=PostgreSQL;Server=pg.example.org;Database={d}};x};Uid=u", "database: " },
		{ "Driver=PostgreSQL;Server=pg.example.org;Database=d;Uid=u;Pwd=hunter2", "does not belong here" },
		{ "Driver=PostgreSQL;Server=pg.example.org;Database=d;Uid=u;SSLMode=prefer", "SSLMode: " },
		{ "Driver=PostgreSQL;Server=pg.example.org;Database=d;Uid=u;Encrypt=maybe", "Encrypt" },
		{ "Driver=PostgreSQL;Server=2130706433;Database=d;Uid=u", "Server: give the name" },
		{ "Driver=PostgreSQL;Server=pg.example.org\n;Database=d;Uid=u", "text" },
	};
	static const char *const elsewhere[] = {
		"Driver=PostgreSQL;Server=example.org;Database=d;Uid=u",
		"Driver=PostgreSQL;Server=x.pg.example.org;Database=d;Uid=u",
		"Driver=PostgreSQL;Server=pg.example.org;Port=5433;Database=d;Uid=u",
		"Driver=PostgreSQL;Server=xdatabase.example.net;Database=d;Uid=u",
		"Driver=PostgreSQL;Server=database.example.net;Database=d;Uid=u",
		"Driver=PostgreSQL;Server=127.0.0.1;Database=d;Uid=u",
		"Driver=MySQL;Server=odd.example.org;Database=d;Uid=u",
	};
	_cleanup_buf_ struct cbx_buf large = { 0 };
	struct cbx_policy *p, *none;
	struct cbx_err err = { 0 };

	ck_assert_msg(parse("{\"servers\":[\"pg.example.org\",\"*.database.example.net\",\"odd.example.org:1234\","
			    "\"[::1]\"]}", &p, &err) == 0, "%s", err.msg);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		ck_assert_msg(strstr(string_error(p, wrong[i][0], &err), wrong[i][1]), "%s: %s", wrong[i][0], err.msg);
		ck_assert_str_eq(err.kind, "invalid_argument");
		ck_assert_msg(!strstr(err.msg, "hunter2"), "%s", err.msg);
	}
	for (size_t i = 0; i < ARRAY_SIZE(elsewhere); i++) {
		ck_assert_msg(strstr(string_error(p, elsewhere[i], &err), "sql.servers"), "%s: %s", elsewhere[i], err.msg);
		ck_assert_str_eq(err.kind, "server_not_allowed");
	}
	cbx_buf_adds(&large, "App=");
	for (int i = 0; i <= CBX_SQL_STRING_MAX; i++)
		cbx_buf_addc(&large, 'x');
	ck_assert_ptr_nonnull(strstr(string_error(p, cbx_buf_str(&large), &err), "up to"));
	string_is(p, "Driver={ODBC Driver 18 for SQL Server};Server=tcp:my.database.example.net,1433;Database=shop;Uid=u;"
		     "Pwd={your_password_here};Encrypt=yes;TrustServerCertificate=no;Connection Timeout=30;",
		  "{\"type\":\"sqlserver\",\"server\":\"my.database.example.net\",\"port\":1433,\"database\":\"shop\","
		  "\"user\":\"u\",\"tls\":\"verify\"}");
	string_is(p, " driver = PostgreSQL Unicode ; SERVER=PG.example.org;database= d ;uid=u;encrypt=yes;"
		     "trustservercertificate=yes",
		  "{\"type\":\"postgresql\",\"server\":\"pg.example.org\",\"port\":5432,\"database\":\"d\",\"user\":\"u\","
		  "\"tls\":\"require\"}");
	string_is(p, "Driver=MariaDB;Server=odd.example.org;Port=1234;Database=d;Uid=u;SSLMode=disable",
		  "{\"type\":\"mysql\",\"server\":\"odd.example.org\",\"port\":1234,\"database\":\"d\",\"user\":\"u\","
		  "\"tls\":\"off\"}");
	ck_assert_int_eq(parse("{}", &none, &err), 0);
	string_error(none, "Driver=PostgreSQL;Server=pg.example.org;Database=d;Uid=u", &err);
	ck_assert_str_eq(err.kind, "server_not_allowed");
	cbx_policy_free(none);
	cbx_policy_free(p);
}
END_TEST

START_TEST(servers)
{
	static const char *const sets[][4] = {
		/* of two policies, and of what both allow: one that is, one that is not */
		{ "[\"*.example.org\"]", "[\"a.example.org\",\"b.example.net\"]", "a.example.org", "b.example.net" },
		{ "[\"a.example.org\",\"b.example.org\"]", "[\"*.example.org\"]", "b.example.org", "c.example.org" },
		{ "[\"*.example.org\"]", "[\"*.b.example.org\"]", "a.b.example.org", "a.example.org" },
		{ "[\"a.example.org\",\"b.example.org\"]", "[\"a.example.org\",\"b.example.org:1\"]", "a.example.org",
		  "b.example.org" },
	};
	struct cbx_policy *a, *b, *both, *again;
	struct cbx_err err = { 0 };

	refused("{\"servers\":\"a\"}", "servers: ");
	refused("{\"servers\":[1]}", "servers: ");
	refused("{\"servers\":[\"*\"]}", "servers: ");
	refused("{\"servers\":[\"a b\"]}", "servers: ");
	refused("{\"servers\":[\"/run/postgresql\"]}", "servers: ");
	refused("{\"servers\":[\"*.127.0.0.1\"]}", "servers: ");
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
		_cleanup_free_ char *one = cbx_xasprintf("{\"servers\":%s}", sets[i][0]);
		_cleanup_free_ char *other = cbx_xasprintf("{\"servers\":%s}", sets[i][1]);
		_cleanup_buf_ struct cbx_buf text = { 0 }, good = { 0 }, bad = { 0 };
		_cleanup_json_ cJSON *json = NULL;

		ck_assert_int_eq(parse(one, &a, &err), 0);
		ck_assert_int_eq(parse(other, &b, &err), 0);
		both = cbx_policy_narrow(a, b);
		cbx_buf_addf(&good, "Driver=PostgreSQL;Server=%s;Database=d;Uid=u;Encrypt=no", sets[i][2]);
		cbx_buf_addf(&bad, "Driver=PostgreSQL;Server=%s;Database=d;Uid=u", sets[i][3]);
		json = cbx_policy_to_json(both);
		cbx_json_print(&text, json);
		ck_assert_int_eq(cbx_policy_parse(text.data, text.len, "p", "p", NULL, NULL, &again, &err), 0);
		for (int k = 0; k < 2; k++) {
			struct cbx_sql_connection c = { 0 };

			ck_assert_msg(cbx_sql_connection_of_string(&(k ? again : both)->sql, cbx_buf_str(&good), &c, NULL, &err) == 0,
				      "%zu: %s", i, err.msg);
			cJSON_Delete(c.json);
			string_error(k ? again : both, cbx_buf_str(&bad), &err);
			ck_assert_str_eq(err.kind, "server_not_allowed");
		}
		cbx_policy_free(again);
		cbx_policy_free(both);
		cbx_policy_free(b);
		cbx_policy_free(a);
	}
}
END_TEST

static void add(TCase *t)
{
	tcase_add_test(t, statements);
	tcase_add_test(t, seeds_list);
	tcase_add_test(t, rights);
	tcase_add_test(t, limits);
	tcase_add_test(t, policies);
	tcase_add_test(t, narrowed);
	tcase_add_test(t, strings);
	tcase_add_test(t, whole_strings);
	tcase_add_test(t, servers);
}

TEST_MAIN("sql", add)
