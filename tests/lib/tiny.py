# SPDX-License-Identifier: Apache-2.0
"""Images from packages where no package can be fetched: the only one is made here, of this machine's Python, and an apt-get
that knows nothing else stands in for the real one."""
import glob
import hashlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile

from cbxtest import CODEBOX, Box, Skip

PYTHON = os.path.realpath("/usr/bin/python3")
NAME = "tiny_1_all.deb"
RECIPE = {"name": "tiny", "kind": "debian", "packages": ["tiny"], "compile": ["usr/share/tiny"],
          "interpreters": {"python": {"argv": [PYTHON]}}, "environment": {"PATH": "/usr/bin"}}
APT = """#!/bin/sh
case "$*" in
*" update "*) ;;
*" --print-uris "*) echo "'http://localhost/%(name)s' %(name)s %(size)d SHA256:%(sum)s" ;;
*" --download-only "*) cp %(deb)s %(debs)s/ ;;
*) exit 1 ;;
esac
"""


def files():
    """Python, its own modules, and the libraries of all these."""
    stdlib = subprocess.run([PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))"],
                            capture_output=True, text=True, check=True).stdout.strip()
    found = [PYTHON]
    for directory, below, names in os.walk(stdlib):
        below[:] = [d for d in below if d not in ("test", "tests", "__pycache__", "idlelib", "dist-packages",
                                                  "site-packages", "lib2to3", "ensurepip") and "config-" not in d]
        found += [os.path.join(directory, n) for n in names]
    binaries = [PYTHON] + glob.glob(stdlib + "/lib-dynload/*.so")
    said = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=False).stdout
    return sorted({*found, *(w for w in said.split() if w.startswith("/") and not w.endswith(":"))})


def make_deb(path):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name in files():
            tar.add(os.path.realpath(name), "." + name, recursive=False)
        for name, text in (("small", "x = 1\n"), ("large", f"x = {random.Random(1).randbytes(2 << 20)!r}\n")):
            info = tarfile.TarInfo(f"./usr/share/tiny/{name}.py")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    with open(path, "wb") as f:
        f.write(b"!<arch>\n")
        for name, content in ((b"debian-binary", b"2.0\n"), (b"data.tar", data.getvalue())):
            f.write(b"%-16s%-12d%-6d%-6d%-8s%-10d`\n" % (name, 0, 0, 0, b"100644", len(content)) + content)
            f.write(b"\n" * (len(content) % 2))


class Builder(Box):
    """A store of its own, and a policy. All have the same package."""

    deb = None

    def __init__(self, policy):
        super().__init__()
        self.env["CODEBOX_DATA_DIR"] = os.path.join(self.dir, "data")
        self.env["CODEBOX_POLICY"] = self.put("site.json", json.dumps(policy))
        if not Builder.deb:
            Builder.made = Box()
            Builder.deb = os.path.join(Builder.made.dir, NAME)
            make_deb(Builder.deb)
        with open(self.deb, "rb") as f:
            text = f.read()
        self.apt = self.put("apt-get", APT % {
            "name": NAME, "size": len(text), "sum": hashlib.sha256(text).hexdigest(), "deb": self.deb,
            "debs": self.env["CODEBOX_DATA_DIR"] + "/cache/debs"}, 0o755)
        self("session", "ls", check=True)
        assert self.hello(), "no codeboxd"

    def put(self, name, text, mode=0o644):
        path = os.path.join(self.dir, name)
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, mode)
        return path

    def recipe(self, **members):
        return self.put("tiny.json", json.dumps({**RECIPE, **members}))

    def build(self, *args, **recipe):
        path = self.recipe(**recipe)
        ids = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
        script = 'mount --bind "$1" /usr/bin/apt-get || exit 9; shift; exec "$@"'
        r = subprocess.run(["unshare", *ids, "--mount", "sh", "-c", script, "sh", self.apt, CODEBOX, "image", "build",
                            path, *args], env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           timeout=600)
        if r.returncode == 9:
            raise Skip("nothing can be mounted here")
        return r

    def compiled(self):
        where = os.path.join(self.env["CODEBOX_DATA_DIR"], "images", "tiny", "rootfs/usr/share/tiny/__pycache__/*")
        return sorted(os.path.basename(p).split(".")[0] for p in glob.glob(where))

    def works(self):
        code = "import sys; sys.path.append('/usr/share/tiny'); import small; small.x"
        r = self("run", "--image", "tiny", "-c", code)
        return (r.returncode, r.stdout.strip()) == (0, "1") or r


def need():
    """Skips the whole script where there is nothing to make the package of."""
    if not os.access("/usr/bin/apt-get", os.X_OK) or not shutil.which("ldd") or not os.path.exists(PYTHON):
        print("1..0 # SKIP there is no apt-get, ldd or Python to make a package of")
        sys.exit(0)
