#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packages of conda are installed for a session, from a channel that only codebox reaches: all that they need is judged by
the policy, they fit the session's own Python, and what an archive holds harms nothing."""
import json
import os
import sys
import tarfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import conda  # noqa: E402
import installs  # noqa: E402
from cbxtest import run  # noqa: E402
from conda import PLACEHOLDER, Channel  # noqa: E402
from control import Control, ControlError  # noqa: E402
from installs import names  # noqa: E402
from pypi import own_data  # noqa: E402

IMAGE = "python-minimal"
data = own_data(("conda", IMAGE))
channel = Channel()


def box_with(*where, **packages):
    return installs.box_with(data, **{"channels": [c.url for c in where or (channel,)], **packages})


box = box_with()


def cell(code, session="s", b=box, *more):
    r = b("run", "--image", IMAGE, "--session", session, *more, "-c", code)
    return r.stdout, r.stderr


def install(*names, session="s", b=box, how="conda"):
    """The answer, or the words of the error."""
    cell("0", session, b)
    return installs.install(b, session, names, how)


VERSION = cell("import sys; print('%d.%d' % sys.version_info[:2])")[0].strip()
ABI = "cp" + VERSION.replace(".", "")


def fill():
    channel.add("plain", "1.0", python=True)
    channel.add("plain", "1.2", python=True)
    channel.add("plain", "2.0", python=True)
    channel.add("_base", "1.0", files={"share/base.txt": "base\n"})
    channel.add("inner", "1.0", ["plain <2", "_base"], python=True, form="tar.bz2")
    channel.add("python_abi", VERSION, build="1_" + ABI, files={}, constrains=["python %s.*" % VERSION])
    for version in "3.8", VERSION, "3.99":
        channel.add("python", version + ".99", build="h_cpython", subdir="linux-64", files={"bin/python": "evil"})
        channel.add("native", "1.5", ["python_abi %s.*" % version, "__glibc >=2.17,<3.0.a0"], build="py" + version.replace(".", ""),
                    subdir="linux-64", python_version=version)
    channel.add("outer", "1.0", ["python >=3.8", "inner", "native"], python=True, programs=["outer-cli = outer:main"], files={
        "site-packages/outer.py": "import inner, plain, native\ndef main():\n    print('program', plain.version)\n",
        "site-packages/outer-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: outer\nVersion: 1.0\n",
        "python-scripts/outer-script": (0o755, "#!%s/bin/python\nimport outer; print('script', outer.plain.version)\n" % PLACEHOLDER)},
        prefixed={"python-scripts/outer-script": "text"})


def test_they_are_installed_with_what_they_need_and_usable_at_once():
    fill()
    out, err = cell("kept = 7\nimport outer")
    assert "No module named 'outer'" in out + err, (out, err)
    answer = install("outer")
    assert isinstance(answer, dict), answer
    assert sorted(names(answer["installed"])) == ["_base 1.0", "inner 1.0", "native 1.5", "outer 1.0", "plain 1.2",
                                                  "python_abi " + VERSION], answer
    out, err = cell("import outer; print(kept, outer.plain.version, outer.native.version)")
    assert (out, err) == ("7 1.2 1.5\n", ""), (out, err)
    # Programs: of entry points, and those that name the prefix, by the session's own Python.
    out, err = cell("!outer-cli; outer-script; python3 -c 'import inner; print(inner.version)'")
    assert out == "program 1.2\nscript 1.2\n1.0\n", (out, err)
    box("session", "restart", "s", check=True)
    assert cell("import outer; print(outer.plain.version)")[0] == "1.2\n"
    assert "No module named" in "".join(cell("import outer", "other"))
    assert names(install("outer")["already"]) == ["outer 1.0"]


if __name__ == "__main__":
    run(globals())
