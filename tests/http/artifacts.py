#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Artifacts: files that outlive their sessions, by the command line, by links over HTTP, and as models learn of them;
how long, how many, for whom, and what is left when something ends in between."""
import concurrent.futures
import hashlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common_http import Daemon  # noqa: E402
from cbxtest import Box, Skip, children, command, directory, run, wait_until  # noqa: E402
from model import Model  # noqa: E402
from ociimage import Image, bash_layer, layout, write_tar  # noqa: E402

LIBEXEC = os.environ.get("CODEBOX_LIBEXEC_DIR", "/usr/local/libexec/codebox")
SANITIZED = os.environ.get("CBX_SLACK_KIB", "2048") != "2048"
top = os.path.join(directory, "artifacts")
os.makedirs(top, exist_ok=True)
os.environ["CODEBOX_DATA_DIR"] = os.path.join(top, "data")
store = os.path.join(top, "data", "artifacts")
daemons = []


def image():
    b = Box()
    if "bash" not in b.images():
        write_tar(layout([Image([(bash_layer(os.path.join(top, "tree")).bytes(), "gzip")], {})]), os.path.join(top, "it.tar"))
        b("image", "import", "bash", os.path.join(top, "it.tar"), check=True)
    return "bash"


def serve(tenants=None, **artifacts):
    """codeboxd with a policy that keeps artifacts."""
    image()
    path = os.path.join(top, f"policy-{len(daemons)}.json")
    with open(path, "w") as f:
        json.dump({"images": ["bash"], "artifacts": {"keep": "1h", **artifacts}}, f)
    os.chmod(path, 0o644)
    d = Daemon("--policy", path, tenants=tenants)
    daemons.append(d)
    return d


def stop(d):
    if d.process.poll() is None:
        d.box("artifact", "rm", "--all")
        d.process.terminate()
        d.process.wait(60)


def get(d, link, method="GET", **headers):
    """A link by itself: no token, no cookie."""
    parts = urllib.parse.urlsplit(link)
    c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=120)
    c.request(method, f"{parts.path}?{parts.query}", headers=headers)
    a = c.getresponse()
    a.body = a.read()
    c.close()
    return a


def listed(d):
    return d.box.json("artifact", "list", "--json")["artifacts"]


def cell(d, code, *args):
    return d.box("run", *args, "-c", code, check=True)


def one(d, path):
    found = [a for a in listed(d) if a["path"] == path]
    assert len(found) == 1, listed(d)
    return found[0]


def link(d, artifact, *args):
    return d.box("artifact", "link", *args, artifact, check=True).stdout.strip()


def files_of(d, code, session="s"):
    """Of an execution, as REST clients see them."""
    c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=120)

    def ask(method, path, body=None):
        c.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
        a = c.getresponse()
        data = json.loads(a.read())
        assert a.status in (200, 409), (a.status, data)
        return data

    ask("POST", "/sessions", {"session_id": session, "image": "bash"})
    x = ask("POST", "/execute", {"session_id": session, "code": code, "language": "bash"})["request_id"]
    done = ask("GET", f"/execute/{x}?wait=60")
    assert done["status"] == "completed", done
    return {f["path"]: f for f in done["execution"]["files"]}


def on_disk():
    return sorted(n for at, _, names in os.walk(store) for n in names)


def test_nothing_is_kept_unless_the_policy_says_so():
    d = serve(keep=0)
    assert "artifact_id" not in files_of(d, "echo 1 >a.txt")["a.txt"]
    assert listed(d) == [] and not on_disk()
    stop(d)


def test_files_outlive_their_session():
    d = serve()
    cell(d, "mkdir sub; echo hello >a.txt; head -c 3000000 /dev/zero >sub/zeros; touch empty; echo '<script>' >page.html")
    assert not d.box.sessions()
    assert {(a["path"], a["size"]) for a in listed(d)} == {("a.txt", 6), ("sub/zeros", 3000000), ("empty", 0),
                                                          ("page.html", 9)}, listed(d)
    a = one(d, "a.txt")
    assert d.box("artifact", "get", a["artifact_id"]).stdout == "hello\n"
    to = os.path.join(top, "fetched")
    d.box("artifact", "get", one(d, "sub/zeros")["artifact_id"], to, check=True)
    with open(to, "rb") as f:
        assert f.read() == bytes(3000000)
    assert "a.txt" in d.box("artifact", "list", check=True).stdout
    d.box("artifact", "rm", a["artifact_id"], check=True)
    for verb in ("get", "rm", "link"):
        r = d.box("artifact", verb, a["artifact_id"])
        assert r.returncode != 0 and "no such artifact" in r.stderr, (verb, r.stderr)
    for bad in ("../../etc/passwd", "", "x" * 200, "."):
        r = d.box("artifact", "get", bad)
        assert r.returncode != 0 and r.stdout == "", r.stderr
    assert len(listed(d)) == 3
    d.box("artifact", "rm", "--all", check=True)
    assert listed(d) == [] and not on_disk()
    stop(d)


def test_links():
    d = serve()
    f = files_of(d, "printf 'some bytes' >'a b\"\\é.html'; printf x >other")
    name = 'a b"\\é.html'
    address, other = f[name]["link"], f["other"]["link"]
    assert address.startswith(f"http://127.0.0.1:{d.port}/artifacts/"), address
    a = get(d, address)
    assert (a.status, a.body) == (200, b"some bytes"), (a.status, a.body)
    assert a.headers["Content-Disposition"] == \
        "attachment; filename=\"a_b____.html\"; filename*=UTF-8''a%20b%22%5C%C3%A9.html", a.headers["Content-Disposition"]
    assert a.headers["X-Content-Type-Options"] == "nosniff" and a.headers["Content-Security-Policy"].startswith("sandbox")
    a = get(d, address, Range="bytes=5-8")
    assert (a.status, a.body, a.headers["Content-Range"]) == (206, b"byte", "bytes 5-8/10")
    assert get(d, address, Range="bytes=10-").status == 416
    a = get(d, address, "HEAD")
    assert (a.status, a.body, a.headers["Content-Length"]) == (200, b"", "10")
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(address).query)
    signature, expires = query["signature"][0], query["expires"][0]
    for bad in (address.replace(signature, "0" * 64), address.replace(signature, ""), address[:-1],
                address.replace(signature, signature.upper()), address.replace(expires, str(int(expires) + 1)),
                address.replace(expires, "0" + expires), address.replace(expires, ""), address.split("?")[0],
                address.split("?")[0] + "?" + other.split("?")[1], address.replace("&signature", "&expires=1&signature")):
        a = get(d, bad)
        assert a.status in (400, 403) and b"some bytes" not in a.body, (bad, a.status, a.body)
    stop(d)


def test_links_expire():
    d = serve(link_expiry="3s")
    before = time.time()
    f = files_of(d, "echo 1 >a")["a"]
    r = d.box.json("artifact", "link", "--json", "--expires", "10h", f["artifact_id"])
    assert r["expires"] <= time.time() + 3 and r["expires"] >= int(before), r
    assert get(d, f["link"]).status == 200
    assert wait_until(lambda: get(d, f["link"]).status == 403, 30)
    assert get(d, f["link"]).headers["Codebox-Error"] == "link_expired"
    assert get(d, link(d, f["artifact_id"])).body == b"1\n", "the artifact itself is still there"
    c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=120)
    c.request("GET", "/artifacts")
    for a in json.loads(c.getresponse().read())["artifacts"][0], listed(d)[0]:  # lists have new ones
        assert get(d, a["link"]).body == b"1\n" and time.time() - 60 < a["link_expires"] <= time.time() + 3, a
    stop(d)


def test_artifacts_expire():
    d = serve(keep="2s")
    cell(d, "echo 1 >a")
    assert wait_until(lambda: not listed(d), 30)
    d.process.terminate()
    d.process.wait(60)
    assert on_disk(), "nobody has looked yet"
    d = serve()
    assert wait_until(lambda: not on_disk(), 30)
    stop(d)


def test_quota():
    d = serve(quota="1M", file_size="600K")
    files_of(d, "head -c 500000 /dev/zero >a")
    f = files_of(d, "head -c 500000 /dev/zero >b; head -c 500000 /dev/zero >c")
    kept = [n for n in f if "artifact_id" in f[n]]
    refused = [n for n in f if "artifacts.quota" in f[n].get("not_kept", "")]
    assert (kept, refused) == (["b"], ["c"]), f
    d.box("artifact", "rm", one(d, "a")["artifact_id"], check=True)
    assert "artifact_id" in files_of(d, "head -c 500000 /dev/zero >c")["c"]
    assert len(on_disk()) == 4, on_disk()
    stop(d)


def test_what_is_not_kept_says_so():
    d = serve(file_size="1K")
    f = files_of(d, "head -c 2000 /dev/zero >large; printf 1 >$'\\xff'; printf 1 >small; "
                    "n=$(printf 'n%.0s' {1..200}); mkdir -p $n/$n/$n/$n/$n; printf 1 >$n/$n/$n/$n/$n/x")
    assert "up to 1 KiB (artifacts.file_size)" in f["large"]["not_kept"], f["large"]
    assert "artifact_id" in f["small"] and sum("not_kept" in v for v in f.values()) == 3, f
    assert [a["path"] for a in listed(d)] == ["small"]
    stop(d)


def memory(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(next(line for line in f if line.startswith("VmHWM")).split()[1])


def test_large_files_take_no_memory():
    size = 64 << 20
    d = serve(file_size="100M")
    cell(d, "echo warm >warm")
    before = memory(d.pid)
    f = files_of(d, f"head -c {size} /dev/urandom >large; cat large large >/dev/null")["large"]
    assert "artifact_id" in f, f
    parts = urllib.parse.urlsplit(f["link"])
    c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=120)
    c.request("GET", f"{parts.path}?{parts.query}")
    a = c.getresponse()
    by_link, n = hashlib.sha256(), 0
    while data := a.read(1 << 20):
        by_link.update(data)
        n += len(data)
    assert n == size
    to = os.path.join(top, "large")
    d.box("artifact", "get", f["artifact_id"], to, check=True)
    with open(to, "rb") as file:
        by_command = hashlib.sha256(file.read())
    assert by_command.digest() == by_link.digest()
    os.unlink(to)
    grown = memory(d.pid) - before
    assert SANITIZED or grown < 24 << 10, f"{grown} KiB for {size >> 10} KiB"
    stop(d)


def test_tenants_have_their_own():
    d = serve(tenants={"acme": {}, "beta": {}})
    tokens = {t: {"Authorization": "Bearer " + d.token(t), "Content-Type": "application/json"} for t in ("acme", "beta")}

    def ask(who, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=120)
        c.request(method, path, json.dumps(body) if body else None, tokens[who])
        a = c.getresponse()
        return a.status, json.loads(a.read())

    assert ask("acme", "POST", "/sessions", {"session_id": "s", "image": "bash"})[0] == 200
    x = ask("acme", "POST", "/execute", {"session_id": "s", "code": "echo acme >a", "language": "bash"})[1]["request_id"]
    f = ask("acme", "GET", f"/execute/{x}?wait=60")[1]["execution"]["files"][0]
    assert [a["artifact_id"] for a in ask("acme", "GET", "/artifacts")[1]["artifacts"]] == [f["artifact_id"]]
    assert ask("beta", "GET", "/artifacts")[1]["artifacts"] == [] and listed(d) == []
    assert ask("beta", "DELETE", f"/artifacts/{f['artifact_id']}")[0] == 404
    assert d.box("artifact", "get", f["artifact_id"]).returncode != 0
    assert get(d, f["link"]).body == b"acme\n", "whoever has the link"
    assert get(d, f["link"].split("?")[0]).status in (400, 403)
    assert ask("acme", "DELETE", f"/artifacts/{f['artifact_id']}")[0] == 200
    assert get(d, f["link"]).status == 404
    stop(d)


def test_values_that_are_too_large():
    b, path = Box(), os.path.join(top, "bad.json")
    for bad in ({"keep": "91d"}, {"link_expiry": "8d"}, {"file_size": "65G"}, {"quota": "17000G"}, {"keep": -1},
                {"link_expiry": 0}, {"store": "x"}, {"keep": {"default": 1, "max": 2}}):
        with open(path, "w") as f:
            json.dump({"artifacts": bad}, f)
        r = b("policy", "check", path)
        assert r.returncode != 0 and next(iter(bad)) in r.stderr, (bad, r.returncode, r.stderr)


def test_models_are_told():
    d = serve()
    m = Model(d.box)
    r = m.call("run_code", code="echo 1,2 >table.csv")
    f = r["structuredContent"]["files"][0]
    assert get(d, f["link"]).body == b"1,2\n", f
    assert f["link"] in "".join(c.get("text", "") for c in r["content"]), r["content"]
    r = m.call("run_command", command="echo 5,6 >of-a-command.csv")
    f = r["structuredContent"]["files"][0]
    assert get(d, f["link"]).body == b"5,6\n", f
    m.close()
    m = Model(d.box, "--profile", "codeboxmcp")
    r = m.call("exec_code", session_id="x", language="bash", code="echo 3,4 >table.csv")
    new = json.loads(r["content"][0]["text"])["new_artifacts"]
    assert new[0]["path"] == "/workspace/output/table.csv" and get(d, new[0]["sas_url"]).body == b"3,4\n", new
    m.close()
    stop(d)


def test_they_and_their_links_outlive_codeboxd():
    d = serve()
    f = files_of(d, "echo 1 >a")["a"]
    d.process.kill()
    d.process.wait(60)
    d = serve()
    assert [a["artifact_id"] for a in listed(d)] == [f["artifact_id"]]
    assert get(d, f["link"]).body == b"1\n"
    mode = os.stat(os.path.join(top, "data", "artifacts.key")).st_mode & 0o777
    assert mode == 0o600 and os.stat(store).st_mode & 0o007 == 0, oct(mode)
    stop(d)


def test_one_that_is_ended_midway_is_not_listed():
    d = serve(file_size="900M", quota="2G")
    before = set(on_disk())
    client = d.box.popen("run", "--set", "disk=900M", "-c", "head -c 300000000 /dev/zero >large", stderr=subprocess.DEVNULL)
    assert wait_until(lambda: [n for n in on_disk() if n.startswith(".")], 60)
    d.process.kill()
    d.process.wait(60)
    client.wait(60)
    d = serve()
    assert not [n for n in set(on_disk()) - before if not n.startswith(".")] and listed(d) == [], on_disk()
    for n in on_disk():  # as old as it has to be for the next look
        for tenant in os.listdir(store):
            if os.path.exists(os.path.join(store, tenant, n)):
                os.unlink(os.path.join(store, tenant, n))
    stop(d)


def test_what_keeps_them_is_confined():
    d = serve()
    cell(d, "echo 1 >a")
    found = [pid for pid in children(d.pid) if command(pid) == "codebox-store"]
    with open(f"/proc/{found[0]}/status") as f:
        status = dict(line.split(":", 1) for line in f)
    assert status["NoNewPrivs"].strip() == "1" and (SANITIZED or status["Seccomp"].strip() == "2"), status
    stop(d)


def test_many_downloads_wait_for_their_turn():
    """More than may ask codebox-store at a time; each is whole all the same."""
    d = serve()
    cell(d, "head -c 6000000 /dev/zero >big")
    parts = urllib.parse.urlsplit(link(d, one(d, "big")["artifact_id"]))
    crowd = []
    for _ in range(80):  # each has a piece, which it takes no further
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        s.settimeout(120)
        s.connect(("127.0.0.1", d.port))
        s.sendall(f"GET {parts.path}?{parts.query} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        assert b" 200 OK" in s.recv(20)
        crowd.append(s)

    def take(s, most):
        n = 0
        while n < most and (data := s.recv(min(1 << 20, most - n))):
            n += len(data)
        return n
    pid = next(p for p in children(d.pid) if command(p) == "codebox-store")
    with concurrent.futures.ThreadPoolExecutor(len(crowd)) as pool:
        os.kill(pid, signal.SIGSTOP)
        try:
            assert min(pool.map(lambda s: take(s, 1 << 20), crowd)) == 1 << 20
            time.sleep(1)  # all have asked for the next piece
        finally:
            os.kill(pid, signal.SIGCONT)
        sizes = list(pool.map(lambda s: take(s, 1 << 30), crowd))
    assert min(sizes) > 6000000 - (1 << 20), sizes
    stop(d)


UNSHARE = ["unshare", "-Um", "--map-current-user", "--keep-caps"]
MOUNT = """
import ctypes, os, sys
assert ctypes.CDLL(None).mount(b"none", sys.argv[1].encode(), b"tmpfs", 0, b"size=2m,mode=700") == 0
os.dup2(int(sys.argv[2]), 3)
os.execv(sys.argv[3], [sys.argv[3], sys.argv[1]])
"""


class Store:
    """codebox-store itself, on a file system of 2 MB."""

    def __init__(self):
        self.mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        os.makedirs(os.path.join(top, "small"), exist_ok=True)
        self.process = subprocess.Popen(
            [*UNSHARE, sys.executable, "-c", MOUNT, os.path.join(top, "small"), str(theirs.fileno()),
             LIBEXEC + "/codebox-store"], pass_fds=[theirs.fileno()])
        theirs.close()

    def job(self, data=b"", **job):
        ours, theirs = socket.socketpair()
        socket.send_fds(self.mine, [b"j"], [theirs.fileno()])
        theirs.close()
        try:
            ours.sendall(json.dumps(job).encode() + b"\n" + data)
        except BrokenPipeError:
            pass
        ours.shutdown(socket.SHUT_WR)
        return json.loads(ours.makefile("rb").readline() or b"{}")


def test_a_full_disk():
    if subprocess.run([*UNSHARE, "true"], capture_output=True).returncode or os.geteuid() == 0:
        raise Skip("the ordinary user's run does this")
    s = Store()
    about = {"artifact_id": "a", "session_id": "s", "path": "p", "size": 5, "created": 1, "expires": 1 << 40}
    assert s.job(b"small", job="put", tenant="t", id="a", offset=0, size=5, quota=1 << 30, about=about) == {}
    r = s.job(b"x", job="put", tenant="t", id="b", offset=0, size=8 << 20, quota=1 << 30)
    assert "No space left" in r["message"], r
    assert [a["artifact_id"] for a in s.job(job="list", tenant="t")["artifacts"]] == ["a"]
    for bad in ({"job": "put", "tenant": "../x", "id": "a"}, {"job": "read", "tenant": "t", "id": "../t/a"},
                {"job": "read", "tenant": "t", "id": ".a"}, {"job": "remove", "tenant": "t", "id": "a.json/.."},
                {"job": "put", "tenant": "t", "id": "c", "offset": 4, "size": 2}, {"job": "?"}, {}):
        assert "kind" in s.job(**bad), bad
    s.mine.close()
    s.process.wait(60)


if __name__ == "__main__":
    run(globals())
