/* SPDX-License-Identifier: Apache-2.0 */
/* What tools/list costs a model, and that each schema in it is one. */
#include "mcp_modern.h"
#include "policy/keys.h"
#include "session/session.h"

#define TOOLS_MAX 13000 /* bytes of tools/list: every conversation pays for them */

static bool is_type(const cJSON *v)
{
	static const char types[] = " object array string integer number boolean null ";
	_cleanup_free_ char *word = cJSON_IsString(v) ? cbx_xasprintf(" %s ", v->valuestring) : NULL;

	return word && strstr(types, word);
}

/* The keywords that the definitions use, each with the value that JSON Schema 2020-12 asks for; no other keyword. */
static void check_schema(const cJSON *schema)
{
	const cJSON *k, *v, *properties = cbx_json_member(schema, "properties");

	if (cJSON_IsBool(schema))
		return;
	ck_assert(cJSON_IsObject(schema));
	cJSON_ArrayForEach(k, schema) {
		if (strcmp(k->string, "type") == 0) {
			ck_assert_msg(is_type(k), "a type");
		} else if (strcmp(k->string, "properties") == 0) {
			ck_assert(cJSON_IsObject(k));
			cJSON_ArrayForEach(v, k)
				check_schema(v);
		} else if (strcmp(k->string, "required") == 0) {
			ck_assert(cJSON_IsArray(k));
			cJSON_ArrayForEach(v, k)
				ck_assert_msg(cJSON_IsString(v) &&
						      cbx_json_member(properties, v->valuestring),
					      "required: a property");
		} else if (strcmp(k->string, "items") == 0 || strcmp(k->string, "additionalProperties") == 0) {
			check_schema(k);
		} else if (strcmp(k->string, "enum") == 0) {
			ck_assert(cJSON_GetArraySize(k) > 0);
		} else if (strcmp(k->string, "minimum") == 0 || strcmp(k->string, "maximum") == 0) {
			ck_assert(cJSON_IsNumber(k));
		} else {
			ck_assert_msg(strcmp(k->string, "description") == 0 && cJSON_IsString(k), "%s", k->string);
		}
	}
}

static void check_tools(cJSON *m, const char *raw)
{
	cJSON *t;

	ck_assert_int_eq(cJSON_GetArraySize(at(m, "result.tools")), 15);
	ck_assert_uint_le(strlen(raw), TOOLS_MAX);
	cJSON_ArrayForEach(t, at(m, "result.tools")) {
		check_schema(at(t, "inputSchema"));
		check_schema(at(t, "outputSchema"));
		ck_assert_str_eq(str_at(t, "inputSchema.type"), "object");
		ck_assert_str_eq(str_at(t, "outputSchema.type"), "object");
		ck_assert(cJSON_IsFalse(at(t, "inputSchema.additionalProperties")));
		ck_assert_ptr_null(strstr(str_at(t, "description"), "%s"));
	}
}

START_TEST(sizes)
{
	struct client *c = client_new();
	cJSON *m;

	client_initialize(c, "2025-11-25");
	m = client_ask(c, OLD("1", "tools/list", ""));
	check_tools(m, c->raw[c->seen - 1]);
	m = client_ask(c, ASK("2", "tools/list", ""));
	check_tools(m, c->raw[c->seen - 1]);
	client_free(c);
}
END_TEST

/* Where connections have no session of their own, whoever needs one has to name it. */
START_TEST(required_session)
{
	struct client *c = client_new();
	cJSON *m = client_ask(c, ASK("2", "tools/list", "")), *t, *name;

	cJSON_ArrayForEach(t, at(m, "result.tools")) {
		bool required = false, optional;

		cJSON_ArrayForEach(name, at(t, "inputSchema.required"))
			required = required || strcmp(name->valuestring, "session_id") == 0;
		optional = strcmp(str_at(t, "name"), "run_code") == 0 ||
			   strcmp(str_at(t, "name"), "run_command") == 0 ||
			   strcmp(str_at(t, "name"), "create_session") == 0;
		ck_assert(required == (!optional && at(t, "inputSchema.properties.session_id")));
	}
	client_free(c);
}
END_TEST

/* create_session takes what a session can be made with, but for what is not a model's to choose: how it is isolated. */
START_TEST(create_session)
{
	struct client *c = client_new();
	cJSON *m = client_ask(c, OLD("1", "tools/list", "")), *p = at(m, "result.tools.4.inputSchema.properties");
	const char *keys[CBX_SPEC_KEYS_MAX];
	size_t n = cbx_session_spec_keys(keys);
	int known = 0;

	ck_assert_str_eq(str_at(m, "result.tools.4.name"), "create_session");
	for (size_t i = 0; i < n; i++) {
		bool isolates = strcmp(keys[i], "policy") == 0;

		for (enum cbx_key k = 0; k < CBX_KEYS; k++) {
			_cleanup_free_ char *text = NULL;
			char standard[48];

			if (strcmp(cbx_keys[k].name, keys[i]) != 0)
				continue;
			isolates = isolates || strcmp(cbx_keys[k].group, "isolation") == 0 || k == CBX_KEY_CODE_RULES;
			if (isolates)
				continue;
			cbx_key_format(k, cbx_keys[k].standard, standard);
			text = cbx_xasprintf("Default: %s.", standard);
			ck_assert_msg(cbx_ends_with(str_at(cbx_json_member(p, keys[i]), "description"),
						    text), "%s: %s", keys[i], text);
		}
		ck_assert_msg(isolates == !cbx_json_member(p, keys[i]), "%s", keys[i]);
		known += !isolates;
	}
	ck_assert_int_eq(cJSON_GetArraySize(p), known);
	client_free(c);
}
END_TEST

static void add(TCase *t)
{
	tcase_add_test(t, sizes);
	tcase_add_test(t, required_session);
	tcase_add_test(t, create_session);
}

TEST_MAIN("mcp definitions", add)
