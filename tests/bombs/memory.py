#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of a session that no control group limits: what counts, what does not, and what it may take to find out."""
import os
import sys
import threading
import time
from contextlib import nullcontext

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, children, run, wait_until  # noqa: E402
from control import Control  # noqa: E402
from tracing import Strace, supervisor  # noqa: E402

MIB = 1 << 20
box = Box(CODEBOX_POOL="0")
image = box.image("host", "python-minimal", "python")


def status_of(pid):
    try:
        with open(f"/proc/{pid}/status") as f:
            return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    except OSError:
        return {}


class Peak(threading.Thread):
    """The most of something of the machine's that was taken at once since it was least: of a session that is made, and
    ends, meanwhile, all that it holds is in it, mapped or not, and also what those hold who are being killed."""

    def __init__(self, now):
        super().__init__(daemon=True)
        self.now, self.first, self.most, self.over = now, 0, 0, False

    def run(self):
        while not self.over:
            now = self.now()
            self.first = min(self.first, now)  # of those before, something may still be going
            self.most = max(self.most, now - self.first)
            time.sleep(0.002)

    def __enter__(self):
        self.first = self.now()
        self.start()
        return self

    def __exit__(self, *_):
        self.over = True
        self.join()


def memory_taken():
    """Less what each processor keeps of what was freed, which is in no list of free pages."""
    with open("/proc/meminfo") as f:
        left = next(int(line.split()[1]) for line in f if line.startswith("MemAvailable:")) * 1024
    with open("/proc/zoneinfo") as f:
        kept = sum(int(line.split()[1]) for line in f if line.strip().startswith("count:")) * os.sysconf("SC_PAGESIZE")
    return -left - kept


def files_open():
    with open("/proc/sys/fs/file-nr") as f:
        return int(f.read().split()[0])


def at_most_a_quarter_above(now, limit, code, **spec):
    """Others on the machine only add to what is seen, so that the least of five is nearest to what the session had."""
    seen = []
    for _ in range(5):
        peak = Peak(now)
        r = cell(code, peak, **spec)
        seen.append(peak.most)
        if peak.most <= limit * 1.25:
            break
    print(f"# {', '.join(f'{n / limit:.2f}' for n in seen)} of the limit")
    assert min(seen) <= limit * 1.25, (seen, limit)
    return r


def cell(code, peak=None, **spec):
    """Its result in a session of its own."""
    with peak or nullcontext(), Control(box) as c:
        sid = c.call("session.create", image=image, **spec)["session_id"]
        try:
            return c.call("run", session_id=sid, code=code, timeout=100)
        finally:
            c.call("session.close", session_id=sid)


def killed_for_memory(r, size):
    assert "memory limit" in (r.get("message") or "") and size in r["message"], r


def test_what_is_not_used_does_not_count():
    """RLIMIT_DATA, which counts all that is reserved, would refuse each of these."""
    r = cell("import mmap, threading\nm = mmap.mmap(-1, 4 << 30, flags=mmap.MAP_PRIVATE)\nm[0] = m[-1] = 1\n"
             "go = threading.Event()\nall = [threading.Thread(target=go.wait) for i in range(150)]\n"
             "for t in all: t.start()\ngo.set()\nfor t in all: t.join()\nprint('fine')", memory="512M")
    assert r["stdout"] == "fine\n", r
    # As AddressSanitizer does for its shadow; and itself, where the image has a compiler.
    r = cell("import mmap, os, shutil, subprocess\nm = mmap.mmap(-1, 1 << 44, flags=mmap.MAP_PRIVATE | 0x4000)\n"
             "m[1 << 43] = 1\nC = 'int main(int n, char **v) { int a[4]; return a[n + 3]; }'\n"
             "if shutil.which('gcc') and not subprocess.run(['gcc', '-fsanitize=address', '-xc', '-o', 'a', '-'], "
             "input=C.encode(), stderr=subprocess.DEVNULL).returncode:\n"
             "    assert b'stack-buffer-overflow' in subprocess.run(['./a'], stderr=subprocess.PIPE).stderr\n"
             "print('fine')", memory="512M")
    assert r["stdout"] == "fine\n", r
    r = cell("import mmap\nmmap.mmap(-1, 4 << 30, flags=mmap.MAP_PRIVATE)", memory="512M", profile="strict")
    assert r["status"] == "error" and "Cannot allocate memory" in r["error"]["value"], r


def test_one_that_grows():
    r = cell("b = []\nwhile True: b.append(bytearray(1 << 20))", memory="128M")
    assert r["status"] == "killed", r
    killed_for_memory(r, "128")


def test_many_that_come_again():
    """Each far below the limit, and for one that is killed there is another one at once."""
    r = at_most_a_quarter_above(memory_taken, 2048 * MIB, """
import os, mmap, time
def grow():
    m = mmap.mmap(-1, 40 << 20, flags=mmap.MAP_PRIVATE)
    for j in range(0, 40 << 20, 4096): m[j] = 1
    time.sleep(100)
    os._exit(0)
n = 0
while True:
    while n < 200:
        if os.fork() == 0: grow()
        n += 1
    os.wait()
    n -= 1
""", memory="2G")
    assert r["status"] == "killed", r
    killed_for_memory(r, "2 GiB")


def test_page_tables():
    r = at_most_a_quarter_above(memory_taken, 512 * MIB, """
import mmap
m = mmap.mmap(-1, 1 << 40, flags=mmap.MAP_PRIVATE | 0x4000, prot=mmap.PROT_READ)
for i in range(0, 1 << 40, 2 << 20): m[i]
""", memory="512M")
    killed_for_memory(r, "512")


FILL = """
import os, resource, socket, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
pid = 0
while pid == 0:  # of all the sockets that one process may have, for less than the limit
    pairs = []
    while True:
        try:
            a, b = socket.socketpair()
        except OSError:
            break
        a.setblocking(False)
        try:
            while True: a.send(bytes(32768))
        except BlockingIOError: pass
        %s
    pid = os.fork()
time.sleep(100)
"""


def test_sockets():
    """What lies in them, also when those who sent it have closed theirs, is mapped by nobody."""
    for keep, profile in (("pairs.append((a, b))", "strict"), ("a.close(); pairs.append(b)", "default")):
        r = at_most_a_quarter_above(memory_taken, 512 * MIB, FILL % keep, memory="512M", profile=profile)
        killed_for_memory(r, "512")


def test_descriptors():
    r = cell("import os, time\nfor i in range(60):\n    if os.fork() == 0:\n        try:\n            while True: os.dup(0)\n"
             "        except OSError: pass\n        time.sleep(100)\nos.wait()", memory="256M")
    assert r["status"] in ("ok", "killed") and "too many files open" in r["message"], r
    r = at_most_a_quarter_above(files_open, 65536, """
import os, resource, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
for i in range(100):
    if os.fork() == 0:
        try:
            while True: os.open('/dev/null', os.O_RDONLY)
        except OSError: pass
        time.sleep(100)
os.wait()
time.sleep(2)
""")
    assert r["status"] in ("ok", "killed") and "too many files open" in r["message"], r


def test_shared_memory_that_nobody_maps():
    r = cell("import os\nfd = os.open('/dev/shm/x', os.O_RDWR | os.O_CREAT)\nwhile True:\n    os.write(fd, bytes(1 << 20))",
             memory="128M")
    assert r["status"] == "error" and "No space left" in r["error"]["value"], r
    r = cell("import os, time\nfd = os.open('/dev/shm/x', os.O_RDWR | os.O_CREAT)\n"
             "for i in range(60): os.write(fd, bytes(1 << 20))\nb = os.urandom(1 << 20) * 90\ntime.sleep(100)",
             memory="128M")
    killed_for_memory(r, "128")


def test_the_kernel_takes_sessions_first():
    with Control(box) as c:
        sid = c.call("session.create", image=image)["session_id"]
        r = c.call("run", session_id=sid, code="try:\n    open('/proc/self/oom_score_adj', 'w').write('0')\n"
                   "except OSError as e:\n    print('refused')\nprint(open('/proc/self/oom_score_adj').read())")
        inside = [p for p in children(supervisor(box)) if len(status_of(p).get("NSpid", "").split()) == 3]
        assert len(inside) >= 2
        for pid in inside:
            with open(f"/proc/{pid}/oom_score_adj") as f:
                assert f.read() == "1000\n", (pid, r)
        c.call("session.close", session_id=sid)


CHURN = """
import mmap, os, time
for k in range(12):
    if os.fork() == 0:
        page = mmap.PAGESIZE
        import ctypes
        libc = ctypes.CDLL(None)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
        libc.mprotect.argtypes = libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        p = libc.mmap(None, 60000 * page, 3, 0x22, -1, 0)
        ctypes.memset(p, 1, 60000 * page)
        for i in range(0, 60000, 2): libc.mprotect(p + i * page, page, 1)
        if k == 0: open('ready', 'w').close()
        while True:
            for i in range(0, 60000, 2): libc.mprotect(p + i * page, page, 0); libc.mprotect(p + i * page, page, 1)
while not os.path.exists('ready'): time.sleep(0.01)
print('churning', flush=True)
time.sleep(100)
"""


def test_mappings_that_churn():
    """Who counts what they share waits for their locks: that is not the supervisor."""
    cell("1")
    pid = supervisor(box)
    with Strace(box, [pid], "-e", "trace=openat") as s:
        r = cell(CHURN, memory="1G")
        calls = [call for by, call in s.calls() if int(by) == pid]
    killed_for_memory(r, "1 GiB")
    assert any("/stat" in call for call in calls), calls[:20]
    assert not any("smaps" in call for call in calls), [call for call in calls if "smaps" in call][:5]


def test_many_that_share():
    """Two hundred and forty that are forked quickly, or end slowly, and use a fraction of what each of them has mapped."""
    for between, pause, after in (("", 0, "0.004"), ("time.sleep(0.002)", 1, "0"), ("", 1, "0.01")):
        r = cell("import os, signal, time\nkids = []\nfor i in range(240):\n    kids.append(os.fork())\n"
                 f"    if kids[-1] == 0:\n        signal.pause()\n    {between}\ntime.sleep({pause})\n"
                 f"for k in kids:\n    os.kill(k, 9)\n    os.waitpid(k, 0)\n    time.sleep({after})\nprint('fine')", memory="512M")
        assert (r["stdout"], r.get("message") or "") == ("fine\n", ""), r


COME_AND_GO = """
import os, time
if os.fork() == 0:
    while True:
        some = []
        try:
            while len(some) < 12:
                some.append(os.fork())
                if not some[-1]:
                    time.sleep(0.02)
                    os._exit(0)
        except BlockingIOError:
            pass  # there are as many processes as there may be
        for pid in some: os.waitpid(pid, 0)
"""


def test_one_that_is_never_there_when_it_is_counted():
    """A process that lives on in a child by the time somebody looks into its page tables; and one beside which others, which
    share what they have, come and go all the time. At four times the limit it stops, and says so."""
    for beside in "", COME_AND_GO:
        r = at_most_a_quarter_above(memory_taken, 512 * MIB, beside + """
import ctypes, mmap, os
libc = ctypes.CDLL(None)
HUGE = 2 << 20
end, other = os.pipe()
if os.fork() == 0:
    os.close(end)
    m = mmap.mmap(-1, (2 << 30) + HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    m.madvise(mmap.MADV_HUGEPAGE)
    first = -ctypes.addressof(ctypes.c_char.from_buffer(m)) % HUGE
    for j in range(first, first + (2 << 30), HUGE):  # whole ones: the kernel keeps what is left of a divided one for a while
        for k in range(j, j + HUGE, 4096): m[k] = 1
        if libc.fork(): libc._exit(0)
    os.write(other, b'all of it')
    os._exit(0)
os.close(other)
print(os.read(end, 100))
""", memory="512M")
        assert r["stdout"] == "b''\n" or (r["status"], r["stdout"]) == ("killed", ""), r


def dead():
    return {p for p in children(supervisor(box)) if status_of(p).get("State", "")[0:1] == "Z"}


def stays_dead(before):
    """Others are dead for a moment, until their parents have reaped them."""
    new = dead() - before
    time.sleep(1 if new else 0)
    return new & dead()


def test_what_was_left_to_sleep():
    with Control(box) as c:
        sid = c.call("session.create", image=image, memory="128M")["session_id"]
        before = dead()
        r = c.call("run", session_id=sid, code="import os, time\npid = os.fork()\nif pid == 0:\n    time.sleep(8)\n"
                   "    open('grows', 'w').close()\n    b = []\n    while True: b.append(bytearray(os.urandom(1 << 20)))\n")
        assert r["status"] == "ok", r
        assert wait_until(lambda: stays_dead(before))
        r = c.call("run", session_id=sid, code="print(os.path.exists('grows'), os.waitpid(pid, 0)[1])")
        assert r["stdout"] == "True 9\n", r
        c.call("session.close", session_id=sid)


def test_nothing_runs():
    """Sessions that do nothing are hardly looked at."""
    with Control(box) as c:
        all = [c.call("session.create", image=image)["session_id"] for _ in range(12)]
        for sid in all:
            assert c.call("run", session_id=sid, code="1")["status"] == "ok"
        time.sleep(9)
        with Strace(box, [supervisor(box)], "-e", "trace=openat") as s:
            time.sleep(3)
            looks = [call for _, call in s.calls() if "/stat\"" in call]
        assert len(looks) <= 2 * 3 * len(all), (len(looks), looks[:40])  # twice, at three processes each
        switches = int(status_of(supervisor(box))["voluntary_ctxt_switches"])
        time.sleep(5)
        switches = int(status_of(supervisor(box))["voluntary_ctxt_switches"]) - switches
        print(f"# woken {switches} times in 5 s")
        assert switches <= 15, switches  # twice a second, to see how much memory the machine has left
        for sid in all:
            c.call("session.close", session_id=sid)


if __name__ == "__main__":
    run(globals())
