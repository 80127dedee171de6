/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a rule is a list of words. "commands", "magics" and "names" have what is allowed, "builtins" and
 * "imports" what is not; so of two policies the shorter of the former and the longer of the latter is the stricter. A
 * list that no file gives is the one below. What may be installed is not said twice: "packages" of the policy says it.
 */
#include "policy/code.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "policy/policy.h"

static const struct list {
	const char *name, *rule, *text;
	bool refused; /* what it has is refused, else allowed */
} lists[] = {
	{ "commands", "jupyter_commands", "Programs that a cell may start by \\\"!\\\"", false },
	{ "magics", "jupyter_commands", "Magics that a cell may use, without \\\"%\\\"", false },
	{ "builtins", "dangerous_builtins", "Built-in functions that a cell may not use", true },
	{ "imports", "dangerous_imports", "Modules that a cell may not import, with all that is in them", true },
	{ "names", "dangerous_patterns", "Names with two underscores at both ends that a cell may use", false },
};

/* clang-format off */
#define JSON(...) #__VA_ARGS__
static const char standard[] = JSON({
"commands":["pip","pip3","conda","uv","jupyter","python","python3","pytest","black","flake8","mypy","curl","wget"],
"magics":["capture","cd","conda","config","env","html","latex","markdown","matplotlib","pdef","pdoc","pfile","pinfo","pinfo2",
"pip","pprint","precision","prun","psearch","psource","pwd","sql","svg","sx","system","time","timeit","uv","who",
"who_ls","whos","writefile","xmode"],
"builtins":["eval","exec","globals","locals","compile","__import__"],
"imports":["sys","subprocess","multiprocessing","socket","pickle","marshal","shelve","pty","pdb","os","posix","ctypes",
"importlib","builtins","runpy","code","codeop","_ctypes","_pickle","_posixsubprocess","_socket"],
"names":["__add__","__aenter__","__aexit__","__aiter__","__all__","__anext__","__annotations__","__author__","__bool__",
"__call__","__contains__","__copy__","__deepcopy__","__delitem__","__doc__","__enter__","__eq__","__exit__","__file__",
"__format__","__future__","__ge__","__getitem__","__gt__","__hash__","__init__","__iter__","__le__","__len__","__lt__",
"__main__","__missing__","__mul__","__name__","__ne__","__neg__","__new__","__next__","__post_init__","__repr__",
"__setitem__","__slots__","__str__","__sub__","__version__"]});
/* clang-format on */

static const struct list *list_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		if (strcmp(lists[i].name, name) == 0)
			return &lists[i];
	return NULL;
}

bool cbx_code_rules_has(const char *key)
{
	return list_of(key);
}

void cbx_code_rules_names(struct cbx_buf *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		cbx_buf_addf(out, ", %s", lists[i].name);
}

static bool has_word(const cJSON *list, const char *word)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, list)
		if (strcmp(v->valuestring, word) == 0)
			return true;
	return false;
}

int cbx_code_rules_parse(const cJSON *v, struct cbx_code_rules *rules, const cJSON **ret_bad, struct cbx_err *err)
{
	_cleanup_json_ cJSON *words = cbx_json_new_arr();
	const cJSON *word;

	*ret_bad = v;
	if (!cJSON_IsArray(v) || cJSON_GetArraySize(v) > CBX_POLICY_LIST_MAX)
		return cbx_refuse(err, "invalid_policy", EINVAL, "%s: give a list of up to %d names", v->string,
				  CBX_POLICY_LIST_MAX);
	cJSON_ArrayForEach(word, v) {
		const char *s = cJSON_IsString(word) ? word->valuestring : "";

		*ret_bad = word;
		if (!s[0] || strlen(s) > 64 ||
		    s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				"0123456789_.+-/")])
			return cbx_refuse(err, "invalid_policy", EINVAL,
					  "%s: give names of 1 to 64 letters, digits and \"_.+-/\"", v->string);
		if (!has_word(words, s))
			cbx_json_push_str(words, s);
	}
	if (!rules->lists)
		rules->lists = cbx_json_new_obj();
	cJSON_DeleteItemFromObjectCaseSensitive(rules->lists, v->string);
	cbx_json_set(rules->lists, v->string, take_ptr(&words));
	return 0;
}

void cbx_code_rules_release(struct cbx_code_rules *rules)
{
	cJSON_Delete(take_ptr(&rules->lists));
}

void cbx_code_rules_schema(cJSON *properties)
{
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		_cleanup_free_ char *text = cbx_xasprintf(
			"{\"type\":\"array\",\"maxItems\":%d,\"description\":\"%s\",\"items\":{\"type\":\"string\","
			"\"pattern\":\"^[A-Za-z0-9_.+/-]{1,64}$\"}}",
			CBX_POLICY_LIST_MAX, lists[i].text);

		cbx_json_set(properties, lists[i].name, cJSON_Parse(text));
	}
}

/* ---- what is in force, and the lower of two ---- */

/* What a policy says by one of them; NULL: nothing. all: what is built in stands by those that have none. */
static const cJSON *said(const struct cbx_policy *p, const char *name, const cJSON *all)
{
	const cJSON *words = cbx_json_member(p->code.lists, name);

	return words || !p->values[CBX_KEY_CODE_RULES].standard ? words : cbx_json_member(all, name);
}

void cbx_code_rules_to_json(const struct cbx_policy *p, cJSON *group)
{
	_cleanup_json_ cJSON *all = cJSON_Parse(standard);

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		const cJSON *words = said(p, lists[i].name, all);

		if (words)
			cbx_json_set(group, lists[i].name, cJSON_Duplicate(words, 1));
	}
}

static cJSON *both(const struct list *l, const cJSON *a, const cJSON *b)
{
	cJSON *words = cbx_json_new_arr();
	const cJSON *v;

	cJSON_ArrayForEach(v, a)
		if (l->refused || has_word(b, v->valuestring))
			cbx_json_push_str(words, v->valuestring);
	if (l->refused)
		cJSON_ArrayForEach(v, b)
			if (!has_word(a, v->valuestring))
				cbx_json_push_str(words, v->valuestring);
	return words;
}

void cbx_code_rules_narrow(struct cbx_code_rules *ret, const struct cbx_policy *wide, const struct cbx_policy *narrow)
{
	_cleanup_json_ cJSON *all = cJSON_Parse(standard);

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		const cJSON *a = said(wide, lists[i].name, all), *b = said(narrow, lists[i].name, all);

		if (!a && !b)
			continue;
		if (!ret->lists)
			ret->lists = cbx_json_new_obj();
		cbx_json_set(ret->lists, lists[i].name, a && b ? both(&lists[i], a, b) : cJSON_Duplicate(a ? a : b, 1));
	}
}

/* ---- for the judge ---- */

static bool left_out(const struct cbx_policy *p, const char *rule, const cJSON *without)
{
	const cJSON *v;

	if (p->values[CBX_KEY_CODE_RULES].ceiling) /* whoever asks has no say */
		return false;
	cJSON_ArrayForEach(v, without)
		if (strcmp(v->valuestring, "all") == 0 || strcmp(v->valuestring, rule) == 0)
			return true;
	return false;
}

static cJSON *packages_of(const struct cbx_package_rules *rules)
{
	cJSON *o = cbx_json_new_obj();

	if (rules->only)
		cbx_json_set(o, "allow", cbx_requirements_json(&rules->allow));
	cbx_json_set(o, "block", cbx_requirements_json(&rules->block));
	cbx_json_set(o, "versions", cbx_requirements_json(&rules->versions));
	return o;
}

cJSON *cbx_code_rules_frame(const struct cbx_policy *p, const cJSON *without)
{
	_cleanup_json_ cJSON *all = cJSON_Parse(standard);
	cJSON *o = cbx_json_new_obj();

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		cJSON *rule = cbx_json_member(o, lists[i].rule);
		const cJSON *words = cbx_json_member(p->code.lists, lists[i].name);

		if (left_out(p, lists[i].rule, without))
			continue;
		if (!rule) {
			rule = cbx_json_new_obj();
			cbx_json_set(o, lists[i].rule, rule);
		}
		if (!words)
			words = cbx_json_member(all, lists[i].name);
		cbx_json_set(rule, lists[i].name, cJSON_Duplicate(words, 1));
	}
	if (!left_out(p, "package_installation", without))
		cbx_json_set(o, "package_installation", packages_of(&p->packages));
	if (o->child)
		return o;
	cJSON_Delete(o);
	return NULL;
}
