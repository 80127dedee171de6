# SPDX-License-Identifier: Apache-2.0
"""The Python interpreter of a codebox session.

Theory of operation
-------------------
codeboxd starts this file with any Python from 3.8 on, and speaks frames with it (src/interp/interpreter-protocol.h)
on the two descriptors that CODEBOX_FD names. Standard output and error are pipes. The files beside this one are its parts:

    streams.py        sys.stdout and sys.stderr, and the order between them
    hooks.py          what is adjusted when a module is imported: ctypes, getpass, matplotlib
    bundles.py        MIME bundles made fit for a frame
    shell_ipython.py  cells run by IPython, where the image has it
    quick.py          what IPython does in every cell, with less work
    shell_plain.py    cells run by a small shell of our own, where it has not
    eventloop.py      asyncio in cells and between them
    packages.py       packages that are installed while the session runs
    complete.py       what that shell says when it is asked to complete code
    judge.py          the policy's rules for code (loaded with the first cell that has any)
    program.py        a file, run as the interpreter runs one (loaded with the first one)
    tracebacks.py     exceptions as text (loaded with the first one)
    figures.py        matplotlib figures (loaded with matplotlib)
    smaller.py        copies of large images (loaded with the first one)
    zygote.py         a driver that has loaded everything before its session is there

They are compiled from source at each start, because nothing may be written beside them; so they are loaded when they
are needed, and are found by path, never through sys.path or sys.modules, where user code could see or shadow them.

User code shares this process and can break anything in it on purpose; codeboxd takes every frame as hostile. What is
guarded against here is breaking it by accident: closed or replaced streams, signal handlers left behind, forks,
threads, interrupts at the wrong moment, patched or removed modules. Hence private references to what is used.

An interrupt may only hit user code. The handler raises KeyboardInterrupt while `Interrupts.armed` is true, and never
while a frame is being written.
"""
import gc

gc.disable()  # nothing that start-up allocates is garbage; main() turns it on again

import sys

sys.dont_write_bytecode = True

import _signal
import _thread
import builtins
import os
import time
from atexit import _ncallbacks as _count_handlers
from types import ModuleType

try:
    from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage as _getrusage
except ImportError:  # an image may lack it; then a cell's use is not reported
    _getrusage = None

__builtins__ = vars(builtins).copy()  # the driver's own: user code may replace open() and the like
_settrace, _get_depth, _set_depth = sys.settrace, sys.getrecursionlimit, sys.setrecursionlimit

DIRECTORY = os.path.dirname(os.path.abspath(__file__))
PROTOCOL_FD_MIN = 200  # out of the way of programs that close or count on low descriptors
FRAME_MAX = 12 << 20   # codeboxd kills an interpreter that sends more
INSPECT_MAX = 100000  # characters of what is said of a name; codeboxd keeps less
READ_MAX = 8192    # codeboxd's pipe holds no more
WRITE_SAFE = 4096  # so much goes into a pipe in one piece; a signal handler that raises could cut a longer write
WARM_UP_AFTER = 0.05   # seconds without a request, when there is to be one
INTERRUPT_GAP = 0.05   # seconds; a second SIGINT within it is the same interrupt


class Interrupts:
    """SIGINT, and the other signal handlers of user code.

    armed: user code is running. held: a critical section (sending) is; an interrupt is then delivered at its end.
    background: None, or tells, while tasks run between cells, that a cell waits for them. due: it is interrupted already.
    """

    def __init__(self):
        self.armed = False
        self.background = None
        self.due = False
        self.held = 0
        self.pending = False
        self.last = 0.0
        self.parked = []
        self.main = _thread.get_ident()
        self._now = time.monotonic
        self._get, self._set = _signal.getsignal, _signal.signal
        self._mask, self._unblock = _signal.pthread_sigmask, _signal.SIG_UNBLOCK
        self._all = _signal.valid_signals()  # the C library keeps 32 and 33: to name them is a warning, or an error
        self._int = _signal.SIGINT
        self._others = [signum for signum in range(1, 32) if signum != self._int]
        self._usual = None  # their handlers, when none of them is user code's
        self.handler = self.on_signal  # one object, to be known again
        self._set(self._int, self.handler)

    def on_signal(self, signum, frame):
        if not self.armed and not (self.background and self.background()):
            return
        if self.held:
            self.pending = True
            return
        now = self._now()
        if now - self.last < INTERRUPT_GAP:
            return
        self.last = now
        raise KeyboardInterrupt

    def is_main(self):
        return _thread.get_ident() == self.main

    def hold(self):
        if self.is_main():
            self.held += 1

    def release(self):
        if not self.is_main():
            return
        self.held -= 1
        if self.pending and not self.held:
            self.pending = False
            self.on_signal(self._int, None)

    def block_all(self):
        return self._mask(_signal.SIG_SETMASK, self._all)

    def unblock(self, mask):
        self._mask(_signal.SIG_SETMASK, mask)

    def begin(self):
        """A cell is about to run: give it back the handlers it had, except one for SIGINT."""
        for signum, handler in self.parked:
            self._set(signum, handler)
        self.parked = []
        if self._get(self._int) is not self.handler:
            self._set(self._int, self.handler)
        self._mask(self._unblock, {self._int})
        self.pending = False
        self.held = 0
        self.last = 0.0

    def end(self):
        """No cell runs: a handler of user code (an alarm left behind) must not raise in the driver."""
        handlers = list(map(self._get, self._others))
        if handlers == self._usual:
            return
        for signum, handler in zip(self._others, handlers):
            if handler is not None and callable(handler):
                self.parked.append((signum, handler))
                self._set(signum, self.ignore)
        if not self.parked:
            self._usual = handlers

    @staticmethod
    def ignore(signum, frame):
        pass


class TooLong(Exception):
    pass


def used():
    """What this process and its ended children have used so far."""
    return _getrusage(RUSAGE_SELF), _getrusage(RUSAGE_CHILDREN)


def used_since(before):
    """Microseconds of CPU, bytes read and written, peak memory. The first fields are times, 9 and 10 are blocks."""
    own, children = used()
    own0, children0 = before
    cpu = own[0] + own[1] + children[0] + children[1] - own0[0] - own0[1] - children0[0] - children0[1]
    read, written = own[9] + children[9] - own0[9] - children0[9], own[10] + children[10] - own0[10] - children0[10]
    return {"cpu_us": max(0, int(cpu * 1e6)), "read": max(0, read * 512), "written": max(0, written * 512),
            "peak": max(own[2], children[2]) * 1024}


def make_encoder():
    """JSON as text. Python's own encoder makes its C part anew for each text, which takes longer than a short frame."""
    from json import JSONEncoder, encoder
    python = JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))
    try:
        pieces = encoder.c_make_encoder(None, python.default, encoder.encode_basestring, None, ":", ",", False, False, False)
        if "".join(pieces({"a": [1]}, 0)) == '{"a":[1]}':
            return lambda frame: "".join(pieces(frame, 0))
    except (AttributeError, TypeError):
        pass  # another Python than CPython
    return python.encode


class Channel:
    """Frames: a 32-bit little-endian length, then JSON in UTF-8."""

    def __init__(self, interrupts):
        from json import JSONDecoder

        import select

        self.fd = self.out = -1  # frames to this driver, and from it
        self._poll, self._readable = select.poll, select.POLLIN
        self.interrupts = interrupts
        self.buffer = bytearray()
        self.lock = _thread.RLock()
        self.child = False  # after a fork: this process has no say any more
        self.quiet = False  # nothing is sent: no cell has run, and none runs
        self._encode = make_encoder()
        self._decode = JSONDecoder().scan_once
        self._read, self._write = os.read, os.write
        self.leave, self._sleep = os._exit, time.sleep
        os.register_at_fork(after_in_child=self._forked)

    def open(self, fds):
        import fcntl
        self.child = False
        try:
            self.fd, self.out = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, PROTOCOL_FD_MIN) for fd in fds]
        except OSError:
            self.fd, self.out = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, max(fds) + 1) for fd in fds]
        for fd in fds:
            os.close(fd)
        poll = self._poll()
        poll.register(self.fd, self._readable)
        self._ready = poll.poll

    def _forked(self):
        self.child = True
        self.lock = _thread.RLock()
        self.interrupts.main = _thread.get_ident()
        self.interrupts.held = 0
        self.close()

    def close(self):
        for fd in self.fd, self.out:
            try:
                if fd >= 0:
                    os.close(fd)
            except OSError:
                pass
        self.fd = self.out = -1

    def encode(self, frame):
        data = self._encode(frame).encode("utf-8", "replace")
        if len(data) > FRAME_MAX:
            raise TooLong
        return len(data).to_bytes(4, "little") + data

    def send(self, frame):
        self.send_bytes(self.encode(frame))

    def send_bytes(self, data):
        if self.child:
            return
        mask = None
        self.interrupts.hold()
        try:
            if len(data) > WRITE_SAFE:
                mask = self.interrupts.block_all()
            with self.lock:
                self._write_all(memoryview(b"" if self.quiet else data))
        finally:
            if mask is not None:
                self.interrupts.unblock(mask)
            self.interrupts.release()

    def _write_all(self, view):
        while view:
            try:
                view = view[self._write(self.out, view):]
            except BlockingIOError:
                self._sleep(0.001)
            except OSError:
                self.leave(1)  # codeboxd has gone, or user code closed the pipe

    def _fill(self, n):
        while len(self.buffer) < n:
            try:
                chunk = self._read(self.fd, READ_MAX)
            except BlockingIOError:
                self._sleep(0.001)
                continue
            if not chunk:
                self.leave(0)
            self.buffer += chunk

    def receive(self):
        try:
            self._fill(4)
            size = int.from_bytes(self.buffer[:4], "little")
            self._fill(4 + size)
            data = bytes(self.buffer[4:4 + size])
            del self.buffer[:4 + size]
            return self._decode(data.decode("utf-8", "replace"), 0)[0]
        except OSError:
            self.leave(1)

    def waiting(self, seconds=0):
        """True when a frame, or a part of one, is there to be read, or comes in this time."""
        return bool(self.buffer or self._ready(seconds * 1000))


class Workspace:
    """Whether there is anything in the workspace. Where there is nothing, codeboxd need not look for what changed.

    It is a tmpfs, whose empty directories have a size of their own: one system call tells.
    """

    PATH = "/workspace"

    def __init__(self):
        self._stat = os.stat
        self.empty = None
        try:
            st = self._stat(self.PATH)
            if st.st_nlink == 2 and not os.listdir(self.PATH):
                self.empty = (st.st_dev, st.st_ino, 2, st.st_size)
        except OSError:
            pass  # there is no such directory: this is not a sandbox

    def is_empty(self):
        try:
            st = self._stat(self.PATH)
        except OSError:
            return False
        return (st.st_dev, st.st_ino, st.st_nlink, st.st_size) == self.empty


class Driver:
    """What the parts share."""

    def __init__(self):
        self.directory = DIRECTORY
        self.parts = {}
        self.cell = 0            # id of the running cell, or of the last one
        self.errors = 0          # error frames of the running cell
        self.ended = True        # its "done" has been sent
        self.interrupts = Interrupts()
        self.channel = Channel(self.interrupts)
        self.streams = self.part("streams").Streams()
        self.bundles = self.part("bundles")
        self.events = self.part("eventloop").EventLoop(self)
        self.hooks = self.part("hooks").install(self)
        self.shell = None
        self.held = b""          # a frame that goes with the next one
        self.wanted = False      # somebody waits for the session, and will soon have something to run
        self.workspace = None
        self.packages = self.part("packages").UserSite()
        self.handlers = 0        # exit handlers that were there before any cell

    def begin(self, fds, settle=None):
        """From here on there is somebody to talk to."""
        self.channel.open(fds)
        self.streams.keep_input()
        self.streams.watch(self.channel.out, self.send_held)
        self.workspace = Workspace()
        if settle:
            settle(self)
            self.hooks.link_font_cache()
        self.packages.begin()
        gc.enable()
        self.handlers = _count_handlers()
        self.send({"ev": "ready", "language": "python", "version": sys.version.split()[0], "kind": self.shell.kind})

    def part(self, name):
        """Load a file of the driver. It does not appear in sys.modules."""
        module = self.parts.get(name)
        if module is None:
            path = self.directory + "/" + name + ".py"
            module = ModuleType("codebox_" + name)
            module.__file__ = path
            module.__builtins__ = __builtins__
            module.part = self.part
            with open(path, encoding="utf-8") as f:
                code = compile(f.read(), path, "exec", dont_inherit=True)
            exec(code, module.__dict__)
            self.parts[name] = module
        return module

    def send(self, frame, wait=False):
        """wait: the cell may print next, perhaps from C code, and that must not overtake the frame."""
        data = self.channel.encode(frame)
        self.streams.flush()
        held, self.held = self.held, b""
        self.channel.send_bytes(held + data)
        self.streams.frame_sent(wait)

    def hold(self, frame):
        """Send a frame after which the cell does nothing more that could be seen: with the next frame, which is about
        to come, or before anything is printed after all."""
        data = self.channel.encode(frame)
        self.send_held()
        self.streams.flush()
        self.held = data
        self.streams.frame_waits = True

    def send_held(self):
        data, self.held = self.held, b""
        if data:
            self.channel.send_bytes(data)

    def display(self, data, metadata=None, transient=None, update=False):
        if self.channel.child or self.ended:  # of a task or a thread, between cells: the next one's answer has it as text
            self.streams.say(data.get("text/plain", ""))
            return
        metadata = dict(metadata or ())
        if transient and "display_id" in transient:
            metadata["display_id"] = str(transient["display_id"])
        if update:
            metadata["update"] = True
        self._show({"ev": "display", "id": self.cell}, data, metadata)

    def result(self, count, data, metadata=None, last=False):
        """last: it is the value of the cell's last statement, which ends with showing it."""
        if self.channel.child:
            self.streams.say(data.get("text/plain", ""))
            return
        self._show({"ev": "result", "id": self.cell, "count": count}, data, metadata, last)

    def _show(self, frame, data, metadata, last=False):
        if self.bundles.has_large_image(data):
            data = self.part("smaller").add(data)
        frame["data"], frame["metadata"] = self.bundles.prepare(data, metadata)
        for _ in range(2):
            try:
                if last:
                    self.hold(frame)
                else:
                    self.send(frame, True)
                return
            except TooLong:  # short enough in itself, but not with what JSON must escape
                frame["data"] = self.bundles.note(frame["data"])

    def clear(self, wait):
        self.send({"ev": "clear", "id": self.cell, "wait": bool(wait)}, True)

    def ask(self, prompt, password):
        if self.channel.child:
            raise EOFError("a forked process cannot ask")
        self.send({"ev": "ask", "id": self.cell, "prompt": self.bundles.safe_str(prompt), "password": bool(password)})

    def error(self, value, tb=None, text=None):
        """Report an exception; text replaces the traceback."""
        try:
            name, message, trace = self.part("tracebacks").describe(self, value, tb, text)
        except KeyboardInterrupt:
            raise
        except BaseException as e:  # no memory, stack or descriptor left: at least its name, and if possible its text
            name, message = type(value).__name__, ""
            try:
                message = str(value)[:1000]
            except BaseException:
                pass
            trace = "%s (its traceback could not be made: %s)" % (name, type(e).__name__)
        self.errors += 1
        if self.channel.child:
            self.streams.say(trace, error=True)
            return
        self.send({"ev": "error", "id": self.cell, "name": name, "value": message, "traceback": trace})

    def left_something(self):
        """Threads, or exit handlers: what was there before any cell is not worth the time that it takes at the end."""
        threading = sys.modules.get("threading")
        return _count_handlers() != self.handlers or threading and threading.active_count() > 1

    def exit_code(self, value):
        """What the interpreter would do with SystemExit(value.code)."""
        code = value.code
        if code is None:
            return 0
        if isinstance(code, int):
            return code & 0xff
        self.streams.say(self.bundles.safe_str(code), error=True)
        return 1

    def run(self, message):
        cell = self.cell = message["id"]
        self.errors = 0
        self.ended = False
        if "rules" in message and self.refuses(message):
            return
        interrupts = self.interrupts
        value = None
        self.streams.begin()
        self.streams.give_input(bool(message.get("input")))
        self.streams.let_ask(self.ask if message.get("asks") else None)
        if "argv" in message:
            sys.argv = list(message["argv"])
        before = _getrusage and used()
        if _get_depth() < 200:
            _set_depth(1000)
        count = self.shell.count()
        interrupts.begin()
        try:
            try:
                interrupts.armed = not self.channel.quiet
                if interrupts.due:
                    interrupts.due = False
                    raise KeyboardInterrupt
                if "file" in message:
                    value = self.part("program").run(self, message)
                else:
                    value = self.shell.run(message["code"], bool(message.get("silent")))
                if message.get("last") and self.left_something():
                    try:
                        self.part("program").finish(self)
                    except BaseException as e:  # an interrupt, above all
                        value = value or e
                note = self.packages.note()
                if note:
                    self.streams.say(note)
                self.streams.flush_replaced()
            finally:
                interrupts.armed = False
        except BaseException as e:  # an interrupt in the shell's own code, or a fault of the shell
            interrupts.armed = False
            value = e
            if not isinstance(e, SystemExit):
                self.error(e)
        interrupts.end()
        self.streams.give_input(False)
        self.streams.let_ask(None)
        _settrace(None)
        done = {"ev": "done", "id": cell, "status": "ok", "count": count}
        if isinstance(value, SystemExit):
            done["status"] = "exit"
            done["exit_code"] = self.exit_code(value)
        elif isinstance(value, KeyboardInterrupt):
            done["status"] = "interrupted"
        elif value is not None:  # an error that was only shown is none of the cell's
            done["status"] = "error"
        if value is not None and not self.errors and done["status"] != "exit":
            self.error(value)
        if before:
            done["usage"] = used_since(before)
        if self.channel.child:  # user code forked and came back: there is one interpreter only
            self.streams.flush()
            self.channel.leave(done.get("exit_code", 0 if done["status"] == "ok" else 1))
        if isinstance(value, MemoryError):
            value.__traceback__ = None  # its frames hold what used up the memory
        if self.workspace.is_empty():
            done["workspace"] = "empty"
        self.send(done)
        self.ended = True

    def refuses(self, message):
        """True: rules for code do not let the cell run, and it has ended."""
        cell, why = message["id"], self.part("judge").judge(self.shell, message)
        self.send({"ev": "judged", "id": cell, "refused": why is not None})
        if why:
            self.send({"ev": "error", "id": cell, "name": "CodeRefused", "value": why[0], "traceback": why[1]})
            self.send({"ev": "done", "id": cell, "status": "error"})
            self.ended = True
        return self.ended

    def answer(self, message):
        op = message["op"]
        nothing = {"status": "invalid", "indent": ""} if op == "is_complete" else {"packages": []} if op == "stale" else \
            {"text": ""} if op == "inspect" else {"matches": [], "start": message["cursor"], "end": message["cursor"]}
        try:
            if op == "is_complete":
                status, indent = self.shell.is_complete(message["code"])
                reply = {"status": status, "indent": indent}
            elif op == "stale":
                self.packages.installed_since()
                reply = {"packages": [{"name": name, "version": old} for name, old, new in self.packages.stale()]}
            elif op == "inspect":
                text = self.shell.inspect(message["code"], message["cursor"])
                reply = {"text": self.bundles.text(text)[:INSPECT_MAX]}
            else:
                matches, start, end = self.shell.complete(message["code"], message["cursor"])
                reply = {"matches": [self.bundles.text(m) for m in matches[:500]], "start": start, "end": end}
            self.send({"ev": op, "id": message["id"], **reply})
        except BaseException:  # completion looks into user objects, which may raise anything, and have any number of names
            self.send({"ev": op, "id": message["id"], **nothing})

    def warm_up(self):
        """While nobody wants anything: what the first cell needs, but start-up should not wait for. In the fork of a
        warm interpreter that is, above all, memory of its own for what a cell touches."""
        self.hooks.warm_up()
        if self.cell:
            return  # a cell has run: it is warm, or broken
        self.channel.quiet = True
        try:
            self.shell.warm_up(self.rehearse)
        except Exception:  # it is of use to the first cell only, and that will say what is wrong
            self.channel.buffer.clear()
        finally:
            self.held = b""
            self.cell = 0
            self.channel.quiet = False

    def rehearse(self, code):
        """All that happens with a cell, from the bytes of its frame to those of the answers, which are not sent."""
        self.channel.buffer += self.channel.encode({"op": "run", "id": 1, "code": code, "silent": False})
        self.run(self.channel.receive())

    def serve(self):
        warm = False
        while True:
            try:
                if not warm and not self.channel.waiting(WARM_UP_AFTER if self.wanted else 0):
                    warm = True
                    self.warm_up()
                if self.events.loop is not None:
                    self.events.wait()
                message = self.channel.receive()
            except KeyboardInterrupt:
                continue  # of a handler of user code; ours does not raise here
            try:
                if message["op"] == "run":
                    self.run(message)
                elif message["op"] in ("is_complete", "complete", "inspect", "stale"):
                    self.answer(message)
                elif message["op"] == "session":
                    os.environ.update(message["environment"])
            except BaseException as e:  # user code broke something that the driver needs; the cell must end still
                if message["op"] == "run" and not self.ended:
                    self.emergency(message["id"], e)

    def emergency(self, cell, fault):
        """End a cell with as little as possible. What is in the pipes is there already."""
        self.interrupts.armed = False
        if self.channel.child:
            self.channel.leave(1)
        text = "The interpreter's driver failed after the cell: %s" % type(fault).__name__
        self.channel.send({"ev": "error", "id": cell, "name": type(fault).__name__, "value": text, "traceback": text})
        self.channel.send({"ev": "done", "id": cell, "status": "error", "count": 0})


def make_shell(driver):
    if not os.environ.pop("CODEBOX_DRIVER_PLAIN", ""):
        try:
            return driver.part("shell_ipython").make(driver)
        except ImportError:
            pass
    return driver.part("shell_plain").make(driver)


def prepare(driver):
    """All that can be done before there is a session."""
    driver.hooks.link_font_cache()
    driver.shell = make_shell(driver)
    import faulthandler
    faulthandler.enable()  # a crash in C leaves a Python traceback on standard error
    gc.freeze()


def main():
    if sys.path and os.path.abspath(sys.path[0] or ".") == DIRECTORY:
        del sys.path[0]
    if "" not in sys.path:
        sys.path.insert(0, "")
    sys.argv = [""]
    driver = Driver()
    fds = [int(fd) for fd in os.environ.pop("CODEBOX_FD").split(",")]
    if os.environ.pop("CODEBOX_ZYGOTE", ""):
        zygote = driver.part("zygote")
        zygote.serve(driver, prepare)  # returns in the interpreters that it forks
        driver.begin(fds, zygote.settle)
        del driver.parts["zygote"]
    else:
        prepare(driver)
        driver.begin(fds)
    driver.serve()


if __name__ == "__main__":
    # Python 3.8 hands a caller's builtins on to functions of the same module; so the caller must be another.
    exec("main()", {"main": main, "__builtins__": __builtins__})
