# SPDX-License-Identifier: Apache-2.0
"""A shop in three databases, real ones, and a codeboxd whose policy names them: what tests of queries have in common."""
import json
import os
import sqlite3
import tempfile
import time

from cbxtest import Box, wait_until
from control import Control
from databases import PASSWORD, MariaDB, PostgreSQL

pg = PostgreSQL()
my = MariaDB()
place = tempfile.mkdtemp(prefix="cbx-lite-")
os.chmod(place, 0o755)
lite = os.path.join(place, "a.db")


def fill():
    quoted = PASSWORD.replace("'", "''")
    pg.sql("CREATE DATABASE shop")
    pg.sql(f"""CREATE ROLE reader LOGIN PASSWORD '{quoted}';
        CREATE TABLE t (id int, name text); INSERT INTO t SELECT i, 'name, "' || i || '"' FROM generate_series(1, 5) i;
        CREATE SEQUENCE s; GRANT ALL ON t, s TO reader; GRANT ALL ON SCHEMA public TO reader;
        CREATE ROLE root LOGIN SUPERUSER PASSWORD '{quoted}';
        CREATE TABLE big AS SELECT i, 'name ' || i AS name, i * 1.5 AS x FROM generate_series(1, 100000) i;
        CREATE TABLE kinds (a bigint, b numeric(10,2), c boolean, d bytea, e date, f varchar(10), g jsonb, h text);
        INSERT INTO kinds VALUES (9007199254740993, 1.50, true, '\\x00ff', '2020-02-29', 'ä', '{{"a": 1}}', E'a\\r\\n"b"'),
        (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), (0, 0, false, '', '2020-01-01', '', 'null', '');
        GRANT SELECT ON big, kinds TO reader""", "shop")
    # One whose texts, and names of columns, are bytes of no encoding.
    pg.sql("CREATE DATABASE latin TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'")
    pg.sql("""DO $$ BEGIN EXECUTE format('CREATE TABLE t (%I text, b int)', convert_from('\\x636166e9', 'SQL_ASCII')); END $$;
        INSERT INTO t VALUES (convert_from('\\x74687ee9', 'SQL_ASCII'), 1); GRANT SELECT ON t TO reader""", "latin")
    quoted = PASSWORD.replace("\\", "\\\\").replace("'", "\\'")
    my.sql(f"""CREATE DATABASE shop; CREATE USER reader@localhost IDENTIFIED BY '{quoted}';
        GRANT ALL PRIVILEGES ON shop.* TO reader@localhost;
        CREATE USER mighty@localhost IDENTIFIED BY '{quoted}'; GRANT FILE ON *.* TO mighty@localhost; GRANT SELECT ON shop.* TO mighty@localhost""")
    my.sql("""CREATE TABLE t (id int, name text); INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, NULL), (4, ''), (5, 'ä');
        CREATE SEQUENCE s; CREATE TABLE big AS SELECT seq AS i, CONCAT('name ', seq) AS name FROM seq_1_to_100000""", "shop")
    db = sqlite3.connect(lite)
    db.executescript("CREATE TABLE t (id integer, name text); INSERT INTO t VALUES (1, 'a'), (2, NULL), (3, '')")
    names = "ä" * 400, "x" * 255, "y" * 256, "z" * 5000
    db.execute("CREATE TABLE names (%s)" % ", ".join('"%s" integer' % n for n in names))
    db.execute("INSERT INTO names VALUES (1, 2, 3, 4)")
    db.commit()
    db.close()
    os.chmod(lite, 0o644)


fill()
CONNECTIONS = {
    "pg": pg.connection(),
    "my": my.connection(),
    "lite": {"type": "sqlite", "database": lite},
    "ms": {"type": "sqlserver", "server": "127.0.0.1", "port": 1, "database": "shop", "user": "reader"},
    "latin": pg.connection(database="latin"),
    "root": pg.connection("root"),
    "mighty": my.connection("mighty"),
    "gone": {"type": "postgresql", "server": "/nowhere", "database": "d", "user": "u"},
}
NAMES = {"postgresql": "pg", "mysql": "my", "sqlite": "lite", "sqlserver": "ms"}


def box_with(**sql):
    b = Box(CODEBOX_POOL="0", SHOP_PASSWORD=PASSWORD)
    policy = os.path.join(b.dir, "policy.json")
    with open(policy, "w") as f:
        json.dump({"include": ["default"], "sql": {"connections": CONNECTIONS, **sql}}, f)
    b.env["CODEBOX_POLICY"] = policy
    return b


box = box_with()
image = box.image("python", "python-minimal")


def ask(query, connection="pg", b=box, **params):
    """The answer, or the error as kind and message."""
    with Control(b) as c:
        want = c.send("sql", connection=connection, code=query, **params)
        while True:
            said = c.recv()
            if said.get("id") == want:
                return said.get("result") or said["error"]


def cell(code, session="s", b=box):
    r = b("run", "--image", image, "--session", session, "-c", code)
    assert r.returncode == 0, (r.stdout, r.stderr)
    return r.stdout


def parts(b=box, session="s"):
    return cell("import glob, os; sorted(p for p in os.listdir() if p.startswith('.') or 'partial' in p)", session, b)


def running(connection):
    if connection == "pg":
        return pg.sql("SELECT count(*) FROM pg_stat_activity WHERE usename = 'reader' AND state = 'active'") != "0"
    return my.sql("SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'reader' AND command <> 'Sleep'") != "0"


def gone(connection, how):
    """Wait for the server to run it no longer, and report how long that took."""
    begun = time.monotonic()
    assert wait_until(lambda: not running(connection), 60), (connection, how)
    print(f"# {connection}, {how}: gone after {time.monotonic() - begun:.2f} s", flush=True)
