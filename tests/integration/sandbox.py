#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a sandbox is, seen from inside it. Each probe of something forbidden is also run outside, where it must work, so
that a broken probe cannot pass."""
import ctypes
import os
import socket
import subprocess
import sys
import textwrap

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, Skip, named, run  # noqa: E402

box = Box()
image = None


def setup():
    global image
    if image is None:
        image = box.image("host", "python-minimal", "python")
        box("run", "--session", "sb", "--image", image, "-c", "pass", check=True)


def inside(code, **kw):
    setup()
    r = box("run", "--session", "sb", "-c", textwrap.dedent(code), **kw)
    assert r.returncode == 0, (r.returncode, r.stdout, r.stderr)
    return r.stdout.strip()


def outside(code):
    r = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert r.returncode == 0, r.stderr
    return r.stdout.strip()


PROC_STATUS = """
    d = dict(l.split(":\\t", 1) for l in open("/proc/self/status").read().splitlines() if ":\\t" in l)
    print(" ".join(d[k].strip() for k in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")))
"""


def test_one_ordinary_user_and_no_capability():
    assert inside("import os; print(os.getuid(), os.getgid(), set(os.getgroups()) <= {1000, 65534})") == \
        "1000 1000 True"
    lines = inside("print(open('/proc/self/uid_map').read())").split()
    assert len(lines) == 3 and lines[0] == "1000" and lines[2] == "1", lines
    assert inside("print(open('/proc/self/setgroups').read())") == "deny"
    assert inside(PROC_STATUS) == " ".join(["0" * 16] * 5 + ["1", "2"])


def test_every_namespace_is_its_own():
    names = ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup")
    code = f"import os; print(*[os.readlink('/proc/self/ns/' + n) for n in {names}])"
    ours, theirs = outside(code).split(), inside(code).split()
    for name, a, b in zip(names, ours, theirs):
        assert a != b, name


def test_no_host_files():
    secret = os.path.join(box.dir, "secret")
    with open(secret, "w") as f:
        f.write("x")
    code = f"import os; print(os.path.exists({secret!r}))"
    assert outside(code) == "True"
    assert inside(code) == "False"
    assert inside("import os; print(sorted(set(os.listdir('/')) & "
                  "{'root', 'boot', 'session', 'images', 'newroot'}))") in (
        "[]", "['root']", "['boot']", "['boot', 'root']")
    assert inside("import os; print([p for p in ('/sys/kernel', '/proc/1/root/etc', '/dev/sda',"
                  " '/dev/kmsg')"
                  " if os.access(p, os.R_OK)])") == "[]"


def test_dev_holds_just_what_it_should():
    assert inside("import os; print(*sorted(os.listdir('/dev')))") == (
        "fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero")


def test_proc_is_masked():
    got = inside("""
        import os
        def size(p):
            try:
                if os.path.isdir(p):
                    return len(os.listdir(p))
                return len(open(p, 'rb').read(64))
            except (FileNotFoundError, PermissionError):
                return 0
        print([p for p in ('kallsyms', 'kcore', 'keys', 'cmdline', 'interrupts', 'timer_list', 'vmallocinfo', 'acpi',
                           'config.gz', 'iomem', 'modules') if size('/proc/' + p)])
        try:
            open('/proc/sys/kernel/core_pattern', 'w')
        except OSError as e:
            print(e.errno)
    """).splitlines()
    assert got[0] == "[]", got
    assert got[1] in ("30", "13"), got  # EROFS, EACCES
    assert outside("print(len(open('/proc/interrupts').read()) > 0)") == "True"


def test_proc_shows_the_sessions_memory():
    setup()
    r = box("run", "--image", image, "--memory", "256M", "-c",
            "print([l for l in open('/proc/meminfo') if l.startswith('MemTotal')][0].split()[1])", check=True)
    assert r.stdout.strip() == str(256 * 1024), r.stdout


def test_proc_does_not_tell_the_machines_load():
    assert inside("print(open('/proc/uptime').read() + open('/proc/loadavg').read())").split() == \
        ["0.00", "0.00", "0.00", "0.00", "0.00", "1/1", "1"]


def test_clocks_do_not_tell_when_the_machine_started():
    clocks = """
        import ctypes, time
        info = (ctypes.c_long * 64)()
        ctypes.CDLL(None).sysinfo(info)
        with open("/proc/self/stat") as f:
            started = int(f.read().rsplit(")", 1)[1].split()[19]) / 100
        print(time.clock_gettime(time.CLOCK_BOOTTIME), time.clock_gettime(time.CLOCK_MONOTONIC), info[0], started)
    """
    if not os.path.exists("/proc/self/ns/time"):
        raise Skip("a kernel without time namespaces")
    setup()
    pid = named(box.daemon_pid(), "codebox-supervisor")[0]
    with open(f"/proc/{pid}/stat") as f:
        earlier = int(f.read().rsplit(")", 1)[1].split()[19]) / os.sysconf("SC_CLK_TCK")
    got, machine = [float(v) for v in inside(clocks).split()], [float(v) for v in outside(clocks).split()]
    assert all(a <= b - earlier + 2 for a, b in zip(got, machine)), (got, machine, earlier)
    assert earlier < 10 or got[0] < machine[0] - 5, (got, machine, earlier)


def test_only_loopback_and_no_route():
    assert inside("import socket; print([n for _, n in socket.if_nameindex()])") == "['lo']"
    # A connected UDP socket sends nothing; it only asks for a route.
    assert inside("""
        import socket
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            s.connect(("192.0.2.1", 9))
            print("route")
        except OSError as e:
            print(e.strerror)
    """) == "Network is unreachable"
    assert inside("""
        import socket, threading
        l = socket.create_server(("127.0.0.1", 0))
        c = socket.create_connection(l.getsockname()); a, _ = l.accept(); a.sendall(b"hi"); print(c.recv(2))
    """) == "b'hi'"


def test_a_listener_of_the_machine_is_not_reached():
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
        code = f"""
            import socket
            try:
                socket.create_connection(("127.0.0.1", {port}), 2).close(); print("reached")
            except OSError:
                print("refused")
        """
        assert outside(code) == "reached"
        assert inside(code) == "refused"


# System calls: each is made with harmless arguments through libc's syscall().
CALLS = {
    "unshare(NEWUSER)": (272, 0x10000000),
    "unshare(NEWNET)": (272, 0x40000000),
    "mount": (165, 0, 0, 0, 0, 0),
    "ptrace(TRACEME)": (101, 0, 0, 0, 0),
    "keyctl(GET_KEYRING_ID)": (250, 0, -3, 0),
    "bpf": (321, 0, 0, 0),
    "io_uring_setup": (425, 1, 0),
    "userfaultfd": (323, 1),
    "perf_event_open": (298, 0, 0, 0, 0, 0),
    "personality(READ_IMPLIES_EXEC)": (135, 0x0400000),
    "memfd_secret": (447, 0),
    "socket(AF_VSOCK)": (41, 40, 1, 0),
    "socket(AF_VSOCK with high bits)": (41, (1 << 32) | 40, 1, 0),
    "socket(AF_ALG)": (41, 38, 5, 0),
    "socket(AF_PACKET)": (41, 17, 3, 0),
    "socket(NETLINK_NETFILTER)": (41, 16, 3, 12),
    "fanotify_init": (300, 0, 0),
    "process_vm_readv": (310, 1, 0, 0, 0, 0, 0),
    "open_by_handle_at": (304, 0, 0, 0),
    "clone3": (435, 0, 0),
}


def test_dangerous_system_calls_are_refused():
    if os.uname().machine != "x86_64":
        raise Skip("the numbers are those of x86-64")
    code = f"""
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        for name, a in {CALLS!r}.items():
            pid = os.fork()
            if pid == 0:
                libc.syscall.restype = ctypes.c_long
                r = libc.syscall(*[ctypes.c_long(x) for x in a])
                os._exit(0 if r >= 0 else ctypes.get_errno())
            print(name, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), sep="=")
    """
    for line in inside(code).splitlines():
        name, result = line.rsplit("=", 1)
        assert result in ("1", "38", "93", "97"), line  # EPERM, ENOSYS, E(PROTO|AF)NOSUPPORT
    # The same probe outside: at least these are not refusals of ours there.
    free = dict(l.rsplit("=", 1) for l in outside(code).splitlines())
    assert free["personality(READ_IMPLIES_EXEC)"] == "0", free
    assert free["clone3"] == "22", free
    assert free["ptrace(TRACEME)"] == "0", free


def test_foreign_architecture_kills():
    if os.uname().machine != "x86_64":
        raise Skip("x86-64 only")
    code = """
        import ctypes, mmap, os, signal
        pid = os.fork()
        if pid == 0:
            m = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
            m.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20 (getpid); int 0x80; ret
            ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()
            os._exit(0)
        s = os.waitpid(pid, 0)[1]
        print(signal.Signals(os.WTERMSIG(s)).name if os.WIFSIGNALED(s) else "lives")
    """
    assert inside(code) == "SIGSYS"


def test_descriptors_are_just_the_declared_ones():
    got = inside("""
        import os
        for f in sorted(os.listdir("/proc/self/fd"), key=int):
            try:
                print(f, os.readlink("/proc/self/fd/" + f).split(":")[0])
            except FileNotFoundError:
                pass
    """).splitlines()
    assert got[0] == "0 /dev/null", got
    for line in got[1:]:
        assert line.split()[1] in ("pipe", "socket", "anon_inode", "/dev/null"), got
    child = inside("import subprocess; print(subprocess.run(['ls', '/proc/self/fd'], capture_output=True, text=True)"
                   ".stdout.split())")
    assert child == "['0', '1', '2', '3']", child  # 3 is ls's own


def test_init_can_not_be_touched():
    got = inside("""
        import os, signal
        for what in ("environ", "exe", "fd", "root", "mem"):
            try:
                p = "/proc/1/" + what
                os.readlink(p) if what in ("exe", "root") else os.listdir(p) if what == "fd" else open(p, "rb").read(1)
                print(what)
            except OSError:
                pass
        os.kill(1, signal.SIGKILL)
        print(os.path.exists("/proc/1"))
    """)
    assert got == "True", got


def test_limits_are_set():
    got = inside("""
        import ctypes, errno, mmap, os, resource as r
        print(r.getrlimit(r.RLIMIT_CORE), r.getrlimit(r.RLIMIT_FSIZE)[1] >> 30, r.getrlimit(r.RLIMIT_STACK)[1] >> 20)
        libc = ctypes.CDLL(None, use_errno=True)
        area = ctypes.c_char.from_buffer(mmap.mmap(-1, 1 << 20))
        for size in (32 << 10, 1 << 20):
            print(libc.mlock(ctypes.byref(area), ctypes.c_size_t(size)), end=" ")
        print(errno.errorcode[ctypes.get_errno()])
        queues = 0
        while queues < 100 and libc.mq_open(b"/q%d" % queues, os.O_CREAT | os.O_RDWR, 0o600, None) >= 0:
            queues += 1
        print(queues, errno.errorcode[ctypes.get_errno()])
        print(r.getrlimit(r.RLIMIT_NOFILE)[0])
        r.setrlimit(r.RLIMIT_NOFILE, (4096, 4096))
        held = []
        try:
            while len(held) < 10000:
                held.append(os.dup(0))
        except OSError as e:
            print(errno.errorcode[e.errno], 4000 < len(held) < 4096)
        for fd in held:
            os.close(fd)
        r.setrlimit(r.RLIMIT_NOFILE, (1024, 4096))
    """)
    assert got.splitlines() == ["(0, 0) 16 64", "0 -1 ENOMEM", "2 EMFILE", "1024", "EMFILE True"], got


def test_inotify_of_the_machine_is_not_used_up():
    """The kernel's ceilings are the user's, for all of the user's programs."""
    watch = """
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        fd = libc.inotify_init1(0o2000000)
        os.makedirs("watched")
        n = 0
        while n < 9000:
            open(f"watched/{n}", "w").close()
            if libc.inotify_add_watch(fd, f"watched/{n}".encode(), 2) < 0:
                break
            n += 1
        print(n, ctypes.get_errno())
        os.close(fd)
        """
    assert inside(watch) == "8192 28"
    take = """
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        n = 0
        while n < 500 and libc.inotify_init1(0o2000000) >= 0:
            n += 1
        print(n, ctypes.get_errno(), open('/proc/sys/user/max_inotify_watches').read().strip())
        """
    assert inside(take) == "16 24 8192"
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(0o2000000)
    assert fd >= 0, os.strerror(ctypes.get_errno())
    os.close(fd)


def test_process_limit_holds():
    setup()
    # Processes, not threads, and so small that their shared memory need not be counted.
    code = """
import os
n, kids = 0, []
try:
    while n < 5000:
        kids.append(os.posix_spawn("/bin/sleep", ["sleep", "600"], {})); n += 1
except OSError as e:
    print(e.strerror, n < 5000)
for k in kids:
    os.kill(k, 9)
    os.waitpid(k, 0)
"""
    r = box("run", "--session", "sb", "-c", code)
    assert r.stdout.startswith("Resource temporarily unavailable True"), (r.stdout, r.stderr)
    assert inside("print(1)") == "1"


def test_disk_limit_holds():
    setup()
    r = box("run", "--image", image, "--disk", "16M", "-c", """
import errno, os
try:
    with open("big", "wb") as f:
        for _ in range(64):
            f.write(bytes(1 << 20)); f.flush()
except OSError as e:
    print(errno.errorcode[e.errno])
os.remove("big")
n = 0
try:
    while n < 100000:
        open(f"f{n}", "w").close(); n += 1
except OSError as e:
    print(errno.errorcode[e.errno], n < 100000)
""", check=True)
    assert r.stdout.split() == ["ENOSPC", "ENOSPC", "True"], r.stdout


def test_two_sessions_share_nothing():
    setup()
    box("run", "--session", "sb2", "--image", image, "-c", "pass", check=True)
    code = "import os; print([os.stat(p).st_dev for p in ('/workspace', '/tmp', '/dev/shm')], os.stat('/etc').st_dev)"
    assert box("run", "--session", "sb", "-c", code).stdout != box("run", "--session", "sb2", "-c", code).stdout
    # A lock on a file of the image: one session's must not be another's.
    lock = ("import fcntl, glob; f = open([g for g in glob.glob('/usr/lib/python3*/os.py') + "
            "glob.glob('/usr/lib*/python3*/os.py')][0]); "
            "fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB); print('locked')")
    for s in ("sb", "sb2"):
        r = box("run", "--session", s, "-c", lock)
        assert r.stdout.strip() == "locked", (s, r.stdout, r.stderr)
    box("session", "rm", "sb2", check=True)


def test_memory_limit_is_named():
    setup()
    r = box.json("run", "--image", image, "--memory", "128M", "--json", "-c", "x = bytearray(1 << 30)")
    assert r["status"] == "killed" and "memory limit of 128" in r["message"], r
    # Many processes, each below the limit of one: the watcher sees their sum.
    r = box.json("run", "--image", image, "--memory", "128M", "--json", "--timeout", "100", "-c", """
import os, time
for i in range(4):
    if os.fork() == 0:
        x = bytearray(60 << 20)
        for j in range(0, len(x), 4096): x[j] = 1
        time.sleep(20); os._exit(0)
y = bytearray(60 << 20)
for j in range(0, len(y), 4096): y[j] = 1
codes = [os.waitpid(-1, 0)[1] for i in range(4)]
print("killed", sum(c == 9 for c in codes))
""")
    killed = r["status"] == "killed" and "memory" in r["message"]
    assert killed or (r["status"] == "ok" and int(r["stdout"].split()[1]) > 0), r


if __name__ == "__main__":
    run(globals())
