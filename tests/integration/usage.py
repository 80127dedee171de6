#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a cell has used, how limits are enforced, and sessions that ask for control groups. What groups do where they
are delegated is tested in the guest (tests/guest/limits.py)."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, run  # noqa: E402
from control import Control, ControlError  # noqa: E402

box = Box()


def image():
    return box.image("python", "python-minimal", "host")


def cell(c, code):
    r = c.call("run", session_id="u", create=True, image=image(), code=code)
    assert r["status"] == "ok", r
    return r["usage"]


def least(c):
    """The use of a cell that does nothing: the least of some, for what else the machine does is to be seen in it."""
    return min((cell(c, "pass") for _ in range(5)), key=lambda use: use["cpu_ms"])


def test_every_result_has_the_use_of_its_cell():
    with Control(box) as c:
        quiet = cell(c, "pass")
        busy = cell(c, "n = 0\nwhile n < 3000000: n += 1")
        after = least(c)
        source = "cgroup" if box.hello()["facts"]["cgroup"] else "interpreter"
        assert quiet["source"] == busy["source"] == source, busy
        assert busy["cpu_ms"] > 10 * max(1, after["cpu_ms"]), (busy, after)
        grown = cell(c, "x = bytearray(300 << 20)")
        assert grown["memory_peak_bytes"] > 300 << 20, grown


def test_children_count():
    with Control(box) as c:
        use = cell(c, "import subprocess, sys\n"
                   "subprocess.run([sys.executable, '-S', '-c', 'n = 0\\nwhile n < 3000000: n += 1'])")
        after = least(c)
        assert use["cpu_ms"] > 10 * max(1, after["cpu_ms"]), (use, after)


def test_an_interpreter_that_lies_about_its_use():
    """What it says is taken for what it is: a number, or nothing."""
    if box.hello()["facts"]["cgroup"]:
        return
    with Control(box) as c:
        lie = """
import os
for fd in os.listdir('/proc/self/fd'):
    try:
        if os.readlink('/proc/self/fd/' + fd).startswith('pipe:') and int(fd) >= 200:
            import json
            b = json.dumps({"ev": "done", "id": ID, "status": "ok", "count": 1, "usage": {"cpu_us": -1, "peak": "x",
                            "read": 1e300, "written": []}}).encode()
            os.write(int(fd), len(b).to_bytes(4, 'little') + b)
    except OSError:  # the pipe of frames that come is not for writing
        pass
"""
        r = c.call("run", session_id="u", create=True, image=image(), code="pass")
        number = r["execution_id"] + 1
        r = c.call("run", session_id="u", create=True, image=image(), code=lie.replace("ID", str(number)))
        assert r["status"] == "ok" and "usage" not in r, r


def test_a_session_says_how_its_limits_are_enforced():
    box("run", "--session", "i", "--image", image(), "-c", "1", check=True)
    info = box.json("session", "info", "i", "--json")
    limits = info["limits"]
    on = box.hello()["facts"]["cgroup"]
    assert limits["backend"] in (("inherit", "scope") if on else ("none",)), limits
    assert limits["reason"] and limits["enforced_by"] == ("cgroup" if on else "rlimits and a watcher"), limits
    assert info["protections"]["cgroup"] is on, info
    assert info["usage"]["source"] == ("cgroup" if on else "pss") and info["usage"]["memory_bytes"] > 1 << 20, info
    before = info["usage"]["memory_bytes"]
    box("run", "--session", "i", "-c", "more = b'x' * (64 << 20)", check=True)
    with Control(box) as c:
        # A list reads no control groups: it has what was seen last, here at the end of that cell.
        listed = {s["session_id"]: s for s in c.call("session.list")["sessions"]}["i"]["usage"]
        assert not on or (listed["memory_bytes"] > before + (60 << 20) and listed["age_s"] >= 0), listed
        assert on or listed["memory_bytes"] == before, (listed, before)
    assert box.json("session", "info", "i", "--json")["usage"]["memory_bytes"] > before + (60 << 20)


def test_control_groups_can_be_required():
    with Control(box) as c:
        on = box.hello()["facts"]["cgroup"]
        try:
            c.call("session.create", session_id="r", image=image(), cgroup="required")
            assert on, "it was made, though nothing can limit it as a whole"
        except ControlError as e:
            assert not on and e.kind == "no_cgroup", e
            assert "required" in str(e) and box.hello()["cgroup"]["reason"][:40] in str(e), e


def test_processors_that_cannot_be_limited_are_said():
    with Control(box) as c:
        limits = c.call("session.create", session_id="c", image=image(), cpus="1.5")["limits"]
        assert limits["cpus"] == 1.5, limits
        assert limits.get("not_enforced") == (None if box.hello()["cgroup"]["cpus"] else ["cpus"]), limits
        code = "print(open('/proc/cpuinfo').read().count('processor\\t'))"
        shown = c.call("run", session_id="c", code=code)["stdout"]
        assert 1 <= int(shown) <= 2, shown


if __name__ == "__main__":
    run(globals())
