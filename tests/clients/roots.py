#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MCP's roots, with the Python SDK's client and without one: directories of the client's user, mounted where the policy
takes them."""
import asyncio
import http.client
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import common  # noqa: E402
from common import CODEBOX, Raw, Tap, enter_venv, text_of  # noqa: E402

enter_venv()
top = os.path.join(os.path.dirname(os.environ["CODEBOX_RUNTIME_DIR"]), "roots")
os.makedirs(top)
os.environ["CODEBOX_POLICY"] = common.SERVER_ENV["CODEBOX_POLICY"] = os.path.join(top, "policy.json")
with open(os.path.join(top, "policy.json"), "w") as f:
    json.dump({"mounts": {"allow": [{"path": f"{top}/open", "writable": True}], "roots": True}}, f)
for name in ("open/my project", "open/b/same", "open/c/same", "closed"):
    os.makedirs(os.path.join(top, name))
    with open(os.path.join(top, name, "file.txt"), "w") as f:
        f.write(name)

if os.geteuid() == 0:  # whose sessions have an account of their own
    os.chmod(os.path.dirname(top), 0o755)
    os.chmod(os.path.join(top, "open/b"), 0o777)

import warnings  # noqa: E402

from mcp import ClientSession, StdioServerParameters, types  # noqa: E402
from mcp.client.stdio import stdio_client  # noqa: E402
from pathlib import Path  # noqa: E402

LIST = "import os; print(sorted(os.listdir('/mnt')) if os.path.exists('/mnt') else [])"
warnings.filterwarnings("ignore",
                        message="The roots capability")  # deprecated in a later revision than those spoken here
tap = Tap()


def root(name):
    return types.Root(uri=Path(top, name).as_uri(), name=name)


async def sdk():
    roots = [root("open/my project"), root("closed"), root("nothing")]
    asked = 0

    async def list_roots(context):
        nonlocal asked
        asked += 1
        return types.ListRootsResult(roots=roots)

    server = StdioServerParameters(command=CODEBOX, args=["mcp"], env=dict(common.SERVER_ENV))
    async with stdio_client(server) as (read, write):
        async with ClientSession(read, write, list_roots_callback=list_roots) as client:
            await client.initialize()
            r = await client.call_tool("run_code", {"code": LIST + "\nprint(open('/mnt/my project/file.txt').read())"})
            tap.equal(text_of(r.model_dump())[:60].splitlines()[:2], ["['my project']", "open/my project"],
                      "the allowed root is mounted in the connection's own session")
            r = await client.call_tool("run_code", {"code": "open('/mnt/my project/new', 'w')"})
            tap.ok("Read-only file system" in text_of(r.model_dump()), "read-only", r)
            tap.equal(asked, 1, "the client was asked once")
            roots[:] = [root("open/b/same"), root("open/c/same")]
            await client.send_roots_list_changed()
            r = await client.call_tool("create_session", {"session_id": "two"})
            tap.ok("Mounted: /mnt/same (read-only), /mnt/same-2 (read-only)" in text_of(r.model_dump()),
                   "a change applies to the next session, and names are told apart", r)
            r = await client.call_tool("run_code", {"code": LIST, "session_id": "two"})
            tap.ok("['same', 'same-2']" in text_of(r.model_dump()), "both are there", r)
            tap.equal(asked, 2, "the client was asked again")
            r = await client.call_tool("create_session", {"mounts": [{"source": f"{top}/open/b", "writable": True}]})
            info = r.model_dump(by_alias=True)["structuredContent"]
            tap.equal(info["mounts"], [{"source": f"{top}/open/b", "target": "/mnt/b", "writable": True}],
                      "mounts that are asked for take the place of roots")
            r = await client.call_tool("create_session", {"mounts": []})
            tap.ok("mounts" not in r.model_dump(by_alias=True)["structuredContent"], "and so do none", r)
            r = await client.call_tool("create_session", {"mounts": [{"source": f"{top}/closed"}]})
            tap.ok(r.model_dump(by_alias=True)["isError"] and "does not allow" not in text_of(r.model_dump())
                   and "in a directory that the policy" in text_of(r.model_dump()), "others are refused", r)
            r = await client.call_tool("create_session", {"environment": {"GREETING": "hello"}, "memory": "99G"})
            tap.ok(r.model_dump(by_alias=True)["isError"], "values out of range are errors", r)
            r = await client.call_tool("create_session", {"session_id": "env", "environment": {"GREETING": "hello"}})
            r = await client.call_tool("run_code", {"session_id": "env", "code": "import os; os.environ['GREETING']"})
            tap.ok("hello" in text_of(r.model_dump()), "create_session sets the environment", r)


def start(capabilities):
    raw = Raw()
    raw.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": capabilities,
                           "clientInfo": {"name": "raw", "version": "0"}})
    raw.notify("notifications/initialized")
    return raw


def silent():
    with start({"roots": {"listChanged": True}}) as raw:
        first = raw.request("tools/call", {"name": "run_code", "arguments": {"code": LIST}})
        second = raw.request("tools/call", {"name": "run_code", "arguments": {"code": "1+1"}})
        dropped = raw.request("tools/call", {"name": "create_session", "arguments": {"session_id": "dropped"}})
        raw.notify("notifications/cancelled", {"requestId": dropped})
        tap.equal(raw.ask("ping"), {"jsonrpc": "2.0", "id": raw.next_id, "result": {}},
                  "a silent client is served meanwhile")
        tap.ok("[]" in text_of(raw.wait(first)["result"]), "a client that does not answer gets a session without")
        tap.ok("2" in text_of(raw.wait(second)["result"]), "and what it sent meanwhile is done")
        asked = [m for m in raw.other if m.get("method") == "roots/list"]
        tap.equal(len(asked), 1, "it was asked once")
        listed = raw.call("list_sessions", {})["result"]
        tap.ok("dropped" not in text_of(listed), "a held call can be cancelled", listed)
        raw.send({"id": asked[0]["id"], "result": {"roots": [{"uri": Path(top, "open/b").as_uri()}]}})
        r = raw.call("create_session", {})["result"]
        tap.ok("Mounted: /mnt/b" in text_of(r), "a late answer is for the next session", r)


def hostile():
    answers = [{"error": {"code": -1, "message": "no"}}, {"result": None}, {"result": []}, {"result": {"roots": "x"}},
               {"result": {"roots": [5, {}, {"uri": 5}, {"uri": ""}, {"uri": "file://"}, {"uri": "file:///"},
                                     {"uri": "http://x/"}, {"uri": "file:///etc"}, {"uri": "file:///%00"},
                                     {"uri": "file:///%"}, {"uri": "file://evil/etc"},
                                     {"uri": "file:///proc/self/root"},
                                     {"uri": f"file://{top}/open/%2e%2e/closed"}, {"uri": f"file://{top}/openx"}]}},
               {"result": {"roots": [{"uri": f"file://{top}/open/b?{i}"} for i in range(200)]}}]
    for i, answer in enumerate(answers):
        with start({"roots": {}}) as raw:
            call = raw.request("tools/call", {"name": "run_code", "arguments": {"code": LIST}})
            while True:
                message = raw.next()
                if message.get("method") == "roots/list":
                    break
            raw.send({"id": "roots-999", "result": {"roots": []}})  # nobody asked that
            raw.send({"id": message["id"], **answer})
            got = text_of(raw.wait(call)["result"])
            want = "['b', 'b-2'" if i == 5 else "[]"
            tap.ok(want in got, f"answer {i} does no harm", got)
    with start({}) as raw:
        tap.ok("[]" in text_of(raw.run(LIST)), "a client without roots is not asked")
        tap.equal([m for m in raw.other if m.get("method") == "roots/list"], [], "at all")


def over_http():
    """There the question comes in the stream of the call that waits for its answer."""
    env = dict(os.environ, CODEBOX_RUNTIME_DIR=f"{top}/http", CODEBOX_STATE_DIR=f"{top}/state")
    daemon = subprocess.Popen([os.environ["CODEBOX_DAEMON"], "--foreground", "--http", "127.0.0.1:0"], env=env,
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        port = next(int(m[1]) for m in (re.search(r"http://127\.0\.0\.1:(\d+)", line) for line in daemon.stderr) if m)

        def post(message, session=None):
            headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
            if session:
                headers.update({"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"})
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=common.PATIENCE)
            c.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", **message}), headers)
            return c.getresponse()

        r = post({"id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {"roots": {}},
            "clientInfo": {"name": "t", "version": "1"}}})
        session = r.getheader("Mcp-Session-Id")
        r.read()
        post({"method": "notifications/initialized"}, session).read()
        stream = post({"id": 2, "method": "tools/call", "params": {"name": "run_code", "arguments": {"code": LIST}}},
                      session)
        seen = []
        for line in stream:
            if not line.startswith(b"data:") or len(line) < 8:
                continue
            message = json.loads(line[5:])
            seen.append(message.get("method") or text_of(message["result"]).splitlines()[0])
            if "result" in message:
                break
            answer = {"id": message["id"], "result": {"roots": [{"uri": Path(top, "open/b").as_uri()}]}}
            tap.equal(post(answer, session).status, 202, "an answer is taken over HTTP")
        tap.equal(seen, ["roots/list", "['b']"], "a client over HTTP is asked in the call's stream")
    finally:
        daemon.terminate()
        daemon.wait()


asyncio.run(tap.run_async("with the SDK", sdk))
tap.run("a client that does not answer", silent)
tap.run("answers of all kinds", hostile)
tap.run("over HTTP", over_http)
tap.done()
