#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Secrets that the proxy adds to requests: real clients use them, against servers that are there (tests/lib/ownnet.py). What
code can do about them is in tests/probe/secrets.py."""
import hashlib
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, Skip, wait_until  # noqa: E402
from keyed import DIGESTS, OF_ENV, box, cell, helpers, log, main, rule, state  # noqa: E402


# ---- clients ----

def test_requests_and_urllib():
    got = cell("print(get('https://key.test/digest/authorization'))\n"
               "print(urllib.request.urlopen('https://key.test/digest/authorization', timeout=20).read().decode())")
    assert got.count(DIGESTS["env"]) == 2, got


def test_a_post_with_a_body():
    got = cell("r = requests.post('https://key.test/echo', data=b'x' * 70000, timeout=20); print(r.status_code, r.text.count('x'))")
    status, n = got.split()
    assert status == "200" and int(n) > 60000, got
    got = cell("r = requests.post('https://key.test/echo', data=iter([b'one', b'two']), timeout=20); print(r.text)")
    assert "chunked" in got and "one" in got and "two" in got, got


def test_large_answers():
    assert cell("print(len(requests.get('https://key.test/big/20000000', timeout=60).content))").strip() == "20000000"


def test_plain_http_where_the_rule_says_so():
    got = cell("print(get('http://api.test/digest/x-api-key'), get('http://api.test/digest/x-token'))")
    assert DIGESTS["file"] in got and DIGESTS["credential"] in got, got


def test_a_private_host_that_the_rule_names():
    assert DIGESTS["env"] in cell("print(get('https://keyed.test/digest/authorization'))")


def test_httpx():
    """It is mounted."""
    if not state["python"]:
        raise Skip(state["no_python"])
    b, client = box()
    client.call("session.create", session_id="httpx", mounts=[{"source": state["python"], "target": "/mnt/python"}])
    got = cell("import sys; sys.path.append('/mnt/python'); import httpx\nprint(httpx.get('https://key.test/digest/authorization').text)",
               "httpx")
    client.call("session.close", session_id="httpx")
    assert DIGESTS["env"] in got, got


def of_machine(code):
    """With the machine's own programs."""
    b, client = box()
    if "host" not in b.images():
        raise Skip("the image host, which has the machine's curl, is not there")
    client.call("session.create", session_id="host", image="host")
    got = cell("import subprocess\ndef run(*a):\n r = subprocess.run(a, capture_output=True, text=True); print(r.stdout, r.stderr)\n"
               + code, "host")
    client.call("session.close", session_id="host")
    return got


def test_curl():
    got = of_machine("for a in ([], ['--socks5-hostname', '127.0.0.1:3128'], ['--http1.1', '--tls-max', '1.2']):\n"
                     "    run('curl', '-sS', *a, 'https://key.test/digest/authorization')")
    assert got.count(DIGESTS["env"]) == 3, got


NODE = r"""
const http = require('http'), tls = require('tls');
http.request({host: '127.0.0.1', port: 3128, method: 'CONNECT', path: 'key.test:443'}).on('connect', (r, socket) => {
  const t = tls.connect({socket, servername: 'key.test'}, () =>
    t.write('GET /digest/authorization HTTP/1.1\r\nHost: key.test\r\n\r\n'));
  t.on('data', d => process.stdout.write(d)); t.on('error', e => console.log(e.message));
}).end();
"""


def test_node():
    got = of_machine(f"run('node', '-e', {NODE!r})")
    assert DIGESTS["env"] in got, got


def test_servers_are_verified():
    for host, why in (("wrong.test", "hostname mismatch"), ("old.test", "expired"), ("pub.test", "self-signed")):
        got = cell(f"print(get('https://{host}/echo'))")
        assert "502" in got and why in got, (host, got)
    got = cell("print(get('https://lo.test/echo'))")
    assert "403" in got and "is not public" in got, got


def test_other_hosts_are_known_by_the_machines_authorities():
    """Their TLS goes through as it is."""
    got = cell("print(get('https://bare.test/echo'))")
    assert "200 hello from" in got and "earer" not in got, got


def test_the_authority_is_of_one_session():
    b, client = box()
    client.call("session.create", session_id="second")
    read = "print(open(__import__('os').environ['SSL_CERT_FILE']).read())"
    first, second = cell(read), cell(read, "second")
    client.call("session.close", session_id="second")
    mine = first.rpartition("-----BEGIN")[2]
    assert first.count("BEGIN") == second.count("BEGIN") == 2 and mine not in second, (first, second)


def test_what_is_missing():
    """Requests that need it are refused; why, codeboxd's log says and not the answer: the file is the machine's."""
    got = cell("print(get('http://named.test/echo'), get('http://six.test/echo'))")
    assert got.count("403 codebox: a secret that the session's policy adds to requests to this host is not known") == 2, got
    assert "none" not in got and "CBX_TEST_SHORT" not in got, got
    why = [d.get("why", "") for d in box()[1].call("session.info", session_id="s")["network"]["decisions"]]
    assert any("/none: No such file" in w for w in why), why
    assert "CBX_TEST_SHORT: it is shorter than 8 characters" in why, why
    assert "network: named.test: X-Api-Key: its secret is not known" in log(), log()


def test_the_example():
    """The shipped one, as it is, with the key in codeboxd's environment."""
    key = "example-4e8d2b"
    b = Box(CODEBOX_POLICY=os.path.join(os.environ["CODEBOX_SHARE_DIR"], "policies", "examples", "secrets.json"),
            EXAMPLE_API_KEY=key)
    r = b("run", "-c", "import os, urllib.request as u\nprint('EXAMPLE_API_KEY' in os.environ)\n"
          "print(u.urlopen('https://api.example.com/v1/digest/authorization', timeout=60).read().decode())\n"
          "try: u.urlopen('https://api.example.com/v2/', timeout=60)\nexcept OSError as e: print(e)")
    assert r.stdout.split()[:2] == ["False", hashlib.sha256(f"Bearer {key}".encode()).hexdigest()] and "403" in r.stdout, (r.stdout, r.stderr)
    b("stop", "--force")


def test_they_end_with_the_session():
    b, client = box()
    assert wait_until(lambda: helpers() == 2), helpers()
    client.call("session.create", session_id="third")
    assert wait_until(lambda: helpers() == 4), helpers()
    client.call("session.close", session_id="third")
    assert wait_until(lambda: helpers() == 2), helpers()


def test_policies_that_are_wrong():
    b = box()[0]
    for bad, words in (
            (rule("*.test"), "is not the name of one host"), (rule("10.0.0.5"), "is not the name of one host"),
            ({"host": "a.test", "secrets": [{"header": "Host", "environment": "X"}]}, "give the name of a header"),
            ({"host": "a.test", "secrets": [{"header": "X", "environment": "X", "file": "/x"}]}, "a secret is in one place"),
            ({"host": "a.test", "secrets": [{"header": "X", "file": "x"}]}, "absolute path"),
            ({"host": "a.test", "secrets": [{"header": "X", "credential": "../x"}]}, "name of a credential"),
            ({"host": "a.test", "secrets": [{"header": "X"}]}, "give a header, and environment, file or credential"),
            ({"host": "a.test", "secrets": [{"header": "X", "environment": "X", "value": "sk-1"}]}, "the secret itself does not belong"),
            ({"host": "a.test", "secrets": [{"header": "X", "environment": "X", "value": "{}\r\nY: {}"}]}, "with {} where"),
            ({"host": "a.test", "plain": True}, "there are no secrets")):
        fd, path = tempfile.mkstemp(suffix=".json", dir=state["dir"])
        with os.fdopen(fd, "w") as f:
            json.dump({"include": ["default"], "network": {"allow": [bad]}}, f)
        r = b("policy", "check", path)
        assert r.returncode and words in r.stderr, (bad, r.stderr)


if __name__ == "__main__":
    main(globals())
