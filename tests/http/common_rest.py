# SPDX-License-Identifier: Apache-2.0
"""What the tests of REST have in common: a codeboxd, and requests to it by http.client."""
import http.client
import json
import os
import tempfile

from common_http import PATIENCE, Daemon, Skip, wait_until

servers = {}


def daemon():
    if "daemon" not in servers:
        servers["place"] = tempfile.TemporaryDirectory()  # it goes with this process
        servers["socket"] = os.path.join(servers["place"].name, "http.sock")
        servers["daemon"] = d = Daemon("--http", f"unix:{servers['socket']}")
        a = ask("POST", "/sessions", {}, port=d.port)
        servers["why"] = None if a.status == 200 else a.body
        if a.status == 200:
            ask("DELETE", f"/sessions/{a.json['session_id']}", port=d.port)
    if servers["why"]:
        raise Skip(f"no session can be made here: {servers['why']}")
    return servers["daemon"]


class Answer:
    def __init__(self, response, data):
        self.status, self.headers, self.data = response.status, response.headers, data

    @property
    def body(self):
        return self.data.decode()

    @property
    def json(self):
        assert self.headers["Content-Type"] == "application/json", self.headers
        return json.loads(self.data)


def begin(method, path, body=None, port=None, **headers):
    headers = {k.replace("_", "-"): v for k, v in headers.items()}
    if isinstance(body, (dict, list)):
        body, headers = json.dumps(body), {"Content-Type": "application/json", **headers}
    c = http.client.HTTPConnection("127.0.0.1", port or daemon().port, timeout=PATIENCE)
    c.request(method, path, body, headers)
    return c.getresponse()


def ask(method, path, body=None, port=None, **headers):
    r = begin(method, path, body, port, **headers)
    return Answer(r, r.read())


def same(got, want):
    assert got == want, f"got {got!r}, want {want!r}"


def session(**fields):
    a = ask("POST", "/sessions", fields)
    same((a.status, a.json.get("status")), (200, "created"))
    return a.json["session_id"]


def execute(s, code, **fields):
    a = ask("POST", "/execute", {"session_id": s, "code": code, **fields})
    same((a.status, a.json["status"]), (200, "created"))
    return a.json["request_id"]


def results(s, code, **fields):
    request = execute(s, code, **fields)
    assert wait_until(lambda: ask("GET", f"/execute/{request}/status?wait=60").json["completed_at"])
    return ask("GET", f"/execute/{request}/results").json


def stop():
    if "daemon" in servers:
        same(servers["daemon"].stop(), 0)
