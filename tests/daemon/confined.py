#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codeboxd and the supervisor are confined themselves: seen in /proc, and in what they say."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, named, run  # noqa: E402

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
    # A sandbox has that one and its own.
    r = box("run", "--session", "s", "-c", "print(open('/proc/self/status').read())", check=True)
    inside = dict(line.split(":\t", 1) for line in r.stdout.splitlines() if ":\t" in line)
    assert inside["Seccomp"] == "2" and inside["Seccomp_filters"] == "2", inside


def test_what_it_needs_it_can_do():
    r = box("run", "--session", "s", "-c", "open('f', 'w').write('1'); import os; os._exit(3)")
    assert r.returncode != 0
    r = box("run", "--session", "s", "-c", "print(open('f').read())", check=True)
    assert r.stdout == "1\n", r.stdout
    box("session", "rm", "s", check=True)


if __name__ == "__main__":
    run(globals())
