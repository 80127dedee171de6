#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What pip installs in a session can be used in the next cell, and in the rest of the same one: modules, .pth files, programs.
The packages are files that the cells make; nothing is fetched."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, run, wait_until  # noqa: E402

WHEEL = """
import os, zipfile

def wheel(name, **files):
    path = f"/workspace/{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info/"
    with zipfile.ZipFile(path, "w") as z:
        z.writestr(name + ".py", f"def main(): print('{name} here')\\n")
        for file, text in files.items():
            z.writestr(name + "." + file, text)
        z.writestr(info + "METADATA", f"Metadata-Version: 2.1\\nName: {name}\\nVersion: 1.0\\n")
        z.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        z.writestr(info + "entry_points.txt", f"[console_scripts]\\nrun-{name} = {name}:main\\n")
        z.writestr(info + "RECORD", "")
    return path
"""
PIP = "pip install -q --no-index --disable-pip-version-check "

cold = Box(CODEBOX_POOL="0")
warm = Box(CODEBOX_POOL="0", CODEBOX_ZYGOTES="1")


def cell(box, code, session="s"):
    r = box("run", "--image", box.image("python"), "--session", session, "-c", code)
    return r.stdout, r.stderr


def use(box):
    cell(box, WHEEL)
    # Asked for before it is there: that must not be remembered.
    assert "No module named 'one'" in cell(box, "import one")[1]
    for line, name in ((f"%{PIP}{{wheel('one')}}", "one"), (f"!{PIP}{{wheel('two')}}", "two")):
        out, err = cell(box, f"{line}\nimport {name}\n{name}.main()")
        assert out.endswith(f"{name} here\n") and "not on PATH" not in err, (out, err)
        assert cell(box, f"!run-{name}") == (f"{name} here\n", "")
    cell(box, f"import subprocess, sys\nsubprocess.run([sys.executable, '-m', *{PIP.split()}, wheel('three')], check=True)")
    assert cell(box, "import three; three.main()") == ("three here\n", "")


def test_what_pip_installs_can_be_imported_and_run_at_once():
    use(cold)


def test_in_the_fork_of_a_warm_interpreter_too():
    warm("run", "--image", warm.image("python"), "-c", "1", check=True)
    log = os.path.join(warm.env["CODEBOX_STATE_DIR"], "codeboxd.log")
    assert wait_until(lambda: "ready after" in open(log).read()), open(log).read()
    use(warm)


def test_pth_files_count():
    out, err = cell(cold, "os.makedirs('/workspace/more'); open('/workspace/more/extra.py', 'w').write('x = 5')\n"
                          f"!{PIP}{{wheel('four', pth='/workspace/more')}}\nimport extra; extra.x")
    assert out == "5\n", (out, err)


def test_an_interpreter_told_to_go_without_goes_without():
    r = cold("run", "--image", cold.image("python"), "--env", "PYTHONNOUSERSITE=1", "-c",
             "import os, sys; print([p for p in sys.path if '/home/' in p], os.path.exists(os.path.expanduser('~/.local')))")
    assert r.stdout == "[] False\n", r
    out, err = cell(cold, "import subprocess, sys\n"
                          "print(subprocess.run([sys.executable, '-sc', 'import one'], capture_output=True).returncode)")
    assert out == "1\n", (out, err)


if __name__ == "__main__":
    run(globals())
