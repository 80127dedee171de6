#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The profiles of system calls, seen from inside of a session of each."""
import os
import sys
import textwrap

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, Skip, run  # noqa: E402
from control import Control, ControlError  # noqa: E402

box = Box()
with open(os.path.join(box.dir, "policy.json"), "w") as f:  # Landlock off is not for everybody to ask for
    f.write('{"isolation": {"landlock": {"default": "auto", "max": "off"}}}')
box.env["CODEBOX_POLICY"] = f.name
control = None
IMAGES = []
PROFILES = ("strict", "default", "net", "dev")

# What each probe does, and in which profiles it must work.
PROBES = {
    "socket.socket(socket.AF_UNIX)": "strict default net dev",
    "socket.socketpair()": "strict default net dev",
    "socket.socket(socket.AF_UNIX, socket.SOCK_RAW)": "",
    "socket.create_server(('127.0.0.1', 0))": "default net dev",
    "socket.create_server(('::1', 0), family=socket.AF_INET6)": "default net dev",
    "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)": "default net dev",
    "socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)": "",   # MPTCP
    "socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)": "",   # SCTP
    "socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1)": "",      # ping
    "socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 136)": "",    # UDP-Lite
    "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)": "default net dev",
    "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)": "",
    "tcp().setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)": "default net dev",
    "tcp().setsockopt(socket.IPPROTO_TCP, 31, b'tls')": "",
    "udp().setsockopt(socket.IPPROTO_UDP, 100, 1)": "",
    "tcp().setsockopt(socket.SOL_SOCKET, 60, 1)": "",
    "tcp().setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)": "default net dev",
    "os.memfd_create('x')": "default net dev",
    "os.pipe()": "strict default net dev",
    "os.splice(pipe_of(b'x'), os.pipe()[1], 1)": "dev",
    "os.sched_setaffinity(0, os.sched_getaffinity(0))": "strict default net dev",
    "os.chown('owned', 1000, 1000) or os.chown('owned', -1, -1)": "strict default net dev",
    "os.chown('owned', 1001, -1)": "",
    "os.chown('owned', 0, 0)": "",
    "os.nice(0)": "default net dev",
    "os.getpriority(os.PRIO_PROCESS, 0)": "strict default net dev",
    "call(libc.inotify_init)": "default net dev",
    "call(libc.ptrace, 0, 0, 0, 0)": "dev",
    "call(libc.personality, 0x40000)": "dev",
    "call(libc.personality, 0x400000)": "",
    "call(libc.shmget, 0, 4096, 0o1600)": "default net dev",
    "call(libc.prctl, 23, 0, 0, 0, 0)": "strict default net dev",
    "call(libc.prctl, 24, 0, 0, 0, 0)": "",
    "call(libc.unshare, 0x10000000)": "",
    "call(libc.ioctl, 0, 0x5412, ctypes.c_char_p(b'x'))": "",
    "subprocess.run(['true'], check=True)": "strict default net dev",
    "threading.Thread(target=int).start()": "strict default net dev",
    "shutil.copyfile('/etc/hosts', 'copy')": "strict default net dev",
    "sendfile()": "default net dev",
}

PRELUDE = """
import ctypes, errno, os, shutil, socket, subprocess, threading
libc = ctypes.CDLL(None, use_errno=True)
open('owned', 'w').close()
def call(f, *a):
    if f(*a) == -1:
        raise OSError(ctypes.get_errno(), "refused")
def tcp(): return socket.socket()
def udp(): return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def pipe_of(data):
    r, w = os.pipe(); os.write(w, data); return r
def sendfile():
    with open('/etc/hosts') as f, open('copy', 'w') as g: os.sendfile(g.fileno(), f.fileno(), 0, 10)
"""


def session(profile):
    global control
    if control is None:
        IMAGES.append(box.image("host", "python-minimal", "python"))
        control = Control(box)
        for p in PROFILES:
            control.call("session.create", session_id=p, image=IMAGES[0], profile=p)
    return profile


def inside(profile, code):
    r = box("run", "--session", session(profile), "-c", textwrap.dedent(PRELUDE) + textwrap.dedent(code))
    assert r.returncode == 0, (profile, r.returncode, r.stdout, r.stderr)
    return r.stdout


def test_each_profile_allows_just_its_own():
    code = f"""
for probe in {list(PROBES)!r}:
    pid = os.fork()
    if pid == 0:
        try:
            eval(probe)
            os._exit(0)
        except OSError as e:
            os._exit(e.errno)
        except subprocess.CalledProcessError:
            os._exit(200)
        except AttributeError:
            os._exit(201)
    print(probe, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), sep="\\t")
"""
    missing = {}
    for p in PROFILES:
        for line in inside(p, code).splitlines():
            probe, result = line.split("\t")
            if result == "201":
                missing.setdefault(probe, []).append(p)  # this Python has no such function
            elif p in PROBES[probe].split():
                assert result == "0", (p, line)
            else:
                assert result in ("1", "38", "93", "94", "97"), (p, line)
    assert set(missing) <= {"os.splice(pipe_of(b'x'), os.pipe()[1], 1)"}, missing


def test_what_is_not_there_is_said_as_by_a_kernel_without_it():
    """Programs then take their other way; of "not permitted" they make an error."""
    code = """
        for family, kind, protocol in ((2, 2, 136), (2, 1, 132), (2, 3, 1), (38, 5, 0), (40, 1, 0), (17, 3, 0), (16, 3, 12)):
            try:
                socket.socket(family, kind, protocol)
            except OSError as e:
                print(errno.errorcode[e.errno])
        try:
            os.chown("owned", 0, -1)
        except OSError as e:
            print(errno.errorcode[e.errno])
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, [min(before)])
        print(os.sched_getaffinity(0) == (before if PROFILE != "dev" else {min(before)}))
    """
    for p in PROFILES:
        got = inside(p, code.replace("PROFILE", repr(p))).split()
        inet = ["EAFNOSUPPORT"] * 3 if p == "strict" else ["EPROTONOSUPPORT"] * 2 + ["EPERM"]
        netlink = "EAFNOSUPPORT" if p == "strict" else "EPROTONOSUPPORT"
        assert got == inet + ["EAFNOSUPPORT"] * 3 + [netlink, "EPERM", "True"], (p, got)


def test_landlock_is_in_force_and_can_be_left_out():
    """A process can have 16 rulesets on it: one less can be added where the session's own is there. That it refuses what
    mounts would allow is tried on a tree of its own (tests/unit/landlock.py)."""
    code = """
import ctypes, os
libc = ctypes.CDLL(None)
n = 0
fd = libc.syscall(444, (ctypes.c_uint64 * 1)(1), 8, 0)
while fd >= 0 and n < 100 and libc.syscall(446, fd, 0) == 0:
    n += 1
print(n)
"""
    code = f"import subprocess, sys; print(subprocess.run([sys.executable, '-c', {code!r}], capture_output=True, text=True).stdout)"
    left = {}
    for mode in ("off", "auto", "required"):
        name = "landlock-" + mode
        if mode == "required" and not left["auto"][1]:
            continue  # this kernel has none
        control.call("session.create", session_id=name, landlock=mode, image=IMAGES[0])
        n = int(box("run", "--session", name, "-c", code, check=True).stdout)
        left[mode] = n, control.call("session.info", session_id=name)["protections"]["landlock_abi"]
        control.call("session.close", session_id=name)
    assert left["off"][1] == 0, left
    if left["auto"][1]:
        assert left["auto"] == left["required"] and left["auto"][0] == left["off"][0] - 1 > 0, left


def test_strict_shows_processes_only():
    out = inside("strict", "print(sorted(n for n in os.listdir('/proc') if not n.isdigit()))")
    assert set(eval(out)) <= {"self", "thread-self"}, out
    assert inside("default", "print(os.path.exists('/proc/meminfo'))") == "True\n"


FLAGS = {
    "noexec_workspace": """
        got = set()
        for place in ("/workspace", "/home/user", "/tmp", "/var/tmp", "/dev/shm"):
            shutil.copy("/bin/true", place + "/mine")
            os.chmod(place + "/mine", 0o755)
            try:
                got.add(subprocess.run([place + "/mine"]).returncode)
            except PermissionError:
                got.add("refused")
        print(*got)
    """,
    "write_xor_execute": """
        import mmap
        try:
            mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
            print(0)
        except PermissionError:
            print("refused")
    """,
    "no_speculation": """
        bypass = libc.prctl(52, 0, 0, 0, 0)  # bit 0: it can be controlled at all; 3: disabled for good
        print("refused" if bypass < 0 or not bypass & 1 or bypass & 8 else 0)
    """,
    "own_cores": "print('refused')",
}


def test_flags_switch_protections_on():
    session("default")
    for flag, code in FLAGS.items():
        for value in (False, True):
            try:
                control.call("session.create", session_id="flagged", image=IMAGES[0], **{flag: value})
                r = box("run", "--session", "flagged", "-c", textwrap.dedent(PRELUDE) + textwrap.dedent(code))
            except ControlError as e:
                # Linux 6.3 brought it: before, a session that asks for it is refused.
                assert flag == "write_xor_execute" and value and "executable memory" in str(e), e
                continue
            assert r.returncode == 0, (flag, r.stderr)
            if value or flag in ("noexec_workspace", "write_xor_execute"):
                assert r.stdout.strip() == ("refused" if value else "0"), (flag, value, r.stdout)
            control.call("session.close", session_id="flagged")


def test_the_images_files_are_not_written():
    for p in PROFILES:
        out = inside(p, """
            for path in ("/usr/x", "/etc/x", "/x", "/var/x", "/run/x", "/dev/x", "/proc/sys/kernel/hostname"):
                try:
                    open(path, "w")
                    print("written", path)
                except OSError as e:
                    print(errno.errorcode[e.errno])
            for path in ("/workspace/x", "/home/user/x", "/tmp/x", "/var/tmp/x", "/dev/shm/x", "/dev/null"):
                open(path, "w").write("x")
        """)
        assert set(out.split()) <= {"EACCES", "EROFS", "ENOENT"}, (p, out)


def test_the_sessions_info_names_its_profile():
    for p in PROFILES:
        info = control.call("session.info", session_id=session(p))
        assert info["protections"]["profile"] == p, info["protections"]
    rules = [control.call("session.info", session_id=p)["protections"]["seccomp_rules"] for p in PROFILES]
    assert rules == sorted(rules) and rules[0] > 200, rules


def test_an_unknown_profile_is_refused_with_the_names():
    session("strict")
    try:
        control.call("session.create", profile="loose")
    except ControlError as e:
        assert all(p in str(e) for p in PROFILES), e
    else:
        raise AssertionError("accepted")


def test_a_running_sessions_profile_stays():
    image = box.image("host", "python-minimal", "python")
    try:
        control.call("run", session_id=session("strict"), code="1", profile="dev", image=image)
    except ControlError as e:
        assert e.kind == "session_differs" and "profile" in str(e), e
    else:
        raise AssertionError("accepted")


def test_every_profile_computes():
    for p in PROFILES:
        out = inside(p, """
            import concurrent.futures, json, multiprocessing, random, tempfile, time
            with multiprocessing.get_context("fork").Pool(2) as pool:
                print(sum(pool.map(abs, range(-5, 5))))
            with tempfile.TemporaryDirectory() as d:
                open(d + "/x", "w").write("y")
            print(subprocess.run("echo sub | tr a-z A-Z", shell=True, capture_output=True, text=True).stdout.strip())
        """) if p != "strict" else inside(p, """
            import concurrent.futures
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                print(sum(pool.map(abs, range(-5, 5))))
            print(subprocess.run("echo sub | tr a-z A-Z", shell=True, capture_output=True, text=True).stdout.strip())
        """)
        assert out.split() == ["25", "SUB"], (p, out)


if __name__ == "__main__":
    run(globals())
