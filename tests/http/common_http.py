# SPDX-License-Identifier: Apache-2.0
"""What the HTTP tests share: servers on a free loopback port, and requests with no library above http.client."""
import base64
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
from cbxtest import Box, Skip, wait_until  # noqa: E402

FIXTURE = os.environ.get("CODEBOX_CONFORMANCE_FIXTURE") or os.path.abspath("tests/conformance/fixture")
DAEMON = os.environ.get("CODEBOX_DAEMON") or "codeboxd"
PATIENCE = 180  # seconds until something that does not come is a failure; nothing depends on how fast it comes
MODERN = "2026-07-28"
LEGACY = "2025-11-25"
BOTH = "application/json, text/event-stream"
META = "io.modelcontextprotocol/"


class Fixture:
    """The conformance fixture: HTTP and protocol core, with no sandbox beneath."""

    def __init__(self, *args):
        if not os.access(FIXTURE, os.X_OK):
            raise Skip(f"{FIXTURE} was not built")
        self.process = subprocess.Popen([FIXTURE, *(args or ["127.0.0.1:0"])], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        self.port = int(re.search(r":(\d+)/mcp$", self.url).group(1))
        self.pid = self.process.pid

    def stop(self):
        self.process.stdin.close()
        return self.process.wait(PATIENCE)


class Daemon:
    """A codeboxd of its own, with --http. tenants: what tenants.json has, if there is one."""

    def __init__(self, *args, tenants=None, address="127.0.0.1:0", program=DAEMON, **env):
        self.box = Box(**env)
        self.config = self.box.env["CODEBOX_CONFIG_DIR"] = os.path.join(self.box.dir, "config")
        self.log = []
        if tenants is not None:
            self.write(tenants)
        self.process = subprocess.Popen([program, "--foreground", "--http", address, *args], env=self.box.env,
                                        stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        self.pid = self.process.pid
        for line in self.process.stderr:
            self.log.append(line)
            m = re.search(r"(https?)://([\d.]+):(\d+)/mcp", line)
            if m:
                host = m.group(2).replace("0.0.0.0", "127.0.0.1")
                self.url, self.port = f"{m.group(1)}://{host}:{m.group(3)}/mcp", int(m.group(3))
                self.reader = threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True)
                self.reader.start()
                return
        raise AssertionError("codeboxd did not start: " + "".join(self.log))

    def write(self, tenants):
        """A new tenants.json, in the place of the old one."""
        os.makedirs(self.config, 0o755, exist_ok=True)
        path = os.path.join(self.config, "tenants.json")
        with open(path + ".new", "w") as f:
            f.write(tenants if isinstance(tenants, str) else json.dumps({"tenants": tenants}))
        os.chmod(path + ".new", 0o644)
        os.rename(path + ".new", path)

    def token(self, tenant, *args):
        """The text of a new token."""
        return self.box.json("token", "create", "--json", "--tenant", tenant, *args)["token"]

    def reload(self):
        """SIGHUP, and what the log says of it."""
        n = len(self.log)
        self.process.send_signal(signal.SIGHUP)
        assert wait_until(lambda: any("SIGHUP: done" in line for line in self.log[n:])), self.log
        return "".join(self.log[n:])

    def stop(self):
        self.process.terminate()
        self.reader.join(PATIENCE)
        return self.process.wait(PATIENCE)


def openssl(*args):
    if not shutil.which("openssl"):
        raise Skip("there is no openssl")
    r = subprocess.run(["openssl", *args], capture_output=True, text=True, timeout=PATIENCE)
    assert r.returncode == 0, r.stderr
    return r


def certificate(path, *args):
    """A certificate for localhost and box.example.org in PATH.pem, its key in PATH.key; returns both."""
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
            f"/CN={os.path.basename(path)}", "-addext", "subjectAltName=DNS:localhost,DNS:box.example.org,IP:127.0.0.1",
            "-keyout", path + ".key", "-out", path + ".pem", *args)
    return path + ".pem", path + ".key"


def let_service_read(d, *paths):
    """Root's codeboxd is another user by the time that it reads them again."""
    if os.getuid() == 0:
        group = int(re.search(r"^Gid:\s+(\d+)", Path(f"/proc/{d.pid}/status").read_text(), re.M).group(1))
        for path in paths:
            os.chown(path, 0, group)
            os.chmod(path, 0o640)


class Answer:
    def __init__(self, response, body):
        self.status, self.headers, self.body = response.status, response.headers, body
        self.type = (self.headers.get("Content-Type") or "").split(";")[0]

    @property
    def messages(self):
        if self.type == "text/event-stream":
            return events(self.body)
        return [json.loads(self.body)] if self.body else []

    @property
    def message(self):
        return self.messages[-1]


def events(text):
    out = []
    for block in re.split(r"\r?\n\r?\n", text):
        data = [line[5:].strip() for line in block.splitlines() if line.startswith("data:")]
        if any(data):
            out.append(json.loads("\n".join(data)))
    return out


class Client:
    """One connection at a time to /mcp."""

    def __init__(self, port, **headers):
        self.port = port
        self.headers = {"Content-Type": "application/json", "Accept": BOTH, **headers}
        self.next_id = 0
        self.connection = None

    def open(self):
        if not self.connection:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        return self.connection

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def begin(self, method, body=None, path="/mcp", **headers):
        """Send a request; the answer's headers may come later."""
        h = {k: v for k, v in {**self.headers, **{k.replace("_", "-"): v for k, v in headers.items()}}.items()
             if v is not None}
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        body = body.encode() if isinstance(body, str) else body
        c = self.open()
        c.putrequest(method, path, skip_host="Host" in h, skip_accept_encoding=True)
        for k, v in h.items():
            c.putheader(k, v)
        if body is not None:
            c.putheader("Content-Length", str(len(body)))
        c.endheaders(body)
        return c

    def send(self, method, body=None, path="/mcp", **headers):
        response = self.begin(method, body, path, **headers).getresponse()
        answer = Answer(response, response.read().decode())
        if response.will_close:
            self.close()
        return answer

    def request(self, method, params=None, **headers):
        self.next_id += 1
        return self.send("POST", {"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params or {}},
                         **headers)

    def notify(self, method, params=None):
        return self.send("POST", {"jsonrpc": "2.0", "method": method, "params": params or {}})

    def call(self, tool, arguments=None, **params):
        return self.request("tools/call", {"name": tool, "arguments": arguments or {}, **params})


class Legacy(Client):
    def __init__(self, port, version=LEGACY, **headers):
        super().__init__(port, **headers)
        self.hello = self.request("initialize", {"protocolVersion": version, "capabilities": {},
                                                 "clientInfo": {"name": "raw", "version": "0"}})
        assert self.hello.status == 200, (self.hello.status, self.hello.body)
        self.session = self.hello.headers["Mcp-Session-Id"]
        self.headers.update({"Mcp-Session-Id": self.session, "MCP-Protocol-Version": version})
        assert self.notify("notifications/initialized").status == 202

    def again(self):
        """Another connection of the same session."""
        other = Client(self.port)
        other.headers = dict(self.headers)
        other.next_id = 1000
        return other


class Modern(Client):
    def meta(self, **more):
        return {META + "protocolVersion": MODERN, META + "clientCapabilities": {},
                META + "clientInfo": {"name": "raw", "version": "0"}, **more}

    def message(self, method, params=None, **meta):
        self.next_id += 1
        return {"jsonrpc": "2.0", "id": self.next_id, "method": method,
                "params": {**(params or {}), "_meta": self.meta(**meta)}}

    def routing(self, message):
        params = message["params"]
        name = params.get("uri") if message["method"] == "resources/read" else params.get("name")
        return {"MCP-Protocol-Version": MODERN, "Mcp-Method": message["method"], **({"Mcp-Name": name} if name else {})}

    def begin_call(self, tool, arguments=None, **meta):
        m = self.message("tools/call", {"name": tool, "arguments": arguments or {}}, **meta)
        return self.begin("POST", m, **self.routing(m))

    def request(self, method, params=None, **headers):
        m = self.message(method, params)
        return self.send("POST", m, **{**self.routing(m), **headers})


def code_of(answer):
    return answer.message["error"]["code"]


def same(got, want):
    assert got == want, f"got {got!r}, want {want!r}"


def sentinel(text):
    return "=?base64?" + base64.b64encode(text.encode()).decode() + "?="


def server_memory(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(r"VmRSS:\s+(\d+) kB", f.read()).group(1)) << 10


def ping(port, **headers):
    return Client(port, **headers).send("POST", {"jsonrpc": "2.0", "id": 1, "method": "ping"})


def start(*args, config=None, pass_fds=(), **env):
    """What a codeboxd says that does not start, or (process, address) of one that does."""
    box = Box()
    if config is not None:
        os.makedirs(os.path.join(box.dir, "config"))
        for name, content in config.items():
            Path(box.dir, "config", name).write_text(content)
    box.env.update({"CODEBOX_CONFIG_DIR": os.path.join(box.dir, "config"), **env})
    if pass_fds:
        args = ["sh", "-c", 'LISTEN_PID=$$ exec "$0" "$@"', DAEMON, *args]
    p = subprocess.Popen(args if pass_fds else [DAEMON, *args], env=box.env, stderr=subprocess.PIPE, text=True,
                         stdin=subprocess.DEVNULL, pass_fds=pass_fds)
    said = ""
    for line in p.stderr:
        said += line
        if "serves HTTP" in line:
            return p, said
    return p.wait(PATIENCE), said
