#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// codebox mcp as series 2 of the official TypeScript client (npm @modelcontextprotocol/client) uses it: with the
// handshake, and with the era that has none. The steps are those of scenario.py.
import "./daemon.mjs";
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const PATIENCE = 180_000; // until an answer that does not come is a failure; nothing depends on how fast it comes

function skipAll(why) {
	console.log(`1..0 # SKIP ${why}`);
	process.exit(0);
}

const CODEBOX = process.env.CODEBOX || spawnSync("sh", ["-c", "command -v codebox"], { encoding: "utf8" }).stdout.trim();
if (!CODEBOX) skipAll("CODEBOX does not name the program, and there is no codebox on the path");
const setup = spawnSync(path.join(HERE, "setup.sh"), ["node22"], { encoding: "utf8" });
if (setup.status === 77) skipAll(setup.stderr.trim().split("\n").pop());
if (setup.status !== 0) {
	console.log(`Bail out! setup.sh: ${setup.stderr.trim()}`);
	process.exit(1);
}
const require = createRequire(path.join(setup.stdout.trim(), "index.js"));
const { Client } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");
const env = Object.fromEntries(Object.entries(process.env).filter(([k]) => k.startsWith("CODEBOX")));

let count = 0;
let failed = 0;

function ok(passed, name, detail) {
	count++;
	console.log(`${passed ? "ok" : "not ok"} ${count} - ${name}`);
	if (passed) return;
	failed++;
	for (const line of String(JSON.stringify(detail)).slice(0, 3000).split("\n")) console.log(`#   ${line}`);
}

const equal = (got, want, name) => ok(JSON.stringify(got) === JSON.stringify(want), name, { got, want });
const shown = (r) => r.content[0].text;

async function cells(run, name) {
	let r = await run("x = 41\nprint('h\u00e9llo \u{1f600}')\nx");
	ok(!r.isError && shown(r).startsWith("h\u00e9llo \u{1f600}\n41"), `${name}: output, then the value`, r);
	r = await run("x += 1\nx");
	equal(r.structuredContent.result, "42", `${name}: variables are kept from cell to cell`);
	r = await run("import matplotlib.pyplot as plt\n_ = plt.plot([1, 2, 3], [x, 1, 7])");
	const images = r.content.filter((b) => b.type === "image");
	equal(images.map((b) => b.mimeType), ["image/png"], `${name}: a figure comes as an image`);
	const png = Buffer.from(images[0]?.data ?? "", "base64");
	ok(png.length > 1000 && png.readUInt32BE(16) > 100 && png.subarray(-8, -4).toString() === "IEND", `${name}: which is a picture`);
	r = await run("print('before')\n{}['missing']");
	ok(!r.isError && r.structuredContent.error?.name === "KeyError" && shown(r).includes("before"), `${name}: an exception is a result`, r);
	r = await run("while True: pass", { timeout: 1 });
	ok(!r.isError && r.structuredContent.status === "timeout" && r.structuredContent.state_kept, `${name}: time is up`, r);
	equal((await run("x")).structuredContent.result, "42", `${name}: variables survive it`);
	r = await run("1", { session_id: "none-such" });
	ok(r.isError && shown(r).includes("none-such"), `${name}: a session that is not there is named`, r);
}

async function files(call, run, name, session_id) {
	let r = await call("write_file", { path: "in.csv", content: "a,b\n1,\u00e9\n", session_id });
	equal(r.structuredContent.written, 9, `${name}: a file goes in`);
	r = await run("s = open('in.csv', encoding='utf-8').read()\nwith open('out.txt', 'w') as f: _ = f.write(s * 2)");
	const made = r.structuredContent.files?.find((f) => f.path === "out.txt");
	equal(made?.size, 18, `${name}: the file that a cell made is told`);
	r = await call("read_file", { path: "out.txt", session_id });
	equal(r.structuredContent.content, "a,b\n1,\u00e9\n".repeat(2), `${name}: and comes out`);
	r = await run("import time\ntime.sleep(0.5)\nz = x * 2\nz", { background: true });
	ok(["running", "queued"].includes(r.structuredContent.status), `${name}: a run in the background`, r);
	const { execution_id } = r.structuredContent;
	for (let i = 0; i < 9 && ["running", "queued"].includes(r.structuredContent.status); i++)
		r = await call("get_execution", { session_id, execution_id, wait: 20 });
	equal(r.structuredContent.result, "84", `${name}: its result is asked for later`);
}

async function cancellation(run, name) {
	const stop = new AbortController();
	const code = "y = 1\nimport time\nprint('started', flush=True)\ntime.sleep(3000)";
	const onprogress = (p) => p.message?.includes("started") && stop.abort("enough");
	const gave = await run(code, { timeout: 3600 }, { signal: stop.signal, onprogress }).then(() => "an answer", () => "up");
	equal(gave, "up", `${name}: a call is cancelled`);
	equal((await run("y")).structuredContent.result, "1", `${name}: its cell is interrupted, its variables are kept`);
}

async function scenario(name, mode, version) {
	const client = new Client({ name: "codebox-tests", version: "0" }, { versionNegotiation: { mode } });
	await client.connect(new StdioClientTransport({ command: CODEBOX, args: ["mcp"], env }));
	try {
		equal(client.getNegotiatedProtocolVersion(), version, `${name}: the revision that is agreed on`);
		const tools = (await client.listTools()).tools.map((t) => t.name);
		ok(["run_code", "create_session", "list_sessions", "close_session"].every((t) => tools.includes(t)), `${name}: tools`, tools);
		const call = (tool, args, options = {}) => client.callTool({ name: tool, arguments: args }, { timeout: PATIENCE, ...options });
		const { session_id } = (await call("create_session", {})).structuredContent;
		const run = (code, more = {}, options = {}) => call("run_code", { code, session_id, ...more }, options);
		await cells(run, name);
		await files(call, run, name, session_id);
		await cancellation(run, name);
		equal((await call("close_session", { session_id })).structuredContent.closed, true, `${name}: the session is closed`);
	} finally {
		await client.close();
	}
}

for (const [name, mode, version] of [["legacy", "legacy", "2025-11-25"], ["auto", "auto", "2026-07-28"]]) {
	console.log(`# ${name}`);
	try {
		await scenario(name, mode, version);
	} catch (e) {
		ok(false, name, e.stack ?? String(e));
	}
}
console.log(`1..${count}`);
process.exit(failed ? 1 : 0);
