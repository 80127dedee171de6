#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pip and uv in a session: %pip, !pip, `python -m pip` and Bash install by asking codebox, and what asks is not trusted."""
import glob
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import run, wait_until  # noqa: E402
from control import Control, ControlError  # noqa: E402
from install import box, box_with, data, image, index  # noqa: E402

BASH = ("--language", "bash")
MODULE = "import subprocess, sys; subprocess.run([sys.executable, '-m', {}]).returncode"


def cell(code, *args, session="s", b=box):
    """What it prints, on both streams, in order as far as one of them goes."""
    r = b("run", "--image", image, "--session", session, *args, "-c", code)
    return r.stdout + r.stderr


def add(*names):
    for name in names:
        index.add(name, "1.0")


def installed(out, name):
    assert f"Collecting {name}\n" in out and f"Successfully installed {name}-1.0\n" in out, out


def test_magics_and_commands_of_a_cell():
    add("by-magic", "by-shell", "by-name", "by-uv", "by-uv-magic", "needed")
    index.add("needs", "2.0", ["needed"])
    out = cell("%pip install by-magic\nimport by_magic; by_magic.__version__")
    installed(out, "by-magic")
    assert out.endswith("'1.0'\n") and "restart" not in out, out
    installed(cell("!pip install by-shell"), "by-shell")
    installed(cell("pip install by-name"), "by-name")
    installed(cell("!uv pip install --system by-uv; echo $?"), "by-uv")
    installed(cell("%uv pip install by-uv-magic"), "by-uv-magic")
    out = cell("%pip install -q needs\n!pip install needs 'by-uv>=1'; echo $?\nimport needs, needed, by_uv")
    assert out == ("Collecting needs\nCollecting by-uv>=1\nRequirement already satisfied: by-uv (1.0)\n"
                   "Requirement already satisfied: needs (2.0)\n0\n"), out
    assert "Collecting" not in cell("!pip install -qU needs") and "satisfied: needs (2.0)" in cell("!pip install -U needs")


def test_the_newest():
    index.add("grows", "1.0", ["stays>=1"])
    index.add("stays", "1.0")
    assert "Successfully installed grows-1.0 stays-1.0" in cell("!pip install grows", session="newer")
    for version in "2.0", "3.0", "4.0", "5.0":
        index.add("grows", version, ["stays>=1"], yanked=version == "5.0")
        index.add("stays", version)
        index.add("tabulate", "90." + version)
    # Pages of the index are asked for again after some minutes: this box's cache has not seen the new ones yet.
    for path in glob.glob(os.path.join(data, "packages", "c", "p-*")):
        os.unlink(path)
    assert "satisfied: grows (1.0)" in cell("!pip install grows", session="newer")
    assert "Successfully installed grows-2.0" in cell("%pip install -U 'grows<3'", session="newer")
    with Control(box) as c:
        answer = c.call("packages.install", session_id="newer", packages=["--upgrade", "grows<4"])
        assert answer["installed"] == [{"name": "grows", "version": "3.0"}], answer
        for packages in (["-U"], ["-U", "--pre", "grows"], ["-U grows"], ["-U", 7]):
            try:
                c.call("packages.install", session_id="newer", packages=packages)
                raise AssertionError(packages)
            except ControlError as e:
                assert e.kind in ("invalid_argument", "package_refused"), e
    r = box("pip", "install", "-U", "--session", "newer", "grows", "tabulate")
    assert r.stdout == "Installed: grows 4.0, tabulate 90.5.0\n", r
    assert "There already: grows 4.0" in box("pip", "install", "--upgrade", "--session", "newer", "grows").stdout
    # numpy is the image's, and the index does not have it: it stays.
    assert "There already: numpy" in box("pip", "install", "-U", "--session", "newer", "numpy").stdout
    out = cell("import grows, stays, tabulate\nprint(grows.__version__, stays.__version__, tabulate.__version__)", session="newer")
    assert out == "4.0 1.0 90.5.0\n", out


def test_a_subprocess_and_bash():
    add("by-module", "by-bash", "by-pip3", "by-exec")
    out = cell(MODULE.format("'pip', 'install', 'by-module'") + "\nimport by_module")
    installed(out, "by-module")
    installed(cell("cd /tmp && pip install by-bash && python3 -c 'import by_bash; print(by_bash.__version__)'", *BASH), "by-bash")
    installed(cell("pip3 install by-pip3; echo $?", *BASH), "by-pip3")
    r = box("exec", "s", "--", "pip", "install", "by-exec")
    installed(r.stdout, "by-exec")
    assert r.returncode == 0, r
    r = box("exec", "s", "--", "pip", "install", "absent-from-it")
    assert r.returncode == 1 and "ERROR: " in r.stderr and "the index does not have it" in r.stderr, r


def test_requirements_files():
    add("of-file", "of-other", "of-third")
    write = ("open('a.txt', 'w').write('# all\\nof-file==1.0  # this\\n-r sub/b.txt\\n')\nimport os; os.makedirs('sub', exist_ok=True)\n"
             "open('sub/b.txt', 'w').write('of-other\\n\\n-r ../c.txt')\nopen('c.txt', 'w').write({!r})\n!pip install {} a.txt")
    out = cell(write.format("of-third", "-r"))
    assert "Successfully installed of-file-1.0 of-other-1.0 of-third-1.0" in out, out
    for line, says in (("--index-url http://x\n", "--index-url cannot be used here"), ("-r a.txt", "includes itself"),
                       ("of-third --hash=sha256:00", "--hash needs one version"),
                       ("of-third==1.0 --hash=sha256:00", "a hash is not one"), ("-e .", "-e cannot be used here"),
                       ("-r nowhere", "Could not open requirements file")):
        assert says in cell(write.format(line, "--requirement")), (line, cell(write.format(line, "-r")))


def test_what_is_refused_by_name():
    asked = len(index.asked)
    for words, says in (
            ("-i http://x/ a", "-i cannot be used here: codebox installs from the index that its policy names"),
            ("--extra-index-url=http://x/ a", "--extra-index-url cannot be used here"), ("--find-links /tmp a", "--find-links cannot"),
            ("--trusted-host x a", "--trusted-host cannot"), ("-e .", "-e cannot"), ("--target /tmp a", "--target cannot"),
            ("--no-deps a", "--no-deps cannot"), ("--pre a", "--pre cannot"), ("-c x a", "-c cannot"), ("-ihttp://x a", "-i cannot"),
            ("https://h/x.whl", "an address cannot be installed from"), ("git+https://h/x", "an address"),
            ("'x @ https://h/x.whl'", "an address"), ("./x", "a path cannot be installed from"), ("/tmp/x.whl", "a path"),
            ("x.whl", "a path"), ("--nonsense a", "no such option: --nonsense"), ("", "at least one requirement"), ("-r", "needs a value"),
            ("a=1", "is not a requirement")):
        out = cell(f"!pip install {words}; echo $?")
        assert "1\n" in out and says in out, (words, out)
    assert index.asked[asked:] == [], index.asked[asked:]
    for words, says in (("pip uninstall -y numpy", "packages stay until the session ends"), ("pip download a", "no network"),
                        ("uv pip sync x", "use uv pip install"), ("uv add x", "there is no uv in this image but for")):
        assert says in cell("!" + words), (words, cell("!" + words))


def test_other_commands_are_the_images_own():
    for words, says in (("pip list", "by-magic "), ("pip show by-magic", "Name: by-magic"), ("pip freeze", "by-magic==1.0"),
                        ("pip --version", "pip "), ("pip install --help", "Usage:"), ("uv pip list", "by-magic "),
                        ("uv pip freeze", "by-magic==1.0"), ("python3 -m pip show by-magic", "Version: 1.0")):
        assert says in cell("!" + words), (words, cell("!" + words))


def test_what_the_policy_refuses_is_told():
    add("fine")
    index.add("way", "1.0", ["forbidden"])
    add("forbidden")
    b = box_with(block=["forbidden"])
    out = cell("!pip install way; echo $?\n1 + 1", b=b)
    assert 'ERROR: forbidden 1.0 is blocked by the policy (block: "forbidden"); it is needed by way → forbidden' in out, out
    assert "1\n2\n" in out, out
    b.stop()
    b = box_with(install=False)
    out = cell("%pip install fine", b=b)
    assert "ERROR: packages cannot be installed in this session: its policy does not let that be (packages.install)" in out, out
    b.stop()


def instructions(policy):
    """Of codebox mcp, in the words that a model reads first."""
    b = box_with()
    with open(b.env["CODEBOX_POLICY"], "w") as f:
        json.dump({"include": ["default"], **policy}, f)
    process = b.popen("mcp", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    out = process.communicate(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}) + "\n")[0]
    b.stop()
    text = json.loads(out.split("\n")[0])["result"]["instructions"]
    assert len(text) < 2048, text
    return text


def test_a_model_is_told_what_it_may_do():
    text = instructions({})
    assert "%pip install NAME" in text and "Network: none for code" in text, text
    text = instructions({"packages": {"install": False}})
    assert "%pip" not in text and "pip install fails" in text, text
    text = instructions({"network": {"allow": ["files.example", {"host": "*.api.example", "ports": [8443]}]}})
    assert "only these hosts" in text and "files.example, *.api.example:8443." in text and "none for code" not in text, text
    text = instructions({"network": {"allow": [f"host-{i}.a-name-of-some-length.example" for i in range(60)]}})
    assert "host-0." in text and "host-59." not in text and " …." in text, text
    out = cell("import not_there_at_all")
    assert "%pip install NAME gets a package that is not there" in out, out
    assert "%pip" not in cell("raise ValueError('No module named x')")


def test_a_newer_one_than_is_imported():
    note = "Note: imported already, and in use until the interpreter is restarted (or importlib.reload): moves {} (now {})\n"
    for version in "1.0", "2.0", "3.0", "4.0":
        index.add("moves", version)
    use = "import moves\nmoves.__version__"
    for code in ("%pip install -q moves=={}", "!pip install -q moves=={}", MODULE.format("'pip', 'install', '-q', 'moves=={}'") + ";"):
        session = str(abs(hash(code)))
        cell(code.format("1.0"), session=session)
        assert cell(use, session=session) == "'1.0'\n"
        out = cell(code.format("2.0") + "\n" + use, session=session)
        assert note.format("1.0", "2.0") in out and "'1.0'\n" in out, out
        assert cell(use, session=session) == "'1.0'\n"  # told once
    # An interpreter that waits is asked, whoever installs: a program in the session, or a client.
    r = box("exec", session, "--", "pip", "install", "moves==3.0")
    assert note.format("1.0", "3.0") in r.stdout, r
    r = box("pip", "install", "--session", session, "moves==4.0")
    assert f"moves 1.0 is imported already, and in use instead of 4.0; use: codebox session restart {session}" in r.stderr, r
    with Control(box) as c:
        answer = c.call("packages.install", session_id=session, packages=["moves==3.0"])
        assert answer["imported"] == [{"name": "moves", "version": "1.0", "installed": "3.0"}], answer
        assert cell(use, session=session) == "'1.0'\n"
        assert "imported" not in c.call("packages.install", session_id=session, packages=["moves==3.0"])
        box("session", "restart", session, check=True)
        assert cell(use, session=session) == "'3.0'\n"
        assert "imported" not in c.call("packages.install", session_id=session, packages=["by-uv"])
        # What an interpreter says is not believed.
        cell("import sys\nd = next(f for f in sys.meta_path if type(f).__name__ == 'UserSite')\n"
             "d.stale = lambda: [('x' * 5000, '1', '2'), ('moves', 'nonsense\\n', '1'), ('moves', '9!1', ''), (7, None, [])][:3]",
             session=session)
        answer = c.call("packages.install", session_id=session, packages=["moves==4.0"])
        assert answer["imported"] == [{"name": "moves", "version": "9!1", "installed": "4.0"}], answer


def test_a_model_is_told_what_is_imported():
    cell("%pip install -q moves==1.0\nimport moves", session="told")
    b = box.popen("mcp", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    requests = [{"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                                                             "clientInfo": {"name": "t", "version": "1"}}},
                {"id": 2, "method": "tools/call", "params": {"name": "install_packages", "arguments": {
                    "session_id": "told", "packages": ["moves==2.0"]}}}]
    out = b.communicate("".join(json.dumps({"jsonrpc": "2.0", **r}) + "\n" for r in requests))[0]
    result = next(m for m in map(json.loads, out.splitlines()) if m.get("id") == 2)["result"]
    assert "Imported already, and in use until restart (or importlib.reload): moves 1.0 (now 2.0)." in result["content"][0]["text"], result
    assert result["structuredContent"]["imported"][0]["version"] == "1.0", result


def test_an_installation_ends_with_who_asked():
    gate = index.hold("held")
    log = os.path.join(box.env["CODEBOX_STATE_DIR"], "codeboxd.log")

    def asked():
        return sum("/simple/held/" in path for path in index.asked)
    for code in "%pip install held", "!pip install held":
        before = asked()
        with Control(box) as c:
            cell("pass", session="held")
            running = c.send("run", session_id="held", code=code)
            assert wait_until(lambda: asked() > before), index.asked
            c.send("interrupt", session_id="held")
            m = c.recv()
            while m.get("id") != running:
                m = c.recv()
        assert wait_until(lambda: "who asked for the packages has gone" in open(log).read())
        # The session is whole, and the next installation is not kept from it.
        add("after-held")
        assert wait_until(lambda: "installed after-held-1.0" in cell("!pip install after-held", session="held")
                          or "already satisfied" in cell("!pip install after-held", session="held"))
    gate.set()


ASK = """
import json, socket, time
def ask(data, read=True):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect("\\0codebox")
    s.send(data)
    if read:
        answer = s.recv(1 << 16)
        s.close()
        return answer.decode()
    s.close()
"""


def test_questions_that_are_none():
    out = cell(ASK + """
for data in (b"x", b"{}", b"[]", b"null", b'{"packages":7}', b'{"packages":[7]}', b'{"packages":[]}', b'{"packages":["a"],"x":1}',
             b'{"packages":["-r x"]}', b'{"packages":["a @ file:///etc/passwd"]}', b"\\xff\\x00", json.dumps({"packages": ["a"] * 201}).encode()):
    assert "error" in json.loads(ask(data)), data
print(repr(ask(b"x" * ((60 << 10) + 1))))
print(repr(ask(json.dumps({"packages": ["a" * 16300]}).encode())[:9]))
begin = time.monotonic()
for i in range(12):
    ask(b"{}")
print(time.monotonic() - begin > 1.5)
for i in range(10):
    ask(b'{"packages":["by-magic"]}', False)
""", session="hostile")
    assert out == "''\n'{\"error\":'\nTrue\n", out
    # Others are served meanwhile, and so is it, afterwards.
    assert cell("1 + 1", session="s") == "2\n"
    assert "by-magic" in cell("!pip install by-magic", session="hostile")


def test_who_says_nothing_holds_up_its_own_session_only():
    cell(ASK + "idle = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(5)]\n"
         "for s in idle: s.connect('\\0codebox')", session="idle")
    add("beside")
    installed(cell("!pip install beside", session="s"), "beside")
    with Control(box) as c:
        answer = c.call("packages.install", session_id="idle", packages=["beside"])
    assert json.dumps(answer["installed"]) == '[{"name": "beside", "version": "1.0"}]', answer
    out = cell("for s in idle: s.close()\n!pip install beside", session="idle")
    assert "Requirement already satisfied: beside (1.0)" in out, out


if __name__ == "__main__":
    run(globals())
