#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CodeBoxMCP's exec_sql, and the headers by which its clients, and those of REST, name a database and say how long links are good:
lowered to the policy, refused by their name where they make no sense, and with a password that nobody else sees."""
import csv
import io
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from common_http import Client, Daemon, Modern  # noqa: E402
from cbxtest import CODEBOX, Box, Skip, children, command, directory, run, wait_until  # noqa: E402
from databases import PASSWORD, PostgreSQL, Relay  # noqa: E402
from model import Model  # noqa: E402
from ociimage import Image, bash_layer, layout, write_tar  # noqa: E402

top = os.path.join(directory, "exec_sql")
os.makedirs(top, exist_ok=True)
os.environ["CODEBOX_DATA_DIR"] = os.path.join(top, "data")
os.environ["SHOP_PASSWORD"] = PASSWORD
pg = PostgreSQL()
pg.sql("CREATE DATABASE shop; CREATE DATABASE other")
for database in "shop", "other":
    pg.sql("""DO $$ BEGIN CREATE ROLE reader LOGIN PASSWORD '%s'; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
        CREATE TABLE t AS SELECT i AS id, '%s ' || i AS name FROM generate_series(1, 300) i; GRANT SELECT ON t TO reader"""
           % (PASSWORD.replace("'", "''"), database), database)
SECRET = PASSWORD[-12:]  # what it ends with
relay = Relay(None, os.path.join(pg.dir, ".s.PGSQL.5432"))
NAMED = f"127.0.0.1:{relay.port}"
OTHER = f"Driver={{PostgreSQL Unicode}};Server=127.0.0.1;Port={relay.port};Database=other;Uid=reader;Pwd={{your_password_here}};SSLMode=disable"
LOGIN = {"X_Db_Connection_String": OTHER, "X_Db_Password": PASSWORD}
INSIDE = "SELECT id, name FROM t WHERE id < 3 ORDER BY id"
policies = 0


def serve(sql, **artifacts):
    global policies
    b = Box()
    if "bash" not in b.images():
        write_tar(layout([Image([(bash_layer(os.path.join(top, "tree")).bytes(), "gzip")], {})]), os.path.join(top, "it.tar"))
        b("image", "import", "bash", os.path.join(top, "it.tar"), check=True)
    policies += 1
    path = os.path.join(top, f"policy-{policies}.json")
    with open(path, "w") as f:
        json.dump({"images": ["bash"], "sql": sql, "artifacts": artifacts}, f)
    os.chmod(path, 0o644)
    return Daemon("--policy", path)


def tool(client, name, headers={}, **arguments):
    """The answer of one of CodeBoxMCP's tools."""
    a = client.request("tools/call", {"name": name, "arguments": {"session_id": "s", **arguments}}, path="/mcp/codeboxmcp", **headers)
    assert a.status == 200, (a.status, a.body)
    return json.loads(a.message["result"]["content"][0]["text"])


class Clients:
    """Of both eras."""

    def __init__(self, d):
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}}
        legacy = Client(d.port)
        a = legacy.request("initialize", hello, path="/mcp/codeboxmcp")
        legacy.headers.update({"Mcp-Session-Id": a.headers["Mcp-Session-Id"], "MCP-Protocol-Version": "2025-06-18"})
        self.all = [legacy, Modern(d.port)]


one = serve({"connections": {"shop": pg.connection()}, "servers": [NAMED, "*.db.example.org"], "inline_rows": 50}, keep="1d", link_expiry="2h")
clients = Clients(one).all


def test_the_policys_database():
    for c in clients:
        a = tool(c, "exec_sql", query=INSIDE)
        assert a == {"session_id": "s", "status": "success", "delivery": "inline", "columns": ["id", "name"], "row_count": 2,
                     "rows": [{"id": 1, "name": "shop 1"}, {"id": 2, "name": "shop 2"}]}, a
        a = tool(c, "exec_sql", query="SELECT * FROM t ORDER BY id;")
        path = a["file_path"]
        assert a["delivery"] == "file" and a["row_count"] == 300 and a["column_count"] == 2 and a["columns"] == ["id", "name"], a
        assert path == "/workspace/input/" + a["file_name"] and f"pd.read_csv(r'{path}')" in a["message"], a
        text = tool(c, "exec_code", language="bash", code=f"cat {path}")["output"][len("[output]\n"):]
        rows = list(csv.reader(io.StringIO(text, newline="")))
        assert rows[:2] == [["id", "name"], ["1", "shop 1"]] and len(rows) == 301, rows[:3]
        a = tool(c, "exec_sql", query="SELECT 1 AS x, 2 AS x")
        assert a["columns"] == ["x", "x"] and a["rows"] == [{"x": 1, "x_1": 2}], a
        for query, says in (("DELETE FROM t", "(rule not_a_query)"), ("SELECT 1; SELECT 2", "(rule one_statement)"),
                            ("SELECT * FROM absent", "does not exist"), (" \n", "Query is empty.")):
            a = tool(c, "exec_sql", query=query)
            assert a["status"] == "error" and says in a["error"] and a["session_id"] == "s", a
    assert pg.sql("SELECT count(*) FROM t", "shop") == "300"


def test_a_database_of_the_request():
    for c in clients:
        a = tool(c, "exec_sql", LOGIN, query=INSIDE)
        assert a["rows"] == [{"id": 1, "name": "other 1"}, {"id": 2, "name": "other 2"}], a
        assert tool(c, "exec_sql", query=INSIDE)["rows"][0]["name"] == "shop 1"  # nothing of it stays
        a = tool(c, "exec_sql", {**LOGIN, "X_Sql_Max_Inline_Rows": "2"}, query=INSIDE)
        assert a["delivery"] == "inline", a
        a = tool(c, "exec_sql", {**LOGIN, "X_Sql_Max_Inline_Rows": "1"}, query=INSIDE)
        assert a["delivery"] == "file" and a["row_count"] == 2, a
        a = tool(c, "exec_sql", {"X_Sql_Max_Inline_Rows": "1000"}, query="SELECT * FROM t")
        assert a["delivery"] == "file", a  # the policy's 50 count
        for headers, says in (
                ({"X_Db_Password": PASSWORD}, "missing header: X-Db-Connection-String"), ({"X_Db_Connection_String": OTHER}, "missing header: X-Db-Password"),
                ({**LOGIN, "X_Db_Connection_String": OTHER.replace("127.0.0.1", "127.0.0.2")}, "127.0.0.2, port"),
                ({**LOGIN, "X_Db_Connection_String": OTHER.replace(f"Port={relay.port};", "")}, "127.0.0.1, port 5432 (sql.servers"),
                ({**LOGIN, "X_Db_Connection_String": OTHER.replace("127.0.0.1", pg.dir)}, "Server: give the name"),
                ({**LOGIN, "X_Db_Connection_String": OTHER.replace("PostgreSQL Unicode", "/tmp/x.so")}, "X-Db-Connection-String: Driver: "),
                ({**LOGIN, "X_Db_Connection_String": OTHER + ";PQOPT={-c x=1}"}, '"PQOPT" is not accepted'),
                ({**LOGIN, "X_Db_Connection_String": OTHER.replace("{your_password_here}", SECRET)}, "does not belong here"),
                ({**LOGIN, "X_Db_Connection_String": OTHER.replace("Uid=reader", "Uid=nobody")}, "connect"),
                ({**LOGIN, "X_Db_Password": "wrong"}, "connect"), ({"X_Sql_Max_Inline_Rows": "0"}, "X-Sql-Max-Inline-Rows"),
                ({"X_Sql_Max_Inline_Rows": "-1"}, "X-Sql-Max-Inline-Rows"), ({"X_Sql_Max_Inline_Rows": "many"}, "X-Sql-Max-Inline-Rows")):
            a = tool(c, "exec_sql", headers, query=INSIDE)
            assert a["status"] == "error" and says in a["error"] and SECRET not in a["error"], (headers, a)
    a = tool(clients[0], "exec_sql", LOGIN, query="DELETE FROM t")
    assert "(rule not_a_query)" in a["error"], a


def test_nobody_sees_the_password():
    got = []
    asking = Modern(one.port)
    t = threading.Thread(target=lambda: got.append(tool(asking, "exec_sql", LOGIN, query="SELECT pg_sleep(3600)")))
    t.start()
    running = "SELECT pid FROM pg_stat_activity WHERE usename = 'reader' AND wait_event = 'PgSleep'"
    assert wait_until(lambda: pg.sql(running), 60)
    processes = [one.pid, *children(one.pid)]
    assert any(command(p) == "codebox-sql" for p in processes), [command(p) for p in processes]
    for p in processes:
        try:
            assert SECRET not in Path(f"/proc/{p}/cmdline").read_text(errors="replace"), command(p)
        except (FileNotFoundError, ProcessLookupError):
            pass
    pg.sql(f"SELECT pg_terminate_backend(pid) FROM ({running}) AS a")
    t.join()
    assert got[0]["status"] == "error" and SECRET not in json.dumps(got[0]), got
    assert SECRET not in "".join(one.log)
    look = tool(clients[0], "exec_code", language="bash", code="env; cat /proc/*/cmdline /proc/*/environ; :")
    assert look["status"] == "success" and SECRET not in look["output"], look


WHOLE = OTHER.replace("{your_password_here}", "{%s}" % PASSWORD.replace("}", "}}"))


def test_connection_strings_of_the_policy():
    """Complete ones, in the environment or in a file, with the password in them or beside them."""
    in_file = os.path.join(top, "string")
    with open(in_file, "w") as f:
        f.write(WHOLE + "\n")
    os.chmod(in_file, 0o600)
    os.environ["AZURE_DATABASE_CONNECTION_STRING"] = OTHER
    os.environ["BROKEN_STRING"] = WHOLE + ";Setup=/x"
    password = {"environment": "SHOP_PASSWORD"}
    d = serve({"connections": {"default": {"string": {"environment": "AZURE_DATABASE_CONNECTION_STRING"}, "password": password},
                               "whole": {"string": {"file": in_file}},
                               "socket": {"string": {"environment": "AZURE_DATABASE_CONNECTION_STRING"}},
                               "twice": {"string": {"file": in_file}, "password": password},
                               "broken": {"string": {"environment": "BROKEN_STRING"}}, "none": {"string": {"environment": "NOT_SET"}}}})
    del os.environ["AZURE_DATABASE_CONNECTION_STRING"], os.environ["BROKEN_STRING"]
    c = Modern(d.port)
    assert tool(c, "exec_sql", query=INSIDE)["rows"][0]["name"] == "other 1"
    for name, says in (("default", None), ("whole", None), ("socket", "connect"), ("twice", "has a password, and the policy names another"),
                       ("broken", "what follows the password"), ("none", "NOT_SET was not set")):
        r = d.box("sql", name, INSIDE)
        assert (r.returncode == 0 and "other 1" in r.stdout) if not says else (r.returncode == 1 and says in r.stderr), (name, r.stdout, r.stderr)
        assert SECRET not in r.stdout + r.stderr
    all_of_them = {x["name"]: x["type"] for x in json.loads(c.send("GET", None, "/databases").body)["databases"]}
    assert all_of_them == {"default": "postgresql", "whole": "postgresql", "socket": "postgresql", "twice": "unknown",
                           "broken": "unknown", "none": "unknown"}, all_of_them
    shown = d.box("policy", "show", os.path.join(top, f"policy-{policies}.json"), check=True).stdout
    assert in_file in shown and SECRET not in shown and "Uid=" not in shown, shown
    assert SECRET not in "".join(d.log) and "Uid=" not in "".join(d.log), d.log
    for p in [d.pid, *children(d.pid)]:
        try:
            environ = Path(f"/proc/{p}/environ").read_text(errors="replace")
            assert SECRET not in environ and "Uid=" not in environ, command(p)
        except (PermissionError, FileNotFoundError, ProcessLookupError):
            pass
    d.stop()
    for bad, says in (({"string": "text"}, "no password itself"), ({"string": {"environment": "A"}, "type": "mysql"}, "beside"),
                      ({"string": {"environment": "A"}, "password": "x"}, "no password itself")):
        path = os.path.join(top, "bad.json")
        with open(path, "w") as f:
            json.dump({"sql": {"connections": {"a": bad}}}, f)
        r = d.box("policy", "check", path)
        assert r.returncode == 1 and says in r.stderr, (bad, r.stderr)


def test_the_environment_of_codebox_mcp():
    """What CodeBoxMCP's server has there: each variable counts as the header that its clients send."""
    def model(**env):
        d = one
        m = Model(type("Box", (), {"env": {**d.box.env, **env}}), "--profile", "codeboxmcp")
        return m, lambda name, **arguments: json.loads(m.call(name, session_id="env", **arguments)["content"][0]["text"])

    strings = {"AZURE_DATABASE_CONNECTION_STRING": OTHER, "AZURE_DATABASE_PASSWORD": PASSWORD}
    m, call = model(**strings, SQL_MAX_INLINE_ROWS="1", SESSION_TTL="100", EXEC_TIMEOUT="7", BLOB_SAS_EXPIRY_HOURS="1", DOWNLOAD_TIMEOUT="99999")
    a = call("exec_sql", query=INSIDE)
    assert a.get("delivery") == "file" and a["row_count"] == 2, a
    config = call("session_info")["effective_config"]
    assert [config[k] for k in ("session_ttl", "exec_timeout", "blob_sas_expiry_hours", "download_timeout")] == [100, 7, 1, 120], config
    pid = m.process.pid
    if os.geteuid() == 0:
        seen = Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
        assert "AZURE_DATABASE_PASSWORD=" in seen and not any(SECRET in v for v in seen if v.startswith("AZURE_")), seen
    else:
        assert os.stat(f"/proc/{pid}/environ").st_uid == 0  # nobody else looks into it, and it leaves no core
    m.close()
    m, call = model()
    assert call("exec_sql", query=INSIDE)["rows"][0]["name"] == "shop 1"
    call("destroy_session")
    m.close()
    m, call = model(AZURE_DATABASE_PASSWORD=PASSWORD)
    assert "missing header: X-Db-Connection-String" in call("exec_sql", query=INSIDE)["error"]
    m.close()
    m = Model(type("Box", (), {"env": {**one.box.env, **strings}}))  # codebox's own tools have nothing of it
    r = m.call("run_sql", query=INSIDE)
    assert "shop 1" in r["content"][0]["text"], r
    m.close()
    r = subprocess.run([CODEBOX, "mcp", "--profile", "codeboxmcp"], env={**one.box.env, "EXEC_TIMEOUT": "soon"},
                       stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert r.returncode == 2 and "EXEC_TIMEOUT" in r.stderr, (r.returncode, r.stderr)


def test_no_core_has_the_password():
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    place = os.path.join(top, "cores")
    os.makedirs(place, exist_ok=True)

    def dies(p):
        os.kill(p.pid, signal.SIGSEGV)
        status = os.waitpid(p.pid, 0)[1]
        assert os.WTERMSIG(status) == signal.SIGSEGV, status
        return os.WCOREDUMP(status)

    if not dies(subprocess.Popen(["sleep", "99"], cwd=place)):
        raise Skip("processes leave no cores here")
    for name in os.listdir(place):  # it has the environment of this test
        os.unlink(os.path.join(place, name))
    here = os.getcwd()
    os.chdir(place)
    try:
        d = serve({"connections": {"shop": pg.connection()}})
    finally:
        os.chdir(here)
    client = d.box.popen("sql", "shop", "SELECT pg_sleep(60)", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    running = "SELECT pid FROM pg_stat_activity WHERE usename = 'reader' AND wait_event = 'PgSleep'"
    assert wait_until(lambda: pg.sql(running), 60)
    asks = [p for p in children(d.pid) if command(p) == "codebox-sql"]
    assert asks
    for p in asks:
        limits = Path(f"/proc/{p}/limits").read_text()
        assert re.search(r"^Max core file size +0 +0 ", limits, re.M), limits
        os.kill(p, signal.SIGSEGV)
    client.wait(60)
    assert not dies(d.process)
    d.process.returncode = -signal.SIGSEGV
    for name in os.listdir(place):
        data = Path(place, name).read_bytes()
        assert SECRET.encode() not in data, name
    shutil.rmtree(place)


def test_how_long_links_are_good():
    seen = []
    for c in clients:
        for said, hours in (None, 2), ("1", 1), ("2", 2), ("99", 2), ("4294967295", 2):
            headers = {"X_Blob_SAS_Expiry_Hours": said} if said else {}
            info = tool(c, "session_info", headers)
            assert info["effective_config"]["blob_sas_expiry_hours"] == hours, (said, info)
            assert info["blob_upload_enabled"] is False and info["blob_container"] is None, info  # there is no object store
            before = int(time.time())
            name = f"{len(seen)}.csv"
            seen.append(name)
            made = tool(c, "exec_code", headers, language="bash", code=f"echo 1 >{name}")["new_artifacts"]
            new, = [a for a in made if a["filename"] == name]
            expires = int(new["sas_url"].split("expires=")[1].split("&")[0])
            assert before + hours * 3600 <= expires <= int(time.time()) + hours * 3600, (said, new)
            made = tool(c, "exec_sql", headers, query="SELECT * FROM t")
            expires = int(made["sas_url"].split("expires=")[1].split("&")[0])
            assert before + hours * 3600 <= expires <= int(time.time()) + hours * 3600, (said, made)
        for name, value, says in (("X_Blob_Connection_String", "x", "connection string of Azure"), ("X_Blob_Container_Name", "x", "missing header: "),
                                  ("X_Blob_Connection_String", "AccountName=a;AccountKey=AAAA", "artifacts.stores")):
            a = tool(c, "session_info", {name: value})
            assert a["status"] == "error" and "X-Blob-Connection-String" in a["error"] and says in a["error"], a
        for said in "0", "-1", "1.5", "abc", "", "99999999999":
            for name, arguments in ("session_info", {}), ("exec_code", {"language": "bash", "code": "echo 1"}), ("exec_sql", {"query": INSIDE}):
                a = tool(c, name, {"X_Blob_SAS_Expiry_Hours": said}, **arguments)
                assert a["status"] == "error" and "X-Blob-SAS-Expiry-Hours" in a["error"], (said, a)


def test_rest_takes_the_same_headers():
    c = Client(one.port)

    def ask(path, body, **headers):
        a = c.send("POST", body, path, **headers)
        return a.status, json.loads(a.body)

    for path in "/sql", "/sessions/s/sql":
        status, a = ask(path, {"query": INSIDE}, **LOGIN)
        assert status == 200 and a["rows"] == [[1, "other 1"], [2, "other 2"]], a
        status, a = ask(path, {"query": INSIDE, "connection": "shop"}, **LOGIN)  # the body comes first
        assert status == 200 and a["rows"][0] == [1, "shop 1"], a
        for headers, wanted, says in (({"X_Db_Password": PASSWORD}, 400, "X-Db-Connection-String"), ({"X_Sql_Max_Inline_Rows": "0"}, 400, "X-Sql-Max-Inline-Rows"),
                                      ({**LOGIN, "X_Db_Connection_String": "Driver=PostgreSQL;Server=db.example.org;Database=d;Uid=u"}, 403, "sql.servers"),
                                      ({**LOGIN, "X_Db_Password": "wrong"}, 502, "connect")):
            status, a = ask(path, {"query": INSIDE}, **headers)
            assert status == wanted and says in json.dumps(a) and SECRET not in json.dumps(a), (headers, status, a)
    status, a = ask("/sql", {"query": INSIDE}, X_Sql_Max_Inline_Rows="1")
    assert a["more"] and a["row_count"] == 1, a
    for said in "0", "abc":
        status, a = ask("/execute", {"session_id": "s", "code": "1", "language": "bash"}, X_Blob_SAS_Expiry_Hours=said)
        assert status == 400 and "X-Blob-SAS-Expiry-Hours" in a["message"], a


def test_only_where_the_policy_allows_it():
    d = serve({"connections": {"a": pg.connection(), "default": pg.connection(database="other")}})
    c = Modern(d.port)
    assert tool(c, "exec_sql", query=INSIDE)["rows"][0]["name"] == "other 1"  # of several, this one
    a = tool(c, "exec_sql", LOGIN, query=INSIDE)
    assert "sql.servers" in a["error"], a
    d.process.terminate()
    d.process.wait(60)
    d = serve({"connections": {"a": pg.connection(), "b": pg.connection()}})
    m = Model(d.box, "--profile", "codeboxmcp")
    a = json.loads(m.call("exec_sql", session_id="s", query=INSIDE)["content"][0]["text"])
    assert a["status"] == "error" and a["error"].startswith("Database not configured."), a
    m.close()
    d.process.terminate()
    d.process.wait(60)
    d = serve({"servers": [NAMED]})  # no connection of its own
    a = tool(Modern(d.port), "exec_sql", LOGIN, query=INSIDE)
    assert a["rows"][0]["name"] == "other 1", a
    assert tool(Modern(d.port), "exec_sql", query=INSIDE)["error"].startswith("Database not configured.")
    d.process.terminate()
    d.process.wait(60)


if __name__ == "__main__":
    run(globals())
