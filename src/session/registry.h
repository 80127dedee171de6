/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SESSION_REGISTRY_H
#define CBX_SESSION_REGISTRY_H

/* Which sessions there are, by id, and were; who hears of them, and what has happened in each. */
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "base/str.h"
#include "session/happened.h"
#include "session/session.h"

struct cbx_tombstone {
	char tenant[CBX_NAME_MAX + 1], id[CBX_NAME_MAX + 1];
	char *why;
};

TAILQ_HEAD(cbx_sessions, cbx_session);
#define CBX_TABLE_SIZE 512 /* buckets */

struct cbx_session_registry {
	struct cbx_sessions sessions; /* closing ones too */
	size_t live, closing;
	uint64_t serial; /* of the last one that became somebody's */
	LIST_HEAD(, cbx_session) by_id[CBX_TABLE_SIZE];
	struct cbx_tombstone *tombstones; /* a ring of CBX_TOMBSTONES_MAX, made when the first is needed */
	size_t ntombstones, next_tombstone;
	TAILQ_HEAD(, cbx_engine_listener) listeners;
};

void cbx_session_registry_init(struct cbx_session_registry *registry);
void cbx_session_registry_release(struct cbx_session_registry *registry); /* no session is in it */

void cbx_engine_name(struct cbx_session *s);   /* it can be found by its id from now on */
void cbx_engine_unname(struct cbx_session *s); /* its id is free again */
struct cbx_session *cbx_engine_by_id(struct cbx_engine *engine, const char *tenant,
				     const char *id); /* not closing; NULL: none */

/* A session was made or has gone: tell the listeners. */
void cbx_engine_session_news(struct cbx_session *s, bool gone);
void cbx_engine_files_news(struct cbx_session *s, const cJSON *files); /* that have changed */

void cbx_engine_bury(const struct cbx_session *s, const char *why);
void cbx_engine_forget(struct cbx_session *s); /* remove from the list; on_idle when it was the last */
bool cbx_session_is_of(const struct cbx_session *s, const struct cbx_principal *owner); /* and not closing */
/* One that has directories of the machine to write to, also while its sandbox is taken down; NULL: none. */
const char *cbx_engine_writer(const struct cbx_engine *engine);

void cbx_session_happened(struct cbx_session *s, struct cbx_happened *h); /* tenant and session_id are filled in */
void cbx_session_log_free(struct cbx_session *s);

#endif
