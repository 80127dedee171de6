/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the strict JSON reader gets any bytes. What it accepts must survive printing and reading again,
 * byte for byte from the first printing on; the id must be a piece of the text that is JSON by itself; and the look-up
 * of a member in the raw text must find the value that the tree has.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "fuzz.h"
#include "base/jsonscan.h"

static void check_id(const char *text, size_t len, const char *id)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	struct cbx_err err = { 0 };
	size_t n = strlen(id);

	must(n > 0);
	must(memmem(text, len, id, n));
	must(cbx_json_parse(id, n, &doc, &err) == 0);
}

static void check_member(struct cbx_raw text, const cJSON *child)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	_cleanup_buf_ struct cbx_buf one = { 0 }, two = { 0 };
	struct cbx_err err = { 0 };
	struct cbx_raw raw;

	/* Names are compared as they are written; nobody asks for one that has to be written with an escape. */
	if (strpbrk(child->string, "\\\""))
		return;
	raw = cbx_raw_member(text, child->string);
	if (!raw.p) {
		/* Only a name that was written with escapes is not found. */
		must(memchr(text.p, '\\', text.n));
		return;
	}
	must(raw.p >= text.p && raw.n <= text.n - (size_t)(raw.p - text.p));
	must(cbx_json_parse(raw.p, raw.n, &doc, &err) == 0);
	must(!doc.problem.code);
	cbx_json_print(&one, child);
	cbx_json_print(&two, doc.root);
	must(one.len == two.len && memcmp(one.data, two.data, one.len) == 0);
	if (cbx_raw_is_token(raw))
		must(cJSON_IsString(doc.root) || cJSON_IsNumber(doc.root));
}

static void check_elements(struct cbx_raw text, const cJSON *root)
{
	size_t pos = 0, n = 0;

	for (;;) {
		_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
		struct cbx_raw raw = cbx_raw_element(text, &pos);
		struct cbx_err err = { 0 };

		if (!raw.p)
			break;
		must(cbx_json_parse(raw.p, raw.n, &doc, &err) == 0);
		n++;
	}
	must(n == (size_t)cJSON_GetArraySize(root));
}

static void check_typed(const cJSON *obj)
{
	struct cbx_err err = { 0 };
	const cJSON *any = NULL;
	const char *s = NULL;
	uint64_t u = 7;
	double d = 0.5;
	bool b = false;

	if (cbx_json_get_u64(obj, "n", 5, 9, &u, &err) < 0)
		must(err.code && err.msg[0] && cbx_utf8_valid(err.msg, strlen(err.msg)));
	must(u >= 5 && u <= 9);
	if (cbx_json_get_double(obj, "n", 0, 10, &d, &err) < 0)
		must(err.code && err.msg[0]);
	must(d >= 0 && d <= 10);
	must(cbx_json_get_str(obj, "s", &s, &err) != 1 || s);
	(void)cbx_json_get_bool(obj, "b", &b, &err);
	must(cbx_json_get_obj(obj, "o", &any, &err) != 1 || cJSON_IsObject(any));
	must(cbx_json_get_arr(obj, "a", &any, &err) != 1 || cJSON_IsArray(any));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 }, again = { 0 };
	_cleanup_buf_ struct cbx_buf once = { 0 }, twice = { 0 };
	struct cbx_raw text = { (const char *)data, size };
	struct cbx_err err = { 0 };
	const cJSON *child;

	if (cbx_json_parse(text.p, text.n, &doc, &err) < 0) {
		must(err.code && strcmp(err.kind, "invalid_json") == 0 && !doc.root && !doc.id);
		return 0;
	}
	must(doc.root);
	cbx_json_print(&once, doc.root);
	must(!memchr(once.data, '\n', once.len) && cbx_utf8_valid(once.data, once.len));
	must(cbx_json_parse(once.data, once.len, &again, &err) == 0);
	must(doc.problem.code || !again.problem.code);
	cbx_json_print(&twice, again.root);
	must(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
	if (doc.id)
		check_id(text.p, text.n, doc.id);
	if (doc.problem.code)
		return 0;
	if (cJSON_IsObject(doc.root)) {
		cJSON_ArrayForEach (child, doc.root)
			check_member(text, child);
		check_typed(doc.root);
	} else if (cJSON_IsArray(doc.root)) {
		check_elements(text, doc.root);
	}
	return 0;
}
