/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SESSION_LOOKS_H
#define CBX_SESSION_LOOKS_H

/* What is remembered of a session for those who watch it. */
#include <stdbool.h>
#include <stdint.h>

struct cbx_session;
struct cbx_session_log;

struct cbx_live {
	uint64_t at_ms, cpu_us; /* when somebody looked last; 0: nobody has */
	uint32_t cpus_milli;	/* thousandths of a processor between that and the time before */
	bool known;		/* there was a time before */
	struct cbx_session_log *log; /* what has happened in it; NULL: nothing yet */
};

/* What is in use was found out just now. */
void cbx_session_sampled(struct cbx_session *s);
/* What it has used of processors, as far as that is known. */
uint64_t cbx_session_cpu_us(const struct cbx_session *s);

#endif
