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
from pathlib import Path

HERE = Path(__file__).resolve().parent
for folder in "lib", "bench", "demo":
    sys.path.insert(0, str(HERE.parent / folder))
import measure  # noqa: E402
import terminal_svg  # noqa: E402
from cbxtest import CODEBOX, Box, Skip, run, wait_until  # noqa: E402

TOP = HERE.parent.parent
# What is not run here, and why. Each must be met with.
ELSEWHERE = {
    r"^\./bootstrap ": "tests/fresh/run runs it",
    r"^docker |\| docker ": "needs Docker, and a container of that name",
    r"^claude ": "needs Claude Code",
    r"^codebox image import mine my.tar": "needs the file of that container; tests/hostile/archives.py imports many",
    r"\| curl .*\$COMMAND": "is one of a sequence; tests/http/rest.py runs all of codebox-rest(7)",
    r"^codebox token revoke k3v6m2qa": "names a token that is not there; tests/http/tenants.py",
    r"^codebox exec -(it|-attach|-kill)|^codebox shell work": "needs a terminal, or a command's number; "
                                                           "tests/integration/commands.py",
    r"^codebox image lock": "wants an index; tests/cli/image_wheels.py has it",
    r"^codebox image build": "is many seconds of work; bootstrap does it, tests/integration/build.py in all ways",
    r"^codebox (image pull|run --image python-3)": "needs a registry; tests/cli/image_pull.py has one",
    r"^codebox run --image ruby ": "needs the image that codebox-runtime(7) adds; tests/runtimes/added.py makes it",
    r"^codebox pip install |import polars": "asks PyPI; tests/integration/install.py has an index",
    r"^codebox token create --tenant ops ": "writes to /etc/prometheus; tests/http/metrics.py",
    r"^codebox audit verify /var/log": "needs that log; tests/http/audit.py",
    r"^codebox sql ": "needs a database; tests/integration/sql.py has three",
    r"^codebox logs -f": "stays until its session ends; tests/integration/logs.py",
    r"^codebox artifact (get|link) ": "names an artifact that is not there; tests/http/artifacts.py",
    r"^systemctl ": "needs systemd's system manager; tests/guest",
    r"^codeboxd --foreground": "runs until it is stopped; the test of HTTP and tests/daemon start it",
    r"^grep Seccomp: ": "finds every codeboxd of the user; tests/daemon/confined.py looks at that line",
}
# Status 1 is what is shown: a difference, or that something is refused inside.
STATUS_1 = re.compile(r"policy diff|\| diff|socket\.socket\(|open\(\"/usr/x\"|-c '1/0'$")
COMMAND = re.compile(r"(\$ |# )?((codebox|codeboxd|echo|printf|head|docker|claude|systemctl|grep|mkdir|\./bootstrap) .*)")
made, met = {}, set()


def box():
    if os.getuid() == 0:  # root's codeboxd has the machine's images and policy, and no mounts
        raise Skip("the ordinary user's run does this")
    if "box" not in made:
        b = Box()
        home = Path(b.dir) / "home"
        data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
        b.env.setdefault("CODEBOX_DATA_DIR", os.path.join(data, "codebox"))
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
        for name in ("analysis.py", "train.py", "load.py", "plot.py"):
            (home / name).write_text("import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})\ndf.plot()\n")
        made["box"] = b
        b.image("python")
        r = b("run", "-c", "1")
        made["why"] = r.stderr.strip() if r.returncode == 3 else None
    if made["why"]:
        raise Skip(f"no cell can run here: {made['why']}")
    for name in ("work", "scratch", "NAME"):
        made["box"]("run", "--session", name, "-c", "import os\n"
                    "for d in 'results', 'plots': os.makedirs(d, exist_ok=True)\n"
                    "for f in 'result.csv', 'report.xlsx', '/tmp/log.txt': open(f, 'w').close()", check=True)
    return made["box"]


def tenants():
    """The example of codebox-tenants(5)."""
    text = plain(TOP / "man" / "codebox-tenants.5")
    return re.search(r"^\.Bd -literal[^\n]*\n(\{ \"tenants.*?)\n\.Ed$", text, re.M | re.S).group(1)


def elsewhere(command):
    for pattern in ELSEWHERE:
        if re.search(pattern, command):
            met.add(pattern)
            return True
    return "jq" in command and not shutil.which("jq")


def check(lines):
    b, failed, n = box(), [], 0
    for line in sorted(lines, key=lambda line: ("session rm" in line) + 2 * ("stop" in line)):
        m = COMMAND.fullmatch(line)
        command = re.split(r"   +|  # ", m.group(2))[0].strip() if m else ""
        if not m or elsewhere(command):
            continue
        if "--image host" in command and "host" not in b.images():
            continue
        if os.geteuid() == 0 and "--folder" in command:
            continue  # root's codeboxd has the machine's policy: refused, which tests/cli/register.py looks at
        n += 1
        r = subprocess.run(["sh", "-c", command], env=b.env, cwd=b.env["HOME"], capture_output=True, text=True,
                           stdin=subprocess.DEVNULL, timeout=300)
        if r.returncode != (1 if STATUS_1.search(command) else 0):
            failed.append(f"{command} -> {r.returncode}\n{r.stdout[-500:]}{r.stderr[-500:]}")
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


def test_readme():
    lines = []
    for line in (TOP / "README.md").read_text().splitlines():
        if line.startswith("$ ") or re.match(r"    (codebox|mkdir|claude) ", line):
            lines.append(line.strip())
    check(lines)


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


def ask(port, headers):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
    c.request("POST", "/mcp", json.dumps(body), {"Content-Type": "application/json",
                                                 "Accept": "application/json, text/event-stream", **headers})
    return c.getresponse().status


def test_manual_pages():
    lines = []
    for page in sorted((TOP / "man").glob("*.[1-8]")):
        text = plain(page)
        lines += re.findall(r"^\.Dl ((?:\$|#) .*)$", text, re.M)
        lines += text.partition("\n.Sh EXAMPLES\n")[2].partition("\n.Sh ")[0].splitlines()
    check(lines)


def test_policies():
    """Those of README.md and codebox-policy(5), as they stand there."""
    b = box()
    shown = ["\n".join(line for line in block("### What sessions may have", "A request gets") if line[:7] != "codebox")]
    page = plain(TOP / "man" / "codebox-policy.5")
    shown += re.findall(r"^\.Bd -literal[^\n]*\n(\{\n.*?\n\})\n\.Ed$", page, re.M | re.S)
    members = re.findall(r'^\.Dl ("[a-z]+": .*)$', page, re.M)
    shown += ['{"limits": {%s}}' % member for member in members]
    assert len(shown) >= 4 and len(members) >= 2, shown
    for text in shown:
        name = os.path.join(b.dir, "shown.json")
        Path(name).write_text(text)
        r = b("policy", "check", name)
        assert r.returncode == 0, (text, r.stdout, r.stderr)
    for policy in sorted((TOP / "policies").glob("*.json")):
        if "schema" not in policy.name:
            b("policy", "check", str(policy), check=True)


def test_help():
    b, lines = box(), []
    names = re.findall(r"^  ([a-z]+)  ", b("--help", check=True).stdout.partition("Commands:")[2], re.M)
    assert len(names) >= 10 and names[-1] == "stop", names
    for name in ["", *names]:
        text = b(*[name] if name else [], "--help", check=True).stdout
        assert "Usage: codebox" in text, (name, text)
        assert "\nExamples:\n" in text, name
        lines += [line.strip() for line in text.partition("\nExamples:\n")[2].splitlines()]
    check(lines)

    assert b("help", "--help", check=True).stdout == b("--help").stdout
    assert met == set(ELSEWHERE), f"nobody shows {set(ELSEWHERE) - met}"


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
        r = b("run", "--timeout", "2", "-c", code)
        assert r.returncode and not re.search("kept|next cell|goes on", r.stderr), r
        r = b.json("run", "--json", "--timeout", "2", "-c", code)
        assert r["state_kept"] is False and not re.search("kept|next cell|goes on", r["message"]), r
    r = b("run", "--session", "work", "--timeout", "2", "-c", "while True: pass")
    assert "Variables and files are kept" in r.stderr, r


if __name__ == "__main__":
    run(globals())
