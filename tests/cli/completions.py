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
    """WORDS -> KIND of packaging/completions/commands, which the three are made of."""
    with open(os.path.join(HERE, "../../packaging/completions/commands"), encoding="utf-8") as f:
        fields = [line.split("|") for line in f if "|" in line and line[0] != "#"]
    return {" ".join(words.split()): kind.strip() for words, kind, _ in fields}


def options_of():
    """Each command, or command and verb, with its options; a command with verbs has none of its own."""
    found = {}
    for place in described():
        above, _, last = place.rpartition(" ")
        if last.startswith("-"):
            found[above].add(last)
        else:
            found[place] = set()
    return {place: known for place, known in found.items() if not any(p.startswith(place + " ") for p in found)}


def test_every_shell_offers_every_option():
    box, places = Box(), options_of()
    assert len(places) > 40 and len(places["run"]) > 20, places
    need("bash")
    need("fish")
    for shell in (["bash", "--norc", "-c", f'source "{BASH}"; for p; do read -ra COMP_WORDS <<<"{CODEBOX} $p -"; '
                   'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _codebox; printf "%s\\n" "${COMPREPLY[@]/#/$p: }"; done', "bash"],
                  ["fish", "--no-config", "-c", f'source "{FISH}"; for p in $argv; for d in - --; '
                   'complete -C "codebox $p $d" | string replace -r "^" "$p: "; end; end']):
        r = subprocess.run([*shell, *places], env=with_path(box), capture_output=True, text=True, timeout=WAIT, cwd=box.dir)
        same(r.stderr, "")
        offered = {place: set() for place in places}
        for line in r.stdout.splitlines():
            place, _, rest = line.partition(": ")
            offered[place].add(rest.split("\t")[0])
        for place, known in places.items():
            same((shell[0], place, known - offered[place]), (shell[0], place, set()))
    with open(ZSH, encoding="utf-8") as f:
        table = f.read().partition("_codebox_kind=(\n")[2].partition("\n)\n")[0]
    same(dict(re.findall(r"^\t'([^']+)' '([^']+)'$", table, re.M)), described())


def told(*args):
    return subprocess.run([CODEBOX, *args], capture_output=True, text=True, timeout=WAIT, check=True).stdout


def test_the_description_is_that_of_help():
    commands = set(re.findall(r"^  ([a-z]+)  ", told("--help").split("Options:")[0], re.M)) | {"help"}
    places = [p.split() for p in described()]
    same({p[0] for p in places}, commands)
    option = r"--?[A-Za-z][a-z-]*"
    for command in sorted(commands - {"help"}):
        text = told(command, "--help").split("Examples:")[0]
        said = set()
        for line in text.splitlines():
            if re.match(r"\s+-", line):
                said |= set(re.findall(rf"(?<![\w-]){option}", re.split(r"(?<=\S)   ?(?=\S)", line.strip())[0]))
            else:
                said |= set(re.findall(rf"(?<=[\[|]){option}", line))
        known = {p[-1] for p in places if p[0] == command and p[-1].startswith("-")}
        same((command, said - {"--help"}), (command, known))
        for verb in {p[1] for p in places if p[0] == command and len(p) > 1} - known:
            contains(text, verb)


def test_the_description_is_that_of_the_manual():
    """What a synopsis names is offered at that verb; it need not name all."""
    pages = ""
    for name in "codebox.1", "codebox-exec.1", "codebox-image.1":
        with open(os.path.join(HERE, "../../man", name), encoding="utf-8") as f:
            pages += f.read().partition(".Sh SYNOPSIS\n")[2].partition(".Sh ")[0]
    places = options_of()
    seen = set()
    for text in re.split(r"^\.Nm.*\n", pages, flags=re.M):
        m = re.match(r"\.Cm (.*)\n", text)
        place = m and m.group(1).strip()
        if place not in places:
            continue
        seen.add(place)
        for name in re.findall(r"\bFl (-?[A-Za-z][a-z-]*)", text):
            names = [f"-{name}"] if name.startswith("-") or len(name) == 1 else [f"-{c}" for c in name]
            for one in names:
                contains(places[place] | {"--help"}, one)
    same(set(places) - seen, set())


run(globals())
