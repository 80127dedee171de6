#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codebox repl, without a terminal and on one."""
import json
import os
import pty
import select
import stat
import time

from common_cli import Box, CODEBOX, contains, read, read_until, run, same, Skip, WAIT, wait_until
def repl_box():
    box = Box()
    if not os.path.exists(box.path("libexec/codebox-repl")):
        raise Skip("codebox-repl was not found")
    return box


def test_repl_without_a_terminal():
    box = repl_box()
    r = box("repl", input="out:eins\n\nbegin\nout:zwei\n\nresult:3\npng\nerror:E:x\nout:ü".encode(), cwd=box.dir)
    same(r.returncode, 0)
    same(r.out, "eins\nzwei\n3\nfigure: figure-1.png (image/png, 108 bytes)\nü\n")
    contains(r.err, "E: x")
    assert os.path.exists(box.path("figure-1.png"))
    same(box("repl", input=b"out:a\nexit\nout:b\n").out, "a\n")
    same(box("repl", input=b"error:E:v\n").returncode, 1)
    same(box("repl", input=b"out:\xff\nout:fine\n").out, "fine\n")
    # What belongs to a connection goes when the daemon sees its end.
    assert wait_until(lambda: json.loads(box.ok("session", "ls", "--json").out)["sessions"] == [], WAIT)
    box.ok("repl", "--session", "kept", input=b"out:a\n")
    same([s["session_id"] for s in json.loads(box.ok("session", "ls", "--json").out)["sessions"]], ["kept"])
    same(box("repl", "extra").returncode, 2)
    r = box("repl", "--image", "nosandbox", input=b"")
    same(r.returncode, 3)
    contains(r.err, "no sandbox")


class Terminal:
    """A program on a terminal; see() waits for a text and forgets everything up to its end."""

    def __init__(self, box, *args):
        self.got = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(box.dir)
            os.execve(CODEBOX, [CODEBOX, *args], dict(box.env, TERM="xterm"))

    def see(self, what):
        if what not in self.got:
            self.got += read_until(self.fd, what) if not self.got else b""
        end = time.monotonic() + WAIT
        while what not in self.got:
            assert time.monotonic() < end, f"{what!r} did not come: {self.got!r}"
            if select.select([self.fd], [], [], 0.1)[0]:
                self.got += os.read(self.fd, 65536)
        before, _, self.got = self.got.partition(what)
        return before

    def type(self, text):
        os.write(self.fd, text.encode())

    def end(self):
        deadline = time.monotonic() + WAIT
        while True:
            assert time.monotonic() < deadline, f"it does not end: {self.got!r}"
            if not select.select([self.fd], [], [], 0.1)[0]:
                continue
            try:
                self.got += os.read(self.fd, 4096)
            except OSError:
                break
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_repl_on_a_terminal():
    box = repl_box()
    t = Terminal(box, "repl")
    contains(t.see(b">>> "), b"image python")
    t.type("begin\n")
    t.see(b"... ")
    t.type("\x03")  # the half cell is dropped
    t.see(b">>> ")
    t.type("out:HEL\\x4cO\n")
    t.see(b"\nHELLO")
    t.see(b">>> ")
    t.type("wait\n")
    t.see(b"waiting")
    t.type("\x03")  # the cell is interrupted, the prompt goes on
    t.see(b">>> ")
    t.type("result:\u00fcberl\t\n")
    t.see("\nüberlang".encode())
    t.see(b">>> ")
    t.type("result:\u00fcb\t\t")  # two candidates: they are listed
    t.see("überlang  übermut".encode())
    t.type("\x03")
    t.see(b">>> ")
    t.type("png\n")
    t.see(b"figure-1.png")
    t.see(b">>> ")
    t.type("\x04")
    same(t.end(), 0)
    history = read(box.path("state/history"))
    contains(history, b"out:HEL")
    contains(history, b"berlang")
    same(stat.S_IMODE(os.stat(box.path("state/history")).st_mode), 0o600)
    t = Terminal(box, "repl")
    t.see(b">>> ")
    t.type("\x1b[A\n")  # the last line of the earlier prompt
    t.see(b"figure-2.png")
    t.see(b">>> ")
    t.type("quit\n")
    same(t.end(), 0)


if __name__ == "__main__":
    run(globals())
