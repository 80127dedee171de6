/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_FINISH_H
#define CBX_IMAGE_FINISH_H

/*
 * The last step of a build: the unfinished image runs in a sandbox of codeboxd, compiles its own Python files and fills
 * caches; what it made comes back as an archive, which is as untrusted as any other.
 */
#include "base/err.h"
#include "base/json.h"
#include "client/client.h"

/* Kinds of errors for which the daemon's policy is to blame: the image is not allowed; or the session got less than was
 * asked for, and the script came to no good end in it. */
#define CBX_FINISH_FORBIDDEN  "image_not_allowed"
#define CBX_FINISH_TOO_LITTLE "policy_too_low"

/*
 * Run the script (an open file) in a session on `image` and copy the archive that it leaves to `out`, an open file.
 * compile, warm: lists of the recipe; either may be NULL.
 */
int cbx_finish_run(struct cbx_client *client, const char *image, int script, const cJSON *compile, const cJSON *warm,
		   int out, struct cbx_err *err);

#endif
