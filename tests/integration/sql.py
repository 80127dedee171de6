#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Databases are asked, by real drivers of real servers, and only asked: what tries to write, to read files or to run
programs is refused by the judge, and by the database where nobody judges."""
import csv
import glob
import io
import json
import os
import queue
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, Skip, children, command, run, wait_until  # noqa: E402
from control import Control  # noqa: E402
from databases import PASSWORD  # noqa: E402
from shop import CONNECTIONS, NAMES, ask, box, box_with, cell, gone, image, lite, my, parts, pg, place, running  # noqa: E402
from statements import EVERYWHERE, HARMLESS, WRITES  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
UNJUDGED = os.path.join(os.environ.get("BUILD_DIR", os.getcwd()), "tests", "integration", "sql_unjudged")

def many(queries, connection):
    """The answers to all of them, several at a time."""
    answers = {}
    with Control(box) as c:
        left, waiting = list(enumerate(queries)), {}
        while left or waiting:
            while left and len(waiting) < 6:
                i, q = left.pop(0)
                waiting[c.send("sql", connection=connection, code=q)] = i
            said = c.recv()
            if said.get("id") in waiting:
                answers[waiting.pop(said["id"])] = said.get("result") or said["error"]
    return [answers[i] for i in range(len(queries))]


def digests():
    db = sqlite3.connect(lite)
    rows = list(db.execute("SELECT * FROM t")), list(db.execute("SELECT name FROM sqlite_master"))
    db.close()
    return (pg.sql("SELECT * FROM t ORDER BY id", "shop"), pg.sql("SELECT last_value, is_called FROM s", "shop"),
            pg.sql("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1", "shop"),
            pg.sql("SELECT count(*) FROM pg_largeobject_metadata", "shop"),
            my.sql("SELECT * FROM t ORDER BY id; SHOW TABLES; SELECT next_not_cached_value FROM s", "shop"), rows,
            sorted(os.listdir(place)))


# ---- what is refused ----

def writes(kind):
    all_of_them = [s.replace("{dir}", place) for s in EVERYWHERE + WRITES[kind]]
    assert len(set(all_of_them)) >= 60, (kind, len(set(all_of_them)))
    return all_of_them


def test_statements_that_write_are_refused_with_the_rule():
    before = digests()
    for kind, connection in NAMES.items():
        statements = writes(kind)
        for s, a in zip(statements, many(statements, connection)):
            assert a.get("kind") == "query_refused" and "(rule " in a["message"], (kind, s, a)
    assert digests() == before


def test_harmless_ones_that_look_alike_run():
    assert len(set(HARMLESS)) >= 40
    for kind, connection in NAMES.items():
        for s, a in zip(HARMLESS, many(HARMLESS, connection)):
            if kind == "sqlserver":  # there is no server, so the judge has let it pass
                assert a.get("kind") == "connection_failed", (kind, s, a)
            else:
                assert a.get("delivery") == "inline", (kind, s, a)


class Worker:
    """codebox-sql, built without the judge."""

    def __init__(self):
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock = mine
        env = {k: v for k, v in os.environ.items() if k != "SHOP_PASSWORD"}
        self.process = subprocess.Popen(["sh", "-c", 'exec "$0" 3<&%d' % theirs.fileno(), UNJUDGED], env=env,
                                        pass_fds=[theirs.fileno()])
        theirs.close()

    def ask(self, connection, query, seconds=20):
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        socket.send_fds(self.sock, [b"j"], [theirs.fileno()])
        theirs.close()
        c = {"tls": "off", **CONNECTIONS[connection]}
        c.pop("password", None)
        mine.sendall(json.dumps({"connection": c, "password": PASSWORD, "query": query, "parameters": [], "inline_rows": 10,
                                 "inline_bytes": 10000, "rows": 100, "bytes": 100000, "timeout_ms": seconds * 1000,
                                 "delivery": "inline"}).encode())
        mine.shutdown(socket.SHUT_WR)
        with mine, mine.makefile("rb") as f:
            head = f.read(4)
            assert len(head) == 4, (connection, query)
            return json.loads(f.read(struct.unpack("<I", head)[0])[1:])

    def end(self):
        self.sock.close()
        self.process.wait()


def test_without_the_judge_the_database_refuses():
    before = digests()
    worker = Worker()
    assert "rows" in worker.ask("pg", "SELECT * FROM t") and "rows" in worker.ask("my", "SELECT * FROM t")
    work = queue.Queue()
    for kind in "postgresql", "mysql", "sqlite":
        for s in writes(kind):
            work.put((NAMES[kind], s))
    strange = []

    def some():
        while True:
            try:
                connection, s = work.get_nowait()
            except queue.Empty:
                return
            try:
                a = worker.ask(connection, s, seconds=3)
                if "root:x:0" in json.dumps(a):
                    strange.append((s, a))
            except Exception as e:
                strange.append((s, e))

    threads = [threading.Thread(target=some) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    worker.end()
    assert not strange, strange
    assert digests() == before


def test_a_database_that_is_a_file_reads_no_other_file():
    """Its driver has functions for that, and works in the process that asks."""
    beside = os.path.join(place, "beside")
    with open(beside, "w") as f:
        f.write("root:x:0 of the file beside it")
    worker = Worker()
    for name in beside, "/etc/passwd":
        query = f"SELECT CAST(blob_import('{name}') AS TEXT)"
        assert "(rule function)" in ask(query, "lite")["message"], name
        a = worker.ask("lite", query)
        assert "root:x:0" not in json.dumps(a), (name, a)
    worker.ask("lite", f"SELECT blob_export('x', '{place}/exported')")
    worker.end()
    assert not os.path.exists(os.path.join(place, "exported"))
    os.unlink(beside)


def test_a_database_that_is_a_file_with_a_log():
    """And by a link: what SQLite has beside a file is where the file is."""
    with tempfile.TemporaryDirectory() as other:
        os.chmod(other, 0o755)
        name = os.path.join(other, "wal.db")
        db = sqlite3.connect(name)
        db.executescript("PRAGMA journal_mode = WAL; CREATE TABLE t (a integer); INSERT INTO t VALUES (7)")
        assert os.path.exists(name + "-wal")
        link = os.path.join(place, "link.db")
        os.symlink(name, link)
        b = box_with(connections={"a": {"type": "sqlite", "database": name}, "b": {"type": "sqlite", "database": link}})
        for connection in "a", "b":
            assert ask("SELECT a FROM t", connection, b=b).get("rows") == [[7]], ask("SELECT a FROM t", connection, b=b)
        b.stop()
        db.close()
        os.unlink(link)


def test_modes_of_the_server_change_no_quotes():
    before = my.sql("SELECT @@GLOBAL.sql_mode")
    for mode in "ANSI", "ORACLE", "NO_BACKSLASH_ESCAPES,ANSI_QUOTES":
        my.sql(f"SET GLOBAL sql_mode = '{mode}'")
        a = ask('SELECT "a", \'\\\'\', @@SESSION.sql_mode', "my")
        assert a["rows"][0][:2] == ["a", "'"] and "ANSI" not in a["rows"][0][2], (mode, a)
    my.sql(f"SET GLOBAL sql_mode = '{before}'")


def test_users_that_a_transaction_does_not_hold_back():
    for name in "root", "mighty":
        a = ask("SELECT 1", name)
        assert a["kind"] == "unsafe_user" and "name a user in the policy that may only read" in a["message"], a


# ---- results ----

def test_values_and_types():
    a = ask("SELECT * FROM kinds ORDER BY a NULLS LAST")
    assert [c["type"] for c in a["columns"]][:6] == ["int8", "numeric", "bool", "bytea", "date", "varchar"], a
    assert a["rows"][0] == [0, 0, False, "", "2020-01-01", "", "null", ""], a
    assert a["rows"][1] == ["9007199254740993", 1.5, True, "00ff", "2020-02-29", "ä", '{"a": 1}', 'a\r\n"b"'], a
    assert a["rows"][2] == [None] * 8 and a["row_count"] == 3, a
    assert ask("SELECT * FROM t ORDER BY id", "my")["rows"] == [[1, "a"], [2, "b"], [3, None], [4, ""], [5, "ä"]]
    assert ask("SELECT * FROM t ORDER BY id", "lite")["rows"] == [[1, "a"], [2, None], [3, ""]]


def test_long_values_among_short_ones():
    """Rows come many at once; of a value that is longer than its place there, the rest is read."""
    lengths = [1, 511, 512, 1022, 1023, 1024, 1025, 4096, 9000]
    a = ask("SELECT n, repeat('ä', n), NULL::text, repeat('x', n) FROM unnest(ARRAY%s) n ORDER BY n" % lengths)
    assert a["rows"] == [[n, "ä" * n, None, "x" * n] for n in lengths], [[len(str(v)) for v in row] for row in a["rows"]]
    query = ("SELECT repeat('v', n)::varchar, repeat('b', n)::bpchar, ('{\"a\": \"' || repeat('j', n) || '\"}')::jsonb, repeat('9', 200)::numeric "
             "FROM generate_series(1, 3000, 100) n")
    for row, n in zip(ask(query)["rows"], range(1, 3000, 100)):
        assert row[:3] == ["v" * n, "b" * n, '{"a": "%s"}' % ("j" * n)] and str(row[3]).startswith("9"), (n, row)
    cell("pass")
    query = "SELECT i, CASE WHEN i % 50 = 7 THEN repeat('y', 3000) ELSE 'z' || i END FROM generate_series(1, 5000) i ORDER BY i"
    assert ask(query, session_id="s", path="long.csv")["row_count"] == 5000
    wanted = "[[str(i), 'y' * 3000 if i % 50 == 7 else 'z%d' % i] for i in range(1, 5001)]"
    assert cell("import csv; list(csv.reader(open('long.csv')))[1:] == %s" % wanted).strip() == "True"


def test_names_of_columns_are_hostile():
    """They are what the server has stored, or the query says: they become UTF-8, and have a length."""
    a = ask("SELECT * FROM t", "latin")
    assert a["columns"] == [{"name": "caf\ufffd", "type": "text"}, {"name": "b", "type": "int4"}], a
    assert a["rows"] == [["th~\ufffd", 1]], a
    assert "caf\ufffd" in box("sql", "latin", "SELECT * FROM t").stdout
    cell("pass")
    a = ask("SELECT * FROM t", "latin", session_id="s", path="latin.csv")
    assert a["columns"][0]["name"] == "caf\ufffd", a
    assert cell("open('latin.csv', 'rb').read()").strip() == repr(b"caf\xef\xbf\xbd,b\r\nth~\xe9,1\r\n")
    message = ask("SELECT x::int AS n FROM t AS a(x, y)", "latin")["message"]
    assert "th~" in message and "\xe9" not in message, message
    a = ask("SELECT * FROM names", "lite")
    assert a.get("rows") == [[1, 2, 3, 4]], a
    assert [c["name"] for c in a["columns"]] == ["ä" * 127, "x" * 255, "y" * 255, "z" * 255], a


def test_strings_on_several_lines():
    """PostgreSQL joins them, and the rule of the first for backslashes is that of all; a block comment between them does not."""
    before = digests()
    for query, wanted in (("SELECT 'a'\n'b'", "ab"), ("SELECT 'a' -- c\n  'b'\r\n\t'c'", "abc"), ("SELECT E'\\''\n'b\\''", "'b'"),
                          ("SELECT E'a'\n'\\' ; DELETE FROM t -- '", "a' ; DELETE FROM t -- "), ("SELECT 'a\\'\n'b\\'", "a\\b\\"),
                          ("SELECT X'1'\n'F'", "00011111"), ("SELECT U&'\\0061'\n'\\0062'", "ab"), ("SELECT 'it''s'\n'''s'", "it's's")):
        assert ask(query).get("rows") == [[wanted]], (query, ask(query))
    for query in ("SELECT 'a'\n'\\' ; DELETE FROM t -- '", "SELECT E'a' /* \n */ '\\' ; DELETE FROM t -- '", "SELECT E'a' '\\' ; DELETE FROM t -- '",
                  "SELECT 'a'\nE'b\\'' ; DELETE FROM t -- '", "SELECT $$a$$\n'\\' ; DELETE FROM t -- '", "SELECT E'a' || \n'\\' ; DELETE FROM t -- '"):
        a = ask(query)
        assert a.get("kind") == "query_refused" and "(rule one_statement)" in a["message"], (query, a)
    assert "syntax error" in ask("SELECT 'a' /* \n */ 'b'")["message"]
    assert ask("SELECT 'a'\n'b'", "my")["rows"] == [["ab"]]
    assert digests() == before


def test_parameters_are_bound():
    nasty = "'; DROP TABLE t; -- ?"
    for connection in "pg", "my", "lite":
        cast = "SELECT CAST(? AS CHAR(40))" if connection == "my" else "SELECT CAST(? AS VARCHAR(40))"
        assert ask(cast, connection, parameters=[nasty])["rows"] == [[nasty]]
        rows = ask("SELECT id FROM t WHERE id >= ? AND id < ? ORDER BY id", connection, parameters=[2, 4])["rows"]
        assert rows == [[2], [3]], (connection, rows)
        assert ask("SELECT id FROM t WHERE name = ?", connection, parameters=[None]).get("rows") == [], connection
    r = box("sql", "pg", "SELECT id FROM t WHERE id = ? OR name = ?", "--param", "3", "--param", "x")
    assert r.stdout.split() == ["id", "3"], (r.stdout, r.stderr)
    assert "give 1" in ask("SELECT ?")["message"]
    assert ask("SELECT ?", parameters=[[1]])["kind"] == "invalid_argument"
    assert ask("SELECT 1", parameters=[1] * 101)["kind"] == "invalid_argument"


def test_a_file_of_the_session():
    cell("pass")
    r = box("sql", "pg", "SELECT * FROM kinds ORDER BY a", "--session", "s", "--output", "data/kinds.csv")
    assert r.returncode == 0 and "3 rows" in r.stdout, (r.stdout, r.stderr)
    text = json.loads(cell("import json; print(json.dumps(open('data/kinds.csv', newline='').read()))"))
    assert text.startswith('a,b,c,d,e,f,g,h\r\n') and '"a\r\n""b"""\r\n' in text, text
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert rows[3] == [""] * 8 and rows[1][5] == "", rows
    again = box("sql", "pg", "SELECT 1", "--session", "s", "--output", "data/kinds.csv")
    assert again.returncode == 1 and "exists already" in again.stderr, again.stderr
    # More rows than an answer has: a file, whose name is made up.
    a = ask("SELECT * FROM big ORDER BY i", session_id="s")
    assert a["delivery"] == "file" and a["row_count"] == 100000 and a["column_count"] == 3, a
    assert cell(f"import csv; rows = list(csv.reader(open('{a['path']}'))); len(rows), rows[1], rows[-1]").strip() == (
        "(100001, ['1', 'name 1', '1.5'], ['100000', 'name 100000', '150000.0'])")
    a = ask("SELECT * FROM big ORDER BY i", "my", session_id="s", path="my.csv")
    assert cell("import csv; rows = list(csv.reader(open('my.csv'))); len(rows), rows[-1]").strip() == (
        "(100001, ['100000', 'name 100000'])")
    # Without a session, what does not fit is omitted.
    a = ask("SELECT i FROM big ORDER BY i")
    assert a["more"] and a["row_count"] == 100 == len(a["rows"]), a
    assert ask("SELECT 1", path="x.csv")["kind"] == "invalid_argument"


def test_a_session_that_a_query_ends_in():
    """It is in use meanwhile; and another one that took its name is not it."""
    with Control(box) as c:
        c.call("session.create", session_id="asked", image=image, idle_timeout=2)
        a = c.call("sql", connection="pg", code="SELECT 1 AS one, pg_sleep(7)::text", session_id="asked", path="late.csv")
        assert a["row_count"] == 1, a
        assert c.call("run", session_id="asked", code="open('late.csv').read()[:3]")["result"] == "'one'"
        c.send("sql", connection="pg", code="SELECT i, pg_sleep(0.01)::text FROM big LIMIT 300", session_id="asked", path="other.csv")
        with Control(box) as d:
            assert wait_until(lambda: "FROM big LIMIT 300" in pg.sql("SELECT query FROM pg_stat_activity WHERE state = 'active'", "shop"))
            d.call("session.close", session_id="asked")
            d.call("session.create", session_id="asked", image=image)
            said = c.recv()
            while "event" in said:
                said = c.recv()
            assert said["error"]["kind"] == "session_expired", said
            assert d.call("run", session_id="asked", code="import os; os.listdir()")["result"] == "[]"
            d.call("session.close", session_id="asked")


def arrow_session(name):
    """pyarrow, as the session would have installed it."""
    r = subprocess.run([os.path.join(HERE, "..", "clients", "setup.sh"), "pyarrow"], capture_output=True, text=True)
    if r.returncode == 77:
        raise Skip(r.stderr.strip().splitlines()[-1])
    assert r.returncode == 0, r.stderr
    site, = glob.glob(os.path.join(r.stdout.strip(), "lib", "python*", "site-packages"))
    home = cell("import site; print(site.getusersitepackages())", name).strip()
    for path in glob.glob(os.path.join(site, "pyarrow*")):
        box("cp", "-r", path, f"{name}:{home}/{os.path.basename(path)}", check=True)


READ = """
import json, pyarrow, pyarrow.parquet, pyarrow.feather
def read(path):
    t = pyarrow.parquet.read_table(path) if path.endswith("parquet") else pyarrow.feather.read_table(path, memory_map=False)
    return [[f.name, str(f.type)] for f in t.schema], [list(map(str, row)) for row in zip(*(c.to_pylist() for c in t.columns))]
"""


def test_other_formats():
    box("run", "--image", image, "--disk", "1G", "--session", "arrow", "-c", "pass", check=True)
    a = ask("SELECT * FROM big", session_id="arrow", format="parquet")
    assert a["kind"] == "no_driver" and "%pip install pyarrow" in a["message"], a
    assert parts(session="arrow").strip() == "[]"
    arrow_session("arrow")
    cell(READ, "arrow")
    for name in "parquet", "arrow":
        a = ask("SELECT * FROM kinds ORDER BY a NULLS LAST", session_id="arrow", path=f"kinds.{name}", format=name)
        assert a.get("delivery") == "file" and a["format"] == name and a["row_count"] == 3 and a["columns"][0] == {"name": "a", "type": "int8"}, a
        said = json.loads(cell(f"print(json.dumps(read('kinds.{name}')))", "arrow"))
        assert said[0] == [["a", "int64"], ["b", "decimal128(10, 2)"], ["c", "bool"], ["d", "binary"], ["e", "date32[day]"],
                           ["f", "string"], ["g", "string"], ["h", "string"]], said[0]
        assert said[1] == [["0", "0.00", "False", "b''", "2020-01-01", "", "null", ""],
                           ["9007199254740993", "1.50", "True", r"b'\x00\xff'", "2020-02-29", "ä", '{"a": 1}', 'a\r\n"b"'],
                           ["None"] * 8], said[1]
        for connection in "pg", "my":  # a file, whose name is made up
            a = ask("SELECT * FROM big", connection, session_id="arrow", format=name)
            assert a["row_count"] == 100000 and a["path"].endswith("." + name), a
            assert cell(f"s, rows = read('{a['path']}'); len(rows), rows[-1][:2]", "arrow").strip() == "(100000, ['100000', 'name 100000'])"
        # One column, with NULL beside what looks like it; no rows at all; names that are the same.
        a = ask("SELECT x FROM (VALUES (NULL), (''), ('NULL'), (E'a\nb'), (NULL)) v(x)", session_id="arrow", path=f"one.{name}", format=name)
        assert cell(f"read('one.{name}')[1]", "arrow").strip() == r"[['None'], [''], ['NULL'], ['a\nb'], ['None']]", a
        a = ask("SELECT 1 AS a, 2 AS a, 1.5::float8 AS f, timestamp '2020-01-02 03:04:05.678' AS t WHERE false", session_id="arrow",
                path=f"none.{name}", format=name)
        said = cell(f"print(read('none.{name}'))", "arrow").strip()
        assert said == "([['a', 'int64'], ['a_1', 'int64'], ['f', 'double'], ['t', 'timestamp[us]']], [])", said
    a = ask("SELECT 18446744073709551615 AS u, CAST('2020-01-02 03:04:05' AS DATETIME) AS t, 0.1e0 AS f", "my", session_id="arrow",
            path="u.parquet", format="parquet")
    assert cell("print(read('u.parquet'))", "arrow").strip() == (
        "([['u', 'uint64'], ['t', 'timestamp[us]'], ['f', 'double']], [['18446744073709551615', '2020-01-02 03:04:05', '0.1']])"), a
    cell("""import sqlite3; db = sqlite3.connect('a.db'); db.executescript('''CREATE TABLE t (i, f, s, b, n);
        INSERT INTO t WITH RECURSIVE a(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM a WHERE x < 5000)
        SELECT x, x / 2.0, char(228), x'00ff', NULL FROM a''')""", "arrow")
    a = ask("SELECT * FROM t ORDER BY i", "a.db", session_id="arrow", path="lite.arrow", format="arrow")
    assert a.get("row_count") == 5000 and a["format"] == "arrow", a
    assert cell("s, rows = read('lite.arrow'); print((s, len(rows), rows[-1]))", "arrow").strip() == (
        r"([['i', 'int64'], ['f', 'double'], ['s', 'string'], ['b', 'binary'], ['n', 'string']], 5000, "
        r"""['5000', '2500.0', 'ä', "b'\\x00\\xff'", 'None'])"""), a
    a = ask("SELECT CASE WHEN i > 4000 THEN 'text' ELSE i END FROM t", "a.db", session_id="arrow", path="partial.arrow", format="arrow")
    assert a["kind"] == "query_failed" and "several types" in a["message"], a
    assert "file_exists" == ask("SELECT 1", session_id="arrow", path="u.parquet", format="parquet")["kind"]
    assert ask("SELECT 1", session_id="arrow", format="arrow")["rows"] == [[1]]  # few rows are the answer
    for bad in {"format": "xlsx", "session_id": "arrow"}, {"format": "arrow"}:
        assert ask("SELECT 1", **bad)["kind"] == "invalid_argument"
    r = box("sql", "pg", "SELECT * FROM t", "--session", "arrow", "--output", "t.parquet", "--format", "parquet")
    assert r.returncode == 0 and "5 rows" in r.stdout, r.stderr
    assert parts(session="arrow").strip() == "[]"


def test_other_formats_are_whole_or_not_there():
    """Whoever leaves, whatever dies, and when the disk is full."""
    box("run", "--image", image, "--disk", "400M", "--session", "arrow2", "-c", "pass", check=True)
    arrow_session("arrow2")
    cell("import glob\ndef writers():\n    found = []\n    for p in glob.glob('/proc/[0-9]*/cmdline'):\n        try:\n"
         "            found += [int(p.split('/')[2])] * ('query.py' in open(p).read())\n        except OSError:\n            pass\n"
         "    return found", "arrow2")
    slow = "SELECT a.i, repeat('x', 1000), pg_sleep(0.001) FROM big a"

    def writes():
        return cell("writers()", "arrow2").strip() != "[]"

    with Control(box) as c:
        c.send("sql", connection="pg", code=slow, session_id="arrow2", path="partial.parquet", format="parquet")
        assert wait_until(writes, 60)
        c.sock.shutdown(socket.SHUT_RDWR)
    assert wait_until(lambda: not writes(), 60) and wait_until(lambda: not running("pg"), 60)
    with Control(box) as c:
        want = c.send("sql", connection="pg", code=slow, session_id="arrow2", path="partial.parquet", format="parquet")
        assert wait_until(writes, 60)
        cell("import os; [os.kill(p, 9) for p in writers()]", "arrow2")
        said = c.recv()
        assert said["id"] == want and said["error"]["kind"] == "query_failed", said
    assert wait_until(lambda: not running("pg"), 60)
    a = ask("SELECT i, repeat('x', 4000) FROM big", session_id="arrow2", path="partial.arrow", format="arrow")
    assert a["kind"] in ("disk_full", "file_error"), a
    assert parts(session="arrow2").strip() == "[]"
    box("session", "rm", "arrow2", check=True)


def test_limits():
    b = box_with(rows=50, inline_rows=10, result_size="2K", query_timeout="2s")
    cell("pass", b=b)
    small = "SELECT i FROM big ORDER BY i LIMIT 40"
    assert ask(small, b=b)["row_count"] == 10
    assert ask(small, b=b, session_id="s")["row_count"] == 40
    a = ask("SELECT i FROM big", b=b, session_id="s", path="partial.csv")
    assert a["kind"] == "result_too_large" and "50 rows" in a["message"], a
    a = ask("SELECT name || repeat('x', 200) FROM big LIMIT 40", b=b, session_id="s", path="partial.csv")
    assert a["kind"] == "result_too_large" and "sql.result_size" in a["message"], a
    a = ask("SELECT repeat('x', 20000) FROM t AS a, t AS b")
    assert a["more"] and 0 < a["row_count"] < 10, a["row_count"]
    for value in "NULL", r"repeat(E'\x01', 9)":
        a = ask("SELECT " + ", ".join([value] * 900) + " FROM big LIMIT 90")
        assert a["more"] and 0 < a["row_count"] < 90 and len(json.dumps(a)) < 500000, (a["row_count"], len(json.dumps(a)))
    a = ask("SELECT repeat('x', 17000000)")  # which takes its time where the machine is busy
    assert a["kind"] == "result_too_large" and "a value" in a["message"], a
    a = ask("SELECT %s" % ",".join(map(str, range(1001))), b=b)
    assert "columns" in a["message"], a
    for connection, slow in (("pg", "SELECT count(*) FROM big a, big b, big c"), ("my", "SELECT COUNT(*) FROM big a, big b, big c"),
                             ("lite", "WITH RECURSIVE a(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM a) SELECT COUNT(x) FROM a")):
        a = ask(slow, connection, b=b)
        assert a["kind"] == "timeout" and "2 s" in a["message"], (connection, a)
    for connection in "pg", "my":
        gone(connection, "the time is over")
    assert parts(b).strip() == "[]", parts(b)
    with Control(b) as c:
        ids = {c.send("sql", connection="pg", code="SELECT pg_sleep(1)") for _ in range(17)}
        kinds = [c.recv().get("error", {}).get("kind") for _ in ids]
    assert kinds.count("busy") == 1, kinds
    b.stop()


# ---- what is not to be seen ----

def test_passwords():
    """It is in no argument, environment, log, error or session, and in no memory that others can look at."""
    needle = PASSWORD[:15].encode()
    c = Control(box)
    c.send("sql", connection="pg", code="SELECT pg_sleep(20)")
    assert wait_until(lambda: running("pg"), 20)
    daemon = box.daemon_pid()
    processes = [daemon, *children(daemon)]
    assert any(command(p) == "codebox-sql" for p in processes), [command(p) for p in processes]
    for p in processes:
        for name in "cmdline", "environ":
            try:
                with open(f"/proc/{p}/{name}", "rb") as f:
                    assert needle not in f.read(), (command(p), name)
            except PermissionError:
                assert os.geteuid() != 0
        if command(p) == "codebox-sql":
            with open(f"/proc/{p}/limits") as f:
                assert any(line.split()[:6] == ["Max", "core", "file", "size", "0", "0"] for line in f), p
    c.sock.shutdown(socket.SHUT_RDWR)
    assert needle.decode() not in cell("import os; str(os.environ) + open('/proc/self/cmdline').read()")
    log = os.path.join(box.env["CODEBOX_STATE_DIR"], "codeboxd.log")
    with open(log, errors="replace") as f:
        assert needle.decode() not in f.read()
    wrong = box_with(connections={"a": {**CONNECTIONS["pg"], "user": "nobody"}})
    a = ask("SELECT 1", "a", b=wrong)
    assert a["kind"] == "connection_failed" and needle.decode() not in a["message"], a
    r = wrong("policy", "show", wrong.env["CODEBOX_POLICY"])
    assert "SHOP_PASSWORD" in r.stdout and needle.decode() not in r.stdout
    wrong.stop()
    # From a file, and from a credential of systemd; others must not be able to read either.
    b = Box(CODEBOX_POOL="0")
    file = os.path.join(b.dir, "password")
    b.env["CREDENTIALS_DIRECTORY"] = b.dir
    with open(file, "w") as f:
        f.write(PASSWORD + "\n")
    os.chmod(file, 0o600)
    with open(os.path.join(b.dir, "long"), "w") as f:
        f.write("x" * 5000)
    os.chmod(os.path.join(b.dir, "long"), 0o600)
    with open(os.path.join(b.dir, "open"), "w") as f:
        f.write(PASSWORD)
    os.chmod(os.path.join(b.dir, "open"), 0o644)
    sources = {"file": {"file": file}, "credential": {"credential": "password"}, "long": {"credential": "long"},
               "open": {"credential": "open"}, "unset": {"environment": "NOT_SET"}}
    policy = os.path.join(b.dir, "policy.json")
    with open(policy, "w") as f:
        json.dump({"sql": {"connections": {k: {**CONNECTIONS["pg"], "password": v} for k, v in sources.items()}}}, f)
    b.env["CODEBOX_POLICY"] = policy
    for name, part in ("file", None), ("credential", None), ("long", "read"), ("open", "chmod 600"), ("unset", "was not set"):
        a = ask("SELECT 1", name, b=b)
        if part:
            assert a["kind"] == "no_password" and part in a["message"], (name, a)
        else:
            assert a["rows"] == [[1]], (name, a)
    b.stop()


# ---- front ends ----

def test_without_databases_nothing_is_there():
    b = Box(CODEBOX_POOL="0")
    r = b("sql", "pg", "SELECT 1")
    assert r.returncode == 1 and "database not configured" in r.stderr, r.stderr
    r, = mcp(b, ("tools/call", {"name": "run_sql", "arguments": {"query": "SELECT 1"}}))
    assert r["result"]["isError"] and "database not configured" in r["result"]["content"][0]["text"], r
    assert not [p for p in children(b.daemon_pid()) if command(p) == "codebox-sql"]
    b.stop()
    b = box_with(allow=["lite"])
    assert ask("SELECT id FROM t WHERE id = 1", "lite", b=b)["rows"] == [[1]]
    a = ask("SELECT 1", "pg", b=b)
    assert a["kind"] == "no_connection" and "there are: lite" in a["message"], a
    b.stop()


def mcp(b, *requests):
    p = b.popen("mcp", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    for i, (method, params) in enumerate([("initialize", hello), *requests]):
        p.stdin.write(json.dumps({"jsonrpc": "2.0", "id": i, "method": method, "params": params}) + "\n")
    p.stdin.flush()
    answers = {}
    while len(answers) <= len(requests):
        said = json.loads(p.stdout.readline())
        if "id" in said and "method" not in said:
            answers[said["id"]] = said
    p.stdin.close()
    p.wait()
    return [answers[i + 1] for i in range(len(requests))]


def tools(b):
    return [t["name"] for t in mcp(b, ("tools/list", {}))[0]["result"]["tools"]]


def test_mcp():
    assert "run_sql" in tools(box)
    r, = mcp(box, ("tools/call", {"name": "run_sql", "arguments": {"connection": "pg", "query": "SELECT id, name FROM t WHERE id = ?",
                                                                   "parameters": [2]}}))
    assert r["result"]["structuredContent"]["rows"] == [[2, 'name, "2"']], r
    assert "id | name" in r["result"]["content"][0]["text"], r
    r, = mcp(box, ("tools/call", {"name": "run_sql", "arguments": {"connection": "my", "query": "SELECT * FROM big"}}))
    assert r["result"]["structuredContent"]["row_count"] == 100000 and "pandas.read_csv" in r["result"]["content"][0]["text"], r
    r, = mcp(box, ("tools/call", {"name": "run_sql", "arguments": {"connection": "pg", "query": "DROP TABLE t"}}))
    assert r["result"]["isError"] and "(rule not_a_query)" in r["result"]["content"][0]["text"], r


def test_a_table_on_the_terminal():
    r = box("sql", "lite", "SELECT id, name FROM t ORDER BY id")
    assert r.stdout.splitlines() == ["id  name", "1   a", "2   NULL", "3   "], r.stdout
    a = box.json("sql", "lite", "SELECT id FROM t WHERE id = 1", "--json")
    assert a["columns"] == [{"name": "id", "type": "INTEGER"}] and a["rows"] == [[1]], a
    r = box("sql", "lite", "DELETE FROM t")
    assert r.returncode == 1 and "must start with SELECT or WITH" in r.stderr, r.stderr


if __name__ == "__main__":
    run(globals())
