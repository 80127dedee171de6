#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codebox mcp as the official Python client (PyPI mcp) uses it, and, for what that hides, line by line."""
import sys

sys.dont_write_bytecode = True

import common

common.enter_venv()

import base64
import json
import os
import subprocess
import tempfile
import warnings

import anyio
import jsonschema
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from common import PATIENCE, REPLY_MAX, Raw, Tap, png_facts, text_of

warnings.filterwarnings("ignore", message="ping is removed")  # not in the revisions that are spoken here
tap = Tap()
TOOLS = ["run_code", "run_command", "get_execution", "interrupt", "create_session", "list_sessions", "session_info", "close_session",
         "restart", "list_files", "read_file", "write_file", "upload_file", "install_packages", "run_sql"]
REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


def connect(mode="legacy"):
    return Client(StdioServerParameters(command=common.CODEBOX, args=["mcp"], env=common.SERVER_ENV), mode=mode,
                  read_timeout_seconds=PATIENCE)


async def run(client, code, **arguments):
    return await client.call_tool("run_code", {"code": code, **arguments})


def shown(result):
    return result.content[0].text


# ---- with the library ----

async def conversation():
    async with connect() as c:
        tap.equal(c.server_info.name, "codebox", "server name")
        tap.equal(c.protocol_version, "2025-11-25", "newest revision of the handshake")
        tap.ok(0 < len(c.instructions.encode()) < 2048, "instructions below 2 KB")
        tools = {t.name: t for t in (await c.list_tools()).tools}
        tap.equal(list(tools), TOOLS, "tools")
        cost = sum(len(t.model_dump_json(by_alias=True, exclude_none=True).encode()) for t in tools.values())
        tap.ok(cost <= 13000, "what the tools cost a model", cost)
        for tool in tools.values():
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
            jsonschema.Draft202012Validator.check_schema(tool.output_schema)
            tap.ok(len(tool.description.encode()) < 2048, f"{tool.name}: description below 2 KB")
        await c.send_ping()

        r = await run(c, "import math\nx = 41\nprint('hello')\nmath.sqrt(16)")
        tap.ok(not r.is_error and shown(r).startswith("hello\n4.0"), "output, then the value", shown(r))
        session = r.structured_content["session_id"]
        tap.ok(session in shown(r), "the default session's id is told")
        r = await run(c, "x += 1\nx")
        tap.equal(r.structured_content["result"], "42", "variables persist")
        tap.equal(r.structured_content["session_id"], session, "same session")
        r = await run(c, "x", session_id=session)
        tap.equal(shown(r), "42", "the same by its id")
        r = await run(c, "pass")
        tap.ok(shown(r).startswith("(no output)"), "a silent cell says so", shown(r))

        r = await run(c, "print('before')\ndef f(d):\n    return d['missing']\nf({})")
        s = r.structured_content
        tap.ok(not r.is_error and s["status"] == "error" and s["error"]["name"] == "KeyError",
               "an exception is a result")
        tap.ok("before" in shown(r) and "KeyError" in shown(r) and "missing" in shown(r), "output and traceback",
               shown(r))
        tap.ok(s["state_kept"], "state is kept after an exception")
        r = await run(c, "import sys\nprint('o', flush=True)\nprint('e', file=sys.stderr, flush=True)\nprint('p')")
        tap.equal((r.structured_content["stdout"], r.structured_content["stderr"]), ("o\np\n", "e\n"), "streams apart")
        tap.ok(shown(r).startswith("o\ne\np"), "streams together, in order", shown(r))
        r = await run(c, "print('\\u20ac \\U0001f600 \\udcff')")
        tap.ok("\u20ac \U0001f600" in shown(r) or r.structured_content["status"] == "error", "characters", shown(r))
        r = await run(c, "import os\n_ = os.write(1, bytes(range(128, 256)) + b'\\n')")
        tap.ok(not r.is_error and "\ufffd" in shown(r), "bytes that are not UTF-8 are replaced", shown(r))


async def data_and_figures():
    async with connect() as c:
        r = await run(c, "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2, 3], 'b': [10., 20., 30.]})\ndf")
        tap.ok("20.0" in shown(r) and "<table" not in shown(r), "a DataFrame is text, not HTML", shown(r))
        r = await run(c, "df.b.sum()")
        tap.ok("60.0" in shown(r), "and is there in the next cell", shown(r))
        r = await run(c, "import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot(df.a, df.b)\n"
                         "print('drawn')")
        images = [b for b in r.content if b.type == "image"]
        tap.equal([b.mime_type for b in images], ["image/png"], "a figure comes by itself")
        width, height, rows = png_facts(base64.b64decode(images[0].data, validate=True))
        tap.ok(width > 100 and height > 100 and rows > 10, "and is a picture", (width, height, rows))
        tap.ok("image/png" in shown(r) and "drawn" in shown(r), "its facts are in the text", shown(r))
        tap.equal(r.structured_content["images"][0]["mime_type"], "image/png", "and in structured content")


async def time_and_death():
    async with connect() as c:
        r = await run(c, "kept = 5\nwhile True: pass", timeout=1)
        s = r.structured_content
        tap.ok(not r.is_error and s["status"] == "timeout" and s["state_kept"], "timeout", s)
        tap.ok(s.get("message", "") and s["message"] in shown(r), "with a message", shown(r))
        r = await run(c, "kept")
        tap.equal(r.structured_content.get("result"), "5", "variables survive a timeout")
        r = await run(c, "import os\nopen('f.txt', 'w').write('file')\nos._exit(3)")
        s = r.structured_content
        tap.ok(r.is_error and s["status"] == "killed" and not s["state_kept"], "the interpreter's death is named", s)
        r = await run(c, "open('f.txt').read()")
        tap.ok("file" in shown(r), "files survive it", shown(r))
        r = await run(c, "kept")
        tap.equal(r.structured_content["error"]["name"], "NameError", "variables do not")


async def cancellation():
    async with connect() as c:
        started = anyio.Event()

        async def on_progress(progress, total, message):
            if message and "started" in message:
                started.set()

        async with anyio.create_task_group() as tg:
            async def long():
                await c.call_tool("run_code", {"code": "y = 1\nimport time\nprint('started', flush=True)\n"
                                                       "time.sleep(3000)",
                                               "timeout": 3600}, progress_callback=on_progress)
            tg.start_soon(long)
            with anyio.fail_after(PATIENCE):
                await started.wait()
            await c.send_ping()
            tap.ok(True, "progress has the newest line, ping is answered while code runs")
            tg.cancel_scope.cancel()
        r = await run(c, "y")
        tap.equal(r.structured_content.get("result"), "1", "the cell was interrupted, the session goes on")


async def concurrency():
    async with connect() as c:
        ids = []
        for name in ("a", "b", "c"):
            r = await c.call_tool("create_session", {})
            ids.append(r.structured_content["session_id"])
            await run(c, f"name = {name!r}", session_id=ids[-1])
        tap.equal(len(set(ids)), 3, "three sessions")
        async with anyio.create_task_group() as tg:
            async def block():
                await run(c, "import time\ntime.sleep(3000)", session_id=ids[0], timeout=3600)
            tg.start_soon(block)
            for _ in range(5):
                r = await run(c, "name", session_id=ids[1])
                r2 = await run(c, "name", session_id=ids[2])
            tap.equal((r.structured_content["result"], r2.structured_content["result"]), ("'b'", "'c'"),
                      "cells of other sessions do not wait for one that runs")
            tg.cancel_scope.cancel()
        results = {}

        async def add(i):
            r = await run(c, f"print({i})", session_id=ids[i % 3])
            results[i] = r.structured_content["stdout"]
        async with anyio.create_task_group() as tg:
            for i in range(60):
                tg.start_soon(add, i)
        tap.equal(results, {i: f"{i}\n" for i in range(60)}, "sixty calls at once, each with its own answer")
        listed = (await c.call_tool("list_sessions", {})).structured_content["sessions"]
        tap.ok(set(ids) <= {s["session_id"] for s in listed}, "list_sessions has them")
        for i in ids:
            r = await c.call_tool("close_session", {"session_id": i})
            tap.ok(r.structured_content["closed"], "close_session")
        r = await run(c, "1", session_id=ids[0])
        tap.ok(r.is_error and ids[0] in shown(r), "a closed session is refused by its id", shown(r))


async def survival():
    async with connect() as c:
        r = await c.call_tool("create_session", {})
        explicit = r.structured_content["session_id"]
        await run(c, "n = 7", session_id=explicit)
        implicit = (await run(c, "m = 8")).structured_content["session_id"]
    async with connect("auto") as c:
        r = await run(c, "n", session_id=explicit)
        tap.equal(r.structured_content.get("result"), "7", "a session with an id outlives the client's process")
        with anyio.fail_after(PATIENCE):
            while not (r := await run(c, "m", session_id=implicit)).is_error:
                await anyio.sleep(0.05)
        tap.ok(True, "the default session does not")
        await c.call_tool("close_session", {"session_id": explicit})


async def big_output():
    async with connect() as c:
        r = await run(c, "for i in range(400000): print('line', i)")
        tap.ok(len(shown(r)) < 21000 and "omitted" in shown(r), "output is cut, and says so", len(shown(r)))
        tap.ok("line 0\n" in shown(r) and "line 399999" in shown(r), "head and tail are there")
        s = r.structured_content
        tap.ok(s["omitted"]["bytes"] > 4000000, "how much was left out", s["omitted"])
        if s["omitted"].get("file"):
            r = await run(c, f"s = open({s['omitted']['file']!r}).read()\nlen(s.splitlines())")
            tap.equal(r.structured_content.get("result"), "400000", "the whole output is in the file that it names")
        r = await run(c, "list(range(1000000))")
        tap.ok(len(shown(r)) < 21000, "a long value is cut", len(shown(r)))


# ---- line by line ----

def handshakes():
    for version in REVISIONS + ["2026-07-28", "nonsense"]:
        with Raw() as raw:
            probe = raw.ask("server/discover", {})
            tap.equal(probe["error"]["code"], -32602,
                      f"{version}: a probe without its era's metadata is refused at once")
            result = raw.initialize(version)["result"]
            tap.equal(result["protocolVersion"], version if version in REVISIONS else REVISIONS[-1],
                      f"{version}: agreed")
            tools = raw.ask("tools/list")["result"]["tools"]
            old, middle = version == "2024-11-05", version == "2025-03-26"
            tap.equal(["annotations" in t for t in tools], [not old] * len(TOOLS), f"{version}: annotations")
            tap.equal(["outputSchema" in t for t in tools], [not old and not middle] * len(TOOLS),
                      f"{version}: output schemas")
            r = raw.run("6*7")
            tap.ok(text_of(r).startswith("42"), f"{version}: a cell", r)
            tap.equal("structuredContent" in r, not old and not middle, f"{version}: structured content")
            tap.equal(raw.close(), 0, f"{version}: exit status")


def batches():
    with Raw() as raw:
        raw.initialize("2025-03-26")
        raw.send_text('[{"jsonrpc":"2.0","id":"a","method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},'
                      '{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{"name":"run_code",'
                      '"arguments":{"code":"1+1"}}}]')
        answer = raw.answer()
        tap.equal(sorted(m["id"] for m in answer), ["a", "b"], "a batch is answered by an array")
        raw.send_text("[]")
        tap.equal(raw.answer()["error"]["code"], -32600, "an empty batch is refused")
    with Raw() as raw:
        raw.initialize()
        raw.send_text('[{"jsonrpc":"2.0","id":1,"method":"ping"}]')
        tap.equal(raw.answer()["error"]["code"], -32600, "batches belong to one revision only")


def bad_input():
    with Raw() as raw:
        raw.initialize()
        session = raw.run("alive = True")["structuredContent"]["session_id"]
        for text, code, ident in [
            ("this is not JSON", -32700, None),
            ('{"jsonrpc":"2.0","id":1,"method":"ping"', -32700, None),
            ('{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
            ('{"jsonrpc":"2.0","id":"x","method":"none"}', -32601, "x"),
            ('{"jsonrpc":"2.0","id":12345678901234567890,"method":"none"}', -32601, 12345678901234567890),
            ('{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"none","arguments":{}}}', -32602, 5),
            ('{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"run_code",'
             '"arguments":{"code":"a\\u0000b"}}}',
             -32602, 5),
            ('{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"run_code",'
             '"arguments":{"code":"\\ud800"}}}',
             -32602, 5),
            (b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"run_code","arguments":{"code":"\xff"}}}',
             -32602, 5),
            ('{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"run_code","name":"run_code"}}', -32602,
             5),
            ('{"jsonrpc":"2.0","id":5,"method":"tools/list","params":{"cursor":"zzz"}}', -32602, 5),
        ]:
            raw.send_text(text)
            answer = raw.answer()
            tap.equal((answer["error"]["code"], answer["id"]), (code, ident), f"refused: {text[:100]!r}")
        for tool, arguments, word in [
            ("run_code", {}, "code"),
            ("run_code", {"code": 5}, "code"),
            ("run_code", {"code": "1", "timeout": "soon"}, "timeout"),
            ("run_code", {"code": "1", "timeout": -1}, "timeout"),
            ("run_code", {"code": "1", "language": "cobol"}, "python"),
            ("run_code", {"code": "1", "lang": "python"}, "language"),
            ("run_code", {"code": "1", "session_id": "no-such-session"}, "no-such-session"),
            ("run_code", {"code": "1", "session_id": "../../etc/passwd"}, "session_id"),
            ("create_session", {"image": "no-such-image"}, "no-such-image"),
            ("create_session", {"image": "../python"}, "image"),
            ("create_session", {"memory": "lots"}, "memory"),
            ("close_session", {"session_id": "no-such-session"}, "no-such-session"),
            ("run_code", {"code": "#" * (20 << 20)}, "code"),
        ]:
            result = raw.call(tool, arguments)["result"]
            tap.ok(result["isError"] and word in text_of(result), f"{tool}: {json.dumps(arguments)[:80]}",
                   text_of(result)[:500])
        r = raw.run("alive")
        tap.equal((r["structuredContent"].get("result"), r["structuredContent"]["session_id"]), ("True", session),
                  "the session is unharmed")


def raw_cancellation():
    with Raw() as raw:
        raw.initialize()
        ident = raw.request("tools/call", {"name": "run_code", "_meta": {"progressToken": "tok"}, "arguments": {
            "code": "z = 3\nimport time\nprint('go', flush=True)\ntime.sleep(3000)", "timeout": 3600}})
        while not (m := raw.next()).get("params", {}).get("message", "").startswith("go"):
            pass
        tap.equal(m["params"]["progressToken"], "tok", "the token comes back")
        raw.notify("notifications/cancelled", {"requestId": "someone else's"})
        raw.notify("notifications/cancelled", {"requestId": ident, "reason": "test"})
        r = raw.run("z")
        tap.equal(r["structuredContent"].get("result"), "3", "after a cancellation the session answers")
        raw.ask("ping")
        tap.ok(all(m.get("id") != ident for m in raw.other), "the cancelled request is not answered", raw.other)


def progress():
    with Raw() as raw:
        raw.initialize()
        ident = raw.request("tools/call", {"name": "run_code", "_meta": {"progressToken": 7}, "arguments": {
            "code": "import os, time\ndef wait(name):\n    while not os.path.exists(name): time.sleep(0.01)\n"
                    "print('step', 0, flush=True)\nwait('go')\n"
                    "for i in range(1, 1000): print('step', i, flush=True)\nwait('end')", "timeout": 600}})

        def heard():
            return [m["params"] for m in raw.other if m.get("method") == "notifications/progress"]

        for number, name in enumerate(("go", "end"), 1):
            while len(heard()) < number:
                raw.other.append(raw.next())
            raw.call("write_file", {"path": name, "content": ""})
        raw.wait(ident)
        raw.ask("ping")
        steps = heard()
        values = [p["progress"] for p in steps]
        tap.ok(len(values) >= 2 and all(a < b for a, b in zip(values, values[1:])), "progress only grows", values)
        tap.ok(len(values) < 1000, "and is not sent for every line", len(values))
        tap.ok(all(p["message"].startswith("step ") and p["progressToken"] == 7 for p in steps), "newest line", steps)


def sizes():
    with Raw() as raw:
        raw.initialize()
        raw.run("print('\\x01' * 3000000)")
        raw.run("'\\x01' * 3000000")
        raw.run("raise ValueError('\\x01' * 3000000)")
        raw.run("import matplotlib.pyplot as plt, numpy as np\n"
                "for i in range(12):\n    plt.figure(figsize=(6, 6)); plt.imshow(np.random.rand(400, 400, 3))",
                timeout=120)
        tap.ok(0 < raw.longest < REPLY_MAX, "no message is longer than the limit", raw.longest)


async def registered():
    """What codebox register has put into a client's configuration, as that client starts it: a session, and a folder in
    which the model's files are."""
    if os.geteuid() == 0:
        tap.skip("a folder", "root's codeboxd has the machine's policy; tests/cli/register.py sees the refusal")
        return
    with tempfile.TemporaryDirectory(prefix="cbxreg") as top:
        top = os.path.realpath(top)
        own = {f"CODEBOX_{d.upper()}_DIR": f"{top}/{d}" for d in ("runtime", "state", "config")}
        env = dict(common.SERVER_ENV, **own)
        folder = os.path.join(top, "work")
        for path in folder, f"{top}/Claude":
            os.mkdir(path)
        subprocess.run([common.CODEBOX, "register", "--session", "s", "--folder", folder, "claude-desktop"], check=True,
                       env=dict(os.environ, **env, XDG_CONFIG_HOME=top), stdout=subprocess.DEVNULL)
        with open(f"{top}/Claude/claude_desktop_config.json") as f:
            entry = json.load(f)["mcpServers"]["codebox"]
        try:
            for code, want in (("x = 6; open('work/a.txt', 'w').write('made')", "4"), ("x * 7", "42")):
                async with Client(StdioServerParameters(command=entry["command"], args=entry["args"], env=env),
                                  mode="legacy", read_timeout_seconds=PATIENCE) as c:
                    r = await run(c, code)
                    tap.equal(r.structured_content.get("result"), want, f"registered: {code}")
            with open(os.path.join(folder, "a.txt")) as f:
                tap.equal((f.read(), os.stat(f.fileno()).st_uid), ("made", os.getuid()), "the file is in the folder")
        finally:
            subprocess.run([common.CODEBOX, "stop", "--force"], env=dict(os.environ, **env), stderr=subprocess.DEVNULL)


async def main():
    await tap.run_async("conversation", conversation)
    await tap.run_async("data and figures", data_and_figures)
    await tap.run_async("time and death", time_and_death)
    await tap.run_async("cancellation", cancellation)
    await tap.run_async("concurrency", concurrency)
    await tap.run_async("survival", survival)
    await tap.run_async("big output", big_output)
    await tap.run_async("registered", registered)


if __name__ == "__main__":
    common.need_codebox()
    anyio.run(main)
    tap.run("handshakes", handshakes)
    tap.run("batches", batches)
    tap.run("bad input", bad_input)
    tap.run("cancellation, raw", raw_cancellation)
    tap.run("progress", progress)
    tap.run("sizes", sizes)
    tap.done()
