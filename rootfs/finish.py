# SPDX-License-Identifier: Apache-2.0
#
# The last step of an image's build, run as one cell in a sandbox on the unfinished image. CONFIG is set before it:
#   compile  patterns of directories whose Python files are compiled
#   warm     [{"module", "variable", "into"}]: caches that a module fills when it is imported
#   archive  where to leave the results
# The image itself is not changed: compiled files go to a directory of their own (pycache_prefix), and into the archive
# under the names that they will have in the image. They are marked "unchecked": nobody can change the sources.
import glob
import json
import os
import subprocess
import sys
import tarfile
import tempfile

config = json.loads(CONFIG)
top = tempfile.mkdtemp(dir=os.path.dirname(config["archive"]))


def add(tar, path, name):
    info = tarfile.TarInfo(name)
    info.size = os.path.getsize(path)
    info.mode = 0o644
    with open(path, "rb") as file:
        tar.addfile(info, file)


def files_below(directory):
    for path, dirs, names in os.walk(directory):
        dirs.sort()
        for name in sorted(names):
            full = os.path.join(path, name)
            if os.path.isfile(full) and not os.path.islink(full):
                yield full, os.path.relpath(full, directory)


def compile_all(tar):
    prefix = os.path.join(top, "pyc")
    dirs = [d for pattern in config["compile"] for d in sorted(glob.glob("/" + pattern)) if os.path.isdir(d)]
    if not dirs:
        return 0
    # Two processes need a place for their semaphores.
    jobs = "2" if os.access("/dev/shm", os.W_OK) else "1"
    # Its exit status says only that some file is not valid Python (templates, tests of syntax errors), which is normal.
    subprocess.run([sys.executable, "-m", "compileall", "-q", "-q", "-j", jobs, "--invalidation-mode", "unchecked-hash",
                    *dirs], env={**os.environ, "PYTHONPYCACHEPREFIX": prefix}, stdin=subprocess.DEVNULL)
    count = 0
    for full, name in files_below(prefix):
        if name.endswith(".pyc"):
            directory, base = os.path.split(name)
            add(tar, full, os.path.join(directory, "__pycache__", base))
            count += 1
    if not count and any(name.endswith(".py") for d in dirs for _, name in files_below(d)):
        raise SystemExit("nothing could be compiled")
    return count


def warm_up(tar, module, variable, into):
    directory = tempfile.mkdtemp(dir=top)
    subprocess.run([sys.executable, "-c", "import importlib, sys; importlib.import_module(sys.argv[1])", module],
                   env={**os.environ, variable: directory}, stdin=subprocess.DEVNULL, check=True)
    for full, name in files_below(directory):
        if not name.endswith("lock"):
            add(tar, full, os.path.join(into, name))


def cache_libraries(tar):
    """What the loader looks up libraries by, and by which ctypes.util.find_library finds them."""
    if not os.access("/sbin/ldconfig", os.X_OK) or os.path.lexists("/etc/ld.so.cache"):
        return
    path = os.path.join(top, "ld.so.cache")
    subprocess.run(["/sbin/ldconfig", "-X", "-C", path], stdin=subprocess.DEVNULL, check=True)
    add(tar, path, "etc/ld.so.cache")


with tarfile.open(config["archive"], "w:gz", compresslevel=1) as archive:
    compiled = compile_all(archive)
    cache_libraries(archive)
    for step in config["warm"]:
        warm_up(archive, step["module"], step["variable"], step["into"])
print(compiled, "files compiled")
