/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: arguments that several tools have: which session is meant, and which of its files. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "tools/internal.h"
#include "tools/uri.h"

int cbx_tool_arg_session(struct cbx_tool_call *call, const cJSON *args, struct cbx_session **ret, struct cbx_err *err)
{
	const char *id = NULL;
	int r = cbx_json_get_str(args, "session_id", &id, err);

	if (r < 0)
		return r;
	if (!id && call->own && call->client->default_session[0]) {
		r = cbx_own_find(call->client, ret, err);
		if (r < 0 && cbx_own_named(call->client) && strcmp(err->kind, "session_not_found") == 0)
			return cbx_refuse(err, "invalid_argument", ENOENT,
					  "session %s, which this server was started with, does not exist yet; make it "
					  "with run_code or write_file",
					  call->client->default_session);
	} else if (!id) {
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  call->own ? "this connection has no session of its own yet: run_code and write_file "
					      "make it; or pass the session_id of another, from list_sessions"
					    : "missing argument: session_id; pass an id from list_sessions or from "
					      "run_code's answer");
	} else {
		r = cbx_session_find(&call->client->caller, id, ret, err);
	}
	if (r >= 0)
		snprintf(call->session_id, sizeof(call->session_id), "%s", cbx_session_id(*ret));
	return r;
}

int cbx_tool_own_session(struct cbx_tool_call *call, struct cbx_session **ret, struct cbx_err *err)
{
	int r = cbx_own_get(call->client, call->takes_roots, ret, &call->notice, err);

	if (r < 0)
		return r;
	snprintf(call->session_id, sizeof(call->session_id), "%s", cbx_session_id(*ret));
	call->client->default_used = true;
	return 0;
}

int cbx_tool_arg_file_session(struct cbx_tool_call *call, const cJSON *args, const char *key, struct cbx_session **ret,
			      struct cbx_err *err)
{
	const char *path = cbx_json_text(args, key), *id = NULL;
	int r = cbx_json_get_str(args, "session_id", &id, err);
	struct cbx_uri uri;

	if (r < 0 || id || !path || !cbx_starts_with(path, "codebox://"))
		return r < 0 ? r : cbx_tool_arg_session(call, args, ret, err);
	uri = cbx_uri_parse(path);
	r = uri.kind == CBX_URI_FILE ? cbx_session_find(&call->client->caller, uri.session_id, ret, err)
				     : cbx_tool_arg_session(call, args, ret, err);
	if (r >= 0)
		snprintf(call->session_id, sizeof(call->session_id), "%s", cbx_session_id(*ret));
	cbx_uri_release(&uri);
	return r;
}

int cbx_tool_arg_path(struct cbx_tool_call *call, const cJSON *args, const char *key, char **ret, struct cbx_err *err)
{
	const char *path = NULL;
	struct cbx_uri uri;
	int r = cbx_json_get_str(args, key, &path, err);

	if (r <= 0 || !path[0])
		return r < 0 ? r
			     : cbx_refuse(err, "invalid_argument", EINVAL, "missing argument: %s; pass a path", key);
	if (!cbx_starts_with(path, "codebox://")) {
		*ret = cbx_xstrdup(path);
		return 0;
	}
	uri = cbx_uri_parse(path);
	if (uri.kind == CBX_URI_FILE && strcmp(uri.session_id, call->session_id) == 0)
		*ret = take_ptr(&uri.path);
	else
		r = cbx_refuse(
			err, "invalid_argument", EINVAL,
			"%s: %.200s is not the address of a file of session %s; pass one of that session, or a path",
			key, path, call->session_id);
	cbx_uri_release(&uri);
	return r < 0 ? r : 0;
}
