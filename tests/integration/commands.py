#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codebox exec and codebox shell: programs beside the interpreter, with pipes and on terminals, as hands know them from
docker exec and ssh; what is kept, taken over and hung up; and what floods, never reads or never ends."""
import fcntl
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, CODEBOX, Skip, named, run, wait_until  # noqa: E402
from control import Control  # noqa: E402
from model import Model  # noqa: E402
from terminal import Terminal  # noqa: E402

box = Box(LC_ALL="C.UTF-8", CODEBOX_POOL="0")
BINARY = random.Random(2).randbytes(3 << 20)
made = set()
TIOCGPTN = 0x80045430  # the number of a terminal; Python has no name for it


def session(name="work", **kw):
    if name not in made:
        with Control(box) as c:
            c.call("session.create", session_id=name, image=box.image("python", "host"), **kw)
        made.add(name)
    return name


def ex(*args, **kw):
    """codebox exec in the session "work"; options come first, and the command behind a "--"."""
    at = args.index("--") if "--" in args else 0
    return box("exec", *args[:at], session(), *args[at:], **kw)


def commands(name="work"):
    return {c["execution_id"]: c for c in box.json("exec", "--list", "--json", session(name))["commands"]}


def status(number, name="work"):
    return commands(name)[number]["status"]


def background(*argv, name="work", options=()):
    return int(box("exec", "-d", *options, session(name), *argv, check=True).stdout)


def on_terminal(*args, term="xterm"):
    t = Terminal([CODEBOX, *args], box.env, box.dir, term)
    number = struct.unpack("i", fcntl.ioctl(t.fd, TIOCGPTN, bytes(4)))[0]
    t.slave = os.open(f"/dev/pts/{number}", os.O_RDWR | os.O_NOCTTY)
    return t


def resize(t, rows, columns):
    fcntl.ioctl(t.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    os.kill(t.pid, signal.SIGWINCH)  # the slave that is open here is not our terminal


def raw(t):
    return not termios.tcgetattr(t.slave)[3] & termios.ICANON


def end(t):
    """The exit status; the terminal is as it was."""
    os.close(t.slave)
    return t.end()


def memory(pid):
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")


# ---- programs ----

def test_exit_statuses():
    for argv, code in ((("true",), 0), (("sh", "-c", "exit 7"), 7), (("sh", "-c", "kill -TERM $$"), 143),
                       (("sh", "-c", "kill -KILL $$"), 137), (("no-such-program",), 127), (("/no/such",), 127),
                       (("/etc/passwd",), 126), (("/etc",), 126), (("/etc/passwd/x",), 126)):
        r = ex("--", *argv)
        assert r.returncode == code and (code < 126 or r.stderr.startswith("codebox: ")), (argv, r)
    assert ex("-w", "/no/such", "--", "ls").returncode == 126
    r = box("exec", "no-such-session", "ls")
    assert r.returncode == 125 and "no-such-session" in r.stderr, r
    for wrong in ((), ("work",), ("-x", "work", "ls"), ("-t", "work", "ls"), ("--kill", "one", "work"),
                  ("--list", "work", "ls"), ("--signal", "TERM", "work", "ls"), ("--detach-keys", "ctrl-1", "work", "ls")):
        assert box("exec", *wrong).returncode == 2, wrong


def test_arguments_environment_and_directory():
    r = ex("-e", "A=1 2", "-e", "LC_ALL", "-w", "/tmp", "--", "python3", "-c",
           "import os, sys, json; print(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]))", "", "-e", "ä", "")
    argv, cwd, env = json.loads(r.stdout)
    assert argv == ["", "-e", "ä", ""] and cwd == "/tmp", (argv, cwd)
    assert env["A"] == "1 2" and env["LC_ALL"] == "C.UTF-8" and env["HOME"] == "/home/user", env
    assert not [v for v in env if v.startswith("CODEBOX_")], env
    assert ex("-w", "sub", "--", "pwd").returncode == 126
    assert ex("--", "mkdir", "sub").returncode == 0 and ex("-w", "sub", "--", "pwd").stdout == "/workspace/sub\n"
    assert ex("--", "sh", "-c", "ulimit -n; id -u").stdout == "1024\n1000\n"
    r = ex("--", "echo", *["x" * 1000] * 70)
    assert r.returncode == 2 and "too many" in r.stderr, r


def test_files_are_those_of_the_cells():
    ex("--", "sh", "-c", "echo from a command >shared")
    assert box("run", "--session", "work", "-c", "print(open('shared').read())").stdout == "from a command\n\n"


def test_bytes_pass_unchanged_both_ways():
    r = ex("-i", "--", "cat", input=BINARY, text=False)
    assert r.stdout == BINARY and r.returncode == 0, (len(r.stdout), r.stderr)
    r = ex("-i", "--", "sh", "-c", "cat >&2", input=BINARY, text=False)
    assert r.stderr == BINARY and not r.stdout, (len(r.stderr), len(r.stdout))
    assert ex("--", "wc", "-c", input="not for it").stdout == "0\n"
    assert ex("-i", "--", "head", "-c1", input="x" * 5000000).stdout == "x"  # it does not read the rest


def test_input_comes_as_it_is_given():
    p = box.popen("exec", "-i", session(), "--", "sh", "-c", "while read a; do echo $((a * 2)); done; echo end",
                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    for i in range(3):
        p.stdin.write(f"{i}\n")
        assert p.stdout.readline() == f"{2 * i}\n"
    p.stdin.close()
    assert (p.stdout.read(), p.wait()) == ("end\n", 0)


def test_signals_are_passed_on():
    for sig in signal.SIGINT, signal.SIGTERM:
        p = box.popen("exec", session(), "--", "sh", "-c", "trap 'echo int; exit 5' INT; trap 'echo term; exit 6' TERM; "
                      "echo ready; while :; do sleep 0.05; done", stdout=subprocess.PIPE, text=True)
        assert p.stdout.readline() == "ready\n"
        p.send_signal(sig)
        want = ("int\n", 5) if sig == signal.SIGINT else ("term\n", 6)
        assert (p.stdout.read(), p.wait()) == want, want


def test_only_text_and_colours_reach_a_terminal_without_t():
    evil = r"\033]0;title\007\033[31mred\033[0m\033[2J"
    t = on_terminal("exec", session(), "printf", evil + "end")
    assert b"\x1b]0;" not in t.see(b"end") and end(t) == 0
    t = on_terminal("exec", "-t", session(), "printf", evil + "end")
    assert b"\x1b]0;title\x07" in t.see(b"end") and end(t) == 0  # which is what -t is for


# ---- terminals ----

def test_a_terminal_its_size_and_what_it_is_called():
    t = on_terminal("exec", "-it", session(), "sh", "-c", "tty; stty size; echo $TERM; exit 3", term="vt100")
    assert re.fullmatch(rb"/dev/pts/\d+\r\n\d+ \d+\r\nvt100\r\n", t.see(b"vt100\r\n") + b"vt100\r\n")
    assert end(t) == 3


def test_a_window_that_changes_its_size():
    t = on_terminal("exec", "-it", session(), "python3", "-uc", """
import os, signal, time
def show(*_):
    print("size %dx%d." % os.get_terminal_size())
signal.signal(signal.SIGWINCH, show)
print("ready.")
while True:
    time.sleep(0.05)
""")
    t.see(b"ready.")
    for rows, columns in (40, 132), (10, 20):
        resize(t, rows, columns)
        t.see(b"size %dx%d." % (columns, rows))
    t.type("\x03")
    t.see(b"KeyboardInterrupt")
    assert end(t) == 130


def test_job_control_in_bash():
    t = on_terminal("exec", "-it", "-e", "PS1=$ ", session(), "bash", "--norc", "-i")
    t.see(b"$ ")
    t.type("python3 -uc 'import signal; signal.signal(signal.SIGCONT, lambda *_: print(\"continued\")); print(\"on\")\r"
           "import time\rwhile 1: time.sleep(0.05)'\r")
    t.see(b"on\r\n")
    t.type("\x1a")
    t.see(b"Stopped")
    t.see(b"$ ")
    t.type("fg\r")
    t.see(b"continued\r\n")
    t.type("\x03")
    t.see(b"^C")
    t.see(b"$ ")
    t.type("echo status $?\r")
    t.see(b"status 130\r\n")
    t.type("sleep 900 &\r")
    t.type("jobs; kill %1; wait; echo all $((40 + 2))\r")
    t.see(b"Running")
    t.see(b"all 42\r\n")
    t.see(b"$ ")
    t.type("\x04")  # the end, with the status of the last command
    t.see(b"exit")
    assert end(t) == 0


def test_less_pages():
    ex("--", "sh", "-c", "seq 1 500 >numbers")
    t = on_terminal("exec", "-it", "-e", "LESS=", session(), "less", "numbers")
    t.type("\r")  # an image without terminfo has a word to say first
    t.see(b"\n23\r\n")
    t.type(" ")
    t.see(b"\n46\r\n")
    t.type("G")
    t.see(b"500")
    t.see(b"(END)")
    t.type("q")
    assert end(t) == 0


def test_vim_edits_a_file():
    """In a session of the machine's own programs: keys of all kinds, Ctrl-Z and fg, a change of size while it runs."""
    vim = next((v for v in ("vim.tiny", "vim.basic", "vim") if os.path.exists(f"/usr/bin/{v}")), None)
    if not vim:
        raise Skip("there is no vim beneath /usr")
    if "vim" not in made:
        with Control(box) as c:
            c.call("session.create", session_id="vim", image=box.image("host"))
        made.add("vim")
    box("exec", "-i", "vim", "sh", "-c", "cat >text", input="one\ntwo\nthree\n", check=True)
    t = on_terminal("exec", "-it", "-e", "PS1=$ ", "vim", "bash", "--norc", "-i")
    t.see(b"$ ")
    t.type(f"{vim} -u NONE -i NONE -N text\r")
    t.see(b"three")
    assert raw(t)
    t.type("\x1b[B\x1b[C")            # cursor keys: to the "w" of "two"
    t.type("ix\xe4\x1b")             # text before it, and Escape
    t.type("G\x01oend\x1b")          # a line at the end; Ctrl-A is vim's, and finds no number here
    t.type(":set ruler\r")           # the smallest vim cannot :echo
    t.see(b"4,3")
    resize(t, 12, 50)
    t.see(b"three")                  # drawn again at once, and not only with the next key
    t.type(":set lines?\r")
    t.see(b"lines=12")
    t.type(":set columns?\r")
    t.see(b"columns=50")
    t.type("\x1a")
    t.see(b"Stopped")
    t.see(b"$ ")
    t.type("wc -l <text; fg\r")      # it has not been written
    t.see(b"3\r\n")
    t.see(b"end")
    t.type(":wq\r")
    t.see(b"$ ")
    t.type("exit 4\r")
    assert end(t) == 4
    assert box("exec", "vim", "cat", "text").stdout == "one\ntx\xe4wo\nthree\nend\n"


def test_the_terminal_is_restored_whatever_ends_it():
    def begun():
        t = on_terminal("exec", "-it", session("ends"), "sh", "-c", "trap '' HUP; echo ready; sleep 1000")
        t.see(b"ready")
        assert raw(t)
        return t
    for sig in signal.SIGTERM, signal.SIGHUP:
        t = begun()
        os.kill(t.pid, sig)
        assert wait_until(lambda: not raw(t)) and end(t) == 128 + sig
    t = begun()
    box("session", "rm", "ends", check=True)
    made.discard("ends")
    assert wait_until(lambda: not raw(t)) and end(t) == 125
    t = begun()
    pid = box.daemon_pid()
    os.kill(pid, signal.SIGKILL)
    t.see(b"codeboxd ended")
    assert wait_until(lambda: not raw(t)) and end(t) == 125
    made.clear()


# ---- detached ----

def test_detach_and_attach_again():
    t = on_terminal("exec", "-it", "-e", "PS1=$ ", session(), "bash", "--norc", "-i")
    t.see(b"$ ")
    t.type("x=remembered; (sleep 0.5; echo printed $((6 * 7)) meanwhile) &\r")
    t.see(b"$ ")
    t.type("\x10")   # the first of the keys, and another: both are for the shell
    t.type("\x05\x15")
    t.type("\x10\x11")
    t.see(b"detached")
    number = max(commands())
    assert end(t) == 0 and status(number) == "running" and not commands()[number]["attached"]
    time.sleep(1)
    t = on_terminal("exec", "--attach", str(number), session())
    t.see(b"printed 42 meanwhile")
    t.type("echo $x\r")
    t.see(b"remembered\r\n")
    # Somebody else takes over.
    other = on_terminal("exec", "--attach", str(number), session())
    t.see(b"attached elsewhere")
    assert end(t) == 125
    other.type("exit 9\r")
    assert end(other) == 9 and commands()[number]["exit_code"] == 9


def test_begun_detached_with_a_terminal():
    number = background("bash", "--norc", "-i", options=("-t", "-e", "PS1=$ "))
    assert commands()[number]["terminal"] and not commands()[number]["attached"]
    t = on_terminal("exec", "--attach", str(number), session())
    resize(t, 33, 44)
    t.type("stty size; tty\r")
    t.see(b"33 44\r\n/dev/pts/")
    t.type("\x10\x11")
    t.see(b"detached")
    assert end(t) == 0 and status(number) == "running"
    t = on_terminal("exec", "--attach", str(number), session())
    t.type("exit 6\r")
    assert end(t) == 6


def test_begun_detached_with_input():
    number = background("sh", "-c", "echo begun; tr a-z A-Z", options=("-i",))
    assert status(number) == "running"
    r = box("exec", "--attach", str(number), "-i", session(), input="typed later\n")
    assert (r.stdout, r.returncode) == ("begun\nTYPED LATER\n", 0), r


def test_what_was_kept():
    number = background("sh", "-c", "echo out; echo err >&2; exit 4")
    assert wait_until(lambda: status(number) == "error")
    r = box("exec", "--attach", str(number), session())
    assert (r.stdout, r.stderr, r.returncode) == ("out\n", "err\n", 4), r
    number = background("sh", "-c", "seq 1 1000000")
    assert wait_until(lambda: status(number) == "ok")
    r = box("exec", "--attach", str(number), session())
    lines = r.stdout.splitlines()
    assert lines[:3] == ["1", "2", "3"] and lines[-1] == "1000000" and len(r.stdout) <= (16 + 96) << 10, len(r.stdout)
    omitted = int(re.search(r"(\d+) bytes of its output were not kept", r.stderr)[1])
    assert omitted + len(r.stdout) == 6888896, (omitted, len(r.stdout))


def test_files_that_it_changes():
    """As run_command lists them."""
    m = Model(box, "--image", box.image("python", "host"))
    r = m.call("run_command", command="for i in $(seq 300); do echo $i >f$i; done; mkdir d; echo >d/kept; rm f*")["structuredContent"]
    assert (r["status"], [f["path"] for f in r["files"]]) == ("ok", ["d/kept"]), r
    r = m.call("run_command", command="for i in $(seq 250); do echo >$(printf %0240d $i); done")["structuredContent"]
    assert len(r["files"]) < 100 and len(r["files"]) + r["files_omitted"] == 250, (len(r["files"]), r.get("files_omitted"))
    # What nobody waits for ends all the same: with its session.
    m.call("run_command", command="sleep 3000", background=True)
    m.close()


def test_ended_commands_are_forgotten():
    first = background("true")
    for _ in range(17):
        last = background("true")
    assert wait_until(lambda: status(last) == "ok" and first not in commands())
    ended = [c for c in commands().values() if c["status"] != "running"]
    assert len(ended) == 16, len(ended)
    assert box("exec", "--attach", str(first), session()).returncode == 125


def test_killing_a_tree():
    """Also what left the session of the command, and what ignores signals."""
    ex("-i", "--", "sh", "-c", "cat >tree.py", input="""
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
p = [subprocess.Popen(["sleep", "1234"], start_new_session=own) for own in (False, True)]
subprocess.Popen(["sh", "-c", "sleep 1234 & sleep 1234"], start_new_session=True)
print("ready", flush=True)
time.sleep(1234)
""")
    def sleeping():
        return ex("--", "sh", "-c", "grep -la 1234 /proc/[0-9]*/cmdline 2>/dev/null | wc -l").stdout.strip()
    before = sleeping()
    number = background("python3", "tree.py")
    assert wait_until(lambda: int(sleeping()) >= int(before) + 5), sleeping()
    box("exec", "--kill", str(number), "--signal", "TERM", session(), check=True)
    assert status(number) == "running"
    box("exec", "--kill", str(number), session(), check=True)
    assert wait_until(lambda: status(number) == "killed") and commands()[number]["exit_code"] == 137
    assert wait_until(lambda: sleeping() == before), (before, sleeping())


def test_a_client_that_is_killed_hangs_up():
    p = box.popen("exec", session(), "--", "sh", "-c", "echo ready; sleep 1000", stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"ready\n"
    plain = max(commands())
    p.kill()
    p.wait()
    t = on_terminal("exec", "-it", session(), "sh", "-c", "echo ready; sleep 1000")
    t.see(b"ready")
    terminal = max(commands())
    os.kill(t.pid, signal.SIGKILL)
    end(t)
    for number in plain, terminal:
        assert wait_until(lambda: status(number) != "running")
        assert commands()[number]["exit_code"] == 129, commands()[number]
    # What does not want to end with its terminal does not, is kept, and can be attached to.
    p = box.popen("exec", session(), "--", "nohup", "sh", "-c", "echo ready; sleep 0.5; echo still here; sleep 1000",
                  stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"ready\n"
    number = max(commands())
    p.kill()
    p.wait()
    again = box.popen("exec", "--attach", str(number), session(), stdout=subprocess.PIPE)
    assert again.stdout.readline() == b"still here\n"
    again.kill()  # who only looked takes nothing with him
    again.wait()
    assert wait_until(lambda: not commands()[number]["attached"]) and status(number) == "running"
    box("exec", "--kill", str(number), session(), check=True)


# ---- many, and much ----

def test_two_hundred_at_once():
    name = session("many", processes=1024)
    every = [box.popen("exec", "-i", name, "--", "sh", "-c", f"echo begun; read a; echo {i} $a; exit {i % 100}",
                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for i in range(200)]
    for p in every:
        assert p.stdout.readline() == "begun\n", p.stderr.read()
    r = box("exec", name, "true")
    assert r.returncode == 125 and "200 commands of session many run already" in r.stderr, r
    for p in every:
        p.stdin.write("x\n")
        p.stdin.flush()
    ended = [(*p.communicate(), p.returncode) for p in every]
    assert ended == [(f"{i} x\n", "", i % 100) for i in range(200)], ended
    assert box("run", "--session", name, "-c", "6 * 7").stdout == "42\n"


def test_a_gigabyte():
    size = 1 << 30
    p = box.popen("exec", session(), "--", "head", "-c", str(size), "/dev/zero", stdout=subprocess.PIPE)
    n, pid = len(p.stdout.read(1)), box.daemon_pid()
    before, most = memory(pid), 0
    while data := p.stdout.read(1 << 20):
        n += len(data)
        if n % (64 << 20) < 1 << 20:
            most = max(most, memory(pid))
    assert (n, p.wait()) == (size, 0), n
    assert most < before + (8 << 20), (before, most)


def test_floods_together():
    """With more programs than processors, init may be slow to say that one has started. Nothing is lost for that."""
    size = 2 << 20
    for _ in range(4):
        all_of_them = [box.popen("exec", session(), "--", "head", "-c", str(size), "/dev/zero",
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(40)]
        for p in all_of_them:
            out, errs = p.communicate()
            assert (len(out), errs, p.returncode) == (size, b"", 0), (len(out), errs, p.returncode)


def test_who_floods_and_is_not_read():
    """Neither a slow client, nor a command that nobody looks at, costs codeboxd memory or others their turn."""
    pid = box.daemon_pid()
    slow = box.popen("exec", session(), "--", "cat", "/dev/zero", stdout=subprocess.PIPE)
    assert slow.stdout.read(1) == b"\0"
    floods = [background("cat", "/dev/zero") for _ in range(3)]
    before = memory(pid)
    for _ in range(3):
        assert box("run", "--session", session("other"), "-c", "6 * 7").stdout == "42\n"
    assert memory(pid) < before + (8 << 20), (before, memory(pid))
    for number in floods:
        box("exec", "--kill", str(number), session(), check=True)
        assert wait_until(lambda: status(number) == "killed")
    slow.kill()
    slow.stdout.close()
    slow.wait()
    assert wait_until(lambda: all(c["status"] != "running" or c["attached"] for c in commands().values()))


def test_who_never_reads():
    p = box.popen("exec", "-i", session(), "--", "sleep", "1000", stdin=subprocess.PIPE)
    os.set_blocking(p.stdin.fileno(), False)
    sent = 0

    def full():
        nonlocal sent
        try:
            sent += os.write(p.stdin.fileno(), b"x" * 65536)
        except BlockingIOError:
            return True
    assert wait_until(full) and sent < 4 << 20, sent
    assert box("run", "--session", "work", "-c", "6 * 7").stdout == "42\n"
    p.send_signal(signal.SIGINT)  # heard all the same
    assert p.wait(60) == 130
    p.stdin.close()


def test_what_is_left_behind_holds_nobody_up():
    """Processes that have a command's pipes, and keep running when it has ended."""
    r = ex("--", "sh", "-c", "(while :; do echo flood; done) & echo begun; exit 3", timeout=60)
    assert r.returncode == 3 and "begun" in r.stdout, (r.returncode, r.stdout[:100])
    r = ex("--", "sh", "-c", "sleep 1000 & exit 4", timeout=60)
    assert r.returncode == 4, r


def test_a_terminals_helper_is_no_way_out():
    """It is a process of the session's user: killed or stopped, it takes its own terminal with it, and nothing else."""
    find = "p=$(grep -l codebox-tty /proc/[0-9]*/comm | head -1); p=${p#/proc/}; p=${p%/comm}; "
    t = on_terminal("exec", "-it", session(), "sh", "-c", find + "kill -KILL $p; sleep 1000")
    assert end(t) == 129
    t = on_terminal("exec", "-it", session(), "sh", "-c", find + "kill -STOP $p; exit 5")
    assert end(t) == 5
    ex("--", "sh", "-c", find + "kill -KILL $p")
    t = on_terminal("exec", "-it", session(), "sh", "-c", "echo fine")
    t.see(b"fine")
    assert end(t) == 0


HELD = """
import json, os
status = dict(line.rstrip().split(':', 1) for line in open('/proc/self/status'))
keys = 'Uid', 'Gid', 'Groups', 'CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'NoNewPrivs', 'Seccomp', 'Seccomp_filters'
print(json.dumps([[status.get(k, '').strip() for k in keys], open('/proc/self/limits').read(), os.readlink('/proc/self/root'),
                  [os.readlink('/proc/self/ns/' + n) for n in sorted(os.listdir('/proc/self/ns'))]]))
"""


def test_a_command_is_held_as_cells_are():
    """The same user, namespaces, filters and limits as the interpreter and what that starts, with pipes and on a terminal."""
    for profile in ("default", "strict", "dev"):
        name = session("held-" + profile, profile=profile)
        child = f"import subprocess\nprint(subprocess.run(['python3', '-c', {HELD!r}], capture_output=True, text=True).stdout)"
        got = [json.loads(box(*args, check=True).stdout) for args in (
            ("run", "--session", name, "-c", HELD), ("run", "--session", name, "-c", child), ("exec", name, "python3", "-c", HELD))]
        assert got[0] == got[1] == got[2], (profile, got)
        status = got[0][0]
        assert status[3:10] == ["0" * 16] * 5 + ["1", "2"] and status[10] in ("2", ""), (profile, status)
        if profile != "strict":
            t = on_terminal("exec", "-it", name, "python3", "-c", HELD)
            assert json.loads(t.see(b"]]") + b"]]") == got[0], t.got
            assert end(t) == 0
        box("session", "rm", name, check=True)
        made.discard(name)


def test_descriptors_of_a_command():
    """Pipes, or its own terminal: of no namespace of the machine, and none that another has."""
    show = "import os; print([(fd, os.readlink('/proc/self/fd/%d' % fd)) for fd in range(256) " \
        "if os.path.lexists('/proc/self/fd/%d' % fd)])"
    found = eval(ex("--", "python3", "-c", show).stdout)
    assert [fd for fd, _ in found] == [0, 1, 2] and all(name.startswith("pipe:") for _, name in found), found
    t = on_terminal("exec", "-it", session(), "python3", "-c", show)
    found = eval(t.see(b"]") + b"]")
    assert [fd for fd, _ in found] == [0, 1, 2] and all(name.startswith("/dev/pts/") for _, name in found), found
    assert end(t) == 0


def test_strict_has_no_terminal():
    t = on_terminal("exec", "-it", session("strict", profile="strict"), "true")
    t.see(b"terminal: the session has none to give")
    assert end(t) == 125
    assert box("exec", "strict", "echo", "fine").stdout == "fine\n"


def test_their_end_with_the_session():
    p = box.popen("exec", session("closed"), "--", "sh", "-c", "echo ready; sleep 1000", stdout=subprocess.PIPE,
                  stderr=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"
    box("session", "rm", "closed", check=True)
    assert p.wait(60) == 125 and "closed" in p.stderr.read()
    supervisors = named(box.daemon_pid(), "codebox-supervisor")
    assert supervisors


# ---- shell ----

def test_a_shell():
    before = box.sessions()
    r = box("shell", "--image", box.image("python", "host"), input="echo one; pwd; exit 3\n")
    assert (r.stdout, r.returncode) == ("one\n/workspace\n", 3), r
    assert wait_until(lambda: box.sessions() == before), box.sessions()
    t = on_terminal("shell", "--image", box.image("python", "host"), "kept")
    t.type("touch file; echo $((6 * 7)) in $(pwd)\r")
    t.see(b"42 in /workspace\r\n")
    t.type("exit\r")
    assert end(t) == 0
    assert box("exec", "kept", "ls").stdout == "file\n"
    assert box("shell", "a", "b").returncode == 2


if __name__ == "__main__":
    run(globals())
