/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens of an issuer, and its keys. What is before the first end of a line is a header, and what follows it claims:
 * they are signed, so that all is looked at. Without a signature nothing is accepted, whatever the input is. */
#include <openssl/evp.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "fuzz.h"
#include "policy/source.h"
#include "tenant/tenant.h"

#define NOW 1800000000

static void add(struct cbx_buf *out, const void *p, size_t n)
{
	_cleanup_buf_ struct cbx_buf b = { 0 }, back = { 0 };
	size_t at = out->len;

	cbx_base64_encode(&b, p, n);
	for (size_t i = 0; i < b.len && b.data[i] != '='; i++)
		cbx_buf_addc(out, b.data[i] == '+' ? '-' : b.data[i] == '/' ? '_' : b.data[i]);
	must(cbx_jwt_decode(&back, cbx_buf_str(out) + at, out->len - at) == 0);
	must(back.len == n && (!n || memcmp(back.data, p, n) == 0));
}

static struct cbx_jwt_rules *rules_of(const char *text)
{
	struct cbx_jwt_rules *rules;
	struct cbx_source source;
	struct cbx_err err;

	must(cbx_source_open(&source, "rules", text, strlen(text), &err) >= 0);
	must(cbx_jwt_rules_parse(&source, source.doc.root, "", &rules, &err) >= 0);
	cbx_source_release(&source);
	return rules;
}

static struct cbx_jwks *keys_of(EVP_PKEY *key, const struct cbx_jwt_rules *rules)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	unsigned char public[32];
	size_t n = sizeof(public);
	struct cbx_jwks *keys;
	struct cbx_err err;

	must(EVP_PKEY_get_raw_public_key(key, public, &n) == 1);
	cbx_buf_adds(&text, "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"k\",\"x\":\"");
	add(&text, public, n);
	cbx_buf_adds(&text, "\"}]}");
	must(cbx_jwks.parse(text.data, text.len, "keys", rules, &keys, &err) >= 0);
	return keys;
}

static void sign(EVP_PKEY *key, struct cbx_buf *token)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	unsigned char signature[64];
	size_t n = sizeof(signature);

	must(EVP_DigestSignInit(ctx, NULL, NULL, NULL, key) == 1);
	must(EVP_DigestSign(ctx, signature, &n, (const unsigned char *)token->data, token->len) == 1);
	EVP_MD_CTX_free(ctx);
	cbx_buf_addc(token, '.');
	add(token, signature, n);
}

static void judge(const struct cbx_jwt_rules *rules, const struct cbx_jwks *keys, const char *token, bool is_signed)
{
	struct cbx_jwt jwt;
	const char *why = cbx_jwt_check(rules, keys, token, NOW, &jwt);

	must(why || is_signed);
	if (why)
		return;
	must(cbx_name_valid(jwt.tenant) && !(jwt.scopes & ~(unsigned)CBX_SCOPES_USUAL) && jwt.expires > NOW);
	must(cbx_jwks_vouch(keys, jwt.voucher) && strlen(jwt.subject) <= CBX_JWT_SUBJECT);
	for (const char *p = jwt.subject; *p; p++)
		must(*p > ' ' && *p < 0x7f && *p != '"');
}

static void judge_keys(const char *text, size_t size, const struct cbx_jwt_rules *rules)
{
	struct cbx_jwks *keys = NULL;
	struct cbx_err err = { 0 };

	if (cbx_jwks.parse(text, size, "keys", rules, &keys, &err) < 0) {
		must(err.code && strncmp(err.msg, "keys:", 5) == 0 && !keys);
		return;
	}
	must(cbx_jwks_count(keys) > 0);
	judge(rules, keys, "eyJhbGciOiJFUzI1NiJ9.e30.AAAA", false);
	cbx_jwks.free(keys);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned char secret[32] = { 7 };
	static const char text[] = "{\"issuer\":\"https://i\",\"audience\":[\"a\",\"b\"],\"keys\":\"k\"}";
	EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, secret, sizeof(secret));
	struct cbx_jwt_rules *rules = rules_of(text);
	struct cbx_jwks *keys = keys_of(key, rules);
	_cleanup_buf_ struct cbx_buf token = { 0 }, line = { 0 };
	const uint8_t *end = size ? memchr(data, '\n', size) : NULL;

	cbx_buf_add(&line, data, size);
	judge(rules, keys, cbx_buf_str(&line), false);
	judge_keys(cbx_buf_str(&line), size, rules);
	if (end) {
		add(&token, data, (size_t)(end - data));
		cbx_buf_addc(&token, '.');
		add(&token, end + 1, size - (size_t)(end + 1 - data));
		sign(key, &token);
		judge(rules, keys, token.data, true);
	}
	cbx_jwks.free(keys);
	cbx_jwt_rules_free(rules);
	EVP_PKEY_free(key);
	return 0;
}
