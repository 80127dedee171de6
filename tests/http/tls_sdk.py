#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MCP over HTTPS by the official Python client (PyPI mcp), in both eras: a certificate that a private authority has signed, a
client's certificate, and a new certificate while a session lives."""
import os
import ssl
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "clients"))
import common  # noqa: E402

common.enter_venv()

import anyio  # noqa: E402
import httpx2  # noqa: E402
from mcp import Client  # noqa: E402
from mcp.client.streamable_http import streamable_http_client  # noqa: E402

from common_http import Box, Daemon, certificate, let_service_read, openssl, wait_until  # noqa: E402

tap = common.Tap()
box = Box()


def at(name):
    return os.path.join(box.dir, name)


def signed(name, *args):
    """A certificate by the authority, and its key."""
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
            "-addext", "subjectAltName=DNS:localhost", "-keyout", at(name + ".key"), "-out", at(name + ".csr"))
    openssl("x509", "-req", "-in", at(name + ".csr"), "-CA", at("authority.pem"), "-CAkey", at("authority.key"), "-days",
            "2", "-copy_extensions", "copy", "-out", at(name + ".pem"))


def context(authority="authority", own="client"):
    c = ssl.create_default_context(cafile=at(authority + ".pem"))
    if own:
        c.load_cert_chain(at(own + ".pem"), at(own + ".key"))
    return c


def client(d, mode, verify):
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {d.secret}"}, verify=verify, timeout=common.PATIENCE)
    return Client(streamable_http_client(f"https://localhost:{d.port}/mcp", http_client=http), mode=mode,
                  read_timeout_seconds=common.PATIENCE)


async def scenario(d, mode, version):
    async with client(d, mode, context()) as c:
        tap.equal(c.protocol_version, version, f"{mode}: revision")
        r = await c.call_tool("create_session", {"session_id": mode})
        tap.ok(not r.is_error, f"{mode}: a session", r.content)

        async def run(code, **more):
            return (await c.call_tool("run_code", {"code": code, "session_id": mode}, **more)).structured_content

        heard = []

        async def on_progress(progress, total, message):
            heard.append(progress)

        await run("import time\nfor i in range(8):\n    print(i, flush=True)\n    time.sleep(0.2)", progress_callback=on_progress)
        tap.ok(len(heard) >= 2, f"{mode}: progress, as a stream of events", heard)
        await run("x = 'kept'")
        signed("server")
        let_service_read(d, at("server.pem"), at("server.key"), at("authority.pem"))
        d.log.clear()
        d.reload()
        tap.ok(wait_until(lambda: any("were read again" in line for line in d.log)), f"{mode}: a new certificate", d.log)
        tap.equal((await run("x"))["result"], "'kept'", f"{mode}: the session goes on")
        async with client(d, mode, context()) as other:
            r = await other.call_tool("run_code", {"code": "x", "session_id": mode})
            tap.equal(r.structured_content["result"], "'kept'", f"{mode}: and is there for a connection with the new one")
        await c.call_tool("close_session", {"session_id": mode})


async def refused(d, mode, version):
    for what, verify in ("that does not know the authority", context("other")), ("without a certificate", context(own=None)), \
            ("with a certificate of nobody", context(own="other")):
        try:
            async with client(d, mode, verify) as c:
                await c.list_tools()
        except BaseException as e:
            tap.ok(not isinstance(e, KeyboardInterrupt), f"{mode}: a client {what}", repr(e)[:200])
        else:
            tap.ok(False, f"{mode}: a client {what} was served")


async def main(d):
    for mode, version in ("legacy", "2025-11-25"), ("auto", "2026-07-28"):
        await tap.run_async(mode, scenario, d, mode, version)
        await tap.run_async(mode + ", refused", refused, d, mode, version)


if __name__ == "__main__":
    certificate(at("authority"), "-addext", "keyUsage=critical,keyCertSign")
    certificate(at("other"))
    signed("server"), signed("client")
    server = Daemon("--http-certificate", at("server.pem"), "--http-key", at("server.key"), "--http-client-ca",
                    at("authority.pem"), tenants={"acme": {}})
    server.secret = server.token("acme")
    anyio.run(main, server)
    tap.equal(server.stop(), 0, "exit status")
    tap.done()
