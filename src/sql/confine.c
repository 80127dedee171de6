/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the process of a query reads what drivers, the C library and TLS read, and the database where it
 * is a file. It writes no file at all, and starts no program. A file needs no network.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "sandbox/worker.h"
#include "sql/worker.h"

int cbx_sql_confine(const struct cbx_filter *filter, const struct cbx_sql_job *job, struct cbx_err *err)
{
	bool file = job->dialect == CBX_SQL_SQLITE;
	/* Beside the file there may be its journal, which is read as well. */
	_cleanup_free_ char *dir = file ? cbx_xstrdup(job->database) : NULL;
	const char *const readable[] = { "/etc", "/usr", "/lib", "/lib64", "/dev/null", "/dev/urandom", dir };
	const struct cbx_worker w = { .readable = readable,
				      .nreadable = ARRAY_SIZE(readable),
				      .network = !file,
				      .dir = -1,
				      .file_bytes = 0,
				      .descriptors = 64,
				      .memory_bytes = CBX_SQL_MEMORY_MAX,
				      .cpu_s = job->timeout_ms / 1000 + 10 };
	char *slash = dir ? strrchr(dir, '/') : NULL;

	if (slash)
		slash[slash == dir] = '\0';
	return cbx_worker_confine(&w, filter, err) < 0 ? cbx_wrap(err, "confine the process that asks the database") : 0;
}
