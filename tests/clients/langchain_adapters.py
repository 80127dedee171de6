#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codebox mcp through langchain-mcp-adapters (PyPI)."""
import sys

sys.dont_write_bytecode = True

import common

common.enter_venv("langchain")

import anyio
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools

from scenario import Reply, scenario

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


def langchain_client():
    return MultiServerMCPClient({"codebox": {"transport": "stdio", "command": common.CODEBOX, "args": ["mcp"],
                                             "env": common.SERVER_ENV}})


async def langchain_sessionless():
    """The default of this library: a new `codebox mcp` for every call. Sessions must outlive it."""
    tools = await langchain_client().get_tools()
    await scenario(tap, "langchain, a process for each call", langchain_call(tools), [t.name for t in tools])


async def langchain_session():
    async with langchain_client().session("codebox") as s:
        tools = await load_mcp_tools(s)
        await scenario(tap, "langchain, one connection", langchain_call(tools), [t.name for t in tools])


async def main():
    await tap.run_async("a process for each call", langchain_sessionless)
    await tap.run_async("one connection", langchain_session)


common.need_codebox()
anyio.run(main)
tap.done()
