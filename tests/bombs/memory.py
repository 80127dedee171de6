#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of a session that no control group limits: what counts, what does not, and what it may take to find out."""
import os
import sys
import threading
import time

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
    """The most that the processes of a session's sandbox had at once of some of /proc/PID/status. Those who have been
    killed and are ending do not count; of each other one as much is left out as there was when this
    began, which it shares with its parent."""

    def __init__(self, keys):
        super().__init__(daemon=True)
        self.keys, self.less, self.most, self.over = keys, 0, 0, False
        self.root = supervisor(box)

    def one(self, pid):
        s = status_of(pid)
        if not s or int(s.get("ShdPnd", "0"), 16) & 256 or int(s.get("SigPnd", "0"), 16) & 256:
            return 0
        return max(0, sum(int(s[k].split()[0]) * 1024 for k in self.keys if k in s) - self.less)

    def run(self):
        while not self.over:
            self.most = max(self.most, sum(self.one(p) for p in children(self.root)))
            time.sleep(0.01)

    def __enter__(self):
        self.less = max(self.one(p) for p in children(self.root))
        self.start()
        return self

    def __exit__(self, *_):
        self.over = True
        self.join()


def cell(code, peak=None, **spec):
    """Its result in a session of its own, and the peak."""
    with Control(box) as c:
        sid = c.call("session.create", image=image, **spec)["session_id"]
        try:
            if not peak:
                return c.call("run", session_id=sid, code=code, timeout=100)
            with peak:
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
    peak = Peak(["RssAnon"])
    r = cell("import os, mmap, time\n"
             "def grow():\n    m = mmap.mmap(-1, 40 << 20, flags=mmap.MAP_PRIVATE)\n"
             "    for j in range(0, 40 << 20, 4096): m[j] = 1\n    time.sleep(100)\n    os._exit(0)\n"
             "n = 0\nwhile True:\n    while n < 100:\n        if os.fork() == 0: grow()\n        n += 1\n"
             "    os.wait()\n    n -= 1", peak, memory="512M")
    assert r["status"] == "killed", r
    killed_for_memory(r, "512")
    print(f"# {peak.most // MIB} MiB of 512")
    # They grow by some 2 GiB a second while the watcher waits for a processor, and end at 4,000 MiB if nobody looks.
    assert peak.most < 2048 * MIB, peak.most


def test_page_tables():
    peak = Peak(["VmPTE"])
    r = cell("import mmap\nm = mmap.mmap(-1, 1 << 40, flags=mmap.MAP_PRIVATE | 0x4000, prot=mmap.PROT_READ)\n"
             "for i in range(0, 1 << 40, 2 << 20): m[i]", peak, memory="256M")
    killed_for_memory(r, "256")
    print(f"# {peak.most // MIB} MiB of 256")
    assert peak.most < 1024 * MIB, peak.most  # 2 GiB if nobody looks


FILL = """
import socket, time
pairs, sent = [], 0
while True:
    try:
        a, b = socket.socketpair()
    except OSError:
        break
    a.setblocking(False)
    try:
        while True: sent += a.send(bytes(32768))
    except BlockingIOError: pass
    print(sent, flush=True)
    %s
    time.sleep(0.005)
time.sleep(100)
"""


def test_sockets():
    """What lies in them, also when those who sent it have closed theirs, is mapped by nobody."""
    for keep, profile in (("pairs.append((a, b))", "strict"), ("a.close(); pairs.append(b)", "default")):
        r = cell(FILL % keep, memory="64M", profile=profile)
        killed_for_memory(r, "64")
        sent = int(r["stdout"].split()[-1])
        assert sent <= 128 * MIB, sent


def test_descriptors():
    r = cell("import os, time\nfor i in range(60):\n    if os.fork() == 0:\n        try:\n            while True: os.dup(0)\n"
             "        except OSError: pass\n        time.sleep(100)\nos.wait()", memory="256M")
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


def test_what_was_left_to_sleep():
    with Control(box) as c:
        sid = c.call("session.create", image=image, memory="128M")["session_id"]
        r = c.call("run", session_id=sid, code="import os, time\npid = os.fork()\nif pid == 0:\n    time.sleep(10)\n"
                   "    open('grows', 'w').close()\n    b = []\n    while True: b.append(bytearray(os.urandom(1 << 20)))\n")
        assert r["status"] == "ok", r
        assert wait_until(lambda: any(status_of(p).get("State", "")[0:1] == "Z" for p in children(supervisor(box))))
        r = c.call("run", session_id=sid, code="print(os.path.exists('grows'), os.waitpid(pid, 0)[1])")
        assert r["stdout"] == "True 9\n", r
        c.call("session.close", session_id=sid)


def test_nothing_runs():
    """Sessions that do nothing are hardly looked at."""
    with Control(box) as c:
        all = [c.call("session.create", image=image)["session_id"] for _ in range(5)]
        for sid in all:
            assert c.call("run", session_id=sid, code="1")["status"] == "ok"
        time.sleep(9)
        with Strace(box, [supervisor(box)], "-e", "trace=openat") as s:
            time.sleep(4)
            looks = [call for _, call in s.calls() if "/stat\"" in call]
        assert len(looks) <= 2 * 3 * len(all), (len(looks), looks[:40])  # twice, at three processes each
        for sid in all:
            c.call("session.close", session_id=sid)


if __name__ == "__main__":
    run(globals())
