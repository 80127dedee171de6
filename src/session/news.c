/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: one list of listeners; whoever is told may take itself, but nobody else, off it. */
#include "session/internal.h"

void cbx_engine_listen(struct cbx_engine *e, struct cbx_engine_listener *l)
{
	TAILQ_INSERT_TAIL(&e->listeners, l, entry);
}

void cbx_engine_unlisten(struct cbx_engine *e, struct cbx_engine_listener *l)
{
	TAILQ_REMOVE(&e->listeners, l, entry);
}

void cbx_engine_files_changed(struct cbx_engine *e, const char *session_id, const cJSON *files)
{
	const struct cbx_session *s = cbx_engine_by_id(e, session_id);
	struct cbx_engine_listener *l, *next;

	if (!s)
		return;
	TAILQ_FOREACH_SAFE(l, &e->listeners, entry, next)
	{
		if (l->on_files)
			l->on_files(l->arg, session_id, s->spec.one_shot, files);
	}
}

void cbx_engine_session_news(struct cbx_session *s, bool gone)
{
	struct cbx_engine_listener *l, *next;

	TAILQ_FOREACH_SAFE(l, &s->engine->listeners, entry, next)
	{
		if (l->on_session)
			l->on_session(l->arg, s->spec.id, s->spec.one_shot, gone);
	}
}
