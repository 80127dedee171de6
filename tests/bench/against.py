# SPDX-License-Identifier: Apache-2.0
"""Two installations, in turn: each line is run as a whole by one and then by the other, again and again, every second time
in the other order. So whatever slows the machine for a while meets both, and a ratio is the median of those of all turns.

Only codebox's own rows count. A line that one of them cannot do is named, and why.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile

from chart import number

HERE = os.path.dirname(os.path.abspath(__file__))


def environment(prefix, data):
    """What the bench and codebox itself need to use an installation."""
    def at(*parts):
        path = os.path.join(prefix, *parts)
        if not os.path.exists(path):
            sys.exit(f"bench: {prefix} is not an installation of codebox: there is no {os.path.join(*parts)}")
        return path

    env = dict(os.environ, CODEBOX=at("bin", "codebox"), CODEBOX_DAEMON=at("sbin", "codeboxd"),
               CODEBOX_LIBEXEC_DIR=at("libexec", "codebox"), CODEBOX_SHARE_DIR=at("share", "codebox"))
    env["CODEBOX_IMAGE_BIN"] = os.path.join(env["CODEBOX_LIBEXEC_DIR"], "codebox-image")
    if data:
        env["CODEBOX_DATA_DIR"] = os.path.abspath(data)
    return env


def once(line, env, image):
    """One line by one installation: {row: (median, unit)}, and what went wrong."""
    with tempfile.TemporaryDirectory(prefix="cbxbench") as out:
        r = subprocess.run([sys.executable, os.path.join(HERE, "bench.py"), "--quick", "--ours", "--out", out,
                            *(["--image", image] if image else []), line], env=env, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            with open(os.path.join(out, "results.json"), encoding="utf-8") as f:
                report = json.load(f)
        except OSError:
            return {}, [r.stdout.strip()[-300:]]
    rows = {row["name"]: (row["median"], row["unit"]) for li in report["lines"] for row in li["rows"]
            if row["codebox"] and row["median"]}
    return rows, report["failures"] + [note for li in report["lines"] for note in li["notes"]]


def run(args, names):
    sides = {"old": environment(args.against, args.against_data), "new": dict(os.environ)}
    result = {"turns": args.turns, "old": args.against, "lines": []}
    print(f"{'':68} {'old':>10} {'new':>10}          {'new/old':>8}   lowest to highest")
    for name in names:
        rows, wrong = {}, {}
        for turn in range(args.turns):
            got = {}
            for side in list(sides)[::-1 if turn % 2 else 1]:
                got[side], why = once(name, sides[side], args.image)
                wrong.update(((side, text), None) for text in why)
            for row in got["new"]:
                if row in got["old"]:
                    rows.setdefault(row, []).append((got["old"][row][0], *got["new"][row]))
        line = {"name": name, "rows": [], "notes": [f"{side}: {text}" for side, text in wrong]}
        for row, turns in rows.items():
            ratios = sorted(new / old for old, new, _ in turns)
            line["rows"].append({"name": row, "unit": turns[0][2], "turns": len(turns),
                                 "old": statistics.median(old for old, _, _ in turns),
                                 "new": statistics.median(new for _, new, _ in turns),
                                 "ratio": statistics.median(ratios), "lowest": ratios[0], "highest": ratios[-1]})
        for r in line["rows"]:
            print(f"{name + ': ' + r['name']:68.68} {number(r['old']):>10} {number(r['new']):>10} {r['unit']:8} "
                  f"{r['ratio']:8.3f}   {r['lowest']:.3f} to {r['highest']:.3f}")
        for text in line["notes"]:
            print(f"  ({text})")
        sys.stdout.flush()
        result["lines"].append(line)
    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, "against.json"), "w", encoding="utf-8") as f:
        json.dump(result, f, indent=1)
    print(f"Results: {args.out}/against.json")
    return 0 if all(line["rows"] for line in result["lines"]) else 1
