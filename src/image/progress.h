/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_PROGRESS_H
#define CBX_IMAGE_PROGRESS_H

/*
 * What codebox-image reports on stderr while it works. On a terminal, one line that changes in place; elsewhere, one
 * line a step and nothing in between.
 */
void cbx_progress_step(const char *fmt, ...) __attribute__((format(printf, 1, 2)));   /* a new step begins */
void cbx_progress_update(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* how far it is; terminal only */
void cbx_progress_end(void); /* the last step is done, or has failed: finish the line */

#endif
