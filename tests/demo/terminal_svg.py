#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The README's picture of a terminal: a shell on a pseudo-terminal gets what is typed below, and the picture shows what the
shell, codebox repl and codebox run answered. tests/cli/documented.py compares the two.

    terminal_svg.py [PREFIX] > tests/demo/terminal.svg      PREFIX: where codebox is installed (default: _inst)
"""
import fcntl
import os
import re
import struct
import sys
import tempfile
import termios
import textwrap
import xml.sax.saxutils
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
from terminal import Terminal  # noqa: E402

SHELL, PYTHON, END = "$ ", ">>> ", "\x04"
NO_BREAK = "\u00a0"  # what shows SVG may take several spaces for one
TYPED = (
    (SHELL, "codebox repl --session demo"),
    (PYTHON, "import pandas as pd"),
    (PYTHON, "sales = pd.DataFrame({'month': ['Jan', 'Feb', 'Mar'], 'units': [120, 95, 143]})"),
    (PYTHON, "sales.describe().loc[['mean', 'max']]"),
    (PYTHON, "sales.plot(x='month', y='units');"),
    (PYTHON, "open('/home/ada/.ssh/id_ed25519')"),
    (PYTHON, END),
    (SHELL, "codebox run --session demo --timeout 1 -c 'while True: pass'"),
    (SHELL, "codebox run --session demo -c 'int(sales.units.sum())'"),
)
COLUMNS, CELL, LINE, EDGE = 92, 7.8, 18, 16
STYLE = """rect { fill: #0d1117; stroke: #6e7681 }
text { font: 13px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #c9d1d9; white-space: pre }
.typed { fill: #7ee787 }
.said { fill: #e3b341 }"""


def session(env, directory):
    """What the terminal shows, as lines; the session is removed."""
    shell = Terminal(["sh", "-i"], dict(env, PS1=SHELL, ENV=""), directory, term="dumb")
    fcntl.ioctl(shell.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))  # no line of the picture is longer
    shown = ""
    for prompt, text in TYPED:
        shown += shell.see(prompt.encode()).decode() + prompt
        shell.type(text if text == END else text + "\r")
    shown += shell.see(SHELL.encode()).decode()
    shell.type("codebox session rm demo; exit\r")
    shell.end()
    return re.sub(r"\x1b\[\?2004[hl]", "", shown).replace("\r\n", "\n").rstrip().split("\n")


def rows(lines):
    """(kind, text) of the rows on the screen: a long line has several."""
    for line in lines:
        kind = "typed" if line.startswith((SHELL, PYTHON)) else "said" if line.startswith("codebox: ") else "shown"
        for row in textwrap.wrap(line, COLUMNS) or [""]:
            yield kind, row.rstrip()


def svg(lines):
    body, y = [], EDGE
    for kind, row in rows(lines):
        y += LINE
        if row:
            indent = len(row) - len(row.lstrip())
            text = row.lstrip()
            body.append(f'<text class="{kind}" x="{EDGE + indent * CELL:.1f}" y="{y}" textLength="{len(text) * CELL:.1f}">'
                        f"{xml.sax.saxutils.escape(text.replace(' ', NO_BREAK))}</text>")
    width, height = round(COLUMNS * CELL) + 2 * EDGE, y + EDGE
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
            f'<title>codebox at a terminal</title>\n<style>{STYLE}</style>\n'
            f'<rect x="1" y="1" width="{width - 2}" height="{height - 2}" rx="8"/>\n' + "\n".join(body) + "\n</svg>\n")


def main():
    prefix = Path(sys.argv[1] if len(sys.argv) > 1 else HERE.parent.parent / "_inst").resolve()
    env = dict(os.environ, PATH=f"{prefix / 'bin'}:{os.environ['PATH']}", LC_ALL="C.UTF-8")
    with tempfile.TemporaryDirectory() as directory:
        print(svg(session(env, directory)), end="")


if __name__ == "__main__":
    main()
