/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a job is what tools have as a call: the right to one answer, and a state that lives until then.
 * The number of jobs of a connection is bounded.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "mcp/request.h"

struct cbx_mcp_request *cbx_mcp_request_new(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot, void *state,
				    void (*release)(void *state))
{
	struct cbx_mcp_request *job;

	if (m->mcp->njobs >= CBX_JOBS_MAX) {
		release(state);
		cbx_rpc_error(slot, CBX_RPC_INTERNAL,
			      "%d requests for resources are running already; wait until some have been answered",
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

static void job_free(struct cbx_mcp_request *job)
{
	cbx_op_cancel(&job->file.op);
	cbx_op_cancel(&job->answer.op);
	TAILQ_REMOVE(&job->mcp->jobs, job, entry);
	job->mcp->njobs--;
	job->release(job->state);
	free(job);
}

void cbx_mcp_request_end(struct cbx_mcp_request *job, cJSON *result)
{
	cbx_rpc_answer(&job->slot, result);
	job_free(job);
}

void cbx_mcp_request_fail(struct cbx_mcp_request *job, int code, cJSON *data, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	cbx_rpc_errorv(&job->slot, code, data, fmt, ap);
	va_end(ap);
	job_free(job);
}

bool cbx_mcp_requests_cancel(struct cbx_mcp *mcp, const char *id)
{
	struct cbx_mcp_request *job;

	TAILQ_FOREACH(job, &mcp->jobs, entry) {
		if (job->slot.id && strcmp(job->slot.id, id) == 0) {
			cbx_rpc_drop(&job->slot);
			job_free(job);
			return true;
		}
	}
	return false;
}

void cbx_mcp_requests_drop(struct cbx_mcp *mcp)
{
	struct cbx_mcp_request *job;

	while ((job = TAILQ_FIRST(&mcp->jobs))) {
		cbx_rpc_drop(&job->slot);
		job_free(job);
	}
}

bool cbx_mcp_check_no_cursor(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	const char *cursor = "";
	struct cbx_err err;

	if (cbx_json_get_str(m->params, "cursor", &cursor, &err) >= 0 && !cursor[0])
		return true;
	cbx_rpc_error(slot, CBX_RPC_INVALID_PARAMS,
		      "Invalid params: unknown cursor; the list has one page, omit cursor");
	return false;
}

void cbx_mcp_no_method(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	cbx_rpc_error(slot, CBX_RPC_NO_METHOD, "Method not found: %.100s", m->method);
}
