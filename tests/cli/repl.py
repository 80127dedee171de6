#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codebox repl with a real daemon and a real image, without a terminal and on one."""
import json
import os
import signal
import stat
import sys
import textwrap

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, CODEBOX, run, wait_until  # noqa: E402
from terminal import Terminal  # noqa: E402

box = Box(LC_ALL="C.UTF-8")

def image():
    return box.image("python", "python-minimal", "host")


def plain_session(name="plain"):
    """A session whose image has no IPython that can be imported: the driver runs cells with its own small shell."""
    box("run", "--session", name, "--image", image(), "-c",
        "open('/workspace/IPython.py', 'w').write('raise ImportError')\nimport os\nos._exit(0)")
    r = box("run", "--session", name, "-c", "get_ipython")
    assert r.returncode == 1 and "NameError" in r.stderr, (r.stdout, r.stderr)
    return name


def prompt(*args, cwd=None):
    t = Terminal([CODEBOX, "repl", *args], box.env, cwd or box.dir)
    t.see(b">>> ")
    return t


def leave(t):
    t.type("\x04")
    assert t.end() == 0, t.got


def test_without_a_terminal():
    r = box("repl", "--image", image(), input="1 + 1\n\nfor i in range(2):\n    print('i', i)\n\nprint('ü')", cwd=box.dir)
    assert (r.returncode, r.stdout) == (0, "2\ni 0\ni 1\nü\n"), (r.returncode, r.stdout, r.stderr)
    assert box("repl", "--image", image(), input="print(1)\nexit\nprint(2)\n").stdout == "1\n"
    r = box("repl", "--image", image(), input="1/0\n")
    assert r.returncode == 1 and "ZeroDivisionError" in r.stderr, r
    r = box("repl", "--image", image(), input=b"print('\xff')\nprint('fine')\n", text=False)
    assert r.stdout == b"fine\n", r
    # What belongs to a connection goes when the daemon sees its end.
    assert wait_until(lambda: box.json("session", "ls", "--json")["sessions"] == [])
    box("repl", "--session", "kept", "--image", image(), input="a = 1\n", check=True)
    assert [s["session_id"] for s in box.json("session", "ls", "--json")["sessions"]] == ["kept"]
    box("session", "rm", "kept", check=True)
    assert box("repl", "extra").returncode == 2
    r = box("repl", "--image", "no-such-image", input="1\n")
    assert r.returncode == 3 or r.returncode == 1 and "no-such-image" in r.stderr, r


def test_keys_on_a_terminal():
    t = Terminal([CODEBOX, "repl", "--image", image()], box.env, box.dir)
    assert b"image " in t.see(b">>> ")
    t.type("if 1:\n")
    t.see(b"... ")
    t.type("\x03")  # the half cell is dropped
    t.see(b">>> ")
    t.type("print('HEL' + 'LO')\n")
    t.see(b"HELLO")
    t.see(b">>> ")
    t.type("import time; print('wait' + 'ing'); time.sleep(600)\n")
    t.see(b"waiting")
    t.type("\x03")  # the cell is interrupted, the prompt comes back
    t.see(b">>> ")
    t.type("\u00fcberlang = '\u00fc' * 3\n")
    t.see(b">>> ")
    t.type("\u00fcberl\t\n")
    t.see("'üüü'".encode())
    t.see(b">>> ")
    t.type("\u00fcbermut = 1\n")
    t.see(b">>> ")
    t.type("\u00fcber\t\t")  # two candidates: they are listed
    t.see("überlang  übermut".encode())
    t.type("\x03")
    t.see(b"^C")
    t.see(b">>> ")
    t.type("display({'image/svg+xml': '<svg/>'}, raw=True)\n")
    t.see(b"figure-1.svg")  # a figure is saved and named
    t.see(b">>> ")
    t.type("never_defined\n")
    t.see(b"NameError")
    t.see(b">>> ")
    leave(t)
    with open(os.path.join(box.env["CODEBOX_STATE_DIR"], "history"), encoding="utf-8") as f:
        history = f.read()
        assert stat.S_IMODE(os.fstat(f.fileno()).st_mode) == 0o600
    assert "HEL" in history and "berl" in history, history
    t = prompt("--image", image())
    t.type("\x1b[A\n")  # the last line of the earlier prompt
    t.see(b"NameError")
    t.see(b">>> ")
    t.type("quit\n")
    assert t.end() == 0, t.got


# What is typed, line by line, where "" is Enter alone; and what is to be seen then.
BLOCKS = (
    (("for i in range(3):", "print('a', i)", "print('b', i)", ""), b"a 2\r\nb 2"),
    (("if not 1:", "print('wrong')", "\x7felse:", "print('el' + 'se')", ""), b"else"),
    (("class A:", "def f(self):", "return 'me' + 'thod'", ""), b""), (("A().f()",), b"'method'"),
    (("@__import__('functools').lru_cache", "def g():", "return 'deco' + 'rated'", ""), b""), (("g()",), b"'decorated'"),
    (("with __import__('io').StringIO('wi' + 'th') as f:", "print(f.read())", ""), b"with"),
    (("try:", "1/0", "\x7fexcept ZeroDivisionError:", "print('cau' + 'ght')", "\x7ffinally:", "print('fin' + 'ally')",
      ""), b"caught\r\nfinally"),
    (("s = '''one", "two'''"), b""), (("s",), b"'one\\ntwo'"),
    (("sum([1,", "2,", "39])"), b"42"),
    (("while True:", "if 1:", "print('nes' + 'ted')", "break", ""), b"nested"),
)


def type_blocks(t):
    for lines, seen in BLOCKS:
        for line in lines:
            t.type(line + "\n")
            # Each line is typed at sight of its prompt, as a person does it.
            if line is not lines[-1]:
                before = t.see(b"... ")
                assert b"Traceback" not in before, (lines, line, before)
        t.see(seen or b"\r\n")
        t.see(b"\x1b[?2004h>>> ")
    t.type("print(a, b\n")
    t.see(b"... ")
    t.type("\x03")
    t.see(b">>> ")


PASTED = textwrap.dedent("""\
    def pasted(n):
        '''With blank lines inside.'''

        total = 0

        for i in range(n):
            total += i

        return total

    class Pasted:

        x = pasted(10)

        def y(self):
            return self.x - 3
    """)


def paste_blocks(t):
    t.paste(PASTED)
    t.see(b"return self.x - 3")
    assert b">>> " not in t.got, t.got  # nothing runs before Enter
    t.type("\n")
    t.see(b">>> ")
    t.type("Pasted().y()\n")
    t.see(b"42\r\n")
    t.see(b">>> ")
    t.type("x = ")  # into a line that was begun; the last line can be edited
    t.paste("[1,\n\n  2,\n  3")
    t.type("9]; x\n")
    t.see(b"[1, 2, 39]")
    t.see(b">>> ")
    t.type("print(")
    t.paste("'one ' 'line'\n")
    t.type(")\n")
    t.see(b"one line")
    t.see(b">>> ")
    t.paste("y = 40\ny + 1\ny + 2\n")  # one cell: the value of the last line alone
    t.see(b"y + 2")
    t.type("\n")
    assert b"41\r\n" not in t.see(b"42\r\n")
    t.see(b">>> ")
    t.paste("for i in range(2):\n    print('dropped')")
    t.see(b"dropped")
    t.type("\x03")
    t.see(b">>> ")
    t.type("if 1:\n")  # lines with an indentation of their own, behind one that was typed ahead
    t.see(b"... ")
    t.paste("    a = 5\n    print('a is', a)\n")
    t.type("\n")
    t.see(b"a is 5")
    t.see(b">>> ")


def test_blocks_with_ipython():
    t = prompt("--image", image())
    type_blocks(t)
    paste_blocks(t)
    t.type("%%bash\n")
    t.see(b"... ")
    t.type("echo ba''sh\n")
    t.see(b"... ")
    t.type("\n")
    t.see(b"bash")
    t.see(b">>> ")
    leave(t)


def test_blocks_with_the_plain_shell():
    t = prompt("--session", plain_session())
    type_blocks(t)
    paste_blocks(t)
    t.type("%%bash\n")
    t.see(b"... ")
    t.type("echo ba''sh\n")
    t.see(b"... ")
    t.type("\n")
    t.see(b"bash")
    t.see(b">>> ")
    leave(t)


def type_into_cells(t):
    def cell(code, *shown):
        t.type(code + "\n")
        for text in shown:
            t.see(text)

    def shows(*texts):
        for text in texts:
            t.see(text)
        t.see(b">>> ")

    cell("name = input('wh' + 'o? ')", b"who? ")
    t.type("B\u00f6b\n")
    shows(b"\n")
    cell("name * 2", "'BöbBöb'".encode())
    shows()
    cell("a, b = input('on' + 'e: '), input('tw' + 'o: ')", b"one: ")
    t.type("1\n")
    t.see(b"two: ")
    t.type("2\n")
    shows()
    cell("a + b", b"'12'")
    shows()
    cell("input('mo' + 're: ')", b"more: ")
    t.type("\x04")  # the end for this cell alone
    shows(b"EOFError")
    cell("input('mo' + 're: ')", b"more: ")
    t.type("\x03")
    shows(b"KeyboardInterrupt")
    cell("import sys; print('rea' + 'dy'); len(sys.stdin.read())", b"ready")
    t.type("four\nfive\n\x04")
    shows(b"10\r\n")
    cell("!echo fr''om a program; read x; echo and $x$x", b"from a program")
    t.type("aha\n")
    shows(b"and ahaaha")
    cell("import getpass; print(getpass.getpass('se' + 'cret: ')[::-1])", b"secret: ")
    t.type("abc\n")
    shows(b"cba")
    cell("breakpoint(); print('af' + 'ter')", b"(Pdb) ")
    t.type("c\n")
    shows(b"after")
    # What a cell does not read was typed ahead, for the prompt; Ctrl-C drops it.
    cell("import os, select; print('wai' + 'ting'); select.select([0], [], [])[0]", b"waiting")
    t.type("print('a' + 'head')\n")
    shows(b"[0]", b"ahead")
    cell("print('two ' + 'bytes'); os.read(0, 2)", b"two bytes")
    t.type("xyprint('the re' + 'st')\nprint('and mo' + 're')\n")
    shows(b"b'xy'", b"the rest", b"and more")
    cell("print('wai' + 'ting'); _ = select.select([0], [], []); print('he' + 're'); import time; time.sleep(600)",
         b"waiting")
    t.type("print('dro' + 'pped')\n")
    t.see(b"here")
    t.type("\x03")
    shows(b"KeyboardInterrupt")
    t.type("print('en' + 'd')\n")
    before = t.see(b"end")
    assert b"dropped" not in before, before
    t.see(b">>> ")


def test_what_is_typed_while_a_cell_runs():
    for t in prompt("--image", image()), prompt("--session", plain_session()):
        type_into_cells(t)
        leave(t)


def test_the_end_within_a_block():
    t = prompt("--image", image())
    t.type("for i in 'xy':\n")
    t.see(b"... ")
    t.type("print(i * 3)\n")
    t.see(b"... ")
    t.type("\x04")  # on a line with nothing but its indentation: what is there is run
    t.see(b"xxx\r\nyyy")
    t.see(b">>> ")
    leave(t)


def test_a_question_mark():
    """What is known of a name, in each language."""
    t = prompt("--image", image())
    for typed, seen in ("len?", b"Signature:"), ("x = {}", b""), ("x?", b"Type:"), ("len.nothing?", b"not found"):
        t.type(typed + "\n")
        t.see(seen or b"\r\n")
        t.see(b"\x1b[?2004h>>> ")
    leave(t)
    t = prompt("--session", plain_session())
    for typed, seen in ("len?", b"Docstring:"), ("? len", b"Docstring:"), ("never.there?", b"not found"), ("x = 5", b""), ("x?", b"Type: int"):
        t.type(typed + "\n")
        t.see(seen or b"\r\n")
        t.see(b"\x1b[?2004h>>> ")
    leave(t)
    t = prompt("--image", image(), "-l", "bash")
    t.type("declare?\n")
    t.see(b"declare is a shell builtin")
    t.see(b"\x1b[?2004h>>> ")
    leave(t)
    t = prompt("--image", box.image("javascript"))
    t.type("Math?\n")  # at once, without a line that continues it
    t.see(b"Members: abs")
    t.see(b"\x1b[?2004h>>> ")
    t.type("Math.max?\n")
    t.see(b"Signature: Math.max(")
    t.see(b"\x1b[?2004h>>> ")
    leave(t)


def killed(t):
    os.kill(t.pid, signal.SIGKILL)
    os.close(t.fd)
    os.waitpid(t.pid, 0)


def let_go(name):
    box("exec", "back", "--", "touch", f"/workspace/{name}", check=True)


WAITS = "import os, time; print('be' + 'gun')\nwhile not os.path.exists('%s'): time.sleep(0.02)\n\nprint('went' + ' on'); %s\n"


def typed(t, code):
    t.paste(code)
    t.type("\n")


def test_back_to_a_session():
    """A prompt that is killed leaves its cell alone, and the next one shows what there was, and follows it."""
    args = ("--session", "back", "--image", image())
    t = prompt(*args)
    t.type("print('be' + 'fore')\n")
    t.see(b"before\r\n")
    t.see(b">>> ")
    typed(t, WAITS % ("one", "kept = 1"))
    t.see(b"begun\r\n")
    killed(t)
    state = lambda: box.json("session", "info", "--json", "back")["state"]
    assert wait_until(lambda: box.hello()["mcp_clients"] == 0) and state() == "busy"
    # It runs still: what it printed is there, what it prints comes, and then the prompt.
    t = Terminal([CODEBOX, "repl", *args], box.env, box.dir)
    seen = t.see(b"begun\r\n")
    assert b"In [" in seen and b"os.path.exists('one')" in seen and b"before" not in seen, seen
    let_go("one")
    t.see(b"went on\r\n")
    t.see(b">>> ")
    t.type("kept + 41\n")
    t.see(b"42\r\n")
    t.see(b">>> ")
    # It ends before anybody comes back.
    typed(t, WAITS % ("two", "kept = 2; 6 * 7"))
    t.see(b"begun\r\n")
    killed(t)
    let_go("two")
    box("run", "--session", "back", "-c", "print('from ' + 'elsewhere')", check=True)
    t = Terminal([CODEBOX, "repl", *args], box.env, box.dir)
    seen = t.see(b"image ")
    assert b"kept + 41" not in seen and b"begun\r\nwent on\r\nOut[" in seen and b": 42\r\n" in seen and \
        b"from elsewhere\r\n" in seen, seen
    t.see(b">>> ")
    # It reads what the next one types; Ctrl-C is for it, too.
    t.type("name = input('wh' + 'o? '); print('it is', name)\n")
    t.see(b"who? ")
    killed(t)
    t = Terminal([CODEBOX, "repl", *args], box.env, box.dir)
    t.see(b"who? ")
    t.type("Eve\n")
    t.see(b"it is Eve\r\n")
    t.see(b">>> ")
    typed(t, WAITS % ("three", "1"))
    t.see(b"begun\r\n")
    killed(t)
    t = Terminal([CODEBOX, "repl", *args], box.env, box.dir)
    t.see(b"begun\r\n")
    t.type("\x03")
    t.see(b"KeyboardInterrupt")
    t.see(b">>> ")
    leave(t)
    # What was seen is not shown again; a session of the same name that is made anew has nothing to show.
    t = Terminal([CODEBOX, "repl", *args], box.env, box.dir)
    assert b"In [" not in t.see(b">>> ")
    leave(t)
    box("session", "rm", "back", check=True)
    box("run", "--session", "back", "--image", image(), "-c", "print('an' + 'other')", check=True)
    t = Terminal([CODEBOX, "repl", *args], box.env, box.dir)
    assert b"another" not in t.see(b">>> ")
    leave(t)
    with open(os.path.join(box.env["CODEBOX_STATE_DIR"], "seen")) as f:
        assert [line.split(" ")[0] for line in f].count("back") == 1
    box("session", "rm", "back", check=True)


def test_without_a_name_a_killed_prompt_leaves_nothing():
    before = box.sessions()
    t = prompt("--image", image())
    t.type("import time; print('be' + 'gun'); time.sleep(600)\n")
    t.see(b"begun\r\n")
    killed(t)
    assert wait_until(lambda: box.sessions() == before)


if __name__ == "__main__":
    run(globals())
