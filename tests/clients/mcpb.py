#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make mcpb` makes a bundle that the official tool (npm @anthropic-ai/mcpb) takes, and its command is a server."""
import sys

sys.dont_write_bytecode = True

import json
import os
import shutil
import subprocess
import tempfile

import common
from common import CODEBOX, Tap

MAKE = shutil.which("make")
if not MAKE or not os.path.exists("Makefile"):
    common.skip_all("this runs in a build directory, by make check")
CACHE = common.setup("node22")
NODE = os.path.join(CACHE, "node_modules", "node", "bin", "node")
TOOL = os.path.join(CACHE, "node_modules", "@anthropic-ai", "mcpb", "dist", "cli", "cli.js")
tap = Tap()


def mcpb(*args):
    return subprocess.run([NODE, TOOL, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          stdin=subprocess.DEVNULL, timeout=common.PATIENCE)


def bundle(where):
    # A variable of the outer make must not reach this one.
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    os.unlink("codebox.mcpb")  # make the one that is compared with what was installed
    r = subprocess.run([MAKE, "-s", "mcpb"], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if not tap.ok(r.returncode == 0, "make mcpb", r.stdout):
        return
    with open("codebox.mcpb", "rb") as made, open(os.path.join(os.environ["CODEBOX_SHARE_DIR"], "codebox.mcpb"), "rb") as there:
        tap.equal(made.read(), there.read(), "and that is installed, made at another time: the same bytes")
    out = os.path.join(where, "out")
    r = mcpb("unpack", os.path.abspath("codebox.mcpb"), out)
    tap.ok(r.returncode == 0, "the bundle can be unpacked", r.stdout)
    r = mcpb("validate", os.path.join(out, "manifest.json"))
    tap.ok(r.returncode == 0, "its manifest is valid", r.stdout)
    with open(os.path.join(out, "manifest.json"), encoding="utf-8") as f:
        manifest = json.load(f)
    tap.ok("@" not in json.dumps(manifest), "every variable was filled in", manifest)
    version = subprocess.run([CODEBOX, "--version"], stdout=subprocess.PIPE, text=True).stdout
    tap.ok(manifest["version"] in version, "the version is that of codebox", (manifest["version"], version))
    tap.equal(manifest["compatibility"]["platforms"], ["linux"], "the platform")
    command = manifest["server"]["mcp_config"]["command"]
    tap.ok(os.path.isabs(command) and CODEBOX.endswith(command), "the command is the installed codebox",
           (command, CODEBOX))
    entry = os.path.join(out, manifest["server"]["entry_point"])
    tap.ok(os.access(entry, os.X_OK), "the entry point can be run")
    with open(entry, encoding="utf-8") as f:
        tap.ok(f'exec "{command}" "$@"' in f.read(), "and runs the same program")


def refused(where):
    """The tool would have said no: the check above can fail."""
    path = os.path.join(where, "manifest.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"manifest_version": "0.3", "name": "codebox"}, f)
    tap.ok(mcpb("validate", path).returncode != 0, "a manifest that lacks members is refused")


if not CODEBOX:
    common.skip_all("CODEBOX does not name the program, and there is no codebox on the path")
with tempfile.TemporaryDirectory(prefix="cbxmcpb") as scratch:
    tap.run("bundle", bundle, scratch)
    tap.run("refused", refused, scratch)
tap.done()
