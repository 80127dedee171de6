/* SPDX-License-Identifier: Apache-2.0 */
/* The lower of two policies, value by value. */
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "policy/policy.h"


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

/* What lies in a directory of either list: of each pair of directories the one that is in the other. */
static void narrow_mounts(struct cbx_policy *p, const struct cbx_policy *wide, const struct cbx_policy *narrow)
{
	p->mounts_from = translate(p, narrow, narrow->mounts_from);
	for (size_t i = 0; i < wide->nmounts; i++) {
		for (size_t k = 0; k < narrow->nmounts && p->nmounts < CBX_POLICY_LIST_MAX; k++) {
			const struct cbx_policy_mount *a = &wide->mounts[i], *b = &narrow->mounts[k];
			const char *inner = cbx_path_within(b->path, a->path) ? b->path :
					    cbx_path_within(a->path, b->path) ? a->path :
										NULL;

			if (!inner)
				continue;
			p->mounts = cbx_xrealloc(p->mounts, (p->nmounts + 1) * sizeof(*p->mounts));
			p->mounts[p->nmounts++] =
				(struct cbx_policy_mount){ cbx_xstrdup(inner), a->writable && b->writable };
		}
	}
}

/* The server's say what there is; one that narrows it may leave some out. */
static void narrow_channels(struct cbx_policy *p, const struct cbx_policy *wide, const struct cbx_policy *narrow)
{
	if (wide->channels || narrow->channels)
		p->channels = cbx_xcalloc(1, sizeof(*p->channels)); /* not NULL: an empty list says that there are none */
	for (size_t i = 0; i < wide->nchannels; i++)
		if (!narrow->channels || cbx_policy_has_channel(narrow, wide->channels[i]))
			cbx_policy_add_channel(p, wide->channels[i]);
}

/* What is in both lists of what is allowed, and in either of what is not. */
static void narrow_packages(struct cbx_policy *p, const struct cbx_policy *wide, const struct cbx_policy *narrow)
{
	const struct cbx_policy *both[] = { wide, narrow };
	struct cbx_package_rules *rules = &p->packages;

	narrow_channels(p, wide, narrow);
	rules->only = wide->packages.only || narrow->packages.only;
	if (wide->packages.only && narrow->packages.only)
		cbx_requirements_both(&rules->allow, &wide->packages.allow, &narrow->packages.allow);
	for (size_t b = 0; b < 2; b++) {
		const struct cbx_package_rules *from = &both[b]->packages;

		if (from->only && !both[!b]->packages.only)
			cbx_requirements_copy(&rules->allow, &from->allow);
		cbx_requirements_copy(&rules->block, &from->block);
		cbx_requirements_copy(&rules->versions, &from->versions);
		if (both[b]->index && !p->index) /* the server's first */
			p->index = cbx_xstrdup(both[b]->index);
		if (both[b]->registry && !p->registry)
			p->registry = cbx_xstrdup(both[b]->registry);
		for (size_t i = 0; i < both[b]->nadvisories; i++)
			cbx_policy_add_advisories(p, both[b]->advisories[i]);
		if (both[b]->packages_from.line)
			p->packages_from = translate(p, both[b], both[b]->packages_from);
	}
}

struct cbx_policy *cbx_policy_narrow(const struct cbx_policy *wide, const struct cbx_policy *narrow)
{
	_cleanup_free_ char *name = cbx_xasprintf("%s+%s", wide->name, narrow->name);
	struct cbx_policy *p = cbx_policy_new(name);
	const struct cbx_policy *both[] = { narrow, wide }; /* the wider one's variables are the server's: they win */

	for (enum cbx_key k = 0; k < CBX_KEYS; k++)
		narrow_value(p, k, wide, narrow);
	narrow_images(p, wide, narrow);
	narrow_mounts(p, wide, narrow);
	narrow_packages(p, wide, narrow);
	cbx_sql_rules_narrow(&p->sql, &wide->sql, &narrow->sql);
	p->sql_from = wide->sql.n ? translate(p, narrow, narrow->sql_from) : translate(p, wide, wide->sql_from);
	cbx_object_store_copy(&p->objects, &wide->objects); /* the server's alone */
	cbx_servers_narrow(&p->stores, &wide->stores, &narrow->stores);
	p->objects_from = translate(p, wide, wide->objects_from);
	cbx_code_rules_narrow(&p->code, wide, narrow);
	p->code_from =
		wide->code_from.line ? translate(p, wide, wide->code_from) : translate(p, narrow, narrow->code_from);
	cbx_network_narrow(&p->network, &wide->network, &narrow->network);
	p->network_from = wide->network.allow || wide->network.open ?
				  translate(p, narrow, narrow->network_from) :
				  translate(p, wide, wide->network_from);
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
