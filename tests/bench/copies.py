# SPDX-License-Identifier: Apache-2.0
"""A line of bench.py: many rows of a database become a file, beside psql, which is its own server's client."""
import json
import os
import shutil
import subprocess
import tempfile
import time

from cbxtest import Box
from clients import memory
from control import Control
from databases import PASSWORD, PostgreSQL
from lines import line
from measure import check

QUERY = "SELECT * FROM big"


def server(rows):
    pg = PostgreSQL()
    pg.sql("CREATE DATABASE shop")
    pg.sql("CREATE ROLE reader LOGIN PASSWORD '%s'; CREATE TABLE big AS SELECT i::int AS id, 'name ' || i AS name, i * 1.5 AS price "
           "FROM generate_series(1, %d) i; GRANT SELECT ON big TO reader" % (PASSWORD.replace("'", "''"), rows), "shop")
    pg.sql("VACUUM (FREEZE, ANALYZE) big", "shop")
    return pg


def policy(where, pg):
    path = os.path.join(where, "policy.json")
    with open(path, "w") as f:
        json.dump({"include": ["default"], "sql": {"connections": {"shop": pg.connection()}, "query_timeout": "1h"}}, f)
    os.chmod(path, 0o644)
    return path


@line("sql", "Rows of PostgreSQL into a file of CSV", unit="ms")
def sql(b, out):
    if not shutil.which("psql"):
        out.note("not measured: there is no psql")
        return
    rows = b.rounds(1_000_000, 10_000_000)
    where = tempfile.mkdtemp(prefix="cbxbench")
    os.chmod(where, 0o755)
    pg = server(rows)
    box = Box(CODEBOX_POOL="0", SHOP_PASSWORD=PASSWORD, CODEBOX_POLICY=policy(where, pg))
    file, most = os.path.join(where, "rows.csv"), []
    with Control(box) as c:
        session, pid = "rows", box.daemon_pid()
        box("run", "--image", b.image.name, "--disk", "2G", "--session", session, "-c", "import os", check=True)

        def psql():
            begin = time.perf_counter()
            r = subprocess.run(["psql", "-h", pg.dir, "-U", "reader", "-d", "shop", "-qc", f"\\copy ({QUERY}) TO '{file}' (FORMAT csv, HEADER)"],
                               env={**os.environ, "PGPASSWORD": PASSWORD}, capture_output=True, text=True)
            seconds = time.perf_counter() - begin
            check(r.returncode == 0, r.stderr)
            size = os.path.getsize(file)
            os.unlink(file)
            check(size > rows * 20, size)
            return seconds

        def codebox():
            begin = time.perf_counter()
            a = c.call("sql", connection="shop", code=QUERY, session_id=session, path="rows.csv")
            seconds = time.perf_counter() - begin
            most.append(memory(pid, "status", "VmHWM"))
            check(a["row_count"] == rows, a)
            r = c.call("run", session_id=session, code="os.unlink('rows.csv')")
            check(r["status"] == "ok", r)
            return seconds

        check(c.call("sql", connection="shop", code="SELECT 1")["rows"] == [[1]], "a query's answer")
        before = memory(pid, "status", "VmHWM")
        rounds = out.interleave({"psql \\copy": psql, "codebox, into a file of a session": codebox}, "psql \\copy", b.rounds(3, 7))
        if len(rounds) == 2:
            ours, theirs = rounds["codebox, into a file of a session"], rounds["psql \\copy"]
            out.row("codebox, of psql's speed", [100 * t / o for o, t in zip(ours, theirs)], codebox=True, unit="%")
            out.row("codeboxd, most memory before the first file", [before], codebox=True, unit="MiB")
            out.row("codeboxd, most memory after the last one", [most[-1]], codebox=True, unit="MiB")
        out.note(f"{rows} rows of an integer, a text and a number")
    box.stop()
    pg.end()
    shutil.rmtree(where)
