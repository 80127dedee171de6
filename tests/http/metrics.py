#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""/metrics, as promtool and a reader of its lines see it: who may ask, what is counted, for whom."""
import http.client
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common_http import PATIENCE, Daemon, Legacy, Skip, wait_until  # noqa: E402
import cbxtest  # noqa: E402

TOP = Path(__file__).resolve().parent.parent.parent
servers = {}


def ask(method, path, body=None, token=None, port=None):
    c = http.client.HTTPConnection("127.0.0.1", port or daemon().port, timeout=PATIENCE)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if body is not None:
        headers["Content-Type"] = "application/json"
    c.request(method, path, None if body is None else json.dumps(body), headers)
    r = c.getresponse()
    data = r.read().decode()
    c.close()
    return r, data


def daemon():
    if "daemon" not in servers:
        servers["daemon"] = d = Daemon(tenants={"acme": {"sessions": 2}, "beta": {}, "ops": {"sessions": 1}})
        d.tokens = {name: d.token(name) for name in ("acme", "beta")}
        d.scraper = d.token("ops", "--scope", "metrics")
        r, body = ask("POST", "/sessions", {}, d.tokens["beta"], d.port)
        servers["why"] = None if r.status == 200 else body
        if r.status == 200:
            ask("DELETE", f"/sessions/{json.loads(body)['session_id']}", None, d.tokens["beta"], d.port)
    if servers["why"]:
        raise Skip(f"no session can be made here: {servers['why']}")
    return servers["daemon"]


def same(got, want):
    assert got == want, f"got {got!r}, want {want!r}"


def scrape():
    r, text = ask("GET", "/metrics", token=daemon().scraper)
    same((r.status, r.headers["Content-Type"]), (200, "text/plain; version=0.0.4; charset=utf-8"))
    return text


def values(text=None):
    """{'name{labels}': number}"""
    lines = [line for line in (text or scrape()).splitlines() if not line.startswith("#")]
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines}


def run(token, session, code):
    r, body = ask("POST", "/execute", {"session_id": session, "code": code}, token)
    same(r.status, 200)
    request = json.loads(body)["request_id"]
    r, body = ask("GET", f"/execute/{request}/status?wait=60", token=token)
    assert json.loads(body)["status"] in ("completed", "error"), body


def test_who_may_ask():
    d = daemon()
    same(ask("GET", "/metrics")[0].status, 401)
    r, _ = ask("GET", "/metrics", token=d.tokens["acme"])
    same(r.status, 403)
    assert 'scope="metrics"' in r.headers["WWW-Authenticate"], r.headers
    same(ask("GET", "/sessions", token=d.scraper)[0].status, 403)
    same(ask("POST", "/metrics", {}, d.scraper)[0].status, 405)
    r = d.box("token", "create", "--tenant", "acme", "--scope", "read,read")
    assert r.returncode == 1 and "each once" in r.stderr, r
    same(d.box.json("token", "create", "--json", "--tenant", "acme", "--scope", "metrics,read")["scopes"], "read,metrics")


def test_without_tenants_this_computer_may_ask():
    d = Daemon()
    r, text = ask("GET", "/metrics", port=d.port)
    same(r.status, 200)
    assert "codebox_build_info{" in text
    same(d.stop(), 0)


def test_promtool_accepts():
    if not shutil.which("promtool"):
        raise Skip("promtool is not installed")
    run_one_of_each()
    r = subprocess.run(["promtool", "check", "metrics"], input=scrape(), text=True, capture_output=True)
    same((r.returncode, r.stdout + r.stderr), (0, ""))


def run_one_of_each():
    token = daemon().tokens["acme"]
    r, body = ask("POST", "/sessions", {}, token)
    same(r.status, 200)
    session = json.loads(body)["session_id"]
    run(token, session, "sum(range(10**6))")
    run(token, session, "1/0")
    c = Legacy(daemon().port, Authorization=f"Bearer {token}")
    r = c.call("run_command", {"session_id": session, "command": "true"}).message["result"]
    assert not r["isError"], r
    c.send("DELETE")
    return session


def test_what_is_counted():
    token, before = daemon().tokens["acme"], values()
    session = run_one_of_each()
    assert wait_until(lambda: values()['codebox_sessions{state="idle"}'] >= 1)
    live = values()
    r, _ = ask("POST", "/sessions", {"session_id": session}, token)
    same(r.status, 409)
    same(ask("POST", "/execute", {"session_id": "none", "code": "1"}, token)[0].status, 404)
    same(ask("DELETE", f"/sessions/{session}", None, token)[0].status, 200)
    after = values()

    def grew(name, by, at_least=False):
        n = after[name] - before.get(name, 0)
        assert n >= by if at_least else n == by, (name, before.get(name), after[name], by)

    for name, by in [("codebox_sessions_created_total", 1), ('codebox_sessions_closed_total{outcome="closed"}', 1),
                     ("codebox_session_start_seconds_count", 1), ("codebox_cell_duration_seconds_count", 2),
                     ('codebox_cell_wait_seconds_bucket{le="+Inf"}', 2), ('codebox_cells_total{status="ok"}', 1),
                     ('codebox_cells_total{status="error"}', 1), ('codebox_commands_total{status="ok"}', 1),
                     ('codebox_denials_total{kind="session_exists"}', 1), ('codebox_tenant_cells_total{tenant="acme"}', 2),
                     ('codebox_tenant_commands_total{tenant="acme"}', 1), ('codebox_tenant_denials_total{tenant="acme"}', 1),
                     ('codebox_tenant_sessions_created_total{tenant="acme"}', 1)]:
        grew(name, by)
    grew('codebox_http_responses_total{class="2xx"}', 5, True)
    grew('codebox_http_responses_total{class="4xx"}', 2)
    grew('codebox_tenant_cpu_seconds_total{tenant="acme"}', 0.001, True)
    same(live['codebox_tenant_sessions{tenant="acme"}'] - after['codebox_tenant_sessions{tenant="acme"}'], 1)
    same(after['codebox_tenant_cells_total{tenant="beta"}'], 0)
    assert after["codebox_ready"] == 1 and after["process_resident_memory_bytes"] > 1e6, after


def test_histograms_add_up():
    run_one_of_each()
    v = values()
    for name in "codebox_session_start_seconds", "codebox_cell_wait_seconds", "codebox_cell_duration_seconds":
        buckets = [n for k, n in v.items() if k.startswith(name + "_bucket")]
        assert buckets == sorted(buckets) and buckets[-1] == v[name + "_count"] > 0, (name, buckets)
        assert v[name + "_sum"] >= 0


def test_the_manual_names_each():
    text = (TOP / "man" / "codebox-metrics.7").read_text()
    there = set(re.findall(r"^# TYPE (\S+)", scrape(), re.M))
    named = set(re.findall(r"^\.It (?:Va )?((?:codebox|process)_\w+)", text, re.M))
    same(there - {"codebox_pool_sessions"}, named - {"codebox_pool_sessions"})
    asked = set(re.findall(r"codebox_\w+(?=\[)", text.partition("\n.Sh EXAMPLES\n")[2]))
    assert asked and {re.sub("_bucket$", "", name) for name in asked} <= there, asked


def test_the_end():
    same(servers["daemon"].stop(), 0)


if __name__ == "__main__":
    cbxtest.run(globals())
