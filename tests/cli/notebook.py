#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codebox run NAME.ipynb: outputs as Jupyter's own nbconvert gives them, what else is in a notebook, errors, files."""
import copy
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from cbxtest import Box, Skip, run  # noqa: E402

box = Box()
box.env["CODEBOX_ZYGOTES"] = "0"
work = tempfile.mkdtemp(dir=box.dir)

CELLS = [
    "x = 1\nprint('out')\nprint('äö')",
    "import sys\nprint('err', file=sys.stderr)",
    "x + 41",
    "",
    "x = 5;",
    "from IPython.display import HTML, display, Markdown\ndisplay(HTML('<b>b</b>'))\nprint('between')\ndisplay({'a': 1})\nx",
    "h = display('one', display_id=True)\nh.update('two')",
    "async def f():\n    return 'awaited'\nawait f()",
    "print('no newline', end='')",
    "for i in range(3): print(i)",
    "!echo shell",
    "'a\\nb'",
    "from IPython.display import clear_output\nprint('gone'); display('gone')\nclear_output()\nprint('there')",
    "for i in range(5):\n    clear_output(wait=True)\n    print(i); display(i)",
    "print('stays')\nclear_output(wait=True)",
    "print('gone')\nclear_output()",
    "other = display('one', display_id='other')",
    "other.update('two'); print('elsewhere')",
]


def notebook(*sources, **more):
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}, "other": {"b": 1, "a": 2}}
    cells = [{"cell_type": "markdown", "metadata": {"k": [1.5, None, True]}, "source": ["# Title\n", "text \x07 é"]}]
    for source in sources:
        cells.append({"cell_type": "code", "execution_count": 99, "metadata": {"tags": ["t"]}, "source": source,
                      "outputs": [{"output_type": "stream", "name": "stdout", "text": ["old\n"]}]})
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 4, **more}


def write(nb, name="nb.ipynb"):
    path = os.path.join(work, name)
    with open(path, "w") as f:
        json.dump(nb, f)
    return path


def read(path):
    with open(path) as f:
        return json.load(f)


def joined(outputs):
    """Texts may be strings or lists of lines."""
    outputs = copy.deepcopy(outputs)
    for o in outputs:
        for holder, keys in ((o, ("text",)), (o.get("data", {}), tuple(o.get("data", ())))):
            for k in keys:
                if isinstance(holder.get(k), list):
                    holder[k] = "".join(holder[k]).replace("\r\n", "\n")  # it runs !command in a terminal
        if "traceback" in o:
            o["traceback"] = bool(o["traceback"])
    return merged(outputs)


def merged(outputs):
    """Jupyter may cut a stream anywhere."""
    found = []
    for o in outputs:
        if found and o["output_type"] == found[-1]["output_type"] == "stream" and o["name"] == found[-1]["name"]:
            found[-1]["text"] += o["text"]
        else:
            found.append(o)
    return found


def reference(path):
    """The same by nbconvert with ipykernel, which is also who reads what we wrote."""
    r = subprocess.run([os.path.join(HERE, "..", "clients", "setup.sh"), "notebook"], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True)
    if r.returncode == 77:
        raise Skip(r.stderr.strip().splitlines()[-1])
    bin_ = os.path.join(r.stdout.strip(), "bin")
    out = os.path.join(work, "reference.ipynb")
    subprocess.run([os.path.join(bin_, "jupyter"), "nbconvert", "--to", "notebook", "--execute", "--allow-errors",
                    "--output", out, path], check=True, stderr=subprocess.PIPE,
                   env={**os.environ, "HOME": work, "IPYTHONDIR": os.path.join(work, "ipython"),
                        "PATH": bin_ + ":" + os.environ["PATH"]})
    return read(out), bin_


def test_outputs_are_those_of_jupyter():
    box.image("python")
    path, out = write(notebook(*CELLS, "1/0", "print('after')")), os.path.join(work, "out.ipynb")
    r = box("run", "--allow-errors", "-o", out, path)
    assert r.returncode == 0 and r.stdout == "" and "cell 20 failed" in r.stderr, r
    want, bin_ = reference(path)
    got = read(out)
    for g, w in zip(got["cells"][1:], want["cells"][1:]):
        assert joined(g["outputs"]) == joined(w["outputs"]), (g["source"], g["outputs"], w["outputs"])
        assert (g["execution_count"] is None) == (w["execution_count"] is None), (g, w)
    subprocess.run([os.path.join(bin_, "python"), "-c", "import nbformat, sys; nbformat.validate(nbformat.read("
                    "sys.argv[1], 4))", out], check=True)


def test_all_else_stays_as_it_is():
    nb = notebook("print(1)")
    path = write(nb)
    os.chmod(path, 0o640)
    r = box("run", "--in-place", path)
    assert (r.returncode, r.stdout, r.stderr) == (0, "", ""), r
    got = read(path)
    assert got["cells"][1].pop("outputs") == [{"output_type": "stream", "name": "stdout", "text": ["1\n"]}], got
    got["cells"][1].pop("execution_count"), nb["cells"][1].pop("execution_count"), nb["cells"][1].pop("outputs")
    assert got == nb and list(got["metadata"]["other"]) == ["b", "a"], got
    assert os.stat(path).st_mode & 0o777 == 0o640 and os.listdir(work).count("nb.ipynb") == 1
    assert not [f for f in os.listdir(work) if f.endswith(".new")]


def test_without_a_file_to_write_outputs_are_shown():
    path = write(notebook("print('a')", "40 + 2"))
    before = read(path)
    r = box("run", path)
    assert r.returncode == 0 and "a\n" in r.stdout and "42" in r.stdout and read(path) == before, r


def test_figures():
    box.image("python")
    path = write(notebook("import matplotlib.pyplot as plt\nplt.plot([1, 2]);"))
    box("run", "--in-place", path, check=True)
    output, = read(path)["cells"][1]["outputs"]
    assert output["output_type"] == "display_data" and output["data"]["image/png"].startswith("iVBOR"), output


def test_a_cell_that_fails_ends_the_run_and_is_written():
    path, out = write(notebook("print('a')", "x = 1\nraise ValueError('no')", "print('never')")), os.path.join(work, "o.ipynb")
    r = box("run", "-o", out, path)
    assert r.returncode == 1 and "cell 3 failed" in r.stderr and "ValueError: no" in r.stderr, r
    cells = read(out)["cells"]
    error, = cells[2]["outputs"]
    assert (error["ename"], error["evalue"]) == ("ValueError", "no") and "ValueError: no" in error["traceback"][-1], error
    assert cells[3]["outputs"][0]["text"] == ["old\n"]
    # The time limit is one of each cell; state survives it.
    path = write(notebook("y = 7\nwhile True: pass", "y"))
    r = box("run", "--timeout", "1", "--allow-errors", "--in-place", path)
    cells = read(path)["cells"]
    assert r.returncode == 0 and cells[1]["outputs"][-1]["output_type"] == "error", (r, cells)
    assert cells[2]["outputs"][0]["data"]["text/plain"] == ["7"], cells
    path = write(notebook("import os; os._exit(3)", "1"))
    r = box("run", "--in-place", path)
    assert r.returncode != 0 and read(path)["cells"][1]["outputs"][-1]["ename"] == "killed", r


def test_the_language_of_the_cells():
    """That of -l, else that of the notebook; but a cell can name one itself."""
    def outputs(nb, *args):
        path = write(nb)
        r = box("run", *args, "--in-place", path)
        assert r.returncode == 0, r
        return ["".join(o["text"]) for c in read(path)["cells"][1:] for o in c["outputs"]]

    shell, mixed = "echo ${BASH_VERSION:+it is bash}", ["x=4", "echo $x", "%%bash\necho again $x"]
    said = {"kernelspec": {"name": "bash", "display_name": "Bash", "language": "bash"}}
    assert outputs(notebook(shell), "-l", "bash") == ["it is bash\n"]
    assert outputs(notebook(*mixed, metadata=said)) == ["4\n", "again 4\n"]
    assert outputs(notebook(shell, metadata={"language_info": {"name": "bash"}})) == ["it is bash\n"]
    assert outputs(notebook("print(6 * 7)", metadata=said), "-l", "python") == ["42\n"]
    assert outputs(notebook("print(6 * 7)", metadata={})) == ["42\n"]
    assert outputs(notebook("%%bash\n" + shell, "print(7)")) == ["it is bash\n", "7\n"]
    r = box("run", write(notebook("1", metadata={"language_info": {"name": "R"}})))
    assert r.returncode == 3 and 'cannot run "R"' in r.stderr, r


def test_a_session_can_be_named_and_stays():
    path = write(notebook("z = 3"))
    assert box("run", "--session", "nb", path).returncode == 0
    assert box("run", "--session", "nb", "-c", "z").stdout == "3\n"
    box("session", "rm", "nb", check=True)


def test_what_is_not_a_notebook():
    def refused(why, *args):
        r = box("run", *args)
        assert r.returncode == 2 and why in r.stderr, (args, r)

    refused("No such file", "nowhere.ipynb")
    for text, _ in (("{", ""), ("[]", ""), ('{"nbformat": 3, "cells": []}', "nbformat 4"),
                      ('{"nbformat": 4, "cells": [3]}', "cell 1"),
                      ('{"nbformat": 4, "cells": [{"cell_type": "code", "source": [1]}]}', "cell 1")):
        path = os.path.join(work, "bad.ipynb")
        with open(path, "w") as f:
            f.write(text)
        refused("bad.ipynb", path)
    with open(os.path.join(work, "bad.ipynb"), "w") as f:
        f.truncate((64 << 20) + 1)
    refused("larger than the limit of 64 MiB", os.path.join(work, "bad.ipynb"))
    path = write(notebook("1"))
    refused("--in-place", "--in-place", "x.py")
    refused("--output", "-o", "x.ipynb", "-c", "1")
    refused("give one of them", "-o", "x.ipynb", "--in-place", path)
    refused("--json", "--json", path)
    refused("takes none", path, "argument")
    r = box("run", "-o", os.path.join(work, "no", "dir.ipynb"), path)
    assert r.returncode == 3 and "No such file" in r.stderr, r


if __name__ == "__main__":
    run(globals())
