# SPDX-License-Identifier: Apache-2.0
"""Cells that rules for code let run, or not: the verdicts of CodeBox-AI's validation, and its mistakes the other way round.

The rules are those of the shipped example (policies/examples/code-rules.json), as codeboxd sends them.
"""
import base64
import json
import os
import subprocess

from checks import fails, has, lacks, ok, same, test

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
LISTS = {"commands": "jupyter_commands", "magics": "jupyter_commands", "builtins": "dangerous_builtins",
         "imports": "dangerous_imports", "names": "dangerous_patterns"}


def rules(*without):
    """By name, as src/policy/code.c makes them of the canonical form."""
    if "all" not in KNOWN:
        r = subprocess.run([os.environ.get("CODEBOX", "codebox"), "policy", "show", "--json",
                            os.path.join(TOP, "policies", "examples", "code-rules.json")], capture_output=True, text=True)
        assert r.returncode == 0, r.stderr
        policy = json.loads(r.stdout)
        KNOWN["all"] = {"package_installation": {k: policy["packages"][k] for k in ("block", "versions")}}
        for name, rule in LISTS.items():
            KNOWN["all"].setdefault(rule, {})[name] = policy["code"][name]
    return {name: words for name, words in KNOWN["all"].items() if name not in without}


KNOWN = {}
J, B, I, P, X = ("jupyter_commands", "dangerous_builtins", "dangerous_imports", "dangerous_patterns", "package_installation")

# What CodeBox-AI refuses, too: code, rule, and what its message says.
REFUSED = [
    ("!ls", J, "Shell command not allowed: ls"),
    ("!git clone x", J, "Shell command not allowed: git"),
    ("eval('1')", B, "Forbidden function call: eval"),
    ("exec('1')", B, "Forbidden function call: exec"),
    ("def f():\n    return globals(), locals()", B, "Forbidden function call: globals"),
    ("compile('1', 'x', 'eval')", B, "Forbidden function call: compile"),
    ("__import__('x')", B, "Forbidden function call: __import__"),
    ("import sys", I, "Forbidden import: sys"),
    ("import subprocess as s", I, "Forbidden import: subprocess"),
    ("from multiprocessing.pool import Pool", I, "Forbidden import: multiprocessing"),
    ("if 1:\n    import socket", I, "Forbidden import: socket"),
    ("import pickle, marshal, shelve, pty, pdb", I, "Forbidden import: shelve"),
    ("().__class__.__bases__", P, "Forbidden pattern found: __class__"),
    ("__builtins__", P, "Forbidden pattern found: __builtins__"),
    ("!pip install flask", X, "Package flask is blocked for security reasons"),
    ("!pip3 install Django", X, "Package Django is blocked for security reasons"),
    ("!python -m pip install paramiko", X, "Package paramiko is blocked for security reasons"),
    ("!conda install boto3", X, "Package boto3 is blocked for security reasons"),
    ("!pip install numpy==1.22.1", X, "Version 1.22.1 of numpy is not allowed. Must satisfy: >=1.22.2"),
    ("!pip install pillow==8.0.0", X, "Version 8.0.0 of pillow is not allowed. Must satisfy: >=9.0.0"),
    ("!pip install scipy==1.9.0", X, "Version 1.9.0 of scipy is not allowed. Must satisfy: >=1.10.0"),
    ("!pip install numpy>=1.20", X, "Version >=1.20 of numpy would allow versions below minimum required (1.22.2). Must satisfy: >=1.22.2"),
    ("!pip install 'numpy>=1.21,<2'", X, "would allow versions below minimum required (1.22.2)"),
    ("!pip install torch>=1.0", X, "would allow versions below minimum required (1.13.1)"),
    ("!pip install urllib3>=1.26.0", X, "would allow versions below minimum required (1.26.5)"),
    ("!pip install tensorflow>=2.0", X, "would allow versions below minimum required (2.11.1)"),
    ("!pip install numpy==one", X, "Invalid version specification for numpy: ==one"),
    ("print(1", "syntax", "Invalid Python syntax: "),
]
# What it lets pass.
MISSED = [
    ("import os", I, "os"), ("from os import path", I, "os"), ("import ctypes", I, "ctypes"), ("import importlib", I, "importlib"),
    ("x = eval", B, "eval"), ("builtins.eval('1')", B, "eval"), ("import builtins", I, "builtins"),
    ("%pip install crypto", X, "crypto"), ("%uv pip install crypto", X, "crypto"), ("!uv pip install crypto", X, "crypto"),
    ("!wget u | sh", J, "sh"), ("!curl --version; rm none", J, "rm"), ("!pip list && nothing-there", J, "nothing-there"),
    ("!pip list $(nothing-there)", J, "not known"), ("!{cmd}", J, "not known"),
    ("!pip list `nothing-there`", J, "not known"), ("!pip list > >(sh)", J, "not known"), ("!A=1 nothing-there", J, "A=1"),
    ("!pip install 'numpy==1.0'", X, "1.0"), ("!pip install numpy == 1.0", X, "=="), ("!pip install pillow~=8.0", X, "~=8.0"),
    ("!pip install 'pillow>=8'", X, ">=8"), ("!pip install 'pillow<9'", X, "<9"), ("!pip install PILLOW==8.0.0", X, "8.0.0"),
    ("!pip install 'scipy>=1.9'", X, ">=1.9"), ("!pip install 'requests>=2.30'", X, ">=2.30"), ("!pip install 'pandas>=1.0'", X, ">=1.0"),
    ("!pip install pillow==9.0.0rc1", X, "9.0.0rc1"), ("!pip install -P numpy==1.0 rich", X, "1.0"),
    ("!pip install --index-url http://x.test y", X, "--index-url"), ("!pip install git+https://x.test/y", X, "git+https"),
    ("!pip install -r req.txt", X, "-r"), ("!pip install ./x.whl", X, "./x.whl"), ("!pip install x.whl", X, "x.whl"),
    ("!pip install cx_Freeze", X, "cx_Freeze"), ("!pip install 'flask[async]'", X, "flask"),
    ("%%bash\nls -la", J, "%%bash"), ("%run x.py", J, "%run"), ("%sx nothing-there", J, "nothing-there"),
    ("%timeit eval('1')", B, "eval"), ("%%time\n\nimport socket", I, "socket"), ("%cd {__file__}", J, "{"),
    ("get_ipython().system(x)", J, "get_ipython"), ("from IPython import get_ipython", J, "get_ipython"),
    ("getattr((), '__class__')", P, "__class__"), ("'{0.__class__}'.format(1)", P, "__class__"),
    ("x = 1\nimport code as c, pty\n", I, "pty"),
]
# What it refuses, although harmless.
HARMLESS = ["class A:\n    def __init__(self):\n        super().__init__()\n    def __len__(self):\n        return 0",
            "if __name__ == '__main__':\n    print(1)", "x = 1  # __foo__", "# import socket", "print('!pip install flask')",
            "# !pip install flask", "x = '''\n!ls\n%run y\n'''", "x = 'import os'", "import re; re.compile('x')",
            "class D:\n    def eval(self, x):\n        return x\nD().eval('1 + 1')", "%%time\nprint(1)"]
OF_IPYTHON = ["print?", "?print", "!", "x = !pip --version", "!!pip3 --version", "!python3 --version", "%timeit -n 2 -r 1 sum([1])",
              "%%capture out\nprint(1)", "!pip --version\nimport collections", "%who"]


def judged(i, code, **more):
    cell = i.run(code, **more)
    same([f["refused"] for f in cell.all("judged")], [cell.status == "error"])
    return cell


def refused(i, code, rule, text, **more):
    cell = judged(i, code, rules=rules(), **more)
    try:
        error = fails(cell, "CodeRefused")
        has(error["value"], text, "rule " + rule, "(line ", "Nothing of it was run.")
        has(error["traceback"], "rule " + rule)
        same([kind for kind, _ in cell.events], ["judged", "error"])
    except AssertionError as e:
        raise AssertionError("%r: %s" % (code, e)) from e
    return error


@test()
def the_verdicts_of_codebox_ai(i):
    for code, rule, text in REFUSED:
        refused(i, code, rule, text)


@test()
def what_it_misses(i):
    for code, rule, text in MISSED:
        refused(i, code, rule, text)


@test()
def what_is_harmless(i):
    for code in HARMLESS:
        ok(judged(i, code, rules=rules()))


@test("ipython")
def what_is_harmless_with_ipython(i):
    for code in OF_IPYTHON:
        ok(judged(i, code, rules=rules()))
    refused(i, "!pip list\\\n ; nothing-there", J, "nothing-there")


@test()
def what_is_refused_changes_nothing(i):
    ok(i.run("kept, n = 1, len(In)"))
    before = ok(i.run("kept")).done["count"]
    for code in "kept = 2\nimport socket", "kept = 3\nprint(1", "%%time\nkept = 4; eval('1')":
        refused(i, code, "", "")
    cell = ok(judged(i, "(kept, len(In) - n)", rules=rules()))
    same((cell.result["text/plain"], cell.done["count"]), ("(1, 2)", before + 1))


@test()
def each_place_is_told(i):
    error = refused(i, "\n\nx = 1\nimport socket\ny = eval\n" + "import os\n" * 3, I, "Forbidden import: socket (line 4,")
    has(error["value"], "Forbidden function call: eval (line 5, rule dangerous_builtins)", "Forbidden import: os (line 6,")
    has(error["traceback"], "line 4, rule dangerous_imports: Forbidden import: socket\n    import socket\n")
    error = refused(i, "\n".join("import %s" % name for name in "os sys socket pty pdb ctypes pickle".split()), I, "and 2 more")
    lacks(error["value"], "pickle (")


@test()
def rules_that_are_not_there_do_not_count(i):
    ok(judged(i, "import socket, math", rules=rules(I)))
    ok(judged(i, "().__class__", rules=rules(P)))
    fails(judged(i, "import socket; eval('1')", rules=rules(I)), "CodeRefused")
    ok(judged(i, "x = eval", rules=rules(B)))
    ok(i.run("import socket; eval('1')"))


@test()
def programs_are_judged_as_they_are(i):
    def program(text):
        return i.run(base64.b64encode(text.encode()).decode(), file="program.py", rules=rules())
    same(program("print('ran')\n").stdout, "ran\n")
    has(fails(program("print('ran')\nimport socket\n"), "CodeRefused")["value"], "line 2, rule dangerous_imports")
    has(fails(program("!pip list\n"), "CodeRefused")["value"], "Invalid Python syntax")


@test()
def what_is_too_deep_is_refused(i):
    for code in "(" * 5000 + ")" * 5000, "%%time\n" * 50 + "1":
        cell = judged(i, code, rules=rules())
        same((cell.status, cell.error["name"]), ("error", "CodeRefused"))
