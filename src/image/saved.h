/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_SAVED_H
#define CBX_IMAGE_SAVED_H

/*
 * Making an image of a session's packages: the session's image, and in CBX_SAVED_DIR/<number> what codebox installed
 * for it. Nothing of either is copied: files are hard links to those of the image and of the store of packages.
 *
 * The manifest says what was added, the latest last, as a lock: "saved":[{"base","base_digest","requirements":[texts],
 * "packages":[{"name","version","file","sha256"}]}].
 */
#include "base/dirs.h"
#include "base/err.h"
#include "client/client.h"
#include "image/stage.h"

#define CBX_SAVED_DIR "opt/codebox/saved"
/* Lines that a .pth file has: the directories to import from, the latest first. The Python driver reads it. */
#define CBX_SAVED_PATHS "opt/codebox/saved.pth"

struct cbx_saved {
	const char *session;
	const char *name; /* of the new image */
	bool force;
	int script;		 /* finish.py, open; -1: nothing is compiled */
	struct cbx_err left_out; /* see build.h */
};

int cbx_saved_build(const struct cbx_dirs *dirs, const struct cbx_store *store, struct cbx_client *client,
		    struct cbx_saved *saved, struct cbx_err *err);

#endif
