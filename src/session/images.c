/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: which images a caller may use. Policies say which are allowed, and tenants may have some of
 * their own: to another tenant these are not there, whatever its policy allows, and the error is the one for a
 * name that no image has. The store is read at most once a second, however often it is asked for.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "session/asked.h"
#include "session/images.h"

/* The first of this name; NULL: it is nobody's own. A name with CBX_UNFINISHED is of the image that is being made. */
static const struct cbx_owned_image *first_of(const struct cbx_owned_images *owned, const char *image, size_t n)
{
	size_t low = 0, high = owned->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strncmp(owned->all[middle].name, image, n) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < owned->n && strncmp(owned->all[low].name, image, n) == 0 && !owned->all[low].name[n]
		       ? &owned->all[low]
		       : NULL;
}

static bool is_anothers(const struct cbx_principal *who, const char *image)
{
	const struct cbx_owned_images *owned = who ? who->owned : NULL;
	size_t n = strlen(image) - (cbx_ends_with(image, CBX_UNFINISHED) ? strlen(CBX_UNFINISHED) : 0);
	const struct cbx_owned_image *one = owned ? first_of(owned, image, n) : NULL, *first = one;

	for (; one && one < owned->all + owned->n && strcmp(one->name, first->name) == 0; one++)
		if (strcmp(one->tenant, who->tenant) == 0)
			return false;
	return first != NULL;
}

static const char *default_image(const struct cbx_policy *p, const struct cbx_principal *who)
{
	for (size_t i = 0; i < p->nimages; i++)
		if (!is_anothers(who, p->images[i]))
			return p->images[i];
	return "python";
}

/* Borrowed: all that can be used. A store that cannot be read has none. */
static const cJSON *stored(struct cbx_engine *e)
{
	uint64_t now = cbx_now_ms();
	struct cbx_err ignored;
	cJSON *list;

	if (e->stored && now - e->stored_ms < CBX_IMAGES_LOOK_MS)
		return e->stored;
	if (cbx_image_list(e->config.images_dir, &list, &ignored) < 0)
		list = cbx_json_new_arr();
	cJSON_Delete(e->stored);
	e->stored = list;
	e->stored_ms = now;
	return list;
}

static bool usable(const cJSON *image, const struct cbx_policy *p, const struct cbx_principal *who)
{
	const char *name = cbx_json_text(image, "name");

	return name && !cbx_json_member(image, "damaged") && !is_anothers(who, name) &&
	       cbx_policy_image_allowed(p, name);
}

/* The default image, unless another one has the language and it has not: the smallest of those. */
static const char *image_for(const struct cbx_session *s, const struct cbx_principal *who)
{
	const char *by_default = default_image(s->policy, who), *name = NULL, *dialect;
	const struct cbx_runtimes *all = &s->engine->runtimes;
	const char *language = s->spec.language ? s->spec.language
			       : s->spec.file	? cbx_runtime_of_file(all, s->spec.file)
						: NULL;
	const struct cbx_runtime *rt = language ? cbx_runtime_named(all, language, strlen(language), &dialect) : NULL;
	double size = 0;
	const cJSON *image;

	cJSON_ArrayForEach(image, (rt ? stored(s->engine) : NULL)) {
		const cJSON *interpreters = cbx_json_member(image, "interpreters");
		double bytes = cbx_json_number(image, "bytes", 0);

		if (!usable(image, s->policy, who) || !cbx_json_member(interpreters, rt->language))
			continue;
		if (strcmp(cbx_json_text(image, "name"), by_default) == 0)
			return by_default;
		if (!name || bytes < size) {
			name = cbx_json_text(image, "name");
			size = bytes;
		}
	}
	return name ? name : by_default;
}

int cbx_image_not_there(const char *image, struct cbx_err *err)
{
	return cbx_refuse(err, "image_not_found", ENOENT, "there is no image \"%.80s\"; list the images", image);
}

int cbx_session_settle_image(struct cbx_session *s, const struct cbx_principal *owner, struct cbx_err *err)
{
	const struct cbx_policy *p = s->policy;
	_cleanup_buf_ struct cbx_buf names = { 0 };

	if (!s->spec.image[0])
		snprintf(s->spec.image, sizeof(s->spec.image), "%s", image_for(s, owner));
	if (is_anothers(owner, s->spec.image))
		return cbx_image_not_there(s->spec.image, err);
	if (s->spec.helper || cbx_policy_image_allowed(p, s->spec.image))
		return 0;
	for (size_t i = 0; i < p->nimages; i++)
		if (!is_anothers(owner, p->images[i]))
			cbx_buf_addf(&names, "%s%s", names.len ? ", " : "", p->images[i]);
	return cbx_refuse(err, "image_not_allowed", EPERM,
			  "image: the policy %s does not allow \"%s\"; allowed are: %s", p->name, s->spec.image,
			  names.len ? names.data : "none");
}

/* ---- the list ---- */

static cJSON *describe(const cJSON *manifest, const char *name, const char *by_default)
{
	static const char *const texts[] = { "created", "digest", "architecture", "note" };
	const cJSON *interpreters = cbx_json_member(manifest, "interpreters"), *v;
	cJSON *o = cbx_json_new_obj(), *languages = cbx_json_new_arr();

	cbx_json_set_str(o, "name", name);
	cbx_json_set_bool(o, "default", strcmp(name, by_default) == 0);
	cJSON_ArrayForEach(v, interpreters)
		cbx_json_push_str(languages, v->string);
	cbx_json_set(o, "languages", languages);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (cbx_json_text(manifest, texts[i]))
			cbx_json_set_str(o, texts[i], cbx_json_text(manifest, texts[i]));
	cbx_json_set_u64(o, "bytes", (uint64_t)cbx_json_number(manifest, "bytes", 0));
	return o;
}

cJSON *cbx_engine_images(const struct cbx_caller *caller)
{
	const struct cbx_principal *who = caller->principal;
	struct cbx_engine *e = caller->engine;
	struct cbx_policy *p = who->ceiling ? cbx_policy_narrow(e->policy, who->ceiling) : cbx_policy_ref(e->policy);
	const char *by_default = default_image(p, who);
	cJSON *list = cbx_json_new_arr();
	const cJSON *image;

	cJSON_ArrayForEach(image, stored(e))
		if (usable(image, p, who))
			cbx_json_push(list, describe(image, cbx_json_text(image, "name"), by_default));
	cbx_policy_free(p);
	return list;
}
