#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples of packaging/examples/proxy, each run by its own server in front of a codeboxd: REST, streams that come as they
are made, large bodies, names, cancelling, and MCP in both eras by the official Python client."""
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "clients"))
import common  # noqa: E402

common.enter_venv()

import anyio  # noqa: E402
import httpx2  # noqa: E402
from mcp import Client  # noqa: E402
from mcp.client.streamable_http import streamable_http_client  # noqa: E402

from common_http import META, MODERN, Box, Daemon, certificate, wait_until  # noqa: E402

EXAMPLES = Path(__file__).resolve().parents[2] / "packaging/examples/proxy"
tap = common.Tap()
box = Box()


def at(name):
    return os.path.join(box.dir, name)


def replaced(name, *pairs):
    """The example, with what this machine must have otherwise. Each is there once."""
    text = (EXAMPLES / name).read_text()
    for old, new in pairs:
        assert text.count(old) == 1, (name, old)
        text = text.replace(old, new)
    Path(at(name)).write_text(text)
    return at(name)


def nginx(port, upstream):
    conf = replaced("nginx.conf", ("\tserver 127.0.0.1:8080;", f"\tserver 127.0.0.1:{upstream};"),
                    ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
                    ("/etc/ssl/box.example.org/fullchain.pem", at("proxy.pem")),
                    ("/etc/ssl/box.example.org/privkey.pem", at("proxy.key")))
    temporary = "".join(f"{kind}_temp_path {at('nginx-' + kind)};\n" for kind in
                        ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    Path(at("main.conf")).write_text(f"daemon off;\npid {at('nginx.pid')};\nerror_log stderr;\nevents {{}}\n"
                                     f"http {{\naccess_log off;\n{temporary}include {conf};\n}}\n")
    return ["nginx", "-p", box.dir, "-e", "stderr", "-c", at("main.conf")]


def haproxy(port, upstream):
    both = Path(at("both.pem"))
    both.write_text(Path(at("proxy.pem")).read_text() + Path(at("proxy.key")).read_text())
    return ["haproxy", "-db", "-f",
            replaced("haproxy.cfg", ("server codebox 127.0.0.1:8080", f"server codebox 127.0.0.1:{upstream}"),
                     ("bind :443", f"bind 127.0.0.1:{port}"), ("/etc/haproxy/box.example.org.pem", str(both)))]


def caddy(port, upstream):
    conf = replaced("Caddyfile", ("reverse_proxy 127.0.0.1:8080", f"reverse_proxy 127.0.0.1:{upstream}"),
                    ("\nbox.example.org {\n", f"\nhttps://box.example.org:{port} {{\n\tbind 127.0.0.1\n"
                                              f"\ttls {at('proxy.pem')} {at('proxy.key')}\n"))
    text = Path(conf).read_text()
    Path(conf).write_text("{\n\tadmin off\n\tauto_https off\n}\n" + text)
    return ["caddy", "run", "--adapter", "caddyfile", "--config", conf]


class Proxy:
    """A server as its example has it, and the codeboxd behind it."""

    def __init__(self, make):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.name = f"box.example.org:{self.port}"
        self.url = f"https://localhost:{self.port}"
        self.daemon = Daemon("--http-url", f"https://{self.name}", tenants={"acme": {"requests_per_second": 1000}})
        self.headers = {"Authorization": f"Bearer {self.daemon.token('acme')}", "Host": self.name}
        self.log = open(at("proxy.log"), "w+")
        env = {**os.environ, "HOME": box.dir, "XDG_CONFIG_HOME": at("config"), "XDG_DATA_HOME": at("data")}
        self.process = subprocess.Popen(make(self.port, self.daemon.port), stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=subprocess.STDOUT, env=env)
        if not wait_until(self.answers):
            self.log.seek(0)
            raise AssertionError("the proxy does not answer: " + self.log.read())

    def context(self):
        return ssl.create_default_context(cafile=at("proxy.pem"))

    def client(self, **headers):
        """sni_hostname: Caddy has a certificate for the name alone."""
        async def name(request):
            request.extensions["sni_hostname"] = "box.example.org"
        return httpx2.AsyncClient(base_url=self.url, headers={**self.headers, **headers}, verify=self.context(),
                                  timeout=common.PATIENCE, event_hooks={"request": [name]})

    def answers(self):
        """Also of what it has behind it."""
        assert self.process.poll() is None, "the proxy has ended"
        try:
            with self.plain() as s:
                s.sendall(f"GET /ready HTTP/1.1\r\nHost: {self.name}\r\nConnection: close\r\n\r\n".encode())
                return s.recv(65536).startswith(b"HTTP/1.1 200 ")
        except OSError:
            return False

    def plain(self):
        return self.context().wrap_socket(socket.create_connection(("127.0.0.1", self.port), timeout=common.PATIENCE),
                                          server_hostname="box.example.org")

    def stop(self):
        self.process.terminate()
        self.process.wait(common.PATIENCE)
        return self.daemon.stop()


async def execute(c, code):
    return (await c.post("/execute", json={"session_id": "desk", "code": code})).json()["request_id"]


async def rest(p, what):
    async with p.client() as c:
        r = await c.post("/sessions", json={"session_id": "desk"})
        tap.ok(r.status_code == 200, f"{what}: a session", (r.status_code, r.text))
        ident = await execute(c, "6 * 7")
        r = await c.get(f"/execute/{ident}/results", params={"wait": 60})
        tap.equal(r.json()["output"][-1]["content"], "42", f"{what}: results")
        content = os.urandom(5 << 20)
        r = await c.put("/sessions/desk/files/large", content=content)
        tap.ok(r.status_code == 201, f"{what}: a file of 5 MiB", (r.status_code, r.text))
        r = await c.get("/sessions/desk/files/large")
        tap.ok(r.content == content, f"{what}: and back")
        r = await c.get("/sessions/desk/files/large", headers={"Range": "bytes=5-9"})
        tap.equal((r.status_code, r.content), (206, content[5:10]), f"{what}: a part of it")
        # A small one: Caddy resets the connection of a client that sends much more than is taken.
        r = await c.put("/sessions/desk/files/small", content=content[:100000], headers={"Authorization": "Bearer nobody"})
        tap.ok(r.status_code == 401, f"{what}: a body without a token is refused as such", (r.status_code, r.text))


async def stream(p, what, accept):
    """The cell continues when the client has seen what it said before: whoever keeps that back never gets the end."""
    async with p.client(Accept=accept) as c:
        ident = await execute(c, "import os, time\nfor i in range(3):\n    print(f'line{i}', flush=True)\n"
                                 "    while not os.path.exists(f'seen{i}'): time.sleep(0.05)\n    os.remove(f'seen{i}')")
        seen = 0
        async with c.stream("GET", f"/execute/{ident}/stream") as r:
            async for line in r.aiter_lines():
                while seen < 3 and f"line{seen}" in line:
                    await c.put(f"/sessions/desk/files/seen{seen}", content=b"")
                    seen += 1
                if '"end"' in line or line.startswith("event: end"):
                    break
        tap.equal((seen, r.headers["content-type"].split(";")[0]), (3, accept), f"{what}: {accept} comes as it is made")


async def names(p, what):
    for headers, status in ({}, 200), ({"Origin": f"https://{p.name}"}, 200), ({"Origin": "https://evil.example"}, 403):
        async with p.client(**headers) as c:
            r = await c.get("/sessions")
            tap.ok(r.status_code == status, f"{what}: {headers or 'no origin'}", (r.status_code, r.text))


async def cancelled(p, what):
    """From revision 2026-07-28 on a client that disconnects has cancelled its request, through the proxy, too."""
    params = {"name": "run_code", "arguments": {"session_id": "desk", "code": "x = 'ran'\nimport time\nwhile True: time.sleep(0.1)",
                                                "timeout": 600},
              "_meta": {META + "protocolVersion": MODERN, META + "clientCapabilities": {},
                        META + "clientInfo": {"name": "raw", "version": "0"}}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    async with p.client() as c:
        with p.plain() as s:
            s.sendall((f"POST /mcp HTTP/1.1\r\nHost: {p.name}\r\nAuthorization: {p.headers['Authorization']}\r\n"
                       f"Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
                       f"MCP-Protocol-Version: {MODERN}\r\nMcp-Method: tools/call\r\nMcp-Name: run_code\r\n"
                       f"Content-Length: {len(body)}\r\n\r\n{body}").encode())
            # It is streamed when it takes longer than a second, so it runs then.
            tap.ok(s.recv(65536).startswith(b"HTTP/1.1 200 "), f"{what}: a cell that does not end")
        ident = await execute(c, "x")
        r = await c.get(f"/execute/{ident}/results", params={"wait": 60})
        tap.ok(r.status_code == 200 and "ran" in r.text, f"{what}: ends when its client disconnects", r.text)


async def mcp(p, what, mode, version):
    http = p.client()
    async with Client(streamable_http_client(p.url + "/mcp", http_client=http), mode=mode,
                      read_timeout_seconds=common.PATIENCE) as c:
        tap.equal(c.protocol_version, version, f"{what}: revision")
        heard = []

        async def on_progress(progress, total, message):
            heard.append(progress)

        r = await c.call_tool("run_code", {"session_id": "desk", "code": "import time\nfor i in range(8):\n"
                                           "    print(i, flush=True)\n    time.sleep(0.2)\n'end'"},
                              progress_callback=on_progress)
        tap.equal(r.structured_content["result"], "'end'", f"{what}, {mode}: a result")
        tap.ok(len(heard) >= 2, f"{what}, {mode}: progress", heard)


async def main(p, what):
    await tap.run_async(f"{what}: REST", rest, p, what)
    await tap.run_async(f"{what}: events", stream, p, what, "text/event-stream")
    await tap.run_async(f"{what}: lines", stream, p, what, "application/x-ndjson")
    await tap.run_async(f"{what}: names", names, p, what)
    await tap.run_async(f"{what}: cancelling", cancelled, p, what)
    await tap.run_async(f"{what}: MCP", mcp, p, what, "legacy", "2025-11-25")
    await tap.run_async(f"{what}: MCP of the later era", mcp, p, what, "auto", "2026-07-28")


if __name__ == "__main__":
    os.environ["PATH"] += ":/usr/sbin"
    servers = [nginx, haproxy, caddy]
    missing = [s.__name__ for s in servers if not shutil.which(s.__name__)]
    if missing:
        common.skip_all(f"there is no {', '.join(missing)}")
    certificate(at("proxy"))
    for s in servers:
        proxy = Proxy(s)
        anyio.run(main, proxy, s.__name__)
        tap.equal(proxy.stop(), 0, f"{s.__name__}: codeboxd's exit status")
    tap.done()
