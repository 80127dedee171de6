#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A directory of the machine as the workspace, what is never shown in a sandbox, and the shipped policy of folders."""
import functools
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import CODEBOX, Box, Skip, run  # noqa: E402

box = Box()
top = os.path.join(box.dir, "site")


@functools.cache
def image():
    return box.image("host", "python-minimal", "python")


def at(*parts):
    return os.path.join(top, *parts)


def directory(*parts):
    os.makedirs(at(*parts), exist_ok=True)
    path = top
    for part in parts:  # root's sessions may write what every user may
        path = os.path.join(path, part)
        os.chmod(path, 0o777)
    return path


directory("work", "sub")
directory("only-read")
for file, text in (("work/data.csv", "a,b\n1,2\n"), ("work/sub/main.py", "print(__file__, open('data.csv').read())\n")):
    with open(at(*file.split("/")), "w") as f:
        f.write(text)
policy = os.path.join(box.dir, "policy.json")
with open(policy, "w") as f:
    json.dump({"mounts": {"allow": [{"path": top, "writable": True}]}}, f)
box.env["CODEBOX_POLICY"] = policy


def cell(code, *options):
    return box("run", "--image", image(), *options, "-c", code)


def refused(why, *options):
    r = cell("print('in')", *options)
    assert r.returncode != 0 and "in\n" not in r.stdout and why in r.stderr, (options, r)


def test_the_work_area_is_the_directory():
    code = ("import os; print(os.getcwd(), sorted(os.listdir()), open('data.csv').readline());"
            "open('made.txt', 'w').write('x'); os.mkdir('dir')")
    r = cell(code, "--workspace", at("work"))
    assert r.returncode == 0 and r.stdout.startswith("/workspace ['data.csv', 'sub'] a,b\n"), r
    with open(at("work", "made.txt")) as f:
        assert f.read() == "x"
    assert os.stat(at("work", "made.txt")).st_uid == os.stat(at("work", "dir")).st_uid
    # It is there for the next session, and nothing else of the first one is.
    assert cell("import os; print(sorted(os.listdir()))", "--workspace", at("work")).stdout == (
        "['data.csv', 'dir', 'made.txt', 'sub']\n")
    os.remove(at("work", "made.txt"))
    os.rmdir(at("work", "dir"))


def test_files_that_a_cell_changed_are_reported():
    r = box("run", "--image", image(), "--json", "--workspace", at("work"), "-c", "open('new.csv', 'w').write('1');")
    assert [f["path"] for f in json.loads(r.stdout)["files"]] == ["new.csv"], r
    os.remove(at("work", "new.csv"))


def test_a_session_keeps_it_and_its_files_are_copied_as_others():
    assert cell("x = 1", "--session", "kept", "--workspace", at("work")).returncode == 0
    assert cell("import os; print(x, os.path.exists('data.csv'))", "--session", "kept").stdout == "1 True\n"
    r = box("session", "info", "--json", "kept")
    assert [[m["source"], m["target"], m["writable"]] for m in json.loads(r.stdout)["mounts"]] == [
        [at("work"), "/workspace", True]], r
    assert box("cp", "kept:data.csv", os.path.join(box.dir, "copy.csv")).returncode == 0
    # As for other mounts, the same session with another directory is another session.
    assert "session kept" in cell("1", "--session", "kept", "--workspace", at("only-read")).stderr
    box("session", "rm", "kept", check=True)
    assert os.path.exists(at("work", "data.csv"))


def test_a_program_of_the_directory_runs_where_it_is_and_no_other_is_left_there():
    r = box("run", "--image", image(), "--workspace", at("work"), at("work", "sub", "main.py"))
    assert r.stdout == "/workspace/sub/main.py a,b\n1,2\n\n", r
    other = os.path.join(box.dir, "data.csv")  # one that has the name of a file of the directory
    with open(other, "w") as f:
        f.write("print(__file__, open('data.csv').read())\n")
    r = box("run", "--image", image(), "--workspace", at("work"), other)
    assert r.stdout == "/home/user/data.csv a,b\n1,2\n\n", r
    assert sorted(os.listdir(at("work"))) == ["data.csv", "sub"]
    with open(at("work", "data.csv")) as f:
        assert f.read() == "a,b\n1,2\n"
    with open(os.path.join(box.dir, "main.sh"), "w") as f:
        f.write("echo $0 $PWD; cat data.csv\n")
    r = box("run", "--image", image(), "--workspace", at("work"), os.path.join(box.dir, "main.sh"))
    assert r.stdout.endswith("/workspace\na,b\n1,2\n") and sorted(os.listdir(at("work"))) == ["data.csv", "sub"], r
    # A session's own workspace takes a program as ever.
    assert box("run", "--image", image(), other).stdout.startswith("/workspace/data.csv print")


def test_what_cannot_be_the_work_area():
    refused("make it first", "--workspace", at("nowhere"))
    refused("is a directory", "--workspace", at("work", "data.csv"))
    refused("is to be read-only", "--mount", at("work") + ":/workspace")
    refused("not beside each other", "--workspace", at("work"), "--mount", at("only-read") + ":/workspace/x")
    refused("is not in a directory that the policy", "--workspace", os.path.dirname(top))
    with open(policy) as f:
        before = f.read()
    with open(policy, "w") as f:
        json.dump({"mounts": {"allow": [{"path": top}]}}, f)
    box("policy", "reload", check=True)
    refused("may only be read, by the policy", "--workspace", at("work"))
    with open(policy, "w") as f:
        f.write(before)
    box("policy", "reload", check=True)


def test_mcp_has_it():
    lines = [{"jsonrpc": "2.0", "id": 1, "method": "initialize",
              "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}},
             {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
              "params": {"name": "run_code", "arguments": {"code": "open('mcp.txt', 'w').write('m'); print('done')"}}}]
    r = subprocess.run([CODEBOX, "mcp", "--image", image(), "--workspace", at("work")], env=box.env, text=True,
                       input="".join(json.dumps(line) + "\n" for line in lines), stdout=subprocess.PIPE)
    assert "done" in r.stdout and os.path.exists(at("work", "mcp.txt")), r
    os.remove(at("work", "mcp.txt"))


def test_register_passes_it():
    r = box("register", "--workspace", at("work"), "--print", "cursor")
    assert f'["mcp","--workspace","{at("work")}"]' in r.stdout, r
    assert box("register", "--workspace", at("work"), "--folder", at("work"), "--print", "cursor").returncode == 2
    assert "make it first" in box("register", "--workspace", at("nowhere"), "--print", "cursor").stderr
    os.makedirs(at(".ssh"), exist_ok=True)
    r = box("register", "--workspace", at(".ssh"), "--print", "cursor")
    assert r.returncode != 0 and "never shown" in r.stderr, r
    os.rmdir(at(".ssh"))


CREDENTIALS = (".ssh", ".gnupg", ".aws", ".azure", ".config/gcloud", ".config/gh", ".kube", ".docker", ".password-store",
               ".local/share/keyrings", ".mozilla", ".config/google-chrome", ".config/chromium", ".var/app/org.mozilla.firefox")


def test_credentials_are_never_shown():
    for name in CREDENTIALS:
        directory(*name.split("/"), "below")
        for path in (at(name), at(name, "below")):
            refused("never shown", "--mount", path)
        os.symlink(at(name), at("link"))
        refused("never shown", "--workspace", at("link"))
        os.remove(at("link"))
    for name in ".netrc", ".git-credentials", ".npmrc":
        with open(at(name), "w") as f:
            f.write("secret")
        refused("never shown", "--mount", at(name))
        os.remove(at(name))


def test_nor_what_holds_them():
    home = directory("homes", "ada")
    for name, above in ((".ssh", ""), (".config/gcloud", ""), (".config/gcloud", ".config"), (".mozilla", ""),
                        (".local/share/keyrings", ".local"), (".local/share/keyrings", ".local/share")):
        directory("homes", "ada", *name.split("/"))
        refused("never shown", "--workspace", os.path.join(home, above) if above else home)
        assert cell("print('in')", "--mount", directory("homes", "ada", "project")).stdout == "in\n"
        subprocess.run(["rm", "-rf", os.path.join(home, name.split("/")[0])], check=True)
    # What programs also keep in a directory of work does not make it a home.
    for name in ".docker", ".azure":
        directory("homes", "ada", "project", name)
    assert cell("print('in')", "--workspace", os.path.join(home, "project")).stdout == "in\n"
    if os.path.isdir("/home"):
        with open(policy) as f:
            before = f.read()
        with open(policy, "w") as f:
            json.dump({"mounts": {"allow": [{"path": "/home", "writable": True}]}}, f)
        box("policy", "reload", check=True)
        refused("never shown", "--workspace", "/home")
        with open(policy, "w") as f:
            f.write(before)
        box("policy", "reload", check=True)


def test_the_shipped_policy_of_folders():
    b = Box()
    b.env["CODEBOX_POLICY"] = "codebox-ai"
    folder = directory("shown")
    if not folder.startswith(("/tmp/", "/home/")):
        raise Skip(f"{folder} is not in a directory of that policy")
    with open(os.path.join(folder, "a.txt"), "w") as f:
        f.write("a")

    def call(*options, code=f"print(open({folder!r} + '/a.txt').read())"):
        lines = [{"jsonrpc": "2.0", "id": 1, "method": "initialize",
                  "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                             "clientInfo": {"name": "t", "version": "1"}}},
                 {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
                  "params": {"name": "execute_code", "arguments": {"code": code}}}]
        r = subprocess.run([CODEBOX, "mcp", "--profile", "codebox-ai", "--image", image(), *options], env=b.env,
                           text=True, input="".join(json.dumps(line) + "\n" for line in lines), stdout=subprocess.PIPE)
        return json.loads(r.stdout.splitlines()[-1])["result"]["content"][0]["text"]

    if not folder.startswith("/tmp/"):
        assert call("--mount", folder) == "a\n"  # under its own name
        assert "Read-only file system" in call("--mount", folder + ":rw", code=f"open({folder!r} + '/b', 'w')")
    assert call("--mount", folder + ":/data", code="print(open('/data/a.txt').read())") == "a\n"
    assert "Read-only file system" in call("--mount", folder + ":/data:rw", code="open('/data/b', 'w')")
    for place in "/etc", "/var/log", "/boot", "/usr/bin", "/proc/sys", "/sys":
        text = call("--mount", place, code="1")
        assert text.startswith("Error: ") and "mounts: " + os.path.realpath(place) in text, text
    b.stop()


if __name__ == "__main__":
    run(globals())
