/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a tree from cJSON holds every number as a double and every string unescaped, but an id or a
 * progress token has to go back exactly as it came. So these are looked up in the message's own text. That text has
 * passed the strict grammar check already, which leaves strings and brackets as the only things to be minded here; a
 * name written with escapes is not found, which is as good as absent.
 */
#include <stdlib.h>
#include <string.h>

#include "base/jsonscan.h"
#include "base/limits.h"
#include "mcp/internal.h"

struct cbx_raw cbx_mcp_raw_member(struct cbx_raw in, const char *key)
{
	size_t klen = strlen(key);
	const char *end = in.p ? in.p + in.n : NULL, *p = in.p ? cbx_jsonscan_object(in.p, end) : NULL;
	struct cbx_jsonscan_member m;

	while (p && cbx_jsonscan_member(&p, end, &m))
		if ((size_t)(m.name_end - m.name) == klen + 2 && memcmp(m.name + 1, key, klen) == 0)
			return (struct cbx_raw){ m.value, (size_t)(m.end - m.value) };
	return (struct cbx_raw){ 0 };
}

struct cbx_raw cbx_mcp_raw_element(struct cbx_raw in, size_t *pos)
{
	const char *end, *p, *from;

	if (!in.p)
		return (struct cbx_raw){ 0 };
	end = in.p + in.n;
	p = cbx_jsonscan_space(in.p + *pos, end);
	if (*pos == 0) {
		if (p >= end || *p != '[')
			return (struct cbx_raw){ 0 };
		p = cbx_jsonscan_space(p + 1, end);
	} else if (p < end && *p == ',') {
		p = cbx_jsonscan_space(p + 1, end);
	}
	if (p >= end || *p == ']')
		return (struct cbx_raw){ 0 };
	from = p;
	p = cbx_jsonscan_value(p, end);
	*pos = (size_t)(p - in.p);
	return (struct cbx_raw){ from, (size_t)(p - from) };
}

bool cbx_mcp_raw_is_token(struct cbx_raw v)
{
	size_t i;

	if (!v.p || !v.n || v.n > CBX_RPC_ID_MAX)
		return false;
	if (v.p[0] == '"')
		return cbx_utf8_valid(v.p, v.n);
	i = v.p[0] == '-' ? 1 : 0;
	if (i == v.n)
		return false;
	for (; i < v.n; i++)
		if (v.p[i] < '0' || v.p[i] > '9')
			return false;
	return true;
}

bool cbx_mcp_id_valid(const char *id)
{
	return cbx_mcp_raw_is_token((struct cbx_raw){ id, strlen(id) });
}

char *cbx_mcp_raw_copy(struct cbx_raw v)
{
	struct cbx_buf b = { 0 };

	if (!v.p)
		return NULL;
	cbx_buf_add(&b, v.p, v.n);
	return cbx_buf_steal(&b);
}

const char *cbx_mcp_str_of(const cJSON *obj, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(obj, key);

	return cJSON_IsString(v) ? v->valuestring : NULL;
}

uint64_t cbx_mcp_num_of(const cJSON *obj, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(obj, key);

	if (cJSON_IsRaw(v))
		return strtoull(v->valuestring, NULL, 10);
	return cJSON_IsNumber(v) && v->valuedouble >= 0 ? (uint64_t)v->valuedouble : 0;
}
