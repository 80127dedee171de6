#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trees that code in a session makes to mislead whoever reads, lists, copies or removes them from outside. CBX_FILES is
how many files the largest directory has."""
import atexit
import base64
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import CODEBOX, Box, run  # noqa: E402
from control import Control, ControlError  # noqa: E402

FILES = int(os.environ.get("CBX_FILES", "50000"))
top = tempfile.mkdtemp(prefix="cbxtrees")
atexit.register(shutil.rmtree, top, ignore_errors=True)
box = Box(CODEBOX_POOL="0")
SECRET = "the-machines-own-secret"
kept = {}


def control():
    if not kept:
        with open(os.path.join(top, "secret"), "w") as f:
            f.write(SECRET)
        os.chmod(top, 0o755)
        kept["c"] = c = Control(box)
        c.sock.settimeout(600)
        disk = max(1 << 30, FILES * (1 << 20) // 48)
        c.call("session.create", session_id="trees", image=box.image("host", "python-minimal", "python"), disk=disk)
    return kept["c"]


def cell(code):
    r = box("run", "--session", "trees", "--timeout", "600", "-c", code, timeout=700)
    assert r.returncode == 0, (r.returncode, r.stdout, r.stderr)
    return r.stdout.strip()


def read(path, **kw):
    return base64.b64decode(control().call("file.read", session_id="trees", path=path, **kw)["data"])


def refused(method, path, **kw):
    try:
        got = control().call(method, session_id="trees", path=path, **kw)
    except ControlError as e:
        return str(e)
    raise AssertionError(f"{method} {path}: {got}")


def listing(path):
    out, skip = [], 0
    while True:
        got = control().call("file.list", session_id="trees", path=path, skip=skip)
        out += got["entries"]
        skip += len(got["entries"])
        if not got["more"]:
            return out
        assert got["entries"], "more, and none given"


def memory():
    with open(f"/proc/{box.daemon_pid()}/status") as f:
        return int(next(line for line in f if line.startswith("VmRSS:")).split()[1])


def test_links_lead_nowhere_but_into_the_session():
    control()
    secret = os.path.join(top, "secret")
    cell(f"""
import os
os.makedirs("links", exist_ok=True)
for name, to in (("absolute", {secret!r}), ("up", "../" * 40 + {secret[1:]!r}), ("root", "/proc/1/root" + {secret!r}),
                 ("self", "/proc/self/root" + {secret!r}), ("cwd", "/proc/self/cwd/" + "../" * 40 + {secret[1:]!r}),
                 ("fd", "/proc/self/fd/3"), ("environ", "/proc/self/environ"), ("mem", "/proc/self/mem"),
                 ("loop", "loop"), ("dir", {top!r}), ("thread", "/proc/thread-self/root" + {secret!r}),
                 ("parent", "/proc/1/environ"), ("map", "/proc/self/map_files"), ("ns", "/proc/self/ns/net")):
    os.symlink(to, "links/" + name)
""")
    for name in ("absolute", "up", "root", "self", "cwd", "fd", "environ", "mem", "loop", "thread", "parent", "ns"):
        refused("file.read", "links/" + name)
    for name in ("dir/secret", "map/x"):
        refused("file.read", "links/" + name)
    refused("file.list", "links/dir")
    refused("file.write", "links/dir/new", data="eA==")
    for name in ("absolute", "up", "root", "self", "thread"):
        try:  # the way to it does not exist inside; where it can be made, it is the session's own
            control().call("file.write", session_id="trees", path="links/" + name, data="eA==")
        except ControlError:
            pass
    with open(secret) as f:
        assert f.read() == SECRET
    assert sorted(os.listdir(top)) == ["secret"], os.listdir(top)
    # Links within the session are the session's business, and work.
    cell("open('target', 'w').write('inside'); os.symlink('/workspace/target', 'links/good')")
    assert read("links/good") == b"inside"


def test_the_program_of_pid_1_cannot_be_changed():
    """init resolves paths as itself, so /proc/self is its own: its program must not be writable by that way."""
    control()
    init = os.path.join(os.environ["CODEBOX_LIBEXEC_DIR"], "codebox-init")
    with open(init, "rb") as f:
        before = hashlib.sha256(f.read()).digest()
    cell("os.symlink('/proc/self/exe', 'exe'); os.symlink('/proc/1/exe', 'exe1')")
    for path in ("/proc/self/exe", "/proc/1/exe", "exe", "exe1"):
        refused("file.write", path, data="eA==", offset=0)
        refused("file.write", path, data="eA==", truncate=True)
    with open(init, "rb") as f:
        assert hashlib.sha256(f.read()).digest() == before
    assert cell("print(1)") == "1"


def test_files_that_are_none():
    control()
    cell("""
import os, socket
os.makedirs("kinds", exist_ok=True)
os.mkfifo("kinds/fifo")
s = socket.socket(socket.AF_UNIX); s.bind("kinds/socket")
os.symlink("/dev/zero", "kinds/zero"); os.symlink("/dev/random", "kinds/random"); os.symlink("/dev/full", "kinds/full")
os.symlink("/dev/stdin", "kinds/stdin")
try:
    os.mknod("kinds/device", 0o20666, os.makedev(1, 5))
except PermissionError:
    print("no device")
""")
    for name in ("fifo", "socket", "zero", "random", "full", "stdin", "."):
        refused("file.read", "kinds/" + name)
        refused("file.write", "kinds/" + name, data="eA==")
    for path in ("/dev/zero", "/dev/full", "/proc/kmsg", "/proc/self/mem", "/proc/1/environ", "/proc/self/fd/3"):
        refused("file.read", path)
    types = {e["name"]: e["type"] for e in listing("kinds")}
    assert types["fifo"] == types["socket"] == "other" and types["zero"] == "symlink", types


def test_sparse_and_growing_files():
    control()
    assert cell("""
f = open("sparse", "wb")
try:
    f.truncate(1 << 60); print("exbibyte")
except OSError:
    f.truncate((16 << 30) - 1); print("limited")
f.close()
""") == "limited"
    before = memory()
    got = control().call("file.read", session_id="trees", path="sparse")
    assert got["size"] == (16 << 30) - 1 and len(base64.b64decode(got["data"])) <= 49152
    assert read("sparse", offset=(16 << 30) - 5, length=49152) == bytes(4)
    assert read("sparse", offset=9007199254740991) == b""
    for offset in (-1, 1 << 60, 1e300, "x"):
        refused("file.read", "sparse", offset=offset)
    assert memory() - before < 4096, "codeboxd grew"
    cell("""
import threading
f = open("growing", "wb")
def grow():
    with f:
        for _ in range(2000):
            f.write(bytes(65536)); f.flush()
t = threading.Thread(target=grow); t.start()
""")
    for offset in range(0, 1 << 20, 49152):
        read("growing", offset=offset)
    cell("t.join(); os.remove('growing'); os.remove('sparse')")


def test_hard_links_stay_within_their_file_system():
    control()
    got = cell("""
import errno, os
open("one", "w").write("x")
os.link("one", "two")
out = []
for to in ("/tmp/link", "/dev/shm/link", "/home/user/link"):
    try:
        os.link("one", to); out.append("ok")
    except OSError as e:
        out.append(errno.errorcode[e.errno])
try:
    os.link("/usr/bin/env", "env"); out.append("ok")
except OSError as e:
    out.append(errno.errorcode[e.errno])
print(*out)""").split()
    assert set(got) <= {"EXDEV", "EPERM"}, got
    assert read("two") == b"x"


NAMES = [b"\x1b[2J\x1b[31mred", b"new\nline", b"bad-\xff\xfe-utf8", b"back\bspace", b"x" * 255,
         b"\xed\xa0\x80surrogate",
         b" leading", b"-rf", b"--help", b"$(id)", b"`id`", b"a\\b", b'quo"te', b"\x7f", "\u202eevil".encode(),
         b"tab\t"]


def test_names_that_are_bytes():
    control()
    cell(f"""
import os
os.makedirs("names", exist_ok=True)
for n in {NAMES!r}:
    open(b"names/" + n, "wb").write(b"named")
""")
    entries = listing("names")
    assert len(entries) == len(NAMES), len(entries)
    for args in (("session", "info", "trees"), ("session", "ls"),
                 ("cp", "-r", "trees:names", os.path.join(top, "out"))):
        r = subprocess.run([CODEBOX, *args], env=box.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=600)
        for stream in (r.stdout, r.stderr):
            assert b"\x1b" not in stream and b"\b" not in stream, (args, stream)
    # The copy has just those names, in one directory: none of them is an option, a path or a command.
    copied = os.listdir(os.path.join(top, "out").encode()) if os.path.isdir(os.path.join(top, "out")) else []
    assert set(copied) <= set(NAMES) and b"--help" in copied and b"$(id)" in copied, copied
    r = box("run", "--session", "trees", "-c", "open(b'names2\\x1b[2J\\xff', 'w').write('x')")
    assert "\x1b" not in r.stdout + r.stderr
    shutil.rmtree(os.path.join(top, "out"), ignore_errors=True)
    control().call("file.remove", session_id="trees", path="names")
    refused("file.list", "names")


def test_a_tree_ten_thousand_deep():
    control()
    assert cell("""
import os
made = 0
top = os.open("/workspace", os.O_RDONLY)
os.mkdir("deep", dir_fd=top)
at = os.open("deep", os.O_RDONLY, dir_fd=top)
for i in range(10000):
    name = "d" * 250
    os.mkdir(name, dir_fd=at)
    below = os.open(name, os.O_RDONLY, dir_fd=at)
    os.close(at)
    at = below
    made += 1
os.close(at)
print(made)""") == "10000"
    before = memory()
    listing("deep")
    r = box("cp", "-r", "trees:deep", os.path.join(top, "deep"), timeout=600)
    assert r.returncode != 0 and "deep" in r.stderr, (r.returncode, r.stdout[:200], r.stderr[:500])
    shutil.rmtree(os.path.join(top, "deep"), ignore_errors=True)
    control().call("file.remove", session_id="trees", path="deep")
    refused("file.list", "deep")
    assert memory() - before < 8192, "codeboxd grew"


def test_many_files():
    control()
    before = memory()
    cell(f"""
import os
os.makedirs("many", exist_ok=True)
d = os.open("many", os.O_RDONLY)
for i in range({FILES}):
    os.close(os.open("f%08d" % i, os.O_CREAT | os.O_WRONLY, dir_fd=d))
""")
    seen = set()
    skip = 0
    while skip < 3000:
        got = control().call("file.list", session_id="trees", path="many", skip=skip)
        assert got["more"] and 0 < len(got["entries"]) < 5000
        seen.update(e["name"] for e in got["entries"])
        skip += len(got["entries"])
    assert len(seen) == skip
    r = box.json("run", "--session", "trees", "--json", "-c", "open('after', 'w').write('x')")
    assert r["status"] == "ok", r
    control().call("file.remove", session_id="trees", path="many")
    refused("file.list", "many")
    assert memory() - before < 16384, f"codeboxd grew by {memory() - before} KiB"


def test_what_is_copied_out_is_plain():
    control()
    cell(f"""
import os
os.makedirs("plain/sub", exist_ok=True)
open("plain/file", "w").write("x"); os.chmod("plain/file", 0o1777)
os.symlink({os.path.join(top, "secret")!r}, "plain/link")
os.symlink({top!r}, "plain/sub/dir")
os.mkfifo("plain/fifo")
""")
    out = os.path.join(top, "plain")
    r = box("cp", "-r", "trees:plain", out)
    for path, dirs, files in os.walk(out):
        for name in dirs + files:
            st = os.lstat(os.path.join(path, name))
            assert stat.S_ISREG(st.st_mode) or stat.S_ISDIR(st.st_mode) or stat.S_ISLNK(st.st_mode), name
            assert not st.st_mode & 0o7000, (name, oct(st.st_mode))
            if stat.S_ISREG(st.st_mode):
                with open(os.path.join(path, name)) as f:
                    assert SECRET not in f.read(), name
    assert os.path.exists(os.path.join(out, "file")), r
    # Uploading over what the session prepared: a link at the name leads nowhere outside.
    cell(f"os.symlink({os.path.join(top, 'secret')!r}, 'upload')")
    local = os.path.join(top, "local")
    with open(local, "w") as f:
        f.write("uploaded")
    box("cp", local, "trees:upload")
    with open(os.path.join(top, "secret")) as f:
        assert f.read() == SECRET


if __name__ == "__main__":
    run(globals())
