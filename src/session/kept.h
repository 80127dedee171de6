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
struct cbx_keep;
struct cbx_session;

struct cbx_jobs *cbx_artifacts_jobs(struct cbx_engine *engine);				   /* NULL: nothing is kept */
void cbx_artifacts_drop(struct cbx_engine *engine, const char *tenant, const char *id); /* it cannot be completed */
/* A copy in the object store that belongs to nothing any more. */
void cbx_artifacts_drop_copy(struct cbx_engine *engine, const char *tenant, const cJSON *object, const cJSON *own);
void cbx_artifacts_wanted(struct cbx_engine *engine); /* there are some: look for what has expired */
/* An execution has ended, and its files are known. False: none is to be kept. */
bool cbx_keep_begin(struct cbx_session *s, struct cbx_execution *x);
void cbx_keep_leave(struct cbx_session *s); /* those of s->keep no longer; what is not complete is given up */

/* Files of a session of which "path", "size" and "mime_type" are known: they get what artifacts.h says. */
struct cbx_kept_files {
	cJSON *list;		 /* until done, as is the store */
	const cJSON *store;	 /* of cbx_artifact_store(); NULL: that of the policy */
	uint32_t link_s;	 /* links are good for no longer; 0: as the policy says */
	void (*done)(struct cbx_session *s, void *arg); /* frees what was begun */
	void (*gone)(void *arg, const char *why); /* likewise, when the session ends before; NULL: it was freed by then */
	void *arg;
};
/* NULL: none is to be kept. It is freed by who began it, in `done` or before, and before its session is. */
struct cbx_keep *cbx_keep_files(struct cbx_session *s, const struct cbx_kept_files *files);
void cbx_keep_free(struct cbx_keep *k);
/* The session ends: `gone` of all those that it has. */
void cbx_keep_end_all(struct cbx_session *s, const char *why);

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
