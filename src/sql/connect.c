/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: for each kind of database, how the driver learns where to go, what is said to the server before
 * the query, and what its user must not be. What a read-only transaction does not hold back (files of the server, its
 * programs) only some users may do: with such a user the query is refused, before it is sent.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "base/trust.h"
#include "sql/rights.h"
#include "sql/worker.h"

/* ---- what drivers say ---- */

static void hide(char *text, const char *secret)
{
	size_t n = secret ? strlen(secret) : 0;

	for (char *p = text; n && (p = strstr(p, secret));)
		memset(p, '*', n);
}

int cbx_sql_refuse(struct cbx_sql *s, const char *kind, const char *what, const char *said, const char *state,
		   struct cbx_err *err)
{
	char text[500];

	while (said[0] == '[' && strchr(said, ']')) /* names of programs */
		said = strchr(said, ']') + 1;
	snprintf(text, sizeof(text), "%s", said);
	for (char *p = text; *p; p++)
		if (iscntrl((unsigned char)*p))
			*p = ' ';
	hide(text, s->job->password);
	cbx_refuse(err, kind, EIO, "%s: %s (SQLSTATE %.5s)", what, text, state);
	cbx_err_sanitize(err);
	return -EIO;
}

int cbx_sql_fail(struct cbx_sql *s, SQLSMALLINT type, SQLHANDLE handle, const char *kind, const char *what,
		 struct cbx_err *err)
{
	SQLCHAR state[6] = "", text[500] = "";
	SQLINTEGER native;
	SQLSMALLINT n;

	if (!SQL_SUCCEEDED(SQLGetDiagRec(type, handle, 1, state, &native, text, sizeof(text), &n)))
		snprintf((char *)text, sizeof(text), "the driver does not say why");
	return cbx_sql_refuse(s, kind, what, (char *)text, (char *)state, err);
}

/* ---- connection strings ---- */

/* A policy's names have no character that drivers take for more than itself (policy/sql.c); a password may have any. */
static void account(struct cbx_buf *b, const struct cbx_sql_job *j)
{
	cbx_buf_addf(b, "UID=%s;", j->user ? j->user : "");
	if (!j->password)
		return;
	cbx_buf_adds(b, "PWD={");
	for (const char *p = j->password; *p; p++) {
		if (*p == '}')
			cbx_buf_addc(b, '}');
		cbx_buf_addc(b, *p);
	}
	cbx_buf_adds(b, "};");
}

static void plain(struct cbx_buf *b, const char *text)
{
	cbx_buf_addf(b, "%s;", text);
}

static void port(struct cbx_buf *b, const struct cbx_sql_job *j, unsigned standard)
{
	cbx_buf_addf(b, "PORT=%u;", j->port ? (unsigned)j->port : standard);
}

#define FREETDS_SERVER "codebox"

static bool verifies(const struct cbx_sql_job *j)
{
	return j->tls && strcmp(j->tls, "verify") == 0;
}

/* Whom a server's certificate has to come from. No driver is left to its own idea of that: libpq's is a file in the
 * user's home, FreeTDS's nobody. */
static const char *authorities(const struct cbx_sql_job *j)
{
	return j->ca ? j->ca : cbx_trust_of_machine();
}

static const char *sslmode(const struct cbx_sql_job *j)
{
	return verifies(j) ? "verify-full" : strcmp(j->tls, "off") == 0 ? "disable" : "require";
}

static void mysql(struct cbx_buf *b, const struct cbx_sql_job *j)
{
	if (j->server[0] == '/') {
		cbx_buf_addf(b, "SERVER=localhost;SOCKET=%s;", j->server);
	} else {
		cbx_buf_addf(b, "SERVER=%s;", j->server);
		port(b, j, 3306);
	}
	cbx_buf_addf(b, "DATABASE=%s;", j->database);
	account(b, j);
	if (strcmp(j->tls, "off") != 0)
		cbx_buf_addf(b, "FORCETLS=1;SSLVERIFY=%d;", verifies(j));
	if (verifies(j))
		cbx_buf_addf(b, "SSLCA=%s;", authorities(j));
	plain(b, "CHARSET=utf8mb4;FORWARDONLY=1;NO_CACHE=1;CONN_TIMEOUT=10");
}

static void sqlserver(struct cbx_buf *b, const struct cbx_sql_job *j)
{
	cbx_buf_addf(b, "SERVERNAME=%s;DATABASE=%s;", FREETDS_SERVER, j->database);
	account(b, j);
	cbx_buf_addf(b, "ENCRYPTION=%s;", strcmp(j->tls, "off") == 0 ? "off" : "require");
	plain(b, "TDS_VERSION=7.4;CLIENTCHARSET=UTF-8;APPLICATIONINTENT=ReadOnly");
}

static void sqlite(struct cbx_buf *b, const struct cbx_sql_job *j)
{
	cbx_buf_addf(b, "DATABASE=file:%s?mode=ro;", j->database);
	plain(b, "NOCREAT=1;STEPAPI=1;TIMEOUT=1000");
}

/* FreeTDS's connection strings have no word for authorities, its file has. A name that the file does not know would be
 * that of a host, so everything about the server is in there. */
static int write_freetds(const struct cbx_sql_job *j, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	_cleanup_fd_ int fd = memfd_create("freetds.conf", MFD_CLOEXEC);
	char path[32];
	int r;

	cbx_buf_addf(&text, "[" FREETDS_SERVER "]\n\thost = %s\n\tport = %u\n\ttds version = 7.4\n", j->server,
		     j->port ? (unsigned)j->port : 1433);
	if (verifies(j))
		cbx_buf_addf(&text, "\tca file = %s\n\tcheck certificate hostname = yes\n", authorities(j));
	r = fd < 0 ? -errno : cbx_write_all(fd, text.data, text.len);
	if (r < 0)
		return cbx_fail(err, -r, "write the settings of the driver");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (setenv("FREETDSCONF", path, 1) < 0)
		return cbx_fail(err, errno, "name the settings of the driver");
	(void)take_fd(&fd); /* open as long as this process is */
	return 0;
}

int cbx_sql_prepare(const struct cbx_sql_job *j, struct cbx_err *err)
{
	if (verifies(j) && !authorities(j))
		return cbx_refuse(
			err, "connection_failed", ENOENT,
			"the certificates of this machine's authorities cannot be found; install ca-certificates, or "
			"name a file of the server's authority in the policy (ca)");
	return j->dialect == CBX_SQL_SQLSERVER ? write_freetds(j, err) : 0;
}

/* ---- what is said first ---- */

/* The first column of a row, in as many pieces as the driver gives it. */
static SQLRETURN first_column(SQLHSTMT stmt, struct cbx_buf *ret)
{
	char value[1000];
	SQLLEN n;
	SQLRETURN got;

	do {
		got = SQLGetData(stmt, 1, SQL_C_CHAR, value, sizeof(value), &n);
		if (!SQL_SUCCEEDED(got) || n == SQL_NULL_DATA)
			return got;
		cbx_buf_adds(ret, value);
	} while (n == SQL_NO_TOTAL || n >= (SQLLEN)sizeof(value));
	cbx_buf_adds(ret, "\n");
	return got;
}

/* As of s->ask. What cannot be read is an error: rights that are not seen would be taken for none. */
static int ask_driver(struct cbx_sql *s, const char *text, struct cbx_buf *ret, struct cbx_err *err)
{
	SQLHSTMT stmt;
	int r = 0;

	if (!SQL_SUCCEEDED(SQLAllocHandle(SQL_HANDLE_STMT, s->dbc, &stmt)))
		return cbx_sql_fail(s, SQL_HANDLE_DBC, s->dbc, "connection_failed", "prepare the connection", err);
	if (!SQL_SUCCEEDED(SQLExecDirect(stmt, (SQLCHAR *)text, SQL_NTS)))
		r = cbx_sql_fail(s, SQL_HANDLE_STMT, stmt, "connection_failed", "prepare the connection", err);
	while (r >= 0 && ret) {
		SQLRETURN got = SQLFetch(stmt);

		if (got == SQL_NO_DATA)
			break;
		if (!SQL_SUCCEEDED(got) || !SQL_SUCCEEDED(first_column(stmt, ret)))
			r = cbx_sql_fail(s, SQL_HANDLE_STMT, stmt, "connection_failed", "prepare the connection", err);
	}
	SQLFreeHandle(SQL_HANDLE_STMT, stmt);
	return r;
}

static int execute_all(struct cbx_sql *s, const char *const *texts, struct cbx_err *err)
{
	unsigned long long ms = s->job->timeout_ms + 2000;
	struct cbx_err ignored;
	int r = 0;

	for (; r >= 0 && *texts; texts++) {
		bool may_fail = (*texts)[0] == '?'; /* an older server does not know it */
		_cleanup_buf_ struct cbx_buf text = { 0 };
		const char *p = *texts + may_fail, *mark = strchr(p, '@');

		if (mark && (mark[1] == 'M' || mark[1] == 'S'))
			cbx_buf_addf(&text, "%.*s%llu", (int)(mark - p), p, mark[1] == 'M' ? ms : ms / 1000 + 1);
		else
			cbx_buf_adds(&text, p);
		r = s->ask(s, cbx_buf_str(&text), NULL, may_fail ? &ignored : err);
		if (may_fail)
			r = 0;
	}
	return r;
}

static int too_mighty(struct cbx_sql *s, struct cbx_err *err, const char *what, const char *remedy)
{
	return cbx_refuse(err, "unsafe_user", EPERM,
			  "the user %s %s, which a read-only transaction does not hold back; name a user in the policy "
			  "that may only "
			  "read (%s)",
			  s->job->user ? s->job->user : "", what, remedy);
}

static int examine_postgresql(struct cbx_sql *s, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf said = { 0 };
	int r = s->ask(
		s,
		"SELECT 'mighty' WHERE current_setting('is_superuser') = 'on' OR EXISTS (SELECT 1 FROM "
		"pg_catalog.pg_roles "
		"WHERE rolname IN ('pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program') AND "
		"pg_has_role(current_user, oid, 'MEMBER'))",
		&said, err);

	if (r >= 0 && said.len)
		return too_mighty(s, err, "is a superuser or may use files and programs of the server",
				  "GRANT pg_read_all_data TO reader, or GRANT SELECT");
	said.len = 0;
	if (r >= 0)
		r = s->ask(s, "SELECT current_setting('transaction_read_only')", &said, err);
	if (r >= 0 && strcmp(cbx_buf_str(&said), "on\n") != 0)
		return cbx_refuse(err, "connection_failed", EPERM,
				  "the database did not make the transaction read-only");
	return r;
}

static int examine_mysql(struct cbx_sql *s, struct cbx_err *err)
{
	static const char *const rights[] = { "GRANT FILE", ", FILE", "GRANT SUPER", ", SUPER",
					      "GRANT ALL PRIVILEGES ON *.*" };
	_cleanup_buf_ struct cbx_buf said = { 0 };
	int r = s->ask(s, "SELECT @@SESSION.sql_mode", &said, err);

	/* The judge read the query without these. */
	if (r >= 0 && (!said.len || strstr(cbx_buf_str(&said), "ANSI_QUOTES") ||
		       strstr(cbx_buf_str(&said), "NO_BACKSLASH_ESCAPES")))
		return cbx_refuse(err, "connection_failed", EPERM,
				  "the database keeps a mode (sql_mode) in which quotes mean something else");
	said.len = 0;
	if (r >= 0)
		r = s->ask(s, "SHOW GRANTS", &said, err);

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(rights); i++)
		if (strstr(cbx_buf_str(&said), rights[i]))
			return too_mighty(s, err, "has the right FILE, SUPER or ALL PRIVILEGES",
					  "GRANT SELECT ON shop.* TO reader");
	return r < 0 ? r : s->ask(s, "START TRANSACTION READ ONLY", NULL, err);
}

/* A permission to write that the user has on one of these, by its name. */
#define HAS(name, of, what) " WHEN HAS_PERMS_BY_NAME(" name ", '" of "', '" what "') = 1 THEN '" what "'"
#define ON_EACH(table, name, of, where)                                                                                \
	"SELECT DISTINCT permission FROM (SELECT CASE" HAS(name, of, "INSERT") HAS(name, of, "UPDATE")                 \
		HAS(name, of, "DELETE") HAS(name, of, "ALTER") HAS(name, of, "CONTROL") HAS(name, of, "EXECUTE")       \
			HAS(name, of, "TAKE OWNERSHIP") " END AS permission FROM " table " WHERE " where               \
							") p WHERE permission IS NOT NULL"

static int examine_sqlserver(struct cbx_sql *s, struct cbx_err *err)
{
	/* Of the server, of the database, of its schemas, and of single tables and columns, where each may be granted.
	 */
	static const char *const permissions[] = {
		"SELECT permission_name FROM fn_my_permissions(NULL, 'SERVER')",
		"SELECT permission_name FROM fn_my_permissions(NULL, 'DATABASE')",
		ON_EACH("sys.schemas", "QUOTENAME(name)", "SCHEMA", "name NOT IN ('sys', 'INFORMATION_SCHEMA')"),
		ON_EACH("sys.objects", "QUOTENAME(SCHEMA_NAME(schema_id)) + '.' + QUOTENAME(name)", "OBJECT",
			"type IN ('U', 'V') AND is_ms_shipped = 0"),
		"SELECT DISTINCT 'UPDATE' FROM sys.columns c JOIN sys.objects o ON o.object_id = c.object_id "
		"WHERE o.type IN ('U', 'V') AND o.is_ms_shipped = 0 AND HAS_PERMS_BY_NAME(QUOTENAME(SCHEMA_NAME("
		"o.schema_id)) + '.' + QUOTENAME(o.name), 'OBJECT', 'UPDATE', QUOTENAME(c.name), 'COLUMN') = 1",
	};
	_cleanup_buf_ struct cbx_buf said = { 0 };
	char which[80];
	int r = s->ask(s, "SELECT 'mighty' WHERE IS_SRVROLEMEMBER('sysadmin') = 1 OR IS_SRVROLEMEMBER('bulkadmin') = 1",
		       &said, err);

	if (r >= 0 && said.len)
		return too_mighty(s, err, "is a sysadmin or bulkadmin", "db_datareader");
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(permissions); i++)
		r = s->ask(s, permissions[i], &said, err);
	/* Who may log in has some: an answer without any says nothing. */
	if (r >= 0 && !said.len)
		return cbx_refuse(err, "connection_failed", EPERM, "the database does not say what its user may do");
	if (r < 0 || !cbx_sql_rights_write(cbx_buf_str(&said), which, sizeof(which)))
		return r;
	return cbx_refuse(err, "unsafe_user", EPERM,
			  "the user %s may do more than read (%s), and SQL Server has no read-only transaction; name a "
			  "user in the policy that may only read (db_datareader)",
			  s->job->user ? s->job->user : "", which);
}

static int examine_sqlite(struct cbx_sql *s, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf said = { 0 };
	int r = s->ask(s, "PRAGMA query_only", &said, err);

	if (r >= 0 && strcmp(cbx_buf_str(&said), "1\n") != 0)
		return cbx_refuse(err, "connection_failed", EPERM, "the database could not be opened read-only");
	return r;
}

/* A database without an encoding has bytes: it would refuse to send those that are not UTF-8. */
#define UTF8_OR_BYTES                                                                                                  \
	"SELECT set_config('client_encoding', CASE current_setting('server_encoding') WHEN 'SQL_ASCII' THEN "          \
	"'SQL_ASCII' ELSE 'UTF8' END, false)"

/* Of the server's modes, those that results depend on. Others stand for several (ANSI, ORACLE), quotes among them. */
#define SQL_MODE                                                                                                       \
	"SET SESSION sql_mode = CONCAT_WS(',', 'STRICT_TRANS_TABLES', "                                                \
	"IF(FIND_IN_SET('ONLY_FULL_GROUP_BY', @@SESSION.sql_mode), 'ONLY_FULL_GROUP_BY', NULL), "                      \
	"IF(FIND_IN_SET('PIPES_AS_CONCAT', @@SESSION.sql_mode), 'PIPES_AS_CONCAT', NULL))"

static const struct kind {
	const char *drivers[3], *package; /* none: its own client (postgresql.c) */
	void (*string)(struct cbx_buf *b, const struct cbx_sql_job *j);
	const char *first[5]; /* "?": may fail; @M and @S at the end: the time limit in milliseconds, seconds */
	int (*examine)(struct cbx_sql *s, struct cbx_err *err); /* inside of the transaction */
} kinds[] = {
	[CBX_SQL_POSTGRESQL] = { { NULL },
				 NULL,
				 NULL,
				 { UTF8_OR_BYTES
				   "; SET standard_conforming_strings = on; SET default_transaction_read_only = on; "
				   "SET bytea_output = 'hex'; SET datestyle = 'ISO'; SET extra_float_digits = 3",
				   "SET statement_timeout = @M", "SET idle_in_transaction_session_timeout = @M",
				   "?SET client_connection_check_interval = 500", NULL },
				 examine_postgresql },
	[CBX_SQL_MYSQL] = { { "MariaDB Unicode", "MariaDB", NULL },
			    "odbc-mariadb (Fedora: mariadb-connector-odbc)",
			    mysql,
			    { SQL_MODE, "SET SESSION TRANSACTION READ ONLY", "?SET SESSION max_statement_time = @S",
			      "?SET SESSION max_execution_time = @M", NULL },
			    examine_mysql },
	[CBX_SQL_SQLSERVER] = { { "FreeTDS", NULL },
				"tdsodbc (Fedora: freetds)",
				sqlserver,
				{ "SET XACT_ABORT ON", "SET LOCK_TIMEOUT @M", NULL },
				examine_sqlserver },
	[CBX_SQL_SQLITE] = { { "SQLite3", NULL },
			     "libsqliteodbc (Fedora: sqliteodbc)",
			     sqlite,
			     { "PRAGMA query_only = 1", "PRAGMA trusted_schema = 0", NULL },
			     examine_sqlite },
};

static int try_driver(struct cbx_sql *s, const char *driver, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	SQLSMALLINT n;
	SQLRETURN r;

	cbx_buf_addf(&text, "DRIVER={%s};", driver);
	kinds[s->job->dialect].string(&text, s->job);
	r = SQLDriverConnect(s->dbc, NULL, (SQLCHAR *)text.data, (SQLSMALLINT)text.len, NULL, 0, &n,
			     SQL_DRIVER_NOPROMPT);
	cbx_buf_wipe(&text);
	return SQL_SUCCEEDED(r) ? 0 : cbx_sql_fail(s, SQL_HANDLE_DBC, s->dbc, "connection_failed", "connect", err);
}

static int connect_any(struct cbx_sql *s, struct cbx_err *err)
{
	const struct kind *k = &kinds[s->job->dialect];
	int r = -EIO;

	for (size_t i = 0; r < 0 && k->drivers[i]; i++) {
		r = try_driver(s, k->drivers[i], err);
		if (r < 0 && !strstr(err->msg, "SQLSTATE IM002") && !strstr(err->msg, "SQLSTATE 01000"))
			return r;
	}
	return r < 0 ? cbx_refuse(err, "no_driver", ENOENT,
				  "the ODBC driver of this kind of database is not installed; install %s", k->package)
		     : 0;
}

static int connect_driver(struct cbx_sql *s, struct cbx_err *err)
{
	if (!SQL_SUCCEEDED(SQLAllocHandle(SQL_HANDLE_ENV, SQL_NULL_HANDLE, &s->env)) ||
	    !SQL_SUCCEEDED(SQLSetEnvAttr(s->env, SQL_ATTR_ODBC_VERSION, (SQLPOINTER)SQL_OV_ODBC3, 0)) ||
	    !SQL_SUCCEEDED(SQLAllocHandle(SQL_HANDLE_DBC, s->env, &s->dbc)))
		return cbx_refuse(err, "connection_failed", ENOMEM, "prepare the connection: unixODBC does not start");
	(void)SQLSetConnectAttr(s->dbc, SQL_ATTR_TRACE, (SQLPOINTER)SQL_OPT_TRACE_OFF,
				0); /* it would have the password */
	(void)SQLSetConnectAttr(s->dbc, SQL_ATTR_LOGIN_TIMEOUT, (SQLPOINTER)10, 0);
	s->ask = ask_driver;
	return connect_any(s, err);
}

static int begin_transaction(struct cbx_sql *s, struct cbx_err *err)
{
	if (s->pq)
		return s->ask(s, "BEGIN TRANSACTION READ ONLY", NULL, err);
	if (s->job->dialect != CBX_SQL_SQLITE &&
	    !SQL_SUCCEEDED(SQLSetConnectAttr(s->dbc, SQL_ATTR_AUTOCOMMIT, (SQLPOINTER)SQL_AUTOCOMMIT_OFF, 0)))
		return cbx_sql_fail(s, SQL_HANDLE_DBC, s->dbc, "connection_failed", "begin a transaction", err);
	return 0;
}

int cbx_sql_connect(struct cbx_sql *s, struct cbx_err *err)
{
	const struct kind *k = &kinds[s->job->dialect];
	int r = k->drivers[0]
			? connect_driver(s, err)
			: cbx_sql_pq_connect(s, sslmode(s->job), verifies(s->job) ? authorities(s->job) : NULL, err);

	if (r >= 0)
		r = execute_all(s, k->first, err);
	if (r >= 0)
		r = begin_transaction(s, err);
	if (r >= 0)
		r = k->examine(s, err);
	if (r >= 0 && s->dbc && !SQL_SUCCEEDED(SQLAllocHandle(SQL_HANDLE_STMT, s->dbc, &s->stmt)))
		r = cbx_sql_fail(s, SQL_HANDLE_DBC, s->dbc, "connection_failed", "prepare the query", err);
	return r;
}

void cbx_sql_disconnect(struct cbx_sql *s)
{
	if (s->stmt)
		SQLFreeHandle(SQL_HANDLE_STMT, s->stmt);
	if (s->dbc) {
		(void)SQLEndTran(SQL_HANDLE_DBC, s->dbc, SQL_ROLLBACK);
		(void)SQLDisconnect(s->dbc);
		SQLFreeHandle(SQL_HANDLE_DBC, s->dbc);
	}
	if (s->env)
		SQLFreeHandle(SQL_HANDLE_ENV, s->env);
	cbx_sql_pq_disconnect(s);
}
