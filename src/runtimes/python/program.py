# SPDX-License-Identifier: Apache-2.0
"""A file, run as `python3 FILE` runs it, in the interpreter of the cells, whose variables it shares and leaves behind.

It is put into the workspace first: messages show its lines, and multiprocessing starts new interpreters from it. Where the
workspace is a directory of the machine, nothing is left there: a file that is not in it already goes to the home. Its bytes
are compiled as they are, since only the compiler knows what a BOM or a coding line makes of them.
"""
import binascii
import os
import sys


def run(driver, message):
    """The exception that ended it, or None."""
    try:
        path = put(message["file"], binascii.a2b_base64(message["code"]))
        driver.shell.run_program(lambda: execute(path))
        value = None
    except BaseException as e:
        value = e
    if isinstance(value, Exception) and not isinstance(value, MemoryError):
        sys.last_type, sys.last_value, sys.last_traceback = type(value), value, value.__traceback__
    return value


WORKSPACE = "/workspace"
HOME = "/home/user"


def put(name, data):
    directory = WORKSPACE if os.path.isdir(WORKSPACE) else os.getcwd()
    path = os.path.join(directory, name)
    try:
        with open(path, "rb") as f:
            if f.read() == data:
                return path
    except OSError:
        pass
    if directory == WORKSPACE and os.path.isdir(HOME) and os.stat(WORKSPACE).st_dev != os.stat(HOME).st_dev:
        directory = HOME
    name = os.path.basename(name)
    path = os.path.join(directory, name)
    new = os.path.join(directory, ".%s.new" % name[:200])
    with open(new, "wb") as f:
        f.write(data)
    os.replace(new, path)
    return path


def execute(path):
    names = vars(sys.modules["__main__"])
    before = names.get("__file__", names)
    first = sys.path[0] if sys.path else None
    linecache = sys.modules.get("linecache")
    if linecache:
        linecache.checkcache(path)
    with open(path, "rb") as f:
        code = compile(f.read(), path, "exec", dont_inherit=True)
    sys.argv[:1] = [path]
    names["__file__"] = path
    if first == "":
        sys.path[0] = os.path.dirname(path)
    try:
        exec(code, names)
    finally:
        if first == "" and sys.path and sys.path[0] == os.path.dirname(path):
            sys.path[0] = first
        if before is names:
            sys.modules["__main__"].__dict__.pop("__file__", None)
        else:
            names["__file__"] = before


def finish(driver):
    """What an interpreter does at its end: wait for threads, and run what is registered for it."""
    import atexit
    threading = sys.modules.get("threading")
    if threading:
        threading._shutdown()
    shell = getattr(driver.shell, "ip", None)
    if shell is not None:
        atexit.unregister(shell.atexit_operations)  # it would clear the variables, and nobody comes for them
    atexit._run_exitfuncs()
