#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each promise of SECURITY.md ("What codebox promises") by its name, in every profile: what a session tries, and that the
same succeeds outside or within the session, so that it shows something. The last tests compare the names, and hold all that
SECURITY.md and codebox-security(7) say to the file "promised", which names a test for each sentence."""
import json
import os
import re
import socket
import subprocess
import sys
from itertools import zip_longest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from cbxtest import Box, children, run, wait_until  # noqa: E402
from control import Control  # noqa: E402

PROFILES = ("strict", "default", "net", "dev")
SOURCE = os.path.join(HERE, "..", "..")
box = Box(CODEBOX_POOL="0")
made = set()

# Each expression of a list, tried in a process of its own: "ok", or the error's name.
TRY = """
import ctypes, errno, fcntl, json, os, signal, socket, subprocess
def attempt(code):
    r, w = os.pipe()
    if os.fork() == 0:
        try:
            exec(code, globals())
            said = "ok"
        except OSError as e:
            said = errno.errorcode.get(e.errno, str(e.errno))
        os.write(w, said.encode())
        os._exit(0)
    os.close(w)
    said = os.read(r, 100).decode()
    os.close(r)
    os.wait()
    return said
print(json.dumps([attempt(code) for code in %r]))
"""


def session(profile, name="promise"):
    name = f"{name}-{profile}"
    if name not in made:
        with Control(box) as c:
            c.call("session.create", session_id=name, image=box.image("python", "python-minimal", "host"),
                   profile=profile)
        made.add(name)
    return name


def cell(name, code):
    return box("run", "--session", name, "-c", code, check=True).stdout.strip()


def inside(profile, attempts, name="promise"):
    return json.loads(cell(session(profile, name), TRY % attempts))


def outside(attempts):
    r = subprocess.run([sys.executable, "-c", TRY % attempts], capture_output=True, text=True, timeout=300, check=True)
    return json.loads(r.stdout)


def refused(attempts, outside_too=()):
    for profile in PROFILES:
        got = inside(profile, attempts)
        assert "ok" not in got and "" not in got, (profile, list(zip(attempts, got)))
    works = outside(list(outside_too))
    assert works == ["ok"] * len(works), list(zip(outside_too, works))


def test_promise_files():
    secret = os.path.join(box.dir, "secret")
    with open(secret, "w") as f:
        f.write("x")
    os.chmod(secret, 0o666)
    tries = [f"open({secret!r})", f"open({secret!r}, 'a')", f"open('/proc/1/root' + {secret!r})"]
    refused(tries + ["open('/usr/promise', 'w')", "open('/etc/promise', 'w')", "os.chroot('/')",
                     "open('/dev/sda')", "os.listdir('/sys/kernel')"], tries[:2])


def test_promise_processes():
    tries = [f"os.kill({os.getpid()}, 0)", f"os.listdir('/proc/{os.getpid()}/fd')", f"os.getpriority(0, {os.getpid()})"]
    refused([*tries, "os.readlink('/proc/1/exe')"], tries)
    for profile in PROFILES:
        seen = cell(session(profile), "import os; print(len([p for p in os.listdir('/proc') if p.isdigit()]))")
        assert int(seen) <= 4, (profile, seen)


def test_promise_network():
    label = f"codebox-promise-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as s, socket.socket() as tcp:
        s.bind("\0" + label)
        s.listen()
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        tries = [f"socket.socket(socket.AF_UNIX).connect('\\0{label}')",
                 f"socket.socket().connect(('127.0.0.1', {tcp.getsockname()[1]}))"]
        refused([*tries, "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('192.0.2.1', 9))",
                 "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)"], tries)


def test_promise_privileges():
    refused(["os.setuid(0)", "os.setgid(0)", "os.setuid(1)", "os.setgroups([0])", "os.chown('/workspace', 0, 0)",
             "os.mknod('/tmp/promise', 0o20600, os.makedev(1, 3))", "socket.sethostname('x')"])
    for profile in PROFILES:
        got = cell(session(profile), "print([l.split()[1] for l in open('/proc/self/status') if l.startswith('Cap')])")
        assert set(re.findall(r"[0-9a-f]{16}", got)) == {"0" * 16}, (profile, got)


def test_promise_other_sessions():
    for profile in PROFILES:
        a, b = session(profile), session(profile, "other")
        cell(a, "import fcntl, os, socket, subprocess\nopen('/workspace/mine', 'w').write('x')\n"
                "open('/dev/shm/mine', 'w').write('x')\ns = socket.socket(socket.AF_UNIX)\ns.bind('\\0mine')\ns.listen()\n"
                "f = open(os.__file__)\nfcntl.flock(f, fcntl.LOCK_EX)\np = subprocess.Popen(['sleep', '1000'])")
        tries = ["open('/workspace/mine')", "open('/dev/shm/mine')", "socket.socket(socket.AF_UNIX).connect('\\0mine')"]
        assert inside(profile, tries) == ["ok"] * 3, profile
        assert "ok" not in inside(profile, tries, "other"), profile
        lock = ["fcntl.flock(open(os.__file__), fcntl.LOCK_EX | fcntl.LOCK_NB)"]
        assert inside(profile, lock) == ["EAGAIN"] and inside(profile, lock, "other") == ["ok"], profile
        others = cell(b, "import os; print(any('sleep' in open('/proc/%s/cmdline' % p).read() "
                         "for p in os.listdir('/proc') if p.isdigit() and p != '1'))")
        assert others == "False", profile


def test_promise_service():
    """A session that uses up what it has: others are made, and answer."""
    cell(session("default", "greedy"), """
import os, threading
held = []
try:
    for _ in range(10000):
        held.append(os.pipe())
except OSError:
    pass
for fd in [fd for pair in held[-4:] for fd in pair]:
    os.close(fd)
for _ in range(8):
    if os.fork() == 0:
        while True:
            pass
""")
    for n in range(3):
        assert cell(session("default", f"beside{n}"), f"print({n})") == str(n)
    box("session", "rm", "greedy-default", check=True)
    made.discard("greedy-default")


def test_promise_end():
    before = set(children(box.daemon_pid()))
    name = session("default", "ends")
    cell(name, "import os, time\nfor _ in range(3):\n    if os.fork() == 0:\n        os.setsid()\n        time.sleep(10000)")
    assert wait_until(lambda: len(set(children(box.daemon_pid())) - before) >= 4)
    box("session", "rm", name, check=True)
    made.discard(name)
    assert wait_until(lambda: not set(children(box.daemon_pid())) - before)


def test_each_promise_has_its_probe():
    with open(os.path.join(SOURCE, "SECURITY.md"), encoding="utf-8") as f:
        text = f.read().partition("It cannot\n")[2].partition("\nA client of codeboxd")[0]
    bullets = re.findall(r"(?m)^- (.*)", text)
    promises = [m[1] for m in (re.match(r"\*([a-z -]+)\*: ", b) for b in bullets) if m]
    assert len(promises) == len(bullets) >= 7, "a promise without a name"
    probes = [n[len("test_promise_"):].replace("_", " ") for n in globals() if n.startswith("test_promise_")]
    assert sorted(promises) == sorted(probes), (promises, probes)
    with open(os.path.join(HERE, "CONTROLS.md"), encoding="utf-8") as f:
        listed = re.findall(r"(?m)^\| \*([a-z -]+)\* \| ([\d, ]+) \|", f.read())
    assert sorted(n for n, _ in listed) == sorted(promises), listed
    with open(os.path.join(HERE, "table"), encoding="utf-8") as f:
        tabled = set(re.findall(r"(?m)^(\d+)  ", f.read()))
    for name, controls in listed:
        assert set(controls.split(", ")) & tabled, f"{name}: no line of the table"


def sentences(text):
    for paragraph in re.split(r"\n\n+|\n(?=- )", text):
        words = " ".join(paragraph.removeprefix("- ").split())
        if words and not words.startswith("#"):
            yield from re.split(r"(?<=[.;:!?])\s+(?=[A-Z`*(\"/-])", words)


def there(test, controls):
    """Whether a test, or a control that CONTROLS.md has, is there."""
    if test.startswith("#"):
        return test[1:] in controls
    name, colon, function = test.partition(":")
    path = os.path.join(SOURCE, "tests", name)
    if not os.path.exists(path):
        return False
    with open(path, encoding="utf-8") as f:
        return not colon or re.search(rf"^(async )?def test_{function}\(|^START_TEST\({function}\)", f.read(), re.M)


def test_each_sentence_has_its_test():
    with open(os.path.join(SOURCE, "SECURITY.md"), encoding="utf-8") as f:
        text = f.read().partition("## What codebox promises\n")[2].partition("\n## What it does not promise")[0]
    with open(os.path.join(SOURCE, "man", "codebox-security.7"), encoding="utf-8") as f:
        page = f.read().partition(".Ss ")[2].partition("\n.Sh SEE ALSO")[0]
    with open(os.path.join(HERE, "CONTROLS.md"), encoding="utf-8") as f:
        controls = set(re.findall(r"(?m)^\| (\d+) \|", f.read()))
    with open(os.path.join(HERE, "promised"), encoding="utf-8") as f:
        lines = [re.split(r" {2,}", line.strip()) for line in f if line.strip() and not line.startswith("#")]
    for line in lines:
        assert len(line) == 2 and line[1], line
        assert line[1] == "-" or not [test for test in line[1].split() if not there(test, controls)], line
    for sentence, (beginning, _) in zip_longest(sentences(text), lines[:-page.count("\n.Ss ") - 1], fillvalue=("", "")):
        assert beginning and sentence.startswith(beginning), f"in SECURITY.md: {sentence!r}; in promised: {beginning!r}"
    # Of the manual page, which tells the same at length, the sentences of each section are counted.
    for section, (beginning, _) in zip_longest(page.split("\n.Ss "), lines[-page.count("\n.Ss ") - 1:], fillvalue=("", "")):
        title, _, said = section.partition("\n")
        ends = len(re.findall(r"[.;:]$", re.sub(r"(?m)^\.(Dl|Pp|Bl|El).*$", "", said), re.M))
        assert beginning == f"{title}, {ends}", f"codebox-security(7) has {title}, {ends}; promised has {beginning}"


if __name__ == "__main__":
    run(globals())
