#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recipes with wheels: codebox image lock finds them, in a sandbox and under the policy; codebox image build takes what the
lock names, by its sum, and nothing else. The index is on the loopback interface; tiny.py has the rest of the image."""
import glob
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from cbxtest import Box, Skip, run  # noqa: E402
from pypi import Index, own_data, wheel  # noqa: E402
from tiny import PYTHON, Builder, need  # noqa: E402

HOST = subprocess.run([PYTHON, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True,
                      check=True).stdout.strip() if os.path.exists(PYTHON) else "3.11"
MACHINE = os.uname().machine
HERE_IS = f"{HOST}-{MACHINE}"
WHEELS = ["mine", "native>=1"]
COMPILE = ["usr/share/tiny", "usr/local/lib/python3*"]


def filled(index):
    """Not before the tests run, which is in another process."""
    if index.pages:
        return index
    index.add("mine", "1.0", ["needed>=2", "only-arm; platform_machine == 'aarch64'", "old; python_version < '3.12'"], files={
        "mine/__init__.py": "import needed\n__version__ = '1.0'\ndef main(): print('mine, with', needed.__version__)\n",
        "mine/tests/test_mine.py": "assert False\n", "mine/data.txt": "text\n",
        "mine-1.0.data/data/share/mine/more.txt": "more\n",
        "mine-1.0.dist-info/entry_points.txt": "[console_scripts]\nrun-mine = mine:main\n"})
    for name, version in (("needed", "1.0"), ("needed", "2.0"), ("only-arm", "1.0"), ("old", "1.0")):
        index.add(name, version)
    for python in "311", "312", "313", "314":
        for platform in "manylinux_2_28_x86_64", "manylinux2014_aarch64", "musllinux_1_2_x86_64":
            index.add("native", "1.0", tag=f"cp{python}-cp{python}-{platform}")
    index.add("native", "2.0", tag="cp311-cp311-manylinux_2_39_x86_64")  # needs a newer C library
    index.add("native", "3.0", tag="cp311-cp311-macosx_11_0_arm64")
    return index


index = Index()


class Locker(Box):
    """Images to resolve in are the user's."""

    def __init__(self, **packages):
        super().__init__(CODEBOX_POOL="0", CODEBOX_DATA_DIR=data)
        self.env["CODEBOX_POLICY"] = os.path.join(self.dir, "policy.json")
        with open(self.env["CODEBOX_POLICY"], "w") as f:
            json.dump({"include": ["default"], "packages": {"index": filled(index).url, **packages}}, f)
        self.recipe = os.path.join(self.dir, "tiny.json")
        self.file = os.path.join(self.dir, "tiny.lock")

    def lock(self, *args, wheels=WHEELS):
        with open(self.recipe, "w") as f:
            json.dump({"name": "tiny", "kind": "debian", "packages": ["tiny"], "wheels": wheels,
                       "interpreters": {"python": {"argv": [PYTHON]}}}, f)
        return self("image", "lock", *args, self.recipe)

    def locked(self, target):
        """What the lock has for a target."""
        with open(self.file) as f:
            lock = json.load(f)
        number = lock["targets"].index(target)
        return {w["file"] for w in lock["wheels"] if number in w.get("for", [number])}


def forget():
    """The pages of the index that are used again for some minutes."""
    for path in glob.glob(os.path.join(data, "packages", "c", "*")):
        os.unlink(path)


def sums(*files, where=None):
    """The wheels of a lock for this machine's Python, from the index."""
    pages = {f["filename"]: (name, f) for name, page in (where or index).pages.items() for f in page}
    return [{"name": pages[file][0], "version": file.split("-")[1], "file": file,
             "sha256": pages[file][1]["hashes"]["sha256"], "size": pages[file][1]["size"]} for file in files]


def native():
    platform = {"x86_64": "manylinux_2_28_x86_64", "aarch64": "manylinux2014_aarch64"}[MACHINE]
    tag = "cp" + HOST.replace(".", "")
    return f"native-1.0-{tag}-{tag}-{platform}.whl"


def good(where=None):
    files = ["mine-1.0-py3-none-any.whl", "needed-2.0-py3-none-any.whl", native()]
    return {"requirements": WHEELS, "targets": [HERE_IS], "wheels": sums(*files, where=where)}


class WheelBuilder(Builder):
    def __init__(self, where=None, **policy):
        super().__init__(policy)
        self.env["PIP_INDEX_URL"] = filled(where or index).url
        self.env["PIP_CONFIG_FILE"] = "/dev/null"
        self.env["HOME"] = self.dir
        for name in "UV_DEFAULT_INDEX", "UV_INDEX_URL", "XDG_CONFIG_HOME":
            self.env.pop(name, None)

    def make(self, lock, *args, wheels=WHEELS, **recipe):
        self.put("tiny.lock", lock if isinstance(lock, str) else json.dumps(lock))
        return self.build(*args, wheels=wheels, compile=COMPILE, **recipe)

    def root(self, *path):
        return os.path.join(self.env["CODEBOX_DATA_DIR"], "images", "tiny", "rootfs", *path)

    def refuse(self, says, lock, **recipe):
        r = self.make(lock, "--no-compile", **recipe)
        assert r.returncode == 1, r
        for text in says if isinstance(says, tuple) else (says,):
            assert text in r.stderr, f"{text!r} is not in: {r.stderr}"
        assert self.images() == [] and self.left() == [], (self.images(), self.left())

    def left(self):
        """What nobody will remove: codeboxd's own directory in the store is locked."""
        store = os.path.join(self.env["CODEBOX_DATA_DIR"], "packages", "d")
        return [n for n in os.listdir(store) if glob.glob(os.path.join(store, n, "[st]", "*"))] if os.path.isdir(store) else []


# ---- the lock ----

def test_a_lock_is_made_for_each_python_and_machine():
    box = Locker()
    r = box.lock()
    assert r.returncode == 1 and "--python 3.11" in r.stderr and not os.path.exists(box.file), r
    r = box.lock("--python", "3.11", "--python", "3.13", "--image", "python")
    assert r.returncode == 0 and r.stdout == f"{box.file}: 8 wheels\n", r
    both = {"mine-1.0-py3-none-any.whl", "needed-2.0-py3-none-any.whl"}
    assert box.locked("3.11-x86_64") == both | {"old-1.0-py3-none-any.whl", "native-1.0-cp311-cp311-manylinux_2_28_x86_64.whl"}
    assert box.locked("3.13-x86_64") == both | {"native-1.0-cp313-cp313-manylinux_2_28_x86_64.whl"}
    assert box.locked("3.13-aarch64") == both | {"only_arm-1.0-py3-none-any.whl",
                                                 "native-1.0-cp313-cp313-manylinux2014_aarch64.whl"}
    with open(box.file) as f:
        text = f.read()
    lock = json.loads(text)
    assert lock["requirements"] == WHEELS and "http" not in text, text
    assert [w["name"] for w in lock["wheels"]] == sorted(w["name"] for w in lock["wheels"])
    assert all("for" not in w for w in lock["wheels"] if w["name"] in ("mine", "needed"))
    # The same again, and a refresh: for the Pythons that are in it.
    assert box.lock().returncode == 0
    with open(box.file) as f:
        assert f.read() == text
    index.add("needed", "2.1")
    forget()
    try:
        assert box.lock().returncode == 0
        assert "needed-2.1-py3-none-any.whl" in box.locked("3.13-x86_64")
        assert "needed-2.0-py3-none-any.whl" not in box.locked("3.13-x86_64")
    finally:
        index.pages["needed"].pop()
        forget()
    assert box.sessions() == set(), box.sessions()
    box.stop()


def test_what_the_image_has_does_not_count():
    box = Locker()
    index.add("tabulate", "0.1")  # Debian's, which the image has, is newer
    r = box.lock("--python", HOST, wheels=["tabulate"])
    assert r.returncode == 0, r
    assert box.locked(HERE_IS) == {"tabulate-0.1-py3-none-any.whl"}
    box.stop()


def test_the_policy_judges_a_lock():
    for packages, says in (({"block": ["needed"]}, "needed 2.0 is blocked"), ({"install": False}, "packages.install")):
        box = Locker(**packages)
        r = box.lock("--python", "3.11")
        assert r.returncode == 1 and says in r.stderr and not os.path.exists(box.file), r
        box.stop()


def test_locks_that_cannot_be():
    box = Locker()
    for args, wheels, says in ((("--python", "3.11"), ["nonesuch"], "the index does not have it"),
                               (("--python", "3.11"), ["native>=2"], "native>=2"),
                               (("--python", "2.7"), WHEELS, "2.7"),
                               (("--python", "3.11;"), WHEELS, "is not a version of Python"),
                               (("--python", "3.11"), [], "has no \"wheels\""),
                               (("--python", "3.11"), ["mine @ http://localhost/mine.whl"], "\"wheels\" has an element"),
                               (("--python", "3.11"), ["--pre"], "\"wheels\" has an element"),
                               (("--python", "3.11"), ["npm:left-pad"], "\"wheels\" has an element")):
        r = box.lock(*args, wheels=wheels)
        assert r.returncode == 1 and says in r.stderr, (args, wheels, r)
        assert not os.path.exists(box.file)
    assert box("image", "lock").returncode == 2 and box("image", "lock", "--nonesuch", "python").returncode == 2
    box.stop()


# ---- the image ----

def test_wheels_become_part_of_the_image():
    box = WheelBuilder()
    r = box.make(good(), exclude=["usr/local/lib/python3*/dist-packages/*/tests/*", "usr/local/share/mine/m*"])
    assert r.returncode == 0 and "3 wheels" in r.stderr and "not compiled" not in r.stderr, r
    site = box.root("usr/local/lib", "python" + HOST, "dist-packages")
    assert sorted(n for n in os.listdir(site) if "dist-info" not in n) == ["mine", "native", "needed"], os.listdir(site)
    assert not os.path.exists(os.path.join(site, "mine/tests")) and not os.path.exists(box.root("usr/local/share/mine"))
    assert glob.glob(os.path.join(site, "mine/__pycache__/*.pyc")), os.listdir(os.path.join(site, "mine"))
    r = box("run", "--image", "tiny", "-c", "import mine, native; mine.main(); import subprocess; "
            "print(subprocess.run('/usr/local/bin/run-mine', capture_output=True, text=True).stdout)")
    assert r.stdout == "mine, with 2.0\nmine, with 2.0\n\n", r
    m = json.loads(box("image", "show", "tiny", check=True).stdout)
    assert m["wheels"] == [{k: v for k, v in w.items() if k != "size"} for w in good()["wheels"]], m["wheels"]
    assert m["lock"].startswith("sha256:") and m["lock"] != m["recipe"]
    assert box("image", "verify", "tiny").returncode == 0
    # Debian's packages of the same names are not wanted, but where the recipe names them.
    with open(os.path.join(box.env["CODEBOX_DATA_DIR"], "cache/apt/status")) as f:
        omitted = [line.split()[1] for line in f if line.startswith("Package: ")]
    assert omitted == ["python3-mine", "python3-needed", "python3-native"], omitted
    # What was fetched once is there, and on the disk once.
    index.asked.clear()
    r = box.make(good(), "--force", "--no-compile", packages=["tiny", "python3-mine"])
    assert r.returncode == 0 and index.asked == [], (r, index.asked)
    assert os.stat(os.path.join(site, "mine/data.txt")).st_nlink > 1
    with open(os.path.join(box.env["CODEBOX_DATA_DIR"], "cache/apt/status")) as f:
        assert "python3-mine" not in f.read()
    assert box.left() == [], box.left()
    box.stop()


def test_any_kind_of_index():
    for where in filled(Index("html")), filled(Index(user="me:secret")):
        box = WheelBuilder(where)
        if where.user:
            box.env["PIP_INDEX_URL"] = where.url.replace("://", "://me:secret@")
        r = box.make(good(where), "--no-compile")
        assert r.returncode == 0, r
        assert os.path.exists(box.root("usr/local/lib", "python" + HOST, "dist-packages/mine/data.txt"))
        box.stop()


def test_files_that_the_lock_does_not_mean():
    box = WheelBuilder()
    lock = good()
    lock["wheels"][1]["sha256"] = "0" * 64
    box.refuse(("needed 2.0", "needed-2.0-py3-none-any.whl", "another file of the name", "0" * 64), lock)
    lock = good()
    lock["wheels"][1]["file"] = "needed-2.5-py3-none-any.whl"
    lock["wheels"][1].update(version="2.5", sha256="1" * 64)
    box.refuse(("needed 2.5", "no file needed-2.5-py3-none-any.whl"), lock)
    lock["wheels"][1]["name"] = lock["wheels"][1]["file"] = "gone"
    lock["wheels"][1]["file"] = "gone-2.5-py3-none-any.whl"
    box.refuse(("gone 2.5", "gone-2.5-py3-none-any.whl"), lock)
    box.stop()
    box = WheelBuilder()
    # The index promises it, and sends something else.
    path = "/files/needed-2.0-py3-none-any.whl"
    index.instead[path] = (200, {}, wheel("needed", "2.0", files={"needed/evil.py": "1\n"})[1])
    try:
        box.refuse(("needed 2.0", "needed-2.0-py3-none-any.whl is not the file"), good())
    finally:
        del index.instead[path]
    box.stop()
    box = WheelBuilder()
    index.down = "/simple/"
    try:
        box.refuse("cannot be reached", good())
    finally:
        index.down = None
    box.stop()


def test_an_installation_that_only_root_reaches():
    """Root has given itself up before it starts what fetches the wheels, and what that reads is installed there, too."""
    if os.geteuid() != 0:
        raise Skip("needs root")
    box = WheelBuilder()
    closed = os.path.join(box.dir, "closed")
    os.mkdir(closed, 0o700)
    for name in ("CODEBOX_LIBEXEC_DIR", "CODEBOX_SHARE_DIR"):
        box.env[name] = shutil.copytree(os.environ[name], os.path.join(closed, name))
    r = box.make(good(), "--no-compile")
    assert r.returncode == 0 and "3 wheels" in r.stderr, r


def test_hostile_wheels():
    box = WheelBuilder()
    index.add("evil", "1.0", raw=lambda z: z.writestr("../../etc/passwd", "x"))
    index.add("liar", "1.0", info_name="other")
    for name in "evil", "liar":
        lock = {"requirements": [name], "targets": [HERE_IS], "wheels": sums(f"{name}-1.0-py3-none-any.whl")}
        box.refuse(name + " 1.0", lock, wheels=[name])
    box.stop()


def test_locks_that_make_no_sense():
    box = WheelBuilder()
    r = box.build("--no-compile", wheels=WHEELS)
    assert r.returncode == 1 and "there is no " in r.stderr and "codebox image lock" in r.stderr, r

    def changed(**members):
        lock = good()
        lock["wheels"][1].update(members)
        return {**lock, "wheels": [{k: v for k, v in w.items() if v is not None} for w in lock["wheels"]]}

    file = "needed-2.0-py3-none-any.whl"
    one = good()["wheels"][:1]
    for says, lock in (
            ((file, "needed", "has no SHA-256"), changed(sha256=None)),
            ((file, "has no SHA-256"), changed(sha256="A" * 64)),
            ("normalized name", changed(name="Needed")),
            ("has no version", changed(version=None)),
            ((file, "for"), changed(**{"for": [1]})),
            ((file, "url"), changed(url="http://localhost/")),
            ("invalid", "[]"), ("lock", "nonsense"),
            ("missing", {"requirements": WHEELS}),
            ("was made for other wheels", {**good(), "requirements": ["mine"]}),
            ("has no wheels for Python " + HERE_IS, {**good(), "targets": ["3.2-" + MACHINE]}),
            ("longer than", json.dumps(good()) + " " * (1 << 20)),
            ("more than", {**good(), "targets": [str(n) for n in range(33)]}),
            ("more than", {**good(), "wheels": one * 4001}),
            ("twice", {**good(), "wheels": one * 2}),
            ("is not a wheel of its package", changed(file="other-2.0-py3-none-any.whl"))):
        box.refuse(says if says != "invalid" else "not a JSON object", lock)
    box.refuse("python\" among \"interpreters", good(), interpreters={"bash": {"argv": ["/usr/bin/bash"]}})
    box.refuse("is not a link to a program like python3.11", good(), interpreters={"python": {"argv": ["/usr/bin/nonesuch"]}})
    box.stop()


if __name__ == "__main__":
    need()
    data = own_data()
    run(globals())
