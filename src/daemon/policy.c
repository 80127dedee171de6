/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the policy is read at the start, and again when a client or SIGHUP asks for it: by the same
 * code, which also decides anew which file it is. One that cannot be used leaves the one in force alone. By then
 * codeboxd is confined to what confine.c lets it read; an editor that puts another file in the place of one that lies
 * elsewhere has put it out of reach, and the error says so.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/daemon.h"
#include "policy/policy.h"

/* *ret_granted: what the user has said yes to adds to it; NULL: it is not the user's to widen. */
static char *which(const struct cbx_daemon *d, char **ret_granted)
{
	const char *asked = d->policy_asked ? d->policy_asked : getenv("CODEBOX_POLICY");
	char *standard;

	*ret_granted = NULL;
	if (asked && asked[0])
		return cbx_xstrdup(asked);
	standard = cbx_policy_standard(d->dirs.config);
	if (d->own_config)
		*ret_granted = cbx_granted_path(d->dirs.config, standard);
	return standard;
}

static void note(const struct cbx_daemon *d, const char *path)
{
	cbx_info("policy %s (%s), digest %s", d->policy->name, path, d->policy->digest);
}

void cbx_daemon_load_policy(struct cbx_daemon *d, struct cbx_err *refusal)
{
	struct cbx_err err;

	/* It is made now: what is not there when codeboxd confines itself it cannot read later. */
	d->own_config = !d->service.from_root && cbx_dirs_make_private(d->dirs.config, 0700, &err) == 0;
	d->policy_path = which(d, &d->granted);
	if (cbx_policy_load(d->shipped, d->policy_path, &d->policy, &err) >= 0) {
		note(d, d->policy_path);
		cbx_daemon_read_secrets(d, d->policy);
		return;
	}
	cbx_refuse(refusal, "invalid_policy", err.code,
		   "no session is made, because the policy cannot be used: %.400s; correct it (codebox policy check), "
		   "then codebox policy reload",
		   err.msg);
	cbx_error("%s", refusal->msg);
}

/* The error begins with file and line, if it has them. */
static int refuse_reload(const struct cbx_daemon *d, struct cbx_err *err)
{
	struct cbx_err said = *err;

	if (said.code == EACCES && d->landlock_abi)
		return cbx_refuse(err, said.kind, said.code,
				  "%.250s; the old policy stays in force. codeboxd, as it runs, reads policies in %.100s and "
				  "/etc/codebox, and files that it read at its start, unless others took their place: write "
				  "to them in place, or restart it (codebox stop)",
				  said.msg, d->dirs.config);
	return cbx_refuse(err, said.kind, said.code,
			  "%.400s; the old policy stays in force: correct this, then codebox policy reload", said.msg);
}

int cbx_daemon_reload_policy(struct cbx_daemon *d, cJSON **ret, struct cbx_err *err)
{
	_cleanup_free_ char *granted = NULL, *path = which(d, &granted);
	struct cbx_policy *p = NULL;
	int r = cbx_policy_load(d->shipped, path, &p, err);
	bool restart;
	cJSON *o;

	if (r < 0)
		return refuse_reload(d, err);
	cbx_daemon_read_secrets(d, p);
	restart = cbx_engine_set_policy(d->engine, p, granted);
	cbx_policy_free(d->policy);
	d->policy = p;
	note(d, path);
	if (restart)
		cbx_warn("mounts, which the policy allows, need a restart: codeboxd was started without them");
	if (!ret)
		return 0;
	*ret = o = cbx_json_new_obj();
	cbx_json_set_str(o, "policy", p->name);
	cbx_json_set_str(o, "file", path);
	cbx_json_set_str(o, "digest", p->digest);
	cbx_json_set_u64(o, "sessions", cbx_engine_sessions(d->engine));
	cbx_json_set_bool(o, "mounts_need_restart", restart);
	return 0;
}
