#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codebox image pull against a real registry (Debian's docker-registry) on loopback: its authentication, and, through a
server in front of it, tokens, redirects, cut connections and digests that lie. TLS and other hosts are tried in a
network namespace. Nothing is sent beyond loopback."""
import atexit
import base64
import contextlib
import fcntl
import http.client
import http.server
import json
import os
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from cbxtest import CODEBOX, Box, Skip, children, command, directory, run, wait_until  # noqa: E402
from ociimage import ARCH, Image, Layer, INDEX, digest  # noqa: E402
from terminal import Terminal  # noqa: E402

REGISTRY = shutil.which("docker-registry")
# docker-registry wants bcrypt: secret, made by htpasswd -Bbn ada secret
HTPASSWD = "ada:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n"
SANITIZED = os.environ.get("CBX_SLACK_KIB", "2048") != "2048"
top = os.path.join(directory, "pull")
OTHER = "arm64" if ARCH != "arm64" else "amd64"
started = {}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Registry:
    def __init__(self, auth=""):
        if not REGISTRY:
            raise Skip("there is no docker-registry")
        where = tempfile.mkdtemp(dir=top)
        self.port = free_port()
        with open(where + "/htpasswd", "w") as f:
            f.write(HTPASSWD)
        with open(where + "/config.yml", "w") as f:
            f.write(f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {where}/data}}}}\n"
                    f"http: {{addr: '127.0.0.1:{self.port}'}}\n")
            if auth:
                f.write(f"auth: {{htpasswd: {{realm: x, path: {where}/htpasswd}}}}\n")
        self.auth = {"Authorization": "Basic " + base64.b64encode(auth.encode()).decode()} if auth else {}
        self.process = subprocess.Popen([REGISTRY, "serve", where + "/config.yml"], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        atexit.register(self.process.kill)
        assert wait_until(self.answers, 30), "docker-registry does not answer"

    def answers(self):
        try:
            return self.ask("GET", "/v2/")[0] in (200, 401)
        except OSError:
            return False

    def ask(self, method, path, body=None, headers=()):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        c.request(method, path, body, {**self.auth, **dict(headers)})
        r = c.getresponse()
        data = r.read()
        c.close()
        return r.status, r.headers, data

    def push(self, name, tag, *images, nested=False):
        for image in images:
            for d, data in image.blobs.items():
                if d != image.top["digest"]:
                    status, headers, _ = self.ask("POST", f"/v2/{name}/blobs/uploads/")
                    assert status == 202, status
                    at = urllib.parse.urlsplit(headers["Location"])
                    status = self.ask("PUT", f"{at.path}?{at.query}&digest={d}", data,
                                      {"Content-Type": "application/octet-stream"})[0]
                    assert status == 201, status
            status, _, said = self.ask("PUT", f"/v2/{name}/manifests/{image.top['digest']}",
                                       image.blobs[image.top["digest"]], {"Content-Type": image.top["mediaType"]})
            assert status == 201, said
        index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [i.top for i in images]}).encode()
        media, data = (INDEX, index) if nested or len(images) > 1 else (images[0].top["mediaType"],
                                                                        images[0].blobs[images[0].top["digest"]])
        status, _, said = self.ask("PUT", f"/v2/{name}/manifests/{tag}", data, {"Content-Type": media})
        assert status == 201, said
        return digest(data)


class Front(http.server.ThreadingHTTPServer):
    """In front of a registry. Knobs are members; what came is in `seen`."""
    daemon_threads = True

    def __init__(self, registry, address="127.0.0.1", cert=None):
        self.registry, self.seen, self.now, self.most, self.lock = registry, [], 0, 0, threading.Lock()
        self.cut = self.fail = 0  # bytes of each blob's answer; answers of 503
        self.change = None        # (path's end, function of the bytes)
        self.redirect = None      # where blobs are
        self.token = None         # what is wanted as a bearer
        self.realm, self.uses, self.slow, self.stall, self.no_ranges = "", 0, 0, None, False
        self.blobs, self.stall_rest, self.cut_times = 0, False, 1 << 30
        super().__init__((address, 0), Handler)
        if cert:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(cert)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.at = f"{address}:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for k, v in headers.items():
            self.send_header(k.replace("_", "-"), v)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        s = self.server
        s.seen.append((self.path, dict(self.headers)))
        if self.path.startswith("/token"):
            want = "Basic " + base64.b64encode(b"ada:secret").decode()
            if self.headers.get("Authorization") != want:
                return self.reply(401, b'{"errors":[{"message":"who are you?\\u001b[31m"}]}')
            with s.lock:
                s.token, s.left = "t" + os.urandom(8).hex(), s.uses or 1 << 30
            return self.reply(200, json.dumps({"token": s.token, "expires_in": 1}).encode())
        if s.fail:
            s.fail -= 1
            return self.reply(503, b"later")
        if s.realm:
            with s.lock:
                s.left = getattr(s, "left", 0) - 1
                good = s.token and self.headers.get("Authorization") == "Bearer " + s.token and s.left >= 0
            if not good:
                return self.reply(401, b"{}", WWW_Authenticate=f'Bearer realm="{s.realm}",service="the, service",'
                                                               f'scope="repository:lib/app:pull"')
        if s.redirect and "/blobs/" in self.path:
            return self.reply(307, b"elsewhere", Location=s.redirect + self.path)
        return self.pass_on()

    def pass_on(self):
        s = self.server
        if isinstance(s.registry, Front):
            status, headers, body = s.registry.registry.ask("GET", self.path)
        else:
            status, headers, body = s.registry.ask("GET", self.path, headers={
                k: v for k, v in self.headers.items() if k.lower() in ("accept", "range") and
                not (s.no_ranges and k.lower() == "range")})
        if s.change and self.path.endswith(s.change[0]):
            body = s.change[1](body)
        keep = {k.replace("-", "_"): v for k, v in headers.items()
                if k.lower() in ("content-type", "docker-content-digest", "content-range")}
        if "/blobs/" not in self.path:
            return self.reply(status, body, **keep)
        with s.lock:
            s.blobs += 1
            cut = s.blobs <= s.cut_times and s.cut
            stalled = s.stall and (not s.stall_rest or "Range" in self.headers)
            s.now += 1
            s.most = max(s.most, s.now)
        try:
            if stalled:
                s.stall.wait(60)
            time.sleep(s.slow)
            if not cut or len(body) <= cut:
                return self.reply(status, body, **keep)
            self.send_response(status)
            for k, v in keep.items():
                self.send_header(k.replace("_", "-"), v)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:cut])
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        finally:
            with s.lock:
                s.now -= 1


def setup():
    if "box" not in started:
        os.makedirs(top, exist_ok=True)
        os.chmod(top, 0o755)
        home = os.path.join(top, "home")
        os.makedirs(home, exist_ok=True)
        started["box"] = Box(CODEBOX_DATA_DIR=os.path.join(top, "data"), HOME=home, XDG_CONFIG_HOME="",
                             XDG_RUNTIME_DIR="")
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY", "DOCKER_CONFIG"):
            started["box"].env.pop(name, None)
    return started["box"]


def registry():
    setup()
    if "registry" not in started:
        started["registry"] = Registry()
        started["image"] = Image([(Layer().file(f"l/{n}", os.urandom(200000)).bytes(), "gzip") for n in range(8)],
                                 {"Env": ["A=1"], "User": "app"})
        started["digest"] = started["registry"].push("lib/app", "v1", started["image"])
    return started["registry"]


def front(**knobs):
    f = Front(registry())
    for k, v in knobs.items():
        setattr(f, k, v)
    return f


def store():
    return os.path.join(top, "data", "images")


def cache():
    return os.path.join(top, "data", "cache", "layers")


def clear():
    shutil.rmtree(cache(), ignore_errors=True)
    for name in setup().images():
        setup()("image", "rm", name, check=True)


def pulled(name, *args, image=None, **env):
    r = subprocess.run([CODEBOX, "image", "pull", "--force", *args, name], env={**setup().env, **env},
                       capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert r.returncode == 0, r.stderr
    called = image or args[args.index("--as") + 1] if image or "--as" in args else r.stdout.split()[1].rstrip(":")
    assert setup()("image", "verify", called).returncode == 0
    assert not os.path.exists(cache()), os.listdir(cache())
    return json.loads(setup()("image", "show", called, check=True).stdout)


def refused(name, says, *args, **env):
    before = sorted(os.listdir(store())) if os.path.exists(store()) else []
    r = subprocess.run([CODEBOX, "image", "pull", *args, name], env={**setup().env, **env}, capture_output=True,
                       text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert r.returncode == 1, f"{r.returncode}: {r.stdout}{r.stderr}"
    assert says in r.stderr and "\x1b" not in r.stderr, f"{says!r} is not in: {r.stderr}"
    after = sorted(os.listdir(store())) if os.path.exists(store()) else []
    assert [n for n in after if n != ".lock"] == [n for n in before if n != ".lock"], (before, after)
    return r.stderr


def test_by_tag_and_by_digest():
    r = registry()
    shown = pulled(f"127.0.0.1:{r.port}/lib/app:v1")
    assert shown["name"] == "app-v1" and shown["origin"]["reference"] == f"127.0.0.1:{r.port}/lib/app:v1"
    assert shown["origin"]["digest"] == started["digest"] and shown["config"] == {"user": "app"}
    assert shown["environment"]["A"] == "1" and shown["files"] >= 8
    again = pulled(f"localhost:{r.port}/lib/app@{started['digest']}", "--as", "pinned")
    assert again["digest"] == shown["digest"] and again["name"] == "pinned"
    refused(f"127.0.0.1:{r.port}/lib/app:v1", "use --force to replace it, or --as")
    refused(f"127.0.0.1:{r.port}/lib/app:v2", "does not have lib/app:v2")
    refused(f"127.0.0.1:{r.port}/lib/none", "does not have lib/none:latest")
    refused(f"127.0.0.1:{r.port}/lib/app@sha256:{'0' * 64}", "does not have lib/app@sha256:000", "--as", "x")
    refused(f"127.0.0.1:{free_port()}/lib/app", "cannot be fetched from")


def test_progress_is_for_terminals():
    """A line that is drawn again while layers come; in a pipe, each step once."""
    f = front()
    name = f.at + "/lib/app:v1"
    t = Terminal([CODEBOX, "image", "pull", "--force", "--as", "shown", name], setup().env, top)
    assert t.end() == 0, t.got
    seen = t.got.decode()
    assert " \u2026" in seen and "\r\x1b[K" in seen and seen.rstrip().split("\n")[-1].startswith("Image shown"), seen
    r = subprocess.run([CODEBOX, "image", "pull", "--force", "--as", "shown", name], env=setup().env, capture_output=True, text=True,
                       timeout=120, stdin=subprocess.DEVNULL)
    assert r.returncode == 0 and r.stdout.startswith("Image shown") and r.stdout.count("\n") == 1, r
    steps = r.stderr.splitlines()
    assert not set("\r\x1b\u2026") & set(r.stderr) and len(set(steps)) == len(steps) < 16, r.stderr


def test_the_platform_is_chosen():
    r = registry()
    mine, other = (Image([(Layer().file(a).bytes(), "gzip")], arch=a) for a in (ARCH, OTHER))
    at = r.push("lib/both", "latest", other, mine)
    shown = pulled(f"127.0.0.1:{r.port}/lib/both")
    assert shown["name"] == "both" and os.path.exists(os.path.join(store(), "both/rootfs", ARCH))
    assert shown["origin"]["digest"] == mine.top["digest"]
    pulled(f"127.0.0.1:{r.port}/lib/both@{at}", "--platform", "linux/" + OTHER)
    assert os.path.exists(os.path.join(store(), "both/rootfs", OTHER))
    refused(f"127.0.0.1:{r.port}/lib/both", "no image for linux/s390x", "--platform", "s390x", "--as", "x")


def test_names_that_are_not():
    setup()
    for name in ("", "UPPER", "a//b", "a/", "/a", "../a", "a/../b", "a:", "a:b:c/", "a@sha256:1", "a@md5:" + "0" * 32,
                 "a b", "a\nb", "-", "--a", "a/--b", "_", "-x.y/a",
                 "host:99999999/a", "host:/a", "[::1/a", "a" * 300, "a:" + "b" * 200, "a._.b",
                 "http://127.0.0.1/a", "127.0.0.1:1/a?b", "127.0.0.1:1/a%2e"):
        r = setup()("image", "pull", "--", name)
        assert r.returncode == 1 and "is not the name of an image" in r.stderr, (name, r.returncode, r.stderr)
    assert setup()("image", "pull").returncode == 2 and setup()("image", "pull", "a", "b").returncode == 2
    r = setup()("image", "pull", "127.0.0.1:1/" + "a" * 80)
    assert r.returncode == 1 and "use --as" in r.stderr, r.stderr


def write_json(value, name):
    path = os.path.join(top, "home", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(value if isinstance(value, str) else json.dumps(value))
    return path


def test_credentials():
    """Of the registry itself, which has users; from each file in which they may stand."""
    clear()
    r = Registry("ada:secret")
    image = Image([(Layer().file("a").bytes(), "gzip")])
    r.push("lib/app", "v1", image)
    name, auth = f"127.0.0.1:{r.port}/lib/app:v1", base64.b64encode(b"ada:secret").decode()
    refused(name, "wants a user and a password")
    for where in (".config/containers/auth.json", ".docker/config.json"):
        path = write_json({"auths": {f"127.0.0.1:{r.port}": {"auth": auth}, "example.org": {"auth": "eDp5"}}}, where)
        pulled(name)
        os.unlink(path)
    entries = {f"http://127.0.0.1:{r.port}/v2/": {"auth": "eDp5"}, f"127.0.0.1:{r.port}/lib": {"auth": auth},
               f"127.0.0.1:{r.port}/li": {"auth": "eDp5"}, f"127.0.0.1:{r.port}/lib/other": {"auth": "eDp5"}}
    path = write_json({"auths": entries}, "named.json")
    pulled(name, REGISTRY_AUTH_FILE=path)
    runtime = os.path.join(top, "home", "run")
    entry = {f"127.0.0.1:{r.port}": {"username": "ada", "password": "secret"}}
    write_json({"auths": entry}, "run/containers/auth.json")
    os.chmod(runtime, 0o700)
    pulled(name, XDG_RUNTIME_DIR=runtime)
    clear()
    for text, says in (({"auths": {f"127.0.0.1:{r.port}": {"auth": "eDp5"}}}, "refuses access"),
                       ({"auths": {f"127.0.0.1:{r.port}": {"auth": "%%%"}}}, "is not base64 of user:password"),
                       ({"auths": {f"127.0.0.1:{r.port}": {}}}, "wants a user and a password"),
                       ("{", "is not JSON"), ('{"a":"' + "x" * (1 << 20) + '"}', "read the credentials"),
                       ({"auths": []}, "wants a user and a password")):
        said = refused(name, says, REGISTRY_AUTH_FILE=write_json(text, "named.json"))
        assert "secret" not in said and auth not in said
    refused(name, "wants a user", REGISTRY_AUTH_FILE=os.path.join(top, "none.json"))


def test_tokens():
    clear()
    f = front()
    f.realm = f"http://{f.at}/token"
    refused(f"{f.at}/lib/app:v1", "who are you?", "--as", "tokens")
    path = write_json({"auths": {f.at: {"auth": base64.b64encode(b"ada:secret").decode()}}}, "tokens.json")
    pulled(f"{f.at}/lib/app:v1", REGISTRY_AUTH_FILE=path)
    asked = [urllib.parse.parse_qs(urllib.parse.urlsplit(p).query) for p, _ in f.seen if p.startswith("/token")][-1]
    assert asked == {"service": ["the, service"], "scope": ["repository:lib/app:pull"]}, asked
    # The password goes to the token server alone, and no token goes there.
    for p, headers in f.seen:
        auth = headers.get("Authorization", "")
        assert not auth.startswith("Bearer" if p.startswith("/token") else "Basic"), (p, auth)
    f.uses = 3  # a token is good for three requests
    clear()
    pulled(f"{f.at}/lib/app:v1", REGISTRY_AUTH_FILE=path)
    assert sum(p.startswith("/token") for p, _ in f.seen) > 3
    for realm in ("ftp://127.0.0.1/x", "file:///etc/passwd", "//x"):
        f.realm, f.token = realm, None
        refused(f"{f.at}/lib/app:v1", "is not one of https", "--as", "x", REGISTRY_AUTH_FILE=path)
    f.realm = "http://192.0.2.1/token"  # refused before a packet
    refused(f"{f.at}/lib/app:v1", "it leads to another machine", "--as", "x", REGISTRY_AUTH_FILE=path)


def test_connections_that_are_cut():
    clear()
    f = front(cut=70000)
    shown = pulled(f"{f.at}/lib/app:v1")
    ranges = [h.get("Range") for p, h in f.seen if "/blobs/" in p]
    assert sum(r == "bytes=70000-" for r in ranges) == 8 and sum(r == "bytes=140000-" for r in ranges) == 8, ranges
    clear()
    f = front(cut=70000, cut_times=5, no_ranges=True)  # what is asked for in part is sent from its start
    assert pulled(f"{f.at}/lib/app:v1")["digest"] == shown["digest"]
    assert [h for _, h in f.seen if h.get("Range") == "bytes=70000-"]


def test_a_pull_that_was_killed_is_continued():
    clear()
    f = front(cut=100000, stall=threading.Event(), stall_rest=True)
    process = subprocess.Popen([CODEBOX, "image", "pull", f"{f.at}/lib/app:v1"], env=setup().env,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def parts():
        """The blobs of which a first piece is there; one that is whole loses this name while they are looked at."""
        at, found = cache() + "/blobs/sha256", []
        for name in os.listdir(at) if os.path.isdir(at) else ():
            with contextlib.suppress(FileNotFoundError):
                if name.endswith(".part") and os.path.getsize(f"{at}/{name}") >= 100000:
                    found.append(name)
        return found

    def works(pid):
        with contextlib.suppress(OSError):
            return command(pid) == "codebox-pull" and os.stat("/proc/" + pid).st_uid == os.geteuid()

    assert wait_until(parts)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert wait_until(lambda: not any(works(p) for p in os.listdir("/proc") if p.isdigit()))
    f.stall.set()
    begun, before = parts(), len(f.seen)
    assert begun and setup().images() == []
    pulled(f"{f.at}/lib/app:v1")
    first = {}
    for p, h in f.seen[before:]:
        first.setdefault(p.rpartition(":")[2], h.get("Range", ""))
    assert all(first[n[:-5]].startswith("bytes=1") for n in begun), (begun, first)
    # What is left there and is wrong does not stay wrong.
    layer = started["image"].manifest["layers"][0]["digest"][7:]
    for name in (layer, layer + ".part"):
        clear()
        left = [cache(), cache() + "/blobs", cache() + "/blobs/sha256", f"{cache()}/blobs/sha256/{name}"]
        os.makedirs(left[2])
        with open(left[3], "wb") as out:
            out.write(b"x" * 1000)
        it = os.stat(os.path.dirname(cache()))
        for path in left if os.geteuid() == 0 else ():
            os.chown(path, it.st_uid, it.st_gid)
        pulled(f"{f.at}/lib/app:v1")
    clear()


def test_digests_that_lie():
    clear()
    image = started["image"]
    flip = lambda data: data[:-1] + bytes([data[-1] ^ 1])  # noqa: E731
    for which in [image.manifest["config"]["digest"], image.manifest["layers"][3]["digest"]]:
        for how in (flip, lambda data: data + b"x"):
            f = front(change=(which, how))
            refused(f"{f.at}/lib/app:v1", "digest" if how is flip else "longer than its")
            clear()
    f = front(change=("/manifests/v1", lambda data: data + b"\n"))
    refused(f"{f.at}/lib/app:v1", "another manifest for lib/app:v1 than its digest says")
    f = front(change=("/manifests/" + started["digest"], lambda data: data + b"\n"))
    refused(f"{f.at}/lib/app@{started['digest']}", "than its digest says")
    for data, says in ((b"{}", "the image's manifest"), (b"<html>", "the image's manifest"),
                       (b"x" * (5 << 20), "larger than")):
        f = front(change=("/manifests/v1", lambda _, data=data: data))
        f.registry = Lenient(registry())
        refused(f"{f.at}/lib/app:v1", says)
    clear()


class Lenient:
    """A registry that says nothing about digests."""

    def __init__(self, registry):
        self.registry = registry

    def ask(self, *args, **kw):
        status, headers, body = self.registry.ask(*args, **kw)
        return status, {k: v for k, v in headers.items() if k.lower() != "docker-content-digest"}, body


def test_redirects():
    clear()
    elsewhere = front()
    f = front(redirect=f"http://localhost:{elsewhere.server_port}")
    f.realm = f"http://{f.at}/token"
    path = write_json({"auths": {f.at: {"auth": base64.b64encode(b"ada:secret").decode()}}}, "redirects.json")
    pulled(f"{f.at}/lib/app:v1", REGISTRY_AUTH_FILE=path)
    assert len(elsewhere.seen) == 9 and not [h for _, h in elsewhere.seen if "Authorization" in h], elsewhere.seen
    clear()
    f = front(redirect="")
    for where, says in (("http://192.0.2.1", "it leads to another machine"), ("file:///etc", "cannot be fetched"),
                        (f"http://{f.at}/again", "cannot be fetched")):
        f.redirect = where
        refused(f"{f.at}/lib/app:v1", says)


def test_layers_at_once():
    clear()
    f = front(slow=0.1)
    pulled(f"{f.at}/lib/app:v1")
    assert 2 <= f.most <= 4, f.most


def test_a_registry_that_fails():
    clear()
    f = front(fail=2)
    pulled(f"{f.at}/lib/app:v1")
    clear()
    f = front(fail=1 << 30)
    refused(f"{f.at}/lib/app:v1", "answers 503")
    assert len(f.seen) == 6, len(f.seen)


def test_the_worker_is_confined():
    clear()
    f = front(stall=threading.Event())
    process = subprocess.Popen([CODEBOX, "image", "pull", f"{f.at}/lib/app:v1"], env=setup().env,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert wait_until(lambda: f.now, 30)
        worker = [p for p in children(process.pid) if command(p) == "codebox-pull"]
        assert worker, "there is no codebox-pull"
        with open(f"/proc/{worker[0]}/status") as status, open(f"/proc/{worker[0]}/limits") as limits:
            said = dict(line.split(":\t", 1) for line in status.read().splitlines() if ":\t" in line)
            limit = [line.split()[3] for line in limits if line.startswith("Max open files")]
        assert said["NoNewPrivs"] == "1" and (SANITIZED or said["Seccomp"] == "2"), said
        assert int(said["CapEff"], 16) == 0 and limit == ["256"], (said, limit)
        with open(f"/proc/{worker[0]}/environ", "rb") if os.geteuid() == 0 else open(os.devnull, "rb") as e:
            assert b"secret" not in e.read()
    finally:
        f.stall.set()
        process.wait()
    clear()


def test_an_installation_that_only_root_reaches():
    """Root has given itself up before it starts what talks to the registry."""
    if os.geteuid() != 0:
        raise Skip("needs root")
    clear()
    closed = os.path.join(top, "closed")
    os.mkdir(closed, 0o700)
    for name in ("CODEBOX_LIBEXEC_DIR", "CODEBOX_SHARE_DIR"):
        setup().env[name] = shutil.copytree(os.environ[name], os.path.join(closed, name))
    try:
        shown = pulled(f"127.0.0.1:{registry().port}/lib/app:v1")
        assert shown["origin"]["digest"] == started["digest"]
        os.unlink(os.path.join(closed, "CODEBOX_LIBEXEC_DIR", "codebox-pull"))
        refused(f"127.0.0.1:{registry().port}/lib/app:v1", "codebox-pull: No such file", "--as", "other")
    finally:
        setup().env.update({name: os.environ[name] for name in ("CODEBOX_LIBEXEC_DIR", "CODEBOX_SHARE_DIR")})
    clear()


def test_hostile_layers_from_a_registry():
    r = registry()
    for n, (layer, says) in enumerate(((Layer().file("../victim"), "leads upwards"),
                                       (Layer().link("a", top).file("a/victim"), "symbolic link"))):
        r.push(f"lib/evil{n}", "latest", Image([(layer.bytes(), "gzip")]))
        refused(f"127.0.0.1:{r.port}/lib/evil{n}", says)
    clear()


def inside():
    """In a network namespace of its own, where this machine is 192.0.2.7: HTTPS, and HTTP when told so."""
    with socket.socket() as s:
        fcntl.ioctl(s, 0x8914, struct.pack("16sH14x", b"lo", 0x49))  # SIOCSIFFLAGS: up
        fcntl.ioctl(s, 0x8916, struct.pack("16sHH4s8x", b"lo", socket.AF_INET, 0, socket.inet_aton("192.0.2.7")))
    image = Image([(Layer().file("a").bytes(), "gzip")])

    class Static:
        def ask(self, method, path, headers=None):
            name = path.rpartition("/")[2]
            data = image.blobs[image.top["digest"] if name == "latest" else name]
            return 200, {"Content-Type": image.top["mediaType"]} if "manifests" in path else {}, data

    plain, tls = Front(Static(), "192.0.2.7"), Front(Static(), "192.0.2.7", sys.argv[2])
    started["box"] = type("B", (), {"env": dict(os.environ), "images": lambda self: []})()
    for name, args, says, env in (
            (plain.at, (), "cannot be fetched", {}), (plain.at, ("--plain-http",), "", {}),
            (tls.at, (), "certificate", {}), (tls.at, (), "", {"SSL_CERT_FILE": sys.argv[2]}),
            (tls.at, ("--plain-http",), "", None)):
        r = subprocess.run([CODEBOX, "image", "pull", "--force", "--as", "it", *args, name + "/a"],
                           env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=120)
        if env is None:
            assert r.returncode == 1, r.stdout
        else:
            assert r.returncode == (1 if says else 0) and says in r.stderr, (name, args, r.stderr)
    tls.redirect = f"http://{plain.at}"  # not from HTTPS to HTTP
    r = subprocess.run([CODEBOX, "image", "pull", "--force", "--as", "it", tls.at + "/a"], capture_output=True,
                       text=True, env={**os.environ, "SSL_CERT_FILE": sys.argv[2]}, timeout=120)
    assert r.returncode == 1 and "cannot be fetched" in r.stderr and len(plain.seen) == 3, (r.stderr, plain.seen)


def test_other_hosts_are_spoken_to_by_https():
    setup()
    if not shutil.which("openssl"):
        raise Skip("there is no openssl to make a certificate")
    cert = os.path.join(top, "cert.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", cert + ".key", "-out", cert,
                    "-subj", "/CN=192.0.2.7", "-addext", "subjectAltName=IP:192.0.2.7"], check=True,
                   capture_output=True)
    with open(cert, "a") as out, open(cert + ".key") as key:
        out.write(key.read())
    ids = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
    if subprocess.run(["unshare", *ids, "--net", "true"], capture_output=True).returncode:
        raise Skip("no network namespace can be made")
    r = subprocess.run(["unshare", *ids, "--net", sys.executable, os.path.abspath(__file__), "--inside", cert],
                       env={**setup().env, "CODEBOX": CODEBOX}, capture_output=True, text=True, timeout=200)
    assert r.returncode == 0, r.stdout + r.stderr


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        inside()
    else:
        run(globals())
