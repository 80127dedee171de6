/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a zip's list of files is at its end. With that, and its size, a wheel can be unpacked from its
 * start on while it comes, which takes longer than to fetch it. So the end is fetched first, or was read by the
 * resolver already; then what is before it. Whether all of that together is what was promised shows its sum. An index
 * that cannot send parts sends everything; where the size is not what it says, all is fetched once more, at once.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "installer/installer.h"

static int begin_again(FILE *out, struct cbx_err *err)
{
	rewind(out);
	return ftruncate(fileno(out), 0) < 0 ? cbx_fail(err, errno, "begin again") : 0;
}

/* The end, and `out` is empty. *ret empty: it was all there is, and is in `out`. */
static int fetch_end(struct cbx_fetcher *f, const struct cbx_index *index, const struct cbx_store_dirs *store,
		     const struct cbx_fetch *what, FILE *out, struct cbx_buf *ret, struct cbx_err *err)
{
	struct cbx_fetch end = *what;
	int r = 0;

	if (!cbx_kept_end(store, what->url, out) || ftello(out) != (off_t)CBX_END_BYTES) {
		end.last = CBX_END_BYTES;
		r = begin_again(out, err);
		if (r >= 0)
			r = cbx_fetch(f, index, &end, out, err);
		if (r < 0 || !end.part)
			return r;
	} else {
		r = cbx_fetch_count(what->together, CBX_END_BYTES, what->max, index->host, err);
	}
	if (r < 0)
		return r;
	rewind(out);
	if (cbx_read_whole(fileno(out), CBX_END_BYTES, ret) < 0 || ret->len != CBX_END_BYTES)
		return cbx_fail(err, EIO, "read the end of a wheel");
	return begin_again(out, err);
}

int cbx_fetch_in_parts(struct cbx_fetcher *f, const struct cbx_index *index, const struct cbx_store_dirs *store,
		       const struct cbx_fetch *what, FILE *out, FILE *pipe, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf end = { 0 };
	struct cbx_fetch rest = *what;
	int r = fetch_end(f, index, store, what, out, &end, err);

	if (r < 0 || !end.len)
		return r;
	rest.first = what->size - CBX_END_BYTES;
	rest.ahead = &end;
	r = cbx_fetch(f, index, &rest, pipe, err);
	if (r >= 0 && fflush(pipe) != 0)
		r = cbx_fail(err, errno, "pass a wheel on");
	if (r >= 0)
		return 1;
	if (strcmp(err->kind, "no_ranges") != 0)
		return r;
	atomic_fetch_sub(what->together, CBX_END_BYTES); /* it comes again */
	return 0;
}
