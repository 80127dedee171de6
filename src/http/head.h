/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_HTTP_HEAD_H
#define CBX_HTTP_HEAD_H

/* What a client says before its body, and the framing of that: bytes in, a verdict out. Nothing here knows a socket. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/limits.h"

enum cbx_http_method { CBX_HTTP_OTHER, CBX_HTTP_GET, CBX_HTTP_HEAD, CBX_HTTP_POST, CBX_HTTP_PUT, CBX_HTTP_DELETE };

struct cbx_http_field {
	const char *name, *value;
};

struct cbx_http_head {
	char *text; /* what all strings point into; owned */
	enum cbx_http_method method;
	const char *path; /* without a query */
	const char *query; /* what stands behind the "?"; "": nothing */
	struct cbx_http_field fields[CBX_HTTP_FIELDS_MAX];
	size_t nfields;
	uint64_t length; /* of the body, unless it is chunked */
	bool chunked, expects /* 100-continue */, http10;
	bool close; /* the connection ends with the answer */
};

/* Look for the empty line that ends a head. 1: *scanned is where it ends; 0: not yet, call again with more; negative:
 * an HTTP status, when it cannot become a head. *scanned is 0 at first. */
int cbx_http_head_end(const char *p, size_t len, size_t *scanned);
/* 0, or the HTTP status to refuse it with and why. To be released in either case. */
int cbx_http_head_parse(const char *text, size_t len, struct cbx_http_head *ret, const char **ret_why);
void cbx_http_head_release(struct cbx_http_head *h);
const char *cbx_http_head_field(const struct cbx_http_head *h, const char *name); /* NULL: not there */
/* Whether Accept, on any of its lines, has this media type by name. */
bool cbx_http_head_accepts(const struct cbx_http_head *h, const char *type);

const char *cbx_http_reason(int status); /* "Not Found", for the head of an answer */

/* W3C trace context: "00-", 32 digits, "-", 16 digits, "-", 2 digits, all hexadecimal in lower case, and neither of the
 * two ids all zeros. Of a later version what follows that is not looked at. */
bool cbx_http_trace_valid(const char *value);

struct cbx_http_chunks {
	enum {
		CBX_HTTP_CHUNK_SIZE,
		CBX_HTTP_CHUNK_SIZE_LF,
		CBX_HTTP_CHUNK_DATA,
		CBX_HTTP_CHUNK_DATA_CR,
		CBX_HTTP_CHUNK_DATA_LF,
		CBX_HTTP_CHUNK_LAST_CR,
		CBX_HTTP_CHUNK_LAST_LF,
		CBX_HTTP_CHUNK_END,
	} state;
	uint64_t left; /* of this chunk */
	unsigned digits;
};

/* Append the data of chunks to out. 0: *ret_used bytes were taken, and the state tells the end; else an HTTP status. */
int cbx_http_chunks_feed(struct cbx_http_chunks *c, const char *p, size_t len, struct cbx_buf *out, size_t *ret_used);

#endif
