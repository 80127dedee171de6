#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Interpreters that are forks of a warm one: they are what executed ones are, and nothing random is shared."""
import json
import os
import signal
import sys
import textwrap
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, Skip, children, named, run, wait_until  # noqa: E402
from control import Control  # noqa: E402

box = Box(CODEBOX_ZYGOTES="4", CODEBOX_POOL="0")
cold = Box(CODEBOX_ZYGOTES="0", CODEBOX_POOL="0")
state = {}


def log(b):
    path = os.path.join(b.env["CODEBOX_STATE_DIR"])
    text = ""
    for name in os.listdir(path):
        if "log" in name:
            with open(os.path.join(path, name)) as f:
                text += f.read()
    return text


def warm_up(b):
    """An image with a warm interpreter that is ready."""
    image = b.image("python", "python-minimal", "host")
    b("run", "--image", image, "-c", "pass", check=True)
    assert wait_until(lambda: "warm interpreter" in log(b) and "ready after" in log(b)), log(b)
    return image


def setup():
    if "image" not in state:
        state["image"] = None
        state["image"] = warm_up(box)
    if state["image"] is None:
        raise Skip("there is no image with a warm interpreter")
    return state["image"]


def make(b, name, *options):
    b("run", "--session", name, "--image", setup(), *options, "-c", "pass", check=True)
    return b.json("session", "info", "--json", name)


def code(b, name, text):
    r = b("run", "--session", name, "-c", textwrap.dedent(text))
    assert r.returncode == 0, (r.returncode, r.stdout, r.stderr)
    return r.stdout.strip()


def test_sessions_come_from_it():
    setup()
    info = make(box, "first")
    assert info["interpreter"]["started_by"] == "zygote", info["interpreter"]
    assert code(box, "first", "print(6 * 7)") == "42"
    assert make(cold, "first")["interpreter"]["started_by"] == "exec"



def at_once(n, meanwhile=lambda: None):
    """So many sessions are asked for before the first answer; the numbers of those that were started in each way."""
    with Control(box) as c:
        asked = [c.send("session.create", image=setup()) for _ in range(n)]
        meanwhile()
        got = []
        while len(got) < n:
            m = c.recv()
            if m.get("id") in asked:
                got.append(m["result"])
        for s in got:
            r = c.call("run", session_id=s["session_id"], code=f"print('{s['session_id']}')")
            assert r["stdout"] == s["session_id"] + "\n", r
            c.call("session.close", session_id=s["session_id"])
    return {how: sum(s["interpreter"]["started_by"] == how for s in got) for how in ("zygote", "exec")}


def test_more_at_once_than_its_socket_holds():
    setup()
    assert at_once(40) == {"zygote": 40, "exec": 0}, log(box)


THREAD = """
    import ctypes, faulthandler, json, os, threading
    libc = ctypes.CDLL(None, use_errno=True)
    out = {"native": threading.main_thread().native_id == threading.get_native_id() == os.getpid()}
    tid = ctypes.POINTER(ctypes.c_int)()
    if libc.prctl(40, ctypes.byref(tid), 0, 0, 0) == 0:  # where the C library has its number
        out["number"] = tid[0] == os.getpid()
    stack = (ctypes.c_ulong * 3)()
    out["stack"] = libc.sigaltstack(None, stack) == 0 and stack[1] & 2 == 0 and stack[2] > 0
    number = {"x86_64": 274, "aarch64": 100}[os.uname().machine]
    head, size = ctypes.c_ulong(), ctypes.c_ulong()
    out["robust"] = libc.syscall(number, 0, ctypes.byref(head), ctypes.byref(size)) == 0 and bool(head.value)
    try:
        offset = ctypes.c_ssize_t.in_dll(libc, "__rseq_offset").value
        libc.pthread_self.restype = ctypes.c_ulong
        if os.uname().machine == "x86_64":  # there it is the thread pointer, too
            out["rseq"] = ctypes.c_int.from_address(libc.pthread_self() + offset + 4).value >= 0
    except ValueError:
        pass
    out["cpu"] = libc.sched_getcpu() in os.sched_getaffinity(0)
    out["threads"] = threading.active_count(), len(os.listdir("/proc/self/task"))
    seen = []
    worker = threading.Thread(target=lambda: seen.append(threading.get_native_id()))
    worker.start(); worker.join()
    out["thread"] = seen[0] != os.getpid()
    pid = os.fork()
    if pid == 0:
        os._exit(0 if tid[0] == os.getpid() else 1)
    out["fork"] = os.waitpid(pid, 0)[1]
    out["raise"] = ctypes.CDLL(None)["raise"](0)
    print(json.dumps(out))
"""


def test_its_c_library_knows_its_thread():
    setup()
    make(box, "thread")
    make(cold, "thread")
    forked, executed = json.loads(code(box, "thread", THREAD)), json.loads(code(cold, "thread", THREAD))
    assert forked == executed and forked["native"] and forked["robust"] and forked["stack"], (forked, executed)


def test_it_is_as_good_at_any_moment():
    """Whether or not its memory was made ready before it was asked for."""
    setup()
    with Control(box) as c:
        for pause in (0, 0, 0, 0.002, 0.005, 0.01, 0.015, 0.02, 0.022, 0.025, 0.03, 0.2):
            time.sleep(pause)
            s = c.call("session.create", image=state["image"])
            assert s["interpreter"]["started_by"] == "zygote", s["interpreter"]
            r = c.call("run", session_id=s["session_id"], code="import os, random\nos.getpid(), 6 * 7")
            assert r["result"] == "(2, 42)", r
            c.call("session.close", session_id=s["session_id"])


RANDOM = """
    import random, tempfile, uuid, secrets, os, json, hashlib
    out = {"random": random.random(), "uuid4": str(uuid.uuid4()), "uuid1": str(uuid.uuid1()),
           "secrets": secrets.token_hex(16),
           "tempfile": os.path.basename(tempfile.mktemp()), "system": random.SystemRandom().random(),
           "instance": random.Random().random()}
    import multiprocessing.process
    out["authkey"] = bytes(multiprocessing.current_process().authkey).hex()
    try:
        import ssl
        out["ssl"] = ssl.RAND_bytes(16).hex()
    except ImportError:
        pass
    try:
        import numpy
        # First: the second of a pair of normal deviates could be left over from the zygote.
        out["numpy normal"] = numpy.random.randn()
        kind, key, position, pair, left = numpy.random.get_state()
        assert kind == "MT19937" and len(set(key.tolist())) > 600, (kind, position)
        out["numpy state"] = hashlib.sha256(key[300:].tobytes()).hexdigest()
        out["numpy"] = numpy.random.random()
        out["numpy generator"] = numpy.random.default_rng().random()
    except ImportError:
        pass
    print(json.dumps(out))
"""


def test_nothing_random_is_shared():
    setup()
    seen = {}
    for i in range(4):
        for key, value in json.loads(code(box, make_one(i), RANDOM)).items():
            seen.setdefault(key, []).append(value)
    assert len(seen) >= 8, seen
    for key, values in seen.items():
        assert len(set(values)) == len(values) == 4, (key, values)


def make_one(i):
    name = f"one{i}"
    if name not in state:
        info = make(box, name)
        assert info["interpreter"]["started_by"] == "zygote", info
        state[name] = True
    return name


def test_no_memory_is_shared():
    """What two interpreters could both write to would be a way from one session into another."""
    make(box, "alone")
    shared = code(box, "alone", "print([l for l in open('/proc/self/maps') if l.split()[1] in ('rw-s', 'rwxs')])")
    assert shared == "[]", shared


def test_numpy_draws_as_it_should():
    name = make_one(1)
    if code(box, name, "import importlib.util; print(importlib.util.find_spec('numpy') is not None)") != "True":
        raise Skip("the image has no numpy")
    # Its state is made by us: it must be one of its own, uniform, and take a seed.
    assert code(box, name, """
        import numpy as np
        x = np.random.random(20000)
        print(abs(x.mean() - 0.5) < 0.02, abs(x.var() - 1 / 12) < 0.01, len(set(x.tolist())) > 19990)
        np.random.seed(7)
        a = np.random.random(1500)
        b = np.random.RandomState(7).random_sample(1500)
        print((a == b).all(), np.random.get_state()[3:])
    """).splitlines() == ["True True True", "True (0, 0.0)"]


# What a user can see of an interpreter, as text.
LOOK = """
    import sys, os, json, resource, signal, locale, threading, gc, builtins, time
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)

    def layers():  # of Landlock that can still be added, in a child: as many less as there are
        r, w = os.pipe()
        if os.fork() == 0:
            n = 0
            rights = (ctypes.c_uint64 * 1)(1)
            fd = libc.syscall(444, rights, 8, 0)
            while fd >= 0 and n < 100 and libc.syscall(446, fd, 0) == 0:
                n += 1
            os.write(w, b"%d %d" % (n, fd >= 0))
            os._exit(0)
        os.wait()
        return os.read(r, 10).decode()

    d = dict(l.split(":\\t", 1) for l in open("/proc/self/status").read().splitlines() if ":\\t" in l)
    out = {
        "status": {k: d[k].strip() for k in ("Name", "Umask", "Uid", "Gid", "Groups", "SigQ", "SigPnd",
                   "ShdPnd", "SigBlk", "SigIgn",
                   "SigCgt", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Threads",
                   "Cpus_allowed", "Speculation_Store_Bypass") if k in d},
        "fds": sorted((int(f), os.readlink("/proc/self/fd/" + f).split(":")[0]) for f in os.listdir("/proc/self/fd")
                      if os.path.exists("/proc/self/fd/" + f)),
        "limits": {n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_")},
        "environ": dict(os.environ), "cwd": os.getcwd(), "argv": sys.argv, "orig_argv": sys.orig_argv if
        hasattr(sys, "orig_argv") else None, "path": sys.path, "flags": str(sys.flags),
        "main": sys.modules["__main__"].__name__, "names": sorted(n for n in globals() if n not in ("d", "out")),
        "builtins": sorted(vars(builtins)), "locale": locale.setlocale(locale.LC_ALL),
        "encoding": sys.getfilesystemencoding(),
        "stdio": [type(sys.stdin).__name__, type(sys.stdout).__name__, sys.stdout.encoding, sys.stderr.errors],
        "threads": threading.active_count(), "main thread": threading.main_thread() is threading.current_thread(),
        "ident": threading.main_thread().native_id == os.getpid() == threading.get_native_id(),
        "sid": os.getsid(0) == os.getpid() == os.getpgid(0),
        "signals": {s.name: str(signal.getsignal(s)).split(" at ")[0] for s in signal.Signals},
        "meta_path": [type(m).__name__ if not isinstance(m, type) else m.__name__ for m in sys.meta_path],
        "gc": [gc.isenabled(), gc.get_threshold()], "recursion": sys.getrecursionlimit(), "tz": time.tzname,
        "cmdline": open("/proc/self/cmdline").read(), "exe": os.readlink("/proc/self/exe"),
        "root": sorted(os.listdir("/")), "home": sorted(os.listdir(os.path.expanduser("~"))), "tmp": os.listdir("/tmp"),
        "limits file": open("/proc/self/limits").read(), "oom": open("/proc/self/oom_score_adj").read(),
        "nice": os.nice(0), "getppid": os.getppid(), "uname": os.uname().nodename,
        "mounts": sorted(l.split()[4] for l in open("/proc/self/mountinfo")),
        "cgroup": open("/proc/self/cgroup").read(),
        "landlock": layers(), "dumpable": os.stat("/proc/self/maps").st_uid,
        "filters": d.get("Seccomp_filters", "").strip(),
    }
    print(json.dumps(out))
"""

# An interpreter's parent is init, or, behind the sandbox's horizon, the supervisor. A zygote's filter stays beneath. Where
# others are busy, either may be kept to some of the processors (tests/bombs/lanes.py).
ALLOWED = {"getppid", "filters", "status Cpus_allowed", "status Cpus_allowed_list"}


def test_it_is_what_an_executed_one_is():
    name = "look"
    make(cold, name)
    assert make(box, name)["interpreter"]["started_by"] == "zygote"
    warm, plain = json.loads(code(box, name, LOOK)), json.loads(code(cold, "look", LOOK))
    for data, session in ((warm, name), (plain, "look")):
        assert data["environ"].pop("CODEBOX_SESSION") == session
    for data in (warm, plain):
        data.update({"status " + k: v for k, v in data.pop("status").items()})
        for key in ("status SigIgn", "status SigCgt"):
            data[key] = int(data[key], 16) & ~(3 << 31)  # 32 and 33 are the C library's own
    different = {k: (warm[k], plain[k]) for k in plain if warm[k] != plain[k] and k not in ALLOWED}
    assert not different, different
    assert warm["getppid"] == 0 and warm["ident"] and warm["sid"]


def test_libraries_are_loaded_and_threads_work():
    name = make_one(0)
    assert code(box, name, """
        import sys, threading, multiprocessing, concurrent.futures, subprocess
        out = []
        t = threading.Thread(target=out.append, args=(1,)); t.start(); t.join()
        with concurrent.futures.ThreadPoolExecutor(4) as p:
            out += list(p.map(abs, range(-3, 0)))
        for kind in ("fork", "spawn"):
            q = multiprocessing.get_context(kind).Pool(2)
            out += q.map(abs, [-5, -6]); q.close(); q.join()
        out.append(int(subprocess.check_output(["sh", "-c", "echo 9"])))
        print(out)
    """) == "[1, 3, 2, 1, 5, 6, 5, 6, 9]"
    if code(box, name, "import importlib.util; print(importlib.util.find_spec('numpy') is not None)") != "True":
        raise Skip("the image has no numpy")
    assert code(box, name, """
        import numpy as np, os
        a = np.random.rand(600, 600)
        b = a @ a
        print(np.allclose(b[3], a[3] @ a), len(os.listdir("/proc/self/task")) >= 1)
    """) == "True True"


def test_abort_and_signals_hit_the_right_thread():
    name = make_one(1)
    r = box("run", "--session", name, "-c", "import ctypes; ctypes.CDLL(None).abort()")
    assert "SIGABRT" in r.stdout + r.stderr or "Aborted" in r.stdout + r.stderr, (r.stdout, r.stderr)
    info = box.json("session", "info", "--json", name)
    assert code(box, name, "print('again')") == "again"
    info = box.json("session", "info", "--json", name)
    assert info["interpreter"]["started_by"] == "exec", info  # code of a user has run there


def test_interrupts_and_exit_reach_it():
    name = make_one(2)
    r = box("run", "--session", name, "--timeout", "3", "-c", "x = 5\nwhile True: pass")
    assert r.returncode != 0
    assert code(box, name, "print(x)") == "5"
    r = box("run", "--session", name, "-c", "import os; os._exit(7)")
    assert "7" in r.stdout + r.stderr, (r.stdout, r.stderr)


def test_variables_of_the_session():
    make(box, "vars", "--env", "SPECIAL=a b", "--env", "TZ=Asia/Tokyo")
    assert box.json("session", "info", "--json", "vars")["interpreter"]["started_by"] == "zygote"
    assert code(box, "vars", "import os, ctypes; g = ctypes.CDLL(None).getenv; g.restype = ctypes.c_char_p;"
                " print(os.environ['SPECIAL'], g(b'SPECIAL').decode(), os.popen('echo $SPECIAL').read().strip())") == (
                    "a b a b a b")
    # What Python reads at its start needs a start.
    make(box, "seed", "--env", "PYTHONHASHSEED=1")
    assert box.json("session", "info", "--json", "seed")["interpreter"]["started_by"] == "exec"


def test_a_small_session_has_room_for_it():
    """What a fork may come to have for itself is what was written to, not what was reserved."""
    for memory, how in ("256M", "zygote"), ("64M", "exec"):
        info = make(box, "with-" + memory, "--memory", memory)
        assert info["interpreter"]["started_by"] == how, (memory, info["interpreter"])
        box("session", "rm", "with-" + memory, check=True)


def test_what_many_share_counts_once():
    """Each maps what all of them share: in sum that is far above what all sessions together may use, and nobody is killed."""
    setup()
    path = os.path.join(box.dir, "together.json")
    with open(path, "w") as f:
        json.dump({"include": ["default"], "limits": {"memory_together": "480M", "sessions": 100}}, f)
    b = Box(CODEBOX_ZYGOTES="1", CODEBOX_POOL="0", CODEBOX_POLICY=path)
    image, mapped, own = warm_up(b), 0, 0
    with Control(b) as c:
        for i in range(40):
            c.call("session.create", session_id=f"s{i}", image=image)
            r = c.call("run", session_id=f"s{i}", code="x = open('/proc/self/smaps_rollup').read().split(); "
                                                       "print(*(x[x.index(k) + 1] for k in ('Rss:', 'Pss:')))")
            mapped, own = mapped + int(r["output"].split()[0]), own + int(r["output"].split()[1])
        time.sleep(1)
        for _ in range(3):
            for i in range(40):
                r = c.call("run", session_id=f"s{i}", code="len(x) > 0")
                assert r.get("result") == "True", (i, r)
        # One that has it for itself is still held to what the others leave.
        r = c.call("run", session_id="s7", code="import time; b = b'x' * (460 << 20); time.sleep(20)")
        assert "memory" in r["message"] and r["status"] != "ok", r
        assert c.call("run", session_id="s8", code="len(x) > 0").get("result") == "True"
    b.stop()
    print(f"# {mapped >> 10} MiB mapped, {own >> 10} MiB when each was asked", flush=True)
    assert mapped >> 10 > 480, mapped


def test_strict_never_uses_one():
    with Control(box) as c:
        c.call("session.create", session_id="strict", image=setup(), profile="strict")
    assert code(box, "strict", "print(1)") == "1"
    assert box.json("session", "info", "--json", "strict")["interpreter"]["started_by"] == "exec"


def test_a_session_can_go_without():
    with Control(box) as c:
        c.call("session.create", session_id="own", image=setup(), zygote="off")
    assert box.json("session", "info", "--json", "own")["interpreter"]["started_by"] == "exec"


def test_what_a_session_gives_up_beside():
    with Control(box) as c:
        c.call("session.create", session_id="harder", image=setup(), no_speculation=True, own_cores=True,
               write_xor_execute=True)
    assert box.json("session", "info", "--json", "harder")["interpreter"]["started_by"] == "zygote", log(box)
    assert code(box, "harder", "print(1)") == "1"


def zygotes(embryos=False):
    """Processes that look like one, as seen from outside: descendants of the daemon with a library of ours mapped and
    no sandbox around them. Or their embryos, which look like that, too, but are their children."""
    found = {}
    for pid in children(box.daemon_pid()):
        try:
            with open(f"/proc/{pid}/status") as f:
                status = f.read()
            line = [l for l in status.splitlines() if l.startswith("NSpid:")][0].split()
            name = status.splitlines()[0].split()[1]
            parent = int(status.partition("\nPPid:")[2].split()[0])
        except (OSError, IndexError):
            continue
        if name.startswith("python") and len(line) <= 3 and "CapEff:\t0000000000000000" in status:
            found[pid] = parent
    return [pid for pid, parent in found.items() if (parent in found) == embryos]


def test_a_session_cannot_reach_it():
    name = make_one(3)
    assert zygotes()
    got = code(box, name, """
        import os, signal
        alive = sorted(int(p) for p in os.listdir("/proc") if p.isdigit())
        print(alive, os.getpid())
        try:
            os.kill(0 - 1, 0)
        except OSError as e:
            print(e.errno)
        print(sorted(p for p in alive if p not in (1, os.getpid())))
    """).splitlines()
    assert got[-1] == "[]", got


def test_when_it_is_killed_sessions_start_the_slow_way():
    setup()
    before, failed = log(box).count("ready after"), log(box).count("failed: ")
    for pid in zygotes():
        os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: log(box).count("failed: ") > failed), log(box)
    assert make(box, "slow")["interpreter"]["started_by"] == "exec"
    assert code(box, "slow", "print(1)") == "1"
    assert wait_until(lambda: log(box).count("ready after") > before), log(box)
    assert make(box, "warm")["interpreter"]["started_by"] == "zygote"


def test_when_its_embryo_is_killed_another_zygote_is_started():
    setup()
    before, failed = log(box).count("ready after"), log(box).count("failed: ")
    assert wait_until(lambda: zygotes(embryos=True)), log(box)
    for pid in zygotes(embryos=True):
        os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: log(box).count("failed: ") > failed), log(box)
    assert not zygotes(), zygotes()
    make(box, "orphan")
    assert code(box, "orphan", "print(1)") == "1"
    assert wait_until(lambda: log(box).count("ready after") > before), log(box)
    assert make(box, "later")["interpreter"]["started_by"] == "zygote"


def test_when_it_is_killed_those_that_wait_start_the_slow_way():
    setup()
    assert wait_until(lambda: zygotes() and box.hello()["zygotes"][0]["state"] == "ready"), box.hello()
    found, inits = zygotes(), len(named(box.daemon_pid(), "codebox-init"))

    def kill():
        wait_until(lambda: len(named(box.daemon_pid(), "codebox-init")) >= inits + 24)
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:  # the supervisor lost patience
                pass
    for pid in found:
        os.kill(pid, signal.SIGSTOP)
    assert at_once(24, kill) == {"zygote": 0, "exec": 24}


if __name__ == "__main__":
    run(globals())
