/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what is wrong is said here, where it was typed, and not by a client of which one hardly sees what
 * its servers say. The folder is seen in the session's workspace by its own name: what is written to that is in the
 * folder.
 */
#include "cli/mcpargs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "policy/policy.h"
#include "profiles/names.h"
#include "sandbox/plan.h"

static int check_policy(const char *name)
{
	struct cbx_policy *p = NULL;
	struct cbx_dirs dirs;
	struct cbx_err err;
	int r = cbx_dirs_init(&dirs, &err);

	if (r < 0)
		return cbx_cli_fail(&err);
	r = cbx_policy_load_shipped(dirs.share, name, &p, &err);
	cbx_policy_free(p);
	cbx_dirs_release(&dirs);
	return r < 0 ? cbx_cli_usage("register", "--policy: %s", err.msg) : 0;
}

static int check_dir(struct cbx_mcp_args *a, const char *option, const char *dir)
{
	struct stat st;

	a->dir = realpath(dir, NULL);
	if (!a->dir || stat(a->dir, &st) < 0)
		return cbx_cli_usage("register", "--%s: %s: %s; make it first", option, dir, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return cbx_cli_usage("register", "--%s: %s is not a directory", option, dir);
	if (st.st_uid != geteuid())
		return cbx_cli_usage("register", "--%s: %s belongs to another user; name one of your own", option, dir);
	if (strchr(a->dir, ':') || !cbx_utf8_valid(a->dir, strlen(a->dir)))
		return cbx_cli_usage("register",
				     "--%s: %s: a name that has \":\" in it, or is not valid UTF-8, "
				     "cannot be given to codebox mcp; rename it",
				     option, a->dir);
	return 0;
}

int cbx_mcp_profile_check(const char *command, const char **profile)
{
	static const char *const names[] = { CBX_PROFILE_NAMES };
	int i = cbx_find_word(*profile, names, ARRAY_SIZE(names));

	if (i == 0)
		*profile = NULL;
	if (!*profile || i > 0)
		return 0;
	return cbx_cli_usage(command, "--profile: \"%s\" is not a profile; use " CBX_PROFILE_KNOWN, *profile);
}

int cbx_mcp_args_check(struct cbx_mcp_args *a)
{
	struct cbx_cli_spec spec = { .session = a->session, .policy = a->policy, .image = a->image };
	int status = cbx_cli_spec_check("register", &spec);

	if (status == 0)
		status = cbx_mcp_profile_check("register", &a->profile);
	if (status == 0 && a->folder && a->workspace)
		return cbx_cli_usage("register",
				     "--folder and --workspace: the workspace is a folder itself; give one of "
				     "them");
	if (status == 0 && a->policy && (a->folder || a->workspace))
		return cbx_cli_usage("register",
				     "--policy and --%s: the shipped policies show no folders; for both, make %s "
				     "the policy of your sessions, {\"include\": [\"%s\"]} in "
				     "~/.config/codebox/policy.json, and omit --policy",
				     a->folder ? "folder" : "workspace", a->policy, a->policy);
	if (status == 0 && a->policy)
		status = check_policy(a->policy);
	if (status == 0 && a->folder)
		return check_dir(a, "folder", a->folder);
	return status == 0 && a->workspace ? check_dir(a, "workspace", a->workspace) : status;
}

cJSON *cbx_mcp_args_json(const struct cbx_mcp_args *a)
{
	cJSON *args = cbx_json_new_arr();

	cbx_json_push_str(args, "mcp");
	if (a->profile) {
		cbx_json_push_str(args, "--profile");
		cbx_json_push_str(args, a->profile);
	}
	if (a->session) {
		cbx_json_push_str(args, "--session");
		cbx_json_push_str(args, a->session);
	}
	if (a->policy) {
		cbx_json_push_str(args, "--policy");
		cbx_json_push_str(args, a->policy);
	}
	if (a->workspace && a->dir) {
		cbx_json_push_str(args, "--workspace");
		cbx_json_push_str(args, a->dir);
	} else if (a->dir) {
		_cleanup_free_ char *mount = cbx_xasprintf("%s:" CBX_INSIDE_WORKSPACE "%s:rw", a->dir,
							   strrchr(a->dir, '/'));

		cbx_json_push_str(args, "-v");
		cbx_json_push_str(args, mount);
	}
	return args;
}

static void add_word(struct cbx_buf *out, const char *word)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./:,+@%";

	if (word[strspn(word, plain)] == '\0') {
		cbx_buf_adds(out, word);
		return;
	}
	cbx_buf_addc(out, '\'');
	for (; *word; word++) {
		if (*word == '\'')
			cbx_buf_adds(out, "'\\'");
		cbx_buf_addc(out, *word);
	}
	cbx_buf_addc(out, '\'');
}

char *cbx_mcp_args_shell(const struct cbx_mcp_args *a)
{
	_cleanup_json_ cJSON *args = cbx_mcp_args_json(a);
	struct cbx_buf out = { 0 };
	const cJSON *v;

	cJSON_ArrayForEach(v, args) {
		if (out.len)
			cbx_buf_addc(&out, ' ');
		add_word(&out, v->valuestring);
	}
	return cbx_buf_steal(&out);
}

void cbx_mcp_args_release(struct cbx_mcp_args *a)
{
	free(take_ptr(&a->dir));
}
