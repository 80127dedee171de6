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
from pypi import Index, own_data, wheel  # noqa: E402

data = own_data()
UNSET = ("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY", "PIP_CERT", "PIP_PROXY",
         "PIP_CONFIG_FILE", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX",
         "UV_EXTRA_INDEX_URL", "UV_CONFIG_FILE", "UV_FIND_LINKS", "UV_OFFLINE", "PIP_NO_INDEX", "PIP_CLIENT_CERT", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS",
         "NETRC", "UV_NO_INDEX", "UV_NO_CONFIG", "PIP_TRUSTED_HOST")


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
    server = type(index.server)(index.server.RequestHandlerClass)
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


def fill(index, **projects):
    for name, version in projects.items():
        index.add(name.replace("_", "-"), version)
    return index


def test_indexes_that_uv_and_pip_know():
    """Directories first, then the further indexes, then the main one: the first that has a project is where it comes from."""
    main, more = fill(Index(), shared="9.0", mains="1.0"), fill(Index(), shared="1.0", mores="1.0")
    for files, env in (
            ({".config/pip/pip.conf": f"[install]\nextra_index_url: {more.url}\n[global]\nindex-url = {main.url}\n"}, {}),
            ({".pip/pip.conf": f"[global]\nindex-url = {main.url}\nextra-index-url =\n  # one\n  {more.url}\n  {more.url}\n"}, {}),
            ({"pip.conf": f"[global]\nindex-url = {main.url}\nextra-index-url = {more.url}\n"}, {"PIP_CONFIG_FILE": "pip.conf"}),
            ({".config/uv/uv.toml": f'index-url = "{main.url}"\nextra-index-url = [\n"{more.url}",]\nother = {{a = [1]}}\n'}, {}),
            ({"conf/uv/uv.toml": f'[pip]\nindex-url = "{main.url}"\nextra-index-url = ["{more.url}"]\n'},
             {"XDG_CONFIG_HOME": "conf"}),
            ({"conf/uv/uv.toml": f'[[index]]\nurl = "{main.url}"\ndefault = true\n[[index]]\nname = "more"\nurl = "{more.url}"\n'
              f'[[index]]\nurl = "http://127.0.0.1:1/"\nexplicit = true\n'}, {"XDG_CONFIG_DIRS": "conf"}),
            ({}, {"PIP_INDEX_URL": main.url, "PIP_EXTRA_INDEX_URL": more.url}),
            ({}, {"UV_DEFAULT_INDEX": main.url, "UV_INDEX": f"more={more.url}"}),
            ({}, {"UV_INDEX_URL": main.url, "UV_EXTRA_INDEX_URL": more.url}),
            # What comes later counts: files before variables, uv's before pip's.
            ({".config/uv/uv.toml": 'index-url = "http://127.0.0.1:1/"\n',
              ".config/pip/pip.conf": f"[global]\nindex-url = {main.url}\nextra-index-url = http://127.0.0.1:1/\n"},
             {"UV_INDEX": more.url})):
        b = box_with(files=files)
        home = b.env["HOME"]
        b.env.update({k: os.path.join(home, v) if "CONFIG" in k else v for k, v in env.items()})
        answer = install(b, "shared", "mains", "mores")
        assert answer == ["mains 1.0", "mores 1.0", "shared 1.0"], (files, env, answer)
    # One of the policy's is the only one.
    b = box_with({"index": main.url}, files={".config/pip/pip.conf": f"[global]\nextra-index-url = {more.url}\n"})
    assert install(b, "shared") == ["shared 9.0"]
    # What none of them had can be had as soon as one of them has it.
    env = {"PIP_INDEX_URL": main.url, "PIP_EXTRA_INDEX_URL": more.url}
    assert "the index does not have it" in install(box_with(**env), "later")
    fill(more, later="1.0")
    for _ in range(2):
        assert install(box_with(**env), "later") == ["later 1.0"]
    # While a further one does not answer, nothing takes the place of what it has; what it did not have is known.
    more.server.shutdown()
    more.server.server_close()
    assert install(box_with(**env), "mains") == ["mains 1.0"]
    fill(main, unknown="1.0")
    answer = install(box_with(**env), "unknown")
    assert "cannot be reached" in answer, answer


def test_directories_of_wheels():
    main, directory = fill(Index(), local="9.0", other="1.0"), Box().dir
    os.chmod(directory, 0o755)
    for args in ("local", "1.0", ["other"]), ("alone", "1.0"):
        file, data_of = wheel(*args)
        with open(os.path.join(directory, file), "wb") as f:
            f.write(data_of)
    for env in ({"PIP_FIND_LINKS": directory}, {"UV_FIND_LINKS": "file://" + directory}):
        assert install(box_with(PIP_INDEX_URL=main.url, **env), "local") == ["local 1.0", "other 1.0"], env
    b = box_with(files={".config/uv/uv.toml": 'find-links = ["./wheels"]\nno-index = true\n'}, PIP_INDEX_URL=main.url)
    os.symlink(directory, os.path.join(b.env["HOME"], ".config/uv/wheels"))
    assert install(b, "alone") == ["alone 1.0"]
    main.asked.clear()
    b = box_with(PIP_INDEX_URL=main.url, PIP_NO_INDEX="1", PIP_FIND_LINKS=directory)
    assert "does not have it" in install(b, "other") and not main.asked, main.asked


def test_uv_offline():
    """What is kept counts, and nothing is asked."""
    index = fill(Index(), known="1.0", unseen="1.0")
    assert install(box_with(PIP_INDEX_URL=index.url), "known") == ["known 1.0"]
    index.asked.clear()
    assert install(box_with(PIP_INDEX_URL=index.url, UV_OFFLINE="1"), "known") == ["known 1.0"]
    assert "the configuration of uv says offline" in install(box_with(PIP_INDEX_URL=index.url, UV_OFFLINE="1"), "unseen")
    assert not index.asked, index.asked


def test_what_logs_in_stays_outside():
    """Passwords of indexes, of a proxy, of ~/.netrc: they reach their own hosts, and are in no log, error, argument or session."""
    secret = "qu13t3t%/@"
    quoted = "qu13t3t%25%2F%40"
    main = fill(Index(user=f"me:{secret}"), mains="1.0")
    more = fill(Index(user=f"you:{secret}"), mores="1.0")
    plain = Index()
    elsewhere(main, "mains", "127.0.0.1")  # which is refused, with words
    b = box_with(files={
        ".config/uv/uv.toml": f'[[index]]\nname = "my-more"\nurl = "{more.url}"\n',
        ".config/pip/pip.conf": f"[global]\nindex-url = {main.url.replace('//', f'//me:{quoted}@')}\n"},
        UV_INDEX_MY_MORE_USERNAME="you", UV_INDEX_MY_MORE_PASSWORD=secret)
    b("run", "--image", b.image("python"), "--session", "s", "-c", "pass", check=True)
    answers = [b("pip", "install", "--session", "s", "--json", name) for name in ("mores", "mains", "absent")]
    assert "mores" in answers[0].stdout and "error" not in answers[0].stdout, answers[0]
    assert "which is not a public address" in answers[1].stdout or "HTTPS" in answers[1].stdout, answers[1]
    look = ("import os, subprocess\nprint(dict(os.environ), subprocess.run('cat /proc/*/cmdline /proc/*/environ /proc/mounts; env; "
            "grep -rs qu13t ~ /workspace /tmp /run', shell=True, capture_output=True))")
    seen = b("run", "--session", "s", "-c", look, check=True)
    said = "".join(r.stdout + r.stderr for r in (*answers, seen, b("session", "info", "s"), b("logs", "s")))
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                said += f.read().decode("utf-8", "replace")
        except OSError:
            pass
    with open(os.path.join(b.env["CODEBOX_STATE_DIR"], "codeboxd.log")) as f:
        said += f.read()
    assert "qu13t" not in said.replace("grep -rs qu13t", ""), said
    b.stop()
    # As ~/.netrc has it; another host's is not sent.
    netrc = {".netrc": "machine 127.0.0.1 login me password hidden\nmachine other.example.com login x password y\n"}
    main.user = "me:hidden"
    fill(main, again="1.0")
    assert install(box_with(files=netrc, PIP_INDEX_URL=main.url), "again") == ["again 1.0"]
    # A wrong one, and one that is in an address that is wrong.
    answer = install(box_with(PIP_INDEX_URL=main.url.replace("//", "//me:qu13t3t@")), "x")
    assert "wants another user or password" in answer and "no keyring is asked" in answer and "qu13t" not in answer, answer
    answer = install(box_with(PIP_INDEX_URL="ftp://me:qu13t3t@example.org/"), "x")
    assert "not an address of http or https" in answer and "qu13t" not in answer, answer
    assert not plain.asked


def test_a_connection_to_one_index_is_not_that_of_another():
    """What may be asked in a private network is asked by its own index alone, also when there is a connection to it."""
    main, more = Index(), fill(Index(), hidden="1.0")
    more.add("opens", "1.0", ["leads"])
    port, pem = secure(more, "localhost")
    main.add("leads", "1.0")
    main.instead["/simple/leads/"] = 302, {"Location": f"https://localhost:{port}/simple/hidden/"}, b""
    b = box_with(PIP_INDEX_URL=main.url, PIP_EXTRA_INDEX_URL=f"https://localhost:{port}/simple/", PIP_CERT=pem)
    answer = install(b, "opens")
    assert "the index leads to localhost" in answer and "not a public address" in answer, answer
    assert "/simple/leads/" in main.asked and "/simple/opens/" in more.asked and "/simple/hidden/" not in more.asked, more.asked


def test_proxies_of_pip():
    index = fill(Index(), proxied="1.0", proxied_too="1.0")
    proxy = Forward({"index.example.com:80": index.server.server_port}, user="me:pro%xy")
    url = proxy.url.replace("//", "//me:pro%25xy@")
    policy = {"index": "http://index.example.com/simple/"}
    b = box_with(policy, files={".config/pip/pip.conf": f"[global]\nproxy = {url}\n"}, http_proxy="http://127.0.0.1:1")
    assert install(b, "proxied") == ["proxied 1.0"]
    assert install(box_with(policy, PIP_PROXY=url.partition("//")[2]), "proxied-too") == ["proxied-too 1.0"]
    answer = install(box_with(policy, PIP_PROXY="http://me:qu13t3t@127.0.0.1:1"), "absent")
    assert "cannot be reached by the configured proxy" in answer and "qu13t" not in answer, answer


def test_proxies_of_uv():
    """They count where the environment has none."""
    index = fill(Index(), through="1.0", through_too="1.0", near="1.0")
    port, pem = secure(index, "index.example.com")
    plain, tls = Forward({"index.example.com:80": index.server.server_port}), Forward({"index.example.com:443": port})
    uv = {".config/uv/uv.toml": f"http-proxy = '{plain.url}'\nhttps-proxy = '{tls.url}'\nno-proxy = ['example.org', '127.0.0.1']\n"}
    policies = [{"index": f"{scheme}://index.example.com/simple/"} for scheme in ("http", "https")]
    assert install(box_with(policies[0], uv), "through") == ["through 1.0"]
    assert install(box_with(policies[1], uv, PIP_CERT=pem), "through-too") == ["through-too 1.0"]
    assert set(plain.asked) == {"index.example.com:80"} and set(tls.asked) == {"index.example.com:443"}, (plain.asked, tls.asked)
    plain.asked.clear()
    assert install(box_with({"index": index.url}, uv), "near") == ["near 1.0"]
    answer = install(box_with(policies[0], uv, http_proxy="http://me:qu13t3t@127.0.0.1:1"), "absent")
    assert "cannot be reached by the configured proxy" in answer and "qu13t" not in answer and not plain.asked, (answer, plain.asked)
    for key in "http-proxy", "https-proxy":
        answer = install(box_with(policies[0], {".config/uv/uv.toml": f"{key} = 'http://me:qu13t3t@a b'\n"}), "absent")
        assert "http-proxy or https-proxy of uv's configuration is not an address" in answer and "qu13t" not in answer, answer


def test_certificates():
    """Of pip's configuration, and of the variables that others share; a host that nobody vouches for is not asked."""
    index = fill(Index(), sure="1.0", surer="1.0", surest="1.0")
    port, pem = secure(index, "index.example.com")
    proxy = Forward({"index.example.com:443": port})
    policy = {"index": "https://index.example.com/simple/"}
    directory = os.path.join(os.path.dirname(pem), "certs")
    os.mkdir(directory)
    os.chmod(os.path.dirname(pem), 0o755)
    digest = subprocess.run(["openssl", "x509", "-hash", "-noout", "-in", pem], check=True, capture_output=True, text=True).stdout.strip()
    with open(pem) as f, open(os.path.join(directory, digest + ".0"), "w") as to:
        to.write(f.read())
    wrong = os.path.join(os.path.dirname(pem), "absent.pem")
    b = box_with(policy, files={".config/pip/pip.conf": f"[global]\ncert = {pem}\n"}, https_proxy=proxy.url, SSL_CERT_FILE=wrong)
    assert install(b, "sure") == ["sure 1.0"]
    for name, variable, path in ("surer", "SSL_CERT_FILE", pem), ("surest", "SSL_CERT_DIR", directory):
        answer = install(box_with(policy, https_proxy=proxy.url, PIP_CONFIG_FILE=os.devnull, **{variable: path}), name)
        assert answer == [f"{name} 1.0"], answer
    answer = install(box_with(policy, https_proxy=proxy.url, PIP_TRUSTED_HOST="index.example.com"), "none")
    assert "a certificate that cannot be verified" in answer and "trusted-host does not count" in answer, answer


def test_wheels_by_their_address():
    """Where the policy allows it, by HTTPS and with their sum; what they need comes from the index, and is judged like them."""
    index = fill(Index(), needed="1.0", bad="1.0", blocked="1.0")
    index.add("direct", "1.5", ["needed", "extra-thing; extra == 'more'"])
    index.add("extra-thing", "1.0")
    index.add("needs-blocked", "1.0", ["blocked"])
    index.add("wants-newer", "1.0", ["direct>=2"])
    port, pem = secure(index, "files.example.com")
    proxy = Forward({"index.example.com:80": index.server.server_port, "files.example.com:443": port})
    policy = {"index": "http://index.example.com/simple/", "block": ["blocked"], "urls": True}
    env = {"http_proxy": proxy.url, "https_proxy": proxy.url, "PIP_CERT": pem}

    def at(name, host="files.example.com", file=None, digest=None):
        entry = next(e for e in index.pages[name])
        return f"https://{host}/files/{file or entry['filename']}#sha256={digest or entry['hashes']['sha256']}"
    b = box_with({**policy, "urls": False}, **env)
    assert "does not let packages be installed from addresses (packages.urls)" in install(b, f"direct @ {at('direct')}")
    assert not proxy.asked, proxy.asked
    b = box_with(policy, **env)
    answer = install(b, f"Direct[more] @ {at('direct')}")
    assert answer == ["direct 1.5", "extra-thing 1.0", "needed 1.0"], answer
    assert not any(path.startswith("/simple/direct") for path in index.asked), index.asked
    for text, says in ((f"bad @ {at('bad', digest='0' * 64)}", "bad-1.0-py3-none-any.whl is not the file that"),
                       (f"needs-blocked @ {at('needs-blocked')}", "needs-blocked → blocked"),
                       (f"blocked @ {at('blocked')}", "is blocked by the policy"),
                       (f"other @ {at('direct')}", "is not a wheel of it that fits"),
                       (f"direct @ {at('direct')} wants-newer", "cannot be installed together"),
                       (f"direct @ {at('direct', 'localhost')}", "is not a public host"),
                       (f"direct @ {at('direct', '10.0.0.1')}", "is not a public host"),
                       (f"direct @ {at('direct', 'me:word@files.example.com')}", "an address cannot be installed from"),
                       (f"direct @ {at('direct').replace('https', 'http')}", "an address cannot be installed from"),
                       (f"direct @ {at('direct').partition('#')[0]}", "an address cannot be installed from"),
                       (f"direct @ git+{at('direct')}", "an address cannot be installed from")):
        where, _, more = text.partition(" wants")
        answer = install(box_with(policy, **env), where, *(["wants" + more] if more else []))
        assert says in answer, (text, answer)


def test_what_cannot_be_honoured():
    many = " ".join(f"https://i{i}.example.org/simple" for i in range(17))
    for files, env, says in (
            ({}, {"PIP_FIND_LINKS": "https://me:qu13t3t@example.org/links.html"}, "pages of links are not read"),
            ({}, {"PIP_FIND_LINKS": "here"}, "not a directory by its absolute path"),
            ({}, {"PIP_NO_INDEX": "yes"}, "names no directory of wheels"),
            ({}, {"PIP_CERT": "ca.pem"}, "cert of pip's configuration is not an absolute path"),
            ({}, {"PIP_CLIENT_CERT": "c.pem"}, "client-cert of pip's configuration is not an absolute path"),
            ({}, {"PIP_PROXY": "http://a b"}, "proxy of pip's configuration is not an address"),
            ({}, {"PIP_EXTRA_INDEX_URL": many}, "names more than 16 indexes"),
            ({".config/pip/pip.conf": "[global]\n" + "#" * 70000}, {}, "pip.conf: it cannot be read"),
            ({".config/uv/uv.toml": "a = \n"}, {}, "uv.toml:1: this is not TOML"),
            ({".config/uv/uv.toml": 'x = 1\nindex = [{url = "https://me:qu13t3t@example.org"}]\n'}, {},
             "uv.toml:2: write each index as a table: [[index]]")):
        answer = install(box_with(files=files, **env), "none")
        assert says in answer and "qu13t" not in answer, (files, env, answer)


if __name__ == "__main__":
    run(globals())
