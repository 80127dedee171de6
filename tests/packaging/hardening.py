#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the compiler and the linker were to do for the programs that are installed, looked for in the programs
themselves: position independence, read-only relocations, immediate binding, stack protector, checked library functions,
probes of large stack frames, marked branch targets, no segment that is both writable and executable."""
import os
import platform
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import CODEBOX, Skip, run  # noqa: E402

LIBEXEC = os.environ.get("CODEBOX_LIBEXEC_DIR", "/usr/local/libexec/codebox")
PROGRAMS = [CODEBOX, os.environ.get("CODEBOX_DAEMON", "codeboxd")] + [
    os.path.join(LIBEXEC, name) for name in ("codebox-image", "codebox-init", "codebox-kernel", "codebox-packages",
                                             "codebox-proxy", "codebox-pull", "codebox-repl", "codebox-sql", "codebox-store",
                                             "codebox-supervisor", "codebox-tls", "codebox-upload")]
INIT_SOURCES = {"init.c", "init-files.c", "init-kill.c", "init-scan.c", "init-start.c", "init-terminal.c"}


def tool(*args):
    if not shutil.which(args[0]):
        raise Skip(f"there is no {args[0]}")
    return subprocess.run(args, check=True, capture_output=True, text=True, env=dict(os.environ, LC_ALL="C")).stdout


def each(check):
    """Every program is looked at, and those that fail are named together."""
    if os.environ.get("CBX_SANITIZED"):
        raise Skip("built with sanitizers")
    bad = [f"{os.path.basename(p)}: {what}" for p in PROGRAMS for what in check(p)]
    assert not bad, "\n".join(bad)


def test_no_program_is_forgotten():
    there = {n for n in os.listdir(LIBEXEC) if os.path.isfile(os.path.join(LIBEXEC, n))}
    programs = {n for n in there if open(os.path.join(LIBEXEC, n), "rb").read(4) == b"\x7fELF"}
    known = {os.path.basename(p) for p in PROGRAMS}
    # A shared object is not a program; what is executed must be in the list above.
    assert {n for n in programs if not n.endswith(".so")} <= known, programs - known


def test_position_independent():
    def check(p):
        if "DYN (" not in tool("readelf", "-hW", p):
            yield "not position-independent"
        if "PIE" not in tool("readelf", "-dW", p):
            yield "not marked as a position-independent executable"
    each(check)


def test_relocations_are_read_only_and_bound_at_once():
    def check(p):
        if "GNU_RELRO" not in tool("readelf", "-lW", p):
            yield "no read-only relocations"
        dynamic = tool("readelf", "-dW", p)
        if "NOW" not in dynamic:
            yield "symbols are bound lazily"
        if "TEXTREL" in dynamic:
            yield "relocations in the text"
        if "RPATH" in dynamic or "RUNPATH" in dynamic:
            yield "libraries are searched for in a directory of its own"
    each(check)


def test_nothing_is_writable_and_executable():
    def check(p):
        stack = False
        for line in tool("readelf", "-lW", p).splitlines():
            m = re.match(r"\s+(LOAD|GNU_STACK)\s+(?:0x\w+\s+){5}([R ][W ][E ])", line)
            if m and "W" in m[2] and "E" in m[2]:
                yield f"{m[1]} is writable and executable"
            stack = stack or bool(m and m[1] == "GNU_STACK")
        if not stack:
            yield "the stack's protection is not said"
    each(check)


def test_stack_protector_and_checked_functions():
    def check(p):
        symbols = tool("readelf", "-sW", p)
        if "__stack_chk_fail" not in symbols:
            yield "no stack protector"
        # musl, which the static program may have, has none.
        if not re.search(r"__(?:mem|str|sn?printf|v\w+|f\w+|read|p\w+)\w*_chk", symbols) and "__init_libc" not in symbols:
            yield "no checked library functions"
    each(check)


def own_functions(p):
    """Of a program: all. Of the static one: those of our sources, since the C library is not built by us."""
    if os.path.basename(p) != "codebox-init":
        return None
    names, source = {"main"}, None
    for line in tool("readelf", "-sW", p).splitlines():
        f = line.split()
        if len(f) >= 8 and f[3] == "FILE":
            source = f[7]
        elif len(f) >= 8 and f[3] == "FUNC" and f[4] == "LOCAL" and source in INIT_SOURCES:
            names.add(f[7])
    return names


def functions(p):
    name, body = None, []
    for line in tool("objdump", "-d", "--no-show-raw-insn", "-j", ".text", p).splitlines():
        m = re.match(r"[0-9a-f]+ <([^>]+)>:", line)
        if m:
            if name:
                yield name, body
            name, body = m[1], []
        elif name and ":\t" in line:
            body.append(line.split(":\t", 1)[1].strip())
    if name:
        yield name, body


def x86_only():
    if platform.machine() != "x86_64":
        raise Skip("looks at x86-64 instructions")


def test_large_stack_frames_are_probed():
    x86_only()

    def check(p):
        own, looked = own_functions(p), 0
        for name, body in functions(p):
            if own is not None and name not in own:
                continue
            looked += 1
            for instruction in body:
                m = re.match(r"sub\s+\$0x([0-9a-f]+),%rsp", instruction)
                if m and 0x1000 < int(m[1], 16) < 1 << 31:
                    yield f"{name} moves the stack by {int(m[1], 16)} bytes at once"
        if not looked:
            yield "none of its functions was found"
    each(check)


def test_branch_targets_are_marked():
    x86_only()

    def check(p):
        main = [body for name, body in functions(p) if name == "main"]
        if not main or not main[0][0].startswith("endbr64"):
            yield "main does not begin with endbr64"
    each(check)


if __name__ == "__main__":
    run(globals())
