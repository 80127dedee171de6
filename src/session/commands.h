/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SESSION_COMMANDS_H
#define CBX_SESSION_COMMANDS_H

/* Programs of a session beside its interpreter, as protocols see them (session.h says what is true of all calls). */
#include "command/command.h"
#include "session/session.h"

/*
 * Start one. It begins once the session is ready. The operation may be NULL: then nobody waits for its end. Errors:
 * "too_many_commands", "invalid_argument". One that cannot be executed says so by its operation: "command_not_found",
 * "command_not_executable", "no_terminal".
 */
int cbx_session_command(struct cbx_session *session, const struct cbx_command_spec *spec, struct cbx_command_op *op,
			struct cbx_command **ret, struct cbx_err *err);
/* What its image is made to run, for `argv`: entry point and command. NULL: the image names nothing. */
const cJSON *cbx_session_program(const struct cbx_session *session);
int cbx_command_find(struct cbx_session *session, uint64_t id, struct cbx_command **ret, struct cbx_err *err);
struct cbx_session *cbx_command_session(const struct cbx_command *c);
cJSON *cbx_session_commands(const struct cbx_session *session); /* array of cbx_command_describe() */

#endif
