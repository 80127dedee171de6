/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_JSON_H
#define CBX_BASE_JSON_H

/*
 * Strict JSON over cJSON.
 *
 * cJSON accepts trailing bytes, raw control characters, leading zeros, invalid UTF-8 and duplicate keys, cuts strings
 * at an escaped NUL, and prints some numbers as others. What is read here is read by our own reader (RFC 8259, UTF-8,
 * depth, size), and printed by our own printer: cJSON is the form of a tree in between.
 *
 * There are two kinds of fault. A *syntax* fault means that there is no message: the parse fails. A *content*
 * fault (an escaped NUL, a lone surrogate, a duplicate key, invalid UTF-8 inside a string) leaves a message whose id
 * is known: the text is repaired (U+FFFD) and parsed, and `problem` says what was wrong, so that the caller can refuse
 * the request by its id.
 *
 * Look-ups are always case-sensitive: use these functions, never cJSON_GetObjectItem().
 */
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define CBX_JSON_DEPTH_MAX 64
#define CBX_JSON_SHOWN	   80 /* bytes of a name or value in an error */

struct cbx_json_doc {
	cJSON *root;            /* owned by the document */
	char *id; /* raw text of the top-level object's "id" value, or NULL: ids are echoed byte for byte */
	struct cbx_err problem; /* code 0: none; else a content fault, kind "invalid_string" or "duplicate_key" */
	size_t at;              /* where a fault is, in bytes from the start; not known of a duplicate key */
};

/* 0, or -errno with a syntax fault in err (kind "invalid_json", with the byte offset, which is in ret->at too). A tree
 * needs many times the memory of its text: more than CBX_JSON_VALUES_MAX values are a syntax fault, too. */
int cbx_json_parse(const char *text, size_t len, struct cbx_json_doc *ret, struct cbx_err *err);
/* The same, but a content fault is an error, too. */
int cbx_json_parse_sound(const char *text, size_t len, struct cbx_json_doc *ret, struct cbx_err *err);
/* The same with another number of values. */
int cbx_json_parse_most(const char *text, size_t len, size_t values_max, struct cbx_json_doc *ret, struct cbx_err *err);
void cbx_json_doc_release(struct cbx_json_doc *doc);
#define _cleanup_json_doc_ __attribute__((cleanup(cbx_json_doc_release)))

static inline void cbx_json_delete_p(cJSON **j)
{
	cJSON_Delete(*j);
	*j = NULL;
}
#define _cleanup_json_ __attribute__((cleanup(cbx_json_delete_p)))

/* A member, borrowed; NULL: there is none, or obj is NULL or not an object. */
cJSON *cbx_json_member(const cJSON *obj, const char *key);
/*
 * Typed members of an object. A missing member (or null) leaves *ret as it was and returns 0; a member of another type
 * or outside the range is an error that names the field and the value. 1: present and stored.
 * Strings are borrowed from the tree.
 */
int cbx_json_get_str(const cJSON *obj, const char *key, const char **ret, struct cbx_err *err);
int cbx_json_get_bool(const cJSON *obj, const char *key, bool *ret, struct cbx_err *err);
int cbx_json_get_u64(const cJSON *obj, const char *key, uint64_t min, uint64_t max, uint64_t *ret,
		     struct cbx_err *err); /* whole numbers up to 2^53 */
int cbx_json_get_double(const cJSON *obj, const char *key, double min, double max, double *ret, struct cbx_err *err);
int cbx_json_get_obj(const cJSON *obj, const char *key, const cJSON **ret, struct cbx_err *err);
int cbx_json_get_arr(const cJSON *obj, const char *key, const cJSON **ret, struct cbx_err *err);
/* For what may just as well be absent as of another type: the text, or NULL, borrowed; the number, or `otherwise`. */
const char *cbx_json_text(const cJSON *obj, const char *key);
const char *cbx_json_str(const cJSON *obj, const char *key); /* the same, "" instead of NULL */
bool cbx_json_lists(const cJSON *list, const char *text);    /* it is one of the strings of a list */
bool cbx_json_whole(double v); /* it has no fraction; without libm, which would be mapped at every start */
double cbx_json_number(const cJSON *obj, const char *key, double otherwise);
/* Numbers of trees that were built here, too, in which they are raw text; 0 when absent. */
uint64_t cbx_json_u64(const cJSON *obj, const char *key);
/* The error of another process, {"kind","message"}: untrusted, made safe. kind: where it has none. Returns -code. */
int cbx_json_error(const cJSON *obj, const char *kind, int code, struct cbx_err *err);
cJSON *cbx_json_of_error(const struct cbx_err *err); /* which that reads */
/* Refuse members that are not in the NULL-terminated list; the error names the member and what is accepted. */
int cbx_json_only(const cJSON *obj, const char *const *keys, struct cbx_err *err);

/* Building: these end the process when memory does. Strings are made valid UTF-8 on the way in. */
cJSON *cbx_json_new_obj(void);
cJSON *cbx_json_new_arr(void);
void cbx_json_set_str(cJSON *obj, const char *key, const char *value); /* NULL value: the member is omitted */
void cbx_json_set_strn(cJSON *obj, const char *key, const char *value, size_t n);
void cbx_json_set_u64(cJSON *obj, const char *key, uint64_t value);
void cbx_json_set_i64(cJSON *obj, const char *key, int64_t value);
void cbx_json_set_double(cJSON *obj, const char *key, double value);
void cbx_json_set_thousandths(cJSON *obj, const char *key, uint64_t value); /* 1234: as 1.234 */
void cbx_json_set_bool(cJSON *obj, const char *key, bool value);
void cbx_json_set_null(cJSON *obj, const char *key);
void cbx_json_set(cJSON *obj, const char *key, cJSON *value); /* takes ownership of value */
void cbx_json_push(cJSON *arr, cJSON *value);                 /* takes ownership of value */
void cbx_json_push_str(cJSON *arr, const char *value);

/* Print on one line, without a newline at its end. */
void cbx_json_print(struct cbx_buf *out, const cJSON *value);
/* The same with all strings made fit for a model (clean.h). */
void cbx_json_print_clean(struct cbx_buf *out, const cJSON *value);
/* The members of an object, one after another, where a tree would be made for nothing: behind a brace, or with a comma
 * behind another member; clean, too. */
void cbx_json_write_key(struct cbx_buf *out, const char *key); /* its value comes next */
void cbx_json_write(struct cbx_buf *out, const char *key, const cJSON *value);	   /* NULL value: omitted */
void cbx_json_write_str(struct cbx_buf *out, const char *key, const char *value); /* NULL value: omitted */
void cbx_json_write_u64(struct cbx_buf *out, const char *key, uint64_t value);
/* As cbx_json_print(), on many lines, each level that many spaces further in, as Python's json.dumps(indent=) does it.
 */
void cbx_json_print_indented(struct cbx_buf *out, const cJSON *value, unsigned spaces);
/* Release an object of secrets: its strings are overwritten first. NULL-safe. */
void cbx_json_wipe(cJSON *obj);

#endif
