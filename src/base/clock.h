/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_CLOCK_H
#define CBX_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Milliseconds of a clock that cannot be set. */
static inline uint64_t cbx_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Milliseconds since 1970. */
static inline uint64_t cbx_wall_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Nanoseconds since 1970, by CLOCK_REALTIME or CLOCK_REALTIME_COARSE. */
static inline int64_t cbx_wall_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

/* Milliseconds of a processor that the calling thread has used. */
static inline uint64_t cbx_used_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

#endif
