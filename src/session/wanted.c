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

int cbx_wanted_spelled(const struct cbx_session *s, const cJSON *names, struct cbx_sums *sums, cJSON **ret,
		       struct cbx_err *err)
{
	bool npm = !cbx_wanted_program(s, false) && cbx_wanted_program(s, true);
	_cleanup_json_ cJSON *all = cJSON_IsArray(names) ? cbx_json_new_arr() : NULL;
	size_t without = 0;
	const cJSON *v;

	cJSON_ArrayForEach(v, (all ? names : NULL)) {
		_cleanup_free_ char *bare = NULL, *longer = NULL;
		size_t had = sums->n;

		if (!cJSON_IsString(v) || is_upgrade(v)) {
			cbx_json_push(all, cJSON_Duplicate(v, 1));
			continue;
		}
		if (cbx_sums_take(sums, v->valuestring, &bare, err) < 0)
			return -err->code;
		if (!bare)
			continue;
		without += sums->n == had && !cbx_is_npm(bare);
		longer = npm && !cbx_is_npm(bare) ? cbx_xasprintf(CBX_NPM "%s", bare) : take_ptr(&bare);
		cbx_json_push_str(all, longer);
	}
	if (sums->only && sums->n && without && !cbx_is_npm(sums->all[0].name))
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "packages: some have a --hash and others have none; give hashes of all, and of all "
				  "that they need");
	*ret = take_ptr(&all);
	return 0;
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
		if (r >= 0 && q.address && !s->policy->values[CBX_KEY_URLS].ceiling)
			r = cbx_refuse(err, "package_refused", EPERM,
				       "%s: the policy does not let packages be installed from addresses "
				       "(packages.urls); name a package of the index, or ask whoever runs codebox",
				       q.name);
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
	return ret->n ? 0
		      : cbx_refuse(err, "invalid_argument", EINVAL,
				   "packages: \"-U\" stands alone; name the package, as in \"-U numpy\"");
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

bool cbx_wanted_had(const struct cbx_packages *p, const struct cbx_wheel *w)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, (p ? p->had[w->place != NULL].wheels : NULL))
		if (strcmp(cbx_json_text(v, w->place ? "sha512" : "sha256"), w->sum) == 0 &&
		    (!w->place || strcmp(cbx_json_text(v, "place"), w->place) == 0))
			return true;
	return false;
}

int cbx_wanted_sums(const struct cbx_install *in, struct cbx_err *err)
{
	for (size_t i = 0; i < in->lock.n; i++) {
		const struct cbx_wheel *w = &in->lock.wheels[i];
		const char *name = in->npm ? w->name + strlen(CBX_NPM) : w->name, *by = w->direct ? "" : w->path;
		const char *needed = w->direct ? "" : "; it is needed by ";
		bool known, have = cbx_sums_have(&in->sums, w, &known);

		if (have || (!known && (!in->sums.only || cbx_wanted_had(in->target->packages, w))))
			continue;
		if (known)
			return cbx_refuse(err, "wrong_hash", EBADMSG, "%s %s: its %s is none of those that %s%s%s",
					  name, w->version, in->npm ? "SHA-512" : "SHA-256",
					  in->npm ? "package-lock.json has" : "were given (--hash)", needed, by);
		return cbx_refuse(err, "package_refused", EPERM, "%s %s is needed, and %s%s%s", name, w->version,
				  in->npm ? "package-lock.json does not have it; npm install takes it"
					  : "no hash of it was given (--hash), as others have one",
				  needed, by);
	}
	return 0;
}
