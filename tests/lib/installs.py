# SPDX-License-Identifier: Apache-2.0
"""Packages are installed for a session, as the command does it."""
import json
import os

from cbxtest import Box, wait_until
from pypi import Index, own_data


def box_with(data, network="none", **packages):
    """A daemon with these rules for packages, and a store of its own."""
    box = Box(CODEBOX_POOL="0", CODEBOX_DATA_DIR=data)
    policy = os.path.join(box.dir, "policy.json")
    with open(policy, "w") as f:
        json.dump({"include": ["default"], "network": network, "packages": packages}, f)
    box.env["CODEBOX_POLICY"] = policy
    return box


def install(box, session, names, how="pip"):
    """The answer, or the words of the error."""
    r = box(how, "install", "--session", session, "--json", *names)
    answer = json.loads(r.stdout)
    assert (r.returncode == 0) == ("error" not in answer), r
    return answer if r.returncode == 0 else answer["error"]["message"]


def names(packages):
    return [f"{p['name']} {p['version']}" for p in packages]


class Site:
    """An index, and a daemon whose sessions install from it, with a store of its own."""

    def __init__(self):
        self.data = own_data(("python", "python-minimal"))
        self.index = Index()
        self.box = self.box_with()
        self.image = self.box.image("python")

    def box_with(self, where=None, **packages):
        return box_with(self.data, index=getattr(where or self.index, "url", where), **packages)

    def cell(self, code, session="s", b=None):
        r = (b or self.box)("run", "--image", self.image, "--session", session, "-c", code)
        return r.stdout, r.stderr

    def install(self, *wanted, session="s", b=None):
        """The answer, or the words of the error."""
        self.cell("pass", session, b)
        return install(b or self.box, session, wanted)

    def ready(self, session="s", b=None):
        """Give the session a package that what comes next must not harm."""
        self.index.pages.pop("base-package", None)
        self.index.add("base-package", "1.0")
        answer = self.install("base-package", session=session, b=b)
        assert isinstance(answer, dict), answer
        self.unharmed(session, b)

    def unharmed(self, session="s", b=None):
        """The session lives, and what it had before is there."""
        r = self.cell("import base_package; base_package.__version__", session, b)
        assert r == ("'1.0'\n", ""), r

    def end(self):
        """Sessions leave none of what was theirs."""
        own = os.path.join(self.box.env["CODEBOX_DATA_DIR"], "packages", "d")
        assert len(os.listdir(own)) == 1, os.listdir(own)
        self.box("stop", check=True)
        assert wait_until(lambda: os.listdir(own) == []), os.listdir(own)
