#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server's policy: what it gives, what it lowers, and that nothing runs without a valid one."""
import hashlib
import json
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, Skip, children, named, run, wait_until  # noqa: E402

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


def test_what_is_shipped_follows_the_machine():
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    b = Box()
    limits = b.json("policy", "show", "--json")["limits"]
    assert limits["memory"]["max"] <= max(machine // 2, 64 << 20) and limits["processes"]["max"] == 1024, limits
    assert limits["memory_together"] <= machine // 2, limits
    # A model that asks for more gets no more, and how it is isolated is not its to say.
    calls = [("memory", "64G"), ("processes", 4096), ("profile", "dev")]
    lines = [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"}]
    lines += [{"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": {
        "name": "create_session", "arguments": {k: v, "image": b.image("host", "python-minimal", "python")}}}
        for i, (k, v) in enumerate(calls, 1)]
    r = b("mcp", input="".join(json.dumps(line) + "\n" for line in lines))
    got = {m["id"]: m["result"] for m in map(json.loads, r.stdout.splitlines()) if m.get("id")}
    assert got[1]["structuredContent"]["limits"]["memory_bytes"] == limits["memory"]["max"], got[1]
    assert got[2]["structuredContent"]["limits"]["processes"] == 1024, got[2]
    assert got[3]["isError"] and "profile" in got[3]["content"][0]["text"], got[3]
    b.stop()


def test_all_sessions_together_have_a_bound():
    b = with_policy('{"limits": {"memory": "512M", "memory_together": "384M"}}', CODEBOX_POOL="0")
    # The smaller one is at no time the one that uses most while there is too little for both.
    hold = "import time\nb = b'x' * (%d << 20)\ntime.sleep(%d)"
    assert make("small", box=b, code=hold % (120, 0)).returncode == 0
    r = make("large", box=b, code=hold % (300, 20))
    assert r.returncode != 0 and "group of sessions as a whole" in r.stderr, (r.returncode, r.stderr)
    assert make("small", box=b, code="print(len(b))").stdout == f"{120 << 20}\n"
    b.stop()


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
    started_by()
    if not wait_until(lambda: any(z["state"] == "ready" for z in warm.hello()["zygotes"])):
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


def limits(memory, processes=32, **more):
    return json.dumps({"limits": {"memory": memory, "processes": processes}, **more})


def write(box, text, name=None):
    """In place; or as editors do it, by another file that takes its name."""
    path = name or box.env["CODEBOX_POLICY"]
    with open(path + ".new" if name else path, "w") as f:
        f.write(text)
    if name:
        os.replace(path + ".new", path)


def log(box):
    with open(os.path.join(box.env["CODEBOX_STATE_DIR"], "codeboxd.log")) as f:
        return f.read()


def has(box, session):
    got = info(session, box)
    return got["limits"]["memory_bytes"] >> 20, got["limits"]["processes"], got["policy"]["digest"]


NPROC = "import resource; print(resource.getrlimit(resource.RLIMIT_NPROC)[0])"


def test_reload():
    b = with_policy(limits("512M"), CODEBOX_POOL="0")
    assert b("policy", "reload").returncode == 0, "there is no daemon, and so nothing to be done"
    assert make("old", box=b).returncode == 0
    first = has(b, "old")
    assert first[:2] == (512, 32), first
    write(b, limits("256M", 16))
    assert has(b, "old") == first
    r = b("policy", "reload")
    assert r.returncode == 0 and "1 keeps what they have" in r.stderr, r
    made = make("new", "--memory", "8G", code=NPROC, box=b)
    assert made.returncode == 0, made.stderr
    second = has(b, "new")
    assert second[:2] == (256, 16) and int(made.stdout) < int(make("old", code=NPROC, box=b).stdout), (second, made)
    assert has(b, "old") == first and make("old", "--memory", "512M", box=b).returncode == 0
    # What is in force is what show says; --json says what was read.
    got = b.json("policy", "reload", "--json")
    assert got["digest"] == second[2] == hashlib.sha256(b("policy", "show", "--json").stdout.encode()).hexdigest()
    assert got["file"] == b.env["CODEBOX_POLICY"] and got["sessions"] == 2, got
    # A session whose policy has gone twice since is whole until its end.
    assert make("old", "--timeout", "10m", box=b).returncode == 0
    assert b("policy", "reload", "strict").returncode == 2
    b.stop()


def test_a_reload_that_fails_changes_nothing():
    b = with_policy(limits("512M"))
    assert make("a", box=b).returncode == 0
    before = has(b, "a")
    for text, why in (('{\n"limits": {"memory": "1X"}}', "site.json:2:12: memory"), ("{", "site.json:1:"),
                      ('{"include": ["/nonexistent.json"]}', "/nonexistent.json"),
                      ("//" + "x" * (64 << 10) + "\n{}", "is too long")):
        write(b, text)
        r = b("policy", "reload")
        assert r.returncode == 1 and why in r.stderr, (why, r)
        assert "old policy stays in force" in r.stderr and "codebox policy reload" in r.stderr, r
    assert b.json("policy", "reload", "--json")["error"]["kind"] == "invalid_policy"
    assert make("b", box=b).returncode == 0 and has(b, "b") == before
    os.remove(b.env["CODEBOX_POLICY"])
    os.mkfifo(b.env["CODEBOX_POLICY"])
    assert b("policy", "reload").returncode != 0
    os.remove(b.env["CODEBOX_POLICY"])
    assert b("policy", "reload").returncode != 0 and has(b, "a") == before
    b.stop()


def test_sighup_reloads():
    b = with_policy(limits("512M"))
    assert make("old", box=b).returncode == 0
    write(b, limits("256M"))
    pid = b.daemon_pid()
    os.kill(pid, signal.SIGHUP)
    assert wait_until(lambda: log(b).count("policy site (") == 2), log(b)
    assert make("new", box=b).returncode == 0
    assert (has(b, "old")[0], has(b, "new")[0]) == (512, 256)
    write(b, '{\n"limits": {"memory": "1X"}}')
    os.kill(pid, signal.SIGHUP)
    assert wait_until(lambda: "site.json:2:12" in log(b)), log(b)
    assert "old policy stays in force" in log(b)
    assert make("newer", box=b).returncode == 0 and has(b, "newer")[0] == 256 and b.daemon_pid() == pid
    b.stop()


def test_a_daemon_without_a_valid_policy_gets_one():
    b = with_policy('{\n"limits": {"memory": "1X"}}')
    r = make("a", box=b)
    assert r.returncode == 3 and "codebox policy reload" in r.stderr, r
    pid = b.daemon_pid()
    assert b("policy", "reload").returncode == 1 and make("a", box=b).returncode == 3
    write(b, limits("256M"))
    assert b("policy", "reload").returncode == 0
    r = make("a", box=b)
    assert r.returncode == 0 and has(b, "a")[0] == 256 and b.daemon_pid() == pid, r
    b.stop()


def test_ready_sessions_of_the_old_policy_go():
    b = with_policy(limits("512M"), CODEBOX_POOL="1")
    assert make("old", box=b).returncode == 0

    def ready():
        pool = b.hello()["pool"]
        return pool["ready"] == 1 and not pool["starting"]
    assert wait_until(ready), b.hello()
    before = set(named(b.daemon_pid(), "codebox-init"))
    assert len(before) == 2
    write(b, limits("256M", 16))
    assert b("policy", "reload").returncode == 0
    assert wait_until(lambda: len(before & set(named(b.daemon_pid(), "codebox-init"))) == 1)  # the session's own
    r = make("new", box=b, code=NPROC)
    assert r.returncode == 0 and has(b, "new")[:2] == (256, 16), r
    # One that is made under the new policy serves.
    assert wait_until(ready), b.hello()
    taken = b.hello()["pool"]["taken"]
    assert make("newer", box=b, code=NPROC).stdout == r.stdout and has(b, "newer")[:2] == (256, 16)
    assert b.hello()["pool"]["taken"] == taken + 1
    b.stop()


def test_reloads_leave_nothing_behind():
    b = with_policy(limits("512M"), CODEBOX_POOL="1")
    assert make("a", box=b).returncode == 0

    def state():
        hello = b.hello()
        if hello["pool"]["starting"] or hello["pool"]["ready"] != 1:
            return None
        return hello["descriptors"], len(children(hello["pid"]))
    assert wait_until(state)
    before = state()
    for i in range(12):
        write(b, limits("256M" if i % 2 else "300M") if i % 3 else "{")
        assert b("policy", "reload").returncode == (0 if i % 3 else 1)
    assert wait_until(lambda: state() == before), (before, state(), b.hello())
    b.stop()


def test_what_a_confined_daemon_reads_again():
    """Its own directory, and what that includes, also where files were exchanged; and a file elsewhere, in place."""
    own = Box()
    own.env.pop("CODEBOX_POLICY", None)
    config = own.env["CODEBOX_CONFIG_DIR"] = os.path.join(own.dir, "config")
    if os.getuid() == 0:  # root's is /etc/codebox, and its daemon does not make one
        os.mkdir(config)
    assert make("a", box=own).returncode == 0 and info("a", own)["policy"]["name"] == "default"
    for memory in "256M", "300M":
        write(own, '{"include": ["more.json", "strict"], "limits": {"memory": {"default": "%s", "max": "%s"}}}'
              % (memory, memory), os.path.join(config, "policy.json"))
        write(own, '{"limits": {"processes": 20}}', os.path.join(config, "more.json"))
        r = own("policy", "reload")
        assert r.returncode == 0, r
        assert make("b", box=own).returncode == 0
        assert info("b", own)["limits"]["memory_bytes"] == int(memory[:-1]) << 20
        own("session", "rm", "b", check=True)
    own.stop()
    b = with_policy(limits("512M"))
    assert make("a", box=b).returncode == 0
    if not b.hello()["confinement"]["landlock_abi"]:
        raise Skip("the kernel has no Landlock")
    write(b, limits("256M"), b.env["CODEBOX_POLICY"])
    r = b("policy", "reload")
    assert r.returncode == 1 and "in place, or restart" in r.stderr and "old policy stays in force" in r.stderr, r
    b.stop()


def allow(*dirs):
    return json.dumps({"mounts": {"allow": [{"path": d, "writable": True} for d in dirs]}})


def test_mounts_and_reloads():
    b = with_policy(limits("512M"))
    site, other, secret, link = (os.path.join(b.dir, "site", name) for name in ("rw", "other", "secret", "link"))
    for path in site, other, secret:
        os.makedirs(path)
        os.chmod(path, 0o777)
    os.symlink(other, link)
    with open(os.path.join(secret, "key"), "w") as f:
        f.write("the key")

    def mount(source, session="m", code="import os; print(os.listdir('/mnt'))"):
        return make(session, "--mount", f"{source}:rw", box=b, code=code)
    assert make("a", box=b).returncode == 0
    write(b, allow(site))
    r = b("policy", "reload")  # this supervisor was started without: all else is in force
    assert r.returncode == 1 and "need a restart" in r.stderr and "in force for new sessions" in r.stderr, r
    r = mount(site)
    assert r.returncode != 0 and "codebox stop" in r.stderr, r
    b("stop", check=True)
    r = mount(site)
    assert r.returncode == 0, r
    # A session that may write to the machine: a link that it could have made leads nowhere new.
    write(b, allow(site, link))
    assert b("policy", "reload").returncode == 0
    r = mount(link, "n")
    assert r.returncode != 0 and "symbolic link" in r.stderr and "session m" in r.stderr, r
    trap = os.path.join(site, "trap")
    write(b, allow(site, other, trap))
    assert b("policy", "reload").returncode == 0
    assert mount(other, "n").returncode == 0
    assert mount(site, code=f"import os; os.symlink({secret!r}, '/mnt/rw/trap')").returncode == 0
    assert os.readlink(trap) == secret
    assert "not in a directory" in mount(trap, "o").stderr
    assert b("policy", "reload").returncode == 0  # it was not a link when it was allowed
    r = mount(trap, "o")
    assert r.returncode != 0 and "not in a directory" in r.stderr, r
    # As at the start, once nobody can write, which is when the sandboxes have ended.
    os.remove(trap)
    b("session", "rm", "m", "n", check=True)
    write(b, allow(site, link))
    last = []

    def as_at_the_start():
        last[:] = [b("policy", "reload"), mount(link, "n")]
        return last[0].returncode == 0 and last[1].stdout == "['other']\n"
    assert wait_until(as_at_the_start), last
    b.stop()


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
