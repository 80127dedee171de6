#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The AppArmor profile that is installed for a packager to take: it names the programs that make user namespaces, and
AppArmor's parser accepts it. tests/guest loads it."""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import CODEBOX, Skip, run  # noqa: E402

LIBEXEC = os.environ.get("CODEBOX_LIBEXEC_DIR", "/usr/local/libexec/codebox")
STAGE = CODEBOX[:CODEBOX.index("/tests/stage/") + len("/tests/stage")] if "/tests/stage/" in CODEBOX else None
PROGRAMS = (CODEBOX, os.environ.get("CODEBOX_DAEMON"), LIBEXEC + "/codebox-supervisor", LIBEXEC + "/codebox-image",
            LIBEXEC + "/codebox-packages")


def profile():
    if not STAGE:
        raise Skip("not run by make check")
    found = [os.path.join(d, "codebox") for d, _, names in os.walk(STAGE) if d.endswith("/apparmor.d")
             and "codebox" in names]
    assert len(found) == 1, found
    return found[0]


def parse(text):
    """Compiled, but not loaded, which needs neither root nor a kernel with AppArmor."""
    parser = shutil.which("apparmor_parser", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if not parser:
        raise Skip("there is no apparmor_parser")
    return subprocess.run([parser, "--skip-kernel-load", "--skip-cache"], input=text, capture_output=True, text=True)


def test_every_program_that_makes_user_namespaces_has_one():
    with open(profile()) as f:
        text = f.read()
    named = dict(re.findall(r'^profile (\S+) "(/[^"@]*)" flags=\(unconfined\) \{\n  userns,$', text, re.M))
    assert {STAGE + path for path in named.values()} == set(PROGRAMS), named
    assert all(os.access(p, os.X_OK) for p in PROGRAMS), PROGRAMS
    assert all(os.path.basename(path) == name for name, path in named.items()), named


def test_the_parser_accepts_it():
    with open(profile()) as f:
        text = f.read()
    if not os.path.exists("/etc/apparmor.d/abi/4.0"):
        # Debian 12's is of version 3: all but the rule, and what says that there is that rule.
        text = re.sub(r"^(abi .*|  userns,)$", "", text, flags=re.M)
    r = parse(text)
    assert r.returncode == 0, r.stderr
    assert parse(text.replace("flags=", "flag=")).returncode != 0


if __name__ == "__main__":
    run(globals())
