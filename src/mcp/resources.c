/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what resources there are. codebox://sessions is the list of sessions, codebox://sessions/ID one
 * of them, and below it are the files of its workspace. The list has pages that end at a session's end, and a cursor
 * names the session after which the next page goes on, in the order of ids: it stays good whatever comes and goes.
 * Files of a session are listed up to a number, and up to the size of an answer; all of them can be read.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "mcp/internal.h"

#define PAGE_MIN 100 /* resources after which a page ends with its session */
#define AFTER "after:" /* cursors */

bool cbx_mcp_session_visible(const struct cbx_mcp *mcp, const struct cbx_mcp_revision *rev, const cJSON *info)
{
	const char *id = cbx_mcp_str_of(info, "session_id");

	if (!id)
		return false;
	if (!cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(info, "one_shot")))
		return true;
	return !rev->modern && strcmp(id, mcp->default_session) == 0;
}

/* ---- templates ---- */

static void add_template(cJSON *list, const char *uri, const char *name, const char *title, const char *description,
			 const char *mime, const struct cbx_mcp_revision *rev)
{
	cJSON *t = cbx_json_new_obj();

	cbx_json_set_str(t, "uriTemplate", uri);
	cbx_json_set_str(t, "name", name);
	if (rev->titles)
		cbx_json_set_str(t, "title", title);
	cbx_json_set_str(t, "description", description);
	cbx_json_set_str(t, "mimeType", mime);
	cbx_json_push(list, t);
}

void cbx_mcp_resources_templates(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot)
{
	cJSON *result, *list;

	if (!cbx_mcp_check_no_cursor(m, slot))
		return;
	result = cbx_json_new_obj();
	list = cbx_json_new_arr();
	add_template(list, CBX_URI_FILE_TEMPLATE, "session_file", "File of a session",
		     "A file that code in a session can see. The path is relative to /workspace, or absolute.", NULL,
		     m->rev);
	add_template(list, CBX_URI_SESSIONS "/{session_id}", "session", "Session",
		     "State, limits and times of a session.", "application/json", m->rev);
	cbx_json_set(result, "resourceTemplates", list);
	cbx_mcp_set_caching(result, m->rev, CBX_TTL_LIST_MS, true);
	cbx_mcp_answer(m->mcp, slot, result);
}

/* ---- list ---- */

struct listing {
	struct cbx_mcp_walk walk;
	cJSON *list;    /* resources */
	char **ids;     /* sessions of this page and later ones, sorted */
	size_t nids, at; /* at: the session that is listed */
	size_t in_session, count;
	size_t bytes, bytes_max; /* of the answer, estimated from above */
};

static void listing_release(void *state)
{
	struct listing *l = state;

	for (size_t i = 0; i < l->nids; i++)
		free(l->ids[i]);
	free(l->ids);
	cJSON_Delete(l->list);
	free(l);
}

/* False: there is no room. */
static bool add_resource(struct listing *l, const struct cbx_mcp_revision *rev, const char *uri, const char *name,
			 const char *title, const char *mime, const uint64_t *size)
{
	size_t bytes = strlen(uri) + 6 * strlen(name) + 256;
	cJSON *r;

	if (l->bytes + bytes > l->bytes_max)
		return false;
	l->bytes += bytes;
	l->count++;
	r = cbx_json_new_obj();
	cbx_json_set_str(r, "uri", uri);
	cbx_json_set_str(r, "name", name);
	if (rev->titles && title)
		cbx_json_set_str(r, "title", title);
	cbx_json_set_str(r, "mimeType", mime);
	if (size)
		cbx_json_set_u64(r, "size", *size);
	cbx_json_push(l->list, r);
	return true;
}

static bool on_file(struct cbx_mcp_job *job, const struct cbx_mcp_walk_file *file)
{
	struct listing *l = job->state;
	_cleanup_buf_ struct cbx_buf uri = { 0 };

	if (++l->in_session > CBX_LIST_FILES_MAX)
		return false;
	cbx_file_uri(&uri, l->ids[l->at], file->path);
	return add_resource(l, job->rev, uri.data, file->path, NULL, cbx_mime_by_name(file->path), &file->size);
}

static void end_listing(struct cbx_mcp_job *job)
{
	struct listing *l = job->state;
	cJSON *result = cbx_json_new_obj();

	cbx_json_set(result, "resources", take_ptr(&l->list));
	if (l->at < l->nids) {
		_cleanup_free_ char *cursor = cbx_xasprintf(AFTER "%s", l->ids[l->at - 1]);

		cbx_json_set_str(result, "nextCursor", cursor);
	}
	cbx_mcp_set_caching(result, job->rev, 0, false);
	cbx_mcp_job_end(job, result);
}

static void on_session_listed(struct cbx_mcp_job *job, const struct cbx_err *err);

/* Begin with the session at l->at, or end. A session that has gone, or is not ready, has no files to list. */
static void list_next(struct cbx_mcp_job *job)
{
	struct listing *l = job->state;

	for (; l->at < l->nids; l->at++) {
		const char *id = l->ids[l->at];
		_cleanup_free_ char *uri = cbx_xasprintf(CBX_URI_SESSIONS "/%s", id);
		_cleanup_free_ char *title = cbx_xasprintf("Session %s", id);
		struct cbx_err err;

		if (l->count >= PAGE_MIN)
			break;
		if (!add_resource(l, job->rev, uri, id, title, "application/json", NULL) && l->at)
			break;
		memset(&l->walk, 0, sizeof(l->walk));
		memcpy(l->walk.session_id, id, strlen(id) + 1);
		l->walk.see = on_file;
		l->walk.done = on_session_listed;
		l->in_session = 0;
		if (cbx_mcp_walk(&l->walk, job, &err) >= 0)
			return;
	}
	end_listing(job);
}

static void on_session_listed(struct cbx_mcp_job *job, const struct cbx_err *err)
{
	struct listing *l = job->state;

	l->at++;
	list_next(job);
}

/* The sessions after the cursor's, sorted. */
static void find_sessions(struct listing *l, const struct cbx_mcp_message *m, const char *after)
{
	_cleanup_json_ cJSON *all = cbx_session_list(m->mcp->engine);
	const cJSON *s;

	cJSON_ArrayForEach(s, all) {
		const char *id = cbx_mcp_str_of(s, "session_id");

		if (!cbx_mcp_session_visible(m->mcp, m->rev, s) || strlen(id) > CBX_NAME_MAX ||
		    (after && strcmp(id, after) <= 0))
			continue;
		l->ids = cbx_xrealloc(l->ids, (l->nids + 1) * sizeof(*l->ids));
		l->ids[l->nids++] = cbx_xstrdup(id);
	}
	if (l->nids)
		qsort(l->ids, l->nids, sizeof(*l->ids), cbx_by_name);
}

void cbx_mcp_resources_list(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot)
{
	const char *cursor = "", *after = NULL;
	struct cbx_mcp_job *job;
	struct listing *l;
	struct cbx_err err;

	if (cbx_json_get_str(m->params, "cursor", &cursor, &err) < 0 ||
	    (cursor[0] && (!cbx_starts_with(cursor, AFTER) || !cbx_name_valid(cursor + strlen(AFTER))))) {
		cbx_mcp_error(m->mcp, slot, CBX_RPC_INVALID_PARAMS,
			      "Invalid params: unknown cursor; start again without one");
		return;
	}
	if (cursor[0])
		after = cursor + strlen(AFTER);
	l = cbx_xcalloc(1, sizeof(*l));
	l->list = cbx_json_new_arr();
	l->bytes_max = cbx_mcp_room(slot) - 1024;
	if (!after)
		add_resource(l, m->rev, CBX_URI_SESSIONS, "sessions", "Sessions", "application/json", NULL);
	find_sessions(l, m, after);
	job = cbx_mcp_job_new(m, slot, l, listing_release);
	if (job)
		list_next(job);
}
