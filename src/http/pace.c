/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a token that is not valid costs a digest or a signature to find out, so who shows many is not
 * listened to for a moment: nothing that comes from his address on a connection of which no request has passed the gate
 * is judged then, and the answer does not depend on the token. Connections that somebody has are served meanwhile.
 *
 * What is known of addresses is bounded: a new one takes the place of the one that has failed longest ago. Where
 * addresses say nothing, on loopback addresses and unix sockets, there is no such rate.
 */
#include "http/pace.h"

#include <string.h>

#include "base/clock.h"
#include "http/conn.h"
#include "http/room.h"

static struct cbx_http_failing *entry_of(struct cbx_http_conn *c, struct cbx_http_failing **ret_oldest)
{
	struct cbx_http_failing *all = c->all->pace.failing, *oldest = all;

	for (size_t i = 0; i < CBX_HTTP_FAILING_MAX; i++) {
		if (all[i].rate.per_second && memcmp(all[i].key, c->peer->key, sizeof(all[i].key)) == 0)
			return &all[i];
		if (all[i].rate.used_us < oldest->rate.used_us)
			oldest = &all[i];
	}
	*ret_oldest = oldest;
	return NULL;
}

uint64_t cbx_http_pace_looks(struct cbx_http_conn *c)
{
	struct cbx_http_failing *one, *oldest;
	struct cbx_rate rate;

	if (!c->peer || c->known)
		return 0;
	one = entry_of(c, &oldest);
	if (!one)
		return 0;
	rate = one->rate; /* whether it will fail is not known yet */
	return cbx_rate_take(&rate, cbx_now_ms());
}

void cbx_http_pace_failed(struct cbx_http_conn *c)
{
	struct cbx_http_failing *one, *oldest;

	if (!c->peer || c->known)
		return;
	one = entry_of(c, &oldest);
	if (!one) {
		one = oldest;
		memcpy(one->key, c->peer->key, sizeof(one->key));
		one->rate = (struct cbx_rate){ .per_second = CBX_HTTP_FAILED_PER_S };
	}
	(void)cbx_rate_take(&one->rate, cbx_now_ms());
}
