/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of an installation: its answer, and its warnings. */
#include <string.h>

#include "base/cleanup.h"
#include "session/install.h"

cJSON *cbx_install_outcome(const struct cbx_install *in)
{
	cJSON *o = cbx_json_new_obj(), *installed, *already;
	const cJSON *v;

	cbx_json_set_str(o, "session_id", in->target->spec.id);
	if (in->elsewhere) {
		cbx_json_set(o, "packages", cbx_wheels_said(cbx_json_member(in->found, "packages")));
		return o;
	}
	installed = cbx_json_new_arr();
	already = cbx_json_new_arr();
	for (size_t i = 0; i < in->lock.n; i++) {
		const struct cbx_wheel *w = &in->lock.wheels[i];
		bool there = cbx_wanted_had(in->target->packages, w);
		cJSON *p;

		if ((there && !(w->direct && cbx_wanted_has(in, w->name))) || cbx_lock_again(&in->lock, i))
			continue;
		p = cbx_json_new_obj();
		cbx_json_set_str(p, "name", cbx_kind_bare(w->name));
		cbx_json_set_str(p, "version", w->version);
		cbx_json_push(there ? already : installed, p);
	}
	/* Of the image: a resolver may say anything of it, and names are all that is taken. */
	cJSON_ArrayForEach(v, cbx_json_member(in->found, "image")) {
		const char *name = cbx_json_text(v, "name"), *version = cbx_json_text(v, "version");
		char normal[CBX_PROJECT_MAX];
		cJSON *p;

		if (!name || !version || !cbx_project_name(name, strlen(name), normal) || !cbx_wanted_has(in, normal))
			continue;
		p = cbx_json_new_obj();
		cbx_json_set_str(p, "name", normal);
		cbx_json_set_str(p, "version", version);
		cbx_json_push(already, p);
	}
	cbx_json_set(o, "installed", installed);
	cbx_json_set(o, "already", already);
	if (in->warnings)
		cbx_json_set(o, "warnings", cJSON_Duplicate(in->warnings, 1));
	if (in->imported)
		cbx_json_set(o, "imported", cJSON_Duplicate(in->imported, 1));
	return o;
}

/* It goes into the session's log, too, for a session that had to be made first. */
void cbx_install_warn(struct cbx_install *in, const char *text)
{
	if (!in->warnings)
		in->warnings = cbx_json_new_arr();
	cbx_json_push_str(in->warnings, text);
	cbx_session_note(in->target, "packages: %.500s", text);
}

/* Node keeps what it has loaded, and nobody but Node knows what that is. */
void cbx_install_warn_of_changed(struct cbx_install *in)
{
	const struct cbx_packages *had = in->target->packages;
	const cJSON *v;

	for (size_t i = 0; i < in->lock.n; i++)
		cJSON_ArrayForEach(v, (had ? had->had[CBX_KIND_NPM].wheels : NULL)) {
			const struct cbx_wheel *w = &in->lock.wheels[i];
			_cleanup_free_ char *text = NULL;

			if (strcmp(cbx_json_text(v, "place"), w->place) != 0 ||
			    strcmp(cbx_json_text(v, "version"), w->version) == 0)
				continue;
			text = cbx_xasprintf(
				"%s %s was there before: an interpreter that has loaded it uses it until it is "
				"restarted",
				cbx_kind_bare(w->name), cbx_json_text(v, "version"));
			cbx_install_warn(in, text);
		}
}

static void warn_of_unlocked(struct cbx_install *in)
{
	for (size_t i = 0; in->kind == CBX_KIND_NPM && in->sums.n && i < in->lock.n; i++) {
		const struct cbx_wheel *w = &in->lock.wheels[i];
		_cleanup_free_ char *text = NULL;
		bool known;

		if (cbx_sums_have(&in->sums, w, &known) || cbx_wanted_had(in->target->packages, w) ||
		    cbx_lock_again(&in->lock, i))
			continue;
		text = cbx_xasprintf("package-lock.json does not have %s %s, which is installed; npm ci refuses that",
				     cbx_kind_bare(w->name), w->version);
		cbx_install_warn(in, text);
	}
}

static void warn_of_built(struct cbx_install *in)
{
	for (size_t i = 0; i < in->lock.n; i++) {
		const struct cbx_wheel *w = &in->lock.wheels[i];
		_cleanup_free_ char *text = NULL;

		if (!w->url || !cbx_starts_with(w->url, CBX_BUILT) || cbx_wanted_had(in->target->packages, w))
			continue;
		text = cbx_xasprintf("%s %s was built from its sources", w->name, w->version);
		cbx_install_warn(in, text);
	}
}

void cbx_install_warn_of_added(struct cbx_install *in, const cJSON *said)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, said)
		if (cJSON_IsString(v) && cbx_plain(v->valuestring))
			cbx_install_warn(in, v->valuestring);
	warn_of_unlocked(in);
	warn_of_built(in);
}
