#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every attack of the file "table", outside of a sandbox, where it must succeed, and inside a session of each profile,
where it must answer what the table says. Then what takes two sessions or a look from the machine's side.

    run.py                    TAP
    run.py --show             what the probes answer now, in the table's format
    run.py --regenerate       write the file "syscalls" anew from what the sessions answer; look at the difference

CBX_PROBE is the static program (built as tests/probe/probe), CODEBOX the command."""
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from cbxtest import CODEBOX, Box, Skip, children, named, run, wait_until  # noqa: E402
from control import Control, ControlError  # noqa: E402

PROBE = os.environ.get("CBX_PROBE") or os.path.join(HERE, "probe")
PROFILES = ("strict", "default", "net", "dev")
SWEEP_LAST = 600
NATIVE = platform.machine() == "x86_64"
box = Box(CODEBOX_POOL="0")  # processes are counted: none but those of the sessions
warm = Box(CODEBOX_POOL="0", CODEBOX_ZYGOTES="1")
place = os.path.join(box.dir, "outside")
sessions = {}


def read_table():
    out = []
    with open(os.path.join(HERE, "table"), encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            text, _, reason = line.rstrip("\n").partition("  # ")
            if not text.strip() or text.startswith("#"):
                continue
            control, probe, outside, inside = re.split(r" {2,}", text.strip())
            answers = {}
            for word in inside.split():
                profile, colon, answer = word.partition(":")
                if colon and profile in PROFILES:
                    answers[profile] = answer
                else:
                    answers.update({p: word for p in PROFILES if p not in answers})
            assert 1 <= int(control) <= 86 and outside in ("ok", "ns", "-"), f"table:{number}"
            assert outside != "-" or reason, f"table:{number}: why can it not succeed outside?"
            assert set(answers) == set(PROFILES), f"table:{number}: an answer for every profile"
            out.append((int(control), probe, outside, answers))
    return out


TABLE = read_table()


def read_skips():
    with open(os.path.join(HERE, "skips"), encoding="utf-8") as f:
        return [tuple(re.split(r" {2,}", line.strip())[:2]) for line in f if line.strip() and not line.startswith("#")]


SKIPS = read_skips()


def outside(args, namespaces=False):
    """(exit status, answer) of the probe as the ordinary user that the test is, or that it becomes."""
    if not os.path.isdir(place):
        os.mkdir(place)
        shutil.copy(PROBE, place)
        os.chmod(os.path.join(place, "probe"), 0o755)
        if os.geteuid() == 0:
            os.chown(place, 65534, 65534)
    as_user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    r = subprocess.run([os.path.join(place, "probe"), *(["--ns"] if namespaces else []), *args], cwd=place,
                       stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, **as_user)
    return r.returncode, r.stdout.rstrip("\n").partition(" ")[2]


def session(profile, name="probe"):
    """The id of a session of that profile, with the probe in its workspace; made once."""
    key = f"{name}-{profile}"
    if key not in sessions:
        image = box.image("host", "python-minimal", "python")
        with Control(box) as c:
            c.call("session.create", session_id=key, image=image, profile=profile)
        box("cp", PROBE, f"{key}:probe", check=True)
        sessions[key] = key
    return sessions[key]


RUN_ALL = """
import json, subprocess
out = []
for args in json.loads(%r):
    r = subprocess.run(["./probe", *args], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    out.append([r.returncode, r.stdout.rstrip("\\n").partition(" ")[2], r.stderr])
print(json.dumps(out))
"""


def inside(name, commands, box=box):
    """[(exit status, answer)] of probes in a session; some at a time, since a policy may allow a cell two minutes."""
    out = []
    for at in range(0, len(commands), 10):
        code = RUN_ALL % json.dumps(commands[at:at + 10])
        r = box("run", "--session", name, "--timeout", "300", "-c", code, check=True, timeout=600)
        out += [tuple(x[:2]) for x in json.loads(r.stdout)]
    return out


def cell(name, code):
    return box("run", "--session", name, "-c", code, check=True).stdout.strip()


# ---- the table ----

first_answers = {}


def outside_answer(probe, how):
    key = (probe, how)
    if key not in first_answers:
        first_answers[key] = outside(probe.split(), how == "ns")
    return first_answers[key]


def test_every_attack_works_outside():
    wrong = []
    for _, probe, how, _ in TABLE:
        if how != "-":
            code, answer = outside_answer(probe, how)
            if code != 0 and not foreign(answer) and not any(w == f"answer={answer}" for t, w in SKIPS if t == f"outside {probe}"):
                wrong.append(f"{probe} ({how}): {answer or code}")
    assert not wrong, "outside of a sandbox these did not succeed:\n" + "\n".join(wrong)


def foreign(answer):
    """What only x86-64 has was asked elsewhere."""
    return answer == "not-x86" and platform.machine() != "x86_64"


def with_image(probe, want, manifest):
    """What the table says of every sandbox, and what is this image's own: its layers and its environment."""
    more = {"mounts": [layer["target"] for layer in manifest["layers"]], "environment": manifest.get("environment", {})}
    return ",".join(sorted({*want.split(","), *more[probe]})) if probe in more else want


def check_table(name, profile, box=box):
    got = inside(name, [p.split() for _, p, _, _ in TABLE], box)
    info = box.json("session", "info", "--json", name)
    manifest = box.json("image", "show", info["image"])
    memory = str(info["limits"]["memory_bytes"])
    wrong = []
    for (_, probe, how, answers), (_, answer) in zip(TABLE, got):
        want = with_image(probe, answers[profile], manifest)
        if foreign(answer):
            continue
        if want == "differs":
            ours = outside_answer(probe, "ok")[1]
            if answer == ours or not answer.startswith(ours.split("[")[0]):
                wrong.append(f"{probe}: {answer!r}, and {ours!r} outside")
        elif answer != want and answer not in [memory if w == "memory" else w for w in want.split("/")]:
            wrong.append(f"{probe}: {answer!r} is not {want!r}")
    assert not wrong, f"profile {profile}:\n" + "\n".join(wrong)


def check_profile(profile):
    check_table(session(profile), profile)


def test_profile_default():
    check_profile("default")


def test_profile_strict():
    check_profile("strict")


def test_profile_net():
    check_profile("net")


def test_profile_dev():
    check_profile("dev")


def preloading_image():
    """An image that names modules for a warm interpreter to load; None: there is none in the store."""
    listed = warm.json("image", "ls", "--json")
    for image in listed["images"] if isinstance(listed, dict) else listed:
        if image.get("preload") and not image.get("damaged"):
            return image["name"]
    return None


def test_an_interpreter_from_a_zygote_is_held_as_well():
    """It was not executed by init: what it gives up, it gave up by the same function, called in another program."""
    image = preloading_image()
    if image is None:
        raise Skip("no image has modules to load in advance")
    with Control(warm) as c:
        seen = []

        def from_a_zygote():
            c.call("session.create", session_id="warm", image=image, profile="default")
            c.call("run", session_id="warm", code="pass")
            seen.append(c.call("session.info", session_id="warm")["interpreter"]["started_by"])
            if seen[-1] != "zygote":
                c.call("session.close", session_id="warm")
                time.sleep(0.5)
            return seen[-1] == "zygote"
        assert wait_until(from_a_zygote, 600), f"after {len(seen)} sessions none came from a zygote"
    warm("cp", PROBE, "warm:probe", check=True)
    check_table("warm", "default", warm)
    info = warm.json("session", "info", "--json", "warm")
    assert info["interpreter"]["started_by"] == "zygote", "the table was answered by another interpreter"


# ---- every system call, without arguments ----

def sweep_file():
    with open(os.path.join(HERE, "syscalls"), encoding="utf-8") as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                number, name, codes = line.split()
                yield int(number), name, dict(zip(PROFILES, codes))


def sweep(profile):
    name = session(profile)
    (code, letters), = inside(name, [["--sweep", "0", str(SWEEP_LAST)]])
    assert code == 0 and len(letters) == SWEEP_LAST + 1, (code, letters)
    return letters


def test_every_system_call_number():
    if not NATIVE:
        raise Skip("the numbers are those of x86-64")
    code, free = outside(["--sweep", "0", str(SWEEP_LAST)])
    assert code == 0 and free.count("a") > 300, free
    wrong = []
    for profile in PROFILES:
        got = sweep(profile)
        listed = {n: (name, codes[profile]) for n, name, codes in sweep_file()}
        for n in range(SWEEP_LAST + 1):
            name, want = listed.get(n, ("-", "N"))
            # A call that this kernel has not got (one newer one passes by every filter: uretprobe); and a number that
            # an older libseccomp has no name for.
            missing = want == "a" and got[n] in "NE" and free[n] == "N" or got[n] == "N" and n >= 440
            if got[n] != want and not missing:
                wrong.append(f"{profile}: {n} {name}: {got[n]}, not {want}")
    assert not wrong, "\n".join(wrong)


def regenerate():
    names = {}
    with open("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", encoding="utf-8") as f:
        for line in f:
            m = re.match(r"#define __NR_(\w+) (\d+)", line)
            if m:
                names[int(m[2])] = m[1]
    got = {p: sweep(p) for p in PROFILES}
    with open(os.path.join(HERE, "syscalls"), encoding="utf-8") as f:
        head = [line for line in f if line.startswith("#")]
    with open(os.path.join(HERE, "syscalls"), "w", encoding="utf-8") as f:
        f.writelines(head)
        for n in range(SWEEP_LAST + 1):  # one that only other kernels have (map_shadow_stack) must be kept by hand
            codes = "".join(got[p][n] for p in PROFILES)
            if codes.strip("N"):
                f.write(f"{n} {names.get(n, '-')} {codes}\n")


# ---- one session, seen from inside and from the machine ----

def descendants():
    return children(box.daemon_pid())


def inits():
    """Host pids of the sandboxes' first processes."""
    return named(box.daemon_pid(), "codebox-init")


def test_masks_share_one_file_system():
    lines = cell(session("default"), "print(open('/proc/self/mountinfo').read())").splitlines()
    masks = {}
    for line in lines:
        f = line.split()
        if f[4].startswith("/proc/") and f[3] in ("/proc/empty", "/null"):
            masks.setdefault(f[3], set()).add(f[2])
    assert set(masks) == {"/proc/empty", "/null"} and all(len(devices) == 1 for devices in masks.values()), masks


def test_mounts_tell_nothing_of_the_machine():
    """No path, disk, or, where sessions have ids of their own, user: all that is shown is the session's own or memory."""
    for profile in PROFILES:
        for line in cell(session(profile), "print(open('/proc/self/mountinfo').read())").splitlines():
            fields, _, rest = line.partition(" - ")
            kind, source, options = rest.split(" ", 2)
            root = fields.split()[3]
            assert kind in ("overlay", "tmpfs", "proc", "devtmpfs", "devpts", "mqueue"), line
            assert source in ("none", "devtmpfs", "udev", "tmpfs", "dev"), line
            assert root == "/" or root.count("/") == 1 or root.startswith("/proc/"), line
            assert os.path.dirname(CODEBOX) not in line and os.environ.get("HOME", "/nonexistent") + "/" not in line, line
            if owned_ids():
                assert f"uid={os.geteuid()}," not in options + ",", line


def test_the_boot_id_is_the_sessions_own():
    read = "print(open('/proc/sys/kernel/random/boot_id').read(), end='')"
    a, b = (cell(session(p), read) for p in ("default", "net"))
    with open("/proc/sys/kernel/random/boot_id") as f:
        assert len({a, b, f.read().strip()}) == 3, (a, b)
    assert uuid.UUID(a).version == 4 and cell(session("default"), read) == a, a


def test_control_groups_are_not_shown():
    lines = cell(session("default"), "print(open('/proc/self/cgroup').read())").splitlines()
    # Where there are control groups, the session's interpreters are in "work", beside init's: nothing above is named.
    assert lines and all(re.fullmatch(r"\d+:[^:]*:/(\.\./work)?", line) for line in lines), lines


def test_maps_name_only_files_of_the_sandbox():
    got = cell(session("default"), """
import os
print([p for p in {l.split(None, 5)[5].strip() for l in open('/proc/self/maps') if len(l.split(None, 5)) > 5}
       if p.startswith('/') and not os.path.exists(p)])""")
    assert got == "[]", got


def test_a_crash_leaves_no_core():
    got = cell(session("default"), """
import glob, os, signal, subprocess
p = subprocess.run(["sh", "-c", "kill -SEGV $$"])
print(p.returncode, [f for d in ("/workspace", "/tmp", "/home/user") for f in os.listdir(d) if "core" in f])""")
    assert got == "-11 []", got


def test_mounts_of_the_machine_stay_as_they_are():
    def mountinfo():
        with open("/proc/self/mountinfo") as f:
            return f.read()
    session("default")
    before = mountinfo()
    for _ in range(20):
        box("run", "--image", box.image("host", "python-minimal", "python"), "-c", "pass", check=True)
    assert mountinfo() == before


def test_state_is_closed_to_others():
    session("default")
    with open(f"/proc/{box.daemon_pid()}/status") as f:
        uid = int(re.search(r"(?m)^Uid:\s+(\d+)", f.read())[1])
    sockets = box.env["CODEBOX_RUNTIME_DIR"]
    assert "control.sock" in os.listdir(sockets) and os.path.isdir(box.env["CODEBOX_STATE_DIR"])
    # The sockets are in a directory that one user alone can enter; and root, by its group where codeboxd has given root up.
    found = os.stat(sockets)
    if os.geteuid() == 0:
        assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (uid, 0, 0o750), (uid, found)
    else:
        assert (found.st_uid, found.st_mode & 0o777) == (uid, 0o700), (uid, found)
    assert os.stat(box.env["CODEBOX_STATE_DIR"]).st_mode & 0o007 == 0, oct(os.stat(box.env["CODEBOX_STATE_DIR"]).st_mode)


def test_session_names_are_checked():
    session("default")
    with Control(box) as c:
        for name in ("..", ".", "a/b", "/etc", "x" * 300, "a b", "a\nb", "a\x00b", "-a", "é", ""):
            try:
                c.call("session.create", session_id=name, image=box.image("host", "python-minimal", "python"))
            except ControlError:
                continue
            raise AssertionError(f"a session with the name {name!r} was made")


def test_what_was_put_in_the_background_ends_with_the_session():
    image = box.image("host", "python-minimal", "python")
    before = set(descendants())
    box("run", "--session", "bg", "--image", image, "-c", """
import os, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(10000)
        os._exit(0)
    os.wait()
""", check=True)
    assert wait_until(lambda: len(set(descendants()) - before) >= 5), set(descendants()) - before
    box("session", "rm", "bg", check=True)
    assert wait_until(lambda: not set(descendants()) - before), set(descendants()) - before


def test_pid_1_cannot_be_killed_from_inside():
    name = session("default")
    got = cell(name, "import os, signal\nfor s in range(1, 65):\n    os.kill(1, s)\nprint(os.path.exists('/proc/1'))")
    assert got == "True" and cell(name, "print(1)") == "1"


def test_a_crippled_proc_is_refused():
    """The kernel grants a new /proc only to who can see a whole one: elsewhere a clean error, never the machine's."""
    if os.geteuid() == 0:
        raise Skip("root's codeboxd is given its mounts by the machine")
    image = box.image("host", "python-minimal", "python")
    script = 'mount -t tmpfs none /proc/irq || exit 9; "$1" run --image "$2" -c 1; echo "status $?"; "$1" stop'
    nested = tempfile.mkdtemp(dir=box.dir)
    env = {**box.env, "CODEBOX_RUNTIME_DIR": os.path.join(nested, "r"), "CODEBOX_STATE_DIR": os.path.join(nested, "s")}
    r = subprocess.run(["unshare", "-U", "--map-current-user", "--keep-caps", "-mpf", "--mount-proc", "sh", "-c",
                        script, "sh", CODEBOX, image], env=env, capture_output=True, text=True, timeout=600)
    assert r.returncode == 0, (r.returncode, r.stdout, r.stderr)
    status = [line for line in r.stdout.splitlines() if line.startswith("status ")]
    assert status and status[0] != "status 0", r.stdout
    assert "proc" in r.stderr, r.stderr


# ---- two sessions ----

def pair():
    return session("default"), session("default", "other")


def owned_ids():
    """Is there a range of ids, so that each session has one of its own?"""
    user = os.environ.get("USER") or str(os.geteuid())
    try:
        with open("/etc/subuid") as f:
            ranges = [line.split(":")[0] for line in f]
    except OSError:
        ranges = []
    return os.geteuid() == 0 or user in ranges or str(os.geteuid()) in ranges


def test_sessions_have_ids_of_their_own():
    a, b = pair()
    hosts = []
    for pid in inits():
        try:
            with open(f"/proc/{pid}/uid_map") as f:
                inside_id, host_id, count = f.read().split()
        except OSError:
            continue  # its session has just ended
        assert (inside_id, count) == ("1000", "1") and host_id != "0", (inside_id, host_id, count)
        hosts.append(host_id)
    if not owned_ids():
        raise Skip("no range of ids")
    assert len(set(hosts)) == len(hosts) >= 2, hosts


def test_file_locks_are_not_shared():
    code = ("import fcntl, os; f = open(os.__file__); fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB); print('locked')")
    for name in pair():
        assert cell(name, code) == "locked"
    # The same lock is seen within one session, or the probe would show nothing.
    again = code.replace("f = open", "g = open").replace("flock(f", "flock(g").replace("print", "print('twice'); print")
    r = box("run", "--session", pair()[0], "-c", again)
    assert "BlockingIOError" in r.stderr + r.stdout, (r.stdout, r.stderr)


def test_inotify_does_not_see_another_session():
    a, b = pair()
    watch = """
import ctypes, os
libc = ctypes.CDLL(None)
fd = libc.inotify_init1(os.O_NONBLOCK)
assert libc.inotify_add_watch(fd, os.__file__.encode(), 0x20) >= 0
def seen():
    try:
        return len(os.read(fd, 4096)) > 0
    except BlockingIOError:
        return False
seen()
print(seen())"""
    assert cell(b, watch) == "False"
    cell(a, "import os; open(os.__file__).read()")
    assert cell(b, "print(seen())") == "False"
    assert cell(b, "open(os.__file__).read(); print(seen())") == "True"


def test_shared_memory_files_are_not_shared():
    a, b = pair()
    cell(a, "open('/dev/shm/probe', 'w').write('a'); open('/tmp/probe', 'w').write('a')")
    assert cell(b, "import os; print(os.path.exists('/dev/shm/probe'), os.path.exists('/tmp/probe'))") == "False False"
    assert not os.path.exists("/dev/shm/probe")


def test_ipc_objects_are_not_shared():
    a, b = pair()
    make = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
KEY = 0x0c0deb0c
print(libc.shmget(KEY, 4096, 0o1666) >= 0, libc.msgget(KEY, 0o1666) >= 0, libc.semget(KEY, 1, 0o1666) >= 0)"""
    find = make.replace("0o1666", "0o666")
    assert cell(a, make) == "True True True"
    assert cell(a, find) == "True True True"
    assert cell(b, find) == "False False False"


def test_abstract_sockets_are_not_shared():
    a, b = pair()
    listen = """
import socket
s = socket.socket(socket.AF_UNIX)
s.bind('\\0codebox-probe')
s.listen()
print(True)"""
    assert cell(a, listen) == "True"
    assert inside(a, [["unix-connect", "@codebox-probe"]])[0] == (0, "ok")
    assert inside(b, [["unix-connect", "@codebox-probe"]])[0] == (1, "ECONNREFUSED")
    assert outside(["unix-connect", "@codebox-probe"]) == (1, "ECONNREFUSED")


def test_sockets_of_the_machine_are_not_reached():
    name = f"codebox-probe-{os.getpid()}"
    path = os.path.join(box.dir, "socket")
    with socket.socket(socket.AF_UNIX) as s, socket.socket(socket.AF_UNIX) as t:
        s.bind("\0" + name)
        s.listen()
        t.bind(path)
        os.chmod(path, 0o777)
        t.listen()
        assert outside(["unix-connect", "@" + name]) == (0, "ok")
        assert outside(["unix-connect", path]) == (0, "ok")
        for profile in PROFILES:
            got = inside(session(profile), [["unix-connect", "@" + name], ["unix-connect", path]])
            assert got == [(1, "ECONNREFUSED"), (1, "ENOENT")], (profile, got)


def test_processes_are_not_reached():
    a, b = pair()
    cell(a, "import subprocess; p = subprocess.Popen(['sleep', '1000'])")
    pids = [p for p in inits()] + [os.getpid()]
    got = inside(b, [["kill", str(p), "0"] for p in pids])
    assert all(g == (1, "ESRCH") for g in got), got
    assert outside(["kill", str(os.getpid()), "0"])[1] in ("ok", "EPERM")
    # And kill(-1) ends at the session's own.
    cell(b, "import subprocess; q = subprocess.Popen(['sleep', '1000'])")
    inside(b, [["kill", str(os.getpid()), "0"]])
    assert cell(a, "print(p.poll())") == "None"


# ---- the list of controls ----

def test_every_control_is_listed_once():
    source = os.path.join(HERE, "..", "..")
    if not os.path.exists(os.path.join(source, "SECURITY.md")):
        raise Skip("the sources are not here")
    with open(os.path.join(HERE, "CONTROLS.md"), encoding="utf-8") as f:
        rows = [line.split("|")[1:-1] for line in f if re.match(r"\| \d+ ", line)]
    assert [int(r[0]) for r in rows] == list(range(1, len(rows) + 1)) and len(rows) >= 87, [int(r[0]) for r in rows]
    tabled = {control for control, *_ in TABLE}
    for number, name, place, shown in rows:
        assert len(name.strip()) > 5 and place.strip() and shown.strip(), number
        for path in re.findall(r"`([^`]+)`", place + shown):
            assert os.path.exists(os.path.join(source, path)), f"{number.strip()}: there is no {path}"
        # What the table is said to show, it shows.
        assert ("table" in shown and "table: " not in shown) == (int(number) in tabled) or "table: " in shown, number


# ---- the end ----

skipped = set()


def condition(when):
    if when == "not-x86-64":
        return not NATIVE
    if when == "no-sources":
        return not os.path.exists(os.path.join(HERE, "..", "..", "SECURITY.md"))
    if when == "no-preload":
        return preloading_image() is None
    if when == "root":
        return os.geteuid() == 0
    return None


def test_nothing_else_was_skipped():
    listed = {t: w for t, w in SKIPS if not t.startswith("outside ")}
    unknown = {t for t in skipped if t not in listed or condition(listed[t]) is False}
    assert not unknown, f"skipped, and not listed for this machine: {sorted(unknown)}"
    due = {t for t, w in listed.items() if condition(w) and t not in skipped}
    assert not due, f"listed as skipped on this machine, and was not: {sorted(due)}"


def noting(name, f):
    def test():
        try:
            f()
        except Skip:
            skipped.add(name)
            raise
    return test


def main():
    if "--regenerate" in sys.argv:
        return regenerate()
    try:
        session("default")
    except Skip as e:
        print(f"1..0 # SKIP {e}")
        return
    tests = {n: f for n, f in globals().items() if n.startswith("test_")}
    last = tests.pop("test_nothing_else_was_skipped")
    run({**{n: noting(n[5:].replace("_", " "), f) for n, f in tests.items()}, "test_nothing_else_was_skipped": last})


if __name__ == "__main__":
    main()
