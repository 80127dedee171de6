# SPDX-License-Identifier: Apache-2.0
"""Exceptions as plain text, in Python's own layout, without the frames of the driver and of IPython."""
import re
import sys
import traceback

VALUE_MAX = 100 << 10  # characters of an exception's message
TRACE_MAX = 200 << 10
FRAMES_MAX = 2000      # looked at; of longer stacks, the two ends
SHOWN_MAX = 60         # entries printed

_ansi = re.compile("\x1b\\[[0-9;?]*[A-Za-z]")


class Stack(traceback.StackSummary):
    """A stack that prints at most SHOWN_MAX entries."""

    left_out = 0

    def format(self, **kwargs):
        lines = super().format(**kwargs)
        extra = len(lines) - SHOWN_MAX
        if extra > 0:
            head = SHOWN_MAX // 3
            lines[head:head + extra] = ["  ... %d entries omitted ...\n" % (extra + self.left_out)]
        return lines


def internal(driver):
    """Tests whether a file is one of ours or of IPython's."""
    roots = [driver.directory + "/"]
    ipython = sys.modules.get("IPython")
    path = getattr(ipython, "__file__", None)
    if path:
        roots.append(path.rpartition("/")[0] + "/")
    roots = tuple(roots)
    return lambda name: name.startswith(roots) or name.startswith("<decorator-gen")


def _clean(te, internal, seen):
    """Replace the stacks of an exception and of all that it was raised from."""
    if te is None or id(te) in seen:
        return
    seen.add(id(te))
    if te.stack is not None:
        frames = [f for f in te.stack if not internal(f.filename)]
        extra = len(frames) - FRAMES_MAX
        if extra > 0:
            del frames[FRAMES_MAX // 2:FRAMES_MAX // 2 + extra]
        te.stack = Stack(frames)
        te.stack.left_out = max(extra, 0)
    _clean(te.__cause__, internal, seen)
    _clean(te.__context__, internal, seen)
    for e in getattr(te, "exceptions", None) or ():
        _clean(e, internal, seen)


def _trace(driver, value, tb):
    te = traceback.TracebackException(type(value), value, tb, lookup_lines=False)
    _clean(te, internal(driver), set())
    if not te.stack and te.__cause__ is None and te.__context__ is None and not getattr(te, "exceptions", None):
        return "".join(te.format_exception_only())  # a syntax error of the cell: nothing was called
    return "".join(te.format())


def describe(driver, value, tb, text):
    """(name, value, traceback) for an error frame."""
    bundles = driver.bundles
    name = type(value).__name__
    message = bundles.safe_str(value)
    if text is None:
        text = _trace(driver, value, value.__traceback__ if tb is None else tb)
    text = bundles.shorten(_ansi.sub("", bundles.text(text)), TRACE_MAX)
    return bundles.text(name), bundles.shorten(_ansi.sub("", message), VALUE_MAX), text.rstrip("\n")
