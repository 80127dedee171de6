/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a client of the era with a handshake may have roots: directories that its user works in. Where
 * the policy takes them, they are mounted, read-only, into sessions that name no mounts themselves. They are asked for
 * when the first call comes that may make a session; that call, and those that come meanwhile, are held until the
 * answer is there, but not for long: a client that does not answer gets sessions without. What was answered holds until
 * the client says that it has changed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/timer.h"
#include "mcp/call.h"
#include "tools/uri.h"

void cbx_mcp_roots_initialize(struct cbx_mcp *mcp, const cJSON *params)
{
	const cJSON *capabilities = cbx_json_member(params, "capabilities");

	mcp->roots.declared = cJSON_IsObject(cbx_json_member(capabilities, "roots"));
}

void cbx_mcp_roots_changed(struct cbx_mcp *mcp)
{
	mcp->roots.known = false;
	mcp->roots.stale = mcp->roots.asked; /* the answer that is on its way may be from before */
}

void cbx_mcp_roots_drop(struct cbx_mcp *mcp)
{
	cbx_event_free_p(&mcp->roots.late);
	cJSON_Delete(mcp->roots.mounts);
}

/* ---- the answer ---- */

/* "file:///home/a%20b" as a path; malloc'd, NULL: it is not such an address. */
static char *path_of(const char *uri)
{
	_cleanup_free_ char *path = NULL;
	size_t n;

	if (cbx_starts_with(uri, "file://localhost/"))
		uri += strlen("file://localhost");
	else if (cbx_starts_with(uri, "file:///"))
		uri += strlen("file://");
	else
		return NULL;
	path = cbx_percent_decode(uri, strcspn(uri, "?#"));
	if (!path || !cbx_utf8_valid(path, strlen(path)))
		return NULL;
	for (n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
		path[n - 1] = '\0';
	return take_ptr(&path);
}

static cJSON *mounts_of(const cJSON *answer)
{
	const cJSON *list = cbx_json_member(cbx_json_member(answer, "result"),
							     "roots"),
		    *v;
	cJSON *mounts = cbx_json_new_arr();
	size_t n = 0;

	cJSON_ArrayForEach(v, list) {
		const char *uri = cbx_json_text(v, "uri");
		_cleanup_free_ char *path = uri ? path_of(uri) : NULL;
		cJSON *m;

		if (!path || n++ >= CBX_ROOTS_MAX)
			continue;
		m = cbx_json_new_obj();
		cbx_json_set_str(m, "source", path);
		cbx_json_push(mounts, m);
	}
	return mounts;
}

/* Answered, or given up: those who waited continue. */
static void settled(struct cbx_mcp *mcp)
{
	mcp->roots.known = !mcp->roots.stale;
	mcp->roots.stale = false;
	if (mcp->roots.late)
		event_del(mcp->roots.late);
	mcp->roots.settled(mcp);
}

void cbx_mcp_roots_answered(struct cbx_mcp *mcp, const cJSON *answer)
{
	const cJSON *id = cbx_json_member(answer, "id");

	if (!mcp->roots.asked || !cJSON_IsString(id) || strcmp(id->valuestring, mcp->roots.id) != 0)
		return;
	mcp->roots.asked = false;
	cJSON_Delete(mcp->roots.mounts);
	mcp->client.roots = mcp->roots.mounts = mounts_of(answer);
	settled(mcp);
}

static void late(evutil_socket_t fd, short what, void *arg)
{
	/* An answer that comes after all is for the next session. */
	settled(arg);
}

void cbx_mcp_roots_give_up(struct cbx_mcp *mcp)
{
	mcp->roots.declared = false;
	if (mcp->roots.late && event_pending(mcp->roots.late, EV_TIMEOUT, NULL))
		settled(mcp);
}

/* ---- asking ---- */

static bool ask(struct cbx_mcp_call *call)
{
	struct cbx_mcp *mcp = call->mcp;
	struct timeval tv = { CBX_ROOTS_WAIT_MS / 1000, CBX_ROOTS_WAIT_MS % 1000 * 1000 };
	_cleanup_buf_ struct cbx_buf none = { 0 };

	if (!mcp->roots.late)
		mcp->roots.late = event_new(mcp->client.base, -1, 0, late, mcp);
	if (!mcp->roots.late || event_add(mcp->roots.late, &tv) < 0)
		return false;
	snprintf(mcp->roots.id, sizeof(mcp->roots.id), "roots-%u", ++mcp->roots.count);
	mcp->roots.asked = true;
	cbx_buf_adds(&none, "{}");
	cbx_rpc_request(&call->slot, mcp->roots.id, "roots/list", &none);
	return true;
}

static bool may_make_a_session(const struct cbx_mcp_call *call, const cJSON *args)
{
	unsigned hints = call->tool.tool->hints;

	if (hints & CBX_TOOL_MAKES_SESSION)
		return !cbx_json_member(args, "mounts");
	return !(hints & CBX_TOOL_READ_ONLY) && !call->mcp->client.default_session[0] &&
	       !cbx_json_member(args, "session_id");
}

bool cbx_mcp_roots_wait(struct cbx_mcp_call *call, const cJSON *args)
{
	struct cbx_mcp *mcp = call->mcp;

	if (!mcp->roots.declared || call->rev->modern || mcp->roots.known || !mcp->client.caller.engine ||
	    !cbx_engine_takes_roots(&mcp->client.caller) || !may_make_a_session(call, args))
		return false;
	return (mcp->roots.asked && event_pending(mcp->roots.late, EV_TIMEOUT, NULL)) || ask(call);
}
