/* SPDX-License-Identifier: Apache-2.0 */
/* What decides whether a web page may speak with codeboxd: names, origins, tokens, and the address to listen on. The line
 * is the value of a header. */
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "fuzz.h"
#include "http/internal.h"

/* Said in another way than the program says it. */
static bool names_this_computer(const char *host)
{
	static const char *const names[] = { "localhost", "127.0.0.1", "[::1]" };

	for (size_t i = 0; i < 3; i++) {
		size_t n = strlen(names[i]);

		if (strncasecmp(host, names[i], n) == 0 && (host[n] == '\0' || host[n] == ':'))
			return strspn(host + n, ":0123456789") == strlen(host + n);
	}
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cbx_http_address address = { 0 };
	struct cbx_buf token = { 0 };
	struct cbx_err err = { 0 };
	char *line = malloc(size + 1);
	int r;

	must(line);
	memcpy(line, data, size);
	line[size] = '\0';
	if (cbx_http_host_allowed(line))
		must(names_this_computer(line));
	if (cbx_http_origin_allowed(line)) {
		const char *host = strstr(line, "://");

		must(host && names_this_computer(host + 3));
	}
	r = cbx_http_address_parse(line, &address, &err);
	must(r >= 0 || err.code);
	if (r >= 0)
		must(strcmp(address.host, "127.0.0.1") == 0 || strcmp(address.host, "::1") == 0);
	cbx_buf_adds(&token, "0123456789abcdef");
	if (cbx_http_token_ok(&token, line))
		must(strncasecmp(line, "Bearer ", 7) == 0 && strcmp(line + 7, "0123456789abcdef") == 0);
	cbx_buf_release(&token);
	free(line);
	return 0;
}
