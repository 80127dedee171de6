# SPDX-License-Identifier: Apache-2.0
"""A test program leaves nothing behind: no process, and none of its temporary files; also when it is killed.

The tests run in a child. The process that was started waits for its end, ends what that has left (daemons count as its
descendants, because they are reparented to it), removes the temporary directory and passes the status on.
"""
import atexit
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
libc = ctypes.CDLL(None, use_errno=True)


def scratch():
    """The directory of all temporary files of this program. Sockets are in it: its name is short."""
    path = tempfile.mkdtemp(prefix="cbt")
    os.chmod(path, 0o755)  # other users' daemons have directories in it
    tempfile.tempdir = path
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def children(pid):
    """All descendants of a process; first its own, with those that were reparented to it."""
    out, todo = [], [pid]
    while todo:
        p = todo.pop()
        try:
            with open(f"/proc/{p}/task/{p}/children") as f:
                kids = [int(x) for x in f.read().split()]
        except OSError:
            kids = []
        out += kids
        todo += kids
    return out


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    except ChildProcessError:
        return False  # there is none


def end_all(patience):
    """Daemons are asked first, so that they end their sessions; what does not heed that is killed."""
    for number, seconds in (signal.SIGTERM, patience), (signal.SIGKILL, patience):
        end = time.monotonic() + seconds
        told = set()
        while reap() and time.monotonic() < end:
            for pid in children(os.getpid()):
                if pid not in told or number == signal.SIGKILL:
                    told.add(pid)
                    try:
                        os.kill(pid, number)
                    except OSError:
                        pass
            time.sleep(0.02)


def guard(directory):
    """Return in the child; the parent never returns."""
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    pid = os.fork()
    if pid == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the child has it, too
    for number in signal.SIGTERM, signal.SIGHUP:
        signal.signal(number, lambda number, frame: os.kill(pid, number))
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            break
    end_all(20)
    shutil.rmtree(directory, ignore_errors=True)
    if os.path.exists(directory):  # a test was several users
        subprocess.run(["unshare", "--map-root-user", "--map-auto", "rm", "-rf", directory], stderr=subprocess.DEVNULL)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)
