/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_DOCTOR_DOCTOR_H
#define CBX_DOCTOR_DOCTOR_H

/*
 * What this machine gives, tried for real: each requirement is exercised in a short-lived child, never guessed from
 * version numbers alone. Used by `codebox doctor`, and by codeboxd to say why no sandbox can be made.
 */
#include "base/dirs.h"
#include "base/json.h"

/*
 * Array of {"name","title","state":"ok"|"degraded"|"failed","found":"…","means":"…","remedy":"…"(unless ok)}.
 * "failed" on a requirement means that there are no sandboxes; "degraded" means less than could be had.
 */
cJSON *cbx_doctor_run(const struct cbx_dirs *dirs);
/* The first failed requirement as one sentence with its remedy, kind "no_sandbox"; returns 0 when nothing failed. */
int cbx_doctor_diagnosis(const struct cbx_dirs *dirs, struct cbx_err *err);

#endif
