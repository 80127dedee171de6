/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a walk asks the session for one page of names after another, and looks the session up anew for
 * each, since it may be gone by then. A tree that grows while it is walked cannot keep the walk going: the number of
 * files is bounded.
 */
#include <string.h>

#include "mcp/internal.h"
#include "sandbox/init-protocol.h"

#define WALK_MAX 20000 /* files */

static int ask(struct cbx_mcp_walk *w, struct cbx_err *err);

/* False: enough was seen. The entries were checked by session.h's side. */
static bool see_all(struct cbx_mcp_walk *w, const struct cbx_file_reply *reply)
{
	const char *p = reply->data;

	for (int64_t i = 0; i < reply->value; i++) {
		struct cbx_mcp_walk_file file;
		struct cbx_init_entry e;

		memcpy(&e, p, sizeof(e));
		file.path = p + sizeof(e);
		file.size = e.st.size;
		p += e.entry_len;
		if (++w->seen > WALK_MAX || !w->see(w->job, &file))
			return false;
	}
	return reply->value > 0;
}

static void on_page(void *arg, const struct cbx_file_reply *reply, const struct cbx_err *fault)
{
	struct cbx_mcp_walk *w = arg;
	struct cbx_mcp_job *job = w->job;
	struct cbx_err err;

	if (!cbx_mcp_job_wanted(job))
		return;
	if (fault)
		w->done(job, fault);
	else if (!see_all(w, reply) || !reply->more)
		w->done(job, NULL);
	else if (ask(w, &err) < 0)
		w->done(job, &err);
}

static int ask(struct cbx_mcp_walk *w, struct cbx_err *err)
{
	struct cbx_session *session;
	int r = cbx_session_find(w->job->mcp->engine, w->session_id, &session, err);

	if (r >= 0)
		r = cbx_session_file_scan(session, ".", w->seen, on_page, w, err);
	return r;
}

int cbx_mcp_walk(struct cbx_mcp_walk *w, struct cbx_mcp_job *job, struct cbx_err *err)
{
	w->job = job;
	w->seen = 0;
	return ask(w, err);
}
