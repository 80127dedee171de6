#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Thousands of connections: half open, slow, idle, of one address or one tenant, with bodies and answers that nobody takes.
Whoever behaves is served meanwhile, and memory stays where it is. CBX_CROWD: how many, 10000 if omitted."""
import errno
import os
import re
import resource
import select
import signal
import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common_http import PATIENCE, Client, Daemon, Fixture, Modern, wait_until  # noqa: E402
import cbxtest  # noqa: E402

SANITIZED = bool(os.environ.get("CBX_SANITIZED"))  # freed memory is kept then
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def limits():
    """All the descriptors that we may have; returns how many a crowd may be, for codeboxd has as many at most."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asked = int(os.environ.get("CBX_CROWD") or 10000)
    return asked if hard == resource.RLIM_INFINITY else min(asked, hard - 500)


CROWD = limits()


def same(got, want):
    assert got == want, f"got {got!r}, want {want!r}"


def memory(server):
    with open(f"/proc/{server.pid}/status") as f:
        return int(re.search(r"VmRSS:\s+(\d+) kB", f.read()).group(1)) << 10


def flat(server, before, most):
    grown = memory(server) - before
    print(f"# {grown >> 10} KiB more")
    assert SANITIZED or grown < most, f"{grown >> 20} MiB more than before"


def secured(address="127.0.0.1:0", tenants=("acme", "beta")):
    d = Daemon("--pool", "0", "--zygotes", "0", tenants={name: {"requests_per_second": 100000} for name in tenants},
               address=address)
    d.tokens = {name: d.token(name) for name in tenants}
    return d


def headers(d, tenant):
    return {"Authorization": f"Bearer {d.tokens[tenant]}"}


def served(d, tenant="acme"):
    """On a connection of its own, which comes as any other."""
    c = Modern(d.port, **headers(d, tenant))
    same(c.request("server/discover").status, 200)
    c.close()


def connect(port, source=None):
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE, source_address=(source, 0) if source else None)


def is_open(s):
    s.setblocking(False)
    try:
        return s.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def count_open(crowd):
    return sum(map(is_open, crowd))


def close(crowd):
    for s in crowd:
        s.close()


def test_half_open_and_slow():
    """A token is asked for: who has none says nothing, or a header without end, a byte at a time."""
    d = secured()
    served(d)
    before = memory(d)
    known = Modern(d.port, **headers(d, "acme"))
    crowd = []
    for n in range(CROWD):
        s = connect(d.port)
        if n % 2:
            s.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        crowd.append(s)
        if n % 1000 == 999:
            served(d)
            same(known.request("server/discover").status, 200)  # its connection is still the first one
    for _ in range(3):
        for s in crowd[1::2]:
            try:
                s.send(b"x" * 500)
            except OSError as e:
                assert e.errno in (errno.EPIPE, errno.ECONNRESET), e
        served(d)
        same(known.request("server/discover").status, 200)
    assert count_open(crowd) <= 1024, "places for strangers have no bound"
    flat(d, before, 24 << 20)
    close(crowd)
    served(d)
    same(d.stop(), 0)


def test_bodies_without_authentication():
    """128 bodies of 8 MB: each is refused by its head, and none is kept."""
    d = secured()
    served(d)
    before = memory(d)
    crowd = [connect(d.port) for _ in range(128)]
    piece = b"x" * (1 << 20)
    for s in crowd:
        s.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8388608\r\n\r\n")
        s.setblocking(False)
    most = 0
    for _ in range(8):
        for s in crowd:
            try:
                s.send(piece)
            except OSError:
                pass
        most = max(most, memory(d))
        served(d)
    for s in crowd:
        s.setblocking(True)
        try:
            assert s.recv(100).startswith(b"HTTP/1.1 401 "), "it was not refused"
        except ConnectionResetError:  # with what came after the end
            pass
    print(f"# {most - before >> 10} KiB more at most")
    assert SANITIZED or most - before < 24 << 20, most - before
    # What everybody may ask has no body either.
    a = Client(d.port).send("GET", "x" * 1000, path="/health")
    same((a.status, "no body" in a.body), (413, True))
    close(crowd)
    same(d.stop(), 0)


def test_many_streams():
    """Streams that wait for changes, half as many as the crowd, in less than 20 KB each."""
    d = secured(tenants=[f"t{i}" for i in range(1 + CROWD // 400)])
    names = list(d.tokens)
    served(d, names[0])
    before, streams = memory(d), []
    n = min(CROWD, 10000) // 2
    for i in range(n):
        c = Modern(d.port, **headers(d, names[i // 200]))
        m = c.message("subscriptions/listen", {"notifications": {"resourcesListChanged": True}})
        c.begin("POST", m, **c.routing(m))
        streams.append(c)
    for c in streams:
        assert c.connection.sock.recv(100).startswith(b"HTTP/1.1 200 "), "a stream was refused"
    served(d, names[0])
    flat(d, before, n * 20000)
    same(count_open([c.connection.sock for c in streams]), n)
    for c in streams:
        c.close()
    served(d, names[0])
    same(d.stop(), 0)


def test_one_address():
    """Where others can reach us, one address has few places; those of others stay theirs."""
    d = secured("0.0.0.0:0")
    others = [connect(d.port, "127.0.0.3") for _ in range(10)]
    crowd = [connect(d.port, "127.0.0.2") for _ in range(300)]
    served(d)
    assert wait_until(lambda: count_open(crowd) == 64), count_open(crowd)
    same(count_open(crowd[:236]), 0)  # who has waited longest
    same(count_open(others), 10)
    # Those who have a token count for their address, too.
    ask = b"GET /sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n" % d.tokens["acme"].encode()
    known = []
    for _ in range(230):
        for tenant in ("acme", "beta"):
            s = connect(d.port, "127.0.0.4")
            s.sendall(ask.replace(d.tokens["acme"].encode(), d.tokens[tenant].encode()))
            assert s.recv(4096).startswith(b"HTTP/1.1 200 "), tenant
            known.append(s)
    same(count_open(known), 460)
    more = [connect(d.port, "127.0.0.4") for _ in range(60)]
    served(d)
    assert wait_until(lambda: count_open(known + more) == 512), count_open(known + more)
    same(count_open(known), 460)
    same(count_open(others), 10)
    close(crowd + others + known + more)
    same(d.stop(), 0)


def test_one_tenant():
    """A tenant's idle connections have a bound of their own, and another tenant's stay."""
    d = secured()

    def idle(tenant, n):
        out = []
        for _ in range(n):
            s = connect(d.port)
            s.sendall(f"GET /sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {d.tokens[tenant]}\r\n\r\n".encode())
            assert s.recv(4096).startswith(b"HTTP/1.1 200 "), "it was not served"
            out.append(s)
        return out

    beta, acme = idle("beta", 10), idle("acme", 400)
    assert wait_until(lambda: count_open(acme) == 256), count_open(acme)
    same((count_open(beta), count_open(acme[144:])), (10, 256))
    close(acme + beta)
    same(d.stop(), 0)


def test_bodies_of_one_tenant():
    d = secured()
    served(d)
    before = memory(d)

    def begin(tenant, sent):
        s = connect(d.port)
        s.sendall(f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {d.tokens[tenant]}\r\n"
                  "Content-Type: application/json\r\nContent-Length: 20000000\r\n\r\n".encode())
        s.sendall(b"x" * sent)
        return s

    beta = begin("beta", 4 << 20)
    acme = [begin("acme", 12 << 20) for _ in range(10)]
    served(d)
    assert wait_until(lambda: count_open(acme) <= 4), count_open(acme)
    same((is_open(beta), is_open(acme[-1])), (True, True))
    flat(d, before, 120 << 20)
    close([beta, *acme])
    same(d.stop(), 0)


def test_bodies_that_wait():
    """A file is in memory until its sandbox has taken it. One that takes nothing for a while does not fill codeboxd's."""
    d = secured()
    if not d.box.images():
        raise cbxtest.Skip("there is no image")
    size = 20 << 20
    token = f"Host: localhost\r\nAuthorization: Bearer {d.tokens['acme']}\r\n"

    def put(size):
        s = connect(d.port)
        s.sendall(f"PUT /sessions/s/files/x HTTP/1.1\r\n{token}Content-Length: {size}\r\n\r\n".encode() + b"x" * size)
        return s

    s = connect(d.port)
    s.sendall(f"POST /sessions HTTP/1.1\r\n{token}Content-Type: application/json\r\nContent-Length: 18\r\n\r\n"
              '{"session_id":"s"}'.encode())
    assert b" 200 " in s.recv(10000)
    inits = cbxtest.named(d.pid, "codebox-init")
    assert inits, "there is no init"
    before = memory(d)
    for pid in inits:
        os.kill(pid, signal.SIGSTOP)
    try:
        waiting = [put(size) for _ in range(3)]
        assert wait_until(lambda: memory(d) - before > 3 * size), "they are not there"
        for _ in range(5):
            late = put(size)
            got = late.recv(10000)
            assert got.startswith(b"HTTP/1.1 429 ") and b"Retry-After: " in got, got
            late.close()
        waiting.append(put(10))  # what is small waits with them
        served(d)
        flat(d, before, 120 << 20)
    finally:
        for pid in inits:
            os.kill(pid, signal.SIGCONT)
    for s in waiting:
        got = s.recv(10000)
        assert got.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 201 ")), got
    s = put(size)
    assert s.recv(10000).startswith(b"HTTP/1.1 200 "), "its place was not given back"
    close([s, *waiting])
    same(d.stop(), 0)


def test_answers_not_taken():
    """Neither who asks again and again without reading, nor many who ask for much, fill the memory."""
    d = secured()
    served(d)
    before = memory(d)
    crowd = []
    for _ in range(50):
        s = connect(d.port)
        s.setblocking(False)
        try:
            while s.send(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000):
                pass
        except BlockingIOError:
            pass
        crowd.append(s)
    served(d)
    flat(d, before, 32 << 20)
    # Whoever reads gets all that was asked for.
    s = crowd[0]
    got = b""
    while got.count(b"HTTP/1.1 200 ") < 20:
        select.select([s], [], [], PATIENCE)
        got += s.recv(1 << 20)
    close(crowd)
    same(d.stop(), 0)
    f = Fixture()
    before, crowd = memory(f), []
    for _ in range(500):
        c = Modern(f.port)
        c.open().connect()
        c.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        m = c.message("tools/call", {"name": "large", "arguments": {}})
        c.begin("POST", m, **c.routing(m))
        crowd.append(c)
    same(Modern(f.port).call("test_simple_text").status, 200)
    flat(f, before, 256 << 20)

    # Some were cut off, and who was not gets all of the answer.
    watch = select.poll()
    for c in crowd:
        watch.register(c.connection.sock, select.POLLRDHUP)
    cut = {fd for fd, _ in watch.poll(0)}
    assert 200 < len(cut) < 450, len(cut)
    left = next(c for c in crowd if c.connection.sock.fileno() not in cut)
    assert len(left.connection.getresponse().read()) > 800 << 10, "an answer is not whole"
    for c in crowd:
        c.close()
    same(f.stop(), 0)


if __name__ == "__main__":
    cbxtest.run(globals())
