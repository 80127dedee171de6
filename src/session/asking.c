/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a program in a session asks through its sandbox's init for packages (runtimes/python/pip.py), or
 * has a database asked (databases.py there). It gets what any front end would get: an operation on the session that it
 * is in, judged by the same policy. What asks is hostile: its text is read strictly, there is one question at a time,
 * up to a number in a second, and when who asked has gone, the installation, or the query, is given up.
 *
 * Question: {"packages":["httpx>=0.27"]}, or {"query","connection"?,"parameters"?,"path","null"?} as in databases.h.
 * Answer: that of cbx_session_install() or cbx_engine_query(), or {"error":{"kind","message"}}.
 */
#include "session/asking.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "session/databases.h"
#include "session/install.h"

static void tell(struct cbx_session *s, const cJSON *answer)
{
	static const char *const many[] = {
		"{\"installed\":[],\"already\":[]}", /* of more packages than the text has room to name */
		"{\"error\":{\"kind\":\"result_too_large\",\"message\":\"the names of the columns are too long; ask "
		"for fewer\"}}"
	};
	_cleanup_buf_ struct cbx_buf text = { 0 };
	uint64_t number = s->asking.number;
	struct cbx_err ignored;

	if (answer)
		cbx_json_print(&text, answer);
	if (text.len > CBX_INIT_MESSAGE_MAX - sizeof(struct cbx_init_header)) {
		text.len = 0;
		cbx_buf_adds(&text, many[s->asking.queries]);
	}
	s->asking.number = 0;
	cbx_box_tell(&s->box, number, text.data, text.len, &ignored);
}

static void refuse(struct cbx_session *s, const struct cbx_err *err)
{
	_cleanup_json_ cJSON *answer = cbx_json_new_obj();

	cbx_json_set(answer, "error", cbx_json_of_error(err));
	tell(s, answer);
}

static void answered(struct cbx_answer_op *op, const cJSON *answer, const struct cbx_err *err)
{
	struct cbx_session *s = cbx_container_of(op, struct cbx_session, asking.op);

	if (s->state == CBX_CLOSING)
		return;
	if (err)
		refuse(s, err);
	else
		tell(s, answer);
}

int cbx_asked_parse(const char *p, size_t n, cJSON **ret, struct cbx_err *err)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	static const char *const install[] = { "packages", NULL };
	static const char *const query[] = { "query", "connection", "parameters", "path", "null", NULL };
	const char *text[4] = { NULL }; /* only looked at */
	const cJSON *list = NULL;
	bool queries = false;
	int r = cbx_json_parse(p, n, &doc, err);

	if (r >= 0 && !cJSON_IsObject(doc.root))
		r = cbx_refuse(err, "invalid_argument", EINVAL, "a question is not an object; send a JSON object");
	if (r >= 0) {
		queries = cbx_json_member(doc.root, "query");
		r = cbx_json_only(doc.root, queries ? query : install, err);
	}
	if (r >= 0)
		r = cbx_json_get_arr(doc.root, queries ? "parameters" : "packages", &list, err);
	for (size_t i = 0; r >= 0 && queries && i < ARRAY_SIZE(text); i++)
		r = cbx_json_get_str(doc.root, query[i + (i > 1)], &text[i], err);
	if (r >= 0 && text[3] && !cbx_name_valid(text[3]))
		r = cbx_refuse(err, "invalid_argument", EINVAL, "null: give letters and digits");
	*ret = r < 0 ? NULL : take_ptr(&doc.root);
	return r;
}

static int install(struct cbx_session *s, const cJSON *question, struct cbx_err *err)
{
	if (!s->has_packages)
		return cbx_refuse(err, "not_here", EPERM,
				  "packages cannot be installed in this session: its policy does not let that be "
				  "(packages.install); use what the image has");
	return cbx_session_install(NULL, s, cbx_json_member(question, "packages"), &s->asking.op, err);
}

/* By the session's own policy, as whose it is. */
static int query(struct cbx_session *s, const cJSON *question, struct cbx_err *err)
{
	struct cbx_principal principal = { 0 };
	struct cbx_caller caller = { .engine = s->engine, .principal = &principal };
	struct cbx_query_spec spec = {
		.session = s,
		.connection = cbx_json_text(question, "connection"),
		.query = cbx_json_text(question, "query"),
		.parameters = cbx_json_member(question, "parameters"),
		.path = cbx_json_text(question, "path"),
		.null = cbx_json_text(question, "null"),
	};

	if (!cbx_name_valid(s->tenant))
		return cbx_refuse(err, "internal", EPERM, "this session is nobody's: it has no databases");
	memcpy(principal.tenant, s->tenant, sizeof(principal.tenant));
	return cbx_engine_query(&caller, &spec, &s->asking.op, err);
}

static void turn(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_session *s = arg;
	_cleanup_json_ cJSON *question = NULL;
	uint64_t wait = cbx_rate_take(&s->asking.rate, cbx_now_ms());
	struct cbx_err err;

	if (wait) {
		cbx_timer_set(s->asking.timer, wait);
		return;
	}
	question = take_ptr(&s->asking.question);
	s->asking.op = (struct cbx_answer_op){ .op.ops = &s->asking.ops, .done = answered };
	if ((s->asking.queries ? query(s, question, &err) : install(s, question, &err)) < 0)
		refuse(s, &err);
}

static void left(struct cbx_session *s)
{
	struct cbx_err err;

	if (cbx_op_pending(&s->asking.op.op) && !s->asking.queries) {
		cbx_refuse(&err, "cancelled", ECANCELED, "who asked for the packages has gone");
		cbx_install_end(s->install, &err); /* answered() follows */
		return;
	}
	cbx_op_cancel(&s->asking.op.op);
	event_del(s->asking.timer);
	cJSON_Delete(take_ptr(&s->asking.question));
	tell(s, NULL);
}

void cbx_session_asked(struct cbx_session *s, uint64_t number, const char *p, size_t n)
{
	struct cbx_asking *a = &s->asking;
	struct cbx_err err;

	if (!p) {
		if (a->number == number)
			left(s);
		return; /* else it has been answered meanwhile */
	}
	if (a->number || !number || s->shape) {
		cbx_refuse(&err, "sandbox_failed", EBADMSG,
			   "the first process of the sandbox sent a question at the wrong time");
		cbx_session_fail(s, &err);
		return;
	}
	if (!a->timer && !(a->timer = event_new(s->engine->base, -1, 0, turn, s))) {
		cbx_fail(&err, ENOMEM, "watch a question of a session");
		cbx_session_fail(s, &err);
		return;
	}
	a->number = number;
	a->rate.per_second = CBX_ASKS_PER_SECOND;
	(void)cbx_asked_parse(p, n, &a->question, &err); /* what is none is refused in its turn */
	a->queries = cbx_json_member(a->question, "query");
	cbx_timer_set(a->timer, 0);
}
