/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_EXECUTION_SPILL_H
#define CBX_EXECUTION_SPILL_H

/*
 * The whole of what an execution printed, in a file of its session.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "execution/execution.h"

struct cbx_box;
struct cbx_spill;

/* It outlives its execution while a write is unanswered. */
struct cbx_spill *cbx_spill_new(struct cbx_box *box, uint64_t number); /* of the execution */
void cbx_spill_add(struct cbx_spill *spill, const char *p, size_t n);
/* Nothing waits to be written; else idle is called when that may be so. */
bool cbx_spill_idle(struct cbx_spill *spill, void (*idle)(void *arg), void *arg);
void cbx_spill_restart(struct cbx_spill *spill);    /* what was printed so far is forgotten: the file begins anew */
void cbx_spill_extent(const struct cbx_spill *spill, struct cbx_output_extent *ret); /* of the file */
const char *cbx_spill_path(const struct cbx_spill *spill);
const char *cbx_spill_where(const struct cbx_spill *spill); /* "the whole output is in …" */
void cbx_spill_remove(struct cbx_spill *spill); /* its file */
void cbx_spill_free(struct cbx_spill *spill);

#endif
