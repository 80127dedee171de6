#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a release says of itself: checksums, an SBOM and provenance, beside the packages and from the build's own records.

usage: release.py DIRECTORY VERSION URL COMMIT

DIRECTORY has the tarball and, in folders by distribution, what packaging/*/build made. Written there:
  codebox-VERSION.spdx.json        SPDX 2.3: each shipped package with its files, and the libraries it was built against, of
                                   the versions that .buildinfo has
  codebox-VERSION.provenance.json  an in-toto statement with SLSA's predicate: what was made from which commit and packages
  SHA256SUMS                       of everything that is shipped; sha256sum -c compares
The same packages give the same bytes, whenever they were made. Nothing is signed: who releases signs SHA256SUMS.
"""
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

SHIPPED = (".deb", ".rpm", ".xz", ".dsc", ".buildinfo", ".changes", ".spec", ".mcpb", ".json")


def digest(path, algorithm="sha256"):
    return hashlib.new(algorithm, path.read_bytes()).hexdigest()


def fields(text):
    """The fields of a Debian control file; continued lines are joined."""
    return dict(re.findall(r"^([A-Za-z0-9-]+):[ \t]*((?:.*)(?:\n[ \t].*)*)", text, re.M))


def names(relation):
    """Packages of a Depends field: the first of each alternative."""
    return [re.match(r"[a-z0-9.+-]+", part.strip()).group() for part in relation.split(",") if part.strip()]


def built_with(directory):
    """name -> version of all packages that were there when the packages of this directory were built."""
    for record in sorted(directory.glob("*.buildinfo")):
        listed = fields(record.read_text()).get("Installed-Build-Depends", "")
        return dict(re.findall(r"([a-z0-9.+-]+)(?::\w+)? \(= ([^)]+)\)", listed))
    raise SystemExit(f"release: no .buildinfo in {directory}: the packages there were not built by packaging/debian/build")


def spdx_id(*parts):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]+", "-", "-".join(parts))


class Sbom:
    def __init__(self, version, url, commit, epoch):
        self.doc = {
            "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"codebox-{version}",
            "documentNamespace": f"{url}/spdx/{version}/{commit}",
            "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch)),
                             "creators": [f"Tool: codebox-release-{version}"]},
            "packages": [], "files": [], "relationships": []}
        self.ids = set()

    def relate(self, one, kind, other):
        self.doc["relationships"].append({"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other})

    def package(self, ident, name, version, licence="NOASSERTION", file=None, purl=None):
        if ident not in self.ids:
            self.ids.add(ident)
            entry = {"SPDXID": ident, "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION",
                     "filesAnalyzed": False, "licenseConcluded": licence, "licenseDeclared": licence,
                     "copyrightText": "NOASSERTION"}
            if file:
                entry["packageFileName"] = file.name
                entry["checksums"] = [{"algorithm": "SHA256", "checksumValue": digest(file)}]
            if purl:
                entry["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                          "referenceLocator": purl}]
            self.doc["packages"].append(entry)
        return ident

    def contents(self, package, where, tree):
        sums = []
        for path in sorted(p for p in tree.rglob("*") if p.is_file() and not p.is_symlink()):
            name = f"./{path.relative_to(tree)}"
            ident = spdx_id("file", where, name, hashlib.sha256(name.encode()).hexdigest()[:8])
            sums.append(digest(path, "sha1"))
            self.doc["files"].append({
                "SPDXID": ident, "fileName": name, "copyrightText": "NOASSERTION", "licenseConcluded": "NOASSERTION",
                "checksums": [{"algorithm": a, "checksumValue": digest(path, a.lower())} for a in ("SHA1", "SHA256")]})
            self.relate(package, "CONTAINS", ident)
        entry = next(p for p in self.doc["packages"] if p["SPDXID"] == package)
        entry["filesAnalyzed"] = True
        entry["packageVerificationCode"] = {
            "packageVerificationCodeValue": hashlib.sha1("".join(sorted(sums)).encode()).hexdigest()}


def deb(sbom, path, versions):
    """A package of Debian's: its files, what its programs load, and what is linked into them."""
    said = fields(subprocess.run(["dpkg-deb", "-f", path], check=True, capture_output=True, text=True).stdout)
    where = f"{path.parent.name}-{said['Package']}"
    ident = sbom.package(spdx_id(where), said["Package"], said["Version"], "Apache-2.0", path,
                         f"pkg:deb/debian/{said['Package']}@{said['Version']}?arch={said['Architecture']}")
    sbom.relate("SPDXRef-DOCUMENT", "DESCRIBES", ident)
    with tempfile.TemporaryDirectory() as tree:
        subprocess.run(["dpkg-deb", "-x", path, tree], check=True)
        sbom.contents(ident, where, Path(tree))
        linked = ["musl-dev"] if list(Path(tree).rglob("codebox-init")) else []  # it is static
    for name, kind in [(n, "DEPENDS_ON") for n in names(said.get("Depends", ""))] + [(n, "STATIC_LINK") for n in linked]:
        if name in versions:
            sbom.relate(ident, kind, sbom.package(spdx_id(path.parent.name, name), name, versions[name],
                                                  purl=f"pkg:deb/debian/{name}@{versions[name]}"))


def provenance(shipped, top, version, url, commit, packages):
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": str(p.relative_to(top)), "digest": {"sha256": digest(p)}} for p in shipped],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{url}/packaging/module.am#release",
                "externalParameters": {"version": version, "source": url, "target": "release"},
                "resolvedDependencies": [{"uri": f"git+{url}", "digest": {"gitCommit": commit}}] + [
                    {"uri": f"pkg:deb/debian/{name}@{v}?distro={suite}"} for suite, name, v in packages]},
            "runDetails": {"builder": {"id": f"{url}/packaging/debian/build"}}}}


def write(path, document):
    path.write_text(json.dumps(document, indent=1) + "\n")


def main():
    if len(sys.argv) != 5:
        raise SystemExit(__doc__.split("\n\n")[1])
    top, (version, url, commit) = Path(sys.argv[1]), sys.argv[2:]
    tarball = top / f"codebox-{version}.tar.xz"
    outputs = [top / f"codebox-{version}.{kind}.json" for kind in ("spdx", "provenance")]
    for old in outputs:
        old.unlink(missing_ok=True)
    # Made again from the same commit, the folder says the same: what is in the tarball has the commit's time.
    with tarfile.open(tarball) as contents:
        sbom = Sbom(version, url, commit, int(contents.next().mtime))
    sbom.relate("SPDXRef-DOCUMENT", "DESCRIBES", sbom.package(spdx_id("source"), "codebox", version, "Apache-2.0", tarball))
    packages = []
    for directory in sorted(p for p in top.iterdir() if list(p.glob("*.deb"))):
        versions = built_with(directory)
        packages += [(directory.name, *pair) for pair in sorted(versions.items())]
        for path in sorted(directory.glob("*.deb")):
            deb(sbom, path, versions)
    for path in sorted(top.rglob("*.rpm")):
        sbom.relate("SPDXRef-DOCUMENT", "DESCRIBES",
                    sbom.package(spdx_id(path.name), path.name.split(f"-{version}")[0], version, "Apache-2.0", path))
    shipped = sorted(p for p in top.rglob("*") if (p.suffix in SHIPPED or p.name == "APKBUILD") and p.is_file())
    write(outputs[0], sbom.doc)
    write(outputs[1], provenance(shipped, top, version, url, commit, packages))
    sums = "".join(f"{digest(p)}  {p.relative_to(top)}\n" for p in sorted(shipped + outputs))
    (top / "SHA256SUMS").write_text(sums)
    print(f"{top}: {len(shipped)} files, {len(sbom.doc['packages'])} packages in the SBOM")


if __name__ == "__main__":
    main()
