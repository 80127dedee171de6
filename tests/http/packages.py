#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packages over REST: what an index on this computer has is imported by the next cell; what may not be is refused."""
import http.client
import json
import os
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common_http import PATIENCE, Daemon, Skip  # noqa: E402
import cbxtest  # noqa: E402
from conda import Channel  # noqa: E402
from pypi import Index  # noqa: E402

made = {}


def same(got, want):
    assert got == want, f"got {got!r}, want {want!r}"


def ask(method, path, body=None):
    c = http.client.HTTPConnection("127.0.0.1", made["daemon"].port, timeout=PATIENCE)
    c.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
    r = c.getresponse()
    data = json.loads(r.read())
    c.close()
    return r.status, data, r.headers["Codebox-Error"]


def daemon():
    if "daemon" not in made:
        made["index"] = index = Index()
        index.add("upper", "1.0", ["lower>=2"])
        index.add("lower", "2.5")
        index.add("lower", "2.6")
        index.add("barred", "1.0")
        made["channel"] = channel = Channel()
        channel.add("lowest", "1.0", python=True)
        channel.add("lowest", "2.0", python=True)
        channel.add("above", "1.0", ["lowest <2"], python=True)
        made["dir"] = tempfile.TemporaryDirectory()
        made["policy"] = policy = os.path.join(made["dir"].name, "policy.json")
        os.chmod(made["dir"].name, 0o755)
        allow = ["upper", "lower", "missing", *(f"conda:{name}" for name in ("above", "lowest", "never-was"))]
        Path(policy).write_text(json.dumps({"include": ["default"], "packages": {"allow": allow, "index": index.url,
                                                                                 "channels": [channel.url]}}))
        os.chmod(policy, 0o644)
        made["daemon"] = Daemon("--policy", policy)
        status, body, kind = ask("POST", "/sessions", {"session_id": "one"})
        made["why"] = None if status == 200 else body
        assert status == 200 or kind in ("image_not_found", "no_sandbox"), (status, body, kind)
    if made["why"]:
        raise Skip(f"no session can be made here: {made['why']}")
    return made["daemon"]


def install(*packages, session="one"):
    return ask("POST", f"/sessions/{session}/packages", {"packages": list(packages)})


def test_they_are_there_for_the_next_cell():
    daemon()
    upper, lower = {"name": "upper", "version": "1.0"}, {"name": "lower", "version": "2.6"}
    status, body, kind = install("upper")
    same((status, kind), (200, None))
    same((body["session_id"], sorted(body["installed"], key=str), body["already"]), ("one", [lower, upper], []))
    _, x, _ = ask("POST", "/execute", {"session_id": "one", "code": "import upper, lower; lower.__version__"})
    _, results, _ = ask("GET", f"/execute/{x['request_id']}/results?wait=60")
    same([o["content"] for o in results["output"]], ["'2.6'"])
    status, body, kind = install("upper")
    same((status, body["installed"], upper in body["already"]), (200, [], True))


def test_what_is_imported_already_is_told():
    daemon()
    status, body, _ = install("lower==2.5")
    same((status, body["imported"]), (200, [{"name": "lower", "version": "2.6", "installed": "2.5"}]))


def test_what_is_refused():
    daemon()
    status, body, kind = install("barred")
    same((status, kind), (403, "package_refused"))
    assert "barred" in body["detail"], body
    status, body, kind = install("missing")
    assert status in (404, 409) and "missing" in body["detail"], (status, body, kind)
    same(install("upper", session="none")[0], 404)
    for body in {}, {"packages": "upper"}, {"packages": [1]}, {"packages": []}, {"packages": ["a b c"]}, \
            {"packages": ["upper"], "more": 1}:
        status, answer, _ = ask("POST", "/sessions/one/packages", body)
        same((body, status, answer["status"]), (body, 400, "error"))
    same(ask("GET", "/sessions/one/packages")[0], 405)


def test_those_of_conda():
    if "conda" not in daemon().box.images():
        raise Skip("there is no image conda, which resolves them; codebox image build conda")
    status, body, kind = install("conda:above")
    same((status, kind), (200, None))
    same(sorted(f"{p['name']} {p['version']}" for p in body["installed"]), ["above 1.0", "lowest 1.0"])
    _, x, _ = ask("POST", "/execute", {"session_id": "one", "code": "import above, lowest; lowest.version"})
    _, results, _ = ask("GET", f"/execute/{x['request_id']}/results?wait=60")
    same([o["content"] for o in results["output"]], ["'1.0'"])
    status, body, kind = install("conda:never-was")
    assert status in (404, 409) and "never-was" in body["detail"], (status, body, kind)
    status, body, kind = install("conda:above", "upper")
    same((status, body["status"]), (400, "error"))
    assert "apart" in body["message"], body


def test_one_tenant_leaves_room_for_others():
    daemon()
    gate = threading.Event()

    def slow():
        gate.wait(PATIENCE)
        yield b"{}"

    made["index"].instead["/simple/missing/"] = 200, {"Content-Type": "application/vnd.pypi.simple.v1+json"}, slow
    d = Daemon("--policy", made["policy"], tenants={"many": {}, "other": {}})
    tokens = {tenant: d.token(tenant) for tenant in ("many", "other")}

    def ask_as(tenant, session, name):
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {tokens[tenant]}"}
        c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=PATIENCE)
        for path, body in ("/sessions", {"session_id": session}), (f"/sessions/{session}/packages", {"packages": [name]}):
            c.request("POST", path, json.dumps(body), headers)
            r = c.getresponse()
            data = json.loads(r.read())
        c.close()
        return r.status, data

    try:
        answers = []
        threads = [threading.Thread(target=lambda i=i: answers.append(ask_as("many", f"m{i}", "missing"))) for i in range(9)]
        for t in threads:
            t.start()
        assert cbxtest.wait_until(lambda: answers), "all nine were begun"
        assert "packages are being installed in 8 sessions" in str(answers), answers
        status, body = ask_as("other", "o", "lower")
        same((status, body["installed"]), (200, [{"name": "lower", "version": "2.6"}]))
        gate.set()
        for t in threads:
            t.join()
        same(len(answers), 9)
    finally:
        gate.set()
        d.stop()


def test_the_end():
    same(daemon().stop(), 0)
    made["dir"].cleanup()


if __name__ == "__main__":
    cbxtest.run(globals())
