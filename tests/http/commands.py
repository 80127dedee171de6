#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands and terminals of the REST interface, by http.client and curl: input and output as bytes, streams that break and
are continued, signals, sizes, bounds, and that all of it is the tenant's own."""
import base64
import hashlib
import http.client
import json
import os
import random
import shutil
import subprocess
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common_http import DAEMON, PATIENCE, Daemon, Legacy, Skip, wait_until  # noqa: E402
import cbxtest  # noqa: E402

UNREAD = 256 << 10
servers = {}


def daemon():
    if "daemon" not in servers:
        servers["daemon"] = d = Daemon(tenants={"acme": {}, "beta": {}})
        d.tokens = {"acme": d.token("acme"), "beta": d.token("beta"), "looker": d.token("acme", "--scope", "read")}
        status, body = ask("POST", "/sessions", {"session_id": "desk"})
        servers["why"] = None if status == 200 else body
    if servers["why"]:
        raise Skip(f"no session can be made here: {servers['why']}")
    return servers["daemon"]


def begin(method, path, body=None, who="acme", **headers):
    d = servers.get("daemon") or daemon()
    headers = {"Authorization": f"Bearer {d.tokens[who]}", **{k.replace("_", "-"): v for k, v in headers.items()}}
    if isinstance(body, dict):
        body, headers["Content-Type"] = json.dumps(body), "application/json"
    c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=PATIENCE)
    c.request(method, path, body, headers)
    return c.getresponse()


def ask(method, path, body=None, who="acme", **headers):
    with begin(method, path, body, who, **headers) as r:
        return r.status, json.loads(r.read())


def good(method, path, body=None, **headers):
    status, answer = ask(method, path, body, **headers)
    assert status == 200, (method, path, status, answer)
    return answer


def same(got, want):
    assert got == want, f"got {got!r}, want {want!r}"


def start(*argv, **fields):
    """The path of a new command."""
    daemon()
    return f"/sessions/desk/commands/{good('POST', '/sessions/desk/commands', {'argv': argv, **fields})['command_id']}"


def payload(event):
    return base64.b64decode(event["data"]) if "data" in event else event["text"].encode()


def lines_of(response):
    """Its events, by one and the same of both forms."""
    event_id = None
    for line in response:
        line = line.decode().rstrip("\n")
        if line.startswith("{"):
            yield json.loads(line)
        elif line.startswith("id: "):
            event_id = int(line[4:])
        elif line.startswith("data: "):
            event = json.loads(line[6:])
            same(event["next"], event_id)
            yield event


def read_all(command, from_=None, take=None, **headers):
    """All that it prints, as (stream, bytes), and its last event; one answer after another."""
    out, answers = [], 0
    while True:
        query = "" if from_ is None else f"?from={from_}"
        answers += 1
        with begin("GET", f"{command}/output{query}", **headers) as r:
            same(r.status, 200)
            for event in lines_of(r):
                if event["type"] == "keepalive":
                    continue
                if event["type"] == "output":
                    (take or (lambda stream, data: out.append((stream, data))))(event["stream"], payload(event))
                assert event["type"] != "omitted", event
                from_ = event["next"]
        if event["type"] != "more":
            return out, {**event, "answers": answers}


def text(out, stream=None):
    return b"".join(data for name, data in out if stream in (None, name)).decode()


NDJSON = {"Accept": "application/x-ndjson"}


# ---- programs ----

def test_a_program():
    c = start("sh", "-c", "echo $A $(pwd); echo problem >&2; printf '\\377\\0é'; exit 3", environment={"A": "b c"},
              directory="/tmp")
    for headers in {}, NDJSON:  # whoever comes later gets the same, until somebody says that he has it
        out, end = read_all(c, **headers)
        same(b"".join(d for s, d in out if s == "stdout"), b"b c /tmp\n\xff\0" + "é".encode())
        same(text(out, "stderr"), "problem\n")
        same((end["type"], end["command"]["status"], end["command"]["exit_code"]), ("end", "error", 3))
    about = good("GET", c)
    same((about["argv"][0], about["directory"], about["terminal"], about["output"]), ("sh", "/tmp", False, {"from": 0, "next": end["next"]}))
    same(read_all(c, end["next"])[0], [])
    same(good("GET", c)["output"], {"from": end["next"], "next": end["next"]})
    assert about["command_id"] in [x["command_id"] for x in good("GET", "/sessions/desk/commands")["commands"]]


def test_refusals():
    path = "/sessions/desk/commands"
    daemon()
    for body, why in [({}, "argv"), ({"argv": []}, "argv"), ({"argv": "ls"}, "argv"), ({"argv": ["ls", 1]}, "argv"), ({"argv": ["ls"], "cwd": "/"}, "cwd"),
                      ({"argv": ["ls"], "terminal": {"rows": 0}}, "terminal: rows"), ({"argv": ["ls"], "terminal": 1}, "terminal"),
                      ({"argv": ["ls"], "timeout": 0}, "timeout"), ({"argv": ["ls"], "unread": "lose"}, "unread"), ({"argv": ["ls"], "input": "x"}, "input"),
                      ({"argv": ["ls"], "environment": {"A=": "b"}}, "environment")]:
        status, answer = ask("POST", path, body)
        assert status == 400 and why in answer["message"], (body, status, answer)
    for argv in ["no-such-program"], ["/etc/passwd"]:
        status, answer = ask("POST", path, {"argv": argv})
        assert status == 422 and argv[0] in answer["detail"], (status, answer)
    c = start("cat", input=True)
    for method, what, body, status, why in [
            ("GET", "/output?from=1", None, 416, "0 bytes"), ("GET", "/output?from=x", None, 400, "from"), ("POST", "/input", b"x" * ((1 << 20) + 1), 413, "body"),
            ("POST", "/input?offset=1", b"x", 409, "0 bytes"), ("POST", "/resize", {"rows": 1, "columns": 1}, 409, "terminal"),
            ("POST", "/resize", {"rows": 1}, 400, "columns"), ("POST", "/signal", {"signal": "NONE"}, 400, "signal"), ("POST", "/signal", {"signal": 65}, 400, "signal"),
            ("POST", "/signal", {}, 400, "signal"), ("GET", "?wait=61", None, 400, "wait")]:
        got, answer = ask(method, c + what, body)
        assert got == status and why in (answer.get("message") or answer["detail"]), (what, got, answer)
    same(begin("GET", c + "/output", Last_Event_ID="x").status, 400)
    for number in "0", "01", "x", "999999", "-1":
        same((number, ask("GET", f"{path}/{number}")[0]), (number, 404))
    same(good("DELETE", c + "/input")["status"], "running")
    same(good("GET", c + "?wait=60")["status"], "ok")
    same(ask("POST", c + "/input", b"late")[0], 409)


def test_commands_that_were_started_elsewhere():
    d = daemon()
    mcp = Legacy(d.port, Authorization=f"Bearer {d.tokens['acme']}")
    mcp.call("run_command", {"session_id": "desk", "command": "exec sleep 1001", "background": True})
    c = next(x for x in good("GET", "/sessions/desk/commands")["commands"] if "exec sleep 1001" in x["argv"])
    assert c["status"] == "running" and "output" not in c, c
    status, answer = ask("GET", f"/sessions/desk/commands/{c['command_id']}/output")
    assert status == 409 and "client that started it" in answer["detail"], (status, answer)
    same(good("DELETE", f"/sessions/desk/commands/{c['command_id']}")["status"], "killed")


def test_input_is_given_once():
    c = start("cat", input=True)
    same(ask("POST", c + "/input?offset=0", b"one "), (200, {"input": 4, "taken": True}))
    same(ask("POST", c + "/input?offset=0", b"one ")[0], 409)  # a client that did not get the answer
    same(ask("POST", c + "/input?offset=4", b"two")[1]["input"], 7)
    good("DELETE", c + "/input")
    same(text(read_all(c)[0]), "one two")


def test_fifty_megabytes_pass():
    c = start("cat", input=True)
    block = random.Random(5).randbytes(1 << 20)
    pieces = [i.to_bytes(4, "big") + block[4:] for i in range(50)]
    wanted, got, n = hashlib.sha256(), hashlib.sha256(), [0]

    def give():
        for i, p in enumerate(pieces):  # refused for a moment where the machine is slow, and the one before waits
            assert wait_until(lambda: ask("POST", f"{c}/input?offset={i << 20}", p)[0] in (200, 202)), i
        assert wait_until(lambda: ask("DELETE", c + "/input")[0] == 200)

    def take(stream, data):
        got.update(data)
        n[0] += len(data)

    giver = threading.Thread(target=give)
    giver.start()
    end = read_all(c, take=take, **NDJSON)[1]
    giver.join()
    for p in pieces:
        wanted.update(p)
    same((n[0], end["next"], end["command"]["status"]), (50 << 20, 50 << 20, "ok"))
    same(got.hexdigest(), wanted.hexdigest())


def test_a_client_that_goes_loses_nothing():
    c = start("python3", "-c", "for i in range(60000): print(i, 'äöü€😀')")
    out, from_, rng, answers = b"", None, random.Random(7), 0
    while True:
        headers = {} if from_ is None else {"Last_Event_ID": str(from_)}
        r = begin("GET", c + "/output", **headers)
        left = rng.randrange(1, 9)
        answers += 1
        for event in lines_of(r):
            if event["type"] == "output":
                out += payload(event)
            assert event["type"] in ("output", "more", "end", "keepalive"), event
            from_ = event.get("next", from_)
            left -= 1
            if event["type"] == "end" or not left:
                break  # what has come since is thrown away
        r.close()
        if event["type"] == "end":
            break
    assert answers > 5, answers
    same(out, "".join(f"{i} äöü€😀\n" for i in range(60000)).encode())


def test_output_that_nobody_reads():
    c = start("sh", "-c", "head -c 2000000 /dev/zero | tr '\\0' x")
    assert wait_until(lambda: good("GET", c)["output"]["next"] >= UNREAD)
    about = good("GET", c)
    assert about["status"] == "running" and about["output"]["from"] == 0 and about["output"]["next"] < 1 << 20, about
    out, end = read_all(c)
    same((len(text(out)), end["command"]["status"]), (2000000, "ok"))
    assert end["answers"] >= 2000000 // (UNREAD + (128 << 10)), end
    # Or the program does not wait.
    c = start("sh", "-c", "head -c 2000000 /dev/zero | tr '\\0' x", unread="forget")
    assert wait_until(lambda: good("GET", c + "?wait=60")["status"] == "ok")
    with begin("GET", c + "/output", **NDJSON) as r:
        events = list(lines_of(r))
    kept = sum(len(e.get("text", "")) for e in events)
    same((events[0]["type"], events[0]["next"], events[-1]["type"], events[-1]["next"]), ("output", 2000000 - kept + len(events[0]["text"]), "end", 2000000))
    assert UNREAD - 8 <= kept <= UNREAD, kept
    with begin("GET", c + "/output?from=0", **NDJSON) as r:
        first = next(lines_of(r))
    same(first, {"type": "omitted", "bytes": 2000000 - kept, "next": 2000000 - kept})


def test_one_reads_at_a_time():
    c = start("sh", "-c", "echo first; read x; echo second $x", input=True)
    one = lines_of(begin("GET", c + "/output"))
    same(next(one)["text"], "first\n")
    assert good("GET", c)["attached"]
    two = lines_of(begin("GET", c + "/output", **NDJSON))
    same(next(two)["text"], "first\n")
    same(next(one)["type"], "taken_over")
    good("POST", c + "/input", b"line\n")
    same(next(two)["text"], "second line\n")
    same(next(two)["type"], "end")


def test_signals_and_the_end():
    c = start("sh", "-c", "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done")
    same(next(lines_of(begin("GET", c + "/output")))["text"], "ready\n")
    good("POST", c + "/signal", {"signal": "TERM"})
    assert wait_until(lambda: good("GET", c + "?wait=60").get("exit_code") == 5)
    c = start("sh", "-c", "sleep 98765 & sleep 98765 & echo ready; wait")
    same(next(lines_of(begin("GET", c + "/output")))["text"], "ready\n")
    gone = good("DELETE", c)
    same((gone["status"], gone["exit_code"], gone["output"]["from"]), ("killed", 137, gone["output"]["next"]))
    same(good("DELETE", c)["status"], "killed")

    def left():
        return text(read_all(start("sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '"))[0]).count("sleep 98765")

    assert wait_until(lambda: left() == 0), left()
    c = start("sleep", "1000", timeout=1)
    assert wait_until(lambda: good("GET", c + "?wait=60")["status"] == "timeout")


# ---- terminals, by curl ----

class Screen:
    """What a command prints on its terminal, as curl brings it, one answer after another."""

    def __init__(self, command):
        self.command, self.text, self.end = command, "", None
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()

    def follow(self):
        from_ = 0
        while not self.end:
            url = f"http://127.0.0.1:{daemon().port}{self.command}/output?from={from_}"
            p = subprocess.Popen(["curl", "-sN", "-H", f"Authorization: Bearer {daemon().tokens['acme']}", "-H", "Accept: application/x-ndjson", url],
                                 stdout=subprocess.PIPE)
            for event in lines_of(p.stdout):
                if event["type"] == "output":
                    self.text += payload(event).decode()
                from_ = event.get("next", from_)
                self.end = event if event["type"] in ("end", "taken_over") else None
            p.wait()

    def see(self, what):
        assert wait_until(lambda: what in self.text), (what, self.text)

    def type(self, keys):
        curl("-X", "POST", "--data-binary", "@-", self.command + "/input", input=keys)


def curl(*args, input=None):
    *options, path = args
    r = subprocess.run(["curl", "-sS", "--fail-with-body", "-H", f"Authorization: Bearer {daemon().tokens['acme']}", *options,
                        f"http://127.0.0.1:{daemon().port}{path}"], input=input, capture_output=True, timeout=PATIENCE)
    assert r.returncode == 0, r
    return json.loads(r.stdout)


def test_a_shell_on_a_terminal():
    if not shutil.which("curl"):
        raise Skip("there is no curl")
    c = start("sh", terminal={"rows": 31, "columns": 97})
    s = Screen(c)
    s.type(b"stty size; echo $((6 * 7))\n")
    s.see("31 97\r\n42\r\n")
    curl("-H", "Content-Type: application/json", "-d", '{"rows": 41, "columns": 132}', c + "/resize")
    s.type(b"stty size\n")
    s.see("41 132\r\n")
    s.type("echo ä€''😀\n".encode())
    s.see("ä€😀\r\n")
    s.type(b"exit 7\n")
    assert wait_until(lambda: s.end)
    same((s.end["type"], s.end["command"]["exit_code"], s.end["command"]["terminal"]), ("end", 7, True))


def test_control_c_as_a_byte():
    if not shutil.which("curl"):
        raise Skip("there is no curl")
    c = start("sh", "-c", "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.05; done", terminal=True)
    s = Screen(c)
    s.see("ready\r\n")
    s.type(b"\x03")
    s.see("caught\r\n")
    assert wait_until(lambda: s.end)
    same(s.end["command"]["exit_code"], 9)


# ---- whose they are, and how many ----

def test_tenants():
    c = start("cat", terminal=True)
    for who, status in ("beta", 404), ("looker", 403):
        for method, what, body in [("GET", "/output", None), ("POST", "/input", b"x"), ("DELETE", "/input", None),
                                   ("POST", "/resize", {"rows": 1, "columns": 1}), ("POST", "/signal", {"signal": 9}), ("DELETE", "", None)]:
            same((who, method, what, ask(method, c + what, body, who=who)[0]), (who, method, what, status))
    same(ask("GET", c, who="beta")[0], 404)
    same(ask("GET", "/sessions/desk/commands", who="beta")[0], 404)
    same(ask("POST", "/sessions/desk/commands", {"argv": ["ls"]}, who="beta")[0], 404)
    same((ask("GET", c, who="looker")[0], good("GET", c)["status"]), (200, "running"))
    good("DELETE", c)


def test_bounds():
    daemon()
    good("POST", "/sessions", {"session_id": "many"})

    def more(*argv):
        return ask("POST", "/sessions/many/commands", {"argv": argv})

    first = more("echo", "unread")[1]["command_id"]
    path = f"/sessions/many/commands/{first}"
    assert wait_until(lambda: good("GET", path)["status"] == "ok")
    same(good("GET", path)["output"], {"from": 0, "next": 7})
    running = [more("sleep", "1000") for _ in range(16)]
    same([status for status, _ in running], [200] * 16)
    same(good("GET", path)["output"], {"from": 7, "next": 7})  # it has ended, and gave way
    status, answer = more("true")
    assert status == 429 and "16 commands" in answer["detail"], (status, answer)
    good("DELETE", f"/sessions/many/commands/{running[0][1]['command_id']}")
    same(more("true")[0], 200)
    good("DELETE", "/sessions/many")


def test_the_end():
    if "daemon" in servers:
        same(servers["daemon"].stop(), 0)


if __name__ == "__main__":
    if not os.access(DAEMON, os.X_OK) and not shutil.which(DAEMON):
        print("1..0 # SKIP there is no codeboxd")
        sys.exit(0)
    cbxtest.run(globals())
