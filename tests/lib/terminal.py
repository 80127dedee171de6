# SPDX-License-Identifier: Apache-2.0
"""A program on a pseudo-terminal, for tests: type() what a person would, see() what the screen gets."""
import os
import pty
import select
import signal
import time

WAIT = 120  # seconds that only bound a failing test


class Terminal:
    def __init__(self, argv, env, cwd, term="xterm"):
        self.got = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                for sig in signal.SIGINT, signal.SIGHUP, signal.SIGQUIT:  # whoever runs the tests may ignore them
                    signal.signal(sig, signal.SIG_DFL)
                os.chdir(cwd)
                os.execvpe(argv[0], argv, dict(env, TERM=term))
            finally:
                os._exit(127)

    def see(self, what):
        """Wait for a text; what came before it, and forget both."""
        end = time.monotonic() + WAIT
        while what not in self.got:
            assert time.monotonic() < end, f"{what!r} did not come: {self.got!r}"
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    data = os.read(self.fd, 65536)
                except OSError:
                    data = b""
                assert data, f"the end came before {what!r}: {self.got!r}"
                self.got += data
        before, _, self.got = self.got.partition(what)
        return before

    def type(self, text):
        os.write(self.fd, text.encode())

    def paste(self, text):
        """As a terminal does it that was asked to mark what is pasted; a newline is what Enter sends."""
        self.type("\x1b[200~" + text.replace("\n", "\r") + "\x1b[201~")

    def end(self):
        """Wait for the program's end; its exit status."""
        end = time.monotonic() + WAIT
        while True:
            assert time.monotonic() < end, f"it does not end: {self.got!r}"
            if not select.select([self.fd], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                break
            if not data:
                break
            self.got += data
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
