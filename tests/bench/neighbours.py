#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What one session's worst does to another's cells: the latency of a small cell with and without each bomb, in turns,
so that whatever else the machine does falls on both. Prints medians, 95th percentiles and their ratio; asserts nothing.

neighbours.py [BOMB...]; CBX_CELLS (default 150) cells a turn, CBX_TURNS (default 3) turns, CBX_PAUSE_MS (default 10) the
pause between two cells. With 0 there is none: then the cells want as much of a processor as they can get, and what they
lose beside a bomb is the bomb's fair share of the machine.
"""
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box  # noqa: E402
from control import Control  # noqa: E402

CELLS = int(os.environ.get("CBX_CELLS", "150"))
TURNS = int(os.environ.get("CBX_TURNS", "3"))
PAUSE = float(os.environ.get("CBX_PAUSE_MS", "10")) / 1000
BOMBS = {
    "processor": "import os\nfor i in range(3):\n    if os.fork() == 0: break\nwhile True: pass",
    "output": "import subprocess\nsubprocess.run(['yes'])",
    "forks": "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass",
    "memory": "import os\nwhile True:\n    if os.fork() == 0:\n        b = bytearray(1 << 30)\n"
              "        for i in range(0, len(b), 4096): b[i] = 1\n        os._exit(0)\n    os.wait()",
    "disk": "while True:\n    f = open('f', 'wb', buffering=0)\n    try:\n        while True: f.write(bytes(1 << 20))\n"
            "    except OSError:\n"
            "        f.close()",
    "files": "import os\nwhile True:\n    i = 0\n    try:\n        while True:\n"
             "            open(str(i), 'w').close(); i += 1\n"
             "    except OSError:\n        for n in os.listdir('.'): os.unlink(n)",
    "descriptors": "import os\nwhile True:\n    try:\n        while True: os.dup(0)\n"
                   "    except OSError:\n        os.closerange(20, 1 << 16)",
}


def percentile(values, p):
    return sorted(values)[min(len(values) - 1, int(len(values) * p / 100))]


def cells(c, out):
    for _ in range(CELLS):
        time.sleep(PAUSE)
        begun = time.perf_counter()
        r = c.call("run", code="1 + 1", session_id="n")
        out.append((time.perf_counter() - begun) * 1000)
        assert r["result"] == "2", r


def main():
    box = Box()
    image = box.image("host", "python-minimal", "python")
    c, b = Control(box), Control(box)
    c.call("session.create", session_id="n", image=image)
    cells(c, [])
    print(f"{'bomb':<12} {'median ms':>20} {'p95 ms':>22} {'ratio of p95':>13}")
    print(f"{'':<12} {'alone':>9}{'beside it':>11} {'alone':>11}{'beside it':>11}")
    for name in sys.argv[1:] or BOMBS:
        alone, beside = [], []
        for turn in range(TURNS):
            cells(c, alone)
            sid = f"b{name}{turn}"
            b.call("session.create", session_id=sid, image=image, memory="512M", disk="64M", processes=64)
            b.send("run", code=BOMBS[name], session_id=sid, timeout=600)
            time.sleep(1)
            cells(c, beside)
            c.call("session.close", session_id=sid)
            while any(s["session_id"] == sid for s in c.call("session.list")["sessions"]):
                time.sleep(0.05)
            time.sleep(0.5)
        a95, b95 = percentile(alone, 95), percentile(beside, 95)
        print(f"{name:<12} {statistics.median(alone):>9.2f}{statistics.median(beside):>11.2f} "
              f"{a95:>11.2f}{b95:>11.2f} {b95 / a95:>13.2f}", flush=True)


if __name__ == "__main__":
    main()
