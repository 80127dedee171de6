# SPDX-License-Identifier: Apache-2.0
"""%sql and %%sql: a cell asks a database, as with ipython-sql and jupysql, and gets a data frame.

    %%sql shop [orders <<]          a connection of the policy, or a file of SQLite or DuckDB in the session
    SELECT * FROM orders WHERE city = :city

codebox asks (pip.py says by which door), by its policy and its limits, and writes the result to a file, which becomes a
data frame of pandas, or of polars, or a list of dictionaries. :name is the value of a variable, bound, never pasted.
"""
import os
import re

DOOR = "\0codebox"
QUESTION_MAX = 16 << 10
ANSWER_MAX = 64 << 10
# Strings, names in quotes, comments and casts; what is left is a variable.
PIECES = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|::|(?<![\w:]):([A-Za-z_]\w*)""", re.DOTALL)
INTEGERS = re.compile(r"u?(tiny|small|medium|big|huge)?int(eger|\d*)\b|(big|small)?serial", re.IGNORECASE)
NUMBERS = re.compile(r"float|double|real|numeric|decimal|(small)?money", re.IGNORECASE)
TIMES = re.compile(r"date|timestamp|smalldatetime", re.IGNORECASE)
BOOLEANS = re.compile(r"bool|bit", re.IGNORECASE)


class Refused(Exception):
    pass


# ---- what is asked ----

def parse(line, body):
    """(connection, variable, query); the first two may be None."""
    first = line.strip().split(None, 1)[0] if line.strip() else ""
    if first.lower() in ("select", "with"):
        return None, None, line + "\n" + (body or "")
    named = re.match(r"""\s*("[^"\n]+"|'[^'\n]+'|\S+)\s*(.*)""", line, re.DOTALL)
    connection, rest = (named.group(1).strip("\"'"), named.group(2)) if named else (None, "")
    if rest.startswith("<<") and connection.isidentifier():  # no connection
        return None, connection, rest[2:] + "\n" + (body or "")
    given = re.match(r"([A-Za-z_]\w*)\s*<<", rest)
    variable = given.group(1) if given else None
    return connection, variable, (rest[given.end():] if given else rest) + "\n" + (body or "")


def bind(query, ns):
    values = []

    def value(m):
        name = m.group(1)
        if name is None:
            return m.group(0)
        if name not in ns:
            raise Refused(":%s: there is no variable of this name" % name)
        found = ns[name]
        if hasattr(found, "item") and not isinstance(found, (str, bytes)):  # a number of numpy
            found = found.item()
        if found is not None and not isinstance(found, (str, int, float, bool)):
            found = str(found)
        values.append(found)
        return "?"

    return PIECES.sub(value, query), values


def ask(question):
    import _socket
    import json
    data = json.dumps(question, ensure_ascii=False).encode("utf-8", "replace")
    if len(data) > QUESTION_MAX:
        raise Refused("the query and its parameters have more than %d bytes" % QUESTION_MAX)
    door = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    try:
        door.connect(DOOR)
        door.send(data)
        answer = door.recv(ANSWER_MAX)
    except OSError as e:
        raise Refused("codebox cannot be asked here: %s" % e)
    finally:
        door.close()
    answer = json.loads(answer.decode("utf-8", "replace")) if answer else {"error": {"message": "the query was given up"}}
    if "error" in answer:
        raise Refused(answer["error"]["message"])
    return answer


# ---- what comes of it ----

def kind_of(column):
    for kind, pattern in ("integer", INTEGERS), ("number", NUMBERS), ("boolean", BOOLEANS), ("time", TIMES):
        if pattern.match(column["type"]):
            return kind
    return "text"


def with_pandas(pandas, path, columns, null):
    kinds = [kind_of(c) for c in columns]
    dtypes = {"integer": "Int64", "number": "float64"}

    def read(how):
        absent = {i: [null, "NaN"] if k == "number" else [null] for i, k in enumerate(kinds)}
        return pandas.read_csv(path, header=0, names=range(len(columns)), index_col=False, dtype=how, na_values=absent,
                               keep_default_na=False, low_memory=False, encoding_errors="replace")

    try:
        frame = read({i: dtypes.get(k, str) for i, k in enumerate(kinds)})
    except (ValueError, TypeError, OverflowError):  # a column has other values than its type says
        frame = read(str)
    done = []
    for i, kind in enumerate(kinds):
        done.append(finish(pandas, frame.pop(i), kind))
    frame = pandas.concat(done, axis=1) if done else frame
    frame.columns = [c["name"] for c in columns]
    return frame


def finish(pandas, column, kind):
    empty = column.isna()
    if str(column.dtype) == "Int64":
        return column if empty.any() else column.astype("int64")
    if column.dtype == float:
        return column
    try:
        if kind == "integer":
            column = column.map(int, na_action="ignore").astype("Int64")
            return column if empty.any() else column.astype("int64")
        if kind == "number":
            return pandas.to_numeric(column)
        if kind == "time" and not empty.all():
            return pandas.to_datetime(column)
    except (ValueError, TypeError, OverflowError):
        pass
    if kind == "boolean" and column[~empty].isin(["true", "false"]).all():
        column = column.map({"true": True, "false": False})
        if not empty.any():
            return column.astype(bool)
    return column.astype(object).where(~empty, None)


def with_polars(polars, path, columns, null):
    types = {"integer": polars.Int64, "number": polars.Float64, "boolean": polars.Boolean}
    frame = polars.read_csv(path, has_header=False, null_values=[null], missing_utf8_is_empty_string=True, infer_schema=False,
                            encoding="utf8-lossy")[1:]
    made = []
    for name, c in zip(frame.columns, columns):
        column, how = frame[name], types.get(kind_of(c), polars.String)
        try:
            column = column == "true" if how == polars.Boolean and column.is_in(["true", "false"]).all() else column.cast(how)
        except polars.exceptions.PolarsError:
            pass
        made.append(column)
    return polars.DataFrame({unique: m for unique, m in zip(distinct([c["name"] for c in columns]), made)})


def distinct(names):
    """Polars has no two columns of one name."""
    seen, out = {}, []
    for name in names:
        seen[name] = seen.get(name, -1) + 1
        out.append("%s_%d" % (name, seen[name]) if seen[name] else name)
    return out


def value_of(text, kind, null):
    if text == null:
        return None
    try:
        if kind == "integer":
            return int(text)
        if kind == "number":
            return float(text)
    except ValueError:
        return text
    return text == "true" if kind == "boolean" and text in ("true", "false") else text


def as_rows(path, columns, null):
    import csv
    kinds = [kind_of(c) for c in columns]
    names = distinct([c["name"] for c in columns])
    longest = csv.field_size_limit(1 << 30)  # what codebox lets pass
    try:
        with open(path, newline="", encoding="utf-8", errors="replace") as f:
            rows = csv.reader(f)
            next(rows)
            return [{n: value_of(v, k, null) for n, v, k in zip(names, row, kinds)} for row in rows]
    finally:
        csv.field_size_limit(longest)


def load(path, columns, null):
    try:
        import pandas
        return with_pandas(pandas, path, columns, null)
    except ImportError:
        pass
    try:
        import polars
        return with_polars(polars, path, columns, null)
    except ImportError:
        return as_rows(path, columns, null)


def run(ns, line, body, error):
    """The value of the magic; what is refused is raised as `error`."""
    null = "N" + os.urandom(6).hex()  # no value is this
    path = "/tmp/.sql-%s.csv" % null
    try:
        connection, variable, query = parse(line, body)
        if not query.strip():
            raise Refused("give a query, as in: %%sql shop [name <<], and SELECT in the next line")
        query, values = bind(query, ns)
        question = {"query": query, "parameters": values, "path": path, "null": null}
        if connection:
            question["connection"] = connection
        answer = ask(question)
        frame = load(path, answer["columns"], null)
    except Refused as e:
        raise error("sql: %s" % e) from None
    finally:
        try:
            os.unlink(path)
        except OSError:
            pass
    if variable is None:
        return frame
    ns[variable] = frame
    return None
