/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_EXECUTION_OUTPUT_H
#define CBX_EXECUTION_OUTPUT_H

/*
 * What one execution printed, in bounded memory: the first head_max bytes and the last tail_max bytes of both streams
 * together, in the order in which they came, each byte tagged with its stream. A zeroed struct with head_max and
 * tail_max set is a valid empty output.
 *
 * A UTF-8 sequence that is cut by the end of a read is held back until the rest of it comes, so neither the record, nor
 * what is passed on, ever splits a character. Bytes that are not UTF-8 are kept as they are and replaced only in texts.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "interp/stream.h"

struct cbx_output_runs { /* lengths of alternating runs; the stream is in the top bit */
	uint32_t *v;
	size_t n, cap;
};

struct cbx_output {
	size_t head_max, tail_max;
	struct cbx_buf head, tail; /* tail holds up to 2 * tail_max between trims */
	struct cbx_output_runs head_runs, tail_runs;
	bool head_full;
	uint64_t total[CBX_STREAMS]; /* bytes recorded, kept or not */
	char carry[CBX_STREAMS][4];  /* start of a sequence whose end has not come */
	size_t ncarry[CBX_STREAMS];
	struct cbx_buf scratch;
};

void cbx_output_release(struct cbx_output *o);
/* Free what was recorded, but still know how much it was: all of it is omitted from now on. Nothing may be fed any
 * more. */
void cbx_output_drop(struct cbx_output *o);
/* Forget what was recorded; what is held back stays. */
void cbx_output_clear(struct cbx_output *o);
/* Without a head: forget what was recorded before this place; what comes later keeps its place. */
void cbx_output_forget(struct cbx_output *o, uint64_t before);
/* While nothing is recorded: n bytes of a stream are counted, and were passed on elsewhere. */
void cbx_output_pass(struct cbx_output *o, enum cbx_stream stream, size_t n);

/*
 * Record n bytes of a stream. *ret_p and *ret_n are the bytes that are now recorded (whole characters; borrowed until
 * the next call): what watchers and files are to get.
 */
void cbx_output_feed(struct cbx_output *o, enum cbx_stream stream, const char *p, size_t n, const char **ret_p,
		     size_t *ret_n);
/* No more comes: record what was held back. */
void cbx_output_flush(struct cbx_output *o, enum cbx_stream stream, const char **ret_p, size_t *ret_n);

uint64_t cbx_output_total(const struct cbx_output *o);
uint64_t cbx_output_omitted(const struct cbx_output *o); /* bytes that are not in memory */
/* Give back what the record does not need any more. */
void cbx_output_trim(struct cbx_output *o);
size_t cbx_output_memory(const struct cbx_output *o);

/*
 * Append the kept text of one stream (CBX_STREAMS: of both, in order) as valid UTF-8. Where bytes are missing, a line
 * says how many; `where` (may be NULL) is put into it, such as "the whole output is in FILE".
 */
void cbx_output_text(const struct cbx_output *o, enum cbx_stream stream, const char *where, struct cbx_buf *out);
/* Turn n ascending offsets in what was recorded into offsets in the text of both streams. */
void cbx_output_places(const struct cbx_output *o, const char *where, uint64_t *at, size_t n);
/* Append up to max bytes as they came, from offset `from` of all that was recorded; false: some of them, or all, are
 * kept no longer. Fewer than max come at the end, and where the kept head ends. */
bool cbx_output_at(const struct cbx_output *o, uint64_t from, size_t max, struct cbx_buf *out);
/* Call fn for each kept run of bytes, in order, as they came. */
void cbx_output_each(const struct cbx_output *o, void (*fn)(void *arg, enum cbx_stream stream, const char *p, size_t n),
		     void *arg);
/* The same without a head, from a place on. */
void cbx_output_since(const struct cbx_output *o, uint64_t from,
		      void (*fn)(void *arg, enum cbx_stream stream, const char *p, size_t n), void *arg);

/* 48213 -> "48,213" */
void cbx_format_count(uint64_t v, char out[32]);

#endif
