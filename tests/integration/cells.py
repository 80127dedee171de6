#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cells through the codebox command: state, order of output, time limits, deaths, large output, files."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, children, run, sandboxes, wait_until  # noqa: E402

box = Box()


def image():
    return box.image("python", "python-minimal", "host")


def cell(session, code, *args, **kw):
    return box("run", "--session", session, "--image", image(), *args, "-c", code, **kw)


def result(session, code, *args, **kw):
    return box.json("run", "--session", session, "--image", image(), "--json", *args, "-c", code, **kw)


def test_variables_persist():
    assert cell("a", "x = 41").returncode == 0
    r = cell("a", "x + 1")
    assert r.stdout.strip() == "42", r
    r = cell("b", "x")
    assert r.returncode == 1 and "NameError" in r.stderr + r.stdout, r


def test_tasks_run_on_between_cells():
    r = cell("tasks", "import asyncio, os\nasync def work():\n    await asyncio.sleep(0.05)\n"
                      "    open('made', 'w').close()\n    print('from the task')\ntask = asyncio.create_task(work())")
    assert r.returncode == 0, r
    assert wait_until(lambda: box("cp", "tasks:made", os.path.join(box.dir, "made")).returncode == 0)  # no cell runs
    r = cell("tasks", "print(task.done())")
    assert r.stdout == "from the task\nTrue\n", r


def test_arguments_leave_no_trace():
    script = os.path.join(box.dir, "script.py")
    with open(script, "w") as f:
        f.write("import sys\nprint(_, sys.argv[1:])")
    cell("arguments", "6 * 7")
    r = box("run", "--session", "arguments", script, "-x", "ü")
    assert r.stdout == "42 ['-x', 'ü']\n", r


def test_exit_status():
    assert cell("a", "import sys; sys.exit(7)").returncode == 7
    assert cell("a", "raise SystemExit").returncode == 0
    assert cell("a", "1/0").returncode == 1
    assert cell("a", "x").stdout.strip() == "41"


def test_output_in_program_order():
    code = r"""
import os, subprocess, sys
print("one")
subprocess.run(["echo", "two"])
os.write(1, b"three\n")
print("four", file=sys.stderr)
print("five")
subprocess.run("echo six >&2", shell=True)
print("seven")
import ctypes; ctypes.CDLL(None).puts(b"eight")
print("nine")
"""
    r = result("a", code)
    assert r["output"].split() == "one two three four five six seven eight nine".split(), r["output"]
    assert r["stdout"].split() == "one two three five seven eight nine".split(), r["stdout"]
    assert r["stderr"].split() == ["four", "six"], r["stderr"]


def test_timeout_keeps_variables():
    cell("t", "kept = 'yes'")
    r = result("t", "import time\nprint('before', flush=True)\ntime.sleep(600)", "--timeout", "3")
    assert r["status"] == "timeout" and r["state_kept"] is True, r
    assert r["stdout"] == "before\n", r
    assert cell("t", "kept").stdout.strip() == "'yes'"
    assert cell("t", "import time; time.sleep(600)", "--timeout", "1").returncode == 124


def test_timeout_of_code_that_ignores_interrupts():
    cell("t", "kept = 'yes'\nopen('file', 'w').write('there')")
    r = result("t", """
import time
while True:
    try:
        time.sleep(600)
    except KeyboardInterrupt:
        pass
""", "--timeout", "3")
    assert r["status"] == "timeout" and r["state_kept"] is False, r
    assert "variables" in r["message"] or "state" in r["message"], r
    r = cell("t", "print('kept' in globals(), open('file').read())")
    assert r.stdout.strip() == "False there", r


def test_death_is_named():
    r = result("d", "import os; os._exit(9)")
    assert r["status"] == "killed" and "9" in r["message"], r
    r = result("d", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert r["status"] == "killed" and "SIGSEGV" in r["message"], r
    assert cell("d", "print('alive')").stdout == "alive\n"
    assert cell("d", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)").returncode == 137


def test_closing_the_protocol_descriptor_does_not_hang():
    r = result("d", "import os\nfor fd in range(3, 64):\n    try: os.close(fd)\n    except OSError: pass\nprint('x')",
               "--timeout", "20")
    assert r["status"] in ("killed", "ok"), r
    assert cell("d", "print('alive')").stdout == "alive\n"


def test_interrupt_by_ctrl_c():
    p = box.popen("run", "--session", "c", "--image", image(), "-c",
                  "import time\nv = 5\nprint('started', flush=True)\ntime.sleep(600)", stdout=subprocess.PIPE,
                  stderr=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "started\n"
    p.send_signal(2)
    assert p.wait(120) == 130
    assert cell("c", "v").stdout.strip() == "5"


def test_large_output_is_bounded_and_kept():
    r = result("o", "for i in range(60000): print('line', i)")
    assert len(r["stdout"]) < 300000, len(r["stdout"])
    assert r["stdout"].startswith("line 0\n") and r["stdout"].rstrip().endswith("line 59999"), r["stdout"][-200:]
    assert r["omitted"]["bytes"] > 0, r["omitted"]
    whole = cell("o", f"t = open({r['omitted']['file']!r}).read(); print(len(t.splitlines()), t.splitlines()[31000])")
    assert whole.stdout.strip() == "60000 line 31000", whole


def test_flood_leaves_memory_flat():
    cell("o", "pass")
    daemon = box.daemon_pid()

    def rss():
        with open(f"/proc/{daemon}/status") as f:
            return int([l for l in f if l.startswith("VmRSS")][0].split()[1])

    before = rss()
    r = result("o", "import os\nb = b'x' * 65536\nfor i in range(1600): os.write(1, b)", "--timeout", "100")
    assert r["status"] == "ok", r["status"]
    assert rss() - before < 32 * 1024, (before, rss())


def test_invalid_utf8_and_nul_in_output():
    r = result("o", r"import os; os.write(1, b'a\xff\x00b\xed\xa0\x80\n')")
    assert r["stdout"].startswith("a") and "b" in r["stdout"], r
    r["stdout"].encode("utf-8")


def test_streams_as_it_goes():
    p = box.popen("run", "--session", "s", "--image", image(), "-c",
                  "import time\nprint('first', flush=True)\nwhile True:\n"
                  "    import os\n    if os.path.exists('go'): break\n    time.sleep(0.01)\nprint('second')",
                  stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "first\n"
    assert box("cp", "/etc/hostname", "s:go").returncode == 0  # files while a cell runs
    assert p.stdout.read() == "second\n" and p.wait() == 0


def test_files_both_ways():
    data = os.urandom(300000)
    src = os.path.join(box.dir, "data.bin")
    with open(src, "wb") as f:
        f.write(data)
    box("cp", src, "f0:sub/dir/data.bin")  # no such session: an error
    cell("f", "pass")
    assert box("cp", src, "f:sub/dir/data.bin").returncode == 0
    r = cell("f", "import hashlib; print(hashlib.sha256(open('sub/dir/data.bin','rb').read()).hexdigest())")
    import hashlib
    assert r.stdout.strip() == hashlib.sha256(data).hexdigest(), r
    back = os.path.join(box.dir, "back.bin")
    assert box("cp", "f:sub/dir/data.bin", back).returncode == 0
    with open(back, "rb") as f:
        assert f.read() == data


def test_files_of_other_kinds_are_refused():
    cell("f", "import os, socket\nos.mkfifo('fifo')\ns = socket.socket(socket.AF_UNIX); s.bind('sock')\n"
         "os.symlink('/etc/passwd', 'link')\nos.truncate(os.open('sparse', os.O_CREAT | os.O_WRONLY), 1 << 33)")
    out = os.path.join(box.dir, "out")
    for name in ("fifo", "sock", "/dev/zero", "/proc/self/mem", "nothing"):
        r = box("cp", f"f:{name}", out)
        assert r.returncode != 0 and r.stderr.strip(), (name, r)
    r = box("cp", "f:link", out)
    if r.returncode == 0:  # a link leads to the session's own /etc/passwd, never to the machine's
        with open(out) as f, open("/etc/passwd") as g:
            assert f.read() != g.read()


def test_threads_processes_and_libraries():
    r = cell("p", r"""
import multiprocessing as mp, sqlite3, tempfile, threading, subprocess, concurrent.futures as cf
def f(x): return x * x
with mp.Pool(2) as p: print(p.map(f, range(4)))
t = []
th = [threading.Thread(target=lambda i=i: t.append(i)) for i in range(4)]
[x.start() for x in th]; [x.join() for x in th]; print(sorted(t))
q = mp.Queue(); q.put(1); print(q.get())
print(mp.Value('i', 3).value, mp.Semaphore(2).acquire())
db = sqlite3.connect('x.db'); db.execute('create table t(a)'); db.execute('insert into t values (1)'); db.commit()
print(db.execute('select a from t').fetchall())
with tempfile.NamedTemporaryFile() as n: n.write(b'x')
print(subprocess.run(['sh', '-c', 'echo $HOME; pwd'], capture_output=True, text=True).stdout.split())
from multiprocessing import shared_memory
s = shared_memory.SharedMemory(create=True, size=100); s.close(); s.unlink()
print('done')
""")
    assert r.returncode == 0, (r.stdout, r.stderr)
    assert r.stdout.split("\n") == ["[0, 1, 4, 9]", "[0, 1, 2, 3]", "1", "3 True", "[(1,)]",
                                    "['/home/user', '/workspace']", "done", ""], r.stdout


def test_input_is_a_clear_error():
    r = cell("p", "input('name? ')")
    assert r.returncode == 1 and "input" in r.stderr + r.stdout, r


def test_sessions_end():
    box = Box(CODEBOX_POOL="0")  # no other session is on its way
    box("run", "--session", "gone", "--image", image(), "-c", "pass", check=True)
    assert len(sandboxes(box.daemon_pid())) == 3, sandboxes(box.daemon_pid())  # with the supervisor
    ids = [s["session_id"] for s in box.json("session", "ls", "--json")["sessions"]]
    assert "gone" in ids, ids
    box("session", "rm", "gone", check=True)
    assert wait_until(lambda: len(sandboxes(box.daemon_pid())) == 1)
    assert "gone" not in [s["session_id"] for s in box.json("session", "ls", "--json")["sessions"]]
    assert box("session", "rm", "gone").returncode != 0


def test_a_session_without_a_name_ends_with_its_client():
    def sessions():
        return {s["session_id"] for s in box.json("session", "ls", "--json")["sessions"]}

    box("run", "--image", image(), "-c", "pass", check=True)
    before = sessions()
    p = box.popen("run", "--image", image(), "-c", "import time; print('up', flush=True); time.sleep(600)",
                  stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "up\n"
    made = sessions() - before
    assert len(made) == 1, (before, made)
    p.kill()
    p.wait()
    assert wait_until(lambda: not made & sessions())


def test_unknown_image_says_what_there_is():
    r = box("run", "--image", "nonesuch", "-c", "1")
    assert r.returncode == 3 and "nonesuch" in r.stderr and "image build" in r.stderr, r


def test_fork_bomb_is_bounded():
    r = result("bomb", "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass",
               "--timeout", "2", timeout=200)
    assert r["status"] in ("timeout", "killed"), r["status"]
    assert cell("p", "print('neighbour')").stdout == "neighbour\n"
    box("session", "rm", "bomb", check=True, timeout=200)
    assert wait_until(lambda: len(children(box.daemon_pid())) < 100)


if __name__ == "__main__":
    run(globals())
