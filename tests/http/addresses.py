#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where codeboxd serves HTTP: addresses that others can reach, sockets in the file system, with the users of the machine
that connect there, and sockets that it is passed."""
import http.client
import json
import os
import pwd
import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common_http import DAEMON, PATIENCE, Client, Daemon, Skip, ping, same, start, wait_until  # noqa: E402
import cbxtest  # noqa: E402


def test_listeners():
    """An address that others can reach is served only to those with a token, unless told otherwise in words."""
    code, said = start("--foreground", "--http", "0.0.0.0:0")
    assert code == 1 and "not a loopback address" in said and "--http-without-authentication" in said, said
    tenants = {"tenants.json": '{ "tenants": { "a": {} } }'}
    name, ip, ip6 = "codebox.example.com", "192.0.2.7:8000", "[2001:db8::7]"
    for args, config, status, named in [
            (["--http-without-authentication"], None, 200, 403), ([], tenants, 401, 401),
            (["--http-without-authentication", "--http-url", f"https://{name}"], None, 200, 200)]:
        p, said = start("--foreground", "--http", "0.0.0.0:0", *args, config=config)
        port = int(re.search(r"http://0\.0\.0\.0:(\d+)/mcp", said).group(1))
        # Nobody knows here by which names others know this computer; a page has to come from the same host, and to have
        # the token. Without one, names that were not told may be of a page's choice.
        for headers, want in [({"Host": name}, named), ({"Host": ip}, status), ({"Host": ip6}, status),
                              ({"Host": name, "Origin": "http://evil.example.com"}, 403),
                              ({"Host": ip, "Origin": "http://evil.example.com"}, 403),
                              ({"Host": name, "Origin": f"https://{name}"}, named), ({"Host": ip, "Origin": f"http://{ip}"}, status),
                              *[({"Host": odd}, named if named == 401 else 403) for odd in ("1.2.3.4.example.com", "1.2.3", "[::1", "a:80")]]:
            a = Client(port).send("POST", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "0"}}},
                **headers)
            same((args, headers, a.status), (args, headers, want))
        p.terminate()
        same(p.wait(PATIENCE), 0)
    for args in [["--http", "127.0.0.1:0"] * 9, ["--tenants", "x"], ["--http-token-file", "x"],
                 ["--http", "127.0.0.1:0", "--tenants", "/nonexistent/tenants.json"]]:
        assert start("--foreground", *args)[0] in (1, 2), args


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def asked(connection, path="/mcp"):
    connection.request("POST", path, body="{}", headers={"Content-Type": "application/json"})
    return connection.getresponse().status


def test_unix_sockets():
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o777)
        for config, status, mode in [(None, 400, 0o600), ({"tenants.json": '{"tenants": {}}'}, 401, 0o666)]:
            path = os.path.join(d, "http.sock")
            p, said = start("--foreground", "--http", f"unix:{path}", config=config)
            assert f"unix:{path}" in said, said
            same(asked(Unix(path)), status)
            same(os.stat(path).st_mode & 0o777, mode)
            p.terminate()
            same(p.wait(PATIENCE), 0)


def test_what_lies_at_the_name_of_a_socket():
    """One that nobody listens on is replaced; all else is somebody's."""
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o777)
        path, other = os.path.join(d, "http.sock"), os.path.join(d, "agent.sock")
        Path(path).write_text("of somebody")
        for option in (["--http", f"unix:{path}"], ["--agent", f"unix:{path}"]):
            code, said = start("--foreground", *option)
            same((code, Path(path).read_text()), (1, "of somebody"))
            assert option[0] in said and "is not a socket; remove it" in said, said
        os.unlink(path)
        os.symlink("/nonexistent", path)
        same(start("--foreground", "--http", f"unix:{path}")[0], 1)
        os.unlink(path)
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(path)
        p, said = start("--foreground", "--http", f"unix:{path}", "--agent", f"unix:{other}")
        assert f"unix:{path}" in said, said
        # It serves, whoever else would like to.
        for option in (["--http", f"unix:{path}"], ["--agent", f"unix:{other}"]):
            code, said = start("--foreground", *option)
            assert code == 1 and "another process listens on" in said, said
        same(asked(Unix(path)), 400)
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(other)
            assert s.makefile().read(), "the agent is silent"
        p.terminate()
        same(p.wait(PATIENCE), 0)


def test_a_start_that_fails_leaves_no_sockets():
    with tempfile.TemporaryDirectory() as d:
        path, other = os.path.join(d, "http.sock"), os.path.join(d, "agent.sock")
        for why in (["--audit", "/nonexistent/audit"], ["--http", "999.0.0.1:1"]):
            code, said = start("--foreground", "--http", f"unix:{path}", "--agent", f"unix:{other}", *why)
            assert code == 1 and "cannot start" in said, said
            assert wait_until(lambda: os.listdir(d) == []), (why, os.listdir(d))
        p, said = start("--foreground", "--http", f"unix:{path}", "--agent", f"unix:{other}")
        same(sorted(os.listdir(d)), ["agent.sock", "http.sock"])
        p.terminate()
        same(p.wait(PATIENCE), 0)


ASK = """
import http.client, json, os, socket, sys
if os.getuid() == 0 and int(sys.argv[3]):
    os.setgroups([])
    os.setresgid(*[int(sys.argv[3])] * 3)
    os.setresuid(*[int(sys.argv[3])] * 3)
c = http.client.HTTPConnection("localhost", timeout=180)
c.sock = socket.socket(socket.AF_UNIX)
c.sock.connect(sys.argv[1])
for method, path, body, token in json.loads(sys.argv[2]):
    c.request(method, path, body and json.dumps(body), {"Content-Type": "application/json", **({"Authorization": token} if token else {})})
    r = c.getresponse()
    text = r.read().decode()
    print(json.dumps([r.status, text]))
    if r.will_close:
        c.close()
        c.sock = socket.socket(socket.AF_UNIX)
        c.sock.connect(sys.argv[1])
"""


def as_user(uid, path, *requests):
    """[status, text] of each, asked by this user."""
    r = subprocess.run([sys.executable, "-c", ASK, path, json.dumps(requests), str(uid)], capture_output=True, text=True,
                       timeout=PATIENCE, check=True)
    return [json.loads(line) for line in r.stdout.splitlines()]


def test_users_of_the_machine():
    """On a unix socket they are their tenants without a token; whoever is not named needs one."""
    root = os.getuid() == 0
    ada, bob, carol = (1001, 1002, 1003) if root else (os.getuid(),) * 3
    name = "daemon" if root else pwd.getpwuid(ada).pw_name
    tenants = {"acme": {"users": [ada, *(["daemon"] if root else [])]}, "beta": {"users": [bob] if root else []}}
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        users_of_the_machine(os.path.join(place, "http.sock"), tenants, name, ada, bob, carol)


def users_of_the_machine(path, tenants, name, ada, bob, carol):
    root = os.getuid() == 0
    d = Daemon("--http", f"unix:{path}", tenants=tenants)
    assert wait_until(lambda: os.path.exists(path) and os.stat(path).st_mode & 0o7 == 6)
    token = d.token("beta")
    listed, make = ["GET", "/sessions", None, None], ["POST", "/sessions", {"session_id": "mine"}, None]
    same(ping(d.port).status, 401)  # other addresses have no users
    (status, text), (_, sessions) = as_user(ada, path, make, listed)
    if status == 503:
        d.stop()
        raise Skip(text)
    same((status, [s["session_id"] for s in json.loads(sessions)["sessions"]]), (200, ["mine"]))
    # A token says who it is, if it is valid.
    show = ["GET", "/sessions", None, "Bearer " + token]
    same([(s, json.loads(t)["sessions"]) for s, t in as_user(ada, path, show)], [(200, [])])
    same([s for s, _ in as_user(ada, path, ["GET", "/sessions", None, "Bearer x"], ["GET", "/metrics", None, None])], [401, 403])
    if root:
        (one, theirs), = as_user(bob, path, listed)
        same((one, json.loads(theirs)["sessions"]), (200, []))
        same([s for s, _ in as_user(1, path, listed)], [200])  # daemon, by its name
        same([s for s, _ in as_user(carol, path, listed, show, listed)], [401, 200, 401])
        same([s for s, _ in as_user(0, path, listed)], [401])
    # Read again: names, too; who is not named any more is nobody.
    d.write({"acme": {}, "beta": {"users": [name]}})
    d.reload()
    same([json.loads(t).get("sessions") for _, t in as_user(1 if root else ada, path, listed)], [[]])
    if root:
        same([s for s, _ in as_user(ada, path, listed)], [401])
    same(d.stop(), 0)


def test_sockets_that_are_passed():
    """As systemd does: one of TCP, and a unix socket that is named http.sock."""
    with tempfile.TemporaryDirectory() as d, socket.socket() as tcp, socket.socket(socket.AF_UNIX) as unix:
        tcp.bind(("127.0.0.1", 0))
        unix.bind(os.path.join(d, "http.sock"))
        tcp.listen()
        unix.listen()
        box = cbxtest.Box()
        pair = [os.dup(tcp.fileno()), os.dup(unix.fileno())]
        code = ("import os, sys\nfor i, fd in enumerate(map(int, sys.argv[1:3])):\n    os.dup2(fd, 20 + i)\n"
                "for i in (0, 1):\n    os.dup2(20 + i, 3 + i)\n"
                "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='2')\n"
                "os.execv(sys.argv[3], sys.argv[3:])")
        daemon_path = DAEMON if "/" in DAEMON else cbxtest.shutil.which(DAEMON)
        p = subprocess.Popen([sys.executable, "-c", code, str(pair[0]), str(pair[1]), daemon_path], env=box.env,
                             stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, pass_fds=pair)
        for line in p.stderr:
            if "serves HTTP" in line and "unix:" in line:
                break
        same(asked(http.client.HTTPConnection("127.0.0.1", tcp.getsockname()[1], timeout=PATIENCE)), 400)
        same(asked(Unix(os.path.join(d, "http.sock"))), 400)
        p.terminate()
        same(p.wait(PATIENCE), 0)


if __name__ == "__main__":
    if not os.access(DAEMON, os.X_OK) and not cbxtest.shutil.which(DAEMON):
        print("1..0 # SKIP there is no codeboxd")
        sys.exit(0)
    cbxtest.run(globals())
