#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server's policy: what it gives, what it lowers, and that nothing runs without a valid one."""
import hashlib
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, Skip, run, wait_until  # noqa: E402

POLICY = """// for this test
{
	"limits": {
		"memory": {"default": "512M", "max": "1G"},
		"processes": 32,
		"timeout": {"default": "20s", "max": "30s"},
		"sessions": 2
	},
	"environment": {"TZ": "UTC", "FIXED": "by the policy"}
}
"""


def with_policy(text, name="site.json", **env):
    box = Box(**env)
    path = os.path.join(box.dir, name)
    with open(path, "w") as f:
        f.write(text)
    box.env["CODEBOX_POLICY"] = path
    return box


box = with_policy(POLICY)


def make(session, *options, box=box, code="pass"):
    return box("run", "--session", session, "--image", box.image("host", "python-minimal", "python"), *options, "-c",
               code)


def info(session, box=box):
    return box.json("session", "info", "--json", session)


def close(*sessions):
    box("session", "rm", *sessions, check=True)


def test_defaults_are_the_policys():
    r = make("a")
    assert r.returncode == 0, r.stderr
    got = info("a")
    assert got["limits"]["memory_bytes"] == 512 << 20 and got["limits"]["processes"] == 32, got
    assert got["limits"]["timeout_s"] == 20 and got["limits"]["disk_bytes"] == 1 << 30, got
    line = box("policy", "show", "--json").stdout
    assert got["policy"] == {"name": "site", "digest": hashlib.sha256(line.encode()).hexdigest(), "lowered": []}, got
    close("a")


def test_a_request_gets_the_lower_of_both():
    assert make("a", "--memory", "8G", "--disk", "64M", "--set", "processes=16").returncode == 0
    got = info("a")
    assert got["limits"]["memory_bytes"] == 1 << 30, got
    assert got["limits"]["disk_bytes"] == 64 << 20 and got["limits"]["processes"] == 16, got
    assert got["policy"]["lowered"] == ["memory"], got
    # It is not only said: the limit is in force.
    r = make("a", code="import resource; print(resource.getrlimit(resource.RLIMIT_NPROC)[0] <= 16)")
    assert r.stdout == "True\n", r
    # The same request again means the same session, lowered as it was; another one does not.
    assert make("a", "--memory", "8G").returncode == 0
    r = make("a", "--disk", "65M")
    assert r.returncode != 0 and "disk" in r.stderr, r
    close("a")


def test_a_cells_time_is_lowered_too():
    got = box.json("run", "--json", "--session", "a", "--timeout", "10m", "-c", "1+1")
    assert got["status"] == "ok" and "lowered the time limit to 30 s" in got["message"], got
    got = box.json("run", "--json", "--session", "a", "--timeout", "10", "-c", "1+1")
    assert "message" not in got, got
    assert info("a")["policy"]["lowered"] == []
    close("a")


def test_a_named_policy_narrows_and_never_widens():
    for name, memory, processes, timeout in (("strict", 512 << 20, 32, 30), ("dev", 1 << 30, 32, 30)):
        r = make("a", "--policy", name)
        assert r.returncode == 0, r.stderr
        got = info("a")
        assert got["policy"]["name"] == f"site+{name}" and len(got["policy"]["digest"]) == 64, got
        limits = got["limits"]
        assert (limits["memory_bytes"], limits["processes"], limits["timeout_s"]) == (memory, processes, timeout), got
        close("a")
    for wrong in ("nothere", "policy.schema", "site.json", ".."):
        r = make("a", "--policy", wrong)
        assert r.returncode != 0 and "policy" in r.stderr, (wrong, r)


def test_sessions_are_counted():
    assert make("a").returncode == 0 and make("b").returncode == 0
    r = make("c")
    assert r.returncode != 0 and "no more than 2" in r.stderr, r
    close("a", "b")


def environ(*names):
    return f"import os; print([os.environ.get(n) for n in {names!r}])"


def test_environment():
    r = make("a", "--env", "MINE=it's \u00e4 = 1\n2", "--env", "EMPTY=", "--env", "FIXED=mine", "--env", "HOME=/tmp",
             code=environ("MINE", "EMPTY", "FIXED", "TZ", "HOME", "CODEBOX_SESSION"))
    assert r.returncode == 0, r.stderr
    assert r.stdout == str(["it's \u00e4 = 1\n2", "", "by the policy", "UTC", "/tmp", "a"]) + "\n", r.stdout
    assert info("a")["policy"]["lowered"] == ["environment.FIXED"], info("a")
    # Each name once, whatever reads it: a program sees what Python sees.
    r = make("a", code="!env | sort | grep -E '^(HOME|FIXED|MINE|TZ)='", box=box)
    assert r.stdout.splitlines() == ["FIXED=by the policy", "HOME=/tmp", "MINE=it's \u00e4 = 1", "TZ=UTC"], r.stdout
    # Also after the interpreter was replaced.
    make("a", code="import os; os._exit(1)")
    assert make("a", code=environ("MINE", "TZ")).stdout == str(["it's \u00e4 = 1\n2", "UTC"]) + "\n"
    # A run cannot change what a session has.
    r = make("a", "--env", "MINE=2")
    assert r.returncode != 0 and "environment" in r.stderr, r
    close("a")
    for wrong in ("CODEBOX_SESSION=x", "1A=x", "A-B=x", "=x", "BIG=" + "x" * 17000):
        assert make("a", "--env", wrong).returncode == 2, wrong
    many = [a for i in range(65) for a in ("--env", f"V{i}=1")]
    assert make("a", *many).returncode == 2


def test_images():
    image = box.image("host", "python-minimal", "python")
    other = with_policy(json.dumps({"images": [image]}))
    r = other("run", "--session", "a", "-c", "1")
    assert r.returncode == 0, r.stderr
    assert info("a", other)["image"] == image
    r = other("run", "--image", "another", "-c", "1")
    assert r.returncode != 0 and f"allowed are: {image}" in r.stderr, r
    other.stop()


def test_programs_in_the_workspace_can_be_refused():
    code = ("import os, shutil, subprocess\n"
            "for place in ('/workspace', os.environ['HOME']):\n"
            "    shutil.copy(shutil.which('true'), place + '/program')\n"
            "    try:\n"
            "        print(subprocess.run([place + '/program']).returncode)\n"
            "    except PermissionError as e:\n"
            "        print(e.strerror)\n")
    assert make("a", code=code).stdout == "0\n0\n"
    close("a")
    for options in (("--set", "noexec_workspace=true"), ("--policy", "strict"),
                    ("--policy", "strict", "--set", "noexec_workspace=false")):
        r = make("a", *options, code=code)
        assert r.stdout == "Permission denied\nPermission denied\n", (options, r)
        lowered = info("a")["policy"]["lowered"]
        assert lowered == (["noexec_workspace"] if "noexec_workspace=false" in options else []), lowered
        close("a")


def test_only_a_policy_that_says_so_lets_a_protection_be_left_out():
    assert make("a", "--set", "landlock=off").returncode == 0
    assert info("a")["policy"]["lowered"] == ["landlock"], info("a")
    close("a")


def test_zygote_off():
    warm = Box(CODEBOX_ZYGOTES="4", CODEBOX_POOL="0")
    warm.env.pop("CODEBOX_POLICY", None)
    image = warm.image("python", "python-minimal")

    def started_by(*options):
        warm("run", "--session", "z", "--image", image, *options, "-c", "pass", check=True)
        try:
            return warm.json("session", "info", "--json", "z")["interpreter"]["started_by"]
        finally:
            warm("session", "rm", "z", check=True)
    if not wait_until(lambda: started_by() == "zygote"):
        raise Skip(f"no warm interpreter of {image} got ready")
    assert started_by("--set", "zygote=off") == "exec"
    assert started_by("--policy", "strict") == "exec"
    assert started_by() == "zygote"
    warm.stop()


def test_no_session_without_a_valid_policy():
    bad = with_policy('{\n"limits": {"memory": "1X"}}', "bad.json")
    r = bad("run", "-c", "1")
    assert r.returncode == 3 and "bad.json:2:12: memory" in r.stderr and "codebox policy check" in r.stderr, r
    r = bad.json("run", "--json", "-c", "1")
    assert r["error"]["kind"] == "invalid_policy", r
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "run_code", "arguments": {"code": "1"}}}
    answer = json.loads(bad("mcp", input=json.dumps(call) + "\n").stdout)["result"]
    assert answer["isError"] and "bad.json:2:12" in answer["content"][0]["text"], answer
    with open(os.path.join(bad.env["CODEBOX_STATE_DIR"], "codeboxd.log")) as f:
        assert "bad.json:2:12" in f.read()
    bad.stop()
    missing = Box(CODEBOX_POLICY="/nonexistent/policy.json")
    assert "/nonexistent/policy.json" in missing("run", "-c", "1").stderr
    missing.stop()


def test_the_users_own_policy_is_found():
    own = Box()
    own.env.pop("CODEBOX_POLICY", None)
    own.env["CODEBOX_CONFIG_DIR"] = os.path.join(own.dir, "config")
    os.mkdir(own.env["CODEBOX_CONFIG_DIR"])
    with open(os.path.join(own.env["CODEBOX_CONFIG_DIR"], "policy.json"), "w") as f:
        f.write('{"limits": {"processes": 20}}')
    r = make("a", box=own)
    assert r.returncode == 0, r.stderr
    got = info("a", own)
    assert got["limits"]["processes"] == 20 and got["policy"]["name"] == "policy", got
    own.stop()


if __name__ == "__main__":
    run(globals())
