/* SPDX-License-Identifier: Apache-2.0 */
/* What a policy says about the network: hosts and addresses in every spelling, rules, what two policies both allow; and
 * the parsers of codebox-proxy. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/network.h"
#include "proxy/first.h"
#include "proxy/head.h"
#include "unit_main.h"

/* ---- hosts ---- */

static const struct {
	const char *text, *name; /* NULL: refused */
} hosts[] = {
	{ "example.org", "example.org" },
	{ "EXAMPLE.Org.", "example.org" },
	{ "xn--bcher-kva.example", "xn--bcher-kva.example" },
	{ "_dmarc.example.org", "_dmarc.example.org" },
	{ "a", "a" },
	{ "1.2.3.4", "1.2.3.4" },
	{ "[2001:DB8:0::1]", "2001:db8::1" },
	{ "[::ffff:127.0.0.1]", "::ffff:127.0.0.1" },
	{ "3com.example", "3com.example" },
	{ "0x.example", "0x.example" },
	/* Other spellings of addresses. */
	{ "127.1", NULL },
	{ "2130706433", NULL },
	{ "0x7f000001", NULL },
	{ "0x7f.0.0.1", NULL },
	{ "127.0.0.0x1", NULL },
	{ "127.0.0.0x", NULL },
	{ "0177.0.0.1", NULL },
	{ "127.0.0.01", NULL },
	{ "1.2.3.4.", NULL },
	{ "1.2.3.4.5", NULL },
	{ "1.2.3.256", NULL },
	{ "a.1", NULL },
	{ "\xef\xbc\x91" "27.0.0.1", NULL },
	{ "[::1%lo]", NULL },
	{ "[fe80::1%251]", NULL },
	{ "::1", NULL },
	{ "[1.2.3.4]", NULL },
	{ "[::1", NULL },
	{ "[]", NULL },
	/* Names that are none. */
	{ "", NULL },
	{ ".", NULL },
	{ "a..b", NULL },
	{ "a..", NULL },
	{ ".a", NULL },
	{ "-a.b", NULL },
	{ "a-.b", NULL },
	{ "a.b-", NULL },
	{ "a b", NULL },
	{ "a%2eb", NULL },
	{ "a/b", NULL },
	{ "user@a", NULL },
	{ "b\xc3\xbc" "cher.example", NULL },
	{ "ex\xe3\x80\x82" "ample", NULL },
	{ "a\tb", NULL },
	{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.b", NULL },
};

START_TEST(spellings)
{
	struct cbx_host h;
	char with_nul[] = "a\0b";

	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		const char *why = cbx_host_parse(hosts[i].text, strlen(hosts[i].text), &h);

		ck_assert_msg(!why == !!hosts[i].name, "%s: %s", hosts[i].text, why ? why : "taken");
		if (!why)
			ck_assert_str_eq(h.name, hosts[i].name);
	}
	ck_assert(cbx_host_parse(with_nul, 3, &h));
}
END_TEST

START_TEST(ports)
{
	static const char *const bad[] = { "a:", "a:0", "a:65536", "a:080", "a:8 0", "a:+80", "[::1]80", "[::1]:", "a:b:80" };
	struct cbx_host h;
	uint16_t port = 7;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_msg(cbx_host_parse_port(bad[i], strlen(bad[i]), &h, &port), "%s", bad[i]);
	port = 7;
	ck_assert(!cbx_host_parse_port("a.b", 3, &h, &port) && port == 7);
	ck_assert(!cbx_host_parse_port("a.b:65535", 9, &h, &port) && port == 65535);
	ck_assert(!cbx_host_parse_port("[::1]:22", 8, &h, &port) && port == 22 && h.literal && h.ip.v6);
}
END_TEST

static const char *special(const char *address)
{
	struct cbx_ip_range r;

	ck_assert_msg(!cbx_ip_range_parse(address, &r), "%s", address);
	return cbx_ip_special(&r.ip);
}

START_TEST(addresses_that_are_not_public)
{
	static const char *const bad[] = {
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254",
		"169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.1.1",
		"198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.7", "224.0.0.1", "239.1.1.1", "240.0.0.1",
		"255.255.255.255", "::", "::1", "::127.0.0.1", "::ffff:10.0.0.1", "::ffff:8.8.8.8", "64:ff9b::7f00:1",
		"64:ff9b:1::1", "100::1", "fe80::1", "febf::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1",
		"2001::1", "2001:10::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::", "3fff::1", "4000::1", "5f00::1",
		"8000::1",
	};
	static const char *const good[] = { "1.1.1.1", "9.255.255.255", "11.0.0.1", "100.63.255.255", "100.128.0.1",
					    "126.1.1.1", "128.0.0.1", "172.15.1.1", "172.32.0.1", "192.0.1.1",
					    "198.17.1.1", "223.255.255.255", "2001:4860:4860::8888", "2600::1",
					    "2001:200::1", "3ffe::1" };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_msg(special(bad[i]), "%s", bad[i]);
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		ck_assert_msg(!special(good[i]), "%s: %s", good[i], special(good[i]));
}
END_TEST

/* ---- rules ---- */

static int read_rules(const char *text, struct cbx_network *ret, struct cbx_err *err)
{
	_cleanup_json_ cJSON *v = cJSON_Parse(text);

	ck_assert_msg(v, "%s", text);
	return cbx_network_parse(v, ret, NULL, err);
}

static struct cbx_network rules(const char *text)
{
	struct cbx_network n;
	struct cbx_err err = { 0 };

	ck_assert_msg(read_rules(text, &n, &err) == 0, "%s: %s", text, err.msg);
	return n;
}

START_TEST(refusals)
{
	static const struct {
		const char *text, *word;
	} all[] = {
		{ "\"all\"", "give \"none\"" },
		{ "[]", "give \"none\"" },
		{ "{}", "give \"none\"" },
		{ "{\"allow\":{}}", "give a list" },
		{ "{\"allow\":[1]}", "give names" },
		{ "{\"allow\":[{\"ports\":[1]}]}", "give names" },
		{ "{\"allow\":[\"http://a/\"]}", "port" },
		{ "{\"allow\":[\"a:0\"]}", "port" },
		{ "{\"allow\":[\"*.1.2.3.4\"]}", "nothing below" },
		{ "{\"allow\":[\"a.*\"]}", "not a host" },
		{ "{\"allow\":[\"**.a\"]}", "not a host" },
		{ "{\"allow\":[\"127.1\"]}", "IPv4" },
		{ "{\"allow\":[\"0.0.0.0/0\"]}", "at least 8 bits" },
		{ "{\"allow\":[\"::/0\"]}", "at least 8 bits" },
		{ "{\"allow\":[\"10.0.0.1/8\"]}", "bits behind" },
		{ "{\"allow\":[{\"host\":\"a\",\"ports\":[]}]}", "list of numbers" },
		{ "{\"allow\":[{\"host\":\"a\",\"ports\":[1.5]}]}", "number" },
		{ "{\"allow\":[{\"host\":\"a\",\"ports\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}]}", "too many" },
		{ "{\"allow\":[{\"host\":\"a\",\"methods\":[\"get\"]}]}", "methods" },
		{ "{\"allow\":[{\"host\":\"a\",\"methods\":[\"CONNECT\"]}]}", "methods" },
		{ "{\"allow\":[{\"host\":\"a\",\"paths\":[\"v1\"]}]}", "paths" },
		{ "{\"allow\":[{\"host\":\"a\",\"paths\":[\"/a/../b\"]}]}", "paths" },
		{ "{\"allow\":[{\"host\":\"a\",\"addresses\":[\"b\"]}]}", "addresses" },
		{ "{\"allow\":[{\"host\":\"1.2.3.4\",\"addresses\":[\"10.0.0.1\"]}]}", "one already" },
		{ "{\"allow\":[{\"host\":\"a\",\"deny\":[]}]}", "unknown key" },
		{ "{\"allow\":[],\"deny\":[]}", "unknown key" },
		{ "{\"allow\":[],\"connections\":0}", "connections" },
		{ "{\"allow\":[],\"connections\":1025}", "connections" },
		{ "{\"allow\":[],\"bytes\":\"much\"}", "bytes" },
		{ "{\"allow\":[],\"time\":1.5}", "time" },
	};
	_cleanup_buf_ struct cbx_buf many = { 0 };
	struct cbx_network n;
	struct cbx_err err;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		ck_assert_msg(read_rules(all[i].text, &n, &err) < 0, "%s", all[i].text);
		ck_assert_msg(strstr(err.msg, all[i].word) && strstr(err.msg, "network: ") == err.msg, "%s: %s", all[i].text,
			      err.msg);
	}
	for (int i = 0; i < 65; i++)
		cbx_buf_addf(&many, "%s\"a%d.example\"", i ? "," : "{\"allow\":[", i);
	cbx_buf_adds(&many, "]}");
	ck_assert(read_rules(many.data, &n, &err) < 0 && strstr(err.msg, "too many"));
}
END_TEST

static bool allows(const struct cbx_network *n, const char *host, uint16_t port, const char *request, const char *address)
{
	struct cbx_host h;
	struct cbx_ip_range r;
	char method[16] = "", path[200] = "";
	struct cbx_net_target t = { .host = &h, .port = port };

	ck_assert_msg(!cbx_host_parse(host, strlen(host), &h), "%s", host);
	if (request) {
		ck_assert(sscanf(request, "%15s %199s", method, path) == 2);
		t.method = method;
		t.path = path;
	}
	if (address)
		ck_assert(!cbx_ip_range_parse(address, &r));
	return cbx_network_allows(n, &t, address ? &r.ip : h.literal ? &h.ip : NULL);
}

#define RULES                                                                                                         \
	"{\"allow\":[\"exact.example\",\"*.below.example:8443\",{\"host\":\"api.example\",\"ports\":[80],"              \
	"\"methods\":[\"GET\",\"HEAD\"],\"paths\":[\"/v1\",\"/files/\"]},{\"host\":\"inner.example\",\"addresses\":" \
	"[\"10.1.0.0/16\"]},\"10.9.9.9:5432\",\"[fd00::5]:80\",\"172.20.0.0/16\"]}"

START_TEST(judgement)
{
	struct cbx_network n = rules(RULES), none = { 0 }, any = rules("{\"allow\":[\"*\"]}");

	ck_assert(allows(&n, "exact.example", 443, NULL, "1.1.1.1"));
	ck_assert(allows(&n, "exact.example", 80, "DELETE /", "1.1.1.1"));
	ck_assert(!allows(&n, "exact.example", 25, NULL, NULL));
	ck_assert(!allows(&n, "exact.example", 443, NULL, "127.0.0.1"));
	ck_assert(!allows(&n, "exact.example", 443, NULL, "10.1.2.3"));
	ck_assert(!allows(&n, "an.exact.example", 443, NULL, NULL));
	ck_assert(!allows(&n, "notexact.example", 443, NULL, NULL));
	ck_assert(allows(&n, "a.b.below.example", 8443, NULL, NULL));
	ck_assert(!allows(&n, "below.example", 8443, NULL, NULL));
	ck_assert(!allows(&n, "notbelow.example", 8443, NULL, NULL));
	ck_assert(!allows(&n, "a.below.example", 443, NULL, NULL));
	ck_assert(allows(&n, "inner.example", 443, NULL, "10.1.2.3"));
	ck_assert(!allows(&n, "inner.example", 443, NULL, "10.2.2.3"));
	ck_assert(allows(&n, "10.9.9.9", 5432, NULL, NULL));
	ck_assert(!allows(&n, "10.9.9.9", 80, NULL, NULL));
	ck_assert(!allows(&n, "exact.example", 80, NULL, "10.9.9.9"));
	ck_assert(!allows(&n, "[::ffff:10.9.9.9]", 5432, NULL, NULL));
	ck_assert(allows(&n, "[fd00::5]", 80, NULL, NULL));
	ck_assert(allows(&n, "172.20.255.1", 80, NULL, NULL));
	ck_assert(!allows(&n, "172.21.0.1", 80, NULL, NULL));
	ck_assert(!allows(&n, "1.1.1.1", 443, NULL, NULL));
	ck_assert(!allows(&none, "exact.example", 443, NULL, NULL));
	ck_assert(allows(&any, "anything.example", 443, NULL, "1.1.1.1"));
	ck_assert(allows(&any, "1.1.1.1", 443, NULL, NULL));
	ck_assert(!allows(&any, "169.254.169.254", 80, "GET /", NULL));
	ck_assert(!allows(&any, "[::1]", 80, "GET /", NULL));
	cbx_network_release(&n);
	cbx_network_release(&any);
}
END_TEST

START_TEST(methods_and_paths)
{
	static const char *const good[] = { "GET /v1",		 "HEAD /v1/",	      "GET /v1/a?b=/../c",
					    "GET /v1?x",	 "GET /files/a%20b",  "GET /files/..a",
					    "GET /files/a..b/c", "GET /v1/%e0%a4%85", "GET /v1/%C3%BC?%",
					    "GET /v1/%ef%bc%88" };
	static const char *const bad[] = { "POST /v1",
					   "GET /v10",
					   "GET /",
					   "GET /files",
					   "GET /v1/../x",
					   "GET /v1/..",
					   "GET /v1/./x",
					   "GET /v1/%2e%2e/x",
					   "GET /v1/.%2E/x",
					   "GET /v1/%2fx",
					   "GET /v1/%5c..%5cx",
					   "GET /v1/..\\x",
					   "GET /v1//x",
					   "GET //v1",
					   "GET /V1",
					   "GET /v1/%252e%252e/x",
					   "GET /v1/..;/x",
					   "GET /v1/x;y",
					   "GET /%761",
					   "GET /v1/%c0%ae%C0%AE/x",
					   "GET /v1/%e0%80%ae./x",
					   "GET /v1/%F0%80%80%AF",
					   "GET /v1/%u002e",
					   "GET /v1/%",
					   "GET /v1/%2",
					   "GET /v1/%2?e",
					   "GET /v1/%ef%bc%8e/x" };
	struct cbx_network n = rules(RULES);
	struct cbx_host host;
	struct cbx_net_target t = { .host = &host, .port = 80, .method = "GET", .path = "/v1/x" };

	ck_assert(!cbx_host_parse("api.example", 11, &host));
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		ck_assert_msg(allows(&n, "api.example", 80, good[i], "1.1.1.1"), "%s", good[i]);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_msg(!allows(&n, "api.example", 80, bad[i], "1.1.1.1"), "%s", bad[i]);
	ck_assert(!allows(&n, "api.example", 80, NULL, "1.1.1.1")); /* a tunnel */
	ck_assert(cbx_network_allows(&n, &t, NULL));
	t.overrides = true;
	ck_assert(!cbx_network_allows(&n, &t, NULL));
	cbx_network_release(&n);
}
END_TEST

static char *text_of(const struct cbx_network *n)
{
	_cleanup_json_ cJSON *o = cbx_network_to_json(n);
	struct cbx_buf out = { 0 };

	cbx_json_print(&out, o);
	return cbx_buf_steal(&out);
}

START_TEST(written_as_read)
{
	struct cbx_network a = rules(RULES), b, copy;
	_cleanup_free_ char *first = text_of(&a), *second = NULL, *third = NULL;

	b = rules(first);
	second = text_of(&b);
	ck_assert_str_eq(first, second);
	cbx_network_copy(&copy, &b);
	third = text_of(&copy);
	ck_assert_str_eq(first, third);
	cbx_network_release(&a);
	cbx_network_release(&b);
	cbx_network_release(&copy);
}
END_TEST

START_TEST(what_both_allow)
{
	struct cbx_network a = rules("{\"allow\":[\"*.example\",{\"host\":\"in.corp\",\"addresses\":[\"10.0.0.0/8\"]},"
				     "\"10.0.0.0/8\",{\"host\":\"m.org\",\"methods\":[\"GET\"]},"
				     "{\"host\":\"p.org\",\"paths\":[\"/a\",\"/b/\"]}],\"bytes\":\"1G\"}");
	struct cbx_network b = rules("{\"allow\":[\"a.example:443\",\"*.b.example\",{\"host\":\"in.corp\",\"addresses\":"
				     "[\"10.1.0.0/16\"]},\"10.2.0.0/16\",{\"host\":\"m.org\",\"methods\":[\"POST\"]},"
				     "{\"host\":\"p.org\",\"paths\":[\"/a/x/\",\"/c\"]}],\"connections\":3}");
	struct cbx_network any = rules("{\"allow\":[\"*\"]}"), none = { 0 }, both, c;
	struct cbx_network open = { .open = true };

	cbx_network_narrow(&both, &a, &b);
	ck_assert(allows(&both, "a.example", 443, NULL, NULL) && !allows(&both, "a.example", 80, NULL, NULL));
	ck_assert(allows(&both, "x.b.example", 80, NULL, NULL) && !allows(&both, "c.example", 443, NULL, NULL));
	ck_assert(allows(&both, "in.corp", 443, NULL, "10.1.1.1") && !allows(&both, "in.corp", 443, NULL, "10.2.1.1"));
	ck_assert(allows(&both, "10.2.3.4", 443, NULL, NULL) && !allows(&both, "10.3.3.4", 443, NULL, NULL));
	ck_assert(!allows(&both, "m.org", 80, "GET /", NULL) && !allows(&both, "m.org", 80, NULL, NULL));
	ck_assert(allows(&both, "p.org", 80, "GET /a/x/y", NULL) && !allows(&both, "p.org", 80, "GET /a/y", NULL));
	ck_assert(both.bytes == 1u << 30 && both.connections == 3);
	cbx_network_release(&both);
	cbx_network_narrow(&both, &a, &none);
	ck_assert(!both.allow && !both.n);
	cbx_network_narrow(&c, &any, &a);
	ck_assert(!allows(&c, "10.2.3.4", 443, NULL, NULL) && !allows(&c, "in.corp", 443, NULL, "10.1.1.1"));
	ck_assert(allows(&c, "a.example", 443, NULL, "1.1.1.1"));
	cbx_network_release(&c);
	cbx_network_narrow(&c, &a, &open);
	ck_assert(c.allow && !c.open && !allows(&c, "10.2.3.4", 443, NULL, NULL) && allows(&c, "m.org", 80, "GET /", NULL));
	ck_assert(!allows(&c, "in.corp", 443, NULL, "10.1.1.1") && allows(&c, "a.example", 443, NULL, "1.1.1.1"));
	cbx_network_release(&c);
	cbx_network_narrow(&c, &open, &none);
	ck_assert(!c.allow && !c.open);
	cbx_network_narrow(&c, &open, &open);
	ck_assert(c.open && !c.allow);
	cbx_network_release(&a);
	cbx_network_release(&b);
	cbx_network_release(&any);
}
END_TEST

/* ---- heads ---- */

static const struct {
	int status; /* 0: taken */
	const char *head, *sent; /* what is passed on, or a word of the refusal */
} heads[] = {
	{ 0, "GET http://a.example/x?y HTTP/1.1\r\nHost: a.example\r\nAccept: */*\r\n\r\n",
	  "GET /x?y HTTP/1.1\r\nHost: a.example\r\nAccept: */*\r\nConnection: close\r\n\r\n" },
	{ 0, "GET http://A.example.:8080?q HTTP/1.0\r\n\r\n",
	  "GET /?q HTTP/1.0\r\nHost: a.example:8080\r\nConnection: close\r\n\r\n" },
	{ 0, "GET /p HTTP/1.1\r\nhOST:\t[fd00::1] \r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nX-Hop2: 2\r\n\r\n",
	  "GET /p HTTP/1.1\r\nHost: [fd00::1]\r\nX-Hop2: 2\r\nConnection: close\r\n\r\n" },
	{ 0,
	  "POST http://a/ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nProxy-Authorization: Basic x\r\nUpgrade: "
	  "h2c\r\n\r\n",
	  "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\n" },
	{ 0, "POST http://a/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n",
	  "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" },
	{ 400, "POST http://a/ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
	  "both" },
	{ 400, "POST http://a/ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
	  "two Content-Length" },
	{ 400, "POST http://a/ HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n", "not a number" },
	{ 400, "POST http://a/ HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\n", "not a number" },
	{ 501, "POST http://a/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "Transfer-Encoding" },
	{ 501, "POST http://a/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n",
	  "Transfer-Encoding" },
	{ 501, "POST http://a/ HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "Transfer-Encoding" },
	{ 400, "POST http://a/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n", "colon at once" },
	{ 400, "POST http://a/ HTTP/1.1\r\nHost: a\r\nContent_Length: 5\r\n\r\n", "where the body ends" },
	{ 400, "POST http://a/ HTTP/1.1\r\nHost: a\r\ntransfer_encoding: chunked\r\n\r\n", "where the body ends" },
	{ 400, "GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n", "another host" },
	{ 400, "GET http://a/ HTTP/1.1\r\nHost: a:81\r\n\r\n", "another host" },
	{ 400, "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "two Host" },
	{ 400, "GET / HTTP/1.1\r\nX: a\r\n\r\n", "names a host" },
	{ 400, "GET http://u:p@a/ HTTP/1.1\r\nHost: a\r\n\r\n", "password" },
	{ 400, "GET http://a#b/ HTTP/1.1\r\nHost: a\r\n\r\n", "fragment" },
	{ 400, "GET https://a/ HTTP/1.1\r\nHost: a\r\n\r\n", "CONNECT" },
	{ 400, "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", "http://" },
	{ 400, "GET http://127.1/ HTTP/1.1\r\nHost: 127.1\r\n\r\n", "IPv4" },
	{ 400, "GET  http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", "one space" },
	{ 400, "GET http://a/\tHTTP/1.1\r\nHost: a\r\n\r\n", "printable" },
	{ 505, "GET http://a/ HTTP/1.2\r\nHost: a\r\n\r\n", "version" },
	{ 505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/2" },
	{ 400, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "for a server" },
	{ 501, "TRACE http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", "TRACE" },
	{ 501, "get http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", "capital" },
	{ 400, "GET http://a/ HTTP/1.1\nHost: a\n\n", "CR and LF" },
	{ 400, "GET http://a/ HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", "CR and LF" },
	{ 400, "GET http://a/ HTTP/1.1\r\nHost: a\r\n X: b\r\n\r\n", "colon at once" },
	{ 400, "\r\nGET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", "empty line" },
	{ 400, "GET http://a/ HTTP/1.1\r\nHost: a\r\nX: a\x01\r\n\r\n", "control" },
	{ 400, "CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n", "needs a port" },
	{ 400, "CONNECT a:443/x HTTP/1.1\r\nHost: a\r\n\r\n", "port" },
	{ 400, "CONNECT u@a:443 HTTP/1.1\r\nHost: a\r\n\r\n", "password" },
};

START_TEST(request_heads)
{
	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		size_t n = strlen(heads[i].head);
		_cleanup_buf_ struct cbx_buf out = { 0 };
		struct cbx_head h;
		int r = cbx_head_parse(heads[i].head, n, 80, &h);

		if (heads[i].status) {
			ck_assert_msg(r == -heads[i].status, "%s -> %d %s", heads[i].head, r, h.why ? h.why : "");
			ck_assert_msg(strstr(h.why, heads[i].sent), "%s -> %s", heads[i].head, h.why);
			continue;
		}
		ck_assert_msg(r == (int)n, "%s -> %d %s", heads[i].head, r, h.why ? h.why : "");
		cbx_head_write(&h, NULL, 0, &out);
		ck_assert_str_eq(out.data, heads[i].sent);
		cbx_head_release(&h);
		for (size_t k = 0; k < n; k++)
			ck_assert_int_eq(cbx_head_parse(heads[i].head, k, 80, &h), 0);
	}
}
END_TEST

START_TEST(long_heads)
{
	_cleanup_buf_ struct cbx_buf many = { 0 }, lines = { 0 };
	struct cbx_head h;

	cbx_buf_adds(&many, "GET http://a/ HTTP/1.1\r\nX: ");
	while (many.len < CBX_HEAD_MAX)
		cbx_buf_addc(&many, 'x');
	ck_assert_int_eq(cbx_head_parse(many.data, many.len - 1, 80, &h), 0);
	ck_assert_int_eq(cbx_head_parse(many.data, many.len, 80, &h), -431);
	cbx_buf_adds(&lines, "GET http://a/ HTTP/1.1\r\n");
	for (int i = 0; i <= CBX_HEADERS_MAX; i++)
		cbx_buf_adds(&lines, "X: y\r\n");
	cbx_buf_adds(&lines, "\r\n");
	ck_assert_int_eq(cbx_head_parse(lines.data, lines.len, 80, &h), -431);
}
END_TEST

static ptrdiff_t chunks(const char *text, size_t step, int *ret_state)
{
	struct cbx_chunks c = { 0 };
	ptrdiff_t all = 0;

	for (size_t at = 0; at < strlen(text); at += step) {
		size_t n = strlen(text) - at < step ? strlen(text) - at : step;
		ptrdiff_t r = cbx_chunks_take(&c, text + at, n);

		if (r < 0)
			return r;
		all += r;
	}
	*ret_state = c.state;
	return all;
}

START_TEST(chunked_bodies)
{
	static const char *const bad[] = { "g\r\n", "\r\n", "1;x=y\r\na\r\n0\r\n\r\n", "1\na\r\n0\r\n\r\n", "1\r\nab\r\n0\r\n\r\n",
					   "0\r\nTrailer: x\r\n\r\n", "-1\r\n", "0x1\r\n", "1111111111111\r\n", " 1\r\n",
					   "1\r\na\n0\r\n\r\n" };
	static const char good[] = "3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n";
	int state = 0;

	for (size_t step = 1; step < sizeof(good); step++) {
		ck_assert_int_eq(chunks(good, step, &state), (ptrdiff_t)(strstr(good, "GET") - good));
		ck_assert_int_eq(state, CBX_CHUNKS_END);
		for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
			ck_assert_msg(chunks(bad[i], step, &state) == -1, "%s", bad[i]);
	}
}
END_TEST

/* ---- what is not HTTP ---- */

START_TEST(socks)
{
	static const unsigned char name[] = { 5, 1, 0, 3, 3, 'a', '.', 'b', 1, 187 };
	static const unsigned char v4[] = { 5, 1, 0, 1, 127, 0, 0, 1, 0, 80 };
	static const unsigned char v6[] = { 5, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 80 };
	struct cbx_socks_request q;

	ck_assert_int_eq(cbx_socks_greeting((const unsigned char *)"\5\2\2\0", 4), 4);
	ck_assert_int_eq(cbx_socks_greeting((const unsigned char *)"\5\2\2", 3), 0);
	ck_assert_int_eq(cbx_socks_greeting((const unsigned char *)"\5\1\2", 3), -1);
	ck_assert_int_eq(cbx_socks_greeting((const unsigned char *)"\4\1", 2), -1);
	for (size_t i = 0; i < sizeof(name); i++)
		ck_assert_int_eq(cbx_socks_request(name, i, &q), 0);
	ck_assert_int_eq(cbx_socks_request(name, sizeof(name), &q), sizeof(name));
	ck_assert(!q.why && q.port == 443 && strcmp(q.host.name, "a.b") == 0);
	ck_assert_int_eq(cbx_socks_request(v4, sizeof(v4), &q), sizeof(v4));
	ck_assert(q.host.literal && strcmp(q.host.name, "127.0.0.1") == 0);
	ck_assert_int_eq(cbx_socks_request(v6, sizeof(v6), &q), sizeof(v6));
	ck_assert(q.host.literal && strcmp(q.host.name, "::1") == 0);
	ck_assert_int_eq(cbx_socks_request((const unsigned char *)"\5\1\0\2\0\0\0\0", 8, &q), -1);
	ck_assert_int_eq(cbx_socks_request((const unsigned char *)"\5\1\0\3\1\xff\0\x50", 8, &q), 8);
	ck_assert(q.why);
}
END_TEST

/* A ClientHello with these extensions, in records of this number of bytes. */
static void hello(struct cbx_buf *out, const char *extensions, size_t n, size_t record)
{
	_cleanup_buf_ struct cbx_buf m = { 0 };
	size_t body = 2 + 32 + 1 + 4 + 2 + 2 + n;

	cbx_buf_addc(&m, 1);
	cbx_buf_addc(&m, 0);
	cbx_buf_addc(&m, (char)(body >> 8));
	cbx_buf_addc(&m, (char)body);
	cbx_buf_add(&m, "\3\3", 2);
	for (int i = 0; i < 32; i++)
		cbx_buf_addc(&m, 'r');
	cbx_buf_add(&m, "\0\0\2\x13\1\1\0", 7);
	cbx_buf_addc(&m, (char)(n >> 8));
	cbx_buf_addc(&m, (char)n);
	cbx_buf_add(&m, extensions, n);
	for (size_t at = 0; at < m.len; at += record) {
		size_t some = m.len - at < record ? m.len - at : record;

		cbx_buf_add(out, "\x16\3\1", 3);
		cbx_buf_addc(out, (char)(some >> 8));
		cbx_buf_addc(out, (char)some);
		cbx_buf_add(out, m.data + at, some);
	}
}

START_TEST(client_hello)
{
#define SNI(name) "\0\0\0\x0c\0\x0a\0\0\7" name
	static const char one[] = "\0\x2b\0\3\2\3\4" SNI("a.b.org"), two[] = SNI("a.b.org") SNI("x.y.org");
	static const char none[] = "\0\x2b\0\3\2\3\4", ech[] = "\xfe\x0d\0\1\1" SNI("a.b.org");
	char name[CBX_HOST_MAX + 1];
	bool hidden;

	for (size_t record = 1; record < 100; record += 7) {
		_cleanup_buf_ struct cbx_buf b = { 0 }, c = { 0 }, d = { 0 }, e = { 0 };

		hello(&b, one, sizeof(one) - 1, record);
		for (size_t i = 0; i < b.len; i++)
			ck_assert_int_eq(cbx_tls_hello((unsigned char *)b.data, i, name, &hidden), 0);
		ck_assert_int_eq(cbx_tls_hello((unsigned char *)b.data, b.len, name, &hidden), (int)b.len);
		ck_assert_str_eq(name, "a.b.org");
		hello(&c, two, sizeof(two) - 1, record);
		ck_assert_int_eq(cbx_tls_hello((unsigned char *)c.data, c.len, name, &hidden), -1);
		hello(&d, none, sizeof(none) - 1, record);
		ck_assert_int_eq(cbx_tls_hello((unsigned char *)d.data, d.len, name, &hidden), (int)d.len);
		ck_assert_str_eq(name, "");
		ck_assert(!hidden);
		hello(&e, ech, sizeof(ech) - 1, record);
		ck_assert_int_eq(cbx_tls_hello((unsigned char *)e.data, e.len, name, &hidden), (int)e.len);
		ck_assert(hidden && strcmp(name, "a.b.org") == 0);
	}
	ck_assert_int_eq(cbx_tls_hello((const unsigned char *)"GET / HTTP", 10, name, &hidden), -1);
}
END_TEST

static void add(TCase *t)
{
	tcase_add_test(t, spellings);
	tcase_add_test(t, ports);
	tcase_add_test(t, addresses_that_are_not_public);
	tcase_add_test(t, refusals);
	tcase_add_test(t, judgement);
	tcase_add_test(t, methods_and_paths);
	tcase_add_test(t, written_as_read);
	tcase_add_test(t, what_both_allow);
	tcase_add_test(t, request_heads);
	tcase_add_test(t, long_heads);
	tcase_add_test(t, chunked_bodies);
	tcase_add_test(t, socks);
	tcase_add_test(t, client_hello);
}

TEST_MAIN("network", add)
