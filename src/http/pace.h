/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_HTTP_PACE_H
#define CBX_HTTP_PACE_H

/* How often: requests of all together, and tokens that are not valid, of one address. A tenant's own rates: tenant.h. */
#include <stdint.h>

#include "base/limits.h"
#include "base/rate.h"

#define CBX_HTTP_PEER_KEY 9

struct cbx_http_conn;

struct cbx_http_pace {
	struct cbx_rate requests; /* that have passed the gate */
	struct cbx_http_failing {
		unsigned char key[CBX_HTTP_PEER_KEY]; /* of cbx_http_peer */
		struct cbx_rate rate;
	} failing[CBX_HTTP_FAILING_MAX];
};

/* Whether a token of this connection is looked at: 0, or the milliseconds until one is. */
uint64_t cbx_http_pace_looks(struct cbx_http_conn *c);
void cbx_http_pace_failed(struct cbx_http_conn *c); /* it was not valid */

#endif
