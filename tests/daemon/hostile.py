#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codeboxd with an interpreter, an init and a supervisor that lie, die or flood; and long runs that must leak nothing.

CBX_CELLS and CBX_SESSIONS make the long runs longer.
"""
import base64
import os
import signal
import tempfile

from harness import FRAME, Daemon, Refused, children, client, main, session, shared, wait_until


# ---- a hostile interpreter ----

def test_frames_that_break_the_protocol_end_the_interpreter():
    c = client()
    for expression, text in (("os.write(FD, b'\\xff\\xff\\xff\\xff')", "over the limit"), ("frame(b'{')", "not JSON"),
                             ("frame(b'{\"a\":[' + b'0,' * 65536 + b'0]}')", "too many values"),
                             ("frame(b'[]')", "not an object"), ("frame(b'{}')", "without \"ev\""),
                             ("frame(b'{\"ev\":\"boo\"}')", "unknown message"),
                             ("frame(b'{\"ev\":\"done\",\"id\":99,\"status\":\"ok\"}')", "an unknown cell"),
                             ("frame(b'{\"ev\":\"done\",\"id\":1,\"status\":5}')", "malformed \"done\""),
                             ("frame(b'{\"ev\":\"ready\"}')", "malformed \"ready\""),
                             ("frame(b'{\"ev\":\"complete\",\"id\":7}')", "not asked")):
        r = c.run(FRAME + expression + "\nimport time; time.sleep(60)")
        assert r["status"] == "killed" and text in r["message"], (expression, r["message"])
    assert c.run("1")["result"] == "1"
    c.close()


def test_displays_are_checked_and_bounded():
    c = client()
    r = c.run(FRAME + """
import json, base64
me = int(open('me').read()) if os.path.exists('me') else None
def show(data): frame(json.dumps({'ev': 'display', 'id': me, 'data': data, 'metadata': {}}).encode())
""")
    assert r["status"] == "ok", r
    number = r["execution_id"] + 1
    png = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40) + b"IEND\xaeB`\x82").decode()
    r = c.run(f"me = {number}\nshow({{'image/png': '{png}', 'text/plain': 'ok'}})\n"
              "show({'image/png': 'AAAA'})\nshow({'image/png': '*'})\nshow({'x y': 'a'})\nshow({'text/html': 5})")
    shown = [e["data"] for e in c.events if e["event"] == "display"]
    assert shown == [{"image/png": png, "text/plain": "ok"}], shown
    assert "4 parts of displays were omitted" in r["message"], r["message"]
    r = c.run(f"me = {number + 1}\nfor i in range(1000): show({{'text/plain': 'x'}})")
    assert len(r["displays"]) == 64 and "936 displays were omitted" in r["message"], r["message"]
    r = c.run(f"me = {number + 2}\nfor i in range(5): show({{'text/plain': 'x' * (5 << 20)}})", timeout=60)
    assert len(r["displays"]) == 3 and "2 displays were omitted" in r["message"], r["message"]
    r = c.run(f"me = {number}\nshow({{'text/plain': 'late'}})")
    assert r["status"] == "ok" and r["displays"] == [], r
    c.run(f"me = {number + 4}\nshow({{'application/json': {{'a': [1, None, 'x']}}}})")
    shown = [e["data"] for e in c.events if e["event"] == "display"]
    assert shown == [{"application/json": {"a": [1, None, "x"]}}], shown
    c.close()


def test_what_ended_cells_keep_is_counted():
    """All of it: also a result whose display was cleared, an error's texts, and values that are empty."""
    d = Daemon("kept", "--pool", "0")
    c = d.client()
    s = session(c)
    number = c.run(FRAME + "import json\ndef say(**what): frame(json.dumps(what).encode())\n", session_id=s)["execution_id"]

    def memory():
        with open(f"/proc/{d.process.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:")) / 1024

    most = []
    for i in range(1, 601):
        r = c.run(f"n = {number + i}\nsay(ev='result', id=n, count=n, data={{'text/plain': 'r' * 60000}}, metadata={{}})\n"
                  "say(ev='clear', id=n, wait=False)\nfor i in range(60): say(ev='display', id=n, data={'a/b': ''}, metadata={})\n"
                  "say(ev='error', id=n, name='E', value='v' * 8000, traceback='t' * 48000)", session_id=s)
        assert len(r["result"]) == 60000, r
        if i % 100 == 0:
            most.append(memory())
    print(f"# MiB: {', '.join(f'{n:.0f}' for n in most)}")
    assert most[-1] - most[2] < 12, most  # of 300 cells, which have some 120 KiB each
    assert d.stop() == 0


def test_a_cell_that_displays_on_and_on():
    c = client()
    r = c.run(FRAME + "body = b'{\"ev\":\"display\",\"id\":1,\"data\":{\"text/plain\":\"' + b'x' * (4 << 20) + b'\"},'"
              "b'\"metadata\":{}}'\nwhile True: frame(body)", timeout=120)
    assert r["status"] == "killed" and "more than 256 MiB" in r["message"], r["message"]
    assert c.run("1")["result"] == "1"
    c.close()


def test_displays_take_no_more_memory_than_is_counted_for_them():
    d = Daemon("", "--pool", "0")
    c = d.client()
    c.run(FRAME + "import json\nbody = '[' + '0,' * 60000 + '0]'")
    before = usage(d, c)[0]
    r = c.run("for i in range(64): frame(('{\"ev\":\"display\",\"id\":2,\"metadata\":{\"m\":' + body + '},'"
              "                                '\"data\":{\"text/plain\":\"x\"}}').encode())\n")
    assert r["status"] == "ok" and len(r["displays"]) == 64, r
    after = usage(d, c)[0]
    assert after < before + 64 * 1024, (before, after)
    assert d.stop() == 0


def test_an_interpreter_that_does_not_read_is_not_asked_without_end():
    c = client()
    sid = session(c)
    c.run("import os, signal", session_id=sid)
    # It stops for good when it has been heard.
    c.run("import threading, time\ndef stop():\n    while not os.path.exists('stop'): time.sleep(0.01)\n"
          "    os.kill(os.getpid(), signal.SIGSTOP)\nthreading.Thread(target=stop).start()", session_id=sid)
    c.call("file.write", session_id=sid, path="stop", data="")
    assert wait_until(lambda: any(map(stopped, children(shared[0].process.pid))))
    pid = next(p for p in children(shared[0].process.pid) if stopped(p))
    code = "#" + "x" * ((1 << 20) - 1)
    numbers = [c.send("complete", session_id=sid, code=code, cursor=1) for _ in range(8)]
    refused = [c.recv() for _ in range(4)]
    assert all(r["id"] in numbers and r["error"]["kind"] == "busy" for r in refused), refused
    os.kill(pid, signal.SIGCONT)
    for _ in numbers[4:]:
        assert c.recv()["id"] in numbers
    # Nor are many small questions kept for it.
    os.kill(pid, signal.SIGSTOP)
    numbers = [c.send("complete", session_id=sid, code="o", cursor=1) for _ in range(20)]
    refused = [c.recv() for _ in range(4)]
    assert [r["id"] for r in refused] == numbers[16:], refused
    assert all(r["error"]["kind"] == "busy" for r in refused), refused
    os.kill(pid, signal.SIGCONT)
    assert sorted(c.recv()["id"] for _ in range(16)) == numbers[:16]
    assert c.run("6 * 7", session_id=sid)["result"] == "42"
    c.close()


def stopped(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "T"
    except OSError:
        return False


def test_an_interpreter_that_does_not_start():
    d = Daemon("driver=/nonexistent/driver.py")
    e = d.client().refused("session.create")
    assert e.kind == "interpreter_failed" and "exit code 2" in e.message and "No such file" in e.message, e
    e = d.client().refused("run", code="1")
    assert e.kind == "interpreter_failed", e
    assert d.stop() == 0


# ---- a hostile init, a supervisor in trouble ----

def test_lies_of_init_end_the_session_alone():
    for mode, kind in (("garbage", "sandbox_failed"), ("fail", "no_sandbox")):
        d = Daemon(mode)
        c = d.client()
        assert c.refused("session.create").kind == kind, mode
        assert c.refused("run", code="1").kind == kind, mode
        assert c.call("session.list")["sessions"] == []
        assert d.stop() == 0
    d = Daemon("liar")
    c = d.client()
    sid = session(c)
    e = c.refused("file.stat", session_id=sid, path="x")
    assert e.kind == "sandbox_failed" and "was not made" in e.message, e
    assert c.refused("session.info", session_id=sid).kind == "session_expired"
    assert d.stop() == 0
    d = Daemon("longer")
    c = d.client()
    sid = session(c)
    c.call("file.write", session_id=sid, path="x", data="aGVsbG8=")
    assert c.refused("file.read", session_id=sid, path="x").kind == "sandbox_failed"
    assert d.stop() == 0


def test_no_sandbox_is_said_and_the_daemon_stays():
    for mode, text in (("down", "Operation not permitted"), ("exit", "")):
        d = Daemon(mode)
        c = d.client()
        assert wait_until(lambda: c.call("hello")["trouble"]), mode
        assert text in c.call("hello")["trouble"]
        for method, params in (("session.create", {}), ("run", {"code": "1"})):
            e = c.refused(method, **params)
            assert e.kind == "no_sandbox" and text in e.message, e
        assert d.stop() == 0


def test_requests_made_before_the_supervisor_fails():
    d = Daemon("down")
    c = d.client()
    numbers = [c.send("session.create"), c.send("run", code="1")]
    for n in numbers:
        try:
            c.wait(n)
        except Refused as e:
            assert e.kind == "no_sandbox", e
        else:
            raise AssertionError("it was not refused")
    assert d.stop() == 0


def test_the_supervisors_end_ends_the_daemon():
    d = Daemon()
    c = d.client()
    number = c.send("run", code="import time; time.sleep(60)")
    assert wait_until(lambda: c.recv().get("event") == "start")
    with open(f"/proc/{d.process.pid}/task/{d.process.pid}/children") as f:
        for pid in f.read().split():
            os.kill(int(pid), signal.SIGKILL)
    try:
        r = c.wait(number)
        assert r["status"] == "killed", r
    except EOFError:
        pass
    assert d.process.wait(120) == 1
    assert "supervisor" in d.text()
    assert not os.path.exists(d.socket)
    d.stop()


# ---- a client that does not read ----

def test_a_client_that_does_not_read_hurts_nobody():
    c, d = client(), client()
    sid = session(d)
    c.send("run", code="import os\nb = b'y' * 65536\nfor _ in range(1000): os.write(1, b)", session_id=sid)

    def over():
        assert d.call("hello")["trouble"] is None
        s = d.call("session.info", session_id=sid)
        return s["executions"] == 1 and s["state"] == "idle"
    assert wait_until(over)
    r = c.wait(c.number)
    assert r["status"] == "ok", r
    assert any("faster than they were read" in e.get("text", "") for e in c.events)
    d.call("session.close", session_id=sid)
    c.close()
    d.close()


# ---- leaks ----

SLACK_KIB = int(os.environ.get("CBX_SLACK_KIB", "2048"))

def usage(d, c):
    with open(f"/proc/{d.process.pid}/status") as f:
        rss = next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
    return rss, c.call("hello")["descriptors"]


def test_many_cells_leave_nothing_behind():
    cells = int(os.environ.get("CBX_CELLS", "600"))
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:  # what is kept for an export is full after a few cells
        f.write('{"include": ["default"], "limits": {"history": "16K"}}')
        f.flush()
        d = Daemon("", "--pool", "0", "--policy", f.name)
    c = d.client()
    for i in range(100):
        c.run(f"print({i}); {i}")
    rss, fds = usage(d, c)
    for i in range(cells):
        assert c.run(f"print({i}); {i}")["result"] == str(i)
    after, fds_after = usage(d, c)
    assert fds_after == fds, (fds, fds_after)
    assert after < rss + SLACK_KIB, (rss, after)
    assert d.stop() == 0


def test_many_sessions_leave_nothing_behind():
    sessions = int(os.environ.get("CBX_SESSIONS", "40"))
    d = Daemon("", "--pool", "0")
    c = d.client()

    def cycle():
        sid = session(c)
        assert c.run("1", session_id=sid)["result"] == "1"
        c.call("session.close", session_id=sid)

    for _ in range(10):
        cycle()
    assert wait_until(lambda: c.call("hello")["sessions"] == 0)
    rss, fds = usage(d, c)
    for _ in range(sessions):
        cycle()
    assert wait_until(lambda: usage(d, c)[1] <= fds), (fds, usage(d, c))
    assert usage(d, c)[0] < rss + SLACK_KIB, (rss, usage(d, c))
    assert d.stop() == 0


def test_the_daemon_that_served_most_of_these_ends_well():
    client().call("hello")
    assert shared[0].stop() == 0


if __name__ == "__main__":
    main(globals())
