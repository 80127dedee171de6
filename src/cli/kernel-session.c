/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a session without a name of its user's has one that is made of the key of the connection file,
 * and is bound to the connection to codeboxd: it ends with this process, however that ends. A client that restarts its
 * kernel ends the process and starts another one with the same file. Therefore a kernel that is to be restarted has the
 * interpreters restarted and lets the session go, and the next one finds it by its name, with its files.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/kernel.h"

static cJSON *session_params(const struct kernel *k)
{
	cJSON *params = cbx_json_new_obj();

	cbx_json_set_str(params, "session_id", k->spec.session ? k->spec.session : k->wire.name);
	return params;
}

static int find_or_make(struct kernel *k, cJSON **ret, struct cbx_err *err)
{
	cJSON *params = session_params(k);
	int r = cbx_client_call(&k->client, "session.info", session_params(k), ret, err);

	if (r >= 0 || (strcmp(err->kind, "session_not_found") != 0 && strcmp(err->kind, "session_expired") != 0)) {
		cJSON_Delete(params);
		return r;
	}
	cbx_cli_spec_json(&k->spec, params);
	return cbx_client_call(&k->client, "session.create", params, ret, err);
}

static int bind(struct kernel *k, bool on, struct cbx_err *err)
{
	_cleanup_json_ cJSON *ignored = NULL;
	cJSON *params = session_params(k);

	if (!on)
		cbx_json_set_bool(params, "detached", true);
	return cbx_client_call(&k->client, "session.bind", params, &ignored, err);
}

int cbx_kernel_begin(struct kernel *k, struct cbx_err *err)
{
	_cleanup_json_ cJSON *info = NULL;
	const cJSON *languages;
	const char *id;
	int r = k->client.fd < 0 ? cbx_cli_client(true, &k->client, err) : 1;

	if (r <= 0) {
		k->client.fd = -1;
		return r < 0 ? r
			     : cbx_refuse(err, "no_daemon", ENOENT,
					  "codeboxd does not run any more; run the cell again");
	}
	if (k->session[0])
		return 0;
	r = find_or_make(k, &info, err);
	if (r >= 0 && !k->spec.session)
		r = bind(k, true, err);
	if (r < 0) {
		cbx_kernel_lose(k);
		return r;
	}
	id = cbx_json_str(info, "session_id");
	languages = cbx_json_member(info, "languages");
	if (cbx_name_valid(id))
		memcpy(k->session, id, strlen(id) + 1);
	snprintf(k->own, sizeof(k->own), "%s", cJSON_IsString(languages->child) ? languages->child->valuestring : "");
	snprintf(k->version, sizeof(k->version), "%s",
		 cbx_json_str(cbx_json_member(info, "interpreter"), "version"));
	return 0;
}

void cbx_kernel_lose(struct kernel *k)
{
	if (k->client.fd >= 0)
		cbx_client_close(&k->client);
	k->client.fd = -1;
	k->session[0] = '\0';
}

void cbx_kernel_hand_over(struct kernel *k)
{
	_cleanup_json_ cJSON *ended = NULL;
	struct cbx_err err;
	int r;

	if (!k->session[0])
		return;
	r = cbx_client_call(&k->client, "session.restart", session_params(k), &ended, &err);
	if (r >= 0 && !k->spec.session)
		r = bind(k, false, &err);
	if (r < 0)
		cbx_cli_say("the session is not kept for the restarted kernel: %s", err.msg);
}
