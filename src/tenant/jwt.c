/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a token is three texts in base64 between dots: a header, claims, a signature over both. Of the
 * header only alg, kid, typ and crit are looked at: keys that a token brings along, or names the address of, are
 * nothing to us. Nothing of the claims is parsed before the signature is verified. Then each has to be right, and
 * whatever is missing, doubled or of another type is wrong.
 */
#include "tenant/jwt.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/limits.h"
#include "tenant/scope.h"

#define TIME_MAX 253402300799.0 /* the year 9999 */

struct parts {
	const char *header, *claims, *signature;
	size_t header_len, claims_len, signature_len;
};

int cbx_jwt_decode(struct cbx_buf *out, const char *p, size_t n)
{
	_cleanup_buf_ struct cbx_buf b = { 0 };

	for (size_t i = 0; i < n; i++) {
		if (p[i] == '+' || p[i] == '/' || p[i] == '=')
			return -EINVAL;
		cbx_buf_addc(&b, p[i] == '-' ? '+' : p[i] == '_' ? '/' : p[i]);
	}
	while (b.len % 4)
		cbx_buf_addc(&b, '=');
	if (!n)
		return 0;
	return n % 4 == 1 ? -EINVAL : cbx_base64_decode(out, b.data, b.len);
}

static bool split(const char *text, struct parts *ret)
{
	const char *one = strchr(text, '.'), *two = one ? strchr(one + 1, '.') : NULL;

	if (!two || strchr(two + 1, '.'))
		return false;
	ret->header = text;
	ret->header_len = (size_t)(one - text);
	ret->claims = one + 1;
	ret->claims_len = (size_t)(two - one - 1);
	ret->signature = two + 1;
	ret->signature_len = strlen(two + 1);
	return true;
}

/* One of the two objects. doc is to be released in either case. */
static bool parse(const char *p, size_t n, struct cbx_json_doc *doc)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	struct cbx_err ignored;

	return cbx_jwt_decode(&text, p, n) == 0 &&
	       cbx_json_parse_most(cbx_buf_str(&text), text.len, CBX_JWT_VALUES_MAX, doc, &ignored) >= 0 &&
	       !doc->problem.code && cJSON_IsObject(doc->root);
}

static const cJSON *claim(const cJSON *claims, const char *name)
{
	return cbx_json_member(claims, name);
}

/* ---- the header ---- */

static const char *check_header(const struct cbx_jwks *keys, const struct parts *parts, unsigned *ret_alg,
				const struct cbx_jwk **ret_key)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	const char *why = NULL, *alg, *typ;

	if (!parse(parts->header, parts->header_len, &doc))
		return "its header is not a JSON object in base64url, with each member once";
	alg = cbx_json_text(doc.root, "alg");
	*ret_alg = alg ? cbx_jwt_alg(alg) : 0;
	if (!*ret_alg)
		return "its alg is not RS256, PS256, ES256 or EdDSA";
	if (claim(doc.root, "crit"))
		return "its header has crit: extensions that it wants to be understood";
	typ = cbx_json_text(doc.root, "typ");
	if (claim(doc.root, "typ") && (!typ || (strcasecmp(typ, "JWT") != 0 && strcasecmp(typ, "at+jwt") != 0 &&
						strcasecmp(typ, "application/at+jwt") != 0)))
		return "its typ is not JWT or at+jwt: it is for something else";
	if (claim(doc.root, "kid") && !cbx_json_text(doc.root, "kid"))
		return "its kid is not a string";
	*ret_key = cbx_jwks_find(keys, cbx_json_text(doc.root, "kid"), *ret_alg, &why);
	return *ret_key ? NULL : why;
}

static const char *check_signature(const struct cbx_jwks *keys, const struct parts *parts, struct cbx_jwt *ret)
{
	_cleanup_buf_ struct cbx_buf signature = { 0 };
	const struct cbx_jwk *key = NULL;
	unsigned alg;
	const char *why = check_header(keys, parts, &alg, &key);

	if (why)
		return why;
	if (cbx_jwt_decode(&signature, parts->signature, parts->signature_len) < 0 ||
	    !cbx_jwk_verify(key, alg, parts->header, parts->header_len + 1 + parts->claims_len, cbx_buf_str(&signature),
			    signature.len))
		return "its signature is not that of its key";
	memcpy(ret->voucher, cbx_jwk_voucher(key), sizeof(ret->voucher));
	return NULL;
}

/* ---- claims ---- */

static bool has(const cJSON *list, const char *text)
{
	const cJSON *v;

	if (cJSON_IsString(list))
		return strcmp(list->valuestring, text) == 0;
	cJSON_ArrayForEach(v, list)
		if (cJSON_IsString(v) && strcmp(v->valuestring, text) == 0)
			return true;
	return false;
}

static bool for_us(const struct cbx_jwt_rules *rules, const cJSON *aud)
{
	const cJSON *v;

	if (!cJSON_IsString(aud) && !cJSON_IsArray(aud))
		return false;
	if (cJSON_IsString(rules->audience))
		return has(aud, rules->audience->valuestring);
	cJSON_ArrayForEach(v, rules->audience)
		if (has(aud, v->valuestring))
			return true;
	return false;
}

/* Seconds since 1970, fractions cut; -1: it is not a time. */
static int64_t time_of(const cJSON *v)
{
	return cJSON_IsNumber(v) && v->valuedouble >= 0 && v->valuedouble <= TIME_MAX ? (int64_t)v->valuedouble : -1;
}

static const char *check_times(const struct cbx_jwt_rules *rules, const cJSON *claims, int64_t now, struct cbx_jwt *ret)
{
	int64_t leeway = (int64_t)rules->leeway, expires = time_of(claim(claims, "exp"));
	const cJSON *from = claim(claims, "nbf");

	if (expires < 0)
		return "its exp is missing, or is not a time";
	if (expires + leeway <= now)
		return "it has expired (exp)";
	if (from && time_of(from) < 0)
		return "its nbf is not a time";
	if (from && time_of(from) > now + leeway)
		return "it is not valid yet (nbf)";
	ret->expires = expires + leeway;
	return NULL;
}

static const char *check_tenant(const struct cbx_jwt_rules *rules, const cJSON *claims, struct cbx_jwt *ret)
{
	const char *value = cbx_json_text(claims, rules->tenant_claim), *name = value;

	if (!value)
		return "the claim that names its tenant is missing, or is not a string";
	if (rules->tenants)
		name = cbx_json_text(rules->tenants, value);
	if (!name || !cbx_name_valid(name))
		return "the claim that names its tenant does not name one";
	snprintf(ret->tenant, sizeof(ret->tenant), "%s", name);
	return NULL;
}

/* One of ours, of many that it may have. What is about all tenants is not for an issuer to give. */
static unsigned scope_of(const char *p, size_t n)
{
	char name[16];
	struct cbx_err ignored;
	unsigned scope = 0;

	if (n >= sizeof(name) || memchr(p, ',', n))
		return 0;
	memcpy(name, p, n);
	name[n] = '\0';
	return cbx_scopes_parse(name, &scope, &ignored) < 0 ? 0 : scope & CBX_SCOPES_USUAL;
}

static unsigned scopes_of(const cJSON *v)
{
	unsigned scopes = 0;
	const cJSON *one;

	cJSON_ArrayForEach(one, v)
		if (cJSON_IsArray(v) && cJSON_IsString(one))
			scopes |= scope_of(one->valuestring, strlen(one->valuestring));
	for (const char *p = cJSON_IsString(v) ? v->valuestring : ""; *p; p += strspn(p, " ")) {
		size_t n = strcspn(p, " ");

		scopes |= scope_of(p, n);
		p += n;
	}
	return scopes;
}

static void note_subject(const cJSON *claims, struct cbx_jwt *ret)
{
	const char *sub = cbx_json_text(claims, "sub");
	size_t i;

	for (i = 0; sub && sub[i] && i < CBX_JWT_SUBJECT; i++)
		ret->subject[i] = sub[i] > ' ' && sub[i] < 0x7f && sub[i] != '"' && sub[i] != '\\' ? sub[i] : '?';
	ret->subject[i] = '\0';
}

const char *cbx_jwt_check(const struct cbx_jwt_rules *rules, const struct cbx_jwks *keys, const char *text, int64_t now,
			  struct cbx_jwt *ret)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	struct parts parts;
	const char *why, *issuer;

	memset(ret, 0, sizeof(*ret));
	if (strnlen(text, CBX_JWT_MAX + 1) > CBX_JWT_MAX)
		return "it is too long";
	if (!split(text, &parts))
		return "it does not consist of three parts";
	why = check_signature(keys, &parts, ret);
	if (why)
		return why;
	if (!parse(parts.claims, parts.claims_len, &doc))
		return "its claims are not a JSON object in base64url, with each member once";
	issuer = cbx_json_text(doc.root, "iss");
	if (!issuer || strcmp(issuer, rules->issuer) != 0)
		return "its iss is not the issuer";
	if (!for_us(rules, claim(doc.root, "aud")))
		return "its aud has none of the audiences";
	if (claim(doc.root, "cnf"))
		return "it is bound to a key of its client (cnf), and cannot be shown as it is";
	why = check_times(rules, doc.root, now, ret);
	if (!why)
		why = check_tenant(rules, doc.root, ret);
	ret->scopes = scopes_of(claim(doc.root, rules->scope_claim));
	note_subject(doc.root, ret);
	return why;
}
