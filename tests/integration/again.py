#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same packages for the same image, asked for again: which these are is not found out anew within a few minutes, and that
changes nothing of what is installed, judged or refused."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import installs  # noqa: E402
from cbxtest import Box, run  # noqa: E402
from pypi import Index, own_data  # noqa: E402

index = Index()
data = own_data()
box = Box(CODEBOX_POOL="0", CODEBOX_DATA_DIR=data)
policy = os.path.join(box.dir, "policy.json")
image = box.image("python")


def rules(**packages):
    with open(policy, "w") as f:
        json.dump({"include": ["default"], "packages": {"index": index.url, **packages}}, f)


rules()
box.env["CODEBOX_POLICY"] = policy


def install(session, *names):
    box("run", "--image", image, "--session", session, "-c", "pass", check=True)
    answer = installs.install(box, session, names)
    return answer if isinstance(answer, str) else installs.names(answer["installed"])


def resolved():
    """How many resolvers there were."""
    with open(os.path.join(box.env["CODEBOX_STATE_DIR"], "codeboxd.log")) as f:
        return f.read().count("packages were resolved")


def test_the_same_question_has_the_same_answer():
    index.add("first", "1.0", ["second"])
    index.add("second", "1.0")
    assert install("a", "first") == ["first 1.0", "second 1.0"]
    n = resolved()
    assert n > 0
    for session in "bc":
        assert install(session, "first") == ["first 1.0", "second 1.0"]
        r = box("run", "--session", session, "-c", "import first, second; print(first.__version__)")
        assert r.stdout == "1.0\n", r
    assert resolved() == n, (resolved(), n)
    # Another question is asked, and so is one for the newest, and one of a session that has packages.
    for i, (session, names) in enumerate((("d", ["first", "second"]), ("e", ["-U", "first"]), ("b", ["second<2"]))):
        assert isinstance(install(session, *names), list)
        assert resolved() == n + i + 1, (names, resolved(), n)


def test_it_is_judged_anew():
    index.add("third", "1.0", ["fourth"])
    index.add("fourth", "1.0", files={"large.bin": os.urandom(2 << 20)})
    assert install("f", "third") == ["fourth 1.0", "third 1.0"]
    n = resolved()
    # Sizes are not in the question, so the answer of before is there; what is blocked is.
    rules(install_size="1M")
    box("policy", "reload", check=True)
    assert "more than the 1 MiB that the policy allows (install_size)" in install("g", "third")
    assert resolved() == n, (resolved(), n)
    rules(block=["fourth"])
    box("policy", "reload", check=True)
    assert "fourth 1.0 is blocked by the policy" in install("h", "third")
    rules()
    box("policy", "reload", check=True)


if __name__ == "__main__":
    run(globals())
