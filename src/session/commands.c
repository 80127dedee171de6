/* SPDX-License-Identifier: Apache-2.0 */
/* What protocols ask of a session's commands is passed on to them, unless the session has been closed. */
#include "session/commands.h"

#include <errno.h>
#include <string.h>

#include "session/internal.h"
#include "session/kept.h"

static struct cbx_session *session_of(struct cbx_commands *all)
{
	return cbx_container_of(all, struct cbx_session, commands);
}

static void news(struct cbx_commands *all)
{
	cbx_session_work(session_of(all));
}

/* A zygote enters only sandboxes in which nothing has run. */
static void began(struct cbx_commands *all)
{
	struct cbx_session *s = session_of(all);

	s->used = true;
	cbx_session_touch(s);
	cbx_link_used(&s->box);
}

static void ended(struct cbx_commands *all, const struct cbx_command *c, uint64_t ms)
{
	struct cbx_happened h = { .what = CBX_HAPPENED_EXITED, .id = cbx_command_id(c), .duration_ms = ms };

	h.outcome = cbx_status_name(cbx_command_status(c));
	cbx_session_happened(session_of(all), &h);
	if (session_of(all)->state == CBX_LIVE && cbx_command_files(c))
		cbx_engine_files_news(session_of(all), cbx_command_files(c));
}

static void kept(struct cbx_session *s, void *arg)
{
	cbx_command_files_kept(arg);
}

static void not_kept(void *arg, const char *why)
{
	cbx_command_files_kept(arg);
}

static void *keep(struct cbx_commands *all, struct cbx_command *c)
{
	struct cbx_kept_files files = {
		.list = cbx_command_files_open(c), .done = kept, .gone = not_kept, .arg = c
	};

	return cbx_keep_files(session_of(all), &files);
}

static void leave(void *keep)
{
	cbx_keep_free(keep);
}

const struct cbx_commands_events cbx_session_commands_events = {
	.news = news, .began = began, .keep = keep, .leave = leave, .ended = ended
};

/* Output that waits for its client to confirm it takes memory: there is a limit of such commands for a session, a
 * tenant, and all. */
static int check_unread(struct cbx_session *s, struct cbx_err *err)
{
	const struct cbx_session *other;
	size_t tenant = 0, all = 0, n;

	while (cbx_commands_unread(&s->commands) >= CBX_COMMANDS_UNREAD)
		if (!cbx_commands_let_go(&s->commands))
			return cbx_refuse(err, "too_many_commands", EAGAIN,
					  "%d commands of session %s whose output is kept for a client run already; "
					  "wait for one, or end some",
					  CBX_COMMANDS_UNREAD, s->spec.id);
	TAILQ_FOREACH(other, &s->engine->registry.sessions, entry) {
		n = cbx_commands_unread(&other->commands);
		all += n;
		tenant += strcmp(other->tenant, s->tenant) == 0 ? n : 0;
	}
	if (tenant < CBX_COMMANDS_UNREAD_TENANT && all < CBX_COMMANDS_UNREAD_ALL)
		return 0;
	return cbx_refuse(
		err, "too_many_commands", EAGAIN,
		"%zu commands of %s keep output that no client has confirmed; read it to its end, delete some "
		"of them, or try again later",
		all < CBX_COMMANDS_UNREAD_ALL ? tenant : all, all < CBX_COMMANDS_UNREAD_ALL ? "yours" : "all sessions");
}

int cbx_session_command(struct cbx_session *s, const struct cbx_command_spec *spec, struct cbx_command_op *op,
			struct cbx_command **ret, struct cbx_err *err)
{
	struct cbx_happened h = { .what = CBX_HAPPENED_COMMAND, .session_id = s->spec.id, .argv = spec->argv };
	int r;

	h.via = spec->via;
	if (s->state == CBX_CLOSING) {
		*err = s->end;
		return -(err->code ? err->code : (err->code = ENOENT));
	}
	cbx_session_touch(s);
	if (!spec->ours && cbx_session_judges(s)) {
		cbx_refuse(
			err, "code_refused", EPERM,
			"the policy of session %s has code_rules, which judge Python cells only, so other programs are "
			"refused; run Python in a cell, or have the policy changed",
			s->spec.id);
		return cbx_engine_denied(s->engine, s->tenant, &h, err);
	}
	if (cbx_session_rate(s, err) < 0)
		return cbx_engine_denied(s->engine, s->tenant, &h, err);
	r = spec->unread == CBX_UNREAD_CUT ? 0 : check_unread(s, err);
	if (r >= 0)
		r = cbx_commands_add(&s->commands, spec, op, ret, err);
	if (r < 0)
		return cbx_engine_denied(s->engine, s->tenant, &h, err);
	h.id = cbx_command_id(*ret);
	cbx_session_happened(s, &h);
	return r;
}

const cJSON *cbx_session_program(const struct cbx_session *s)
{
	return s->program;
}

int cbx_command_find(struct cbx_session *s, uint64_t id, struct cbx_command **ret, struct cbx_err *err)
{
	cbx_session_touch(s);
	return cbx_commands_find(&s->commands, id, ret, err);
}

struct cbx_session *cbx_command_session(const struct cbx_command *c)
{
	return session_of(c->all);
}

cJSON *cbx_session_commands(const struct cbx_session *s)
{
	cJSON *list = cbx_json_new_arr();
	const struct cbx_command *c;

	TAILQ_FOREACH(c, &s->commands.list, entry)
		cbx_json_push(list, cbx_command_describe(c));
	return list;
}
