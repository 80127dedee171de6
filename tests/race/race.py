#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A session renames and links its files while a client lists, reads, writes, copies and removes them. Never a byte from
outside of the session's tree, nothing outside changed, never a hang. CBX_RACE_ROUNDS is how often."""
import atexit
import base64
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, run, wait_until  # noqa: E402
from control import Control, ControlError  # noqa: E402

ROUNDS = int(os.environ.get("CBX_RACE_ROUNDS", "2000"))
SECRET = "the-machines-own-secret"
top = tempfile.mkdtemp(prefix="cbxrace")
atexit.register(shutil.rmtree, top, ignore_errors=True)
box = Box(CODEBOX_POOL="0")
kept = {}

# "turn" is by turns a directory with a file, a link out of the session, a link to a directory that must stay as it is,
# a FIFO, a link to itself, and nothing.
TURNING = """
import os, threading
def turning():
    os.chdir("/workspace")
    while not os.path.exists("/tmp/stop"):
        for what in range(6):
            name = "next%%d" %% what
            try:
                if what == 0:
                    os.mkdir(name); open(name + "/file", "w").write("inside")
                elif what == 1:
                    os.symlink(%r, name)
                elif what == 2:
                    os.symlink("/workspace/keep", name)
                elif what == 3:
                    os.mkfifo(name)
                elif what == 4:
                    os.symlink("turn", name)
                os.rename("turn", "/workspace/old")
            except OSError:
                pass
            try:
                os.rename(name, "turn")
            except OSError:
                pass
            os.system("rm -rf old") if os.path.isdir("old") and not os.path.islink("old") else None
            try:
                os.unlink("old")
            except OSError:
                pass
os.makedirs("/workspace/keep", exist_ok=True)
open("/workspace/keep/file", "w").write("kept")
threads = [threading.Thread(target=turning) for _ in range(2)]
for t in threads:
    t.start()
"""


def control():
    if not kept:
        out = os.path.join(top, "outside")
        os.mkdir(out)
        with open(os.path.join(out, "file"), "w") as f:
            f.write(SECRET)
        os.chmod(top, 0o755)
        kept["c"] = c = Control(box)
        c.sock.settimeout(60)  # bounds a hang
        c.call("session.create", session_id="race", image=box.image("host", "python-minimal", "python"))
        c.call("run", session_id="race", code=TURNING % out)
    return kept["c"]


def attempt(method, **kw):
    """The result, or None where the moment was a bad one."""
    try:
        return control().call(method, session_id="race", **kw)
    except ControlError as e:
        assert e.kind != "session_not_found" and "ended" not in str(e), e
        return None


def nothing_changed():
    out = os.path.join(top, "outside")
    assert os.listdir(out) == ["file"], os.listdir(out)
    with open(os.path.join(out, "file")) as f:
        assert f.read() == SECRET


def read(path):
    got = attempt("file.read", path=path)
    return got and base64.b64decode(got["data"])


def test_reading():
    seen = {read("turn/file") for _ in range(ROUNDS)}
    # On a busy machine few rounds may pass before the session's thread had a turn.
    wait_until(lambda: seen & {b"inside", b"kept"} or seen.add(read("turn/file")))
    assert seen <= {None, b"inside", b"kept", b""}, seen
    assert b"inside" in seen or b"kept" in seen, "it was never there to be read"


def test_listing():
    seen = set()
    for _ in range(ROUNDS):
        got = attempt("file.list", path="turn")
        if got:
            seen.update(e["name"] for e in got["entries"])
        attempt("file.stat", path="turn")
        attempt("file.list", path=".")
    assert seen <= {"file"} | {f"new{i}" for i in range(ROUNDS)}, seen


def test_writing():
    for i in range(ROUNDS):
        attempt("file.write", path="turn/made-by-the-client", data="eA==")
        attempt("file.mkdir", path="turn/made-directory")
    nothing_changed()
    attempt("file.remove", path="keep/made-by-the-client")
    attempt("file.remove", path="keep/made-directory")


def test_removing():
    """A tree that turns into a link while it is removed: what the link leads to stays."""
    for _ in range(ROUNDS):
        attempt("file.remove", path="turn")
        assert read("keep/file") == b"kept", "removal followed a link"
    nothing_changed()


def test_copying_out():
    for i in range(max(ROUNDS // 100, 5)):
        to = os.path.join(top, f"copy{i}")
        box("cp", "-r", "race:turn", to)
        for path, dirs, files in os.walk(to):
            for name in files:
                full = os.path.join(path, name)
                if not os.path.islink(full):
                    with open(full) as f:
                        assert f.read() in ("inside", "kept", "x", ""), full
        if os.path.isfile(to) and not os.path.islink(to):
            with open(to) as f:
                assert SECRET not in f.read()
        shutil.rmtree(to, ignore_errors=True)
        if os.path.lexists(to):
            os.unlink(to)
    nothing_changed()


def test_copying_in():
    tree = os.path.join(top, "tree")
    os.makedirs(os.path.join(tree, "a/b"))
    with open(os.path.join(tree, "a/b/file"), "w") as f:
        f.write("x")
    for _ in range(max(ROUNDS // 100, 5)):
        box("cp", "-r", tree, "race:turn/tree")
    nothing_changed()


def test_the_session_is_as_it_was():
    with Control(box) as c:
        c.call("file.write", session_id="race", path="/tmp/stop", data="")
        r = c.call("run", session_id="race", code="for t in threads:\n    t.join()\nprint('ended')")
        assert "ended" in str(r), r
    nothing_changed()


if __name__ == "__main__":
    run(globals())
