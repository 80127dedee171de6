/* SPDX-License-Identifier: Apache-2.0 */
#include "image/pull.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/syscalls.h"
#include "image/progress.h"
#include "image/pull-protocol.h"

#define PROGRAM_FD (CBX_PULL_SHARE_FD + 1) /* until it is executed */

static void make_request(const struct cbx_pull *pull, struct cbx_buf *out)
{
	const struct cbx_reference *ref = pull->reference;
	_cleanup_json_ cJSON *q = cbx_json_new_obj();
	char platform[64];

	cbx_oci_platform_print(pull->platform, platform);
	cbx_json_set_str(q, "host", ref->host);
	cbx_json_set_str(q, "repository", ref->repository);
	cbx_json_set_str(q, "reference", ref->digest[0] ? ref->digest : ref->tag);
	cbx_json_set_str(q, "platform", platform);
	cbx_json_set_bool(q, "plain", pull->plain || ref->loopback);
	cbx_json_set_bool(q, "loopback", ref->loopback);
	cbx_json_set_str(q, "user", pull->credentials->user);
	cbx_json_set_str(q, "password", pull->credentials->password);
	if (cJSON_GetArraySize(pull->have) > 0 && cJSON_GetArraySize(pull->have) <= CBX_PULL_HAVE_MAX)
		cbx_json_set(q, "have", cJSON_Duplicate(pull->have, 1));
	cbx_json_print(out, q);
}

static _Noreturn void exec_pull(const struct cbx_pull *pull, int in, int out, int dir)
{
	static const char *const passed[] = { "http_proxy",   "https_proxy", "no_proxy",  "all_proxy",
					      "HTTPS_PROXY",  "NO_PROXY",    "ALL_PROXY", "SSL_CERT_FILE",
					      "SSL_CERT_DIR", "ASAN_OPTIONS" };
	char *argv[] = { (char *)"codebox-pull", NULL }, *env[ARRAY_SIZE(passed) + 5];
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	const int from[] = { in, out, null, dir, pull->share, pull->program };
	const int to[] = { 0, 1, 2, CBX_PULL_DIR_FD, CBX_PULL_SHARE_FD, PROGRAM_FD };
	size_t n = 0;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (null < 0 || cbx_place_fds(from, to, ARRAY_SIZE(from)) < 0 || cbx_close_range(PROGRAM_FD + 1, ~0u, 0) < 0 ||
	    fcntl(PROGRAM_FD, F_SETFD, FD_CLOEXEC) < 0)
		_exit(126);
	env[n++] = cbx_xasprintf("CODEBOX_SHARE_DIR=/proc/self/fd/%d", CBX_PULL_SHARE_FD);
	env[n++] = cbx_xstrdup("LC_ALL=C");
	env[n++] = cbx_xstrdup("HOME=/nonexistent");
	env[n++] = cbx_xstrdup("PATH=/usr/bin:/bin");
	for (size_t i = 0; i < ARRAY_SIZE(passed); i++)
		if (getenv(passed[i]))
			env[n++] = cbx_xasprintf("%s=%s", passed[i], getenv(passed[i]));
	env[n] = NULL;
	syscall(SYS_execveat, PROGRAM_FD, "", argv, env, AT_EMPTY_PATH);
	_exit(127);
}

/* One line of its answer. 1: it was the last. */
static int take_line(const char *line, char top[CBX_OCI_DIGEST], struct cbx_err *err)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	const cJSON *error = NULL;
	const char *digest;
	char got[32], of[32];
	struct cbx_err e;

	if (cbx_json_parse(line, strlen(line), &doc, &e) < 0 || !cJSON_IsObject(doc.root))
		return cbx_refuse(err, "registry_failed", EPROTO, "codebox-pull answered something else than JSON");
	error = cbx_json_member(doc.root, "error");
	digest = cbx_json_text(doc.root, "digest");
	if (cJSON_IsObject(error))
		return cbx_json_error(error, "registry_failed", EIO, err);
	if (digest && cbx_oci_digest_valid(digest)) {
		strcpy(top, digest);
		return 1;
	}
	cbx_format_size(cbx_json_u64(doc.root, "got"), got);
	cbx_format_size(cbx_json_u64(doc.root, "of"), of);
	cbx_progress_update("%s of %s, %llu of %llu layers", got, of,
			    (unsigned long long)cbx_json_u64(doc.root, "done"),
			    (unsigned long long)cbx_json_u64(doc.root, "blobs"));
	return 0;
}

static int read_answer(FILE *f, char top[CBX_OCI_DIGEST], struct cbx_err *err)
{
	char line[CBX_PULL_LINE_MAX];
	int r = 0;

	while (r == 0 && fgets(line, sizeof(line), f))
		r = take_line(line, top, err);
	return r ? r
		 : cbx_refuse(err, "registry_failed", EPIPE,
			      "the process that talks to the registry ended without an answer");
}

int cbx_pull_open(const struct cbx_dirs *dirs, struct cbx_pull *pull, struct cbx_err *err)
{
	_cleanup_free_ char *path = cbx_xasprintf("%s/codebox-pull", dirs->libexec);

	pull->program = open(path, O_PATH | O_CLOEXEC);
	if (pull->program < 0)
		return cbx_fail(err, errno, "start %s", path);
	pull->share = open(dirs->share, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return pull->share < 0 ? cbx_fail(err, errno, "open %s", dirs->share) : 0;
}

static int start(const struct cbx_pull *pull, int dir, int *ret_in, int *ret_out, pid_t *ret, struct cbx_err *err)
{
	int in[2] = { -1, -1 }, out[2] = { -1, -1 };
	pid_t pid = -1;

	if (pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0)
		pid = fork();
	if (pid == 0)
		exec_pull(pull, in[0], out[1], dir);
	cbx_close_p(&in[0]);
	cbx_close_p(&out[1]);
	*ret_in = in[1];
	*ret_out = out[0];
	*ret = pid;
	return pid < 0 ? cbx_fail(err, errno, "start codebox-pull") : 0;
}

int cbx_pull_layout(const struct cbx_pull *pull, int dir, char top[CBX_OCI_DIGEST], struct cbx_err *err)
{
	_cleanup_free_ char *name = cbx_reference_print(pull->reference);
	_cleanup_fd_ int in = -1, out = -1;
	_cleanup_fclose_ FILE *f = NULL;
	_cleanup_buf_ struct cbx_buf request = { 0 };
	pid_t pid = -1;
	int r = start(pull, dir, &in, &out, &pid, err), status;

	if (r < 0)
		return r;
	cbx_progress_step("Fetching %.150s", name);
	make_request(pull, &request);
	signal(SIGPIPE, SIG_IGN);
	(void)cbx_write_all(in, request.data, request.len); /* if it has gone, there is no answer */
	explicit_bzero(request.data, request.len);
	cbx_close_p(&in);
	f = fdopen(out, "r");
	r = f ? 0 : cbx_fail(err, errno, "listen to codebox-pull");
	if (f) {
		take_fd(&out);
		r = read_answer(f, top, err);
	}
	if (r < 0)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r >= 0 && pull->reference->digest[0] && strcmp(pull->reference->digest, top) != 0)
		return cbx_refuse(err, "digest_mismatch", EBADMSG, "codebox-pull fetched %s, and not %s", top,
				  pull->reference->digest);
	return r < 0 ? r : 0;
}
