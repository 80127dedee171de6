#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codebox register jupyter, and the kernel: with Jupyter's own client and nbconvert."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
sys.path.insert(0, HERE)
from cbxtest import CODEBOX, Box, Skip, run, wait_until  # noqa: E402
from notebook import CELLS, joined, notebook  # noqa: E402

box = Box()
work = tempfile.mkdtemp(dir=box.dir)
box.env.update(HOME=work, JUPYTER_DATA_DIR=os.path.join(work, "data"), IPYTHONDIR=os.path.join(work, "ipython"),
               XDG_DATA_HOME=os.path.join(os.path.expanduser("~"), ".local", "share"))
SPEC = os.path.join(work, "data", "kernels", "codebox", "kernel.json")


def venv():
    r = subprocess.run([os.path.join(HERE, "..", "clients", "setup.sh"), "notebook"], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True)
    if r.returncode == 77:
        raise Skip(r.stderr.strip().splitlines()[-1])
    box.image("python")
    return os.path.join(r.stdout.strip(), "bin")


def converted(bin_, path, kernel):
    out = os.path.join(work, f"{kernel}.ipynb")
    r = subprocess.run([os.path.join(bin_, "jupyter"), "nbconvert", "--to", "notebook", "--execute", "--allow-errors",
                        f"--ExecutePreprocessor.kernel_name={kernel}", "--output", out, path], text=True,
                       stderr=subprocess.PIPE, env={**box.env, "PATH": bin_ + ":" + os.environ["PATH"]})
    assert r.returncode == 0, r
    with open(out) as f:
        return json.load(f)


def test_register_writes_the_kernel():
    r = box("register", "--print", "jupyter")
    assert SPEC in r.stdout and not os.path.exists(SPEC), r
    assert box("register", "jupyter").returncode == 0
    with open(SPEC) as f:
        spec = json.load(f)
    assert spec["argv"][1:] == ["kernel", "-f", "{connection_file}"] and spec["interrupt_mode"] == "message", spec
    assert os.access(spec["argv"][0], os.X_OK), spec
    assert box("register", "--profile", "codeboxmcp", "jupyter").returncode == 2
    assert box("register", "--session", "s", "--name", "other", "jupyter").returncode == 0
    other = SPEC.replace("/codebox/", "/other/")
    with open(other) as f:
        assert json.load(f)["argv"][1:] == ["kernel", "--session", "s", "-f", "{connection_file}"]
    assert box("register", "--remove", "--name", "other", "jupyter").returncode == 0 and not os.path.exists(other)


def test_nbconvert_gives_what_it_gives_with_ipykernel():
    bin_ = venv()
    path = os.path.join(work, "nb.ipynb")
    with open(path, "w") as f:
        json.dump(notebook(*CELLS, "1/0", "print('after')"), f)
    got, want = converted(bin_, path, "codebox"), converted(bin_, path, "python3")
    for g, w in zip(got["cells"][1:], want["cells"][1:]):
        assert joined(g["outputs"]) == joined(w["outputs"]), (g["source"], g["outputs"], w["outputs"])
        assert g["execution_count"] == w["execution_count"], (g, w)
    assert not box.sessions(), "the session ends with the kernel"


CLIENT = """
import os, queue, sys, time
from jupyter_client.manager import start_new_kernel
m, c = start_new_kernel(kernel_name="codebox", startup_timeout=120)
info = c.kernel_info(reply=True, timeout=120)["content"]
assert (info["status"], info["implementation"], info["language_info"]["name"]) == ("ok", "codebox", "python"), info

def execute(code, **more):
    out = []
    reply = c.execute_interactive(code, timeout=120, output_hook=out.append, **more)
    return reply["content"], [(o["msg_type"], o["content"]) for o in out if o["msg_type"] != "status"]

# Before the first cell, too.
r = c.complete("prin", reply=True, timeout=120)["content"]
assert "print" in r["matches"], r
reply, out = execute("x = 6\\nprint('hi')\\nx * 7")
assert reply["status"] == "ok" and [t for t, _ in out] == ["execute_input", "stream", "execute_result"], (reply, out)
assert out[2][1]["data"]["text/plain"] == "42" and out[2][1]["execution_count"] == reply["execution_count"] == 1, out
reply, out = execute("1/0")
assert (reply["status"], reply["ename"]) == ("error", "ZeroDivisionError") and out[-1][0] == "error", (reply, out)
# What was sent before a cell failed is not run after it; what is sent then is.
first, second = c.execute("import time; time.sleep(2); raise ValueError"), c.execute("print(1)")
assert c.get_shell_msg(timeout=120)["content"]["status"] == "error"
assert c.get_shell_msg(timeout=120)["content"]["status"] == "aborted"
time.sleep(0.3)
while True:
    try:
        c.get_iopub_msg(timeout=0.2)
    except queue.Empty:
        break
assert execute("y = 1")[0]["status"] == "ok"
execute("import os")
r = c.complete("os.pat", reply=True, timeout=120)["content"]
assert "os.path" in r["matches"] or "path" in r["matches"], r
for code, said in ("for i in x:", "incomplete"), ("x", "complete"):
    c.is_complete(code)
    assert c.get_shell_msg(timeout=120)["content"]["status"] == said
def history(**kw):
    return [tuple(e) for e in c.history(reply=True, timeout=120, raw=True, output=False, **kw)["content"]["history"]]

assert history(hist_access_type="tail", n=2) == [(1, 4, "y = 1"), (1, 5, "import os")], history(hist_access_type="tail", n=9)
assert history(hist_access_type="range", session=0, start=1, stop=3) == \\
    [(1, 1, "x = 6\\nprint('hi')\\nx * 7"), (1, 2, "1/0")]
assert history(hist_access_type="search", pattern="*os*", n=10) == [(1, 5, "import os")]
r = c.inspect("os.path.join(", 12, reply=True, timeout=120)["content"]
assert r["found"] and "Signature:" in r["data"]["text/plain"] and "\\x1b" not in r["data"]["text/plain"], r
assert c.inspect("never_defined", reply=True, timeout=120)["content"]["found"] is False
execute("def long(): pass\\nlong.__doc__ = 'x' * 200000")
r = c.inspect("long", reply=True, timeout=120)["content"]
assert r["found"] and 30000 < len(r["data"]["text/plain"]) <= 32768, len(r["data"]["text/plain"])
execute("\\n".join(["pass"]))

# What the user types, where he can.
def typed(code, *answers):
    asked, left = [], list(answers)
    def hook(m):
        asked.append((m["content"]["prompt"], m["content"]["password"]))
        c.input(left.pop(0))
    reply, out = c.execute_interactive(code, timeout=120, allow_stdin=True, stdin_hook=hook, output_hook=outs.append), None
    return reply["content"], asked

outs = []
reply, asked = typed("import getpass\\nname = input('who? ')\\nsecret = getpass.getpass('secret: ')\\nagain = input()",
                     "Böb", "s3cret", "")
assert reply["status"] == "ok" and asked == [("who? ", False), ("secret: ", True), ("", False)], (reply, asked)
assert not any(o["msg_type"] == "stream" for o in outs), outs
reply, out = execute("name, secret, again")
assert out[-1][1]["data"]["text/plain"] == "('Böb', 's3cret', '')", out
reply, asked = typed("import sys; line = sys.stdin.readline(); breakpoint(); z = 1", "a line", "c")
assert reply["status"] == "ok" and asked[0] == ("", False) and "Pdb" in asked[1][0], (reply, asked)
reply, asked = typed("long = len(input())", "x" * 300000)
assert reply["status"] == "ok", reply
reply = c.execute_interactive("input()", timeout=120, allow_stdin=False, output_hook=lambda m: None)["content"]
assert reply["ename"] == "EOFError", reply
c.execute("input('stop me')", allow_stdin=True)
assert c.get_stdin_msg(timeout=120)["content"]["prompt"] == "stop me"
m.interrupt_kernel()
assert c.get_shell_msg(timeout=120)["content"]["ename"] == "KeyboardInterrupt"
while True:
    try:
        c.get_iopub_msg(timeout=0.2)
    except queue.Empty:
        break
# An interrupt ends the cell, also one that has not begun, and variables stay.
c.execute("while True: pass")
while c.get_iopub_msg(timeout=120)["msg_type"] != "execute_input":
    pass
m.interrupt_kernel()
assert c.get_shell_msg(timeout=120)["content"]["status"] == "error"
assert c.hb_channel.is_beating()
while True:
    try:
        c.get_iopub_msg(timeout=0.2)
    except queue.Empty:
        break
reply, out = execute("x")
assert out[-1][1]["data"]["text/plain"] == "6", out
# A restart gives it a new interpreter; its files stay.
execute("open('kept', 'w').write('a file')")
m.restart_kernel()
c.wait_for_ready(timeout=120)
assert execute("x")[0]["ename"] == "NameError"
reply, out = execute("open('kept').read()")
assert out[-1][1]["data"]["text/plain"] == "'a file'", out
execute("import os; print(os.getcwd())")
c.stop_channels()
m.shutdown_kernel()
print("all well")
"""


def test_jupyters_client():
    bin_ = venv()
    r = subprocess.run([os.path.join(bin_, "python"), "-c", CLIENT], env=box.env, text=True, capture_output=True)
    assert r.stdout == "all well\n", r.stderr
    assert wait_until(lambda: not box.sessions())


PROMPT = """
import sys
from jupyter_client.manager import start_new_kernel
m, c = start_new_kernel(kernel_name="slow", startup_timeout=120)
sys.excepthook = lambda *e: (sys.__excepthook__(*e), m.shutdown_kernel(now=True))  # or strace stays
for i in range(2):
    assert c.execute_interactive("1/0", timeout=120, output_hook=lambda m: None)["content"]["status"] == "error"
    reply = c.execute_interactive("x = %d" % i, timeout=120, output_hook=lambda m: None)["content"]
    assert reply["status"] == "ok", (i, reply)
# What is there already is held back, whatever it asks for, and is answered in its turn.
ids = [c.execute("import time; time.sleep(1); 1/0"), c.execute("x = 10"), c.complete("prin"), c.execute("x = 11"), c.execute("x = 12", stop_on_error=False)]
replies = [c.get_shell_msg(timeout=120) for _ in ids]
assert [r["parent_header"]["msg_id"] for r in replies] == ids, replies
assert [r["content"]["status"] for r in replies] == ["error", "aborted", "ok", "aborted", "aborted"], replies
out = []
c.execute_interactive("x", timeout=120, output_hook=out.append)
assert [o["content"]["data"]["text/plain"] for o in out if o["msg_type"] == "execute_result"] == ["1"], out
c.stop_channels()
m.shutdown_kernel()
print("all well")
"""


def test_what_is_sent_after_a_failure_runs():
    """However soon that is: the kernel takes its time between the end of a failed cell and the next look at its sockets."""
    if not shutil.which("strace"):
        raise Skip("there is no strace")
    with open(SPEC) as f:
        spec = json.load(f)
    slow = SPEC.replace("/codebox/", "/slow/")
    os.makedirs(os.path.dirname(slow))
    with open(slow, "w") as f:
        json.dump({**spec, "argv": ["strace", "-fqq", "-o", "/dev/null", "-e", "trace=poll", "-e", "inject=poll:delay_enter=50000", *spec["argv"]]}, f)
    r = subprocess.run([os.path.join(venv(), "python"), "-c", PROMPT], env=box.env, text=True, capture_output=True)
    assert r.stdout == "all well\n", r.stderr
    shutil.rmtree(os.path.dirname(slow))


LANGUAGE = """
import sys
from jupyter_client.manager import start_new_kernel
name, language, extension, code, said, word, known = sys.argv[1:]
m, c = start_new_kernel(kernel_name=name, startup_timeout=120)
info = c.kernel_info(reply=True, timeout=120)["content"]["language_info"]
assert (info["name"], info["file_extension"]) == (language, extension), info
r = c.inspect(word, reply=True, timeout=120)["content"]
assert r["found"] and known in r["data"]["text/plain"], r
out = []
c.execute_interactive(code, timeout=120, output_hook=out.append)
assert said in [o["content"].get("text", o["content"].get("data", {}).get("text/plain")) for o in out], out
c.stop_channels()
m.shutdown_kernel()
print("all well")
"""


def test_other_languages():
    bin_ = venv()
    box.image("javascript")
    for args, name, language, extension, code, said, word, known in (
            (("--image", "javascript"), "js", "javascript", ".js", "[1, 2].map((x) => x * 2)", "[ 2, 4 ]", "Math.max", "Signature: Math.max("),
            (("-l", "bash"), "sh", "bash", ".sh", "echo $((6 * 7))", "42\n", "declare", "declare is a shell builtin")):
        assert box("register", *args, "--name", name, "jupyter").returncode == 0
        with open(SPEC.replace("/codebox/", f"/{name}/")) as f:
            spec = json.load(f)
        assert spec["language"] == language, spec
        r = subprocess.run([os.path.join(bin_, "python"), "-c", LANGUAGE, name, language, extension, code, said, word, known],
                           env=box.env, text=True, capture_output=True)
        assert r.stdout == "all well\n", r.stderr
    assert box("register", "--image", "javascript", "cursor").returncode == 2


SIGNED = """
import json, os, sys, zmq
from jupyter_client.manager import start_new_kernel
m, c = start_new_kernel(kernel_name="codebox", startup_timeout=120)
with open(m.connection_file) as f:
    info = json.load(f)
s = zmq.Context().socket(zmq.DEALER)
s.connect("tcp://%s:%d" % (info["ip"], info["shell_port"]))
header = json.dumps({"msg_id": "1", "session": "s", "username": "u", "msg_type": "execute_request", "version": "5.3"})
parts = [header.encode(), b"{}", b"{}", json.dumps({"code": "forged = 1"}).encode()]
for frames in ([b"<IDS|MSG>", b"0" * 64, *parts], [b"<IDS|MSG>", b"", *parts], [b"<IDS|MSG>"], [b""], [b"x"] * 100,
               [b"<IDS|MSG>", b"0" * 64, b"{", b"}", b"", b""], [*[b"i"] * 20, b"<IDS|MSG>", b"", *parts]):
    s.send_multipart(frames)
assert not s.poll(1000)
r = c.execute_interactive("forged", timeout=120, output_hook=lambda m: None)["content"]
assert r["ename"] == "NameError", r
c.stop_channels()
m.shutdown_kernel()
print("all well")
"""


def test_what_is_not_signed_is_dropped():
    r = subprocess.run([os.path.join(venv(), "python"), "-c", SIGNED], env=box.env, text=True, capture_output=True)
    assert r.stdout == "all well\n", r.stderr


def test_a_wrong_command_line():
    for args, why in ((["kernel"], "-f FILE"), (["kernel", "-f", "/nowhere"], "No such file"),
                      (["kernel", "-f", SPEC, "x"], "unexpected argument")):
        r = box(*args)
        assert r.returncode in (1, 2, 3) and why in r.stderr, (args, r)
    assert CODEBOX


if __name__ == "__main__":
    run(globals())
