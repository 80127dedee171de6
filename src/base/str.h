/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_STR_H
#define CBX_BASE_STR_H

/* Names, numbers, UTF-8 and base64: the one parser of each. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define CBX_NAME_MAX   63	     /* longest name of a session or image, in bytes, without the NUL */
#define CBX_UNFINISHED "-unfinished" /* behind the names of images in the making that can be used already */

/* A name of ours: [A-Za-z0-9][A-Za-z0-9_.-]{0,62}, so never a path, never an option. */
bool cbx_name_valid(const char *s);

/* An absolute path without ".", "..", empty and repeated parts; "/" alone is one. */
bool cbx_path_clean(const char *s);
/* Of two such paths: whether one is the other, or below it; by whole parts, so "/variant" is not within "/var". */
bool cbx_path_within(const char *path, const char *dir);

bool cbx_starts_with(const char *s, const char *prefix);
bool cbx_ends_with(const char *s, const char *suffix);

/* Decimal digits only, whole string, min..max; `what` names the value in the error. */
int cbx_parse_u64(const char *s, const char *what, uint64_t min, uint64_t max, uint64_t *ret, struct cbx_err *err);
/* Bytes: digits with an optional K, M, G or T (powers of 1024, an optional "iB" or "B" after it). */
int cbx_parse_size(const char *s, const char *what, uint64_t min, uint64_t max, uint64_t *ret, struct cbx_err *err);
/* Seconds: digits with an optional ms, s, m, h or d; the result is in milliseconds. */
int cbx_parse_duration_ms(const char *s, const char *what, uint64_t min, uint64_t max, uint64_t *ret,
			  struct cbx_err *err);
void cbx_format_size(uint64_t bytes, char out[32]); /* "1.5 MiB" */
/* 2026-01-31T12:00:00Z, and with .999 before the Z; false: such a year has no name, and "?" is in it. */
bool cbx_format_time(int64_t seconds, char out[32]);
bool cbx_format_time_ms(uint64_t ms, char out[32]);

/* Length (1..4) of the valid UTF-8 sequence at p with n > 0 bytes left, or 0 when there is none: overlong forms,
 * surrogates and code points above U+10FFFF are not valid. */
size_t cbx_utf8_len(const char *p, size_t n);
size_t cbx_utf8_count(const char *p, size_t n); /* characters in valid UTF-8 */
bool cbx_utf8_valid(const char *p, size_t n);
/* At most `max` bytes of s, and never a part of a character. */
size_t cbx_utf8_head(const char *s, size_t max);
size_t cbx_utf8_put(char out[4], uint32_t code); /* a code point up to U+10FFFF; the bytes it takes */
uint64_t cbx_hash(const char *s); /* FNV-1a: to find, not to trust */
/* Append p with every invalid byte replaced by U+FFFD and every NUL by U+2400. */
void cbx_utf8_append(struct cbx_buf *out, const char *p, size_t n);

/* Where it is among n of them, some of which may be NULL; -1: nowhere, or it is NULL. */
int cbx_find_word(const char *word, const char *const *words, size_t n);
bool cbx_plain(const char *s);			 /* no control characters of ASCII are in it */
int cbx_by_name(const void *a, const void *b);	 /* for qsort(), of strings */

void cbx_base64_encode(struct cbx_buf *out, const void *p, size_t n);
/* Strict: alphabet, padding and length are checked; -EINVAL otherwise. */
int cbx_base64_decode(struct cbx_buf *out, const char *p, size_t n);

/* Two digits for each byte, in lower case, with a NUL behind them. */
void cbx_hex(const void *p, size_t n, char *out);

/* n characters of [a-z2-7] from getrandom(2), with a NUL behind them. */
void cbx_random_name(char *out, size_t n);
/* The bytes that %XX stand for; malloc'd, NULL: nothing is there, it is not well-formed, or it has a NUL. */
char *cbx_percent_decode(const char *p, size_t n);
/* Free a secret, which is overwritten first. *s becomes NULL, and may be it already. */
void cbx_str_wipe(char **s);

#endif
