#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codebox mcp --profile: what other servers offer, as the official Python client (PyPI mcp) sees it.

The schemas are compared with those that the library itself makes of functions with the same signatures.
"""
import sys

sys.dont_write_bytecode = True

import common

common.enter_venv()

import atexit
import base64
import json
import os
import re
import subprocess
import tempfile
from typing import Annotated, Any

import anyio
import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.server import MCPServer
from mcp.types import TextContent
from pydantic import Field

from common import PATIENCE, Tap, png_facts

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from pypi import Index, own_data  # noqa: E402

tap = Tap()


def connect(profile, *options, env=None):
    return Client(StdioServerParameters(command=common.CODEBOX, args=["mcp", "--profile", profile, *options],
                                        env={**common.SERVER_ENV, **(env or {})}), mode="legacy",
                  read_timeout_seconds=PATIENCE)


# ---- what the servers are, as signatures ----

def codebox_ai(server):
    @server.tool(structured_output=False)
    async def execute_code(code: str, dependencies: list[str] | None = None) -> list[TextContent]: ...

    @server.resource("sessions://")
    async def list_sessions() -> str: ...

    @server.resource("session://{session_id}")
    async def get_session_info(session_id: str) -> str: ...


def codeboxmcp(server):
    @server.tool()
    def exec_code(session_id: str, language: str, code: str) -> dict: ...

    @server.tool()
    def upload_file(session_id: str, blob_url: str = "", filename: str = "") -> dict: ...

    @server.tool()
    def exec_sql(session_id: str, query: str) -> dict: ...

    @server.tool()
    def list_artifacts(session_id: str) -> dict: ...

    @server.tool()
    def destroy_session(session_id: str) -> dict: ...

    @server.tool()
    def list_sessions() -> dict: ...

    @server.tool()
    def session_info(session_id: str) -> dict: ...

    @server.resource("code-interpreter://usage-guide")
    def get_usage_guide() -> str: ...


def code_sandbox(server):
    @server.tool(structured_output=False)
    def run_python_code(code: Annotated[str, Field(description="")]) -> TextContent: ...

    @server.tool(structured_output=False)
    def run_javascript_code(code: Annotated[str, Field(description="")]) -> TextContent: ...

    @server.resource("sandbox://environments")
    def environment_details() -> str: ...


def mcp_code_sandbox(server):
    @server.tool(structured_output=False)
    async def create_sandbox(session_id: str) -> str: ...

    @server.tool(structured_output=False)
    async def close_sandbox(session_id: str) -> str: ...

    @server.tool(structured_output=False)
    async def get_sandbox_status(session_id: str | None = None) -> dict[str, Any]: ...

    @server.tool(structured_output=False)
    async def execute_code(session_id: str, code: str) -> dict[str, Any]: ...

    @server.tool(structured_output=False)
    async def install_package(session_id: str, package_name: str) -> dict[str, Any]: ...

    @server.tool(structured_output=False)
    async def create_run_close(code: str) -> dict[str, Any]: ...

    @server.tool(structured_output=False)
    async def list_files(session_id: str, path: str = "/") -> dict[str, Any]: ...

    @server.tool(structured_output=False)
    async def read_file(session_id: str, file_path: str) -> dict[str, Any]: ...

    @server.tool(structured_output=False)
    async def write_file(session_id: str, file_path: str, content: str) -> dict[str, Any]: ...

    @server.tool(structured_output=False)
    async def upload_file(session_id: str, file_name: str, file_content: str,
                          destination_path: str = "/") -> dict[str, Any]: ...


def without_words(thing):
    """Descriptions are codebox's own."""
    if isinstance(thing, dict):
        return {k: without_words(v) for k, v in thing.items() if k != "description"}
    return [without_words(v) for v in thing] if isinstance(thing, list) else thing


def plain(models):
    return without_words([json.loads(m.model_dump_json(by_alias=True, exclude_none=True)) for m in models])


async def same_interface(c, name, server_name, declare):
    reference = MCPServer("reference")
    declare(reference)
    tap.equal(c.server_info.name, server_name, f"{name}: the server's name")
    tools = (await c.list_tools()).tools
    tap.equal(plain(tools), plain(await reference.list_tools()), f"{name}: names and schemas of the tools")
    tap.ok(all(20 < len(t.description) < 2048 for t in tools), f"{name}: each tool says what it is for")
    tap.equal(plain((await c.list_resources()).resources), plain(await reference.list_resources()),
              f"{name}: resources")
    tap.equal(plain((await c.list_resource_templates()).resource_templates),
              plain(await reference.list_resource_templates()), f"{name}: templates of resources")
    tap.equal((await c.list_prompts()).prompts, [], f"{name}: no prompts")


def texts(result):
    return [b.text for b in result.content if b.type == "text"]


def images(result):
    return [b for b in result.content if b.type == "image"]


def told(result):
    """A dict, as the library prints it: one block of JSON, indented."""
    text = result.content[0].text
    value = json.loads(text)
    tap.ok(not result.is_error and text == json.dumps(value, indent=2, ensure_ascii=False),
           "JSON as the library prints a dict", text)
    return value


async def resource(c, uri):
    return (await c.read_resource(uri)).contents[0].text


# ---- codebox-ai ----

PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"


async def codebox_ai_session():
    async with connect("codebox-ai") as c:
        await same_interface(c, "codebox-ai", "CodeBox-AI", codebox_ai)

        async def run(code, **arguments):
            r = await c.call_tool("execute_code", {"code": code, **arguments})
            tap.ok(not r.is_error, "codebox-ai: an answer is never an error", r)
            return r

        # its README's session, and that each call stands for itself
        r = await run('x = 42\nprint(f"Value of x: {x}")', dependencies=["numpy", "pandas"])
        tap.equal(texts(r), ["Value of x: 42\n"], "codebox-ai: what is printed is a text")
        r = await run('print(f"x is still: {x}")')
        tap.equal(texts(r)[0].splitlines()[:2], ["Error: NameError", "name 'x' is not defined"],
                  "codebox-ai: each call is a session of its own; an exception is a text")
        tap.ok("Traceback" in texts(r)[0] and "print(f" in texts(r)[0], "codebox-ai: with its traceback", texts(r))
        tap.equal(texts(await run("print('a')\n6 * 7")), ["a\n", "42"], "codebox-ai: output and value")
        tap.equal(texts(await run("x = 1")), ["No output."], "codebox-ai: nothing")
        r = texts(await run("for i in range(64): display('x' * 15000 + str(i))\n1/0"))
        tap.ok(len(r) == 65 and "63" in "".join(r) and any("too large for this answer" in t for t in r) and
               "ZeroDivisionError" in r[-1], "codebox-ai: what does not fit is said, and the rest is there",
               [t[:60] for t in r])
        tap.equal(texts(await run("")), ["No output."], "codebox-ai: no code")
        r = await run("print('a'); 1/0")
        tap.equal([len(texts(r)), texts(r)[0]], [2, "a\n"], "codebox-ai: output before an exception")
        r = await run("print('before')\n" + PLOT + "\nprint('after')")
        tap.equal([b.type for b in r.content], ["text", "text", "text", "image"], "codebox-ai: figures come last")
        tap.equal([texts(r)[0], texts(r)[2], images(r)[0].mime_type], ["before\n", "after\n", "image/png"],
                  "codebox-ai: with what was printed before and after")
        tap.ok(png_facts(base64.b64decode(images(r)[0].data)), "codebox-ai: a PNG")
        index.add("of-profile", "1.0", ["of-profile-too"])
        index.add("of-profile-too", "2.0")
        r = await run("import of_profile, of_profile_too; of_profile_too.__version__", dependencies=["numpy", "of-profile"])
        tap.equal(texts(r), ["'2.0'"], "codebox-ai: dependencies are installed, with what they need")
        r = await run("1", dependencies=["no-such-package-xyz"])
        tap.ok(texts(r)[0].startswith("Error: Failed to install dependencies: no-such-package-xyz"),
               "codebox-ai: a package that is not there is told", texts(r))
        r = await run("1", dependencies=["'; import os; os.abort() #", "numpy; rm -rf /", "$(id)"])
        tap.ok(texts(r)[0].startswith("Error: Failed to install dependencies: \"'; import os"),
               "codebox-ai: packages are names, not code", texts(r))
        r = await c.call_tool("execute_code", {})
        tap.ok(texts(r) == ["Error: missing argument: code"], "codebox-ai: no code at all", texts(r))
        tap.equal(await resource(c, "sessions://"), "No active sessions", "codebox-ai: no session is left")
        tap.equal(await resource(c, "session://abc"), "Session abc not found", "codebox-ai: an unknown session")
        async with anyio.create_task_group() as tg:
            tg.start_soon(run, "import time; time.sleep(3)")
            while (text := await resource(c, "sessions://")) == "No active sessions":
                await anyio.sleep(0.02)
            tap.ok(re.fullmatch(r"Active Sessions:\n\nSession ID: (\S+)\nCreated: \d{4}-\d\d-\d\dT[\d:]+\n"
                                r"Last Used: \d{4}-\d\d-\d\dT[\d:]+\nDependencies: None\n\n", text),
                   "codebox-ai: sessions that run are listed", text)
            name = text.split("Session ID: ")[1].split("\n")[0]
            tap.ok((await resource(c, f"session://{name}")).startswith(f"Session ID: {name}\nCreated: "),
                   "codebox-ai: and described")
    async with connect("codebox-ai", "--timeout", "1") as c:
        r = await c.call_tool("execute_code", {"code": "print('a', flush=True)\nwhile True: pass"})
        tap.equal(texts(r), ["a\n", "Error: Execution timed out"], "codebox-ai: the time limit, and what came before")


# ---- codeboxmcp ----

async def codeboxmcp_session():
    async with connect("codeboxmcp") as c:
        await same_interface(c, "codeboxmcp", "Code Interpreter MCP", codeboxmcp)

        async def call(tool, **arguments):
            return told(await c.call_tool(tool, arguments))

        async def run(code, language="python"):
            return await call("exec_code", session_id="chat-1", language=language, code=code)

        tap.ok("exec_code" in await resource(c, "code-interpreter://usage-guide"), "codeboxmcp: the guide")
        info = await call("session_info", session_id="chat-1")
        tap.equal(list(info), ["session_id", "status", "workdir", "input_dir", "output_dir", "blob_upload_enabled",
                               "blob_container", "effective_config"], "codeboxmcp: session_info makes the session")
        tap.equal(info["effective_config"],
                  {"session_ttl": 3600, "idle_timeout": 1800, "exec_timeout": 300, "download_timeout": 120,
                   "max_download_size": 524288000, "blob_sas_expiry_hours": 24}, "codeboxmcp: its limits")
        r = await run("import os\nx = 42\nprint(sorted(os.listdir()), os.getcwd())")
        tap.equal(r, {"session_id": "chat-1", "status": "success",
                      "output": f"[output]\n['input', 'logs', 'output'] {info['workdir']}\n",
                      "new_artifacts": [], "all_artifacts": []}, "codeboxmcp: a cell, and the directories")
        tap.equal((await run("x + 1"))["output"], "[output]\n43", "codeboxmcp: state and value")
        tap.equal((await run("y = 1"))["output"], "(no text output)", "codeboxmcp: no output")
        r = await run("1/0")
        tap.ok(r["status"] == "success" and "ZeroDivisionError" in r["output"] and "\x1b" not in r["output"],
               "codeboxmcp: an exception is output", r)
        out = info["output_dir"]
        r = await run(f"open('{out}/a.txt', 'w').write('abc')\nopen('B.CSV', 'w').write('1,2')\n"
                      "open('notes.txt', 'w').write('n');")
        wanted = [{"filename": "B.CSV", "path": f"{out}/B.CSV", "extension": ".csv", "size_bytes": 3},
                  {"filename": "a.txt", "path": f"{out}/a.txt", "extension": ".txt", "size_bytes": 3}]
        by_name = lambda list_: sorted(list_, key=lambda a: a["path"])
        tap.equal(by_name(r["new_artifacts"]), wanted, "codeboxmcp: results go to output and are told")
        tap.equal(by_name(r["all_artifacts"]), wanted, "codeboxmcp: all of them")
        r = await run(f"open('B.CSV', 'w').write('new')\nos.mkdir('{out}/deep')\n"
                      f"open('{out}/deep/c.json', 'w').write('{{}}');")
        names = sorted(a["path"][len(out) + 1:] for a in r["new_artifacts"])
        tap.ok(len(names) == 2 and re.fullmatch(r"B_\w{6}\.CSV", names[0]) and names[1] == "deep/c.json",
               "codeboxmcp: nothing is overwritten, nested files are told once", names)
        r = await run(f"open('{out}/a.txt', 'a').write('d');")
        tap.equal([[a["filename"], a["size_bytes"]] for a in r["new_artifacts"]], [["a.txt", 4]],
                  "codeboxmcp: an overwritten file is told")
        r = await call("list_artifacts", session_id="chat-1")
        tap.equal([list(r), r["status"], r["count"], len(r["artifacts"])],
                  [["session_id", "status", "artifacts", "count"], "success", 4, 4], "codeboxmcp: list_artifacts")
        r = await c.call_tool("exec_code", {"session_id": "chat-1", "language": "Python", "code": PLOT})
        tap.equal([b.type for b in r.content], ["text", "image"], "codeboxmcp: a figure follows the JSON")
        await run("v=4; cd /tmp", "Shell")
        tap.equal((await run("echo $v $PWD", "bash"))["output"], "[output]\n4 /tmp\n", "codeboxmcp: a shell with state")
        error = lambda text: {"session_id": "chat-1", "status": "error", "error": text}
        tap.equal(await run(" \n"), error("Code is empty"), "codeboxmcp: no code")
        tap.equal(await run("x", "cobol"), error("Language 'cobol' is not enabled or supported"),
                  "codeboxmcp: another language")
        tap.equal(await call("upload_file", session_id="chat-1"),
                  error("Provide 'blob_url' (a public or SAS URL to the file)."), "codeboxmcp: upload_file without URL")
        r = await call("upload_file", session_id="chat-1", blob_url="https://example.com/a.csv")
        tap.ok(r["status"] == "error" and "network" in r["error"], "codeboxmcp: upload_file says why not", r)
        tap.equal(await call("exec_sql", session_id="chat-1", query=" "), error("Query is empty."), "codeboxmcp: no query")
        r = await call("exec_sql", session_id="chat-1", query="SELECT 1")
        tap.ok(r["status"] == "error" and r["error"].startswith("Database not configured."),
               "codeboxmcp: exec_sql says why not", r)
        r = await call("list_sessions")
        tap.equal([r["status"], r["count"], list(r["sessions"][0])],
                  ["success", 1, ["session_id", "age_seconds", "idle_seconds", "workdir"]], "codeboxmcp: list_sessions")
        r = await call("exec_code", session_id="../../etc", language="python", code="1")
        tap.ok(r["status"] == "error" and r["session_id"] == "../../etc", "codeboxmcp: ids are names", r)
        r = await call("exec_code", session_id="x" * 900000, language="python", code="1")
        tap.ok(r["status"] == "error" and len(r["session_id"]) == 200, "codeboxmcp: of any length", str(r)[:500])
        await run("rm -r /workspace/output", "bash")
        r = await run("echo 1 >/workspace/again.csv", "bash")
        tap.equal([a["path"] for a in r["new_artifacts"]], ["/workspace/output/again.csv"], "codeboxmcp: its directories are there for each cell")
        r = await run("from IPython.display import display\nfor i in range(60): display('x' * 60000)")
        tap.ok(r["status"] == "success" and r["output"].startswith("[output]\n'xxx"), "codeboxmcp: much output is cut, and the answer stays JSON")
        for _ in range(2):
            tap.equal(await call("destroy_session", session_id="chat-1"),
                      {"session_id": "chat-1", "status": "success", "message": "Session 'chat-1' destroyed."},
                      "codeboxmcp: destroy_session, of an unknown one too")
        tap.equal(await call("list_artifacts", session_id="chat-1"), error("Session 'chat-1' not found."),
                  "codeboxmcp: it is gone")
    if os.path.isdir(os.path.join(data, "images", "javascript")):
        await codeboxmcp_javascript()
    async with connect("codeboxmcp", "--timeout", "1") as c:
        r = told(await c.call_tool("exec_code", {"session_id": "late", "language": "python",
                                                 "code": "open('t.csv', 'w').close()\nprint('a', flush=True)\nwhile True: pass"}))
        tap.equal([a["filename"] for a in r["new_artifacts"]], ["t.csv"], "codeboxmcp: files of a cell that ran too long")
        tap.ok(r["output"].startswith("[output]\na\n") and "KeyboardInterrupt" in r["output"] and
               r["output"].endswith("\n\n[output]\nExecution timed out"),
               "codeboxmcp: the time limit, where it was met, and what came before", r)
        told(await c.call_tool("destroy_session", {"session_id": "late"}))


async def codeboxmcp_javascript():
    async with connect("codeboxmcp", "--image", "javascript") as c:
        async def run(code, language):
            return told(await c.call_tool("exec_code", {"session_id": "js", "language": language, "code": code}))

        r = await run("const x = 40; console.log('shown'); x + 1", "javascript")
        tap.equal([r["status"], r["output"]], ["success", "[output]\nshown\n\n\n[output]\n41"], "codeboxmcp: a JavaScript cell")
        tap.equal((await run("await Promise.resolve(x + 2)", "js"))["output"], "[output]\n42", "codeboxmcp: its state")
        r = await run("require('fs').writeFileSync('made.json', JSON.stringify({x})); null.y", "javascript")
        tap.ok("TypeError" in r["output"] and [a["filename"] for a in r["new_artifacts"]] == ["made.json"],
               "codeboxmcp: its exceptions and files", r)
        tap.equal((await run("cat output/made.json", "bash"))["output"], '[output]\n{"x":40}', "codeboxmcp: which Bash sees")
        r = await run("1", "python")
        tap.ok('"javascript"' in r.get("error", ""), "codeboxmcp: a language that the image does not have", r)
        told(await c.call_tool("destroy_session", {"session_id": "js"}))


# ---- code-sandbox ----

async def code_sandbox_session():
    async with connect("code-sandbox") as c:
        await same_interface(c, "code-sandbox", "code-sandbox", code_sandbox)

        async def run(code, tool="run_python_code"):
            r = await c.call_tool(tool, {"code": code})
            tap.ok(not r.is_error and len(r.content) == 1, "code-sandbox: one text, never an error", r)
            return r.content[0].text

        tap.equal(await run("print('Hello, World!\\n\\n')"), "Hello, World!", "code-sandbox: output, stripped")
        tap.equal(await run("import numpy, sys\nprint(numpy.arange(3).sum(), __name__)\nprint('e', file=sys.stderr)"),
                  "3 __main__", "code-sandbox: it is a program, and standard error is not told")

        async def failure(code, tool="run_python_code"):
            text = await run(code, tool)
            value = json.loads(text)
            tap.equal([text, value["exit_code"]], [json.dumps(value, indent=2), 1], "code-sandbox: a failure is JSON")
            tap.equal(list(value), ["exit_code", "stderr", "stdout"], "code-sandbox: its members")
            return value["stderr"]

        for code in "x = 1", "42", "":
            tap.equal(await failure(code), "No output, forgot print()?", "code-sandbox: no output")
        text = await failure("print('a')\nraise ValueError('no')")
        tap.ok(text.startswith("Traceback") and text.endswith("ValueError: no") and text.count("ValueError: no") == 1,
               "code-sandbox: an exception", text)
        tap.ok("SyntaxError" in await failure("def"), "code-sandbox: a syntax error")
        await failure("import sys; print('x'); sys.exit(3)")
        for tool in "run_javascript_code", "run_js_code":
            if os.path.isdir(os.path.join(data, "images", "javascript")):
                tap.equal(await run("const f = () => [1, 2];\nconsole.log(f(), 6 * 7)\n", tool), "[ 1, 2 ] 42",
                          f"code-sandbox: {tool}")
                tap.equal(await failure("6 * 7", tool), "No output, forgot console.logs?", f"code-sandbox: {tool}, no output")
                text = await failure("console.log('a'); null.x", tool)
                tap.ok("TypeError" in text, f"code-sandbox: {tool}, an exception", text)
            else:
                tap.ok('"javascript"' in await failure("console.log(1)", tool), f"code-sandbox: {tool} names the image")
        value = json.loads(await resource(c, "sandbox://environments"))
        tap.ok(set(value["python"]) == {"image", "installed_libraries"}, "code-sandbox: environments", value)
    async with connect("code-sandbox", "--timeout", "1", env={"CONTAINER_IMAGE": "python",
                                                              "CONTAINER_LANGUAGE": "python"}) as c:
        r = await c.call_tool("run_python_code", {"code": "while True: pass"})
        tap.ok("timed out" in json.loads(r.content[0].text)["stderr"], "code-sandbox: the time limit", r)
    await chosen_images()
    async with connect("code-sandbox", env={"CONTAINER_IMAGE": "no-such", "CONTAINER_LANGUAGE": "python"}) as c:
        r = await c.call_tool("run_python_code", {"code": "print(1)"})
        tap.ok("no-such" in json.loads(r.content[0].text)["stderr"], "code-sandbox: CONTAINER_IMAGE is used", r)


MARKED = {"name": "marked", "kind": "host", "files": {"etc/mark": "of this image"},
          "interpreters": {"python": {"find": ["/usr/bin/python3", "/usr/local/bin/python3"]}},
          "environment": {"PATH": "/usr/local/bin:/usr/bin:/bin"}}


async def chosen_images():
    """CONTAINER_IMAGE and CONTAINER_LANGUAGE: one image for all tools."""
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/marked.json", "w") as f:
            json.dump(MARKED, f)
        subprocess.run([common.CODEBOX, "image", "build", f"{d}/marked.json"], check=True, env=common.SERVER_ENV)
    python, node = "print(open('/etc/mark').read())", "console.log(process.version)"
    chosen = lambda image, language: {"CONTAINER_IMAGE": image, "CONTAINER_LANGUAGE": language}
    async with connect("code-sandbox", env=chosen("marked", "python")) as c:
        r = await c.call_tool("run_python_code", {"code": python})
        tap.equal(texts(r), ["of this image"], "code-sandbox: CONTAINER_IMAGE runs Python")
        r = await c.call_tool("run_javascript_code", {"code": node})
        tap.ok('"marked"' in json.loads(texts(r)[0])["stderr"], "code-sandbox: and no JavaScript, where it has none", r)
        value = json.loads(await resource(c, "sandbox://environments"))
        tap.equal([value["python"]["image"], value["javascript"]["image"]], ["marked", "marked"],
                  "code-sandbox: environments has it")
    async with connect("code-sandbox", env=chosen("javascript", "javascript")) as c:
        r = texts(await c.call_tool("run_javascript_code", {"code": node}))[0]
        if os.path.isdir(os.path.join(data, "images", "javascript")):
            tap.ok(r.startswith("v"), "code-sandbox: CONTAINER_LANGUAGE=javascript", r)
            r = await c.call_tool("run_python_code", {"code": python})
            tap.ok('"javascript"' in json.loads(texts(r)[0])["stderr"], "code-sandbox: and no Python there", r)
        else:
            tap.ok('"javascript"' in r, "code-sandbox: CONTAINER_LANGUAGE=javascript names the image", r)


# ---- mcp-code-sandbox ----

async def mcp_code_sandbox_session():
    async with connect("mcp-code-sandbox") as c:
        await same_interface(c, "mcp-code-sandbox", "code-sandbox", mcp_code_sandbox)

        async def text(tool, **arguments):
            r = await c.call_tool(tool, arguments)
            tap.ok(not r.is_error and len(r.content) == 1, f"mcp-code-sandbox: {tool} answers with one text", r)
            return r.content[0].text

        async def call(tool, **arguments):
            return told(await c.call_tool(tool, arguments))

        missing = {"error": "No sandbox found with session ID: box. Create a sandbox first."}
        for tool, rest in (("execute_code", {"code": "1"}), ("install_package", {"package_name": "numpy"}),
                           ("list_files", {}), ("read_file", {"file_path": "a"}),
                           ("write_file", {"file_path": "a", "content": ""}),
                           ("upload_file", {"file_name": "a", "file_content": ""})):
            tap.equal(await call(tool, session_id="box", **rest), missing, f"mcp-code-sandbox: {tool} without a sandbox")
        tap.equal(await call("get_sandbox_status", session_id="box"),
                  {"error": "No sandbox found with session ID: box"}, "mcp-code-sandbox: its status")
        tap.equal(await text("create_sandbox", session_id="box"),
                  "Sandbox created successfully with session ID: box", "mcp-code-sandbox: create_sandbox")
        tap.equal(await text("create_sandbox", session_id="box"), "Sandbox with session ID box already exists.",
                  "mcp-code-sandbox: twice")
        tap.ok((await text("create_sandbox", session_id="a/b")).startswith("Failed to create sandbox: session_id"),
               "mcp-code-sandbox: what is not a name")
        tap.equal(await call("get_sandbox_status", session_id="box"),
                  {"status": "active", "session_id": "box", "interpreter_type": "codebox"}, "mcp-code-sandbox: status")
        tap.equal(await call("get_sandbox_status"),
                  {"active_sandbox_count": 1, "active_sessions": ["box"], "interpreter_type": "codebox"},
                  "mcp-code-sandbox: all of them")
        logs = lambda out=[], err=[]: {"stdout": out, "stderr": err}
        run = lambda code: call("execute_code", session_id="box", code=code)
        tap.equal(await run("import sys\nx = 1\nprint('é')\nprint('e', file=sys.stderr)"),
                  {"logs": logs(["é\n"], ["e\n"]), "error": None}, "mcp-code-sandbox: execute_code")
        tap.equal(await run("x += 1; print(x)"), {"logs": logs(["2\n"]), "error": None}, "mcp-code-sandbox: state")
        r = await run("1/0")
        tap.equal([r["logs"], r["error"]["name"], r["error"]["value"], "Traceback" in r["error"]["traceback"]],
                  [logs(), "ZeroDivisionError", "division by zero", True], "mcp-code-sandbox: an exception")
        r = await call("install_package", session_id="box", package_name="numpy")
        tap.equal([list(r), r["package"], list(r["output"]), r["error"]],
                  [["package", "output", "error"], "numpy", ["stdout", "stderr"], None],
                  "mcp-code-sandbox: a package that is there")
        index.add("of-sandbox", "1.0")
        r = await call("install_package", session_id="box", package_name="of-sandbox>=1")
        tap.equal([r["package"], r["error"]], ["of-sandbox>=1", None], "mcp-code-sandbox: a package is installed")
        tap.equal((await run("import of_sandbox; print(of_sandbox.__version__)"))["logs"], logs(["1.0\n"]),
                  "mcp-code-sandbox: and can be imported")
        r = await call("install_package", session_id="box", package_name="no-such-package-xyz")
        tap.ok(list(r) == ["error"] and r["error"].startswith("Error installing package: no-such-package-xyz"),
               "mcp-code-sandbox: and one that is not", r)
        tap.equal(await call("write_file", session_id="box", file_path="/workspace/a/b.txt", content="ä" * 90000),
                  {"path": "/workspace/a/b.txt", "message": "File written successfully"}, "mcp-code-sandbox: write_file")
        tap.equal(await call("read_file", session_id="box", file_path="a/b.txt"),
                  {"path": "a/b.txt", "content": "ä" * 90000}, "mcp-code-sandbox: read_file")
        await run("open('large', 'w').write('x' * 800000); open('quotes', 'w').write('\"' * 300000);"
                  "open('bytes', 'wb').write(bytes(9))")
        for name, why in ("large", "more than"), ("quotes", "more than"), ("bytes", "not a text file"):
            r = await call("read_file", session_id="box", file_path=name)
            tap.ok(list(r) == ["error"] and why in r["error"], f"mcp-code-sandbox: read_file refuses {name}", r)
        await run("for name in 'large', 'quotes', 'bytes': os.remove(name)" .replace("for", "import os\nfor"))
        tap.equal(await call("upload_file", session_id="box", file_name="d.csv", file_content="1,2\n"),
                  {"path": "/workspace/d.csv", "message": "File uploaded successfully"}, "mcp-code-sandbox: upload_file")
        r = await call("upload_file", session_id="box", file_name="e.csv", file_content="", destination_path="/tmp")
        tap.equal(r["path"], "/tmp/e.csv", "mcp-code-sandbox: to another directory")
        tap.equal(await run("print(open('d.csv').read())"), {"logs": logs(["1,2\n\n"]), "error": None},
                  "mcp-code-sandbox: code sees it")
        r = await call("list_files", session_id="box")
        tap.equal([r["path"], sorted(r["files"], key=lambda f: f["name"])],
                  ["/", [{"name": "a", "type": "dir", "path": "/workspace/a"},
                         {"name": "d.csv", "type": "file", "path": "/workspace/d.csv"}]], "mcp-code-sandbox: list_files")
        for tool, rest, start in (("list_files", {"path": "/nowhere"}, "Error listing files: "),
                                  ("read_file", {"file_path": "/nowhere"}, "Error reading file: "),
                                  ("write_file", {"file_path": "/usr/x", "content": ""}, "Error writing file: "),
                                  ("upload_file", {"file_name": "x", "file_content": "", "destination_path": "/usr"},
                                   "Error uploading file: ")):
            r = await call(tool, session_id="box", **rest)
            tap.ok(list(r) == ["error"] and r["error"].startswith(start), f"mcp-code-sandbox: {tool} fails", r)
        r = await call("create_run_close", code="print('hello, world')")
        tap.equal(r, {"logs": logs(["hello, world\n"]), "error": None,
                      "sandbox_status": "created and will be closed automatically", "sandbox_closed": True,
                      "sandbox_removed": True}, "mcp-code-sandbox: create_run_close runs the code that it was given")
        tap.equal((await call("get_sandbox_status"))["active_sandbox_count"], 1, "mcp-code-sandbox: and leaves nothing")
        tap.ok("session_id" in (await call("get_sandbox_status", session_id=7))["error"], "mcp-code-sandbox: errors have its form")
        tap.ok((await text("close_sandbox")).startswith("Failed to close sandbox: missing argument"), "mcp-code-sandbox: these, too")
        tap.equal(await text("close_sandbox", session_id="box"),
                  "Sandbox with session ID box has been successfully closed and all resources freed.",
                  "mcp-code-sandbox: close_sandbox")
        tap.equal(await text("close_sandbox", session_id="box"),
                  "Sandbox with session ID box is not active or has already been closed.", "mcp-code-sandbox: twice")


# ---- the ways in ----

async def ways_in():
    async with connect("native") as c:
        tap.equal(c.server_info.name, "codebox", "native: codebox's own tools")
    r = await anyio.run_process([common.CODEBOX, "mcp", "--profile", "nothing"], check=False)
    tap.ok(r.returncode == 2 and b"is not a profile" in r.stderr, "an unknown profile is refused", r.stderr)
    r = await anyio.run_process([common.CODEBOX, "register", "--profile", "codeboxmcp", "--print", "cursor"])
    tap.ok(b'["mcp","--profile","codeboxmcp"]' in r.stdout, "register passes it", r.stdout)
    for env in {"CONTAINER_IMAGE": "python"}, {"CONTAINER_IMAGE": "python", "CONTAINER_LANGUAGE": "go"}:
        r = await anyio.run_process([common.CODEBOX, "mcp", "--profile", "code-sandbox"], check=False,
                                    env={**os.environ, **env})
        tap.ok(r.returncode == 2 and b"CONTAINER_LANGUAGE" in r.stderr, "half of an image is refused", r.stderr)


async def over_http():
    with tempfile.TemporaryDirectory() as d:
        env = {**os.environ, "CODEBOX_RUNTIME_DIR": f"{d}/run", "CODEBOX_STATE_DIR": f"{d}/state"}
        with open(f"{d}/err", "wb") as err:
            daemon = subprocess.Popen([os.environ["CODEBOX_DAEMON"], "--foreground", "--http", "127.0.0.1:0"], env=env,
                                      stdin=subprocess.DEVNULL, stderr=err)
        try:
            while not (m := re.search(r"http://[^/]+/mcp", open(f"{d}/err").read())):
                await anyio.sleep(0.05)
            await at_paths(m[0])
        finally:
            daemon.terminate()
            daemon.wait()


async def at_paths(url):
    for name, server, tool, arguments in (
            ("codeboxmcp", "Code Interpreter MCP", "list_sessions", {}),
            ("codebox-ai", "CodeBox-AI", "execute_code", {"code": "print(7)"}),
            ("code-sandbox", "code-sandbox", "run_python_code", {"code": "print(7)"}),
            ("mcp-code-sandbox", "code-sandbox", "get_sandbox_status", {})):
        for mode in "legacy", "2026-07-28":
            async with Client(f"{url}/{name}", mode=mode, read_timeout_seconds=PATIENCE) as c:
                r = await c.call_tool(tool, arguments)
                told_name = c.server_info.name if mode == "legacy" else server
                tap.equal([told_name, r.is_error], [server, False], f"{mode} at /mcp/{name}")
    async with httpx2.AsyncClient() as h:
        r = await h.post(f"{url}/nothing", json={})
        tap.equal(r.status_code, 404, "an unknown profile has no path")


async def main():
    await tap.run_async("codebox-ai", codebox_ai_session)
    await tap.run_async("codeboxmcp", codeboxmcp_session)
    await tap.run_async("code-sandbox", code_sandbox_session)
    await tap.run_async("mcp-code-sandbox", mcp_code_sandbox_session)
    await tap.run_async("the ways in", ways_in)
    await tap.run_async("HTTP", over_http)


index = Index()
index.add("something", "1.0")
data = own_data(("python", "javascript"))
with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as f:
    json.dump({"include": ["default"], "packages": {"index": index.url}}, f)
atexit.register(os.unlink, f.name)
for env in os.environ, common.SERVER_ENV:
    env.update(CODEBOX_DATA_DIR=data, CODEBOX_POLICY=f.name)
common.need_codebox()
anyio.run(main)
tap.done()
