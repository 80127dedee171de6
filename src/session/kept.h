/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SESSION_KEPT_H
#define CBX_SESSION_KEPT_H

/* Between artifacts.c, which asks codebox-store, keep.c, which has files of an execution kept, and upload.c, which asks
 * codebox-upload. */
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

struct cbx_engine;
struct cbx_execution;
struct cbx_job;
struct cbx_jobs;
struct cbx_session;

struct cbx_jobs *cbx_artifacts_jobs(struct cbx_engine *engine);				   /* NULL: nothing is kept */
void cbx_artifacts_drop(struct cbx_engine *engine, const char *tenant, const char *id); /* it cannot be completed */
/* A copy in the object store that belongs to nothing any more. */
void cbx_artifacts_drop_copy(struct cbx_engine *engine, const char *tenant, const cJSON *object, const cJSON *own);
void cbx_artifacts_wanted(struct cbx_engine *engine); /* there are some: look for what has expired */
/* An execution has ended, and its files are known. False: none is to be kept. */
bool cbx_keep_begin(struct cbx_session *s, struct cbx_execution *x);
void cbx_keep_leave(struct cbx_session *s); /* those of s->keep no longer; what is not complete is given up */

/* ---- upload.c: the object store ---- */

int cbx_objects_new(struct cbx_engine *e, const char *artifacts_dir, struct cbx_err *err);
/* Of all: own is the store of a request, {"store","secret"}, which counts in place of the policy's; NULL: there is
 * none. */
/* Copy an artifact there, by a job whose `done` is set. *ret_object: what is known of the copy, {"store","key"}. */
int cbx_objects_upload(struct cbx_session *s, const cJSON *about, const cJSON *own, struct cbx_job *j,
		       cJSON **ret_object, struct cbx_err *err);
int cbx_objects_remove(struct cbx_engine *e, const cJSON *object, const cJSON *own, struct cbx_job *j,
		       struct cbx_err *err);
/* Append a link to a copy. false: it is in another store than this one, or the secret is not known. */
bool cbx_objects_link(const struct cbx_engine *e, const cJSON *object, const cJSON *own, uint64_t until,
		      struct cbx_buf *out);

#endif
