# SPDX-License-Identifier: Apache-2.0
"""What the client tests share: TAP output, a raw JSON-RPC client, a PNG reader.

The program under test is $CODEBOX (else "codebox" on the path); every CODEBOX_* variable is passed on to it, because
MCP clients give a server hardly any of their environment.
"""
import atexit
import json
import os
import queue
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import traceback
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
CODEBOX = os.environ.get("CODEBOX") or shutil.which("codebox")


def own_daemon():
    """A run-time directory, and so a codeboxd, of this script alone: another build's may be running."""
    if "CODEBOX_RUNTIME_DIR" not in os.environ:
        path = tempfile.mkdtemp(prefix="cbx")
        os.environ.update(CODEBOX_RUNTIME_DIR=f"{path}/run", CODEBOX_STATE_DIR=f"{path}/state",
                          CODEBOX_TESTS_OWN=f"{os.getpid()}:{path}")
    pid, _, path = os.environ.get("CODEBOX_TESTS_OWN", "").partition(":")
    if pid == str(os.getpid()):  # the same process still, after it continued in a virtual environment
        atexit.register(end_daemon, path)


def end_daemon(path):
    if CODEBOX:
        subprocess.run([CODEBOX, "stop"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    shutil.rmtree(path, ignore_errors=True)


own_daemon()
SERVER_ENV = {k: v for k, v in os.environ.items() if k.startswith("CODEBOX")}
PATIENCE = 180  # seconds until an answer that does not come is a failure; nothing depends on how fast it comes
REPLY_MAX = 900 * 1024


def skip_all(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def corpus(name):
    """A file of the corpus: $CODEBOX_CORPUS, or beside the source directory; None when it is not there."""
    base = os.environ.get("CODEBOX_CORPUS")
    path = (Path(base) if base else HERE.parents[2] / "shared" / "corpus") / name
    return path if path.is_file() else None


def setup(kind):
    """The cache directory that setup.sh fills; the whole script is skipped when it cannot."""
    r = subprocess.run([str(HERE / "setup.sh"), kind], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if r.returncode == 77:
        skip_all(r.stderr.strip().splitlines()[-1])
    if r.returncode:
        print(f"Bail out! setup.sh: {r.stderr.strip()}")
        sys.exit(1)
    return r.stdout.strip()


def enter_venv(kind="python"):
    """Go on under the interpreter that has the client library."""
    if os.environ.get("CODEBOX_TESTS_IN_VENV"):
        return
    python = os.path.join(setup(kind), "bin", "python3")
    env = dict(os.environ, CODEBOX_TESTS_IN_VENV="1", PYTHONDONTWRITEBYTECODE="1")
    os.execve(python, [python, "-u", *sys.argv], env)


def need_codebox():
    if not CODEBOX:
        skip_all("CODEBOX does not name the program, and there is no codebox on the path")
    with Raw() as raw:
        raw.initialize()
        result = raw.call("run_code", {"code": "1+1"})["result"]
    text = result["content"][0]["text"]
    if result["isError"] and "image" in text and not os.environ.get("CODEBOX_TESTS_REQUIRE_IMAGE"):
        skip_all(f"no cell can run here: {text}")


class Tap:
    def __init__(self):
        self.n = 0
        self.failed = 0

    def ok(self, passed, name, detail=""):
        self.n += 1
        self.failed += not passed
        print(f"{'ok' if passed else 'not ok'} {self.n} - {name}", flush=True)
        if not passed and detail != "":
            for line in str(detail)[:4000].splitlines():
                print(f"#   {line}", flush=True)
        return passed

    def equal(self, got, want, name):
        return self.ok(got == want, name, f"got {got!r}, want {want!r}")

    def skip(self, name, why):
        self.n += 1
        print(f"ok {self.n} - {name} # SKIP {why}", flush=True)

    def run(self, title, function, *args):
        """Run a group of checks; an exception in it is one failure, and the next group runs."""
        print(f"# {title}", flush=True)
        try:
            function(*args)
        except Exception:
            self.ok(False, title, traceback.format_exc())

    async def run_async(self, title, function, *args):
        print(f"# {title}", flush=True)
        try:
            await function(*args)
        except Exception:
            self.ok(False, title, traceback.format_exc())

    def done(self):
        print(f"1..{self.n}", flush=True)
        sys.exit(1 if self.failed else 0)


class Raw:
    """One `codebox mcp` process and its lines, with no library in between."""

    def __init__(self):
        env = {k: os.environ[k] for k in ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER") if k in os.environ}
        self.process = subprocess.Popen([CODEBOX, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env={**env, **SERVER_ENV})
        self.lines = queue.Queue()
        self.other = []  # messages that nobody has waited for
        self.longest = 0
        self.next_id = 0
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.longest = max(self.longest, len(line))
            self.lines.put(line)
        self.lines.put(None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if not self.process.stdin.closed:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass
        try:
            return self.process.wait(PATIENCE)
        finally:
            self.process.kill()

    def answer(self):
        """The next message that is not a notification."""
        while True:
            message = self.next()
            if not (isinstance(message, dict) and "method" in message):
                return message

    def send_text(self, text):
        data = text if isinstance(text, bytes) else text.encode()
        self.process.stdin.write(data + b"\n")
        self.process.stdin.flush()

    def send(self, message):
        self.send_text(json.dumps({"jsonrpc": "2.0", **message}))

    def request(self, method, params=None):
        self.next_id += 1
        self.send({"id": self.next_id, "method": method, **({} if params is None else {"params": params})})
        return self.next_id

    def notify(self, method, params=None):
        self.send({"method": method, **({} if params is None else {"params": params})})

    def next_line(self):
        line = self.lines.get(timeout=PATIENCE)
        if line is None:
            raise EOFError("codebox mcp has closed its output")
        return line

    def next(self):
        return json.loads(self.next_line().decode("utf-8", "strict"))

    def wait(self, ident):
        """The answer to a request; what comes before it is kept in `other`."""
        for message in self.other:
            if "method" not in message and message.get("id") == ident:
                self.other.remove(message)
                return message
        while True:
            message = self.next()
            if isinstance(message, dict) and "method" not in message and message.get("id") == ident:
                return message
            self.other.append(message)

    def ask(self, method, params=None):
        return self.wait(self.request(method, params))

    def call(self, tool, arguments):
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def run(self, code, **arguments):
        return self.call("run_code", {"code": code, **arguments})["result"]

    def initialize(self, version="2025-11-25"):
        answer = self.ask("initialize", {"protocolVersion": version, "capabilities": {},
                                         "clientInfo": {"name": "raw", "version": "0"}})
        self.notify("notifications/initialized")
        return answer


def text_of(result):
    return result["content"][0]["text"]


def png_facts(data):
    """(width, height, distinct pixel rows) of a PNG, all of it checked and unpacked; ValueError when damaged."""
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        raise ValueError("no PNG signature")
    at, pixels, header, ended = 8, b"", None, False
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        (crc,) = struct.unpack(">I", data[at + 8 + length:at + 12 + length])
        if zlib.crc32(kind + body) != crc:
            raise ValueError(f"bad checksum of {kind}")
        if kind == b"IHDR":
            header = struct.unpack(">IIBBBBB", body)
        elif kind == b"IDAT":
            pixels += body
        elif kind == b"IEND":
            ended = True
        at += 12 + length
    if not header or not ended:
        raise ValueError("not complete")
    width, height, depth, colour = header[:4]
    stride = 1 + (width * depth * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour] + 7) // 8
    raw = zlib.decompress(pixels)
    if len(raw) != stride * height:
        raise ValueError(f"{len(raw)} bytes of pixels, not {stride * height}")
    return width, height, len({raw[i:i + stride] for i in range(0, len(raw), stride)})
