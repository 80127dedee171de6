# SPDX-License-Identifier: Apache-2.0
"""An index of Python packages on the loopback interface, and the wheels for it, which are made on the spot."""
import atexit
import base64
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile

import loopback
from store import data_dir


def wheel(name, version, needs=(), files=None, tag="py3-none-any", metadata=None, raw=None, info_name=None):
    """(file name, bytes). files: more of its entries; raw: function(zipfile) that adds what zipfile would not."""
    out = io.BytesIO()
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    module = name.replace("-", "_")
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        entries = {f"{module}/__init__.py": f"__version__ = {version!r}\n"} if files is None else dict(files)
        entries[f"{info}/METADATA"] = metadata or metadata_of(info_name or name, version, needs)
        entries[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n"
        entries[f"{info}/RECORD"] = ""
        for path, text in entries.items():
            z.writestr(path, text)
        if raw:
            raw(z)
    return f"{module}-{version}-{tag}.whl", out.getvalue()


def metadata_of(name, version, needs=()):
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(f"Requires-Dist: {n}\n" for n in needs)


class Index:
    """kind: "json" (PEP 691) or "html" (PEP 503). What it was asked for is in `asked`."""

    def __init__(self, kind="json", user=None):
        self.kind, self.user = kind, user
        self.files, self.pages, self.asked = {}, {}, []
        self.ranges = False   # whether it can send a part of a file alone
        self.no_ends = None   # how it answers who asks for the end of a file, if it can send other parts alone
        self.sent = []        # of the files it has: (path, bytes)
        self.clients = set()  # their addresses: each is a connection
        self.down = None      # a part of a path: such requests are cut off
        self.instead = {}     # path: (status, headers, bytes or a generator), or what gives these
        index = self

        class Handler(loopback.Handler):
            def do_GET(self):
                index.answer(self)

        self.server = loopback.Server(Handler)
        self.base = f"http://{self.server.host}"
        self.url = self.base + "/simple/"

    def add(self, name, version, *args, yanked=False, python=None, digest=None, listed_metadata=True, **kw):
        file, data = wheel(name, version, *args, **kw)
        self.put(name, file, data, yanked, python, digest, listed_metadata)

    def put(self, name, file, data, yanked=False, python=None, digest=None, listed_metadata=True):
        self.server.serve()
        path = f"/files/{file}"
        self.files[path] = data
        metadata = None
        if file.endswith(".whl") and listed_metadata:
            with zipfile.ZipFile(io.BytesIO(data)) as z:
                names = [n for n in z.namelist() if n.endswith(".dist-info/METADATA")]
                metadata = z.read(names[0]) if names else None
        if metadata is not None:
            self.files[path + ".metadata"] = metadata
        self.pages.setdefault(name, []).append({
            "filename": file, "url": f"../../files/{file}" if self.kind == "json" else self.base + path,
            "hashes": {"sha256": digest or hashlib.sha256(data).hexdigest()}, "size": len(data), "yanked": yanked,
            "requires-python": python, "core-metadata": metadata is not None})

    def hold(self, name):
        """A page that comes only when the event is set that this returns."""
        gate = threading.Event()

        def page():
            gate.wait(60)
            yield b"{}"
        self.instead[f"/simple/{name}/"] = 200, {"Content-Type": "application/vnd.pypi.simple.v1+json"}, page
        return gate

    def html(self, files):
        lines = []
        for f in files:
            more = ' data-yanked=""' if f["yanked"] else ""
            more += f' data-requires-python="{f["requires-python"].replace(">", "&gt;")}"' if f["requires-python"] else ""
            more += ' data-core-metadata="true"' if f["core-metadata"] else ""
            lines.append(f'<a href="{f["url"]}#sha256={f["hashes"]["sha256"]}"{more}>{f["filename"]}</a>')
        return "<!DOCTYPE html><html><body>" + "<br>\n".join(lines) + "</body></html>"

    def answer(self, request):
        path = request.path
        self.asked.append(path)
        self.clients.add(request.client_address)
        if self.down and self.down in path:
            request.close_connection = True
            request.connection.close()
            return
        status, headers, data = 404, {}, b"no"
        parts = path.strip("/").split("/")
        if self.user and request.headers.get("Authorization") != "Basic " + base64.b64encode(self.user.encode()).decode():
            status = 401
        elif path in self.instead:
            instead = self.instead[path]
            status, headers, data = instead() if callable(instead) else instead
        elif parts[0] == "simple" and len(parts) == 2 and parts[1] in self.pages:
            status, files = 200, self.pages[parts[1]]
            if self.kind == "json":
                headers["Content-Type"] = "application/vnd.pypi.simple.v1+json"
                data = json.dumps({"meta": {"api-version": "1.0"}, "name": parts[1], "files": files}).encode()
            else:
                headers["Content-Type"] = "text/html; charset=utf-8"
                data = self.html(files).encode()
        elif path in self.files:
            status, data = 200, self.files[path]
            first, dash, last = request.headers.get("Range", "").partition("bytes=")[2].partition("-")
            if self.no_ends and dash and not first:
                status, data = self.no_ends, b"no"
            elif self.ranges and dash:
                whole = data
                at, end = (int(first), int(last) + 1) if first else (max(len(whole) - int(last), 0), len(whole))
                status, data = 206, whole[at:end]
                headers["Content-Range"] = f"bytes {at}-{at + len(data) - 1}/{len(whole)}"
            self.sent.append((path.rpartition("/")[2], len(data)))
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        if isinstance(data, bytes):
            request.send_header("Content-Length", str(len(data)))
            request.end_headers()
            request.wfile.write(data)
        else:
            request.send_header("Connection", "close")
            request.end_headers()
            request.close_connection = True
            for piece in data():
                request.wfile.write(piece)


def own_data(images=("python",)):
    """A store of packages that is not the user's, beside links to the files of the user's images; the first has to be there."""
    data = data_dir()
    if not os.path.isdir(os.path.join(data, "images", images[0])):
        print(f"1..0 # SKIP there is no image {images[0]}; codebox image build {images[0]}")
        sys.exit(0)
    own = tempfile.mkdtemp(prefix="cbx-test-", dir=data)
    atexit.register(shutil.rmtree, own, True)
    os.mkdir(os.path.join(own, "images"))
    for image in (os.path.join(data, "images", name) for name in images):
        if os.path.isdir(image):
            subprocess.run(["cp", "-al", image, os.path.join(own, "images")], check=True)
    for path in own, os.path.join(own, "images"):
        shutil.copystat(data, path)
        os.chown(path, os.stat(data).st_uid, os.stat(data).st_gid)
    return own
