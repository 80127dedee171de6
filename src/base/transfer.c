/* SPDX-License-Identifier: Apache-2.0 */
#include "base/transfer.h"

#include <string.h>
#include <strings.h>

#include "base/socket.h"

static curl_socket_t open_loopback(void *elsewhere, curlsocktype purpose, struct curl_sockaddr *a)
{
	if (!cbx_sockaddr_is_loopback(&a->addr)) {
		*(bool *)elsewhere = true;
		return CURL_SOCKET_BAD;
	}
	return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

void cbx_transfer_set_up(CURL *easy, const struct cbx_transfer *t)
{
	t->error_text[0] = '\0';
	curl_easy_setopt(easy, CURLOPT_URL, t->url);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, t->connect_s);
	curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, t->stall_s);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "codebox/" PACKAGE_VERSION);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, t->error_text);
	if (t->certificates)
		curl_easy_setopt(easy, CURLOPT_CAINFO, t->certificates);
	if (t->elsewhere) {
		curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_loopback);
		curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, t->elsewhere);
		curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
	}
}

bool cbx_transfer_passing(CURLcode code, long status)
{
	switch (code) {
	case CURLE_OK:
		return status == 408 || status == 429 || (status >= 500 && status != 501);
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_CONNECT:
	case CURLE_PARTIAL_FILE:
	case CURLE_OPERATION_TIMEDOUT:
	case CURLE_GOT_NOTHING:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_HTTP2:
	case CURLE_HTTP2_STREAM:
		return true;
	default:
		return false;
	}
}

bool cbx_transfer_header(const char *line, size_t n, const char *name, const char **ret, size_t *ret_n)
{
	size_t len = strlen(name);

	if (n <= len || strncasecmp(line, name, len) != 0 || line[len] != ':')
		return false;
	for (line += len + 1, n -= len + 1; n && (*line == ' ' || *line == '\t'); n--)
		line++;
	while (n && strchr("\r\n \t", line[n - 1]))
		n--;
	*ret = line;
	*ret_n = n;
	return true;
}
