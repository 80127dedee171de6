/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BOX_BOX_H
#define CBX_BOX_BOX_H

/*
 * One sandbox as the engine sees it. Each of these knows those above it at most:
 *
 *   state.h   what they share, and the events that go up
 *   link.h    the socket to the supervisor: requests out, events in
 *   init.h    the socket to a sandbox's init: requests out, answers in
 *   group.h   its control group: limits, use, rest
 *   files.h   its files, through init
 *   naming.h  what paths of the machine are really called
 *   egress.h  its way out, through a proxy
 *   mounts.h  directories of the machine: which of them it may be shown
 */
#include "box/egress.h"
#include "box/files.h"
#include "box/group.h"
#include "box/init.h"
#include "box/link.h"
#include "box/mounts.h"

void cbx_box_init(struct cbx_box *box, struct cbx_boxes *all);
/* From now on requests to its init can wait for it. */
int cbx_box_open(struct cbx_box *box, struct cbx_err *err);
/* Have it made; open it, if it is not yet. Its limits have been checked (cbx_group_check()). */
int cbx_box_begin(struct cbx_box *box, const struct cbx_plan *plan, uint64_t together, struct cbx_err *err);
/* Answer a question of one of its processes. */
int cbx_box_tell(struct cbx_box *box, uint64_t number, const char *p, size_t n, struct cbx_err *err);
/* Kill what is in it. Requests that are not answered stay until cbx_init_fail_all(). */
void cbx_box_close(struct cbx_box *box);
void cbx_box_release(struct cbx_box *box);
uint64_t cbx_box_inodes(uint64_t disk_bytes); /* files and directories that a disk of that size may have */

/* Find nothing of the machine yet, start nothing; then cbx_link_start(). */
void cbx_boxes_init(struct cbx_boxes *all, struct event_base *base, const struct cbx_boxes_config *config,
		    const struct cbx_box_events *events, void *arg);
/* The boxes have been released. */
void cbx_boxes_end(struct cbx_boxes *all);

#endif
