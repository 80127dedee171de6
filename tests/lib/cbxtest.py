# SPDX-License-Identifier: Apache-2.0
"""What the integration tests share: TAP, a daemon of their own, and the codebox command.

A test is a function; run(globals()) runs all whose names start with "test_", in order, and prints TAP. A failed assert
is "not ok" with its text, and the sessions that the test has left are closed; Skip is "ok # SKIP reason". Each script
has its own run-time directory, and so its own codeboxd. At the end nothing is left of them, whatever happens (guard.py).
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

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from guard import children, guard, scratch  # noqa: E402

# A test run in a shell's background has SIGINT ignored, and so would have all that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

CODEBOX = os.environ.get("CODEBOX") or shutil.which("codebox") or "codebox"
boxes = []
directory = scratch()


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
        boxes.append(self)
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

    def hurry(self, who="codeboxd"):
        """Of the program of that name which is started next; the function that is returned lets its clock run faster."""
        library = os.environ.get("CBX_HURRY_SO", "")
        if not os.path.exists(library) or os.environ.get("CBX_SANITIZED"):
            raise Skip("tests/lib/hurry.so was not built, or a sanitizer wants to be the first")
        path = os.path.join(self.dir, "speed of " + who)

        def speed(times):
            with open(path, "r+b" if os.path.exists(path) else "wb") as f:
                f.write(times.to_bytes(4, "little"))
        speed(1)
        os.chmod(path, 0o644)
        self.env.update({"LD_PRELOAD": library, "CBX_HURRY": path, "CBX_HURRY_WHO": who})
        return speed

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
        return self.ask("hello")

    def ask(self, method, seconds=120, **params):
        """One request on the control socket, or None when there is no answer. No daemon is started."""
        try:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(seconds)
                sock.connect(os.path.join(self.env["CODEBOX_RUNTIME_DIR"], "control.sock"))
                sock.sendall(json.dumps({"id": 1, "method": method, "params": params}).encode() + b"\n")
                return json.loads(sock.makefile("rb").readline())["result"]
        except (OSError, ValueError, KeyError):
            return None

    def sessions(self):
        return {s["session_id"] for s in (self.ask("session.list", 10) or {}).get("sessions", ())}

    def daemon_pid(self):
        hello = self.hello()
        return hello and hello["pid"]


def command(pid):
    """The name of a process, as much of it as the kernel keeps (15 bytes); "" when it has gone."""
    try:
        with open(f"/proc/{pid}/comm") as f:
            return f.read().rstrip("\n")
    except OSError:
        return ""


def sandboxes(daemon):
    """The descendants of a codeboxd, but for its workers, which wait in case that they are wanted."""
    return [p for p in children(daemon) if command(p) not in (
        "codebox-proxy", "codebox-package", "codebox-store", "codebox-sql", "codebox-tls", "codebox-upload")]


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


def close_sessions(before):
    """Those that a failed test has made: the tests after it are not to meet them."""
    for box in boxes:
        for session in box.sessions() - before.get(box, set()):
            box.ask("session.close", 30, session_id=session)


def run(namespace, after_failure=None):
    tests = [(n[5:].replace("_", " "), f) for n, f in namespace.items() if n.startswith("test_") and callable(f)]
    failed = 0
    guard(directory)
    print(f"1..{len(tests)}", flush=True)
    for number, (name, f) in enumerate(tests, 1):
        before = {box: box.sessions() for box in boxes}
        begun = time.monotonic()
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
            close_sessions(before)
            if after_failure:
                after_failure()
        else:
            print(f"ok {number} - {name}", flush=True)
        print(f"# it took {time.monotonic() - begun:.1f} s", flush=True)
    sys.exit(1 if failed else 0)
