#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codebox mcp: the bridge between standard input and output and the daemon."""
import json
import os
import socket
import time

from common_cli import Box, contains, read_until, run, same, WAIT
def test_mcp_echo_and_end():
    box = Box()
    p = box.popen("mcp")
    for line in (b"one\n", b"x" * 500000 + b"\n", b"\0\xff\r\n"):
        p.stdin.write(line)
        p.stdin.flush()
        same(p.stdout.readline(), line)
    p.stdin.close()
    same(p.wait(WAIT), 0)
    same(p.stdout.read(), b"")
    same(p.stderr.read(), b"")


def test_mcp_all_input_is_answered_after_its_end():
    box = Box()
    data = b"".join(b"%d\n" % i for i in range(20000))
    r = box("mcp", input=data)
    same(r.returncode, 0)
    same(r.stdout, data)
    same(box("mcp", input=b"").returncode, 0)


def test_mcp_back_pressure():
    box = Box()
    p = box.popen("mcp")
    for _ in range(8):
        p.stdin.write(b"flood\n")
    p.stdin.flush()
    time.sleep(0.3)
    with open(f"/proc/{p.pid}/status") as f:
        rss = [line for line in f if line.startswith("VmRSS")][0]
    if "SANITIZERS" not in os.environ:
        print("# codebox mcp with a reader that waits: " + rss.strip())
    total = 0
    while total < 8 << 20:
        total += len(p.stdout.read1(1 << 20))
    same(total, 8 << 20)
    p.stdin.write(b"after\n")
    p.stdin.flush()
    same(p.stdout.readline(), b"after\n")
    p.stdin.close()
    same(p.wait(WAIT), 0)


def test_mcp_client_that_stops_reading():
    box = Box()
    p = box.popen("mcp")
    p.stdin.write(b"flood\n" * 4)
    p.stdin.flush()
    read_until(p.stdout.fileno(), b"z")
    p.stdout.close()
    same(p.wait(WAIT), 0)
    p = box.popen("mcp")  # it ends although it owes much output to a reader that does not read
    p.stdin.write(b"flood\n" * 4)
    p.stdin.close()
    same(p.wait(WAIT), 0)


def test_mcp_client_that_closes_a_socket():
    """A socket says that with a hang-up where a pipe says it with an error; standard input stays open."""
    box = Box()
    for owed in (b"", b"flood\n" * 4):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            p = box.popen("mcp", stdout=theirs)
            theirs.close()
            p.stdin.write(b"first\n" + owed)
            p.stdin.flush()
            read_until(ours.fileno(), b"z" if owed else b"first\n")
            ours.close()
            same(p.wait(WAIT), 0)
            p.stdin.close()


def message(rid, method, **params):
    return json.dumps({"jsonrpc": "2.0", "id": rid, "method": method, "params": params}).encode() + b"\n"


def notice(method, **params):
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode() + b"\n"


def lines_until(p, last):
    got = []
    while not got or last not in got[-1]:
        got.append(p.stdout.readline())
        assert got[-1], (got, p.stderr.read())
    return got


def test_mcp_daemon_goes_away():
    """The next one learns what it knew, and nothing of that reaches the client; what it owed is an error."""
    for word in (b"quit\n", b"die\n"):
        box = Box()
        p = box.popen("mcp")
        said = [message(1, "initialize", protocolVersion="2025-06-18"), notice("notifications/initialized"),
                message(2, "resources/subscribe", uri="a"), message(3, "resources/subscribe", uri="b"),
                message(4, "resources/unsubscribe", uri="a"), message(5, "logging/setLevel", level="info")]
        for line in said:
            p.stdin.write(line)
            p.stdin.flush()
            if b'"id"' in line:
                same(p.stdout.readline(), line)  # the fake's echo has the id, and so is an answer
        p.stdin.write(b"hold\n" + message(6, "tools/call", name="x") + word)
        p.stdin.flush()
        got = [json.loads(p.stdout.readline()), json.loads(p.stdout.readline())]
        same((got[0]["id"], got[0]["error"]["code"]), (6, -32603))
        contains(got[0]["error"]["message"].encode(), b"variables and files")
        same((got[1]["method"], got[1]["params"]["level"]), ("notifications/message", "warning"))
        p.stdin.write(b"spoken\n" + message("last", "ping"))
        p.stdin.flush()
        spoken = lines_until(p, b'"last"')
        same(spoken[0][:7], b"spoken ")
        told = json.loads(spoken[0][7:])
        same([json.loads(m)["method"] for m in told],
             ["initialize", "notifications/initialized", "logging/setLevel", "resources/subscribe",
              "notifications/codebox/restarted"])
        same(json.loads(told[3])["params"], {"uri": "b"})
        same(len(spoken), 2)  # no answer to what was said again was passed on
        p.stdin.close()
        same(p.wait(WAIT), 0)
        contains(p.stderr.read(), b"codeboxd has closed the connection")


def test_mcp_daemon_that_lingers():
    box = Box()
    p = box.popen("mcp")
    p.stdin.write(b"first\n")
    p.stdin.flush()
    same(p.stdout.readline(), b"first\n")
    p.stdin.write(b"linger\n")
    p.stdin.close()
    same(p.wait(WAIT), 0)
    same(p.stdout.read(), b"linger\n")


def test_mcp_daemon_that_takes_its_time_to_start():
    box = Box(FAKE_SLOW="2")
    r = box("mcp", input=b"one\n")
    same((r.returncode, r.stdout), (0, b"one\n"))


if __name__ == "__main__":
    run(globals())
