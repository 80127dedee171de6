/* SPDX-License-Identifier: Apache-2.0 */
#include "interp/bundle.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"

#define MIME_LENGTH_MAX	   127
#define BUNDLE_MEMBERS_MAX 16
#define DISPLAY_ID_MAX	   200

static const struct {
	const char *mime;
	const char *start;
	size_t n;
} signatures[] = {
	{ "image/png", "\x89PNG\r\n\x1a\n", 8 },
	{ "image/jpeg", "\xff\xd8\xff", 3 },
	{ "image/gif", "GIF8", 4 },
	{ "image/webp", "RIFF", 4 },
	{ "application/pdf", "%PDF-", 5 },
};

/* type/subtype, lower case as IPython writes them, without parameters. */
static bool mime_valid(const char *s)
{
	static const char chars[] = "abcdefghijklmnopqrstuvwxyz0123456789.+-_";
	size_t type = strspn(s, chars), sub;

	if (type == 0 || s[type] != '/')
		return false;
	sub = strspn(s + type + 1, chars);
	return sub > 0 && !s[type + 1 + sub] && type + 1 + sub <= MIME_LENGTH_MAX;
}

bool cbx_mime_binary(const char *mime)
{
	if (strcmp(mime, "image/svg+xml") == 0)
		return false;
	return cbx_starts_with(mime, "image/") || cbx_starts_with(mime, "audio/") || cbx_starts_with(mime, "video/") ||
	       strcmp(mime, "application/pdf") == 0 || strcmp(mime, "application/octet-stream") == 0;
}

static bool mime_json(const char *mime)
{
	return strcmp(mime, "application/json") == 0 || cbx_ends_with(mime, "+json");
}

/* Base64 without its line breaks, or NULL when it is not that, or not of its type. */
static cJSON *binary_value(const char *mime, const char *text)
{
	_cleanup_buf_ struct cbx_buf clean = { 0 }, data = { 0 };

	for (const char *p = text; *p;) {
		size_t n = strcspn(p, "\r\n");

		cbx_buf_add(&clean, p, n);
		p += n + strspn(p + n, "\r\n");
	}
	if (clean.len == 0 || cbx_base64_decode(&data, clean.data, clean.len) < 0)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(signatures); i++)
		if (strcmp(mime, signatures[i].mime) == 0 &&
		    (data.len < signatures[i].n || memcmp(data.data, signatures[i].start, signatures[i].n) != 0))
			return NULL;
	/* A PNG that was cut off has no end chunk. */
	if (strcmp(mime, "image/png") == 0 &&
	    (data.len < 45 || memcmp(data.data + data.len - 8, "IEND\xae\x42\x60\x82", 8) != 0))
		return NULL;
	return cJSON_CreateString(clean.data);
}

/* As text, which it is on its way to every client: a tree would need fifty times the memory that is counted for it. */
static cJSON *as_text(const cJSON *v, size_t *ret_bytes)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };

	cbx_json_print(&text, v);
	*ret_bytes += text.len;
	return cJSON_CreateRaw(text.data);
}

static cJSON *checked_value(const char *mime, const cJSON *v, size_t *ret_bytes)
{
	cJSON *copy = NULL;

	if (cJSON_IsString(v)) {
		copy = cbx_mime_binary(mime) ? binary_value(mime, v->valuestring) : cJSON_CreateString(v->valuestring);
		*ret_bytes = copy ? strlen(copy->valuestring) : 0;
	} else if (mime_json(mime)) {
		copy = as_text(v, ret_bytes);
	}
	return copy;
}

cJSON *cbx_bundle_from_frame(const cJSON *frame, size_t *ret_bytes, size_t *ret_invalid)
{
	const cJSON *data = cbx_json_member(frame, "data"), *v;
	const cJSON *metadata = cbx_json_member(frame, "metadata");
	cJSON *bundle, *out;
	size_t members = 0;

	*ret_bytes = *ret_invalid = 0;
	if (!cJSON_IsObject(data))
		return NULL;
	out = cbx_json_new_obj();
	cJSON_ArrayForEach (v, data) {
		size_t bytes = 0;
		cJSON *copy = NULL;

		if (members < BUNDLE_MEMBERS_MAX && mime_valid(v->string) &&
		    !cbx_json_member(out, v->string))
			copy = checked_value(v->string, v, &bytes);
		if (!copy) {
			++*ret_invalid;
			continue;
		}
		cbx_json_set(out, v->string, copy);
		*ret_bytes += bytes;
		members++;
	}
	if (members == 0) {
		cJSON_Delete(out);
		return NULL;
	}
	bundle = cbx_json_new_obj();
	cbx_json_set(bundle, "data", out);
	cbx_json_set(bundle, "metadata",
		     cJSON_IsObject(metadata) ? as_text(metadata, ret_bytes) : cbx_json_new_obj());
	return bundle;
}

/* ---- a session's ---- */

static const char *id_of(const cJSON *frame)
{
	const cJSON *metadata = cbx_json_member(frame, "metadata");
	const cJSON *id = cbx_json_member(metadata, "display_id");

	return cJSON_IsString(id) && id->valuestring[0] && strlen(id->valuestring) <= DISPLAY_ID_MAX ? id->valuestring :
												      NULL;
}

void cbx_bundle_mark(cJSON *bundle, const cJSON *frame, uint64_t at)
{
	cbx_json_set_u64(bundle, "at", at);
	cbx_json_set_str(bundle, "display_id", id_of(frame));
}

uint64_t cbx_bundle_place(const cJSON *bundle)
{
	const cJSON *at = cbx_json_member(bundle, "at");

	return cJSON_IsRaw(at) ? strtoull(at->valuestring, NULL, 10) : 0;
}

static size_t bytes_of(const cJSON *bundle)
{
	const cJSON *v = cbx_json_member(bundle, "metadata");
	size_t n = v && v->valuestring ? strlen(v->valuestring) : 0;

	cJSON_ArrayForEach (v, cbx_json_member(bundle, "data"))
		n += v->valuestring ? strlen(v->valuestring) : 0;
	return n;
}

bool cbx_bundle_is_update(const cJSON *frame)
{
	const cJSON *metadata = cbx_json_member(frame, "metadata");

	return id_of(frame) && cJSON_IsTrue(cbx_json_member(metadata, "update"));
}

static bool same_id(const cJSON *a, const cJSON *b)
{
	const cJSON *x = cbx_json_member(a, "display_id");
	const cJSON *y = cbx_json_member(b, "display_id");

	return x && y && strcmp(x->valuestring, y->valuestring) == 0;
}

size_t cbx_bundle_updates(const cJSON *list, const cJSON *bundle, size_t *ret_bytes)
{
	const cJSON *b;
	size_t n = 0;

	*ret_bytes = 0;
	cJSON_ArrayForEach (b, list) {
		if (!same_id(b, bundle))
			continue;
		*ret_bytes += bytes_of(b);
		n++;
	}
	return n;
}

void cbx_bundle_update(cJSON *list, const cJSON *bundle)
{
	static const char *const members[] = { "data", "metadata" };
	cJSON *b;

	cJSON_ArrayForEach (b, list) {
		for (size_t i = 0; same_id(b, bundle) && i < ARRAY_SIZE(members); i++)
			cJSON_ReplaceItemInObjectCaseSensitive(
				b, members[i],
				cJSON_Duplicate(cbx_json_member(bundle, members[i]), 1));
	}
}
