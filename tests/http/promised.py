#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What /openapi.json promises holds: a short run of schemathesis (PyPI) finds nothing; with CBX_HTTP_SECONDS, runs by chance for as
long as that."""
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common_http import PATIENCE, Daemon, Skip  # noqa: E402
import cbxtest  # noqa: E402

SETUP = Path(__file__).resolve().parent.parent / "clients" / "setup.sh"


# A range that begins behind the end of its file is well-formed, and cannot be served. And more is taken than is promised: other
# ways to write a time, other paths; what is refused is tried in rest.py.
CONFIG = """
[checks]
positive_data_acceptance.expected-statuses = ["2xx", "304", "401", "403", "404", "409", "410", "416", "429"]
negative_data_rejection.enabled = false

# Which languages there are is the image's matter.
[[operations]]
include-name = "POST /execute"
checks.positive_data_acceptance.enabled = false

# What an archive is, POSIX says.
[[operations]]
include-name = "POST /sessions/{session_id}/files"
checks.positive_data_acceptance.enabled = false

# What a requirement is, PEP 508 says; what a query may be, the database.
[[operations]]
include-name = "POST /sessions/{session_id}/packages"
checks.positive_data_acceptance.enabled = false

[[operations]]
include-name = "POST /sessions/{session_id}/sql"
checks.positive_data_acceptance.enabled = false

# Which programs there are is the image's matter, too, and whether a command has a terminal, or input, its own.
[[operations]]
include-name = "POST /sessions/{session_id}/commands"
checks.positive_data_acceptance.enabled = false

[[operations]]
include-name = "POST /sql"
checks.positive_data_acceptance.enabled = false
"""


def program():
    r = subprocess.run(["sh", str(SETUP), "schemathesis"], stdout=subprocess.PIPE, text=True)
    if r.returncode == 77:
        raise Skip("schemathesis cannot be had")
    assert r.returncode == 0, r
    return os.path.join(r.stdout.strip(), "bin", "schemathesis")


def test_nothing_is_found():
    schemathesis = program()
    # Words that chance makes are names of packages somewhere: without packages, no index is asked.
    with tempfile.NamedTemporaryFile("w", suffix=".json") as policy:
        policy.write('{"include": ["default"], "packages": {"install": false}}')
        policy.flush()
        os.chmod(policy.name, 0o644)
        d = Daemon("--policy", policy.name, tenants={"acme": {"sessions": 4, "policy": {"limits": {"memory": "512M"}}}})
    try:
        directory = os.path.join(d.box.dir, "schemathesis")
        os.mkdir(directory)
        Path(directory, "schemathesis.toml").write_text(CONFIG)
        seconds = float(os.environ.get("CBX_HTTP_SECONDS", 0))
        chance = ["--max-examples", "10"] if seconds else ["--max-examples", "5", "--generation-deterministic"]
        command = [schemathesis, "run", d.url.replace("/mcp", "/openapi.json"), *chance, "--phases", "examples,coverage,fuzzing",
                   "--request-timeout", "90", "--no-color", "--header", f"Authorization: Bearer {d.token('acme')}"]
        until = time.monotonic() + seconds
        while True:
            r = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=PATIENCE + 3600 * (seconds > 0))
            if r.returncode or time.monotonic() >= until:
                break
        tested = re.search(r"Tested: (\d+)", r.stdout)
        there = re.search(r"Operations: +(\d+) selected / (\d+) total", r.stdout)
        assert r.returncode == 0 and tested and there, r.stdout[-6000:] + r.stderr[-2000:]
        assert 20 < int(tested[1]) == int(there[1]) == int(there[2]), r.stdout[-6000:]
    finally:
        assert d.stop() == 0


if __name__ == "__main__":
    cbxtest.run(globals())
