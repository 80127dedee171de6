#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a session reaches when its policy lets it reach something: clients as people use them, limits, and what is reported. What it
does not reach is in ../probe/network.py."""
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
sys.path.insert(0, os.path.join(HERE, "..", "http"))
import ownnet  # noqa: E402
from cbxtest import Box, wait_until  # noqa: E402
from common_http import Daemon, Modern  # noqa: E402
from control import Control  # noqa: E402
from netbox import POLICY, PRELUDE, SMALL, box, cell, described, main, policy_file, say, state  # noqa: E402

# ---- what is allowed ----

def test_plain_http_in_both_forms():
    assert f"hello from {ownnet.PUBLIC}" in say("get('pub.test')")
    assert f"hello from {ownnet.PUBLIC}" in say("get('PUB.test.')")
    assert f"hello from {ownnet.PUBLIC}" in say("talk(GET % b'pub.test')")
    assert f"hello from {ownnet.PUBLIC}" in say("get('pub.test:8080')")
    assert f"hello from {ownnet.PUBLIC}" in say(f"get('{ownnet.PUBLIC}')")
    assert f"hello from {ownnet.PUBLIC6}" in say(f"get('[{ownnet.PUBLIC6}]')")
    assert f"hello from {ownnet.PUBLIC6}" in say("get('six.test')")


def test_programs_find_the_proxy_by_their_environment():
    got = say("repr([(n, __import__('os').environ.get(n)) for n in ('http_proxy', 'HTTPS_PROXY', 'all_proxy', 'NO_PROXY', 'NODE_USE_ENV_PROXY')]).encode()")
    assert got.count("127.0.0.1:3128") == 3 and "('NODE_USE_ENV_PROXY', '1')" in got and "localhost,127.0.0.1,::1" in got, got


def test_sessions_with_mounts_reach_the_same():
    """Their sandbox is begun later: when what they mount has a name."""
    source = os.path.join(state["dir"], "mounted")
    os.mkdir(source)
    b = Box(CODEBOX_POLICY=policy_file({**POLICY, "mounts": {"allow": [{"path": source}]}}), CODEBOX_POOL="0")
    with Control(b) as client:
        client.call("session.create", session_id="m", mounts=[{"source": source, "target": "/mnt/m"}])
        r = client.call("run", session_id="m", code=PRELUDE + "import os\nprint(os.path.ismount('/mnt/m'), get('pub.test'))")
        assert r["output"].startswith("True") and "hello from " + ownnet.PUBLIC in r["output"], r
    b.stop()


def test_addresses_that_a_rule_names():
    assert "hello from 10.0.0.5" in say("get('named.test')")
    assert "hello from 10.0.0.5" in say("get('10.0.0.5:8080')")


def test_a_name_with_good_and_bad_addresses_has_the_good_ones():
    assert f"hello from {ownnet.PUBLIC}" in say("get('mixed.test')")


def test_tunnels():
    got = say("tunnel('pub.test:8080', GET % b'pub.test')")
    assert "200 Connection established" in got and f"hello from {ownnet.PUBLIC}" in got
    assert "220 banner" in say("tunnel('pub.test:2525', b'QUIT\\r\\n')")  # who speaks first
    assert f"hello from {ownnet.PUBLIC}" in say("tunnel('pub.test:80', GET % b'pub.test')")


def test_socks():
    for where in ("domain('pub.test')", f"b'\\1' + socket.inet_aton('{ownnet.PUBLIC}')",
                  f"b'\\4' + socket.inet_pton(socket.AF_INET6, '{ownnet.PUBLIC6}')"):
        host = b"pub.test" if "domain" in where else ownnet.PUBLIC.encode() if "aton" in where else \
            f"[{ownnet.PUBLIC6}]".encode()
        got = say(f"socks({where}, 80, GET % {host!r})")
        assert "hello from" in got, (where, got)
    assert "hello from" in say("socks(domain('pub.test'), 8080, GET % b'pub.test')")


def test_bodies_pass_whole_and_nothing_behind_them():
    for body, head in ((b"a=1", b"Content-Length: 3"), (b"3\r\na=1\r\n0\r\n\r\n", b"Transfer-Encoding: chunked")):
        request = b"POST http://pub.test/ HTTP/1.1\r\nHost: pub.test\r\n" + head + b"\r\n\r\n" + body
        got = say(f"talk({request!r} + b'GET /smuggled HTTP/1.1\\r\\nHost: pub.test\\r\\n\\r\\n')")
        assert "hello from" in got and "a=1" in got and "smuggled" not in got, got


def test_an_answer_that_comes_before_a_request_was_taken():
    """It arrives, although the server takes no more of the request."""
    got = cell("""
early = 0
for i in range(60):
    with socket.create_connection(('127.0.0.1', 3128), 60) as s:
        try:
            s.sendall(b'POST http://pub.test/early HTTP/1.1\\r\\nHost: pub.test\\r\\nContent-Length: 1000000\\r\\n\\r\\n')
            for n in range(100): s.sendall(bytes(10000))
        except OSError:
            pass
        try:
            early += s.recv(1000).startswith(b'HTTP/1.1 413 ')
        except OSError:
            pass
print(early)""")
    assert got == "60\n", got


def test_responses_say_that_the_connection_ends():
    got = say("get('pub.test')")
    assert got.index("Connection: close") < got.index("hello"), got


def test_large_bodies():
    assert "30000000" in cell("s=socket.create_connection(('127.0.0.1',3128));s.sendall(b'GET http://pub.test/big/30000000 "
                              "HTTP/1.1\\r\\nHost: pub.test\\r\\n\\r\\n')\nn=0\nwhile True:\n d=s.recv(1<<20)\n if not d:"
                              " break\n n+=d.count(0)\nprint(n)")


def test_who_has_said_all_hears_all():
    """A client that ends its side of a tunnel: the server answers, and ends its own before all of it was read."""
    for wait in "0", "1":
        got = cell("s=socket.create_connection(('127.0.0.1',3128));s.sendall(b'CONNECT pub.test:8080 HTTP/1.1\\r\\nHost: "
                   "pub.test:8080\\r\\n\\r\\n')\nassert b' 200 ' in s.recv(65536)\ns.sendall(b'GET /big/30000000 HTTP/1.1\\r\\n"
                   "Host: pub.test\\r\\n\\r\\n');s.shutdown(socket.SHUT_WR)\nimport time;time.sleep(" + wait + ")\nn=0\n"
                   "while True:\n d=s.recv(1<<20)\n if not d: break\n n+=d.count(0)\nprint(n)")
        assert "30000000" in got, got


def test_who_has_heard_all_says_all():
    """A server that ends its side of a tunnel, and takes what the client has said before it had ended, too, later."""
    got = cell("s=socket.create_connection(('127.0.0.1',3128));s.sendall(b'CONNECT pub.test:8080 HTTP/1.1\\r\\nHost: "
               "pub.test:8080\\r\\n\\r\\n')\nassert b' 200 ' in s.recv(65536)\ns.sendall(b'POST /later HTTP/1.1\\r\\n'.ljust(8000000));"
               "s.shutdown(socket.SHUT_WR)\nwhile s.recv(65536): pass\ns.close()")
    assert got == "", got
    taken = "get('pub.test', '/taken-later')"
    assert wait_until(lambda: "taken: 8000000" in say(taken)), say(taken)


# ---- real clients ----

def test_requests_and_urllib():
    got = cell("import requests\nr=requests.get('http://pub.test/x', timeout=20); print(r.status_code, r.text)\n"
               "print(urllib.request.urlopen('http://pub.test/y', timeout=20).read().decode())\n"
               "r=requests.get('http://other.invalid/', timeout=20); print(r.status_code, r.text)")
    assert got.count("hello from") == 2 and "403 codebox: other.invalid:80: the session's policy does not allow" in got, got


def test_https_is_end_to_end():
    with open(os.path.join(state["dir"], "pem")) as f:
        pem = f.read()
    got = cell(f"open('ca.pem','w').write('''{pem}''')\nimport requests\n"
               "print(requests.get('https://pub.test/x', timeout=20, verify='ca.pem').text)")
    assert f"hello from {ownnet.PUBLIC}" in got, got
    got = cell("try:\n    requests.get('https://evil.invalid/', timeout=20)\nexcept Exception as e: print(e)")
    assert "403 codebox: evil.invalid:443: the session's policy does not allow it; allowed are: *.test" in got, got


def test_pip_says_why():
    got = cell("import subprocess, sys\nprint(subprocess.run([sys.executable, '-m', 'pip', 'download', '--no-deps', "
               "'--index-url', 'https://index.invalid/simple', 'x'], capture_output=True, text=True).stderr)")
    assert "codebox: index.invalid:443: the session's policy does not allow it" in got, got


def test_curl():
    """The machine's, in an image of its programs that the test makes."""
    b = Box(CODEBOX_POLICY=policy_file(POLICY), CODEBOX_POOL="0")
    b.env["CODEBOX_DATA_DIR"] = os.path.join(b.dir, "data")
    b("image", "build", "host", "--no-compile", check=True)
    with Control(b) as client:
        client.call("session.create", session_id="curl", image="host")
        code = ("import subprocess\nfor a in (['http://pub.test/'], ['--socks5-hostname','127.0.0.1:3128','http://pub.test/'],"
                "['-p','http://pub.test:8080/'], ['http://evil.invalid/'], ['-L','http://pub.test/redirect/http://lo.test/']):\n"
                " print(subprocess.run(['curl','-sS',*a],capture_output=True,text=True).stdout)")
        got = client.call("run", session_id="curl", code=code)["output"]
    b.stop()
    assert got.count("hello from " + ownnet.PUBLIC) == 3 and "hello from 127" not in got, got
    assert "evil.invalid:80: the session's policy does not allow it" in got and "127.0.0.1, is not public" in got, got


# ---- uploads from addresses, and variables ----

def mcp(b, calls, *args):
    """What codebox mcp answers to these calls of tools, one after the other."""
    hello = {"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
    messages = [hello] + [{"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": {"name": n, "arguments": a}}
                          for i, (n, a) in enumerate(calls)]
    process = b.popen("mcp", *args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    got = {}
    for m in messages:
        process.stdin.write(json.dumps(m) + "\n")
        process.stdin.flush()
        while m["id"] not in got:
            answer = json.loads(process.stdout.readline())
            got[answer.get("id")] = answer
    process.stdin.close()
    process.wait(120)
    return [got[i].get("result") for i in range(len(calls))]


def test_uploads_from_addresses():
    b = box(POLICY)[0]
    with open(os.path.join(state["dir"], "pem")) as f:
        pem = f.read()
    bad = ["http://evil.invalid/file", "http://lo.test/file", "http://127.0.0.1/file", "http://pub.test/redirect/http://lo.test/file",
           "http://pub.test/redirect/file:///etc/passwd", "http://pub.test/cut",
           "https://pub.test/file", "http://pub.test/big/536870913"]
    calls = [("upload_file", {"filename": "in/a.txt", "url": "http://pub.test/file"}),
             ("upload_file", {"filename": "b.txt", "url": "http://pub.test/redirect/http://other.test/file"}),
             ("upload_file", {"filename": "large", "url": "http://pub.test/big/3000000"})]
    calls += [("upload_file", {"filename": f"bad{i}", "url": u}) for i, u in enumerate(bad)]
    calls += [("run_code", {"code": "import os; print(open('in/a.txt').read(), open('b.txt').read(), os.path.getsize('large'),"
                                    " sorted(os.listdir('.')))"})]
    got = mcp(b, calls, "--set", "disk=64M")
    for r in got[:3]:
        assert not r["isError"], r
    assert got[0]["structuredContent"]["written"] == 19 and got[2]["structuredContent"]["written"] == 3000000, got
    for call, r in zip(calls[3:-1], got[3:-1]):
        assert r["isError"] and "nothing of it is there" in r["content"][0]["text"], (call, r)
    words = " ".join(r["content"][0]["text"] for r in got[3:-1])
    for word in ("evil.invalid:80: the session's policy does not allow", "lo.test:80: its address, 127.0.0.1, is not public",
                 "CERTIFICATE_VERIFY_FAILED", "up to 536870912 are allowed"):
        assert word in words, words
    said = got[-1]["content"][0]["text"]
    assert said.count("contents of a file") == 2 and "3000000 ['b.txt', 'in', 'large']" in said, said
    # With the authority that the policy names.
    policy = dict(POLICY, environment={"SSL_CERT_FILE": "/workspace/ca.pem"})
    got = mcp(box(policy)[0], [("write_file", {"path": "ca.pem", "content": pem}),
                               ("upload_file", {"filename": "c.txt", "url": "https://pub.test/file"})])
    assert not got[1]["isError"], got
    # More than the session's disk has, and a server that stops half-way: nothing is left of either.
    got = mcp(b, [("upload_file", {"filename": "much", "url": "http://pub.test/big/60000000"}),
                  ("upload_file", {"filename": "cut", "url": "http://pub.test/cut"}),
                  ("run_code", {"code": "import os; print(os.listdir('.'), os.statvfs('.').f_bavail * 4096 > 7 << 20)"})],
              "--set", "disk=8M")
    assert got[0]["isError"] and "No space left" in got[0]["content"][0]["text"], got[0]
    assert got[1]["isError"] and "ended after 4 of 10 bytes" in got[1]["content"][0]["text"], got[1]
    assert "[] True" in got[2]["content"][0]["text"], got[2]


def test_uploads_of_a_profile():
    def upload(url, filename=""):
        return "upload_file", {"session_id": "up", "blob_url": url, "filename": filename}

    calls = [upload("http://pub.test/file?sig=1"), upload("http://pub.test/file", "../../home/user/b.txt"),
             upload("http://pub.test/file", ".."), upload("http://lo.test/file"), upload("file:///etc/passwd"),
             ("exec_code", {"session_id": "up", "language": "shell", "code": "cat input/*; ls input /home/user"})]
    got = [json.loads(r["content"][0]["text"]) for r in mcp(box(POLICY)[0], calls, "--profile", "codeboxmcp")]
    assert got[0] == {"session_id": "up", "status": "success", "saved_path": "/workspace/input/file", "size_bytes": 19,
                      "message": "File 'file' uploaded to session. Use exec_code to work with it. "
                                 "File path: /workspace/input/file"}, got[0]
    assert got[1]["saved_path"] == "/workspace/input/b.txt" and got[2]["saved_path"] == "/workspace/input/Uploaded_file", got
    assert got[3]["status"] == "error" and "is not public" in got[3]["error"], got[3]
    assert got[4]["status"] == "error" and "begins with http" in got[4]["error"], got[4]
    said = got[5]["output"]
    assert said.count("contents of a file") == 3 and "Uploaded_file\nb.txt\nfile\n" in said, said


def test_headers_bound_what_is_fetched():
    d = Daemon("--policy", policy_file(POLICY))
    c = Modern(d.port)

    def upload(url, **headers):
        arguments = {"session_id": "up", "blob_url": url, "filename": "it"}
        a = c.request("tools/call", {"name": "upload_file", "arguments": arguments}, path="/mcp/codeboxmcp", **headers)
        return json.loads(a.message["result"]["content"][0]["text"])

    assert upload("http://pub.test/big/1000", X_Max_Download_Size="1000")["size_bytes"] == 1000
    r = upload("http://pub.test/big/1001", X_Max_Download_Size="1000")
    assert r["status"] == "error" and "1001 bytes, and up to 1000 are allowed" in r["error"], r
    r = upload("http://pub.test/stall", X_Download_Timeout="1")
    assert r["status"] == "error" and "not fetched within 1 s" in r["error"], r
    assert d.stop() == 0


def test_variables_are_passed_through():
    b = Box(CODEBOX_POOL="0", FIRST_TOKEN="one of a kind", SECOND_TOKEN="another")
    got = mcp(b, [("run_code", {"code": "import os; print([os.environ.get(n) for n in ('FIRST_TOKEN', 'SECOND_TOKEN', "
                                        "'THIRD_TOKEN')])"})], "--pass-through-env", "FIRST_TOKEN,THIRD_TOKEN")
    assert "['one of a kind', None, None]" in got[0]["content"][0]["text"], got
    b("session", "ls", "--json")
    with open(os.path.join(b.env["CODEBOX_STATE_DIR"], "codeboxd.log")) as f:
        assert "one of a kind" not in f.read()
    got = mcp(b, [("run_python_code", {"code": "import os; print(os.environ['FIRST_TOKEN'])"})], "--profile", "code-sandbox",
              "--pass-through-env", "FIRST_TOKEN")
    assert "one of a kind" in got[0]["content"][0]["text"], got


# ---- limits, and what is reported ----

def test_decisions_are_kept():
    said = described()
    assert said["mode"] == "allow" and said["state"] == "up", said
    assert [r["host"] for r in said["rules"]["allow"]][0] == "*.test", said
    say("get('told.invalid')")
    say("get('told.invalid')")

    def told():
        return [d for d in described()["decisions"] if d["host"] == "told.invalid" and d["count"] == 2]

    assert wait_until(told), described()
    assert told()[0]["verdict"] == "refused" and "does not allow" in told()[0]["why"], told()
    with open(os.path.join(box(POLICY)[0].env["CODEBOX_STATE_DIR"], "codeboxd.log")) as f:
        log = f.read()
    assert re.search(r"session s: network: refused told.invalid:80 \(http\)", log), log[-2000:]
    # All of them, though nothing follows.
    cell("for i in range(50): get('quiet.invalid')")
    assert wait_until(lambda: sum(d["count"] for d in described()["decisions"] if d["host"] == "quiet.invalid") == 50), described()
    cell("for i in range(200): get(f'n{i}.invalid')")
    assert len(described()["decisions"]) <= 64


def test_what_was_given_up_is_not_done():
    """Its name is known at last, when the client has its answer, that it took too long."""
    policy = {"include": ["default"], "network": {"allow": ["late.test", "pub.test"], "time": "1s"}}
    got = cell("import time\ns = socket.create_connection(('127.0.0.1', 3128))\n"
               "s.sendall(b'GET http://late.test/count HTTP/1.1\\r\\nHost: late.test\\r\\n\\r\\n')\nprint(s.recv(1000))\n"
               "time.sleep(2)\nprint(get('pub.test', '/count').decode())\ns.close()", policy)
    assert "504" in got and "counted: 1\n" in got, got


def test_slow_peers_cost_others_nothing():
    """All places are taken by peers that stand still: a client that says nothing, a server that says nothing, one that
    stops half-way, one that does not take the connection. Another session does not notice; this one continues as soon as one has stood still for long enough."""
    b, client = box(POLICY)
    cell("slow = []\nfor i in range(16):\n"
         " s = socket.create_connection(('127.0.0.1', 3128)); slow.append(s)\n"
         " if i % 4: s.sendall(b'GET http://pub.test' + [b'', b'/silent', b'/stall', b':8888/'][i % 4] + b' HTTP/1.1\\r\\n"
         "Host: pub.test' + (b':8888' if i % 4 == 3 else b'') + b'\\r\\n\\r\\n')")
    client.call("session.create", session_id="other")
    client.call("run", session_id="other", code=PRELUDE)
    got = client.call("run", session_id="other", code="print(get('pub.test').decode())")["output"]
    assert "hello from" in got, got
    client.call("session.close", session_id="other")
    assert "hello from" in say("get('pub.test')")
    cell("for s in slow: s.close()")
    # Of these none would end by itself while the client waits.
    cell("slow = []\nfor i in range(16):\n"
         " s = socket.create_connection(('127.0.0.1', 3128)); slow.append(s)\n"
         " s.sendall(b'GET http://pub.test' + [b'/silent', b'/stall'][i % 2] + b' HTTP/1.1\\r\\nHost: pub.test\\r\\n\\r\\n')")
    assert "hello from" in say("get('pub.test')")
    cell("for s in slow: s.close()")


def test_one_that_never_reads():
    cell("s = socket.create_connection(('127.0.0.1', 3128)); s.sendall(b'GET http://pub.test/forever HTTP/1.1\\r\\n"
         "Host: pub.test\\r\\n\\r\\n')")
    assert "hello from" in say("get('pub.test')")
    pid = box(POLICY)[0].daemon_pid()
    proxies = [p for p in os.listdir("/proc") if p.isdigit() and proxy_of(int(p), pid)]
    sizes = [resident(int(p)) for p in proxies]
    assert sizes and max(sizes) < 16 << 20, sizes
    cell("s.close()")


def parent(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return int(f.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def proxy_of(pid, daemon):
    try:
        with open(f"/proc/{pid}/comm") as f:
            if f.read().strip() != "codebox-proxy":
                return False
    except OSError:
        return False
    return daemon in (parent(pid), parent(parent(pid)))


def resident(pid):
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_limits():
    assert "hello" in say("get('pub.test')", SMALL)
    got = cell("import time\nt=time.monotonic(); d=get('pub.test','/silent'); print(len(d))", SMALL)  # its time is over
    assert got.strip() == "0", got
    cell("get('pub.test', '/big/1100000')", SMALL)
    assert "used up the bytes" in say("get('pub.test')", SMALL)


def test_a_proxy_ends_with_its_session():
    b = Box(CODEBOX_POLICY=policy_file(POLICY), CODEBOX_POOL="0")
    b("run", "--session", "x", "-c", "pass", check=True)
    pid = b.daemon_pid()

    def proxies():
        return sum(proxy_of(int(p), pid) for p in os.listdir("/proc") if p.isdigit())

    assert wait_until(lambda: proxies() == 2), proxies()
    b("session", "rm", "x", check=True)
    assert wait_until(lambda: proxies() == 1), proxies()
    b("stop", "--force")


if __name__ == "__main__":
    main(globals())
