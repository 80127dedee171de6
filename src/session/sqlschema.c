/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the tables of a database that is a file of the session are said by a program in the sandbox
 * (sqlfile.c), in the form that other databases have (sql/job.h). Its word is taken in this form alone, and in this
 * size.
 */
#include <string.h>

#include "base/cleanup.h"
#include "session/query.h"

#define ABOUT 1000 /* bytes that a schema says beside its tables */

/* What a member has to be: 's' text, 'b' true or false, 'n' names, 'c' columns, 'f' foreign keys, 't' tables. */
struct member {
	const char *name;
	char form;
	bool optional;
};

static bool has_form(const cJSON *v, char form);

static bool has_members(const cJSON *o, const struct member *members, size_t n)
{
	int seen = 0;

	for (size_t i = 0; i < n; i++) {
		const cJSON *v = cbx_json_member(o, members[i].name);

		if (v ? !has_form(v, members[i].form) : !members[i].optional)
			return false;
		seen += v != NULL;
	}
	return cJSON_IsObject(o) && seen == cJSON_GetArraySize(o);
}

static bool is_entry(const cJSON *v, char form)
{
	static const struct member column[] = { { "name", 's', false },
						{ "type", 's', false },
						{ "nullable", 'b', false } },
				   key[] = { { "columns", 'n', false },
					     { "schema", 's', true },
					     { "table", 's', false },
					     { "references", 'n', false } },
				   table[] = { { "schema", 's', true },	     { "name", 's', false },
					       { "type", 's', false },	     { "columns", 'c', true },
					       { "primary_key", 'n', true }, { "foreign_keys", 'f', true } };

	switch (form) {
	case 'n':
		return cJSON_IsString(v);
	case 'c':
		return has_members(v, column, ARRAY_SIZE(column));
	case 'f':
		return has_members(v, key, ARRAY_SIZE(key));
	default:
		return has_members(v, table, ARRAY_SIZE(table));
	}
}

static bool has_form(const cJSON *v, char form)
{
	int most = form == 't' ? CBX_SQL_SCHEMA_TABLES : CBX_SQL_COLUMNS_MAX;
	const cJSON *entry;

	if (form == 's')
		return cJSON_IsString(v);
	if (form == 'b')
		return cJSON_IsBool(v);
	if (!cJSON_IsArray(v) || cJSON_GetArraySize(v) > most)
		return false;
	cJSON_ArrayForEach(entry, v)
		if (!is_entry(entry, form))
			return false;
	return true;
}

bool cbx_query_is_schema(const cJSON *root)
{
	static const struct member members[] = {
		{ "type", 's', false }, { "tables", 't', false }, { "truncated", 'b', true }, { "note", 's', true }
	};
	_cleanup_buf_ struct cbx_buf printed = { 0 };

	if (!has_members(root, members, ARRAY_SIZE(members)))
		return false;
	cbx_json_print(&printed, root);
	return printed.len <= CBX_SQL_SCHEMA_BYTES + ABOUT;
}
