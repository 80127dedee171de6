#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codebox image build from packages, under policies: the step in the sandbox is a session like any other."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import run  # noqa: E402
from tiny import Builder, need  # noqa: E402


def test_who_may_use_an_image_may_finish_it():
    box = Builder({"images": ["tiny"]})
    r = box.build()
    assert r.returncode == 0 and "not compiled" not in r.stderr, r
    assert box.compiled() == ["large", "small"] and box.works() is True, (box.compiled(), box.works())
    for other in ("other-unfinished", "tiny-unfinished-unfinished"):
        r = box("run", "--image", other, "-c", "1")
        assert r.returncode != 0 and "does not allow" in r.stderr, r
    box.stop()


def test_a_policy_that_gives_too_little():
    box = Builder({"limits": {"disk": "1M"}})
    r = box.build()
    assert r.returncode == 0, r
    assert "not compiled" in r.stderr and "the policy site allows less disk than" in r.stderr, r.stderr
    assert box.compiled() == [] and box.works() is True, (box.compiled(), box.works())
    box.stop()


def test_a_policy_that_does_not_allow_the_image():
    box = Builder({"images": ["other"]})
    r = box.build()
    assert r.returncode == 0 and "not compiled" in r.stderr and "does not allow" in r.stderr, r
    assert box.compiled() == [] and box.images() == ["tiny"], (box.compiled(), box.images())
    box.stop()


def test_a_script_that_fails_is_no_matter_of_policy():
    warm = [{"module": "nonesuch", "variable": "X", "into": "usr/share/codebox/cache"}]
    for policy in ({}, {"limits": {"timeout": {"default": "1m", "max": "20m"}}}):
        box = Builder(policy)
        r = box.build(warm=warm)
        assert r.returncode == 1 and "--no-compile" in r.stderr and "nonesuch" in r.stderr, r
        assert box.images() == []
        box.stop()


if __name__ == "__main__":
    need()
    run(globals())
