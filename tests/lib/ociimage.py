# SPDX-License-Identifier: Apache-2.0
"""Images as other tools write them, made here: OCI layouts, what docker save writes, and layers."""
import gzip
import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import tarfile

from cbxtest import Skip
from store import images_dir

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Layer:
    """A tar archive in memory."""

    def __init__(self):
        self.out = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.out, mode="w", format=tarfile.PAX_FORMAT)

    def add(self, name, kind=tarfile.REGTYPE, mode=0o755, link="", content=b"", mtime=1700000000):
        info = tarfile.TarInfo(name)
        info.type, info.mode, info.linkname, info.size, info.mtime = kind, mode, link, len(content), mtime
        self.tar.addfile(info, io.BytesIO(content) if content else None)
        return self

    def file(self, name, content=b"x", mode=0o644):
        return self.add(name, mode=mode, content=content)

    def link(self, name, target):
        return self.add(name, tarfile.SYMTYPE, link=target)

    def tree(self, root, names):
        """Files of the machine, without following links, at their names beneath root."""
        for name in names:
            self.tar.add(os.path.join(root, name), name, recursive=False)
        return self

    def bytes(self):
        self.tar.close()
        return self.out.getvalue()


class Image:
    """Layers are (plain bytes, "" or "gzip" or "zstd"[, packed bytes])."""

    def __init__(self, layers, config=None, arch=ARCH, variant=None):
        self.blobs = {}
        self.plain = [layer[0] for layer in layers]
        self.config = {"architecture": arch, "os": "linux", "config": config or {},
                       "rootfs": {"type": "layers", "diff_ids": [digest(p) for p in self.plain]}}
        if variant:
            self.config["variant"] = variant
        descriptors = []
        for plain, how, *packed in layers:
            data = packed[0] if packed else plain if not how else gzip.compress(plain, 1)
            descriptors.append(self.blob(data, LAYER + ("+" + how if how else "")))
        self.manifest = {"schemaVersion": 2, "mediaType": MANIFEST,
                         "config": self.blob(json.dumps(self.config).encode(), CONFIG), "layers": descriptors}
        self.top = self.blob(json.dumps(self.manifest).encode(), MANIFEST)
        self.top["platform"] = {"os": "linux", "architecture": arch, **({"variant": variant} if variant else {})}

    def blob(self, data, media):
        self.blobs[digest(data)] = data
        return {"mediaType": media, "digest": digest(data), "size": len(data)}


def layout(images, tags=(), nested=False, **extra):
    """The files of an OCI layout: {name: bytes}."""
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}
    tops = []
    for n, image in enumerate(images):
        tops.append(dict(image.top))
        if n < len(tags):
            tops[-1]["annotations"] = {"org.opencontainers.image.ref.name": tags[n]}
        for name, data in image.blobs.items():
            files["blobs/sha256/" + name[7:]] = data
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": tops, **extra}
    for _ in range(int(nested)):
        data = json.dumps(index).encode()
        files["blobs/sha256/" + digest(data)[7:]] = data
        index = {"schemaVersion": 2, "manifests": [{"mediaType": INDEX, "digest": digest(data), "size": len(data)}]}
    files["index.json"] = json.dumps(index).encode()
    return files


def saved(images, tags=()):
    """The files of what docker save wrote before it wrote OCI layouts."""
    files, entries = {}, []
    for n, image in enumerate(images):
        config = json.dumps(image.config).encode()
        name = digest(config)[7:] + ".json"
        files[name] = config
        layers = []
        for i, plain in enumerate(image.plain):
            layers.append(f"{n}{i}/layer.tar")
            files[layers[-1]] = plain
        entries.append({"Config": name, "RepoTags": [tags[n]] if n < len(tags) else None, "Layers": layers})
    files["manifest.json"] = json.dumps(entries).encode()
    return files


def write_dir(files, path):
    for name, data in files.items():
        full = os.path.join(path, name)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as f:
            f.write(data)
    return path


def write_tar(files, path, links=()):
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for name, target in links:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
    return path


def libraries(program):
    """What the machine's loader gives a program: {name: path}."""
    found = {}
    for line in subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout.splitlines():
        words = [w for w in line.split() if w.startswith("/")]
        if words:
            found[words[-1].lstrip("/")] = os.path.realpath(words[-1])
    return found


def add(layer, name, path, mode=0o755):
    with open(path, "rb") as f:
        return layer.file(name, f.read(), mode)


def bash_layer(tree):
    """Like Fedora: /usr merged and with lib64, a cache of the loader, bash and a few programs of this machine. tree: a
    directory to work in."""
    layer = Layer().file("etc/os-release", b"ID=fedora\nVERSION_ID=42\n")
    for name in ("bin", "lib", "lib64", "sbin"):
        layer.link(name, "usr/" + name)
    shutil.rmtree(tree, ignore_errors=True)
    os.makedirs(tree + "/usr/lib64")
    os.makedirs(tree + "/etc")
    for program in ("bash", "cat", "ls", "sleep", "id", "env", "head", "touch", "mkdir"):
        path = shutil.which(program)
        add(layer, "usr/bin/" + program, path)
        for library in libraries(path).values():
            shutil.copy(library, tree + "/usr/lib64")
    with open(tree + "/etc/ld.so.conf", "w") as f:
        f.write("/usr/lib64\n")
    # The loader is called by the name that programs have in them, in lib64 or in lib.
    for name, path in libraries(shutil.which("bash")).items():
        if os.path.basename(name).startswith("ld-"):
            add(layer, "usr/" + name.removeprefix("usr/"), path)
    subprocess.run(["/sbin/ldconfig", "-r", tree], check=True)
    add(layer, "etc/ld.so.cache", tree + "/etc/ld.so.cache", 0o644)
    for name in sorted(os.listdir(tree + "/usr/lib64")):
        path = os.path.join(tree, "usr/lib64", name)
        if os.path.islink(path):
            layer.link("usr/lib64/" + name, os.readlink(path))
        elif not name.startswith("ld-"):
            add(layer, "usr/lib64/" + name, path)
    return layer.link("usr/bin/sh", "bash")


def python_layers():
    """A Debian as small as one runs cells: from the files of the user's image python."""
    root = os.path.join(images_dir(), "python", "rootfs")
    if not os.path.exists(os.path.join(root, "usr/bin/python3")):
        raise Skip("the image python is not in the store; codebox image build python")
    base, python = [], []
    for at, dirs, names in os.walk(root):
        here = os.path.relpath(at, root)
        skip = ("dist-packages", "__pycache__", "share", "openblas-pthread", "perl", "perl5", "git-core", "gcc", "test")
        dirs[:] = sorted(d for d in dirs if d not in skip and here.split("/")[0] not in ("proc", "sys", "dev", "home"))
        for name in sorted(names + [d for d in dirs if os.path.islink(os.path.join(at, d))]):
            full = os.path.normpath(os.path.join(here, name))
            if os.path.islink(os.path.join(root, full)) or os.path.getsize(os.path.join(root, full)) < 8 << 20:
                (python if "python3" in full else base).append(full)
    return [(Layer().tree(root, base).bytes(), ""), (Layer().tree(root, python).bytes(), "gzip")]
