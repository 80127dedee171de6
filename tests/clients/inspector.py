#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codebox mcp through the command line of the MCP Inspector, in both eras: a new process and connection for each call.
Its --strict looks for tool schemas that some clients cannot take."""
import sys

sys.dont_write_bytecode = True

import asyncio
import json
import os
import signal
import subprocess
import tempfile

import common
from common import PATIENCE
from scenario import Reply, scenario, until_started

tap = common.Tap()


def start(era, home, *args):
    cache = common.setup("node22")
    env = {**{k: os.environ[k] for k in ("LOGNAME", "SHELL", "USER") if k in os.environ}, **common.SERVER_ENV,
           "HOME": home,
           "PATH": os.path.join(cache, "node_modules", "node", "bin") + ":" + os.environ["PATH"]}
    server_env = [w for k, v in common.SERVER_ENV.items() for w in ("-e", f"{k}={v}")]
    return subprocess.Popen(["node", os.path.join(cache, "node_modules", ".bin", "mcp-inspector"), "--cli", *server_env,
                             common.CODEBOX, "mcp",
                             "--protocol-era", era, "-q", "--format", "json", *args], env=env, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)


def inspect(era, home, *args):
    with start(era, home, *args) as cli:
        try:
            out, err = cli.communicate(timeout=PATIENCE)
        finally:
            cli.kill()
    return subprocess.CompletedProcess(args, cli.returncode, out, err)


def tool_call(tool, arguments):
    return "--method", "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments)


async def era_works(era, home):
    client = f"inspector, {era}"
    r = inspect(era, home, "--method", "tools/list", "--strict")
    tap.equal(r.returncode, 0, f"{client}: tools/list --strict finds nothing")
    if r.returncode:
        print("# " + (r.stdout + r.stderr)[-3000:].replace("\n", "\n# "))
    answer = json.loads(r.stdout)
    tools = [t["name"] for t in answer.get("result", answer)["tools"]]

    async def call(tool, arguments):
        r = inspect(era, home, *tool_call(tool, arguments))
        answer = json.loads(r.stdout)
        answer = answer.get("result", answer)
        blocks = answer["content"]
        return Reply(answer.get("structuredContent") or {}, blocks[0].get("text", ""),
                     [b["data"] for b in blocks if b["type"] == "image"], answer.get("isError", False))

    # There is nothing in it to cancel a call with but to end it. It says nothing to the server then, so what is tried
    # here is that a connection which ends has cancelled its calls, in either era (over HTTP only the modern one has).
    async def cancel(tool, arguments):
        with start(era, home, *tool_call(tool, arguments)) as cli:
            try:
                await until_started(call, arguments["session_id"])
                tap.equal(cli.poll(), None, f"{client}: waits for a cell's end")
                cli.terminate()
                out, err = cli.communicate(timeout=PATIENCE)
            finally:
                cli.kill()
        tap.equal((cli.returncode, out), (-signal.SIGTERM, ""), f"{client}: is ended without an answer")

    await scenario(tap, client, call, tools, cancel)
    r = inspect(era, home, *tool_call("none-such", {}))
    tap.ok(r.returncode != 0 and "none-such" in r.stdout + r.stderr, f"{client}: an unknown tool is an error",
           (r.returncode, r.stderr))


async def main():
    for era in ("legacy", "modern"):
        with tempfile.TemporaryDirectory(prefix="cbxinspect") as home:
            await tap.run_async(era, era_works, era, home)


common.setup("node22")
common.need_codebox()
asyncio.run(main())
tap.done()
