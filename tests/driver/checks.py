# SPDX-License-Identifier: Apache-2.0
"""What the cases share: how a test is registered, and checks."""
import base64
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from image_python import image_python  # noqa: E402

PYTHON = [os.environ["CODEBOX_TEST_PYTHON"]] if "CODEBOX_TEST_PYTHON" in os.environ else image_python()
TESTS = []
PNG = b"\x89PNG\r\n\x1a\n"


def test(*modes, needs=(), fresh=False, env=None):
    def add(function):
        for mode in modes or ("ipython", "plain"):
            TESTS.append((function, mode, tuple(needs), fresh or bool(env), env))
        return function
    return add


def same(value, wanted):
    assert value == wanted, "got %r, wanted %r" % (value, wanted)


def has(text, *parts):
    for part in parts:
        assert part in text, "%r is not in %r" % (part, text[-4000:])


def lacks(text, *parts):
    for part in parts:
        assert part not in text, "%r is in %r" % (part, text[-4000:])


def ok(cell):
    assert cell.status == "ok", "status %s: %r" % (cell.status, cell.events)
    return cell


def fails(cell, name):
    same(cell.status, "error")
    same(cell.error["name"], name)
    return cell.error


def png_of(data):
    image = base64.b64decode(data["image/png"], validate=True)
    assert image.startswith(PNG)
    return image
