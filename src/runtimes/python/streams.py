# SPDX-License-Identifier: Apache-2.0
"""sys.stdout and sys.stderr over the two pipes.

Nothing is buffered here: what is printed is in the pipe before the next statement runs, in order with what
subprocesses and C code write there. Between the two pipes there is no order of their own; codeboxd reads them as they
fill. So before one is written to, the other must have been read empty, whoever wrote to it. Likewise, what is printed
after a frame must not be in a pipe before codeboxd has taken the frame from its pipe, since it handles a frame after
all that is in the pipes. The waits are short, and limited for a whole cell, so that a slow reader costs little.
"""
import fcntl
import io
import os
import sys
import termios
import time

WAIT_BUDGET = 2.0     # seconds for all waits of a cell; on a busy machine one of them may take most of it


class Pipe(io.FileIO):
    """One of the two; it is also sys.stdout.buffer."""

    def __init__(self, fd, name, streams):
        super().__init__(fd, "wb", closefd=False)
        self.name = name
        self._fd = fd
        self._streams = streams

    def write(self, data):
        streams = self._streams
        # A lone newline is the second half of a print(), which need not look again.
        if streams.frame_waits or data != b"\n" and streams.pending(3 - self._fd):
            streams.settle(self)
        fd = self._fd
        try:
            n = streams.os_write(fd, data)
        except BlockingIOError:
            n = 0
        view = memoryview(data)
        total = view.nbytes
        if n < total:
            self._rest(view.cast("B")[n:])
        return total

    def _rest(self, view):
        while view:
            try:
                view = view[self._streams.os_write(self._fd, view):]
            except BlockingIOError:  # user code made the pipe non-blocking
                self._streams.sleep(0.001)


class Asking(io.TextIOBase):
    """sys.stdin of a cell whose user is asked for each line."""

    name, encoding, errors = "<stdin>", "utf-8", "surrogateescape"

    def __init__(self, fd, ask):
        super().__init__()
        self._fd, self._ask, self._read = fd, ask, os.read

    def readable(self):
        return True

    def fileno(self):
        return 0

    def ask(self, prompt, password=False):
        line = b""
        self._ask(prompt, password)
        while not line.endswith(b"\n"):
            more = self._read(self._fd, 4096)
            if not more:
                raise EOFError("the user has ended the input")
            line += more
        return line[:-1].decode("utf-8", "surrogateescape")

    def readline(self, size=-1):
        try:
            return self.ask("") + "\n"
        except EOFError:
            return ""

    def __next__(self):
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    def read(self, size=-1):
        return "".join(self)


class Streams:
    def __init__(self):
        self.now, self.sleep, self.os_write = time.monotonic, time.sleep, os.write
        self._ioctl, self._zero = fcntl.ioctl, b"\0\0\0\0"
        self.unread = termios.FIONREAD
        self._look_at, self._dup2 = os.get_inheritable, os.dup2
        self.frames = -1
        self.send_held = None
        self.frame_waits = False  # a frame was sent and may still be in its pipe
        self.budget = WAIT_BUDGET
        self.open_spares()
        self.out = self.err = None
        self._open()
        sys.stdout = sys.__stdout__ = self.out
        sys.stderr = sys.__stderr__ = self.err
        self.stdin = sys.stdin
        self.inputs = None        # descriptors: the pipe, and /dev/null
        self.has_input = False    # the pipe is in use

    @staticmethod
    def _spare(fd):
        """A second descriptor, to mend the first one should user code close it."""
        try:
            return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 200)
        except OSError:
            return -1

    def open_spares(self):
        self.spares = {fd: self._spare(fd) for fd in (1, 2)}

    def close_spares(self):
        for fd in self.spares.values():
            os.close(fd)
        self.spares = {}

    def _open(self):
        if self.out is None or self.out.closed:
            self.out = self._text(1, "<stdout>")
        if self.err is None or self.err.closed:
            self.err = self._text(2, "<stderr>")

    def _text(self, fd, name):
        text = io.TextIOWrapper(Pipe(fd, name, self), encoding="utf-8", errors="backslashreplace", newline="\n",
                                write_through=True)
        text.mode = "w"
        return text

    def keep_input(self):
        """Descriptor 0 is the pipe for the cells that have standard input; all others have /dev/null there."""
        import stat
        if not stat.S_ISFIFO(os.fstat(0).st_mode):
            return
        null = os.open("/dev/null", os.O_RDONLY)
        self.inputs = self._spare(0), self._spare(null)
        os.close(null)
        self._dup2(self.inputs[1], 0)

    def give_input(self, on):
        """Put the one or the other at descriptor 0, with a sys.stdin that has read nothing yet."""
        if not self.inputs or on == self.has_input:
            return
        self._dup2(self.inputs[0 if on else 1], 0)
        self.has_input = on
        if on:
            self.stdin = sys.stdin
            sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)
        else:
            sys.stdin = self.stdin

    def let_ask(self, ask):
        """None: not any more."""
        if ask and self.inputs:
            self.stdin = sys.stdin
            sys.stdin = Asking(self.inputs[0], ask)
        elif not ask and type(sys.stdin) is Asking:
            sys.stdin = self.stdin

    def watch(self, fd, send_held):
        self.frames = fd
        self.send_held = send_held

    def pending(self, fd):
        try:
            return self._ioctl(fd, self.unread, self._zero) != self._zero
        except OSError:
            return False

    def _await(self, fd):
        """Wait until nothing is in a pipe; True if there was something."""
        if self.budget <= 0 or not self.pending(fd):
            return False
        start = self.now()
        pause = 0.00002
        while self.pending(fd) and self.now() - start < self.budget:
            self.sleep(pause)
            pause = min(pause * 2, 0.001)
        self.budget -= self.now() - start
        return True

    def settle(self, pipe):
        """Before a write: wait until the other pipe and the frames before it have been taken."""
        if self.frame_waits:
            self.send_held()
        self._await(3 - pipe._fd)
        if self.frame_waits:
            self._settle_frame()

    def _settle_frame(self):
        self.frame_waits = False
        if self._await(self.frames):
            self.sleep(0.00005)  # codeboxd has it, and is about to look into the pipes

    def frame_sent(self, wait):
        self.frame_waits = True
        if wait:
            self._settle_frame()

    def begin(self):
        """Before a cell: undo what an earlier one closed."""
        self.budget = WAIT_BUDGET
        for fd, spare in self.spares.items():
            try:
                self._look_at(fd)
            except OSError:
                if spare >= 0:
                    self._dup2(spare, fd)
        if self.out.closed or self.err.closed:
            self._open()
        if getattr(sys.stdout, "closed", True):
            sys.stdout = sys.__stdout__ = self.out
        if getattr(sys.stderr, "closed", True):
            sys.stderr = sys.__stderr__ = self.err
        if getattr(sys.stdin, "closed", True):
            sys.stdin = sys.__stdin__ = self.stdin = open("/dev/null")

    def flush(self):
        try:
            self.out.flush()
        except (OSError, ValueError):  # closed, above all
            pass
        try:
            self.err.flush()
        except (OSError, ValueError):
            pass

    def flush_replaced(self):
        """User code may have put buffering streams of its own in place."""
        for stream in (sys.stdout, sys.stderr):
            if stream is not self.out and stream is not self.err:
                try:
                    stream.flush()
                except Exception:
                    pass

    def say(self, text, error=False):
        """Print a text of the driver's."""
        stream = self.err if error else self.out
        if text and not stream.closed:
            stream.write(text if text.endswith("\n") else text + "\n")
