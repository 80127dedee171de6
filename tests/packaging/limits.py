#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every ceiling in src/base/limits-*.h and src/image/image-limits.h has an owner, says what happens when it is hit,
stands in codebox-limits(7), and the tests that are named there exist."""
import os
import re
import shutil
import subprocess
import sys

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(TOP, "tests", "lib"))
from cbxtest import Skip, run  # noqa: E402

HEADERS = ("src/base/limits-artifacts.h", "src/base/limits-clients.h", "src/base/limits-databases.h", "src/base/limits-network.h", "src/base/limits-sessions.h", "src/base/limits-sandboxes.h",
           "src/image/image-limits.h")
# Those that no test comes to, and why.
UNTESTED = {
    "CBX_INSTALLS_MAX": "installations of nine tenants that wait at once",
    "CBX_BUILT_WAITING_MAX": "144 pieces that come faster than they are taken",
    "CBX_RESOLVED_FRESH_S": "five minutes",
    "CBX_RESOLVED_MAX": "what is forgotten is asked for again",
    "CBX_RESOLVED_ANSWER_MAX": "what is not kept is asked for again",
    "CBX_WHEELS_BYTES": "four gibibytes of wheels",
    "CBX_ARTIFACTS_MAX": "two thousand files",
    "CBX_SAMPLES_MAX": "what is looked at later is looked at all the same",
    "CBX_SAMPLE_MS": "how often is a matter of time",
    "CBX_ARTIFACTS_ANSWER_MAX": "what lists two thousand files is smaller",
    "CBX_ARTIFACT_REQUESTS_MAX": "64 answers of codebox-store that wait at once",
    "CBX_ARTIFACT_REQUESTS_TENANT": "16 of them, likewise",
    "CBX_ARTIFACT_RETRY_MS": "how long something takes is not tested",
    "CBX_HTTP_HELD_MAX": "five tenants with as much as each may have",
    "CBX_ARTIFACTS_WAIT_MS": "five minutes",
    "CBX_UPLOAD_PAUSE_MS": "how long something takes is not tested",
    "CBX_UPLOAD_CONNECT_S": "tests send nothing beyond this machine, and here nobody leaves a connection unanswered",
    "CBX_UPLOAD_STALL_S": "half a minute, six times",
    "CBX_UPLOAD_REMOVE_MS": "a minute",
    "CBX_ARTIFACT_ABANDONED_S": "an hour, and nobody can set a file's ctime",
    "CBX_DOWNLOAD_MS": "five minutes",
    "CBX_REST_TAR_ENTRIES": "a million entries",
    "CBX_ROOTS_MAX": "of a client's roots, those beyond are left out: a sandbox takes fewer mounts than that",
    "CBX_HTTP_SESSIONS_ALL": "sessions of 32 tenants, each of which has as many as it may; those are tested",
    "CBX_HTTP_KEPT_SESSION": "a stream of more is continued at what is left, which always has the answer",
    "CBX_HTTP_KEPT_ALL": "sixteen sessions with as much as each may have",
    "CBX_HTTP_FAILING_MAX": "257 addresses",
    "CBX_HTTP_KEPT_S": "a minute of waiting",
    "CBX_HTTP_EXPIRY_S": "who sets the clock back meanwhile",
    "CBX_JWKS_LOOK_S": "how often is a matter of time",
    "CBX_HTTP_WAITING_MAX": "what is dropped beyond it, a client without a stream would not have had in time",
    "CBX_COMMAND_UNREAD_MOST": "what is in the pipes of a program when it ends is not more",
    "CBX_COMMANDS_UNREAD_TENANT": "64 commands, in four sessions",
    "CBX_COMMANDS_UNREAD_ALL": "512 commands, in 32 sessions of eight tenants",
    "CBX_COMMAND_UNREAD_S": "ten minutes",
    "CBX_COMMANDS_TOGETHER": "2049 commands, in eleven sessions",
    "CBX_HOLD_MS": "ten minutes after an execution's end, in which nothing else may end either",
    "CBX_REMOVE_ENTRIES": "most of a minute for one request, and the memory of four million files",
    "CBX_WATCH_AT_ONCE": "more than 64 sessions that all use memory",
    "CBX_WATCH_HANG_MS": "a kernel that does not give a lock back for seconds",
    "CBX_WATCH_PLAIN_MS": "what comes after that",
    "CBX_OPEN_FILE_BYTES": "part of CBX_OPEN_FILES_ALL",
    "CBX_HOST_NAMES_MAX": "eight processes that the kernel does not let go of, for a file system that does not answer",
    "CBX_OPEN_ADDRESSES_MAX": "a machine of so many public addresses is not made here",
    "CBX_RESOLV_CONF_MAX": "the C library's own file; longer ones do not occur",
    "CBX_IO_DISKS": "there is a place for the image and each mount; the compiler checks that",
    "CBX_IO_DISKS_KNOWN": "a machine of 4096 disks",
    "CBX_CGROUP_MOUNTS_MAX": "ten thousand mounts, on a machine that delegates control groups",
    "CBX_PULL_CONNECT_S": "a machine that swallows packets",
    "CBX_PULL_STALL_S": "half a minute of waiting",
    "CBX_PACKAGES_MAX": "a recipe of 4000 packages",
    "CBX_TRUST_MAX": "a megabyte of the machine's own certificates",
    "CBX_ARTIFACT_LINKS_MAX": "thousands of artifacts with long names",
    "CBX_SQL_MEMORY_MAX": "what a driver takes for a result is no more than a piece of it",
    "CBX_INDEX_KEPT_LOOK": "how often is a matter of chance",
    "CBX_INSTALL_TIMEOUT_S": "a quarter of an hour",
    "CBX_ADVISORY_FILES_MAX": "two hundred thousand files",
    "CBX_INSTALL_QUESTIONS_MAX": "five thousand pages of an index",
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
