#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codebox mcp through langchain-mcp-adapters (PyPI)."""
import sys

sys.dont_write_bytecode = True

import common

common.enter_venv("langchain")

import asyncio
from datetime import timedelta

import anyio
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools

from common import PATIENCE
from scenario import Reply, scenario, until_started

tap = common.Tap()


def langchain_call(tools):
    by_name = {t.name: t for t in tools}

    async def call(tool, arguments):
        r = await by_name[tool].ainvoke({"type": "tool_call", "id": "1", "name": tool, "args": arguments})
        blocks = r.content if isinstance(r.content, list) else [{"type": "text", "text": r.content}]
        artifact = r.artifact or {}
        return Reply(artifact.get("structured_content") or {}, blocks[0].get("text", ""),
                     [b.get("base64") or b.get("data") for b in blocks if b["type"] == "image"], r.status == "error")
    return call


async def stop_waiting(call, tool, arguments):
    """What an agent does that is stopped, or has a time limit: the task that waits for the tool is cancelled."""
    task = asyncio.create_task(call(tool, arguments))
    await until_started(call, arguments["session_id"])
    tap.ok(task.cancel(), "the call is still waited for")
    await asyncio.wait([task], timeout=PATIENCE)
    tap.ok(task.done() and task.cancelled(), "then given up", task)


def langchain_client(*options):
    return MultiServerMCPClient({"codebox": {"transport": "stdio", "command": common.CODEBOX, "args": ["mcp", *options],
                                             "env": common.SERVER_ENV,
                                             "session_kwargs": {"read_timeout_seconds": timedelta(seconds=PATIENCE)}}})


async def langchain_sessionless():
    """The default of this library: a new `codebox mcp` for every call. Sessions must outlive it."""
    tools = await langchain_client().get_tools()
    call = langchain_call(tools)

    async def cancel(tool, arguments):
        await stop_waiting(call, tool, arguments)  # with it the connection ends, and that cancels the call

    await scenario(tap, "langchain, a process for each call", call, [t.name for t in tools], cancel)


async def langchain_named():
    """The same default, with a name for the session: the calls name none, and find what those before them have left."""
    call = langchain_call(await langchain_client("--session", "agent").get_tools())
    for code, want in (("x = 1", None), ("x += 1; open('kept', 'w').write(str(x)); x", "2"), ("x", "2")):
        r = await call("run_code", {"code": code})
        tap.equal((r.structured.get("session_id"), r.structured.get("result")), ("agent", want), f"the session: {code}")
    r = await call("read_file", {"path": "kept"})
    tap.ok(not r.error and r.text.startswith("2"), "and its files", r)
    both = await asyncio.gather(*(call("run_code", {"code": "x += 1"}) for _ in range(4)))
    tap.ok(not any(r.error for r in both), "processes at the same time share it", both)
    r = await call("run_code", {"code": "x"})
    tap.equal(r.structured.get("result"), "6", "and its variables")
    await call("close_session", {"session_id": "agent"})


async def langchain_session():
    async with langchain_client().session("codebox") as s:
        tools = await load_mcp_tools(s)
        call = langchain_call(tools)

        # Series 1 of the Python SDK, below these adapters, stops waiting and tells the server nothing
        # (notifications/cancelled is sent from series 2 on), and the connection stays for others. So the cell does,
        # too, until somebody asks for its end.
        async def cancel(tool, arguments):
            await stop_waiting(call, tool, arguments)
            r = await call("interrupt", {"session_id": arguments["session_id"]})
            tap.equal((r.structured.get("interrupted"), r.structured.get("status")), (True, "cancelled"),
                      "its cell runs on until it is interrupted")

        await scenario(tap, "langchain, one connection", call, [t.name for t in tools], cancel)


async def main():
    await tap.run_async("a process for each call", langchain_sessionless)
    await tap.run_async("a process for each call, one session", langchain_named)
    await tap.run_async("one connection", langchain_session)


common.need_codebox()
anyio.run(main)
tap.done()
