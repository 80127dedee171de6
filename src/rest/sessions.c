/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a session is answered for when it is ready, with what it is to depend on; one that cannot have
 * that is never there, so that nobody finds out later.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "rest/internal.h"
#include "session/images.h"

/* As RFC 9562 has it, version 4. */
static void random_uuid(char out[37])
{
	unsigned char b[16];

	if (getrandom(b, sizeof(b), 0) != (ssize_t)sizeof(b))
		abort(); /* not so few bytes */
	b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
	b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
	for (int i = 0, at = 0; i < 16; i++) {
		at += snprintf(out + at, 3, "%02x", b[i]);
		if (i == 3 || i == 5 || i == 7 || i == 9)
			out[at++] = '-';
	}
	out[36] = '\0';
}

static void answer_created(struct cbx_rest_call *call, struct cbx_session *s)
{
	_cleanup_json_ cJSON *info = cbx_session_list_entry(s);
	cJSON *o = cbx_json_new_obj();
	char when[32];

	cbx_rest_time(cbx_wall_ms(), when);
	cbx_json_set_str(o, "session_id", cbx_session_id(s));
	cbx_json_set_str(o, "status", "created");
	cbx_json_set_str(o, "created_at", when);
	cbx_json_set(o, "limits", cJSON_DetachItemFromObjectCaseSensitive(info, "limits"));
	cbx_json_set(o, "policy", cJSON_DetachItemFromObjectCaseSensitive(info, "policy"));
	cbx_rest_answer(call, 200, o);
}

/* What cannot be had is the fault of the request, in the words of the request. */
static int name_dependencies(const struct cbx_rest_call *call, const struct cbx_err *err, struct cbx_err *ret)
{
	static const char ours[] = "packages: ";

	if (!call->dependencies || strncmp(err->msg, ours, sizeof(ours) - 1) != 0) {
		*ret = *err;
		return -err->code;
	}
	cbx_refuse(ret, err->kind, err->code, "dependencies: %s", err->msg + sizeof(ours) - 1);
	if (strcmp(err->kind, "not_found") == 0 || strcmp(err->kind, "conflict") == 0)
		cbx_refuse(ret, "dependencies_missing", EINVAL, "dependencies: %s", err->msg + sizeof(ours) - 1);
	return -ret->code;
}

static void created(struct cbx_ready_op *op, struct cbx_session *s, const struct cbx_err *err)
{
	struct cbx_rest_call *call = cbx_container_of(op, struct cbx_rest_call, ready);
	struct cbx_err named;

	if (!err) {
		answer_created(call, s);
		return;
	}
	name_dependencies(call, err, &named);
	cbx_rest_fail(call, &named);
}

int cbx_rest_create_session(struct cbx_rest_call *call, struct cbx_err *err)
{
	_cleanup_json_ cJSON *doc = NULL;
	struct cbx_session_spec spec;
	struct cbx_session *s;
	struct cbx_err failed;
	char unique[37];
	int r = cbx_rest_session_spec(call, &spec, &doc, err);

	if (r < 0)
		return r;
	if (!spec.id[0]) {
		random_uuid(unique);
		snprintf(spec.id, sizeof(spec.id), "%s%s", call->rest->node, unique);
	}
	call->ready = (struct cbx_ready_op){ .op.ops = &call->caller.ops, .done = created };
	r = cbx_session_create(&call->caller, &spec, &call->ready, &s, &failed);
	if (r < 0)
		return name_dependencies(call, &failed, err);
	memcpy(call->target.session_id, cbx_session_id(s), strlen(cbx_session_id(s)) + 1);
	return 0;
}

int cbx_rest_list_sessions(struct cbx_rest_call *call, struct cbx_err *err)
{
	char usage[8] = "";
	int r = cbx_rest_query(call->conn->head.query, "usage", usage, sizeof(usage), err);
	cJSON *o;

	if (r > 0 && strcmp(usage, "now") != 0)
		r = cbx_refuse(err, "invalid_argument", EINVAL, "usage: \"%s\" is unknown; give usage=now, or omit it",
			       usage);
	if (r < 0)
		return r;
	o = cbx_json_new_obj();
	cbx_json_set(o, "sessions", r ? cbx_session_list_now(&call->caller, false) : cbx_session_list(&call->caller));
	cbx_rest_answer(call, 200, o);
	return 0;
}

int cbx_rest_list_images(struct cbx_rest_call *call, struct cbx_err *err)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set(o, "images", cbx_engine_images(&call->caller));
	cbx_rest_answer(call, 200, o);
	return 0;
}

int cbx_rest_get_session(struct cbx_rest_call *call, struct cbx_err *err)
{
	struct cbx_session *s;

	if (!cbx_rest_session(call, &s))
		return 0;
	if (!cbx_session_describe(s, cbx_rest_answer_op(call)))
		cbx_rest_answer(call, 200, cbx_session_to_json(s));
	return 0;
}

int cbx_rest_get_log(struct cbx_rest_call *call, struct cbx_err *err)
{
	struct cbx_session *s;
	cJSON *o, *log, *entry;
	char when[32];

	if (!cbx_rest_session(call, &s))
		return 0;
	log = cbx_session_log(s);
	cJSON_ArrayForEach(entry, log) {
		cbx_rest_time((uint64_t)cbx_json_number(entry, "at_ms", 0), when);
		cJSON_DeleteItemFromObjectCaseSensitive(entry, "at_ms");
		cbx_json_set_str(entry, "at", when);
	}
	o = cbx_json_new_obj();
	cbx_json_set_str(o, "session_id", cbx_session_id(s));
	cbx_json_set(o, "log", log);
	cbx_rest_answer(call, 200, o);
	return 0;
}

int cbx_rest_delete_session(struct cbx_rest_call *call, struct cbx_err *err)
{
	struct cbx_session *s;
	cJSON *o;

	if (!cbx_rest_session(call, &s))
		return 0;
	cbx_session_close(&call->caller, s, "a client asked for it");
	o = cbx_json_new_obj();
	cbx_json_set_str(o, "status", "cleaned up");
	cbx_rest_answer(call, 200, o);
	return 0;
}

int cbx_rest_restart_session(struct cbx_rest_call *call, struct cbx_err *err)
{
	struct cbx_session *s;
	size_t ended;
	cJSON *o;
	int r;

	if (!cbx_rest_session(call, &s))
		return 0;
	r = cbx_session_restart(&call->caller, s, NULL, &ended, err);
	if (r < 0)
		return r;
	o = cbx_json_new_obj();
	cbx_json_set_str(o, "session_id", cbx_session_id(s));
	cbx_json_set_str(o, "status", "restarted");
	cbx_json_set_u64(o, "ended", ended);
	cbx_rest_answer(call, 200, o);
	return 0;
}

/* A client that leaves does not undo it: the packages are there for the next cell. */
int cbx_rest_install_packages(struct cbx_rest_call *call, struct cbx_err *err)
{
	static const char *const keys[] = { "packages", NULL };
	const cJSON *packages = NULL;
	struct cbx_session *s;

	if (cbx_json_only(call->doc.root, keys, err) < 0 ||
	    cbx_json_get_arr(call->doc.root, "packages", &packages, err) < 0)
		return -err->code;
	if (!packages)
		return cbx_refuse(err, "invalid_argument", EINVAL, "missing field: packages");
	if (!cbx_rest_session(call, &s))
		return 0;
	return cbx_session_install(&call->caller, s, packages, cbx_rest_answer_op(call), err);
}
