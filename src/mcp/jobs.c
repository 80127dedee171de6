/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a job is what tools have as a call: the right to one answer, and a state that lives until the
 * engine has made the callback that it owes. A client that cancels, or goes away, takes the answer but not the memory;
 * the callback finds nobody waiting and frees it. The number of jobs of a connection is bounded, those that nobody
 * waits for any more included.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "mcp/internal.h"

struct cbx_mcp_job *cbx_mcp_job_new(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot, void *state,
				    void (*release)(void *state))
{
	struct cbx_mcp_job *job;

	if (m->mcp->njobs >= CBX_JOBS_MAX) {
		release(state);
		cbx_mcp_error(m->mcp, slot, CBX_RPC_INTERNAL,
			      "%d requests for files are going on already; wait until some have been answered",
			      CBX_JOBS_MAX);
		return NULL;
	}
	job = cbx_xcalloc(1, sizeof(*job));
	job->mcp = m->mcp;
	job->rev = m->rev;
	job->slot = *slot;
	job->state = state;
	job->release = release;
	memset(slot, 0, sizeof(*slot));
	TAILQ_INSERT_TAIL(&m->mcp->jobs, job, entry);
	m->mcp->njobs++;
	return job;
}

static void leave(struct cbx_mcp_job *job)
{
	TAILQ_REMOVE(&job->mcp->jobs, job, entry);
	job->mcp->njobs--;
	job->mcp = NULL;
}

static void job_free(struct cbx_mcp_job *job)
{
	job->release(job->state);
	free(job);
}

void cbx_mcp_job_end(struct cbx_mcp_job *job, cJSON *result)
{
	cbx_mcp_answer(job->mcp, &job->slot, result);
	leave(job);
	job_free(job);
}

void cbx_mcp_job_fail(struct cbx_mcp_job *job, int code, cJSON *data, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	cbx_mcp_errorv(job->mcp, &job->slot, code, data, fmt, ap);
	va_end(ap);
	leave(job);
	job_free(job);
}

bool cbx_mcp_job_wanted(struct cbx_mcp_job *job)
{
	if (job->mcp && !job->cancelled)
		return true;
	if (job->mcp)
		leave(job);
	job_free(job);
	return false;
}


bool cbx_mcp_jobs_cancel(struct cbx_mcp *mcp, const char *id)
{
	struct cbx_mcp_job *job;

	TAILQ_FOREACH(job, &mcp->jobs, entry) {
		if (!job->cancelled && job->slot.id && strcmp(job->slot.id, id) == 0) {
			cbx_mcp_drop(mcp, &job->slot);
			job->cancelled = true;
			return true;
		}
	}
	return false;
}

void cbx_mcp_jobs_drop(struct cbx_mcp *mcp)
{
	struct cbx_mcp_job *job;

	while ((job = TAILQ_FIRST(&mcp->jobs))) {
		if (!job->cancelled)
			cbx_mcp_drop(mcp, &job->slot);
		leave(job);
	}
}
