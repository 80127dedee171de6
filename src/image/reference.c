/* SPDX-License-Identifier: Apache-2.0 */
#include "image/reference.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "image/oci.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz0123456789"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

static int bad(const char *text, struct cbx_err *err)
{
	return cbx_refuse(err, "invalid_argument", EINVAL,
			  "\"%.200s\" is not the name of an image; write NAME, NAME:TAG, NAME@sha256:DIGEST or "
			  "HOST/NAME, in lower case",
			  text);
}

static bool host_valid(const char *s)
{
	const char *end = s + 1;
	size_t n;

	if (*s == '[') { /* an IPv6 address */
		end += strspn(end, "0123456789abcdefABCDEF:.");
		if (end == s + 1 || *end++ != ']')
			return false;
	} else {
		n = strspn(s, LOWER UPPER ".-");
		if (!n || s[0] == '-' || s[0] == '.' || strstr(s, ".."))
			return false;
		end = s + n;
	}
	if (!*end)
		return true;
	n = strspn(end + 1, "0123456789");
	return *end == ':' && n > 0 && n < 6 && !end[1 + n];
}

/* Parts of letters, digits and single separators between them. */
static bool repository_valid(const char *s)
{
	const char *start = s;
	bool separator = true;

	for (; *s; s++) {
		if (strchr(LOWER, *s)) {
			separator = false;
		} else if (separator && (s == start || (*s != '_' && *s != '-') || s[-1] != *s)) {
			return false; /* one at the start, or two that may not follow each other */
		} else if (!strchr("._-/", *s)) {
			return false;
		} else {
			separator = true;
		}
	}
	return !separator;
}

static bool tag_valid(const char *s)
{
	return *s && *s != '.' && *s != '-' && strlen(s) < 129 && !s[strspn(s, LOWER UPPER "._-")];
}

static bool is_loopback(const char *host)
{
	size_t n = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");

	if ((n == 9 && strncmp(host, "localhost", n) == 0) || (n == 5 && strncmp(host, "[::1]", n) == 0))
		return true;
	return strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == n;
}

/* Does the first part look like a host? */
static bool names_host(const char *text, size_t n)
{
	return memchr(text, '.', n) || memchr(text, ':', n) || (n == 9 && strncmp(text, "localhost", n) == 0);
}

int cbx_reference_parse(const char *text, struct cbx_reference *ret, struct cbx_err *err)
{
	char copy[768], *rest = copy, *at, *colon, *slash;

	memset(ret, 0, sizeof(*ret));
	if (strlen(text) >= sizeof(copy) || !*text)
		return bad(text, err);
	strcpy(copy, text);
	at = strchr(copy, '@');
	if (at) {
		*at++ = '\0';
		if (!cbx_oci_digest_valid(at))
			return bad(text, err);
		strcpy(ret->digest, at);
	}
	slash = strchr(copy, '/');
	if (slash && names_host(copy, (size_t)(slash - copy))) {
		*slash = '\0';
		rest = slash + 1;
		if (!host_valid(copy) || strlen(copy) >= sizeof(ret->named))
			return bad(text, err);
		strcpy(ret->named, copy);
	}
	colon = strrchr(rest, ':');
	if (colon) {
		*colon++ = '\0';
		if (!tag_valid(colon))
			return bad(text, err);
		strcpy(ret->tag, colon);
	} else if (!ret->digest[0]) {
		strcpy(ret->tag, "latest");
	}
	if (!repository_valid(rest) || strlen(rest) >= sizeof(ret->repository) - 8)
		return bad(text, err);
	if (!ret->named[0] || strcmp(ret->named, "index.docker.io") == 0)
		strcpy(ret->named, "docker.io");
	if (strcmp(ret->named, "docker.io") == 0) {
		strcpy(ret->host, "registry-1.docker.io");
		snprintf(ret->repository, sizeof(ret->repository), "%s%s", strchr(rest, '/') ? "" : "library/", rest);
	} else {
		strcpy(ret->host, ret->named);
		strcpy(ret->repository, rest);
	}
	ret->loopback = is_loopback(ret->host);
	return 0;
}

char *cbx_reference_print(const struct cbx_reference *ref)
{
	return cbx_xasprintf("%s/%s%s%s%s%s", ref->named, ref->repository, ref->tag[0] ? ":" : "", ref->tag,
			     ref->digest[0] ? "@" : "", ref->digest);
}

void cbx_reference_image_name(const struct cbx_reference *ref, char out[CBX_NAME_MAX + 1])
{
	const char *slash = strrchr(ref->repository, '/'), *last = slash ? slash + 1 : ref->repository;
	bool tagged = ref->tag[0] && strcmp(ref->tag, "latest") != 0;

	snprintf(out, CBX_NAME_MAX + 1, "%s%s%s", last, tagged ? "-" : "", tagged ? ref->tag : "");
}
