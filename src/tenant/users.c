/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a connection to a unix socket has the user who made it, by the kernel's word. Names are looked
 * up in /etc/passwd itself: what else could know them is behind libraries and sockets that codeboxd does without once
 * it has confined itself, and SIGHUP reads the names again.
 */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/queue.h"
#include "policy/source.h"
#include "tenant/tenant.h"
#include "tenant/users.h"

#define OVERFLOW_UID 65534 /* "nobody": the kernel gives this id for a user that it cannot name here */

static int look_up(const struct cbx_source *source, const cJSON *v, uid_t *ret, struct cbx_err *err)
{
	FILE *f = fopen("/etc/passwd", "re");
	const struct passwd *pw;
	bool found = false;

	if (!f)
		return cbx_source_refuse(source, v, err,
					 "users: cannot look up \"%.80s\": /etc/passwd: %s; give the user's number",
					 v->valuestring, strerror(errno));
	while (!found && (pw = fgetpwent(f)))
		if (strcmp(pw->pw_name, v->valuestring) == 0) {
			*ret = pw->pw_uid;
			found = true;
		}
	(void)fclose(f);
	return found ? 0
		     : cbx_source_refuse(source, v, err,
					 "users: there is no user \"%.80s\" in /etc/passwd; give a name, or the number "
					 "of a user of another directory",
					 v->valuestring);
}

static int parse_one(const struct cbx_source *source, const cJSON *v, uid_t *ret, struct cbx_err *err)
{
	if (cJSON_IsString(v)) {
		if (look_up(source, v, ret, err) < 0)
			return -err->code;
	} else if (!cJSON_IsNumber(v) || v->valuedouble < 0 || v->valuedouble >= UINT32_MAX ||
		   v->valuedouble != (double)(uint32_t)v->valuedouble) {
		return cbx_source_refuse(source, v, err,
					 "users: give names or numbers of users, such as [\"ada\", 1001]");
	} else {
		*ret = (uid_t)v->valuedouble;
	}
	if (*ret == OVERFLOW_UID)
		return cbx_source_refuse(source, v, err,
					 "users: %d stands for users that this machine does not know; name another",
					 OVERFLOW_UID);
	return 0;
}

int cbx_users_parse(const struct cbx_source *source, const cJSON *list, const struct cbx_tenants *all,
		    struct cbx_tenant *t, struct cbx_err *err)
{
	const struct cbx_tenant *other;
	const cJSON *v;
	uid_t uid = 0;

	if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) > CBX_TENANT_USERS_MAX)
		return cbx_source_refuse(source, list, err,
					 "users: give a list of up to %d users, such as [\"ada\", 1001]",
					 CBX_TENANT_USERS_MAX);
	t->users = cbx_xcalloc(CBX_TENANT_USERS_MAX, sizeof(*t->users));
	cJSON_ArrayForEach(v, list) {
		if (parse_one(source, v, &uid, err) < 0)
			return -err->code;
		other = cbx_tenants_by_user(all, uid);
		if (other)
			return cbx_source_refuse(source, v, err, "users: user %u is the tenant %s already",
						 (unsigned)uid, other->principal.tenant);
		t->users[t->nusers++] = uid;
	}
	return 0;
}

struct cbx_tenant *cbx_tenants_by_user(const struct cbx_tenants *all, uid_t uid)
{
	struct cbx_tenant *t;

	TAILQ_FOREACH(t, &all->list, entry)
		for (size_t i = 0; !t->gone && i < t->nusers; i++)
			if (t->users[i] == uid)
				return t;
	return NULL;
}
