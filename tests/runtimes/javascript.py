#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""JavaScript cells: through the control socket, an MCP client, codebox run, and a prompt on a terminal."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cases import play  # noqa: E402
from cbxtest import Box, CODEBOX, run, wait_until  # noqa: E402
from control import Control  # noqa: E402
from terminal import Terminal  # noqa: E402

box = Box(LC_ALL="C.UTF-8")


def image():
    return box.image("javascript")


class Session:
    """One session of a connection of its own."""

    def __init__(self, **spec):
        self.control = Control(box)
        self.id = self.control.call("session.create", image=image(), **spec)["session_id"]

    def run(self, code, **more):
        return self.control.call("run", session_id=self.id, code=code, **more)

    def events(self, code):
        """What comes while it runs."""
        number, got = self.control.send("run", session_id=self.id, code=code), []
        while True:
            m = self.control.recv()
            if m.get("id") == number and "event" not in m:
                return got
            got.append(m)

    def interrupted(self, code):
        """Run a cell that says "on" when it is to be interrupted."""
        number = self.control.send("run", session_id=self.id, code=code, timeout=20)
        while True:
            m = self.control.recv()
            if m.get("event") == "output" and "on" in m["text"]:
                with Control(box) as other:
                    other.call("interrupt", session_id=self.id)
            if m.get("id") == number and "event" not in m:
                return m["result"]


def shown(x):
    result = x["result"] + "\n" if "result" in x else ""
    return x["output"] + result + (x["error"]["traceback"] if "error" in x else "")


def played(name):
    s = Session()

    def one(code):
        x = s.run(code)
        return x["status"], x.get("exit_code"), shown(x)
    return play(name, one)


def test_cells():
    assert played("javascript.cases") >= 160


def test_tasks_carry_state():
    assert played("javascript-tasks.cases") == 164


# How a name is declared with a value that is a string or shows one.
DECLARED = ("const NAME = 'VALUE'", "let NAME = 'VALUE'", "var NAME = 'VALUE'", "class NAME { static v = 'VALUE' }",
            "function NAME() { return 'VALUE' }", "async function* NAME() { yield 'VALUE' }", "const { NAME } = { NAME: 'VALUE' }",
            "let [, ...NAME] = [0, 'VALUE']", "for (var NAME of ['VALUE']);", "const NAME = await Promise.resolve('VALUE')")


def test_each_kind_is_declared_again_as_each():
    """In a later cell; it can be assigned to then if its last declaration says so, and not be declared twice in one cell."""
    s, n = Session(), 0
    for first in DECLARED:
        for second in DECLARED:
            n += 1

            def one(text, value):
                return s.run(text.replace("NAME", f"name{n}").replace("VALUE", value))
            assert one(first, "first")["status"] == "ok", first
            x = one(second + "; String(NAME) + typeof NAME", "second")
            assert x["status"] == "ok" and "second" in x["result"] and "first" not in x["result"], (first, second, x)
            assert x["result"] == one("String(NAME) + typeof NAME", "")["result"], (first, second, x)
            x = one("NAME = 'VALUE'", "assigned")
            assert (x["status"] == "error") == second.startswith("const"), (first, second, x)
            if first[:5] in ("const", "let N", "class"):
                x = one(first + "; " + first, "third")
                assert x["status"] == "error" and f"'name{n}' has already been declared" in x["error"]["value"], (first, x)


def test_many_cells_share_a_context():
    s = Session()
    s.run("let total = 0; const log = []; const fs = require('fs')")
    for n in range(64):
        x = s.run(f"const step = {n}; let part = step * 2; total += part; log.push(await Promise.resolve(step)); "
                  "[step, part, log.length]")
        assert x["result"] == f"[ {n}, {n * 2}, {n + 1} ]", x
    assert s.run("[total, log.length]")["result"] == f"[ {64 * 63}, 64 ]"


def test_interrupts_keep_state():
    s = Session()
    s.run("const kept = [1]; let beats = 0; setInterval(() => beats++, 1).unref()")
    for code in ("console.log('on'); while (true) {}", "console.log('on'); await new Promise(() => {})",
                 "console.log('on'); await null; for (;;) {}", "console.log('on'); try { for (;;) {} } finally { kept[0]++ }",
                 "console.log('on'); require('child_process').execSync('sleep 1000')",
                 "for (;;) { console.log('on'); console.error('and'); display.text('on'); }",
                 "console.log('on'); (function f() { try { for (;;) {} } catch { f() } })()"):
        x = s.interrupted(code)
        assert x["status"] == "cancelled" and x["state_kept"], (code, x)
        assert s.run("kept.length")["result"] == "1", code
    x = s.run("kept.push(2); while (true) {}", timeout=0.5)
    assert x["status"] == "timeout" and x["state_kept"], x
    assert s.run("kept.length")["result"] == "2"
    before = int(s.run("beats")["result"])
    assert wait_until(lambda: int(s.run("beats")["result"]) > before)


def test_timers_and_servers_outlive_their_cell():
    s = Session()
    s.run("let ticks = 0; const timer = setInterval(() => { ticks++ }, 5)")
    assert wait_until(lambda: int(s.run("ticks")["result"]) > 3)
    s.run("clearInterval(timer)")
    x = s.run("const server = require('http').createServer((q, r) => r.end('served ' + q.url));\n"
              "await new Promise((resolve) => server.listen(8123, '127.0.0.1', resolve)); server.listening")
    assert x["result"] == "true", x
    assert s.run("await (await fetch('http://127.0.0.1:8123/here')).text()")["result"] == "'served /here'"
    own = s.run("setTimeout(() => console.log('between cells'), 50)")["output"]  # where that took longer
    assert wait_until(lambda: "between cells" in own + s.run("0")["output"])


def test_displays():
    s = Session()
    png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    shows = [m for m in s.events(f"""
        display.html('<b>bold</b>'); display({{ 'application/json': {{ a: [1] }} }});
        display.png(Buffer.from('{png}', 'base64')); console.log('after');
        ({{ [Symbol.for('Jupyter.display')]: () => ({{ 'text/html': '<i>by symbol</i>' }}) }})""") if m["event"] == "display"]
    data = [m["data"] for m in shows]
    assert data[0] == {"text/html": "<b>bold</b>"} and data[1]["application/json"] == {"a": [1]}, data
    assert data[2]["image/png"] == png and shows[3]["is_result"] and "by symbol" in data[3]["text/html"], data


def test_how_a_program_ends():
    """As with node."""
    for code, status, printed in (
            ("process.exitCode = 3", 3, ""), ("process.exit(4)", 4, ""), ("throw new Error('bad')", 1, ""), ("1", 0, ""),
            ("throw null", 1, ""), ("process.exitCode = 3; throw new Error('bad')", 1, ""),
            ("process.on('exit', (code) => { console.log(code); process.exitCode = 9 })", 9, "0\n"),
            ("process.on('exit', (code) => console.log('exit', code)); process.exit(5)", 5, "exit 5\n"),
            ("setTimeout(() => { console.log('late'); process.exitCode = 6 }, 50)", 6, "late\n"),
            ("Promise.reject(new Error('lost')); setTimeout(() => console.log('late'), 10000)", 1, ""),
            ("setTimeout(() => { throw new Error('lost') }, 10); setTimeout(() => console.log('late'), 10000)", 1, ""),
            ("process.on('unhandledRejection', (e) => console.log(e.message)); Promise.reject(new Error('mine'))", 0, "mine\n"),
            ("process.on('uncaughtException', (e) => console.log(e.message)); setTimeout(() => { throw new Error('mine') })", 0,
             "mine\n"),
            ("Promise.resolve().then(() => process.exit(8)); setTimeout(() => console.log('late'), 10000)", 8, ""),
            ("process.kill(process.pid, 'SIGKILL'); for (;;) {}", 137, ""), ("process.reallyExit(7)", 7, "")):
        with open(os.path.join(box.dir, "ends.js"), "w") as f:
            f.write(code + "\n")
        r = box("run", "--image", image(), os.path.join(box.dir, "ends.js"))
        assert (r.returncode, r.stdout) == (status, printed), (code, r)
        assert ("bad" in code or "lost" in code) == ("Error: " in r.stderr), (code, r)
        r = box("run", "--image", image(), "-c", code + "; void 0")
        assert (r.returncode, r.stdout) == (status, printed), (code, r)
    r = box("run", "--image", image(), "-c", "process.exitCode = 3; 'the value'")
    assert (r.returncode, r.stdout) == (3, "'the value'\n"), r
    s = Session()  # where nothing ends, it is shown
    x = s.run("process.exitCode = 3; Promise.reject(new Error('lost')); 5")
    assert x["status"] == "ok" and x["result"] == "5" and "lost" in x["output"] and "exit_code" not in x, x


ORDER = """for (let i = 0; i < 12; i++) {
    console.log(`log${i}`); console.error(`err${i}`); display.text(`shown${i}`);
    if (i % 6 == 0) require('child_process').execSync(`echo child${i}`, { stdio: 'inherit' });
}"""


def test_what_is_printed_and_shown_comes_in_order():
    wanted = []
    for i in range(12):
        wanted += [f"log{i}", f"err{i}", f"shown{i}"] + [f"child{i}"] * (i % 6 == 0)
    got = []
    for m in Session().events(ORDER):
        got += m["text"].split() if m["event"] == "output" else [m["data"]["text/plain"]] if m["event"] == "display" else []
    assert got == wanted, got
    with box.popen("run", "--image", image(), "-c", ORDER, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as p:
        got = p.communicate()[0].split()
    assert got == wanted, got


def test_one_dies_and_the_other_lives():
    s = Session(memory="512M")
    s.run("const a = 1")
    s.run("b=2", language="bash")
    x = s.run("process.kill(process.pid, 'SIGKILL'); for (;;) {}")
    assert x["status"] == "killed" and not x["state_kept"] and "SIGKILL" in x["message"], x
    assert s.run("%%bash\necho $b")["output"] == "2\n" and s.run("typeof a")["result"] == "'undefined'"
    x = s.run("const hog = []; for (;;) hog.push(Buffer.alloc(1 << 20, 1))")
    assert x["status"] in ("killed", "error"), x
    assert s.run("echo $b", language="bash")["output"] == "2\n"
    s.run("const c = 1")
    s.run("kill -KILL $$", language="sh")
    assert s.run("c")["result"] == "1"
    s.control.call("session.restart", session_id=s.id, language="js")
    assert s.run("typeof c")["result"] == "'undefined'"
    info = s.control.call("session.info", session_id=s.id)
    assert info["languages"][:2] == ["javascript", "typescript"] and info["interpreter"]["language"] == "javascript", info


def test_hostile_frames_hurt_their_own_session():
    for attack in ("fs.writeSync(4, 'garbage that is no frame')", "fs.closeSync(4)", "fs.closeSync(3)",
                   r"fs.writeSync(4, Buffer.from('\xff\xff\xff\x7f', 'latin1'))", "fs.writeSync = null; 1",
                   "Promise = null; setImmediate = null; 1", "process.removeAllListeners(); globalThis.process = 0; 1"):
        s = Session()
        s.run("v=1", language="bash")
        assert s.run(attack, timeout=3)["status"] in ("ok", "error", "killed", "timeout"), attack
        assert s.run("1", timeout=5)["status"] in ("ok", "error", "killed", "timeout"), attack
        assert s.run("echo $v", language="bash")["output"] == "1\n", attack
        s.control.call("session.close", session_id=s.id)


def test_typescript():
    s = Session()
    x = s.run("const n: number = 3; interface Shape { side: number }\nn * 2", language="typescript")
    if x["status"] == "ok":
        assert x["result"] == "6" and s.run("n")["result"] == "3"
    else:
        assert "TypeScript needs Node.js 22.13" in x["error"]["value"] and "\n" not in x["error"]["value"], x
    assert s.run("1")["result"] == "1"


def test_command_line():
    r = box("run", "--image", image(), "-l", "js", "-c", "process.argv.slice(1)", "one", "two")
    assert (r.returncode, r.stdout) == (0, "[ 'one', 'two' ]\n"), r
    with open(os.path.join(box.dir, "prog.js"), "w") as f:
        f.write("const fs = require('fs');\nconsole.log(require.main === module, __filename, process.argv.slice(2));\n"
                "console.log(fs.readFileSync(0, 'utf8').trim());\nsetTimeout(() => console.log('later'), 20);\n"
                "process.on('exit', (code) => console.log('exit', code));\n")
    r = box("run", "--image", image(), os.path.join(box.dir, "prog.js"), "a b", input="typed\n")
    assert (r.returncode, r.stdout) == (0, "true /workspace/prog.js [ 'a b' ]\ntyped\nlater\nexit 0\n"), r
    with open(os.path.join(box.dir, "prog.mjs"), "w") as f:
        f.write("import { basename } from 'node:path';\nconsole.log(basename(import.meta.url.split('?')[0]));\n"
                "await null;\nprocess.exit(7);\n")
    r = box("run", "--image", image(), os.path.join(box.dir, "prog.mjs"))
    assert (r.returncode, r.stdout) == (7, "prog.mjs\n"), r
    r = box("run", "--image", image(), "-c", "throw new Error('seen')")
    assert r.returncode == 1 and "Error: seen" in r.stderr and "driver.js" not in r.stderr, r
    r = box("run", "--image", box.image("python", "python-minimal", "host"), "-l", "javascript", "-c", "1")
    assert r.returncode != 0 and "cannot run" in r.stderr and "javascript" in r.stderr, r


def test_prompt():
    t = Terminal([CODEBOX, "repl", "--image", image()], box.env, box.dir)
    t.see(b">>> ")
    t.type("function twice(x) {\r")
    t.see(b"... ")
    t.type("return 2 * x }\r")
    t.see(b">>> ")
    t.type("twice(21)\r")
    t.see(b"42\r\n")
    t.see(b">>> ")
    t.type("const aLongName = 'there'\r")
    t.see(b">>> ")
    t.type("aLongN\t\r")
    t.see(b"'there'\r\n")
    t.see(b">>> ")
    t.type("console.log('beg' + 'un'); while (true) {}\r")
    t.see(b"begun\r\n")
    t.type("\x03")
    t.see(b">>> ")
    t.type("twice(aLongName.length)\r")
    t.see(b"10\r\n")
    t.see(b">>> ")
    t.type("\x04")
    assert t.end() == 0


def test_mcp():
    """run_code with a language, in a session of the image."""
    init = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}

    def call(n, tool, **arguments):
        return {"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    asked = [init, call(1, "create_session", session_id="js", image=image()),
             call(2, "run_code", session_id="js", code="const x = await Promise.resolve(20); x + 1"),
             call(3, "run_code", session_id="js", code="echo $((20 + 2)); exit 3", language="bash"),
             call(4, "run_code", session_id="js", code="x", language="cobol")]

    def talk(messages):
        r = box("mcp", input="".join(json.dumps(m) + "\n" for m in messages))
        return {m["id"]: m["result"] for m in map(json.loads, r.stdout.splitlines()) if "result" in m}
    got = talk(asked)
    assert "bash" in talk([init, call(5, "restart", session_id="js", language="bash")])[5]["content"][0]["text"]
    got.update(talk([init, call(6, "run_code", session_id="js", code="x")]))
    assert got[2]["structuredContent"]["result"] == "21", got[2]
    assert got[3]["structuredContent"]["stdout"] == "22\n" and got[3]["structuredContent"]["exit_code"] == 3, got[3]
    assert got[4]["isError"] and "javascript, typescript, bash" in got[4]["content"][0]["text"], got[4]
    assert got[6]["structuredContent"]["result"] == "20", got[6]


run(globals())
