/* SPDX-License-Identifier: Apache-2.0 */
#include "pull/confine.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "image/image-limits.h"
#include "image/pull-protocol.h"
#include "sandbox/worker.h"

int cbx_pull_confine(const char *share, int dir, struct cbx_err *err)
{
	const struct cbx_worker w = { .network = true,
				      .certificates = { getenv("SSL_CERT_FILE"), getenv("SSL_CERT_DIR") },
				      .dir = dir,
				      .file_bytes = CBX_UNPACK_BYTES_MAX,
				      .descriptors = CBX_PULL_FILES,
				      .memory_bytes = CBX_WORKER_MEMORY_MAX,
				      .cpu_s = CBX_WORKER_ANY };
	_cleanup_free_ char *lists = cbx_xasprintf("%s/syscalls", share);
	struct cbx_filter filter = { 0 };
	int r = cbx_filter_compile(lists, "registry", &filter, err);

	if (r >= 0)
		r = cbx_worker_confine(&w, &filter, err);
	cbx_filter_release(&filter);
	return r < 0 ? cbx_wrap(err, "confine the process that talks to the registry") : 0;
}
