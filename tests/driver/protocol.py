#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the Python driver, in TAP. No sandbox is needed.

CODEBOX_TEST_PYTHON names the interpreter to test with (default: that of the image python). Each test runs over IPython
and over the plain shell, where both apply. Arguments select tests by a part of their names.
"""
import os
import subprocess
import sys
import traceback

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from checks import PYTHON, TESTS, same
from harness import Interpreter
import cases_cells
import cases_rules
import cases_trouble

assert cases_cells and cases_rules and cases_trouble  # they have registered their tests


class Runner:
    def __init__(self):
        self.shared = {}
        self.known = {}

    def module(self, name):
        if name not in self.known:
            self.known[name] = subprocess.run([*PYTHON, "-c", "import %s" % name], stdout=subprocess.DEVNULL,
                                              stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL).returncode == 0
        return self.known[name]

    def interpreter(self, mode, fresh, env):
        if fresh:
            return Interpreter(PYTHON, plain=mode == "plain", env=env)
        if mode not in self.shared:
            self.shared[mode] = Interpreter(PYTHON, plain=mode == "plain")
        return self.shared[mode]

    def run(self, function, mode, fresh, env):
        i = self.interpreter(mode, fresh, env)
        good = False
        try:
            same(i.ready["kind"], mode)
            function(i)
            good = True
        finally:
            if fresh or not good:
                self.shared = {m: s for m, s in self.shared.items() if s is not i}
                i.close()

    def close(self):
        for i in self.shared.values():
            i.close()


def main():
    wanted = sys.argv[1:]
    tests = [t for t in TESTS if not wanted or any(w in t[0].__name__ for w in wanted)]
    print("1..%d" % len(tests), flush=True)
    runner = Runner()
    failed = 0
    for number, (function, mode, needs, fresh, env) in enumerate(tests, 1):
        name = "%d - %s: %s" % (number, mode, function.__name__.replace("_", " "))
        missing = [n for n in needs + (("IPython",) if mode == "ipython" else ()) if not runner.module(n)]
        if missing:
            print("ok %s # SKIP %s has no %s" % (name, " ".join(PYTHON), missing[0]), flush=True)
            continue
        try:
            runner.run(function, mode, fresh, env)
            print("ok %s" % name, flush=True)
        except Exception:
            failed += 1
            print("not ok %s" % name, flush=True)
            for line in traceback.format_exc().splitlines():
                print("# %s" % line[:2000], flush=True)
    runner.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
