# SPDX-License-Identifier: Apache-2.0
"""A driver that has loaded everything before its session is there, and is forked into sandboxes.

codebox-supervisor starts the driver with CODEBOX_ZYGOTE set: in a place like a sandbox, but outside of all of them,
where no code of a user ever runs. Here the libraries are loaded that CODEBOX_PRELOAD names, and the shell; then
codebox-zygote.so (src/zygote/zygote.c) waits for requests. At each it forks; the copy is then in a sandbox, has given
up everything that an interpreter gives up, and goes on as any driver does. The zygote itself runs nothing but this
loop.

What must not be the same in two sessions is made anew after the fork: the states of all generators of random numbers
that are loaded, names of temporary files, keys. What stays the same in all interpreters of one zygote is where things
lie in memory and the hash seed.
"""
import ctypes
import gc
import importlib
import os
import stat
import struct
import sys
import time

LIBRARY = "/run/codebox-zygote.so"
SOCKET = 3
READY = 1
MESSAGE = struct.Struct("=IiIIQ200s")  # struct cbx_zygote_message


def say(value, text):
    text = text.encode("utf-8", "replace")[:199]
    os.write(SOCKET, MESSAGE.pack(READY, value, 0, 0, 0, text))


def preload(names):
    """Import what can be imported; the names of what can not."""
    missing = []
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:
            missing.append(name)
    return missing


def warm(driver):
    """What the first cell, the first result and the first error would load."""
    for name in ("tracebacks", "figures"):
        driver.part(name)
    if "_ssl" in sys.modules:
        sys.modules["_ssl"].RAND_bytes(1)  # OpenSSL looks for its algorithms now, and not in each fork
    driver.channel.child = True  # nothing is sent; what would be is printed to /dev/null
    driver.shell.run("None", True)
    driver.shell.run("1", True)
    driver.channel.child = False
    lines = sys.modules.get("linecache")
    if lines is not None:
        for name in [n for n in lines.cache if n.startswith("<cell")]:
            del lines.cache[name]


def end_threads():
    """Libraries that keep threads (OpenBLAS) end them before a fork and start them again when they are needed."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def trim():
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except AttributeError:
        pass  # not glibc


def reseed():
    """Nothing that is random may be the same in two forks."""
    modules = sys.modules
    if "numpy.random" in modules:
        modules["numpy.random"].seed()
    if "_ssl" in modules:
        modules["_ssl"].RAND_add(os.urandom(48), 48.0)
    if "tempfile" in modules:
        modules["tempfile"]._name_sequence = None
        modules["tempfile"].tempdir = None
    if "uuid" in modules:
        modules["uuid"]._last_timestamp = modules["uuid"]._node = None
    if "multiprocessing.process" in modules:
        process = modules["multiprocessing.process"]
        process._current_process._config["authkey"] = process.AuthenticationString(os.urandom(32))
    # random does so itself (os.register_at_fork); generators made with default_rng() and the like ask the system.


DEVICES = {3: "/dev/null", 5: "/dev/zero", 8: "/dev/random", 9: "/dev/urandom"}


def held():
    """Descriptors that modules keep, and what each is. All of ours are closed in a fork; these are opened again."""
    found = {}
    for fd in range(4, 1024):
        try:
            st = os.fstat(fd)
        except OSError:
            continue
        name = DEVICES.get(os.minor(st.st_rdev)) if stat.S_ISCHR(st.st_mode) and os.major(st.st_rdev) == 1 else None
        if name is None:
            raise RuntimeError("a module keeps descriptor %d open" % fd)
        found[fd] = name
    return found


def hold_again(found):
    for fd, name in found.items():
        new = os.open(name, os.O_RDWR)
        if new != fd:
            os.dup2(new, fd, inheritable=False)
            os.close(new)


def forget_places():
    """What was looked up here, in directories that are others there."""
    for path in list(sys.path_importer_cache):
        if path.startswith(("/workspace", "/home", "/tmp")):
            del sys.path_importer_cache[path]


def serve(driver, prepare):
    """Returns in the interpreters that are forked."""
    names = os.environ.pop("CODEBOX_PRELOAD", "").split(",")
    try:
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: nobody is to look into it, or into forks too early
        prepare(driver)
        missing = preload(filter(None, names))
        warm(driver)
        library = ctypes.PyDLL(LIBRARY)
        fork = ctypes.cast(ctypes.CDLL(None).fork, ctypes.c_void_p)
        library.cbx_zygote_fork.argtypes = [ctypes.c_void_p]
        end_threads()
        for fd in driver.streams.spares.values():
            os.close(fd)
        descriptors = held()
        gc.collect()
        gc.freeze()
        trim()
    except BaseException as e:
        say(-1, "%s: %s" % (type(e).__name__, e))
        os._exit(1)
    say(0, ", ".join(missing))
    python = ctypes.pythonapi
    while True:
        if library.cbx_zygote_wait() <= 0:
            os._exit(0)
        python.PyOS_BeforeFork()
        if library.cbx_zygote_fork(fork) == 0:
            python.PyOS_AfterFork_Child()
            break
        python.PyOS_AfterFork_Parent()
    hold_again(descriptors)
    reseed()
    forget_places()
    main = sys.modules["threading"].main_thread() if "threading" in sys.modules else None
    if hasattr(main, "_set_native_id"):
        main._set_native_id()
    driver.streams.spares = {fd: driver.streams._spare(fd) for fd in (1, 2)}


def settle(driver):
    """The first frame says what is this session's own."""
    os.environ.update(driver.channel.receive()["environment"])
    time.tzset()
    del driver.parts["zygote"]
