/* SPDX-License-Identifier: Apache-2.0 */
#include "packages/sums.h"

#include <errno.h>
#include <nettle/base64.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "packages/kind.h"
#include "packages/npm.h"
#include "packages/semver.h"

#define LOCKED "--locked "
#define HASH   "--hash"
#define SHA256 "sha256:"
#define SHA512 "sha512:"

static int refuse(const char *text, const char *why, struct cbx_err *err)
{
	cbx_refuse(err, "invalid_argument", EINVAL, "%.200s: %s", text, why);
	cbx_err_sanitize(err);
	return -EINVAL;
}

static bool from_hex(const char *p, size_t n, char out[129])
{
	if (n != 64)
		return false;
	for (size_t i = 0; i < n; i++) {
		out[i] = p[i] >= 'A' && p[i] <= 'F' ? (char)(p[i] + 32) : p[i];
		if (!memchr("0123456789abcdef", out[i], 16))
			return false;
	}
	out[n] = '\0';
	return true;
}

static bool from_base64(const char *p, size_t n, char out[129])
{
	struct base64_decode_ctx c;
	uint8_t sum[BASE64_DECODE_LENGTH(88)];
	size_t size = sizeof(sum);

	base64_decode_init(&c);
	if (n != 88 || !base64_decode_update(&c, &size, sum, n, p) || !base64_decode_final(&c) || size != 64)
		return false;
	cbx_hex(sum, size, out);
	return true;
}

static void add(struct cbx_sums *sums, const struct cbx_sum *sum)
{
	if (sums->n == sums->room) {
		sums->room = sums->room ? 2 * sums->room : 64;
		sums->all = cbx_xrealloc(sums->all, sums->room * sizeof(*sums->all));
	}
	sums->all[sums->n++] = *sum;
}

/* What an entry is about; an exact version is part of it. */
static int about(const char *text, struct cbx_sum *ret, struct cbx_err *err)
{
	struct cbx_requirement q;
	struct cbx_semver v;
	int r = cbx_requirement_parse(text, &q, err);
	const char *version = q.specifiers + strspn(q.specifiers, " ");

	if (r < 0)
		return r;
	snprintf(ret->name, sizeof(ret->name), "%s", q.name);
	if (cbx_kind_of(q.name) == CBX_KIND_NPM) {
		if (version[0] != '@' || strlen(version + 1) >= sizeof(ret->version) ||
		    !cbx_semver_parse(version + 1, strlen(version + 1), &v))
			return refuse(text, "what a lock has is one version", err);
		snprintf(ret->version, sizeof(ret->version), "%s", version + 1);
	} else if (!cbx_starts_with(version, "==") || strpbrk(version, "*,")) {
		return refuse(text, "--hash needs one version, as in beta==1.5", err);
	}
	return 0;
}

/* "--hash=sha256:… --hash sha256:…" */
static int hashes(struct cbx_sums *sums, struct cbx_sum *sum, const char *text, const char *p, struct cbx_err *err)
{
	bool npm = cbx_kind_of(sum->name) == CBX_KIND_NPM;
	size_t had = sums->n;

	while (*(p += strspn(p, " \t"))) {
		size_t n;

		if (!cbx_starts_with(p, HASH) || !strchr("= \t", p[strlen(HASH)]))
			return refuse(text, "options behind a requirement are not taken, but for --hash", err);
		p += strlen(HASH);
		p += *p == '=' ? 1 : strspn(p, " \t");
		n = strcspn(p, " \t");
		if (sums->n == CBX_INSTALL_SUMS_MAX)
			return refuse(text, "there are more hashes than can be compared at once", err);
		if (cbx_starts_with(p, npm ? SHA512 : SHA256)) {
			size_t skip = strlen(SHA256);

			if (!(npm ? from_base64 : from_hex)(p + skip, n < skip ? 0 : n - skip, sum->sum))
				return refuse(text, "a hash is not one", err);
			add(sums, sum);
		}
		p += n;
	}
	return sums->n > had ? 0
			     : refuse(text,
				      npm ? "its hash is not of SHA-512" :
					    "none of its hashes is of SHA-256, which is what the index says of files",
				      err);
}

int cbx_sums_take(struct cbx_sums *sums, const char *text, char **ret, struct cbx_err *err)
{
	bool locked = cbx_starts_with(text, LOCKED);
	const char *from = text + (locked ? strlen(LOCKED) : 0), *hash = strstr(from, " " HASH);
	_cleanup_free_ char *bare = NULL;
	struct cbx_sum sum = { 0 };
	size_t n;
	int r;

	*ret = NULL;
	if (strcmp(text, "--only-locked") == 0) {
		sums->only = true;
		return 0;
	}
	if (strcmp(text, "--ignore-scripts") == 0) {
		sums->no_scripts = true;
		return 0;
	}
	if (!hash) {
		if (locked)
			return refuse(text, "what is locked has a hash", err);
		*ret = cbx_xstrdup(text);
		return 0;
	}
	for (n = (size_t)(hash - from); n && strchr(" \t", from[n - 1]); n--)
		;
	bare = strndup(from, n);
	r = about(bare, &sum, err);
	if (r == 0 && (cbx_kind_of(sum.name) == CBX_KIND_NPM) != locked)
		r = refuse(text, "a hash of this kind of package does not stand here", err);
	if (r == 0)
		r = hashes(sums, &sum, bare, hash, err);
	if (r < 0)
		return r;
	if (locked)
		return 0;
	sums->only = true;
	*ret = take_ptr(&bare);
	return 0;
}

void cbx_sums_release(struct cbx_sums *sums)
{
	free(sums->all);
	*sums = (struct cbx_sums){ 0 };
}

static int by_name(const void *a, const void *b)
{
	const struct cbx_sum *const *x = a, *const *y = b;
	int r = strcmp((*x)->name, (*y)->name);

	return r ? r : *x < *y ? -1 : *x > *y; /* as they were given */
}

cJSON *cbx_sums_json(const struct cbx_sums *sums)
{
	_cleanup_free_ const struct cbx_sum **sorted = cbx_xcalloc(sums->n + 1, sizeof(struct cbx_sum *));
	cJSON *o = cbx_json_new_obj(), *list = NULL;

	for (size_t i = 0; i < sums->n; i++)
		sorted[i] = &sums->all[i];
	qsort(sorted, sums->n, sizeof(struct cbx_sum *), by_name);
	for (size_t i = 0; i < sums->n; i++) {
		cJSON *one = cbx_json_new_obj();

		if (!i || strcmp(sorted[i - 1]->name, sorted[i]->name) != 0)
			cbx_json_set(o, sorted[i]->name, list = cbx_json_new_arr());
		cbx_json_set_str(one, "version", sorted[i]->version);
		cbx_json_set_str(one, "sum", sorted[i]->sum);
		cbx_json_push(list, one);
	}
	return o;
}

bool cbx_sums_have(const struct cbx_sums *sums, const struct cbx_wheel *w, bool *ret_known)
{
	*ret_known = false;
	for (size_t i = 0; i < sums->n; i++) {
		const struct cbx_sum *s = &sums->all[i];

		if (strcmp(s->name, w->name) != 0 || (s->version[0] && strcmp(s->version, w->version) != 0))
			continue;
		*ret_known = true;
		if (strcmp(s->sum, w->sum) == 0)
			return true;
	}
	return false;
}
