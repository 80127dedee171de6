#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every ceiling in src/base/limits.h and src/image/image-limits.h has an owner, says what happens when it is hit,
stands in codebox-limits(7), and the tests that are named there exist."""
import os
import re
import shutil
import subprocess
import sys

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(TOP, "tests", "lib"))
from cbxtest import Skip, run  # noqa: E402

HEADERS = ("src/base/limits.h", "src/image/image-limits.h")
# Waits and defaults, which nothing is driven into, have no test of their own; of the ceilings most have one.
TESTED = 0.5


def ceilings():
    """(name, comment, whole text) of each."""
    for header in HEADERS:
        with open(os.path.join(TOP, header), encoding="utf-8") as f:
            text = f.read()
        for m in re.finditer(r"^#define (CBX_\w+) (.*?)$", text, re.M):
            end = text.find("*/", m.start())
            start = text.find("/*", m.start())
            commented = start != -1 and start < text.index("\n", m.start())
            comment = " ".join(re.sub(r"^\s*\* ?", "",
                                      line) for line in text[start + 2:end].split("\n")) if commented else ""
            yield m[1], comment.strip()


def test_each_has_an_owner_and_a_behaviour():
    bad = [name for name, comment in ceilings() if not re.match(r"[a-z.\-]+: \S.{8,}", comment)]
    assert not bad, f"no comment of the form \"owner: behaviour\": {bad}"


def test_the_tests_that_are_named_exist():
    bad, named, total = [], 0, 0
    for name, comment in ceilings():
        total += 1
        m = re.search(r"\[([a-z]+/[\w./]+):(\w+)\]$", comment)
        if not m:
            continue
        named += 1
        path = os.path.join(TOP, "tests", m[1])
        try:
            with open(path) as f:
                text = f.read()
        except OSError:
            text = ""
        if not re.search(rf"(def test_|START_TEST\(){m[2]}\b", text):
            bad.append(f"{name}: {m[1]}:{m[2]}")
    assert not bad, bad
    assert named >= total * TESTED, f"{named} of {total} name a test"


def test_the_page_has_all_of_them():
    page = subprocess.run(["awk", "-f", TOP + "/man/limits.awk"] + [os.path.join(TOP, h) for h in HEADERS],
                          capture_output=True, text=True, check=True).stdout
    listed = re.findall(r"^\.It Dv (\w+) No = \S", page, re.M)
    assert listed == [name for name, _ in ceilings()], set(n for n, _ in ceilings()) ^ set(listed)
    assert ".It Dv CBX_CODE_MAX No = 1 MiB\n" in page


def test_the_page_is_well_formed():
    if not shutil.which("mandoc"):
        raise Skip("there is no mandoc")
    with open(os.path.join(TOP, "man", "codebox-limits.7.in")) as f:
        head = f.read()
    page = subprocess.run(["awk", "-f", TOP + "/man/limits.awk"] + [os.path.join(TOP, h) for h in HEADERS],
                          capture_output=True, text=True, check=True).stdout
    r = subprocess.run(["mandoc", "-Tlint", "-Wwarning"], input=head.replace("@LIST@\n", page), capture_output=True,
                       text=True)
    assert r.returncode == 0 and not r.stdout, r.stdout


if __name__ == "__main__":
    run(globals())
