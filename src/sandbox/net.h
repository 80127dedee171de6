/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_NET_H
#define CBX_SANDBOX_NET_H

#include "base/err.h"

/* Bring the loopback interface of this network namespace up; there is no other. */
int cbx_net_loopback_up(struct cbx_err *err);

#endif
