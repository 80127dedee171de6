#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The audit log and the log as JSON: what REST, MCP and the command leave there, and that codebox audit verify sees what
was done to the file."""
import concurrent.futures
import hashlib
import http.client
import json
import os
import shutil
import signal
import sys
import sqlite3
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common_http import PATIENCE, Daemon, Legacy, Skip, wait_until  # noqa: E402
import cbxtest  # noqa: E402
from pypi import Index  # noqa: E402

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
servers = {}


def same(got, want):
    assert got == want, f"got {got!r}, want {want!r}"


def ask(d, method, path, body=None, token=None, **headers):
    c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=PATIENCE)
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if body is not None:
        headers["Content-Type"] = "application/json"
    c.request(method, path, None if body is None else json.dumps(body), headers)
    r = c.getresponse()
    data = r.read().decode()
    c.close()
    return r.status, data


def begin(*args, **more):
    d = tempfile.mkdtemp(prefix="cbx-audit-")
    os.chmod(d, 0o777)  # root's codeboxd gives itself up for another id
    path = os.path.join(d, "audit.log")
    daemon = Daemon("--audit", path, *args, **more)
    daemon.audit = path
    return daemon


def daemon():
    if "daemon" not in servers:
        servers["daemon"] = d = begin("--log-format", "json", tenants={"acme": {"sessions": 1}, "beta": {}})
        d.tokens = {name: d.token(name) for name in ("acme", "beta")}
        status, body = ask(d, "POST", "/sessions", {"session_id": "try"}, d.tokens["beta"])
        servers["why"] = None if status == 200 else body
        ask(d, "DELETE", "/sessions/try", token=d.tokens["beta"])
    if servers["why"]:
        raise Skip(f"no session can be made here: {servers['why']}")
    return servers["daemon"]


def lines(path=None):
    return [json.loads(line) for line in Path(path or daemon().audit).read_text().splitlines()]


def verify(*args):
    return daemon().box("audit", "verify", *args)


def run(code, session, **headers):
    d = daemon()
    status, body = ask(d, "POST", "/execute", {"session_id": session, "code": code}, d.tokens["acme"], **headers)
    same(status, 200)
    ask(d, "GET", f"/execute/{json.loads(body)['request_id']}/status?wait=60", token=d.tokens["acme"])
    return int(json.loads(body)["request_id"].rsplit(".", 1)[1])


def test_who_ran_what():
    d = daemon()
    same(ask(d, "POST", "/sessions", {"session_id": "desk"}, d.tokens["acme"], traceparent=TRACE)[0], 200)
    n = run("sum(range(10**6))", "desk", traceparent=TRACE)
    run("1/0", "desk", traceparent="00-" + "0" * 32 + "-00f067aa0ba902b7-01")
    c = Legacy(d.port, Authorization=f"Bearer {d.tokens['acme']}", traceparent=TRACE)
    assert not c.call("run_command", {"session_id": "desk", "command": "exit 3"}).message["result"].get("isProtocol")
    c.send("DELETE")
    same(ask(d, "POST", "/sessions", {}, d.tokens["acme"])[0], 429)
    same(ask(d, "GET", "/sessions", token="cbx_wrong")[0], 401)
    same(ask(d, "DELETE", "/sessions/desk", token=d.tokens["acme"])[0], 200)
    mine = [e for e in lines() if e.get("session") == "desk"]
    same([e["event"] for e in mine], ["session", "session_ready", "cell", "cell_end", "cell", "cell_end", "command",
                                      "command_end", "session_end"])
    made, _, cell, ended, second, failed, command, exited, closed = mine
    same({e["tenant"] for e in mine}, {"acme"})
    token = d.tokens["acme"][4:12]
    for e, by in (made, "rest"), (cell, "rest"), (command, "mcp"):
        same((e["by"], e["token"], e["traceparent"]), (by, token, TRACE))
    assert "traceparent" not in second, second
    same(cell["code_sha256"], hashlib.sha256(b"sum(range(10**6))").hexdigest())
    assert "code" not in cell and cell["language"] == "python" and cell["id"] == n, cell
    assert ended["outcome"] == "ok" and ended["cpu_ms"] > 0 and ended["id"] == n, ended
    same((failed["outcome"], exited["outcome"], closed["outcome"]), ("error", "error", "closed"))
    assert made["image"] == "python" and len(made["policy"]) >= 16, made
    assert command["program"] == "/bin/sh" and "exit 3" not in json.dumps(command), command
    denied = [e for e in lines() if e["event"] == "denied"]
    same([(e.get("tenant"), e["outcome"]) for e in denied], [("acme", "too_many_sessions"), (None, "unauthorized")])
    assert d.tokens["acme"][13:] not in Path(d.audit).read_text()
    r = verify(d.audit)
    assert r.returncode == 0 and f"last line: {len(lines())}:" in r.stdout, r


def test_who_stopped_and_changed_what():
    daemon()
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        index, policy = Index(), Path(directory, "policy.json")
        index.add("upper", "1.0")
        policy.write_text(json.dumps({"include": ["default"], "packages": {"allow": ["upper"], "index": index.url}}))
        d = begin("--policy", str(policy), tenants={"acme": {}})
        try:
            token = d.token("acme")

            def post(path, body=None):
                status, text = ask(d, "POST", path, body or {}, token)
                same(status, 200)
                return json.loads(text)

            post("/sessions", {"session_id": "desk"})
            x = post("/execute", {"session_id": "desk", "code": "import time; time.sleep(3600)"})["request_id"]
            post(f"/execute/{x}/interrupt")
            ask(d, "GET", f"/execute/{x}/status?wait=60", token=token)
            post(f"/execute/{x}/interrupt")  # it has ended
            post("/sessions/desk/restart")
            post("/sessions/desk/packages", {"packages": ["upper"]})
            c = Legacy(d.port, Authorization=f"Bearer {token}")
            c.call("close_session", {"session_id": "desk"})
            c.send("DELETE")
            post("/sessions", {"session_id": "short", "ttl": 1})
            assert wait_until(lambda: "was over" in Path(d.audit).read_text())
        finally:
            d.stop()
    mine = [e for e in lines(d.audit) if e.get("tenant") == "acme" and
            e["event"] in ("interrupt", "restart", "packages", "session_end")]
    same([(e["event"], e["session"], e.get("by"), e.get("token")) for e in mine],
         [(what, "desk", by, token[4:12]) for what, by in
          (("interrupt", "rest"), ("restart", "rest"), ("packages", "rest"), ("session_end", "mcp"))] +
         [("session_end", "short", None, None)])
    same((mine[0]["id"], mine[2]["outcome"]), (int(x.rsplit(".", 1)[1]), "ok"))


SLOW = "WITH RECURSIVE a(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM a) SELECT COUNT(x) FROM a"


def test_who_asked_which_database():
    """And no tenant takes all places of those that run at once."""
    daemon()
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        policy, database = Path(directory, "policy.json"), Path(directory, "a.db")
        with sqlite3.connect(database) as db:
            db.execute("CREATE TABLE t (id integer)")
        database.chmod(0o644)
        policy.write_text(json.dumps({"include": ["default"], "sql": {
            "query_timeout": "4s", "connections": {"notes": {"type": "sqlite", "database": str(database)}}}}))
        d = begin("--policy", str(policy), tenants={"acme": {}, "beta": {}})
        try:
            acme, beta = d.token("acme"), d.token("beta")

            def query(token, text):
                status, body = ask(d, "POST", "/sql", {"connection": "notes", "query": text}, token)
                return status, body

            if "no_driver" in query(acme, "SELECT 1")[1]:
                raise Skip("the driver of SQLite is not installed")
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                slow = [pool.submit(query, acme, SLOW) for _ in range(6)]
                done, _ = concurrent.futures.wait(slow[:6], PATIENCE, concurrent.futures.FIRST_COMPLETED)
                assert any("4 queries of yours" in f.result()[1] for f in done), [f.result() for f in done]
                same(query(beta, "SELECT 7")[0], 200)
            assert sum("4 queries of yours" in f.result()[1] for f in slow) == 2, [f.result() for f in slow]
            query(acme, "DELETE FROM t")
            text = ask(d, "GET", "/metrics", token=d.token("acme", "--scope", "metrics"))[1]
        finally:
            d.stop()
    mine = [e for e in lines(d.audit) if e["event"] == "query"]
    assert {e["database"] for e in mine} == {"notes"} and {e["by"] for e in mine} == {"rest"}, mine
    first, refused = [e for e in mine if e["tenant"] == "acme"][0], mine[-1]
    same((first["outcome"], first["code_sha256"]), ("ok", hashlib.sha256(b"SELECT 1").hexdigest()))
    assert "code" not in first and first["duration_ms"] < 60000, first
    same(sorted(e["outcome"] for e in mine), ["ok", "ok", "query_refused"] + 4 * ["timeout"])
    assert refused["outcome"] == "query_refused" and "rule" in refused["why"], refused
    assert 'codebox_queries_total{outcome="ok"} 2' in text and 'codebox_queries_total{outcome="failed"} 5' in text, text


def test_the_log_is_json_and_has_the_trace():
    d = daemon()
    assert wait_until(lambda: any("4bf92f35" in line for line in d.log))
    entries = [json.loads(line) for line in d.log]
    assert all(e["program"] == "codeboxd" and e["time"].endswith("Z") and e["level"] in ("info", "warning", "error")
               for e in entries), entries
    e = next(e for e in entries if e.get("trace_id"))
    same((e["trace_id"], e["span_id"], e["tenant"], e["session"]), (TRACE[3:35], TRACE[36:52], "acme", "desk"))


def test_what_was_changed_shows():
    d = daemon()
    run_some()
    text = Path(d.audit).read_text().splitlines(keepends=True)
    copy = d.audit + ".copy"
    head = verify(d.audit).stdout.split("last line: ")[1].strip()
    middle = len(text) // 2

    def broken(changed, *args):
        Path(copy).write_text("".join(changed))
        r = verify(*args, copy)
        return r.stderr if r.returncode == 1 else ""

    same(broken(text), "")
    assert "lines were removed" in broken(text[:middle] + text[middle + 1:])
    swapped = text[:middle] + [text[middle + 1], text[middle]] + text[middle + 2:]
    assert "lines were removed or added" in broken(swapped)
    assert "was changed" in broken(text[:middle] + [text[middle].replace('"time":"2', '"time":"1', 1)] + text[middle + 1:])
    assert "was changed" in broken(text[:middle] + ["torn\n"] + text[middle:])
    assert "not a line of an audit log" in broken(text[:middle] + ["{}\n"] + text[middle:])
    assert "is missing" in broken(text[:-1], "--head", head)
    assert "is not the one" in broken(text, "--head", head[:-1] + ("0" if head[-1] != "0" else "1"))
    same(broken(text, "--head", head), "")
    same(verify("--head", "x", copy).returncode, 2)
    same(verify().returncode, 2)
    os.unlink(copy)
    same(verify(copy).returncode, 1)


def run_some():
    d = daemon()
    same(ask(d, "POST", "/sessions", {"session_id": "some"}, d.tokens["acme"])[0], 200)
    for i in range(3):
        run(f"{i}", "some")
    same(ask(d, "DELETE", "/sessions/some", token=d.tokens["acme"])[0], 200)


def test_rotation():
    d = daemon()
    run_some()
    old = d.audit + ".1"
    os.rename(d.audit, old)
    d.process.send_signal(signal.SIGHUP)
    assert wait_until(lambda: os.path.exists(d.audit) and os.path.getsize(d.audit))
    run_some()
    same(verify(old, d.audit).returncode, 0)
    assert lines()[0]["event"] == "reopen" and lines()[0]["seq"] == lines(old)[-1]["seq"] + 1, lines()[0]
    r = verify(d.audit, old)
    assert r.returncode == 1 and "audit.log.1:1:" in r.stderr, r
    assert os.stat(d.audit).st_mode & 0o077 == 0


def test_the_end():
    d = daemon()
    same(d.stop(), 0)
    same(lines()[-1]["event"], "stop")
    # The log has the end of the chain, as it is in the file: one line less shows.
    head = [m for m in (json.loads(line)["message"] for line in d.log) if m.startswith("audit log ")][-1].split()[-1]
    same(verify("--head", head, d.audit + ".1", d.audit).returncode, 0)
    text = Path(d.audit).read_text().splitlines(keepends=True)
    Path(d.audit + ".copy").write_text("".join(text[:-1]))
    r = verify("--head", head, d.audit + ".1", d.audit + ".copy")
    assert r.returncode == 1 and "is missing" in r.stderr, (head, r)
    same(verify(d.audit + ".1", d.audit).returncode, 0)
    shutil.rmtree(os.path.dirname(d.audit))


def test_a_crash_in_the_middle_of_a_line():
    daemon()
    d = begin("--audit-code")
    path = d.audit
    same(ask(d, "POST", "/sessions", {"session_id": "one"})[0], 200)
    same(ask(d, "POST", "/execute", {"session_id": "one", "code": "'h\u00e9'"})[0], 200)
    assert wait_until(lambda: any(e["event"] == "cell_end" for e in lines(path)))
    same([e["code"] for e in lines(path) if e["event"] == "cell"], ["'h\u00e9'"])
    d.process.kill()
    d.process.wait(PATIENCE)
    d.box("stop")
    whole = lines(path)
    with open(path, "a") as f:
        f.write('{"seq":99,"time":"2026-11')
    again = Daemon("--audit", path)
    same(again.stop(), 0)
    text = Path(path).read_text()
    r = verify(path)
    assert r.returncode == 0 and "a crash has cut off" in r.stdout, r
    entries = [json.loads(line) for line in text.splitlines()[len(whole) + 1:]]
    same((entries[0]["event"], entries[0]["seq"]), ("start", whole[-1]["seq"] + 1))
    Path(path).write_text(text.replace('{"seq":99,', '{"seq":98,'))
    same(verify(path).returncode, 1)
    shutil.rmtree(os.path.dirname(path))


def test_what_cannot_be_an_audit_log():
    daemon()
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o777)
        path = os.path.join(d, "audit.log")
        Path(path).write_text("{}\n")
        os.chmod(path, 0o666)
        assert "nobody but its owner" in refused(path)
        os.chmod(path, 0o600)
        os.chown(path, *service())
        assert "not a line of an audit log" in refused(path)
        os.symlink("/dev/null", path + ".link")
        assert "open " in refused(path + ".link")
        assert "open " in refused("/nonexistent/audit.log")


def service():
    """Whom codeboxd becomes, as whom it made files."""
    d = begin()
    st = os.stat(d.audit)
    same(d.stop(), 0)
    shutil.rmtree(os.path.dirname(d.audit))
    return st.st_uid, st.st_gid


def refused(path):
    try:
        d = Daemon("--audit", path)
    except AssertionError as e:
        return str(e)
    d.stop()
    return ""


if __name__ == "__main__":
    cbxtest.run(globals())
