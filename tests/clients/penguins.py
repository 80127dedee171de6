#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A file of real data copied into a session, grouped and plotted; the table is right and the PNG opens."""
import sys

sys.dont_write_bytecode = True

import common

path = common.corpus("data/penguins.csv")
if not path:
    common.skip_all("data/penguins.csv is not there; CODEBOX_CORPUS names the directory that has it")
common.enter_venv()

import base64
import csv
import os
import subprocess
import tempfile

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters

tap = common.Tap()

TABLE = """import pandas as pd
df = pd.read_csv("penguins.csv")
means = df.groupby("species")["body_mass_g"].mean().round(1)
means"""
PLOT = """import matplotlib.pyplot as plt
ax = means.plot.bar(color="tab:blue")
ax.set_ylabel("body mass (g)")
plt.tight_layout()
plt.savefig("means.png")"""


def expected():
    """The same by hand."""
    sums = {}
    with open(path, newline="") as f:
        for row in csv.DictReader(f):
            if row["body_mass_g"]:
                sums.setdefault(row["species"], []).append(float(row["body_mass_g"]))
    return {k: f"{round(sum(v) / len(v), 1):.1f}" for k, v in sums.items()}


def copy(*arguments):
    return subprocess.run([common.CODEBOX, "cp", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=common.PATIENCE)


async def main():
    server = StdioServerParameters(command=common.CODEBOX, args=["mcp"], env=common.SERVER_ENV)
    async with Client(server, mode="legacy", read_timeout_seconds=common.PATIENCE) as c:
        r = await c.call_tool("create_session", {})
        session = r.structured_content["session_id"]
        r = copy(str(path), f"{session}:penguins.csv")
        tap.ok(r.returncode == 0, "codebox cp into the session", r.stdout)

        r = await c.call_tool("run_code", {"code": TABLE, "session_id": session})
        text = r.content[0].text
        means = expected()
        tap.equal(len(means), 3, "species in the file")
        for species, mean in means.items():
            tap.ok(any(species in line and mean in line for line in text.splitlines()), f"{species}: {mean}", text)

        r = await c.call_tool("run_code", {"code": PLOT, "session_id": session})
        images = [b for b in r.content if b.type == "image"]
        tap.equal([b.mime_type for b in images], ["image/png"], "one figure")
        width, height, rows = common.png_facts(base64.b64decode(images[0].data, validate=True))
        tap.ok(width >= 300 and height >= 200 and rows > 20, "the PNG opens", (width, height, rows))

        with tempfile.TemporaryDirectory() as d:
            out = os.path.join(d, "means.png")
            r = copy(f"{session}:means.png", out)
            tap.ok(r.returncode == 0, "codebox cp out of the session", r.stdout)
            with open(out, "rb") as f:
                tap.ok(common.png_facts(f.read())[0] >= 300, "that PNG opens, too")
        await c.call_tool("close_session", {"session_id": session})


if __name__ == "__main__":
    common.need_codebox()
    anyio.run(main)
    tap.done()
