#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ceilings of limits.h that it takes a real session to hit, and that no other test comes to."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, run, wait_until  # noqa: E402
from control import Control  # noqa: E402

box = Box(CODEBOX_POOL="0")
image = box.image("python", "python-minimal", "host")


def cell(c, sid, code):
    r = c.call("run", session_id=sid, code=code)
    assert r["status"] == "ok", r
    return r


def test_more_changed_files_than_are_listed():
    with Control(box) as c:
        sid = c.call("session.create", image=image)["session_id"]
        r = cell(c, sid, "for i in range(250): open(f'f{i:03}', 'w').close()")
        assert len(r["files"]) == 200 and r["files_omitted"] == 50, (len(r["files"]), r.get("files_omitted"))
        r = cell(c, sid, "open('g', 'w').close()")
        assert [f["path"] for f in r["files"]] == ["g"] and not r.get("files_omitted"), r


def test_files_of_quick_cells():
    """Files are stamped with a clock of some milliseconds, in which cells and clients change many."""
    with Control(box) as c:
        sid = c.call("session.create", image=image)["session_id"]
        for i in range(50):
            c.call("file.write", session_id=sid, path=f"c{i}", data="eA==", truncate=True)
            for kind in "ab":
                r = cell(c, sid, f"open('{kind}{i}', 'w').close()")
                assert [f["path"] for f in r["files"]] == [f"{kind}{i}"], (i, r)


def many(c, code):
    """The files that a cell changed, beside all that code makes; and whether it is said that not all were looked at."""
    sid = c.call("session.create", image=image)["session_id"]
    cell(c, sid, "import os, time\n" + code)
    r = cell(c, sid, "open('changed', 'w').close()")
    c.call("session.close", session_id=sid)
    return [f["path"] for f in r["files"]], "Not all files" in r.get("message", "")


def test_more_files_than_are_looked_at():
    with Control(box) as c:
        assert many(c, "for i in range(21000): open(f'f{i}', 'w').close()")[1]
        # A path that is too long, and more directories than wait.
        assert many(c, "for i in range(6): os.mkdir('d' * 200); os.chdir('d' * 200)\nos.chdir('/workspace')")[1]
        assert many(c, "for i in range(1200):\n    os.mkdir(f'{i:0250}')\n    os.mkdir(f'{i:0250}/x')")[1]
        assert many(c, "for i in range(100):\n    os.mkdir(f'{i:0250}')") == (["changed"], False)


def test_more_kinds_of_sessions_than_are_made_ahead():
    b = Box(CODEBOX_POOL="4")
    with Control(b) as c:
        def ask(memory):
            """Whether such a session was there already."""
            before = b.hello()["pool"]["taken"]
            c.call("session.close", session_id=c.call("session.create", image=image, memory=memory)["session_id"])
            assert wait_until(lambda: b.hello()["pool"]["ready"] and not b.hello()["pool"]["starting"])
            return b.hello()["pool"]["taken"] > before
        ask("201M")
        assert ask("201M")
        for memory in ("202M", "203M", "204M"):
            ask(memory)
        assert not ask("201M"), "a fourth kind does not replace the first"
    b.stop()


if __name__ == "__main__":
    run(globals())
