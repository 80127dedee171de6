/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what is sent is read from the file as it goes, twice: for its checksum, which is signed and
 * which the store compares, and for the request. So a request can be made again without anything in memory. Redirects
 * are not followed: what was signed is for one store. Without encryption only this machine is spoken to.
 */
#include <errno.h>
#include <nettle/md5.h>
#include <nettle/sha2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "base/transfer.h"
#include "objects/answer.h"
#include "objects/azure.h"
#include "objects/worker.h"

#define ANSWER_MAX KIB(64)

/* ---- time ---- */

/* codeboxd has closed its end, or the time is over. False while what is left behind is removed. */
static bool given_up(const struct cbx_upload *u, int wait_ms)
{
	struct pollfd p = { .fd = u->sock };

	if (u->clearing)
		return false;
	return (poll(&p, 1, wait_ms) > 0 && p.revents & (POLLHUP | POLLERR)) || cbx_now_ms() >= u->deadline;
}

static int tick(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	return given_up(arg, 0);
}

/* Twice as long each time, with some chance in it, so that many do not come at once. */
static bool pause_before(const struct cbx_upload *u, unsigned tries)
{
	unsigned ms = CBX_UPLOAD_PAUSE_MS << (tries < 5 ? tries : 5);
	uint16_t chance = 0;

	if (getrandom(&chance, sizeof(chance), GRND_NONBLOCK) < 0)
		chance = 0;
	return !given_up(u, (int)(ms / 2 + ms * chance / 131072));
}

/* ---- callbacks ---- */

static size_t send_some(char *to, size_t one, size_t n, void *arg)
{
	struct cbx_request *q = arg;
	uint64_t left = q->length - q->sent;
	ssize_t r;

	n *= one;
	if (n > left)
		n = (size_t)left;
	if (!n)
		return 0;
	if (q->text)
		memcpy(to, q->text + q->sent, n);
	r = q->text ? (ssize_t)n : pread(q->upload->fd, to, n, (off_t)(q->offset + q->sent));
	if (r <= 0) /* it has become shorter */
		return CURL_READFUNC_ABORT;
	q->sent += (uint64_t)r;
	return (size_t)r;
}

static int rewind_to(void *arg, curl_off_t offset, int origin)
{
	struct cbx_request *q = arg;

	if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > q->length)
		return CURL_SEEKFUNC_FAIL;
	q->sent = (uint64_t)offset;
	return CURL_SEEKFUNC_OK;
}

static size_t on_body(char *p, size_t one, size_t n, void *arg)
{
	struct cbx_request *q = arg;

	if (q->body.len + n > ANSWER_MAX)
		return 0;
	cbx_buf_add(&q->body, p, n);
	return n;
}

static size_t on_header(char *line, size_t one, size_t n, void *arg)
{
	struct cbx_request *q = arg;
	struct cbx_err ignored;
	char text[32];

	(void)(q->etag[0] || cbx_answer_header(line, n, "etag", q->etag, sizeof(q->etag)));
	if (cbx_answer_header(line, n, "content-length", text, sizeof(text)) &&
	    cbx_parse_u64(text, "length", 0, UINT64_MAX / 2, &q->answer_length, &ignored) < 0)
		q->answer_length = 0;
	return n;
}

/* ---- one try ---- */

static int checksum(struct cbx_request *q, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	uint8_t sum[SHA256_DIGEST_SIZE], piece[KIB(64)];
	bool azure = q->upload->store.azure;
	struct sha256_ctx c;
	struct md5_ctx m;
	size_t n;

	sha256_init(&c);
	md5_init(&m);
	for (q->sent = 0; q->sent < q->length;) {
		n = send_some((char *)piece, 1, sizeof(piece), q);
		if (n > sizeof(piece))
			return cbx_fail(err, EIO, "read the artifact");
		if (azure)
			md5_update(&m, n, piece);
		else
			sha256_update(&c, n, piece);
		if (given_up(q->upload, 0))
			return cbx_refuse(err, "timeout", ETIMEDOUT, "there was no time left for it");
	}
	if (azure) {
		md5_digest(&m, MD5_DIGEST_SIZE, sum);
		cbx_base64_encode(&text, sum, MD5_DIGEST_SIZE);
		snprintf(q->md5, sizeof(q->md5), "%s", cbx_buf_str(&text));
		return 0;
	}
	sha256_digest(&c, sizeof(sum), sum);
	cbx_hex(sum, sizeof(sum), q->sha256);
	return 0;
}

static struct curl_slist *add(struct curl_slist *list, const char *name, const char *value)
{
	_cleanup_free_ char *line = cbx_xasprintf("%s: %s", name, value);

	return curl_slist_append(list, line);
}

static struct curl_slist *sign_azure(const struct cbx_upload *u, const struct cbx_request *q, struct cbx_buf *url)
{
	bool body = strcmp(q->method, "PUT") == 0;
	char date[40];
	struct cbx_azure_request azure = { .method = q->method,
					   .key = u->key,
					   .query = q->query,
					   .md5 = body ? q->md5 : NULL,
					   .length = body ? q->length : 0,
					   .date = date,
					   .content_type = q->content_type,
					   .whole = q->whole };
	_cleanup_buf_ struct cbx_buf headers = { 0 }, authorization = { 0 };
	struct curl_slist *list = NULL;
	time_t now = time(NULL);
	struct tm tm;
	char *rest, *line;

	gmtime_r(&now, &tm);
	strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
	cbx_azure_url(&u->store, &azure, url);
	cbx_azure_sign(&u->store, &azure, &headers, &authorization);
	if (authorization.len)
		list = add(list, "Authorization", cbx_buf_str(&authorization));
	if (body)
		list = add(list, "Content-MD5", q->md5);
	for (line = strtok_r(headers.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		list = curl_slist_append(list, line);
	list = curl_slist_append(list, "Content-Type:");
	return curl_slist_append(list, "Expect:");
}

static struct curl_slist *sign(const struct cbx_upload *u, const struct cbx_request *q, struct cbx_buf *url)
{
	struct cbx_s3_request s3 = { .method = q->method,
				     .key = u->key,
				     .query = q->query,
				     .sha256 = q->sha256,
				     .content_type = q->content_type,
				     .now = time(NULL) };
	_cleanup_buf_ struct cbx_buf authorization = { 0 };
	struct curl_slist *list = NULL;
	char date[17];

	cbx_s3_url(&u->store, &s3, url);
	cbx_s3_sign(&u->store, &s3, date, &authorization);
	list = add(list, "Authorization", cbx_buf_str(&authorization));
	list = add(list, "X-Amz-Date", date);
	list = add(list, "X-Amz-Content-Sha256", q->sha256);
	if (q->content_type) { /* of an object; a browser is to save it, and to make nothing of it */
		list = add(list, "Content-Type", q->content_type);
		list = add(list, "Content-Disposition", "attachment");
	} else {
		list = curl_slist_append(list, "Content-Type:");
	}
	return curl_slist_append(list, "Expect:");
}

static void set_method(CURL *easy, struct cbx_request *q)
{
	if (strcmp(q->method, "PUT") == 0 || strcmp(q->method, "POST") == 0) {
		curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
		curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)q->length);
		curl_easy_setopt(easy, CURLOPT_READFUNCTION, send_some);
		curl_easy_setopt(easy, CURLOPT_READDATA, q);
		curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, rewind_to);
		curl_easy_setopt(easy, CURLOPT_SEEKDATA, q);
	} else if (strcmp(q->method, "HEAD") == 0) {
		curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
	}
	curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, strcmp(q->method, "HEAD") == 0 ? NULL : q->method);
}

static void set_up(struct cbx_upload *u, struct cbx_request *q, const char *url, struct curl_slist *headers, char *text)
{
	bool plain = cbx_starts_with(url, "http://");
	const struct cbx_transfer t = { .url = url,
					.connect_s = CBX_UPLOAD_CONNECT_S,
					.stall_s = CBX_UPLOAD_STALL_S,
					.certificates = u->certificates,
					.elsewhere = plain ? &q->elsewhere : NULL,
					.error_text = text };
	CURL *easy = u->easy;

	curl_easy_reset(easy); /* connections stay */
#if LIBCURL_VERSION_NUM >= 0x075500
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, plain ? "http" : "https");
#else
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS, plain ? (long)CURLPROTO_HTTP : (long)CURLPROTO_HTTPS);
#endif
	cbx_transfer_set_up(easy, &t);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, q);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, q);
	curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)KIB(256));
	curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, tick);
	curl_easy_setopt(easy, CURLOPT_XFERINFODATA, u);
	if (u->clearing)
		curl_easy_setopt(easy, CURLOPT_TIMEOUT, (long)CBX_UPLOAD_CONNECT_S);
	curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
	set_method(easy, q);
}

static CURLcode try_once(struct cbx_upload *u, struct cbx_request *q, char *text)
{
	_cleanup_buf_ struct cbx_buf url = { 0 };
	struct curl_slist *headers = u->store.azure ? sign_azure(u, q, &url) : sign(u, q, &url), *h;
	CURLcode code;

	q->etag[0] = '\0';
	q->sent = q->body.len = q->answer_length = 0;
	q->status = 0;
	set_up(u, q, cbx_buf_str(&url), headers, text);
	code = curl_easy_perform(u->easy);
	if (code == CURLE_OK)
		curl_easy_getinfo(u->easy, CURLINFO_RESPONSE_CODE, &q->status);
	for (h = headers; h; h = h->next)
		explicit_bzero(h->data, strlen(h->data));
	curl_slist_free_all(headers);
	cbx_buf_wipe(&url); /* it may have a signature */
	return code;
}

/* ---- until it is done ---- */

static int explain(const struct cbx_upload *u, const struct cbx_request *q, CURLcode code, const char *text,
		   unsigned tries, struct cbx_err *err)
{
	char word[100], said[200], count[40] = "";

	if (tries > 1)
		snprintf(count, sizeof(count), " (%u tries)", tries);
	if (code != CURLE_OK) {
		if (q->elsewhere)
			text = CBX_TRANSFER_ELSEWHERE;
		cbx_refuse(err, "store_unreachable", EIO, "%.100s: %.200s%s", u->store.endpoint,
			   text[0] ? text : curl_easy_strerror(code), count);
	} else {
		(void)cbx_answer_element(cbx_buf_str(&q->body), "Code", word, sizeof(word));
		(void)cbx_answer_element(cbx_buf_str(&q->body), "Message", said, sizeof(said));
		cbx_refuse(err, q->status == 401 || q->status == 403 ? "store_refused" : "store_failed", EIO,
			   "%.100s answers %ld %s%s%.150s%s", u->store.endpoint, q->status, word, said[0] ? ": " : "",
			   said, count);
	}
	cbx_err_sanitize(err);
	return -err->code;
}

int cbx_upload_request(struct cbx_upload *u, struct cbx_request *q, struct cbx_err *err)
{
	char text[CURL_ERROR_SIZE];
	CURLcode code = CURLE_OK;
	unsigned tries = 0;
	int r;

	q->upload = u;
	r = checksum(q, err);
	if (r < 0)
		return r;
	do {
		if (tries && !pause_before(u, tries - 1))
			break;
		u->failures += tries > 0;
		code = try_once(u, q, text);
		if (code == CURLE_OK && q->status == 200 && q->errors_in_body &&
		    strstr(cbx_buf_str(&q->body), "<Error>"))
			q->status = 500;
		tries++;
	} while (cbx_transfer_passing(code, q->status) && !q->elsewhere && !u->clearing && tries < CBX_UPLOAD_TRIES &&
		 !given_up(u, 0));
	if (code == CURLE_OK && q->status >= 200 && q->status < 300)
		return 0;
	if (code == CURLE_ABORTED_BY_CALLBACK)
		return cbx_refuse(err, "timeout", ETIMEDOUT, "there was no time left for it");
	return explain(u, q, code, text, tries, err);
}

int cbx_upload_remove(struct cbx_upload *u, struct cbx_err *err)
{
	struct cbx_request q = { .method = "DELETE", .query = "", .text = "" };
	int r = cbx_upload_request(u, &q, err);

	cbx_buf_release(&q.body);
	return r < 0 && q.status == 404 ? 0 : r;
}
