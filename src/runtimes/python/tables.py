# SPDX-License-Identifier: Apache-2.0
"""What a database has that is a file of the session: tables, columns and keys, for query.py, in the form that other databases
have (sql/schema.c). Names are what anybody who may make a table wrote: they are cut, and stay parameters."""
import json

TABLES, COLUMNS, BYTES = 500, 1000, 128 << 10  # as in base/limits-databases.h
MEMBERS = 50  # bytes that the names of the three take


class SQLite:
    """Names stay in the database: not all of them are UTF-8."""

    KEYS = "SELECT {} FROM sqlite_master m, pragma_{}(m.name) k WHERE m.rowid = ? AND {} ORDER BY {}"

    def __init__(self, db):
        self.db = db

    def tables(self):
        found = self.db.execute("SELECT rowid, name, type FROM sqlite_master WHERE type IN ('table', 'view') AND "
                                "substr(name, 1, 7) <> 'sqlite_' ORDER BY name")
        return [(row, {"name": cut(name), "type": kind}) for row, name, kind in found]

    def read(self, row, *words):
        return self.db.execute(self.KEYS.format(*words), (row,)).fetchmany(COLUMNS + 1)

    def details(self, row):
        """None: it is a view of what there is not."""
        import sqlite3
        try:
            found = self.read(row, 'k.name, k.type, k."notnull", k.pk', "table_xinfo", "k.hidden <> 1", "k.cid")
            keys = self.read(row, 'k.id, k."table", k."from", k."to"', "foreign_key_list", "1", "k.id, k.seq")
        except sqlite3.OperationalError as e:
            if "interrupted" in str(e):
                raise
            return None
        foreign = {}
        for number, there, here, other in keys:
            key = foreign.setdefault(number, {"columns": [], "table": cut(there), "references": []})
            key["columns"].append(cut(here))
            key["references"] += [cut(other)] if other else []
        return (columns_of((name, kind, not needed) for name, kind, needed, _ in found),
                [cut(c[0]) for c in sorted(found, key=lambda c: c[3]) if c[3]], list(foreign.values()))


class DuckDB:
    OWN = "database_name = current_database() AND NOT internal"
    OF = "database_name = current_database() AND schema_name = ? AND table_name = ?"

    def __init__(self, db):
        self.db = db

    def tables(self):
        found = self.db.execute("SELECT schema_name, table_name, 'table' FROM duckdb_tables() WHERE %s UNION ALL "
                                "SELECT schema_name, view_name, 'view' FROM duckdb_views() WHERE %s ORDER BY 1, 2" % (self.OWN, self.OWN))
        return [(row[:2], {"schema": cut(row[0]), "name": cut(row[1]), "type": row[2]}) for row in found.fetchall()]

    def details(self, row):
        found = self.db.execute("SELECT column_name, data_type, is_nullable FROM duckdb_columns() WHERE %s ORDER BY column_index" % self.OF,
                                row).fetchmany(COLUMNS + 1)
        said = self.db.execute("SELECT * FROM duckdb_constraints() WHERE %s" % self.OF, row)
        names = [d[0] for d in said.description]
        keys = [dict(zip(names, key)) for key in said.fetchmany(COLUMNS + 1)]
        primary = [names_of(key, "constraint_column_names") for key in keys if key["constraint_type"] == "PRIMARY KEY"]
        # Both tables are in one schema. Old versions of DuckDB do not say which the other one is.
        foreign = [{"columns": names_of(key, "constraint_column_names"), "schema": cut(row[0]), "table": cut(key["referenced_table"]),
                    "references": names_of(key, "referenced_column_names")}
                   for key in keys if key["constraint_type"] == "FOREIGN KEY" and key.get("referenced_table")]
        return columns_of(found), primary[0] if primary else [], foreign


def cut(name):
    return str(name)[:255]


def names_of(key, what):
    return [cut(name) for name in key[what]]


def columns_of(rows):
    return [{"name": cut(name), "type": cut(kind or ""), "nullable": bool(nullable)} for name, kind, nullable in rows]


def printed(value):
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))


def schema(kind, db):
    """Tables that there is room for have columns and keys, some their names alone, and a note counts these and all others."""
    source = {"sqlite": SQLite, "duckdb": DuckDB}[kind](db)
    tables, size, bare, more = [], 0, 0, 0
    most = BYTES // 4 * 3
    for row, table in source.tables():
        about = printed(table) + 1
        if len(tables) >= TABLES or size + about > BYTES:
            more += 1
            continue
        tables.append(table)
        size += about
        found = source.details(row) if size < most else ()
        if found is None:
            continue
        if not found or max(map(len, found)) > COLUMNS or size + printed(found) + MEMBERS > most:
            bare += 1
            continue
        size += printed(found) + MEMBERS
        table["columns"], table["primary_key"], table["foreign_keys"] = found
    answer = {"type": kind, "tables": tables}
    if bare or more:
        answer["truncated"] = True
        answer["note"] = ("the schema is larger than an answer: %d tables are named without columns, and %d more are omitted; "
                          "SELECT * FROM a table LIMIT 1 shows its columns" % (bare, more))
    return answer
