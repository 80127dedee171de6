/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_OCI_H
#define CBX_IMAGE_OCI_H

/*
 * Documents of OCI and Docker images: indexes, manifests and configurations. They come from archives, directories and
 * registries, so they are hostile: this only reads parsed JSON, and what it hands out is bounded and of a known form.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "image/image-limits.h"

#define CBX_OCI_DIGEST 72 /* "sha256:", 64 hexadecimal digits, NUL */

struct cbx_oci_platform {
	char os[16], architecture[16], variant[16]; /* as Go names them; variant: "" for any */
};

/* What a user wants of what may hold several images. */
struct cbx_oci_want {
	struct cbx_oci_platform platform;
	const char *tag; /* NULL: whichever, as long as there is one only */
};

struct cbx_oci_descriptor {
	char digest[CBX_OCI_DIGEST];
	uint64_t size;
	bool index; /* another index, and not a manifest */
};

struct cbx_oci_manifest {
	struct cbx_oci_descriptor config, layers[CBX_LAYERS_MAX];
	size_t n;
};

/* "linux/amd64", "linux/arm/v7", or without the system: "arm64". Error: "invalid_argument". */
int cbx_oci_platform_parse(const char *text, struct cbx_oci_platform *ret, struct cbx_err *err);
void cbx_oci_platform_here(struct cbx_oci_platform *ret);
void cbx_oci_platform_print(const struct cbx_oci_platform *p, char out[64]);

/* "sha256:" and 64 digits in lower case. */
bool cbx_oci_digest_valid(const char *s);
/* The first 64 hexadecimal digits in a row of the last part of a path, as "sha256:…"; false: it has none. */
bool cbx_oci_digest_of_name(const char *path, char out[CBX_OCI_DIGEST]);
/* "blobs/sha256/<hex>"; out has room for 80. */
void cbx_oci_blob_path(const char *digest, char out[80]);

/* Parse a document. `what` is named in errors ("invalid_image"). */
int cbx_oci_parse(const char *text, size_t len, const char *what, struct cbx_json_doc *ret, struct cbx_err *err);
bool cbx_oci_is_index(const cJSON *document);
/*
 * Choose what is wanted in an index. top: it is that of a layout, whose entries have tags. Errors: "invalid_image", and
 * "platform_not_found", "tag_not_found" and "several_images", which name what there is.
 */
int cbx_oci_choose(const cJSON *index, bool top, const struct cbx_oci_want *want, struct cbx_oci_descriptor *ret,
		   struct cbx_err *err);
int cbx_oci_manifest_read(const cJSON *manifest, struct cbx_oci_manifest *ret, struct cbx_err *err);

/* Is a configuration for this platform, and does it have this number of layers? */
int cbx_oci_config_check(const cJSON *config, const struct cbx_oci_platform *want, size_t layers, struct cbx_err *err);
/* The digest of a layer's plain bytes, by its configuration; NULL: it does not say. */
const char *cbx_oci_config_diff_id(const cJSON *config, size_t layer);
/*
 * Put what a configuration says of programs into an image's manifest: "environment" (added to what is there), and in
 * "config" its user, working directory, entry point and command. What of the environment is the session's own affair,
 * or not a variable, is omitted; that number is returned.
 */
int cbx_oci_config_describe(const cJSON *config, cJSON *manifest, struct cbx_err *err);

#endif
