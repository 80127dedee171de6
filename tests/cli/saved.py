#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codebox image build --from-session: what a session has installed becomes an image, of links alone; who may do it, what is
refused, and that a refused one leaves nothing."""
import glob
import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lib"), os.path.join(HERE, "..", "http")]
import installs  # noqa: E402
from cbxtest import run  # noqa: E402
from common_http import PATIENCE, Daemon  # noqa: E402
from pypi import Index, own_data  # noqa: E402

index = Index()
index.add("mine", "1.0", ["needed"], files={
    "mine/__init__.py": "import needed\ndef main(): print('mine, with', needed.__version__)\n",
    "mine-1.0.dist-info/entry_points.txt": "[console_scripts]\nrun-mine = mine:main\n"})
index.add("needed", "2.0")
index.add("tabulate", "99.0")
index.add("mine", "2.0", files={"mine/__init__.py": "__version__ = '2.0'\n"})
data = own_data()
images = os.path.join(data, "images")


def box_with(**packages):
    return installs.box_with(data, index=index.url, **packages)


box = box_with()


def cell(code, session, image=None, b=box):
    r = b("run", *(["--image", image] if image else []), "--session", session, "-c", code)
    return r.stdout + r.stderr


def install(session, *names, image=None, b=box):
    assert cell("pass", session, image, b) == ""
    b("pip", "install", "--session", session, *names, check=True)


def save(session, name, *args, b=box):
    return b("image", "build", "--from-session", session, name, *args)


def refuse(says, session, *args, b=box):
    before = sorted(os.listdir(images))
    r = save(session, *args, b=b)
    assert r.returncode == 1 and says in r.stderr, r
    assert sorted(os.listdir(images)) == before


def saved():
    """An image that the other tests use."""
    if not os.path.isdir(os.path.join(images, "saved")):
        install("one", "mine<2", "tabulate>=99")
        r = save("one", "saved")
        assert r.returncode == 0 and r.stdout.startswith("Image saved: "), r
    return "saved"


def test_what_was_installed_is_in_the_image():
    image = saved()
    use = "import mine, tabulate; mine.main(); print(tabulate.__version__)"
    assert cell(use, "new", image) == "mine, with 2.0\n99.0\n"
    assert cell("!run-mine; python3 -c 'import tabulate; print(tabulate.__version__)'", "new") == "mine, with 2.0\n99.0\n"
    assert box("exec", "new", "--", "run-mine").stdout == "mine, with 2.0\n"
    assert "Error" in cell(f"import urllib.request\nurllib.request.urlopen({index.url!r})", "new")
    # They are the image's: nothing is fetched for them, and another version is another session's.
    before = len(index.asked)
    assert "There already: mine 1.0" in box("pip", "install", "--session", "new", "mine").stdout
    assert len(index.asked) == before
    assert "No module named 'mine'" in cell("import mine", "plain")
    out = cell("import mine, os; print(os.path.exists(mine.__cached__))", "new")
    assert out == "True\n", out


def test_its_manifest_is_a_lock():
    image = saved()
    m = json.loads(box("image", "show", image, check=True).stdout)
    assert m["name"] == "saved" and m["environment"]["PATH"].startswith("/opt/codebox/saved/1/bin:"), m["environment"]
    [lock] = m["saved"]
    assert lock["base"] == "python" and lock["requirements"] == ["mine<2", "tabulate>=99"], lock
    assert [(p["name"], p["version"]) for p in lock["packages"]] == [("mine", "1.0"), ("needed", "2.0"), ("tabulate", "99.0")]
    assert all(len(p["sha256"]) == 64 and "url" not in p for p in lock["packages"]), lock
    assert box("image", "verify", image).returncode == 0


def test_nothing_is_copied():
    image = saved()
    root, base = (os.path.join(images, name, "rootfs") for name in (image, "python"))
    names = [n for n in os.listdir(base + "/usr/bin") if os.path.isfile(f"{base}/usr/bin/{n}")][:50]
    assert names and all(os.stat(f"{root}/usr/bin/{n}").st_ino == os.stat(f"{base}/usr/bin/{n}").st_ino for n in names)
    [kept] = glob.glob(data + "/packages/w/*/needed/__init__.py")
    assert os.stat(kept).st_ino == os.stat(root + "/opt/codebox/saved/1/site/needed/__init__.py").st_ino


def test_again_and_again():
    install("two", "mine>=2", image=saved())
    assert save("two", "again", "--no-compile").returncode == 0
    assert cell("import mine, needed; print(mine.__version__, needed.__version__)", "three", "again") == "2.0 2.0\n"
    assert cell("!python3 -c 'import mine; print(mine.__version__)'", "three") == "2.0\n"
    path = os.path.join(images, "again", "manifest.json")
    with open(path) as f:
        m = json.load(f)
    assert [s["base"] for s in m["saved"]] == ["python", "saved"]
    install("three", "needed", "mine<2")
    m["saved"] *= 8
    with open(path, "w") as f:
        json.dump(m, f)
    refuse("was made of a session's packages 16 times over", "three", "more")


def test_who_may_not():
    saved()
    refuse('there is no session "nobody"', "nobody", "x")
    cell("pass", "empty")
    refuse("session empty has no packages that codebox has installed", "empty", "x")
    refuse('there is an image "saved" already', "one", "saved")
    refuse("is not a name for an image", "one", "../x")
    for args in (["--from-session", "one"], ["--from-session", "one", "x", "--as", "y"], ["--from-session", "one", "x", "y"]):
        assert box("image", "build", *args).returncode == 2, args
    b = box_with(save=False)
    install("kept", "needed", b=b)
    refuse("the policy policy does not let packages of a session become an image (packages.save)", "kept", "x", b=b)
    b.stop()


def test_what_is_there_is_not_trusted():
    saved()
    install("hostile", "needed")
    [site] = [os.path.dirname(os.path.dirname(p)) for p in glob.glob(data + "/packages/d/*/s/*/site/needed/__init__.py")
              if not os.path.exists(os.path.dirname(os.path.dirname(p)) + "/tabulate")]
    bad = os.path.join(site, "bad")

    def deep():
        at = bad
        for _ in range(70):
            os.mkdir(at)
            at += "/d"
    for make, says in ((lambda: os.symlink("/etc/passwd", bad), "bad is neither a regular file nor a directory"),
                       (lambda: os.mkfifo(bad), "bad is neither a regular file nor a directory"),
                       (lambda: open(site + "/bad\x1b]0;x\n", "w").close(), "a name has control characters"),
                       (lambda: os.truncate(os.open(bad, os.O_CREAT | os.O_WRONLY), 17 << 30), "would hold more than"),
                       (deep, "too deep")):
        make()
        refuse(says, "hostile", "x", "--no-compile")
        for path in glob.glob(site + "/bad*"):
            os.system(f"rm -rf '{path}'") if os.path.isdir(path) else os.unlink(path)


def test_what_cannot_be_linked_is_copied():
    """The session's packages are on another file system than the images."""
    install("far", "mine>=2", image=saved())
    kept = box.ask("packages.list", session_id="far")["directory"]
    near = os.path.dirname(kept)  # of all sessions
    other = tempfile.mkdtemp(prefix="cbx", dir="/dev/shm")
    shutil.copystat(near, other)
    try:
        assert os.stat(other).st_dev != os.stat(images).st_dev
        subprocess.run(["cp", "-a", near, other + "/s"], check=True)
        os.rename(near, near + ".near")
        os.symlink(other + "/s", near)
        r = save("far", "copied")
        assert r.returncode == 0, r
    finally:
        if os.path.islink(near):
            os.unlink(near)
            os.rename(near + ".near", near)
        shutil.rmtree(other)
    assert cell("import mine; print(mine.__version__)", "near", "copied") == "2.0\n"
    copy = images + "/copied/rootfs/opt/codebox/saved/2"
    name = "site/mine/__init__.py"
    assert os.stat(f"{copy}/{name}").st_ino != os.stat(f"{kept}/{name}").st_ino
    assert os.stat(f"{copy}/{name}").st_mode & 0o777 == 0o644 and open(f"{copy}/{name}").read() == open(f"{kept}/{name}").read()
    # The image's own files are still links.
    name = "rootfs/opt/codebox/saved/1/site/needed/__init__.py"
    assert os.stat(f"{images}/copied/{name}").st_ino == os.stat(f"{images}/saved/{name}").st_ino
    assert box("image", "verify", "copied").returncode == 0


class Tenant:
    def __init__(self, daemon, name):
        self.port, self.token = daemon.port, daemon.token(name)

    def ask(self, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        c.request(method, path, json.dumps(body or {}), {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"})
        r = c.getresponse()
        return r.status, json.loads(r.read() or b"{}")


def test_tenants_make_no_images():
    """An image is everybody's who may name it: only who runs codeboxd makes one, and not of a tenant's session."""
    saved()
    before = sorted(os.listdir(images))
    os.environ.update(CODEBOX_DATA_DIR=data, CODEBOX_POLICY=box.env["CODEBOX_POLICY"])
    d = Daemon(tenants={"acme": {"policy": {"images": ["python"]}}, "beta": {}})
    try:
        acme, beta = Tenant(d, "acme"), Tenant(d, "beta")
        status, made = acme.ask("POST", "/sessions", {"packages": ["needed"]})
        assert status == 200, made
        session = made["session_id"]
        for method, path in (("POST", f"/sessions/{session}/image"), ("PUT", f"/sessions/{session}/image"), ("POST", "/images"),
                             ("PUT", "/images/mine"), ("POST", f"/sessions/{session}/save")):
            assert acme.ask(method, path, {"name": "mine"})[0] in (404, 405), path
        refuse(f'there is no session "{session}"', session, "mine", b=d.box)
        # Nor do tenants learn by a name which images there are, but for those that their policy has.
        status, answer = acme.ask("POST", "/sessions", {"image": "saved"})
        assert status == 403 and "allowed are: python" in answer["detail"], answer
        status, answer = beta.ask("POST", "/sessions", {"image": "mine"})
        assert status == 404 and answer["detail"] == 'there is no image "mine"; list the images', answer
        assert sorted(os.listdir(images)) == before
    finally:
        d.stop()


def test_the_image_stays_when_session_and_base_are_gone():
    image = saved()
    box("session", "rm", "one", check=True)
    assert cell("import mine; mine.main()", "last", image) == "mine, with 2.0\n"


if __name__ == "__main__":
    run(globals())
