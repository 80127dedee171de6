/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: trees are made by cJSON, but every string is made valid first, and whole numbers are raw text, for
 * a double would lose those above 2^53.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"

static cJSON *checked(cJSON *v)
{
	if (!v) {
		fputs("codebox: out of memory\n", stderr);
		abort();
	}
	return v;
}

static cJSON *new_str(const char *p, size_t n)
{
	_cleanup_buf_ struct cbx_buf clean = { 0 };

	cbx_utf8_append(&clean, p, n);
	return checked(cJSON_CreateString(cbx_buf_str(&clean)));
}

cJSON *cbx_json_new_obj(void)
{
	return checked(cJSON_CreateObject());
}

cJSON *cbx_json_new_arr(void)
{
	return checked(cJSON_CreateArray());
}

void cbx_json_set(cJSON *obj, const char *key, cJSON *v)
{
	if (!cJSON_AddItemToObject(obj, key, checked(v)))
		checked(NULL);
}

void cbx_json_push(cJSON *arr, cJSON *v)
{
	if (!cJSON_AddItemToArray(arr, checked(v)))
		checked(NULL);
}

void cbx_json_set_strn(cJSON *obj, const char *key, const char *v, size_t n)
{
	cbx_json_set(obj, key, new_str(v, n));
}

void cbx_json_set_str(cJSON *obj, const char *key, const char *v)
{
	size_t n = v ? strlen(v) : 0;

	if (v)
		cbx_json_set(obj, key, cbx_utf8_valid(v, n) ? cJSON_CreateString(v) : new_str(v, n));
}

void cbx_json_set_u64(cJSON *obj, const char *key, uint64_t v)
{
	char text[24] = "";

	cbx_json_set(obj, key, cJSON_CreateRaw(cbx_digits(&text[sizeof(text) - 1], v, 1)));
}

void cbx_json_set_i64(cJSON *obj, const char *key, int64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%lld", (long long)v);
	cbx_json_set(obj, key, cJSON_CreateRaw(text));
}

void cbx_json_set_thousandths(cJSON *obj, const char *key, uint64_t v)
{
	char text[28] = "", *p = cbx_digits(&text[sizeof(text) - 1], v % 1000, 3);

	*--p = '.';
	cbx_json_set(obj, key, cJSON_CreateRaw(cbx_digits(p, v / 1000, 1)));
}

void cbx_json_set_double(cJSON *obj, const char *key, double v)
{
	cbx_json_set(obj, key, cJSON_CreateNumber(v));
}

void cbx_json_set_bool(cJSON *obj, const char *key, bool v)
{
	cbx_json_set(obj, key, cJSON_CreateBool(v));
}

void cbx_json_set_null(cJSON *obj, const char *key)
{
	cbx_json_set(obj, key, cJSON_CreateNull());
}

void cbx_json_push_str(cJSON *arr, const char *v)
{
	cbx_json_push(arr, new_str(v, strlen(v)));
}

void cbx_json_wipe(cJSON *obj)
{
	cJSON *v;

	cJSON_ArrayForEach(v, obj)
		if (cJSON_IsString(v))
			explicit_bzero(v->valuestring, strlen(v->valuestring));
	cJSON_Delete(obj);
}
