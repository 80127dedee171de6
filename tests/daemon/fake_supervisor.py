#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A codebox-supervisor and its sandboxes' init in one Python process, without any sandbox: a test tool only.

It speaks src/supervisor/requests.h and src/sandbox/init-protocol.h, so codeboxd can be tested where no sandbox can be
made, and with a supervisor, an init and an interpreter that lie. FAKE_MODE in the environment says how:

  down            the supervisor reports that it cannot work
  die             the supervisor ends when the first sandbox is asked for
  exit            it ends at once, without a word
  silent          it says nothing at all
  fail            every sandbox fails
  mute            init never says that it is ready
  mute=N          likewise, but for the first N sandboxes
  garbage         init sends a message that is too short
  liar            init answers a request that was not made
  longer          init lies about a length
  hold            init appends to a file only when the workspace has one of the name "go"
  driver=FILE     the interpreter is this program instead of the image's
"""
import array
import errno
import os
import selectors
import shutil
import signal
import socket
import stat
import struct
import tempfile
import time

REQUEST = struct.Struct("=IIQ")
HEADER = struct.Struct("=IIqQII")
ERR = struct.Struct("=i32s600s")
UP, FAILED, GONE, OOM, DOWN = 1, 3, 4, 5, 6
ENTERED, EXITED, ZYGOTE_READY, ZYGOTE_GONE = range(8, 12)
CREATE, DESTROY, MOVE, ZYGOTE, ZYGOTE_END, ENTER, MEASURE, USED = range(1, 9)
MEASURED = 12
READY, SPAWN, EXITED, SIGNAL, READ, WRITE, STAT, LIST, MKDIR, REMOVE = range(1, 11)
APPEND = 2**64 - 1

mode = os.environ.get("FAKE_MODE", "")


def event(kind, sandbox=0, status=0, pid=0, code=0, text=""):
    head = struct.pack("=IiQQQiI", kind, status, sandbox, 0, 0, pid, 0)
    facts = struct.pack("=7I", 1, 1, 0, 250, 300, 300, 320)
    err = ERR.pack(code, b"no_sandbox" if code else b"", text.encode())
    data = head + facts + err
    return data + bytes(-len(data) % 8)


class Sandbox:
    def __init__(self, number, sock, sel):
        self.number, self.sock, self.sel = number, sock, sel
        self.root = tempfile.mkdtemp(prefix="cbxfake")
        self.workspace = os.path.join(self.root, "workspace")
        os.mkdir(self.workspace)
        self.pids = set()
        sel.register(sock, selectors.EVENT_READ, self.readable)
        if mode == "garbage":
            sock.send(b"xx")
        elif mode != "mute" and not (mode.startswith("mute=") and number > int(mode[5:])):
            self.send(READY, 0)

    def send(self, kind, number, value=0, arg=0, payload=b""):
        try:
            self.sock.send(HEADER.pack(kind, number, value, arg, len(payload), 0) + payload)
        except OSError:
            pass

    def readable(self):
        try:
            data, anc, _, _ = self.sock.recvmsg(65536, socket.CMSG_SPACE(32))
        except OSError:
            data, anc = b"", []
        fds = array.array("i")
        for _, _, c in anc:
            fds.frombytes(c[:len(c) - len(c) % fds.itemsize])
        if not data:
            return supervisor.destroy(self.number)
        kind, number, value, arg, length, _ = HEADER.unpack_from(data)
        payload = data[HEADER.size:]
        assert len(payload) == length
        try:
            reply = getattr(self, f"do_{kind}")(payload, value, arg, list(fds))
        except OSError as e:
            reply = (-e.errno, 0, b"")
        for fd in fds:
            os.close(fd)
        if mode == "liar" and kind != SPAWN:
            return self.send(kind, number + 1000)
        if mode == "longer" and kind == READ:
            reply = (reply[0] + 5, *reply[1:])
        self.send(kind, number, *reply)

    def do_2(self, payload, value, arg, fds):
        args, env = payload.split(b"\0\0", 1)
        argv = args.split(b"\0")
        env = dict(e.split(b"=", 1) for e in env.split(b"\0") if e)
        env[b"HOME"] = self.root.encode()
        argv[-1] = argv[-1].replace(b"/run/codebox", os.environ["FAKE_RUNTIMES"].encode())
        if mode.startswith("driver="):
            argv[-1] = mode[7:].encode()
        if not os.access(argv[0], os.X_OK):
            return (-errno.ENOENT, 0, b"")
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                os.chdir(self.workspace)
                high = [os.dup2(fd, 50 + i) for i, fd in enumerate(fds)]
                for i, fd in enumerate(high):
                    os.dup2(fd, i)
                os.closerange(len(high), 200)
                signal.signal(signal.SIGPIPE, signal.SIG_DFL)
                os.execve(argv[0], argv, env)
            finally:
                os._exit(127)
        self.pids.add(pid)
        return (pid, 0, b"")

    def do_4(self, payload, value, arg, fds):
        if arg not in self.pids:
            return (-errno.ESRCH, 0, b"")
        os.killpg(arg, value)
        return (0, 0, b"")

    def path(self, payload):
        name, data = payload.split(b"\0", 1)
        name = name.decode()
        if name == "/workspace" or name.startswith("/workspace/"):
            name = "." + name[len("/workspace"):]
        return os.path.join(self.workspace, name), data

    def do_5(self, payload, value, arg, fds):
        path, _ = self.path(payload)
        with open(path, "rb") as f:
            f.seek(arg)
            data = f.read(value)
        return (len(data), os.stat(path).st_size, data)

    def do_6(self, payload, value, arg, fds):
        path, data = self.path(payload)
        while mode == "hold" and arg == APPEND and not os.path.exists(os.path.join(self.workspace, "go")):
            time.sleep(0.01)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if value & 1 else 0), 0o644)
        try:
            os.lseek(fd, 0, os.SEEK_END) if arg == APPEND else os.lseek(fd, arg, os.SEEK_SET)
            return (os.write(fd, data), 0, b"")
        finally:
            os.close(fd)

    def do_7(self, payload, value, arg, fds):
        st = os.lstat(self.path(payload)[0])
        return (0, 0, struct.pack("=IIQq", st.st_mode, 0, st.st_size, st.st_mtime_ns))

    def do_8(self, payload, value, arg, fds):
        path, _ = self.path(payload)
        out, count = b"", 0
        names = sorted(os.listdir(path))[arg:]
        for name in names:
            st = os.lstat(os.path.join(path, name))
            raw = name.encode() + b"\0"
            raw += bytes(-len(raw) % 8)
            entry = struct.pack("=IIQqII", st.st_mode, 0, st.st_size, st.st_mtime_ns, len(name.encode()), 32 + len(raw))
            if len(out) + len(entry) + len(raw) > 60000:
                break
            out += entry + raw
            count += 1
        return (count, int(count < len(names)), out)

    def do_9(self, payload, value, arg, fds):
        os.makedirs(self.path(payload)[0])
        return (0, 0, b"")

    def do_10(self, payload, value, arg, fds):
        path, _ = self.path(payload)
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        return (0, 0, b"")

    def do_11(self, payload, value, arg, fds):
        top, _ = self.path(payload)
        found = []
        for base, dirs, names in os.walk(top):
            dirs[:] = [d for d in dirs if base != top or d != ".codebox"]
            for name in names:
                st = os.lstat(os.path.join(base, name))
                if stat.S_ISREG(st.st_mode) and st.st_ctime_ns >= arg:
                    found.append((os.path.relpath(os.path.join(base, name), top), st))
        out, count = b"", 0
        for name, st in found[value:value + 500]:
            raw = name.encode() + b"\0"
            raw += bytes(-len(raw) % 8)
            out += struct.pack("=IIQqII", st.st_mode, 0, st.st_size, st.st_mtime_ns, len(name.encode()),
                               32 + len(raw)) + raw
            count += 1
        return (count, len(found), out)

    def ended(self, pid, status):
        self.pids.discard(pid)
        self.send(EXITED, 0, status, pid)

    def close(self):
        for pid in self.pids:
            for kill in (os.killpg, os.kill):
                try:
                    kill(pid, signal.SIGKILL)
                except OSError:
                    pass
        self.sel.unregister(self.sock)
        self.sock.close()
        shutil.rmtree(self.root, ignore_errors=True)


class Supervisor:
    def __init__(self):
        self.sock = socket.socket(fileno=3)
        self.sandboxes = {}
        self.sel = selectors.DefaultSelector()

    def send(self, *args, **kw):
        try:
            self.sock.send(event(*args, **kw))
        except OSError:
            os._exit(0)

    def destroy(self, number):
        box = self.sandboxes.pop(number, None)
        if box:
            box.close()
            self.send(GONE, number)

    def readable(self):
        data, anc, _, _ = self.sock.recvmsg(65536, socket.CMSG_SPACE(32))
        if not data:
            for box in self.sandboxes.values():
                box.close()
            os._exit(0)
        kind, _, number = REQUEST.unpack_from(data)
        if kind == DESTROY:
            return self.destroy(number)
        if kind == USED:
            return None
        if kind == MEASURE:
            return self.send(MEASURED, number)
        fds = array.array("i", anc[0][2]) if anc else []
        if kind == ZYGOTE:
            os.close(fds[0])
            return self.send(ZYGOTE_GONE, number, code=errno.ENOSYS, text="there are none here")
        if mode == "die":
            os._exit(0)
        if mode == "fail":
            os.close(fds[0])
            return self.send(FAILED, number, code=errno.EPERM, text="make it: Operation not permitted")
        self.sandboxes[number] = Sandbox(number, socket.socket(fileno=fds[0]), self.sel)

    def reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for box in list(self.sandboxes.values()):
                if pid in box.pids:
                    # A file named "oom" in the workspace makes a death one for memory.
                    if os.path.exists(os.path.join(box.workspace, "oom")):
                        self.send(OOM, box.number, pid=pid)
                    box.ended(pid, status)

    def run(self):
        wake, theirs = socket.socketpair()
        wake.setblocking(False)
        theirs.setblocking(False)
        signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *a: None)
        self.sel.register(wake, selectors.EVENT_READ, lambda: (wake.recv(4096), self.reap()))
        self.sel.register(self.sock, selectors.EVENT_READ, self.readable)
        if mode == "exit":
            return
        if mode == "down":
            return self.send(DOWN, code=errno.EPERM, text="make the namespaces: Operation not permitted")
        if mode != "silent":
            self.send(UP)
        while True:
            for key, _ in self.sel.select():
                key.data()


if __name__ == "__main__":
    supervisor = Supervisor()
    supervisor.run()
