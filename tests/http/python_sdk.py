#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codeboxd --http as the official Python client (PyPI mcp) uses it, in both eras."""
import base64
import json
import sys
import urllib.request
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "clients"))
import common  # noqa: E402

common.enter_venv()

import anyio  # noqa: E402
from mcp import Client, MCPError  # noqa: E402

from common_http import Daemon, Legacy  # noqa: E402

tap = common.Tap()


async def files(c, run, mode, session):
    """A file of the size that upload_file names, and one beyond what a request may have."""
    async def upload(size):
        content = base64.b64encode(bytes(range(256)) * (size // 256)).decode()
        return await c.call_tool("upload_file", {"session_id": session, "filename": f"{size}.bin",
                                                 "content_base64": content})

    size = (16 << 20) - (64 << 10)
    r = await upload(size)
    tap.ok(not r.is_error and r.structured_content["written"] == size, f"{mode}: a file of nearly 16 MiB", r.content)
    r = await run(f"data = open('{size}.bin', 'rb').read()\n(len(data), data == bytes(range(256)) * (len(data) // 256))")
    tap.equal(r.structured_content["result"], f"({size}, True)", f"{mode}: it is there")
    try:
        r = await upload(20 << 20)
        tap.ok(r.is_error, f"{mode}: one that is too large", r.content)
    except MCPError as e:
        tap.ok(True, f"{mode}: one that is too large", e)
    tap.equal((await run("x, len(data)")).structured_content["result"], f"(6, {size})",
              f"{mode}: the session goes on after both")


async def tables(c, run, mode, session, url):
    """Of a database that a cell has made: a resource, which is found by the list and by the template."""
    await run("import sqlite3\ndb = sqlite3.connect('shop.db')\ndb.executescript('CREATE TABLE customers (id integer PRIMARY KEY, name text);'\n"
              "'CREATE TABLE orders (id integer PRIMARY KEY, customer int REFERENCES customers (id))')\ndb.close()")
    uri = f"codebox://sessions/{session}/databases/shop.db"
    listed, cursor = [], None
    while True:
        page = await c.list_resources(cursor=cursor)
        listed += [str(r.uri) for r in page.resources]
        cursor = page.next_cursor
        if not cursor:
            break
    tap.ok(uri in listed, f"{mode}: the tables of a file are listed", listed)
    templates = [t.uri_template for t in (await c.list_resource_templates()).resource_templates]
    tap.ok("codebox://sessions/{session_id}/databases/{+path}" in templates, f"{mode}: and have a template", templates)
    schema = json.loads((await c.read_resource(uri)).contents[0].text)
    with urllib.request.urlopen(f"{url.removesuffix('/mcp')}/sessions/{session}/databases/shop.db") as r:
        tap.equal(json.load(r), schema, f"{mode}: REST has the same")
    found = {t["name"]: t for t in schema["tables"]}
    tap.equal(found["customers"]["primary_key"], ["id"], f"{mode}: their keys")
    tap.equal(found["orders"]["foreign_keys"], [{"columns": ["customer"], "table": "customers", "references": ["id"]}], f"{mode}: of others, too")
    tap.equal([(x["name"], x["type"]) for x in found["customers"]["columns"]], [("id", "INTEGER"), ("name", "TEXT")], f"{mode}: their columns")
    try:
        await c.read_resource(f"codebox://sessions/{session}/databases/absent.db")
        tap.ok(False, f"{mode}: what is not there", "no error")
    except MCPError as e:
        tap.ok("is not a file of session" in str(e), f"{mode}: what is not there", e)


async def scenario(url, mode, version):
    async with Client(url, mode=mode, read_timeout_seconds=common.PATIENCE) as c:
        tap.equal(c.protocol_version, version, f"{mode}: revision")
        tap.ok("run_code" in [t.name for t in (await c.list_tools()).tools], f"{mode}: tools")
        made = await c.call_tool("create_session", {})
        session = made.structured_content["session_id"]

        async def run(code, **more):
            return await c.call_tool("run_code", {"code": code, "session_id": session}, **more)

        await run("x = 6")
        tap.equal((await run("x * 7")).structured_content["result"], "42", f"{mode}: state is kept")
        r = await run("1/0")
        tap.ok(not r.is_error and r.structured_content["status"] == "error", f"{mode}: an exception is a result")
        r = await run("import matplotlib.pyplot as plt\nplt.plot([1, 2])")
        if "No module named" not in r.content[0].text:
            tap.ok(any(b.type == "image" for b in r.content), f"{mode}: a figure", r.content[0].text)
        heard = []

        async def on_progress(progress, total, message):
            heard.append(progress)

        r = await run("import time\nfor i in range(8):\n    print(i, flush=True)\n    time.sleep(0.2)",
                      progress_callback=on_progress)
        tap.ok(len(heard) >= 2 and heard == sorted(heard), f"{mode}: progress", heard)
        r = await run("import time\ntime.sleep(3)\n'late'")
        tap.equal(r.structured_content["result"], "'late'", f"{mode}: an answer that takes its time")
        await files(c, run, mode, session)
        await tables(c, run, mode, session, url)
        r = await c.call_tool("close_session", {"session_id": session})
        tap.ok(not r.is_error, f"{mode}: closed")
        tap.ok((await run("x")).is_error, f"{mode}: gone")


async def main(url):
    await tap.run_async("with a handshake", scenario, url, "legacy", "2025-11-25")
    await tap.run_async("without", scenario, url, "auto", "2026-07-28")


if __name__ == "__main__":
    server = Daemon()
    first = Legacy(server.port).call("run_code", {"code": "1"}).message["result"]
    if first["isError"]:
        server.stop()
        common.skip_all(f"no cell can run here: {first['content'][0]['text']}")
    anyio.run(main, server.url)
    tap.equal(server.stop(), 0, "exit status")
    tap.done()
