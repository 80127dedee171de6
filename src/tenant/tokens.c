/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a token is "cbx_", an id, and a secret of 260 random bits. The file keeps the SHA-256 of the
 * whole. A slow or salted hash, as for passwords, would add nothing: those protect secrets that can be guessed, and
 * nobody guesses one of 2^260. It would only cost time with every request. The id is public, and finds the entry; then
 * digests are compared, in a time that does not depend on them.
 */
#include <errno.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/limits.h"
#include "policy/source.h"
#include "tenant/tenant.h"

#define PREFIX "cbx_"

static bool time_parse(const char *text, int64_t *ret)
{
	struct tm tm = { 0 };
	const char *end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm);

	*ret = timegm(&tm);
	return end && !*end && *ret > 0;
}

/* ---- the secret ---- */

static void digest_of(const char *text, unsigned char ret[32])
{
	struct sha256_ctx ctx;

	sha256_init(&ctx);
	sha256_update(&ctx, strlen(text), (const uint8_t *)text);
	sha256_digest(&ctx, 32, ret);
}

static int by_id(const void *a, const void *b)
{
	return strcmp(((const struct cbx_token *)a)->id, ((const struct cbx_token *)b)->id);
}

const struct cbx_token *cbx_tokens_by_id(const struct cbx_tokens *tokens, const char *id)
{
	struct cbx_token key = { 0 };

	if (!tokens->n || strlen(id) != CBX_TOKEN_ID)
		return NULL;
	memcpy(key.id, id, CBX_TOKEN_ID);
	return bsearch(&key, tokens->all, tokens->n, sizeof(key), by_id);
}

bool cbx_tokens_look_like(const char *text)
{
	return cbx_starts_with(text, PREFIX);
}

const struct cbx_token *cbx_tokens_check(const struct cbx_tokens *tokens, const char *text, int64_t now)
{
	unsigned char digest[32];
	const struct cbx_token *t;
	char id[CBX_TOKEN_ID + 1];

	if (strlen(text) != CBX_TOKEN_TEXT || !cbx_starts_with(text, PREFIX))
		return NULL;
	memcpy(id, text + strlen(PREFIX), CBX_TOKEN_ID);
	id[CBX_TOKEN_ID] = '\0';
	t = cbx_tokens_by_id(tokens, id);
	digest_of(text, digest);
	if (!t || !memeql_sec(t->digest, digest, sizeof(digest)))
		return NULL;
	return t->expires && t->expires <= now ? NULL : t;
}

int cbx_tokens_make(struct cbx_tokens *tokens, const struct cbx_token *like, char text[CBX_TOKEN_TEXT + 1],
		    struct cbx_err *err)
{
	char secret[CBX_TOKEN_SECRET + 1];
	struct cbx_token t = *like;

	if (tokens->n >= CBX_TOKENS_MAX)
		return cbx_refuse(err, "too_many_tokens", ENOSPC, "there are %d tokens already; revoke some",
				  CBX_TOKENS_MAX);
	do {
		cbx_random_name(t.id, CBX_TOKEN_ID);
	} while (cbx_tokens_by_id(tokens, t.id));
	cbx_random_name(secret, CBX_TOKEN_SECRET);
	snprintf(text, CBX_TOKEN_TEXT + 1, PREFIX "%s_%s", t.id, secret);
	explicit_bzero(secret, sizeof(secret));
	digest_of(text, t.digest);
	tokens->all = cbx_xrealloc(tokens->all, (tokens->n + 1) * sizeof(t));
	tokens->all[tokens->n++] = t;
	qsort(tokens->all, tokens->n, sizeof(t), by_id);
	return 0;
}

bool cbx_tokens_revoke(struct cbx_tokens *tokens, const char *id)
{
	const struct cbx_token *t = cbx_tokens_by_id(tokens, id);
	size_t i = t ? (size_t)(t - tokens->all) : 0;

	if (!t)
		return false;
	memmove(tokens->all + i, tokens->all + i + 1, (tokens->n - i - 1) * sizeof(*t));
	tokens->n--;
	return true;
}

/* ---- the file ---- */

static bool hex_parse(const char *text, unsigned char *out, size_t n)
{
	static const char digits[] = "0123456789abcdef";

	if (strlen(text) != 2 * n || strspn(text, digits) != 2 * n)
		return false;
	for (size_t i = 0; i < n; i++)
		out[i] = (unsigned char)((strchr(digits, text[2 * i]) - digits) << 4 |
					 (strchr(digits, text[2 * i + 1]) - digits));
	return true;
}

static int parse_one(const struct cbx_source *s, const cJSON *obj, struct cbx_token *t, struct cbx_err *err)
{
	static const char *const keys[] = { "id", "tenant", "name", "scopes", "created", "expires", "sha256", NULL };
	const char *id = "", *tenant = "", *name = "", *scopes = "", *created = "", *expires = "", *digest = "";

	if (!cJSON_IsObject(obj))
		return cbx_source_refuse(s, obj, err, "tokens: give objects");
	if (cbx_json_only(obj, keys, err) < 0 || cbx_json_get_str(obj, "id", &id, err) < 0 ||
	    cbx_json_get_str(obj, "tenant", &tenant, err) < 0 || cbx_json_get_str(obj, "name", &name, err) < 0 ||
	    cbx_json_get_str(obj, "scopes", &scopes, err) < 0 || cbx_json_get_str(obj, "created", &created, err) < 0 ||
	    cbx_json_get_str(obj, "expires", &expires, err) < 0 || cbx_json_get_str(obj, "sha256", &digest, err) < 0 ||
	    cbx_scopes_parse(scopes, &t->scopes, err) < 0)
		return cbx_source_wrap(s, obj, err);
	if (strlen(id) != CBX_TOKEN_ID || !cbx_name_valid(id))
		return cbx_source_refuse(s, obj, err, "id: give a name of %d letters and digits", CBX_TOKEN_ID);
	if (!cbx_name_valid(tenant) || (name[0] && !cbx_name_valid(name)))
		return cbx_source_refuse(s, obj, err,
					 "tenant, name: give names of letters, digits, \"_\", \".\" and \"-\"");
	if (!hex_parse(digest, t->digest, sizeof(t->digest)))
		return cbx_source_refuse(s, obj, err, "sha256: give 64 hexadecimal digits, in lower case");
	if (!time_parse(created, &t->created) || (expires[0] && !time_parse(expires, &t->expires)))
		return cbx_source_refuse(s, obj, err, "created, expires: give times such as 2026-01-31T12:00:00Z");
	snprintf(t->id, sizeof(t->id), "%s", id);
	snprintf(t->tenant, sizeof(t->tenant), "%s", tenant);
	snprintf(t->name, sizeof(t->name), "%s", name);
	return 0;
}

static int parse_all(const struct cbx_source *s, struct cbx_tokens *ret, struct cbx_err *err)
{
	static const char *const keys[] = { "tokens", NULL };
	const cJSON *list = cbx_json_member(s->doc.root, "tokens"), *v;
	size_t n = (size_t)cJSON_GetArraySize(list);

	if (!cJSON_IsObject(s->doc.root) || !cJSON_IsArray(list))
		return cbx_source_refuse(s, s->doc.root, err, "give an object with a list of \"tokens\"");
	if (cbx_json_only(s->doc.root, keys, err) < 0)
		return cbx_source_wrap(s, s->doc.root, err);
	if (n > CBX_TOKENS_MAX)
		return cbx_source_refuse(s, list, err, "tokens: more than %d", CBX_TOKENS_MAX);
	ret->all = cbx_xcalloc(n + 1, sizeof(*ret->all));
	cJSON_ArrayForEach(v, list)
		if (parse_one(s, v, &ret->all[ret->n++], err) < 0)
			return -err->code;
	qsort(ret->all, ret->n, sizeof(*ret->all), by_id);
	for (size_t i = 1; i < ret->n; i++)
		if (by_id(&ret->all[i - 1], &ret->all[i]) == 0)
			return cbx_source_refuse(s, list, err, "id: two tokens have the id %s", ret->all[i].id);
	return 0;
}

int cbx_tokens_parse(const char *text, size_t len, const char *label, struct cbx_tokens *ret, struct cbx_err *err)
{
	struct cbx_source s;
	int r;

	memset(ret, 0, sizeof(*ret));
	r = cbx_source_open(&s, label, text, len, err);
	if (r >= 0) {
		r = parse_all(&s, ret, err);
		cbx_source_release(&s);
	}
	if (r < 0) {
		cbx_tokens_release(ret);
		snprintf(err->kind, sizeof(err->kind), "invalid_tokens");
	}
	return r;
}

cJSON *cbx_token_json(const struct cbx_token *t)
{
	cJSON *o = cbx_json_new_obj();
	char when[32];

	cbx_json_set_str(o, "id", t->id);
	cbx_json_set_str(o, "tenant", t->tenant);
	cbx_json_set_str(o, "name", t->name[0] ? t->name : NULL);
	cbx_json_set_str(o, "scopes", cbx_scopes_name(t->scopes));
	cbx_format_time(t->created, when);
	cbx_json_set_str(o, "created", when);
	if (t->expires) {
		cbx_format_time(t->expires, when);
		cbx_json_set_str(o, "expires", when);
	}
	return o;
}

void cbx_tokens_print(const struct cbx_tokens *tokens, struct cbx_buf *out)
{
	cbx_buf_adds(out, "{ \"tokens\": [\n");
	for (size_t i = 0; i < tokens->n; i++) {
		const struct cbx_token *t = &tokens->all[i];
		_cleanup_json_ cJSON *o = cbx_token_json(t);
		char hex[65];

		cbx_hex(t->digest, sizeof(t->digest), hex);
		cbx_json_set_str(o, "sha256", hex);
		cbx_buf_adds(out, i ? ",\n\t" : "\t");
		cbx_json_print(out, o);
	}
	cbx_buf_adds(out, "\n] }\n");
}

void cbx_tokens_release(struct cbx_tokens *tokens)
{
	free(tokens->all);
	memset(tokens, 0, sizeof(*tokens));
}
