/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SESSION_JOBS_H
#define CBX_SESSION_JOBS_H

/* What codeboxd has done by programs that wait for jobs: codebox-packages (packages/job.h), codebox-sql (sql/job.h). */
#include <event2/event.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

struct cbx_jobs;

struct cbx_jobs_program {
	const char *name, *does; /* "codebox-packages", "installs packages" */
	const char *kind;	 /* of the error when it has ended */
};

/* store: of packages, and own the name of this daemon's directory in it, which is removed at the end; both may be NULL.
 * Before codeboxd confines itself. */
int cbx_jobs_new(struct event_base *base, const struct cbx_jobs_program *program, const char *libexec_dir,
		 const char *store, const char *own, struct cbx_jobs **ret, struct cbx_err *err);
void cbx_jobs_free(struct cbx_jobs *jobs); /* NULL-safe */

/* One job: part of whoever waits for it. */
struct cbx_job {
	void (*done)(struct cbx_job *j); /* it has ended, one way or another; never from inside cbx_job_begin() */
	/* Optional: there is more in `got`, of which what was understood is dropped. It may pause the job, or end it.
	 */
	void (*some)(struct cbx_job *j);
	size_t max; /* bytes of its answer, or in `got`; more: an error */
	bool talks; /* more is said later, by cbx_job_say() */
	/* Of jobs.c. */
	const struct cbx_jobs_program *program;
	int fd;
	struct event *in, *out;
	struct cbx_buf send, got;
};

int cbx_job_begin(struct cbx_jobs *jobs, struct cbx_job *j, const cJSON *what, struct cbx_err *err);
/* The same, with bytes that follow, behind the end of the line. */
int cbx_job_begin_bytes(struct cbx_jobs *jobs, struct cbx_job *j, const cJSON *what, const void *p, size_t n,
			struct cbx_err *err);
/* A further line, of a job that talks. */
void cbx_job_say(struct cbx_job *j, const cJSON *what);
/* When it is done: the answer's first line, and where in `got` the rest begins; or the error that it is. */
int cbx_job_read(const struct cbx_job *j, cJSON **ret, size_t *ret_rest, struct cbx_err *err);
void cbx_job_pause(struct cbx_job *j, bool on); /* its answer is not read */
/* Whether or not it is done. */
void cbx_job_end(struct cbx_job *j);

#endif
