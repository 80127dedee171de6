/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_ARTIFACTS_STORE_H
#define CBX_ARTIFACTS_STORE_H

/*
 * codebox-store: files of sessions, kept after these. A directory for each tenant has two files for each artifact: its
 * bytes, by its id, and what is known of it, by the id and ".json", which makes it complete. What is being written has
 * "." before its name.
 */
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

/* Each carries out a job (job.h). store: the directory of all tenants. */
int cbx_artifact_file_put(int store, const cJSON *job, const char *p, size_t n, struct cbx_err *err);
int cbx_artifact_file_read(int store, const cJSON *job, cJSON **ret, struct cbx_buf *ret_bytes, struct cbx_err *err);
int cbx_artifact_file_list(int store, const cJSON *job, cJSON *answer, struct cbx_err *err);
int cbx_artifact_file_stored(int store, const cJSON *job, struct cbx_err *err);
int cbx_artifact_file_remove(int store, const cJSON *job, cJSON *answer, struct cbx_err *err);
int cbx_artifact_file_sweep(int store, struct cbx_err *err);

#endif
