#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a model reads in the answers of `codebox mcp`: what happened, said once, and what to do about it."""
import os
import re
import unicodedata
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lib"), os.path.join(HERE, "..", "clients")]
sys.dont_write_bytecode = True
from cbxtest import Box, run  # noqa: E402

box = Box(CODEBOX_POOL="0")
os.environ.update({k: v for k, v in box.env.items() if k.startswith("CODEBOX")})
import common  # noqa: E402

IMAGE = box.image("python", "python-minimal", "host")


class Client(common.Raw):
    """A connection, and a session "s" beside the one that it would have of its own."""

    def __init__(self):
        super().__init__()
        self.initialize("2025-06-18")

    def tool(self, name, **arguments):
        r = self.call(name, arguments)["result"]
        return "\n".join(c["text"] for c in r["content"] if c["type"] == "text"), r

    def made(self, **arguments):
        text, r = self.tool("create_session", session_id="s", image=IMAGE, **arguments)
        assert not r["isError"], text
        return text

    def cell(self, code, **arguments):
        return self.tool("run_code", code=code, session_id="s", **arguments)

    def __exit__(self, *_):
        self.tool("close_session", session_id="s")
        super().__exit__(*_)


def once(text, *parts):
    for part in parts:
        assert text.count(part) == 1, (part, text)


def test_warnings_of_user_code_are_not_the_drivers():
    with Client() as c:
        c.made()
        text, r = c.cell("import warnings; warnings.simplefilter('error'); 'x' * 200000")
        assert r["structuredContent"]["status"] == "ok" and text.startswith("'xxx"), text[:300]
        text, _ = c.cell("warnings.simplefilter('always'); 'y' * 200000")
        assert text.startswith("'yyy"), text[:300]


EVIL = "\x1b[31m\x1b[3J\x1b[2A\x1b]0;t\x07\x1b]52;c;ZQ==\x1b\\ \x7f\x9b5n \u202eevil\u2066\u200f\u061c\u2028\U000e0041 \x01"
UNSAFE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u206f\ue000-\uf8ff\U000e0000-\U0010ffff]")


def strings(v):
    if isinstance(v, dict):
        for k, x in v.items():
            yield k
            yield from strings(x)
    elif isinstance(v, list):
        for x in v:
            yield from strings(x)
    elif isinstance(v, str):
        yield v


def test_nothing_that_a_terminal_obeys_is_in_an_answer():
    """Of all that a session can name or print, and of what a client's own words come back in; a file's text alone is
    as it is."""
    with Client() as c:
        c.made()
        answers = [c.cell(code) for code in (
            f"import sys; print({EVIL!r}); sys.stderr.write({EVIL!r}); {EVIL!r}",
            f"class X:\n    def __repr__(self): return {EVIL!r}\nX()",
            "from IPython.display import display\n"
            f"for kind in ('text/plain', 'text/html', 'text/markdown', {EVIL!r}):\n"
            f"    display({{kind: {EVIL!r}, 'text/plain': {EVIL!r}}}, raw=True)",
            f"raise ValueError({EVIL!r})", f"raise type({EVIL!r}, (Exception,), {{}})({EVIL!r})", f"def f(): {EVIL}",
            f"open({EVIL.replace('/', '')!r}, 'w').write({EVIL!r})", f"import os; os.mkdir({'d' + EVIL!r})",
            f"sys.exit({EVIL!r})")]
        answers += [c.tool("list_files", session_id="s"), c.tool("session_info", session_id=EVIL),
                    c.tool("run_code", code="1", session_id=EVIL), c.tool("run_code", code="1", **{EVIL: 1}),
                    c.tool("read_file", session_id="s", path=EVIL + "x")]
        answers += [("", c.ask("resources/list")), ("", c.ask(EVIL)), ("", c.call(EVIL, {}))]
        for n, (_, r) in enumerate(answers):
            bad = [x for x in strings(r) if UNSAFE.search(x)]
            assert not bad, (n, bad)
        text = answers[0][0]
        assert "\\x9b5n \\u202eevil\\u2066\\u200f\\u061c\\u2028\\U000e0041 \\x01" in text, text
        assert "[31m" not in text.split("\n")[0] and "52;c" not in text.split("\n")[0], text
        assert "evil" in answers[6][0], answers[6]
        uri = answers[6][1]["structuredContent"]["files"][0]["uri"]
        _, r = c.tool("read_file", session_id="s", path=uri)
        assert r["structuredContent"]["content"] == EVIL, r


def test_what_is_not_seen_is_shown():
    """By the categories that Python knows, which are not ours."""
    shown = re.compile("[\u0600-\u0605\u06dd\u0890\u0891\u08e2\U000110bd\U000110cd\U00013430-\U0001343f]")
    # What is assigned later in the planes that are in use passes.
    codes = [c for c in range(0xa0, 0x110000) if unicodedata.category(chr(c)) in ("Cf", "Zl", "Zp") or c & 0xfffe == 0xfffe or
             (c & 0xffff in (0xe000, 0xf8ff) and not 0xffff < c < 0x40000)]
    codes += [0x34f, 0x115f, 0x3164, 0xfe00, 0xffa0, 0xe0100, 0x50000, 0x10fffd]  # letters and marks that show nothing
    hidden = [c for c in codes if c not in (0x200c, 0x200d) and not shown.match(chr(c)) and not 0xd800 <= c < 0xe000]
    assert len(hidden) > 150, len(hidden)
    seen = "a\u00e4\u0416\u05d0\u0e01\u4e2d\U0001f468\u200d\U0001f469\u2764\ufe0f\u2800\u3000\u06dd\u0646\u200c\u0647\U00020000"
    with Client() as c:
        c.made()
        text, _ = c.cell(f"print(*map(chr, {hidden}), sep='|')")
        want = [f"\\x{n:02x}" if n < 0x100 else f"\\u{n:04x}" if n < 0x10000 else f"\\U{n:08x}" for n in hidden]
        assert text.strip().split("|") == want, text
        assert not any(chr(n) in text for n in hidden), text
        assert c.cell(f"print({seen!r})")[0].strip() == seen


def test_a_terminal_gets_colours_and_nothing_else():
    main, sub = os.openpty()
    p = box.popen("run", "--image", IMAGE, "-c", f"print('<' + {EVIL!r} + '>', end='')", stdout=sub, stderr=sub)
    os.close(sub)
    got = b""
    while not got.endswith(b">"):
        got += os.read(main, 4096)
    p.wait()
    os.close(main)
    got = got.decode()
    assert re.findall("\x1b[^m]*m", got) == ["\x1b[31m"] and got.count("\x1b") == 1, got
    assert not UNSAFE.search(got.replace("\x1b", "")) and "\\u202eevil\\u2066" in got and "\\x9b5n" in got, got
    # Neither has a table of names.
    r = box("session", "info", "none" + EVIL)
    assert r.returncode and not UNSAFE.search(r.stdout + r.stderr), r


def test_a_limit_is_named_with_what_to_do():
    with Client() as c:
        c.made(memory="300M", disk="16M")
        message = c.cell("bytearray(1 << 30)")[1]["structuredContent"]["message"]
        once(message, "limit of 300 MiB", "more memory")
        message = c.cell("raise MemoryError")[1]["structuredContent"]["message"]
        once(message, "limit is 300 MiB", "more memory")
        assert message.endswith("."), message
        message = c.cell("open('f', 'wb').write(b'x' * (32 << 20))")[1]["structuredContent"]["message"]
        once(message, "limit is 16 MiB", "larger disk")


def test_a_network_that_is_not_there_is_named():
    with Client() as c:
        c.made()
        for code in ("import socket\nsocket.getaddrinfo('example.com', 80)",
                     "import socket\nsocket.create_connection(('192.0.2.1', 80))",
                     "print('Temporary failure in name resolution')"):
            once(c.cell(code)[0], "has no network")
        assert "network" not in c.cell("print('resolved')")[0]


def test_a_connection_without_a_session_is_told_how_to_get_one():
    with Client() as c:
        c.made()
        for name, more in (("list_files", {}), ("session_info", {}), ("interrupt", {}), ("read_file", {"path": "x"}),
                           ("get_execution", {"execution_id": 1})):
            text, r = c.tool(name, **more)
            assert r["isError"], r
            once(text, "no session of its own yet", "run_code", "list_sessions")


def test_a_session_that_is_not_there_is_told_of_once():
    with Client() as c:
        c.made()
        once(c.tool("create_session", session_id="s")[0], "exists already", "choose another")
        text = c.tool("run_code", code="1", session_id="none")[0]
        once(text, 'no session "none". Call', "list_sessions", "create_session")
        assert "list the sessions" not in text, text  # the remedy for the command line
        c.tool("close_session", session_id="s")
        once(c.cell("1")[0], "expired", "closed with close_session", "are gone", "create_session")


def test_an_address_names_its_session():
    with Client() as c:
        c.made()
        _, r = c.tool("write_file", session_id="s", path="a b.txt", content="of s")
        address = r["structuredContent"]["uri"]
        assert c.tool("read_file", path=address)[0] == "of s"
        assert c.tool("write_file", path=address, content="!", append=True)[1]["structuredContent"]["session_id"] == "s"
        assert c.tool("read_file", path=address, session_id="s")[0] == "of s!"
        once(c.tool("read_file", path=address, session_id="none")[0], "no session")
        assert c.tool("read_file", path=address, session_id=5)[1]["isError"]
        once(c.tool("read_file", path=address.replace("/s/", "/none/"))[0], "no session")


def test_files_that_cannot_be_read_or_written():
    with Client() as c:
        c.made()
        once(c.tool("read_file", session_id="s", path="/dev/zero")[0], "not an ordinary file")
        for path in ("/usr/x", "../../x/y"):
            once(c.tool("write_file", session_id="s", path=path, content="x")[0], "read-only", "/workspace and /tmp")
        once(c.tool("list_files", session_id="s", path="none")[0], "No such file", "list_files")


def test_an_image_that_is_not_there():
    with Client() as c:
        c.made()
        text, r = c.tool("create_session", image="none")
        assert r["isError"], r
        once(text, 'no image "none"', "there are: ", "codebox image build none", "if there is a recipe")


def test_a_full_queue_is_told_of_once():
    with Client() as c:
        c.made()
        c.cell("import time\ntime.sleep(60)", background=True)
        for _ in range(80):
            text, r = c.cell("1", background=True)
            if r["isError"]:
                break
        once(text, "cells are waiting", "get_execution", "another session")
        assert text.count("nterrupt") == 1, text


def test_a_cell_that_waits_is_not_said_to_run():
    with Client() as c:
        c.made()
        c.cell("import time\ntime.sleep(60)", background=True)
        text, r = c.cell("2", background=True)
        assert r["structuredContent"]["status"] == "running", r
        once(text, "has not started yet")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:  # the one before it does run
            text = c.tool("get_execution", session_id="s", execution_id=1)[0]
            if "is still running" in text:
                break
        once(text, "is still running")
        c.tool("interrupt", session_id="s", execution_id=1)
        assert c.tool("get_execution", session_id="s", execution_id=2, wait=45)[1]["structuredContent"]["result"] == "2"


def test_a_session_says_when_it_ends():
    with Client() as c:
        once(c.made(ttl=50), "closed in 50 s")
        c.tool("close_session", session_id="s")
        once(c.made(idle_timeout=50), "closed when not used for 50 s")


def test_a_schema_describes_the_type_that_it_names():
    with Client() as c:
        c.made()
        tools = {t["name"]: t for t in c.ask("tools/list")["result"]["tools"]}
        p = tools["create_session"]["inputSchema"]["properties"]
        for name, what in p.items():
            assert isinstance(what["type"], str), (name, what)
            says = what.get("description", "")
            assert name not in ("memory", "disk", "io") or what["type"] == "string", (name, what)
            assert ("512M" in says) == (name == "memory"), (name, what)  # the first size shows how one is written
            assert "5m" not in says and ("in seconds" not in says or what["type"] == "number"), (name, what)
        for t in tools.values():
            assert len(t["description"]) < 2048, t["name"]


if __name__ == "__main__":
    run(globals())
