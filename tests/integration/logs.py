#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codebox logs: what a session has run, and, followed, what it runs: each cell once and in order, whoever asked for it; a
terminal that obeys nothing; readers that leave or are slow harm nothing."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from cbxtest import Box, CODEBOX, run, wait_until  # noqa: E402
from control import Control, ControlError  # noqa: E402
from terminal import Terminal  # noqa: E402

box = Box()
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="  # a PNG


def make(name, *cells):
    for code in cells:
        box("run", "--session", name, "-c", code)


def log(*args):
    return box("logs", *args, check=True).stdout


class Follower:
    def __init__(self, *args):
        self.path = os.path.join(box.dir, "followed-%d" % id(self))
        with open(self.path, "wb") as f:
            self.process = box.popen("logs", "-f", *args, stdout=f, stderr=f)

    def text(self):
        with open(self.path, errors="replace") as f:
            return f.read()

    def sees(self, what):
        assert wait_until(lambda: what in self.text() or self.process.poll() is not None) and what in self.text(), \
            (what, self.text())


def test_what_has_ended():
    make("past", "print('out')\n6 * 7", "def f():\n    1/0\nf()",
         "display({'image/png': '" + DOT + "', 'text/plain': 'a figure'}, raw=True)",
         "import os; os._exit(3)")
    seen = log("past")
    assert seen.startswith("In [1]: print('out')\n   ...: 6 * 7\nout\nOut[1]: 42\n\nIn [2]: def f():\n"), seen
    assert "ZeroDivisionError: division by zero\n\nIn [3]: display" in seen, seen
    assert "[image/png]\na figure\n\nIn [" in seen and "\n[The " in seen.split("_exit(3)")[1], seen
    assert log("--tail", "1", "past") == seen[seen.rindex("In ["):], seen
    assert log("-n", "0", "past") == ""


def test_followed():
    make("live", "'before'")
    every, new = Follower("live"), Follower("-n", "0", "live")
    every.sees("'before'")
    cell = box.popen("run", "--session", "live", "-c", "import os, time\nprint('begun', flush=True)\n"
                     "while not os.path.exists('go'): time.sleep(0.02)\n'its end'")
    every.sees("begun\n")
    assert "its end'\nOut" not in every.text()
    late = log("live")  # which does not wait for the end
    assert late.endswith("'its end'\nbegun\n"), late
    box("exec", "live", "--", "touch", "go", check=True)
    assert cell.wait(120) == 0
    for i in range(30):
        with Control(box) as c:  # quicker than it looks
            c.call("run", session_id="live", code=f"print('cell', {i})", language="python")
    for f in (every, new):
        f.sees("cell 29\n")
    box("session", "rm", "live", check=True)
    for f in (every, new):
        assert f.process.wait(120) == 0
        assert f.text().endswith("codebox: session live has ended\n") and "Out: 'its end'\n" in f.text(), f.text()
        seen = [line for line in f.text().split("\n") if line.startswith("cell ")]
        assert seen == [f"cell {i}" for i in range(30)], seen
        assert f.text().count("begun\n") == 1
    assert "'before'" in every.text() and "'before'" not in new.text()


def answer(c, number):
    while (m := c.recv()).get("id") != number or "event" in m:
        pass
    return m


def test_those_who_leave_and_those_who_are_slow():
    make("busy", "0")
    out = os.path.join(box.dir, "busy.txt")
    with open(out, "wb") as f:
        cell = box.popen("run", "--session", "busy", "-c", "import sys\nfor i in range(8000): print('x' * 9999)\n"
                         "open('written', 'w').close()\nprint(sys.stdin.readline())", stdin=subprocess.PIPE, stdout=f)
    assert wait_until(lambda: os.path.getsize(out) > 0)
    with Control(box) as c:
        at = c.call("session.history", session_id="busy")["next"]
        watch = c.send("watch", session_id="busy", execution_id=at)  # and nothing of it is read
        leaves = Follower("busy")
        leaves.sees("xxx")
        leaves.process.kill()
        leaves.process.wait()
        with Control(box) as other:
            assert wait_until(lambda: any(e["name"] == "written" for e in other.call(
                "file.list", session_id="busy", path=".")["entries"])), "the cell waits for one who does not read"
        m = answer(c, c.send("input", request=watch, data="aGkK"))
        assert m["error"]["kind"] == "no_input", m  # the cell is not theirs
        cell.communicate(b"hi\n", 120)
        assert cell.returncode == 0
    assert wait_until(lambda: os.path.getsize(out) >= 80000000 + 4)
    with Control(box) as c:
        for request in (at, 99):
            try:
                c.call("watch", session_id="busy", execution_id=request)
                raise AssertionError("watched")
            except ControlError as e:
                assert e.kind in ("ended", "execution_not_found"), e.kind


def test_a_terminal_obeys_nothing():
    make("shown", "print('a\\x1b]0;title\\x07b \\x1b[31mred\\x1b[0m')")
    t = Terminal([CODEBOX, "logs", "-f", "shown"], box.env, box.dir)
    seen = t.see(b"red")
    make("shown", "print('c\\x1b]0;title\\x07d')", "'the ' + 'last'")
    seen += t.see(b"the last")
    assert b"\x1b]" not in seen and seen.count(b"title") == 4 and b"\x1b[31m" in seen, seen
    box("session", "rm", "shown", check=True)
    t.see(b"has ended")
    assert t.end() == 0


def test_what_is_refused():
    for why, *args in (("there is no session \"nowhere\"", "nowhere"), ("name of one session",),
                       ("not a whole number", "-n", "x", "past"), ("--lines", "--lines", "past")):
        r = box("logs", *args)
        assert r.returncode in (1, 2) and why in r.stderr and not r.stdout, r


run(globals())
