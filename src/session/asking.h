/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SESSION_ASKING_H
#define CBX_SESSION_ASKING_H

/* What programs in a session ask codeboxd for (asking.c). */
#include "session/internal.h"

/* Of the box's events. */
void cbx_session_asked(struct cbx_session *s, uint64_t number, const char *p, size_t n);
/* A question, with its members, of the types that they have to have; parameters and packages hold anything. */
int cbx_asked_parse(const char *p, size_t n, cJSON **ret, struct cbx_err *err);

#endif
