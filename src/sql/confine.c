/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the process of a query reads what drivers, the C library and TLS read, and the database where it
 * is a file. It writes no file at all, and starts no program. A file needs no network, and gets as little as it can:
 * SQLite works in this very process, and its driver has functions that read files (blob_import()).
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "sandbox/worker.h"
#include "sql/worker.h"

int cbx_sql_confine(const struct cbx_filter *filter, const struct cbx_sql_job *job, struct cbx_err *err)
{
	bool file = job->dialect == CBX_SQL_SQLITE;
	/* SQLite follows links first, and looks for a journal beside what they lead to. */
	_cleanup_free_ char *real = file ? realpath(job->database, NULL) : NULL;
	_cleanup_free_ char *wal = real ? cbx_xasprintf("%s-wal", real) : NULL;
	_cleanup_free_ char *shm = real ? cbx_xasprintf("%s-shm", real) : NULL;
	_cleanup_free_ char *journal = real ? cbx_xasprintf("%s-journal", real) : NULL;
	const char *const of_file[] = { "/usr",
					"/lib",
					"/lib64",
					"/dev/null",
					"/dev/urandom",
					"/etc/odbc.ini",
					"/etc/odbcinst.ini",
					"/etc/unixODBC",
					"/etc/ld.so.cache",
					"/etc/localtime",
					real,
					wal,
					shm,
					journal };
	const char *const of_server[] = { "/etc", "/usr", "/lib", "/lib64", "/dev/null", "/dev/urandom", job->ca };
	const struct cbx_worker w = { .readable = file ? of_file : of_server,
				      .nreadable = file ? ARRAY_SIZE(of_file) : ARRAY_SIZE(of_server),
				      .network = !file,
				      .dir = -1,
				      .file_bytes = 0,
				      .descriptors = 64,
				      .memory_bytes = CBX_SQL_MEMORY_MAX,
				      .cpu_s = job->timeout_ms / 1000 + 10 };

	return cbx_worker_confine(&w, filter, err) < 0 ? cbx_wrap(err, "confine the process that asks the database") : 0;
}
