# SPDX-License-Identifier: Apache-2.0
"""What every client must be able to do, whatever its library makes of the answers.

A client gives two functions: call(tool, arguments) returns a Reply; cancel(tool, arguments) starts a call, gives it up
once the cell has said "started" (in its progress or, since not every client shows that, by a file), and returns.
"""
import asyncio
import base64
import dataclasses

from common import PATIENCE, png_facts

TOOLS = {"run_code", "create_session", "list_sessions", "close_session"}


@dataclasses.dataclass
class Reply:
    structured: dict  # {} when the client shows none
    text: str
    images: list  # base64
    error: bool


async def give_up(call, tool, arguments, keyword):
    """A call that is cancelled once its progress says "started"; `keyword` of call() is for what hears of that."""
    import anyio  # a client's own, where it has that

    started = anyio.Event()

    async def on_progress(progress, total, message):
        if message and "started" in message:
            started.set()

    async with anyio.create_task_group() as tg:
        tg.start_soon(lambda: call(tool, arguments, **{keyword: on_progress}))
        with anyio.fail_after(PATIENCE):
            await started.wait()
        tg.cancel_scope.cancel()


async def until_started(call, session):
    """Until LONG has made its file; files are answered while a cell runs."""
    async def look():
        while (await call("read_file", {"path": "started", "session_id": session})).error:
            await asyncio.sleep(0.02)

    await asyncio.wait_for(look(), PATIENCE)


# Whoever has seen it start, in either way, finds y, and a cell that ends by itself in no test's time.
LONG = "y = 1\nimport time\nopen('started', 'w').close()\nprint('started', flush=True)\ntime.sleep(3000)"


async def scenario(tap, client, call, tools, cancel):
    tap.ok(TOOLS <= set(tools), f"{client}: tools", sorted(tools))
    r = await call("create_session", {})
    session = r.structured["session_id"]
    try:
        await cells(tap, client, call, session)
        await figure(tap, client, call, session)
        await trouble(tap, client, call, session)
        if "write_file" in tools:
            await files(tap, client, call, session)
        if "get_execution" in tools:
            await background(tap, client, call, session)
        await cancel("run_code", {"code": LONG, "session_id": session, "timeout": 3600})
        r = await call("run_code", {"code": "y", "session_id": session})
        tap.equal(r.structured.get("result"), "1", f"{client}: a cancelled cell is interrupted, its variables are kept")
        r = await call("get_execution", {"execution_id": r.structured["execution_id"] - 1, "session_id": session})
        tap.equal(r.structured.get("status"), "cancelled", f"{client}: and says so")
    finally:
        r = await call("close_session", {"session_id": session})
    tap.equal(r.structured.get("closed"), True, f"{client}: the session is closed")
    r = await call("run_code", {"code": "1", "session_id": session})
    tap.ok(r.error and session in r.text, f"{client}: and is refused by name from then on", r)


async def cells(tap, client, call, session):
    r = await call("run_code", {"code": "x = 41\nprint('h\u00e9llo \U0001f600')\nx", "session_id": session})
    tap.ok(not r.error and r.text.startswith("h\u00e9llo \U0001f600\n41"), f"{client}: output, then the value", r)
    tap.equal(r.structured.get("status"), "ok", f"{client}: status")
    r = await call("run_code", {"code": "x += 1\nx", "session_id": session})
    tap.equal(r.structured.get("result"), "42", f"{client}: variables are kept from cell to cell")


async def figure(tap, client, call, session):
    r = await call("run_code", {"code": "import matplotlib.pyplot as plt\n_ = plt.plot([1, 2, 3], [x, 1, 7])",
                                "session_id": session})
    tap.equal(len(r.images), 1, f"{client}: a figure comes as an image")
    width, height, rows = png_facts(base64.b64decode(r.images[0], validate=True))
    tap.ok(width > 100 and height > 100 and rows > 10, f"{client}: which is a picture", (width, height, rows))


async def trouble(tap, client, call, session):
    r = await call("run_code", {"code": "print('before')\n{}['missing']", "session_id": session})
    tap.ok(not r.error and r.structured.get("status") == "error" and r.structured["error"]["name"] == "KeyError",
           f"{client}: an exception is a result", r)
    tap.ok("before" in r.text and "missing" in r.text, f"{client}: with output and traceback", r.text)
    r = await call("run_code", {"code": "while True: pass", "session_id": session, "timeout": 1})
    tap.ok(not r.error and r.structured.get("status") == "timeout" and r.structured["state_kept"],
           f"{client}: time is up", r)
    r = await call("run_code", {"code": "x", "session_id": session})
    tap.equal(r.structured.get("result"), "42", f"{client}: variables survive it")
    r = await call("run_code", {"code": "1", "session_id": "none-such"})
    tap.ok(r.error and "none-such" in r.text, f"{client}: a session that is not there is named", r)


async def files(tap, client, call, session):
    r = await call("write_file", {"path": "in.csv", "content": "a,b\n1,\u00e9\n", "session_id": session})
    tap.equal(r.structured.get("written"), 9, f"{client}: a file goes in")
    r = await call("run_code", {"code": "s = open('in.csv', encoding='utf-8').read()\n"
                                        "with open('out.txt', 'w') as f: _ = f.write(s * 2)",
                                "session_id": session})
    made = {f["path"]: f["size"] for f in r.structured.get("files", [])}
    tap.equal(made.get("out.txt"), 18, f"{client}: the file that a cell made is told")
    r = await call("read_file", {"path": "out.txt", "session_id": session})
    tap.equal(r.structured.get("content"), "a,b\n1,\u00e9\n" * 2, f"{client}: and comes out")


async def background(tap, client, call, session):
    r = await call("run_code", {"code": "import time\ntime.sleep(0.5)\nz = x * 2\nz", "session_id": session,
                                "background": True})
    # A client that takes tasks may have waited for this one's end.
    tap.ok(not r.error and (r.structured.get("status") in ("running", "queued") or r.structured.get("result") == "84"),
           f"{client}: a run in the background", r)
    args = {"session_id": session, "execution_id": r.structured["execution_id"], "wait": 20}
    for _ in range(PATIENCE // 20):
        r = await call("get_execution", args)
        if r.structured.get("status") not in ("running", "queued"):
            break
    tap.equal(r.structured.get("result"), "84", f"{client}: its result is asked for later")
