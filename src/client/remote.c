/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: one request, one answer. Answers describe what a sandbox says of itself: lengths are checked,
 * and what is not understood is an error, never a guess. */
#include "client/remote.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "client/protocol.h"

static cJSON *params_for(const struct cbx_remote *r, const char *path)
{
	cJSON *params = cbx_json_new_obj();

	cbx_json_set_str(params, "session_id", r->session);
	cbx_json_set_str(params, "path", path);
	return params;
}

void cbx_remote_parse_stat(const cJSON *obj, struct cbx_remote_stat *ret)
{
	static const char *const types[] = { [CBX_REMOTE_FILE] = "file",
					     [CBX_REMOTE_DIRECTORY] = "directory",
					     [CBX_REMOTE_SYMLINK] = "symlink" };
	double size = cbx_json_number(obj, "size", 0), mode = cbx_json_number(obj, "mode", 0);
	int type = cbx_find_word(cbx_json_text(obj, "type"), types, ARRAY_SIZE(types));

	ret->type = type < 0 ? CBX_REMOTE_OTHER : (enum cbx_remote_type)type;
	ret->size = size > 0 && size < 9e15 ? (uint64_t)size : 0;
	ret->mode = mode > 0 && mode < 1e6 ? (uint32_t)mode : 0;
}

int cbx_remote_stat(const struct cbx_remote *r, const char *path, struct cbx_remote_stat *ret, struct cbx_err *err)
{
	_cleanup_json_ cJSON *result = NULL;
	int e = cbx_client_call(r->client, "file.stat", params_for(r, path), &result, err);

	if (e < 0)
		return e;
	cbx_remote_parse_stat(result, ret);
	return 0;
}

int cbx_remote_read(const struct cbx_remote *r, const char *path, uint64_t offset, struct cbx_buf *buf, bool *ret_eof,
		    struct cbx_err *err)
{
	_cleanup_json_ cJSON *result = NULL, *params = params_for(r, path);
	size_t before = buf->len;
	const char *data;
	int e;

	cbx_json_set_u64(params, "offset", offset);
	cbx_json_set_u64(params, "length", CBX_CONTROL_CHUNK);
	e = cbx_client_call(r->client, "file.read", take_ptr(&params), &result, err);
	if (e < 0)
		return e;
	data = cbx_json_text(result, "data");
	if (!data || cbx_base64_decode(buf, data, strlen(data)) < 0)
		return cbx_refuse(err, "invalid_answer", EBADMSG, "%s: codeboxd sent data that cannot be decoded",
				  path);
	*ret_eof = cJSON_IsTrue(cbx_json_member(result, "eof"));
	/* Nothing, and yet not the end, would repeat for ever. */
	if (buf->len == before)
		*ret_eof = true;
	return 0;
}

int cbx_remote_write(const struct cbx_remote *r, const char *path, uint64_t offset, const void *p, size_t n,
		     bool executable, struct cbx_err *err)
{
	_cleanup_json_ cJSON *result = NULL, *params = params_for(r, path);
	_cleanup_buf_ struct cbx_buf text = { 0 };
	int e;

	cbx_base64_encode(&text, p, n);
	cbx_json_set_str(params, "data", cbx_buf_str(&text));
	cbx_json_set_u64(params, "offset", offset);
	cbx_json_set_bool(params, "truncate", offset == 0);
	cbx_json_set_bool(params, "executable", executable);
	e = cbx_client_call(r->client, "file.write", take_ptr(&params), &result, err);
	if (e < 0)
		return e;
	if (cbx_json_number(result, "written", (double)n) != (double)n)
		return cbx_refuse(
			err, "disk_full", ENOSPC,
			"%s: the session's disk is full; remove files of it, or use a session with more (limits.disk)",
			path);
	return 0;
}

int cbx_remote_mkdir(const struct cbx_remote *r, const char *path, struct cbx_err *err)
{
	struct cbx_remote_stat st;
	int e = cbx_client_call(r->client, "file.mkdir", params_for(r, path), NULL, err);
	struct cbx_err ignored;

	if (e < 0 && cbx_remote_stat(r, path, &st, &ignored) == 0 && st.type == CBX_REMOTE_DIRECTORY)
		return 0;
	return e;
}

int cbx_remote_list(const struct cbx_remote *r, const char *path, uint64_t skip, cJSON **ret_entries, bool *ret_more,
		    struct cbx_err *err)
{
	_cleanup_json_ cJSON *result = NULL, *params = params_for(r, path);
	int e;

	cbx_json_set_u64(params, "skip", skip);
	e = cbx_client_call(r->client, "file.list", take_ptr(&params), &result, err);
	if (e < 0)
		return e;
	*ret_more = cJSON_IsTrue(cbx_json_member(result, "more"));
	*ret_entries = cJSON_DetachItemFromObjectCaseSensitive(result, "entries");
	if (!cJSON_IsArray(*ret_entries)) {
		cJSON_Delete(take_ptr(ret_entries));
		return cbx_refuse(err, "invalid_answer", EBADMSG, "%s: codeboxd sent no list", path);
	}
	return 0;
}
