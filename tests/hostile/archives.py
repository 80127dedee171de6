#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hostile archives, made here and given to codebox-image: each must be refused or made harmless.

Uses CODEBOX_IMAGE_BIN, else codebox-image from PATH. Needs no network and no daemon. Prints TAP.
"""
import gzip
import hashlib
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import children  # noqa: E402

BIN = os.environ.get("CODEBOX_IMAGE_BIN") or shutil.which("codebox-image")
SANITIZED = bool(os.environ.get("CBX_SANITIZED"))  # then the address space cannot be limited
ROUNDS = int(os.environ.get("CBX_IMPORT_KILL_ROUNDS", "20"))
top = tempfile.mkdtemp(prefix="cbxhostile")
data = os.path.join(top, "data")
images = os.path.join(data, "images")
outside = os.path.join(top, "outside")
tests = []


def test(function):
    tests.append(function)
    return function


def run(*args, **options):
    env = {**os.environ, "CODEBOX_DATA_DIR": data, "CODEBOX_RUNTIME_DIR": os.path.join(top, "run")}
    return subprocess.run([BIN, *args], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=300, **options)


def snapshot(directory):
    """All there is to know about a tree, except access times."""
    result = {}
    for path, dirs, files in os.walk(directory):
        for name in dirs + files:
            full = os.path.join(path, name)
            st = os.lstat(full)
            content = b""
            if stat.S_ISREG(st.st_mode):
                with open(full, "rb") as file:
                    content = hashlib.sha256(file.read()).digest()
            elif stat.S_ISLNK(st.st_mode):
                content = os.readlink(full)
            result[os.path.relpath(full, directory)] = (st.st_mode, st.st_size, st.st_nlink, content)
    return result


class Archive:
    """A tar file, entry by entry; usr/bin/hello is always in it, so that it is an archive like any other."""

    def __init__(self, name="evil.tar", mode="w", form=tarfile.PAX_FORMAT):
        self.path = os.path.join(top, name)
        self.tar = tarfile.open(self.path, mode, format=form)
        self.file("usr/bin/hello", b"hello\n", 0o755)

    def add(self, name, kind, mode=0o755, link="", content=b"", pax=None):
        info = tarfile.TarInfo(name)
        info.type, info.mode, info.linkname, info.size = kind, mode, link, len(content)
        info.pax_headers = pax or {}
        if kind in (tarfile.CHRTYPE, tarfile.BLKTYPE):
            info.devmajor, info.devminor = 1, 3
        self.tar.addfile(info, io.BytesIO(content) if content else None)
        return self

    def file(self, name, content=b"x", mode=0o644, **more):
        return self.add(name, tarfile.REGTYPE, mode, content=content, **more)

    def link(self, name, target):
        return self.add(name, tarfile.SYMTYPE, link=target)

    def hard(self, name, target):
        return self.add(name, tarfile.LNKTYPE, link=target)

    def done(self):
        self.tar.close()
        return self.path


def imported(*paths, args=()):
    """Import as "evil", which must succeed. Returns the path of its root and what was said."""
    result = run("import", "evil", "--force", *args, *paths)
    assert result.returncode == 0, f"refused: {result.stderr}"
    return os.path.join(images, "evil", "rootfs"), result.stdout + result.stderr


def refused(*paths, says, args=()):
    """Import, which must fail with this in its message and leave the store as it was."""
    before = snapshot(data)
    result = run("import", "evil", "--force", *args, *paths)
    assert result.returncode == 1, f"exit status {result.returncode}: {result.stdout}{result.stderr}"
    assert says in result.stderr, f"{says!r} is not in: {result.stderr}"
    assert "\x1b" not in result.stderr and "\0" not in result.stderr, "control characters reached the terminal"
    after = snapshot(data)
    assert after == before, f"the store was changed: {set(before) ^ set(after)}"


@test
def harmless_archive():
    root, _ = imported(Archive().file("usr/share/a/b/c", b"abc").link("bin", "usr/bin").done())
    with open(os.path.join(root, "usr/share/a/b/c"), "rb") as file:
        assert file.read() == b"abc"
    assert os.readlink(os.path.join(root, "bin")) == "usr/bin"
    assert run("verify", "evil").returncode == 0


@test
def write_through_a_link_to_a_directory():
    refused(Archive().link("esc", outside).file("esc/victim", b"evil").done(), says="symbolic link")


@test
def write_through_a_relative_link():
    refused(Archive().link("esc", "../../../../../../..").file("esc" + outside + "/victim").done(),
            says="symbolic link")


@test
def write_through_a_chain_of_links():
    refused(Archive().link("a", ".").link("a2", "a/..").link("a3", "a2/..").file("a3/x").done(), says="symbolic link")


@test
def file_in_the_place_of_a_link_to_a_file():
    # The second entry replaces the link; it must not be written through it.
    victim = os.path.join(outside, "victim")
    root, _ = imported(Archive().link("etc/x", victim).file("etc/x", b"evil").done())
    assert not os.path.islink(os.path.join(root, "etc/x"))


@test
def directory_in_the_place_of_a_link():
    root, _ = imported(Archive().link("d", outside).add("d", tarfile.DIRTYPE).file("d/victim", b"evil").done())
    assert not os.path.islink(os.path.join(root, "d")) and os.path.isfile(os.path.join(root, "d/victim"))


@test
def hard_link_to_an_absolute_path():
    refused(Archive().hard("etc/shadow", "/etc/passwd").done(), says="hard link")


@test
def hard_link_upwards():
    refused(Archive().hard("p", "../../../../etc/passwd").done(), says="hard link")


@test
def hard_link_through_a_link():
    refused(Archive().link("e", "/etc").hard("p", "e/passwd").done(), says="hard link")


@test
def hard_link_to_a_link_and_writing_to_it():
    # The hard link is one to the link itself, and the file then takes its place.
    victim = os.path.join(outside, "victim")
    root, _ = imported(Archive().link("a", victim).hard("b", "a").file("b", b"evil").done())
    assert os.path.islink(os.path.join(root, "a")) and not os.path.islink(os.path.join(root, "b"))


@test
def hard_link_to_a_directory():
    refused(Archive().add("d", tarfile.DIRTYPE).hard("e", "d").done(), says="hard link")


@test
def hard_link_to_nothing():
    refused(Archive().hard("e", "nothing/there").done(), says="hard link")


@test
def names_upwards():
    for name in ("../victim", "usr/../../victim", "usr/..", "..", "./../victim"):
        refused(Archive().file(name).done(), says="upwards")


@test
def absolute_names():
    for name in (outside + "/victim", "/etc/victim", "//victim"):
        refused(Archive().file(name).done(), says="absolute")


@test
def control_characters_in_names():
    for name in ("a\nb", "a\x1b[31mb", "a\tb", "a\x7fb", "dir\r/b"):
        refused(Archive().file(name).done(), says="control character")
    refused(Archive().link("x", "a\nb").done(), says="control character")


@test
def names_too_long_or_too_deep():
    refused(Archive().file("x" * 300).done(), says="too long")
    refused(Archive().file("/".join(["y" * 100] * 20)).done(), says="too long")
    refused(Archive().file("/".join("d" * 100)).done(), says="nested too deeply")


@test
def devices_and_fifos_are_left_out():
    archive = Archive()
    for name, kind in (("c", tarfile.CHRTYPE), ("b", tarfile.BLKTYPE), ("p", tarfile.FIFOTYPE)):
        archive.add("dev/" + name, kind)
    root, said = imported(archive.done())
    assert os.listdir(os.path.join(root, "dev")) == [], os.listdir(os.path.join(root, "dev"))
    assert "Omitted 3 devices" in said, said


@test
def special_mode_bits_are_dropped():
    archive = Archive().file("usr/bin/su", b"su", 0o6755).add("tmp", tarfile.DIRTYPE, 0o1777)
    archive.file("secret", b"s", 0o000).add("closed", tarfile.DIRTYPE, 0o000).file("closed/in", b"i", 0o600)
    root, said = imported(archive.done())

    def mode(name):
        return stat.S_IMODE(os.lstat(os.path.join(root, name)).st_mode)

    assert (mode("usr/bin/su"), mode("tmp"), mode("secret"), mode("closed"), mode("closed/in")) == \
        (0o755, 0o755, 0o644, 0o755, 0o644)
    assert "special mode bits of 2 entries" in said, said


@test
def owners_are_ours():
    archive = Archive()
    info = tarfile.TarInfo("owned")
    info.uid = info.gid = 12345
    archive.tar.addfile(info)
    root, _ = imported(archive.done())
    assert os.lstat(os.path.join(root, "owned")).st_uid == os.lstat(root).st_uid


@test
def extended_attributes_are_dropped():
    pax = {"SCHILY.xattr.security.capability": "x", "SCHILY.xattr.user.evil": "y"}
    root, said = imported(Archive().file("usr/bin/ping", b"p", 0o755, pax=pax).done())
    assert os.listxattr(os.path.join(root, "usr/bin/ping")) == []
    assert "attributes of 1" in said, said


@test
def bomb_by_ratio():
    path = Archive("bomb.tar.gz", "w:gz").done()
    with gzip.open(path, "wb", compresslevel=9) as out:
        info = tarfile.TarInfo("zeros")
        info.size = 1 << 30
        out.write(info.tobuf())
        for _ in range(256):
            out.write(bytes(1 << 20))
    assert os.path.getsize(path) < 2 << 20
    refused(path, says="bomb")


@test
def bomb_in_an_entry_that_is_left_out():
    # A device with a gigabyte of contents: nothing would be written, but time would be spent.
    path = os.path.join(top, "bomb2.tar.gz")
    with gzip.open(path, "wb", compresslevel=9) as out:
        for i in range(3):
            info = tarfile.TarInfo(".wh.zeros%d" % i)
            info.size = 256 << 20
            out.write(info.tobuf())
            for _ in range(256):
                out.write(bytes(1 << 20))
    refused(path, says="bomb")


@test
def too_many_entries():
    archive = Archive("many.tar")
    for i in range(2000):
        archive.file("n/%d" % i, b"")
    path = archive.done()
    refused(path, says="more than 1000 entries", args=("--max-entries", "1000"))
    imported(path, args=("--max-entries", "2004"))  # with usr, usr/bin and n


@test
def directories_on_the_way_are_entries():
    archive = Archive("deep.tar.gz", "w:gz")
    for i in range(19):
        archive.file("%x/" % i + "d/" * 62 + "d", b"")
    path, count = archive.done(), 20 + 2 + 19 * 63
    refused(path, says="more than 20 entries", args=("--max-entries", "20"))
    refused(path, says="with the directories", args=("--max-entries", str(count - 1)))
    refused(path, path, says="with the directories", args=("--max-entries", str(2 * count - 1)))
    imported(path, path, args=("--max-entries", str(2 * count)))


@test
def too_many_bytes():
    archive = Archive("big.tar")
    for i in range(8):
        archive.file("b/%d" % i, bytes([i]) * (1 << 20))
    path = archive.done()
    refused(path, says="more than 4194304 bytes", args=("--max-bytes", "4M"))
    refused(path, path, says="more than 9437184 bytes", args=("--max-bytes", "9M"))
    imported(path, args=("--max-bytes", "9M"))


@test
def size_of_an_exabyte():
    path = os.path.join(top, "huge.tar")
    with open(path, "wb") as out:
        info = tarfile.TarInfo("huge")
        info.size = 1 << 60
        out.write(info.tobuf(tarfile.GNU_FORMAT) + bytes(10240))
    refused(path, says="1152921504606846976 bytes")


@test
def sparse_file_of_an_exabyte():
    pax = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "sparse",
           "GNU.sparse.realsize": str(1 << 60)}
    refused(Archive().file("GNUSparseFile.0/sparse", b"1\n0\n0\n".ljust(512, b"\0"), pax=pax).done(),
            says="1152921504606846976 bytes")


@test
def sparse_files_count_as_what_they_say():
    archive = Archive()
    for i in range(3):
        pax = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "s%d" % i,
               "GNU.sparse.realsize": str(1 << 30)}
        archive.file("x/s%d" % i, b"0\n".ljust(512, b"\0"), pax=pax)
    refused(archive.done(), says="more than 2147483648 bytes", args=("--max-bytes", "2G"))


@test
def the_same_name_twice():
    root, _ = imported(Archive().file("twice", b"1").file("./twice", b"22").file("twice", b"333").done())
    with open(os.path.join(root, "twice"), "rb") as file:
        assert file.read() == b"333"


@test
def file_and_directory_of_the_same_name():
    refused(Archive().file("d/x").file("d").done(), says="as a directory and as a file")
    refused(Archive().file("f").file("f/x").done(), says="not a directory")


@test
def whiteouts():
    lower = Archive("lower.tar").file("keep").file("gone").file("dir/gone").file("opaque/old").file("tree/a/b/c").done()
    upper = Archive("upper.tar").file(".wh.gone", b"").file("dir/.wh.gone", b"").file("opaque/new")
    upper.file("opaque/.wh..wh..opq", b"").file(".wh.tree", b"").file(".wh.never-there", b"")
    root, _ = imported(lower, upper.done())
    names = sorted(os.path.relpath(os.path.join(p, f), root) for p, _, files in os.walk(root) for f in files
                   if not p.startswith(os.path.join(root, "etc")))
    assert names == ["keep", "opaque/new", "usr/bin/hello"], names


@test
def hostile_whiteouts():
    lower = Archive("lower.tar").file("keep").link("esc", outside).done()
    refused(lower, Archive("upper.tar").file("esc/.wh.victim", b"").done(), says="symbolic link")
    refused(lower, Archive("upper.tar").file(".wh...", b"").done(), says="hides nothing")
    refused(lower, Archive("upper.tar").file(".wh..", b"").done(), says="hides nothing")
    refused(lower, Archive("upper.tar").file(".wh.", b"").done(), says="hides nothing")
    refused(lower, Archive("upper.tar").file("esc/.wh..wh..opq", b"").done(), says="symbolic link")


@test
def layer_puts_a_file_in_the_place_of_a_directory():
    lower = Archive("lower.tar").file("d/a/b").link("l", outside).done()
    root, _ = imported(lower, Archive("upper.tar").file("d", b"file").file("l", b"file").done())
    assert os.path.isfile(os.path.join(root, "d")) and not os.path.islink(os.path.join(root, "l"))


@test
def links_where_the_image_needs_directories_and_files():
    archive = Archive()
    for name in ("etc", "tmp", "home", "dev", "proc", "workspace", "run"):
        archive.link(name, outside)
    root, _ = imported(archive.done())
    for name in ("etc", "tmp", "home/user", "dev", "proc", "workspace", "run/codebox"):
        assert os.path.isdir(os.path.join(root, name)) and not os.path.islink(os.path.join(root, name)), name
    archive = Archive()
    for name in ("passwd", "group", "hosts", "nsswitch.conf"):
        archive.link("etc/" + name, os.path.join(outside, "victim"))
    root, _ = imported(archive.done())
    with open(os.path.join(root, "etc/passwd")) as file:
        assert ":1000:1000:" in file.read()


@test
def archives_that_are_none():
    def write(content):
        path = os.path.join(top, "none.tar")
        with open(path, "wb") as file:
            file.write(content)
        return path

    whole = open(Archive().file("big", os.urandom(200000)).done(), "rb").read()
    refused(write(b""), says="codebox image: the archive")
    refused(write(bytes(10240)), says="holds nothing")
    refused(write(os.urandom(50000)), says="cannot be read")
    refused(write(whole[:150000]), says="cannot be read")
    refused(write(gzip.compress(whole)[:100000]), says="cannot be read")
    refused(top, says="it is not an image")
    refused(top, top, says="not a regular file")
    refused("/dev/zero", says="not a regular file")
    refused(os.path.join(top, "missing.tar"), says="No such file")


@test
def fuzzed_archives_end_cleanly():
    rng = random.Random(20261122)
    whole = bytearray(open(Archive("seed.tar").link("l", "usr").hard("h", "usr/bin/hello").file("a/b/c", b"c" * 700)
                           .file("f" * 150, b"d").done(), "rb").read())
    for _ in range(60):
        broken = bytearray(whole)
        for _ in range(rng.choice((1, 3, 20))):
            broken[rng.randrange(min(len(broken), 8192))] = rng.choice((0, 0x2f, 0x2e, 0x37, 0xff, rng.randrange(256)))
        path = os.path.join(top, "fuzz.tar")
        with open(path, "wb") as file:
            file.write(broken)
        result = run("import", "fuzz", "--force", path)
        assert result.returncode in (0, 1), f"{result.returncode}: {result.stderr}"
        assert "signal" not in result.stderr and "Sanitizer" not in result.stderr, result.stderr


@test
def names_of_images():
    path = Archive().done()
    for name in ("../evil", "a/b", ".hidden", "", "x" * 64, "a\nb", "mine-unfinished"):
        before = snapshot(data)
        result = run("import", "--", name, path)
        assert result.returncode == 1 and snapshot(data) == before, (name, result.stderr)
        if name != "mine-unfinished":
            assert run("rm", name).returncode == 1 and run("show", name).returncode == 1


@test
def existing_image_is_not_replaced_unasked():
    imported(Archive().done())
    before = snapshot(data)
    result = run("import", "evil", Archive().file("new").done())
    assert result.returncode == 1 and "--force" in result.stderr, result.stderr
    assert snapshot(data) == before


@test
def the_worker_is_limited():
    """Unpacking runs in a process with limits of its own, seen while it waits for more of an archive."""
    archive = Archive("long.tar")
    for i in range(200):
        archive.file(f"f{i}", os.urandom(1 << 20))
    env = {**os.environ, "CODEBOX_DATA_DIR": data, "CODEBOX_RUNTIME_DIR": os.path.join(top, "run")}
    process = subprocess.Popen([BIN, "import", "evil", "--force", archive.done()], env=env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seen = set()
    while process.poll() is None:
        for pid in children(process.pid):
            try:
                with open(f"/proc/{pid}/limits") as file:
                    lines = file.read()
            except OSError:
                continue  # it has just gone
            found = [re.search(rf"^Max {name} +(\w+)", lines, re.M)
                     for name in ("open files", "cpu time", "address space", "file size")]
            seen.add(tuple(m and m[1] for m in found))
    assert process.returncode == 0
    space = "unlimited" if SANITIZED else str(1 << 30)
    assert ("32", "900", space, str(4 << 30)) in seen, seen


@test
def a_list_of_files_that_is_too_long():
    root, _ = imported(Archive().file("a", b"1").done())
    with open(os.path.join(root, "a"), "w") as file:
        file.write("2")
    with open(os.path.join(images, "evil", "files.txt"), "a") as file:
        file.truncate((512 << 20) + 1)  # sparse
    def little_memory():
        if not SANITIZED:
            resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))

    result = run("verify", "evil", preexec_fn=little_memory)
    assert result.returncode == 1 and "what differs is not known" in result.stdout, result


@test
def verify_names_what_differs():
    root, _ = imported(Archive().file("a/changed", b"1").file("a/missing").file("a-b/same").link("link", "x").done())
    with open(os.path.join(root, "a/changed"), "w") as file:
        file.write("2")
    os.unlink(os.path.join(root, "a/missing"))
    with open(os.path.join(root, "a/added"), "w") as file:
        file.write("3")
    os.unlink(os.path.join(root, "link"))
    os.symlink("y", os.path.join(root, "link"))
    os.chmod(os.path.join(root, "usr/bin/hello"), 0o644)
    result = run("verify", "evil")
    found = {line for line in result.stdout.splitlines() if " /" in line}
    assert result.returncode == 1
    assert found == {"evil: changed /a/changed", "evil: missing /a/missing", "evil: added /a/added",
                     "evil: changed /link", "evil: changed /usr/bin/hello"}, result.stdout


@test
def damaged_images_are_listed_as_such():
    imported(Archive().done())
    with open(os.path.join(images, "evil", "manifest.json"), "w") as file:
        file.write('{"format":1,')
    listed = {i["name"]: i for i in json.loads(run("ls", "--json").stdout)}
    assert "damaged" in listed["evil"]
    result = run("verify", "evil")
    assert result.returncode == 1 and "damaged" in result.stdout, result.stdout
    assert run("rm", "evil").returncode == 0 and not os.path.exists(os.path.join(images, "evil"))


@test
def deep_and_closed_trees_are_removed():
    imported(Archive().done())
    directory = os.open(os.path.join(images, "evil", "rootfs"), os.O_RDONLY)
    owner = os.fstat(directory)
    for _ in range(3000):
        os.mkdir("d" * 200, 0o755, dir_fd=directory)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=directory)
        os.fchown(below, owner.st_uid, owner.st_gid)
        os.close(directory)
        directory = below
    os.fchmod(directory, 0)
    os.close(directory)
    result = run("rm", "evil", preexec_fn=lambda: __import__("resource").setrlimit(
        __import__("resource").RLIMIT_NOFILE, (64, 64)))
    assert result.returncode == 0, result.stderr
    assert not [n for n in os.listdir(images) if "evil" in n], os.listdir(images)


def with_mounts(script, *args):
    """Run a shell script where it may mount; None where that cannot be had."""
    ids = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
    result = subprocess.run(["unshare", *ids, "--mount", "sh", "-c", script, "sh", *args], capture_output=True,
                            text=True,
                            timeout=300, env={**os.environ, "CODEBOX_RUNTIME_DIR": os.path.join(top, "run")})
    return None if result.returncode in (1, 9) else result


@test
def full_disk():
    archive = Archive("full.tar")
    for i in range(16):
        archive.file("f%d" % i, os.urandom(1 << 20))
    path = archive.done()
    script = ('mkdir -p "$1/full" && mount -t tmpfs -o size=6m,mode=777 none "$1/full" || exit 9; '
              'export CODEBOX_DATA_DIR="$1/full/d"; "$2" import full "$3"; echo "status $?"; ls -A "$1/full/d/images"')
    result = with_mounts(script, top, BIN, path)
    if not result:
        return "cannot mount a small file system here"
    assert "No space left on device" in result.stderr, result.stdout + result.stderr
    assert result.stdout.split() == ["status", "1", ".lock"], result.stdout
    return None


@test
def read_only_store():
    imported(Archive().done())
    path = Archive().done()
    script = ('mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit 9; export CODEBOX_DATA_DIR="$1"; '
              '"$2" import other "$3"; echo "import $?"; "$2" ls >/dev/null; echo "ls $?"; "$2" verify; '
              'echo "verify $?"')
    result = with_mounts(script, data, BIN, path)
    if not result:
        return "cannot mount a read-only file system here"
    assert "Read-only file system" in result.stderr, result.stdout + result.stderr
    assert "import 1\n" in result.stdout and "ls 0\n" in result.stdout and "verify 0\n" in result.stdout, result.stdout
    return None


@test
def killed_imports_leave_the_store_as_it_was():
    archive = Archive("kill.tar")
    for i in range(1500):
        archive.file("k/%d/%d" % (i % 37, i), os.urandom(3000))
    path = archive.done()
    small = Archive("small.tar").done()
    imported(small)
    started = time.monotonic()
    assert run("import", "timing", path).returncode == 0
    whole = time.monotonic() - started
    run("rm", "timing")
    before = snapshot(data)
    env = {**os.environ, "CODEBOX_DATA_DIR": data}
    rng = random.Random(7)
    killed = 0
    for _ in range(ROUNDS):
        process = subprocess.Popen([BIN, "import", "evil", "--force", path], env=env, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        time.sleep(rng.random() * whole)
        process.send_signal(signal.SIGKILL)
        if process.wait() == -signal.SIGKILL:
            killed += 1
        # The next command that writes waits for what is left of the killed one, and cleans up after it.
        assert run("rm", "nothing-of-that-name").returncode == 1
        after = snapshot(data)
        if after != before:
            # It had come as far as publishing: then all of it is there.
            assert run("verify", "evil").returncode == 0
            assert sum(1 for n in after if n.startswith("images/evil/rootfs/k/") and n.count("/") == 5) == 1500
            assert not [n for n in os.listdir(images) if n.startswith(".") and n != ".lock"], os.listdir(images)
            imported(small)
            before = snapshot(data)
    assert killed > 0, "no import was still running when it was to be killed"


@test
def two_imports_at_once():
    path = Archive().done()
    env = {**os.environ, "CODEBOX_DATA_DIR": data}
    both = [subprocess.Popen([BIN, "import", "--force", "same", path], env=env, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) for _ in range(4)]
    for process in both:
        out, error = process.communicate(timeout=300)
        assert process.returncode == 0, error
    assert run("verify", "same").returncode == 0
    assert sorted(n for n in os.listdir(images) if n != ".lock") == \
        sorted(i["name"] for i in json.loads(run("ls", "--json").stdout))


def main():
    if not BIN:
        print("1..0 # SKIP no codebox-image: set CODEBOX_IMAGE_BIN")
        return 0
    os.chmod(top, 0o755)
    os.mkdir(outside)
    with open(os.path.join(outside, "victim"), "w") as file:
        file.write("untouched\n")
    os.chmod(outside, 0o777)
    os.chmod(os.path.join(outside, "victim"), 0o666)
    precious = snapshot(outside)
    passwd = open("/etc/passwd", "rb").read(), os.stat("/etc/passwd").st_nlink
    failed = 0
    print(f"1..{len(tests)}", flush=True)
    for number, function in enumerate(tests, 1):
        name = function.__name__.replace("_", " ")
        try:
            skipped = function()
            assert snapshot(outside) == precious, "something outside of the store was changed"
            assert (open("/etc/passwd", "rb").read(), os.stat("/etc/passwd").st_nlink) == passwd
            print(f"ok {number} - {name}" + (f" # SKIP {skipped}" if skipped else ""), flush=True)
        except Exception as error:  # any exception is this test's failure, and the next one runs
            failed += 1
            print(f"not ok {number} - {name}", flush=True)
            for line in f"{type(error).__name__}: {error}".splitlines():
                print(f"# {line}", flush=True)
    run("rm", *[n for n in os.listdir(images) if not n.startswith(".")])
    shutil.rmtree(top, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
