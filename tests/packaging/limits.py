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
# Those that no test comes to, and why.
UNTESTED = {
    "CBX_ROOTS_MAX": "of a client's roots, those beyond are left out: a sandbox takes fewer mounts than that",
    "CBX_HTTP_WAITING_MAX": "what is dropped beyond it, a client without a stream would not have had in time",
    "CBX_HOLD_MS": "ten minutes after an execution's end, in which nothing else may end either",
    "CBX_REMOVE_ENTRIES": "most of a minute for one request, and the memory of four million files",
    "CBX_WATCH_AT_ONCE": "more than 64 sessions that all use memory",
    "CBX_IO_DISKS": "there is a place for the image and each mount; the compiler checks that",
    "CBX_IO_DISKS_KNOWN": "a machine of 4096 disks",
    "CBX_CGROUP_MOUNTS_MAX": "ten thousand mounts, on a machine that delegates control groups",
    "CBX_PACKAGES_MAX": "a recipe of 4000 packages",
    "CBX_COPY_BYTES_MAX": "half a gigabyte of the machine's own /etc",
    "CBX_COMPILED_MAX": "a gigabyte of compiled Python",
    "CBX_FINISH_TIMEOUT_S": "twenty minutes of compiling",
    "CBX_FINISH_DISK": "two gigabytes of compiled Python",
    "CBX_FINISH_MEMORY": "two gigabytes of memory for compiling",
}


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


def test_each_names_a_test_that_exists():
    bad, without = [], []
    for name, comment in ceilings():
        m = re.search(r"\[([a-z]+/[\w./]+):(\w+)\]$", comment)
        if not m:
            without.append(name)
            continue
        path = os.path.join(TOP, "tests", m[1])
        try:
            with open(path) as f:
                text = f.read()
        except OSError:
            text = ""
        if not re.search(rf"(def test_|START_TEST\(|^@test\ndef ){m[2]}\b", text, re.M):
            bad.append(f"{name}: {m[1]}:{m[2]}")
    assert not bad, bad
    assert sorted(without) == sorted(UNTESTED), set(without) ^ set(UNTESTED)


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
