/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_OBSERVE_AUDIT_H
#define CBX_OBSERVE_AUDIT_H

/* The audit log: who ran what, with which outcome, and what was refused. codebox-audit(7) describes the file. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "session/happened.h"

struct cbx_audit;

/* code: cells and commands as they are; else their SHA-256. Fails unless the file can be written and its last lines be
 * read; kind "invalid_audit". */
int cbx_audit_open(const char *path, bool code, struct cbx_audit **ret, struct cbx_err *err);
/* The file was renamed: another of its name is begun. An error leaves the old one in use. NULL is accepted. */
int cbx_audit_reopen(struct cbx_audit *a, struct cbx_err *err);
void cbx_audit_write(struct cbx_audit *a, const struct cbx_happened *h);
/* "NUMBER:DIGEST" of the last line, for a place where nobody can change it. */
#define CBX_AUDIT_HEAD 96
void cbx_audit_head(const struct cbx_audit *a, char ret[CBX_AUDIT_HEAD]);
uint64_t cbx_audit_lines(const struct cbx_audit *a); /* written by this process */
uint64_t cbx_audit_lost(const struct cbx_audit *a);  /* that could not be written, since the last one that could */
void cbx_audit_stop(struct cbx_audit *a);	     /* writes the last line, once */
void cbx_audit_close(struct cbx_audit *a);	     /* stops, too; NULL is accepted */

#endif
