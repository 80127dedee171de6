#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGKILL at named moments. strace stops a process right after the system call that is the moment; then codeboxd, the
supervisor, or the process itself is killed. Afterwards no process, mount, control group or file is left, the client has
had an answer, and the next session works.

CBX_KILL_POINTS=N: at each of them all three are killed, one after another; and at N moments more, spread evenly over
all system calls of a session's life."""
import collections
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import kill  # noqa: E402
import cbxtest  # noqa: E402
from cbxtest import Box, Skip, children, identity, run, sandboxes, wait_until  # noqa: E402
from tracing import Strace, status, supervisor  # noqa: E402

MORE = int(os.environ.get("CBX_KILL_POINTS", "0"))
WATCHING = r'(poll|restart_syscall|openat\(AT_FDCWD, "/proc/\d+/(task|stat|smaps_rollup)|read|close|clock_get\w+)\b'
boxes = {}
traces = {}

# What happens, the moment, whose call it is, and the call. Whose: the supervisor's, that of the process that becomes
# init, of the zygote, of its embryo, of the interpreter.
POINTS = [
    ("create", "between the clone and the handshake", "supervisor", r'openat\(AT_FDCWD, "/proc/\d+/uid_map"'),
    ("create", "between two id maps", "supervisor", r"write\(\d+, \"deny\""),
    ("create", "after the handshake", "supervisor", r"write\(\d+, \"g\", 1"),
    ("create", "when the image is opened", "init", r'openat2\(AT_FDCWD, "images/'),
    ("create", "with half of the mounts made", "init", r"mount_setattr\("),
    ("create", "after the mounts, before the lockdown", "init", r"umount2\("),
    ("create", "between lockdown and init", "init", r"seccomp\(SECCOMP_SET_MODE_FILTER"),
    ("create", "when init tells that it is there", "init", r"sendmsg\(3,"),
    ("create", "when codeboxd is told", "supervisor", r"sendmsg\(3,"),
    ("zygote", "on the way into the sandbox", "embryo", r"setns\("),
    ("zygote", "when the embryo is about to go on as a child", "embryo", r"set_tid_address\("),
    ("zygote", "when the zygote has told", "zygote", r"sendto\(3,"),
    ("zygote", "before the interpreter's lockdown", "interpreter", r"setsid\("),
    ("zygote", "after the interpreter's lockdown", "interpreter", r"seccomp\(SECCOMP_SET_MODE_FILTER"),
    ("zygote", "in the midst of the verification", "supervisor", r'newfstatat\(AT_FDCWD, "/proc/\d+/ns/net'),
    ("zygote", "after the control group was moved into", "supervisor", r'openat\(\d+, "cgroup.procs"'),
    ("zygote", "after the verification", "supervisor", r'newfstatat\(AT_FDCWD, "/proc/\d+/root'),
    ("export", "when the file is opened", "init", r'open(at\(AT_FDCWD, |\()"/workspace/big"'),
    ("export", "in the midst of the file", "init", r"pread64\("),
    ("import", "in the midst of the file", "init", r"(write|pwrite64)\("),
    ("close", "when the sandbox is told to die", "supervisor", r"pidfd_send_signal\("),
    ("close", "when it has died, before codeboxd knows", "supervisor", r"wait4\("),
    ("close", "when codeboxd knows", "supervisor", r"sendmsg\(3,"),
]
VICTIMS = ("codeboxd", "supervisor", "itself")


def box_for(what):
    """Zygotes are processes too: only where they are what it is about."""
    zygotes = "1" if what == "zygote" else "0"
    if zygotes not in boxes:
        boxes[zygotes] = Box(CODEBOX_POOL="0", CODEBOX_ZYGOTES=zygotes)
    return boxes[zygotes]


def ready(what):
    """A codeboxd with whatever is there before it happens."""
    box = box_for(what)
    image = box.image("host", "python-minimal", "python") if what != "zygote" else box.image("python-minimal", "python")
    box("run", "--image", image, "-c", "pass", check=True)
    if what == "zygote":
        log = os.path.join(box.env["CODEBOX_STATE_DIR"], "codeboxd.log")
        told = f"codeboxd[{box.daemon_pid()}]"

        def warm():
            with open(log) as f:
                return any("ready after" in line for line in f if told in line)
        if not wait_until(warm):
            raise AssertionError("no zygote")
    if what in ("export", "import", "close"):
        box("run", "--session", "s", "--image", image, "-c", "open('big', 'wb').write(bytes(1 << 20))", check=True)
    # Beside the supervisor: the zygote and its embryo, or a session's init and interpreter. What was before has then
    # ended.
    expected = {"create": 1}.get(what, 3)
    assert wait_until(lambda: len(sandboxes(box.daemon_pid())) == expected), "a session does not end"
    return box, image


def command(box, image, what):
    if what in ("create", "zygote"):
        return ["run", "--image", image, "-c", "print('made')"]
    if what == "close":
        return ["session", "rm", "s"]
    return ["cp", "s:big", os.path.join(box.dir, "out")] if what == "export" else ["cp", payload(box), "s:in"]


def payload(box):
    path = os.path.join(box.dir, "payload")
    with open(path, "wb") as f:
        f.write(bytes(1 << 20))
    return path


def family(box):
    daemon = box.daemon_pid()
    return [f for f in map(identity, [daemon] + children(daemon)) if f]


def role(pid, sup, before, what):
    """Whose call it is that `pid` made."""
    if pid == sup:
        return "supervisor"
    s = status(pid)
    if s["NSpid"].split()[-1] == "1":
        return "init"
    if what == "zygote" and len(s["NSpid"].split()) == len(status(sup)["NSpid"].split()):  # in no sandbox
        return "zygote" if int(s["PPid"]) == sup else "embryo"
    return "interpreter"


def left(box, sup, before, what):
    """What has come since, and is not the next embryo."""
    try:
        return [p for p in set(sandboxes(box.daemon_pid())) - before if role(p, sup, before, what) != "embryo"]
    except OSError:  # it has just ended; look again
        return [0]


def trace(what):
    """[(role, call)] of once what happens, in the order of time."""
    if what in traces:
        return traces[what]
    box, image = ready(what)
    sup, before = supervisor(box), set(sandboxes(box.daemon_pid()))
    roles = {pid: role(pid, sup, before, what) for pid in before}
    with Strace(box, before) as s:
        r = box(*command(box, image, what))
        assert r.returncode == 0, r
        # A session without a name is closed at its end, and that too is to be seen.
        assert wait_until(lambda: what in ("export", "import") or [1 for _, c in s.calls() if c.startswith("wait4(-1")])
        assert wait_until(lambda: not left(box, sup, before, what))
        calls = s.calls()
    for pid, call in calls:
        roles.setdefault(pid, "interpreter")
        if call.startswith(("pivot_root(", "setns(")):
            roles[pid] = "init" if call[0] == "p" else "embryo"
    traces[what] = [(roles[pid], call) for pid, call in calls]
    return traces[what]


def moment(what, whose, pattern):
    """(system call, which of those that this process makes), or None where there is no such call."""
    before = collections.Counter()
    for r, call in trace(what):
        if r == whose:
            name = re.match(r"\w+", call)[0]
            before[name] += 1
            if re.match(pattern, call) and not re.match(WATCHING, call):
                return name, before[name]
    return None


def stopped_ones(s):
    return {int(m[1]) for m in (re.match(r"(\d+) +--- stopped by SIGSTOP ---", line) for line in s.lines()) if m}


def let_go(pids, seen):
    """Others come to their call of this number, too, and some when the moment is over."""
    for pid in pids - seen:
        seen.add(pid)
        try:
            os.kill(pid, signal.SIGCONT)
        except OSError:  # it has been killed with its sandbox
            pass


def stop_at(s, whose, sup, before, what, client, seen):
    """The pid of the process that strace has stopped at the moment; None if it was not come to."""
    def look():
        for pid in stopped_ones(s) - seen:
            try:
                if role(pid, sup, before, what) == whose:
                    found.append(pid)
                    return True
            except OSError:
                pass
            let_go({pid}, seen)
        return False
    found = []
    wait_until(lambda: look() or client.poll() is not None)
    found or wait_until(look, 20)  # some of it comes after the answer
    return found[0] if found else None


def once(what, whose, name, number, victim):
    """What went wrong, or None. "" where the moment was not come to: then nothing was killed."""
    box, image = ready(what)
    before_mounts, before_tmp = kill.mounts(), set(os.listdir("/tmp"))
    daemon, sup = box.daemon_pid(), supervisor(box)
    before = set(sandboxes(daemon))
    client, pid, seen = None, None, set()
    with Strace(box, before, "-e", f"trace={name}", "-e", f"inject={name}:signal=STOP:when={number}") as s:
        client = box.popen(*command(box, image, what), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            pid = stop_at(s, whose, sup, before, what, client, seen)
            if pid is None:
                return ""
            all_of_it = family(box)
            stopped = identity(pid)
            os.kill({"codeboxd": daemon, "supervisor": sup, "itself": pid}[victim], signal.SIGKILL)
            ends = victim != "itself" or pid == sup
            mortal = all_of_it if ends else [stopped]
            if not wait_until(lambda: let_go(stopped_ones(s) - {pid}, seen) or not any(map(kill.alive, mortal))):
                return f"{[cbxtest.command(f[0]) for f in all_of_it if kill.alive(f)]} live on"
            if not wait_until(lambda: let_go(stopped_ones(s) - {pid}, seen) or client.poll() is not None, 120):
                return "the client waits on"
        finally:
            client.kill()
            client.stderr.close()
            client.wait()
            s.close()
            let_go(stopped_ones(s), seen)
    if not ends:
        if box.daemon_pid() != daemon:
            return "codeboxd did not survive it"
        box("session", "rm", "--all")
        # A zygote that was killed is started anew; it is nobody's session.
        if not wait_until(lambda: not cbxtest.named(daemon, "codebox-init")):
            return "a sandbox is left"
    r = box("run", "--image", image, "-c", "print(6 * 7)")
    if r.stdout != "42\n":
        return f"the next session: {r.stdout!r} {r.stderr!r}"
    box("stop")
    try:
        kill.leftovers(before_mounts, before_tmp, box)
    except AssertionError as e:
        return f"left: {e}"
    return None


def attempt(what, whose, name, number, victims, called):
    wrong = []
    for victim in victims:
        r = once(what, whose, name, number, victim)
        if r is not None:
            wrong.append(f"{what}, {called} ({whose}: {name} number {number}), {victim} killed: " +
                         (r or "was not come to"))
    return wrong


def named(what):
    wrong, n = [], 0
    for i, (w, called, whose, pattern) in enumerate(POINTS):
        at = moment(what, whose, pattern) if w == what else None
        if w != what or (at is None and "control group" in called):
            continue  # where no control groups are delegated
        if at is None:
            wrong.append(f"{what}, {called}: no such call was seen")
            continue
        victims = VICTIMS[:2] if whose == "supervisor" else VICTIMS
        n += 1
        wrong += attempt(what, whose, *at, victims if MORE else [victims[i % len(victims)]], called)
    print(f"# {what}: {n} moments", flush=True)
    assert not wrong, "\n".join(wrong)


def test_while_a_session_is_made():
    named("create")


def test_while_an_interpreter_is_forked_from_a_warm_one():
    named("zygote")


def test_while_a_file_is_fetched():
    named("export")


def test_while_a_file_is_brought():
    named("import")


def test_while_a_session_is_closed():
    named("close")


def test_at_moments_all_over():
    if not MORE:
        raise Skip("CBX_KILL_POINTS says how many")
    every = []
    for what in ("create", "zygote", "export", "import", "close"):
        count = collections.Counter()
        for whose, call in trace(what):
            name = re.match(r"\w+", call)[0]
            count[whose, name] += 1
            if not re.match(WATCHING, call) and whose in ("supervisor", "init", "zygote", "between", "interpreter"):
                every.append((what, whose, name, count[whose, name]))
    chosen = every[::max(1, len(every) // MORE)]
    wrong = missed = 0
    messages = []
    for i, (what, whose, name, number) in enumerate(chosen):
        r = once(what, whose, name, number, VICTIMS[i % 2 if whose == "supervisor" else i % 3])
        if r == "":
            missed += 1  # not every run makes the same calls
        elif r:
            wrong += 1
            messages.append(f"{what}: {whose}: {name} number {number}: {r}")
    print(f"# {len(chosen)} of {len(every)} moments, {missed} not come to", flush=True)
    assert not wrong, "\n".join(messages)
    assert missed <= len(chosen) // 4, (missed, len(chosen))


if __name__ == "__main__":
    run(globals())
