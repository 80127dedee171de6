#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codebox-server(7) from its first line to its last, in one shell of root's: each command ends with status 0, and prints what the
page shows.

    server.py PAGE DIRECTORY [COMMAND]

    DIRECTORY   the shell begins there, as root's does with the packages at hand
    COMMAND     what installs the server here, in place of apt-get
"""
import re
import subprocess
import sys

TAP = iter(range(1, 1000))
MARK = "=== status "


def blocks(source):
    """What the page shows, as a shell gets it."""
    for text in re.findall(r"^\.Bd -literal[^\n]*\n(.*?)^\.Ed$", source, re.M | re.S):
        yield text.replace(r"\e", "\\").splitlines()


def commands(lines):
    """Each command, with the lines that belong to it, and the output that is shown beneath."""
    found, ends = [], None
    for line in lines:
        if ends is None and line.startswith("# "):
            found.append(([line[2:]], []))
        else:
            assert found, f"a block begins with {line!r}"
            command, output = found[-1]
            if ends is not None or command[-1].endswith("\\"):
                command.append(line)
            else:
                output.append(line)
            if line == ends:
                ends = None
                continue
        if ends is None and not found[-1][1]:
            last = found[-1][0][-1]
            heredoc = re.search(r"<<'(\w+)'$", last)
            ends = heredoc[1] if heredoc else "}" if last.endswith("() {") else None
    return found


class Shell:
    def __init__(self, directory):
        self.process = subprocess.Popen(["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        cwd=directory, text=True)

    def run(self, command):
        """Its status, and all that it printed."""
        self.process.stdin.write(f"{command}\nprintf '\\n{MARK}%d\\n' $?\n")
        self.process.stdin.flush()
        said = []
        for line in self.process.stdout:
            if line.startswith(MARK):
                return int(line[len(MARK):]), "".join(said)[:-1]
            said.append(line)
        raise EOFError("the shell has ended: " + "".join(said))


def main(page, directory, installs=None):
    shell = Shell(directory)
    with open(page) as f:
        source = f.read()
    for block in blocks(source):
        for command, output in commands(block):
            text = "\n".join(command)
            if installs and text.startswith("apt-get "):
                text = installs
            status, said = shell.run(text)
            good = status == 0 and (not output or said.rstrip("\n") == "\n".join(output))
            print("ok" if good else "not ok", next(TAP), "-", command[0], flush=True)
            if not good:
                print("\n".join(f"# {line}" for line in [f"status {status}", *said.splitlines()[-12:]]), flush=True)
    n = next(TAP) - 1
    print(f"1..{n}")
    sys.exit(0 if n > 20 else f"{page}: only {n} commands were found")


if __name__ == "__main__":
    main(*sys.argv[1:])
