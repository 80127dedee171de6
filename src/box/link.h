/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BOX_LINK_H
#define CBX_BOX_LINK_H

/* The socket to the supervisor: requests out, events in. */
#include "box/state.h"

/* Start the supervisor. One that cannot work is not an error here: `down` is called. */
int cbx_link_start(struct cbx_boxes *all, struct cbx_err *err);
/* End it, and wait until it has ended, within bounds. */
void cbx_link_stop(struct cbx_boxes *all);
/* In a forked child: become a program of ours, with this socket as descriptor 3 and none above. */
_Noreturn void cbx_link_exec(int sock, char *const argv[]);
/* Take in what has arrived already: an event that explains a death may be waiting beside the news of it. */
void cbx_link_poll(struct cbx_boxes *all);

/* Of one box. fds are taken: init's socket, the control groups and the proxy's door, which may be -1. together: memory of
 * all boxes, 0: no limit. */
void cbx_link_create(struct cbx_box *box, const struct cbx_plan *plan, uint64_t together, int fds[4]);
void cbx_link_move(struct cbx_box *box);    /* `limited` follows */
void cbx_link_used(struct cbx_box *box);
void cbx_link_measure(struct cbx_box *box); /* `measured` follows, for all who asked meanwhile */
/* Show it a complete directory of packages by this name; `attached` follows. */
void cbx_link_packages(struct cbx_box *box, const char *name);
/* Fork its first interpreter from a zygote; `placed` follows. Takes fds. */
void cbx_link_enter(struct cbx_box *box, uint64_t zygote, int fds[CBX_INTERPRETER_FDS]);
/* False: the supervisor has never heard of it, or has ended; `gone` is not called. */
bool cbx_link_destroy(struct cbx_box *box);

/* Have paths of the machine looked up by who asks on the other end of *fd; takes it. False: there is no supervisor. */
bool cbx_link_names(struct cbx_boxes *all, int *fd);

/* Start a zygote; takes *fd, the file with its arguments and environment. */
void cbx_link_zygote(struct cbx_boxes *all, uint64_t number, const struct cbx_plan *plan, int *fd);
void cbx_link_zygote_end(struct cbx_boxes *all, uint64_t number);

#endif
