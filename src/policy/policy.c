/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy.h"

#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

/* ---- in force ---- */

bool cbx_policy_settle(const struct cbx_policy *p, enum cbx_key key, bool given, uint64_t wanted, uint64_t *ret)
{
	const struct cbx_policy_value *v = &p->values[key];

	*ret = given ? cbx_key_lower(key, wanted, v->ceiling) : v->standard;
	return given && *ret != wanted;
}

bool cbx_policy_image_allowed(const struct cbx_policy *p, const char *image)
{
	bool found = !p->images;

	for (size_t i = 0; !found && i < p->nimages; i++)
		found = strcmp(p->images[i], image) == 0;
	return found;
}

/* ---- canonical form ---- */

static cJSON *value_json(enum cbx_key key, const struct cbx_policy_value *v)
{
	cJSON *o;

	if (v->standard == v->ceiling)
		return cbx_key_to_json(key, v->standard);
	o = cbx_json_new_obj();
	cbx_json_set(o, "default", cbx_key_to_json(key, v->standard));
	cbx_json_set(o, "max", cbx_key_to_json(key, v->ceiling));
	return o;
}

/* The object of a group, made when it is first needed. */
static cJSON *group_of(cJSON *root, const char *name)
{
	cJSON *o = cJSON_GetObjectItemCaseSensitive(root, name);

	if (!o) {
		o = cbx_json_new_obj();
		cbx_json_set(root, name, o);
	}
	return o;
}

cJSON *cbx_policy_to_json(const struct cbx_policy *p)
{
	cJSON *root = cbx_json_new_obj(), *o;

	for (enum cbx_key k = 0; k < CBX_KEYS; k++)
		cbx_json_set(group_of(root, cbx_keys[k].group), cbx_keys[k].name, value_json(k, &p->values[k]));
	cbx_json_set_str(root, "network", "none");
	if (p->images) {
		o = cbx_json_new_arr();
		for (size_t i = 0; i < p->nimages; i++)
			cbx_json_push_str(o, p->images[i]);
		cbx_json_set(root, "images", o);
	}
	o = cbx_json_new_obj();
	for (size_t i = 0; i < p->environment.n; i++)
		cbx_json_set_str(o, p->environment.all[i].name, p->environment.all[i].value);
	cbx_json_set(root, "environment", o);
	return root;
}

void cbx_policy_digest(const struct cbx_policy *p, char out[65])
{
	_cleanup_json_ cJSON *root = cbx_policy_to_json(p);
	_cleanup_buf_ struct cbx_buf text = { 0 };
	uint8_t sum[SHA256_DIGEST_SIZE];
	struct sha256_ctx c;

	cbx_json_print(&text, root);
	cbx_buf_addc(&text, '\n');
	sha256_init(&c);
	sha256_update(&c, text.len, (const uint8_t *)text.data);
	sha256_digest(&c, sizeof(sum), sum);
	for (size_t i = 0; i < sizeof(sum); i++)
		snprintf(out + 2 * i, 3, "%02x", sum[i]);
}

void cbx_policy_origin(const struct cbx_policy *p, struct cbx_origin from, struct cbx_buf *out)
{
	cbx_buf_adds(out, p->files[from.file]);
	if (from.file)
		cbx_buf_addf(out, ":%u", from.line);
}

/* ---- the lower of two ---- */

static uint32_t add_file(struct cbx_policy *p, const char *name)
{
	for (size_t i = 0; i < p->nfiles; i++)
		if (strcmp(p->files[i], name) == 0)
			return (uint32_t)i;
	p->files = cbx_xrealloc(p->files, (p->nfiles + 1) * sizeof(*p->files));
	p->files[p->nfiles++] = cbx_xstrdup(name);
	return (uint32_t)p->nfiles - 1;
}

/* An origin of `other`, as one of p. */
static struct cbx_origin translate(struct cbx_policy *p, const struct cbx_policy *other, struct cbx_origin from)
{
	return (struct cbx_origin){ add_file(p, other->files[from.file]), from.line };
}

static void narrow_value(struct cbx_policy *p, enum cbx_key key, const struct cbx_policy *wide,
			 const struct cbx_policy *narrow)
{
	const struct cbx_policy_value *a = &wide->values[key], *b = &narrow->values[key];
	struct cbx_policy_value *v = &p->values[key];

	v->ceiling = cbx_key_lower(key, a->ceiling, b->ceiling);
	v->ceiling_from = v->ceiling == a->ceiling ? translate(p, wide, a->ceiling_from) :
						     translate(p, narrow, b->ceiling_from);
	v->standard = cbx_key_lower(key, b->standard, v->ceiling);
	v->standard_from = v->standard == b->standard ? translate(p, narrow, b->standard_from) : v->ceiling_from;
}

static void narrow_images(struct cbx_policy *p, const struct cbx_policy *wide, const struct cbx_policy *narrow)
{
	const struct cbx_policy *from = narrow->images ? narrow : wide;

	if (!from->images)
		return;
	p->images = cbx_xcalloc(from->nimages, sizeof(*p->images)); /* not NULL: none is not all */
	for (size_t i = 0; i < from->nimages; i++)
		if (cbx_policy_image_allowed(wide, from->images[i]))
			p->images[p->nimages++] = cbx_xstrdup(from->images[i]);
	p->images_from = translate(p, from, from->images_from);
}

struct cbx_policy *cbx_policy_narrow(const struct cbx_policy *wide, const struct cbx_policy *narrow)
{
	_cleanup_free_ char *name = cbx_xasprintf("%s+%s", wide->name, narrow->name);
	struct cbx_policy *p = cbx_policy_new(name);
	const struct cbx_policy *both[] = { narrow, wide }; /* the wider one's variables are the server's: they win */

	for (enum cbx_key k = 0; k < CBX_KEYS; k++)
		narrow_value(p, k, wide, narrow);
	narrow_images(p, wide, narrow);
	p->network_from = translate(p, wide, wide->network_from);
	for (size_t b = 0; b < 2; b++) {
		for (size_t i = 0; i < both[b]->environment.n; i++)
			cbx_environment_set(&p->environment, both[b]->environment.all[i].name,
					    both[b]->environment.all[i].value);
		if (both[b]->environment.n)
			p->environment_from = translate(p, both[b], both[b]->environment_from);
	}
	cbx_policy_digest(p, p->digest);
	return p;
}
