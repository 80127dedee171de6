#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codebox policy, from outside: no daemon is involved."""
import hashlib
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, run  # noqa: E402

SHIPPED = ("default", "strict", "net", "dev")
box = Box()
dir = tempfile.TemporaryDirectory()
box.env["CODEBOX_CONFIG_DIR"] = dir.name  # without a policy of the user's own
box.env.pop("CODEBOX_POLICY", None)


def write(name, text):
    path = os.path.join(dir.name, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)
    return path


def test_shipped_policies_are_valid():
    share = os.path.join(box.env["CODEBOX_SHARE_DIR"], "policies")
    files = [os.path.join(share, f) for f in sorted(os.listdir(share))
             if f.endswith(".json") and f != "policy.schema.json"]
    files += [os.path.join(share, "examples", f) for f in os.listdir(os.path.join(share, "examples"))]
    assert len(files) > len(SHIPPED), files
    r = box("policy", "check", *SHIPPED, *files)
    assert (r.returncode, r.stdout, r.stderr) == (0, "", ""), r.stderr


def test_the_default_says_what_is_built_in():
    shown = box.json("policy", "show", "--json", "default")
    assert shown == box.json("policy", "show", "--json", write("empty.json", "{}")), shown


def test_strict_allows_no_more_than_default_and_default_than_dev():
    def values(name):
        got = box.json("policy", "show", "--json", name)["limits"]
        return {k: v["max"] if isinstance(v, dict) else v for k, v in got.items()}
    strict, default, dev = map(values, ("strict", "default", "dev"))
    for k in ("cpus", "io", "io_operations"):
        assert strict.pop(k) and not default.pop(k) and not dev.pop(k), k  # 0: no limit
    assert all(strict[k] < default[k] <= dev[k] for k in default), (strict, default, dev)


def test_faults_are_told_with_their_place():
    path = write("bad.json", '{\n\t// a comment\n\t"limits": {"memory": "12Q"}\n}\n')
    r = box("policy", "check", path)
    assert r.returncode == 1 and r.stdout == "", r
    assert r.stderr.startswith(f"{path}:3:13: memory: "), r.stderr
    r = box("policy", "check", "default", path, "nothere", os.path.join(dir.name, "no.json"))
    assert r.returncode == 1 and len(r.stderr.splitlines()) == 3, r.stderr
    assert '"nothere"' in r.stderr and "no.json" in r.stderr
    assert box("policy", "check").returncode == 2
    assert "a path" in box("policy", "check", "..").stderr


def test_what_everybody_may_write_is_no_policy():
    path = write("open.json", "{}")
    os.chmod(path, 0o646)
    r = box("policy", "check", path)
    assert r.returncode == 1 and "chmod o-w" in r.stderr, r.stderr
    os.mkfifo(os.path.join(dir.name, "fifo.json"))
    r = box("policy", "check", os.path.join(dir.name, "fifo.json"), timeout=20)
    assert r.returncode == 1 and "regular" in r.stderr, r.stderr
    path = write("long.json", "//" + "x" * 70000)
    assert "is too long" in box("policy", "check", path).stderr


def test_what_is_not_shipped_is_said_with_what_is():
    for arguments in (["nothing"], [write("inc.json", '{"include": ["nothing"]}')]):
        r = box("policy", "check", *arguments)
        assert r.returncode == 1 and '"nothing" is shipped; there are default, strict' in r.stderr, r.stderr


def test_a_default_above_its_maximum_is_told_with_both():
    r = box("policy", "check", write("above.json", '{"limits": {"memory": {"default": "8G", "max": "4G"}}}'))
    assert r.returncode == 1 and "8 GiB" in r.stderr and "max: 4 GiB" in r.stderr, r.stderr


def test_includes_are_found_beside_the_file():
    write("base/own.json", '{"limits": {"memory": "1G"}}')
    path = write("base/top.json", '{"include": ["strict", "own.json"], "limits": {"disk": "64M"}}')
    got = box.json("policy", "show", "--json", path, cwd="/")["limits"]
    assert got["memory"] == 1 << 30 and got["disk"] == 64 << 20 and got["processes"] == 64, got
    r = box("policy", "check", write("top2.json", '{"include": ["own.json"]}'))
    assert r.returncode == 1 and "top2.json:1:14: " in r.stderr, r.stderr
    # One level, no further.
    write("base/cycle.json", '{"include": ["cycle.json"]}')
    r = box("policy", "check", os.path.join(dir.name, "base/cycle.json"))
    assert r.returncode == 1 and "may not include" in r.stderr, r.stderr


def test_the_digest_is_that_of_the_canonical_line():
    explained = box.json("policy", "explain", "--json", "--policy", "strict")
    line = box("policy", "show", "--json", "strict").stdout
    assert explained["digest"] == hashlib.sha256(line.encode()).hexdigest()
    again = box("policy", "show", "--json", write("again.json", line)).stdout
    assert again == line


def explain(*args):
    return {v["key"]: v for v in box.json("policy", "explain", "--json", *args)["values"]}


def test_explain_says_where_each_value_comes_from():
    path = write("p.json", '{\n"include": ["base.json"],\n"limits": {\n"memory": {"default": "1G", "max": "2G"}}}')
    base = write("base.json", '{\n"limits": {"ttl":\n"2h"}}')
    got = explain("--policy", path, "memory=8G", "timeout=5", "idle_timeout=1m")
    assert got["limits.memory"]["value"] == "2 GiB", got
    assert got["limits.memory"]["from"] == f"request, lowered from 8 GiB by {path}:4", got
    assert got["limits.timeout"] == {"key": "limits.timeout", "value": "5 s", "max": "3600 s", "from": "request"}, got
    assert got["limits.ttl"]["from"] == f"{base}:2" and got["limits.ttl"]["value"] == "7200 s", got
    assert got["limits.disk"]["from"] == "built-in", got
    text = box("policy", "explain", "--policy", path, "memory=8G", check=True).stdout
    assert "lowered from 8 GiB" in text and "limits.disk" in text, text
    # A named policy narrows; it cannot widen.
    got = explain("--policy", "strict", "policy=dev", "processes=4096")
    assert got["limits.processes"]["value"] == "64" and got["limits.memory"]["value"] == "512 MiB", got
    for wrong in ("memory", "memory=x", "sessions=3", "colour=red"):
        assert box("policy", "explain", wrong).returncode == 2, wrong
    path = write("images.json", '{"images": ["python"]}')
    assert box("policy", "explain", "--policy", path, "image=python").returncode == 0
    assert box("policy", "explain", "--policy", path, "image=other").returncode == 1


def test_which_policy_is_used_when_none_is_named():
    assert box("policy", "show", check=True).stdout == box("policy", "show", "default", check=True).stdout
    write("policy.json", '{"limits": {"sessions": 3}}')
    assert box.json("policy", "show", "--json")["limits"]["sessions"] == 3
    box.env["CODEBOX_POLICY"] = "strict"
    try:
        assert box.json("policy", "show", "--json")["limits"]["sessions"] == 64
    finally:
        del box.env["CODEBOX_POLICY"]
    # The daemon's directory is "/": it gets the whole path of a file.
    here = Box(CODEBOX_POLICY="./own.json")
    write("own.json", '{"images": ["another"]}')
    r = here("run", "--image", "host", "-c", "1", cwd=dir.name)
    assert r.returncode == 3 and 'the policy own does not allow "host"' in r.stderr, r
    here.stop()
    write("policy.json", '{"limits": {"sessions": 0}}')
    r = box("policy", "show")
    assert r.returncode == 1 and "policy.json:1:13: sessions" in r.stderr, r.stderr
    os.remove(os.path.join(dir.name, "policy.json"))


def test_diff():
    assert box("policy", "diff", "default", "default").returncode == 0
    r = box("policy", "diff", "default", write("d.json", '{"limits": {"sessions": 7}, "images": ["x"]}'))
    assert r.returncode == 1, r
    assert [l.split() for l in r.stdout.splitlines()] == [["limits.sessions", "256", "7"], ["images", "-", '["x"]']], r
    assert box("policy", "diff", "default", "/nonexistent.json").returncode == 2
    lines = [l.split(None, 1) for l in box("policy", "diff", "default", "strict").stdout.splitlines()]
    sizes = {name: [v.strip() for v in rest.split("  ") if v.strip()] for name, rest in lines}
    was, now = sizes["limits.memory"]
    assert was.startswith("2 GiB, at most ") and now == "512 MiB", sizes
    assert sizes["limits.timeout"][1] == "30 s, at most 120 s" and sizes["limits.cpus"][0] == "no limit", sizes


def test_the_manual_names_every_key():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../man/codebox-policy.5")
    with open(path) as f:
        items = " ".join(l[4:] for l in f if l.startswith(".It Cm")).replace(",", " ").split()
    schema = box.json("policy", "schema", "--json")["properties"]
    keys = set(schema) | {k for group in schema.values() for k in group.get("properties", {})}
    assert keys <= set(items), keys - set(items)


def test_the_schema_file_is_what_the_program_says():
    with open(os.path.join(box.env["CODEBOX_SHARE_DIR"], "policies", "policy.schema.json")) as f:
        shipped = json.load(f)
    assert shipped == box.json("policy", "schema", "--json"), "run: codebox policy schema >policies/policy.schema.json"


if __name__ == "__main__":
    run(globals())
