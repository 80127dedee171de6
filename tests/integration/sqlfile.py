#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of SQLite and DuckDB in a session are asked by their path: inside the session, read-only, without a policy."""
import glob
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from cbxtest import Box, Skip, run, wait_until  # noqa: E402
from control import Control  # noqa: E402
from model import Model  # noqa: E402
from statements import EVERYWHERE, HARMLESS, WRITES  # noqa: E402

MAKE = """
import os, sqlite3
if os.path.exists("a.db"):
    os.unlink("a.db")
db = sqlite3.connect("a.db")
db.executescript("CREATE TABLE t (id integer primary key, name text);"
    "CREATE TABLE kinds (a, b, c, d, e); INSERT INTO kinds VALUES (1, 1.5, 'ä, \\"b\\"', x'00ff', ''), (NULL, NULL, NULL, NULL, NULL),"
    "(9007199254740993, 1e300, 'x', x'', 'y')")
db.executemany("INSERT INTO t VALUES (?, ?)", [(i, f"name {i}") for i in range(1, 1001)])
db.commit()
db.close()
"""
# What a writer leaves that was killed in the middle of it.
KILLED = """
import subprocess, sys
subprocess.run([sys.executable, "-c", '''
import os, sqlite3
db = sqlite3.connect({0!r}, isolation_level=None)
db.execute("PRAGMA journal_mode={1}")
db.execute("PRAGMA cache_size=5")
db.execute("CREATE TABLE t (a)")
db.executemany("INSERT INTO t VALUES (?)", [("x" * 500,)] * 100)
db.execute("BEGIN")
db.execute("UPDATE t SET a = 'y' || a")
os.kill(os.getpid(), 9)
'''])
import os
sorted(os.listdir())
"""


def box_with(**sql):
    b = Box(CODEBOX_POOL="0")
    b.env["CODEBOX_POLICY"] = os.path.join(b.dir, "policy.json")
    with open(b.env["CODEBOX_POLICY"], "w") as f:
        json.dump({"include": ["default"], **({"sql": sql} if sql else {})}, f)
    return b


box = Box(CODEBOX_POOL="0")
image = box.image("python", "python-minimal")


def cell(code, session="s", b=box):
    r = b("run", "--image", image, "--session", session, "-c", code)
    assert r.returncode == 0, (r.stdout, r.stderr)
    return r.stdout.strip()


def ask(query, connection="a.db", b=box, session="s", **params):
    """The answer, or the error as kind and message."""
    with Control(b) as c:
        want = c.send("sql", connection=connection, code=query, session_id=session, **params)
        while True:
            said = c.recv()
            if said.get("id") == want:
                return said.get("result") or said["error"]


def test_values_types_and_parameters():
    cell(MAKE)
    a = ask("SELECT * FROM kinds")
    assert a["delivery"] == "inline" and a["row_count"] == 3, a
    assert a["columns"] == [{"name": n, "type": t} for n, t in zip("abcde", ("INTEGER", "REAL", "TEXT", "BLOB", "TEXT"))], a
    assert a["rows"] == [[1, 1.5, 'ä, "b"', "00ff", ""], [None] * 5, ["9007199254740993", "1e+300", "x", "", "y"]], a
    assert ask("SELECT id FROM t WHERE id >= ? AND name <> ? LIMIT 2", parameters=[7, "name 8"])["rows"] == [[7], [9]]
    assert "give 1" in ask("SELECT ?")["message"]
    assert ask("SELECT ?", parameters=[[1]])["kind"] == "invalid_argument"
    r = box("sql", "--session", "s", "./a.db", "SELECT id, name FROM t WHERE id = ?", "--param", "3")
    assert r.stdout.splitlines() == ["id  name", "3   name 3"], (r.stdout, r.stderr)
    assert ask("SELECT 1", "/workspace/a.db")["rows"] == [[1]]


def test_a_file_of_rows():
    cell(MAKE.replace("a.db", "rows.db"))
    a = ask("SELECT * FROM t", "rows.db")
    assert a["delivery"] == "file" and a["row_count"] == 1000 and a["column_count"] == 2, a
    assert cell(f"import csv; rows = list(csv.reader(open('{a['path']}'))); len(rows), rows[0], rows[-1], __import__('os').path.getsize"
                f"('{a['path']}')") == f"(1001, ['id', 'name'], ['1000', 'name 1000'], {a['size']})"
    a = ask("SELECT * FROM kinds", "rows.db", path="made/kinds.csv")
    assert a["path"] == "made/kinds.csv" and a["columns"][3]["type"] == "BLOB", a
    assert cell("print(repr(open('made/kinds.csv', newline='').read()))") == repr(
        'a,b,c,d,e\r\n1,1.5,"ä, ""b""",00ff,""\r\n,,,,\r\n9007199254740993,1e+300,x,"",y\r\n')
    a = ask("SELECT 1", "rows.db", path="made/kinds.csv")
    assert a["kind"] == "file_exists", a


def test_a_model_asks_them():
    """By a tool that is there though the policy names no database."""
    m = Model(box)
    assert "run_sql" in [t["name"] for t in m.ask("tools/list", {})["tools"]]
    r = m.call("run_sql", connection="a.db", query="SELECT 1")
    assert r["isError"] and "is not a file of session" in r["content"][0]["text"], r
    m.call("run_code", code=MAKE)
    r = m.call("run_sql", connection="a.db", query="SELECT id, name FROM t WHERE id = ?", parameters=[3])
    assert r["structuredContent"]["rows"] == [[3, "name 3"]] and "3 | name 3" in r["content"][0]["text"], r
    r = m.call("run_sql", connection="a.db", query="SELECT * FROM t")
    path = r["structuredContent"]["path"]
    assert r["structuredContent"]["row_count"] == 1000 and path in r["content"][0]["text"], r
    r = m.call("run_code", code=f"len(open({path!r}).readlines())")
    assert r["structuredContent"]["result"] == "1001", r
    # Rows that are short as CSV, and long in an answer.
    for value in "NULL", "replace(hex(zeroblob(9)), '0', char(1))":
        r = m.call("run_sql", connection="a.db", query="SELECT " + ", ".join([value] * 900) + " FROM t LIMIT 90")
        assert not r["isError"] and r["structuredContent"]["row_count"] == 90 and r["structuredContent"]["path"], str(r)[:1000]
    r = m.call("run_sql", connection="a.db", query="DELETE FROM t")
    assert r["isError"] and "(rule not_a_query)" in r["content"][0]["text"], r
    m.close()


TABLES = """
import os, sqlite3
for name in "shop.db", "many.sqlite":
    if os.path.exists(name):
        os.unlink(name)
db = sqlite3.connect("shop.db")
db.executescript('''CREATE TABLE customers (id int NOT NULL PRIMARY KEY, name varchar(40) NOT NULL);
    CREATE TABLE orders (a int NOT NULL, b int NOT NULL, customer int REFERENCES customers, total numeric, twice AS (total * 2), PRIMARY KEY (b, a));
    CREATE TABLE items (a int, b int, n int, FOREIGN KEY (b, a) REFERENCES orders (b, a));
    CREATE VIEW names AS SELECT name FROM customers; CREATE VIEW broken AS SELECT * FROM absent;
    CREATE TABLE "we_ird\n'"";-- \x1b[31m" (c int); CREATE VIRTUAL TABLE found USING fts5(words)''')
db.commit()
db.close()
db = sqlite3.connect("many.sqlite")
for i in range(600):
    db.execute("CREATE TABLE t%d (%s)" % (i, ", ".join("column_%d int" % n for n in range(20))))
db.execute("CREATE TABLE a_wide (%s)" % ", ".join("c%d int" % n for n in range(1100)))
db.commit()
db.close()
"""


def named(a):
    return {t["name"]: t for t in a["tables"]}


def test_its_tables_are_a_resource():
    """Without a policy: read by a model, over REST, and on the terminal."""
    m = Model(box)
    m.call("run_code", code=TABLES)
    listed = {r["uri"]: r for r in m.ask("resources/list", {})["resources"]}
    uri, = [u for u in listed if u.endswith("/databases/shop.db")]
    session = uri.split("/")[3]
    assert uri == f"codebox://sessions/{session}/databases/shop.db" and f"codebox://sessions/{session}/databases/many.sqlite" in listed, listed
    assert listed[uri]["mimeType"] == "application/json" and listed[uri]["name"] == "Tables of shop.db", listed[uri]
    templates = [t["uriTemplate"] for t in m.ask("resources/templates/list", {})["resourceTemplates"]]
    assert "codebox://sessions/{session_id}/databases/{+path}" in templates, templates
    ref = {"type": "ref/resource", "uri": "codebox://sessions/{session_id}/databases/{+path}"}
    a = m.ask("completion/complete", {"ref": ref, "argument": {"name": "path", "value": "sh"}})
    assert a["completion"]["values"] == ["shop.db"], a

    def read(uri):
        contents, = m.ask("resources/read", {"uri": uri})["contents"]
        assert contents["uri"] == uri and contents["mimeType"] == "application/json", contents
        return json.loads(contents["text"])

    a = read(uri)
    t = named(a)
    assert a["type"] == "sqlite" and {"customers", "orders", "items", "names", "broken", "found", "we_ird\n'\";-- "} <= set(t), list(t)  # without what a terminal obeys
    assert [t[n]["type"] for n in ("customers", "names", "found")] == ["table", "view", "table"], t
    assert t["customers"] == {"name": "customers", "type": "table", "primary_key": ["id"], "foreign_keys": [], "columns": [
        {"name": "id", "type": "INT", "nullable": False}, {"name": "name", "type": "varchar(40)", "nullable": False}]}, t["customers"]
    assert [c["name"] for c in t["orders"]["columns"]] == ["a", "b", "customer", "total", "twice"], t["orders"]
    assert t["orders"]["primary_key"] == ["b", "a"], t["orders"]
    assert t["orders"]["foreign_keys"] == [{"columns": ["customer"], "table": "customers", "references": []}], t["orders"]
    assert t["items"]["foreign_keys"] == [{"columns": ["b", "a"], "table": "orders", "references": ["b", "a"]}], t["items"]
    assert "columns" not in t["broken"] and "truncated" not in a, a  # a view of what is not there
    assert read(f"codebox://sessions/{session}/databases//workspace/shop.db")["tables"] == a["tables"]
    a = read(f"codebox://sessions/{session}/databases/many.sqlite")
    whole = [t for t in a["tables"] if "columns" in t]
    assert len(a["tables"]) == 500 and 20 < len(whole) < 500 and all(len(t["columns"]) == 20 for t in whole), len(whole)
    assert len(json.dumps(a, separators=(",", ":"))) < 130 << 10 and "101 more are omitted" in a["note"], a["note"]
    m.call("run_code", code="open('text.db', 'w').write('x' * 100)")
    for path, says in (("absent.db", "is not a file of session"), ("text.db", "is not a database"), ("%2e%2e/etc/passwd", "")):
        m.n += 1
        m.send({"id": m.n, "method": "resources/read", "params": {"uri": f"codebox://sessions/{session}/databases/{path}"}})
        said = json.loads(m.process.stdout.readline())
        assert said["id"] == m.n and says in said["error"]["message"], said
    r = box.json("sql", "--schema", "--session", session, "shop.db", "--json")
    assert [(x["name"].partition("\x1b")[0], x.get("columns")) for x in r["tables"]] == [(x["name"], x.get("columns")) for x in t.values()], r
    r = box("sql", "--schema", "--session", session, "shop.db")
    assert "found (table)\n  words  \n" in r.stdout and "orders (table)\n  a         INT, not null, primary key\n" in r.stdout and "\x1b" not in r.stdout, r.stdout
    m.close()


def test_the_name_of_a_connection_is_a_file_of_the_session():
    """Where its address says so."""
    b = box_with(connections={"a.db": {"type": "sqlite", "database": "/nowhere"}})
    m = Model(b)
    m.call("run_code", code=MAKE)
    uri, = [r["uri"] for r in m.ask("resources/list", {})["resources"] if r["uri"].endswith("s/a.db") and "/sessions/" in r["uri"] and "/databases/" in r["uri"]]
    contents, = m.ask("resources/read", {"uri": uri})["contents"]
    assert set(named(json.loads(contents["text"]))) == {"t", "kinds"}, contents
    m.close()
    b.stop()


def test_what_is_not_a_database():
    cell(MAKE)
    cell("open('text.db', 'w').write('x' * 100); open('empty.db', 'w'); open('bad.db', 'wb').write(b'SQLite format 3\\0' + b'\\xff' * 5000)\n"
         "import os; os.mkdir('dir'); os.mkfifo('fifo'); os.symlink('/etc/passwd', 'link')")
    for name, says in (("text.db", "give one of SQLite or DuckDB"), ("empty.db", "is not a database"), ("link", "is not a database"),
                       ("absent.db", "not a file of session s"), ("bad.db", "the query failed: ")):
        a = ask("SELECT 1 FROM t", name)
        assert says in a["message"], (name, a)
    for name in "dir", "fifo":
        assert "kind" in ask("SELECT 1", name), name
    r = box("sql", "a.db", "SELECT 1")
    assert r.returncode == 1 and "name the session" in r.stderr, r.stderr


def test_nothing_is_written():
    cell(MAKE.replace("a.db", "kept.db"))
    look = "import hashlib, os; hashlib.sha256(open('kept.db', 'rb').read()).hexdigest(), sorted(n for n in os.listdir() if 'kept' in n)"
    before = cell(look)
    for s in EVERYWHERE + WRITES["sqlite"]:
        a = ask(s.replace("{dir}", "/workspace"), "kept.db")
        assert a.get("kind") == "query_refused" and "(rule " in a["message"], (s, a)
    assert cell(look) == before
    # The program itself, without the judge before it.
    job = {"type": "sqlite", "database": "kept.db", "parameters": [], "inline_rows": 9, "inline_bytes": 999, "rows": 9, "bytes": 999,
           "timeout_ms": 9000, "delivery": "inline", "path": "x.csv"}
    for s in ("DELETE FROM t", "PRAGMA journal_mode=wal", "ATTACH '/tmp/b.db' AS b", "SELECT load_extension('x')", "VACUUM"):
        r = box("exec", "s", "--", "sh", "-c", 'echo "$0" | python3 -I /run/codebox/python/query.py', json.dumps({**job, "query": s}))
        assert json.loads(r.stdout)["kind"] == "query_failed", (s, r.stdout, r.stderr)
    assert cell(look) == before


def test_logs_and_hot_journals():
    assert "log.db-wal" in cell(KILLED.format("log.db", "wal"))
    assert "hot.db-journal" in cell(KILLED.format("hot.db", "delete"))
    for name in "log.db", "hot.db":
        a = ask("SELECT count(*), count(CASE WHEN a LIKE 'y%' THEN 1 END) FROM t", name)
        assert a.get("rows") == [[100, 0]], (name, a)
    assert "hot.db-journal" in cell("import os; str(os.listdir())")  # its writer's to clean up
    # Nobody has it open: then no files of a log appear.
    cell("import sqlite3; db = sqlite3.connect('idle.db'); db.execute('PRAGMA journal_mode=wal'); db.execute('CREATE TABLE t (a)');"
         " db.close()")
    assert ask("SELECT count(*) FROM t", "idle.db")["rows"] == [[0]]
    assert cell("import glob; glob.glob('idle.db*')") == "['idle.db']"
    # A cell has it open, and what it committed counts.
    cell("import sqlite3; db = sqlite3.connect('open.db'); db.execute('PRAGMA journal_mode=wal'); db.execute('CREATE TABLE t (a)');"
         " db.execute('INSERT INTO t VALUES (1)'); db.commit(); db.execute('INSERT INTO t VALUES (2)'); None")
    assert ask("SELECT a FROM t", "open.db")["rows"] == [[1]]
    assert cell("db.commit(); db.execute('SELECT count(*) FROM t').fetchall()") == "[(2,)]"


SLOW = "WITH RECURSIVE a(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM a) SELECT {} FROM a"


def test_limits():
    b = box_with(rows=50, inline_rows=10, result_size="2K", query_timeout="2s")
    cell(MAKE, b=b)
    a = ask("SELECT id FROM t LIMIT 40", b=b)
    assert a["delivery"] == "file" and a["row_count"] == 40, a
    a = ask("SELECT id FROM t", b=b, path="partial.csv")
    assert a["kind"] == "result_too_large" and "50 rows" in a["message"], a
    a = ask("SELECT name || printf('%200s', 'x') FROM t LIMIT 40", b=b, path="partial.csv")
    assert a["kind"] == "result_too_large" and "sql.result_size" in a["message"], a
    a = ask("SELECT %s" % ",".join(map(str, range(1001))), b=b)
    assert "columns" in a["message"], a
    a = ask(SLOW.format("count(x)"), b=b)
    assert a["kind"] == "timeout" and "2 s" in a["message"], a
    assert cell("import os; [n for n in os.listdir() if n.startswith('.') or 'partial' in n]", b=b) == "[]"
    b.stop()


def test_who_asked_has_gone():
    cell(MAKE)
    c = Control(box)
    c.send("sql", connection="a.db", code=SLOW.format("count(x)"), session_id="s")
    assert wait_until(lambda: "query.py" in cell(PROCESSES))
    c.sock.shutdown(2)
    c.file.close()
    c.sock.close()
    assert wait_until(lambda: "query.py" not in cell(PROCESSES))


PROCESSES = """
import glob
def words(p):
    try:
        return open(p).read().replace("\\0", " ")
    except OSError:
        return ""
str([words(p) for p in glob.glob("/proc/[0-9]*/cmdline")])
"""


def test_a_hostile_program():
    """What asks is the session's to replace: its word is read strictly."""
    cell(MAKE, "hostile")
    cell("import os; p = os.path.expanduser('~/.local/bin'); os.makedirs(p, exist_ok=True)\n"
         "open(p + '/python3', 'w').write('#!/bin/sh\\nread question\\ncat /workspace/said\\n'); os.chmod(p + '/python3', 0o755)", "hostile")
    for said in ('{"type":"sqlite"}', '{"type":1,"tables":[]}', '{"type":"sqlite","tables":[{"name":1,"type":"table"}]}',
                 '{"type":"sqlite","tables":[{"name":"a","type":"table","more":1}]}', '{"type":"sqlite","tables":[{"name":"a"}]}',
                 '{"type":"sqlite","tables":[{"name":"a","type":"table","columns":[{"name":"a","type":"b"}]}]}',
                 '{"type":"sqlite","tables":[%s]}' % ",".join(['{"name":"a","type":"table"}'] * 501), "[]",
                 '{"type":"sqlite","tables":[{"name":"%s","type":"table"}]}' % ("x" * (140 << 10))):
        with open(os.path.join(box.dir, "said"), "w") as f:
            f.write(said)
        box("cp", os.path.join(box.dir, "said"), "hostile:said", check=True)
        r = box("sql", "--schema", "--session", "hostile", "a.db")
        assert r.returncode == 1 and "malformed" in r.stderr, (said[:60], r.stdout, r.stderr)
    for said in ('{"columns":[],"rows":[],"row_count":0}', '{"columns":[{"name":"a","type":"b"}],"rows":[[{}]],"row_count":1}',
                 '{"columns":[{"name":"a","type":"b"}],"rows":[[1,2]],"row_count":1}', "[]", "x" * (5 << 20),
                 '{"columns":[{"name":"a","type":"b"}],"row_count":1}', '{"columns":[{"name":"a","type":"b"}],"rows":[[1]],"row_count":2}'):
        with open(os.path.join(box.dir, "said"), "w") as f:
            f.write(said)
        box("cp", os.path.join(box.dir, "said"), "hostile:said", check=True)
        a = ask("SELECT 1", session="hostile")
        assert a["kind"] == "query_failed" and "malformed" in a["message"], (said[:60], a)


def test_duckdb():
    r = subprocess.run([os.path.join(HERE, "..", "clients", "setup.sh"), "duckdb"], capture_output=True, text=True)
    if r.returncode == 77:
        raise Skip(r.stderr.strip().splitlines()[-1])
    assert r.returncode == 0, r.stderr
    site, = glob.glob(os.path.join(r.stdout.strip(), "lib", "python*", "site-packages"))
    subprocess.run([os.path.join(r.stdout.strip(), "bin", "python3"), "-c", "import duckdb\n"
                    "db = duckdb.connect('d.duckdb')\n"
                    "db.execute('CREATE TABLE t (id integer primary key, name varchar, c decimal(10,2), d date, e boolean, f integer[], g blob)')\n"
                    "db.execute(\"INSERT INTO t SELECT i, 'name ' || i, 1.5, DATE '2020-02-29', true, [1, 2], '\\\\x00'::blob FROM range(1000) r(i)\")\n"
                    "db.execute('INSERT INTO t (id, name) VALUES (5000, NULL)')\n"
                    "db.execute('CREATE TABLE other (of integer REFERENCES t (id)); CREATE VIEW names AS SELECT name FROM t')"], check=True, cwd=box.dir)
    cell("pass", "duck")
    box("cp", os.path.join(box.dir, "d.duckdb"), "duck:d.duckdb", check=True)
    a = ask("SELECT 1", "d.duckdb", session="duck")
    assert a["kind"] == "no_driver" and "%pip install duckdb" in a["message"], a
    home = cell("import site; print(site.getusersitepackages())", "duck")
    for path in glob.glob(os.path.join(site, "*duckdb*")):
        box("cp", "-r", path, f"duck:{home}/{os.path.basename(path)}", check=True)
    a = ask("SELECT * FROM t WHERE id = ?", "d.duckdb", session="duck", parameters=[3])
    assert a.get("rows") == [[3, "name 3", 1.5, "2020-02-29", True, "[1, 2]", "00"]], a
    assert [c["type"] for c in a["columns"]][:5] == ["INTEGER", "VARCHAR", "DECIMAL(10,2)", "DATE", "BOOLEAN"], a
    a = ask("SELECT * FROM t ORDER BY id", "d.duckdb", session="duck")
    assert a["delivery"] == "file" and a["row_count"] == 1001, a
    assert cell(f"open('{a['path']}').read().splitlines()[-1]", "duck") == "'5000,,,,,,'"
    assert ask("SELECT {'a': 1} AS s", "d.duckdb", session="duck")["rows"] == [['{"a": 1}']]
    statements = [s.replace("{dir}", "/workspace") for s in EVERYWHERE + WRITES["duckdb"]]
    look = "import hashlib, os; print(hashlib.sha256(open('d.duckdb', 'rb').read()).hexdigest(), sorted(os.listdir()))"
    before = cell(look, "duck")
    assert len(set(statements)) >= 60 and len(set(HARMLESS)) >= 40
    for s in statements:
        a = ask(s, "d.duckdb", session="duck")
        assert a.get("kind") == "query_refused" and "(rule " in a["message"], (s, a)
    for s in [*HARMLESS, "SELECT 'a'\n'b'", "SELECT {'a': [1, 2]}, [x + 1 for x in [1, 2]]", "SELECT id // 2, id % 2, name[1:3] FROM t"]:
        a = ask(s, "d.duckdb", session="duck")
        assert a.get("delivery"), (s, a)
        if a["delivery"] == "file":
            cell(f"import os; os.unlink('{a['path']}')", "duck")
    assert ask("SELECT 'a'\n'b'", "d.duckdb", session="duck")["rows"] == [["ab"]]
    a = box.json("sql", "--schema", "--session", "duck", "d.duckdb", "--json")
    t = named(a)
    assert a["type"] == "duckdb" and "note" not in a and set(t) == {"t", "other", "names"}, a
    assert t["t"]["primary_key"] == ["id"] and t["t"]["columns"][:3] == [
        {"name": "id", "type": "INTEGER", "nullable": False}, {"name": "name", "type": "VARCHAR", "nullable": True},
        {"name": "c", "type": "DECIMAL(10,2)", "nullable": True}], t["t"]
    assert t["other"]["foreign_keys"] == [{"columns": ["of"], "schema": "main", "table": "t", "references": ["id"]}], t["other"]
    assert t["names"]["type"] == "view" and [c["name"] for c in t["names"]["columns"]] == ["name"], t["names"]
    # The program itself, without the judge before it.
    job = {"type": "duckdb", "database": "d.duckdb", "parameters": [], "inline_rows": 9, "inline_bytes": 999, "rows": 9, "bytes": 999,
           "timeout_ms": 9000, "delivery": "inline", "path": "x.csv"}
    with open(os.path.join(box.dir, "jobs"), "w") as f:
        for s in statements:
            f.write(json.dumps({**job, "query": s}) + "\n")
    box("cp", os.path.join(box.dir, "jobs"), "duck:/tmp/jobs", check=True)
    # Its end is the program's own: threads that DuckDB left must not meet an interpreter that is going.
    unjudged = """import json, os, sys; sys.path.insert(0, "/run/codebox/python"); import query
for line in open("/tmp/jobs"):
    try:
        print(query.ask(json.loads(line), None))
    except query.Refused as e:
        print(e)
sys.stdout.flush()
os._exit(0)"""
    r = box("exec", "duck", "--", "python3", "-I", "-c", unjudged)
    assert r.returncode == 0 and "root:x:0" not in r.stdout and len(r.stdout.splitlines()) >= len(statements), r.stderr
    assert cell(look, "duck") == before
    a = ask("SELECT * FROM '/etc/passwd'", "d.duckdb", session="duck")
    assert a["kind"] == "query_failed", a


if __name__ == "__main__":
    run(globals())
