#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codebox mcp through the official Python client (PyPI mcp) as it comes: it asks first for the era without a
handshake."""
import sys

sys.dont_write_bytecode = True

import common

common.enter_venv("python")

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from common import PATIENCE
from scenario import Reply, give_up, scenario

tap = common.Tap()


async def works():
    server = StdioServerParameters(command=common.CODEBOX, args=["mcp"], env=common.SERVER_ENV)
    async with Client(server, mode="auto", read_timeout_seconds=PATIENCE) as c:
        tap.equal(c.protocol_version, "2026-07-28", "the revision that is agreed on")

        async def call(tool, arguments, **more):
            r = await c.call_tool(tool, arguments, **more)
            return Reply(r.structured_content or {}, getattr(r.content[0], "text", ""),
                         [b.data for b in r.content if b.type == "image"], r.is_error)

        async def cancel(tool, arguments):
            await give_up(call, tool, arguments, "progress_callback")

        tools = [t.name for t in (await c.list_tools()).tools]
        await scenario(tap, "python, auto", call, tools, cancel)


common.need_codebox()
anyio.run(tap.run_async, "python, auto", works)
tap.done()
