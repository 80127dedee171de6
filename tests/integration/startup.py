#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon's life, and machines that give less than they should: stale sockets, many clients at once, idle exit, no
user namespaces, a read-only home, a full disk."""
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import CODEBOX, Box, Skip, identity, run, wait_until  # noqa: E402

INIT = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}})
CALL = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
    "name": "create_session", "arguments": {"image": "host"}}})


def test_many_clients_start_one_daemon():
    box = Box()
    clients = [box.popen("session", "ls", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(12)]
    for c in clients:
        _, e = c.communicate(timeout=120)
        assert c.returncode == 0, e
    with open(os.path.join(box.env["CODEBOX_STATE_DIR"], "codeboxd.log")) as f:
        log = f.read()
    assert log.count(" serves ") == 1, log
    box.stop()


def test_the_daemon_is_in_a_session_of_its_own():
    box = Box()
    box("session", "ls", check=True)
    pid = box.daemon_pid()
    assert os.getsid(pid) != os.getsid(0) and os.getpgid(pid) != os.getpgid(0)
    box.stop()


def test_a_stale_socket_is_replaced():
    box = Box()
    os.makedirs(box.env["CODEBOX_RUNTIME_DIR"], 0o700)
    for name in ("control.sock", "mcp.sock"):
        s = socket.socket(socket.AF_UNIX)
        s.bind(os.path.join(box.env["CODEBOX_RUNTIME_DIR"], name))
        s.close()
    box("session", "ls", check=True)
    box.stop()


def test_idle_exit_and_restart():
    box = Box(CODEBOX_IDLE_TIMEOUT="1")
    box("session", "ls", check=True)
    daemon = identity(box.daemon_pid())
    assert wait_until(lambda: daemon is None or identity(daemon[0]) != daemon), daemon
    assert not os.path.exists(os.path.join(box.env["CODEBOX_RUNTIME_DIR"], "control.sock"))
    box("session", "ls", check=True)
    box.stop()


def test_a_directory_of_somebody_else_is_refused():
    box = Box()
    os.symlink("/tmp", box.env["CODEBOX_RUNTIME_DIR"])
    r = box("session", "ls")
    assert r.returncode == 3 and "directory" in r.stderr, r
    os.remove(box.env["CODEBOX_RUNTIME_DIR"])
    box.stop()


def test_read_only_home():
    box = Box()
    home = os.path.join(box.dir, "home")
    os.makedirs(os.path.join(home, ".local"))
    env = {k: v for k, v in box.env.items() if not k.startswith(("XDG_", "CODEBOX_STATE", "CODEBOX_DATA"))}
    if os.geteuid() == 0:
        raise Skip("root writes anywhere")
    env["HOME"] = home
    os.chmod(os.path.join(home, ".local"), 0o555)
    os.chmod(home, 0o555)
    box.env = env
    r = box("run", "-c", "1")
    assert r.returncode == 3 and "image" in r.stderr, r
    r = box("image", "build", "host")
    assert r.returncode != 0 and home in r.stderr, r
    p = subprocess.run([CODEBOX, "mcp"], input=INIT + "\n" + CALL + "\n", env=env, capture_output=True, text=True,
                       timeout=120)
    answers = [json.loads(line) for line in p.stdout.splitlines()]
    assert answers[0]["result"]["serverInfo"]["name"] == "codebox", p
    box.stop()
    os.chmod(home, 0o755)
    os.chmod(os.path.join(home, ".local"), 0o755)


def test_an_installation_that_only_root_reaches():
    """codeboxd gives up root early; what it needs of its own installation after that it has or has open."""
    if os.geteuid() != 0:
        raise Skip("root's run does this")
    box = Box(CODEBOX_ZYGOTES="1")
    image = box.image("host", "python-minimal", "python")
    closed = os.path.join(box.dir, "closed")
    os.mkdir(closed, 0o700)
    for name in ("CODEBOX_LIBEXEC_DIR", "CODEBOX_SHARE_DIR"):
        box.env[name] = shutil.copytree(os.environ[name], os.path.join(closed, name))
    box.env["CODEBOX_DAEMON"] = shutil.copy2(os.environ["CODEBOX_DAEMON"], closed)
    for profile in ("default", "strict"):
        r = box("run", "--image", image, "--set", f"profile={profile}", "-c", "import os; print(os.getuid())")
        assert r.stdout == "1000\n", (profile, r)
    hello = box.hello()
    assert hello["confinement"]["seccomp_rules"] > 50 and not hello["trouble"], hello
    assert os.readlink(f"/proc/{hello['pid']}/exe").startswith(closed)
    with open(f"/proc/{hello['pid']}/status") as f:
        ids = next(line.split()[1:] for line in f if line.startswith("Uid:"))
    assert "0" not in ids, ids
    box.stop()


def in_namespace(script, env):
    """Run a shell script as root of a user namespace that has a range of ids."""
    if os.geteuid() == 0:
        raise Skip("the ordinary user's run does this")
    if not shutil.which("newuidmap") or not shutil.which("setpriv"):
        raise Skip("needs newuidmap and setpriv")
    return subprocess.run(["unshare", "-r", "--map-auto", "-m", "--fork", "sh", "-ec", script], env=env,
                          capture_output=True, text=True, timeout=120)


def test_no_user_namespaces():
    box = Box()
    if subprocess.run(["unshare", "-r", "--map-auto", "true"], capture_output=True).returncode:
        raise Skip("no subordinate ids")
    run_dir = os.path.join(box.dir, "ns")
    os.mkdir(run_dir)
    os.chmod(box.dir, 0o755)
    made = Box(CODEBOX_DATA_DIR=os.path.join(run_dir, "data"))
    made("image", "build", "host", check=True)
    made.stop()
    # Installed files may lie where only this user may go.
    if not all(os.stat(p).st_mode & 1 for p in parents(CODEBOX)):
        raise Skip("the installation is not reachable for another id")
    script = f"""
        echo 0 > /proc/sys/user/max_user_namespaces
        chown 1:1 {run_dir}
        export CODEBOX_RUNTIME_DIR={run_dir}/run CODEBOX_STATE_DIR={run_dir}/state
        export CODEBOX_DATA_DIR={run_dir}/data HOME={run_dir}
        u="setpriv --reuid 1 --regid 1 --clear-groups"
        chown -R 1:1 {run_dir}/data
        : >{run_dir}/said
        (printf '%s\\n' '{INIT}' '{CALL}'; while [ "$(wc -l <{run_dir}/said)" -lt 2 ]; do sleep 0.1; done) |
            $u {CODEBOX} mcp >{run_dir}/said
        cat {run_dir}/said
        $u {CODEBOX} doctor || true
        $u {CODEBOX} stop || true
    """
    r = in_namespace(script, box.env)
    lines = r.stdout.splitlines()
    first, second = json.loads(lines[0]), json.loads(lines[1])
    assert first["result"]["serverInfo"]["name"] == "codebox", r
    assert second["result"]["isError"] is True, second
    text = second["result"]["content"][0]["text"]
    assert "user namespaces" in text and "max_user_namespaces" in text, text
    assert "max_user_namespaces" in "\n".join(lines[2:]), lines
    box.stop()


def test_root_gives_nothing_away_by_its_name():
    """The run-time directory is the service id's. What that may have put there in the place of the daemon's own files
    is not given to it."""
    box = Box()
    if subprocess.run(["unshare", "-r", "--map-auto", "true"], capture_output=True).returncode:
        raise Skip("no subordinate ids")
    if not all(os.stat(p).st_mode & 1 for p in parents(CODEBOX)):
        raise Skip("the installation is not reachable for another id")
    top = os.path.join(box.dir, "root")
    os.makedirs(os.path.join(top, "elsewhere"), 0o755)
    with open(os.path.join(top, "passwd"), "w") as f:
        f.write("root:x:0:0::/:/bin/sh\ncodebox:x:1:1::/:/bin/false\n")
    script = f"""
        mount --bind {top}/passwd /etc/passwd
        cd {top}
        export CODEBOX_RUNTIME_DIR={top}/run CODEBOX_STATE_DIR={top}/state CODEBOX_DATA_DIR={top}/data
        mkdir run data
        echo secret > victim
        chmod 600 victim
        ln victim run/lock
        ln -s {top}/elsewhere data/images
        chown -h 1:1 run data data/images
        {os.environ["CODEBOX_DAEMON"]} --foreground --idle-timeout 1 || true
        {CODEBOX} session ls || true
        stat -c '%n %u %a' victim elsewhere run
    """
    r = in_namespace(script, box.env)
    assert r.stdout.splitlines()[-3:] == ["victim 0 600", "elsewhere 0 755", "run 1 750"], r
    assert r.stderr.count("run/lock is not a lock file") == 2, r.stderr
    box.stop()


def parents(path):
    path = os.path.realpath(path)
    while path != "/":
        path = os.path.dirname(path)
        yield path


def test_full_store_is_a_clear_error_and_leaves_nothing():
    box = Box()
    tar = os.path.join(box.dir, "big.tar")
    with tarfile.open(tar, "w") as t:
        for i in range(8):
            info = tarfile.TarInfo(f"usr/file{i}")
            info.size = 1 << 20
            import io
            t.addfile(info, io.BytesIO(os.urandom(1 << 20)))
    data = os.path.join(box.dir, "data")
    os.mkdir(data)
    if os.geteuid() == 0:
        script = f"mount -t tmpfs -o size=2m tmpfs {data}; " \
                 f"CODEBOX_DATA_DIR={data} {CODEBOX} image import full {tar}; echo $?; " \
                 f"find {data}/images -mindepth 1 ! -name .lock"
        r = subprocess.run(["unshare", "-m", "sh", "-c", script], env=box.env, capture_output=True, text=True,
                           timeout=120)
        assert "No space left" in r.stderr and r.stdout.split()[0] != "0", r
        assert len(r.stdout.split()) == 1, r.stdout
    else:
        raise Skip("root's run does this")
    box.stop()


if __name__ == "__main__":
    run(globals())
