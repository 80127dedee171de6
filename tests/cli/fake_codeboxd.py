#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A codeboxd for tests of the codebox command: it speaks the control protocol and runs nothing.

It takes its two sockets as codeboxd does (LISTEN_FDS, descriptors 3 and 4). The "code" of a run is a little script:

    out:TEXT err:TEXT result:TEXT error:NAME:VALUE exit:N png svg html wait argv die timeout killed bytes:N badpng

one instruction a line. Files live in a dictionary; "hostile" is a directory with names that try to get out.
FAKE_STARTS names a file that gets a line for each start; FAKE_DIE=N: the first N starts end at once with a message;
FAKE_DEAF=N: the first N connections are closed without a word. FAKE_SLOW=N: for N seconds it accepts nothing.
"""
import base64
import json
import os
import signal
import socket
import sys
import threading
import time

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"x" * 100).decode()
CHUNK = 49152
lock = threading.Lock()
sessions = {}
deaf = int(os.environ.get("FAKE_DEAF", "0"))


class Refused(Exception):
    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


class Session:
    def __init__(self, sid, image):
        self.id = sid
        self.image = image
        self.argv = []
        self.runs = 0
        self.files = {"penguins.csv": b"a,b\n1,2\n", "bin": bytes(range(256)) * 400, "empty": b"",
                      "sparse": b"\0" * (CHUNK * 3) + b"end", "d/one": b"1", "d/sub/two": b"2", "growing": None}
        self.interrupted = threading.Event()

    def info(self):
        return {"session_id": self.id, "state": "ready", "image": self.image, "age_s": 3, "idle_s": 1,
                "executions": self.runs, "limits": {"memory": 1}, "note": "evil \x1b]0;title\x07"}


HOSTILE = ["../escaped", "/etc/escaped", "..", ".", "", "a/b", "evil\x1b[2J\nname", "link", "fifo", "planted/x", "ok",
           "linkdir", "n" * 300]


def entry(name, kind, size=0, mode=0o644):
    return {"name": name, "type": kind, "size": size, "mode": mode, "mtime": 0}


class Connection(threading.Thread):
    def __init__(self, sock):
        super().__init__(daemon=True)
        self.sock = sock
        self.own = None
        self.write_lock = threading.Lock()

    def send(self, obj):
        with self.write_lock:
            self.sock.sendall(json.dumps(obj).encode() + b"\n")

    def run(self):
        try:
            for line in self.sock.makefile("rb"):
                request = json.loads(line)
                if request["method"] in ("run", "stop"):
                    threading.Thread(target=self.handle, args=(request,), daemon=True).start()
                else:
                    self.handle(request)
        except OSError:
            pass
        if self.own:
            self.own.interrupted.set()
            sessions.pop(self.own.id, None)
        self.sock.close()

    def handle(self, request):
        try:
            name = "do_" + request["method"].replace(".", "_")
            result = getattr(self, name)(request.get("params", {}), request["id"])
            self.send({"id": request["id"], "result": result})
        except Refused as e:
            self.send({"id": request["id"], "error": {"kind": e.kind, "message": str(e)}})
        except OSError:
            pass
        if request["method"] == "stop":
            os._exit(0)

    def session(self, params):
        sid = params.get("session_id")
        with lock:
            if not sid:
                if not self.own:
                    self.own = Session("own%d" % os.getpid() + str(len(sessions)), params.get("image", "python"))
                    sessions[self.own.id] = self.own
                return self.own
            if sid not in sessions:
                if not params.get("create"):
                    raise Refused("session_not_found", "there is no session \"%s\"; list the sessions, or make one" % sid)
                sessions[sid] = Session(sid, params.get("image", "python"))
            return sessions[sid]

    def do_hello(self, params, rid):
        return {"version": "0", "pid": os.getpid(), "sessions": len(sessions)}

    def do_stop(self, params, rid):
        return {}

    def do_session_create(self, params, rid):
        if params.get("image") == "missing":
            raise Refused("image_not_found", "there is no image \"missing\"; list the images")
        s = Session(params.get("session_id") or "made%d" % len(sessions), params.get("image", "python"))
        sessions[s.id] = s
        return s.info()

    def do_session_list(self, params, rid):
        return {"sessions": [s.info() for s in sessions.values()]}

    def do_session_info(self, params, rid):
        return self.session(params).info()

    def do_session_close(self, params, rid):
        sessions.pop(self.session(params).id)
        return {}

    def do_interrupt(self, params, rid):
        self.session(params).interrupted.set()
        return {}

    def do_run(self, params, rid):
        if params.get("image") == "nosandbox":
            raise Refused("no_sandbox", "no sandbox can be made here. Remedy: sudo something")
        s = self.session(params)
        s.interrupted.clear()
        s.runs += 1
        self.send({"event": "start", "request": rid, "session_id": s.id, "execution_id": s.runs})
        x = {"session_id": s.id, "execution_id": s.runs, "status": "ok", "state_kept": True,
             "execution_count": s.runs, "stdout": "", "stderr": "", "output": "", "displays": [], "duration_ms": 1}
        s.argv = params.get("argv", s.argv)
        s.raw = params.get("raw", False)
        code = params["code"]
        for line in (base64.b64decode(code, validate=True).decode() if "file" in params else code).split("\n"):
            op, _, arg = line.partition(":")
            self.step(op, arg, s, x, rid, params)
        return x

    def output(self, rid, x, stream, text, s):
        x[stream] += text
        event = {"event": "output", "request": rid, "stream": stream}
        data = text.encode()
        with self.write_lock:
            self.sock.sendall(json.dumps(dict(event, bytes=len(data)) if s.raw else dict(event, text=text)).encode() +
                              b"\n" + (data if s.raw else b""))

    def display(self, rid, data, is_result=False):
        self.send({"event": "display", "request": rid, "data": data, "metadata": {}, "is_result": is_result})

    def step(self, op, arg, s, x, rid, params):
        if op == "out":
            self.output(rid, x, "stdout", arg.encode().decode("unicode_escape") if "\\" in arg else arg, s)
        elif op == "err":
            self.output(rid, x, "stderr", arg + "\n", s)
        elif op == "bytes":
            for _ in range(int(arg) // 1000):
                self.output(rid, x, "stdout", "y" * 1000, s)
        elif op == "result":
            x["result"] = arg
            self.display(rid, {"text/plain": arg}, True)
        elif op == "png":
            self.display(rid, {"image/png": PNG[:60] + "\n" + PNG[60:], "text/plain": "<Figure>"})
        elif op == "badpng":
            self.display(rid, {"image/png": "!!!", "text/plain": "<Figure>"})
        elif op == "svg":
            self.display(rid, {"image/svg+xml": "<svg/>"})
        elif op == "html":
            self.display(rid, {"text/html": "<b>x</b>", "text/plain": "table"})
        elif op == "argv":
            self.output(rid, x, "stdout", json.dumps(s.argv) + "\n", s)
        elif op == "params":
            self.output(rid, x, "stdout", json.dumps({k: v for k, v in params.items() if k not in ("code", "raw", "argv")},
                                                     sort_keys=True) + "\n", s)
        elif op == "error":
            name, _, value = arg.partition(":")
            x["status"] = "error"
            x["error"] = {"name": name, "value": value, "traceback": "Traceback\n%s: %s" % (name, value)}
        elif op == "exit":
            x["exit_code"] = int(arg)
            x["message"] = "the code asked to exit"
        elif op in ("timeout", "killed"):
            x["status"] = op
            x["message"] = "the code was ended: " + op
        elif op == "wait":
            self.output(rid, x, "stdout", "waiting\n", s)
            if s.interrupted.wait(60):
                x["status"] = "cancelled"
        elif op == "stubborn":
            self.output(rid, x, "stdout", "waiting\n", s)
            time.sleep(60)
        elif op == "die":
            os._exit(1)

    # ---- files ----

    def path(self, params):
        p = params["path"]
        while p.startswith("./"):
            p = p[2:].lstrip("/")
        while p.endswith("/."):
            p = p[:-2]
        return p.rstrip("/").replace("/./", "/") or "."

    def do_file_stat(self, params, rid):
        s, p = self.session(params), self.path(params)
        if p in s.files:
            data = s.files[p]
            return {"type": "file", "size": 100 if data is None else len(data), "mode": 0o755 if p == "bin" else 0o644,
                    "mtime": 0}
        if p in (".", "hostile", "endless", "deep") or p.startswith("deep/") or \
                any(f.startswith(p + "/") for f in s.files):
            return {"type": "directory", "size": 0, "mode": 0o755, "mtime": 0}
        raise Refused("not_found", "%s: No such file or directory" % params["path"])

    def do_file_read(self, params, rid):
        s, p = self.session(params), self.path(params)
        if p == "growing":
            return {"data": base64.b64encode(b"g" * 70).decode(), "size": 10 ** 9, "eof": False}
        if p.startswith("hostile/"):
            return {"data": base64.b64encode(b"hostile").decode(), "size": 7, "eof": True}
        if p not in s.files:
            raise Refused("not_found", "%s: No such file or directory" % params["path"])
        at = params.get("offset", 0)
        data = s.files[p][at:at + min(params.get("length", CHUNK), CHUNK)]
        return {"data": base64.b64encode(data).decode(), "size": len(s.files[p]),
                "eof": at + len(data) >= len(s.files[p])}

    def do_file_write(self, params, rid):
        s, p = self.session(params), self.path(params)
        data = base64.b64decode(params["data"], validate=True)
        if len(data) > CHUNK:
            raise Refused("invalid_argument", "too long")
        old = b"" if params.get("truncate") else s.files.get(p, b"")
        at = params.get("offset", 0)
        s.files[p] = old[:at].ljust(at, b"\0") + data + old[at + len(data):]
        return {"written": len(data)}

    def do_file_mkdir(self, params, rid):
        s, p = self.session(params), self.path(params)
        if p in s.files:
            raise Refused("exists", "%s: File exists" % p)
        s.files.setdefault(p + "/.keep", b"")
        return {}

    def do_file_list(self, params, rid):
        s, p = self.session(params), self.path(params)
        skip = params.get("skip", 0)
        if p == "endless":
            return {"entries": [], "more": True}
        if p == "deep" or p.startswith("deep/"):
            return {"entries": [entry("d", "directory", mode=0o755)] if not skip else [], "more": False}
        if p == "hostile":
            kinds = {"link": "symlink", "linkdir": "directory", "fifo": "other"}
            rows = [entry(n, kinds.get(n, "file"), 7) for n in HOSTILE]
            return {"entries": rows[skip:skip + 3], "more": skip + 3 < len(rows)}
        if p == "hostile/linkdir":
            return {"entries": [entry("inside", "file", 7)], "more": False}
        rows = {}
        for name, data in s.files.items():
            if data is None or not (p == "." or name.startswith(p + "/")):
                continue
            rest = name if p == "." else name[len(p) + 1:]
            first, slash, _ = rest.partition("/")
            rows[first] = entry(first, "directory" if slash else "file", 0 if slash else len(data))
        rows = [rows[k] for k in sorted(rows)]
        return {"entries": rows[skip:skip + 2], "more": skip + 2 < len(rows)}


def serve_mcp(sock):
    """An echo: each line comes back, but for notifications. "quit" ends the connection, "flood" sends a megabyte,
    "spoken" tells the messages so far, "hold" leaves those that follow without an answer."""
    spoken, hold = [], False
    try:
        f = sock.makefile("rb")
        for line in f:
            if line.startswith(b"{"):
                spoken.append(line.decode())
                if hold or "id" not in json.loads(line):
                    continue
            if line == b"hold\n":
                hold = True
                continue
            if line == b"spoken\n":
                sock.sendall(b"spoken " + json.dumps(spoken).encode() + b"\n")
                continue
            if line == b"quit\n":
                break
            if line == b"die\n":
                os._exit(0)
            if line == b"flood\n":
                sock.sendall((b"z" * 1023 + b"\n") * 1024)
                continue
            if line == b"linger\n":
                f.read()
                time.sleep(2)
            sock.sendall(line)
    except OSError:
        pass
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    sock.close()


def accept_loop(listener, serve):
    global deaf
    while True:
        sock, _ = listener.accept()
        with lock:
            if deaf > 0:
                deaf -= 1
                sock.close()
                continue
        serve(sock)


def main():
    assert os.environ["LISTEN_FDS"] == "2", os.environ.get("LISTEN_FDS")
    assert os.environ["LISTEN_PID"] == str(os.getpid()), (os.environ.get("LISTEN_PID"), os.getpid())
    assert os.environ["LISTEN_FDNAMES"] == "control:mcp"
    assert sorted(int(f) for f in os.listdir("/proc/self/fd"))[:5] == [0, 1, 2, 3, 4]
    assert os.readlink("/proc/self/fd/0") == "/dev/null"
    assert os.getsid(0) != 0 and os.getcwd() == "/"
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()
    starts = os.environ["FAKE_STARTS"]
    with open(starts, "a", encoding="ascii") as f:
        f.write("%d %s\n" % (os.getpid(), " ".join(sorted(os.listdir("/proc/self/fd"), key=int))))
    with open(starts, encoding="ascii") as f:
        if len(f.readlines()) <= int(os.environ.get("FAKE_DIE", "0")):
            sys.stderr.write("fake: broken\x1b on purpose\n")
            sys.stderr.flush()
            os._exit(1)
    time.sleep(float(os.environ.get("FAKE_SLOW", "0")))
    signal.alarm(120)
    control = socket.socket(fileno=3)
    mcp = socket.socket(fileno=4)
    threading.Thread(target=accept_loop, daemon=True, args=(
        mcp, lambda s: threading.Thread(target=serve_mcp, args=(s,), daemon=True).start())).start()
    accept_loop(control, lambda s: Connection(s).start())


if __name__ == "__main__":
    main()
