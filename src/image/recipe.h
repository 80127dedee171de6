/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_RECIPE_H
#define CBX_IMAGE_RECIPE_H

/*
 * A recipe: how an image is made, as JSON. Unknown members are errors.
 *
 *   name          the image's name unless the command line gives another
 *   description   one line
 *   kind          "debian": packages fetched by apt; "host": the machine's own /usr and a few files of its /etc
 *   packages      debian: names
 *   omit          debian: packages that are dependencies of others but are not wanted: neither they nor what only they
 *                 need is fetched
 *   wheels        debian: requirements like "httpx>=0.27", whose wheels are in the recipe's lock (wheellock.h)
 *   exclude       patterns of paths that are not unpacked (fnmatch; "*" also matches "/")
 *   include       patterns of paths that are, although excluded
 *   links         {"path": "target"}: symbolic links to make. "$MULTIARCH" in a path or target is the directory name
 *                 such as x86_64-linux-gnu
 *   files         {"path": "contents"}: small files to make
 *   bundles       {"path": "pattern"}: a file made of all files that match a pattern, in sorted order; they are removed
 *   copy          host: paths beneath / to copy; what is missing or not readable by everybody is omitted. The last part
 *                 of a path may be a pattern
 *   interpreters, environment, note   as in the manifest (image/store.h). host: an interpreter may have "find", a list
 *                 of paths of which the first that exists beneath /usr becomes argv
 *   preload       names of modules for a warm interpreter to load (image/store.h); zygote: false when it is to
 *                 have none
 *   compile       directories (patterns) whose Python files are compiled by running the image in a sandbox
 *   warm          [{"module","variable","into"}]: import the module with the environment variable naming an empty
 *                 directory, and put what it leaves there into the image
 */
#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

struct cbx_recipe {
	struct cbx_json_doc doc;
	char name[CBX_NAME_MAX + 1];
	char digest[72]; /* of its text: "sha256:…" */
	bool host;
	/* NULL-terminated; strings borrowed from doc */
	const char **packages, **omit, **wheels, **exclude, **include, **copy;
	const cJSON *links, *files, *bundles, *interpreters, *environment, *compile, *warm,
		*preload; /* borrowed; NULL: none */
	const char *note, *description;
	bool no_zygote;
	const struct cbx_wheellock *lock; /* borrowed; set by who builds it; NULL: it has no wheels */
};

/* From an open file; `where` names it in errors. */
int cbx_recipe_read(int fd, const char *where, struct cbx_recipe *ret, struct cbx_err *err);
void cbx_recipe_release(struct cbx_recipe *recipe);

#endif
