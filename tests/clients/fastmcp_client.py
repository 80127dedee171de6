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
from scenario import Reply, scenario

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
            started = anyio.Event()

            async def on_progress(progress, total, message):
                if message and "started" in message:
                    started.set()

            async with anyio.create_task_group() as tg:
                async def long():
                    await call(tool, arguments, progress_handler=on_progress)
                tg.start_soon(long)
                with anyio.fail_after(PATIENCE):
                    await started.wait()
                tg.cancel_scope.cancel()

        tools = [t.name for t in await c.list_tools()]
        await scenario(tap, "fastmcp", call, tools, cancel)


common.need_codebox()
anyio.run(tap.run_async, "fastmcp", fastmcp)
tap.done()
