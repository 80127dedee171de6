/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_TENANT_JWT_H
#define CBX_TENANT_JWT_H

/*
 * JSON Web Tokens (RFC 7519) that somebody else issues: which are accepted, "jwt" of tenants.json says, and a file of
 * public keys (RFC 7517). A token is a text from anybody until its signature has been verified, and what it says of
 * itself never chooses how: its key says by which algorithms it can be used.
 *
 * rules.c knows the file tenants.json, keys.c and jwt.c use libcrypto. A program that only needs the names of tenants,
 * such as codebox token, is linked without these two.
 */
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct cbx_source;

/* ---- which tokens ---- */

struct cbx_jwt_rules {
	cJSON *doc;	    /* as it was given; the strings below are its own */
	const char *issuer; /* what "iss" must be */
	const char *tenant_claim, *scope_claim;
	const cJSON *audience;	  /* a string or a list of strings, one of which "aud" must have */
	const cJSON *tenants;	  /* by the claim's value, a tenant's name; NULL: the claim's value is one */
	uint64_t leeway;	  /* seconds by which clocks may differ */
	char *path;		  /* of the keys */
	unsigned char digest[32]; /* of all of it but the keys */
};

/* obj: "jwt" of source; dir: of its file, with its slash. Errors have their place. */
int cbx_jwt_rules_parse(const struct cbx_source *source, const cJSON *obj, const char *dir, struct cbx_jwt_rules **ret,
			struct cbx_err *err);
void cbx_jwt_rules_free(struct cbx_jwt_rules *rules); /* NULL is accepted */

/* ---- keys ---- */

struct cbx_jwks;

/* Of programs that verify tokens; others do without keys. */
struct cbx_jwks_ops {
	/* A JWK set. Errors begin with "label:line:column: ". rules: for which the keys are used. */
	int (*parse)(const char *text, size_t len, const char *label, const struct cbx_jwt_rules *rules,
		     struct cbx_jwks **ret, struct cbx_err *err);
	void (*free)(struct cbx_jwks *keys); /* NULL is accepted */
};
extern const struct cbx_jwks_ops cbx_jwks;

size_t cbx_jwks_count(const struct cbx_jwks *keys);
/* Whether a token that was verified before would be with these keys and rules, too. */
bool cbx_jwks_vouch(const struct cbx_jwks *keys, const unsigned char voucher[32]);

/* ---- tokens ---- */

enum cbx_jwt_alg { CBX_JWT_RS256 = 1, CBX_JWT_PS256 = 2, CBX_JWT_ES256 = 4, CBX_JWT_EDDSA = 8 };
unsigned cbx_jwt_alg(const char *name); /* 0: it is not one of these */

/* The key that is meant and fits, or NULL, and why. kid NULL: the token names none. */
struct cbx_jwk;
const struct cbx_jwk *cbx_jwks_find(const struct cbx_jwks *keys, const char *kid, unsigned alg, const char **ret_why);
bool cbx_jwk_verify(const struct cbx_jwk *key, unsigned alg, const void *text, size_t len, const void *signature,
		    size_t signature_len);
const unsigned char *cbx_jwk_voucher(const struct cbx_jwk *key);

#define CBX_JWT_SUBJECT 48

struct cbx_jwt {
	char tenant[CBX_NAME_MAX + 1]; /* which need not exist */
	unsigned scopes;
	int64_t expires; /* seconds since 1970, leeway included */
	unsigned char voucher[32];
	char subject[CBX_JWT_SUBJECT + 1]; /* "sub" as far as it is printable ASCII; for logs */
};

/* NULL: it is good, and *ret says for what. Else why not: a constant text for the operator, not for the client. */
const char *cbx_jwt_check(const struct cbx_jwt_rules *rules, const struct cbx_jwks *keys, const char *text, int64_t now,
			  struct cbx_jwt *ret);
/* Base64 as in URLs, without padding: 0, or -EINVAL for what is not the one text of its bytes. */
struct cbx_buf;
int cbx_jwt_decode(struct cbx_buf *out, const char *p, size_t n);

#endif
