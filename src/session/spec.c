/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: one table of the numbers that a client may ask for. Parsing and the JSON Schema are both made
 * from it, so that they cannot disagree. Each value may be a number in its base unit or a string with a unit.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "session/internal.h"

enum unit { UNIT_BYTES, UNIT_COUNT, UNIT_SECONDS };

static const struct number {
	const char *key;
	enum unit unit;
	uint64_t min, max, standard; /* bytes, a count, or milliseconds */
	const char *text;
} numbers[] = {
	{ "memory", UNIT_BYTES, CBX_MEMORY_MIN, CBX_MEMORY_MAX, CBX_MEMORY_DEFAULT, "Memory of the session" },
	{ "disk", UNIT_BYTES, CBX_DISK_MIN, CBX_DISK_MAX, CBX_DISK_DEFAULT, "Space for the session's files" },
	{ "processes", UNIT_COUNT, 8, CBX_PROCESSES_MAX, CBX_PROCESSES_DEFAULT, "Most processes and threads at once" },
	{ "timeout", UNIT_SECONDS, 1, CBX_TIMEOUT_MAX_MS, CBX_TIMEOUT_DEFAULT_MS,
	  "Time limit of each cell; a cell may ask for another one" },
	{ "ttl", UNIT_SECONDS, 1000, CBX_TTL_MAX_S * 1000ull, CBX_TTL_DEFAULT_S * 1000ull,
	  "The session is closed when it is this old" },
	{ "idle_timeout", UNIT_SECONDS, 1000, CBX_TTL_MAX_S * 1000ull, CBX_IDLE_DEFAULT_S * 1000ull,
	  "The session is closed when it was not used for this long" },
};

static const char *const unit_hints[] = { "bytes or a size such as \"512M\"", "a whole number",
					  "seconds or a duration such as \"5m\"" };

void cbx_session_spec_init(struct cbx_session_spec *spec)
{
	memset(spec, 0, sizeof(*spec));
	spec->memory_bytes = CBX_MEMORY_DEFAULT;
	spec->disk_bytes = CBX_DISK_DEFAULT;
	spec->processes = CBX_PROCESSES_DEFAULT;
	spec->timeout_ms = CBX_TIMEOUT_DEFAULT_MS;
	spec->ttl_s = CBX_TTL_DEFAULT_S;
	spec->idle_s = CBX_IDLE_DEFAULT_S;
}

static int out_of_range(const struct number *n, struct cbx_err *err)
{
	char lo[32], hi[32];

	switch (n->unit) {
	case UNIT_BYTES:
		cbx_format_size(n->min, lo);
		cbx_format_size(n->max, hi);
		break;
	case UNIT_SECONDS:
		snprintf(lo, sizeof(lo), "%g s", (double)n->min / 1000);
		snprintf(hi, sizeof(hi), "%g s", (double)n->max / 1000);
		break;
	default:
		snprintf(lo, sizeof(lo), "%llu", (unsigned long long)n->min);
		snprintf(hi, sizeof(hi), "%llu", (unsigned long long)n->max);
	}
	return cbx_refuse(err, "invalid_argument", ERANGE, "%s: the value is not between %s and %s; give %s", n->key,
			  lo, hi, unit_hints[n->unit]);
}

static int parse_number(const cJSON *v, const struct number *n, uint64_t *ret, struct cbx_err *err)
{
	if (cJSON_IsString(v)) {
		if (n->unit == UNIT_BYTES)
			return cbx_parse_size(v->valuestring, n->key, n->min, n->max, ret, err);
		if (n->unit == UNIT_SECONDS)
			return cbx_parse_duration_ms(v->valuestring, n->key, n->min, n->max, ret, err);
		return cbx_parse_u64(v->valuestring, n->key, n->min, n->max, ret, err);
	}
	if (cJSON_IsNumber(v)) {
		double d = v->valuedouble * (n->unit == UNIT_SECONDS ? 1000 : 1);

		if (n->unit != UNIT_SECONDS && floor(d) != d)
			return cbx_refuse(err, "invalid_argument", EINVAL, "%s: %g is not a whole number; give %s",
					  n->key, d, unit_hints[n->unit]);
		if (!(d >= (double)n->min && d <= (double)n->max))
			return out_of_range(n, err);
		*ret = (uint64_t)d;
		return 0;
	}
	return cbx_refuse(err, "invalid_argument", EINVAL, "%s: wrong type; give %s", n->key, unit_hints[n->unit]);
}

static int parse_name(const cJSON *obj, const char *key, char out[CBX_NAME_MAX + 1], struct cbx_err *err)
{
	const char *name = NULL;
	int r = cbx_json_get_str(obj, key, &name, err);

	if (r <= 0)
		return r;
	if (!cbx_name_valid(name))
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "%s: \"%.80s\" is not a name; use 1 to %d letters, digits, \"_\", \".\" and \"-\", "
				  "starting with a letter or digit",
				  key, name, CBX_NAME_MAX);
	snprintf(out, CBX_NAME_MAX + 1, "%s", name);
	return 1;
}

int cbx_session_spec_parse(const cJSON *obj, struct cbx_session_spec *spec, struct cbx_err *err)
{
	uint64_t values[ARRAY_SIZE(numbers)] = { spec->memory_bytes, spec->disk_bytes,	    spec->processes,
						 spec->timeout_ms,   spec->ttl_s * 1000ull, spec->idle_s * 1000ull };
	int r = parse_name(obj, "id", spec->id, err);

	if (r >= 0)
		r = parse_name(obj, "session_id", spec->id, err);
	if (r >= 0)
		r = parse_name(obj, "image", spec->image, err);
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(numbers); i++) {
		const cJSON *v = cJSON_GetObjectItemCaseSensitive(obj, numbers[i].key);

		if (v && !cJSON_IsNull(v))
			r = parse_number(v, &numbers[i], &values[i], err);
	}
	if (r < 0)
		return r;
	spec->memory_bytes = values[0];
	spec->disk_bytes = values[1];
	spec->processes = (uint32_t)values[2];
	spec->timeout_ms = values[3];
	spec->ttl_s = (uint32_t)((values[4] + 999) / 1000);
	spec->idle_s = (uint32_t)((values[5] + 999) / 1000);
	return 0;
}

static cJSON *number_schema(const struct number *n)
{
	cJSON *o = cbx_json_new_obj(), *types = cbx_json_new_arr();
	_cleanup_buf_ struct cbx_buf text = { 0 };
	char size[32];

	cbx_json_push_str(types, n->unit == UNIT_SECONDS ? "number" : "integer");
	cbx_json_push_str(types, "string");
	cbx_json_set(o, "type", types);
	if (n->unit == UNIT_BYTES)
		cbx_format_size(n->standard, size);
	else if (n->unit == UNIT_SECONDS)
		snprintf(size, sizeof(size), "%llu s", (unsigned long long)n->standard / 1000);
	else
		snprintf(size, sizeof(size), "%llu", (unsigned long long)n->standard);
	cbx_buf_addf(&text, "%s: %s. Default: %s.", n->text, unit_hints[n->unit], size);
	cbx_json_set_str(o, "description", cbx_buf_str(&text));
	return o;
}

static cJSON *name_schema(const char *text)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "type", "string");
	cbx_json_set_str(o, "pattern", "^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$");
	cbx_json_set_str(o, "description", text);
	return o;
}

cJSON *cbx_session_spec_schema(void)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set(o, "session_id", name_schema("Name of the session. Left out: one is made up."));
	cbx_json_set(o, "image", name_schema("Image to run in. Default: python."));
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		cbx_json_set(o, numbers[i].key, number_schema(&numbers[i]));
	return o;
}
