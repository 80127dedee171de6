/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_BUF_H
#define CBX_BASE_BUF_H

/*
 * A growable byte buffer. A zeroed struct is a valid empty buffer. Contents may hold NUL bytes; there is always one
 * byte of room, kept NUL, behind `len`, so a text buffer's `data` can be used as a C string (data is NULL while
 * nothing has been added; cbx_buf_str() gives "" then). Out of memory ends the process: no caller could do better.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct cbx_buf {
	char *data;
	size_t len;
	size_t cap;
};

void cbx_buf_release(struct cbx_buf *b); /* frees; the struct is empty again */
void cbx_buf_wipe(struct cbx_buf *b);	 /* likewise, of a secret: what it held is overwritten */
char *cbx_buf_reserve(struct cbx_buf *b, size_t more); /* room for `more` bytes behind len; returns data + len */
void cbx_buf_add(struct cbx_buf *b, const void *p, size_t n);
void cbx_buf_adds(struct cbx_buf *b, const char *s);
void cbx_buf_addc(struct cbx_buf *b, char c);
void cbx_buf_addu(struct cbx_buf *b, uint64_t v); /* its decimal digits */
/* The digits of v, at least n of them, up to end (20 bytes at most); returns where they begin. */
char *cbx_digits(char *end, uint64_t v, int n);
void cbx_buf_addf(struct cbx_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void cbx_buf_drop(struct cbx_buf *b, size_t n); /* remove n bytes (n <= len) from the front */
char *cbx_buf_steal(struct cbx_buf *b); /* NUL-terminated malloc'd contents, owned by the caller */
const char *cbx_buf_str(const struct cbx_buf *b);

#define _cleanup_buf_ __attribute__((cleanup(cbx_buf_release)))

/* Allocation that cannot fail: the process ends when memory does. */
void *cbx_xcalloc(size_t n, size_t size);
void *cbx_xrealloc(void *p, size_t size);
char *cbx_xstrdup(const char *s);
char *cbx_xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
