/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SESSION_ZYGOTES_H
#define CBX_SESSION_ZYGOTES_H

/* Interpreters that are warm before their session is there. */
#include "session/internal.h"

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

#endif
