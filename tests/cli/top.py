#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codebox top: for scripts, and on a terminal that changes its size."""
import fcntl
import json
import os
import struct
import sys
import termios

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import CODEBOX, Box, run  # noqa: E402
from terminal import Terminal  # noqa: E402

box = Box(LC_ALL="C.UTF-8")


def sessions():
    image = box.image("python", "python-minimal", "host")
    for name in ("alpha", "beta"):
        if name not in box.sessions():
            box("run", "--session", name, "--image", image, "-c", "x = 1", check=True)


def test_for_scripts():
    sessions()
    busy = box.popen("run", "--session", "beta", "--timeout", "300s", "-c", "while True: pass")
    try:
        lines = [json.loads(line) for line in box("top", "--json", "-n", "3", "-d", "1", check=True).stdout.splitlines()]
        assert len(lines) == 3, lines
        by_name = {s["session_id"]: s for s in lines[-1]["sessions"]}
        assert set(by_name) == {"alpha", "beta"} and all(s["tenant"] == "local" for s in by_name.values()), by_name
        assert by_name["beta"]["usage"]["cpus"] > 0 and by_name["alpha"]["usage"]["memory_bytes"] > 1 << 20, by_name
        out = box("top", "--batch", check=True).stdout.splitlines()
        assert out[0].startswith("2 sessions, CPU ") and out[1].split()[:4] == ["SESSION", "TENANT", "STATE", "CPU%"], out
        assert [line.split()[:3] for line in out[2:]] == [["beta", "local", "busy"], ["alpha", "local", "idle"]], out
        out = box("top", "-b", "--sort", "name", "-d", "1s", check=True).stdout.splitlines()
        assert [line.split()[0] for line in out[2:]] == ["alpha", "beta"], out
    finally:
        busy.terminate()
        busy.wait()


def test_what_it_refuses():
    r = box("top")
    assert r.returncode == 2 and "--batch" in r.stderr, r
    for args, text in ((["--sort", "size"], "is not cpu, memory"), (["-n", "0"], "--iterations"), (["-d", "0"], "--delay"),
                       (["extra"], "unexpected argument: extra")):
        r = box("top", *args)
        assert r.returncode == 2 and text in r.stderr, (args, r.stderr)


def test_on_a_terminal():
    sessions()
    t = Terminal([CODEBOX, "top", "-d", "1"], box.env, box.dir)
    t.see(b"\x1b[?1049h")
    t.see(b"SESSION")
    t.see(b"by cpu")
    t.type("n")
    t.see(b"by name")
    t.see(b"alpha")
    t.see(b"beta")
    t.type("i")
    t.see(b"beta")
    t.see(b"alpha")
    fcntl.ioctl(t.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 4, 30, 0, 0))
    t.see(b"\x1b[H2 sessions, CPU ")
    while t.see(b"\x1b[H").count(b"\n") != 3:  # one session has room
        pass
    frame = t.see(b"\x1b[J").replace(b"\r", b"").replace(b"\x1b[K", b"").split(b"\n")
    assert all(len(line) <= 30 for line in frame) and frame[1].startswith(b"SESSION"), frame
    t.type("q")
    t.see(b"\x1b[?1049l")
    assert t.end() == 0
    # Why it ends by itself is said where it stays to be read.
    t = Terminal([CODEBOX, "top", "-d", "1"], box.env, box.dir)
    t.see(b"by cpu")
    box("stop", "--force", check=True)
    t.see(b"\x1b[?1049l")
    t.see(b"codebox: ")
    assert t.end() != 0


if __name__ == "__main__":
    run(globals())
