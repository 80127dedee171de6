#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The headers that CodeBoxMCP's clients set: what they ask for is lowered to what is allowed, and nonsense is refused."""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common_http import DAEMON, Client, Daemon, Modern  # noqa: E402
import cbxtest  # noqa: E402

PATH = "/mcp/codeboxmcp"
HEADERS = {"X_Session_TTL": 100, "X_Idle_Timeout": 50, "X_Exec_Timeout": 7, "X_Download_Timeout": 9, "X_Max_Download_Size": 1000}
KEYS = ["session_ttl", "idle_timeout", "exec_timeout", "download_timeout", "max_download_size"]
servers = {}


def daemon():
    if "daemon" not in servers:
        servers["daemon"] = Daemon()
    return servers["daemon"]


def ask(c, tool, headers=None, **arguments):
    """What a tool of the profile answers."""
    headers = {k: str(v) for k, v in (headers or {}).items()}
    a = c.request("tools/call", {"name": tool, "arguments": arguments}, path=PATH, **headers)
    assert a.status == 200, a.body
    return json.loads(a.message["result"]["content"][0]["text"])


def limits(c, session, headers=None):
    config = ask(c, "session_info", headers, session_id=session)["effective_config"]
    return [config[key] for key in KEYS]


def legacy(port):
    c = Client(port)
    a = c.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
                  path=PATH)
    c.headers["Mcp-Session-Id"] = a.headers["Mcp-Session-Id"]
    return c


def test_they_lower():
    """In both eras; those of a session as it was made, the others as each request says."""
    for c, name in (Modern(daemon().port), "m"), (legacy(daemon().port), "l"):
        assert limits(c, name, HEADERS) == list(HEADERS.values())
        assert limits(c, name) == [100, 50, 300, 120, 524288000]
        assert limits(c, name + "2") == [3600, 1800, 300, 120, 524288000]
        assert limits(c, name + "3", {k: 4294967295 for k in HEADERS}) == [3600, 1800, 300, 120, 524288000]
        for s in name, name + "2", name + "3":
            assert ask(c, "destroy_session", session_id=s)["status"] == "success"


def test_a_cell_ends_by_them():
    c = Modern(daemon().port)
    a = ask(c, "exec_code", {"X_Exec_Timeout": 1}, session_id="x", language="python", code="while True: pass")
    assert "KeyboardInterrupt" in a["output"], a
    ask(c, "destroy_session", session_id="x")


def test_at_the_path_that_its_clients_know():
    d = Daemon("--http-profile", "codeboxmcp")
    try:
        c = Modern(d.port)
        assert limits(c, "m", HEADERS) == list(HEADERS.values())  # at its own path
        for path, tool in ("/mcp", "exec_code"), (PATH, "exec_code"), ("/mcp/native", "run_code"), ("/mcp/codebox-ai", "execute_code"):
            for client, send in (c, c.request), (old := Client(d.port), None):
                if send is None:
                    a = old.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                                                   "clientInfo": {"name": "t", "version": "1"}}, path=path)
                    old.headers["Mcp-Session-Id"] = a.headers["Mcp-Session-Id"]
                a = client.request("tools/list", path=path)
                assert tool in [t["name"] for t in a.message["result"]["tools"]], (path, a.body)
        a = c.request("tools/call", {"name": "session_info", "arguments": {"session_id": "m"}}, path="/mcp", X_Exec_Timeout="7")
        assert json.loads(a.message["result"]["content"][0]["text"])["effective_config"]["exec_timeout"] == 7, a.body
    finally:
        assert d.stop() == 0
    r = subprocess.run([DAEMON, "--foreground", "--http", "127.0.0.1:0", "--http-profile", "other"], capture_output=True, text=True,
                       env=cbxtest.Box().env)
    assert r.returncode == 2 and '--http-profile: "other" is not a profile; use native, codebox-ai' in r.stderr, r


def test_nonsense_is_refused():
    for c in Modern(daemon().port), legacy(daemon().port):
        for header in HEADERS:
            for value in "0", "-1", "+1", "1.5", "1e3", "an hour", "", "99999999999999999999":
                for tool, more in [("session_info", {}), ("exec_code", {"language": "python", "code": "1"}),
                                   ("upload_file", {"blob_url": "http://pub.test/"})]:
                    a = ask(c, tool, {header: value}, session_id="none", **more)
                    assert a["status"] == "error" and a["error"].startswith(header.replace("_", "-") + ": "), (header, value, tool, a)
        assert ask(c, "list_sessions", {"X_Other": "an hour"})["sessions"] == []


def test_the_policy_comes_first():
    path = os.path.join(daemon().box.dir, "policy.json")
    with open(path, "w") as f:
        json.dump({"limits": {"ttl": "80s", "idle_timeout": "60s", "timeout": "5s"}}, f)
    os.chmod(path, 0o644)
    d = Daemon("--policy", path)
    try:
        c = Modern(d.port)
        assert limits(c, "a", HEADERS) == [80, 50, 5, 9, 1000]
        assert limits(c, "b", {"X_Exec_Timeout": 3}) == [80, 60, 3, 120, 524288000]
    finally:
        assert d.stop() == 0


def test_the_end():
    if "daemon" in servers:
        assert servers["daemon"].stop() == 0


if __name__ == "__main__":
    if not os.access(DAEMON, os.X_OK) and not shutil.which(DAEMON):
        print("1..0 # SKIP there is no codeboxd")
        sys.exit(0)
    cbxtest.run(globals())
