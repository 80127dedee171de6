/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_FRONT_H
#define CBX_IMAGE_FRONT_H

/* What the commands of codebox-image share. Those that are large have a file of their own. */
#include <stdbool.h>

#include "base/dirs.h"
#include "base/err.h"
#include "image/stage.h"

/* Print an error on stderr; returns the exit status for it. */
int cbx_image_fail(const struct cbx_err *err);
int cbx_image_bad_usage(const char *what);

/* Root is given up for the service id; writing: after the store's directories were made for it. */
int cbx_image_become(const struct cbx_dirs *dirs, bool writing, struct cbx_err *err);
/* The same, and the store is opened for writing. */
int cbx_image_open_store(const struct cbx_dirs *dirs, struct cbx_store *store, struct cbx_err *err);
/* An image that is about to be replaced or removed, if `taking`: no session may be using it. */
int cbx_image_check_taking(const struct cbx_dirs *dirs, const char *name, bool taking, struct cbx_err *err);

/* A recipe by its name, or by the path of its file; *ret_path, malloc'd, is its path, also where it cannot be opened.
 */
int cbx_image_open_recipe(const struct cbx_dirs *dirs, const char *what, char **ret_path, struct cbx_err *err);

/* A command's arguments, its name first. They return an exit status. */
int cbx_image_main_export(const struct cbx_dirs *dirs, int argc, char **argv);
int cbx_image_main_import(const struct cbx_dirs *dirs, int argc, char **argv);
int cbx_image_main_lock(const struct cbx_dirs *dirs, int argc, char **argv);
int cbx_image_main_pull(const struct cbx_dirs *dirs, int argc, char **argv);

#endif
