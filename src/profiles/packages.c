/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: packages that a client asks for may be in the image already. Whether they are is found out by a
 * cell of the session, which prints those that are missing; its variables are its own. These are installed, as far as the
 * policy allows it. What the cell says is hostile: the engine reads it as it reads a client's list.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "profiles/internal.h"

#define TIMEOUT_MS 30000
#define LIST_MAX   100 /* packages of one call */

struct requirement {
	void (*then)(struct cbx_tool_call *call, const char *fault);
	void *state; /* of the call, which has it back afterwards */
	void (*release)(void *state);
	cJSON *wanted;
};

static void requirement_free(void *p)
{
	struct requirement *q = p;

	if (q->release)
		q->release(q->state);
	cJSON_Delete(q->wanted);
	free(q);
}

static const char looks[] = "exec('''import importlib.metadata as m\\n"
			    "def has(w):\\n"
			    "    try:\\n"
			    "        from packaging.requirements import Requirement\\n"
			    "        r = Requirement(w)\\n"
			    "        return not r.url and r.specifier.contains(m.version(r.name), prereleases=True)\\n"
			    "    except ImportError:\\n"
			    "        return w in (d.metadata['Name'] for d in m.distributions())\\n"
			    "    except ValueError:\\n"
			    "        return False\\n"
			    "import json\\n"
			    "print(json.dumps([w for w in wanted if not has(w)]))''', {'wanted': ";

static void go_on(struct cbx_tool_call *call, const char *fault)
{
	struct requirement *q = call->state;
	void (*then)(struct cbx_tool_call * call, const char *fault) = q->then;

	call->state = q->state;
	call->release = q->release;
	cJSON_Delete(q->wanted);
	free(q);
	then(call, fault);
}

static void installed(struct cbx_answer_op *op, const cJSON *answer, const struct cbx_err *err)
{
	struct cbx_tool_call *call = cbx_container_of(op, struct cbx_tool_call, answer_op);

	go_on(call, err ? err->msg : NULL);
}

static int install(struct cbx_tool_call *call, const char *printed, struct cbx_err *err)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	const struct requirement *q = call->state;
	const cJSON *missing = q->wanted; /* where the cell has not said which */
	struct cbx_session *session;
	int r = cbx_profile_find(call, &session, err);

	if (r < 0)
		return r;
	if (printed && cbx_json_parse(printed, strcspn(printed, "\n"), &doc, err) >= 0 && cJSON_IsArray(doc.root))
		missing = doc.root;
	if (!missing->child)
		return 0;
	call->answer_op = (struct cbx_answer_op){ .op.ops = &call->client->caller.ops, .done = installed };
	r = cbx_session_install(&call->client->caller, session, missing, &call->answer_op, err);
	return r < 0 ? r : 1;
}

static void looked(struct cbx_tool_call *call, struct cbx_execution *x)
{
	_cleanup_json_ cJSON *j = cbx_execution_to_json(x, false);
	struct cbx_err err;
	int r = install(call, cbx_json_text(j, "stdout"), &err);

	if (r <= 0)
		go_on(call, r < 0 ? err.msg : NULL);
}

int cbx_profile_require(struct cbx_tool_call *call, const cJSON *list,
			void (*then)(struct cbx_tool_call *call, const char *fault), struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf code = { 0 };
	struct cbx_cell_spec cell = { .ours = true, .timeout_ms = TIMEOUT_MS };
	struct requirement *q;

	if (cJSON_GetArraySize(list) > LIST_MAX)
		return cbx_refuse(err, "invalid_argument", E2BIG, "packages: too many; ask for up to %d at a time",
				  LIST_MAX);
	cbx_buf_adds(&code, looks);
	cbx_json_print(&code, list);
	cbx_buf_adds(&code, "})");
	cell.code = cbx_buf_str(&code);
	q = cbx_xcalloc(1, sizeof(*q));
	*q = (struct requirement){ then, call->state, call->release, cJSON_Duplicate(list, 1) };
	call->state = q;
	call->release = requirement_free;
	return cbx_profile_run(call, &cell, looked, err);
}
