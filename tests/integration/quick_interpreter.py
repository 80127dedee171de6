#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An interpreter that reports before init has told codeboxd that it was started is heard."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lib"), os.path.join(HERE, "..", "bench")]
from cbxtest import Skip, run  # noqa: E402
from control import Control  # noqa: E402
from ready import ReadyBox  # noqa: E402

READY = os.path.abspath("tests/bench/ready")


def test_a_quick_interpreter_is_heard():
    if not os.access(READY, os.X_OK):
        raise Skip("tests/bench/ready is not built")
    with ReadyBox(READY) as box, Control(box) as c:
        for _ in range(20):
            s = c.call("session.create", image="ready")
            assert s["interpreter"]["version"] == "0", s
            c.call("session.close", session_id=s["session_id"])


if __name__ == "__main__":
    run(globals())
