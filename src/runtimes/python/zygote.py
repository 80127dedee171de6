# SPDX-License-Identifier: Apache-2.0
"""A driver that has loaded everything before its session is there, and is forked into sandboxes.

codebox-supervisor starts the driver with CODEBOX_ZYGOTE set: in a place like a sandbox, but outside of all of them,
where no code of a user ever runs. Here the libraries are loaded that CODEBOX_PRELOAD names, and the shell; then
codebox-zygote.so (src/zygote/zygote.c) forks embryos, one after another. An embryo is prepared (serve) and waits for a
request; then it is in a sandbox, has given up everything that an interpreter gives up, and continues as any driver does.
The zygote itself runs nothing but this loop.

What must not be the same in two sessions is made anew after the fork: the states of all generators of random numbers
that are loaded, names of temporary files, keys. What stays the same in all interpreters of one zygote is where things
lie in memory and the hash seed.

An interpreter shares the zygote's pages until it writes to them, and each page that it does write to is copied: that
is what its start and its memory cost. So the zygote first does itself all that its interpreters are going to do, up to
the end of a cell (rehearse): caches are filled, code is specialized, symbols are bound. And then it uses up what is
free between the objects, so that new ones lie close together (cbx_zygote_pack). An embryo that has the time does it
once more, and so has copied these pages when it is wanted.
"""
import ctypes
import gc
import importlib
import os
import select
import stat
import struct
import sys
import time

LIBRARY = "/run/codebox-zygote.so"
SOCKET, TAKEN = 3, 4  # ours; an interpreter has its frames in both
READY = 1
MESSAGE = struct.Struct("=IiIIQ200s")  # struct cbx_zygote_message
POOL = 1 << 14 if sys.version_info >= (3, 10) else 1 << 12  # what Python's allocator divides into blocks of one size
REHEARSALS = 16  # code is specialized when it has run a few times


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


class Python:
    """The interpreter's C functions."""

    def __init__(self):
        self.api, self.libc, self.library = ctypes.pythonapi, ctypes.CDLL(None), ctypes.PyDLL(LIBRARY)
        self.before, self.after = self.api.PyOS_BeforeFork, self.api.PyOS_AfterFork_Child
        self.library.cbx_zygote_arenas(self._pointer(self.api.PyObject_GetArenaAllocator),
                                       self._pointer(self.api.PyObject_SetArenaAllocator))

    @staticmethod
    def _pointer(function):
        return ctypes.cast(function, ctypes.c_void_p)

    def pack(self):
        """Give back what is free in whole pages, use up what is free beside objects, and make large pages of it."""
        api, libc = self.api, self.libc
        try:
            libc.malloc_trim(0)
        except AttributeError:
            pass  # not glibc
        self.library.cbx_zygote_pack(self._pointer(api.PyObject_Malloc), self._pointer(api.PyObject_Free),
                                     ctypes.c_ulong(POOL), self._pointer(libc.malloc), self._pointer(libc.free),
                                     ctypes.c_ulong(os.sysconf("SC_PAGE_SIZE")))

    def rseq(self):
        """Where a thread has what the C library has told the kernel of restartable sequences; 0: nowhere."""
        try:
            used = ctypes.c_uint.in_dll(self.libc, "__rseq_size").value
            return ctypes.c_ssize_t.in_dll(self.libc, "__rseq_offset").value if used else 0
        except ValueError:  # an older one, or another
            return 0

    def serve(self):
        """Returns in embryos."""
        self.before()
        self.library.cbx_zygote_serve(self._pointer(self.libc.fork))
        self.after()

    def enter(self):
        """Returns in a sandbox."""
        self.library.cbx_embryo_enter(self._pointer(self.libc.fork), ctypes.c_long(self.rseq()))


def rehearse(driver, python, start, arrive, times):
    """What an interpreter does up to the end of its first cell, but for the fork."""
    channel = driver.channel
    frames, ours = os.pipe()
    theirs, answers = os.pipe()
    for _ in range(times):
        python.before()
        python.after()  # there is one thread, as there is after a fork
        start()
        arrive()
        for frame in {"environment": {}, "wanted": True}, {"op": "run", "id": 1, "code": "None", "silent": True}:
            os.write(ours, channel.encode(frame))
        driver.begin([os.dup(frames), os.dup(answers)], settle)
        driver.run(channel.receive())
        channel.waiting()
        os.read(theirs, 1 << 16)
        driver.cell = 0
        driver.warm_up()
        driver.streams.close_spares()
    gc.disable()
    channel.close()
    driver.streams.frame_waits = False
    for fd in frames, ours, theirs, answers:
        os.close(fd)


def end_threads():
    """Libraries that keep threads (OpenBLAS) end them before a fork and start them again when they are needed."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def twister():
    """Where numpy's global generator keeps its state, and how it learns that all of it is new."""
    generator = sys.modules["numpy.random"].mtrand._rand._bit_generator
    state = generator.state["state"]
    address, end = generator.ctypes.state_address, struct.pack("=i", len(state["key"]))
    known = state["key"].astype("uint32").tobytes() + struct.pack("=i", state["pos"])
    return (address, len(known) - len(end), end) if ctypes.string_at(address, len(known)) == known else None


def reseed(numpy_state):
    """Nothing that is random may be the same in two forks."""
    modules = sys.modules
    if numpy_state:
        address, size, end = numpy_state
        ctypes.memmove(address, os.urandom(size) + end, size + len(end))
    elif "numpy.random" in modules:
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
    for fd in range(TAKEN + 1, 1024):
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


def find_start(driver):
    """What each embryo begins with, and what each interpreter, as functions. All that can be looked up is looked up
    here."""
    descriptors = held()
    numpy_state = None
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()  # also forgets the second of a pair of normal deviates
        try:
            numpy_state = twister()
        except Exception:  # another numpy, or another generator
            pass
    if "_ssl" in sys.modules:
        sys.modules["_ssl"].RAND_bytes(1)  # OpenSSL looks for its algorithms now, and not in each fork
    # What was looked up in directories that are others there.
    places = [path for path in sys.path_importer_cache if path.startswith(("/workspace", "/home", "/tmp"))]
    threads = sys.modules.get("threading")
    set_native_id = getattr(threads.main_thread(), "_set_native_id", None) if threads else None

    def start():
        reseed(numpy_state)
        for path in places:
            sys.path_importer_cache.pop(path, None)

    def arrive():
        hold_again(descriptors)
        if set_native_id:
            set_native_id()
        driver.streams.open_spares()

    return start, arrive


def serve(driver, prepare):
    """Returns in interpreters."""
    names = os.environ.pop("CODEBOX_PRELOAD", "").split(",")
    try:
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: nobody is to look into it, or into forks too early
        os.dup2(0, TAKEN, inheritable=False)  # no module gets this one
        python = Python()
        prepare(driver)
        missing = preload(filter(None, names))
        for name in {"COLUMNS", "LINES"}.difference(os.environ):
            os.unsetenv(name)  # the library readline sets them, past os.environ, of a terminal that is not there
        end_threads()
        driver.streams.close_spares()
        start, arrive = find_start(driver)
        for name in ("tracebacks", "figures"):
            driver.part(name)
        if hasattr(sys, "_clear_type_cache"):
            sys._clear_type_cache()  # to make an entry is to write to the name that had its place, wherever that is
        rehearse(driver, python, start, arrive, REHEARSALS)
        end_threads()
        gc.collect()
        gc.freeze()
        python.pack()
    except BaseException as e:
        say(-1, "%s: %s" % (type(e).__name__, e))
        os._exit(1)
    say(0, ", ".join(missing))
    python.serve()
    try:
        if not select.select([SOCKET], [], [], 0)[0]:
            rehearse(driver, python, start, arrive, 1)
        start()
        python.enter()
    except BaseException:
        os._exit(1)
    arrive()


def settle(driver):
    """The first frame says what is this session's own."""
    frame = driver.channel.receive()
    os.environ.update(frame["environment"])
    time.tzset()
    driver.wanted = frame["wanted"]
