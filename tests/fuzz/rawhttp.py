#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests that no client would send, to a codeboxd with two tenants: what HTTP says, and what /openapi.json promises, is
changed at random, in the request line, headers, bodies, and in how the bytes arrive.

CBX_HTTP_SECONDS is for how long, 10 if omitted; CBX_HTTP_SEED repeats a run, whose seed is printed.
No answer is a 5xx, none is malformed, none tells of the other tenant's session, and codeboxd lives and serves afterwards.
"""
import http.client
import json
import os
import random
import re
import socket
import sys
import time
from pathlib import Path

sys.path[0:0] = [str(Path(__file__).resolve().parent.parent / d) for d in ("lib", "http")]
from common_http import PATIENCE, Daemon, Skip  # noqa: E402
import cbxtest  # noqa: E402

SECONDS = float(os.environ.get("CBX_HTTP_SECONDS", 10))
SEED = int(os.environ.get("CBX_HTTP_SEED", time.time()))
SECRET = "of-beta-alone"
TEXTS = ["", "a", "../..", "%00", "%2e%2e%2f", "%zz", "\x00", "\xff\xfe", "0", "-1", "1e309", "18446744073709551616", "null", "{}",
         "[" * 500, "é" * 40, "x" * 5000, "$(id)", "\r\nX: y", "\t", " ", "a b", "codebox://sessions", "s.1", "s.0", SECRET]
HEADERS = ["Content-Type", "Content-Length", "Transfer-Encoding", "Host", "Origin", "Accept", "Authorization", "Range",
           "If-None-Match", "Last-Event-ID", "Mcp-Session-Id", "MCP-Protocol-Version", "Expect", "Connection", "Upgrade",
           "X-Exec-Timeout", "X-Session-TTL", "traceparent", "Mcp-Method", "Mcp-Name", "Content-Range"]
BODIES = [{}, [], None, {"session_id": "s", "code": "1"}, {"session_id": SECRET, "code": "1"}, {"code": 1}, {"memory": "0"},
          {"execution_options": {"timeout": -1}}, {"argv": ["true"]}, {"argv": []}, {"packages": ["../x"]}, {"rows": 1, "columns": 1},
          {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, {"jsonrpc": "2.0", "id": {}, "method": []},
          {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_sessions", "arguments": {}}},
          [{"jsonrpc": "2.0", "id": 1, "method": "ping"}] * 3, {"image": "../python"}, {"query": "select 1"}]


class Fuzz:
    def __init__(self, d):
        self.d, self.r, self.seen = d, random.Random(SEED), {}
        self.tokens = {t: d.token(t) for t in ("acme", "beta")}
        c = http.client.HTTPConnection("127.0.0.1", d.port)
        c.request("GET", "/openapi.json")
        paths = json.load(c.getresponse())["paths"]
        c.close()
        self.routes = [(m.upper(), p) for p, methods in paths.items() for m in methods if m in ("get", "post", "put", "delete")]
        self.routes += [(m, p) for m in ("GET", "POST", "DELETE") for p in ("/mcp", "/ui", "/ui/page.js")]

    def send(self, sock, data):
        cuts = sorted(self.r.randrange(len(data)) for _ in range(self.r.choice([0, 0, 0, 1, 5])))
        for a, b in zip([0, *cuts], [*cuts, len(data)]):
            sock.sendall(data[a:b])

    def ask(self, data):
        """(status, head, body) of one answer; None: the connection was closed without one, or it is waited for."""
        got = b""
        with socket.create_connection(("127.0.0.1", self.d.port), timeout=PATIENCE) as sock:
            try:
                self.send(sock, data)
                if self.r.random() < 0.05:
                    return None  # nobody waits for it
                sock.shutdown(socket.SHUT_WR)
                while len(got) < 1 << 20:
                    piece = sock.recv(65536)
                    if not piece:
                        break
                    got += piece
                    if b"text/event-stream" in got or b"ndjson" in got:
                        break
            except ConnectionError:
                pass
        if not got:
            return None
        m = re.match(rb"HTTP/1\.[01] (\d{3})[^\r\n]*\r\n", got)
        assert m, got[:200]
        head, _, body = got.partition(b"\r\n\r\n")
        return int(m[1]), head, body

    def text(self):
        return self.r.choice(TEXTS)

    def target(self, path):
        names = {"session_id": ["s", SECRET, "none"], "request_id": ["s.1", SECRET + ".1", "none.1"], "command_id": ["1", "x"],
                 "path": ["a.txt", "a/b", ".."], "connection": ["c"], "artifact_id": ["a"]}
        path = re.sub(r"{(\w+)}", lambda m: self.r.choice([*names.get(m[1], ["x"]), *([self.text()] * 2)]), path)
        if self.r.random() < 0.3:
            path += "?" + "&".join(f"{self.r.choice(['path', 'wait', 'from', 'skip', 'usage', self.text()])}={self.text()}"
                                   for _ in range(self.r.randrange(1, 4)))
        return path

    def request(self):
        method, path = self.r.choice(self.routes)
        if self.r.random() < 0.1:
            method = self.r.choice(["PATCH", "HEAD", "OPTIONS", "TRACE", "CONNECT", "get", "", "A" * 300])
        if method == "DELETE" and path in ("/sessions/{session_id}", "/mcp") and self.r.random() < 0.9:
            method = "GET"
        body = self.r.choice(BODIES)
        body = b"" if body is None else json.dumps(body).encode()
        if self.r.random() < 0.2 and body:
            at = self.r.randrange(len(body))
            body = body[:at] + self.r.randbytes(self.r.randrange(4)) + body[at + self.r.randrange(3):]
        headers = [("Host", "localhost"), ("Content-Type", "application/json"), ("Content-Length", str(len(body))),
                   ("Accept", "application/json, text/event-stream")]
        if self.r.random() < 0.9:
            headers.append(("Authorization", f"Bearer {self.tokens['acme']}"))
        for _ in range(self.r.choice([0, 0, 1, 3])):
            headers.append((self.r.choice(HEADERS), self.text()))
        if self.r.random() < 0.2:
            headers.pop(self.r.randrange(len(headers)))
        self.r.shuffle(headers)
        line = f"{method} {self.target(path)} {self.r.choice(['HTTP/1.1'] * 9 + ['HTTP/1.0', 'HTTP/9.9', ''])}\r\n"
        data = (line + "".join(f"{n}: {v}\r\n" for n, v in headers) + "\r\n").encode("utf-8", "surrogateescape") + body
        if self.r.random() < 0.1:
            at = self.r.randrange(len(data))
            data = data[:at] + self.r.randbytes(1) + data[at + 1:]
        return data

    def judge(self, data, answer):
        if answer is None:
            return
        status, head, body = answer
        self.seen[status] = self.seen.get(status, 0) + 1
        # It speaks HTTP/1.1; a method that nobody knows is not implemented.
        assert status < 500 or status in (501, 505), (data[:3000], head, body[:1000])
        assert b"x = 'beta'" not in body, (data[:3000], body[:1000])


def test_no_request_is_too_strange():
    policy = {"limits": {"memory": "256M", "timeout": "5s", "idle_timeout": "1m"}}
    d = Daemon(tenants={"acme": {"sessions": 4, "policy": policy}, "beta": {"sessions": 1, "policy": policy}})
    print(f"# seed {SEED}")
    try:
        fuzz, n, until = Fuzz(d), 0, time.monotonic() + SECONDS

        def post(tenant, path, body):
            body = json.dumps(body)
            return fuzz.ask((f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
                             f"Authorization: Bearer {fuzz.tokens[tenant]}\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode())

        made = post("beta", "/sessions", {"session_id": SECRET})
        if made and made[0] == 503:
            raise Skip(made[2].decode())
        post("beta", "/execute", {"session_id": SECRET, "code": "x = 'beta'"})
        while time.monotonic() < until:
            if n % 200 == 0:
                post("acme", "/sessions", {"session_id": "s"})
            data = fuzz.request()
            fuzz.judge(data, fuzz.ask(data))
            n += 1
        print(f"# {n} requests: {dict(sorted(fuzz.seen.items()))}")
        assert d.process.poll() is None
        last = fuzz.ask(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert last is None or last[0] == 200, last
    finally:
        assert d.stop() == 0, "".join(d.log[-20:])


if __name__ == "__main__":
    cbxtest.run(globals())
