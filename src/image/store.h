/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_STORE_H
#define CBX_IMAGE_STORE_H

/*
 * The image store, read side: a directory with one directory per image:
 *
 *   <images>/<name>/manifest.json      what it is
 *   <images>/<name>/rootfs/…           the unpacked root file system
 *
 * Names that start with "." are images in the making, and the layers that images share (layers.h); they are not listed,
 * and an interrupted build leaves only those.
 * manifest.json:
 *   {"format":1,"name":"python","kind":"recipe"|"archive"|"host","recipe":"sha256:…","created":"2026-…Z",
 *    "digest":"sha256:…",
 *    "files":N,"bytes":N,"architecture":"amd64",
 *    "layers":[{"source":"rootfs","target":"/"}, {"source":"host:/usr","target":"/usr"}],
 *    "interpreters":{"python":{"argv":["/usr/bin/python3"]}},
 *    "environment":{"LANG":"C.UTF-8",…}, "preload":["numpy",…], "zygote":bool,
 *    "packages":[{"name","version","bytes"}], "note":"…",
 *    "composed":[{"digest":"sha256:…","bytes":N}]}  the layers that it was made of, whose files it has as links
 *
 * Reading is cheap: this module needs no archive library and is part of codeboxd and codebox.
 */
#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"
#include "sandbox/plan.h"

/* Differs after an image was made anew under the same name. */
struct cbx_image_mark {
	uint64_t dev, ino;
	int64_t ctime_ns;
};

struct cbx_image {
	char name[CBX_NAME_MAX + 1];
	struct cbx_image_mark mark;
	cJSON *manifest; /* owned */
	struct {
		struct cbx_image_mark mark;
		int64_t size, mtime_ns;
	} file; /* that it was read from */
};

/* Errors: "image_not_found" (says which there are and how to build one), "image_damaged" (what is wrong with it).
 * *ret is empty, or an image that was opened before: then a manifest that is the same file still is not read again. */
int cbx_image_open(const char *images_dir, const char *name, struct cbx_image *ret, struct cbx_err *err);
void cbx_image_release(struct cbx_image *image);
/* Fill image and layers of a plan from the manifest. */
int cbx_image_to_plan(const struct cbx_image *image, struct cbx_plan *plan, struct cbx_err *err);
/* argv of the interpreter for a language: a JSON array of strings, borrowed. Error: "no_interpreter". */
int cbx_image_interpreter(const struct cbx_image *image, const char *language, const cJSON **ret, struct cbx_err *err);
/*
 * May interpreters of the image be forks of a warm one, and what is that to load? *ret: NULL when they may not, else
 * the module names of the manifest's "preload", with commas between them; owned by the caller. The manifest's "zygote"
 * says yes or no; where it says nothing, an image that was imported has none: its code would run in one process for
 * several sessions.
 */
int cbx_image_preload(const struct cbx_image *image, char **ret, struct cbx_err *err);
bool cbx_module_name_valid(const char *name); /* letters, digits, "_" and "." */
/*
 * The image that was pulled or imported as this (image/reference.h), in whatever spelling. Error: "image_not_found",
 * which says how to get it. out has room for CBX_NAME_MAX + 1 bytes.
 */
int cbx_image_find(const char *images_dir, const char *reference, char *out, struct cbx_err *err);
/* Array of manifests (without "packages"), sorted by name. Damaged ones have "damaged": why. */
int cbx_image_list(const char *images_dir, cJSON **ret, struct cbx_err *err);

#endif
