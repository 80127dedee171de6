#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many cells in one session, and many sessions one after another, leave codeboxd and the supervisor as they were.
CBX_CELLS (default 10000) and CBX_SESSIONS (default 200; `make soak` does 1000).

What is counted must not change by itself, so the pool of ready sessions is off, but for the test that is about it."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, children, named, run, sandboxes, wait_until  # noqa: E402
from control import Control  # noqa: E402

CELLS = int(os.environ.get("CBX_CELLS", "10000"))
SESSIONS = int(os.environ.get("CBX_SESSIONS", "200"))
SLACK_KIB = int(os.environ.get("CBX_SLACK_KIB", "2048"))
box = Box(CODEBOX_POOL="0")
box.env["CODEBOX_POLICY"] = os.path.join(box.dir, "policy.json")
with open(box.env["CODEBOX_POLICY"], "w") as f:  # what is kept for an export is full after a few cells
    f.write('{"include": ["default"], "limits": {"history": "16K"}}')


def field(pid, name):
    with open(f"/proc/{pid}/status") as f:
        for line in f:
            if line.startswith(name + ":"):
                return int(line.split()[1])
    return 0


def descriptors(box, family):
    """codeboxd's own count (it is not dumpable, so nobody else may look), and the supervisor's."""
    return [box.hello()["descriptors"]] + [len(os.listdir(f"/proc/{p}/fd")) for p in family[1:]]


def look(box=box):
    daemon = box.daemon_pid()
    family = [daemon] + named(daemon, "codebox-supervisor")
    return {
        "fds": descriptors(box, family),
        "processes": len(children(daemon)),
        "rss": sum(field(p, "VmRSS") for p in family),
        "cgroup": open(f"/proc/{daemon}/cgroup").read(),
    }


def same(before, box=box):
    """What is on its way out may take a moment; what leaks stays."""
    def holds(after):
        return (all(a <= b for a, b in zip(after["fds"], before["fds"])) and
                after["processes"] == before["processes"] and after["rss"] - before["rss"] < SLACK_KIB)

    wait_until(lambda: holds(look(box)))
    after = look(box)
    assert all(a <= b for a, b in zip(after["fds"], before["fds"])), (before, after)
    assert after["processes"] == before["processes"], (before, after)
    assert after["cgroup"] == before["cgroup"], (before, after)
    assert after["rss"] - before["rss"] < SLACK_KIB, (before, after)


def test_many_cells_in_one_session():
    image = box.image("python-minimal", "host", "python")
    box("run", "--session", "cells", "--image", image, "-c", "n = 0", check=True)
    with Control(box) as c:
        for _ in range(500):  # past the first growth of every buffer
            c.call("run", session_id="cells", code="n += 1; print(n)")
        before = look()
        for _ in range(CELLS):
            r = c.call("run", session_id="cells", code="n += 1; print(n)")
        assert r["stdout"] == f"{CELLS + 500}\n", r
        same(before)
        c.call("session.close", session_id="cells")


def sessions_one_after_another(box, n):
    image = box.image("python-minimal", "host", "python")

    def at_rest():
        """Only the supervisor is left, and nothing of the pool is on its way: so it stays for longer than that waits."""
        def alone():
            return len(sandboxes(box.daemon_pid())) <= 1

        def for_long():
            return alone() and not wait_until(lambda: not alone(), 2)

        return wait_until(for_long)

    with Control(box) as c:
        def one():
            s = c.call("session.create", image=image)["session_id"]
            assert c.call("run", session_id=s, code="print(6 * 7)")["stdout"] == "42\n"
            c.call("session.close", session_id=s)

        for _ in range(20):
            one()
        assert at_rest(), children(box.daemon_pid())
        before = look(box)
        for _ in range(n):
            one()
        assert at_rest(), children(box.daemon_pid())
        same(before, box)


def test_many_sessions_one_after_another():
    sessions_one_after_another(box, SESSIONS)


def test_the_pool_leaves_nothing():
    b = Box(CODEBOX_POOL_IDLE="3")
    sessions_one_after_another(b, SESSIONS // 4)
    assert b.hello()["pool"]["taken"] > 0, b.hello()


if __name__ == "__main__":
    run(globals())
