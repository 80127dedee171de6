/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codebox-proxy is what connects sandboxes to the network, as far as their policies allow.
 * codeboxd starts it before it confines itself, and cannot start anything later; it sleeps until a sandbox needs it. It
 * reads one byte and two descriptors for each sandbox (protocol.h) and forks a process for it (serve.c). It parses
 * nothing itself, has no descriptor of codeboxd's but its own end of one socket, and ends when that is closed, as do
 * its children.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "proxy/proxy.h"
#include "sandbox/seccomp.h"

#define SOCK 3

static int become_service(const char *uid_text, const char *gid_text, struct cbx_err *err)
{
	uint64_t uid, gid;

	if (cbx_parse_u64(uid_text, "SERVICE_UID", 1, UINT32_MAX - 1, &uid, err) < 0 ||
	    cbx_parse_u64(gid_text, "SERVICE_GID", 1, UINT32_MAX - 1, &gid, err) < 0)
		return -err->code;
	if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid((gid_t)gid, (gid_t)gid, (gid_t)gid) < 0 ||
			       setresuid((uid_t)uid, (uid_t)uid, (uid_t)uid) < 0))
		return cbx_fail(err, errno, "become the service's user");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
		return cbx_fail(err, errno, "give up privileges");
	return 0;
}

/* It lies beside this program. It is opened now, as whoever started codeboxd: the service's user may not reach it. */
static int open_tls(const char *self)
{
	const char *slash = strrchr(self, '/');
	_cleanup_free_ char *path =
		cbx_xasprintf("%.*s/codebox-tls", slash ? (int)(slash - self) : 1, slash ? self : ".");

	return open(path, O_PATH | O_CLOEXEC);
}

int main(int argc, char **argv)
{
	struct cbx_filter filter;
	struct launch how = { .filter = &filter, .lists = open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC) };
	struct cbx_err err = { 0 };
	int fds[CBX_FDS_MAX];
	size_t nfds;
	char byte;

	if (argc != 4 || cbx_set_cloexec(SOCK, 1) < 0) {
		fprintf(stderr, "codebox-proxy is started by codeboxd; see codeboxd(8).\n");
		return 2;
	}
	clearenv(); /* resolvers take settings from it */
	how.tls = open_tls(argv[0]);
	signal(SIGCHLD, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	/* While we are root: the list may be below its home. */
	if (cbx_filter_compile(argv[1], "proxy", &filter, &err) < 0 || become_service(argv[2], argv[3], &err) < 0) {
		fprintf(stderr, "codebox-proxy: %s\n", err.msg);
		return 1;
	}
	for (;;) {
		ssize_t n = cbx_recv_fds(SOCK, &byte, 1, fds, &nfds);

		if (n == 0 || (n < 0 && n != -EBADMSG && n != -EMFILE))
			return 0;
		if (n == 1 && nfds == 2 && fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			close(SOCK);
			proxy_serve(fds[0], fds[1], &how);
		}
		for (size_t i = 0; n > 0 && i < nfds; i++)
			close(fds[i]);
	}
}
