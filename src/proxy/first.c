/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/first.h"

#include <string.h>

/* ---- SOCKS5 ---- */

int cbx_socks_greeting(const unsigned char *p, size_t n)
{
	if (n >= 1 && p[0] != 5)
		return -1;
	if (n < 2 || n < 2u + p[1])
		return 0;
	return memchr(p + 2, 0, p[1]) ? 2 + p[1] : -1;
}

int cbx_socks_request(const unsigned char *p, size_t n, struct cbx_socks_request *ret)
{
	struct cbx_ip ip = { 0 };
	size_t len;

	memset(ret, 0, sizeof(*ret));
	if (n >= 1 && p[0] != 5)
		return -1;
	if (n < 5)
		return 0;
	if (p[2] != 0 || (p[3] != 1 && p[3] != 3 && p[3] != 4))
		return -1;
	len = p[3] == 1 ? 4 : p[3] == 4 ? 16 : 1u + p[4];
	if (n < 4 + len + 2)
		return 0;
	ret->command = p[1];
	ret->port = (uint16_t)(p[4 + len] << 8 | p[5 + len]);
	if (p[3] == 3) {
		ret->why = cbx_host_parse((const char *)p + 5, p[4], &ret->host);
	} else {
		ip.v6 = p[3] == 4;
		memcpy(ip.bytes, p + 4, len);
		cbx_host_of_ip(&ret->host, &ip);
	}
	if (!ret->why && !ret->port)
		ret->why = "a port is a number from 1 to 65535";
	return (int)(4 + len + 2);
}

/* ---- TLS ---- */

struct cursor {
	const unsigned char *p;
	size_t n;
	bool bad;
};

static size_t number(struct cursor *c, unsigned bytes)
{
	size_t v = 0;

	if (c->bad || c->n < bytes) {
		c->bad = true;
		return 0;
	}
	for (unsigned i = 0; i < bytes; i++)
		v = v << 8 | c->p[i];
	c->p += bytes;
	c->n -= bytes;
	return v;
}

/* A piece with its length before it. */
static struct cursor piece(struct cursor *c, unsigned bytes)
{
	size_t n = number(c, bytes);
	struct cursor part = { c->p, n, false };

	if (c->bad || n > c->n) {
		c->bad = true;
		return (struct cursor){ c->p, 0, true };
	}
	c->p += n;
	c->n -= n;
	return part;
}

static bool server_name(struct cursor ext, char name[CBX_HOST_MAX + 1])
{
	struct cursor list = piece(&ext, 2), one;
	size_t type = number(&list, 1);

	one = piece(&list, 2);
	/* One name: a second one is something that two readers might choose differently from. */
	if (ext.n || list.n || list.bad || type != 0 || !one.n || one.n > CBX_HOST_MAX || memchr(one.p, 0, one.n))
		return false;
	memcpy(name, one.p, one.n);
	name[one.n] = '\0';
	return true;
}

#define SERVER_NAME	       0
#define ENCRYPTED_NAME	       0xffce /* ECH's first drafts */
#define ENCRYPTED_CLIENT_HELLO 0xfe0d

static bool client_hello(struct cursor c, char name[CBX_HOST_MAX + 1], bool *ret_hidden)
{
	struct cursor extensions;
	bool seen = false;

	name[0] = '\0';
	*ret_hidden = false;
	number(&c, 2); /* version */
	if (c.n < 32)
		return false;
	c.p += 32;
	c.n -= 32;
	piece(&c, 1); /* session */
	piece(&c, 2); /* ciphers */
	piece(&c, 1); /* compression */
	if (!c.bad && !c.n)
		return true;
	extensions = piece(&c, 2);
	while (!c.bad && !extensions.bad && extensions.n) {
		size_t type = number(&extensions, 2);
		struct cursor one = piece(&extensions, 2);

		if (type == ENCRYPTED_CLIENT_HELLO || type == ENCRYPTED_NAME)
			*ret_hidden = true;
		if (type != SERVER_NAME || extensions.bad)
			continue;
		if (seen || !server_name(one, name))
			return false;
		seen = true;
	}
	return !c.bad && !extensions.bad && !c.n;
}

/* The handshake message may be in several records. */
int cbx_tls_hello(const unsigned char *p, size_t n, char name[CBX_HOST_MAX + 1], bool *ret_hidden)
{
	static unsigned char message[CBX_HELLO_MAX];
	size_t at = 0, len = 0, want = 4;

	while (len < want) {
		size_t size;

		if ((n > at && p[at] != 22) || (n > at + 1 && p[at + 1] != 3) || at > CBX_HELLO_MAX)
			return -1;
		if (n < at + 5)
			return 0;
		size = (size_t)p[at + 3] << 8 | p[at + 4];
		if (!size || size > 16384 + 256 || len + size > sizeof(message))
			return -1;
		if (n < at + 5 + size)
			return 0;
		memcpy(message + len, p + at + 5, size);
		len += size;
		at += 5 + size;
		if (len >= 4) {
			if (message[0] != 1)
				return -1;
			want = 4 + ((size_t)message[1] << 16 | (size_t)message[2] << 8 | message[3]);
			if (want > sizeof(message))
				return -1;
		}
	}
	return len == want && client_hello((struct cursor){ message + 4, want - 4, false }, name, ret_hidden) ? (int)at
													      : -1;
}
