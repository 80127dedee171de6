#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The way of a cell through the engine: gdb, which runs a codeboxd, says which functions one warm cell passes. They stand
in at most 20 files, which are those that session.h names, and what goes up passes four function pointers."""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys

TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
SRC = os.path.join(TOP, "src")
sys.path.insert(0, os.path.join(TOP, "tests", "lib"))
from cbxtest import Box, Skip, run, wait_until  # noqa: E402

box = Box()
FOLDERS = ("session", "execution", "interp", "box", "policy")
FILES_MAX = 20
POINTERS_MAX = 4
RARE = ("box/link.c",)  # once a second: the supervisor hears that the session is in use
BESIDE = ("cbx_engine_to_json", "timer_event")  # the greeting of a connection, and timers, as of the pool

# For gdb: SIGUSR2, which codeboxd has no use for, stops it, the first time to get a breakpoint at each function of the
# engine, inlined or not; the second time the output names what was reached. A function that is reached is asked for once.
TRACE = r"""
import gdb, json, re

FOLDERS, DIRECTORY = %r

def place(path):
    found = re.search(r"src/(\w+/[\w.-]+\.c)$", path or "")
    return found and found.group(1)

class Passed(gdb.Breakpoint):
    def __init__(self, file, name):
        super().__init__(f"-source {file} -function {name}", internal=True)
        self.silent, self.at = True, (file, name)

    def stop(self):
        if self.at not in passed:
            frame, callers = gdb.newest_frame().older(), []
            while frame:
                sal = frame.find_sal()
                file = sal.symtab and place(sal.symtab.fullname())
                callers.append([file, frame.name()])
                frame = frame.older()
            passed[self.at] = [*self.at, callers]
        return False

def say(name, what):
    with open(f"{DIRECTORY}/{name}.new", "w") as f:
        json.dump(what, f)
    import os
    os.rename(f"{DIRECTORY}/{name}.new", f"{DIRECTORY}/{name}")

passed = {}
for setting in ("pagination off", "confirm off", "breakpoint pending off", "breakpoint always-inserted on",
                "print inferior-events off", "auto-load off", "debuginfod enabled off"):
    gdb.execute("set " + setting)
gdb.execute("handle all nostop noprint pass", to_string=True)
gdb.execute("handle SIGUSR2 stop print nopass", to_string=True)
gdb.execute("run")
file, places = None, []
for line in gdb.execute("info functions -n .", to_string=True).splitlines():
    if line.startswith("File "):
        file = place(line[5:].rstrip(":"))
    name = re.search(r"(\w+)\(.*\);$", line)
    if file and name and file.split("/")[0] in FOLDERS:
        places.append((file, name.group(1)))
for at in places:
    try:
        Passed(*at)
    except gdb.error:
        pass  # nothing is left of it
say("traced", len(places))
gdb.execute("continue")
say("passed", list(passed.values()))
gdb.execute("continue")
"""


def start():
    """A codeboxd in gdb."""
    if not shutil.which("gdb"):
        raise Skip("there is no gdb")
    script = os.path.join(box.dir, "trace.py")
    with open(script, "w", encoding="utf-8") as f:
        f.write(TRACE % ((FOLDERS, box.dir),))
    daemon = os.environ.get("CODEBOX_DAEMON") or shutil.which("codeboxd")
    with open(os.path.join(box.dir, "gdb.log"), "wb") as log:
        return subprocess.Popen(["gdb", "-q", "-nx", "-batch", "-x", script, "--args", daemon, "--foreground"],
                                env=box.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def cell():
    r = box("run", "--session", "warm", "-c", "5")
    assert r.stdout == "5\n", r


def trace():
    """What one cell of a session that has run others passes, in order: [file, function, file of its caller]."""
    gdb = start()

    def there(condition):
        assert wait_until(lambda: condition() or gdb.poll() is not None) and gdb.poll() is None, log()

    def log():
        with open(os.path.join(box.dir, "gdb.log"), errors="replace") as f:
            return f.read()

    def stop(name):
        path = os.path.join(box.dir, name)
        os.kill(pid, signal.SIGUSR2)
        there(lambda: os.path.exists(path))
        with open(path, encoding="utf-8") as f:
            return json.load(f)

    there(lambda: box.hello())
    if "not permitted" in log() or "TRACEME" in log():
        raise Skip("gdb may not trace here")
    pid = box.daemon_pid()
    box("run", "--session", "warm", "--image", box.image("python"), "-c", "5", check=True)
    cell()
    there(lambda: box.hello()["pool"].get("ready"))  # and nothing is being made
    if stop("traced") < 100:
        raise Skip("codeboxd was built without symbols")
    cell()
    found = [(file, name, callers[0][0]) for file, name, callers in stop("passed")
             if file not in RARE and not any(caller in BESIDE for _, caller in [[file, name], *callers])]
    return found


def callbacks():
    """Functions that are called by a pointer of a table, or an operation; not those of the event loop."""
    found = set()
    for path in glob.glob(f"{SRC}/*/*.c"):
        with open(path, encoding="utf-8") as f:
            found.update(re.findall(r"\.\w+ = &?(\w+)[,; }]", f.read()))
    return found


def documented():
    """The files that session.h names."""
    with open(os.path.join(SRC, "session", "session.h"), encoding="utf-8") as f:
        text = f.read()
    way = " ".join(text[text.index("The way of a cell"):text.index("What goes up")].replace("\n *", " ").split())
    return [f"{folder}/{name}" for folder, names in re.findall(r"of src/(\w+) ([^;:]*)", way)
            for name in re.findall(r"\w+\.c", names)]


passed = []


def test_a_cell_passes_few_files():
    passed.extend(trace())
    files = list(dict.fromkeys(file for file, _, _ in passed))
    assert len(files) > 10, files
    print("# " + " ".join(files))
    assert len(files) <= FILES_MAX, f"{len(files)} files: {files}"
    assert sorted(files) == sorted(set(documented())), "session.h names others: " + " ".join(
        sorted(set(files) ^ set(documented())))


def test_a_cell_passes_few_pointers():
    if not passed:
        raise Skip("nothing was traced")
    up = callbacks()
    inside = {name for file, name, caller in passed if caller and caller.split("/")[0] in FOLDERS and
              caller != file and name in up}
    # What front ends and observers are called for stands outside: the watch of the cell, and `happened`.
    print("# " + " ".join(sorted(inside)))
    assert len(inside) + 2 <= POINTERS_MAX, inside


run(globals())
