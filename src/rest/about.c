/* SPDX-License-Identifier: Apache-2.0 */
/* What is the same for everybody. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "observe/metrics.h"
#include "rest/internal.h"
#include "rest/openapi.inc"

int cbx_rest_health(struct cbx_rest_call *call, struct cbx_err *err)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "status", "ok");
	cbx_rest_answer(call, 200, o);
	return 0;
}

/* Whether a session could be made now, as far as that is known. */
int cbx_rest_ready(struct cbx_rest_call *call, struct cbx_err *err)
{
	bool ready = cbx_engine_settled(call->rest->engine) && !cbx_engine_trouble(call->rest->engine) &&
		     !call->rest->draining;
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "status", ready ? "ready" : "not ready");
	cbx_rest_answer(call, ready ? 200 : 503, o);
	return 0;
}

int cbx_rest_version(struct cbx_rest_call *call, struct cbx_err *err)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "name", "codebox");
	cbx_json_set_str(o, "version", PACKAGE_VERSION);
	cbx_rest_answer(call, 200, o);
	return 0;
}

int cbx_rest_openapi(struct cbx_rest_call *call, struct cbx_err *err)
{
	_cleanup_json_ cJSON *doc = cJSON_ParseWithLength(openapi, sizeof(openapi) - 1);
	cJSON *info = cbx_json_member(doc, "info");

	cJSON_ReplaceItemInObjectCaseSensitive(info, "version", cJSON_CreateString(PACKAGE_VERSION));
	cbx_rest_answer(call, 200, take_ptr(&doc));
	return 0;
}

int cbx_rest_metrics(struct cbx_rest_call *call, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	const struct cbx_http_conns *all = call->conn->all;

	if (!all->metrics)
		return cbx_refuse(err, "not_found", ENOENT, "nothing is counted here; ask the codeboxd that serves");
	cbx_metrics_print(all->metrics, call->rest->engine, all->n, &text);
	cbx_rest_answer_text(call, "text/plain; version=0.0.4; charset=utf-8", &text);
	return 0;
}
