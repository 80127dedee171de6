#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cells that take longer than a client waits: background, polling, pages of output, interrupts, cancellation."""
import json
import sys

sys.dont_write_bytecode = True

import common

common.enter_venv()

import warnings

import anyio
import jsonschema
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from common import PATIENCE, Raw, Tap, text_of

warnings.filterwarnings("ignore", message="ping is removed")  # not in the revision that is spoken here
tap = Tap()
schemas = {}


def connect():
    return Client(StdioServerParameters(command=common.CODEBOX, args=["mcp"], env=common.SERVER_ENV), mode="legacy",
                  read_timeout_seconds=PATIENCE)


async def call(client, tool, **arguments):
    r = await client.call_tool(tool, arguments)
    if not r.is_error:
        jsonschema.validate(r.structured_content, schemas[tool])
    return r


async def start(client, code, **arguments):
    r = await call(client, "run_code", code=code, background=True, **arguments)
    return r.structured_content


def shown(result):
    return "\n".join(b.text for b in result.content if b.type == "text")


async def wait_for(client, s, **arguments):
    """Its last answer, after as many waits as that takes."""
    with anyio.fail_after(PATIENCE):
        while True:
            r = await call(client, "get_execution", session_id=s["session_id"], execution_id=s["execution_id"], wait=45)
            if r.structured_content["status"] != "running":
                return r


async def poll():
    async with connect() as c:
        r = await call(c, "run_code", code="import time, os\nprint('begun', flush=True)\n"
                       "while not os.path.exists('go'): time.sleep(0.01)\nprint('ended')\n"
                       "open('made.txt', 'w').write('1')\n6 * 7",
                       background=True, timeout=600)
        s = r.structured_content
        tap.equal((r.is_error, s["status"]), (False, "running"), "background: answered at once")
        tap.ok("get_execution" in shown(r) and s["session_id"] in shown(r), "with what to do next", shown(r))
        with anyio.fail_after(PATIENCE):
            while "begun" not in (r := await call(c, "get_execution",
                                                  execution_id=s["execution_id"])).structured_content["stdout"]:
                await anyio.sleep(0.02)
        tap.equal(r.structured_content["status"], "running", "polled: what was printed so far")
        r = await call(c, "get_execution", execution_id=s["execution_id"], wait=0.2)
        tap.equal(r.structured_content["status"], "running", "a wait that is over")
        info = (await call(c, "session_info")).structured_content
        tap.equal((info["state"], info["running"]), ("busy", s["execution_id"]), "session_info names it")
        results = {}

        async def watch(i):
            results[i] = (await wait_for(c, s)).structured_content
        async with anyio.create_task_group() as tg:
            for i in range(5):
                tg.start_soon(watch, i)
            await c.send_ping()
            await call(c, "write_file", path="go", content="")
        tap.equal([(r["status"], r["result"]) for r in results.values()], [("ok", "42")] * 5,
                  "five that wait for it, five answers")
        tap.ok("made.txt" in [f["path"] for f in results[0]["files"]], "with the files that it made",
               results[0]["files"])
        r = await call(c, "get_execution", execution_id=s["execution_id"])
        tap.equal(r.structured_content["stdout"], "begun\nended\n", "and again later")
        for number in range(17):
            await call(c, "run_code", code="pass")
        r = await c.call_tool("get_execution", {"execution_id": s["execution_id"]})
        tap.ok(r.is_error and "forgotten" in shown(r), "after many others it is forgotten, and that is said", shown(r))
        for arguments, word in [({}, "execution_id"), ({"execution_id": 999}, "999"),
                                ({"execution_id": 0}, "execution_id"),
                                ({"execution_id": 1, "session_id": "none"}, "none"),
                                ({"execution_id": 1, "wait": -1}, "wait")]:
            r = await c.call_tool("get_execution", arguments)
            tap.ok(r.is_error and word in shown(r), f"get_execution refuses {arguments}", shown(r))
    async with connect() as c:
        r = await c.call_tool("get_execution", {"execution_id": 1})
        tap.ok(r.is_error and "session_id" in shown(r), "without a session there is nothing to look at", shown(r))


async def interrupts():
    async with connect() as c:
        s = await start(c, "kept = 1\nimport time\nprint('go', flush=True)\ntime.sleep(3000)", timeout=3600)
        behind = await start(c, "kept + 1", session_id=s["session_id"])
        last = await start(c, "print('never')", session_id=s["session_id"])
        r = await call(c, "interrupt", execution_id=last["execution_id"])
        tap.equal((r.structured_content["interrupted"], r.structured_content["status"]), (True, "cancelled"),
                  "one that waits its turn")
        with anyio.fail_after(PATIENCE):
            while "go" not in (await call(c, "get_execution",
                                          execution_id=s["execution_id"])).structured_content["stdout"]:
                await anyio.sleep(0.02)
        r = await call(c, "interrupt")
        tap.equal(r.structured_content["execution_id"], s["execution_id"], "interrupt without an id: the one that runs")
        tap.ok(r.structured_content["interrupted"] and r.structured_content["state_kept"], "it has ended",
               r.structured_content)
        tap.equal((await wait_for(c, s)).structured_content["status"], "cancelled", "as cancelled")
        tap.equal((await wait_for(c, behind)).structured_content["result"], "2",
                  "the next one runs, variables are kept")
        tap.equal((await wait_for(c, last)).structured_content["stdout"], "", "the cancelled one never ran")
        r = await call(c, "interrupt")
        tap.ok(not r.structured_content["interrupted"], "nothing to interrupt", r.structured_content)
        r = await call(c, "interrupt", execution_id=s["execution_id"])
        tap.equal((r.structured_content["interrupted"], r.structured_content["status"]), (False, "cancelled"),
                  "ended already")
        s = await start(c, "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('deaf', flush=True)\n"
                           "while True: pass")
        with anyio.fail_after(PATIENCE):
            while "deaf" not in (await call(c, "get_execution",
                                            execution_id=s["execution_id"])).structured_content["stdout"]:
                await anyio.sleep(0.02)
        r = await call(c, "interrupt")
        tap.equal((r.structured_content["interrupted"], r.structured_content["state_kept"]), (True, False),
                  "one that does not listen is killed")


async def pages():
    async with connect() as c:
        for count in (4000, 200000):
            r = await call(c, "run_code", code=f"for i in range({count}): print('zeile\u00df', i)")
            s = r.structured_content
            tap.ok("output_from" in shown(r), f"{count} lines: how to get all of it is told", shown(r)[-300:])
            text, at, turns = "", 0, 0
            while True:
                p = (await call(c, "get_execution", session_id=s["session_id"], execution_id=s["execution_id"],
                                output_from=at)).structured_content
                text += p["output"]
                turns += 1
                if p["output_next"] >= p["output_total"] or p["output_next"] <= at:
                    break
                at = p["output_next"]
            tap.ok(text == "".join(f"zeile\u00df {i}\n" for i in range(count)),
                   f"{count} lines: page by page, all of it", (turns, len(text)))
        p = (await call(c, "get_execution", execution_id=s["execution_id"], output_from=10**9)).structured_content
        tap.equal((p["output"], p["output_from"]), ("", p["output_total"]), "behind the end there is nothing")


def cancellation():
    with Raw() as raw:
        raw.initialize()
        waiting = raw.request("tools/call", {"name": "run_code", "_meta": {"progressToken": 1}, "arguments": {
            "code": "a = 1\nimport time\nprint('one', flush=True)\ntime.sleep(3000)", "timeout": 3600}})
        while "one" not in raw.next().get("params", {}).get("message", ""):
            pass
        raw.notify("notifications/cancelled", {"requestId": waiting})
        r = raw.run("a")
        tap.equal(r["structuredContent"].get("result"), "1", "a cancelled run_code interrupts its cell")

        ident = raw.request("tools/call", {"name": "run_code", "arguments": {
            "code": "import time\nwhile True: time.sleep(0.01)", "background": True, "timeout": 3600}})
        s = raw.wait(ident)["result"]["structuredContent"]
        raw.notify("notifications/cancelled", {"requestId": ident})
        get = {"session_id": s["session_id"], "execution_id": s["execution_id"]}
        ident = raw.request("tools/call", {"name": "get_execution", "arguments": {**get, "wait": 45}})
        raw.ask("ping")
        raw.notify("notifications/cancelled", {"requestId": ident})
        raw.ask("ping")
        r = raw.call("get_execution", get)["result"]["structuredContent"]
        tap.equal(r["status"], "running", "neither a late cancellation nor that of a get_execution ends the cell")
        tap.ok(all(m.get("id") not in (waiting, ident) for m in raw.other), "cancelled calls are not answered",
               raw.other)
        ident = raw.request("tools/call", {"name": "get_execution", "arguments": {**get, "wait": 45}})
        r = raw.call("interrupt", {})["result"]["structuredContent"]
        tap.equal(r["status"], "cancelled", "interrupt does")
        tap.equal(raw.wait(ident)["result"]["structuredContent"]["status"], "cancelled", "whoever waits is told")

        s = raw.run("import time\ntime.sleep(3000)", background=True, timeout=3600)["structuredContent"]
        ident = raw.request("tools/call",
                            {"name": "get_execution", "arguments": {"execution_id": s["execution_id"], "wait": 45}})
        raw.call("close_session", {"session_id": s["session_id"]})
        r = raw.wait(ident)["result"]
        tap.equal((r["isError"], r["structuredContent"]["status"]), (True, "killed"),
                  "closing the session ends the wait")


def survival():
    with Raw() as raw:
        raw.initialize()
        session = raw.call("create_session", {})["result"]["structuredContent"]["session_id"]
        s = raw.run("import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n'done'", background=True,
                    session_id=session,
                    timeout=600)["structuredContent"]
    with Raw() as raw:
        raw.initialize()
        get = {"session_id": session, "execution_id": s["execution_id"]}
        r = raw.call("get_execution", get)["result"]["structuredContent"]
        tap.equal(r["status"], "running", "a background cell goes on when its client has gone")
        raw.call("write_file", {"session_id": session, "path": "go", "content": ""})
        while (r := raw.call("get_execution",
                             {**get, "wait": 45})["result"]["structuredContent"])["status"] == "running":
            pass
        tap.equal(r["result"], "'done'", "and another client gets its result")
        raw.call("close_session", {"session_id": session})


def message(ident, tool, **arguments):
    return {"jsonrpc": "2.0", "id": ident, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def same_id_again():
    """A session is closed, and another of its id has cells of the same numbers, before anybody learned of the end."""
    with Raw() as raw:
        raw.initialize()
        raw.call("create_session", {"session_id": "work"})
        old = [raw.request("tools/call", {"name": "run_code", "arguments": {
            "session_id": "work", "code": "import time\ntime.sleep(3000)", "timeout": 3600}}) for _ in range(10)]
        raw.ask("ping")
        lines = [message("close", "close_session", session_id="work"),
                 message("create", "create_session", session_id="work"),
                 *(message(f"new{i}", "run_code", session_id="work", code=f"{i}") for i in range(10)),
                 *({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": i}} for i in old),
                 *(message(f"info{i}", "session_info", session_id="work") for i in range(10))]
        raw.send_text("\n".join(map(json.dumps, lines)))
        tap.equal([raw.wait(i)["result"]["isError"] for i in ("close", "create")], [False, False],
                  "closed, and made again")
        tap.equal([raw.wait(f"new{i}")["result"]["structuredContent"].get("result") for i in range(10)],
                  [str(i) for i in range(10)], "cancelling the old session's calls leaves the new one's cells alone")
        tap.ok(all(m.get("id") not in old for m in raw.other), "cancelled calls are not answered", raw.other)
        # The same while the first session is being made.
        lines = [message("a", "create_session", session_id="made"), message("b", "close_session", session_id="made"),
                 message("c", "create_session", session_id="made"),
                 {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "a"}}]
        raw.send_text("\n".join(map(json.dumps, lines)))
        tap.equal(raw.wait("c")["result"]["isError"], False, "nor is a session undone that another call has made")
        tap.equal(raw.run("6 * 7", session_id="made")["structuredContent"].get("result"), "42", "it is there")
        for name in ("work", "made"):
            raw.call("close_session", {"session_id": name})


def long_wait():
    """A call that is not told to be in the background, and is answered before clients give up."""
    with Raw() as raw:
        raw.initialize()
        r = raw.run("print('early', flush=True)\nimport time\ntime.sleep(3000)", timeout=3600)
        s = r["structuredContent"]
        tap.equal((s["status"], s["stdout"], r["isError"]), ("running", "early\n", False),
                  "a long cell is answered as running")
        tap.ok("early" in text_of(r) and "get_execution" in text_of(r), "with what was printed so far", text_of(r))
        tap.equal(raw.call("interrupt", {"session_id": s["session_id"]})["result"]["structuredContent"]["status"],
                  "cancelled",
                  "and was still running")


async def main():
    async with connect() as c:
        schemas.update({t.name: t.output_schema for t in (await c.list_tools()).tools})
    await tap.run_async("poll", poll)
    await tap.run_async("interrupts", interrupts)
    await tap.run_async("pages", pages)


if __name__ == "__main__":
    common.need_codebox()
    anyio.run(main)
    tap.run("cancellation", cancellation)
    tap.run("survival", survival)
    tap.run("the same id again", same_id_again)
    tap.run("a long wait", long_wait)
    tap.done()
