/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a small file is one request. A larger one is sent in blocks, and is a blob when the list of them
 * has been sent; until then there is nothing to be read, and Azure forgets blocks that no list names.
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "objects/worker.h"

/* All of one length, of characters that need no escaping. */
static void block_id(unsigned n, char out[16])
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	char number[10];

	snprintf(number, sizeof(number), "%09u", n);
	cbx_base64_encode(&text, number, 9);
	snprintf(out, 16, "%s", cbx_buf_str(&text));
}

static int put(struct cbx_upload *u, struct cbx_request *q, struct cbx_err *err)
{
	int r;

	q->method = "PUT";
	r = cbx_upload_request(u, q, err);
	cbx_buf_release(&q->body);
	return r;
}

int cbx_azure_upload(struct cbx_upload *u, struct cbx_err *err)
{
	struct cbx_request whole = { .query = "", .content_type = u->type, .length = u->size, .whole = true };
	struct cbx_request list = { .query = "comp=blocklist", .content_type = u->type };
	_cleanup_buf_ struct cbx_buf text = { 0 };
	char id[16], query[64];
	int r = 0;

	if (u->size <= CBX_UPLOAD_PART)
		return put(u, &whole, err);
	cbx_buf_adds(&text, "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>");
	for (unsigned n = 0; r >= 0 && (uint64_t)n * CBX_UPLOAD_PART < u->size; n++) {
		uint64_t offset = (uint64_t)n * CBX_UPLOAD_PART, left = u->size - offset;
		struct cbx_request block = { .query = query,
					     .offset = offset,
					     .length = left < CBX_UPLOAD_PART ? left : CBX_UPLOAD_PART };

		block_id(n, id);
		snprintf(query, sizeof(query), "blockid=%s&comp=block", id);
		cbx_buf_addf(&text, "<Latest>%s</Latest>", id);
		r = put(u, &block, err);
	}
	cbx_buf_adds(&text, "</BlockList>");
	list.text = cbx_buf_str(&text);
	list.length = text.len;
	return r < 0 ? r : put(u, &list, err);
}
