/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SESSION_ASKED_H
#define CBX_SESSION_ASKED_H

/* What was asked for, and what policies make of it. */
#include "session/internal.h"

/* spec.c. Lower to the policy what was given, take the rest from it; push the names of what was lowered. */
void cbx_session_spec_settle(struct cbx_session_spec *spec, const struct cbx_policy *policy, cJSON *lowered);
/* The first key that `want` was given and `have` has otherwise; NULL: none. */
const char *cbx_session_spec_differs(const struct cbx_session_spec *want, const struct cbx_session_spec *have);
/* malloc'd text of its environment and mounts, or NULL */
char *cbx_session_spec_asked(const struct cbx_session_spec *spec);
/* images.c. The image that is asked for, or else the default one: may its owner use it? */
int cbx_session_settle_image(struct cbx_session *s, const struct cbx_principal *owner, struct cbx_err *err);
int cbx_image_not_there(const char *image, struct cbx_err *err); /* what a tenant learns of it */
/* terms.c */
/* Before anything is made. */
int cbx_session_settle(struct cbx_session *s, const struct cbx_principal *owner, struct cbx_err *err);
/* Their names are known. 1: more has to be asked for first. */
int cbx_session_settle_mounts(struct cbx_session *s, const cJSON *list, struct cbx_err *err);
void cbx_session_terms_move(struct cbx_session *to, struct cbx_session *from); /* `to` was made ahead of time */
void cbx_session_terms_release(struct cbx_session *s);
cJSON *cbx_session_terms_json(const struct cbx_session *s);
/* plan.c. Whose owner may know which images there are, and where. */
bool cbx_session_is_local(const struct cbx_session *s);
/* For a session that is settled: its plan, its `spawn`, `base` and `preload` */
int cbx_session_plan(struct cbx_session *s, struct cbx_plan *plan, struct cbx_err *err);
void cbx_session_plan_mounts(const struct cbx_session *s, struct cbx_plan *plan);
/* languages.c. The arguments of a SPAWN request, and the empty word behind them. */
void cbx_session_add_words(struct cbx_buf *b, const cJSON *argv, const struct cbx_runtime *rt);
/* The interpreter that is to run a cell, and, behind its first line if that names the language, its code. */
int cbx_session_seat(struct cbx_session *s, struct cbx_cell_spec *cell, struct cbx_seat **ret, struct cbx_err *err);

#endif
