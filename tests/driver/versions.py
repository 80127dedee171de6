#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python driver on CPython 3.8 to 3.14: protocol.py with the oldest and the newest of this machine, over IPython too; and
nothing in the driver's files that 3.8 does not have.

Interpreters are looked for as python3.N in PATH and in pyenv's directory. Debian has one version only, and no registry has
others, so what is missing is named and skipped. CODEBOX_TEST_VERSIONS=all tests each that is there.
"""
import ast
import glob
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from cbxtest import Skip, run  # noqa: E402
from image_python import image_python  # noqa: E402

OLDEST, NEWEST = 8, 14
RUNTIME = os.path.join(HERE, "..", "..", "src", "runtimes", "python")
ASK = "import sys; print(sys.implementation.name, '%d.%d.%d' % sys.version_info[:3])"
# What is tempting, and newer than 3.8: attributes, keywords and modules by the minor version that brought them.
NEWER = {"removeprefix": 9, "removesuffix": 9, "to_thread": 9, "zoneinfo": 9, "graphlib": 9, "lcm": 9, "randbytes": 9,
         "unparse": 9, "is_relative_to": 9, "with_stem": 9, "packages_distributions": 10, "pairwise": 10, "bit_count": 10,
         "slots": 10, "strict": 10, "kw_only": 10, "EllipsisType": 10, "NoneType": 10, "UnionType": 10,
         "stdlib_module_names": 10, "aiter": 10, "anext": 10, "add_note": 11, "tomllib": 11, "ExceptionGroup": 11,
         "BaseExceptionGroup": 11, "StrEnum": 11, "TaskGroup": 11, "co_qualname": 11, "co_positions": 11, "batched": 12,
         "monitoring": 12, "walk_up": 12, "annotationlib": 14, "string.templatelib": 14}


def version_of(*python):
    r = subprocess.run([*python, "-I", "-c", ASK], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    name, _, version = r.stdout.strip().partition(" ")
    return version if r.returncode == 0 and name == "cpython" else None


def interpreters():
    """By minor version: (version, path)."""
    found = {}
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    for minor in range(OLDEST, NEWEST + 1):
        candidates = sorted(glob.glob(f"{pyenv}/versions/3.{minor}.*/bin/python3.{minor}"), reverse=True)
        for python in [shutil.which(f"python3.{minor}"), *candidates]:
            version = version_of(python) if python else None
            if version and version.startswith(f"3.{minor}."):
                found[minor] = version, python
                break
    return found


def with_ipython(python, version):
    """The same interpreter with IPython and what draws, if PyPI can be reached; else alone."""
    r = subprocess.run([os.path.join(HERE, "..", "clients", "setup.sh"), "ipython", python, version], stdout=subprocess.PIPE,
                       text=True, check=False)
    return r.stdout.strip() + "/bin/python3" if r.returncode == 0 else python


def play(minor):
    if minor not in FOUND:
        raise Skip(f"this machine has no CPython 3.{minor}")
    version, python = FOUND[minor]
    if minor == IMAGE and minor not in ENDS:
        raise Skip("it is the version of the image python, which protocol.py tests")
    if minor not in ENDS and os.environ.get("CODEBOX_TEST_VERSIONS") != "all":
        raise Skip("an older and a newer one are tested; CODEBOX_TEST_VERSIONS=all tests this one")
    r = subprocess.run([sys.executable, os.path.join(HERE, "protocol.py")], stdout=subprocess.PIPE, text=True, check=False,
                       env={**os.environ, "CODEBOX_TEST_PYTHON": with_ipython(python, version)})
    lines = r.stdout.splitlines()
    good = [line for line in lines if line.startswith("ok ")]
    skipped = sum(" # SKIP " in line for line in good)
    print(f"# {version}: {len(good) - skipped} cases, {skipped} skipped", flush=True)
    bad = [line for line in lines if not line.startswith("ok ")][1:]
    assert r.returncode == 0 and not bad, "\n".join(bad[:60])
    assert len(good) - skipped >= 80, f"{skipped} of {len(good)} cases were skipped"


def files():
    return sorted(glob.glob(RUNTIME + "/*.py") + glob.glob(RUNTIME + "/bin/*"))


def names(node):
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [a.name for a in node.names] + [getattr(node, "module", None)]
    return [getattr(node, "attr", None), getattr(node, "id", None), node.arg if isinstance(node, ast.keyword) else None]


def test_syntax_and_names_of_the_oldest():
    assert len(files()) > 20, files()
    for path in files():
        with open(path, encoding="utf-8") as f:
            source = f.read()
        tree = ast.parse(source, path, feature_version=(3, OLDEST))
        for node in ast.walk(tree):
            for name in filter(None, names(node)):
                assert name not in NEWER, f"{path}: {name} is of Python 3.{NEWER[name]}"
            generic = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in (
                "list", "dict", "tuple", "set", "type")
            assert not generic, f"{path}:{node.lineno}: a generic type of Python 3.9"


def test_the_check_of_names_finds_them():
    for code, name in (("'a'.removeprefix('b')", "removeprefix"), ("import tomllib", "tomllib"), ("zip(a, strict=True)", "strict")):
        assert any(name in names(node) for node in ast.walk(ast.parse(code))), code
    for code in "match a:\n    case 1: pass", "try:\n    pass\nexcept* ValueError:\n    pass":
        try:
            ast.parse(code, feature_version=(3, OLDEST))
        except SyntaxError:
            continue
        raise AssertionError(code)


FOUND = interpreters()
IMAGE = int(re.match(r"3\.(\d+)", version_of(*image_python()) or "3.0")[1])
others = [minor for minor in sorted(FOUND) if minor != IMAGE]
ENDS = {others[0], others[-1]} if others else set()
for n in range(OLDEST, NEWEST + 1):
    globals()[f"test_python_3_{n}"] = lambda n=n: play(n)

if __name__ == "__main__":
    run(globals())
