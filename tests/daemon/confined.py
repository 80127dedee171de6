#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codeboxd and the supervisor are confined themselves: seen in /proc, and in what they say."""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, Skip, named, run  # noqa: E402
from tracing import supervisor  # noqa: E402

box = Box(CODEBOX_POOL="0")  # no other child of the supervisor is on its way to be an init


def status(pid):
    with open(f"/proc/{pid}/status") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def test_codeboxd():
    image = box.image("host", "python-minimal", "python")
    box("run", "--session", "s", "--image", image, "-c", "x = 1", check=True)
    hello = box.hello()
    s = status(hello["pid"])
    assert s["Seccomp"] == "2" and s["NoNewPrivs"] == "1", s
    assert all(int(s[f"Cap{c}"], 16) == 0 for c in ("Inh", "Prm", "Eff", "Amb")), s
    assert hello["confinement"]["seccomp_rules"] > 50, hello
    with open(f"/proc/{hello['pid']}/limits") as f:
        soft, hard = next(line.split()[3:5] for line in f if line.startswith("Max open files"))
    assert int(soft) >= min(16384, int(hard)), (soft, hard)
    # What the kernel can do is done.
    assert hello["confinement"]["landlock_abi"] == hello["facts"]["landlock_abi"], hello


def test_the_supervisor():
    pids = named(box.daemon_pid(), "codebox-supervisor")
    assert pids, "there is no supervisor"
    for pid in pids:
        s = status(pid)
        assert s["Seccomp"] == "2" and s["NoNewPrivs"] == "1", s
        assert s["Seccomp_filters"] == "1", s
    # Its capabilities are those of a user namespace of its own, in which the machine's files belong to nobody.
    with open("/proc/self/uid_map") as ours, open(f"/proc/{supervisor(box)}/uid_map") as theirs:
        assert ours.read().split() != theirs.read().split(), "it is in the machine's user namespace"
    # A sandbox has that one and its own.
    r = box("run", "--session", "s", "-c", "print(open('/proc/self/status').read())", check=True)
    inside = dict(line.split(":\t", 1) for line in r.stdout.splitlines() if ":\t" in line)
    assert inside["Seccomp"] == "2" and inside["Seccomp_filters"] == "2", inside


def share_with_a_bad(name):
    share = os.path.join(box.dir, "share of " + name)
    shutil.copytree(os.environ["CODEBOX_SHARE_DIR"], share)
    with open(os.path.join(share, "syscalls", name), "a") as f:
        f.write("\nno_such_call\n")
    return share


def refuses_to_start(why, *before, **env):
    own = Box(CODEBOX_POOL="0", **env)
    try:
        r = subprocess.run([*before, os.environ["CODEBOX_DAEMON"], "--foreground"], env=own.env, capture_output=True, text=True,
                           stdin=subprocess.DEVNULL, timeout=60)
        assert r.returncode and "confine codeboxd itself: " in r.stderr and why in r.stderr, (why, r.returncode, r.stderr[-2000:])
        assert own.hello() is None, why
    finally:
        own.stop()


def test_a_protection_that_cannot_be_had_is_a_reason_not_to_start():
    """Although the kernel offers it: a list cannot be read, or the kernel answers with an error."""
    refuses_to_start("no_such_call", CODEBOX_SHARE_DIR=share_with_a_bad("codeboxd"))
    # Without its own filter, or a profile's, the supervisor does not start: codeboxd is there to say why, and nothing runs.
    for name in ("supervisor", "strict"):
        own = Box(CODEBOX_POOL="0", CODEBOX_SHARE_DIR=share_with_a_bad(name))
        r = own("run", "--image", own.image("host", "python-minimal", "python"), "-c", "print('runs')")
        assert r.returncode and not r.stdout, (name, r)
        # Below a directory of root's alone, whoever root's codeboxd has become names what it cannot look at first.
        assert "no_such_call" in r.stderr or os.geteuid() == 0 and "Permission denied" in r.stderr, (name, r)
        assert not named(own.daemon_pid(), "codebox-init"), name
        own.stop()
    if not shutil.which("strace"):
        raise Skip("there is no strace")
    calls = ["seccomp"] + ["landlock_restrict_self"] * bool(box.hello()["facts"]["landlock_abi"])
    for name in calls:
        refuses_to_start("Operation not permitted", "strace", "-o", os.path.join(box.dir, "log"), "-e", f"trace={name}", "-e",
                         f"inject={name}:error=EPERM")


def test_what_it_needs_it_can_do():
    r = box("run", "--session", "s", "-c", "open('f', 'w').write('1'); import os; os._exit(3)")
    assert r.returncode != 0
    r = box("run", "--session", "s", "-c", "print(open('f').read())", check=True)
    assert r.stdout == "1\n", r.stdout
    box("session", "rm", "s", check=True)


if __name__ == "__main__":
    run(globals())
