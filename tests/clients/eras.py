#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`codebox mcp` line by line in both eras of the protocol: the handshake, and requests that stand for themselves.

Every answer of the modern era is held against what that revision asks of results, errors and notifications.
"""
import base64
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
from cbxtest import Box, run  # noqa: E402

box = Box()
os.environ.update({k: v for k, v in box.env.items() if k.startswith("CODEBOX")})
import common  # noqa: E402

REVISION = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
META = {PREFIX + "protocolVersion": REVISION, PREFIX + "clientCapabilities": {},
        PREFIX + "clientInfo": {"name": "eras", "version": "1"}}
CACHED = {"server/discover": "public", "tools/list": "public", "prompts/list": "public",
          "resources/templates/list": "public", "resources/list": "private", "resources/read": "private"}
IMAGE = None


def image():
    global IMAGE
    IMAGE = IMAGE or box.image("python", "python-minimal", "host")
    return IMAGE


class Modern(common.Raw):
    """Requests with _meta, and answers that are checked for what all of them must have."""

    def start(self, method, meta=None, **params):
        return self.request(method, {"_meta": META if meta is None else {**META, **meta}, **params})

    def finish(self, ident, method):
        answer = self.wait(ident)
        assert ("result" in answer) != ("error" in answer), answer
        assert answer["jsonrpc"] == "2.0", answer
        if "error" in answer:
            assert isinstance(answer["error"]["code"], int) and isinstance(answer["error"]["message"], str), answer
            assert not -32019 <= answer["error"]["code"] <= -32000, answer
            return answer
        result = answer["result"]
        assert result["resultType"] == "complete", result
        server = result["_meta"][PREFIX + "serverInfo"]
        assert server["name"] == "codebox" and server["version"], server
        if method in CACHED:
            assert type(result["ttlMs"]) is int and result["ttlMs"] >= 0, result
            assert result["cacheScope"] == CACHED[method], result
        else:
            assert "ttlMs" not in result and "cacheScope" not in result, result
        return answer

    def do(self, method, meta=None, **params):
        return self.finish(self.start(method, meta, **params), method)

    def result(self, method, meta=None, **params):
        answer = self.do(method, meta, **params)
        assert "result" in answer, answer
        return answer["result"]

    def error(self, method, code, **params):
        answer = self.do(method, **params)
        assert answer.get("error", {}).get("code") == code, (method, answer)
        return answer["error"]

    def tool(self, name, **arguments):
        return self.result("tools/call", name=name, arguments=arguments)

    def session(self, name):
        r = self.tool("create_session", session_id=name, image=image())
        assert not r["isError"], r
        return name

    def note(self, method):
        """The next notification of this method, among those that came already or will come."""
        for message in self.other:
            if message.get("method") == method:
                self.other.remove(message)
                return message
        while True:
            message = self.next()
            if message.get("method") == method:
                return message
            self.other.append(message)


def test_discover_first():
    with Modern() as m:
        r = m.result("server/discover")
        assert r["supportedVersions"] == [REVISION], r
        assert r["capabilities"]["resources"] == {"subscribe": True, "listChanged": True}, r
        assert {"tools", "prompts", "completions"} <= set(r["capabilities"]), r
        assert "logging" not in r["capabilities"], r
        assert 0 < len(r["instructions"].encode()) < 2048
    assert m.process.returncode == 0


def test_meta_is_checked():
    with Modern() as m:
        for missing in ("protocolVersion", "clientCapabilities"):
            meta = {k: v for k, v in META.items() if k != PREFIX + missing}
            answer = m.wait(m.request("tools/list", {"_meta": meta}))
            assert answer["error"]["code"] == -32602 and missing in answer["error"]["message"], answer
        assert m.wait(m.request("server/discover"))["error"]["code"] == -32602
        error = m.do("tools/list", {PREFIX + "protocolVersion": "2099-01-01"})["error"]
        assert error["code"] == -32022, error
        assert error["data"] == {"supported": [REVISION], "requested": "2099-01-01"}, error
        meta = {k: v for k, v in META.items() if not k.endswith("clientInfo")}
        assert "result" in m.wait(m.request("tools/list", {"_meta": meta}))


def test_removed_methods():
    with Modern() as m:
        for method in ("initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe",
                       "tasks/list", "unknown/method"):
            m.error(method, -32601, uri="codebox://sessions", protocolVersion="2025-11-25", level="info")


def test_lists_are_the_same_on_every_connection():
    with Modern() as a, Modern() as b:
        b.initialize()
        for method in ("tools/list", "prompts/list", "resources/templates/list"):
            one = a.result(method)
            assert one == b.result(method) == a.result(method), method
            a.error(method, -32602, cursor="bogus")
        a.error("resources/list", -32602, cursor="bogus")
        names = [t["name"] for t in a.result("tools/list")["tools"]]
        assert "run_code" in names and len(set(names)) == len(names), names
        assert len(json.dumps(a.result("tools/list")["tools"], separators=(",", ":"))) <= 13000
        for tool in a.result("tools/list")["tools"]:
            assert tool["inputSchema"]["type"] == "object", tool
            assert len(tool["description"].encode()) < 2048, tool["name"]
            assert "connection" not in json.dumps(tool).replace('"connection": {', ""), tool["name"]  # but run_sql's argument


def test_sessions_are_named_and_stay():
    image()
    with Modern() as m:
        r = m.tool("run_code", code="x = 20\nx + 1")
        session = r["structuredContent"]["session_id"]
        assert session in r["content"][0]["text"], r
        assert m.tool("run_code", code="x", session_id=session)["structuredContent"]["result"] == "20"
        other = m.tool("run_code", code="x")["structuredContent"]
        assert other["session_id"] != session and other["status"] == "error", other
        m.tool("close_session", session_id=other["session_id"])
    with Modern() as m:  # another process, another connection
        assert m.tool("run_code", code="x", session_id=session)["structuredContent"]["result"] == "20"
        sessions = m.tool("list_sessions")["structuredContent"]["sessions"]
        assert [s["session_id"] for s in sessions] == [session] and not sessions[0]["default"], sessions
        m.tool("close_session", session_id=session)
        r = m.tool("run_code", code="x", session_id=session)
        assert r["isError"] and "expired" in r["content"][0]["text"], r


def test_both_eras_on_one_connection():
    image()
    with Modern() as m:
        assert "result" in m.initialize()
        legacy = m.run("y = 1")
        assert "resultType" not in legacy and "_meta" not in legacy, legacy
        own = legacy["structuredContent"]["session_id"]
        modern = m.tool("run_code", code="y")["structuredContent"]
        assert modern["session_id"] != own and modern["status"] == "error", modern
        assert m.run("y")["structuredContent"]["session_id"] == own
        assert m.ask("ping")["result"] == {}
        listed = [s["session_id"] for s in m.tool("list_sessions")["structuredContent"]["sessions"]]
        assert own not in listed, listed
        m.tool("close_session", session_id=modern["session_id"])
    with Modern() as m:
        assert m.tool("run_code", code="1", session_id=own)["isError"]  # it went with its connection


def test_progress_and_cancellation():
    with Modern() as m:
        name = m.session("era-cancel")
        ident = m.start("tools/call", {"progressToken": "tok"}, name="run_code", arguments={
            "code": "import time\nprint('begun', flush=True)\ntime.sleep(600)", "session_id": name})
        note = m.note("notifications/progress")
        assert note["params"]["progressToken"] == "tok" and note["params"]["message"] == "begun", note
        m.notify("notifications/cancelled", {"requestId": ident})
        assert m.tool("run_code", code="7", session_id=name)["structuredContent"]["result"] == "7"
        assert not [o for o in m.other if o.get("id") == ident], m.other
        m.tool("close_session", session_id=name)


def test_files_as_resources():
    with Modern() as m:
        name = m.session("era-files")
        code = ("import os\nos.makedirs('out', exist_ok=True)\nopen('out/t \u00e9.csv', 'w').write('a,b\\n1,2\\n')\n"
                "open('b.bin', 'wb').write(bytes(range(256)))\nopen('big', 'wb').write(b'x' * 3000000)")
        assert m.tool("run_code", code=code, session_id=name)["structuredContent"]["status"] == "ok"
        found, cursor = {}, None
        while True:
            page = m.result("resources/list", **({"cursor": cursor} if cursor else {}))
            found.update({r["uri"]: r for r in page["resources"]})
            cursor = page.get("nextCursor")
            if not cursor:
                break
        base_uri = f"codebox://sessions/{name}"
        csv = found[f"{base_uri}/files/out/t%20%C3%A9.csv"]
        assert (csv["name"], csv["mimeType"], csv["size"]) == ("out/t \u00e9.csv", "text/csv", 8), csv
        assert base_uri in found and "codebox://sessions" in found, sorted(found)
        content, = m.result("resources/read", uri=csv["uri"])["contents"]
        assert content == {"uri": csv["uri"], "mimeType": "text/csv", "text": "a,b\n1,2\n"}, content
        content, = m.result("resources/read", uri=f"{base_uri}/files/b.bin")["contents"]
        assert base64.b64decode(content["blob"]) == bytes(range(256)), content
        content, = m.result("resources/read", uri="codebox://sessions")["contents"]
        assert name in [s["session_id"] for s in json.loads(content["text"])["sessions"]], content
        content, = m.result("resources/read", uri=base_uri)["contents"]
        assert json.loads(content["text"])["session_id"] == name, content
        assert "too large" in m.error("resources/read", -32603, uri=f"{base_uri}/files/big")["message"]
        for bad in ("files/none", "files/out", "files/", "files/%00", "files/../../etc/none"):
            error = m.error("resources/read", -32602, uri=f"{base_uri}/{bad}")
            assert error["data"] == {"uri": f"{base_uri}/{bad}"}, error
        answer = m.ask("resources/read", {"uri": f"{base_uri}/files/none"})
        assert answer["error"]["code"] == -32002 and answer["error"]["data"]["uri"], answer
        r = m.result("completion/complete", ref={"type": "ref/resource",
                                                 "uri": "codebox://sessions/{session_id}/files/{+path}"},
                     argument={"name": "path", "value": "out/"}, context={"arguments": {"session_id": name}})
        assert r["completion"]["values"] == ["out/t \u00e9.csv"], r
        m.tool("close_session", session_id=name)
        assert m.longest < common.REPLY_MAX


def test_prompts():
    with Modern() as m:
        prompt = m.result("prompts/list")["prompts"][0]
        needed = {a["name"]: "x.csv" for a in prompt["arguments"] if a["required"]}
        r = m.result("prompts/get", name=prompt["name"], arguments=needed)
        assert r["messages"][0]["role"] == "user" and "x.csv" in r["messages"][0]["content"]["text"], r
        m.error("prompts/get", -32602, name=prompt["name"])
        m.error("prompts/get", -32602, name="none")


def test_listen():
    with Modern() as m, Modern() as other:
        name = other.session("era-listen")
        uri = f"codebox://sessions/{name}/files/watched.txt"
        ident = m.start("subscriptions/listen", notifications={"resourcesListChanged": True,
                                                               "resourceSubscriptions": [uri]})
        first = m.next()
        assert first["method"] == "notifications/subscriptions/acknowledged", first
        assert first["params"]["_meta"][PREFIX + "subscriptionId"] == ident, first
        assert first["params"]["notifications"] == {"resourcesListChanged": True, "resourceSubscriptions": [uri]}, first
        other.tool("run_code", code="open('watched.txt', 'w').write('1')", session_id=name)
        note = m.note("notifications/resources/updated")
        assert note["params"]["uri"] == uri, note
        assert note["params"]["_meta"][PREFIX + "subscriptionId"] == ident, note
        m.note("notifications/resources/list_changed")
        m.notify("notifications/cancelled", {"requestId": ident})
        other.tool("run_code", code="open('watched.txt', 'w').write('2')", session_id=name)
        other.tool("close_session", session_id=name)
        m.result("server/discover")
        assert not m.other, m.other


def test_legacy_subscriptions():
    with common.Raw() as m, Modern() as other:
        m.initialize("2025-06-18")
        name = other.session("era-old")
        assert m.ask("resources/subscribe", {"uri": "codebox://sessions/none"})["error"]["code"] == -32002
        uri = f"codebox://sessions/{name}/files/a.txt"
        assert m.ask("resources/subscribe", {"uri": uri})["result"] == {}
        other.tool("run_code", code="open('a.txt', 'w').write('1')", session_id=name)
        seen = m.other
        while not any(s.get("method") == "notifications/resources/updated" for s in seen):
            seen.append(m.next())
        assert all(set(s.get("params", {})) <= {"uri"} for s in seen if "method" in s), seen
        assert m.ask("resources/unsubscribe", {"uri": uri})["result"] == {}
        other.tool("close_session", session_id=name)


def test_listen_ends_with_the_daemon():
    with Modern() as m:
        ident = m.start("subscriptions/listen", notifications={"resourcesListChanged": True})
        m.note("notifications/subscriptions/acknowledged")
        box("stop", check=True)
        result = m.finish(ident, "subscriptions/listen")["result"]
        assert result["_meta"][PREFIX + "subscriptionId"] == ident, result


run(globals())
