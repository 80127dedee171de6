/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a walk asks the session for one page of names after another, and looks the session up anew for
 * each, since it may be gone by then. A tree that grows while it is walked cannot keep the walk going: the number of
 * files is bounded.
 */
#include <string.h>

#include "mcp/request.h"

#define WALK_MAX  20000 /* files */
#define PAGES_MAX 32	/* for each the session looks at the whole tree anew */

static int ask(struct cbx_mcp_walk *w, struct cbx_err *err);

/* False: enough was seen. */
static bool see_all(struct cbx_mcp_walk *w, const struct cbx_file_reply *reply)
{
	for (size_t i = 0; i < reply->nentries; i++) {
		struct cbx_mcp_walk_file file = { .path = reply->entries[i].name, .size = reply->entries[i].size };

		w->cut = ++w->seen > WALK_MAX;
		if (w->cut || !w->see(w->job, &file))
			return false;
	}
	w->cut = reply->cut || (reply->more && ++w->pages >= PAGES_MAX);
	return reply->nentries > 0 && !w->cut;
}

static void on_page(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *fault)
{
	struct cbx_mcp_request *job = cbx_container_of(op, struct cbx_mcp_request, file);
	struct cbx_mcp_walk *w = job->walk;
	struct cbx_err err;

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
	int r = cbx_session_find(&w->job->mcp->client.caller, w->session_id, &session, err);

	w->job->file = (struct cbx_file_op){ .op.ops = &w->job->mcp->client.caller.ops, .done = on_page };
	if (r >= 0)
		r = cbx_session_file_scan(session, ".", w->seen, &w->job->file, err);
	return r;
}

int cbx_mcp_walk(struct cbx_mcp_walk *w, struct cbx_mcp_request *job, struct cbx_err *err)
{
	w->job = job;
	job->walk = w;
	w->seen = w->pages = 0;
	w->cut = false;
	return ask(w, err);
}
