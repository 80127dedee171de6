/* SPDX-License-Identifier: Apache-2.0 */
/* Which packages an installation (packages.c) is asked for, and which those of the session are then. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "packages/npm.h"
#include "session/install.h"

const char *cbx_wanted_program(const struct cbx_session *s, bool npm)
{
	const cJSON *o = cJSON_GetObjectItemCaseSensitive(s->interpreters, npm ? "javascript" : "python"),
		    *argv = cJSON_GetObjectItemCaseSensitive(o, "argv");

	return cJSON_IsString(cJSON_GetArrayItem(argv, 0)) ? cJSON_GetArrayItem(argv, 0)->valuestring : NULL;
}

bool cbx_wanted_has(const struct cbx_install *in, const char *name)
{
	for (size_t i = 0; i < in->wanted.n; i++)
		if (strcmp(in->wanted.all[i].name, name) == 0)
			return true;
	return false;
}

static bool is_upgrade(const cJSON *v)
{
	return cJSON_IsString(v) && (strcmp(v->valuestring, "-U") == 0 || strcmp(v->valuestring, "--upgrade") == 0);
}

cJSON *cbx_wanted_spelled(const struct cbx_session *s, const cJSON *names)
{
	bool npm = !cbx_wanted_program(s, false) && cbx_wanted_program(s, true);
	cJSON *all = cJSON_IsArray(names) ? cbx_json_new_arr() : NULL;
	const cJSON *v;

	cJSON_ArrayForEach(v, (all ? names : NULL)) {
		bool add = npm && cJSON_IsString(v) && !is_upgrade(v) && !cbx_is_npm(v->valuestring);
		_cleanup_free_ char *longer = add ? cbx_xasprintf(CBX_NPM "%s", v->valuestring) : NULL;

		if (longer)
			cbx_json_push_str(all, longer);
		else
			cbx_json_push(all, cJSON_Duplicate(v, 1));
	}
	return all;
}

static int check_each(const struct cbx_session *s, const cJSON *names, struct cbx_requirements *ret,
		      struct cbx_err *err)
{
	struct cbx_requirement q;
	const cJSON *v;
	int r;

	cJSON_ArrayForEach(v, names) {
		if (!cJSON_IsString(v))
			return cbx_refuse(err, "invalid_argument", EINVAL, "packages: give a list of strings");
		if (is_upgrade(v))
			continue;
		r = cbx_requirement_parse(v->valuestring, &q, err);
		if (r >= 0)
			r = cbx_rules_judge_name(&s->policy->packages, q.name, err);
		if (r >= 0 && ret->n && cbx_is_npm(ret->all[0].name) != cbx_is_npm(q.name))
			r = cbx_refuse(
				err, "invalid_argument", EINVAL,
				"packages: those of Python and of npm are installed apart; ask for each kind alone");
		if (r >= 0 && !cbx_wanted_program(s, cbx_is_npm(q.name)))
			r = cbx_refuse(err, "no_packages", ENOENT, "image %s has no %s; use another image",
				       s->spec.image, cbx_is_npm(q.name) ? "Node.js" : "Python");
		if (r < 0)
			return r;
		cbx_requirements_add(ret, q.name, q.specifiers);
	}
	return ret->n ? 0 : cbx_refuse(err, "invalid_argument", EINVAL, "packages: \"-U\" needs the name of a package");
}

int cbx_wanted_check(const struct cbx_session *s, const cJSON *names, struct cbx_requirements *ret, struct cbx_err *err)
{
	const struct cbx_engine *e = s->engine;
	size_t n = 0;

	if (!cJSON_IsArray(names) || !names->child || cJSON_GetArraySize(names) > CBX_INSTALL_NAMES_MAX)
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "packages: give from 1 to %d requirements, as in [\"polars\", \"httpx>=0.27\"]",
				  CBX_INSTALL_NAMES_MAX);
	if (s->install)
		return cbx_refuse(err, "busy", EBUSY,
				  "session %s: packages are being installed; wait for the end of that", s->spec.id);
	for (const struct cbx_install *in = TAILQ_FIRST(&e->installs); in; in = TAILQ_NEXT(in, entry))
		n++;
	if (n >= CBX_INSTALLS_MAX)
		return cbx_refuse(err, "busy", EBUSY, "packages are being installed in %d sessions; try again later",
				  CBX_INSTALLS_MAX);
	return check_each(s, names, ret, err);
}

cJSON *cbx_wanted_gather(const struct cbx_install *in, const cJSON *names)
{
	cJSON *all = cbx_json_new_arr();
	struct cbx_requirement q;
	struct cbx_err ignored;
	const cJSON *v;

	cJSON_ArrayForEach(v, names)
		if (!is_upgrade(v))
			cbx_json_push_str(all, v->valuestring);

	cJSON_ArrayForEach(v, (in->target->packages ? in->target->packages->had[in->npm].requirements : NULL))
		if (cbx_requirement_parse(v->valuestring, &q, &ignored) >= 0 && !cbx_wanted_has(in, q.name))
			cbx_json_push_str(all, v->valuestring);
	return all;
}
