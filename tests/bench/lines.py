# SPDX-License-Identifier: Apache-2.0
"""What is measured, line by line. README.md beside this file says what each line means.

A line is a function of the Bench; LINES has them in the order of the report.
"""
import ast
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

from cbxtest import Box, CODEBOX, children, command, named, wait_until
from clients import Driver, Kind, Mcp, memory, used
from control import Control, ControlError
from measure import check
from peers import Worker, first_output, run
from ready import ReadyBox

BARE = "bare Python"
KERNEL = "IPython kernel"
MANY_SESSIONS = 64
LINES = {}


def line(name, title, unit="ms"):
    def add(f):
        LINES[name] = (title, unit, f)
        return f
    return add


@line("start", "A program from start to end: Python that does nothing")
def start(b, out):
    image, one = b.image, ("-I", "-c", "pass")
    variants = {BARE: lambda: run(image.python + list(one), image.env)}
    if b.peers.has("bubblewrap"):
        variants["bubblewrap"] = lambda: run(image.bwrap("/usr/bin/python3", *one))
    if b.peers.has("runc"):
        variants["runc, without root"] = lambda: run(b.peers.runc("/usr/bin/python3", *one))
    if b.peers.has("podman"):
        variants["podman, without root"] = lambda: run(b.peers.podman("/usr/bin/python3", *one), b.peers.podman.env)
    for kind in b.kinds():
        def codebox(kind=kind):
            kind.settle()
            begin = time.perf_counter()
            run([CODEBOX, "run", "--image", image.name, "-c", "pass"], kind.box.env)
            return time.perf_counter() - begin

        variants[f"codebox run -c pass, {kind.name}"] = codebox
    out.interleave(variants, BARE, b.rounds(5, 21))


def first_answers(b, out, cell, bare, rounds):
    """From nothing to a cell's answer, 42, for each kind of session, a kernel, and a bare Python."""
    image, clients = b.image, []
    variants = {BARE: bare}

    def kernel():
        begin = time.perf_counter()
        k = b.peers.kernel()
        check(k(cell) == "42", "the kernel's answer")
        seconds = time.perf_counter() - begin
        k.close()
        return seconds

    def codebox(kind, m):
        kind.settle()
        begin = time.perf_counter()
        s = m.create(image=image.name)
        m.run(cell, "42", session_id=s)
        seconds = time.perf_counter() - begin
        m.tool("close_session", session_id=s)
        return seconds

    if b.peers.has(KERNEL):
        variants[KERNEL] = kernel
    for kind in b.kinds():
        clients.append(Mcp(kind.box))
        variants[f"codebox over MCP, {kind.name}"] = lambda kind=kind, m=clients[-1]: codebox(kind, m)
        if "executed" not in kind.name and not kind.warm:
            out.note(f"{kind.name}: there was no warm interpreter")
    out.interleave(variants, BARE, rounds)
    for m in clients:
        m.close()


@line("stack", "From nothing to the first answer of a cell that uses the data libraries")
def stack(b, out):
    image = b.image
    if not image.stack:
        out.note("the image has none of the data libraries")
        return
    imports = ", ".join(m for m in image.stack if not m.startswith("IPython")) or "sys"
    whole = f"import {', '.join(image.stack)}\nprint(6 * 7)"
    first_answers(b, out, f"import {imports}\n6 * 7",
                  lambda: first_output(image.python + ["-c", whole], image.env, "42"), b.rounds(3, 11))
    out.note("imports: " + ", ".join(image.stack))


@line("create", "From nothing to the answer of 6 * 7")
def create(b, out):
    bare = b.image.python + ["-I", "-c", "print(6 * 7)"]
    first_answers(b, out, "6 * 7", lambda: first_output(bare, b.image.env, "42"), b.rounds(5, 21))


@line("isolation", "Isolation alone: a static program that ends at once")
def isolation(b, out):
    if not b.ready:
        out.note("needs tests/bench/ready, which `make bench` builds")
        return
    variants = {"fork and exec": lambda: run([b.ready])}
    if b.peers.has("unshare"):
        variants["unshare, the same namespaces"] = lambda: run(b.peers.unshare(b.ready))
    if b.peers.has("bubblewrap"):
        variants["bubblewrap"] = lambda: run(["bwrap", "--unshare-all", "--ro-bind", os.path.dirname(b.ready), "/bin",
                                              "--proc", "/proc", "--dev", "/dev", "/bin/ready"])
    if b.peers.has("runc"):
        runc = b.runc_ready()
        variants["runc, without root"] = lambda: run(runc("/bin/ready"))
    if b.peers.has("firejail"):
        variants["firejail, no profile"] = lambda: run(b.peers.firejail(b.ready))
    with ReadyBox(b.ready) as box, Control(box) as c:
        def codebox():
            begin = time.perf_counter()
            s = c.call("session.create", image="ready")["session_id"]
            seconds = time.perf_counter() - begin
            c.call("session.close", session_id=s)
            return seconds

        variants["codebox session, until it is ready"] = codebox
        medians = out.interleave(variants, "fork and exec", b.rounds(10, 60))
    out.difference(medians, "codebox, own work: session minus unshare", "codebox session, until it is ready",
                   "unshare, the same namespaces")


def rest(box):
    """Wait until nothing is made ahead of time any more, which would take a processor from what is measured."""
    before = None
    while before != (ready := box.hello()["pool"]["ready"]):
        before = ready
        time.sleep(2)


@line("warm", "A warm cell: 1 + 1 in an interpreter that is there")
def warm(b, out):
    image = b.image
    m, c = Mcp(b.box), Control(b.box)
    mine, theirs = m.create(image=image.name), c.call("session.create", image=image.name)["session_id"]
    driver, worker = Driver(image, b.share), Worker(image.python, image.env)
    rest(b.box)

    def control():
        r = c.call("run", session_id=theirs, code="1+1")
        check(r.get("result") == "2", r)

    variants = {BARE + ", exec in a loop": lambda: check(worker("1+1")[1] == "2", "the bare Python's answer"),
                "the driver alone (IPython's semantics)": lambda: driver.run("1+1", "2"),
                "codebox, control socket": control,
                "codebox, MCP over stdio": lambda: m.run("1+1", "2", session_id=mine),
                "codebox, MCP ping": lambda: m.call("ping")}
    kernel = None
    if b.peers.has(KERNEL):
        kernel = b.peers.kernel()
        variants[KERNEL] = lambda: check(kernel("1+1") == "2", "the kernel's answer")
    for f in variants.values():
        for _ in range(30):
            f()
    medians = out.interleave(variants, "the driver alone (IPython's semantics)", b.rounds(8, 30), inner=25)
    out.difference(medians, "codebox, control socket minus driver", "codebox, control socket",
                   "the driver alone (IPython's semantics)")
    out.difference(medians, "codebox, MCP minus control socket", "codebox, MCP over stdio", "codebox, control socket")
    out.difference(medians, "codebox, MCP minus driver", "codebox, MCP over stdio",
                   "the driver alone (IPython's semantics)")
    # The one who did most is the session's. Daemon and hand-overs are not isolation's; what is above has them.
    inside, more = [p for p in children(b.box.daemon_pid()) if command(p).startswith("python")], []
    for _ in range(b.rounds(5, 15)):
        before, alone = [used(p) for p in inside], used(driver.p.pid)
        for _ in range(200):
            control()
        after = [used(p) for p in inside]
        for _ in range(200):
            driver.run("1+1", "2")
        more.append((max(y - x for x, y in zip(before, after)) - used(driver.p.pid) + alone) / 200)
    out.row("codebox, isolation: processor time of the interpreter for a cell, minus the driver's alone", more)
    for x in filter(None, (m, worker, driver, kernel)):
        x.close()
    c.call("session.close", session_id=theirs)
    c.__exit__()


@line("languages", "Cells of JavaScript and Bash")
def languages(b, out):
    """Over the control socket, in sessions of the image javascript, beside that image's Node.js, which works in its own root
    file system alone."""
    root = b.image.root and b.image.root.replace(f"/{b.image.name}/", "/javascript/")
    if "javascript" not in b.box.images() or not root or not b.peers.has("bubblewrap"):
        out.note("there is no image javascript, or no bubblewrap")
        return
    bare = ["bwrap", "--ro-bind", root, "/", "--proc", "/proc", "--dev", "/dev", "/usr/bin/node", "-e", "0"]
    kinds = [Kind("from the pool", "javascript", "4", "0"), Kind("pool empty", "javascript", "0", "0")]
    kinds[0].try_one()  # of what is asked for there are some ahead of time
    with Control(b.box) as c:
        def cell(session, code, want, c=c, **more):
            r = c.call("run", session_id=session, code=code, **more)
            check(want in (r.get("result"), r["output"]), r)

        def first(kind):
            kind.settle()
            c, began = kind.control, time.perf_counter()
            session = c.call("session.create", image="javascript")["session_id"]
            cell(session, "6 * 7", "42", c=c)
            seconds = time.perf_counter() - began
            c.call("session.close", session_id=session)
            return seconds

        node = "node in bubblewrap, from start to end"
        firsts = {f"codebox, a session and its first cell, {k.name}": lambda k=k: first(k) for k in kinds}
        medians = out.interleave({node: lambda: run(bare), **firsts}, node, b.rounds(5, 21))
        for k in kinds:
            k.close()
        out.difference(medians, "codebox, first cell minus node", "codebox, a session and its first cell, pool empty", node)
        session = c.call("session.create", image="javascript")["session_id"]
        variants = {"codebox, JavaScript, warm": lambda: cell(session, "1 + 1", "2"),
                    "codebox, Bash, warm": lambda: cell(session, "echo 2", "2\n", language="bash")}
        for f in variants.values():
            for _ in range(30):
                f()
        out.interleave(variants, None, b.rounds(8, 30), inner=25)
        c.call("session.close", session_id=session)


@line("throughput", "Cells per second", "cells/s")
def throughput(b, out):
    """Each client has one connection and up to `depth` cells on their way. It makes no JSON and parses none: that would
    take a fifth of two processors from those whose work is measured."""
    cells = 300 if b.quick else 2000

    def client(c, session, depth, total):
        params = {"session_id": session, "code": "1+1"}
        request = json.dumps({"id": 1, "method": "run", "params": params}).encode() + b"\n"
        c.sock.sendall(request * min(depth, total))
        sent, got = min(depth, total), 0
        while got < total:
            answer = c.file.readline()
            if b'"event":' in answer:
                continue
            check(b'"result":"2"' in answer, answer)
            got += 1
            if sent < total:
                c.sock.sendall(request)
                sent += 1

    def measure(sessions, depth):
        conns = [Control(b.box) for _ in range(sessions)]
        ids = [c.call("session.create", image=b.image.name)["session_id"] for c in conns]
        wrong = []

        def one(c, s, total):
            try:
                client(c, s, depth, total)
            except Exception as e:
                wrong.append(e)

        rates = []
        for total in [cells // 10] + [cells] * b.rounds(2, 5):  # the first warms up
            threads = [threading.Thread(target=one, args=(c, s, total)) for c, s in zip(conns, ids)]
            begin = time.perf_counter()
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            rates.append(total * sessions / (time.perf_counter() - begin))
        for c, s in zip(conns, ids):
            c.call("session.close", session_id=s)
            c.__exit__()
        check(not wrong, wrong)
        return rates[1:]

    for sessions, depth, name in ((1, 1, "codebox, one session, one after another"),
                                  (1, 16, "codebox, one session, 16 on their way"),
                                  (4, 16, "codebox, 4 sessions, 16 on their way in each")):
        out.row(name, measure(sessions, depth), codebox=True)
    if b.peers.has(KERNEL):
        kernel, rates = b.peers.kernel(), []
        for _ in range(b.rounds(2, 5) + 1):
            begin = time.perf_counter()
            for _ in range(cells // 10):
                check(kernel("1+1") == "2", "the kernel's answer")
            rates.append(cells // 10 / (time.perf_counter() - begin))
        out.row("IPython kernel, one after another", rates[1:])
        kernel.close()


COMPUTE = """
def bench():
    words, total = {}, 0
    for i in range(120000):
        key = str(i * 7919 % 5003)
        words[key] = words.get(key, 0) + i
        total = (total * 31 + len(key)) % 1000003
    return total, len(sorted(words.values()))
import time
begin = time.perf_counter()
result = bench()
(time.perf_counter() - begin, *result)
"""
COMPUTE_RESULT = (485041, 5003)
# Each takes its own time, as that above does: the way of a cell there and back is another line's. In microseconds, for
# one turn.
SYSTEM = {
    "stat of a file of its own": ("open('own', 'w').close()", "os.stat('own')", "os.unlink('own')"),
    "stat of /usr": ("pass", "os.stat('/usr')", "pass"),
    "read of one byte": ("f = os.open('/dev/zero', os.O_RDONLY)", "os.read(f, 1)", "os.close(f)"),
    "turn of a pipe": ("r, w = os.pipe()", "os.write(w, b'x'); os.read(r, 1)", "os.close(r); os.close(w)"),
    "stat (both), read and pipe, in one loop": (
        "r, w = os.pipe(); f = os.open('/dev/zero', os.O_RDONLY); open('own', 'w').close()",
        "os.stat('own'); os.stat('/usr'); os.read(f, 1); os.write(w, b'x'); os.read(r, 1)",
        "os.close(r); os.close(w); os.close(f); os.unlink('own')"),
    "fork, exec, wait": ("import subprocess", "subprocess.call(['/usr/bin/true'])", "pass"),
}
SYSTEM_CELL = """
import os, time
{0}
begin = time.perf_counter()
for _ in range({turns}): {1}
seconds = time.perf_counter() - begin
{2}
seconds
"""


def inside_and_outside(b):
    """{name: run} of a bare Python, of one in bubblewrap, and of a session; and what ends them."""
    image = b.image
    m = Mcp(b.box)
    session = m.create(image=image.name)
    where = tempfile.mkdtemp(prefix="cbxbench")
    workers = {BARE: Worker(image.python, image.env, cwd=where)}
    if b.peers.has("bubblewrap"):
        workers["bubblewrap"] = Worker(image.bwrap("--chdir", "/tmp", "/usr/bin/python3"),
                                       image.env | {"PYTHONHOME": "/usr"})
    runs = {peer: lambda code, w=w: w(code)[1] for peer, w in workers.items()}
    runs["codebox"] = lambda code: m.run(code, session_id=session)["result"]

    def end():
        for w in workers.values():
            w.close()
        m.close()
        shutil.rmtree(where)

    return runs, end


@line("compute", "Pure computation, inside and outside")
def compute(b, out):
    runs, end = inside_and_outside(b)

    def variant(f):
        def once():
            seconds, *got = ast.literal_eval(f(COMPUTE))
            check(tuple(got) == COMPUTE_RESULT, f"{got!r}, not {COMPUTE_RESULT!r}")
            return seconds
        return once

    out.interleave({peer: variant(f) for peer, f in runs.items()}, BARE, b.rounds(5, 21))
    end()


@line("system", "Code that does little but system calls, inside and outside, each call", "us")
def system(b, out):
    runs, end = inside_and_outside(b)
    for name, parts in SYSTEM.items():
        turns = 30 if "exec" in name else 20000
        cell = SYSTEM_CELL.format(*parts, turns=turns)
        variants = {f"{peer}: {name}": lambda f=f: float(f(cell)) / turns * 1e3 for peer, f in runs.items()}
        out.interleave(variants, f"{BARE}: {name}", b.rounds(5, 21))
    end()


@line("requests", "64 requests on one connection")
def requests(b, out):
    m = Mcp(b.box)
    one = m.create(image=b.image.name)
    several = [m.create(image=b.image.name) for _ in range(8)]

    def together(make):
        def f():
            ids = {make(i) for i in range(64)}
            while ids:
                ident, result = m.answer()
                check(not result.get("isError"), result)
                ids.discard(ident)
        return f

    def cell(session):
        return m.request("tools/call", name="run_code", arguments={"code": "1+1", "session_id": session})

    def in_turn():
        for _ in range(64):
            m.run("1+1", "2", session_id=one)

    out.interleave({"codebox, 64 cells of one session, one by one": in_turn,
                    "codebox, 64 cells of one session, sent at once": together(lambda i: cell(one)),
                    "codebox, 64 cells of 8 sessions, sent at once": together(lambda i: cell(several[i % 8])),
                    "codebox, 64 pings, sent at once": together(lambda i: m.request("ping"))},
                   "codebox, 64 cells of one session, one by one", b.rounds(5, 21))
    for s in several:
        m.tool("close_session", session_id=s)
    m.close()


@line("memory", "Memory of an idle session that has used the data libraries", "MiB")
def memory_line(b, out):
    image, count = b.image, 4 if b.quick else 16
    imports = "import " + (", ".join(m for m in image.stack if not m.startswith("IPython")) or "sys")
    bare = Worker(image.python, image.env)
    bare("import " + ", ".join(image.stack or ["json"]))
    out.row("bare Python, the same imports, PSS", [memory(bare.p.pid, "smaps_rollup", "Pss")])
    bare.close()
    if b.peers.has(KERNEL):
        kernels = [b.peers.kernel() for _ in range(2)]
        for k in kernels:
            k(imports)
        out.row("IPython kernel, PSS", [memory(k.pid(), "smaps_rollup", "Pss") for k in kernels])
        for k in kernels:
            k.close()
    for kind in b.kinds()[1:]:  # those without a pool: each new process belongs to a session
        sessions_memory(kind, image, imports, count, out)
    box = Box(CODEBOX_ZYGOTES="4")
    m = Mcp(box)
    daemon = box.daemon_pid()
    out.row("codebox, daemon and supervisor before the first session, RSS",
            [sum(memory(p, "status", "VmRSS") for p in [daemon] + named(daemon, "codebox-supervisor"))], codebox=True)
    out.row("codebox mcp, RSS", [memory(m.p.pid, "status", "VmRSS")], codebox=True)
    m.close()
    box.stop()


def sessions_memory(kind, image, imports, few, out):
    """A fork shares pages with the others and with its origin, so its part of them depends on how many there are."""
    m = Mcp(kind.box)
    daemon = kind.box.daemon_pid()
    wait_until(lambda: kind.box.hello()["sessions"] == 0)
    known, before = set(children(daemon)), memory(daemon, "status", "VmRSS")
    sessions, how = [], kind.name.partition(", ")[2]
    try:
        for count in (few, MANY_SESSIONS) if kind.warm else (few,):
            while len(sessions) < count:
                sessions.append(m.create(image=image.name))
                m.run(imports, session_id=sessions[-1])
            warm = []
            if kind.warm:
                warm = [p for p in known - set(named(daemon, "codebox-supervisor")) if os.path.exists(f"/proc/{p}")]
                time.sleep(0.5)  # until its next embryo is ready
                warm += [p for w in warm for p in children(w)]
            new = [p for p in children(daemon) if p not in known and p not in warm]
            out.row(f"codebox session, {how}, PSS, mean of {count} alive",
                    [sum(memory(p, "smaps_rollup", "Pss") for p in new) / count], codebox=True)
            out.row(f"codebox session, {how}, its own pages alone, mean of {count} alive",
                    [sum(memory(p, "smaps_rollup", "Private_Dirty", "Private_Clean") for p in new) / count],
                    codebox=True)
        if kind.warm:
            out.row("codebox, the warm interpreter itself, with its embryo, once, PSS",
                    [sum(memory(p, "smaps_rollup", "Pss") for p in set(warm))], codebox=True)
    except PermissionError:
        out.note("PSS of a session cannot be read by this user")
    out.row(f"codebox session, {how}, share of the daemon's RSS",
            [max(0.0, memory(daemon, "status", "VmRSS") - before) / len(sessions)], codebox=True)
    for s in sessions:
        m.tool("close_session", session_id=s)
    m.close()


@line("output", "100 MB printed by one cell", "MB/s")
def output(b, out):
    size = 100_000_000
    code = f"import sys\nx = 'x' * 99 + '\\n'\nfor _ in range({size // 1000000}): sys.stdout.write(x * 10000)"
    rates = []
    for _ in range(b.rounds(1, 5)):
        begin = time.perf_counter()
        p = subprocess.Popen(b.image.python + ["-c", code], env=b.image.env, stdout=subprocess.PIPE)
        total = 0
        while data := p.stdout.read1(1 << 16):
            total += len(data)
        rates.append(size / 1e6 / (time.perf_counter() - begin))
        p.stdout.close()
        check(p.wait() == 0 and total == size, f"{total} bytes")
    out.row("bare Python, to a reader of a pipe", rates)
    box = Box()
    m = Mcp(box)
    session = m.create(image=b.image.name)
    m.run("1+1", "2", session_id=session)
    daemon = box.daemon_pid()
    before, rates = memory(daemon, "status", "VmRSS"), []
    for _ in range(b.rounds(1, 5)):
        begin = time.perf_counter()
        r = m.run(code, session_id=session)
        rates.append(size / 1e6 / (time.perf_counter() - begin))
        got = len(r["stdout"].encode()) + r["omitted"]["bytes"]
        check(abs(got - size) < 1000, f"{got} bytes are accounted for, not {size}")
    out.row("codebox session over MCP", rates, codebox=True)
    out.row("codebox, daemon's memory at its highest, over idle",
            [max(0.0, memory(daemon, "status", "VmHWM") - before)], codebox=True, unit="MiB")
    m.close()
    box.stop()


@line("exec", "A gigabyte from a command to a pipe", "MB/s")
def exec_line(b, out):
    size = 100_000_000 if b.quick else 1_000_000_000
    words = ["head", "-c", str(size), "/dev/zero"]

    def rate(start):
        begin, total = time.perf_counter(), 0
        with start() as p:
            while data := p.stdout.read1(1 << 16):
                total += len(data)
        check(p.returncode == 0 and total == size, f"{total} bytes, status {p.returncode}")
        return size / 1e6 / (time.perf_counter() - begin)

    with Control(b.box) as c:
        session = c.call("session.create", image=b.image.name)["session_id"]
        starts = {"head, to a reader of a pipe": lambda: subprocess.Popen(words, stdout=subprocess.PIPE),
                  "codebox exec": lambda: b.box.popen("exec", session, *words, stdout=subprocess.PIPE)}
        rates = {name: [] for name in starts}
        for _ in range(b.rounds(3, 7)):
            for name, start in starts.items():
                rates[name].append(rate(start))
        for name in starts:
            out.row(name, rates[name], codebox=name.startswith("codebox"))
        c.call("session.close", session_id=session)


@line("initialize", "codebox mcp from its start to the answer to initialize")
def initialize(b, out):
    box = Box()

    def once():
        begin = time.perf_counter()
        m = Mcp(box)
        seconds = time.perf_counter() - begin
        m.close()
        return seconds

    def cold():
        box("stop")
        return once()

    once()
    out.interleave({"codebox --version, for scale": lambda: run([CODEBOX, "--version"]),
                    "codebox mcp, daemon is up": once}, "codebox --version, for scale", b.rounds(10, 41))
    out.interleave({"codebox mcp, daemon must be started": cold}, None, b.rounds(3, 11))
    box.stop()


@line("proxy", "Through a session's proxy to a server at the machine's loopback", "MB/s")
def proxy(b, out):
    """Of both ends a program in C; the client is in the session, or beside it."""
    if not b.tcp or not os.access(b.tcp, os.X_OK):
        out.note("needs tests/bench/tcp, which `make bench` builds")
        return
    size, count, clients = (500_000_000, 5_000, 16) if b.quick else (1_000_000_000, 20_000, 16)
    server = subprocess.Popen([b.tcp, "serve"], stdout=subprocess.PIPE, text=True, start_new_session=True)
    port = int(server.stdout.readline())
    policy = os.path.join(tempfile.mkdtemp(prefix="cbxbench"), "policy.json")
    with open(policy, "w") as f:
        json.dump({"include": ["default"], "network": {"allow": [f"127.0.0.1:{port}"]}}, f)
    box = Box(CODEBOX_POLICY=policy, CODEBOX_POOL="0")
    with Control(box) as c:
        session = c.call("session.create", image=b.image.name)["session_id"]
        box("cp", b.tcp, f"{session}:tcp", check=True)

        def inside(*args):
            words = ["./tcp", "ask", str(port), "3128", *map(str, args)]
            r = c.call("run", session_id=session, code=f"import subprocess\nr = subprocess.run({words}, capture_output=True)\n"
                                                       "print(r.returncode, r.stdout.decode())")
            check(r["output"].startswith("0 "), r)
            return float(r["output"].split()[1])

        def beside(*args):
            return float(subprocess.run([b.tcp, "ask", str(port), "0", *map(str, args)], stdout=subprocess.PIPE, text=True,
                                        check=True).stdout)

        workers = named(box.daemon_pid(), "codebox-proxy")
        pid = next(p for p in workers if any(p in children(q) for q in workers if q != p))
        idle_memory(pid, out, "before its first connection")
        for name, ask in (("directly", beside), ("codebox session, through its proxy", inside)):
            ask(0, 100, 1)
            begin = used(pid)
            rates = [size / 1e6 / ask(size, 1, 1) for _ in range(b.rounds(2, 7))]
            bulk, begin = used(pid) - begin, used(pid)
            short = [count / ask(0, count, clients) for _ in range(b.rounds(2, 7))]
            out.row(name, rates, codebox=ask is inside)
            out.row(f"{name}, connections of one request, {clients} at once", short, codebox=ask is inside, unit="a second")
            if ask is inside:
                out.row("codebox, the proxy's processor time for a megabyte", [bulk * 1e3 / (size / 1e6) / len(rates)],
                        codebox=True, unit="us")
                out.row("codebox, the proxy's processor time for a connection",
                        [(used(pid) - begin) * 1e3 / count / len(short)], codebox=True, unit="us")
        idle_memory(pid, out, "after these")
    os.killpg(server.pid, signal.SIGKILL)
    server.wait()
    server.stdout.close()
    box.stop()
    shutil.rmtree(os.path.dirname(policy))


def idle_memory(pid, out, when):
    """Only root can read the PSS of a process that is not to be looked into."""
    try:
        out.row(f"codebox, the proxy's memory {when}, PSS", [memory(pid, "smaps_rollup", "Pss")], codebox=True, unit="MiB")
    except PermissionError:
        out.row(f"codebox, the proxy's memory {when}, resident and not of files", [memory(pid, "status", "RssAnon")],
                codebox=True, unit="MiB")


PACKAGES = ["rich", "polars", "httpx"]


@line("install", "Packages that the store has, until a cell can import them")
def install(b, out):
    """Each time a new session, which is ready; what is in its image already is of no account."""
    use = "; ".join(f"import {p}" for p in PACKAGES)
    with Control(b.box) as c:
        def session():
            s = c.call("session.create", image=b.image.name)["session_id"]
            check(c.call("run", session_id=s, code="1+1").get("result") == "2", "a new session's answer")
            return s

        def once():
            s = session()
            begin = time.perf_counter()
            answer = c.call("packages.install", session_id=s, packages=PACKAGES)
            seconds = time.perf_counter() - begin
            check({p["name"] for p in answer["installed"] + answer["already"]} >= set(PACKAGES), answer)
            r = c.call("run", session_id=s, code=use)
            check(r["status"] == "ok", r)
            c.call("session.close", session_id=s)
            return seconds

        try:
            answer = c.call("packages.install", session_id=session(), packages=PACKAGES)  # fills the store
        except ControlError as e:
            out.note(f"not measured, since they cannot be installed here: {e}")
            return
        out.interleave({"codebox, " + ", ".join(PACKAGES): once}, None, b.rounds(5, 21))
        out.note("installed: " + ", ".join(f"{p['name']} {p['version']}" for p in answer["installed"]))


def hold(box):
    """A connection that keeps codeboxd from ending while nothing else is measured."""
    s = socket.socket(socket.AF_UNIX)
    s.connect(os.path.join(box.env["CODEBOX_RUNTIME_DIR"], "control.sock"))
    return s
