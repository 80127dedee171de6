#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What bootstrap installs, as apt-get hears it: on machines where others install packages, too, or that have Node.js from
elsewhere. That all of it is enough is what tests/fresh/run shows."""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
from cbxtest import run  # noqa: E402

LOCKED = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1 (apt-get)"


def bootstrap(command, apt_get, *there):
    """Its status, what it says, and what apt-get was asked for, where that does as this script, and these programs are there."""
    with tempfile.TemporaryDirectory() as d:
        d = Path(d)
        shutil.copy(HERE.parent.parent / "bootstrap", d)
        (d / "bin").mkdir()
        scripts = {"apt-get": f'for word; do case $word in update | install) what=$word ;; esac; done\n'
                              f'echo "$*" >>{d}/asked\nn=$(grep -c "" {d}/asked)\n{apt_get}',
                   "dpkg-query": "exit 1", "sudo": 'exec "$@"', "sleep": "exit 0",
                   "autoreconf": "echo that is all; exit 1", **{name: "exit 0" for name in there}}
        for name, text in scripts.items():
            (d / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
            (d / "bin" / name).chmod(0o755)
        for name in "sh env id dirname mkdir find grep cat".split():
            os.symlink(shutil.which(name), d / "bin" / name)
        r = subprocess.run([str(d / "bootstrap"), command], env={"PATH": str(d / "bin")}, text=True, capture_output=True)
        return r.returncode, r.stderr, (d / "asked").read_text().splitlines() if (d / "asked").exists() else []


def test_others_install_packages():
    status, said, asked = bootstrap("build", f'[ "$n" -gt 3 ] || {{ echo "{LOCKED}" >&2; exit 100; }}')
    assert "Waiting for another program" in said and said.count("Waiting") == 1 and "that is all" in said, said
    assert [a.split()[-1] == "update" for a in asked] == [True] * 4 + [False], asked
    assert all("DPkg::Lock::Timeout=300" in a for a in asked) and " libseccomp-dev" in asked[-1], asked


def test_what_cannot_be_had():
    status, said, asked = bootstrap("build", '[ "$what" = update ] || { echo "E: Unable to locate package x" >&2; exit 100; }')
    assert status == 1 and len(asked) == 2, (status, asked)
    assert "E: Unable to locate package x" in said and "install these packages by hand: autoconf" in said, said
    status, said, asked = bootstrap("build", f'echo "{LOCKED}" >&2; exit 100')
    assert status == 1 and len(asked) == 120 and LOCKED in said, (status, len(asked), said)
    # The lists of packages that are there already may do.
    status, said, asked = bootstrap("build", '[ "$what" = install ] || { echo "E: no network" >&2; exit 100; }')
    assert "E: no network" in said and "that is all" in said and len(asked) == 2, (said, asked)


def test_node_from_elsewhere():
    """Its npm is not Debian's, which does not go with it."""
    for there in (), ("node",), ("node", "npm"):
        status, said, asked = bootstrap("check", "exit 0", *there)
        words = asked[-1].split()
        assert ["nodejs" in words, "npm" in words] == ["node" not in there, "npm" not in there], (there, asked)
        assert "mandoc" in words, asked


if __name__ == "__main__":
    sys.exit(run(globals()))
