#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The order in which a sandbox is entered (src/sandbox/enter.c), as strace sees the process that enters; and for each
system call on that way: when it fails, there is no session, the error says at what, and nothing is left.

CBX_FAULTS=all tries every call; otherwise the first and the last of each name."""
import collections
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from cbxtest import Box, children, run, wait_until  # noqa: E402
import tracing  # noqa: E402

box = Box(CODEBOX_POOL="0")  # no sandbox but the one that was asked for
calls = []

# The steps of enter.c and lockdown.h: what the process that enters does at each, in this order. Numbers are those of
# enter.c's list.
CLONE = (1, r"clone3\(.*CLONE_NEWNS.*CLONE_NEWUTS.*CLONE_NEWIPC.*CLONE_NEWUSER.*CLONE_NEWPID.*CLONE_NEWNET")
BECOME_GROUP = (5, r"setresgid\(1000, 1000, 1000")
STEPS = [
    CLONE,
    (3, r"prctl\(PR_SET_PDEATHSIG, SIGKILL"),
    (3, r"setsid\("),
    (3, r"unshare\(CLONE_NEWCGROUP"),
    (3, r"socket\(AF_NETLINK"),
    (3, r"sethostname\("),
    (4, r"openat2\(.*O_PATH"),
    BECOME_GROUP,
    (5, r"setresuid\(1000, 1000, 1000"),
    (5, r"prctl\(PR_SET_PDEATHSIG, SIGKILL"),
    (6, r"mount\(NULL, .*MS_REC\|MS_PRIVATE"),
    (6, r"fsopen\("),
    (6, r"move_mount\("),
    (7, r"open_tree\("),
    (8, r"pivot_root\("),
    (8, r"umount2\(.*MNT_DETACH"),
    (None, r"chdir\("),
    (None, r"getcwd\("),
    (None, r"close_range\(4, .*CLOSE_RANGE_CLOEXEC"),
    (None, r"prlimit64\(0, RLIMIT_"),
    (None, r"prctl\(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL"),
    (None, r"prctl\(PR_CAPBSET_DROP"),
    (None, r"prctl\(PR_SET_SECUREBITS"),
    (None, r"capset\("),
    (None, r"prctl\(PR_SET_NO_NEW_PRIVS"),
    (None, r"landlock_restrict_self\("),
    (None, r"seccomp\(SECCOMP_SET_MODE_FILTER"),
    (None, r"execveat\("),
]

# What the supervisor does at the same time, up to the step that waits for it.
STEPS_OF_SUPERVISOR = [
    CLONE,
    (2, r'openat\(.*"/proc/\d+/uid_map"'),
    (2, r'openat\(.*"/proc/\d+/setgroups"'),
    (2, r'openat\(.*"/proc/\d+/gid_map"'),
    (2, r'write\(\d+, "g", 1'),
    BECOME_GROUP,
]

# Calls whose failure changes nothing of what is promised.
HARMLESS = {
    "brk": "the C library's memory; it has another way",
    "mmap": "likewise",
    "munmap": "likewise",
    "close": "close-on-exec closes it, or the end of the process",
    "umask": "cannot fail",
    "rt_sigprocmask": "cannot fail with these arguments",
    "setsockopt": "sizes of the netlink socket's buffers",
    "getpid": "cannot fail",
    "getuid": "cannot fail",
    "sched_yield": "cannot fail",
    "lseek": "the C library's",
    "sendmsg": "the supervisor's too, which ends when it cannot speak with codeboxd; codeboxd starts another one",
    "recvmsg": "likewise",
}

# Likewise, of a call's n-th only.
HARMLESS_AT = {
    ("openat2", 3): "the image's users: without them there is the session's alone",
    ("openat2", 4): "likewise, its groups",
    ("socket", 2): "sock_diag: without it sockets count with what they may hold",
}

# An error that says at what.
NAMED = r"the sandbox died at its start|set up the sandbox: \S+ .|(open|write) /proc/\d+/\w+: "


def image():
    return box.image("host", "python-minimal", "python")


def supervisor():
    if not box.daemon_pid():
        box("run", "--image", image(), "-c", "pass", check=True)
    return tracing.supervisor(box)


def strace(*options):
    return tracing.Strace(box, [supervisor()], *options)


def make_a_session():
    return box("run", "--image", image(), "-c", "print('made')")


def trace():
    """[(pid, call)] from the clone of the sandbox's first process to its execveat."""
    if calls:
        return calls
    with strace() as s:
        r = make_a_session()
        assert r.stdout == "made\n", r.stderr
    first = None
    entering = None
    for line in s.lines():
        pid, _, text = line.partition(" ")
        text = text.strip()
        if text.startswith("clone3(") and "CLONE_NEWUSER" in text:
            first = pid
        elif first and entering is None and pid != first:
            entering = pid
        if first and pid in (first, entering) and not text.startswith(("<...", "---", "+++", "poll(")):
            calls.append((pid, text))
        if text.startswith("execveat(") and pid == entering:
            break
    assert calls and entering and calls[-1][1].startswith("execveat("), "strace did not see a sandbox being entered"
    calls.append((entering, None))
    return calls


def check_order(steps):
    seen = [text for _, text in trace() if text]
    at = 0
    for number, pattern in steps:
        for i in range(at, len(seen)):
            if re.match(pattern, seen[i]):
                at = i + 1
                break
        else:
            raise AssertionError(f"step {number}: nothing like {pattern} after {seen[at - 1][:100]}")


def test_the_steps_come_in_their_order():
    check_order(STEPS)


def test_the_supervisor_keeps_its_order():
    check_order(STEPS_OF_SUPERVISOR)


def test_the_list_in_the_source_has_these_steps():
    source = os.path.join(HERE, "..", "..", "src", "sandbox", "enter.c")
    with open(source, encoding="utf-8") as f:
        listed = {int(m[1]) for m in re.finditer(r"^ \* {1,2}(\d+)  \S", f.read(), re.M)}
    checked = {n for n, _ in STEPS + STEPS_OF_SUPERVISOR if n}
    assert checked <= listed and listed == set(range(1, max(listed) + 1)), (checked, listed)


def test_no_helper_program_and_nothing_of_the_image_runs_before():
    assert not [text for _, text in trace() if text and re.match(r"(execve|fork|vfork|clone)\(", text)]


def faults():
    """[(name, how many)] of the entering process, without what is harmless."""
    entering = trace()[-1][0]
    names = collections.Counter(re.match(r"\w+", text)[0] for pid, text in trace() if text and pid == entering)
    only = os.environ.get("CBX_FAULT")
    every = os.environ.get("CBX_FAULTS") == "all"
    out = []
    for name, n in names.items():
        if name not in HARMLESS and only in (None, name):
            out += [(name, k) for k in (range(1, n + 1) if every else sorted({1, n})) if (name, k) not in HARMLESS_AT]
    return out


def test_every_failure_on_the_way_ends_it():
    wrong = []
    sup = supervisor()
    for name, k in faults():
        before = set(children(sup))
        with strace("-e", f"trace={name}", "-e", f"inject={name}:error=EPERM:when={k}") as s:
            r = make_a_session()
            wait_until(lambda: set(children(sup)) <= before)
            hit = any("(INJECTED)" in line for line in s.lines())
        what = f"{name} number {k}"
        if not hit:
            wrong.append(f"{what}: was not made")
        elif r.returncode == 0 or "made" in r.stdout:
            wrong.append(f"{what}: failed, and the session was made nevertheless")
        # After the filter is there, strace's way to make a call fail (its number becomes -1) is a foreign architecture.
        elif name != "execveat" and not re.search(NAMED, r.stderr):
            wrong.append(f"{what}: the error does not say at what: {r.stderr.strip()!r}")
        if not wait_until(lambda: set(children(sup)) <= before):
            wrong.append(f"{what}: a process is left")
        if supervisor() != sup:
            wrong.append(f"{what}: the supervisor did not survive it")
        sup = supervisor()
    assert not wrong, "\n".join(wrong)
    assert make_a_session().stdout == "made\n"


def test_failures_of_the_supervisor_end_it_too():
    sup = supervisor()
    # openat: 1 uid_map, 2 setgroups, 3 gid_map
    for name, k in (("clone3", 1), ("socketpair", 1), ("openat", 1), ("openat", 2), ("openat", 3)):
        before = set(children(sup))
        with strace("-e", f"trace={name}", "-e", f"inject={name}:error=EPERM:when={k}") as s:
            r = make_a_session()
            wait_until(lambda: set(children(sup)) <= before)
            assert any("(INJECTED)" in line for line in s.lines()), name
        assert r.returncode != 0 and "made" not in r.stdout and "not permitted" in r.stderr, (name, k, r)
        assert wait_until(lambda: set(children(sup)) <= before), name
    assert make_a_session().stdout == "made\n"


if __name__ == "__main__":
    run(globals())
