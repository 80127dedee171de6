#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL's values are what the server writes, by all the ways that a result takes: as an answer, into a file as the server's own
CSV, and into a file row by row where a query has parameters. And a query cannot get out of what is put around it for that."""
import csv
import io
import json
import os
import socket
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import run  # noqa: E402
from databases import PASSWORD  # noqa: E402
from shop import CONNECTIONS, ask, box_with, cell, pg, place  # noqa: E402

UNJUDGED = os.path.join(os.environ.get("BUILD_DIR", os.getcwd()), "tests", "integration", "sql_unjudged")
# The type as results name it, an expression, and its text.
VALUES = [
    ("int2", "int2 '1'", "1"), ("int4", "int4 '-5'", "-5"), ("int8", "int8 '9007199254740993'", "9007199254740993"), ("oid", "oid '77'", "77"),
    ("float4", "float4 '1.1'", "1.1"), ("float8", "float8 '0.1'", "0.1"), ("float8", "float8 'NaN'", "NaN"), ("float8", "float8 '-Infinity'", "-Infinity"),
    ("float8", "float8 '1e300'", "1e+300"), ("numeric", "numeric '1.50'", "1.50"), ("numeric", "numeric(10,2) '3.5'", "3.50"),
    ("numeric", "numeric 'NaN'", "NaN"), ("numeric", "numeric(28,6) '1'", "1.000000"), ("bytea", "bytea '\\x00ff'", "00ff"), ("bytea", "bytea ''", ""),
    ("text", "text 'a,\"b\"'", 'a,"b"'), ("text", "E'a\\r\\nb'", "a\r\nb"), ("text", "text ''", ""), ("text", "E'\\\\.'", "\\."), ("varchar", "varchar(10) 'w'", "w"),
    ("bpchar", "char(5) 'y'", "y    "), ("char", "\"char\" 'c'", "c"), ("name", "name 'nn'", "nn"), ("date", "date '2020-02-29'", "2020-02-29"),
    ("date", "date 'infinity'", "infinity"), ("date", "date '0044-03-15 BC'", "0044-03-15 BC"),
    ("timestamp", "timestamp '2020-01-02 03:04:05.678'", "2020-01-02 03:04:05.678"), ("timestamp", "timestamp '-infinity'", "-infinity"),
    ("timestamptz", "timestamptz '2020-01-02 03:04:05.5+02'", "2020-01-02 01:04:05.5+00"), ("time", "time '24:00'", "24:00:00"),
    ("timetz", "timetz '03:04:05+02'", "03:04:05+02"), ("interval", "interval '1 year 2 days 03:04:05.5'", "1 year 2 days 03:04:05.5"),
    ("uuid", "uuid 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), ("json", "json '{\"a\": [1, null]}'", '{"a": [1, null]}'),
    ("jsonb", "jsonb '{\"b\":1}'", '{"b": 1}'), ("inet", "inet '10.0.0.1/8'", "10.0.0.1/8"), ("bit", "bit(3) '101'", "101"),
    ("_int4", "ARRAY[1, NULL]", "{1,NULL}"), ("_text", "ARRAY['a', 'b c', NULL, 'NULL']", '{a,"b c",NULL,"NULL"}'), ("_bool", "ARRAY[true, false]", "{t,f}"),
    ("point", "point '(1,2)'", "(1,2)"), ("int4range", "int4range '[1,5)'", "[1,5)"), ("record", "ROW(1, true)", "(1,t)"),
]


def in_file(name, query, **params):
    """Its columns, and the lines of the file that it becomes."""
    a = ask(query, session_id="s", path=name, **params)
    assert a.get("delivery") == "file", (query, a)
    text = eval(cell(f"import os; t = open({name!r}, newline='').read(); os.unlink({name!r}); t"))
    assert text.endswith("\r\n"), text[-20:]
    return a["columns"], list(csv.reader(io.StringIO(text, newline=""))), text


def test_every_way_has_the_servers_text():
    pg.sql("ALTER ROLE reader SET datestyle = 'German'; ALTER ROLE reader SET bytea_output = 'escape'; ALTER ROLE reader SET timezone = 'UTC'")
    cell("pass")
    names = [f"c{i}" for i in range(len(VALUES))]
    query = "SELECT true AS yes, NULL::bool AS maybe, false AS no, " + ", ".join(f"{e} AS {n}" for (_, e, _), n in zip(VALUES, names))
    wanted = [t for t, _, _ in VALUES]
    a = ask(query)
    assert [c["type"] for c in a["columns"]][3:] == wanted, a["columns"]
    row, = a["rows"]
    assert row[:3] == [True, None, False], row
    for (_, expression, text), value in zip(VALUES, row[3:]):
        if isinstance(value, (int, float)):  # as JSON has numbers
            assert float(text) == value, (expression, value)
        else:
            assert value == text, (expression, value)
    by_copy = in_file("copy.csv", query + " WHERE 1 = 1")
    by_row = in_file("row.csv", query + " WHERE 1 = ?", parameters=[1])
    assert by_copy == by_row, (by_copy, by_row)
    columns, (head, line), _ = by_copy
    assert [c["type"] for c in columns][3:] == wanted and head[3:] == names, columns
    assert line == ["true", "", "false"] + [text for _, _, text in VALUES], line
    pg.sql("ALTER ROLE reader RESET ALL")


def test_null_and_nothing():
    """NULL is an empty field and an empty text is "", and a line is never empty; and a name may be there twice."""
    cell("pass")
    for more, parameters in ("", []), (" WHERE 1 = ?", [1]):
        _, _, text = in_file("n.csv", "SELECT a, b FROM (VALUES (NULL, ''), ('', NULL), (NULL, NULL)) v(a, b)" + more, parameters=parameters)
        assert text == 'a,b\r\n,""\r\n"",\r\n,\r\n', text
        _, _, text = in_file("n.csv", "SELECT a FROM (VALUES (NULL), (''), ('x')) v(a)" + more, parameters=parameters)
        assert text == 'a\r\n""\r\n""\r\nx\r\n', text
        columns, rows, _ = in_file("n.csv", "SELECT true AS x, 2 AS x, bytea 'a' AS \"x y\" FROM (VALUES (1)) v" + more, parameters=parameters)
        assert rows == [["x", "x", "x y"], ["true", "2", "61"]], rows
        _, rows, _ = in_file("n.csv", "SELECT i FROM generate_series(1, 5) AS g(i) WHERE false" + more.replace("WHERE", "AND"), parameters=parameters)
        assert rows == [["i"]], rows
        _, rows, _ = in_file("n.csv", "WITH a AS (SELECT i % 2 = 0 AS even, i FROM generate_series(1, 1000) AS g(i)) SELECT * FROM a" + more +
                             " ORDER BY i DESC LIMIT 900", parameters=parameters)
        assert rows[1:] == [["true" if i % 2 == 0 else "false", str(i)] for i in range(1000, 100, -1)], rows[:3]


def test_parameters_have_their_types():
    a = ask("SELECT ?, ?, ?, ?, ?, ?, ?", parameters=[1, 2.5, True, "x", None, 1 << 40, False])
    assert a["rows"] == [[1, 2.5, True, "x", None, 1 << 40, False]], a
    a = ask("SELECT substr('hello', ?), ?::text || 'a', ? || 'b', ?::date, '?', \"?\", ? FROM (SELECT 1 AS \"?\") t LIMIT ?",
            parameters=[2, 7, "t'\"$1", "2020-01-01", "last", 1])
    assert a["rows"] == [["ello", "7a", "t'\"$1b", "2020-01-01", "?", 1, "last"]], a
    assert "syntax error" in ask("SELECT ?1", parameters=[1])["message"]  # a parameter and a number, not the parameter 11
    assert "write parameters as ?" in ask("SELECT $1")["message"]


class Worker:
    """codebox-sql without its judge, asked for files."""

    def __enter__(self):
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = subprocess.Popen(["sh", "-c", 'exec "$0" 3<&%d' % theirs.fileno(), UNJUDGED], pass_fds=[theirs.fileno()],
                                        stderr=subprocess.PIPE, text=True)
        theirs.close()
        return self

    def ask(self, query, **more):
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        socket.send_fds(self.sock, [b"j"], [theirs.fileno()])
        theirs.close()
        c = {"tls": "off", **CONNECTIONS["pg"]}
        c.pop("password", None)
        mine.sendall(json.dumps({"connection": c, "password": PASSWORD, "query": query, "parameters": [], "inline_rows": 10,
                                 "inline_bytes": 10000, "rows": 100, "bytes": 100000, "timeout_ms": 20000, "delivery": "file", **more}).encode())
        mine.shutdown(socket.SHUT_WR)
        frames = []
        with mine, mine.makefile("rb") as f:
            while head := f.read(4):
                frames.append(f.read(struct.unpack("<I", head)[0]))
        data = b"".join(f[1:] for f in frames if f[:1] == b"d")
        return data.decode(), json.loads(frames[-1][1:])

    def __exit__(self, *_):
        self.sock.close()
        self.said = self.process.communicate()[1]


def test_nothing_gets_out_of_what_is_put_around_it():
    """Without the judge: what is written to leave the parenthesis, or the string for NULL, runs nothing."""
    trace = os.path.join(place, "trace")
    with Worker() as w:
        assert w.ask("SELECT 1 AS a") == ("a\r\n1\r\n", {"row_count": 1})
        assert w.ask("SELECT NULL AS a, 1 AS b", null="it's \\ null") == ("a,b\r\nit's \\ null,1\r\n", {"row_count": 1})
        for query in (f"SELECT 1) TO PROGRAM 'touch {trace}' --", f"SELECT 1) TO '{trace}' WITH (FORMAT csv", f"SELECT 1) TO '{trace}'; SELECT (1",
                      "SELECT 1) TO STDOUT; DELETE FROM t; SELECT (1", "DELETE FROM t RETURNING id", "WITH a AS (DELETE FROM t RETURNING id) SELECT * FROM a",
                      "SELECT true; DELETE FROM t", "SELECT true AS a) AS q(c0)) TO STDOUT; DELETE FROM t; --", "SELECT 1 INTO made", "SELECT nextval('s')"):
            data, end = w.ask(query)
            assert end["kind"] == "query_failed" and not data, (query, data, end)
        for null in f"') TO PROGRAM 'touch {trace}' --", "', HEADER) ; DELETE FROM t; --", 'a"b', "a,b", "a\nb":
            data, end = w.ask("SELECT NULL AS a, 1 AS b", null=null)
            assert end.get("kind") == "query_failed" or data == f"a,b\r\n{null},1\r\n", (null, data, end)
    assert not os.path.exists(trace) and pg.sql("SELECT count(*) FROM t; SELECT is_called FROM s; SELECT to_regclass('made')", "shop").split() == ["5", "f"]


def test_limits():
    cell("pass")
    a = ask("SELECT repeat('x', 40000000) AS a, repeat('y', 40000000) AS b", session_id="s", path="long.csv")
    assert a["kind"] == "result_too_large" and "a row has more than 67108864 bytes" in a["message"], a
    a = ask("SELECT repeat('x', 17000000)::text WHERE 1 = ?", session_id="s", path="long.csv", parameters=[1])
    assert a["kind"] == "result_too_large" and "a value has more than 16777216 bytes" in a["message"], a
    b = box_with(rows=50)
    b("run", "--image", b.image("python", "python-minimal"), "--session", "s", "-c", "pass", check=True)
    a = ask("SELECT i FROM big", b=b, session_id="s", path="few.csv")
    assert a["kind"] == "result_too_large" and "sql.rows" in a["message"], a
    b("stop")
    assert cell("import os; sorted(n for n in os.listdir() if n.endswith('.csv'))").strip() == "[]"


def test_what_a_function_says_goes_nowhere():
    pg.sql("""CREATE FUNCTION says() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'said by a function'; RETURN 1; END $$""", "shop")
    with Worker() as w:
        assert w.ask("SELECT says() AS a") == ("a\r\n1\r\n", {"row_count": 1})
    assert not w.said, w.said


if __name__ == "__main__":
    run(globals())
