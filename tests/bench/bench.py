#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What codebox costs, beside the peers that are installed, in interleaved runs. See README.md beside this file.

    make bench                        all lines; results in bench/ of the build directory
    bench.py --quick [LINE...]        fewer rounds; only the lines that are named
    bench.py --compare OLD.json       and how it was then
    bench.py --against PREFIX [LINE...]   another installation in turn with this one: medians and ratios
    bench.py --from FILE --out DIR    the page and the chart of an earlier run; measures nothing
"""
import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import against  # noqa: E402
import copies  # noqa: E402,F401  (a line)
import measure  # noqa: E402
from cbxtest import Box, Skip  # noqa: E402
from clients import Kind  # noqa: E402
from lines import LINES, hold  # noqa: E402
from peers import Image, Peers, Runc  # noqa: E402


def options():
    ap = argparse.ArgumentParser(description="Benchmarks of codebox beside its peers.")
    ap.add_argument("lines", nargs="*", metavar="LINE", help="lines to measure, all by default: " + ", ".join(LINES))
    ap.add_argument("--quick", action="store_true", help="fewer rounds")
    ap.add_argument("--image", help="default: python, else host")
    ap.add_argument("--out", default="bench", help="directory for results.json, RESULTS.md and bench.svg")
    ap.add_argument("--compare", metavar="OLD.json", help="show an earlier run beside this one")
    ap.add_argument("--from", dest="old", metavar="FILE", help="use this results.json; measure nothing")
    ap.add_argument("--against", metavar="PREFIX", help="measure another installation in turn with this one")
    ap.add_argument("--against-data", metavar="DIR", help="its CODEBOX_DATA_DIR, if it cannot use this one's images")
    ap.add_argument("--turns", type=int, default=7, help="of each line with --against; default: 7")
    ap.add_argument("--ours", action="store_true", help="no peers")
    args = ap.parse_args()
    for name in args.lines:
        if name not in LINES:
            ap.error(f"unknown line: {name}; choose from {', '.join(LINES)}")
    return args


def enter_venv():
    """Continue under a Python that has jupyter_client, where one can be installed."""
    if os.environ.get("CODEBOX_BENCH_IN_VENV"):
        return
    r = subprocess.run([os.path.join(HERE, "..", "clients", "setup.sh"), "kernel"], stdout=subprocess.PIPE, text=True)
    if r.returncode == 0:
        python = os.path.join(r.stdout.strip(), "bin", "python3")
        os.execve(python, [python, *sys.argv], dict(os.environ, CODEBOX_BENCH_IN_VENV="1"))


def processor():
    with open("/proc/cpuinfo") as f:
        for text in f:
            if text.startswith("model name"):
                return text.partition(":")[2].strip()
    return platform.machine()


def load():
    return "%.2f" % os.getloadavg()[0]


class Bench:
    """What the lines share."""

    def __init__(self, args, report, box, image):
        self.quick, self.report, self.box, self.image = args.quick, report, box, image
        self.share = os.environ.get("CODEBOX_SHARE_DIR") or "/usr/share/codebox"
        ready = os.environ.get("CODEBOX_BENCH_READY", "")
        self.ready = os.path.abspath(ready) if ready and os.access(ready, os.X_OK) else None
        self.tcp = os.path.join(os.path.dirname(self.ready), "tcp") if self.ready else None
        self.peers = Peers(report, image, self.ready or "/bin/true", args.ours)
        self.runcs, self._kinds = [], None

    def kinds(self):
        """Daemons by how a session comes to its interpreter; the first has the settings that everybody has."""
        if not self._kinds:
            self._kinds = [Kind("from the pool", self.image.name, "4", "4"),
                           Kind("pool empty, interpreter forked", self.image.name, "0", "4"),
                           Kind("pool empty, interpreter executed", self.image.name, "0", "0")]
        return self._kinds

    def rounds(self, quick, full):
        return quick if self.quick else full

    def runc_ready(self):
        root = tempfile.mkdtemp(prefix="cbxbench")
        for name in ("bin", "dev", "proc", "sys", "tmp"):
            os.mkdir(os.path.join(root, name))
        shutil.copy(self.ready, os.path.join(root, "bin", "ready"))
        self.runcs.append((Runc(root), root))
        return self.runcs[-1][0]

    def close(self):
        for runc, root in self.runcs:
            runc.close()
            shutil.rmtree(root, ignore_errors=True)
        for kind in self._kinds or []:
            kind.close()
        self.peers.close()


def measure_all(args):
    box = Box(CODEBOX_ZYGOTES="4")
    try:
        image = Image(args.image or box.image("python", "host"), box)
    except Skip as e:
        sys.exit(f"bench: {e}")
    facts = {"kernel": platform.release(), "cores": len(os.sched_getaffinity(0)), "processor": processor(),
             "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)),
             "python": image.version, "image": image.name, "codebox": box("--version").stdout.strip(),
             "quick": args.quick, "load_before": load()}
    report = measure.Report(facts)
    bench = Bench(args, report, box, image)
    for name, why in report.absent.items():
        print(f"{name}: absent ({why})")
    box("session", "ls", check=True)
    held = hold(box)
    for name, (title, unit, f) in LINES.items():
        if args.lines and name not in args.lines:
            continue
        out = report.line(name, title, unit)
        try:
            f(bench, out)
        except Exception as e:
            report.fail(f"{name}: {type(e).__name__}: {e}")
        print(measure.line_text({"title": out.title, "rows": out.rows, "notes": out.notes}), flush=True)
    held.close()
    bench.close()
    facts["load_after"] = load()
    return report.to_json()


def main():
    args = options()
    if args.old:
        with open(args.old) as f:
            measure.write(json.load(f), args.out)
        return 0
    old = None
    if args.compare:
        with open(args.compare) as f:
            old = json.load(f)  # before this run's file may replace it
    if args.against:
        return against.run(args, args.lines or LINES)
    if not args.ours:
        enter_venv()
    report = measure_all(args)
    measure.write(report, args.out)
    print(f"\n{measure.facts_text(report)}\nResults: {args.out}/results.json, RESULTS.md, bench.svg")
    if old:
        print(measure.compare(old, report))
    for text in report["failures"]:
        print(f"FAILED: {text}")
    return 1 if report["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
