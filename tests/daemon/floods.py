#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codeboxd under floods: of requests, of sessions, of output, of descriptors. Its memory and its descriptors stay
bounded, and another session's cells are answered meanwhile."""
import base64
import contextlib
import json
import os
import re
import signal
import socket

from harness import FRAME, Client, Daemon, Refused, main, sandboxes, session, wait_until

SLACK_KIB = int(os.environ.get("CBX_SLACK_KIB", "2048"))
MIB = 1024


def rss(d):
    with open(f"/proc/{d.process.pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def neighbour(d):
    """A session whose cells must still be answered."""
    c = d.client()
    sid = session(c)
    c.run("x = 20", session_id=sid)

    def check():
        r = c.run("x + 1", session_id=sid)
        assert r["result"] == "21", r
    check()
    return c, check


def mcp(d):
    m = Client(os.path.join(d.dir, "run", "mcp.sock"))
    m.raw(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}).encode())
    m.recv()
    m.raw(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    return m


def get_execution(m, sid, number):
    m.raw(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "get_execution", "arguments": {"session_id": sid, "execution_id": number}}}).encode())
    while True:
        answer = m.recv()
        if answer.get("id") == 1:
            return json.dumps(answer["result"])


def test_clients_that_never_read():
    d = Daemon("", "--pool", "0")
    c, check = neighbour(d)
    before = rss(d)
    request = b'{"id":1,"method":"hello","params":{}}\n'
    idle = [Client(d.socket) for _ in range(100)]
    for i in idle:
        i.sock.sendall(request * 1000)
    check()
    # One that asks for as long as it is let: then its requests wait with it, not with us.
    greedy = Client(d.socket)
    greedy.sock.settimeout(2)
    sent = 0
    try:
        while sent < 64 << 20:
            sent += greedy.sock.send(request * 1000)
            check()
    except TimeoutError:
        pass
    assert sent < 64 << 20, "a client that reads nothing was listened to without end"
    check()
    assert rss(d) < before + 128 * MIB, (before, rss(d))
    for i in idle + [greedy]:
        i.close()
    check()
    assert wait_until(lambda: c.call("hello")["descriptors"] < 60), c.call("hello")
    assert d.stop() == 0


def test_a_burst_of_lines_lets_others_in():
    """What is asked while a burst is being answered is answered before its end."""
    d = Daemon()
    many, one = d.client(), d.client()
    one.call("hello")

    def overtaken():
        many.sock.sendall(b'{"id":1,"method":"x"}\n' * 800)
        many.recv()
        one.call("hello")
        many.sock.setblocking(False)
        try:
            before = many.sock.recv(1 << 20, socket.MSG_PEEK).count(b"\n")
        except BlockingIOError:
            before = 0
        many.sock.settimeout(60)
        for _ in range(799):
            many.recv()
        return before < 600
    # When this program has to wait for a processor, the burst may be over before it asks.
    assert wait_until(overtaken), "nobody is let in between"
    d.stop()


def test_huge_and_deep_messages():
    d = Daemon("", "--pool", "0")
    c, check = neighbour(d)
    before = rss(d)
    bad = d.client()
    for line, kind in ((b"[" * 1000000, "invalid_json"), (b'{"a":' * 200000, "invalid_json"),
                       (b"[" * 1000 + b"]" * 1000, "invalid_json"),
                       (b'{"id":1,"method":"run","params":{"code":"' + b"x" * (23 << 20) + b'"}}', "code_too_long"),
                       (b'{"id":1,"method":"hello","params":{"x":[' + b"0," * (10 << 20) + b"0]}}", "invalid_json"),
                       (b'{"id":1e308,"method":"hello"}', "invalid_argument"),
                       (b'{"id":1,"method":"hello","method":"stop"}', "duplicate_key"),
                       (b"x" * (64 << 20), "message_too_long")):
        bad.raw(line)
        m = bad.recv()
        assert m["error"]["kind"] == kind, (line[:40], m)
        check()
    assert bad.call("hello")["trouble"] is None
    bad.close()
    check()
    assert rss(d) < before + 80 * MIB, (before, rss(d))
    assert d.stop() == 0


def test_no_descriptors_come_from_inside():
    """They would be codeboxd's to close, as many as are sent: what leads to it is a pipe, which carries none."""
    d = Daemon("", "--pool", "0")
    c, check = neighbour(d)
    r = c.run(FRAME + "import socket\nfor fd in connection(): socket.socket(fileno=os.dup(fd))", session_id=session(c))
    assert r["status"] == "error" and "non-socket" in r["error"]["value"], r
    check()
    assert d.stop() == 0


def test_log_injection():
    d = Daemon("", "--pool", "0", "--log-level", "debug")
    c, check = neighbour(d)
    forged = "x\n2026-01-01T00:00:00.000Z codeboxd[1] error: forged\x1b[2J"
    assert c.refused("session.create", session_id=forged).kind == "invalid_argument"
    assert c.refused(forged).kind == "unknown_method"
    sid = session(c)
    frame = json.dumps({"ev": forged})
    r = c.run(FRAME + f"frame({frame.encode()!r})\nimport time; time.sleep(60)", session_id=sid)
    assert r["status"] == "killed", r
    check()
    for line in d.text().splitlines():
        assert line.startswith("2026-01-01T") is False and "\x1b" not in line, line
    assert d.stop() == 0


def test_a_thousand_creates():
    d = Daemon("mute=1", "--pool", "0")
    c, check = neighbour(d)
    clients = [d.client() for _ in range(8)]
    for k in clients:
        for _ in range(125):
            k.send("session.create")
    check()
    refused = []
    for k in clients:
        # Those that are let in wait for an init that says nothing; all others are answered at once, and so before this.
        last = k.send("hello")
        while (m := k.recv())["id"] != last:
            refused.append(m["error"]["kind"])
        check()
    assert refused == ["too_many_sessions"] * (1000 - 255), (len(refused), set(refused))
    assert c.call("hello")["sessions"] == 256, c.call("hello")
    check()
    assert d.stop() == 0


def test_a_full_queue():
    d = Daemon("", "--pool", "0")
    c, check = neighbour(d)
    busy = d.client()
    sid = session(busy)
    first = busy.send("run", code="import time; time.sleep(600)", session_id=sid)
    numbers = [busy.send("run", code="1", session_id=sid) for _ in range(64)]
    try:
        busy.wait(busy.send("run", code="1", session_id=sid))
    except Refused as e:
        assert e.kind == "queue_full", e
    else:
        raise AssertionError("the queue has no end")
    check()
    busy.call("interrupt", session_id=sid)
    busy.wait(numbers[-1])
    assert first < numbers[0]
    assert d.stop() == 0


def test_finished_executions_are_forgotten():
    d = Daemon("", "--pool", "0")
    c = d.client()
    sid = session(c)
    for i in range(18):
        c.run(str(i), session_id=sid)
    e = c.refused("interrupt", session_id=sid, execution_id=1)
    assert "the last 16 are kept" in e.message and "16 MiB" in e.message, e
    c.call("interrupt", session_id=sid, execution_id=18)
    # Fewer of them are kept when they are large, but always the last.
    sid = session(c)
    c.run(FRAME + "import json\nme = 1\n"
          "def show(n):\n    global me\n    me += 1\n"
          "    body = {'ev': 'display', 'id': me, 'data': {'text/plain': 'x' * n}, 'metadata': {}}\n"
          "    frame(json.dumps(body).encode())", session_id=sid)
    for _ in range(2):
        assert len(c.run("show(7 << 20)", session_id=sid)["displays"]) == 1
    c.call("interrupt", session_id=sid, execution_id=1)
    c.run("show(7 << 20)", session_id=sid)
    for number in (1, 2):
        e = c.refused("interrupt", session_id=sid, execution_id=number)
        assert e.kind == "execution_forgotten" and "16 MiB" in e.message, (number, e)
    for number in (3, 4):
        c.call("interrupt", session_id=sid, execution_id=number)
    assert d.stop() == 0


@contextlib.contextmanager
def stopped_sandboxes(d):
    """All inits, which are one process with the supervisor that is played, answer nothing for a while."""
    def stopped():
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "T"
    pid = sandboxes(d.process.pid)[0]
    os.kill(pid, signal.SIGSTOP)
    try:
        assert wait_until(stopped)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def outcomes(c, numbers, count):
    """The kind of each error, and None for what was done, of this number of requests."""
    answers = [c.recv() for _ in range(count)]
    assert all(a["id"] in numbers for a in answers), answers
    return [a["error"]["kind"] if "error" in a else None for a in answers]


def test_requests_that_wait_for_a_sandbox():
    d = Daemon("", "--pool", "0")
    c, other = d.client(), d.client()
    sid = session(c)
    # One connection has 256 requests on their way, and no session has more of all connections.
    with stopped_sandboxes(d):
        numbers = [c.send("file.stat", session_id=sid, path=".") for _ in range(300)]
        early = [c.recv() for _ in range(44)]
        assert sorted(a["id"] for a in early) == numbers[256:], early
        assert all("256 requests of this connection" in a["error"]["message"] for a in early), early
        e = other.refused("file.stat", session_id=sid, path=".")
        assert e.kind == "busy" and "requests to session" in e.message, e
    assert outcomes(c, numbers[:256], 256) == [None] * 256
    # Nor more bytes than 4 MiB, beside what the socket holds.
    data = base64.b64encode(bytes(49152)).decode()
    with stopped_sandboxes(d):
        numbers = [c.send("file.write", session_id=sid, path="f", data=data) for _ in range(200)]
        assert outcomes(c, numbers, 1) == ["busy"]
        e = other.refused("file.write", session_id=sid, path="f", data=data)
        assert e.kind == "busy", e
    done = outcomes(c, numbers, 199)
    assert set(done) == {None, "busy"} and 4 * MIB * 1024 // 49152 <= done.count(None) < 150, done
    assert d.stop() == 0


def test_output_that_waits_for_a_sandbox():
    d = Daemon("", "--pool", "0")
    c, other = d.client(), d.client()
    sid = session(c)
    with stopped_sandboxes(d):
        number = c.send("run", session_id=sid,
                        code="import os, time\nfor i in range(4): os.write(1, b'x' * (1 << 20))\n"
                             "while True: print('on', flush=True); time.sleep(0.01)")
        printed = 0
        while printed < 3 << 20:
            m = c.recv()
            printed += len(m.get("text", "")) if m["event"] == "output" else 0

    def kept():
        data = b""
        while True:
            part = other.call("file.read", session_id=sid, path=".codebox/outputs/1.txt", offset=len(data))["data"]
            if not part:
                return data
            data += base64.b64decode(part)
    assert wait_until(lambda: b" bytes are missing here " in kept())
    other.call("interrupt", session_id=sid)
    assert c.wait(number)["status"] == "cancelled"
    assert len(kept()) < 3 << 20
    assert d.stop() == 0


def test_too_many_wait_for_one_cell():
    d = Daemon("", "--pool", "0")
    c, other, m = d.client(), d.client(), mcp(d)
    sid = session(c)
    number = c.send("run", session_id=sid, code="import time; time.sleep(600)")
    assert wait_until(lambda: other.call("session.info", session_id=sid)["state"] == "busy")

    def answers(count):
        got = []
        while len(got) < count:
            answer = m.recv()
            if "id" in answer:
                got.append(answer)
        return sorted(got, key=lambda answer: answer["id"])
    for i in range(40):  # beside the one that runs it
        m.raw(json.dumps({"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": {
            "name": "get_execution", "arguments": {"session_id": sid, "execution_id": 1, "wait": 45}}}).encode())
    refused = answers(9)
    assert [r["id"] for r in refused] == list(range(31, 40)), refused
    assert all("32 calls wait" in json.dumps(r) and r["result"]["isError"] for r in refused), refused
    other.call("interrupt", session_id=sid)
    assert [r["id"] for r in answers(31)] == list(range(31))
    assert c.wait(number)["status"] == "cancelled"
    assert d.stop() == 0


def test_kept_output_over_all_sessions():
    d = Daemon("", "--pool", "0")
    c, check = neighbour(d)
    m = mcp(d)
    before = rss(d)
    sids = []
    for _ in range(7):
        sid = session(c)
        c.run(FRAME + "import json", session_id=sid)
        body = "json.dumps({'ev': 'display', 'id': 2, 'data': {'text/plain': 'x' * (5 << 20)}, " \
               "'metadata': {}}).encode()"
        r = c.run(f"for i in range(3): frame({body})\nprint('printed')", session_id=sid, timeout=60)
        c.events = []
        assert len(r["displays"]) == 3, r.get("message")
        sids.append(sid)
    texts = [get_execution(m, sid, 2) for sid in sids]
    gone = ["no longer kept" in t for t in texts]
    # 64 MiB hold four of 15 MiB: the oldest are those that lose, and every one that lost says so.
    assert gone == [True] * 3 + [False] * 4, gone
    assert all("printed" in t for t, g in zip(texts, gone) if not g)
    check()
    assert rss(d) < before + (64 + 48) * MIB + SLACK_KIB, (before, rss(d))
    assert d.stop() == 0


def page(m, sid, number, at):
    """A page of output as (text, where the next one starts, total), or (None, where it continues, why)."""
    arguments = {"session_id": sid, "execution_id": number, "output_from": at}
    m.raw(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "get_execution", "arguments": arguments}}).encode())
    while (answer := m.recv()).get("id") != 2:
        pass
    result = answer["result"]
    if result["isError"]:
        text = result["content"][0]["text"]
        return None, int(re.search(r"output_from (\d+)", text).group(1)), text
    s = result["structuredContent"]
    return s["output"], s["output_next"], s["output_total"]


def test_output_that_its_file_has_not_all_of():
    d = Daemon("hold", "--pool", "0")
    c, m = d.client(), mcp(d)
    sid = session(c)
    lines = "b''.join(b'%07d\\n' % i for i in range({}, {}))"
    whole = "".join(f"{i:07d}\n" for i in range(1 << 19))
    r = c.run("import os\n_ = os.write(1, " + lines.format(0, 1 << 19) + ")\nopen('go', 'w').close()", session_id=sid,
              timeout=60)
    assert r["status"] == "ok" and "all but " in r["omitted"]["where"] and "the whole" not in r["output"], r["omitted"]
    assert r["omitted"]["where"] in r["output"], r["omitted"]
    at, total, lost = 0, len(whole), []
    while at < total:
        text, after, more = page(m, sid, 1, at)
        assert after > at, (at, after, more)
        if text is None:
            lost.append((at, after))
        else:
            assert text == whole[at:after] and more == total, (at, after, more, text[:100])
        at = after
    # One part is missing: it begins with the piece (64 KiB at most) that had no room beside what waited. Memory has the
    # last 64 KiB at least: the page that says so leads there.
    assert len(lost) == 1 and lost[0][0] > (1 << 20) - (64 << 10), lost
    assert total - (128 << 10) <= lost[0][1] <= total - (64 << 10), lost
    assert "the whole output" not in get_execution(m, sid, 1)

    # What was forgotten is not in the file either, which was being written just then. The driver prints nothing behind a
    # frame before that has been taken; nor may this.
    r = c.run(FRAME + "import json, termios, time\nos.unlink('go')\n_ = os.write(1, b'forgotten' * 40000)\n"
              "frame(json.dumps({'ev': 'clear', 'id': 2, 'wait': False}).encode())\n"
              "while any(fcntl.ioctl(FD, termios.FIONREAD, bytes(4))): time.sleep(0.001)\ntime.sleep(0.001)\n"
              "_ = os.write(1, " + lines.format(0, 40000) + ")\nopen('go', 'w').close()", session_id=sid, timeout=60)
    whole = whole[:8 * 40000]
    assert r["status"] == "ok" and "the whole output is in" in r["omitted"]["where"], r["omitted"]
    at = 0
    while at < len(whole):
        text, after, more = page(m, sid, 2, at)
        assert text == whole[at:after] and after > at and more == len(whole), (at, after, more, text and text[:100])
        at = after
    assert c.call("file.stat", session_id=sid, path=r["omitted"]["file"])["size"] == len(whole)
    assert d.stop() == 0


def test_a_cell_that_prints_on_and_on():
    d = Daemon("", "--pool", "0")
    c, check = neighbour(d)
    other = d.client()
    sid = session(other)
    # All of it is taken and counted, of both streams, and the end is what was printed last.
    number = other.send("run", session_id=sid, timeout=300, code="import os, sys\n"
                        "for i in range(160): os.write(1 + i % 2, b'x' * (1 << 20))\nprint('end', flush=True)")
    check()
    r = other.wait(number)
    assert r["status"] == "ok" and r["output"].endswith("end\n"), r.get("message")
    assert r["omitted"]["bytes"] == (160 << 20) + 4 - (128 << 10), r["omitted"]
    r = other.run("print('next')", session_id=sid)
    assert r["stdout"] == "next\n", r
    # One that never ends is stopped in time.
    r = other.run("b = b'x' * 65536\nwhile True: os.write(1, b)", session_id=sid, timeout=5)
    assert r["status"] == "timeout" and r["state_kept"], r["message"]
    check()
    assert d.stop() == 0


if __name__ == "__main__":
    main(globals())
