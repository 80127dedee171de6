#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions that are made ahead of time: nobody can tell, but that they are there at once."""
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, CODEBOX, Skip, children, named, run, sandboxes, wait_until  # noqa: E402
from control import Control  # noqa: E402

box = Box(CODEBOX_POOL="1")
image = box.image("python", "python-minimal", "host")

LOOK = r"""
import os, sys, json, resource, signal, threading
def _shell():
    ip = globals().get("get_ipython", lambda: None)()
    if ip is None:
        return None
    history, hook = ip.history_manager, ip.displayhook
    return {
        "count": ip.execution_count, "In": len(In), "Out": list(Out), "raw": len(history.input_hist_raw),
        "inputs": [repr(globals().get(k)) for k in ("_", "__", "___", "_i", "_ii", "_iii")],
        "hidden": sorted(ip.user_ns_hidden), "last": [repr(ip.last_execution_result), ip.last_execution_succeeded],
        "hook": [repr(hook._), repr(hook.__), repr(hook.___), repr(hook.exec_result and hook.exec_result.result)],
        "set": [sorted(vars(x)) + sorted(x._trait_values) for x in (ip, history, hook)],
        "cells": sorted(k for k in sys.modules["linecache"].cache if k.startswith("<cell")),
        "reprs": list(history.output_hist_reprs), "frames": len(ip.events.callbacks["post_execute"]),
    }
def _look():
    walk = lambda top: sorted(os.path.join(d, f) for d, _, names in os.walk(top) for f in names)
    return {
        "environ": {k: v for k, v in os.environ.items() if k != "CODEBOX_SESSION"},
        "files": walk("/workspace") + walk("/tmp") + walk(os.path.expanduser("~")) + walk("/dev/shm"),
        "limits": [resource.getrlimit(i) for i in range(16)],
        "names": sorted(k for k in globals() if k not in ("_look", "_shell")), "shell": _shell(),
        "path": sys.path, "argv": sys.argv, "cwd": os.getcwd(),
        "ids": [os.getuid(), os.getgid(), os.getpid(), os.getppid(), os.getsid(0)],
        "handlers": [str(signal.getsignal(i)).split(" at ")[0] for i in range(1, 32)],
        "threads": threading.active_count(), "umask": os.umask(0o22), "host": os.uname().nodename,
        "descriptors": sorted(os.listdir("/proc/self/fd")),
        "processes": sorted(p for p in os.listdir("/proc") if p.isdigit()),
        "status": [l for l in open("/proc/self/status") if l.startswith(("Cap", "NoNew", "Seccomp", "Sig", "Shd"))],
        "depth": sys.getrecursionlimit(), "stdout": [sys.stdout.encoding, sys.stdout.isatty()],
    }
print(json.dumps(_look(), default=str))
"""


def pool(b=box):
    return b.hello()["pool"]


def full(b=box, n=1):
    """Wait until n entries are ready and nothing is in the making."""
    assert wait_until(lambda: pool(b)["ready"] >= n and pool(b)["starting"] == 0), pool(b)


def look(c, **kw):
    s = c.call("session.create", image=image, **kw)
    r = c.call("run", session_id=s["session_id"], code=LOOK)
    assert r["status"] == "ok", r
    name = c.call("run", session_id=s["session_id"], code="import os; print(os.environ['CODEBOX_SESSION'])")["stdout"]
    assert name.strip() == s["session_id"], (name, s)
    c.call("session.close", session_id=s["session_id"])
    return s, r, json.loads(r["stdout"])


def test_a_session_from_the_pool_is_like_any_other():
    plain = Box(CODEBOX_POOL="0")
    with Control(plain) as c:
        _, built, expected = look(c, session_id="mine", ttl=1000)
        assert pool(plain) == {"max": 0}, plain.hello()
    with Control(box) as c:
        look(c)
        full()
        before = pool()
        s, r, found = look(c, session_id="mine", ttl=1000)
        after = pool()
    assert after["taken"] == before["taken"] + 1 and after["missed"] == before["missed"], (before, after)
    for key in expected:
        assert found[key] == expected[key], (key, found[key], expected[key])
    for key in ("execution_id", "execution_count", "status", "files", "stderr"):
        assert r[key] == built[key], (key, r[key], built[key])
    assert s["session_id"] == "mine" and s["limits"]["ttl_s"] == 1000 and s["executions"] == 0, s


def test_its_life_begins_when_it_is_asked_for():
    with Control(box) as c:
        look(c)
        full()
        time.sleep(2.2)
        begin = time.monotonic()
        s = c.call("session.create", image=image, ttl=500, idle_timeout=400)
        took = time.monotonic() - begin
        assert s["age_s"] <= took and s["idle_s"] <= took and s["expires_in_s"] >= 399 - took, (s, took)
        listed = [x["session_id"] for x in c.call("session.list")["sessions"]]
        assert listed == [s["session_id"]], listed
        c.call("session.close", session_id=s["session_id"])


def test_another_shape_is_built_on_demand():
    box = Box(CODEBOX_POOL="2")
    with Control(box) as c:
        look(c)
        full(box)
        before = pool(box)
        s = c.call("session.create", image=image, memory="256M", processes=77)
        assert s["limits"]["memory_bytes"] == 256 << 20 and s["limits"]["processes"] == 77, s
        after = pool(box)
        assert after["taken"] == before["taken"] and after["missed"] == before["missed"] + 1, (before, after)
        r = c.call("run", session_id=s["session_id"],
                   code="import resource; print(resource.getrlimit(resource.RLIMIT_NPROC)[0])")
        assert int(r["stdout"]) <= 77, r
        c.call("session.close", session_id=s["session_id"])


def test_a_used_sandbox_never_comes_back():
    with Control(box) as c:
        look(c)
        full()
        s = c.call("session.create", image=image)["session_id"]
        c.call("run", session_id=s, code="open('/tmp/left', 'w').write('x'); open('left', 'w').write('x'); mark = 1")
        full()
        assert wait_until(lambda: len(entries()) == 2), entries()  # that of the session before may be about to end
        family = set(entries())
        c.call("session.close", session_id=s)
        assert wait_until(lambda: len(family & set(entries())) == 1), (family, entries())
        for _ in range(3):
            s = c.call("session.create", image=image)["session_id"]
            r = c.call("run", session_id=s, code="import os\n'mark' in globals(), os.listdir('/tmp'), os.listdir('.')")
            assert r["result"] == "(False, [], [])", r
            c.call("session.close", session_id=s)


def entries(b=box):
    """The interpreters of a box."""
    return named(b.daemon_pid(), "python")


def test_a_fresh_interpreter_knows_its_session():
    with Control(box) as c:
        s = c.call("session.create", image=image)["session_id"]
        look = "import os, subprocess\nsubprocess.run('echo $CODEBOX_SESSION', shell=True); " \
               "print(os.environ['CODEBOX_SESSION'])"
        assert c.call("run", session_id=s, code=look)["stdout"] == f"{s}\n{s}\n"
        r = c.call("run", session_id=s, code="import os; os._exit(3)")
        assert r["status"] == "killed" and not r["state_kept"], r
        assert c.call("run", session_id=s, code=look)["stdout"] == f"{s}\n{s}\n"
        c.call("session.close", session_id=s)


def test_entries_give_way_to_warm_ones():
    b = Box(CODEBOX_POOL="1", CODEBOX_ZYGOTES="1")
    image = b.image("python", "python-minimal", "host")
    with Control(b) as c:
        first = c.call("session.create", image=image)
        assert first["interpreter"]["started_by"] == "exec", first
        if not wait_until(lambda: any(z["state"] == "ready" for z in b.hello()["zygotes"])):
            raise Skip("there is no image with a warm interpreter")
        full(b)  # the entry that was made meanwhile has gone, and another one is there
        before = pool(b)
        s = c.call("session.create", image=image)
        assert pool(b)["taken"] == before["taken"] + 1, (before, pool(b))
        assert s["interpreter"]["started_by"] == "zygote", s


def test_an_entry_that_dies_is_replaced():
    with Control(box) as c:
        look(c)
        full()
        assert wait_until(lambda: len(entries()) == 1), entries()
        pid = entries()[0]
        os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: pool()["failed"] == 1), pool()
        look(c)
        full()
        assert wait_until(lambda: len(entries()) == 1 and entries()[0] != pid), entries()
        before = pool()["taken"]
        look(c)
        assert pool()["taken"] == before + 1, pool()


def test_many_at_once():
    with Control(box) as c:
        full()
        ids = [c.call("session.create", image=image)["session_id"] for _ in range(6)]
        assert len(set(ids)) == 6
        for i, s in enumerate(ids):
            c.send("run", session_id=s, code=f"print({i}); import os; print(os.environ['CODEBOX_SESSION'])")
        seen = {}
        while len(seen) < 6:
            m = c.recv()
            if "event" not in m:
                seen[m["result"]["session_id"]] = m["result"]["stdout"]
        assert seen == {s: f"{i}\n{s}\n" for i, s in enumerate(ids)}, seen
        for s in ids:
            c.call("session.close", session_id=s)


def test_an_mcp_client_is_expected():
    b = Box(CODEBOX_POOL="1")
    b.image("python")
    p = subprocess.Popen([CODEBOX, "mcp"], env=b.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def call(number, method, **params):
        p.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n")
        p.stdin.flush()
        while True:
            m = json.loads(p.stdout.readline())
            if m.get("id") == number:
                return m["result"]

    call(1, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "t", "version": "1"})
    full(b)
    assert b.hello()["sessions"] == 0
    r = call(2, "tools/call", name="run_code", arguments={"code": "6*7"})
    assert r["structuredContent"]["result"] == "42", r
    assert pool(b)["taken"] == 1 and pool(b)["missed"] == 0, pool(b)
    p.stdin.close()
    p.wait()


def test_entries_go_when_nobody_asks():
    b = Box(CODEBOX_POOL="2")
    speed = b.hurry()
    with Control(b) as c:
        s = c.call("session.create", image=image)["session_id"]
        c.call("session.close", session_id=s)
        full(b)
        daemon = b.daemon_pid()
        speed(100)
        assert wait_until(lambda: pool(b)["ready"] + pool(b)["starting"] == 0), pool(b)
        speed(1)
        assert wait_until(lambda: len(sandboxes(daemon)) == 1), children(daemon)
        s = c.call("session.create", image=image)["session_id"]
        assert c.call("run", session_id=s, code="1+1")["result"] == "2"


def test_entries_do_not_keep_the_daemon():
    b = Box(CODEBOX_POOL="1", CODEBOX_IDLE_TIMEOUT="3")
    b("run", "--image", image, "-c", "pass", check=True)
    full(b)
    daemon = b.daemon_pid()
    family = [daemon] + children(daemon)
    assert len(family) >= 4, family
    assert wait_until(lambda: not any(os.path.exists(f"/proc/{p}") for p in family)), family


def test_an_image_made_anew_is_another_one():
    b = Box(CODEBOX_POOL="1")
    own = os.path.join(b.dir, "data")
    store = os.path.join(own, "images")
    os.makedirs(os.path.join(store, "copy"))
    b.env["CODEBOX_DATA_DIR"] = own
    b("image", "build", "host", check=True)
    with Control(b) as c:
        s = c.call("session.create", image="host")["session_id"]
        c.call("session.close", session_id=s)
        full(b)
        b("image", "build", "host", "--force", check=True)
        before = pool(b)
        s = c.call("session.create", image="host")["session_id"]
        assert c.call("run", session_id=s, code="print(6*7)")["stdout"] == "42\n"
        after = pool(b)
        assert after["taken"] == before["taken"] and after["missed"] == before["missed"] + 1, (before, after)


def test_it_knows_how_much_memory_there_is():
    """Entries are not made when it is short; codeboxd, which may open little, must be able to see that."""
    with open("/proc/meminfo") as f:
        total = int(next(line for line in f if line.startswith("MemTotal:")).split()[1]) * 1024
    assert 0 < pool()["memory_available"] <= total, pool()


def test_what_the_options_accept():
    for option, value in (("--pool", "65"), ("--pool", "-1"), ("--pool", "x"), ("--pool-idle", "x"),
                          ("--zygotes", "17")):
        daemon = os.environ.get("CODEBOX_DAEMON", "codeboxd")
        r = subprocess.run([daemon, "--foreground", option, value], env=box.env, capture_output=True, text=True)
        assert r.returncode != 0 and option in r.stderr, (option, value, r)


if __name__ == "__main__":
    run(globals())
