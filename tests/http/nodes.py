#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example of packaging/examples/nodes, by HAProxy itself in front of three codeboxds, each in a network of its own with the
address that it has there: sessions are made on all of them, and each request finds its own, by REST and by MCP; one is added, one
drained and one killed, all under load."""
import asyncio
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "clients"))
import common  # noqa: E402

common.enter_venv()

import httpx2  # noqa: E402
from mcp import Client  # noqa: E402
from mcp.client.streamable_http import streamable_http_client  # noqa: E402

from common_http import DAEMON, Box, Daemon, certificate, wait_until  # noqa: E402
import cbxtest  # noqa: E402
import ownnet  # noqa: E402

EXAMPLE = Path(__file__).resolve().parents[2] / "packaging/examples/nodes/haproxy.cfg"
NAME = "box.example.org"
tap = common.Tap()
box = Box()
networks = {}  # by the name of a machine: its address, and the program that is its codeboxd


def at(name):
    return os.path.join(box.dir, name)


def command(name, *words):
    """A program of the test's, which runs these."""
    path = at(name)
    Path(path).write_text("#!/bin/sh\nexec " + " ".join(words) + ' "$@"\n')
    os.chmod(path, 0o755)
    return path


def enter():
    """Move into a network of the test's own, with one behind it for each machine, all of which end with the test. An ordinary user
    is root there, so that he can make them, and himself again in all that is codebox's."""
    uid, gid = os.getuid(), os.getgid()
    ownnet.unshare((ownnet.NEWUSER if uid else 0) | ownnet.NEWNET)
    if uid:
        ownnet.map_ids((0, 0), (uid, gid))
    himself = ["unshare", "--user", f"--map-user={uid}", f"--map-group={gid}"] if uid else []
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    for i, name in enumerate("abcd"):
        address = f"192.0.2.{11 + i}"
        ownnet.unshare(ownnet.NEWNET)
        there = os.open("/proc/self/ns/net", os.O_RDONLY)
        inside = f"""
            ip link set lo up
            ip link add eth0 type veth peer name {name} netns /proc/{os.getpid()}/fd/{here}
            ip address add {address} peer 192.0.2.1 dev eth0
            ip link set eth0 up"""
        outside = f"ip address add 192.0.2.1 peer {address} dev {name}; ip link set dev {name} up"
        subprocess.run(["sh", "-ec", inside], check=True)
        if ownnet.LIBC.setns(here, ownnet.NEWNET) < 0:
            raise ownnet.Impossible("setns")
        subprocess.run(["sh", "-ec", outside], check=True)
        networks[name] = address, command(f"codeboxd-{name}", "nsenter", f"--net=/proc/{os.getpid()}/fd/{there}", *himself, DAEMON)
    cbxtest.CODEBOX = command("codebox", *himself, common.CODEBOX)


class Node(Daemon):
    """A codeboxd with the tenants and tokens of the first."""

    def __init__(self, name, first=None):
        self.name, self.first, (self.address, program) = name, first, networks[name]
        super().__init__("--node", name, "--agent", f"{self.address}:8081", "--http-url", f"https://{NAME}", "--pool", "1",
                         "--http-certificate", at("node.pem"), "--http-key", at("node.key"),
                         tenants={"acme": {"requests_per_second": 1000}}, address=f"{self.address}:8443", program=program)

    def write(self, tenants):
        super().write(tenants)
        if self.first:
            source = os.path.join(self.first.config, "tokens.json")
            copy = shutil.copy(source, os.path.join(self.config, "tokens.json"))
            st = os.stat(source)
            os.chown(copy, st.st_uid, st.st_gid)
            os.chmod(copy, st.st_mode & 0o777)

    def says(self):
        with socket.create_connection((self.address, 8081), timeout=common.PATIENCE) as s:
            return s.makefile().read()


class Haproxy:
    """As the example has it, but for its own address and places of files."""

    def __init__(self, nodes, headers):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.url, self.headers = f"https://localhost:{self.port}", {**headers, "Host": NAME}
        Path(at("both.pem")).write_text(Path(at("proxy.pem")).read_text() + Path(at("proxy.key")).read_text())
        text = EXAMPLE.read_text()
        pairs = [("stats socket /run/haproxy/admin.sock", f"stats socket {at('admin.sock')}"),
                 ("bind :443", f"bind 127.0.0.1:{self.port}"), ("/etc/haproxy/box.example.org.pem", at("both.pem")),
                 ("/etc/haproxy/nodes.pem", at("node.pem"))]
        for old, new in pairs:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        Path(at("haproxy.cfg")).write_text(text)
        self.log = open(at("proxy.log"), "w+")
        self.process = subprocess.Popen(["haproxy", "-db", "-f", at("haproxy.cfg")], stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=subprocess.STDOUT)
        assert wait_until(lambda: self.up() == {n.name for n in nodes}), (self.said(), self.states())

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def ask(self, *commands):
        """What the administration answers."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(common.PATIENCE)
            s.connect(at("admin.sock"))
            s.sendall(("; ".join(commands) + "\n").encode())
            return s.makefile().read()

    def states(self):
        """What it thinks of each machine."""
        try:
            lines = self.ask("show stat nodes 4 -1").splitlines()
        except OSError:
            assert self.process.poll() is None, "HAProxy has ended: " + self.said()
            return {}
        names = lines[0].lstrip("# ").split(",")
        rows = [dict(zip(names, line.split(","))) for line in lines[1:] if line]
        return {r["svname"]: (r["status"], r["agent_status"]) for r in rows}

    def up(self):
        """Those whose health is known to be good, and whose agent was heard."""
        return {name for name, (status, agent) in self.states().items() if status == "UP" and agent in ("CHECKED", "L7OK")}

    def client(self, **headers):
        context = ssl.create_default_context(cafile=at("proxy.pem"))
        return httpx2.AsyncClient(base_url=self.url, headers={**self.headers, **headers}, verify=context,
                                  timeout=common.PATIENCE)


def node_of(ident):
    return ident.partition(".")[0]


class Unserved(Exception):
    """HAProxy says so: there is no machine for it, or that has gone."""


def served(r, *about):
    if r.status_code in (502, 503):
        raise Unserved(r.status_code)
    assert r.status_code == 200, (*about, r.status_code, r.text)
    return r.json()


async def create(c, **fields):
    return served(await c.post("/sessions", json=fields))["session_id"]


async def run(c, session, code):
    r = served(await c.post("/execute", json={"code": code, "session_id": session}), session)
    answer = served(await c.get(f"/execute/{r['request_id']}/results", params={"wait": 60}), session)
    assert answer["output"], (session, answer)
    return answer["output"][-1]["content"]


async def create_until(c, wanted):
    """Sessions by their nodes, when each of these has one."""
    found, deadline = {}, time.monotonic() + common.PATIENCE
    while not wanted <= set(found) and time.monotonic() < deadline:
        ident = await create(c)
        if found.setdefault(node_of(ident), ident) != ident:
            assert (await c.delete(f"/sessions/{ident}")).status_code == 200
    return found


async def until(condition):
    """The load continues meanwhile."""
    deadline = time.monotonic() + common.PATIENCE
    while not condition() and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    return condition()


class Load:
    """Sessions that come and go, for as long as a "with" lasts. All that it asks must go well, but where a machine is killed: there
    what it was asked is answered with 502 or 503, or its answer ends early."""

    def __init__(self, proxy, killed=False):
        self.client, self.over, self.done, self.nodes, self.killed, self.lost = proxy.client(), False, 0, set(), killed, 0

    async def __aenter__(self):
        self.task = asyncio.create_task(self.work())
        return self

    async def __aexit__(self, *_):
        self.over = True
        await self.task
        await self.client.aclose()

    async def work(self):
        while not self.over:
            try:
                ident = await create(self.client)
                self.nodes.add(node_of(ident))
                assert await run(self.client, ident, "6 * 7") == "42"
                served(await self.client.delete(f"/sessions/{ident}"), ident)
                self.done += 1
            except (Unserved, httpx2.RemoteProtocolError):
                assert self.killed, "an answer was lost"
                self.lost += 1


async def rest(proxy, sessions):
    async with proxy.client() as c:
        sessions.update(await create_until(c, {"a", "b", "c"}))
        tap.equal(sorted(sessions), ["a", "b", "c"], "sessions are made on each machine")
        for node, ident in sessions.items():
            tap.ok(re.fullmatch(rf"{node}\.[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}", ident), "an id", ident)
            await run(c, ident, f"x = '{node}'; x")
        for node, ident in sessions.items():
            tap.equal(await run(c, ident, "x"), f"'{node}'", f"{node}: cells find it")
            r = await c.put(f"/sessions/{ident}/files/here", content=node.encode())
            tap.equal(r.status_code, 201, f"{node}: files find it")
            r = await c.get(f"/sessions/{ident}/files/here")
            tap.equal((r.status_code, r.text), (200, node), f"{node}: and back")
            r = await c.get("/sessions", headers={"Codebox-Node": node})
            tap.equal({node_of(s["session_id"]) for s in r.json()["sessions"]}, {node}, f"{node}: the list of one machine")
        r = await c.get("/sessions/nowhere.abc")
        tap.equal(r.status_code, 404, "a machine that is not there")
        r = await c.get(f"/sessions/{sessions['a']}x")
        tap.equal(r.status_code, 404, "a session that is not there")
        for ident in ("b.mine", "c.mine", "a.mine") * 2:
            tap.equal(await create(c, session_id=ident), ident, "a machine makes the session that is named after it")
            await c.delete(f"/sessions/{ident}")
        r = await c.post("/sessions", json={"session_id": "work"})
        tap.ok(r.status_code == 400 and "does not begin with" in r.text, "an id that no request would find", r.text)


async def legacy(proxy):
    """A client's sessions are where its own is."""
    async with proxy.client() as http, Client(streamable_http_client(proxy.url + "/mcp", http_client=http), mode="legacy",
                                              read_timeout_seconds=common.PATIENCE) as c:
        first = (await c.call_tool("run_code", {"code": "x = 41"})).structured_content["session_id"]
        for _ in range(3):
            r = (await c.call_tool("run_code", {"code": "x + 1"})).structured_content
            tap.equal((r["session_id"], r["result"]), (first, "42"), "MCP of the handshake era: the same session")
        other = (await c.call_tool("create_session", {})).structured_content["session_id"]
        tap.equal(node_of(other), node_of(first), "and its other sessions beside it")
        for ident in (first, other):  # a machine that is drained waits for what it has
            await c.call_tool("close_session", {"session_id": ident})


async def modern(proxy):
    """Each request is routed by itself."""
    async with proxy.client() as http, Client(streamable_http_client(proxy.url + "/mcp", http_client=http), mode="auto",
                                              read_timeout_seconds=common.PATIENCE) as c:
        tap.equal(c.protocol_version, "2026-07-28", "the later era")
        made = [(await c.call_tool("run_code", {"code": f"x = {i}"})).structured_content["session_id"] for i in range(6)]
        tap.ok(len({node_of(ident) for ident in made}) > 1, "MCP of the later era: sessions on several machines", made)
        for i, ident in enumerate(made):
            r = (await c.call_tool("run_code", {"code": "x", "session_id": ident})).structured_content
            tap.equal((r["session_id"], r["result"]), (ident, str(i)), "and each call finds its own")
            r = await c.read_resource(f"codebox://sessions/{ident}")
            tap.ok(ident in r.contents[0].text, "so does a resource", r)
            await c.call_tool("close_session", {"session_id": ident})


async def added(proxy, node):
    """By HAProxy's administration, while others work."""
    verify = f"ssl verify required ca-file {at('node.pem')}"
    async with Load(proxy) as load:
        answers = [proxy.ask(command) for command in
                   (f"add server nodes/{node.name} {node.address}:8443 agent-port 8081 weight 100 check check-ssl inter 2s fall 2 rise 1 agent-check agent-inter 2s "
                    f"{verify}",
                    f"enable health nodes/{node.name}", f"enable agent nodes/{node.name}", f"enable server nodes/{node.name}")]
        tap.ok("registered" in answers[0], "a machine is added", answers)
        tap.ok(await until(lambda: node.name in load.nodes), "and gets sessions", (load.nodes, proxy.states()))


async def drained(proxy, node, sessions):
    async with Load(proxy) as load, proxy.client() as c:
        waits = subprocess.Popen([cbxtest.CODEBOX, "stop", "--drain"], env=node.box.env, stderr=subprocess.PIPE, text=True)
        tap.ok(await until(lambda: node.says() == "drain\n"), "the agent says that it drains", node.says())
        tap.ok(await until(lambda: proxy.states()[node.name][0].startswith("DRAIN")), "HAProxy heard it", proxy.states())
        made = [await create(c) for _ in range(6)]
        tap.ok(node.name not in {node_of(ident) for ident in made}, "no new sessions", made)
        for ident in made:
            await c.delete(f"/sessions/{ident}")
        tap.equal(await run(c, sessions[node.name], "x"), f"'{node.name}'", "its session is served")
        r = await c.get("/ready", headers={"Codebox-Node": node.name})
        tap.equal(r.status_code, 503, "it is not ready for others")
        n = load.done
        tap.ok(await until(lambda: load.done > n), "others work meanwhile")
        tap.equal((waits.poll(), node.process.poll()), (None, None), "it waits for its session")
    async with proxy.client() as c:
        r = await c.delete(f"/sessions/{sessions[node.name]}")
        tap.equal(r.status_code, 200, "its session ends")
    tap.equal(await asyncio.to_thread(waits.wait, common.PATIENCE), 0, "the command ends with the last session")
    tap.equal(await asyncio.to_thread(node.process.wait, common.PATIENCE), 0, "and so does codeboxd")


async def killed(proxy, node, sessions):
    async with Load(proxy, killed=True) as load, proxy.client() as c:
        tap.ok(await until(lambda: node.name in load.nodes), "it works as the others do", load.nodes)
        node.process.kill()
        node.process.wait(common.PATIENCE)
        r = await c.get(f"/sessions/{sessions[node.name]}")
        tap.ok(r.status_code in (502, 503), "its session is not to be had", r.status_code)
        tap.equal(await run(c, sessions["a"], "x"), "'a'", "others are")
        tap.ok(await until(lambda: proxy.states()[node.name][0] == "DOWN"), "HAProxy has seen it", proxy.states())
        lost = load.lost
        r = await c.get(f"/sessions/{sessions[node.name]}")
        tap.equal(r.status_code, 503, "and no other machine answers for it")
        made = {node_of(await create(c)) for _ in range(6)}
        tap.ok(made and node.name not in made, "new sessions are made elsewhere", made)
        n = load.done
        tap.ok(await until(lambda: load.done > n), "others work meanwhile")
        tap.ok(load.lost <= lost + 1, "and lose nothing more", (lost, load.lost))


async def by_signal(proxy, node):
    """SIGUSR1; a machine without sessions ends at once."""
    async with proxy.client() as c:
        r = await c.get("/sessions", headers={"Codebox-Node": node.name})
        for s in r.json()["sessions"]:
            await c.delete(f"/sessions/{s['session_id']}")
    node.process.send_signal(signal.SIGUSR1)
    tap.equal(await asyncio.to_thread(node.process.wait, common.PATIENCE), 0, "drained by a signal")


def test_names():
    """What is not the name of a machine, or an address."""
    for options, variable, words in (
            (["--node", "A"], "", '--node: "A" is not a node'), (["--node", "-a"], "", "--node: "),
            (["--node", ""], "", "--node: "), (["--node", "a.b"], "", "--node: "), (["--node", "a" * 17], "", "1 to 16"),
            ([], "no_name", 'CODEBOX_NODE: "no_name" is not a node'),
            (["--agent", "70000"], "", "--agent: the port: "), (["--agent", "box:1"], "", '--agent: "box" is not a numeric')):
        r = subprocess.run([networks["a"][1], "--foreground", *options], env={**box.env, "CODEBOX_NODE": variable}, text=True,
                           capture_output=True, timeout=common.PATIENCE)
        tap.ok(r.returncode in (1, 2) and re.search(words, r.stderr), f"{options} {variable}", (r.returncode, r.stderr))


async def main(nodes, proxy):
    sessions = {}
    await tap.run_async("REST", rest, proxy, sessions)
    await tap.run_async("MCP of the handshake era", legacy, proxy)
    await tap.run_async("MCP of the later era", modern, proxy)
    nodes["d"] = Node("d", nodes["a"])
    await tap.run_async("added", added, proxy, nodes["d"])
    await tap.run_async("drained", drained, proxy, nodes["b"], sessions)
    await tap.run_async("killed", killed, proxy, nodes["c"], sessions)
    await tap.run_async("a signal", by_signal, proxy, nodes["d"])


if __name__ == "__main__":
    os.environ["PATH"] += ":/usr/sbin"
    if not shutil.which("haproxy"):
        common.skip_all("there is no haproxy")
    try:
        enter()
    except (ownnet.Impossible, OSError, subprocess.CalledProcessError) as e:
        common.skip_all(f"no networks of its own can be made here: {e}")
    test_names()
    certificate(at("proxy"))
    certificate(at("node"))
    machines = {"a": Node("a")}
    token = machines["a"].token("acme")
    machines.update({name: Node(name, machines["a"]) for name in "bc"})
    tap.ok(re.fullmatch(r"up ready ([1-9]\d?|100)%\n", machines["a"].says()), "what the agent says", machines["a"].says())
    balancer = Haproxy(list(machines.values()), {"Authorization": f"Bearer {token}"})
    asyncio.run(main(machines, balancer))
    balancer.process.terminate()
    balancer.process.wait(common.PATIENCE)
    for machine in machines.values():
        if machine.process.poll() is None:
            tap.equal(machine.stop(), 0, f"{machine.name}: codeboxd's exit status")
    tap.done()
