/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <nettle/hmac.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "objects/azure.h"

#define KEY_MAX 128 /* bytes of a key; Azure's have 64 */

/* The value of a member of a connection string. */
static bool member(const char *text, const char *name, char *out, size_t size)
{
	size_t len = strlen(name), n;

	for (const char *p = text; p; p = strchr(p, ';')) {
		p += *p == ';';
		if (strncmp(p, name, len) != 0 || p[len] != '=')
			continue;
		n = strcspn(p + len + 1, ";");
		if (n >= size)
			return false;
		memcpy(out, p + len + 1, n);
		out[n] = '\0';
		return n > 0;
	}
	return false;
}

int cbx_azure_secret(const char *secret, struct cbx_objects *ret, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf raw = { 0 };
	const char *text;

	if (!member(secret, "AccountKey", ret->held, sizeof(ret->held)) &&
	    !member(secret, "SharedAccessSignature", ret->held, sizeof(ret->held)) &&
	    snprintf(ret->held, sizeof(ret->held), "%s", secret) >= (int)sizeof(ret->held))
		return cbx_refuse(err, "no_password", EINVAL,
				  "the secret of the object store is too long; give a key of Azure, a shared access "
				  "signature, or a connection string");
	text = ret->held[0] == '?' ? ret->held + 1 : ret->held;
	if (strstr(text, "sig=") && cbx_plain(text) && !strpbrk(text, " #?\"<>\\")) {
		ret->sas = text;
		return 0;
	}
	if (cbx_base64_decode(&raw, text, strlen(text)) < 0 || !raw.len || raw.len > KEY_MAX)
		return cbx_refuse(err, "no_password", EINVAL,
				  "the secret of the object store is of an unknown form; give a key of Azure in "
				  "base64, a shared access signature, or a connection string that has one");
	cbx_buf_wipe(&raw);
	ret->secret = text;
	return 0;
}

static void sign(const struct cbx_objects *o, const char *text, struct cbx_buf *out)
{
	_cleanup_buf_ struct cbx_buf raw = { 0 };
	uint8_t sum[SHA256_DIGEST_SIZE];
	struct hmac_sha256_ctx c;

	if (cbx_base64_decode(&raw, o->secret, strlen(o->secret)) < 0)
		return;
	hmac_sha256_set_key(&c, raw.len, (const uint8_t *)raw.data);
	hmac_sha256_update(&c, strlen(text), (const uint8_t *)text);
	hmac_sha256_digest(&c, sizeof(sum), sum);
	cbx_base64_encode(out, sum, sizeof(sum));
	explicit_bzero(&c, sizeof(c));
	cbx_buf_wipe(&raw);
}

/* How much of an endpoint is its host. */
static size_t host_end(const char *endpoint)
{
	const char *host = strstr(endpoint, "://");
	size_t n = host ? (size_t)(host + 3 - endpoint) : 0;

	return n + strcspn(endpoint + n, "/");
}

/* What stands behind the host: the container, behind the account where an emulator wants that. */
static void add_path(const struct cbx_objects *o, const char *key, struct cbx_buf *out)
{
	cbx_buf_addf(out, "%s/%s/", o->endpoint + host_end(o->endpoint), o->bucket);
	cbx_objects_escape(out, key, true);
}

bool cbx_azure_link(const struct cbx_objects *o, const char *key, time_t now, uint64_t seconds, struct cbx_buf *url)
{
	_cleanup_buf_ struct cbx_buf text = { 0 }, signature = { 0 }, path = { 0 };
	const char *protocol = cbx_starts_with(o->endpoint, "https://") ? "https" : "";
	char when[32];

	if (!o->secret)
		return false;
	cbx_format_time(now + (time_t)seconds, when);
	/* permissions, start, end, name, identifier, addresses, protocol, version, kind, snapshot, scope, five headers
	 */
	cbx_buf_addf(&text, "r\n\n%s\n/blob/%s/%s/%s\n\n\n%s\n%s\nb\n\n\n\n\n\n\n", when, o->user, o->bucket, key,
		     protocol, CBX_AZURE_VERSION);
	sign(o, cbx_buf_str(&text), &signature);
	add_path(o, key, &path);
	cbx_buf_addf(url, "%.*s%s?sv=%s&sr=b&sp=r&se=", (int)host_end(o->endpoint), o->endpoint, cbx_buf_str(&path),
		     CBX_AZURE_VERSION);
	cbx_objects_escape(url, when, false);
	cbx_buf_addf(url, "%s%s&sig=", *protocol ? "&spr=" : "", protocol);
	cbx_objects_escape(url, cbx_buf_str(&signature), false);
	return true;
}

void cbx_azure_url(const struct cbx_objects *o, const struct cbx_azure_request *q, struct cbx_buf *url)
{
	cbx_buf_addf(url, "%s/%s/", o->endpoint, o->bucket);
	cbx_objects_escape(url, q->key, true);
	if (q->query[0] || o->sas)
		cbx_buf_addf(url, "?%s%s%s", q->query, q->query[0] && o->sas ? "&" : "", o->sas ? o->sas : "");
}

/* "a=b&c=d" as a line for each, with ":" for "="; block ids are of characters that are not escaped. */
static void add_query(const char *query, struct cbx_buf *out)
{
	if (!*query)
		return;
	cbx_buf_addc(out, '\n');
	for (bool value = false; *query; query++) {
		if (*query == '&') {
			cbx_buf_addc(out, '\n');
			value = false;
		} else if (*query == '=' && !value) {
			cbx_buf_addc(out, ':');
			value = true;
		} else {
			cbx_buf_addc(out, *query);
		}
	}
}

void cbx_azure_sign(const struct cbx_objects *o, const struct cbx_azure_request *q, struct cbx_buf *headers,
		    struct cbx_buf *authorization)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	char length[24] = "";

	if (q->content_type) /* a browser is to save it, and to make nothing of it */
		cbx_buf_addf(headers, "x-ms-blob-content-disposition:attachment\nx-ms-blob-content-type:%s\n",
			     q->content_type);
	if (q->whole)
		cbx_buf_adds(headers, "x-ms-blob-type:BlockBlob\n");
	cbx_buf_addf(headers, "x-ms-date:%s\nx-ms-version:%s\n", q->date, CBX_AZURE_VERSION);
	if (!o->secret)
		return;
	if (q->length)
		snprintf(length, sizeof(length), "%" PRIu64, q->length);
	/* method, encoding, language, length, MD5, type, date, four conditions, range */
	cbx_buf_addf(&text, "%s\n\n\n%s\n%s\n\n\n\n\n\n\n\n%s/%s", q->method, length, q->md5 ? q->md5 : "",
		     cbx_buf_str(headers), o->user);
	add_path(o, q->key, &text);
	add_query(q->query, &text);
	cbx_buf_addf(authorization, "SharedKey %s:", o->user);
	sign(o, cbx_buf_str(&text), authorization);
}
