# SPDX-License-Identifier: Apache-2.0
"""A channel of conda on the loopback interface, and its packages, which are made on the spot."""
import bz2
import hashlib
import io
import json
import struct
import tarfile
import zipfile

import loopback

PLACEHOLDER = "/placehold" * 25
BLOCK = 128 << 10


def zstd(data):
    """A frame of blocks that are not compressed: Python knows zstd only since 3.14."""
    pieces = [data[i:i + BLOCK] for i in range(0, len(data), BLOCK)] or [b""]
    out = [b"\x28\xb5\x2f\xfd\x00\x50"]
    for i, piece in enumerate(pieces):
        out += [struct.pack("<I", (i == len(pieces) - 1) | len(piece) << 3)[:3], piece]
    return b"".join(out)


def zstd_zeros(head, size):
    """A frame that holds `head`, and then zeros of that size."""
    out = [zstd(head)[:-len(head) - 3], struct.pack("<I", len(head) << 3)[:3], head]
    for i in range(0, size, BLOCK):
        out.append(struct.pack("<I", (i + BLOCK >= size) | 1 << 1 | BLOCK << 3)[:3] + b"\0")
    return b"".join(out)


def tar_of(entries, raw=None):
    """entries: {path: text, bytes, (mode, text) or {"link": target}}. raw: function(tarfile) that adds what else there is."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, what in entries.items():
            entry = tarfile.TarInfo(path)
            if isinstance(what, dict):
                entry.type, entry.linkname = tarfile.SYMTYPE, what["link"]
                tar.addfile(entry)
                continue
            entry.mode, what = what if isinstance(what, tuple) else (0o644, what)
            data = what if isinstance(what, bytes) else what.encode()
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
        if raw:
            raw(tar)
    return out.getvalue()


def archive(stem, files, info, form="conda", raw=None, parts=None):
    """parts: function({name: bytes} of the zip) that changes what it holds."""
    if form == "tar.bz2":
        return bz2.compress(tar_of({**files, **info}, raw))
    members = {"metadata.json": json.dumps({"conda_pkg_format_version": 2}).encode(),
               f"pkg-{stem}.tar.zst": zstd(tar_of(files, raw)), f"info-{stem}.tar.zst": zstd(tar_of(info))}
    if parts:
        parts(members)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, data in members.items():
            z.writestr(name, data)
    return out.getvalue()


class Channel:
    """What it was asked for is in `asked`, as (path, Authorization)."""

    def __init__(self, user=None, packed=True):
        self.user, self.packed = user, packed
        self.files, self.records, self.asked, self.instead = {}, {"noarch": {}, "linux-64": {}}, [], {}
        channel = self

        class Handler(loopback.Handler):
            def do_GET(self):
                channel.answer(self)

        self.server = loopback.Server(Handler)
        self.host = self.server.host
        self.url = f"http://{self.host}/channel/"

    def add(self, name, version, needs=(), files=None, build="0", subdir="noarch", python=False, form="conda", prefixed=None,
            programs=(), says=None, raw=None, parts=None, info=None, data=None, **more):
        """files: what is installed, else a module of this name. prefixed: {path: "text" or "binary"}. says: what the archive
        says of itself. more: members of the record, which replace others; None: it has no such member."""
        self.server.serve()
        stem = f"{name}-{version}-{build}"
        module = name.replace("-", "_").replace(".", "_")
        index = {"name": name, "version": version, "build": build, "build_number": 0, "depends": list(needs), "subdir": subdir,
                 **({"noarch": "python"} if python else {})}
        if files is None:
            place = "site-packages" if python else "lib/python%s/site-packages" % (more.pop("python_version", "3.11"))
            files = {f"{place}/{module}.py": f"version = {version!r}\n"}
        paths = [{"_path": p, "path_type": "hardlink", **({"prefix_placeholder": PLACEHOLDER, "file_mode": prefixed[p]}
                                                          if p in (prefixed or {}) else {})} for p in files]
        about = {"info/index.json": json.dumps({**index, **(says or {})}),
                 "info/paths.json": json.dumps({"paths": paths, "paths_version": 1}), **(info or {})}
        if python:
            about["info/link.json"] = json.dumps({"noarch": {"type": "python", "entry_points": list(programs)},
                                                  "package_metadata_version": 1})
        about = {path: text for path, text in about.items() if text is not None}
        data = data or archive(stem, files, about, form, raw, parts)
        file = f"{stem}.{form}"
        self.files[f"/channel/{subdir}/{file}"] = data
        record = {**index, "size": len(data), "sha256": hashlib.sha256(data).hexdigest(), **more}
        self.records[subdir][file] = {key: value for key, value in record.items() if value is not None}

    def listing(self, subdir):
        records = self.records[subdir]
        return json.dumps({"info": {"subdir": subdir}, "repodata_version": 1,
                           "packages": {f: r for f, r in records.items() if f.endswith(".tar.bz2")},
                           "packages.conda": {f: r for f, r in records.items() if f.endswith(".conda")}}).encode()

    def answer(self, request):
        path = request.path
        self.asked.append((path, request.headers.get("Authorization")))
        parts = path.strip("/").split("/")
        status, data = 404, b"no"
        if self.user and request.headers.get("Authorization") != self.user:
            status = 401
        elif path in self.instead:
            status, data = self.instead[path]
        elif path in self.files:
            status, data = 200, self.files[path]
        elif len(parts) == 3 and parts[1] in self.records and parts[2] == "repodata.json.zst" and self.packed:
            status, data = 200, zstd(self.listing(parts[1]))
        elif len(parts) == 3 and parts[1] in self.records and parts[2] == "repodata.json":
            status, data = 200, self.listing(parts[1])
        request.send_response(status)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)
