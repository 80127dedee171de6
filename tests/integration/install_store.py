#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One copy of each package is kept for all sessions: none sees or changes what another has, and what does not fit, or was
changed, is not used."""
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import CODEBOX, Skip, run, wait_until  # noqa: E402
from installs import Site, names  # noqa: E402
from pypi import own_data  # noqa: E402

site = Site()
index, box, image, data = site.index, site.box, site.image, site.data
box_with, cell, install, ready = site.box_with, site.cell, site.install, site.ready


def test_sessions_cannot_see_each_others():
    ready("one")
    ready("two")
    look = ("import os, base_package\nprint(base_package.__file__.split('/')[3], os.listdir('/run/codebox-packages'))\n"
            "for path in '/run/codebox-packages/new', os.path.dirname(base_package.__file__) + '/new':\n"
            "    try: os.mkdir(path)\n    except OSError as e: print(e.strerror)\n"
            "for line in open('/proc/self/mountinfo'):\n"
            "    if '/run/codebox-packages' in line: print(line.split()[3:6], line.split(' - ')[1].split()[0])")
    seen = []
    for session in "one", "two":
        out, err = cell(look, session)
        lines = out.splitlines()
        name, rest = lines[0].split(None, 1)
        assert rest == f"['{name}']" and len(name) == 26 and name not in seen, (out, err)
        # Nothing can be made there. Each is an overlay: inodes and locks are the session's own, and no path is shown.
        assert lines[1:3] == ["Read-only file system"] * 2, (out, err)
        assert sorted(lines[3:]) == ["['/', '/run/codebox-packages', 'ro,nosuid,nodev,relatime'] tmpfs",
                                     f"['/', '/run/codebox-packages/{name}', 'ro,nosuid,nodev,relatime'] overlay"], (out, err)
        seen.append(name)
    r = cell(f"import os; os.path.exists('/run/codebox-packages/{seen[0]}')", "two")
    assert r == ("False\n", ""), r


def stored(b=box):
    store = os.path.join(b.env["CODEBOX_DATA_DIR"], "packages", "w")
    return {os.path.join(d, f): os.stat(os.path.join(d, f)) for d, _, files in os.walk(store) for f in files}


def test_all_sessions_share_one_copy():
    ready("one")
    ready("two")
    links = [s.st_nlink for path, s in stored().items() if path.endswith("base_package/__init__.py")]
    assert links and links[0] >= 3, links  # the store's, and one of each session
    asked = len(index.asked)
    ready("three")
    assert index.asked[asked:] == [], index.asked[asked:]  # page, metadata and wheel are in the cache
    for session in "one", "two", "three":
        box("session", "rm", session, check=True)
    own = os.path.join(box.env["CODEBOX_DATA_DIR"], "packages", "d")

    def gone():
        return [s.st_nlink for path, s in stored().items() if path.endswith("base_package/__init__.py")][0] < links[0]
    assert wait_until(gone), os.listdir(own)


def changed(session, path, how):
    """What a session gets of a package when this was done to its file in the store; and what was said."""
    (file,) = [p for p in stored() if p.endswith(path)]
    how(file)
    answer = install("kept", session=session)
    if isinstance(answer, str):
        return answer, ()
    return cell("import kept; kept.x", session), answer.get("warnings", ())


def test_what_is_kept_has_a_quota():
    """What was used longest ago goes, but not while a session has it."""
    store = os.path.join(box.env["CODEBOX_DATA_DIR"], "packages", "w")
    b = box_with(cache="1M")
    for i in range(3):
        index.add(f"kept-{i}", "1.0", files={f"kept_{i}.py": "x = 5\n", f"kept_{i}.bin": os.urandom(600 << 10)})

    def there():
        held = [open(os.path.join(store, name, path)).read() for name in os.listdir(store) for path in os.listdir(
            os.path.join(store, name)) if path.endswith(".dist-info") for path in [path + "/METADATA"]]
        return [i for i in range(3) if any(f"Name: kept-{i}\n" in text for text in held)]
    install("kept-0", session="q0", b=b)
    install("kept-1", session="q1", b=b)
    assert there() == [0, 1]  # both are in use
    b("session", "rm", "q0", check=True)
    install("kept-2", session="q2", b=b)
    assert there() == [1, 2], there()
    assert cell("import kept_1; kept_1.x", "q1", b)[0] == "5\n"
    b.stop()


def test_what_was_changed_in_the_store_is_not_used():
    index.add("kept", "1.0", files={"kept/__init__.py": "x = 1\n", "kept/more.py": ""})
    wheel_path = "/files/kept-1.0-py3-none-any.whl"
    assert names(install("kept", session="kept0")["installed"]) == ["kept 1.0"]
    unasked = index.asked.count(wheel_path)
    assert changed("kept1", "kept/__init__.py", lambda file: None) == (("1\n", ""), ())
    assert index.asked.count(wheel_path) == unasked, index.asked

    def write(file):
        with open(file, "w") as f:
            f.write("x = 2\n")

    def write_and_hide(file):
        """The time of the file's last change is as before, and its tree was not compared for days."""
        st = os.stat(file)
        write(file)
        os.utime(file, ns=(st.st_atime_ns, st.st_mtime_ns))
        noted = os.path.join(data, "packages", "m")
        for name in os.listdir(noted):
            os.utime(os.path.join(noted, name), (1, 1))

    def add(file):
        with open(os.path.join(os.path.dirname(file), "added.py"), "w"):
            pass

    for i, how in enumerate((write, write_and_hide, os.unlink, add, lambda file: os.chmod(file, 0o755),
                             lambda file: shutil.rmtree(os.path.dirname(os.path.dirname(file))))):
        result, warnings = changed(f"kept{i + 2}", "kept/__init__.py", how)
        assert result == ("1\n", ""), (i, result)
        unasked += 1
        assert index.asked.count(wheel_path) == unasked, (i, index.asked)
        assert i == 5 or ["kept 1.0: what the store" in w and "it was fetched again" in w for w in warnings] == [True], warnings
    # What was only touched is what it was.
    assert changed("kept8", "kept/__init__.py", os.utime) == (("1\n", ""), ())
    assert index.asked.count(wheel_path) == unasked
    # Where it cannot be fetched again it is not there at all.
    index.down = "kept-1.0"
    answer, _ = changed("kept9", "kept/__init__.py", write)
    index.down = None
    assert "kept 1.0" in answer and "cannot be reached" in answer, answer
    assert "No module named 'kept'" in cell("import kept", "kept9")[1]
    assert names(install("kept", session="kept9")["installed"]) == ["kept 1.0"]
    assert cell("import kept; kept.x", "kept9") == ("1\n", "")
    for i in range(10):
        box("session", "rm", f"kept{i}")


FULL = """
import ctypes, json, os, subprocess, sys
data, codebox, image, name = sys.argv[1:]
assert ctypes.CDLL(None).mount(b"none", (data + "/packages").encode(), b"tmpfs", 0, b"size=4m,mode=700") == 0
def run(*args):
    r = subprocess.run([codebox, *args], capture_output=True, text=True)
    print(json.dumps([r.returncode, r.stdout, r.stderr]), flush=True)
run("run", "--image", image, "--session", "s", "-c", "x = 7")
for package in name + "-a", "small":
    run("pip", "install", "--session", "s", "--json", package)
run("run", "--image", image, "--session", "s", "-c", "import small; x, small.__name__")
run("stop")
"""


def test_a_full_disk():
    """The store of packages has a file system of its own, which is full; the session lives, and what fits is installed."""
    own = own_data()
    os.makedirs(os.path.join(own, "packages"), exist_ok=True)
    shutil.copystat(data, os.path.join(own, "packages"))
    os.chown(os.path.join(own, "packages"), os.stat(data).st_uid, os.stat(data).st_gid)
    unshare = ["unshare", "-Um", "--map-current-user", "--keep-caps"] if os.geteuid() else ["unshare", "-m"]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode:
        raise Skip("mount namespaces cannot be made here")
    for a, b in (("-a", "-b"), ("-b", "-c"), ("-c", "")):
        index.add("filling" + a, "1", ["filling" + b])
    index.add("filling", "1", files={"filling.bin": os.urandom(3 << 20)})
    index.add("small", "1")
    b = box_with()
    b.env["CODEBOX_DATA_DIR"] = own
    r = subprocess.run([*unshare, sys.executable, "-c", FULL, own, CODEBOX, image, "filling"], env=b.env, capture_output=True,
                       text=True, timeout=300)
    made, full, small, used, _ = map(json.loads, r.stdout.splitlines())
    assert made[0] == 0, (made, r.stderr)
    message = json.loads(full[1])["error"]["message"]
    way = "filling-a → filling-b → filling-c → filling"
    failed, _, why = message.partition(" 1: ")  # whichever comes when there is no room
    assert "No space left" in why and way.startswith(why.partition("needed by ")[2]) and failed in way, message
    assert small[0] == 0 and used[1] == "(7, 'small')\n", (small, used)


def test_a_session_whose_disk_is_full():
    """Packages take no room of it, but for a line."""
    index.add("roomy", "1.0", files={"roomy.py": "x = 5\n", "roomy.bin": os.urandom(3 << 20)})
    fill = ("import os\nfor place in '/workspace/fill', '/tmp/fill', os.path.expanduser('~/fill'):\n    try:\n"
            "        with open(place, 'wb', buffering=0) as f:\n            while True: f.write(bytes(4096))\n"
            "    except OSError as e: print(e.errno)\n"
            "try:\n    for i in range(100000): open(f'/tmp/{i}', 'w').close()\nexcept OSError as e: print(e.errno)")
    r = box("run", "--image", image, "--session", "full", "--disk", "1M", "-c", fill)
    assert r.stdout.split() == ["28"] * 4, r
    answer = install("roomy", session="full")
    assert "the disk of session full is full" in answer and "remove files of the session, or use one with more disk" in answer, answer
    assert cell("os.remove('/workspace/fill')", "full") == ("", "")
    assert names(install("roomy", session="full")["installed"]) == ["roomy 1.0"]
    assert cell("import roomy; roomy.x", "full") == ("5\n", "")


if __name__ == "__main__":
    run(globals())
