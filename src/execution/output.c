/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: bytes go to the head until it is full, then to the tail, which is cut back to tail_max whenever
 * it has grown to twice that, so a flood costs one copy a byte. Both are flat buffers with a list of runs beside them
 * that says which stream each stretch came from. All cuts are at character boundaries. Where nothing was dropped, head
 * and tail together are the whole output.
 */
#include "execution/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

#define RUN_STREAM 0x80000000u

static void runs_add(struct cbx_output_runs *r, enum cbx_stream stream, size_t n)
{
	uint32_t tag = stream == CBX_STDERR ? RUN_STREAM : 0;

	if (n == 0)
		return;
	if (r->n && (r->v[r->n - 1] & RUN_STREAM) == tag) {
		r->v[r->n - 1] += (uint32_t)n; /* buffers are far below 2^31 bytes */
		return;
	}
	if (r->n == r->cap) {
		r->cap = r->cap ? r->cap * 2 : 8;
		r->v = cbx_xrealloc(r->v, r->cap * sizeof(*r->v));
	}
	r->v[r->n++] = tag | (uint32_t)n;
}

static void runs_drop(struct cbx_output_runs *r, size_t n)
{
	size_t i = 0;

	while (i < r->n && n >= (r->v[i] & ~RUN_STREAM))
		n -= r->v[i++] & ~RUN_STREAM;
	if (i < r->n)
		r->v[i] -= (uint32_t)n;
	memmove(r->v, r->v + i, (r->n - i) * sizeof(*r->v));
	r->n -= i;
}

void cbx_output_clear(struct cbx_output *o)
{
	cbx_buf_release(&o->head);
	cbx_buf_release(&o->tail);
	o->head_runs.n = 0;
	o->tail_runs.n = 0;
	o->head_full = false;
	memset(o->total, 0, sizeof(o->total));
}

void cbx_output_release(struct cbx_output *o)
{
	cbx_output_clear(o);
	free(o->head_runs.v);
	free(o->tail_runs.v);
	cbx_buf_release(&o->scratch);
	memset(o, 0, sizeof(*o));
}

void cbx_output_drop(struct cbx_output *o)
{
	uint64_t total[CBX_STREAMS];

	memcpy(total, o->total, sizeof(total));
	cbx_output_release(o);
	memcpy(o->total, total, sizeof(total));
	o->head_full = true;
}

static bool continuation(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/* How many bytes at the end of p are the start of a sequence that more bytes could complete. */
static size_t incomplete(const char *p, size_t n)
{
	for (size_t k = 1; k <= 3 && k <= n; k++) {
		unsigned char c = (unsigned char)p[n - k];
		size_t need;

		if (continuation((char)c))
			continue;
		need = c >= 0xf0 && c <= 0xf4 ? 4 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xc2 && c < 0xe0 ? 2 : 1;
		return need > k ? k : 0;
	}
	return 0;
}

/* Move a cut at n back to a character boundary; bytes that are not UTF-8 may be cut anywhere. */
static size_t boundary_before(const char *p, size_t n, size_t len)
{
	size_t k = n;

	while (k > 0 && n - k < 3 && k < len && continuation(p[k]))
		k--;
	if (k < n && cbx_utf8_len(p + k, len - k) > n - k)
		return k;
	return n;
}

/* Move a cut at n forward to a character boundary. */
static size_t boundary_after(const char *p, size_t n, size_t len)
{
	for (int i = 0; i < 3 && n < len && continuation(p[n]); i++)
		n++;
	return n;
}

static void record(struct cbx_output *o, enum cbx_stream stream, const char *p, size_t n)
{
	o->total[stream] += n;
	if (!o->head_full) {
		size_t room = o->head_max - o->head.len;
		size_t take = n <= room ? n : boundary_before(p, room, n);

		cbx_buf_add(&o->head, p, take);
		runs_add(&o->head_runs, stream, take);
		o->head_full = take < n;
		p += take;
		n -= take;
	}
	while (n) {
		/* In pieces, so that one large call needs no larger a buffer. */
		size_t take = n <= o->tail_max ? n : o->tail_max;

		cbx_buf_add(&o->tail, p, take);
		runs_add(&o->tail_runs, stream, take);
		p += take;
		n -= take;
		if (o->tail.len > 2 * o->tail_max)
			cbx_output_trim(o);
	}
}

/* Bytes at the front of the tail that are there only because it has not been cut yet. */
static size_t surplus(const struct cbx_output *o)
{
	if (o->tail.len <= o->tail_max)
		return 0;
	return boundary_after(o->tail.data, o->tail.len - o->tail_max, o->tail.len);
}

void cbx_output_trim(struct cbx_output *o)
{
	size_t n = surplus(o);

	if (n) {
		runs_drop(&o->tail_runs, n);
		cbx_buf_drop(&o->tail, n);
	}
}

void cbx_output_forget(struct cbx_output *o, uint64_t before)
{
	uint64_t at = cbx_output_total(o) - o->tail.len;
	size_t n = before <= at ? 0 : before - at < o->tail.len ? (size_t)(before - at) : o->tail.len;

	if (!n)
		return;
	runs_drop(&o->tail_runs, n);
	if (n == o->tail.len)
		cbx_buf_release(&o->tail);
	else
		cbx_buf_drop(&o->tail, n);
}

void cbx_output_pass(struct cbx_output *o, enum cbx_stream stream, size_t n)
{
	o->total[stream] += n;
}

void cbx_output_feed(struct cbx_output *o, enum cbx_stream stream, const char *p, size_t n, const char **ret_p,
		     size_t *ret_n)
{
	size_t held;

	if (o->ncarry[stream]) {
		o->scratch.len = 0;
		cbx_buf_add(&o->scratch, o->carry[stream], o->ncarry[stream]);
		cbx_buf_add(&o->scratch, p, n);
		p = o->scratch.data;
		n = o->scratch.len;
	}
	held = incomplete(p, n);
	memcpy(o->carry[stream], p + n - held, held);
	o->ncarry[stream] = held;
	n -= held;
	record(o, stream, p, n);
	*ret_p = p;
	*ret_n = n;
}

void cbx_output_flush(struct cbx_output *o, enum cbx_stream stream, const char **ret_p, size_t *ret_n)
{
	size_t n = o->ncarry[stream];

	o->scratch.len = 0;
	cbx_buf_add(&o->scratch, o->carry[stream], n);
	o->ncarry[stream] = 0;
	record(o, stream, o->scratch.data, n);
	*ret_p = o->scratch.data;
	*ret_n = n;
}

uint64_t cbx_output_total(const struct cbx_output *o)
{
	return o->total[CBX_STDOUT] + o->total[CBX_STDERR];
}

uint64_t cbx_output_omitted(const struct cbx_output *o)
{
	return cbx_output_total(o) - o->head.len - (o->tail.len - surplus(o));
}

size_t cbx_output_memory(const struct cbx_output *o)
{
	return o->head.cap + o->tail.cap + o->scratch.cap +
	       (o->head_runs.cap + o->tail_runs.cap) * sizeof(*o->head_runs.v);
}

void cbx_format_count(uint64_t v, char out[32])
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)v);
	char *at = out;

	for (int i = 0; i < n; i++) {
		*at++ = digits[i];
		if ((n - i) % 3 == 1 && i + 1 < n)
			*at++ = ',';
	}
	*at = '\0';
}

static void each_run(const struct cbx_buf *b, const struct cbx_output_runs *r, size_t skip,
		     void (*fn)(void *arg, enum cbx_stream stream, const char *p, size_t n), void *arg)
{
	const char *p = b->data;

	for (size_t i = 0; i < r->n; i++) {
		size_t n = r->v[i] & ~RUN_STREAM;
		size_t cut = skip < n ? skip : n;

		if (cut < n)
			fn(arg, r->v[i] & RUN_STREAM ? CBX_STDERR : CBX_STDOUT, p + cut, n - cut);
		skip -= cut;
		p += n;
	}
}

struct text {
	enum cbx_stream stream; /* CBX_STREAMS: all */
	struct cbx_buf *out;
	uint64_t kept; /* bytes before they were made valid */
};

static void add_text(void *arg, enum cbx_stream stream, const char *p, size_t n)
{
	struct text *t = arg;

	if (t->stream != CBX_STREAMS && t->stream != stream)
		return;
	cbx_utf8_append(t->out, p, n);
	t->kept += n;
}

static void add_gap(struct cbx_buf *out, uint64_t bytes, const char *where)
{
	char count[32];

	cbx_format_count(bytes, count);
	if (out->len && out->data[out->len - 1] != '\n')
		cbx_buf_addc(out, '\n');
	cbx_buf_addf(out, "[… %s byte%s omitted%s%s …]\n", count, bytes == 1 ? "" : "s", where ? "; " : "",
		     where ? where : "");
}

void cbx_output_text(const struct cbx_output *o, enum cbx_stream stream, const char *where, struct cbx_buf *out)
{
	uint64_t total = stream == CBX_STREAMS ? cbx_output_total(o) : o->total[stream];
	_cleanup_buf_ struct cbx_buf end = { 0 };
	struct text t = { .stream = stream, .out = out };

	each_run(&o->head, &o->head_runs, 0, add_text, &t);
	t.out = &end;
	each_run(&o->tail, &o->tail_runs, surplus(o), add_text, &t);
	if (t.kept < total)
		add_gap(out, total - t.kept, where);
	cbx_buf_add(out, cbx_buf_str(&end), end.len);
}

struct places {
	uint64_t *at, done; /* bytes so far */
	size_t n, next;
	struct cbx_buf text; /* of those */
};

static void place(void *arg, enum cbx_stream stream, const char *p, size_t n)
{
	struct places *t = arg;
	uint64_t end = t->done + n;

	while (t->next < t->n && t->at[t->next] <= end) {
		size_t k = t->at[t->next] > t->done ? (size_t)(t->at[t->next] - t->done) : 0;

		cbx_utf8_append(&t->text, p, k);
		p += k;
		t->done += k;
		t->at[t->next++] = t->text.len;
	}
	cbx_utf8_append(&t->text, p, (size_t)(end - t->done));
	t->done = end;
}

void cbx_output_places(const struct cbx_output *o, const char *where, uint64_t *at, size_t n)
{
	struct places t = { .at = at, .n = n };
	uint64_t kept = cbx_output_total(o) - cbx_output_omitted(o);

	each_run(&o->head, &o->head_runs, 0, place, &t);
	if (kept < cbx_output_total(o)) {
		add_gap(&t.text, cbx_output_total(o) - kept, where);
		t.done = cbx_output_total(o) - (kept - o->head.len);
	}
	while (t.next < n && at[t.next] <= t.done)
		at[t.next++] = t.text.len;
	each_run(&o->tail, &o->tail_runs, surplus(o), place, &t);
	while (t.next < n)
		at[t.next++] = t.text.len;
	cbx_buf_release(&t.text);
}

void cbx_output_each(const struct cbx_output *o, void (*fn)(void *arg, enum cbx_stream stream, const char *p, size_t n),
		     void *arg)
{
	each_run(&o->head, &o->head_runs, 0, fn, arg);
	each_run(&o->tail, &o->tail_runs, surplus(o), fn, arg);
}

/* From the end: what is new is little, and its runs are the last. */
void cbx_output_since(const struct cbx_output *o, uint64_t from,
		      void (*fn)(void *arg, enum cbx_stream stream, const char *p, size_t n), void *arg)
{
	size_t n = o->tail.len - surplus(o), i = o->tail_runs.n, back = 0;
	uint64_t end = cbx_output_total(o);
	const char *p;

	if (end - n < from)
		n = from < end ? (size_t)(end - from) : 0;
	while (back < n)
		back += o->tail_runs.v[--i] & ~RUN_STREAM;
	p = cbx_buf_str(&o->tail) + (o->tail.len - back);
	for (size_t skip = back - n; i < o->tail_runs.n; i++, skip = 0) {
		size_t len = o->tail_runs.v[i] & ~RUN_STREAM;

		fn(arg, o->tail_runs.v[i] & RUN_STREAM ? CBX_STDERR : CBX_STDOUT, p + skip, len - skip);
		p += len;
	}
}

bool cbx_output_at(const struct cbx_output *o, uint64_t from, size_t max, struct cbx_buf *out)
{
	uint64_t tail_at = cbx_output_total(o) - o->tail.len;

	if (from < o->head.len) {
		size_t n = o->head.len - (size_t)from;

		cbx_buf_add(out, o->head.data + from, n < max ? n : max);
		return true;
	}
	if (from < tail_at)
		return false;
	if (from - tail_at < o->tail.len) {
		size_t n = o->tail.len - (size_t)(from - tail_at);

		cbx_buf_add(out, o->tail.data + (from - tail_at), n < max ? n : max);
	}
	return true;
}
