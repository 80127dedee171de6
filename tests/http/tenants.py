#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tenants and their tokens: who gets in, for what, how often; that nobody sees another's."""
import fcntl
import hashlib
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common_http import DAEMON, PATIENCE, Client, Daemon, Legacy, Modern, Skip, ping, same, start, wait_until  # noqa: E402
import cbxtest  # noqa: E402

TENANTS = {"acme": {"sessions": 2, "policy": {"limits": {"memory": "256M", "timeout": "20s"}}},
           "beta": {"memory": "700M"},
           "many": {"cpus": 2.5},
           "slow": {"requests_per_second": 2, "requests_at_once": 2},
           "calm": {"executions_per_second": 1}}
servers = {}


def daemon():
    if "daemon" not in servers:
        servers["daemon"] = d = Daemon(tenants=TENANTS)
        d.tokens = {name: d.token(name) for name in TENANTS}
        c = as_tenant("acme")
        r = c.call("run_code", {"code": "6*7"}).message["result"]
        c.send("DELETE")  # its session with it
        servers["why"] = r["content"][0]["text"] if r["isError"] else None
    if servers["why"]:
        raise Skip(f"no cell can run here: {servers['why']}")
    return servers["daemon"]


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def as_tenant(name):
    d = servers["daemon"]
    return Legacy(d.port, **bearer(d.tokens[name]))


def result(answer):
    return answer.message["result"]


def text(answer):
    return result(answer)["content"][0]["text"]


def without_sessions(name):
    c = as_tenant(name)
    for s in result(c.call("list_sessions"))["structuredContent"]["sessions"]:
        c.call("close_session", {"session_id": s["session_id"]})
    return c


def test_who_gets_in():
    d = daemon()
    good = d.tokens["acme"]
    assert re.fullmatch(r"cbx_[a-z2-7]{8}_[a-z2-7]{52}", good), good
    for wrong in [None, "", "Bearer", f"Basic {good}", f"Bearer {good}x", f"Bearer {good[:-1]}", "Bearer cbx_",
                  f"Bearer {good[:13]}{'a' * 52}", f"Bearer cbx_aaaaaaaa{good[12:]}", f"Bearer {good.upper()}"]:
        a = Client(d.port).send("POST", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, Authorization=wrong)
        same((wrong, a.status), (wrong, 401))
        assert a.headers["WWW-Authenticate"].startswith("Bearer"), a.headers
    c = as_tenant("acme")
    assert "6" in text(c.call("run_code", {"code": "2*3"}))
    c.send("DELETE")
    # A name that is not this computer's is refused on its own address, token or not.
    same(ping(d.port, Host="evil.example.com", **bearer(good)).status, 403)
    same(ping(d.port, Origin="http://evil.example.com", **bearer(good)).status, 403)


def test_a_body_is_read_after_the_token():
    d = daemon()
    with socket.create_connection(("127.0.0.1", d.port), timeout=PATIENCE) as s:
        s.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                  b"Expect: 100-continue\r\nContent-Length: 9000000\r\n\r\n")
        same(s.recv(65536)[9:12], b"401")


def test_the_file_has_no_secret():
    d = daemon()
    path = os.path.join(d.config, "tokens.json")
    stored = Path(path).read_text()
    assert os.stat(path).st_mode & 0o007 == 0, oct(os.stat(path).st_mode)
    for token in d.tokens.values():
        assert re.fullmatch("cbx_[a-z2-7]{8}_[a-z2-7]{52}", token), "260 bits are 52 characters of 5"
        assert token[13:] not in stored and token[4:12] in stored
        assert hashlib.sha256(token.encode()).hexdigest() in stored
    same(os.path.exists(path + ".codebox-backup"), False)


def test_tokens_that_are_made_at_once():
    box = cbxtest.Box()
    path = os.path.join(box.dir, "tenants.json")
    Path(path).write_text('{"tenants": {"acme": {}}}')
    made = [box.popen("token", "create", "--json", "--tenant", "acme", "--tenants", path, stdout=subprocess.PIPE) for _ in range(8)]
    ids = {json.loads(p.communicate()[0])["id"] for p in made}
    same(ids, {t["id"] for t in box.json("token", "list", "--json", "--tenants", path)["tokens"]})
    held = os.open(box.dir, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    r = box("token", "list", "--tenants", path)
    os.close(held)
    assert r.returncode == 1 and "another program holds a lock" in r.stderr, r


def test_scopes():
    d = daemon()
    a = ping(d.port, **bearer(d.token("acme", "--scope", "read")))
    same(a.status, 403)
    assert 'insufficient_scope' in a.headers["WWW-Authenticate"], a.headers
    c = d.box("token", "create", "--tenant", "acme", "--scope", "all")
    assert c.returncode == 1 and "read,run" in c.stderr, c


def test_where_images_are_is_not_for_tenants():
    d = daemon()
    c = without_sessions("beta")
    told = text(c.call("create_session", {"image": "nowhere"}))
    same(told.split("\n")[0], 'there is no image "nowhere"; list the images.')
    # Who runs codeboxd learns of it by the log.
    assert wait_until(lambda: any('"nowhere" in /' in line for line in d.log)), d.log[-5:]
    assert "/" not in told and "python" not in told, told


def store_with(*names):
    """A data directory with images that are all the same, but for their names."""
    box = cbxtest.Box()
    data = box.env["CODEBOX_DATA_DIR"] = os.path.join(box.dir, "data")
    made = box("image", "build", "host")
    if made.returncode:
        raise Skip(made.stderr)
    for name in names:
        shutil.copytree(f"{data}/images/host", f"{data}/images/{name}", symlinks=True)
        path = Path(f"{data}/images/{name}/manifest.json")
        path.write_text(json.dumps({**json.loads(path.read_text()), "name": name}))
    return data


def test_own_images():
    tenants = {"acme": {"images": ["acme-gpu", "both"]}, "beta": {"images": ["both"]},
               "calm": {"policy": {"images": ["acme-gpu", "host"]}}}
    d = Daemon(tenants=tenants, CODEBOX_DATA_DIR=store_with("acme-gpu", "acme-gpu2", "both"))
    tokens = {name: d.token(name) for name in tenants}

    def ask(tenant, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=PATIENCE)
        c.request(method, path, None if body is None else json.dumps(body),
                  {**bearer(tokens[tenant]), "Content-Type": "application/json"})
        r = c.getresponse()
        return r.status, json.loads(r.read()), r.headers.get("Codebox-Error")

    def images(tenant):
        status, body, _ = ask(tenant, "GET", "/images")
        same(status, 200)
        listed = Legacy(d.port, **bearer(tokens[tenant])).request("resources/read", {"uri": "codebox://images"})
        same(json.loads(result(listed)["contents"][0]["text"]), body)
        return {i["name"]: i for i in body["images"]}

    same(set(images("acme")), {"acme-gpu", "acme-gpu2", "both", "host"})
    same(set(images("beta")), {"acme-gpu2", "both", "host"})
    same(images("calm").keys(), {"host"})
    # The default of the policy's list is the first that is there for this tenant.
    same(images("calm")["host"]["default"], True)
    assert "python" in images("acme")["acme-gpu"]["languages"], images("acme")
    resources = result(Legacy(d.port, **bearer(tokens["beta"])).request("resources/list"))["resources"]
    assert "codebox://images" in [r["uri"] for r in resources], resources

    made = ask("acme", "POST", "/sessions", {"image": "acme-gpu"})
    if made[0] != 200:
        raise Skip(made[1])
    same(ask("beta", "POST", "/sessions", {"image": "both"})[0], 200)
    made = ask("calm", "POST", "/sessions", {})
    same((made[0], made[2]), (200, None))
    same(ask("calm", "GET", f"/sessions/{made[1]['session_id']}")[1]["image"], "host")
    # Another's is what nobody's is: not there, in the same words, unfinished too, and no list of what there is has it.
    for tenant in "beta", "calm":
        for name in "acme-gpu", "acme-gpu-unfinished":
            got = ask(tenant, "POST", "/sessions", {"image": name})
            none = ask("beta", "POST", "/sessions", {"image": "nobodys"})
            same((got[0], got[1]["detail"], got[2]), (404, none[1]["detail"].replace("nobodys", name), none[2]))
    status, body, kind = ask("calm", "POST", "/sessions", {"image": "both-not"})
    same((status, kind), (403, "image_not_allowed"))
    assert "acme" not in json.dumps(body) and "host" in json.dumps(body), body
    # Who runs codeboxd has all; and what a tenant has no more is everybody's.
    same(d.box("run", "--image", "acme-gpu", "-c", "6*7").stdout.strip(), "42")
    d.write({**tenants, "acme": {}})
    d.reload()
    assert "acme-gpu" in images("beta"), images("beta")
    d.write({"a": {"images": [f"i{n}" for n in range(65)]}})
    assert "images: give a list of up to 64" in d.reload()
    d.write({"a": {"images": ["../b"]}})
    assert "images: give names of images" in d.reload()
    same(d.stop(), 0)


def test_the_example_of_a_policy():
    """policies/examples/tenants.json, which an operator takes as it is; where there are no control groups, it says so."""
    example = Path(__file__).resolve().parents[2] / "policies/examples/tenants.json"
    loose = Path(cbxtest.Box().dir, "loose.json")
    loose.write_text(example.read_text().replace('"cgroup": "required"', '"cgroup": "auto"'))
    loose.chmod(0o644)
    for path in example, loose:
        d = Daemon("--policy", str(path), tenants={"acme": {}})
        same(d.box("policy", "check", str(path)).returncode, 0)
        c = Legacy(d.port, **bearer(d.token("acme")))
        made = result(c.call("create_session", {"session_id": "s", "memory": "4G", "processes": 1000, "cpus": 8, "ttl": "7d",
                                                "environment": {"TZ": "Asia/Tokyo", "MINE": "1"}}))
        if made["isError"]:
            same((path, d.box.hello()["facts"]["cgroup"]), (example, False))
            assert 'cgroup: "required"' in made["content"][0]["text"], made
        else:
            info = made["structuredContent"]
            got = {k: info["limits"][k] for k in ("memory_bytes", "processes", "cpus")}
            same(got, {"memory_bytes": 1 << 30, "processes": 128, "cpus": 2})
            same(set(info["policy"]["lowered"]), {"memory", "processes", "cpus", "ttl", "environment.TZ"})
            ran = text(c.call("run_code", {"session_id": "s", "code": "import os; print(os.environ['TZ'], os.environ['MINE'])"}))
            assert "UTC 1" in ran, ran
            assert "allowed are: python, python-minimal" in text(c.call("create_session", {"image": "host"}))
        same(d.stop(), 0)


def test_nobody_sees_another():
    daemon()
    acme, beta = without_sessions("acme"), without_sessions("beta")
    made = result(acme.call("create_session", {"session_id": "shared"}))
    assert not made["isError"], made
    made = made["structuredContent"]
    same(made["session_id"], "shared")
    acme.call("run_code", {"session_id": "shared", "code": "x = 'of acme'"})
    for tool, arguments in [("list_files", {}), ("close_session", {}), ("interrupt_execution", {}), ("session_info", {})]:
        a = beta.call(tool, {"session_id": "shared", **arguments})
        if "result" in a.message and "unknown tool" not in text(a).lower():
            assert result(a)["isError"] and "no session" in text(a), (tool, a.body)
    assert "shared" not in json.dumps(result(beta.call("list_sessions"))), "it is listed"
    # The same id is free for another.
    result(beta.call("create_session", {"session_id": "shared", "memory": "256M"}))
    r = result(beta.call("run_code", {"session_id": "shared", "code": "x"}))
    assert "NameError" in r["content"][0]["text"], r
    # The Mcp-Session-Id of one is nothing to the other.
    thief = Client(daemon().port, **bearer(daemon().tokens["beta"]))
    thief.headers.update({"Mcp-Session-Id": acme.session, "MCP-Protocol-Version": "2025-11-25"})
    same(thief.request("tools/list").status, 404)
    assert "of acme" in text(acme.call("run_code", {"session_id": "shared", "code": "x"}))
    for c in acme, beta:
        c.call("close_session", {"session_id": "shared"})


def test_quotas():
    daemon()
    acme, beta = without_sessions("acme"), without_sessions("beta")
    made = result(acme.call("create_session", {"session_id": "one", "memory": "4G"}))["structuredContent"]
    same(made["limits"]["memory_bytes"], 256 << 20)
    acme.call("create_session", {"session_id": "two"})
    third = result(acme.call("create_session", {"session_id": "three"}))
    assert third["isError"] and "no more than 2" in third["content"][0]["text"], third
    for i, right in enumerate([True, True, False]):
        r = result(beta.call("create_session", {"session_id": f"m{i}", "memory": "300M"}))
        same((i, r["isError"]), (i, not right))
    assert "memory" in r["content"][0]["text"] and "734003200" in r["content"][0]["text"], r
    many = without_sessions("many")
    # Who asks for more than there is, or for nothing, gets all; and then there is nothing left.
    for asked in {"cpus": 3}, {}:
        made = result(many.call("create_session", {"session_id": "all", **asked}))["structuredContent"]
        same((made["limits"]["cpus"], made["policy"]["lowered"]), (2.5, ["cpus"] if asked else []))
        same(result(many.call("create_session", {"session_id": "p", "cpus": 0.1}))["isError"], True)
        many.call("close_session", {"session_id": "all"})
    for i, cpus in enumerate([1.5, 0.9, 0.2, 0.1]):
        r = result(many.call("create_session", {"session_id": f"p{i}", "cpus": cpus}))
        same((i, r["isError"]), (i, i == 2))
        assert i != 2 or "cpus" in r["content"][0]["text"] and "2.6 processors, and 2.5 are" in r["content"][0]["text"], r
    for c, names in (acme, ["one", "two"]), (beta, ["m0", "m1"]), (many, ["p0", "p1", "p3"]):
        for name in names:
            c.call("close_session", {"session_id": name})


def test_rates():
    d = daemon()
    statuses = [ping(d.port, **bearer(d.tokens["slow"])) for _ in range(12)]
    refused = [a for a in statuses if a.status == 429]
    assert refused, [a.status for a in statuses]
    same({a.headers["Retry-After"] for a in refused}, {"1"})
    calm = as_tenant("calm")
    answers = [text(calm.call("run_code", {"code": "1"})) for _ in range(8)]
    assert any("within a second" in a for a in answers), answers
    calm = without_sessions("calm")
    answers = [text(calm.call("run_command", {"command": "true"})) for _ in range(8)]
    assert any("within a second" in a for a in answers), answers


def resident(pid):
    return int(re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text()).group(1)) << 10


def test_bodies_and_heads_of_nobody():
    """128 bodies of 8 MiB without a token, and as many heads that do not end: memory stays, and a tenant is served."""
    d = daemon()
    before = resident(d.pid)
    head = b"POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    open_ones = []
    for i in range(256):
        s = socket.create_connection(("127.0.0.1", d.port), timeout=PATIENCE)
        s.setblocking(False)
        data = head + (b"Content-Length: 8388608\r\n\r\n" + b"x" * (1 << 20) if i % 2 else b"X: y\r\n")
        try:
            while data:
                data = data[s.send(data):]
        except OSError:
            pass  # it takes no more, or has ended
        open_ones.append(s)
    same(ping(d.port, **bearer(d.tokens["beta"])).status in (200, 400), True)
    if not os.environ.get("CBX_SANITIZED"):  # freed memory is kept then
        assert resident(d.pid) - before < 8 << 20, (before, resident(d.pid))
    for s in open_ones:
        s.close()


def test_requests_at_once():
    """What is being answered counts: two streams, and a third request is refused."""
    d = daemon()
    streams = []
    wait_until(lambda: ping(d.port, **bearer(d.tokens["slow"])).status != 429)

    def opened():
        c = Modern(d.port, **bearer(d.tokens["slow"]))
        m = c.message("subscriptions/listen", {"notifications": {"resourcesListChanged": True}})
        r = c.begin("POST", m, **c.routing(m)).getresponse()
        if r.status == 200:
            streams.append((c, r))
        return len(streams) == 2

    assert wait_until(opened)
    assert wait_until(lambda: "at once" in ping(d.port, **bearer(d.tokens["slow"])).body)
    streams[0][0].close()
    streams[0][1].close()
    assert wait_until(lambda: ping(d.port, **bearer(d.tokens["slow"])).status != 429)
    streams[1][0].close()


def test_revoking_and_reloading():
    d = Daemon(tenants=TENANTS)
    keep, token = d.token("acme"), d.token("acme", "--name", "ci", "--expires", "90d")
    listed = {t["id"]: t for t in d.box.json("token", "list", "--json")["tokens"]}
    mine = listed[token[4:12]]
    same((mine["tenant"], mine["name"], mine["scopes"], mine["expired"]), ("acme", "ci", "read,run", False))
    c = Legacy(d.port, **bearer(token))
    stream = c.again()
    stream.headers.update(bearer(token))
    response = stream.begin("GET", Content_Type=None, Accept="text/event-stream").getresponse()
    same(response.status, 200)
    same(d.box("token", "revoke", token[4:12]).returncode, 0)
    same(ping(d.port, **bearer(token)).status, 401)
    try:
        response.read()  # the stream ends with its token
    except (http.client.HTTPException, OSError):
        pass
    assert "no token" in d.box("token", "revoke", token[4:12]).stderr
    # Expired ones, a tenant more, one less: by SIGHUP.
    path = Path(d.config, "tokens.json")
    path.write_text(path.read_text().replace('"sha256"', '"expires":"2001-01-01T00:00:00Z","sha256"', 1))
    gamma = {"gamma": {}, "acme": {}}
    d.write(gamma)
    assert "2 tenants and 1 tokens" in d.reload()
    same(ping(d.port, **bearer(keep)).status, 401)
    new = d.token("gamma")
    same(ping(d.port, **bearer(new)).status in (200, 400), True)
    d.write("{ \"tenants\": { \"gamma\": { \"sesions\": 1 } } }")
    said = d.reload()
    assert "unknown key" in said and "tenants.json:1:" in said, said
    same(ping(d.port, **bearer(new)).status in (200, 400), True)
    d.write({"acme": {}})
    d.reload()
    same(ping(d.port, **bearer(new)).status, 401)
    same(d.stop(), 0)


def test_a_tenant_that_goes_loses_its_sessions():
    d = Daemon(tenants=TENANTS)
    c = Legacy(d.port, **bearer(d.token("beta")))
    r = result(c.call("create_session", {"session_id": "left", "memory": "256M"}))
    if r["isError"]:
        d.stop()
        raise Skip(r["content"][0]["text"])
    same(d.box.hello()["sessions"], 1)
    d.write({"acme": {}})
    d.reload()
    assert wait_until(lambda: d.box.hello()["sessions"] == 0), d.box.hello()
    same(d.stop(), 0)


def test_files_with_faults():
    for name, content, why in [
            ("tenants.json", "", "json"), ("tenants.json", "[]", "tenants"), ("tenants.json", '{"tenants": {"x": 1}}', "1:"),
            ("tenants.json", '{"tenants": {"local": {}}}', "local"), ("tenants.json", '{"tenants": {"a b": {}}}', "name"),
            ("tenants.json", '{"tenants": {"a": {"sessions": 0}}}', "sessions"),
            ("tenants.json", '{"tenants": {"a": {"sessions": 1.5}}}', "sessions"),
            ("tenants.json", '{"tenants": {"a": {"memory": "much"}}}', "memory"),
            ("tenants.json", '{"tenants": {"a": {"memory": -1}}}', "memory"),
            ("tenants.json", '{"tenants": {"a": {"cpus": 0}}}', "cpus"),
            ("tenants.json", '{"tenants": {"a": {"cpus": "two"}}}', "cpus"),
            ("tenants.json", '{"tenants": {"a": {"cpu_weight": 0}}}', "cpu_weight"),
            ("tenants.json", '{"tenants": {"a": {"cpu_weight": 10001}}}', "cpu_weight"),
            ("tenants.json", '{"tenants": {"a": {"policy": "none-such"}}}', "none-such"),
            ("tenants.json", '{"tenants": {"a": {"policy": {"limits": {"memori": 1}}}}}', "memori"),
            ("tenants.json", '{"tenants": {"a": {}, "a": {}}}', "1:"),
            ("tenants.json", '{"tenants": {"a": {"users": "root"}}}', "users"),
            ("tenants.json", '{"tenants": {"a": {"users": [-1]}}}', "users"),
            ("tenants.json", '{"tenants": {"a": {"users": [4294967295]}}}', "users"),
            ("tenants.json", '{"tenants": {"a": {"users": [65534]}}}', "65534 stands for"),
            ("tenants.json", '{"tenants": {"a": {"users": ["no-such-user"]}}}', 'no user "no-such-user" in /etc/passwd'),
            ("tenants.json", '{"tenants": {"a": {"users": [7]}, "b": {"users": [8, 7]}}}', "user 7 is the tenant a already"),
            ("tenants.json", '{"tenants": {"a": {"users": %s}}}' % list(range(65)), "up to 64 users"),
            ("tenants.json", '{"tenants": {%s}}' % ",".join(f'"t{i}":{{}}' for i in range(4097)), "more than"),
            ("tenants.json", "{}" + " " * (17 << 20), "large"),
            ("tokens.json", "{}", "tokens"), ("tokens.json", '{"tokens": [{"id": "x"}]}', "tokens.json:1:"),
            ("tokens.json", '{"tokens": [%s]}' % ",".join("{}" for i in range(20001)), "more than")]:
        config = {"tenants.json": '// all of them\n{ "tenants": { /* one */ "a": {} } }', name: content}
        code, said = start("--foreground", "--http", "127.0.0.1:0", config=config)
        same((content[:60], code), (content[:60], 1))
        assert why in said, (content[:60], said)


FIGURES = '''import os, struct, time, zlib
from IPython.display import Image, display
print("begun", flush=True)
time.sleep(1.2)
def part(t, d): return struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d))
for i in range(6):
    rows = b"".join(b"\\0" + os.urandom(1290) for _ in range(430))
    display(Image(b"\\x89PNG\\r\\n\\x1a\\n" + part(b"IHDR", struct.pack(">IIBBBBB", 430, 430, 8, 2, 0, 0, 0))
                  + part(b"IDAT", zlib.compress(rows, 0))))
"the answer"
'''


def test_what_is_kept_for_who_comes_again():
    """Of a tenant, so much: who fills that takes no place from another's."""
    daemon()

    def stream(c):
        c.next_id += 1
        r = c.begin("POST", {"jsonrpc": "2.0", "id": c.next_id, "method": "tools/call", "params": {
            "name": "run_code", "arguments": {"code": FIGURES, "session_id": "kept"}}}).getresponse()
        assert r.headers["Content-Type"] == "text/event-stream", r.read()[:500]
        return r

    def comes_again(name):
        c = as_tenant(name)
        r = stream(c)
        last = next(m.group(1).decode() for m in (re.match(rb"id: (\S+)", line) for line in r) if m)
        c.close(), r.close()
        other = c.again()
        other.headers.pop("Content-Type")
        c.again().call("run_code", {"code": "1", "session_id": "kept"})  # behind it
        r = other.send("GET", Last_Event_ID=last)
        return r.status, "the answer" in r.body

    for name in "acme", "beta":
        without_sessions(name).call("create_session", {"session_id": "kept", "memory": "256M"})
    same(comes_again("acme"), (200, True))
    for _ in range(5):
        c = as_tenant("acme")  # 4 MiB of each are kept, and 16 of all
        sent = sum(len(stream(c).read()) for _ in range(4))
        assert 3.2 < sent / (1 << 20) < 4, sent
    same(comes_again("acme"), (400, False))
    same(comes_again("beta"), (200, True))
    for name in "acme", "beta":
        as_tenant(name).call("close_session", {"session_id": "kept"})


def test_rate_of_all():
    tenants = {"a": {}, "b": {}}
    d = Daemon("--http-rate", "3", tenants=tenants)
    a, b = (Client(d.port, **bearer(d.token(name))) for name in tenants)
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    answers = [c.send("POST", body) for _ in range(6) for c in (a, b)]
    assert {r.status for r in answers} == {400, 429} and answers[0].status == 400, [r.status for r in answers]
    late = [r for r in answers if r.status == 429]
    assert all(r.headers["Retry-After"] == "1" and "3 a second of all clients together" in r.body for r in late), late[0].body
    # What is there for everybody is not counted.
    same([Client(d.port).send("GET", path="/health").status for _ in range(9)], [200] * 9)
    assert wait_until(lambda: a.send("POST", body).status == 400)
    same(d.stop(), 0)
    # What a tenant is refused for its own rate is not taken from the others.
    d = Daemon("--http-rate", "20", tenants={"a": {"requests_per_second": 1}, "b": {}})
    a, b = (Client(d.port, **bearer(d.token(name))) for name in tenants)
    late = [r for r in (a.send("POST", body) for _ in range(60)) if r.status == 429]
    assert len(late) > 50 and all("1 a second are allowed" in r.body for r in late), late[-1].body
    same([b.send("POST", body).status for _ in range(5)], [400] * 5)
    same(d.stop(), 0)
    d = Daemon("--http-rate", "0", tenants=tenants)
    a = Client(d.port, **bearer(d.token("a")))
    same({a.send("POST", body).status for _ in range(100)}, {400})
    same(d.stop(), 0)
    code, said = start("--foreground", "--http", "127.0.0.1:0", "--http-rate", "1000001")
    assert code == 2 and "--http-rate" in said, said


def test_tokens_that_are_not_valid():
    """Who shows many of an address that others can reach is not listened to for a moment."""
    d = Daemon(tenants={"a": {}}, address="0.0.0.0:0")
    good, wrong = bearer(d.token("a")), bearer("cbx_aaaaaaaa_" + "a" * 52)
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    known = Client(d.port, **good)
    same(known.send("POST", body).status, 400)
    assert wait_until(lambda: ping(d.port, **wrong).status == 429)
    a = ping(d.port, **wrong)
    if a.status == 429:
        same(a.headers["Retry-After"], "1")
        assert "10 a second with tokens that are not valid" in a.body, a.body
    # Who has shown one is served, and so is who shows none; the others are again after a moment.
    same(known.send("POST", body).status, 400)
    same(ping(d.port).status, 401)
    assert wait_until(lambda: ping(d.port, **good).status == 400)
    assert wait_until(lambda: ping(d.port, **wrong).status == 401)
    same(d.stop(), 0)
    # On a loopback address all may come from one proxy.
    d = Daemon(tenants={"a": {}})
    same({ping(d.port, **wrong).status for _ in range(50)}, {401})
    same(d.stop(), 0)


def test_the_end():
    same(servers["daemon"].stop(), 0)


if __name__ == "__main__":
    if not os.access(DAEMON, os.X_OK) and not cbxtest.shutil.which(DAEMON):
        print("1..0 # SKIP there is no codeboxd")
        sys.exit(0)
    cbxtest.run(globals())
