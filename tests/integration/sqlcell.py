#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""%%sql in a cell: a data frame of what a database of the policy, or a file of the session, answers; by the session's
policy, and refused as anywhere."""
import glob
import json
import os
import sqlite3
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from cbxtest import Box, Skip, run, wait_until  # noqa: E402
from control import Control  # noqa: E402
from databases import PASSWORD, PostgreSQL  # noqa: E402

pg = PostgreSQL()
place = tempfile.mkdtemp(prefix="cbx-cell-")
os.chmod(place, 0o755)
lite = os.path.join(place, "a.db")
with sqlite3.connect(lite) as db:
    db.execute("CREATE TABLE notes (id integer, text varchar)")
    db.executemany("INSERT INTO notes VALUES (?, ?)", [(1, "a"), (2, None), (3, "")])
db.close()
os.chmod(lite, 0o644)
pg.sql("CREATE DATABASE shop")
pg.sql("""CREATE ROLE reader LOGIN PASSWORD '%s';
    CREATE TABLE kinds (a bigint, b numeric(10,2), c boolean, d timestamp, e text, f int, g date, h float8);
    INSERT INTO kinds VALUES (9007199254740993, 1.50, true, '2020-02-29 10:00', '007', 1, '2020-02-29', 0.1),
        (1, 2, false, '2020-01-01', '', 2, '0001-01-01', 'NaN'), (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    CREATE TABLE big AS SELECT i, 'name ' || i AS name FROM generate_series(1, 100000) i;
    GRANT SELECT ON kinds, big TO reader""" % PASSWORD.replace("'", "''"), "shop")
pg.sql("CREATE DATABASE latin TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'")
pg.sql("""DO $$ BEGIN EXECUTE format('CREATE TABLE t (%I text)', convert_from('\\x636166e9', 'SQL_ASCII')); END $$;
    INSERT INTO t VALUES (convert_from('\\x74e9', 'SQL_ASCII')); GRANT SELECT ON t TO reader""", "latin")

box = Box(CODEBOX_POOL="0", SHOP_PASSWORD=PASSWORD)
box.env["CODEBOX_POLICY"] = os.path.join(box.dir, "policy.json")
with open(box.env["CODEBOX_POLICY"], "w") as f:
    json.dump({"include": ["default"], "sql": {"result_size": "4M", "connections": {
        "shop": pg.connection(), "latin": pg.connection(database="latin"), "notes": {"type": "sqlite", "database": lite}}}}, f)
image = box.image("python")


def cell(code, session="s", b=box):
    """What it prints, on both streams."""
    r = b("run", "--image", image, "--session", session, "-c", code)
    return (r.stdout + r.stderr).strip()


def test_a_data_frame():
    out = cell("%%sql shop\nSELECT i, name FROM big WHERE i < 3 ORDER BY i")
    assert out.split() == ["i", "name", "0", "1", "name", "1", "1", "2", "name", "2"], out
    assert cell("%%sql shop big <<\nSELECT * FROM big ORDER BY i") == ""
    assert cell("type(big).__name__, big.shape, str(big.dtypes['i']), int(big.i.sum()), big.name.iloc[-1]") == (
        "('DataFrame', (100000, 2), 'int64', 5000050000, 'name 100000')")
    assert cell("few = %sql shop SELECT count(*) AS n FROM big\nint(few.n[0])") == "100000"
    assert cell("%sql notes found << SELECT text FROM notes ORDER BY id\nlist(found.text)") == "['a', None, '']"
    assert cell("import glob; glob.glob('/tmp/.sql*'), glob.glob('*.csv')") == "([], [])"


def test_types():
    cell("%%sql shop k <<\nSELECT * FROM kinds ORDER BY a DESC")
    out = cell("print([str(t) for t in k.dtypes])")
    assert out == "['int64', 'float64', 'object', 'datetime64[ns]', 'object', 'Int64', 'object', 'float64']", out
    out = cell("print((list(k.a), list(k.c), list(k.e), k.d.isna().tolist(), k.g.tolist(), k.f.isna().tolist()))")
    assert out == (
        "([9007199254740993, 2, 1], [True, None, False], ['007', None, ''], [False, True, False], "
        "['2020-02-29', None, '0001-01-01'], [False, True, False])"), out
    assert cell("import math; math.isnan(k.h[2]), k.h[0]") == "(True, 0.1)"
    assert cell("%%sql shop none <<\nSELECT a, e FROM kinds WHERE false\n") == ""
    assert cell("none.shape, list(none.columns)") == "((0, 2), ['a', 'e'])"
    assert cell("%%sql shop twice <<\nSELECT 1 AS x, 'y, \"z\"\n' AS x\n") == ""
    assert cell("list(twice.columns), twice.values.tolist()") == "(['x', 'x'], [[1, 'y, \"z\"\\n']])"


def same(got, wanted):
    assert got == wanted, (got, wanted)


# With NULLs, a number that is too large for a double, and a text that looks like one.
MIXED = """%%sql {0} mixed <<
SELECT a, b, c, e FROM kinds WHERE a > 1 ORDER BY a
"""
WANTED = [[2, None, None, None], [9007199254740993, 1.5, True, "007"]]


def session_without(name, *modules, plain=False):
    """One in which these cannot be imported. plain: nor IPython, by the interpreter that is started next."""
    if plain:
        box("run", "--image", image, "--session", name, "-c",
            "open('/workspace/IPython.py', 'w').write('raise ImportError')\nimport os\nos._exit(0)")
        assert "NameError" in cell("get_ipython", name)
    assert cell("import sys\n" + "".join(f"sys.modules[{m!r}] = None\n" for m in modules), name) == ""


def rows_of(name):
    """A list of dictionaries, with every question that the manual answers."""
    same(cell(MIXED.format("shop"), name), "")
    same(cell("print(type(mixed).__name__, [list(r.values()) for r in mixed], list(mixed[0]))", name), f"list {WANTED} ['a', 'b', 'c', 'e']")
    same(cell("few = %sql notes SELECT text FROM notes ORDER BY id\nprint(few)", name), "[{'text': 'a'}, {'text': None}, {'text': ''}]")
    same(cell("%sql shop none << SELECT a FROM kinds WHERE false\nprint(none)", name), "[]")
    assert cell("%%sql shop twice <<\nSELECT 1 AS x, 2 AS x\n", name) == "" and cell("print(twice)", name) == "[{'x': 1, 'x_1': 2}]"
    assert cell("%%sql shop long <<\nSELECT repeat('x', 200000) AS t\n", name) == "" and cell("print(len(long[0]['t']))", name) == "200000"
    same(cell("f = %sql latin SELECT * FROM t\nprint(f)", name), "[{'caf\ufffd': 't\ufffd'}]")
    out = cell("%%sql shop\nDELETE FROM big", name)
    assert "UsageError: sql: " in out and "(rule not_a_query)" in out, out
    same(cell("few_or_many = 2\n%sql shop one << SELECT :few_or_many::int AS n\nprint(one)", name), "[{'n': 2}]")


def test_a_list_where_there_are_no_data_frames():
    session_without("bare", "pandas", "polars")
    rows_of("bare")


def test_the_plain_shell():
    session_without("plain", "pandas", "polars", plain=True)
    rows_of("plain")
    session_without("frames", plain=True)
    assert cell(MIXED.format("shop"), "frames") == "" and cell("print(type(mixed).__name__, mixed.shape)", "frames") == "DataFrame (2, 4)"


def test_polars_where_there_is_no_pandas():
    r = subprocess.run([os.path.join(HERE, "..", "clients", "setup.sh"), "polars"], capture_output=True, text=True)
    if r.returncode == 77:
        raise Skip(r.stderr.strip().splitlines()[-1])
    assert r.returncode == 0, r.stderr
    site, = glob.glob(os.path.join(r.stdout.strip(), "lib", "python*", "site-packages"))
    session_without("polars", "pandas")
    home = cell("import site; print(site.getusersitepackages())", "polars")
    for path in glob.glob(os.path.join(site, "*polars*")):
        box("cp", "-r", path, f"polars:{home}/{os.path.basename(path)}", check=True)
    same(cell(MIXED.format("shop"), "polars"), "")
    assert cell("print(type(mixed).__module__.split('.')[0], [str(t) for t in mixed.dtypes], [list(r) for r in mixed.rows()])", "polars") == (
        f"polars ['Int64', 'Float64', 'Boolean', 'String'] {WANTED}")
    same(cell("f = %sql notes SELECT text FROM notes ORDER BY id\nprint(f['text'].to_list())", "polars"), "['a', None, '']")
    assert cell("%%sql shop twice <<\nSELECT 1 AS x, 2 AS x\n", "polars") == "" and cell("print(twice.columns)", "polars") == "['x', 'x_1']"
    assert cell("%%sql shop none <<\nSELECT a, e FROM kinds WHERE false\n", "polars") == "" and cell("print(none.shape)", "polars") == "(0, 2)"
    same(cell("f = %sql latin SELECT * FROM t\nprint(f.to_dicts())", "polars"), "[{'caf\ufffd': 't\ufffd'}]")


def test_bytes_of_no_encoding():
    same(cell("f = %sql latin SELECT * FROM t\nf.to_dict('list')"), "{'caf\ufffd': ['t\ufffd']}")


def test_variables_are_bound():
    nasty = "'; DROP TABLE big; -- ?"
    out = cell(f"city = {nasty!r}; n = 3; import numpy; m = numpy.int64(2)\n"
               "r = %sql shop SELECT i, CAST(:city AS text) AS c, ':city' AS t, '1'::int AS o FROM big WHERE i IN (:n, :m) ORDER BY i\n"
               "print(r.values.tolist())")
    assert out == repr([[2, nasty, ":city", 1], [3, nasty, ":city", 1]]), out
    out = cell("%%sql shop\nSELECT :absent_variable")
    assert "UsageError: sql: :absent_variable: there is no variable of this name" in out, out


def test_files_of_the_session():
    cell("import sqlite3; d = sqlite3.connect('own.db'); d.execute('CREATE TABLE t (a, b)');"
         " d.execute(\"INSERT INTO t VALUES (1, NULL), (2, '')\"); d.commit(); d.close()")
    assert cell("f = %sql own.db SELECT * FROM t\nf.values.tolist()") == "[[1, None], [2, '']]"
    assert cell("%%sql ./own.db f <<\nSELECT sum(a) AS s FROM t\n") == "" and cell("int(f.s[0])") == "3"
    b = Box(CODEBOX_POOL="0")  # no policy has anything to do with it
    cell("import sqlite3; d = sqlite3.connect('own.db'); d.execute('CREATE TABLE t (a)'); d.close()", b=b)
    assert cell("f = %sql own.db SELECT count(*) AS n FROM t\nint(f.n[0])", b=b) == "0"
    b.stop()


def test_what_is_refused():
    for code, says in (("%%sql shop\nDELETE FROM big", "(rule not_a_query)"), ("%%sql nowhere\nSELECT 1", "nowhere"),
                       ("%%sql shop\nSELECT * FROM absent", 'relation "absent" does not exist'), ("%sql shop", "give a query"),
                       ("%%sql\nSELECT 1", "there are: shop, latin, notes"), ("%%sql shop\nSELECT '" + "x" * 20000 + "'", "more than 16384 bytes"),
                       ("%%sql shop\nSELECT repeat('x', 1000) FROM big", "sql.result_size")):
        out = cell(code)
        assert "UsageError: sql: " in out and says in out, (code[:60], out)
    r = box("run", "--image", image, "--session", "s", "-c", "%%sql shop\nDROP TABLE big")
    assert r.returncode != 0, r
    b = Box(CODEBOX_POOL="0", SHOP_PASSWORD=PASSWORD)
    b.env["CODEBOX_POLICY"] = os.path.join(b.dir, "policy.json")
    with open(box.env["CODEBOX_POLICY"]) as f:
        policy = json.load(f)
    policy["sql"]["allow"] = ["notes"]
    with open(b.env["CODEBOX_POLICY"], "w") as f:
        json.dump(policy, f)
    out = cell("%%sql shop\nSELECT 1", b=b)
    assert '"shop" is not in the policy' in out, out
    b.stop()


def running():
    return pg.sql("SELECT count(*) FROM pg_stat_activity WHERE usename = 'reader' AND state = 'active'") != "0"


def test_an_interrupt_cancels_it():
    p = box.popen("run", "--image", image, "--session", "s", "-c", "%%sql shop\nSELECT count(*) FROM big a, big b, big c")
    assert wait_until(running)
    with Control(box) as c:
        c.call("interrupt", session_id="s")
    assert wait_until(lambda: not running())
    p.wait()
    assert p.returncode != 0
    assert cell("r = %sql shop SELECT 1 AS x\nint(r.x[0])") == "1"


ASK = """
import json, _socket
def ask(data):
    door = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    door.connect("\\0codebox")
    door.send(data if isinstance(data, bytes) else json.dumps(data).encode())
    answer = door.recv(65536)
    door.close()
    return json.loads(answer)
"""


def test_questions_that_are_none():
    cell(ASK, "asks")
    for question in ({"query": 1}, {"query": "SELECT 1", "packages": []}, {"query": "SELECT 1", "parameters": {}}, {"query": "SELECT 1", "more": 1},
                     {"query": "SELECT 1", "connection": "shop", "path": "x.csv", "null": "a b"}, {"query": "SELECT 1", "connection": ["shop"]},
                     {"query": "SELECT ?", "connection": "shop", "parameters": [[]], "path": "x.csv"}, b"\xff", b"[]", {"query": None}):
        out = cell(f"ask({question!r})['error']['kind']", "asks")
        assert out in ("'invalid_argument'", "'no_connection'", "'query_refused'"), (question, out)
    assert cell("ask({'query': 'SELECT 1 AS x', 'connection': 'shop', 'path': 'x.csv'})['row_count'], open('x.csv').read()", "asks") == (
        "(1, 'x\\n1\\n')")


if __name__ == "__main__":
    run(globals())
