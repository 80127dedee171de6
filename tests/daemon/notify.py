#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What codeboxd tells a service manager, by a socket of the test's own: the start, reloads, the end, and that its loop turns."""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, named, run, wait_until  # noqa: E402

DAEMON = os.environ.get("CODEBOX_DAEMON") or shutil.which("codeboxd") or "codeboxd"
PATIENCE = 180


class Manager:
    """The socket, and a codeboxd with its name in the environment."""

    def __init__(self, name, *args, **env):
        self.box = Box(CODEBOX_POOL="0")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.settimeout(PATIENCE)
        self.name = name or os.path.join(self.box.dir, "notify")
        self.socket.bind(self.name.replace("@", "\0"))
        if name is None:
            os.chmod(self.name, 0o777)  # as systemd's
        self.box.env["NOTIFY_SOCKET"] = self.name
        self.process = subprocess.Popen([DAEMON, "--foreground", *args], env={**self.box.env, **env}, stderr=subprocess.PIPE,
                                        stdin=subprocess.DEVNULL, text=True)

    def hear(self, but=None):
        """The next message but those that begin so."""
        while True:
            text = self.socket.recv(4096).decode()
            if not but or not text.startswith(but):
                return text

    def nothing(self):
        self.socket.settimeout(0.5)
        try:
            return self.socket.recv(4096) == b""
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(PATIENCE)


def start_reload_end(name):
    m = Manager(name)
    assert m.hear() == "READY=1\nSTATUS=0 sessions"
    assert m.box.hello()["pid"] == m.process.pid  # whoever connects is served
    m.process.send_signal(signal.SIGHUP)
    assert re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=\d+", m.hear())
    assert m.hear() == "READY=1\nSTATUS=0 sessions"
    # None of its programs has the name of the socket.
    pids = named(m.process.pid, "codebox-supervisor")
    assert pids, "there is no supervisor"
    for pid in pids:
        with open(f"/proc/{pid}/environ", "rb") as f:
            assert b"NOTIFY_SOCKET" not in f.read()
    assert m.nothing()
    m.process.terminate()
    assert m.hear() == "STOPPING=1"
    assert m.process.wait(PATIENCE) == 0


def test_a_path():
    start_reload_end(None)


def test_an_abstract_name():
    start_reload_end(f"@codebox-test-{os.getpid()}")


def test_the_watchdog():
    m = Manager(None, WATCHDOG_USEC="200000")
    assert m.hear(but="WATCHDOG=1").startswith("READY=1")
    for _ in range(3):
        assert m.hear() == "WATCHDOG=1\nSTATUS=0 sessions"
    # A loop that does not turn says nothing.
    m.process.send_signal(signal.SIGSTOP)
    assert wait_until(m.nothing)
    m.process.send_signal(signal.SIGCONT)
    assert m.hear() == "WATCHDOG=1\nSTATUS=0 sessions"
    m.process.terminate()
    assert m.hear(but="WATCHDOG=1") == "STOPPING=1"
    assert m.process.wait(PATIENCE) == 0


def test_a_watchdog_of_another_process():
    m = Manager(None, WATCHDOG_USEC="200000", WATCHDOG_PID=str(os.getpid()))
    assert m.hear().startswith("READY=1")
    assert m.nothing()
    m.process.terminate()
    assert m.hear() == "STOPPING=1"
    assert m.process.wait(PATIENCE) == 0


def test_a_start_that_fails():
    m = Manager(None, "--audit", "/nonexistent/audit")
    assert m.hear().startswith("STATUS=cannot start: --audit: open /nonexistent/audit")
    assert m.process.wait(PATIENCE) == 1


def test_a_name_that_leads_nowhere():
    box = Box(CODEBOX_POOL="0", NOTIFY_SOCKET="/nonexistent/notify")
    p = subprocess.Popen([DAEMON, "--foreground"], env=box.env, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    assert "NOTIFY_SOCKET: connect to /nonexistent/notify" in p.stderr.readline()
    for line in p.stderr:
        if " serves " in line:
            break
    p.terminate()
    assert p.wait(PATIENCE) == 0


def test_one_that_a_command_starts():
    """The service is another one's then."""
    m = Manager(None)
    assert m.hear().startswith("READY=1")
    m.process.terminate()
    assert m.hear() == "STOPPING=1" and m.process.wait(PATIENCE) == 0
    m.box("run", "--image", "none-such", "-c", "1")
    assert m.box.hello()["pid"] != m.process.pid
    assert m.nothing()


if __name__ == "__main__":
    run(globals())
