# SPDX-License-Identifier: Apache-2.0
"""What a terminal shows of what a program writes: rows of characters, as much of it as codebox's output needs; and what
terminals answer that are asked whether they show images."""
import fcntl
import os
import re
import select
import struct
import termios
import time
import unicodedata

from terminal import Terminal, WAIT

SEQUENCE = re.compile(rb"\x1b\[([0-9;?>]*)([A-Za-z])|\x1b\]([^\x07\x1b]*)(?:\x07|\x1b\\)|\x1b_([^\x1b]*)\x1b\\|"
                      rb"\x1bP([^\x1b]*)\x1b\\")


class Screen(Terminal):
    """kind: "kitty", "iterm2", "sixel", "plain" (answers that it has neither) or "silent" (answers nothing)."""

    def __init__(self, argv, env, cwd, rows=12, columns=40, kind="plain", **kw):
        super().__init__(argv, env, cwd, **kw)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.kind, self.rows, self.columns = kind, rows, columns
        self.lines, self.at, self.column, self.done = [""], 0, 0, b""
        self.images, self.asked = [], []

    @classmethod
    def of(cls, data, rows=12, columns=40):
        """What one shows that gets these bytes, with newlines as a terminal's driver makes them."""
        s = cls.__new__(cls)
        s.rows, s.columns, s.lines, s.at, s.column, s.images = rows, columns, [""], 0, 0, []
        s.feed(data.replace(b"\n", b"\r\n"))
        return [line.rstrip() for line in s.lines]

    def shown(self):
        """The whole of what was written, with what has scrolled out; ends the program first."""
        status = self.end()
        self.feed(self.got)
        return status, [line.rstrip() for line in self.lines]

    def feed(self, data):
        while data:
            m = SEQUENCE.match(data)
            if m:
                self.sequence(m)
                data = data[m.end():]
                continue
            if data[:2] in (b"\x1b7", b"\x1b8"):
                if data[1:2] == b"7":
                    self.saved = self.at, self.column
                else:
                    self.at, self.column = self.saved
                data = data[2:]
                continue
            assert data[0] != 0x1b, data[:100]
            n = next((i for i, c in enumerate(data) if c == 0x1b), len(data))
            for c in data[:n].decode():
                self.put(c)
            data = data[n:]

    def resize(self, rows, columns):
        """As a person does it who draws at the window's corner: rows that are too long for it are wrapped."""
        self.column = min(self.column, self.columns - 1)
        self.rows, self.columns = rows, columns
        wrapped = []
        for n, line in enumerate(self.lines):
            if n == self.at:
                at, column = len(wrapped) + self.column // columns, self.column % columns
            wrapped += [line[i:i + columns] for i in range(0, len(line), columns)] or [""]
        self.lines, self.at, self.column = wrapped, min(at, len(wrapped) - 1), column
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait(self, *rows):
        """Until these are the last rows that have something."""
        end = time.monotonic() + WAIT
        while True:
            whole = re.match(rb"(?s)(.*?)(?:\x1b[^A-Za-z~]{0,20}|[\xc2-\xf4][\x80-\xbf]{0,2})?$", self.got).group(1)
            self.feed(whole)
            self.got = self.got[len(whole):]
            shown = [line.replace("\0", "").rstrip() for line in self.lines]
            while shown and not shown[-1]:
                shown.pop()
            if shown[-len(rows):] == list(rows):
                return
            assert time.monotonic() < end, f"{rows} did not come: {shown}"
            if select.select([self.fd], [], [], 0.1)[0]:
                self.got += os.read(self.fd, 65536)

    def answer(self, typed="", shown=True):
        """Wait for the questions, and answer as this kind of terminal does; shown: what came before is fed."""
        before = self.see(b"\x1b[c\r\x1b[K")
        questions = b"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b[>q"
        assert before.endswith(questions), before
        if shown:
            self.feed(before[:-len(questions)])
        self.type({"kitty": "\x1b_Gi=31;OK\x1b\\\x1bP>|kitty(0.35)\x1b\\\x1b[?62;c",
                   "iterm2": "\x1bP>|iTerm2 3.5.0\x1b\\\x1b[?62;4c", "sixel": "\x1bP>|XTerm(390)\x1b\\\x1b[?64;1;4;22c",
                   "plain": "\x1b[?62;22c", "silent": ""}[self.kind] + typed)

    def down(self):
        self.at += 1
        if self.at == len(self.lines):
            self.lines.append("")

    def put(self, c):
        width = 2 if unicodedata.east_asian_width(c) in "WF" else 1
        if c == "\n":
            self.down()
        elif c == "\r":
            self.column = 0
        elif c == "\b":
            self.column = max(self.column - 1, 0)
        else:
            if self.column + width > self.columns:
                self.down()
                self.column = 0
            line = self.lines[self.at].ljust(self.column)
            self.lines[self.at] = line[:self.column] + c + "\0" * (width - 1) + line[self.column + width:]
            self.column += width

    def sequence(self, m):
        values, kind = m.group(1), m.group(2)
        if kind == b"A":
            top = max(len(self.lines) - self.rows, 0)
            self.at = max(self.at - int(values or 1), top)
        elif kind == b"J":
            assert values in (b"", b"0"), values
            self.lines[self.at] = self.lines[self.at][:self.column]
            del self.lines[self.at + 1:]
        elif kind == b"K":
            line = self.lines[self.at]
            self.lines[self.at] = {b"1": " " * (self.column + 1) + line[self.column + 1:], b"2": ""}.get(values, line[:self.column])
        elif kind == b"B":
            for _ in range(int(values or 1)):
                self.down()
        elif kind == b"G":
            self.column = int(values or 1) - 1
        elif kind in (b"C", b"D"):
            self.column = max(0, min(self.columns - 1, min(self.column, self.columns - 1) + int(values or 1) * (1 if kind == b"C" else -1)))
        elif values in (b"?25", b"?2004") and kind in (b"l", b"h"):
            pass
        elif kind is not None:
            assert kind == b"m", m.group()
        elif m.group(4) is not None and m.group(4).startswith(b"Ga=T,"):
            self.images.append(("kitty", m.group(4)))
        elif m.group(4) is not None and m.group(4).startswith(b"Gm="):
            self.images[-1] = ("kitty", self.images[-1][1] + m.group(4).partition(b";")[2])
        elif m.group(3) is not None and m.group(3).startswith(b"1337;File="):
            self.images.append(("iterm2", m.group(3)))
        elif m.group(5) is not None and re.match(rb"[0-9;]*q", m.group(5)):
            self.images.append(("sixel", m.group(5)))
        else:
            raise AssertionError(m.group())
