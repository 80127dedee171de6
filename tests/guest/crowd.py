#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The system's service with many tenants, as its operator has it: started by its socket, reloaded under load, and killed under
load, codeboxd or its supervisor, again and again. All tenants use the same ids of sessions, so that an answer from another's
would show. As root, with the units installed; the rounds of killing are CBX_KILL_ROUNDS (default 100).
"""
import glob
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cbxtest import CODEBOX, children, identity, named, run, wait_until  # noqa: E402

ROUNDS = int(os.environ.get("CBX_KILL_ROUNDS", "100"))
PATIENCE = 300
NAMES = [f"t{i}" for i in range(50)]
SESSIONS = [f"s{i}" for i in range(4)]
PORT = 8080
tokens = {}


def systemctl(*args):
    return subprocess.run(["systemctl", *args], capture_output=True, text=True, check=True).stdout.strip()


def daemon():
    return int(systemctl("show", "-P", "MainPID", "codeboxd.service"))


class Gone(Exception):
    """The server, or the session, has ended meanwhile."""


class Tenant:
    """A connection of a tenant's."""

    def __init__(self, name):
        self.name, self.c = name, http.client.HTTPConnection("127.0.0.1", PORT, timeout=PATIENCE)

    def ask(self, method, path, body=None):
        try:
            self.c.request(method, path, body and json.dumps(body), {"Authorization": f"Bearer {tokens[self.name]}",
                                                                    "Content-Type": "application/json"})
            r = self.c.getresponse()
            text = r.read()
        except (OSError, http.client.HTTPException) as e:
            self.c.close()
            raise Gone(repr(e)) from e
        if r.status in (404, 410, 503):
            raise Gone(r.status, text)
        assert r.status in (200, 201), (self.name, method, path, r.status, text)
        return json.loads(text)

    def secret(self, session):
        return f"{self.name}'s {session}"

    def make(self, session):
        self.ask("POST", "/sessions", {"session_id": session})
        self.cell(session, f"x = {self.secret(session)!r}")

    def cell(self, session, code):
        request = self.ask("POST", "/execute", {"session_id": session, "code": code})["request_id"]
        while self.ask("GET", f"/execute/{request}/status?wait=60")["status"] not in ("completed", "error"):
            pass
        results = [self.ask("GET", f"/execute/{request}/results") for _ in range(2)]
        assert results[0] == results[1] and results[0]["error"] is None, results
        return results[0]["output"]

    def check(self, session):
        """Its own variable, and nobody else's."""
        output = self.cell(session, "x")
        assert [o["content"] for o in output] == [repr(self.secret(session))], (self.name, session, output)

    def sessions(self):
        return sorted(s["session_id"] for s in self.ask("GET", "/sessions")["sessions"])


class Load:
    """Cells of all tenants; sessions that are not there, or not any more, are made."""

    def __init__(self, threads=4):
        self.over, self.done, self.wrong = False, 0, []
        self.threads = [threading.Thread(target=self.work) for _ in range(threads)]

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, kind, *_):
        self.over = True
        for t in self.threads:
            t.join(PATIENCE)
        if kind is None:
            assert not self.wrong and not any(t.is_alive() for t in self.threads), self.wrong

    def work(self):
        while not self.over and not self.wrong:
            t, session = Tenant(random.choice(NAMES)), random.choice(SESSIONS)
            try:
                try:
                    t.check(session)
                except Gone:
                    t.make(session)
                    t.check(session)
                self.done += 1
            except Gone:
                time.sleep(0.1)
            except AssertionError as e:
                if "NameError" not in str(e) and "already" not in str(e):  # another thread is just making it
                    self.wrong.append(e)
            except Exception as e:
                self.wrong.append(e)
            finally:
                t.c.close()

    def goes_on(self):
        n = self.done
        assert wait_until(lambda: self.done > n + 2 or self.wrong, PATIENCE) and not self.wrong, (self.done, n, self.wrong)


def everybody(what):
    """In a few threads, for each session of each tenant."""
    wrong, todo = [], [(name, session) for name in NAMES for session in SESSIONS]

    def work():
        while todo and not wrong:
            try:
                name, session = todo.pop()
            except IndexError:
                return
            t = Tenant(name)
            try:
                what(t, session)
            except Exception as e:
                wrong.append((name, session, e))
            finally:
                t.c.close()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and not todo, (wrong, todo)


def configured(**more):
    with open("/etc/codebox/tenants.json", "w") as f:
        json.dump({"tenants": {name: {"sessions": len(SESSIONS), **more} for name in NAMES}}, f)


def test_the_socket_starts_it():
    os.makedirs("/etc/codebox", exist_ok=True)
    with open("/etc/codebox/policy.json", "w") as f:
        json.dump({"include": ["default"], "images": ["host"], "isolation": {"cgroup": "required"},
                   "limits": {"memory": "64M", "disk": "16M", "sessions": 256, "memory_together": 0}}, f)
    configured()
    for name in NAMES:
        tokens[name] = subprocess.run([CODEBOX, "token", "create", "--tenant", name], capture_output=True, text=True,
                                      check=True).stdout.strip()
    os.makedirs("/etc/systemd/system/codeboxd.socket.d", exist_ok=True)
    with open("/etc/systemd/system/codeboxd.socket.d/crowd.conf", "w") as f:
        f.write(f"[Socket]\nListenStream=127.0.0.1:{PORT}\n")
    systemctl("daemon-reload")
    systemctl("start", "codeboxd.socket")
    assert systemctl("show", "-P", "ActiveState", "codeboxd.service") == "inactive"
    assert Tenant(NAMES[0]).sessions() == []
    assert systemctl("show", "-P", "ActiveState", "codeboxd.service") == "active"


def test_all_have_their_sessions():
    everybody(Tenant.make)
    for name in NAMES:
        assert Tenant(name).sessions() == SESSIONS, name
    everybody(Tenant.check)


def test_a_reload_under_load():
    pid = daemon()
    with Load() as load:
        for i in range(3):
            load.goes_on()
            configured(executions_per_second=1000 + i)
            systemctl("reload", "codeboxd.service")
            load.goes_on()
    assert daemon() == pid
    everybody(Tenant.check)


def test_killed_under_load():
    family, group = set(), "/sys/fs/cgroup" + systemctl("show", "-P", "ControlGroup", "codeboxd.service")
    with Load() as load:
        for i in range(ROUNDS):
            load.goes_on()
            main = daemon()
            supervisor = next(iter(named(main, "codebox-supervisor")), None)
            victim = random.choice([main, supervisor or main])
            family = {identity(p) for p in [main, *children(main)]} - {None}
            time.sleep(random.random())
            os.kill(victim, signal.SIGKILL)
            assert wait_until(lambda: not [f for f in family if identity(f[0]) == f], PATIENCE), (i, victim == main)
            load.goes_on()
            now = {p for p in [daemon(), *children(daemon())]}
            inside = set()
            for path in glob.glob(group + "/**/cgroup.procs", recursive=True):
                try:
                    with open(path) as f:
                        inside.update(map(int, f.read().split()))
                except OSError:
                    pass  # the group of a session that has just ended
            strangers = {p for p in inside - now if identity(p) and p not in set(children(daemon()))}
            assert not strangers, (i, strangers)
            print(f"# killed {i + 1} times of {ROUNDS}", flush=True)
    for name in NAMES:
        assert set(Tenant(name).sessions()) <= set(SESSIONS), name


def test_nothing_is_left():
    systemctl("stop", "codeboxd.socket", "codeboxd.service")
    assert wait_until(lambda: subprocess.run(["pgrep", "codeboxd|codebox-supervi|codebox-init"], capture_output=True).returncode == 1, PATIENCE)
    assert not glob.glob("/sys/fs/cgroup/system.slice/codeboxd.service")


if __name__ == "__main__":
    run(globals())
