#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a database has, of real servers: by MCP as a resource, by REST, and on the terminal."""
import json
import os
import sqlite3
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "http"))
from cbxtest import Box, run  # noqa: E402
from common_http import Client, Daemon  # noqa: E402
from databases import PASSWORD, MariaDB, PostgreSQL  # noqa: E402
from model import Model  # noqa: E402

STRANGE = "we_ird\n%\"';-- \\x\x1b[31m"
pg = PostgreSQL()
my = MariaDB()
place = tempfile.mkdtemp(prefix="cbx-schema-")
os.chmod(place, 0o755)
lite = os.path.join(place, "a.db")
large = os.path.join(place, "large.db")


def fill():
    def tables(quote):
        strange = quote + STRANGE.replace(quote, quote * 2) + quote
        return f"""CREATE TABLE customers (id int NOT NULL PRIMARY KEY, name varchar(40) NOT NULL);
            CREATE TABLE orders (a int NOT NULL, b int NOT NULL, customer int, total numeric(10,2), PRIMARY KEY (a, b),
                FOREIGN KEY (customer) REFERENCES customers (id));
            CREATE TABLE items (a int, b int, n int, FOREIGN KEY (a, b) REFERENCES orders (a, b));
            CREATE VIEW names AS SELECT name FROM customers;
            CREATE TABLE wexird (wrong int); CREATE TABLE {strange} (c int);"""

    quoted = PASSWORD.replace("'", "''")
    pg.sql("CREATE DATABASE shop")
    pg.sql(f"""CREATE ROLE reader LOGIN PASSWORD '{quoted}'; {tables('"')}
        CREATE SCHEMA other; CREATE TABLE other.customers (x int)""", "shop")
    quoted = PASSWORD.replace("\\", "\\\\").replace("'", "\\'")
    my.sql(f"""CREATE DATABASE shop; CREATE DATABASE hidden; CREATE TABLE hidden.t (id int);
        CREATE USER reader@localhost IDENTIFIED BY '{quoted}'; GRANT SELECT ON shop.* TO reader@localhost""")
    my.sql(tables("`"), "shop")
    with sqlite3.connect(lite) as db:
        db.executescript(tables('"'))
    db.close()
    with sqlite3.connect(large) as db:
        for i in range(600):
            db.execute("CREATE TABLE t%d (%s)" % (i, ", ".join("column_%d int" % n for n in range(20))))
        db.execute("CREATE TABLE a_wide (%s)" % ", ".join("c%d int" % n for n in range(1100)))
    db.close()
    for path in lite, large:
        os.chmod(path, 0o644)


fill()
CONNECTIONS = {"pg": pg.connection(), "my": my.connection(), "lite": {"type": "sqlite", "database": lite},
               "large": {"type": "sqlite", "database": large}}
box = Box(CODEBOX_POOL="0", SHOP_PASSWORD=PASSWORD)
box.env["CODEBOX_POLICY"] = os.path.join(box.dir, "policy.json")
with open(box.env["CODEBOX_POLICY"], "w") as f:
    json.dump({"include": ["default"], "sql": {"connections": CONNECTIONS}}, f)


def schema(connection):
    return box.json("sql", "--schema", connection, "--json")


def by_name(a):
    """Tables of the schema that is everybody's."""
    return {t["name"]: t for t in a["tables"] if t.get("schema", "public") == "public"}


def test_tables_columns_and_keys():
    for connection, kind in ("pg", "postgresql"), ("my", "mysql"), ("lite", "sqlite"):
        a = schema(connection)
        assert a["type"] == kind and "note" not in a and "truncated" not in a, a
        t = by_name(a)
        assert set(t) == {"customers", "orders", "items", "names", "wexird", STRANGE}, (connection, list(t))
        assert [t[n]["type"] for n in ("customers", "names")] == ["table", "view"], t
        assert [(c["name"], c["nullable"]) for c in t["customers"]["columns"]] == [("id", False), ("name", False)], t
        assert [(c["name"], c["nullable"]) for c in t["orders"]["columns"]] == [
            ("a", False), ("b", False), ("customer", True), ("total", True)], t
        assert all(c["type"] for table in t.values() for c in table["columns"]), t
        assert t["customers"]["primary_key"] == ["id"] and t["orders"]["primary_key"] == ["a", "b"], t
        assert t["items"]["primary_key"] == [] == t["customers"]["foreign_keys"], t
        for table, columns, of, references in ("orders", ["customer"], "customers", ["id"]), ("items", ["a", "b"], "orders", ["a", "b"]):
            key, = t[table]["foreign_keys"]
            assert key.get("schema", "public") == "public", key
            assert (key["columns"], key["table"], key["references"]) == (columns, of, references), (connection, key)
        # A name with all that patterns and statements are made of has its own columns alone.
        assert [c["name"] for c in t[STRANGE]["columns"]] == ["c"], (connection, t[STRANGE])
    other, = [t for t in schema("pg")["tables"] if t.get("schema") == "other"]
    assert other["name"] == "customers" and [c["name"] for c in other["columns"]] == ["x"], other


def test_a_large_schema():
    a = schema("large")
    assert a["truncated"] and len(a["tables"]) == 500, len(a["tables"])
    assert len(json.dumps(a, separators=(",", ":"))) < 140 << 10
    whole = [t for t in a["tables"] if "columns" in t]
    assert 20 < len(whole) < 500 and all(len(t["columns"]) == 20 for t in whole), len(whole)
    assert "%d tables are named without columns, and 101 more are omitted" % (500 - len(whole)) in a["note"], a["note"]
    r = box("sql", "--schema", "large")
    assert r.returncode == 0 and a["note"] in r.stderr and r.stdout.count(" (table)\n") == 500, r.stderr


def test_on_the_terminal():
    r = box("sql", "--schema", "lite")
    assert r.returncode == 0, r.stderr
    assert r.stdout.startswith("customers (table)\n  id    INT, not null, primary key\n  name  varchar(40), not null\n"), r.stdout
    assert "  (a, b) references orders (a, b)\n" in r.stdout and "\x1b" not in r.stdout, r.stdout
    r = box("sql", "--schema")
    assert r.returncode == 1 and "there are: pg, my, lite, large" in r.stderr, r.stderr
    r = box("sql", "--schema", "nothing")
    assert r.returncode == 1 and 'there is no "nothing"' in r.stderr, r.stderr
    r = box("sql", "--schema", "--output", "f", "lite")
    assert r.returncode == 2 and "--schema" in r.stderr, r.stderr


def refused(m, method, params):
    """The message of the error."""
    m.n += 1
    m.send({"id": m.n, "method": method, "params": params})
    while True:
        answer = json.loads(m.process.stdout.readline())
        if answer.get("id") == m.n:
            return answer["error"]["message"]


def test_a_resource():
    m = Model(box)
    listed = {r["uri"]: r for r in m.ask("resources/list", {})["resources"]}
    for name in CONNECTIONS:
        assert listed["codebox://databases/" + name]["mimeType"] == "application/json", listed
    for name in "pg", "my", "lite":
        uri = "codebox://databases/" + name
        contents, = m.ask("resources/read", {"uri": uri})["contents"]
        assert contents["uri"] == uri and contents["mimeType"] == "application/json", contents
        tables = by_name(json.loads(contents["text"]))
        assert [c["name"] for c in tables["customers"]["columns"]] == ["id", "name"] and len(tables) == 6, tables
    for uri in "codebox://databases/nothing", "codebox://databases/", "codebox://databases/pg/x", "codebox://databases/../pg":
        assert refused(m, "resources/read", {"uri": uri}).startswith("Resource not found"), uri
    assert "not reported" in refused(m, "resources/subscribe", {"uri": "codebox://databases/pg"})
    m.close()


def test_tenants_have_what_their_policies_name():
    policy = os.path.join(place, "policy.json")
    with open(policy, "w") as f:
        json.dump({"include": ["default"], "sql": {"connections": {k: CONNECTIONS[k] for k in ("lite", "large")}}}, f)
    os.chmod(policy, 0o644)
    d = Daemon("--policy", policy, tenants={"one": {"policy": {"sql": {"connections": {"lite": CONNECTIONS["lite"]}}}},
                                            "none": {"policy": {"limits": {"memory": "256M"}}}})

    def get(tenant, path):
        c = Client(d.port, Authorization="Bearer " + d.token(tenant))
        answer = c.send("GET", path=path)
        c.close()
        return answer.status, json.loads(answer.body)

    try:
        assert get("one", "/databases") == (200, {"databases": [{"name": "lite", "type": "sqlite"}]})
        status, a = get("one", "/databases/lite")
        assert status == 200 and set(by_name(a)) == {"customers", "orders", "items", "names", "wexird", STRANGE}, a
        for tenant, name in ("one", "large"), ("none", "lite"), ("one", "nothing"):
            status, a = get(tenant, "/databases/" + name)
            assert status == 404 and "columns" not in json.dumps(a), (tenant, name, a)
        assert get("none", "/databases") == (200, {"databases": []})
    finally:
        assert d.stop() == 0


def test_the_server_is_gone():
    pg.kill()
    r = box("sql", "--schema", "pg")
    assert r.returncode == 1 and "connect" in r.stderr and PASSWORD[:15] not in r.stderr, r.stderr


if __name__ == "__main__":
    run(globals())
