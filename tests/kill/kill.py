#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGKILL to codeboxd, or to the supervisor, at random moments under load: cells run and print, sessions are being
made, files are on their way. Afterwards no process, mount, control group or file of it is left, and the next command
works. Rounds for each: CBX_KILL_ROUNDS (default 5)."""
import glob
import os
import random
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, children, command, identity, named, run, wait_until  # noqa: E402

ROUNDS = int(os.environ.get("CBX_KILL_ROUNDS", "5"))
box = Box()
payload = None
strangers = set(map(int, filter(str.isdigit, os.listdir("/proc"))))
SLEEPER = str(1000000 + os.getpid())  # nobody else's
SPREAD = "import subprocess, os, time\nfor i in range(3):\n" \
         f"    subprocess.Popen(['sleep', '{SLEEPER}'], start_new_session=True)\n"


def state(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0]
    except OSError:
        return None


def alive(who):
    # A zombie holds nothing but its number, until whoever adopted it looks.
    return identity(who[0]) == who and state(who[0]) not in ("Z", "X")


def mounts():
    with open("/proc/self/mountinfo") as f:
        return f.read()


def supervisor_of(daemon):
    return next(iter(named(daemon, "codebox-supervisor")), None)


def start(*args):
    return box.popen(*args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def one_round(image, victim):
    codes = [SPREAD + "time.sleep(600)", SPREAD + "while True: print('x' * 1000)",
             "import os, time\nwhile True:\n    open('f', 'wb').write(os.urandom(1 << 16)); time.sleep(0.001)"]
    clients = [start("run", "--session", f"k{i}", "--image", image, "-c", code) for i, code in enumerate(codes)]
    others = []  # what they find depends on the moment, and one that comes too late starts a codeboxd of its own, too
    try:
        # One that has not yet asked for its session would start a codeboxd of its own, and go on there.
        assert wait_until(lambda: (box.hello() or {}).get("sessions") == len(clients)), box.hello()
        daemon = box.daemon_pid()
        time.sleep(random.random() * 0.4)
        others.append(start("cp", payload, "k2:in"))
        others += [start("run", "--image", image, "-c", "print(1)") for _ in range(2)]
        others.append(start("cp", "k2:f", os.path.join(box.dir, "out")))
        time.sleep(random.random() * 0.4)
        target = daemon if victim == "codeboxd" else supervisor_of(daemon)
        if target is None:
            target = daemon  # not started yet: that too is a moment
        family = [identity(daemon)] + [identity(p) for p in children(daemon)]
        os.kill(target, signal.SIGKILL)
        # What was born between the look and the kill belongs to the family of those we know.
        family = [f for f in family if f]
        assert wait_until(lambda: not any(alive(f) for f in family)), [f for f in family if alive(f)]
        for c in clients:
            assert c.wait(120) != 0
        for c in others:
            c.wait(120)
        box("stop")
    finally:
        for c in clients + others:
            c.kill()
            c.wait()


def leftovers(before_mounts, before_tmp, box=box):
    assert mounts() == before_mounts
    # A directory whose name ends in a user's number is that of a codeboxd that was not told of another place.
    new = {f for f in set(os.listdir("/tmp")) - before_tmp if re.match(r"codebox(?!-\d+$)", f)}
    assert not new, new
    # Of its own directories: a socket that nobody listens to does not keep the next one from starting.
    files = {os.path.relpath(os.path.join(d, n), box.dir) for d, _, names in os.walk(box.dir) for n in names}
    known = {"payload", "out", "run/lock", "run/control.sock", "run/mcp.sock", "state/codeboxd.log",
             "state/codeboxd.log.1", "strace"}
    assert files <= known, files - known
    assert not groups(), groups()
    # Those of another test that ends at this moment have nobody either, for as long as it takes them to end.
    left = [identity(p) for p in map(int, filter(str.isdigit, os.listdir("/proc"))) if belongs(p)]
    assert wait_until(lambda: not any(who and alive(who) for who in left)), left


def groups():
    """Control groups of sessions, beside our own group or below."""
    with open("/proc/self/cgroup") as f:
        paths = [line.rstrip("\n").split(":", 2)[2] for line in f if line.startswith("0::")]
    return [g for p in paths for at in (p, os.path.dirname(p)) for g in glob.glob(f"/sys/fs/cgroup{at}/sessions/*/session-*")]


def adopted_by_another_daemon(pid):
    """Ours is dead; another's children do not concern this test."""
    while pid > 1:
        if command(pid) == "codeboxd":
            return True
        try:
            with open(f"/proc/{pid}/stat") as f:
                pid = int(f.read().rpartition(")")[2].split()[1])
        except OSError:
            return True
    return False


def belongs(pid):
    """One of our programs, or a sleeper that a cell left, and nobody's child."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            sleeper = f.read() == f"sleep\0{SLEEPER}\0".encode()
    except OSError:
        return False
    ours = sleeper or command(pid) in ("codebox-init", "codebox-supervi")
    return ours and pid not in strangers and state(pid) not in (None, "Z") and not adopted_by_another_daemon(pid)


def hammer(victim):
    global payload
    image = box.image("host", "python-minimal", "python")
    payload = os.path.join(box.dir, "payload")
    with open(payload, "wb") as f:
        f.write(os.urandom(16 << 20))
    before, tmp = mounts(), set(os.listdir("/tmp"))
    for n in range(ROUNDS):
        one_round(image, victim)
        leftovers(before, tmp)
    r = box("run", "--image", image, "-c", "print(6 * 7)")
    assert r.stdout == "42\n", (r.stdout, r.stderr)


def test_killing_codeboxd_leaves_nothing():
    hammer("codeboxd")


def test_killing_the_supervisor_leaves_nothing():
    hammer("supervisor")


def test_killing_init_ends_that_session_only():
    box = Box(CODEBOX_POOL="0")  # each init is a session's
    image = box.image("host", "python-minimal", "python")
    for s in ("a", "b"):
        box("run", "--session", s, "--image", image, "-c", "import os; x = 1", check=True)
    daemon = box.daemon_pid()
    inits = named(daemon, "codebox-init")
    assert len(inits) == 2, inits
    os.kill(min(inits), signal.SIGKILL)
    results = []
    assert wait_until(lambda: len(box.json("session", "ls", "--json")["sessions"]) == 1)
    for s in ("a", "b"):
        results.append(box("run", "--session", s, "-c", "print(x)").stdout.strip())
    assert "1" in results, results


if __name__ == "__main__":
    run(globals())
