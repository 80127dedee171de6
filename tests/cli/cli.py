#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The codebox command against a fake daemon (fake_codeboxd.py): TAP.

CODEBOX is the built program (default: codebox in PATH); codebox-repl is looked for in CODEBOX_LIBEXEC_DIR and beside
the program.
"""
import atexit
import json
import os
import pty
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import traceback

# A test run in a shell's background has SIGINT ignored, and so would have all that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

HERE = os.path.dirname(os.path.abspath(__file__))
CODEBOX = os.path.abspath(shutil.which(os.environ.get("CODEBOX", "codebox")) or "/nonexistent")
FAKE = os.path.join(HERE, "fake_codeboxd.py")
WAIT = 20  # seconds that only bound a failing test


class Skip(Exception):
    pass


class Box:
    """A run-time directory of its own, and the fake daemon for it."""

    def __init__(self, **env):
        self.dir = tempfile.mkdtemp(prefix="cbxcli")
        atexit.register(self.close)
        self.starts_file = os.path.join(self.dir, "starts")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("CODEBOX") and k != "XDG_RUNTIME_DIR"}
        self.env.update(CODEBOX_RUNTIME_DIR=self.path("run"), CODEBOX_STATE_DIR=self.path("state"),
                        CODEBOX_DATA_DIR=self.path("data"), CODEBOX_LIBEXEC_DIR=self.path("libexec"),
                        CODEBOX_DAEMON=self.path("fake"), FAKE_STARTS=self.starts_file, LC_ALL="C.UTF-8",
                        TERM="dumb", ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "detect_leaks=0"))
        self.env.update(env)
        # The fake is started through a copy, so that a source tree on a read-only or odd file system is no matter.
        shutil.copy(FAKE, self.path("fake"))
        os.chmod(self.path("fake"), 0o755)
        os.mkdir(self.path("libexec"))
        for d in (os.environ.get("CODEBOX_LIBEXEC_DIR", "/nonexistent"), os.path.dirname(CODEBOX)):
            if os.path.exists(os.path.join(d, "codebox-repl")):
                os.symlink(os.path.join(d, "codebox-repl"), self.path("libexec/codebox-repl"))
                break

    def path(self, *p):
        return os.path.join(self.dir, *p)

    def close(self):
        for line in self.starts():
            try:
                os.kill(int(line.split()[0]), signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.dir, ignore_errors=True)

    def starts(self):
        try:
            with open(self.starts_file, encoding="ascii") as f:
                return f.read().splitlines()
        except FileNotFoundError:
            return []

    def __call__(self, *args, input=None, **kw):
        kw.setdefault("env", self.env)
        r = subprocess.run([CODEBOX, *args], input=input, stdin=subprocess.DEVNULL if input is None else None,
                           capture_output=True, timeout=WAIT * 3, **kw)
        r.out = r.stdout.decode("utf-8", "backslashreplace")
        r.err = r.stderr.decode("utf-8", "backslashreplace")
        return r

    def popen(self, *args, **kw):
        kw.setdefault("stdin", subprocess.PIPE)
        kw.setdefault("stdout", subprocess.PIPE)
        kw.setdefault("stderr", subprocess.PIPE)
        kw.setdefault("env", self.env)
        return subprocess.Popen([CODEBOX, *args], **kw)

    def ok(self, *args, **kw):
        r = self(*args, **kw)
        assert r.returncode == 0, (args, r.returncode, r.out, r.err)
        return r


def same(a, b):
    assert a == b, f"{a!r} is not {b!r}"


def contains(text, part):
    assert part in text, f"{part!r} is not in {text!r}"


def read_until(fd, what, seconds=WAIT):
    """Bytes of a descriptor until `what` is among them."""
    got = b""
    end = time.monotonic() + seconds
    while what not in got:
        left = end - time.monotonic()
        assert left > 0, f"{what!r} did not come: {got!r}"
        if select.select([fd], [], [], left)[0]:
            try:
                data = os.read(fd, 65536)
            except OSError:
                data = b""
            assert data, f"the end came before {what!r}: {got!r}"
            got += data
    return got


# ---- the program ----

def test_help_and_version():
    box = Box()
    r = box.ok("--help")
    for word in ("run", "repl", "session", "cp", "image", "doctor", "mcp", "stop", "register", "Examples"):
        contains(r.out, word)
    assert box.ok("--version").out.startswith("codebox 0")
    for c in ("run", "repl", "session", "cp", "doctor", "mcp", "register", "stop"):
        text = box.ok(c, "--help").out
        contains(text, "Usage: codebox " + c)
        contains(text, "Examples:")
        same(box.ok("help", c).out, text)
        assert max(map(len, text.splitlines())) <= 120, c
    same(box.starts(), [])


def test_usage_errors_are_2_with_a_hint():
    box = Box()
    for args, hint in ((("rnu",), "did you mean \"run\""), (("nonsense-at-all",), "no command"), ((), "--help"),
                       (("--bad",), "--bad"), (("run", "--bad"), "run --help"), (("run", "--timeout"), "value"),
                       (("run", "-c"), "value"), (("run", "-z"), "-z"), (("run", "--json=1", "-c", ""), "--json"),
                       (("run", "--timeout", "soon", "-c", "1"), "soon"),
                       (("run", "--memory", "1", "-c", "1"), "64 MiB"),
                       (("run", "--session", "../x", "-c", "1"), "name"),
                       (("run", "--image", "-x", "-c", "1"), "image"),
                       (("run", "--keep", "--session", "a", "-c", "1"), "--keep"), (("session",), "ls"),
                       (("session", "frob"), "frob"), (("session", "rm"), "--all"),
                       (("session", "info"), "one session"),
                       (("session", "rm", "--all", "x"), "--all"), (("cp", "a"), "destination"),
                       (("cp", "a", "b"), "SESSION:PATH"), (("cp", "s:a", "t:b"), "session to session"),
                       (("cp", "-x", "s:a", "b"), "-x"), (("cp", "-bad:a", "b"), "-b"), (("cp", "s p:a", "b"), "name"),
                       (("doctor", "x"), "x"), (("mcp", "x"), "x"), (("stop", "x"), "x"), (("register",), "claude"),
                       (("register", "emacs"), "emacs")):
        r = box(*args)
        assert r.returncode == 2, (args, r.returncode, r.err)
        contains(r.err, hint)
        contains(r.err, "Try: codebox")
        same(r.out, "")
    same(box.starts(), [])


def test_register():
    box = Box()
    r = box.ok("register", "claude-desktop", "--print")
    contains(r.out, "claude_desktop_config.json")
    text = "{" + r.out[r.out.index('"mcpServers"'):] + "}"
    conf = json.loads(text)["mcpServers"]["codebox"]
    same(conf["args"], ["mcp"])
    same(os.path.realpath(conf["command"]), os.path.realpath(CODEBOX))


def test_closed_standard_descriptors():
    box = Box()
    r = subprocess.run(["/bin/sh", "-c", 'exec "$0" run -c out:x >&- 2>&- <&-', CODEBOX], env=box.env, timeout=WAIT)
    assert r.returncode in (0, 3), r.returncode
    same(box.ok("run", "-c", "out:still well").out, "still well")


# ---- starting the daemon ----

def test_start_is_once_and_clean():
    box = Box()
    box.ok("run", "-c", "out:hi")
    box.ok("run", "-c", "out:hi")
    same(len(box.starts()), 1)
    # Only 0 to 4 (and what the fake's listdir opened) are there: nothing of the starter is inherited.
    fds = box.starts()[0].split()[1:]
    assert len(fds) == 7, fds
    same(stat.S_IMODE(os.stat(box.path("run")).st_mode), 0o700 if os.geteuid() else 0o750)
    for name in ("control.sock", "mcp.sock"):
        same(stat.S_IMODE(os.stat(box.path("run", name)).st_mode), 0o600)
    same(stat.S_IMODE(os.stat(box.path("state/codeboxd.log")).st_mode), 0o600)
    pid = int(box.starts()[0].split()[0])
    assert os.getsid(pid) not in (0, os.getsid(0)), "the daemon is in our session"
    assert os.getpgid(pid) != os.getpgid(0)


def test_twenty_clients_start_one_daemon():
    box = Box()
    clients = [box.popen("run", "-c", f"out:{i}", stdin=subprocess.DEVNULL) for i in range(20)]
    for i, c in enumerate(clients):
        out, err = c.communicate(timeout=WAIT * 3)
        same((c.returncode, out, err), (0, str(i).encode(), b""))
    same(len(box.starts()), 1)


def test_stale_sockets():
    box = Box()
    os.mkdir(box.path("run"), 0o700)
    for name in ("control.sock", "mcp.sock"):
        s = socket.socket(socket.AF_UNIX)
        s.bind(box.path("run", name))
        s.close()
    same(box.ok("run", "-c", "out:x").out, "x")
    pid = int(box.starts()[0].split()[0])
    os.kill(pid, signal.SIGKILL)
    while os.path.exists(f"/proc/{pid}") and open(f"/proc/{pid}/stat").read().split()[2] != "Z":
        time.sleep(0.01)
    same(box.ok("run", "-c", "out:y").out, "y")
    same(len(box.starts()), 2)


def test_daemon_that_dies_at_start():
    box = Box(FAKE_DIE="1000")
    r = box("run", "-c", "out:x")
    same(r.returncode, 3)
    contains(r.err, "broken")
    contains(r.err, "on purpose")
    assert "\x1b" not in r.err
    r = box("mcp", input=b'{"x":1}\n')
    same(r.returncode, 1)
    contains(r.err, "on purpose")
    same(r.out, "")
    r = box("run", "--json", "-c", "1")
    same(r.returncode, 3)
    same(json.loads(r.out)["error"]["kind"], "daemon_gone")


def test_daemon_that_recovers():
    box = Box(FAKE_DIE="1")
    same(box("run", "-c", "out:x").returncode, 3)
    same(box.ok("run", "-c", "out:x").out, "x")


def test_daemon_that_was_about_to_end():
    # It closes the first three connections without a word. The first is the starter's own: that is a broken daemon.
    box = Box(FAKE_DEAF="3")
    same(box("run", "-c", "out:x").returncode, 3)
    # The next two belong to one client, which tries again.
    same(box.ok("run", "-c", "out:x").out, "x")
    same(len(box.starts()), 1)


def test_reconnects_to_a_daemon_that_ends():
    """The idle race as it is: accepted, closed without a word, and the sockets removed."""
    box = Box()
    os.mkdir(box.path("run"), 0o700)
    s = socket.socket(socket.AF_UNIX)
    s.bind(box.path("run/control.sock"))
    s.listen()
    c = box.popen("run", "-c", "out:x", stdin=subprocess.DEVNULL)
    conn, _ = s.accept()
    os.unlink(box.path("run/control.sock"))
    s.close()
    conn.close()
    same(c.communicate(timeout=WAIT)[0], b"x")
    same(len(box.starts()), 1)


def test_mcp_replays_to_the_next_daemon():
    box = Box()
    os.mkdir(box.path("run"), 0o700)
    s = socket.socket(socket.AF_UNIX)
    s.bind(box.path("run/mcp.sock"))
    s.listen()
    c = box.popen("mcp")
    c.stdin.write(b"hello\n")
    c.stdin.flush()
    conn, _ = s.accept()
    same(conn.recv(6), b"hello\n")
    os.unlink(box.path("run/mcp.sock"))
    s.close()
    conn.close()
    same(c.stdout.readline(), b"hello\n")
    c.stdin.close()
    same(c.wait(WAIT), 0)


def test_missing_daemon_program():
    box = Box(CODEBOX_DAEMON="/nonexistent/codeboxd")
    r = box("run", "-c", "1")
    same(r.returncode, 3)
    contains(r.err, "/nonexistent/codeboxd")
    assert not os.path.exists(box.path("run/control.sock"))


def test_unwritable_state_directory():
    box = Box()
    with open(box.path("file"), "w"):
        pass
    box.env["CODEBOX_STATE_DIR"] = box.path("file/state")
    r = box.ok("run", "-c", "out:x")
    same(r.out, "x")
    contains(r.err, "log is not kept")


def test_log_rotation():
    box = Box()
    os.mkdir(box.path("state"), 0o700)
    with open(box.path("state/codeboxd.log"), "wb") as f:
        f.truncate(5 << 20)
    box.ok("run", "-c", "out:x")
    assert os.path.getsize(box.path("state/codeboxd.log")) < 1 << 20
    same(os.path.getsize(box.path("state/codeboxd.log.1")), 5 << 20)


def test_run_time_directory_that_is_no_directory():
    box = Box()
    os.symlink("/tmp", box.path("run"))
    r = box("run", "-c", "1")
    same(r.returncode, 3)
    contains(r.err, "not a directory")
    os.unlink(box.path("run"))
    os.mkdir(box.path("run"), 0o700)
    os.symlink("/etc/passwd", box.path("run/lock"))
    same(box("run", "-c", "1").returncode, 3)
    same(box.starts(), [])


def test_somebody_elses_daemon_is_refused():
    if os.geteuid() != 0:
        raise Skip("needs root to be two users")
    box = Box()
    os.chmod(box.dir, 0o755)
    os.mkdir(box.path("run"), 0o755)
    s = socket.socket(socket.AF_UNIX)
    s.bind(box.path("run/control.sock"))
    ready, say_ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setuid(12345)
        s.listen()
        os.write(say_ready, b".")
        s.settimeout(WAIT)
        try:
            s.accept()
            time.sleep(WAIT)
        finally:
            os._exit(0)
    s.close()
    os.close(say_ready)
    same(os.read(ready, 1), b".")
    os.close(ready)
    r = box("run", "-c", "1")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    same(r.returncode, 3)
    contains(r.err, "12345")


def scope_box(script):
    """A box whose user seems to have a systemd manager, with this systemd-run."""
    if os.geteuid() == 0:
        raise Skip("as root it is the system's manager that is asked")
    box = Box()
    os.makedirs(box.path("xdg/systemd"))
    open(box.path("xdg/systemd/private"), "w").close()
    os.mkdir(box.path("bin"))
    with open(box.path("bin/systemd-run"), "w") as f:
        f.write("#!/bin/sh\n" + script)
    os.chmod(box.path("bin/systemd-run"), 0o755)
    box.env["XDG_RUNTIME_DIR"] = box.path("xdg")
    box.env["PATH"] = box.path("bin") + ":" + box.env["PATH"]
    return box


def test_scope():
    box = scope_box('echo "$@ $DBUS_SESSION_BUS_ADDRESS" > "$CODEBOX_RUNTIME_DIR/args"\n'
                    'while [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    same(box.ok("run", "-c", "out:x").out, "x")
    same(len(box.starts()), 1)
    with open(box.path("run/args")) as f:
        args = f.read()
    contains(args, "--user --scope --quiet --collect ")
    contains(args, " -p Delegate=yes -- ")


def test_scope_that_fails():
    box = scope_box("exit 1\n")
    same(box.ok("run", "-c", "out:x").out, "x")
    same(len(box.starts()), 1)


def test_scope_that_hangs():
    box = scope_box("exec sleep 600\n")
    same(box.ok("run", "-c", "out:x").out, "x")
    same(len(box.starts()), 1)


# ---- run ----

def test_run_streams_and_status():
    box = Box()
    r = box("run", "-c", "out:a\\n\nerr:b\nresult:42")
    same((r.returncode, r.out, r.err), (0, "a\n42\n", "b\n"))
    same(box.ok("run", "-c", "out:no newline").out, "no newline")
    same(box.ok("run", "-c", "out:ä€\U0001f600").out, "ä€\U0001f600")
    r = box("run", "-c", "out:x\nerror:ValueError:boom")
    same((r.returncode, r.out), (1, "x"))
    contains(r.err, "ValueError: boom")
    same(box("run", "-c", "exit:0").err, "")
    for code, status in (("exit:0", 0), ("exit:3", 3), ("exit:256", 0), ("exit:-1", 255), ("timeout", 124),
                         ("killed", 137)):
        r = box("run", "-c", code)
        assert r.returncode == status, (code, r.returncode, r.err)
    contains(r.err, "codebox: the code was ended")


def test_run_own_failures_are_3():
    box = Box()
    r = box("run", "--image", "nosandbox", "-c", "1")
    same(r.returncode, 3)
    contains(r.err, "codebox: no sandbox can be made here")
    r = box("run", "-c", "die")
    same(r.returncode, 3)
    contains(r.err, "codeboxd ended")


def test_run_file_stdin_and_arguments():
    box = Box()
    script = box.path("s.py")
    with open(script, "w") as f:
        f.write("argv")
    same(json.loads(box.ok("run", script, "--timeout", "x", "ü").out), [script, "--timeout", "x", "ü"])
    same(json.loads(box.ok("run", "-c", "argv", "1", "-2").out), ["-c", "1", "-2"])
    same(box.ok("run", "-", input=b"out:in").out, "in")
    same(box.ok("run", input=b"out:in").out, "in")
    same(box.ok("run", "-c", "").out, "")
    r = box("run", box.path("missing.py"))
    same(r.returncode, 2)
    contains(r.err, "missing.py")
    same(box("run", box.dir).returncode, 2)
    same(box("run", "-", input=b"out:\xff").returncode, 2)
    same(box("run", "-", input=b"out:\0").returncode, 2)
    same(box("run", "-", input=b"#" * (1 << 20) + b"#").returncode, 2)
    same(box("run", "/dev/zero").returncode, 2)


def test_run_options_arrive():
    box = Box()
    r = box.ok("run", "--session", "s1", "--image", "img", "--memory", "512M", "--disk", "2G", "--timeout", "5m", "-c",
               "params")
    same(json.loads(r.out), {"session_id": "s1", "create": True, "image": "img", "memory": "512M", "disk": "2G",
                             "timeout": "5m"})
    same(json.loads(box.ok("run", "-c", "params").out), {})


def test_run_keep():
    box = Box()
    r = box.ok("run", "--keep", "-c", "params")
    sid = json.loads(r.out)["session_id"]
    contains(r.err, sid)
    contains(box.ok("session", "ls").out, sid)


def test_run_json():
    box = Box()
    r = box("run", "--json", "-c", "out:text\nerr:e\npng\nresult:1\nerror:E:v")
    same(r.returncode, 1)
    same(r.err, "")
    same(r.out.count("\n"), 1)
    x = json.loads(r.out)
    same((x["stdout"], x["status"], x["error"]["name"]), ("text", "error", "E"))
    same(len(x["displays"]), 2)
    contains(x["displays"][0]["data"], "image/png")
    same(x["displays"][1]["is_result"], True)
    r = box("run", "--json", "--image", "nosandbox", "-c", "1")
    same((r.returncode, json.loads(r.out)["error"]["kind"]), (3, "no_sandbox"))


def test_run_figures():
    box = Box()
    r = box.ok("run", "-c", "png\nsvg\nhtml")
    same(r.out, "table\n")
    contains(r.err, "figure: image/png, 108 bytes (use --out DIR to save)")
    out = box.path("a/b")
    for _ in range(2):
        r = box.ok("run", "--out", out, "-c", "png\nsvg")
    contains(r.err, out + "/figure-2.png (image/png, 108 bytes)")
    same(sorted(os.listdir(out)), ["figure-1.png", "figure-2.png", "figure-2.svg", "figure-3.svg"])
    with open(os.path.join(out, "figure-1.png"), "rb") as f:
        same(f.read(), b"\x89PNG\r\n\x1a\n" + b"x" * 100)
    # A link in the way is not followed.
    os.symlink(box.path("victim"), os.path.join(out, "figure-3.png"))
    box.ok("run", "--out", out, "-c", "png")
    assert not os.path.exists(box.path("victim"))
    assert os.path.exists(os.path.join(out, "figure-4.png"))
    r = box("run", "-c", "badpng\nout:on")
    same(r.out, "on")
    contains(r.err, "cannot be decoded")
    same(box("run", "--out", box.path("fake/x"), "-c", "png").returncode, 3)


def test_run_interrupt():
    box = Box()
    p = box.popen("run", "-c", "out:a\\n\nwait", stdin=subprocess.DEVNULL)
    read_until(p.stdout.fileno(), b"waiting\n")
    p.send_signal(signal.SIGINT)
    same(p.wait(WAIT), 130)
    p = box.popen("run", "-c", "stubborn", stdin=subprocess.DEVNULL)
    read_until(p.stdout.fileno(), b"waiting\n")
    end = time.monotonic() + WAIT
    sent = 0
    while p.poll() is None and time.monotonic() < end:  # two that are seen; one alone is not enough
        p.send_signal(signal.SIGINT)
        sent += 1
        time.sleep(0.1)
    same(p.wait(WAIT), 130)
    assert sent >= 2, sent


def test_run_much_output_and_a_reader_that_leaves():
    box = Box()
    same(len(box.ok("run", "-c", "bytes:3000000").stdout), 3000000)
    p = box.popen("run", "-c", "bytes:3000000", stdin=subprocess.DEVNULL)
    p.stdout.read(10)
    p.stdout.close()
    assert p.wait(WAIT) in (3, -signal.SIGPIPE)


def test_run_terminal_gets_no_escape_sequences():
    box = Box()
    m, s = pty.openpty()
    code = "out:\\x1b[31mred\\x1b[0m \\x1b]52;c;ZXZpbA==\\x07 \\x1b[6n \\x9b5n\\x1b[\nout:2Jx\\x1bcend\\n"
    p = box.popen("run", "-c", code, stdin=subprocess.DEVNULL, stdout=s)
    os.close(s)
    got = read_until(m, b"end\r\n")
    p.wait(WAIT)
    os.close(m)
    contains(got, b"\x1b[31mred\x1b[0m ")
    same(got.count(b"\x1b"), 3)  # the third: ESC [ 2 J is harmless, also in two pieces
    assert b"\x07" not in got and b"\xc2\x9b" not in got
    contains(got, b"^[]52;c;")
    contains(got, b"^[[6n")
    contains(got, b"^[cend")
    # To a file everything goes as it is.
    contains(box.ok("run", "-c", "out:\\x1b]52;c;x\\x07").out, "\x1b]52;c;x\x07")


# ---- sessions ----

def test_sessions():
    box = Box()
    same(json.loads(box.ok("session", "ls", "--no-start", "--json").out), {"sessions": []})
    same(box("session", "info", "x").returncode, 1)
    same(box("session", "rm", "x").returncode, 1)
    same(box.ok("session", "rm", "--all").out, "")
    box.ok("stop")
    same(box.starts(), [])
    box.ok("session", "ls")
    same(len(box.starts()), 1)
    box.ok("run", "--session", "one", "-c", "out:1")
    box.ok("run", "--session", "two", "-c", "out:1")
    out = box.ok("session", "ls").out
    contains(out, "one")
    contains(out, "two")
    same([s["session_id"] for s in json.loads(box.ok("session", "ls", "--json").out)["sessions"]], ["one", "two"])
    r = box.ok("session", "info", "one")
    contains(r.out, "python")
    assert "\x1b" not in r.out
    same(json.loads(box.ok("session", "info", "--json", "one").out)["session_id"], "one")
    r = box("session", "info", "none")
    same(r.returncode, 1)
    contains(r.err, "codebox: there is no session")
    same(box("session", "rm", "none", "one").returncode, 1)
    same([s["session_id"] for s in json.loads(box.ok("session", "ls", "--json").out)["sessions"]], ["two"])
    box.ok("session", "rm", "--all")
    contains(box.ok("session", "ls").err, "no sessions")


def test_stop():
    box = Box()
    contains(box.ok("stop").err, "not running")
    box.ok("run", "-c", "out:1")
    box.ok("stop")
    contains(box.ok("stop").err, "not running")
    same(len(box.starts()), 1)


# ---- cp ----

def cp_box():
    box = Box()
    box.ok("run", "--session", "s", "-c", "out:1")
    return box


def read(path):
    with open(path, "rb") as f:
        return f.read()


def test_cp_out():
    box = cp_box()
    d = box.path("d")
    os.mkdir(d)
    box.ok("cp", "s:penguins.csv", d)
    same(read(d + "/penguins.csv"), b"a,b\n1,2\n")
    box.ok("cp", "s:bin", d + "/copy")
    same(read(d + "/copy"), bytes(range(256)) * 400)
    same(os.stat(d + "/copy").st_mode & 0o100, 0o100)
    same(os.stat(d + "/penguins.csv").st_mode & 0o111, 0)
    box.ok("cp", "s:empty", "s:sparse", d)
    same(read(d + "/empty"), b"")
    same(read(d + "/sparse"), b"\0" * 49152 * 3 + b"end")
    assert os.stat(d + "/sparse").st_blocks * 512 < 49152 * 3
    box.ok("cp", "s:penguins.csv", d + "/copy")  # replaces
    same(read(d + "/copy"), b"a,b\n1,2\n")
    same(box.ok("cp", "s:penguins.csv", "/dev/stdout").out, "a,b\n1,2\n")
    box.ok("cp", "s:growing", d)
    same(os.path.getsize(d + "/growing"), 100)
    same(sorted(os.listdir(d)), ["copy", "empty", "growing", "penguins.csv", "sparse"])
    # A link that the user names is followed.
    os.symlink("copy", d + "/named")
    box.ok("cp", "s:empty", d + "/named")
    same(read(d + "/copy"), b"")
    assert os.path.islink(d + "/named")
    for args, status in ((("s:none", d), 1), (("s:d", d), 1), (("s:empty", d + "/no/such"), 1), (("none:x", d), 1),
                         (("s:empty", d + "/new/"), 1), (("s:empty", "s2:x"), 2),
                         (("s:empty", "s:bin", d + "/copy"), 1)):
        r = box("cp", *args)
        assert r.returncode == status, (args, r.returncode, r.err)
        assert r.err.startswith("codebox: "), r.err
    os.mkdir(d + "/bin")
    same(box("cp", "s:bin", d).returncode, 1)


def test_cp_tree_out():
    box = cp_box()
    box.ok("cp", "-r", "s:d", box.path("new"))
    same(read(box.path("new/sub/two")), b"2")
    os.mkdir(box.path("in"))
    box.ok("cp", "-r", "s:d", box.path("in"))
    same(read(box.path("in/d/one")), b"1")
    box.ok("cp", "-r", "s:", box.path("all"))
    same(read(box.path("all/d/sub/two")), b"2")
    same(read(box.path("all/penguins.csv")), b"a,b\n1,2\n")


def test_cp_hostile_names():
    box = cp_box()
    d = box.path("d")
    os.mkdir(d)
    os.mkdir(box.path("outside"))
    os.symlink(box.path("outside"), d + "/linkdir")
    os.symlink(box.path("outside/victim"), d + "/ok")
    r = box("cp", "-r", "s:hostile/.", d)
    same(r.returncode, 1)
    assert "\x1b" not in r.err and "\x1b" not in r.out
    contains(r.err, "symbolic link")
    same(os.listdir(box.path("outside")), [])
    assert not os.path.exists(box.path("escaped")) and not os.path.exists("/etc/escaped")
    same(read(d + "/ok"), b"hostile")
    assert not os.path.islink(d + "/ok")
    assert os.path.islink(d + "/linkdir")
    same(sorted(os.listdir(d)), ["evil\x1b[2J\nname", "linkdir", "ok"])


def test_cp_endless():
    box = cp_box()
    box.ok("cp", "-r", "s:endless", box.path("e"))
    r = box("cp", "-r", "s:deep", box.path("deep"))
    same(r.returncode, 1)
    contains(r.err, "directories within each other")


def test_cp_in():
    box = cp_box()
    src = box.path("src")
    os.makedirs(src + "/sub/empty")
    data = os.urandom(49152 * 3 + 17)
    for name, content in (("a", data), ("exact", data[:49152]), ("sub/b", b"b"), ("null", b"")):
        with open(os.path.join(src, name), "wb") as f:
            f.write(content)
    os.symlink("/etc/passwd", src + "/link")
    os.mkfifo(src + "/fifo")
    for name in ("a", "exact", "null"):
        box.ok("cp", os.path.join(src, name), "s:")
        box.ok("cp", "s:" + name, box.path("back"))
        same(read(box.path("back")), read(os.path.join(src, name)))
    box.ok("cp", src + "/a", "s:renamed")
    box.ok("cp", "s:renamed", box.path("back"))
    same(read(box.path("back")), data)
    same(box("cp", src, "s:tree").returncode, 1)
    r = box("cp", "-r", src, "s:tree")
    same(r.returncode, 1)
    contains(r.err, "link: skipped")
    contains(r.err, "fifo: skipped")
    box.ok("cp", "-r", "s:tree", box.path("tree"))
    same(read(box.path("tree/sub/b")), b"b")
    assert not os.path.lexists(box.path("tree/link"))
    same(box.ok("cp", "/dev/stdin", "s:piped", input=b"from a pipe").err, "")
    same(box.ok("cp", "s:piped", "/dev/stdout").out, "from a pipe")
    same(box("cp", box.path("nowhere"), "s:").returncode, 1)


# ---- repl ----

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
    same(json.loads(box.ok("session", "ls", "--json").out)["sessions"], [])
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


# ---- mcp ----

def test_mcp_echo_and_end():
    box = Box()
    p = box.popen("mcp")
    for line in (b"one\n", b"x" * 500000 + b"\n", b"\0\xff\r\n"):
        p.stdin.write(line)
        p.stdin.flush()
        same(p.stdout.readline(), line)
    p.stdin.close()
    same(p.wait(WAIT), 0)
    same(p.stdout.read(), b"")
    same(p.stderr.read(), b"")


def test_mcp_all_input_is_answered_after_its_end():
    box = Box()
    data = b"".join(b"%d\n" % i for i in range(20000))
    r = box("mcp", input=data)
    same(r.returncode, 0)
    same(r.stdout, data)
    same(box("mcp", input=b"").returncode, 0)


def test_mcp_back_pressure():
    box = Box()
    p = box.popen("mcp")
    for _ in range(8):
        p.stdin.write(b"flood\n")
    p.stdin.flush()
    time.sleep(0.3)
    with open(f"/proc/{p.pid}/status") as f:
        rss = [line for line in f if line.startswith("VmRSS")][0]
    if "SANITIZERS" not in os.environ:
        print("# codebox mcp with a reader that waits: " + rss.strip())
    total = 0
    while total < 8 << 20:
        total += len(p.stdout.read1(1 << 20))
    same(total, 8 << 20)
    p.stdin.write(b"after\n")
    p.stdin.flush()
    same(p.stdout.readline(), b"after\n")
    p.stdin.close()
    same(p.wait(WAIT), 0)


def test_mcp_client_that_stops_reading():
    box = Box()
    p = box.popen("mcp")
    p.stdin.write(b"flood\n" * 4)
    p.stdin.flush()
    read_until(p.stdout.fileno(), b"z")
    p.stdout.close()
    same(p.wait(WAIT), 0)
    p = box.popen("mcp")  # it ends although it owes much output to a reader that does not read
    p.stdin.write(b"flood\n" * 4)
    p.stdin.close()
    same(p.wait(WAIT), 0)


def test_mcp_daemon_goes_away():
    box = Box()
    for word in (b"quit\n", b"die\n"):
        p = box.popen("mcp")
        p.stdin.write(b"first\n")
        p.stdin.flush()
        same(p.stdout.readline(), b"first\n")
        p.stdin.write(word)
        p.stdin.flush()
        same(p.wait(WAIT), 1)
        contains(p.stderr.read(), b"codeboxd has closed the connection")
        same(p.stdout.read(), b"")


def test_mcp_daemon_that_lingers():
    box = Box()
    p = box.popen("mcp")
    p.stdin.write(b"linger\n")
    p.stdin.close()
    same(p.wait(WAIT), 0)


# ---- the rest ----

def complete(box, *words):
    """What bash offers for the last of the words."""
    script = os.path.join(HERE, "../../packaging/completions/codebox")
    if not shutil.which("bash") or not os.path.exists(script):
        raise Skip("no bash, or no completions")
    r = subprocess.run(["bash", "--norc", "-c", 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _codebox; '
                        'printf "%s\\n" "${COMPREPLY[@]}"', script, CODEBOX, *words],
                       env=box.env, capture_output=True, text=True, timeout=WAIT, cwd=box.dir)
    same(r.stderr, "")
    return r.stdout.split()


def test_completion():
    box = Box()
    same(complete(box, "se"), ["session"])
    contains(complete(box, ""), "run")
    same(complete(box, "run", "--ti"), ["--timeout"])
    same(complete(box, "run", "fa"), ["fake"])
    same(complete(box, "session", "i"), ["info"])
    same(complete(box, "session", "rm", ""), [])
    same(box.starts(), [])  # completing starts nothing
    box.ok("run", "--session", "alpha", "-c", "")
    box.ok("run", "--session", "beta", "-c", "")
    same(complete(box, "session", "rm", ""), ["alpha", "beta"])
    same(complete(box, "run", "--session", "b"), ["beta"])
    same(complete(box, "cp", "al"), ["alpha:"])
    same(complete(box, "register", "")[:4], ["claude-desktop", "claude-code", "vscode", "cursor"])


def test_doctor():
    box = Box()
    r = box("doctor", "--json")
    assert r.returncode in (0, 1), r.err
    checks = json.loads(r.out)
    by_name = {c["name"]: c for c in checks}
    for c in checks:
        assert c["state"] in ("ok", "degraded", "failed"), c
        assert c["title"] and c["found"] and c["means"], c
        assert c["state"] == "ok" or c["remedy"], c
    for name in ("kernel", "syscalls", "namespaces", "seccomp", "landlock", "overlay", "cgroup", "subids", "images",
                 "helpers", "runtime_dir", "disk", "memory", "apt", "service"):
        contains(by_name, name)
    # Nothing is installed in this box's directories, and there are no images.
    same(by_name["helpers"]["state"], "failed")
    contains(by_name["helpers"]["found"], "codebox-supervisor")
    same(by_name["images"]["state"], "failed")
    contains(by_name["images"]["remedy"], "codebox image build")
    same(r.returncode, 1)
    r = box("doctor")
    for c in checks:
        contains(r.out, c["title"])
    contains(r.out, "fix:")
    same(box.starts(), [])


def test_doctor_without_user_namespaces():
    box = Box()
    probe = ["unshare", "-Ur", "--", "/bin/true"]
    if not shutil.which("unshare") or subprocess.run(probe, capture_output=True).returncode != 0:
        raise Skip("no user namespaces to switch off")
    r = subprocess.run(["unshare", "-Ur", "--", "/bin/sh", "-c",
                        'echo 0 > /proc/sys/user/max_user_namespaces && exec "$0" doctor --json', CODEBOX],
                       env=box.env, capture_output=True, timeout=WAIT * 2)
    if b"namespaces" not in r.stdout:
        raise Skip("the limit cannot be set: " + r.stderr.decode()[:200])
    ns = [c for c in json.loads(r.stdout) if c["name"] == "namespaces"][0]
    same(ns["state"], "failed")
    contains(ns["found"] + ns["remedy"], "user")


def main():
    tests = [(n[5:].replace("_", " "), f) for n, f in globals().items() if n.startswith("test_") and callable(f)]
    wanted = sys.argv[1:]
    tests = [t for t in tests if not wanted or any(w in t[0] for w in wanted)]
    print(f"1..{len(tests)}", flush=True)
    failed = 0
    for number, (name, f) in enumerate(tests, 1):
        try:
            f()
            print(f"ok {number} - {name}", flush=True)
        except Skip as e:
            print(f"ok {number} - {name} # SKIP {e}", flush=True)
        except Exception:
            failed += 1
            print(f"not ok {number} - {name}", flush=True)
            for line in traceback.format_exc()[-3000:].splitlines():
                print("#   " + line, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
