/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a large wheel is unpacked while it comes (parts.c). What fetches it could be taken over by what
 * it reads, and write other bytes once these have been unpacked. So what is unpacked is a copy, which the process here
 * makes of what has come, and whose sum it computes: each byte is written once, before it can be read, and who unpacks
 * cannot write to it.
 */
#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "installer/install.h"

#define LOOK_MS 2 /* between looks for what has come */

bool cbx_arrives(const struct cbx_arriving *a, const struct cbx_apart *who)
{
	struct pollfd p = { .fd = who->fd, .events = POLLIN };

	while (!a->end)
		if (poll(&p, 1, LOOK_MS) != 0)
			return a->end;
	return true;
}

static int copy(const struct cbx_copying *c, struct sha256_ctx *sum, uint64_t at, uint64_t to, struct cbx_err *err)
{
	uint8_t chunk[65536];

	while (at < to) {
		size_t n = to - at < sizeof(chunk) ? to - at : sizeof(chunk);
		ssize_t got = pread(c->from, chunk, n, (off_t)at);

		if (got <= 0 || pwrite(c->to, chunk, (size_t)got, (off_t)at) != got)
			return cbx_fail(err, got ? errno : EIO, "copy %s", c->wheel->file);
		if (sum)
			sha256_update(sum, (size_t)got, chunk);
		at += (uint64_t)got;
	}
	return 0;
}

/* What has come, from *at on, until nothing else does. */
static int follow(const struct cbx_copying *c, struct sha256_ctx *sum, uint64_t end, struct cbx_err *err)
{
	struct pollfd p = { .fd = c->fetch->fd, .events = POLLIN };
	uint64_t at = 0;
	int r = 0;

	while (r >= 0 && at < end) {
		bool over = poll(&p, 1, 0) != 0; /* ahead of the look: what came before that counts */
		uint64_t begun = c->theirs->begun;

		begun = begun < end ? begun : end;
		if (begun > at) {
			r = copy(c, sum, at, begun, err);
			at = begun;
			c->ours->begun = at;
		} else if (over) {
			r = cbx_refuse(err, "index_down", EPIPE, "%s does not come", c->wheel->file);
		} else {
			(void)poll(&p, 1, LOOK_MS);
		}
	}
	return r;
}

/* Of the copy, which nobody else can write to. */
static int add_end(const struct cbx_copying *c, struct sha256_ctx *sum, uint64_t at, struct cbx_err *err)
{
	uint8_t chunk[65536];
	ssize_t n;

	while ((n = pread(c->to, chunk, sizeof(chunk), (off_t)at)) > 0) {
		sha256_update(sum, (size_t)n, chunk);
		at += (uint64_t)n;
	}
	return n < 0 ? cbx_fail(err, errno, "read %s", c->wheel->file) : 0;
}

int cbx_arrive(void *arg, struct cbx_err *err)
{
	const struct cbx_copying *c = arg;
	uint64_t size = c->wheel->size, end = size - CBX_END_BYTES;
	uint8_t digest[SHA256_DIGEST_SIZE];
	struct sha256_ctx sum;
	int r = copy(c, NULL, end, size, err);

	if (r >= 0) {
		sha256_init(&sum);
		c->ours->end = end;
		r = follow(c, &sum, end, err);
	}
	c->ours->over = true;
	if (r >= 0)
		r = add_end(c, &sum, end, err);
	if (r < 0)
		return r;
	sha256_digest(&sum, sizeof(digest), digest);
	return cbx_check_digest(c->wheel, digest, err);
}
