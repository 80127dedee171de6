#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""While one session computes and another is used, each has processors of its own (src/supervisor/lanes.h)."""
import contextlib
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, Skip, children, run, wait_until  # noqa: E402
from control import Control  # noqa: E402

ALL = os.sched_getaffinity(0)
# Threads, and processes that are made before and after their parent was put elsewhere.
COMPUTE = """
import os, threading, time
def spin():
    while True: pass
threading.Thread(target=spin, daemon=True).start()
if os.fork() == 0: spin()
end = time.monotonic() + 1800
while time.monotonic() < end:
    if os.fork() == 0:
        time.sleep(0.2)
        os._exit(0)
    os.wait()
"""
# A process every twentieth of a second, for which nobody waits: a look at the processes does not see what they have used.
UNSEEN = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
end = time.monotonic() + 1800
while time.monotonic() < end:
    if os.fork() == 0:
        end = time.monotonic() + 0.05
        while time.monotonic() < end: pass
        os._exit(0)
    try:
        os.wait()
    except ChildProcessError:
        pass
"""
BUSY = 900  # seconds; where others take the processors, too, dividing them helps nobody, and does not happen
box = Box()


def processes(session_id):
    """Those of a session, by a file that it has."""
    found = []
    for pid in children(box.daemon_pid()):
        try:
            with open(f"/proc/{pid}/root/workspace/whose") as f:
                if f.read() == session_id:
                    found.append(pid)
        except OSError:
            pass
    return found


def processors(session_id):
    """The processors of each thread of a session, as a set of sets; of a thread that ends meanwhile nothing is said."""
    found = set()
    for pid in processes(session_id):
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                found.add(frozenset(os.sched_getaffinity(int(thread))))
        except OSError:
            pass
    return found


def create(c, name, **wanted):
    if len(ALL) < 2:
        raise Skip("there is one processor")
    info = c.call("session.create", session_id=name, image=box.image("host", "python-minimal", "python"), **wanted)
    c.call("run", session_id=name, code=f"open('whose', 'w').write('{name}')")
    return info


@contextlib.contextmanager
def one_used_and_one_computing():
    """A connection for each of them; neither their sessions nor others are left, whatever happens."""
    try:
        with Control(box) as used, Control(box) as computing:
            create(used, "used")
            create(computing, "computing")
            yield used, computing
    finally:
        for name in ("used", "computing", "new", "free"):
            box("session", "rm", name)


def use(c):
    """Use the session "used"; not so often that it computes, on whatever machine."""
    time.sleep(0.3)
    return c.call("run", session_id="used", code="1 + 1")


def divided(c):
    """The session "used" is used, and it and "computing" have processors of their own."""
    use(c)
    both = [processors("used"), processors("computing")]
    if any(len(sets) != 1 for sets in both):
        return False
    (a,), (b,) = both
    return not a & b and a | b == ALL


def test_one_that_computes_alone_has_all():
    with Control(box) as c:
        create(c, "alone")
        c.send("run", session_id="alone", code=COMPUTE, timeout=1800)
        end = time.monotonic() + 3
        while time.monotonic() < end:
            assert processors("alone") <= {frozenset(ALL)}, processors("alone")
            time.sleep(0.1)
    box("session", "rm", "alone", check=True)


def test_processors_are_divided_while_it_helps():
    with one_used_and_one_computing() as (used, computing):
        create(used, "free", profile="dev")
        own = {max(ALL)}
        used.call("run", session_id="free", code=f"import os\nos.sched_setaffinity(0, {own})")
        computing.send("run", session_id="computing", code=COMPUTE, timeout=1800)
        # Its init, its interpreter, and the processes that this makes, which may come later than the division.
        assert wait_until(lambda: len(processes("computing")) >= 3), processes("computing")
        assert wait_until(lambda: divided(used), BUSY), (processors("used"), processors("computing"))
        # A session is not to help itself to other processors, and one that comes is not to be in the other lane.
        r = used.call("run", session_id="used", code=f"import os\nos.sched_setaffinity(0, {ALL})")
        assert r["status"] == "ok" and divided(used), (r, processors("used"), processors("computing"))
        assert frozenset(own) in processors("free")
        create(used, "new")
        assert wait_until(lambda: use(used) and processors("new") == processors("used")), processors("new")
        used.call("session.close", session_id="computing")
        assert wait_until(lambda: processors("used") == {frozenset(ALL)} == processors("new")), processors("used")
        assert frozenset(own) in processors("free"), "what a session of the profile dev chose was changed"


def test_they_are_one_again_when_the_computing_is_over():
    with one_used_and_one_computing() as (used, computing):
        number = computing.send("run", session_id="computing", code="while True: pass", timeout=1800)
        assert wait_until(lambda: divided(used), BUSY), (processors("used"), processors("computing"))
        used.call("interrupt", session_id="computing")
        while computing.recv().get("id") != number:
            pass
        assert wait_until(lambda: use(used) and processors("used") == {frozenset(ALL)} == processors("computing")), \
            processors("computing")


def test_control_groups_tell_of_processes_for_which_nobody_waits():
    with one_used_and_one_computing() as (used, computing):
        if used.call("session.info", session_id="computing")["limits"]["enforced_by"] != "cgroup":
            raise Skip("there are no control groups")
        computing.send("run", session_id="computing", code=UNSEEN, timeout=1800)
        assert wait_until(lambda: divided(used), BUSY), (processors("used"), processors("computing"))


if __name__ == "__main__":
    run(globals())
