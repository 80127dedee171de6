# SPDX-License-Identifier: Apache-2.0
"""What the tests of the codebox command share: a fake daemon (fake_codeboxd.py) in a run-time directory of its own.

CODEBOX is the built program (default: codebox in PATH); codebox-repl is looked for in CODEBOX_LIBEXEC_DIR and beside
the program.
"""
import atexit
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lib"))
from cbxtest import Skip, run, wait_until  # noqa: E402,F401

HERE = os.path.dirname(os.path.abspath(__file__))
CODEBOX = os.path.abspath(shutil.which(os.environ.get("CODEBOX", "codebox")) or "/nonexistent")
FAKE = os.path.join(HERE, "fake_codeboxd.py")
WAIT = 60  # seconds that only bound a failing test


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
        # The fake is started through a copy, so that a source tree may be on a read-only or odd file system.
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
            pid = int(line.split()[0])
            try:
                with open(f"/proc/{pid}/cmdline", encoding="utf-8") as f:  # the number may be another's by now
                    ours = self.path("fake") in f.read()
                if ours:
                    os.kill(pid, signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError):
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


def read(path):
    with open(path, "rb") as f:
        return f.read()


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
