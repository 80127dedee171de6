#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an index, a wheel or a resolver may do to codebox: it harms nothing outside of the session that asked for it, and an
installation that is given up leaves nothing."""
import os
import shutil
import signal
import stat
import sys
import threading
import time
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import named, run, wait_until  # noqa: E402
from control import Control  # noqa: E402
from installs import Site, names  # noqa: E402

site = Site()
index, box = site.index, site.box
box_with, cell, install, ready, unharmed = site.box_with, site.cell, site.install, site.ready, site.unharmed


def test_files_that_are_not_what_the_index_promised():
    ready()
    index.add("forged", "1.0", digest="0" * 64)
    index.add("other-name", "1.0", info_name="beta")
    index.add("no-metadata", "1.0", listed_metadata=False)
    assert "is not the file that the index promised" in install("forged")
    assert "says of itself that it is another package" in install("other-name")
    assert names(install("no-metadata")["installed"]) == ["no-metadata 1.0"]
    unharmed()


def evil(name, files=None, raw=None):
    index.pages.pop(name, None)
    index.add(name, "1.0", files=files or {f"{name}.py": "x = 1\n"}, raw=raw)
    return install(name)


def test_hostile_wheels():
    ready()
    store = os.path.join(box.env["CODEBOX_DATA_DIR"], "packages")

    def link(z):
        entry = zipfile.ZipInfo("e/link")
        entry.create_system, entry.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        z.writestr(entry, "/etc/passwd")

    def setuid(z):
        entry = zipfile.ZipInfo("setuid.sh")
        entry.create_system, entry.external_attr = 3, (stat.S_IFREG | 0o6755) << 16
        z.writestr(entry, "#!/bin/sh\n")

    def packed_zeros(z):
        entry = zipfile.ZipInfo("zeros")
        entry.compress_type = zipfile.ZIP_DEFLATED
        with z.open(entry, "w", force_zip64=True) as f:
            for _ in range(100):
                f.write(bytes(1 << 20))

    for name, files in (("up1", {"../../up": "x"}), ("up2", {"a/../../../up": "x"}), ("root", {"/tmp/cbx-evil": "x"}),
                        ("data-up", {"data_up-1.0.data/data/../../../up": "x"}), ("control", {"a\nb.py": "x"}),
                        ("deep", {"/".join("d" * 70) + "/x": "x"})):
        answer = evil(name, files)
        assert isinstance(answer, str), (name, answer)
    assert "is not a regular file" in evil("linked", raw=link)
    assert "looks like a bomb" in evil("bomb", raw=packed_zeros)
    assert "more than 50000 entries" in evil("many", {f"m/{i}": "" for i in range(50000)})
    for line in ("../../evil = os:system", "a/b = os:system", "x = os;import os:system", "x = os:system)(1"):
        answer = evil("points", {"points-1.0.dist-info/entry_points.txt": f"[console_scripts]\n{line}\n"})
        assert isinstance(answer, str) or "/" not in line, (line, answer)
    # These are harmless: bits are dropped, and no file of a package is run when an interpreter starts.
    assert isinstance(evil("with-setuid", raw=setuid), dict)
    assert isinstance(evil("with-pth", {"evil.pth": "import os; os.environ['EVIL'] = '1'\n", "with_pth.py": ""}), dict)
    out, err = cell("import os, stat, with_pth\nd = os.path.dirname(with_pth.__file__)\n"
                    "print(os.environ.get('EVIL'), oct(os.stat(d + '/setuid.sh').st_mode), os.stat(d).st_uid)\n"
                    "!python3 -c 'import os; print(os.environ.get(\"EVIL\"))'\n"
                    "for path in d + '/new', d + '/with_pth.py':\n"
                    "    try: open(path, 'w'); print('written')\n"
                    "    except OSError as e: print(e.strerror)")
    lines = out.split("\n")
    assert lines[0].startswith("None 0o100755"), (out, err)
    assert lines[1:4] == ["None", "Read-only file system", "Read-only file system"], (out, err)
    assert not os.path.exists("/tmp/cbx-evil") and not os.path.exists(os.path.join(store, "up"))
    unharmed()


def test_connections_are_used_again():
    """Of a resolver, whose every question follows from the one before."""
    for i in range(12):
        index.add(f"link-{i}", "1.0", [f"link-{i + 1}"] if i < 11 else [], files={})
    index.asked.clear()
    index.clients.clear()
    assert len(install("link-0", session="links")["installed"]) == 12
    asked = [path for path in index.asked if not path.endswith(".whl")]
    assert len(asked) == 24 and len(index.clients) <= 12 + 3, (asked, index.clients)  # 12 wheels are fetched, each by a process
    box("session", "rm", "links", check=True)


def test_an_index_that_is_down_or_lies():
    ready()
    index.add("down-page", "1")
    index.add("down-file", "1", ["down-page"])
    index.down = "/simple/down-page"
    assert "cannot be reached" in install("down-file")
    index.down = "/files/down_file-1-py3-none-any.whl"
    index.files["/files/down_file-1-py3-none-any.whl.metadata"]
    index.down = "none-any.whl"
    answer = install("down-page")
    assert "cannot be reached" in answer, answer
    index.down = None
    assert names(install("down-file")["installed"]) == ["down-file 1", "down-page 1"]
    index.instead["/simple/fails/"] = 500, {}, b"no"
    index.instead["/simple/nonsense/"] = 200, {"Content-Type": "application/vnd.pypi.simple.v1+json"}, b"{"
    index.instead["/simple/elsewhere/"] = 302, {"Location": "http://10.0.0.1/simple/elsewhere/"}, b""
    index.instead["/simple/around/"] = 302, {"Location": "/simple/around/"}, b""
    index.instead["/simple/file/"] = 302, {"Location": "file:///etc/passwd"}, b""
    for name, says in (("fails", "status 500"), ("nonsense", "nonsense: the index's page of it cannot be read"), ("elsewhere", "neither on its own host"),
                       ("around", "redirects more than"), ("file", "neither on its own host")):
        assert says in install(name), (name, install(name))
    index.pages["private"] = [{"filename": "private-1-py3-none-any.whl", "url": "https://127.0.0.1:1/private-1-py3-none-any.whl",
                               "hashes": {"sha256": "0" * 64}, "core-metadata": True}]
    assert "not a public address" in install("private"), install("private")
    unharmed()


def test_an_index_that_answers_without_end():
    def endless():
        while True:
            yield b"x" * (1 << 20)
    index.instead["/simple/endless/"] = 200, {}, endless
    assert "sends more than 64 MiB" in install("endless")
    unharmed()


def processes(matching):
    """How many processes of codebox-packages have this in their status."""
    n = 0
    for pid in named(box.daemon_pid(), "codebox-packages"):
        try:
            with open(f"/proc/{pid}/status") as f:
                n += matching(f.read())
        except OSError:
            pass  # it has ended
    return n


def filtered():
    return processes(lambda status: "\nSeccomp:\t2\n" in status)


def working():
    """Those that have ended stay until the next job is taken."""
    return processes(lambda status: "\nState:\tZ" not in status)


def test_many_at_once():
    gate = index.hold("slow")
    for i in range(9):
        cell("pass", f"m{i}")
    with Control(box) as c:
        waiting = [c.send("packages.install", session_id=f"m{i}", packages=["slow"]) for i in range(9)]
        twice = c.send("packages.install", session_id="m0", packages=["beta"])
        refused = {}
        while len(refused) < 2:
            m = c.recv()
            refused[m["id"]] = m["error"]
        assert refused[waiting[8]]["kind"] == refused[twice]["kind"] == "busy", refused
        # Those that read what the index sends have a filter, in each of their threads.
        assert os.environ.get("CBX_SANITIZED") or wait_until(lambda: filtered() >= 8), filtered()
        # A session that goes takes its installation with it; the others continue.
        box("session", "rm", "m1", check=True)
        m = c.recv()
        assert m["id"] == waiting[1] and m["error"]["kind"] == "session_expired", m
        gate.set()
        ended = {c.recv()["id"] for _ in range(7)}
        assert ended == set(waiting) - {waiting[1], waiting[8]}
    for i in range(9):
        box("session", "rm", f"m{i}")
    unharmed()


def test_one_that_is_given_up_leaves_nothing():
    gate = threading.Event()
    index.add("heavy", "1")
    path = "/files/heavy-1-py3-none-any.whl"

    def slow():
        yield index.files[path][:100]
        gate.wait(60)
    index.instead[path] = 200, {}, slow
    own = os.path.join(box.env["CODEBOX_DATA_DIR"], "packages", "d")
    own = os.path.join(own, os.listdir(own)[0])
    cell("pass", "given-up")
    had = sorted(os.listdir(os.path.join(own, "s")))
    with Control(box) as c:
        n = c.send("packages.install", session_id="given-up", packages=["heavy"])
        assert wait_until(lambda: path in index.asked)
        assert os.listdir(os.path.join(own, "t"))
        box("session", "rm", "given-up", check=True)
        m = c.recv()
        assert m["id"] == n and m["error"]["kind"] == "session_expired", m
        # All of its processes end, although the index has not.
        assert wait_until(lambda: working() <= 1, 20)
        assert os.listdir(os.path.join(own, "t")) == [] and sorted(os.listdir(os.path.join(own, "s"))) == had

    # So do those that ask the index, which says a little now and then.
    def page():
        yield b"{"
        gate.wait(60)
    index.instead["/simple/dripping/"] = 200, {"Content-Type": "application/vnd.pypi.simple.v1+json"}, page
    cell("pass", "asks")
    with Control(box) as c:
        c.send("packages.install", session_id="asks", packages=["dripping"])
        assert wait_until(lambda: "/simple/dripping/" in index.asked)
        box("session", "rm", "asks", check=True)
        assert wait_until(lambda: working() <= 1, 20)
        assert os.listdir(os.path.join(own, "t")) == []
    gate.set()
    del index.instead[path], index.instead["/simple/dripping/"]
    assert names(install("heavy")["installed"]) == ["heavy 1"]
    unharmed()


def inits(b=box):
    return set(named(b.daemon_pid(), "codebox-init"))


def test_resolvers_that_are_killed():
    """Their sandbox, from outside: what waits for them gets an error, and codeboxd lives."""
    gate = index.hold("killed")
    cell("pass", "killed")
    for i in range(3):
        had, asked = inits(), len(index.asked)
        with Control(box) as c:
            c.send("packages.install", session_id="killed", packages=["killed"])
            assert wait_until(lambda: "/simple/killed/" in index.asked[asked:])
            for pid in inits() - had:
                os.kill(pid, signal.SIGKILL)
            m = c.recv()
            assert m["error"]["kind"] == "install_failed" and "could not be resolved" in m["error"]["message"], m
    gate.set()
    index.add("beta", "1.5")
    assert names(install("beta", session="killed")["installed"]) == ["beta 1.5"]
    unharmed()


def lying(text):
    """A codeboxd whose resolver does this."""
    b = box_with()
    share = shutil.copytree(os.environ["CODEBOX_SHARE_DIR"], os.path.join(b.dir, "share"))
    with open(os.path.join(share, "runtimes", "python", "resolve.py"), "w") as f:
        f.write(f"import json, time\nlong = 'https://' + 5000 * 'x'\n"
                f"def ask(**what):\n    print(json.dumps(what), flush=True)\n{text}\ntime.sleep(600)\n")
    b.env["CODEBOX_SHARE_DIR"] = share
    return b


def test_resolvers_that_lie():
    b = lying("ask(ask=1, url=long)")
    assert "asks for something impossible" in install("x", b=b)
    b.stop()
    # One that asks, and reads nothing.
    page = b" " * (16 << 20)
    for i in range(40):
        index.instead[f"/simple/flood{i}/"] = 200, {"Content-Type": "application/vnd.pypi.simple.v1+json"}, page
    b = lying("for i in range(40):\n    ask(ask=i + 1, project=f'flood{i}')")
    cell("pass", b=b)
    with Control(b) as c:
        c.send("packages.install", session_id="s", packages=["x"])

        def quiet():
            n = sum("flood" in path for path in index.asked)
            time.sleep(3)
            return n and n == sum("flood" in path for path in index.asked)
        assert wait_until(quiet)
        assert sum("flood" in path for path in index.asked) < 25, index.asked
        with open(f"/proc/{b.daemon_pid()}/statm") as f:
            resident = int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")
        assert resident < 300 << 20, resident
        b("session", "rm", "s", check=True)
        assert c.recv()["error"]["kind"] == "session_expired"
    assert cell("1 + 1", b=b)[0] == "2\n"
    b.stop()


def test_nothing_is_left():
    site.end()


if __name__ == "__main__":
    run(globals())
