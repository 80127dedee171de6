#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A short run of every fuzz target from its seeds: TAP. Skipped without clang and its libFuzzer."""
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fuzz

RUNS = 10000


def main():
    build = os.environ.get("CODEBOX_FUZZ_BUILD") or os.path.join(os.getcwd(), "fuzz-build")
    names = sorted(fuzz.TARGETS)
    try:
        fuzz.build_targets(build, names)
    except fuzz.Missing as e:
        print(f"1..0 # SKIP {e}")
        return
    except subprocess.CalledProcessError as e:
        print(f"Bail out! the fuzz targets do not build: {e}")
        sys.exit(1)
    failed = 0
    print(f"1..{len(names)}", flush=True)
    for number, name in enumerate(names, 1):
        # A corpus of its own, so that the run is the same whatever a longer one has found before.
        with tempfile.TemporaryDirectory(prefix="cbxfuzz") as corpus:
            r = subprocess.run(fuzz.command(build, name, f"-runs={RUNS}", corpus) + ["-seed=1"], env=fuzz.environment(),
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="backslashreplace")
        failed += r.returncode != 0
        print(f"{'not ok' if r.returncode else 'ok'} {number} - {name}, {RUNS} runs", flush=True)
        if r.returncode:
            for line in r.stdout.splitlines()[-60:]:
                print("#   " + line, flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
