#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""System call filters against their lists. The compiled program of every profile is run by an interpreter of classic
BPF over all numbers, foreign architectures, and arguments around every value that a rule names; what it answers must be
what the lists say, which are read here a second time by other code. A program with a comparison of 64 bits is planted
to see that it is found."""
import errno
import functools
import glob
import itertools
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from cbxtest import run  # noqa: E402

LISTS = os.environ.get("CBX_SYSCALLS", os.path.join(HERE, "..", "..", "policies", "syscalls"))
DUMP = os.environ.get("CBX_DUMP_FILTER", os.path.join(os.getcwd(), "tests", "unit", "dump_filter"))
PROFILES = sorted(n for n in os.listdir(LISTS) if os.path.isfile(os.path.join(LISTS, n)) and "." not in n)

ALLOW, KILL, EPERM, ENOSYS = 0x7FFF0000, 0x80000000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
ANSWERS = {"0": 0, **{n: getattr(errno, n) for n in ("EPERM", "EAFNOSUPPORT", "EOPNOTSUPP", "EPROTONOSUPPORT",
                                                       "ESOCKTNOSUPPORT")}}
M32, M64 = (1 << 32) - 1, (1 << 64) - 1

# Newer than the library that knows the names; one number for all architectures.
NEWER = dict(cachestat=451, fchmodat2=452, map_shadow_stack=453, futex_wake=454, futex_wait=455, futex_requeue=456,
             statmount=457, listmount=458, lsm_get_self_attr=459, lsm_set_self_attr=460, lsm_list_modules=461,
             mseal=462,
             setxattrat=463, getxattrat=464, listxattrat=465, removexattrat=466, open_tree_attr=467, file_getattr=468,
             file_setattr=469, listns=470)
X86_ONLY = dict(uretprobe=335, uprobe=336)


class Program:
    def __init__(self, profile, lists=LISTS):
        r = subprocess.run([DUMP, lists, profile], capture_output=True, text=True)
        if r.returncode:
            raise ValueError(r.stderr.strip())
        self.insns, self.numbers = [], dict(NEWER)
        for line in r.stdout.splitlines():
            kind, *rest = line.split()
            if kind == "insn":
                self.insns.append(tuple(map(int, rest)))
            elif kind == "call":
                self.numbers[rest[0]] = int(rest[1])
            elif kind == "arch":
                self.arch = int(rest[0])
            else:
                self.rules = int(rest[0])
        if self.arch == 0xC000003E:
            self.numbers.update(X86_ONLY)

    def run(self, nr, args, arch=None):
        """seccomp(2): what the program returns for a call."""
        data = [nr & M32, self.arch if arch is None else arch, 0, 0]
        for a in args:
            data += [a & M32, (a >> 32) & M32]
        acc, at = 0, 0
        for _ in range(len(self.insns) + 1):
            code, jt, jf, k = self.insns[at]
            at += 1
            if code == 0x20:  # ld [k]
                acc = data[k // 4]
            elif code == 0x54:  # and #k
                acc &= k
            elif code == 0x05:  # ja k
                at += k
            elif code == 0x15:  # jeq #k
                at += jt if acc == k else jf
            elif code == 0x35:  # jge #k
                at += jt if acc >= k else jf
            elif code == 0x06:  # ret #k
                return k
            else:
                raise AssertionError(f"instruction {code:#x} is not one that the kernel's cache understands")
        raise AssertionError("the program does not end")


class Lists:
    """What the data files say, evaluated call by call."""

    def __init__(self, profile, lists=LISTS):
        self.dir, self.lines, self.groups = lists, [], {}
        for line in self.read(profile):
            if line[0] in "@!?":
                self.groups[line[1:]] = line[0]
                self.lines += [(line[0], l) for l in self.read("groups/" + line[1:])]
            else:
                self.lines.append(("@", line))
        self.by_name = {}
        for kind, line in self.lines:
            name, *conditions = line.split()
            how = "-" if name.startswith("-") else "+"
            if name in ANSWERS:
                how, (name, *conditions) = 0x50000 | ANSWERS[name], conditions
            if not conditions and how not in ("-", "+"):
                kind = "@"
            self.by_name.setdefault(name.lstrip("-"),
                                    []).append((kind, how, [self.condition(c) for c in conditions]))

    def read(self, name):
        with open(os.path.join(self.dir, name)) as f:
            return [l for l in (l.split("#")[0].strip() for l in f) if l]

    @staticmethod
    def condition(text):
        left, value = text.split("=")
        arg, _, mask = left.partition("&")
        return int(arg[3:]), int(mask, 0) if mask else M32, int(value, 0)

    def verdict(self, name, args):
        return self.verdict_of(name, tuple(args))

    @functools.cache  # the same calls are asked for each planted program
    def verdict_of(self, name, args):
        said = self.by_name.get(name)
        if not said:
            return ENOSYS
        match = [(how, bool(conditions)) for kind, how, conditions in said if kind == "@" and
                 all(args[a] & M32 & mask == value for a, mask, value in conditions)]
        if any(how == "-" for how, _ in match):
            return EPERM
        if any(how == "+" for how, _ in match):
            return ALLOW
        for conditional in (True, False):  # the first with conditions that hold, then the one without
            for how, has in match:
                if has == conditional:
                    return how
        return ENOSYS if any(kind == "?" for kind, *_ in said) else EPERM

    def values(self, name):
        """For each argument, the values that its conditions name and those around them."""
        v = [{0, 1, M32, M64} for _ in range(6)]
        for kind, _, conditions in self.by_name.get(name, []):
            for a, mask, value in conditions if kind == "@" else ():
                v[a] |= {value, value | (~mask & M32), value ^ 1, value + 1, value | 1 << 31}
        return [sorted(x) for x in v]

    def arguments(self, name):
        """Combinations of arguments that meet each rule, and nearly."""
        yield [0] * 6
        yield [M64] * 6
        values = self.values(name)
        for a in range(6):
            for x in values[a]:
                yield [x if i == a else 0 for i in range(6)]
        for kind, _, conditions in self.by_name.get(name, []):
            if kind != "@" or not conditions:
                continue
            exact = [0] * 6
            for a, _, value in conditions:
                exact[a] = value
            yield exact
            # Rubbish in the upper half is not looked at: neither to pass a refusal nor to be refused.
            yield [x | 1 << 40 for x in exact]
            yield [x - (1 << 32) & M64 for x in exact]
            for a, mask, value in conditions:
                for other in {0, value ^ 1, value | 1 << 30, value | 1 << 31,
                              value | (~mask & M32)} | set(values[a][:4]):
                    for high in (0, 1 << 32, M64 ^ M32):
                        near = list(exact)
                        near[a] = other | high
                        yield near


def differences(program, lists):
    """Where program and lists disagree, one by one."""
    names = {nr: name for name, nr in program.numbers.items()}
    for nr in list(range(1025)) + [0x3FFFFFFF]:
        name = names.get(nr, "")
        for args in lists.arguments(name):
            want, got = lists.verdict(name, args), program.run(nr, args)
            if want != got:
                yield f"{name or nr}{tuple(hex(a) for a in args)}: {got:#x}, the lists say {want:#x}"
                break
    for nr in range(1025):
        if program.run(nr | 0x40000000, [0] * 6) != KILL:
            yield f"{nr} of x32 does not kill"
        for arch in (0x40000003, 0xC000003E, 0x40000028, 0xC00000B7, 0, M32):
            if arch != program.arch and program.run(nr, [0] * 6, arch) != KILL:
                yield f"{nr} of architecture {arch:#x} does not kill"
    if program.run(M32, [0] * 6) != ENOSYS:  # what a tracer puts in place of a call
        yield "number -1 is not ENOSYS"
    for nr in (0x40000000, 0x7FFFFFFF, 0x80000000, M32 - 1):
        if program.run(nr, [0] * 6) != KILL:
            yield f"number {nr:#x} does not kill"


def test_every_profile_does_what_its_lists_say():
    assert {"strict", "default", "net", "dev"} <= set(PROFILES), PROFILES
    for p in PROFILES:
        found = list(itertools.islice(differences(Program(p), Lists(p)), 5))
        assert not found, (p, found)


def wide(program, place):
    """The program with the comparison at `place` made one of 64 bits: the upper half has to be 0 for it to match."""
    load, jump = program.insns[place], program.insns[place + 1]
    jf_target = place + 2 + jump[2]
    out = []
    moved = lambda at: at + 2 if at > place else at  # noqa: E731
    for i, (code, jt, jf, k) in enumerate(program.insns):
        if i == place:
            out.append((0x20, 0, 0, load[3] + 4))
            out.append((0x15, 0, moved(jf_target) - (place + 2), 0))
        if code == 0x05:
            k = moved(i + 1 + k) - moved(i) - 1
        elif code & 7 == 5:
            jt, jf = moved(i + 1 + jt) - moved(i) - 1, moved(i + 1 + jf) - moved(i) - 1
        out.append((code, jt, jf, k))
    return out


def test_a_planted_comparison_of_64_bits_is_found():
    for p in PROFILES:
        program, lists = Program(p), Lists(p)
        places = [i for i, insn in enumerate(program.insns[:-1])
                  if insn[0] == 0x20 and insn[3] >= 16 and program.insns[i + 1][0] == 0x15]
        # A profile whose rules all have masks compares nothing but what they leave.
        assert places or all(mask != M32 for rules in lists.by_name.values() for kind, _, conditions in rules
                             if kind == "@" for _, mask, _ in conditions), p
        for place in places[:4] + places[len(places) // 2:][:2] + places[-2:]:
            planted = Program(p)
            planted.insns = wide(program, place)
            assert next(differences(planted, lists), None), (p, place)


def test_every_profile_decides_about_every_group_and_call():
    groups = {os.path.basename(g) for g in glob.glob(os.path.join(LISTS, "groups", "*"))}
    assert len(groups) >= 20, groups
    for p in ("strict", "default", "net", "dev"):
        lists, program = Lists(p), Program(p)
        assert set(lists.groups) == groups, (p, groups ^ set(lists.groups))
        assert not set(program.numbers) - set(lists.by_name), (p, set(program.numbers) - set(lists.by_name))


def test_a_wider_profile_takes_nothing_away():
    """strict < default < net < dev, as policies compare them."""
    order = [Lists(p) for p in ("strict", "default", "net", "dev")]
    for narrow, wider in zip(order, order[1:]):
        for name in narrow.by_name:
            for args in narrow.arguments(name):
                if narrow.verdict(name, args) == ALLOW:
                    assert wider.verdict(name, args) == ALLOW, (name, args)


OFTEN = ("read", "write", "pread64", "lseek", "close", "newfstatat", "fstat", "poll", "ppoll", "epoll_wait",
         "epoll_pwait", "futex", "mmap", "munmap", "brk", "getpid", "clock_gettime", "recvfrom", "wait4", "rt_sigprocmask")


def test_what_is_called_often_is_allowed_without_a_look_at_its_arguments():
    """Then the kernel does not run the program at all; and only if that holds for all filters on top of each other."""
    for p in ("strict", "default", "net", "dev", "zygote", "supervisor"):
        program = Program(p)
        absent = {n for n in OFTEN if n not in program.numbers}
        assert absent == ({"poll", "epoll_wait"} if program.arch == 0xC00000B7 else set()), absent
        for name in set(OFTEN) - absent:
            assert program.run(program.numbers[name], []) == ALLOW, (p, name)
        try:
            program.run(program.numbers["socket"], [])
        except IndexError:
            continue
        assert p == "supervisor", (p, "socket's arguments are not looked at")


# What no list may ever come to allow, whatever else is in it.
NEVER = [("unshare", 0), ("clone", 0x10000011), ("clone", 0x20011), ("clone", 0x40000011), ("clone3", 0), ("setns", 0),
         ("mount", 0), ("bpf", 0), ("io_uring_setup", 0), ("userfaultfd", 1), ("perf_event_open", 0), ("keyctl", 0),
         ("socket", 40), ("socket", 38), ("socket", 17), ("socket", 21), ("socket", 44), ("ioctl", 0, 0x5412),
         ("ioctl", 0, 0x541C), ("ioctl", 0, 0x5423), ("setsockopt", 0, 6, 31), ("setsockopt", 0, 17, 100),
         ("setsockopt", 0, 270, 1), ("setsockopt", 0, 1, 26), ("setsockopt", 0, 1, 76),
         ("getsockopt", 0, 1, 77), ("sendto", 0, 0, 0, 0x4001), ("sendmsg", 0, 0, 1), ("openat2", 0),
         ("openat", 0, 0, 0x40, 0o4755), ("openat", 0, 0, 0x410002, 0o2755), ("fchmod", 0, 0o4000), ("fchmodat", 0, 0, 0o2000),
         ("mknodat", 0, 0, 0x89ed), ("seccomp", 1, 8), ("seccomp", 1, 4), ("vmsplice", 0),
         ("open_by_handle_at", 0), ("fanotify_init", 0), ("process_madvise", 0), ("ioprio_set", 0), ("prctl", 24),
         ("prctl", 28), ("prctl", 35), ("mknod", 0, 0x2000), ("mknodat", 0, 0, 0x6000), ("personality", 0x400000),
         ("memfd_secret", 0), ("init_module", 0), ("kexec_load", 0), ("prlimit64", 1, 7)]


def test_what_is_never_allowed():
    for p in ("strict", "default", "net", "dev"):
        program = Program(p)
        for name, *args in NEVER:
            if name not in program.numbers:
                continue
            args += [0] * (6 - len(args))
            for a in (args, [x | 1 << 32 for x in args], [x | (M64 ^ M32) for x in args]):
                got = program.run(program.numbers[name], a)
                assert got in {0x50000 | e for e in ANSWERS.values() if e} | {ENOSYS}, (p, name, a, hex(got))


# The lists of codebox's own programs that read what comes from elsewhere; codebox-pull, codebox-upload and
# codebox-packages have "registry" while they fetch.
WORKERS = ("artifacts", "proxy", "registry", "sql", "tls", "wheels")
NO_PROGRAM = [("execve",), ("execveat",), ("fork",), ("vfork",), ("clone3",), ("clone", 0x10000011), ("ptrace", 16), ("kill", 1, 9),
              ("process_vm_readv", 1), ("setuid", 0), ("capset",), ("chroot",), ("socket", 16, 3), ("socket", 17, 3),
              ("prlimit64", 1, 4, 1)]
NO_PROCESS = [("clone", 17), ("clone", 0x1200011)]


def test_what_workers_cannot_do():
    for p in ("codeboxd", *WORKERS):
        program = Program(p)
        calls = NO_PROGRAM + NEVER[:1] + [c for c in NEVER if c[0] in ("setns", "mount", "bpf", "io_uring_setup", "keyctl")]
        calls += NO_PROCESS if p != "artifacts" else [("clone", 0x100)]  # it makes a process for each job, of its own kind
        calls += [("socket", f, k) for f in (1, 2, 10) for k in (1, 2)] if p in ("codeboxd", "artifacts", "tls", "wheels") else []
        calls += [("connect", 3), ("bind", 3), ("listen", 3)] if p in ("codeboxd", "artifacts", "tls", "wheels") else []
        calls += [("open",), ("openat",)] if p == "tls" else []
        calls += [("bind", 3), ("listen", 3)] if p in ("proxy", "registry", "sql") else []
        for name, *args in calls:
            if name in program.numbers:
                got = program.run(program.numbers[name], args + [0] * (6 - len(args)))
                assert got in {0x50000 | e for e in ANSWERS.values() if e} | {ENOSYS}, (p, name, args, hex(got))


BAD = {
    "no_such_call": "no system call",
    "read arg0": "not a condition",
    "read arg6=1": "not a condition",
    "read arg0=0x100000000": "not a condition",
    "read arg0&1=2": "not a condition",
    "read arg0=1x": "not a condition",
    "-read": "needs a condition",
    "EPERM": "the name of a system call is missing",
    "ENOENT read": "no system call",
    "@../default": "not the name of a group",
    "@none": "No such file",
    "read " + "arg0=1 " * 7: "too many conditions",
    "read" + " " * 300: "too long",
}


def test_a_bad_list_is_refused_with_its_line():
    with tempfile.TemporaryDirectory() as d:
        os.mkdir(os.path.join(d, "groups"))
        with open(os.path.join(d, "groups", "nested"), "w") as f:
            f.write("@nested\n")
        for text, why in list(BAD.items()) + [("@nested", "holds no groups")]:
            with open(os.path.join(d, "p"), "w") as f:
                f.write("write # fine\n\n" + text + "\n")
            try:
                Program("p", d)
            except ValueError as e:
                assert why in str(e), (text, str(e))
                assert "p:3:" in str(e) or text.startswith("@n"), (text, str(e))
            else:
                raise AssertionError(f"{text!r} was accepted")


def test_the_list_that_the_manual_shows():
    """codebox-syscalls(5) says what it allows: it does, and no other of its lines is one that no list may have."""
    with open(os.path.join(HERE, "../../man/codebox-syscalls.5")) as f:
        shown = f.read().partition(".Sh EXAMPLES")[2].partition(".Bd -literal -offset indent\n")[2].partition("\n.Ed")[0]
    with tempfile.TemporaryDirectory() as d:
        os.symlink(os.path.join(os.path.abspath(LISTS), "groups"), os.path.join(d, "groups"))
        with open(os.path.join(d, "p"), "w") as f:
            f.write(shown + "\n")
        program = Program("p", d)
        found = list(differences(program, Lists("p", d)))
        assert not found, found[:5]
        n = program.numbers
        for name, args, want in (
                ("read", (), ALLOW), ("socket", (1, 1, 0), ALLOW), ("socket", (1, 2, 0), 0x50000 | errno.EAFNOSUPPORT),
                ("fcntl", (0, 1031), EPERM), ("fcntl", (0, 1), ALLOW), ("mount", (), EPERM), ("io_uring_setup", (), ENOSYS),
                ("ptrace", (), ENOSYS)):
            got = program.run(n[name], list(args) + [0] * (6 - len(args)))
            assert got == want, (name, args, hex(got))


def test_small_lists():
    """Longer trees than any real list needs: every second call allowed, each with a rule of its own."""
    with tempfile.TemporaryDirectory() as d:
        os.mkdir(os.path.join(d, "groups"))
        names = sorted(Program("strict").numbers.items(), key=lambda x: x[1])
        with open(os.path.join(d, "p"), "w") as f:
            for name, nr in names[::2]:
                f.write(f"{name} arg1={nr}\n" if nr % 3 else f"{name}\n")
        assert not list(differences(Program("p", d), Lists("p", d)))
        with open(os.path.join(d, "p"), "w") as f:
            f.write("read\n")
        assert not list(differences(Program("p", d), Lists("p", d)))


if __name__ == "__main__":
    run(globals())
