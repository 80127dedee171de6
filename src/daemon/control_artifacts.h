/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_DAEMON_CONTROL_ARTIFACTS_H
#define CBX_DAEMON_CONTROL_ARTIFACTS_H

/* The methods of the control protocol that are about artifacts. */
#include "daemon/control.h"

typedef int cbx_control_fn(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err);
cbx_control_fn cbx_control_artifact_list, cbx_control_artifact_read, cbx_control_artifact_link,
	cbx_control_artifact_remove;

#endif
