# SPDX-License-Identifier: Apache-2.0
"""Sessions whose policy lets them reach something, in a network of the test's own (ownnet.py)."""
import json
import os
import sys
import tempfile

import ownnet
from cbxtest import Box, run
from control import Control

POLICY = {
    "include": ["default"],
    "network": {"allow": [
        "*.test", "pub.test:8080", "pub.test:2525", "pub.test:8888", {"host": "named.test", "addresses": ["10.0.0.5"]},
        {"host": "10.0.0.5", "ports": [8080]}, "93.184.216.34", "[2606:2800:220:1::1]:80"], "connections": 16},
}
API = {"include": ["default"], "network": {"allow": [
    {"host": "api.test", "methods": ["GET"], "paths": ["/v1/"]}]}}
ANY = {"include": ["default"], "network": {"allow": ["*"]}}
SMALL = {"include": ["default"], "network": {"allow": ["pub.test"], "bytes": "1M", "time": "1s"}}

# In the session: one connection to the proxy.
PRELUDE = r"""
import os, socket, ssl, struct, json, urllib.request
def talk(data, more=b'', until=None):
    s = socket.create_connection(('127.0.0.1', 3128))
    s.settimeout(30)
    got = b''
    try:
        s.sendall(data)
        for piece in more if isinstance(more, list) else [more]:
            if piece:
                while b'\r\n\r\n' not in got and not got.startswith(b'\5'):
                    one = s.recv(65536)
                    if not one: return got
                    got += one
                s.sendall(piece)
        while len(got) < 1000000 and not (until and until in got):
            one = s.recv(65536)
            if not one: break
            got += one
    except OSError as e:
        got += b' ' + type(e).__name__.encode()
    s.close()
    return got
def get(host, path='/', extra=''):
    return talk(f'GET http://{host}{path} HTTP/1.1\r\nHost: {host}\r\n{extra}\r\n'.encode())
def tunnel(where, then, until=None):
    return talk(f'CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n\r\n'.encode(), then, until)
def socks(address, port, then=b'', command=1):
    s = socket.create_connection(('127.0.0.1', 3128)); s.settimeout(30)
    s.sendall(b'\5\1\0')
    got = s.recv(2)
    s.sendall(bytes([5, command, 0]) + address + struct.pack('>H', port))
    got += s.recv(10)
    if then: s.sendall(then)
    try:
        while then:
            one = s.recv(65536)
            if not one: break
            got += one
    except OSError as e:
        got += b' ' + type(e).__name__.encode()
    s.close()
    return got
def domain(name): return b'\3' + bytes([len(name)]) + name.encode('latin-1')
def hello(name, sni=True):
    out, into = ssl.MemoryBIO(), ssl.MemoryBIO()
    c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
    o = c.wrap_bio(into, out, server_hostname=name if sni else None)
    try: o.do_handshake()
    except ssl.SSLWantReadError: pass
    return out.read()
GET = b'GET / HTTP/1.1\r\nHost: %s\r\n\r\n'
"""

state = {}


def policy_file(policy):
    fd, path = tempfile.mkstemp(suffix=".json", dir=state["dir"])
    with os.fdopen(fd, "w") as f:
        json.dump(policy, f)
    os.chmod(path, 0o644)
    return path


def box(policy):
    """A codeboxd with this policy, and a client with a session in it. Most tests share one."""
    key = json.dumps(policy)
    if key not in state:
        b = Box(CODEBOX_POLICY=policy_file(policy), CODEBOX_POOL="0")
        client = Control(b)
        client.call("session.create", session_id="s")
        client.call("run", session_id="s", code=PRELUDE)
        state[key] = b, client
    return state[key]


def cell(code, policy=POLICY):
    r = box(policy)[1].call("run", session_id="s", code=code)
    return r.get("output", "") + "".join(str(r.get(k) or "") for k in ("error", "traceback"))


def say(expression, policy=POLICY):
    return cell(f"print(({expression}).decode('latin-1'))", policy)


def described(policy=POLICY):
    return box(policy)[1].call("session.info", session_id="s")["network"]


def escape(expression, *words, policy=POLICY):
    got = say(expression, policy)
    assert "hello" not in got and "banner" not in got and "secret" not in got, f"{expression}: {got[:600]}"
    for word in words:
        assert word in got, f"{expression}: {word!r} is not in {got[:600]}"


def main(namespace):
    """All tests of a script, or the one that CBX_NETWORK_TEST names."""
    try:
        state["dir"] = ownnet.enter()
    except ownnet.Impossible as e:
        print(f"1..0 # SKIP no network of its own can be made here: {e}")
        sys.exit(0)
    wanted = os.environ.get("CBX_NETWORK_TEST")
    try:
        run({n: f for n, f in namespace.items() if not wanted or n == "test_" + wanted})
    finally:
        ownnet.leave(state["dir"])
