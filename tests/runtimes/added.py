#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A language that codebox does not come with: the example of codebox-runtime(7), Ruby of Debian, with its recipe, manifest
and driver. It is built and run."""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, CODEBOX, Skip, run  # noqa: E402
from control import Control  # noqa: E402
from store import data_dir  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE = os.path.join(HERE, "ruby")
SHARE = os.environ.get("CODEBOX_SHARE_DIR") or os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(CODEBOX))),
                                                            "share", "codebox")
made = []


def new_box():
    """With a runtime more than codebox has, and an own store."""
    b = Box(LC_ALL="C.UTF-8")
    share = os.path.join(b.dir, "share")
    shutil.copytree(SHARE, share)
    target = os.path.join(share, "runtimes", "ruby")
    os.mkdir(target)
    for name in "runtime.json", "driver.rb":
        shutil.copy(os.path.join(EXAMPLE, name), target)
    cache = os.path.join(data_dir(), "cache")
    b.env.update(CODEBOX_SHARE_DIR=share, CODEBOX_DATA_DIR=os.path.join(b.dir, "data"))
    os.mkdir(b.env["CODEBOX_DATA_DIR"], 0o700)
    if os.path.isdir(cache):  # what the image python has fetched already
        subprocess.run(["cp", "-a", cache, b.env["CODEBOX_DATA_DIR"]], check=True)
    return b


def box():
    if not made:
        if not shutil.which("apt-get"):
            raise Skip("there is no apt-get to build the image with")
        b = new_box()
        r = b("image", "build", os.path.join(EXAMPLE, "recipe.json"))
        if r.returncode and "apt-get" in r.stderr:
            raise Skip("apt-get cannot fetch packages: " + r.stderr.strip().splitlines()[-1][:200])
        assert r.returncode == 0, r.stderr
        made.append(b)
    return made[0]


def session():
    b = box()
    if "r" not in b.sessions():
        b("run", "--image", "ruby", "--session", "r", "-c", "nil", check=True)
    return b


def cell(code, *options, **kw):
    return session()("run", "--session", "r", *options, "-c", code, **kw)


def shown(code):
    return cell(code, check=True).stdout


def test_the_manual_page_shows_it():
    with open(os.path.join(HERE, "..", "..", "man", "codebox-runtime.7")) as f:
        page = f.read().replace("\\&", "").replace("\\e", "\\")
    for name, skipped in (("recipe.json", 0), ("runtime.json", 0), ("driver.rb", 2)):
        with open(os.path.join(EXAMPLE, name)) as f:
            text = "".join(f.readlines()[skipped:]).replace("\t", "    ")
        assert text in page, f"{name} is not as the page has it"


def test_cells_share_their_state():
    assert shown("x = 6; def twice(n) = 2 * n; class Box; attr_accessor :v; end; puts 'made'") == "made\n"
    assert shown("twice(x) + 30") == "42\n"
    assert shown("b = Box.new; b.v = [1, 'two', nil, {a: 1}]") == '[1, "two", nil, {:a=>1}]\n'
    assert shown("nil") == "" and shown("x;") == "" and shown("b.v.first") == "1\n"
    info = session().json("session", "info", "--json", "r")
    assert info["languages"] == ["ruby", "bash"] and info["interpreter"]["language"] == "ruby", info


def test_errors_name_the_cell_and_not_the_driver():
    r = cell("def f = raise(ArgumentError, 'no reason')\nf")
    assert r.returncode == 1 and "no reason (ArgumentError)" in r.stderr, r
    assert ":1:in `f'" in r.stderr and ":2:in `<main>'" in r.stderr and "driver.rb" not in r.stderr, r.stderr
    for code, says in (("1 +", "syntax error"), ("no_such", "undefined local variable"), ("throw :x", "uncaught throw"),
                       ("raise Exception, \"\\xff\"", "(Exception)"), ("BasicObject.new", "NoMethodError")):
        r = cell(code)
        assert r.returncode == 1 and says in r.stderr and "driver.rb" not in r.stderr, (code, r.stderr)
    assert cell("exit 3").returncode == 3 and cell("abort 'bye'").returncode == 1
    assert shown("x") == "6\n"


def test_an_interrupt_keeps_the_state():
    for code in "loop {}", "sleep", "begin; loop {}; ensure; $tidied = 1; end", "Thread.new { sleep }.join":
        r = cell(code, "--timeout", "500ms")
        assert r.returncode == 124, (code, r)
        assert shown("x") == "6\n", code
    assert shown("$tidied") == "1\n"


def test_output_input_and_children():
    r = cell("puts 'out'; warn 'err'; system('echo child'); fork { puts 'fork' }; Process.wait; nil")
    assert (r.stdout, r.stderr) == ("out\nchild\nfork\n", "err\n"), r
    assert cell("fork.nil? ? 0 : (Process.wait; 1)").stdout == "1\n"  # what comes back from a fork ends
    # Each cell has its own input, whatever the one before has left.
    for code, given, want in (("gets", "one\ntwo\n", '"one\\n"'), ("gets", "three\n", '"three\\n"'), ("$stdin.read", "", '""'),
                              ("[gets, gets]", "four", '["four", nil]'), ("`cat`", "five", '"five"')):
        assert cell(code, input=given).stdout == want + "\n", code
    assert cell("%%bash\necho $((40 + 2))").stdout == "42\n"


def test_a_program():
    b = session()
    path = os.path.join(b.dir, "hello.rb")
    with open(path, "w") as f:
        f.write("puts ARGV.inspect, __FILE__ == $0\n6 * 7\nexit 5\n")
    for options in [], ["--image", "ruby"]:  # the image that has Ruby is found
        r = b("run", *options, path, "one", "two words")
        assert (r.returncode, r.stdout) == (5, '["one", "two words"]\ntrue\n'), r


def test_a_value_may_bring_html():
    session()
    with Control(box()) as c:
        x = c.call("run", session_id="r", code="class Page; def to_html = '<b>bold</b>'; def inspect = 'bold'; end; Page.new")
    assert x["result"] == "bold" and [d["mime"] for d in x["displays"]] == ["text/plain", "text/html"], x


def test_completion_and_what_is_complete():
    session()
    with Control(box()) as c:
        for code, status in (("def f", "incomplete"), ("[1,", "incomplete"), ("1 + 1", "complete"), ("1 1", "invalid")):
            assert c.call("is_complete", session_id="r", code=code)["status"] == status, code
        for code, match in (("twi", "twice"), ("x.tim", "times"), ("Math.sq", "sqrt"), ("Enumer", "Enumerable")):
            m = c.call("complete", session_id="r", code=code, cursor=len(code))
            assert match in m["matches"] and code[m["start"]:] in match, (code, m)


def test_a_manifest_that_is_not_valid():
    b = new_box()
    path = os.path.join(b.env["CODEBOX_SHARE_DIR"], "runtimes", "ruby", "runtime.json")
    with open(path, "a") as f:
        f.write('{"more": 1}')
    assert b("run", "-c", "1").returncode == 3
    with open(path, "w") as f:
        f.write('{"language": "ruby", "driver": "../driver.rb"}')
    r = b("run", "-c", "1")
    assert r.returncode == 3 and "runtime.json" in r.stderr and "driver" in r.stderr, r


run(globals())
