#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packages are installed for a session, from an index that only codebox reaches: all that they need is judged by the
policy, and each failure says what to do."""
import json
import os
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Skip, run, wait_until  # noqa: E402
from control import Control, ControlError  # noqa: E402
from installs import Site, names  # noqa: E402
from pypi import Index, metadata_of, wheel  # noqa: E402

site = Site()
index, box, image, data = site.index, site.box, site.image, site.data
box_with, cell, install, ready, unharmed = site.box_with, site.cell, site.install, site.ready, site.unharmed


def test_they_are_installed_with_what_they_need_and_usable_at_once():
    index.add("alpha", "1.0", ["beta>=1", 'gamma; python_version < "3"', "delta[more]"],
              files={"alpha/__init__.py": "import beta\n", "alpha_data-1/readme": "x",
                     "alpha-1.0.data/purelib/from_purelib.py": "x = 1\n", "alpha-1.0.data/data/share/a.txt": "text",
                     "alpha-1.0.data/scripts/a-script": "#!python\nprint('script')\n",
                     "alpha-1.0.dist-info/entry_points.txt":
                         "[console_scripts]\nrun-alpha = alpha.main:cli.go [x]\n\n[other]\nthing = ../../x\n",
                     "alpha/main.py": "class cli:\n    go = lambda: print('entry')\n"})
    index.add("beta", "1.0")
    index.add("beta", "1.5")
    index.add("delta", "2", metadata=metadata_of("delta", "2", ['epsilon; extra == "more"', 'zeta; extra == "less"']))
    index.add("epsilon", "3.0rc1")
    assert "No module named 'alpha'" in cell("x = 7\nimport alpha")[1]
    answer = install("alpha", session="s")
    assert isinstance(answer, dict), answer
    assert names(answer["installed"]) == ["alpha 1.0", "beta 1.5", "delta 2", "epsilon 3.0rc1"], answer
    assert cell("import alpha, beta, epsilon, from_purelib; print(beta.__version__, x)") == ("1.5 7\n", "")
    assert cell("!run-alpha; a-script; python3 -c 'import beta; print(beta.__version__)'")[0] == "entry\nscript\n1.5\n"
    # They are there after a restart, and no session but this one has them.
    box("session", "restart", "s", check=True)
    assert cell("import beta; beta.__version__")[0] == "'1.5'\n"
    assert "No module named 'beta'" in cell("import beta", "other")[1]
    assert names(install("alpha", "beta>1")["already"]) == ["alpha 1.0", "beta 1.5"]
    assert install("numpy")["already"][0]["name"] == "numpy"  # of the image: the index is not asked
    assert not any("numpy" in path for path in index.asked)


def test_an_image_without_pip():
    """The recipe python-minimal has what resolving needs, and no more."""
    if not os.path.isdir(os.path.join(data, "images", "python-minimal")):
        raise Skip("there is no image python-minimal; codebox image build python-minimal")
    index.add("small-one", "1.0", ["small-two[extra]>=1; python_version > '3'"])
    index.add("small-two", "1.0", ["small-three; extra == 'extra'"])
    index.add("small-three", "1.0")
    b = box_with()
    b("run", "--image", "python-minimal", "--session", "m", "-c", "pass", check=True)
    answer = install("small-one", session="m", b=b)
    assert names(answer["installed"]) == ["small-one 1.0", "small-three 1.0", "small-two 1.0"], answer
    r = b("run", "--session", "m", "-c", "import small_three; print(small_three.__version__)")
    assert (r.stdout, r.stderr) == ("1.0\n", ""), r
    out = b("run", "--session", "m", "-c", "import pip").stderr
    assert "No module named 'pip'" in out, out
    b.stop()


def test_a_later_version_takes_the_place_of_an_earlier_one():
    ready("later")
    answer = install("beta<1.2", session="later")
    assert names(answer["installed"]) == ["beta 1.0"]
    assert cell("import beta; beta.__version__", "later")[0] == "'1.0'\n"
    assert names(install("beta>1.2", session="later")["installed"]) == ["beta 1.5"]
    box("session", "restart", "later", check=True)
    assert cell("import beta; beta.__version__", "later")[0] == "'1.5'\n"
    unharmed("later")


def test_one_after_another():
    """What each gave stays until the session ends, so there is an end to it."""
    ready("on")
    with Control(box) as c:
        for i in range(127):  # and one before
            c.call("packages.install", session_id="on", packages=[f"beta=={('1.5', '1.0')[i % 2]}"])
        try:
            c.call("packages.install", session_id="on", packages=["beta==1.0"])
            raise AssertionError("one more than there can be")
        except ControlError as e:
            assert "128 times" in str(e), e
    assert cell("import beta; beta.__version__", "on")[0] == "'1.5'\n"
    box("session", "rm", "on", check=True)


def test_code_has_no_network_still():
    out, err = cell(f"import urllib.request\nurllib.request.urlopen({index.url!r}, timeout=5)", "later")
    assert "Error" in err and not out, (out, err)


def test_the_policy_judges_all_of_it():
    for a, b in ("a1", "a2"), ("a2", "a3"), ("a3", "a4"):
        index.add(a, "1.0", [b])
    index.add("a4", "1.0")
    index.add("a4", "2.0")
    for rules, says in (
            ({"block": ["A4"]}, 'a4 2.0 is blocked by the policy (block: "a4"); it is needed by a1 → a2 → a3 → a4'),
            ({"allow": ["a1", "a2", "a3"]}, "a4 2.0 is not among the packages that the policy allows (allow); it is needed by "
                                            "a1 → a2 → a3 → a4"),
            ({"block": ["a1"]}, "a1 is blocked by the policy"),
            ({"versions": ["a4>=3"]}, "a1 → a2 → a3 → a4: the policy allows none of its versions"),
            ({"install": False}, "does not let packages be installed (packages.install)"),
            ({"install_size": "1M", "block": ["a4<2"]}, None),
            ({"allow": ["a1", "a2==1", "a3", "a4<2"]}, None)):
        b = box_with(**rules)
        answer = install("a1", b=b)
        if says:
            assert isinstance(answer, str) and says in answer, (rules, answer)
        else:
            assert names(answer["installed"])[3] == ("a4 1.0" if "allow" in rules else "a4 2.0"), (rules, answer)
        assert cell("1 + 1", b=b)[0] == "2\n"
        if answer is not None and says and "packages.install" not in says:
            assert "No module named 'a1'" in cell("import a1", b=b)[1]
        b.stop()


def test_too_large():
    index.add("large", "1", files={"large.bin": os.urandom(2 << 20)})
    b = box_with(install_size="1M")
    assert "more than the 1 MiB that the policy allows (install_size)" in install("large", b=b), install("large", b=b)
    index.add("liar", "1", files={"large.bin": os.urandom(2 << 20)})
    index.pages["liar"][0]["size"] = 10
    answer = install("liar", b=b)
    assert "sends more than 1 MiB" in answer, answer
    # None of these is too large by itself.
    for name in "half-one", "half-two":
        index.add(name, "1", files={"half.bin": os.urandom(700 << 10)})
        index.pages[name][0]["size"] = 10
        index.add("grown-" + name, "1", files={"zeros.bin": bytes(3 << 20)})
    answer = install("half-one", "half-two", b=b)
    assert "sends more than 1 MiB, which is what the policy allows for all files of one installation (install_size); " in answer, answer
    answer = install("grown-half-one", "grown-half-two", b=b)
    assert "more than 4 MiB" in answer and "(install_size); install fewer packages at once" in answer, answer
    assert names(install("half-one", b=b)["installed"]) == ["half-one 1"]
    assert names(install("half-two", "grown-half-one", b=b)["installed"]) == ["grown-half-one 1", "half-two 1"]
    # What is empty takes room, too: when it is unpacked, and in each session that has it.
    index.add("empties", "1", files={f"empties/{i}": "" for i in range(1100)})
    for unpacked in False, True:
        if unpacked:
            assert names(install("empties", session="empties")["installed"]) == ["empties 1"]
            index.asked.clear()
        answer = install("empties", b=b)
        assert "more than 4 MiB, with 4 KiB for each of them" in answer, answer
    assert not any(path.endswith(".whl") for path in index.asked), index.asked
    b.stop()


def test_a_request_that_names_a_strict_policy_gets_none():
    r = box("run", "--image", image, "--policy", "strict", "--session", "strict", "-c", "import os; os.path.exists('/run/codebox-packages')")
    assert r.stdout == "False\n", r
    assert "does not let packages be installed" in install("beta", session="strict")


def test_requests_that_are_refused():
    ready()
    for name, says in (("beta @ https://h/x.whl", "an address cannot be installed from"), ("git+https://h/x", "an address"),
                       ("./beta", "a path"), ("/tmp/x.whl", "a path"), ("beta=1", "is not a requirement"),
                       ("nowhere-to-be-found", "the index does not have it"), ("", "is not a requirement")):
        assert says in install(name), (name, install(name))
    with Control(box) as c:
        for packages in ([], ["a"] * 201, [7], {}):
            try:
                c.call("packages.install", session_id="s", packages=packages)
                raise AssertionError(packages)
            except ControlError as e:
                assert e.kind == "invalid_argument", e
    for args in (["--index-url=http://x", "beta"], ["-r", "/nowhere"], []):
        assert box("pip", "install", "--session", "s", *args).returncode == 2
    assert box("pip", "install", "--session", "never-was", "beta").returncode == 1
    unharmed()


def test_what_cannot_be_had_is_told_with_its_way():
    ready()
    index.add("withdrawn", "1.0", yanked=True)
    index.add("needs-withdrawn", "1.0", ["withdrawn"])
    index.put("sources", "sources-1.0.tar.gz", b"x")
    index.add("old", "1.0", python=">=3.99")
    index.add("foreign", "1.0", tag="cp27-cp27m-win32")
    index.add("wants-one", "1", ["beta<1.2"])
    index.add("wants-other", "1", ["beta>=1.5"])
    index.add("wants-address", "1", ["x @ https://host/x.whl"])
    for name, says in (("needs-withdrawn", "needs-withdrawn → withdrawn: all of its versions were withdrawn (yanked)"),
                       ("sources", "it has no wheel, only sources"), ("old", "it needs Python >=3.99"),
                       ("foreign", "none of its wheels fits"), ("wants-address", "needs x from an address")):
        assert says in install(name), (name, install(name))
    answer = install("wants-one", "wants-other")
    assert "cannot be installed together" in answer and "wants-other 1 needs beta" in answer, answer
    assert names(install("withdrawn==1.0")["installed"]) == ["withdrawn 1.0"]  # who names it gets it
    unharmed()


def test_each_failure_names_package_and_way():
    """Three levels deep, and in every step of an installation."""
    ready()

    def needed(name):
        for a, b in (("-a", "-b"), ("-b", "-c"), ("-c", "")):
            index.add(name + a, "1", [name + b])
        return name

    def fails(name, says, b=box):
        answer = install(name + "-a", b=b)
        way = f"{name}-a → {name}-b → {name}-c → {name}"
        assert isinstance(answer, str) and says in answer and way in answer, (name, answer)
        assert f"{name} 1: " in answer or answer.startswith(way + ":") or answer.startswith(way + " 1: "), (name, answer)

    for name, down, says in (("page-down", "/simple/page-down/", "cannot be reached"),
                             ("metadata-down", "metadata_down-1-py3-none-any.whl.metadata", "cannot be reached"),
                             ("file-down", "file_down-1-py3-none-any.whl", "cannot be reached")):
        index.add(needed(name), "1")
        if name == "file-down":
            fetched = index.files["/files/file_down-1-py3-none-any.whl"]
            index.instead["/files/file_down-1-py3-none-any.whl"] = 503, {}, fetched
            fails(name, "answered with status 503")
            continue
        index.down = down
        fails(name, says)
        index.down = None
    index.instead["/simple/" + needed("page-fails") + "/"] = 500, {}, b"no"
    fails("page-fails", "answered with status 500")
    index.instead["/simple/" + needed("page-nonsense") + "/"] = 200, {"Content-Type": "application/json"}, b'{"files": [7]}'
    fails("page-nonsense", "the index's page of it cannot be read")
    index.put(needed("not-a-wheel"), "not_a_wheel-1-py3-none-any.whl", b"x", listed_metadata=False)
    fails("not-a-wheel", "its wheel cannot be read")
    index.add(needed("forged-deep"), "1", digest="1" * 64)
    fails("forged-deep", "is not the file that the index promised")
    index.add(needed("renamed-deep"), "1", metadata=metadata_of("beta", "1"))
    fails("renamed-deep", "says of itself that it is another package")
    index.add(needed("up-deep"), "1", files={"../../up": "x"})
    fails("up-deep", "leads upwards")
    b = box_with(install_size="1M")
    index.add(needed("large-deep"), "1", files={"large.bin": os.urandom(2 << 20)})
    answer = install("large-deep-a", b=b)
    assert "4 packages of 2" in answer and "the largest is large-deep 1 with 2" in answer, answer
    assert answer.endswith("it is needed by large-deep-a → large-deep-b → large-deep-c → large-deep"), answer
    index.add(needed("liar-deep"), "1", files={"large.bin": os.urandom(2 << 20)})
    index.pages["liar-deep"][0]["size"] = 10
    answer = install("liar-deep-a", b=b)  # which of the four is on its way when the limit is reached is a matter of time
    assert answer.startswith("liar-deep") and "sends more than 1 MiB" in answer, answer
    index.add(needed("bomb-deep"), "1", files={"zeros.bin": bytes(3 << 20), "more.bin": bytes(3 << 20)})
    fails("bomb-deep", "more than 4", b=b)
    b.stop()
    unharmed()


def sessions(b=box):
    return {s["session_id"] for s in json.loads(b("session", "ls", "--json", check=True).stdout)["sessions"]}


def stuck():
    threading.Event().wait(20)
    yield b"{}"


def test_a_session_is_made_with_packages():
    index.pages.pop("needs-absent", None)
    index.add("needs-absent", "1", ["never-there"])
    index.add("wants-beta", "1", ["beta"])
    with Control(box) as c:
        info = c.call("session.create", session_id="made", image=image, packages=["wants-beta", "numpy"])
        assert names(info["packages"]) == ["beta 1.5", "wants-beta 1"] and info["state"] == "idle", info
        assert cell("import wants_beta, beta; beta.__version__", "made") == ("'1.5'\n", "")
        # A cell that is queued meanwhile waits for them.
        created = c.send("session.create", session_id="queued", image=image, packages=["delta"])
        assert cell("import delta; delta.__version__", "queued")[0] == "'2'\n"
        assert c.recv()["id"] == created
        for packages, says in ((["needs-absent"], "packages: needs-absent → never-there"), (["-r x"], "packages: -r x: an option"),
                               (["beta @ https://h/x"], "an address"), (["beta; nonsense"], "it is not a requirement"),
                               (["beta==9"], "beta")):
            try:
                c.call("session.create", session_id="none", image=image, packages=packages)
                raise AssertionError(packages)
            except ControlError as e:
                assert says in str(e), (packages, str(e))
            assert "none" not in sessions(), packages
        # The image has numpy: that needs no index, and no leave to install.
        info = c.call("session.create", session_id="strict-made", image=image, policy="strict", packages=["numpy"])
        assert "packages" not in info, info
        try:
            c.call("session.create", session_id="none", image=image, policy="strict", packages=["numpy", "beta"])
            raise AssertionError("strict")
        except ControlError as e:
            assert "does not let packages be installed" in str(e), e
        # One that is closed meanwhile is not waited for.
        index.instead["/simple/stuck/"] = 200, {}, stuck
        created = c.send("session.create", session_id="gone", image=image, packages=["stuck"])
        assert wait_until(lambda: "gone" in sessions())
        box("session", "rm", "gone", check=True)
        m = c.recv()
        assert m["id"] == created and m["error"]["kind"] == "session_expired", m


def model(calls):
    """What a client of codebox mcp gets for these calls of tools, one after the other."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    messages = [{"method": "initialize", "id": 0, "params": hello}, {"method": "notifications/initialized"}]
    p = box.popen("mcp", "--image", image, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    answers = []
    for m in messages + [{"method": "tools/call", "id": i + 1, "params": {"name": name, "arguments": arguments}}
                         for i, (name, arguments) in enumerate(calls)]:
        p.stdin.write(json.dumps({"jsonrpc": "2.0", **m}) + "\n")
        p.stdin.flush()
        answer = None
        while "id" in m and (answer is None or answer.get("id") != m["id"]):
            answer = json.loads(p.stdout.readline())
        answers.append(answer)
    p.stdin.close()
    p.wait(30)
    return [(a["result"].get("isError", False), a["result"]["content"][0]["text"]) for a in answers[2:]]


def test_a_model_makes_a_session_with_packages():
    index.add("wants-absent", "1", ["never-there"])
    made, ran, refused, listed = model([
        ("create_session", {"session_id": "models", "image": image, "packages": ["alpha"]}),
        ("run_code", {"session_id": "models", "code": "import alpha, beta; print(beta.__version__)"}),
        ("create_session", {"session_id": "models-none", "image": image, "packages": ["wants-absent"]}),
        ("list_sessions", {})])
    assert not made[0] and "Installed: alpha 1.0, beta 1.5" in made[1], made
    assert not ran[0] and "1.5" in ran[1], ran
    assert refused[0] and "wants-absent → never-there" in refused[1], refused
    assert "models" in listed[1] and "models-none" not in listed[1], listed


def run_file(name, text, *args, b=box):
    path = os.path.join(b.dir, name)
    with open(path, "w") as f:
        f.write(text)
    return b("run", "--image", image, *args, path)


NEEDS = "# /// script\n# requires-python = '>=3.9'\n# dependencies = [\n#   'beta>1.2',  # not less\n# ]\n# ///\n"


def test_a_script_gets_what_it_declares():
    show = "import beta; print(beta.__version__)\n"
    r = run_file("script.py", NEEDS + show)
    assert (r.stdout, r.stderr, r.returncode) == ("1.5\n", "", 0), r
    r = run_file("script.py", NEEDS + show, "--session", "declares")
    assert r.stdout == "1.5\n", r
    r = run_file("script.py", NEEDS.replace("beta>1.2", "beta<1.2") + "import delta\n" + show, "--session", "declares",
                 "--package", "delta")
    assert "beta" in r.stdout + r.stderr or r.stdout == "1.5\n", r  # it was imported already
    r = run_file("script.py", NEEDS + show, "--keep", "--package", "delta")
    assert r.stdout == "1.5\n" and "the session is kept" in r.stderr, r
    r = run_file("script.py", NEEDS.replace("beta>1.2", "beta>7") + show)
    assert r.returncode == 3 and "beta" in r.stderr and not r.stdout, r
    for text, says in ((NEEDS.replace("beta>1.2", "beta @ https://h/x"), "script.py:4: "),
                       (NEEDS.replace("# ///\n", "# [tool.uv.sources]\n# beta = {path = '.'}\n# ///\n"), "script.py:6: tool.uv"),
                       (NEEDS + NEEDS, "script.py:7: there is a second block"),
                       (NEEDS.replace("]", ""), "script.py:")):
        r = run_file("script.py", text + show)
        assert r.returncode == 2 and says in r.stderr and not r.stdout, (text, r)
    r = box("run", "--image", image, "--package", "delta", "-c", "import delta; delta.__version__")
    assert (r.stdout, r.stderr) == ("'2'\n", ""), r


def install_from(name, text, session="files"):
    path = os.path.join(box.dir, name)
    with open(path, "w") as f:
        f.write(text)
    r = box("pip", "install", "--session", session, "--json", "-r", path)
    answer = json.loads(r.stdout)
    return (r.returncode, names(answer["installed"]) if "installed" in answer else answer["error"]["message"])


def test_files_of_requirements():
    box("run", "--image", image, "--session", "files", "-c", "pass", check=True)
    assert install_from("requirements.txt", "# what it needs\n\nbeta >= 1.0  # any\r\ndelta[more]; python_version > '3'\n") == \
        (0, ["beta 1.5", "delta 2", "epsilon 3.0rc1"])
    assert install_from("pyproject.toml", '[build-system]\nrequires = ["zz"]\n[project]\nname = "x"\ndescription = """\n'
                        'dependencies = ["no"]\n"""\n"dependencies" = [\n "alpha", # this\n]\n[tool.x]\ny = {z = [1, {a = 2}]}\n')[1] == \
        ["alpha 1.0"]
    for name, text, says in (
            ("r.txt", "beta\n--index-url https://evil/\n", "r.txt:2: options of pip"), ("r.txt", "-e .", "r.txt:1: options"),
            ("r.txt", "beta==1.5 --hash=sha256:0", "r.txt:1: beta==1.5: a hash is not one"),
            ("r.txt", "beta==1.5 --no-binary", "r.txt:1: "), ("r.txt", "beta==1.5 --hash=sha256:" + "0" * 64 + " --x", "options behind"),
            ("r.txt", "\n\ngit+https://h/x", "r.txt:3: "),
            ("r.txt", "./local", "r.txt:1: "), ("r.txt", "beta @ file:///x", "r.txt:1: "), ("r.txt", "bet a", "r.txt:1: "),
            ("p.toml", '[project]\ndependencies = ["a b"]', "p.toml:2: "), ("p.toml", "[project]\ndependencies = 'a'", "p.toml:2: dep"),
            ("p.toml", '[project]\ndynamic = ["dependencies"]', "p.toml:2: the dependencies are dynamic"),
            ("p.toml", '[project]\ndependencies = ["a"', "p.toml:2: "),
            ("p.toml", '[[tool.uv.index]]\nurl = "https://evil"', "p.toml:1: tool.uv"),
            ("p.toml", "[tool]\nuv = {sources = {}}", "p.toml:2: "), ("p.toml", "]", "p.toml:1: this is not TOML")):
        r = install_from(name, text)
        assert r[0] == 2 and says in r[1], (text, r)
    assert box("pip", "install", "--session", "files", "-r", "/nowhere").returncode == 2


def test_hashes_of_requirements():
    index.add("hashed", "1.0", ["hashed-more"])
    index.add("hashed", "1.1", ["hashed-more"])
    index.add("hashed-more", "1.0")

    def sums(name, number=0):
        return index.pages[name][number]["hashes"]["sha256"]
    other = "0" * 64
    one = f"hashed==1.0 \\\n    --hash=sha256:{other} \\\n    --hash=sha256:{sums('hashed')}\n"
    more = f"hashed-more==1.0 --hash=sha256:{sums('hashed-more').upper()} --hash=sha512:{2 * other}  # it needs this\r\n"
    cell("pass", "hashes")
    for text, says in (
            (one, "hashed-more 1.0 is needed, and no hash of it was given (--hash), as others have one; it is needed by "
                  "hashed → hashed-more"),
            (f"hashed==1.0 --hash=sha256:{other}\n" + more, "hashed==1.0: no wheel that fits the image's Python"),
            (one + f"hashed-more==1.0 --hash=sha256:{other}", "no wheel that fits the image's Python"),
            (one + "hashed-more==1.0", "give hashes of all"), (one + f"hashed-more>=1 --hash=sha256:{other}", "needs one version"),
            (f"hashed==1.0 --hash=md5:{other}", "none of its hashes is of SHA-256"),
            ("hashed==1.0" + 5001 * f" --hash=sha256:{other}", "more hashes than can be compared")):
        r = install_from("hashed.txt", text, "hashes")
        assert r[0] and says in r[1], (text[:500], r)
    assert install_from("hashed.txt", "--require-hashes\n" + one + more, "hashes") == (0, ["hashed 1.0", "hashed-more 1.0"])
    assert cell("import hashed; hashed.__version__", "hashes")[0] == "'1.0'\n"
    # In the session likewise; what it has already needs no hash.
    put = "open('r.txt', 'w').write({!r})\n!pip install --require-hashes -r r.txt 2>&1; echo $?"
    assert "Successfully installed hashed-1.1\n0\n" in cell(put.format(f"hashed==1.1 --hash=sha256:{sums('hashed', 1)}\n"), "hashes")[0]
    out = cell(put.format("beta==1.5"), "hashes")[0]
    assert "Hashes are required in --require-hashes mode" in out and out.endswith("1\n"), out
    out = cell(put.format(f"beta==1.5 --hash=sha256:{other}"), "hashes")[0]
    assert "beta==1.5: no wheel" in out and out.endswith("1\n"), out
    out = cell(put.format(f"beta==1.5 --hash=sha256:{sums('beta', 1)}"), "hashes")[0]
    assert "Successfully installed beta-1.5" in out, out


def test_a_directory_of_wheels_needs_no_network():
    wheels = os.path.join(box.dir, "wheels")
    os.mkdir(wheels)
    os.chmod(wheels, 0o755)
    for args in (("local-one", "1.0", ["local-two"]), ("local-two", "2.0")):
        file, content = wheel(*args)
        with open(os.path.join(wheels, file), "wb") as f:
            f.write(content)
    b = box_with(where=wheels)
    assert names(install("local-one", b=b)["installed"]) == ["local-one 1.0", "local-two 2.0"]
    assert cell("import local_two; local_two.__version__", b=b)[0] == "'2.0'\n"
    assert "does not have it" in install("absent", b=b)
    b.stop()


def test_html_passwords_and_the_cache_alone():
    html = Index("html", user="me:secret")
    html.add("quiet", "1.0", ["loud"])
    html.add("quiet", "9.0", yanked=True)
    html.add("loud", "1.0", python=">=3.6")
    b = box_with(where=html)
    assert "wants another user or password" in install("quiet", b=b)
    b.stop()
    b = box_with(where=html)
    with open(b.env["CODEBOX_POLICY"], "w") as f:
        json.dump({"include": ["default"]}, f)
    b.env["PIP_INDEX_URL"] = html.url.replace("//", "//me:secret@")
    assert names(install("quiet", b=b)["installed"]) == ["loud 1.0", "quiet 1.0"]
    # The password is nowhere in the session, nor in the log.
    with open(os.path.join(b.env["CODEBOX_STATE_DIR"], "codeboxd.log")) as f:
        assert "secret" not in f.read()
    html.server.shutdown()
    html.server.server_close()
    assert names(install("quiet", session="offline", b=b)["installed"]) == ["loud 1.0", "quiet 1.0"]
    b.stop()


def test_nothing_is_left():
    site.end()


if __name__ == "__main__":
    run(globals())
