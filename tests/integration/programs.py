#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codebox run as a part of a pipeline and at a terminal: all of its output, standard input, and files run as programs."""
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, CODEBOX, run, wait_until  # noqa: E402
from control import Control  # noqa: E402
from terminal import Terminal  # noqa: E402

box = Box(LC_ALL="C.UTF-8")
BINARY = random.Random(1).randbytes(5 << 20)


def image():
    return box.image("python", "python-minimal", "host")


def cb(*args, **kw):
    return box("run", "--image", image(), *args, **kw)


def script(name, data):
    path = os.path.join(box.dir, name)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())
    return path


def digest(data):
    return hashlib.sha256(data).hexdigest()


def popen(*args, **kw):
    return box.popen("run", "--image", image(), *args, stdout=subprocess.PIPE, **kw)


def memory(pid):
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")


# ---- output ----

def test_output_is_complete():
    for more in (), ("--session", "complete"):
        p = popen(*more, "-c", "!seq 1 3000000")
        n = last = 0
        for line in p.stdout:
            n, last = n + 1, line
        assert (n, last, p.wait()) == (3000000, b"3000000\n", 0), (n, last)
    path = os.path.join(box.dir, "out")
    with open(path, "wb") as f:
        p = box.popen("run", "--image", image(), "-c", "for i in range(300000): print('line', i)", stdout=f)
        assert p.wait() == 0
    with open(path, "rb") as f:
        lines = f.read().splitlines()
    assert len(lines) == 300000 and lines[-1] == b"line 299999", (len(lines), lines[-1:])


def test_bytes_are_unchanged():
    code = "import random, sys; n = sys.stdout.buffer.write(random.Random(1).randbytes(5 << 20)); " \
        "n = sys.stderr.buffer.write(b'\\xff\\0')"
    p = popen("-c", code, stderr=subprocess.PIPE)
    out, err = p.communicate()
    assert (digest(out), err, p.returncode) == (digest(BINARY), b"\xff\0", 0), (len(out), err)


def test_a_slow_reader():
    size = 100 << 20
    p = popen("--session", "slow", "-c", f"!head -c {size} /dev/zero")
    assert p.stdout.read(1) == b"\0"
    pid = box.daemon_pid()
    before = memory(pid)
    # Nothing is read: the program waits, codeboxd does not grow, and others are not held up.
    for _ in range(3):
        assert cb("-c", "6 * 7").stdout == "42\n"
    assert memory(pid) < before + (8 << 20), (before, memory(pid))
    n = 1
    while data := p.stdout.read(1 << 20):
        n += len(data)
    assert (n, p.wait()) == (size, 0), n


def test_a_client_that_goes_lets_the_session_go():
    p = popen("--session", "left", "-c", "!yes")
    assert p.stdout.read(1) == b"y"
    p.kill()
    p.stdout.close()
    p.wait()
    r = cb("--session", "left", "-c", "'still here'")
    assert r.stdout == "'still here'\n", r


def test_a_reader_that_leaves():
    for more in ("-c", "!yes"), (script("endless.py", "while True: print('y')"),):
        p = popen(*more, stderr=subprocess.PIPE)
        assert p.stdout.readline() == b"y\n"
        p.stdout.close()
        assert p.wait(60) == -signal.SIGPIPE, p.stderr.read()
    with open("/dev/full", "w") as full:
        p = box.popen("run", "--image", image(), "-c", "!yes", stdout=full, stderr=subprocess.PIPE)
        assert p.wait(60) == 3
        assert b"No space left" in p.stderr.read()


def test_one_line_of_json():
    r = cb("--json", "-c", "!seq 1 3000000")
    x = json.loads(r.stdout)
    assert x["status"] == "ok" and "omitted" in x["stdout"] and r.stdout.count("\n") == 1


# ---- standard input ----

def test_standard_input():
    total = "import sys; print(sum(map(int, sys.stdin)))"
    assert cb("-c", total, input="1\n2\n3\n").stdout == "6\n"
    assert cb("--session", "in", "-c", total, input="4\n5\n").stdout == "9\n"
    assert cb("--session", "in", "-c", "import sys; sys.stdin.readline()", input="left\nbehind\n").stdout == "'left\\n'\n"
    assert cb("--session", "in", "-c", total, input="10\n").stdout == "10\n"
    assert cb("--session", "in", "-c", total).stdout == "0\n"  # /dev/null
    assert cb("-c", "input() + input()", input="a\nb\n").stdout == "'ab'\n"
    assert "EOFError" in cb("-c", "input()").stderr
    assert cb("-c", "!cat", input="shell\n").stdout == "shell\n"
    assert cb("-c", "import os, stat; stat.S_ISCHR(os.fstat(0).st_mode)").stdout == "True\n"
    assert cb("-", input="print(open('/dev/stdin').read() == '')").stdout == "True\n"  # it was the code
    # What nobody reads holds nothing up.
    p = popen("-c", "1 + 1", stdin=subprocess.PIPE)
    assert p.stdout.read() == b"2\n" and p.wait(60) == 0
    assert cb("-c", "2 + 2", input="x" * 10000000).stdout == "4\n"


def test_standard_input_is_streamed():
    p = popen("-c", "for line in iter(input, 'end'): print(line.upper())", stdin=subprocess.PIPE)
    for word in b"one", b"two":  # an answer comes before more is given
        p.stdin.write(word + b"\n")
        p.stdin.flush()
        assert p.stdout.readline() == word.upper() + b"\n"
    p.stdin.write(b"end\n")
    p.stdin.close()
    assert p.wait(60) == 0
    code = "import sys, shutil; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)"
    r = cb("-c", code, input=BINARY, text=False)
    assert digest(r.stdout) == digest(BINARY), len(r.stdout)


# ---- files ----

def test_a_file_is_a_program():
    path = script("program.py", """'''What it is.'''
import os, sys
print(__name__, __doc__, os.path.basename(__file__), sys.argv[1:], os.path.isfile(__file__), sys.argv[0] == __file__)
print(sys.path[0] == os.path.dirname(__file__))
42

def square(x):
    return x * x

if __name__ == "__main__":
    import atexit, multiprocessing, threading, time
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(square, [1, 2, 3]) == [1, 4, 9]
    threading.Thread(target=lambda: (time.sleep(0.1), print("a thread"))).start()
    atexit.register(print, "the end")
""")
    r = cb(path, "-x", "ü")
    lines = [line for line in r.stdout.splitlines() if "__mp_main__" not in line and line != "True"]
    assert lines == ["__main__ What it is. program.py ['-x', 'ü'] True True", "a thread", "the end"], r
    assert r.returncode == 0 and r.stderr == "", r


def test_how_a_program_ends():
    for code, status in (("import sys; sys.exit(5)", 5), ("import sys; sys.exit('said')", 1), ("1/0", 1), ("pass", 0),
                         ("import os; os._exit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 137),
                         ("import os; os.kill(os.getpid(), 11)", 139), ("raise KeyboardInterrupt", 130), ("x =", 1)):
        r = cb(script("ends.py", "# first\n" + code))
        assert r.returncode == status, (code, r)
        assert cb("-c", code).returncode == status, code
    r = cb("-c", "import atexit, threading, time; atexit.register(print, 'the end')\n"
           "threading.Thread(target=lambda: (time.sleep(0.1), print('a thread'))).start()\n'the value'")
    assert (r.returncode, r.stdout) == (0, "'the value'\na thread\nthe end\n"), r
    r = cb(script("ends.py", "def f():\n    return 1 / 0\n\nf()\n"))
    # Marks below the lines differ from version to version.
    assert [line for line in r.stderr.splitlines() if not re.fullmatch("[ ~^]+", line)] == [
        "Traceback (most recent call last):", '  File "/workspace/ends.py", line 4, in <module>', "    f()",
        '  File "/workspace/ends.py", line 2, in f', "    return 1 / 0", "ZeroDivisionError: division by zero"], r.stderr
    assert 'File "/workspace/ends.py", line 1' in cb(script("ends.py", "x = = 1\n")).stderr
    assert "SyntaxError" in cb(script("ends.py", "%matplotlib inline\n")).stderr


def test_encodings_of_files():
    assert cb(script("bom.py", b"\xef\xbb\xbfprint('b\xc3\xb6m')")).stdout == "böm\n"
    assert cb(script("latin.py", b"# -*- coding: latin-1 -*-\nprint('\xe9')")).stdout == "é\n"
    assert "SyntaxError" in cb(script("none.py", b"print('\xe9')")).stderr


def test_a_file_in_a_session():
    path = script("analysis.py", "x = 6\nprint(_ if '_' in globals() else '')")
    out = os.path.join(box.dir, "plots")
    cb("--session", "report", "-c", "'before'")
    assert cb("--session", "report", path).stdout == "before\n"
    assert cb("--session", "report", "-c", "x * 7").stdout == "42\n"
    assert cb("--session", "report", "-c", "'__file__' in globals()").stdout == "False\n"
    path = script("shows.py", "import sys\ndisplay({'image/svg+xml': '<svg/>'}, raw=True)\nprint(sys.stdin.read())")
    r = cb("--session", "report", "--out", out, path, input="to the program")
    assert r.stdout == "to the program\n" and os.listdir(out) == ["figure-1.svg"], r
    x = json.loads(cb("--session", "report", "--json", script("writes.py", "open('made', 'w').write('x')")).stdout)
    assert [f["path"] for f in x["files"]] == ["made"], x


# ---- time ----

def test_a_person_has_time():
    policy = os.path.join(box.dir, "patient.json")
    with open(policy, "w") as f:
        f.write('{"include": ["default"], "limits": {"timeout": {"default": "500ms", "max": "30s"}}}')
    patient = Box(CODEBOX_POLICY=policy)
    code = "import time; time.sleep(1); print('done')"
    r = patient("run", "--image", image(), "-c", code)
    assert (r.returncode, r.stdout) == (0, "done\n"), r
    assert "lowered" not in r.stderr
    r = patient("run", "--image", image(), "--timeout", "500ms", "-c", code)
    assert r.returncode == 124 and "--timeout" in r.stderr and "30 s" in r.stderr, r
    assert "lowered" in patient("run", "--json", "--image", image(), "--timeout", "10m", "-c", "1").stdout
    with Control(patient) as c:  # a model's cell has the default, and its answer says how to get more
        x = c.call("run", code=code, image=image())
        assert x["status"] == "timeout" and "timeout" in x["message"] and "30 s" in x["message"], x


# ---- at a terminal ----

def test_a_person_types():
    t = Terminal([CODEBOX, "run", "--image", image(), "-c", "print('hello', input('name? '))"], box.env, box.dir)
    t.see(b"name? ")
    t.type("Ada\n")
    t.see(b"hello Ada")
    assert t.end() == 0
    code = "import sys; print('read', sys.stdin.read())"
    t = Terminal([CODEBOX, "run", "--image", image(), "-c", code], box.env, box.dir)
    t.type("text\n\x04")
    t.see(b"read text")
    assert t.end() == 0


def test_ctrl_c():
    path = script("sleeps.py", "import time\ntry:\n    print('begun')\n    time.sleep(600)\n"
                  "finally:\n    print('cleaned')\n")
    t = Terminal([CODEBOX, "run", "--image", image(), path], box.env, box.dir)
    t.see(b"begun")
    t.type("\x03")
    t.see(b"cleaned")
    assert t.end() == 130, t.got
    # Also while nobody reads what it prints.
    p = popen("-c", "!yes", stderr=subprocess.DEVNULL)
    assert p.stdout.read(1) == b"y"
    assert wait_until(lambda: box.json("session", "ls", "--json")["sessions"] != [])
    p.send_signal(signal.SIGINT)
    p.send_signal(signal.SIGINT)
    while p.poll() is None:
        if not wait_until(lambda: p.poll() is not None, 0.5):
            p.send_signal(signal.SIGINT)
    assert p.returncode == 130, p.returncode


def test_a_language_finds_its_image():
    """Where none is named: the default one, if that has it."""
    box.image("javascript"), box.image("python")
    path = script("said.js", b"const said = process.argv.slice(2);\nconsole.log(said)\n")
    r = box("run", path, "a", "b")
    assert (r.returncode, r.stdout) == (0, "[ 'a', 'b' ]\n"), r
    r = box("run", "-l", "javascript", "--keep", "-c", "[1, 2].map((x) => 2 * x)")
    assert (r.returncode, r.stdout) == (0, "[ 2, 4 ]\n"), r
    kept = r.stderr.split("--session ")[1].split()[0]
    assert box.json("session", "info", kept, "--json")["image"] in ("javascript", "full")
    assert box("run", "-l", "bash", "-c", "python3 -c 'print(6 * 7)'").stdout == "42\n"
    r = box("run", "--image", "python", path)
    assert r.returncode != 0 and 'the image "javascript"' in r.stderr, r
    box("session", "rm", kept, check=True)
    r = box("run", "--keep", path)
    kept = r.stderr.split("--session ")[1].split()[0]
    assert r.stdout == "[]\n" and box("run", "--session", kept, "-c", "typeof process").stdout == "'object'\n", r
    box("session", "rm", kept, check=True)


if __name__ == "__main__":
    run(globals())
