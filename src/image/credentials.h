/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_CREDENTIALS_H
#define CBX_IMAGE_CREDENTIALS_H

/*
 * User and password for a registry, from where `podman login` and `docker login` put them: $REGISTRY_AUTH_FILE,
 * containers/auth.json in $XDG_RUNTIME_DIR and in the configuration directory, and Docker's config.json. Helpers that
 * are programs are not run.
 */
#include "base/err.h"
#include "image/reference.h"

struct cbx_credentials {
	char *user, *password; /* NULL: there are none */
};

int cbx_credentials_find(const struct cbx_reference *ref, struct cbx_credentials *ret, struct cbx_err *err);
/* The same in the text of one file. 1: found. */
int cbx_credentials_in(const char *text, size_t len, const char *file, const struct cbx_reference *ref,
		       struct cbx_credentials *ret, struct cbx_err *err);
void cbx_credentials_release(struct cbx_credentials *c);

#endif
