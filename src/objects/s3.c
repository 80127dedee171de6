/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a small file is one request. A larger one is sent in parts, and is an object when all are there
 * and a request says so to the store; until then there is nothing to be read, and parts of what failed are removed.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "objects/answer.h"
#include "objects/worker.h"

struct parts {
	char id[600]; /* of the upload, escaped */
	struct cbx_buf list;
};

static int put_whole(struct cbx_upload *u, struct cbx_err *err)
{
	struct cbx_request q = { .method = "PUT", .query = "", .content_type = u->type, .length = u->size };
	int r = cbx_upload_request(u, &q, err);

	cbx_buf_release(&q.body);
	return r;
}

static int begin(struct cbx_upload *u, struct parts *p, struct cbx_err *err)
{
	struct cbx_request q = { .method = "POST", .query = "uploads=", .content_type = u->type, .text = "" };
	_cleanup_buf_ struct cbx_buf escaped = { 0 };
	char id[sizeof(p->id)];
	int r = cbx_upload_request(u, &q, err);

	if (r >= 0 && (!cbx_answer_element(cbx_buf_str(&q.body), "UploadId", id, sizeof(id)) || !id[0]))
		r = cbx_refuse(err, "store_failed", EIO, "%.100s began an upload without naming it", u->store.endpoint);
	cbx_buf_release(&q.body);
	if (r < 0)
		return r;
	cbx_objects_escape(&escaped, id, false);
	if (escaped.len >= sizeof(p->id))
		return cbx_refuse(err, "store_failed", EIO, "%.100s names an upload by too long a text",
				  u->store.endpoint);
	memcpy(p->id, cbx_buf_str(&escaped), escaped.len + 1);
	return 0;
}

static int put_part(struct cbx_upload *u, struct parts *p, unsigned n, struct cbx_err *err)
{
	_cleanup_free_ char *query = cbx_xasprintf("partNumber=%u&uploadId=%s", n, p->id);
	uint64_t offset = (uint64_t)(n - 1) * CBX_UPLOAD_PART, left = u->size - offset;
	struct cbx_request q = { .method = "PUT",
				 .query = query,
				 .offset = offset,
				 .length = left < CBX_UPLOAD_PART ? left : CBX_UPLOAD_PART };
	int r = cbx_upload_request(u, &q, err);

	cbx_buf_release(&q.body);
	if (r >= 0 && !q.etag[0])
		r = cbx_refuse(err, "store_failed", EIO, "%.100s took a part without an ETag", u->store.endpoint);
	if (r >= 0)
		cbx_buf_addf(&p->list, "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>", n, q.etag);
	return r;
}

/* Whether it is there, and of our size. */
static bool is_there(struct cbx_upload *u)
{
	struct cbx_request q = { .method = "HEAD", .query = "", .text = "" };
	struct cbx_err ignored;
	bool there = cbx_upload_request(u, &q, &ignored) >= 0 && q.answer_length == u->size;

	cbx_buf_release(&q.body);
	return there;
}

static int complete(struct cbx_upload *u, struct parts *p, struct cbx_err *err)
{
	_cleanup_free_ char *query = cbx_xasprintf("uploadId=%s", p->id);
	_cleanup_free_ char *text =
		cbx_xasprintf("<CompleteMultipartUpload>%s</CompleteMultipartUpload>", cbx_buf_str(&p->list));
	struct cbx_request q = {
		.method = "POST", .query = query, .text = text, .length = strlen(text), .errors_in_body = true
	};
	int r = cbx_upload_request(u, &q, err);

	/* The answer to an earlier try may be what was lost. */
	if (r < 0 && q.status == 404 && is_there(u))
		r = 0;
	cbx_buf_release(&q.body);
	return r;
}

static void give_up(struct cbx_upload *u, const struct parts *p)
{
	_cleanup_free_ char *query = cbx_xasprintf("uploadId=%s", p->id);
	struct cbx_request q = { .method = "DELETE", .query = query, .text = "" };
	struct cbx_err ignored;

	u->clearing = true;
	(void)cbx_upload_request(u, &q, &ignored);
	cbx_buf_release(&q.body);
}

int cbx_s3_upload(struct cbx_upload *u, struct cbx_err *err)
{
	struct parts p = { 0 };
	int r;

	if (u->size <= CBX_UPLOAD_PART)
		return put_whole(u, err);
	r = begin(u, &p, err);
	if (r < 0)
		return r;
	for (unsigned n = 1; r >= 0 && (uint64_t)(n - 1) * CBX_UPLOAD_PART < u->size; n++)
		r = put_part(u, &p, n, err);
	if (r >= 0)
		r = complete(u, &p, err);
	if (r < 0)
		give_up(u, &p);
	cbx_buf_release(&p.list);
	return r;
}
