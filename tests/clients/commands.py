#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run_command as the official Python client uses it: beside a cell, in the background, looked at and ended later."""
import sys

sys.dont_write_bytecode = True

import common

common.enter_venv()

import time
import warnings

import anyio
import jsonschema
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from common import PATIENCE, Raw, Tap

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


def shown(result):
    return "\n".join(b.text for b in result.content if b.type == "text")


async def wait_for(client, s, **arguments):
    with anyio.fail_after(PATIENCE):
        while True:
            r = await call(client, "get_execution", session_id=s["session_id"], execution_id=s["execution_id"], wait=45)
            if r.structured_content["status"] != "running":
                return r


async def foreground():
    async with connect() as c:
        schemas.update({t.name: t.output_schema for t in (await c.list_tools()).tools})
        r = await call(c, "run_command", command="echo out; echo err >&2; pwd; a=(1 2); echo ${#a[@]}; exit 3")
        s = r.structured_content
        tap.equal((s["status"], s["exit_code"], s["stdout"], s["stderr"], r.is_error),
                  ("error", 3, "out\n/workspace\n2\n", "err\n", False), "streams and exit status")
        tap.ok("exit status 3" in shown(r) and s["session_id"] in shown(r), "in words, too", shown(r))
        r = await call(c, "run_code", code="open('made', 'w').write('by a cell'); kept = 1", session_id=s["session_id"])
        n = r.structured_content["execution_id"]
        r = await call(c, "run_command", command="cat made; cd /tmp; kept=2", session_id=s["session_id"])
        tap.equal((r.structured_content["stdout"], r.structured_content["status"]), ("by a cell", "ok"),
                  "the files are those of cells")
        tap.ok(r.structured_content["execution_id"] > n, "one row of numbers")
        tap.equal(r.structured_content["files"], [], "which are not those that it has changed")
        r = await call(c, "run_command", command="printf '\\211PNG' >plot.png; mkdir d; echo 1 >d/b.txt", session_id=s["session_id"])
        files = [(f["path"], f["size"], f["mime_type"]) for f in r.structured_content["files"]]
        tap.equal(files, [("d/b.txt", 2, "text/plain"), ("plot.png", 4, "image/png")], "those are told")
        links = [str(b.uri) for b in r.content if b.type == "resource_link"]
        tap.ok(len(links) == 2 and "d/b.txt, 2 bytes" in shown(r), "as those of a cell are", f"{links} {shown(r)}")
        r = await call(c, "run_code", code="1", session_id=s["session_id"])
        tap.equal(r.structured_content["files"], [], "and are none of the next cell's")
        r = await call(c, "run_command", command="pwd; echo ${kept-nothing}; sleep 3000", timeout=0.5,
                       session_id=s["session_id"])
        tap.equal((r.structured_content["status"], r.structured_content["stdout"]), ("timeout", "/workspace\nnothing\n"),
                  "nothing of a command is kept; one that takes too long is ended")
        for arguments, word in (({}, "command"), ({"command": ""}, "command"), ({"command": "ls", "session_id": "none"}, "none"),
                                ({"command": "ls", "timeout": 0}, "timeout"), ({"command": "ls", "cwd": "/"}, "cwd"),
                                ({"command": "x" * 70000}, "too many")):
            r = await c.call_tool("run_command", arguments)
            tap.ok(r.is_error and word in shown(r), f"refused: {str(arguments)[:60]}", shown(r))
        await c.call_tool("close_session", {"session_id": s["session_id"]})


async def background():
    async with connect() as c:
        r = await call(c, "run_command", command="echo begun; while [ ! -e go ]; do sleep 0.02; done; echo ended; seq 20000",
                       background=True)
        s = r.structured_content
        tap.equal((r.is_error, s["status"]), (False, "running"), "answered at once")
        tap.ok("get_execution" in shown(r) and "command" in shown(r), "with what to do next", shown(r))
        with anyio.fail_after(PATIENCE):
            while "begun" not in (r := await call(c, "get_execution",
                                                  execution_id=s["execution_id"])).structured_content["stdout"]:
                await anyio.sleep(0.02)
        tap.equal(r.structured_content["status"], "running", "looked at: what it has printed so far")
        r = await call(c, "run_code", code="open('go', 'w').close(); 6 * 7")
        tap.equal(r.structured_content["result"], "42", "a cell runs beside it")
        r = await wait_for(c, s)
        tap.equal((r.structured_content["status"], r.structured_content["exit_code"]), ("ok", 0), "its end")
        tap.ok("output_from" in shown(r), "that there is more output is told", shown(r)[-200:])
        p = (await call(c, "get_execution", execution_id=s["execution_id"], output_from=0)).structured_content
        tap.ok(p["output"].startswith("begun\nended\n1\n2\n"), "the first page of it", p["output"][:40])
        tap.equal(p["output_total"], 12 + 108894, "and how much there was")
        server = await call(c, "run_command", command="trap '' INT; echo up; exec sleep 3000", background=True)
        s = server.structured_content
        with anyio.fail_after(PATIENCE):
            while "up" not in (await call(c, "get_execution", execution_id=s["execution_id"])).structured_content["stdout"]:
                await anyio.sleep(0.02)
        r = await call(c, "interrupt", execution_id=s["execution_id"])
        tap.equal((r.structured_content["interrupted"], r.structured_content["status"]), (True, "cancelled"),
                  "one that does not listen is killed")
        r = await call(c, "interrupt", execution_id=s["execution_id"])
        tap.equal((r.structured_content["interrupted"], r.structured_content["status"]), (False, "cancelled"), "once")
        waits = []

        async def watch():
            waits.append((await wait_for(c, s)).structured_content["status"])
        s = (await call(c, "run_command", command="sleep 3000", background=True)).structured_content
        async with anyio.create_task_group() as tg:
            for _ in range(3):
                tg.start_soon(watch)
            await call(c, "run_code", code="1")
            await call(c, "interrupt", execution_id=s["execution_id"])
        tap.equal(waits, ["cancelled"] * 3, "all who wait for it are told")
        await c.call_tool("close_session", {"session_id": s["session_id"]})


def first_of_a_session():
    """In one that was made ahead of time nothing else happens that could begin it."""
    for _ in range(4):
        with Raw() as raw:
            raw.initialize()
            raw.call("run_command", {"command": "echo up >made", "background": True})
            end = time.monotonic() + PATIENCE
            # The file is there before its bytes are.
            while not (there := (r := raw.call("read_file", {"path": "made"})["result"]).get("structuredContent", {}).get("size")
                       == 3) and time.monotonic() < end:
                time.sleep(0.05)
            tap.ok(there, "it began, though nobody asked", r)


def cancellation():
    with Raw() as raw:
        raw.initialize()
        s = raw.call("run_command", {"command": "true"})["result"]["structuredContent"]
        ident = raw.request("tools/call", {"name": "run_command", "arguments": {"command": "sleep 3000; touch late"}})
        raw.ask("ping")
        raw.notify("notifications/cancelled", {"requestId": ident})
        get = {"execution_id": s["execution_id"] + 1, "wait": 45}
        r = raw.call("get_execution", get)["result"]["structuredContent"]
        tap.equal(r["status"], "cancelled", "a cancelled call ends its command")
        waiting = raw.request("tools/call", {"name": "run_command", "arguments": {"command": "sleep 3000"}})
        raw.ask("ping")
        raw.call("close_session", {"session_id": s["session_id"]})
        r = raw.wait(waiting)["result"]
        tap.equal((r["isError"], r["structuredContent"]["status"]), (True, "killed"), "closing the session ends it")


async def main():
    await tap.run_async("foreground", foreground)
    await tap.run_async("background", background)


if __name__ == "__main__":
    common.need_codebox()
    anyio.run(main)
    tap.run("first of a session", first_of_a_session)
    tap.run("cancellation", cancellation)
    tap.done()
