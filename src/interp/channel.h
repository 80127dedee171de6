/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_INTERP_CHANNEL_H
#define CBX_INTERP_CHANNEL_H

/*
 * The frames of an interpreter, and the order in which they and what it prints are handed on.
 */
#include "interp/interp.h"

int cbx_channel_open(struct cbx_interp *in, struct cbx_err *err); /* its pipes are there */
void cbx_channel_close(struct cbx_interp *in);
void cbx_channel_pump(struct cbx_interp *in); /* handle the frames that have been read */
/* It has ended: what it managed to say before is read, and handed on. */
void cbx_channel_last_words(struct cbx_interp *in);

#endif
