/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a zip's list of files is at its end. With that, and its size, a wheel can be unpacked from its
 * start on while it comes, which takes longer than to fetch it. So the end is fetched first, or was read by the resolver
 * already, and put where the index says that it belongs; then what is before it. Whether all of that together is what was
 * promised shows its sum. An index that cannot send parts sends everything, and where its size is not what it says, all is
 * fetched once more, at once.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "installer/installer.h"

/* 1: it was all there is. */
static int fetch_end(struct cbx_fetcher *f, const struct cbx_index *index, const struct cbx_store_dirs *store,
		     const struct cbx_fetch *what, FILE *out, struct cbx_err *err)
{
	struct cbx_fetch end = *what;
	int r;

	if (cbx_kept_end(store, what->url, out) && ftello(out) == (off_t)CBX_END_BYTES)
		return 0;
	rewind(out);
	if (ftruncate(fileno(out), 0) < 0)
		return cbx_fail(err, errno, "begin again");
	end.last = CBX_END_BYTES;
	end.together = NULL;
	end.arriving = NULL;
	r = cbx_fetch(f, index, &end, out, err);
	return r < 0 ? r : !end.part;
}

/* From the start of the file to where it belongs. */
static int move_end(FILE *out, uint64_t to, struct cbx_err *err)
{
	_cleanup_free_ char *p = malloc(CBX_END_BYTES);
	int fd = fileno(out);

	if (!p || fflush(out) != 0 || pread(fd, p, CBX_END_BYTES, 0) != (ssize_t)CBX_END_BYTES ||
	    ftruncate(fd, 0) < 0 || pwrite(fd, p, CBX_END_BYTES, (off_t)to) != (ssize_t)CBX_END_BYTES)
		return cbx_fail(err, errno, "keep the end of a wheel");
	rewind(out);
	return 0;
}

int cbx_fetch_in_parts(struct cbx_fetcher *f, const struct cbx_index *index, const struct cbx_store_dirs *store,
		       struct cbx_fetch *what, FILE *out, struct cbx_err *err)
{
	struct cbx_fetch rest = *what;
	int r = fetch_end(f, index, store, what, out, err);

	if (r > 0)
		r = cbx_fetch_count(what->together, (uint64_t)ftello(out), what->max, index->host, err);
	if (r != 0)
		return r < 0 ? r : 1;
	rest.first = what->size - CBX_END_BYTES;
	r = move_end(out, rest.first, err);
	if (r >= 0)
		r = cbx_fetch_count(what->together, CBX_END_BYTES, what->max, index->host, err);
	if (r >= 0)
		r = cbx_fetch(f, index, &rest, out, err);
	if (r >= 0)
		return 1;
	if (strcmp(err->kind, "no_ranges") != 0 || what->arriving->end)
		return r;
	atomic_fetch_sub(what->together, CBX_END_BYTES);
	rewind(out);
	return ftruncate(fileno(out), 0) < 0 ? cbx_fail(err, errno, "begin again") : 0;
}
