/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the authority lives as long as its process, which is as long as the session, and signs names of
 * the session's policy only. All its certificates have one key. Extensions are those that strict verifiers ask for
 * (RFC 5280): Python does by default since 3.13.
 */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/trust.h"
#include "tls/tls.h"

#define DAYS 60 /* longer than any session lives */

_Static_assert(DAYS * 86400 > CBX_TTL_MAX_S, "its certificates are good for all of a session");

struct certified {
	char name[256];
	X509 *cert;
};

struct authority {
	EVP_PKEY *key, *server_key;
	X509 *cert;
	struct certified all[CBX_NETWORK_RULES_MAX]; /* a rule with secrets is about one name */
	size_t n;
};

/* ---- certificates ---- */

static bool extend(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *e;
	bool ok;

	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	ok = e && X509_add_ext(cert, e, -1) == 1;
	X509_EXTENSION_free(e);
	return ok;
}

static bool set_serial(X509 *cert)
{
	unsigned char bytes[16];
	BIGNUM *n = RAND_bytes(bytes, sizeof(bytes)) == 1 ? BN_bin2bn(bytes, sizeof(bytes), NULL) : NULL;
	bool ok = n && BN_clear_bit(n, 127) == 1 && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(cert));

	BN_free(n);
	return ok || (n && X509_get_serialNumber(cert));
}

static bool set_name(X509_NAME *name, const char *text)
{
	/* A common name has 64 characters at most; whom a certificate is for its alternative name says. */
	char cut[65];

	snprintf(cut, sizeof(cut), "%s", text);
	return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)cut, -1, -1, 0) == 1;
}

/* Without extensions and signature. */
static X509 *certificate(const char *name, EVP_PKEY *key, const X509 *issuer)
{
	X509 *cert = X509_new();

	if (!cert)
		return NULL;
	if (X509_set_version(cert, X509_VERSION_3) == 1 && set_serial(cert) &&
	    X509_gmtime_adj(X509_getm_notBefore(cert), -86400) &&
	    X509_gmtime_adj(X509_getm_notAfter(cert), 86400L * DAYS) && X509_set_pubkey(cert, key) == 1 &&
	    set_name(X509_get_subject_name(cert), name) &&
	    X509_set_issuer_name(cert, issuer ? X509_get_subject_name(issuer) : X509_get_subject_name(cert)) == 1)
		return cert;
	X509_free(cert);
	return NULL;
}

static X509 *make_authority(EVP_PKEY *key)
{
	X509 *cert = certificate("codebox, for one session", key, NULL);

	if (cert && extend(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
	    extend(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign") &&
	    extend(cert, cert, NID_subject_key_identifier, "hash") && X509_sign(cert, key, EVP_sha256()) > 0)
		return cert;
	X509_free(cert);
	return NULL;
}

static X509 *make_server(const struct authority *a, const char *name)
{
	X509 *cert = certificate(name, a->server_key, a->cert);
	char alternative[300];

	snprintf(alternative, sizeof(alternative), "DNS:%s", name);
	if (cert && extend(cert, a->cert, NID_basic_constraints, "critical,CA:FALSE") &&
	    extend(cert, a->cert, NID_key_usage, "critical,digitalSignature") &&
	    extend(cert, a->cert, NID_ext_key_usage, "serverAuth") &&
	    extend(cert, a->cert, NID_subject_key_identifier, "hash") &&
	    extend(cert, a->cert, NID_authority_key_identifier, "keyid") &&
	    extend(cert, a->cert, NID_subject_alt_name, alternative) && X509_sign(cert, a->key, EVP_sha256()) > 0)
		return cert;
	X509_free(cert);
	return NULL;
}

int authority_new(struct authority **ret, struct cbx_err *err)
{
	struct authority *a = cbx_xcalloc(1, sizeof(*a));

	a->key = EVP_EC_gen("P-256");
	a->server_key = EVP_EC_gen("P-256");
	a->cert = a->key && a->server_key ? make_authority(a->key) : NULL;
	*ret = a;
	return a->cert ? 0
		       : cbx_refuse(err, "network", EIO, "make an authority for TLS: %s",
				    ERR_reason_error_string(ERR_peek_last_error()));
}

void authority_print(const struct authority *a, struct cbx_buf *out)
{
	BIO *b = BIO_new(BIO_s_mem());
	char *p;
	long n;

	if (b && PEM_write_bio_X509(b, a->cert) == 1 && (n = BIO_get_mem_data(b, &p)) > 0)
		cbx_buf_add(out, p, (size_t)n);
	BIO_free(b);
}

static X509 *certified(struct authority *a, const char *name)
{
	struct certified *one;

	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->all[i].name, name) == 0)
			return a->all[i].cert;
	if (a->n == CBX_NETWORK_RULES_MAX)
		return NULL;
	one = &a->all[a->n];
	one->cert = make_server(a, name);
	if (!one->cert)
		return NULL;
	snprintf(one->name, sizeof(one->name), "%s", name);
	a->n++;
	return one->cert;
}

bool authority_certify(struct authority *a, SSL *ssl, const char *name)
{
	X509 *cert = certified(a, name);

	return cert && SSL_use_certificate(ssl, cert) == 1 && SSL_use_PrivateKey(ssl, a->server_key) == 1;
}

/* ---- settings ---- */

SSL_CTX *context_new(bool inside, struct cbx_err *err)
{
	SSL_CTX *ctx = SSL_CTX_new(inside ? TLS_server_method() : TLS_client_method());

	if (!ctx || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1) {
		cbx_refuse(err, "network", EIO, "set TLS up: %s", ERR_reason_error_string(ERR_peek_last_error()));
		SSL_CTX_free(ctx);
		return NULL;
	}
	SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(ctx, 0);
	return ctx;
}

int context_trust_machine(SSL_CTX *ctx, struct cbx_err *err)
{
	const char *file = cbx_trust_of_machine();

	if (file && SSL_CTX_load_verify_file(ctx, file) == 1)
		return 0;
	return SSL_CTX_set_default_verify_paths(ctx) == 1
		       ? 0
		       : cbx_refuse(err, "network", EIO,
				    "the machine's certificates cannot be read; install ca-certificates");
}
