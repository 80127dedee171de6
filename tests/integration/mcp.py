#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MCP as bytes on the wire, through codebox mcp and the daemon's socket: connections that end in every way there is."""
import json
import os
import pty
import signal
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import CODEBOX, Box, run, wait_until

box = Box()
INITIALIZE = {"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "wire", "version": "1"}}}


def call(rid, tool, **arguments):
    return {"jsonrpc": "2.0", "id": rid, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def lines(*messages):
    return "".join(json.dumps(m) + "\n" for m in messages)


def answers(text):
    return {m["id"]: m for m in map(json.loads, text.splitlines()) if "id" in m}


def sessions():
    return json.loads(box("session", "ls", "--json", check=True).stdout)["sessions"]


def connect():
    """A connection of the daemon's MCP socket, which is there once a command has started the daemon."""
    box("session", "ls", check=True)
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(120)
    s.connect(os.path.join(box.env["CODEBOX_RUNTIME_DIR"], "mcp.sock"))
    return s


def test_a_piped_client_gets_all_its_answers():
    sent = lines(INITIALIZE, call(1, "run_code", code="import time; time.sleep(1.5); x = 6"),
                 call(2, "run_code", code="x * 7"), call(3, "list_files"))
    for text in (sent, sent.rstrip("\n")):
        r = box("mcp", input=text)
        got = answers(r.stdout)
        assert r.returncode == 0 and set(got) == {"i", 1, 2, 3}, r
        assert got[2]["result"]["structuredContent"]["result"] == "42", got[2]
    assert wait_until(lambda: sessions() == []), "a piped client's session stays behind it"


def test_a_piped_client_that_would_tell_its_roots():
    """Nobody is left to be asked for them."""
    hello = dict(INITIALIZE, params=dict(INITIALIZE["params"], capabilities={"roots": {}}))
    r = box("mcp", input=lines(hello, call(1, "run_code", code="6 * 7")))
    assert answers(r.stdout)[1]["result"]["structuredContent"]["result"] == "42", r


def test_half_a_connection_is_answered():
    with connect() as s:
        s.sendall(lines(INITIALIZE, call(1, "run_code", code="import time; time.sleep(1); 6 * 7")).encode())
        s.shutdown(socket.SHUT_WR)
        got = answers(s.makefile().read())
    assert got[1]["result"]["structuredContent"]["result"] == "42", got


def test_half_a_connection_that_ends_takes_its_cell_along():
    with connect() as s:
        s.sendall(lines(INITIALIZE, call(1, "run_code", code="import time; time.sleep(3600)")).encode())
        s.shutdown(socket.SHUT_WR)
        assert wait_until(lambda: [i["state"] for i in sessions()] == ["busy"])
    assert wait_until(lambda: sessions() == []), "the cell goes on for nobody"


def stateless(rid, code=None, tool="run_code", **more):
    m = call(rid, tool, **({"code": code} if code else {}), **more)
    m["params"]["_meta"] = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                            "io.modelcontextprotocol/clientCapabilities": {}}
    return m


def test_sessions_of_calls_without_one_give_way():
    """The oldest first; those that somebody asked for, and those in use, stay; and none for a session that is refused."""
    policy = os.path.join(box.dir, "small.json")
    with open(policy, "w") as f:
        json.dump({"include": ["default"], "limits": {"sessions": 4}}, f)
    small = Box(CODEBOX_POLICY=policy)
    small("run", "--session", "asked", "-c", "1", check=True)
    p = small.popen("mcp", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    results = {}

    def begin(rid, *args, **more):
        p.stdin.write(lines(stateless(rid, *args, **more)))
        p.stdin.flush()

    def result(rid):
        while rid not in results:
            m = json.loads(p.stdout.readline())
            results[m.get("id")] = m.get("result")
        return results.pop(rid)

    def ask(rid, *args, **more):
        begin(rid, *args, **more)
        return result(rid)

    def left():
        return {s["session_id"] for s in json.loads(small("session", "ls", "--json", check=True).stdout)["sessions"]}

    made = []
    for rid in range(7):
        r = ask(rid, "6 * 7")
        assert not r["isError"] and r["structuredContent"]["result"] == "42", r
        made.append(r["structuredContent"]["session_id"])
    assert left() == {"asked", *made[-3:]}, (left(), made)
    r = ask(10, tool="create_session", image="there-is-none")
    assert r["isError"] and "there-is-none" in r["content"][0]["text"], r
    assert left() == {"asked", *made[-3:]}, (left(), made)
    # A command is used as long as somebody waits for it.
    ask(11, "import os\nos.mkfifo('go')", session_id=made[-3])
    begin(12, tool="run_command", command="read line < go; echo $line", session_id=made[-3])
    ask(13, "1", session_id=made[-2]), ask(14, "1", session_id=made[-1])
    new = ask(15, "1")["structuredContent"]["session_id"]
    assert left() == {"asked", made[-3], made[-1], new}, (left(), made, new)
    ask(16, "open('go', 'w').write('here\\n')", session_id=made[-3])
    r = result(12)
    assert not r["isError"] and "here" in r["content"][0]["text"], r
    r = ask(20, "1", session_id=made[0])
    assert r["isError"] and "its place was needed" in r["content"][0]["text"], r
    # One that was made for a call that fails goes with it: nobody knows its name.
    had = left()
    for rid, more in (21, {"code": "1", "language": "cobol"}), (22, {"tool": "run_command", "command": "x" * 2000000}):
        r = ask(rid, **more)
        assert r["isError"], r
        assert left() <= had, (left(), had)
    p.stdin.close()
    assert p.wait(60) == 0
    small.stop()


def test_large_calls_at_once():
    """As many as there is memory for; the others are asked to wait."""
    s = connect()
    f = s.makefile("rwb")
    for m in [INITIALIZE] + [call(i, "write_file", session_id="none", path="x", content="x" * 20000000) for i in range(2)]:
        f.write(lines(m).encode())
        f.flush()
        assert json.loads(f.readline())["id"] == m["id"]
    f.write(lines(call("made", "create_session", session_id="large")).encode())
    f.flush()
    assert not json.loads(f.readline())["result"]["isError"]
    f.write(lines(*(call(i, "run_code", code="import time; time.sleep(300)" + "#" * 1000000, **({"session_id": "large"} if i % 2 else {}))
                    for i in range(80))).encode())
    f.flush()
    m = json.loads(f.readline())
    assert m["id"] > 60 and "64 MiB together" in m["result"]["content"][0]["text"], m
    f.close()
    s.close()
    box("session", "rm", "large", check=True)
    assert wait_until(lambda: sessions() == [])


def test_restart_keeps_files_and_ends_cells():
    """Of an interpreter that works, one that hangs with cells behind it, and one that was stopped by a signal."""
    b = Bridge()
    sid = b.run(1, "x = 1; open('kept', 'w').write('here')")["structuredContent"]["session_id"]
    b.send(call(2, "restart"))
    r = b.answer(2)["result"]["structuredContent"]
    assert r == {"session_id": sid, "ended": 0}, r
    r = b.run(3, "print(open('kept').read(), 'x' in globals())")["structuredContent"]
    assert r["stdout"] == "here False\n" and "message" not in r, r
    hang = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('on', flush=True)\ntime.sleep(900)"
    for rid, code in ((10, hang), (20, "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)")):
        b.send(call(rid, "run_code", code=code), call(rid + 1, "run_code", code="1"))
        assert wait_until(lambda: [(s["state"], s["queue_length"]) for s in sessions()] == [("busy", 1)])
        if rid == 10:
            b.send(call(rid + 2, "restart"))
        else:
            box("session", "restart", sid, check=True)
        waited, ran = b.answer(rid + 1)["result"], b.answer(rid)["result"]
        assert waited["structuredContent"]["status"] == "cancelled", waited
        assert "restarted on request" in waited["structuredContent"]["message"], waited
        assert ran["structuredContent"]["status"] == "killed", ran
        assert "restarted on request" in ran["structuredContent"]["message"], ran
        assert b.run(rid + 3, "open('kept').read()")["structuredContent"]["result"] == "'here'"
    b.end()
    r = box("session", "restart", "never-was")
    assert r.returncode == 1 and "never-was" in r.stderr, r


class Bridge:
    """One codebox mcp, a client of the era with a handshake."""

    def __init__(self, *options, env=None):
        self.p = subprocess.Popen([CODEBOX, "mcp", *options], env=env or box.env, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
        self.told, self.others = [], {}
        self.send(INITIALIZE)
        self.hello = self.answer("i")["result"]
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, *messages):
        self.p.stdin.write(lines(*messages))
        self.p.stdin.flush()

    def answer(self, rid):
        while True:
            if rid in self.others:
                return self.others.pop(rid)
            line = self.p.stdout.readline()
            assert line, "codebox mcp has ended"
            m = json.loads(line)
            if "id" not in m:
                self.told.append(m)
            if m.get("id") == rid and (rid or m["method"] == "notifications/message"):
                return m
            if "id" in m:
                self.others[m["id"]] = m

    def run(self, rid, code, **more):
        self.send(call(rid, "run_code", code=code, **more))
        a = self.answer(rid)
        assert "result" in a, a
        return a["result"]

    def end(self):
        self.p.stdin.close()
        assert self.p.wait(120) == 0


def stop_it():
    box("stop", "--force", check=True)


def kill_it():
    os.kill(daemon_pid(), signal.SIGKILL)


def daemon_pid():
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(os.path.join(box.env["CODEBOX_RUNTIME_DIR"], "control.sock"))
        s.sendall(b'{"id":1,"method":"hello","params":{}}\n')
        return json.loads(s.makefile().readline())["result"]["pid"]


def test_a_client_outlives_the_daemon():
    """Idle, or with a call under way; stopped, or killed."""
    for number, end in enumerate((stop_it, kill_it)):
        b = Bridge()
        assert b.run(1, "x = 41")["structuredContent"]["status"] == "ok"
        end()
        b.answer(None)  # its notification
        r = b.run(2, "x")
        assert r["structuredContent"]["error"]["name"] == "NameError", r
        assert "gone" in r["structuredContent"]["notice"] and "gone" in r["content"][0]["text"], r
        warned = [m for m in b.told if m.get("method") == "notifications/message"]
        assert len(warned) == 1 and "lost" in warned[0]["params"]["data"], b.told
        assert "notice" not in b.run(3, "x = 1")["structuredContent"]
        b.send(call(4, "run_code", code="import time; time.sleep(60)"))
        assert wait_until(lambda: [s["state"] for s in sessions()] == ["busy"])
        end()
        error = b.answer(4)["error"]
        assert error["code"] == -32603 and "variables and files" in error["message"], error
        assert b.run(5, "6 * 7")["structuredContent"]["result"] == "42"
        r = b.run(6, "1", session_id="never-was")
        assert r["isError"] and "restarted" in r["content"][0]["text"], r
        b.end()


def test_a_client_with_a_nul_byte_outlives_the_daemon():
    """What it said is not JSON: codeboxd refuses it, and another one does not hear of it."""
    b = Bridge()
    level = {"jsonrpc": "2.0", "id": 9, "method": "logging/setLevel", "params": {"level": "info"}}
    b.p.stdin.write(lines(level).replace("{", '{"nul":"\0",', 1))
    b.p.stdin.flush()
    b.run(1, "x = 41")
    refused = [m for m in b.others.values() if m.get("error", {}).get("code") == -32700]
    assert len(refused) == 1, b.others
    stop_it()
    b.answer(None)
    assert b.run(2, "6 * 7")["structuredContent"]["result"] == "42"
    b.end()


def stop_at_a_terminal(word):
    """What codebox stop says, and its exit status, when that is typed where it asks."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(CODEBOX, [CODEBOX, "stop"], box.env)
    said = b""
    try:
        while chunk := os.read(fd, 4096):
            if b"[y/N]" in said + chunk and b"[y/N]" not in said:
                os.write(fd, word)
            said += chunk
    except OSError:
        pass  # the terminal's other end has gone
    os.close(fd)
    return said.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_stop_says_what_it_ends_and_asks():
    b = Bridge()
    b.run(1, "x = 1")
    said, status = stop_at_a_terminal(b"n\n")
    assert "1 session " in said and "1 MCP connection" in said and status == 1, (said, status)
    assert b.run(2, "x")["structuredContent"]["result"] == "1"
    said, status = stop_at_a_terminal(b"y\n")
    assert status == 0, said
    b.answer(None)
    b.end()
    b = Bridge()
    b.run(1, "x = 1")
    r = box("stop")  # a program is not asked
    assert r.returncode == 0 and "1 session " in r.stderr, r
    b.end()


def value(r):
    assert not r["isError"], r
    return r["structuredContent"]["result"]


def test_a_session_of_a_name_is_for_each_codebox_mcp_that_names_it():
    """One after another, two at once, and in the era without a handshake; it stays when they end."""
    b = Bridge("--session", "named")
    assert "is kept when the connection ends" in str(b.hello["instructions"]), b.hello
    b.send(call(1, "list_files"))
    r = b.answer(1)["result"]
    assert r["isError"] and "named" in r["content"][0]["text"] and "run_code" in r["content"][0]["text"], r
    b.run(2, "x = 1")
    b.end()
    assert [(s["session_id"], s.get("one_shot")) for s in sessions()] in ([("named", False)], [("named", None)])
    first, second = Bridge("--session", "named"), Bridge("--session=named")
    first.send(call(1, "list_files"))
    assert not first.answer(1)["result"]["isError"]
    assert value(first.run(2, "x += 1; x")) == "2" and value(second.run(2, "x += 1; x")) == "3"
    second.send(call(3, "session_info"))
    assert second.answer(3)["result"]["structuredContent"]["default"] is True
    first.end()
    assert value(second.run(4, "x")) == "3"
    second.end()
    r = answers(box("mcp", "--session", "named", input=lines(stateless(1, "x += 1; x"), stateless(2, "x"))).stdout)
    assert [r[n]["result"]["structuredContent"]["result"] for n in (1, 2)] == ["4", "4"], r
    r = answers(box("mcp", input=lines(INITIALIZE, call(1, "run_code", code="x"))).stdout)
    assert r[1]["result"]["structuredContent"]["error"]["name"] == "NameError", r
    b = Bridge("--session", "named", "--policy", "strict")
    assert wait_until(lambda: [s["session_id"] for s in sessions()] == ["named"])
    r = b.run(1, "x")
    assert r["isError"] and "policy" in r["content"][0]["text"] and "named" in r["content"][0]["text"], r
    b.end()
    b = Bridge("--session", "named")
    b.send(call(1, "close_session", session_id="named"))
    b.answer(1)
    r = b.run(2, "'x' in globals()")
    assert value(r) == "False" and "gone" in r["structuredContent"]["notice"], r
    b.end()
    box("session", "rm", "named", check=True)


def test_a_cancelled_call_leaves_a_session_of_a_name():
    """In the era without a handshake, too, where the session of such a call ends otherwise."""
    b = Bridge("--session", "named")
    b.send(stateless(1, "x = 5"))
    b.answer(1)
    b.send(stateless(2, "import time; time.sleep(900)", timeout=3600))
    assert wait_until(lambda: [s["state"] for s in sessions()] == ["busy"])
    b.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
    b.send(stateless(3, "x"))
    assert b.answer(3)["result"]["structuredContent"]["result"] == "5"
    b.end()
    box("session", "rm", "named", check=True)


def test_what_describes_a_session_reaches_it():
    """With a name and without one: limits, variables, the policy, a mount; and the name outlives the daemon."""
    policy, shown = os.path.join(box.dir, "shows.json"), os.path.join(box.dir, "shown")
    os.makedirs(shown)
    os.chmod(shown, 0o777)  # of root, sessions have an account of their own
    with open(policy, "w") as f:
        json.dump({"include": ["default"],
                   "mounts": {"allow": [{"path": os.path.realpath(shown), "writable": True}]}}, f)
    own = Box(CODEBOX_POLICY=policy)
    for options in (("--session", "s"), ()):
        b = Bridge(*options, "--memory", "300M", "--env", "A=b c", "--set", "processes=33", "--timeout", "7",
                   "-v", f"{shown}:/workspace/shown:rw", env=own.env)
        r = b.run(1, "import os; os.umask(0); open('/workspace/shown/made', 'a').write('m'); os.environ['A']")
        assert value(r) == "'b c'", r
        b.send(call(2, "session_info"))
        about = b.answer(2)["result"]["structuredContent"]
        assert about["limits"]["memory_bytes"] == 300 << 20 and about["limits"]["processes"] == 33, about
        assert [m["target"] for m in about["mounts"]] == ["/workspace/shown"], about
        if options:
            own("stop", "--force", check=True)
            b.answer(None)
            assert b.run(3, "import os; os.environ['A']")["structuredContent"]["session_id"] == "s"
        b.end()
    path = os.path.join(shown, "made")
    with open(path) as f:
        assert f.read() == "mm"
    assert (os.stat(path).st_uid == os.getuid()) == (os.getuid() != 0), os.stat(path)
    b = Bridge("--session", "strict", "--policy", "strict", env=own.env)
    b.run(1, "1")
    b.send(call(2, "create_session", session_id="other"))
    b.answer(2)
    for name in ("strict", "other"):
        about = own.json("session", "info", "--json", name)
        assert about["limits"]["memory_bytes"] == 512 << 20, about
    b.end()
    own.stop()


def test_what_does_not_describe_a_session():
    """The bridge says so where it was typed; what only codeboxd can judge is the answer to each call."""
    for options, word in ((("--session", "a b"), "--session"), (("--memory", "lots"), "memory"),
                          (("--set", "x=1"), "x"), (("-v", "/never/was"), "/never/was"), (("--out", "x"), "out"),
                          (("here",), "here"),
                          (("--policy", "a/b"), "--policy"), (("--env", "1=2"), "--env"),
                          (("--timeout", "-"), "timeout")):
        r = box("mcp", *options, input=lines(INITIALIZE))
        assert (r.returncode, r.stdout) == (2, "") and word in r.stderr and "codebox mcp --help" in r.stderr, r
    for options, word in ((("--policy", "loose"), "loose"), (("--image", "never-was"), "never-was"),
                          (("-v", "/etc"), "/etc")):
        for session in ((), ("--session", "n")):
            b = Bridge(*session, *options)
            for rid in (1, 2):
                r = b.run(rid, "1")
                assert r["isError"] and word in r["content"][0]["text"], r
            b.end()
    assert sessions() == []


def test_only_the_first_line_says_what_the_session_is_to_be():
    """And only what a session has."""
    def say(**params):
        return {"jsonrpc": "2.0", "method": "notifications/codebox/session", "params": params}

    for bad, word in ((say(session_id="n", colour="red"), "colour"), (say(session_id="-"), "session_id"),
                      (say(memory="lots"), "memory"), (dict(say(), params=[1]), "params"),
                      (say(mounts=[{"source": "relative"}]), "mounts")):
        with connect() as s:
            s.sendall(lines(bad, INITIALIZE, call(1, "run_code", code="1"), call(2, "list_sessions")).encode())
            s.shutdown(socket.SHUT_WR)
            got = answers(s.makefile().read())
        for rid in (1, 2):
            r = got[rid]["result"]
            assert r["isError"] and word in r["content"][0]["text"], (bad, r)
    with connect() as s:
        s.sendall(lines(INITIALIZE, say(session_id="late"), call(1, "run_code", code="1")).encode())
        s.shutdown(socket.SHUT_WR)
        got = answers(s.makefile().read())
    assert got[1]["result"]["structuredContent"]["session_id"] != "late", got
    with connect() as s:
        s.sendall(lines(say(), say(session_id="late"), INITIALIZE, call(1, "run_code", code="1")).encode())
        s.shutdown(socket.SHUT_WR)
        got = answers(s.makefile().read())
    assert got[1]["result"]["structuredContent"]["session_id"] != "late", got


if __name__ == "__main__":
    run(globals())
