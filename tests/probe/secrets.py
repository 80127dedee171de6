#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Secrets that the proxy adds to requests, as an attacker in the session sees them: it looks for them wherever it can look,
and tries to have them sent where they do not belong."""
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Skip, children, wait_until  # noqa: E402
from keyed import DIGESTS, OF_CREDENTIAL, OF_ENV, OF_FILE, box, cell, helpers, log, main, programs  # noqa: E402

# ---- what code gets of it ----

def test_what_clients_send_themselves_is_dropped():
    got = cell("print(get('https://key.test/digest/authorization', headers={'authorization': 'Basic eDp5', "
               "'Accept-Encoding': 'gzip'}), get('https://key.test/digest/accept-encoding'))")
    assert DIGESTS["env"] in got and len(got.split()[1]) == 64, got
    assert hashlib.sha256(b"identity").hexdigest() in got, got


def test_answers_do_not_show_it():
    got = cell("print(get('https://key.test/echo'), get('https://key.test/slow-echo'), get('http://api.test/echo'))")
    assert "Authorization: Bearer " + "*" * len(OF_ENV) in got and "X-Api-Key: " + "*" * len(OF_FILE) in got, got
    assert got.count("Authorization: Bearer " + "*" * len(OF_ENV)) == 2, got
    for secret in (OF_ENV, OF_FILE, OF_CREDENTIAL):
        assert secret not in got, got


SLOWLY = '''
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16); s.settimeout(60); s.connect(('127.0.0.1', 3128))
s.sendall(b'GET http://api.test/again/500000 HTTP/1.1\\r\\nHost: api.test\\r\\n\\r\\n')
time.sleep(3); got, pauses = b'', 0
while d := s.recv(1 << 20):
    got += d
    if len(got) > 1500000 * (pauses + 1) and pauses < 6: pauses += 1; time.sleep(2.5)
print(len(got) > 10000000, sorted(set(got.split(b'\\r\\n\\r\\n', 1)[1].split(b'\\n')), key=len)[:3])
'''


def test_who_reads_slowly_does_not_choose_where_an_answer_is_cut():
    got = cell("import socket, time" + SLOWLY)
    assert got.startswith("True") and "X-Api-Key: " + "*" * len(OF_FILE) in got and got.count("X-Api-Key") == 1, got
    assert OF_FILE[:8] not in got and OF_FILE[-8:] not in got, got


def test_redirects_do_not_carry_it():
    for to in ("https://bare.test/echo", "http://other.test/echo", "http://api.test/digest/authorization"):
        got = cell(f"print(get('https://key.test/redirect/{to}'))")
        assert "200" in got and "earer" not in got and DIGESTS["env"] not in got, (to, got)
    assert "403" in cell("print(get('https://key.test/redirect/http://key.test/echo'))")


def test_only_what_the_rule_allows():
    for path in ("/other", "/digest/../other", "/digestx", "/digest//x", "/"):
        got = cell(f"import http.client\nc = http.client.HTTPSConnection('127.0.0.1', 3128, timeout=20)\nc.set_tunnel('keyed.test', 443)\n"
                   f"c.request('GET', {path!r})\nr = c.getresponse(); print(r.status, r.read().decode())")
        assert got.startswith("403 codebox: keyed.test:443"), (path, got)
    assert "403" in cell("r = requests.delete('https://keyed.test/digest/x', timeout=20); print(r.status_code, r.text)")
    got = cell("print(get('https://keyed.test/digest/authorization', headers={'X-Original-URL': '/echo'}))")
    assert got.startswith("403 codebox: keyed.test:443") and "header that replaces" in got, got
    got = cell("print(get('http://pub.test:443/echo'))")
    assert "403" in got and "does not go by plain HTTP" in got, got


TUNNEL = """
def through(hello, request, host='key.test:443'):
    s = socket.create_connection(('127.0.0.1', 3128)); s.settimeout(20)
    s.sendall(f'CONNECT {host} HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n'.encode()); got = s.recv(1000)
    try:
        if hello:
            c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
            s = c.wrap_socket(s, server_hostname=hello)
        s.sendall(request); got = b''
        while True:
            d = s.recv(65536)
            if not d: break
            got += d
    except OSError as e: got += type(e).__name__.encode() + b' ' + str(e).encode()
    return got.decode('latin-1')
"""


def test_the_tunnel_is_for_one_host():
    cell(TUNNEL)
    line = "b'GET /digest/authorization HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n'"
    assert DIGESTS["env"] in cell(f"print(through('key.test', {line} % b'key.test'))")
    assert DIGESTS["env"] in cell(f"print(through('key.test', {line} % b'key.test:443'))")
    for hello, host in (("bare.test", b"key.test"), ("key.test", b"bare.test"), ("key.test", b"key.test:80")):
        got = cell(f"print(through({hello!r}, {line} % {host!r}))")
        assert DIGESTS["env"] not in got and "200 OK" not in got, (hello, host, got)
    for request in (b"GET http://key.test/echo HTTP/1.1\r\nHost: key.test\r\n\r\n", b"CONNECT key.test:443 HTTP/1.1\r\n\r\n",
                    b"GET /digest/authorization HTTP/1.1\r\nHost: key.test\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"):
        got = cell(f"print(through('key.test', {request!r}))")
        assert "200" not in got and ("400" in got or "403" in got), (request, got)
    assert "200 OK" not in cell(f"print(through(None, {line} % b'key.test'))")  # not TLS
    why = [d.get("why", "") for d in box()[1].call("session.info", session_id="s")["network"]["decisions"]]
    assert "what goes to this port of the host is not TLS" in why, why


def test_a_name_in_every_spelling():
    cell(TUNNEL)
    line = "b'GET /digest/authorization HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n'"
    for host, hello, name in (("KEY.TEST:443", "KEY.test", b"Key.Test"), ("key.test.:443", "key.test", b"key.test."),
                              ("key.test:0443", "key.test", b"key.test")):
        got = cell(f"print(through({hello!r}, {line} % {name!r}, {host!r}))")
        assert (DIGESTS["env"] in got) == (host != "key.test:0443"), (host, got)
    for host, hello, name in (
            ("93.184.216.37:443", "key.test", b"key.test"), ("93.184.216.37:443", None, b"key.test"),  # its address
            ("bare.test:443", "key.test", b"key.test"), ("bare.test:443", "bare.test", b"key.test"),  # another tunnel
            ("key.test:8443", "key.test", b"key.test:8443"), ("key.test:80", "key.test", b"key.test"),  # another port
            ("key.test:80", None, b"key.test"), ("key.test:25", None, b"key.test:25"),
            ("key.test:443", "key.test.", b"key.test"), ("key.test:443", "xn--key.test", b"key.test"),
            ("key.test%00.bare.test:443", "key.test", b"key.test"), ("key.test:443@bare.test:443", "key.test", b"key.test"),
            ("sub.key.test:443", "sub.key.test", b"sub.key.test")):
        got = cell(f"print(through({hello!r}, {line} % {name!r}, {host!r}))")
        assert DIGESTS["env"] not in got, (host, hello, name, got)
    got = cell("c = ssl.create_default_context(); c.check_hostname = False\ns = socket.create_connection(('127.0.0.1', 3128))\n"
               "s.sendall(b'CONNECT key.test:443 HTTP/1.1\\r\\n\\r\\n'); print(s.recv(99))\n"
               "try: print(c.wrap_socket(s).version())\nexcept OSError as e: print('no', e)")  # no SNI at all
    assert "TLSv" not in got and "no " in got, got


AGAIN = r"""
import os, socket, subprocess, threading, time
def move(a, b):
    while True:
        try: data = a.recv(65536)
        except OSError: break
        if not data: break
        if not (deaf and b is client): b.sendall(data)
deaf, listener = False, socket.create_server(('127.0.0.1', 0))
s = subprocess.Popen(['openssl', 's_client', '-tls1_2', '-proxy', f'127.0.0.1:{listener.getsockname()[1]}', '-connect', 'key.test:443',
                      '-servername', 'key.test'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
client, server = listener.accept()[0], socket.create_connection(('127.0.0.1', 3128))
down = threading.Thread(target=move, args=(server, client), daemon=True)
threading.Thread(target=move, args=(client, server), daemon=True).start(); down.start()
while b'Verify return code' not in s.stdout.readline(): pass
deaf = True  # it would end by itself when it is refused
# In 15 seconds codebox-proxy would end it, which waits for a request.
os.write(s.stdin.fileno(), b'R\n'); down.join(10); print('open' if down.is_alive() else 'ended'); s.kill()
"""


def test_handshakes_again():
    """Each would have codebox-tls answer, for one who takes no answer."""
    b, client = box()
    if "host" not in b.images():
        raise Skip("the image host, which has the machine's openssl, is not there")
    client.call("session.create", session_id="host", image="host")
    got = cell(AGAIN, "host")
    client.call("session.close", session_id="host")
    assert got.strip() == "ended", got


def test_http2_and_upgrades():
    cell(TUNNEL)
    got = cell("s = socket.create_connection(('127.0.0.1', 3128))\ns.sendall(b'CONNECT key.test:443 HTTP/1.1\\r\\n\\r\\n'); s.recv(99)\n"
               "c = ssl.create_default_context(); c.set_alpn_protocols(['h2'])\n"
               "try: print('spoken', c.wrap_socket(s, server_hostname='key.test').selected_alpn_protocol())\nexcept OSError as e: print('no', e)")
    assert "spoken" not in got and "no " in got, got
    for request, status in ((b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"),
                            (b"TRACE /echo HTTP/1.1\r\nHost: key.test\r\n\r\n", "501")):
        got = cell(f"print(through('key.test', {request!r}))")
        assert f"HTTP/1.1 {status}" in got, (request, got)
    got = cell("print(through('key.test', b'GET /upgrade HTTP/1.1\\r\\nHost: key.test\\r\\nConnection: Upgrade\\r\\n"
               "Upgrade: websocket\\r\\n\\r\\n'))")
    assert "secret of 101" not in got, got


def processor(pids):
    """Seconds that they have used."""
    return sum(sum(map(int, Path(f"/proc/{p}/stat").read_text().rsplit(")", 1)[1].split()[11:13])) for p in pids) / os.sysconf("SC_CLK_TCK")


def test_broken_tls_takes_no_processor():
    """While an answer comes, which then goes nowhere: it ends, and nobody turns in circles for who keeps his end open."""
    cell("c = ssl.create_default_context()\nt = socket.create_connection(('127.0.0.1', 3128))\n"
         "t.sendall(b'CONNECT key.test:443 HTTP/1.1\\r\\nHost: key.test\\r\\n\\r\\n'); t.recv(1000)\n"
         "t = c.wrap_socket(t, server_hostname='key.test')\n"
         "t.sendall(b'GET /forever HTTP/1.1\\r\\nHost: key.test\\r\\n\\r\\n'); t.recv(1000)\n"
         "os.write(t.fileno(), b'\\x17\\x03\\x03\\0\\x20' + b'g' * 32)\nraw = socket.socket(fileno=os.dup(t.fileno()))\n"
         "raw.settimeout(5)\ntry:\n    while raw.recv(1 << 20): pass\nexcept OSError: pass")
    pids = programs("codebox-tls")
    before = processor(pids)
    time.sleep(2)
    assert pids and processor(pids) - before < 1, processor(pids) - before
    cell("raw.close(); t.close()")


def test_one_request_and_none_behind_it():
    """The server shows all that it was sent."""
    cell(TUNNEL)
    second = b"GET /smuggled HTTP/1.1\r\nHost: bare.test\r\n\r\n"
    for request in (b"GET /echo HTTP/1.1\r\nHost: key.test\r\n\r\n" + second,
                    b"POST /echo HTTP/1.1\r\nHost: key.test\r\nContent-Length: 1\r\n\r\nx" + second,
                    b"POST /echo HTTP/1.1\r\nHost: key.test\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n" + second):
        got = cell(f"print(through('key.test', {request!r}))")
        assert "hello from" in got and "smuggled" not in got, (request, got)
    for head in (b"Host: key.test\r\nHost: bare.test", b"Host: key.test\r\nTransfer-Encoding: chunked\r\nContent-Length: 3",
                 b"Host: key.test\r\nTransfer-Encoding: xchunked", b"Host: key.test\r\nX: a\r\n folded", b"Host: key.test\nX: a",
                 b"Host: key.test\r\nX : a", b"Host: key.test\r\nX: a\x00b", b"Host: key.test\r\nX\r\nY: b"):
        got = cell(f"print(through('key.test', {b'GET /echo HTTP/1.1' + bytes((13, 10)) + head + bytes((13, 10)) * 2!r}))")
        assert "hello from" not in got and "HTTP/1.1 " in got, (head, got)


def test_headers_of_its_name():
    """However code writes one, the server gets the secret once, and nothing else."""
    cell(TUNNEL)
    for more in (b"AUTHORIZATION: x", b"Authorization: x\r\nauthorization: y", b"Connection: Authorization",
                 b"Connection: close, authorization\r\nAuthorization: x"):
        got = cell(f"print(through('key.test', {b'GET /digest/authorization HTTP/1.1' + bytes((13, 10)) + b'Host: key.test' + bytes((13, 10)) + more + bytes((13, 10)) * 2!r}))")
        assert got.strip().endswith(DIGESTS["env"]) and "Content-Length: 64\r\n" in got, (more, got)
    got = cell("print(get('http://api.test/echo', headers={'X_Api_Key': 'mine', 'x-api_key': 'mine'}))")
    assert "mine" not in got and got.lower().count("api") == 2, got  # Host, and the one


def test_a_rule_adds_for_its_own_addresses():
    """The name has an address of each of two rules."""
    got = cell("print(get('http://both.test/echo'))")
    first, second = "hello from 10.0.0.5" in got, "hello from 100.64.0.1" in got
    assert first != second and ("X-Api-Key" in got) == first and ("X-Token" in got) == second, got


# What is looked for is there as a pattern of single characters, so that the search does not find itself.
SEARCH = r"""
import os, re
wanted = [re.compile(w) for w in %r]
found = []
def look(name, data):
    for w in wanted:
        if w.search(data): found.append(name)
def look_at_file(name):
    try:
        with open(name, 'rb') as f: look(name, f.read())
    except OSError: pass
def look_at_memory(pid):
    try:
        maps, mem = open(f'/proc/{pid}/maps').read(), open(f'/proc/{pid}/mem', 'rb', 0)
    except OSError: return
    for line in maps.splitlines():
        a, b = (int(x, 16) for x in line.split()[0].split('-'))
        while a < b and line.split()[1][0] == 'r':
            try:
                mem.seek(a); data = mem.read(min(b - a, 1 << 20))
            except (OSError, OverflowError, ValueError): break
            if not data: break
            look(f'{pid} {line}', data)
            a += len(data)
for pid in filter(str.isdigit, os.listdir('/proc')):
    for f in ('environ', 'cmdline', 'auxv', 'status'): look_at_file(f'/proc/{pid}/{f}')
    look_at_memory(pid)
for top in ('/home', '/tmp', '/workspace', '/run', '/dev/shm', '/var/tmp', '/etc'):
    for d, _, files in os.walk(top):
        for f in files: look_at_file(os.path.join(d, f))
print('searched', found)
"""


def search(secrets):
    return SEARCH % ["".join(f"[{c}]" for c in s.replace("-", ".")).replace("[.]", ".").encode() for s in secrets]


def test_it_is_nowhere_in_the_sandbox():
    cell("r = [requests.get('https://key.test/digest/authorization', timeout=20), get('http://api.test/digest/x-token')]")
    # That the search finds what is there is seen by something that is.
    assert "searched []" not in cell("here = b'planted-' + b'9c1e77'\n" + search(["planted-9c1e77"]))
    got = cell(search([OF_ENV, OF_FILE, OF_CREDENTIAL]))
    assert "searched []" in got, got
    assert cell("print(sorted(k for k in os.environ if 'CBX' in k or 'CREDENTIAL' in k))").strip() == "[]"
    # Nor is it in what a client of it leaves when it dies.
    got = cell("print(subprocess.run([sys.executable, '-c', 'import os, resource, urllib.request as u; "
               "resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2); "
               "u.urlopen(\"https://key.test/digest/authorization\").read(); os.abort()']).returncode)\n"
               + search([OF_ENV, OF_FILE, OF_CREDENTIAL]))
    assert got.startswith("-6") and "searched []" in got, got


def test_nothing_that_is_shown_has_it():
    b, client = box()
    info = json.dumps(client.call("session.info", session_id="s"))
    shown = b("policy", "show", "--json").stdout
    ps = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert "CBX_TEST_KEY" in info and "CBX_TEST_KEY" in shown and "key.test" in log()
    for secret in (OF_ENV, OF_FILE, OF_CREDENTIAL):
        assert all(secret not in text for text in (info, shown, log(), ps)), secret
    # codeboxd was started with one in its environment, and its processes after that.
    pid = b.daemon_pid()
    looked = 0
    for p in (pid, *children(pid)):
        try:
            with open(f"/proc/{p}/environ", "rb") as f:
                environment = f.read()
        except OSError:  # who is not to be looked into; root may
            assert os.geteuid() != 0 or not os.path.exists(f"/proc/{p}"), p
            continue
        looked += 1
        assert all(secret.encode() not in environment for secret in (OF_ENV, OF_FILE, OF_CREDENTIAL)), p
    assert looked, "nothing could be looked at"


def test_its_processes_are_not_to_be_looked_into():
    """Not dumpable: no core, and their /proc is root's."""
    assert wait_until(lambda: helpers() == 2), helpers()
    pids = programs("codebox-proxy") + programs("codebox-tls")
    assert len(pids) >= 4, pids
    # By a program that has no capability, as this process does in its own namespace.
    drop = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"] if os.geteuid() == 0 else []
    for p in pids:
        for name in ("environ", "mem", "maps"):
            r = subprocess.run([*drop, "head", "-c1", f"/proc/{p}/{name}"], capture_output=True, text=True)
            assert "ermission denied" in r.stderr and not r.stdout, (p, name, r)


if __name__ == "__main__":
    main(globals())
