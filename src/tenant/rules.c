/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: "jwt" of tenants.json is kept as the tree that was read, and what is needed with each token is
 * found once. Its digest is part of what vouches for a token: after any change of the rules tokens are judged anew.
 */
#include <errno.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/limits.h"
#include "policy/source.h"
#include "tenant/jwt.h"

#define LEEWAY_DEFAULT_S 60

static int parse_audience(struct cbx_jwt_rules *rules, struct cbx_err *err)
{
	const cJSON *a = cbx_json_member(rules->doc, "audience"), *v;
	int n = cJSON_GetArraySize(a);
	bool right = cJSON_IsString(a) ? a->valuestring[0] : cJSON_IsArray(a) && n > 0 && n <= CBX_JWT_AUDIENCES_MAX;

	if (cJSON_IsArray(a))
		cJSON_ArrayForEach(v, a)
			right = right && cJSON_IsString(v) && v->valuestring[0];
	if (!right)
		return cbx_refuse(err, "invalid_tenants", EINVAL,
				  "jwt.audience: give what \"aud\" of a token has, a string or a list of 1 to %d "
				  "strings, such as \"https://box.example.org/mcp\"",
				  CBX_JWT_AUDIENCES_MAX);
	rules->audience = a;
	return 0;
}

static int parse_tenants(struct cbx_jwt_rules *rules, struct cbx_err *err)
{
	const cJSON *v;
	int r = cbx_json_get_obj(rules->doc, "tenants", &rules->tenants, err);

	if (r <= 0)
		return r;
	if (cJSON_GetArraySize(rules->tenants) > CBX_TENANTS_MAX)
		return cbx_refuse(err, "invalid_tenants", EINVAL, "jwt.tenants: too many; give up to %d",
				  CBX_TENANTS_MAX);
	cJSON_ArrayForEach(v, rules->tenants)
		if (!cJSON_IsString(v) || !cbx_name_valid(v->valuestring))
			return cbx_refuse(err, "invalid_tenants", EINVAL,
					  "jwt.tenants: \"%.80s\": give the name of a tenant", v->string);
	return 0;
}

static int parse_leeway(struct cbx_jwt_rules *rules, struct cbx_err *err)
{
	const char *text = NULL;
	uint64_t ms = LEEWAY_DEFAULT_S * 1000;
	int r = cbx_json_get_str(rules->doc, "leeway", &text, err);

	if (r > 0)
		r = cbx_parse_duration_ms(text, "jwt.leeway", 0, CBX_JWT_LEEWAY_MAX_S * 1000ull, &ms, err);
	rules->leeway = ms / 1000;
	return r;
}

static void digest(struct cbx_jwt_rules *rules)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	struct sha256_ctx ctx;

	cbx_json_print(&text, rules->doc);
	sha256_init(&ctx);
	sha256_update(&ctx, text.len, (const uint8_t *)text.data);
	sha256_digest(&ctx, sizeof(rules->digest), rules->digest);
}

static int parse(struct cbx_jwt_rules *rules, const char *dir, struct cbx_err *err)
{
	static const char *const keys[] = { "issuer",	   "audience", "keys",	 "tenant_claim",
					    "scope_claim", "tenants",  "leeway", NULL };
	const char *path = NULL;

	rules->tenant_claim = "tenant";
	rules->scope_claim = "scope";
	if (cbx_json_only(rules->doc, keys, err) < 0 ||
	    cbx_json_get_str(rules->doc, "issuer", &rules->issuer, err) < 0 ||
	    cbx_json_get_str(rules->doc, "keys", &path, err) < 0 ||
	    cbx_json_get_str(rules->doc, "tenant_claim", &rules->tenant_claim, err) < 0 ||
	    cbx_json_get_str(rules->doc, "scope_claim", &rules->scope_claim, err) < 0)
		return -err->code;
	if (!rules->issuer ||
	    (!cbx_starts_with(rules->issuer, "https://") && !cbx_starts_with(rules->issuer, "http://")))
		return cbx_refuse(err, "invalid_tenants", EINVAL,
				  "jwt.issuer: give what \"iss\" of a token is, such as \"https://login.example.org\"");
	if (!path || !path[0])
		return cbx_refuse(err, "invalid_tenants", EINVAL,
				  "jwt.keys: give the file with the issuer's public keys, a JWK set");
	if (!rules->tenant_claim[0] || !rules->scope_claim[0])
		return cbx_refuse(err, "invalid_tenants", EINVAL,
				  "jwt.tenant_claim, jwt.scope_claim: give names of claims");
	rules->path = cbx_xasprintf("%s%s", path[0] == '/' ? "" : dir, path);
	if (parse_audience(rules, err) < 0 || parse_tenants(rules, err) < 0)
		return -err->code;
	return parse_leeway(rules, err);
}

int cbx_jwt_rules_parse(const struct cbx_source *source, const cJSON *obj, const char *dir, struct cbx_jwt_rules **ret,
			struct cbx_err *err)
{
	struct cbx_jwt_rules *rules;
	int r;

	if (!cJSON_IsObject(obj))
		return cbx_source_refuse(source, obj, err, "jwt: wrong type; give an object");
	rules = cbx_xcalloc(1, sizeof(*rules));
	rules->doc = cJSON_Duplicate(obj, true);
	if (!rules->doc)
		abort();
	r = parse(rules, dir, err);
	if (r < 0) {
		cbx_jwt_rules_free(rules);
		return cbx_source_wrap(source, obj, err);
	}
	digest(rules);
	*ret = rules;
	return 0;
}

void cbx_jwt_rules_free(struct cbx_jwt_rules *rules)
{
	if (!rules)
		return;
	cJSON_Delete(rules->doc);
	free(rules->path);
	free(rules);
}
