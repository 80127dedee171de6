#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Streams of the handshake era that another connection continues (Last-Event-ID): what was missed, what is refused, bounds, and
the official Python client (PyPI mcp) over a line that breaks."""
import re
import socket
import sys
import threading
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "clients"))
import common  # noqa: E402

common.enter_venv()

import anyio  # noqa: E402
from mcp import Client  # noqa: E402

from common_http import Daemon, Legacy, events  # noqa: E402

tap = common.Tap()


def begin(c, code, **meta):
    """A cell's stream, as far as the first event. Returns the connection's response and that event's id."""
    c.next_id += 1
    connection = c.begin("POST", {"jsonrpc": "2.0", "id": c.next_id, "method": "tools/call", "params": {
        "name": "run_code", "arguments": {"code": code, "session_id": "work"}, **({"_meta": meta} if meta else {})}})
    response = connection.getresponse()
    return response, next_id(response)


def next_id(response):
    for line in response:
        m = re.match(rb"id: (\d+-\d+)\n", line)
        if m:
            return m.group(1).decode()
    raise AssertionError("the stream ended without an id")


def resume(c, last, **headers):
    """All that another connection gets."""
    other = c.again()
    other.headers.pop("Content-Type")
    answer = other.send("GET", Last_Event_ID=last, **headers)
    other.close()
    return answer


def wait_for(name):
    return f"import os, time\nwhile not os.path.exists('{name}'): time.sleep(0.05)\n'{name} was seen'"


def allow(c, name):
    r = c.again().call("write_file", {"session_id": "work", "path": name, "content": "x"}).message["result"]
    assert not r["isError"], r


def raw(d):
    c = Legacy(d.port)
    c.call("create_session", {"session_id": "work"})
    # Lost while the cell runs, and continued while it does.
    response, first = begin(c, wait_for("one"), progressToken="p")
    c.close(), response.close()
    reader = c.again()
    reader.headers.pop("Content-Type")
    stream = reader.begin("GET", Last_Event_ID=first).getresponse()
    tap.equal((stream.status, stream.headers["Content-Type"]), (200, "text/event-stream"), "continued while it runs")
    allow(c, "one")
    got = events(stream.read().decode())
    tap.ok(got and got[-1]["id"] == c.next_id and "one was seen" in str(got[-1]["result"]), "the answer", got)
    # It is kept for a while after that, to the same byte.
    again = resume(c, first)
    tap.ok([m for m in events(again.body)] == got, "again, after its end", again.body)
    ids = re.findall(r"^id: (\S+)$", again.body, re.M)
    tap.equal(len(ids), len(got), "each event has an id")
    tap.equal(events(resume(c, ids[-1]).body), [], "nothing after the last one")
    # Lost, and ended while nobody was there.
    response, second = begin(c, wait_for("two"))
    c.close(), response.close()
    allow(c, "two")
    follows = c.again().call("run_code", {"code": "'next'", "session_id": "work"}).message  # runs after it
    tap.ok("next" in str(follows), "the session serves others", follows)
    got = events(resume(c, second).body)
    tap.ok(len(got) == 1 and "two was seen" in str(got[0]), "ended while its client was away", got)
    # Two connections for one stream: the later one has it.
    response, third = begin(c, wait_for("three"))
    reader = c.again()
    reader.headers.pop("Content-Type")
    stream = reader.begin("GET", Last_Event_ID=third).getresponse()
    tap.ok(b"was seen" not in response.read(), "the connection before ends")
    c.close()
    allow(c, "three")
    tap.ok("three was seen" in stream.read().decode(), "the later one has the answer")
    return c, third


def refused(d, c, known):
    number, at = known.split("-")
    for last in ("", "1", "x", "-", f"{number}-", f"{number}-1", f"{number}-99999", f"{number}-{at}x", f" {known}x",
                 f"+{known}", f"0{known}", "0-0", "99-0", "18446744073709551617-0", f"{number}--1", "9" * 400):
        r = resume(c, last)
        tap.ok(r.status == 400 and "Last-Event-ID" in r.body, f"refused: {last[:30]!r}", (r.status, r.body))
    stranger = Legacy(d.port)
    tap.equal(resume(stranger, known).status, 400, "another session's")
    tap.equal(resume(c, known, Mcp_Session_Id="0" * 32).status, 404, "no session's")
    # A revision that does not know events without data gets none; the first event with data has an id, too.
    old = Legacy(d.port, version="2025-06-18")
    response, first = begin(old, "import time\nfor i in range(6):\n    print(i, flush=True)\n    time.sleep(0.3)",
                            progressToken="p")
    tap.ok(response.readline().startswith(b"event: message"), "no event without data for an older revision")
    old.close(), response.close()
    tap.equal(events(resume(old, first).body)[-1]["id"], old.next_id, "which can be continued, too")


def test_bounds(d):
    """8 streams without a client are kept; those before them are forgotten, their cells run all the same."""
    c = Legacy(d.port)
    ids = []
    for n in range(10):
        response, first = begin(c, wait_for("all") if not n else f"print('cell {n}')")
        c.close(), response.close()
        ids.append(first)
    tap.ok(all(resume_status(c, first) == 400 for first in ids[:2]), "the oldest are forgotten")
    allow(c, "all")
    r = resume(c, ids[-1])
    tap.ok("cell 9" in r.body, "the newest is there", (r.status, r.body))
    r = c.call("run_code", {"code": "'alive'", "session_id": "work"}).message
    tap.ok("alive" in str(r), "and the session works", r)
    c.send("DELETE")
    tap.equal(resume(c, ids[-1]).status, 404, "the session's end is theirs")


def resume_status(c, last):
    return resume(c, last).status


class Line:
    """A line to the server that breaks whenever an answer has an event with an id, so often."""

    def __init__(self, port, breaks):
        self.upstream, self.breaks, self.broken = port, breaks, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            a, _ = self.listener.accept()
            b = socket.create_connection(("127.0.0.1", self.upstream))
            threading.Thread(target=self.copy, args=(a, b, False), daemon=True).start()
            threading.Thread(target=self.copy, args=(b, a, True), daemon=True).start()

    def copy(self, source, target, answers):
        try:
            while data := source.recv(65536):
                target.sendall(data)
                if answers and b"id: " in data and b'"jsonrpc"' not in data and self.broken < self.breaks:
                    self.broken += 1
                    break
        except OSError:
            pass
        for s in (source, target):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


async def client(d):
    line = Line(d.port, 1)
    async with Client(f"http://127.0.0.1:{line.port}/mcp", mode="legacy", read_timeout_seconds=common.PATIENCE) as c:
        tap.equal(c.protocol_version, "2025-11-25", "revision")
        r = await c.call_tool("run_code", {"code": "import time\ntime.sleep(4)\n'late'"})
        tap.equal((r.structured_content["result"], line.broken), ("'late'", 1), "an answer over a line that broke once")
        r = await c.call_tool("run_code", {"code": "6 * 7"})
        tap.equal(r.structured_content["result"], "42", "and the next")


if __name__ == "__main__":
    server = Daemon()
    kept = []
    tap.run("by hand", lambda: kept.extend(raw(server)))
    assert kept, "there is nothing to refuse"
    tap.run("refused", lambda: refused(server, *kept))
    tap.run("bounds", test_bounds, server)
    anyio.run(tap.run_async, "the Python client", client, server)
    tap.equal(server.stop(), 0, "exit status")
    tap.done()
