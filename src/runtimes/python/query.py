# SPDX-License-Identifier: Apache-2.0
"""Ask a database that is a file of the session, SQLite or DuckDB: a program of its own in the sandbox, for run_sql. It writes
files of Arrow and Parquet, too, also of rows of other databases, which follow the question as CSV.

The question is a line of JSON on standard input, judged by codeboxd; the answer is one on standard output. The file is
opened read-only. What an interrupted writer left beside it (a hot journal) only a writer could clean up, so then a copy
is asked. A result that is a file gets its name when it is complete, and not before.
"""
import csv
import errno
import io
import itertools
import json
import os
import re
import sys
import tempfile
import threading

BATCH = 500
PIECE = 1 << 20
PLAIN = {int, float, str, type(None)}
NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]+)?\Z")
SQLITE_TYPES = {int: "INTEGER", float: "REAL", str: "TEXT", bytes: "BLOB"}


class Refused(Exception):
    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


def user_site():
    """Where packages of the session are."""
    import site
    site.addsitedir(site.getusersitepackages())


# ---- SQLite ----

def sqlite_open(path):
    """A connection that only reads, and what is to be checked when all is read."""
    import sqlite3
    import urllib.parse

    def attempt(name, how):
        db = sqlite3.connect("file:%s?%s" % (urllib.parse.quote(os.path.abspath(name)), how), uri=True, timeout=2,
                             isolation_level=None, check_same_thread=False)
        try:
            db.execute("SELECT 1 FROM sqlite_master").fetchall()
        except sqlite3.DatabaseError:
            db.close()
            raise
        return db

    with open(path, "rb") as f:
        log = f.read(20)[18:] == b"\2\2"  # it has a write-ahead log while it is in use
    if log and not os.path.exists(path + "-wal"):
        before = os.stat(path)
        return attempt(path, "mode=ro&immutable=1"), lambda: unchanged(path, before)  # else files of a log would be made
    try:
        return attempt(path, "mode=ro"), lambda: None
    except sqlite3.OperationalError:
        if not any(os.path.exists(path + end) for end in ("-wal", "-journal")):
            raise
    with tempfile.TemporaryDirectory(prefix=".query-") as place:
        import shutil
        copy = os.path.join(place, "copy")
        for end in "-journal", "-wal", "":
            if os.path.exists(path + end):
                shutil.copyfile(path + end, copy + end)
        return attempt(copy, "mode=rw"), lambda: None  # its names may go: it is open


def unchanged(path, before):
    after = os.stat(path)
    if (after.st_mtime_ns, after.st_size) != (before.st_mtime_ns, before.st_size):
        raise Refused("query_failed", "the file was written to while it was read; ask again")


def sqlite_limit(db):
    db.execute("PRAGMA query_only = 1")
    db.execute("PRAGMA trusted_schema = 0")
    if hasattr(db, "setlimit"):
        db.setlimit(0, 16 << 20)  # SQLITE_LIMIT_LENGTH
    db.text_factory = lambda b: b.decode("utf-8", "replace")


def sqlite_guard(db):
    """For statements of others: they read, and nothing else."""
    import sqlite3
    reads = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, 33}  # 33: SQLITE_RECURSIVE

    def allowed(action, first, second, place, trigger):
        if action not in reads or (action == sqlite3.SQLITE_FUNCTION and second == "load_extension"):
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    db.set_authorizer(allowed)


class SQLite:
    def __init__(self, path):
        self.db, self.check = sqlite_open(path)
        sqlite_limit(self.db)
        self.interrupt = self.db.interrupt

    def guard(self):
        sqlite_guard(self.db)

    def execute(self, query, parameters):
        self.cursor = self.db.execute(query, parameters)
        self.names = [d[0] for d in self.cursor.description or ()]
        self.found = [None] * len(self.names)

    def rows(self):
        while batch := self.cursor.fetchmany(BATCH):
            if None in self.found:
                for row in batch:
                    self.found = [have or SQLITE_TYPES.get(type(v)) for have, v in zip(self.found, row)]
            yield batch
        self.check()

    def types(self):
        """A column has no type in SQLite; its values have."""
        return [t or "NULL" for t in self.found]


# ---- DuckDB ----

class DuckDB:
    def __init__(self, path):
        user_site()
        try:
            import duckdb
        except ImportError:
            raise Refused("no_driver", "a DuckDB file needs Python's package duckdb, which neither the image nor the session "
                                       "has; install it (%pip install duckdb)")
        self.db = duckdb.connect(path, read_only=True, config={"enable_external_access": "false", "lock_configuration": "true"})
        self.interrupt = self.db.interrupt

    def guard(self):
        """Its configuration is one, from the start."""

    def execute(self, query, parameters):
        self.db.execute(query, parameters)
        described = self.db.description or ()
        self.names, self.kinds = [d[0] for d in described], [str(d[1]) for d in described]

    def rows(self):
        while batch := self.db.fetchmany(BATCH):
            yield batch

    def types(self):
        return self.kinds


# ---- a schema ----

def schema_of(kind, source):
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import tables
    found = tables.schema(kind, source.db)
    if kind == "sqlite":
        source.check()
    return found


# ---- values ----

def text_of(value):
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value, default=text_of, ensure_ascii=False)
    return repr(value) if isinstance(value, float) else str(value)


def json_value(value):
    """A number where every reader keeps all of its digits, as for other databases."""
    if value is None or isinstance(value, (bool, str)):
        return value
    text = text_of(value)
    if not isinstance(value, (dict, list, tuple, bytes)) and NUMBER.match(text) and len(text.strip("-").replace(".", "")) <= 17:
        return float(text) if "." in text else int(text)
    return text


def csv_row(row):
    """One with an empty text, which is not the same as NULL."""
    fields = []
    for value in row:
        text = "" if value is None else text_of(value)
        if (value is not None and not text) or any(c in text for c in ',"\r\n') or (value is None and len(row) == 1):
            text = '"%s"' % text.replace('"', '""')
        fields.append(text)
    return ",".join(fields) + "\r\n"


def csv_of(batch, null=None):
    out = io.StringIO(newline="")
    if null:
        batch = [[null if v is None else v for v in row] for row in batch]
    if not any("" in row for row in batch):
        if not PLAIN.issuperset(map(type, itertools.chain.from_iterable(batch))):
            batch = [[v if type(v) in PLAIN else text_of(v) for v in row] for row in batch]
        csv.writer(out).writerows(batch)
    else:
        for row in batch:
            out.write(csv_row(row))
    return out.getvalue()


# ---- a result ----

class Unnamed:
    """A file without a name, until it is complete."""

    def __init__(self, path, most):
        self.path, self.most, self.size = path, most, 0
        directory = os.path.dirname(path) or "."
        os.makedirs(directory, exist_ok=True)
        self.fd = os.open(directory, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o644)

    def write(self, data):
        data = memoryview(data)
        self.size += len(data)
        if self.size > self.most:
            raise Refused("result_too_large", "the result has more than %d bytes, the limit of the policy (sql.result_size); "
                                              "nothing of it was kept: ask for less" % self.most)
        while data:
            data = data[os.write(self.fd, data):]

    def name(self):
        self.close()
        # With a directory's descriptor: without one Python calls link(2), which does not follow.
        os.link(str(self.fd), self.path, src_dir_fd=os.open("/proc/self/fd", os.O_RDONLY), follow_symlinks=True)


    def close(self):
        pass


class File(Unnamed):
    """CSV."""

    def __init__(self, job, source):
        super().__init__(job["path"], job["bytes"])
        self.null = job.get("null")
        self.add([source.names], None)

    def add(self, rows, null=""):
        self.write(csv_of(rows, self.null if null == "" else null).encode("utf-8", "replace"))


class Table(Unnamed):
    """Arrow's file format, or Parquet, by pyarrow, some rows at a time."""

    def __init__(self, job, source):
        user_site()
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise Refused("no_driver", "the format %s needs Python's package pyarrow, which neither the image nor the session has; "
                                       "install it (%%pip install pyarrow), or ask for CSV" % job["format"])
        self.arrow, self.format, self.names = pyarrow, job["format"], unique(source.names)
        self.schema = self.writer = None
        self.waiting, self.held = [], 0
        super().__init__(job["path"], job["bytes"])

    # pyarrow writes to it as to any file.
    closed = False

    def flush(self):
        pass

    def tell(self):
        return self.size

    def begin(self, schema):
        self.schema = schema
        self.out = self.arrow.PythonFile(self, mode="w")
        if self.format == "parquet":
            self.writer = self.arrow.parquet.ParquetWriter(self.out, schema, compression="snappy")
        else:
            self.writer = self.arrow.ipc.new_file(self.out, schema)

    def add(self, rows):
        """Of values of Python."""
        arrow, columns = self.arrow, list(zip(*rows))
        if not rows:
            return
        if not self.schema:
            kinds = [kind_of(arrow, column) for column in columns]
            self.begin(arrow.schema(list(zip(self.names, kinds))))
        try:
            self.add_batch(arrow.RecordBatch.from_arrays(
                [arrow.array(fitted(arrow, f.type, column), f.type) for f, column in zip(self.schema, columns)], schema=self.schema))
        except (arrow.ArrowInvalid, arrow.ArrowTypeError, OverflowError) as e:
            raise Refused("query_failed", "a column has values of several types, which this format cannot have; ask for CSV: %s" % e)

    def add_batch(self, batch):
        if not self.schema:
            self.begin(batch.schema)
        self.waiting.append(batch)
        self.held += batch.nbytes
        if self.held > 8 * PIECE:
            self.put()

    def put(self):
        if self.waiting:
            self.writer.write_table(self.arrow.Table.from_batches(self.waiting, self.schema))
        self.waiting, self.held = [], 0

    def close(self):
        if not self.schema:
            self.begin(self.arrow.schema([(n, self.arrow.string()) for n in self.names]))
        self.put()
        self.writer.close()


def kind_of(arrow, column):
    """By the values that a column begins with: SQLite has no types, and DuckDB's come as Python's."""
    import datetime
    import decimal
    types = {type(v) for v in column} - {type(None)}
    if types <= {int} and types:
        return arrow.int64()
    if types <= {int, float} and types:
        return arrow.float64()
    simple = {bool: arrow.bool_(), bytes: arrow.binary(), datetime.date: arrow.date32(), datetime.datetime: arrow.timestamp("us")}
    if len(types) == 1 and (found := simple.get(*types)):
        return found
    if types == {decimal.Decimal}:
        return arrow.decimal128(38, max(0, max(-v.as_tuple().exponent for v in column if v is not None)))
    return arrow.string()


def fitted(arrow, kind, column):
    if arrow.types.is_string(kind):
        return [v if v is None or isinstance(v, str) else text_of(v) for v in column]
    if arrow.types.is_floating(kind):
        return [float(v) if type(v) is int else v for v in column]
    return column


def unique(names):
    """Readers of such files take no name twice."""
    seen, made = set(), []
    for i, name in enumerate(names):
        while name in seen:
            name = "%s_%d" % (name, i)
        seen.add(name)
        made.append(name)
    return made


def target(job, source):
    return Table(job, source) if job.get("format") else File(job, source)


# ---- rows of another database ----

class Columns:
    def __init__(self, job):
        self.names = [c["name"] for c in job["columns"]]


def arrow_kind(arrow, kind):
    word, *digits = kind.split()
    if word == "decimal":
        return arrow.decimal128(*map(int, digits))
    return {"int64": arrow.int64(), "uint64": arrow.uint64(), "double": arrow.float64(), "bool": arrow.bool_(), "date": arrow.date32(),
            "timestamp": arrow.timestamp("us"), "binary": arrow.binary()}.get(word, arrow.string())


def write_rows(job, stream):
    """CSV without a header, from a database that codeboxd asks: an empty field is NULL, and \"\" is an empty text."""
    table = Table({**job, "bytes": 1 << 62}, Columns(job))
    arrow = table.arrow
    import pyarrow.csv
    kinds = [arrow_kind(arrow, c["kind"]) for c in job["columns"]]
    schema = arrow.schema(list(zip(table.names, kinds)))
    table.begin(schema)
    names = ["c%d" % i for i in range(len(kinds))]
    read = {n: arrow.string() if arrow.types.is_binary(k) else k for n, k in zip(names, kinds)}
    first = stream.read(1)
    if first:
        reader = pyarrow.csv.open_csv(
            Rest(first, stream), pyarrow.csv.ReadOptions(use_threads=False, block_size=16 * PIECE if len(kinds) > 100 else 4 * PIECE,
                                                         column_names=names),
            pyarrow.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            pyarrow.csv.ConvertOptions(column_types=read, null_values=[""], true_values=["true"], false_values=["false"],
                                       strings_can_be_null=True, quoted_strings_can_be_null=False))
        for batch in reader:
            arrays = [arrow.array([None if v is None else bytes.fromhex(v) for v in a.to_pylist()], k) if arrow.types.is_binary(k) else a
                      for a, k in zip(batch.columns, kinds)]
            table.add_batch(arrow.RecordBatch.from_arrays(arrays, schema=schema))
    table.name()
    return {"size": table.size}


class Rest:
    """A stream, of which the beginning was read."""
    closed = False

    def __init__(self, first, stream):
        self.first, self.stream = first, stream

    def read(self, n=-1):
        data, self.first = self.first, b""
        return data + self.stream.read(n - len(data) if n >= 0 else -1)

    def readable(self):
        return True

    def close(self):
        pass


class Result:
    def __init__(self, job, source):
        self.job, self.source = job, source
        self.count, self.rows, self.kept, self.file, self.more = 0, [], [], None, False
        self.bytes = 0

    def begin_file(self):
        self.file = target(self.job, self.source)
        self.file.add(self.kept)
        self.rows = self.kept = None

    def take_inline(self, batch):
        """The rows that there is no room for."""
        for i, row in enumerate(batch):
            text = csv_of([row])
            # In an answer a NULL takes room, and control characters more than here.
            self.bytes += len(text.encode("utf-8", "replace")) + 4 * len(row) + 5 * sum(c < " " or c in "\x7f\\" for c in text)
            if self.count >= self.job["inline_rows"] or self.bytes > self.job["inline_bytes"]:
                return batch[i:]
            self.count += 1
            self.rows.append([json_value(v) for v in row])
            self.kept.append(row)
        return []

    def take(self, batch):
        """False: that is enough."""
        if self.count + len(batch) > self.job["rows"]:
            raise Refused("result_too_large", "the result has more than %d rows, the limit of the policy (sql.rows); nothing of it "
                                              "was kept: add a LIMIT" % self.job["rows"])
        if not self.file:
            batch = self.take_inline(batch)
            if batch and self.job["delivery"] == "inline":
                self.more = True
                return False
            if batch:
                self.begin_file()
        if batch:
            self.file.add(batch)
            self.count += len(batch)
        return True

    def all(self):
        if not 1 <= len(self.source.names) <= 1000:
            raise Refused("query_failed", "the result has %d columns; from 1 to 1000 are possible" % len(self.source.names))
        if self.job["delivery"] == "file":
            if os.path.lexists(self.job["path"]):
                raise FileExistsError(errno.EEXIST, "", self.job["path"])
            self.begin_file()
        for batch in self.source.rows():
            if not self.take(batch):
                break
        answer = {"columns": [{"name": n, "type": t} for n, t in zip(self.source.names, self.source.types())],
                  "row_count": self.count}
        if self.file:
            self.file.name()
            return {**answer, "size": self.file.size}
        return {**answer, "rows": self.rows, **({"more": True} if self.more else {})}


def ask(job, stream):
    if job["type"] == "rows":
        return answer_of(job, lambda: write_rows(job, stream))
    if not os.path.isfile(job["database"]):
        raise Refused("no_connection", "connection: %s is not an ordinary file" % job["database"])
    late = threading.Event()
    timer = None

    def query():
        nonlocal timer
        source = {"sqlite": SQLite, "duckdb": DuckDB}[job["type"]](job["database"])

        def end():
            late.set()
            source.interrupt()

        timer = threading.Timer(job["timeout_ms"] / 1000, end)
        timer.daemon = True
        timer.start()
        if job.get("schema"):
            return schema_of(job["type"], source)
        source.guard()
        source.execute(job["query"], job["parameters"])
        return Result(job, source).all()

    try:
        return answer_of(job, query, late)
    finally:
        if timer:
            timer.cancel()


def answer_of(job, what, late=None):
    """Call it; an error becomes one for the answer."""
    try:
        return what()
    except Refused:
        raise
    except FileExistsError:
        raise Refused("file_exists", "%s: it exists already; remove it first, or give another name" % job["path"])
    except MemoryError:
        raise Refused("query_failed", "the result needs more memory than the session has")
    except Exception as e:
        if late and late.is_set():
            raise Refused("timeout", "the query took more than %.10g s, the limit of the policy (sql.query_timeout), and was "
                                     "cancelled; ask for less" % (job["timeout_ms"] / 1000))
        full = isinstance(e, OSError) and e.errno in (errno.ENOSPC, errno.EDQUOT)
        raise Refused("disk_full" if full else "query_failed", "the query failed: %s" % e)


def main():
    try:
        answer = ask(json.loads(sys.stdin.buffer.readline()), sys.stdin.buffer)
    except Refused as e:
        answer = {"kind": e.kind, "message": str(e)[:2000]}
    print(json.dumps(answer, ensure_ascii=True), flush=True)
    os._exit(0)  # with whatever threads of a database are left


if __name__ == "__main__":
    main()
