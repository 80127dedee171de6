#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Editing cells of several lines at a prompt, its history and the search in it, on terminals that change their size."""
import os
import signal
import stat
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, CODEBOX, run  # noqa: E402
from screen import Screen  # noqa: E402

box = Box(LC_ALL="C.UTF-8")
UP, DOWN, RIGHT, LEFT, HOME, END, DELETE = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D", "\x1b[H", "\x1b[F", "\x1b[3~"
ALT_ENTER = "\x1b\r"
HISTORY = os.path.join(box.env["CODEBOX_STATE_DIR"], "history")


def prompt(**kw):
    """All of one session, so that an interpreter starts once."""
    session = box("run", "--session", "edited", "--image", box.image("python", "python-minimal", "host"), "-c", "0")
    assert session.returncode == 0, session
    t = Screen([CODEBOX, "repl", "--session", "edited"], box.env, box.dir, **kw)
    t.wait(">>>")
    return t


def leave(t):
    t.type("\x04")
    assert t.end() == 0, t.got


def drop(t, shown):
    t.type("\x03")
    t.wait(shown + "^C", ">>>")


def test_a_whole_cell_comes_back():
    t = prompt()
    t.type("def f(n):\rreturn n + 1\r\rf(1)\r")
    t.wait(">>> def f(n):", "...     return n + 1", "...", ">>> f(1)", "2", ">>>")
    t.type(UP)
    t.wait(">>> f(1)", "2", ">>> f(1)")
    t.type(UP)
    t.wait(">>> def f(n):", "...     return n + 1", "...")
    # From the empty line at its end to the one above, whose end is changed.
    t.type(UP + END + "00" + ALT_ENTER + "f(1)\r")
    t.wait(">>> def f(n):", "...     return n + 100", "...", ">>> f(1)", "101", ">>>")
    # Enter within it makes a line, indented as the one before.
    t.type(UP + UP + UP + HOME + "\x0b" + "    m = n\rm += 1\rreturn m" + ALT_ENTER + "f(1)\r")
    t.wait(">>> def f(n):", "...     m = n", "...     m += 1", "...     return m", "...", ">>> f(1)", "2", ">>>")
    # What was begun is kept while the history is looked at.
    t.type("half = " + UP + UP + DOWN + DOWN + DOWN + DOWN + DOWN + DOWN + "'kept'\rhalf\r")
    t.wait(">>> half = 'kept'", ">>> half", "'kept'", ">>>")
    leave(t)


def test_keys():
    t = prompt()
    for keys, seen in (("ab cd\x01x\x05y", "xab cdy"), ("ab cd\x1bb\x1bbx", "xab cd"), ("ab cd\x17ef", "ab ef"),
                       ("ab cd\x15\x19\x19", "ab cdab cd"), ("ab cd\x01\x0bx\x19", "xab cd"), ("abc\x14", "acb"),
                       ("ab cd\x01\x1bd.", ". cd"), ("abc" + LEFT + LEFT + DELETE, "ac"), ("ab" + HOME + "\x1b[1;5Cx", "abx"),
                       ("äöü" + LEFT + "\x7fx", "äxü"), ("日本" + LEFT + "x", "日x本"), ("a\x02b\x06c", "bac"),
                       ("        x\x7f\x7fy", "    y"), ("a\x00\x1b[99~\x1bxb", "ab"), ("ab\x02\x04", "a")):
        t.type(keys)
        t.wait(">>> " + seen)
        drop(t, ">>> " + seen)
    t.type("'one\x7f\x7f\x7f\x7f[1,\r2,\r3]" + UP + HOME + "\x7f" + LEFT + "0" + ALT_ENTER)  # the second joins the first
    t.wait(">>> [10,2,", "... 3]", "[10, 2, 3]", ">>>")
    t.type("[4,\r5]" + UP + END + "\x04 " + ALT_ENTER)
    t.wait(">>> [4, 5]", "[4, 5]", ">>>")
    t.type("'''a\rb\rc'''" + UP + HOME + "\x0b\x0b" + ALT_ENTER)  # a line is taken away with its end
    t.wait(">>> '''a", "... c'''", "'a\\nc'", ">>>")
    t.type("6 \x1a* 7\r")  # there is nobody to whom Ctrl-Z would give the terminal
    t.wait(">>> 6 * 7", "42", ">>>")
    t.type("6\x0c")
    t.see(b"\x1b[H\x1b[2J")
    t.type(" * 8\r")
    t.see(b"48\r\n")
    t.see(b">>> ")
    leave(t)


def test_search():
    t = prompt()
    t.type("apple = 1\rdef banana():\rreturn 'yel' + 'low'\r\rcherry = 3\r")
    t.wait(">>> cherry = 3", ">>>")
    t.type("\x12")
    t.wait("(search: )")
    t.type("yel")
    t.wait("(search: yel) def banana():", "...     return 'yel' + 'low'", "...")
    t.type(END + " + 's'")  # any other key takes it over
    t.wait(">>> def banana():", "...     return 'yel' + 'low' + 's'", "...")
    t.type(ALT_ENTER + "banana()\r")
    t.wait(">>> banana()", "'yellows'", ">>>")
    t.type("\x12 = \x12")  # the one before the last that has it
    t.wait("(search:  = ) apple = 1")
    t.type("x")
    t.wait("(no  = x) apple = 1")
    t.type("\x7f\x7f\x7f\x7fch")
    t.wait("(search: ch) cherry = 3")
    t.type("\x07")  # as it was
    t.wait(">>>")
    t.type("mine\x12app")
    t.wait("(search: app) apple = 1")
    drop(t, ">>> apple = 1")
    t.type("'日本' + '語'\r")
    t.wait("'日本語'", ">>>")
    t.type("\x12本")  # the cursor is where it was found
    t.wait("(search: 本) '日本' + '語'")
    assert t.column == len("(search: XX) 'XX"), t.column
    drop(t, ">>> '日本' + '語'")
    t.type("\x12apple = \r" + "apple + 1\r")
    t.wait(">>> apple = 1", ">>> apple + 1", "2", ">>>")
    leave(t)


def test_the_history():
    with open(HISTORY) as f:
        assert stat.S_IMODE(os.fstat(f.fileno()).st_mode) == 0o600
        lines = f.read().split("\n")
    whole = "def\\040banana():\\012\\040\\040\\040\\040return\\040'yel'\\040+\\040'low'\\012"
    assert lines[0] == "_HiStOrY_V2_" and whole in lines, lines
    t = prompt()
    t.type("'from ' + 'the killed'\r")
    t.wait("'from the killed'", ">>>")
    os.kill(t.pid, signal.SIGKILL)
    os.close(t.fd)
    os.waitpid(t.pid, 0)
    t = prompt()
    t.type(UP)
    t.wait(">>> 'from ' + 'the killed'")
    t.type("\r")
    t.see(b"'from the killed'\r\n")
    t.see(b">>> ")
    for _ in range(70):  # nobody types ahead more than a terminal holds
        t.type("0" * 1000)
        while t.got.count(b"0") < 1000:
            t.got += os.read(t.fd, 65536)
        t.got = b""
    t.type("\r")
    t.see(b"0\r\n")
    t.see(b"\x1b[?2004h>>> ")
    t.type(UP)  # that was too long to be remembered, and what was run twice stands there once
    t.see(b"'from ' + 'the killed'")
    t.type(UP)
    t.see(b"apple + 1")
    t.type("\x03")
    t.see(b">>> ")
    leave(t)
    # A file of before, of too many lines: the last are kept, but not what is not text.
    with open(HISTORY, "w") as f:
        f.write("_HiStOrY_V2_\n" + "".join(f"old{n}\\040=\\040'\\134\\\\{n}'\n" for n in range(3100)) + "\\377\n")
    t = prompt()
    t.type(UP)
    t.wait(">>> old3099 = '\\\\3099'")
    drop(t, ">>> old3099 = '\\\\3099'")
    leave(t)
    with open(HISTORY) as f:
        lines = f.read().split("\n")
    assert len(lines) == 2002 and lines[1].startswith("old1100"), (len(lines), lines[:3])
    with open(HISTORY, "w") as f:
        f.write("_HiStOrY_V2_\n" + "".join(f"big{n}='{'x' * 200000}'\n" for n in range(25)))
    leave(prompt())
    assert os.path.getsize(HISTORY) < 3 << 20
    os.unlink(HISTORY)


def test_another_size_while_a_cell_is_edited():
    t = prompt()
    t.type("words = 'one two three four'\r[1,\r" + "2, " * 12)
    t.wait(">>> words = 'one two three four'", ">>> [1,", "... 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,")
    t.resize(12, 20)
    t.wait(">>> words = 'one two", " three four'", ">>> [1,", "... 2, 2, 2, 2, 2, 2",
           ", 2, 2, 2, 2, 2, 2,")
    t.type("3]")
    t.wait(">>> [1,", "... 2, 2, 2, 2, 2, 2", ", 2, 2, 2, 2, 2, 2,", "3]")
    t.type(UP + "0, ")
    t.wait(">>> [1,0,", "... 2, 2, 2, 2, 2, 2", ", 2, 2, 2, 2, 2, 2,", "3]")
    t.resize(12, 60)
    t.wait(">>> [1,0,", "... 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3]")
    t.type("\x7f\x7f\x7f" + ALT_ENTER)
    t.wait("[1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3]", ">>>")
    leave(t)


def test_another_size_while_a_cell_prints():
    t = prompt()
    t.type("import time, os\rwhile not os.path.exists('go'): print('.', end='', flush=True); time.sleep(0.01)\r\r")
    t.see(b"...........")
    t.resize(12, 20)
    box("exec", "edited", "--", "touch", "go", check=True)
    t.see(b"\x1b[?2004h>>> ")
    t.type("'a' * 20 + 'b' * 5")
    t.see(b"'b' *\r\n 5")  # wrapped where the terminal ends now
    t.type("\r")
    t.see(b"a" * 20 + b"b" * 5)
    t.see(b">>> ")
    leave(t)


def test_more_than_the_screen_shows():
    t = prompt(rows=8, columns=30)
    t.paste("x = [\n" + "".join(f"  {n},\n" for n in range(30)) + "]; sum(x)")
    t.wait("...   29,", "... ]; sum(x)")
    t.type(UP * 20 + END)
    t.see(b"...   10,")
    t.type(" 1000,")
    t.see(b" 1000,")
    t.type(ALT_ENTER)
    t.see(b"1435\r\n")
    t.see(b">>> ")
    t.type(UP + "\r")
    t.see(b"1435\r\n")
    t.see(b">>> ")
    t.type("len('" + "z" * 500 + "')\r")
    t.see(b"500\r\n")
    t.see(b">>> ")
    leave(t)


if __name__ == "__main__":
    run(globals())
