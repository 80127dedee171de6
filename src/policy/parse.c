/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a file is laid over what is there already, member by member: over the built-in values, or over
 * those of the files that it includes. So the order is built-in, included files in their order, the file itself; the
 * last one that says something about a setting wins, and is remembered as its origin. Lists are replaced as a whole,
 * environment variables one by one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "packages/conda.h"
#include "policy/hostpath.h"
#include "policy/policy.h"
#include "policy/source.h"

struct layer {
	struct cbx_policy *policy;
	const struct cbx_source *source;
	uint32_t file;
	bool included;
	cbx_policy_read_fn read;
	void *arg;
};

typedef int (*member_fn)(const struct layer *l, const cJSON *v, struct cbx_err *err);

static struct cbx_origin origin_of(const struct layer *l, const cJSON *node)
{
	struct cbx_origin o = { .file = l->file };
	uint32_t column;

	cbx_source_place(l->source, node, &o.line, &column);
	return o;
}

/* ---- settings of the table ---- */

/* "50%": that part of the machine's memory, as far as the setting allows it. */
static bool parse_part(enum cbx_key key, const cJSON *v, uint64_t *ret)
{
	const char *s = cJSON_IsString(v) ? v->valuestring : "";
	size_t digits = strspn(s, "0123456789");
	uint64_t part = strtoull(s, NULL, 10);

	if (!cbx_keys[key].part || !digits || digits > 3 || strcmp(s + digits, "%") != 0 || !part || part > 100)
		return false;
	*ret = cbx_key_part(key, (unsigned)part);
	return true;
}

static int parse_value(const struct layer *l, enum cbx_key key, const cJSON *v, uint64_t *ret, struct cbx_err *err)
{
	if (parse_part(key, v, ret))
		return 0;
	return cbx_key_parse(key, v, ret, err) < 0 ? cbx_source_wrap(l->source, v, err) : 0;
}

/* {"default": …, "max": …} */
static int parse_range(const struct layer *l, enum cbx_key key, const cJSON *obj, struct cbx_policy_value *value,
		       struct cbx_err *err)
{
	const char *name = cbx_keys[key].name;
	const cJSON *v, *standard = NULL;
	uint64_t part;

	if (cbx_keys[key].server_only)
		return cbx_source_refuse(l->source, obj, err, "%s: wrong type; it has one value", name);
	cJSON_ArrayForEach(v, obj) {
		bool is_max = strcmp(v->string, "max") == 0;

		if (!is_max && strcmp(v->string, "default") != 0)
			return cbx_source_refuse(l->source, v, err,
						 "unknown key \"%.80s\" in \"%s\"; accepted are: default, max",
						 v->string, name);
		if (parse_value(l, key, v, is_max ? &value->ceiling : &value->standard, err) < 0)
			return -err->code;
		*(is_max ? &value->ceiling_from : &value->standard_from) = origin_of(l, v);
		if (!is_max)
			standard = v;
	}
	/* What follows the machine may be less than the default: then that is lowered. */
	v = cbx_json_member(obj, "max");
	if (v && parse_part(key, v, &part))
		standard = NULL;
	if (standard && cbx_key_lower(key, value->standard, value->ceiling) != value->standard) {
		char is[48], most[48];

		cbx_key_format(key, value->standard, is);
		cbx_key_format(key, value->ceiling, most);
		return cbx_source_refuse(l->source, standard, err,
					 "%s: the default, %s, is above what is allowed (max: %s)", name, is, most);
	}
	return 0;
}

static int parse_setting(const struct layer *l, enum cbx_key key, const cJSON *v, struct cbx_err *err)
{
	struct cbx_policy_value *value = &l->policy->values[key];

	if (cJSON_IsObject(v) && v->child) {
		if (parse_range(l, key, v, value, err) < 0)
			return -err->code;
	} else {
		if (parse_value(l, key, v, &value->standard, err) < 0)
			return -err->code;
		value->ceiling = value->standard;
		value->standard_from = value->ceiling_from = origin_of(l, v);
	}
	/* A ceiling that came later than the default. */
	if (cbx_key_lower(key, value->standard, value->ceiling) != value->standard) {
		value->standard = value->ceiling;
		value->standard_from = value->ceiling_from;
	}
	return 0;
}

static int unknown_key(const struct layer *l, const cJSON *v, const char *group, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf names = { 0 };

	for (enum cbx_key k = 0; k < CBX_KEYS; k++)
		if (strcmp(cbx_keys[k].group, group) == 0)
			cbx_buf_addf(&names, "%s%s", names.len ? ", " : "", cbx_keys[k].name);
	if (strcmp(group, "mounts") == 0)
		cbx_buf_addf(&names, "%sallow", names.len ? ", " : "");
	if (strcmp(group, "packages") == 0)
		cbx_buf_adds(&names, ", allow, block, versions, index, registry, channels, advisories");
	if (strcmp(group, "sql") == 0)
		cbx_buf_adds(&names, ", connections, allow, servers");
	if (strcmp(group, "artifacts") == 0)
		cbx_buf_adds(&names, ", store, stores");
	if (strcmp(group, "code") == 0)
		cbx_code_rules_names(&names);
	return cbx_source_refuse(l->source, v, err, "unknown key \"%.80s\" in \"%s\"; accepted are: %s", v->string,
				 group, cbx_buf_str(&names));
}

/* A member of a group: true when the table has it, and *r is how that went. */
static bool parse_tabled(const struct layer *l, const char *group, const cJSON *v, int *r, struct cbx_err *err)
{
	for (enum cbx_key k = 0; k < CBX_KEYS; k++) {
		if (strcmp(cbx_keys[k].group, group) == 0 && strcmp(cbx_keys[k].name, v->string) == 0) {
			*r = parse_setting(l, k, v, err);
			return true;
		}
	}
	return false;
}

/* A member of a group that is read elsewhere. */
static int parse_elsewhere(const struct layer *l, const char *group, const cJSON *v, struct cbx_err *err)
{
	struct cbx_policy *p = l->policy;
	bool sql = strcmp(group, "sql") == 0;
	struct cbx_origin *from = &p->sql_from;
	const cJSON *bad = v;
	int r;

	if (sql && strcmp(v->string, "connections") == 0) {
		r = cbx_sql_connections_parse(v, &p->sql, &bad, err);
	} else if (sql && strcmp(v->string, "allow") == 0) {
		r = cbx_sql_allow_parse(v, &p->sql, &bad, err);
	} else if (sql && strcmp(v->string, "servers") == 0) {
		r = cbx_servers_parse(v, &p->sql.servers, &bad, err);
	} else if (strcmp(group, "artifacts") == 0 && strcmp(v->string, "store") == 0) {
		from = &p->objects_from;
		r = cbx_object_store_parse(v, &p->objects, &bad, err);
	} else if (strcmp(group, "artifacts") == 0 && strcmp(v->string, "stores") == 0) {
		from = &p->objects_from;
		r = cbx_servers_parse(v, &p->stores, &bad, err);
	} else if (strcmp(group, "code") == 0 && cbx_code_rules_has(v->string)) {
		from = &p->code_from;
		r = cbx_code_rules_parse(v, &p->code, &bad, err);
	} else {
		return unknown_key(l, v, group, err);
	}
	if (r < 0)
		return cbx_source_wrap(l->source, bad, err);
	*from = origin_of(l, v);
	return 0;
}

static int parse_group(const struct layer *l, const cJSON *obj, struct cbx_err *err)
{
	const cJSON *v;
	int r = 0;

	if (!cJSON_IsObject(obj))
		return cbx_source_refuse(l->source, obj, err, "%s: wrong type; give an object", obj->string);
	cJSON_ArrayForEach(v, obj) {
		if (!parse_tabled(l, obj->string, v, &r, err))
			r = parse_elsewhere(l, obj->string, v, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- what is not a setting ---- */

static int parse_network(const struct layer *l, const cJSON *v, struct cbx_err *err)
{
	struct cbx_network network;
	const cJSON *bad;

	if (cbx_network_parse(v, &network, &bad, err) < 0)
		return cbx_source_wrap(l->source, bad, err);
	cbx_network_release(&l->policy->network);
	l->policy->network = network;
	l->policy->network_from = origin_of(l, v);
	return 0;
}

static void free_images(struct cbx_policy *p)
{
	for (size_t i = 0; i < p->nimages; i++)
		free(p->images[i]);
	free(p->images);
	p->images = NULL;
	p->nimages = 0;
}

static int parse_images(const struct layer *l, const cJSON *list, struct cbx_err *err)
{
	struct cbx_policy *p = l->policy;
	const cJSON *v;

	if (!cJSON_IsArray(list) || !list->child)
		return cbx_source_refuse(
			l->source, list, err,
			"images: give a list of names, at least one; without this key all images are allowed");
	free_images(p);
	p->images_from = origin_of(l, list);
	cJSON_ArrayForEach(v, list) {
		if (!cJSON_IsString(v) || !cbx_name_valid(v->valuestring))
			return cbx_source_refuse(l->source, v, err, "images: give names of images");
		if (p->nimages == CBX_POLICY_LIST_MAX)
			return cbx_source_refuse(l->source, v, err, "images: too many; up to %d are allowed",
						 CBX_POLICY_LIST_MAX);
		p->images = cbx_xrealloc(p->images, (p->nimages + 1) * sizeof(*p->images));
		p->images[p->nimages++] = cbx_xstrdup(v->valuestring);
	}
	return 0;
}

static void free_mounts(struct cbx_policy *p)
{
	for (size_t i = 0; i < p->nmounts; i++)
		free(p->mounts[i].path);
	free(p->mounts);
	p->mounts = NULL;
	p->nmounts = 0;
}

static int parse_allowed(const struct layer *l, const cJSON *obj, struct cbx_err *err)
{
	struct cbx_policy *p = l->policy;
	const cJSON *v, *path = NULL;
	const char *never;
	bool writable = false;

	if (!cJSON_IsObject(obj))
		return cbx_source_refuse(l->source, obj, err, "mounts: give objects, as in {\"path\": \"/srv/data\"}");
	cJSON_ArrayForEach(v, obj) {
		if (strcmp(v->string, "path") == 0)
			path = v;
		else if (strcmp(v->string, "writable") != 0)
			return cbx_source_refuse(l->source, v, err,
						 "unknown key \"%.80s\" in \"allow\"; accepted are: path, writable",
						 v->string);
		else if (cJSON_IsBool(v))
			writable = cJSON_IsTrue(v);
		else
			return cbx_source_refuse(l->source, v, err, "writable: wrong type; give true or false");
	}
	if (!path || !cJSON_IsString(path) || !cbx_path_clean(path->valuestring))
		return cbx_source_refuse(l->source, path ? path : obj, err,
					 "mounts: path: give an absolute path without \".\", \"..\" and empty parts");
	never = cbx_hostpath_refused(path->valuestring);
	if (never)
		return cbx_source_refuse(
			l->source, path, err,
			"mounts: path: the directory is, holds or is in %s, which is never shown in a sandbox", never);
	if (p->nmounts == CBX_POLICY_LIST_MAX)
		return cbx_source_refuse(l->source, obj, err, "mounts: too many; up to %d are allowed",
					 CBX_POLICY_LIST_MAX);
	p->mounts = cbx_xrealloc(p->mounts, (p->nmounts + 1) * sizeof(*p->mounts));
	p->mounts[p->nmounts++] = (struct cbx_policy_mount){ cbx_xstrdup(path->valuestring), writable };
	return 0;
}

static int parse_allow(const struct layer *l, const cJSON *list, struct cbx_err *err)
{
	const cJSON *v;
	int r;

	if (!cJSON_IsArray(list))
		return cbx_source_refuse(l->source, list, err, "allow: give a list, as in [{\"path\": \"/srv/data\"}]");
	free_mounts(l->policy);
	l->policy->mounts_from = origin_of(l, list);
	cJSON_ArrayForEach(v, list)
		if ((r = parse_allowed(l, v, err)) < 0)
			return r;
	return 0;
}

static int parse_mounts(const struct layer *l, const cJSON *obj, struct cbx_err *err)
{
	const cJSON *v;
	int r = 0;

	if (!cJSON_IsObject(obj))
		return cbx_source_refuse(l->source, obj, err, "mounts: wrong type; give an object");
	cJSON_ArrayForEach(v, obj) {
		if (strcmp(v->string, "allow") == 0)
			r = parse_allow(l, v, err);
		else if (!parse_tabled(l, "mounts", v, &r, err))
			return unknown_key(l, v, "mounts", err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int parse_rules(const struct layer *l, const cJSON *list, struct cbx_requirements *ret, struct cbx_err *err)
{
	struct cbx_requirement q;
	const cJSON *v;

	if (!cJSON_IsArray(list))
		return cbx_source_refuse(l->source, list, err, "%s: give a list, as in [\"numpy>=1.26\"]", list->string);
	cbx_requirements_release(ret);
	cJSON_ArrayForEach(v, list) {
		if (!cJSON_IsString(v) || cbx_requirement_rule(v->valuestring, &q, err) < 0)
			return cbx_source_refuse(l->source, v, err,
						 "%s: give names of packages, with versions if needed, as in "
						 "\"numpy>=1.26\"",
						 list->string);
		if (ret->n == CBX_POLICY_PACKAGES_MAX)
			return cbx_source_refuse(l->source, v, err, "%s: too many; up to %d are allowed", list->string,
						 CBX_POLICY_PACKAGES_MAX);
		cbx_requirements_add(ret, q.name, q.specifiers);
	}
	return 0;
}

/* registry: of npm, which is an address. */
static int parse_index(const struct layer *l, const cJSON *v, bool registry, struct cbx_err *err)
{
	char **to = registry ? &l->policy->registry : &l->policy->index;
	const char *s = cJSON_IsString(v) ? v->valuestring : "";
	bool address = (cbx_starts_with(s, "https://") || cbx_starts_with(s, "http://")) && !strpbrk(s, "@ ?#");

	if ((!address && (registry || !cbx_path_clean(s))) || !cbx_plain(s) || strlen(s) > 500)
		return cbx_source_refuse(l->source, v, err, "%s: give the address of a %s, without a password%s",
					 v->string, registry ? "registry of npm packages" : "simple index",
					 registry ? "" : ", or the absolute path of a directory of wheels");
	free(*to);
	*to = cbx_xasprintf("%s%s", s, address && !cbx_ends_with(s, "/") ? "/" : "");
	return 0;
}

static int parse_advisories(const struct layer *l, const cJSON *list, struct cbx_err *err)
{
	const cJSON *v;

	if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) > CBX_ADVISORIES_MAX)
		return cbx_source_refuse(l->source, list, err,
					 "advisories: give a list of at most %d paths, as in [\"/srv/osv/PyPI\"]",
					 CBX_ADVISORIES_MAX);
	cbx_policy_clear_advisories(l->policy);
	cJSON_ArrayForEach(v, list) {
		if (!cJSON_IsString(v) || !cbx_path_clean(v->valuestring) || !cbx_plain(v->valuestring) ||
		    strlen(v->valuestring) > 500)
			return cbx_source_refuse(
				l->source, v, err,
				"advisories: give the absolute path of a file or directory in the OSV format");
		cbx_policy_add_advisories(l->policy, v->valuestring);
	}
	return 0;
}

static int parse_channels(const struct layer *l, const cJSON *list, struct cbx_err *err)
{
	const cJSON *v;

	if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) > CBX_CHANNELS_MAX)
		return cbx_source_refuse(
			l->source, list, err,
			"channels: give a list of at most %d channels of conda, as in [\"conda-forge\"]",
			CBX_CHANNELS_MAX);
	cbx_policy_clear_channels(l->policy);
	l->policy->channels = cbx_xcalloc(1, sizeof(*l->policy->channels)); /* not NULL: an empty list is one */
	cJSON_ArrayForEach(v, list) {
		_cleanup_free_ char *address = cJSON_IsString(v) ? cbx_conda_channel(v->valuestring) : NULL;

		if (!address)
			return cbx_source_refuse(l->source, v, err,
						 "channels: give the name of a channel, as in \"conda-forge\", or its "
						 "address, without a password");
		cbx_policy_add_channel(l->policy, address);
	}
	return 0;
}

static int parse_packages(const struct layer *l, const cJSON *obj, struct cbx_err *err)
{
	struct cbx_package_rules *rules = &l->policy->packages;
	const cJSON *v;
	int r = 0;

	if (!cJSON_IsObject(obj))
		return cbx_source_refuse(l->source, obj, err, "packages: wrong type; give an object");
	cJSON_ArrayForEach(v, obj) {
		if (parse_tabled(l, "packages", v, &r, err)) {
			if (r < 0)
				return r;
			continue;
		}
		l->policy->packages_from = origin_of(l, v);
		if (strcmp(v->string, "allow") == 0) {
			rules->only = true;
			r = parse_rules(l, v, &rules->allow, err);
		} else if (strcmp(v->string, "block") == 0) {
			r = parse_rules(l, v, &rules->block, err);
		} else if (strcmp(v->string, "versions") == 0) {
			r = parse_rules(l, v, &rules->versions, err);
		} else if (strcmp(v->string, "index") == 0 || strcmp(v->string, "registry") == 0) {
			r = parse_index(l, v, v->string[0] == 'r', err);
		} else if (strcmp(v->string, "channels") == 0) {
			r = parse_channels(l, v, err);
		} else if (strcmp(v->string, "advisories") == 0) {
			r = parse_advisories(l, v, err);
		} else {
			r = unknown_key(l, v, "packages", err);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

static int parse_environment(const struct layer *l, const cJSON *obj, struct cbx_err *err)
{
	const cJSON *v, *bad = NULL;

	if (cbx_environment_check(obj, &bad, err) < 0)
		return cbx_source_wrap(l->source, bad, err);
	cJSON_ArrayForEach(v, obj)
		cbx_environment_set(&l->policy->environment, v->string, v->valuestring);
	if (cbx_environment_fits(&l->policy->environment, err) < 0) /* with those of included files */
		return cbx_source_wrap(l->source, obj, err);
	l->policy->environment_from = origin_of(l, obj);
	return 0;
}

/* ---- files ---- */

static int lay(struct cbx_policy *p, const char *text, size_t len, const char *label, bool included,
	       cbx_policy_read_fn read, void *arg, struct cbx_err *err);

static int include_one(const struct layer *l, const cJSON *v, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	_cleanup_free_ char *label = NULL;

	if (!cJSON_IsString(v) || !v->valuestring[0])
		return cbx_source_refuse(l->source, v, err, "include: give the name of a file, or of a shipped policy");
	if (!l->read)
		return cbx_source_refuse(l->source, v, err, "include: nothing can be included here");
	if (l->read(l->arg, v->valuestring, &text, &label, err) < 0)
		return cbx_source_wrap(l->source, v, err);
	return lay(l->policy, cbx_buf_str(&text), text.len, label, true, NULL, NULL, err);
}

static int include(const struct layer *l, const cJSON *list, struct cbx_err *err)
{
	const cJSON *v;
	int r;

	if (l->included)
		return cbx_source_refuse(l->source, list, err, "include: an included file may not include others");
	if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) > CBX_POLICY_INCLUDES_MAX)
		return cbx_source_refuse(l->source, list, err, "include: give a list of at most %d names",
					 CBX_POLICY_INCLUDES_MAX);
	cJSON_ArrayForEach(v, list)
		if ((r = include_one(l, v, err)) < 0)
			return r;
	return 0;
}

static int ignore(const struct layer *l, const cJSON *v, struct cbx_err *err)
{
	return cJSON_IsString(v) ? 0 : cbx_source_refuse(l->source, v, err, "$schema: wrong type; give a string");
}

static const struct {
	const char *name;
	member_fn fn;
} members[] = {
	{ "$schema", ignore }, /* for editors */
	{ "include", include },	    { "network", parse_network },	  { "images", parse_images },
	{ "mounts", parse_mounts }, { "environment", parse_environment }, { "packages", parse_packages },
	{ "sql", parse_group },	    { "artifacts", parse_group },
};

static int parse_member(const struct layer *l, const cJSON *v, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf names = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		if (strcmp(members[i].name, v->string) == 0)
			return members[i].fn == include ? 0 : members[i].fn(l, v, err);
		cbx_buf_addf(&names, "%s%s", i ? ", " : "", members[i].name);
	}
	for (enum cbx_key k = 0; k < CBX_KEYS; k++) {
		if (strcmp(cbx_keys[k].group, v->string) == 0)
			return parse_group(l, v, err);
		if ((!k || strcmp(cbx_keys[k].group, cbx_keys[k - 1].group) != 0) &&
		    strcmp(cbx_keys[k].group, "mounts") != 0 && strcmp(cbx_keys[k].group, "packages") != 0 &&
		    strcmp(cbx_keys[k].group, "sql") != 0 && strcmp(cbx_keys[k].group, "artifacts") != 0)
			cbx_buf_addf(&names, ", %s", cbx_keys[k].group);
	}
	return cbx_source_refuse(l->source, v, err, "unknown key \"%.80s\"; accepted are: %s", v->string,
				 cbx_buf_str(&names));
}

static int lay(struct cbx_policy *p, const char *text, size_t len, const char *label, bool included,
	       cbx_policy_read_fn read, void *arg, struct cbx_err *err)
{
	struct cbx_source source;
	struct layer l = { .policy = p, .source = &source, .included = included, .read = read, .arg = arg };
	const cJSON *v;
	int r = cbx_source_open(&source, label, text, len, err);

	if (r < 0)
		return r;
	l.file = (uint32_t)p->nfiles;
	p->files = cbx_xrealloc(p->files, (p->nfiles + 1) * sizeof(*p->files));
	p->files[p->nfiles++] = cbx_xstrdup(label);
	if (!cJSON_IsObject(source.doc.root))
		r = cbx_source_refuse(&source, source.doc.root, err, "wrong type; wrong type; a policy is an object");
	/* Wherever it stands, what is included is below what this file says. */
	v = r < 0 ? NULL : cbx_json_member(source.doc.root, "include");
	if (v)
		r = include(&l, v, err);
	if (r >= 0)
		cJSON_ArrayForEach(v, source.doc.root)
			if ((r = parse_member(&l, v, err)) < 0)
				break;
	cbx_source_release(&source);
	return r;
}

struct cbx_policy *cbx_policy_ref(struct cbx_policy *p)
{
	p->refs++;
	return p;
}

void cbx_policy_free(struct cbx_policy *p)
{
	if (!p || --p->refs)
		return;
	for (size_t i = 0; i < p->nfiles; i++)
		free(p->files[i]);
	free(p->files);
	free_images(p);
	free_mounts(p);
	cbx_network_release(&p->network);
	cbx_requirements_release(&p->packages.allow);
	cbx_requirements_release(&p->packages.block);
	cbx_requirements_release(&p->packages.versions);
	free(p->index);
	free(p->registry);
	cbx_policy_clear_advisories(p);
	cbx_policy_clear_channels(p);
	cbx_sql_rules_release(&p->sql);
	cbx_object_store_release(&p->objects);
	cbx_servers_release(&p->stores);
	cbx_code_rules_release(&p->code);
	cbx_environment_release(&p->environment);
	free(p->name);
	free(p);
}

int cbx_policy_parse(const char *text, size_t len, const char *name, const char *label, cbx_policy_read_fn read,
		     void *arg, struct cbx_policy **ret, struct cbx_err *err)
{
	struct cbx_policy *p = cbx_policy_new(name);
	int r = lay(p, text, len, label, false, read, arg, err);

	if (r < 0) {
		cbx_policy_free(p);
		return r;
	}
	cbx_policy_digest(p, p->digest);
	*ret = p;
	return 0;
}
