/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: any text as the documents of an image, as its name, as credentials for its registry, and as what
 * that registry says of them. What is chosen and handed out has a digest that makes a
 * path within the layout, there are never more layers than the limit, and what is taken into a manifest fits there.
 *
 * The first byte chooses what is wanted.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "fuzz.h"
#include "image/credentials.h"
#include "image/oci.h"
#include "image/reference.h"
#include "policy/environment.h"
#include "pull/registry.h"

static void check_descriptor(const struct cbx_oci_descriptor *d)
{
	char path[80];

	must(cbx_oci_digest_valid(d->digest) && d->size <= CBX_UNPACK_BYTES_MAX);
	cbx_oci_blob_path(d->digest, path);
	must(strlen(path) == 13 + 64 && !strchr(path + 13, '/') && !strchr(path, '.'));
}

static void as_config(const cJSON *root, const struct cbx_oci_platform *platform)
{
	_cleanup_json_ cJSON *manifest = cbx_json_new_obj();
	struct cbx_err err = { 0 };
	int r = cbx_oci_config_check(root, platform, 3, &err);

	must(r >= 0 || (err.code && err.msg[0]));
	(void)cbx_oci_config_diff_id(root, 2);
	cbx_json_set(manifest, "environment", cbx_json_new_obj());
	r = cbx_oci_config_describe(root, manifest, &err);
	must(r >= 0 || (err.code && err.msg[0]));
	if (r >= 0)
		must(cbx_environment_check(cbx_json_member(manifest, "environment"), NULL, &err) == 0);
}

static void as_texts(const char *text)
{
	struct cbx_credentials credentials = { 0 };
	struct cbx_reference ref, again;
	struct cbx_err err = { 0 };
	char value[16], name[CBX_NAME_MAX + 1];
	int r;

	if (cbx_challenge_value(text, "realm", value, sizeof(value)))
		must(strlen(value) < sizeof(value));
	(void)cbx_challenge_has(text, "Bearer");
	if (cbx_reference_parse(text, &ref, &err) == 0) {
		_cleanup_free_ char *full = cbx_reference_print(&ref);

		/* What was understood is understood the same way again, and makes a URL. */
		must(cbx_reference_parse(full, &again, &err) == 0 && memcmp(&ref, &again, sizeof(ref)) == 0);
		must(!strpbrk(ref.repository, "?#%@: ") && !strstr(ref.repository, "..") &&
		     !strpbrk(ref.host, "/?#%@ "));
		cbx_reference_image_name(&ref, name);
	} else {
		must(err.code && err.msg[0]);
		must(cbx_reference_parse("example.org/a/b", &ref, &err) == 0);
	}
	r = cbx_credentials_in(text, strlen(text), "fuzz", &ref, &credentials, &err);
	must(r < 0 ? err.code && !credentials.user : r == (credentials.user != NULL));
	cbx_credentials_release(&credentials);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cbx_oci_want want = { .tag = size && data[0] & 1 ? "latest" : NULL };
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	static struct cbx_oci_manifest manifest;
	struct cbx_oci_descriptor d;
	struct cbx_err err = { 0 };
	char digest[CBX_OCI_DIGEST], text[800];

	if (size < 1)
		return 0;
	snprintf(text, sizeof(text), "%.*s", (int)(size - 1), (const char *)data + 1);
	if (cbx_oci_digest_of_name(text, digest))
		must(cbx_oci_digest_valid(digest));
	as_texts(text);
	if (cbx_oci_platform_parse(text, &want.platform, &err) < 0)
		must(cbx_oci_platform_parse(data[0] & 2 ? "linux/arm/v7" : "amd64", &want.platform, &err) == 0);
	if (cbx_oci_parse((const char *)data + 1, size - 1, "fuzz", &doc, &err) < 0) {
		must(err.code && err.msg[0]);
		return 0;
	}
	(void)cbx_oci_is_index(doc.root);
	if (cbx_oci_choose(doc.root, data[0] & 4, &want, &d, &err) == 0)
		check_descriptor(&d);
	if (cbx_oci_manifest_read(doc.root, &manifest, &err) == 0) {
		check_descriptor(&manifest.config);
		must(manifest.n >= 1 && manifest.n <= CBX_LAYERS_MAX);
		for (size_t i = 0; i < manifest.n; i++)
			check_descriptor(&manifest.layers[i]);
	}
	as_config(doc.root, &want.platform);
	return 0;
}
