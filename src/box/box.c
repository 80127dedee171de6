/* SPDX-License-Identifier: Apache-2.0 */
#include "box/box.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "box/egress.h"

void cbx_box_init(struct cbx_box *box, struct cbx_boxes *all)
{
	box->all = all;
	box->name = "";
	box->init.sock = box->theirs = -1;
	box->egress.door = box->egress.talk = -1;
	TAILQ_INIT(&box->init.unsent);
	TAILQ_INIT(&box->init.unanswered);
	cbx_cgroup_init(&box->group);
}

int cbx_box_open(struct cbx_box *box, struct cbx_err *err)
{
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cbx_fail(err, errno, "make the sandbox's socket");
	box->theirs = pair[1];
	r = cbx_init_open(box, pair[0]);
	return r < 0 ? cbx_fail(err, -r, "watch a sandbox") : 0;
}

int cbx_box_begin(struct cbx_box *box, const struct cbx_plan *plan, uint64_t together, struct cbx_err *err)
{
	struct cbx_boxes *all = box->all;
	int fds[4] = { -1, -1, -1, -1 }, r = box->theirs < 0 ? cbx_box_open(box, err) : 0;

	if (r < 0)
		return r;
	box->number = ++all->last_number;
	r = cbx_group_open(box, together, &fds[1], err);
	if (r >= 0 && (plan->flags & CBX_PLAN_PROXY))
		r = cbx_egress_open(box, &fds[3], err);
	if (r < 0) {
		for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
			cbx_close_p(&fds[i]);
		box->gone = true; /* nothing of it was made */
		return r;
	}
	fds[0] = box->theirs;
	box->theirs = -1;
	LIST_INSERT_HEAD(&all->by_number[box->number % CBX_BOX_BUCKETS], box, by_number);
	cbx_link_create(box, plan, together, fds);
	return 0;
}

int cbx_box_tell(struct cbx_box *box, uint64_t number, const char *p, size_t n, struct cbx_err *err)
{
	struct cbx_init_header h = { .type = CBX_INIT_TELL, .arg = number };
	int r = cbx_group_thaw(box, err);

	return r < 0 ? r : cbx_init_ask(box, &h, p, n, NULL, 0, NULL, 0, true, NULL, NULL, err);
}

void cbx_box_close(struct cbx_box *box)
{
	box->closed = true;
	cbx_init_shut(box);
	cbx_egress_shut(box);
	cbx_close_p(&box->theirs);
	if (!box->gone)
		box->gone = !box->number || !cbx_link_destroy(box);
	cbx_group_close(box);
}

void cbx_box_release(struct cbx_box *box)
{
	if (box->by_number.le_prev)
		LIST_REMOVE(box, by_number);
	box->by_number.le_prev = NULL;
	cbx_close_p(&box->theirs);
	cbx_init_shut(box);
	cbx_egress_release(box);
	cbx_group_release(box);
}

void cbx_boxes_init(struct cbx_boxes *all, struct event_base *base, const struct cbx_boxes_config *config,
		    const struct cbx_box_events *events, void *arg)
{
	all->base = base;
	all->config = *config;
	all->events = events;
	all->arg = arg;
	all->link.sock = all->proxy = -1;
	TAILQ_INIT(&all->link.queue);
}

void cbx_boxes_end(struct cbx_boxes *all)
{
	cbx_close_p(&all->proxy); /* which ends it */
	cbx_link_stop(all);
	cbx_group_finish(all);
}

uint64_t cbx_box_inodes(uint64_t disk_bytes)
{
	uint64_t n = (disk_bytes >> 20) * CBX_INODES_PER_MIB;

	return n < 1024 ? 1024 : n;
}
