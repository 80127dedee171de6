/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_DAEMON_CONTROL_COMMANDS_H
#define CBX_DAEMON_CONTROL_COMMANDS_H

/* The methods about programs beside the interpreter. */
#include "daemon/control.h"

int cbx_control_command_start(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err);
int cbx_control_command_attach(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err);
int cbx_control_command_detach(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err);
int cbx_control_command_resize(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err);
int cbx_control_command_kill(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err);
int cbx_control_command_list(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err);

#endif
