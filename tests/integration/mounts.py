#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Directories of the machine in a sandbox: only those that the policy allows, by what they are and not by what they are
called, read-only unless both sides say otherwise."""
import json
import os
import pty
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, Skip, children, run, sandboxes, wait_until  # noqa: E402
from tracing import Strace, status, supervisor  # noqa: E402

box = Box()
top = os.path.join(box.dir, "site")
PATHS = ("var", "variant", "rw", "secret")
for name in PATHS:
    os.makedirs(os.path.join(top, name, "sub"))
    for path in (name, os.path.join(name, "sub")):  # root's sessions may write what every user may
        os.chmod(os.path.join(top, path), 0o777)
    for file in ("hello.txt", "sub/deep.txt"):
        with open(os.path.join(top, name, file), "w") as f:
            f.write(f"{name}\n")


def at(*parts):
    return os.path.join(top, *parts)


policy = os.path.join(box.dir, "policy.json")
with open(policy, "w") as f:
    json.dump({"mounts": {"allow": [{"path": at("var")}, {"path": at("rw"), "writable": True},
                                    {"path": box.env["CODEBOX_RUNTIME_DIR"]}]}}, f)
box.env["CODEBOX_POLICY"] = policy
image = None


def inside(code, *mounts, session=None, json_out=False):
    global image
    image = image or box.image("host", "python-minimal", "python")
    args = [a for m in mounts for a in ("--mount", m)]
    if session:
        args += ["--session", session]
    return box("run", "--image", image, *args, *(["--json"] if json_out else []), "-c", code)


def refused(why, *mounts):
    r = inside("print('in')", *mounts)
    assert r.returncode != 0 and "in\n" not in r.stdout and why in r.stderr, (mounts, r)


READ = "import os; print(sorted(os.listdir({0!r})), open({0!r} + '/sub/deep.txt').read().strip())"
WRITE = """
try:
    open({0!r} + "/new.txt", "w").write("from inside")
    print("written")
except OSError as e:
    print(e.strerror)
"""


def test_an_allowed_directory_is_shown_read_only():
    r = inside(READ.format("/mnt/var"), at("var"))
    assert r.stdout == "['hello.txt', 'sub'] var\n", r
    r = inside(WRITE.format("/mnt/var"), at("var"))
    assert r.stdout == "Read-only file system\n", r
    assert not os.path.exists(at("var", "new.txt"))


def test_below_an_allowed_directory_and_a_single_file():
    assert inside("print(open('/mnt/sub/deep.txt').read())", at("var", "sub")).stdout == "var\n\n"
    assert inside("print(open('/data/x.txt').read())", at("var", "hello.txt") + ":/data/x.txt").stdout == "var\n\n"
    assert inside("print(open('deep.txt').read())",
                  at("var", "sub", "deep.txt") + ":/workspace/deep.txt").stdout == "var\n\n"


def test_targets():
    r = inside(READ.format("/workspace/in/here") + "\nprint(os.getcwd())", at("var") + ":/workspace/in/here")
    assert r.stdout.endswith("var\n/workspace\n"), r
    r = inside(READ.format("/srv/a/b"), at("var") + ":/srv/a/b")
    assert r.stdout.endswith(" var\n"), r
    for target in ("/etc/x", "/proc", "/dev/x", "/usr/lib/x", "/run/codebox", "/", "/home/user/x",
                   "/tmp/x",
                   "/lib64", "/sys", "/home"):
        refused("nothing can be mounted at", at("var") + ":" + target)
    for target in ("/mnt/../etc", "/mnt//x", "/mnt/.", "/mnt/"):
        refused("give an absolute path without", at("var") + ":" + target)
    refused("not beside each other", at("var") + ":/mnt/a", at("rw") + ":/mnt/a/b")
    refused("not beside each other", at("var") + ":/mnt/a", at("rw") + ":/mnt/a")


def test_writable_where_both_say_so():
    r = inside(WRITE.format("/mnt/rw"), at("rw") + ":rw")
    assert r.stdout == "written\n", r
    with open(at("rw", "new.txt")) as f:
        assert f.read() == "from inside"
    os.remove(at("rw", "new.txt"))
    assert inside(WRITE.format("/mnt/rw"), at("rw")).stdout == "Read-only file system\n"
    assert inside(WRITE.format("/mnt/var"), at("var") + ":rw", session="low").stdout == "Read-only file system\n"
    info = box.json("session", "info", "--json", "low")
    assert info["policy"]["lowered"] == ["mounts./mnt/var"], info
    assert info["mounts"] == [{"source": at("var"), "target": "/mnt/var", "writable": False}], info
    # The same request is the same session; other mounts are another one.
    assert inside("1", at("var") + ":rw", session="low").returncode == 0
    assert inside("1", session="low").returncode == 0
    r = inside("1", at("rw"), session="low")
    assert r.returncode != 0 and "mounts" in r.stderr, r
    box("session", "rm", "low", check=True)


def private(name):
    """A directory that is its owner's alone, in the one that may be written to."""
    path = at("rw", name)
    os.mkdir(path, 0o700)
    with open(os.path.join(path, "mine.txt"), "w") as f:
        f.write("mine\n")
    os.chmod(os.path.join(path, "mine.txt"), 0o600)
    return path


OWN = """
import os
print(open("/mnt/own/mine.txt").read().strip())
open("/mnt/own/mine.txt", "a").write("more\\n")
os.mkdir("/mnt/own/made")
open("/mnt/own/made/new.txt", "w").write("new")
os.rename("/mnt/own/made/new.txt", "/mnt/own/new.txt")
print(os.getuid(), {os.stat("/mnt/own/" + n).st_uid for n in ("mine.txt", "made", "new.txt")})
"""


def check_own(path):
    with open(os.path.join(path, "mine.txt")) as f:
        assert f.read() == "mine\nmore\n"
    here = os.stat(path)
    for name in ("mine.txt", "made", "new.txt"):
        made = os.stat(os.path.join(path, name))
        assert (made.st_uid, made.st_gid) == (here.st_uid, here.st_gid), (name, made)
    shutil.rmtree(path)


def test_what_is_the_users_alone_is_read_and_what_is_made_is_the_users():
    if os.getuid() == 0:
        raise Skip("a session of root's codeboxd has an id that owns nothing")
    path = private("own")
    r = inside(OWN, path + ":rw")
    assert r.stdout == "mine\n1000 {1000}\n", r
    check_own(path)


def test_a_session_made_ahead_of_time_does_not_stand_in_for_one_with_mounts():
    """It has an id of its own."""
    if os.getuid() == 0:
        raise Skip("a session of root's codeboxd has an id that owns nothing")
    b = other_box("pooled", [{"path": at("rw"), "writable": True}], CODEBOX_POOL="2")
    path = private("own")
    show(b, "-c", "1", check=True)  # its like is in the pool from now on
    assert wait_until(lambda: b.hello()["pool"]["ready"]), b.hello()
    r = show(b, "--mount", path + ":rw", "-c", OWN)
    assert r.stdout == "mine\n1000 {1000}\n", r
    check_own(path)
    b.stop()


def test_what_the_session_could_not_use_is_refused():
    for mode, want, why in ((0o300, "", "may not read it: Permission denied"),
                            (0o500, ":rw", "may not write to it: Permission denied")):
        path = private("closed")
        os.chmod(path, mode)
        try:
            refused(why if os.getuid() else "may not read it", path + want)
        finally:
            os.chmod(path, 0o700)
            shutil.rmtree(path)


def test_no_privilege_comes_with_it():
    r = inside("print([l.split()[5] for l in open('/proc/self/mountinfo') if ' /mnt/' in l])", at("var"),
               at("rw") + ":rw")
    options = [set(o.split(",")) for o in eval(r.stdout)]
    assert len(options) == 2 and all({"nosuid", "nodev"} <= o for o in options), r
    assert "ro" in options[0] and "rw" in options[1], r


def test_other_directories_are_refused():
    where = "is not in a directory that the policy policy allows"
    refused(where, at("secret"))
    refused(where, at("variant"))  # its name begins like that of an allowed one
    refused(where, top)  # it holds an allowed one
    refused(where, "/")
    refused(where, "/etc/passwd")
    refused(where, os.path.expanduser("~"))


def raw(source, target="/mnt/x"):
    """A request as a client can send it, without what the command does to paths."""
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(60)
    s.connect(os.path.join(box.env["CODEBOX_RUNTIME_DIR"], "control.sock"))
    params = {"code": "1", "image": image, "mounts": [{"source": source, "target": target}]}
    s.sendall(json.dumps({"id": 1, "method": "run", "params": params}).encode() + b"\n")
    for line in s.makefile("rb"):
        answer = json.loads(line)
        if "event" not in answer:
            return answer


def test_names_lead_nowhere_else():
    inside("1")
    os.symlink(at("secret"), at("var", "link"))
    os.symlink("/", at("var", "root"))
    os.symlink(at("var"), at("alias"))
    try:
        for source in (at("var", "link"), at("var", "link", "sub"), at("var", "root"), at("var", "root", "etc"),
                       at("var", "..", "secret"), at("var", "sub", "..", "..", "secret"), at("var") + "/../variant",
                       "/proc/self/root", "/proc/self/cwd", at("nothing"), "//etc"):
            answer = raw(source)
            assert answer.get("error", {}).get("kind") == "mount_refused", (source, answer)
        # Another name of an allowed one is one.
        for source in (at("alias"), at("var") + "/", at("var", "sub", ".."), at("secret", "..", "var")):
            answer = raw(source)
            assert "error" not in answer, (source, answer)
    finally:
        for name in (at("var", "link"), at("var", "root"), at("alias")):
            os.remove(name)
    for wrong in ("var", "", "~", 5, None):
        assert raw(wrong).get("error", {}).get("kind") == "invalid_argument", wrong


def test_what_is_no_file_is_refused():
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(at("var", "socket"))
    os.mkfifo(at("var", "fifo"))
    try:
        for name in ("socket", "fifo"):
            refused("neither a directory nor a regular file", at("var", name))
        refused("No such file", at("var", "absent")) if False else None
        answer = raw(at("var", "absent"))
        assert "No such file" in answer["error"]["message"], answer
    finally:
        sock.close()
        os.remove(at("var", "socket"))
        os.remove(at("var", "fifo"))


def test_codeboxs_own_directories_are_never_shown():
    inside("1")
    refused("never shown", box.env["CODEBOX_RUNTIME_DIR"])


def test_a_name_that_changes_meanwhile_gains_nothing():
    """Somebody swaps the directory for a link to a secret one, and back, all the time."""
    inside("1")
    os.mkdir(at("var", "spot"))
    with open(at("var", "spot", "hello.txt"), "w") as f:
        f.write("var\n")
    os.symlink(at("secret"), at("var", "evil"))
    stop = threading.Event()

    def swap():
        while not stop.is_set():
            os.rename(at("var", "spot"), at("var", "held"))
            os.rename(at("var", "evil"), at("var", "spot"))
            os.rename(at("var", "spot"), at("var", "evil"))
            os.rename(at("var", "held"), at("var", "spot"))

    thread = threading.Thread(target=swap)
    thread.start()
    outcomes = {"shown": 0, "refused": 0}
    try:
        for _ in range(40):
            params = {"code": "print(open('/mnt/x/hello.txt').read())", "image": image,
                      "mounts": [{"source": at("var", "spot"), "target": "/mnt/x"}]}
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(60)
            s.connect(os.path.join(box.env["CODEBOX_RUNTIME_DIR"], "control.sock"))
            s.sendall(json.dumps({"id": 1, "method": "run", "params": params}).encode() + b"\n")
            for line in s.makefile("rb"):
                answer = json.loads(line)
                assert "secret" not in line.decode(), answer
                if "event" not in answer:
                    break
            s.close()
            outcomes["refused" if "error" in answer else "shown"] += 1
            if "error" not in answer:
                assert answer["result"]["stdout"] == "var\n\n", answer
    finally:
        stop.set()
        thread.join()
    print("#", outcomes)
    assert sum(outcomes.values()) == 40, outcomes


def other_box(name, allow, **env):
    """A codeboxd with another policy."""
    text = os.path.join(box.dir, f"{name}.json")
    with open(text, "w") as f:
        json.dump({"mounts": {"allow": allow}}, f)
    return Box(CODEBOX_POLICY=text, **env)


def show(b, *args, **kw):
    name = image or b.image("host", "python-minimal", "python")
    return b("run", "--image", name, *args, **kw)


def test_a_link_that_a_session_makes_leads_nowhere():
    outer, inner = at("outer"), at("outer", "inner")
    os.makedirs(inner)
    os.chmod(outer, 0o777)
    b = other_box("nested", [{"path": outer, "writable": True}, {"path": inner}, {"path": at("outer", "later")}])
    r = show(b, "--mount", outer + ":rw", "-c",
             "import os\nos.rename('/mnt/outer/inner', '/mnt/outer/old')\nfor name in ('inner', 'later'):\n"
             f"    os.symlink({at('secret')!r}, '/mnt/outer/' + name)\nprint('made')")
    assert r.stdout == "made\n", r
    for forget in (None, ("policy", "reload"), ("stop",)):
        if forget:
            b(*forget, check=True)
        for name in ("inner", "later"):
            r = show(b, "--mount", at("outer", name), "-c", f"import os; print(os.listdir('/mnt/{name}'))")
            assert r.returncode != 0 and r.stdout == "" and "is not in a directory" in r.stderr, (forget, name, r)
    b.stop()
    # A link above all of it is nobody's in a session.
    os.symlink(outer, at("up"))
    os.mkdir(at("outer", "plain"))
    b = other_box("linked-above", [{"path": at("up"), "writable": True}, {"path": at("up", "plain")}])
    r = show(b, "--mount", at("up", "plain"), "-c", "import os; print(os.listdir('/mnt/plain'))")
    assert r.stdout == "[]\n", r
    b.stop()


def test_a_policy_that_is_asked_for_leads_nowhere_else_either():
    share = shutil.copytree(os.environ["CODEBOX_SHARE_DIR"], os.path.join(box.dir, "share"))
    with open(os.path.join(share, "policies", "linked.json"), "w") as f:
        json.dump({"mounts": {"allow": [{"path": at("var", "linked")}]}}, f)
    b = other_box("wide", [{"path": at("var")}], CODEBOX_SHARE_DIR=share)
    for to, refused_there in ((at("var", "sub"), False), (at("secret"), True)):
        os.symlink(to, at("var", "linked"))
        r = show(b, "--policy", "linked", "--mount", to, "-c", "print('in')")
        os.remove(at("var", "linked"))
        assert (r.stdout == "in\n") != refused_there, (to, r)
        assert not refused_there or "is not in a directory" in r.stderr, r
    b.stop()


def test_codeboxs_directories_may_not_be_made_by_a_session():
    """What is a policy to the next codeboxd lies in one that may not be there yet."""
    b = other_box("homely", [{"path": at("rw"), "writable": True}],
                  CODEBOX_CONFIG_DIR=at("rw", "config", "codebox"))
    r = show(b, "--mount", at("rw") + ":rw", "-c", "print('in')")
    assert r.returncode != 0 and r.stdout == "" and "never shown" in r.stderr, r
    assert show(b, "--mount", at("rw", "sub") + ":rw", "-c", "print('in')").stdout == "in\n"
    b.stop()


def test_what_opens_them_outlives_a_zygote():
    """The supervisor kills what a zygote has left; that does not take along what opens a session's mounts."""
    warm = Box(CODEBOX_POLICY=policy, CODEBOX_ZYGOTES="1", CODEBOX_POOL="0")
    name = warm.image("python-minimal", "python")
    warm("run", "--image", name, "-c", "pass", check=True)
    log = os.path.join(warm.env["CODEBOX_STATE_DIR"], "codeboxd.log")

    def told(text):
        with open(log) as f:
            return text in f.read()
    if not wait_until(lambda: told("ready after")):
        raise Skip("there is no warm interpreter")
    # Beside the supervisor: the zygote and its embryo. The session from before has then ended.
    assert wait_until(lambda: len(sandboxes(warm.daemon_pid())) == 3), children(warm.daemon_pid())
    zygotes = [p for p in children(supervisor(warm)) if status(p)["PPid"] == str(supervisor(warm))]
    assert len(zygotes) == 1, zygotes
    with Strace(warm, [supervisor(warm)], "-e", "trace=open_tree", "-e", "inject=open_tree:delay_enter=2000000") as s:
        p = warm.popen("run", "--image", name, "--mount", at("var"), "-c", READ.format("/mnt/var"),
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert wait_until(lambda: any("open_tree(" in line for line in s.lines()))
        os.kill(zygotes[0], signal.SIGKILL)
        out, err = p.communicate(timeout=120)
    assert out.endswith(" var\n"), (out, err)
    assert wait_until(lambda: told("failed: it ended"))
    warm.stop()


def killed(pid, by=signal.SIGKILL):
    """As far as it can be while strace holds it."""
    try:
        return int(status(pid)["ShdPnd"], 16) & 1 << (by - 1) != 0
    except OSError:
        return True


def test_what_opens_them_ends_with_the_sandbox():
    """Also where it waits for a file system that does not answer."""
    inside("1")
    # Of the mount alone: strace does not see the end of others that it delays as well.
    with Strace(box, [supervisor(box)], "-e", "trace=open_tree", "-P", at("var"), "-e",
                "inject=open_tree:delay_enter=600000000") as s:
        p = box.popen("run", "--image", image, "--mount", at("var"), "-c", "1", stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL)
        assert wait_until(lambda: any("open_tree(" in line for line in s.lines()))
        opener = s.calls()[0][0]
        p.kill()
        p.wait()
        assert wait_until(lambda: killed(opener)), status(opener)
    assert wait_until(lambda: not os.path.exists(f"/proc/{opener}")), status(opener)


def test_a_file_system_that_does_not_answer():
    """What a directory is called cannot be found out: the session is refused, others continue meanwhile, and nothing stays
    behind."""
    inside("1", session="other")
    with Strace(box, [supervisor(box)], "-e", "trace=openat,readlink", "-P", at("var"), "-e",
                "inject=openat:delay_enter=600000000") as s:
        p = box.popen("run", "--image", image, "--session", "stuck", "--mount", at("var"), "-c", "print('in')",
                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert wait_until(lambda: s.calls())
        namer = s.calls()[0][0]
        assert inside("print('on')", session="other").stdout == "on\n"
        assert {x["session_id"]: x["state"] for x in box.json("session", "ls", "--json")["sessions"]}["stuck"] == \
            "starting"
        assert p.poll() is None and not killed(namer, signal.SIGALRM), status(namer)
        out, err = p.communicate(timeout=60)
        assert p.returncode != 0 and out == "" and "its file system does not answer" in err, (out, err)
        assert wait_until(lambda: killed(namer, signal.SIGALRM)), status(namer)
        assert inside("print('on')", session="other").stdout == "on\n"
    assert wait_until(lambda: not os.path.exists(f"/proc/{namer}")), status(namer)
    assert inside("print('in')", at("var")).stdout == "in\n"
    box("session", "rm", "other", check=True)


# ---- asking ----

def asking_box(name, **env):
    """One whose policy is the shipped one, as a new user's is."""
    b = Box(CODEBOX_CONFIG_DIR=os.path.join(box.dir, name), **env)
    b.env.pop("CODEBOX_POLICY", None)
    return b


def at_a_terminal(b, answer, *args, cwd=None):
    """codebox run with a terminal as its standard input and error; what it prints, and what is on the terminal."""
    ours, theirs = pty.openpty()
    p = b.popen("run", "--image", image, *args, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, cwd=cwd,
                start_new_session=True)
    os.close(theirs)
    seen = b""
    while b"[y/N] " not in seen and p.poll() is None:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                seen += os.read(ours, 4096)
            except OSError:
                break
    if b"[y/N] " in seen:
        os.write(ours, answer)
    out = p.communicate(timeout=120)[0].decode()
    os.set_blocking(ours, False)
    try:
        seen += os.read(ours, 65536)
    except OSError:
        pass
    os.close(ours)
    return out, seen.decode(), p.returncode


def test_a_person_is_asked_once_and_the_answer_is_remembered():
    if os.getuid() == 0:
        raise Skip("root's codeboxd has the machine's policy")
    inside("1")
    b = asking_box("asked")
    remembered = os.path.join(box.dir, "asked", "mounts.json")
    hello = "print(open('/mnt/var/hello.txt').read().strip())"
    out, seen, status = at_a_terminal(b, b"n\n", "-v", ".", "-c", hello, cwd=at("var"))
    assert f"Let sessions read {at('var')}? [y/N] " in seen and out == "" and status != 0, (out, seen)
    assert not os.path.exists(remembered)
    # The daemon is running; sessions that there are stay.
    b("run", "--image", image, "--session", "kept", "-c", "x = 5", check=True)
    out, seen, status = at_a_terminal(b, b"y\n", "-v", ".", "-c", hello, cwd=at("var"))
    assert (out, status) == ("var\n", 0) and "remembered in " + remembered in seen, (out, seen)
    assert b("run", "--session", "kept", "-c", "x").stdout == "5\n"
    with open(remembered) as f:
        assert json.load(f) == {"mounts": {"allow": [{"path": at("var")}]}}
    assert os.stat(remembered).st_mode & 0o777 == 0o600
    assert b("policy", "check", remembered).returncode == 0
    # From now on nobody is asked, wherever one stands, and without a terminal.
    out, seen, _ = at_a_terminal(b, b"", "--mount", "../var", "-c", hello, cwd=at("rw"))
    assert (out, seen) == ("var\n", ""), (out, seen)
    r = b("run", "--image", image, "--mount=~/sub", "-c", READ.format("/mnt/sub").split(";")[0])
    assert r.returncode != 0  # below another home
    b.env["HOME"] = at("var")
    assert b("run", "--image", image, "--mount=~/sub", "-c", "print(open('/mnt/sub/deep.txt').read())").stdout == \
        "var\n\n"
    # To change it is another question, and less than was asked for is said.
    r = b("run", "--image", image, "-v", at("var") + ":rw", "-c", WRITE.format("/mnt/var"))
    assert r.stdout == "Read-only file system\n" and "/mnt/var is read-only" in r.stderr, r
    out, seen, _ = at_a_terminal(b, b"y\n", "-v", at("rw") + ":rw", "-c", WRITE.format("/mnt/rw"))
    assert f"Let sessions read and change {at('rw')}? [y/N] " in seen and out == "written\n", (out, seen)
    os.remove(at("rw", "new.txt"))
    assert b("run", "--image", image, "-v", at("var"), "-c", hello).stdout == "var\n"
    b.stop()


def test_without_a_terminal_what_is_to_be_written_is_said_and_works():
    if os.getuid() == 0:
        raise Skip("root's codeboxd has the machine's policy")
    b = asking_box("told")
    args = ("run", "--image", image, "-v", at("rw") + ":rw", "-c", "print('in')")
    r = b(*args)
    first, _, rest = r.stderr.partition("\n")
    text, _, why = rest.partition("codebox: ")
    path = first.rpartition(" into ")[2].rstrip(":")
    assert r.stdout == "" and path == os.path.join(box.dir, "told", "mounts.json") and path in why, r
    with open(path, "w") as f:
        f.write(text)
    assert b(*args).stdout == "in\n"
    # What is not an answer to the question is not taken from that file; nor is it, once others can write to it.
    for bad, wrong in (('{"defaults": {"memory": "8G"}}', '"mounts" only'), ('{"mounts": {"roots": true}}', 'has "allow" only'),
                       ('{"mounts": {"allow": [{"path": "/etc"}]}}', "never shown"),
                       ('[{"path": "/srv"}]', "is an object"), ("{", "mounts.json:1:")):
        with open(path, "w") as f:
            f.write(bad)
        r = b(*args)
        assert r.stdout == "" and wrong in r.stderr, (bad, r)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, 0o666)
    assert "can be changed by every user" in b(*args).stderr
    os.chmod(path, 0o600)
    # What is never shown is not asked about.
    r = b("run", "--image", image, "-v", os.path.dirname(path), "-c", "1")
    assert "never shown" in r.stderr and "write this" not in r.stderr, r
    # A policy that is named is not widened, on the command line or by the daemon's start.
    for other in (("--policy", "dev"),):
        r = b(*args[:1], *other, *args[1:])
        assert r.stdout == "" and "write this" not in r.stderr, r
    b.stop()
    b.env["CODEBOX_POLICY"] = "default"
    r = b(*args)
    assert r.stdout == "" and "allowed are: none" in r.stderr and "write this" not in r.stderr, r
    b.stop()


def test_without_a_policy_that_allows_any_there_are_none():
    plain = Box()
    plain.env.pop("CODEBOX_POLICY", None)
    r = plain("run", "--image", image or "host", "--mount", at("var"), "-c", "1")
    assert r.returncode != 0 and "allowed are: none" in r.stderr, r
    plain.stop()


if __name__ == "__main__":
    run(globals())
