# SPDX-License-Identifier: Apache-2.0
"""The chart of a report: for each group a bar of a row, ours in blue, to one scale from zero.

It shows what somebody compares who has to decide; all rows are in the Markdown. Read on light and on dark ground, it
brings no background and no font of its own.
"""
import math
import xml.sax.saxutils

WIDTH, LEFT, RIGHT, BAR, GAP = 760, 240, 90, 15, 34
# line of the report: what stands above the bars, [(row, what stands beside its bar)]
GROUPS = {
    "stack": ("First answer of a cell that uses pandas and IPython, from nothing", [
        ("codebox over MCP, from the pool", "codebox, session ready"),
        ("codebox over MCP, pool empty, interpreter forked", "codebox, interpreter warm"),
        ("codebox over MCP, pool empty, interpreter executed", "codebox, nothing ready"),
        ("bare Python", "bare Python"),
        ("IPython kernel", "IPython kernel")]),
    "start": ("A command from start to end: Python that does nothing", [
        ("codebox run -c pass, from the pool", "codebox run, session ready"),
        ("codebox run -c pass, pool empty, interpreter forked", "codebox run, interpreter warm"),
        ("codebox run -c pass, pool empty, interpreter executed", "codebox run, nothing ready"),
        ("bare Python", "bare Python"),
        ("bubblewrap", "bubblewrap"),
        ("runc, without root", "runc, without root"),
        ("podman, without root", "podman, without root")]),
    "warm": ("A cell in an interpreter that is there: 1 + 1", [
        ("codebox, MCP over stdio", "codebox, over MCP"),
        ("IPython kernel", "IPython kernel")]),
    "compute": ("The same computation", [
        ("codebox", "codebox"),
        ("bare Python", "bare Python"),
        ("bubblewrap", "bubblewrap")]),
    "memory": ("Memory of an idle session with numpy, pandas and matplotlib loaded", [
        ("codebox session, interpreter forked, PSS, mean of 64 alive", "codebox, 64 sessions alive"),
        ("codebox session, interpreter executed, PSS, mean of 16 alive", "codebox, not forked"),
        ("IPython kernel, PSS", "IPython kernel")]),
}
STYLE = """text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600 }
.label { text-anchor: end }
.ours { fill: #2a6fb0 }
.other { fill: #9aa4ae }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .ours { fill: #58a6ff }
  .other { fill: #6e7681 }
}"""


def number(x):
    if x == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(x))))
    return f"{x:,.{min(digits, 3)}f}"


def group(rows, wanted, top):
    """The bars of those rows that were measured, from this height on."""
    shown = [(label, rows[name]) for name, label in wanted if name in rows]
    most = max(row["median"] for _, row in shown)
    for i, (label, row) in enumerate(shown):
        y = top + i * (BAR + 3)
        length = max(1, (WIDTH - LEFT - RIGHT) * row["median"] / most)
        yield (f'<text class="label" x="{LEFT - 8}" y="{y + 12}">{xml.sax.saxutils.escape(label)}</text>'
               f'<rect class="{"ours" if row["codebox"] else "other"}" x="{LEFT}" y="{y}" width="{length:.1f}" '
               f'height="{BAR}"/>'
               f'<text x="{LEFT + length + 6:.1f}" y="{y + 12}">{number(row["median"])} {row["unit"]}</text>')


def svg(report):
    lines = {line["name"]: {row["name"]: row for row in line["rows"]} for line in report["lines"]}
    body, y = [], 20
    for name, (title, wanted) in GROUPS.items():
        rows = lines.get(name, {})
        if not any(row in rows for row, _ in wanted):
            continue
        body.append(f'<text class="title" x="8" y="{y}">{xml.sax.saxutils.escape(title)}</text>')
        bars = list(group(rows, wanted, y + 8))
        body += bars
        y += len(bars) * (BAR + 3) + GAP
    height = y - 12
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">\n'
            f'<title>Medians, less is better; each group has a scale of its own.</title>\n<style>{STYLE}</style>\n'
            + "\n".join(body) + "\n</svg>\n")
