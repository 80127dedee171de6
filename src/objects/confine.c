/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the process of an upload has its file open before it is confined. From then on it reads what TLS
 * and the C library read, opens connections, and nothing else; its memory is bounded, whatever the size of the file is.
 */
#include "base/limits.h"
#include "objects/worker.h"
#include "sandbox/worker.h"

int cbx_upload_confine(const struct cbx_filter *filter, const char *certificates, struct cbx_err *err)
{
	const struct cbx_worker w = { .network = true,
				      .certificates = { certificates },
				      .dir = -1,
				      .file_bytes = 0,
				      .descriptors = 64,
				      .memory_bytes = CBX_UPLOAD_MEMORY_MAX,
				      .cpu_s = CBX_WORKER_ANY };

	return cbx_worker_confine(&w, filter, err) < 0 ? cbx_wrap(err, "confine the process that uploads") : 0;
}
