#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The scriptlets of the RPM packages, as the spec gives them where there is nothing of the tarball yet but what it names."""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "lib"))
from cbxtest import Skip, run  # noqa: E402

RPM = TOP / "packaging/rpm"


def scriptlets(*options):
    """(name, package) -> script, of the spec with these options of rpmspec."""
    if not shutil.which("rpmspec"):
        raise Skip("there is no rpmspec")
    with tempfile.TemporaryDirectory() as d:
        (Path(d) / "SOURCES").mkdir()
        shutil.copy(TOP / "packaging/sysusers/codebox.conf", f"{d}/SOURCES/codebox.sysusers")
        text = (RPM / "codebox.spec.in").read_text()
        for name, value in ("version", "1.0"), ("url", "https://example.org"), ("changelog", ""):
            text = text.replace(f"@{name}@", value)
        (Path(d) / "codebox.spec").write_text(text)
        r = subprocess.run(["rpmspec", "-P", "--load", RPM / "macros", "--define", f"_topdir {d}", *options, "codebox.spec"],
                           cwd=d, capture_output=True, text=True, check=True)
    assert not r.stderr, r.stderr
    return {(name, package.strip()): script.strip()
            for name, package, script in re.findall(r"^%(pre|post|preun|postun)( server)?\n(.*?)(?=^%(?:p[or]|files))", r.stdout, re.M | re.S)}


def test_units_and_the_account():
    found = scriptlets()
    for place, wanted in {
            ("post", ""): "install-user-units codeboxd.socket ||",
            ("preun", ""): "remove-user-units codeboxd.socket codeboxd.service ||",
            ("post", "server"): "install-system-units codeboxd.socket ||",
            ("preun", "server"): "remove-system-units codeboxd.socket codeboxd.service ||",
            ("pre", "server"): "useradd -r -g codebox -d /nonexistent -s /usr/sbin/nologin "}.items():
        assert wanted in found[place], (place, found[place])
    for place, script in found.items():
        assert "%" not in script, (place, script)
        subprocess.run(["sh", "-n"], input=script, text=True, check=True)


def test_an_rpm_that_reads_sysusers_itself():
    for options in ("--undefine", "sysusers_create_compat"), ("--define", "sysusers_create_compat() %{nil}"):
        assert scriptlets(*options)[("pre", "server")] == ""


if __name__ == "__main__":
    run(globals())
