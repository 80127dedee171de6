# SPDX-License-Identifier: Apache-2.0
"""Real servers of PostgreSQL and MariaDB, each in a directory of its own, on a unix socket alone."""
import atexit
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

from guard import children

PASSWORD = "hunter2-{}'\"; %s" % os.urandom(6).hex()


def account():
    """Neither server runs as root."""
    if os.geteuid() != 0:
        return None
    for name in "postgres", "nobody":
        try:
            return pwd.getpwnam(name)
        except KeyError:
            pass
    return None


class Server:
    def __init__(self, name):
        self.dir = tempfile.mkdtemp(prefix="cbx-%s-" % name)
        self.who = account()
        os.chmod(self.dir, 0o755)
        if self.who:
            os.chown(self.dir, self.who.pw_uid, self.who.pw_gid)
        self.process = None
        self.log = open(os.path.join(self.dir, "log"), "wb")
        atexit.register(self.end)

    def become(self):
        if self.who:
            os.setgroups([])
            os.setgid(self.who.pw_gid)
            os.setuid(self.who.pw_uid)

    def call(self, *argv, input=None, **env):
        r = subprocess.run(argv, input=input, capture_output=True, text=True, preexec_fn=self.become, cwd=self.dir,
                           env={"PATH": os.environ["PATH"], "HOME": self.dir, "LANG": "C.UTF-8", **env}, timeout=120)
        assert r.returncode == 0, (argv, r.stdout, r.stderr)
        return r.stdout

    def serve(self, *argv):
        self.argv = argv
        self.process = subprocess.Popen(argv, stdout=self.log, stderr=self.log, preexec_fn=self.become, cwd=self.dir,
                                        env={"PATH": os.environ["PATH"], "HOME": self.dir, "LANG": "C.UTF-8"})
        for _ in range(600):
            if self.answers():
                return
            assert self.process.poll() is None, open(os.path.join(self.dir, "log"), errors="replace").read()[-3000:]
            time.sleep(0.1)
        raise AssertionError("%s does not answer" % argv[0])

    def kill(self):
        """All of it at once, as when the machine loses power."""
        for pid in [self.process.pid, *children(self.process.pid)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()

    def end(self):
        if self.process and self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.dir, True)


class Relay:
    """What is between a client and a server that listens at `path`: it carries nothing any more once that many bytes came back. It
    listens at a path, or (None) at a port of the loopback address."""

    def __init__(self, path, target):
        self.target, self.left, self.stalled, self.open = target, None, threading.Event(), []
        self.socket = socket.socket(socket.AF_UNIX if path else socket.AF_INET)
        self.socket.bind(path or ("127.0.0.1", 0))
        self.port = None if path else self.socket.getsockname()[1]
        if path:
            os.chmod(path, 0o777)
        self.socket.listen(8)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                here = self.socket.accept()[0]
            except OSError:
                return
            there = socket.socket(socket.AF_UNIX)
            there.connect(self.target)
            self.open += [here, there]
            threading.Thread(target=self.carry, args=(here, there, False), daemon=True).start()
            threading.Thread(target=self.carry, args=(there, here, True), daemon=True).start()

    def carry(self, source, sink, back):
        try:
            while data := source.recv(65536):
                if back and self.left is not None:
                    self.left -= len(data)
                    if self.left < 0:
                        self.stalled.set()
                if self.stalled.is_set():
                    return
                sink.sendall(data)
        except OSError:
            return
        for end in source, sink:
            try:
                end.shutdown(socket.SHUT_RDWR)  # which wakes the other thread, too
            except OSError:
                pass
            end.close()

    def end(self):
        self.socket.close()
        for s in self.open:
            s.close()


def mine(server, *paths):
    """Copies that the server's account alone can read: they want keys like that."""
    copies = []
    for path in paths:
        copies.append(os.path.join(server.dir, os.path.basename(path)))
        shutil.copyfile(path, copies[-1])
        os.chmod(copies[-1], 0o600)
        if server.who:
            os.chown(copies[-1], server.who.pw_uid, server.who.pw_gid)
    return copies


class PostgreSQL(Server):
    """With a certificate and its key it listens at a port of the loopback address, too."""

    def __init__(self, certificate=None, key=None, port=5432):
        super().__init__("pg")
        self.bin = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda p: int(p.split("/")[4]))[-1]
        data = os.path.join(self.dir, "data")
        self.call(self.bin + "/initdb", "-D", data, "-U", "admin", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8",
                  "--no-sync")
        with open(os.path.join(data, "pg_hba.conf"), "w") as f:
            f.write("local all admin trust\nlocal all all scram-sha-256\nhostssl all all 127.0.0.1/32 scram-sha-256\n")
        options = ["listen_addresses="]
        if certificate:
            certificate, key = mine(self, certificate, key)
            options = ["listen_addresses=127.0.0.1", "port=%d" % port, "ssl=on", "ssl_cert_file=" + certificate,
                       "ssl_key_file=" + key]
        self.port = port
        self.serve(self.bin + "/postgres", "-D", data, "-k", self.dir, "-c", "fsync=off", "-c",
                   "dynamic_shared_memory_type=mmap", *[word for o in options for word in ("-c", o)])

    def answers(self):
        return subprocess.run([self.bin + "/pg_isready", "-q", "-h", self.dir, "-p", str(self.port)]).returncode == 0

    def sql(self, text, database="postgres"):
        return self.call(self.bin + "/psql", "-h", self.dir, "-p", str(self.port), "-U", "admin", "-d", database, "-qAt", "-v", "ON_ERROR_STOP=1",
                         input=text).strip()

    def watch(self, query):
        return Watch(self, query)

    def connection(self, user="reader", database="shop"):
        return {"type": "postgresql", "server": self.dir, "database": database, "user": user,
                "password": {"environment": "SHOP_PASSWORD"}}


class Watch:
    """One psql that asks the same again and again: what it costs to start one is in no answer."""

    def __init__(self, pg, query):
        self.query = query
        self.process = subprocess.Popen([pg.bin + "/psql", "-h", pg.dir, "-p", str(pg.port), "-U", "admin", "-d", "postgres", "-qAtX"], text=True,
                                        bufsize=1, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=pg.become,
                                        env={"PATH": os.environ["PATH"], "HOME": pg.dir, "LANG": "C.UTF-8"})
        atexit.register(self.end)

    def __call__(self):
        self.process.stdin.write(self.query + ";\n")
        return tuple(map(float, self.process.stdout.readline().split("|")))

    def end(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait()


class MariaDB(Server):
    def __init__(self, certificate=None, key=None):
        super().__init__("my")
        self.socket = os.path.join(self.dir, "s")
        data = os.path.join(self.dir, "data")
        options = ["--no-defaults", "--datadir=" + data]
        self.call("mariadb-install-db", *options, "--auth-root-authentication-method=normal", "--skip-test-db")
        if certificate:
            certificate, key = mine(self, certificate, key)
            options += ["--ssl-cert=" + certificate, "--ssl-key=" + key]
        program = shutil.which("mariadbd") or "/usr/sbin/mariadbd"
        self.serve(program, *options, "--socket=" + self.socket, "--skip-networking", "--innodb-flush-method=fsync",
                   "--pid-file=" + os.path.join(self.dir, "pid"), "--secure-file-priv=", "--innodb-buffer-pool-size=16M")

    def answers(self):
        return subprocess.run(["mariadb", "--no-defaults", "-u", "root", "-S", self.socket, "-e", "SELECT 1"],
                              capture_output=True).returncode == 0

    def sql(self, text, database=""):
        return self.call("mariadb", "--no-defaults", "-u", "root", "-S", self.socket, "-N", "-B", *([database] if database else []),
                         input=text).strip()

    def connection(self, user="reader", database="shop"):
        return {"type": "mysql", "server": self.socket, "database": database, "user": user,
                "password": {"environment": "SHOP_PASSWORD"}}
