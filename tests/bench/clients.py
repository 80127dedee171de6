# SPDX-License-Identifier: Apache-2.0
"""The three ways to a cell that are measured: `codebox mcp`, the control socket, and the driver alone."""
import json
import os
import re
import select
import socket
import subprocess
import time

from cbxtest import Box, CODEBOX, wait_until
from control import Control
from measure import check


class Kind:
    """A codeboxd, and how its sessions come to their interpreter."""

    def __init__(self, name, image, pool, zygotes):
        self.name, self.image, self.pooled = name, image, pool != "0"
        self.box = Box(CODEBOX_POOL=pool, CODEBOX_ZYGOTES=zygotes)
        self.control = Control(self.box)  # also keeps it from ending
        self.warm = zygotes != "0" and wait_until(lambda: self.try_one() == "zygote", 300)

    def try_one(self):
        s = self.control.call("session.create", image=self.image)
        self.control.call("session.close", session_id=s["session_id"])
        time.sleep(1)  # a warm interpreter is made while nobody asks for sessions
        return s["interpreter"].get("started_by")

    def settle(self):
        """Before each measurement: what is made ahead of time is there again."""
        if self.pooled:
            check(wait_until(lambda: self.box.hello()["pool"]["ready"] > 0, 300), "the pool stays empty")

    def close(self):
        self.control.__exit__()
        self.box.stop()


class Mcp:
    """A client of `codebox mcp` with no library in between."""

    def __init__(self, box, handshake=True):
        self.p = subprocess.Popen([CODEBOX, "mcp"], env=box.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.n = 0
        if handshake:
            self.call("initialize", protocolVersion="2025-11-25", capabilities={},
                      clientInfo={"name": "bench", "version": "1"})
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, m):
        self.p.stdin.write(json.dumps(m).encode() + b"\n")
        self.p.stdin.flush()

    def request(self, method, **params):
        """Send only; returns the id."""
        self.n += 1
        self.send({"jsonrpc": "2.0", "id": self.n, "method": method, "params": params})
        return self.n

    def answer(self):
        """The next answer: its id and its result."""
        while True:
            line = self.p.stdout.readline()
            check(line, "codebox mcp has ended")
            m = json.loads(line)
            if "method" not in m:
                check("result" in m, m)
                return m["id"], m["result"]

    def call(self, method, **params):
        ident = self.request(method, **params)
        while True:
            got, result = self.answer()
            if got == ident:
                return result

    def tool(self, name, **arguments):
        r = self.call("tools/call", name=name, arguments=arguments)
        check(not r.get("isError"), r)
        return r["structuredContent"]

    def create(self, **arguments):
        return self.tool("create_session", **arguments)["session_id"]

    def run(self, code, want=None, **arguments):
        r = self.tool("run_code", code=code, **arguments)
        check(r["status"] == "ok", r)
        if want is not None:
            check(r.get("result") == want, f"result {r.get('result')!r}, not {want!r}")
        return r

    def close(self):
        self.p.stdin.close()
        self.p.stdout.close()
        self.p.wait()


def one_socket(driver):
    """Whether a driver has its frames over one socket, as in 0.1, not over two pipes."""
    with open(driver, encoding="utf-8") as f:
        return "on the descriptor that CODEBOX_FD names" in f.read()


class Driver:
    """The session's interpreter without sandbox and daemon: the same cell, as it is inside."""

    def __init__(self, image, share):
        driver = os.path.join(share, "runtimes", "python", "driver.py")
        if one_socket(driver):
            ours, theirs = socket.socketpair()
            theirs_r = theirs_w = theirs.detach()
            self.to = self.frames = ours.detach()
        else:
            theirs_r, self.to = os.pipe()
            self.frames, theirs_w = os.pipe()
        self.out, self.out_w = os.pipe()
        env = dict(image.env, CODEBOX_FD="%d,%d" % (theirs_r, theirs_w) if theirs_r != theirs_w else str(theirs_r))
        self.p = subprocess.Popen(image.python + [driver], env=env, stdin=subprocess.DEVNULL, stdout=self.out_w,
                                  stderr=self.out_w, pass_fds={theirs_r, theirs_w}, cwd="/tmp")
        for fd in {theirs_r, theirs_w}:
            os.close(fd)
        self.buffer, self.n = b"", 0
        os.set_blocking(self.out, False)
        self.until("ready")

    def frame(self):
        while True:
            if len(self.buffer) >= 4:
                size = int.from_bytes(self.buffer[:4], "little")
                if len(self.buffer) >= 4 + size:
                    text, self.buffer = self.buffer[4:4 + size], self.buffer[4 + size:]
                    return json.loads(text)
            data = os.read(self.frames, 1 << 16)
            check(data, "the driver has ended")
            self.buffer += data

    def until(self, kind):
        seen = []
        while True:
            f = self.frame()
            seen.append(f)
            if f["ev"] == kind:
                return seen

    def run(self, code, want):
        self.n += 1
        data = json.dumps({"op": "run", "id": self.n, "code": code, "silent": False}).encode()
        os.write(self.to, len(data).to_bytes(4, "little") + data)
        seen = self.until("done")
        got = [f["data"]["text/plain"] for f in seen if f["ev"] == "result"]
        check(got == [want], f"result {got!r}, not {want!r}")
        if select.select([self.out], [], [], 0)[0]:
            os.read(self.out, 1 << 16)

    def close(self):
        os.close(self.to)
        self.p.wait()
        if self.frames != self.to:
            os.close(self.frames)
        os.close(self.out)
        os.close(self.out_w)


def used(pid):
    """Milliseconds of a processor that a process's first thread has used; 0 when it has gone."""
    try:
        with open(f"/proc/{pid}/schedstat") as f:
            return int(f.read().split()[0]) / 1e6
    except OSError:
        return 0


def memory(pid, what, *keys):
    """Sum of fields of /proc/PID/status or smaps_rollup, in MiB; of a process that has just ended, nothing."""
    try:
        with open(f"/proc/{pid}/{what}") as f:
            return sum(int(n) for k, n in re.findall(r"^(\w+):\s+(\d+) kB", f.read(), re.M) if k in keys) / 1024
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
