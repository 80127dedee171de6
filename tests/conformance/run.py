#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The official MCP conformance suite against the protocol core and the HTTP listener, both protocol eras, with and without a token.

The program under test is $CODEBOX_CONFORMANCE_FIXTURE, else tests/conformance/fixture beneath the current directory,
where `make check` builds it. The suite's own exit status decides: it counts what a revision requires.
"""
import itertools
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
FIXTURE = os.environ.get("CODEBOX_CONFORMANCE_FIXTURE") or os.path.abspath("tests/conformance/fixture")
REVISIONS = ["2025-11-25", "2026-07-28"]
NUMBERS = itertools.count(1)


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
    print(f"1..{2 * (len(REVISIONS) + 1) + 1}", flush=True)
    with tempfile.TemporaryDirectory() as out:
        token = Path(out) / "token"
        token.touch(0o600)
        token.write_text("of-the-conformance-suite\n")
        # Each revision as everybody may ask, and as one who has to show a token does.
        failed = [serve(command, out), serve(command, out, token)]
    sys.exit(1 if any(failed) else 0)


def serve(command, out, token=None):
    """How much fails."""
    server = subprocess.Popen([FIXTURE, "127.0.0.1:0", *([token] if token else [])], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    url = server.stdout.readline().strip().replace("127.0.0.1", "localhost")
    env, what, failed = dict(os.environ), " with a token" if token else "", 0
    if token:
        failed += said(asked(url) == 401, "who shows no token is refused")
        env.update(CBX_URL=url, CBX_TOKEN=token.read_text().strip(), NODE_OPTIONS=f"--import={HERE / 'token.mjs'}")
    for revision in REVISIONS:
        r = subprocess.run([*command, "server", "--url", url, "--requirements", revision,
                            "-o", os.path.join(out, revision + what)],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, cwd=out, env=env)
        failed += said(r.returncode == 0, f"requirements of {revision}{what}")
        for line in r.stdout[-6000:].splitlines():
            if r.returncode or line.startswith("Total:"):
                print(f"#   {line}")
    server.stdin.close()
    return failed + said(server.wait(60) == 0, f"the server{what} ends when it is told to")


def asked(url):
    """The status of a request without a token."""
    try:
        return urllib.request.urlopen(urllib.request.Request(url, b"{}", {"Content-Type": "application/json"}), timeout=60).status
    except urllib.error.HTTPError as e:
        return e.code


def said(good, name):
    print(f"{'ok' if good else 'not ok'} {next(NUMBERS)} - {name}", flush=True)
    return not good


if __name__ == "__main__":
    main()
