#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is shown is run: the commands of README.md, of the manual pages' EXAMPLES, and of each command's --help.

Each is given to a shell as it stands there, in a home of its own that has the files and sessions that they name.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
from cbxtest import CODEBOX, Box, Skip, run  # noqa: E402

TOP = HERE.parent.parent
# They build, need another program or a terminal's user, or go on until they are stopped; other tests have them.
ELSEWHERE = re.compile(r"bootstrap|docker|\bclaude |image (build|import)|systemctl|codeboxd --foreground")
DIFFERS = re.compile(r"policy diff|\| diff")  # status 1: there is a difference, which is what is shown
COMMAND = re.compile(r"(\$ )?((codebox|codeboxd|echo|printf|head|docker|claude|systemctl) .*)")
made = {}


def box():
    if "box" not in made:
        b = Box()
        home = Path(b.dir) / "home"
        data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
        b.env.setdefault("CODEBOX_DATA_DIR", os.path.join(data, "codebox"))
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "CODEBOX_POLICY", "CODEBOX_CONFIG_DIR"):
            b.env.pop(name, None)
        b.env.update(HOME=str(home), PATH=f"{os.path.dirname(os.path.abspath(CODEBOX))}:{b.env['PATH']}")
        for d in ("project", ".config/codebox", ".config/Claude", ".config/Code/User", ".cursor"):
            (home / d).mkdir(parents=True)
        (home / ".cursor/mcp.json").write_text("{}\n")
        policy = re.search(r"    // ~/.config/codebox/policy.json\n((?:    .*\n)+)", (TOP / "README.md").read_text())
        (home / ".config/codebox/policy.json").write_text(policy.group(1).replace("/home/ada", str(home)))
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
    for name in ("work", "scratch"):
        made["box"]("run", "--session", name, "-c", "import os\n"
                    "for d in 'results', 'plots': os.makedirs(d, exist_ok=True)\n"
                    "for f in 'result.csv', 'report.xlsx', '/tmp/log.txt': open(f, 'w').close()", check=True)
    return made["box"]


def check(lines):
    b, failed, n = box(), [], 0
    for line in sorted(lines, key=lambda line: ("session rm" in line) + 2 * ("stop" in line)):
        m = COMMAND.fullmatch(line)
        command = re.split(r"   +|  # ", m.group(2))[0].strip() if m else ""
        if not m or ELSEWHERE.search(command) or ("jq" in command and not shutil.which("jq")):
            continue
        if "--image host" in command and "host" not in b.images():
            continue
        n += 1
        r = subprocess.run(["sh", "-c", command], env=b.env, cwd=b.env["HOME"], capture_output=True, text=True,
                           stdin=subprocess.DEVNULL, timeout=300)
        if r.returncode not in ((1,) if DIFFERS.search(command) else (0,)):
            failed.append(f"{command} -> {r.returncode}\n{r.stdout[-500:]}{r.stderr[-500:]}")
    assert n, "no command was found"
    assert not failed, "\n".join(failed)


def test_readme():
    lines = []
    for line in (TOP / "README.md").read_text().splitlines():
        if line.startswith("$ ") or re.match(r"    (codebox|head) ", line):
            lines.append(line.strip())
    check(lines)


def test_manual_pages():
    lines = []
    for page in sorted((TOP / "man").glob("*.[1-8]")):
        examples = page.read_text().partition("\n.Sh EXAMPLES\n")[2].partition("\n.Sh ")[0]
        lines += [re.sub(r"^\.Dl ", "", line).replace("\\&", "") for line in examples.splitlines()]
    check(lines)


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


if __name__ == "__main__":
    run(globals())
