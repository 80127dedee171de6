/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "sql/worker.h"

/* Whoever makes a table, or writes a query, names its columns: with any bytes, and at any length. */
static void take_name(char *to, size_t size, const char *name)
{
	_cleanup_buf_ struct cbx_buf clean = { 0 };
	const char *text;
	size_t n;

	cbx_utf8_append(&clean, name, strlen(name));
	text = cbx_buf_str(&clean);
	n = clean.len < size ? clean.len : size - 1;
	while (n < clean.len && n && (text[n] & 0xc0) == 0x80) /* in the middle of a character */
		n--;
	memcpy(to, text, n);
	to[n] = '\0';
}

void cbx_sql_column_name(struct cbx_sql_column *c, const char *name, const char *type_name)
{
	take_name(c->name, sizeof(c->name), name);
	take_name(c->type_name, sizeof(c->type_name), type_name);
}

static const char *plain_kind(SQLSMALLINT type, bool is_unsigned)
{
	switch (type) {
	case SQL_BIT:
		return "bool";
	case SQL_TINYINT:
	case SQL_SMALLINT:
	case SQL_INTEGER:
		return "int64";
	case SQL_BIGINT:
		return is_unsigned ? "uint64" : "int64";
	case SQL_REAL:
	case SQL_FLOAT:
	case SQL_DOUBLE:
		return "double";
	case SQL_TYPE_DATE:
		return "date";
	case SQL_TYPE_TIMESTAMP:
		return "timestamp";
	case SQL_BINARY:
	case SQL_VARBINARY:
	case SQL_LONGVARBINARY:
		return "binary";
	default:
		return "string";
	}
}

/* What a database without types says, or of a time with its zone, stays text, as does a number whose digits have no
 * bound. */
void cbx_sql_column_kind(struct cbx_sql_column *c, enum cbx_dialect dialect, uint64_t size, int digits,
			 bool is_unsigned)
{
	bool number = c->type == SQL_DECIMAL || c->type == SQL_NUMERIC,
	     zone = strstr(c->type_name, "tz") || strstr(c->type_name, "offset");

	if (number && size >= 1 && size <= 38 && digits >= 0 && (uint64_t)digits <= size)
		snprintf(c->kind, sizeof(c->kind), "decimal %u %d", (unsigned)size, digits);
	else if (dialect == CBX_SQL_SQLITE || zone)
		snprintf(c->kind, sizeof(c->kind), "string");
	else
		snprintf(c->kind, sizeof(c->kind), "%s", plain_kind(c->type, is_unsigned));
}

cJSON *cbx_sql_columns_json(const struct cbx_sql_column *columns, size_t n, bool kinds)
{
	cJSON *list = cbx_json_new_arr();

	for (size_t i = 0; i < n; i++) {
		cJSON *o = cbx_json_new_obj();

		cbx_json_set_str(o, "name", columns[i].name);
		cbx_json_set_str(o, "type", columns[i].type_name);
		if (kinds)
			cbx_json_set_str(o, "kind", columns[i].kind);
		cbx_json_push(list, o);
	}
	return list;
}

static bool is_number(SQLSMALLINT type)
{
	switch (type) {
	case SQL_TINYINT:
	case SQL_SMALLINT:
	case SQL_INTEGER:
	case SQL_BIGINT:
	case SQL_REAL:
	case SQL_FLOAT:
	case SQL_DOUBLE:
	case SQL_DECIMAL:
	case SQL_NUMERIC:
		return true;
	default:
		return false;
	}
}

/* Digits that JSON has in the same form, few enough for every reader to keep all of them. */
static bool json_number(const char *p, size_t n)
{
	char text[32];
	size_t i, digits;

	if (!n || n >= sizeof(text))
		return false;
	memcpy(text, p, n);
	text[n] = '\0';
	i = text[0] == '-';
	digits = strspn(text + i, "0123456789");
	if (!digits || digits > 15 || (digits > 1 && text[i] == '0'))
		return false;
	i += digits;
	if (text[i] == '.') {
		size_t more = strspn(text + i + 1, "0123456789");

		if (!more || digits + more > 17)
			return false;
		i += 1 + more;
	}
	return !text[i];
}

void cbx_sql_value_json(cJSON *row, const struct cbx_sql_column *c, const char *p, size_t n)
{
	_cleanup_buf_ struct cbx_buf clean = { 0 };

	if (!p) {
		cbx_json_push(row, cJSON_CreateNull());
	} else if (c->type == SQL_BIT && n == 1 && (*p == '0' || *p == '1')) {
		cbx_json_push(row, cJSON_CreateBool(*p == '1'));
	} else if (is_number(c->type) && json_number(p, n)) {
		char text[32];

		snprintf(text, sizeof(text), "%.*s", (int)n, p);
		cbx_json_push(row, cJSON_CreateRaw(text));
	} else {
		cbx_utf8_append(&clean, p, n);
		cbx_json_push_str(row, cbx_buf_str(&clean));
	}
}

int cbx_sql_long_value(const struct cbx_sql_column *c, struct cbx_err *err)
{
	return cbx_refuse(err, "result_too_large", EFBIG, "%s: a value has more than %zu bytes; ask for a part of it",
			  c->name, (size_t)CBX_SQL_VALUE_MAX);
}

void cbx_sql_value_csv(struct cbx_buf *out, const char *p, size_t n)
{
	const char *quote;

	if (!p)
		return;
	if (n && !memchr(p, '"', n) && !memchr(p, ',', n) && !memchr(p, '\n', n) && !memchr(p, '\r', n)) {
		cbx_buf_add(out, p, n);
		return;
	}
	cbx_buf_addc(out, '"');
	while ((quote = memchr(p, '"', n))) {
		size_t len = (size_t)(quote + 1 - p);

		cbx_buf_add(out, p, len);
		cbx_buf_addc(out, '"');
		p += len;
		n -= len;
	}
	cbx_buf_add(out, p, n);
	cbx_buf_addc(out, '"');
}
