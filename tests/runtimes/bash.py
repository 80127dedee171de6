#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bash cells: through the control socket, codebox run, a prompt on a terminal, and a session with Python in it, too."""
import os
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cases import play  # noqa: E402
from cbxtest import Box, CODEBOX, run, wait_until  # noqa: E402
from control import Control, ControlError  # noqa: E402
from terminal import Terminal  # noqa: E402

box = Box(LC_ALL="C.UTF-8")


def image():
    return box.image("python", "python-minimal", "host")


class Session:
    """One session of a connection of its own."""

    def __init__(self, **spec):
        self.control = Control(box)
        self.id = self.control.call("session.create", image=image(), **spec)["session_id"]

    def run(self, code, language=None, **more):
        if language:
            more["language"] = language
        return self.control.call("run", session_id=self.id, code=code, **more)

    def bash(self, code, **more):
        return self.run(code, "bash", **more)

    def interrupted(self, code, language="bash"):
        """Run a cell that says "on" when it is to be interrupted."""
        number = self.control.send("run", session_id=self.id, code=code, language=language)
        while True:
            m = self.control.recv()
            if m.get("event") == "output" and "on" in m["text"]:
                with Control(box) as other:
                    other.call("interrupt", session_id=self.id)
            if m.get("id") == number and "event" not in m:
                return m["result"]


def test_cells():
    s = Session()

    def one(code):
        x = s.bash(code)
        return x["status"], x.get("exit_code"), x["output"]
    assert play("bash.cases", one) >= 67


def test_exit_statuses():
    """Those of bash -c and of bash FILE, and what a model reads."""
    s = Session()
    for code, status in (("(exit 5)", 5), ("no-such-program", 127), ("sh -c 'kill -9 $$'", 137), ("exit 7", 7), ("false", 1)):
        x = s.bash(code)
        assert (x["status"], x["exit_code"], x["state_kept"]) == ("error", status, True), x
        assert f"exit with status {status}." in x["message"] or f"ended with exit status {status}." in x["message"], x
        r = box("run", "--image", image(), "-l", "bash", "-c", f"echo out; {code}")
        assert (r.returncode, r.stdout) == (status, "out\n") and "codebox:" not in r.stderr, (code, r)
        path = os.path.join(box.dir, "ends.sh")
        with open(path, "w") as f:
            f.write(f"echo out\n{code}\n")
        r = box("run", "--image", image(), path)
        assert (r.returncode, r.stdout) == (status, "out\n"), (code, r)
    # What else there is to say is said.
    r = box("run", "--image", image(), "-l", "bash", "-c", "echo 'curl: (6) Could not resolve host: x' >&2; (exit 6)")
    assert r.returncode == 6 and r.stderr.endswith("get packages by %pip install NAME.\n") and "status 6" not in r.stderr, r
    assert "exit_code" not in s.bash("true")


# What scripts do at their end.
ENDS = ("trap 'echo code $?' EXIT; exit 3", "trap 'echo code $?' EXIT; set -e; false; echo no", "trap 'echo code $?; exit 5' EXIT; exit 3",
        "cleanup() { echo cleaning $1; }; trap 'cleanup x' EXIT; trap 'echo err' ERR; false; exit 3",
        "set -euo pipefail; trap 'echo bye $?' EXIT; f() { nosuch; }; f; echo no", "set -u; trap 'echo bye $?' EXIT; echo $nope",
        "trap 'echo bye $?' EXIT; echo hi; (exit 4)", "trap 'echo bye' EXIT; echo hi", "trap 'echo one' EXIT; trap 'echo two' 0; true",
        "trap 'echo bye' EXIT; trap - EXIT; echo hi", "trap 'echo bye' EXIT; (trap 'echo inner' EXIT; echo sub); echo hi",
        "t=$(mktemp); trap 'rm $t; [ -e $t ] || echo removed' EXIT; echo x >$t; cat $t", "trap 'exit 7' EXIT; true", "kill -TERM $$; sleep 1")


def test_programs_end_as_with_bash():
    for code in ENDS:
        path = os.path.join(box.dir, "ends.sh")
        with open(path, "w") as f:
            f.write(code + "\n")
        bash = subprocess.run(["bash", "-c", 'bash "$0"; exit $?', path], capture_output=True, text=True)
        r = box("run", "--image", image(), path)
        assert (r.stdout, r.returncode) == (bash.stdout, bash.returncode), (code, r, bash)
        if "-u" not in code:  # of which Bash says 127 for -c
            r = box("run", "--image", image(), "-l", "bash", "-c", code)
            assert (r.stdout, r.returncode) == (bash.stdout, bash.returncode), (code, r, bash)


def test_long_cells():
    """The length of a frame has bytes of 0 in it, at its end or in its middle."""
    s = Session()
    for n in (1, 190, 250, 60000, 65500, 65580, 65680, 131100, 200000):
        x = s.bash(f"x={'a' * n} y='é'; echo ${{#x}} ${{#y}}")
        assert x["output"] == f"{n} 1\n", (n, x["status"], x["output"][:200])


def test_the_first_file_is_seen():
    """Whatever patterns mean in the session."""
    for name, before in (("a", ""), (".a", "shopt -s failglob"), ("..a", "GLOBIGNORE='*'; set -f")):
        s = Session()
        assert [s.bash(code)["files"] for code in (":", before, f"mkdir {name}; rmdir {name}")] == [[], [], []]
        assert [f["path"] for f in s.bash(f"echo 1 >{name}")["files"]] == [name]


def test_interrupts_keep_state():
    s = Session()
    s.bash("x=1; f() { local x=2; while :; do :; done; }; sleep 1000 & first=$!; "
           "until [[ $(< /proc/$first/comm) == sleep ]]; do :; done")  # from then on it does not hear of interrupts
    for code in ("echo on; while :; do :; done", "echo on; f", "g() { while f; do :; done; }; echo on; until g; do g; done",
                 "echo on; sleep 1000", "echo on; for ((;;)); do ((++i)); done", "echo on; (while :; do :; done)",
                 "echo on; y=$(sleep 1000); echo not", "echo on; wait", "echo on; cat /dev/zero >/dev/null",
                 "set -e; echo on; while :; do :; done"):
        x = s.interrupted(code)
        assert x["status"] == "cancelled" and x["state_kept"] and "not" not in x["output"], (code, x)
        y = s.bash("set +e; echo $x; kill -0 $first && jobs -p | wc -l")
        assert y["output"] == "1\n1\n", (code, x, y)
    x = s.bash("trap '' INT; while :; do :; done", timeout=1)
    assert x["status"] == "timeout" and not x["state_kept"], x
    assert s.bash("echo [$x]")["output"] == "[]\n"


def test_time_limit_keeps_state():
    s = Session()
    x = s.bash("x=4; while :; do :; done", timeout=0.5)
    assert x["status"] == "timeout" and x["state_kept"], x
    assert s.bash("echo $x")["output"] == "4\n"


def test_one_dies_and_the_other_lives():
    s = Session()
    s.run("a = 1\nimport os\npid = os.getpid()")
    s.bash("a=2")
    x = s.bash("kill -KILL $$")
    assert x["status"] == "killed" and not x["state_kept"] and "SIGKILL" in x["message"], x
    assert s.run("a, os.getpid() == pid")["result"] == "(1, True)"
    assert s.bash("echo [$a]")["output"] == "[]\n"
    s.bash("a=3")
    assert s.run("os._exit(3)")["status"] == "killed"
    assert s.bash("echo $a")["output"] == "3\n"
    assert s.run("a")["error"]["name"] == "NameError"
    # Between the cells: it is said with its own next cell.
    s.run("a = 5")
    s.bash("(sleep 0.2; kill -KILL $$) >/dev/null 2>&1 &")
    assert wait_until(lambda: "bash" not in s.run("import subprocess as s; s.run(['ps', '-e', '-o', 'comm='], "
                                                  "capture_output=True, text=True).stdout")["result"])
    assert "message" not in s.run("a") and "died" in s.bash("echo x")["message"]


def test_restart_of_one():
    s = Session()
    s.run("a = 1")
    s.bash("a=1; echo kept > file")
    assert s.control.call("session.restart", session_id=s.id, language="bash") == {"ended": 0}
    assert s.bash("echo [$a]; cat file")["output"] == "[]\nkept\n" and s.run("a")["result"] == "1"
    s.bash("a=2")
    s.control.call("session.restart", session_id=s.id, language="python")
    assert s.bash("echo $a")["output"] == "2\n" and s.run("a")["status"] == "error"
    s.control.call("session.restart", session_id=s.id)
    assert s.bash("echo [$a]")["output"] == "[]\n"
    try:
        s.control.call("session.restart", session_id=s.id, language="cobol")
        assert False
    except ControlError as e:
        assert e.kind == "no_interpreter" and "cobol" in str(e) and "bash" in str(e), e


def test_out_of_memory_is_one_interpreters():
    s = Session(memory="256M")
    s.run("a = 1")
    s.bash("b=2")
    x = s.bash("x=$(head -c 50000000 /dev/zero | tr '\\0' x); while :; do x=$x$x; done")
    assert x["status"] in ("killed", "error") and "memory" in x.get("message", "") + x["output"], x
    assert s.run("a")["result"] == "1"
    assert s.bash("echo works")["output"] == "works\n"


def test_hostile_frames_hurt_their_own_session():
    other = Session()
    other.bash("x=1")
    for attack in ("printf 'garbage that is no frame' >&251", r"printf '\xff\xff\xff\x7f' >&251",
                   "exec 251>&-; echo x", "exec 250<&-; echo x", "exec 250</dev/zero",
                   "__codebox_id=77; echo x", "unset __codebox_state; unset -f __codebox_send; echo x",
                   "__codebox_send '{\"ev\":\"done\",\"id\":1,\"status\":\"ok\",\"count\":1}'; echo x; sleep 0.1",
                   "builtin() { :; }; echo x", "trap - EXIT; enable -n printf exec read; builtin exit"):
        s = Session()
        s.run("a = 1")
        x = s.bash(attack, timeout=3)
        assert x["status"] in ("ok", "error", "killed", "timeout"), (attack, x)
        assert s.bash("echo again", timeout=5)["status"] in ("ok", "error", "killed", "timeout"), attack
        assert s.run("a")["result"] == "1", attack
        s.control.call("session.close", session_id=s.id)
    assert other.bash("echo $x")["output"] == "1\n"


def test_the_first_line_names_the_language():
    s = Session()
    s.run("a = 1")
    assert s.run("%%bash\ncd /tmp; b=2")["status"] == "ok"
    assert s.run("%%bash  \r\necho $b $PWD")["output"] == "2 /tmp\n"
    assert s.run("%%sh\necho $b")["output"] == "2\n"
    assert s.bash("echo $b")["output"] == "2\n" and s.run("a")["result"] == "1"
    # What has more on its line is the notebook's own.
    assert s.run("%%bash --out text\necho [$b]")["status"] in ("ok", "error")
    assert s.bash("%%python\nx")["status"] == "error" and s.run("%%python\na + 1")["result"] == "2" \
        if "plain" == s.control.call("session.info", session_id=s.id)["interpreter"]["kind"] else True
    info = s.control.call("session.info", session_id=s.id)
    assert info["languages"][0] == "python" and "bash" in info["languages"], info


def test_one_queue():
    s = Session()
    got, lock = [], threading.Lock()
    first = s.control.send("run", session_id=s.id, code="import time; time.sleep(0.3)")

    def cell(n):
        with Control(box) as c:
            r = c.call("run", session_id=s.id, code=f"echo {n} >> order", language="bash")
            with lock:
                got.append(r["status"])
    threads = [threading.Thread(target=cell, args=(n,)) for n in range(5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == ["ok"] * 5
    while s.control.recv().get("id") != first:
        pass
    assert s.run("len(open('order').read().split())")["result"] == "5"


def test_command_line():
    r = box("run", "--image", image(), "-l", "bash", "-c", "echo out; echo err >&2; exit 5", "ignored")
    assert (r.returncode, r.stdout, r.stderr) == (5, "out\n", "err\n"), r
    with open(os.path.join(box.dir, "prog.sh"), "w") as f:
        f.write('echo "$0|$1|$#|$PWD"\nread line && echo "read $line"\nexit 4\n')
    r = box("run", "--image", image(), os.path.join(box.dir, "prog.sh"), "a b", "c", input="typed\n")
    assert (r.returncode, r.stdout, r.stderr) == (4, "prog.sh|a b|2|/workspace\nread typed\n", ""), r
    r = box("run", "--image", image(), "-l", "bash", input='echo "from standard input"; false')
    assert (r.returncode, r.stdout) == (1, "from standard input\n"), r
    r = box("run", "--image", image(), "-l", "cobol", "-c", "x")
    assert r.returncode in (1, 3) and "cobol" in r.stderr and "python, bash" in r.stderr, r
    box("run", "--session", "both", "--image", image(), "-l", "bash", "-c", "v=7; echo 8 > f", check=True)
    r = box("run", "--session", "both", "-c", "print(open('f').read())")
    assert r.stdout.strip() == "8", r
    assert box("run", "--session", "both", "--language", "sh", "-c", "echo $v").stdout == "7\n"
    box("session", "rm", "both", check=True)


def test_prompt():
    t = Terminal([CODEBOX, "repl", "--image", image(), "-l", "bash"], box.env, box.dir)
    t.see(b">>> ")
    t.type("for i in 1 2; do\r")
    t.see(b"... ")
    t.type("echo \"n$i\"\r")
    t.see(b"... ")
    t.type("done\r")
    t.see(b"n1")
    t.see(b"n2")
    t.see(b">>> ")
    t.type("HOW_LONG_A_NAME=there\r")
    t.see(b">>> ")
    t.type("echo $HOW_LO\t\r")
    t.see(b"there\r\n")
    t.see(b">>> ")
    t.type("echo begun; while :; do :; done\r")
    t.see(b"begun\r\n")
    t.type("\x03")
    t.see(b">>> ")
    t.type("echo \"still $HOW_LONG_A_NAME\"\r")
    t.see(b"still there\r\n")
    t.see(b">>> ")
    t.type("\x04")
    assert t.end() == 0


run(globals())
