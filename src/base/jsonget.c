/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"

#define EXACT_MAX 9007199254740992.0 /* 2^53: a double above it has no fraction */

/* An answer to one cell looks up a hundred: the first letters of most names differ, which spares the call. */
cJSON *cbx_json_member(const cJSON *obj, const char *key)
{
	cJSON *v = cJSON_IsObject(obj) ? obj->child : NULL;

	while (v && (v->string[0] != key[0] || strcmp(v->string, key) != 0))
		v = v->next;
	return v;
}

bool cbx_json_whole(double v)
{
	return v >= EXACT_MAX || v <= -EXACT_MAX || (double)(int64_t)v == v;
}

static const cJSON *given(const cJSON *obj, const char *key)
{
	const cJSON *v = cbx_json_member(obj, key);

	return v && !cJSON_IsNull(v) ? v : NULL;
}

static int wrong_type(const cJSON *v, const char *key, const char *want, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf shown = { 0 };

	cbx_json_print(&shown, v);
	return cbx_refuse(err, "invalid_argument", EINVAL, "%s: %s is expected, not %.*s%s", key, want,
			  (int)cbx_utf8_head(cbx_buf_str(&shown), CBX_JSON_SHOWN), cbx_buf_str(&shown), shown.len > CBX_JSON_SHOWN ? "…" : "");
}

int cbx_json_get_str(const cJSON *obj, const char *key, const char **ret, struct cbx_err *err)
{
	const cJSON *v = given(obj, key);

	if (!v)
		return 0;
	if (!cJSON_IsString(v))
		return wrong_type(v, key, "a string", err);
	*ret = v->valuestring;
	return 1;
}

int cbx_json_get_bool(const cJSON *obj, const char *key, bool *ret, struct cbx_err *err)
{
	const cJSON *v = given(obj, key);

	if (!v)
		return 0;
	if (!cJSON_IsBool(v))
		return wrong_type(v, key, "true or false", err);
	*ret = cJSON_IsTrue(v);
	return 1;
}

int cbx_json_get_u64(const cJSON *obj, const char *key, uint64_t min, uint64_t max, uint64_t *ret,
		     struct cbx_err *err)
{
	const cJSON *v = given(obj, key);
	double d;

	if (!v)
		return 0;
	if (!cJSON_IsNumber(v))
		return wrong_type(v, key, "a whole number", err);
	d = v->valuedouble;
	if (!(d >= 0 && d <= EXACT_MAX) || !cbx_json_whole(d))
		return wrong_type(v, key, "a whole number of at least 0", err);
	if ((uint64_t)d < min && max >= 1u << 30) /* the upper bound is not the point */
		return cbx_refuse(err, "invalid_argument", ERANGE, "%s: %.0f is too small; give at least %llu", key, d,
				  (unsigned long long)min);
	if ((uint64_t)d < min || (uint64_t)d > max)
		return cbx_refuse(err, "invalid_argument", ERANGE, "%s: %.0f is not between %llu and %llu", key, d,
				  (unsigned long long)min, (unsigned long long)max);
	*ret = (uint64_t)d;
	return 1;
}

int cbx_json_get_double(const cJSON *obj, const char *key, double min, double max, double *ret, struct cbx_err *err)
{
	const cJSON *v = given(obj, key);

	if (!v)
		return 0;
	if (!cJSON_IsNumber(v) || !isfinite(v->valuedouble))
		return wrong_type(v, key, "a number", err);
	if (v->valuedouble < min && max >= 1u << 30)
		return cbx_refuse(err, "invalid_argument", ERANGE, "%s: %g is too small; give at least %g", key,
				  v->valuedouble, min);
	if (v->valuedouble < min || v->valuedouble > max)
		return cbx_refuse(err, "invalid_argument", ERANGE, "%s: %g is not between %g and %g", key,
				  v->valuedouble, min, max);
	*ret = v->valuedouble;
	return 1;
}

int cbx_json_get_obj(const cJSON *obj, const char *key, const cJSON **ret, struct cbx_err *err)
{
	const cJSON *v = given(obj, key);

	if (!v)
		return 0;
	if (!cJSON_IsObject(v))
		return wrong_type(v, key, "an object", err);
	*ret = v;
	return 1;
}

int cbx_json_get_arr(const cJSON *obj, const char *key, const cJSON **ret, struct cbx_err *err)
{
	const cJSON *v = given(obj, key);

	if (!v)
		return 0;
	if (!cJSON_IsArray(v))
		return wrong_type(v, key, "an array", err);
	*ret = v;
	return 1;
}

const char *cbx_json_text(const cJSON *obj, const char *key)
{
	const cJSON *v = cbx_json_member(obj, key);

	return cJSON_IsString(v) ? v->valuestring : NULL;
}

const char *cbx_json_str(const cJSON *obj, const char *key)
{
	const char *text = cbx_json_text(obj, key);

	return text ? text : "";
}

bool cbx_json_lists(const cJSON *list, const char *text)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, list)
		if (cJSON_IsString(v) && strcmp(v->valuestring, text) == 0)
			return true;
	return false;
}

int cbx_json_error(const cJSON *obj, const char *kind, int code, struct cbx_err *err)
{
	const char *own = cbx_json_text(obj, "kind"), *message = cbx_json_text(obj, "message");

	cbx_refuse(err, own ? own : kind, code, "%s", message ? message : "no reason was given");
	cbx_err_sanitize(err);
	return -err->code;
}

cJSON *cbx_json_of_error(const struct cbx_err *err)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "kind", err->kind);
	cbx_json_set_str(o, "message", err->msg);
	return o;
}

double cbx_json_number(const cJSON *obj, const char *key, double otherwise)
{
	const cJSON *v = cbx_json_member(obj, key);

	return cJSON_IsNumber(v) ? v->valuedouble : otherwise;
}

int cbx_json_only(const cJSON *obj, const char *const *keys, struct cbx_err *err)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, obj) {
		_cleanup_buf_ struct cbx_buf list = { 0 };
		const char *const *k;

		for (k = keys; *k; k++)
			if (strcmp(*k, v->string) == 0)
				break;
		if (*k)
			continue;
		for (k = keys; *k; k++)
			cbx_buf_addf(&list, "%s%s", k == keys ? "" : ", ", *k);
		return cbx_refuse(err, "invalid_argument", EINVAL, "unknown member \"%.*s\"; accepted are: %s",
				  (int)cbx_utf8_head(v->string, CBX_JSON_SHOWN), v->string, cbx_buf_str(&list));
	}
	return 0;
}

uint64_t cbx_json_u64(const cJSON *obj, const char *key)
{
	const cJSON *v = cbx_json_member(obj, key);

	if (cJSON_IsRaw(v))
		return strtoull(v->valuestring, NULL, 10);
	return cJSON_IsNumber(v) && v->valuedouble >= 0 ? (uint64_t)v->valuedouble : 0;
}
