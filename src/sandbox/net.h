/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_NET_H
#define CBX_SANDBOX_NET_H

#include <stddef.h>

#include "base/err.h"

/* What asks the kernel to bring a loopback interface up: the same bytes in every network namespace. */
struct cbx_net_request {
	unsigned char bytes[128];
	size_t len;
};

int cbx_net_prepare(struct cbx_net_request *ret, struct cbx_err *err);
/* Bring the loopback interface of this network namespace up; there is no other. */
int cbx_net_loopback_up(const struct cbx_net_request *request, struct cbx_err *err);
/* Listen on this network namespace's loopback at CBX_INSIDE_PROXY_PORT, and send the listener by a SOCK_SEQPACKET socket.
 * It belongs to this namespace wherever it is served, so who accepts on it knows whom he serves. */
int cbx_net_hand_out_listener(int door, struct cbx_err *err);

#endif
