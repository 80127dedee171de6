#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rules for code of a policy (the shipped example), through MCP with the official Python client, REST with curl, and the
command. Which code they refuse is in tests/driver/cases_rules.py."""
import sys

sys.dont_write_bytecode = True

import common

common.enter_venv()

import json
import os
import shutil
import subprocess
import tempfile

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from common import PATIENCE, Tap

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lib"), os.path.join(HERE, "..", "http")]
from common_http import Daemon, wait_until  # noqa: E402
from pypi import Index  # noqa: E402

tap = Tap()
EXAMPLE = os.path.join(os.environ.get("CODEBOX_SHARE_DIR", os.path.join(HERE, "..", "..")), "policies", "examples", "code-rules.json")


def curl(method, url, body=None):
    """Status and JSON of the answer."""
    r = subprocess.run(["curl", "-sS", "-X", method, "-w", "\n%{http_code}", "--max-time", str(PATIENCE), "-H",
                        "Content-Type: application/json", *(["-d", json.dumps(body)] if body is not None else []), url],
                       capture_output=True, text=True)
    text, _, status = r.stdout.rpartition("\n")
    return int(status or 0), json.loads(text) if text else r.stderr


class Rest:
    def __init__(self, daemon, **fields):
        self.at = f"http://127.0.0.1:{daemon.port}"
        status, made = curl("POST", self.at + "/sessions", fields)
        tap.ok(status == 200, "REST: a session", made)
        self.id = made["session_id"]

    def execute(self, code, **fields):
        return curl("POST", self.at + "/execute", {"session_id": self.id, "code": code, **fields})

    def results(self, request):
        return curl("GET", f"{self.at}/execute/{request}/results?wait=60")[1]

    def run(self, code, **fields):
        status, a = self.execute(code, **fields)
        tap.ok(status == 200, f"REST: {code!r} is run", a)
        return self.results(a["request_id"])


def refusal(answer, *parts):
    status, body = answer
    tap.ok(status == 400 and sorted(body) == ["message", "status"] and body["status"] == "error"
           and all(p in body["message"] for p in parts), f"REST: 400 with {parts[0]}", answer)


def rest(daemon):
    s = Rest(daemon)
    tap.equal(s.run("x = 1\nprint(x)")["output"], [{"type": "stream", "content": "1\n"}], "REST: what is allowed runs")
    refusal(s.execute("x = 2\nimport subprocess\ny = eval"), "Forbidden import: subprocess (line 2, rule dangerous_imports)",
            "Forbidden function call: eval (line 3, rule dangerous_builtins)", "Write it without that")
    refusal(s.execute("x = (3"), "Invalid Python syntax: ")
    refusal(s.execute("%%bash\nls -la"), "")
    refusal(s.execute("import os", disable_validation=["all"]), "Forbidden import: os")
    refusal(s.execute("!pip install flask"), "Package flask is blocked for security reasons")
    refusal(s.execute("ls", language="bash"), "language: ")
    tap.equal(s.run("(x, len(In))")["output"][0]["content"], "(1, 3)", "REST: nothing of it has changed the session")
    # A session that has something to do answers at once; then the result has the refusal.
    status, busy = s.execute("import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.05)")
    tap.ok(wait_until(lambda: curl("GET", f"{s.at}/execute/{busy['request_id']}/status")[1]["status"] == "running"), "REST: a cell runs")
    status, late = s.execute("import socket")
    tap.equal((status, late.get("status")), (200, "created"), "REST: a cell that waits is created")
    tap.equal(curl("PUT", f"{s.at}/sessions/{s.id}/files/go", {})[0] // 100, 2, "REST: a file")
    error = s.results(late["request_id"])["error"] or {}
    tap.ok(error.get("ename") == "CodeRefused" and "Forbidden import: socket" in error["evalue"],
           "REST: and its result says why it did not run", error)
    status, body = curl("POST", s.at + "/sessions", {"dependencies": ["paramiko"]})
    tap.ok(status in (400, 403) and "paramiko" in json.dumps(body), "REST: dependencies are judged by the same list", (status, body))
    s = Rest(daemon, code_rules=False)
    refusal(s.execute("import socket"), "Forbidden import: socket")


def optional(path):
    """The policy lets requests do without."""
    with open(path, "w") as f:
        json.dump({"include": ["default"], "code": {"code_rules": {"default": True, "max": False}, "imports": ["socket", "json"]}}, f)
    os.environ["CODEBOX_POLICY"] = path
    d = Daemon()
    s = Rest(d)
    refusal(s.execute("import json"), "Forbidden import: json")
    tap.equal(s.run("import os, socket", disable_validation=["dangerous_imports"])["error"], None,
              "REST: a rule that the request does without, where the policy lets it")
    refusal(s.execute("eval('1')", disable_validation=["dangerous_imports"]), "Forbidden function call: eval")
    tap.equal(s.run("eval('1')", disable_validation=["all"])["error"], None, "REST: without any")
    tap.equal(Rest(d, code_rules=False).run("import json; eval('1')")["error"], None, "REST: a session without rules")
    d.stop()


def texts(result):
    return [b.text for b in result.content if b.type == "text"]


def connect(box, *options):
    return Client(StdioServerParameters(command=common.CODEBOX, args=["mcp", *options], env={k: v for k, v in box.env.items()
                                        if k.startswith("CODEBOX")}), mode="legacy", read_timeout_seconds=PATIENCE)


async def mcp(box):
    async with connect(box, "--profile", "codebox-ai") as c:
        r = await c.call_tool("execute_code", {"code": "x = 1\nimport socket"})
        tap.ok(not r.is_error and len(texts(r)) == 1 and texts(r)[0].startswith("Error: Forbidden import: socket (line 2, "),
               "codebox-ai: a refusal is a text", texts(r))
        r = await c.call_tool("execute_code", {"code": "print(6 * 7)"})
        tap.equal(texts(r), ["42\n"], "codebox-ai: what is allowed runs")
    async with connect(box) as c:
        r = await c.call_tool("run_code", {"code": "x = 1\nprint(x)"})
        tap.ok(not r.is_error and "1" in texts(r)[0], "native: what is allowed runs", texts(r))
        r = await c.call_tool("run_code", {"code": "x = 2\n!curl x; rm -rf y"})
        tap.ok("line 2, rule jupyter_commands: Shell command not allowed: rm" in texts(r)[0]
               and "Nothing of it was run. Write it without that" in texts(r)[0], "native: a refusal has line, rule and remedy", texts(r))
        r = await c.call_tool("run_code", {"code": "x"})
        tap.ok(texts(r)[0].startswith("1"), "native: and leaves the session as it was", texts(r))
        r = await c.call_tool("run_command", {"command": "ls"})
        tap.ok(r.is_error and "code_rules" in texts(r)[0], "native: other programs are not a way around", texts(r))


def command(box):
    r = box("run", "-c", "import socket")
    tap.ok(r.returncode == 1 and "line 1, rule dangerous_imports: Forbidden import: socket" in r.stderr, "run: refused", (r.returncode, r.stderr))
    r = box("run", "--set", "code_rules=false", "-c", "import socket")
    tap.ok(r.returncode == 1 and "Forbidden import: socket" in r.stderr, "run: a request does not take them away", r.stderr)
    with open(os.path.join(box.dir, "script.py"), "w") as f:
        f.write("print('ran')\nimport pty\n")
    r = box("run", f.name)
    tap.ok(r.returncode == 1 and "line 2, rule dangerous_imports" in r.stderr and "ran" not in r.stdout, "run: a program, too", (r.stdout, r.stderr))
    r = box("policy", "explain")
    tap.ok("code.code_rules" in r.stdout and "imports:" in r.stdout, "policy explain: the rules", r.stdout)


def main():
    directory = tempfile.mkdtemp(prefix="cbx")
    index = Index()
    index.add("paramiko", "3.0")
    os.environ.update(CODEBOX_POLICY=EXAMPLE, PIP_INDEX_URL=index.url)
    d = Daemon()
    try:
        rest(d)
        anyio.run(mcp, d.box)
        command(d.box)
        d.stop()
        optional(os.path.join(directory, "policy.json"))
    finally:
        shutil.rmtree(directory)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
