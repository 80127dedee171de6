# SPDX-License-Identifier: Apache-2.0
"""Cells of one session, from a file (bash.cases says how it is written), run one after another by whoever calls play()."""
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def load(name):
    cases = []
    for line in (HERE / name).read_text(encoding="utf-8").split("\n")[:-1]:
        kind, rest = line[:2], line[2:]
        if kind in (": ", ":"):
            cases.append({"title": rest, "code": [], "output": None, "has": [], "status": "ok", "exit": 0})
        elif not cases:
            assert line.startswith("#") or not line, f"{name}: {line}"
        elif kind in ("= ", "="):
            cases[-1]["output"] = (cases[-1]["output"] or []) + [rest]
        elif kind == "~ ":
            cases[-1]["has"].append(rest)
        elif kind == "! ":
            status, _, code = rest.partition(" ")
            cases[-1].update(status=status, exit=int(code) if code else None)
        else:
            cases[-1]["code"].append(line)
    return cases


def play(name, run):
    """run(code) -> (status, exit status or None, output, with results and tracebacks). How many there were."""
    wrong, cases = [], load(name)
    for case in cases:
        status, code, output = run("\n".join(case["code"]))
        expected = None if case["output"] is None else "\n".join(case["output"]) + "\n"
        good = status == case["status"] and (case["exit"] is None or (code or 0) == case["exit"])
        good = good and all(part in output for part in case["has"])
        if expected is not None:
            good = good and output == expected
        elif not case["has"]:
            good = good and output == ""
        if not good:
            wrong.append(case["title"])
            print(f"# {case['title']}: expected {case}, got {status} {code} {output!r}", file=sys.stderr)
    assert not wrong, wrong
    return len(cases)
