#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codebox register on temporary home directories: TAP. Nothing of the user's own configuration is touched."""
import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import cbxtest
from cbxtest import CODEBOX, Box, Skip

FILES = {"claude-desktop": ".config/Claude/claude_desktop_config.json", "claude-code": ".claude.json",
         "vscode": ".config/Code/User/mcp.json", "cursor": ".cursor/mcp.json", "gemini": ".gemini/settings.json",
         "windsurf": ".codeium/windsurf/mcp_config.json", "lmstudio": ".lmstudio/mcp.json",
         "cline": ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"}
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


def want(client, *args):
    entry = {"command": COMMAND, "args": ["mcp", *args]}
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


def test_the_example_that_packages_have():
    """It is what would be written."""
    home = Home()
    home("--force", "claude-desktop")
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "../../packaging/examples/claude_desktop_config.json"), encoding="utf-8") as f:
        example = json.load(f)
    entry = example["mcpServers"]["codebox"]
    same(entry["command"], "/usr/bin/codebox")  # of a package
    entry["command"] = COMMAND
    same(json.loads(home.read("claude-desktop")), example)


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


def test_everything_else_stays():
    """To the byte, in a file that a client has written: by JSON.stringify()."""
    for unit in "  ", "\t":
        before = ('{\n\t"zoom": 1.50,\n\t"big": 9007199254740993,\n\t"e": 1E2,\n\t"text-1": "\\\\\\"2 \u00e9",\n'
                  '\t"mcpServers": {\n'
                  '\t\t"files": {\n\t\t\t"command": "npx",\n\t\t\t"args": [\n\t\t\t\t"-y",\n\t\t\t\t-0.10\n\t\t\t]\n'
                  '\t\t}\n\t},\n\t"a": [],\n\t"b": {}\n}').replace("\t", unit)
        home = Home()
        home.write("cursor", before)
        said = home("cursor").stdout
        contains(said, '\n+ codebox: {"command":')
        assert "\n- " not in said, said
        entry = (',\n\t\t"codebox": {\n\t\t\t"command": %s,\n\t\t\t"args": [\n\t\t\t\t"mcp"\n\t\t\t]\n\t\t}' %
                 json.dumps(COMMAND)).replace("\t", unit)
        end = "\n\t\t}".replace("\t", unit)
        same(home.read(), before.replace(end, end + entry))
        same(home.read(".cursor/mcp.json.codebox-backup"), before)
        for file in ("mcp.json", "mcp.json.codebox-backup"):
            same(stat.S_IMODE(os.stat(home.path(".cursor/" + file)).st_mode), 0o640)
        contains(home("--remove", "cursor").stdout, '\n- codebox: {"command":')
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
        contains(home("cursor").stdout, "nothing was changed")
        same(home.read(), text)
        said = home("--remove", "cursor").stdout
        contains(said, "Restart Cursor to complete")
        assert "Switch it on" not in said, said
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
                         ("[]", "not an object"), ('{"mcpServers": [], "servers": 3}', "not an object"),
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
            contains(said, "a comma goes between it and what stands before or behind it")
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
        said = home("--remove", "cursor").stdout
        contains(said, "Restart Cursor to complete")
        assert "Switch it on" not in said, said
        left = json.loads(before)
        del left["mcpServers"]["codebox"]
        same(json.loads(home.read()), left)
        contains(home("--remove", "cursor").stdout, "nothing was changed")


def lines_for(home, client, *args):
    said, _, lines = home(*args, client).stdout.partition(":\n\n")
    contains(said, "Nothing was changed")
    return said, lines


def test_clients_whose_files_are_not_json():
    home = Home()
    said, lines = lines_for(home, "codex")
    contains(said, home.path(".codex/config.toml"))
    contains(said, f"codex mcp add codebox -- {COMMAND} mcp")
    same(lines, f'[mcp_servers.codebox]\ncommand = "{COMMAND}"\nargs = ["mcp"]\n')
    said, lines = lines_for(home, "zed", "--name", "box")
    contains(said, home.path(".config/zed/settings.json"))
    same(json.loads("{" + lines + "}"),
         {"context_servers": {"box": {"command": COMMAND, "args": ["mcp"], "env": {}}}})
    said, lines = lines_for(home, "goose")
    contains(said, home.path(".config/goose/config.yaml"))
    same(lines.splitlines(), ["extensions:", "  codebox:", "    name: codebox", "    type: stdio",
                              f'    cmd: "{COMMAND}"', '    args: ["mcp"]', "    enabled: true", "    timeout: 300"])
    for client in "codex", "zed", "goose":
        contains(home("--remove", client, status=1).stderr, "by hand")
    same(home.names(), [])


def test_a_session_and_a_policy_are_arguments_of_the_command():
    for client in FILES:
        home = Home()
        home.write(client, "{}")
        args = "--session", "notes", "--policy", "strict"
        home(*args, client)
        entry = {SECTION[client]: {"codebox": want(client, *args)}}
        same(json.loads(home.read(client)), entry)
        contains(home(client).stdout, "nothing was changed")  # they stay unless others are given
        same(json.loads(home.read(client)), entry)
        home("--session", "other", client)
        same(json.loads(home.read(client)), {SECTION[client]: {"codebox": want(client, "--session", "other")}})
        said = home("--print", "--session", "n", client).stdout
        same(json.loads("{" + said[said.index('  "%s"' % SECTION[client]):] + "}"),
             {SECTION[client]: {"codebox": want(client, "--session", "n")}})
    home = Home()
    contains(home("--session", "n", "claude-code", status=1).stderr, f"-- {COMMAND} mcp --session n\n")
    said, lines = lines_for(home, "codex", "--session", "n")
    contains(said, f"-- {COMMAND} mcp --session n")
    contains(lines, 'args = ["mcp","--session","n"]\n')
    contains(lines_for(home, "goose", "--session", "n")[1], '    args: ["mcp","--session","n"]\n')
    contains(lines_for(home, "zed", "--session", "n")[1], '"args":["mcp","--session","n"],')
    same(home.names(), [])


def allowed(home):
    return json.loads(home.read(".config/codebox/mounts.json"))["mounts"]["allow"]


def test_a_folder_is_allowed_and_mounted():
    home = Home()
    folder = home.path("my 'results'")
    os.mkdir(folder)
    os.symlink(folder, home.path("link"))
    mount = "-v", f"{folder}:/workspace/my 'results':rw"
    home.write("cursor", "{}")
    if os.geteuid() == 0:  # its codeboxd has the machine's policy
        contains(home("--folder", folder, "cursor", status=1).stderr, "not a user's to widen: nothing was registered")
        same(home.read(), "{}")
        return
    for args in (("--dry-run", "cursor"), ("--print", "cursor"), ("--print", "codex")):
        contains(home("--folder", folder, *args).stderr, "would be allowed to read and change " + folder)
        same(home.names(), sorted([".cursor", "link", "my 'results'"]))
    home.write(".config/codebox/mounts.json", json.dumps({"mounts": {"allow": [{"path": "/srv/other"}]}}), 0o600)
    contains(home("--folder", home.path("link"), "cursor").stderr, "may now read and change " + folder)
    same(json.loads(home.read())["mcpServers"], {"codebox": want("cursor", *mount)})
    same(allowed(home), [{"path": "/srv/other"}, {"path": folder, "writable": True}])
    same(home("--folder", folder, "cursor").stderr, "")
    same(len(allowed(home)), 2)
    said, _ = lines_for(home, "codex", "--folder", folder)
    same(shlex.split(said.partition("or run: ")[2]), ["codex", "mcp", "add", "codebox", "--", COMMAND, "mcp", *mount])
    # Where the folder cannot be shown nothing is registered, and the reason and remedy are said.
    os.mkdir(home.path("a:b"))
    for bad, status, word in ((home.dir, 1, "never shown"), (home.path(".config/codebox"), 1, "never shown"),
                              ("/etc", 2, "another user"), (home.path("a:b"), 2, "rename it")):
        contains(home("--name", "n", "--folder", bad, "cursor", status=status).stderr, word)
    home.write("policy.json", '{"include": ["default"]}')
    home.env["CODEBOX_POLICY"] = home.path("policy.json")
    os.mkdir(home.path("more"))
    r = home("--name", "n", "--folder", home.path("more"), "cursor", status=1)
    contains(r.stderr, home.path("policy.json") + " is not a user's to widen: nothing was registered")
    same(list(json.loads(home.read())["mcpServers"]), ["codebox"])
    home.write("policy.json", json.dumps({"include": ["default"], "mounts": {
        "allow": [{"path": home.path("more"), "writable": True}]}}))
    home("--name", "more", "--folder", home.path("more"), "cursor")
    same(list(json.loads(home.read())["mcpServers"]), ["codebox", "more"])
    same(len(allowed(home)), 2)


def test_what_a_model_makes_is_in_the_folder():
    """The registered command, as a client starts it, with a codeboxd of its own."""
    if os.geteuid() == 0:
        raise Skip("root's codeboxd has the machine's policy")
    home = Home()
    folder = home.path("results")
    os.mkdir(folder, 0o700)
    home.write("claude-desktop", "{}")
    home("--session", "work", "--folder", folder, "claude-desktop")
    entry = json.loads(home.read("claude-desktop"))["mcpServers"]["codebox"]
    box = Box(XDG_CONFIG_HOME=home.path(".config"))
    for name, code in (("a", "x = 'made'\nopen('results/a', 'w').write(x)"), ("b", "open('results/b', 'w').write(x)")):
        sent = [{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}},
                {"jsonrpc": "2.0", "method": "notifications/initialized"},
                {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
                 "params": {"name": "run_code", "arguments": {"code": code}}}]
        r = subprocess.run([entry["command"], *entry["args"]], env=box.env, capture_output=True, text=True, timeout=300,
                           input="".join(json.dumps(m) + "\n" for m in sent))
        answer = [m for m in map(json.loads, r.stdout.splitlines()) if m.get("id") == 2][0]["result"]
        assert not answer["isError"] and answer["structuredContent"]["status"] == "ok", answer
        path = os.path.join(folder, name)
        with open(path) as f:
            same(f.read(), "made")
        same(os.stat(path).st_uid, os.getuid())
    box.stop()


def test_command_lines_that_are_wrong():
    home = Home()
    for args in ((), ("emacs",), ("cursor", "vscode"), ("--name", "a b", "cursor"), ("--name", "", "cursor"),
                 ("--bad", "cursor"), ("--session", "a b", "cursor"), ("--policy", "loose", "cursor"),
                 ("--session",), ("--remove", "--session", "a", "cursor"), ("--folder", "/never/was", "cursor"),
                 ("--folder", COMMAND, "cursor"), ("--policy", "net", "--folder", ".", "cursor"),
                 ("--print", "--remove", "cursor"), ("--name",)):
        contains(home(*args, status=2).stderr, "codebox register --help")
    home.env["HOME"] = "relative"
    contains(home("cursor", status=1).stderr, "HOME")


if __name__ == "__main__":
    cbxtest.run(globals())
