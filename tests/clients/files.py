#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of a session as the official Python client sees them: read, written, listed, and found after a cell."""
import sys

sys.dont_write_bytecode = True

import common

common.enter_venv()

import base64
import os
import re
import time

import anyio
import jsonschema
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from common import PATIENCE, REPLY_MAX, Raw, Tap, text_of

tap = Tap()
schemas = {}
PNG = ("import zlib, struct\n"
       "def png(n):\n"
       "    c = lambda k, b: struct.pack('>I', len(b)) + k + b + struct.pack('>I', zlib.crc32(k + b))\n"
       "    rows = b''.join(b'\\0' + bytes(n) for _ in range(n))\n"
       "    return b'\\x89PNG\\r\\n\\x1a\\n' + c(b'IHDR', struct.pack('>IIBBBBB', n, n, 8, 0, 0, 0, 0)) + "
       "c(b'IDAT', zlib.compress(rows, 0)) + c(b'IEND', b'')\n")


def tick():
    """Let the clock that stamps files advance, so that what was written before is older than what comes."""
    time.sleep(0.05)


async def call(client, tool, **arguments):
    """A tool's result; what it says of its own structure is checked."""
    r = await client.call_tool(tool, arguments)
    if not r.is_error:
        jsonschema.validate(r.structured_content, schemas[tool])
    return r


async def run(client, code, **arguments):
    tick()
    return await call(client, "run_code", code=code, **arguments)


def shown(result):
    return "\n".join(b.text for b in result.content if b.type == "text")


def changed(result):
    return [f["path"] for f in result.structured_content["files"]]


async def artifacts(c):
    r = await run(c, "import os\nos.makedirs('out/deep/er')\nopen('out/deep/er/table.csv', 'w').write('a,b\\n1,2\\n')\n"
                     "open('note.txt', 'w').write('one')")
    tap.equal(changed(r), ["note.txt", "out/deep/er/table.csv"], "new files, nested, too")
    csv = r.structured_content["files"][1]
    tap.equal((csv["size"], csv["mime_type"]), (8, "text/csv"), "size and type")
    tap.ok(csv["uri"] == f"codebox://sessions/{r.structured_content['session_id']}/files/out/deep/er/table.csv", "uri",
           csv)
    links = [b for b in r.content if b.type == "resource_link"]
    tap.equal([str(b.uri) for b in links], [f["uri"] for f in r.structured_content["files"]], "resource links")
    tap.ok("out/deep/er/table.csv, 8 bytes, text/csv" in shown(r), "named in the text", shown(r))
    r = await run(c, "1 + 1")
    tap.equal(changed(r), [], "a cell that changes nothing has no files")
    r = await run(c, "open('note.txt', 'w').write('two')")
    tap.equal(changed(r), ["note.txt"], "overwritten with as many bytes")
    r = await run(c, "os.rename('note.txt', 'renamed.txt')")
    tap.equal(changed(r), ["renamed.txt"], "renamed")
    r = await run(c, "os.rename('out', 'moved')")
    tap.equal(changed(r), ["moved/deep/er/table.csv"], "a directory renamed: its files have new names")
    r = await run(c, "open('tmp~', 'w').write('three')\nos.replace('tmp~', 'renamed.txt')")
    tap.equal(changed(r), ["renamed.txt"], "replaced")
    r = await run(c, "os.remove('renamed.txt')")
    tap.equal(changed(r), [], "removed")
    r = await run(c, "open('left.txt', 'w').write('x')\nraise ValueError('after that')")
    tap.equal((r.structured_content["status"], changed(r)), ("error", ["left.txt"]), "after an exception, too")
    r = await run(c, "open('late.txt', 'w').write('x')\nos._exit(1)")
    tap.equal((r.structured_content["status"], changed(r)), ("killed", ["late.txt"]),
              "after the interpreter's death, too")
    r = await run(c, "open('slow.txt', 'w').write('x')\nwhile True: pass", timeout=1)
    tap.equal((r.structured_content["status"], changed(r)), ("timeout", ["slow.txt"]), "after a timeout, too")
    r = await run(c, "import os\nos.chdir('/tmp')\nopen('elsewhere.txt', 'w').write('x')\nos.chdir('/workspace')")
    tap.equal(changed(r), [], "files elsewhere are not listed")


async def images(c):
    await run(c, PNG)
    r = await run(c, "open('small.png', 'wb').write(png(50))\nopen('large.png', 'wb').write(png(600))")
    sent = {f["path"]: f["sent"] for f in r.structured_content["files"]}
    tap.equal(sent, {"large.png": False, "small.png": True}, "a small image goes inline, a large one does not")
    blocks = [b for b in r.content if b.type == "image"]
    tap.equal([b.mime_type for b in blocks], ["image/png"], "one image block")
    tap.equal(common.png_facts(base64.b64decode(blocks[0].data))[:2], (50, 50), "and it is the picture")
    r = await run(c, "for i in range(9): open(f'p{i}.png', 'wb').write(png(20))")
    tap.ok(not [b for b in r.content if b.type == "image"], "many images are links")
    r = await run(c, "open('fake.png', 'w').write('no image')\nopen('x.svg', 'w').write('<svg/>')")
    tap.ok(not [b for b in r.content if b.type == "image"], "what is no image is not sent as one")
    r = await call(c, "read_file", path="small.png")
    tap.equal([b.type for b in r.content if b.type != "text"], ["image"], "read_file gives an image as an image")
    r = await call(c, "read_file", path="fake.png")
    tap.equal(r.structured_content["content"], "no image", "and text as text whatever its name")


async def many(c):
    tick()
    r = await run(c, "import os\nos.makedirs('many')\nfor i in range(10000): open(f'many/{i:05}', 'w').close()\n"
                     "print('made')",
                  timeout=120)
    s = r.structured_content
    tap.equal((s["status"], s["stdout"]), ("ok", "made\n"), "10,000 files at once")
    tap.equal((len(s["files"]), len(s["files"]) + s["files_omitted"]), (200, 10000), "two hundred listed, all counted")
    tap.ok(len([b for b in r.content if b.type == "resource_link"]) <= 20, "few links")
    tap.ok("more files" in shown(r), "the text says so", shown(r)[-300:])
    for recursive in (False, True):
        names, offset = set(), 0
        while True:
            r = await call(c, "list_files", path="many", offset=offset, recursive=recursive)
            names |= {f["path"] for f in r.structured_content["files"]}
            if "next_offset" not in r.structured_content:
                break
            offset = r.structured_content["next_offset"]
        tap.equal(len(names), 10000, f"list_files, recursive {recursive}: page by page, all of them")
    r = await run(c, "import shutil\nfor i in range(30): os.makedirs(f'wide/{i}/' + '/'.join(['d'] * 200))\n"
                     "for i in range(25000): open(f'wide/{i}', 'w').close() if i >= 30 else None\n1", timeout=120)
    tap.equal(r.structured_content["status"], "ok", "a tree that is too large to look at does not stop the answer")
    tap.ok("Not all files" in (r.structured_content.get("message") or ""), "and is told of",
           r.structured_content.get("message"))
    r = await run(c, "shutil.rmtree('wide')\nshutil.rmtree('many')", timeout=120)
    tap.equal(changed(r), [], "removed again")


HOSTILE = ["a b", "Ünïcödé", "new\nline", "tab\tname", "\x1b[31mred", "\"quoted\"", "back\\slash", "%2e%2e", "-rf", "~",
           "#fragment?query=1", "{template}", "\u202egnp.exe", "x" * 255, "a\rb", "é́"]


def cleaned(name):
    """As a model sees it: what a terminal obeys is omitted, what turns text round is shown."""
    return re.sub("\x1b\\[[0-9;]*m", "", name).replace("\u202e", "\\u202e")


async def hostile_names(c):
    r = await run(c, f"names = {HOSTILE!r}\nfor n in names: open(n, 'w').write(n)\n"
                     "with open(b'bytes\\xff\\xfe', 'w') as f: f.write('bytes')")
    found = {f["path"]: f["uri"] for f in r.structured_content["files"]}
    listed = {cleaned(n): n for n in HOSTILE}
    tap.equal(sorted(n for n in found if n in listed), sorted(listed), "hostile names are listed, without controls")
    tap.ok("\x1b" not in shown(r) and "new\nline" not in shown(r), "and cannot disturb the text", shown(r))
    for name in HOSTILE:
        r1 = await call(c, "read_file", path=name)
        r2 = await call(c, "read_file", path=found[cleaned(name)])
        ok = not r1.is_error and not r2.is_error and \
            r1.structured_content["content"] == r2.structured_content["content"] == name
        tap.ok(ok, f"read by name and by address: {name[:20]!r}", (shown(r1), shown(r2)))
    odd = [u for n, u in found.items() if "\ufffd" in n]
    tap.ok(len(odd) == 1 and odd[0].endswith("/files/bytes%FF%FE"), "bytes that are not UTF-8 are in the address", odd)
    r = await call(c, "read_file", path=odd[0])
    tap.equal(r.structured_content["content"], "bytes", "by which the file is found")


async def tricks(c):
    await run(c, "import os\nfor n in ('fifo', 'loop', 'link', 'up'):\n    pass\nos.mkfifo('fifo')\n"
                 "os.symlink('loop', 'loop')\n"
                 "os.symlink('/etc/shadow', 'link')\nos.symlink('/proc/1/mem', 'mem')\n"
                 "os.symlink('/dev/zero', 'zero')\n"
                 "import socket; s = socket.socket(socket.AF_UNIX); s.bind('sock')\nos.makedirs('dir')\n"
                 "f = open('sparse', 'wb'); f.truncate(1 << 33); f.close()\n"
                 "open('closed', 'w').write('x'); os.chmod('closed', 0)")
    for path, why in [("fifo", "not an ordinary file"), ("loop", "symbolic links"), ("link", ""), ("mem", ""),
                      ("zero", "not an ordinary file"), ("sock", ""), ("dir", "directory"),
                      ("none", "No such file"), ("none/x", "No such file"),
                      ("fifo/x", "Not a directory"), ("/dev/stdin", ""), ("/proc/self/environ", ""),
                      ("x" * 300, "too long"),
                      ("d/" * 3000, ""), ("codebox://sessions/other/files/x", "no session"),
                      ("codebox://sessions/%00", "not the address")]:
        r = await c.call_tool("read_file", {"path": path})
        tap.ok(r.is_error and why in shown(r), f"read_file refuses {path[:30]!r}", shown(r)[:300])
    r = await call(c, "read_file", path="../../etc/passwd")
    tap.ok("root:" in shown(r) or r.is_error, "a way out of /workspace leads into the sandbox's own files",
           shown(r)[:200])
    r = await call(c, "read_file", path="sparse", offset=(1 << 33) - 10, length=100, encoding="base64")
    s = r.structured_content
    tap.equal((s["size"], s["length"], base64.b64decode(s["content"])), (1 << 33, 10, bytes(10)),
              "the end of a sparse file")
    r = await call(c, "read_file", path="sparse")
    tap.equal((r.structured_content["length"], r.structured_content["next_offset"]), (20480, 20480),
              "only a part of it")
    for path in ("fifo", "zero", "dir", "loop", "mem", "fifo/x", "/dev/full"):
        r = await c.call_tool("write_file", {"path": path, "content": "x"})
        tap.ok(r.is_error, f"write_file refuses {path!r}", shown(r)[:300])
    r = await c.call_tool("list_files", {"path": "closed"})
    tap.ok(r.is_error and "Not a directory" in shown(r), "list_files of a file", shown(r))
    r = await call(c, "list_files")
    kinds = {f["path"]: f["type"] for f in r.structured_content["files"]}
    tap.equal([kinds[n] for n in ("fifo", "link", "dir", "sparse", "sock")],
              ["other", "link", "directory", "file", "other"],
              "list_files tells what they are, links not followed")
    r = await run(c, "2")
    tap.equal(changed(r), [], "special files are not artifacts")
    await run(c, "s.close()\n"
                 "for n in ('fifo', 'loop', 'link', 'mem', 'zero', 'sock', 'sparse', 'closed'): os.remove(n)")


async def round_trips(c):
    data = bytes(range(256)) * 2000 + os.urandom(1000)
    r = await call(c, "write_file", path="bin/data", content=base64.b64encode(data).decode(), encoding="base64")
    tap.equal(r.structured_content["written"], len(data), "half a megabyte of bytes written")
    got, offset = b"", 0
    while True:
        s = (await call(c, "read_file", path="bin/data", offset=offset, length=10**9,
                        encoding="base64")).structured_content
        got += base64.b64decode(s["content"])
        if "next_offset" not in s:
            break
        offset = s["next_offset"]
    tap.ok(got == data, "and read back, part by part", len(got))
    r = await run(c, "import hashlib\nhashlib.sha256(open('bin/data', 'rb').read()).hexdigest()")
    import hashlib
    tap.ok(hashlib.sha256(data).hexdigest() in shown(r), "code sees the same bytes")
    text = "h\u00e9llo \U0001f600\n" * 20000
    await call(c, "write_file", path="t.txt", content=text[:1000])
    await call(c, "write_file", path="t.txt", content=text[1000:], append=True)
    got, offset = "", 0
    while True:
        s = (await call(c, "read_file", path="t.txt", offset=offset, length=50001)).structured_content
        tap.ok(s["encoding"] == "text", "a part of a text is text", s["encoding"]) if s["encoding"] != "text" else None
        got += s["content"]
        if "next_offset" not in s:
            break
        offset = s["next_offset"]
    tap.ok(got == text, "text in parts, no character split", (len(got), len(text)))
    await call(c, "write_file", path="t.txt", content="short")
    tap.equal((await call(c, "read_file", path="t.txt")).structured_content["content"], "short",
              "replaced, not overlaid")
    await call(c, "write_file", path="empty", content="")
    s = (await call(c, "read_file", path="empty")).structured_content
    tap.equal((s["size"], s["content"], s["encoding"]), (0, "", "text"), "an empty file")
    r = await call(c, "upload_file", filename="up/loaded.bin", content_base64=base64.b64encode(b"\x00\xff").decode())
    tap.equal((await run(c, "open('up/loaded.bin', 'rb').read()")).structured_content["result"], "b'\\x00\\xff'",
              "upload_file")
    for arguments, word in [({"filename": "u", "url": "http://127.0.0.1/x"}, "network policy"),
                            ({"filename": "u"}, "content_base64"),
                            ({"filename": "u", "content_base64": "!!"}, "base64"),
                            ({"content_base64": "AA=="}, "filename")]:
        r = await c.call_tool("upload_file", arguments)
        tap.ok(r.is_error and word in shown(r), f"upload_file refuses {arguments}", shown(r))
    for tool, arguments, word in [("read_file", {}, "path"),
                                  ("read_file", {"path": "t.txt", "encoding": "utf-16"}, "encoding"),
                                  ("read_file", {"path": "t.txt", "offset": -1}, "offset"),
                                  ("write_file", {"path": "x"}, "content"),
                                  ("write_file", {"path": "", "content": "x"}, "path"),
                                  ("list_files", {"path": "nowhere"}, "nowhere"),
                                  ("read_file", {"path": "x", "session_id": "none"}, "none")]:
        r = await c.call_tool(tool, arguments)
        tap.ok(r.is_error and word in shown(r), f"{tool} refuses {arguments}", shown(r))


async def quota():
    async with connect() as c:
        s = (await c.call_tool("create_session", {"disk": "4M"})).structured_content["session_id"]
        r = await c.call_tool("write_file", {"session_id": s, "path": "big", "encoding": "base64",
                                             "content": base64.b64encode(bytes(8 << 20)).decode()})
        tap.ok(r.is_error and "No space left" in shown(r) and "bytes had been written" in shown(r),
               "a full disk is told of", shown(r))
        r = await call(c, "run_code", session_id=s, code="import os\nos.remove('big')\nopen('small', 'w').write('x')")
        tap.equal(changed(r), ["small"], "and the session goes on")
        await c.call_tool("close_session", {"session_id": s})


def revisions():
    for version, links in [("2024-11-05", False), ("2025-03-26", False), ("2025-06-18", True), ("2025-11-25", True)]:
        with Raw() as raw:
            raw.initialize(version)
            r = raw.run("open('f.csv', 'w').write('1')")
            kinds = [b["type"] for b in r["content"]]
            tap.equal("resource_link" in kinds, links, f"{version}: resource links")
            tap.ok("f.csv, 1 byte, text/csv" in text_of(r), f"{version}: named in the text", text_of(r))


def sizes():
    with Raw() as raw:
        raw.initialize()
        raw.run("import os\nfor i in range(300): open('\\x01' * 250 + str(i), 'w').write('x')")
        raw.call("list_files", {})
        raw.run("open('control', 'w').write('\\x01' * 1000000)")
        r = raw.call("read_file", {"path": "control", "length": 1000000})["result"]
        tap.ok(0 < r["structuredContent"]["next_offset"] == r["structuredContent"]["length"], "cut to fit",
               r["structuredContent"]["length"])
        tap.ok(0 < raw.longest < REPLY_MAX, "no message is longer than the limit", raw.longest)


def connect():
    return Client(StdioServerParameters(command=common.CODEBOX, args=["mcp"], env=common.SERVER_ENV), mode="legacy",
                  read_timeout_seconds=PATIENCE)


async def main():
    async with connect() as c:
        schemas.update({t.name: t.output_schema for t in (await c.list_tools()).tools})
    for title, function in [("artifacts", artifacts), ("images", images), ("many files", many),
                            ("hostile names", hostile_names),
                            ("tricks", tricks), ("round trips", round_trips)]:
        async with connect() as c:
            await tap.run_async(title, function, c)
    await tap.run_async("quota", quota)


if __name__ == "__main__":
    common.need_codebox()
    anyio.run(main)
    tap.run("revisions", revisions)
    tap.run("sizes", sizes)
    tap.done()
