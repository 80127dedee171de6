/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BOX_GROUP_H
#define CBX_BOX_GROUP_H

/* A box's control group: limits, use, rest. Where there are none, all of this does nothing. */
#include "box/state.h"

const char *cbx_group_backend(const struct cbx_boxes *all); /* "none", "inherit", "scope" */
const char *cbx_group_reason(const struct cbx_boxes *all);
bool cbx_group_limits_cpus(const struct cbx_boxes *all);
bool cbx_group_limits_io(const struct cbx_boxes *all);
/* Can it be limited as box->limits says? required: what cannot is an error. Finds out of which disks its use of them is
 * limited; image_dev: that of the image. */
int cbx_group_check(struct cbx_box *box, const struct cbx_plan *plan, dev_t image_dev, bool required,
		    struct cbx_err *err);
/* RLIMIT_NPROC of its processes: the most that there may be. */
uint32_t cbx_group_process_rlimit(const struct cbx_boxes *all, uint32_t processes);
/* RLIMIT_DATA of its processes; 0: none. */
uint64_t cbx_group_data_rlimit(const struct cbx_boxes *all, uint64_t memory_bytes, uint32_t profile);
/* Make it; ret_dirs are for the supervisor, -1 where there are no groups. */
int cbx_group_open(struct cbx_box *box, uint64_t together, int ret_dirs[2], struct cbx_err *err);
void cbx_group_close(struct cbx_box *box); /* kill what is there; it is removed as soon as it is empty */
void cbx_group_release(struct cbx_box *box);
void cbx_group_finish(struct cbx_boxes *all); /* wait until those that were closed are removed, within bounds */
bool cbx_group_on(const struct cbx_box *box);

/* What runs in it from now on is measured. False: there is no group. */
bool cbx_group_begin(struct cbx_box *box, struct cbx_cgroup_usage *ret_before);
/* What it has used since; memory and peak are of now. *refused: processes or threads were, for there were too many. */
bool cbx_group_end(struct cbx_box *box, const struct cbx_cgroup_usage *before, struct cbx_cgroup_usage *ret,
		   bool *ret_refused);

/* Something was killed by SIGKILL, and not by us. True: for memory; *ret_own: for the limit of its own; *ret_files:
 * bytes of its files then. */
bool cbx_group_killed(struct cbx_box *box, bool *ret_own, uint64_t *ret_files);
/* False: not yet, after such a death; `settling` follows when it is time to ask again. */
bool cbx_group_settled(struct cbx_box *box);

void cbx_group_rest_later(struct cbx_box *box); /* it was used; stop it when it has been idle for long */
/* Ask it what is in use now: box->use, and the bytes of files. Five files of the kernel are read. */
void cbx_group_look(struct cbx_box *box);
/* Something is about to be said to its processes. */
int cbx_group_thaw(struct cbx_box *box, struct cbx_err *err);

#endif
