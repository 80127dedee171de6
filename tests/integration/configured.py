#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the user has configured for pip and uv counts for packages of sessions, too: proxies, indexes, certificates, and what
logs in. All servers are on the loopback interface; names other than it are known to the test's own proxy alone."""
import json
import os
import ssl
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, Skip, run  # noqa: E402
from forward import Forward  # noqa: E402
from pypi import Index, own_data  # noqa: E402

data = own_data()
UNSET = ("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY", "PIP_CERT", "PIP_PROXY",
         "PIP_CONFIG_FILE", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX",
         "UV_EXTRA_INDEX_URL", "UV_CONFIG_FILE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS",
         "NETRC")


def box_with(packages=None, files=None, **env):
    """A user whose home has these files, and nothing else that is configured."""
    box = Box(CODEBOX_POOL="0", CODEBOX_DATA_DIR=data)
    for name in UNSET:
        box.env.pop(name, None)
    home = os.path.join(box.dir, "home")
    os.mkdir(home)
    for path, text in (files or {}).items():
        path = os.path.join(home, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
    policy = os.path.join(box.dir, "policy.json")
    with open(policy, "w") as f:
        json.dump({"include": ["default"], "packages": packages or {}}, f)
    box.env.update(HOME=home, CODEBOX_POLICY=policy, **env)
    return box


def install(b, *names):
    """What was installed, or the words of the error; and the box ends."""
    try:
        b("run", "--image", b.image("python"), "--session", "s", "-c", "pass", check=True)
        r = b("pip", "install", "--session", "s", "--json", *names)
        answer = json.loads(r.stdout)
        if "error" in answer:
            assert r.returncode != 0, r
            return answer["error"]["message"]
        return [f"{p['name']} {p['version']}" for p in answer["installed"]]
    finally:
        b.stop()


def secure(index, name):
    """(port, file): the index's files by TLS, too, under this name, with a certificate that only this file vouches for."""
    directory = Box().dir
    pem, key = os.path.join(directory, "own.pem"), os.path.join(directory, "own.key")
    try:
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
                        "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}", "-keyout", key, "-out", pem],
                       check=True, capture_output=True)
    except FileNotFoundError:
        raise Skip("there is no openssl")
    os.chmod(pem, 0o644)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, key)
    server = type(index.server)(("127.0.0.1", 0), index.server.RequestHandlerClass)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port, pem


def elsewhere(index, name, host):
    """Its files are on another host than the page."""
    for file in index.pages[name]:
        file["url"] = f"https://{host}/files/{file['filename']}"


def test_a_proxy_in_a_private_network():
    """Files that are not on the index's own host come by it, too; it is not judged as they are."""
    index = Index()
    port, pem = secure(index, "files.example.com")

    def put(name, needs):  # each name once: what is in the store is not fetched again
        index.add(name, "1.0", [needs])
        index.add(needs, "2.0")
        elsewhere(index, name, "files.example.com")
        elsewhere(index, needs, "files.example.com")
    put("far", "farther")
    put("off", "farther-off")
    proxy = Forward({"index.example.com:80": index.server.server_port, "files.example.com:443": port})
    env = {"http_proxy": proxy.url, "https_proxy": proxy.url, "PIP_CERT": pem}
    policy = {"index": "http://index.example.com/simple/"}
    answer = install(box_with(policy, **env), "far")
    assert answer == ["far 1.0", "farther 2.0"], answer
    assert "index.example.com:80" in proxy.asked and "files.example.com:443" in proxy.asked, proxy.asked
    # One that wants a password, and what is said without it.
    proxy = Forward(proxy.names, user="me:pro%xy")
    env.update(http_proxy=proxy.url, https_proxy=proxy.url)
    answer = install(box_with(policy, **env), "off")
    assert "the proxy by which index.example.com is reached wants another user or password" in answer, answer
    url = proxy.url.replace("//", "//me:pro%25xy@")
    answer = install(box_with(policy, **{**env, "http_proxy": url, "https_proxy": url}), "off")
    assert answer == ["farther-off 2.0", "off 1.0"], answer
    # What the variables exempt is reached without it.
    proxy.asked.clear()
    for i, exempt in enumerate(("127.0.0.1", "example.org, 127.0.0.0/8", "*", f"127.0.0.1:{index.server.server_port}")):
        index.add(f"near{i}", "1.0")
        answer = install(box_with({"index": index.url}, no_proxy=exempt, **env), f"near{i}")
        assert answer == [f"near{i} 1.0"], (exempt, answer)
    assert not proxy.asked, proxy.asked
    gone = Forward({})
    gone.server.shutdown()
    gone.server.server_close()
    answer = install(box_with(policy, http_proxy=gone.url), "unseen")
    assert "index.example.com cannot be reached by the configured proxy" in answer, answer


def test_what_a_proxy_is_not_asked_for():
    """Behind a proxy no address can be judged, so it is asked for no name and no address of a private network."""
    index = Index()
    proxy = Forward({"index.example.com:80": index.server.server_port})
    b = box_with({"index": "http://index.example.com/simple/"}, http_proxy=proxy.url, https_proxy=proxy.url)
    b("run", "--image", b.image("python"), "--session", "s", "-c", "pass", check=True)
    for i, host in enumerate(("127.0.0.1", "10.1.2.3", "169.254.169.254", "[::1]", "[::ffff:10.0.0.1]", "[fd00::1]", "0x7f.1",
                              "2130706433", "127.1", "0177.0.0.1", "localhost", "a.localhost.", "printer", "nas.local",
                              "metadata.google.internal", "x.home.arpa", "intra.corp", "me@10.1.2.3", "a%2eb.example.com")):
        index.add(f"p{i}", "1.0")
        elsewhere(index, f"p{i}", host)
        r = json.loads(b("pip", "install", "--session", "s", "--json", f"p{i}").stdout)
        assert "which is not a public host" in r["error"]["message"], (host, r)
    index.add("moved", "1.0")
    index.instead["/files/moved-1.0-py3-none-any.whl"] = 302, {"Location": "https://169.254.169.254/latest"}, b""
    r = json.loads(b("pip", "install", "--session", "s", "--json", "moved").stdout)
    assert "leads to 169.254.169.254, which is not a public host: link-local" in r["error"]["message"], r
    assert set(proxy.asked) == {"index.example.com:80"}, proxy.asked
    b.stop()


if __name__ == "__main__":
    run(globals())
