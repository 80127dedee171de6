# SPDX-License-Identifier: Apache-2.0
"""Interleaved measuring, its statistics, and what is written of them: JSON, Markdown, a plot.

A Report holds lines, a line holds rows. A row is a name with samples in the line's unit; its ratio is the median of the
ratios, round by round, of its median in that round to that of the line's base: what slows a whole round down, such as a
busy machine, is in both. A row without a base in its line has no ratio.

Nothing here judges a time. What can fail is the work: see Wrong.
"""
import json
import math
import os
import statistics
import time
import xml.sax.saxutils


class Wrong(Exception):
    """The work that was to be measured was not done."""


def check(condition, what):
    if not condition:
        raise Wrong(str(what)[:500])


def percentile(sorted_samples, p):
    """The sample below which p percent lie; with few samples that is the largest."""
    return sorted_samples[min(len(sorted_samples) - 1, math.ceil(p / 100 * len(sorted_samples)) - 1)]


class Line:
    def __init__(self, report, name, title, unit="ms"):
        self.report, self.name, self.title, self.unit = report, name, title, unit
        self.rows, self.notes = [], []
        self.base = None

    def row(self, name, samples, ratio=None, codebox=False, unit=None):
        s = sorted(samples)
        self.rows.append({"name": name, "n": len(s), "median": statistics.median(s), "p90": percentile(s, 90),
                          "p99": percentile(s, 99), "ratio": ratio, "codebox": codebox, "unit": unit or self.unit})

    def note(self, text):
        self.notes.append(text)

    def absent(self, peer):
        self.note(f"{peer}: absent ({self.report.absent[peer]})")

    def interleave(self, variants, base=None, rounds=11, inner=1):
        """Run every variant `inner` times a round, in turn; every second round backwards.

        A variant is a function that does the work, checks it, and returns seconds, when only a part of it counts, or
        anything else for all of it. Names that begin with "codebox" are marked as ours. A variant whose work goes wrong
        is recorded as a failure and leaves the line; the others go on. Returns {name: [median of each round]}.
        """
        variants = dict(variants)
        samples = {name: [] for name in variants}
        medians = {name: [] for name in variants}
        for number in range(-1, rounds):  # the first warms the page cache, and does not count
            for name in list(variants)[::-1 if number % 2 else 1]:
                times = []
                try:
                    for _ in range(inner if number >= 0 else 1):
                        start = time.perf_counter()
                        part = variants[name]()
                        times.append((time.perf_counter() - start if not isinstance(part, float) else part) * 1e3)
                except Exception as e:
                    self.report.fail(f"{self.name}: {name}: {type(e).__name__}: {e}")
                    del variants[name]
                    continue
                if number >= 0:
                    samples[name] += times
                    medians[name].append(statistics.median(times))
        self.base = base if base in variants else None
        for name in variants:
            ratio = None
            if self.base and samples[name]:
                ratio = statistics.median(a / b for a, b in zip(medians[name], medians[self.base]))
            if samples[name]:
                self.row(name, samples[name], ratio, name.startswith("codebox"))
        return {name: medians[name] for name in variants}

    def difference(self, medians, name, minuend, subtrahend):
        """One more row: how much longer one took than another in the same round."""
        if minuend in medians and subtrahend in medians:
            self.row(name, [a - b for a, b in zip(medians[minuend], medians[subtrahend])], codebox=True)


class Report:
    def __init__(self, facts):
        self.facts = facts      # of the machine and the versions
        self.peers = {}         # name: version
        self.absent = {}        # name: why
        self.lines, self.failures = [], []

    def line(self, *args, **kw):
        line = Line(self, *args, **kw)
        self.lines.append(line)
        return line

    def fail(self, text):
        self.failures.append(text)
        print(f"  FAILED: {text}", flush=True)

    def to_json(self):
        return {"format": 1, "facts": self.facts, "peers": self.peers, "absent": self.absent,
                "failures": self.failures,
                "lines": [{"name": li.name, "title": li.title, "base": li.base, "rows": li.rows, "notes": li.notes}
                          for li in self.lines]}


# ---- numbers as text ----

def number(x):
    if x == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(x))))
    return f"{x:,.{min(digits, 3)}f}"


def times(ratio):
    return "" if ratio is None else f"{number(ratio)} x"


def row_text(row):
    spread = f"  p90 {number(row['p90'])}, p99 {number(row['p99'])}" if row["n"] > 1 else ""
    return f"  {row['name']:52} {number(row['median']):>9} {row['unit']:8} {times(row['ratio']):>10}{spread}"


def line_text(line):
    out = [f"\n{line['title']}"] + [row_text(r) for r in line["rows"]] + [f"  ({n})" for n in line["notes"]]
    return "\n".join(out)


# ---- Markdown ----

def facts_text(report):
    f = report["facts"]
    text = (f"{f['cores']} cores ({f['processor']}), {f['memory_gib']} GiB, Linux {f['kernel'].partition('-')[0]}, "
            f"Python {f['python']}, image {f['image']}; load {f['load_before']} before and {f['load_after']} after.")
    if report["peers"]:
        text += " Peers: " + ", ".join(f"{n} {v}" for n, v in report["peers"].items()) + "."
    if report["absent"]:
        text += " Absent: " + ", ".join(report["absent"]) + "."
    return text


def markdown(report):
    out = ["# codebox: benchmark results", "", facts_text(report), ""]
    for line in report["lines"]:
        out += [f"## {line['title']}", "", "| | median | p90 | p99 | ratio | n |", "|---|---:|---:|---:|---:|---:|"]
        for r in line["rows"]:
            name = f"**{r['name']}**" if r["codebox"] else r["name"]
            out.append(f"| {name} | {number(r['median'])} {r['unit']} | {number(r['p90'])} | {number(r['p99'])} | "
                       f"{times(r['ratio'])} | {r['n']} |")
        out += [""] + [f"{n}  " for n in line["notes"]] + [""]
    if report["failures"]:
        out += ["## Failures", ""] + [f"- {f}" for f in report["failures"]] + [""]
    return "\n".join(out)


BEGIN, END = "<!-- make bench: begin -->", "<!-- make bench: end -->"


def readme(report):
    """The README's table: ours in one column, the rest in the other."""
    out = [BEGIN, facts_text(report), "", "| median | codebox | beside it |", "|---|---|---|"]

    def one(r):
        name = r["name"].removeprefix("codebox").lstrip(":, ") or "a session"
        ratio = f" ({times(r['ratio'])})" if r["ratio"] and r["ratio"] != 1 else ""
        return f"{name}: {number(r['median'])} {r['unit']}{ratio}"

    def cell(rows):
        return "<br>".join(map(one, rows))

    for line in report["lines"]:
        if line["rows"]:
            out.append(f"| {line['title']} | {cell([r for r in line['rows'] if r['codebox']])} | "
                       f"{cell([r for r in line['rows'] if not r['codebox']])} |")
    return "\n".join(out + ["", END])


# ---- comparison with an earlier run ----

def compare(old, new):
    before = {(li["name"], r["name"]): r for li in old["lines"] for r in li["rows"]}
    out = [f"\n{'compared with the earlier run':54} {'then':>10} {'now':>10}   {'now/then':>8}  {'ratios':>8}"]
    for line in new["lines"]:
        for r in line["rows"]:
            o = before.get((line["name"], r["name"]))
            if not o or not o["median"]:
                continue
            ratios = f"{r['ratio'] / o['ratio']:8.2f}" if r["ratio"] and o["ratio"] else ""
            out.append(f"  {line['name'] + ': ' + r['name']:52.52} {number(o['median']):>10} {number(r['median']):>10} "
                       f"{r['unit']:4} {r['median'] / o['median']:6.2f}  {ratios}")
    return "\n".join(out)


# ---- plot ----

def svg(report):
    """Bars on a logarithmic scale, a group for each line; a tick at the 90th percentile."""
    esc, width, left, bar = xml.sax.saxutils.escape, 960, 380, 16
    body, y = [], 40
    for line in report["lines"]:
        rows = [r for r in line["rows"] if r["median"] > 0]
        if not rows:
            continue
        low = min(r["median"] for r in rows)
        high = max(max(r["median"], r["p90"]) for r in rows)
        low = 10 ** math.floor(math.log10(low) - 0.3)
        span = max(math.log10(high / low), 0.1)

        def x(value):
            return left + (width - left - 150) * math.log10(max(value, low) / low) / span

        body.append(f'<text x="10" y="{y}" font-weight="bold">{esc(line["title"])}</text>')
        y += 8
        for r in rows:
            colour = "#2a6fb0" if r["codebox"] else "#b0b0b0"
            label = f'{number(r["median"])} {r["unit"]}' + (f', {times(r["ratio"])}' if r["ratio"] else "")
            body.append(f'<text x="{left - 8}" y="{y + 12}" text-anchor="end">{esc(r["name"])}</text>'
                        f'<rect x="{left}" y="{y + 2}" width="{x(r["median"]) - left:.1f}" height="{bar - 4}" '
                        f'fill="{colour}"/>')
            if r["n"] > 1:
                body.append(f'<path d="M{x(r["p90"]):.1f} {y + 1}v{bar - 2}" stroke="#d04040"/>')
            body.append(f'<text x="{max(x(r["median"]), x(r["p90"])) + 6:.1f}" y="{y + 12}">{esc(label)}</text>')
            y += bar
        y += 30
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" font-family="sans-serif" '
            f'font-size="11"><rect width="{width}" height="{y}" fill="white"/><text x="10" y="16">Medians, '
            'logarithmic scale in each group; the red mark is the 90th percentile; blue is codebox.</text>')
    return head + "\n" + "\n".join(body) + "\n</svg>\n"


def write(report, directory):
    os.makedirs(directory, exist_ok=True)
    for name, text in (("bench.json", json.dumps(report, indent=1) + "\n"), ("bench.md", markdown(report)),
                       ("bench.svg", svg(report))):
        with open(os.path.join(directory, name), "w") as f:
            f.write(text)
