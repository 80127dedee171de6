/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: images are made by a program of its own, codebox-image, since it is linked with archive code
 * that nothing else here should carry. As root that program gives root up before it touches an archive, and could then
 * no longer start a daemon, which a build needs to compile bytecode in a sandbox: so it is started here.
 */
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static int run_image(int argc, char **argv)
{
	struct cbx_client client;
	struct cbx_err err;

	if (geteuid() == 0 && argc > 1 && strcmp(argv[1], "build") == 0) {
		/* Without a daemon an image is built all the same; codebox-image says what it could not do. */
		if (cbx_cli_client(true, &client, &err) <= 0)
			cbx_cli_say("warning: %s", err.msg);
		else
			cbx_client_close(&client);
	}
	argv[0] = (char[]){ "codebox-image" };
	return cbx_cli_exec("codebox-image", argv);
}

const struct cbx_command cbx_cmd_image = {
	.name = "image",
	.summary = "build, list, verify and remove images",
	.run = run_image,
};
