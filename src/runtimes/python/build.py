# SPDX-License-Identifier: Apache-2.0
"""A wheel from a source archive, as PEP 517 has it: for resolve.py, in its sandbox, where the policy allows it.

The archive's code runs in processes of its own, which have no network, and which cannot look into the one that may ask for
pages of the index. It can break this sandbox, and nothing else: the wheel is read as strictly as one of the index.
"""
import ctypes
import importlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

PR_SET_DUMPABLE = 4
WORDS_MAX = 300  # of what a failed build says
EPOCH = "946684800"  # of all files, so that the same sources make the same wheel

HOOK = """
import importlib, json, sys
out, backend, hook, paths, arguments = json.loads(sys.argv[1])
sys.path[:0] = paths
module, _, attributes = backend.partition(":")
found = importlib.import_module(module)
for attribute in attributes.split(".") if attributes else ():
    found = getattr(found, attribute)
found = getattr(found, hook, None)
with open(out, "w") as f:
    json.dump(found(*arguments) if found else [], f)
"""

PROGRAM = """#!{python}
import sys
from {module} import {first}
sys.exit({attribute}())
"""


class Failed(Exception):
    pass


def hide():
    """What is started from here on cannot reach this process by /proc or ptrace(2)."""
    if ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise Failed("its build cannot be kept apart here")


def unpack(filename, data, to):
    """The directory that has the sources."""
    try:
        if filename.endswith(".zip"):
            with zipfile.ZipFile(io.BytesIO(data)) as z:
                z.extractall(to)
        else:
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                for name in tar.getnames():  # not every Python has the filter
                    if name.startswith("/") or ".." in name.split("/"):
                        raise Failed("its archive has a name that leads out of it: %s" % name[:100])
                tar.extractall(to, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    except (tarfile.TarError, zipfile.BadZipFile, OSError, EOFError, ValueError, RuntimeError) as e:
        raise Failed("its archive cannot be unpacked: %s" % e)
    for name in sorted(os.listdir(to)):
        directory = os.path.join(to, name)
        if any(os.path.isfile(os.path.join(directory, file)) for file in ("pyproject.toml", "setup.py")):
            return directory
    raise Failed("its archive has neither pyproject.toml nor setup.py")


def read_system(source):
    """(requirements, backend, its directories)"""
    path = os.path.join(source, "pyproject.toml")
    system = {}
    if os.path.isfile(path):
        for name in "tomllib", "pip._vendor.tomli", "tomli":
            try:
                toml = importlib.import_module(name)
                break
            except ImportError:
                toml = None
        try:
            with open(path, "rb") as f:
                system = toml.loads(f.read().decode()).get("build-system", {})
        except (AttributeError, ValueError):
            system = None
        if not isinstance(system, dict):
            raise Failed("its pyproject.toml cannot be read")
    requires, backend = system.get("requires", ["setuptools>=40.8.0"]), system.get("build-backend", "setuptools.build_meta:__legacy__")
    paths = system.get("backend-path", [])
    if not (isinstance(backend, str) and all(isinstance(x, list) and all(isinstance(s, str) for s in x) for x in (requires, paths))):
        raise Failed("its pyproject.toml cannot be read")
    return requires, backend, [os.path.join(source, path) for path in paths]


def put_program(path, line):
    """Of "name = module:attribute", of an entry point."""
    name, _, target = (part.strip() for part in line.partition("="))
    module, _, attribute = target.partition("[")[0].strip().partition(":")
    path = os.path.join(path, os.path.basename(name))
    with open(path, "w") as f:
        f.write(PROGRAM.format(python=sys.executable, module=module, first=attribute.partition(".")[0], attribute=attribute))
    os.chmod(path, 0o755)


def put_wheel(data, site, programs):
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        z.extractall(site)
        names = z.namelist()
    for name in names:
        top, _, rest = name.partition("/")
        kind, _, rest = rest.partition("/")
        if top.endswith(".data") and rest and not name.endswith("/") and kind in ("purelib", "platlib", "scripts"):
            to = os.path.join(programs if kind == "scripts" else site, rest)
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.move(os.path.join(site, name), to)
            if kind == "scripts":
                os.chmod(to, 0o755)
        elif top.endswith(".dist-info") and name.endswith("/entry_points.txt"):
            section = ""
            with open(os.path.join(site, name)) as f:
                for line in f:
                    section = line.strip() if line.startswith("[") else section
                    if section == "[console_scripts]" and "=" in line:
                        put_program(programs, line)


class Build:
    def __init__(self, filename, data):
        self.top = tempfile.mkdtemp(prefix="build-")
        self.site, self.programs, self.out = (os.path.join(self.top, name) for name in ("site", "bin", "out"))
        for path in self.site, self.programs, self.out:
            os.mkdir(path)
        self.hook = os.path.join(self.top, "hook.py")
        with open(self.hook, "w") as f:
            f.write(HOOK)
        os.mkdir(os.path.join(self.top, "source"))
        self.source = unpack(filename, data, os.path.join(self.top, "source"))
        self.requires, self.backend, self.paths = read_system(self.source)

    def call(self, hook, *arguments):
        result = os.path.join(self.top, "result")
        environment = {**os.environ, "PYTHONPATH": self.site, "PATH": self.programs + ":" + os.environ.get("PATH", ""),
                       "SOURCE_DATE_EPOCH": EPOCH, "PYTHONDONTWRITEBYTECODE": "1"}
        r = subprocess.run([sys.executable, self.hook, json.dumps([result, self.backend, hook, self.paths, arguments])],
                           cwd=self.source, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if r.returncode != 0:
            words = " ".join(r.stdout.decode("utf-8", "replace").split())
            raise Failed("it cannot be built: %s" % (words[-WORDS_MAX:] or "status %d" % r.returncode))
        try:
            with open(result) as f:
                return json.load(f)
        except (OSError, ValueError):
            raise Failed("it cannot be built: its build says nothing")

    def run(self, provide):
        for data in provide(self.requires):
            put_wheel(data, self.site, self.programs)
        more = self.call("get_requires_for_build_wheel")
        for data in provide([str(text) for text in more]) if more else ():
            put_wheel(data, self.site, self.programs)
        name = os.path.basename(str(self.call("build_wheel", self.out)))
        try:
            with open(os.path.join(self.out, name), "rb") as f:
                return name, f.read()
        except OSError:
            raise Failed("it cannot be built: its build makes no wheel")


def build(filename, data, provide):
    """(name of the wheel, its bytes). provide: function from requirements to the bytes of the wheels that they need."""
    hide()
    b = Build(filename, data)
    try:
        return b.run(provide)
    finally:
        shutil.rmtree(b.top, ignore_errors=True)
