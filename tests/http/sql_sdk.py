#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of queries are artifacts as those of cells are: with CodeBoxMCP's exec_sql and codebox's own run_sql, as the official Python
client (PyPI mcp) uses them, and over REST; of a real PostgreSQL, in Azurite, by the same retention, quota and links."""
import csv
import io
import json
import os
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "clients"))
import common  # noqa: E402

common.enter_venv()

import anyio  # noqa: E402
from mcp import Client  # noqa: E402

sys.path.insert(0, str(HERE))
import objects  # noqa: E402
from common_http import Client as Rest  # noqa: E402
from cbxtest import Box, Skip  # noqa: E402
from common_http import Daemon  # noqa: E402
from databases import PASSWORD, PostgreSQL  # noqa: E402
from ociimage import Image, bash_layer, layout, write_tar  # noqa: E402

tap = common.Tap()
ALL = "SELECT id, name FROM t ORDER BY id"


def database():
    pg = PostgreSQL()
    pg.sql("CREATE DATABASE shop")
    pg.sql("CREATE ROLE reader LOGIN PASSWORD '%s'; CREATE TABLE t AS SELECT i AS id, 'name, ' || i AS name FROM generate_series(1, 300) i; "
           "GRANT SELECT ON t TO reader" % PASSWORD.replace("'", "''"), "shop")
    return pg


def serve(pg, store, **artifacts):
    b = Box()
    if "bash" not in b.images():
        write_tar(layout([Image([(bash_layer(os.path.join(objects.top, "tree")).bytes(), "gzip")], {})]), os.path.join(objects.top, "it.tar"))
        b("image", "import", "bash", os.path.join(objects.top, "it.tar"), check=True)
    path = os.path.join(objects.top, "sql-policy.json")
    with open(path, "w") as f:
        json.dump({"images": ["bash"], "sql": {"connections": {"shop": pg.connection()}, "inline_rows": 50}, "artifacts": {
            "keep": "1h", "link_expiry": "2h", "file_size": "64K", "store": {
                "type": "azure", "endpoint": store.endpoint, "container": "artifacts", "account": "acct", "prefix": "cbx/",
                "secret": objects.secret_file(objects.AZURE_KEY)}, **artifacts}}, f)
    os.chmod(path, 0o644)
    return Daemon("--policy", path)


def rows_of(link):
    a = objects.fetch(link)
    return a.status, list(csv.reader(io.StringIO(a.body.decode(), newline="")))


WANTED = (200, [["id", "name"], *([str(i), f"name, {i}"] for i in range(1, 301))])


async def codeboxmcp(url, mode, endpoint):
    async with Client(url + "/codeboxmcp", mode=mode, read_timeout_seconds=common.PATIENCE) as c:
        async def ask(query):
            r = await c.call_tool("exec_sql", {"session_id": mode, "query": query})
            return json.loads(r.content[0].text)

        a = await ask("SELECT id, name FROM t WHERE id < 3 ORDER BY id")
        tap.equal((a["delivery"], a["rows"]), ("inline", [{"id": 1, "name": "name, 1"}, {"id": 2, "name": "name, 2"}]), f"{mode}: few rows")
        tap.ok("sas_url" not in a, f"{mode}: have no link", a)
        a = await ask(ALL)
        tap.equal((a["delivery"], a["row_count"], a["column_count"]), ("file", 300, 2), f"{mode}: many are a file")
        tap.ok(a["sas_url"].startswith(endpoint + "/artifacts/") and a["file_name"] in a["sas_url"], f"{mode}: with a link to the store", a)
        tap.equal(rows_of(a["sas_url"]), WANTED, f"{mode}: which has all of them")
        tap.equal(objects.fetch(a["sas_url"].replace("sig=", "sig=A")).status, 403, f"{mode}: for whoever has its signature")
        a = await ask("DELETE FROM t")
        tap.ok(a["status"] == "error" and "(rule not_a_query)" in a["error"], f"{mode}: a statement that writes", a)


async def own(url, mode, endpoint):
    async with Client(url, mode=mode, read_timeout_seconds=common.PATIENCE) as c:
        session = (await c.call_tool("create_session", {})).structured_content["session_id"]
        r = await c.call_tool("run_sql", {"session_id": session, "connection": "shop", "query": ALL, "path": "all.csv"})
        a = r.structured_content
        tap.ok(a["link"].startswith(endpoint) and a["link"] in r.content[0].text, f"{mode}: run_sql's file has a link", a)
        tap.equal(rows_of(a["link"]), WANTED, f"{mode}: of its rows")
        r = await c.call_tool("run_sql", {"session_id": session, "connection": "shop", "query": "SELECT repeat('x', 70000) FROM t LIMIT 1", "path": "large.csv"})
        tap.ok("artifacts.file_size" in r.structured_content["not_kept"] and "Not kept" in r.content[0].text, f"{mode}: one that is too large says so",
               r.structured_content)
        r = await c.call_tool("close_session", {"session_id": session})
        tap.equal(rows_of(a["link"]), WANTED, f"{mode}: it outlives its session")


def rest(d, store):
    c = Rest(d.port, **{"Content-Type": "application/json"})

    def ask(method, path, body=None, **headers):
        a = c.send(method, body, path=path, **headers)
        return a.status, json.loads(a.body or b"{}")

    tap.equal(ask("POST", "/sessions", {"session_id": "rest", "image": "bash"})[0], 200, "REST: a session")
    before = int(time.time())
    status, a = ask("POST", "/sessions/rest/sql", {"connection": "shop", "query": ALL, "path": "all.csv"}, X_Blob_SAS_Expiry_Hours="1")
    tap.ok(status == 200 and a["delivery"] == "file" and a["link"].startswith(store.endpoint), "REST: a query's file has a link", a)
    tap.equal(rows_of(a["link"]), WANTED, "REST: of its rows")
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(before + 3600))
    tap.ok(until <= a["link_expires"] <= time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3601)), "REST: for as long as was asked", a)
    listed = {x["artifact_id"]: x for x in ask("GET", "/artifacts")[1]["artifacts"]}
    tap.ok(a["artifact_id"] in listed and listed[a["artifact_id"]]["path"] == "all.csv" and listed[a["artifact_id"]]["size"] == a["size"],
           "REST: it is listed", listed)
    tap.equal(ask("DELETE", "/artifacts/" + a["artifact_id"])[0], 200, "REST: and can be removed")
    tap.equal(objects.fetch(a["link"]).status, 404, "REST: from the store, too")
    tap.ok(ask("POST", "/sessions/rest/sql", {"connection": "shop", "query": "SELECT 1"})[1]["delivery"] == "inline", "REST: few rows have none")
    r = d.box("sql", "shop", ALL, "--session", "rest", "--output", "cli.csv", "--json", check=True)
    tap.equal(rows_of(json.loads(r.stdout)["link"]), WANTED, "codebox sql has one as well")
    c.close()


def main():
    try:
        store = objects.azure()
    except Skip as e:
        common.skip_all(str(e))
    pg = database()
    os.environ["SHOP_PASSWORD"] = PASSWORD
    d = serve(pg, store)
    for mode in "legacy", "auto":
        anyio.run(tap.run_async, mode, codeboxmcp, d.url, mode, store.endpoint)
        anyio.run(tap.run_async, mode, own, d.url, mode, store.endpoint)
    rest(d, store)
    tap.equal(d.stop(), 0, "exit status")
    pg.end()
    tap.done()


if __name__ == "__main__":
    main()
