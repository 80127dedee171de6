/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: every message passes one gate, receive_object(). It finds out what the message is – request,
 * notification, answer, or nothing of the kind – checks what JSON-RPC asks of it, and hands requests upwards together
 * with a slot for the answer.
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
#include "base/str.h"
#include "wire/rpc.h"

#define ENVELOPE 512 /* bytes around a result: {"jsonrpc":"2.0","id":…,"result":…} without the id, and the head */

/* A stream of the carrier, as long as slots of its message are open. */
struct cbx_rpc_origin {
	LIST_ENTRY(cbx_rpc_origin) entry;
	void *stream; /* NULL: it has gone */
	size_t slots;
};

struct cbx_rpc_batch {
	struct cbx_rpc_origin *origin;
	struct cbx_buf out;
	size_t pending;
	size_t room; /* for each answer */
};

/* ---- streams ---- */

static void origin_unref(struct cbx_rpc *rpc, struct cbx_rpc_origin *origin)
{
	if (!origin || --origin->slots)
		return;
	if (origin->stream && rpc->io.done)
		rpc->io.done(rpc->io.arg, origin->stream);
	LIST_REMOVE(origin, entry);
	free(origin);
}

/* A slot for a request of the message that is being received. */
static struct cbx_rpc_slot slot_open(struct cbx_rpc *rpc, struct cbx_rpc_batch *batch)
{
	if (batch)
		batch->pending++;
	else if (rpc->origin)
		rpc->origin->slots++;
	rpc->asked = true;
	return (struct cbx_rpc_slot){ .rpc = rpc, .batch = batch, .origin = batch ? batch->origin : rpc->origin };
}

static void emit(struct cbx_rpc *rpc, struct cbx_rpc_origin *origin, int code, const struct cbx_buf *line)
{
	if (!rpc->io.send)
		return;
	if (!origin)
		rpc->io.send(rpc->io.arg, line->data, line->len);
	else if (origin->stream)
		rpc->io.send_to(rpc->io.arg, origin->stream, code, line->data, line->len);
}

void cbx_rpc_forget(struct cbx_rpc *rpc, void *stream)
{
	struct cbx_rpc_origin *origin;

	LIST_FOREACH(origin, &rpc->origins, entry)
		if (origin->stream == stream)
			origin->stream = NULL;
}

/* ---- answers ---- */

static void batch_put(struct cbx_rpc *rpc, struct cbx_rpc_batch *batch)
{
	if (--batch->pending)
		return;
	if (batch->out.len) {
		cbx_buf_addc(&batch->out, ']');
		emit(rpc, batch->origin, 0, &batch->out);
	}
	origin_unref(rpc, batch->origin);
	cbx_buf_release(&batch->out);
	free(batch);
}

static size_t message_max(const struct cbx_rpc_slot *slot)
{
	return slot->batch ? slot->batch->room : CBX_REPLY_MAX;
}

size_t cbx_rpc_room(const struct cbx_rpc_slot *slot)
{
	return message_max(slot) - ENVELOPE - (slot->id ? strlen(slot->id) : 4);
}

static void slot_end(struct cbx_rpc_slot *slot)
{
	if (slot->batch)
		batch_put(slot->rpc, slot->batch);
	else
		origin_unref(slot->rpc, slot->origin);
	slot->batch = NULL;
	slot->origin = NULL;
	free(slot->id);
	slot->id = NULL;
}

/* Send {"jsonrpc":"2.0","id":…,"<member>":<value>}. */
static void deliver(struct cbx_rpc_slot *slot, const char *member, int code, const struct cbx_buf *value)
{
	_cleanup_buf_ struct cbx_buf line = { 0 };
	_cleanup_buf_ struct cbx_buf head = { 0 };
	struct cbx_buf *out = slot->batch ? &slot->batch->out : &line;
	struct cbx_rpc *rpc = slot->rpc;
	size_t used = 0;

	rpc->events->before_answer(rpc->arg, slot, code ? NULL : value, &head);
	if (slot->batch)
		cbx_buf_addc(out, out->len ? ',' : '[');
	cbx_buf_reserve(out, value->len + head.len + ENVELOPE);
	cbx_buf_adds(out, "{\"jsonrpc\":\"2.0\",\"id\":");
	cbx_buf_adds(out, slot->id ? slot->id : "null");
	cbx_buf_adds(out, ",\"");
	cbx_buf_adds(out, member);
	cbx_buf_adds(out, "\":");
	if (head.len && value->len >= 2 && value->data[0] == '{') {
		cbx_buf_addc(out, '{');
		cbx_buf_add(out, head.data, head.len - (value->data[1] == '}')); /* without its last comma */
		used = 1;
	}
	cbx_buf_add(out, value->data + used, value->len - used);
	cbx_buf_addc(out, '}');
	if (!slot->batch)
		emit(rpc, slot->origin, code, &line);
	slot_end(slot);
}

void cbx_rpc_answer_text(struct cbx_rpc_slot *slot, const struct cbx_buf *result)
{
	if (result->len > cbx_rpc_room(slot))
		cbx_rpc_error(slot, CBX_RPC_INTERNAL, "the answer of %zu bytes is over the limit of %zu", result->len,
			      cbx_rpc_room(slot));
	else
		deliver(slot, "result", 0, result);
}

void cbx_rpc_answer(struct cbx_rpc_slot *slot, cJSON *result)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };

	cbx_json_print_clean(&text, result);
	cJSON_Delete(result);
	cbx_rpc_answer_text(slot, &text);
}

/* Takes data. */
static void print_error(struct cbx_buf *out, int code, cJSON *data, const char *msg)
{
	_cleanup_json_ cJSON *error = cbx_json_new_obj();

	cbx_json_set_i64(error, "code", code);
	cbx_json_set_str(error, "message", msg);
	if (data)
		cbx_json_set(error, "data", data);
	cbx_json_print_clean(out, error);
}

void cbx_rpc_print_error(struct cbx_buf *out, const char *id, int code, const char *msg)
{
	cbx_buf_addf(out, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":", id ? id : "null");
	print_error(out, code, NULL, msg);
	cbx_buf_addc(out, '}');
}

void cbx_rpc_errorv(struct cbx_rpc_slot *slot, int code, cJSON *data, const char *fmt, va_list ap)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	char msg[800];

	vsnprintf(msg, sizeof(msg), fmt, ap);
	print_error(&text, code, data, msg);
	if (data && text.len > cbx_rpc_room(slot)) { /* what the client asked about, at any length */
		cbx_buf_drop(&text, text.len);
		print_error(&text, code, NULL, msg);
	}
	deliver(slot, "error", code, &text);
}

void cbx_rpc_error(struct cbx_rpc_slot *slot, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	cbx_rpc_errorv(slot, code, NULL, fmt, ap);
	va_end(ap);
}

void cbx_rpc_error_data(struct cbx_rpc_slot *slot, int code, cJSON *data, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	cbx_rpc_errorv(slot, code, data, fmt, ap);
	va_end(ap);
}

void cbx_rpc_drop(struct cbx_rpc_slot *slot)
{
	slot_end(slot);
}

void cbx_rpc_request(const struct cbx_rpc_slot *slot, const char *id, const char *method, const struct cbx_buf *params)
{
	_cleanup_buf_ struct cbx_buf line = { 0 };

	cbx_buf_adds(&line, "{\"jsonrpc\":\"2.0\",");
	if (id)
		cbx_buf_addf(&line, "\"id\":\"%s\",", id);
	cbx_buf_addf(&line, "\"method\":\"%s\",\"params\":", method);
	cbx_buf_add(&line, params->data, params->len);
	cbx_buf_addc(&line, '}');
	emit(slot->rpc, slot->origin, CBX_RPC_MORE, &line);
}

void cbx_rpc_notify(const struct cbx_rpc_slot *slot, const char *method, const struct cbx_buf *params)
{
	cbx_rpc_request(slot, NULL, method, params);
}

/* ---- messages ---- */

/* What is wrong with a request as JSON-RPC; NULL: nothing. */
static const char *fault_of(const cJSON *root, const char **ret_method)
{
	const cJSON *version = cbx_json_member(root, "jsonrpc");
	const cJSON *method = cbx_json_member(root, "method");

	if (!cJSON_IsString(version) || strcmp(version->valuestring, "2.0") != 0)
		return "jsonrpc must be \"2.0\"";
	if (!cJSON_IsString(method))
		return "method must be a string";
	*ret_method = method->valuestring;
	return NULL;
}

static bool is_answer(const cJSON *root)
{
	return !cbx_json_member(root, "method") &&
	       (cbx_json_member(root, "result") || cbx_json_member(root, "error"));
}

/* One object: alone or from a batch. */
static void receive_object(struct cbx_rpc *rpc, const struct cbx_json_doc *doc, struct cbx_raw text,
			   struct cbx_rpc_batch *batch)
{
	struct cbx_rpc_message m = { .text = text };
	struct cbx_raw id = { doc->id, doc->id ? strlen(doc->id) : 0 };
	struct cbx_rpc_slot slot;
	const char *fault;

	if (is_answer(doc->root)) {
		if (!doc->problem.code)
			rpc->events->on_answer(rpc->arg, doc->root);
		return;
	}
	fault = fault_of(doc->root, &m.method);
	m.params = cbx_json_member(doc->root, "params");
	if (!id.p && !fault) {
		if (!doc->problem.code && (!m.params || cJSON_IsObject(m.params)))
			rpc->events->on_notification(rpc->arg, &m);
		return;
	}
	slot = slot_open(rpc, batch);
	if (id.p && cbx_raw_is_token(id))
		slot.id = cbx_raw_copy(id);
	else if (id.p && !fault)
		fault = "id must be a string or a whole number, and short";
	if (fault)
		cbx_rpc_error(&slot, CBX_RPC_INVALID_REQUEST, "Invalid Request: %s", fault);
	else if (doc->problem.code)
		cbx_rpc_error(&slot, CBX_RPC_INVALID_PARAMS, "Invalid params: %s", doc->problem.msg);
	else if (m.params && !cJSON_IsObject(m.params))
		cbx_rpc_error(&slot, CBX_RPC_INVALID_PARAMS, "Invalid params: params must be an object");
	else
		rpc->events->on_request(rpc->arg, &m, &slot);
}

static void refuse_message(struct cbx_rpc *rpc, struct cbx_rpc_batch *batch, int code, const char *msg)
{
	struct cbx_rpc_slot slot = slot_open(rpc, batch);

	cbx_rpc_error(&slot, code, "%s", msg);
}

static void receive_batch(struct cbx_rpc *rpc, const cJSON *root, struct cbx_raw text)
{
	size_t n = (size_t)cJSON_GetArraySize(root), pos = 0;
	struct cbx_rpc_batch *batch;
	struct cbx_raw element;

	if (!rpc->events->takes_batches(rpc->arg)) {
		refuse_message(rpc, NULL, CBX_RPC_INVALID_REQUEST,
			       "Invalid Request: batches belong to protocol revision 2025-03-26 only");
		return;
	}
	if (!n || n > CBX_BATCH_MAX) {
		refuse_message(rpc, NULL, CBX_RPC_INVALID_REQUEST,
			       n ? "Invalid Request: the batch has too many messages" : "Invalid Request: empty batch");
		return;
	}
	batch = cbx_xcalloc(1, sizeof(*batch));
	batch->pending = 1;
	batch->origin = rpc->origin;
	if (batch->origin)
		batch->origin->slots++;
	batch->room = (CBX_REPLY_MAX - 2) / n - 1;
	while ((element = cbx_raw_element(text, &pos)).p) {
		_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
		struct cbx_err err;

		if (cbx_json_parse(element.p, element.n, &doc, &err) < 0 || !cJSON_IsObject(doc.root))
			refuse_message(rpc, batch, CBX_RPC_INVALID_REQUEST, "Invalid Request: an object is expected");
		else
			receive_object(rpc, &doc, element, batch);
	}
	batch_put(rpc, batch);
}

void cbx_rpc_line(struct cbx_rpc *rpc, const char *line, size_t len)
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
		refuse_message(rpc, NULL, CBX_RPC_PARSE, err.msg);
	} else if (cJSON_IsArray(doc.root)) {
		receive_batch(rpc, doc.root, text);
	} else if (!cJSON_IsObject(doc.root)) {
		refuse_message(rpc, NULL, CBX_RPC_INVALID_REQUEST, "Invalid Request: an object is expected");
	} else {
		receive_object(rpc, &doc, text, NULL);
	}
}

bool cbx_rpc_message(struct cbx_rpc *rpc, const char *text, size_t len, void *stream)
{
	struct cbx_rpc_origin *origin = cbx_xcalloc(1, sizeof(*origin));
	bool asked;

	/* One slot is this function's, so that the origin cannot end while the message is handed out. */
	origin->stream = stream;
	origin->slots = 1;
	LIST_INSERT_HEAD(&rpc->origins, origin, entry);
	rpc->origin = origin;
	rpc->asked = false;
	cbx_rpc_line(rpc, text, len);
	rpc->origin = NULL;
	asked = rpc->asked;
	if (!asked)
		origin->stream = NULL;
	origin_unref(rpc, origin);
	return asked;
}

void cbx_rpc_too_long(struct cbx_rpc *rpc)
{
	struct cbx_rpc_slot slot = { .rpc = rpc };
	char max[32];

	cbx_format_size(CBX_MESSAGE_MAX, max);
	cbx_rpc_error(&slot, CBX_RPC_INVALID_REQUEST, "Invalid Request: the message is longer than %s", max);
}

void cbx_rpc_init(struct cbx_rpc *rpc, const struct cbx_rpc_io *io, const struct cbx_rpc_events *events, void *arg)
{
	*rpc = (struct cbx_rpc){ .io = *io, .events = events, .arg = arg };
}

void cbx_rpc_mute(struct cbx_rpc *rpc)
{
	rpc->io.send = NULL;
	rpc->io.done = NULL;
}
