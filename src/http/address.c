/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a page in a browser can send requests to this computer's loopback address, under a name of its
 * own that it makes resolve there (DNS rebinding). So a request counts only when its Host header, and its Origin when
 * it has one, name this computer in one of the three usual ways. Ports are not compared: a forwarded port is not a
 * threat.
 */
#include "http/address.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#define TOKEN_MIN 16
#define TOKEN_MAX 4096

int cbx_http_address_parse(const char *s, struct cbx_address *ret, struct cbx_err *err)
{
	const char *colon = strrchr(s, ':');
	uint64_t port;
	char host[64];
	size_t n;
	bool v6;
	int r;

	if (cbx_starts_with(s, "unix:/"))
		return cbx_address_unix_path(ret, s + strlen("unix:"), err);
	if (!colon || (s[0] == '[' && colon[-1] != ']') || (s[0] != '[' && memchr(s, ':', (size_t)(colon - s))))
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "\"%.80s\" is not an address; write ADDRESS:PORT, such as 127.0.0.1:8080 or "
				  "[::1]:8080, or unix:PATH",
				  s);
	r = cbx_parse_u64(colon + 1, "the port", 0, UINT16_MAX, &port, err);
	if (r < 0)
		return r;
	n = (size_t)(colon - s);
	if (n == 9 && strncasecmp(s, "localhost", 9) == 0) {
		cbx_address_loopback(ret, false, (uint16_t)port);
		return 0;
	}
	v6 = s[0] == '[';
	snprintf(host, sizeof(host), "%.*s", (int)(v6 ? n - 2 : n), s + v6);
	if (n >= sizeof(host) || cbx_address_numeric(ret, host, v6, (uint16_t)port) < 0)
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "\"%.*s\" is not a numeric address; write localhost, an address of this computer, or "
				  "0.0.0.0 or [::] for all of them",
				  (int)(n > 80 ? 80 : n), s);
	return 0;
}

/* Behind the name of a host: nothing, or a port. */
static bool is_end(const char *s)
{
	size_t digits = s[0] == ':' ? strspn(s + 1, "0123456789") : 0;

	return !s[0] || (digits && digits <= 5 && !s[1 + digits]);
}

bool cbx_http_host_allowed(const char *host)
{
	static const char *const names[] = { "localhost", "127.0.0.1", "[::1]" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		size_t n = strlen(names[i]);

		if (strncasecmp(host, names[i], n) == 0 && is_end(host + n))
			return true;
	}
	return false;
}

bool cbx_http_host_numeric(const char *host)
{
	bool v6 = host[0] == '[';
	size_t n = strcspn(host + v6, v6 ? "]" : ":");
	struct cbx_address ignored;
	char text[64];

	if (n >= sizeof(text) || (v6 && host[1 + n] != ']') || !is_end(host + n + 2 * v6))
		return false;
	snprintf(text, sizeof(text), "%.*s", (int)n, host + v6);
	return cbx_address_numeric(&ignored, text, v6, 0) >= 0;
}

bool cbx_http_origin_allowed(const char *origin)
{
	if (strncasecmp(origin, "http://", 7) == 0)
		return cbx_http_host_allowed(origin + 7);
	return strncasecmp(origin, "https://", 8) == 0 && cbx_http_host_allowed(origin + 8);
}

int cbx_http_token_read(const char *path, struct cbx_buf *ret, struct cbx_err *err)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char text[TOKEN_MAX + 1];
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return cbx_fail(err, errno, "open the token file %s", path);
	if (!S_ISREG(st.st_mode) || st.st_mode & 077)
		return cbx_refuse(err, "invalid_argument", EPERM,
				  "%s: a token file must be a regular file that only its owner can use (chmod 600)",
				  path);
	n = cbx_read_full(fd, text, sizeof(text));
	if (n < 0)
		return cbx_fail(err, (int)-n, "read the token file %s", path);
	while (n > 0 && strchr(" \t\r\n", text[n - 1]))
		n--;
	for (ssize_t i = 0; i < n; i++)
		if (text[i] <= ' ' || text[i] > '~')
			n = 0;
	if (n < TOKEN_MIN || n > TOKEN_MAX)
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "%s: it does not hold a token; write one word of %d to %d visible ASCII characters",
				  path, TOKEN_MIN, TOKEN_MAX);
	cbx_buf_add(ret, text, (size_t)n);
	return 0;
}

bool cbx_http_token_ok(const struct cbx_buf *token, const char *authorization)
{
	const char *given = authorization && strncasecmp(authorization, "Bearer ", 7) == 0 ? authorization + 7 : "";
	size_t n = strlen(given);
	volatile unsigned char differ = n != token->len;

	for (size_t i = 0; i < token->len; i++)
		differ |= (unsigned char)token->data[i] ^ (unsigned char)(n ? given[i % n] : 0);
	return !differ;
}
