/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: libcurl transfers, and is held to HTTPS wherever a redirect leads, or, for a registry on this
 * machine, to this machine. What it sends for authentication goes to the registry's host and to the token server that
 * the registry names, and never along with a redirect to another host, which libcurl sees to.
 */
#include "pull/registry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "base/transfer.h"
#include "image/image-limits.h"

#define TOKEN_MAX KIB(64)

void cbx_registry_release(struct cbx_registry *r)
{
	free(r->host);
	free(r->repository);
	free(r->user);
	free(r->password);
	free(r->token);
}

void cbx_reply_reset(struct cbx_reply *r)
{
	r->body.len = r->challenge.len = 0;
	r->digest[0] = '\0';
	r->range_start = 0;
	r->ranged = r->elsewhere = false;
	r->status = 0;
}

void cbx_reply_release(struct cbx_reply *r)
{
	cbx_buf_release(&r->body);
	cbx_buf_release(&r->challenge);
}

char *cbx_registry_url(const struct cbx_registry *r, const char *kind, const char *reference)
{
	return cbx_xasprintf("%s://%s/v2/%s/%s/%s", r->plain ? "http" : "https", r->host, r->repository, kind,
			     reference);
}

static size_t on_header(char *line, size_t one, size_t n, void *arg)
{
	struct cbx_reply *r = arg;
	char text[64];
	const char *v;
	size_t len;

	if (n > 5 && strncmp(line, "HTTP/", 5) == 0) { /* of a redirect's next answer, too */
		cbx_reply_reset(r);
	} else if (cbx_transfer_header(line, n, "www-authenticate", &v, &len) && len < KIB(4) &&
		   (!r->challenge.len || strncasecmp(v, "Bearer", 6) == 0)) {
		r->challenge.len = 0;
		cbx_buf_add(&r->challenge, v, len);
	} else if (cbx_transfer_header(line, n, "docker-content-digest", &v, &len) && len < sizeof(r->digest)) {
		memcpy(r->digest, v, len);
		r->digest[len] = '\0';
	} else if (cbx_transfer_header(line, n, "content-range", &v, &len) && len < sizeof(text)) {
		unsigned long long start;

		memcpy(text, v, len);
		text[len] = '\0';
		if (sscanf(text, "bytes %20llu-", &start) == 1) {
			r->range_start = start;
			r->ranged = true;
		}
	}
	return n;
}

static void set_protocols(CURL *easy, bool plain)
{
#if LIBCURL_VERSION_NUM >= 0x075500
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, plain ? "http,https" : "https");
	curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR, plain ? "http,https" : "https");
#else
	long all = plain ? CURLPROTO_HTTP | CURLPROTO_HTTPS : CURLPROTO_HTTPS;

	curl_easy_setopt(easy, CURLOPT_PROTOCOLS, all);
	curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS, all);
#endif
}

static void set_auth(const struct cbx_registry *r, CURL *easy)
{
	if (r->token) {
		curl_easy_setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
		curl_easy_setopt(easy, CURLOPT_XOAUTH2_BEARER, r->token);
	} else if (r->basic) {
		curl_easy_setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
		curl_easy_setopt(easy, CURLOPT_USERNAME, r->user);
		curl_easy_setopt(easy, CURLOPT_PASSWORD, r->password);
	}
}

CURL *cbx_registry_transfer(const struct cbx_registry *r, const char *url, struct cbx_reply *reply, char *error_text)
{
	const struct cbx_transfer t = { .url = url,
					.connect_s = CBX_PULL_CONNECT_S,
					.stall_s = CBX_PULL_STALL_S,
					.certificates = getenv("SSL_CERT_FILE"),
					.elsewhere = r->loopback ? &reply->elsewhere : NULL,
					.error_text = error_text };
	CURL *easy = curl_easy_init();

	if (!easy)
		return NULL;
	set_protocols(easy, r->plain);
	cbx_transfer_set_up(easy, &t);
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 1L);
	curl_easy_setopt(easy, CURLOPT_MAXREDIRS, 5L);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, reply);
	curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)KIB(256));
	set_auth(r, easy);
	return easy;
}

/* The first error's message that a registry gave, or "". */
static void said(const struct cbx_reply *reply, char *out, size_t size)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	struct cbx_err ignored;
	const cJSON *one;
	const char *text;

	out[0] = '\0';
	if (!reply->body.len || cbx_json_parse(reply->body.data, reply->body.len, &doc, &ignored) < 0)
		return;
	one = cJSON_GetArrayItem(cbx_json_member(doc.root, "errors"), 0);
	text = cbx_json_text(one, "message");
	if (text)
		snprintf(out, size, "%.200s", text);
}

int cbx_registry_refused(const struct cbx_registry *r, const char *what, const struct cbx_reply *reply,
			 struct cbx_err *err)
{
	char text[220];

	said(reply, text, sizeof(text));
	if (reply->status == 401 || reply->status == 403)
		cbx_refuse(err, "unauthorized", EACCES,
			   "the registry %.200s refuses access to %s (%ld %s): the name is wrong, or credentials are "
			   "missing; \"podman login\" and \"docker login\" store them",
			   r->host, what, reply->status, text);
	else if (reply->status == 404)
		cbx_refuse(err, "not_found", ENOENT, "the registry %.200s does not have %s (%s)", r->host, what,
			   text[0] ? text : "404");
	else
		cbx_refuse(err, "registry_failed", EIO, "the registry %.200s answers %ld for %s %s", r->host,
			   reply->status, what, text);
	cbx_err_sanitize(err);
	return -err->code;
}

int cbx_registry_broken(const struct cbx_registry *r, const char *what, CURLcode code, const struct cbx_reply *reply,
			const char *text, struct cbx_err *err)
{
	if (reply->elsewhere)
		text = CBX_TRANSFER_ELSEWHERE;
	cbx_refuse(err, "registry_unreachable", EIO, "%s cannot be fetched from %.200s: %.250s", what, r->host,
		   text[0] ? text : curl_easy_strerror(code));
	cbx_err_sanitize(err);
	return -err->code;
}

static size_t on_small(char *p, size_t one, size_t n, void *arg)
{
	struct cbx_reply *r = arg;

	if (r->body.len + n > CBX_MANIFEST_MAX)
		return 0;
	cbx_buf_add(&r->body, p, n);
	return n;
}

/* Once, with retries of what passes. */
static int get_plain(const struct cbx_registry *r, const char *url, const char *accept, struct cbx_reply *reply,
		     struct cbx_err *err)
{
	struct curl_slist *headers = accept ? curl_slist_append(NULL, accept) : NULL;
	char text[CURL_ERROR_SIZE];
	CURLcode code = CURLE_OK;

	for (unsigned tries = 0; tries < CBX_PULL_TRIES; tries++) {
		CURL *easy = cbx_registry_transfer(r, url, reply, text);

		if (!easy)
			break;
		if (tries) {
			unsigned ms = 100u << (tries < 4 ? tries : 4);

			nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000l }, NULL);
		}
		cbx_reply_reset(reply);
		curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_small);
		curl_easy_setopt(easy, CURLOPT_WRITEDATA, reply);
		curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
		code = curl_easy_perform(easy);
		curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &reply->status);
		curl_easy_cleanup(easy);
		/* A registry that was never there is not waited for. */
		if (!cbx_transfer_passing(code, reply->status) || code == CURLE_COULDNT_CONNECT ||
		    code == CURLE_COULDNT_RESOLVE_HOST)
			break;
	}
	curl_slist_free_all(headers);
	if (code == CURLE_WRITE_ERROR)
		return cbx_refuse(err, "invalid_image", EFBIG, "a document of the registry is larger than %zu bytes",
				  CBX_MANIFEST_MAX);
	return code != CURLE_OK ? cbx_registry_broken(r, "a document", code, reply, text, err) : 0;
}

/* ---- authentication --------------------------------------------------------------------------------------------- */

static void add_parameter(struct cbx_buf *url, const char *name, const char *value)
{
	char *escaped = *value ? curl_easy_escape(NULL, value, 0) : NULL;

	if (escaped)
		cbx_buf_addf(url, "%c%s=%s", strchr(cbx_buf_str(url), '?') ? '&' : '?', name, escaped);
	curl_free(escaped);
}

static int take_token(struct cbx_registry *r, const struct cbx_reply *reply, struct cbx_err *err)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	struct cbx_err ignored;
	const char *token = NULL;

	if (reply->body.len <= TOKEN_MAX && cbx_json_parse(reply->body.data, reply->body.len, &doc, &ignored) == 0 &&
	    !doc.problem.code) {
		token = cbx_json_text(doc.root, "token");
		token = token ? token : cbx_json_text(doc.root, "access_token");
	}
	if (!token || !*token || !cbx_plain(token) || strchr(token, ' '))
		return cbx_refuse(err, "unauthorized", EACCES, "the token server of %.200s sends no token", r->host);
	free(r->token);
	r->token = cbx_xstrdup(token);
	return 0;
}

int cbx_registry_authenticate(struct cbx_registry *r, const char *challenge, struct cbx_err *err)
{
	_cleanup_(cbx_reply_release) struct cbx_reply reply = { 0 };
	_cleanup_buf_ struct cbx_buf url = { 0 };
	struct cbx_registry server = { .host = r->host,
				       .plain = r->plain,
				       .loopback = r->loopback,
				       .user = r->user,
				       .password = r->password,
				       .basic = r->user != NULL };
	char realm[512], service[256] = "", scope[512] = "";
	int ret;

	if (cbx_challenge_has(challenge, "Basic") && r->user) {
		r->basic = true;
		return 0;
	}
	if (!cbx_challenge_has(challenge, "Bearer") || !cbx_challenge_value(challenge, "realm", realm, sizeof(realm)))
		return cbx_refuse(
			err, "unauthorized", EACCES,
			"the registry %.200s wants a user and a password, and there are none for it; \"podman "
			"login\" and \"docker login\" store them",
			r->host);
	if (!cbx_starts_with(realm, "https://") && !(r->plain && cbx_starts_with(realm, "http://")))
		return cbx_refuse(err, "unauthorized", EACCES,
				  "the token server that %.200s names is not one of https: \"%.100s\"", r->host, realm);
	if (!cbx_challenge_value(challenge, "service", service, sizeof(service)))
		service[0] = '\0';
	if (!cbx_challenge_value(challenge, "scope", scope, sizeof(scope)) || !scope[0])
		snprintf(scope, sizeof(scope), "repository:%.400s:pull", r->repository);
	cbx_buf_adds(&url, realm);
	add_parameter(&url, "service", service);
	add_parameter(&url, "scope", scope);
	ret = get_plain(&server, url.data, NULL, &reply, err);
	if (ret == 0 && reply.status != 200)
		ret = cbx_registry_refused(r, "a token", &reply, err);
	return ret < 0 ? ret : take_token(r, &reply, err);
}

int cbx_registry_get(struct cbx_registry *r, const char *url, const char *accept, struct cbx_reply *reply,
		     struct cbx_err *err)
{
	int ret = get_plain(r, url, accept, reply, err);

	if (ret < 0 || reply->status != 401)
		return ret;
	ret = cbx_registry_authenticate(r, cbx_buf_str(&reply->challenge), err);
	return ret < 0 ? ret : get_plain(r, url, accept, reply, err);
}
