#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tests' own harness: a test that fails, or is killed, leaves no session to the next one, and at the end of its
program no process and no directory."""
import os
import subprocess
import sys
import tempfile

LIB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib")
sys.path.insert(0, LIB)
from cbxtest import Box, run  # noqa: E402

PROGRAM = """
import os, signal, subprocess, sys
sys.path.insert(0, sys.argv[1])
from cbxtest import Box, run
box = Box()
def test_that_fails():
    box.image("python", "host")
    box("run", "--session", "mine", "-c", "pass", check=True)
    assert box.sessions() == {"mine"}
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    print("# daemon", box.daemon_pid(), flush=True)
    assert False, "on purpose"
def test_after_it():
    assert box.daemon_pid() and box.sessions() == set(), box.sessions()
if sys.argv[2] == "killed":
    def test_dies():
        box("run", "--session", "mine", "-c", "pass", check=True)
        os.kill(os.getpid(), signal.SIGKILL)
run(globals())
"""


def whose(text):
    """Processes with that text in their environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f, open(f"/proc/{pid}/comm") as comm:
                if text.encode() in f.read():
                    found.append((pid, comm.read().strip()))
        except OSError:
            pass
    return found


def program(how, status, *lines):
    Box().image("python", "host")
    with tempfile.TemporaryDirectory(prefix="cbx", dir="/tmp") as top:
        os.chmod(top, 0o755)
        r = subprocess.run([sys.executable, "-c", PROGRAM, LIB, how], env=dict(os.environ, TMPDIR=top), text=True,
                           capture_output=True, timeout=300)
        assert r.returncode == status, (r.returncode, r.stdout, r.stderr)
        for line in lines:
            assert line in r.stdout, (line, r.stdout, r.stderr)
        pid = r.stdout.partition("# daemon ")[2].split()[0]
        assert not os.path.exists(f"/proc/{pid}"), "the daemon is there"
        assert whose(f"TMPDIR={top}") == [], whose(f"TMPDIR={top}")
        assert os.listdir(top) == [], os.listdir(top)


def test_a_failed_test_leaves_nothing():
    program("failed", 1, "AssertionError: on purpose", "ok 2 - after it\n")


def test_a_killed_program_leaves_nothing():
    program("killed", 137, "AssertionError: on purpose", "ok 2 - after it\n")


if __name__ == "__main__":
    run(globals())
