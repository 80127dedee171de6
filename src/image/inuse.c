/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: one question to the daemon, if there is one. A daemon that does not answer keeps no user from
 * removing an image, and one that is started a moment later is not waited for: this guards against mistakes, it does
 * not lock anything.
 */
#include "image/inuse.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "client/client.h"

static void add_users(const cJSON *answer, const char *name, struct cbx_buf *out)
{
	const cJSON *sessions = NULL, *s;
	struct cbx_err ignored;

	if (cbx_json_get_arr(answer, "sessions", &sessions, &ignored) <= 0)
		return;
	cJSON_ArrayForEach(s, sessions) {
		const char *image = NULL, *id = NULL;

		if (cJSON_IsObject(s) && cbx_json_get_str(s, "image", &image, &ignored) > 0 &&
		    cbx_json_get_str(s, "session_id", &id, &ignored) > 0 && strcmp(image, name) == 0 && out->len < 200)
			cbx_buf_addf(out, " %s", id);
	}
}

int cbx_image_check_unused(const struct cbx_dirs *dirs, const char *name, struct cbx_err *err)
{
	_cleanup_json_ cJSON *answer = NULL;
	_cleanup_buf_ struct cbx_buf users = { 0 };
	struct cbx_client client;
	struct cbx_err ignored;

	if (cbx_client_open(dirs, false, NULL, &client, &ignored) < 0)
		return 0;
	if (cbx_client_call(&client, "session.list", NULL, &answer, &ignored) == 0)
		add_users(answer, name, &users);
	cbx_client_close(&client);
	if (!users.len)
		return 0;
	return cbx_refuse(err, "image_in_use", EBUSY,
			  "the image \"%s\" is in use; close these sessions first: codebox session rm%s", name,
			  users.data);
}
