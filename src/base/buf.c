/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void out_of_memory(void)
{
	fputs("codebox: out of memory\n", stderr);
	abort();
}

void *cbx_xcalloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size ? size : 1);

	if (!p)
		out_of_memory();
	return p;
}

void *cbx_xrealloc(void *p, size_t size)
{
	p = realloc(p, size ? size : 1);
	if (!p)
		out_of_memory();
	return p;
}

char *cbx_xstrdup(const char *s)
{
	char *p = strdup(s);

	if (!p)
		out_of_memory();
	return p;
}

char *cbx_xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *p = NULL;

	va_start(ap, fmt);
	if (vasprintf(&p, fmt, ap) < 0)
		out_of_memory();
	va_end(ap);
	return p;
}

void cbx_buf_release(struct cbx_buf *b)
{
	free(b->data);
	memset(b, 0, sizeof(*b));
}

void cbx_buf_wipe(struct cbx_buf *b)
{
	if (b->data)
		explicit_bzero(b->data, b->cap);
	cbx_buf_release(b);
}

char *cbx_buf_reserve(struct cbx_buf *b, size_t more)
{
	size_t need, cap;

	if (more > SIZE_MAX / 2 - b->len - 1)
		out_of_memory();
	need = b->len + more + 1;
	if (need > b->cap) {
		cap = b->cap ? b->cap : 128;
		while (cap < need)
			cap *= 2;
		b->data = cbx_xrealloc(b->data, cap);
		b->cap = cap;
		b->data[b->len] = '\0';
	}
	return b->data + b->len;
}

void cbx_buf_add(struct cbx_buf *b, const void *p, size_t n)
{
	char *at = cbx_buf_reserve(b, n);

	if (n)
		memcpy(at, p, n);
	b->len += n;
	b->data[b->len] = '\0';
}

char *cbx_digits(char *end, uint64_t v, int n)
{
	for (; n > 0 || v; n--, v /= 10)
		*--end = (char)('0' + v % 10);
	return end;
}

void cbx_buf_addu(struct cbx_buf *b, uint64_t v)
{
	char text[20], *end = text + sizeof(text), *p = cbx_digits(end, v, 1);

	cbx_buf_add(b, p, (size_t)(end - p));
}

void cbx_buf_adds(struct cbx_buf *b, const char *s)
{
	cbx_buf_add(b, s, strlen(s));
}

void cbx_buf_addc(struct cbx_buf *b, char c)
{
	cbx_buf_add(b, &c, 1);
}

void cbx_buf_addf(struct cbx_buf *b, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	cbx_buf_reserve(b, (size_t)n);
	va_start(ap, fmt);
	vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
}

void cbx_buf_drop(struct cbx_buf *b, size_t n)
{
	if (n >= b->len) {
		b->len = 0;
	} else {
		memmove(b->data, b->data + n, b->len - n);
		b->len -= n;
	}
	if (b->data)
		b->data[b->len] = '\0';
}

char *cbx_buf_steal(struct cbx_buf *b)
{
	char *p;

	cbx_buf_reserve(b, 0);
	p = b->data;
	memset(b, 0, sizeof(*b));
	return p;
}

const char *cbx_buf_str(const struct cbx_buf *b)
{
	return b->data ? b->data : "";
}
