/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/control.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"

static struct cbx_control_request *request_of(struct cbx_artifact_op *op)
{
	return cbx_container_of(op, struct cbx_control_request, artifact);
}

static struct cbx_artifact_op *artifact_op(struct cbx_control_request *q,
					   void (*done)(struct cbx_artifact_op *op, const cJSON *about, const void *p,
							size_t n, const struct cbx_err *err))
{
	q->artifact = (struct cbx_artifact_op){ .op.ops = &q->control->caller.ops, .done = done };
	return &q->artifact;
}

static void told(struct cbx_artifact_op *op, const cJSON *about, const void *p, size_t n, const struct cbx_err *err)
{
	cbx_control_answer(request_of(op), err ? NULL : cJSON_Duplicate(about, 1), err);
}

static void listed(struct cbx_artifact_op *op, const cJSON *about, const void *p, size_t n, const struct cbx_err *err)
{
	struct cbx_control_request *q = request_of(op);

	cbx_control_answer(q, err ? NULL : cbx_artifact_list_linked(&q->control->caller, about), err);
}

int cbx_control_artifact_list(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	return cbx_artifact_list(&q->control->caller, artifact_op(q, listed), err);
}

int cbx_control_artifact_remove(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	return cbx_artifact_remove(&q->control->caller, a->artifact_id, artifact_op(q, told), err);
}

static void was_read(struct cbx_artifact_op *op, const cJSON *about, const void *p, size_t n, const struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	cJSON *o;

	if (err) {
		cbx_control_answer(request_of(op), NULL, err);
		return;
	}
	o = cJSON_Duplicate(about, 1);
	cbx_base64_encode(&text, p, n);
	cbx_json_set_str(o, "data", cbx_buf_str(&text));
	cbx_control_answer(request_of(op), o, NULL);
}

int cbx_control_artifact_read(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	return cbx_artifact_read(&q->control->caller, false, a->artifact_id, a->offset,
				 a->length < CBX_ARTIFACT_PIECE ? (size_t)a->length : CBX_ARTIFACT_PIECE,
				 artifact_op(q, was_read), err);
}

static void known(struct cbx_artifact_op *op, const cJSON *about, const void *p, size_t n, const struct cbx_err *err)
{
	struct cbx_control_request *q = request_of(op);
	_cleanup_buf_ struct cbx_buf link = { 0 };
	struct cbx_err none;
	uint64_t until;
	cJSON *o;

	if (err) {
		cbx_control_answer(q, NULL, err);
		return;
	}
	if (!cbx_artifact_link(&q->control->caller, about, NULL, q->offset, &link, &until)) {
		cbx_refuse(&none, "no_links", ENOSYS,
			   "this codeboxd serves no HTTP, so nothing can be linked to; start it with --http, or use codebox "
			   "artifact get");
		cbx_control_answer(q, NULL, &none);
		return;
	}
	o = cbx_json_new_obj();
	cbx_json_set_str(o, "link", cbx_buf_str(&link));
	cbx_json_set_u64(o, "expires", until);
	cbx_control_answer(q, o, NULL);
}

int cbx_control_artifact_link(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	q->offset = a->length;
	return cbx_artifact_read(&q->control->caller, false, a->artifact_id, 0, 0, artifact_op(q, known), err);
}
