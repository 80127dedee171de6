/* SPDX-License-Identifier: Apache-2.0 */
/* Which packages an installation (packages.c) is asked for, and which those of the session are then. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "packages/conda.h"
#include "session/install.h"

#define CHANNEL "--channel "

const char *cbx_wanted_program(const struct cbx_session *s, enum cbx_kind kind)
{
	const char *language = kind == CBX_KIND_NPM ? "javascript" : "python";
	const cJSON *o = cbx_json_member(s->interpreters, language),
		    *argv = cbx_json_member(o, "argv");

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

/* Of conda: who asks for it means this one. */
static int check_channel(const struct cbx_session *s, const char *text, struct cbx_err *err)
{
	_cleanup_free_ char *address = cbx_conda_channel(text);

	if (address && cbx_policy_has_channel(s->policy, address))
		return 0;
	cbx_refuse(err, "package_refused", EPERM,
		   "channel %.100s: the policy %s does not have it (packages.channels); omit it, or ask whoever runs "
		   "codebox",
		   text, s->policy->name);
	cbx_err_sanitize(err);
	return -EPERM;
}

int cbx_wanted_spelled(const struct cbx_session *s, const cJSON *names, struct cbx_sums *sums, cJSON **ret,
		       struct cbx_err *err)
{
	bool npm = !cbx_wanted_program(s, CBX_KIND_PYTHON) && cbx_wanted_program(s, CBX_KIND_NPM);
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
		if (cbx_starts_with(v->valuestring, CHANNEL)) {
			if (check_channel(s, v->valuestring + strlen(CHANNEL), err) < 0)
				return -err->code;
			continue;
		}
		if (cbx_sums_take(sums, v->valuestring, &bare, err) < 0)
			return -err->code;
		if (!bare)
			continue;
		without += sums->n == had && cbx_kind_of(bare) == CBX_KIND_PYTHON;
		longer = npm && cbx_kind_of(bare) == CBX_KIND_PYTHON ? cbx_xasprintf(CBX_NPM "%s", bare)
								     : take_ptr(&bare);
		cbx_json_push_str(all, longer);
	}
	if (sums->only && sums->n && without && cbx_kind_of(sums->all[0].name) == CBX_KIND_PYTHON)
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
		if (r >= 0 && ret->n && cbx_kind_of(ret->all[0].name) != cbx_kind_of(q.name))
			r = cbx_refuse(err, "invalid_argument", EINVAL,
				       "packages: those of Python, of npm and of conda are installed apart; ask for "
				       "each kind alone");
		if (r >= 0 && !cbx_wanted_program(s, cbx_kind_of(q.name)))
			r = cbx_refuse(err, "no_packages", ENOENT, "image %s has no %s; use another image",
				       s->spec.image, cbx_kind_of(q.name) == CBX_KIND_NPM ? "Node.js" : "Python");
		if (r >= 0 && cbx_kind_of(q.name) == CBX_KIND_CONDA && !s->policy->nchannels)
			r = cbx_refuse(err, "package_refused", EPERM,
				       "%s: the policy %s has no channel of conda (packages.channels); use packages of "
				       "PyPI, or ask whoever runs codebox to add one, such as \"conda-forge\"",
				       q.name, s->policy->name);
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
	size_t n = 0, own = 0;

	if (!cJSON_IsArray(names) || !names->child || cJSON_GetArraySize(names) > CBX_INSTALL_NAMES_MAX)
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "packages: give from 1 to %d requirements, as in [\"polars\", \"httpx>=0.27\"]",
				  CBX_INSTALL_NAMES_MAX);
	if (s->install)
		return cbx_refuse(err, "busy", EBUSY,
				  "session %s: packages are being installed; wait for the end of that", s->spec.id);
	for (const struct cbx_install *in = TAILQ_FIRST(&e->installs); in; in = TAILQ_NEXT(in, entry), n++)
		own += strcmp(in->target->tenant, s->tenant) == 0;
	if (own >= CBX_INSTALLS_TENANT || n >= CBX_INSTALLS_MAX)
		return cbx_refuse(err, "busy", EBUSY, "packages are being installed in %zu sessions; try again later",
				  own >= CBX_INSTALLS_TENANT ? own : n);
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

	cJSON_ArrayForEach(v, (in->target->packages ? in->target->packages->had[in->kind].requirements : NULL))
		if (cbx_requirement_parse(v->valuestring, &q, &ignored) >= 0 && !cbx_wanted_has(in, q.name))
			cbx_json_push_str(all, v->valuestring);
	return all;
}

bool cbx_wanted_had(const struct cbx_packages *p, const struct cbx_wheel *w)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, (p ? p->had[cbx_kind_of(w->name)].wheels : NULL))
		if (strcmp(cbx_json_text(v, w->place ? "sha512" : "sha256"), w->sum) == 0 &&
		    (!w->place || strcmp(cbx_json_text(v, "place"), w->place) == 0))
			return true;
	return false;
}

int cbx_wanted_sums(const struct cbx_install *in, struct cbx_err *err)
{
	for (size_t i = 0; i < in->lock.n; i++) {
		const struct cbx_wheel *w = &in->lock.wheels[i];
		bool npm = in->kind == CBX_KIND_NPM;
		const char *name = cbx_kind_bare(w->name), *by = w->direct ? "" : w->path;
		const char *needed = w->direct ? "" : "; it is needed by ";
		bool known, have = cbx_sums_have(&in->sums, w, &known);

		if (have || (!known && (!in->sums.only || cbx_wanted_had(in->target->packages, w))))
			continue;
		if (known)
			return cbx_refuse(err, "wrong_hash", EBADMSG, "%s %s: its %s is none of those that %s%s%s",
					  name, w->version, npm ? "SHA-512" : "SHA-256",
					  npm ? "package-lock.json has" : "were given (--hash)", needed, by);
		return cbx_refuse(err, "package_refused", EPERM, "%s %s is needed, and %s%s%s", name, w->version,
				  npm ? "package-lock.json does not have it; npm install takes it"
				      : "no hash of it was given (--hash), as others have one",
				  needed, by);
	}
	return 0;
}
