#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codebox session export: as a notebook that Jupyter's nbformat takes and nbconvert runs to the same outputs, as a script
that prints the same in a fresh session, as a transcript; pages and bounds of what is kept; a policy that keeps nothing."""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
sys.path.insert(0, os.path.join(HERE, "..", "cli"))
from cbxtest import Box, Skip, run  # noqa: E402
from notebook import merged  # noqa: E402

box = Box()
work = tempfile.mkdtemp(dir=box.dir)

CELLS = [
    "x = 1\nprint('out')\nimport sys; print('err', file=sys.stderr)\nx + 41",
    "from IPython.display import HTML, display\ndisplay(HTML('<b>b</b>'))\nprint('between')\ndisplay('shown')\n"
    "{'a': [1,\n  ')'], 'b': \"#\"}  # comment",
    "h = display('one', display_id='k')",
    "!echo shell",
    "await __import__('asyncio').sleep(0)\n'awaited'",
    "text = '''\n%no magic\n'''\nprint(text)",
    "h.update('two')",
    "x; x * 2",
    "from IPython.display import clear_output\nprint('before')\nclear_output(wait=True)\nprint('after')",
    "if x:\n    print('block')",
    "x = 5;",
    "'quiet';",
    "'äö\\\\'",
]


def texts(path):
    with open(path) as f:
        return f.read()


def make(name, *cells, image=None):
    for code in cells:
        box("run", "--session", name, *(("--image", image) if image else ()), "-c", code)


def jupyter():
    r = subprocess.run([os.path.join(HERE, "..", "clients", "setup.sh"), "notebook"], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True)
    if r.returncode == 77:
        raise Skip(r.stderr.strip().splitlines()[-1])
    return os.path.join(r.stdout.strip(), "bin")


def outputs(cell):
    """As they are compared: texts joined, without what differs between two runs."""
    found = []
    for o in cell["outputs"]:
        o = json.loads(json.dumps(o))
        o.pop("execution_count", None)
        for holder in (o, o.get("data", {})):
            for k, v in holder.items():
                if isinstance(v, list) and k != "traceback":
                    holder[k] = "".join(v).replace("\r\n", "\n")
        if "traceback" in o:
            o["traceback"] = bool(o["traceback"])
        found.append(o)
    return merged(found)


def test_a_notebook_is_what_jupyter_would_have_left():
    box.image("python")
    make("nb", *CELLS, "%%bash\necho bash", "1/0")
    path = os.path.join(work, "nb.ipynb")
    r = box("session", "export", "nb", "-o", path)
    assert (r.returncode, r.stdout, r.stderr) == (0, "", ""), r
    got = json.loads(texts(path))
    assert ["".join(c["source"]) for c in got["cells"]] == [*CELLS, "%%bash\necho bash", "1/0"], got
    assert got["metadata"]["kernelspec"]["name"] == "python3" and "codebox:" not in texts(path)
    bin_ = jupyter()
    subprocess.run([os.path.join(bin_, "python"), "-W", "error", "-c", "import nbformat, sys; nbformat.validate("
                    "nbformat.read(sys.argv[1], 4))", path], check=True)
    again = os.path.join(work, "again.ipynb")
    subprocess.run([os.path.join(bin_, "jupyter"), "nbconvert", "--to", "notebook", "--execute", "--allow-errors",
                    "--output", again, path], check=True, stderr=subprocess.PIPE,
                   env={**os.environ, "HOME": work, "IPYTHONDIR": os.path.join(work, "ipython"),
                        "PATH": bin_ + ":" + os.environ["PATH"]})
    want = json.loads(texts(again))
    for g, w in zip(got["cells"], want["cells"]):
        assert outputs(g) == outputs(w), (g["source"], g["outputs"], w["outputs"])
    # Written over, with its mode; to standard output; not over what is not a file.
    os.chmod(path, 0o640)
    box("session", "export", "-o", path, "nb", check=True)
    assert os.stat(path).st_mode & 0o777 == 0o640 and json.loads(texts(path)) == got
    assert json.loads(box("session", "export", "nb", check=True).stdout) == got
    r = box("session", "export", "--format", "ipynb", "-o", work, "nb")
    assert r.returncode != 0 and "not a regular file" in r.stderr, r


def test_a_script_prints_the_same():
    box.image("python")
    make("script", "print('in Bash', end='')", "%%bash\necho bash")
    said = "".join(box("run", "--session", "script", "-c", code, check=True).stdout for code in CELLS)
    path = os.path.join(work, "script.py")
    with open(os.path.join(work, "program.py"), "w") as f:
        f.write("print('program', __name__)\n40 + 2\n")
    said += box("run", "--session", "script", os.path.join(work, "program.py"), check=True).stdout
    make("script", "print('partly'); nowhere")
    box("session", "export", "--format", "script", "-o", path, "script", check=True)
    r = box("run", path, check=True)
    assert r.stdout == "in Bashbash\n" + said, (r.stdout, said, texts(path))
    assert "# print('partly'); nowhere" in texts(path) and "sys.displayhook(x + 41)" in texts(path), texts(path)
    # A plain Python runs what has no magics.
    make("plain", "a = [1,\n     2]\na", "def f():\n    return 'f'\nf()")
    box("session", "export", "--format", "script", "-o", path, "plain", check=True)
    r = subprocess.run([sys.executable, path], capture_output=True, text=True)
    assert r.stdout == "[1, 2]\n'f'\n", (r, texts(path))


def test_scripts_of_other_languages():
    make("bash", "%%bash\nx=3", "%%bash\necho $((x + 1))")
    got = json.loads(box("session", "export", "bash", check=True).stdout)
    assert ["".join(c["source"]) for c in got["cells"]] == ["%%bash\nx=3", "%%bash\necho $((x + 1))"], got
    if "javascript" in box.images():
        make("js", "const a = 20; console.log(a)", "a * 2 + 2", image="javascript")
        path = os.path.join(work, "script.mjs")
        box("session", "export", "--format", "script", "-o", path, "js", check=True)
        assert box("run", "--image", "javascript", path, check=True).stdout == "20\n", texts(path)
        assert texts(path).startswith("// ") and "a * 2 + 2" in texts(path), texts(path)


def test_a_comment_of_a_failed_cell_ends_with_its_line():
    """Whatever ends a line for the language."""
    code = "raise SystemError  # a\rprint('ran')\u2028print('ran')\r\nprint('ran')\u2029print('ran')"
    make("ends", code)
    r = box("session", "export", "--format", "script", "ends")
    cell = r.stdout.split("%% [1]")[1].partition("\n")[2]
    lines = [line for line in cell.splitlines() if line]
    assert len(lines) == 5 and all(line.startswith("# ") for line in lines), (r.stdout, r.stderr)


def on_terminal(*args):
    main, other = os.openpty()
    p = box.popen(*args, stdin=subprocess.DEVNULL, stdout=other)
    os.close(other)
    seen = b""
    try:
        while part := os.read(main, 4096):
            seen += part
    except OSError:  # the other end is closed
        pass
    os.close(main)
    assert p.wait(60) == 0, seen
    return seen.decode()


def test_a_terminal_is_sent_no_controls():
    make("marks", "'\u202e \u009b2J'")
    for form in "script", "ipynb":
        seen = on_terminal("session", "export", "--format", form, "marks")
        assert "\\u202e \\x9b2J" in seen and "\u202e" not in seen and "\u009b" not in seen, seen
    r = box("run", "--json", "-c", "print('\u202e \u009b2J \x7f \u00e4')", check=True)
    assert "\\u202e \\u009b2J \\u007f \u00e4" in r.stdout and "\u202e" not in r.stdout, r.stdout
    assert "\u202e \u009b2J" in json.dumps(json.loads(r.stdout), ensure_ascii=False), r.stdout


def test_a_transcript():
    make("seen", "print('a\\x1b]0;title\\x07b', end='')\n6 * 7", "def f():\n    1/0\nf()", "import os; os._exit(3)")
    path = os.path.join(work, "seen.txt")
    box("session", "export", "-o", path, "seen", check=True)
    seen = texts(path)
    assert seen.startswith("In [1]: print('a\\x1b]0;title\\x07b', end='')\n   ...: 6 * 7\nab") and "\x1b" not in seen, seen
    assert "Out[1]: 42\n\nIn [2]: def f():\n" in seen and "ZeroDivisionError: division by zero\n" in seen, seen
    assert "[The interpreter" in seen.split("_exit(3)")[1], seen


def test_what_only_names_an_object_is_shown_in_another_form():
    """By run, logs and a transcript alike: HTML as text, which no terminal obeys; Markdown, LaTeX and JSON as they are."""
    forms = {"html": "'<h2>Some</h2><table><tr><th>a</th></tr><tr><td>1 &amp; \\x1b]0;t\\x07</td></tr></table>'",
             "markdown": "'# head\\n*it*'", "latex": "'$x^2$'", "json": "{'a': [1]}"}
    wanted = {"html": "## Some\n| a |\n|---|\n| 1 & ]0;t |\n", "markdown": "# head\n*it*\n", "latex": "$x^2$\n", "json": '{"a": [1]}\n'}
    for form, text in forms.items():
        r = box("run", "--session", "forms", "-c", f"class T:\n    def _repr_{form}_(self): return {text}\nT()", check=True)
        assert r.stdout == wanted[form], (form, r.stdout)
    # Where nothing is to be read, its name is left; and what has a plain text keeps that.
    r = box("run", "--session", "forms", "-c", "class T:\n    def _repr_html_(self): return '<style>b</style>'\nT()", check=True)
    assert r.stdout.startswith("<__main__.T"), r.stdout
    r = box("run", "--session", "forms", "-c", "class T:\n    def _repr_html_(self): return '<b>b</b>'\n    __repr__ = lambda s: 'p'\nT()",
            check=True)
    assert r.stdout == "p\n", r.stdout
    path = os.path.join(work, "forms.txt")
    box("session", "export", "--format", "transcript", "-o", path, "forms", check=True)
    for seen in texts(path), box("logs", "forms", check=True).stdout:
        assert "\x1b" not in seen and seen.count("<__main__.T at 0x") == 1, seen
        assert all(wanted[form] in seen for form in wanted), seen


def history(session, after=0):
    return box.ask("session.history", session_id=session, **({"execution_id": after} if after else {}))


def test_pages():
    make("pages", "def show(n): print('o' * 1000); display({'text/plain': 'x' * n}, raw=True)\ntotal = 0")
    for _ in range(20):
        make("pages", "total += 1; show(300000)")
    make("pages", "show(3 << 20); total")
    seen, after, pages = [], 0, 0
    while True:
        page = history("pages", after)
        assert sum(len(json.dumps(c)) for c in page["cells"]) < 2.2 * 2 ** 20 or len(page["cells"]) == 1, len(page["cells"])
        seen += page["cells"]
        pages += 1
        if not page["more"]:
            break
        after = page["cells"][-1]["execution_id"]
    assert pages >= 4 and [c["execution_id"] for c in seen] == list(range(1, 23)), (pages, len(seen))
    assert [o.get("stream") for o in seen[-1]["outputs"]] == ["stdout", None, None], seen[-1]["outputs"]
    assert page["forgotten"] == 0 and history("pages", 22)["cells"] == []
    got = json.loads(box("session", "export", "pages", check=True).stdout)
    assert len(got["cells"]) == 22 and got["cells"][-1]["outputs"][-1]["data"]["text/plain"] == ["20"], got["cells"][-1]
    # The export names the output that is not in memory any more.
    make("pages", "print('y' * 1000000)")
    last = history("pages", 22)["cells"][0]
    assert "bytes omitted" in last["outputs"][1]["text"] and last["outputs"][2]["text"].endswith("y\n"), last["outputs"][1]


def test_bounds():
    policy = os.path.join(work, "small.json")
    with open(policy, "w") as f:
        f.write('{"include": ["default"], "limits": {"history": "64K"}}')
    small = Box(CODEBOX_POLICY=policy)
    for i in range(40):
        small("run", "--session", "s", "-c", "i = %d  # %s\ni" % (i, "." * 8000), check=True)
    r = small("session", "export", "s")
    cells = json.loads(r.stdout)["cells"]
    # The last 16 are there in any case; of those before them what fits.
    assert 16 < len(cells) < 16 + 8 and "%d cells are not in this export" % (40 - len(cells)) in r.stderr, (len(cells), r.stderr)
    assert [c["outputs"][0]["data"]["text/plain"] for c in cells] == [["%d" % i] for i in range(40 - len(cells), 40)]
    small.stop()


def test_a_policy_that_keeps_nothing():
    policy = os.path.join(work, "off.json")
    with open(policy, "w") as f:
        f.write('{"include": ["default"], "limits": {"history": 0}}')
    off = Box(CODEBOX_POLICY=policy)
    off("run", "--session", "s", "-c", "1", check=True)
    r = off("session", "export", "s")
    assert r.returncode == 1 and "limits.history of the policy is 0" in r.stderr and not r.stdout, r
    off.stop()


def test_what_is_refused():
    for why, *args in (("there is no session", "nowhere"), ("\"pdf\" is not one of", "--format", "pdf", "nb"),
                       ("one session",), ("one session", "a", "b"), ("says no format", "-o", "x.bin", "a")):
        r = box("session", "export", *args)
        assert r.returncode in (1, 2) and why in r.stderr, (args, r)
    new = Box()
    r = new("session", "export", "work")
    assert r.returncode == 1 and "codeboxd is not running" in r.stderr and not os.path.exists(new.env["CODEBOX_RUNTIME_DIR"]), r


if __name__ == "__main__":
    run(globals())
