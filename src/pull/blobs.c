/* SPDX-License-Identifier: Apache-2.0 */
#include "pull/blobs.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/transfer.h"
#include "image/image-limits.h"

struct blob {
	struct cbx_registry *registry;
	const struct cbx_oci_descriptor *d;
	char part[80];
	int fd;
	uint64_t have, had; /* bytes; at the last start */
	struct sha256_ctx sum;
	bool old, done; /* old: begun by an earlier pull */
	unsigned tries, starts;
	uint64_t not_before; /* ms */
	CURL *easy;	     /* NULL: it is not running */
	char text[CURL_ERROR_SIZE];
	struct cbx_reply reply;
	struct cbx_err err; /* of the write callback */
};

static int start_anew(struct blob *b, struct cbx_err *err)
{
	sha256_init(&b->sum);
	b->have = 0;
	b->old = false;
	return ftruncate(b->fd, 0) < 0 || lseek(b->fd, 0, SEEK_SET) < 0 ? cbx_fail(err, errno, "write a layer") : 0;
}

/* What is in a file from before counts into the digest. */
static int hash_old(struct blob *b, struct cbx_err *err)
{
	_cleanup_free_ uint8_t *chunk = cbx_xcalloc(1, KIB(256));
	ssize_t n;

	sha256_init(&b->sum);
	while ((n = cbx_read_full(b->fd, chunk, KIB(256))) > 0) {
		sha256_update(&b->sum, (size_t)n, chunk);
		b->have += (uint64_t)n;
	}
	return n < 0 ? cbx_fail(err, (int)-n, "read a layer of an earlier pull") : 0;
}

static bool digest_right(struct blob *b)
{
	struct sha256_ctx copy = b->sum; /* more may come */
	uint8_t sum[SHA256_DIGEST_SIZE];
	char hex[2 * sizeof(sum) + 1];

	sha256_digest(&copy, sizeof(sum), sum);
	cbx_hex(sum, sizeof(sum), hex);
	return strcmp(hex, b->d->digest + 7) == 0;
}

static int open_blob(struct blob *b, int dir, struct cbx_err *err)
{
	const char *name = b->d->digest + 7;
	struct stat st;
	int r;

	snprintf(b->part, sizeof(b->part), "%s.part", name);
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && renameat(dir, name, dir, b->part) < 0)
		return cbx_fail(err, errno, "use a layer of an earlier pull"); /* it is checked like any other */
	b->fd = openat(dir, b->part, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
	if (b->fd < 0 || fstat(b->fd, &st) < 0 || !S_ISREG(st.st_mode))
		return cbx_fail(err, b->fd < 0 ? errno : EINVAL, "make a file for a layer");
	b->old = st.st_size > 0;
	r = hash_old(b, err);
	return r == 0 && b->have > b->d->size ? start_anew(b, err) : r;
}

static size_t on_body(char *p, size_t one, size_t n, void *arg)
{
	struct blob *b = arg;
	int r;

	curl_easy_getinfo(b->easy, CURLINFO_RESPONSE_CODE, &b->reply.status);
	if (b->reply.status != 200 && b->reply.status != 206) {
		if (b->reply.body.len < KIB(4))
			cbx_buf_add(&b->reply.body, p, n < KIB(4) ? n : KIB(4));
		return n;
	}
	if (b->reply.status == 206 && !b->reply.body.len && (!b->reply.ranged || b->reply.range_start != b->had))
		return cbx_refuse(&b->err, "registry_failed", EIO,
				  "the registry sends another part than was asked for"),
		       0;
	if (b->reply.status == 200 && !b->reply.body.len && b->have && start_anew(b, &b->err) < 0)
		return 0;
	if (!b->reply.body.len)
		cbx_buf_addc(&b->reply.body, '.'); /* the first bytes of this answer have come */
	if (n > b->d->size - b->have) {
		cbx_refuse(&b->err, "digest_mismatch", EBADMSG, "it is longer than its %llu bytes",
			   (unsigned long long)b->d->size);
		return 0;
	}
	r = cbx_write_all(b->fd, p, n);
	if (r < 0) {
		cbx_fail(&b->err, -r, "write a layer");
		return 0;
	}
	sha256_update(&b->sum, n, (const uint8_t *)p);
	b->have += n;
	return n;
}

static int begin(struct blob *b, CURLM *multi, struct cbx_err *err)
{
	_cleanup_free_ char *url = cbx_registry_url(b->registry, "blobs", b->d->digest);

	cbx_reply_reset(&b->reply);
	b->err.code = 0;
	b->easy = cbx_registry_transfer(b->registry, url, &b->reply, b->text);
	if (!b->easy)
		return cbx_fail(err, ENOMEM, "begin a transfer");
	b->had = b->have;
	b->starts++;
	curl_easy_setopt(b->easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(b->easy, CURLOPT_WRITEDATA, b);
	curl_easy_setopt(b->easy, CURLOPT_PRIVATE, b);
	if (b->have) {
		char range[32];

		snprintf(range, sizeof(range), "%llu-", (unsigned long long)b->have);
		curl_easy_setopt(b->easy, CURLOPT_RANGE, range);
	}
	return curl_multi_add_handle(multi, b->easy) != CURLM_OK ? cbx_fail(err, ENOMEM, "begin a transfer") : 0;
}

static int complete(struct blob *b, int dir, struct cbx_err *err)
{
	if (digest_right(b)) {
		b->done = true;
		if (renameat(dir, b->part, dir, b->d->digest + 7) < 0)
			return cbx_fail(err, errno, "name a layer");
		cbx_close_p(&b->fd);
		return 0;
	}
	if (b->old) /* the earlier pull's part may be what is wrong */
		return start_anew(b, err);
	(void)unlinkat(dir, b->part, 0);
	return cbx_refuse(err, "digest_mismatch", EBADMSG,
			  "the registry %.200s sends other bytes for %s than its digest says", b->registry->host,
			  b->d->digest);
}

/* A transfer has ended: done, to be continued later, or an error. */
static int ended(struct blob *b, CURLcode code, int dir, struct cbx_err *err)
{
	long status = b->reply.status;
	int r;

	if (b->err.code) {
		*err = b->err;
		return cbx_wrap(err, "%s", b->d->digest);
	}
	if (b->have > b->had)
		b->tries = 0;
	b->tries++;
	if (code == CURLE_OK && (status == 200 || status == 206) && b->have == b->d->size)
		return complete(b, dir, err);
	if (b->tries > CBX_PULL_TRIES || b->starts > CBX_PULL_STARTS)
		return code == CURLE_OK && status != 200 && status != 206
			       ? cbx_registry_refused(b->registry, b->d->digest, &b->reply, err)
			       : cbx_registry_broken(b->registry, b->d->digest, code, &b->reply,
						     code == CURLE_OK ? "it ends too early, each time" : b->text, err);
	if (code == CURLE_OK && status == 401) {
		r = cbx_registry_authenticate(b->registry, cbx_buf_str(&b->reply.challenge), err);
		return r;
	}
	if (code == CURLE_OK && status == 416)
		return start_anew(b, err);
	if (code == CURLE_OK && status != 200 && status != 206 && !cbx_transfer_passing(code, status))
		return cbx_registry_refused(b->registry, b->d->digest, &b->reply, err);
	if (code != CURLE_OK && (b->reply.elsewhere || !cbx_transfer_passing(code, status)))
		return cbx_registry_broken(b->registry, b->d->digest, code, &b->reply, b->text, err);
	b->not_before = cbx_now_ms() + (100u << (b->tries < 4 ? b->tries : 4));
	return 0;
}

static int start_some(struct blob *all, size_t n, CURLM *multi, struct cbx_err *err)
{
	size_t running = 0;

	for (size_t i = 0; i < n; i++)
		running += all[i].easy != NULL;
	for (size_t i = 0; i < n && running < CBX_PULL_PARALLEL; i++) {
		int r = 0;

		if (all[i].done || all[i].easy || cbx_now_ms() < all[i].not_before)
			continue;
		r = begin(&all[i], multi, err);
		if (r < 0)
			return r;
		running++;
	}
	return 0;
}

static int take_ended(CURLM *multi, int dir, struct cbx_err *err)
{
	CURLMsg *m;
	int left, r = 0;

	while (r == 0 && (m = curl_multi_info_read(multi, &left))) {
		CURLcode code = m->data.result;
		CURL *easy = m->easy_handle;
		struct blob *b;

		if (m->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&b);
		curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &b->reply.status);
		curl_multi_remove_handle(multi, easy);
		r = ended(b, code, dir, err);
		curl_easy_cleanup(easy);
		b->easy = NULL;
	}
	return r;
}

static int run(struct blob *all, size_t n, int dir, CURLM *multi, void (*progress)(uint64_t, uint64_t, size_t, size_t),
	       struct cbx_err *err)
{
	for (;;) {
		uint64_t got = 0, of = 0;
		size_t done = 0;
		int running, r;

		for (size_t i = 0; i < n; i++) {
			got += all[i].have;
			of += all[i].d->size;
			done += all[i].done;
		}
		progress(got, of, done, n);
		if (done == n)
			return 0;
		r = start_some(all, n, multi, err);
		if (r < 0)
			return r;
		if (curl_multi_perform(multi, &running) != CURLM_OK ||
		    curl_multi_poll(multi, NULL, 0, running ? 200 : 50, NULL) != CURLM_OK)
			return cbx_fail(err, EIO, "transfer layers");
		r = take_ended(multi, dir, err);
		if (r < 0)
			return r;
	}
}

int cbx_blobs_fetch(struct cbx_registry *r, int dir, const struct cbx_oci_descriptor *descriptors, size_t n,
		    void (*progress)(uint64_t got, uint64_t of, size_t done, size_t n), struct cbx_err *err)
{
	struct blob *all = cbx_xcalloc(n, sizeof(*all));
	CURLM *multi = curl_multi_init();
	int ret = multi ? 0 : cbx_fail(err, ENOMEM, "begin transfers");
	size_t m = 0;

	for (size_t i = 0; i < n; i++) {
		bool twice = false;

		for (size_t j = 0; j < m; j++)
			twice |= strcmp(all[j].d->digest, descriptors[i].digest) == 0;
		if (!twice)
			all[m++] = (struct blob){ .registry = r, .d = &descriptors[i], .fd = -1 };
	}
	for (size_t i = 0; i < m && ret == 0; i++) {
		ret = open_blob(&all[i], dir, err);
		if (ret == 0 && all[i].have == all[i].d->size)
			ret = complete(&all[i], dir, err);
	}
	if (ret == 0)
		ret = run(all, m, dir, multi, progress, err);
	for (size_t i = 0; i < m; i++) {
		if (all[i].easy) {
			curl_multi_remove_handle(multi, all[i].easy);
			curl_easy_cleanup(all[i].easy);
		}
		cbx_close_p(&all[i].fd);
		cbx_reply_release(&all[i].reply);
	}
	if (multi)
		curl_multi_cleanup(multi);
	free(all);
	return ret;
}
