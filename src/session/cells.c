/* SPDX-License-Identifier: Apache-2.0 */
/* What protocols ask of a session's cells is passed on to them, unless the session has been closed. */
#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include <string.h>

#include "session/artifacts.h"
#include "session/asked.h"

static int check_open(const struct cbx_session *s, struct cbx_err *err)
{
	if (s->state != CBX_CLOSING)
		return 0;
	*err = s->end;
	return -(err->code ? err->code : (err->code = ENOENT));
}

static int begun(struct cbx_session *s, int r)
{
	if (r < 0)
		return r;
	cbx_session_touch(s);
	cbx_session_work(s);
	return 0;
}

/* Rules for code are for Python: a cell of another language would be a way around them. */
static int add_rules(struct cbx_session *s, const struct cbx_seat *seat, struct cbx_cell_spec *cell, cJSON **ret,
		     struct cbx_err *err)
{
	const char *language = seat->runtime ? seat->runtime->language : "";

	*ret = NULL;
	cell->rules = NULL;
	if (cell->ours || !cbx_session_judges(s))
		return 0;
	if (strcmp(language, "python") != 0)
		return cbx_refuse(
			err, "code_refused", EPERM,
			"language: the policy of session %s has code_rules, which judge Python only, so cells in "
			"%s are refused; write it in Python, or have the policy changed",
			s->spec.id, language);
	cell->rules = *ret = cbx_code_rules_frame(s->policy, cell->without);
	return 0;
}

/* One that the request names, where the policy lets it. */
static int add_store(struct cbx_session *s, struct cbx_cell_spec *cell, cJSON **ret, struct cbx_err *err)
{
	*ret = NULL;
	if (cell->store_string || cell->container)
		return cbx_artifact_store(s, cell->store_string, cell->container, ret, err);
	return 0;
}

static int start(struct cbx_session *s, const struct cbx_cell_spec *cell, struct cbx_watch_op *watch,
		 struct cbx_seat **ret_seat, struct cbx_execution **ret, struct cbx_err *err)
{
	_cleanup_json_ cJSON *rules = NULL;
	struct cbx_cell_spec settled = *cell;
	struct cbx_seat *seat;
	cJSON *store = NULL;
	int r = check_open(s, err);

	*ret_seat = NULL;
	if (r >= 0)
		r = cbx_session_seat(s, &settled, &seat, err);
	if (r >= 0)
		r = add_rules(s, seat, &settled, &rules, err);
	if (r >= 0)
		r = add_store(s, &settled, &store, err);
	if (r >= 0)
		r = cbx_session_rate(s, err);
	if (r >= 0) {
		*ret_seat = seat;
		settled.store = store;
		r = begun(s, cbx_cells_add(seat, &settled, watch, ret, err));
	}
	cbx_json_wipe(store);
	return r;
}

int cbx_session_start(struct cbx_session *s, const struct cbx_cell_spec *cell, struct cbx_watch_op *watch,
		      struct cbx_execution **ret, struct cbx_err *err)
{
	struct cbx_happened h = { .what = CBX_HAPPENED_CELL, .code = cell->code, .language = cell->language };
	struct cbx_seat *seat;

	h.session_id = s->spec.id;
	h.via = cell->via;
	if (start(s, cell, watch, &seat, ret, err) < 0)
		return cbx_engine_denied(s->engine, s->tenant, &h, err);
	h.id = cbx_execution_id(*ret);
	h.language = seat->runtime ? seat->runtime->language : cell->language;
	cbx_session_happened(s, &h);
	return 0;
}

static int ask(struct cbx_session *s, const char *language, enum cbx_question question, const char *code,
	       uint64_t cursor, struct cbx_answer_op *op, struct cbx_err *err)
{
	const struct cbx_runtime *own = s->cells.first.runtime;
	struct cbx_cell_spec cell = { .code = code, .language = language || !own ? language : own->language };
	struct cbx_seat *seat;
	int r = check_open(s, err);

	if (r >= 0)
		r = cbx_session_seat(s, &cell, &seat, err);
	return r < 0 ? r : begun(s, cbx_cells_ask(seat, question, code, cursor, op, err));
}

int cbx_session_is_complete(struct cbx_session *s, const char *language, const char *code, struct cbx_answer_op *op,
			    struct cbx_err *err)
{
	return ask(s, language, CBX_ASK_IS_COMPLETE, code, 0, op, err);
}

int cbx_session_complete(struct cbx_session *s, const char *language, const char *code, uint64_t cursor,
			 struct cbx_answer_op *op, struct cbx_err *err)
{
	return ask(s, language, CBX_ASK_COMPLETE, code, cursor, op, err);
}

int cbx_session_inspect(struct cbx_session *s, const char *language, const char *code, uint64_t cursor,
			struct cbx_answer_op *op, struct cbx_err *err)
{
	return ask(s, language, CBX_ASK_INSPECT, code, cursor, op, err);
}

static const struct cbx_via *via_of(const struct cbx_caller *by)
{
	return by ? by->via : NULL;
}

void cbx_execution_interrupt(const struct cbx_caller *by, struct cbx_execution *x)
{
	struct cbx_happened h = { .what = CBX_HAPPENED_INTERRUPTED, .id = cbx_execution_id(x), .via = via_of(by) };
	struct cbx_session *s = cbx_execution_session(x);

	if (cbx_cells_interrupt(x))
		cbx_session_happened(s, &h);
}

int cbx_session_restart(const struct cbx_caller *by, struct cbx_session *s, const char *language, size_t *ret,
			struct cbx_err *err)
{
	struct cbx_happened h = { .what = CBX_HAPPENED_RESTARTED, .language = language, .via = via_of(by) };
	struct cbx_cell_spec cell = { .code = "", .language = language };
	struct cbx_seat *only = NULL, *seat;
	int r = check_open(s, err);

	*ret = 0;
	if (r >= 0 && language)
		r = cbx_session_seat(s, &cell, &only, err);
	if (r < 0)
		return r;
	for (size_t i = 0; (seat = cbx_cells_seat(&s->cells, i)); i++)
		if (!only || seat == only)
			*ret += cbx_seat_restart(seat);
	if (!only)
		cbx_buf_release(&s->cells.lost);
	cbx_session_happened(s, &h);
	return begun(s, 0);
}

int cbx_session_history(struct cbx_session *s, uint64_t after, cJSON **ret, struct cbx_err *err)
{
	const struct cbx_runtime *own = s->cells.first.runtime;
	int r = check_open(s, err);
	cJSON *o;

	if (r >= 0 && !s->cells.terms.history)
		r = cbx_refuse(err, "history_off", ENODATA,
			       "session %s: its cells are not kept, since limits.history of the policy is 0; set it, as to "
			       "\"8M\", for sessions that are made from then on",
			       s->spec.id);
	if (r < 0)
		return r;
	o = cbx_json_new_obj();
	cbx_json_set_str(o, "session_id", s->spec.id);
	cbx_json_set_str(o, "image", s->spec.image);
	cbx_json_set_str(o, "language", own ? own->language : NULL);
	cbx_cells_history(&s->cells, after, o);
	*ret = o;
	return 0;
}

struct cbx_execution *cbx_session_running(const struct cbx_session *s)
{
	return s->cells.running;
}

int cbx_execution_find(struct cbx_session *s, uint64_t id, struct cbx_execution **ret, struct cbx_err *err)
{
	return cbx_cells_find(&s->cells, id, ret, err);
}

struct cbx_session *cbx_execution_session(const struct cbx_execution *x)
{
	return cbx_container_of(cbx_execution_cells(x), struct cbx_session, cells);
}
