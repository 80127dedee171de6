/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_DAEMON_CONTROL_FILES_H
#define CBX_DAEMON_CONTROL_FILES_H

/* The methods of the control protocol for the files of a session. */
#include "daemon/control.h"

int cbx_control_file_read(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err);
int cbx_control_file_write(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err);
int cbx_control_file_stat(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err);
int cbx_control_file_list(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err);
int cbx_control_file_mkdir(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err);
int cbx_control_file_remove(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err);

#endif
