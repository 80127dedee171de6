/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: user code can write to the driver's pipe, so a frame may be anything. What a correct driver never
 * sends is refused here, and ends the interpreter (channel.c).
 */
#include "interp/frames.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"

#define COUNT_MAX 9e15 /* exact as a double */

static bool number_of(const cJSON *frame, const char *key, double min, double max, double *ret)
{
	const cJSON *v = cbx_json_member(frame, key);

	if (!cJSON_IsNumber(v) || !(v->valuedouble >= min && v->valuedouble <= max))
		return false;
	*ret = v->valuedouble;
	return true;
}

static void get_count(const cJSON *json, struct cbx_frame *f)
{
	double v;

	f->has_count = number_of(json, "count", 0, COUNT_MAX, &v);
	if (f->has_count)
		f->count = (uint64_t)v;
}

static bool get_ready(const cJSON *json, struct cbx_frame *f)
{
	f->language = cbx_json_text(json, "language");
	f->version = cbx_json_text(json, "version");
	f->type = cbx_json_text(json, "kind");
	return f->language && f->version && f->type;
}

static bool get_bundle(const cJSON *json, struct cbx_frame *f)
{
	if (f->kind == CBX_FRAME_RESULT)
		get_count(json, f);
	return cJSON_IsObject(cbx_json_member(json, "data"));
}

static bool get_error(const cJSON *json, struct cbx_frame *f)
{
	f->name = cbx_json_text(json, "name");
	f->value = cbx_json_text(json, "value");
	f->traceback = cbx_json_text(json, "traceback");
	return f->name && f->value && f->traceback;
}

static void get_usage(const cJSON *json, struct cbx_frame_usage *u)
{
	const cJSON *usage = cbx_json_member(json, "usage");
	double cpu, peak, read, written;

	if (!cJSON_IsObject(usage) || !number_of(usage, "cpu_us", 0, COUNT_MAX, &cpu) ||
	    !number_of(usage, "peak", 0, COUNT_MAX, &peak) || !number_of(usage, "read", 0, COUNT_MAX, &read) ||
	    !number_of(usage, "written", 0, COUNT_MAX, &written))
		return;
	*u = (struct cbx_frame_usage){ true, (uint64_t)cpu, (uint64_t)peak, (uint64_t)read, (uint64_t)written };
}

static bool get_done(const cJSON *json, struct cbx_frame *f)
{
	static const char *const known[] = {
		[CBX_DONE_OK] = "ok",
		[CBX_DONE_ERROR] = "error",
		[CBX_DONE_INTERRUPTED] = "interrupted",
		[CBX_DONE_EXIT] = "exit",
	};
	const char *status = cbx_json_text(json, "status"), *workspace = cbx_json_text(json, "workspace");
	int i = cbx_find_word(status, known, ARRAY_SIZE(known));
	double v;

	f->status = (enum cbx_frame_status)i;
	get_count(json, f);
	if ((f->status == CBX_DONE_EXIT || f->status == CBX_DONE_ERROR) &&
	    number_of(json, "exit_code", -2147483648.0, 4294967295.0, &v)) {
		f->has_exit_code = true;
		f->exit_code = (int64_t)v;
	}
	get_usage(json, &f->usage);
	f->no_files = workspace && strcmp(workspace, "empty") == 0;
	return i >= 0;
}

static bool get(const cJSON *json, struct cbx_frame *f)
{
	switch (f->kind) {
	case CBX_FRAME_READY:
		return get_ready(json, f);
	case CBX_FRAME_DISPLAY:
	case CBX_FRAME_RESULT:
		return get_bundle(json, f);
	case CBX_FRAME_ERROR:
		return get_error(json, f);
	case CBX_FRAME_CLEAR:
		f->wait = cJSON_IsTrue(cbx_json_member(json, "wait"));
		return true;
	case CBX_FRAME_DONE:
		return get_done(json, f);
	case CBX_FRAME_JUDGED:
		f->refused = cJSON_IsTrue(cbx_json_member(json, "refused"));
		return true;
	case CBX_FRAME_ASK:
		f->prompt = cbx_json_text(json, "prompt");
		f->password = cJSON_IsTrue(cbx_json_member(json, "password"));
		return f->prompt;
	case CBX_FRAME_SYNC:
		return true;
	case CBX_FRAME_IS_COMPLETE:
	case CBX_FRAME_COMPLETE:
	case CBX_FRAME_STALE:
	case CBX_FRAME_INSPECT:
		return true; /* query.c looks at it */
	}
	return false;
}

int cbx_frame_decode(const cJSON *json, struct cbx_frame *f, struct cbx_err *err)
{
	static const char *const kinds[] = {
		[CBX_FRAME_READY] = "ready",	 [CBX_FRAME_DISPLAY] = "display",
		[CBX_FRAME_RESULT] = "result",	 [CBX_FRAME_ERROR] = "error",
		[CBX_FRAME_CLEAR] = "clear",	 [CBX_FRAME_DONE] = "done",
		[CBX_FRAME_JUDGED] = "judged",	 [CBX_FRAME_ASK] = "ask",
		[CBX_FRAME_SYNC] = "sync",	 [CBX_FRAME_IS_COMPLETE] = "is_complete",
		[CBX_FRAME_COMPLETE] = "complete", [CBX_FRAME_STALE] = "stale",
		[CBX_FRAME_INSPECT] = "inspect",
	};
	const char *ev = cbx_json_text(json, "ev");
	double id = 0;
	int i = cbx_find_word(ev, kinds, ARRAY_SIZE(kinds));

	if (!ev)
		return cbx_refuse(err, "bad_frame", EBADMSG, "it sent a message without \"ev\"");
	if (i < 0)
		return cbx_refuse(err, "bad_frame", EBADMSG, "it sent an unknown message \"%.20s\"", ev);
	*f = (struct cbx_frame){ .kind = (enum cbx_frame_kind)i, .ev = kinds[i], .json = json };
	if ((f->kind != CBX_FRAME_READY && !number_of(json, "id", 1, COUNT_MAX, &id)) || !get(json, f))
		return cbx_refuse(err, "bad_frame", EBADMSG, "it sent a malformed \"%s\"", kinds[i]);
	f->id = (uint64_t)id;
	return 0;
}
