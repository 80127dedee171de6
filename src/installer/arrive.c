/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a large wheel is unpacked while it comes (parts.c). What fetches it could be taken over by what
 * it reads, and put other bytes in the place of those that have been unpacked. So it writes to a pipe, and the process
 * here to a file: each byte once, before it can be read, with the sum of all; who unpacks can only read that file.
 */
#include <errno.h>
#include <nettle/sha2.h>
#include <poll.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "installer/install.h"

#define LOOK_MS 5 /* between looks for its end */

bool cbx_arrives(const struct cbx_arriving *a, const struct cbx_apart *who)
{
	struct pollfd p = { .fd = who->fd, .events = POLLIN };

	while (!a->end)
		if (poll(&p, 1, LOOK_MS) != 0)
			return a->end;
	return true;
}

/* From the pipe to this part of the file. *ret_n: how much came. */
static int receive(const struct cbx_copying *c, uint64_t at, uint64_t to, struct sha256_ctx *sum, uint64_t *ret_n,
		   struct cbx_err *err)
{
	uint64_t n = 0;

	while (n < to - at) {
		uint8_t chunk[65536];
		size_t most = to - at - n < sizeof(chunk) ? to - at - n : sizeof(chunk);
		ssize_t got = read(c->from, chunk, most);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 || (got > 0 && pwrite(c->to, chunk, (size_t)got, (off_t)(at + n)) != got))
			return cbx_fail(err, errno, "keep %s", c->wheel->file);
		if (!got)
			break;
		if (sum)
			sha256_update(sum, (size_t)got, chunk);
		n += (uint64_t)got;
		if (sum)
			c->arriving->begun = at + n;
	}
	*ret_n = n;
	return 0;
}

/* Its end is behind the rest, and came before it. */
static int add_end(const struct cbx_copying *c, uint64_t at, struct sha256_ctx *sum, struct cbx_err *err)
{
	uint8_t chunk[65536];
	ssize_t n;

	while ((n = pread(c->to, chunk, sizeof(chunk), (off_t)at)) > 0) {
		sha256_update(sum, (size_t)n, chunk);
		at += (uint64_t)n;
	}
	return n < 0 ? cbx_fail(err, errno, "read %s", c->wheel->file) : 0;
}

static int copy(const struct cbx_copying *c, struct cbx_err *err)
{
	uint64_t size = c->wheel->size, end = size - CBX_END_BYTES, n;
	uint8_t digest[SHA256_DIGEST_SIZE];
	struct sha256_ctx sum;
	int r = receive(c, end, size, NULL, &n, err);

	if (r < 0 || !n) /* it does not come in parts */
		return r;
	sha256_init(&sum);
	if (n == CBX_END_BYTES) {
		c->arriving->end = end;
		r = receive(c, 0, end, &sum, &n, err);
	}
	if (r >= 0 && n < end)
		r = cbx_refuse(err, "index_down", EPIPE, "%s broke off", c->wheel->file);
	if (r >= 0)
		r = add_end(c, end, &sum, err);
	if (r < 0)
		return r;
	sha256_digest(&sum, sizeof(digest), digest);
	return cbx_check_digest(c->wheel, digest, err);
}

int cbx_arrive(void *arg, struct cbx_err *err)
{
	const struct cbx_copying *c = arg;
	uint8_t ignored[65536];
	int r = copy(c, err);

	c->arriving->over = true;
	/* Who fetches is not to fail for this. */
	while (r < 0 && cbx_read_full(c->from, ignored, sizeof(ignored)) > 0)
		;
	return r;
}
