/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: RFC 1950 and 1951. A code is a table of how many codes there are of each length, and the symbols
 * in their order; it is read bit by bit, which is quick enough for a picture. Each read and write is checked against
 * its bound; what is wrong makes all later reads give zeros and sets `bad`. What is written uses the code that needs no
 * table, and repeats what stands left of it, or above.
 */
#include <string.h>

#include "base/cleanup.h"
#include "cli/png.h"

#define BITS_MAX      15
#define LITERALS      288
#define DISTANCES     30
#define LENGTHS	      19
#define END_OF_BLOCK  256
#define DISTANCES_ALL 32
#define MATCH_MIN     3
#define MATCH_MAX     258

struct code {
	uint16_t count[BITS_MAX + 1], symbol[LITERALS];
};

struct stream {
	const uint8_t *p, *end;
	uint8_t *out, *at, *out_end;
	uint32_t bits;
	unsigned nbits;
	bool bad;
};

static unsigned take(struct stream *s, unsigned n)
{
	unsigned v;

	while (s->nbits < n) {
		if (s->p == s->end) {
			s->bad = true;
			return 0;
		}
		s->bits |= (uint32_t)*s->p++ << s->nbits;
		s->nbits += 8;
	}
	v = s->bits & ((1u << n) - 1);
	s->bits >>= n;
	s->nbits -= n;
	return v;
}

/* Whether it can be a code: no length has more codes than there are. */
static bool make(struct code *c, const uint8_t *lengths, unsigned n)
{
	unsigned at[BITS_MAX + 2] = { 0 };
	int left = 1;

	memset(c, 0, sizeof(*c));
	for (unsigned i = 0; i < n; i++)
		c->count[lengths[i]]++;
	c->count[0] = 0;
	for (unsigned i = 1; i <= BITS_MAX; i++) {
		left = left * 2 - c->count[i];
		if (left < 0)
			return false;
		at[i + 1] = at[i] + c->count[i];
	}
	for (unsigned i = 0; i < n; i++)
		if (lengths[i])
			c->symbol[at[lengths[i]]++] = (uint16_t)i;
	return true;
}

static unsigned symbol(struct stream *s, const struct code *c)
{
	int code = 0, first = 0, index = 0;

	for (unsigned i = 1; i <= BITS_MAX && !s->bad; i++) {
		int count = c->count[i];

		code |= (int)take(s, 1);
		if (code - count < first)
			return c->symbol[index + (code - first)];
		index += count;
		first = (first + count) << 1;
		code <<= 1;
	}
	s->bad = true;
	return END_OF_BLOCK;
}

static void copy(struct stream *s, size_t distance, size_t n)
{
	if (distance > (size_t)(s->at - s->out) || n > (size_t)(s->out_end - s->at)) {
		s->bad = true;
		return;
	}
	for (; n; n--, s->at++)
		*s->at = s->at[-(ptrdiff_t)distance];
}

static const uint16_t length[] = { 3,  4,  5,  6,  7,  8,  9,  10, 11,	13,  15,  17,  19,  23, 27,
				   31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258 };
static const uint8_t length_bits[] = { 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
				       2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0 };
static const uint16_t distance[] = { 1,	   2,	 3,    4,    5,	   7,	 9,    13,    17,    25,
				     33,   49,	 65,   97,   129,  193,	 257,  385,   513,   769,
				     1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577 };

static void compressed(struct stream *s, const struct code *literals, const struct code *distances)
{
	while (!s->bad) {
		unsigned v = symbol(s, literals), d;
		size_t n;

		if (v == END_OF_BLOCK)
			return;
		if (v < END_OF_BLOCK && s->at < s->out_end) {
			*s->at++ = (uint8_t)v;
			continue;
		}
		v -= END_OF_BLOCK + 1;
		if (s->at == s->out_end || v >= ARRAY_SIZE(length))
			break;
		n = length[v] + take(s, length_bits[v]);
		d = symbol(s, distances);
		if (d >= DISTANCES)
			break;
		copy(s, distance[d] + take(s, d < 2 ? 0 : d / 2 - 1), n);
	}
	s->bad = true;
}

static void stored(struct stream *s)
{
	unsigned n, inverse;

	take(s, s->nbits & 7);
	n = take(s, 8);
	n |= take(s, 8) << 8;
	inverse = take(s, 8);
	inverse |= take(s, 8) << 8;
	if (s->bad || n != (inverse ^ 0xffff) || n > (size_t)(s->out_end - s->at)) {
		s->bad = true;
		return;
	}
	for (; n && !s->bad; n--)
		*s->at++ = (uint8_t)take(s, 8);
}

static void fixed(struct stream *s)
{
	uint8_t lengths[LITERALS];
	struct code literals, distances;

	memset(lengths, 8, 144);
	memset(lengths + 144, 9, 112);
	memset(lengths + 256, 7, 24);
	memset(lengths + 280, 8, 8);
	make(&literals, lengths, LITERALS);
	memset(lengths, 5, DISTANCES);
	make(&distances, lengths, DISTANCES);
	compressed(s, &literals, &distances);
}

static void dynamic(struct stream *s)
{
	static const uint8_t order[LENGTHS] = { 16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15 };
	unsigned nliterals = take(s, 5) + 257, ndistances = take(s, 5) + 1, n = take(s, 4) + 4, i = 0;
	uint8_t lengths[LITERALS + DISTANCES_ALL] = { 0 };
	struct code literals, distances;

	for (unsigned k = 0; k < n; k++)
		lengths[order[k]] = (uint8_t)take(s, 3);
	s->bad = s->bad || nliterals > LITERALS || ndistances > DISTANCES || !make(&literals, lengths, LENGTHS);
	memset(lengths, 0, sizeof(lengths));
	while (!s->bad && i < nliterals + ndistances) {
		unsigned v = symbol(s, &literals), times = 1;
		uint8_t repeated = (uint8_t)v;

		if (v >= 16) {
			times = v == 16 ? 3 + take(s, 2) : v == 17 ? 3 + take(s, 3) : 11 + take(s, 7);
			s->bad = s->bad || v > 18 || (v == 16 && i == 0) || i + times > nliterals + ndistances;
			repeated = v == 16 && i ? lengths[i - 1] : 0;
		}
		for (; times && !s->bad; times--)
			lengths[i++] = repeated;
	}
	s->bad = s->bad || !make(&literals, lengths, nliterals) || !make(&distances, lengths + nliterals, ndistances);
	if (!s->bad)
		compressed(s, &literals, &distances);
}

size_t cbx_inflate(const uint8_t *p, size_t n, uint8_t *out, size_t room)
{
	struct stream s = { .p = p + 2, .end = p + n, .out = out, .at = out, .out_end = out + room };
	bool last = false;

	if (n < 2 || (p[0] & 0x0f) != 8 || (p[0] << 8 | p[1]) % 31 || p[1] & 0x20)
		return 0;
	while (!last && !s.bad) {
		last = take(&s, 1);
		switch (take(&s, 2)) {
		case 0:
			stored(&s);
			break;
		case 1:
			fixed(&s);
			break;
		case 2:
			dynamic(&s);
			break;
		default:
			s.bad = true;
		}
	}
	return s.bad ? 0 : (size_t)(s.at - s.out);
}

/* ---- writing ---- */

struct bits {
	struct cbx_buf *out;
	uint32_t bits;
	unsigned n;
};

static void put(struct bits *b, unsigned v, unsigned n)
{
	b->bits |= v << b->n;
	for (b->n += n; b->n >= 8; b->n -= 8) {
		cbx_buf_addc(b->out, (char)b->bits);
		b->bits >>= 8;
	}
}

/* A code goes with its first bit first. */
static void put_code(struct bits *b, unsigned code, unsigned n)
{
	for (unsigned i = n; i > 0; i--)
		put(b, code >> (i - 1) & 1, 1);
}

static void put_literal(struct bits *b, unsigned v)
{
	if (v < 144)
		put_code(b, 0x30 + v, 8);
	else if (v < 256)
		put_code(b, 0x190 + (v - 144), 9);
	else if (v < 280)
		put_code(b, v - 256, 7);
	else
		put_code(b, 0xc0 + (v - 280), 8);
}

static void put_match(struct bits *b, unsigned n, unsigned back)
{
	unsigned i = ARRAY_SIZE(length) - 1, k = ARRAY_SIZE(distance) - 1;

	while (length[i] > n)
		i--;
	while (distance[k] > back)
		k--;
	put_literal(b, END_OF_BLOCK + 1 + i);
	put(b, n - length[i], length_bits[i]);
	put_code(b, k, 5);
	put(b, back - distance[k], k < 2 ? 0 : k / 2 - 1);
}

/* How much of what follows is as it was, so far back. */
static unsigned same(const uint8_t *p, size_t at, size_t n, size_t back)
{
	unsigned len = 0;

	while (back && back <= at && len < MATCH_MAX && at + len < n && p[at + len] == p[at + len - back])
		len++;
	return len;
}

void cbx_deflate(const uint8_t *p, size_t n, size_t left, size_t above, struct cbx_buf *out)
{
	struct bits b = { .out = out };
	uint32_t x = 1, y = 0;

	cbx_buf_add(out, "\x78\x01", 2);
	put(&b, 1, 1);
	put(&b, 1, 2);
	for (size_t at = 0; at < n;) {
		unsigned beside = same(p, at, n, left), below = same(p, at, n, above);
		unsigned len = beside >= below ? beside : below;

		if (len >= MATCH_MIN)
			put_match(&b, len, (unsigned)(beside >= below ? left : above));
		else
			put_literal(&b, p[at]);
		at += len >= MATCH_MIN ? len : 1;
	}
	put_literal(&b, END_OF_BLOCK);
	put(&b, 0, 7);
	for (size_t i = 0; i < n; i++) {
		x = (x + p[i]) % 65521;
		y = (y + x) % 65521;
	}
	for (unsigned i = 0; i < 4; i++)
		cbx_buf_addc(out, (char)((y << 16 | x) >> (24 - 8 * i)));
}
