#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MCP over HTTP: both protocol eras, sessions and streams, many clients at once, and those that leave."""
import json
import os
import re
import resource
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common_http import (BOTH, FIXTURE, LEGACY, MODERN, PATIENCE, Daemon, Fixture, Legacy, Modern, Skip, code_of,  # noqa: E402
                         events, same, sentinel, server_memory, wait_until)
import cbxtest  # noqa: E402

servers = {}


def fixture():
    if "fixture" not in servers:
        servers["fixture"] = Fixture()
    return servers["fixture"]


def daemon():
    """A codeboxd in which cells can run."""
    if "daemon" not in servers:
        servers["daemon"] = Daemon()
        r = Legacy(servers["daemon"].port).call("run_code", {"code": "6*7"}).message["result"]
        servers["why"] = r["content"][0]["text"] if r["isError"] else None
    if servers["why"]:
        raise Skip(f"no cell can run here: {servers['why']}")
    return servers["daemon"]


# ---- the era with a handshake ----

def test_session_life():
    c = Legacy(fixture().port)
    assert re.fullmatch(r"[!-~]{20,}", c.session), c.session
    assert c.session != Legacy(c.port).session
    same(c.request("tools/list").status, 200)
    a = c.notify("notifications/whatever")
    same((a.status, a.body), (202, ""))
    same(c.send("POST", {"jsonrpc": "2.0", "id": "none", "result": {}}).status, 202)
    same(c.request("tools/list", Mcp_Session_Id=None).status, 400)
    for unknown in ["nope", c.session + "x", c.session[:-1], ""]:
        assert c.request("tools/list", Mcp_Session_Id=unknown).status in (400, 404), unknown
    same(c.request("tools/list", Mcp_Session_Id="nope").status, 404)
    same(c.request("ping", MCP_Protocol_Version="1999-01-01").status, 400)
    same(c.request("ping", MCP_Protocol_Version=None).status, 200)
    same(c.send("DELETE").status, 200)
    same((c.request("ping").status, c.send("DELETE").status, c.send("GET").status), (404, 404, 404))
    a = c.request("initialize", {"protocolVersion": 5}, Mcp_Session_Id=None)
    same((code_of(a), a.headers["Mcp-Session-Id"]), (-32602, None))


def test_batches():
    c = Legacy(fixture().port, "2025-03-26")
    a = c.send("POST", [{"jsonrpc": "2.0", "id": "a", "method": "ping"}, {"jsonrpc": "2.0", "method": "x"},
                        {"jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": {"name": "test_simple_text"}}])
    same(sorted(m["id"] for m in json.loads(a.body)), ["a", "b"])
    same(c.send("POST", [{"jsonrpc": "2.0", "method": "x"}]).status, 202)
    a = Legacy(c.port).send("POST", [{"jsonrpc": "2.0", "id": "a", "method": "ping"}])
    same((a.status, code_of(a)), (400, -32600))


def test_json_or_events():
    c = Legacy(fixture().port)
    same(c.call("test_simple_text").type, "application/json")
    a = c.call("test_tool_with_progress", _meta={"progressToken": "tok"})
    same((a.type, a.headers["X-Accel-Buffering"]), ("text/event-stream", "no"))
    same([m["params"]["progress"] for m in a.messages[:-1]], [0, 50, 100])
    same({m["params"]["progressToken"] for m in a.messages[:-1]}, {"tok"})
    assert "result" in a.message
    c.headers["Accept"] = "application/json"
    a = c.call("test_tool_with_progress", _meta={"progressToken": "tok"})
    same((a.type, len(a.messages)), ("application/json", 1))
    c.headers["accept"] = "text/event-stream"  # on a line of its own
    same(c.call("test_tool_with_progress", _meta={"progressToken": "tok"}).type, "text/event-stream")
    del c.headers["accept"]
    c.headers["Accept"] = BOTH
    a = c.call("silence")
    same((a.type, a.message["result"]["content"][0]["text"]), ("text/event-stream", "At last."))


def test_asking_the_client():
    c = Legacy(fixture().port)
    other = c.again()
    c.begin("POST", {"jsonrpc": "2.0", "id": 9, "method": "tools/call",
                     "params": {"name": "test_elicitation", "arguments": {"message": "?"}}})
    stream = c.connection.getresponse()
    text = ""
    while not events(text):
        text += stream.readline().decode()
    ask = events(text)[0]
    same(ask["method"], "elicitation/create")
    stranger = Legacy(c.port)
    reply = {"jsonrpc": "2.0", "id": ask["id"], "result": {"action": "decline"}}
    same(stranger.send("POST", reply).status, 202)  # of another session: it is not an answer
    reply["result"] = {"action": "accept", "content": {"username": "u"}}
    same(other.send("POST", reply).status, 202)
    text += stream.read().decode()
    same(len(events(text)), 2)
    assert "action=accept" in events(text)[1]["result"]["content"][0]["text"], text


def test_the_end_of_a_session_is_an_answer():
    """Who waits for one of its requests gets no stream with nothing in it."""
    c = Legacy(daemon().port, Accept="application/json")
    c.call("create_session", {"session_id": "ends"})
    waits = c.begin("POST", {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {
        "name": "run_code", "arguments": {"code": "import time; time.sleep(60)", "session_id": "ends"}}})
    same(c.again().send("DELETE").status, 200)
    r = waits.getresponse()
    same((r.status, r.headers["Content-Type"]), (404, "application/json"))
    assert "has ended" in json.loads(r.read())["error"]["message"]
    Legacy(daemon().port).call("close_session", {"session_id": "ends"})


def test_cancelled():
    c = Legacy(fixture().port)
    c.begin("POST", {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "test_sampling",
                                                                              "arguments": {"prompt": "?"}}})
    stream = c.connection.getresponse()
    stream.readline()
    same(c.again().notify("notifications/cancelled", {"requestId": 9}).status, 202)
    assert "result" not in events(stream.read().decode()), "a cancelled request was answered"


def test_stream_of_a_session():
    c = Legacy(fixture().port)
    s = c.again()
    stream = s.begin("GET").getresponse()
    same((stream.status, stream.headers["Content-Type"]), (200, "text/event-stream"))
    same(c.send("GET").status, 409)
    same(c.send("GET", Mcp_Session_Id=None).status, 400)
    same(c.send("GET", Accept="application/json").status, 405)
    same(c.send("GET", MCP_Protocol_Version=MODERN).status, 405)
    s.close()
    streams = []

    def one_more():
        again = c.again()
        streams[:] = [again.begin("GET").getresponse(), again]
        return streams[0].status == 200

    assert cbxtest.wait_until(one_more, PATIENCE), "the place of a stream that was left stays taken"
    same(c.send("DELETE").status, 200)
    same(events(streams[0].read().decode()), [])


# ---- the era without ----

def test_modern_answers():
    c = Modern(fixture().port)
    a = c.request("server/discover")
    same((a.status, a.type, a.headers["Mcp-Session-Id"]), (200, "application/json", None))
    assert MODERN in a.message["result"]["supportedVersions"] and a.message["result"]["resultType"] == "complete"
    same(c.call("test_simple_text").message["result"]["resultType"], "complete")
    same(c.request("tools/list", Mcp_Session_Id="whatever").status, 200)
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe", "no/such"]:
        a = c.request(method)
        same((method, a.status, code_of(a)), (method, 404, -32601))
    for method in ["GET", "DELETE"]:
        a = c.send(method, MCP_Protocol_Version=MODERN)
        same((a.status, a.headers["Allow"]), (405, "POST"))
    a = c.call("silence")
    same((a.type, a.message["result"]["content"][0]["text"]), ("text/event-stream", "At last."))


def test_modern_headers():
    c = Modern(fixture().port)

    def post(headers, method="tools/call", params=None):
        m = c.message(method, {"name": "test_simple_text", "arguments": {}} if params is None else params)
        return c.send("POST", m, **{**c.routing(m), **headers})

    same(post({}).status, 200)
    for wrong in [{"Mcp-Method": None}, {"Mcp-Method": "tools/list"}, {"Mcp-Method": "TOOLS/CALL"}, {"Mcp-Name": None},
                  {"Mcp-Name": "test_error_handling"}, {"Mcp-Name": "TEST_SIMPLE_TEXT"}, {"Mcp-Name": "=?base64?!!?="},
                  {"Mcp-Name": sentinel("other")}, {"MCP-Protocol-Version": None}, {"MCP-Protocol-Version": LEGACY},
                  {"MCP-Protocol-Version": "2027-01-01"}]:
        a = post(wrong)
        same((wrong, a.status, code_of(a), a.message["id"]), (wrong, 400, -32020, c.next_id))
    same(post({"Mcp-Name": sentinel("test_simple_text")}).status, 200)
    same(post({"mcp-name": "  test_simple_text  ", "Mcp-Name": None}).status, 200)
    same(post({"Mcp-Name": sentinel("test://static-text")}, "resources/read", {"uri": "test://static-text"}).status,
         200)
    for meta in [None, {}, {"io.modelcontextprotocol/protocolVersion": MODERN}]:
        m = {"jsonrpc": "2.0", "id": 5, "method": "server/discover",
             "params": {"_meta": meta} if meta is not None else {}}
        a = c.send("POST", m, MCP_Protocol_Version=MODERN, Mcp_Method="server/discover")
        same((meta, a.status, code_of(a), a.message["id"]), (meta, 400, -32602, 5))
    m = c.message("server/discover", **{"io.modelcontextprotocol/protocolVersion": "2099-01-01"})
    a = c.send("POST", m, MCP_Protocol_Version="2099-01-01", Mcp_Method="server/discover")
    same((a.status, code_of(a)), (400, -32022))


def test_both_eras_at_once():
    old, new = Legacy(fixture().port), Modern(fixture().port)
    for _ in range(10):
        assert "resultType" not in old.call("test_simple_text").message["result"]
        assert new.call("test_simple_text").message["result"]["resultType"] == "complete"


# ---- bounds ----

def test_clients_that_do_not_read():
    server = Fixture()
    before = server_memory(server.pid)
    clients = []
    for _ in range(10):
        c = Modern(server.port)
        c.open().connect()
        c.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        c.begin_call("flood")
        clients.append(c)
    same(Modern(server.port).call("test_simple_text").status, 200)
    for c in clients:  # cut off in the middle: the answer never comes
        got = b""
        try:
            while chunk := c.connection.sock.recv(1 << 20):
                got += chunk
        except OSError:
            pass
        assert b"That was it" not in got and len(got) < 30 << 20, len(got)
    if not os.environ.get("CBX_SANITIZED"):  # freed memory is kept then
        assert server_memory(server.pid) - before < 100 << 20, server_memory(server.pid)
    same(server.stop(), 0)


def test_calls_that_wait_for_roots():
    """They hold their arguments, not all that came with them."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        f.write('{"mounts": {"allow": [{"path": "/tmp"}], "roots": true}}')
        f.flush()
        d = Daemon(CODEBOX_POLICY=f.name, CODEBOX_POOL="0")
        c = Legacy(d.port)
        c.session = c.request("initialize", {"protocolVersion": LEGACY, "capabilities": {"roots": {}}, "clientInfo": {
            "name": "x", "version": "0"}}, Mcp_Session_Id=None).headers["Mcp-Session-Id"]
        c.headers["Mcp-Session-Id"] = c.session
        before = server_memory(d.pid)
        for i in range(8):  # none of which says which roots it has
            other = c.again()
            other.begin("POST", {"jsonrpc": "2.0", "id": 50 + i, "method": "tools/call", "params": {
                "name": "run_code", "arguments": {"code": "1"}, "x": [0] * 600000}})
        time.sleep(2)  # all have come, and still wait
        most = int(re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{d.pid}/status").read_text())[1]) << 10
        if not os.environ.get("CBX_SANITIZED"):  # freed memory is kept then
            assert most - before < 250 << 20, most - before
        d.stop()


def test_subscriptions_of_a_tenant():
    """They have a bound together: who has many sessions has not many times as many."""
    d = Daemon(CODEBOX_POOL="0")
    c = Legacy(d.port)
    c.call("create_session", {"session_id": "watched"})
    each = [f"codebox://sessions/watched/files/f{i}" for i in range(256)]
    clients = [Legacy(d.port) for _ in range(5)]
    for client in clients[:4]:
        for uri in each:
            assert "result" in client.request("resources/subscribe", {"uri": uri}).message, uri
    answer = clients[4].request("resources/subscribe", {"uri": each[0]}).message
    assert "1024 by all clients" in answer["error"]["message"], answer
    clients[0].request("resources/unsubscribe", {"uri": each[0]})
    assert "result" in clients[4].request("resources/subscribe", {"uri": each[0]}).message
    clients[1].send("DELETE")
    for uri in each:
        assert "result" in clients[4].request("resources/subscribe", {"uri": uri}).message, uri
    stream = clients[4].again().begin("GET").getresponse()
    c.call("run_command", {"command": "echo 1 >f7", "session_id": "watched"})
    line = b""
    while b"resources/updated" not in line:
        line = stream.readline()
    assert b"files/f7" in line, line
    c.call("close_session", {"session_id": "watched"})
    d.stop()


def test_many_connections():
    """The number of connections has a bound, half of the files that the server may have, and none of them leaks."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        server = Fixture()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def open_ones():
        return len(os.listdir(f"/proc/{server.pid}/fd"))

    before = open_ones()
    crowd = [Modern(server.port) for _ in range(220)]
    for c in crowd:
        same(c.call("test_simple_text").status, 200)  # whoever comes late is served as who came first
    assert 100 < open_ones() - before <= 128, open_ones()
    same(crowd[-1].call("test_simple_text").status, 200)
    for c in crowd:
        c.close()
    for _ in range(3):
        same(Modern(server.port).call("test_simple_text").status, 200)
    assert cbxtest.wait_until(lambda: open_ones() < before + 10, PATIENCE), "connections leak"
    same(server.stop(), 0)


def test_many_sessions():
    server = Fixture()
    sessions = [Legacy(server.port) for _ in range(100)]
    for s in sessions:
        s.close()
    for _ in range(300):
        Legacy(server.port).close()
    same(sessions[0].request("ping").status, 404)  # the longest idle ones made room
    same(server.stop(), 0)


def test_64_requests_at_once():
    c = Legacy(fixture().port)
    results = []

    # Ids are of the session: each request needs its own.
    def numbered(n):
        other = c.again()
        other.next_id = 2000 + n
        r = other.call("test_tool_with_progress", _meta={"progressToken": n})
        results.append([m["params"]["progressToken"] for m in r.messages[:-1]] == [n] * 3 and "result" in r.message)

    threads = [threading.Thread(target=numbered, args=(n,)) for n in range(64)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(PATIENCE)
    same(results, [True] * 64)


def test_nobody_waits_for_others():
    c = Legacy(fixture().port)
    held = []
    for n in range(63):
        other = c.again()
        other.begin("POST", {"jsonrpc": "2.0", "id": 3000 + n, "method": "tools/call",
                             "params": {"name": "test_sampling", "arguments": {"prompt": "?"}}})
        held.append(other)
    same(c.request("ping").message["result"], {})
    for other in held:
        other.close()
    same(c.request("ping").message["result"], {})


def test_leaving_early():
    server = Fixture()
    for client in [lambda: Modern(server.port), lambda: Legacy(server.port)]:
        for tool in ["silence", "test_tool_with_progress", "flood"] * 5:
            c = client()
            if isinstance(c, Modern):
                c.begin_call(tool, progressToken=1)
            else:
                c.begin("POST", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool}})
            c.close()
    same(Modern(server.port).call("silence").status, 200)
    c = Modern(server.port)
    c.begin_call("silence")
    same(server.stop(), 0)


# ---- with cells ----

LOOP = "import time\nran = 'begun'\nopen('/workspace/begun', 'w').close()\ntime.sleep(%d)\nran = 'to its end'"


def cell(c, session, code):
    return c.call("run_code", {"code": code, "session_id": session}).message["result"]


def call(ident, tool, **arguments):
    return {"jsonrpc": "2.0", "id": ident, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def there(c, session, path):
    return not c.call("read_file", {"path": path, "session_id": session}).message["result"]["isError"]


def test_cells():
    d = daemon()
    old = Legacy(d.port)
    r = old.call("run_code", {"code": "x = 41"}).message["result"]
    same(r["isError"], False)
    same(old.call("run_code", {"code": "x + 1"}).message["result"]["structuredContent"]["result"], "42")
    new = Modern(d.port)
    session = new.call("create_session").message["result"]["structuredContent"]["session_id"]
    cell(new, session, "y = 6")
    same(cell(Modern(d.port), session, "y * 7")["structuredContent"]["result"], "42")
    new.call("close_session", {"session_id": session})


def test_leaving_is_cancelling_only_in_one_era():
    d = daemon()
    new, old = Modern(d.port), Legacy(d.port)
    session = new.call("create_session").message["result"]["structuredContent"]["session_id"]
    leaver = Modern(d.port)
    leaver.begin_call("run_code", {"code": LOOP % 3000, "session_id": session, "timeout": 3600}, progressToken=1)
    leaver.connection.getresponse().readline()  # the stream has begun ...
    assert cbxtest.wait_until(lambda: there(new, session, "begun"), PATIENCE)  # ... and so has the cell
    leaver.close()
    same(cell(new, session, "ran")["structuredContent"]["result"], "'begun'")
    leaver = old.again()
    leaver.begin("POST", {"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": {
        "name": "run_code", "arguments": {"code": LOOP % 2, "session_id": session}, "_meta": {"progressToken": 1}}})
    leaver.connection.getresponse().readline()
    leaver.close()
    same(cell(new, session, "ran")["structuredContent"]["result"], "'to its end'")
    new.call("close_session", {"session_id": session})


def test_the_same_id_again():
    c = Legacy(daemon().port, "2025-03-26")
    same(c.call("create_session", {"session_id": "work"}).message["result"]["isError"], False)
    other = c.again()
    other.begin("POST", [call(f"old{i}", "run_code", session_id="work", timeout=3600,
                              code="import time\ntime.sleep(3000)") for i in range(10)])
    assert cbxtest.wait_until(lambda: c.call("session_info", {"session_id": "work"}).message["result"][
        "content"][0]["text"].count("9 wait"))
    a = c.send("POST", [
        call("close", "close_session", session_id="work"), call("create", "create_session", session_id="work"),
        *(call(f"new{i}", "run_code", session_id="work", code=f"{i}") for i in range(10)),
        *({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": f"old{i}"}}
          for i in range(10)),
        *(call(f"info{i}", "session_info", session_id="work") for i in range(10))], Accept="application/json")
    told = {m["id"]: m["result"]["content"][0]["text"] for m in json.loads(a.body)}
    same([told[f"new{i}"].split("\n")[0] for i in range(10)], [str(i) for i in range(10)])
    assert "is ready" in told["create"], told["create"]
    other.close()
    c.call("close_session", {"session_id": "work"})


def test_the_session_of_a_client_ends_with_it():
    d = daemon()
    c = Legacy(d.port)
    session = c.call("run_code", {"code": "1"}).message["result"]["structuredContent"]["session_id"]
    same(c.send("DELETE").status, 200)
    assert cell(Modern(d.port), session, "1")["isError"]


def test_who_waits_for_changes_is_told_of_the_end():
    # A codeboxd of its own: this one is ended while the stream is open.
    d = Daemon()
    c = Modern(d.port)
    m = c.message("subscriptions/listen", {"notifications": {"resourcesListChanged": True}})
    response = c.begin("POST", m, **c.routing(m)).getresponse()
    same(response.status, 200)
    first = response.readline() + response.readline()
    assert first, "nothing was acknowledged"
    same(d.stop(), 0)
    rest = (first + response.read()).decode()
    assert "subscriptionId" in rest and '"result"' in rest, rest


def test_the_end():
    if "daemon" in servers:
        c = Modern(servers["daemon"].port)
        if not servers["why"]:
            session = c.call("create_session").message["result"]["structuredContent"]["session_id"]
            c.begin_call("run_code", {"code": "import time\ntime.sleep(3000)", "session_id": session, "timeout": 3600})
        same(servers["daemon"].stop(), 0)
    same(fixture().stop(), 0)


if __name__ == "__main__":
    if not os.access(FIXTURE, os.X_OK):
        print(f"1..0 # SKIP {FIXTURE} was not built")
        sys.exit(0)
    cbxtest.run(globals())
