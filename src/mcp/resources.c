/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what resources there are. codebox://sessions is the list of sessions, codebox://sessions/ID one
 * of them, and below it are the files of its workspace. The list has pages that end at a session's end, and a cursor
 * names the session after which the next page begins, in the order of ids: it stays good whatever comes and goes.
 * Files of a session are listed up to a number, and up to the size of an answer; all of them can be read. The tables of
 * a file that is a database are a resource, too, which is listed where the file's name promises one. On the first page
 * are the list of images, codebox://images, and the databases: codebox://databases/NAME is what one has.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "mcp/serve.h"
#include "mcp/request.h"
#include "session/databases.h"
#include "tools/uri.h"

#define PAGE_MIN 100	  /* resources after which a page ends with its session */
#define AFTER	 "after:" /* cursors */

/* ---- templates ---- */

/* clang-format off */
#define TITLE(text) "\"title\":\"" text "\","
#define NO_TITLE(text) ""
#define TEMPLATES(title) \
	"[{\"uriTemplate\":\"" CBX_URI_FILE_TEMPLATE "\",\"name\":\"session_file\"," title("File of a session") \
	"\"description\":\"A file that code in a session can see. The path is relative to /workspace, or absolute.\"}," \
	"{\"uriTemplate\":\"" CBX_URI_FILE_DATABASE_TEMPLATE "\",\"name\":\"session_database\"," title("Tables of a database file") \
	"\"description\":\"Tables, columns and keys of a SQLite or DuckDB file in a session.\",\"mimeType\":\"application/json\"}," \
	"{\"uriTemplate\":\"" CBX_URI_SESSIONS "/{session_id}\",\"name\":\"session\"," title("Session") \
	"\"description\":\"State, limits and times of a session.\",\"mimeType\":\"application/json\"}]"
/* clang-format on */

void cbx_mcp_resources_templates(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	cJSON *result;

	if (!cbx_mcp_check_no_cursor(m, slot))
		return;
	result = cbx_json_new_obj();
	cbx_json_set(result, "resourceTemplates",
		     cJSON_CreateRaw(m->rev->titles ? TEMPLATES(TITLE) : TEMPLATES(NO_TITLE)));
	cbx_mcp_set_caching(result, m->rev, CBX_TTL_LIST_MS, true);
	cbx_rpc_answer(slot, result);
}

/* ---- list ---- */

struct listing {
	struct cbx_mcp_walk walk;
	cJSON *list;		/* resources */
	struct cbx_own_ids ids; /* sessions of this page and later ones */
	size_t at;		/* the session that is listed */
	size_t in_session, count;
	size_t bytes, bytes_max; /* of the answer, estimated from above */
};

static void listing_release(void *state)
{
	struct listing *l = state;

	cbx_own_ids_release(&l->ids);
	cJSON_Delete(l->list);
	free(l);
}

/* False: there is no room. */
static bool add_resource(struct listing *l, const struct cbx_mcp_revision *rev, const char *uri, const char *name,
			 const char *title, const char *mime, const uint64_t *size)
{
	size_t bytes = strlen(uri) + 6 * strlen(name) + (title ? 6 * strlen(title) : 0) + 256;
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

static void add_databases(struct listing *l, const struct cbx_mcp_message *m)
{
	_cleanup_json_ cJSON *all = m->mcp->client.caller.engine ? cbx_engine_databases(&m->mcp->client.caller) : NULL;
	const cJSON *database;

	cJSON_ArrayForEach(database, all) {
		const char *name = cbx_json_text(database, "name");
		_cleanup_free_ char *uri = cbx_xasprintf(CBX_URI_DATABASES "%s", name);
		_cleanup_free_ char *title = cbx_xasprintf("Tables of the database %s", name);

		add_resource(l, m->rev, uri, name, title, "application/json", NULL);
	}
}

static bool on_file(struct cbx_mcp_request *job, const struct cbx_mcp_walk_file *file)
{
	struct listing *l = job->state;
	_cleanup_buf_ struct cbx_buf uri = { 0 }, tables = { 0 };
	_cleanup_free_ char *title = NULL;

	if (++l->in_session > CBX_LIST_FILES_MAX)
		return false;
	cbx_file_uri(&uri, l->ids.v[l->at], file->path);
	if (!add_resource(l, job->rev, uri.data, file->path, NULL, cbx_mime_by_name(file->path), &file->size))
		return false;
	if (!cbx_file_database_uri(&tables, l->ids.v[l->at], file->path))
		return true;
	title = cbx_xasprintf("Tables of %s", file->path);
	return add_resource(l, job->rev, tables.data, title, title, "application/json", NULL);
}

static void end_listing(struct cbx_mcp_request *job)
{
	struct listing *l = job->state;
	cJSON *result = cbx_json_new_obj();

	cbx_json_set(result, "resources", take_ptr(&l->list));
	if (l->at < l->ids.n) {
		_cleanup_free_ char *cursor = cbx_xasprintf(AFTER "%s", l->ids.v[l->at - 1]);

		cbx_json_set_str(result, "nextCursor", cursor);
	}
	cbx_mcp_set_caching(result, job->rev, 0, false);
	cbx_mcp_request_end(job, result);
}

static void on_session_listed(struct cbx_mcp_request *job, const struct cbx_err *err);

/* Begin with the session at l->at, or end. A session that has gone, or is not ready, has no files to list. */
static void list_next(struct cbx_mcp_request *job)
{
	struct listing *l = job->state;

	for (; l->at < l->ids.n; l->at++) {
		const char *id = l->ids.v[l->at];
		_cleanup_free_ char *uri = cbx_xasprintf(CBX_URI_SESSIONS "/%s", id);
		_cleanup_free_ char *title = cbx_xasprintf("Session %s", id);
		struct cbx_err err;

		if (l->count >= PAGE_MIN && l->at) /* the cursor is the session before */
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

static void on_session_listed(struct cbx_mcp_request *job, const struct cbx_err *err)
{
	struct listing *l = job->state;

	l->at++;
	list_next(job);
}

void cbx_mcp_resources_list(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	const char *cursor = "", *after = NULL;
	struct cbx_mcp_request *job;
	struct listing *l;
	struct cbx_err err;

	if (cbx_json_get_str(m->params, "cursor", &cursor, &err) < 0 ||
	    (cursor[0] && (!cbx_starts_with(cursor, AFTER) || !cbx_name_valid(cursor + strlen(AFTER))))) {
		cbx_rpc_error(slot, CBX_RPC_INVALID_PARAMS, "Invalid params: unknown cursor; start again without one");
		return;
	}
	if (cursor[0])
		after = cursor + strlen(AFTER);
	l = cbx_xcalloc(1, sizeof(*l));
	l->list = cbx_json_new_arr();
	l->bytes_max = cbx_rpc_room(slot) - 1024;
	if (!after) {
		add_resource(l, m->rev, CBX_URI_SESSIONS, "sessions", "Sessions", "application/json", NULL);
		if (m->mcp->client.caller.engine)
			add_resource(l, m->rev, CBX_URI_IMAGES, "images", "Images", "application/json", NULL);
		add_databases(l, m);
	}
	l->ids = cbx_own_list(&m->mcp->client, cbx_mcp_has_own(m->mcp, m->rev), after);
	job = cbx_mcp_request_new(m, slot, l, listing_release);
	if (job)
		list_next(job);
}
