# SPDX-License-Identifier: Apache-2.0
"""strace on the processes of a Box's codeboxd. codeboxd itself is not dumpable; but its owner may look at the
supervisor, and at all that comes from it."""
import os
import re
import shutil
import subprocess

from cbxtest import Skip, named


def status(pid):
    with open(f"/proc/{pid}/status") as f:
        return dict((k, v.strip()) for k, _, v in (line.partition(":") for line in f.read().splitlines()))


def supervisor(box):
    """The one of a codeboxd that runs."""
    for p in named(box.daemon_pid(), "codebox-supervisor"):
        try:
            s = status(p)
        except OSError:  # it has ended meanwhile
            continue
        if len(s["NSpid"].split()) == 2:
            return p
    raise AssertionError("there is no supervisor")


class Strace:
    def __init__(self, box, pids, *options):
        if not shutil.which("strace"):
            raise Skip("there is no strace")
        self.log = os.path.join(box.dir, "strace")
        at = [w for p in pids for w in ("-p", str(p))]
        self.process = subprocess.Popen(["strace", "-f", *at, "-o", self.log, *options], stdin=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True)
        for _ in pids:
            line = self.process.stderr.readline()
            if "attached" not in line:
                self.close()
                raise Skip("strace may not attach here") if "not permitted" in line else AssertionError(line)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:  # it waits for a process that ends, which waits for it
            self.process.kill()
            self.process.wait()
        self.process.stderr.close()

    def lines(self):
        with open(self.log, errors="replace") as f:
            return f.read().splitlines()

    def whole(self):
        """The lines, each call in one: strace divides those during which another process's is seen."""
        out, begun = [], {}
        for line in self.lines():
            pid, _, text = line.partition(" ")
            if text.endswith(" <unfinished ...>"):
                begun[pid] = text.removesuffix(" <unfinished ...>").strip()
            elif pid in begun and (end := re.match(r" *<\.\.\. \w+ resumed>(.*)", text)):
                out.append(f"{pid} {begun.pop(pid)}{end[1]}")
            else:
                out.append(line)
        return out

    def calls(self):
        """[(pid, call)], each once, at its beginning."""
        out = []
        for line in self.lines():
            pid, _, text = line.partition(" ")
            if re.match(r" *\w+\(", text):
                out.append((int(pid), text.strip()))
        return out
