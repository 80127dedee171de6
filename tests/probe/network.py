#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ways out of a session that its policy does not give it. Each would come to a server that is there (tests/lib/ownnet.py) and
answers "hello". ../integration/network.py is about what a policy allows.

Whether each is stopped by the check that it is for, ../integration/network_mutants.py tells: it takes one check after the other
out of the sources, and runs the test that must fail then (CBX_NETWORK_TEST)."""
import contextlib
import os
import socket
import struct
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import ownnet  # noqa: E402
from cbxtest import Box, Skip, named  # noqa: E402
from netbox import ANY, API, POLICY, PRELUDE, box, cell, escape, main, say  # noqa: E402
from tracing import Strace, status  # noqa: E402

END = b"\r\n\r\n"


def refused(data, *words, policy=POLICY):
    """These bytes, sent to the proxy by code in the session, are not followed; words: of its answer."""
    escape(f"talk({data!r})", *words, policy=policy)


def get(host, *more):
    """A request in its absolute form."""
    return b"\r\n".join((b"GET http://%s/ HTTP/1.1" % host, b"Host: " + host, *more)) + END


# ---- addresses and names ----

def test_addresses_in_every_spelling():
    for host in ("127.0.0.1", "10.0.0.5", "169.254.169.254", "100.64.0.1", "192.0.2.1", "198.18.0.1", "0.0.0.0"):
        escape(f"get('{host}')", "403", "policy does not allow")
        escape(f"socks(b'\\1' + socket.inet_aton('{host}'), 80, GET % b'{host}')")
    for host in ("127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.01", "0x7f.1", "10.5", "127.0.0.1.",
                 "017700000001"):
        why = "IPv4" if host[-1] != "." else "end with a dot"
        escape(f"get('{host}')", "400", why)
        escape(f"tunnel('{host}:80', GET % b'127.0.0.1')", "400", why)
    for host in ("127.0.0.1", "10.0.0.5", "127.1", "0x7f.1", "2130706433", "127.0.0.1.", "::1", "[::1]"):
        escape(f"socks(domain('{host}'), 80, GET % b'127.0.0.1')")


def test_ipv6_forms_and_scopes():
    for host in ("[::1]", "[::ffff:127.0.0.1]", "[::127.0.0.1]", "[fd00::5]", "[64:ff9b::a00:5]", "[2002:a00:5::1]",
                 "[::]"):
        escape(f"get('{host}')", "403")
    for host in ("[fe80::1%lo]", "[fe80::1%25lo]", "[::1%1]"):
        escape(f"get('{host}')", "400", "with a zone")
        escape(f"tunnel('{host}:80', GET % b'x')", "400", "with a zone")
    for host in ("::1", "[::1"):
        escape(f"get('{host}')", "400")
    escape("socks(b'\\4' + socket.inet_pton(socket.AF_INET6, '::1'), 80, GET % b'[::1]')")
    escape("socks(b'\\4' + socket.inet_pton(socket.AF_INET6, '::ffff:10.0.0.5'), 80, GET % b'x')")


def test_a_rule_for_everything_is_about_what_is_public():
    for host in ("127.0.0.1", "0.0.0.0", "10.0.0.5", "169.254.169.254", "100.64.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1",
                 "[::1]", "[::ffff:10.0.0.5]", "[fd00::5]", "[64:ff9b::a00:5]", "[2002:a00:5::1]", "[2001:0:a00:5::1]",
                 "[2001:db8::1]", "[4000::1]", "localhost", "lo.test", "hosts.test"):
        escape(f"get('{host}')", "403", "is not public", policy=ANY)
        escape(f"tunnel('{host}:443', hello('x.test'))", "is not public", policy=ANY)
    assert f"hello from {ownnet.PUBLIC}" in say("get('pub.test')", ANY)


def test_names_that_lead_inside():
    for name in ("lo", "meta", "ten", "cgnat", "doc", "bench", "mapped", "nat64", "sixtofour", "teredo", "ula", "lo6",
                 "doc6", "cname", "multicast", "zero", "hosts"):
        escape(f"get('{name}.test')", "403", "is not public")
        escape(f"tunnel('{name}.test:80', GET % b'{name}.test')", "is not public")
    escape("get('localhost')", "403")
    escape("socks(domain('lo.test'), 8080, GET % b'lo.test')")


def test_names_in_odd_spellings():
    for host in (b"pub.test..", b".pub.test", b"pub..test", b"pub.test%2eevil", b"p\xc3\xbcb.test", b"\xef\xbd\x90ub.test",
                 b"pub\xe3\x80\x82test", b"-pub.test", b"pub.test-", b"pub_.test:80:80", b"pub.test\\.evil.invalid"):
        refused(get(host), "400")
    escape("get('test')", "403")
    escape("get('xn--pb-xka.test')", "502")  # is asked for as it is, and is not there
    escape("get('evilpub.test.invalid')", "403")
    escape("socks(domain('pub.test\\x00.evil'), 80, GET % b'pub.test')")
    escape("socks(domain(''), 80, GET % b'pub.test')")


def test_rebinding():
    """What was checked is what is connected to: one question, one connection. The next one is checked again."""
    first, second = say("get('rebind.test')"), say("get('rebind.test')")
    assert f"hello from {ownnet.PUBLIC}" in first and "is not public" in second, (first, second)


def test_the_other_address_of_a_name():
    """The first one takes no connection, and the second may not be reached."""
    escape("tunnel('fallback.test:443', hello('fallback.test'))", "502", "none of its addresses")


def asked(name):
    """How often the name server was asked for the name's addresses, as it says itself."""
    labels = b"".join(bytes([len(x)]) + x.encode() for x in ("asked." + name).split("."))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(120)
        s.sendto(struct.pack(">HHHHHH", 1, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", 1, 1), ("127.0.0.1", 53))
        return s.recv(1000)[-1]


def test_a_name_that_is_refused_is_not_asked_for():
    """Else what a session holds would leave it as a question."""
    for request in ("get('{}')", "tunnel('{}:443', b'')", "socks(domain('{}'), 80)", "get('{}:25')"):
        escape(request.format("held-data.evil.invalid"))
    escape("tunnel('a-port.test:25', b'')", "403")
    escape("get('below.api.test', '/v1/')", "403", policy=API)
    assert [asked(n) for n in ("held-data.evil.invalid", "a-port.test", "below.api.test")] == [0, 0, 0]
    assert "hello" in say("get('other.test')") and asked("other.test") > 0


def test_redirects():
    code = ("import requests\nfor to in ('http://lo.test/', 'http://169.254.169.254/', 'http://127.0.0.1:80/', "
            "'http://evil.invalid/', 'http://pub.test:22/', 'http://10.0.0.5/', 'http://ten.test/'):\n"
            " os.environ['no_proxy'] = ''; os.environ['NO_PROXY'] = ''\n"
            " r = requests.get('http://pub.test/redirect/' + to, timeout=60); print(r.status_code, r.text)")
    got = cell(code)
    assert got.count("403 codebox:") == 7 and "hello" not in got, got


def test_ports():
    for port in (25, 22, 3306, 6379, 2525 + 1):
        escape(f"tunnel('pub.test:{port}', b'QUIT')", "403", "policy does not allow")
        escape(f"socks(domain('pub.test'), {port}, b'QUIT')")
        escape(f"get('pub.test:{port}')", "403", "policy does not allow")
    escape("tunnel('other.test:8080', GET % b'x')", "403")
    for port in ("0", "65536", "080", "+80", "0x50", ""):
        escape(f"tunnel('pub.test:{port}', GET % b'x')", "400")
        escape(f"get('pub.test:{port}')", "400")
    escape("socks(domain('pub.test'), 0, GET % b'pub.test')")


# ---- tunnels ----

ALERT = r"\r\n\r\n\x15\x03\x03\x00\x02\x021'"  # "access denied", and nothing else
EXTENDED = """
def extended(h, kind, data):
    '''A ClientHello with one more extension.'''
    h, more = bytearray(h), struct.pack('>HH', kind, len(data)) + data
    at = 43 + 1 + h[43]
    at += 2 + int.from_bytes(h[at:at + 2], 'big')
    at += 1 + h[at]
    for where, size in ((3, 2), (6, 3), (at, 2)):
        h[where:where + size] = (int.from_bytes(h[where:where + size], 'big') + len(more)).to_bytes(size, 'big')
    return bytes(h) + more
"""


def test_sni():
    """The tunnel is for one host, its TLS asks for another one: the same address may serve both."""
    got = say("tunnel('pub.test:443', hello('pub.test'), b'\\x16\\3')")
    assert "\x16\x03" in got, got  # a ServerHello
    for then in ("hello('other.test')", "hello('evil.invalid')", "hello('', False)", "GET % b'pub.test'",
                 "hello('pub.test').replace(b'pub.test', b'pub\\0test')",
                 "hello('pub.test.evil.org').replace(b'pub.test.', b'pub.test\\0')"):
        got = cell(f"print(tunnel('pub.test:443', {then}))")
        assert ALERT in got, (then, got)
    got = cell(f"print(tunnel('{ownnet.PUBLIC}:443', hello('evil.invalid')))")  # an address is not a name
    assert ALERT in got, got
    got = say("socks(domain('pub.test'), 443, hello('evil.invalid'))")
    assert "\x16" not in got and "\x15\x03" in got, got
    # In several records, and byte by byte.
    got = say("tunnel('pub.test:443', [b'\\x16\\3\\1\\0\\1\\1', b'\\x16\\3\\1\\0\\5' + b'\\0\\0\\2\\3\\3'])")
    assert "\x16" not in got, got
    escape("tunnel('pub.test:8080', hello('evil.invalid'))")


def test_names_that_only_the_server_can_read():
    """A second name, and those of Encrypted ClientHello, of today and of its drafts. Where all names are allowed it does no harm."""
    for policy in (POLICY, ANY):
        cell(EXTENDED, policy)
    for kind, data in ((0, b"\0\x0f\0\0\x0cevil.invalid"), (0xfe0d, bytes(40)), (0xffce, bytes(40))):
        got = cell(f"print(tunnel('pub.test:443', extended(hello('pub.test'), {kind}, {data!r})))")
        assert ALERT in got, (kind, got)
    for policy, kind in ((POLICY, 0xfafa), (ANY, 0xfe0d)):
        got = say(f"tunnel('pub.test:443', extended(hello('PUB.test'), {kind}, bytes(40)), b'\\x16\\3')", policy)
        assert "\x16\x03" in got, (kind, got)


def test_what_goes_to_port_80_is_read():
    escape("tunnel('pub.test:80', GET % b'other.test')", "another host")
    escape("tunnel('pub.test:80', GET % b'pub.test:8080')", "another host")
    escape("socks(domain('pub.test'), 80, GET % b'other.test')", "another host")
    for inner, word in ((get(b"other.test"), "another host"), (b"CONNECT lo.test:80 HTTP/1.1\r\nHost: lo.test" + END, "another host"),
                        (b"QUIT" + END, "400"), (b"PRI * HTTP/2.0\r\n\r\nSM" + END, "HTTP/2 goes through")):
        escape(f"tunnel('pub.test:80', {inner!r})", word)


def test_odd_socks():
    for command in (2, 3, 0, 255):
        escape(f"socks(domain('pub.test'), 80, GET % b'pub.test', {command})")
    refused(b"\4\1\0\x50\x7f\0\0\1\n\0")  # SOCKS4, of a user whose name ends a line, so that nothing more is waited for
    refused(b"\5\1\2", "\x05\xff")


# ---- requests ----

def test_methods_and_paths():
    assert "hello" in say("get('api.test', '/v1/x')", API) and "hello" in say("get('api.test', '/v1/%e3%81%82%C3%BC%20')", API)
    for path in ("/", "/v2/", "/v1", "/v1/../v2/", "/v1/%2e%2e/v2", "/v1/..%2fv2", "/v1/.", "/v1//v2", "/v1/x\\\\..",
                 "/v1/%252e%252e/", "/v1/..;/v2"):
        escape(f"get('api.test', {path!r})", "403", "other methods or paths", policy=API)
    for path in ("/v1/%c0%ae%c0%ae/v2", "/v1/%C0%AF", "/v1/%c1%9c", "/v1/%e0%80%ae./v2", "/v1/%f0%80%80%ae./v2",
                 "/v1/%f8%80%80%80%ae./v2", "/v1/%fc%80%80%80%80%ae./v2", "/v1/%ef%bc%8e%ef%bc%8e/v2", "/v1/%u002e%u002e/v2", "/v1/%", "/v1/%2", "/v1/%%32%65"):
        escape(f"get('api.test', {path!r})", "403", "other methods or paths", policy=API)
    refused(b"POST http://api.test/v1/x HTTP/1.1\r\nHost: api.test\r\nContent-Length: 0" + END, "403", policy=API)
    escape("tunnel('api.test:443', hello('api.test'))", "403", "tunnel hides", policy=API)
    other, allowed = (b"GET %s HTTP/1.1\r\nHost: api.test" % path + END for path in (b"/v2", b"/v1/"))
    escape(f"tunnel('api.test:80', {other!r})", "403", policy=API)
    escape(f"socks(domain('api.test'), 80, {other!r})", "403", policy=API)
    assert "hello" in say(f"socks(domain('api.test'), 80, {allowed!r})", API)


def test_headers_that_replace_method_or_path():
    for header in ("X-HTTP-Method-Override: DELETE", "x-http-method: DELETE", "X_Method_Override: DELETE",
                   "X-Original-URL: /v2/", "X-Rewrite-URL: /v2/", "x_original-url: /v2/"):
        escape(f"get('api.test', '/v1/x', '{header}\\r\\n')", "403", "header that replaces them", policy=API)
        assert header in say(f"get('pub.test', '/', '{header}\\r\\n')"), header  # where all requests are allowed


# What is behind "POST http://pub.test/ HTTP/1.1" and "Host: pub.test", and a word of the refusal.
SMUGGLED = (
    (b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0", b"there are both"),
    (b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0", b"there are both"),
    (b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde", b"two Content-Length"),
    (b"Content-Length: 4, 4\r\n\r\nabcd", b"not a number"),
    (b"Content-Length: -1", b"not a number"),
    (b"Content-Length: 0x4\r\n\r\nabcd", b"not a number"),
    (b"Content-Length:", b"not a number"),
    (b"Content_Length: 4\r\n\r\nabcd", b"where the body ends"),
    (b"Content-Length: 5\r\nTransfer_Encoding: chunked\r\n\r\n0", b"where the body ends"),
    (b"Transfer-Encoding: xchunked\r\n\r\n0", b"single"),
    (b"Transfer-Encoding: identity", b"single"),
    (b"Transfer-Encoding: gzip, chunked\r\n\r\n0", b"single"),
    (b"Transfer-Encoding: chunked;q=1\r\n\r\n0", b"single"),
    (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0", b"single"),
    (b"Transfer-Encoding : chunked\r\n\r\n0", b"colon at once"),
    (b"Transfer-Encoding:\x0bchunked\r\n\r\n0", b"control character"),
    (b"X: a\r\n Transfer-Encoding: chunked", b"colon at once"),
    (b"X: a\nTransfer-Encoding: chunked", b"CR and LF"),
    (b"X: a\rTransfer-Encoding: chunked", b"CR and LF"),
    (b"X: a\0b", b"control character"),
    (b"Host: evil.invalid", b"two Host"),
    (b"Connection: close\r\nConnection: X", b"two Connection"))


def test_smuggling():
    line = b"POST http://pub.test/ HTTP/1.1\r\nHost: pub.test\r\n"
    for rest, word in SMUGGLED:
        refused(line + rest + END, "refused", word.decode())
    for head in (b"GET / HTTP/1.1\r\nHost: pub.test, evil.invalid", b"GET / HTTP/1.1\r\nHost: pub.test/x",
                 b"GET / HTTP/1.1\r\nHost:", b"GET / HTTP/1.1\r\nX: y", b"GET http://pub.test/",
                 b"\r\nGET http://pub.test/ HTTP/1.1\r\nHost: pub.test",
                 b"POST http://pub.test/ HTTP/1.0\r\nTransfer-Encoding: chunked"):
        refused(head + END, "refused")
    # Inside a chunked body: what is not a chunk is not passed on.
    for chunk in (b"1;x=y\r\na", b"1\na", b"0x1\r\na", b"+1\r\na", b" 1\r\na", b"1 \r\na", b"1\r\nab", b"1\r\naX\n0\r\n", b"1111111111111\r\na",
                  b"\r\n1\r\na", b"0\r\nContent-Length: 9"):
        refused(line + b"Transfer-Encoding: chunked" + END + chunk + b"\r\n0" + END)
    # Where a body ends is written anew, whatever is said of headers that are for one hop.
    body = line + b"Connection: content-length\r\nContent-Length: 3" + END + b"a=1" + get(b"smuggled.test")
    got = say(f"talk({body!r})")
    assert "Content-Length: 3\r\n" in got and "a=1" in got and "smuggled" not in got, got


def test_the_authority_decides():
    refused(b"GET http://pub.test/ HTTP/1.1\r\nHost: other.test" + END, "400", "another host")
    refused(b"GET http://other.test@pub.test/ HTTP/1.1\r\nHost: pub.test" + END, "400", "user name")
    for target in (b"http://evil.invalid\\@pub.test/", b"http://pub.test@evil.invalid/", b"http://pub.test:80@evil.invalid/",
                   b"http://pub.test#@evil.invalid/", b"http:///pub.test/", b"//evil.invalid/", b"http://pub.test%00.evil/"):
        refused(b"GET " + target + b" HTTP/1.1\r\nHost: evil.invalid" + END, "refused")


def test_http2_and_upgrades():
    refused(b"PRI * HTTP/2.0\r\n\r\nSM" + END, "505", "HTTP/2 goes through")
    refused(b"GET http://pub.test/ HTTP/2.0\r\nHost: pub.test" + END, "505")
    got = say("get('pub.test', '/', 'Connection: Upgrade, HTTP2-Settings\\r\\nUpgrade: h2c\\r\\nHTTP2-Settings: AAMA\\r\\n')")
    assert "hello" in got and "h2c" not in got and "AAMA" not in got, got
    got = say("get('pub.test', '/', 'Upgrade: h2c\\r\\nHTTP2-Settings: AAMA\\r\\n')")
    assert "hello" in got and "h2c" not in got and "AAMA" not in got, got
    got = say("get('pub.test', '/upgrade')")
    assert "Switching" not in got and "secret" not in got, got


def test_huge_heads():
    refused(get(b"pub.test", b"X: " + b"x" * 70000), "431")
    refused(get(b"pub.test", *[b"X: y"] * 200), "431")
    refused(b"GET http://pub.test/" + b"a" * 66000, "431")
    assert "hello" in say("get('pub.test')")


def test_heads_count():
    """What is sent in heads alone uses up the bytes that a session may send, as bodies do."""
    few = {"include": ["default"], "network": {"allow": ["pub.test"], "bytes": "256K"}}
    much = "get('pub.test', '/file', 'X: ' + 'x' * 60000 + '\\r\\n')"
    for _ in range(4):
        assert "contents of a file" in say(much, few)
    cell(much, few)
    assert "used up the bytes" in say("get('pub.test', '/file')", few)


# ---- without the proxy ----

def direct(attempts):
    """What becomes of each of these expressions, in a session without proxy variables: "done", or the name of the error."""
    client = box(POLICY)[1]
    client.call("session.create", session_id="direct")
    client.call("run", session_id="direct", code=PRELUDE + """
import ctypes, errno
for k in list(os.environ):
    if 'proxy' in k.lower(): del os.environ[k]
def attempt(name, what):
    try: print(name, 'done', what())
    except OSError as e: print(name, errno.errorcode.get(getattr(e, 'errno', None), e))
def kernel(name, *args):
    r = ctypes.CDLL(None, use_errno=True)[name](*args)
    if r < 0: raise OSError(ctypes.get_errno(), name)
def netlink(kind, flags, body):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    s.send(struct.pack('=IHHII', 16 + len(body), kind, 5 | flags, 1, 0) + body)
    r = struct.unpack('=i', s.recv(1000)[16:20])[0]
    if r: raise OSError(-r, 'netlink')
""")
    code = "".join(f"attempt({name!r}, lambda: {what})\n" for name, what in attempts.items())
    got = client.call("run", session_id="direct", code=code)["output"]
    client.call("session.close", session_id="direct")
    got = dict(line.split(" ", 1) for line in got.splitlines())
    assert set(got) == set(attempts) and not [n for n in got if got[n].startswith("done")], got
    return got


def test_proxy_variables_removed():
    outside = (ownnet.PUBLIC, "127.0.0.1", "10.0.0.5", "169.254.169.254", ownnet.PUBLIC6, "::1", "fd00::5")
    for address in outside:  # there is a server
        socket.create_connection((address, 80), 60).close()
    where = {a: f"socket.create_connection(({a!r}, 80), 60)" for a in outside}
    where["scope"] = "socket.socket(socket.AF_INET6).connect(('fe80::1', 80, 0, 1))"
    where["udp"] = f"socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('{ownnet.PUBLIC}', 53))"
    where["multicast"] = "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('224.0.0.251', 5353))"
    where["names"] = "socket.getaddrinfo('pub.test', 80)"
    where["urllib"] = "urllib.request.build_opener(urllib.request.ProxyHandler({})).open('http://pub.test/', timeout=60)"
    got = direct(where)
    assert got[ownnet.PUBLIC] == got["10.0.0.5"] == got["udp"] == "ENETUNREACH" and got["127.0.0.1"] == "ECONNREFUSED", got


def test_sockets_of_other_kinds():
    """There are streams and datagrams of IPv4 and IPv6, and netlink that lists interfaces and changes nothing."""
    got = direct({
        "raw": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)", "raw6": "socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58)",
        "packet": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)", "vsock": "socket.socket(40, socket.SOCK_STREAM)",
        "crypto": "socket.socket(38, socket.SOCK_SEQPACKET)", "bluetooth": "socket.socket(31, socket.SOCK_RAW, 1)",
        "mptcp": "socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)",
        "ping": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1)",
        "audit": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9)",
        # a default route, an address, and an interface that is down
        "route": "netlink(24, 0x400, struct.pack('=BBBBBBBBIHHi', 2, 0, 0, 0, 254, 3, 253, 1, 0, 8, 4, 1))",
        "address": "netlink(20, 0x400, struct.pack('=BBBBIHH4s', 2, 8, 0, 0, 1, 8, 2, bytes([10, 0, 0, 5])))",
        "link": "netlink(19, 0, struct.pack('=BxHiII', 0, 0, 1, 0, 1))",
        "transparent": "socket.socket().setsockopt(0, 19, 1)", "namespaces": "kernel('unshare', 0x50000000)",
        "namespace": "kernel('setns', os.open('/proc/self/ns/net', os.O_RDONLY), 0x40000000)"})
    assert got["raw"] == got["raw6"] == got["route"] == got["address"] == got["link"] == "EPERM", got
    assert got["packet"] == got["vsock"] == got["crypto"] == got["bluetooth"] == "EAFNOSUPPORT", got
    assert got["mptcp"] == got["ping"] == got["audit"] == "EPROTONOSUPPORT", got


def test_sockets_of_the_machine():
    """By name and by path: they are there, and for the machine's programs."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        where = {}
        for name, address in (("abstract", "\0codebox-network-test"), ("path", os.path.join(directory, "socket")),
                              ("control", os.path.join(box(POLICY)[0].env["CODEBOX_RUNTIME_DIR"], "control.sock"))):
            if name != "control":
                listener = stack.enter_context(socket.socket(socket.AF_UNIX))
                listener.bind(address)
                listener.listen()
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(address)
            where[name] = f"socket.socket(socket.AF_UNIX).connect({address!r})"
        got = direct(where)
    assert got == {"abstract": "ECONNREFUSED", "path": "ENOENT", "control": "ENOENT"}, got


def test_the_proxy_is_for_its_session_alone():
    """It listens in no other network, so not in that of the machine either; and it has a filter and no capability."""
    assert "hello" in say("get('pub.test')")
    confined = 0
    for pid in named(box(POLICY)[0].daemon_pid(), "codebox-proxy"):
        said = status(pid)
        assert said["NoNewPrivs"] == "1" and int(said["CapEff"], 16) == 0, said
        confined += said["Seccomp"] == "2"  # the one that makes them waits without
    assert confined
    with socket.socket() as s:
        assert s.connect_ex(("127.0.0.1", 3128)) != 0
    b = Box(CODEBOX_POOL="0")
    got = b("run", "-c", "import os, socket\nprint([k for k in os.environ if 'proxy' in k.lower()])\n"
                         "print(socket.create_connection(('127.0.0.1', 3128), 5))")
    b.stop()
    assert "[]" in got.stdout and "ConnectionRefused" in got.stdout + got.stderr, (got.stdout, got.stderr)


def test_the_proxy_gives_up_files_and_calls():
    """Before it takes the first connection. Its processes are not for others to look into, so root alone sees it."""
    if os.geteuid() != 0:
        raise Skip("needs root")
    b, client = box(POLICY)
    landlock = b.hello()["facts"]["landlock_abi"]
    makes = [p for p in named(b.daemon_pid(), "codebox-proxy") if status(p)["Seccomp"] == "0"]
    with Strace(b, makes, "-e", "trace=fork,vfork,clone,clone3,landlock_add_rule,landlock_restrict_self,seccomp,accept4") as s:
        client.call("session.create", session_id="traced", image=b.image("python", "python-minimal", "host"))
        client.call("run", session_id="traced", code=PRELUDE)
        r = client.call("run", session_id="traced", code="print(get('pub.test'))")
        client.call("session.close", session_id="traced")
        lines = [line.split(None, 1) for line in s.whole()]
    assert "hello" in r["output"], r
    taken = next(i for i, (_, call) in enumerate(lines) if call.startswith("accept4("))
    done = [call.split("(")[0] for pid, call in lines[:taken] if pid == lines[taken][0] and call.endswith(" = 0")]
    rules = done.count("landlock_add_rule")
    assert done[-2:] == ["landlock_restrict_self", "seccomp"] and rules == 1 if landlock else done[-1:] == ["seccomp"], lines


def test_strict_has_none():
    b, client = box(POLICY)
    client.call("session.create", session_id="strict", profile="strict")
    info = client.call("session.info", session_id="strict")["network"]
    client.call("session.close", session_id="strict")
    assert info["mode"] == "none" and "strict" in info["why"], info


# ---- who is slow ----

def test_names_that_nobody_answers():
    """All places are taken by them; one that has stood still for long enough gives way."""
    cell("slow = []\nfor i in range(16):\n s = socket.create_connection(('127.0.0.1', 3128)); slow.append(s)\n"
         " s.sendall(b'GET http://mute.test/ HTTP/1.1\\r\\nHost: mute.test\\r\\n\\r\\n')")
    assert "hello from" in say("get('pub.test')")
    cell("for s in slow: s.close()")


if __name__ == "__main__":
    main(globals())
