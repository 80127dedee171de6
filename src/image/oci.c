/* SPDX-License-Identifier: Apache-2.0 */
#include "image/oci.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "policy/environment.h"

#define HEX "0123456789abcdef"

/* ---- platforms and digests -------------------------------------------------------------------------------------- */

void cbx_oci_platform_here(struct cbx_oci_platform *ret)
{
	static const char *const names[][3] = {
		{ "x86_64", "amd64", "" },   { "aarch64", "arm64", "" },    { "armv7l", "arm", "v7" },
		{ "i686", "386", "" },	     { "ppc64le", "ppc64le", "" },  { "s390x", "s390x", "" },
		{ "riscv64", "riscv64", "" },
	};
	struct utsname u;

	*ret = (struct cbx_oci_platform){ .os = "linux" };
	if (uname(&u) < 0)
		return;
	snprintf(ret->architecture, sizeof(ret->architecture), "%s", u.machine);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(u.machine, names[i][0]) == 0) {
			strcpy(ret->architecture, names[i][1]);
			strcpy(ret->variant, names[i][2]);
		}
}

int cbx_oci_platform_parse(const char *text, struct cbx_oci_platform *ret, struct cbx_err *err)
{
	char copy[64], *parts[3] = { NULL }, *at = copy;
	size_t n = 0;

	*ret = (struct cbx_oci_platform){ .os = "linux" };
	if (strlen(text) < sizeof(copy) && cbx_plain(text)) {
		strcpy(copy, text);
		while (at && n < 3)
			parts[n++] = strsep(&at, "/");
	}
	for (size_t i = 0; i < n; i++)
		if (!*parts[i] || strlen(parts[i]) >= sizeof(ret->os))
			n = 0;
	if (!n || at || (n > 1 && strcmp(parts[0], "linux") != 0))
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "--platform: \"%.80s\" is not a platform; write linux/amd64, linux/arm/v7 or arm64",
				  text);
	strcpy(ret->architecture, parts[n > 1]);
	if (n == 3)
		strcpy(ret->variant, parts[2]);
	return 0;
}

void cbx_oci_platform_print(const struct cbx_oci_platform *p, char out[64])
{
	snprintf(out, 64, "%s/%s%s%s", p->os, p->architecture, p->variant[0] ? "/" : "", p->variant);
}

bool cbx_oci_digest_valid(const char *s)
{
	return cbx_starts_with(s, "sha256:") && strlen(s) == CBX_OCI_DIGEST - 1 && strspn(s + 7, HEX) == 64;
}

bool cbx_oci_digest_of_name(const char *path, char out[CBX_OCI_DIGEST])
{
	const char *name = strrchr(path, '/');

	for (name = name ? name + 1 : path; *name; name += name[0] && strspn(name, HEX) ? strspn(name, HEX) : 1)
		if (strspn(name, HEX) == 64) {
			snprintf(out, CBX_OCI_DIGEST, "sha256:%.64s", name);
			return true;
		}
	return false;
}

void cbx_oci_blob_path(const char *digest, char out[80])
{
	snprintf(out, 80, "blobs/sha256/%.64s", digest + 7);
}

/* ---- documents -------------------------------------------------------------------------------------------------- */

static int invalid(struct cbx_err *err, const char *what, const char *why)
{
	cbx_refuse(err, "invalid_image", EBADMSG, "%s: %.300s", what, why);
	cbx_err_sanitize(err);
	return -EBADMSG;
}

int cbx_oci_parse(const char *text, size_t len, const char *what, struct cbx_json_doc *ret, struct cbx_err *err)
{
	struct cbx_err e;

	memset(ret, 0, sizeof(*ret));
	if (cbx_json_parse(text, len, ret, &e) < 0)
		return invalid(err, what, e.msg);
	if (ret->problem.code) {
		cbx_json_doc_release(ret);
		return invalid(err, what, "it has a string that is not UTF-8, or a member twice");
	}
	return 0;
}

/* Texts that go into messages and manifests: short, and without control characters. */
static const char *short_text(const cJSON *obj, const char *key)
{
	const char *s = cJSON_IsObject(obj) ? cbx_json_text(obj, key) : NULL;

	return s && strlen(s) < 256 && cbx_plain(s) ? s : NULL;
}

static bool media_is(const char *media, const char *const *all)
{
	for (; *all; all++)
		if (strcmp(media, *all) == 0)
			return true;
	return false;
}

static const char *const index_types[] = { "application/vnd.oci.image.index.v1+json",
					   "application/vnd.docker.distribution.manifest.list.v2+json", NULL };
static const char *const manifest_types[] = { "application/vnd.oci.image.manifest.v1+json",
					      "application/vnd.docker.distribution.manifest.v2+json", NULL };
static const char *const config_types[] = { "application/vnd.oci.image.config.v1+json",
					    "application/vnd.docker.container.image.v1+json", NULL };
static const char *const layer_types[] = { "application/vnd.oci.image.layer.v1.tar",
					   "application/vnd.oci.image.layer.v1.tar+gzip",
					   "application/vnd.oci.image.layer.v1.tar+zstd",
					   "application/vnd.oci.image.layer.nondistributable.v1.tar",
					   "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
					   "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
					   "application/vnd.docker.image.rootfs.diff.tar",
					   "application/vnd.docker.image.rootfs.diff.tar.gzip",
					   "application/vnd.docker.image.rootfs.diff.tar.zstd",
					   "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
					   NULL };

bool cbx_oci_is_index(const cJSON *document)
{
	const char *media = short_text(document, "mediaType");

	return media ? media_is(media, index_types)
		     : cJSON_IsArray(cbx_json_member(document, "manifests"));
}

static int read_descriptor(const cJSON *d, const char *what, const char *const *types, struct cbx_oci_descriptor *ret,
			   struct cbx_err *err)
{
	const char *digest = short_text(d, "digest"), *media = short_text(d, "mediaType");
	struct cbx_err e;

	memset(ret, 0, sizeof(*ret));
	if (!cJSON_IsObject(d) || !digest)
		return invalid(err, what, "it is without a digest");
	if (!cbx_oci_digest_valid(digest))
		return invalid(err, what, "its digest is not of the form sha256:<64 hexadecimal digits>");
	if (cbx_json_get_u64(d, "size", 0, CBX_UNPACK_BYTES_MAX, &ret->size, &e) <= 0)
		return invalid(err, what, "it is without a size, or larger than 16 GiB");
	if (types && media && !media_is(media, types)) {
		cbx_refuse(err, "invalid_image", EBADMSG, "%s: its media type \"%.100s\" is not known", what, media);
		return -EBADMSG;
	}
	strcpy(ret->digest, digest);
	ret->index = media && media_is(media, index_types);
	return 0;
}

/* ---- choosing --------------------------------------------------------------------------------------------------- */

static const char *tag_of(const cJSON *d)
{
	const cJSON *notes = cbx_json_member(d, "annotations");
	const char *tag = short_text(notes, "io.containerd.image.name");

	return tag ? tag : short_text(notes, "org.opencontainers.image.ref.name");
}

/* "latest" is the tag of "example.org/name:latest", and both are names for it. */
static bool tag_matches(const cJSON *d, const char *want)
{
	const cJSON *notes = cbx_json_member(d, "annotations");
	const char *full = tag_of(d), *ref = short_text(notes, "org.opencontainers.image.ref.name");

	return (full && strcmp(full, want) == 0) || (ref && strcmp(ref, want) == 0);
}

enum fit { FIT_NOT, FIT_UNKNOWN, FIT_OTHER_VARIANT, FIT_EXACTLY };

static enum fit fits(const cJSON *d, const struct cbx_oci_platform *want)
{
	const cJSON *p = cbx_json_member(d, "platform");
	const char *os = short_text(p, "os"), *arch = short_text(p, "architecture"), *variant = short_text(p, "variant");

	if (!cJSON_IsObject(p))
		return FIT_UNKNOWN;
	if (!os || !arch || strcmp(os, want->os) != 0 || strcmp(arch, want->architecture) != 0)
		return FIT_NOT;
	if (!want->variant[0])
		return variant ? FIT_OTHER_VARIANT : FIT_EXACTLY;
	return variant && strcmp(variant, want->variant) == 0 ? FIT_EXACTLY : FIT_OTHER_VARIANT;
}

static bool considered(const cJSON *d)
{
	const char *media = short_text(d, "mediaType");
	const char *os = short_text(cbx_json_member(d, "platform"), "os");

	/* Build tools list what they attest beside the images, for the platform "unknown". */
	return cJSON_IsObject(d) && (!os || strcmp(os, "unknown") != 0) &&
	       (!media || media_is(media, index_types) || media_is(media, manifest_types));
}

static void list_entries(const cJSON *all, bool tags, struct cbx_buf *out)
{
	const cJSON *d;
	int n = 0;

	cJSON_ArrayForEach(d, all) {
		const cJSON *p = cbx_json_member(d, "platform");
		const char *a = tags ? tag_of(d) : short_text(p, "os"), *b = short_text(p, "architecture");

		if (!considered(d) || !a || (!tags && !b) || n++ >= 10)
			continue;
		cbx_buf_addf(out, "%s%.100s", out->len ? ", " : "", a);
		if (!tags)
			cbx_buf_addf(out, "/%.20s", b);
	}
}

static int none_fits(const cJSON *all, const struct cbx_oci_want *want, bool by_tag, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf have = { 0 };
	char platform[64];

	cbx_oci_platform_print(&want->platform, platform);
	list_entries(all, by_tag, &have);
	if (by_tag)
		return cbx_refuse(err, "tag_not_found", ENOENT, "there is no image \"%.100s\" in it (there are: %.300s)",
				  want->tag, have.len ? have.data : "images without a name");
	return cbx_refuse(err, "platform_not_found", ENOENT,
			  "there is no image for %s in it (there are: %.300s); --platform chooses another", platform,
			  have.len ? have.data : "none");
}

static int several(const cJSON *all, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf have = { 0 };

	list_entries(all, true, &have);
	return cbx_refuse(err, "several_images", EINVAL,
			  "there are several images in it (%.300s); choose one with --tag",
			  have.len ? have.data : "without names");
}

int cbx_oci_choose(const cJSON *index, bool top, const struct cbx_oci_want *want, struct cbx_oci_descriptor *ret,
		   struct cbx_err *err)
{
	const cJSON *all = cbx_json_member(index, "manifests"), *d, *best = NULL;
	bool by_tag = top && want->tag, ambiguous = false, tagged = false;
	enum fit best_fit = FIT_NOT;

	if (!cJSON_IsArray(all) || cJSON_GetArraySize(all) > CBX_INDEX_ENTRIES_MAX)
		return invalid(err, "the image's index", "it has no list of manifests, or too long a one");
	cJSON_ArrayForEach(d, all) {
		enum fit fit = considered(d) ? fits(d, &want->platform) : FIT_NOT;

		if (!considered(d) || (by_tag && !tag_matches(d, want->tag)))
			continue;
		tagged = true;
		if (best && fit == best_fit && fit != FIT_NOT) {
			const char *one = short_text(best, "digest"), *two = short_text(d, "digest");

			ambiguous |= top && (!one || !two || strcmp(one, two) != 0);
		}
		if (fit > best_fit) {
			best = d;
			best_fit = fit;
			ambiguous = false;
		}
	}
	if (!best)
		return none_fits(all, want, by_tag && !tagged, err);
	if (ambiguous)
		return several(all, err);
	return read_descriptor(best, "an entry of the image's index", NULL, ret, err);
}

int cbx_oci_manifest_read(const cJSON *manifest, struct cbx_oci_manifest *ret, struct cbx_err *err)
{
	const cJSON *layers = cbx_json_member(manifest, "layers"), *layer;
	const char *media = short_text(manifest, "mediaType");
	int r;

	ret->n = 0;
	if (!cJSON_IsObject(manifest) || (media && !media_is(media, manifest_types)))
		return invalid(err, "the image's manifest", "its media type is not that of an image");
	if (!cJSON_IsArray(layers) || cJSON_GetArraySize(layers) < 1 || cJSON_GetArraySize(layers) > CBX_LAYERS_MAX)
		return invalid(err, "the image's manifest", "it must have 1 to 128 layers");
	r = read_descriptor(cbx_json_member(manifest, "config"), "the image's configuration",
			    config_types, &ret->config, err);
	if (r == 0 && ret->config.size > CBX_MANIFEST_MAX)
		r = invalid(err, "the image's configuration", "it is larger than 4 MiB");
	cJSON_ArrayForEach(layer, layers) {
		if (r < 0)
			return r;
		r = read_descriptor(layer, "a layer of the image", layer_types, &ret->layers[ret->n], err);
		if (r == 0)
			ret->n++;
	}
	return r;
}

/* ---- configurations --------------------------------------------------------------------------------------------- */

static const cJSON *diff_ids(const cJSON *config)
{
	const cJSON *rootfs = cbx_json_member(config, "rootfs");

	return cbx_json_member(rootfs, "diff_ids");
}

int cbx_oci_config_check(const cJSON *config, const struct cbx_oci_platform *want, size_t layers, struct cbx_err *err)
{
	const char *os = short_text(config, "os"), *arch = short_text(config, "architecture");
	const cJSON *ids = diff_ids(config);
	char platform[64];

	if (!cJSON_IsObject(config))
		return invalid(err, "the image's configuration", "it is not an object");
	if (ids && (!cJSON_IsArray(ids) || (size_t)cJSON_GetArraySize(ids) != layers))
		return invalid(err, "the image's configuration", "it has another number of layers than its manifest");
	cbx_oci_platform_print(want, platform);
	if ((os && *os && strcmp(os, want->os) != 0) || (arch && *arch && strcmp(arch, want->architecture) != 0))
		return cbx_refuse(err, "platform_not_found", ENOENT,
				  "the image is for %s/%s, and not for %s; --platform takes it nevertheless",
				  os ? os : "linux", arch ? arch : "", platform);
	return 0;
}

const char *cbx_oci_config_diff_id(const cJSON *config, size_t layer)
{
	const cJSON *id = cJSON_GetArrayItem(diff_ids(config), (int)layer);

	return cJSON_IsString(id) ? id->valuestring : NULL;
}

/* What a session sets itself, and what was true of one container only. */
static bool of_session(const char *name)
{
	static const char *const names[] = { "HOME", "USER", "LOGNAME", "SHELL",  "TERM",
					     "PWD",  "OLDPWD", "SHLVL",	 "TMPDIR", "HOSTNAME" };

	return cbx_find_word(name, names, ARRAY_SIZE(names)) >= 0;
}

static int add_environment(const cJSON *list, cJSON *environment, struct cbx_err *err)
{
	const cJSON *v;
	int omitted = 0;

	cJSON_ArrayForEach(v, list) {
		const char *text = cJSON_IsString(v) ? v->valuestring : "", *equals = strchr(text, '=');
		_cleanup_free_ char *name = equals ? strndup(text, (size_t)(equals - text)) : NULL;

		if (!name || !cbx_variable_name_valid(name) || of_session(name)) {
			omitted++;
			continue;
		}
		cJSON_DeleteItemFromObjectCaseSensitive(environment, name);
		cbx_json_set_str(environment, name, equals + 1);
	}
	return cbx_environment_check(environment, NULL, err) < 0 ? cbx_wrap(err, "the image's configuration") : omitted;
}

static void add_words(cJSON *to, const char *key, const cJSON *words)
{
	cJSON *list;
	const cJSON *v;
	size_t bytes = 0;

	if (!cJSON_IsArray(words) || !words->child)
		return;
	list = cbx_json_new_arr();
	cJSON_ArrayForEach(v, words) {
		bytes += cJSON_IsString(v) ? strlen(v->valuestring) + 1 : 0;
		if (cJSON_IsString(v) && bytes <= CBX_ENVIRONMENT_MAX)
			cbx_json_push_str(list, v->valuestring);
	}
	cbx_json_set(to, key, list);
}

int cbx_oci_config_describe(const cJSON *config, cJSON *manifest, struct cbx_err *err)
{
	const cJSON *c = cbx_json_member(config, "config");
	const char *user = short_text(c, "User"), *dir = short_text(c, "WorkingDir");
	cJSON *environment = cbx_json_member(manifest, "environment"), *said = cbx_json_new_obj();

	if (user && *user)
		cbx_json_set_str(said, "user", user);
	if (dir && *dir)
		cbx_json_set_str(said, "working_dir", dir);
	add_words(said, "entrypoint", cbx_json_member(c, "Entrypoint"));
	add_words(said, "command", cbx_json_member(c, "Cmd"));
	cbx_json_set(manifest, "config", said);
	return add_environment(cbx_json_member(c, "Env"), environment, err);
}
