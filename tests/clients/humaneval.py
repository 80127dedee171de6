#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The 164 reference solutions of HumanEval through one `codebox mcp`, driven by the official Python client: in one
session, and again each in a session of its own."""
import sys

sys.dont_write_bytecode = True

import common

path = common.corpus("humaneval.jsonl.gz")
if not path:
    common.skip_all("humaneval.jsonl.gz is not there; CODEBOX_CORPUS names the directory that has it")
common.enter_venv()

import gzip
import json

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters

tap = common.Tap()
AT_ONCE = 4  # sessions


def cell(problem):
    return (f"{problem['prompt']}{problem['canonical_solution']}\n{problem['test']}\ncheck({problem['entry_point']})\n"
            f"print('passed', {problem['task_id']!r})")


def verdict(result, problem):
    return not result.is_error and result.structured_content["stdout"].endswith(f"passed {problem['task_id']}\n")


async def one_session(c, problems):
    session = None
    for p in problems:
        r = await c.call_tool("run_code", {"code": cell(p)})
        tap.ok(verdict(r, p), f"{p['task_id']}, one session", r.content[0].text)
        session = session or r.structured_content["session_id"]
        if r.structured_content["session_id"] != session:
            tap.ok(False, "still the same session", r.content[0].text)


async def own_session(c, p, done):
    r = await c.call_tool("create_session", {})
    if r.is_error:
        done[p["task_id"]] = (False, r.content[0].text)
        return
    session = r.structured_content["session_id"]
    r = await c.call_tool("run_code", {"code": cell(p), "session_id": session})
    done[p["task_id"]] = (verdict(r, p) and r.structured_content["execution_id"] == 1, r.content[0].text)
    await c.call_tool("close_session", {"session_id": session})


async def main():
    with gzip.open(path, "rt") as f:
        problems = [json.loads(line) for line in f]
    tap.equal(len(problems), 164, "problems")
    server = StdioServerParameters(command=common.CODEBOX, args=["mcp"], env=common.SERVER_ENV)
    async with Client(server, mode="legacy", read_timeout_seconds=common.PATIENCE) as c:
        await tap.run_async("one session", one_session, c, problems)
        done = {}
        limit = anyio.Semaphore(AT_ONCE)

        async def bounded(p):
            async with limit:
                await own_session(c, p, done)

        async def all_of_them():
            async with anyio.create_task_group() as tg:
                for p in problems:
                    tg.start_soon(bounded, p)
        await tap.run_async("164 sessions", all_of_them)
        for p in problems:
            passed, text = done.get(p["task_id"], (False, "no answer"))
            tap.ok(passed, f"{p['task_id']}, a session of its own", text)


if __name__ == "__main__":
    common.need_codebox()
    anyio.run(main)
    tap.done()
