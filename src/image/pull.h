/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_PULL_H
#define CBX_IMAGE_PULL_H

/* Have codebox-pull fetch an image into a directory, as an OCI layout (pull-protocol.h). */
#include "base/dirs.h"
#include "base/err.h"
#include "image/credentials.h"
#include "image/oci.h"
#include "image/reference.h"

struct cbx_pull {
	const struct cbx_reference *reference;
	const struct cbx_credentials *credentials;
	const struct cbx_oci_platform *platform;
	const cJSON *have;  /* digests of layers that are not to be fetched */
	bool plain;	    /* HTTP, though the registry is another machine */
	int program, share; /* codebox-pull, and the directory of what it reads (O_PATH) */
};

/* Open these two, before root is given up: the installation may be where only root can go. The caller closes them. */
int cbx_pull_open(const struct cbx_dirs *dirs, struct cbx_pull *pull, struct cbx_err *err);

/* top: the digest of what the reference names, which is the reference's own where it has one. */
int cbx_pull_layout(const struct cbx_pull *pull, int dir, char top[CBX_OCI_DIGEST], struct cbx_err *err);

#endif
