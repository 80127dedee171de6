#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The HTTP listener, byte by byte: what it refuses, both protocol eras, sessions, streams, and its bounds."""
import json
import os
import re
import resource
import select
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common_http import (BOTH, DAEMON, FIXTURE, LEGACY, META, MODERN, PATIENCE, Client, Daemon, Fixture,  # noqa: E402
                         Legacy, Modern, Skip, events, sentinel)
import cbxtest  # noqa: E402

INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}}}
servers = {}


def fixture():
    if "fixture" not in servers:
        servers["fixture"] = Fixture()
    return servers["fixture"]


def daemon():
    """A codeboxd in which cells can run."""
    if "daemon" not in servers:
        servers["daemon"] = Daemon()
        r = Legacy(servers["daemon"].port).call("run_code", {"code": "6*7"}).message["result"]
        servers["why"] = r["content"][0]["text"] if r["isError"] else None
    if servers["why"]:
        raise Skip(f"no cell can run here: {servers['why']}")
    return servers["daemon"]


def code_of(answer):
    return answer.message["error"]["code"]


def same(got, want):
    assert got == want, f"got {got!r}, want {want!r}"


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


# ---- the era with a handshake ----

def test_session_life():
    c = Legacy(fixture().port)
    assert re.fullmatch(r"[!-~]{20,}", c.session), c.session
    assert c.session != Legacy(c.port).session
    same(c.request("tools/list").status, 200)
    a = c.notify("notifications/whatever")
    same((a.status, a.body), (202, ""))
    same(c.send("POST", {"jsonrpc": "2.0", "id": "none", "result": {}}).status, 202)
    same(c.request("tools/list", Mcp_Session_Id=None).status, 400)
    for unknown in ["nope", c.session + "x", c.session[:-1], ""]:
        assert c.request("tools/list", Mcp_Session_Id=unknown).status in (400, 404), unknown
    same(c.request("tools/list", Mcp_Session_Id="nope").status, 404)
    same(c.request("ping", MCP_Protocol_Version="1999-01-01").status, 400)
    same(c.request("ping", MCP_Protocol_Version=None).status, 200)
    same(c.send("DELETE").status, 200)
    same((c.request("ping").status, c.send("DELETE").status, c.send("GET").status), (404, 404, 404))
    a = c.request("initialize", {"protocolVersion": 5}, Mcp_Session_Id=None)
    same((code_of(a), a.headers["Mcp-Session-Id"]), (-32602, None))


def test_batches():
    c = Legacy(fixture().port, "2025-03-26")
    a = c.send("POST", [{"jsonrpc": "2.0", "id": "a", "method": "ping"}, {"jsonrpc": "2.0", "method": "x"},
                        {"jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": {"name": "test_simple_text"}}])
    same(sorted(m["id"] for m in json.loads(a.body)), ["a", "b"])
    same(c.send("POST", [{"jsonrpc": "2.0", "method": "x"}]).status, 202)
    a = Legacy(c.port).send("POST", [{"jsonrpc": "2.0", "id": "a", "method": "ping"}])
    same((a.status, code_of(a)), (400, -32600))


def test_json_or_events():
    c = Legacy(fixture().port)
    same(c.call("test_simple_text").type, "application/json")
    a = c.call("test_tool_with_progress", _meta={"progressToken": "tok"})
    same((a.type, a.headers["X-Accel-Buffering"]), ("text/event-stream", "no"))
    same([m["params"]["progress"] for m in a.messages[:-1]], [0, 50, 100])
    same({m["params"]["progressToken"] for m in a.messages[:-1]}, {"tok"})
    assert "result" in a.message
    c.headers["Accept"] = "application/json"
    a = c.call("test_tool_with_progress", _meta={"progressToken": "tok"})
    same((a.type, len(a.messages)), ("application/json", 1))
    c.headers["Accept"] = BOTH
    a = c.call("silence")
    same((a.type, a.message["result"]["content"][0]["text"]), ("text/event-stream", "At last."))


def test_asking_the_client():
    c = Legacy(fixture().port)
    other = c.again()
    c.begin("POST", {"jsonrpc": "2.0", "id": 9, "method": "tools/call",
                     "params": {"name": "test_elicitation", "arguments": {"message": "?"}}})
    stream = c.connection.getresponse()
    text = ""
    while not events(text):
        text += stream.readline().decode()
    ask = events(text)[0]
    same(ask["method"], "elicitation/create")
    stranger = Legacy(c.port)
    reply = {"jsonrpc": "2.0", "id": ask["id"], "result": {"action": "decline"}}
    same(stranger.send("POST", reply).status, 202)  # of another session: it is not an answer
    reply["result"] = {"action": "accept", "content": {"username": "u"}}
    same(other.send("POST", reply).status, 202)
    text += stream.read().decode()
    same(len(events(text)), 2)
    assert "action=accept" in events(text)[1]["result"]["content"][0]["text"], text


def test_cancelled():
    c = Legacy(fixture().port)
    c.begin("POST", {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "test_sampling",
                                                                              "arguments": {"prompt": "?"}}})
    stream = c.connection.getresponse()
    stream.readline()
    same(c.again().notify("notifications/cancelled", {"requestId": 9}).status, 202)
    assert "result" not in events(stream.read().decode()), "a cancelled request was answered"


def test_stream_of_a_session():
    c = Legacy(fixture().port)
    s = c.again()
    stream = s.begin("GET").getresponse()
    same((stream.status, stream.headers["Content-Type"]), (200, "text/event-stream"))
    same(c.send("GET").status, 409)
    same(c.send("GET", Mcp_Session_Id=None).status, 400)
    same(c.send("GET", Accept="application/json").status, 405)
    same(c.send("GET", MCP_Protocol_Version=MODERN).status, 405)
    s.close()
    streams = []

    def one_more():
        again = c.again()
        streams[:] = [again.begin("GET").getresponse(), again]
        return streams[0].status == 200

    assert cbxtest.wait_until(one_more, PATIENCE), "the place of a stream that was left stays taken"
    same(c.send("DELETE").status, 200)
    same(events(streams[0].read().decode()), [])


# ---- the era without ----

def test_modern_answers():
    c = Modern(fixture().port)
    a = c.request("server/discover")
    same((a.status, a.type, a.headers["Mcp-Session-Id"]), (200, "application/json", None))
    assert MODERN in a.message["result"]["supportedVersions"] and a.message["result"]["resultType"] == "complete"
    same(c.call("test_simple_text").message["result"]["resultType"], "complete")
    same(c.request("tools/list", Mcp_Session_Id="whatever").status, 200)
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe", "no/such"]:
        a = c.request(method)
        same((method, a.status, code_of(a)), (method, 404, -32601))
    for method in ["GET", "DELETE"]:
        a = c.send(method, MCP_Protocol_Version=MODERN)
        same((a.status, a.headers["Allow"]), (405, "POST"))
    a = c.call("silence")
    same((a.type, a.message["result"]["content"][0]["text"]), ("text/event-stream", "At last."))


def test_modern_headers():
    c = Modern(fixture().port)

    def post(headers, method="tools/call", params=None):
        m = c.message(method, {"name": "test_simple_text", "arguments": {}} if params is None else params)
        return c.send("POST", m, **{**c.routing(m), **headers})

    same(post({}).status, 200)
    for wrong in [{"Mcp-Method": None}, {"Mcp-Method": "tools/list"}, {"Mcp-Method": "TOOLS/CALL"}, {"Mcp-Name": None},
                  {"Mcp-Name": "test_error_handling"}, {"Mcp-Name": "TEST_SIMPLE_TEXT"}, {"Mcp-Name": "=?base64?!!?="},
                  {"Mcp-Name": sentinel("other")}, {"MCP-Protocol-Version": None}, {"MCP-Protocol-Version": LEGACY},
                  {"MCP-Protocol-Version": "2027-01-01"}]:
        a = post(wrong)
        same((wrong, a.status, code_of(a), a.message["id"]), (wrong, 400, -32020, c.next_id))
    same(post({"Mcp-Name": sentinel("test_simple_text")}).status, 200)
    same(post({"mcp-name": "  test_simple_text  ", "Mcp-Name": None}).status, 200)
    same(post({"Mcp-Name": sentinel("test://static-text")}, "resources/read", {"uri": "test://static-text"}).status,
         200)
    for meta in [None, {}, {"io.modelcontextprotocol/protocolVersion": MODERN}]:
        m = {"jsonrpc": "2.0", "id": 5, "method": "server/discover",
             "params": {"_meta": meta} if meta is not None else {}}
        a = c.send("POST", m, MCP_Protocol_Version=MODERN, Mcp_Method="server/discover")
        same((meta, a.status, code_of(a), a.message["id"]), (meta, 400, -32602, 5))
    m = c.message("server/discover", **{"io.modelcontextprotocol/protocolVersion": "2099-01-01"})
    a = c.send("POST", m, MCP_Protocol_Version="2099-01-01", Mcp_Method="server/discover")
    same((a.status, code_of(a)), (400, -32022))


def test_both_eras_at_once():
    old, new = Legacy(fixture().port), Modern(fixture().port)
    for _ in range(10):
        assert "resultType" not in old.call("test_simple_text").message["result"]
        assert new.call("test_simple_text").message["result"]["resultType"] == "complete"


# ---- bounds ----

def server_memory(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(r"VmRSS:\s+(\d+) kB", f.read()).group(1)) << 10


def test_clients_that_do_not_read():
    server = Fixture()
    before = server_memory(server.pid)
    clients = []
    for _ in range(10):
        c = Modern(server.port)
        c.open().connect()
        c.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        c.begin_call("flood")
        clients.append(c)
    same(Modern(server.port).call("test_simple_text").status, 200)
    for c in clients:  # cut off in the middle: the answer never comes
        got = b""
        try:
            while chunk := c.connection.sock.recv(1 << 20):
                got += chunk
        except OSError:
            pass
        assert b"That was it" not in got and len(got) < 30 << 20, len(got)
    if not os.environ.get("CBX_SANITIZED"):  # freed memory is kept then
        assert server_memory(server.pid) - before < 100 << 20, server_memory(server.pid)
    same(server.stop(), 0)


def test_many_connections():
    """The number of connections has a bound, half of the files that the server may have, and none of them leaks."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        server = Fixture()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def open_ones():
        return len(os.listdir(f"/proc/{server.pid}/fd"))

    before = open_ones()
    crowd = [Modern(server.port) for _ in range(220)]
    for c in crowd:
        same(c.call("test_simple_text").status, 200)  # whoever comes late is served as who came first
    assert 100 < open_ones() - before <= 128, open_ones()
    same(crowd[-1].call("test_simple_text").status, 200)
    for c in crowd:
        c.close()
    for _ in range(3):
        same(Modern(server.port).call("test_simple_text").status, 200)
    assert cbxtest.wait_until(lambda: open_ones() < before + 10, PATIENCE), "connections leak"
    same(server.stop(), 0)


def test_many_sessions():
    server = Fixture()
    sessions = [Legacy(server.port) for _ in range(100)]
    for s in sessions:
        s.close()
    for _ in range(300):
        Legacy(server.port).close()
    same(sessions[0].request("ping").status, 404)  # the longest idle ones made room
    same(server.stop(), 0)


def test_64_requests_at_once():
    c = Legacy(fixture().port)
    results = []

    # Ids are of the session: each request needs its own.
    def numbered(n):
        other = c.again()
        other.next_id = 2000 + n
        r = other.call("test_tool_with_progress", _meta={"progressToken": n})
        results.append([m["params"]["progressToken"] for m in r.messages[:-1]] == [n] * 3 and "result" in r.message)

    threads = [threading.Thread(target=numbered, args=(n,)) for n in range(64)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(PATIENCE)
    same(results, [True] * 64)


def test_nobody_waits_for_others():
    c = Legacy(fixture().port)
    held = []
    for n in range(63):
        other = c.again()
        other.begin("POST", {"jsonrpc": "2.0", "id": 3000 + n, "method": "tools/call",
                             "params": {"name": "test_sampling", "arguments": {"prompt": "?"}}})
        held.append(other)
    same(c.request("ping").message["result"], {})
    for other in held:
        other.close()
    same(c.request("ping").message["result"], {})


def test_leaving_early():
    server = Fixture()
    for client in [lambda: Modern(server.port), lambda: Legacy(server.port)]:
        for tool in ["silence", "test_tool_with_progress", "flood"] * 5:
            c = client()
            if isinstance(c, Modern):
                c.begin_call(tool, progressToken=1)
            else:
                c.begin("POST", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool}})
            c.close()
    same(Modern(server.port).call("silence").status, 200)
    c = Modern(server.port)
    c.begin_call("silence")
    same(server.stop(), 0)


# ---- with cells ----

LOOP = "import time\nran = 'begun'\nopen('/workspace/begun', 'w').close()\ntime.sleep(%d)\nran = 'to its end'"


def cell(c, session, code):
    return c.call("run_code", {"code": code, "session_id": session}).message["result"]


def call(ident, tool, **arguments):
    return {"jsonrpc": "2.0", "id": ident, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def there(c, session, path):
    return not c.call("read_file", {"path": path, "session_id": session}).message["result"]["isError"]


def test_cells():
    d = daemon()
    old = Legacy(d.port)
    r = old.call("run_code", {"code": "x = 41"}).message["result"]
    same(r["isError"], False)
    same(old.call("run_code", {"code": "x + 1"}).message["result"]["structuredContent"]["result"], "42")
    new = Modern(d.port)
    session = new.call("create_session").message["result"]["structuredContent"]["session_id"]
    cell(new, session, "y = 6")
    same(cell(Modern(d.port), session, "y * 7")["structuredContent"]["result"], "42")
    new.call("close_session", {"session_id": session})


def test_leaving_is_cancelling_only_in_one_era():
    d = daemon()
    new, old = Modern(d.port), Legacy(d.port)
    session = new.call("create_session").message["result"]["structuredContent"]["session_id"]
    leaver = Modern(d.port)
    leaver.begin_call("run_code", {"code": LOOP % 3000, "session_id": session, "timeout": 3600}, progressToken=1)
    leaver.connection.getresponse().readline()  # the stream has begun ...
    assert cbxtest.wait_until(lambda: there(new, session, "begun"), PATIENCE)  # ... and so has the cell
    leaver.close()
    same(cell(new, session, "ran")["structuredContent"]["result"], "'begun'")
    leaver = old.again()
    leaver.begin("POST", {"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": {
        "name": "run_code", "arguments": {"code": LOOP % 2, "session_id": session}, "_meta": {"progressToken": 1}}})
    leaver.connection.getresponse().readline()
    leaver.close()
    same(cell(new, session, "ran")["structuredContent"]["result"], "'to its end'")
    new.call("close_session", {"session_id": session})


def test_the_same_id_again():
    c = Legacy(daemon().port, "2025-03-26")
    same(c.call("create_session", {"session_id": "work"}).message["result"]["isError"], False)
    other = c.again()
    other.begin("POST", [call(f"old{i}", "run_code", session_id="work", timeout=3600,
                              code="import time\ntime.sleep(3000)") for i in range(10)])
    assert cbxtest.wait_until(lambda: c.call("session_info", {"session_id": "work"}).message["result"][
        "content"][0]["text"].count("9 wait"))
    a = c.send("POST", [
        call("close", "close_session", session_id="work"), call("create", "create_session", session_id="work"),
        *(call(f"new{i}", "run_code", session_id="work", code=f"{i}") for i in range(10)),
        *({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": f"old{i}"}}
          for i in range(10)),
        *(call(f"info{i}", "session_info", session_id="work") for i in range(10))], Accept="application/json")
    told = {m["id"]: m["result"]["content"][0]["text"] for m in json.loads(a.body)}
    same([told[f"new{i}"].split("\n")[0] for i in range(10)], [str(i) for i in range(10)])
    assert "is ready" in told["create"], told["create"]
    other.close()
    c.call("close_session", {"session_id": "work"})


def test_the_session_of_a_client_ends_with_it():
    d = daemon()
    c = Legacy(d.port)
    session = c.call("run_code", {"code": "1"}).message["result"]["structuredContent"]["session_id"]
    same(c.send("DELETE").status, 200)
    assert cell(Modern(d.port), session, "1")["isError"]


def test_who_waits_for_changes_is_told_of_the_end():
    # A codeboxd of its own: this one is ended while the stream is open.
    d = Daemon()
    c = Modern(d.port)
    m = c.message("subscriptions/listen", {"notifications": {"resourcesListChanged": True}})
    response = c.begin("POST", m, **c.routing(m)).getresponse()
    same(response.status, 200)
    first = response.readline() + response.readline()
    assert first, "nothing was acknowledged"
    same(d.stop(), 0)
    rest = (first + response.read()).decode()
    assert "subscriptionId" in rest and '"result"' in rest, rest


def test_the_end():
    if "daemon" in servers:
        c = Modern(servers["daemon"].port)
        if not servers["why"]:
            session = c.call("create_session").message["result"]["structuredContent"]["session_id"]
            c.begin_call("run_code", {"code": "import time\ntime.sleep(3000)", "session_id": session, "timeout": 3600})
        same(servers["daemon"].stop(), 0)
    same(fixture().stop(), 0)


if __name__ == "__main__":
    if not os.access(FIXTURE, os.X_OK):
        print(f"1..0 # SKIP {FIXTURE} was not built")
        sys.exit(0)
    cbxtest.run(globals())
