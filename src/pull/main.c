/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codebox-image starts this program, which is the only one of codebox that talks to registries,
 * and tells it on standard input what to fetch (image/pull-protocol.h). It confines itself, makes an OCI layout of what
 * it is given, and ends. Its word for what it fetched is not taken: codebox-image compares all digests itself, from the
 * one that the user may have given downwards, and unpacks in yet another process.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/dirs.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "image/image-limits.h"
#include "image/oci.h"
#include "image/pull-protocol.h"
#include "pull/blobs.h"
#include "pull/confine.h"
#include "pull/registry.h"

#include <nettle/sha2.h>

#define INDEXES_MAX 3
#define ACCEPT                                                                                                         \
	"Accept: application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "                \
	"application/vnd.docker.distribution.manifest.list.v2+json, "                                                  \
	"application/vnd.docker.distribution.manifest.v2+json"

struct request {
	struct cbx_registry registry;
	struct cbx_oci_want want;
	char *reference;
	cJSON *have; /* an array, or NULL */
};

static void print_line(cJSON *value)
{
	_cleanup_buf_ struct cbx_buf line = { 0 };

	cbx_json_print(&line, value);
	cbx_buf_addc(&line, '\n');
	(void)cbx_write_all(STDOUT_FILENO, line.data, line.len);
	cJSON_Delete(value);
}

static void on_progress(uint64_t got, uint64_t of, size_t done, size_t n)
{
	static uint64_t last;
	uint64_t now = cbx_now_ms();
	cJSON *o;

	if (now - last < 100 && done < n)
		return;
	last = now;
	o = cbx_json_new_obj();
	cbx_json_set_u64(o, "got", got);
	cbx_json_set_u64(o, "of", of);
	cbx_json_set_u64(o, "blobs", n);
	cbx_json_set_u64(o, "done", done);
	print_line(o);
}

static void take(const cJSON *from, const char *key, char **to)
{
	const char *text = cbx_json_text(from, key);

	*to = text ? cbx_xstrdup(text) : NULL;
}

static int read_request(struct request *q, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	const char *platform;
	int r = cbx_read_whole(STDIN_FILENO, CBX_PULL_REQUEST_MAX, &text);

	if (r < 0)
		return cbx_fail(err, -r, "read what to fetch");
	if (cbx_json_parse(cbx_buf_str(&text), text.len, &doc, err) < 0)
		return -err->code;
	take(doc.root, "host", &q->registry.host);
	take(doc.root, "repository", &q->registry.repository);
	take(doc.root, "reference", &q->reference);
	take(doc.root, "user", &q->registry.user);
	take(doc.root, "password", &q->registry.password);
	q->have = cJSON_DetachItemFromObjectCaseSensitive(doc.root, "have");
	platform = cbx_json_text(doc.root, "platform");
	if (!q->registry.host || !q->registry.repository || !q->reference || !platform)
		return cbx_refuse(err, "protocol", EINVAL, "what to fetch is not complete");
	if (cbx_json_get_bool(doc.root, "plain", &q->registry.plain, err) < 0 ||
	    cbx_json_get_bool(doc.root, "loopback", &q->registry.loopback, err) < 0)
		return -err->code;
	return cbx_oci_platform_parse(platform, &q->want.platform, err);
}

static void digest_of(const struct cbx_buf *text, char out[CBX_OCI_DIGEST])
{
	uint8_t sum[SHA256_DIGEST_SIZE];
	struct sha256_ctx c;

	sha256_init(&c);
	sha256_update(&c, text->len, (const uint8_t *)cbx_buf_str(text));
	sha256_digest(&c, sizeof(sum), sum);
	strcpy(out, "sha256:");
	cbx_hex(sum, sizeof(sum), out + 7);
}

static int write_file(int dir, const char *name, const char *p, size_t n, struct cbx_err *err)
{
	_cleanup_fd_ int fd = -1;
	int r;

	(void)unlinkat(dir, name, 0);
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	r = fd < 0 ? -errno : cbx_write_all(fd, p, n);
	return r < 0 ? cbx_fail(err, -r, "write %s", name) : 0;
}

/* One document of the repository, compared with its digest, and kept as a blob. */
static int get_manifest(struct request *q, int blobs, const char *reference, char digest[CBX_OCI_DIGEST],
			uint64_t *size, struct cbx_json_doc *doc, struct cbx_err *err)
{
	_cleanup_free_ char *url = cbx_registry_url(&q->registry, "manifests", reference);
	_cleanup_free_ char *what =
		cbx_xasprintf("%s%s%s", q->registry.repository, cbx_oci_digest_valid(reference) ? "@" : ":", reference);
	_cleanup_(cbx_reply_release) struct cbx_reply reply = { 0 };
	int r = cbx_registry_get(&q->registry, url, ACCEPT, &reply, err);

	if (r < 0)
		return r;
	if (reply.status != 200)
		return cbx_registry_refused(&q->registry, what, &reply, err);
	digest_of(&reply.body, digest);
	if ((cbx_oci_digest_valid(reference) && strcmp(reference, digest) != 0) ||
	    (cbx_oci_digest_valid(reply.digest) && strcmp(reply.digest, digest) != 0))
		return cbx_refuse(err, "digest_mismatch", EBADMSG,
				  "the registry %.200s sends another manifest for %.200s than its digest says",
				  q->registry.host, what);
	*size = reply.body.len;
	r = cbx_oci_parse(cbx_buf_str(&reply.body), reply.body.len, "the image's manifest", doc, err);
	return r < 0 ? r : write_file(blobs, digest + 7, reply.body.data, reply.body.len, err);
}

/* index.json, which names what the reference named. */
static int write_layout(int dir, const struct request *q, const char *digest, uint64_t size, bool index,
			struct cbx_err *err)
{
	static const char marker[] = "{\"imageLayoutVersion\":\"1.0.0\"}";
	_cleanup_json_ cJSON *root = cbx_json_new_obj();
	cJSON *all = cbx_json_new_arr(), *one = cbx_json_new_obj();
	_cleanup_buf_ struct cbx_buf text = { 0 };
	int r;

	cbx_json_set_str(one, "mediaType",
			 index ? "application/vnd.oci.image.index.v1+json"
			       : "application/vnd.oci.image.manifest.v1+json");
	cbx_json_set_str(one, "digest", digest);
	cbx_json_set_u64(one, "size", size);
	cbx_json_push(all, one);
	cbx_json_set_u64(root, "schemaVersion", 2);
	cbx_json_set(root, "manifests", all);
	cbx_json_print(&text, root);
	r = write_file(dir, "index.json", text.data, text.len, err);
	return r < 0 ? r : write_file(dir, "oci-layout", marker, strlen(marker), err);
}

static int fetch_layers(struct request *q, int blobs, const cJSON *manifest, struct cbx_err *err)
{
	size_t n = 0;
	struct cbx_oci_manifest *m = cbx_xcalloc(1, sizeof(*m));
	struct cbx_oci_descriptor *all = cbx_xcalloc(CBX_LAYERS_MAX + 1, sizeof(*all));
	int r = cbx_oci_manifest_read(manifest, m, err);

	if (r == 0) {
		all[n++] = m->config;
		for (size_t i = 0; i < m->n; i++)
			if (!cbx_json_lists(q->have, m->layers[i].digest))
				all[n++] = m->layers[i];
		r = cbx_blobs_fetch(&q->registry, blobs, all, n, on_progress, err);
	}
	free(all);
	free(m);
	return r;
}

static int fetch(struct request *q, int dir, char top[CBX_OCI_DIGEST], struct cbx_err *err)
{
	_cleanup_fd_ int blobs = -1;
	_cleanup_free_ char *reference = cbx_xstrdup(q->reference);
	char digest[CBX_OCI_DIGEST];

	if ((mkdirat(dir, "blobs", 0755) < 0 && errno != EEXIST) ||
	    (mkdirat(dir, "blobs/sha256", 0755) < 0 && errno != EEXIST))
		return cbx_fail(err, errno, "make a directory for layers");
	blobs = openat(dir, "blobs/sha256", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (blobs < 0)
		return cbx_fail(err, errno, "open the directory of layers");
	for (int depth = 0; depth <= INDEXES_MAX; depth++) {
		_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
		struct cbx_oci_descriptor d;
		uint64_t size;
		bool index;
		int r = get_manifest(q, blobs, reference, digest, &size, &doc, err);

		if (r < 0)
			return r;
		index = cbx_oci_is_index(doc.root);
		if (depth == 0) {
			strcpy(top, digest);
			r = write_layout(dir, q, digest, size, index, err);
		}
		if (r < 0 || !index)
			return r < 0 ? r : fetch_layers(q, blobs, doc.root, err);
		r = cbx_oci_choose(doc.root, false, &q->want, &d, err);
		if (r < 0)
			return r;
		free(reference);
		reference = cbx_xstrdup(d.digest);
	}
	return cbx_refuse(err, "invalid_image", EBADMSG, "the image's index holds indexes of more than %d levels",
			  INDEXES_MAX);
}

int main(void)
{
	_cleanup_json_ cJSON *result = cbx_json_new_obj();
	struct request q = { 0 };
	struct cbx_dirs dirs;
	struct cbx_err err;
	char top[CBX_OCI_DIGEST] = "";
	int r = cbx_dirs_init(&dirs, &err);

	(void)prctl(PR_SET_NAME, "codebox-pull"); /* which was executed by its descriptor */
	signal(SIGPIPE, SIG_DFL);		  /* nobody listens any more */
	umask(022);
	if (r >= 0 && curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		r = cbx_refuse(&err, "system", EIO, "libcurl does not start");
	if (r >= 0)
		r = cbx_pull_confine(dirs.share, CBX_PULL_DIR_FD, &err);
	close(CBX_PULL_SHARE_FD);
	if (r >= 0)
		r = read_request(&q, &err);
	if (r >= 0)
		r = fetch(&q, CBX_PULL_DIR_FD, top, &err);
	if (r >= 0)
		cbx_json_set_str(result, "digest", top);
	else
		cbx_json_set(result, "error", cbx_json_of_error(&err));
	print_line(take_ptr(&result));
	cbx_registry_release(&q.registry);
	free(q.reference);
	cJSON_Delete(q.have);
	return r < 0;
}
