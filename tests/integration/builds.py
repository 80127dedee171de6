#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packages of which the index has sources alone are built, where the policy says so: in the resolver's sandbox, which has no
network, with what their builds need from the index; and what a build does harms nothing outside of it."""
import hashlib
import io
import json
import os
import shutil
import sys
import tarfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import installs  # noqa: E402
from cbxtest import run  # noqa: E402
from installs import names  # noqa: E402
from pypi import Index, own_data  # noqa: E402

index = Index()
data = own_data()

# A backend of PEP 517, in the archive itself.
BACKEND = """
import os, zipfile

def build_wheel(directory, settings=None, metadata=None):
    before()
    info = FILE.rsplit('-', 3)[0] + '.dist-info/'
    with zipfile.ZipFile(os.path.join(directory, FILE), 'w') as z:
        def put(name, text):
            z.writestr(zipfile.ZipInfo(name, (2000, 1, 1, 0, 0, 0)), text)
        put(NAME.replace('-', '_') + '.py', 'version = %r\\n' % VERSION + module())
        put(info + 'METADATA', 'Metadata-Version: 2.1\\nName: %s\\nVersion: %s\\n' % (NAME, VERSION) + ''.join(
            'Requires-Dist: %s\\n' % need for need in NEEDS))
        put(info + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
        put(info + 'RECORD', '')
    return FILE

def before():
    pass

def module():
    return ''

"""


def sources(name, version, code="", requires=(), needs=(), made=None, files=None, digest=None):
    """Put an archive into the index. code: more of the backend. made: the wheel that it makes, if another one."""
    stem = f"{name.replace('-', '_')}-{version}"
    entries = {"pyproject.toml": f"[build-system]\nrequires = {json.dumps(list(requires))}\nbuild-backend = 'own'\nbackend-path = ['.']\n",
               "own.py": f"NAME, VERSION, NEEDS, FILE = {name!r}, {version!r}, {list(needs)!r}, "
                         f"{made or stem + '-py3-none-any.whl'!r}\n{BACKEND}{code}", **(files or {})}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for path, text in entries.items():
            if text is None:
                continue
            entry = tarfile.TarInfo(path if path.startswith(("/", "..")) else f"{stem}/{path}")
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    index.put(name, f"{stem}.tar.gz", out.getvalue(), digest=digest)


def box_with(**more):
    return installs.box_with(data, index=index.url, **more)


box = box_with(source_builds=True)
image = box.image("python")


def cell(code, session="s", b=box):
    r = b("run", "--image", image, "--session", session, "-c", code)
    return r.stdout + r.stderr


def install(*names, session="s", b=box):
    """The answer, or the words of the error."""
    cell("pass", session, b)
    return installs.install(b, session, names)


def test_nothing_is_built_unless_the_policy_says_so():
    sources("plain", "1.0")
    b = box_with()
    assert "plain: it has no wheel, only sources, and nothing is built here (packages.source_builds)" in install("plain", b=b)
    b.stop()


def test_sources_are_built_with_what_they_need():
    index.add("helper", "1.0", ["deeper"], files={"helper/__init__.py": "import deeper\ntext = 'made by helper'\n",
                                                  "helper-1.0.data/scripts/help-me": "#!/bin/sh\necho 'and a program'\n",
                                                  "helper-1.0.dist-info/entry_points.txt": "[console_scripts]\nenter = helper:text.upper\n"})
    index.add("deeper", "1.0")
    index.add("needed", "2.0")
    sources("outer", "1.0", "def module():\n    import helper, subprocess\n    assert os.access(os.popen('command -v enter').read().strip(), os.X_OK)\n"
                            "    return 'said = %r' % (helper.text + ' ' + subprocess.check_output(['help-me'], text=True).strip())\n",
            ["helper>=1"], ["needed>=1", "never; extra == 'x'"])
    # A version that has a wheel is not built, and of those that have none the newest is.
    index.add("outer", "0.9")
    sources("outer", "0.9", "def before():\n    raise SystemExit('was built')\n")
    sources("outer", "0.8")
    answer = install("outer")
    assert isinstance(answer, dict), answer
    assert names(answer["installed"]) == ["needed 2.0", "outer 1.0"] and answer["warnings"] == ["outer 1.0 was built from its sources"], answer
    assert cell("import outer, needed; outer.version, outer.said") == "('1.0', 'made by helper and a program')\n"
    assert "No module named 'helper'" in cell("import helper")
    # It stays with a later installation, and is not built again for that; another session shares the copy.
    asked = len(index.asked)
    assert names(install("deeper")["installed"]) == ["deeper 1.0"]
    assert not any("outer" in path for path in index.asked[asked:]), index.asked[asked:]
    assert cell("import deeper, outer; outer.version") == "'1.0'\n"
    assert names(install("outer", session="t")["installed"]) == ["needed 2.0", "outer 1.0"]
    inodes = {cell("import os, outer; os.stat(outer.__file__).st_ino", session) for session in "st"}
    assert len(inodes) == 1, inodes
    assert names(install("outer<1", session="old")["installed"]) == ["outer 0.9"]
    assert names(install("outer<0.9", session="older")["installed"]) == ["outer 0.8"]


def test_a_build_has_no_network_where_sessions_have_one():
    sources("reaching", "1.0", """
def module():
    import socket
    try:
        socket.create_connection(('127.0.0.1', 3128), 5)
        said = 'reached'
    except OSError as e:
        said = type(e).__name__
    return 'said = %r' % (said + ' ' + os.environ.get('http_proxy', ''))
""")
    b = box_with(source_builds=True, network={"allow": ["example.com"]})
    try:
        answer = install("reaching", session="r", b=b)
        assert isinstance(answer, dict), answer
        assert "connected" in cell("import socket; print('connected', socket.create_connection(('127.0.0.1', 3128), 5))", "r", b)
        assert cell("import reaching; reaching.said", "r", b) == "'ConnectionRefusedError '\n"
    finally:
        b.stop()


def test_a_build_has_no_network_and_cannot_ask_the_index():
    host, port = index.server.host.split(":")
    sources("curious", "1.0", f"""
def module():
    import socket
    said = []
    for what in (lambda: socket.create_connection(({host!r}, {port}), 5), lambda: socket.getaddrinfo('example.com', 80),
                 lambda: open('/proc/%d/fd/1' % os.getppid(), 'w'), lambda: open('/proc/%d/mem' % os.getppid(), 'r+b')):
        try:
            what()
            said.append('done')
        except OSError as e:
            said.append(type(e).__name__)
    print('{{"ask": 1, "url": "https://example.com/"}}', flush=True)
    return 'said = %r' % said
""")
    answer = install("curious", session="curious")
    assert isinstance(answer, dict), answer
    out = cell("import curious; print(*curious.said)", "curious")
    assert "done" not in out and out.endswith("PermissionError PermissionError\n"), out


def test_a_build_does_not_reach_the_resolver():
    """Neither by what that imports, nor as a program of a session that installs packages for it."""
    index.add("harmless", "1.0")
    sources("planting", "1.0", f'''
def get_requires_for_build_wheel(settings=None):
    import json, sys
    ask = json.dumps({{"ask": 777777, "url": {index.base!r} + "/planted"}}).encode() + b"\\n"
    for p in sys.path + ["/home/user/.local/lib/python%d.%d/site-packages" % sys.version_info[:2], os.getcwd(), "/workspace", "/home/user"]:
        try:
            os.makedirs(p, exist_ok=True)
            with open(os.path.join(p, "_manylinux.py"), "w") as f:
                f.write("import os\\nopen('/tmp/ran', 'w')\\nos.write(1, %r)\\n" % ask)
        except OSError:
            pass
    return ["harmless"]

def module():
    return "ran = %r" % os.path.exists("/tmp/ran")
''')
    answer = install("planting", session="planting")
    assert isinstance(answer, dict), answer
    assert cell("import planting; planting.ran", "planting") == "False\n"
    assert not any("planted" in path for path in index.asked), index.asked
    index.add("wanted-by-a-build", "1.0")
    sources("nesting", "1.0", '''
def module():
    import subprocess
    pip = "/run/codebox/python/bin/pip"
    try:
        said = subprocess.run([pip, "install", "wanted-by-a-build"], capture_output=True, text=True, timeout=60)
    except OSError as e:
        said = type(e).__name__
    return "said = %r" % str(said)
''')
    answer = install("nesting", session="nesting")
    assert isinstance(answer, dict), answer
    assert not any("wanted" in path for path in index.asked), cell("import nesting; print(nesting.said)", "nesting")
    sources("elsewhere", "1.0", requires=["harmless @ " + index.base + "/files/harmless-1.0-py3-none-any.whl#sha256=" + "0" * 64])
    answer = install("elsewhere", session="elsewhere")
    assert "what a build needs comes from the index" in answer, answer


def test_builds_that_fail():
    sources("broken", "1.0", "def before():\n    raise RuntimeError('there is no compiler')\n")
    sources("silent", "1.0", "def before():\n    os._exit(3)\n")
    sources("not-made", "1.0", "def build_wheel(*a):\n    return 'not_made-1.0-py3-none-any.whl'\n")
    sources("another", "1.0", made="numpy-1.0-py3-none-any.whl")
    sources("other-version", "1.0", made="other_version-9.0-py3-none-any.whl")
    sources("outside", "1.0", "def build_wheel(*a):\n    return '../../../etc/passwd'\n")
    sources("changed", "1.0", digest="0" * 64)
    sources("no-archive", "1.0")
    index.files["/files/no_archive-1.0.tar.gz"] = b"nothing"
    sources("upwards", "1.0", files={"../../up": "x"})
    sources("bare", "1.0", files={"pyproject.toml": None})
    sources("odd", "1.0", files={"pyproject.toml": "[build-system\n"})
    sources("no-table", "1.0", files={"pyproject.toml": "build-system = 1\n"})
    sources("torn", "1.0")
    torn = index.files["/files/torn-1.0.tar.gz"]
    index.files["/files/torn-1.0.tar.gz"] = torn[:60] + bytes(len(torn) - 60)
    index.pages["torn"][0]["hashes"]["sha256"] = hashlib.sha256(index.files["/files/torn-1.0.tar.gz"]).hexdigest()
    # What comes is not what the page promised: it is not run.
    index.add("swapped", "1.0", files={"swapped/__init__.py": ""})
    file = next(path for path in index.files if path.startswith("/files/swapped-") and path.endswith(".whl"))
    index.add("other", "1.0", files={"swapped/__init__.py": "open('/tmp/ran', 'w')"})
    index.files[file] = index.files[file.replace("swapped", "other")]
    sources("misled", "1.0", requires=["swapped"])
    sources("itself", "1.0", requires=["itself"])
    sources("one", "1.0", requires=["two"])
    sources("two", "1.0", requires=["one"])
    sources("unfit", "1.0", requires=["nowhere>=1"])
    index.add("needs-broken", "1.0", ["middle"])
    index.add("middle", "1.0", ["broken"])
    for name, says in (("broken", "broken 1.0: it cannot be built: "), ("broken", "there is no compiler"), ("silent", "it cannot be built: status 3"),
                       ("not-made", "its build makes no wheel"), ("another", "is what its sources make, which is not a wheel of it"),
                       ("other-version", "which is not a wheel of it"), ("outside", "its build makes no wheel"), ("no-archive", None),
                       ("changed", "is not the file that the index promised"), ("upwards", "leads out of it: ../../up"),
                       ("bare", "neither pyproject.toml nor setup.py"), ("odd", "its pyproject.toml cannot be read"),
                       ("no-table", "its pyproject.toml cannot be read"), ("torn", "torn 1.0: "),
                       ("misled", "is not the file that the index promised"),
                       ("itself", "it is needed to build itself: itself → itself"), ("one", "one → two → one"),
                       ("unfit", "unfit 1.0 is built from sources: nowhere>=1: the index does not have it"),
                       ("needs-broken", "needs-broken → middle → broken 1.0: it cannot be built")):
        answer = install(name, session="fails")
        assert isinstance(answer, str) and (says or "is not the file") in answer, (name, answer)
    assert cell("1 + 1", "fails") == "2\n"


def test_rules_count_for_what_a_build_needs():
    """And for what is built itself: no code of what the policy refuses runs, so the words of its build are not in the answer."""
    sources("ruled", "1.0", requires=["helper"])
    sources("evil", "1.0", "def before():\n    raise SystemExit('its code has run')\n")
    index.add("good", "1.0", ["evil"])
    sources("built-by-evil", "1.0", requires=["evil"])
    for name, rules, says in (("good", {"block": ["evil"]}, "good → evil: the policy does not allow it"),
                              ("built-by-evil", {"block": ["evil"]}, "evil: the policy does not allow it"),
                              ("good", {"allow": ["good"]}, "good → evil: the policy does not allow it"),
                              ("good", {}, "its code has run")):
        b = box_with(source_builds=True, **rules)
        answer = install(name, b=b)
        assert says in answer and ("its code has run" in answer) == (not rules), (name, rules, answer)
        b.stop()
    for rules, says in (({"block": ["helper"]}, "ruled 1.0 is built from sources: helper: the policy does not allow it"),
                        ({"block": ["ruled"]}, "ruled is blocked by the policy"),
                        ({"allow": ["ruled"]}, "helper: the policy does not allow it"),
                        ({"versions": ["helper<1"]}, "the policy allows none of its versions"),
                        ({"allow": ["ruled", "helper", "deeper"]}, None)):
        b = box_with(source_builds=True, **rules)
        answer = install("ruled", b=b)
        assert says in answer if says else names(answer["installed"]) == ["ruled 1.0"], (rules, answer)
        b.stop()


def test_resolvers_that_lie():
    """About what they have built."""
    def lying(text, **packages):
        b = box_with(**packages)
        share = shutil.copytree(os.environ["CODEBOX_SHARE_DIR"], os.path.join(b.dir, "share"))
        with open(os.path.join(share, "runtimes", "python", "resolve.py"), "w") as f:
            f.write("import base64, hashlib, json, os, time\nsum = hashlib.sha256(b'no wheel').hexdigest()\n"
                    "given = os.fdopen(os.dup(0), 'rb')\nbuilds = json.loads(given.readline()).get('builds')\n"
                    "def ask(**what):\n    print(json.dumps({'ask': 1, **what}), flush=True)\n    n = int(given.readline().split()[1])\n"
                    "    return json.loads(given.read(n).split(b'\\n')[0])\ndef piece(data, at=0):\n    return ask(built=sum, at=at, "
                    "data=base64.b64encode(data).decode())\ndef say(url, sum):\n    print(json.dumps({'python': '3.11', 'packages': [{"
                    "'name': 'x', 'version': '1', 'file': 'x-1-py3-none-any.whl', 'url': url, 'sha256': sum, 'size': 8, 'via': []}]}), flush=True)\n"
                    f"def refuse(answer):\n    print(json.dumps({{'refused': json.dumps(answer)}}), flush=True)\n{text}\ntime.sleep(600)\n")
        b.env["CODEBOX_SHARE_DIR"] = share
        answer = install("x", b=b)
        b.stop()
        return answer
    for text, says, *off in (
            ("refuse(piece(b'x'))", "asks for something impossible", True), ("ask(built=sum, at=0)", "asks for something impossible"),
            ("ask(built='x', at=0, data='')", "asks for something impossible"),
            ("piece(b'x' * (5 << 18))", "asks for something impossible"), ("ask(built=sum, at=1 << 40, data='')", "asks for something impossible"),
            ("refuse(ask(built=sum, at=0, data='!'))", "cannot be read"), ("refuse(piece(b'x', 5))", "keep a wheel that was built"),
            ("piece(b'xx')\nrefuse(piece(b'x', 5))", "pieces of a wheel that was built are missing"),
            ("refuse(piece(b'x', 64 << 20))", "larger than 64 MiB"), ("say(builds + sum, sum)", "it was built from its sources, and is not kept"),
            ("say('built:' + 26 * 'x' + '/' + sum, sum)", "and is not kept"), ("piece(b'no wheel')\nsay(builds + sum, 64 * '0')", "is not kept|SHA-256"),
            ("piece(b'no')\npiece(b' wheel', 2)\nsay(builds + sum, sum)", "x-1-py3-none-any.whl"),
            ("say('file:///etc/passwd', sum)", "index leads to")):
        answer = lying(text, source_builds=not off)
        assert isinstance(answer, str) and any(part in answer for part in says.split("|")), (text, answer)


if __name__ == "__main__":
    run(globals())
