#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a session is born with, seen from inside and from the machine: which descriptors, of which namespace, and what
they reach; which keyring; which inodes. Executed by init, started again by it, and forked from a warm interpreter."""
import ctypes
import json
import mmap
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lib"), os.path.join(HERE, "..", "bench")]
from cbxtest import CODEBOX, Box, Skip, run, wait_until  # noqa: E402
from control import Control, ControlError  # noqa: E402
from ready import ReadyBox  # noqa: E402
from store import images_dir  # noqa: E402

PROFILES = ("strict", "default", "net", "dev")
box = Box(CODEBOX_POOL="0")
warm = Box(CODEBOX_POOL="0", CODEBOX_ZYGOTES="1")
made = set()


def session(profile, name="born", box=box):
    name = f"{name}-{profile}"
    if name not in made:
        image = box.image("python", "python-minimal", "host")
        with Control(box) as c:
            c.call("session.create", session_id=name, image=image, profile=profile)
        made.add(name)
    return name


def cell(name, code, box=box):
    return box("run", "--session", name, "-c", code, check=True).stdout.strip()


# ---- descriptors ----

# For each descriptor: its kind, its file, and what can be done by it as if it were a socket of the machine's.
DESCRIPTORS = """
import errno, fcntl, json, os, socket, stat
NAME = %r
def attempt(f):
    try:
        return f() or "done"
    except OSError as e:
        return errno.errorcode[e.errno]
def as_socket(fd):
    s = socket.socket(fileno=os.dup(fd))
    return {"bind": attempt(lambda: s.bind("\\0" + NAME + str(fd))),
            "SIOCGSKNS": attempt(lambda: fcntl.ioctl(fd, 0x894c)),
            "SIOCGIFCONF": attempt(lambda: fcntl.ioctl(fd, 0x8912, bytes(16)).hex()),
            "SO_PEERPIDFD": attempt(lambda: s.getsockopt(socket.SOL_SOCKET, 77)),
            "SO_PASSPIDFD": attempt(lambda: s.setsockopt(socket.SOL_SOCKET, 76, 1))}
def one(fd):
    st = os.fstat(fd)
    link = os.readlink("/proc/self/fd/%%d" %% fd)
    found = {"link": link, "kind": stat.S_IFMT(st.st_mode), "device": st.st_rdev, "inode": [st.st_dev, st.st_ino]}
    if stat.S_ISSOCK(st.st_mode):
        found["socket"] = as_socket(fd)
    return found
found = {}
for fd in range(1024):
    try:
        found[fd] = one(fd)
    except OSError:
        pass
print(json.dumps(found))
"""
FIFO, DEVICE = 0o010000, 0o020000


def reached(name):
    """Whether that abstract name is taken, as seen from the machine's network namespace."""
    with socket.socket(socket.AF_UNIX) as s:
        try:
            s.bind("\0" + name)
        except OSError:
            return True
    return False


def command(name, code, box=box):
    return box("exec", name, "python3", "-c", code, check=True).stdout.strip()


def check_descriptors(name, box=box, how=cell):
    label = f"codebox-born-{os.getpid()}-"
    found = json.loads(how(name, DESCRIPTORS % label, box))
    sockets = {fd: d for fd, d in found.items() if d["link"].startswith("socket:")}
    assert not sockets, f"{name}: {sockets}; taken outside: {[fd for fd in sockets if reached(label + fd)]}"
    # The null device or a pipe; the driver's own waiting has no inode of its own.
    strange = {fd: d for fd, d in found.items()
               if not (d["kind"] == FIFO or d["kind"] == DEVICE and d["device"] == os.stat("/dev/null").st_rdev
                       or d["link"].startswith("anon_inode:") or d["link"].startswith("/proc/"))}
    assert not strange, f"{name}: {strange}"
    assert found["0"]["kind"] in (DEVICE, FIFO) and found["1"]["kind"] == found["2"]["kind"] == FIFO, found
    return {tuple(d["inode"]) for d in found.values() if d["kind"] == FIFO}


def test_the_probe_finds_a_socket_of_the_machine():
    """The same code outside, with such a socket: or the tests below would show nothing."""
    a, b = socket.socketpair()
    with a, b:
        label = f"codebox-outside-{os.getpid()}-"
        pid = os.fork()
        if pid == 0:
            b.bind("\0" + label)
            os._exit(0 if reached(label) else 1)
        assert os.waitpid(pid, 0)[1] == 0


def test_descriptors_are_of_no_namespace_of_the_machine():
    for profile in PROFILES:
        check_descriptors(session(profile))


def test_a_command_has_pipes_of_its_own():
    for profile in PROFILES:
        name = session(profile)
        a, b = check_descriptors(name, how=command), check_descriptors(name, how=command)
        assert len(a) == len(b) == 3 and not a & b and not (a | b) & check_descriptors(name), (profile, a, b)


def test_no_two_sessions_share_a_pipe():
    a = check_descriptors(session("default"))
    b = check_descriptors(session("default", "other"))
    assert len(a) >= 4 and len(b) >= 4 and not a & b, (a, b)


def test_an_interpreter_that_was_started_again_has_no_socket_either():
    name = session("default", "again")
    before = check_descriptors(name)
    box("run", "--session", name, "-c", "import os; os._exit(1)")
    assert not before & check_descriptors(name), "the old pipes are used again"


def test_a_fork_of_a_warm_interpreter_has_no_socket_either():
    listed = warm.json("image", "ls", "--json")
    images = [i["name"] for i in (listed["images"] if isinstance(listed, dict) else listed) if i.get("preload")]
    if not images:
        raise Skip("no image has modules to load in advance")
    n = iter(range(10000))
    with Control(warm) as c:
        def from_a_zygote():
            name = f"warm{next(n)}"
            c.call("session.create", session_id=name, image=images[0], profile="default")
            c.call("run", session_id=name, code="pass")
            if c.call("session.info", session_id=name)["interpreter"]["started_by"] == "zygote":
                return name
            c.call("session.close", session_id=name)
            time.sleep(0.5)
        name = wait_until(from_a_zygote, 600)
        assert name, "none came from a zygote"
        check_descriptors(name if isinstance(name, str) else f"warm{next(n) - 1}", warm)


def test_closing_either_pipe_ends_the_interpreter_and_not_the_session():
    """An interpreter that does not hear, or cannot speak, is known for it."""
    name = session("default", "deaf")
    for mode in (os.O_RDONLY, os.O_WRONLY):
        r = box("run", "--session", name, "-c", f"""
import fcntl, os, stat
for fd in range(3, 1024):
    try:
        if stat.S_ISFIFO(os.fstat(fd).st_mode) and fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == {mode} and (
                os.fstat(fd).st_ino not in (os.fstat(1).st_ino, os.fstat(2).st_ino)):
            os.close(fd)
    except OSError:
        pass
""")
        again = box("run", "--session", name, "-c", "1")  # the first to notice may be this one
        assert cell(name, "print(2)") == "2", (mode, r.stdout, r.stderr, again.stderr)


# ---- keyrings ----

def keys_of(uid):
    """How many keys the kernel counts for a user."""
    with open("/proc/key-users") as f:
        counts = {int(line.split(":")[0]): int(line.split()[3].split("/")[0]) for line in f}
    return counts.get(uid, 0)


def test_sessions_take_no_keys_of_the_user():
    """The kernel allows an ordinary user 200."""
    if not os.path.exists("/proc/key-users"):
        raise Skip("this kernel has no keys")
    with ReadyBox(os.path.abspath("tests/bench/ready")) as ready, Control(ready) as c:
        c.call("session.create", image="ready", memory=64 << 20)
        with open(f"/proc/{ready.daemon_pid()}/status") as f:
            uid = int(re.search(r"(?m)^Uid:\s+(\d+)", f.read())[1])
        before = keys_of(uid)
        for _ in range(255):
            c.call("session.create", image="ready", memory=64 << 20)
        assert len(c.call("session.list")["sessions"]) == 256  # as many as codeboxd(8) says
        try:
            c.call("session.create", image="ready", memory=64 << 20)
        except ControlError as e:
            assert e.kind == "too_many_sessions", e
        else:
            raise AssertionError("there are more sessions than codeboxd(8) says")
        assert keys_of(uid) <= before, (before, keys_of(uid))


ADD_KEY, KEYCTL = (248, 250) if platform.machine() == "x86_64" else (217, 219)
JOIN, SEARCH, SESSION_KEYRING = 1, 10, -3
FIND_KEY = f"""
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
r = libc.syscall({KEYCTL}, {SEARCH}, {SESSION_KEYRING}, b"user", b"codebox-born", 0)
print("found" if r >= 0 else errno.errorcode[ctypes.get_errno()])
"""
# Go on as another command, in a session keyring that holds a key.
WITH_KEY = f"""
import ctypes, os, sys
libc = ctypes.CDLL(None)
assert libc.syscall({KEYCTL}, {JOIN}, None) >= 0
assert libc.syscall({ADD_KEY}, b"user", b"codebox-born", b"secret", 6, {SESSION_KEYRING}) >= 0
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_the_keyring_of_who_started_codeboxd_is_not_there():
    """Also without the filters' help: this codeboxd's lists allow keyctl."""
    if not os.path.exists("/proc/key-users"):
        raise Skip("this kernel has no keys")
    share = os.path.join(box.dir, "share")
    shutil.copytree(os.environ["CODEBOX_SHARE_DIR"], share)
    lists = os.path.join(share, "syscalls")
    with open(os.path.join(lists, "groups", "absent")) as f:
        absent = f.read()
    with open(os.path.join(lists, "groups", "absent"), "w") as f:
        f.write(re.sub(r"(?m)^keyctl$", "", absent))
    for name in "default", "supervisor":
        with open(os.path.join(lists, name), "a") as f:
            f.write("\nkeyctl\n")
    open_box = Box(CODEBOX_POOL="0", CODEBOX_SHARE_DIR=share)
    image = open_box.image("python", "python-minimal", "host")

    def with_key(*command):
        return subprocess.run([sys.executable, "-c", WITH_KEY, *command], env=open_box.env, capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, timeout=300)
    assert with_key(sys.executable, "-c", FIND_KEY).stdout == "found\n"
    r = with_key(shutil.which(CODEBOX), "run", "--image", image, "-c", FIND_KEY)
    assert r.stdout == "ENOKEY\n", (r.stdout, r.stderr)
    open_box.stop()


# ---- inodes and pages ----

def in_memory(path):
    """Whether the first page of a file is in the page cache, as its owner learns."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    with open(path, "rb") as f:
        at = libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_SHARED, f.fileno(), ctypes.c_long(0))
    there = ctypes.create_string_buffer(1)
    assert libc.mincore(ctypes.c_void_p(at), ctypes.c_size_t(4096), there) == 0
    libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(4096))
    return bool(there.raw[0] & 1)


def test_pages_of_an_image_cannot_be_dropped():
    """Or one session could tell by the time that it takes what another has read since."""
    name = session("default")
    image = box.json("session", "info", "--json", name)["image"]
    path = cell(name, "import os; print(os.path.dirname(os.__file__) + '/_pydecimal.py')")
    outside = os.path.join(images_dir(), image, "rootfs") + path
    if not os.path.exists(outside):
        raise Skip("the image has no file of its own to look at")
    drop = "import os\nfd = os.open(%r, os.O_RDONLY)\nos.read(fd, 1)\nos.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)"
    exec(drop % outside)
    if in_memory(outside):
        raise Skip("this file system keeps pages that are not needed")
    for profile in PROFILES:
        cell(session(profile), drop % path)
        assert in_memory(outside), profile


# Every file that a session can see in these places, with what makes an inode one.
INODES = """
import json, os
found = {}
def look(path):
    try:
        st = os.lstat(path)
        found[path] = [st.st_dev, st.st_ino]
    except OSError:
        pass
for top in "/dev", "/run", "/etc", "/tmp", "/home", "/workspace":
    look(top)
    for where, dirs, files in os.walk(top):
        for name in dirs + files:
            look(os.path.join(where, name))
for line in open("/proc/self/mountinfo"):
    look(line.split()[4])
print(json.dumps(found))
"""


def test_no_inodes_are_shared_but_the_devices():
    """Locks and watches belong to inodes. Those of the machine's devices cannot be copied without its root: SECURITY.md
    says so."""
    devices = {"/dev/" + n for n in ("null", "zero", "full", "random", "urandom", "tty")}
    null = None
    for profile in ("strict", "default"):
        one, other = (json.loads(cell(session(profile, n), INODES)) for n in ("born", "other"))
        shared = {p for p in one if one[p] == other.get(p)}
        null = one["/dev/null"]
        strange = {p for p in shared - devices if one[p] != null}  # the null device masks files of /proc
        assert not strange, f"{profile}: {sorted(strange)}"
        assert len(one) > 50 and "/run/codebox/python/driver.py" in one, sorted(one)


def test_a_lock_on_a_driver_is_the_session_s_own():
    code = "import fcntl\nf = open('/run/codebox/python/driver.py')\nfcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)\nprint(1)"
    for name in "born", "other":
        assert cell(session("strict", name), code) == "1"


# ---- users ----

def test_the_session_s_user_is_known_by_its_own_number():
    """1000 in another column, or within a number, is not it."""
    with ReadyBox(os.path.abspath("tests/bench/ready")) as ready, Control(ready) as c:
        etc = os.path.join(ready.env["CODEBOX_DATA_DIR"], "images", "ready", "rootfs", "etc")
        others = "svc:x:33:1000:1000:/:/bin/false\nlong:x:10001:1000:::\nshort:x\n"
        for text, added in (others, True), (others + "me:x:1000:1000::/:/bin/sh\n", False), ("a:1000:", True):
            with open(os.path.join(etc, "passwd"), "w") as f:
                f.write(text)
            s = c.call("session.create", image="ready")["session_id"]
            out = os.path.join(ready.dir, "passwd")
            ready("cp", f"{s}:/etc/passwd", out, check=True)
            with open(out) as f:
                got = f.read()
            c.call("session.close", session_id=s)
            os.unlink(out)
            assert got.startswith(text) and ("\nuser:x:1000:" in got) == added, (text, got)


if __name__ == "__main__":
    run(globals())
