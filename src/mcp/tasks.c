/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a task (extension io.modelcontextprotocol/tasks of 2026-07-28) is a name for an execution that
 * its run_code has left behind: "SESSION.EXECUTION.KEY". All that there is to know of it is in the execution, which is
 * held for a while after its end (session/hold.c); nothing belongs to a connection, so any client of this user that
 * knows the name may come back for it. Nobody else can guess it, because of the key.
 *
 * run_code makes one where it would answer "running", and only for a client that has declared the extension in that
 * request. What the code did, exceptions and killed interpreters included, is the result of a "completed" task;
 * "failed" is for errors of JSON-RPC, which no execution has. A task asks its client nothing, so tasks/update has
 * nothing to do.
 *
 * tasks/get and the notifications are calls whose result is put into the task before it is sent (call->finish): so they
 * have all that run_code's own answer would have had, image files included.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "mcp/internal.h"

#define POLL_MS	 1000
#define HEAD_MAX 4096 /* bytes of a task without its result */
#define SAID_MAX 1000 /* of its statusMessage */

/* ---- who takes tasks ---- */

bool cbx_mcp_takes_tasks(const cJSON *params)
{
	const cJSON *meta = cJSON_GetObjectItemCaseSensitive(params, "_meta");
	const cJSON *caps = cJSON_GetObjectItemCaseSensitive(meta, CBX_META "clientCapabilities");
	const cJSON *extensions = cJSON_GetObjectItemCaseSensitive(caps, "extensions");

	return cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(extensions, CBX_MCP_TASKS));
}

void cbx_mcp_tasks_needed(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot)
{
	cJSON *data = cbx_json_new_obj(), *caps = cbx_json_new_obj(), *extensions = cbx_json_new_obj();

	cbx_json_set(extensions, CBX_MCP_TASKS, cbx_json_new_obj());
	cbx_json_set(caps, "extensions", extensions);
	cbx_json_set(data, "requiredCapabilities", caps);
	cbx_mcp_error_data(m->mcp, slot, CBX_RPC_MISSING_CAPABILITY, data,
			   "%s needs a client that declares the extension " CBX_MCP_TASKS
			   " in the capabilities of this request", m->method);
}

/* ---- names ---- */

static char *task_id(const struct cbx_execution *x, const struct cbx_hold *hold)
{
	return cbx_xasprintf("%s.%llu.%s", cbx_session_id(cbx_execution_session(x)),
			     (unsigned long long)cbx_execution_id(x), hold->key);
}

/* Takes as long for a key that is almost right as for any other. */
static bool same_key(const char *a, const char *b)
{
	unsigned char differ = 0;

	if (strlen(a) != CBX_HOLD_KEY)
		return false;
	for (size_t i = 0; i < CBX_HOLD_KEY; i++)
		differ |= (unsigned char)(a[i] ^ b[i]);
	return !differ;
}

struct cbx_execution *cbx_mcp_task_find(struct cbx_mcp *mcp, const char *id)
{
	_cleanup_free_ char *session_id = cbx_xstrdup(id);
	char *key = strrchr(session_id, '.'), *number;
	struct cbx_session *session;
	struct cbx_execution *x;
	struct cbx_hold hold;
	struct cbx_err err;
	uint64_t n;

	if (!key)
		return NULL;
	*key++ = '\0';
	number = strrchr(session_id, '.'); /* a session's id may have dots */
	if (!number)
		return NULL;
	*number++ = '\0';
	if (!cbx_name_valid(session_id) || cbx_parse_u64(number, "execution", 1, 1ull << 53, &n, &err) < 0 ||
	    cbx_session_find(mcp->engine, session_id, &session, &err) < 0 ||
	    cbx_execution_find(session, n, &x, &err) < 0 || !cbx_execution_held(x, &hold) || !same_key(key, hold.key))
		return NULL;
	return x;
}

/* ---- what a client sees ---- */

static void set_time(cJSON *o, const char *key, uint64_t ms)
{
	time_t seconds = (time_t)(ms / 1000);
	char text[32], whole[48];
	struct tm tm;

	gmtime_r(&seconds, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(whole, sizeof(whole), "%s.%03uZ", text, (unsigned)(ms % 1000));
	cbx_json_set_str(o, key, whole);
}

static const char *task_status(const struct cbx_execution *x)
{
	enum cbx_status status = cbx_execution_status(x);

	return status <= CBX_RUNNING ? "working" : status == CBX_CANCELLED ? "cancelled" : "completed";
}

/* A task without result; x is held. */
static cJSON *describe(const struct cbx_execution *x, const char *result_type)
{
	_cleanup_json_ cJSON *json = cbx_execution_to_json(x, false);
	const char *message = cbx_mcp_str_of(json, "message");
	_cleanup_free_ char *id = NULL;
	_cleanup_buf_ struct cbx_buf said = { 0 };
	struct cbx_hold hold = { 0 };
	cJSON *o = cbx_json_new_obj();

	cbx_execution_held(x, &hold);
	id = task_id(x, &hold);
	cbx_json_set_str(o, "resultType", result_type);
	cbx_json_set_str(o, "taskId", id);
	cbx_json_set_str(o, "status", task_status(x));
	if (message)
		cbx_mcp_cut(&said, message, SAID_MAX, 0, NULL);
	else
		cbx_buf_addf(&said, "The cell %s session %s, as execution %llu.",
			     cbx_execution_status(x) == CBX_QUEUED    ? "waits for its turn in"
			     : cbx_execution_status(x) == CBX_RUNNING ? "is running in"
								      : "has ended in",
			     cbx_session_id(cbx_execution_session(x)), (unsigned long long)cbx_execution_id(x));
	cbx_json_set_str(o, "statusMessage", cbx_buf_str(&said));
	set_time(o, "createdAt", hold.created_ms);
	set_time(o, "lastUpdatedAt", hold.updated_ms);
	cbx_json_set_u64(o, "ttlMs", hold.kept_ms);
	cbx_json_set_u64(o, "pollIntervalMs", POLL_MS);
	return o;
}

void cbx_mcp_task_outcome(struct cbx_mcp_call *call, struct cbx_execution *x)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	_cleanup_json_ cJSON *task = NULL;
	struct cbx_err err;

	if (cbx_execution_status(x) > CBX_RUNNING || cbx_execution_hold(x, &err) < 0) {
		cbx_mcp_outcome(call, x);
		return;
	}
	task = describe(x, "task");
	cbx_json_print(&text, task);
	cbx_mcp_call_end_text(call, &text);
}

/* ---- a task with its result ---- */

/* The state of such a call. */
struct telling {
	cJSON *task;
	char *stream; /* raw id of the subscriptions/listen request; NULL: it is an answer to tasks/get */
};

static void telling_free(void *state)
{
	struct telling *t = state;

	cJSON_Delete(t->task);
	free(t->stream);
	free(t);
}

/* call->finish: `result` is a printed object, or empty for a task without one. */
static void finish(struct cbx_mcp_call *call, const struct cbx_buf *result)
{
	struct telling *t = call->state;
	_cleanup_buf_ struct cbx_buf text = { 0 };
	_cleanup_buf_ struct cbx_buf head = { 0 };
	struct cbx_mcp_stream *stream = t->stream ? cbx_mcp_stream_find(call->mcp, t->stream) : NULL;

	if (t->stream && !stream)
		return;
	cbx_json_print(&head, t->task);
	cbx_buf_addc(&text, '{');
	if (stream)
		cbx_buf_addf(&text, "\"_meta\":{\"" CBX_META "subscriptionId\":%s},", stream->slot.id);
	cbx_buf_add(&text, head.data + 1, head.len - 2);
	if (result->len > 2) {
		cbx_buf_adds(&text, ",\"result\":{\"resultType\":\"complete\",");
		cbx_buf_add(&text, result->data + 1, result->len - 1);
	}
	cbx_buf_addc(&text, '}');
	if (stream)
		cbx_mcp_notify_slot(call->mcp, &stream->slot, "notifications/tasks", &text);
	else
		cbx_mcp_answer_text(call->mcp, &call->slot, &text);
}

size_t cbx_mcp_call_room(const struct cbx_mcp_call *call)
{
	return cbx_mcp_room(&call->slot) - (call->finish ? HEAD_MAX : 0);
}

static const struct cbx_mcp_tool task_call = { .name = "tasks/get" };

/* Takes over the slot; an empty one, and the id of a stream, for a notification. */
static void tell(struct cbx_mcp *mcp, struct cbx_mcp_slot *slot, const char *stream, struct cbx_execution *x)
{
	struct cbx_mcp_call *call = cbx_mcp_call_new(mcp, &task_call, cbx_mcp_modern_newest(), slot);
	struct telling *t = cbx_xcalloc(1, sizeof(*t));
	struct cbx_buf nothing = { 0 };

	t->task = describe(x, stream ? NULL : "complete");
	t->stream = stream ? cbx_xstrdup(stream) : NULL;
	call->state = t;
	call->release = telling_free;
	call->finish = finish;
	call->execution_id = cbx_execution_id(x);
	call->default_session = true; /* the answer names the session: nobody may have heard of it yet */
	snprintf(call->session_id, sizeof(call->session_id), "%s", cbx_session_id(cbx_execution_session(x)));
	if (strcmp(task_status(x), "completed") == 0)
		cbx_mcp_outcome(call, x);
	else
		cbx_mcp_call_end_text(call, &nothing);
}

/* ---- methods ---- */

/* The task that a request is about; NULL: the slot was answered. */
static struct cbx_execution *find(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot)
{
	struct cbx_execution *x = NULL;
	const char *id = NULL;
	struct cbx_err err;

	if (!m->rev->modern) {
		cbx_mcp_no_method(m, slot);
	} else if (!cbx_mcp_takes_tasks(m->params)) {
		cbx_mcp_tasks_needed(m, slot);
	} else if (cbx_json_get_str(m->params, "taskId", &id, &err) < 0 || !id) {
		cbx_mcp_error(m->mcp, slot, CBX_RPC_INVALID_PARAMS, "Invalid params: taskId: a string is expected");
	} else if (!(x = cbx_mcp_task_find(m->mcp, id))) {
		cbx_mcp_error(m->mcp, slot, CBX_RPC_INVALID_PARAMS,
			      "Invalid params: taskId: there is no such task, or no longer: results are kept for %d "
			      "minutes after the end, but not longer than their session, and not when newer ones of it "
			      "need their memory",
			      CBX_HOLD_MS / 60000);
	} else {
		cbx_session_touch(cbx_execution_session(x));
	}
	return x;
}

static void get(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot)
{
	struct cbx_execution *x = find(m, slot);

	if (!x)
		return;
	if (m->mcp->ncalls >= CBX_CALLS_MAX)
		cbx_mcp_error(m->mcp, slot, CBX_RPC_INTERNAL, "%d calls are going on already; ask again later",
			      CBX_CALLS_MAX);
	else
		tell(m->mcp, slot, NULL, x);
}

static void update(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot)
{
	const cJSON *responses = NULL;
	struct cbx_err err;

	if (!find(m, slot))
		return;
	if (cbx_json_get_obj(m->params, "inputResponses", &responses, &err) < 0 || !responses)
		cbx_mcp_error(m->mcp, slot, CBX_RPC_INVALID_PARAMS,
			      "Invalid params: inputResponses: an object is expected");
	else
		cbx_mcp_answer(m->mcp, slot, cbx_json_new_obj());
}

static void cancel(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot)
{
	struct cbx_execution *x = find(m, slot);

	if (!x)
		return;
	if (cbx_execution_status(x) <= CBX_RUNNING)
		cbx_execution_interrupt(x);
	cbx_mcp_answer(m->mcp, slot, cbx_json_new_obj());
}

const struct cbx_mcp_method cbx_mcp_task_methods[] = {
	{ "tasks/get", get },
	{ "tasks/update", update },
	{ "tasks/cancel", cancel },
	{ NULL, NULL },
};

/* ---- notifications ---- */

struct cbx_mcp_task_watch {
	struct cbx_mcp *mcp;
	struct cbx_mcp_stream *stream; /* NULL: it has gone, and the execution's end frees this */
	char session_id[CBX_NAME_MAX + 1];
	uint64_t execution_id;
};

static void ended(void *arg, struct cbx_execution *x)
{
	struct cbx_mcp_task_watch *w = arg;
	struct cbx_mcp_slot none = { 0 };

	if (w->stream) {
		for (size_t i = 0; i < ARRAY_SIZE(w->stream->tasks); i++)
			if (w->stream->tasks[i] == w)
				w->stream->tasks[i] = NULL;
		tell(w->mcp, &none, w->stream->slot.id, x);
	}
	free(w);
}

struct cbx_mcp_task_watch *cbx_mcp_task_watch(struct cbx_mcp *mcp, struct cbx_mcp_stream *stream,
					      struct cbx_execution *x)
{
	struct cbx_mcp_task_watch *w;
	struct cbx_watch watch = { .on_end = ended };
	struct cbx_mcp_slot none = { 0 };
	struct cbx_err err;

	if (cbx_execution_status(x) > CBX_RUNNING) {
		tell(mcp, &none, stream->slot.id, x);
		return NULL;
	}
	w = cbx_xcalloc(1, sizeof(*w));
	w->mcp = mcp;
	w->stream = stream;
	w->execution_id = cbx_execution_id(x);
	snprintf(w->session_id, sizeof(w->session_id), "%s", cbx_session_id(cbx_execution_session(x)));
	watch.arg = w;
	if (cbx_execution_watch(x, &watch, &err) < 0) {
		free(w);
		return NULL;
	}
	return w;
}

void cbx_mcp_task_unwatch(struct cbx_mcp_task_watch *w)
{
	struct cbx_session *session;
	struct cbx_execution *x;
	struct cbx_err err;

	w->stream = NULL;
	/* When it is gone, or its session's id is another's now, ended() is still to come. */
	if (cbx_session_find(w->mcp->engine, w->session_id, &session, &err) >= 0 &&
	    cbx_execution_find(session, w->execution_id, &x, &err) >= 0 && cbx_execution_unwatch(x, w))
		free(w);
}
