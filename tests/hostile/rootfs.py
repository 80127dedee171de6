#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images whose root file system was made to mislead whoever sets up a sandbox on it. Each one either starts a sandbox
that is as good as any other, or ends in a clean error; nothing outside of the image is read, written or covered."""
import atexit
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import CODEBOX, Box, Skip, run  # noqa: E402

top = tempfile.mkdtemp(prefix="cbxroot")
atexit.register(shutil.rmtree, top, ignore_errors=True)
data = os.path.join(top, "data")
outside = os.path.join(top, "outside")
box = Box(CODEBOX_DATA_DIR=data, CODEBOX_POOL="0")
SECRET = "the-machines-own-secret"

# What a sandbox must be, whatever the image holds.
CELL = """
import os
def text(p):
    try:
        return open(p, errors="replace").read()
    except OSError as e:
        return e.strerror
os.makedirs("/workspace/made", exist_ok=True)
for d in ("/workspace", "/tmp", "/home/user", "/dev/shm"):
    open(d + "/written-inside", "w").write("x")
print("SAFE",
      sorted(os.listdir("/dev")) == ["fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin",
                                     "stdout", "tty", "urandom", "zero"],
      os.stat("/dev/null").st_rdev == 0x103, os.path.realpath("/dev") == "/dev",
      os.path.exists("/proc/self/status"), os.path.realpath("/proc") == "/proc",
      all(os.path.realpath(d) == d for d in ("/workspace", "/tmp", "/home/user", "/run/codebox")),
      os.getuid() == 1000)
print("PASSWD", text("/etc/passwd"))
print("FOUND", [p for p in ("/workspace/precious", "/tmp/precious", "/home/user/precious", "/etc/precious",
                            "/dev/precious")
                if os.path.exists(p)])
"""


def snapshot():
    h = hashlib.sha256()
    for path, dirs, files in os.walk(outside):
        dirs.sort()
        for name in sorted(dirs + files):
            full = os.path.join(path, name)
            st = os.lstat(full)
            h.update(repr((full, st.st_mode, st.st_uid, st.st_size, st.st_mtime_ns)).encode())
    return h.hexdigest()


def setup():
    if os.path.isdir(outside):
        return
    os.chmod(top, 0o755)
    os.mkdir(outside)
    os.chmod(outside, 0o777)
    for name in ("precious", "passwd", "hosts"):
        with open(os.path.join(outside, name), "w") as f:
            f.write(SECRET + "\n")
        os.chmod(os.path.join(outside, name), 0o666)
    r = box("image", "build", "host", timeout=600)
    if r.returncode != 0:
        raise Skip("the image host cannot be made: " + r.stderr.strip().splitlines()[-1])


def launch(name, change):
    """A copy of the image host, changed; (exit status, output, errors) of a cell in it."""
    setup()
    image = os.path.join(data, "images", name)
    shutil.copytree(os.path.join(data, "images", "host"), image, symlinks=True)
    with open(os.path.join(image, "manifest.json")) as f:
        manifest = json.load(f)
    manifest["name"] = name
    root = os.path.join(image, "rootfs")
    change(root, manifest)
    with open(os.path.join(image, "manifest.json"), "w") as f:
        json.dump(manifest, f)
    before = snapshot()
    r = box("run", "--image", name, "-c", CELL, timeout=600)
    assert snapshot() == before, "something outside was changed"
    assert SECRET not in r.stdout + r.stderr, "something outside was read"
    assert r.returncode in (0, 3), (r.returncode, r.stderr)
    return r


def safe(r):
    assert r.returncode == 0, r.stderr
    lines = r.stdout.splitlines()
    assert lines and lines[0].split()[0] == "SAFE" and set(lines[0].split()[1:]) == {"True"}, r.stdout
    assert "FOUND []" in lines, r.stdout


def refused(r, *says):
    assert r.returncode == 3 and r.stdout == "", (r.returncode, r.stdout, r.stderr)
    assert r.stderr.startswith("codebox: ") and any(s in r.stderr for s in says), r.stderr


def replace_by_link(root, name, target):
    path = os.path.join(root, name)
    if os.path.islink(path) or os.path.isfile(path):
        os.unlink(path)
    elif os.path.isdir(path):
        shutil.rmtree(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(target, path)


def test_an_unchanged_image_is_safe():
    safe(launch("plain", lambda root, m: None))


def test_links_in_the_place_of_directories():
    for i, (name, target) in enumerate((
            ("dev", outside), ("dev", "/tmp"), ("proc", "/etc"), ("proc", outside), ("tmp", "/"), ("tmp", outside),
            ("workspace", outside), ("workspace", "../../../.." + outside), ("home", outside), ("home/user", outside),
            ("run", outside), ("run/codebox", outside), ("etc", outside), ("usr", outside), ("sys", outside),
            ("proc", "self"), ("dev", "dev"), ("tmp", "workspace"))):
        r = launch(f"link{i}", lambda root, m, n=name, t=target: replace_by_link(root, n, t))
        try:
            safe(r)
        except AssertionError as e:
            raise AssertionError(f"{name} -> {target}: {e}")


def test_links_in_the_place_of_files():
    def change(root, m):
        for name in ("passwd", "group", "hosts", "hostname", "resolv.conf"):
            replace_by_link(root, "etc/" + name, os.path.join(outside, "passwd"))
    safe(launch("files", change))


def test_files_in_the_place_of_directories():
    def change(root, m):
        for name in ("dev", "proc", "tmp", "workspace", "home", "run"):
            shutil.rmtree(os.path.join(root, name), ignore_errors=True)
            with open(os.path.join(root, name), "w") as f:
                f.write("not a directory")
    safe(launch("notdirs", change))


def test_devices_that_are_none():
    def change(root, m):
        for name in ("null", "zero", "full", "random", "urandom", "shm"):
            replace_by_link(root, "dev/" + name, "/proc/sys/kernel/core_pattern")
        replace_by_link(root, "dev/fd", outside)
    safe(launch("nodevs", change))


def test_missing_directories():
    def change(root, m):
        for name in ("dev", "proc", "tmp", "workspace", "home", "run", "etc", "var", "root"):
            shutil.rmtree(os.path.join(root, name), ignore_errors=True)
    safe(launch("missing", change))


def test_fifos_in_the_place_of_files():
    def change(root, m):
        for name in ("passwd", "group", "hosts"):
            path = os.path.join(root, "etc", name)
            if os.path.lexists(path):
                os.unlink(path)
            os.mkfifo(path)
    safe(launch("fifos", change))


def test_an_endless_user_database():
    def change(root, m):
        with open(os.path.join(root, "etc/passwd"), "w") as f:
            f.write(":1001:1001:\n" * 1000000)
    safe(launch("endless", change))


def test_set_user_id_files_give_nothing():
    probe = os.environ.get("CBX_PROBE")
    if not probe or not os.path.exists(probe):
        raise Skip("the probe is not built")

    def change(root, m):
        shutil.copy(probe, os.path.join(root, "suid"))
        os.chmod(os.path.join(root, "suid"), 0o6755)
    r = launch("suid", change)
    safe(r)
    r = box("run", "--image", "suid", "-c", "import os, subprocess; print(oct(os.stat('/suid').st_mode & 0o6000), "
            "subprocess.run(['/suid', 'ids'], capture_output=True, text=True).stdout)", check=True)
    assert r.stdout.split() == ["0o6000", "ids", "1000,1000,1000,1000"], r.stdout


def test_hooks_of_the_loader_run_in_the_sandbox_only():
    if not shutil.which("cc"):
        raise Skip("there is no C compiler to make a hook with")
    mark = os.path.join(outside, "hooked")
    source = os.path.join(top, "hook.c")
    with open(source, "w") as f:
        f.write('#include <fcntl.h>\n#include <unistd.h>\n__attribute__((constructor)) static void hook(void)\n'
                '{ open("%s", O_CREAT | O_WRONLY, 0666); open("/workspace/hooked", O_CREAT | O_WRONLY, 0666); }\n'
                % mark)

    def change(root, m):
        subprocess.run(["cc", "-shared", "-fPIC", "-o", os.path.join(root, "hook.so"), source], check=True)
        with open(os.path.join(root, "etc/ld.so.preload"), "w") as f:
            f.write("/hook.so\n")
    safe(launch("hooks", change))
    r = box("run", "--image", "hooks", "-c", "import os; print(os.path.exists('/workspace/hooked'))", check=True)
    assert r.stdout == "True\n", "the hook did not run, so this shows nothing"
    assert not os.path.exists(mark)


def test_layers_out_of_the_image():
    for i, source in enumerate(("../host/rootfs", "..", "/etc", "rootfs/../../..", "rootfs/link", "host:/etc", "host:",
                                "",
                                "rootfs\u0000x", "x" * 300)):
        def change(root, m, s=source):
            os.symlink(outside, os.path.join(root, "link"))
            m["layers"][0]["source"] = s
        r = launch(f"layer{i}", change)
        assert r.returncode == 3 and r.stdout == "", (source, r.stdout, r.stderr)
    for i, target in enumerate(("usr", "/../..", "/usr/..", "/", "/proc", "", "/" + "a/" * 200)):
        def change(root, m, t=target):
            m["layers"][1]["target"] = t
        r = launch(f"target{i}", change)
        assert r.returncode == 3 or target in ("/proc",), (target, r.stdout, r.stderr)


def test_an_interpreter_out_of_the_image():
    def change(root, m):
        m["interpreters"]["python"]["argv"] = ["/bin/../../../../.." + os.path.realpath(sys.executable) + "-none"]
    refused(launch("interp", change), "interpreter", "No such file")


def test_a_null_device_that_is_none():
    """It masks files of /proc; one that is something else would be written to. Needs a mount of its own: as an ordinary
    user in a user namespace."""
    setup()
    fake = os.path.join(top, "fake")
    with open(fake, "w") as f:
        f.write("fake")
    os.chmod(fake, 0o666)
    script = 'mount --bind "$1" /dev/null || exit 9; "$2" run --image host -c 1 2>"$3"; echo "status $?"; ' \
             '"$2" stop 2>"$3.2"'
    env = {**box.env, "CODEBOX_RUNTIME_DIR": os.path.join(top, "r"), "CODEBOX_STATE_DIR": os.path.join(top, "s")}
    ids = [] if os.geteuid() == 0 else ["-U", "--map-current-user", "--keep-caps"]
    r = subprocess.run(["unshare", *ids, "-m", "sh", "-c", script, "sh", fake, CODEBOX, os.path.join(top, "err")],
                       env=env, stdin=subprocess.PIPE, capture_output=True, text=True, timeout=600)
    with open(os.path.join(top, "err")) as f:
        errors = f.read()
    assert "status 3" in r.stdout, (r.stdout, r.stderr, errors)
    assert "/dev/null is not the memory device" in errors, errors


if __name__ == "__main__":
    run(globals())
