/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: lists of words, each for some dialects. A keyword counts where it is not in quotes; a function
 * counts with or without quotes, before a parenthesis, and most of PostgreSQL's behind a period, too. A name that ends
 * in "*" stands for all that begin so.
 *
 * The lists need not be complete for the database to be safe, since the transaction is read-only: they name what a
 * read-only transaction allows (files, locks, other connections, signals), and what is better refused with a reason.
 */
#include "sql/words.h"

#include <string.h>

#include "base/cleanup.h"

#define P   (1 << CBX_SQL_POSTGRESQL)
#define M   (1 << CBX_SQL_MYSQL)
#define T   (1 << CBX_SQL_SQLSERVER)
#define L   (1 << CBX_SQL_SQLITE)
#define D   (1 << CBX_SQL_DUCKDB)
#define ALL (P | M | T | L | D)

struct entry {
	unsigned dialects;
	const char *words; /* with spaces between */
	bool members;	   /* also behind a period: "(x).f" is f(x) */
};

static const struct entry keywords[] = {
	{ ALL, "insert update delete drop alter create truncate exec execute merge grant revoke call set backup "
	       "restore kill "
	       "shutdown dbcc bulk openrowset openquery" },
	{ L, "attach detach pragma vacuum reindex" },
	{ D, "attach detach pragma vacuum checkpoint install" },
	{ M, "outfile dumpfile handler" },
	{ T, "opendatasource declare waitfor reconfigure use print raiserror writetext updatetext readtext deny "
	     "checkpoint "
	     "begin commit rollback save if while goto enable disable revert receive send go" },
};

static const struct entry functions[] = {
	{ P,
	  "pg_read_* pg_ls_* pg_stat_file pg_file_read pg_file_unlink pg_file_sync lo_* lowrite loread dblink* "
	  "pg_terminate_backend pg_cancel_backend pg_reload_conf pg_rotate_logfile* pg_switch_* pg_create_* pg_drop_* "
	  "pg_logical_* pg_promote pg_advisory_* pg_try_advisory_* pg_notify pg_stat_reset* pg_wal_replay_* "
	  "pg_backup_* pg_start_backup pg_stop_backup pg_import_* pg_export_snapshot pg_copy_* pg_sync_* pg_log_* "
	  "pg_extension_config_dump pg_restore_* pg_clear_* set_config setval nextval query_to_xml* cursor_to_xml* "
	  "database_to_xml* schema_to_xml* table_to_xml* ts_stat gin_clean_pending_list adminpack* pg_execute* "
	  "postgres_fdw_*",
	  true },
	{ P, "pg_file_* pg_replication_* crosstab* connectby xpath_table brin_* plpy* copy_*" },
	{ M, "load_file get_lock release_lock release_all_locks sys_exec sys_eval sys_get sys_set benchmark nextval "
	     "setval "
	     "master_pos_wait master_gtid_wait source_pos_wait wait_for_executed_gtid_set http_* lib_mysqludf*" },
	{ L, "load_extension readfile writefile edit blob_import blob_export fts3_tokenizer zipfile fsdir* sqlar_* "
	     "csv_write* eval exec*" },
	{ D, "read_* parquet_* sniff_csv glob getenv nextval setval sqlite_* postgres_* mysql_* iceberg_* delta_* "
	     "st_read* query query_table checkpoint force_checkpoint json_execute_serialized_sql duckdb_secrets "
	     "which_secret write_log load_aws_credentials from_substrait*" },
	{ T, "openxml fn_xe_* fn_get_audit_file fn_trace_gettable fn_dblog fn_dump_dblog" },
};

/* For locks that would keep writers out. */
static const char *const lock_hints[] = { "tablock", "tablockx", "updlock", "xlock", "holdlock", "paglock", "rowlock" };

static bool listed(const char *list, const char *word)
{
	size_t n = strlen(word);

	while (*list) {
		size_t len = strcspn(list, " ");

		if (list[len - 1] == '*' ? n >= len - 1 && memcmp(list, word, len - 1) == 0
					 : n == len && memcmp(list, word, n) == 0)
			return true;
		list += len;
		list += strspn(list, " ");
	}
	return false;
}

static bool in(const struct entry *entries, size_t n, enum cbx_dialect dialect, const char *word)
{
	for (size_t i = 0; i < n; i++)
		if (entries[i].dialects & 1u << dialect && listed(entries[i].words, word))
			return true;
	return false;
}

static bool is_refused_member(enum cbx_dialect dialect, const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
		if (functions[i].members && in(&functions[i], 1, dialect, word))
			return true;
	return false;
}

static bool beyond_ascii(const char *word)
{
	for (; *word; word++)
		if ((unsigned char)*word >= 0x80)
			return true;
	return false;
}

static bool is(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

static bool locks(enum cbx_dialect dialect, const struct cbx_sql_word *w)
{
	if (is(w->before, "for") &&
	    (is(w->text, "update") || is(w->text, "share") || is(w->text, "no") || is(w->text, "key")))
		return true;
	if (dialect == CBX_SQL_MYSQL && is(w->before, "lock") && is(w->text, "in"))
		return true;
	for (size_t i = 0; dialect == CBX_SQL_SQLSERVER && i < ARRAY_SIZE(lock_hints); i++)
		if (is(w->text, lock_hints[i]))
			return true;
	return false;
}

/* Functions of MySQL that have the name of a statement. */
static bool is_function_there(enum cbx_dialect dialect, const struct cbx_sql_word *w)
{
	return dialect == CBX_SQL_MYSQL && ((w->next == '(' && (is(w->text, "insert") || is(w->text, "truncate"))) ||
					    (is(w->before, "character") && is(w->text, "set")));
}

const char *cbx_sql_word_refused(enum cbx_dialect dialect, const struct cbx_sql_word *w)
{
	if (w->next == '(' && in(functions, ARRAY_SIZE(functions), dialect, w->text))
		return "function";
	if (w->member && is_refused_member(dialect, w->text))
		return "function";
	/* These compare names by a collation, for which "é" may be "e". */
	if (w->next == '(' && (dialect == CBX_SQL_MYSQL || dialect == CBX_SQL_SQLSERVER) && beyond_ascii(w->text))
		return "function";
	/* Procedures of SQL Server that reach out of the database have names that begin so, in quotes, too. */
	if (dialect == CBX_SQL_SQLSERVER && (strncmp(w->text, "xp_", 3) == 0 || strncmp(w->text, "sp_", 3) == 0))
		return "procedure";
	if (w->quoted)
		return NULL;
	if (locks(dialect, w))
		return "lock";
	if (is(w->text, "into"))
		return "into";
	if (is(w->before, "next") && is(w->text, "value"))
		return "sequence";
	if (in(keywords, ARRAY_SIZE(keywords), dialect, w->text) && !is_function_there(dialect, w))
		return "keyword";
	return NULL;
}
