/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: libevent's filter above OpenSSL does the work. TLS 1.2 and later only, no renegotiation and no
 * compression; buffers of connections that wait are given back. A connection keeps what it began with, so files that
 * are read again hold for the next ones. The key's text is wiped as soon as it is understood, and no passphrase is
 * asked for: nobody is there to answer.
 */
#include "http/tls.h"

#include <errno.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"

struct cbx_http_tls {
	struct cbx_http_tls_files files;
	SSL_CTX *context;
};

/* What OpenSSL says of a file, or else why; remedy. */
static int unusable(struct cbx_err *err, const char *option, const char *path, const char *why, const char *remedy)
{
	unsigned long code = ERR_peek_error();
	const char *reason = code ? ERR_reason_error_string(code) : NULL;

	ERR_clear_error();
	return cbx_refuse(err, "invalid_argument", EINVAL, "%s: %.200s cannot be used: %s%s%s; %s", option, path, why,
			  reason ? ": " : "", reason ? reason : "", remedy);
}

static int nobody_asked(char *buf, int size, int writing, void *arg)
{
	return 0;
}

/* A file's bytes, to be read as PEM. secret: it is the key. */
static int open_pem(const char *option, const char *path, bool secret, BIO **ret, struct cbx_err *err)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char text[CBX_HTTP_PEM_MAX];
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return cbx_fail(err, errno, "%s: open %s", option, path);
	if (!S_ISREG(st.st_mode))
		return cbx_refuse(err, "invalid_argument", EINVAL, "%s: %s is not a regular file; name a file in PEM",
				  option, path);
	if (secret && st.st_mode & 007)
		return cbx_refuse(err, "invalid_argument", EPERM,
				  "%s: %s can be used by others than its owner and group; chmod 600, or 640, %s",
				  option, path, path);
	n = cbx_read_full(fd, text, sizeof(text));
	*ret = n < 0 || (size_t)n == sizeof(text) ? NULL : BIO_new(BIO_s_secmem());
	if (*ret && n && BIO_write(*ret, text, (int)n) != n) {
		BIO_free(*ret);
		*ret = NULL;
	}
	OPENSSL_cleanse(text, sizeof(text));
	if (*ret)
		return 0;
	if (n < 0)
		return cbx_fail(err, (int)-n, "%s: read %s", option, path);
	if ((size_t)n < sizeof(text))
		return cbx_fail(err, ENOMEM, "%s: read %s", option, path);
	return cbx_refuse(err, "invalid_argument", EFBIG, "%s: %s has more than %zu bytes; choose another file", option,
			  path, sizeof(text) - 1);
}

/* The next certificate. 1; 0: there are no more; -EINVAL: it is not one. */
static int next_certificate(BIO *in, X509 **ret)
{
	unsigned long last;

	*ret = PEM_read_bio_X509(in, NULL, nobody_asked, NULL);
	if (*ret)
		return 1;
	last = ERR_peek_last_error();
	if (ERR_GET_LIB(last) != ERR_LIB_PEM || ERR_GET_REASON(last) != PEM_R_NO_START_LINE)
		return -EINVAL;
	ERR_clear_error(); /* the end of the file is one */
	return 0;
}

/* A connection's other end would not accept it. */
static int check_times(const X509 *leaf, const char *path, struct cbx_err *err)
{
	const ASN1_TIME *from = X509_get0_notBefore(leaf), *until = X509_get0_notAfter(leaf);
	bool early = X509_cmp_current_time(from) > 0;
	struct tm tm = { 0 };
	char date[40];

	(void)ASN1_TIME_to_tm(early ? from : until, &tm);
	strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S UTC", &tm);
	if (early)
		return cbx_refuse(
			err, "invalid_argument", EINVAL,
			"--http-certificate: %.200s cannot be used: it is valid from %s on; wait, or set the clock",
			path, date);
	if (X509_cmp_current_time(until) < 0)
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "--http-certificate: %.200s cannot be used: it has expired at %s; renew it", path,
				  date);
	cbx_info("TLS: the certificate is valid until %s", date);
	return 0;
}

static int use_certificate(SSL_CTX *context, const char *path, struct cbx_err *err)
{
	static const char remedy[] = "give the server's certificate in PEM, and below it those up to its authority's";
	X509 *c;
	BIO *in;
	int r = open_pem("--http-certificate", path, false, &in, err), found;

	if (r < 0)
		return r;
	found = next_certificate(in, &c);
	if (found == 1) {
		found = SSL_CTX_use_certificate(context, c) == 1 ? 1 : -EINVAL;
		if (found == 1)
			r = check_times(c, path, err);
		X509_free(c);
	} else if (found == 0) {
		found = -EINVAL;
	}
	while (r == 0 && found == 1 && (found = next_certificate(in, &c)) == 1) {
		if (SSL_CTX_add0_chain_cert(context, c) == 1)
			continue;
		X509_free(c);
		found = -EINVAL;
	}
	BIO_free(in);
	return r < 0	   ? r
	       : found < 0 ? unusable(err, "--http-certificate", path, "it does not hold certificates", remedy)
			   : 0;
}

static int use_key(SSL_CTX *context, const char *path, struct cbx_err *err)
{
	static const char remedy[] = "give the key of the certificate in PEM, without a passphrase";
	EVP_PKEY *key;
	bool fits;
	BIO *in;
	int r = open_pem("--http-key", path, true, &in, err);

	if (r < 0)
		return r;
	key = PEM_read_bio_PrivateKey(in, NULL, nobody_asked, NULL);
	BIO_free(in);
	if (!key)
		return unusable(err, "--http-key", path, "it is not a key that can be read", remedy);
	fits = X509_check_private_key(SSL_CTX_get0_certificate(context), key) == 1 &&
	       SSL_CTX_use_PrivateKey(context, key) == 1;
	EVP_PKEY_free(key);
	return fits ? 0 : unusable(err, "--http-key", path, "it is not the certificate's", remedy);
}

static int ask_clients(SSL_CTX *context, const char *path, struct cbx_err *err)
{
	X509_STORE *store = SSL_CTX_get_cert_store(context);
	X509 *authority;
	size_t n = 0;
	BIO *in;
	int r = open_pem("--http-client-ca", path, false, &in, err), found = 0;

	if (r < 0)
		return r;
	while (r == 0 && (found = next_certificate(in, &authority)) == 1) {
		r = X509_STORE_add_cert(store, authority) == 1 && SSL_CTX_add_client_CA(context, authority) == 1 ? 0
														 : -1;
		X509_free(authority);
		n++;
	}
	BIO_free(in);
	if (r < 0 || found < 0 || !n)
		return unusable(err, "--http-client-ca", path, "it does not hold certificates",
				"give those of authorities in PEM");
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	return 0;
}

/* Who shakes hands again, or has keys changed without end, is not served: that costs us more than it costs the client. */
static void on_message(int written, int version, int type, const void *data, size_t n, SSL *ssl, void *arg)
{
	uintptr_t changes = (uintptr_t)SSL_get_app_data(ssl);
	unsigned char digest, what = n ? *(const unsigned char *)data : 0;
	bool again;

	if (written || type != SSL3_RT_HANDSHAKE || !SSL_get_peer_finished(ssl, &digest, sizeof(digest)))
		return; /* the first handshake may have two ClientHellos */
	again = what == SSL3_MT_CLIENT_HELLO;
	if (what == SSL3_MT_KEY_UPDATE)
		SSL_set_app_data(ssl, (void *)++changes);
	if (!again && changes <= CBX_HTTP_KEY_CHANGES_MAX)
		return;
	/* What it has sent already is not read, either. */
	SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
	(void)shutdown(SSL_get_fd(ssl), SHUT_RDWR);
	cbx_debug("TLS: a connection ends: its client %s", again ? "begins another handshake" : "changes keys all the time");
}

static int make_context(const struct cbx_http_tls_files *files, SSL_CTX **ret, struct cbx_err *err)
{
	SSL_CTX *context = SSL_CTX_new(TLS_server_method());
	int r;

	if (!context || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1 ||
	    SSL_CTX_set_session_id_context(context, (const unsigned char *)"codebox", 7) != 1) {
		SSL_CTX_free(context);
		ERR_clear_error();
		return cbx_fail(err, ENOMEM, "--http-certificate: set up TLS");
	}
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
	/* Else SSL_read() does not return while nothing but messages of TLS itself come, and no one else has a turn. */
	SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY);
	SSL_CTX_set_msg_callback(context, on_message);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	r = use_certificate(context, files->certificate, err);
	if (r >= 0)
		r = use_key(context, files->key, err);
	if (r >= 0 && files->clients)
		r = ask_clients(context, files->clients, err);
	if (r < 0)
		SSL_CTX_free(context);
	else
		*ret = context;
	return r;
}

int cbx_http_tls_reload(struct cbx_http_tls *tls, struct cbx_err *err)
{
	SSL_CTX *context;
	int r = make_context(&tls->files, &context, err);

	if (r < 0)
		return r;
	SSL_CTX_free(tls->context);
	tls->context = context;
	return 0;
}

int cbx_http_tls_new(const struct cbx_http_tls_files *files, struct cbx_http_tls **ret, struct cbx_err *err)
{
	struct cbx_http_tls *tls = cbx_xcalloc(1, sizeof(*tls));
	int r;

	tls->files = *files;
	r = cbx_http_tls_reload(tls, err);
	if (r < 0)
		free(tls);
	else
		*ret = tls;
	return r;
}

void cbx_http_tls_free(struct cbx_http_tls *tls)
{
	if (!tls)
		return;
	SSL_CTX_free(tls->context);
	free(tls);
}

struct bufferevent *cbx_http_tls_accept(struct cbx_http_tls *tls, struct event_base *base, int fd)
{
	SSL *ssl = SSL_new(tls->context);
	struct bufferevent *bev;

	if (!ssl)
		return NULL;
	bev = bufferevent_openssl_socket_new(base, fd, ssl, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
	if (!bev)
		return NULL; /* it has freed ssl */
	/* A request's length says whether it is whole. */
	bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
	return bev;
}

void cbx_http_tls_tell(struct bufferevent *bev)
{
	unsigned long code = bufferevent_get_openssl_error(bev);
	const char *reason = code ? ERR_reason_error_string(code) : NULL;

	if (reason)
		cbx_debug("TLS: a connection has failed: %s", reason);
}

void cbx_http_tls_goodbye(struct bufferevent *bev)
{
	(void)SSL_shutdown(bufferevent_openssl_get_ssl(bev));
	ERR_clear_error();
}
