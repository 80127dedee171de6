#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Another user of the machine was first at /tmp/codebox-UID: nothing that a client says goes there, and codebox works.

Two real users, in a mount namespace with a /tmp of its own: for root, two ids that nobody has; for an ordinary user,
its own id and one of its subordinate ids.
"""
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading

from common_cli import Box, CODEBOX, contains, run, same, Skip, WAIT

USER = os.getuid() or 12345
STRANGER = 12346 if os.getuid() == 0 else 2
SQUAT = f"/tmp/codebox-{USER}"
HERE = "/mnt"  # where the box is in that namespace
PR_CAP_AMBIENT, CLEAR_ALL, PR_SET_PDEATHSIG = 47, 4, 1
MS_BIND = 4096


LIBC = ctypes.CDLL(None, use_errno=True)


def mount(source, where, kind, flags, data):
    # Not mount(8), which is setuid, and gives up for an ordinary user what this process was given.
    if LIBC.mount(source.encode(), where.encode(), kind.encode(), flags, data.encode()):
        raise OSError(ctypes.get_errno(), f"mount {source} on {where}")


def private_tmp(box):
    mount(box, HERE, "none", MS_BIND, "")
    mount("tmpfs", "/tmp", "tmpfs", 0, "mode=1777")
    if os.path.isdir("/run/user"):
        mount("tmpfs", "/run/user", "tmpfs", 0, "mode=755")


def become(uid):
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def as_user():
    """In a child before it executes codebox: the ordinary user, without a capability."""
    if os.getuid() == 0:
        os.setgroups([])
        become(USER)
    LIBC.prctl(PR_CAP_AMBIENT, CLEAR_ALL, 0, 0, 0)


def codebox(*args, **env):
    env = {**os.environ, "HOME": HERE + "/home", **env}
    r = subprocess.run([HERE + "/codebox", *args], env=env, preexec_fn=as_user, stdin=subprocess.DEVNULL,
                       capture_output=True, text=True, timeout=WAIT * 3)
    return r.returncode, r.stdout, r.stderr


class Stranger:
    """A process of another user that holds the directory, listens in it, and counts what comes."""

    def __init__(self, lead_to=None):
        self.said, say = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self.squat(say, lead_to)
            finally:
                os._exit(1)
        os.close(say)
        same(os.read(self.said, 1), b"r")
        os.set_blocking(self.said, False)

    def squat(self, say, lead_to):
        become(STRANGER)
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.umask(0)
        os.mkdir(SQUAT, 0o777)
        for name in ("control.sock", "mcp.sock"):
            if lead_to:
                os.symlink(lead_to, f"{SQUAT}/{name}")
                continue
            s = socket.socket(socket.AF_UNIX)
            s.bind(f"{SQUAT}/{name}")
            s.listen()
            threading.Thread(target=self.serve, args=(s, say), daemon=True).start()
        os.write(say, b"r")
        signal.pause()

    def serve(self, s, say):
        while True:
            c, _ = s.accept()
            os.write(say, b"c")
            if c.recv(1):
                os.write(say, b"d")

    def leave(self):
        """What came, after it has gone with its directory."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        shutil.rmtree(SQUAT)
        try:
            return os.read(self.said, 100)
        except BlockingIOError:
            return b""
        finally:
            os.close(self.said)


def starts():
    with open(HERE + "/starts", encoding="ascii") as f:
        return len(f.read().splitlines())


def service_of_the_user():
    """A service that is not a codeboxd, of the user: a stranger's link leads there. The connections it has had."""
    path, came = HERE + "/other.sock", []
    s = socket.socket(socket.AF_UNIX)
    s.bind(path)
    os.chmod(path, 0o777)
    pid = os.fork()
    if pid == 0:  # the kernel reports who called listen
        become(USER)
        s.listen()
        os._exit(0)
    os.waitpid(pid, 0)

    def serve():
        while True:
            c, _ = s.accept()
            came.append(1)
            c.settimeout(WAIT)
            if c.recv(1):
                came.append(2)
            c.close()

    threading.Thread(target=serve, daemon=True).start()
    return path, came


# ---- in the namespace ----

def inside_nothing_is_said_and_nothing_denied():
    stranger = Stranger()
    same(codebox("run", "-c", "out:works"), (0, "works", ""))
    same(starts(), 1)
    same(os.stat(HERE + "/home/.local/state/codebox/run").st_mode & 0o777, 0o700)
    r = subprocess.run([HERE + "/codebox", "mcp"], env={**os.environ, "HOME": HERE + "/home"}, preexec_fn=as_user,
                       input=b"hello\n", capture_output=True, timeout=WAIT * 3)
    same((r.returncode, r.stdout), (0, b"hello\n"))
    same(stranger.leave(), b"")
    # All go by the same rule afterwards, too: one daemon.
    same(codebox("run", "-c", "out:still"), (0, "still", ""))
    same(starts(), 1)
    assert not os.path.exists(SQUAT)


def inside_a_link_leads_nowhere():
    path, came = service_of_the_user()
    stranger = Stranger(lead_to=path)
    for args in [("run", "-c", "out:secret"), ("mcp",), ("session", "ls")]:
        code, out, err = codebox(*args, CODEBOX_RUNTIME_DIR=SQUAT)
        same((code, out), (3, ""))
        contains(err, f"belongs to user {STRANGER}")
    same(stranger.leave(), b"")
    same(came, [])


def inside_a_directory_that_others_can_write():
    """Our own, but open: closed before a socket in it is trusted."""
    os.mkdir(HERE + "/open")
    os.chown(HERE + "/open", USER, USER if os.getuid() == 0 else -1)
    os.chmod(HERE + "/open", 0o777)
    same(codebox("run", "-c", "out:x", CODEBOX_RUNTIME_DIR=HERE + "/open")[:2], (0, "x"))
    same(os.stat(HERE + "/open").st_mode & 0o777, 0o700)


def inside_without_a_stranger():
    same(codebox("run", "-c", "out:x"), (0, "x", ""))
    same(sorted(os.listdir(SQUAT)), ["control.sock", "lock", "mcp.sock"])


# ---- outside ----

def in_namespace(name):
    if not shutil.which("unshare"):
        raise Skip("needs unshare")
    users = [] if os.getuid() == 0 else [f"--map-user={os.getuid()}", f"--map-group={os.getgid()}", "--map-auto",
                                         "--keep-caps"]
    enter = ["unshare", *users, "--mount", "--fork"]
    if subprocess.run([*enter, "true"], capture_output=True).returncode:
        raise Skip("needs root, or subordinate ids (newuidmap and /etc/subuid), to be two users")
    box = Box()
    # Neither a home directory nor a build tree need be open to another user: what is executed is in the box.
    shutil.copy(CODEBOX, box.path("codebox"))
    os.mkdir(box.path("home"))
    os.chmod(box.dir, 0o755)
    if os.getuid() == 0:
        for d, _, files in os.walk(box.dir):
            for f in [d, *(os.path.join(d, f) for f in files)]:
                os.chown(f, USER, USER, follow_symlinks=False)
    env = {k: v for k, v in box.env.items() if not k.startswith(("CODEBOX", "XDG"))}
    env.update(CODEBOX_DAEMON=HERE + "/fake", FAKE_STARTS=HERE + "/starts")
    code = f"import squatted; squatted.private_tmp({box.dir!r}); squatted.{name}()"
    env.update(PYTHONPATH=os.path.dirname(os.path.abspath(__file__)), CODEBOX=CODEBOX)
    r = subprocess.run([*enter, sys.executable, "-c", code], env=env, capture_output=True, text=True,
                       timeout=WAIT * 5)
    assert r.returncode == 0, r.stdout + r.stderr


def test_nothing_is_said_and_nothing_denied():
    in_namespace("inside_nothing_is_said_and_nothing_denied")


def test_a_link_leads_nowhere():
    in_namespace("inside_a_link_leads_nowhere")


def test_a_directory_that_others_can_write():
    in_namespace("inside_a_directory_that_others_can_write")


def test_without_a_stranger():
    in_namespace("inside_without_a_stranger")


if __name__ == "__main__":
    run(globals())
