/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SESSION_AHEAD_H
#define CBX_SESSION_AHEAD_H

/* What is made before it is asked for: warm interpreters, and sessions that have one. */
#include "session/internal.h"

/* ---- zygotes.c ---- */

struct cbx_zygotes;
int cbx_zygotes_new(struct cbx_engine *engine, struct cbx_err *err);
void cbx_zygotes_free(struct cbx_engine *engine); /* NULL-safe; the supervisor's end is theirs */
/* A session like this one is in use: one of its kind should be there, some time soon. */
void cbx_zygote_want(struct cbx_session *s);
bool cbx_zygote_ready_for(const struct cbx_session *s); /* it could have its interpreter from one */
/* The number of one that its interpreter is to be forked from, and the first frame for that; 0: none is ready. */
uint64_t cbx_zygote_take(struct cbx_session *s, cJSON **ret_first);
void cbx_zygote_served(struct cbx_session *s); /* and it was placed */
/* ZYGOTE_READY, ZYGOTE_GONE. True: sessions can have interpreters that they could not have before. */
bool cbx_zygotes_event(struct cbx_engine *engine, const struct cbx_event *ev);
cJSON *cbx_zygotes_to_json(const struct cbx_engine *engine);

/* ---- pool.c: sessions made ahead of time ---- */

int cbx_pool_new(struct cbx_engine *engine, struct cbx_err *err);
void cbx_pool_free(struct cbx_engine *engine); /* NULL-safe; closes its entries */
/* A session is wanted as `s` and `plan` describe it. One that is equal and nobody's, taken out of the pool, or NULL. */
struct cbx_session *cbx_pool_take(struct cbx_session *s, const struct cbx_plan *plan);
void cbx_pool_warm(struct cbx_engine *engine); /* interpreters can be had that have more loaded than those of entries */
void cbx_pool_make_room(struct cbx_engine *engine); /* a session is about to be made: entries give way */
void cbx_pool_close_all(struct cbx_engine *engine, const char *why);
void cbx_pool_renew(struct cbx_engine *engine, const char *why); /* also what they would be made from */
cJSON *cbx_pool_to_json(const struct cbx_engine *engine);

#endif
