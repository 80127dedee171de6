# SPDX-License-Identifier: Apache-2.0
"""Runs the Python driver without a sandbox, and speaks to it as codeboxd does.

When the frames' pipe has something, the two others are read empty before it is read: what was printed before the frame
is then known, and the driver lets nothing be printed after it until the frame has been taken. So a cell's events are in
the order of the program.
"""
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
DRIVER = os.environ.get("CODEBOX_TEST_DRIVER") or os.path.join(
    os.path.dirname(os.path.dirname(HERE)), "src", "runtimes", "python", "driver.py")
PATIENCE = 600  # seconds until a test that hangs is given up


class Gone(Exception):
    """The interpreter has ended."""


class Cell:
    """What came of one cell. events: ("stdout"|"stderr", text) and ("display"|"result"|…, frame), in order."""

    def __init__(self):
        self.events = []
        self.done = None

    def add(self, kind, value):
        if kind not in ("stdout", "stderr"):
            self.events.append((kind, value))
        elif self.events and self.events[-1][0] == kind:
            self.events[-1][1].extend(value)
        else:
            self.events.append((kind, bytearray(value)))

    def all(self, kind):
        return [value for k, value in self.events if k == kind]

    @property
    def stdout(self):
        return b"".join(self.all("stdout")).decode()

    @property
    def stderr(self):
        return b"".join(self.all("stderr")).decode()

    @property
    def status(self):
        return self.done["status"]

    @property
    def error(self):
        errors = self.all("error")
        assert errors, "no error frame in %r" % (self.events,)
        return errors[0]

    @property
    def result(self):
        results = self.all("result")
        assert len(results) == 1, "results: %r" % (self.events,)
        return results[0]["data"]

    @property
    def order(self):
        """The events as short texts: o:text, e:text, or the frame's kind."""
        short = {"stdout": "o:", "stderr": "e:"}
        return [short[k] + v.decode().strip() if k in short else k for k, v in self.events]


class Interpreter:
    def __init__(self, python, plain=False, home=None, env=None):
        self.home = home or tempfile.mkdtemp(prefix="driver-test-")
        self.own_home = home is None
        self.workspace = os.path.join(self.home, "workspace")
        os.makedirs(self.workspace, exist_ok=True)
        theirs_r, ours_w = os.pipe()
        ours_r, theirs_w = os.pipe()
        out_r, out_w = os.pipe()
        err_r, err_w = os.pipe()
        environ = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": self.home, "LANG": "C.UTF-8",
                   "CODEBOX_FD": "%d,%d" % (theirs_r, theirs_w)}
        environ.update(env or {})
        if plain:
            environ["CODEBOX_DRIVER_PLAIN"] = "1"
        self.process = subprocess.Popen([*python, DRIVER], stdin=subprocess.DEVNULL, stdout=out_w, stderr=err_w,
                                        cwd=self.workspace, env=environ, pass_fds=[theirs_r, theirs_w],
                                        start_new_session=True)
        os.close(theirs_r)
        os.close(theirs_w)
        os.close(out_w)
        os.close(err_w)
        self.frames, self.to = ours_r, ours_w
        self.pipes = {out_r: "stdout", err_r: "stderr"}
        for fd in (out_r, err_r, ours_r):
            os.set_blocking(fd, False)
        self.poll = select.poll()
        for fd in (out_r, err_r, ours_r):
            self.poll.register(fd, select.POLLIN)
        self.buffer = bytearray()
        self.id = 0
        self.stray = Cell()
        self.ready = self._until(self.stray, "ready")

    # Frames

    def send(self, **message):
        data = json.dumps(message).encode()
        view = memoryview(len(data).to_bytes(4, "little") + data)
        while view:
            view = view[os.write(self.to, view):]

    def _drain(self, cell, fd=None):
        for pipe in [fd] if fd else list(self.pipes):
            while True:
                try:
                    data = os.read(pipe, 1 << 20)
                except BlockingIOError:
                    break
                if not data:
                    if pipe in self.pipes:
                        self.poll.unregister(pipe)
                        del self.pipes[pipe]
                        os.close(pipe)
                    break
                cell.add(self.pipes[pipe], data)

    def _frames(self):
        data = os.read(self.frames, 1 << 20)
        if not data:
            raise Gone(self.process.wait(PATIENCE))
        self.buffer += data
        while len(self.buffer) >= 4:
            size = int.from_bytes(self.buffer[:4], "little")
            assert size <= 12 << 20, "a frame of %d bytes" % size
            if len(self.buffer) < 4 + size:
                return
            text = bytes(self.buffer[4:4 + size]).decode("utf-8")
            del self.buffer[:4 + size]
            assert "\\u0000" not in text and "\0" not in text
            yield json.loads(text, parse_constant=lambda c: 1 / 0)

    def _until(self, cell, kind, during=None):
        end = time.monotonic() + PATIENCE
        while True:
            left = end - time.monotonic()
            assert left > 0, "no %s within %d s; so far %r" % (kind, PATIENCE, cell.events[-5:])
            ready = [fd for fd, _ in self.poll.poll(min(left, 0.05 if during else left) * 1000)]
            for fd in ready:
                if fd in self.pipes:
                    self._drain(cell, fd)
            if during:
                during(cell)
            if self.frames not in ready:
                continue
            found = None
            self._drain(cell)
            for frame in self._frames():
                if frame["ev"] == kind:
                    found = frame
                else:
                    cell.add(frame["ev"], frame)
            if found:
                return found

    # What tests use

    def run(self, code, silent=False, during=None, **more):
        self.id += 1
        cell = Cell()
        self.send(op="run", id=self.id, code=code, silent=silent, **more)
        try:
            cell.done = self._until(cell, "done", during)
        except Gone as gone:
            self._drain(cell)
            gone.cell = cell
            raise
        assert cell.done["id"] == self.id
        for kind, value in cell.events:
            assert not isinstance(value, dict) or value["id"] == self.id, value
        return cell

    def _activity(self):
        """The main thread's state, how often it has waited for something, and its ticks on a processor."""
        with open("/proc/%d/stat" % self.process.pid) as f:
            state = f.read().rpartition(")")[2].split()
        with open("/proc/%d/status" % self.process.pid) as f:
            waits = [line for line in f if line.startswith("voluntary_ctxt_switches")]
        return state[0], waits, int(state[11]) + int(state[12])

    def interrupt_when(self, text, code):
        """Run code; SIGINT when text (bytes) has been printed, and the statement after it has begun: the interpreter
        waits for something, and did before, or it has computed for much longer than it takes to come there."""
        seen, sent = [], []

        def during(cell):
            if sent or not any(text in value for value in cell.all("stdout")):
                return
            seen.append(self._activity())
            now, last = seen[-1], seen[-2:][0]
            if len(seen) > 1 and now[0] == last[0] == "S" and now[1] == last[1] or now[2] - seen[0][2] >= 10:
                sent.append(True)
                os.killpg(self.process.pid, signal.SIGINT)

        return self.run(code, during=during)

    def ask(self, op, **message):
        self.id += 1
        self.send(op=op, id=self.id, **message)
        answer = self._until(Cell(), op)
        assert answer["id"] == self.id
        return answer

    def close(self):
        os.close(self.to)
        os.close(self.frames)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for fd in self.pipes:
            os.close(fd)
        self.pipes = {}
        if self.own_home:
            shutil.rmtree(self.home, ignore_errors=True)
