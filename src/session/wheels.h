/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SESSION_WHEELS_H
#define CBX_SESSION_WHEELS_H

/* What images are made of: wheels that a recipe asks for, and those that a session has. */
#include "session/session.h"

/*
 * Which wheels these requirements need with another Python ("3.12") on another machine ("aarch64"), as far as the
 * session's policy allows each of them; what the session and its image have does not count, and nothing is installed.
 * Answer: {"session_id","packages":[{"name","version","file","sha256","size"}]}. Errors: those above.
 */
int cbx_session_lock(const struct cbx_caller *by, struct cbx_session *session, const cJSON *requirements,
		     const char *python, const char *machine, struct cbx_answer_op *op, struct cbx_err *err);
/*
 * What an image of its packages is made of: {"session_id","image","directory","requirements":[texts],"packages":
 * [{"name","version","file","sha256","size"}]}; directory: a name below those of sessions (daemon/packages.c), which
 * stays as long as the session. Errors: "package_refused", "busy", "no_packages".
 */
int cbx_session_packages(const struct cbx_session *session, cJSON **ret, struct cbx_err *err);

#endif
