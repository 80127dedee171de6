/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SESSION_POOL_H
#define CBX_SESSION_POOL_H

/* Sessions that are made before they are asked for. What the pool learns of them: struct cbx_pool_events. */
#include "base/err.h"
#include "base/json.h"

struct cbx_engine;
struct cbx_plan;
struct cbx_session;

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
