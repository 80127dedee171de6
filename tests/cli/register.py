#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codebox register on temporary home directories: TAP. Nothing of the user's own configuration is touched."""
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import cbxtest
from cbxtest import CODEBOX, Skip

FILES = {"claude-desktop": ".config/Claude/claude_desktop_config.json", "claude-code": ".claude.json",
         "vscode": ".config/Code/User/mcp.json", "cursor": ".cursor/mcp.json"}
SECTION = {c: "servers" if c == "vscode" else "mcpServers" for c in FILES}
COMMAND = os.path.realpath(shutil.which(CODEBOX) or CODEBOX)


class Home:
    """A home directory for one test."""

    def __init__(self, **env):
        self.made = tempfile.TemporaryDirectory(prefix="cbxreg")
        self.dir = os.path.realpath(self.made.name)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("XDG_")}
        self.env.update(HOME=self.dir, ASAN_OPTIONS="detect_leaks=0", **env)

    def path(self, client="cursor"):
        return os.path.join(self.dir, FILES.get(client, client))

    def write(self, client, text, mode=0o640):
        path = self.path(client)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(text if isinstance(text, bytes) else text.encode())
        os.chmod(path, mode)

    def read(self, client="cursor"):
        with open(self.path(client), "rb") as f:
            return f.read().decode()

    def __call__(self, *args, status=0):
        r = subprocess.run([CODEBOX, "register", *args], env=self.env, capture_output=True, text=True, timeout=60,
                           stdin=subprocess.DEVNULL)
        assert r.returncode == status, (args, r.returncode, r.stdout, r.stderr)
        return r

    def names(self, where="."):
        return sorted(os.listdir(os.path.join(self.dir, where)))


def want(client):
    entry = {"command": COMMAND, "args": ["mcp"]}
    return {"type": "stdio", **entry} if client in ("vscode", "claude-code") else entry


def same(got, wanted):
    assert got == wanted, f"got {got!r}\nwant {wanted!r}"


def contains(text, word):
    assert word in text, f"{word!r} is not in {text!r}"


def test_an_empty_directory_of_each_client():
    for client, file in FILES.items():
        home = Home()
        os.makedirs(os.path.dirname(home.path(client)), exist_ok=True)
        args = ["--force", client] if client == "claude-code" else [client]
        r = home(*args)
        contains(r.stdout, home.path(client))
        same(json.loads(home.read(client)), {SECTION[client]: {"codebox": want(client)}})
        same(stat.S_IMODE(os.stat(home.path(client)).st_mode), 0o600)
        same(home.names(os.path.dirname(file)), [os.path.basename(file)])


def test_a_client_that_was_never_used():
    for client in FILES:
        home = Home()
        r = home(client, status=1)
        contains(r.stderr, "--force")
        same(home.names(), [])
        if client == "claude-code":
            contains(r.stderr, f"claude mcp add --scope user codebox -- {COMMAND} mcp")
        home("--force", client)
        same(json.loads(home.read(client))[SECTION[client]]["codebox"], want(client))


def test_xdg_config_home():
    home = Home(XDG_CONFIG_HOME="")
    home.env["XDG_CONFIG_HOME"] = os.path.join(home.dir, "conf")
    os.makedirs(os.path.join(home.dir, "conf/Claude"))
    home("claude-desktop")
    same(home.names(), ["conf"])
    same(home.names("conf/Claude"), ["claude_desktop_config.json"])


def test_everything_else_stays_to_the_byte():
    before = ('{\n\t"zoom": 1.50,\n\t"big":9007199254740993, "e": 1E2,\n\t"text": "\\u00e9\\/ \u00e9",\n'
              '\t"mcpServers": {\n'
              '\t\t"files": {\n\t\t\t"command": "npx",\n\t\t\t"args": ["-y", "x"]\n\t\t}\n\t},\n\t"a": [ 1,2 ]\n}')
    home = Home()
    home.write("cursor", before)
    home("cursor")
    entry = ',\n\t\t"codebox": {\n\t\t\t"command": %s,\n\t\t\t"args": ["mcp"]\n\t\t}' % json.dumps(COMMAND)
    same(home.read(), before.replace('\n\t\t}\n\t},', '\n\t\t}' + entry + '\n\t},'))
    same(home.read(".cursor/mcp.json.codebox-backup"), before)
    for file in ("mcp.json", "mcp.json.codebox-backup"):
        same(stat.S_IMODE(os.stat(home.path(".cursor/" + file)).st_mode), 0o640)
    home("--remove", "cursor")
    same(home.read(), before)
    same(home.names(".cursor"), ["mcp.json", "mcp.json.codebox-backup"])


def test_shapes_of_files():
    for before in ("", " \n", "{}", "{ }\n", "{\n}\n", '{"mcpServers":{}}', '{"mcpServers": {\n}}', '{"a":1}',
                   '{"a":{"b":[{}]},"c":"}"}',
                   '{\r\n    "a": 1,\r\n    "mcpServers": {\r\n        "x": {}\r\n    }\r\n}\r\n',
                   '{"\\u006dcpServers":{"y":{"url":"u"}}}',
                   '{"mcpServers":{"x":{"command":"c"},"y":{"args":["{","\\"","\\\\"]}}, "z": null}'):
        home = Home()
        home.write("cursor", before)
        home("cursor")
        text = home.read()
        now, old = json.loads(text), json.loads(before if before.strip() else "{}")
        same(now["mcpServers"].pop("codebox"), want("cursor"))
        if "mcpServers" not in old:
            same(now.pop("mcpServers"), {})
        same(now, old)
        same(list(now), [k for k in old])
        if "\r\n" in before:
            same(text.replace("\r\n", "").count("\n"), 0)
        contains(home("cursor").stdout, "nothing was changed")
        same(home.read(), text)
        home("--remove", "cursor")
        left = json.loads(home.read())
        if "mcpServers" not in old:
            same(left.pop("mcpServers"), {})
        same(left, old)


def test_twice_changes_nothing():
    home = Home()
    home.write("cursor", '{"a": 1}')
    home("cursor")
    before, at = home.read(), os.stat(home.path())
    backup = home.read(".cursor/mcp.json.codebox-backup")
    contains(home("cursor").stdout, "already")
    same(home.read(), before)
    now = os.stat(home.path())
    same((now.st_ino, now.st_mtime_ns), (at.st_ino, at.st_mtime_ns))
    same(home.read(".cursor/mcp.json.codebox-backup"), backup)


def test_an_older_entry_is_corrected_and_keeps_what_was_added():
    home = Home()
    home.write("vscode", '{"servers":{"codebox":{"command":"/old/bin/codebox","args":["mcp","--x"],"env":{"A":"1"}}},'
                         '"n":1}')
    home("vscode")
    same(json.loads(home.read("vscode")),
         {"servers": {"codebox": {"command": COMMAND, "args": ["mcp", "--x"], "env": {"A": "1"},
                                                                   "type": "stdio"}}, "n": 1})
    home.write("cursor", '{"mcpServers":{"codebox":{"command":"codebox","args":["run"]}}}')
    home("cursor")
    same(json.loads(home.read())["mcpServers"]["codebox"], want("cursor"))


def test_a_name_of_another_server():
    for other in ('{"command":"npx","args":["codebox"]}', '{"url":"http://127.0.0.1:1/"}', '"x"', "null", "[]"):
        home = Home()
        before = '{"mcpServers": {"codebox": %s}}' % other
        home.write("cursor", before)
        for args in (("cursor",), ("--remove", "cursor")):
            contains(home(*args, status=1).stderr, "another server")
            same(home.read(), before)
        home("--name", "sandbox", "cursor")
        same(json.loads(home.read())["mcpServers"], {"codebox": json.loads(other), "sandbox": want("cursor")})
        home("--force", "cursor")
        same(json.loads(home.read())["mcpServers"], {"codebox": want("cursor"), "sandbox": want("cursor")})


def test_files_that_are_left_alone():
    for before, word in (('{"mcpServers": {}, }', "not JSON"), ('// mine\n{"servers": {}}', "not JSON"),
                         ('{"a": 1 /* b */}', "not JSON"),
                         ("[]", "no object"), ('{"mcpServers": [], "servers": 3}', "no object"),
                         ('{"a":1,"a":2}', "twice"),
                         (b'\xef\xbb\xbf{}', "not JSON"), (b'{"a":"\xff"}', "UTF-8"), ("{", "not JSON"),
                         ("[" * 500, "levels")):
        for client in ("vscode", "claude-desktop"):
            home = Home()
            home.write(client, before)
            r = home(client, status=1)
            contains(r.stderr, word)
            contains(r.stderr, "left as it is")
            lines = r.stderr[r.stderr.index('  "%s": {' % SECTION[client]):]
            same(json.loads("{%s}" % lines), {SECTION[client]: {"codebox": want(client)}})
            with open(home.path(client), "rb") as f:
                same(f.read(), before if isinstance(before, bytes) else before.encode())
            same(home.names(os.path.dirname(FILES[client])), [os.path.basename(FILES[client])])


def test_lines_to_add_by_hand_fit_a_file_with_other_servers():
    """The section must not stand twice: clients keep one of the two, and lose the servers of the other."""
    for client, section in SECTION.items():
        home = Home()
        text = '{\n  // mine\n  "%s": {\n    "files": {"command": "npx"},\n  MIDDLE\n  }\n}\n' % section
        home.write(client, text)
        for said in (home(client, status=1).stderr, home("--print", client).stdout):
            contains(said, "three lines inside")
            contains(said, 'where "%s" is in it already, put only the middle line, inside the braces of that' % section)
            lines = said[said.index('  "%s": {' % section):].splitlines()
            same(len(lines), 3)
            now = json.loads(text.replace("// mine", "").replace("MIDDLE", lines[1]))
            same(now, {section: {"files": {"command": "npx"}, "codebox": want(client)}})


def test_symbolic_links_are_followed():
    home = Home()
    home.write("dotfiles/mcp.json", '{"a": 1}')
    os.mkdir(home.path(".cursor"))
    os.symlink("../dotfiles/link.json", home.path())
    os.symlink("mcp.json", home.path("dotfiles/link.json"))
    home("cursor")
    assert os.path.islink(home.path()) and os.path.islink(home.path("dotfiles/link.json"))
    assert not os.path.islink(home.path("dotfiles/mcp.json"))
    same(json.loads(home.read("dotfiles/mcp.json"))["mcpServers"], {"codebox": want("cursor")})
    same(home.names("dotfiles"), ["link.json", "mcp.json", "mcp.json.codebox-backup"])
    same(home.names(".cursor"), ["mcp.json"])
    os.unlink(home.path("dotfiles/mcp.json"))
    contains(home("cursor", status=1).stderr, "symbolic link")
    same(home.names(".cursor"), ["mcp.json"])


def test_read_only_and_odd_files():
    home = Home()
    home.write("cursor", "{}", 0o444)
    contains(home("cursor", status=1).stderr, "read-only")
    same((home.read(), home.names(".cursor")), ("{}", ["mcp.json"]))
    os.unlink(home.path())
    os.mkfifo(home.path())
    contains(home("cursor", status=1).stderr, "regular file")
    os.unlink(home.path())
    os.mkdir(home.path())
    contains(home("cursor", status=1).stderr, "regular file")


def test_a_directory_that_cannot_be_written():
    if os.geteuid() == 0:
        raise Skip("root can write everywhere")
    home = Home()
    home.write("cursor", "{}")
    os.chmod(home.path(".cursor"), 0o500)
    try:
        r = subprocess.run([CODEBOX, "register", "cursor"], env=home.env, capture_output=True, text=True, timeout=60)
        assert r.returncode != 0 and "ermission" in r.stderr, (r.returncode, r.stderr)
        same(home.read(), "{}")
    finally:
        os.chmod(home.path(".cursor"), 0o700)


def test_a_file_of_somebody_else_keeps_its_owner():
    if os.geteuid() != 0:
        raise Skip("needs root")
    home = Home()
    home.write("cursor", "{}")
    os.chown(home.path(), 4242, 4343)
    home("cursor")
    st = os.stat(home.path())
    same((st.st_uid, st.st_gid, stat.S_IMODE(st.st_mode)), (4242, 4343, 0o640))


def test_dry_run_and_print_change_nothing():
    home = Home()
    home.write("claude-code", '{"projects": {}}')
    r = home("--dry-run", "claude-code")
    same(json.loads(r.stdout), {"projects": {}, "mcpServers": {"codebox": want("claude-code")}})
    contains(r.stderr, home.path("claude-code"))
    same(home.read("claude-code"), '{"projects": {}}')
    for client, section in SECTION.items():
        r = home("--print", "--name", "box", client)
        contains(r.stdout, home.path(client))
        same(json.loads("{" + r.stdout[r.stdout.index('  "%s"' % section):] + "}"), {section: {"box": want(client)}})
    same(home.names(), [".claude.json"])
    home("claude-code")
    same(json.loads(home("--dry-run", "--remove", "claude-code").stdout), {"projects": {}, "mcpServers": {}})
    same(home("--dry-run", "claude-code").stdout, home.read("claude-code"))


def test_remove():
    home = Home()
    contains(home("--remove", "cursor").stdout, "nothing was changed")
    same(home.names(), [])
    for before in ('{"mcpServers":{"a":{},"codebox":{"command":"codebox"},"b":{}}}',
                   '{"mcpServers":{"codebox":{"command":"/x/codebox"}, "b":{}}}',
                   '{"mcpServers":{"b":{} , "codebox" : {"command":"codebox"} } }'):
        home.write("cursor", before)
        home("--remove", "cursor")
        left = json.loads(before)
        del left["mcpServers"]["codebox"]
        same(json.loads(home.read()), left)
        contains(home("--remove", "cursor").stdout, "nothing was changed")


def test_command_lines_that_are_wrong():
    home = Home()
    for args in ((), ("emacs",), ("cursor", "vscode"), ("--name", "a b", "cursor"), ("--name", "", "cursor"),
                 ("--bad", "cursor"),
                 ("--print", "--remove", "cursor"), ("--name",)):
        contains(home(*args, status=2).stderr, "codebox register --help")
    home.env["HOME"] = "relative"
    contains(home("cursor", status=1).stderr, "HOME")


if __name__ == "__main__":
    cbxtest.run(globals())
