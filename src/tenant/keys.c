/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a key of the set becomes a SubjectPublicKeyInfo, which libcrypto reads and checks. What it can
 * be used for is known from its type, curve and "alg" alone. Keys for something else (encryption, other algorithms) are
 * passed over, as RFC 7517 asks; a secret or a private key does not belong in the file, and is refused.
 *
 * libcrypto's queue of errors is the connections' with TLS, too: nothing may be left in it.
 */
#include <errno.h>
#include <limits.h>
#include <nettle/sha2.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/limits.h"
#include "policy/source.h"
#include "tenant/jwt.h"

#define RSA_BITS_MIN 2048
#define RSA_BITS_MAX 4096 /* what a stranger can make us compute */

struct cbx_jwk {
	EVP_PKEY *key;
	char *kid; /* NULL: it has none */
	unsigned algs;
	unsigned char voucher[32]; /* SHA-256 of the rules' digest, the algorithms and the key */
};

struct cbx_jwks {
	struct cbx_jwk all[CBX_JWKS_KEYS_MAX];
	size_t n;
};

unsigned cbx_jwt_alg(const char *name)
{
	static const struct {
		const char *name;
		unsigned alg;
	} algs[] = { { "RS256", CBX_JWT_RS256 },
		     { "PS256", CBX_JWT_PS256 },
		     { "ES256", CBX_JWT_ES256 },
		     { "EdDSA", CBX_JWT_EDDSA } };

	for (size_t i = 0; i < ARRAY_SIZE(algs); i++)
		if (strcmp(algs[i].name, name) == 0)
			return algs[i].alg;
	return 0;
}

/* ---- from JWK to DER ---- */

static void der_put(struct cbx_buf *out, unsigned char tag, const void *p, size_t n)
{
	cbx_buf_addc(out, (char)tag);
	if (n >= 256)
		cbx_buf_addc(out, (char)0x82);
	if (n >= 256)
		cbx_buf_addc(out, (char)(n >> 8));
	else if (n >= 128)
		cbx_buf_addc(out, (char)0x81);
	cbx_buf_addc(out, (char)(n & 0xff));
	cbx_buf_add(out, p, n);
}

static void der_unsigned(struct cbx_buf *out, const struct cbx_buf *number)
{
	_cleanup_buf_ struct cbx_buf b = { 0 };
	size_t skip = 0;

	while (skip < number->len && !number->data[skip])
		skip++;
	if (skip == number->len || (unsigned char)number->data[skip] & 0x80)
		cbx_buf_addc(&b, 0);
	cbx_buf_add(&b, number->data + skip, number->len - skip);
	der_put(out, 0x02, b.data, b.len);
}

/* One parameter of the key; false: it is not there, or not from min to max bytes. */
static bool number_of(const cJSON *jwk, const char *name, size_t min, size_t max, struct cbx_buf *out)
{
	const char *text = cbx_json_text(jwk, name);

	return text && strlen(text) <= max * 4 / 3 + 4 && cbx_jwt_decode(out, text, strlen(text)) == 0 &&
	       out->len >= min && out->len <= max;
}

static bool rsa_info(const cJSON *jwk, struct cbx_buf *out)
{
	static const unsigned char algorithm[] = { 0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86,
						   0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00 };
	_cleanup_buf_ struct cbx_buf n = { 0 }, e = { 0 }, pair = { 0 }, key = { 0 }, info = { 0 };

	if (!number_of(jwk, "n", RSA_BITS_MIN / 8, RSA_BITS_MAX / 8 + 1, &n) || !number_of(jwk, "e", 3, 4, &e) ||
	    !e.data[0] || !(e.data[e.len - 1] & 1))
		return false;
	der_unsigned(&pair, &n);
	der_unsigned(&pair, &e);
	cbx_buf_addc(&key, 0); /* unused bits of a bit string */
	der_put(&key, 0x30, pair.data, pair.len);
	cbx_buf_add(&info, algorithm, sizeof(algorithm));
	der_put(&info, 0x03, key.data, key.len);
	der_put(out, 0x30, info.data, info.len);
	return true;
}

static bool p256_info(const cJSON *jwk, struct cbx_buf *out)
{
	static const unsigned char before[] = { 0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48,
						0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
						0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04 };
	_cleanup_buf_ struct cbx_buf x = { 0 }, y = { 0 };

	if (!number_of(jwk, "x", 32, 32, &x) || !number_of(jwk, "y", 32, 32, &y))
		return false;
	cbx_buf_add(out, before, sizeof(before));
	cbx_buf_add(out, x.data, x.len);
	cbx_buf_add(out, y.data, y.len);
	return true;
}

static bool ed25519_info(const cJSON *jwk, struct cbx_buf *out)
{
	static const unsigned char before[] = {
		0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00
	};
	_cleanup_buf_ struct cbx_buf x = { 0 };

	if (!number_of(jwk, "x", 32, 32, &x))
		return false;
	cbx_buf_add(out, before, sizeof(before));
	cbx_buf_add(out, x.data, x.len);
	return true;
}

/* ---- one key ---- */

static bool has(const cJSON *jwk, const char *name)
{
	return cbx_json_member(jwk, name);
}

static bool is(const cJSON *jwk, const char *name, const char *value)
{
	const char *text = cbx_json_text(jwk, name);

	return text && strcmp(text, value) == 0;
}

/* Which algorithms its type allows, and how it is read; 0: it is for something else. */
static unsigned algs_of(const cJSON *jwk, bool (**ret_info)(const cJSON *jwk, struct cbx_buf *out))
{
	const cJSON *ops = cbx_json_member(jwk, "key_ops"), *v;
	unsigned algs = is(jwk, "kty", "RSA")				     ? CBX_JWT_RS256 | CBX_JWT_PS256
			: is(jwk, "kty", "EC") && is(jwk, "crv", "P-256")    ? CBX_JWT_ES256
			: is(jwk, "kty", "OKP") && is(jwk, "crv", "Ed25519") ? CBX_JWT_EDDSA
									     : 0;
	bool verifies = !ops;

	*ret_info = algs == CBX_JWT_ES256 ? p256_info : algs == CBX_JWT_EDDSA ? ed25519_info : rsa_info;
	cJSON_ArrayForEach(v, ops)
		verifies = verifies || (cJSON_IsString(v) && strcmp(v->valuestring, "verify") == 0);
	if (!verifies || (has(jwk, "use") && !is(jwk, "use", "sig")))
		return 0;
	if (has(jwk, "alg"))
		algs &= cbx_json_text(jwk, "alg") ? cbx_jwt_alg(cbx_json_text(jwk, "alg")) : 0;
	return algs;
}

static void vouch(struct cbx_jwk *key, const struct cbx_jwt_rules *rules, const struct cbx_buf *info)
{
	struct sha256_ctx ctx;
	uint8_t algs = (uint8_t)key->algs;

	sha256_init(&ctx);
	sha256_update(&ctx, sizeof(rules->digest), rules->digest);
	sha256_update(&ctx, 1, &algs);
	sha256_update(&ctx, info->len, (const uint8_t *)info->data);
	sha256_digest(&ctx, sizeof(key->voucher), key->voucher);
}

static EVP_PKEY *read_info(const struct cbx_buf *info, bool rsa)
{
	const unsigned char *p = (const unsigned char *)info->data;
	EVP_PKEY *key = d2i_PUBKEY(NULL, &p, (long)info->len);

	if (key && rsa && (EVP_PKEY_bits(key) < RSA_BITS_MIN || EVP_PKEY_bits(key) > RSA_BITS_MAX)) {
		EVP_PKEY_free(key);
		key = NULL;
	}
	ERR_clear_error();
	return key;
}

static int add_key(const struct cbx_source *s, const cJSON *jwk, const struct cbx_jwt_rules *rules,
		   struct cbx_jwks *keys, struct cbx_err *err)
{
	struct cbx_jwk *key = &keys->all[keys->n];
	_cleanup_buf_ struct cbx_buf info = { 0 };
	bool (*get_info)(const cJSON *jwk, struct cbx_buf *out);
	const char *kid = NULL;

	if (!cJSON_IsObject(jwk))
		return cbx_source_refuse(s, jwk, err, "keys: give objects");
	if (is(jwk, "kty", "oct") || has(jwk, "k") || has(jwk, "d"))
		return cbx_source_refuse(
			s, jwk, err, "keys: this is a secret or a private key; give the issuer's public keys alone");
	if (cbx_json_get_str(jwk, "kid", &kid, err) < 0)
		return cbx_source_wrap(s, jwk, err);
	key->algs = algs_of(jwk, &get_info);
	if (!key->algs)
		return 0;
	key->key = get_info(jwk, &info) ? read_info(&info, key->algs & (CBX_JWT_RS256 | CBX_JWT_PS256)) : NULL;
	if (!key->key)
		return cbx_source_refuse(
			s, jwk, err,
			"keys: this key cannot be used; give RSA of %d to %d bits and an exponent from "
			"65537, P-256 or Ed25519",
			RSA_BITS_MIN, RSA_BITS_MAX);
	for (size_t i = 0; i < keys->n; i++) {
		if (kid && keys->all[i].kid && strcmp(keys->all[i].kid, kid) == 0) {
			EVP_PKEY_free(take_ptr(&key->key));
			return cbx_source_refuse(s, jwk, err, "keys: two keys have the kid \"%.80s\"", kid);
		}
	}
	key->kid = kid ? cbx_xstrdup(kid) : NULL;
	vouch(key, rules, &info);
	keys->n++;
	return 0;
}

/* ---- the set ---- */

static void jwks_free(struct cbx_jwks *keys)
{
	for (size_t i = 0; keys && i < keys->n; i++) {
		EVP_PKEY_free(keys->all[i].key);
		free(keys->all[i].kid);
	}
	free(keys);
}

static int add_all(const struct cbx_source *s, const struct cbx_jwt_rules *rules, struct cbx_jwks *keys,
		   struct cbx_err *err)
{
	const cJSON *list = cbx_json_member(s->doc.root, "keys"), *v;

	if (!cJSON_IsObject(s->doc.root) || !cJSON_IsArray(list))
		return cbx_source_refuse(s, s->doc.root, err, "give a JWK set: an object with a list of \"keys\"");
	if (cJSON_GetArraySize(list) > CBX_JWKS_KEYS_MAX)
		return cbx_source_refuse(s, list, err, "keys: more than %d", CBX_JWKS_KEYS_MAX);
	cJSON_ArrayForEach(v, list)
		if (add_key(s, v, rules, keys, err) < 0)
			return -err->code;
	if (!keys->n)
		return cbx_source_refuse(
			s, list, err,
			"keys: none is for RS256, PS256, ES256 or EdDSA; give the issuer's keys for signatures");
	return 0;
}

static int jwks_parse(const char *text, size_t len, const char *label, const struct cbx_jwt_rules *rules,
		      struct cbx_jwks **ret, struct cbx_err *err)
{
	struct cbx_source s;
	struct cbx_jwks *keys;
	int r = cbx_source_open(&s, label, text, len, err);

	if (r >= 0) {
		keys = cbx_xcalloc(1, sizeof(*keys));
		r = add_all(&s, rules, keys, err);
		cbx_source_release(&s);
		if (r < 0)
			jwks_free(keys);
		else
			*ret = keys;
	}
	if (r < 0)
		snprintf(err->kind, sizeof(err->kind), "invalid_tenants");
	return r;
}

const struct cbx_jwks_ops cbx_jwks = { .parse = jwks_parse, .free = jwks_free };

size_t cbx_jwks_count(const struct cbx_jwks *keys)
{
	return keys->n;
}

bool cbx_jwks_vouch(const struct cbx_jwks *keys, const unsigned char voucher[32])
{
	for (size_t i = 0; i < keys->n; i++)
		if (memcmp(keys->all[i].voucher, voucher, sizeof(keys->all[i].voucher)) == 0)
			return true;
	return false;
}

const struct cbx_jwk *cbx_jwks_find(const struct cbx_jwks *keys, const char *kid, unsigned alg, const char **ret_why)
{
	const struct cbx_jwk *found = NULL;

	*ret_why = "its kid is not that of a key in the file";
	if (!kid) {
		*ret_why = "it has no kid, and the file has several keys";
		found = keys->n == 1 ? &keys->all[0] : NULL;
	}
	for (size_t i = 0; kid && i < keys->n; i++)
		if (keys->all[i].kid && strcmp(keys->all[i].kid, kid) == 0)
			found = &keys->all[i];
	if (found && !(found->algs & alg)) {
		*ret_why = "its alg is not one that its key is for";
		return NULL;
	}
	return found;
}

const unsigned char *cbx_jwk_voucher(const struct cbx_jwk *key)
{
	return key->voucher;
}

/* ---- signatures ---- */

/* Of JWS the two numbers one behind the other, for libcrypto as DER. Its length; 0: it is not one. *ret is libcrypto's.
 */
static size_t ecdsa_der(const unsigned char *p, size_t n, unsigned char **ret)
{
	ECDSA_SIG *sig = n == 64 ? ECDSA_SIG_new() : NULL;
	BIGNUM *r = sig ? BN_bin2bn(p, 32, NULL) : NULL, *s = sig ? BN_bin2bn(p + 32, 32, NULL) : NULL;
	int len = 0;

	*ret = NULL;
	if (r && s && ECDSA_SIG_set0(sig, r, s) == 1) {
		r = s = NULL;
		len = i2d_ECDSA_SIG(sig, ret);
	}
	BN_free(r);
	BN_free(s);
	ECDSA_SIG_free(sig);
	return len > 0 ? (size_t)len : 0;
}

bool cbx_jwk_verify(const struct cbx_jwk *key, unsigned alg, const void *text, size_t len, const void *signature,
		    size_t signature_len)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	const unsigned char *sig = signature;
	unsigned char *der = NULL;
	EVP_PKEY_CTX *params;
	bool good;

	if (alg == CBX_JWT_ES256) {
		signature_len = ecdsa_der(signature, signature_len, &der);
		sig = der;
	}
	good = ctx && sig && signature_len &&
	       EVP_DigestVerifyInit(ctx, &params, alg == CBX_JWT_EDDSA ? NULL : EVP_sha256(), NULL, key->key) == 1;
	if (good && alg == CBX_JWT_PS256)
		good = EVP_PKEY_CTX_set_rsa_padding(params, RSA_PKCS1_PSS_PADDING) == 1 &&
		       EVP_PKEY_CTX_set_rsa_pss_saltlen(params, RSA_PSS_SALTLEN_DIGEST) == 1;
	good = good && EVP_DigestVerify(ctx, sig, signature_len, text, len) == 1;
	OPENSSL_free(der);
	EVP_MD_CTX_free(ctx);
	ERR_clear_error();
	return good;
}
