#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images like those of other distributions, made here: whatever they have runs as a command, files come and go, and a
cell is refused by an image that has no interpreter. By the command line, and as a model's client."""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from cbxtest import CODEBOX, Box, Skip, directory, run  # noqa: E402
from model import Model  # noqa: E402
from ociimage import Image, Layer, add, bash_layer, layout, libraries, write_tar  # noqa: E402

top = os.path.join(directory, "kinds")
os.makedirs(top, exist_ok=True)
box = Box(CODEBOX_DATA_DIR=os.path.join(top, "data"))
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	char line[100];
	if (argc > 1 && strcmp(argv[1], "copy") == 0) {
		while (fgets(line, sizeof(line), stdin))
			printf("got %s", line);
		return 0;
	}
	if (argc > 1 && strcmp(argv[1], "write") == 0) {
		FILE *f = fopen(argv[2], "w");
		return !f || fputs("written\n", f) < 0 || fclose(f) ? 1 : 0;
	}
	printf("%d %s %s\n", (int)getuid(), getenv("GREETING"), getcwd(line, sizeof(line)));
	fprintf(stderr, "%d\n", isatty(1));
	return argc > 1 ? atoi(argv[1]) : 0;
}
"""


def build(compiler, name):
    """PROGRAM, compiled; its path."""
    out = os.path.join(top, name)
    if not shutil.which(compiler):
        raise Skip(f"there is no {compiler}")
    subprocess.run([compiler, "-O1", "-o", out, "-xc", "-"], input=PROGRAM.encode(), check=True)
    return out


def make(name, layer, config=None):
    if name in box.images():
        return name
    path = os.path.join(top, name + ".tar")
    write_tar(layout([Image([(layer.bytes(), "gzip")], config)]), path)
    r = box("image", "import", name, path)
    assert r.returncode == 0, r.stderr
    os.unlink(path)
    return name


def distroless():
    """A program, the libraries that it needs, and nothing else: no shell."""
    layer, program = Layer(), build("gcc", "glibc")
    add(layer, "app", program)
    for name, path in libraries(program).items():
        add(layer, name, path)
    return make("distroless", layer, {"Env": ["GREETING=hello", "PATH=/usr/bin"], "Entrypoint": ["/app"]})


def alpine():
    """musl, and all else from busybox."""
    loader = "lib/ld-musl-%s.so.1" % os.uname().machine
    if not os.path.exists("/" + loader) or not os.path.exists("/bin/busybox"):
        raise Skip("there is no musl, or no busybox")
    layer = add(add(Layer(), "usr/bin/app", build("musl-gcc", "musl")), loader, os.path.realpath("/" + loader))
    add(layer, "bin/busybox", "/bin/busybox").file("etc/os-release", b"ID=alpine\n")
    applets(layer)
    return make("alpine", layer, {"Env": ["GREETING=hello", "PATH=/usr/bin:/bin"], "Cmd": ["/bin/sh"]})


def applets(layer):
    for applet in ("sh", "cat", "ls", "stty", "vi", "sleep", "id", "env", "tr", "pwd", "echo"):
        layer.link("bin/" + applet, "/bin/busybox")
    return layer


PASSWD = b"root:x:0:0:root:/root:/bin/sh\nother:x:1000:1000::/home/other:/bin/sh\napp:x:990:990:An app:/srv:/sbin/nologin\n"


def application(name, **config):
    """One that says how it is to be run."""
    if not os.path.exists("/bin/busybox"):
        raise Skip("there is no busybox")
    layer = applets(add(Layer(), "bin/busybox", "/bin/busybox"))
    layer.file("srv/app/data", b"of the image\n").file("etc/passwd", PASSWD).file("etc/group", b"root:x:0:\napp:x:990:\n")
    return make(name, layer, {"Env": ["PATH=/bin"], **config})


def fedora():
    return make("fedora", bash_layer(os.path.join(top, "fedora")), {"Env": ["GREETING=hello"]})


def command(image, *argv, session=None, **kw):
    where = ["--image", image] if not session else [session]
    return box("exec", *where, *(["-i"] if "input" in kw else []), "--", *argv, **kw)


def check_program(image, app, uid=1000):
    r = command(image, app)
    assert (r.returncode, r.stdout, r.stderr) == (0, f"{uid} hello /workspace\n", "0\n"), (r.stdout, r.stderr)
    assert command(image, app, "7").returncode == 7
    r = command(image, app, "copy", input="one\ntwo\n")
    assert (r.returncode, r.stdout) == (0, "got one\ngot two\n"), (r.stdout, r.stderr)


def check_files(image, app):
    """A session that stays: files by a command, from outside, and to outside."""
    box("exec", "--image", image, "--session", "kept", "--", app, "write", "made", check=True)
    mine = os.path.join(top, "mine")
    with open(mine, "w") as f:
        f.write("mine\n")
    box("cp", mine, "kept:/workspace/mine", check=True)
    box("cp", "kept:/workspace/made", mine, check=True)
    with open(mine) as f:
        assert f.read() == "written\n"
    r = box("run", "--session", "kept", "-c", "1")
    assert r.returncode != 0 and "it has no interpreter for any language" in r.stderr, r.stderr
    listed = box.json("session", "info", "--json", "kept")
    assert listed["languages"] == [] and listed["state"] == "idle", listed
    # It is asked to run none again, and lives.
    assert box("session", "restart", "kept").returncode == 0
    assert command(image, app, "write", "again", session="kept").returncode == 0
    box("session", "rm", "kept", check=True)


def check_model(image, shell):
    model = Model(box)

    def tool(name, **arguments):
        r = model.call(name, **arguments)
        return r, "\n".join(c.get("text", "") for c in r["content"])

    r, text = tool("create_session", session_id="m", image=image)
    assert not r.get("isError"), text
    for arguments in ({"code": "1+1"}, {"code": "1", "language": "python"}, {"code": "%%bash\nls"},
                      {"code": "1", "background": True}):
        r, text = tool("run_code", session_id="m", **arguments)
        assert r.get("isError") and "no interpreter for any language" in text, text
    r, text = tool("run_command", session_id="m", command="echo $GREETING | tr a-z A-Z; exit 4")
    if shell:
        assert r["structuredContent"]["stdout"] == "HELLO\n" and r["structuredContent"]["exit_code"] == 4, r
    else:
        assert r["structuredContent"]["status"] == "error" and '"/bin/sh": not found' in text, r
    r, text = tool("write_file", session_id="m", path="a.txt", content="from the model")
    assert not r.get("isError"), text
    r, text = tool("read_file", session_id="m", path="a.txt")
    assert "from the model" in text, text
    r, text = tool("list_files", session_id="m")
    assert "a.txt" in text, text
    r, text = tool("restart", session_id="m")
    assert not r.get("isError"), text
    r, text = tool("close_session", session_id="m")
    assert not r.get("isError"), text
    model.close()


def test_like_a_distroless_one():
    image = distroless()
    check_program(image, "/app")
    check_files(image, "/app")
    check_model(image, False)
    r = command(image, "/bin/sh")
    assert r.returncode == 127 and "/bin/sh" in r.stderr, (r.returncode, r.stderr)
    r = box("run", "--image", image, "-c", "1")
    assert r.returncode != 0 and "no interpreter for any language" in r.stderr and not box.sessions(), r.stderr


def test_like_alpine():
    image = alpine()
    check_program(image, "app")
    check_files(image, "app")
    check_model(image, True)
    r = box("shell", "--image", image, input="id -u; echo $0; cat /etc/os-release\n")
    assert r.returncode == 0 and r.stdout.split() == ["1000", "/bin/sh", "ID=alpine"], (r.stdout, r.stderr)


def test_like_fedora():
    image = fedora()
    r = command(image, "cat", "/etc/os-release")
    assert r.returncode == 0 and "ID=fedora" in r.stdout, r.stderr
    r = box("run", "--image", image, "-l", "bash", "-c", "echo $GREETING; cd /tmp; pwd")
    assert (r.returncode, r.stdout) == (0, "hello\n/tmp\n"), (r.stdout, r.stderr)
    r = box("run", "--image", image, "-l", "python", "-c", "1")
    assert r.returncode != 0 and 'cannot run "python"; use one of bash, or a session with another image' in r.stderr, r.stderr
    r = box("run", "--image", alpine(), "-l", "bash", "-c", "1")
    assert r.returncode != 0 and f'use a session with the image "{image}"' in r.stderr, r.stderr
    r = box("shell", "--image", image, input="a=(1 2 3); echo ${#a[@]}\n")
    assert (r.returncode, r.stdout) == (0, "3\n"), (r.stdout, r.stderr)


SAYS = {"WorkingDir": "/srv/app", "User": "app:app", "Entrypoint": ["echo", "entry"], "Cmd": ["one", "two words"]}


def said(image, *argv, **kw):
    r = command(image, *argv, **kw)
    assert r.returncode == 0, r.stderr
    return r.stdout


def test_commands_start_where_the_image_says():
    image = application("application", **SAYS)
    assert said(image, "cat", "data") == "of the image\n"
    assert box("exec", "--image", image, "-w", "/tmp", "--", "pwd").stdout == "/tmp\n"
    assert box("exec", "--image", image, "-w", ".", "--", "pwd").stdout == "/workspace\n"
    assert box("shell", "--image", image, input="pwd\n").stdout == "/srv/app\n"
    assert said(application("rooted", WorkingDir="/"), "pwd") == "/workspace\n"
    assert said(application("relative", WorkingDir="srv/app"), "pwd") == "/srv/app\n"
    assert said(application("nowhere", WorkingDir="/not/there"), "pwd") == "/workspace\n"
    r = box("exec", "--image", image, "-w", "/not/there", "--", "pwd")
    assert r.returncode == 126 and "/not/there" in r.stderr, (r.returncode, r.stderr)
    model = Model(box)
    model.call("create_session", session_id="m", image=image)
    r = model.call("run_command", session_id="m", command="pwd; echo $USER")
    assert r["structuredContent"]["stdout"] == "/srv/app\napp\n", r
    model.call("close_session", session_id="m")
    model.close()


def test_the_program_of_an_image_is_run():
    image = application("application", **SAYS)
    r = box("exec", "--image", image)
    assert (r.returncode, r.stdout) == (0, "entry one two words\n"), (r.stdout, r.stderr)
    r = box("exec", "-i", "--image", application("filter", Cmd=["tr", "a-z", "A-Z"]), input="shout\n")
    assert (r.returncode, r.stdout) == (0, "SHOUT\n"), (r.stdout, r.stderr)
    # A command is run as it is, as docker exec does.
    assert said(image, "echo", "mine") == "mine\n"
    number = box("exec", "-d", "--image", application("server", Cmd=["sleep", "1000"]), "--session", "served").stdout.strip()
    listed = box.json("exec", "--list", "--json", "served")["commands"]
    assert [c["argv"] for c in listed] == [["sleep", "1000"]] and box("exec", "--kill", number, "served").returncode == 0
    box("session", "rm", "served", check=True)
    r = box("exec", "--image", application("mute"))
    assert r.returncode == 2 and "names no program to run" in r.stderr, (r.returncode, r.stderr)
    for wrong in (["--list"], ["--attach", "1"], ["--kill", "1"]):
        assert box("exec", "--image", image, *wrong).returncode == 2, wrong


def test_the_user_is_called_what_the_image_says():
    look = "id -un; id -gn; id -u; echo $USER $LOGNAME $HOME; echo x >$HOME/f && echo y >/workspace/f && echo writable"
    for user in ("app:app", "app", "990", "990:0"):
        got = said(application("user-" + user.replace(":", "-"), User=user), "sh", "-c", look)
        assert got.split() == ["app", "app", "1000", "app", "app", "/home/user", "writable"], (user, got)
    for user in ("", "root", "0:0", "nobody-there", "4711", "x:y", ":app"):
        got = said(application("none-" + user.replace(":", "-") + "x", User=user), "sh", "-c", look)
        assert got.split()[2:] == ["1000", "user", "user", "/home/user", "writable"], (user, got)
    # What the image says of others stays.
    assert said("user-app", "cat", "/etc/passwd").splitlines() == [
        "app:x:1000:1000:app:/home/user:/bin/sh", *PASSWD.decode().splitlines()[:2]]


def test_one_made_ahead_of_time():
    """The pool makes sessions of such images, too, and a command begins at once in each."""
    image = distroless()
    box("stop")
    more = {**box.env, "CODEBOX_POOL": "2"}
    for _ in range(6):
        r = subprocess.run([CODEBOX, "exec", "--image", image, "--", "/app"], env=more, capture_output=True, text=True,
                           stdin=subprocess.DEVNULL)
        assert r.returncode == 0 and r.stdout.startswith("1000 hello"), r.stderr


if __name__ == "__main__":
    run(globals())
