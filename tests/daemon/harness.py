# SPDX-License-Identifier: Apache-2.0
"""A private codeboxd with a supervisor that is only played (fake_supervisor.py), and a client of its control socket."""
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from cbxtest import children, run, sandboxes, wait_until  # noqa: E402, F401
from image_python import image_python  # noqa: E402

DAEMON = os.environ.get("CODEBOX_DAEMON") or shutil.which("codeboxd") or "/usr/local/sbin/codeboxd"
RUNTIMES = os.path.join(os.environ.get("CODEBOX_SHARE_DIR") or os.path.join(HERE, "../../src"), "runtimes")
# The start of a cell that writes frames of its own to the driver's socket, wherever the driver has put that.
FRAME = """
import fcntl, os, struct
def connection():
    for name in sorted(os.listdir('/proc/self/fd'), key=int):
        try:
            if int(name) > 2 and os.readlink('/proc/self/fd/' + name).startswith('pipe:'):
                yield int(name)
        except OSError:
            pass
FD = max(fd for fd in connection() if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY)
def frame(b): os.write(FD, struct.pack('<I', len(b)) + b)
"""
running = []


class Refused(Exception):
    def __init__(self, error):
        super().__init__(f"{error['kind']}: {error['message']}")
        self.kind, self.message = error["kind"], error["message"]


class Client:
    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
        self.sock.settimeout(180)
        self.file = self.sock.makefile("rb")
        self.number = 0
        self.events = []

    def close(self):
        self.file.close()
        self.sock.close()

    def send(self, method, **params):
        self.number += 1
        self.raw(json.dumps({"id": self.number, "method": method, "params": params}).encode())
        return self.number

    def raw(self, line):
        self.sock.sendall(line + b"\n")

    def recv(self):
        line = self.file.readline()
        if not line:
            raise EOFError
        return json.loads(line)

    def wait(self, number):
        while True:
            m = self.recv()
            if "event" in m:
                self.events.append(m)
            elif m["id"] == number:
                if "error" in m:
                    raise Refused(m["error"])
                return m["result"]

    def call(self, method, **params):
        self.events = []
        return self.wait(self.send(method, **params))

    def run(self, code, **params):
        return self.call("run", code=code, **params)

    def refused(self, method, **params):
        try:
            r = self.call(method, **params)
        except Refused as e:
            return e
        raise AssertionError(f"{method} was not refused: {r}")


class Daemon:
    def __init__(self, mode="", *args, **env):
        self.dir = tempfile.mkdtemp(prefix="cbxd")
        self.socket = os.path.join(self.dir, "run", "control.sock")
        libexec, image = os.path.join(self.dir, "libexec"), os.path.join(self.dir, "data", "images", "python")
        os.makedirs(libexec)
        os.makedirs(os.path.join(image, "rootfs"))
        shutil.copy(os.path.join(HERE, "fake_supervisor.py"), os.path.join(libexec, "codebox-supervisor"))
        manifest = {"format": 1, "name": "python", "kind": "host", "created": "2026-01-01T00:00:00Z",
                    "digest": "sha256:" + "0" * 64, "files": 1, "bytes": 1, "architecture": "amd64",
                    "layers": [{"source": "rootfs", "target": "/"}],
                    "interpreters": {"python": {"argv": image_python()}}, "environment": {"FROM_IMAGE": "yes"}}
        with open(os.path.join(image, "manifest.json"), "w") as f:
            json.dump(manifest, f)
        for top, dirs, files in os.walk(self.dir):
            for name in dirs + ["."]:
                os.chmod(os.path.join(top, name), 0o755)
            for name in files:
                os.chmod(os.path.join(top, name), 0o755)
        self.env = dict(os.environ, CODEBOX_RUNTIME_DIR=os.path.join(self.dir, "run"),
                        CODEBOX_DATA_DIR=os.path.join(self.dir, "data"), CODEBOX_STATE_DIR=self.dir,
                        CODEBOX_LIBEXEC_DIR=libexec, FAKE_RUNTIMES=RUNTIMES, FAKE_MODE=mode, TMPDIR="/tmp")
        self.env.pop("LISTEN_FDS", None)
        self.env.update(env)
        self.log = os.path.join(self.dir, "log")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([DAEMON, "--foreground", *args], env=self.env, stderr=log)
        running.append(self)
        assert wait_until(lambda: os.path.exists(self.socket) or self.process.poll() is not None), "no socket"

    def client(self):
        made = []

        def connected():
            try:
                made.append(Client(self.socket))
            except OSError:
                pass
            return made

        assert wait_until(connected), self.text()
        return made[0]

    def text(self):
        with open(self.log, errors="replace") as f:
            return f.read()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(120)
        shutil.rmtree(self.dir, ignore_errors=True)
        running.remove(self)
        return code


shared = []


def client():
    """A client of a daemon that most tests share."""
    if not shared:
        shared.append(Daemon())
    return shared[0].client()


def session(c):
    return c.call("session.create")["session_id"]


def end_shared():
    """A failed test may have left anything in the daemon that most share: the next gets a new one."""
    for daemon in shared:
        daemon.stop()
    shared.clear()


def main(namespace):
    try:
        run(namespace, after_failure=end_shared)
    finally:
        for daemon in list(running):
            daemon.stop()
