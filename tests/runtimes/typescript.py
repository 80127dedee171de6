#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TypeScript, whose types Node.js 22 strips, and a session of many languages: an image of the user's Python and Bash with the
Node.js 22 that npm has."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from cbxtest import Box, Skip, run  # noqa: E402
from control import Control  # noqa: E402
from model import Model  # noqa: E402
from ociimage import Image, Layer, add, layout, libraries, python_layers, write_tar  # noqa: E402

box = Box(LC_ALL="C.UTF-8")
box.env["CODEBOX_DATA_DIR"] = os.path.join(box.dir, "data")
made = []


def node_layer():
    r = subprocess.run([os.path.join(HERE, "..", "clients", "setup.sh"), "node22"], stdout=subprocess.PIPE, text=True,
                       check=False)
    if r.returncode == 77:
        raise Skip("Node.js 22 cannot be fetched from npm")
    assert r.returncode == 0, r
    node = os.path.realpath(os.path.join(r.stdout.strip(), "node_modules", "node", "bin", "node"))
    layer = add(Layer(), "usr/local/bin/node", node)
    for name, path in libraries(node).items():
        if not os.path.basename(name).startswith(("ld-", "libc.", "libm.", "libdl.", "libpthread.")):
            add(layer, "usr/local/lib/" + os.path.basename(name), path)
    return layer


def image():
    if not made:
        path = os.path.join(box.dir, "many.tar")
        layers = [*python_layers(), (node_layer().bytes(), "")]
        config = {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "LD_LIBRARY_PATH=/usr/local/lib"]}
        write_tar(layout([Image(layers, config)]), path)
        r = box("image", "import", "many", path)
        assert r.returncode == 0, r.stderr
        os.unlink(path)
        made.append("many")
    return made[0]


class Session:
    def __init__(self):
        self.control = Control(box)
        self.id = self.control.call("session.create", image=image())["session_id"]

    def run(self, code, language=None, **more):
        return self.control.call("run", session_id=self.id, code=code, **({"language": language} if language else {}), **more)

    def shown(self, code, language=None):
        x = self.run(code, language)
        assert x["status"] == "ok", x
        return x["output"] + x.get("result", "")


SHAPES = """
interface Shape { readonly side: number; name?: string }
type Sized<T extends Shape> = T & { area(): number };
const square = (side: number): Sized<Shape> => ({ side, area() { return this.side ** 2 } });
let total: number = 0;
abstract class Base<T> { constructor() {} abstract of(x: T): string; protected kept?: T }
class Text extends Base<number> { override of(x: number): string { return `<${x!}>` } }
"""


def test_types_are_stripped():
    s = Session()
    assert s.shown(SHAPES + "square(3).area() satisfies number", "typescript") == "9"
    assert s.shown("const more = <T,>(x: T): T[] => [x, x];\n(more<number>(total) as unknown as string[]).length", "ts") == "2"
    assert s.shown("new Text().of(await Promise.resolve(5))", "ts") == "'<5>'"
    assert s.shown("square(4).area()", "js") == "16"            # one interpreter, and one set of variables
    assert s.shown("const square: number = 5; square * 2", "ts") == "10"  # declared again
    assert s.shown("%%typescript\nlet n: number = 1; n + total") == "1"


def test_what_has_no_types_to_strip_is_refused():
    s = Session()
    for code, says in (("enum Colour { Red }", "enum"), ("const x: = 5", "xpected"), ("namespace A { export const b = 1 }", "namespace")):
        x = s.run(code, "typescript")
        assert x["status"] == "error" and says in x["error"]["value"], x
    x = s.run("const a: number = 1;\nthrow new Error('seen: ' + a)", "typescript")
    assert x["status"] == "error" and "seen: 1" in x["error"]["value"] and "driver.js" not in x["error"]["traceback"], x
    assert s.shown("1 + 1", "ts") == "2"


def test_a_name_is_declared_again():
    s = Session()
    for code, want in (("const a: number = 1; a", "1"), ("let a: string = 'two'; a", "'two'"), ("a = 'three'; a as string", "'three'"),
                       ("function a<T>(x: T): T { return x }\na<number>(4)", "4"), ("const a = <T,>(x: T): T[] => [x]; a(5)", "[ 5 ]"),
                       ("interface a { b: number }\na(6)", "[ 6 ]"), ("class a<T> { constructor(readonly_: T) {} }\nnew a<number>(7)", "a {}")):
        assert s.shown(code, "typescript") == want, code
    assert s.shown("a", "js") == "[class a]"
    x = s.run("let a: number = 1; const a: string = ''", "ts")
    assert x["status"] == "error" and "already been declared" in x["error"]["value"], x


def test_errors_show_what_was_written():
    """With its types, the line of the cell and the column that the sign stands below."""
    s = Session()
    for code, line, sign in (
            ("type X = { a: number }\n\nconst b: X = { a: 1 }; (b as any).q.r", 3, "r"),
            ("import type { Stats } from 'fs'; import { constants, type Dirent } from 'fs'; (constants as any).a.b", 1, "b"),
            ("const f = <T,>(x: T): T => {\n\tthrow new Error('f') }\nf<number>(1)", 2, "new Error"),
            ("interface A { a: number }\nawait (null as any)?.a; let c: A = nowhere as A;", 2, "nowhere"),
            ("let x1: string = 'é'; let y1: 'ß' | 'ü' = nowhere", 1, "nowhere"),
            ("let g: number = 1; let g: string = ''", 1, "g: string"),
            ("const h: number = 1;\nfor (const i of [h] as number[]) { i(); }", 2, "i();")):
        x = s.run(code, "ts")
        trace = x["error"]["traceback"].split("\n")
        assert x["status"] == "error" and trace[0].startswith("cell ") and trace[0].endswith(f":{line}"), (code, trace)
        assert trace[1] == code.split("\n")[line - 1] and trace[1][trace[2].index("^"):].startswith(sign), (code, trace)
    x = s.run("let y: number = 1\nenum Colour { Red }", "ts")
    trace = x["error"]["traceback"]
    assert trace.startswith("cell ") and ":2\n" in trace and "enum Colour { Red }" in trace and "node:" not in trace, trace


def test_a_file():
    for name, text in (("prog.ts", "import type { Stats } from 'node:fs';\nimport { basename } from 'node:path';\n"
                                   "const size = (s: Stats): number => s.size;\nconst words: string[] = process.argv.slice(2);\n"
                                   "console.log(basename(import.meta.filename ?? ''), words, typeof size);\nprocess.exit(4);\n"),
                       ("prog.mts", "const late: Promise<number> = Promise.resolve(6);\nconsole.log(await late);\n"),
                       ("prog.cts", "const path = require('node:path') as typeof import('node:path');\n"
                                    "console.log(path.basename(__filename));\n"),
                       ("enum.ts", "enum A { B }\nconsole.log(A.B);\n")):
        with open(os.path.join(box.dir, name), "w") as f:
            f.write(text)
    for name, words, want in (("prog.ts", ["a b"], (4, "prog.ts [ 'a b' ] function\n")), ("prog.mts", [], (0, "6\n")),
                              ("prog.cts", [], (0, "prog.cts\n"))):
        r = box("run", "--image", image(), os.path.join(box.dir, name), *words)
        assert (r.returncode, r.stdout) == want, (name, r)
    r = box("run", "--image", image(), os.path.join(box.dir, "enum.ts"))
    assert r.returncode == 1 and "enum" in r.stderr, r


def test_many_languages_in_one_session():
    """Each has its own variables, which stay, and all have the files; what ends one leaves the others."""
    s = Session()
    assert s.shown("import json, os\nx = 40\njson.dump({'x': x}, open('shared.json', 'w'))") == ""
    assert s.shown("%%javascript\nconst fs = require('fs');\nconst read = JSON.parse(fs.readFileSync('shared.json', 'utf8'));\n"
                   "let x = read.x + 1; x") == "41"
    assert s.shown("%%bash\nx=$(($(tr -dc 0-9 <shared.json) + 2)); mkdir -p sub; cd sub; echo $x; echo from bash >file") == "42\n"
    assert s.shown("x, open('sub/file').read()") == "(40, 'from bash\\n')"
    assert s.shown("%%javascript\nx += 1; fs.appendFileSync('sub/file', `from node ${x}\\n`); x") == "42"
    assert s.shown("%%bash\necho $x ${PWD##*/}; cat file") == "42 sub\nfrom bash\nfrom node 42\n"
    assert s.shown("%%typescript\nconst typed: number = x + 1; typed") == "43"
    assert s.run("%%javascript\nfor (;;) {}", timeout=0.5)["status"] == "timeout"
    assert s.run("%%javascript\nprocess.kill(process.pid, 'SIGKILL'); for (;;) {}")["status"] == "killed"
    assert s.shown("x, os.getcwd()") == "(40, '/workspace')" and s.shown("%%bash\necho $x") == "42\n"
    assert s.shown("%%javascript\ntypeof x") == "'undefined'"
    info = s.control.call("session.info", session_id=s.id)
    assert info["languages"] == ["python", "javascript", "typescript", "bash"], info["languages"]


def test_by_a_model():
    m = Model(box)
    m.call("create_session", session_id="m", image=image())
    for language, code, want in (("python", "a = 1; a + 1", "2"), ("javascript", "const a = 2; a + 1", "3"),
                                 ("typescript", "const b: number = a + 2; b", "4"), ("python", "a", "1")):
        r = m.call("run_code", session_id="m", language=language, code=code)
        assert r["structuredContent"]["result"] == want, r
    m.close()


if __name__ == "__main__":
    run(globals())
