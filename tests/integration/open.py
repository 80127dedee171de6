#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions with a route (the policy's "network" is "open"), in a network of the test's own: what is public is reached,
and nothing else, however code asks for it."""
import json
import os
import shutil
import signal
import socket
import stat
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import netbox  # noqa: E402
import ownnet  # noqa: E402
from cbxtest import Box, run  # noqa: E402
from control import Control, ControlError  # noqa: E402

OPEN = {"include": ["default"], "network": "open"}
PRELUDE = r"""
import socket, struct
def get(host, port=80, prepare=None, family=None):
    "What a web server says, or the error."
    family = family or (socket.AF_INET6 if ':' in host else socket.AF_INET)
    s = socket.socket(family); s.settimeout(3 if prepare else 60)
    try:
        if prepare: prepare(s)
        s.connect((host, port)); s.sendall(b'GET / HTTP/1.0\r\n\r\n')
        got = b''
        while piece := s.recv(65536): got += piece
        return got.decode()
    except OSError as e:
        return f'{type(e).__name__} {e}'
    finally: s.close()
def bind_device(s): s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b'net0')
def unicast_if(s):
    n = socket.if_nametoindex('net0')
    if s.family == socket.AF_INET: s.setsockopt(socket.IPPROTO_IP, 50, struct.pack('!I', n))
    else: s.setsockopt(socket.IPPROTO_IPV6, 76, struct.pack('!I', n))
"""
SPECIAL = ["10.0.0.5", "169.254.169.254", "100.64.0.1", "192.0.2.1", "198.18.0.1", "203.0.113.9", "fd00::5",
           "64:ff9b::a00:5", "2002:a00:5::1", "2001:0:a00:5::1", "2001:db8::1"]
state = {}


def client(policy=OPEN):
    key = json.dumps(policy)
    if key not in state:
        box = Box(CODEBOX_POLICY=netbox.policy_file(policy), CODEBOX_POOL="0")
        state[key] = Control(box)
    try:
        state[key].call("session.info", session_id="s")
    except ControlError:  # the first time, or after a test that failed
        state[key].call("session.create", session_id="s")
        state[key].call("run", session_id="s", code=PRELUDE)
    return state[key]


def say(code, session="s"):
    r = client().call("run", session_id=session, code=code)
    return r.get("output", "") + "".join(str(r.get(k) or "") for k in ("error", "traceback"))


def from_machine(host, port=80):
    with socket.create_connection((host, port), 20) as s:
        s.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return s.recv(1000)


def processes():
    """Those that are pasta, in this test's network."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as name, open(f"/proc/{pid}/net/fib_trie") as addresses:
                if name.read().startswith(("pasta", "passt")) and ownnet.MACHINE in addresses.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


def wait_for(what, why):
    for _ in range(600):
        if what():
            return
        time.sleep(0.05)
    raise AssertionError(why)


def test_public():
    for host in (ownnet.PUBLIC, "pub.test", ownnet.PUBLIC6, "six.test", "other.test"):
        got = say(f"print(get({host!r}, family={'socket.AF_INET6' if host == 'six.test' else None}))")
        assert "hello from" in got, f"{host}: {got}"
    got = say("import urllib.request; print(urllib.request.urlopen('http://pub.test/').read())")
    assert "hello from" in got, got
    got = say("import os; print([n for n in os.environ if 'proxy' in n.lower()])")
    assert "[]" in got, got


def test_what_is_not_public():
    """The servers are there: the machine reaches them."""
    for host in SPECIAL:
        assert b"hello" in from_machine(host), host
        for how in ("None", "bind_device", "unicast_if"):
            got = say(f"print(get({host!r}, 80, {how}))")
            assert "hello" not in got and "Error" in got, f"{host} by {how}: {got}"
            # At once, but for sockets that the news does not reach.
            assert "timed out" not in got or how != "None", f"{host}: {got}"
    for host in ("::ffff:10.0.0.5", "::ffff:169.254.169.254"):
        for how in ("None", "bind_device"):
            got = say(f"print(get({host!r}, 80, {how}))")
            assert "hello" not in got and "Error" in got, f"{host} by {how}: {got}"
    for name in ("ten.test", "meta.test", "cgnat.test", "lo.test"):
        got = say(f"print(get({name!r}))")
        assert "hello" not in got and "Error" in got, f"{name}: {got}"


def test_datagrams():
    got = say("""
for host, port in (('10.0.0.5', 53), ('192.0.2.53', 54), ('224.0.0.1', 53), ('255.255.255.255', 53), ('169.254.169.254', 80)):
    for how in (lambda s: None, bind_device):
        s = socket.socket(type=socket.SOCK_DGRAM); how(s); s.settimeout(5)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        try:
            s.connect((host, port)); s.send(b'x'); s.send(b'x'); print('sent', host)
        except OSError as e: print('refused')
""")
    assert "sent" not in got and got.count("refused") == 10, got


def test_the_machine():
    """None of its addresses, its loopback, or the router in its stead."""
    for host in ("127.0.0.1", ownnet.MACHINE, ownnet.SECOND, ownnet.MACHINE6, "::1"):
        assert b"hello" in from_machine(host, 8081), host
    for host in ("127.0.0.1", "127.1.2.3", "0.0.0.0", ownnet.MACHINE, ownnet.SECOND, ownnet.MACHINE6, "::1", "::"):
        for how in ("None", "bind_device", "unicast_if"):
            got = say(f"print(get({host!r}, 8081, {how}))")
            assert "hello" not in got and "Error" in got, f"{host} by {how}: {got}"
    for host in (ownnet.ROUTER, ownnet.ROUTER6):
        got = say(f"print(get({host!r}, 8081, lambda s: None))")
        assert "hello" not in got and "Error" in got, f"{host}: {got}"


def test_nothing_comes_in():
    say("l = socket.create_server(('0.0.0.0', 9000)); l6 = socket.create_server(('::', 9001), family=socket.AF_INET6)")
    for host in ("127.0.0.1", ownnet.MACHINE, ownnet.SECOND, "::1", ownnet.MACHINE6):
        for port in (9000, 9001):
            try:
                socket.create_connection((host, port), 5).close()
            except OSError:
                continue
            raise AssertionError(f"{host}:{port} leads into the session")


def test_code_cannot_change_it():
    got = say(r"""
import os
for what in (lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12), lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
             lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 255),
             lambda: os.open('/dev/net/tun', os.O_RDWR)):
    try: what(); print('did it')
    except OSError: print('refused')
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
s.bind((0, 0))
# RTM_NEWROUTE of 10.0.0.0/8, RTM_DELLINK and an interface that is down
for message in (struct.pack('=IHHIIBBBBBBBBI', 28, 24, 0x405, 1, 0, 2, 8, 0, 0, 254, 4, 0, 1, 0),
                struct.pack('=IHHIIBxHiII', 32, 17, 5, 2, 0, 0, 0, 2, 0, 0), struct.pack('=IHHIIBxHiII', 32, 16, 5, 3, 0, 0, 0, 2, 0, 1)):
    s.send(message); head = s.recv(4096)
    print('refused' if struct.unpack_from('=i', head, 16)[0] == -1 else head)
""")
    assert got.count("refused") == 7 and "did it" not in got, got


def test_described():
    info = client().call("session.info", session_id="s")
    assert info["network"] == {"mode": "open", "state": "up"}, info["network"]
    assert info["protections"]["network"] == "open", info["protections"]
    plain = client({"include": ["default"]}).call("session.info", session_id="s")
    assert plain["network"]["mode"] == "none" and plain["protections"]["network"] == "none", plain["network"]


def test_strict_has_no_sockets():
    c = client()
    c.call("session.create", session_id="strict", profile="strict")
    info = c.call("session.info", session_id="strict")
    assert info["network"]["mode"] == "none" and "strict" in info["network"]["why"], info["network"]
    c.call("session.close", session_id="strict")


def test_it_ends_with_its_session():
    c = client()
    before = set(processes())
    assert len(before) == 1, before
    c.call("session.create", session_id="t")
    new = set(processes()) - before
    assert len(new) == 1, new
    with open(f"/proc/{min(new)}/status") as f:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", status
    with open(f"/proc/{min(new)}/limits") as f:
        limits = {line[:26].strip(): line[26:].split()[1] for line in f}
    assert limits["Max open files"] == "4096" and limits["Max address space"] == str(1 << 30), limits
    c.call("session.close", session_id="t")
    wait_for(lambda: set(processes()) == before, "pasta outlives its session")


def test_an_end_is_told():
    c = client()
    before = set(processes())
    c.call("session.create", session_id="u")
    c.call("run", session_id="u", code=PRELUDE)
    one = min(set(processes()) - before)
    os.kill(one, signal.SIGKILL)
    wait_for(lambda: c.call("session.info", session_id="u")["network"]["state"] == "failed", "its end is not seen")
    assert "pasta has ended" in c.call("session.info", session_id="u")["network"]["why"]
    got = say(f"print(get({ownnet.PUBLIC!r}))", "u")
    assert "hello" not in got and "Error" in got, got
    c.call("session.close", session_id="u")


def test_narrowed():
    """A ceiling of hosts is what is left of a policy that is open; codebox policy explain shows both."""
    r = Box(CODEBOX_POLICY=netbox.policy_file(OPEN))("policy", "explain", "--json", check=True)
    assert '"open"' in r.stdout, r.stdout


# What starts codeboxd on a kernel without nfnetlink: a filter of system calls says what such a kernel does.
WITHOUT_NFNETLINK = """#!%(python)s
import ctypes, os, struct, sys
number = {"x86_64": 41, "aarch64": 198}[os.uname().machine]  # of socket()
code = [(0x20, 0, 0, 0), (0x15, 0, 5, number), (0x20, 0, 0, 16), (0x15, 0, 3, 16), (0x20, 0, 0, 32), (0x15, 0, 1, 12),
        (0x06, 0, 0, 0x50000 | 93), (0x06, 0, 0, 0x7fff0000)]  # AF_NETLINK, NETLINK_NETFILTER: EPROTONOSUPPORT
text = b"".join(struct.pack("HBBI", *c) for c in code)
memory = ctypes.create_string_buffer(text, len(text))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(memory)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execv(%(daemon)r, [%(daemon)r, *sys.argv[1:]])
"""


def refused(says, **env):
    """By name and with what to do; and other policies' sessions are as ever."""
    r = Box(CODEBOX_POLICY=netbox.policy_file(OPEN), CODEBOX_POOL="0", **env)("run", "-c", "1+1")
    assert r.returncode and says in r.stderr and "\"allow\"" in r.stderr, r.stderr
    r = Box(CODEBOX_POLICY=netbox.policy_file({"include": ["default"]}), CODEBOX_POOL="0", **env)("run", "-c", "1+1")
    assert r.returncode == 0 and "2" in r.stdout, r.stderr


def test_without_nf_tables():
    box = Box()
    path = os.path.join(box.dir, "codeboxd")
    with open(path, "w") as f:
        f.write(WITHOUT_NFNETLINK % {"python": sys.executable, "daemon": box.env["CODEBOX_DAEMON"]})
    os.chmod(path, 0o755)
    refused("needs nf_tables", CODEBOX_DAEMON=path)


def test_without_pasta():
    pasta = os.path.realpath(shutil.which("pasta")).encode()
    if ownnet.LIBC.mount(b"/dev/null", pasta, None, 4096, None) < 0:  # MS_BIND
        raise AssertionError("pasta cannot be covered")
    try:
        refused("pasta is not installed")
    finally:
        ownnet.LIBC.umount2(pasta, 2)


def test_without_a_device():
    if ownnet.LIBC.mount(b"none", b"/dev/net", b"tmpfs", 0, None) < 0:
        raise AssertionError("/dev/net cannot be covered")
    refused("/dev/net/tun")


def main():
    tun = "/dev/net/tun"
    if not shutil.which("pasta"):
        print("1..0 # SKIP pasta is not installed")
        return
    try:
        netbox.state["dir"] = ownnet.enter(router=True)
    except ownnet.Impossible as e:
        print(f"1..0 # SKIP no network of its own can be made here: {e}")
        return
    if os.getuid() == 0:  # for the account that sessions have
        ownnet.LIBC.mount(b"none", b"/dev/net", b"tmpfs", 0, None)
        os.mknod(tun, stat.S_IFCHR, os.makedev(10, 200))
        os.chmod(tun, 0o666)
    if not os.access(tun, os.R_OK | os.W_OK):
        print(f"1..0 # SKIP {tun} is not for ordinary users here")
        return
    try:
        run(globals())
    finally:
        ownnet.leave(netbox.state["dir"])


if __name__ == "__main__":
    main()
