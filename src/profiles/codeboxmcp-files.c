/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: sessions with the directories input, output and logs; what is in output; and files that are
 * fetched into input, inside the sandbox, under a name that leads nowhere else. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "profiles/codeboxmcp-step.h"
#include "session/artifacts.h"

static const struct cbx_cbm_limits own = { .ttl_s = CBX_CBM_TTL_S,
					   .idle_s = CBX_CBM_IDLE_S,
					   .exec_s = CBX_CBM_EXEC_S,
					   .download_s = 120,
					   .download_bytes = 524288000 };

static void step_free(void *p)
{
	struct cbx_cbm_step *s = p;

	cbx_tool_download_end(&s->download);
	free(s->code);
	free(s->string);
	cbx_str_wipe(&s->password);
	cbx_str_wipe(&s->store);
	free(s->container);
	free(s->name);
	free(s->target);
	cJSON_Delete(s->texts);
	cJSON_Delete(s->images);
	cJSON_Delete(s->changed);
	cJSON_Delete(s->links);
	cJSON_Delete(s->found);
	cJSON_Delete(s->artifacts);
	free(s);
}

struct cbx_cbm_step *cbx_cbm_step(struct cbx_tool_call *call)
{
	struct cbx_cbm_step *s = call->state = cbx_xcalloc(1, sizeof(*s));

	call->release = step_free;
	s->limits = own;
	return s;
}

/* ---- answers ---- */

void cbx_cbm_fail_as(struct cbx_tool_call *call, const char *id, const char *why)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "session_id", id);
	cbx_json_set_str(o, "status", "error");
	cbx_json_set_str(o, "error", why);
	cbx_profile_end_json(call, o);
}

void cbx_cbm_fail(struct cbx_tool_call *call, const struct cbx_err *err)
{
	cbx_cbm_fail_as(call, call->session_id, err->msg);
}

cJSON *cbx_cbm_success(const struct cbx_tool_call *call)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "session_id", call->session_id);
	cbx_json_set_str(o, "status", "success");
	return o;
}

/* The session's id; -1: the call was answered. */
int cbx_cbm_take_id(struct cbx_tool_call *call, const cJSON *args)
{
	_cleanup_free_ char *shown = NULL;
	const char *id = "";
	struct cbx_err err;

	if (cbx_profile_arg_id(call, args, &err) >= 0)
		return 0;
	if (cJSON_IsString(cbx_json_member(args, "session_id")))
		id = cbx_json_text(args, "session_id");
	shown = cbx_xasprintf("%.200s", id);
	cbx_cbm_fail_as(call, shown, err.msg);
	return -1;
}

int cbx_cbm_take_limits(struct cbx_tool_call *call)
{
	struct cbx_cbm_limits *l = &((struct cbx_cbm_step *)call->state)->limits;
	const struct {
		const char *header;
		uint64_t *limit, max;
	} headers[] = {
		{ "X-Session-TTL", &l->ttl_s, UINT32_MAX },
		{ "X-Idle-Timeout", &l->idle_s, UINT32_MAX },
		{ "X-Exec-Timeout", &l->exec_s, UINT32_MAX },
		{ "X-Download-Timeout", &l->download_s, UINT32_MAX },
		{ "X-Max-Download-Size", &l->download_bytes, 1ull << 53 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(headers); i++) {
		const char *text = cbx_client_header(call->client, headers[i].header);
		struct cbx_err err;
		uint64_t asked;

		if (!text)
			continue;
		if (cbx_parse_u64(text, headers[i].header, 1, headers[i].max, &asked, &err) < 0) {
			cbx_cbm_fail(call, &err);
			return -1;
		}
		if (asked < *headers[i].limit)
			*headers[i].limit = asked;
	}
	return 0;
}

int64_t cbx_cbm_link_seconds(struct cbx_tool_call *call)
{
	const char *text = cbx_client_header(call->client, CBX_LINK_HEADER);
	uint64_t hours = 0;
	struct cbx_err err;

	if (text && cbx_parse_u64(text, CBX_LINK_HEADER, 1, UINT32_MAX, &hours, &err) < 0) {
		cbx_cbm_fail(call, &err);
		return -1;
	}
	return hours > CBX_LINK_EXPIRY_MAX_S / 3600 ? CBX_LINK_EXPIRY_MAX_S : (int64_t)hours * 3600;
}

void cbx_cbm_take_store(struct cbx_tool_call *call)
{
	const char *store = cbx_client_header(call->client, CBX_STORE_STRING),
		   *container = cbx_client_header(call->client, CBX_STORE_CONTAINER);
	struct cbx_cbm_step *s = call->state;

	s->store = store ? cbx_xstrdup(store) : NULL;
	s->container = container ? cbx_xstrdup(container) : NULL;
}

/* ---- a session with its directories ---- */

static void make_next(struct cbx_tool_call *call);

static void made(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_tool_call *call = cbx_container_of(op, struct cbx_tool_call, file);
	struct cbx_cbm_step *s = call->state;

	s->made++;
	if (err && strcmp(err->kind, "file_exists") != 0)
		cbx_cbm_fail(call, err);
	else
		make_next(call);
}

static void make_next(struct cbx_tool_call *call)
{
	static const char *const dirs[] = { "input", "output", "logs" };
	struct cbx_cbm_step *s = call->state;
	struct cbx_session *session;
	struct cbx_err err;
	int r = 0;

	if (s->made < ARRAY_SIZE(dirs)) {
		call->file = (struct cbx_file_op){ .op.ops = &call->client->caller.ops, .done = made };
		r = cbx_profile_find(call, &session, &err);
		if (r >= 0)
			r = cbx_session_file_mkdir(session, dirs[s->made], &call->file, &err);
	} else {
		s->then(call);
	}
	if (r < 0)
		cbx_cbm_fail(call, &err);
}

void cbx_cbm_with_session(struct cbx_tool_call *call, void (*then)(struct cbx_tool_call *call))
{
	struct cbx_cbm_step *s = call->state;
	_cleanup_free_ char *settings =
		cbx_xasprintf("{\"ttl\":%" PRIu64 ",\"idle_timeout\":%" PRIu64 ",\"timeout\":%d}", s->limits.ttl_s,
			      s->limits.idle_s, CBX_CBM_EXEC_S);
	struct cbx_session *session;
	struct cbx_err err;

	s->then = then;
	if (cbx_profile_find(call, &session, &err) >= 0) {
		cbx_session_touch(session);
		make_next(call); /* code may have removed them; and the call that made the session may be at it still */
	} else if (cbx_profile_make(call, settings, NULL, &session, &err) < 0) {
		cbx_cbm_fail(call, &err);
	} else {
		make_next(call);
	}
}

/* ---- the files of output ---- */

const char *cbx_cbm_extension(const char *name)
{
	const char *slash = strrchr(name, '/'), *dot;

	name = slash ? slash + 1 : name;
	dot = strrchr(name, '.');
	return dot && dot != name ? dot : "";
}

static cJSON *artifact(const char *path, uint64_t size)
{
	_cleanup_free_ char *whole = cbx_xasprintf(CBX_CBM_OUTPUT "/%s", path),
			    *lower = cbx_xstrdup(cbx_cbm_extension(path));
	const char *slash = strrchr(path, '/');
	cJSON *o = cbx_json_new_obj();

	for (char *p = lower; *p; p++)
		*p = *p >= 'A' && *p <= 'Z' ? (char)(*p + 'a' - 'A') : *p;
	cbx_json_set_str(o, "filename", slash ? slash + 1 : path);
	cbx_json_set_str(o, "path", whole);
	cbx_json_set_str(o, "extension", lower);
	cbx_json_set_u64(o, "size_bytes", size);
	return o;
}

static void scanned(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_tool_call *call = cbx_container_of(op, struct cbx_tool_call, file);
	struct cbx_cbm_step *s = call->state;
	bool more = !err && reply->more && reply->nentries;

	if (err && strcmp(err->kind, "file_not_found") != 0 && strcmp(err->kind, "not_a_directory") != 0) {
		cbx_cbm_fail(call, err);
		return;
	}
	for (size_t i = 0; !err && i < reply->nentries; i++) {
		const struct cbx_file_entry *e = &reply->entries[i];

		s->bytes += 200 + 14 * strlen(e->name);
		s->cut |= cJSON_GetArraySize(s->artifacts) >= CBX_CBM_ARTIFACTS || s->bytes > call->room / 4;
		if (s->cut)
			more = false;
		else
			cbx_json_push(s->artifacts, artifact(e->name, e->size));
		s->seen++;
	}
	if (more)
		cbx_cbm_list_output(call);
	else
		s->then(call);
}

void cbx_cbm_list_output(struct cbx_tool_call *call)
{
	struct cbx_cbm_step *s = call->state;
	struct cbx_session *session;
	struct cbx_err err;
	int r = cbx_profile_find(call, &session, &err);

	if (!s->artifacts)
		s->artifacts = cbx_json_new_arr();
	call->file = (struct cbx_file_op){ .op.ops = &call->client->caller.ops, .done = scanned };
	if (r >= 0)
		r = cbx_session_file_scan(session, "output", s->seen, &call->file, &err);
	if (r < 0)
		cbx_cbm_fail(call, &err);
}

/* ---- upload_file ---- */

static void uploaded(struct cbx_download *d, size_t bytes, const struct cbx_err *err)
{
	struct cbx_cbm_step *s = cbx_container_of(d, struct cbx_cbm_step, download);
	_cleanup_free_ char *path = cbx_xasprintf(CBX_CBM_INPUT "/%s", s->name);
	_cleanup_free_ char *text = NULL;
	cJSON *o;

	if (err) {
		cbx_cbm_fail(s->call, err);
		return;
	}
	o = cbx_cbm_success(s->call);
	text = cbx_xasprintf("File '%s' uploaded to session. Use exec_code to work with it. File path: %s", s->name,
			     path);
	cbx_json_set_str(o, "saved_path", path);
	cbx_json_set_u64(o, "size_bytes", bytes);
	cbx_json_set_str(o, "message", text);
	cbx_profile_end_json(s->call, o);
}

static void fetch(struct cbx_tool_call *call)
{
	struct cbx_cbm_step *s = call->state;
	_cleanup_free_ char *path = cbx_xasprintf(CBX_CBM_INPUT "/%s", s->name);
	struct cbx_session *session;
	struct cbx_err err;
	int r = cbx_profile_find(call, &session, &err);

	s->call = call;
	s->download.done = uploaded;
	s->download.most_s = s->limits.download_s;
	s->download.most_bytes = s->limits.download_bytes;
	if (r >= 0)
		r = cbx_tool_download(
			call, session, s->code, path,
			"have the user copy the file into the session (codebox cp FILE SESSION:input/), or write "
			"it with exec_code",
			&s->download, &err);
	if (r < 0)
		cbx_cbm_fail(call, &err);
}

/* The last part of a path, as a name in input; what is none gets CodeBoxMCP's own. */
static char *name_of(const char *path, size_t n)
{
	size_t from = n;

	while (from && path[from - 1] != '/' && path[from - 1] != '\\')
		from--;
	n -= from;
	path += from;
	if (n == 0 || n > 200 || path[0] == '.')
		return cbx_xstrdup("Uploaded_file");
	return cbx_xasprintf("%.*s", (int)n, path);
}

static char *name_of_url(const char *url)
{
	const char *host = strstr(url, "://"), *path = host ? strchr(host + 3, '/') : NULL;

	return path ? name_of(path, strcspn(path, "?#")) : cbx_xstrdup("Uploaded_file");
}

void cbx_cbm_upload_file(struct cbx_tool_call *call, const cJSON *args)
{
	const char *url = "", *name = "";
	struct cbx_cbm_step *s;
	struct cbx_err err;

	if (cbx_cbm_take_id(call, args) < 0)
		return;
	if (cbx_json_get_str(args, "blob_url", &url, &err) < 0 || cbx_json_get_str(args, "filename", &name, &err) < 0) {
		cbx_cbm_fail(call, &err);
	} else if (!url[0]) {
		cbx_cbm_fail_as(call, call->session_id, "Provide 'blob_url' (a public or SAS URL to the file).");
	} else {
		s = cbx_cbm_step(call);
		s->code = cbx_xstrdup(url);
		s->name = name[0] ? name_of(name, strlen(name)) : name_of_url(url);
		if (cbx_cbm_take_limits(call) == 0)
			cbx_cbm_with_session(call, fetch);
	}
}
