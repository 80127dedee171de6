/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: the schema is made from the table of keys, so that editors know what the parser knows. What only
 * the parser can say (that a default is not above its maximum, sizes in strings) it leaves to the parser. */
#include "base/cleanup.h"
#include "base/limits.h"
#include "policy/policy.h"

static cJSON *typed(const char *type, const char *text)
{
	cJSON *o = cbx_json_new_obj();

	if (text)
		cbx_json_set_str(o, "description", text);
	cbx_json_set_str(o, "type", type);
	return o;
}

static cJSON *object(const char *text, cJSON *properties)
{
	cJSON *o = typed("object", text);

	if (properties)
		cbx_json_set(o, "properties", properties);
	cbx_json_set_bool(o, "additionalProperties", false);
	return o;
}

static cJSON *list(const char *text, cJSON *items, uint64_t min, uint64_t max)
{
	cJSON *o = typed("array", text);

	cbx_json_set(o, "items", items);
	if (min)
		cbx_json_set_u64(o, "minItems", min);
	cbx_json_set_u64(o, "maxItems", max);
	return o;
}

static cJSON *setting(enum cbx_key key)
{
	cJSON *o, *either, *range;

	if (cbx_keys[key].server_only) {
		o = cbx_key_schema_strict(key);
		cbx_json_set_str(o, "description", cbx_keys[key].text);
		return o;
	}
	o = cbx_json_new_obj();
	either = cbx_json_new_arr();
	range = cbx_json_new_obj();
	cbx_json_set_str(o, "description", cbx_keys[key].text);
	cbx_json_push(either, cbx_key_schema_strict(key));
	cbx_json_set(range, "default", cbx_key_schema_strict(key));
	cbx_json_set(range, "max", cbx_key_schema_strict(key));
	range = object(NULL, range);
	cbx_json_set_u64(range, "minProperties", 1);
	cbx_json_push(either, range);
	cbx_json_set(o, "anyOf", either);
	return o;
}

static cJSON *name_items(void)
{
	cJSON *o = typed("string", NULL);

	cbx_json_set_str(o, "pattern", "^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$");
	return o;
}

static cJSON *environment(void)
{
	cJSON *o = typed("object", "Variables of every session; a request cannot change them"),
	      *names = cbx_json_new_obj();

	cbx_json_set_str(names, "pattern", "^(?!CODEBOX_)[A-Za-z_][A-Za-z0-9_]{0,98}$");
	cbx_json_set(o, "propertyNames", names);
	cbx_json_set(o, "additionalProperties", typed("string", NULL));
	cbx_json_set_u64(o, "maxProperties", CBX_VARIABLES_MAX);
	return o;
}

static void add_mounts(cJSON *properties)
{
	cJSON *group = cbx_json_member(properties, "mounts"), *one = cbx_json_new_obj(), *path,
	      *required;

	if (!group) {
		group = object(NULL, cbx_json_new_obj());
		cbx_json_set(properties, "mounts", group);
	}
	path = typed("string", NULL);
	cbx_json_set_str(path, "pattern", "^(/[^/]+)+$");
	cbx_json_set(one, "path", path);
	cbx_json_set(one, "writable", typed("boolean", NULL));
	one = object(NULL, one);
	required = cbx_json_new_arr();
	cbx_json_push_str(required, "path");
	cbx_json_set(one, "required", required);
	cbx_json_set(cbx_json_member(group, "properties"), "allow",
		     list("Directories of the machine in which sessions may ask for mounts; read-only unless writable",
			  one, 0, CBX_POLICY_LIST_MAX));
}

static void add_packages(cJSON *properties)
{
	static const struct {
		const char *name, *text;
	} lists[] = { { "allow", "Packages that may be installed, with versions if needed, those of npm as npm:NAME, "
				 "of conda as conda:NAME; "
				 "if omitted, all" },
		      { "block", "Packages that may not be installed, in any version or in those named" },
		      { "versions", "Versions that packages of these names must have" } };
	cJSON *group = cbx_json_member(cbx_json_member(properties, "packages"),
							"properties"),
	      *index = typed("string", "Where packages come from: the address of a simple index, or a directory of wheels");

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		cJSON *one = typed("string", NULL);

		cbx_json_set_str(one, "pattern", "^ *([A-Za-z0-9][A-Za-z0-9._-]* *[^;@:/\\[]*|npm:[^:]+|conda:[^:]+)$");
		cbx_json_set(group, lists[i].name, list(lists[i].text, one, 0, CBX_POLICY_PACKAGES_MAX));
	}
	cbx_json_set_str(index, "pattern", "^(https?://[^@ ?#]+|(/[^/]+)+)$");
	cbx_json_set(group, "index", index);
	index = typed("string", "Where packages of npm come from: the address of a registry");
	cbx_json_set_str(index, "pattern", "^https?://[^@ ?#]+$");
	cbx_json_set(group, "registry", index);
	index = typed("string", NULL);
	cbx_json_set_str(index, "pattern", "^(https?://)?[A-Za-z0-9][A-Za-z0-9_./-]*(:[0-9]+[A-Za-z0-9_./-]*)?$");
	cbx_json_set(group, "channels",
		     list("Channels that packages of conda come from, by name or address, the first asked first; if "
			  "omitted, none",
			  index, 0, CBX_CHANNELS_MAX));
	index = typed("string", NULL);
	cbx_json_set_str(index, "pattern", "^(/[^/]+)+$");
	cbx_json_set(group, "advisories",
		     list("Files and directories of advisories in the OSV format", index, 0, CBX_ADVISORIES_MAX));
}

cJSON *cbx_policy_schema(void)
{
	cJSON *p = cbx_json_new_obj(), *root;

	cbx_json_set(p, "$schema", typed("string", "For editors"));
	cbx_json_set(p, "include",
		     list("Policies that this one is laid over: names of shipped ones, or paths from this file",
			  typed("string", NULL), 0, CBX_POLICY_INCLUDES_MAX));
	for (enum cbx_key k = 0; k < CBX_KEYS; k++) {
		const char *group = cbx_keys[k].group;
		cJSON *o = cbx_json_member(p, group);

		if (!o) {
			o = object(NULL, cbx_json_new_obj());
			cbx_json_set(p, group, o);
		}
		cbx_json_set(cbx_json_member(o, "properties"), cbx_keys[k].name, setting(k));
	}
	cbx_json_set(p, "network", cbx_network_schema());
	cbx_json_set(p, "images",
		     list("Images that sessions may have; if omitted, all. The first is the default", name_items(), 1,
			  CBX_POLICY_LIST_MAX));
	add_mounts(p);
	add_packages(p);
	cbx_sql_rules_schema(
		cbx_json_member(cbx_json_member(p, "sql"), "properties"));
	cbx_object_store_schema(
		cbx_json_member(cbx_json_member(p, "artifacts"), "properties"));
	cbx_code_rules_schema(
		cbx_json_member(cbx_json_member(p, "code"), "properties"));
	cbx_json_set(p, "environment", environment());
	root = cbx_json_new_obj();
	cbx_json_set_str(root, "$schema", "https://json-schema.org/draft/2020-12/schema");
	cbx_json_set_str(root, "title", "codebox policy");
	cbx_json_set_str(root, "description", "See codebox-policy(5). Comments are allowed in policy files");
	cbx_json_set_str(root, "type", "object");
	cbx_json_set(root, "properties", p);
	cbx_json_set_bool(root, "additionalProperties", false);
	return root;
}
