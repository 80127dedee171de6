/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_COMMAND_COMMANDS_H
#define CBX_COMMAND_COMMANDS_H

/* What a session does with its commands (state.h). */
#include "command/state.h"

void cbx_commands_init(struct cbx_commands *all, struct event_base *base, struct cbx_box *box,
		       const struct cbx_commands_events *up);
void cbx_commands_free(struct cbx_commands *all);
/* Make one, which begins once the session is ready. op may be NULL. Errors: "too_many_commands", "invalid_argument". */
int cbx_commands_add(struct cbx_commands *all, const struct cbx_command_spec *spec, struct cbx_command_op *op,
		     struct cbx_command **ret, struct cbx_err *err);
int cbx_commands_find(struct cbx_commands *all, uint64_t id, struct cbx_command **ret, struct cbx_err *err);
void cbx_commands_ready(struct cbx_commands *all);   /* processes may be started from now on */
void cbx_commands_deliver(struct cbx_commands *all); /* tell those who watch; forget what is old */
/* Whose process that was. False: none of them. */
bool cbx_commands_exited(struct cbx_commands *all, int64_t pid, int status);
bool cbx_commands_oom(struct cbx_commands *all, int64_t pid, enum cbx_oom why);
void cbx_commands_limited(struct cbx_commands *all, const struct cbx_err *err);
void cbx_commands_close(struct cbx_commands *all, const struct cbx_err *why); /* end all; nothing starts any more */
size_t cbx_commands_unread(const struct cbx_commands *all); /* those whose output is kept until it is confirmed */
bool cbx_commands_let_go(struct cbx_commands *all);	    /* of the oldest of these that has ended; false: none has */
bool cbx_commands_used(const struct cbx_commands *all); /* somebody is attached to one that runs, or waits for it */

#endif
