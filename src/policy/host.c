/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/host.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* ---- names ---- */

static bool digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Resolvers take a name whose last label is a number for an address: "127.1", "0x7f000001", "1.2.3.08". */
static bool ends_in_number(const char *name)
{
	const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
	size_t n = strlen(last);

	if (strspn(last, "0123456789") == n)
		return true;
	return last[0] == '0' && last[1] == 'x' && strspn(last + 2, "0123456789abcdef") == n - 2;
}

static const char *parse_quad(const char *s, struct cbx_ip *ret)
{
	static const char why[] = "an IPv4 address is four numbers from 0 to 255 without leading zeros";
	struct in_addr v4;

	for (const char *p = s; *p; p++)
		if (p[0] == '0' && digit(p[1]) && (p == s || p[-1] == '.'))
			return why;
	if (inet_pton(AF_INET, s, &v4) != 1)
		return why;
	memset(ret, 0, sizeof(*ret));
	memcpy(ret->bytes, &v4, sizeof(v4));
	return NULL;
}

static const char *parse_v6(const char *s, size_t n, struct cbx_ip *ret)
{
	char text[INET6_ADDRSTRLEN];

	if (memchr(s, '%', n))
		return "an IPv6 address with a zone names an interface, not a host";
	if (n >= sizeof(text) || memchr(s, '\0', n))
		return "not an IPv6 address";
	memcpy(text, s, n);
	text[n] = '\0';
	memset(ret, 0, sizeof(*ret));
	ret->v6 = 1;
	return inet_pton(AF_INET6, text, ret->bytes) == 1 ? NULL : "not an IPv6 address";
}

static const char *parse_name(const char *s, size_t n, char *out)
{
	size_t label = 0;

	if (n && s[n - 1] == '.')
		n--;
	if (!n || n > CBX_HOST_MAX)
		return n ? "a name of a host has at most 253 characters" : "the name of the host is empty";
	for (size_t i = 0; i < n; i++) {
		char c = s[i] >= 'A' && s[i] <= 'Z' ? (char)(s[i] + 32) : s[i];

		if (c & 0x80)
			return "a name of a host is written in ASCII: as xn--… where it has other letters";
		if (c == '.' ? !label || s[i - 1] == '-'
			     : !(digit(c) || (c >= 'a' && c <= 'z') || c == '-' || c == '_'))
			return "a name of a host consists of letters, digits, \"-\" and single dots";
		if (c == '-' && !label)
			return "no part of a host's name begins or ends with \"-\"";
		label = c == '.' ? 0 : label + 1;
		if (label > 63)
			return "no part of a host's name has more than 63 characters";
		out[i] = c;
	}
	out[n] = '\0';
	return label && s[n - 1] != '-' ? NULL : "a name of a host does not end with \"-\" or two dots";
}

const char *cbx_host_parse(const char *s, size_t n, struct cbx_host *ret)
{
	const char *why;

	memset(ret, 0, sizeof(*ret));
	if (n >= 2 && s[0] == '[' && s[n - 1] == ']') {
		why = parse_v6(s + 1, n - 2, &ret->ip);
		if (!why)
			cbx_host_of_ip(ret, &ret->ip);
		return why;
	}
	why = parse_name(s, n, ret->name);
	if (why || !ends_in_number(ret->name))
		return why;
	if (s[n - 1] == '.')
		return "an address does not end with a dot";
	ret->literal = true;
	return parse_quad(ret->name, &ret->ip);
}

bool cbx_port_parse(const char *s, size_t n, uint16_t *ret)
{
	unsigned long v = 0;

	if (!n || n > 5 || s[0] == '0')
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!digit(s[i]))
			return false;
		v = v * 10 + (unsigned long)(s[i] - '0');
	}
	*ret = (uint16_t)v;
	return v <= 65535;
}

const char *cbx_host_parse_port(const char *s, size_t n, struct cbx_host *ret, uint16_t *port)
{
	const char *close = n && s[0] == '[' ? memchr(s, ']', n) : NULL;
	const char *colon = close ? close + 1 : memchr(s, ':', n);
	size_t host = colon ? (size_t)(colon - s) : n;

	if (host < n && (s[host] != ':' || !cbx_port_parse(s + host + 1, n - host - 1, port)))
		return "a port is a number from 1 to 65535 behind a colon; an IPv6 address is written in brackets";
	return cbx_host_parse(s, host, ret);
}

void cbx_host_of_ip(struct cbx_host *ret, const struct cbx_ip *ip)
{
	struct cbx_ip copy = *ip;

	memset(ret, 0, sizeof(*ret));
	ret->literal = true;
	ret->ip = copy;
	cbx_ip_print(&copy, ret->name);
}

/* ---- addresses ---- */

bool cbx_ip_from_sockaddr(struct cbx_ip *ret, const struct sockaddr *sa)
{
	memset(ret, 0, sizeof(*ret));
	if (sa->sa_family == AF_INET) {
		memcpy(ret->bytes, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
		return true;
	}
	if (sa->sa_family != AF_INET6)
		return false;
	ret->v6 = 1;
	memcpy(ret->bytes, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, 16);
	return true;
}

socklen_t cbx_ip_to_sockaddr(const struct cbx_ip *ip, uint16_t port, struct sockaddr_storage *ret)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

	memset(ret, 0, sizeof(*ret));
	memcpy(&v4.sin_addr, ip->bytes, 4);
	memcpy(&v6.sin6_addr, ip->bytes, 16);
	if (ip->v6)
		memcpy(ret, &v6, sizeof(v6));
	else
		memcpy(ret, &v4, sizeof(v4));
	return ip->v6 ? sizeof(v6) : sizeof(v4);
}

void cbx_ip_print(const struct cbx_ip *ip, char ret[46])
{
	if (!inet_ntop(ip->v6 ? AF_INET6 : AF_INET, ip->bytes, ret, 46))
		snprintf(ret, 46, "?");
}

/* ---- ranges ---- */

static struct cbx_ip masked(const struct cbx_ip *ip, unsigned bits)
{
	struct cbx_ip out = *ip;

	for (unsigned i = 0; i < 16; i++)
		out.bytes[i] &= bits >= 8 * i + 8 ? 0xff : bits <= 8 * i ? 0 : (uint8_t)(0xff00 >> (bits - 8 * i));
	return out;
}

bool cbx_ip_range_has(const struct cbx_ip_range *r, const struct cbx_ip *ip)
{
	struct cbx_ip m = masked(ip, r->bits);

	return ip->v6 == r->ip.v6 && memcmp(m.bytes, r->ip.bytes, sizeof(m.bytes)) == 0;
}

const struct cbx_ip_range *cbx_ip_range_both(const struct cbx_ip_range *a, const struct cbx_ip_range *b)
{
	const struct cbx_ip_range *wide = a->bits < b->bits ? a : b, *small = wide == a ? b : a;

	return cbx_ip_range_has(wide, &small->ip) ? small : NULL;
}

const char *cbx_ip_range_parse(const char *s, struct cbx_ip_range *ret)
{
	const char *slash = strchr(s, '/');
	size_t n = slash ? (size_t)(slash - s) : strlen(s);
	unsigned most, least;
	char quad[16];
	const char *why;

	if (memchr(s, ':', n)) {
		why = parse_v6(s, n, &ret->ip);
	} else {
		snprintf(quad, sizeof(quad), "%.*s", (int)(n < sizeof(quad) ? n : 0), s);
		why = parse_quad(quad, &ret->ip);
	}
	if (why)
		return why;
	most = ret->ip.v6 ? 128 : 32;
	least = ret->ip.v6 ? 16 : 8;
	ret->bits = (uint8_t)most;
	if (slash) {
		size_t digits = strspn(slash + 1, "0123456789");
		unsigned long bits = strtoul(slash + 1, NULL, 10);

		if (!digits || digits > 3 || slash[1 + digits] || (slash[1] == '0' && digits > 1) || bits > most)
			return "behind the \"/\" stands how many bits the addresses share";
		if (bits < least)
			return "a range has at least 8 bits of an IPv4 address, 16 of an IPv6 address, in common";
		ret->bits = (uint8_t)bits;
	}
	if (memcmp(masked(&ret->ip, ret->bits).bytes, ret->ip.bytes, sizeof(ret->ip.bytes)) != 0)
		return "the address has bits behind those that its range shares";
	return NULL;
}

void cbx_ip_range_print(const struct cbx_ip_range *r, char ret[50])
{
	char text[46];

	cbx_ip_print(&r->ip, text);
	if (r->bits == (r->ip.v6 ? 128 : 32))
		snprintf(ret, 50, "%s", text);
	else
		snprintf(ret, 50, "%s/%u", text, r->bits);
}

/* ---- what is not a public host ---- */

/* IANA's registries of special-purpose addresses. Of IPv6, all that is outside 2000::/3 is not global unicast; the
 * names before that line are for the message. */
static const struct {
	uint8_t v6, bits, bytes[16];
	const char *what;
} specials[] = {
	{ 0, 8, { 0 }, "this machine (0.0.0.0/8)" },
	{ 0, 8, { 10 }, "private" },
	{ 0, 10, { 100, 64 }, "shared by a provider's customers (100.64.0.0/10)" },
	{ 0, 8, { 127 }, "loopback" },
	{ 0, 16, { 169, 254 }, "link-local, where clouds keep their metadata" },
	{ 0, 12, { 172, 16 }, "private" },
	{ 0, 24, { 192, 0, 0 }, "reserved for protocols" },
	{ 0, 24, { 192, 0, 2 }, "for documentation" },
	{ 0, 24, { 192, 88, 99 }, "a 6to4 relay" },
	{ 0, 16, { 192, 168 }, "private" },
	{ 0, 15, { 198, 18 }, "for benchmarks" },
	{ 0, 24, { 198, 51, 100 }, "for documentation" },
	{ 0, 24, { 203, 0, 113 }, "for documentation" },
	{ 0, 4, { 224 }, "multicast" },
	{ 0, 4, { 240 }, "reserved" },
	{ 1, 96, { [10] = 0xff, [11] = 0xff }, "an IPv4 address in IPv6 form" },
	{ 1, 127, { 0 }, "loopback or unspecified" },
	{ 1, 96, { 0 }, "an IPv4 address in IPv6 form" },
	{ 1, 32, { 0, 0x64, 0xff, 0x9b }, "an IPv4 address in NAT64 form" },
	{ 1, 10, { 0xfe, 0x80 }, "link-local" },
	{ 1, 10, { 0xfe, 0xc0 }, "site-local" },
	{ 1, 7, { 0xfc }, "private" },
	{ 1, 8, { 0xff }, "multicast" },
	{ 1, 32, { 0x20, 0x01 }, "an IPv4 address in Teredo form" },
	{ 1, 23, { 0x20, 0x01 }, "reserved for protocols" },
	{ 1, 32, { 0x20, 0x01, 0x0d, 0xb8 }, "for documentation" },
	{ 1, 16, { 0x20, 0x02 }, "an IPv4 address in 6to4 form" },
	{ 1, 20, { 0x3f, 0xff }, "for documentation" },
};

bool cbx_ip_special_range(size_t i, struct cbx_ip_range *ret)
{
	if (i >= ARRAY_SIZE(specials))
		return false;
	*ret = (struct cbx_ip_range){ .ip.v6 = specials[i].v6, .bits = specials[i].bits };
	memcpy(ret->ip.bytes, specials[i].bytes, sizeof(ret->ip.bytes));
	return true;
}

const char *cbx_ip_special(const struct cbx_ip *ip)
{
	struct cbx_ip_range r;

	for (size_t i = 0; cbx_ip_special_range(i, &r); i++)
		if (cbx_ip_range_has(&r, ip))
			return specials[i].what;
	return ip->v6 && (ip->bytes[0] & 0xe0) != 0x20 ? "not a global address" : NULL;
}
