#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What HTTP costs, and many tenants at once. See README.md beside this file.

    make served                                             requests, warm cells, 10 tenants with 5 sessions each
    served.py --tenants 100 --sessions 10 --cells 200       1,000 sessions with pandas
    served.py --only requests

Every answer is checked. Figures are medians, and ratios of two that were measured in turn; none is judged.
"""
import argparse
import http.client
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[0:0] = [os.path.join(HERE, "..", "lib"), os.path.join(HERE, "..", "http")]
from cbxtest import CODEBOX, children  # noqa: E402
from common_http import Daemon  # noqa: E402

VERSION = "2025-11-25"
HELLO = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "served", "version": "1"}}
POLICY = {"limits": {"memory": "256M", "sessions": 4096, "timeout": "20m"}}


class Stdio:
    def __init__(self, d):
        self.p = subprocess.Popen([CODEBOX, "mcp"], env=d.box.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ask("initialize", HELLO)
        self.p.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def ask(self, method, params):
        self.p.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) + "\n")
        self.p.stdin.flush()
        while True:
            m = json.loads(self.p.stdout.readline())
            if m.get("id") == 1:
                return m["result"]

    def stop(self):
        self.p.stdin.close()
        self.p.wait()


class Kept:
    """One connection that is kept."""

    def __init__(self, d, token):
        self.c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=1200)
        self.used = 0
        self.headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
                        "Authorization": f"Bearer {token}"}

    def send(self, method, path, body=None):
        if time.monotonic() - self.used > 45:  # codeboxd ends an idle one after a minute; the next request connects again
            self.c.close()
        self.used = time.monotonic()
        self.c.request(method, path, body and json.dumps(body), self.headers)
        r = self.c.getresponse()
        data = r.read().decode()
        assert r.status < 300, (r.status, data)
        return r, data

    def hello(self):
        r, _ = self.send("POST", "/mcp", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO})
        self.headers.update({"Mcp-Session-Id": r.headers["Mcp-Session-Id"], "MCP-Protocol-Version": VERSION})
        self.send("POST", "/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def ask(self, method, params):
        r, data = self.send("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        if r.headers["Content-Type"].startswith("text/event-stream"):
            data = [line[5:] for line in data.splitlines() if line.startswith("data:") and line[5:].strip()][-1]
        return json.loads(data)["result"]


class Plain:
    """The same by a socket alone: http.client takes longer for an answer than codeboxd."""

    def __init__(self, d, token):
        headers = {"Host": f"127.0.0.1:{d.port}", **Kept(d, token).hello().headers}
        self.head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.socket = socket.create_connection(("127.0.0.1", d.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, method, params):
        body, got = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}), b""
        self.socket.sendall(f"POST /mcp HTTP/1.1\r\n{self.head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        while True:
            piece = self.socket.recv(1 << 16)
            assert piece, got
            got += piece
            head, _, answer = got.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)\r\ncontent-length: (\d+)\r\n", head + b"\r\n")
            if length and len(answer) >= int(length[1]):
                return json.loads(answer)["result"]


def cell(client, session=None, code="6*7", want="42"):
    arguments = {"code": code, **({"session_id": session} if session else {})}
    r = client.ask("tools/call", {"name": "run_code", "arguments": arguments})
    assert not r["isError"] and want in json.dumps(r), r


def requests(d, seconds):
    """Trivial ones a second, with codeboxd on one processor and the clients on the others, as they come from 4 connections."""
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(d.pid, cpus[:1])
    counts, at_once = [0] * 4, 32
    data = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * at_once

    def ask(i):
        with socket.create_connection(("127.0.0.1", d.port)) as s:
            while time.monotonic() < until:
                s.sendall(data)
                got = b""
                while got.count(b"HTTP/1.1 200") < at_once or not got.endswith(b"}"):
                    piece = s.recv(1 << 16)
                    assert piece, got[-500:]
                    got += piece
                counts[i] += at_once

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
    begun = cpu_of(d.pid)
    until = time.monotonic() + seconds
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    used = cpu_of(d.pid) - begun
    os.sched_setaffinity(d.pid, cpus)
    print(f"requests: {sum(counts) / seconds:,.0f} a second, {sum(counts) / used:,.0f} for each second of codeboxd's processor time")


def cpu_of(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def warm(d, token, rounds):
    """A cell in a session that waits: MCP over stdio and over HTTP in turn."""
    times = {"stdio": [], "HTTP": []}
    clients = {"stdio": Stdio(d), "HTTP": Plain(d, token)}
    for i in range(rounds + 5):
        for name, client in clients.items():
            begun = time.perf_counter()
            cell(client)
            if i >= 5:
                times[name].append((time.perf_counter() - begun) * 1000)
    clients["stdio"].stop()
    a, b = (statistics.median(times[n]) for n in ("stdio", "HTTP"))
    print(f"warm cell: {a:.2f} ms over stdio, {b:.2f} ms over HTTP: {b - a:+.2f} ms, {b / a:.2f} times")


def many(d, tokens, sessions, cells, seconds):
    """Cells a second, spread over all sessions of all tenants, each with pandas loaded."""
    clients = [(Kept(d, token).hello(), f"s{i}") for token in tokens for i in range(sessions)]
    begun = time.monotonic()
    for client, session in clients:
        client.ask("tools/call", {"name": "create_session", "arguments": {"session_id": session}})
        cell(client, session, "import pandas as pd; x = 42; x")
    print(f"{len(clients)} sessions of {len(tokens)} tenants with pandas, made in {time.monotonic() - begun:.1f} s")
    took, late, lock = [], [0], threading.Lock()
    workers = min(32, len(clients))
    start = time.monotonic()

    def work(k):
        mine, n = clients[k::workers], 0
        while time.monotonic() < start + seconds:
            due = start + (n * workers + k) / cells
            time.sleep(max(0, due - time.monotonic()))
            client, session = mine[n % len(mine)]
            at = time.perf_counter()
            cell(client, session, "x")
            with lock:
                took.append((time.perf_counter() - at) * 1000)
                late[0] += time.monotonic() - due > 1
            n += 1

    threads = [threading.Thread(target=work, args=(k,)) for k in range(workers)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    q = statistics.quantiles(took, n=100)
    pss = sum(pss_of(p) for p in children(d.pid))
    print(f"{len(took) / seconds:.0f} cells a second of {cells}: median {q[49]:.2f} ms, p99 {q[98]:.2f} ms, "
          f"{q[98] / q[49]:.1f} times; {late[0]} began a second late; {pss / len(clients) / 1048576:.1f} MiB for each session")


def pss_of(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            return sum(int(line.split()[1]) * 1024 for line in f if line.startswith("Pss:"))
    except OSError:
        return 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tenants", type=int, default=10)
    p.add_argument("--sessions", type=int, default=5, help="of each tenant")
    p.add_argument("--cells", type=float, default=50, help="a second, of all")
    p.add_argument("--seconds", type=float, default=10)
    p.add_argument("--only", choices=["requests", "warm", "many"])
    o = p.parse_args()
    os.environ["CODEBOX_ZYGOTES"] = "1"
    with tempfile.NamedTemporaryFile("w", suffix=".json") as policy:
        json.dump(POLICY, policy)
        policy.flush()
        os.chmod(policy.name, 0o644)
        d = Daemon("--http-rate", "1000000", "--policy", policy.name, tenants={f"t{i}": {} for i in range(o.tenants)})
    tokens = [d.token(f"t{i}") for i in range(o.tenants)]
    try:
        if o.only in (None, "requests"):
            requests(d, o.seconds)
        if o.only in (None, "warm"):
            warm(d, tokens[0], 200)
        if o.only in (None, "many"):
            many(d, tokens, o.sessions, o.cells, o.seconds)
    finally:
        assert d.stop() == 0


if __name__ == "__main__":
    main()
