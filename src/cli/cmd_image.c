/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: images are made by a program of its own, codebox-image, since it is linked with archive code
 * that nothing else here should carry. As root that program gives root up before it touches an archive, and could then
 * no longer start a daemon, which a build needs to compile bytecode in a sandbox: so it is started here.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "daemon/control-protocol.h"

static int run_image(int argc, char **argv)
{
	_cleanup_free_ char *path = NULL;
	struct cbx_dirs dirs;
	struct cbx_err err;

	if (cbx_dirs_init(&dirs, &err) < 0)
		return cbx_cli_fail(&err);
	path = cbx_xasprintf("%s/codebox-image", dirs.libexec);
	if (geteuid() == 0 && argc > 1 && strcmp(argv[1], "build") == 0) {
		/* Without a daemon an image is built all the same; codebox-image says what it could not do. */
		int fd = cbx_daemon_connect(&dirs, CBX_CONTROL_SOCKET, 1, &err);

		if (fd < 0)
			cbx_cli_say("warning: %s", err.msg);
		else
			close(fd);
	}
	cbx_dirs_release(&dirs);
	argv[0] = (char[]){ "codebox-image" };
	execv(path, argv);
	cbx_cli_say("execute %s: %s; is codebox installed completely?", path, strerror(errno));
	return CBX_EXIT_OWN;
}

const struct cbx_command cbx_cmd_image = {
	.name = "image",
	.summary = "build, list, verify and remove images",
	.run = run_image,
};
