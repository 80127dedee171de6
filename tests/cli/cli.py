#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The codebox command: usage, run, sessions, doctor."""
import json
import os
import pty
import shutil
import signal
import subprocess
import time

from common_cli import Box, CODEBOX, contains, HERE, read_until, run, same, Skip, WAIT


# ---- the program ----

def test_help_and_version():
    box = Box()
    r = box.ok("--help")
    for word in ("run", "repl", "session", "cp", "image", "doctor", "mcp", "stop", "register", "Examples"):
        contains(r.out, word)
    assert box.ok("--version").out.startswith("codebox 0")
    for c in ("run", "repl", "session", "cp", "doctor", "mcp", "register", "stop"):
        text = box.ok(c, "--help").out
        contains(text, "Usage: codebox " + c)
        contains(text, "Examples:")
        same(box.ok("help", c).out, text)
        if c != "run":
            same(box.ok(c, "anything", "--help").out, text)
        assert max(map(len, text.splitlines())) <= 120, c
    same(box.starts(), [])


def test_usage_errors_are_2_with_a_hint():
    box = Box()
    for args, hint in ((("rnu",), "did you mean \"run\""), (("nonsense-at-all",), "unknown command"), ((), "--help"),
                       (("--bad",), "--bad"), (("run", "--bad"), "run --help"), (("run", "--timeout"), "value"),
                       (("run", "-c"), "value"), (("run", "-z"), "-z"), (("run", "--json=1", "-c", ""), "--json"),
                       (("run", "--timeout", "soon", "-c", "1"), "soon"),
                       (("run", "--memory", "1", "-c", "1"), "64 MiB"),
                       (("run", "--session", "../x", "-c", "1"), "name"),
                       (("run", "--image", "-x", "-c", "1"), "image"),
                       (("run", "--keep", "--session", "a", "-c", "1"), "--keep"), (("session",), "ls"),
                       (("session", "frob"), "frob"), (("session", "rm"), "--all"),
                       (("session", "info"), "one session"),
                       (("session", "rm", "--all", "x"), "--all"), (("cp", "a"), "destination"),
                       (("cp", "a", "b"), "SESSION:PATH"), (("cp", "s:a", "t:b"), "session to session"),
                       (("cp", "-x", "s:a", "b"), "-x"), (("cp", "-bad:a", "b"), "-b"), (("cp", "s p:a", "b"), "name"),
                       (("doctor", "x"), "x"), (("mcp", "x"), "x"), (("stop", "x"), "x"), (("register",), "claude"),
                       (("conda", "install", "--session", "s", "-c", "x", "-U"), "names of packages"),
                       (("register", "emacs"), "emacs")):
        r = box(*args)
        assert r.returncode == 2, (args, r.returncode, r.err)
        contains(r.err, hint)
        contains(r.err, "Try: codebox")
        same(r.out, "")
    same(box.starts(), [])


def test_register():
    box = Box()
    r = box.ok("register", "claude-desktop", "--print")
    contains(r.out, "claude_desktop_config.json")
    text = "{" + r.out[r.out.rindex('"mcpServers"'):] + "}"
    conf = json.loads(text)["mcpServers"]["codebox"]
    same(conf["args"], ["mcp"])
    same(os.path.realpath(conf["command"]), os.path.realpath(CODEBOX))


def test_closed_standard_descriptors():
    box = Box()
    r = subprocess.run(["/bin/sh", "-c", 'exec "$0" run -c out:x >&- 2>&- <&-', CODEBOX], env=box.env, timeout=WAIT)
    assert r.returncode in (0, 3), r.returncode
    same(box.ok("run", "-c", "out:still well").out, "still well")


# ---- run ----

def test_run_streams_and_status():
    box = Box()
    r = box("run", "-c", "out:a\\n\nerr:b\nresult:42")
    same((r.returncode, r.out, r.err), (0, "a\n42\n", "b\n"))
    same(box.ok("run", "-c", "out:no newline").out, "no newline")
    same(box.ok("run", "-c", "out:ä€\U0001f600").out, "ä€\U0001f600")
    r = box("run", "-c", "out:x\nerror:ValueError:boom")
    same((r.returncode, r.out), (1, "x"))
    contains(r.err, "ValueError: boom")
    same(box("run", "-c", "exit:0").err, "")
    for code, status in (("exit:0", 0), ("exit:3", 3), ("exit:256", 0), ("exit:-1", 255), ("timeout", 124),
                         ("killed", 137)):
        r = box("run", "-c", code)
        assert r.returncode == status, (code, r.returncode, r.err)
    contains(r.err, "codebox: the code was ended")


def test_run_own_failures_are_3():
    box = Box()
    r = box("run", "--image", "nosandbox", "-c", "1")
    same(r.returncode, 3)
    contains(r.err, "codebox: no sandbox can be made here")
    r = box("run", "-c", "die")
    same(r.returncode, 3)
    contains(r.err, "codeboxd ended")


def test_run_file_stdin_and_arguments():
    box = Box()
    script = box.path("s.py")
    with open(script, "w") as f:
        f.write("argv")
    same(json.loads(box.ok("run", script, "--timeout", "x", "ü").out), ["s.py", "--timeout", "x", "ü"])
    same(json.loads(box.ok("run", "-c", "argv", "1", "-2").out), ["-c", "1", "-2"])
    same(box.ok("run", "-", input=b"out:in").out, "in")
    same(box.ok("run", input=b"out:in").out, "in")
    same(box.ok("run", "-c", "").out, "")
    r = box("run", box.path("missing.py"))
    same(r.returncode, 2)
    contains(r.err, "missing.py")
    same(box("run", box.dir).returncode, 2)
    same(box("run", "-", input=b"out:\xff").returncode, 2)
    same(box("run", "-", input=b"out:\0").returncode, 2)
    same(box("run", "-", input=b"#" * (1 << 20) + b"#").returncode, 2)
    same(box("run", "/dev/zero").returncode, 2)


def test_run_options_arrive():
    box = Box()
    r = box.ok("run", "--session", "s1", "--image", "img", "--memory", "512M", "--disk", "2G", "--timeout", "5m", "-c",
               "params")
    same(json.loads(r.out), {"session_id": "s1", "create": True, "image": "img", "memory": "512M", "disk": "2G",
                             "timeout": "5m"})
    same(json.loads(box.ok("run", "-c", "params").out), {"last": True, "unlimited": True})


def test_run_keep():
    box = Box()
    r = box.ok("run", "--keep", "-c", "params")
    sid = json.loads(r.out)["session_id"]
    contains(r.err, sid)
    contains(box.ok("session", "ls").out, sid)


def test_run_json():
    box = Box()
    r = box("run", "--json", "-c", "out:text\nerr:e\npng\nresult:1\nerror:E:v")
    same(r.returncode, 1)
    same(r.err, "")
    same(r.out.count("\n"), 1)
    x = json.loads(r.out)
    same((x["stdout"], x["status"], x["error"]["name"]), ("text", "error", "E"))
    same(len(x["displays"]), 2)
    contains(x["displays"][0]["data"], "image/png")
    same(x["displays"][1]["is_result"], True)
    r = box("run", "--json", "--image", "nosandbox", "-c", "1")
    same((r.returncode, json.loads(r.out)["error"]["kind"]), (3, "no_sandbox"))


def test_run_figures():
    box = Box()
    r = box.ok("run", "-c", "png\nsvg\nhtml")
    same(r.out, "table\n")
    contains(r.err, "figure: image/png, 108 bytes (use --out DIR to save)")
    out = box.path("a/b")
    for _ in range(2):
        r = box.ok("run", "--out", out, "-c", "png\nsvg")
    contains(r.err, out + "/figure-2.png (image/png, 108 bytes)")
    same(sorted(os.listdir(out)), ["figure-1.png", "figure-2.png", "figure-2.svg", "figure-3.svg"])
    with open(os.path.join(out, "figure-1.png"), "rb") as f:
        same(f.read(), b"\x89PNG\r\n\x1a\n" + b"x" * 100)
    # A link in the way is not followed.
    os.symlink(box.path("victim"), os.path.join(out, "figure-3.png"))
    box.ok("run", "--out", out, "-c", "png")
    assert not os.path.exists(box.path("victim"))
    assert os.path.exists(os.path.join(out, "figure-4.png"))
    r = box("run", "-c", "badpng\nout:on")
    same(r.out, "on")
    contains(r.err, "cannot be decoded")
    same(box("run", "--out", box.path("fake/x"), "-c", "png").returncode, 3)


def test_run_interrupt():
    box = Box()
    p = box.popen("run", "-c", "out:a\\n\nwait", stdin=subprocess.DEVNULL)
    read_until(p.stdout.fileno(), b"waiting\n")
    p.send_signal(signal.SIGINT)
    same(p.wait(WAIT), 130)
    p = box.popen("run", "-c", "stubborn", stdin=subprocess.DEVNULL)
    read_until(p.stdout.fileno(), b"waiting\n")
    end = time.monotonic() + WAIT
    sent = 0
    while p.poll() is None and time.monotonic() < end:  # two that are seen; one alone is not enough
        p.send_signal(signal.SIGINT)
        sent += 1
        time.sleep(0.1)
    same(p.wait(WAIT), 130)
    assert sent >= 2, sent


def test_run_much_output_and_a_reader_that_leaves():
    box = Box()
    same(len(box.ok("run", "-c", "bytes:3000000").stdout), 3000000)
    p = box.popen("run", "-c", "bytes:3000000", stdin=subprocess.DEVNULL)
    p.stdout.read(10)
    p.stdout.close()
    assert p.wait(WAIT) in (3, -signal.SIGPIPE)


def test_run_terminal_gets_no_escape_sequences():
    box = Box()
    m, s = pty.openpty()
    code = "out:\\x1b[31mred\\x1b[0m \\x1b]52;c;ZXZpbA==\\x07 \\x1b[6n \\x9b5n\\x1b[\nout:2Jx\\x1bcend\\n"
    p = box.popen("run", "-c", code, stdin=subprocess.DEVNULL, stdout=s)
    os.close(s)
    got = read_until(m, b"end\r\n")
    p.wait(WAIT)
    os.close(m)
    contains(got, b"\x1b[31mred\x1b[0m ")
    same(got.count(b"\x1b"), 2)  # colours alone: ESC [ 2 J is omitted, also in two pieces
    assert b"\x07" not in got and b"\xc2\x9b" not in got
    contains(got, b" \\x9b5n")
    contains(got, b"^[]52;c;")
    contains(got, b"^[[6n")
    contains(got, b"^[cend")
    # To a file everything goes as it is.
    contains(box.ok("run", "-c", "out:\\x1b]52;c;x\\x07").out, "\x1b]52;c;x\x07")


# ---- sessions ----

def test_sessions():
    box = Box()
    same(json.loads(box.ok("session", "ls", "--no-start", "--json").out), {"sessions": []})
    same(box("session", "info", "x").returncode, 1)
    same(box("session", "rm", "x").returncode, 1)
    same(box.ok("session", "rm", "--all").out, "")
    box.ok("stop")
    same(box.starts(), [])
    box.ok("session", "ls")
    same(len(box.starts()), 1)
    box.ok("run", "--session", "one", "-c", "out:1")
    box.ok("run", "--session", "two", "-c", "out:1")
    out = box.ok("session", "ls").out
    contains(out, "one")
    contains(out, "two")
    same([s["session_id"] for s in json.loads(box.ok("session", "ls", "--json").out)["sessions"]], ["one", "two"])
    r = box.ok("session", "info", "one")
    contains(r.out, "python")
    assert "\x1b" not in r.out
    same(json.loads(box.ok("session", "info", "--json", "one").out)["session_id"], "one")
    r = box("session", "info", "none")
    same(r.returncode, 1)
    contains(r.err, 'codebox: there is no session "none"; list the sessions, or make one\n')
    same(box("session", "rm", "none", "one").returncode, 1)
    same([s["session_id"] for s in json.loads(box.ok("session", "ls", "--json").out)["sessions"]], ["two"])
    box.ok("session", "rm", "--all")
    contains(box.ok("session", "ls").err, "no sessions")


def test_stop():
    box = Box()
    contains(box.ok("stop").err, "not running")
    box.ok("run", "-c", "out:1")
    box.ok("stop")
    contains(box.ok("stop").err, "not running")
    same(len(box.starts()), 1)


# ---- the rest ----

def test_doctor():
    box = Box()
    r = box("doctor", "--json")
    assert r.returncode in (0, 1), r.err
    checks = json.loads(r.out)
    by_name = {c["name"]: c for c in checks}
    for c in checks:
        assert c["state"] in ("ok", "degraded", "failed"), c
        assert c["title"] and c["found"] and c["means"], c
        assert c["state"] == "ok" or c["remedy"], c
    for name in ("kernel", "syscalls", "namespaces", "seccomp", "landlock", "overlay", "cgroup", "subids", "images",
                 "helpers", "runtime_dir", "disk", "memory", "apt", "service"):
        contains(by_name, name)
    # Nothing is installed in this box's directories, and there are no images.
    same(by_name["helpers"]["state"], "failed")
    contains(by_name["helpers"]["found"], "codebox-supervisor")
    same(by_name["images"]["state"], "failed")
    contains(by_name["images"]["remedy"], "codebox image build")
    same(r.returncode, 1)
    r = box("doctor")
    for c in checks:
        contains(r.out, c["title"])
    contains(r.out, "fix:")
    same(box.starts(), [])


def test_doctor_without_user_namespaces():
    box = Box()
    if os.geteuid() == 0:
        raise Skip("the ordinary user's run does this")
    r = subprocess.run(["unshare", "--user", "--map-current-user", "--keep-caps", "--", "/bin/sh", "-c",
                        "echo 0 > /proc/sys/user/max_user_namespaces && "
                        'exec setpriv --inh-caps=-all --ambient-caps=-all -- "$0" doctor --json', CODEBOX],
                       env=box.env, capture_output=True, timeout=WAIT * 2)
    assert b"namespaces" in r.stdout, r
    ns = [c for c in json.loads(r.stdout) if c["name"] == "namespaces"][0]
    same(ns["state"], "failed")
    contains(ns["found"] + ns["remedy"], "user")


if __name__ == "__main__":
    run(globals())
