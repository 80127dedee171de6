/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_RATE_H
#define CBX_BASE_RATE_H

/* How often something may happen: per_second times in any second, evenly or at once. All zero: as often as one likes.
 */
#include <stdint.h>

struct cbx_rate {
	uint64_t per_second; /* 0: no limit */
	uint64_t used_us;    /* what has happened uses up the time until then */
};

/* 0: it happens now; else it may not, and after this number of milliseconds it may. */
static inline uint64_t cbx_rate_take(struct cbx_rate *r, uint64_t now_ms)
{
	uint64_t second = 1000 * 1000, now = now_ms * 1000, share = r->per_second ? second / r->per_second : 0;

	if (!r->per_second)
		return 0;
	if (r->used_us < now)
		r->used_us = now;
	if (r->used_us + share > now + second)
		return (r->used_us + share - now - second + 999) / 1000;
	r->used_us += share;
	return 0;
}

#endif
