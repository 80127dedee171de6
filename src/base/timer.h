/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_TIMER_H
#define CBX_BASE_TIMER_H

/* For those that have an event loop. */
#include <event2/event.h>
#include <stddef.h>
#include <stdint.h>

static inline void cbx_timer_set(struct event *ev, uint64_t ms)
{
	struct timeval tv = { .tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000) * 1000 };

	event_add(ev, &tv);
}

/* Free an event, or none; *ev is NULL then. */
static inline void cbx_event_free_p(struct event **ev)
{
	if (*ev)
		event_free(*ev);
	*ev = NULL;
}

#endif
