/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_HTTP_ROOM_H
#define CBX_HTTP_ROOM_H

/*
 * How many may be connected, and who gives way for whom. A connection stands in one of three lines: of strangers, of
 * known clients that are to say something, and of those that wait for us.
 */
#include "http/conn.h"

/* One address from which others can reach us, as long as a connection of it is there. */
struct cbx_http_peer {
	LIST_ENTRY(cbx_http_peer) entry;
	unsigned char key[CBX_HTTP_PEER_KEY]; /* family, and the whole IPv4 address or the first 64 bits of the IPv6 one */
	size_t n, strangers;
};

int cbx_http_room_init(struct cbx_http_conns *all, struct cbx_err *err);
void cbx_http_room_release(struct cbx_http_conns *all); /* it is empty */
/* Another connection comes, for which others may have to go. False: there is no room for it. */
bool cbx_http_room_enter(struct cbx_http_conn *c, int fd);
void cbx_http_room_leave(struct cbx_http_conn *c);
/* Its state has changed: it stands at the end of its line. */
void cbx_http_room_move(struct cbx_http_conn *c);
/* The gate let a request of somebody pass. */
void cbx_http_room_known(struct cbx_http_conn *c);
/* Of what is sent on it, how much is not taken yet. */
bool cbx_http_room_count(struct cbx_http_conn *c);
/* Bytes of a body were kept, for which others may have to go; or are kept no more. */
void cbx_http_room_body(struct cbx_http_conn *c, size_t had);
/* A body of this length is needed for as long as its request lasts. False: its tenant, or all, have too many already. */
bool cbx_http_room_hold(struct cbx_http_conn *c, size_t len);
void cbx_http_room_held(struct cbx_http_conn *c); /* it is not needed any more, if it was */
/* Its request takes memory for as long as it lasts. False: as many of its tenant, or of all, do already. */
bool cbx_http_room_transfer(struct cbx_http_conn *c);
void cbx_http_room_transferred(struct cbx_http_conn *c); /* it does no more, if it did */
/* The listeners sleep while nobody can give way for a new connection. */
void cbx_http_room_check(struct cbx_http_conns *all);

#endif
