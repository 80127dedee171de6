#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What people run in a session works under the default profile, and under the others where it should: a sandbox that
refuses too much is a defect, too. What the machine has is run on an image "host", made here."""
import hashlib
import json
import os
import sys
import textwrap

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, Skip, run  # noqa: E402
from control import Control  # noqa: E402

box = Box()
machine = Box()
machine.env["CODEBOX_DATA_DIR"] = os.path.join(machine.dir, "data")
sessions = {}


def session(images, profile="default"):
    """(box, session) on the first of the images that there is."""
    key = f"{'-'.join(images)}-{profile}"
    if key not in sessions:
        where = machine if images[0] == "host" else box
        if where is machine and not machine.images():
            machine("image", "build", "host", check=True)
        with Control(where) as c:
            c.call("session.create", session_id=key, image=where.image(*images), profile=profile, memory="4G")
        sessions[key] = where
    return sessions[key], key


def cell(code, images=("host",), profile="default"):
    where, name = session(images, profile)
    r = where("run", "--session", name, "--timeout", "200", "-c", textwrap.dedent(code), timeout=250)
    assert r.returncode == 0, (r.returncode, r.stdout[-2000:], r.stderr[-2000:])
    return r.stdout.strip()


def shell(script, needs, profile="default"):
    """The script's output, in a session on the machine's own programs."""
    for program in needs:
        if not os.path.exists("/usr/bin/" + program):
            raise Skip(f"the machine has no /usr/bin/{program}")
    return cell(f"""
        import subprocess
        r = subprocess.run(["bash", "-euc", {textwrap.dedent(script)!r}], stdin=subprocess.DEVNULL, capture_output=True,
                           text=True)
        print(r.stdout, end="")
        assert r.returncode == 0, r.stderr
    """, profile=profile)


NODE = """
cat >/tmp/t.mjs <<'END'
import { Worker, isMainThread, parentPort } from "node:worker_threads";
import { execFileSync, fork } from "node:child_process";
import net from "node:net";
import fs from "node:fs/promises";
import crypto from "node:crypto";
import zlib from "node:zlib";
if (!isMainThread) {
  parentPort.postMessage("worker");
} else {
  const w = await new Promise((ok, no) => new Worker(new URL(import.meta.url)).on("message", ok).on("error", no));
  await fs.writeFile("/tmp/x", "file");
  const f = await fs.readFile("/tmp/x", "utf8");
  const c = execFileSync("echo", ["child"], { encoding: "utf8" }).trim();
  const s = await new Promise((ok) => {
    const l = net.createServer((x) => x.end("socket")).listen(SOCKET, () => {
      net.connect(SOCKET === 0 ? l.address().port : SOCKET, ...(SOCKET === 0 ? ["127.0.0.1"] : [])).on("data", (d) => {
        ok(String(d));
        l.close();
      });
    });
  });
  const h = await new Promise((ok, no) => crypto.scrypt("a", "b", 8, (e, k) => (e ? no(e) : ok(k.length))));
  console.log(w, f, c, s, h, zlib.gunzipSync(zlib.gzipSync("zip")).toString(), eval("1+1"), typeof WebAssembly);
}
END
node /tmp/t.mjs
"""


def test_node():
    assert shell(NODE.replace("SOCKET", "0"), ["node"]) == "worker file child socket 8 zip 2 object"


def test_node_under_strict():
    assert shell(NODE.replace("SOCKET", '"/tmp/sock"'), ["node"], "strict") == "worker file child socket 8 zip 2 object"


def test_git():
    got = shell("""
        cd /workspace && rm -rf repo clone
        git -c init.defaultBranch=main init -q repo && cd repo
        git config user.email a@example.org && git config user.name A
        echo one >file && git add file && git commit -qm one
        git checkout -qb side && echo two >>file && git commit -qam two
        git checkout -q main && git merge -q side && git gc -q && git fsck --no-progress
        cd .. && git clone -q repo clone && cd clone && git log --format=%s
        git worktree add -q ../tree && git status -s
    """, ["git"])
    assert got.split() == ["two", "one"], got


def test_c_compiler_and_make():
    got = shell("""
        cd /workspace && mkdir -p c && cd c
        printf '#include <stdio.h>\\n#include <pthread.h>\\nstatic void *f(void *p) { return p; }\\n'  >t.c
        printf 'int main(void) { pthread_t t; int r = pthread_create(&t, 0, f, 0); pthread_join(t, 0); ' >>t.c
        printf 'printf("compiled %%d\\\\n", r); return 0; }\\n' >>t.c
        gcc -O2 -pthread -o t t.c && ./t && gcc -shared -fPIC -o t.so t.c
        printf 'all: a b\\na:\\n\\ttouch a\\nb: a\\n\\ttouch b\\n' >Makefile
        [ ! -x /usr/bin/make ] || make -s -j4
        [ ! -x /usr/bin/g++ ] || { echo 'int main() { throw 1; }' >t.cc && g++ -o tc t.cc && ! ./tc 2>/dev/null; }
    """, ["gcc"])
    assert got == "compiled 0", got


def test_sanitizers():
    """What the manual says of leaks; and that the others find what they look for."""
    script = """
        cd /tmp
        printf 'int main(int n, char **v) { int a[4] = { 0 }; return a[n + %d]; }\\n' -1 >clean.c
        printf 'int main(int n, char **v) { int a[4] = { 0 }; return a[n + %d]; }\\n' 3 >overflow.c
        printf '#include <stdlib.h>\\nint main(void) { volatile char *p = malloc(9); p = 0; return !!p; }\\n' >leaks.c
        for s in address leak undefined; do gcc -fsanitize=$s -o clean-$s clean.c && ./clean-$s && echo $s; done
        gcc -fsanitize=address -o overflow overflow.c
        ./overflow 2>report && exit 1; grep -c stack-buffer-overflow report
        gcc -fsanitize=leak -o leaks leaks.c
        ./leaks 2>/dev/null && echo "leaks pass" || echo "leaks are found"
    """
    for profile, leaks in (("default", "leaks pass"), ("dev", "leaks are found")):
        lines = shell(script, ["gcc"], profile).splitlines()
        assert lines[:3] == ["address", "leak", "undefined"] and int(lines[3]) and lines[4] == leaks, (profile, lines)


def test_message_queues():
    assert cell("""
        import ctypes, errno, os
        lib = ctypes.CDLL(None, use_errno=True)
        opened, q = [], 0
        while len(opened) < 4:
            q = lib.mq_open(b"/q%d" % len(opened), os.O_RDWR | os.O_CREAT, 0o600, None)
            if q < 0:
                break
            opened.append(q)
        refused = errno.errorcode[ctypes.get_errno()]
        assert lib.mq_send(opened[0], b"text", 4, 0) == 0
        buf = ctypes.create_string_buffer(8192)
        n = lib.mq_receive(opened[0], buf, 8192, None)
        print(len(opened), refused, buf.raw[:n].decode())
    """) == "2 EMFILE text"


def test_numbers_are_as_the_manual_says():
    where, name = session(("host",))
    assert cell("""
        import os
        mem = dict(line.split(":") for line in open("/proc/meminfo"))
        total, free, available = (int(mem[k].split()[0]) for k in ("MemTotal", "MemFree", "MemAvailable"))
        assert total == 4 << 20 and free == available == total, mem
        cpus = [line.split() for line in open("/proc/stat") if line.startswith("cpu")]
        assert len(cpus) == 1 + len(os.sched_getaffinity(0)) or len(cpus) - 1 == os.cpu_count(), cpus
        assert not any(int(n) for line in cpus for n in line[1:]), cpus
        assert open("/proc/loadavg").read().startswith("0.00 0.00 0.00"), open("/proc/loadavg").read()
        assert open("/proc/uptime").read() == "0.00 0.00\\n"
        held = bytearray(64 << 20)
        rss = int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        assert rss > 64 << 20, rss
        print("as it says")
    """) == "as it says"


def test_numbers_of_psutil_and_of_the_c_library():
    """The limit, all of it free, and no processor in use; a process's own are right. sysinfo(2) is the machine's."""
    got = cell("""
        try:
            import psutil
        except ImportError:
            print("no psutil")
        else:
            import os
            memory, own = psutil.virtual_memory(), psutil.Process()
            assert memory.total == memory.available == 4 << 30 and memory.percent == 0, memory
            assert psutil.cpu_percent(0.05) == 0 and psutil.cpu_times().user == 0
            held, before = bytearray(64 << 20), own.cpu_times().user
            while own.cpu_times().user < before + 0.1:
                pass
            assert own.memory_info().rss > 64 << 20, own.memory_info()
            print(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20)
    """, images=("python", "host"))
    if got == "no psutil":
        raise Skip("there is no psutil")
    with open("/proc/meminfo") as f:
        physical = int(f.readline().split()[1]) >> 10
    assert int(got) in (physical, 4 << 10), (got, physical)  # a C library before 2.35 reads /proc/meminfo


MANUAL = """
    import ctypes, errno, mmap, os, resource, socket
    libc = ctypes.CDLL(None, use_errno=True)
    def end(f, *args):
        ctypes.set_errno(0)
        try:
            r = f(*args)
        except OSError as e:
            return errno.errorcode.get(e.errno, "not found")
        return errno.errorcode.get(ctypes.get_errno(), "ok")
    with open("from", "w") as f:
        f.write("x" * 100)
    a, b, (r, w) = os.open("from", os.O_RDWR), os.open("to", os.O_CREAT | os.O_RDWR), os.pipe()
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(affinity)})
    print(end(open, "/usr/x", "w"), end(os.chown, "from", 0, 0), end(os.sendfile, w, a, 0, 10),
          end(libc.copy_file_range, a, None, b, None, 10, 0), end(libc.splice, a, None, w, None, 10, 0),
          os.sched_getaffinity(0) == affinity,
          resource.getrlimit(resource.RLIMIT_FSIZE)[0] >> 30, *resource.getrlimit(resource.RLIMIT_NOFILE),
          resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] >> 10, os.environ.get("ASAN_OPTIONS"),
          end(libc.syscall, 425, 1, None), end(libc.unshare, 0x10000000))
    print(*[end(socket.socket, *s) for s in ((socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET6, socket.SOCK_DGRAM),
          (socket.AF_UNIX, socket.SOCK_STREAM), (38, 5), (socket.AF_INET, socket.SOCK_DGRAM, 136),
          (socket.AF_INET, socket.SOCK_STREAM, 132), (socket.AF_INET, socket.SOCK_DGRAM, 1),
          (socket.AF_INET, socket.SOCK_RAW, 1))],
          len(open("/etc/resolv.conf").read()), end(socket.getaddrinfo, "name.invalid", 80))
"""


def test_files_limits_and_sockets_are_as_the_manual_says():
    one_processor = os.cpu_count() == 1
    for profile, sendfile, splice, affinity, leaks in (("default", "ok", "ENOSYS", True, "detect_leaks=0"),
                                                       ("dev", "ok", "ok", one_processor, None),
                                                       ("strict", "ENOSYS", "ENOSYS", True, "detect_leaks=0")):
        first, second = cell(MANUAL, profile=profile).splitlines()
        wanted = f"EROFS EPERM {sendfile} ok {splice} {affinity} 16 1024 4096 64 {leaks} ENOSYS EPERM"
        assert first == wanted, (profile, first)
        none, protocol = "EAFNOSUPPORT", "EPROTONOSUPPORT"
        wanted = [none, none, "ok", *[none] * 5] if profile == "strict" else ["ok"] * 3 + [none, *[protocol] * 3, "EPERM"]
        assert second == " ".join(wanted) + " 0 not found", (profile, second)


def test_a_debugger_under_dev_alone():
    script = "strace -qq -e trace=write -o /tmp/log echo traced >/dev/null && grep -c traced /tmp/log"
    assert shell(script, ["strace"], "dev") == "1"
    try:
        shell(script, ["strace"])
    except AssertionError as e:
        assert "not permitted" in str(e) or "ptrace" in str(e).lower(), e
    else:
        raise AssertionError("processes were traced under the profile default")


def test_pip_installs_a_wheel():
    got = cell("""
        import os, subprocess, sys, zipfile
        os.makedirs("wheels", exist_ok=True)
        name = "wheels/probe_wheel-1.0-py3-none-any.whl"
        with zipfile.ZipFile(name, "w") as z:
            z.writestr("probe_wheel.py", "value = 42\\n")
            z.writestr("probe_wheel-1.0.dist-info/METADATA",
                       "Metadata-Version: 2.1\\nName: probe-wheel\\nVersion: 1.0\\n")
            z.writestr("probe_wheel-1.0.dist-info/WHEEL",
                       "Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
            z.writestr("probe_wheel-1.0.dist-info/RECORD",
                       "probe_wheel.py,,\\nprobe_wheel-1.0.dist-info/METADATA,,\\nprobe_wheel-1.0.dist-info/WHEEL,,\\n"
                       "probe_wheel-1.0.dist-info/RECORD,,\\n")
        r = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, text=True)
        if r.returncode:
            print("no pip")
        else:
            r = subprocess.run([sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "-q", "--target",
                                "site", name, "--disable-pip-version-check"], capture_output=True, text=True)
            assert r.returncode == 0, r.stderr
            sys.path.insert(0, "site")
            import probe_wheel
            print(probe_wheel.value)
    """)
    if got == "no pip":
        raise Skip("the machine's Python has no pip")
    assert got == "42", got


def test_numpy_with_threads():
    got = cell("""
        try:
            import numpy as np
        except ImportError:
            print("no numpy")
        else:
            import os
            from concurrent.futures import ThreadPoolExecutor
            a = np.random.default_rng(1).random((400, 400))
            want = a @ a
            with ThreadPoolExecutor(8) as pool:
                print(all(np.allclose(x, want) for x in pool.map(lambda _: a @ a, range(16))),
                      np.allclose(np.linalg.inv(a) @ a, np.eye(400), atol=1e-6))
    """, images=("python", "host"))
    if got == "no numpy":
        raise Skip("there is no numpy")
    assert got == "True True", got


POOL = """
    import multiprocessing as mp
    def square(x):
        return x * x
    with mp.get_context("fork").Pool(4) as pool:
        print(sum(pool.map(square, range(1000))))
    q = mp.Queue()
    p = mp.Process(target=q.put, args=("queued",)); p.start(); print(q.get()); p.join()
    with mp.Manager() as m:
        d = m.dict(); d["a"] = 1; print(dict(d))
    from multiprocessing import shared_memory
    s = shared_memory.SharedMemory(create=True, size=1 << 20); s.buf[0] = 7
    t = shared_memory.SharedMemory(s.name); print(t.buf[0]); t.close(); s.close(); s.unlink()
    v = mp.Value("i", 0)
    def add():
        for _ in range(1000):
            with v.get_lock():
                v.value += 1
    ps = [mp.Process(target=add) for _ in range(4)]
    [p.start() for p in ps]; [p.join() for p in ps]; print(v.value)
"""


def test_multiprocessing():
    for profile in ("default", "strict", "net", "dev"):
        assert cell(POOL, profile=profile).splitlines() == ["332833500", "queued", "{'a': 1}", "7", "4000"], profile


def test_sqlite():
    got = cell("""
        import sqlite3, threading
        for mode in ("wal", "delete", "memory"):
            c = sqlite3.connect(f"{mode}.db")
            assert c.execute(f"pragma journal_mode={mode}").fetchone()[0] == mode
            c.execute("create table t (n)"); c.commit()
            def add(k, mode=mode):
                d = sqlite3.connect(f"{mode}.db", timeout=60)
                for i in range(50):
                    with d:
                        d.execute("insert into t values (?)", (k * 50 + i,))
            ts = [threading.Thread(target=add, args=(k,)) for k in range(4)]
            [t.start() for t in ts]; [t.join() for t in ts]
            print(c.execute("select count(*), sum(n) from t").fetchone())
    """)
    assert got.splitlines() == ["(200, 19900)"] * 3, got


def test_a_server_and_its_client_on_loopback():
    got = cell("""
        import asyncio, http.server, threading, urllib.request
        s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
        threading.Thread(target=s.serve_forever, daemon=True).start()
        open("served.txt", "w").write("served")
        print(urllib.request.urlopen(f"http://localhost:{s.server_port}/served.txt").read().decode())
        s.shutdown()
        async def main():
            async def answer(r, w):
                w.write(await r.readline()); await w.drain(); w.close()
            async with await asyncio.start_server(answer, "::1", 0) as server:
                r, w = await asyncio.open_connection("::1", server.sockets[0].getsockname()[1])
                w.write(b"echo\\n")
                return (await r.readline()).decode().strip()
        import concurrent.futures
        with concurrent.futures.ThreadPoolExecutor() as pool:
            print(pool.submit(lambda: asyncio.run(main())).result())
    """)
    assert got.split() == ["served", "echo"], got


def test_a_build_in_the_temporary_directory():
    got = shell("""
        cd /var/tmp && printf '#!/bin/sh\\necho script\\n' >s && chmod +x s && ./s
        printf 'int answer(void) { return 42; }\\n' >a.c && gcc -shared -fPIC -o /dev/shm/a.so a.c
        python3 -c 'import ctypes, shutil; print(ctypes.CDLL("/dev/shm/a.so").answer(), shutil.which("/var/tmp/s"))'
    """, ["gcc"])
    assert got.split() == ["script", "42", "/var/tmp/s"], got


GO = """
export HOME=/home/user GOCACHE=/home/user/go-cache GOTOOLCHAIN=local GOFLAGS=-mod=mod PATH=/usr/local/go/bin:$PATH
mkdir -p /tmp/m && cd /tmp/m && printf 'module m\n' >go.mod
printf 'package main\nfunc main() { println("ran") }\n' >m.go
go run . 2>&1 && go vet .
"""


def test_go_runs_what_it_builds():
    if not os.path.exists("/usr/local/go/bin/go") and not os.path.exists("/usr/bin/go"):
        raise Skip("the machine has no Go beneath /usr")
    assert shell(GO, []) == "ran"


def test_java():
    """By links to /etc: its security settings. Several threads, and a heap below the session's memory when told so; its
    own is a quarter of what the C library says that there is."""
    got = shell("""
        heap=$(java -XX:+PrintFlagsFinal -version 2>/dev/null | awk '$2 == "MaxHeapSize" { print $4 }')
        echo $((heap / 1024 * 404 / 100 / (4 * $(getconf _PHYS_PAGES))))
        cd /workspace && printf 'public class T { public static void main(String[] a) throws Exception {
            var t = new Thread(() -> System.out.println("thread")); t.start(); t.join();
            System.out.println(java.security.MessageDigest.getInstance("SHA-256").getDigestLength()); } }' >T.java
        java -Xmx256m -XX:-UsePerfData T.java
    """, ["java"])
    assert got.split() == ["1", "thread", "32"], got


def test_a_terminal_multiplexer():
    got = shell("""
        tmux -S /tmp/tmux new-session -d -x 80 -y 24 'tty; sleep 100'
        for i in $(seq 100); do tmux -S /tmp/tmux capture-pane -p | grep -m1 pts && break; sleep 0.1; done
        tmux -S /tmp/tmux kill-server
    """, ["tmux"])
    assert got == "/dev/pts/0", got


IMAGE = """
    import ctypes.util, curses, os, shutil, socket, subprocess
    assert not any(map(shutil.which, ("cc", "gcc", "clang"))), "the manual says that it has no compiler"
    import nltk
    try:
        nltk.data.find("corpora/stopwords")
        raise AssertionError("the manual says that it has no data of nltk's")
    except LookupError:
        pass
    print(ctypes.util.find_library("c"), ctypes.util.find_library("sqlite3"))
    print(socket.getservbyname("https"), socket.getprotobyname("tcp"))
    curses.setupterm("xterm-256color", os.open("/dev/null", os.O_WRONLY)); print(curses.tigetnum("colors"))
    for command in ("jq -nc '{a: 1}'",
                    "sqlite3 :memory: 'select 6 * 7'", "tput -T xterm cols", "TERM=xterm top -bn1 | grep -c Tasks",
                    "curl -s file:///etc/hostname", "script -qec tty /dev/null"):
        print(subprocess.run(command, shell=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout.strip())
"""


def test_what_the_image_python_brings():
    got = cell(IMAGE, images=("python",)).splitlines()
    assert got == ["libc.so.6 libsqlite3.so.0", "443 6", "256", '{"a":1}', "42", "80", "1", "codebox",
                   "/dev/pts/0"], got


def test_an_environment_has_a_pip_of_its_own():
    """python -m venv, which takes pip from the files that Debian keeps for that."""
    got = cell("""
        import subprocess
        r = subprocess.run("python3 -m venv /workspace/own && /workspace/own/bin/python -m pip --version && "
                           "/workspace/own/bin/python -c 'import sys; print(sys.prefix)'", shell=True, capture_output=True, text=True)
        print(r.stdout, r.stderr)
    """, images=("python",)).splitlines()
    assert got[0].startswith("pip ") and "/workspace/own/lib/" in got[0] and got[1] == "/workspace/own", got


def test_an_image_of_an_older_recipe_is_made_anew():
    """bootstrap compares: the manifest names the recipe by its digest."""
    share = os.environ.get("CODEBOX_SHARE_DIR")
    if not share:
        raise Skip("CODEBOX_SHARE_DIR does not say where the recipes are")
    session(("host",))
    with open(os.path.join(share, "recipes", "host.json"), "rb") as f:
        want = "sha256:" + hashlib.sha256(f.read()).hexdigest()
    assert json.loads(machine("image", "show", "host", check=True).stdout)["recipe"] == want


def test_other_programs():
    """A pipeline of common tools; perl and sqlite where the machine has them."""
    got = shell("""
        seq 1000 | sort -R | sort -n | awk '{ s += $1 } END { print s }'
        tar -C /usr/lib/locale -cf - . | gzip | gunzip | tar -tf - >/dev/null
        find /usr/bin -name 'e*' -exec true {} +
        timeout 5 cat /dev/urandom | head -c 100000 | wc -c
        [ ! -x /usr/bin/perl ] || [ "$(perl -e 'print join ",", map { $_ * 2 } 1..3')" = 2,4,6 ]
        (sleep 100 & kill $!; wait $! || true)
        mktemp >/dev/null && date >/dev/null && id -un && hostname 2>/dev/null || uname -n
    """, ["awk", "gzip"])
    assert got.split()[:2] == ["500500", "100000"], got


if __name__ == "__main__":
    run(globals())
