/* SPDX-License-Identifier: Apache-2.0 */
#include "objects/sign.h"

#include <errno.h>
#include <inttypes.h>
#include <nettle/hmac.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "objects/azure.h"

#define SECRET_MAX 190

/* ---- names ---- */

int cbx_objects_read(const cJSON *store, const char *secret, struct cbx_objects *ret, struct cbx_err *err)
{
	const char *type = cbx_json_text(store, "type");

	*ret = (struct cbx_objects){ .endpoint = cbx_json_text(store, "endpoint"),
				     .region = cbx_json_text(store, "region"),
				     .bucket = cbx_json_text(store, "bucket"),
				     .prefix = cbx_json_text(store, "prefix"),
				     .user = cbx_json_text(store, "user") };
	ret->azure = type && strcmp(type, "azure") == 0;
	if (ret->endpoint && ret->bucket && ret->prefix && ret->user && secret && ret->azure)
		return cbx_azure_secret(secret, ret, err);
	ret->secret = secret;
	if (ret->endpoint && ret->region && ret->bucket && ret->prefix && ret->user && secret &&
	    strlen(secret) <= SECRET_MAX)
		return 0;
	return cbx_refuse(err, "invalid_argument", EINVAL,
			  "the object store: not complete, or its secret is longer than %d bytes; correct "
			  "artifacts.store in the policy",
			  SECRET_MAX);
}

void cbx_objects_forget(struct cbx_objects *o)
{
	explicit_bzero(o, sizeof(*o));
}

bool cbx_objects_sign_link(const struct cbx_objects *o, const char *key, time_t now, uint64_t seconds,
			   struct cbx_buf *url)
{
	if (o->azure)
		return cbx_azure_link(o, key, now, seconds, url);
	cbx_s3_link(o, key, now, seconds, url);
	return true;
}

void cbx_objects_place(const cJSON *store, struct cbx_buf *out)
{
	cbx_buf_addf(out, "%s/%s", cbx_json_text(store, "endpoint"), cbx_json_text(store, "bucket"));
}

void cbx_objects_key(const cJSON *store, const char *tenant, const char *session, const char *id, const char *path,
		     struct cbx_buf *out)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	cbx_buf_addf(out, "%s%s/%s/%s/", cbx_json_text(store, "prefix"), tenant, session, id);
	for (; *name; name++)
		cbx_buf_addc(out, (unsigned char)*name < ' ' || *name == 0x7f ? '_' : *name);
}

void cbx_objects_escape(struct cbx_buf *out, const char *s, bool slashes)
{
	for (; *s; s++) {
		bool safe = (*s >= '0' && *s <= '9') || (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ||
			    strchr("-._~", *s) || (slashes && *s == '/');

		cbx_buf_addf(out, safe ? "%c" : "%%%02X", (unsigned char)*s);
	}
}

/* ---- S3 ---- */

static void hmac(const uint8_t *key, size_t n, const char *text, uint8_t ret[SHA256_DIGEST_SIZE])
{
	struct hmac_sha256_ctx c;

	hmac_sha256_set_key(&c, n, key);
	hmac_sha256_update(&c, strlen(text), (const uint8_t *)text);
	hmac_sha256_digest(&c, SHA256_DIGEST_SIZE, ret);
	explicit_bzero(&c, sizeof(c));
}

static void scope_of(const struct cbx_objects *o, const char date[17], struct cbx_buf *out)
{
	cbx_buf_addf(out, "%.8s/%s/s3/aws4_request", date, o->region);
}

/* Of a canonical request. */
static void sign(const struct cbx_objects *o, const char date[17], const char *canonical, char out[65])
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	uint8_t key[SHA256_DIGEST_SIZE], sum[SHA256_DIGEST_SIZE];
	struct sha256_ctx c;
	char first[SECRET_MAX + 8], day[9];
	int n = snprintf(first, sizeof(first), "AWS4%s", o->secret);

	sha256_init(&c);
	sha256_update(&c, strlen(canonical), (const uint8_t *)canonical);
	sha256_digest(&c, sizeof(sum), sum);
	cbx_hex(sum, sizeof(sum), out);
	cbx_buf_addf(&text, "AWS4-HMAC-SHA256\n%s\n", date);
	scope_of(o, date, &text);
	cbx_buf_addf(&text, "\n%s", out);
	snprintf(day, sizeof(day), "%.8s", date);
	hmac((const uint8_t *)first, (size_t)n, day, key);
	hmac(key, sizeof(key), o->region, key);
	hmac(key, sizeof(key), "s3", key);
	hmac(key, sizeof(key), "aws4_request", key);
	hmac(key, sizeof(key), cbx_buf_str(&text), sum);
	cbx_hex(sum, sizeof(sum), out);
	explicit_bzero(first, sizeof(first));
	explicit_bzero(key, sizeof(key));
}

static void date_of(time_t now, char out[17])
{
	struct tm tm;

	gmtime_r(&now, &tm);
	strftime(out, 17, "%Y%m%dT%H%M%SZ", &tm);
}

static void add_path(const struct cbx_objects *o, const char *key, struct cbx_buf *out)
{
	cbx_buf_addc(out, '/');
	cbx_objects_escape(out, o->bucket, false);
	cbx_buf_addc(out, '/');
	cbx_objects_escape(out, key, true);
}

static const char *host_of(const struct cbx_objects *o)
{
	const char *p = strstr(o->endpoint, "://");

	return p ? p + 3 : o->endpoint;
}

void cbx_s3_link(const struct cbx_objects *o, const char *key, time_t now, uint64_t seconds, struct cbx_buf *url)
{
	_cleanup_buf_ struct cbx_buf canonical = { 0 }, query = { 0 }, credential = { 0 };
	char date[17], signature[65];

	date_of(now, date);
	cbx_buf_addf(&credential, "%s/", o->user);
	scope_of(o, date, &credential);
	cbx_buf_adds(&query, "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=");
	cbx_objects_escape(&query, cbx_buf_str(&credential), false);
	cbx_buf_addf(&query, "&X-Amz-Date=%s&X-Amz-Expires=%" PRIu64 "&X-Amz-SignedHeaders=host", date, seconds);
	cbx_buf_adds(&canonical, "GET\n");
	add_path(o, key, &canonical);
	cbx_buf_addf(&canonical, "\n%s\nhost:%s\n\nhost\nUNSIGNED-PAYLOAD", cbx_buf_str(&query), host_of(o));
	sign(o, date, cbx_buf_str(&canonical), signature);
	cbx_buf_adds(url, o->endpoint);
	add_path(o, key, url);
	cbx_buf_addf(url, "?%s&X-Amz-Signature=%s", cbx_buf_str(&query), signature);
}

void cbx_s3_url(const struct cbx_objects *o, const struct cbx_s3_request *q, struct cbx_buf *url)
{
	cbx_buf_adds(url, o->endpoint);
	add_path(o, q->key, url);
	if (q->query[0])
		cbx_buf_addf(url, "?%s", q->query);
}

void cbx_s3_sign(const struct cbx_objects *o, const struct cbx_s3_request *q, char ret_date[17],
		 struct cbx_buf *authorization)
{
	_cleanup_buf_ struct cbx_buf canonical = { 0 };
	const char *names = q->content_type ? "content-type;host;x-amz-content-sha256;x-amz-date"
					    : "host;x-amz-content-sha256;x-amz-date";
	char signature[65];

	date_of(q->now, ret_date);
	cbx_buf_addf(&canonical, "%s\n", q->method);
	add_path(o, q->key, &canonical);
	cbx_buf_addf(&canonical, "\n%s\n", q->query);
	if (q->content_type)
		cbx_buf_addf(&canonical, "content-type:%s\n", q->content_type);
	cbx_buf_addf(&canonical, "host:%s\nx-amz-content-sha256:%s\nx-amz-date:%s\n\n%s\n%s", host_of(o), q->sha256,
		     ret_date, names, q->sha256);
	sign(o, ret_date, cbx_buf_str(&canonical), signature);
	cbx_buf_addf(authorization, "AWS4-HMAC-SHA256 Credential=%s/", o->user);
	scope_of(o, ret_date, authorization);
	cbx_buf_addf(authorization, ", SignedHeaders=%s, Signature=%s", names, signature);
}
