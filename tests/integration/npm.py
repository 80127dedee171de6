#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packages of npm are installed for a session of JavaScript, from a registry that only codebox reaches: all that they need is
judged by the policy, and what an archive holds harms nothing."""
import json
import os
import sys
import tarfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import installs  # noqa: E402
from cbxtest import run  # noqa: E402
from control import Control, ControlError  # noqa: E402
from forward import Forward  # noqa: E402
from installs import names  # noqa: E402
from npm import Registry  # noqa: E402
from pypi import own_data  # noqa: E402

data = own_data(("javascript",))
registry = Registry()


def box_with(where=registry, **packages):
    return installs.box_with(data, **({"registry": where.url} if where else {}), **packages)


box = box_with()


def cell(code, session="s", b=box, *more):
    r = b("run", "--image", "javascript", "--session", session, *more, "-c", code)
    return r.stdout, r.stderr


def install(*names, session="s", b=box, how="npm"):
    """The answer, or the words of the error."""
    cell("0", session, b)
    return installs.install(b, session, names, how)


def fill():
    registry.add("plain", "1.0.0")
    registry.add("plain", "1.2.0")
    registry.add("plain", "2.0.0")
    registry.add("plain", "3.0.0-beta.1")
    registry.add("@scope/inner", "1.0.0", {"plain": "^1"}, files={"index.js": "exports.plain = require('plain').version;\n"})
    registry.add("outer", "1.0.0", {"@scope/inner": "~1.0", "plain": "2.x", "renamed": "npm:plain@1.0.0"},
                 files={"index.js": "exports.all = [require('@scope/inner').plain, require('plain').version, "
                                    "require('renamed').version];\n",
                        "cli.js": "#!/usr/bin/env node\nconsole.log('program', require('plain').version);\n"},
                 manifest={"bin": {"outer-cli": "./cli.js", "../evil": "cli.js", "bad": "../../../etc/passwd"},
                           "scripts": {"install": "touch /tmp/ran", "postinstall": "touch /tmp/ran"}})


def test_they_are_installed_with_what_they_need_and_usable_at_once():
    fill()
    out, err = cell("const kept = 7; try { require('outer') } catch (e) { e.code }")
    assert out == "'MODULE_NOT_FOUND'\n", (out, err)
    answer = install("outer")
    assert isinstance(answer, dict), answer
    assert sorted(names(answer["installed"])) == ["@scope/inner 1.0.0", "outer 1.0.0", "plain 1.0.0", "plain 1.2.0",
                                                  "plain 2.0.0"], answer
    assert cell("[kept, ...require('outer').all].join()") == ("'7,1.2.0,2.0.0,1.0.0'\n", "")
    assert cell("(await import('plain')).default.version") == ("'2.0.0'\n", "")
    # Programs that code starts find them, wherever they are; scripts did not run, and no name leads elsewhere.
    out, err = cell("%%bash\ncd /tmp && node -e \"console.log(require('plain').version)\"\nouter-cli\nls /node_modules/.bin\n"
                    "ls /tmp/ran; touch /node_modules/x")
    assert out == "2.0.0\nprogram 2.0.0\nevil\nouter-cli\n", (out, err)  # "../evil" is its last part, as for npm
    assert "'/tmp/ran': No such file" in err and "'/node_modules/x': Read-only file system" in err, (out, err)
    box("session", "restart", "s", check=True)
    assert cell("require('outer').all[0]")[0] == "'1.2.0'\n"
    assert cell("try { require('plain') } catch (e) { e.code }", "other")[0] == "'MODULE_NOT_FOUND'\n"
    # In a session of JavaScript alone, names are those of npm for every front end.
    assert names(install("plain@2", how="pip")["already"]) == ["plain 2.0.0"]


def test_code_has_no_network_still():
    out, err = cell(f"try {{ await fetch({registry.url!r}) }} catch (e) {{ e.message }}")
    assert out == "'fetch failed'\n", (out, err)


def test_versions():
    assert names(install("plain@^1", session="v")["installed"]) == ["plain 1.2.0"]
    assert cell("require('plain').version", "v")[0] == "'1.2.0'\n"
    answer = install("plain@^2", session="v")
    assert names(answer["installed"]) == ["plain 2.0.0"], answer
    assert "plain 1.2.0 was there before: an interpreter that has loaded it uses it until it is restarted" in answer["warnings"]
    box("session", "restart", "v", check=True)
    assert cell("require('plain').version", "v")[0] == "'2.0.0'\n"
    assert names(install("plain@3.0.0-beta.1", session="v")["installed"]) == ["plain 3.0.0-beta.1"]
    assert names(install("-U", "plain", session="v")["installed"]) == ["plain 2.0.0"]  # what is tagged as the latest
    for text, says in (("plain@^9", "plain: there is no version ^9; the newest that can be installed is 3.0.0-beta.1"),
                       ("plain@none", 'the registry has no tag "none"'), ("never-was", "never-was: the registry does not have it"),
                       ("git+https://h/x", "an address"), ("./here", "a path"), ("a/b", "a path"), ("x.tgz", "a path"),
                       ("x@npm:plain", "an address, or another name"), ("a b", "is not a package of npm"),
                       ("@scope", "is not a package of npm"), ("plain@>>1", "is not a package of npm")):
        answer = install(text, session="v")
        assert isinstance(answer, str) and says in answer, (text, answer)
    for args in (["-r", "x"], ["--global", "plain"], []):
        assert box("npm", "install", "--session", "v", *args).returncode == 2, args
    assert cell("require('plain').version", "v")[0] == "'2.0.0'\n"


def test_the_policy_judges_all_of_it():
    for a, b in ("d1", "d2"), ("d2", "@deep/d3"), ("@deep/d3", "d4"):
        registry.add(a, "1.0.0", {b: "*"})
    registry.add("d4", "1.0.0")
    registry.add("d4", "2.0.0")
    registry.add("d4", "2.1.0-rc.1")
    for rules, says in (
            ({"block": ["npm:d4"]}, 'npm:d4 2.0.0 is blocked by the policy (block: "npm:d4"); it is needed by '
                                    "d1 → d2 → @deep/d3 → d4"),
            ({"allow": ["npm:d1", "npm:d2", "npm:@deep/d3@^1"]}, "npm:d4 2.0.0 is not among the packages that the policy allows "
                                                                "(allow); it is needed by d1 → d2 → @deep/d3 → d4"),
            ({"allow": ["numpy"]}, "npm:d1 is not among the packages that the policy allows"),
            ({"versions": ["npm:d4@>=3"]}, "d1 → d2 → @deep/d3 → d4: the policy allows none of its versions that fit"),
            ({"install": False}, "does not let packages be installed (packages.install)"),
            ({"block": ["npm:d4@<2", "d4"], "versions": ["npm:d4@1 || 2"]}, None)):
        b = box_with(**rules)
        answer = install("d1", b=b)
        if says:
            assert isinstance(answer, str) and says in answer, (rules, answer)
            assert cell("try { require('d1') } catch (e) { e.code }", b=b)[0] == "'MODULE_NOT_FOUND'\n"
        else:
            assert "d4 2.0.0" in names(answer["installed"]), (rules, answer)
        b.stop()


def test_advisories():
    advisory = {"id": "GHSA-test-1", "summary": "it is broken", "affected": [
        {"package": {"ecosystem": "npm", "name": "d4"}, "ranges": [
            {"type": "SEMVER", "events": [{"introduced": "0"}, {"fixed": "2.0.1-rc.1"}]}]},
        {"package": {"ecosystem": "PyPI", "name": "d1"}, "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}]}]}]}
    path = os.path.join(box.dir, "advisory.json")
    with open(path, "w") as f:
        json.dump(advisory, f)
    b = box_with(advisories=[path])
    answer = install("d1", b=b)
    assert isinstance(answer, str) and "npm:d4 2.0.0 is affected by GHSA-test-1 (<2.0.1-rc.1): it is broken" in answer, answer
    assert "it is needed by d1 → d2" in answer and "PyPI" not in answer and "npm:d1 " not in answer, answer
    b.stop()


def test_conflicts_and_what_does_not_fit():
    registry.add("peered", "1.0.0", peerDependencies={"plain": "^1"})
    registry.add("foreign", "1.0.0", os=["plan9"])
    registry.add("choosy", "1.0.0", optionalDependencies={"foreign": "*", "gone": "*"})
    registry.add("by-address", "1.0.0", {"x": "git+https://h/x.git"})
    registry.add("for-later", "1.0.0")
    registry.add("for-later", "2.0.0", engines={"node": ">=999"})
    registry.add("bundled", "1.0.0", {"plain": "^1"}, bundleDependencies=["plain"],
                 files={"node_modules/plain/package.json": json.dumps({"name": "plain", "version": "1.9.9"}),
                        "node_modules/plain/index.js": "exports.version = 'unjudged'", "node_modules/hidden/index.js": "",
                        "index.js": "exports.plain = require('plain').version"})
    assert names(install("peered", session="peers")["installed"]) == ["peered 1.0.0", "plain 1.2.0"]
    answer = install("peered", "plain@2", session="peers2")
    assert "cannot be installed together: peered 1.0.0 needs plain ^1, and plain 2.0.0" in answer, answer
    assert names(install("choosy", session="c")["installed"]) == ["choosy 1.0.0"]
    assert "foreign: 1.0.0 is not for linux" in install("foreign", session="c")
    assert "by-address 1.0.0 needs x from an address: git+https://h/x.git" in install("by-address", session="c")
    assert names(install("for-later", session="c")["installed"]) == ["for-later 1.0.0"]
    # What a package brings along of others is not used: it was not judged.
    assert isinstance(install("bundled", session="b"), dict)
    assert cell("[require('bundled').plain, require('fs').existsSync('/node_modules/bundled/node_modules')].join()", "b")[0] == \
        "'1.2.0,false'\n"


def test_archives_that_are_hostile_or_not_what_was_promised():
    def entry(name, kind=tarfile.REGTYPE, link=""):
        def add(tar):
            e = tarfile.TarInfo(name)
            e.type, e.linkname = kind, link
            tar.addfile(e)
        return add
    registry.add("liar", "1.0.0", integrity="sha512-" + "A" * 86 + "==")
    registry.add("old-sum", "1.0.0", integrity="sha1-" + "A" * 28)
    registry.add("other", "1.0.0", manifest={"name": "plain"})
    registry.add("other-version", "1.0.0", manifest={"version": "1.0.1"})
    registry.add("no-manifest", "1.0.0", data=b"not an archive")
    registry.add("upwards", "1.0.0", raw=entry("package/../../../up"))
    registry.add("absolute", "1.0.0", raw=entry("/tmp/cbx-evil"))
    registry.add("linked", "1.0.0", raw=entry("package/link", tarfile.SYMTYPE, "/etc/passwd"))
    registry.add("hard", "1.0.0", raw=entry("package/link", tarfile.LNKTYPE, "package/index.js"))
    registry.add("needs-liar", "1.0.0", {"liar": "*", "plain": "*"})
    registry.add("bomb", "1.0.0", files={"zeros": bytes(100 << 20)})
    for name, says in (("liar", "is not the file that the registry promised: its SHA-512 is"),
                       ("old-sum", "the registry has no SHA-512 sum"), ("other", "says of itself that it is another package"),
                       ("other-version", "says of itself that it is another package"), ("no-manifest", "cannot be read"),
                       ("upwards", "leads upwards"), ("absolute", "has an absolute name"), ("linked", "is not a regular file"),
                       ("hard", "is not a regular file"), ("needs-liar", "is not the file"), ("bomb", "looks like a bomb")):
        answer = install(name, session="h")
        assert isinstance(answer, str) and says in answer, (name, answer)
    # Each failure names package and way, three levels deep.
    for name, says in (("deep-liar", "is not the file that the registry promised"), ("deep-up", "leads upwards"),
                       ("deep-page", "the registry's page of it cannot be read"), ("deep-gone", "the registry does not have it")):
        for a, b in (("-a", "-b"), ("-b", "-c"), ("-c", "")):
            registry.add(name + a, "1.0.0", {name + b: "*"})
        if name == "deep-page":
            registry.pages[name] = 7
        elif name != "deep-gone":
            registry.add(name, "1.0.0", **({"integrity": "sha512-" + "B" * 86 + "=="} if name == "deep-liar" else
                                           {"raw": entry("package/../../../up")}))
        answer = install(name + "-a", session="h")
        assert isinstance(answer, str) and says in answer and f"{name}-a → {name}-b → {name}-c → {name}" in answer, (name, answer)
    registry.add("elsewhere", "1.0.0", page_only={"dist": {"tarball": "http://10.0.0.1/x.tgz", "integrity": "sha512-" + "A" * 86 + "=="}})
    assert "neither on its own host nor reached by HTTPS" in install("elsewhere", session="h")
    registry.add("in-other-directory", "1.0.0", top="whatever")  # as some are
    assert isinstance(install("in-other-directory", session="h"), dict)
    assert cell("[require('in-other-directory').version, require('fs').readdirSync('/node_modules').join()].join()", "h")[0] == \
        "'1.0.0,.bin,in-other-directory'\n"
    assert not os.path.exists("/tmp/cbx-evil")


def test_directories_take_room():
    """Of a package that is in several places those of each."""
    def directories(tar):
        for i in range(300):
            entry = tarfile.TarInfo(f"package/d{i}")
            entry.type = tarfile.DIRTYPE
            tar.addfile(entry)

    for version in "1.0.0", "2.0.0":
        registry.add("hollow", version, raw=directories)
    for i in range(4):
        registry.add(f"has-hollow-{i}", "1.0.0", {"hollow": "1.0.0"})
    b = box_with(install_size="1M")
    answer = install("hollow@2.0.0", "has-hollow-0", b=b)
    assert isinstance(answer, dict), answer
    answer = install("hollow@2.0.0", *(f"has-hollow-{i}" for i in range(4)), b=b)
    assert "more than 4 MiB, with 4 KiB for each of them" in answer, answer
    b.stop()


def test_the_users_configuration_counts_and_its_secrets_stay_outside():
    private = Registry(token="s3cret")
    private.add("@own/thing", "1.0.0", {"plain": "^1"})
    private.add("open", "1.0.0")
    b = box_with(where=None)
    rc = os.path.join(b.dir, "npmrc")
    with open(rc, "w") as f:
        f.write(f"# mine\nregistry = {registry.url}\n@own:registry={private.url}\n//{private.host}/:_authToken=${{OWN_TOKEN}}\n")
    b.env.update(NPM_CONFIG_USERCONFIG=rc, OWN_TOKEN="s3cret")
    answer = install("@own/thing", b=b)
    assert names(answer["installed"]) == ["@own/thing 1.0.0", "plain 1.2.0"], answer
    assert all(path.startswith("/@own") for path, _ in private.asked), private.asked
    assert not any(login for _, login in registry.asked) and not any("own" in path for path, _ in registry.asked)
    with open(os.path.join(b.env["CODEBOX_STATE_DIR"], "codeboxd.log")) as f:
        assert "s3cret" not in f.read()
    assert cell("Object.values(process.env).join().includes('s3cret')", b=b)[0] == "false\n"
    b.stop()
    b = box_with(where=private)
    assert "wants another user or password (status 401); see ~/.npmrc" in install("open", b=b)
    b.stop()


def test_the_proxies_of_npm():
    """Of its configuration before those of the environment; https-proxy before proxy, and noproxy."""
    registry.add("proxied", "1.0.0")
    for archive in registry.pages["proxied"]["versions"].values():
        archive["dist"]["tarball"] = archive["dist"]["tarball"].replace(registry.host, "registry.example.com")
    proxy = Forward({"registry.example.com:80": registry.server.server_port}, user="me:pro%xy")
    url = proxy.url.replace("//", "//me:pro%25xy@")
    nowhere = "http://me:s3cr3t@127.0.0.1:1"

    def ask(lines, name="proxied", at="http://registry.example.com/", **env):
        b = box_with(where=None, registry=at)
        rc = os.path.join(b.dir, "npmrc")
        with open(rc, "w") as f:
            f.write("".join(line + "\n" for line in lines))
        b.env.update(NPM_CONFIG_USERCONFIG=rc, **env)
        answer = install(name, b=b)
        b.stop()
        return answer if isinstance(answer, str) else names(answer["installed"])
    assert ask([f"proxy = {url}"], http_proxy=nowhere) == ["proxied 1.0.0"]
    for lines, env in (([f"proxy={nowhere}", f"https-proxy={url}"], {}), (["proxy=null"], {"http_proxy": url}),
                       ([f"proxy={nowhere}"], {"npm_config_proxy": url}), ([], {"NPM_CONFIG_HTTPS_PROXY": url})):
        assert ask(lines, **env) == ["proxied 1.0.0"], (lines, env)
    registry.add("exempt", "1.0.0")
    asked = len(proxy.asked)
    assert ask([f"proxy={url}", "noproxy=example.org,127.0.0.1"], "exempt", registry.url) == ["exempt 1.0.0"]
    assert len(proxy.asked) == asked, proxy.asked
    for lines, says in (([f"proxy={nowhere}"], "cannot be reached by the configured proxy"),
                        (["proxy=http://me:s3cr3t@a b"], "proxy or https-proxy of npm's configuration is not an address")):
        answer = ask(lines, "never-there")
        assert says in answer and "s3cr" not in answer, answer


def bash(code, session="in"):
    out, err = cell(code, session, box, "--language", "bash")
    return out + err


def test_npm_in_a_session():
    out = bash("npm install plain@1 2>&1; echo $?; cd /tmp; node -p 'require(\"plain\").version'; npm ls")
    assert out == "+ plain@1.2.0\nadded 1 package\n0\n1.2.0\n/node_modules\n└── plain@1.2.0\n", out
    # In the cell that asks, from an interpreter that looked before.
    out, err = cell("const { execSync } = require('child_process'); let before; try { require('outer') } catch { before = 'none' }\n"
                    "const said = execSync('npm i --save outer').toString();\n[before, require('outer').all.length, said].join('|')", "in")
    assert out.startswith("'none|3|+ outer@1.0.0") and "added 4 packages" in out, (out, err)
    assert bash("npx outer-cli; npm i outer -q; npm install outer") == "program 2.0.0\nup to date\n"
    out = bash("cd /workspace && echo '{\"dependencies\": {\"for-later\": \"^1\"}, \"devDependencies\": {\"choosy\": \"*\"}}' >package.json\n"
               "npm install; npm ci -q; echo $?; rm package.json")
    assert "+ choosy@1.0.0" in out and "+ for-later@1.0.0" in out and \
        "added 2 packages\n1\n" in out and "npm ci installs what package-lock.json has, and there is none here" in out, out
    for command, says in (("install never-was", "npm error never-was: the registry does not have it"), ("i -g plain", "-g cannot be used"),
                          ("i --registry=http://h plain", "--registry=http://h cannot be used here"), ("i ./x", "a path cannot"),
                          ("uninstall plain", "packages stay until the session ends"), ("run x", "this image has no npm but for")):
        out = bash(f"npm {command} 2>&1; echo $?")
        assert says in out and out.endswith("\n1\n"), (command, out)
    assert "there is no program nothing of an installed package" in bash("npx nothing")
    strict = cell("npm install plain", "strict", box, "--language", "bash", "--policy", "strict")
    assert "npm" in strict[1] and "added" not in strict[0], strict


def lock_of(*packages, version=3, **instead):
    """package-lock.json of these, as npm writes it."""
    entries = {}
    for p in packages:
        name, _, number = p.rpartition("@")
        dist = registry.pages[name]["versions"][number]["dist"]
        place = f"node_modules/{name}"
        while place in entries:
            place = "node_modules/other/" + place
        entries[place] = {"version": number, "resolved": dist["tarball"], "integrity": dist["integrity"], **instead.get(name, {})}
    if version == 1:
        return json.dumps({"lockfileVersion": 1, "dependencies": {k.split("node_modules/")[-1]: v for k, v in entries.items()}})
    return json.dumps({"lockfileVersion": version, "packages": {"": {"name": "x"}, **entries}})


def locked(session, lock, dependencies, command="npm ci"):
    return bash(f"cd /workspace && cat >package.json <<'END'\n{json.dumps({'dependencies': dependencies})}\nEND\n"
                f"cat >package-lock.json <<'END'\n{lock}\nEND\n{command} 2>&1; echo $?", session)


def test_a_lock_is_kept_to():
    for number in "1.0.0", "1.1.0", "2.0.0":
        registry.add("kept", number)
    registry.add("keeps", "1.0.0", {"kept": "^1"})
    registry.add("keeps-other", "1.0.0", {"kept": "2"})
    # Not the newest that fit, and two versions of one.
    for i, version in enumerate((3, 1)):
        lock = lock_of("keeps@1.0.0", "kept@1.0.0", *(["keeps-other@1.0.0", "kept@2.0.0"] if version == 3 else []), version=version)
        wants = {"keeps": "*", **({"keeps-other": "*"} if version == 3 else {})}
        for command in "npm ci", "npm install":
            out = locked(f"lock{i}{command[4]}", lock, wants, command)
            assert "+ kept@1.0.0" in out and "1.1.0" not in out and out.endswith("\n0\n") and "warn" not in out, (version, command, out)
            assert version == 1 or "+ kept@2.0.0" in out, out
    for lock, wants, says in (
            (lock_of("keeps@1.0.0"), {"keeps": "*"}, "keeps → kept: package-lock.json has no version of it that fits ^1"),
            (lock_of("keeps@1.0.0", "kept@1.0.0"), {"keeps": "*", "plain": "^2"}, "plain: package-lock.json has no version of it"),
            (lock_of("keeps@1.0.0", "kept@1.0.0", kept={"integrity": "sha512-" + "A" * 86 + "=="}), {"keeps": "*"},
             "kept 1.0.0: its SHA-512 is none of those that package-lock.json has; it is needed by keeps → kept"),
            (lock_of("kept@1.0.0", kept={"integrity": "sha1-" + "A" * 28}), {"kept": "*"}, "kept: it has no SHA-512 sum"),
            (lock_of("kept@1.0.0", kept={"link": True}), {"kept": "*"}, "kept: it does not come from a registry"),
            ("{", {"kept": "*"}, "package-lock.json cannot be read")):
        out = locked("lock-refused", lock, wants)
        assert says in out and out.endswith("\n1\n"), (says, out)
    assert "name no packages" in locked("lock-refused", lock_of("kept@1.0.0"), {"kept": "*"}, "npm ci plain")
    # npm install takes what the lock lacks, and says so; a sum that differs is refused there, too.
    out = locked("lock-more", lock_of("keeps@1.0.0"), {"keeps": "*"}, "npm install")
    assert "+ kept@1.1.0" in out and "npm warn package-lock.json does not have kept 1.1.0, which is installed" in out, out
    out = locked("lock-more2", lock_of("kept@1.0.0", kept={"integrity": "sha512-" + "A" * 86 + "=="}), {"kept": "1.0.0"}, "npm install")
    assert "its SHA-512 is none of those" in out, out
    # What is asked for by other ways is read as strictly.
    for text in ("--locked npm:kept@1.0.0", "--locked npm:kept@^1 --hash=sha512:" + "A" * 86 + "==", "--locked npm:kept@1.0.0 --hash=sha512:x",
                 "npm:kept@1.0.0 --hash=sha512:" + "A" * 86 + "==", "--locked kept==1 --hash=sha256:" + "0" * 64, "--locked"):
        with Control(box) as c:
            try:
                c.call("packages.install", session_id="lock-refused", packages=["npm:kept", text])
                raise AssertionError(text)
            except ControlError as e:
                assert e.kind in ("invalid_argument", "package_refused"), (text, e)


def test_what_asks_is_not_trusted():
    ask = ("const net = require('net'); const ask = (text, end) => new Promise((resolve) => { const s = net.connect(3127, '127.0.0.1');"
           " let all = ''; s.on('data', (d) => { all += d }); s.on('error', () => {}); s.on('close', () => resolve(all));"
           " s.write(text); if (end) s.destroy() }); ")
    say = "JSON.parse(await ask({})).error.message"
    for text, says in (("'nonsense\\n'", "packages: "), ("'{}\\n'", "packages: "), ("'{\"packages\":[7]}\\n'", "list of strings"),
                       ("'{\"packages\":[\"npm:plain\"],\"index\":\"x\"}\\n'", "packages: "),
                       ("JSON.stringify({ packages: Array(300).fill('npm:a') }) + '\\n'", "from 1 to")):
        out, err = cell(ask + say.format(text), "asks")
        assert says in out, (text, out, err)
    # Too long, empty, in pieces, left before its end: each asker gets an answer or none, and the next one is served.
    out, err = cell(ask + "const long = await ask('x'.repeat(80000)); const none = await ask('\\n'); await ask('{\"pack', true);\n"
                    "await ask('{\"packages\":[\"npm:plain\"]}\\n', true);\n"
                    "const s = net.connect(3127, '127.0.0.1'); s.write('{\"packages\":'); await new Promise((r) => setTimeout(r, 50));\n"
                    "s.write('[\"npm:plain@2\"]}\\n'); let said = ''; for await (const d of s) said += d;\n"
                    "[long, none, JSON.parse(said).installed[0].version].join('|')", "asks")
    assert out == "'||2.0.0'\n", (out, err)


def test_scripts_run_where_the_policy_lets_them():
    """In the session, on a copy of its own; what they do does not reach other sessions, and one that fails is a warning."""
    log = "node -e \"require('fs').appendFileSync('/workspace/log', process.env.npm_package_name + ' ' + process.env.npm_lifecycle_event + '\\n')\""
    registry.add("low", "1.0.0", manifest={"scripts": {"install": log + " && echo 'exports.made = 7' > made.js", "test": "touch /workspace/tested"}})
    registry.add("high", "1.0.0", {"low": "*", "low-bin": "*", "plain": "^1"}, manifest={"scripts": {
        "preinstall": log, "postinstall": log + " && say-low && node -e \"require('low/made.js'); require('plain')\""}},
        files={"index.js": "exports.made = require('low/made.js').made"})
    registry.add("low-bin", "1.0.0", files={"cli.js": "#!/bin/sh\nexit 0\n"}, manifest={"bin": {"say-low": "cli.js"}})
    registry.add("fails", "1.0.0", manifest={"scripts": {"install": "echo no compiler; exit 4", "postinstall": "touch /workspace/after"}})
    registry.add("spoils", "1.0.0", {"plain": "^1"}, manifest={"scripts": {"install": "echo 'exports.version = 0' > ../plain/index.js"}})
    registry.add("floods", "1.0.0", manifest={"scripts": {"install": "head -c 1000000 /dev/zero | tr '\\0' x; exit 1"}})
    assert names(install("high", session="off")["installed"]) == ["high 1.0.0", "low 1.0.0", "low-bin 1.0.0", "plain 1.2.0"]
    assert cell("require('fs').existsSync('/workspace/log')", "off")[0] == "false\n"
    b = box_with(scripts=True)
    answer = install("high", session="on", b=b)
    assert isinstance(answer, dict) and "warnings" not in answer, answer
    out, err = cell("[require('high').made, require('fs').readFileSync('/workspace/log', 'utf8'), require('fs').existsSync('/workspace/tested')].join()",
                    "on", b)
    assert out == "'7,low install\\nhigh preinstall\\nhigh postinstall\\n,false'\n", (out, err)
    # Who asks for none gets none.
    out, err = cell("%%bash\nnpm install --ignore-scripts high && ls /node_modules/low && cat /workspace/log", "none", b)
    assert "high@1.0.0" in out and "made.js" not in out and "No such file" in out + err, (out, err)
    # Packages without any are shared as before.
    install("plain", session="shared", b=b)
    assert cell("require('fs').realpathSync('/node_modules').startsWith('/run/codebox-packages/')", "shared", b)[0] == "true\n"
    answer = install("fails", session="fails", b=b)
    assert answer["warnings"] == ["fails 1.0.0: its script install failed (status 4): no compiler"], answer
    assert cell("[require('fails').version, require('fs').existsSync('/workspace/after')].join()", "fails", b)[0] == "'1.0.0,false'\n"
    assert isinstance(install("spoils", session="spoils", b=b), dict)
    assert cell("require('plain').version", "spoils", b)[0] == "0\n"
    assert isinstance(install("plain@1", session="clean", b=b), dict)
    assert cell("require('plain').version", "clean", b)[0] == "'1.2.0'\n"
    answer = install("floods", session="floods", b=b)
    assert len(answer["warnings"]) == 1 and len(answer["warnings"][0]) < 500, answer
    # In the cell that asks, and for a session that is made with them.
    out, err = cell("%%bash\nnpm install high && node -p \"require('high').made\"", "asks", b)
    assert out.endswith("\n7\n"), (out, err)
    with Control(b) as c:
        c.call("session.create", session_id="made", image="javascript", packages=["high"])
    assert cell("require('high').made", "made", b)[0] == "7\n"
    b.stop()


def test_a_model_makes_a_session_with_packages():
    def call(n, tool, **arguments):
        return {"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    messages = [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}},
        call(1, "create_session", session_id="models", image="javascript", packages=["plain@1"])]
    r = box("mcp", input="".join(json.dumps(m) + "\n" for m in messages))
    made = json.loads(r.stdout.splitlines()[-1])["result"]
    assert not made.get("isError") and "Installed: " in made["content"][0]["text"], made
    assert cell("require('plain').version", "models")[0] == "'1.2.0'\n"
    assert "cannot become part of an image" in box("image", "build", "--from-session", "models", "never").stderr


def test_all_sessions_share_one_copy():
    install("plain@1.2.0", session="one")
    asked = len(registry.asked)
    install("plain@1.2.0", session="two")
    assert not [path for path, _ in registry.asked[asked:] if path.endswith(".tgz")], registry.asked[asked:]
    store = os.path.join(data, "packages", "w")
    links = [os.stat(os.path.join(store, d, "package", "index.js")).st_nlink for d in os.listdir(store)
             if os.path.exists(os.path.join(store, d, "package", "index.js"))]
    assert links and max(links) >= 3, links


if __name__ == "__main__":
    run(globals())
