/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PROXY_HEAD_H
#define CBX_PROXY_HEAD_H

/*
 * The head of a request of HTTP/1.0 or 1.1, read so strictly that no server can read it in another way: lines end with
 * CR and LF, there is one Host and one length at most, and what is not understood is refused. What is sent on is
 * written anew from what was read.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "policy/host.h"

#define CBX_HEAD_MAX	65536 /* bytes of a head */
#define CBX_HEADERS_MAX 128

struct cbx_text {
	const char *p; /* borrowed from the head */
	size_t n;
};

enum cbx_body { CBX_BODY_NONE, CBX_BODY_LENGTH, CBX_BODY_CHUNKED };

/* A header that is added on the way; the client's own of that name are dropped. */
struct cbx_added {
	const char *name, *line; /* borrowed; the line without its end */
};

struct cbx_head {
	bool connect;  /* CONNECT: there are a host and a port, and nothing else counts */
	bool absolute; /* the target had the host; in an origin form, Host had it */
	struct cbx_host host;
	uint16_t port; /* CONNECT has one always; else `standard` if omitted */
	uint16_t standard;
	char method[24];
	char *path; /* owned; with its query */
	bool old;   /* HTTP/1.0 */
	enum cbx_body body;
	uint64_t length; /* LENGTH */
	bool overrides;	 /* a header has another method or path, which some servers take instead */
	struct cbx_text
		headers[CBX_HEADERS_MAX]; /* whole lines, without those that are for one hop, Host and lengths */
	size_t nheaders;
	const char *why; /* a failure's, for people */
};

/* How many bytes the head has; 0: more are needed; negative: the status to refuse it with, and ret->why is set.
 * standard: the port of what is asked for without one, 80, or 443 for what came by TLS, where a target is a path. */
int cbx_head_parse(const char *p, size_t n, uint16_t standard, struct cbx_head *ret);
void cbx_head_release(struct cbx_head *h);
/* What goes to the server in its place. With something added the answer must come as it is, so that it can be searched.
 */
void cbx_head_write(const struct cbx_head *h, const struct cbx_added *added, size_t nadded, struct cbx_buf *out);

/* A body in chunks: bytes are passed on as they are, up to the end of the last chunk, and not one more. Extensions and
 * trailers are refused. A zeroed struct is its start. */
struct cbx_chunks {
	int state;
	unsigned digits;
	uint64_t left;
};
/* How many of n bytes belong to it; -1: it is not well-formed. ->state is CBX_CHUNKS_END at its end. */
#define CBX_CHUNKS_END 100
ptrdiff_t cbx_chunks_take(struct cbx_chunks *c, const char *p, size_t n);

/* A response's head: its length; 0: more is needed; -1: it is none. */
int cbx_response_parse(const char *p, size_t n, unsigned *ret_status);

#endif
