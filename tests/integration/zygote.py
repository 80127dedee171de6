#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Interpreters that are forks of a warm one: that they are what executed ones are, and that nothing random is shared."""
import json
import os
import signal
import sys
import textwrap

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, Skip, children, run, wait_until  # noqa: E402

box = Box(CODEBOX_ZYGOTES="4", CODEBOX_POOL="0")
cold = Box(CODEBOX_ZYGOTES="0", CODEBOX_POOL="0")
state = {}


def log(b):
    path = os.path.join(b.env["CODEBOX_STATE_DIR"])
    text = ""
    for name in os.listdir(path):
        if "log" in name:
            with open(os.path.join(path, name)) as f:
                text += f.read()
    return text


def warm_up(b):
    """An image with a warm interpreter that is ready."""
    image = b.image("python", "python-minimal", "host")
    b("run", "--image", image, "-c", "pass", check=True)
    assert wait_until(lambda: "warm interpreter" in log(b) and "ready after" in log(b), 60), log(b)
    return image


def setup():
    if "image" not in state:
        state["image"] = None
        state["image"] = warm_up(box)
    if state["image"] is None:
        raise Skip("there is no image with a warm interpreter")
    return state["image"]


def make(b, name, *options):
    b("run", "--session", name, "--image", setup(), *options, "-c", "pass", check=True)
    return b.json("session", "info", "--json", name)


def code(b, name, text):
    r = b("run", "--session", name, "-c", textwrap.dedent(text))
    assert r.returncode == 0, (r.returncode, r.stdout, r.stderr)
    return r.stdout.strip()


def test_sessions_come_from_it():
    setup()
    info = make(box, "first")
    assert info["interpreter"]["started_by"] == "zygote", info["interpreter"]
    assert code(box, "first", "print(6 * 7)") == "42"
    assert make(cold, "first")["interpreter"]["started_by"] == "exec"


if __name__ == "__main__":
    run(globals())
