/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a file is fetched by a program inside the sandbox (runtimes/python/download.py), whose way out is
 * the session's proxy: so the policy's rules are in force, and what a server sends is the sandbox's to bear.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "tools/internal.h"

/* What the program printed is the sandbox's word. */
static int read_outcome(struct cbx_command *c, size_t *ret, struct cbx_err *err)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	_cleanup_buf_ struct cbx_buf out = { 0 };
	struct cbx_output_extent extent;
	struct cbx_err ignored;
	const char *why = NULL;
	uint64_t n = UINT64_MAX;

	(void)cbx_command_output(c, 0, 4096, &out, &extent);
	if (cbx_json_parse(cbx_buf_str(&out), out.len, &doc, &ignored) >= 0 && cJSON_IsObject(doc.root)) {
		why = cbx_json_text(doc.root, "error");
		(void)cbx_json_get_u64(doc.root, "written", 0, CBX_DOWNLOAD_MAX, &n, &ignored);
	}
	*ret = (size_t)n;
	if (n != UINT64_MAX)
		return 0;
	return cbx_refuse(err, "download_failed", EIO, "url: the file was not fetched, and nothing of it is there: %.400s",
			  why ? why : "the program that fetches it ended early; the image needs Python 3.9");
}

static uint64_t limit_s(const struct cbx_download *d)
{
	return d->most_s && d->most_s < CBX_DOWNLOAD_MS / 1000 ? d->most_s : CBX_DOWNLOAD_MS / 1000;
}

static void ended(struct cbx_command_op *op, struct cbx_command *c, const struct cbx_err *failed)
{
	struct cbx_download *d = cbx_container_of(op, struct cbx_download, op);
	struct cbx_err err = { 0 };
	size_t n = 0;

	if (!failed && cbx_command_status(c) == CBX_TIMEOUT)
		cbx_refuse(&err, "download_failed", ETIMEDOUT,
			   "url: the file was not fetched within %" PRIu64
			   " s, and nothing of it is there; try again, or a smaller file",
			   limit_s(d));
	else if (!failed)
		(void)read_outcome(c, &n, &err);
	if (!failed && err.code)
		failed = &err;
	d->done(d, failed ? 0 : n, failed);
}

int cbx_tool_download(struct cbx_tool_call *call, struct cbx_session *session, const char *url, const char *path,
		      const char *instead, struct cbx_download *d, struct cbx_err *err)
{
	_cleanup_json_ cJSON *argv = cbx_json_new_arr();
	struct cbx_command_spec spec = { .argv = argv, .ours = true, .timeout_ms = limit_s(d) * 1000 };
	struct cbx_command *c;
	char most[24];

	if (!cbx_starts_with(url, "http://") && !cbx_starts_with(url, "https://"))
		return cbx_refuse(err, "invalid_argument", EINVAL, "url: give one that begins with http:// or https://");
	if (!cbx_session_reaches_hosts(session))
		return cbx_refuse(err, "network_denied", EPERM,
				  "url: the network policy of this session names no hosts (\"network\", codebox-policy(5)); %s",
				  instead);
	snprintf(most, sizeof(most), "%" PRIu64,
		 d->most_bytes && d->most_bytes < CBX_DOWNLOAD_MAX ? d->most_bytes : (uint64_t)CBX_DOWNLOAD_MAX);
	for (size_t i = 0; i < 6; i++)
		cbx_json_push_str(argv, (const char *[]){ "python3", "-I", "/run/codebox/python/download.py", url, path,
							   most }[i]);
	spec.via = call->client->caller.via;
	d->op = (struct cbx_command_op){ .op.ops = &call->client->caller.ops, .done = ended };
	return cbx_session_command(session, &spec, &d->op, &c, err);
}

void cbx_tool_download_end(struct cbx_download *d)
{
	if (cbx_op_pending(&d->op.op))
		cbx_command_signal(d->op.command, SIGKILL);
	cbx_op_cancel(&d->op.op);
}
