#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codebox cp: from and to a session, which may be hostile."""
import os
import subprocess

from common_cli import Box, CODEBOX, contains, read, run, same
def cp_box():
    box = Box()
    box.ok("run", "--session", "s", "-c", "out:1")
    return box


def test_cp_out():
    box = cp_box()
    d = box.path("d")
    os.mkdir(d)
    box.ok("cp", "s:penguins.csv", d)
    same(read(d + "/penguins.csv"), b"a,b\n1,2\n")
    box.ok("cp", "s:bin", d + "/copy")
    same(read(d + "/copy"), bytes(range(256)) * 400)
    same(os.stat(d + "/copy").st_mode & 0o100, 0o100)
    same(os.stat(d + "/penguins.csv").st_mode & 0o111, 0)
    box.ok("cp", "s:empty", "s:sparse", d)
    same(read(d + "/empty"), b"")
    same(read(d + "/sparse"), b"\0" * 49152 * 3 + b"end")
    assert os.stat(d + "/sparse").st_blocks * 512 < 49152 * 3
    box.ok("cp", "s:penguins.csv", d + "/copy")  # replaces
    same(read(d + "/copy"), b"a,b\n1,2\n")
    same(box.ok("cp", "s:penguins.csv", "/dev/stdout").out, "a,b\n1,2\n")
    # Redirected, standard output is a file that more is written to before and after.
    with open(box.path("all"), "ab+") as f:
        for text in (b"before\n", b"between\n"):
            f.write(text)
            f.flush()
            subprocess.run([CODEBOX, "cp", "s:penguins.csv", "/dev/stdout"], env=box.env, stdout=f, check=True)
        same(os.fstat(f.fileno()).st_nlink, 1)
    same(read(box.path("all")), b"before\na,b\n1,2\nbetween\na,b\n1,2\n")
    os.chmod(d + "/penguins.csv", 0o600)
    box.ok("cp", "s:penguins.csv", d)
    same(os.stat(d + "/penguins.csv").st_mode & 0o777, 0o600)
    box.ok("cp", "s:growing", d)
    same(os.path.getsize(d + "/growing"), 100)
    same(sorted(os.listdir(d)), ["copy", "empty", "growing", "penguins.csv", "sparse"])
    # A link that the user names is followed.
    os.symlink("copy", d + "/named")
    box.ok("cp", "s:empty", d + "/named")
    same(read(d + "/copy"), b"")
    assert os.path.islink(d + "/named")
    for args, status in ((("s:none", d), 1), (("s:d", d), 1), (("s:empty", d + "/no/such"), 1), (("none:x", d), 1),
                         (("s:empty", d + "/new/"), 1), (("s:empty", "s2:x"), 2),
                         (("s:empty", "s:bin", d + "/copy"), 1)):
        r = box("cp", *args)
        assert r.returncode == status, (args, r.returncode, r.err)
        assert r.err.startswith("codebox: "), r.err
    os.mkdir(d + "/bin")
    same(box("cp", "s:bin", d).returncode, 1)


def test_cp_tree_out():
    box = cp_box()
    box.ok("cp", "-r", "s:d", box.path("new"))
    same(read(box.path("new/sub/two")), b"2")
    os.mkdir(box.path("in"))
    box.ok("cp", "-r", "s:d", box.path("in"))
    same(read(box.path("in/d/one")), b"1")
    box.ok("cp", "-r", "s:", box.path("all"))
    same(read(box.path("all/d/sub/two")), b"2")
    same(read(box.path("all/penguins.csv")), b"a,b\n1,2\n")


def test_cp_hostile_names():
    box = cp_box()
    d = box.path("d")
    os.mkdir(d)
    os.mkdir(box.path("outside"))
    os.symlink(box.path("outside"), d + "/linkdir")
    os.symlink(box.path("outside/victim"), d + "/ok")
    r = box("cp", "-r", "s:hostile/.", d)
    same(r.returncode, 1)
    assert "\x1b" not in r.err and "\x1b" not in r.out
    contains(r.err, "symbolic link")
    same(os.listdir(box.path("outside")), [])
    assert not os.path.exists(box.path("escaped")) and not os.path.exists("/etc/escaped")
    same(read(d + "/ok"), b"hostile")
    assert not os.path.islink(d + "/ok")
    assert os.path.islink(d + "/linkdir")
    same(sorted(os.listdir(d)), ["evil\x1b[2J\nname", "linkdir", "ok"])


def test_cp_endless():
    box = cp_box()
    box.ok("cp", "-r", "s:endless", box.path("e"))
    r = box("cp", "-r", "s:deep", box.path("deep"))
    same(r.returncode, 1)
    contains(r.err, "nested more than")


def test_cp_in():
    box = cp_box()
    src = box.path("src")
    os.makedirs(src + "/sub/empty")
    data = os.urandom(49152 * 3 + 17)
    for name, content in (("a", data), ("exact", data[:49152]), ("sub/b", b"b"), ("null", b"")):
        with open(os.path.join(src, name), "wb") as f:
            f.write(content)
    os.symlink("/etc/passwd", src + "/link")
    os.mkfifo(src + "/fifo")
    for name in ("a", "exact", "null"):
        box.ok("cp", os.path.join(src, name), "s:")
        box.ok("cp", "s:" + name, box.path("back"))
        same(read(box.path("back")), read(os.path.join(src, name)))
    box.ok("cp", src + "/a", "s:renamed")
    box.ok("cp", "s:renamed", box.path("back"))
    same(read(box.path("back")), data)
    same(box("cp", src, "s:tree").returncode, 1)
    r = box("cp", "-r", src, "s:tree")
    same(r.returncode, 1)
    contains(r.err, "link: skipped")
    contains(r.err, "fifo: skipped")
    box.ok("cp", "-r", "s:tree", box.path("tree"))
    same(read(box.path("tree/sub/b")), b"b")
    assert not os.path.lexists(box.path("tree/link"))
    same(box.ok("cp", "/dev/stdin", "s:piped", input=b"from a pipe").err, "")
    same(box.ok("cp", "s:piped", "/dev/stdout").out, "from a pipe")
    same(box("cp", box.path("nowhere"), "s:").returncode, 1)


if __name__ == "__main__":
    run(globals())
