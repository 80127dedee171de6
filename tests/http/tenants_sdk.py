#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tenants with tokens, through the official Python client (PyPI mcp), in both eras: each has its own, and without a token
there is nothing."""
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "clients"))
import common  # noqa: E402

common.enter_venv()

import anyio  # noqa: E402
from mcp import Client  # noqa: E402
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client  # noqa: E402

from common_http import Daemon, Legacy  # noqa: E402

tap = common.Tap()


def client(url, token, mode):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return Client(streamable_http_client(url, http_client=create_mcp_http_client(headers=headers)), mode=mode,
                  read_timeout_seconds=common.PATIENCE)


async def scenario(d, mode, version):
    async with client(d.url, d.tokens["acme"], mode) as acme, client(d.url, d.tokens["beta"], mode) as beta:
        tap.equal((acme.protocol_version, beta.protocol_version), (version, version), f"{mode}: revision")
        for c, value in (acme, 1), (beta, 2):
            made = await c.call_tool("create_session", {"session_id": "same"})
            tap.ok(not made.is_error, f"{mode}: a session of a name that the other has too", made.content)
            await c.call_tool("run_code", {"session_id": "same", "code": f"x = {value}"})
        for c, value in (acme, "1"), (beta, "2"):
            r = await c.call_tool("run_code", {"session_id": "same", "code": "x"})
            tap.equal(r.structured_content["result"], value, f"{mode}: each has its own")
        r = await acme.call_tool("close_session", {"session_id": "same"})
        r = await beta.call_tool("run_code", {"session_id": "same", "code": "x"})
        tap.equal(r.structured_content["result"], "2", f"{mode}: what one closes the other keeps")
        await beta.call_tool("close_session", {"session_id": "same"})
        r = await acme.call_tool("list_sessions", {})
        tap.equal(r.structured_content["sessions"], [], f"{mode}: nothing is left")


async def nobody(d, mode, version):
    for token in None, "cbx_aaaaaaaa_" + "a" * 52, d.tokens["looker"]:
        try:
            async with client(d.url, token, mode) as c:
                await c.list_tools()
        except BaseException as e:
            tap.ok(not isinstance(e, KeyboardInterrupt), f"{mode}: refused ({token and token[:12]})", repr(e)[:200])
        else:
            tap.ok(False, f"{mode}: a client got in that may not", token)


async def main(d):
    for mode, version in ("legacy", "2025-11-25"), ("auto", "2026-07-28"):
        await tap.run_async(mode, scenario, d, mode, version)
        await tap.run_async(mode + ", without a token that will do", nobody, d, mode, version)


if __name__ == "__main__":
    server = Daemon(tenants={"acme": {}, "beta": {"policy": {"limits": {"memory": "512M"}}}})
    server.tokens = {name: server.token(name) for name in ("acme", "beta")}
    server.tokens["looker"] = server.token("acme", "--scope", "read")
    probe = Legacy(server.port, Authorization=f"Bearer {server.tokens['acme']}")
    first = probe.call("run_code", {"code": "1"}).message["result"]
    probe.send("DELETE")
    if first["isError"]:
        server.stop()
        common.skip_all(f"no cell can run here: {first['content'][0]['text']}")
    anyio.run(main, server)
    tap.equal(server.stop(), 0, "exit status")
    tap.done()
