/* SPDX-License-Identifier: Apache-2.0 */
/* What an image of a session's packages is made of (image/saved.c), and a recipe's lock (image/wheellock.h). They say
 * nothing of the addresses that wheels came from: an index may have put a secret into them. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "session/install.h"

cJSON *cbx_wheels_said(const cJSON *packages)
{
	static const char *const texts[] = { "name", "version", "file", "sha256" };
	cJSON *all = cbx_json_new_arr();
	const cJSON *w;

	cJSON_ArrayForEach(w, packages) {
		cJSON *o = cbx_json_new_obj();

		for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
			cbx_json_set_str(o, texts[i], cbx_json_text(w, texts[i]));
		cbx_json_set_u64(o, "size", cbx_json_u64(w, "size"));
		cbx_json_push(all, o);
	}
	return all;
}

int cbx_session_packages(const struct cbx_session *s, cJSON **ret, struct cbx_err *err)
{
	const struct cbx_had *p = s->packages ? &s->packages->had[CBX_KIND_PYTHON] : NULL;
	cJSON *o;

	if (!s->policy->values[CBX_KEY_SAVE].ceiling)
		return cbx_refuse(
			err, "package_refused", EPERM,
			"the policy %s does not let packages of a session become an image (packages.save); ask "
			"whoever runs codebox",
			s->policy->name);
	if (s->install)
		return cbx_refuse(err, "busy", EBUSY,
				  "session %s: packages are being installed; wait for the end of that", s->spec.id);
	if (p && (s->packages->had[CBX_KIND_NPM].token[0] || s->packages->had[CBX_KIND_CONDA].token[0]))
		return cbx_refuse(err, "no_packages", ENOTSUP,
				  "session %s has packages of %s, which cannot become part of an image; save a session "
				  "that has packages of Python alone",
				  s->spec.id, s->packages->had[CBX_KIND_NPM].token[0] ? "npm" : "conda");
	if (!p || !p->token[0])
		return cbx_refuse(
			err, "no_packages", ENOENT,
			"session %s has no packages that codebox has installed; install some first: codebox pip "
			"install --session %s NAME",
			s->spec.id, s->spec.id);
	o = cbx_json_new_obj();
	cbx_json_set_str(o, "session_id", s->spec.id);
	cbx_json_set_str(o, "image", s->spec.image);
	cbx_json_set_str(o, "directory", p->token);
	cbx_json_set(o, "requirements", cJSON_Duplicate(p->requirements, 1));
	cbx_json_set(o, "packages", cbx_wheels_said(p->wheels));
	*ret = o;
	return 0;
}
