#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The official MCP conformance suite against the protocol core and the HTTP listener, both protocol eras.

The program under test is $CODEBOX_CONFORMANCE_FIXTURE, else tests/conformance/fixture beneath the current directory,
where `make check` builds it. The suite's own exit status decides: it counts what a revision requires.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
FIXTURE = os.environ.get("CODEBOX_CONFORMANCE_FIXTURE") or os.path.abspath("tests/conformance/fixture")
REVISIONS = ["2025-11-25", "2026-07-28"]


def skip_all(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def suite():
    r = subprocess.run([str(HERE / "setup.sh")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if r.returncode == 77:
        skip_all((r.stderr.strip().splitlines() or ["the conformance suite cannot be had"])[-1])
    if r.returncode:
        print(f"Bail out! setup.sh: {r.stderr.strip()}")
        sys.exit(1)
    modules = Path(r.stdout.strip()) / "node_modules"
    return [str(modules / ".bin" / "node"), str(modules / "@modelcontextprotocol/conformance/dist/index.js")]


def main():
    if not os.access(FIXTURE, os.X_OK):
        skip_all(f"{FIXTURE} was not built")
    command = suite()
    server = subprocess.Popen([FIXTURE, "127.0.0.1:0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    url = server.stdout.readline().strip()
    failed = 0
    print(f"1..{len(REVISIONS) + 1}", flush=True)
    with tempfile.TemporaryDirectory() as out:
        for n, revision in enumerate(REVISIONS, 1):
            r = subprocess.run([*command, "server", "--url", url.replace("127.0.0.1", "localhost"),
                                "--requirements", revision, "-o", os.path.join(out, revision)],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, cwd=out)
            print(f"{'not ok' if r.returncode else 'ok'} {n} - requirements of {revision}", flush=True)
            if r.returncode:
                failed += 1
                for line in r.stdout[-6000:].splitlines():
                    print(f"#   {line}")
            else:
                for line in r.stdout.splitlines():
                    if line.startswith("Total:"):
                        print(f"# {line}")
    server.stdin.close()
    status = server.wait(60)
    print(f"{'not ok' if status else 'ok'} {len(REVISIONS) + 1} - the server ends when it is told to", flush=True)
    sys.exit(1 if failed or status else 0)


if __name__ == "__main__":
    main()
