#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What codeboxd does when a time of limits.h has passed. Its clock runs faster than the machine's (tests/lib/hurry.c);
sandboxes, interpreters and clients have their own time."""
import http.client
import json
import os
import re
import socket
import struct
import tempfile

from harness import Client, Daemon, main, wait_until

import cbxtest

HURRY = os.environ.get("CBX_HURRY_SO") or os.path.abspath("tests/lib/hurry.so")
FAST = 1000
held = []


def hurried(mode="", *args, policy=None, at=1):
    """A daemon, and a function that says how fast its clock runs."""
    if os.environ.get("CBX_SANITIZED"):
        raise cbxtest.Skip("a sanitizer wants to be the first that is loaded")
    if not os.path.exists(HURRY):
        raise cbxtest.Skip(f"{HURRY} was not built")
    f = tempfile.NamedTemporaryFile(prefix="cbxhurry")
    held.append(f)

    def speed(n):
        os.pwrite(f.fileno(), struct.pack("=I", n), 0)
    speed(at)
    os.chmod(f.name, 0o644)
    if policy:
        p = tempfile.NamedTemporaryFile("w", prefix="cbxpolicy", suffix=".json")
        json.dump(policy, p)
        p.flush()
        os.chmod(p.name, 0o644)
        held.append(p)
        args = (*args, "--policy", p.name)
    return Daemon(mode, "--pool", "0", "--idle-timeout", "0", *args, LD_PRELOAD=HURRY, CBX_HURRY=f.name,
                  CBX_HURRY_WHO="codeboxd"), speed


def test_a_sandbox_that_does_not_come_up():
    d, speed = hurried("mute")
    c = d.client()
    n = c.send("session.create")
    speed(FAST)
    try:
        c.wait(n)
    except Exception as e:
        assert "30 s" in str(e), e
    else:
        raise AssertionError("a session without a sandbox")
    assert c.call("hello")["sessions"] == 0
    assert d.stop() == 0


def test_a_supervisor_that_says_nothing():
    d, speed = hurried("silent", at=FAST)
    assert d.client().call("hello")["pid"] == d.process.pid
    assert "has not answered within 10 seconds" in d.text(), d.text()
    d.stop()


class Mcp(Client):
    def __init__(self, d, **capabilities):
        super().__init__(os.path.join(d.dir, "run", "mcp.sock"))
        self.ask("initialize", protocolVersion="2025-06-18", capabilities=capabilities,
                 clientInfo={"name": "t", "version": "1"})
        self.answer = self.recv()
        self.raw(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def ask(self, method, **params):
        self.number += 1
        self.raw(json.dumps({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}).encode())

    def tool(self, name, meta=None, **arguments):
        self.ask("tools/call", name=name, arguments=arguments, **({"_meta": meta} if meta else {}))

    def until(self, wanted):
        """All messages up to the one that is wanted."""
        out = []
        while not out or not wanted(out[-1]):
            out.append(self.recv())
        return out

    def until_answer(self):
        return self.until(lambda m: m.get("id") == self.number and "method" not in m)


def test_a_long_run_is_told_of_and_not_waited_for():
    d, speed = hurried()
    m = Mcp(d)
    m.tool("create_session", session_id="s")
    m.until_answer()
    # Its own time is an hour.
    m.tool("run_code", meta={"progressToken": "p"}, session_id="s", timeout=3600, code="import time; time.sleep(600)")
    speed(100)
    said = m.until_answer()
    assert said[-1]["result"]["structuredContent"]["status"] == "running", said[-1]
    # 45 seconds without a word of output, and one message at least for each five.
    assert len([x for x in said if x.get("method") == "notifications/progress"]) >= 5, said
    speed(1)
    m.close()
    assert d.stop() == 0


ROOTS = {"mounts": {"allow": [{"path": "/tmp"}], "roots": True}}


def test_a_client_that_does_not_tell_its_roots():
    d, speed = hurried(policy=ROOTS)
    m = Mcp(d, roots={})
    m.tool("run_code", code="print(6 * 7)")
    assert m.until(lambda x: x.get("method") == "roots/list")
    said = m.until_answer()
    assert said[-1]["result"]["structuredContent"]["stdout"] == "42\n", said[-1]
    assert d.stop() == 0


class Http:
    def __init__(self, d):
        found = []

        def listening():
            found[:] = re.findall(r"http://127\.0\.0\.1:(\d+)/mcp", d.text())
            return found
        assert wait_until(listening), d.text()
        self.port = int(found[0])

    def ask(self, message, sid=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if sid:
            headers.update({"Mcp-Session-Id": sid, "MCP-Protocol-Version": "2025-06-18"})
        c.request("POST", "/mcp", json.dumps(message), headers)
        return c

    def post(self, message, sid=None):
        return self.ask(message, sid).getresponse()

    def begin(self):
        r = self.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}})
        r.read()
        sid = r.getheader("Mcp-Session-Id")
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, sid).read()
        return sid


def test_streams_of_events():
    """A second without an answer begins one, and each quarter of a minute a comment keeps it open."""
    d, speed = hurried("", "--http", "127.0.0.1:0")
    h = Http(d)
    sid = h.begin()
    for n, tool, arguments in ((2, "create_session", {"session_id": "s"}),
                               (3, "run_code", {"session_id": "s", "timeout": 3000, "code": "input"})):
        r = h.post({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": {
            "name": tool, "arguments": arguments}}, sid)
        assert r.status == 200 and b'"isError":true' not in r.read(), tool
    asked = h.ask({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "run_code", "arguments": {
        "session_id": "s", "timeout": 3000, "code": "import time; time.sleep(1000)"}}}, sid)
    speed(100)
    r = asked.getresponse()
    assert r.getheader("Content-Type") == "text/event-stream", r.getheaders()
    lines = []
    while len([x for x in lines if x.startswith(b":")]) < 2:
        lines.append(r.readline())
        assert lines[-1], lines
    speed(1)
    r.close()
    d.stop()


def test_requests_that_do_not_end():
    """A byte now and then puts off no deadline, of the headers or of the body."""
    d, speed = hurried("", "--http", "127.0.0.1:0")
    h = Http(d)
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    for data in [head, head + b"Content-Length: 1000000\r\n\r\n"]:
        with socket.create_connection(("127.0.0.1", h.port), timeout=60) as s:
            s.sendall(data)
            speed(50)
            s.settimeout(0.05)  # of 2.5 seconds for the daemon
            for _ in range(600):
                try:
                    s.sendall(b"x")
                    got = s.recv(100)
                    break
                except TimeoutError:
                    pass
            speed(1)
            assert got.startswith(b"HTTP/1.1 408 "), got
    d.stop()


def test_connections_and_sessions_that_are_left():
    d, speed = hurried("", "--http", "127.0.0.1:0")
    h = Http(d)
    sid = h.begin()
    ping = {"jsonrpc": "2.0", "id": 3, "method": "ping"}
    assert h.post(ping, sid).status == 200
    with socket.create_connection(("127.0.0.1", h.port), timeout=60) as s:
        s.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n")
        speed(50)
        # What it says is its last word.
        while s.recv(65536):
            pass
        speed(1)
    assert h.post(ping, sid).status == 200, "a connection's end is not the session's"
    c = d.client()
    aged = c.call("session.create", ttl="3h", idle_timeout="3h")["session_id"]
    speed(FAST)
    assert wait_until(lambda: c.call("session.info", session_id=aged)["age_s"] > 5000)  # more than an hour
    speed(1)
    r = h.post(ping, sid)
    assert r.status == 404, (r.status, r.read())
    d.stop()


if __name__ == "__main__":
    main(globals())
