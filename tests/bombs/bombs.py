#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One session does its worst, another keeps running: each bomb ends or is bounded, the answer names what stopped it, and the
neighbour's cells are answered while it burns and afterwards."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, Skip, children, run, wait_until  # noqa: E402
from control import Control  # noqa: E402
from tracing import Strace, supervisor  # noqa: E402

box = Box()
image = None


def neighbour():
    global image
    if image is None:
        image = box.image("host", "python-minimal", "python")
        box("run", "--session", "n", "--image", image, "-c", "x = 41", check=True)
    r = box("run", "--session", "n", "-c", "print(x + 1)")
    assert r.stdout == "42\n", (r.stdout, r.stderr)


def bomb(code, timeout=60, **limits):
    """Run it in a session of its own; the neighbour is asked while it burns, and afterwards."""
    neighbour()
    with Control(box) as c:
        c.call("session.create", session_id="bomb", image=image, **limits)
    p = box.popen("run", "--session", "bomb", "--json", "--timeout", str(timeout), "-c", code,
                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(3):
            neighbour()
        out, err = p.communicate(timeout=300)
    finally:
        p.kill()
        p.wait()
    neighbour()
    box("session", "rm", "bomb", timeout=200)
    assert wait_until(lambda: all(s["session_id"] != "bomb" for s in box.json("session", "ls", "--json")["sessions"]))
    try:
        return json.loads(out)
    except ValueError:
        raise AssertionError(f"no JSON: {out[-500:]} {err[-500:]}")


def said(r):
    return r.get("message") or ""


def test_forks():
    r = bomb("import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass", 5, processes=100)
    assert r["status"] in ("timeout", "killed"), r
    r = bomb("import os, time\nfor i in range(500):\n    if os.fork() == 0:\n        time.sleep(60)\n"
             "        os._exit(0)",
             processes=100)
    assert r["status"] == "error" and "limit" in said(r) and "100" in said(r), r
    assert wait_until(lambda: len(children(box.daemon_pid())) < 40)


def test_threads():
    r = bomb("import threading, time\nfor i in range(500): "
             "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
             processes=60)
    assert r["status"] == "error" and "60" in said(r), r


def test_memory():
    r = bomb("b = []\nwhile True: b.append(bytearray(1 << 20))", memory="128M")
    assert r["status"] in ("error", "killed") and "memory limit" in said(r) and "128" in said(r), r
    grow = "import os, time\nfor i in range(20):\n    if os.fork() == 0:\n        b = bytearray(60 << 20)\n" \
           "        for j in range(0, len(b), 4096): b[j] = 1\n        time.sleep(60)\nos.wait()\nraise SystemExit(5)"
    r = bomb(grow, memory="128M")
    assert "memory limit" in said(r) and "128" in said(r), r


# A child that holds 40 MiB, and then ends itself. Each is below what a process may have.
CHILD = "import ctypes, os, threading, time\ndef grow():\n    time.sleep(0.5)\n    b = b'x' * (40 << 20)\n" \
        "    time.sleep(60)\n    os._exit(0)\n"


def test_what_is_killed_for_memory_is_no_mere_number():
    """Between the look and the kill its number may have become that of a process of another sandbox."""
    neighbour()
    with Strace(box, [supervisor(box)], "-e", "trace=kill,tgkill,pidfd_send_signal") as s:
        r = bomb("import mmap, os, time\nfor i in range(4):\n    if os.fork() == 0:\n"
                 "        b = bytearray(os.urandom(1 << 20)) * 60\n        time.sleep(60)\n        os._exit(0)\n"
                 "os.wait()", memory=128 << 20)
        calls = s.calls()
    assert "memory" in said(r), r
    assert any("SIGKILL" in call for _, call in calls), calls
    assert not any(call.startswith(("kill(", "tgkill(")) for _, call in calls), calls


def test_memory_of_children_of_a_thread():
    """A process is a child of the thread that forked it."""
    r = bomb(CHILD + "def fork():\n    for i in range(8):\n        if os.fork() == 0: grow()\n    os.wait()\n"
             "t = threading.Thread(target=fork)\nt.start()\nt.join()", memory="128M")
    assert "memory limit" in said(r) and "128" in said(r), r


def test_memory_of_processes_without_their_first_thread():
    if os.uname().machine != "x86_64":
        raise Skip("another number of exit(2)")
    r = bomb(CHILD + "for i in range(8):\n    if os.fork() == 0:\n        threading.Thread(target=grow).start()\n"
             "        ctypes.CDLL(None).syscall(60, 0)\nos.wait()", memory="128M")
    assert "memory limit" in said(r) and "128" in said(r), r


def test_shared():
    """What processes share counts once, and as each one's own from when it is written to: no process grows by that."""
    r = bomb("import os, time\nb = bytearray(os.urandom(1 << 20)) * 50\nfor i in range(6):\n    if os.fork() == 0:\n"
             "        time.sleep(1.5)\n        for j in range(0, len(b), 4096): b[j] = 1\n        time.sleep(60)\n"
             "time.sleep(1)\nprint('shared', flush=True)\nos.wait()", memory="128M")
    assert "memory limit" in said(r) and "128" in said(r), r
    assert r["stdout"] == "shared\n", r


def test_disk():
    r = bomb("f = open('big', 'wb')\nwhile True:\n    f.write(bytes(1 << 20))\n    f.flush()", disk="16M")
    assert r["status"] == "error" and "disk" in said(r) and "16" in said(r), r


def test_inodes():
    r = bomb("i = 0\nwhile True:\n    open(str(i), 'w').close()\n    i += 1", disk="16M")
    assert r["status"] == "error" and "1,024 files" in said(r), r


def test_descriptors():
    r = bomb("import os\nwhile True: os.dup(0)")
    assert r["status"] == "error" and "files open" in said(r), r


def test_processor():
    r = bomb("import os\nfor i in range(3):\n    if os.fork() == 0: break\nwhile True: pass", 5)
    assert r["status"] in ("timeout", "killed") and "time limit" in said(r), r


def test_output():
    r = bomb("import subprocess\nsubprocess.run(['yes'])", 5)
    assert r["status"] == "timeout" and r["omitted"]["bytes"] > 1 << 20, {**r, "stdout": "", "output": ""}
    assert len(r["output"]) < 1 << 19, len(r["output"])


if __name__ == "__main__":
    run(globals())
