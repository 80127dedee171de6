/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_POLICY_HOST_H
#define CBX_POLICY_HOST_H

/*
 * Names and addresses of hosts: the one parser of each, strict, since what is compared with a rule must be what is then
 * resolved and connected to. One spelling is taken for each: names in ASCII (a name of another script as xn--…), dotted
 * quads without leading zeros, IPv6 addresses in brackets and without a zone. Every other spelling of an address, such as
 * 0x7f.1 or 2130706433, is refused and never handed to a resolver.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define CBX_HOST_MAX 253 /* longest name, without the dot behind it */

struct cbx_ip {
	uint8_t v6; /* 0: the first four bytes are an IPv4 address, and the others are zero */
	uint8_t bytes[16];
};

struct cbx_host {
	bool literal; /* it is an address, and `name` is its usual spelling; IPv6 without brackets */
	struct cbx_ip ip;
	char name[CBX_HOST_MAX + 1]; /* lower case, without a dot at its end */
};

/* NULL: *ret is set; else why it is not a host, for people. n bytes, which may be anything. */
const char *cbx_host_parse(const char *s, size_t n, struct cbx_host *ret);
/* "host", "host:port", "[v6]", "[v6]:port". *port is left as it was where there is none. Likewise. */
const char *cbx_host_parse_port(const char *s, size_t n, struct cbx_host *ret, uint16_t *port);
/* Digits from 1 to 65535. */
bool cbx_port_parse(const char *s, size_t n, uint16_t *ret);
/* An address as four or sixteen bytes; *ret is a literal then. */
void cbx_host_of_ip(struct cbx_host *ret, const struct cbx_ip *ip);

/* Addresses that begin with the same bits. */
struct cbx_ip_range {
	struct cbx_ip ip; /* the other bits are zero */
	uint8_t bits;
};

/* Why an address is not one of a public host ("loopback", "private", …); NULL: it is one. */
const char *cbx_ip_special(const struct cbx_ip *ip);
/* The ranges that they are in, by number; false: there are no more. Beside these, all IPv6 outside of 2000::/3. */
bool cbx_ip_special_range(size_t i, struct cbx_ip_range *ret);
/* False: another family. */
bool cbx_ip_from_sockaddr(struct cbx_ip *ret, const struct sockaddr *sa);
socklen_t cbx_ip_to_sockaddr(const struct cbx_ip *ip, uint16_t port, struct sockaddr_storage *ret);
void cbx_ip_print(const struct cbx_ip *ip, char ret[46]);

/* "10.1.2.3", "10.0.0.0/8", "fd00::/16"; why not, or NULL. */
const char *cbx_ip_range_parse(const char *s, struct cbx_ip_range *ret);
void cbx_ip_range_print(const struct cbx_ip_range *r, char ret[50]);
bool cbx_ip_range_has(const struct cbx_ip_range *r, const struct cbx_ip *ip);
/* The smaller one of two of which one is within the other; NULL: neither is. */
const struct cbx_ip_range *cbx_ip_range_both(const struct cbx_ip_range *a, const struct cbx_ip_range *b);

#endif
