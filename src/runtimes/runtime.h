/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_RUNTIMES_RUNTIME_H
#define CBX_RUNTIMES_RUNTIME_H

/*
 * A runtime is what codebox knows of a language: a manifest, <runtimes>/<language>/runtime.json, and beside it a driver,
 * which the image's interpreter runs (interp/interpreter-protocol.h). codebox-runtime(7) describes the manifest.
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/json.h"

#define CBX_RUNTIMES_MAX     32
#define CBX_RUNTIME_NAME_MAX 32
#define CBX_RUNTIME_LIST_MAX 32	   /* members of a list of a manifest */
#define CBX_RUNTIME_TEXT_MAX 256   /* bytes of each of them */
#define CBX_RUNTIME_FILE_MAX 16384 /* bytes of a manifest */

struct cbx_runtime {
	cJSON *manifest; /* owned; what follows is borrowed from it */
	const char *language, *driver;
	const cJSON *aliases, *extensions, *dialects, *programs, *arguments, *environment, *preload; /* NULL: none */
	unsigned rank;	 /* where an image has several: the least is its own */
	int interrupt;	 /* signal */
	bool fork;	 /* an interpreter may be the fork of a warm one */
};

struct cbx_runtimes {
	struct cbx_runtime all[CBX_RUNTIMES_MAX]; /* by rank */
	size_t n;
};

/* The text of a manifest, of the directory `language`. Error: "invalid_runtime". */
int cbx_runtime_parse(const char *text, size_t n, const char *language, struct cbx_runtime *ret, struct cbx_err *err);
void cbx_runtime_release(struct cbx_runtime *rt);
/* All of a directory. A manifest that is not valid is an error. */
int cbx_runtimes_load(const char *dir, struct cbx_runtimes *ret, struct cbx_err *err);
void cbx_runtimes_release(struct cbx_runtimes *all);

/* By a language's name or another name of it, of n bytes. *ret_dialect: the name of the code's language for the driver;
 * NULL: the language itself. NULL: there is none. */
const struct cbx_runtime *cbx_runtime_named(const struct cbx_runtimes *all, const char *name, size_t n,
					    const char **ret_dialect);
/* The language of a file of this name, or NULL. */
const char *cbx_runtime_of_file(const struct cbx_runtimes *all, const char *file);
/* The first, by rank, that an image's "interpreters" have; NULL: none. */
const struct cbx_runtime *cbx_runtime_of_image(const struct cbx_runtimes *all, const cJSON *interpreters);

#endif
