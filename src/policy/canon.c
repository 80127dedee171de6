/* SPDX-License-Identifier: Apache-2.0 */
/* The canonical form: all values, in the order of the table; and its digest. */
#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/policy.h"


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
	cJSON *o = cbx_json_member(root, name);

	if (!o) {
		o = cbx_json_new_obj();
		cbx_json_set(root, name, o);
	}
	return o;
}

cJSON *cbx_policy_to_json(const struct cbx_policy *p)
{
	cJSON *root = cbx_json_new_obj(), *o, *list;

	for (enum cbx_key k = 0; k < CBX_KEYS; k++)
		cbx_json_set(group_of(root, cbx_keys[k].group), cbx_keys[k].name, value_json(k, &p->values[k]));
	cbx_json_set(root, "network", cbx_network_to_json(&p->network));
	if (p->images) {
		o = cbx_json_new_arr();
		for (size_t i = 0; i < p->nimages; i++)
			cbx_json_push_str(o, p->images[i]);
		cbx_json_set(root, "images", o);
	}
	list = cbx_json_new_arr();
	for (size_t i = 0; i < p->nmounts; i++) {
		o = cbx_json_new_obj();
		cbx_json_set_str(o, "path", p->mounts[i].path);
		cbx_json_set_bool(o, "writable", p->mounts[i].writable);
		cbx_json_push(list, o);
	}
	cbx_json_set(group_of(root, "mounts"), "allow", list);
	o = group_of(root, "packages");
	if (p->packages.only)
		cbx_json_set(o, "allow", cbx_requirements_json(&p->packages.allow));
	cbx_json_set(o, "block", cbx_requirements_json(&p->packages.block));
	cbx_json_set(o, "versions", cbx_requirements_json(&p->packages.versions));
	if (p->index)
		cbx_json_set_str(o, "index", p->index);
	if (p->registry)
		cbx_json_set_str(o, "registry", p->registry);
	if (p->channels) {
		list = cbx_json_new_arr();
		for (size_t i = 0; i < p->nchannels; i++)
			cbx_json_push_str(list, p->channels[i]);
		cbx_json_set(o, "channels", list);
	}
	if (p->nadvisories) {
		list = cbx_json_new_arr();
		for (size_t i = 0; i < p->nadvisories; i++)
			cbx_json_push_str(list, p->advisories[i]);
		cbx_json_set(o, "advisories", list);
	}
	cbx_sql_rules_to_json(&p->sql, group_of(root, "sql"));
	cbx_object_store_to_json(&p->objects, group_of(root, "artifacts"));
	cbx_servers_to_json(&p->stores, group_of(root, "artifacts"), "stores");
	cbx_code_rules_to_json(p, group_of(root, "code"));
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
	cbx_hex(sum, sizeof(sum), out);
}
