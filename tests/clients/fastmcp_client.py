#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codebox mcp through the client of fastmcp (PyPI)."""
import sys

sys.dont_write_bytecode = True

import common

common.enter_venv("fastmcp")

import anyio
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from common import PATIENCE
from scenario import Reply, give_up, scenario

tap = common.Tap()


def plain(block):
    """A content block as the protocol has it."""
    return block.model_dump(by_alias=True, mode="json")


async def fastmcp():
    transport = StdioTransport(command=common.CODEBOX, args=["mcp"], env=common.SERVER_ENV, keep_alive=False)
    async with Client(transport, timeout=PATIENCE) as c:
        async def call(tool, arguments, **more):
            r = await c.call_tool(tool, arguments, raise_on_error=False, **more)
            blocks = [plain(b) for b in r.content]
            return Reply(r.structured_content or {}, blocks[0].get("text", ""),
                         [b["data"] for b in blocks if b["type"] == "image"], r.is_error)

        async def cancel(tool, arguments):
            await give_up(call, tool, arguments, "progress_handler")

        tools = [t.name for t in await c.list_tools()]
        await scenario(tap, "fastmcp", call, tools, cancel)


common.need_codebox()
anyio.run(tap.run_async, "fastmcp", fastmcp)
tap.done()
