#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Control groups, in a guest with systemd: limits of a session as a whole, and what is said when they are hit.

    limits.py scope     as an ordinary user: codeboxd gets a scope from the user's systemd
    limits.py unit      as root: the system's units are installed, and codeboxd runs from them
"""
import glob
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cbxtest import CODEBOX, Box, children, command, run, wait_until  # noqa: E402
from control import Control, ControlError  # noqa: E402

AS_ROOT = sys.argv[1:] == ["unit"]
CGROUP = "/sys/fs/cgroup"


class Unit(Box):
    """The daemon of the system's unit: the usual directories."""

    def __init__(self):
        self.dir = "/run/codebox"
        self.env = dict(os.environ, CODEBOX_RUNTIME_DIR=self.dir)

    def stop(self):
        pass


box = Unit() if AS_ROOT else Box(CODEBOX_FREEZE_AFTER="1")


def group(of=None):
    """The directory of all tenants' groups, in codeboxd's part of the tree."""
    with open(f"/proc/{(of or box).daemon_pid()}/cgroup") as f:
        path = f.read().strip()
    assert path.startswith("0::/") and path.endswith("/supervisor"), path
    return CGROUP + os.path.dirname(path[3:]) + "/sessions"


def groups(of=None):
    """Those of sessions: "tenant-local/session-N"."""
    top = of or group()
    return sorted(os.path.relpath(p, top) for p in glob.glob(top + "/tenant-*/session-*"))


def number(*path):
    with open(os.path.join(group(), *path)) as f:
        return int(f.read())


def read_value(path, key):
    with open(path) as f:
        return dict(line.split() for line in f)[key]


def value(key, *path):
    return read_value(os.path.join(group(), *path), key)


def of_session(c, session):
    """The control group of a session: the one that holds the process which its cell tells by a name of its own."""
    c.call("run", session_id=session, code=f"import ctypes; ctypes.CDLL(None).prctl(15, b'{session}-cell')")  # PR_SET_NAME
    for name in groups():
        try:
            with open(os.path.join(group(), name, "work", "cgroup.procs")) as f:
                if any(command(int(pid)) == f"{session}-cell" for pid in f.read().split()):
                    return name
        except OSError:
            pass  # a session that was closed before has just gone
    raise AssertionError(f"no control group holds session {session}")


def create(c, session, **limits):
    info = c.call("session.create", session_id=session, image="host", **limits)
    return info


def test_the_back_end_is_named():
    with Control(box) as c:
        info = create(c, "a", cgroup="required")
        limits = info["limits"]
        assert limits["backend"] == ("inherit" if AS_ROOT else "scope"), limits
        assert limits["enforced_by"] == "cgroup" and info["protections"]["cgroup"] is True, info
        assert limits["reason"], limits
    hello = box.hello()
    assert hello["facts"]["cgroup"] is True and hello["cgroup"]["cpus"] is True, hello


def test_only_leaves_hold_processes():
    with Control(box) as c:
        name = of_session(c, "a")
        c.call("run", session_id="a", code="import subprocess; p = subprocess.Popen(['sleep', '1000'])")
    top = group()
    for path, want in (("", 0), (name, 0), (name + "/init", 1), (name + "/work", 2)):
        with open(os.path.join(top, path, "cgroup.procs")) as f:
            assert len(f.read().split()) == want, path
    with open(os.path.join(top, name, "memory.swap.max")) as f:
        assert f.read() == "0\n"
    with open(f"/proc/{box.daemon_pid()}/status") as f:
        uid = int([line for line in f if line.startswith("Uid:")][0].split()[1])
    assert os.stat(os.path.join(top, name)).st_uid == uid != 0
    if AS_ROOT:
        assert os.stat(os.path.join(top, "..", "memory.max")).st_uid == 0


def test_use_is_counted():
    with Control(box) as c:
        r = c.call("run", session_id="a", code="x = bytearray(50 << 20)\nfor i in range(1000000): pass")
        use = r["usage"]
        assert r["status"] == "ok" and use["source"] == "cgroup", r
        assert use["cpu_ms"] > 1 and use["memory_bytes"] > 50 << 20 and use["memory_peak_bytes"] > 50 << 20, use
        assert use["memory_peak_of"] in ("cell", "session"), use
        quiet = c.call("run", session_id="a", code="del x")["usage"]
        assert quiet["cpu_ms"] < use["cpu_ms"] and quiet["memory_bytes"] < use["memory_bytes"], (quiet, use)
        use = c.call("session.info", session_id="a")["usage"]
        assert use["frozen"] is False and use["source"] == "cgroup", use
        assert 1 << 20 < use["pss_bytes"] < 200 << 20 and use["memory_bytes"] > 1 << 20, use


BOMB = """
import os, time
for i in range(6):
    if os.fork() == 0:
        held = bytearray(60 << 20)
        time.sleep(1000)
time.sleep(1000)
"""


def test_memory_is_limited_for_all_processes_together():
    with Control(box) as c:
        create(c, "bomb", memory="256M")
        c.call("run", session_id="a", code="kept = 'yes'")
        c.call("run", session_id="bomb", code="open('file', 'w').write('intact'); state = 1")
        name = of_session(c, "bomb")
        r = c.call("run", session_id="bomb", code=BOMB, timeout=300)
        assert r["status"] == "killed" and r["state_kept"] is False, r
        assert "memory limit of 256" in r["message"], r["message"]
        assert r["usage"]["memory_peak_bytes"] > 200 << 20, r["usage"]
        r = c.call("run", session_id="bomb", code="print(open('file').read(), 'state' in globals())")
        assert r["stdout"] == "intact False\n", r
        # The bomb's children died with it.
        assert len(open(os.path.join(group(), name, "work", "cgroup.procs")).read().split()) == 1
        assert c.call("run", session_id="a", code="print(kept)")["stdout"] == "yes\n"


GROW = """
import time
held = bytearray(%d << 20)
print('held', flush=True)
"""


def test_memory_of_all_sessions_together_is_limited():
    with open("/proc/meminfo") as f:
        machine = int(f.readline().split()[1]) * 1024
    assert machine * 0.48 < number("memory.max") <= machine / 2, (number("memory.max"), machine)
    if AS_ROOT:  # the policy of the unit is the shipped one
        return
    policy = os.path.join(box.dir, "together.json")
    with open(policy, "w") as f:
        f.write('{"include": ["default"], "limits": {"memory": "256M", "memory_together": "320M"}}')
    other = Box(CODEBOX_POLICY=policy, CODEBOX_POOL="0")
    with Control(other) as c:
        create(c, "large", cgroup="required")
        create(c, "small")
        top = group(other)
        assert top != group(), top
        with open(os.path.join(top, "memory.max")) as f:
            assert int(f.read()) == 320 << 20
        # Who uses most is killed. Linux takes it for gone a moment before its memory has been freed, and then kills
        # the next, too: on a processor that is taken away in that moment, now and then. Never without the first.
        for _ in range(4):
            assert c.call("run", session_id="large", code=GROW % 180, timeout=300)["stdout"] == "held\n"
            assert c.call("run", session_id="small", code="kept = 'yes'", timeout=300)["status"] == "ok"
            small = c.call("run", session_id="small", timeout=300,
                           code="all = []\nwhile len(all) < 150: all.append(bytearray(1 << 20))")
            r = c.call("run", session_id="large", code="print('held' in globals())", timeout=300)
            assert r["stdout"] == "False\n", (r, small)
            assert "group of sessions as a whole" in json.dumps(r), r
            if small["status"] == "ok":
                break
        assert small["status"] == "ok", small
        assert c.call("run", session_id="small", code="print(kept)")["stdout"] == "yes\n"
    other.stop()


def test_files_count_as_memory():
    with Control(box) as c:
        create(c, "full", memory="192M", disk="1G")
        r = c.call("run", session_id="full", timeout=300,
                   code="f = open('big', 'wb')\nfor i in range(400): f.write(bytes(1 << 20)); f.flush()")
        assert r["status"] == "killed" and "files hold" in r["message"], r
        info = c.call("session.info", session_id="full")
        assert info["usage"]["files_bytes"] > 100 << 20, info
        c.call("file.remove", session_id="full", path="big")
        r = c.call("run", session_id="full", code="print('again')")
        assert r["stdout"] == "again\n", r
        c.call("session.close", session_id="full")


FORKS = """
import os, signal, time
pids = []
try:
    while True:
        pid = os.fork()
        if pid == 0:
            time.sleep(1000)
            os._exit(0)
        pids.append(pid)
except OSError as e:
    print(type(e).__name__)
for pid in pids: os.kill(pid, signal.SIGKILL)
for pid in pids: os.waitpid(pid, 0)
print(len(pids))
"""


def test_processes_are_limited_and_it_is_said():
    with Control(box) as c:
        create(c, "forks", processes=20)
        r = c.call("run", session_id="forks", code=FORKS, timeout=300)
        kind, n = r["stdout"].split()
        assert r["status"] == "ok" and kind == "BlockingIOError" and 10 <= int(n) < 20, r
        assert "limit of 20" in r["message"], r
        r = c.call("run", session_id="forks", code="print(1)")
        assert "message" not in r, r
        r = c.call("run", session_id="forks", timeout=3,
                   code="import os\nwhile True:\n    try: os.fork()\n    except OSError: pass")
        assert r["status"] in ("timeout", "killed") and "limit of 20" in r["message"], r
        assert c.call("run", session_id="a", code="print(kept)")["stdout"] == "yes\n"
        c.call("session.close", session_id="forks")


def test_processors_are_limited():
    with Control(box) as c:
        info = create(c, "slow", cpus=0.4, cpu_weight=25)
        limits = info["limits"]
        assert limits["cpus"] == 0.4 and limits["cpu_weight"] == 25 and "not_enforced" not in limits, limits
        name = of_session(c, "slow")
        r = c.call("run", session_id="slow", code="for i in range(5000000): pass", timeout=300)
        assert r["status"] == "ok", r
        with open(os.path.join(group(), name, "cpu.max")) as f:
            assert f.read() == "40000 100000\n"
        with open(os.path.join(group(), name, "cpu.weight")) as f:
            assert f.read() == "25\n"
        assert int(value("nr_throttled", name, "cpu.stat")) > 0
        c.call("session.close", session_id="slow")


READ = """
import os
n = 0
for top in ('/usr/bin', '/usr/lib/x86_64-linux-gnu'):
    for name in sorted(os.listdir(top)):
        if n < LIMIT and os.path.isfile(top + '/' + name) and not os.path.islink(top + '/' + name):
            try: n += len(open(top + '/' + name, 'rb').read())
            except PermissionError: pass
print(n)
"""


def empty_page_cache():
    with open("/proc/sys/vm/drop_caches", "w") as f:
        f.write("3")


def test_reading_from_the_disk_is_limited():
    """By units of the system: this distribution does not delegate the io controller to users."""
    with Control(box) as c:
        assert box.hello()["cgroup"]["io"] is AS_ROOT
        if not AS_ROOT:
            limits = create(c, "reads", io="1M", io_operations=500)["limits"]
            assert limits["io"] == 1 << 20 and limits["not_enforced"] == ["io", "io_operations"], limits
            c.call("session.close", session_id="reads")
            try:
                create(c, "reads", io="1M", cgroup="required")
                raise AssertionError("it was made")
            except ControlError as e:
                assert e.kind == "no_cgroup" and "io controller" in str(e), e
            return
        rate = 512 << 10
        limits = create(c, "reads", io=rate, cgroup="required")["limits"]
        assert limits["io"] == rate and "not_enforced" not in limits, limits
        name = of_session(c, "reads")
        dev = os.stat("/usr").st_dev
        with open(os.path.join(group(), name, "io.max")) as f:
            assert f.read() == f"{os.major(dev)}:{os.minor(dev)} rbps={rate} wbps={rate} riops=max wiops=max\n"
        took = {}
        for session in ("a", "reads"):  # one without a limit, for comparison
            empty_page_cache()
            # What is mapped by some process stays in memory, and is not read from the disk.
            r = c.call("run", session_id=session, code=READ.replace("LIMIT", str(3 << 20)), timeout=300)
            assert r["status"] == "ok" and r["usage"]["io_read_bytes"] >= 1 << 20, r
            took[session] = r["duration_ms"] * rate / r["usage"]["io_read_bytes"] / 1000
        print(f"# of the time that the limit asks for: {took['reads']:.2f}, without a limit {took['a']:.2f}")
        assert took["reads"] > 0.7, took  # not quite 1: a little is let through at once
        c.call("session.close", session_id="reads")


def test_what_counting_costs():
    """Only told: what codeboxd reads for a cell, at its start and at its end, from files that stay open."""
    with Control(box) as c:
        name = of_session(c, "a")
    files = [os.open(os.path.join(group(), name, "work", f), os.O_RDONLY) for f in
             ("cpu.stat", "memory.current", "memory.peak", "pids.events", "io.stat") if
             os.path.exists(os.path.join(group(), name, "work", f))]
    start = time.perf_counter()
    for _ in range(1000):
        for fd in files * 2:
            os.pread(fd, 16384, 0)
    print(f"# {2 * len(files)} reads for a cell: {(time.perf_counter() - start) * 1000:.0f} us")
    for fd in files:
        os.close(fd)


def test_tenants_share_processors():
    """One tenant keeps three sessions busy and another one: each gets half, and a third is worth two of them."""
    if AS_ROOT:  # systemd's unit has no tenants
        return
    config = os.path.join(box.dir, "shares")
    os.makedirs(config, 0o755, exist_ok=True)
    tenants = {"many": {}, "one": {}, "heavy": {"cpu_weight": 200}}
    with open(os.path.join(config, "tenants.json"), "w") as f:
        json.dump({"tenants": tenants}, f)
    other = Box(CODEBOX_CONFIG_DIR=config)
    tokens = {t: other.json("token", "create", "--json", "--tenant", t)["token"] for t in tenants}
    by = ["systemd-run", "--user", "--quiet", "--scope", "-p", "Delegate=yes"]
    daemon = subprocess.Popen([*by, os.environ["CODEBOX_DAEMON"], "--foreground", "--http", "127.0.0.1:0", "--pool", "0"],
                              env=other.env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    port = next(int(m.group(1)) for m in (re.search(r"http://127.0.0.1:(\d+)/mcp", line) for line in daemon.stderr) if m)
    busy = "import os\nfor _ in range(1): os.fork()\nwhile True: pass"

    def post(tenant, path, body):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        c.request("POST", path, json.dumps(body), {"Content-Type": "application/json",
                                                   "Authorization": f"Bearer {tokens[tenant]}"})
        r = c.getresponse()
        body = json.loads(r.read())
        assert r.status == 200, (r.status, body)
        return body

    def used():
        return {t: int(read_value(f"{top}/tenant-{t}/cpu.stat", "usage_usec")) for t in tenants}

    def shares(seconds):
        before = used()
        time.sleep(seconds)
        after = used()
        total = sum(after.values()) - sum(before.values())
        return {t: (after[t] - before[t]) / total for t in tenants}

    for tenant, sessions in ("many", 3), ("one", 1), ("heavy", 1):
        for i in range(sessions):
            post(tenant, "/sessions", {"session_id": f"s{i}", "image": "host", "cgroup": "required", "timeout": "1h"})
    top = group(other)
    assert len(groups(top)) == 5, groups(top)
    assert [open(f"{top}/tenant-{t}/cpu.weight").read() for t in tenants] == ["100\n", "100\n", "200\n"]
    for tenant, sessions in ("many", 3), ("one", 1):
        for i in range(sessions):
            post(tenant, "/execute", {"session_id": f"s{i}", "code": busy})
    time.sleep(5)
    two = shares(20)
    print(f"# shares of two: {two}")
    assert 0.35 < two["one"] < 0.65, two
    post("heavy", "/execute", {"session_id": "s0", "code": busy})
    time.sleep(5)
    three = shares(20)
    print(f"# shares of three: {three}")
    assert 0.35 < three["heavy"] < 0.65 and three["one"] > 0.15, three
    subprocess.run([CODEBOX, "stop"], env=other.env, stdout=subprocess.DEVNULL, timeout=600)
    daemon.wait(600)
    assert not glob.glob(top + "/tenant-*"), glob.glob(top + "/*")


def test_a_closed_session_leaves_no_group():
    with Control(box) as c:
        create(c, "gone")
        c.call("run", session_id="gone",
               code="import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True)")
        name = of_session(c, "gone")
        c.call("session.close", session_id="gone")
        assert wait_until(lambda: name not in groups(), 60), groups()


def test_an_idle_session_is_stopped_and_goes_on():
    with Control(box) as c:
        create(c, "idle")
        c.call("run", session_id="idle", code="kept = 7\nopen('file', 'w').write('text')")
        name = of_session(c, "idle")

        def frozen():
            return c.call("session.info", session_id="idle")["usage"]["frozen"]

        assert wait_until(frozen, 120)
        assert wait_until(lambda: value("frozen", name, "work", "cgroup.events") == "1", 60)
        assert value("frozen", name, "init", "cgroup.events") == "0"
        data = c.call("file.read", session_id="idle", path="file")
        assert data["size"] == 4 and frozen(), data
        r = c.call("run", session_id="idle", code="print(kept)")
        assert r["stdout"] == "7\n" and r["status"] == "ok", r
        assert wait_until(frozen, 120)
        assert c.call("is_complete", session_id="idle", code="1")["status"] == "complete"
        assert wait_until(frozen, 120)
        c.call("session.close", session_id="idle")
        assert wait_until(lambda: name not in groups(), 60), groups()


def test_what_is_at_work_is_not_stopped():
    with Control(box) as c:
        create(c, "busy")
        c.call("run", session_id="busy", code="import subprocess, sys\n"
               "p = subprocess.Popen([sys.executable, '-c', 'while True: pass'])")
        end = time.monotonic() + 8
        while time.monotonic() < end:  # some looks of the daemon's at it
            assert c.call("session.info", session_id="busy")["usage"]["frozen"] is False
            time.sleep(0.5)
        c.call("session.close", session_id="busy")


def test_a_stopped_session_gives_file_pages_back():
    if not AS_ROOT:  # only root can empty the page cache, so that the pages are charged to this session
        return
    with Control(box) as c:
        create(c, "pages")
        name = of_session(c, "pages")
        empty_page_cache()
        r = c.call("run", session_id="pages", code=READ.replace("LIMIT", str(24 << 20)), timeout=300)
        assert int(r["stdout"]) > 4 << 20, r
        before = int(value("file", name, "work", "memory.stat"))
        assert wait_until(lambda: c.call("session.info", session_id="pages")["usage"]["frozen"], 120)
        info = c.call("session.info", session_id="pages")["usage"]
        after = int(value("file", name, "work", "memory.stat"))
        assert info["reclaimed_bytes"] > 0 and after < before - (1 << 20), (info, before, after)
        assert c.call("run", session_id="pages", code="print(n > 0)")["stdout"] == "True\n"
        c.call("session.close", session_id="pages")


def test_a_group_that_others_share_is_not_taken():
    """Started in a delegated group with another process: no sessions as a whole, and the reason."""
    env = dict(os.environ, CODEBOX_RUNTIME_DIR=box.dir + "-shared")
    command = "sleep 1000 & exec " + os.environ["CODEBOX_DAEMON"] + " --foreground --idle-timeout 0"
    p = subprocess.Popen(["systemd-run", *([] if AS_ROOT else ["--user"]), "--scope", "--quiet", "-p", "Delegate=yes",
                          "sh", "-c", command], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
    other = Unit()
    other.dir = env["CODEBOX_RUNTIME_DIR"]
    other.env = dict(env)
    try:
        assert wait_until(other.hello, 60)
        hello = other.hello()
        assert hello["cgroup"]["backend"] == "none" and "other processes" in hello["cgroup"]["reason"], hello
        with Control(other) as c:
            try:
                create(c, "x", cgroup="required")
                raise AssertionError("it was made")
            except ControlError as e:
                assert e.kind == "no_cgroup" and "other processes" in str(e), e
            assert create(c, "x")["limits"]["backend"] == "none"
    finally:
        subprocess.run([CODEBOX, "stop"], env=env, stdout=subprocess.DEVNULL)
        p.kill()
        p.wait()


def test_a_group_that_was_not_delegated_is_not_taken():
    if not AS_ROOT:  # all of a user's groups are the user's
        return
    env = dict(os.environ, CODEBOX_RUNTIME_DIR="/run/codebox-plain")
    p = subprocess.Popen(["systemd-run", "--scope", "--quiet", os.environ["CODEBOX_DAEMON"], "--foreground",
                          "--idle-timeout", "0"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
    other = Unit()
    other.dir, other.env = env["CODEBOX_RUNTIME_DIR"], env
    try:
        assert wait_until(other.hello, 60)
        hello = other.hello()
        assert hello["cgroup"]["backend"] == "none" and "delegate" in hello["cgroup"]["reason"], hello
    finally:
        subprocess.run([CODEBOX, "stop"], env=env, stdout=subprocess.DEVNULL)
        p.wait()


def test_a_killed_daemon_leaves_nothing():
    top, pid = group(), box.daemon_pid()
    pids = [pid, *children(pid)]
    assert len(pids) > 3, pids
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: not any(os.path.exists(f"/proc/{p}") for p in pids), 60)
    with Control(box) as c:
        create(c, "new")
        assert c.call("run", session_id="new", code="print(1)")["stdout"] == "1\n"
        assert c.call("session.info", session_id="new")["limits"]["enforced_by"] == "cgroup"
    # What it left is gone: with its scope, or removed by the next one in the same place.
    assert wait_until(lambda: not os.path.isdir(top) or top == group(), 60)
    assert wait_until(lambda: all(value("populated", n, "cgroup.events") == "1" for n in groups()), 60), groups()


def test_a_successor_removes_what_is_left():
    """In the root of the tree, as on a machine without systemd: here the leftovers of systemd's units and scopes are
    removed by systemd. Of codeboxd and supervisor nothing can be removed by themselves: they are killed together."""
    if not AS_ROOT:
        return
    os.setxattr(CGROUP, "trusted.delegate", b"1")
    other = Unit()
    other.dir = "/run/codebox-root"
    other.env = dict(os.environ, CODEBOX_RUNTIME_DIR=other.dir)
    command = f"echo 0 >{CGROUP}/cgroup.procs && exec {os.environ['CODEBOX_DAEMON']} --foreground --pool 0"

    def start():
        p = subprocess.Popen(["sh", "-c", command], env=other.env, stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert wait_until(other.hello, 60)
        assert other.hello()["cgroup"]["backend"] == "inherit", other.hello()
        return p

    def left():
        return groups(CGROUP + "/sessions")

    p = start()
    with Control(other) as c:
        for session in ("one", "two"):
            create(c, session)
            c.call("run", session_id=session,
                   code="import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True)")
    pids = [p.pid, *children(p.pid)]
    was = left()
    assert len(was) == 2 and len(pids) > 6, (was, pids)
    for pid in pids[:2]:
        os.kill(pid, signal.SIGKILL)
    p.wait()
    assert wait_until(lambda: not any(os.path.exists(f"/proc/{p}") for p in pids), 60)
    assert left() == was
    p = start()
    assert left() == [], left()
    with Control(other) as c:
        create(c, "three", cgroup="required")
        assert c.call("run", session_id="three", code="print(3)")["stdout"] == "3\n"
    subprocess.run([CODEBOX, "stop"], env=other.env, stdout=subprocess.DEVNULL, timeout=60)
    p.wait()
    assert left() == [], left()
    os.removexattr(CGROUP, "trusted.delegate")


if __name__ == "__main__":
    run(globals())
