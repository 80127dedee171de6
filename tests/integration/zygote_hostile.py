#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Warm interpreters of an image that is not what it should be: what they can do, and what is made of what they say."""
import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, Skip, children, run, sandboxes, wait_until  # noqa: E402

# Python runs this at each start; in the zygote it takes over.
SITE = r'''
import os, sys
if os.environ.get("CODEBOX_ZYGOTE"):
    import ctypes, errno, socket, struct, time, array
    libc = ctypes.CDLL(None, use_errno=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=3)
    NAMESPACES = 0x7e020000

    def say(kind, value=0, sandbox=0, text=b"", step=0):
        sock.send(struct.pack("=IiIIQ200s", kind, value, step, 0, sandbox, text))

    def wait():
        data, anc, _, _ = sock.recvmsg(65536, socket.CMSG_SPACE(32))
        if not data:
            os._exit(0)
        fds = array.array("i")
        fds.frombytes(anc[0][2][:len(anc[0][2]) // 4 * 4])
        return struct.unpack_from("=IIIIQ", data)[4], list(fds)

    def place(before):
        """A fork in the sandbox, by the way that the library takes, but for what it gives up: before() does that."""
        sandbox, fds = wait()
        r, w = os.pipe()
        if os.fork() == 0:
            if libc.setns(fds[0], NAMESPACES):
                os._exit(1)
            pid = os.fork()
            if pid == 0:
                before()
                say(3, 0, sandbox)
                time.sleep(600)
            os.write(w, str(pid).encode())
            os._exit(0)
        pid = int(os.read(r, 20))
        os.wait()
        say(4, pid, sandbox)
        time.sleep(600)

    def become_user():
        os.setsid()
        os.setresgid(1000, 1000, 1000)
        os.setresuid(1000, 1000, 1000)

    def drop():
        become_user()
        for cap in range(64):
            libc.prctl(24, cap, 0, 0, 0)
        head, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
        libc.capset(head, data)

    def drop_but_limits():
        """All that is asked for, with a filter that lets everything pass, and no limit."""
        drop()
        libc.prctl(38, 1, 0, 0, 0)
        allow = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0x7fff0000), 8)
        program = ctypes.create_string_buffer(struct.pack("=H6xQ", 1, ctypes.addressof(allow)), 16)
        libc.syscall({"x86_64": 317, "aarch64": 277}[os.uname().machine], 1, 0, program)

    def tried(f, *args):
        ctypes.set_errno(0)
        r = f(*args)
        return "ok" if r >= 0 else errno.errorcode[ctypes.get_errno()]

    mode = open("/etc/evil/mode").read()
    if mode == "garbage":
        sock.send(b"x" * 10)
    elif mode == "flood":
        while True:
            say(3, 1, 12345)
    elif mode == "twice":
        say(1)
        say(1)
    elif mode == "silent":
        say(1)
    elif mode == "itself":
        say(1)
        sandbox, fds = wait()
        say(3, 0, sandbox)
        say(4, os.getpid(), sandbox)
    elif mode == "outside":
        say(1)
        sandbox, fds = wait()
        pid = os.fork()
        say(3, 0, sandbox) if pid == 0 else say(4, pid, sandbox)
    elif mode == "capable":
        say(1)
        place(become_user)
    elif mode == "unfiltered":
        say(1)
        place(drop)
    elif mode == "unlimited":
        say(1)
        place(drop_but_limits)
    elif mode == "strangers":
        if os.fork() == 0:
            if os.fork() == 0:
                os.setsid()
                time.sleep(600)
            os._exit(0)
        os.wait()
        say(9)
    elif mode == "look":
        class Args(ctypes.Structure):
            _fields_ = [("x", ctypes.c_char * 64)]
        got = {
            "proc": os.listdir("/proc"), "pidfd_open": tried(libc.syscall, 434, 1, 0),
            "unshare": tried(libc.unshare, 0x10000000),
            "mount": tried(libc.mount, b"none", b"/tmp", b"tmpfs", 0, None), "ptrace": tried(libc.ptrace, 16, 1, 0, 0),
            "setns": tried(libc.setns, 0, 0x20000000), "vm": tried(libc.process_vm_readv, 1, None, 0, None, 0, 0),
            "hostname": tried(libc.sethostname, b"x", 1), "prlimit": tried(libc.prlimit, 1, 7, None, None),
        }
        import json
        say(1, 0, 0, json.dumps(got, separators=(",", ":")).replace('"', "'").encode()[:199])
    elif mode == "use":
        libc.mmap.restype = ctypes.c_void_p
        memory = libc.mmap(None, ctypes.c_size_t((1 << 30) + 1), 3, 0x22, -1, ctypes.c_size_t(0))
        written, fd = 0, os.open("/tmp/f", os.O_CREAT | os.O_WRONLY)
        try:
            while written < 1 << 30:
                written += os.write(fd, bytes(1 << 20))
            why = 0
        except OSError as e:
            why = e.errno
        say(1, 0, 0, b"memory %d, disk %d %s" % (memory == 2 ** 64 - 1, written, errno.errorcode[why].encode()))
    time.sleep(600)
'''

built = {}


def evil(mode):
    """A box with one image, whose zygote does this."""
    if not built:
        built["data"] = tempfile.mkdtemp(prefix="cbxevil")
        os.chmod(built["data"], 0o755)
        maker = Box(CODEBOX_DATA_DIR=built["data"])
        maker("image", "build", "host", check=True)
        maker.stop()
    images = os.path.join(built["data"], "images")
    target = os.path.join(images, "evil")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(os.path.join(images, "host"), target, symlinks=True)
    path = os.path.join(target, "manifest.json")
    with open(path) as f:
        manifest = json.load(f)
    manifest["name"] = "evil"
    manifest.setdefault("environment", {})["PYTHONPATH"] = "/etc/evil"
    with open(path, "w") as f:
        json.dump(manifest, f)
    place = os.path.join(target, "rootfs", "etc", "evil")
    os.makedirs(place)
    for name, text in (("sitecustomize.py", SITE), ("mode", mode)):
        with open(os.path.join(place, name), "w") as f:
            f.write(text)
    return Box(CODEBOX_DATA_DIR=built["data"], CODEBOX_ZYGOTES="1", CODEBOX_POOL="0")


def log(b):
    with open(os.path.join(b.env["CODEBOX_STATE_DIR"], "codeboxd.log")) as f:
        return f.read()


def session(b, name, check=True):
    r = b("run", "--session", name, "--image", "evil", "-c", "print(6 * 7)")
    assert not check or (r.returncode == 0 and r.stdout == "42\n"), (r.returncode, r.stdout, r.stderr, log(b))
    return r


def started_by(b, name):
    return b.json("session", "info", "--json", name)["interpreter"]["started_by"]


def goes_wrong(mode, *reasons):
    """The zygote is found out before a session needs it; sessions start without."""
    b = evil(mode)
    session(b, "a")
    assert wait_until(lambda: "failed: " in log(b)), log(b)
    assert any(reason in log(b) for reason in reasons), log(b)
    session(b, "b")
    assert started_by(b, "b") == "exec"
    return b


def test_garbage():
    b = goes_wrong("garbage", "cannot be read")
    assert wait_until(lambda: log(b).count("failed: ") == 2), log(b)
    session(b, "c")
    assert wait_until(lambda: log(b).count("failed: ") == 3), log(b)
    assert "it is off now" in log(b)
    session(b, "d")
    assert log(b).count("failed: ") == 3
    b.stop()


def test_ready_twice():
    goes_wrong("twice", "out of turn").stop()


def test_a_flood_of_reports():
    b = evil("flood")
    session(b, "a")
    session(b, "b")  # while it lasts: nobody else waits for it
    b.stop()


def test_what_it_leaves_is_killed():
    b = goes_wrong("strangers", "unknown message")
    b("session", "rm", "a", "b")
    assert wait_until(lambda: len(sandboxes(b.daemon_pid())) == 1), children(b.daemon_pid())
    b.stop()


def is_refused(mode, reason):
    """The zygote is asked, and what it answers is not taken; the sandbox in which something unknown may be ends."""
    b = evil(mode)
    session(b, "a")
    assert wait_until(lambda: "ready after" in log(b)), log(b)
    r = session(b, "b", check=False)
    assert r.returncode != 0 and r.stdout == "", (r.stdout, r.stderr)
    assert wait_until(lambda: reason in log(b)), log(b)
    session(b, "c")
    assert started_by(b, "c") == "exec"
    b("session", "rm", "a", "c")
    assert wait_until(lambda: len(sandboxes(b.daemon_pid())) <= 2), children(b.daemon_pid())
    b.stop()


def test_the_zygote_itself_is_no_interpreter():
    is_refused("itself", "is not the sandbox's user")


def test_a_fork_outside_of_the_sandbox_is_none():
    is_refused("outside", "is not the supervisor's child")


def test_one_that_kept_capabilities_is_none():
    is_refused("capable", "has capabilities")


def test_one_without_the_sandboxs_filter_is_none():
    is_refused("unfiltered", "system call filter")


def test_one_that_kept_its_limits_is_none():
    is_refused("unlimited", "has not lowered its resource limits")


def test_one_that_does_not_answer_is_not_waited_for():
    b = evil("silent")
    session(b, "a")
    assert wait_until(lambda: "ready after" in log(b)), log(b)
    session(b, "b")
    assert started_by(b, "b") == "exec"
    assert "took too long" in log(b)
    b.stop()


def test_what_a_zygote_can_do():
    b = evil("look")
    session(b, "a")
    assert wait_until(lambda: "could not be loaded: " in log(b)), log(b)
    text = log(b).split("could not be loaded: ", 1)[1].splitlines()[0]
    for name in ("pidfd_open", "unshare", "mount", "ptrace", "setns", "vm", "prlimit"):
        assert f"'{name}':'EPERM'" in text, text
    assert "'proc':[]" in text, text
    b.stop()


def test_what_a_zygote_can_use():
    b = evil("use")
    session(b, "a")
    assert wait_until(lambda: "could not be loaded: " in log(b)), log(b)
    text = log(b).split("could not be loaded: ", 1)[1].splitlines()[0]
    assert text.startswith("memory 1, disk "), text
    assert int(text.split()[3]) <= 64 << 20 and text.split()[4] == "ENOSPC", text
    b.stop()


def test_one_that_never_gets_ready_is_killed():
    b = evil("asleep")
    b.hurry("codebox-supervisor")(1000)
    session(b, "a")
    assert wait_until(lambda: "failed: it took too long" in log(b)), log(b)
    b.stop()


def test_one_that_nobody_wants_ends():
    b = evil("silent")
    speed = b.hurry()
    session(b, "a")
    assert wait_until(lambda: "ready after" in log(b)), log(b)
    speed(1000)
    assert wait_until(lambda: "no session has wanted it for a while" in log(b)), log(b)
    b.stop()


def test_one_more_than_there_may_be_takes_anothers_place():
    b = evil("silent")
    session(b, "a")
    assert wait_until(lambda: "image evil: ready after" in log(b)), log(b)
    b("run", "--image", "host", "-c", "pass", check=True)
    assert wait_until(lambda: "image host: ready after" in log(b)), log(b)
    assert wait_until(lambda: "image evil: ended" in log(b)), log(b)
    b.stop()


if __name__ == "__main__":
    try:
        run(globals())
    finally:
        shutil.rmtree(built.get("data", "/nonexistent"), ignore_errors=True)
