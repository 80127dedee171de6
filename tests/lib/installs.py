# SPDX-License-Identifier: Apache-2.0
"""Packages are installed for a session, as the command does it."""
import json
import os

from cbxtest import Box


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
