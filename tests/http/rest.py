#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The REST interface, by http.client and curl: the paths, bodies and status codes that CodeBox-AI's clients know, and what
there is beside these."""
import base64
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common_http import DAEMON, PATIENCE, Daemon, Skip, wait_until  # noqa: E402
from common_rest import ask, begin, daemon, execute, results, same, servers, session, stop  # noqa: E402
import cbxtest  # noqa: E402
from pypi import Index  # noqa: E402

TOP = Path(__file__).resolve().parent.parent.parent
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
TIME = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}"
index = Index()
os.environ["PIP_INDEX_URL"] = index.url


# ---- as CodeBox-AI's clients use it ----

def test_the_example_of_the_readme():
    a = ask("POST", "/sessions", {"dependencies": ["numpy", "pandas"],
                                  "execution_options": {"timeout": 300, "memory_limit": "2G"}})
    same(a.status, 200)
    same(a.json["status"], "created")
    assert re.fullmatch(UUID, a.json["session_id"]) and re.fullmatch(TIME, a.json["created_at"]), a.body
    s = a.json["session_id"]
    a = ask("POST", "/execute", {"code": "import numpy as np\nprint('Hello')\nnp.arange(3).sum()", "session_id": s})
    same((a.status, sorted(a.json)), (200, ["created_at", "request_id", "status"]))
    request = a.json["request_id"]
    assert wait_until(lambda: ask("GET", f"/execute/{request}/status").json["status"] == "completed")
    a = ask("GET", f"/execute/{request}/status")
    same(sorted(a.json), ["completed_at", "created_at", "request_id", "status"])
    assert re.fullmatch(TIME, a.json["completed_at"]) and a.json["completed_at"] >= a.json["created_at"], a.body
    a = ask("GET", f"/execute/{request}/results")
    same(sorted(a.json), ["completed_at", "error", "files", "output", "status"])
    same(a.json["output"][0], {"type": "stream", "content": "Hello\n"})
    same((a.json["output"][1]["type"], a.json["output"][1]["content"][-2:].strip(")")), ("result", "3"))
    same((a.json["status"], a.json["error"], a.json["files"]), ("completed", None, []))
    a = ask("DELETE", f"/sessions/{s}")
    same((a.status, a.json), (200, {"status": "cleaned up"}))
    for _ in range(2):
        a = ask("DELETE", f"/sessions/{s}")
        same((a.status, a.json), (404, {"detail": "Session not found"}))


# Such commands are all that the README of CodeBox-AI says of its use; CBX_README names a file to take them from.
README = """
```bash
curl -X POST http://localhost:8000/sessions -H "Content-Type: application/json" \\
  -d '{"dependencies": ["numpy", "pandas"]}'
```
```bash
curl -X POST http://localhost:8000/execute \\
  -H "Content-Type: application/json" \\
  -d '{
    "code": "x = 42\\nprint(f\\"x: {x}\\")",
    "session_id": "YOUR_SESSION_ID"
  }'
```
```bash
curl -X GET http://localhost:8000/execute/YOUR_REQUEST_ID/status
```
```bash
curl -X GET http://localhost:8000/execute/YOUR_REQUEST_ID/results
```
```bash
curl -X POST http://localhost:8000/execute -H "Content-Type: application/json" \\
  -d '{"code": "print(f\\"x: {x}\\")", "session_id": "YOUR_SESSION_ID"}'
```
"""


def test_the_commands_of_a_readme():
    if not shutil.which("curl"):
        raise Skip("there is no curl")
    daemon()
    path = os.environ.get("CBX_README")
    blocks = re.findall(r"```bash\n(.*?)```", Path(path).read_text() if path else README, re.S)
    commands = [b for b in blocks if "http://localhost:8000/" in b]
    same(len(commands), 5)
    known = {}

    def curl(command):
        for name, value in known.items():
            command = command.replace(name, value)
        r = subprocess.run(["sh", "-c", command.replace("localhost:8000", f"127.0.0.1:{daemon().port}")], capture_output=True,
                           text=True, timeout=PATIENCE)
        same((r.returncode, command.partition(" ")[0]), (0, "curl"))
        return json.loads(r.stdout)

    def output():
        assert wait_until(lambda: curl(commands[2])["status"] == "completed")
        return "".join(o["content"] for o in curl(commands[3])["output"])

    known["YOUR_SESSION_ID"] = curl(commands[0])["session_id"]
    for command in commands[1], commands[4]:
        known["YOUR_REQUEST_ID"] = curl(command)["request_id"]
        assert "x" in output() and "42" in output(), output()
    same(ask("DELETE", f"/sessions/{known['YOUR_SESSION_ID']}").status, 200)


def test_its_errors():
    index.add("needed", "1.0", ["deeper"])
    s = session()
    for path, detail in [("status", "Request not found"), ("results", "Results not available")]:
        for request in [f"{s}.99", f"{s}.0", f"{s}", "none.1", "b2a1c9ee-0000-4000-8000-000000000000"]:
            a = ask("GET", f"/execute/{request}/{path}")
            same((request, a.status), (request, 404))
            if "." in request and not request.endswith(".0"):
                same(a.json, {"detail": detail})
    a = ask("POST", "/execute", {"session_id": "b2a1c9ee-0000-4000-8000-000000000000", "code": "1"})
    same((a.status, a.json), (404, {"detail": "Session not found"}))
    r = results(s, "def f():\n    return 1/0\nf()")
    same((r["status"], r["error"]["ename"], r["error"]["evalue"]), ("error", "ZeroDivisionError", "division by zero"))
    assert any("f()" in line for line in r["error"]["traceback"]), r
    # The one after an error is whole.
    same(results(s, "print('next')")["output"], [{"type": "stream", "content": "next\n"}])
    r = results(s, "import os; os._exit(3)")
    assert r["status"] == "error" and isinstance(r["error"], str) and r["error"], r
    wrong = [("/execute", {"session_id": s}, "code"), ("/execute", {"code": "1"}, "session_id"),
             ("/execute", {"session_id": s, "code": 1}, "code"), ("/execute", {"session_id": s, "code": "1", "language": "klingon"},
                                                                  "language"),
             ("/execute", {"session_id": s, "code": "x" * 100001}, "code"),
             ("/execute", {"session_id": s, "code": "1", "disable_validation": ["none"]}, "disable_validation"),
             ("/execute", {"session_id": s, "code": "1", "lanquage": "python"}, "lanquage"),
             ("/sessions", {"dependencies": "numpy"}, "dependencies"), ("/sessions", {"dependencies": ["="]}, "dependencies"),
             ("/sessions", {"dependencies": ["numpy; import os"]}, "dependencies"), ("/sessions", {"x": 1}, "x"),
             ("/sessions", [], "object")]
    wrong += [("/sessions", {"execution_options": {name: value}}, name) for name, value in [
        ("timeout", 0), ("timeout", -1), ("timeout", 601), ("timeout", "5"), ("memory_limit", "0"), ("memory_limit", "-1G"),
        ("memory_limit", "much"), ("memory_limit", 5), ("cpu_limit", "0"), ("cpu_limit", "-1"), ("cpu_limit", "nan"),
        ("cpu_limit", "1e3"), ("cpu_limit", 1), ("environment_variables", {"A B": "x"}), ("environment_variables", []),
        ("mount_points", [{"host_path": "/x"}]), ("mount_points", [1]), ("mountpoints", [])]]
    for path, body, name in wrong:
        a = ask("POST", path, body)
        same((body, a.status, a.json.get("status")), (body, 400, "error"))
        assert name in a.json["message"], (body, a.body)
    for body, kind in [("{", "application/json"), ("", "application/json"), ("{}", "text/plain"),
                       ('{"code": "\\u0000"}', "application/json"), ('{"a":1,"a":2}', "application/json")]:
        a = ask("POST", "/execute", body, Content_Type=kind)
        same((body, a.status, a.json["status"]), (body, 400, "error"))
    # So is what is wrong with it as HTTP.
    for headers, status, kind in ({"Content-Length": "30000000"}, 413, "too_large"), ({"Content-Length": "x"}, 400, "invalid_request"):
        c = http.client.HTTPConnection("127.0.0.1", daemon().port, timeout=PATIENCE)
        c.request("POST", "/execute", headers={"Content-Type": "application/json", **headers})
        r = c.getresponse()
        same((r.status, r.headers["Codebox-Error"], list(json.loads(r.read()))), (status, kind, ["detail"]))
        c.close()
    a = ask("POST", "/sessions", {"dependencies": ["numpy", "no-such-package"]})
    same(a.status, 400)
    assert "no-such-package" in a.json["detail"] and "numpy'" not in a.json["detail"], a.body
    a = ask("POST", "/sessions", {"execution_options": {"mount_points": [{"host_path": "/srv", "container_path": "/x"}]}})
    same((a.status, "mount" in a.json["detail"]), (403, True))
    same(len(ask("GET", "/sessions").json["sessions"]), 1)
    ask("DELETE", f"/sessions/{s}")


def test_dependencies():
    index.add("deeper", "2.0")
    s = session(dependencies=["needed>=1", "numpy"])
    same(results(s, "import needed, deeper, numpy; deeper.__version__")["output"][0]["content"], "'2.0'")
    ask("DELETE", f"/sessions/{s}")
    index.add("lacks", "1.0", ["nowhere-to-be-found"])
    a = ask("POST", "/sessions", {"session_id": "lacking", "dependencies": ["lacks"]})
    same(a.status, 400)
    assert a.json["detail"].startswith("dependencies: lacks → nowhere-to-be-found"), a.body
    same(ask("GET", "/sessions/lacking").status, 404)
    for text in "x @ https://h/x", "--x":
        a = ask("POST", "/sessions", {"dependencies": [text]})
        same((a.status, a.headers["Codebox-Error"]), (403, "package_refused"))
        assert a.json["detail"].startswith("dependencies: "), a.body


def test_executions():
    s = session()
    # While code runs, others are answered, and the results are not there yet.
    request = execute(s, "import time\nprint('a', flush=True)\nopen('begun', 'w').close()\ntime.sleep(60)")
    assert wait_until(lambda: ask("GET", f"/sessions/{s}/files/begun").status == 200)
    same(ask("GET", f"/execute/{request}/status").json["status"], "running")
    second = execute(s, "1")
    same(ask("GET", f"/execute/{second}/status").json["status"], "initializing")
    a = ask("GET", f"/execute/{request}/results")
    same((a.status, a.json), (404, {"detail": "Results not available"}))
    a = ask("POST", f"/execute/{request}/interrupt")
    same((a.status, a.json["request_id"]), (200, request))
    r = ask("GET", f"/execute/{request}/results?wait=60").json
    same((r["status"], r["output"]), ("error", [{"type": "stream", "content": "a\n"}]))
    same(ask("GET", f"/execute/{second}/results?wait=60").json["output"], [{"type": "result", "content": "1"}])
    r = ask("GET", f"/execute/{second}").json
    same((r["execution"]["result"], r["status"]), ("1", "completed"))
    r = results(s, "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
    if "No module" not in str(r["error"]):
        assert base64.b64decode(r["files"][0]).startswith(b"\x89PNG"), r
    # 100,000 characters are allowed, whatever their bytes.
    same(results(s, "x = '" + "é" * 99970 + "'\nlen(x)")["output"], [{"type": "result", "content": "99970"}])
    same(ask("POST", f"/sessions/{s}/restart").json["status"], "restarted")
    same(results(s, "x")["error"]["ename"], "NameError")
    ask("DELETE", f"/sessions/{s}")


def test_waiting():
    s = session()
    request = execute(s, "import time; time.sleep(30)")
    a = ask("GET", f"/execute/{request}/status?wait=1s")
    same((a.status, a.json["completed_at"]), (200, None))
    for wait in ["61", "-1", "x", "", "1&wait=2"]:
        a = ask("GET", f"/execute/{request}/status?wait={wait}")
        same((wait, a.status, "wait" in a.json["message"]), (wait, 400, True))
    same(ask("GET", f"/execute/{request}/status?x=1").status, 400)
    ask("DELETE", f"/sessions/{s}")
    same(ask("GET", f"/execute/{request}/status").status, 404)


def test_what_is_asked_for_is_lowered_or_refused():
    a = ask("POST", "/sessions", {"execution_options": {"timeout": 600, "memory_limit": "64g", "cpu_limit": "1.5"}})
    same(a.status, 200)
    assert a.json["limits"]["memory_bytes"] < 64 << 30 and "memory" in a.json["policy"]["lowered"], a.body
    same((a.json["limits"]["timeout_s"], a.json["limits"]["cpus"]), (600, 1.5))
    ask("DELETE", f"/sessions/{a.json['session_id']}")
    a = ask("POST", "/sessions", {"execution_options": {"memory_limit": "900G", "cpu_limit": "99999"}}, X_Session_TTL="99999999",
            X_Exec_Timeout="99999")
    same((a.status, a.json["limits"]["ttl_s"], a.json["limits"]["timeout_s"]), (200, 7 * 86400, 3600))
    ask("DELETE", f"/sessions/{a.json['session_id']}")
    # Headers, which a body overrides.
    a = ask("POST", "/sessions", {"idle_timeout": 200}, X_Session_TTL="99", X_Idle_Timeout="50", X_Exec_Timeout="7")
    limits = a.json["limits"]
    same((limits["ttl_s"], limits["idle_timeout_s"], limits["timeout_s"]), (99, 200, 7))
    s = a.json["session_id"]
    for name in ["X-Session-TTL", "X-Idle-Timeout", "X-Exec-Timeout"]:
        for value in ["0", "-1", "abc", "1.5", "", "99999999999"]:
            a = ask("POST", "/sessions", {}, **{name: value})
            same((name, value, a.status), (name, value, 400))
            assert name in a.json["message"], a.body
    request = ask("POST", "/execute", {"session_id": s, "code": "while True: pass"}, X_Exec_Timeout="1").json["request_id"]
    r = ask("GET", f"/execute/{request}/results?wait=60").json
    same(r["status"], "error")
    assert "time" in r["error"], r
    for timeout in [0, -1, "x", True]:
        a = ask("POST", "/execute", {"session_id": s, "code": "1", "timeout": timeout})
        same((timeout, a.status), (timeout, 400))
    ask("DELETE", f"/sessions/{s}")
    s = session(execution_options={"environment_variables": {"A_B": "c d"}})
    same(results(s, "import os; os.environ['A_B']")["output"][0]["content"], "'c d'")
    ask("DELETE", f"/sessions/{s}")


def test_results_of_others_are_no_matter():
    """What a tenant keeps of its results takes nothing from another, and a result that has gone is not an empty one."""
    d = Daemon(tenants={"acme": {}, "beta": {}})
    acme, beta = ({"Authorization": "Bearer " + d.token(name)} for name in ("acme", "beta"))

    def run(who, s, code):
        request = ask("POST", "/execute", {"session_id": s, "code": code}, port=d.port, **who).json["request_id"]
        while (a := ask("GET", f"/execute/{request}/results?wait=60", port=d.port, **who)).status == 404:
            pass
        return request, a

    a = ask("POST", "/sessions", {"session_id": "a"}, port=d.port, **acme)
    if a.status == 503:
        d.stop()
        raise Skip(a.body)
    mine, first = run(acme, "a", "print('of acme')")
    same(first.json["output"], [{"type": "stream", "content": "of acme\n"}])
    show = "from IPython.display import display\nfor i in range(3): display({'text/plain': 'x' * (5 << 20)}, raw=True)"
    theirs = []
    for s in "bcdefg":
        ask("POST", "/sessions", {"session_id": s, "memory": "256M"}, port=d.port, **beta)
        run(beta, s, "import json")
        theirs.append(run(beta, s, show))
    for request, a in theirs:
        same((a.status, len(a.data) > 15 << 20), (200, True))
    same(ask("GET", f"/execute/{mine}/results", port=d.port, **acme).data, first.data)
    same([ask("GET", f"/execute/{r}/results", port=d.port, **beta).status for r, _ in theirs], [410, 410, 200, 200, 200, 200])
    a = ask("GET", f"/execute/{theirs[0][0]}/results", port=d.port, **beta)
    same(a.headers["Codebox-Error"], "execution_forgotten")
    assert "no longer kept" in a.json["detail"] and "64 MiB" in a.json["detail"], a.body
    # What happened is still known.
    same(ask("GET", f"/execute/{theirs[0][0]}/status", port=d.port, **beta).json["status"], "completed")
    a = ask("GET", f"/execute/{theirs[0][0]}", port=d.port, **beta).json["execution"]
    assert a["displays"] == [] and "no longer kept" in a["message"], a
    # What had nothing to lose has lost nothing.
    same(ask("GET", "/execute/b.1/results", port=d.port, **beta).json["output"], [])
    same(d.stop(), 0)


def test_results_are_kept_as_the_policy_says():
    acme = {"results_ttl": "2s"}
    few = {"results_count": 3, "results": "64K", "results_ttl": "1h"}
    d = Daemon(tenants={"short": {"policy": {"limits": acme}}, "few": {"policy": {"limits": few}}})
    short, few = ({"Authorization": "Bearer " + d.token(name)} for name in ("short", "few"))

    def run(who, code):
        request = ask("POST", "/execute", {"session_id": s, "code": code}, port=d.port, **who).json["request_id"]
        while (a := ask("GET", f"/execute/{request}/results?wait=60", port=d.port, **who)).status == 404:
            pass
        return request, a

    def get(path, who):
        return ask("GET", path, port=d.port, **who)

    a = ask("POST", "/sessions", {}, port=d.port, **short)
    if a.status == 503:
        d.stop()
        raise Skip(a.body)
    s = a.json["session_id"]
    session = get(f"/sessions/{s}", short).json
    same((session["limits"]["results_ttl_s"], session["results"]), (2, {"count": 0, "bytes": 0}))
    # Its time: the result, what the list and the export have of it, and the file of its output.
    request, a = run(short, "print('x' * 300000)")
    assert a.status == 410 or a.json["status"] == "completed", a.body
    assert wait_until(lambda: get(f"/sessions/{s}", short).json["results"] == {"count": 0, "bytes": 0})
    for path in ["", "/status", "/results", "/stream"]:
        a = get(f"/execute/{request}{path}", short)
        same((path, a.status, a.headers["Codebox-Error"], a.json["detail"]), (path, 410, "execution_expired",
             f"execution 1 of session {s} has expired: results are kept for 2 s (limits.results_ttl of the policy); run it again"))
    same(ask("POST", f"/execute/{request}/interrupt", port=d.port, **short).status, 410)
    same(get(f"/sessions/{s}/executions", short).json["executions"], [])
    assert wait_until(lambda: get(f"/sessions/{s}/files/.codebox/outputs/1.txt", short).status == 404)
    same(get(f"/execute/{s}.2/results", short).json, {"detail": "Results not available"})
    second, _ = run(short, "1")
    ask("POST", "/execute", {"session_id": s, "code": "import time; time.sleep(600)", "timeout": 600}, port=d.port, **short)
    assert wait_until(lambda: get(f"/execute/{second}/results", short).status == 410)
    same(get(f"/execute/{s}.3/status", short).status, 200)  # what has not ended stays
    # How many, and how much: the oldest go, the last stays.
    s = ask("POST", "/sessions", {}, port=d.port, **few).json["session_id"]
    requests = [run(few, f"print({i})")[0] for i in range(5)]
    same([get(f"/execute/{r}/results", few).status for r in requests], [410, 410, 200, 200, 200])
    a = get(f"/execute/{requests[0]}/results", few)
    same(a.headers["Codebox-Error"], "execution_forgotten")
    assert "last 3 are kept" in a.json["detail"] and "64 KiB" in a.json["detail"], a.body
    session = get(f"/sessions/{s}", few).json
    same((session["results"]["count"], session["limits"]["results_count"], session["limits"]["results_bytes"]), (3, 3, 65536))
    assert 0 < session["results"]["bytes"] <= 65536, session
    large, _ = run(few, "print('x' * 65000)")
    same([get(f"/execute/{r}/results", few).status for r in requests], [410] * 5)
    same(get(f"/execute/{large}/results", few).json["output"][0]["content"], "x" * 65000 + "\n")
    session = get(f"/sessions/{s}", few).json
    assert session["results"]["count"] == 1 and session["results"]["bytes"] > 65000, session
    same(d.stop(), 0)


# ---- streams ----

def lines_of(response):
    for line in response:
        if line.strip():
            yield json.loads(line)


def test_streams():
    s = session()
    code = ("import os, sys, time\nprint('first', flush=True)\ninput_ = open('go', 'a')\n"
            "while not open('go').read(): time.sleep(0.05)\nprint('é', file=sys.stderr)\n'shown'")
    request = execute(s, code)
    r = begin("GET", f"/execute/{request}/stream", Accept="text/plain", accept="Application/X-NDJSON")
    same((r.status, r.headers["Content-Type"]), (200, "application/x-ndjson"))
    events = lines_of(r)
    got = []
    while not any(e["type"] == "output" for e in got):
        got.append(next(events))
    same([e["type"] for e in got], ["start", "output"])  # it came while the cell runs
    ask("PUT", f"/sessions/{s}/files/go", "x")
    got += list(events)
    same("".join(e["text"] for e in got if e["type"] == "output"), "first\né\n")
    same([e["data"]["text/plain"] for e in got if e["type"] == "display"], ["'shown'"])
    same((got[-1]["type"], got[-1]["request_id"], got[-1]["results"]["status"]), ("end", request, "completed"))
    # Again, when all is over: as events.
    a = ask("GET", f"/execute/{request}/stream")
    same(a.headers["Content-Type"], "text/event-stream")
    blocks = [b.split("\n") for b in a.body.strip().split("\n\n")]
    assert all(len(b) == 2 and b[0].startswith("event: ") and b[1].startswith("data: {") for b in blocks), a.body
    same([b[0][7:] for b in blocks], ["start", "output", "display", "end"])
    same(ask("GET", f"/execute/{s}.77/stream").json, {"detail": "Request not found"})
    # What is void by a later clear_output() is said to be.
    request = execute(s, "from IPython.display import clear_output\nprint('gone', flush=True)\n"
                      "while not os.path.exists('go on'): time.sleep(0.05)\nclear_output()\nprint('there')")
    events, got = lines_of(begin("GET", f"/execute/{request}/stream", Accept="application/x-ndjson")), []
    while not any("gone" in e.get("text", "") for e in got):
        got.append(next(events))
    ask("PUT", f"/sessions/{s}/files/go%20on", "x")
    got = list(events)
    cleared = [e["type"] for e in got].index("clear")
    same("".join(e.get("text", "") for e in got[cleared:]), "there\n")
    # A session that goes ends the streams of its executions.
    request = execute(s, "import time; time.sleep(60)")
    r = begin("GET", f"/execute/{request}/stream", Accept="application/x-ndjson")
    events = lines_of(r)
    next(events)
    ask("DELETE", f"/sessions/{s}")
    same(list(events)[-1]["results"]["status"], "error")


def read_at_last(s, code):
    """The stream of a client that reads nothing of it until the execution has ended. It comes by a unix socket: of TCP the
    kernel keeps as much as it sees fit."""
    request = execute(s, f"import os, time\nwhile not os.path.exists('go'): time.sleep(0.02)\nos.unlink('go')\n{code}")
    with socket.socket(socket.AF_UNIX) as k:
        k.settimeout(PATIENCE)
        k.connect(servers["socket"])
        c = http.client.HTTPConnection("localhost")
        c.sock = k
        c.request("GET", f"/execute/{request}/stream", headers={"Accept": "application/x-ndjson"})
        k.recv(1, socket.MSG_PEEK)  # all that the code does comes after this
        ask("PUT", f"/sessions/{s}/files/go", "x")
        same(ask("GET", f"/execute/{request}/status?wait=60").json["status"], "completed")
        return [e for e in lines_of(c.getresponse()) if e["type"] != "keepalive"]


def test_slow_readers():
    """The execution does not wait for a client that reads nothing, and neither does memory grow."""
    s = session()
    got = read_at_last(s, "for i in range(200):\n    print('x' * 100000)\n    time.sleep(0.005)\n'end'")
    same(got[-1]["type"], "end")
    text = sum(len(e["text"]) for e in got if e["type"] == "output")
    left = sum(e["bytes"] for e in got if e["type"] == "omitted")
    assert left > 0 and text < 2 << 20, (text, left)
    # Nor does what makes it void fill memory. (That many displays use up the time that the driver has to keep what is
    # printed in its place among them, so nothing is said of that here.)
    got = read_at_last(s, "from IPython.display import clear_output\nfor i in range(80000): clear_output()")
    same([e["type"] for e in got][-2:], ["clear", "end"])
    assert len(got) < 65000, len(got)
    # A figure that it does not get is missed, too.
    got = read_at_last(s, "from IPython.display import HTML, display\n"
                          "for i in range(100):\n    display(HTML('x' * 200000))\n    time.sleep(0.005)")
    assert sum(e["bytes"] for e in got if e["type"] == "omitted") > 200000, [e["type"] for e in got]
    ask("DELETE", f"/sessions/{s}")


# ---- files ----

def test_lists_for_those_who_watch():
    s = session()
    same(ask("GET", f"/sessions/{s}/executions").json, {"session_id": s, "executions": []})
    results(s, "x = 1\nraise ValueError('<b>')")
    results(s, "sum(i for i in range(3000000))")
    busy = execute(s, "while True: pass")
    waits = execute(s, "é" * 150)
    assert wait_until(lambda: ask("GET", f"/execute/{busy}/status").json["status"] == "running")
    seen = ask("GET", f"/sessions/{s}/executions").json["executions"]
    same([(x["request_id"], x["outcome"], x["status"]) for x in seen],
         [(waits, "queued", "initializing"), (busy, "running", "running"), (f"{s}.2", "ok", "completed"), (f"{s}.1", "error", "error")])
    same((seen[3]["code"], seen[0]["code"]), ("x = 1\nraise ValueError('<b>')", "é" * 100))
    assert re.fullmatch(TIME, seen[3]["completed_at"]) and seen[0]["completed_at"] is None and seen[2]["cpu_ms"] > 0, seen

    def mine():
        return next(x for x in ask("GET", "/sessions?usage=now").json["sessions"] if x["session_id"] == s).get("usage", {})
    assert wait_until(lambda: mine().get("cpus", 0) > 0.05), mine()
    assert mine()["memory_bytes"] > 1 << 20 and mine()["cpu_s"] > 0, mine()
    ask("POST", f"/execute/{busy}/interrupt")
    assert wait_until(lambda: mine().get("cpus", 1) < 0.05), mine()
    same(ask("GET", "/sessions?usage=then").json["message"], 'usage: "then" is unknown; give usage=now, or omit it')
    same(ask("GET", "/sessions/unknown/executions").status, 404)
    ask("DELETE", f"/sessions/{s}")


def test_the_log_of_a_session_is_bounded():
    s = session()
    results(s, "1")
    results(s, "1/0")
    log = ask("GET", f"/sessions/{s}/log").json["log"]
    same([(x["event"], x.get("id"), x.get("outcome")) for x in log],
         [("made", None, None), ("ready", None, None), ("cell", 1, None), ("ran", 1, "ok"), ("cell", 2, None), ("ran", 2, "error")])
    assert all(re.fullmatch(TIME, x["at"]) for x in log) and "duration_ms" in log[3], log
    for _ in range(35):
        results(s, "1")
    log = ask("GET", f"/sessions/{s}/log").json["log"]
    same((len(log), log[-1]["id"], log[0]["event"]), (64, 37, "cell"))
    same(ask("GET", "/sessions/unknown/log").status, 404)
    ask("DELETE", f"/sessions/{s}")


# ---- about ----

def test_about():
    same(ask("GET", "/health").json, {"status": "ok"})
    same(ask("GET", "/ready").json, {"status": "ready"})
    same(ask("GET", "/version").json["name"], "codebox")
    a = ask("PUT", "/sessions", {})
    same((a.status, a.headers["Allow"]), (405, "POST, GET, HEAD"))
    same(ask("GET", "/nothing").json, {"detail": "Not Found"})
    with urllib.request.urlopen(f"http://127.0.0.1:{daemon().port}/sessions") as r:
        same(json.load(r), {"sessions": []})


def test_a_client_that_leaves_before_its_session_is_ready():
    daemon()
    c = http.client.HTTPConnection("127.0.0.1", daemon().port, timeout=PATIENCE)
    # Of a kind that none is kept ready of.
    c.request("POST", "/sessions", '{"memory": "311M", "disk": "77M"}', {"Content-Type": "application/json"})
    c.close()
    assert wait_until(lambda: ask("GET", "/sessions").json["sessions"] == [])


def test_description():
    """Each route is described, and nothing else: by the table itself."""
    table = (TOP / "src/rest/table.c").read_text()
    routes = {(m.lower(), p) for m, p in re.findall(r"\{ CBX_HTTP_(\w+), \"([^\"]+)\"", table)}
    doc = ask("GET", "/openapi.json").json
    described = {(m, p) for p, item in doc["paths"].items() for m in item if m != "parameters"}
    same(described, routes)
    same(doc["info"]["version"], ask("GET", "/version").json["version"])
    operations = [item[m] for item in doc["paths"].values() for m in item if m != "parameters"]
    same(len({o["operationId"] for o in operations}), len(operations))
    for m, p in routes:  # each is there
        path = p.replace("{session_id}", "none").replace("{request_id}", "none.1").replace("{path}", "x")
        path = path.replace("{artifact_id}", "none").replace("{connection}", "none").replace("{command_id}", "1")
        a = ask(m.upper(), path, {} if m == "post" else None)
        assert a.status not in (405, 501) and a.headers["Codebox-Error"] != "not_found", (m, p, a.status)
        if p == "/sessions" and m == "post":
            ask("DELETE", f"/sessions/{a.json['session_id']}")


def test_tenants():
    d = Daemon(tenants={"acme": {"executions_per_second": 2, "sessions": 1}, "beta": {}})
    acme, beta, looker = ({"Authorization": "Bearer " + d.token(*who)} for who in
                          [("acme",), ("beta",), ("acme", "--scope", "read")])
    for path in "/health", "/ready", "/version", "/openapi.json":
        same((path, ask("GET", path, port=d.port).status), (path, 200))
    a = ask("GET", "/sessions", port=d.port)
    same((a.status, a.headers["WWW-Authenticate"], sorted(a.json)), (401, "Bearer", ["detail"]))
    a = ask("POST", "/sessions", {"session_id": "mine"}, port=d.port, **acme)
    if a.status == 503:
        d.stop()
        raise Skip(a.body)
    same(a.status, 200)
    # It is acme's alone.
    for method, path, body in [("GET", "/sessions/mine", None), ("DELETE", "/sessions/mine", None),
                               ("POST", "/execute", {"session_id": "mine", "code": "1"}), ("GET", "/execute/mine.1", None),
                               ("GET", "/sessions/mine/files", None), ("PUT", "/sessions/mine/files/x", b"")]:
        same((path, ask(method, path, body, port=d.port, **beta).status), (path, 404))
    same(ask("GET", "/sessions", port=d.port, **beta).json, {"sessions": []})
    a = ask("POST", "/sessions", {}, port=d.port, **acme)
    same((a.status, a.headers["Codebox-Error"]), (429, "too_many_sessions"))
    # A token for looking.
    same(ask("GET", "/sessions/mine", port=d.port, **looker).status, 200)
    for method, path, body in [("DELETE", "/sessions/mine", None), ("POST", "/execute", {}), ("PUT", "/sessions/mine/files/x", b"x"),
                               ("POST", "/sessions", {})]:
        a = ask(method, path, body, port=d.port, **looker)
        same((path, a.status), (path, 403))
        assert 'scope="run"' in a.headers["WWW-Authenticate"], a.headers
    answers = [ask("POST", "/execute", {"session_id": "mine", "code": "1"}, port=d.port, **acme) for _ in range(12)]
    refused = [a for a in answers if a.status == 429]
    assert refused and all(a.headers["Retry-After"] == "1" for a in refused), [a.status for a in answers]
    same(d.stop(), 0)


# ---- the page of examples ----

def examples():
    page = (TOP / "man/codebox-rest.7").read_text()
    for escape, char in (("\\(aq", "'"), ("\\(dq", '"'), ("\\&", ""), ("\\-", "-"), ("\\e", "\\")):
        page = page.replace(escape, char)
    for block in re.findall(r"^\.Bd -literal[^\n]*\n(.*?)^\.Ed$", page.partition("\n.Sh EXAMPLES\n")[2], re.M | re.S):
        yield block


def test_examples_of_the_manual():
    """As they stand there, one after another, by curl; lines that begin with "$ " are commands, others what they print."""
    if not shutil.which("curl"):
        raise Skip("there is no curl")
    daemon()
    directory = os.path.join(daemon().box.dir, "examples")
    os.mkdir(directory)
    env = dict(daemon().box.env, URL=f"http://127.0.0.1:{daemon().port}", TOKEN="none")
    script, expected = "set -e\n", []
    for block in examples():
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            if line.startswith("$ "):
                script += f"echo '@@{len(expected)}'\n{line[2:]}\necho\n"
                expected.append([line[2:], []])
            elif line.strip():
                expected[-1][1].append(line)
    assert len(expected) >= 12, expected
    r = subprocess.run(["sh", "-c", script], env=env, cwd=directory, capture_output=True, text=True, timeout=PATIENCE)
    assert r.returncode == 0, (r.stdout, r.stderr)
    for part in r.stdout.split("@@")[1:]:
        number, _, printed = part.partition("\n")
        command, wanted = expected[int(number)]
        for line in wanted:  # "..." stands for anything
            pattern = ".*".join(re.escape(piece) for piece in line.split("..."))
            assert re.search(f"^{pattern}$", printed, re.M | re.S), (command, line, printed)


def test_the_end():
    stop()


if __name__ == "__main__":
    if not os.access(DAEMON, os.X_OK) and not shutil.which(DAEMON):
        print("1..0 # SKIP there is no codeboxd")
        sys.exit(0)
    cbxtest.run(globals())
