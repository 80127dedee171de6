#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speed and memory, as medians of interleaved runs beside the peers that are installed. See README.md beside this file.

    make bench            all of it
    bench.py --quick      fewer rounds
    bench.py --json FILE  the figures for programs
"""
import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, CODEBOX, Skip, children  # noqa: E402

ap = argparse.ArgumentParser()
ap.add_argument("--quick", action="store_true")
ap.add_argument("--json")
args = ap.parse_args()
ROUNDS = 7 if args.quick else 21
box = Box()
results = []


def ms(f):
    t = time.perf_counter()
    f()
    return (time.perf_counter() - t) * 1e3


def interleaved(title, base, variants, rounds=ROUNDS):
    """Run every variant once per round, in turn; report medians and the median of each round's ratio to `base`."""
    for f in variants.values():
        f()  # warm the page cache
    times = {name: [] for name in variants}
    for _ in range(rounds):
        for name, f in variants.items():
            times[name].append(ms(f))
    print(f"\n{title} (median of {rounds} interleaved runs)")
    for name, t in times.items():
        ratio = statistics.median(a / b for a, b in zip(t, times[base]))
        print(f"  {name:44} {statistics.median(t):9.2f} ms   {ratio:6.2f} x")
        results.append({"group": title, "name": name, "median_ms": statistics.median(t), "ratio": ratio, "base": base})
    return times


def sh(*cmd, env=None):
    def f():
        subprocess.run(cmd, env=env or box.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=True)
    return f


class Mcp:
    """A raw MCP client on `codebox mcp`."""

    def __init__(self, handshake=True):
        self.p = subprocess.Popen([CODEBOX, "mcp"], env=box.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.n = 0
        if handshake:
            self.call("initialize", protocolVersion="2025-11-25", capabilities={},
                      clientInfo={"name": "bench", "version": "1"})
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, m):
        self.p.stdin.write(json.dumps(m).encode() + b"\n")
        self.p.stdin.flush()

    def call(self, method, **params):
        self.n += 1
        self.send({"jsonrpc": "2.0", "id": self.n, "method": method, "params": params})
        while True:
            m = json.loads(self.p.stdout.readline())
            if m.get("id") == self.n:
                return m["result"]

    def run(self, code, **kw):
        return self.call("tools/call", name="run_code", arguments={"code": code, **kw})

    def close(self):
        self.p.stdin.close()
        self.p.wait()


def memory(pid, what):
    with open(f"/proc/{pid}/{what}") as f:
        for line in f:
            if line.startswith(("Pss:", "VmRSS:")):
                return int(line.split()[1]) / 1024
    return 0.0


def report(title, value, unit):
    print(f"  {title:44} {value:9.2f} {unit}")
    results.append({"name": title, "value": value, "unit": unit})


def startup(image):
    box("run", "--image", image, "-c", "pass", check=True)
    variants = {"bare python3 -I -c pass": sh("/usr/bin/python3", "-I", "-c", "pass")}
    if shutil.which("bwrap"):
        variants["bwrap python3 -I -c pass"] = sh(
            "bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink",
            "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "/usr/bin/python3", "-I", "-c", "pass")
    variants[f"codebox run -c pass ({image})"] = sh(CODEBOX, "run", "--image", image, "-c", "pass")
    interleaved("Process start to first result", "bare python3 -I -c pass", variants)


def cold_session(image):
    """A new session's first cell beside bare Python that imports what the driver imports."""
    probe = box("run", "--image", image, "-c", "import sys; print('IPython' in sys.modules)", check=True).stdout
    libs = "IPython.core.interactiveshell" if "True" in probe else "json, traceback, ast, code"
    rootfs = os.path.join(os.environ.get("CODEBOX_DATA_DIR") or os.path.expanduser("~/.local/share/codebox"), "images",
                          image, "rootfs")
    if os.geteuid() == 0 and not os.path.isdir(rootfs):
        rootfs = f"/var/lib/codebox/images/{image}/rootfs"
    if os.path.isdir(rootfs) and image != "host" and shutil.which("bwrap"):
        bare = sh("bwrap", "--bind", rootfs, "/", "--proc", "/proc", "--dev", "/dev", "/usr/bin/python3", "-c",
                  f"import {libs}")
        name = f"the image's python3 importing {libs}"
    else:
        bare = sh("/usr/bin/python3", "-c", f"import {libs}")
        name = f"python3 importing {libs}"
    m = Mcp()

    def session():
        s = m.call("tools/call", name="create_session", arguments={"image": image})["structuredContent"]["session_id"]
        m.run("1", session_id=s)
        m.call("tools/call", name="close_session", arguments={"session_id": s})

    t = interleaved("Cold session: create, first cell, close", name, {name: bare, "codebox session over MCP": session})
    diff = statistics.median(b - a for a, b in zip(*t.values()))
    report("codebox session minus bare imports", diff, "ms")
    m.close()


def warm_cells(image):
    m = Mcp()
    s = m.call("tools/call", name="create_session", arguments={"image": image})["structuredContent"]["session_id"]
    for _ in range(50):
        m.run("1+1", session_id=s)
    t = sorted(ms(lambda: m.run("1+1", session_id=s)) for _ in range(500 if args.quick else 3000))
    print("\nWarm cell through MCP stdio")
    report("1+1, median", statistics.median(t), "ms")
    report("1+1, 99th percentile", t[int(len(t) * 0.99)], "ms")
    m.close()


def initialize():
    def once():
        Mcp().close()

    def cold():
        box("stop")
        once()

    t = [ms(once) for _ in range(ROUNDS)]
    print("\ninitialize answered, from exec of codebox mcp to its end")
    report("with the daemon up", statistics.median(t), "ms")
    t = []
    for _ in range(ROUNDS):
        box("stop")
        t.append(ms(once))
    report("when the daemon must be started", statistics.median(t), "ms")
    t = [ms(sh(CODEBOX, "--version")) for _ in range(ROUNDS)]
    report("(codebox --version, for scale)", statistics.median(t), "ms")


def resident(image):
    box("stop")
    m = Mcp()
    daemon = box.daemon_pid()
    print("\nMemory")
    report("codebox mcp, RSS", memory(m.p.pid, "status"), "MiB")
    time.sleep(0.3)
    own = [daemon] + children(daemon)
    report("codeboxd and supervisor without sessions, RSS", sum(memory(p, "status") for p in own), "MiB")
    ids = []
    for _ in range(8):
        s = m.call("tools/call", name="create_session", arguments={"image": image})["structuredContent"]["session_id"]
        m.run("x = 1", session_id=s)
        ids.append(s)
    pids = [p for p in children(daemon) if p not in own]
    try:
        report("an idle session, PSS", sum(memory(p, "smaps_rollup") for p in pids) / len(ids), "MiB")
    except PermissionError:
        report("an idle session, RSS (PSS needs root here)", sum(memory(p, "status") for p in pids) / len(ids), "MiB")
    m.close()


def main():
    try:
        image = box.image("python", "host")
        small = box.image("python-minimal", "host", "python")
    except Skip as e:
        sys.exit(f"bench: {e}")
    print(f"{platform.system()} {platform.release()}, {os.cpu_count()} cores, Python {platform.python_version()}; "
          f"images {image} and {small}")
    startup(small)
    cold_session(image)
    warm_cells(image)
    initialize()
    resident(image)
    if args.json:
        with open(args.json, "w") as f:
            json.dump(results, f, indent=1)


main()
