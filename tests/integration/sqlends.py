#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Queries whose client, call, session, process, codeboxd, disk, server or network goes: they are gone from the server, and nothing
half-written is left."""
import os
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import children, command, run, wait_until  # noqa: E402
from control import Control  # noqa: E402
from databases import Relay  # noqa: E402
from model import Model  # noqa: E402
from shop import CONNECTIONS, ask, box, box_with, cell, gone, image, my, parts, pg, place, running  # noqa: E402

SLOW = "SELECT COUNT(*) FROM big a, big b, big c"


def begin(connection, **params):
    c = Control(box)
    want = c.send("sql", connection=connection, code=SLOW, **params)
    assert wait_until(lambda: running(connection), 60), connection
    return c, want


def test_a_query_whose_client_leaves_is_gone_from_the_server():
    for connection in "pg", "my":
        c, _ = begin(connection)
        c.sock.shutdown(socket.SHUT_RDWR)
        c.file.close()
        c.sock.close()
        gone(connection, "the client leaves")


def test_a_call_that_is_cancelled_is_gone_from_the_server():
    m = Model(box)
    for connection in "pg", "my":
        m.n += 1
        arguments = {"connection": connection, "query": SLOW}
        m.send({"id": m.n, "method": "tools/call", "params": {"name": "run_sql", "arguments": arguments}})
        assert wait_until(lambda: running(connection), 60), connection
        m.send({"method": "notifications/cancelled", "params": {"requestId": m.n}})
        gone(connection, "the call is cancelled")
    m.close()


def test_by_the_servers_clock_a_cancelled_query_is_gone_within_a_second():
    """pg_stat_activity is read until the query is not in it. With each look the server says what time it is; the moment of cancelling
    is one of its own clock, too, taken before the call is cancelled."""
    m = Model(box)
    look = ("SELECT extract(epoch FROM clock_timestamp()), count(*) FILTER (WHERE state = 'active' AND query LIKE '%big a%') "
            "FROM pg_stat_activity WHERE usename = 'reader'")
    longest = []
    for _ in range(5):
        m.n += 1
        m.send({"id": m.n, "method": "tools/call", "params": {"name": "run_sql", "arguments": {"connection": "pg", "query": SLOW}}})
        assert wait_until(lambda: running("pg"), 60)
        watch = pg.watch(look)
        begun = watch()
        assert begun[1] > 0, begun
        m.send({"method": "notifications/cancelled", "params": {"requestId": m.n}})
        until = time.monotonic() + 60
        while (seen := watch())[1]:
            assert time.monotonic() < until, seen
            time.sleep(0.01)
        longest.append(seen[0] - begun[0])
        watch.end()
    m.close()
    print("# gone after, by the server's clock: " + ", ".join("%.3f s" % s for s in longest), flush=True)
    assert min(longest) < 1 and max(longest) < 30, longest


def test_a_query_whose_session_is_closed_is_gone_from_the_server():
    for connection in "pg", "my":
        cell("pass", "closing")
        c, want = begin(connection, session_id="closing")
        box("session", "rm", "closing", check=True)
        gone(connection, "the session is closed")
        said = c.recv()
        assert said["id"] == want and said["error"]["kind"] == "session_expired", said
        c.sock.close()


def test_a_query_whose_process_is_killed_is_gone_from_the_server():
    """Nobody cancels it, but PostgreSQL looks for its client. MariaDB ends it when the statement's own time is over."""
    c, want = begin("pg")
    workers = [p for p in children(box.daemon_pid()) if command(p) == "codebox-sql" and not children(p)]
    assert workers
    for p in workers:
        os.kill(p, 9)
    gone("pg", "its process is killed")
    said = c.recv()
    assert said["id"] == want and "without an answer" in said["error"]["message"], said
    c.sock.close()


def test_codeboxd_is_killed():
    b = box_with()
    c = Control(b)
    c.send("sql", connection="pg", code="SELECT COUNT(*) FROM big a, big b, big c")
    assert wait_until(lambda: running("pg"), 20)
    os.kill(b.daemon_pid(), 9)
    assert wait_until(lambda: not running("pg"), 60)
    b.stop()


def test_disk_full():
    box("run", "--image", image, "--disk", "16M", "--session", "full", "-c", "pass", check=True)
    a = ask("SELECT i, repeat('x', 1000) FROM big", session_id="full", path="partial.csv")
    assert a["kind"] in ("disk_full", "file_error"), a
    assert parts(session="full").strip() == "[]"
    box("session", "rm", "full", check=True)


def test_the_server_dies():
    cell("pass")
    with Control(box) as c:
        want = c.send("sql", connection="pg", code="SELECT a.i, repeat('x', 1000), pg_sleep(0.001) FROM big a", session_id="s", path="partial.csv")
        assert wait_until(lambda: running("pg"), 20)
        assert wait_until(lambda: "partial" in parts(), 20)
        pg.kill()
        said = c.recv()
    assert said["id"] == want and said["error"]["kind"] == "query_failed", said
    assert parts().strip() == "[]", parts()
    # The number that these name may be another process's by now.
    for name in "data/postmaster.pid", ".s.PGSQL.5432.lock":
        os.unlink(os.path.join(pg.dir, name))
    pg.serve(*pg.argv)
    assert ask("SELECT 1")["rows"] == [[1]]
    assert ask("SELECT 1", "gone")["kind"] == "connection_failed"


def test_the_other_server_dies():
    cell("pass")
    with Control(box) as c:
        slow = "SELECT i, REPEAT('x', 1000), SLEEP(0.001) FROM big"
        want = c.send("sql", connection="my", code=slow, session_id="s", path="partial.csv")
        assert wait_until(lambda: running("my"), 60)
        my.kill()
        said = c.recv()
    assert said["id"] == want and said["error"]["kind"] == "query_failed", said
    assert parts().strip() == "[]", parts()
    my.serve(*my.argv)
    assert ask("SELECT 1", "my")["rows"] == [[1]]


def test_the_network_stalls():
    """In the middle of a result, so that the driver cannot even say that the query is cancelled."""
    relay = Relay(os.path.join(place, ".s.PGSQL.5432"), os.path.join(pg.dir, ".s.PGSQL.5432"))
    b = box_with(query_timeout="4s", connections={"far": {**CONNECTIONS["pg"], "server": place}})
    cell("pass", b=b)
    assert ask("SELECT 1", "far", b=b)["rows"] == [[1]]
    for _ in range(10):
        relay.left = 3 << 20
        a = ask("SELECT a.i, repeat('x', 1000) FROM big a, t", "far", b=b, session_id="s", path="partial.csv")
        assert a["kind"] == "timeout", a
        if relay.stalled.is_set():  # else the machine was too busy for this number of bytes
            break
    assert "answers neither the query nor that it is cancelled" in a["message"], a
    assert parts(b).strip() == "[]", parts(b)
    relay.end()
    gone("pg", "the network stalls")
    b.stop()


if __name__ == "__main__":
    run(globals())
