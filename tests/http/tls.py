#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TLS of codeboxd --http, with curl, openssl s_client and Python's ssl: versions, certificates, a new key by SIGHUP, clients'
certificates, and who can read the key. tests/http/tls_sdk.py has the MCP SDK."""
import json
import os
import re
import resource
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common_http import DAEMON, PATIENCE, Daemon, Skip, certificate, let_service_read, openssl, wait_until  # noqa: E402
import cbxtest  # noqa: E402

box = cbxtest.Box()
servers = {}


def same(got, want):
    assert got == want, f"got {got!r}, want {want!r}"


def at(name):
    return os.path.join(box.dir, name)


def make(name, *args):
    return certificate(at(name), *args)


def daemon():
    if "daemon" not in servers:
        if not shutil.which("curl"):
            raise Skip("there is no curl")
        pem, key = make("server")
        servers["daemon"] = d = Daemon("--http-certificate", pem, "--http-key", key, "--pool", "0", tenants={"acme": {}})
        d.secret = d.token("acme")
    return servers["daemon"]


def curl(d, *args, path="/health", ca="server"):
    return subprocess.run(["curl", "-sS", "--noproxy", "*", "--cacert", at(ca + ".pem"), "-H",
                           f"Authorization: Bearer {d.secret}", *args, f"https://localhost:{d.port}{path}"],
                          capture_output=True, text=True, timeout=PATIENCE)


def test_curl():
    d = daemon()
    assert d.url.startswith("https://"), d.url
    r = curl(d, "-w", "%{http_code} %{ssl_verify_result}")
    assert r.returncode == 0 and r.stdout.endswith("200 0"), r
    made = json.loads(curl(d, "--json", "{}", path="/sessions").stdout)
    # A body of some megabytes, in as many records, and back.
    with open(at("large"), "wb") as f:
        f.write(os.urandom(5 << 20))
    session = made["session_id"]
    r = curl(d, "-T", at("large"), path=f"/sessions/{session}/files/large", *["-w", "%{http_code}"])
    assert r.returncode == 0 and r.stdout[-3:] in ("200", "201"), r
    curl(d, "-o", at("back"), path=f"/sessions/{session}/files/large")
    same(Path(at("back")).read_bytes(), Path(at("large")).read_bytes())
    # The key is not where a session could see it, nor is there a way to mount its directory.
    r = curl(d, "--json", json.dumps({"session_id": session, "code": f"open({at('server.key')!r})"}), path="/execute")
    ident = json.loads(r.stdout)["request_id"]
    assert wait_until(lambda: "FileNotFoundError" in curl(d, path=f"/execute/{ident}/results").stdout), r
    curl(d, "-X", "DELETE", path=f"/sessions/{session}")


def test_versions():
    d = daemon()
    for option, accepted in [("-tls1_3", True), ("-tls1_2", True), ("-tls1_1", False), ("-tls1", False)]:
        r = subprocess.run(["openssl", "s_client", option, "-cipher", "DEFAULT:@SECLEVEL=0", "-connect",
                            f"127.0.0.1:{d.port}", "-CAfile", at("server.pem"), "-brief"], input="", capture_output=True,
                           text=True, timeout=PATIENCE)
        same((option, "CONNECTION ESTABLISHED" in r.stderr), (option, accepted))
        if not accepted:
            assert "alert protocol version" in r.stderr, r.stderr
    # What is not TLS is not answered, and another client is.
    with socket.create_connection(("127.0.0.1", d.port), timeout=PATIENCE) as s:
        s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try:
            assert not s.recv(100).startswith(b"HTTP"), "plain text was answered"
        except ConnectionResetError:
            pass
    same(curl(d).returncode, 0)


def test_connections():
    """Kept for the next request, streamed, and ended in good order."""
    d = daemon()
    context = ssl.create_default_context(cafile=at("server.pem"))
    head = f"Host: localhost\r\nAuthorization: Bearer {d.secret}\r\n"
    with context.wrap_socket(socket.create_connection(("127.0.0.1", d.port), timeout=PATIENCE),
                             server_hostname="localhost", suppress_ragged_eofs=False) as s:
        for _ in range(3):
            s.sendall(f"GET /version HTTP/1.1\r\n{head}\r\n".encode())
            assert s.recv(65536).startswith(b"HTTP/1.1 "), "no answer"
        s.sendall(f"GET /health HTTP/1.1\r\n{head}Connection: close\r\n\r\n".encode())
        got = b""
        while chunk := s.recv(65536):  # an end without close_notify would be an error
            got += chunk
        assert got.startswith(b"HTTP/1.1 200 "), got


def memory(d):
    with open(f"/proc/{d.pid}/status") as f:
        return int(re.search(r"VmRSS:\s+(\d+) kB", f.read()).group(1)) << 10


def open_ones(crowd):
    def is_open(s):
        s.setblocking(False)
        try:
            while s.recv(10000):  # the server's part of a handshake
                pass
            return False
        except BlockingIOError:
            return True
        except OSError:
            return False
    return sum(map(is_open, crowd))


def test_handshakes_that_do_not_end():
    """Those who say nothing, begin a handshake a byte at a time, or leave it after the server's part keep nobody out, and
    are in the places of strangers."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    d = daemon()
    curl(d)
    before = memory(d)
    context = ssl.create_default_context(cafile=at("server.pem"))
    known = context.wrap_socket(socket.create_connection(("127.0.0.1", d.port), timeout=PATIENCE), server_hostname="localhost")
    ask = f"GET /sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {d.secret}\r\n\r\n".encode()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        pass
    hello, crowd = outgoing.read(), []
    for n in range(min(6000, hard - 500) if hard != resource.RLIM_INFINITY else 6000):
        s = socket.create_connection(("127.0.0.1", d.port), timeout=PATIENCE)
        crowd.append(s)
        try:
            s.sendall((b"", hello[:7], hello)[n % 3])
        except OSError:
            pass
        if n % 500 == 499:
            known.sendall(ask)
            assert known.recv(65536).startswith(b"HTTP/1.1 200 "), "who was there before is not served"
            same(curl(d).returncode, 0)
    for s in crowd:
        try:
            s.send(hello[7:8])
        except OSError:
            pass
    same(curl(d).returncode, 0)
    left = open_ones(crowd)
    grown = memory(d) - before
    print(f"# {left} are left, {grown >> 10} KiB more")
    assert left <= 1024, left
    assert os.environ.get("CBX_SANITIZED") or grown < 96 << 20, f"{grown >> 20} MiB more than before"
    assert wait_until(lambda: open_ones(crowd) == 0), "a handshake that does not end is not ended"
    same(curl(d).returncode, 0)
    for s in crowd:
        s.close()
    known.close()


class Relay:
    """Between a client and codeboxd; when `deaf`, the client gets nothing more. `ended`: codeboxd ended the connection."""

    def __init__(self, port):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port, self.to = self.listener.getsockname()[1], port
        self.deaf, self.ended, self.got = False, threading.Event(), 0
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        client = self.listener.accept()[0]
        server = socket.create_connection(("127.0.0.1", self.to))
        threading.Thread(target=self.move, args=(client, server), daemon=True).start()
        self.move(server, client)
        self.ended.set()

    def move(self, a, b):
        try:
            while data := a.recv(65536):
                if not (self.deaf and b.getsockname()[1] == self.port):
                    b.sendall(data)
        except OSError:
            pass


class Client:
    """openssl s_client, whose commands begin another handshake, or change keys; it has asked once."""

    def __init__(self, d, version):
        self.relay = Relay(d.port)
        self.process = subprocess.Popen(
            ["openssl", "s_client", version, "-connect", f"127.0.0.1:{self.relay.port}", "-CAfile", at("server.pem"), "-crlf"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.out = b""
        threading.Thread(target=self.read, daemon=True).start()
        self.answers(d, 1)

    def read(self):
        while data := os.read(self.process.stdout.fileno(), 65536):
            self.out += data

    def say(self, text):
        os.write(self.process.stdin.fileno(), text.encode())

    def answers(self, d, n):
        self.say(f"GET /sessions HTTP/1.1\nHost: localhost\nAuthorization: Bearer {d.secret}\n\n")
        assert wait_until(lambda: self.out.count(b"HTTP/1.1 200 ") == n), self.out

    def commands(self, letter, n):
        """One at a time: it takes the first character of what it reads."""
        for _ in range(n):
            if self.process.poll() is None and not self.relay.ended.is_set():
                try:
                    self.say(letter + "\n")
                except BrokenPipeError:
                    return
                time.sleep(0.02)

    def end(self):
        self.process.kill()
        self.process.wait()


def test_handshakes_again():
    """Another handshake, or keys changed without end, would have codeboxd work for who has no token. The connection ends."""
    d = daemon()
    c = Client(d, "-tls1_2")
    c.relay.deaf = True  # it would end the connection by itself when it is refused
    c.commands("R", 1)
    assert c.relay.ended.wait(30), "a second handshake did not end the connection"
    c.end()
    c = Client(d, "-tls1_3")
    c.commands("k", 20)
    c.answers(d, 2)  # some changes are fine
    c.commands("k", 100)
    assert c.relay.ended.wait(30), "100 changes of keys did not end the connection"
    c.end()
    same(curl(d).returncode, 0)


def test_a_new_certificate():
    d = daemon()
    context = ssl.create_default_context(cafile=at("server.pem"))
    with context.wrap_socket(socket.create_connection(("127.0.0.1", d.port), timeout=PATIENCE),
                             server_hostname="localhost") as old:
        same(any("--http-key: a new " in line for line in d.log), os.getuid() == 0)
        let_service_read(d, at("server.pem"), at("server.key"))
        pem, key = make("next")
        shutil.copy(at("server.pem"), at("first.pem"))
        shutil.copy(pem, at("server.pem"))
        let_service_read(d, at("server.pem"))
        d.log.clear()
        d.reload()  # the key is still the old one
        assert wait_until(lambda: any("stay as they were" in line and "--http-key" in line for line in d.log)), d.log
        same(curl(d, ca="first").returncode, 0)
        dated("old", "2019", "2020")
        os.rename(at("old.pem"), at("server.pem"))
        os.rename(at("old.key"), at("server.key"))
        let_service_read(d, at("server.pem"), at("server.key"))
        d.reload()
        assert wait_until(lambda: any("it has expired at 2020" in line for line in d.log)), d.log
        same(curl(d, ca="first").returncode, 0)
        os.rename(at("next.pem"), at("server.pem"))
        os.rename(at("next.key"), at("server.key"))
        let_service_read(d, at("server.pem"), at("server.key"))
        d.reload()
        assert wait_until(lambda: any("certificate and key were read again" in line for line in d.log)), d.log
        same(curl(d).returncode, 0)
        same(curl(d, ca="first").returncode, 60)
        old.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")  # it keeps what it began with
        assert old.recv(65536).startswith(b"HTTP/1.1 200 "), "a connection from before is not served"


def test_clients_certificates():
    pem, key = make("authority", "-addext", "keyUsage=critical,keyCertSign")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=client", "-keyout",
            at("client.key"), "-out", at("client.csr"))
    openssl("x509", "-req", "-in", at("client.csr"), "-CA", pem, "-CAkey", key, "-days", "2", "-out", at("client.pem"))
    make("server"), make("stranger")
    d = Daemon("--http-certificate", at("server.pem"), "--http-key", at("server.key"), "--http-client-ca", pem, "--pool", "0")
    d.secret = "none"
    same(curl(d, "--cert", at("client.pem"), "--key", at("client.key")).returncode, 0)
    assert any("is valid until 20" in line for line in d.log), d.log
    for wrong in ([], ["--cert", at("stranger.pem"), "--key", at("stranger.key")]):
        assert curl(d, *wrong).returncode in (35, 55, 56), wrong
    same(d.stop(), 0)
    # It opens the connection, and says nothing of whose the requests on it are.
    d = Daemon("--http-certificate", at("server.pem"), "--http-key", at("server.key"), "--http-client-ca", pem, "--pool", "0",
               tenants={"acme": {}})
    for secret, status in (d.token("acme"), "200"), ("none", "401"):
        d.secret = secret
        r = curl(d, "--cert", at("client.pem"), "--key", at("client.key"), "-o", os.devnull, "-w", "%{http_code}", path="/sessions")
        same((r.returncode, r.stdout), (0, status))
    same(d.stop(), 0)


def dated(name, first, last):
    """A certificate that is valid between these days, by openssl ca: openssl req knows no dates before 3.4."""
    os.makedirs(at("ca"), exist_ok=True)
    Path(at("ca/index")).write_text("")
    Path(at("ca/conf")).write_text(f"""[ca]
default_ca = own
[own]
database = {at("ca/index")}
rand_serial = yes
new_certs_dir = {at("ca")}
default_md = sha256
policy = any
[any]
commonName = supplied
""")
    openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
            "-keyout", at(name + ".key"), "-out", at(name + ".csr"))
    openssl("ca", "-config", at("ca/conf"), "-selfsign", "-batch", "-notext", "-in", at(name + ".csr"), "-keyfile",
            at(name + ".key"), "-startdate", first + "0101000000Z", "-enddate", last + "0101000000Z", "-out",
            at(name + ".pem"))
    return ["--http-certificate", at(name + ".pem"), "--http-key", at(name + ".key")]


def start(*args):
    b = cbxtest.Box()
    return subprocess.run([DAEMON, "--foreground", *args], env=b.env, capture_output=True, text=True, timeout=PATIENCE,
                          stdin=subprocess.DEVNULL)


def test_files():
    pem, key = make("server")
    listen = ["--http", "127.0.0.1:0"]
    shutil.copy(key, at("open.key"))
    os.chmod(at("open.key"), 0o644)
    Path(at("empty")).write_text("")
    Path(at("long")).write_text("x" * 70000)
    openssl("ec", "-in", key, "-aes256", "-passout", "pass:secret", "-out", at("locked.key"))
    make("other")
    os.chmod(pem, 0o644)
    openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", at("rsa.key"))
    Path(at("broken")).write_text(Path(pem).read_text() + Path(pem).read_text().replace("M", "!", 9))
    Path(at("words")).write_text("not PEM")
    for args, said in [
            (["--http-certificate", pem], "give --http-certificate and --http-key"),
            (["--http-key", key], "give --http-certificate and --http-key"),
            (["--http-client-ca", pem], "give --http-certificate and --http-key"),
            (["--http-certificate", pem, "--http-key", at("open.key")], f"chmod 600, or 640, {at('open.key')}"),
            (["--http-certificate", pem, "--http-key", at("locked.key")], "without a passphrase"),
            (["--http-certificate", pem, "--http-key", at("other.key")], "it is not the certificate's: "),
            (["--http-certificate", pem, "--http-key", at("rsa.key")], "it is not the certificate's: "),
            (["--http-certificate", pem, "--http-key", pem], "can be used by others"),
            (["--http-certificate", at("broken"), "--http-key", key], "it does not hold certificates"),
            (["--http-certificate", at("words"), "--http-key", key], "it does not hold certificates"),
            (["--http-certificate", key, "--http-key", key], "it does not hold certificates"),
            (dated("old", "2019", "2020"), "it has expired at 2020-01-01 00:00:00 UTC; renew it"),
            (dated("early", "2039", "2040"), "it is valid from 2039-01-01 00:00:00 UTC on"),
            (["--http-certificate", pem, "--http-key", at("missing")], "No such file"),
            (["--http-certificate", pem, "--http-key", box.dir], "not a regular file"),
            (["--http-certificate", at("empty"), "--http-key", key], "--http-certificate"),
            (["--http-certificate", at("long"), "--http-key", key], "more than 65535 bytes"),
            (["--http-certificate", pem, "--http-key", key, "--http-client-ca", at("empty")], "--http-client-ca")]:
        r = start(*listen, *args)
        assert r.returncode == 1 and said in r.stderr, (args, r)
    r = start("--http-certificate", pem, "--http-key", key)
    assert r.returncode == 1 and "give --http too" in r.stderr, r


def test_where_others_read_on_the_way():
    """An address that others can reach, without TLS: the log says so, and says nothing of it with TLS."""
    d = Daemon("--pool", "0", tenants={"acme": {}}, address="0.0.0.0:0")
    assert any("has no TLS" in line and "0.0.0.0:" in line for line in d.log), d.log
    same(d.stop(), 0)
    pem, key = make("server")
    d = Daemon("--http-certificate", pem, "--http-key", key, "--pool", "0", tenants={"acme": {}}, address="0.0.0.0:0")
    assert not any("has no TLS" in line for line in d.log), d.log
    d.secret = d.token("acme")
    same(curl(d).returncode, 0)
    same(d.stop(), 0)


def test_example():
    """What packaging/examples/https adds to the units, with sockets as systemd passes them."""
    examples = Path(__file__).resolve().parents[2] / "packaging/examples/https"
    unit = (examples / "codeboxd.service.conf").read_text()
    port = re.search(r"^ListenStream=(\d+)$", (examples / "codeboxd.socket.conf").read_text(), re.M).group(1)
    same(port, "443")
    command = re.findall(r"^ExecStart=(.+)$", unit, re.M)[0].split()
    same(command[0], "/usr/sbin/codeboxd")
    make("server")
    b = cbxtest.Box()
    b.env["CODEBOX_CONFIG_DIR"] = os.path.join(b.dir, "config")
    os.mkdir(b.env["CODEBOX_CONFIG_DIR"])
    Path(b.env["CODEBOX_CONFIG_DIR"], "tenants.json").write_text('{"tenants": {"acme": {}}}')
    secret = b.json("token", "create", "--json", "--tenant", "acme")["token"]
    args = [a.replace("/etc/codebox/tls/fullchain.pem", at("server.pem")).replace("/etc/codebox/tls/privkey.pem", at("server.key"))
            for a in command[1:]]
    listeners = [socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX), socket.socket(socket.AF_INET6)]
    os.makedirs(b.env["CODEBOX_RUNTIME_DIR"], 0o700, exist_ok=True)
    for s, name in zip(listeners, ("control.sock", "mcp.sock", None)):
        s.bind(os.path.join(b.env["CODEBOX_RUNTIME_DIR"], name) if name else ("::", 0))
        s.listen()
    d = SimpleNamespace(port=listeners[2].getsockname()[1], secret=secret, log=[])
    start = ("import fcntl, os, sys\nfds = list(map(int, sys.argv[1:4]))\n"
             "for n, fd in enumerate([fcntl.fcntl(fd, fcntl.F_DUPFD, 50) for fd in fds]):\n    os.dup2(fd, 3 + n)\n"
             "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='3')\nos.execv(sys.argv[4], sys.argv[4:])")
    p = subprocess.Popen([sys.executable, "-c", start, *(str(s.fileno()) for s in listeners), DAEMON, *args], env=b.env,
                         pass_fds=[s.fileno() for s in listeners], stdin=subprocess.DEVNULL)
    r = curl(d, "-w", "%{http_code}", path="/sessions")
    assert r.returncode == 0 and r.stdout.endswith("200"), r
    # The client was there before codeboxd had confined itself, and was not served before that.
    assert re.search(r"^Seccomp:\s+2$", Path(f"/proc/{p.pid}/status").read_text(), re.M), "served before it was confined"
    p.terminate()
    same(p.wait(PATIENCE), 0)


def test_the_end():
    if "daemon" in servers:
        same(servers["daemon"].stop(), 0)


if __name__ == "__main__":
    cbxtest.run(globals())
