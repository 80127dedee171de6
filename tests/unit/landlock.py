#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Landlock alone: a sandbox's rules on a tree that nothing else protects. The tree belongs to the user who runs the
test, on an ordinary writable mount, without namespaces, filter or lost capabilities; so what is refused is refused by
Landlock. Without the rules all of it works, and with none of the rules for writing nothing does."""
import errno
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from cbxtest import Skip, run  # noqa: E402

PROGRAM = os.environ.get("CBX_LANDLOCK_ONLY", os.path.join(os.getcwd(), "tests", "unit", "landlock_only"))
CHANGED = ["workspace", "home/user", "tmp", "var/tmp", "dev/shm"]
USED = ["dev", "proc"]
OTHERS = ["usr", "etc", "var"]
ABI = int(subprocess.run([PROGRAM, "abi"], capture_output=True, text=True, check=True).stdout)


def attempt(mode):
    """{(what, where): errno}"""
    if not ABI:
        raise Skip("this kernel has no Landlock, or has it switched off")
    root = tempfile.mkdtemp(prefix="cbxlandlock")
    try:
        for d in CHANGED + USED + OTHERS:
            os.makedirs(os.path.join(root, d), exist_ok=True)
            with open(os.path.join(root, d, "file"), "w") as f:
                f.write("x")
        r = subprocess.run([PROGRAM, mode, root], capture_output=True, text=True)
        assert r.returncode == 0, r.stderr
        return {tuple(l.split()[:2]): int(l.split()[2]) for l in r.stdout.splitlines()}
    finally:
        shutil.rmtree(root)


def test_without_it_everything_works():
    got = attempt("off")
    assert len(got) == 10 * len(CHANGED + USED + OTHERS) + 3, len(got)
    assert not any(got.values()), got


def test_only_the_sessions_places_can_be_changed():
    for mode in ("on", "strict"):
        got = attempt(mode)
        for (what, where), code in got.items():
            if what in ("bind", "connect", "signal"):
                continue
            may = what == "read" or where in CHANGED
            if where in USED and what in ("write", "truncate") and (where == "dev" or mode == "on"):
                may = True
            if what == "truncate" and ABI < 3 and where not in CHANGED:
                continue  # opening to truncate is opening to write, which is judged above
            # Removing what could not be made fails in another way.
            refused = (errno.EACCES, errno.ENOENT) if what in ("rmdir", "unlink") else (errno.EACCES,)
            assert (code == 0) if may else (code in refused), (mode, what, where, errno.errorcode.get(code))


def test_nothing_can_be_changed_without_a_rule():
    for (what, where), code in attempt("nothing").items():
        if what not in ("read", "bind", "connect", "signal"):
            assert code != 0, (what, where)


def test_strict_keeps_processes_and_ports_apart():
    on, strict = attempt("on"), attempt("strict")
    assert not on["bind", "tcp"] and not on["connect", "abstract"] and not on["signal", "other"], on
    if ABI >= 4:
        assert strict["bind", "tcp"] == errno.EACCES, strict
    if ABI >= 6:
        assert strict["connect", "abstract"] == strict["signal", "other"] == errno.EPERM, strict


if __name__ == "__main__":
    run(globals())
