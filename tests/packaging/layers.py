#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The layers of src: each file includes only what tests/layers allows its folder, and no more than three files stand in
a circle, counted over what they include and what they call. A name that several files see means one function, and no
header is longer than 250 lines."""
import collections
import glob
import os
import re
import subprocess
import sys

TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.environ.get("CODEBOX_BUILD_DIR", os.path.join(TOP, "_build"))
SRC = os.path.join(TOP, "src")
LAYERS = os.path.join(TOP, "tests", "layers")
sys.path.insert(0, os.path.join(TOP, "tests", "lib"))
from cbxtest import run  # noqa: E402

CIRCLE_MAX = 3
HEADER_MAX = 250


def sources():
    return [os.path.relpath(f, SRC) for f in sorted(glob.glob(f"{SRC}/*/*.[ch]"))]


def includes(name):
    """The headers of ours that a source file includes, as paths beneath src."""
    with open(os.path.join(SRC, name), encoding="utf-8") as f:
        for header in re.findall(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', f.read(), re.M):
            beside = os.path.normpath(os.path.join(os.path.dirname(name), header))
            path = header if os.path.exists(os.path.join(SRC, header)) else beside
            if os.path.exists(os.path.join(SRC, path)):
                yield path


def layers():
    """What each folder, or file, may include: folders and headers."""
    allowed = {}
    with open(LAYERS, encoding="utf-8") as f:
        for line in filter(None, (line.split("#")[0].strip() for line in f)):
            name, colon, rest = line.partition(":")
            assert colon and name and " " not in name, f"tests/layers: {line}"
            for other in rest.split():
                assert other.split("/")[0] in allowed, f"tests/layers: {name}: {other} does not stand above it"
            allowed[name] = set(rest.split())
    return allowed


def test_includes_go_down():
    allowed, bad = layers(), []
    for name in sources():
        folder = name.split("/")[0]
        assert folder in allowed, f"tests/layers has no line for src/{folder}"
        may = allowed[folder] | allowed.get(name, set())
        bad += [f"src/{name} includes {header}" for header in includes(name)
                if header.split("/")[0] not in {folder, *may} and header not in may]
    assert not bad, "not allowed by tests/layers: " + ", ".join(bad)


def test_headers_are_short():
    """A header that everything needs grows until everything knows everything."""
    long = []
    for name in sources():
        with open(os.path.join(SRC, name), encoding="utf-8") as f:
            lines = sum(1 for _ in f)
        if name.endswith(".h") and lines > HEADER_MAX:
            long.append(f"src/{name}: {lines} lines")
    assert not long, f"more than {HEADER_MAX} lines: " + ", ".join(long)


def test_headers_are_in_the_tarball():
    """Automake compiles without a header's name; only `make distcheck` would miss it, half an hour later."""
    named = set()
    for path in glob.glob(f"{SRC}/*/module.am") + [os.path.join(TOP, "Makefile.am")]:
        with open(path, encoding="utf-8") as f:
            named.update(re.findall(r"\S+\.h\b", f.read()))
    missing = [f"src/{name}" for name in sources() if name.endswith(".h") and f"src/{name}" not in named]
    assert not missing, "no module.am names " + ", ".join(missing)


def module(name):
    """A header counts with its .c file."""
    return os.path.splitext(name)[0]


def symbols():
    """defined[symbol] = modules, wanted[module] = symbols: what the linker sees of each object file of the build."""
    modules = {module(name) for name in sources() if name.endswith(".c")}
    seen, defined, wanted = set(), collections.defaultdict(set), collections.defaultdict(set)
    objects = sorted(glob.glob(f"{BUILD}/src/*/*.o"))
    listed = subprocess.run(["nm", "-A", "-P", *objects], capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        path, symbol, kind = line.rsplit(": ", 1)[0], *line.rsplit(": ", 1)[1].split()[:2]
        path = os.path.relpath(path, os.path.join(BUILD, "src"))
        # Of a program that compiles a file in a way of its own, the object is called program-file.o.
        stems = [s for s in (path[:-2], re.sub(r"/[a-z]\w*-(?=[^/]+$)", "/", path[:-2])) if s in modules]
        if not stems:
            continue        # its source has gone
        seen.add(stems[0])
        if kind == "U":
            wanted[stems[0]].add(symbol)
        elif kind in "TDBRVWC":
            defined[symbol].add(stems[0])
    return defined, wanted, modules - seen


def graph():
    defined, wanted, _ = symbols()
    edges = {module(name): set() for name in sources()}
    for name in sources():
        edges[module(name)].update(module(header) for header in includes(name))
    for name, called in wanted.items():
        for symbol in called:
            edges[name].update(defined.get(symbol, ()))
    return {name: other - {name} for name, other in edges.items()}


def circles(edges):
    """The strongly connected components of more than one node (Tarjan), the largest first."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            found.append(sorted(stack[at:]))
            del stack[at:]

    sys.setrecursionlimit(10000)
    for node in sorted(edges):
        if node not in index:
            visit(node)
    return sorted((c for c in found if len(c) > 1), key=len, reverse=True)


def test_circles_are_small():
    found = circles(graph())
    for circle in found:
        print(f"# a circle of {len(circle)}: {' '.join(circle)}")
    assert not found or len(found[0]) <= CIRCLE_MAX, f"a circle of more than {CIRCLE_MAX} files: {found[0]}"


def test_what_is_built_is_what_is_there():
    """Calls can be counted only of files that are compiled: one that is in no module.am would not be seen."""
    _, _, missing = symbols()
    assert not missing, f"no object file of {sorted(missing)} in {BUILD}: in no module.am, or not built"


def test_a_name_means_one_function():
    defined, _, _ = symbols()
    several = {name: sorted(files) for name, files in defined.items() if len(files) > 1 and name != "main"}
    assert not several, f"defined in several files: {several}"


def test_circles_are_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"d", "a"}, "d": set()}) == [["a", "b", "c"]]
    assert circles({"a": {"b"}, "b": set()}) == []


run(globals())
