#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Completions, in the real shells; and their one description beside what --help says."""
import os
import re
import shutil
import subprocess
import sys

from common_cli import Box, CODEBOX, HERE, Skip, WAIT, contains, run, same

sys.path.insert(0, os.path.join(HERE, "../lib"))
from terminal import Terminal  # noqa: E402

SHARE = os.path.join(os.path.dirname(CODEBOX), "../share")
BASH = os.path.join(SHARE, "bash-completion/completions/codebox")
ZSH = os.path.join(SHARE, "zsh/site-functions/_codebox")
FISH = os.path.join(SHARE, "fish/vendor_completions.d/codebox.fish")


def need(shell):
    if not shutil.which(shell):
        raise Skip(f"there is no {shell}")


def with_path(box):
    # Where the machine is slow a name may take longer than a shell's user waits for it.
    os.makedirs(box.path("bin"), exist_ok=True)
    with open(box.path("bin/timeout"), "w") as f:
        f.write('#!/bin/sh\nshift\nexec "$@"\n')
    os.chmod(box.path("bin/timeout"), 0o755)
    return dict(box.env, PATH=box.path("bin") + ":" + os.path.dirname(CODEBOX) + ":" + os.environ["PATH"], HOME=box.dir)


def bash(box, *words):
    """What bash offers for the last of the words."""
    need("bash")
    r = subprocess.run(["bash", "--norc", "-c", 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _codebox; '
                        'printf "%s\\n" "${COMPREPLY[@]}"', BASH, CODEBOX, *words],
                       env=with_path(box), capture_output=True, text=True, timeout=WAIT, cwd=box.dir)
    same(r.stderr, "")
    return r.stdout.split()


def fish(box, line):
    need("fish")
    r = subprocess.run(["fish", "--no-config", "-c", f'source "{FISH}"; complete -C "$argv"', line], env=with_path(box),
                       capture_output=True, text=True, timeout=WAIT, cwd=box.dir)
    same(r.stderr, "")
    return [offer.split("\t")[0] for offer in r.stdout.splitlines()]


def test_bash():
    box = Box()
    same(bash(box, "se"), ["session"])
    contains(bash(box, ""), "run")
    same(bash(box, "run", "--ti"), ["--timeout"])
    same(bash(box, "run", "fa"), ["fake"])
    same(bash(box, "session", "i"), ["info"])
    same(bash(box, "session", "rm", ""), [])
    same(box.starts(), [])  # completing starts nothing
    box.ok("run", "--session", "alpha", "-c", "")
    box.ok("run", "--session", "beta", "-c", "")
    same(bash(box, "session", "rm", ""), ["alpha", "beta"])
    same(bash(box, "run", "--session", "b"), ["beta"])
    same(bash(box, "cp", "al"), ["alpha:"])
    with open(box.path("mine.tar"), "w"):
        pass
    same(bash(box, "image", "im"), ["import"])
    same(bash(box, "image", "import", "mine", "mi"), ["mine.tar"])
    same(bash(box, "image", "build", "mi"), ["mine.tar"])
    same(bash(box, "image", "build", "python-"), ["python-science", "python-debian", "python-minimal"])
    same(bash(box, "image", "build", "--a"), ["--as"])
    same(bash(box, "policy", "explain", "--policy", "str"), ["strict"])
    same(bash(box, "register", "")[:4], ["claude-desktop", "claude-code", "vscode", "cursor"])


def test_fish():
    box = Box()
    same(fish(box, "codebox se"), ["session"])
    same(fish(box, "codebox run --ti"), ["--timeout"])
    same(fish(box, "codebox session i"), ["info"])
    same(fish(box, "codebox session rm "), [])
    same(box.starts(), [])
    box.ok("run", "--session", "alpha", "-c", "")
    same(fish(box, "codebox session rm "), ["alpha"])
    same(fish(box, "codebox run --session "), ["alpha"])
    contains(fish(box, "codebox cp al"), "alpha:")
    contains(fish(box, "codebox image build py"), "python-minimal")
    same(fish(box, "codebox policy explain --policy str"), ["strict"])


def test_zsh():
    need("zsh")
    box = Box()
    box.ok("run", "--session", "alpha", "-c", "")
    with open(box.path(".zshrc"), "w") as f:
        f.write(f"fpath=({os.path.dirname(ZSH)} $fpath)\nautoload -Uz compinit\ncompinit -u\nPROMPT='READY '\n"
                "unsetopt zle_bracketed_paste\nbindkey -e\n")
    shell = Terminal(["zsh", "-i"], dict(with_path(box), ZDOTDIR=box.dir), box.dir)
    for typed, added in (("codebox ses", b"sion"), ("codebox run --tim", b"eout"), ("codebox image im", b"port"),
                         ("codebox session info al", b"pha"), ("codebox run --session al", b"pha")):
        shell.see(b"READY ")
        shell.type(typed + "\t")
        shell.see(added)
        shell.type("\x15\r")
    shell.type("exit\r")
    shell.end()


def described():
    """The options of each command, and its verbs, as the shells know them: from bash's table."""
    with open(BASH, encoding="utf-8") as f:
        places = [p.split() for p in re.findall(r'^\t\["([^"]+)"\]=', f.read(), re.M)]
    options, verbs = {}, {}
    for words in places:
        known = options.setdefault(words[0], set())
        if words[-1].startswith("-"):
            known.add(words[-1])
        elif len(words) == 2:
            verbs.setdefault(words[0], set()).add(words[1])
    return options, verbs


def told(*args):
    return subprocess.run([CODEBOX, *args], capture_output=True, text=True, timeout=WAIT, check=True).stdout


def test_the_description_is_that_of_help():
    options, verbs = described()
    commands = set(re.findall(r"^  ([a-z]+)  ", told("--help").split("Options:")[0], re.M)) | {"help"}
    same(set(options), commands)
    for command in sorted(commands - {"help"}):
        text = told(command, "--help").split("Examples:")[0]
        said = set()
        for line in text.splitlines():
            if re.match(r"\s+-", line):
                said |= set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", re.split(r"(?<=\S)   ?(?=\S)", line.strip())[0]))
            else:
                said |= set(re.findall(r"(?<=[\[|])--?[a-z][a-z-]*", line))
        said = {o for o in said if o.startswith("--")} - {"--help"}
        same((command, said), (command, {o for o in options[command] if o.startswith("--")}))
        for verb in verbs.get(command, ()):
            contains(text, verb)


run(globals())
