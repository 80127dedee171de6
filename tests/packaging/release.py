#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What make release says of its packages is what they have: sums, files, libraries and versions, the same twice."""
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
from cbxtest import run  # noqa: E402

PROGRAM = HERE.parent.parent / "packaging" / "release.py"
BUILDINFO = """Format: 1.0
Source: codebox
Installed-Build-Depends:
 musl-dev (= 1.2.3-1),
 libseccomp2 (= 2.5.4-1+b3),
 make (= 4.3-4.1)
"""
CONTROL = """Package: codebox
Version: 1.2.3-1
Architecture: amd64
Maintainer: somebody <a@b.invalid>
Depends: libseccomp2 (>= 2.5.0), libunknown1
Description: a package
"""


def made(top):
    tree = top / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(CONTROL)
    (tree / "usr/libexec/codebox").mkdir(parents=True)
    (tree / "usr/libexec/codebox/codebox-init").write_bytes(b"init")
    out = top / "out"
    (out / "bookworm").mkdir(parents=True)
    (out / "bookworm/codebox_1.2.3-1_amd64.buildinfo").write_text(BUILDINFO)
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, out / "bookworm/codebox_1.2.3-1_amd64.deb"], check=True,
                   stdout=subprocess.DEVNULL)
    tarball = out / "codebox-1.2.3.tar.xz"
    with tarfile.open(tarball, "w:xz") as contents:
        member = tarfile.TarInfo("codebox-1.2.3/NEWS")
        member.mtime = 1700000000
        contents.addfile(member)
    return out


def told(out):
    subprocess.run([sys.executable, PROGRAM, out, "1.2.3", "https://example.org/codebox", "c" * 40], check=True,
                   stdout=subprocess.DEVNULL)
    return {p.name: p.read_bytes() for p in out.iterdir() if p.is_file()}


def test_sums_are_those_of_all_files():
    with tempfile.TemporaryDirectory() as d:
        out = made(Path(d))
        told(out)
        subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=out, check=True)
        listed = {line.split("  ")[1] for line in (out / "SHA256SUMS").read_text().splitlines()}
        there = {str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()} - {"SHA256SUMS"}
        assert listed == there, (listed, there)


def test_sbom_names_files_and_libraries_of_the_build():
    with tempfile.TemporaryDirectory() as d:
        doc = json.loads(told(made(Path(d)))["codebox-1.2.3.spdx.json"])
    packages = {p["SPDXID"]: (p["name"], p["versionInfo"]) for p in doc["packages"]}
    assert sorted(packages.values()) == [("codebox", "1.2.3"), ("codebox", "1.2.3-1"), ("libseccomp2", "2.5.4-1+b3"),
                                         ("musl-dev", "1.2.3-1")], packages
    [file] = doc["files"]
    assert file["fileName"] == "./usr/libexec/codebox/codebox-init"
    assert {"algorithm": "SHA256", "checksumValue": hashlib.sha256(b"init").hexdigest()} in file["checksums"]
    kinds = {(packages.get(r["relatedSpdxElement"], ("file",))[0], r["relationshipType"]) for r in doc["relationships"]}
    assert kinds == {("codebox", "DESCRIBES"), ("file", "CONTAINS"), ("libseccomp2", "DEPENDS_ON"), ("musl-dev", "STATIC_LINK")}
    ids = [x["SPDXID"] for x in doc["packages"] + doc["files"]]
    assert len(ids) == len(set(ids))


def test_provenance_has_the_commit_and_what_was_made():
    with tempfile.TemporaryDirectory() as d:
        out = made(Path(d))
        doc = json.loads(told(out)["codebox-1.2.3.provenance.json"])
        subjects = {s["name"]: s["digest"]["sha256"] for s in doc["subject"]}
        deb = "bookworm/codebox_1.2.3-1_amd64.deb"
        assert subjects[deb] == hashlib.sha256((out / deb).read_bytes()).hexdigest()
    first, *others = doc["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert first["digest"]["gitCommit"] == "c" * 40
    assert "pkg:deb/debian/make@4.3-4.1?distro=bookworm" in [o["uri"] for o in others]


def test_twice_the_same():
    with tempfile.TemporaryDirectory() as d:
        out = made(Path(d))
        first = told(out)
        os.utime(out / "codebox-1.2.3.tar.xz", (1800000000, 1800000000))
        assert told(out) == first
        assert json.loads(first["codebox-1.2.3.spdx.json"])["creationInfo"]["created"] == "2023-11-14T22:13:20Z"


def test_packages_without_records_are_refused():
    with tempfile.TemporaryDirectory() as d:
        out = made(Path(d))
        next(out.rglob("*.buildinfo")).unlink()
        done = subprocess.run([sys.executable, PROGRAM, out, "1.2.3", "u", "c"], capture_output=True, text=True)
        assert done.returncode and "no .buildinfo" in done.stderr, done


if __name__ == "__main__":
    run(globals())
