/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: any text as an answer of an object store, read for each of the elements that matter, and its lines
 * for each of the headers. What is taken is a part of the text, without anything that could end an element or a line, and
 * stays within the room that it is given. As the path of an artifact, any text gives a name whose link is one of plain
 * ASCII.
 */
#include <string.h>

#include "base/cleanup.h"
#include "fuzz.h"
#include "objects/answer.h"
#include "objects/sign.h"
#include "policy/objects.h"

static void check(const char *text, const char *out, size_t size, bool taken)
{
	must(strlen(out) < size && (taken || !out[0]));
	must(strstr(text, out) && !strpbrk(out, "<>&\r\n"));
}

static void check_name(const char *text)
{
	_cleanup_buf_ struct cbx_buf key = { 0 }, url = { 0 };
	cJSON *store = cJSON_Parse("{\"endpoint\":\"https://s3.example\",\"bucket\":\"b\",\"region\":\"r\",\"prefix\":\"\","
				   "\"user\":\"u\"}");
	struct cbx_objects o;
	struct cbx_err err;

	must(cbx_objects_read(store, "secret", &o, &err) == 0);
	cbx_objects_key(store, "t", "s", "id", text, &key);
	cbx_s3_link(&o, cbx_buf_str(&key), 0, 60, &url);
	must(strncmp(url.data, "https://s3.example/b/t/s/id/", 28) == 0);
	for (const char *p = cbx_buf_str(&url); *p; p++)
		must(*p > ' ' && *p < 0x7f && !strchr("\"<>\\^`{|}", *p));
	must(!strstr(url.data, "secret") || strstr(text, "secret"));
	cJSON_Delete(store);
}

/* As a connection string of a request: it leads to no store but the one that the policy names. */
static void check_string(const char *text)
{
	char *names[] = { "*.example.org" };
	const struct cbx_servers allowed = { .names = names, .n = 1 };
	_cleanup_json_ cJSON *store = NULL;
	_cleanup_free_ char *secret = NULL;
	struct cbx_err err = { 0 };

	if (cbx_object_store_of_string(&allowed, text, NULL, &store, &secret, &err) < 0) {
		must(!store && err.msg[0]);
		return;
	}
	must(store && secret && strstr(cbx_json_text(store, "endpoint"), ".example.org"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = { "Code", "Message", "UploadId" }, *const headers[] = { "etag", "content-length" };
	char *text = malloc(size + 1), out[40];

	must(text);
	memcpy(text, data, size);
	text[size] = '\0';
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		check(text, out, sizeof(out), cbx_answer_element(text, names[i], out, sizeof(out)));
	for (size_t i = 0; i < sizeof(headers) / sizeof(*headers); i++)
		check(text, out, sizeof(out), cbx_answer_header(text, strlen(text), headers[i], out, sizeof(out)));
	check_name(text);
	check_string(text);
	free(text);
	return 0;
}
