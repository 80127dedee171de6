#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Artifacts that are copied to an object store, against servers of S3 and Azure Blob that verify signatures: links, what is too large
for one request, what fails and passes, what fails and does not, and what nobody may see of the store's secret."""
import atexit
import base64
import hashlib
import hmac
import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from common_http import Daemon  # noqa: E402
from cbxtest import Box, Skip, children, command, directory, run, wait_until  # noqa: E402
from model import Model  # noqa: E402
from ociimage import Image, bash_layer, layout, write_tar  # noqa: E402

top = os.path.join(directory, "objects")
os.makedirs(top, exist_ok=True)
os.environ["CODEBOX_DATA_DIR"] = os.path.join(top, "data")
SECRET = "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY"
PART = 16 << 20
SANITIZED = os.environ.get("CBX_SLACK_KIB", "2048") != "2048"
policies = 0
store = emulator = None
AZURE_KEY = base64.b64encode(b"an account of Azure has a key of 64 bytes, and this one is such.!").decode()


def setup(what):
    r = subprocess.run([str(HERE.parent / "clients" / "setup.sh"), what], capture_output=True, text=True)
    if r.returncode == 77:
        raise Skip(r.stderr.strip())
    assert r.returncode == 0, r.stderr
    return r.stdout.strip()


class Server:
    """The object store, as another machine's would be."""

    def __init__(self):
        node = os.path.join(setup("node22"), "node_modules", "node", "bin", "node")
        self.command = [node, str(HERE / "s3server.mjs"), os.path.join(setup("objects"), "node_modules"),
                        os.path.join(top, "s3"), "AKIAEXAMPLE", SECRET]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        atexit.register(self.process.kill)
        self.port = int(self.process.stdout.readline())
        self.endpoint = f"http://127.0.0.1:{self.port}"

    def control(self, what, **values):
        return json.loads(fetch(f"{self.endpoint}/-/{what}?{urllib.parse.urlencode(values)}").body)


class Azure:
    """Azurite, with an account of our own and a container in it."""

    def __init__(self):
        node = os.path.join(setup("node22"), "node_modules", "node", "bin", "node")
        self.process = subprocess.Popen(
            [node, os.path.join(setup("objects"), "node_modules", "azurite", "dist", "src", "blob", "main.js"),
             "--location", os.path.join(top, "azure"), "--blobHost", "127.0.0.1", "--blobPort", "0", "--disableTelemetry"],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "AZURITE_ACCOUNTS": f"acct:{AZURE_KEY}"})
        atexit.register(self.process.kill)
        for line in self.process.stdout:
            if m := re.search(r"successfully listens on (http://127\.0\.0\.1:\d+)", line):
                break
        threading.Thread(target=self.process.stdout.read, daemon=True).start()  # what it says of each request
        self.endpoint = m.group(1) + "/acct"
        assert self.ask("PUT", "/acct/artifacts?restype=container", "\nrestype:container") == 201

    def ask(self, method, path, queries):
        date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
        text = f"{method}{chr(10) * 12}x-ms-date:{date}\nx-ms-version:2021-06-08\n/acct{path.split('?')[0]}{queries}"
        mac = hmac.digest(base64.b64decode(AZURE_KEY), text.encode(), "sha256")
        c = http.client.HTTPConnection(self.endpoint.split("/")[2], timeout=120)
        c.request(method, path, headers={"x-ms-date": date, "x-ms-version": "2021-06-08", "Content-Length": "0",
                                         "Authorization": "SharedKey acct:" + base64.b64encode(mac).decode()})
        return c.getresponse().status

    def sas(self, expires):
        """For all that may be done with the objects of the container."""
        text = f"racwd\n\n{expires}\n/blob/acct/artifacts\n\n\n\n2021-06-08\nc\n\n\n\n\n\n\n"
        mac = base64.b64encode(hmac.digest(base64.b64decode(AZURE_KEY), text.encode(), "sha256")).decode()
        return f"sv=2021-06-08&sr=c&sp=racwd&se={urllib.parse.quote(expires)}&sig={urllib.parse.quote(mac, safe='')}"


def azure():
    global emulator
    if emulator is None:
        emulator = Azure()
    return emulator


def serve_azure(s, secret, **artifacts):
    return serve(s, {}, secret_file(secret), {"type": "azure", "endpoint": s.endpoint, "container": "artifacts",
                                              "account": "acct", "prefix": "cbx/"}, **artifacts)


def server():
    global store
    if store is None or store.process.poll() is not None:
        store = Server()
    store.control("fail", n=0)
    return store


def fetch(url, method="GET"):
    """An address by itself: no token, no cookie."""
    parts = urllib.parse.urlsplit(url)
    c = http.client.HTTPConnection(parts.hostname, parts.port, timeout=120)
    c.request(method, parts.path + ("?" + parts.query if parts.query else ""))
    a = c.getresponse()
    a.body = a.read()
    c.close()
    return a


def secret_file(text=SECRET):
    path = os.path.join(top, "secret")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
        f.write(text + "\n")
    return {"file": path}


def serve(s, store_values={}, secret=None, to=None, tenants=None, **artifacts):
    """codeboxd with a policy whose artifacts go to a store."""
    global policies
    b = Box()
    if "bash" not in b.images():
        write_tar(layout([Image([(bash_layer(os.path.join(top, "tree")).bytes(), "gzip")], {})]), os.path.join(top, "it.tar"))
        b("image", "import", "bash", os.path.join(top, "it.tar"), check=True)
    policies += 1
    path = os.path.join(top, f"policy-{policies}.json")
    to = None if s is None else {**to, "secret": secret} if to else {
        "type": "s3", "endpoint": s.endpoint, "region": "eu-central-1", "bucket": "artifacts", "prefix": "cbx/",
        "access_key": "AKIAEXAMPLE", "secret": secret or secret_file(), **store_values}
    with open(path, "w") as f:
        json.dump({"images": ["bash"], "artifacts": {"keep": "1h", **({"store": to} if to else {}), **artifacts}}, f)
    os.chmod(path, 0o644)
    d = Daemon("--policy", path, tenants=tenants)
    d.policy = path
    return d


def stop(d):
    if d.process.poll() is None:
        d.box("artifact", "rm", "--all")
        d.process.terminate()
        d.process.wait(60)


def files_of(d, code, session="s", headers={}, **values):
    """Of an execution, as REST clients see them."""
    c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=400)

    def ask(method, path, body=None):
        c.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json", **headers})
        a = c.getresponse()
        data = json.loads(a.read())
        assert a.status in (200, 409), (a.status, data)
        return data

    ask("POST", "/sessions", {"session_id": session, "image": "bash", **values})
    x = ask("POST", "/execute", {"session_id": session, "code": code, "language": "bash"})["request_id"]
    while (done := ask("GET", f"/execute/{x}?wait=60"))["status"] != "completed":
        assert done["status"] in ("running", "queued", "pending"), done
    return {f["path"]: f for f in done["execution"]["files"]}


def uploads(d):
    """The program that uploads, and below it a process for each upload."""
    return [p for p in children(d.pid) if command(p) == "codebox-upload"]


def listed(d):
    return d.box.json("artifact", "list", "--json")["artifacts"]


def test_links_lead_to_the_store():
    s = server()
    d = serve(s)
    f = files_of(d, "printf 'some bytes' >'a b+é%.html'; mkdir sub; printf x >sub/b; touch empty")
    for path, body in (("a b+é%.html", b"some bytes"), ("sub/b", b"x"), ("empty", b"")):
        link = f[path]["link"]
        assert link.startswith(s.endpoint + "/artifacts/cbx/"), link
        a = fetch(link)
        assert (a.status, a.body) == (200, body), (a.status, a.body, link)
    page = f["a b+é%.html"]["link"]
    assert fetch(page).headers["Content-Type"].startswith("text/html"), fetch(page).headers.items()
    assert fetch(page).headers["Content-Disposition"] == "attachment", fetch(page).headers.items()
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(page).query)
    for bad in (page.split("?")[0], page.replace("X-Amz-Signature=", "X-Amz-Signature=0"),
                page.replace("X-Amz-Expires=" + query["X-Amz-Expires"][0], "X-Amz-Expires=604800"),
                page.replace("html?", "html2?")):
        assert fetch(bad).status == 403, bad
    # The command line, without any HTTP, and MCP have it as well.
    a = next(a for a in listed(d) if a["path"] == "sub/b")
    assert a["object"] == {"store": s.endpoint + "/artifacts", "key": urllib.parse.unquote(
        urllib.parse.urlsplit(f["sub/b"]["link"]).path)[len("/artifacts/"):]}, a
    r = d.box("artifact", "link", a["artifact_id"], check=True).stdout.strip()
    assert fetch(r).body == b"x" and r.startswith(s.endpoint), r
    assert d.box("artifact", "get", a["artifact_id"]).stdout == "x"
    m = Model(d.box)
    r = m.call("run_code", code="echo 1,2 >table.csv")
    link = r["structuredContent"]["files"][0]["link"]
    assert link.startswith(s.endpoint) and fetch(link).body == b"1,2\n", r
    assert link in "".join(c.get("text", "") for c in r["content"]), r["content"]
    m.close()
    m = Model(d.box, "--profile", "codeboxmcp")
    r = m.call("exec_code", session_id="x", language="bash", code="echo 3,4 >table.csv")
    link = json.loads(r["content"][0]["text"])["new_artifacts"][0]["sas_url"]
    assert link.startswith(s.endpoint) and fetch(link).body == b"3,4\n", link
    info = json.loads(m.call("session_info", session_id="x")["content"][0]["text"])
    assert info["blob_upload_enabled"] is True and info["blob_container"] == "artifacts", info
    m.close()
    stop(d)


def test_removal_reaches_the_store():
    s = server()
    d = serve(s)
    f = files_of(d, "echo 1 >a; echo 2 >b")
    d.box("artifact", "rm", f["a"]["artifact_id"], check=True)
    assert fetch(f["a"]["link"]).status == 404 and fetch(f["b"]["link"]).body == b"2\n"
    s.control("fail", n=100, status=403)
    r = d.box("artifact", "rm", f["b"]["artifact_id"])
    assert r.returncode != 0 and "403" in r.stderr, r.stderr
    s.control("fail", n=0)
    assert fetch(f["b"]["link"]).status == 200 and listed(d) == []
    # What lies in a store that is not the policy's any more stays there; each is answered, on the connection that asked.
    files_of(d, "echo 3 >c; echo 4 >d; echo 5 >e")
    with open(d.policy) as at:
        policy = json.load(at)
    policy["artifacts"]["store"]["bucket"] = "other"
    with open(d.policy, "w") as at:
        json.dump(policy, at)
    d.box("policy", "reload", check=True)
    for a in listed(d):
        r = d.box("artifact", "rm", a["artifact_id"])
        assert r.returncode != 0 and "is not the policy's store now" in r.stderr, r.stderr
    assert listed(d) == []
    stop(d)


def test_links_expire():
    d = serve(server(), link_expiry="3s")
    f = files_of(d, "echo 1 >a")["a"]
    assert "X-Amz-Expires=3&" in f["link"], f
    r = d.box.json("artifact", "link", "--json", "--expires", "10h", f["artifact_id"])
    assert r["expires"] <= time.time() + 3 and "X-Amz-Expires=3&" in r["link"], r
    assert wait_until(lambda: fetch(f["link"]).status == 403, 60)
    assert b"has expired" in fetch(f["link"]).body
    assert fetch(d.box("artifact", "link", f["artifact_id"], check=True).stdout.strip()).body == b"1\n"
    stop(d)


def memory(pid):
    try:
        with open(f"/proc/{pid}/status") as f:
            return int(next(line for line in f if line.startswith("VmHWM")).split()[1])
    except (OSError, StopIteration):
        return 0


def test_large_files_go_in_parts():
    s, size = server(), int(os.environ.get("CBX_OBJECT_BYTES", 4 * PART + 12345))
    d = serve(s, file_size="4G", quota="8G")
    files_of(d, "echo warm >warm")
    before, peaks = memory(d.pid), []
    watch = threading.Thread(target=lambda: [peaks.append(max(map(memory, uploads(d)), default=0)) or time.sleep(0.05)
                                             for _ in iter(lambda: watch.on, False)])
    watch.on = True
    watch.start()
    s.control("fail", n=1, status=503, after=2)
    f = files_of(d, f"head -c {size} /dev/urandom >large", "large", disk=size * 2, timeout=600)["large"]
    watch.on = False
    watch.join()
    assert "artifact_id" in f and "not_uploaded" not in f, f
    asked = [a for a in s.control("log") if "uploadId" in a["url"] or "uploads" in a["url"]]
    parts = -(-size // PART)
    assert [a["method"] for a in asked] == ["POST"] + ["PUT"] * (parts + 1) + ["POST"], asked
    grown, peak = memory(d.pid) - before, max(peaks)
    print(f"# {size >> 20} MiB: codeboxd {grown} KiB more, codebox-upload at most {peak} KiB")
    assert SANITIZED or (grown < 24 << 10 and peak < 64 << 10), (grown, peak)
    to = os.path.join(top, "large")
    d.box("artifact", "get", f["artifact_id"], to, check=True)
    with open(to, "rb") as file, urllib.request.urlopen(f["link"], timeout=120) as a:
        for _ in range(parts):
            assert file.read(PART) == a.read(PART)
        assert not a.read(1)
        file.seek(PART)
        second = next(p for p in asked if "partNumber=2&" in p["url"])
        assert second["sha256"] == hashlib.sha256(file.read(PART)).hexdigest(), "what is signed is what is sent"
    os.unlink(to)
    stop(d)


def test_errors_that_pass_are_waited_out():
    s = server()
    d = serve(s)
    files_of(d, "echo warm >warm")
    s.control("fail", n=3, status=500)
    f = files_of(d, "echo 1 >a")["a"]
    assert fetch(f["link"]).body == b"1\n" and len(s.control("log")) == 5, f
    s.control("fail", n=100, status=503)
    f = files_of(d, "echo 2 >a")["a"]
    assert "503 SlowDown" in f["not_uploaded"] and "6 tries" in f["not_uploaded"], f
    assert fetch(f["link"]).body == b"2\n" and f["link"].startswith(f"http://127.0.0.1:{d.port}/"), "the copy that is here"
    s.control("fail", n=100, status=403)
    f = files_of(d, "echo 3 >a")["a"]
    assert "403" in f["not_uploaded"] and "tries" not in f["not_uploaded"] and len(s.control("log")) == 1, f
    assert any("is not in the object store" in line for line in d.log), d.log
    s.control("fail", n=0)
    stop(d)


def test_a_server_that_dies_midway():
    s = server()
    d = serve(s, file_size="1G")
    s.control("die", n=1, after=2)  # in the second part
    f = files_of(d, f"head -c {3 * PART} /dev/zero >large")["large"]
    assert s.process.wait(60) == 3
    assert "not_uploaded" in f and "127.0.0.1" in f["not_uploaded"] and "artifact_id" in f, f
    a = fetch(f["link"])
    assert len(a.body) == 3 * PART, "it is kept here"
    assert "object" not in listed(d)[0]
    stop(d)


def test_a_session_that_ends_midway_gives_up():
    s = server()
    d = serve(s)
    s.control("hang", n=1)
    client = d.box.popen("run", "--session", "s", "-c", "echo 1 >a", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert wait_until(lambda: s.control("log"), 60)
    assert wait_until(lambda: len(uploads(d)) == 2, 60), uploads(d)
    d.box("session", "rm", "s")
    assert wait_until(lambda: len(uploads(d)) == 1, 60), "the process of the upload has gone"
    client.wait(60)
    assert all("object" not in a for a in listed(d))
    stop(d)


def test_one_that_is_removed_midway_leaves_no_copy():
    s = server()
    d = serve(s)
    s.control("log")
    s.control("fail", n=5, status=503)  # the sixth try comes after six seconds
    client = d.box.popen("run", "--session", "s", "-c", "echo 1 >a", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert wait_until(lambda: s.control("log"), 60)
    d.box("artifact", "rm", listed(d)[0]["artifact_id"], check=True)
    methods = []

    def removed():
        methods.extend(a["method"] for a in s.control("log"))
        return "DELETE" in methods
    assert wait_until(removed, 60), methods
    assert client.wait(60) == 0 and listed(d) == []
    stop(d)


def test_a_wrong_key_is_refused_and_not_shown():
    s, wrong = server(), "another-secret-that-nobody-may-see"
    os.environ["CBX_STORE_SECRET"] = wrong
    d = serve(s, secret={"environment": "CBX_STORE_SECRET"})
    del os.environ["CBX_STORE_SECRET"]
    f = files_of(d, "echo 1 >a")["a"]
    assert "SignatureDoesNotMatch" in f["not_uploaded"], f
    for pid in [d.pid, *children(d.pid)]:
        for name in ("environ", "cmdline"):
            try:
                with open(f"/proc/{pid}/{name}", "rb") as at:
                    assert wrong.encode() not in at.read(), (pid, name)
            except (PermissionError, FileNotFoundError, ProcessLookupError):  # not ours to read, or ended
                pass
    assert wrong not in "".join(d.log) + json.dumps(f) + json.dumps(listed(d))
    r = d.box("run", "--session", "s", "-c", "env; cat /proc/*/environ 2>/dev/null")
    assert wrong not in r.stdout + r.stderr
    stop(d)
    d = serve(s, store_values={"access_key": "SOMEBODY"})
    assert "InvalidAccessKeyId" in files_of(d, "echo 1 >a")["a"]["not_uploaded"]
    stop(d)
    d = serve(s, store_values={"bucket": "elsewhere"})
    assert "404 NoSuchBucket" in files_of(d, "echo 1 >a")["a"]["not_uploaded"]
    stop(d)
    d = serve(s, secret={"file": os.path.join(top, "none")})
    assert "No such file" in files_of(d, "echo 1 >a")["a"]["not_uploaded"]
    stop(d)


def test_the_quota_comes_first():
    s = server()
    d = serve(s, quota="1M", file_size="600K")
    f = files_of(d, "head -c 500000 /dev/zero >a; head -c 600000 /dev/zero >b")
    assert sorted("link" in v for v in f.values()) == [False, True], f
    assert "artifacts.quota" in next(v["not_kept"] for v in f.values() if "link" not in v)
    assert len([a for a in s.control("log") if a["method"] == "PUT"]) == 1
    stop(d)


def test_tenants_have_names_of_their_own():
    s = server()
    d = serve(s, tenants={"acme": {}, "beta": {}})
    links = [files_of(d, f"echo {t} >a", headers={"Authorization": "Bearer " + d.token(t)})["a"]["link"]
             for t in ("acme", "beta")]
    assert [fetch(link).body for link in links] == [b"acme\n", b"beta\n"]
    assert ["/cbx/acme/s/" in links[0], "/cbx/beta/s/" in links[1]] == [True, True], links
    stop(d)


def test_what_uploads_is_confined():
    s = server()
    d = serve(s)
    files_of(d, "echo 1 >a")
    s.control("hang", n=1)
    client = d.box.popen("run", "--session", "s", "-c", "echo 2 >a", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    above = uploads(d)[0]
    assert wait_until(lambda: s.control("log") and children(above), 60)
    with open(f"/proc/{children(above)[0]}/status") as f:
        status = dict(line.split(":", 1) for line in f)
    assert status["NoNewPrivs"].strip() == "1" and (SANITIZED or status["Seccomp"].strip() == "2"), status
    d.process.kill()
    d.process.wait(60)
    assert wait_until(lambda: not os.path.exists(f"/proc/{above}"), 60)
    client.wait(60)


def test_azure_has_copies_and_links():
    s = azure()
    d = serve_azure(s, AZURE_KEY)
    f = files_of(d, "printf 'some bytes' >'a b+é%.html'; printf x >b; touch empty")
    for path, body in (("a b+é%.html", b"some bytes"), ("b", b"x"), ("empty", b"")):
        a = fetch(f[path]["link"])
        assert f[path]["link"].startswith(s.endpoint) and (a.status, a.body) == (200, body), (a.status, a.body, f)
    page = f["a b+é%.html"]["link"]
    assert fetch(page).headers["Content-Type"].startswith("text/html"), fetch(page).headers.items()
    assert fetch(page).headers["Content-Disposition"] == "attachment", fetch(page).headers.items()
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(page).query)
    for bad in (page.split("?")[0], page.replace("sig=", "sig=A"), page.replace("sp=r&", "sp=rw&"),
                page.replace("html?", "html2?"), page.replace("se=20", "se=21")):
        assert fetch(bad).status in (403, 404), (bad, fetch(bad).status)
    assert query["sp"] == ["r"], query
    d.box("artifact", "rm", f["b"]["artifact_id"], check=True)
    assert fetch(f["b"]["link"]).status == 404
    stop(d)


def test_azure_takes_large_files_in_blocks():
    s, size = azure(), 2 * PART + 12345
    text = f"DefaultEndpointsProtocol=https;AccountName=acct;AccountKey={AZURE_KEY};EndpointSuffix=core.windows.net"
    d = serve_azure(s, text, file_size="1G", link_expiry="30s")
    f = files_of(d, f"head -c {size} /dev/urandom >large")["large"]
    assert "not_uploaded" not in f, f
    to = os.path.join(top, "large")
    d.box("artifact", "get", f["artifact_id"], to, check=True)
    with open(to, "rb") as file:
        assert fetch(d.box("artifact", "link", f["artifact_id"], check=True).stdout.strip()).body == file.read()
    os.unlink(to)
    short = d.box("artifact", "link", "--expires", "2s", f["artifact_id"], check=True).stdout.strip()
    assert wait_until(lambda: fetch(short).status == 403, 60)
    stop(d)


def test_azure_refuses_a_wrong_key():
    s, wrong = azure(), base64.b64encode(b"x" * 64).decode()
    d = serve_azure(s, wrong)
    f = files_of(d, "echo 1 >a")["a"]
    assert "403" in f["not_uploaded"] and wrong not in json.dumps(f) + "".join(d.log), f
    stop(d)
    d = serve_azure(s, "not-a-key!")
    assert "give a key of Azure" in files_of(d, "echo 1 >a")["a"]["not_uploaded"]
    stop(d)


def test_azure_takes_a_shared_access_signature():
    s = azure()
    d = serve_azure(s, s.sas("2099-01-01T00:00:00Z"))
    f = files_of(d, "echo 1 >a")["a"]
    assert "not_uploaded" not in f, f
    assert "sig" not in f["link"].replace("signature", "") and fetch(f["link"]).body == b"1\n", "no link gives it away"
    assert listed(d)[0]["object"]["store"] == s.endpoint + "/artifacts"
    d.box("artifact", "rm", f["artifact_id"], check=True)
    stop(d)
    d = serve_azure(s, s.sas("2020-01-01T00:00:00Z"))
    f = files_of(d, "echo 1 >a")["a"]
    assert "403" in f["not_uploaded"] and "sig=" not in json.dumps(f) + "".join(d.log), f
    stop(d)


def test_a_request_names_its_store():
    """With its own key, by the headers of CodeBoxMCP, where the policy has the host; nobody else sees the key."""
    s = azure()
    host = s.endpoint.split("/")[2]
    d = serve(None, stores=[host, "*.blob.core.windows.net"])
    whole = f"DefaultEndpointsProtocol=http;AccountName=acct;AccountKey={AZURE_KEY};BlobEndpoint={s.endpoint};"
    headers = {"X-Blob-Connection-String": whole, "X-Blob-Container-Name": "artifacts"}
    f = files_of(d, "printf mine >a", headers=headers)["a"]
    assert f["link"].startswith(s.endpoint + "/artifacts/") and fetch(f["link"]).body == b"mine", f
    assert AZURE_KEY not in json.dumps(f)
    other = files_of(d, "printf none >b")["b"]  # the next request has none
    assert other["link"].startswith(f"http://127.0.0.1:{d.port}/artifacts/"), other
    assert d.box("artifact", "link", f["artifact_id"], check=True).stdout.startswith(f"http://127.0.0.1:{d.port}/"), "the key has gone"
    r = d.box("artifact", "rm", f["artifact_id"])
    assert r.returncode != 0 and "its copy stays in " + s.endpoint in r.stderr, r.stderr
    assert fetch(f["link"]).body == b"mine"
    sas = f"BlobEndpoint={s.endpoint};SharedAccessSignature={s.sas('2099-01-01T00:00:00Z')}"
    f = files_of(d, "printf sas >c", headers={**headers, "X-Blob-Connection-String": sas})["c"]
    assert "not_uploaded" not in f and fetch(f["link"]).body == b"sas" and "sp=racwd" not in f["link"], f
    f = files_of(d, "echo 1 >e", headers={**headers, "X-Blob-Connection-String": whole.replace(AZURE_KEY, base64.b64encode(b"x" * 64).decode())})["e"]
    assert "403" in f["not_uploaded"], f
    for changed, says in (({"X-Blob-Connection-String": whole.replace("127.0.0.1", "127.0.0.2")}, "artifacts.stores"),
                          ({"X-Blob-Connection-String": whole.replace("BlobEndpoint", "Blobendpoint")}, "connection string of Azure"),
                          ({"X-Blob-Connection-String": f"AccountName=acct;AccountKey={AZURE_KEY};EndpointSuffix=example.org"}, "artifacts.stores"),
                          ({"X-Blob-Connection-String": whole.replace("AccountKey", "QueueEndpoint")}, "neither AccountKey"),
                          ({"X-Blob-Connection-String": None}, "missing header: X-Blob-Connection-String"),
                          ({"X-Blob-Container-Name": "../x"}, "X-Blob-Container-Name")):
        values = {k: v for k, v in {**headers, **changed}.items() if v is not None}
        status, a = refused(d, values)
        assert status in (400, 403) and says in json.dumps(a) and AZURE_KEY not in json.dumps(a), (changed, status, a)
    m = Model(type("B", (), {"env": {**d.box.env, "AZURE_BLOB_CONNECTION_STRING": whole, "AZURE_BLOB_CONTAINER_NAME": "artifacts"}}),
              "--profile", "codeboxmcp")
    a = json.loads(m.call("exec_code", session_id="p", language="bash", code="printf env >of.csv")["content"][0]["text"])
    assert fetch(a["new_artifacts"][0]["sas_url"]).body == b"env" and a["new_artifacts"][0]["sas_url"].startswith(s.endpoint), a
    info = json.loads(m.call("session_info", session_id="p")["content"][0]["text"])
    assert info["blob_upload_enabled"] is True and info["blob_container"] == "artifacts", info
    m.close()
    assert AZURE_KEY not in "".join(d.log)
    for pid in [d.pid, *children(d.pid)]:
        for name in ("environ", "cmdline"):
            try:
                with open(f"/proc/{pid}/{name}", "rb") as at:
                    assert AZURE_KEY.encode() not in at.read(), (pid, name)
            except (PermissionError, FileNotFoundError, ProcessLookupError):
                pass
    assert AZURE_KEY not in json.dumps(listed(d))
    stop(d)
    d = serve(None)
    status, a = refused(d, headers)
    assert status == 403 and "artifacts.stores" in json.dumps(a), a
    stop(d)
    d = serve(None, stores=[host], keep=0)
    status, a = refused(d, headers)
    assert "artifacts.keep" in json.dumps(a), (status, a)
    stop(d)


def refused(d, headers):
    c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=120)
    for path, body in ("/sessions", {"session_id": "s", "image": "bash"}), ("/execute", {"session_id": "s", "code": "echo 1 >z", "language": "bash"}):
        c.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **(headers if path == "/execute" else {})})
        a = c.getresponse()
        status, data = a.status, json.loads(a.read())
    c.close()
    return status, data


def test_policies_are_strict():
    b, path = Box(), os.path.join(top, "bad.json")
    good = {"type": "s3", "endpoint": "https://s3.example.org", "region": "r", "bucket": "b", "access_key": "a",
            "secret": {"environment": "S"}}

    def check(**changes):
        values = {k: v for k, v in {**good, **changes}.items() if v is not None}
        with open(path, "w") as f:
            json.dump({"artifacts": {"store": values}}, f)
        return b("policy", "check", path)

    assert check().returncode == 0, check().stderr
    to_azure = {"type": "azure", "endpoint": "https://acct.blob.core.windows.net", "account": "acct", "container": "c",
                "region": None, "bucket": None, "access_key": None}
    assert check(**to_azure).returncode == 0, check(**to_azure).stderr
    for changes, what in (({"type": "ftp"}, "type"), ({"endpoint": "http://s3.example.org"}, "encryption"),
                          ({"endpoint": "http://10.0.0.1"}, "encryption"), ({"endpoint": "https://a/b"}, "endpoint"),
                          ({"endpoint": "https://u:p@a"}, "endpoint"), ({"endpoint": "https://2130706433"}, "endpoint"),
                          ({"bucket": "a/b"}, "bucket"), ({"bucket": ""}, "bucket"), ({"region": "a b"}, "region"),
                          ({"access_key": None}, "access_key"), ({"secret": "text"}, "no secret itself"),
                          ({"secret": None}, "no secret itself"), ({"prefix": "../x"}, "prefix"), ({"prefix": "/x"}, "prefix"),
                          ({"more": "x"}, "unknown key"), ({**to_azure, "region": "r"}, "unknown key"),
                          ({**to_azure, "endpoint": "https://a.example/b"}, "endpoint"),
                          ({**to_azure, "account": None}, "account"), ({**to_azure, "container": "a/b"}, "container")):
        r = check(**changes)
        assert r.returncode != 0 and what in r.stderr and "bad.json:1:" in r.stderr, (changes, r.stderr)


if __name__ == "__main__":
    run(globals())
