/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_INTERP_SIGNALS_H
#define CBX_INTERP_SIGNALS_H

/*
 * Signals, and trouble: what the other files of an interpreter have of it beside interp.h.
 */
#include "interp/interp.h"

#define CBX_NEWS_WAIT_MS 150 /* for the reason of a death to arrive */

void cbx_interp_thaw(struct cbx_interp *in);	   /* something is about to be said to it */
void cbx_interp_expect_end(struct cbx_interp *in); /* it seems to have ended; its timer says what then */

#endif
