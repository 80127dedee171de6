/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_WIRE_LISTENER_H
#define CBX_WIRE_LISTENER_H

/*
 * Accepts connections on a listening socket, some in a turn of the event loop. While the process has no descriptors or
 * memory for one more it rests for a second, and those who connect wait in the kernel.
 */
#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct cbx_listener;

/* Takes fd, also when it fails. on_accept takes the descriptor that it is called with, which is non-blocking. */
int cbx_listener_new(struct event_base *base, int fd, void (*on_accept)(void *arg, int fd), void *arg,
		     struct cbx_listener **ret, struct cbx_err *err);
/* Accept what waits now. Returns how many connections there were. */
size_t cbx_listener_accept(struct cbx_listener *l);
/* Accept nothing until told otherwise. */
void cbx_listener_pause(struct cbx_listener *l, bool on);
void cbx_listener_free(struct cbx_listener *l); /* NULL is accepted */

#endif
