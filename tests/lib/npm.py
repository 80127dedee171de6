# SPDX-License-Identifier: Apache-2.0
"""A registry of npm packages on the loopback interface, and their archives, which are made on the spot."""
import base64
import hashlib
import io
import json
import tarfile
import urllib.parse

import loopback


def archive(name, version, manifest=None, files=None, raw=None, top="package"):
    """files: more of its entries; raw: function(tarfile) that adds what is not a file."""
    out = io.BytesIO()
    manifest = {"name": name, "version": version, "main": "index.js", **(manifest or {})}
    entries = {"package.json": json.dumps(manifest), "index.js": f"exports.version = {version!r};\n", **(files or {})}
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for path, text in entries.items():
            data = text if isinstance(text, bytes) else text.encode()
            entry = tarfile.TarInfo(f"{top}/{path}")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
        if raw:
            raw(tar)
    return out.getvalue()


class Registry:
    """What it was asked for is in `asked`, as (path, Authorization)."""

    def __init__(self, token=None):
        self.token = token
        self.files, self.pages, self.asked = {}, {}, []
        registry = self

        class Handler(loopback.Handler):
            def do_GET(self):
                registry.answer(self)

        self.server = loopback.Server(Handler)
        self.host = self.server.host
        self.url = f"http://{self.host}/"

    def add(self, name, version, needs=None, integrity=None, data=None, files=None, raw=None, manifest=None, top="package",
            page_only=None, **more):
        """more: members of the page's entry, such as peerDependencies. page_only: likewise, that replace others at last."""
        self.server.serve()
        if needs:
            more["dependencies"] = needs
        data = data or archive(name, version, {**more, **(manifest or {})}, files, raw, top)
        path = f"/{name}/-/{name.split('/')[-1]}-{version}.tgz"
        self.files[path] = data
        page = self.pages.setdefault(name, {"name": name, "dist-tags": {}, "versions": {}})
        sha512 = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
        dist = {"tarball": self.url + path[1:], "integrity": sha512 if integrity is None else integrity,
                "unpackedSize": len(data)}
        page["versions"][version] = {"name": name, "version": version, "dist": dist, **more, **(page_only or {})}
        if "-" not in version:
            page["dist-tags"]["latest"] = version

    def answer(self, request):
        path = urllib.parse.unquote(request.path)
        login = request.headers.get("Authorization")
        self.asked.append((request.path, login))
        status, data = 404, b"{}"
        if self.token and login != f"Bearer {self.token}":
            status = 401
        elif path in self.files:
            status, data = 200, self.files[path]
        elif path[1:] in self.pages and request.path.count("/") == 1:  # a scope's slash is written %2f
            status, data = 200, json.dumps(self.pages[path[1:]]).encode()
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)
