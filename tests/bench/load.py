#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many clients at once, over MCP and the control socket, with cells of several kinds. See README.md beside this file.

    make load                              64 clients, 128 sessions, every shape of load once
    load.py --clients 500 --sessions 500   more of both
    load.py --resident --sessions 500      small cells of a few clients among sessions that hold the data libraries
    load.py --stream 100 --seconds 60      that many sessions a second: made, one cell, closed
    load.py --soak 3600                    shapes in turn for that long; fails when something grows

Every answer is checked: it belongs to its session, in order, and is complete. At the end nothing may be left behind.
Latencies are reported and never judged.
"""
import argparse
import asyncio
import collections
import json
import os
import random
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from cbxtest import Box, CODEBOX, Skip, children, identity, named, wait_until  # noqa: E402

LINE_MAX = 64 << 20
OUTPUT = 10_000_000
LIBRARIES = "import numpy, pandas, matplotlib.pyplot, IPython\n"
# How often of 100, and the cell; each also counts in its session, and prints the count.
KINDS = {
    "small": (0, "pass"),
    "1 ms": (74, "import time\nend = time.perf_counter() + .001\nwhile time.perf_counter() < end: pass"),
    "100 ms": (20, "import time\ntime.sleep(.1)"),
    "1 s": (2, "import time\ntime.sleep(1)"),
    "10 MB": (4, f"import sys\nx = 'y' * 99 + '\\n'\nfor _ in range({OUTPUT // 1000000}): sys.stdout.write(x * 10000)"),
}
DEPTH = 16  # cells of one session on their way at most
TIMEOUT = 1200  # of a cell: a machine that is too slow is not a failure
AT_ONCE = 32  # sessions of a stream
KEPT = "processes", "descriptors", "sessions", "mounts", "files", "groups"  # of these there are no more afterwards


class Refused(Exception):
    def __init__(self, kind, message):
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class Connection:
    """Lines of JSON each way; answers find their request by its id."""

    def __init__(self):
        self.n, self.waiting = 0, {}

    async def start(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.task = asyncio.create_task(self._read())

    async def _read(self):
        while line := await self.reader.readline():
            m = json.loads(line)
            if "method" not in m and "event" not in m and m.get("id") in self.waiting:
                self.waiting.pop(m["id"]).set_result(m)
        for future in self.waiting.values():
            if not future.done():
                future.set_exception(EOFError("the connection has ended"))

    async def ask(self, method, params, **more):
        self.n += 1
        future = asyncio.get_running_loop().create_future()
        self.waiting[self.n] = future
        self.writer.write(json.dumps({"id": self.n, "method": method, "params": params, **more}).encode() + b"\n")
        await self.writer.drain()
        m = await future
        if "error" in m:
            raise Refused(m["error"].get("kind", m["error"].get("code")), m["error"]["message"])
        return m["result"]


class Control(Connection):
    async def open(self, box):
        path = os.path.join(box.env["CODEBOX_RUNTIME_DIR"], "control.sock")
        await self.start(*await asyncio.open_unix_connection(path, limit=LINE_MAX))
        return self

    async def create(self, **spec):
        return (await self.ask("session.create", spec))["session_id"]

    async def run(self, session, code):
        r = await self.ask("run", {"session_id": session, "code": code})
        return r["status"], r["stdout"], (r.get("omitted") or {}).get("bytes", 0)

    async def drop(self, session):
        await self.ask("session.close", {"session_id": session})

    async def close(self):
        self.writer.close()
        await self.task


class Mcp(Connection):
    async def open(self, box):
        self.p = await asyncio.create_subprocess_exec(CODEBOX, "mcp", env=box.env, stdin=asyncio.subprocess.PIPE,
                                                      stdout=asyncio.subprocess.PIPE, limit=LINE_MAX)
        await self.start(self.p.stdout, self.p.stdin)
        await self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {},
                                      "clientInfo": {"name": "load", "version": "1"}})
        return self

    async def ask(self, method, params, **more):
        return await super().ask(method, params, jsonrpc="2.0", **more)

    async def tool(self, name, arguments):
        r = await self.ask("tools/call", {"name": name, "arguments": arguments})
        if r.get("isError"):
            text = r["content"][0]["text"]
            known = ("too_many_sessions", "sessions"), ("queue_full", "waiting")
            raise Refused(next((kind for kind, word in known if word in text), "tool_error"), text)
        return r["structuredContent"]

    async def create(self, **spec):
        return (await self.tool("create_session", spec))["session_id"]

    async def run(self, session, code):
        r = await self.tool("run_code", {"session_id": session, "code": code})
        while r["status"] == "running":
            r = await self.tool("get_execution", {"session_id": session, "execution_id": r["execution_id"], "wait": 40})
        return r["status"], r["stdout"], (r.get("omitted") or {}).get("bytes", 0)

    async def drop(self, session):
        await self.tool("close_session", {"session_id": session})

    async def close(self):
        self.writer.close()
        await self.p.wait()
        await self.task


class Tally:
    """What became of the cells of one shape of load."""

    def __init__(self):
        self.seconds = collections.defaultdict(list)
        self.by_client = {}
        self.errors, self.wrong = {}, []

    def took(self, client, kind, seconds):
        self.seconds[kind].append(seconds)
        if kind in ("1 ms", "small"):
            self.by_client.setdefault(client, []).append(seconds)

    def jain(self):
        """Jain's index. 1: all clients waited alike for their short cells; 1/n: one of n did all the waiting."""
        x = [sum(v) / len(v) for v in self.by_client.values()]
        return sum(x) ** 2 / (len(x) * sum(v * v for v in x)) if x else 1.0


class Client:
    def __init__(self, number, connection, seed, first="", only=None):
        self.number, self.connection = number, connection
        self.random = random.Random(f"{seed}/{number}")
        self.sessions, self.counts = [], {}
        self.first = first  # what every session runs at first
        self.only = only  # kind of all cells; None: drawn

    async def create(self, image):
        s = await self.connection.create(image=image, timeout=TIMEOUT)
        self.sessions.append(s)
        self.counts[s] = 0
        status, *_ = await self.connection.run(s, self.first + "n = 0")
        assert status == "ok", status

    def kind(self):
        return self.only or self.random.choices(list(KINDS), [weight for weight, _ in KINDS.values()])[0]

    async def cell(self, tally, kind=None):
        """One cell of one of its sessions, and a look at the answer."""
        kind = kind or self.kind()
        session = self.random.choice(self.sessions)
        self.counts[session] += 1
        expected = f"{session}:{self.counts[session]}\n"
        code = f"{KINDS[kind][1]}\nn += 1\nprint(f'{session}:{{n}}')"
        begin = time.perf_counter()
        try:
            status, out, omitted = await self.connection.run(session, code)
        except Refused as e:
            self.counts[session] -= 1
            tally.errors[e.kind] = tally.errors.get(e.kind, 0) + 1
            return
        tally.took(self.number, kind, time.perf_counter() - begin)
        size = len(expected) + (OUTPUT if kind == "10 MB" else 0)
        # What was cut is replaced by a line that says so, of no fixed length.
        complete = out == expected if kind != "10 MB" else out.endswith(expected) and omitted and \
            abs(len(out) + omitted - size) < 1000
        if status != "ok" or not complete:
            tally.wrong.append(f"client {self.number}, {kind}: status {status}, {len(out)} characters that end in "
                               f"{out[-60:]!r}, {omitted} omitted; expected the end {expected!r}")


# ---- shapes of load: each client runs `cells` of them ----

async def one_by_one(client, cells, tally, rate):
    for _ in range(cells):
        await client.cell(tally)


async def poisson(client, cells, tally, rate):
    """Arrivals do not wait for answers, but for room in the queue."""
    room, tasks = asyncio.Semaphore(DEPTH), []

    async def one():
        try:
            await client.cell(tally)
        finally:
            room.release()

    for _ in range(cells):
        await asyncio.sleep(client.random.expovariate(rate))
        await room.acquire()
        tasks.append(asyncio.create_task(one()))
    await asyncio.gather(*tasks)


async def bursts(client, cells, tally, rate):
    """All clients send at the same moment: gather() starts them together."""
    for at in range(0, cells, DEPTH):
        await asyncio.gather(*(client.cell(tally) for _ in range(min(DEPTH, cells - at))))


async def stream(clients, image, rate, seconds, tally):
    """So many sessions a second, whether or not earlier ones are done, up to AT_ONCE of them: made, one cell, closed."""
    room, tasks = asyncio.Semaphore(AT_ONCE), []
    begin = time.perf_counter()

    async def one(number):
        connection, made = clients[number % len(clients)].connection, None
        try:
            at = [time.perf_counter()]
            made = await connection.create(image=image)
            at.append(time.perf_counter())
            answer = await connection.run(made, f"print('{made}', 6 * {number})")
            at.append(time.perf_counter())
            await connection.drop(made)
            at.append(time.perf_counter())
            if answer[:2] != ("ok", f"{made} {6 * number}\n"):
                tally.wrong.append(f"session {number}, {made}: {answer}")
            for kind, a, b in (("create", 0, 1), ("first cell", 1, 2), ("both", 0, 2), ("close", 2, 3)):
                tally.took(number % len(clients), kind, at[b] - at[a])
        except Refused as e:
            tally.errors[e.kind] = tally.errors.get(e.kind, 0) + 1
        finally:
            room.release()

    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(0, begin + number / rate - time.perf_counter()))
        await room.acquire()
        tasks.append(asyncio.create_task(one(number)))
    await asyncio.gather(*tasks)
    tally.elapsed = time.perf_counter() - begin


SHAPES = {"one by one": one_by_one, "poisson": poisson, "bursts": bursts}


# ---- what is left ----

def status(pid, key):
    try:
        with open(f"/proc/{pid}/status") as f:
            return next((int(x.split()[1]) for x in f if x.startswith(key + ":")), 0)
    except OSError:
        return 0


def lines(path):
    with open(path) as f:
        return sum(1 for _ in f)


def descriptors(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:  # it is just being made
        return 0


def files_below(top):
    """But the log, which is turned over."""
    return sum(not name.startswith("codeboxd.log") for _, _, names in os.walk(top) for name in names)


def groups(pid):
    """Control groups beside that of a process."""
    with open(f"/proc/{pid}/cgroup") as f:
        path = next((line.strip()[3:] for line in f if line.startswith("0::")), "/")
    return 0 if path == "/" else sum(1 for _ in os.walk(os.path.dirname("/sys/fs/cgroup" + path)))


def proportional_kib(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            return next((int(x.split()[1]) for x in f if x.startswith("Pss:")), 0)
    except OSError:
        return 0


def more(before, after):
    return [f"{k}: {before[k]} before, {after[k]} after" for k in KEPT if after[k] > before[k]]


class Witness:
    """What there was before, to be compared with what is there afterwards."""

    def __init__(self, box):
        self.box, self.daemon = box, box.daemon_pid()
        self.tmp = set(os.listdir("/tmp"))

    def look(self):
        above = named(self.daemon, "codebox-supervisor")
        hello = self.box.hello()
        return {"rss_kib": sum(status(p, "VmRSS") for p in [self.daemon] + above),
                "processes": len(children(self.daemon)), "sessions": hello["sessions"],
                "descriptors": hello["descriptors"] + sum(map(descriptors, above)),
                "mounts": sum(lines(f"/proc/{p}/mounts") for p in above),
                "files": files_below(self.box.dir), "groups": groups(self.daemon)}

    def stable(self):
        """What there is once nothing changes any more: sessions that are kept ready have been given up."""
        seen = []
        while len(seen) < 60 and (len(seen) < 8 or any(s["processes"] != seen[-1]["processes"] for s in seen[-8:])):
            time.sleep(0.5)
            seen.append(self.look())
        return seen[-1]

    def settle(self, before, seconds=300):
        """Until there are no more processes and descriptors than before; what there is then."""
        def done():
            now = self.look()
            return not more(before, now)
        wait_until(done, seconds)
        return self.look()

    def end(self):
        """Stop the daemon; a list of what is left."""
        family = [f for f in map(identity, [self.daemon, *children(self.daemon)]) if f]

        def left():
            found = [f"process {f[0]}" for f in family if identity(f[0]) == f]
            found += [f"/tmp/{name}" for name in set(os.listdir("/tmp")) - self.tmp
                      if name.startswith("codebox") and name != f"codebox-{os.getuid()}"]  # of one told of no place
            with open("/proc/self/mountinfo") as f:
                return found + [mount for mount in (line.split()[4] for line in f) if "codebox" in mount]

        self.box("stop")
        wait_until(lambda: not left(), 300)  # others may run beside this, and have such for a while
        return left()


# ---- a run ----

def allow(box, sessions):
    """More than a policy that says nothing."""
    box.env["CODEBOX_POLICY"] = os.path.join(box.dir, "load.json")
    with open(box.env["CODEBOX_POLICY"], "w") as f:
        json.dump({"limits": {"sessions": sessions}}, f)


def warm(box):
    """Wait for the warm interpreter that was asked for, if it comes: so that there is no other beside it later."""
    wait_until(lambda: all(z["state"] in ("off", "ready") for z in box.hello()["zygotes"]), 300)


async def connect(box, image, clients, sessions, seed, first="", only=None):
    """Clients with their sessions; every second one speaks MCP. Fewer than wanted, when the daemon allows no more."""
    out = []
    for number in range(clients):
        try:
            out.append(Client(number, await (Mcp if number % 2 else Control)().open(box), seed, first, only))
        except (EOFError, OSError):
            print(f"The daemon allows no more than {number} clients.")
            break
    clients, made = len(out), 0
    for turn in range(0, sessions, 8):
        results = await asyncio.gather(*(out[i % clients].create(image) for i in range(turn, min(turn + 8, sessions))),
                                       return_exceptions=True)
        made += sum(r is None for r in results)
        for r in results:
            if isinstance(r, Refused) and r.kind == "too_many_sessions":
                print(f"The daemon allows no more than {made} sessions.")
                for client in [c for c in out if not c.sessions]:
                    out.remove(client)
                    await client.connection.close()
                return out, made
            if r is not None:
                raise r
    return out, made


async def disconnect(clients):
    async def one(c):
        for s in c.sessions:
            await c.connection.drop(s)
        await c.connection.close()
    await asyncio.gather(*map(one, clients))


async def drive(clients, shape, cells, rate):
    tally = Tally()
    begin = time.perf_counter()
    await asyncio.gather(*(SHAPES[shape](c, cells, tally, rate) for c in clients))
    tally.elapsed = time.perf_counter() - begin
    return tally


def percentiles(seconds):
    s = sorted(seconds)
    return {p: s[min(len(s) - 1, int(len(s) * p / 100))] * 1e3 for p in (50, 90, 95, 99)} | {"max": s[-1] * 1e3}


def show(shape, tally, counted=None):
    """counted: what the rate is of; None: cells of all kinds."""
    total = sum(len(v) for kind, v in tally.seconds.items() if counted in (None, kind))
    # In the other shapes clients wait for their own earlier cells, too.
    fairness = f"fairness {tally.jain():.3f}, " if shape == "one by one" else ""
    print(f"\n{shape}: {total} {'sessions' if counted else 'cells'}, {total / tally.elapsed:.0f} a second, "
          f"{fairness}errors {tally.errors or 'none'}")
    for kind, seconds in tally.seconds.items():
        if seconds:
            p = percentiles(seconds)
            print(f"  {kind:10} n {len(seconds):6}  p50 {p[50]:8.2f} ms  p90 {p[90]:8.2f}  p95 {p[95]:8.2f}  "
                  f"p99 {p[99]:8.2f}  max {p['max']:8.2f}", flush=True)
    return {"shape": shape, "cells": total, "per_second": total / tally.elapsed, "jain": tally.jain(),
            "errors": tally.errors, "ms": {k: percentiles(v) for k, v in tally.seconds.items() if v}}


def problems(tally):
    return tally.wrong[:20] + [f"{n} times {kind}" for kind, n in tally.errors.items()]


def memory_of(box, sessions, resident):
    daemon = box.daemon_pid()
    family, above = children(daemon), named(daemon, "codebox-supervisor")
    memory = {"sessions": sessions, "processes": len(family), "daemon_rss_kib": status(daemon, "VmRSS"),
              "daemon_peak_kib": status(daemon, "VmHWM"), "supervisor_rss_kib": sum(status(p, "VmRSS") for p in above)}
    if resident:  # reading it takes 5 ms a session
        memory["pss_kib"] = sum(map(proportional_kib, family))
    return memory


def show_memory(m):
    print(f"with {m['sessions']} sessions alive: {m['processes']} processes, codeboxd {m['daemon_rss_kib']} KiB (at its "
          f"highest {m['daemon_peak_kib']}), supervisor {m['supervisor_rss_kib']} KiB")
    if m.get("pss_kib") and m["sessions"]:
        print(f"  PSS of all processes, warm interpreters and ready sessions too: {m['pss_kib'] / 1024:.0f} MiB, "
              f"{m['pss_kib'] / 1024 / m['sessions']:.2f} MiB for each session")


async def cycle(box, image, args, shapes):
    """Connect, load, disconnect: results and what went wrong."""
    first, only = (LIBRARIES, "small") if args.resident else ("", None)
    begin = time.perf_counter()
    clients, made = await connect(box, image, args.clients, args.sessions, args.seed, first, only)
    print(f"{made} sessions made in {time.perf_counter() - begin:.1f} s", flush=True)
    results, wrong, memory = [], [], {}
    if args.stream:
        tally = Tally()
        await stream(clients, image, args.stream, args.seconds, tally)
        results.append(show(f"stream of {args.stream:g} sessions a second for {args.seconds:g} s", tally, "both"))
        wrong += problems(tally)
    for shape in shapes:
        tally = await drive(clients, shape, args.cells, args.rate)
        results.append(show(shape, tally))
        wrong += problems(tally)
    memory = memory_of(box, made, args.resident)
    await disconnect(clients)
    return results, wrong, memory


def soak(box, image, args, witness):
    """Shapes in turn until the time is over; growth is a failure."""
    slack = int(os.environ.get("CBX_SLACK_KIB", "2048"))
    end, samples, wrong = time.monotonic() + args.soak, [], []
    before = None
    number = 0
    while number < 8 or time.monotonic() < end:
        args.seed += 1
        _, bad, _ = asyncio.run(cycle(box, image, args, [list(SHAPES)[number % len(SHAPES)]]))
        wrong += bad
        now = witness.settle(before) if before else witness.look()
        if number == 2:  # buffers have grown as far as they do
            before = now = witness.stable()
        elif before:
            wrong += [f"cycle {number}: {text}" for text in more(before, now)]
        samples.append(now["rss_kib"])
        print(f"cycle {number}: {now}", flush=True)
        number += 1
        if wrong:
            break
    # The least of each half: what one shape of load leaves for the next to use is not growth.
    half = (len(samples) - 2) // 2
    if half < 1:
        return wrong
    grown = min(samples[-half:]) - min(samples[2:2 + half])
    print(f"memory of codeboxd and supervisor: {grown:+d} KiB over {len(samples)} cycles")
    if grown > slack:
        wrong.append(f"memory has grown by {grown} KiB: {samples}")
    return wrong


def main():
    ap = argparse.ArgumentParser(description="Many clients at once.")
    ap.add_argument("--clients", type=int, help="default 64; with --resident 4, with --stream 8")
    ap.add_argument("--sessions", type=int, help="over all clients; default 128, with --stream none")
    ap.add_argument("--cells", type=int, default=48, help="for each client, in each shape of load")
    ap.add_argument("--rate", type=float, default=2.0, help="cells per second of each client, shape poisson")
    ap.add_argument("--resident", action="store_true", help="the data libraries in every session, and small cells")
    ap.add_argument("--stream", type=float, metavar="RATE", help="sessions a second: made, one cell, closed")
    ap.add_argument("--seconds", type=float, default=60, help="so long, with --stream")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--shape", action="append", choices=list(SHAPES))
    ap.add_argument("--soak", type=float, metavar="SECONDS")
    ap.add_argument("--image")
    ap.add_argument("--json", metavar="FILE")
    args = ap.parse_args()
    args.clients = args.clients or (4 if args.resident else 8 if args.stream else 64)
    if args.sessions is None:
        args.sessions = 0 if args.stream else 128
    shapes = args.shape or ([] if args.stream else list(SHAPES))
    box = Box(CODEBOX_POOL_IDLE="1", CODEBOX_ZYGOTES="4")
    if args.sessions > 128:
        allow(box, 2 * args.sessions)
    try:
        image = args.image or box.image(*(("python", "host") if args.resident or args.stream else
                                          ("python-minimal", "host", "python")))
    except Skip as e:
        sys.exit(f"load: {e}")
    if not args.stream:
        args.sessions = max(args.sessions, args.clients)
    box("run", "--image", image, "-c", "pass", check=True)
    witness = Witness(box)
    wait_until(lambda: box.hello()["sessions"] == 0)
    warm(box)
    before = witness.stable()
    results, memory = [], {}
    if args.soak is not None:
        wrong = soak(box, image, args, witness)
    else:
        results, wrong, memory = asyncio.run(cycle(box, image, args, shapes))
        after = witness.settle(before)
        print(f"\nbefore {before}\nafter  {after}")
        show_memory(memory)
        wrong += more(before, after)
    wrong += [f"left behind: {x}" for x in witness.end()]
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"results": results, "memory": memory, "wrong": wrong}, f, indent=1)
    for text in wrong:
        print(f"FAILED: {text}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
