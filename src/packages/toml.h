/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PACKAGES_TOML_H
#define CBX_PACKAGES_TOML_H

/*
 * A file of TOML, told in the order in which it is written. All of it is gone through, so that nothing within a string
 * or a comment is taken for a key; what the reader is not sure of, it refuses, by the line: "uv.toml:3: …".
 */
#include "base/err.h"

enum cbx_toml_what {
	CBX_TOML_TABLE,	 /* [key] or [[key]] */
	CBX_TOML_MEMBER, /* key = … */
	CBX_TOML_LIST,	 /* "[" of a value */
	CBX_TOML_INLINE, /* "{" of a value */
	CBX_TOML_STRING,
	CBX_TOML_WORD, /* a number, true, false, a date */
};

struct cbx_toml_event {
	enum cbx_toml_what what;
	const char *key;  /* with that of its table: "tool.uv.index" */
	unsigned tables;  /* headers of tables so far */
	unsigned depth;	  /* lists and inline tables around it */
	const char *text; /* of a string or word; an escape other than of a quote is a newline in it */
};

/* What an event means to whoever reads the file; an error of it is that of its line. */
typedef int (*cbx_toml_fn)(void *arg, const struct cbx_toml_event *e, struct cbx_err *err);

/* name: of the file, for messages. first: the number of its first line. text ends with a NUL. */
int cbx_toml_read(const char *name, unsigned first, const char *text, cbx_toml_fn fn, void *arg, struct cbx_err *err);

#endif
