#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packages of conda are installed for a session, from a channel that only codebox reaches: all that they need is judged by
the policy, they fit the session's own Python, and what an archive holds harms nothing."""
import json
import os
import sys
import tarfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import conda  # noqa: E402
import installs  # noqa: E402
from cbxtest import run  # noqa: E402
from conda import PLACEHOLDER, Channel  # noqa: E402
from control import Control, ControlError  # noqa: E402
from installs import names  # noqa: E402
from pypi import Index, own_data  # noqa: E402

IMAGE = "python-minimal"
data = own_data(("conda", IMAGE))
channel = Channel()


def box_with(*where, **packages):
    return installs.box_with(data, **{"channels": [c.url for c in where or (channel,)], **packages})


box = box_with()


def cell(code, session="s", b=box, *more):
    r = b("run", "--image", IMAGE, "--session", session, *more, "-c", code)
    return r.stdout, r.stderr


def install(*names, session="s", b=box, how="conda"):
    """The answer, or the words of the error."""
    cell("0", session, b)
    return installs.install(b, session, names, how)


VERSION = cell("import sys; print('%d.%d' % sys.version_info[:2])")[0].strip()
ABI = "cp" + VERSION.replace(".", "")


def fill():
    channel.add("plain", "1.0", python=True)
    channel.add("plain", "1.2", python=True)
    channel.add("plain", "2.0", python=True)
    channel.add("_base", "1.0", files={"share/base.txt": "base\n"})
    channel.add("inner", "1.0", ["plain <2", "_base"], python=True, form="tar.bz2")
    channel.add("python_abi", VERSION, build="1_" + ABI, files={}, constrains=[
        "python %s.* *_%s" % (VERSION, ABI if int(VERSION.split(".")[1]) > 12 else "cpython")])
    for version in "3.8", VERSION, "3.99":
        channel.add("python", version + ".99", build="h_cpython", subdir="linux-64", files={"bin/python": "evil"})
        channel.add("native", "1.5", ["python_abi %s.*" % version, "__glibc >=2.17,<3.0.a0"], build="py" + version.replace(".", ""),
                    subdir="linux-64", python_version=version)
    channel.add("outer", "1.0", ["python >=3.8", "inner", "native"], python=True, programs=["outer-cli = outer:main"], files={
        "site-packages/outer.py": "import inner, plain, native\ndef main():\n    print('program', plain.version)\n",
        "site-packages/outer-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: outer\nVersion: 1.0\n",
        "python-scripts/outer-script": (0o755, "#!%s/bin/python\nimport outer; print('script', outer.plain.version)\n" % PLACEHOLDER)},
        prefixed={"python-scripts/outer-script": "text"})


def entry(name, kind=tarfile.REGTYPE, link="", mode=0o644):
    def add(tar):
        e = tarfile.TarInfo(name)
        e.type, e.linkname, e.mode = kind, link, mode
        tar.addfile(e)
    return add


def without(prefix):
    def change(members):
        for name in [n for n in members if n.startswith(prefix)]:
            del members[name]
    return change


def zeros(size):
    def change(members):
        name = next(n for n in members if n.startswith("pkg-"))
        head = tarfile.TarInfo("share/zeros")
        head.size = size
        members[name] = conda.zstd_zeros(head.tobuf(), size)
    return change


def hidden(members):
    name = next(n for n in members if n.startswith("info-"))
    members[name] = conda.zstd(conda.tar_of({"info/index.json": "{}", "bin/hidden": "x"}))


def many(members):
    members.update({f"m{i}": b"" for i in range(50)})


def hostile():
    """Names of packages, how these are made, and what is said of them."""
    return [
        ("liar", {"sha256": "0" * 64}, "is not the file that the channel promised: its SHA-256 is"),
        ("no-sum", {"sha256": None, "md5": "0" * 32}, "the channel has no SHA-256 sum of it"),
        ("other-name", {"says": {"name": "plain"}}, "says of itself that it is another package"),
        ("other-version", {"says": {"version": "1.1"}}, "says of itself that it is another package"),
        ("other-build", {"says": {"build": "1"}}, "says of itself that it is another package"),
        ("no-index", {"info": {"info/index.json": None}}, "does not say what it is"),
        ("no-archive", {"data": b"not an archive"}, "cannot be read"),
        ("no-archive-2", {"data": b"not an archive", "form": "tar.bz2"}, "cannot be read"),
        ("no-pkg", {"parts": without("pkg-")}, "its archive has no pkg-no-pkg-1.0-0.tar.zst"),
        ("no-info", {"parts": without("info-")}, "its archive has no info-no-info-1.0-0.tar.zst"),
        ("hidden", {"parts": hidden}, "bin/hidden has no place in this archive"),
        ("many", {"parts": many}, "has more than 10 entries"),
        ("upwards", {"raw": entry("lib/../../../up")}, "leads upwards"),
        ("upwards-2", {"raw": entry("../up"), "form": "tar.bz2"}, "leads upwards"),
        ("absolute", {"raw": entry("/tmp/cbx-evil")}, "has an absolute name"),
        ("linked", {"raw": entry("lib/passwd", tarfile.SYMTYPE, "/etc/passwd")}, "leads out of the package, to /etc/passwd"),
        ("linked-up", {"raw": entry("lib/up", tarfile.SYMTYPE, "../../x"), "form": "tar.bz2"}, "leads out of the package"),
        ("hard", {"raw": entry("lib/hard", tarfile.LNKTYPE, "/etc/passwd")}, "has a target that cannot be used"),
        ("zeros", {"parts": zeros(10 << 30)}, "says that it holds 10737418240 bytes; the limit is"),
        ("bomb", {"parts": zeros(3 << 30)}, "looks like a bomb"),
        ("no-room", {"prefixed": {"share/f": "binary"}, "files": {"share/f": b"/short/prefix\0"}, "info": {
            "info/paths.json": json.dumps({"paths": [{"_path": "share/f", "prefix_placeholder": "/short/prefix",
                                                      "file_mode": "binary"}]})}}, "has too little room"),
        ("bad-path", {"info": {"info/paths.json": json.dumps({"paths": [{"_path": "../../../etc/passwd", "prefix_placeholder": "/" * 20,
                                                                       "file_mode": "text"}]})}}, "has a path or prefix that is not one"),
        ("by-link", {"files": {"a": {"link": "share"}, "share/f": "/opt/prefix/x"}, "info": {"info/paths.json": json.dumps(
            {"paths": [{"_path": "a/f", "prefix_placeholder": "/opt/prefix", "file_mode": "text"}]})}}, "does not have a file that its list"),
        ("grows", {"files": {"share/f": "/opt/pre" * (2 << 20)}, "info": {"info/paths.json": json.dumps(
            {"paths": [{"_path": "share/f", "prefix_placeholder": "/opt/pre", "file_mode": "text"}]})}}, "too large to be copied"),
        ("not-there", {"info": {"info/paths.json": json.dumps({"paths": [{"_path": "x", "prefix_placeholder": "/opt/prefix"}]})}},
         "does not have a file that its list"),
        ("bad-list", {"info": {"info/paths.json": "{"}}, "its list of files cannot be read"),
        ("bad-program", {"python": True, "programs": ["../x = os:system"]}, "put a package in its place"),
        ("bad-program-2", {"python": True, "programs": ["x = os:system('id')"]}, "put a package in its place"),
    ]


def fill_others():
    """All of it before a list is fetched: these are kept for minutes."""
    # As a compiler leaves it: a string with a NUL behind it, followed by more.
    held = PLACEHOLDER.encode() + b"/lib\0" + b"next\0" + PLACEHOLDER.encode() + b":" + PLACEHOLDER.encode() + b"/x\0end"
    channel.add("compiled", "3.1", subdir="linux-64", build="h1_0", files={
        "lib/libc1.so.3.1": held, "lib/libc1.so.3": {"link": "libc1.so.3.1"}, "lib/sub/up": {"link": "../libc1.so.3"},
        "share/c1/settings": f"root={PLACEHOLDER}/share:{PLACEHOLDER}\n", "bin/c1": (0o755, f"#!/bin/sh\necho {PLACEHOLDER}\n"),
        "bin/c1-python": (0o755, f"#!{PLACEHOLDER}/bin/python3.9 -s\nimport sys; print(sys.flags.no_user_site)\n"),
        "share/empty/keep": ""},
        prefixed={"lib/libc1.so.3.1": "binary", "share/c1/settings": "text", "bin/c1": "text", "bin/c1-python": "text"})
    # As older archives list them, without paths.json.
    channel.add("older", "1", form="tar.bz2", subdir="linux-64", files={
        "etc/older.conf": f"at={PLACEHOLDER}\n", "etc/default": "/opt/anaconda1anaconda2anaconda3/x\n", "etc/a b": f"{PLACEHOLDER}"},
        info={"info/paths.json": None, "info/has_prefix": f'{PLACEHOLDER} text etc/older.conf\netc/default\n{PLACEHOLDER} text "etc/a b"\n'})
    channel.add("newer-libc", "1", ["__glibc >=9"], files={})
    channel.add("for-mac", "1", ["__osx"], files={})
    channel.add("old-python", "1", ["python <3"], files={})
    channel.add("clash-a", "1", ["plain 1.0"], files={})
    channel.add("clash-b", "1", ["plain >=2"], files={})
    for a, b in ("d1", "d2"), ("d2", "d3"), ("d3", "d4"):
        channel.add(a, "1.0", [b], files={})
    channel.add("d4", "1.0", files={})
    channel.add("d4", "2.0", files={})
    channel.add("d4", "2.1", files={})
    channel.add("large", "1", files={"share/large": os.urandom(3 << 20)})
    channel.add("scripted", "1", files={"bin/.scripted-post-link.sh": (0o755, "touch /tmp/ran\n"), "share/s": "",
                                        "etc/conda/activate.d/x.sh": "touch /tmp/ran\n"})
    for name, how, _ in hostile():
        channel.add(name, "1.0", **{"files": {f"share/{name}": ""}, **how})
    for name in "liar", "upwards":
        channel.add(name + "-a", "1.0", [name + "-b"], files={})
        channel.add(name + "-b", "1.0", [name], files={})
    channel.add("special", "1.0", files={"share/s": ""}, raw=lambda tar: [
        entry("dev/null", tarfile.CHRTYPE)(tar), entry("bin/setuid", mode=0o6755)(tar), entry("fifo", tarfile.FIFOTYPE)(tar)])
    channel.add("twice", "1.0", files={"bin/twice": (0o755, "#!/bin/sh\necho twice\n")}, raw=lambda tar: [
        entry("bin/again", tarfile.LNKTYPE, "bin/twice")(tar), entry("share/again", tarfile.LNKTYPE, "bin/again")(tar)])
    channel.add("turn-a", "1.0", files={"share/turn": {"link": "../etc"}, "etc/x": ""})
    channel.add("turn-b", "1.0", files={"share/turn/evil": "x"})


def test_they_are_installed_with_what_they_need_and_usable_at_once():
    fill()
    fill_others()
    out, err = cell("kept = 7\nimport outer")
    assert "No module named 'outer'" in out + err, (out, err)
    answer = install("outer")
    assert isinstance(answer, dict), answer
    assert sorted(names(answer["installed"])) == ["_base 1.0", "inner 1.0", "native 1.5", "outer 1.0", "plain 1.2",
                                                  "python_abi " + VERSION], answer
    out, err = cell("import outer; print(kept, outer.plain.version, outer.native.version)")
    assert (out, err) == ("7 1.2 1.5\n", ""), (out, err)
    # Programs: of entry points, and those that name the prefix, by the session's own Python.
    out, err = cell("!outer-cli; outer-script; python3 -c 'import inner; print(inner.version)'")
    assert out == "program 1.2\nscript 1.2\n1.0\n", (out, err)
    box("session", "restart", "s", check=True)
    assert cell("import outer; print(outer.plain.version)")[0] == "1.2\n"
    assert "No module named" in "".join(cell("import outer", "other"))
    assert names(install("outer")["already"]) == ["outer 1.0"]


def test_code_has_no_network_still():
    out, err = cell("import urllib.request\ntry:\n    urllib.request.urlopen(%r)\nexcept OSError as e:\n    print('no')" % channel.url)
    assert out == "no\n", (out, err)


def test_a_prefix_in_text_binaries_links_and_directories():
    assert names(install("compiled", "older", session="p")["installed"]) == ["compiled 3.1", "older 1"]
    out, err = cell("""
import os, shutil, subprocess
root = os.path.dirname(os.path.dirname(shutil.which("c1")))
data = open(root + "/lib/libc1.so.3.1", "rb").read()
print(data.replace(root.encode(), b"R").replace(b"\\0", b"|").decode().replace("|" * (250 - len(root)), "<pad>"), len(data))
print(os.path.realpath(root + "/lib/sub/up") == root + "/lib/libc1.so.3.1", os.readlink(root + "/lib/libc1.so.3"))
print(open(root + "/share/c1/settings").read().replace(root, "R").strip(), subprocess.getoutput("c1") == root)
print(subprocess.getoutput("c1-python"), open(root + "/etc/older.conf").read().replace(root, "R").strip())
print(open(root + "/etc/default").read().replace(root, "R").strip(), open(root + "/etc/a b").read() == root)
print(sorted(os.listdir(root + "/conda-meta")))
try:
    open(root + "/x", "w")
except OSError as e:
    print(e.strerror)
""", "p")
    pad, size = "<pad>", 3 * len(PLACEHOLDER) + len("/lib|next|:/x|end")
    assert out == (f"R/lib{pad}|next|R:R/x{pad}{pad}|end {size}\nTrue libc1.so.3.1\nroot=R/share:R True\n1 at=R\nR/x True\n"
                   "['compiled-3.1-h1_0.json', 'older-1-0.json']\nRead-only file system\n"), (out, err)


def test_in_a_session_conda_is_a_program():
    out, err = cell("%conda install -y -c " + channel.url + " plain=1.0\nimport plain; print(plain.version)", "c")
    assert out == "The following packages were installed:\n  plain 1.0\n1.0\n", (out, err)
    out, err = cell("!conda list; conda --version", "c")
    assert "plain                    1.0             0" in out and f"conda of codebox (python {VERSION})" in out, (out, err)
    out, err = cell("!mamba update plain\n", "c")
    assert out == "The following packages were installed:\n  plain 2.0\n", (out, err)
    assert cell("!python3 -c 'import plain; print(plain.version)'", "c")[0] == "2.0\n"
    for command, says in (("conda install -c elsewhere plain", "channel elsewhere: the policy policy does not have it"),
                          ("conda install elsewhere::plain", "channel elsewhere: the policy policy does not have it"),
                          ("conda create -n x plain", "a session has one environment"), ("conda install", "name packages"),
                          ("conda install -n base plain", "-n cannot be used here"), ("conda frobnicate", "this image has no conda but for"),
                          ("conda remove plain", "packages stay until the session ends"),
                          ("conda install never-was", "no channel of the policy has never-was")):
        out, err = cell("!" + command, "c")
        assert "ERROR: " in err and says in err, (command, out, err)


def test_versions_and_what_is_asked_for():
    assert names(install("plain>=1,<2", session="v")["installed"]) == ["plain 1.2"]
    assert names(install("native", session="v")["installed"]) == ["native 1.5", "python_abi " + VERSION]
    assert cell("import plain, native; print(plain.version)", "v")[0] == "1.2\n"  # what was there stays
    assert names(install("-U", "plain", session="v")["installed"]) == ["plain 2.0"]
    assert names(install("plain=1.0=0", session="v")["installed"]) == ["plain 1.0"]
    assert names(install("-c", channel.url, "PLAIN ==1.2", session="v")["installed"]) == ["plain 1.2"]
    for text, says in (("plain=9", "no channel of the policy has plain 9.*"), ("never-was", "no channel of the policy has never-was"),
                       ("https://h/x.conda", "an address"), ("./here", "a path"), ("x-1-0.conda", "a path"), ("a::b", "a channel"),
                       ("plain[build=0]", "is not a package of conda"), ("plain>=", "is not a package of conda"),
                       ("python=3.99", "stands for the package python; another one cannot be installed")):
        answer = install(text, session="v")
        assert isinstance(answer, str) and says in answer, (text, answer)
    assert names(install("python", session="w")["installed"]) == []
    assert "the policy policy does not have it" in install("-c", "conda-forge", "plain", session="v")
    for args in (["-r", "x"], ["--prefix", "x", "plain"], []):
        assert box("conda", "install", "--session", "v", *args).returncode == 2, args
    answer = json.loads(box("pip", "install", "--session", "v", "--json", "conda:plain", "httpx").stdout)
    assert "are installed apart" in answer["error"]["message"], answer
    assert cell("!python3 -c 'import plain; print(plain.version)'", "v")[0] == "1.2\n"


def test_what_does_not_fit_this_machine():
    for wanted, says in ((["newer-libc"], "__glibc >=9"), (["for-mac"], "__osx"), (["old-python"], "python <3"),
                         (["clash-a", "clash-b"], "these cannot be installed together: ")):
        answer = install(*wanted, session="f")
        assert isinstance(answer, str) and says in answer, (wanted, answer)


def test_the_policy_judges_all_of_it():
    for rules, says in (
            ({"block": ["conda:d4"]}, 'conda:d4 2.1 is blocked by the policy (block: "conda:d4"); it is needed by d1 → d2 → d3 → d4'),
            ({"allow": ["conda:d1", "conda:d2", "conda:d3>=1"]}, "conda:d4 2.1 is not among the packages that the policy allows "
                                                                 "(allow); it is needed by d1 → d2 → d3 → d4"),
            ({"allow": ["d1", "numpy"]}, "conda:d1 is not among the packages that the policy allows"),
            ({"versions": ["conda:d4>=3"]}, 'conda:d4 2.1 is not a version that the policy allows (versions: "conda:d4>=3"); it is '
                                            "needed by d1 → d2 → d3 → d4"),
            ({"install": False}, "does not let packages be installed (packages.install)"),
            ({"channels": []}, "the policy policy has no channel of conda (packages.channels)"),
            ({"install_size": "1M", "block": ["d1"]}, ["d4 2.1"]),
            ({"block": ["conda:d4>2.0", "d4"], "versions": ["conda:d4 2.*"]}, ["d4 2.0"]),
            ({"block": ["conda:d4=2"], "allow": ["conda:d1", "conda:d2", "conda:d3", "conda:d4>9", "conda:d4<3"]}, ["d4 1.0"])):
        b = box_with(**rules)
        answer = install("d1", b=b)
        if isinstance(says, str):
            assert isinstance(answer, str) and says in answer, (rules, answer)
            assert cell("import os; print(os.listdir('/run/codebox-packages') if os.path.isdir('/run/codebox-packages') else [])",
                        b=b)[0] == "[]\n"
        else:
            assert isinstance(answer, dict) and says[0] in names(answer["installed"]), (rules, answer)
        b.stop()
    b = box_with(install_size="2M")
    answer = install("large", b=b)
    assert isinstance(answer, str) and "are more than the 2 MiB that the policy allows" in answer, answer
    b.stop()


def test_the_first_channel_that_has_a_name_is_where_it_comes_from():
    public = Channel()
    public.add("plain", "9.0", python=True)
    public.add("only-public", "1.0", ["plain"], python=True)
    b = box_with(channel, public)
    answer = install("only-public", b=b)
    assert sorted(names(answer["installed"])) == ["only-public 1.0", "plain 2.0"], answer
    answer = install("plain>=9", b=b)
    assert isinstance(answer, str) and "plain" in answer, answer
    b.stop()


def test_scripts_never_run():
    answer = install("scripted", session="scripts")
    assert answer["warnings"] == ["scripted 1 has a script for its installation, which was not run"], answer
    assert cell("import os; print(os.path.exists('/tmp/ran'))", "scripts")[0] == "False\n"


def test_archives_that_are_hostile_or_not_what_was_promised():
    for name, how, says in hostile():
        answer = install(name, session="h")
        assert isinstance(answer, str) and says in answer, (name, answer)
    # Each failure names package and way, three levels deep.
    for name in "liar", "upwards":
        answer = install(name + "-a", session="h")
        assert isinstance(answer, str) and f"it is needed by {name}-a → {name}-b → {name}" in answer, answer
    # What is harmless without its special bits and kinds is installed without them.
    assert isinstance(install("special", session="h2"), dict)
    out, err = cell("import glob, os; r = glob.glob('/run/codebox-packages/*/')[0]\n"
                    "print(sorted(os.listdir(r)), oct(os.stat(r + 'bin/setuid').st_mode))", "h2")
    assert out == "['bin', 'conda-meta', 'lib', 'share'] 0o100755\n", (out, err)
    # Files with several names have one each in the store, by which it knows what sessions have.
    assert isinstance(install("twice", session="h4"), dict)
    assert cell("!again; sh $(dirname $(dirname $(command -v again)))/share/again", "h4")[0] == "twice\ntwice\n"
    store = os.path.join(data, "packages", "w")
    kept = next(d for d in os.listdir(store) if os.path.exists(os.path.join(store, d, "bin", "again")))
    assert len({os.stat(os.path.join(store, kept, path)).st_ino for path in ("bin/twice", "bin/again", "share/again")}) == 3
    # A directory of one package that is a link of another.
    answer = install("turn-a", "turn-b", session="h3")
    assert isinstance(answer, str) and "put a package in its place" in answer, answer
    assert not os.path.exists("/tmp/cbx-evil")


def test_channels_that_answer_wrongly():
    def answers(data, says, file="noarch/repodata.json.zst"):
        bad = Channel()
        bad.add("plain", "1.0", python=True)
        bad.instead["/channel/" + file] = data
        b = box_with(bad)
        answer = install("plain", b=b)
        assert isinstance(answer, str) and says in answer, (data[1][:40], answer)
        b.stop()
    answers((200, b"\x28\xb5\x2f\xfdnonsense"), "cannot be unpacked")
    answers((200, conda.zstd(b"{")), "the list of packages cannot be read")
    answers((200, conda.zstd(b'{"packages.conda": {"plain-1.0-0.conda": 7}}')), "the lists of packages cannot be used: invalid type")
    answers((500, b""), "answered with status 500")
    answers((200, bytes(129 << 20)), "sends more than 128 MiB")
    with_none = Channel()
    with_none.records.clear()
    with_none.server.serve()
    b = box_with(with_none)
    assert "there is no list of packages (repodata.json)" in install("plain", b=b)
    b.stop()
    # A list that is not packed does as well.
    plain = Channel(packed=False)
    plain.add("plain", "1.0", python=True)
    b = box_with(plain)
    assert names(install("plain", b=b)["installed"]) == ["plain 1.0"]
    b.stop()
    down = Channel()
    down.add("plain", "1.0", python=True)
    b = box_with(down)
    down.server.shutdown()
    down.server.server_close()
    assert "cannot be reached" in install("plain", b=b)
    b.stop()


def test_the_users_configuration_counts_and_its_secrets_stay_outside():
    import base64
    private = Channel(user="Basic " + base64.b64encode(b"me:wh1sper").decode())
    private.add("secret", "1.0", python=True)
    b = box_with(private)
    netrc = os.path.join(b.dir, "netrc")
    with open(netrc, "w") as f:
        f.write("machine 127.0.0.1 login me password wh1sper\n")
    os.chmod(netrc, 0o600)
    os.chown(netrc, os.stat(data).st_uid, -1)  # root's codeboxd is another user
    b.env["NETRC"] = netrc
    assert names(install("secret", b=b)["installed"]) == ["secret 1.0"]
    assert cell("import os; print('wh1sper' in str(os.environ))", b=b)[0] == "False\n"
    with open(os.path.join(b.env["CODEBOX_STATE_DIR"], "codeboxd.log")) as f:
        assert "wh1sper" not in f.read()
    b.stop()
    private = Channel(user="Basic x")
    private.add("secret", "1.0", python=True)
    b = box_with(private)
    assert "wants another user or password (status 401)" in install("secret", b=b)
    b.stop()


def test_without_the_helper_image_the_error_says_what_to_do():
    b = installs.box_with(own_data((IMAGE,)), channels=[channel.url])
    answer = install("plain", b=b)
    assert "which is not there" in answer and "codebox image build conda" in answer, answer
    b.stop()


def test_images_that_a_policy_allows_are_those_of_sessions():
    b = installs.box_with(data, channels=[channel.url])
    with open(b.env["CODEBOX_POLICY"]) as f:
        policy = json.load(f)
    with open(b.env["CODEBOX_POLICY"], "w") as f:
        json.dump({**policy, "images": [IMAGE]}, f)
    assert names(install("plain", b=b)["installed"]) == ["plain 2.0"]
    assert "does not allow" in b("run", "--image", "conda", "-c", "0").stderr
    b.stop()


def test_models_and_other_programs_install_them_likewise():
    def call(n, tool, **arguments):
        return {"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    messages = [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}},
        None]
    for asked, says in ((call(1, "create_session", session_id="models", image=IMAGE, packages=["conda:plain=1"]), "Installed: "),
                        (call(2, "install_packages", session_id="models", packages=["conda:inner"]), "inner 1.0")):
        messages[1] = asked
        r = box("mcp", input="".join(json.dumps(m) + "\n" for m in messages))
        answer = json.loads(r.stdout.splitlines()[-1])["result"]
        assert not answer.get("isError") and says in answer["content"][0]["text"], answer
    assert cell("import inner, plain; print(plain.version)", "models")[0] == "1.2\n"
    assert "packages of conda, which cannot become part of an image" in box("image", "build", "--from-session", "models", "never").stderr
    with Control(box) as c:
        listed = c.call("session.list")
        try:
            c.call("packages.lock", session_id="models", packages=["conda:plain"],
                   parameters=["3.11", "x86_64"])
            raise AssertionError("locked")
        except ControlError as e:
            assert "a lock is of packages of Python alone" in str(e), e
    assert any({"name": "conda:plain", "version": "1.2"} in s.get("packages", []) for s in listed["sessions"]), listed


def test_all_sessions_share_one_copy():
    install("compiled", session="one")
    asked = len(channel.asked)
    install("compiled", session="two")
    assert not [path for path, _ in channel.asked[asked:] if path.endswith(".conda")], channel.asked[asked:]
    store = os.path.join(data, "packages", "w")
    links = [os.stat(p).st_nlink for p in (os.path.join(store, d, "share", "empty", "keep") for d in os.listdir(store))
             if os.path.exists(p)]
    assert links and max(links) >= 3, links
    # What was changed in the store is fetched again.
    for d in os.listdir(store):
        link = os.path.join(store, d, "lib", "libc1.so.3")
        if os.path.islink(link):
            os.unlink(link)
            os.symlink("elsewhere", link)
    answer = install("compiled", session="three")
    assert any("was fetched again" in w for w in answer["warnings"]), answer
    out, _ = cell("import glob, os; print([os.readlink(p) for p in glob.glob('/run/codebox-packages/*/lib/libc1.so.3')])", "three")
    assert out == "['libc1.so.3.1']\n", out


def test_one_that_is_a_wheel_too():
    """Each way has a tree of its own: one's links lead the other nowhere."""
    def about(name):
        info = f"{name}-1.0.dist-info/"
        return {info + "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
                info + "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n", info + "RECORD": ""}

    index, own = Index(), Channel()
    index.add("private", "1.0", files={"data/__init__.py": "", "data/key.txt": "of another session\n"})
    private = index.pages["private"][0]["hashes"]["sha256"]
    own.add("poly", "1.0", files={
        **about("poly"), "share/poly": "", "a/b/c/up": {"link": "../../.."}, "a/b/c/keep": "",
        "poly-1.0.data": {"link": f"a/b/c/up/../../w/{private}"}}, parts=lambda members: members.update(
            {path: text.encode() for path, text in about("poly").items()}))
    index.put("poly", "poly-1.0-py3-none-any.whl", own.files["/channel/noarch/poly-1.0-0.conda"])
    b = box_with(own, index=index.url)
    try:
        for session, how, name in ("has-it", "pip", "private"), ("links", "conda", "poly"), ("follows", "pip", "poly"):
            answer = install(name, session=session, b=b, how=how)
            assert isinstance(answer, dict) and len(answer["installed"]) == 1, (how, name, answer)
        out, _ = cell("import os\nprint([f for p in os.listdir('/run/codebox-packages') for _, _, all in os.walk('/run/codebox-packages/' + p) "
                      "for f in all if 'key' in f])", "follows", b)
        assert out == "[]\n", out
    finally:
        b.stop()


if __name__ == "__main__":
    run(globals())
