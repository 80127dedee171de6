#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""JSON Web Tokens of an issuer: made by PyJWT, which comes with the official Python client (PyPI mcp), and that client, which
finds the issuer by itself. Who gets in and who does not, keys that change, tokens that expire."""
import base64
import http.client
import http.server
import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.parse
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "clients"))
import common  # noqa: E402

common.enter_venv()

import anyio  # noqa: E402
import jwt  # noqa: E402
from cryptography.hazmat.primitives import serialization  # noqa: E402
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa  # noqa: E402
from mcp import Client as Mcp  # noqa: E402
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider  # noqa: E402
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client  # noqa: E402

from common_http import PATIENCE, Client, Daemon, wait_until  # noqa: E402
import cbxtest  # noqa: E402

ISSUER = "https://login.example.org/realm"
AUDIENCE = "https://box.example.org/mcp"
PRIVATE = {"RS256": rsa.generate_private_key(65537, 2048), "PS256": rsa.generate_private_key(65537, 2048),
           "ES256": ec.generate_private_key(ec.SECP256R1()), "EdDSA": ed25519.Ed25519PrivateKey.generate()}
OTHER = {"RS256": rsa.generate_private_key(65537, 2048), "ES256": ec.generate_private_key(ec.SECP256R1()),
         "EdDSA": ed25519.Ed25519PrivateKey.generate()}
MAKERS = {"RS256": jwt.algorithms.RSAAlgorithm, "PS256": jwt.algorithms.RSAAlgorithm, "ES256": jwt.algorithms.ECAlgorithm,
          "EdDSA": jwt.algorithms.OKPAlgorithm}
AUDIT = Path(cbxtest.directory, "audit", "log")
servers = {}


def same(got, want):
    assert got == want, f"got {got!r}, want {want!r}"


def jwk(alg, key, **more):
    made = MAKERS[alg].to_jwk(key.public_key())
    public = {k: v for k, v in (json.loads(made) if isinstance(made, str) else made).items() if k not in ("key_ops", "alg")}
    return {**public, "kid": f"key-{alg}", "alg": alg, "use": "sig", **more}


def jwks(keys=PRIVATE, *more):
    """As issuers publish them: among others that are for something else."""
    for_others = [{"kty": "RSA", "use": "enc", "kid": "e", "n": "AQAB", "e": "AQAB"}, {"kty": "new", "kid": "n"},
                  {"kty": "EC", "crv": "P-384", "kid": "p", "x": "AA", "y": "AA"}]
    return {"keys": for_others + [jwk(alg, key) for alg, key in keys.items()] + list(more)}


def claims(**more):
    now = int(time.time())
    return {k: v for k, v in {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "tenant": "acme", "scope": "openid read run",
                              "iat": now, "exp": now + 3600, **more}.items() if v is not None}


def token(alg="ES256", key=None, headers=None, **more):
    return jwt.encode(claims(**more), key or PRIVATE[alg], algorithm=alg, headers={"kid": f"key-{alg}", **(headers or {})})


def b64(data):
    data = data if isinstance(data, (bytes, str)) else json.dumps(data)
    return base64.urlsafe_b64encode(data.encode() if isinstance(data, str) else data).rstrip(b"=").decode()


def raw(header, body, alg="ES256"):
    """Any texts, with a right signature by our key of that algorithm."""
    text = f"{header if isinstance(header, str) else b64(header)}.{body if isinstance(body, str) else b64(body)}"
    made = jwt.get_algorithm_by_name(alg)
    return f"{text}.{b64(made.sign(text.encode(), made.prepare_key(PRIVATE[alg])))}"


def put(directory, name, content):
    """A file in the place of another."""
    path = os.path.join(directory, name)
    Path(path + ".new").write_text(content if isinstance(content, str) else json.dumps(content))
    os.chmod(path + ".new", 0o644)
    os.rename(path + ".new", path)


def configuration(**more):
    rules = {"issuer": ISSUER, "audience": ["https://elsewhere.example.org", AUDIENCE], "keys": "keys.json", **more}
    return json.dumps({"jwt": {k: v for k, v in rules.items() if v is not None}, "tenants": {"acme": {}, "beta.2": {}}})


class Server(Daemon):
    def __init__(self, *args, keys=None, **more):
        self.given = keys or jwks()
        self.more = more
        super().__init__(*args, tenants=configuration(**more))

    def write(self, tenants):
        os.makedirs(self.config, 0o755, exist_ok=True)
        if not os.path.exists(os.path.join(self.config, "keys.json")):
            put(self.config, "keys.json", self.given)
        super().write(tenants)


def daemon():
    if "daemon" not in servers:
        os.mkdir(AUDIT.parent)
        os.chmod(AUDIT.parent, 0o777)  # root's codeboxd gives itself up for another id
        servers["daemon"] = Server("--audit", str(AUDIT))
    return servers["daemon"]


def bearer(text):
    return {"Authorization": f"Bearer {text}"}


def get(d, text, path="/sessions", **headers):
    return Client(d.port).send("GET", path=path, Content_Type=None, **{**(bearer(text) if text else {}), **headers})


def refused(d, text, why):
    """The client gets the answer that all get, and the operator learns why: within what the log takes in a second."""
    def told():
        n = len(d.log)
        a = get(d, text)
        same((a.status, json.loads(a.body)["detail"]),
             (401, "this bearer token is not valid: it is wrong, was revoked, or has expired"))
        assert 'error="invalid_token"' in a.headers["WWW-Authenticate"], a.headers
        return wait_until(lambda: any(f"JWT was not accepted: {why}" in line for line in d.log[n:]), 0.2)

    assert wait_until(told), (why, text, d.log[-3:])


def test_algorithms():
    d = daemon()
    for alg in PRIVATE:
        same((alg, get(d, token(alg)).status), (alg, 200))
    same(get(d, token(aud=["x", AUDIENCE], scope="read")).status, 200)
    same(get(d, token(headers={"typ": "at+jwt"})).status, 200)
    # Keys that a token brings along, or says where they are, are not looked at.
    same(get(d, token(headers={"jwk": jwk("ES256", OTHER["ES256"]), "jku": "https://evil.example.com/keys",
                               "x5u": "file:///etc/passwd", "x5c": ["AA"]})).status, 200)
    # Tokens of codebox token are there all the same.
    same(get(d, d.token("acme")).status, 200)


def test_wrong_signatures():
    d = daemon()
    pem = PRIVATE["RS256"].public_key().public_bytes(serialization.Encoding.PEM,
                                                     serialization.PublicFormat.SubjectPublicKeyInfo)
    hmac = jwt.get_algorithm_by_name("HS256")
    text = f"{b64({'alg': 'HS256', 'kid': 'key-RS256'})}.{b64(claims())}"
    head, body, signature = token().split(".")
    unsupported, unsigned, unknown = "its alg is not RS256", "its signature", "its kid is not that"
    for text, why in [
            (f"{text}.{b64(hmac.sign(text.encode(), pem))}", unsupported),
            (f"{b64({'alg': 'none'})}.{b64(claims())}.", unsupported), (f"{b64({'alg': 'None'})}.{b64(claims())}.", unsupported),
            (raw({"alg": ["ES256"], "kid": "key-ES256"}, claims()), unsupported),
            (raw({"kid": "key-ES256"}, claims()), unsupported), (raw({"alg": "ES512", "kid": "key-ES256"}, claims()), unsupported),
            (token("RS256", OTHER["RS256"]), unsigned), (token("ES256", OTHER["ES256"]), unsigned),
            (token("EdDSA", OTHER["EdDSA"]), unsigned), (f"{head}.{body}.", unsigned), (f"{head}.{body}.{'A' * 86}", unsigned),
            (f"{head}.{b64(claims(tenant='beta.2'))}.{signature}", unsigned),
            (token("ES256", OTHER["ES256"], headers={"jwk": jwk("ES256", OTHER["ES256"])}), unsigned),
            (token(headers={"kid": "key-RS256"}), "its alg is not one that its key is for"),
            (token("PS256", PRIVATE["RS256"], headers={"kid": "key-RS256"}), "its alg is not one that its key is for"),
            (token(headers={"kid": "../../../../../dev/null"}), unknown), (token(headers={"kid": "e"}), unknown),
            (token(headers={"kid": "' OR 1=1"}), unknown), (raw({"alg": "ES256", "kid": 7}, claims()), "its kid is not a string"),
            (raw({"alg": "ES256"}, claims()), "it has no kid")]:
        refused(d, text, why)


def test_malformed():
    d = daemon()
    header = {"alg": "ES256", "kid": "key-ES256"}
    head, body, signature = token().split(".")
    last = signature[-1]  # its last two bits are not of a byte
    other = next(c for c in "ABCDEFGHIJKLMNOP" + "QRSTUVWXYZ" if c != last)
    twice = json.dumps(claims())[:-1] + ',"tenant":"beta.2"}'
    for text, why in [
            ("x", "it does not consist"), ("a.b", "it does not consist"), (f"{head}.{body}.{signature}.x", "it does not consist"),
            ("..", "its header is not"), ("e30.e30.", "its alg"), (f"{head}=.{body}.{signature}", "its header is not"),
            (f"{head}.{body}.{signature[:-1]}{other}", "its signature"), (f"{head}.{body}.{signature}=", "its signature"),
            (raw(b64('{"alg":"none","alg":"ES256","kid":"key-ES256"}'), claims()), "its header is not"),
            (raw(header, b64(twice)), "its claims are not"), (raw(header, b64("[]")), "its claims are not"),
            (raw(header, b64('{"a":1} x')), "its claims are not"), (raw(header, b64(b'{"sub":"\xff"}')), "its claims are not"),
            (raw(header, b64('{"sub":"\\u0000"}')), "its claims are not"), (raw(header, b64("[" * 3000)), "its claims are not"),
            (raw(header, claims(x=list(range(600)))), "its claims are not"), (token(sub="x" * 9000), "it is too long"),
            (token(headers={"crit": ["b64"], "b64": False}), "its header has crit"),
            (token(headers={"typ": "logout+jwt"}), "its typ is not"), (token(headers={"typ": "dpop+jwt"}), "its typ is not")]:
        refused(d, text, why)
    # Longer than all headers may be.
    same(get(d, token(sub="x" * 20000)).status, 400)


def test_claims():
    d = daemon()
    now = int(time.time())
    same(get(d, token(exp=now + 3600.5, nbf=now - 5)).status, 200)
    for more, why in [
            ({"iss": ISSUER + "/"}, "its iss"), ({"iss": None}, "its iss"), ({"iss": "https://evil.example.com"}, "its iss"),
            ({"aud": "https://box.example.org"}, "its aud"), ({"aud": None}, "its aud"), ({"aud": []}, "its aud"),
            ({"aud": ["x", "y"]}, "its aud"), ({"exp": now - 3600}, "it has expired"), ({"exp": None}, "its exp"),
            ({"nbf": now + 3600}, "it is not valid yet"), ({"tenant": None}, "the claim that names its tenant is missing"),
            ({"tenant": ["acme"]}, "the claim that names its tenant is missing"),
            ({"tenant": "nobody"}, "the claim that names its tenant names one that does not exist"),
            ({"tenant": "local"}, "the claim that names its tenant names one that does not exist"),
            ({"tenant": "../acme"}, "the claim that names its tenant does not name one"),
            ({"tenant": "ACME"}, "the claim that names its tenant names one"), ({"cnf": {"jkt": "x"}}, "it is bound to a key")]:
        refused(d, token(**more), why)
    header = {"alg": "ES256", "kid": "key-ES256"}
    for more, why in [({"exp": str(now + 3600)}, "its exp"), ({"exp": 1e300}, "its exp"), ({"exp": -1}, "its exp"),
                      ({"exp": True}, "its exp"), ({"nbf": "0"}, "its nbf"), ({"aud": {AUDIENCE: 1}}, "its aud"),
                      ({"iss": [ISSUER]}, "its iss")]:
        refused(d, raw(header, claims(**more)), why)


def test_scopes():
    d = daemon()
    looker, runner, nothing, all_of_them = (token(scope=s) for s in ("read", "run", "openid", "read run metrics read,run,metrics"))
    same([get(d, t).status for t in (looker, runner, nothing)], [200, 403, 403])
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    a = Client(d.port).send("POST", ping, **bearer(looker))
    same(a.status, 403)
    challenge = a.headers["WWW-Authenticate"]
    assert 'error="insufficient_scope", scope="run"' in challenge and "resource_metadata=" in challenge, challenge
    assert Client(d.port).send("POST", ping, **bearer(runner)).status in (200, 400)
    # What is about all tenants no issuer can give.
    same(get(d, all_of_them, "/metrics").status, 403)
    # Who it was the audit log knows.
    lines = [json.loads(line) for line in AUDIT.read_text().splitlines()]
    assert [x for x in lines if x.get("token") == "jwt:alice" and x.get("tenant") == "acme"], lines[-3:]


def test_metadata():
    d = daemon()
    base, word = f"http://127.0.0.1:{d.port}", "/.well-known/oauth-protected-resource"
    for path, resource in [("/mcp", "/mcp"), ("/mcp/seed1", "/mcp/seed1"), ("", ""), ("/sessions", None), ("/mcp/a/b", None)]:
        a = get(d, None, word + path)
        if resource is None:
            same(a.status, 401)
            continue
        same((a.status, a.type), (200, "application/json"))
        same(json.loads(a.body), {"resource": base + resource, "authorization_servers": [ISSUER],
                                  "scopes_supported": ["read", "run"], "bearer_methods_supported": ["header"],
                                  "resource_name": "codebox"})
    same(get(d, None, word, Host="evil.example.com").status, 403)
    same(Client(d.port).send("POST", path=word, body="").status, 405)
    for path, want in [("/mcp", f'Bearer scope="run", resource_metadata="{base}{word}/mcp"'),
                       ("/mcp/seed1", f'Bearer scope="run", resource_metadata="{base}{word}/mcp/seed1"'),
                       ('/mcp/"x', f'Bearer scope="run", resource_metadata="{base}{word}"'),
                       ("/sessions", f'Bearer resource_metadata="{base}{word}"')]:
        a = get(d, None, path)
        same((a.status, a.headers["WWW-Authenticate"]), (401, want))


def test_files_with_faults():
    """Each leaves in force what was, and is named."""
    d = daemon()
    key = jwk("ES256", PRIVATE["ES256"])
    small = rsa.generate_private_key(65537, 1024)
    private = json.loads(json.dumps(MAKERS["RS256"].to_jwk(PRIVATE["RS256"], as_dict=True)))
    for more, why in [({"issuer": None}, "jwt.issuer"), ({"issuer": "login"}, "jwt.issuer"), ({"audience": None}, "jwt.audience"),
                      ({"audience": []}, "jwt.audience"), ({"audience": ["x"] * 17}, "1 to 16"), ({"audience": [1]}, "jwt.audience"),
                      ({"keys": None}, "jwt.keys"), ({"keys": "none.json"}, "none.json"), ({"leeway": "6m"}, "jwt.leeway"),
                      ({"leeway": 5}, "leeway"), ({"secret": "x"}, "secret"), ({"tenant_claim": ""}, "tenant_claim"),
                      ({"tenants": {"x": "nobody"}}, "nobody"), ({"tenants": {"x": 1}}, "jwt.tenants")]:
        d.write(configuration(**more))
        said = d.reload()
        assert "as they were" in said and why in said, (why, said)
    d.write(configuration())
    for content, why in [("", "json"), ("[]", "JWK set"), ('{"keys":{}}', "JWK set"), ('{"keys":[]}', "none is for"),
                         ({"keys": [key] * 65}, "more than 64"), ({"keys": [key, key]}, "two keys"), ({"keys": [1]}, "objects"),
                         ({"keys": [{"kty": "oct", "k": "AAAA", "alg": "HS256"}]}, "secret"), ({"keys": [private]}, "private"),
                         ({"keys": [jwk("RS256", small)]}, "cannot be used"), ({"keys": [{**key, "x": key["y"]}]}, "cannot be used"),
                         ({"keys": [{**key, "y": "AA"}]}, "cannot be used"), ({"keys": [{**key, "kid": 1}]}, "kid"),
                         ({"keys": [{**jwk("RS256", PRIVATE["RS256"]), "e": "Aw"}]}, "cannot be used"),
                         ({"keys": [key], "x": "y" * (257 << 10)}, "large")]:
        put(d.config, "keys.json", content)
        said = d.reload()
        assert "as they were" in said and why in said, (why, said)
        same(get(d, token()).status, 200)
        assert said.endswith("done, except for the above\n"), said
    put(d.config, "keys.json", jwks())
    said = d.reload()
    assert "as they were" not in said and said.endswith("done\n"), said
    assert wait_until(lambda: any("4 keys" in line for line in d.log[-3:])), d.log[-3:]


def opened_stream(d, text):
    """An answer that does not end: None, if it is not one."""
    c = Client(d.port, **bearer(text))
    hello = c.send("POST", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}}})
    if hello.status != 200:
        return None
    session = {"Mcp-Session-Id": hello.headers["Mcp-Session-Id"], "MCP-Protocol-Version": "2025-11-25"}
    other = Client(d.port, **{**bearer(text), **session, "Accept": "text/event-stream", "Content-Type": None})
    response = other.begin("GET").getresponse()
    return (other, response) if response.status == 200 else None


def ended(stream):
    """It was cut off: what keeps it alive comes four times a minute otherwise."""
    until = time.monotonic() + PATIENCE
    try:
        while time.monotonic() < until:
            if not stream[1].read1(4096):
                return True
    except (OSError, http.client.HTTPException):
        return True
    return False


def test_an_answer_ends_with_its_token():
    d = daemon()
    d.write(configuration(leeway="0s"))
    d.reload()
    for seconds in 4, 20, 90:
        text = token(exp=int(time.time()) + seconds)
        stream = opened_stream(d, text)
        if stream:
            break
    assert stream, "no stream could be opened within 90 seconds"
    assert ended(stream)
    refused(d, text, "it has expired")
    d.write(configuration())
    d.reload()
    # Within the leeway clocks may differ.
    same(get(d, token(exp=int(time.time()) - 1, nbf=int(time.time()) + 10)).status, 200)


def test_keys_that_change():
    d = Server()
    old, new = token(), token(key=OTHER["ES256"], headers={"kid": "new"})
    stays, goes = opened_stream(d, token("EdDSA")), opened_stream(d, old)
    same([get(d, t).status for t in (old, new)], [200, 401])
    # A new file, and nobody says so.
    kept = {alg: PRIVATE[alg] for alg in ("RS256", "EdDSA")}
    put(d.config, "keys.json", jwks(kept, jwk("ES256", OTHER["ES256"], kid="new")))
    assert wait_until(lambda: get(d, new).status == 200), d.log
    same([get(d, t).status for t in (old, new, token("RS256"))], [401, 200, 200])
    assert ended(goes), "an answer outlived its token's key"
    # One with a fault: those in force stay.
    put(d.config, "keys.json", '{"keys": [')
    assert wait_until(lambda: any("the keys stay as they were" in line for line in d.log)), d.log
    same(get(d, new).status, 200)
    # By SIGHUP: other keys and other rules.
    put(d.config, "keys.json", jwks())
    d.write(configuration(tenants={"org/7": "beta.2"}, tenant_claim="https://example.org/org", scope_claim="scp"))
    assert "as they were" not in d.reload()
    assert ended(stays), "an answer outlived the rules of its token"
    theirs = {"https://example.org/org": "org/7", "scp": ["read", "x"]}
    same(get(d, token(**theirs)).status, 200)
    refused(d, token(**{**theirs, "https://example.org/org": "beta.2"}), "the claim that names its tenant does not name one")
    refused(d, old, "the claim that names its tenant is missing")
    # Without rules there are no JWTs.
    d.write({"acme": {}})
    d.reload()
    a = get(d, token())
    same((a.status, a.headers["WWW-Authenticate"]), (401, 'Bearer error="invalid_token"'))
    same(get(d, None, "/.well-known/oauth-protected-resource").status, 401)
    same(d.stop(), 0)


class Issuer(http.server.ThreadingHTTPServer):
    """An authorization server for clients with a secret: its metadata, and tokens for the resource that is named."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answers)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.asked = []
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Answers(http.server.BaseHTTPRequestHandler):
    def answer(self, what):
        body = json.dumps(what).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        url = self.server.url
        if self.path == "/certs":
            self.answer(self.server.keys)
            return
        self.answer({"issuer": url, "authorization_endpoint": url + "/authorize", "token_endpoint": url + "/token",
                     "response_types_supported": ["code"], "grant_types_supported": ["client_credentials"],
                     "token_endpoint_auth_methods_supported": ["client_secret_basic"]})

    def do_POST(self):
        asked = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        self.server.asked.append(asked)
        self.answer({"token_type": "Bearer", "expires_in": 600, "scope": asked["scope"],
                     "access_token": token(iss=self.server.url, aud=asked["resource"], scope=asked["scope"], sub="the SDK")})

    def log_message(self, *args):
        pass


class Storage:
    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, info):
        self.client = info


async def names(url, mode, **how):
    async with Mcp(streamable_http_client(url, http_client=create_mcp_http_client(**how)), mode=mode,
                   read_timeout_seconds=PATIENCE) as c:
        return [t.name for t in (await c.list_tools()).tools]


def test_the_python_sdk():
    """With a token that it has; and with none: the 401 leads it to the metadata, that to the issuer, and that to a token."""
    d = daemon()
    for mode in "legacy", "auto":
        assert "run_code" in anyio.run(lambda: names(d.url, mode, headers=bearer(token())))
    issuer = Issuer()
    d = Server(issuer=issuer.url)
    d.write(configuration(issuer=issuer.url, audience=d.url))
    d.reload()
    for mode in "legacy", "auto":
        auth = ClientCredentialsOAuthProvider(d.url, Storage(), "me", "a secret", issuer=issuer.url)
        assert "run_code" in anyio.run(lambda: names(d.url, mode, auth=auth))
    same(sorted({(a["resource"], a["scope"]) for a in issuer.asked}), [(d.url, "run")])
    same(d.stop(), 0)
    issuer.shutdown()


def test_how_others_reach_it():
    """Behind a proxy the metadata has the names that clients know. And a token needs no kid where there is one key."""
    d = Server("--http-url", "https://box.example.org", keys=jwks({"ES256": PRIVATE["ES256"]}))
    same(get(d, raw({"alg": "ES256"}, claims())).status, 200)
    a = get(d, None, "/mcp", Host="box.example.org")
    url = re.search('resource_metadata="(.*)"', a.headers["WWW-Authenticate"])[1]
    same(url, "https://box.example.org/.well-known/oauth-protected-resource/mcp")
    a = get(d, None, url.removeprefix("https://box.example.org"), Host="box.example.org")
    same(json.loads(a.body)["resource"], "https://box.example.org/mcp")
    same(d.stop(), 0)


def test_example():
    """What packaging/examples/jwt has: the rules, and how the keys come."""
    examples = Path(__file__).resolve().parents[2] / "packaging/examples/jwt"
    text = (examples / "tenants.json").read_text()
    d = Server()
    d.write(text)
    d.reload()
    mine = {"iss": re.search('"issuer": "(.*)"', text)[1], "tenant": None, "organization": "org-4712"}
    same(get(d, token(**mine)).status, 200)
    same(get(d, token(**{**mine, "organization": "trial"})).status, 401)
    issuer = Issuer()
    issuer.keys = jwks({"ES256": OTHER["ES256"]})
    for line in re.findall("^ExecStart=(.*)$", (examples / "codebox-keys.service").read_text(), re.M):
        command = [issuer.url + "/certs" if word.startswith("https://") else word.replace("=https", "=http") for word in line.split()]
        r = subprocess.run(command, cwd=d.config, umask=0o022, capture_output=True, text=True, timeout=PATIENCE)
        same((r.returncode, r.stderr), (0, ""))
    assert wait_until(lambda: get(d, token(key=OTHER["ES256"], **mine)).status == 200), d.log
    issuer.shutdown()
    same(d.stop(), 0)


def test_it_has_lived_through_all_of_it():
    same(daemon().stop(), 0)


if __name__ == "__main__":
    cbxtest.run(globals())
