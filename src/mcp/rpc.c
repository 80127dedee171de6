/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: every message passes one gate, receive(). It finds out what the message is – request,
 * notification, answer, or nothing of the kind – checks what JSON-RPC asks of it, and hands requests to an era together
 * with a slot for the answer. Which era a message belongs to is decided in dispatch() and nowhere else, for each
 * message anew: a connection may serve both.
 *
 * A slot is the right to one answer. Slots of a batch collect their answers in it, and the last slot that is ended
 * sends the whole array. The batch itself holds one slot's worth while its elements are handed out, so that it cannot
 * end in between. Whatever happens, a message stays below CBX_REPLY_MAX: an answer that is too long is replaced by an
 * error.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "mcp/internal.h"

#define ENVELOPE 512 /* bytes around a result: {"jsonrpc":"2.0","id":…,"result":…} without the id, and modern_head() */

struct cbx_mcp_batch {
	struct cbx_mcp_origin *origin;
	struct cbx_buf out;
	size_t pending;
	size_t room; /* for each answer */
};

/* ---- streams ---- */

static void origin_unref(struct cbx_mcp *mcp, struct cbx_mcp_origin *origin)
{
	if (!origin || --origin->slots)
		return;
	if (origin->stream && mcp->io.done)
		mcp->io.done(mcp->io.arg, origin->stream);
	LIST_REMOVE(origin, entry);
	free(origin);
}

/* A slot for a request of the message that is being received. */
static struct cbx_mcp_slot slot_open(struct cbx_mcp *mcp, struct cbx_mcp_batch *batch)
{
	if (batch)
		batch->pending++;
	else if (mcp->origin)
		mcp->origin->slots++;
	mcp->asked = true;
	return (struct cbx_mcp_slot){ .batch = batch, .origin = batch ? batch->origin : mcp->origin };
}

static void emit(struct cbx_mcp *mcp, struct cbx_mcp_origin *origin, int code, const struct cbx_buf *line)
{
	if (!mcp->io.send)
		return;
	if (!origin)
		mcp->io.send(mcp->io.arg, line->data, line->len);
	else if (origin->stream)
		mcp->io.send_to(mcp->io.arg, origin->stream, code, line->data, line->len);
}

void cbx_mcp_forget(struct cbx_mcp *mcp, void *stream)
{
	struct cbx_mcp_origin *origin;

	LIST_FOREACH(origin, &mcp->origins, entry)
		if (origin->stream == stream)
			origin->stream = NULL;
}

/* ---- answers ---- */

static void batch_put(struct cbx_mcp *mcp, struct cbx_mcp_batch *batch)
{
	if (--batch->pending)
		return;
	if (batch->out.len) {
		cbx_buf_addc(&batch->out, ']');
		emit(mcp, batch->origin, 0, &batch->out);
	}
	origin_unref(mcp, batch->origin);
	cbx_buf_release(&batch->out);
	free(batch);
}

static size_t message_max(const struct cbx_mcp_slot *slot)
{
	return slot->batch ? slot->batch->room : CBX_REPLY_MAX;
}

size_t cbx_mcp_room(const struct cbx_mcp_slot *slot)
{
	return message_max(slot) - ENVELOPE - (slot->id ? strlen(slot->id) : 4);
}

static void slot_end(struct cbx_mcp *mcp, struct cbx_mcp_slot *slot)
{
	if (slot->batch)
		batch_put(mcp, slot->batch);
	else
		origin_unref(mcp, slot->origin);
	slot->batch = NULL;
	slot->origin = NULL;
	free(slot->id);
	slot->id = NULL;
}

/* The members that every result has in the modern era go before those of its own. Returns bytes of value used up. */
static size_t modern_head(struct cbx_buf *out, const struct cbx_buf *value)
{
	static const struct cbx_raw none = { NULL, 0 };
	struct cbx_raw text = { value->data, value->len };
	_cleanup_json_ cJSON *head = cbx_json_new_obj();
	_cleanup_buf_ struct cbx_buf printed = { 0 };
	struct cbx_raw type = value->len ? cbx_mcp_raw_member(text, "resultType") : none;
	struct cbx_raw about = value->len ? cbx_mcp_raw_member(text, "_meta") : none;

	if (value->len < 2 || value->data[0] != '{')
		return 0;
	if (!type.p)
		cbx_json_set_str(head, "resultType", "complete");
	if (!about.p) {
		cJSON *meta = cbx_json_new_obj();

		cbx_mcp_server_info(meta, CBX_META "serverInfo", cbx_mcp_modern_newest());
		cbx_json_set(head, "_meta", meta);
	}
	if (!head->child)
		return 0;
	cbx_json_print(&printed, head);
	cbx_buf_add(out, printed.data, printed.len - 1);
	if (value->data[1] != '}')
		cbx_buf_addc(out, ',');
	return 1;
}

/* Send {"jsonrpc":"2.0","id":…,"<member>":<value>}. */
static void deliver(struct cbx_mcp *mcp, struct cbx_mcp_slot *slot, const char *member, int code,
		    const struct cbx_buf *value)
{
	_cleanup_buf_ struct cbx_buf line = { 0 };
	struct cbx_buf *out = slot->batch ? &slot->batch->out : &line;
	size_t used = 0;

	if (!slot->modern)
		cbx_mcp_news_flush(mcp);
	if (slot->batch)
		cbx_buf_addc(out, out->len ? ',' : '[');
	cbx_buf_adds(out, "{\"jsonrpc\":\"2.0\",\"id\":");
	cbx_buf_adds(out, slot->id ? slot->id : "null");
	cbx_buf_adds(out, ",\"");
	cbx_buf_adds(out, member);
	cbx_buf_adds(out, "\":");
	if (slot->modern && !code)
		used = modern_head(out, value);
	cbx_buf_add(out, value->data + used, value->len - used);
	cbx_buf_addc(out, '}');
	if (!slot->batch)
		emit(mcp, slot->origin, code, &line);
	slot_end(mcp, slot);
}

void cbx_mcp_answer_text(struct cbx_mcp *mcp, struct cbx_mcp_slot *slot, const struct cbx_buf *result)
{
	if (result->len > cbx_mcp_room(slot))
		cbx_mcp_error(mcp, slot, CBX_RPC_INTERNAL, "the answer of %zu bytes is over the limit of %zu",
			      result->len, cbx_mcp_room(slot));
	else
		deliver(mcp, slot, "result", 0, result);
}

void cbx_mcp_answer(struct cbx_mcp *mcp, struct cbx_mcp_slot *slot, cJSON *result)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };

	cbx_json_print(&text, result);
	cJSON_Delete(result);
	cbx_mcp_answer_text(mcp, slot, &text);
}

void cbx_mcp_errorv(struct cbx_mcp *mcp, struct cbx_mcp_slot *slot, int code, cJSON *data, const char *fmt,
		    va_list ap)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	_cleanup_json_ cJSON *error = cbx_json_new_obj();
	char msg[800];

	vsnprintf(msg, sizeof(msg), fmt, ap);
	cbx_json_set_i64(error, "code", code);
	cbx_json_set_str(error, "message", msg);
	if (data)
		cbx_json_set(error, "data", data);
	cbx_json_print(&text, error);
	if (data && text.len > cbx_mcp_room(slot)) { /* what the client asked about, at any length */
		cJSON_DeleteItemFromObjectCaseSensitive(error, "data");
		cbx_buf_drop(&text, text.len);
		cbx_json_print(&text, error);
	}
	deliver(mcp, slot, "error", code, &text);
}

void cbx_mcp_error(struct cbx_mcp *mcp, struct cbx_mcp_slot *slot, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	cbx_mcp_errorv(mcp, slot, code, NULL, fmt, ap);
	va_end(ap);
}

void cbx_mcp_error_data(struct cbx_mcp *mcp, struct cbx_mcp_slot *slot, int code, cJSON *data, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	cbx_mcp_errorv(mcp, slot, code, data, fmt, ap);
	va_end(ap);
}

void cbx_mcp_drop(struct cbx_mcp *mcp, struct cbx_mcp_slot *slot)
{
	slot_end(mcp, slot);
}

static void notify(struct cbx_mcp *mcp, struct cbx_mcp_origin *origin, const char *id, const char *method,
		   const struct cbx_buf *params)
{
	_cleanup_buf_ struct cbx_buf line = { 0 };

	cbx_buf_adds(&line, "{\"jsonrpc\":\"2.0\",");
	if (id)
		cbx_buf_addf(&line, "\"id\":\"%s\",", id);
	cbx_buf_addf(&line, "\"method\":\"%s\",\"params\":", method);
	cbx_buf_add(&line, params->data, params->len);
	cbx_buf_addc(&line, '}');
	emit(mcp, origin, CBX_MCP_MORE, &line);
}

void cbx_mcp_notify_slot(struct cbx_mcp *mcp, const struct cbx_mcp_slot *slot, const char *method,
			 const struct cbx_buf *params)
{
	notify(mcp, slot->origin, NULL, method, params);
}

void cbx_mcp_request_slot(struct cbx_mcp *mcp, const struct cbx_mcp_slot *slot, const char *id, const char *method,
			  const struct cbx_buf *params)
{
	notify(mcp, slot->origin, id, method, params);
}

/* ---- messages ---- */

static void dispatch(struct cbx_mcp_message *m, struct cbx_mcp_slot *slot)
{
	m->rev = m->mcp->rev;
	if (!slot)
		cbx_mcp_legacy_notification(m); /* those of the modern era are among them */
	else if (cbx_mcp_is_modern(m))
		cbx_mcp_modern_request(m, slot);
	else if (slot->batch && strcmp(m->method, "initialize") == 0)
		cbx_mcp_error(m->mcp, slot, CBX_RPC_INVALID_REQUEST, "Invalid Request: initialize in a batch");
	else
		cbx_mcp_legacy_request(m, slot);
}

/* What is wrong with a request as JSON-RPC; NULL: nothing. */
static const char *fault_of(const cJSON *root, const char **ret_method)
{
	const cJSON *version = cJSON_GetObjectItemCaseSensitive(root, "jsonrpc");
	const cJSON *method = cJSON_GetObjectItemCaseSensitive(root, "method");

	if (!cJSON_IsString(version) || strcmp(version->valuestring, "2.0") != 0)
		return "jsonrpc must be \"2.0\"";
	if (!cJSON_IsString(method))
		return "method must be a string";
	*ret_method = method->valuestring;
	return NULL;
}

static bool is_answer(const cJSON *root)
{
	return !cJSON_GetObjectItemCaseSensitive(root, "method") &&
	       (cJSON_GetObjectItemCaseSensitive(root, "result") || cJSON_GetObjectItemCaseSensitive(root, "error"));
}

/* One object: alone or from a batch. */
static void receive_object(struct cbx_mcp *mcp, const struct cbx_json_doc *doc, struct cbx_raw text,
			   struct cbx_mcp_batch *batch)
{
	struct cbx_mcp_message m = { .mcp = mcp, .text = text };
	struct cbx_raw id = { doc->id, doc->id ? strlen(doc->id) : 0 };
	struct cbx_mcp_slot slot;
	const char *fault;

	if (is_answer(doc->root)) {
		if (mcp->registry->answered && !doc->problem.code)
			mcp->registry->answered(mcp, doc->root);
		return;
	}
	fault = fault_of(doc->root, &m.method);
	m.params = cJSON_GetObjectItemCaseSensitive(doc->root, "params");
	if (!id.p && !fault) {
		if (!doc->problem.code && (!m.params || cJSON_IsObject(m.params)))
			dispatch(&m, NULL);
		return;
	}
	slot = slot_open(mcp, batch);
	if (id.p && cbx_mcp_raw_is_token(id))
		slot.id = cbx_mcp_raw_copy(id);
	else if (id.p && !fault)
		fault = "id must be a string or a whole number, and short";
	if (fault)
		cbx_mcp_error(mcp, &slot, CBX_RPC_INVALID_REQUEST, "Invalid Request: %s", fault);
	else if (doc->problem.code)
		cbx_mcp_error(mcp, &slot, CBX_RPC_INVALID_PARAMS, "Invalid params: %s", doc->problem.msg);
	else if (m.params && !cJSON_IsObject(m.params))
		cbx_mcp_error(mcp, &slot, CBX_RPC_INVALID_PARAMS, "Invalid params: params must be an object");
	else
		dispatch(&m, &slot);
}

static void refuse_message(struct cbx_mcp *mcp, struct cbx_mcp_batch *batch, int code, const char *msg)
{
	struct cbx_mcp_slot slot = slot_open(mcp, batch);

	cbx_mcp_error(mcp, &slot, code, "%s", msg);
}

static void receive_batch(struct cbx_mcp *mcp, const cJSON *root, struct cbx_raw text)
{
	size_t n = (size_t)cJSON_GetArraySize(root), pos = 0;
	struct cbx_mcp_batch *batch;
	struct cbx_raw element;

	if (!mcp->rev->batches) {
		refuse_message(mcp, NULL, CBX_RPC_INVALID_REQUEST,
			       "Invalid Request: batches belong to protocol revision 2025-03-26 only");
		return;
	}
	if (!n || n > CBX_BATCH_MAX) {
		refuse_message(mcp, NULL, CBX_RPC_INVALID_REQUEST,
			       n ? "Invalid Request: the batch has too many messages" : "Invalid Request: empty batch");
		return;
	}
	batch = cbx_xcalloc(1, sizeof(*batch));
	batch->pending = 1;
	batch->origin = mcp->origin;
	if (batch->origin)
		batch->origin->slots++;
	batch->room = (CBX_REPLY_MAX - 2) / n - 1;
	while ((element = cbx_mcp_raw_element(text, &pos)).p) {
		_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
		struct cbx_err err;

		if (cbx_json_parse(element.p, element.n, &doc, &err) < 0 || !cJSON_IsObject(doc.root))
			refuse_message(mcp, batch, CBX_RPC_INVALID_REQUEST, "Invalid Request: an object is expected");
		else
			receive_object(mcp, &doc, element, batch);
	}
	batch_put(mcp, batch);
}

void cbx_mcp_line(struct cbx_mcp *mcp, const char *line, size_t len)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	struct cbx_raw text = { line, len };
	struct cbx_err err;
	size_t i = 0;

	while (i < len && (line[i] == ' ' || line[i] == '\t' || line[i] == '\r' || line[i] == '\n'))
		i++;
	if (i == len)
		return;
	if (cbx_json_parse(line, len, &doc, &err) < 0) {
		cbx_wrap(&err, "Parse error");
		refuse_message(mcp, NULL, CBX_RPC_PARSE, err.msg);
	} else if (cJSON_IsArray(doc.root)) {
		receive_batch(mcp, doc.root, text);
	} else if (!cJSON_IsObject(doc.root)) {
		refuse_message(mcp, NULL, CBX_RPC_INVALID_REQUEST, "Invalid Request: an object is expected");
	} else {
		receive_object(mcp, &doc, text, NULL);
	}
}

bool cbx_mcp_message(struct cbx_mcp *mcp, const char *text, size_t len, void *stream)
{
	struct cbx_mcp_origin *origin = cbx_xcalloc(1, sizeof(*origin));
	bool asked;

	/* One slot is this function's, so that the origin cannot end while the message is handed out. */
	origin->stream = stream;
	origin->slots = 1;
	LIST_INSERT_HEAD(&mcp->origins, origin, entry);
	mcp->origin = origin;
	mcp->asked = false;
	cbx_mcp_line(mcp, text, len);
	mcp->origin = NULL;
	asked = mcp->asked;
	if (!asked)
		origin->stream = NULL;
	origin_unref(mcp, origin);
	return asked;
}

void cbx_mcp_too_long(struct cbx_mcp *mcp)
{
	struct cbx_mcp_slot slot = { 0 };
	char max[32];

	cbx_format_size(CBX_MESSAGE_MAX, max);
	cbx_mcp_error(mcp, &slot, CBX_RPC_INVALID_REQUEST, "Invalid Request: the message is longer than %s", max);
}

/* ---- life of a connection ---- */

struct cbx_mcp *cbx_mcp_new(struct cbx_engine *engine, struct event_base *base, const struct cbx_mcp_io *io)
{
	return cbx_mcp_new_with(engine, base, io, NULL);
}

struct cbx_mcp *cbx_mcp_new_with(struct cbx_engine *engine, struct event_base *base, const struct cbx_mcp_io *io,
				 const struct cbx_mcp_registry *registry)
{
	struct cbx_mcp *mcp = cbx_xcalloc(1, sizeof(*mcp));

	mcp->engine = engine;
	mcp->base = base;
	mcp->io = *io;
	mcp->registry = registry ? registry : &cbx_mcp_codebox;
	LIST_INIT(&mcp->origins);
	mcp->rev = cbx_mcp_legacy_newest();
	TAILQ_INIT(&mcp->calls);
	TAILQ_INIT(&mcp->jobs);
	TAILQ_INIT(&mcp->streams);
	return mcp;
}

void cbx_mcp_free(struct cbx_mcp *mcp)
{
	struct cbx_mcp_call *call;
	struct cbx_session *session;
	struct cbx_err err;

	if (!mcp)
		return;
	mcp->io.send = NULL;
	mcp->io.done = NULL;
	while ((call = TAILQ_FIRST(&mcp->calls)))
		cbx_mcp_call_drop(call);
	cbx_mcp_jobs_drop(mcp);
	cbx_mcp_news_drop(mcp);
	cbx_mcp_roots_drop(mcp);
	if (mcp->default_session[0] && cbx_session_find(mcp->engine, mcp->default_session, &session, &err) >= 0 &&
	    cbx_session_one_shot(session))
		cbx_session_close(session, "its client has disconnected");
	free(mcp);
}
