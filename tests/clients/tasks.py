#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tasks (io.modelcontextprotocol/tasks) with a real codeboxd: let go of a cell, come back for it from elsewhere."""
import base64
import time

from common import PATIENCE, Raw, Tap, need_codebox

VERSION = "2026-07-28"
TASKS = {"extensions": {"io.modelcontextprotocol/tasks": {}}}


class Modern(Raw):
    def call_with(self, capabilities, method, **params):
        meta = {"io.modelcontextprotocol/protocolVersion": VERSION,
                "io.modelcontextprotocol/clientCapabilities": capabilities}
        return self.ask(method, {"_meta": meta, **params})

    def task(self, method, **params):
        return self.call_with(TASKS, method, **params)

    def run_task(self, code, **arguments):
        return self.task("tools/call", name="run_code", arguments={"code": code, "background": True, **arguments})

    def until_over(self, task_id):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            r = self.task("tasks/get", taskId=task_id)["result"]
            if r["status"] != "working":
                return r
            time.sleep(0.05)
        raise TimeoutError(f"the task is still working: {r}")


def lifecycle(tap):
    with Modern() as c:
        s = c.task("tools/call", name="create_session", arguments={})["result"]["structuredContent"]["session_id"]
        made = c.run_task("import time\nfor i in range(3):\n    print('step', i, flush=True); time.sleep(.1)\n'end'",
                          session_id=s)["result"]
        tap.equal((made["resultType"], made["status"]), ("task", "working"), "run_code in the background is a task")
        tap.ok(isinstance(made["ttlMs"], int) and made["ttlMs"] > 0 and isinstance(made["pollIntervalMs"], int),
               "with a time to live and a poll interval", made)
        c.run_task("x = 1", session_id=s)
        over = c.until_over(made["taskId"])
        result = over["result"]
        tap.equal(over["status"], "completed", "it is completed")
        tap.equal(result["structuredContent"]["stdout"], "step 0\nstep 1\nstep 2\n", "with all that was printed")
        tap.equal(result["structuredContent"]["result"], "'end'", "and the value")
        tap.ok(over["lastUpdatedAt"] > over["createdAt"], "its end is later than its beginning", over)
        for i in range(20):  # more than are kept for nobody
            c.task("tools/call", name="run_code", arguments={"code": f"x = {i}", "session_id": s})
        tap.equal(c.task("tasks/get", taskId=made["taskId"])["result"]["result"], result,
                  "twenty cells later it is still there")
        return s, made["taskId"]


def elsewhere(tap, session, task_id):
    with Modern() as c:
        tap.equal(c.task("tasks/get", taskId=task_id)["result"]["status"], "completed",
                  "another connection finds it by its id")
        tap.equal(c.call_with({}, "tasks/get", taskId=task_id)["error"]["code"], -32021,
                  "a client that does not declare tasks is told to")
        wrong = task_id[:-1] + ("a" if task_id[-1] != "a" else "b")
        tap.equal(c.task("tasks/get", taskId=wrong)["error"]["code"], -32602, "an id that is nearly right is unknown")


def stop(tap, session):
    with Modern() as c:
        made = c.run_task("import time\nkept = 7\nprint('begun', flush=True)\ntime.sleep(600)",
                          session_id=session)["result"]
        c.task("tasks/cancel", taskId=made["taskId"])
        over = c.until_over(made["taskId"])
        tap.equal((over["status"], "result" in over), ("cancelled", False), "tasks/cancel ends it")
        made = c.run_task("1 / 0", session_id=session)["result"]
        over = c.until_over(made["taskId"])
        tap.equal((over["status"], over["result"]["isError"], over["result"]["structuredContent"]["error"]["name"]),
                  ("completed", False, "ZeroDivisionError"), "an exception is a result")
        made = c.run_task("import os\nos.kill(os.getpid(), 9)", session_id=session)["result"]
        over = c.until_over(made["taskId"])
        tap.equal((over["status"], over["result"]["isError"]), ("completed", True), "so is the interpreter's death")


def notified(tap, session):
    png = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(2000)).decode()
    with Modern() as c:
        made = c.run_task(f"import base64, time\ntime.sleep(.5)\n"
                          f"n = open('plot.png', 'wb').write(base64.b64decode('{png}'))", session_id=session)["result"]
        c.next_id += 1
        meta = {"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": TASKS}
        c.send({"id": c.next_id, "method": "subscriptions/listen",
                "params": {"_meta": meta, "notifications": {"taskIds": [made["taskId"], "other.1.x"]}}})
        first = c.next()
        tap.equal((first["method"], first["params"]["notifications"]),
                  ("notifications/subscriptions/acknowledged", {"taskIds": [made["taskId"]]}),
                  "a subscription agrees to the tasks that there are")
        told = c.next()
        tap.equal((told["method"], told["params"]["status"]), ("notifications/tasks", "completed"),
                  "the end of the task is told")
        params = told["params"]
        tap.ok(any(b["type"] == "image" for b in params["result"]["content"]), "with the image that it wrote", params)
        got = c.task("tasks/get", taskId=made["taskId"])["result"]
        for extra in ("resultType", "_meta"):
            got.pop(extra, None)
            params.pop(extra, None)
        tap.equal(params, got, "and is what tasks/get says")


def main():
    need_codebox()
    tap = Tap()
    state = {}

    def first():
        state["session"], state["task"] = lifecycle(tap)

    tap.run("a task from its beginning to its end", first)
    if state:
        tap.run("from another connection", lambda: elsewhere(tap, state["session"], state["task"]))
        tap.run("other ends", lambda: stop(tap, state["session"]))
        tap.run("notifications", lambda: notified(tap, state["session"]))
    tap.done()


if __name__ == "__main__":
    main()
