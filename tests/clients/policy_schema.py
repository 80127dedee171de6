#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The schema of policy files, by an independent validator: it takes the shipped policies and refuses what codebox
refuses."""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from common import CODEBOX, Tap, enter_venv  # noqa: E402

enter_venv()
import jsonschema  # noqa: E402

POLICIES = os.path.join(os.environ["CODEBOX_SHARE_DIR"], "policies")

# What both the schema and codebox refuse, and what both take.
BAD = ['[]', '{"memroy": 1}', '{"limits": {"memroy": 1}}', '{"limits": {"memory": true}}',
       '{"limits": {"memory": "1Q"}}',
       '{"limits": {"memory": 1}}', '{"limits": {"memory": {}}}', '{"limits": {"memory": {"min": 5}}}',
       '{"limits": {"timeout": "5 m"}}', '{"limits": {"processes": 9.5}}', '{"limits": {"sessions": {"max": 3}}}',
       '{"network": "all"}', '{"images": []}', '{"images": ["../x"]}', '{"environment": {"CODEBOX_X": "1"}}',
       '{"mounts": {"allow": [{"path": "srv"}]}}', '{"mounts": {"allow": [{}]}}', '{"mounts": {"deny": []}}',
       '{"mounts": {"roots": "yes"}}',
       '{"environment": {"1": "1"}}', '{"environment": {"A": 1}}', '{"include": "strict"}']
GOOD = ['{}', '{"mounts": {"allow": [{"path": "/srv/a", "writable": true}], "roots": true}}',
        '{"limits": {"memory": 1073741824, "timeout": 1.5, "processes": "12", "ttl": "90"}}',
        '{"limits": {"memory": {"max": "1GiB"}, "idle_timeout": {"default": "500s", "max": "10m"}}}',
        '{"images": ["a", "b.c"], "environment": {"_A1": "", "B": "x"}, "network": "none", "include": ["strict"]}',
        '{"network": "open"}']


def strip(text):
    """JSON without comments, by other means than codebox's."""
    return re.sub(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', lambda m: m.group(1) or "", text, flags=re.S)


def codebox_takes(text):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        f.write(text)
        f.flush()
        return subprocess.run([CODEBOX, "policy", "check", f.name], capture_output=True).returncode == 0


tap = Tap()
with open(os.path.join(POLICIES, "policy.schema.json")) as f:
    schema = json.load(f)
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
files = [f for f in sorted(os.listdir(POLICIES)) if f.endswith(".json") and f != "policy.schema.json"]
files += ["examples/" + f for f in sorted(os.listdir(os.path.join(POLICIES, "examples")))]
for name in files:
    with open(os.path.join(POLICIES, name)) as f:
        faults = [e.message for e in validator.iter_errors(json.loads(strip(f.read())))]
    tap.equal(faults, [], f"{name} is valid")
for text in BAD:
    tap.equal((validator.is_valid(json.loads(text)), codebox_takes(text)), (False, False), f"refused: {text}")
for text in GOOD:
    tap.equal((validator.is_valid(json.loads(text)), codebox_takes(text)), (True, True), f"taken: {text}")
tap.done()
