#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Databases behind TLS: with "verify", a server whose certificate comes from nobody that is trusted, or is another host's,
gets no password. SQL Server is played as far as its handshake goes; what its driver does with a certificate is real."""
import json
import os
import socket
import ssl
import struct
import sys
import threading
from pathlib import Path

tests = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(tests / "lib"), str(tests / "http")]
from cbxtest import Box, run, wait_until  # noqa: E402
from common_http import certificate  # noqa: E402
from control import Control  # noqa: E402
from databases import PASSWORD, MariaDB, PostgreSQL, Relay  # noqa: E402

box = Box(CODEBOX_POOL="0", SHOP_PASSWORD=PASSWORD)
trusted, key = certificate(os.path.join(box.dir, "server"))
stranger, _ = certificate(os.path.join(box.dir, "stranger"))
for path in box.dir, trusted, stranger:
    os.chmod(path, os.stat(path).st_mode | 0o055 if os.path.isdir(path) else 0o644)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class SQLServer:
    """One that asks for encryption, and then waits for the packet in which user and password are."""

    def __init__(self):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(trusted, key)
        self.context.maximum_version = ssl.TLSVersion.TLSv1_2
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.seen, self.begun = [], False

    def begin(self):
        """In the process of the tests, which is another than the one that has loaded them."""
        if not self.begun:
            threading.Thread(target=self.accept, daemon=True).start()
        self.begun = True

    def accept(self):
        while True:
            c = self.socket.accept()[0]
            try:
                self.seen.append(self.talk(c))
            except (OSError, EOFError) as e:
                self.seen.append(e)
            c.close()

    @staticmethod
    def packet(c):
        head = c.recv(8, socket.MSG_WAITALL)
        if len(head) < 8:
            raise EOFError("the client left")
        return head[0], c.recv(struct.unpack(">H", head[2:4])[0] - 8, socket.MSG_WAITALL)

    @staticmethod
    def send(c, kind, data):
        c.sendall(struct.pack(">BBHHBB", kind, 1, len(data) + 8, 0, 1, 0) + data)

    def talk(self, c):
        kind, _ = self.packet(c)
        assert kind == 0x12, kind
        # Two options: the version, and that encryption is required.
        self.send(c, 4, struct.pack(">BHHBHHB", 0, 11, 6, 1, 17, 1, 0xff) + bytes([15, 0, 0, 0, 0, 0, 3]))
        got, out = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self.context.wrap_bio(got, out, server_side=True)
        while True:
            try:
                tls.do_handshake()
                done = True
            except ssl.SSLWantReadError:
                done = False
            if out.pending:
                self.send(c, 0x12, out.read())
            if done:
                break
            got.write(self.packet(c)[1])
        while True:
            try:
                return tls.read(4096)[:1]
            except ssl.SSLWantReadError:
                data = c.recv(65536)
                if not data:
                    raise EOFError("the client left after the handshake")
                got.write(data)


pg = PostgreSQL(trusted, key, free_port())
my = MariaDB(trusted, key)
ms = SQLServer()
pg.sql("CREATE DATABASE shop")
pg.sql("CREATE ROLE reader LOGIN PASSWORD '%s'" % PASSWORD.replace("'", "''"))
quoted = PASSWORD.replace("\\", "\\\\").replace("'", "\\'")
my.sql(f"CREATE DATABASE shop; CREATE USER reader@localhost IDENTIFIED BY '{quoted}'; GRANT SELECT ON shop.* TO reader@localhost")
relay = Relay(None, my.socket)

SERVERS = {"pg": {"type": "postgresql", "port": pg.port}, "my": {"type": "mysql", "port": relay.port},
           "ms": {"type": "sqlserver", "port": ms.port}}
WAYS = {"verified": {"tls": "verify", "ca": trusted}, "stranger": {"tls": "verify", "ca": stranger}, "machine": {"tls": "verify"},
        "required": {"tls": "require"}}
connections = {f"{name}-{way}": {**server, "server": "localhost", "database": "shop", "user": "reader",
                                 "password": {"environment": "SHOP_PASSWORD"}, **how}
               for name, server in SERVERS.items() for way, how in WAYS.items()}
# It is its address that the certificate does not have.
connections |= {f"{name}-other": {**connections[f"{name}-verified"], "server": "127.0.0.2"} for name in ("my", "ms")}
policy = os.path.join(box.dir, "policy.json")
with open(policy, "w") as f:
    json.dump({"include": ["default"], "sql": {"connections": connections}}, f)
box.env["CODEBOX_POLICY"] = policy


def ask(connection, query="SELECT 1"):
    ms.begin()
    with Control(box) as c:
        c.send("sql", connection=connection, code=query)
        said = c.recv()
        return said.get("result") or said["error"]


def logged_in():
    """What the last client of the SQL Server that is not one did."""
    assert wait_until(lambda: ms.seen, 60)
    return ms.seen.pop()


def test_a_certificate_of_a_trusted_authority():
    used = "SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
    assert ask("pg-verified", used)["rows"] == [["TLSv1.3"]], ask("pg-verified", used)
    a = ask("my-verified", "SELECT variable_value FROM information_schema.session_status WHERE variable_name = 'SSL_VERSION'")
    assert a.get("rows") == [["TLSv1.3"]], a
    a = ask("ms-verified")
    assert a["kind"] == "connection_failed", a  # there is nobody behind it
    assert logged_in() == b"\x10", a


def test_encrypted_alone():
    assert ask("pg-required")["rows"] == ask("my-required")["rows"] == [[1]]
    a = ask("ms-required")
    assert logged_in() == b"\x10", a


def test_a_stranger_gets_no_password():
    for name in SERVERS:
        for way in "stranger", "machine":
            a = ask(f"{name}-{way}")
            assert a.get("kind") == "connection_failed", (name, way, a)
            if name == "ms":
                assert logged_in() != b"\x10", way
            else:
                assert "certificate" in a["message"], (name, way, a)


def test_another_host_gets_no_password():
    for name, listener in ("ms", ms.socket), ("my", relay.socket):
        with socket.create_server(("127.0.0.2", listener.getsockname()[1])) as door:
            threading.Thread(target=carry, args=(door, listener.getsockname()), daemon=True).start()
            a = ask(f"{name}-other")
            assert a.get("kind") == "connection_failed", (name, a)
            if name == "ms":
                assert logged_in() != b"\x10"
            else:
                assert "TLS/SSL error" in a["message"] or "certificate" in a["message"], a


def carry(door, target):
    """What comes in at another address goes where the server is."""
    try:
        here = door.accept()[0]
    except OSError:
        return
    there = socket.create_connection(target)
    for a, b in (here, there), (there, here):
        threading.Thread(target=pump, args=(a, b), daemon=True).start()


def pump(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def test_the_policy_names_an_authority_rightly():
    for bad, why in (({"ca": "server.pem", "tls": "verify"}, "absolute path"), ({"ca": "/a b", "tls": "verify"}, "without spaces"),
                     ({"ca": trusted, "tls": "require"}, "goes with"), ({"ca": 7, "tls": "verify"}, "absolute path")):
        path = os.path.join(box.dir, "bad.json")
        with open(path, "w") as f:
            json.dump({"sql": {"connections": {"a": {"type": "postgresql", "server": "h", "database": "d", "user": "u", **bad}}}}, f)
        r = box("policy", "check", path)
        assert r.returncode == 1 and why in r.stderr, (bad, r.stdout, r.stderr)


if __name__ == "__main__":
    run(globals())
