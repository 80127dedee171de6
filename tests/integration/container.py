#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Root of a container that has 65,536 ids, as most have: user 0 of a user namespace that this test makes, as root."""
import ctypes
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import CODEBOX, Box, Skip, run  # noqa: E402

FIRST = 100000  # of its ids, out here
CLONE_NEWUSER, CLONE_NEWNS, MS_BIND = 0x10000000, 0x20000, 0x1000
libc = ctypes.CDLL(None, use_errno=True)


def become_its_root(etc):
    """In the new process, before the program is executed: its own user namespace, and these files in /etc."""
    reads, writes = os.pipe()
    target = os.getpid()
    mapper = os.fork()
    if mapper == 0:
        os.read(reads, 1)
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{target}/{name}", "w") as f:
                f.write(f"0 {FIRST} 65536\n")
        os._exit(0)
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    os.write(writes, b"x")
    os.waitpid(mapper, 0)
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    for path in etc:
        if libc.mount(path.encode(), f"/etc/{os.path.basename(path)}".encode(), None, MS_BIND, None) != 0:
            raise OSError(ctypes.get_errno(), path)


class Container(Box):
    """What that root runs, from copies that it can read; with an account for codebox, or without."""

    def __init__(self, account):
        if os.geteuid() != 0:
            raise Skip("needs root")
        super().__init__()
        for name in ("CODEBOX_LIBEXEC_DIR", "CODEBOX_SHARE_DIR"):
            if name not in os.environ:
                raise Skip("not run by make check")
            self.env[name] = os.path.join(self.dir, name)
            shutil.copytree(os.environ[name], self.env[name])
        for name in ("CODEBOX", "CODEBOX_DAEMON"):
            self.env[name] = os.path.join(self.dir, name)
            shutil.copy(os.environ.get(name, CODEBOX), self.env[name])
        for name in ("CODEBOX_DATA_DIR", "CODEBOX_CONFIG_DIR", "HOME"):
            self.env[name] = os.path.join(self.dir, name)
            os.mkdir(self.env[name])
        self.etc = []
        for name, line in (("passwd", "codebox:x:900:900::/:/usr/sbin/nologin\n"), ("group", "codebox:x:900:\n")):
            with open(f"/etc/{name}") as f:
                text = "".join(old for old in f if not old.startswith("codebox:"))
            self.etc.append(os.path.join(self.dir, name))
            with open(self.etc[-1], "w") as f:
                f.write(text + line * account)
        for top, directories, files in os.walk(self.dir):
            for name in (".", *directories, *files):
                os.chown(os.path.join(top, name), FIRST, FIRST)

    def stop(self):
        if os.path.isdir(self.dir):
            self("stop")
            shutil.rmtree(self.dir, ignore_errors=True)

    def __call__(self, *args):
        return subprocess.run([self.env["CODEBOX"], *args], env=self.env, capture_output=True, text=True, timeout=300,
                              stdin=subprocess.DEVNULL, preexec_fn=lambda: become_its_root(self.etc))

    def finds(self, check):
        r = self("doctor", "--json")
        found = json.loads(r.stdout)
        found = found["checks"] if isinstance(found, dict) else found
        return next(c for c in found if c["name"] == check)


def test_without_an_account_it_says_how_to_make_one():
    box = Container(False)
    r = box("run", "--image", "host", "-c", "1")
    assert r.returncode == 3 and "useradd --system --user-group codebox" in r.stderr, r
    start = box.finds("start")
    assert start["state"] == "failed" and "useradd" in start["remedy"], start
    box.stop()


def test_with_an_account_sandboxes_share_its_id():
    box = Container(True)
    r = box("image", "build", "host")
    assert r.returncode == 0, r
    r = box("run", "--image", "host", "-c", "print(open('/proc/self/uid_map').read())")
    assert r.returncode == 0 and r.stdout.split() == ["1000", "0", "1"], r
    subids = box.finds("subids")
    assert subids["state"] == "degraded" and "few ids" in subids["found"], subids
    box.stop()


if __name__ == "__main__":
    run(globals())
