# SPDX-License-Identifier: Apache-2.0
"""Run one module of CPython's own tests: worker.py MODULE RESULTS. Each test's outcome is a line of RESULTS, written
when it is known, so that a module that hangs or dies leaves what it had come to. What needs the network is not run."""
import faulthandler
import sys
import unittest

module, results = sys.argv[1:3]
faulthandler.enable()
import test.support  # noqa: E402

test.support.use_resources = []
test.support.verbose = 0


class Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.file = open(results, "w", encoding="utf-8")
        self.subtests = False

    def note(self, test_case, outcome, why=""):
        name = test_case.id() if hasattr(test_case, "id") else str(test_case)
        why = " ".join(str(why).split())[-300:]
        print(outcome, name.replace("\n", " "), why, sep="\t", file=self.file, flush=True)

    def startTest(self, test_case):
        super().startTest(test_case)
        self.subtests = False
        print("start", test_case.id(), "", sep="\t", file=self.file, flush=True)

    def addSubTest(self, test_case, subtest, err):
        super().addSubTest(test_case, subtest, err)
        if err and not self.subtests:
            self.subtests = True
            self.note(test_case, "fail", err[1])

    def addSuccess(self, test_case):
        if not self.subtests:
            self.note(test_case, "ok")

    def addError(self, test_case, err):
        super().addError(test_case, err)
        self.note(test_case, "fail", err[1])

    addFailure = addError

    def addSkip(self, test_case, reason):
        self.note(test_case, "skip", reason)

    def addExpectedFailure(self, test_case, err):
        self.note(test_case, "ok")

    def addUnexpectedSuccess(self, test_case):
        self.note(test_case, "ok")


if __name__ == "__main__":
    # A shipped test is looked up by its name under "test"; what it starts (spawn) imports this file again.
    suite = unittest.defaultTestLoader.loadTestsFromName("test." + module)
    result = Result()
    suite.run(result)
    print("end", module, "", sep="\t", file=result.file, flush=True)
