#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How the codebox command finds codeboxd, or starts it."""
import json
import os
import signal
import socket
import stat
import subprocess
import time

from common_cli import Box, CODEBOX, contains, run, same, Skip, WAIT, wait_until
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


def ended(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] == "Z"  # nobody may be there to reap it
    except OSError:
        return True


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
    assert wait_until(lambda: ended(pid)), pid
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
    same(r.returncode, 3)
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
    r = box("mcp", input=b'{"x":1}\n')
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


def hurried(box, times):
    """An environment in which the command's clock runs that many times as fast."""
    library = os.environ.get("CBX_HURRY_SO", "")
    if not os.path.exists(library) or os.environ.get("CBX_SANITIZED"):
        raise Skip("tests/lib/hurry.so was not built, or a sanitizer wants to be the first")
    with open(box.path("speed"), "wb") as f:
        f.write(times.to_bytes(4, "little"))
    return {**box.env, "LD_PRELOAD": library, "CBX_HURRY": box.path("speed"), "CBX_HURRY_WHO": "codebox"}


def test_a_daemon_that_is_stopped():
    """It accepts nothing and closes nothing: who asks gets an error, and does not wait for ever."""
    box = Box()
    env = hurried(box, 30)  # a second instead of thirty
    box.ok("run", "-c", "out:x")
    pid = int(box.starts()[0].split()[0])
    os.kill(pid, signal.SIGSTOP)
    try:
        for command in (["run", "-c", "out:y"], ["session", "ls"], ["stop"]):
            r = subprocess.run([CODEBOX, *command], stdin=subprocess.DEVNULL, capture_output=True, timeout=WAIT * 3,
                               env=env)
            same(r.returncode, 3)
            contains(r.stderr.decode(), "codeboxd has not answered on ")
            contains(r.stderr.decode(), "SIGCONT")
    finally:
        os.kill(pid, signal.SIGCONT)
    same(box.ok("run", "-c", "out:z").out, "z")
    same(len(box.starts()), 1)


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
    box.env = hurried(box, 5)  # else it would be given ten seconds
    same(box.ok("run", "-c", "out:x").out, "x")
    same(len(box.starts()), 1)


if __name__ == "__main__":
    run(globals())
