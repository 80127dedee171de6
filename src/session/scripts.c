/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: packages of npm may have scripts that are to run when they are installed. Where the policy
 * allows that, they run as a program of the session, which could run them anyway: runtimes/javascript/scripts.js, on a
 * copy of the packages that is the session's own. What it says is the word of a sandbox; one that fails is a warning,
 * since the packages are there.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "session/commands.h"
#include "session/install.h"

#define SCRIPTS CBX_INSIDE_RUNTIMES "/javascript/scripts.js"

static void output(struct cbx_command_op *op, struct cbx_command *c, const char *stream, const char *p, size_t n)
{
	struct cbx_install *in = cbx_container_of(op, struct cbx_install, command);

	if (strcmp(stream, "stdout") == 0 && in->said.len + n <= CBX_SCRIPTS_SAID_MAX)
		cbx_buf_add(&in->said, p, n);
}

static void done(struct cbx_command_op *op, struct cbx_command *c, const struct cbx_err *err)
{
	struct cbx_install *in = cbx_container_of(op, struct cbx_install, command);
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	struct cbx_err ignored;
	const cJSON *v, *list = NULL;

	if (!err && in->said.len && cbx_json_parse(in->said.data, in->said.len, &doc, &ignored) >= 0)
		list = cbx_json_member(doc.root, "warnings");
	if (!list)
		cbx_install_warn(in,
				 "the scripts of packages did not come to their end; restart the session, and install "
				 "them again");
	cJSON_ArrayForEach(v, list)
		if (cJSON_IsString(v) && cbx_plain(v->valuestring))
			cbx_install_warn(in, v->valuestring);
	cbx_install_end(in, NULL);
}

int cbx_install_scripts(struct cbx_install *in, struct cbx_err *err)
{
	_cleanup_json_ cJSON *argv = cbx_json_new_arr();
	struct cbx_command_spec spec = { .argv = argv, .ours = true, .timeout_ms = CBX_INSTALL_TIMEOUT_S * 1000ull };
	struct cbx_command *c;

	cbx_json_push_str(argv, cbx_wanted_program(in->target, CBX_KIND_NPM));
	cbx_json_push_str(argv, SCRIPTS);
	cbx_json_push_str(argv, in->token);
	in->command = (struct cbx_command_op){ .op.ops = &in->caller.ops, .on_output = output, .done = done };
	if (in->target->outfitting) /* or it would wait for its own end */
		cbx_commands_ready(&in->target->commands);
	return cbx_session_command(in->target, &spec, &in->command, &c, err);
}
