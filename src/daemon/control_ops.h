/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_DAEMON_CONTROL_OPS_H
#define CBX_DAEMON_CONTROL_OPS_H

/* The methods of the control protocol. */
#include "daemon/control.h"

extern const struct cbx_control_method cbx_control_methods[]; /* a NULL name ends it */

#endif
