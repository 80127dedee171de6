#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pseudo-terminals of a session's own: what uses them works, none of another's is seen, their number is bounded, and
what could be done through a terminal to whoever is behind it stays refused."""
import os
import sys
import textwrap

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, run  # noqa: E402
from control import Control  # noqa: E402

box = Box()
made = set()


def session(name, profile):
    if name not in made:
        with Control(box) as c:
            c.call("session.create", session_id=name, image=box.image("python", "host"), profile=profile)
        made.add(name)
    return name


def cell(code, name="default", profile="default"):
    r = box("run", "--session", session(name, profile), "--timeout", "60", "-c", textwrap.dedent(code))
    assert r.returncode == 0, (r.returncode, r.stdout[-2000:], r.stderr[-2000:])
    return r.stdout.strip()


def test_a_pair_carries_bytes_and_has_a_size():
    got = cell("""
        import fcntl, os, struct, termios
        m, s = os.openpty()
        os.write(m, b"line\\n")
        print(os.read(s, 100), os.isatty(s), os.ttyname(s))
        fcntl.ioctl(m, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 132, 0, 0))
        print(os.get_terminal_size(s))
        os.close(m); os.close(s)
    """)
    assert got.splitlines() == ["b'line\\n' True /dev/pts/0", "os.terminal_size(columns=132, lines=40)"], got


def test_a_program_has_its_own_controlling_terminal():
    """pty.spawn's way: setsid, TIOCSCTTY; /dev/tty is that terminal, an interrupt that is typed arrives as a signal."""
    got = cell(r"""
        import os, pty, signal
        pid, fd = pty.fork()
        if pid == 0:
            os.execvp("sh", ["sh", "-c", "echo on $(tty) >/dev/tty; trap 'echo interrupted; exit 3' INT; echo ready;"
                             "while :; do sleep 0.1; done"])
        text = b""
        while b"ready" not in text:
            text += os.read(fd, 1000)
        os.write(fd, b"\x03")
        try:
            while True:
                text += os.read(fd, 1000)
        except OSError:
            pass
        print(text.decode().split(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """)
    assert got == "['on', '/dev/pts/0', 'ready', '^C', 'interrupted'] 3" or \
        got == "['on', '/dev/pts/0', 'ready', '^Cinterrupted'] 3", got


def test_script_runs_a_command_on_a_terminal():
    got = cell("""
        import subprocess
        print(subprocess.run(["script", "-qec", "tty; stty size; exit 4", "/dev/null"], stdin=subprocess.DEVNULL,
                             capture_output=True, text=True))
    """)
    assert "/dev/pts/" in got and "returncode=4" in got, got


def test_readline_edits_a_line():
    """A Python of its own under a terminal: what is typed is edited by readline, and completed."""
    got = cell(r"""
        import os, pty, re, sys
        pid, fd = pty.fork()
        if pid == 0:
            os.environ["TERM"] = "xterm"
            os.execv(sys.executable, [sys.executable, "-q", "-i", "-c", "import readline"])
        def until(what):
            text = b""
            while what not in text:
                text += os.read(fd, 1000)
            return text
        until(b">>> ")
        os.write(fd, b"print(77 * 11)\x01\x05\x02\x7f2\n")  # go back one, replace a digit: 77 * 12
        print(b"924" in until(b"924"))
        os.write(fd, b"exit()\n")
        ended = os.waitpid(pid, 0)
    """)
    assert got == "True", got


def test_asyncio_reads_a_terminal():
    got = cell("""
        import asyncio, concurrent.futures, os
        async def main():
            m, s = os.openpty()
            reader = asyncio.StreamReader()
            await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), open(m, "rb", 0))
            os.write(s, b"through\\n")
            return await asyncio.wait_for(reader.readline(), 20)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            print(pool.submit(lambda: asyncio.run(main())).result())
    """)
    assert got == "b'through\\r\\n'", got


def test_their_number_is_bounded():
    got = cell("""
        import errno, os
        pairs = []
        try:
            while len(pairs) < 100:
                pairs.append(os.openpty())
        except OSError as e:
            print(len(pairs), errno.errorcode[e.errno])
        for p in pairs:
            os.close(p[0]); os.close(p[1])
        m, s = os.openpty()
        print("again")
    """, "full")
    assert got.splitlines() == ["16 ENOSPC", "again"], got


def test_another_sessions_are_not_seen():
    cell("import os; kept = os.openpty(); print(os.ttyname(kept[1]))")
    try:
        got = cell("import os; print(sorted(os.listdir('/dev/pts'))); m, s = os.openpty(); print(os.ttyname(s))", "other")
        assert got.splitlines() == ["['ptmx']", "/dev/pts/0"], got
    finally:
        cell("import os; os.close(kept[0]); os.close(kept[1])")


def test_typing_into_a_terminal_and_line_disciplines_stay_refused():
    for profile in ("default", "net", "dev"):
        got = cell("""
            import ctypes, errno, os
            libc = ctypes.CDLL(None, use_errno=True)
            m, s = os.openpty()
            buf = ctypes.create_string_buffer(64)
            for number in (0x5412, 0x541c, 0x5423):
                for high in (0, 1 << 32):
                    r = libc.ioctl(s, ctypes.c_ulong(number | high), buf)
                    print(r, errno.errorcode[ctypes.get_errno()])
            os.close(m); os.close(s)
        """, profile, profile)
        assert set(got.splitlines()) == {"-1 EPERM"}, (profile, got)


def test_strict_has_none():
    got = cell("""
        import os
        print([p for p in ("/dev/ptmx", "/dev/pts", "/dev/tty") if os.path.exists(p)])
        try:
            os.openpty()
        except OSError:
            print("refused")
    """, "strict", "strict")
    assert got.splitlines() == ["[]", "refused"], got


if __name__ == "__main__":
    run(globals())
