#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is shown is run: the commands of README.md, of the manual pages, and of each command's --help; their policies too.

Each is given to a shell as it stands there, in a home of its own that has the files and sessions that they name.
"""
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parent
for folder in "lib", "bench", "demo":
    sys.path.insert(0, str(HERE.parent / folder))
import measure  # noqa: E402
import terminal_svg  # noqa: E402
from cbxtest import CODEBOX, Box, Skip, run, wait_until  # noqa: E402
from store import data_dir  # noqa: E402
from terminal import Terminal  # noqa: E402

TOP = HERE.parent.parent
# What is not run here, and why. Each must be met with.
ELSEWHERE = {
    r"^\./bootstrap ": "tests/fresh/run runs it",
    r"^docker |\| docker ": "needs Docker, and a container of that name",
    r"^codebox image import mine my.tar": "needs the file of that container; tests/hostile/archives.py imports many",
    r"^claude ": "needs Claude Code",
    r"^jupyter nbconvert ": "needs Jupyter; tests/cli/kernel.py has it",
    r"^codebox token revoke k3v6m2qa": "names a token that is not there; tests/http/tenants.py",
    r"^codebox (exec --attach|logs -f)": "stays until the command, or session, ends; tests/integration/commands.py, "
                                              "tests/integration/logs.py",
    r"^codebox image (build|lock)": "is many seconds of work, or wants an index; tests/integration/build.py, "
                                    "tests/cli/image_wheels.py",
    r"^codebox (image pull|run --image python-3)": "needs a registry; tests/cli/image_pull.py has one",
    r"^codebox (conda install|run --session geo -c 'from)": "needs a channel of conda; tests/integration/conda.py has one",
    r"^codebox run --image (ruby|frames|tools) ": "needs an image that is built there; tests/runtimes/added.py, "
                                                  "tests/cli/saved.py, test_recipes()",
    r"^codebox token create --tenant ops ": "writes to /etc/prometheus; tests/http/metrics.py",
    r"^codebox audit verify /var/log": "needs that log; tests/http/audit.py",
    r"^codebox sql ": "needs a database; tests/integration/sql.py has three",
    r"^codebox artifact (get|link) ": "names an artifact that is not there; tests/http/artifacts.py",
    r"^(systemctl|install) ": "is for root, and systemd's system manager; tests/guest",
    r"^codeboxd --(foreground|http)": "runs until it is stopped; the tests of HTTP below, and tests/daemon, start it",
    r"^curl .*/sessions$": "asks that server; the test of tenants below does it",
    r"^(make|git|apt-get) ": "is minutes to hours of measuring; .ci/run has the shortest of each",
}
# Blocks of other text, by how they begin, and what looks at them.
TEXTS = {
    r"codebox-server\.7: ": "tests/guest/server.py runs all of it, on a machine of its own",
    r"codebox-rest\.7: ": "tests/http/rest.py runs all of it, and compares the answers",
    r"codebox-policy\.5: (\{|\"memory\": )": "test_policies()",
    r"codebox-policy\.5: \"default\": ": "tests/http/exec_sql.py has such a connection",
    r"README\.md: // ~/\.config/codebox/policy\.json": "test_policies(), and the policy that is in force here",
    r"README\.md: MCP client ─": "a drawing",
    r"codebox-tenants\.5: \{ \"tenants\": ": "the tenants that are in force here",
    r"codebox-tenants\.5: \{ \"jwt\": ": "tests/http/jwts.py tries the file that it is from",
    r"codebox-recipe\.5: \{ \"name\": ": "test_recipes()",
    r"codebox-syscalls\.5: # What a program ": "tests/unit/filter.py compiles it, and compares what it allows",
    r"codebox-runtime\.7: (require|\{ \"(language|name)\": )": "tests/runtimes/added.py compares the text, and runs it",
    r"codebox-runtime\.7: (\.Dl )?(program |\{\"(ev|op)\":)": "frames; tests/driver/protocol.py",
    r"codebox-audit\.7: /var/log/codebox-audit/audit\.log \{": "logrotate's; tests/http/audit.py has the log reopened",
    r"codebox-metrics\.7: histogram_quantile": "Prometheus's; tests/http/metrics.py knows the names",
    r"codeboxd\.8: add server nodes/d": "HAProxy's; tests/http/nodes.py adds a server so",
}
# Status 1 is what is shown: a difference, or that something is refused inside.
STATUS_1 = re.compile(r"policy diff|\| diff|socket\.socket\(|open\(\"/usr/x\"|-c '1/0'$")
TERMINAL = re.compile(r"codebox (exec -it|shell)( |$)")
made, met = {}, set()


def box():
    if os.getuid() == 0:  # root's codeboxd has the machine's images and policy, and no mounts
        raise Skip("the ordinary user's run does this")
    if "box" not in made:
        b = Box()
        home = Path(b.dir) / "home"
        b.env["CODEBOX_DATA_DIR"] = data_dir()
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "CODEBOX_POLICY", "CODEBOX_CONFIG_DIR"):
            b.env.pop(name, None)
        b.env.update(HOME=str(home), PATH=f"{os.path.dirname(os.path.abspath(CODEBOX))}:{b.env['PATH']}")
        for d in ("project", "notes", "work", ".config/codebox", ".config/Claude", ".config/Code/User", ".cursor"):
            (home / d).mkdir(parents=True)
        (home / ".cursor/mcp.json").write_text("{}\n")
        policy = "\n".join(line for line in block("### What sessions may have", "A request gets")
                           if line[:7] != "codebox")
        (home / ".config/codebox/policy.json").write_text(policy.replace("/home/ada", str(home)))
        (home / ".config/codebox/tenants.json").write_text(tenants())
        for name in ("penguins.csv", "sales.csv"):
            (home / name).write_text("a,b\n1,2\n3,4\n")
        (home / "requirements.txt").write_text("rich\n")
        for name in ("analysis.py", "train.py", "load.py", "plot.py"):
            (home / name).write_text("import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})\ndf.plot()\n")
        made["box"] = b
        b.image("python")
        r = b("run", "-c", "1")
        made["why"] = r.stderr.strip() if r.returncode == 3 else None
    if made["why"]:
        raise Skip(f"no cell can run here: {made['why']}")
    return made["box"]


def sessions():
    """Those that the examples name, with files."""
    for name in ("work", "scratch", "NAME"):
        box()("run", "--session", name, "-c", "import os\n"
              "for d in 'results', 'plots': os.makedirs(d, exist_ok=True)\n"
              "for f in 'result.csv', 'report.xlsx', '/tmp/log.txt': open(f, 'w').close()", check=True)


def tenants():
    """The example of codebox-tenants(5)."""
    text = plain(TOP / "man" / "codebox-tenants.5")
    return re.search(r"^\.Bd -literal[^\n]*\n(\{ \"tenants.*?)\n\.Ed$", text, re.M | re.S).group(1)


def known(table, text):
    """Whether a table has it."""
    found = [pattern for pattern in table if re.match(pattern if table is TEXTS else f".*(?:{pattern})", text)]
    met.update(found)
    return bool(found)


def commands(where, lines):
    """What a block shows to type: behind prompts, with what continues them; without prompts, each line."""
    prompts = any(re.match(r"[$#] ", line) for line in lines)
    shown = []
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        if re.match(r"[$#] ", line):
            shown.append(line[2:])
        elif not prompts and line.strip():
            shown.append(line)
        elif line.strip():  # what a command prints, which would be compared nowhere
            assert shown and known(ELSEWHERE, shown[-1]), f"{where}: {line}"
    return shown


def check(blocks):
    """Each block (where it is, and its lines) is typed into one shell, but for what the tables name."""
    b, failed, n = box(), [], 0
    status = Path(b.dir) / "status"
    blocks = [(where, commands(where, lines)) for where, lines in blocks
              if not known(TEXTS, f"{where}: {' '.join(' '.join(lines).split())}")]
    sessions()

    def late(block):  # what others need is ended, or changed
        return [word in str(block) for word in ("stop", "pip install", "session rm")]
    for where, block in sorted(blocks, key=late):
        if any(late(block)):
            sessions()
        block = [command for command in block if not known(ELSEWHERE, command)]
        n += len(block)
        typed = [command for command in block if not TERMINAL.match(command)]
        for command in set(block) - set(typed):
            t = Terminal(["sh", "-c", command], b.env, b.env["HOME"])
            t.see(b"$ ")
            t.type("exit\r")
            if t.end() != 0:
                failed.append(f"{where}: {command} -> {t.got[-500:]}")
        script = "".join(f"{command}\necho $? >>'{status}'\n" for command in typed)
        status.write_text("")
        r = subprocess.run(["sh", "-c", script], env=b.env, cwd=b.env["HOME"], capture_output=True, text=True,
                           stdin=subprocess.DEVNULL, timeout=300)
        ends = [int(line) for line in status.read_text().split()]
        wanted = [1 if STATUS_1.search(command) else 0 for command in typed]
        if ends != wanted:
            failed.append(f"{where}: {list(zip(typed, ends))}\n{r.stdout[-500:]}{r.stderr[-1000:]}")
    assert n, "no command was found"
    assert not failed, "\n".join(failed)


def block(begin, end):
    """The indented lines of README.md after one text and before another."""
    text = (TOP / "README.md").read_text().partition(begin)[2].partition(end)[0]
    return [line[4:] for line in text.splitlines() if line.startswith("    ")]


def plain(page):
    """A manual page's text without mdoc's escapes."""
    text = page.read_text()
    for escape, char in (("\\(aq", "'"), ("\\(dq", '"'), ("\\&", ""), ("\\-", "-"), ("\\e", "\\")):
        text = text.replace(escape, char)
    return text


def readme(page):
    """Its fenced and its indented blocks."""
    found = re.findall(r"^```(?:console)?\n(.*?)^```$|((?:^    [^\n]*\n)+)", page.read_text(), re.M | re.S)
    return [(page.name, textwrap.dedent(fenced or indented).splitlines()) for fenced, indented in found]


def test_readme():
    check(readme(TOP / "README.md") + readme(TOP / "tests" / "bench" / "README.md"))


def test_readme_pictures():
    """The chart and the page of figures are made from the results beside them; the terminal shows what it shows today."""
    bench = TOP / "tests" / "bench"
    for name, text in measure.pages(json.loads((bench / "results.json").read_text())).items():
        assert (bench / name).read_text() == text, f"{name}: out of date; run tests/bench/bench.py --from results.json"
    picture = TOP / "tests" / "demo" / "terminal.svg"
    for image in re.findall(r"!\[[^]]+\]\(([^)]+)\)", (TOP / "README.md").read_text()):
        assert (TOP / image) in (picture, bench / "bench.svg"), image
    b = box()
    directory = os.path.join(b.dir, "picture")
    os.mkdir(directory)
    again = terminal_svg.svg(terminal_svg.session(dict(b.env, LC_ALL="C.UTF-8"), directory))
    shown, now = (re.findall(r"<text [^>]*>([^<]*)</text>", text) for text in (picture.read_text(), again))

    def lasting(rows):
        """Without what another Python, matplotlib or codebox may write: marks below a line, a size, a version."""
        return [re.sub(r"[0-9.]+ KiB|^codebox\s[0-9.]+", "...", row) for row in rows if not re.fullmatch(r"[~^]+", row)]
    assert lasting(shown) == lasting(now), f"{picture.name}: out of date; run tests/demo/terminal_svg.py\n{now}"


def test_readme_over_http():
    """The lines as they stand there, beside a daemon that runs; only the port is another where somebody has that."""
    b = box()
    lines = block("### Over HTTP", "Without a token")
    assert [line.split()[0] for line in lines] == ["mkdir", "codebox", "codeboxd", "claude"], lines
    port = 8080
    with socket.socket() as s:
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
    env = dict(b.env, HOME=os.path.join(b.dir, "new home"))
    env["PATH"] = f"{os.path.dirname(os.environ.get('CODEBOX_DAEMON', 'codeboxd'))}:{env['PATH']}"
    os.mkdir(env["HOME"])
    for line in lines[:2]:
        subprocess.run(["sh", "-c", line], env=env, check=True, cwd=env["HOME"], stdin=subprocess.DEVNULL)
    server = subprocess.Popen(["sh", "-c", "exec " + lines[2].replace("8080", str(port))], env=env, cwd=env["HOME"],
                              stdin=subprocess.DEVNULL)
    try:
        def up():
            with socket.socket() as s:
                return server.poll() is not None or s.connect_ex(("127.0.0.1", port)) == 0
        assert wait_until(up) and server.poll() is None, server.poll()
        shown = re.search(r'--header "([^:]+): ([^"]+)"$', lines[3])
        name, value = shown.group(1), subprocess.run(["sh", "-c", f'printf %s "{shown.group(2)}"'], env=env, text=True,
                                                     capture_output=True, check=True).stdout
        assert [ask(port, {}), ask(port, {name: value})] == [401, 200]
    finally:
        server.terminate()
        server.wait(60)
    token = Path(env["HOME"]) / ".config/codebox/token"
    assert token.stat().st_mode & 0o77 == 0, "others can read the token"


def test_a_tenants_token():
    """The lines of codebox-tenants(5), with a codeboxd that has its example; only the port may be another."""
    b = box()
    page = plain(TOP / "man" / "codebox-tenants.5")
    make, request = re.search(r"^# (codebox token .*)\n\$ (curl .*)$", page, re.M).groups()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    env = dict(b.env, CODEBOX_RUNTIME_DIR=os.path.join(b.dir, "tenants"),
               CODEBOX_STATE_DIR=os.path.join(b.dir, "tenants' state"))
    program = os.environ.get("CODEBOX_DAEMON", "codeboxd")
    server = subprocess.Popen([program, "--foreground", "--http", f"127.0.0.1:{port}"], env=env, text=True,
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        while "serves HTTP" not in (line := server.stderr.readline()):
            assert line, server.wait()
        r = subprocess.run(["sh", "-c", make], env=env, capture_output=True, check=True, text=True)
        env["TOKEN"] = r.stdout.strip()
        r = subprocess.run(["sh", "-c", request.replace("8080", str(port))], env=env, capture_output=True, text=True)
        assert r.returncode == 0 and json.loads(r.stdout) == {"sessions": []}, r
    finally:
        server.terminate()
        server.communicate(timeout=60)


def ask(port, headers):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
    c.request("POST", "/mcp", json.dumps(body), {"Content-Type": "application/json",
                                                 "Accept": "application/json, text/event-stream", **headers})
    return c.getresponse().status


def test_manual_pages():
    blocks = []
    for page in sorted((TOP / "man").glob("*.[1-8]*")):
        found = re.findall(r"^\.Bd [^\n]*\n(.*?)^\.Ed$|((?:^\.Dl [^\n]*\n)+)", plain(page), re.M | re.S)
        blocks += [(page.name, (bd or re.sub(r"(?m)^\.Dl ", "", dl)).splitlines()) for bd, dl in found]
    check(blocks)


def test_policies():
    """Those of README.md and codebox-policy(5), as they stand there."""
    b = box()
    shown = ["\n".join(line for line in block("### What sessions may have", "A request gets") if line[:7] != "codebox")]
    page = plain(TOP / "man" / "codebox-policy.5")
    shown += re.findall(r"^\.Bd -literal[^\n]*\n(\{.*?)\n\.Ed$", page, re.M | re.S)
    members = re.findall(r'^\.Dl ("[a-z]+": .*)$', page, re.M)
    shown += ['{"limits": {%s}}' % member for member in members]
    shown += ['{"sql": {"connections": {%s}}}' % m for m in
              re.findall(r'^\.Bd -literal[^\n]*\n("default": .*?)\n\.Ed$', page, re.M | re.S)]
    assert len(shown) >= 4 and len(members) >= 2, shown
    for text in shown:
        name = os.path.join(b.dir, "shown.json")
        Path(name).write_text(text)
        r = b("policy", "check", name)
        assert r.returncode == 0, (text, r.stdout, r.stderr)
    for policy in sorted((TOP / "policies").glob("*.json")):
        if "schema" not in policy.name:
            b("policy", "check", str(policy), check=True)


def test_recipes():
    """Those of codebox-recipe(5) are recipes, the first of them of an image that runs; a lock has the members that it names."""
    b = box()
    text = plain(TOP / "man" / "codebox-recipe.5")
    shown = [json.loads(t) for t in re.findall(r"^\.Bd -literal[^\n]*\n(\{\n.*?\n\})\n\.Ed$", text, re.M | re.S)]
    assert [r["kind"] for r in shown] == ["host", "debian"], shown
    store = dict(b.env, CODEBOX_DATA_DIR=os.path.join(b.dir, "images of recipes"), CODEBOX_RUNTIME_DIR=os.path.join(b.dir, "r"))
    for recipe in shown:
        Path(b.dir, recipe["name"] + ".json").write_text(json.dumps(recipe))
    tools, command = re.findall(r"^codebox (image build \./tools\.json|run --image tools .*)$", text, re.M)
    try:
        for line in tools, command:
            r = subprocess.run(["sh", "-c", f"codebox {line}"], env=store, cwd=b.dir, capture_output=True, text=True,
                               stdin=subprocess.DEVNULL, timeout=300)
            assert r.returncode == 0, (line, r)
        assert r.stdout.startswith(shown[0]["files"]["etc/gitconfig"]), r.stdout
        # The other is read, as far as its lock, which nobody has made.
        r = subprocess.run([CODEBOX, "image", "build", "./geo.json"], env=store, cwd=b.dir, capture_output=True, text=True)
        assert r.returncode == 1 and "geo.lock" in r.stderr, r
    finally:
        subprocess.run([CODEBOX, "stop", "--force"], env=store, capture_output=True)
    lock = json.loads((TOP / "rootfs/python-science.lock").read_text())
    locks = text.partition(".Ss Locks\n")[2].partition("\n.Sh ")[0]
    for member in {*lock, *(k for w in lock["wheels"] for k in w)}:
        assert re.search(rf"^\.(It )?Li {member}\b", locks, re.M), member


def test_help():
    b, blocks = box(), []
    names = re.findall(r"^  ([a-z]+)  ", b("--help", check=True).stdout.partition("Commands:")[2], re.M)
    assert len(names) >= 10 and names[-1] == "stop", names
    for name in ["", *names]:
        text = b(*[name] if name else [], "--help", check=True).stdout
        assert "Usage: codebox" in text, (name, text)
        assert "\nExamples:\n" in text, name
        lines = text.partition("\nExamples:\n")[2].partition("\n\n")[0].splitlines()
        blocks.append((f"{name} --help", [re.split(r"   +", line.strip())[0] for line in lines]))
    check(blocks)

    assert b("help", "--help", check=True).stdout == b("--help").stdout
    assert met == {*ELSEWHERE, *TEXTS}, f"nobody shows {({*ELSEWHERE, *TEXTS}) - met}"


def test_a_client_that_is_not_there_yet():
    """register --dry-run shows the file as it would be, also before a client has been used."""
    b = box()
    r = subprocess.run([CODEBOX, "register", "--dry-run", "cursor"], env=dict(b.env, HOME=b.dir), capture_output=True,
                       text=True, stdin=subprocess.DEVNULL)
    assert r.returncode == 0 and json.loads(r.stdout)["mcpServers"]["codebox"]["args"] == ["mcp"], r
    assert not os.path.exists(os.path.join(b.dir, ".cursor"))


def test_errors_with_json_are_json():
    b = box()
    b("stop")
    for status, kind, args in (
            (1, "session_not_found", ("session", "info", "--json", "nobody")),
            (2, "usage", ("session", "info", "--json")),
            (1, "invalid_argument", ("policy", "show", "--json", "nothing")),
            (1, None, ("policy", "show", "--json", "/nonexistent.json")),
            (2, "usage", ("policy", "explain", "--json", "memory=1X")),
            (2, None, ("run", "--json", "nofile.py")),
            (2, "usage", ("run", "--json", "--nonsense")),
            (2, "usage", ("run", "--json", "--session", "a/b", "-c", "1")),
            (None, "image_not_found", ("run", "--json", "--image", "nothing", "-c", "1")),
            (1, "session_not_found", ("session", "info", "--json", "nobody"))):
        r = b(*args)
        lines = r.stdout.splitlines()
        assert len(lines) == 1 and r.stderr, (args, r)
        error = json.loads(lines[0])["error"]
        assert set(error) == {"kind", "message"} and error["message"] in r.stderr, (args, r)
        assert kind in (None, error["kind"]) and status in (None, r.returncode), (args, r)


def test_one_run_keeps_nothing_and_says_so():
    b = box()
    for code in "while True: pass", "import os; os._exit(3)", "import sys; sys.exit(3)":
        r = b("run", "--timeout", "500ms", "-c", code)
        assert r.returncode and not re.search("kept|next cell|goes on", r.stderr), r
        r = b.json("run", "--json", "--timeout", "500ms", "-c", code)
        assert r["state_kept"] is False and not re.search("kept|next cell|goes on", r["message"]), r
    r = b("run", "--session", "work", "--timeout", "500ms", "-c", "while True: pass")
    assert "Variables and files are kept" in r.stderr, r


if __name__ == "__main__":
    run(globals())
