#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server that says it is PostgreSQL and keeps to the protocol as far as it likes: each query has an answer or an error, in time, and
codeboxd stays."""
import json
import os
import random
import socket
import struct
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, run  # noqa: E402
from control import Control  # noqa: E402

INT4, TEXT, STRANGE = 23, 25, 424242


def message(kind, body=b""):
    return kind + struct.pack("!i", len(body) + 4) + body


def description(columns):
    """(name, type, modifier) of each."""
    body = b"".join(name + b"\0" + struct.pack("!ihihih", 0, 0, oid, -1, modifier, 0) for name, oid, modifier in columns)
    return message(b"T", struct.pack("!h", len(columns)) + body)


def row(values):
    body = b"".join(struct.pack("!i", -1) if v is None else struct.pack("!i", len(v)) + v for v in values)
    return message(b"D", struct.pack("!h", len(values)) + body)


READY, DONE = message(b"Z", b"T"), message(b"C", b"SELECT 1\0")


class Server:
    """Everything up to the query as a server says it; then what `behave` says of it."""

    def __init__(self, behave):
        self.behave = behave
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                c = self.socket.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.talk, args=(c,), daemon=True).start()

    def talk(self, c):
        f = c.makefile("rb")
        try:
            n, = struct.unpack("!i", f.read(4))
            if struct.unpack("!i", f.read(n - 4)[:4])[0] == 80877102:  # to cancel
                return
            c.sendall(message(b"R", struct.pack("!i", 0)) + message(b"S", b"server_version\x0015.0\0") + message(b"S", b"client_encoding\0UTF8\0") +
                      message(b"K", struct.pack("!ii", 1, 2)) + READY)
            while kind := f.read(1):
                body = f.read(struct.unpack("!i", f.read(4))[0] - 4)
                answer = self.usual(kind, body) or self.behave(kind, body)
                while callable(answer):
                    answer = answer(c)
                c.sendall(answer)
        except (OSError, struct.error):
            pass
        finally:
            c.close()

    @staticmethod
    def usual(kind, body):
        if kind != b"Q":
            return None
        if body.startswith((b"SELECT set_config", b"SET ", b"BEGIN")):
            return message(b"C", b"SET\0") + READY
        if b"'mighty'" in body:
            return description([(b"x", TEXT, -1)]) + message(b"C", b"SELECT 0\0") + READY
        if b"transaction_read_only" in body:
            return description([(b"x", TEXT, -1)]) + row([b"on"]) + DONE + READY
        return None

    def end(self):
        self.socket.close()


def extended(columns, rows, **more):
    """As of PQprepare, PQdescribePrepared and the query itself."""
    state = {"parsed": False}

    def behave(kind, body):
        if kind == b"P":
            return message(b"1")
        if kind == b"D":
            return (message(b"t", struct.pack("!h", 0)) if body[:1] == b"S" else b"") + description(columns)
        if kind == b"B":
            return message(b"2")
        if kind == b"E":
            return b"".join(rows) + DONE
        if kind == b"S":
            return READY
        if kind == b"Q" and b"pg_type" in body:
            return more.get("types", description([]) + row([]) + DONE + READY)
        if kind == b"Q" and body.startswith(b"COPY"):
            return more.get("copy", READY)
        return READY
    return behave


A = (b"a", INT4, -1)
COPIED = message(b"H", struct.pack("!bhh", 0, 1, 0))  # text, of one column
FIELD = message(b"d", b"1\n")
BEHAVIOURS = {
    # name: (behaviour, what is in the answer of a query, what is in that of one into a file)
    "good": (extended([A], [row([b"1"])], copy=COPIED + FIELD + message(b"c") + message(b"C", b"COPY 1\0") + READY), "1", "row_count"),
    "fewer": (extended([A, A, A], [row([b"1"])], copy=COPIED + FIELD + message(b"c") + message(b"C", b"COPY 1\0") + READY), "query_failed", "row_count"),
    "more": (extended([A], [row([b"1", b"2"])], copy=message(b"G", struct.pack("!bhh", 0, 1, 0)) + READY), "query_failed", "query_failed"),
    "negative": (extended([(b"n", 1700, -2 ** 31), (b"m", 1700, 2 ** 31 - 1), (b"b", 17, 7), (b"t", 16, 0)], [row([b"1", b"2", b"\\", b""])],
                          copy=description([A]) + row([b"1"]) + DONE + READY), "row_count", "query_failed"),
    "strange": (extended([(b"s", STRANGE, -1)], [row([b"1"])]), "row_count", "query_failed"),
    "unnamed": (extended([(b"\xff\xfe" * 3000, STRANGE, -1), (b"", INT4, -1)], [row([b"\xff\x00", None])]), "row_count", "query_failed"),
    "wide": (extended([A] * 2000, []), "columns", "columns"),
    "none": (extended([], [row([])]), "columns", "columns"),
    "endless": (extended([A], [], copy=lambda c: c.sendall(COPIED) or (lambda c: endless(c, FIELD * 1000))), "row_count", "result_too_large"),
    "huge": (extended([A], [b"D" + struct.pack("!i", 2 ** 31 - 1) + b"x" * 100], copy=COPIED + b"d" + struct.pack("!i", 2 ** 31 - 1)), "", ""),
    "wrong": (extended([A], [b"\0" * 50], copy=b"?" * 50), "query_failed", "query_failed"),
    "silent": (lambda kind, body: b"", "timeout", "timeout"),
    "closes": (lambda kind, body: lambda c: c.shutdown(socket.SHUT_RDWR) or b"", "query_failed", "query_failed"),
}


def endless(c, piece):
    while True:
        c.sendall(piece)


def endless_rows(kind, body):
    usual = extended([A], [], copy=BEHAVIOURS["endless"][0](b"Q", b"COPY"))
    return (lambda c: endless(c, row([b"1"]) * 1000)) if kind == b"E" else usual(kind, body)


def serve(behaviours, **sql):
    """A codeboxd with a connection for each."""
    servers = {name: Server(behave) for name, behave in behaviours.items()}
    b = Box(CODEBOX_POOL="0", SHOP_PASSWORD="x")
    b.env["CODEBOX_POLICY"] = os.path.join(b.dir, "policy.json")
    with open(b.env["CODEBOX_POLICY"], "w") as f:
        json.dump({"include": ["default"], "sql": {"query_timeout": "2s", "rows": 50000, "connections": {
            name: {"type": "postgresql", "server": "127.0.0.1", "port": s.port, "database": "shop", "user": "reader", "tls": "off",
                   "password": {"environment": "SHOP_PASSWORD"}} for name, s in servers.items()}}}, f)
    b("run", "--image", b.image("python", "python-minimal"), "--session", "s", "-c", "pass", check=True)
    return b, servers


def ask(b, name, **params):
    with Control(b) as c:
        want = c.send("sql", connection=name, code="SELECT 1", **params)
        while True:
            said = c.recv()
            if said.get("id") == want:
                return said.get("result") or said["error"]


def test_what_a_server_should_not_say():
    behaviours = {name: behave for name, (behave, _, _) in BEHAVIOURS.items()}
    behaviours["endless"] = endless_rows
    b, servers = serve(behaviours)
    pid = b.daemon_pid()
    for name, (_, answer, in_file) in BEHAVIOURS.items():
        a = ask(b, name)
        assert answer in json.dumps(a) and ("kind" in a or "rows" in a), (name, a)
        a = ask(b, name, session_id="s", path=name + ".csv")
        assert in_file in json.dumps(a) and ("kind" in a or a["delivery"] == "file"), (name, a)
        schema = b("sql", "--schema", name)
        assert schema.returncode in (0, 1), (name, schema)
    assert b.daemon_pid() == pid
    assert b("run", "--session", "s", "-c", "import os; print(sorted(os.listdir()))").stdout.strip() == "['fewer.csv', 'good.csv']"  # what is in lines is the server's
    for s in servers.values():
        s.end()
    b("stop")


def test_bytes_by_chance():
    """Good answers of which some bytes are others."""
    good, seeds = BEHAVIOURS["good"][0], range(int(os.environ.get("CBX_SQL_SEEDS", "20")))

    def broken(seed):
        chance = random.Random(seed)

        def behave(kind, body):
            answer = bytearray(good(kind, body))
            for _ in range(chance.choice((0, 0, 1, 3)) if answer else 0):
                answer[chance.randrange(len(answer))] = chance.choice((0, 255, chance.randrange(256)))
            return bytes(answer)
        return behave

    b, servers = serve({f"s{seed}": broken(seed) for seed in seeds})
    pid, ends = b.daemon_pid(), {}
    with ThreadPoolExecutor(4) as pool:  # a stalled one costs seconds
        answers = pool.map(lambda q: ask(b, q[0], **q[1]), [(name, params) for name in servers for params in (
            {}, {"session_id": "s", "path": name + ".csv"})])
    for a in answers:
        assert "kind" in a or "row_count" in a, a
        ends[a.get("kind")] = ends.get(a.get("kind"), 0) + 1
    assert b.daemon_pid() == pid and None in ends and "query_failed" in ends, ends
    assert not set(ends) - {None, "query_failed", "connection_failed", "timeout", "unsafe_user", "result_too_large"}, ends
    print("# " + ", ".join(f"{kind or 'answers'}: {n}" for kind, n in ends.items()), flush=True)
    for s in servers.values():
        s.end()
    b("stop")


if __name__ == "__main__":
    run(globals())
