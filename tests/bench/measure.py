# SPDX-License-Identifier: Apache-2.0
"""Interleaved measuring, its statistics, and what is written of them: JSON, Markdown, a chart.

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

import chart
from chart import number


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
        is recorded as a failure and leaves the line; the others continue. Returns {name: [median of each round]}.
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
    text = (f"{f['codebox']}; {f['cores']} cores ({f['processor']}), {f['memory_gib']} GiB, Linux {f['kernel'].partition('-')[0]}, "
            f"Python {f['python']}, image {f['image']}; load {f['load_before']} before and {f['load_after']} after.")
    if report["peers"]:
        text += " Peers: " + ", ".join(f"{n} {v}" for n, v in report["peers"].items()) + "."
    if report["absent"]:
        text += " Absent: " + ", ".join(report["absent"]) + "."
    return text


def markdown(report):
    out = ["# codebox: benchmark results", "", facts_text(report), "",
           "A ratio compares a row with the row of its line that has 1.00: the median, over the rounds, of their ratio in one "
           "round. `tests/bench/README.md` says what each line means, and how to repeat it.", ""]
    for line in report["lines"]:
        spread = [p for p in ("p90", "p99") if all(p in r for r in line["rows"])]
        out += [f"## {line['title']}", "", f"| | {' | '.join(['median', *spread, 'ratio'])} |",
                "|---|---:|---:|" + "---:|" * len(spread)]
        for r in line["rows"]:
            name = f"**{r['name']}**" if r["codebox"] else r["name"]
            cells = [f"{number(r['median'])} {r['unit']}", *[number(r[p]) for p in spread], times(r["ratio"])]
            out.append(f"| {name} | {' | '.join(cells)} |")
        out += [""] + [f"{n}  " for n in line["notes"]] + ([""] if line["notes"] else [])
    if report["failures"]:
        out += ["## Failures", ""] + [f"- {f}" for f in report["failures"]] + [""]
    return "\n".join(out)


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


def as_json(report):
    """A row to a line, so that two runs can be compared by eye."""
    lines = [json.dumps(line | {"rows": None}).replace('"rows": null', '"rows": [\n  ' + ",\n  ".join(
        map(json.dumps, line["rows"])) + "]") for line in report["lines"]]
    return json.dumps(report | {"lines": None}).replace('"lines": null', '"lines": [\n ' + ",\n ".join(lines) + "]") + "\n"


def pages(report):
    """What is written of a report: {name of the file: its text}."""
    return {"results.json": as_json(report), "RESULTS.md": markdown(report), "bench.svg": chart.svg(report)}


def write(report, directory):
    os.makedirs(directory, exist_ok=True)
    for name, text in pages(report).items():
        with open(os.path.join(directory, name), "w", encoding="utf-8") as f:
            f.write(text)
