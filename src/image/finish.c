/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: an ordinary session, used as any client would use it: one cell, then one file read in chunks.
 * What to do is handed to the script as JSON in a string literal, which is also a Python string literal.
 */
#include "image/finish.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "client/remote.h"
#include "image/image-limits.h"
#include "image/progress.h"

#define ARCHIVE	   "/workspace/finished.tar.gz" /* where the script leaves it */
#define FAILED	   "finish_failed"		/* kind of error: the script ran, and did not end well */
#define SCRIPT_MAX KIB(64)

static int make_code(int script, const cJSON *compile, const cJSON *warm, struct cbx_buf *code, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf json = { 0 }, literal = { 0 };
	_cleanup_json_ cJSON *config = cbx_json_new_obj(), *text = NULL;
	int r;

	cbx_json_set(config, "compile", compile ? cJSON_Duplicate(compile, 1) : cbx_json_new_arr());
	cbx_json_set(config, "warm", warm ? cJSON_Duplicate(warm, 1) : cbx_json_new_arr());
	cbx_json_set_str(config, "archive", ARCHIVE);
	cbx_json_print(&json, config);
	text = cJSON_CreateString(cbx_buf_str(&json));
	cbx_json_print(&literal, text);
	cbx_buf_addf(code, "CONFIG = %s\n", cbx_buf_str(&literal));
	r = cbx_read_whole(script, SCRIPT_MAX, code);
	return r < 0 ? cbx_fail(err, -r, "read the script that compiles") : 0;
}

/* ret: the session's description. */
static int open_session(struct cbx_client *client, const char *image, char *ret_id, cJSON **ret, struct cbx_err *err)
{
	_cleanup_json_ cJSON *params = cbx_json_new_obj(), *answer = NULL;
	const char *id = NULL;
	int r;

	cbx_json_set_str(params, "image", image);
	cbx_json_set_u64(params, "memory", CBX_FINISH_MEMORY);
	cbx_json_set_u64(params, "disk", CBX_FINISH_DISK);
	cbx_json_set_u64(params, "timeout", CBX_FINISH_TIMEOUT_S);
	r = cbx_client_call(client, "session.create", take_ptr(&params), &answer, err);
	if (r == 0)
		r = cbx_json_get_str(answer, "session_id", &id, err);
	if (r < 0)
		return r;
	if (!id || !cbx_name_valid(id))
		return cbx_refuse(err, "daemon", EPROTO, "codeboxd answered without a session's id");
	strcpy(ret_id, id);
	*ret = take_ptr(&answer);
	return 0;
}

/* The script came to no good end: was it the policy that gave it too little? */
static int blame(const cJSON *session, struct cbx_err *err)
{
	const cJSON *policy = NULL, *lowered = NULL, *v;
	_cleanup_buf_ struct cbx_buf names = { 0 };
	const char *name = NULL;
	struct cbx_err ignored;

	if (strcmp(err->kind, FAILED) != 0 || cbx_json_get_obj(session, "policy", &policy, &ignored) <= 0 ||
	    cbx_json_get_str(policy, "name", &name, &ignored) <= 0 ||
	    cbx_json_get_arr(policy, "lowered", &lowered, &ignored) <= 0 || !lowered->child)
		return -err->code;
	cJSON_ArrayForEach(v, lowered)
		if (cJSON_IsString(v))
			cbx_buf_addf(&names, "%s%s", names.len ? ", " : "", v->valuestring);
	cbx_wrap(err, "the policy %.80s allows less %.80s than this step asks for", name, cbx_buf_str(&names));
	snprintf(err->kind, sizeof(err->kind), "%s", CBX_FINISH_TOO_LITTLE);
	cbx_err_sanitize(err);
	return -err->code;
}

/* Say why a cell did not end well. */
static int judge(const cJSON *x, struct cbx_err *err)
{
	const char *status = NULL, *message = NULL, *name = NULL, *value = NULL, *output = NULL;
	const cJSON *error = NULL;

	if (cbx_json_get_str(x, "status", &status, err) < 0 || cbx_json_get_str(x, "message", &message, err) < 0 ||
	    cbx_json_get_obj(x, "error", &error, err) < 0 || cbx_json_get_str(x, "output", &output, err) < 0)
		return -err->code;
	if (status && strcmp(status, "ok") == 0)
		return 0;
	if (error &&
	    (cbx_json_get_str(error, "name", &name, err) < 0 || cbx_json_get_str(error, "value", &value, err) < 0))
		return -err->code;
	if (!message)
		message = "";
	cbx_refuse(err, FAILED, EIO, "the step in the sandbox ended as \"%.20s\": %.100s %.200s %.150s",
		   status ? status : "nothing", name ? name : "",
		   value ? value : message,
		   output ? output : "");
	cbx_err_sanitize(err);
	return -EIO;
}

static int run_cell(struct cbx_client *client, const char *session, const struct cbx_buf *code, struct cbx_err *err)
{
	_cleanup_json_ cJSON *params = cbx_json_new_obj(), *answer = NULL;
	int r;

	cbx_json_set_str(params, "session_id", session);
	cbx_json_set_strn(params, "code", code->data, code->len);
	cbx_json_set_u64(params, "timeout", CBX_FINISH_TIMEOUT_S);
	r = cbx_client_call(client, "run", take_ptr(&params), &answer, err);
	return r < 0 ? r : judge(answer, err);
}

static int copy_archive(struct cbx_client *client, const char *session, int out, struct cbx_err *err)
{
	struct cbx_remote remote = { .client = client, .session = session };
	struct cbx_remote_stat st;
	uint64_t at = 0;
	bool eof = false;
	int r = cbx_remote_stat(&remote, ARCHIVE, &st, err);

	if (r >= 0 && st.size > CBX_COMPILED_MAX)
		return cbx_refuse(err, "too_long", EFBIG, "what was compiled is larger than %llu bytes; omit packages",
				  (unsigned long long)CBX_COMPILED_MAX);
	while (r >= 0 && !eof && at < st.size) {
		_cleanup_buf_ struct cbx_buf bytes = { 0 };

		r = cbx_remote_read(&remote, ARCHIVE, at, &bytes, &eof, err);
		if (r < 0)
			break;
		r = cbx_write_all(out, bytes.data, bytes.len);
		if (r < 0)
			return cbx_fail(err, -r, "write what was compiled");
		at += bytes.len;
		cbx_progress_update("%llu%%", (unsigned long long)(at * 100 / st.size));
	}
	if (r >= 0 && at < st.size)
		return cbx_refuse(err, "daemon", EPROTO, "codeboxd ended a file early");
	return r;
}

int cbx_finish_run(struct cbx_client *client, const char *image, int script, const cJSON *compile, const cJSON *warm,
		   int out, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf code = { 0 };
	_cleanup_json_ cJSON *description = NULL;
	char session[CBX_NAME_MAX + 1];
	struct cbx_err ignored;
	cJSON *params, *answer = NULL;
	int r = make_code(script, compile, warm, &code, err);

	if (r == 0)
		r = open_session(client, image, session, &description, err);
	if (r < 0)
		return r;
	r = run_cell(client, session, &code, err);
	if (r < 0)
		r = blame(description, err);
	if (r == 0)
		r = copy_archive(client, session, out, err);
	params = cbx_json_new_obj();
	cbx_json_set_str(params, "session_id", session);
	if (cbx_client_call(client, "session.close", params, &answer, &ignored) == 0)
		cJSON_Delete(answer);
	return r;
}
