#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codeboxd from outside, over its control socket: cells, limits, sessions, files, and the daemon's own life.

The supervisor is only played (fake_supervisor.py), so these tests run where no sandbox can be made. The Python driver
is the real one.
"""
import base64
import json
import os
import signal
import socket
import stat
import subprocess
import time

from harness import DAEMON, FRAME, Client, Daemon, Refused, client, main, session, shared, wait_until


# ---- cells ----

def test_a_cell_prints_shows_and_keeps_its_variables():
    c = client()
    r = c.run("print('hi'); x = 5; x + 1")
    assert (r["status"], r["stdout"], r["result"], r["state_kept"]) == ("ok", "hi\n", "6", True), r
    assert [e["event"] for e in c.events][0] == "start"
    assert any(e["event"] == "display" and e["is_result"] and e["data"]["text/plain"] == "6" for e in c.events)
    assert "".join(e["text"] for e in c.events if e["event"] == "output") == "hi\n"
    assert c.run("x")["result"] == "5"
    assert c.run("import os; os.environ['FROM_IMAGE'], 'PYTHONPATH' in os.environ")["result"] == "('yes', False)"
    c.close()


def test_both_streams_keep_their_order():
    c = client()
    r = c.run("import sys, os\nfor i in range(50):\n print(-i, file=sys.stderr)\n print(i)\n os.system(f'echo s{i}')")
    want = "".join(f"{-i}\n{i}\ns{i}\n" for i in range(50))
    assert r["output"] == want, r["output"]
    assert r["stderr"] == "".join(f"{-i}\n" for i in range(50))
    c.close()


def test_an_exception_is_an_error():
    c = client()
    r = c.run("1/0")
    assert r["status"] == "error" and r["error"]["name"] == "ZeroDivisionError", r
    assert "ZeroDivisionError" in r["error"]["traceback"]
    r = c.run("raise SystemExit(3)")
    assert r["status"] == "error" and r["exit_code"] == 3 and r["state_kept"], r
    c.close()


def test_characters_are_never_split():
    c = client()
    c.run("import os, time\nfor b in 'äöü€𝄞'.encode():\n os.write(1, bytes([b])); time.sleep(0.002)")
    texts = [e["text"] for e in c.events if e["event"] == "output"]
    assert "".join(texts) == "äöü€𝄞", texts
    r = c.run("import os; _ = os.write(1, b'a\\xff\\xe2\\x82')")
    assert r["stdout"] == "a\ufffd\ufffd\ufffd", r
    c.close()


def test_large_output_is_cut_and_kept_in_a_file():
    c = client()
    sid = session(c)
    r = c.run("import sys\nfor i in range(60000): sys.stdout.write(f'line {i}\\n')", session_id=sid)
    whole = "".join(f"line {i}\n" for i in range(60000))
    name = f"/workspace/.codebox/outputs/{r['execution_id']}.txt"
    assert r["omitted"]["file"] == name and name in r["output"], r["omitted"]
    head, rest = r["output"].split("\n[… ")
    note, tail = rest.split(" …]\n")
    assert whole.startswith(head) and whole.endswith(tail)
    assert len(head) + 1 + len(tail) + r["omitted"]["bytes"] >= len(whole)
    assert "the whole output is in" in note, note
    data, offset = b"", 0
    while True:
        part = c.call("file.read", session_id=sid, path=name, offset=offset)
        data += base64.b64decode(part["data"])
        offset = len(data)
        if part["eof"]:
            break
    assert data.decode() == whole
    c.call("session.close", session_id=sid)
    c.close()


def test_an_endless_flood_is_bounded_and_can_be_stopped():
    c = client()
    sid = session(c)
    r = c.run("b = b'x' * 65536\nimport os\nwhile True: os.write(1, b)", session_id=sid, timeout=3)
    assert r["status"] == "timeout" and r["state_kept"], r["message"]
    assert len(r["output"]) < 140000 and r["omitted"]["bytes"] > 1000000
    size = c.call("file.stat", session_id=sid, path=r["omitted"]["file"])["size"]
    assert size < 17 << 20, size
    c.call("session.close", session_id=sid)
    c.close()


# ---- limits and deaths ----

def test_a_timeout_keeps_the_variables():
    c = client()
    c.run("kept = 41")
    r = c.run("print('started')\nwhile True: pass", timeout=3)
    assert r["status"] == "timeout" and r["state_kept"] and r["stdout"] == "started\n", r
    assert "Variables and files are kept" in r["message"]
    assert c.run("kept")["result"] == "41"
    c.close()


def test_a_cell_that_ignores_the_interrupt_is_killed():
    c = client()
    c.run("kept = 41; open('kept.txt', 'w').write('x')")
    r = c.run("import time\nwhile True:\n try: time.sleep(60)\n except BaseException: print('no')", timeout=3)
    assert r["status"] == "timeout" and not r["state_kept"] and "no\n" in r["stdout"], r
    assert "lost" in r["message"]
    assert c.run("kept")["error"]["name"] == "NameError"
    assert c.run("open('kept.txt').read()")["result"] == "'x'"
    c.close()


def test_deaths_are_named():
    c = client()
    for code, text in (("import os; print('last', flush=True); os._exit(3)", "exit code 3"),
                       ("import ctypes; ctypes.string_at(0)", "signal 11"),
                       ("import os, signal; os.kill(os.getpid(), 9)", "signal 9"),
                       ("open('oom', 'w').close(); import os; os.kill(os.getpid(), 9)", "memory limit of 2 GiB")):
        r = c.run(code)
        assert r["status"] == "killed" and not r["state_kept"] and text in r["message"], r
        r = c.run("import os; os.path.exists('oom') and os.unlink('oom'); 1")
        assert r["status"] == "ok" and r["result"] == "1", r
    r = c.run("import threading, os, time\ndef die():\n  while not os.path.exists('die'): time.sleep(0.01)\n  os._exit(4)\n"
              "threading.Thread(target=die).start()\nos.getpid()")
    assert r["status"] == "ok"
    c.call("file.write", session_id=r["session_id"], path="die", data="")
    assert wait_until(lambda: not os.path.exists(f"/proc/{r['result']}")), "it did not die"
    c.call("hello")
    r = c.run("1")
    assert r["status"] == "ok" and "Between the cells the interpreter died" in r["message"], r
    c.close()


def test_closing_the_own_descriptors_hangs_nothing():
    c = client()
    r = c.run("import os; os.close(1); os.close(2)")
    assert r["status"] in ("ok", "error"), r
    r = c.run(FRAME + "for fd in list(connection()): os.dup2(os.open('/dev/null', 0), fd)\nwhile True: pass", timeout=20)
    assert r["status"] == "killed" and "descriptor 3" in r["message"], r
    assert c.run("1")["status"] == "ok"
    c.close()


def test_children_that_outlive_their_cell():
    c = client()
    r = c.run("import subprocess\np = subprocess.Popen('while ! test -e go; do sleep 0.01; done; echo late; touch said; '"
              "'sleep 60', shell=True)")
    assert r["status"] == "ok" and r["output"] == "", r
    c.call("file.write", session_id=r["session_id"], path="go", data="")

    def said():
        try:
            return c.call("file.stat", session_id=r["session_id"], path="said")
        except Refused:
            return None
    assert wait_until(said)
    assert c.run("p.kill(); print('now')")["output"] == "late\nnow\n"
    c.close()


def test_cells_queue_and_can_be_cancelled():
    c = client()
    sid = session(c)
    first = c.send("run", code="while True: pass", session_id=sid)
    second = c.send("run", code="print(2)", session_id=sid)
    third = c.send("run", code="print(3)", session_id=sid)
    d = client()
    assert wait_until(lambda: d.call("session.info", session_id=sid)["queue_length"] == 2)
    assert d.refused("is_complete", session_id=sid, code="1").kind == "busy"
    d.call("interrupt", session_id=sid, execution_id=2)
    assert c.wait(second)["status"] == "cancelled"
    d.call("interrupt", session_id=sid)
    r = c.wait(first)
    assert r["status"] == "cancelled" and r["state_kept"], r
    assert c.wait(third)["stdout"] == "3\n"
    waiting = [c.send("run", code="import time; time.sleep(60)", session_id=sid)]
    assert wait_until(lambda: d.call("session.info", session_id=sid).get("running"))
    waiting += [c.send("run", code="1", session_id=sid) for _ in range(64)]
    assert c.refused("run", code="1", session_id=sid).kind == "queue_full"
    d.call("session.close", session_id=sid)
    assert [c.wait(n)["status"] for n in waiting] == ["killed"] * 65
    c.close()
    d.close()


def test_a_client_that_leaves_interrupts_its_cell():
    c, d = client(), client()
    sid = session(d)
    c.send("run", code="import time; time.sleep(60)", session_id=sid)
    assert wait_until(lambda: d.call("session.info", session_id=sid)["state"] == "busy")
    c.send("run", code="1")
    assert wait_until(lambda: len(d.call("session.list")["sessions"]) == 2)
    c.close()
    assert wait_until(lambda: d.call("session.info", session_id=sid)["state"] == "idle")
    assert wait_until(lambda: len(d.call("session.list")["sessions"]) == 1), "a connection's session stays behind it"
    d.call("session.close", session_id=sid)
    d.close()


def test_questions_about_code():
    c = client()
    sid = session(c)
    assert c.call("is_complete", session_id=sid, code="def f():")["status"] == "incomplete"
    assert c.call("is_complete", session_id=sid, code="1")["status"] == "complete"
    r = c.call("complete", session_id=sid, code="impor", cursor=5)
    assert "import" in r["matches"], r
    c.call("session.close", session_id=sid)
    c.close()


# ---- sessions ----

def test_sessions_are_made_listed_and_remembered():
    c = client()
    made = c.call("session.create", session_id="one", memory="256M", timeout="5s", ttl="1h")
    assert made["limits"]["memory_bytes"] == 256 << 20 and made["limits"]["timeout_s"] == 5, made
    assert made["interpreter"]["language"] == "python" and made["expires_in_s"] <= 3600
    assert c.refused("session.create", session_id="one").kind == "session_exists"
    assert [s["session_id"] for s in c.call("session.list")["sessions"]] == ["one"]
    assert c.refused("run", code="1", session_id="one", memory="512M").kind == "session_differs"
    assert c.run("1", session_id="one", memory="256M")["result"] == "1"
    c.call("session.close", session_id="one")
    e = c.refused("session.info", session_id="one")
    assert e.kind == "session_expired" and "on request" in e.message, e
    assert c.refused("session.info", session_id="two").kind == "session_not_found"
    assert c.refused("run", code="1", session_id="two").kind == "session_not_found"
    assert c.run("1", session_id="two", create=True)["result"] == "1"
    c.call("session.close", session_id="two")
    assert c.refused("session.create", image="nothing").kind == "image_not_found"
    c.close()


def test_sessions_end_by_themselves():
    c = client()
    for name, term in (("old", "ttl"), ("unused", "idle_timeout")):
        try:
            c.call("session.create", session_id=name, **{term: 1})
        except Refused as e:  # on a machine on which it takes longer to make than it may live
            assert e.kind == "session_expired", e
    c.send("run", code="import time; time.sleep(2.5)", session_id="unused")
    for name, why in (("old", "ttl"), ("unused", "without use")):
        def gone():
            try:
                c.call("session.info", session_id=name)
            except Refused as e:
                assert e.kind == "session_expired" and why in e.message, e
                return True
            return False
        d = client()
        assert wait_until(gone), name
        d.close()
    c.close()


def test_arguments_are_checked():
    c = client()
    for params in ({"memory": "1"}, {"memory": True}, {"memory": 1.5}, {"disk": "12Q"}, {"processes": 0}, {"ttl": -1},
                   {"session_id": "../x"}, {"session_id": ""}, {"session_id": "x" * 64}, {"session_id": 5},
                   {"timeout": 1e9}, {"nonsense": 1}, {"image": "/etc"}):
        e = c.refused("session.create", **params)
        assert e.kind == "invalid_argument" and next(iter(params)) in e.message, (params, e)
    assert c.call("session.list")["sessions"] == []
    assert c.refused("nothing").kind == "unknown_method"
    assert c.refused("run").kind == "invalid_argument"
    assert c.refused("run", code=5).kind == "invalid_argument"
    assert c.refused("run", code="#" * (1 << 20) + "#").kind == "code_too_long"
    assert c.refused("file.read", session_id="x", path="y", offset=-1).kind == "session_not_found"
    c.close()


def test_messages_are_checked():
    c = client()
    for line, kind in ((b"{", "invalid_json"), (b"[]", "invalid_json"), (b"{}", "invalid_argument"),
                       (b'{"id":"x","method":"hello"}', "invalid_argument"), (b"\xff\xfe", "invalid_json"),
                       (b'{"id":1,"method":"hello","params":[]}', "invalid_argument"),
                       (b'{"id":1,"method":"hello","more":1}', "invalid_argument"),
                       (b'{"id":1,"method":"run","params":{"code":"\\u0000"}}', "invalid_string"),
                       (b'{"id":1,"method":"run","params":{"code":"\\ud800"}}', "invalid_string"),
                       (b'{"id":1,"id":2,"method":"hello"}', "duplicate_key"),
                       (b"[" * 100000, "invalid_json"), (b"x" * (25 << 20), "message_too_long")):
        c.raw(line)
        m = c.recv()
        assert m["error"]["kind"] == kind, (line[:60], m)
    assert c.call("hello")["trouble"] is None
    c.close()


def test_files():
    c = client()
    sid = session(c)
    data = os.urandom(40000)
    assert c.call("file.write", session_id=sid, path="d/a", data=base64.b64encode(data).decode())["written"] == 40000
    c.call("file.write", session_id=sid, path="d/a", data=base64.b64encode(b"end").decode(), append=True)
    r = c.call("file.read", session_id=sid, path="/workspace/d/a", offset=39999, length=10)
    assert base64.b64decode(r["data"]) == data[-1:] + b"end" and r["eof"] and r["size"] == 40003, r
    assert c.call("file.stat", session_id=sid, path="d")["type"] == "directory"
    c.call("file.mkdir", session_id=sid, path="d/empty")
    r = c.call("file.list", session_id=sid, path="d")
    assert [(e["name"], e["type"]) for e in r["entries"]] == [("a", "file"), ("empty", "directory")] and not r["more"]
    c.call("file.remove", session_id=sid, path="d")
    assert c.refused("file.stat", session_id=sid, path="d").kind == "file_not_found"
    assert c.refused("file.write", session_id=sid, path="x", data="***").kind == "invalid_argument"
    assert c.refused("file.write", session_id=sid, path="x", data="", offset=1, append=True).kind == "invalid_argument"
    assert c.refused("file.read", session_id=sid, path="").kind == "invalid_argument"
    c.call("session.close", session_id=sid)
    c.close()


# ---- the daemon ----

def test_too_many_clients_are_told_so():
    d = Daemon()
    clients = [d.client() for _ in range(256)]
    for c in clients:
        c.call("hello")
    one = d.client()
    assert one.recv()["error"]["kind"] == "too_many_clients"
    clients[0].close()
    assert wait_until(lambda: try_hello(d))
    for c in clients[1:]:
        c.close()
    assert d.stop() == 0


def try_hello(d):
    c = d.client()
    try:
        c.call("hello")
        return True
    except (Refused, EOFError, OSError, KeyError):
        return False
    finally:
        c.close()


def test_it_ends_when_nobody_uses_it():
    d = Daemon("", "--idle-timeout", "3")
    c = d.client()
    sid = session(c)
    c.close()
    time.sleep(3.5)
    assert d.process.poll() is None, "it ended with a session"
    c = d.client()
    c.call("session.close", session_id=sid)
    c.close()
    assert d.process.wait(120) == 0
    assert not os.path.exists(d.socket)
    d.stop()


def test_sockets_of_another_daemon_are_left_alone():
    d = Daemon()
    d.client().call("hello")
    os.rename(d.socket, d.socket + ".old")
    other = socket.socket(socket.AF_UNIX)
    other.bind(d.socket)
    d.process.terminate()
    assert d.process.wait(120) == 0
    assert os.path.exists(d.socket), "a socket that was not its own was removed"
    other.close()
    d.stop()


def test_a_hangup_costs_no_session():
    d = Daemon()
    c = d.client()
    c.call("session.create", session_id="kept")
    d.process.send_signal(signal.SIGHUP)
    assert wait_until(lambda: "SIGHUP" in d.text()), d.text()
    assert c.call("session.info", session_id="kept")["state"] == "idle"
    d.stop()


def test_stop_is_answered_and_closes_last():
    d = Daemon()
    c = d.client()
    c.run("1")
    with open(f"/proc/{d.process.pid}/task/{d.process.pid}/children") as f:
        children = [int(p) for p in f.read().split()]
    assert c.call("stop") == {}
    assert c.file.readline() == b""
    assert not any(os.path.exists(f"/proc/{p}") for p in children), "the supervisor is still there"
    assert d.process.wait(120) == 0
    assert not os.path.exists(d.socket)
    d.stop()


def test_it_gives_up_what_it_does_not_need():
    d = Daemon()
    d.client().call("hello")
    with open(f"/proc/{d.process.pid}/status") as f:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    assert status["NoNewPrivs"] == "1"
    assert int(status["CapEff"], 16) == 0 and int(status["CapPrm"], 16) == 0
    assert "0" not in status["Uid"].split(), status["Uid"]
    assert os.stat(f"/proc/{d.process.pid}/environ").st_uid == 0, "it is dumpable"
    assert stat.S_IMODE(os.stat(os.path.dirname(d.socket)).st_mode) & 0o7 == 0
    assert d.stop() == 0


def test_options():
    for args, code, text in ((["--help"], 0, "Usage"), (["--version"], 0, "codeboxd"), (["--nonsense"], 2, ""),
                             (["--idle-timeout", "x"], 2, "idle-timeout"), (["extra"], 2, "extra"),
                             (["--log-level", "loud"], 2, "loud")):
        r = subprocess.run([DAEMON, *args], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        assert r.returncode == code and text in r.stdout + r.stderr, (args, r)
    env = {k: v for k, v in os.environ.items() if not k.startswith("LISTEN_")}
    r = subprocess.run([DAEMON], capture_output=True, text=True, timeout=120, env=env)
    assert r.returncode == 1 and "LISTEN_FDS" in r.stderr, r


def test_mcp_is_served_on_its_own_socket():
    d = Daemon()
    c = d.client()
    m = Client(os.path.join(d.dir, "run", "mcp.sock"))
    m.raw(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}).encode())
    assert m.recv()["result"]["serverInfo"]["name"], "no answer to initialize"
    m.close()
    assert c.call("hello")["sessions"] == 0
    assert d.stop() == 0


def test_the_daemon_that_served_most_of_these_ends_well():
    client().call("hello")
    assert shared[0].stop() == 0


if __name__ == "__main__":
    main(globals())
