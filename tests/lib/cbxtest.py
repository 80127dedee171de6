# SPDX-License-Identifier: Apache-2.0
"""What the integration tests share: TAP, a daemon of their own, and the codebox command.

A test is a function; run(globals()) runs all whose names start with "test_", in order, and prints TAP. A failed assert
is "not ok" with its text; Skip is "ok # SKIP reason". Each script has its own run-time directory, and so its own
codeboxd, which is stopped at the end, whatever happens.
"""
import atexit
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

# A test run in a shell's background has SIGINT ignored, and so would have all that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

CODEBOX = os.environ.get("CODEBOX") or shutil.which("codebox") or "codebox"


class Skip(Exception):
    pass


class Box:
    """A private codeboxd: its run-time and state directories, and images from the user's store."""

    def __init__(self, **env):
        self.dir = tempfile.mkdtemp(prefix="cbx")
        os.chmod(self.dir, 0o755)
        self.env = dict(os.environ)
        self.env.update({
            "CODEBOX_RUNTIME_DIR": os.path.join(self.dir, "run"),
            "CODEBOX_STATE_DIR": os.path.join(self.dir, "state"),
        })
        # Warm interpreters are processes too, and take a second of a processor to start: for those who ask.
        self.env.setdefault("CODEBOX_ZYGOTES", "0")
        self.env.update(env)
        atexit.register(self.stop)

    def stop(self):
        if os.path.isdir(self.dir):
            subprocess.run([CODEBOX, "stop"], env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            shutil.rmtree(self.dir, ignore_errors=True)

    def __call__(self, *args, input=None, timeout=300, text=True, check=False, cwd=None):
        """Run the codebox command."""
        r = subprocess.run([CODEBOX, *args], env=self.env, input=input, capture_output=True, text=text,
                           timeout=timeout, cwd=cwd, stdin=subprocess.DEVNULL if input is None else None)
        if check and r.returncode != 0:
            raise AssertionError(f"codebox {' '.join(args)[:200]} -> {r.returncode}\n{r.stdout}\n{r.stderr}")
        return r

    def popen(self, *args, **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen([CODEBOX, *args], env=self.env, **kw)

    def json(self, *args, **kw):
        r = self(*args, **kw)
        try:
            return json.loads(r.stdout)
        except ValueError:
            raise AssertionError(f"codebox {' '.join(args)[:200]} -> {r.returncode}, no JSON\n{r.stdout}\n{r.stderr}")

    def images(self):
        listed = self.json("image", "ls", "--json")
        return [i["name"] for i in (listed["images"] if isinstance(listed, dict) else listed) if not i.get("damaged")]

    def image(self, *wanted):
        """The first of the wanted images that is in the store."""
        have = self.images()
        for name in wanted:
            if name in have:
                return name
        raise Skip(f"none of the images {', '.join(wanted)} is in the store; codebox image build {wanted[0]}")

    def hello(self):
        """What this box's codeboxd says of itself, or None when none listens."""
        try:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(120)
                sock.connect(os.path.join(self.env["CODEBOX_RUNTIME_DIR"], "control.sock"))
                sock.sendall(b'{"id":1,"method":"hello","params":{}}\n')
                return json.loads(sock.makefile("rb").readline())["result"]
        except (OSError, ValueError):
            return None

    def daemon_pid(self):
        hello = self.hello()
        return hello and hello["pid"]


def children(pid):
    """All descendants of a process."""
    out, todo = [], [pid]
    while todo:
        p = todo.pop()
        try:
            with open(f"/proc/{p}/task/{p}/children") as f:
                kids = [int(x) for x in f.read().split()]
        except OSError:
            kids = []
        out += kids
        todo += kids
    return out


def command(pid):
    """The name of a process, as much of it as the kernel keeps (15 bytes); "" when it has gone."""
    try:
        with open(f"/proc/{pid}/comm") as f:
            return f.read().rstrip("\n")
    except OSError:
        return ""


def named(pid, name):
    """The descendants of a process whose name begins so."""
    return [p for p in children(pid) if command(p).startswith(name[:15])]


def identity(pid):
    """A process is its number and the time of its start; None when it has gone."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return pid, f.read().rpartition(")")[2].split()[19]
    except OSError:
        return None


def wait_until(condition, seconds=120.0):
    """Poll until condition() is true. The limit only bounds a failing test."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())


def run(namespace):
    tests = [(n[5:].replace("_", " "), f) for n, f in namespace.items() if n.startswith("test_") and callable(f)]
    failed = 0
    print(f"1..{len(tests)}", flush=True)
    for number, (name, f) in enumerate(tests, 1):
        try:
            f()
        except Skip as e:
            print(f"ok {number} - {name} # SKIP {e}", flush=True)
        except BaseException as e:
            failed += 1
            print(f"not ok {number} - {name}", flush=True)
            for line in "".join(traceback.format_exception(type(e), e, e.__traceback__))[-4000:].splitlines():
                print("#   " + line, flush=True)
            if isinstance(e, KeyboardInterrupt):
                break
        else:
            print(f"ok {number} - {name}", flush=True)
    sys.exit(1 if failed else 0)
