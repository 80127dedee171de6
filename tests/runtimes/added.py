#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A language that codebox does not come with: the example of codebox-runtime(7), a manifest and a driver for Perl."""
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, CODEBOX, Skip, run  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
SHARE = os.environ.get("CODEBOX_SHARE_DIR") or os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(CODEBOX))),
                                                            "share", "codebox")
RECIPE = {"name": "perl", "kind": "host", "description": "Perl of this machine",
          "interpreters": {"perl": {"find": ["/usr/bin/perl"]}, "bash": {"find": ["/usr/bin/bash", "/bin/bash"]}}}
made = []


def box():
    if not made:
        if subprocess.run(["perl", "-MJSON::PP", "-e", "1"], capture_output=True, check=False).returncode:
            raise Skip("this machine has no Perl with JSON::PP")
        b = Box(LC_ALL="C.UTF-8")
        share = os.path.join(b.dir, "share")
        shutil.copytree(SHARE, share)
        shutil.copytree(os.path.join(HERE, "perl"), os.path.join(share, "runtimes", "perl"))
        b.env.update(CODEBOX_SHARE_DIR=share, CODEBOX_DATA_DIR=os.path.join(b.dir, "data"))
        recipe = os.path.join(b.dir, "perl.json")
        with open(recipe, "w") as f:
            json.dump(RECIPE, f)
        b("image", "build", recipe, check=True)
        made.append(b)
    return made[0]


def test_the_manual_page_shows_it():
    with open(os.path.join(HERE, "..", "..", "man", "codebox-runtime.7")) as f:
        page = f.read().replace("\\&", "").replace("\\e", "\\")
    for name, skipped in (("runtime.json", 0), ("driver.pl", 2)):
        with open(os.path.join(HERE, "perl", name)) as f:
            text = "".join(f.readlines()[skipped:]).replace("\t", "    ")
        assert text in page, f"{name} is not as the page has it"


def test_cells():
    b = box()
    assert b("run", "--image", "perl", "--session", "p", "-c", "$x = 6; sub twice { 2 * shift } print 'made'; ()",
             check=True).stdout == "made"
    assert b("run", "--session", "p", "-l", "pl", "-c", "twice($x) + 30", check=True).stdout == "42\n"
    r = b("run", "--session", "p", "-c", "die 'no reason'")
    assert r.returncode == 1 and "no reason at cell 3 line 1" in r.stderr, r
    assert b("run", "--session", "p", "-c", "%%bash\necho $((40 + 2))").stdout == "42\n"
    r = b("run", "--session", "p", "--timeout", "500ms", "-c", "1 while 1")
    assert r.returncode == 124, r
    assert b("run", "--session", "p", "-c", "$x", check=True).stdout == "6\n"
    info = b.json("session", "info", "--json", "p")
    assert info["languages"] == ["perl", "bash"] and info["interpreter"]["language"] == "perl", info


def test_a_manifest_that_is_not_valid():
    b = box()
    b("stop", "--force")
    path = os.path.join(b.env["CODEBOX_SHARE_DIR"], "runtimes", "perl", "runtime.json")
    with open(path, "a") as f:
        f.write('{"more": 1}')
    r = b("run", "--image", "perl", "-c", "1")
    assert r.returncode == 3, r
    with open(path, "w") as f:
        f.write('{"language": "perl", "driver": "../driver.pl"}')
    r = b("run", "--image", "perl", "-c", "1")
    assert r.returncode == 3 and "runtime.json" in r.stderr and "driver" in r.stderr, r


run(globals())
