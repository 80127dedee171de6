#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The HTTP listener, byte by byte: who may ask, what it refuses, and its bounds; over_http.py has the protocol."""
import json
import os
import re
import select
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common_http import DAEMON, FIXTURE, LEGACY, META, MODERN, PATIENCE, Client, Fixture, Legacy, code_of, same, server_memory  # noqa: E402
import cbxtest  # noqa: E402

INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}}}
servers = {}


def fixture():
    if "fixture" not in servers:
        servers["fixture"] = Fixture()
    return servers["fixture"]


def alive():
    same(Client(fixture().port).send("POST", INITIALIZE).status, 200)


def raw(data, port=None, half_closed=True):
    """Send bytes on a connection of its own and read until it ends, which our own end of sending may bring about."""
    with socket.create_connection(("127.0.0.1", port or fixture().port), timeout=PATIENCE) as s:
        try:
            s.sendall(data)
            if half_closed:
                s.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        out = b""
        try:
            while chunk := s.recv(65536):
                out += chunk
        except OSError:
            pass
        return out


# ---- who may ask ----

def test_hosts():
    c = Client(fixture().port)
    for host in ["localhost", "127.0.0.1", "[::1]", "LOCALHOST:80", f"127.0.0.1:{c.port}", "[::1]:1"]:
        same((host, c.send("POST", INITIALIZE, Host=host).status), (host, 200))
    for host in ["evil.example.com", "127.0.0.1.evil.example.com", "localhost.evil.example.com:80", "[::1].evil",
                 "localhost:", "localhost:1x", "localhost:1234567", "10.0.0.1", "evil.example.com:127", ""]:
        assert 400 <= c.send("POST", INITIALIZE, Host=host).status <= 403, host
        same((host, c.send("GET", path="/other", Host=host).status in (400, 403)), (host, True))
    assert raw(b"POST /mcp HTTP/1.1\r\nContent-Length: 0\r\n\r\n").startswith(b"HTTP/1.1 400")


def test_origins():
    c = Client(fixture().port)
    for origin in ["http://localhost", "http://localhost:3000", "https://127.0.0.1:1", "http://[::1]:8080"]:
        same((origin, c.send("POST", INITIALIZE, Origin=origin).status), (origin, 200))
    for origin in ["http://evil.example.com", "null", "http://localhost.evil.example.com", "localhost",
                   "file://", "http://localhost@evil.example.com", "http://evil.example.com:80/localhost"]:
        same((origin, c.send("POST", INITIALIZE, Origin=origin).status), (origin, 403))


def test_addresses():
    for program in [FIXTURE], [DAEMON, "--foreground", "--http"]:
        if not os.access(program[0], os.X_OK):
            continue
        for address in ["0.0.0.0:0", "192.0.2.1:8080", "[::]:0", "example.com:80", "8080", "127.0.0.1", "::1:80",
                        "127.0.0.1:65536", "127.0.0.1:x", "[::1]8080"]:
            box = cbxtest.Box()
            r = subprocess.run([*program, address], env=box.env, capture_output=True, text=True, timeout=PATIENCE,
                               stdin=subprocess.DEVNULL)
            assert r.returncode in (1, 2) and "--http" in r.stderr, (program, address, r)
            if address.endswith(":0"):
                assert "not a loopback address" in r.stderr, r.stderr
    six = Fixture("[::1]:0")
    same(six.url, f"http://[::1]:{six.port}/mcp")
    same(six.stop(), 0)


def test_token():
    token = "correct-horse-battery-staple"
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "token")
        with open(path, "w") as f:
            f.write(token + "\n")
        os.chmod(path, 0o644)
        r = subprocess.run([FIXTURE, "127.0.0.1:0", path], capture_output=True, text=True, timeout=PATIENCE)
        assert r.returncode == 2 and "chmod 600" in r.stderr, r
        os.chmod(path, 0o600)
        server = Fixture("127.0.0.1:0", path)
        c = Client(server.port)
        for wrong in [None, "", "Bearer", "Bearer ", f"Basic {token}", f"Bearer {token}x", f"Bearer {token[:-1]}",
                      f"Bearer {token}{token}", f"Bearer {token.upper()}"]:
            a = c.send("POST", INITIALIZE, Authorization=wrong)
            same((wrong, a.status, a.headers["WWW-Authenticate"]), (wrong, 401, "Bearer"))
        same(c.send("POST", INITIALIZE, Authorization=f"Bearer {token}").status, 200)
        same(c.send("GET", path="/elsewhere").status, 401)
        same(server.stop(), 0)


# ---- requests as such ----

def test_paths_and_methods():
    c = Client(fixture().port)
    for path in ["/", "/mcp/", "/mcpx", "/../mcp", "/MCP"]:
        same((path, c.send("POST", INITIALIZE, path=path).status), (path, 404))
    same(c.send("POST", INITIALIZE, path="/mcp?x=1").status, 200)
    for method in ["PUT", "PATCH", "OPTIONS"]:
        same((method, c.send(method).status), (method, 405))
    for bad in ["text/plain", "application/jsonx", None]:
        same((bad, c.send("POST", INITIALIZE, Content_Type=bad).status), (bad, 415))
    same(c.send("POST", INITIALIZE, Content_Type="application/json; charset=utf-8").status, 200)


def test_malformed_bodies():
    c = Legacy(fixture().port)
    for body in ["", "{", "not JSON", '{"a":1} x', "\0", '{"jsonrpc":"2.0","id":1,"method":"ping"', "\ufeff{}"]:
        a = c.send("POST", body)
        same((body, a.status, code_of(a), a.message["id"]), (body, 400, -32700, None))
    for body in ["5", "null", '"x"', "[]", "{}", '{"jsonrpc":"1.0","id":1,"method":"ping"}',
                 '{"jsonrpc":"2.0","id":null,"method":"ping"}', '{"jsonrpc":"2.0","id":{},"method":"ping"}']:
        a = c.send("POST", body)
        same((body, a.status, code_of(a)), (body, 400, -32600))
    a = c.send("POST", '{"jsonrpc":"2.0","id":12345678901234567890,"method":"none"}')
    same((a.status, '"id":12345678901234567890' in a.body, code_of(a)), (200, True, -32601))
    same(c.request("ping").message["result"], {})


def test_ids_that_come_back():
    """A refusal of the carrier's own has the request's id, when that is one, and not whatever stands in its place."""
    for raw_id, back in [(b"7", b"7"), (b'"x"', b'"x"'), (b"{\"a\":[1]}", b"null"), (b'"\xff"', b"null"),
                         (b'"' + b"y" * 100000 + b'"', b"null"), (b"1.5", b"null"), (b"true", b"null")]:
        for headers in (b"", b"MCP-Protocol-Version: 2026-07-28\r\n", b"MCP-Protocol-Version: 2020-01-01\r\n"):
            body = b'{"jsonrpc":"2.0","method":"ping","id":' + raw_id + b"}"
            answer = raw(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + headers +
                         b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body), half_closed=False)
            assert b" 400 " in answer[:20] and b'"id":' + back + b"," in answer, (raw_id[:20], headers, answer[:300])


def test_malformed_requests():
    body = json.dumps(INITIALIZE).encode()
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    for data in [b"garbage\r\n\r\n", b"\0\0\0\0\r\n\r\n", b"POST\r\n\r\n",
                 b"POST /mcp HTTP/9.9\r\nHost: localhost\r\n\r\n",
                 head + b"Content-Length: -5\r\n\r\n", head + b"Content-Length: 99999999999999999999999\r\n\r\n",
                 head + b"Content-Length: abc\r\n\r\n" + body, head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
                 head + b"X: " + b"y" * (1 << 20) + b"\r\n\r\n",
                 head + b"".join(b"X%d: y\r\n" % i for i in range(100000)) + b"\r\n",
                 head + b"Content-Length: 1000\r\n\r\n{", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"]:
        answer = raw(data)
        assert b" 200 " not in answer[:20], (data[:100], answer[:200])
        alive()
    both = head + b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (
        len(body), len(body), body)
    assert b" 400 " in raw(both)[:20]
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n5\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (
        body[:5], len(body) - 5, body[5:])
    with socket.create_connection(("127.0.0.1", fixture().port), timeout=PATIENCE) as s:
        s.sendall(chunked)
        assert b" 200 " in s.recv(65536)[:20]


def test_requests_of_two_meanings():
    """What a proxy before us, or the check of a token, could read otherwise than we do is refused, and nothing after it
    on the connection is looked at."""
    body = json.dumps(INITIALIZE).encode()
    n = len(body)
    start, host, kind = b"POST /mcp HTTP/1.1\r\n", b"Host: localhost\r\n", b"Content-Type: application/json\r\n"
    length = b"Content-Length: %d\r\n" % n
    good = [start, host, kind, length]
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (n, body)

    def answers(*lines, data=body):
        second = b"GET /other HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        return re.findall(rb"HTTP/1\.1 (\d+) ", raw(b"".join(lines) + b"\r\n" + data + second, half_closed=False))

    same(answers(*good), [b"200", b"404"])
    same(answers(start, host, kind, b"Transfer-Encoding: chunked\r\n", data=chunks), [b"200", b"404"])
    same(answers(*good, b"Origin: http://localhost\r\n", b"Accept: a/b\r\n", b"Accept: */*\r\n"), [b"200", b"404"])
    for more in [b"Host: localhost\r\n", b"host: evil.example.com\r\n", length, b"content-length: 0\r\n",
                 b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: identity\r\n",
                 b"Origin: http://localhost\r\nOrigin: http://evil.example.com\r\n",
                 b"Authorization: Bearer x\r\nAuthorization: Bearer y\r\n", b"X: a\r\n b\r\n", b"X: a\r\n\tb\r\n",
                 b" X: a\r\n", b"X : a\r\n", b"X\t: a\r\n", b": a\r\n", b"X\r\n", b"X: a\nY: b\r\n", b"X: a\rY: b\r\n",
                 b"X: a\0b\r\n", b"X: a\x7fb\r\n", b"X: \x1b[2J\r\n", b"X(: a\r\n", b"X\xe9: a\r\n",
                 b"".join(b"X%d: y\r\n" % i for i in range(200))]:
        same((more, answers(*good, more)), (more, [b"400"]))
    for value in [b"+%d" % n, b"-%d" % n, b"0x%x" % n, b"%d," % n, b"%d, %d" % (n, n), b"", b"%d 0" % n, b"%d.0" % n,
                  b"1e2"]:
        line = b"Content-Length: " + value + b"\r\n"
        same((line, answers(start, host, kind, line)), (line, [b"400"]))
    for line in [b"Transfer-Encoding : chunked\r\n", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                 b"Transfer-Encoding: gzip, chunked\r\n", b"Transfer-Encoding: chunked, identity\r\n",
                 b"Transfer-Encoding: xchunked\r\n", b"Transfer-Encoding: \x0bchunked\r\n"]:
        same((line, answers(start, host, kind, line, data=chunks)), (line, [b"400"]))
    for first in [b"POST http://localhost/mcp HTTP/1.1\r\n", b"POST  /mcp HTTP/1.1\r\n", b"POST /mcp  HTTP/1.1\r\n",
                  b"POST /mcp HTTP/1.1 \r\n", b"POST /mcp\r\n", b"POST * HTTP/1.1\r\n",
                  b"POST /m\x01cp HTTP/1.1\r\n",
                  b"POST /mcp#x HTTP/1.1\r\n", b"P(ST /mcp HTTP/1.1\r\n", b"\r\nPOST /mcp HTTP/1.1\r\n",
                  b" POST /mcp HTTP/1.1\r\n", b"POST\t/mcp HTTP/1.1\r\n", b"POST /mcp HTTP/1.1\n"]:
        same((first, answers(first, host, kind, length)), (first, [b"400"]))
    for bad in [b"+%x\r\n" % n, b"0x%x\r\n" % n, b" %x\r\n" % n, b"%x \r\n" % n, b"%x;a=b\r\n" % n, b"%x\n" % n,
                b"\r\n", b"-1\r\n", b"0000000%x\r\n" % n]:
        data = bad + body + b"\r\n0\r\n\r\n"
        same((bad, answers(start, host, kind, b"Transfer-Encoding: chunked\r\n", data=data)), (bad, [b"400"]))
    for end in [b"X: trailer\r\n\r\n", b"\n", b"\r\r"]:
        data = b"%x\r\n%s\r\n0\r\n%s" % (n, body, end)
        same((end, answers(start, host, kind, b"Transfer-Encoding: chunked\r\n", data=data)), (end, [b"400"]))
    same(answers(b"POST /mcp HTTP/1.0\r\n", host, kind, b"Transfer-Encoding: chunked\r\n", data=chunks), [b"400"])


def test_bytes_one_by_one():
    data = json.dumps(INITIALIZE).encode()
    for framing in [b"Content-Length: %d\r\n\r\n%s" % (len(data), data),
                    b"Transfer-Encoding: chunked\r\n\r\n3\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (
                        data[:3], len(data) - 3, data[3:])]:
        whole = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + framing
        with socket.create_connection(("127.0.0.1", fixture().port), timeout=PATIENCE) as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for i in range(len(whole)):
                s.sendall(whole[i:i + 1])
            assert b" 200 " in s.recv(65536)[:20]


def test_expected_bodies():
    """The token is judged, and a length that is too large refused, before the body is sent."""
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "token")
        with open(path, "w") as f:
            f.write("correct-horse-battery-staple\n")
        os.chmod(path, 0o600)
        server = Fixture("127.0.0.1:0", path)
        body = json.dumps(INITIALIZE).encode()
        for token, length, status in [("correct-horse-battery-staple", len(body), b"100"),
                                      ("wrong-horse-battery-staple", 1 << 20, b"401"),
                                      ("correct-horse-battery-staple", 1 << 40, b"413")]:
            with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as s:
                s.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                          b"Expect: 100-continue\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n" %
                          (token.encode(), length))
                same(s.recv(65536)[9:12], status)
                if status == b"100":
                    s.sendall(body)
                    same(s.recv(65536)[9:12], b"200")
        same(server.stop(), 0)


def test_many_bodies():
    """Bodies that do not come to their end take memory up to a bound, and the oldest gives way."""
    server = Fixture()
    before = server_memory(server.pid)
    head = (b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" %
            (8 << 20))
    piece, slow = b"x" * (7 << 20), []
    for _ in range(30):
        s = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
        s.sendall(head)
        s.sendall(piece)
        slow.append(s)
    big = {**INITIALIZE, "params": {**INITIALIZE["params"], "x": "y" * (23 << 20)}}
    same(Client(server.port).send("POST", big).status, 200)
    if not os.environ.get("CBX_SANITIZED"):  # freed memory is kept then
        assert server_memory(server.pid) - before < 160 << 20, server_memory(server.pid)
    slow[0].settimeout(PATIENCE)
    try:
        same(slow[0].recv(1), b"")  # the first was cut off
    except ConnectionResetError:
        pass
    for s in slow:
        s.close()
    same(server.stop(), 0)


def test_half_open_requests():
    """As many as there are connections, of which none comes to its end: others are served, and who was served stays."""
    server = Fixture()
    mine = Legacy(server.port)
    half = []
    for data in [b"", b"POST", b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n",
                 b"POST /mcp HTTP/1.1\r\nHost: evil.example.com\r\nContent-Length: 9\r\n\r\n"]:
        for _ in range(80):
            s = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
            try:
                s.sendall(data)
            except OSError:
                pass
            half.append(s)
        same(Legacy(server.port).request("ping").message["result"], {})
    first = mine.open().sock
    same(mine.request("ping").message["result"], {})
    assert mine.open().sock is first, "a client that was served made room for those that were not"
    for s in half:
        s.close()
    same(server.stop(), 0)


def test_bodies_too_large():
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", fixture().port), timeout=PATIENCE) as s:
        s.sendall(head + b"Content-Length: %d\r\n\r\n" % (25 << 20))
        sent, answer = 0, b""
        try:
            while sent < 25 << 20:
                sent += s.send(b"x" * 65536)
            answer = s.recv(65536)
        except OSError:
            pass
        assert b" 200 " not in answer[:20], answer
    with socket.create_connection(("127.0.0.1", fixture().port), timeout=PATIENCE) as s:
        s.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        cut = False
        try:
            for _ in range(64 * 16):
                s.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        except OSError:
            cut = True
        assert cut, "64 MiB of chunks were taken"
    alive()
    big = {**INITIALIZE, "params": {**INITIALIZE["params"], "x": "y" * (7 << 20)}}
    same(Client(fixture().port).send("POST", big).status, 200)


def test_keep_alive():
    c = Legacy(fixture().port)
    first = c.open().sock
    for _ in range(50):
        same(c.request("ping").message["result"], {})
        same(c.notify("notifications/whatever").status, 202)
        same(len(c.call("test_tool_with_logging").messages), 4)
    assert c.open().sock is first, "the connection did not stay"


def test_old_http():
    """Clients of HTTP/1.0, such as nginx as it is shipped: an answer ends where the connection ends."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "test_tool_with_progress", "_meta": {"progressToken": "t", META + "protocolVersion": MODERN,
                                                     META + "clientCapabilities": {}}}})
    for more in ["", "Connection: keep-alive\r\n", "Accept: application/json\r\n"]:
        idle = socket.create_connection(("127.0.0.1", fixture().port))
        answer = raw((f"POST /mcp HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n{more}"
                      f"MCP-Protocol-Version: {MODERN}\r\nMcp-Method: tools/call\r\n"
                      f"Mcp-Name: test_tool_with_progress\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode(),
                     half_closed=False)
        assert b" 200 " in answer[:20] and b"Done in three steps." in answer, (more, answer)
        same((more, b"data: " in answer), (more, "Accept" not in more))
        # It did not end because nothing came any more: one that has been silent for longer is still there.
        same((more, select.select([idle], [], [], 0)[0]), (more, []))
        idle.close()
    alive()


def test_head():
    answer = raw(b"HEAD /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n"
                 b"HEAD /other HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", half_closed=False)
    same([part[:13] for part in answer.split(b"\r\n\r\n")], [b"HTTP/1.1 405 ", b"HTTP/1.1 404 ", b""])


def test_the_end():
    same(fixture().stop(), 0)


if __name__ == "__main__":
    if not os.access(FIXTURE, os.X_OK):
        print(f"1..0 # SKIP {FIXTURE} was not built")
        sys.exit(0)
    cbxtest.run(globals())
